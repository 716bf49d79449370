/* MaxRoiPool, torchvision's roi_align, roi_pool, ps_roi_align and ps_roi_pool, and their gradients: one thread an
 * element of the result. Sums are in double; places are in double for maps of f64, else in float, as on the host. An
 * element of the map's gradient adds the regions in order, so that its bits are the same in every run. */
#include "device/cuda/kernels/pixel_boxes.cuh"
#include "device/cuda/kernels/roi_places.cuh"

/* In the order of roi_kind (ops/cpu/calls/roi_align.h). */
enum { KIND_ALIGN, KIND_PS_ALIGN, KIND_POOL, KIND_PS_POOL };

/* Element k of the regions as T; those of f64 are so for maps of f64 only. */
template <class T> static __device__ inline T region_element(const roi_pool_args &a, int64_t k) {
  return static_cast<T>(value_real(a.regions_dtype, value_load(a.regions_dtype, a.regions, k)));
}

/* x1, y1, x2, y2; false: one of them is NaN, so the region has no place. */
template <class T> static __device__ inline bool read_corners(const roi_pool_args &a, int64_t region, T *corners) {
  bool nowhere = false;
  UNROLL for (int k = 0; k < 4; k++) {
    corners[k] = region_element<T>(a, a.columns * region + a.columns - 4 + k);
    nowhere = nowhere || corners[k] != corners[k];
  }
  return !nowhere;
}

/* Pixel (y, x) of the plane that begins at element `plane`. */
static __device__ inline double pixel_at(const roi_pool_args &a, int64_t plane, int64_t y, int64_t x) {
  return value_real(a.dtype, value_load(a.dtype, a.x, plane + (y * a.width + x) * (a.last ? a.channels : 1)));
}

/* The mean of bilinear samples of bin (p, q). */
template <class T>
static __device__ inline double mean_of_samples(const roi_pool_args &a, int64_t plane, const T *corners, int64_t p,
                                                int64_t q) {
  const bool half_pixel = a.half_pixel != 0;
  const roi_span<T> sx = span_of<T>(half_pixel, a.sampling, a.scale, corners[0], corners[2], a.bins_x),
                    sy = span_of<T>(half_pixel, a.sampling, a.scale, corners[1], corners[3], a.bins_y);
  /* torchvision's position-sensitive mean over no samples is NaN */
  if (a.kind == KIND_PS_ALIGN && a.sampling <= 0 && ((sy.bin > -1 && sy.bin <= 0) || (sx.bin > -1 && sx.bin <= 0)))
    return static_cast<double>(NAN);
  int64_t y_begin, y_end, x_begin, x_end, y[2], x[2];
  T up_y, up_x;
  double sum = 0;
  const double count = sy.grid * sx.grid;
  find_samples(sy, p, a.height, &y_begin, &y_end);
  find_samples(sx, q, a.width, &x_begin, &x_end);
  for (int64_t g = y_begin; g < y_end; g++) {
    if (!neighbours(sample_at(sy, p, g), a.height, &y[0], &y[1], &up_y)) continue;
    for (int64_t h = x_begin; h < x_end; h++) {
      if (!neighbours(sample_at(sx, q, h), a.width, &x[0], &x[1], &up_x)) continue;
      UNROLL for (int k = 0; k < 4; k++) {
        const double of_y = static_cast<double>(up_y), of_x = static_cast<double>(up_x);
        sum += (k & 2 ? of_y : 1 - of_y) * (k & 1 ? of_x : 1 - of_x) * pixel_at(a, plane, y[k >> 1], x[k & 1]);
      }
    }
  }
  return sum / (count > 1 ? count : 1);
}

/* Rows or columns of a bin between two corners that are rounded to pixels; KIND_PS_POOL leaves out the last pixel. */
template <class T>
static __device__ inline void find_pixels(const roi_pool_args &a, T low, T high, int64_t bins, int64_t bin,
                                          int64_t extent, int64_t *out_begin, int64_t *out_end) {
  const T scale = static_cast<T>(a.scale);
  const double start = round(static_cast<double>(low * scale)), end = round(static_cast<double>(high * scale));
  const double size = end - start + (a.kind == KIND_POOL ? 1 : 0),
               most = static_cast<double>(extent - (a.kind == KIND_POOL ? 0 : 1));
  const T step = static_cast<T>(size > 1 ? size : 1) / static_cast<T>(bins);
  const double first = floor(static_cast<double>(static_cast<T>(bin) * step)) + start,
               after = ceil(static_cast<double>(static_cast<T>(bin + 1) * step)) + start;
  *out_begin = first < 0 || most < 0 ? 0 : static_cast<int64_t>(first < most ? first : most);
  *out_end = after < 0 || most < 0 ? 0 : static_cast<int64_t>(after < most ? after : most);
}

/* The largest pixel, or the mean of the pixels, of bin (p, q). */
template <class T>
static __device__ inline double pool_of_pixels(const roi_pool_args &a, int64_t plane, const T *corners, int64_t p,
                                               int64_t q, int32_t *out_best) {
  int64_t y_begin, y_end, x_begin, x_end;
  find_pixels(a, corners[1], corners[3], a.bins_y, p, a.height, &y_begin, &y_end);
  find_pixels(a, corners[0], corners[2], a.bins_x, q, a.width, &x_begin, &x_end);
  const bool empty = y_end <= y_begin || x_end <= x_begin;
  const double area = empty ? 1 : static_cast<double>(y_end - y_begin) * static_cast<double>(x_end - x_begin);
  /* lower than every number of the type */
  double sum = 0, most = empty ? 0 : sizeof(T) == 4 ? -3.4028234663852886e38 : -1.7976931348623157e308;
  for (int64_t y = y_begin; y < y_end; y++)
    for (int64_t x = x_begin; x < x_end; x++) {
      const double pixel = pixel_at(a, plane, y, x);
      sum += pixel;
      if (!(pixel > most)) continue;
      most = pixel;
      *out_best = static_cast<int32_t>(y * a.width + x);
    }
  return a.kind == KIND_POOL ? most : sum / area;
}

/* The image of the region; -1: none, and noted. */
template <class T> static __device__ inline int64_t image_of(const roi_pool_args &a, int64_t region) {
  const float given = a.columns == 5 ? static_cast<float>(region_element<T>(a, 5 * region)) : 0;
  /* torchvision truncates, too */
  const int64_t image = given > -1 && given < 4611686018427387904.0f ? static_cast<int64_t>(given) : -1;
  if (image >= 0 && image < a.images) return image;
  note_fault(a.fault, a.launch, REED_FAULT_IMAGE_REAL, 1, region, __double_as_longlong(static_cast<double>(given)),
             a.images);
  return -1;
}

template <class T> static __device__ inline void pool_element(const roi_pool_args &a, int64_t i) {
  const int64_t bins = a.bins_y * a.bins_x, output = a.last ? i % a.outputs : i / bins % a.outputs,
                bin = a.last ? i / a.outputs % bins : i % bins, region = i / bins / a.outputs,
                image = image_of<T>(a, region);
  if (image < 0) return;
  const bool by_place = a.kind == KIND_PS_ALIGN || a.kind == KIND_PS_POOL;
  const int64_t channel = by_place ? output * bins + bin : output, pixels = a.height * a.width,
                plane = image * a.channels * pixels + channel * (a.last ? 1 : pixels);
  int32_t best = -1;
  double y = static_cast<double>(NAN);
  T corners[4];
  if (read_corners(a, region, corners))
    y = a.kind == KIND_ALIGN || a.kind == KIND_PS_ALIGN
            ? mean_of_samples<T>(a, plane, corners, bin / a.bins_x, bin % a.bins_x)
            : pool_of_pixels<T>(a, plane, corners, bin / a.bins_x, bin % a.bins_x, &best);
  value_store(a.dtype, a.y, i, convert_real(y, a.dtype));
  if (a.argmax) a.argmax[i] = best;
}

KERNEL_OF_MANY_REGISTERS(roi_pool) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  if (a.dtype == REED_F64) pool_element<double>(a, i);
  else pool_element<float>(a, i);
}

/* ---- gradients ---- */

/* Rows (axis 0) or columns of the map that bin `bin` of a region reads; none: *out_end <= *out_begin. */
template <class T>
static __device__ inline void pixels_of_bin(const roi_pool_args &a, const T *corners, int axis, int64_t bin,
                                            int64_t *out_begin, int64_t *out_end) {
  const int64_t bins = axis ? a.bins_x : a.bins_y, extent = axis ? a.width : a.height;
  const T low = corners[axis ? 0 : 1], high = corners[axis ? 2 : 3];
  if (a.kind == KIND_PS_POOL) {
    find_pixels(a, low, high, bins, bin, extent, out_begin, out_end);
    return;
  }
  const roi_span<T> span = span_of<T>(a.half_pixel != 0, a.sampling, a.scale, low, high, bins);
  int64_t first, after;
  find_samples(span, bin, extent, &first, &after);
  *out_begin = *out_end = 0;
  if (first >= after) return;
  const T one = sample_at(span, bin, first), other = sample_at(span, bin, after - 1), least = one < other ? one : other,
          most = one < other ? other : one, last = static_cast<T>(extent - 1);
  if (!(most >= -1 && least <= static_cast<T>(extent))) return;
  *out_begin = !(least > 0) ? 0 : least < last ? static_cast<int64_t>(least) : extent - 1;
  *out_end = !(most > 0) ? 2 : most < last ? static_cast<int64_t>(most) + 2 : extent;
  if (*out_end > extent) *out_end = extent;
}

/* A lane's part of the region's box. */
template <class T>
static __device__ inline void box_part(const roi_pool_args &a, int64_t region, int lane, pixel_box *box) {
  if (a.kind == KIND_POOL) {
    const int64_t each = a.outputs * a.bins_y * a.bins_x;
    for (int64_t k = lane; k < each; k += 32) {
      const int64_t pixel = a.argmax[region * each + k];
      if (pixel < 0 || pixel >= a.height * a.width) continue;
      widen(box, 0, pixel / a.width, pixel / a.width + 1);
      widen(box, 1, pixel % a.width, pixel % a.width + 1);
    }
    return;
  }
  T corners[4];
  if (!read_corners(a, region, corners)) return;
  for (int axis = 0; axis < 2; axis++)
    for (int64_t bin = lane; bin < (axis ? a.bins_x : a.bins_y); bin += 32) {
      int64_t begin, end;
      pixels_of_bin(a, corners, axis, bin, &begin, &end);
      widen(box, axis, begin, end);
    }
}

/* A warp a region. */
KERNEL_OF_MANY_REGISTERS(roi_boxes) {
  const int64_t region = thread_number() / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (region >= a.regions_n) return;
  roi_box box = {0, no_pixels()};
  if (a.dtype == REED_F64) {
    box.image = image_of<double>(a, region);
    box_part<double>(a, region, lane, &box.pixels);
  } else {
    box.image = image_of<float>(a, region);
    box_part<float>(a, region, lane, &box.pixels);
  }
  widen_by_warp(&box.pixels);
  if (lane == 0) a.boxes[region] = box;
}

/* The sum of the weights with which a bin's samples read row or column `at`; false: no sample reads it. */
template <class T>
static __device__ inline bool weigh(const roi_span<T> &span, int64_t bin, int64_t extent, int64_t at,
                                    double *out_weight) {
  int64_t begin, end, low, high;
  T upper;
  bool reads = false;
  double sum = 0;
  find_samples_between(span, bin, static_cast<double>(at - 1), static_cast<double>(at + 1), &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    if (!neighbours(sample_at(span, bin, g), extent, &low, &high, &upper)) continue;
    if (low == at) sum += 1 - static_cast<double>(upper);
    if (high == at) sum += static_cast<double>(upper);
    reads = reads || low == at || high == at;
  }
  *out_weight = sum;
  return reads;
}

/* Channel `output` of the gradient of a region's bins. */
struct bins_gradient {
  const roi_pool_args &a;
  int64_t region, output;

  __device__ inline int64_t at(int64_t bin) const {
    const int64_t bins = a.bins_y * a.bins_x;
    return a.last ? (region * bins + bin) * a.outputs + output : (region * a.outputs + output) * bins + bin;
  }
  __device__ inline double of(int64_t bin) const { return value_real(a.dtype, value_load(a.dtype, a.x, at(bin))); }
};

/* The gradient that pixel (y, x) gets from bilinear samples of a region: of bin by_bin, or, if that is -1, of all bins.
 */
template <class T>
static __device__ inline double gradient_of_samples(const bins_gradient &from, const T *corners, int64_t y, int64_t x,
                                                    int64_t by_bin) {
  const roi_pool_args &a = from.a;
  const roi_span<T> sx = span_of<T>(a.half_pixel != 0, a.sampling, a.scale, corners[0], corners[2], a.bins_x),
                    sy = span_of<T>(a.half_pixel != 0, a.sampling, a.scale, corners[1], corners[3], a.bins_y);
  const double count = sy.grid * sx.grid;
  double sum = 0, of_y, of_x;
  for (int64_t p = by_bin < 0 ? 0 : by_bin / a.bins_x; p < (by_bin < 0 ? a.bins_y : by_bin / a.bins_x + 1); p++) {
    if (!weigh(sy, p, a.height, y, &of_y)) continue;
    for (int64_t q = by_bin < 0 ? 0 : by_bin % a.bins_x; q < (by_bin < 0 ? a.bins_x : by_bin % a.bins_x + 1); q++)
      if (weigh(sx, q, a.width, x, &of_x)) sum += of_y * of_x / (count > 1 ? count : 1) * from.of(p * a.bins_x + q);
  }
  return sum;
}

/* The gradient that pixel (y, x) gets from a region whose box has the pixel; by_bin as above. */
template <class T>
static __device__ inline double gradient_of_region(const bins_gradient &from, int64_t y, int64_t x, int64_t by_bin) {
  const roi_pool_args &a = from.a;
  double sum = 0;
  T corners[4];
  if (a.kind == KIND_POOL) {
    for (int64_t bin = 0; bin < a.bins_y * a.bins_x; bin++)
      if (a.argmax[from.at(bin)] == y * a.width + x) sum += from.of(bin);
    return sum;
  }
  if (!read_corners(a, from.region, corners)) return 0;
  if (a.kind != KIND_PS_POOL) return gradient_of_samples<T>(from, corners, y, x, by_bin);
  int64_t y_begin, y_end, x_begin, x_end;
  pixels_of_bin(a, corners, 0, by_bin / a.bins_x, &y_begin, &y_end);
  pixels_of_bin(a, corners, 1, by_bin % a.bins_x, &x_begin, &x_end);
  if (y < y_begin || y >= y_end || x < x_begin || x >= x_end) return 0;
  return from.of(by_bin) / (static_cast<double>(y_end - y_begin) * static_cast<double>(x_end - x_begin));
}

template <class T> static __device__ inline void gradient_of_pixel(const roi_pool_args &a, int64_t i) {
  const int64_t pixels = a.height * a.width, channel = a.last ? i % a.channels : i / pixels % a.channels,
                pixel = a.last ? i / a.channels % pixels : i % pixels, image = i / pixels / a.channels,
                y = pixel / a.width, x = pixel % a.width, bins = a.bins_y * a.bins_x;
  const bool by_place = a.kind == KIND_PS_ALIGN || a.kind == KIND_PS_POOL;
  double sum = 0;
  for (int64_t region = 0; region < a.regions_n; region++) {
    const roi_box &box = a.boxes[region];
    if (box.image != image || !has_pixel(box.pixels, y, x)) continue;
    const bins_gradient from = {a, region, by_place ? channel / bins : channel};
    sum += gradient_of_region<T>(from, y, x, by_place ? channel % bins : -1);
  }
  value_store(a.dtype, a.y, i, convert_real(sum, a.dtype));
}

KERNEL_OF_MANY_REGISTERS(roi_pool_backward) {
  const int64_t i = thread_number();
  if (i >= a.n) return;
  if (a.dtype == REED_F64) gradient_of_pixel<double>(a, i);
  else gradient_of_pixel<float>(a, i);
}
