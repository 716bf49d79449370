/* A Resize call as one table a resized axis: which input positions an output position reads, with which weights. */
#ifndef OPS_CPU_CALLS_RESIZE_H_
#define OPS_CPU_CALLS_RESIZE_H_

#include "ops/cpu/common/common.h"

typedef struct resize_axis {
  int32_t axis;
  int64_t in, out, taps; /* nearest: taps 1 */
  int32_t *index;        /* out * taps input positions; owned */
  float *weight;         /* out * taps; owned */
  bool *outside;         /* out: tf_crop_and_resize reads outside the input there; owned; NULL: nowhere */
} resize_axis;

typedef struct resize {
  cpu_team team;
  cpu_level level;
  bool nearest;
  reed_desc x, y;
  float extrapolation;
  int32_t n_axes; /* those that change anything */
  resize_axis axes[REED_MAX_RANK];
  int64_t first_bytes, second_bytes; /* of the two intermediate tensors in the workspace */
} resize;

/* From a Resize call; *out_resize is heap memory released by resize_free. */
reed_status resize_open(const reed_kernel_call *call, resize **out_resize) REED_MUST_CHECK;
void resize_free(void *state);

/* For operators that resize by their own loops: which coordinate_transformation_mode the call has, of those that need
 * extents alone. */
reed_status resize_read_mapping(const reed_kernel_call *call, int *out_mapping) REED_MUST_CHECK;
/* What Resize reads for output positions begin..end-1 of an axis of `in` elements that is given `out`: input positions
 * and their weights, two each in mode linear (cubic_a NULL), four in mode cubic. in is 1 to INT32_MAX, out at least 1.
 */
void resize_taps(int mapping, const double *cubic_a, int64_t in, int64_t out, int64_t begin, int64_t end,
                 int32_t *index, float *weight);

#endif
