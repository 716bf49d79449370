/* Reading a normalisation call: its planes or rows, and how scale and shift repeat over them. */
#include "ops/cpu/calls/norm.h"

static reed_status read_layer(const reed_kernel_call *call, norm *n) {
  const reed_desc *x = &call->inputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), x->rank);
  n->outer = cpu_product(x->dims, 0, axis);
  n->inner = cpu_product(x->dims, axis, x->rank);
  n->channels = 1;
  reed_desc part = {x->dtype, x->rank - axis, {0}};
  memcpy(part.dims, x->dims + axis, (size_t)part.rank * sizeof *part.dims);
  n->rank = part.rank;
  memcpy(n->dims, part.dims, sizeof part.dims);
  n->plain = true;
  for (int32_t i = 1; i <= 2; i++) {
    if (!cpu_present(call, i)) continue;
    if (!cpu_broadcast_strides(&call->inputs[i], &part, i == 1 ? n->scale_strides : n->shift_strides)) {
      char a[96], b[96];
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "%s does not broadcast to %s",
                              desc_text(&call->inputs[i], a, sizeof a), desc_text(&part, b, sizeof b));
    }
    n->plain = n->plain && desc_elements(&call->inputs[i]) == n->inner;
  }
  return REED_OK;
}

/* Groups of channels; scale and bias have one element per channel (opset 21) or per group (18). */
static reed_status read_groups(const reed_kernel_call *call, norm *n) {
  int64_t groups = op_attr_int(call->attrs, "num_groups");
  if (n->channels > 0) n->shared = n->channels / groups;
  n->per_group = desc_elements(&call->inputs[1]) == groups && groups != n->channels;
  for (int32_t i = 1; i <= 2; i++)
    if (desc_elements(&call->inputs[i]) != (n->per_group ? groups : n->channels))
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "input %d has %lld elements for %lld channels in %lld groups", i,
                              (long long)desc_elements(&call->inputs[i]), (long long)n->channels, (long long)groups);
  return REED_OK;
}

reed_status norm_read(const reed_kernel_call *call, norm_kind kind, norm *n) {
  const reed_desc *x = &call->inputs[0];
  *n = (norm){.dtype = x->dtype,
              .centred = kind != NORM_RMS,
              .shared = 1,
              .team = cpu_env_team(call),
              .level = cpu_level_now(),
              .epsilon = op_attr_float(call->attrs, "epsilon"),
              .momentum = kind == NORM_BATCH ? op_attr_float(call->attrs, "momentum") : 0,
              .training = kind == NORM_BATCH && op_attr_int(call->attrs, "training_mode") != 0};
  activation_read(call, &n->after);
  for (int32_t i = 0; i < call->n_inputs && i < 5; i++) n->parameters[i] = call->inputs[i].dtype;
  for (int32_t i = 0; i < call->n_outputs && i < 3; i++) n->results[i] = call->outputs[i].dtype;
  if (kind == NORM_LAYER || kind == NORM_RMS) return read_layer(call, n);
  n->outer = x->rank > 0 ? x->dims[0] : 1;
  n->channels = x->rank > 1 ? x->dims[1] : 1;
  n->inner = cpu_product(x->dims, 2, x->rank);
  if (kind == NORM_GROUP) return read_groups(call, n);
  for (int32_t i = 1; i < call->n_inputs; i++)
    if (desc_elements(&call->inputs[i]) != n->channels)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "input %d has %lld elements for %lld channels", i,
                              (long long)desc_elements(&call->inputs[i]), (long long)n->channels);
  return REED_OK;
}
