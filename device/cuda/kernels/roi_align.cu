/* RoiAlign and MultiLevelRoiAlign, all maps in one launch: a thread computes a bin of PART channels. With channels last
 * the lanes of a warp walk the channels of one bin, and where PART divides their number a thread loads and stores 16
 * bytes at once. */
#include "device/cuda/kernels/parts.cuh"
#include "device/cuda/kernels/roi_places.cuh"

/* result[c] += weight times channel c of a pixel's sum, or the largest of them. */
template <int PART> struct roi_bin {
  double parts[PART], result[PART]; /* of a sample; of the bin */
  bool some;

  __device__ inline void add(const roi_args &a, const roi_map &map, int64_t from, int64_t y, int64_t x, double weight,
                             bool first) {
    const int64_t at = from + (y * map.width + x) * (a.last ? a.channels : 1);
    part loaded;
    if (PART > 1) load_part(&loaded, 16 / PART, PART, map.x, at, 1);
    UNROLL for (int c = 0; c < PART; c++) {
      const uint64_t value =
          PART > 1 ? value_held(a.dtype, part_element(loaded, 16 / PART, c)) : value_load(a.dtype, map.x, at);
      const double term = weight * value_real(a.dtype, value);
      if (!a.maximum) parts[c] = first ? term : parts[c] + term;
      else if (!some || term > result[c]) result[c] = term;
    }
    some = true;
  }
};

template <int PART>
static __device__ inline void align_bin(const roi_args &a, const roi_map &map, int64_t from,
                                        const roi_span<float> &span_y, const roi_span<float> &span_x, int64_t p,
                                        int64_t q, roi_bin<PART> *bin) {
  int64_t y_begin, y_end, x_begin, x_end, low_y, high_y, low_x, high_x;
  float up_y, up_x;
  const double count = span_y.grid * span_x.grid;
  find_samples(span_y, p, map.height, &y_begin, &y_end);
  find_samples(span_x, q, map.width, &x_begin, &x_end);
  for (int64_t g = y_begin; g < y_end; g++) {
    if (!neighbours(sample_at(span_y, p, g), map.height, &low_y, &high_y, &up_y)) continue;
    for (int64_t h = x_begin; h < x_end; h++) {
      if (!neighbours(sample_at(span_x, q, h), map.width, &low_x, &high_x, &up_x)) continue;
      const double uy = static_cast<double>(up_y), ux = static_cast<double>(up_x);
      bin->add(a, map, from, low_y, low_x, (1 - uy) * (1 - ux), true);
      bin->add(a, map, from, low_y, high_x, (1 - uy) * ux, false);
      bin->add(a, map, from, high_y, low_x, uy * (1 - ux), false);
      bin->add(a, map, from, high_y, high_x, uy * ux, false);
      UNROLL for (int c = 0; c < PART; c++) if (!a.maximum) bin->result[c] += bin->parts[c];
    }
  }
  UNROLL for (int c = 0; c < PART; c++) if (!a.maximum) bin->result[c] /= count > 1 ? count : 1;
}

static __device__ inline float corner(const roi_args &a, int64_t region, int k) {
  return static_cast<float>(value_real(a.dtype, value_load(a.dtype, a.regions, 4 * region + k)));
}

template <int PART> static __device__ inline void run_roi_align(const roi_args &a) {
  const int64_t i = thread_number() * PART;
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t bins = a.bins_y * a.bins_x;
  const int64_t channel = a.last ? i % a.channels : i / bins % a.channels,
                bin = a.last ? i / a.channels % bins : i % bins, region = i / bins / a.channels;
  const int64_t level = a.level_of ? a.level_of[region] : 0;
  roi_bin<PART> made = {};
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
    if (x1 != x1 || y1 != y1 || x2 != x2 || y2 != y2) {
      UNROLL for (int c = 0; c < PART; c++) made.result[c] = static_cast<double>(NAN);
    } else {
      align_bin(a, map, from, span_of<float>(a.half_pixel, a.sampling, map.scale, y1, y2, a.bins_y),
                span_of<float>(a.half_pixel, a.sampling, map.scale, x1, x2, a.bins_x), bin / a.bins_x, bin % a.bins_x,
                &made);
    }
  }
  part results;
  UNROLL for (int c = 0; c < PART; c++) {
    const uint64_t value = convert_real(made.result[c], a.dtype);
    if (PART > 1) set_part_element(&results, 16 / PART, c, value_bits(a.dtype, value));
    else value_store(a.dtype, a.y, i, value);
  }
  if (PART > 1) store_part(results, 16 / PART, PART, a.y, i);
}

KERNEL(roi_align) { run_roi_align<1>(a); }
KERNEL(roi_align_4) { run_roi_align<4>(a); }
KERNEL(roi_align_8) { run_roi_align<8>(a); }
