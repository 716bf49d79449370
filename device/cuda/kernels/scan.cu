/* CumSum. The axis is an element in the device's memory, so a launch serves every axis: many short lines are summed by
 * a thread each, few long ones by a block each. Floats are summed in double, integers in 64 bits that wrap. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/values.cuh"

enum { SHORT_LINE = 64, MANY_LINES = 1 << 16 };

template <class T> struct sum_of;
template <> struct sum_of<double> {
  static __device__ inline double load(int dtype, const void *x, int64_t i) {
    return value_real(dtype, value_load(dtype, x, i));
  }
  static __device__ inline void store(int dtype, void *y, int64_t i, double sum) {
    value_store(dtype, y, i, convert_real(sum, dtype));
  }
};
template <> struct sum_of<uint64_t> {
  static __device__ inline uint64_t load(int dtype, const void *x, int64_t i) {
    return static_cast<uint64_t>(value_whole(dtype, value_load(dtype, x, i)));
  }
  static __device__ inline void store(int dtype, void *y, int64_t i, uint64_t sum) { value_store(dtype, y, i, sum); }
};

template <class T>
static __device__ inline void sum_by_thread(const scan_args &a, int64_t first, int64_t extent, int64_t inner) {
  T sum = 0;
  for (int64_t k = 0; k < extent; k++) {
    const int64_t i = first + (a.reverse ? extent - 1 - k : k) * inner;
    const T value = sum_of<T>::load(a.dtype, a.x, i), with = sum + value;
    sum_of<T>::store(a.dtype, a.y, i, a.exclusive ? sum : with);
    sum = with;
  }
}

template <class T>
static __device__ inline void sum_by_block(const scan_args &a, int64_t first, int64_t extent, int64_t inner) {
  T sum = 0, all;
  for (int64_t begin = 0; begin < extent; begin += blockDim.x) {
    const int64_t k = begin + threadIdx.x, i = first + (a.reverse ? extent - 1 - k : k) * inner;
    const T value = k < extent ? sum_of<T>::load(a.dtype, a.x, i) : T(0), before = sum + block_sum(value, &all);
    if (k < extent) sum_of<T>::store(a.dtype, a.y, i, a.exclusive ? before : before + value);
    sum += all;
  }
}

KERNEL(cumsum) {
  const int64_t given =
      a.axis_size == 4 ? *static_cast<const int32_t *>(a.axis) : *static_cast<const int64_t *>(a.axis);
  if (given < -a.rank || given >= a.rank) {
    if (thread_number() == 0) note_fault(a.fault, a.launch, REED_FAULT_AXIS, 1, 0, given, a.rank);
    return;
  }
  if (a.n == 0) return;
  const int32_t axis = static_cast<int32_t>(given < 0 ? given + a.rank : given);
  int64_t inner = 1;
  for (int32_t d = axis + 1; d < a.rank; d++) inner *= a.extents[d];
  const int64_t extent = a.extents[axis], lines = a.n / extent;
  const bool by_thread = extent <= SHORT_LINE || lines >= MANY_LINES;
  const int64_t step = by_thread ? static_cast<int64_t>(gridDim.x) * blockDim.x : gridDim.x;
  for (int64_t line = by_thread ? thread_number() : blockIdx.x; line < lines; line += step) {
    const int64_t first = line / inner * extent * inner + line % inner;
    if (by_thread && dtype_is_float(a.dtype)) sum_by_thread<double>(a, first, extent, inner);
    else if (by_thread) sum_by_thread<uint64_t>(a, first, extent, inner);
    else if (dtype_is_float(a.dtype)) sum_by_block<double>(a, first, extent, inner);
    else sum_by_block<uint64_t>(a, first, extent, inner);
  }
}
