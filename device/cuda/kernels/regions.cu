/* PasteMasks: a thread makes PART neighbouring columns of a few rows of a picture. Keypoints: a block a map, whose
 * resized pixels are computed and never kept. Both take the formulas and the order of operations from Resize on the
 * host (ops/cpu/calls/resize_formulas.h): rows are mixed first, then columns, in f32 and without fused multiply-adds,
 * because the results decide. */
#include "device/cuda/kernels/channels.cuh"
#include "ops/cpu/calls/resize_formulas.h"

/* An axis that is resized from `in` to `out` elements. */
static __device__ inline resize_scaling scaling_of(int64_t in, int64_t out) {
  return {in, out, static_cast<double>(out) / static_cast<double>(in), 0, 1};
}

/* The taps of one position of an axis. */
static __device__ inline void find_taps(const resize_settings &settings, const resize_scaling &scaling, int64_t x,
                                        int64_t taps, int32_t *index, float *weight) {
  resize_fill_position(&settings, &scaling, resize_source_of(&settings, &scaling, x), 1, taps, index, weight);
}

/* PART divides the pictures' width. */
template <int PART> static __device__ inline void run_paste_masks(const paste_args &a) {
  int64_t k = thread_number();
  if (k >= true_number(a.counted, a.n)) return;
  const int64_t x = split_last(&k, a.width / PART) * PART, first = split_last(&k, a.bands) * PASTE_ROWS,
                after = first + PASTE_ROWS < a.height ? first + PASTE_ROWS : a.height;
  const int64_t *const box = a.boxes + 4 * k;
  const paste_span across = paste_visible(box[0], box[2], a.width), down = paste_visible(box[1], box[3], a.height);
  int64_t to = (k * a.height + first) * a.width + x;
  if (x + PART <= across.begin || x >= across.end || after <= down.begin || first >= down.end) {
    for (int64_t y = first; y < after; y++, to += a.width) store_part(part{}, 4, PART, a.y, to);
    return;
  }
  const resize_settings settings = {a.mapping, MODE_LINEAR, 0, false, false, 0};
  const resize_scaling columns = scaling_of(a.columns, across.extent), rows = scaling_of(a.rows, down.extent);
  const float *const mask = a.masks + k * a.rows * a.columns;
  int32_t column[PART][2] = {}, row[2];
  float of_column[PART][2] = {}, of_row[2], mixed[2];
  UNROLL for (int c = 0; c < PART; c++) if (x + c >= across.begin && x + c < across.end)
      find_taps(settings, columns, x + c - across.origin, 2, column[c], of_column[c]);
  for (int64_t y = first; y < after; y++, to += a.width) {
    if (y < down.begin || y >= down.end) {
      store_part(part{}, 4, PART, a.y, to);
      continue;
    }
    part made;
    find_taps(settings, rows, y - down.origin, 2, row, of_row);
    UNROLL for (int c = 0; c < PART; c++) {
      UNROLL for (int t = 0; t < 2; t++) mixed[t] =
          of_row[0] * mask[row[0] * a.columns + column[c][t]] + of_row[1] * mask[row[1] * a.columns + column[c][t]];
      const float value = of_column[c][0] * mixed[0] + of_column[c][1] * mixed[1];
      set_part_element(&made, 4, c, x + c >= across.begin && x + c < across.end ? value_of(value) : 0);
    }
    store_part(made, 4, PART, a.y, to);
  }
}

KERNEL(paste_masks) { run_paste_masks<1>(a); }
KERNEL(paste_masks_4) { run_paste_masks<4>(a); }

/* ---- Keypoints ---- */

enum { TAPS = 4, ROWS_AT_ONCE = 128, WARPS = 4 };

struct peak {
  float value;
  int64_t x, y; /* y -1: no pixel has been met */
};

/* True if v comes before w: larger, of equal ones the first in the map; NaN is above all numbers. */
static __device__ inline bool peak_before(const peak &v, const peak &w) {
  if (v.y < 0 || w.y < 0) return v.y >= 0;
  const bool v_nan = v.value != v.value, w_nan = w.value != w.value;
  if (v.value == w.value || (v_nan && w_nan)) return v.y < w.y || (v.y == w.y && v.x < w.x);
  return v_nan || v.value > w.value;
}

static __device__ inline peak peak_of_warp(peak best) {
  for (int lanes = 16; lanes; lanes /= 2) {
    const peak other = {__shfl_xor_sync(~0u, best.value, lanes), __shfl_xor_sync(~0u, best.x, lanes),
                        __shfl_xor_sync(~0u, best.y, lanes)};
    if (peak_before(other, best)) best = other;
  }
  return best;
}

static __device__ inline float mix_pixel(const keypoints_args &a, const float *map, const int32_t *row,
                                         const float *of_row, const int32_t *column, const float *of_column) {
  float sum = 0;
  UNROLL for (int c = 0; c < TAPS; c++) {
    float mixed = of_row[0] * map[(row[0] * a.columns + column[c]) * a.lanes];
    UNROLL for (int r = 1; r < TAPS; r++) mixed += of_row[r] * map[(row[r] * a.columns + column[c]) * a.lanes];
    sum += of_column[c] * mixed;
  }
  return sum;
}

/* The size to which the maps of region k are resized; false: it is no number of pixels, or too many, and noted. The
 * limit is keypoints_size's (ops/cpu/calls/keypoints.c). */
static __device__ inline bool find_size(const keypoints_args &a, int64_t k, int64_t *out_rows, int64_t *out_columns) {
  const double rows = static_cast<double>(a.rows_of[k]), columns = static_cast<double>(a.columns_of[k]);
  if (!(rows >= 1 && columns >= 1 && rows * columns <= 268435456.0)) {
    if (threadIdx.x == 0)
      note_fault(a.fault, a.launch, REED_FAULT_MAP_SIZE, 6, k, __double_as_longlong(rows),
                 __double_as_longlong(columns));
    return false;
  }
  *out_rows = static_cast<int64_t>(rows);
  *out_columns = static_cast<int64_t>(columns);
  return true;
}

/* A thread keeps its column's taps and walks the rows, whose taps the block computes ROWS_AT_ONCE at a time. */
KERNEL(keypoints) {
  SHARED_ARRAY(int32_t, rows_at, [ROWS_AT_ONCE * TAPS]);
  SHARED_ARRAY(float, of_rows, [ROWS_AT_ONCE * TAPS]);
  SHARED_ARRAY(peak, peaks, [WARPS]);
  const int64_t k = blockIdx.x / a.channels, c = blockIdx.x % a.channels;
  const int t = static_cast<int>(threadIdx.x);
  /* with channels last a region's maps lie side by side */
  const float *const map =
      a.lanes > 1 ? a.maps + k * a.rows * a.columns * a.lanes + c : a.maps + blockIdx.x * a.rows * a.columns;
  const resize_settings settings = {a.mapping, MODE_CUBIC, 0, false, false, a.cubic_a};
  int64_t rows, columns;
  if ((a.counted.count && k >= true_count(a.counted)) || !find_size(a, k, &rows, &columns)) return;
  const resize_scaling across = scaling_of(a.columns, columns), down = scaling_of(a.rows, rows);
  peak best = {0, 0, -1};
  for (int64_t begin = 0; begin < columns; begin += blockDim.x) {
    int32_t column[TAPS];
    float of_column[TAPS];
    const int64_t x = begin + t;
    if (x < columns) find_taps(settings, across, x, TAPS, column, of_column);
    for (int64_t first = 0; first < rows; first += ROWS_AT_ONCE) {
      const int n = static_cast<int>(rows - first < ROWS_AT_ONCE ? rows - first : int64_t(ROWS_AT_ONCE));
      __syncthreads();
      if (t < n) find_taps(settings, down, first + t, TAPS, rows_at + t * TAPS, of_rows + t * TAPS);
      __syncthreads();
      for (int r = 0; r < n && x < columns; r++) {
        const peak next = {mix_pixel(a, map, rows_at + r * TAPS, of_rows + r * TAPS, column, of_column), x, first + r};
        if (peak_before(next, best)) best = next;
      }
    }
  }
  best = peak_of_warp(best);
  if (t % 32 == 0) peaks[t / 32] = best;
  __syncthreads();
  if (t) return;
  for (int w = 1; w < WARPS; w++)
    if (peak_before(peaks[w], best)) best = peaks[w];
  float *const point = a.points + k * 3 * a.channels + c;
  point[0] = (static_cast<float>(best.x) + 0.5f) * (a.width[k] / a.columns_of[k]) + a.left[k];
  point[a.channels] = (static_cast<float>(best.y) + 0.5f) * (a.height[k] / a.rows_of[k]) + a.top[k];
  point[2 * a.channels] = 1;
  a.peaks[blockIdx.x] = best.value;
}
