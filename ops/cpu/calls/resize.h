/* A Resize call as one table per resized axis: for each output position the input positions that it reads, and their
 * weights. */
#ifndef OPS_CPU_CALLS_RESIZE_H_
#define OPS_CPU_CALLS_RESIZE_H_

#include "ops/cpu/calls/resize_formulas.h"
#include "ops/cpu/common/common.h"

typedef struct resize_axis {
  int32_t axis;
  int64_t in, out, taps; /* nearest: taps 1 */
  int32_t *index;        /* out * taps input positions; owned */
  float *weight;         /* out * taps; owned */
  bool *outside;         /* per output coordinate: tf_crop_and_resize reads outside the input; owned; NULL: for none */
} resize_axis;

typedef struct resize {
  cpu_team team;
  cpu_level level;
  bool nearest;
  reed_desc x, y;
  float extrapolation;
  int32_t n_axes; /* axes that change */
  resize_axis axes[REED_MAX_RANK];
  int64_t repeats; /* mode nearest: each element of the last axis is written so often; 0: by its table */
  int64_t first_bytes, second_bytes; /* of the two intermediate tensors in the workspace; in double,
                                        first_bytes is a worker's line */
} resize;

/* Reads the numbers of a Resize call; out_scalings: one for each axis of X. */
void resize_read(const reed_kernel_call *call, resize_settings *out_settings, resize_scaling *out_scalings);
/* True if the axis keeps its elements. */
static inline bool resize_stays(const resize_scaling *a) {
  return a->in == a->out && a->scale == 1 && a->crop_begin == 0 && a->crop_end == 1;
}
/* The taps of each position of an axis. ERROR_UNSUPPORTED: there would be too many. */
reed_status resize_taps_of(const reed_kernel_call *call, const resize_settings *s, const resize_scaling *a,
                           int64_t *out_taps) REED_MUST_CHECK;
/* Reads a Resize call and makes its tables; *out_resize is heap memory released by resize_free. */
reed_status resize_open(const reed_kernel_call *call, resize **out_resize) REED_MUST_CHECK;
void resize_free(void *state);
/* The memory that it holds. */
int64_t resize_bytes(const resize *r);

/* The call's coordinate transformation. */
int resize_read_mapping(const reed_kernel_call *call);
/* The input positions and weights for output positions begin..end-1 of an axis that is resized from `in` to `out`
 * elements: two each in mode linear (cubic_a NULL), four in mode cubic. in is 1 to INT32_MAX, out at least 1. */
void resize_taps(int mapping, const double *cubic_a, int64_t in, int64_t out, int64_t begin, int64_t end,
                 int32_t *index, float *weight);

#endif
