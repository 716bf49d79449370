/* Launches of GridSample. */
#include "ops/cpu/calls/grid_sample.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/views/view.h"

reed_status cuda_prepare_grid_sample(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  cpu_view view;
  grid_sample s;
  reed_status status = cpu_view_init(call, 1u << 0, &view);
  if (status == REED_OK) status = grid_sample_read(view.call, &s);
  if (status) return status;
  const int64_t slices = (s.channels + GRID_CHANNELS - 1) / GRID_CHANNELS;
  grid_args made = {.n = s.images * slices * s.samples,
                    .channels = s.channels,
                    .slices = slices,
                    .pixels = s.pixels,
                    .samples = s.samples,
                    .axes = s.axes,
                    .mode = s.settings.mode,
                    .outside = s.settings.outside,
                    .align_corners = s.settings.align_corners,
                    .dtype = s.dtype,
                    .grid_dtype = s.grid_dtype,
                    .last = view.last,
                    .counted = cuda_counted(call)};
  for (int32_t d = 0; d < s.axes; d++) made.in[d] = s.extents[d];
  if (made.n) {
    cuda_plan_each(&plan, CUDA_grid_sample, made.n, &made);
    cuda_plan_count(&plan, offsetof(grid_args, counted));
    CUDA_INPUT(&plan, grid_args, x, 0);
    CUDA_INPUT(&plan, grid_args, grid, 1);
    CUDA_OUTPUT(&plan, grid_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
