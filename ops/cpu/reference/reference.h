/* Plain references, with the interface and meaning of cpu_prepare_<x>. They are the oracle of the tests
 * (REED_CPU=reference), the only implementation for dtypes without a faster one, and the fallback for calls that a
 * kernel declines. Generators and selections have no references, because their kernels are as plain. */
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
  X(col2im) \
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
