/* Softmax, LogSoftmax, Hardmax and LpNormalization: a warp a row, whose elements lie `inner` apart. Sums are taken in
 * double, so that a long row is right to the last place. */
#include "device/cuda/kernels/values.cuh"

enum { KIND_SOFTMAX, KIND_LOG, KIND_HARD, KIND_LP }; /* softmax_kind of ops/cpu/calls/softmax.h */

static __device__ inline double read_real(int dtype, const void *x, int64_t i) {
  return value_real(dtype, value_load(dtype, x, i));
}
static __device__ inline void write_real(int dtype, void *y, int64_t i, double v) {
  value_store(dtype, y, i, convert_real(v, dtype));
}

KERNEL(softmax) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t row = thread_number() / 32;
  if (row >= true_number(a.counted, a.rows)) return; /* all lanes of a warp have one row */
  const int64_t first = row / a.inner * a.axis * a.inner + row % a.inner;
  double most = -static_cast<double>(INFINITY), sum = 0;
  int64_t where = INT64_MAX;
  for (int64_t i = lane; i < a.axis; i += 32) {
    const double v = read_real(a.dtype, a.x, first + i * a.inner);
    if (a.kind == KIND_LP) sum += a.power == 1 ? fabs(v) : v * v;
    if (v > most || where == INT64_MAX || (v != v && most == most)) {
      most = v;
      where = i;
    }
  }
  for (int d = 16; d; d /= 2) {
    const double other = __shfl_xor_sync(~0u, most, d);
    const int64_t place = __shfl_xor_sync(~0u, where, d);
    const bool nan = most != most, other_nan = other != other;
    /* the largest, the first of equal ones; NaN before all */
    if (place != INT64_MAX && (where == INT64_MAX || (other_nan && !nan) || (!nan && !other_nan && other > most) ||
                               ((other == most || (nan && other_nan)) && place < where))) {
      most = other;
      where = place;
    }
  }
  if (a.kind == KIND_SOFTMAX || a.kind == KIND_LOG)
    for (int64_t i = lane; i < a.axis; i += 32) sum += exp(read_real(a.dtype, a.x, first + i * a.inner) - most);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (a.kind == KIND_LP && a.power != 1) sum = sqrt(sum);
  const double log_sum = a.kind == KIND_LOG ? log(sum) : 0;
  for (int64_t i = lane; i < a.axis; i += 32) {
    const int64_t at = first + i * a.inner;
    const double v = read_real(a.dtype, a.x, at);
    double y = i == where ? 1 : 0;
    if (a.kind == KIND_SOFTMAX) y = exp(v - most) / sum;
    if (a.kind == KIND_LOG) y = v - most - log_sum;
    if (a.kind == KIND_LP) y = sum == 0 ? 0 : v / sum;
    write_real(a.dtype, a.y, at, y);
  }
}
