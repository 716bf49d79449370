/* Launches of the pools. */
#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/calls/pool.h"
#include "ops/cpu/views/view.h"

static reed_status prepare_pool(const reed_kernel_call *call, pool_kind kind, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  cpu_view view;
  pool p;
  const reed_status status = cpu_view_init(call, 1, &view);
  if (status) return status;
  pool_read(view.call, kind, &p);
  const int64_t channels = view.call->inputs[0].dims[1], pixels_in = p.in_plane, pixels_out = p.out_plane;
  pool_args made = {.n = p.planes * p.out_plane,
                    .channels = channels,
                    .in_plane = p.in_plane,
                    .power = p.power,
                    .axes = p.w.n,
                    .dtype = p.dtype,
                    .mean = p.mean,
                    .include_pad = p.include_pad,
                    .column_major = p.column_major,
                    .counted = cuda_counted(call)};
  int64_t x = view.last ? channels : 1, y = x;
  for (int32_t d = p.w.n - 1; d >= 0; d--) {
    made.in[d] = p.w.in[d];
    made.out[d] = p.w.out[d];
    made.kernel[d] = p.w.kernel[d];
    made.stride[d] = p.w.stride[d];
    made.dilation[d] = p.w.dilation[d];
    made.pad[d] = p.w.pad_begin[d];
    made.pad_end[d] = p.w.pad_end[d];
    made.x_axis[d] = x;
    made.y_axis[d] = y;
    x *= p.w.in[d];
    y *= p.w.out[d];
  }
  made.x_channel = view.last ? 1 : pixels_in;
  made.y_channel = view.last ? 1 : pixels_out;
  made.x_image = pixels_in * channels;
  made.y_image = pixels_out * channels;
  if (made.n) {
    cuda_plan_each(&plan, CUDA_pool, made.n, &made);
    CUDA_INPUT(&plan, pool_args, x, 0);
    CUDA_OUTPUT(&plan, pool_args, y, 0);
    cuda_plan_count(&plan, offsetof(pool_args, counted));
    if (p.with_indices) CUDA_OUTPUT(&plan, pool_args, indices, 1);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_average_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_pool(call, POOL_AVERAGE, out_kernel);
}
reed_status cuda_prepare_max_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_pool(call, POOL_MAX, out_kernel);
}
reed_status cuda_prepare_lp_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_pool(call, POOL_LP, out_kernel);
}
reed_status cuda_prepare_global_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_pool(call, POOL_GLOBAL, out_kernel);
}
