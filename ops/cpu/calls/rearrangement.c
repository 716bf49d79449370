/* Reading calls that rearrange input 0 (rearrangement.h). */
#include "ops/cpu/calls/rearrangement.h"

#include <string.h>

static void set_dense(rearrangement *r, int32_t rank, const int64_t *extents, const int64_t *from) {
  r->rank = rank;
  r->offset = 0;
  r->roomy = false;
  memcpy(r->extents, extents, (size_t)rank * sizeof *extents);
  memcpy(r->from, from, (size_t)rank * sizeof *from);
}

/* Over the extents of output 0; the caller fills in `from`. */
static void set_roomy(rearrangement *r, const reed_desc *out) {
  r->rank = out->rank;
  r->offset = 0;
  r->roomy = true;
  memcpy(r->extents, out->dims, (size_t)out->rank * sizeof *out->dims);
}

reed_status rearrangement_of_transpose(const reed_kernel_call *call, rearrangement *out_r) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t n_perm, strides[REED_MAX_RANK];
  const int64_t *perm = reed_attrs_ints(call->attrs, "perm", &n_perm);
  set_roomy(out_r, out);
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < out->rank; d++) out_r->from[d] = strides[perm && n_perm ? perm[d] : in->rank - 1 - d];
  return REED_OK;
}

reed_status rearrangement_of_expand(const reed_kernel_call *call, rearrangement *out_r) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t strides[REED_MAX_RANK];
  set_roomy(out_r, out);
  if (!cpu_broadcast_strides(in, out, out_r->from))
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "the input does not broadcast to the output");
  cpu_input_strides(call, 0, strides);
  for (int32_t d = 0; d < in->rank; d++)
    if (out_r->from[out->rank - in->rank + d] != 0) out_r->from[out->rank - in->rank + d] = strides[d];
  return REED_OK;
}

/* Each dim becomes (repeat, extent), the first with stride 0. */
reed_status rearrangement_of_tile(const reed_kernel_call *call, rearrangement *out_r) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  int64_t dense[REED_MAX_RANK], extents[STRIDED_MAX_RANK], from[STRIDED_MAX_RANK];
  cpu_dense_strides(in->rank, in->dims, dense);
  for (int32_t d = 0; d < in->rank; d++) {
    extents[2 * d] = in->dims[d] ? out->dims[d] / in->dims[d] : 0;
    from[2 * d] = 0;
    extents[2 * d + 1] = in->dims[d];
    from[2 * d + 1] = dense[d];
  }
  set_dense(out_r, 2 * in->rank, extents, from);
  return REED_OK;
}

/* ONNX 13: starts beyond the ends are clamped as the shape function did; the extent is the output's. */
reed_status rearrangement_of_slice(const reed_kernel_call *call, rearrangement *out_r) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  set_roomy(out_r, out);
  int64_t *from = out_r->from;
  cpu_input_strides(call, 0, from);
  bool has_axes = cpu_present(call, 3), has_steps = cpu_present(call, 4);
  int64_t n = desc_elements(&call->inputs[1]);
  for (int64_t k = 0; k < n; k++) {
    int32_t d =
        has_axes ? cpu_axis(cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank) : (int32_t)k;
    int64_t start = cpu_index_at(call->inputs[1].dtype, call->host_values[1], k);
    int64_t step = has_steps ? cpu_index_at(call->inputs[4].dtype, call->host_values[4], k) : 1;
    if (start < 0) start = start < -in->dims[d] ? -1 : start + in->dims[d];
    if (step > 0) start = start < 0 ? 0 : start;
    if (step < 0) start = start < 0 ? 0 : start >= in->dims[d] ? in->dims[d] - 1 : start;
    if (out->dims[d] == 0) continue;
    out_r->offset += start * from[d];
    /* with one element the step is never taken and might overflow */
    from[d] = out->dims[d] == 1 ? 0 : from[d] * step;
  }
  return REED_OK;
}

/* Channels as (b, b, C) for mode DCR or (C, b, b) for CRD; output [N, C, H, b, W, b], channels last [N, H, b, W, b, C].
 */
reed_status rearrangement_of_depth_to_space(const reed_kernel_call *call, rearrangement *out_r) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  bool crd = strcmp(op_attr_string(call->attrs, "mode"), "CRD") == 0;
  if (op_attr_int(call->attrs, "channels_last")) {
    int64_t c = in[3] / (b * b), block = crd ? 1 : c;
    const int64_t extents[] = {in[0], in[1], b, in[2], b, c};
    const int64_t from[] = {in[1] * in[2] * in[3], in[2] * in[3], b * block, in[3], block, crd ? b * b : 1};
    set_dense(out_r, 6, extents, from);
    return REED_OK;
  }
  int64_t plane = in[2] * in[3], c = in[1] / (b * b), block = crd ? plane : c * plane;
  const int64_t extents[] = {in[0], c, in[2], b, in[3], b};
  const int64_t from[] = {in[1] * plane, crd ? b * b * plane : plane, in[3], b * block, 1, block};
  set_dense(out_r, 6, extents, from);
  return REED_OK;
}

/* Output [N, b, b, C, H/b, W/b], channels last [N, H/b, W/b, b, b, C]. */
reed_status rearrangement_of_space_to_depth(const reed_kernel_call *call, rearrangement *out_r) {
  const int64_t *in = call->inputs[0].dims, b = op_attr_int(call->attrs, "blocksize");
  if (op_attr_int(call->attrs, "channels_last")) {
    const int64_t extents[] = {in[0], in[1] / b, in[2] / b, b, b, in[3]}, row = in[2] * in[3];
    const int64_t from[] = {in[1] * row, b * row, b * in[3], row, in[3], 1};
    set_dense(out_r, 6, extents, from);
    return REED_OK;
  }
  int64_t plane = in[2] * in[3];
  const int64_t extents[] = {in[0], b, b, in[1], in[2] / b, in[3] / b};
  const int64_t from[] = {in[1] * plane, in[3], 1, plane, b * in[3], b};
  set_dense(out_r, 6, extents, from);
  return REED_OK;
}
