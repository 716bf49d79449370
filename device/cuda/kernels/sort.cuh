/* Bitonic sort (Batcher 1968) of a run of keys by one block, in shared memory. A thread sorts eight neighbouring keys
 * in registers; it gets the keys of other threads by shuffles in its warp and by shared memory from other warps. */
#ifndef DEVICE_CUDA_KERNELS_SORT_CUH_
#define DEVICE_CUDA_KERNELS_SORT_CUH_

#include "device/cuda/kernels/dialect.cuh"

enum { SORT_EACH = CUDA_SORT_EACH, SORT_WARP = 32 * SORT_EACH }; /* keys of a thread, of a warp */

/* A key of 64 bits whose ties the place decides. A key of 32 bits and a place of 32 bits are one uint64_t. */
struct alignas(16) key_and_place {
  uint64_t key, place;
};

static __device__ inline bool goes_before(uint64_t a, uint64_t b) { return a < b; }
static __device__ inline bool goes_before(const key_and_place &a, const key_and_place &b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

static __device__ inline uint64_t of_lane_across(uint64_t key, int lanes) { return __shfl_xor_sync(~0u, key, lanes); }
static __device__ inline key_and_place of_lane_across(const key_and_place &key, int lanes) {
  return {__shfl_xor_sync(~0u, key.key, lanes), __shfl_xor_sync(~0u, key.place, lanes)};
}

/* The least power of two that is at least n, and at least 2. */
static __device__ inline int64_t padded_to_power(int64_t n) { return n <= 2 ? 2 : int64_t(1) << (64 - __clzll(n - 1)); }

/* The keys that sort_keys sorts for a run of so many: a power of two that gives a thread all of its keys. */
static __device__ inline int sorted_size(int64_t run) { return run < SORT_EACH ? SORT_EACH : static_cast<int>(run); }

/* The place of key i of a run in shared memory. Neither threads with neighbouring keys nor threads with key e of their
 * eight meet in a bank. */
static __device__ inline int slot_of(int i, int size) {
  return i % SORT_EACH * (size / SORT_EACH + CUDA_SORT_GAP) + i / SORT_EACH;
}

/* Sorts the keys of all slots of a run: `size` of them, of which a block has at most eight a thread. Every thread of
 * the block calls; the keys are there before and after, for all threads. */
template <class K> static __device__ inline void sort_keys(K *keys, int size) {
  const int t = static_cast<int>(threadIdx.x), begin = t * SORT_EACH, lane_slot = size / SORT_EACH + CUDA_SORT_GAP;
  const bool sorts = t / 32 * SORT_WARP < size, has_keys = begin < size; /* the thread's warp; the thread */
  K mine[SORT_EACH] = {};
  __syncthreads();
  if (has_keys) UNROLL for (int e = 0; e < SORT_EACH; e++) mine[e] = keys[e * lane_slot + t];
  ROLLED for (int run = 2; run <= size; run *= 2) {
    int apart = run / 2;
    const bool falls = (begin & run) != 0; /* if the run is longer than a thread's keys */
    ROLLED for (; apart >= SORT_WARP; apart /= 2) {
      __syncthreads(); /* the keys have been read */
      if (sorts) UNROLL for (int e = 0; e < SORT_EACH; e++) keys[e * lane_slot + t] = mine[e];
      __syncthreads();
      if (!sorts) continue;
      const bool takes_later = ((begin & apart) != 0) != falls;
      const K *const others = keys + (t ^ (apart / SORT_EACH));
      UNROLL for (int e = 0; e < SORT_EACH; e++) {
        const K other = others[e * lane_slot];
        if (goes_before(other, mine[e]) != takes_later) mine[e] = other;
      }
    }
    if (!sorts) continue;
    ROLLED for (; apart >= SORT_EACH; apart /= 2) {
      const bool takes_later = ((begin & apart) != 0) != falls;
      UNROLL for (int e = 0; e < SORT_EACH; e++) {
        const K other = of_lane_across(mine[e], apart / SORT_EACH);
        if (goes_before(other, mine[e]) != takes_later) mine[e] = other;
      }
    }
    UNROLL for (int near = SORT_EACH / 2; near; near /= 2) if (near < run)
        UNROLL for (int low = 0; low < SORT_EACH; low++) {
      if (low & near) continue;
      const K first = mine[low], second = mine[low + near];
      if (goes_before(second, first) == (((begin + low) & run) != 0)) continue;
      mine[low] = second;
      mine[low + near] = first;
    }
  }
  __syncthreads(); /* the keys have been read */
  if (has_keys) UNROLL for (int e = 0; e < SORT_EACH; e++) keys[e * lane_slot + t] = mine[e];
  __syncthreads();
}

#endif
