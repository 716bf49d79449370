/* Reading a call of a deformable convolution. */
#include "ops/cpu/calls/deform.h"

static deform_map map_of(bool last, int64_t channels, int64_t pixels) {
  return last ? (deform_map){channels * pixels, 1, channels} : (deform_map){channels * pixels, pixels, 1};
}

reed_status deform_read(const reed_kernel_call *call, deform *d) {
  op_id op = op_id_of(call->op);
  *d = (deform){.team = cpu_env_team(call),
                .level = cpu_level_now(),
                .at = deform_operands_of(op),
                .s = deform_steps_of(op, call->attrs),
                .last = op_attr_int(call->attrs, "channels_last")};
  if (!cpu_present(call, d->at.mask)) d->at.mask = -1;
  if (d->at.bias >= 0 && !cpu_present(call, d->at.bias)) d->at.bias = -1;
  const reed_desc *x = &call->inputs[d->at.input], *w = &call->inputs[d->at.weight],
                  *y = d->at.grad >= 0 ? &call->inputs[d->at.grad] : &call->outputs[0];
  int32_t first = x->rank - 3, channel = first + (d->last ? 2 : 0), spatial = first + (d->last ? 0 : 1);
  d->dtype = x->dtype;
  d->weight_dtype = w->dtype;
  d->images = x->rank == 4 ? x->dims[0] : 1;
  d->channels = x->dims[channel];
  d->outputs = w->dims[0];
  d->taps = w->dims[2] * w->dims[3];
  for (int32_t i = 0; i < 2; i++) {
    d->in[i] = x->dims[spatial + i];
    d->out[i] = y->dims[spatial + i];
    d->kernel[i] = w->dims[2 + i];
  }
  d->group_channels = w->dims[1];
  d->group_outputs = d->outputs / d->s.groups;
  d->offset_channels = d->channels / d->s.offset_groups;
  int64_t masks = d->s.offset_groups * d->taps;
  d->input = map_of(d->last, d->channels, deform_in_pixels(d));
  d->output = map_of(d->last, d->outputs, deform_pixels(d));
  d->offset = map_of(d->last, 2 * masks, deform_pixels(d));
  d->mask = map_of(d->last, masks, deform_pixels(d));
  return REED_OK;
}
