/* Plain references: the oracle of the tests (REED_CPU=reference), the only implementation for dtypes that have no
 * faster one, and what a kernel falls back to. Same interface and meaning as cpu_prepare_<x>. Generators and selections
 * have none: their kernels are as plain already. */
#ifndef OPS_CPU_REFERENCE_REFERENCE_H_
#define OPS_CPU_REFERENCE_REFERENCE_H_

#include "ops/cpu/common/common.h"

#define REFERENCE_LIST(X) \
  X(attention) \
  X(conv) \
  X(conv_transpose) \
  X(matmul) \
  X(gemm) \
  X(average_pool) \
  X(max_pool) \
  X(global_pool) \
  X(batch_norm) \
  X(instance_norm) \
  X(layer_norm) \
  X(group_norm) \
  X(rms_norm) \
  X(lp_pool) \
  X(recurrent) \
  X(softmax) \
  X(resize) \
  X(roi_align) \
  X(paste_masks) \
  X(keypoints) \
  X(nms) \
  X(topk) \
  X(elementwise) \
  X(cast) \
  X(fused) \
  X(move) \
  X(scatter) \
  X(reduce) \
  X(scan)
#define REFERENCE_DECLARE_(name) \
  reed_status reference_prepare_##name(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
REFERENCE_LIST(REFERENCE_DECLARE_)
#undef REFERENCE_DECLARE_

#endif
