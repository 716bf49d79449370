/* Launches of ConvTranspose. */
#include "base/desc.h"
#include "device/cuda/kernels/product.h"
#include "ops/cpu/calls/convolution.h"
#include "ops/cpu/common/window.h"
#include "ops/cpu/views/view.h"

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Fills the window in. Returns the number of phases; *out_most: the places of an image in the largest one. */
static int64_t read_window(const window *w, conv_transpose_args *made, int64_t *out_most) {
  int64_t phases = 1;
  *out_most = 1;
  made->axes = w->n;
  for (int32_t d = 0; d < w->n; d++) {
    made->in[d] = w->in[d];
    made->out[d] = w->out[d];
    made->kernel[d] = w->kernel[d];
    made->stride[d] = w->stride[d];
    made->dilation[d] = w->dilation[d];
    made->pad[d] = w->pad_begin[d];
    made->phases[d] = w->stride[d] < w->out[d] ? w->stride[d] : w->out[d];
    made->tap_step[d] = w->stride[d] / common_divisor(w->stride[d], w->dilation[d]);
    phases *= made->phases[d];
    *out_most *= (w->out[d] + w->stride[d] - 1) / w->stride[d];
  }
  return phases;
}

reed_status cuda_prepare_conv_transpose(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  cpu_view view;
  window w;
  int64_t most;
  reed_status status = cpu_view_init(call, 1u << 0, &view);
  if (status) return status;
  const reed_kernel_call *second = view.channels.call;
  status = convolution_check_addends(second);
  if (status) return status;
  const reed_desc *x = &second->inputs[0], *weights = &second->inputs[1], *y = &second->outputs[0];
  window_init_transposed(second, weights->dims + 2, &w);
  conv_transpose_args made = {.images = y->dims[0],
                              .groups = op_attr_int(call->attrs, "group"),
                              .m = weights->dims[1],
                              .taps = cpu_product(w.kernel, 0, w.n),
                              .panels = cuda_panels(view.order, true),
                              .activation = cuda_activation_step(call, x->dtype),
                              .dtype = x->dtype,
                              .counted = cuda_counted(call)};
  const int64_t phases = read_window(&w, &made, &most);
  const bool few = made.m < CUDA_FEW_CHANNELS, wide = x->dtype == REED_F64;
  const int64_t pixels = made.images * most;
  const cuda_kernel_id few_kernel = wide ? CUDA_conv_transpose_few_f64 : CUDA_conv_transpose_few_f32;
  static const cuda_tensor_kernels kernels = {
      .small = {CUDA_conv_transpose_tf32, CUDA_conv_transpose_f16, CUDA_conv_transpose_bf16},
      .tall = {CUDA_conv_transpose_tf32, CUDA_conv_transpose_f16, CUDA_conv_transpose_bf16}};
  const cuda_tiles tiles = cuda_choose_tiles(call, x->dtype, wide ? CUDA_conv_transpose_f64 : CUDA_conv_transpose_f32,
                                             &kernels, phases * made.groups, pixels, made.c, made.m);
  const bool last = view.channels.last;
  made.c = x->dims[1] / made.groups;
  cuda_image_strides(x, last, &made.x_image, &made.x_channel, made.x_axis);
  cuda_image_strides(y, last, &made.y_image, &made.y_channel, made.y_axis);
  if (desc_elements(y)) {
    made.tiles_n = few ? 1 : cuda_tiles_for(made.m, CUDA_TILE_EXTENT);
    made.tiles_m = few ? blocks_for(few_kernel, pixels * made.m * made.groups) : cuda_tiles_for(pixels, tiles.rows);
    cuda_plan_launch(&plan, few ? few_kernel : tiles.kernel,
                     phases * (few ? 1 : made.groups) * made.tiles_m * made.tiles_n, few ? 0 : tiles.shared_bytes,
                     &made);
    CUDA_INPUT(&plan, conv_transpose_args, x, 0);
    CUDA_INPUT(&plan, conv_transpose_args, w, 1);
    if (cpu_present(call, 2)) CUDA_INPUT(&plan, conv_transpose_args, bias, 2);
    cuda_plan_count(&plan, offsetof(conv_transpose_args, counted));
    CUDA_OUTPUT(&plan, conv_transpose_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
