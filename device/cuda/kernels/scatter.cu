/* ScatterElements and ScatterND, with the bits of updates that are made in order on one thread.
 *
 * Without a reduction each slot gets the number of its last update by atomicMax, and only that update writes. With a
 * reduction the updates of a slot are counted, listed, sorted and made by one thread: their order in the list, which
 * depends on the order of threads, is gone after the sort.
 *
 * Of a counted call the counted axis is the first one with more than one element, so that the elements, updates and
 * slots that there are come first. */
#include "device/cuda/kernels/indices.cuh"
#include "device/cuda/kernels/values.cuh"

enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN }; /* in the order of op.def */

/* Without elements there is nothing to update, whatever the indices are. */
static __device__ inline int64_t true_updates(const scatter_args &a) {
  return !a.counted.count || true_count(a.counted) ? true_number(a.updated, a.n) : 0;
}

/* The slot of update i; false: an index is outside, and noted. */
static __device__ inline bool find_slot(const scatter_args &a, int64_t i, int64_t *out_slot) {
  int64_t slot = 0, index;
  if (a.axis < 0) {
    for (int32_t c = 0; c < a.n_components; c++) {
      const int64_t extent = a.counted.count && c == a.counted_component ? true_count(a.counted) : a.extents[c];
      if (!read_index(a.index_size, a.indices, i * a.n_components + c, extent, a.fault, a.launch, &index)) return false;
      slot += index * a.strides[c];
    }
  } else {
    int64_t at[CUDA_DIMS];
    split_index(i, a.rank, a.walk, at);
    if (!read_index(a.index_size, a.indices, i, a.extents[a.axis], a.fault, a.launch, &index)) return false;
    for (int32_t d = 0; d < a.rank; d++) slot += (d == a.axis ? index : at[d]) * a.strides[d];
  }
  *out_slot = slot;
  return true;
}

/* The data become the output; slots are empty. */
KERNEL(scatter_begin) {
  const int64_t i = thread_number();
  if (i < true_number(a.counted, a.elements) && a.x != a.y) copy_element(a.size, a.y, i, a.x, i);
  if (i < true_number(a.counted, a.n_slots) && a.slots) a.slots[i] = 0;
  if (i == 0 && a.taken) *a.taken = 0;
}

/* ---- without a reduction ---- */

KERNEL(scatter_claim) {
  const int64_t i = thread_number();
  int64_t slot;
  if (i < true_updates(a) && find_slot(a, i, &slot)) atomicMax(&a.slots[slot], static_cast<unsigned long long>(i) + 1);
}

KERNEL(scatter_replace) {
  const int64_t i = thread_number();
  if (i >= true_updates(a) * a.block) return;
  const int64_t update = i / a.block;
  int64_t slot;
  if (find_slot(a, update, &slot) && a.slots[slot] == static_cast<unsigned long long>(update) + 1)
    copy_element(a.size, a.y, slot * a.block + i % a.block, a.updates, i);
}

/* ---- with one ---- */

KERNEL(scatter_count) {
  const int64_t i = thread_number();
  int64_t slot;
  if (i < true_updates(a) && find_slot(a, i, &slot)) atomicAdd(&a.slots[slot], 1ull);
}

/* Slots with updates get their part of the list, and count their places in it from 0. */
KERNEL(scatter_place) {
  const int64_t slot = thread_number();
  if (slot >= true_number(a.counted, a.n_slots)) return;
  const unsigned long long n = a.slots[slot];
  a.starts[slot] = n ? atomicAdd(a.taken, n) : 0;
  a.slots[slot] = 0;
}

KERNEL(scatter_list) {
  const int64_t i = thread_number();
  int64_t slot;
  if (i < true_updates(a) && find_slot(a, i, &slot)) a.list[a.starts[slot] + atomicAdd(&a.slots[slot], 1ull)] = i;
}

static __device__ inline void sift_down(int64_t *list, int64_t i, int64_t n) {
  const int64_t item = list[i];
  for (int64_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && list[child + 1] > list[child]) child++;
    if (list[child] <= item) break;
    list[i] = list[child];
  }
  list[i] = item;
}

/* Heap sort (Williams 1964) of each slot's updates: they need no more memory, however many they are. */
KERNEL(scatter_sort) {
  const int64_t slot = thread_number();
  if (slot >= true_number(a.counted, a.n_slots)) return;
  const int64_t n = static_cast<int64_t>(a.slots[slot]);
  int64_t *const list = a.list + a.starts[slot];
  for (int64_t i = n / 2; i-- > 0;) sift_down(list, i, n);
  for (int64_t end = n - 1; end > 0; end--) {
    const int64_t most = list[0];
    list[0] = list[end];
    list[end] = most;
    sift_down(list, 0, end);
  }
}

template <class T> static __device__ inline T combine_reals(int32_t reduction, T a, T b) {
  switch (reduction) {
    case REDUCE_ADD: return a + b;
    case REDUCE_MUL: return a * b;
    case REDUCE_MAX: return a > b || a != a ? a : b;
    default: return a < b || a != a ? a : b;
  }
}

static __device__ inline uint64_t combine(int dtype, int32_t reduction, uint64_t a, uint64_t b) {
  if (dtype == REED_F64) return value_of(combine_reals(reduction, value_as<double>(a), value_as<double>(b)));
  if (dtype_is_float(dtype)) return value_of(combine_reals(reduction, value_as<float>(a), value_as<float>(b)));
  if (dtype == REED_BOOL) { /* add and mul are or and and */
    const bool larger = reduction == REDUCE_ADD || reduction == REDUCE_MAX;
    return (a > b) == larger ? a : b;
  }
  const int64_t v = value_whole(dtype, a), w = value_whole(dtype, b);
  const bool above = dtype == REED_U64 ? a > b : v > w;
  switch (reduction) {
    case REDUCE_ADD: return static_cast<uint64_t>(v) + static_cast<uint64_t>(w);
    case REDUCE_MUL: return static_cast<uint64_t>(v) * static_cast<uint64_t>(w);
    case REDUCE_MAX: return above ? a : b;
    default: return above ? b : a;
  }
}

/* One thread an element of a slot. Each result is rounded to the dtype, as in memory. */
KERNEL(scatter_reduce) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n_slots) * a.block) return;
  const int64_t slot = i / a.block, b = i % a.block, n = static_cast<int64_t>(a.slots[slot]);
  const int64_t *const list = a.list + a.starts[slot];
  for (int64_t k = 0; k < n; k++)
    value_store(a.dtype, a.y, i,
                combine(a.dtype, a.reduction, value_load(a.dtype, a.y, i),
                        value_load(a.dtype, a.updates, list[k] * a.block + b)));
}
