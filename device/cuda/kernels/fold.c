/* Launches of Col2Im. */
#include "ops/cpu/calls/col2im.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

reed_status cuda_prepare_col2im(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  col2im c;
  const reed_status status = col2im_read(call, &c);
  if (status) return status;
  fold_args made = {.n = c.planes * c.image,
                    .image = c.image,
                    .block = c.block,
                    .windows = c.windows,
                    .axes = c.w.n,
                    .dtype = c.dtype};
  for (int32_t d = 0; d < c.w.n; d++) {
    made.in[d] = c.w.in[d];
    made.out[d] = c.w.out[d];
    made.kernel[d] = c.w.kernel[d];
    made.stride[d] = c.w.stride[d];
    made.dilation[d] = c.w.dilation[d];
    made.pad[d] = c.w.pad_begin[d];
  }
  if (made.n) {
    cuda_plan_each(&plan, CUDA_fold, made.n, &made);
    CUDA_INPUT(&plan, fold_args, x, 0);
    CUDA_OUTPUT(&plan, fold_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
