/* CumSum. The axis is an element in the device's memory, so a launch serves every axis: many short lines are summed by
 * a thread each, others by a block each. Few long lines are cut into chunks: a launch before sums the chunks, and a
 * block begins with the sums of the chunks before its own. Floats are summed in double, integers in 64 bits that wrap.
 */
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

/* Elements begin .. end of a line, after those whose sum is `sum`. */
template <class T>
static __device__ inline void sum_by_block(const scan_args &a, int64_t first, int64_t extent, int64_t inner, T sum,
                                           int64_t begin, int64_t end) {
  T all;
  for (; begin < end; begin += blockDim.x) {
    const int64_t k = begin + threadIdx.x, i = first + (a.reverse ? extent - 1 - k : k) * inner;
    const T value = k < end ? sum_of<T>::load(a.dtype, a.x, i) : T(0), before = sum + block_sum(value, &all);
    if (k < end) sum_of<T>::store(a.dtype, a.y, i, a.exclusive ? before : before + value);
    sum += all;
  }
}

/* The lines along the axis. */
struct scan_lines {
  int64_t extent, inner, n, chunks; /* chunks: of a line; 1: a block sums it whole */
};

/* An extent of x, of the counted axis the true one. */
static __device__ inline int64_t extent_of(const scan_args &a, int32_t d) {
  return a.counted.count && d == a.counted_axis ? true_count(a.counted) : a.extents[d];
}

/* False: the axis is not one of the tensor. */
static __device__ inline bool find_lines(const scan_args &a, int64_t *out_axis, scan_lines *out_lines) {
  const int64_t given =
      a.axis_size == 4 ? *static_cast<const int32_t *>(a.axis) : *static_cast<const int64_t *>(a.axis);
  *out_axis = given;
  if (given < -a.rank || given >= a.rank) return false;
  const int32_t axis = static_cast<int32_t>(given < 0 ? given + a.rank : given);
  const int64_t n = true_number(a.counted, a.n);
  scan_lines l = {extent_of(a, axis), 1, 0, 1};
  for (int32_t d = axis + 1; d < a.rank; d++) l.inner *= extent_of(a, d);
  if (n) l.n = n / l.extent;
  if (l.extent > SCAN_CHUNK && l.n < SCAN_FEW_LINES) l.chunks = (l.extent + SCAN_CHUNK - 1) / SCAN_CHUNK;
  *out_lines = l;
  return true;
}

template <class T>
static __device__ inline void sum_chunk(const scan_args &a, const scan_lines &l, int64_t chunk, int64_t first) {
  const int64_t begin = chunk % l.chunks * SCAN_CHUNK,
                end = begin + SCAN_CHUNK < l.extent ? begin + SCAN_CHUNK : l.extent;
  T mine = 0, all;
  for (int64_t k = begin + threadIdx.x; k < end; k += blockDim.x)
    mine += sum_of<T>::load(a.dtype, a.x, first + (a.reverse ? l.extent - 1 - k : k) * l.inner);
  (void)block_sum(mine, &all);
  if (threadIdx.x == 0) a.sums[chunk] = value_of(all);
}

/* A chunk of a line after the chunks before. */
template <class T>
static __device__ inline void scan_chunk(const scan_args &a, const scan_lines &l, int64_t chunk, int64_t first) {
  const int64_t begin = chunk % l.chunks * SCAN_CHUNK,
                end = begin + SCAN_CHUNK < l.extent ? begin + SCAN_CHUNK : l.extent;
  T mine = 0, sum = 0;
  for (int64_t k = chunk - chunk % l.chunks + threadIdx.x; k < chunk; k += blockDim.x) mine += value_as<T>(a.sums[k]);
  (void)block_sum(mine, &sum);
  sum_by_block<T>(a, first, l.extent, l.inner, sum, begin, end);
}

static __device__ inline int64_t line_begin(const scan_lines &l, int64_t line) {
  return line / l.inner * l.extent * l.inner + line % l.inner;
}

KERNEL_OF_MANY_REGISTERS(cumsum_chunks) {
  int64_t axis;
  scan_lines l;
  if (!find_lines(a, &axis, &l) || l.chunks == 1) return;
  for (int64_t chunk = blockIdx.x; chunk < l.n * l.chunks; chunk += gridDim.x) {
    if (dtype_is_float(a.dtype)) sum_chunk<double>(a, l, chunk, line_begin(l, chunk / l.chunks));
    else sum_chunk<uint64_t>(a, l, chunk, line_begin(l, chunk / l.chunks));
  }
}

KERNEL(cumsum) {
  int64_t axis;
  scan_lines l;
  if (!find_lines(a, &axis, &l)) {
    if (thread_number() == 0 && (!a.counted.count || true_count(a.counted)))
      note_fault(a.fault, a.launch, REED_FAULT_AXIS, 1, 0, axis, a.rank);
    return;
  }
  const bool floats = dtype_is_float(a.dtype);
  if (l.extent <= SHORT_LINE || l.n >= MANY_LINES) {
    for (int64_t line = thread_number(); line < l.n; line += static_cast<int64_t>(gridDim.x) * blockDim.x) {
      if (floats) sum_by_thread<double>(a, line_begin(l, line), l.extent, l.inner);
      else sum_by_thread<uint64_t>(a, line_begin(l, line), l.extent, l.inner);
    }
    return;
  }
  for (int64_t chunk = blockIdx.x; chunk < l.n * l.chunks; chunk += gridDim.x) {
    const int64_t first = line_begin(l, chunk / l.chunks);
    if (l.chunks > 1 && floats) scan_chunk<double>(a, l, chunk, first);
    else if (l.chunks > 1) scan_chunk<uint64_t>(a, l, chunk, first);
    else if (floats) sum_by_block<double>(a, first, l.extent, l.inner, 0, 0, l.extent);
    else sum_by_block<uint64_t>(a, first, l.extent, l.inner, 0, 0, l.extent);
  }
}
