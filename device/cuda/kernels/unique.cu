/* Unique: slices are merged in runs (merge.cuh), a thread each. Then equal slices are neighbours in the order of their
 * places, and the launches of NonZero (select.cu) list where groups begin. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/merge.cuh"
#include "device/cuda/kernels/values.cuh"

static __device__ inline int64_t slices_of(const unique_args &a) {
  return a.counted.count ? true_count(a.counted) : a.n;
}

static __device__ inline int64_t slice_of(const unique_args &a, int64_t rank) { return a.from ? a.from[rank] : rank; }

/* -1, 0 or 1: slice i comes before slice j, equals it, or comes after it. */
static __device__ inline int compare(const unique_args &a, int64_t i, int64_t j) {
  const int64_t n = slices_of(a);
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t b = 0; b < a.block; b++) {
      const uint64_t one = value_key(a.dtype, a.bits, value_load(a.dtype, a.x, (o * n + i) * a.block + b)),
                     other = value_key(a.dtype, a.bits, value_load(a.dtype, a.x, (o * n + j) * a.block + b));
      if (one != other) return one < other ? -1 : 1;
    }
  return 0;
}

/* The first of n ascending numbers that is at least `least`. */
static __device__ inline int64_t lower_bound(const int64_t *numbers, int64_t n, int64_t least) {
  return first_not_before(0, n, [&](int64_t k) { return numbers[k] < least; });
}

KERNEL(unique_merge) {
  const int64_t i = thread_number(), n = slices_of(a);
  if (i >= n) return;
  const int64_t slice = slice_of(a, i);
  a.to[merged_place(i, n, a.run, [&](int64_t j, bool or_equal) {
    return compare(a, slice_of(a, j), slice) < (or_equal ? 1 : 0);
  })] = slice;
}

KERNEL_OF_MANY_REGISTERS(unique_begins) {
  const int64_t i = thread_number();
  if (i >= slices_of(a)) return;
  const uint8_t begins = i == 0 || compare(a, a.from[i - 1], a.from[i]) != 0;
  a.begins[i] = begins;
  if (a.marks) a.marks[a.from[i]] = begins;
}

KERNEL(unique_groups) {
  const int64_t i = thread_number(), total = *a.total, n = slices_of(a);
  for (int k = 0; k < 2 && i == 0; k++)
    if (a.extents[k]) *a.extents[k] = total;
  if (i >= n) return;
  const int64_t rank = lower_bound(a.starts, total, i + 1) - 1, start = a.starts[rank], first = a.from[start],
                group = a.firsts ? lower_bound(a.firsts, total, first) : rank;
  if (a.inverse) a.inverse[a.from[i]] = group;
  if (i != start) return;
  if (a.first) a.first[group] = first;
  if (a.indices) a.indices[group] = first;
  if (a.counts) a.counts[group] = (rank + 1 < total ? a.starts[rank + 1] : n) - start;
}
