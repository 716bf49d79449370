/* Sums over the threads of a block, whose number is a multiple of 32. Every thread of the block calls them. */
#ifndef DEVICE_CUDA_KERNELS_BLOCKS_CUH_
#define DEVICE_CUDA_KERNELS_BLOCKS_CUH_

#include "device/cuda/kernels/dialect.cuh"

enum { BLOCK_WARPS = 32 }; /* the most */

/* The number of threads before this one whose flag is set; *out_all: the number in the whole block. */
static __device__ inline int block_rank(bool flag, int *out_all) {
  SHARED_ARRAY(int, of_warp, [BLOCK_WARPS]);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32),
            warps = static_cast<int>(blockDim.x / 32);
  const unsigned votes = __ballot_sync(~0u, flag);
  int before = __popc(votes & ((1u << lane) - 1)), all = 0;
  __syncthreads(); /* the sums of the call before have been read */
  if (lane == 0) of_warp[warp] = __popc(votes);
  __syncthreads();
  for (int w = 0; w < warps; w++) {
    if (w < warp) before += of_warp[w];
    all += of_warp[w];
  }
  *out_all = all;
  return before;
}

/* The sum of the values of the threads before this one; *out_all: of the whole block's. T: unsigned, or double. */
template <class T> static __device__ inline T block_sum(T value, T *out_all) {
  SHARED_ARRAY(T, of_warp, [BLOCK_WARPS]);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32),
            warps = static_cast<int>(blockDim.x / 32);
  T sum = value, before = 0, all = 0;
  for (unsigned d = 1; d < 32; d *= 2) {
    const T other = __shfl_up_sync(~0u, sum, d);
    if (lane >= static_cast<int>(d)) sum += other;
  }
  const T left = __shfl_up_sync(~0u, sum, 1u);
  __syncthreads(); /* the sums of the call before have been read */
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warps; w++) {
    if (w < warp) before += of_warp[w];
    all += of_warp[w];
  }
  *out_all = all;
  return lane ? before + left : before;
}

#endif
