/* Launches of CumSum. */
#include "ops/cpu/calls/scan.h"

#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"

enum { MOST_BLOCKS = 2048 }; /* several a multiprocessor; a block takes line after line */

/* The most chunks of few long lines that an axis of the tensor has, for any count up to the bound; 0: no axis has such
 * lines. counted: the axis that has a count, or -1. */
static int64_t chunk_sums(const reed_desc *in, int32_t counted) {
  const int64_t n = desc_elements(in);
  int64_t most = 0;
  for (int32_t d = 0; d < in->rank && n; d++) {
    const int64_t extent = in->dims[d], all = n / extent,
                  lines = counted >= 0 && counted != d && all >= SCAN_FEW_LINES ? SCAN_FEW_LINES - 1 : all,
                  chunks = (extent + SCAN_CHUNK - 1) / SCAN_CHUNK;
    if (extent > SCAN_CHUNK && lines < SCAN_FEW_LINES && lines * chunks > most) most = lines * chunks;
  }
  return most;
}

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
                    .reverse = op_attr_int(call->attrs, "reverse") != 0,
                    .counted = cuda_counted(call)};
  if (made.counted.factor) made.counted_axis = call->input_rooms[0].axis;
  memcpy(made.extents, in->dims, sizeof made.extents);
  /* without elements: one block that checks the axis */
  const int64_t wanted = blocks_for(CUDA_cumsum, made.n),
                blocks = wanted < 1             ? 1
                         : wanted < MOST_BLOCKS ? wanted
                                                : MOST_BLOCKS,
                sums = chunk_sums(in, made.counted.factor ? made.counted_axis : -1) * 8;
  if (sums) {
    cuda_plan_launch(&plan, CUDA_cumsum_chunks, blocks, 0, &made);
    cuda_plan_count(&plan, offsetof(scan_args, counted));
    CUDA_INPUT(&plan, scan_args, x, 0);
    CUDA_INPUT(&plan, scan_args, axis, 1);
    CUDA_PART(&plan, scan_args, sums, CUDA_FROM_WORKSPACE, 0, 0, sums, true);
  }
  cuda_plan_launch(&plan, CUDA_cumsum, blocks, 0, &made);
  cuda_plan_count(&plan, offsetof(scan_args, counted));
  CUDA_INPUT(&plan, scan_args, x, 0);
  CUDA_INPUT(&plan, scan_args, axis, 1);
  CUDA_PART(&plan, scan_args, sums, CUDA_FROM_WORKSPACE, 0, 0, sums, false);
  CUDA_OUTPUT(&plan, scan_args, y, 0);
  CUDA_FAULT(&plan, scan_args, fault, launch);
  return cuda_plan_close(&plan, sums, out_kernel);
}
