/* Parts of the launches of products and convolutions that both kinds of convolution need. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_H_
#define DEVICE_CUDA_KERNELS_PRODUCT_H_

#include "device/cuda/kernels/kernel.h"
#include "ops/packed.h"

/* Groups of fewer output channels have no tiles: a thread computes an element. */
enum { CUDA_FEW_CHANNELS = 8, CUDA_TILE_EXTENT = 64 }; /* TILE of product.cuh */
/* Dynamic shared memory of a small tile and of a tall one on tensor cores. */
enum {
  CUDA_SMALL_TILE_BYTES = CUDA_MMA_STAGES * 2 * CUDA_TILE_EXTENT * CUDA_MMA_LINE_WORDS * 4 + CUDA_MMA_ALIGNMENT,
  CUDA_TALL_TILE_BYTES = CUDA_MMA_STAGES * 3 * CUDA_TILE_EXTENT * CUDA_MMA_LINE_WORDS * 4 + CUDA_MMA_ALIGNMENT
};

/* The call's activation as a step on the result, whose dtype is `dtype`; Clip's limits are alpha and beta. */
map_step cuda_activation_step(const reed_kernel_call *call, reed_dtype dtype);
/* Of three kernels on tensor cores (tf32, f16, bf16) the dtype's; `plain` where the dtype or the call's math has none.
 * Their sums are f32. */
cuda_kernel_id cuda_on_tensor_cores(const reed_kernel_call *call, reed_dtype dtype, cuda_kernel_id plain,
                                    const cuda_kernel_id kernels[3]);
/* A kernel of tiles: a tile's rows (it has CUDA_TILE_EXTENT columns) and the dynamic shared memory of a block. */
typedef struct cuda_tiles {
  cuda_kernel_id kernel;
  int64_t rows, shared_bytes;
} cuda_tiles;
/* Kernels on tensor cores (for cuda_on_tensor_cores) with small tiles and with tall ones. */
typedef struct cuda_tensor_kernels {
  cuda_kernel_id small[3], tall[3];
} cuda_tensor_kernels;
/* The call's kernel of these, or `plain`. Tall tiles where `parts`
 * products of that size give the card enough of them. kernels->tall may be those of small tiles. */
cuda_tiles cuda_choose_tiles(const reed_kernel_call *call, reed_dtype dtype, cuda_kernel_id plain,
                             const cuda_tensor_kernels *kernels, int64_t parts, int64_t rows, int64_t depth,
                             int64_t columns);
/* Tiles of so many lines that n lines take. */
static inline int64_t cuda_tiles_for(int64_t n, int64_t lines) { return (n + lines - 1) / lines; }
/* The panels of packed weights; order NULL: the weights are plain. taps_are_parts: each tap has a matrix of its own. */
panels_args cuda_panels(const packed_order *order, bool taps_are_parts);
/* Strides of an image [N,C,spatial...] whose channels come last or second in memory. */
void cuda_image_strides(const reed_desc *desc, bool last, int64_t *out_image, int64_t *out_channel, int64_t *out_axes);

#endif
