/* Resize element by element: the sum over the taps of all axes at once, in double. Integers are rounded to nearest even
 * and saturate. The kernel: ops/cpu/image/resize.c. */
#include <math.h>

#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/common.h"

typedef struct job {
  const resize *r;
  const char *x;
  char *y;
} job;

static double element_at(const job *j, const int64_t *position) {
  const resize *r = j->r;
  int64_t n_taps = 1, strides[REED_MAX_RANK], fixed = 0;
  const resize_axis *tables[REED_MAX_RANK] = {NULL};
  size_t bytes = reed_dtype_bytes(r->x.dtype);
  cpu_dense_strides(r->x.rank, r->x.dims, strides);
  for (int32_t i = 0; i < r->n_axes; i++) {
    tables[r->axes[i].axis] = &r->axes[i];
    n_taps *= r->axes[i].taps;
    if (r->axes[i].outside && r->axes[i].outside[position[r->axes[i].axis]]) return (double)r->extrapolation;
  }
  for (int32_t axis = 0; axis < r->x.rank; axis++)
    if (!tables[axis]) fixed += position[axis] * strides[axis];
  double sum = 0;
  for (int64_t tap = 0; tap < n_taps; tap++) {
    int64_t offset = fixed, rest = tap;
    double weight = 1;
    for (int32_t i = 0; i < r->n_axes; i++) {
      const resize_axis *a = &r->axes[i];
      int64_t at = position[a->axis] * a->taps + rest % a->taps;
      rest /= a->taps;
      weight *= (double)a->weight[at];
      offset += a->index[at] * strides[a->axis];
    }
    sum += weight * reed_dtype_read(r->x.dtype, j->x + (size_t)offset * bytes);
  }
  return sum;
}

/* Copies the one element that nearest reads, so that 64-bit integers keep all their bits. */
static void copy_nearest(const job *j, const int64_t *position, char *to) {
  const resize *r = j->r;
  int64_t strides[REED_MAX_RANK], offset = 0, moved[REED_MAX_RANK];
  size_t bytes = reed_dtype_bytes(r->x.dtype);
  cpu_dense_strides(r->x.rank, r->x.dims, strides);
  memcpy(moved, position, sizeof moved);
  for (int32_t i = 0; i < r->n_axes; i++) {
    const resize_axis *a = &r->axes[i];
    if (a->outside && a->outside[position[a->axis]]) {
      reed_dtype_write(r->x.dtype, to, (double)r->extrapolation);
      return;
    }
    moved[a->axis] = a->index[position[a->axis]];
  }
  for (int32_t axis = 0; axis < r->x.rank; axis++) offset += moved[axis] * strides[axis];
  memcpy(to, j->x + (size_t)offset * bytes, bytes);
}

static void resize_elements(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const resize *r = j->r;
  size_t bytes = reed_dtype_bytes(r->y.dtype);
  bool whole = r->y.dtype != REED_F32 && r->y.dtype != REED_F64;
  for (int64_t i = begin; i < end; i++) {
    int64_t position[REED_MAX_RANK] = {0}, rest = i;
    for (int32_t axis = r->y.rank - 1; axis >= 0; axis--) {
      position[axis] = rest % r->y.dims[axis];
      rest /= r->y.dims[axis];
    }
    char *to = j->y + (size_t)i * bytes;
    if (r->nearest) {
      copy_nearest(j, position, to);
    } else {
      double value = element_at(j, position);
      reed_dtype_write(r->y.dtype, to, whole ? rint(value) : value);
    }
  }
}

static reed_status run_resize(const void *state, const reed_kernel_buffers *buffers) {
  const resize *r = state;
  job j = {r, buffers->inputs[0], buffers->outputs[0]};
  int64_t n = desc_elements(&r->y), taps = 1;
  for (int32_t i = 0; i < r->n_axes && !r->nearest; i++) taps *= r->axes[i].taps;
  return cpu_parallel(cpu_team_for(r->team, n * (256 + 64 * taps)), n, 1, resize_elements, &j);
}

reed_status reference_prepare_resize(const reed_kernel_call *call, reed_kernel *out_kernel) {
  resize *r;
  reed_status status = resize_open(call, &r);
  if (status != REED_OK) return status;
  *out_kernel = (reed_kernel){run_resize, r, resize_free, 0, resize_bytes(r)};
  return REED_OK;
}
