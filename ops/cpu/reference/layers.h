/* Plain references of convolution, matrices, pools, norms, sorting and regions: the oracle of the tests
 * (REED_CPU=reference), the only implementation for dtypes that have no faster one, and what a kernel falls back to.
 * Same interface and meaning as cpu_prepare_<x>; f16 and bf16 are not theirs. */
#ifndef OPS_CPU_REFERENCE_LAYERS_H_
#define OPS_CPU_REFERENCE_LAYERS_H_

#include "ops/cpu/common/common.h"

#define REFERENCE_B(X) \
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
  X(topk)
#define REFERENCE_B_DECLARE_(name) \
  reed_status reference_prepare_##name(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
REFERENCE_B(REFERENCE_B_DECLARE_)
#undef REFERENCE_B_DECLARE_

static inline bool reference_wanted(void) { return cpu_level_now() == CPU_REFERENCE; }

#endif
