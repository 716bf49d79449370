/* Merging of neighbouring sorted runs by rank: an element's place in the merged run is its place in its own run and the
 * number of elements of the other run that go before it. A thread for each element, no thread waits for another. */
#ifndef DEVICE_CUDA_KERNELS_MERGE_CUH_
#define DEVICE_CUDA_KERNELS_MERGE_CUH_

#include "device/cuda/kernels/dialect.cuh"

/* The first of the numbers low .. high - 1 for which before(number) is false; high: there is none. The numbers for
 * which it is true are the first ones. */
template <class F> static __device__ inline int64_t first_not_before(int64_t low, int64_t high, const F &before) {
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (before(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The place of element i of n, whose runs have `run` elements each (a power of two; the last run may be shorter), after
 * each pair of runs has been merged. before(j, or_equal): element j of the other run goes before element i; or_equal:
 * also if both are equal, because equal elements of the first run go first. */
template <class F> static __device__ inline int64_t merged_place(int64_t i, int64_t n, int64_t run, const F &before) {
  const bool second = (i & run) != 0;
  const int64_t own = i & ~(run - 1), other = own ^ run, begin = other < n ? other : n,
                end = begin + run < n ? begin + run : n;
  const int64_t first = first_not_before(begin, end, [&](int64_t j) { return before(j, second); });
  return (second ? other : own) + (i - own) + (first - begin);
}

#endif
