/* Parts of the launches of products and convolutions that both kinds of convolution need. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_H_
#define DEVICE_CUDA_KERNELS_PRODUCT_H_

#include "device/cuda/kernels/kernel.h"
#include "ops/packed.h"

/* Groups of fewer output channels have no tiles: a thread computes an element. */
enum { CUDA_FEW_CHANNELS = 8, CUDA_TILE_EXTENT = 64 }; /* TILE of product.cuh */

/* The call's activation as a step on the result, whose dtype is `dtype`; Clip's limits are alpha and beta. */
map_step cuda_activation_step(const reed_kernel_call *call, reed_dtype dtype);
/* Of three kernels on tensor cores (tf32, f16, bf16) the dtype's; `plain` where the dtype or the call's math has none.
 * Their sums are f32. */
cuda_kernel_id cuda_on_tensor_cores(const reed_kernel_call *call, reed_dtype dtype, cuda_kernel_id plain,
                                    const cuda_kernel_id kernels[3]);
/* The panels of packed weights; order NULL: the weights are plain. taps_are_parts: each tap has a matrix of its own. */
panels_args cuda_panels(const packed_order *order, bool taps_are_parts);
/* Strides of an image [N,C,spatial...] whose channels come last or second in memory. */
void cuda_image_strides(const reed_desc *desc, bool last, int64_t *out_image, int64_t *out_channel, int64_t *out_axes);

#endif
