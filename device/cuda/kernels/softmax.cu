/* Softmax, LogSoftmax, Hardmax and LpNormalization: a warp or a block a row, whose elements lie `inner` apart. Few long
 * rows are split over blocks: a launch before finds the parts' largest elements and sums. Sums are taken in double, so
 * that a long row is right to the last place. */
#include "device/cuda/kernels/values.cuh"

enum { KIND_SOFTMAX, KIND_LOG, KIND_HARD, KIND_LP }; /* softmax_kind of ops/cpu/calls/softmax.h */

static __device__ inline double read_real(int dtype, const void *x, int64_t i) {
  return value_real(dtype, value_load(dtype, x, i));
}
static __device__ inline void write_real(int dtype, void *y, int64_t i, double v) {
  value_store(dtype, y, i, convert_real(v, dtype));
}

/* The part with the elements of both; sums of exponentials are relative to the largest element. */
static __device__ inline softmax_part both(const softmax_args &a, const softmax_part &x, const softmax_part &y) {
  if (x.place == INT64_MAX || y.place == INT64_MAX) return x.place == INT64_MAX ? y : x;
  /* the largest, the first of equal ones; NaN before all */
  const bool nan = x.most != x.most, other_nan = y.most != y.most;
  const bool second = (other_nan && !nan) || (!nan && !other_nan && y.most > x.most) ||
                      ((y.most == x.most || (nan && other_nan)) && y.place < x.place);
  softmax_part made = second ? y : x;
  made.sum = x.sum + y.sum;
  if (a.kind != KIND_SOFTMAX && a.kind != KIND_LOG) return made;
  if (x.most == y.most) return made; /* also two infinities */
  made.sum = second ? y.sum + x.sum * exp(x.most - y.most) : x.sum + y.sum * exp(y.most - x.most);
  return made;
}

/* The part of all of a row's threads, in each of them. */
static __device__ inline softmax_part join_lanes(const softmax_args &a, softmax_part mine) {
  SHARED_ARRAY(softmax_part, of_warp, [8]);
  for (int d = 16; d; d /= 2) {
    const softmax_part other = {__shfl_xor_sync(~0u, mine.most, d), __shfl_xor_sync(~0u, mine.sum, d),
                                __shfl_xor_sync(~0u, mine.place, d)};
    mine = both(a, mine, other);
  }
  if (a.lanes == 32) return mine;
  __syncthreads(); /* the parts before these have been read */
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = of_warp[0];
  for (int w = 1; w < a.lanes / 32; w++) mine = both(a, mine, of_warp[w]);
  return mine;
}

/* The part of elements begin, begin + step, ... of a row. */
static __device__ inline softmax_part find_part(const softmax_args &a, int64_t first, int64_t begin, int64_t step) {
  softmax_part part = {-static_cast<double>(INFINITY), 0, INT64_MAX};
  for (int64_t i = begin; i < a.axis; i += step) {
    const double v = read_real(a.dtype, a.x, first + i * a.inner);
    if (a.kind == KIND_LP) part.sum += a.power == 1 ? fabs(v) : v * v;
    if (v > part.most || part.place == INT64_MAX || (v != v && part.most == part.most)) {
      part.most = v;
      part.place = i;
    }
  }
  if (a.kind != KIND_SOFTMAX && a.kind != KIND_LOG) return join_lanes(a, part);
  part = join_lanes(a, part);
  for (int64_t i = begin; i < a.axis; i += step)
    part.sum += exp(read_real(a.dtype, a.x, first + i * a.inner) - part.most);
  return join_lanes(a, part);
}

/* A block a split of a row. */
KERNEL(softmax_parts) {
  const uint32_t splits = static_cast<uint32_t>(a.splits);
  const int64_t row = blockIdx.x / splits, split = blockIdx.x % splits;
  if (row >= true_number(a.counted, a.rows)) return; /* all threads */
  const softmax_part part = find_part(a, row / a.inner * a.axis * a.inner + row % a.inner,
                                      split * a.lanes + threadIdx.x, static_cast<int64_t>(a.lanes) * a.splits);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = part;
}

KERNEL(softmax) {
  const int64_t thread = thread_number(), lane = thread % a.lanes, row = thread / a.lanes / a.splits,
                split = thread / a.lanes % a.splits, begin = split * a.lanes + lane,
                step = static_cast<int64_t>(a.lanes) * a.splits;
  if (row >= true_number(a.counted, a.rows)) return; /* all threads of a row, which have the warp or the block alone */
  const int64_t first = row / a.inner * a.axis * a.inner + row % a.inner;
  softmax_part part = {-static_cast<double>(INFINITY), 0, INT64_MAX};
  if (a.parts) {
    for (int64_t i = lane; i < a.splits; i += a.lanes) part = both(a, part, a.parts[row * a.splits + i]);
    part = join_lanes(a, part);
  } else {
    part = find_part(a, first, begin, step);
  }
  const double sum = a.kind == KIND_LP && a.power != 1 ? sqrt(part.sum) : part.sum,
               log_sum = a.kind == KIND_LOG ? log(sum) : 0;
  for (int64_t i = begin; i < a.axis; i += step) {
    const int64_t at = first + i * a.inner;
    const double v = read_real(a.dtype, a.x, at);
    double y = i == part.place ? 1 : 0;
    if (a.kind == KIND_SOFTMAX) y = exp(v - part.most) / sum;
    if (a.kind == KIND_LOG) y = v - part.most - log_sum;
    if (a.kind == KIND_LP) y = sum == 0 ? 0 : v / sum;
    write_real(a.dtype, a.y, at, y);
  }
}
