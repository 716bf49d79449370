/* Launches of CumSum. */
#include "ops/cpu/calls/scan.h"

#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

enum { MOST_BLOCKS = 2048 }; /* several a multiprocessor; a block takes line after line */

reed_status cuda_prepare_cumsum(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  cuda_plan plan = {.call = call};
  const reed_status status = cumsum_check(call);
  if (status) return status;
  scan_args made = {.n = desc_elements(in),
                    .rank = in->rank,
                    .dtype = in->dtype,
                    .axis_size = (int32_t)reed_dtype_bytes(call->inputs[1].dtype),
                    .exclusive = op_attr_int(call->attrs, "exclusive") != 0,
                    .reverse = op_attr_int(call->attrs, "reverse") != 0};
  memcpy(made.extents, in->dims, sizeof made.extents);
  /* without elements: one block that checks the axis */
  const int64_t blocks = blocks_for(CUDA_cumsum, made.n);
  cuda_plan_launch(&plan, CUDA_cumsum, blocks < 1 ? 1 : blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, 0, &made);
  CUDA_INPUT(&plan, scan_args, x, 0);
  CUDA_INPUT(&plan, scan_args, axis, 1);
  CUDA_OUTPUT(&plan, scan_args, y, 0);
  CUDA_FAULT(&plan, scan_args, fault, launch);
  return cuda_plan_close(&plan, 0, out_kernel);
}
