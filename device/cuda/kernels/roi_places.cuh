/* Places of regions on a map, computed as on the host (ops/cpu/calls/roi_formula_template.h), in the same order and
 * without fused multiply-adds. T: float or double. */
#ifndef DEVICE_CUDA_KERNELS_ROI_PLACES_CUH_
#define DEVICE_CUDA_KERNELS_ROI_PLACES_CUH_

#include "device/cuda/kernels/values.cuh"

/* One axis of a region: bin p begins at start + p * bin and has `grid` samples; `samples` is their number as T. */
template <class T> struct roi_span {
  T start, bin;
  double grid;
  T samples;
};

/* sampling <= 0: as many samples as the bin has pixels, rounded up. */
template <class T>
static __device__ inline roi_span<T> span_of(bool half_pixel, int64_t sampling, double map_scale, T low, T high,
                                             int64_t bins) {
  const T offset = half_pixel ? static_cast<T>(0.5) : static_cast<T>(0), scale = static_cast<T>(map_scale);
  const T start = low * scale - offset;
  T size = high * scale - offset - start;
  if (!half_pixel && !(size > 1)) size = 1;
  roi_span<T> span = {start, size / static_cast<T>(bins), static_cast<double>(sampling), 0};
  if (sampling <= 0) span.grid = span.bin > 0 ? ceil(static_cast<double>(span.bin)) : 0;
  span.samples = static_cast<T>(span.grid);
  return span;
}

/* The samples of a bin that may lie in from..to. */
template <class T>
static __device__ inline void find_samples_between(const roi_span<T> &span, int64_t bin, double from, double to,
                                                   int64_t *out_begin, int64_t *out_end) {
  double begin = 0, end = span.grid;
  if (end > 8) {
    const double origin = static_cast<double>(span.start) + static_cast<double>(bin) * static_cast<double>(span.bin),
                 step = static_cast<double>(span.bin) / span.grid;
    const double first = (from - origin) / step, second = (to - origin) / step;
    const double low = floor(first < second ? first : second) - 2, high = ceil(first < second ? second : first) + 2;
    if (step != 0) {
      begin = low > 0 ? low : 0;
      end = high < end ? high : end;
    }
  }
  const bool some = end > begin && end < 4611686018427387904.0;
  *out_begin = some ? static_cast<int64_t>(begin) : 0;
  *out_end = some ? static_cast<int64_t>(end) : 0;
}

/* The samples of a bin that may lie in -1..extent; others contribute nothing. */
template <class T>
static __device__ inline void find_samples(const roi_span<T> &span, int64_t bin, int64_t extent, int64_t *out_begin,
                                           int64_t *out_end) {
  find_samples_between(span, bin, -1, static_cast<double>(extent), out_begin, out_end);
}

template <class T> static __device__ inline T sample_at(const roi_span<T> &span, int64_t bin, int64_t g) {
  const int32_t low = static_cast<int32_t>(g);
  const T number = low == g ? static_cast<T>(low) : static_cast<T>(static_cast<double>(g));
  return span.start + static_cast<T>(bin) * span.bin + (number + static_cast<T>(0.5)) * span.bin / span.samples;
}

/* Two neighbours and the weight of the upper one; false outside -1..extent, for NaN, for a map without pixels. */
template <class T, class Int>
static __device__ inline bool neighbours(T at, Int extent, Int *low, Int *high, T *upper) {
  if (!(at >= -1 && at <= static_cast<T>(extent)) || extent == 0) return false;
  if (at < 0) at = 0;
  *low = static_cast<Int>(at);
  if (*low >= extent - 1) {
    *low = *high = extent - 1;
    *upper = 0;
  } else {
    *high = *low + 1;
    *upper = at - static_cast<T>(*low);
  }
  return true;
}

#endif
