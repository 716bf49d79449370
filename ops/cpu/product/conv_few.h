/* Conv of few outputs over packed weights with channels last: each pixel of X is multiplied by the weights of all taps
 * at once, and a pixel of Y is the sum of its window's products (Anderson, Vasudevan, Keane and Gregg 2017,
 * "Low-memory GEMM-based convolution algorithms for deep neural networks", arXiv 1709.03395). A panel of 16 columns is
 * then filled by the outputs of several taps; a direct convolution would leave most columns empty. */
#ifndef OPS_CPU_PRODUCT_CONV_FEW_H_
#define OPS_CPU_PRODUCT_CONV_FEW_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/packed.h"

/* Leaves *out_kernel alone for any other convolution: more outputs, one tap, strides, three axes, groups, or where the
 * direct convolution needs fewer products. The call is seen with channels second and plain weights in f32. */
reed_status conv_few_prepare(const reed_kernel_call *call, const packed_order *order, const window *w,
                             const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
/* True if the convolution is one for conv_few_prepare, estimated faster than a direct one over these weights, which may
 * be pairs of bf16. */
bool conv_few_is_faster(const reed_kernel_call *call, const packed_order *order, const window *w);

#endif
