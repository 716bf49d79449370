/* Merging of neighbouring sorted runs by rank: an element's place in the merged run is its place in its own run and the
 * number of elements of the other runs that go before it. A thread for each element, no thread waits for another. */
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

/* The same for groups of CUDA_MERGE_WAYS neighbouring runs, of which the last group may have fewer. All runs are whole:
 * n is a multiple of `run`. The runs of a group are searched side by side, because a thread then waits for its loads
 * together. */
template <class F>
static __device__ inline int64_t merged_place_of_many(int64_t i, int64_t n, int64_t run, const F &before) {
  const int64_t own = i & ~(run - 1), group = i & ~(CUDA_MERGE_WAYS * run - 1);
  /* of each run, its first element that may not go before element i; the element's own run stands for missing ones */
  int64_t first[CUDA_MERGE_WAYS];
  UNROLL for (int w = 0; w < CUDA_MERGE_WAYS; w++) first[w] = group + w * run < n ? group + w * run : own;
  for (int64_t step = run / 2; step; step /= 2)
    UNROLL for (int w = 0; w < CUDA_MERGE_WAYS; w++) if (before(first[w] + step - 1, group + w * run < own)) first[w] +=
        step;
  int64_t place = i;
  UNROLL for (int w = 0; w < CUDA_MERGE_WAYS; w++) {
    const int64_t begin = group + w * run;
    const bool goes_before = before(first[w], begin < own);
    if (begin < n && begin != own) place += first[w] - begin + goes_before;
  }
  return place - (own - group);
}

#endif
