/* Pools: one thread an element of the output, which walks its window. Means and norms are summed in double, as on the
 * host; a maximum moves the element itself. */
#include "device/cuda/kernels/values.cuh"

/* One window: its begin on each axis, and its taps inside the input. */
struct pool_place {
  int64_t origin[CUDA_AXES], first[CUDA_AXES], n[CUDA_AXES], taps;
};

static __device__ inline void find_place(const pool_args &a, const int64_t *at, pool_place *out) {
  out->taps = 1;
  for (int32_t d = 0; d < a.axes; d++) {
    const int64_t origin = at[d] * a.stride[d] - a.pad[d], step = a.dilation[d];
    const int64_t first = origin < 0 ? (-origin + step - 1) / step : 0;
    int64_t end = a.in[d] > origin ? (a.in[d] - origin + step - 1) / step : 0;
    if (end > a.kernel[d]) end = a.kernel[d];
    out->origin[d] = origin;
    out->first[d] = origin + first * step;
    out->n[d] = end > first ? end - first : 0;
    out->taps *= out->n[d];
  }
}

/* The offset of tap number `tap` of those inside, and its number in the plane by rows or by columns. */
static __device__ inline int64_t find_tap(const pool_args &a, const pool_place &place, int64_t tap,
                                          int64_t *out_number) {
  int64_t offset = 0, at[CUDA_AXES], number = 0;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    at[d] = place.first[d] + tap % place.n[d] * a.dilation[d];
    tap /= place.n[d];
    offset += at[d] * a.x_axis[d];
  }
  for (int32_t k = 0; k < a.axes; k++) {
    const int32_t d = a.column_major ? a.axes - 1 - k : k;
    number = number * a.in[d] + at[d];
  }
  *out_number = number;
  return offset;
}

/* One axis's factor in the number of elements that a mean is divided by (ops/cpu/calls/pool.h). */
static __device__ inline int64_t count_taps(const pool_args &a, int32_t d, int64_t origin) {
  const int64_t low = a.include_pad ? -a.pad[d] : 0, high = a.in[d] + (a.include_pad ? a.pad_end[d] : 0),
                step = a.dilation[d], first = origin < low ? (low - origin + step - 1) / step : 0;
  int64_t end = high > origin ? (high - origin + step - 1) / step : 0;
  if (end > a.kernel[d]) end = a.kernel[d];
  return end > first ? end - first : a.kernel[d] > 0;
}

/* True if the element is larger than the largest so far, or the first NaN. */
static __device__ inline bool is_larger(int dtype, uint64_t value, uint64_t most) {
  if (dtype == REED_U64) return value > most;
  if (!dtype_is_float(dtype)) return value_whole(dtype, value) > value_whole(dtype, most);
  const double v = value_real(dtype, value), m = value_real(dtype, most);
  return v > m || (v != v && m == m);
}

/* The dtype's least value, which a window without taps gives. */
static __device__ inline uint64_t least_value(int dtype) {
  switch (dtype) {
    case REED_I8: return value_of(static_cast<int8_t>(INT8_MIN));
    case REED_I16: return value_of(static_cast<int16_t>(INT16_MIN));
    case REED_I32: return value_of(INT32_MIN);
    case REED_I64: return value_of(INT64_MIN);
    case REED_F64: return value_of(-static_cast<double>(INFINITY));
    case REED_F32:
    case REED_F16:
    case REED_BF16: return value_of(-INFINITY);
    default: return 0;
  }
}

KERNEL(pool) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  int64_t at[CUDA_AXES], rest = i, to = 0, channel = 0;
  if (a.y_channel == 1) {
    channel = rest % a.channels;
    rest /= a.channels;
  }
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    at[d] = rest % a.out[d];
    rest /= a.out[d];
    to += at[d] * a.y_axis[d];
  }
  if (a.y_channel != 1) {
    channel = rest % a.channels;
    rest /= a.channels;
  }
  to += rest * a.y_image + channel * a.y_channel;
  const int64_t from = rest * a.x_image + channel * a.x_channel;
  pool_place place;
  find_place(a, at, &place);
  int64_t number, where = -1;
  if (!a.mean && !a.power) {
    uint64_t most = least_value(a.dtype);
    for (int64_t tap = 0; tap < place.taps; tap++) {
      const uint64_t value = value_load(a.dtype, a.x, from + find_tap(a, place, tap, &number));
      if (where >= 0 && !is_larger(a.dtype, value, most)) continue;
      most = value;
      where = number;
    }
    value_store(a.dtype, a.y, to, most);
    if (a.indices) a.indices[to] = where < 0 ? 0 : (rest * a.channels + channel) * a.in_plane + where;
    return;
  }
  double sum = 0, count = 1;
  for (int64_t tap = 0; tap < place.taps; tap++) {
    const double v = value_real(a.dtype, value_load(a.dtype, a.x, from + find_tap(a, place, tap, &number)));
    sum += a.power == 2 ? v * v : a.power ? pow(fabs(v), static_cast<double>(a.power)) : v;
  }
  for (int32_t d = 0; d < a.axes; d++) count *= static_cast<double>(count_taps(a, d, place.origin[d]));
  const double result = a.power == 2 ? sqrt(sum) : a.power ? pow(sum, 1 / static_cast<double>(a.power)) : sum / count;
  value_store(a.dtype, a.y, to, convert_real(result, a.dtype));
}
