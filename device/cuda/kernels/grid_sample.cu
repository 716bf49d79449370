/* GridSample: a sample of a few channels of an image each thread. Its places and weights along the axes are computed
 * first, by the host's formulas (ops/cpu/calls/grid_sample_formulas.h); then each channel adds the pixels of all taps.
 * f64 is added in double, the others in f32, as on the host. */
#include "device/cuda/kernels/values.cuh"
#include "ops/cpu/calls/grid_sample_formulas.h"

/* The places and weights of one sample along all axes. */
struct sample_taps {
  int64_t places[CUDA_AXES][GRID_TAPS_MOST]; /* times the axis's stride; -1: no pixel */
  double weights[CUDA_AXES][GRID_TAPS_MOST];
  int32_t along, n; /* of an axis; of all of them */
};

static __device__ inline void find_taps(const grid_args &a, int64_t sample, sample_taps &taps) {
  const grid_settings settings = {a.mode, a.outside, a.align_corners != 0, a.grid_dtype != REED_F64};
  int64_t stride = 1;
  taps.along = grid_taps_of(a.mode);
  taps.n = 1;
  ROLLED
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t at = sample * a.axes + (a.axes - 1 - d);
    grid_taps(&settings, value_real(a.grid_dtype, value_load(a.grid_dtype, a.grid, at)), a.in[d], taps.places[d],
              taps.weights[d]);
    ROLLED
    for (int32_t k = 0; k < taps.along; k++)
      if (taps.places[d][k] >= 0) taps.places[d][k] *= stride;
    stride *= a.in[d];
    taps.n *= taps.along;
  }
}

/* The pixel of tap t in a plane, or -1, and its weight. */
static __device__ inline int64_t tap_place(const grid_args &a, const sample_taps &taps, int32_t t, double *weight) {
  int64_t place = 0;
  double share = 1;
  ROLLED
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int32_t k = t & (taps.along - 1); /* 1, 2 or 4 of them */
    t >>= taps.along >> 1;
    if (taps.places[d][k] < 0) return -1;
    place += taps.places[d][k];
    share *= taps.weights[d][k];
  }
  *weight = share;
  return place;
}

KERNEL(grid_sample) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  /* neighbours are samples of the same channels, or with channels last channels of the same sample */
  const int64_t image = i / (a.slices * a.samples), rest = i % (a.slices * a.samples);
  const int64_t slice = a.last ? rest % a.slices : rest / a.samples,
                sample = a.last ? rest / a.slices : rest % a.samples;
  sample_taps taps;
  find_taps(a, image * a.samples + sample, taps);
  const int64_t first = slice * GRID_CHANNELS,
                end = first + GRID_CHANNELS < a.channels ? first + GRID_CHANNELS : a.channels;
  const int64_t pixel_step = a.last ? a.channels : 1;
  ROLLED
  for (int64_t c = first; c < end; c++) {
    const int64_t x = a.last ? image * a.pixels * a.channels + c : (image * a.channels + c) * a.pixels,
                  y = a.last ? (image * a.samples + sample) * a.channels + c
                             : (image * a.channels + c) * a.samples + sample;
    double real = 0, weight = 0;
    float single = 0;
    ROLLED
    for (int32_t t = 0; t < taps.n; t++) {
      const int64_t place = tap_place(a, taps, t, &weight);
      if (place < 0) continue;
      const uint64_t value = value_load(a.dtype, a.x, x + place * pixel_step);
      if (a.dtype == REED_F64) real += weight * value_as<double>(value);
      else single += static_cast<float>(weight) * value_as<float>(value);
    }
    value_store(a.dtype, a.y, y, a.dtype == REED_F64 ? value_of(real) : value_of(single));
  }
}
