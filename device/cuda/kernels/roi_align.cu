/* RoiAlign and MultiLevelRoiAlign: one thread a bin and channel, all maps in one launch; with channels last the lanes
 * of a warp walk the channels of one bin. */
#include "device/cuda/kernels/roi_places.cuh"

static __device__ inline double pixel(const roi_args &a, const roi_map &map, int64_t from, int64_t y, int64_t x) {
  const int64_t at = (y * map.width + x) * (a.last ? a.channels : 1);
  return value_real(a.dtype, value_load(a.dtype, map.x, from + at));
}

static __device__ inline double align_bin(const roi_args &a, const roi_map &map, int64_t from,
                                          const roi_span<float> &span_y, const roi_span<float> &span_x, int64_t p,
                                          int64_t q) {
  int64_t y_begin, y_end, x_begin, x_end, low_y, high_y, low_x, high_x;
  float up_y, up_x;
  double sum = 0, most = 0;
  const double count = span_y.grid * span_x.grid;
  bool some = false;
  find_samples(span_y, p, map.height, &y_begin, &y_end);
  find_samples(span_x, q, map.width, &x_begin, &x_end);
  for (int64_t g = y_begin; g < y_end; g++) {
    if (!neighbours(sample_at(span_y, p, g), map.height, &low_y, &high_y, &up_y)) continue;
    for (int64_t h = x_begin; h < x_end; h++) {
      if (!neighbours(sample_at(span_x, q, h), map.width, &low_x, &high_x, &up_x)) continue;
      const double uy = static_cast<double>(up_y), ux = static_cast<double>(up_x);
      const double parts[4] = {
          (1 - uy) * (1 - ux) * pixel(a, map, from, low_y, low_x), (1 - uy) * ux * pixel(a, map, from, low_y, high_x),
          uy * (1 - ux) * pixel(a, map, from, high_y, low_x), uy * ux * pixel(a, map, from, high_y, high_x)};
      sum += parts[0] + parts[1] + parts[2] + parts[3];
      UNROLL for (int k = 0; k < 4; k++) {
        if (some && !(parts[k] > most)) continue;
        most = parts[k];
        some = true;
      }
    }
  }
  return a.maximum ? most : sum / (count > 1 ? count : 1);
}

static __device__ inline float corner(const roi_args &a, int64_t region, int k) {
  return static_cast<float>(value_real(a.dtype, value_load(a.dtype, a.regions, 4 * region + k)));
}

KERNEL(roi_align) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t bins = a.bins_y * a.bins_x;
  const int64_t channel = a.last ? i % a.channels : i / bins % a.channels,
                bin = a.last ? i / a.channels % bins : i % bins, region = i / bins / a.channels;
  const int64_t level = a.level_of ? a.level_of[region] : 0;
  double result = 0;
  if (level >= 0 && level < a.n_maps) {
    const roi_map &map = a.maps[level];
    const int64_t image = a.image_of[region];
    if (image < 0 || image >= map.images) {
      note_fault(a.fault, a.launch, REED_FAULT_IMAGE, a.image_operand, region, image, map.images);
      return;
    }
    const float x1 = corner(a, region, 0), y1 = corner(a, region, 1), x2 = corner(a, region, 2),
                y2 = corner(a, region, 3);
    const int64_t from = image * a.channels * map.height * map.width + channel * (a.last ? 1 : map.height * map.width);
    if (x1 != x1 || y1 != y1 || x2 != x2 || y2 != y2) result = static_cast<double>(NAN);
    else
      result = align_bin(a, map, from, span_of<float>(a.half_pixel, a.sampling, map.scale, y1, y2, a.bins_y),
                         span_of<float>(a.half_pixel, a.sampling, map.scale, x1, x2, a.bins_x), bin / a.bins_x,
                         bin % a.bins_x);
  }
  value_store(a.dtype, a.y, i, convert_real(result, a.dtype));
}
