/* Launches of DeformConv, and of torchvision's deform_conv2d and its gradients. */
#include "ops/cpu/calls/deform.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

static deform_places places_of(const deform_map *map) {
  return (deform_places){.image = map->image, .channel = map->channel, .pixel = map->pixel};
}

static deform_args args_of(const reed_kernel_call *call, const deform *d) {
  deform_args made = {.n = desc_elements(&call->outputs[0]),
                      .outputs = d->outputs,
                      .group_channels = d->group_channels,
                      .group_outputs = d->group_outputs,
                      .offset_channels = d->offset_channels,
                      .input = places_of(&d->input),
                      .output = places_of(&d->output),
                      .offsets = places_of(&d->offset),
                      .masks = places_of(&d->mask),
                      .dtype = d->dtype,
                      .counted = cuda_counted(call)};
  for (int i = 0; i < 2; i++) {
    made.in[i] = d->in[i];
    made.out[i] = d->out[i];
    made.kernel[i] = d->kernel[i];
    made.stride[i] = d->s.stride[i];
    made.dilation[i] = d->s.dilation[i];
    made.pad[i] = d->s.pad_begin[i];
  }
  return made;
}

reed_status cuda_prepare_deform_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  deform d;
  const reed_status status = deform_read(call, &d);
  if (status) return status;
  const deform_args made = args_of(call, &d);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_deform, made.n, &made);
    cuda_plan_count(&plan, offsetof(deform_args, counted));
    CUDA_INPUT(&plan, deform_args, x, d.at.input);
    CUDA_INPUT(&plan, deform_args, w, d.at.weight);
    CUDA_INPUT(&plan, deform_args, offset, d.at.offset);
    if (d.at.mask >= 0) CUDA_INPUT(&plan, deform_args, mask, d.at.mask);
    if (d.at.bias >= 0) CUDA_INPUT(&plan, deform_args, bias, d.at.bias);
    CUDA_OUTPUT(&plan, deform_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

/* ---- gradients ---- */

/* Pointers of the latest launch, whose args are a deform_back_args. */
static void reads(cuda_plan *plan, const deform *d, bool input, bool samples, bool gradients) {
  if (input) CUDA_INPUT(plan, deform_back_args, of.x, d->at.input);
  if (samples) CUDA_INPUT(plan, deform_back_args, of.offset, d->at.offset);
  if (samples && d->at.mask >= 0) CUDA_INPUT(plan, deform_back_args, of.mask, d->at.mask);
  if (gradients) CUDA_INPUT(plan, deform_back_args, of.w, d->at.weight);
}

/* The boxes of all samples, then the gradient of the input, a warp for a pixel of up to 32 channels. */
static void plan_input(cuda_plan *plan, const deform *d, deform_back_args made, int64_t boxes) {
  const int64_t bytes = boxes * (int64_t)sizeof(pixel_box);
  if (boxes) {
    made.of.n = boxes;
    cuda_plan_each(plan, CUDA_deform_back_boxes, 32 * made.of.n, &made);
    CUDA_INPUT(plan, deform_back_args, of.offset, d->at.offset);
    CUDA_PART(plan, deform_back_args, boxes, CUDA_FROM_WORKSPACE, 0, 0, bytes, true);
  }
  made.of.n = d->images * made.offset_groups * ((d->offset_channels + 31) / 32) * deform_in_pixels(d);
  cuda_plan_each(plan, CUDA_deform_back_input, 32 * made.of.n, &made);
  reads(plan, d, false, true, true);
  CUDA_INPUT(plan, deform_back_args, grad, d->at.grad);
  CUDA_PART(plan, deform_back_args, boxes, CUDA_FROM_WORKSPACE, 0, 0, bytes, false);
  CUDA_OUTPUT(plan, deform_back_args, of.y, DEFORM_GRAD_INPUT);
}

static void plan_weight(cuda_plan *plan, const deform *d, deform_back_args made) {
  const int64_t parts = (d->group_outputs + DEFORM_OUTPUTS - 1) / DEFORM_OUTPUTS;
  cuda_plan_launch(plan, CUDA_deform_back_weight, d->s.groups * parts * d->group_channels * d->taps, 0, &made);
  reads(plan, d, true, true, false);
  CUDA_INPUT(plan, deform_back_args, grad, d->at.grad);
  CUDA_OUTPUT(plan, deform_back_args, of.y, DEFORM_GRAD_WEIGHT);
}

static void plan_offset(cuda_plan *plan, const deform *d, deform_back_args made, bool offset, bool mask) {
  made.of.n = d->images * made.offset_groups * d->taps * deform_pixels(d);
  cuda_plan_each(plan, CUDA_deform_back_offset, made.of.n, &made);
  reads(plan, d, true, true, true);
  CUDA_INPUT(plan, deform_back_args, grad, d->at.grad);
  if (offset) CUDA_OUTPUT(plan, deform_back_args, of.y, DEFORM_GRAD_OFFSET);
  if (mask) CUDA_OUTPUT(plan, deform_back_args, of_mask, DEFORM_GRAD_MASK);
}

static void plan_bias(cuda_plan *plan, const deform *d, const deform_back_args *made) {
  cuda_plan_launch(plan, CUDA_deform_back_bias, d->outputs, 0, made);
  CUDA_INPUT(plan, deform_back_args, grad, d->at.grad);
  CUDA_OUTPUT(plan, deform_back_args, of.y, DEFORM_GRAD_BIAS);
}

reed_status cuda_prepare_deform_conv_backward(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  deform d;
  const reed_status status = deform_read(call, &d);
  if (status) return status;
  bool wants[DEFORM_GRADS] = {false};
  for (int32_t i = 0; i < DEFORM_GRADS && i < call->n_outputs; i++)
    wants[i] = call->outputs[i].dtype != REED_NONE && desc_elements(&call->outputs[i]) > 0;
  const deform_back_args made = {.of = args_of(call, &d),
                                 .images = d.images,
                                 .offset_groups = d.s.offset_groups,
                                 .tiles = (deform_pixels(&d) + DEFORM_TILE - 1) / DEFORM_TILE};
  const int64_t boxes = wants[DEFORM_GRAD_INPUT] ? d.images * d.s.offset_groups * d.taps * made.tiles : 0;
  if (wants[DEFORM_GRAD_INPUT]) plan_input(&plan, &d, made, boxes);
  if (wants[DEFORM_GRAD_WEIGHT]) plan_weight(&plan, &d, made);
  if (wants[DEFORM_GRAD_OFFSET] || wants[DEFORM_GRAD_MASK])
    plan_offset(&plan, &d, made, wants[DEFORM_GRAD_OFFSET], wants[DEFORM_GRAD_MASK]);
  if (wants[DEFORM_GRAD_BIAS]) plan_bias(&plan, &d, &made);
  return cuda_plan_close(&plan, boxes * (int64_t)sizeof(pixel_box), out_kernel);
}
