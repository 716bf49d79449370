/* Normalisation calls read as extents, for the kernels and the reference. */
#ifndef OPS_CPU_CALLS_NORM_H_
#define OPS_CPU_CALLS_NORM_H_

#include <math.h>

#include "ops/cpu/formulas/activation.h"

typedef enum norm_kind { NORM_BATCH, NORM_INSTANCE, NORM_GROUP, NORM_LAYER, NORM_RMS } norm_kind;

typedef struct norm {
  reed_dtype dtype;
  reed_dtype parameters[5]; /* dtypes of the inputs; REED_NONE: absent */
  reed_dtype results[3];    /* dtypes of the outputs; REED_NONE: absent */
  cpu_team team;
  cpu_level level;
  bool training; /* batch: statistics of this batch */
  double epsilon, momentum;
  bool centred;   /* the mean is subtracted; false for RMSNormalization */
  bool per_group; /* group: scale and shift have one element per group, else per channel */
  int64_t shared; /* channels that share their statistics: 1, or a group of them */
  /* batch, instance and group: X is [outer][channels][inner]. layer and RMS: [outer][inner], channels 1 */
  int64_t outer, channels, inner;
  /* layer: how Scale and B repeat over the normalised extents */
  int32_t rank;
  int64_t dims[REED_MAX_RANK], scale_strides[REED_MAX_RANK], shift_strides[REED_MAX_RANK];
  bool plain;       /* scale and shift have all `inner` elements */
  activation after; /* of Y */
} norm;

reed_status norm_read(const reed_kernel_call *call, norm_kind kind, norm *out_norm) REED_MUST_CHECK;

/* Index of channel c's element in scale and shift. */
static inline int64_t norm_parameter_of(const norm *n, int64_t c) { return n->per_group ? c / n->shared : c; }
/* Element k of input i as a double. */
static inline double norm_parameter(const norm *n, const reed_kernel_buffers *buffers, int i, int64_t k) {
  return reed_dtype_read(n->parameters[i],
                         (const char *)buffers->inputs[i] + (size_t)k * reed_dtype_bytes(n->parameters[i]));
}
/* The definition of all normalisations but RMS: x becomes (x - mean) times this factor. */
static inline double norm_factor(const norm *n, double variance) { return 1 / sqrt(variance + n->epsilon); }
/* The same of a row, layer or RMS: RMSNormalization subtracts 0 and divides by the root of the mean of the squares. */
static inline double norm_row_factor(const norm *n, double *mean, double variance) {
  if (n->centred) return norm_factor(n, variance);
  variance += *mean * *mean;
  *mean = 0;
  return norm_factor(n, variance);
}
/* Writes element k of output i if the call has this output. */
static inline void norm_result(const norm *n, const reed_kernel_buffers *buffers, int i, int64_t k, double value) {
  if (n->results[i] != REED_NONE)
    reed_dtype_write(n->results[i], (char *)buffers->outputs[i] + (size_t)k * reed_dtype_bytes(n->results[i]), value);
}
/* Writes the two optional outputs of row k. */
static inline void norm_row_results(const norm *n, const reed_kernel_buffers *buffers, int64_t k, double mean,
                                    double factor) {
  norm_result(n, buffers, 1, k, mean);
  norm_result(n, buffers, 2, k, factor);
}

#endif
