/* The activation at the end of a convolution, a matrix product or a normalisation (ops/activation.def). */
#ifndef OPS_CPU_FORMULAS_ACTIVATION_H_
#define OPS_CPU_FORMULAS_ACTIVATION_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/activation_loops.h"

/* alpha and beta: the operator's attributes of these names, or Clip's lower and upper limit. */
typedef struct activation {
  activation_kind kind;
  double alpha, beta;
  cpu_level level; /* of the loops */
} activation;

/* Reads the call's attributes. */
void activation_read(const reed_kernel_call *call, activation *out_activation);
/* True if the loops of products end with the activation themselves: none, or ReLU. */
static inline bool activation_ends_tiles(const activation *a) {
  return a->kind == ACTIVATION_NONE || a->kind == ACTIVATION_RELU;
}
/* One element, computed in double. */
double activation_at(const activation *a, double x);
/* In place over n floats, on the calling thread: for floats that have just been written and are still in the cache. */
void activation_row(const activation *a, float *x, int64_t n);
/* In place over n floats. */
reed_status activation_apply(const activation *a, cpu_team team, float *x, int64_t n) REED_MUST_CHECK;

#endif
