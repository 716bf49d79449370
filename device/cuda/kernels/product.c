/* Launches of MatMul, Gemm and Conv. */
#include "device/cuda/kernels/product.h"

#include <string.h>

#include "base/desc.h"
#include "base/dtype.h"
#include "ops/cpu/calls/convolution.h"
#include "ops/cpu/calls/product.h"
#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/cpu/views/view.h"

/* Tall tiles read three quarters of what small ones do, but a card of some hundred multiprocessors wants blocks, and a
 * short depth more of them that compute while others begin or end. */
enum { LEAST_TALL_TILES = 192, LEAST_TALL_DEPTH = 128 };

map_step cuda_activation_step(const reed_kernel_call *call, reed_dtype dtype) {
  static const int formulas[] = {
      [ACTIVATION_NONE] = OP_Identity,
#define ACTIVATION(name, text, op, approximate, formula) [ACTIVATION_##name] = OP_##formula,
#include "ops/activation.def"
  };
  activation given;
  activation_read(call, &given);
  return (map_step){.formula = (uint16_t)formulas[given.kind],
                    .from = (uint8_t)(dtype == REED_F64 ? REED_F64 : REED_F32),
                    .alpha = given.alpha,
                    .beta = given.beta};
}

_Static_assert((int)CUDA_TILE_EXTENT == PACKED_WIDTH, "a tile reads the columns of one panel");

/* Rows of the depth run over taps, then channels, or over channels, then taps; a transposed convolution's taps have
 * matrices of their own. */
panels_args cuda_panels(const packed_order *o, bool taps_are_parts) {
  if (!o) return (panels_args){.width = 0};
  const bool channels_outermost = o->rows > o->taps;
  const int64_t part = packed_part_elements(o), panels = packed_panels(o->outputs);
  panels_args made = {.width = PACKED_WIDTH,
                      .last_width = packed_width(o->outputs, panels - 1),
                      .depth = o->rows * o->columns * o->channels,
                      .columns = o->outputs,
                      .group = taps_are_parts ? 0 : part,
                      .tap = taps_are_parts ? part : 0,
                      .channel_rows = channels_outermost ? o->taps * o->columns : 1,
                      .tap_rows = taps_are_parts ? 0 : o->channels};
  if (o->small_groups) {
    made.width = made.last_width = o->outputs;
    made.group = o->channels;
  }
  return made;
}

cuda_kernel_id cuda_on_tensor_cores(const reed_kernel_call *call, reed_dtype dtype, cuda_kernel_id plain,
                                    const cuda_kernel_id kernels[3]) {
  const cuda_math math = ((const cuda_call *)call)->math;
  if (dtype == REED_F32 && math >= CUDA_MATH_TF32) return kernels[0];
  if (dtype == REED_F16 && math >= CUDA_MATH_HALVES) return kernels[1];
  if (dtype == REED_BF16 && math >= CUDA_MATH_HALVES) return kernels[2];
  return plain;
}

cuda_tiles cuda_choose_tiles(const reed_kernel_call *call, reed_dtype dtype, cuda_kernel_id plain,
                             const cuda_tensor_kernels *kernels, int64_t parts, int64_t rows, int64_t depth,
                             int64_t columns) {
  const cuda_tiles small = {cuda_on_tensor_cores(call, dtype, plain, kernels->small), CUDA_TILE_EXTENT,
                            CUDA_SMALL_TILE_BYTES},
                   tall = {cuda_on_tensor_cores(call, dtype, plain, kernels->tall), 2 * CUDA_TILE_EXTENT,
                           CUDA_TALL_TILE_BYTES};
  if (small.kernel == plain) return (cuda_tiles){plain, CUDA_TILE_EXTENT, 0};
  return tall.kernel != small.kernel && depth >= LEAST_TALL_DEPTH &&
                 parts * cuda_tiles_for(rows, tall.rows) * cuda_tiles_for(columns, CUDA_TILE_EXTENT) >= LEAST_TALL_TILES
             ? tall
             : small;
}

static reed_status prepare_product(const reed_kernel_call *call, bool gemm, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  unpack_view view;
  product p;
  reed_status status = unpack_view_init(call, &view);
  if (status) return status;
  status = product_read(view.call, gemm, &p);
  if (status) return status;
  product_args made = {.m = p.m,
                       .k = p.k,
                       .n = p.n,
                       .a_row = p.a_row,
                       .a_column = p.a_column,
                       .b_row = p.b_row,
                       .b_column = p.b_column,
                       .c_row = p.c_row,
                       .c_column = p.c_column,
                       .panels = cuda_panels(view.packed ? &view.order : NULL, false),
                       .alpha = p.alpha,
                       .beta = p.beta,
                       .activation = cuda_activation_step(call, dtype_is_real(p.dtype) ? p.dtype : REED_F64),
                       .batch_rank = p.batch_rank,
                       .dtype = p.dtype,
                       .y_dtype = p.dtype,
                       .counted = cuda_counted(call)};
  if (made.counted.capacity) made.counted_batch = call->output_rooms[0].axis < p.batch_rank;
  memcpy(made.batch_dims, p.batch_dims, sizeof made.batch_dims);
  memcpy(made.a_batch, p.a_batch, sizeof made.a_batch);
  memcpy(made.b_batch, p.b_batch, sizeof made.b_batch);
  memcpy(made.c_batch, p.c_batch, sizeof made.c_batch);
  const cuda_kernel_id plain = p.dtype != REED_F64 && dtype_is_real(p.dtype) ? CUDA_product_f32
                               : !dtype_is_real(p.dtype) && p.exact_ints     ? CUDA_product_ints
                                                                             : CUDA_product_f64;
  static const cuda_tensor_kernels kernels = {
      .small = {CUDA_product_tf32, CUDA_product_f16, CUDA_product_bf16},
      .tall = {CUDA_product_tall_tf32, CUDA_product_tall_f16, CUDA_product_tall_bf16}};
  const cuda_tiles tiles = cuda_choose_tiles(call, p.dtype, plain, &kernels, p.batch, p.m, p.k, p.n);
  made.tiles_m = cuda_tiles_for(p.m, tiles.rows);
  made.tiles_n = cuda_tiles_for(p.n, CUDA_TILE_EXTENT);
  if (p.batch && p.m && p.n) {
    cuda_plan_launch(&plan, tiles.kernel, p.batch * made.tiles_m * made.tiles_n, tiles.shared_bytes, &made);
    CUDA_INPUT(&plan, product_args, a, 0);
    CUDA_INPUT(&plan, product_args, b, 1);
    if (p.has_c) CUDA_INPUT(&plan, product_args, c, 2);
    if (p.has_residual) CUDA_INPUT(&plan, product_args, residual, 3);
    cuda_plan_count(&plan, offsetof(product_args, counted));
    CUDA_OUTPUT(&plan, product_args, y, 0);
  }
  status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && cpu_rooms_only(call, 1u << 0 | 1u << 1); /* by their strides */
  return status;
}

reed_status cuda_prepare_matmul(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_product(call, false, out_kernel);
}
reed_status cuda_prepare_gemm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_product(call, true, out_kernel);
}

void cuda_image_strides(const reed_desc *desc, bool last, int64_t *image, int64_t *channel, int64_t *axes) {
  int64_t stride = last ? desc->dims[1] : 1;
  for (int32_t d = desc->rank - 1; d >= 2; d--) {
    axes[d - 2] = stride;
    stride *= desc->dims[d];
  }
  *channel = last ? 1 : stride;
  *image = last ? stride : stride * desc->dims[1];
}

reed_status cuda_prepare_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  cpu_view view;
  window w;
  reed_status status = cpu_view_init(call, 1u << 0 | 1u << 3, &view);
  if (status) return status;
  const reed_kernel_call *second = view.channels.call;
  status = convolution_check_addends(second);
  if (status) return status;
  const reed_desc *x = &second->inputs[0], *weights = &second->inputs[1], *y = &second->outputs[0];
  if (y->dtype != x->dtype) /* output_dtype */
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s to %s", reed_dtype_name(x->dtype),
                            reed_dtype_name(y->dtype));
  window_init(second, weights->dims + 2, &w);
  conv_args made = {.groups = op_attr_int(call->attrs, "group"),
                    .pixels = y->dims[0] * cpu_product(w.out, 0, w.n),
                    .c = weights->dims[1],
                    .taps = cpu_product(w.kernel, 0, w.n),
                    .panels = cuda_panels(view.order, false),
                    .activation = cuda_activation_step(call, x->dtype),
                    .axes = w.n,
                    .dtype = x->dtype,
                    .counted = cuda_counted(call)};
  if (made.c && made.taps > UINT32_MAX / made.c) /* the kernel's steps */
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "more than 2^32 weights for an output channel");
  made.m = weights->dims[0] / made.groups;
  for (int32_t d = 0; d < w.n; d++) {
    made.in[d] = w.in[d];
    made.out[d] = w.out[d];
    made.kernel[d] = w.kernel[d];
    made.stride[d] = w.stride[d];
    made.dilation[d] = w.dilation[d];
    made.pad[d] = w.pad_begin[d];
  }
  const bool last = view.channels.last, last_in = last && (view.channels.images & 1);
  cuda_image_strides(x, last_in, &made.x_image, &made.x_channel, made.x_axis);
  cuda_image_strides(y, last, &made.y_image, &made.y_channel, made.y_axis);
  static const cuda_tensor_kernels kernels = {.small = {CUDA_conv_tf32, CUDA_conv_f16, CUDA_conv_bf16},
                                              .tall = {CUDA_conv_tall_tf32, CUDA_conv_tall_f16, CUDA_conv_tall_bf16}};
  const bool few = made.m < CUDA_FEW_CHANNELS && made.groups > 1, wide = x->dtype == REED_F64;
  const cuda_tiles tiles = cuda_choose_tiles(call, x->dtype, wide ? CUDA_conv_f64 : CUDA_conv_f32, &kernels,
                                             made.groups, made.pixels, made.c * made.taps, made.m);
  made.tiles_m = cuda_tiles_for(made.pixels, tiles.rows);
  made.tiles_n = cuda_tiles_for(made.m, CUDA_TILE_EXTENT);
  if (desc_elements(y)) {
    if (few)
      cuda_plan_each(&plan, wide ? CUDA_conv_few_f64 : CUDA_conv_few_f32, made.pixels * made.m * made.groups, &made);
    else cuda_plan_launch(&plan, tiles.kernel, made.groups * made.tiles_m * made.tiles_n, tiles.shared_bytes, &made);
    CUDA_INPUT(&plan, conv_args, x, 0);
    CUDA_INPUT(&plan, conv_args, w, 1);
    if (cpu_present(call, 2)) CUDA_INPUT(&plan, conv_args, bias, 2);
    if (cpu_present(call, 3)) CUDA_INPUT(&plan, conv_args, residual, 3);
    cuda_plan_count(&plan, offsetof(conv_args, counted));
    CUDA_OUTPUT(&plan, conv_args, y, 0);
  }
  status = cuda_plan_close(&plan, 0, out_kernel);
  out_kernel->apart = cpu_present(call, 3); /* cuDNN's plans want it (convolutions.c) */
  return status;
}
