/* Launches of DeformConv and torchvision's deform_conv2d. */
#include "ops/cpu/calls/deform.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

static deform_places places_of(const deform_map *map) {
  return (deform_places){.image = map->image, .channel = map->channel, .pixel = map->pixel};
}

reed_status cuda_prepare_deform_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  deform d;
  const reed_status status = deform_read(call, &d);
  if (status) return status;
  deform_args made = {.n = desc_elements(&call->outputs[0]),
                      .outputs = d.outputs,
                      .group_channels = d.group_channels,
                      .group_outputs = d.group_outputs,
                      .offset_channels = d.offset_channels,
                      .input = places_of(&d.input),
                      .output = places_of(&d.output),
                      .offsets = places_of(&d.offset),
                      .masks = places_of(&d.mask),
                      .dtype = d.dtype,
                      .counted = cuda_counted(call)};
  for (int i = 0; i < 2; i++) {
    made.in[i] = d.in[i];
    made.out[i] = d.out[i];
    made.kernel[i] = d.kernel[i];
    made.stride[i] = d.s.stride[i];
    made.dilation[i] = d.s.dilation[i];
    made.pad[i] = d.s.pad_begin[i];
  }
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
