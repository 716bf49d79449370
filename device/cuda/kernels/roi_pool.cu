/* MaxRoiPool and torchvision's roi_align, roi_pool, ps_roi_align and ps_roi_pool: one thread an element of the result.
 * Sums are in double; places are in double for maps of f64, else in float, as on the host. */
#include "device/cuda/kernels/roi_places.cuh"

/* In the order of roi_kind (ops/cpu/calls/roi_align.h). */
enum { KIND_ALIGN, KIND_PS_ALIGN, KIND_POOL, KIND_PS_POOL };

/* Element k of the regions as T; those of f64 are so for maps of f64 only. */
template <class T> static __device__ inline T region_element(const roi_pool_args &a, int64_t k) {
  return static_cast<T>(value_real(a.regions_dtype, value_load(a.regions_dtype, a.regions, k)));
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
  int64_t image = 0;
  if (a.columns == 5) {
    const float given = static_cast<float>(region_element<T>(a, 5 * region)); /* torchvision truncates, too */
    image = given > -1 && given < 4611686018427387904.0f ? static_cast<int64_t>(given) : -1;
  }
  if (image >= 0 && image < a.images) return image;
  note_fault(a.fault, a.launch, REED_FAULT_IMAGE, 1, region, image, a.images);
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
  bool nowhere = false;
  UNROLL for (int k = 0; k < 4; k++) {
    corners[k] = region_element<T>(a, a.columns * region + a.columns - 4 + k);
    nowhere = nowhere || corners[k] != corners[k];
  }
  if (!nowhere)
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
