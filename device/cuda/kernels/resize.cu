/* Resize: a first launch makes the tables of places and weights of every axis that is resized, a second one an element
 * of the output each thread, or a few. The formulas are the host's
 * (ops/cpu/calls/resize_formulas.h). f32 and the halves are mixed in f32, axis by axis, as on the host; other dtypes in
 * double, by all weights at once, as the host's reference does. */
#include "device/cuda/kernels/channels.cuh"
#include "device/cuda/kernels/indices.cuh"
#include "ops/cpu/calls/resize_formulas.h"

KERNEL(resize_tables) {
  const int64_t place = thread_number();
  if (place >= a.positions) return;
  int32_t p = 0;
  while (p + 1 < a.n_parts && place >= a.parts[p + 1].first_place) p++;
  const resize_part &part = a.parts[p];
  const int64_t x = place - part.first_place, at = part.first + x * part.taps;
  const resize_settings settings = {a.mapping, a.mode, a.nearest, a.antialias != 0, a.exclude_outside != 0, a.cubic_a};
  const resize_scaling scaling = {part.in, part.out, part.scale, part.crop_begin, part.crop_end};
  bool outside;
  resize_position(&settings, &scaling, x, part.taps, a.index + at, a.weight + at, &outside);
  if (a.outside) a.outside[place] = outside;
}

/* A double as an element, as reed_dtype_write writes it: integers saturate, NaN is 0. */
static __device__ inline void write_saturated(int dtype, void *y, int64_t i, double v) {
  if (dtype_is_float(dtype)) {
    value_store(dtype, y, i, convert_real(v, dtype));
    return;
  }
  double low = 0, high = 1;
  uint64_t least = 0, most = 1;
  switch (dtype) {
    case REED_I8: low = INT8_MIN, high = INT8_MAX, least = 0x80, most = 0x7f; break;
    case REED_I16: low = INT16_MIN, high = INT16_MAX, least = 0x8000, most = 0x7fff; break;
    case REED_I32: low = INT32_MIN, high = INT32_MAX, least = 0x80000000u, most = 0x7fffffff; break;
    case REED_I64: low = -0x1p63, high = 0x1p63, least = uint64_t(1) << 63, most = least - 1; break;
    case REED_U8: high = UINT8_MAX, most = UINT8_MAX; break;
    case REED_U16: high = UINT16_MAX, most = UINT16_MAX; break;
    case REED_U32: high = UINT32_MAX, most = UINT32_MAX; break;
    case REED_U64: high = 0x1p64, most = UINT64_MAX; break;
    default: break;
  }
  value_store(dtype, y, i, v != v ? 0 : v <= low ? least : v >= high ? most : convert_real(v, dtype));
}

/* Mixes axis by axis: the first part's taps are innermost. */
static __device__ inline float mix_by_axes(const resize_args &a, int64_t fixed, const int64_t *rows) {
  float sums[CUDA_DIMS];
  int64_t taps[CUDA_DIMS];
  for (int32_t p = 0; p < a.n_parts; p++) sums[p] = 0, taps[p] = 0;
  for (;;) {
    int64_t from = fixed;
    for (int32_t p = 0; p < a.n_parts; p++) from += a.index[rows[p] + taps[p]] * a.strides[a.parts[p].axis];
    float value = value_as<float>(value_load(a.dtype, a.x, from));
    int32_t p = 0;
    for (; p < a.n_parts; p++) {
      sums[p] += a.weight[rows[p] + taps[p]] * value;
      if (++taps[p] < a.parts[p].taps) break;
      value = sums[p];
      sums[p] = 0;
      taps[p] = 0;
    }
    if (p == a.n_parts) return value;
  }
}

static __device__ inline double element_as_double(int dtype, const void *x, int64_t i) {
  const uint64_t value = value_load(dtype, x, i);
  if (dtype == REED_U64) return static_cast<double>(value);
  return dtype_is_float(dtype) ? value_real(dtype, value) : static_cast<double>(value_whole(dtype, value));
}

static __device__ inline double mix_at_once(const resize_args &a, int64_t fixed, const int64_t *rows) {
  int64_t n_taps = 1;
  double sum = 0;
  for (int32_t p = 0; p < a.n_parts; p++) n_taps *= a.parts[p].taps;
  for (int64_t tap = 0; tap < n_taps; tap++) {
    int64_t from = fixed, rest = tap;
    double weight = 1;
    for (int32_t p = 0; p < a.n_parts; p++) {
      const int64_t at = rows[p] + rest % a.parts[p].taps;
      rest /= a.parts[p].taps;
      weight *= static_cast<double>(a.weight[at]);
      from += a.index[at] * a.strides[a.parts[p].axis];
    }
    sum += weight * element_as_double(a.dtype, a.x, from);
  }
  return sum;
}

KERNEL(resize) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  int64_t at[CUDA_DIMS], rows[CUDA_DIMS], fixed = 0;
  split_index(i, a.rank, a.extents, at);
  for (int32_t p = 0; p < a.n_parts; p++) {
    const resize_part &part = a.parts[p];
    const int64_t x = at[part.axis];
    at[part.axis] = 0;
    rows[p] = part.first + x * part.taps;
    if (a.outside && a.outside[part.first_place + x]) {
      write_saturated(a.dtype, a.y, i, a.extrapolation);
      return;
    }
  }
  for (int32_t d = 0; d < a.rank; d++) fixed += at[d] * a.strides[d];
  if (a.mode == MODE_NEAREST || a.n_parts == 0) {
    for (int32_t p = 0; p < a.n_parts; p++) fixed += a.index[rows[p]] * a.strides[a.parts[p].axis];
    copy_element(a.size, a.y, i, a.x, fixed);
  } else if (a.dtype == REED_F32 || a.dtype == REED_F16 || a.dtype == REED_BF16) {
    value_store(a.dtype, a.y, i, value_of(mix_by_axes(a, fixed, rows)));
  } else {
    const double value = mix_at_once(a, fixed, rows);
    write_saturated(a.dtype, a.y, i, a.dtype == REED_F64 ? value : rint(value));
  }
}

/* Two neighbouring axes, rows and columns, of x with axes (outer, rows, columns, channels): a thread makes PART
 * channels of RESIZE_ROWS rows of one column. x, y and the taps are fewer than 2^31 elements; no position is outside of
 * x. DTYPE REED_NONE: that of the args. */
template <int PART, int DTYPE> static __device__ inline void resize_planes(const resize_args &a) {
  const int64_t thread = thread_number();
  if (thread >= true_number(a.counted, a.n)) return;
  const resize_part &rows = a.parts[0], &columns = a.parts[1];
  const int dtype = DTYPE == REED_NONE ? a.dtype : DTYPE;
  const int32_t row_taps = static_cast<int32_t>(rows.taps), column_taps = static_cast<int32_t>(columns.taps),
                row_stride = static_cast<int32_t>(a.strides[1]), column_stride = static_cast<int32_t>(a.strides[2]),
                height = static_cast<int32_t>(a.extents[1]), width = static_cast<int32_t>(a.extents[2]),
                channels_n = static_cast<int32_t>(a.extents[3]);
  int32_t outer = static_cast<int32_t>(thread);
  const int32_t channel = split_last(&outer, channels_n / PART) * PART, column = split_last(&outer, width),
                row = split_last(&outer, (height + RESIZE_ROWS - 1) / RESIZE_ROWS) * RESIZE_ROWS,
                n_rows = height - row < RESIZE_ROWS ? height - row : RESIZE_ROWS;
  const int32_t to = ((outer * height + row) * width + column) * channels_n + channel, to_stride = width * channels_n,
                from = outer * static_cast<int32_t>(a.strides[0]) + channel,
                row_at = static_cast<int32_t>(rows.first) + row * row_taps,
                column_at = static_cast<int32_t>(columns.first) + column * column_taps;
  if (a.mode == MODE_NEAREST) {
    const int32_t first = from + a.index[column_at] * column_stride;
    if (PART == 1) {
      for (int32_t r = 0; r < n_rows; r++)
        copy_element(a.size, a.y, to + r * to_stride, a.x, first + a.index[row_at + r] * row_stride);
    } else {
      part held[RESIZE_ROWS];
      UNROLL for (int r = 0; r < RESIZE_ROWS; r++) if (r < n_rows)
          load_part(&held[r], 16 / PART, PART, a.x, first + a.index[row_at + r] * row_stride, 1);
      UNROLL for (int r = 0; r < RESIZE_ROWS; r++) if (r < n_rows)
          store_part(held[r], 16 / PART, PART, a.y, to + r * to_stride);
    }
    return;
  }
  for (int32_t r = 0; r < n_rows; r++) {
    const int32_t *const row_index = a.index + row_at + r * row_taps;
    const float *const of_row = a.weight + row_at + r * row_taps;
    float sums[PART] = {};
    for (int32_t j = 0; j < column_taps; j++) {
      const int32_t first = from + a.index[column_at + j] * column_stride;
      float mixed[PART] = {};
      for (int32_t i = 0; i < row_taps; i++) {
        channels<PART> tap;
        tap.load(dtype, a.x, first + row_index[i] * row_stride);
        UNROLL for (int c = 0; c < PART; c++) mixed[c] += of_row[i] * value_as<float>(tap.value(dtype, c));
      }
      UNROLL for (int c = 0; c < PART; c++) sums[c] += a.weight[column_at + j] * mixed[c];
    }
    channels<PART> result;
    UNROLL for (int c = 0; c < PART; c++) result.set(dtype, c, value_of(sums[c]));
    result.store(dtype, a.y, to + r * to_stride);
  }
}

KERNEL(resize_1) {
  if (a.dtype == REED_F32) resize_planes<1, REED_F32>(a);
  else resize_planes<1, REED_NONE>(a);
}
KERNEL(resize_4) { resize_planes<4, REED_F32>(a); }
KERNEL(resize_8) { resize_planes<8, REED_NONE>(a); }
