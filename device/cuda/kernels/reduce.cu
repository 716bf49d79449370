/* Reductions and arg reductions. `lanes` threads share an output: they take its elements in turn and join their
 * accumulators in shared memory. Few outputs of many elements are split over blocks, whose accumulators a second launch
 * joins. Floats accumulate in double, integers in 64 bits, as on the host. */
#include "device/cuda/kernels/values.cuh"
#include "ops/op.h"

/* log(e^a + e^v) without overflow */
static __device__ inline double reduce_log_add(double a, double v) {
  const double high = a > v || a != a ? a : v, low = a > v || a != a ? v : a;
  if (high == -static_cast<double>(INFINITY) || high == static_cast<double>(INFINITY)) return low != low ? low : high;
  return high + log1p(exp(low - high));
}

#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define CLASS f
#define A double
#define W double
#include "device/cuda/kernels/reduce_type.cuh"
#undef IF_FLOAT
#undef IF_INT
#define IF_FLOAT(...)
#define IF_INT(...) __VA_ARGS__
#undef IF_SIGNED
#define IF_SIGNED(...) __VA_ARGS__
#define CLASS s
#define A int64_t
#define W uint64_t
#include "device/cuda/kernels/reduce_type.cuh"
#undef IF_SIGNED
#undef IF_UNSIGNED
#define IF_SIGNED(...)
#define IF_UNSIGNED(...) __VA_ARGS__
#define CLASS u
#define A uint64_t
#define W uint64_t
#include "device/cuda/kernels/reduce_type.cuh"
#undef IF_INT
#undef IF_UNSIGNED
#undef IF_BOOL
#define IF_INT(...)
#define IF_UNSIGNED(...)
#define IF_BOOL(...) __VA_ARGS__
#define CLASS b
#define A uint64_t
#define W uint64_t
#include "device/cuda/kernels/reduce_type.cuh"

static __device__ inline int64_t lowest_of(int dtype) {
  return dtype == REED_I8 ? INT8_MIN : dtype == REED_I16 ? INT16_MIN : dtype == REED_I32 ? INT32_MIN : INT64_MIN;
}
static __device__ inline int64_t highest_of(int dtype) {
  return dtype == REED_I8 ? INT8_MAX : dtype == REED_I16 ? INT16_MAX : dtype == REED_I32 ? INT32_MAX : INT64_MAX;
}
static __device__ inline uint64_t most_of(int dtype) {
  return dtype == REED_U8 ? UINT8_MAX : dtype == REED_U16 ? UINT16_MAX : dtype == REED_U32 ? UINT32_MAX : UINT64_MAX;
}

/* The classes' functions on the bits of accumulators. */
enum reduce_class { CLASS_FLOAT, CLASS_SIGNED, CLASS_UNSIGNED, CLASS_BOOL };
static __device__ inline reduce_class class_of(int dtype) {
  if (dtype_is_float(dtype)) return CLASS_FLOAT;
  if (dtype == REED_BOOL) return CLASS_BOOL;
  const bool is_unsigned = dtype == REED_U8 || dtype == REED_U16 || dtype == REED_U32 || dtype == REED_U64;
  return is_unsigned ? CLASS_UNSIGNED : CLASS_SIGNED;
}
static __device__ inline uint64_t start_of(const reduce_args &a) {
  switch (class_of(a.dtype)) {
    case CLASS_FLOAT: return value_of(reduce_start_f(a.op, 0, 0));
    case CLASS_SIGNED: return value_of(reduce_start_s(a.op, lowest_of(a.dtype), highest_of(a.dtype)));
    case CLASS_UNSIGNED: return reduce_start_u(a.op, 0, most_of(a.dtype));
    default: return reduce_start_b(a.op, 0, 1);
  }
}
static __device__ inline uint64_t join(const reduce_args &a, uint64_t left, uint64_t right) {
  switch (class_of(a.dtype)) {
    case CLASS_FLOAT: return value_of(reduce_join_f(a.op, value_as<double>(left), value_as<double>(right)));
    case CLASS_SIGNED: return value_of(reduce_join_s(a.op, value_as<int64_t>(left), value_as<int64_t>(right)));
    case CLASS_UNSIGNED: return reduce_join_u(a.op, left, right);
    default: return reduce_join_b(a.op, left, right);
  }
}
static __device__ inline uint64_t value_at(const reduce_args &a, int64_t i) {
  const uint64_t value = value_load(a.dtype, a.x, i);
  switch (class_of(a.dtype)) {
    case CLASS_FLOAT: return value_of(reduce_value_f(a.op, value_real(a.dtype, value)));
    case CLASS_SIGNED: return value_of(reduce_value_s(a.op, value_whole(a.dtype, value)));
    case CLASS_UNSIGNED: return reduce_value_u(a.op, value);
    default: return reduce_value_b(a.op, value);
  }
}
static __device__ inline void finish(const reduce_args &a, int64_t to, uint64_t sum) {
  switch (class_of(a.dtype)) {
    case CLASS_FLOAT:
      value_store(a.dtype, a.y, to, convert_real(reduce_finish_f(a.op, value_as<double>(sum), a.n), a.dtype));
      break;
    case CLASS_SIGNED:
      value_store(a.dtype, a.y, to, value_of(reduce_finish_s(a.op, value_as<int64_t>(sum), a.n)));
      break;
    case CLASS_UNSIGNED: value_store(a.dtype, a.y, to, reduce_finish_u(a.op, sum, a.n)); break;
    default: value_store(a.dtype, a.y, to, reduce_finish_b(a.op, sum, a.n)); break;
  }
}

/* The accumulators of an output's lanes, joined; lane 0 has the result. */
static __device__ inline uint64_t join_lanes(const reduce_args &a, int32_t lanes, uint64_t sum) {
  SHARED_ARRAY(uint64_t, part, [256]);
  const int t = static_cast<int>(threadIdx.x), lane = t % lanes;
  for (int apart = lanes / 2; apart; apart /= 2) {
    part[t] = sum;
    __syncthreads();
    const uint64_t other = part[lane < apart ? t + apart : t];
    if (lane < apart) sum = join(a, sum, other);
    __syncthreads();
  }
  return sum;
}

KERNEL(reduce) {
  const int t = static_cast<int>(threadIdx.x), lane = t % a.lanes;
  const int64_t part = (static_cast<int64_t>(blockIdx.x) * 256 + t) / a.lanes, output = part / a.splits;
  int64_t at[CUDA_DIMS], base = 0;
  uint64_t sum = start_of(a);
  if (output < a.outputs) {
    split_index(output, a.n_kept, a.kept, at);
    for (int32_t d = 0; d < a.n_kept; d++) base += at[d] * a.kept_strides[d];
    for (int64_t i = part % a.splits * a.lanes + lane; i < a.n; i += static_cast<int64_t>(a.lanes) * a.splits) {
      int64_t from = base;
      split_index(i, a.n_reduced, a.reduced, at);
      for (int32_t d = 0; d < a.n_reduced; d++) from += at[d] * a.reduced_strides[d];
      sum = join(a, sum, value_at(a, from));
    }
  }
  sum = join_lanes(a, a.lanes, sum);
  if (lane || output >= a.outputs) return;
  if (a.parts) a.parts[part] = sum;
  else finish(a, output, sum);
}

/* A block an output. */
KERNEL(reduce_join) {
  uint64_t sum = start_of(a);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.splits; i += 256)
    sum = join(a, sum, a.parts[static_cast<int64_t>(blockIdx.x) * a.splits + i]);
  sum = join_lanes(a, 256, sum);
  if (threadIdx.x == 0) finish(a, blockIdx.x, sum);
}

/* True if the value goes before the best so far (equal_too: or is equal to it); NaN goes before all numbers. */
static __device__ inline bool goes_before(const arg_reduce_args &a, uint64_t best, uint64_t value, bool equal_too) {
  if (dtype_is_float(a.dtype)) {
    const double x = value_real(a.dtype, best), v = value_real(a.dtype, value);
    if (x != x) return v != v && equal_too;
    return v != v || (a.smallest ? v < x : v > x) || (equal_too && v == x);
  }
  if (equal_too && best == value) return true;
  if (a.dtype == REED_U64) return a.smallest ? value < best : value > best;
  const int64_t x = value_whole(a.dtype, best), v = value_whole(a.dtype, value);
  return a.smallest ? v < x : v > x;
}

/* Of two parts the one that the result comes from; of equal ones the first or last. */
static __device__ inline arg_part better(const arg_reduce_args &a, const arg_part &x, const arg_part &y) {
  if (x.place < 0 || y.place < 0) return x.place < 0 ? y : x;
  if (goes_before(a, x.value, y.value, false)) return y;
  if (goes_before(a, y.value, x.value, false)) return x;
  return (y.place < x.place) == (a.last == 0) ? y : x;
}

/* The best of an output's lanes, in lane 0. */
static __device__ inline arg_part best_of_lanes(const arg_reduce_args &a, int32_t lanes, arg_part best) {
  SHARED_ARRAY(arg_part, part, [256]);
  const int t = static_cast<int>(threadIdx.x), lane = t % lanes;
  for (int apart = lanes / 2; apart; apart /= 2) {
    part[t] = best;
    __syncthreads();
    const arg_part other = part[lane < apart ? t + apart : t];
    if (lane < apart) best = better(a, best, other);
    __syncthreads();
  }
  return best;
}

KERNEL(arg_reduce) {
  const int t = static_cast<int>(threadIdx.x), lane = t % a.lanes;
  const int64_t part = (static_cast<int64_t>(blockIdx.x) * 256 + t) / a.lanes, output = part / a.splits,
                outputs = true_number(a.counted, a.outputs),
                first = output / a.inner * a.axis * a.inner + output % a.inner;
  arg_part best = {0, -1};
  for (int64_t i = part % a.splits * a.lanes + lane; output < outputs && i < a.axis;
       i += static_cast<int64_t>(a.lanes) * a.splits) {
    const uint64_t value = value_load(a.dtype, a.x, first + i * a.inner);
    if (best.place < 0 || goes_before(a, best.value, value, a.last != 0)) best = {value, i};
  }
  best = best_of_lanes(a, a.lanes, best);
  if (lane || output >= outputs) return;
  if (a.parts) a.parts[part] = best;
  else a.y[output] = best.place;
}

/* A block an output. */
KERNEL(arg_reduce_join) {
  if (blockIdx.x >= true_number(a.counted, a.outputs)) return; /* all threads */
  arg_part best = {0, -1};
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.splits; i += 256)
    best = better(a, best, a.parts[static_cast<int64_t>(blockIdx.x) * a.splits + i]);
  best = best_of_lanes(a, 256, best);
  if (threadIdx.x == 0) a.y[blockIdx.x] = best.place;
}
