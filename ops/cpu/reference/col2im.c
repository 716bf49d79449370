/* Col2Im element by element: the sum, in the widest type, of the block's elements whose windows put them there. The
 * kernel: ops/cpu/image/col2im.c. */
#include "ops/cpu/calls/col2im.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/common/common.h"

/* The column that puts element `block` of a block at this place of the image; -1: none. */
static int64_t column_at(const window *w, int64_t block, int64_t place) {
  int64_t column = 0, stride = 1;
  for (int32_t axis = w->n - 1; axis >= 0; axis--) {
    int64_t from_first = place % w->in[axis] + w->pad_begin[axis] - block % w->kernel[axis] * w->dilation[axis];
    if (from_first < 0 || from_first % w->stride[axis] || from_first / w->stride[axis] >= w->out[axis]) return -1;
    column += from_first / w->stride[axis] * stride;
    stride *= w->out[axis];
    place /= w->in[axis];
    block /= w->kernel[axis];
  }
  return column;
}

static reed_status run_col2im(const void *state, const reed_kernel_buffers *buffers) {
  const col2im *c = state;
  for (int64_t i = 0; i < c->planes * c->image; i++) {
    __int128 whole = 0;
    long double sum = 0;
    for (int64_t block = 0; block < c->block && c->windows; block++) {
      int64_t column = column_at(&c->w, block, i % c->image);
      if (column < 0) continue;
      int64_t from = (i / c->image * c->block + block) * c->windows + column;
      if (reference_is_float(c->dtype)) sum += reference_read_float(c->dtype, buffers->inputs[0], from);
      else whole += reference_read_int(c->dtype, buffers->inputs[0], from);
    }
    if (reference_is_float(c->dtype)) reference_write_float(c->dtype, buffers->outputs[0], i, sum);
    else reference_write_int(c->dtype, buffers->outputs[0], i, whole);
  }
  return REED_OK;
}

reed_status reference_prepare_col2im(const reed_kernel_call *call, reed_kernel *out_kernel) {
  col2im c;
  reed_status status = col2im_read(call, &c);
  if (status != REED_OK) return status;
  void *state = mem_copy(&c, sizeof c);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_col2im, state);
  return REED_OK;
}
