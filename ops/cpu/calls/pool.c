/* Reading a pooling call: its window and its planes. */
#include "ops/cpu/calls/pool.h"

void pool_read(const reed_kernel_call *call, pool_kind kind, pool *p) {
  const reed_desc *x = &call->inputs[0];
  *p = (pool){.dtype = x->dtype, .team = cpu_env_team(call), .level = cpu_level_now()};
  if (kind == POOL_GLOBAL) {
    p->mean = op_id_of(call->op) == OP_GlobalAveragePool;
    p->w.n = 1;
    p->w.in[0] = p->w.kernel[0] = cpu_product(x->dims, 2, x->rank);
    p->w.out[0] = p->w.stride[0] = p->w.dilation[0] = 1;
  } else {
    int64_t n_axes;
    window_init(call, reed_attrs_ints(call->attrs, "kernel_shape", &n_axes), &p->w);
    p->mean = kind == POOL_AVERAGE;
    p->include_pad = p->mean && op_attr_int(call->attrs, "count_include_pad") != 0;
    p->column_major = kind == POOL_MAX && op_attr_int(call->attrs, "storage_order") != 0;
    p->with_indices = call->n_outputs > 1 && call->outputs[1].dtype != REED_NONE;
  }
  if (kind == POOL_LP || op_id_of(call->op) == OP_GlobalLpPool) p->power = op_attr_int(call->attrs, "p");
  p->planes = x->dims[0] * x->dims[1];
  p->in_plane = cpu_product(p->w.in, 0, p->w.n);
  p->out_plane = cpu_product(p->w.out, 0, p->w.n);
  p->taps = 1;
  for (int32_t i = 0; i < p->w.n; i++) p->taps *= p->w.kernel[i] < p->w.in[i] ? p->w.kernel[i] : p->w.in[i];
  cpu_dense_strides(p->w.n, p->w.in, p->in_stride);
}

int64_t pool_index(const pool *p, int64_t plane, int64_t offset) {
  if (!p->column_major) return plane * p->in_plane + offset;
  int64_t index = 0, stride = 1;
  for (int32_t axis = 0; axis < p->w.n; axis++) {
    index += offset / p->in_stride[axis] % p->w.in[axis] * stride;
    stride *= p->w.in[axis];
  }
  return plane * p->in_plane + index;
}
