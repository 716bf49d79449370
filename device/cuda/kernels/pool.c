/* Launches of the pools. */
#include <math.h>

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
                    .dtype = p.dtype,
                    .mean = p.mean,
                    .include_pad = p.include_pad,
                    .counted = cuda_counted(call)};
  const bool planes = p.w.n <= POOL_PLANE_AXES;
  const int32_t axes = planes ? POOL_PLANE_AXES : CUDA_AXES;
  int64_t x = view.last ? channels : 1, y = x, number = 1;
  double reach = (double)made.n; /* no offset is larger */
  for (int32_t k = axes - 1, d = p.w.n - 1; k >= 0; k--, d--) {
    const bool is_axis = d >= 0;
    made.in[k] = is_axis ? p.w.in[d] : 1;
    made.out[k] = is_axis ? p.w.out[d] : 1;
    made.kernel[k] = is_axis ? p.w.kernel[d] : 1;
    made.stride[k] = is_axis ? p.w.stride[d] : 1;
    made.dilation[k] = is_axis ? p.w.dilation[d] : 1;
    made.pad[k] = is_axis ? p.w.pad_begin[d] : 0;
    made.pad_end[k] = is_axis ? p.w.pad_end[d] : 0;
    made.x_axis[k] = x;
    made.y_axis[k] = y;
    reach = fmax(reach, (double)x * ((double)made.in[k] + (double)made.pad[k] + (double)made.pad_end[k] +
                                     (double)made.kernel[k] * (double)made.dilation[k]));
    x *= made.in[k];
    y *= made.out[k];
  }
  for (int32_t k = 0; k < axes; k++) {
    const int32_t axis = p.column_major ? k : axes - 1 - k;
    made.number_axis[axis] = number;
    number *= made.in[axis];
  }
  made.x_channel = view.last ? 1 : pixels_in;
  made.y_channel = view.last ? 1 : pixels_out;
  made.x_image = pixels_in * channels;
  made.y_image = pixels_out * channels;
  if (made.n) {
    const bool in_parts = planes && view.last && !p.power && !p.with_indices &&
                          fmax(reach, (double)p.planes * (double)p.in_plane) < INT32_MAX;
    const int64_t part = in_parts ? cuda_channels_at_once(p.dtype, channels) : 1;
    cuda_plan_each(&plan,
                   part == 8   ? CUDA_pool_8
                   : part == 4 ? CUDA_pool_4
                   : planes    ? CUDA_pool_planes
                               : CUDA_pool,
                   made.n / part, &made);
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
