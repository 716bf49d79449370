/* RoiAlign and MultiLevelRoiAlign, all maps in one launch: a thread computes one bin of VECTORS x PART channels. With
 * channels last the lanes of a warp walk the channels of one bin; f32 and halves are then loaded and stored 16 bytes at
 * once (roi_align_4, roi_align_8). */
#include "device/cuda/kernels/channels.cuh"
#include "device/cuda/kernels/roi_places.cuh"

/* The channels of a thread: vectors of PART neighbours, which begin `apart` elements from one another. */
template <int PART, int VECTORS> struct roi_bin {
  double result[VECTORS][PART];
  int32_t taken; /* samples on the map */

  /* Adds one sample: four pixels times their weights. The result is the sum of all samples, or the largest product. */
  template <bool ALIGNED, class Int>
  __device__ inline void add(const roi_args &a, int dtype, const void *x, const Int (&at)[4], const double (&weight)[4],
                             Int apart) {
    const int held = PART > 1 ? REED_F32 : dtype; /* halves are held as f32 */
    UNROLL for (int v = 0; v < VECTORS; v++) {
      channels<PART> pixels[4];
      UNROLL for (int k = 0; k < 4; k++) pixels[k].template load<ALIGNED>(dtype, x, at[k] + v * apart);
      if (a.maximum) {
        UNROLL for (int c = 0; c < PART; c++) UNROLL for (int k = 0; k < 4; k++) {
          const double term = weight[k] * value_real(held, pixels[k].value(dtype, c));
          if ((k == 0 && taken == 0) || term > result[v][c]) result[v][c] = term;
        }
      } else {
        UNROLL for (int c = 0; c < PART; c++) {
          double sum = weight[0] * value_real(held, pixels[0].value(dtype, c));
          UNROLL for (int k = 1; k < 4; k++) sum += weight[k] * value_real(held, pixels[k].value(dtype, c));
          result[v][c] += sum;
        }
      }
    }
    taken++;
  }

  /* Divides the sums by the number of samples: exactly, by a multiplication, if it is a power of two. Among products a
   * sample outside of the map counts as 0. */
  __device__ inline void end(const roi_args &a, double count) {
    if (a.maximum && taken < count) {
      UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int c = 0; c < PART; c++) if (result[v][c] < 0)
          result[v][c] = 0;
    }
    if (a.maximum || !(count > 1)) return;
    const bool is_power = (__double_as_longlong(count) & 0xfffffffffffffll) == 0;
    const double factor = 1 / count;
    UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int c = 0; c < PART; c++) result[v][c] =
        is_power ? result[v][c] * factor : result[v][c] / count;
  }
};

/* x: of the image and the thread's first channel; column_stride: elements from one pixel to the next. */
template <bool ALIGNED, int PART, int VECTORS, class Int>
static __device__ inline void align_bin(const roi_args &a, int dtype, const void *x, const roi_map &map,
                                        Int column_stride, Int apart, const roi_span<float> &span_y,
                                        const roi_span<float> &span_x, int64_t p, int64_t q,
                                        roi_bin<PART, VECTORS> *bin) {
  int64_t y_begin, y_end, x_begin, x_end;
  const Int height = static_cast<Int>(map.height), width = static_cast<Int>(map.width);
  find_samples(span_y, p, map.height, &y_begin, &y_end);
  find_samples(span_x, q, map.width, &x_begin, &x_end);
  for (int64_t g = y_begin; g < y_end; g++) {
    Int low_y, high_y, low_x, high_x;
    float up_y, up_x;
    if (!neighbours(sample_at(span_y, p, g), height, &low_y, &high_y, &up_y)) continue;
    for (int64_t h = x_begin; h < x_end; h++) {
      if (!neighbours(sample_at(span_x, q, h), width, &low_x, &high_x, &up_x)) continue;
      const double uy = static_cast<double>(up_y), ux = static_cast<double>(up_x);
      const Int at[4] = {(low_y * width + low_x) * column_stride, (low_y * width + high_x) * column_stride,
                         (high_y * width + low_x) * column_stride, (high_y * width + high_x) * column_stride};
      const double weight[4] = {(1 - uy) * (1 - ux), (1 - uy) * ux, uy * (1 - ux), uy * ux};
      bin->template add<ALIGNED>(a, dtype, x, at, weight, apart);
    }
  }
  bin->end(a, span_y.grid * span_x.grid);
}

static __device__ inline float corner(const roi_args &a, int dtype, int64_t region, int k) {
  const uint64_t value = value_load(dtype, a.regions, 4 * region + k);
  return dtype == REED_F64 ? static_cast<float>(value_as<double>(value)) : value_as<float>(value);
}

/* Int holds every offset in an image, and every number of an output. */
template <int PART, int VECTORS, class Int> static __device__ inline void run_roi_align(const roi_args &a) {
  const int64_t i = thread_number() * PART * VECTORS;
  if (i >= true_number(a.counted, a.n)) return;
  const int dtype = PART == 4 ? REED_F32 : a.dtype;
  const bool last = PART > 1 || a.last;
  const Int n_channels = static_cast<Int>(a.channels), slices = n_channels / (PART * VECTORS);
  Int region = static_cast<Int>(i / (PART * VECTORS)), channel = 0;
  if (last) channel = split_last(&region, slices) * PART;
  const Int to = PART > 1 ? region * n_channels + channel : static_cast<Int>(i);
  const Int q = split_last(&region, static_cast<Int>(a.bins_x)), p = split_last(&region, static_cast<Int>(a.bins_y));
  if (!last) channel = split_last(&region, slices);
  const int64_t level = a.level_of ? a.level_of[region] : 0, image = a.image_of[region];
  const float x1 = corner(a, dtype, region, 0), y1 = corner(a, dtype, region, 1), x2 = corner(a, dtype, region, 2),
              y2 = corner(a, dtype, region, 3);
  roi_bin<PART, VECTORS> made = {};
  if (level >= 0 && level < a.n_maps) {
    const roi_map &map = a.maps[level];
    const int64_t plane = map.height * map.width;
    if (image < 0 || image >= map.images) {
      note_fault(a.fault, a.launch, REED_FAULT_IMAGE, a.image_operand, region, image, map.images);
      return;
    }
    if (x1 != x1 || y1 != y1 || x2 != x2 || y2 != y2) {
      UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int c = 0; c < PART; c++) made.result[v][c] =
          static_cast<double>(NAN);
    } else {
      const int64_t from = image * a.channels * plane + channel * (last ? 1 : plane);
      const void *const x = static_cast<const char *>(map.x) + from * a.size;
      const Int column_stride = last ? n_channels : 1;
      const roi_span<float> down = span_of<float>(a.half_pixel, a.sampling, map.scale, y1, y2, a.bins_y),
                            across = span_of<float>(a.half_pixel, a.sampling, map.scale, x1, x2, a.bins_x);
      if (PART == 1 || in_vectors(x, 0))
        align_bin<true>(a, dtype, x, map, column_stride, slices * PART, down, across, p, q, &made);
      else align_bin<false>(a, dtype, x, map, column_stride, slices * PART, down, across, p, q, &made);
    }
  }
  UNROLL for (int v = 0; v < VECTORS; v++) {
    channels<PART> results;
    UNROLL for (int c = 0; c < PART; c++) results.set(dtype, c, convert_real(made.result[v][c], dtype));
    results.store(dtype, a.y, to + v * slices * PART);
  }
}

KERNEL(roi_align) { run_roi_align<1, 1, int64_t>(a); }
KERNEL(roi_align_4) { run_roi_align<4, ROI_CHANNELS / 4, int32_t>(a); }
KERNEL(roi_align_8) { run_roi_align<8, ROI_CHANNELS / 8, int32_t>(a); }
