/* Kernels without faults: the results of CUDA's features under the emulation. */
#include "device/cuda/simt/device.hpp"
#include "tests/device/cuda/simt/kernels.h"

#define KERNEL(name, bounds) \
  static void run_##name(const test_args &a); \
  static void start_##name(const void *args) { run_##name(*static_cast<const test_args *>(args)); } \
  const simt_kernel kernel_##name = {#name, sizeof(test_args), alignof(test_args), bounds, start_##name}; \
  static void run_##name(const test_args &a)

/* y[block] is the sum of the block's part of x: shuffles within warps, shared memory between them. */
KERNEL(sum, 256) {
  SHARED_ARRAY(float, part, [8]);
  const int t = static_cast<int>(threadIdx.x);
  float v = 0;
  for (int i = static_cast<int>(blockIdx.x) * 256 + t; i < a.n; i += static_cast<int>(gridDim.x) * 256) v += a.x[i];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, static_cast<unsigned>(d));
  if (t % 32 == 0) part[t / 32] = v;
  __syncthreads();
  if (t) return;
  float all = 0;
  for (int w = 0; w < 8; w++) all += part[w];
  a.y[blockIdx.x] = all;
}

/* y: the results of the three forms of __syncthreads for the predicate "x of this thread is not 0". */
KERNEL(barriers, 96) {
  const int p = a.x[threadIdx.x] != 0;
  const int count = __syncthreads_count(p), all = __syncthreads_and(p), any = __syncthreads_or(p);
  if (threadIdx.x == 95) {
    a.y[0] = static_cast<float>(count);
    a.y[1] = static_cast<float>(all);
    a.y[2] = static_cast<float>(any);
  }
}

/* Votes and shuffles, one row of 32 a kind; lanes 0..15 and 16..31 vote apart in row 5. */
KERNEL(votes, 32) {
  const int lane = static_cast<int>(threadIdx.x), p = a.x[lane] != 0;
  const unsigned mine = lane < 16 ? 0xffffu : 0xffff0000u;
  a.y[lane] = static_cast<float>(__popc(__ballot_sync(~0u, p)));
  a.y[32 + lane] = static_cast<float>(__any_sync(~0u, p) + 2 * __all_sync(~0u, p));
  a.y[64 + lane] = __shfl_sync(~0u, a.x[lane], lane + 1, 8);
  a.y[96 + lane] = __shfl_up_sync(~0u, a.x[lane], 3u);
  a.y[128 + lane] = __shfl_xor_sync(~0u, a.x[lane], 5);
  if (lane < 16) a.y[160 + lane] = static_cast<float>(__ballot_sync(mine, p));
  else a.y[160 + lane] = static_cast<float>(__ballot_sync(mine, p) >> 16);
  a.y[192 + lane] = static_cast<float>(__popc(__match_any_sync(~0u, a.x[lane])));
  __syncwarp();
}

/* y of each thread of a grid and block of three dims: its number. */
KERNEL(places, 64) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x,
                 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const uint64_t at = static_cast<uint64_t>(block) * (blockDim.x * blockDim.y * blockDim.z) + thread;
  if (at < static_cast<uint64_t>(a.n)) a.y[at] += static_cast<float>(at);
}

/* y[0]: the sum of x, y[1]: its largest element; in shared memory first. Every thread puts itself into the order of
 * y[2 ...]. */
KERNEL(atomics, 128) {
  SHARED_DYNAMIC(float, mine);
  SHARED_VALUE(int, sum);
  SHARED_VALUE(int, most);
  SHARED_VALUE(int, turn);
  if (threadIdx.x == 0) sum = most = turn = 0;
  mine[threadIdx.x] = a.x[threadIdx.x];
  __syncthreads();
  atomicAdd(&sum, static_cast<int>(mine[threadIdx.x]));
  atomicMax(&most, static_cast<int>(mine[threadIdx.x]));
  a.y[2 + atomicAdd(&turn, 1)] = static_cast<float>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    a.y[0] = static_cast<float>(sum);
    a.y[1] = static_cast<float>(most);
  }
}
