/* Layer, RMS, instance and group normalisation: `lanes` threads a row, a warp or a block. Mean and variance are taken
 * in two passes in double, as in the host's reference, so that a long row or a large mean loses nothing. */
#include "device/cuda/kernels/elements.cuh"

/* The sum of `mine` of a row's threads, in all of them. */
static __device__ inline double row_sum(double mine, int32_t lanes) {
  SHARED_ARRAY(double, part, [8]);
  for (int d = 16; d; d /= 2) mine += __shfl_xor_sync(~0u, mine, d);
  if (lanes == 32) return mine;
  __syncthreads(); /* all have read the sums before these */
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < lanes / 32; w++) sum += part[w];
  return sum;
}

static __device__ inline double real_at(int dtype, const void *data, int64_t i) {
  return value_real(dtype, value_load(dtype, data, i));
}

KERNEL(norm_rows) {
  const int64_t thread = thread_number(), row = thread / a.lanes, lane = thread % a.lanes;
  if (row >= true_number(a.counted, a.rows)) return; /* all threads of a row, which have the warp or the block alone */
  const int64_t x = row / a.groups * a.x_image + row % a.groups * a.x_group,
                parameter = row % a.groups * a.parameter_group;
  int64_t at[CUDA_DIMS];
  double mean = 0, variance = 0;
  if (a.centred) {
    for (int64_t i = lane; i < a.n; i += a.lanes) {
      int64_t from = x;
      split_index(i, a.rank, a.extents, at);
      for (int32_t d = 0; d < a.rank; d++) from += at[d] * a.x_strides[d];
      mean += real_at(a.dtype, a.x, from);
    }
    mean = row_sum(mean, a.lanes) / static_cast<double>(a.n);
  }
  for (int64_t i = lane; i < a.n; i += a.lanes) {
    int64_t from = x;
    split_index(i, a.rank, a.extents, at);
    for (int32_t d = 0; d < a.rank; d++) from += at[d] * a.x_strides[d];
    const double away = real_at(a.dtype, a.x, from) - mean;
    variance += away * away;
  }
  variance = row_sum(variance, a.lanes) / static_cast<double>(a.n);
  const double factor = 1 / sqrt(variance + a.epsilon);
  for (int64_t i = lane; i < a.n; i += a.lanes) {
    int64_t from = x, scale = parameter, shift = parameter;
    split_index(i, a.rank, a.extents, at);
    for (int32_t d = 0; d < a.rank; d++) {
      from += at[d] * a.x_strides[d];
      scale += at[d] * a.scale_strides[d];
      shift += at[d] * a.shift_strides[d];
    }
    const double y = (real_at(a.dtype, a.x, from) - mean) * factor * real_at(a.scale_dtype, a.scale, scale) +
                     (a.shift ? real_at(a.shift_dtype, a.shift, shift) : 0);
    if (a.dtype == REED_F64) element<double>::store(a.dtype, a.y, from, element<double>::activate(a.activation, y));
    else element<float>::store(a.dtype, a.y, from, element<float>::activate(a.activation, static_cast<float>(y)));
  }
  if (lane) return;
  if (a.mean) value_store(a.stash_dtype, a.mean, row, convert_real(mean, a.stash_dtype));
  if (a.factor) value_store(a.stash_dtype, a.factor, row, convert_real(factor, a.stash_dtype));
}
