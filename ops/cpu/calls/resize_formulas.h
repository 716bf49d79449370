/* The formulas of Resize (ONNX, opset 19) for one position of one axis, and the part of a box that PasteMasks shows. C
 * and CUDA read this file, so that the host's kernels and the GPU's take their numbers from the same lines. Tables of
 * all positions: resize.h. */
#ifndef OPS_CPU_CALLS_RESIZE_FORMULAS_H_
#define OPS_CPU_CALLS_RESIZE_FORMULAS_H_

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RESIZE_FORMULA static __device__ inline
#else
#define RESIZE_FORMULA static inline
#endif

/* These three are in the order of op.def's words. */
enum {
  MAP_HALF_PIXEL,
  MAP_HALF_PIXEL_SYMMETRIC,
  MAP_PYTORCH_HALF_PIXEL,
  MAP_ALIGN_CORNERS,
  MAP_ASYMMETRIC,
  MAP_TF_HALF_PIXEL, /* opset 11 only */
  MAP_CROP
};
enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL };

/* Numbers that all axes share. */
typedef struct resize_settings {
  int mapping, mode, nearest;
  bool antialias, exclude_outside;
  double cubic_a;
} resize_settings;

/* The settings of one axis. */
typedef struct resize_scaling {
  int64_t in, out;
  double scale, crop_begin, crop_end;
} resize_scaling;

/* The input coordinate of output position x. */
RESIZE_FORMULA double resize_source_of(const resize_settings *s, const resize_scaling *a, int64_t x) {
  const double in = (double)a->in, at = (double)x,
               resized = s->mapping == MAP_CROP ? (double)a->out
                                                : a->scale * in; /* may be no whole number, as in ONNX's reference */
  double source = 0;
  switch (s->mapping) {
    case MAP_HALF_PIXEL: source = (at + 0.5) / a->scale - 0.5; break;
    case MAP_HALF_PIXEL_SYMMETRIC:
      source = in / 2 * (1 - (double)a->out / resized) + (at + 0.5) / a->scale - 0.5;
      break;
    case MAP_PYTORCH_HALF_PIXEL: source = a->out > 1 ? (at + 0.5) / a->scale - 0.5 : 0; break;
    case MAP_ALIGN_CORNERS: source = resized == 1 ? 0 : at * (in - 1) / (resized - 1); break;
    case MAP_ASYMMETRIC: source = at / a->scale; break;
    case MAP_TF_HALF_PIXEL: source = (at + 0.5) / a->scale; break;
    case MAP_CROP:
      source = resized == 1 ? (a->crop_end - a->crop_begin) * (in - 1) / 2 + a->crop_begin * (in - 1)
                            : at * (a->crop_end - a->crop_begin) * (in - 1) / (resized - 1) + a->crop_begin * (in - 1);
      break;
    default: break;
  }
  return source;
}

RESIZE_FORMULA double resize_round_to_pixel(const resize_settings *s, double at) {
  at = (double)(float)at; /* so that 8 / 1.6f gives 5 */
  switch (s->nearest) {
    case ROUND_PREFER_FLOOR: return ceil(at - 0.5);
    case ROUND_PREFER_CEIL: return floor(at + 0.5);
    case ROUND_FLOOR: return floor(at);
    default: return ceil(at);
  }
}

/* The kernel's weight at a distance, which is in output pixels if antialiasing shrinks. */
RESIZE_FORMULA double resize_kernel_at(const resize_settings *s, double distance) {
  const double x = fabs(distance), a = s->cubic_a;
  if (s->mode == MODE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1; /* Keys, 1981 */
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

RESIZE_FORMULA int32_t resize_clamp_index(double i, int64_t in) {
  return (int32_t)(i > 0 ? (i < (double)(in - 1) ? i : (double)(in - 1)) : 0);
}

/* Taps first .. first + taps - 1 around `at`, weights summing to one. */
RESIZE_FORMULA void resize_fill_position(const resize_settings *s, const resize_scaling *a, double at, double shrink,
                                         int64_t taps, int32_t *index, float *weight) {
  const double base = floor(at), first = base - (double)(taps / 2 - 1);
  const bool normalise = s->antialias || s->exclude_outside;
  double sum = 0;
  for (int64_t k = 0; k < taps && normalise; k++) {
    const double i = first + (double)k, w = resize_kernel_at(s, (i - at) * shrink);
    if (!(s->exclude_outside && (i < 0 || i >= (double)a->in))) sum += w;
  }
  if (sum == 0) sum = 1;
  for (int64_t k = 0; k < taps; k++) {
    const double i = first + (double)k, w = resize_kernel_at(s, (i - at) * shrink);
    const bool out = s->exclude_outside && (i < 0 || i >= (double)a->in);
    index[k] = resize_clamp_index(i, a->in);
    weight[k] = (float)(out ? 0 : normalise ? w / sum : w);
  }
}

/* How much closer together antialiasing places the taps. */
RESIZE_FORMULA double resize_shrink(const resize_settings *s, const resize_scaling *a) {
  return s->antialias && a->scale < 1 ? a->scale : 1;
}

/* The taps of output position x. *out_outside: its coordinate lies outside of the input. */
RESIZE_FORMULA void resize_position(const resize_settings *s, const resize_scaling *a, int64_t x, int64_t taps,
                                    int32_t *index, float *weight, bool *out_outside) {
  double at = resize_source_of(s, a, x);
  if (!(fabs(at) < 4503599627370496.0)) at = 0; /* 2^52; scales and regions may be any numbers */
  *out_outside = at < 0 || at > (double)(a->in - 1);
  if (s->mode != MODE_NEAREST) {
    resize_fill_position(s, a, at, resize_shrink(s, a), taps, index, weight);
    return;
  }
  index[0] = resize_clamp_index(resize_round_to_pixel(s, at), a->in);
  weight[0] = 1;
}

/* ---- PasteMasks ---- */

/* One axis of a box, from pixel `first` to pixel `last`, both included. */
typedef struct paste_span {
  int64_t origin, extent; /* of the box; at least 1 */
  int64_t begin, end;     /* the part in the picture; begin == end: nothing */
} paste_span;

RESIZE_FORMULA int64_t paste_clamp(int64_t i, int64_t low, int64_t high) { return i < low ? low : i > high ? high : i; }

/* The span from pixel `first` to pixel `last`, which may be any numbers; limit: the picture's extent. Pixels farther
 * away than 2^50 are never visible, and doubles hold every integer up to this number. */
RESIZE_FORMULA paste_span paste_visible(int64_t first, int64_t last, int64_t limit) {
  const int64_t farthest = (int64_t)1 << 50;
  first = paste_clamp(first, -farthest, farthest);
  last = paste_clamp(last, -farthest, farthest);
  paste_span s;
  s.origin = first;
  s.extent = last < first ? 1 : last - first + 1;
  s.begin = paste_clamp(first, 0, limit);
  s.end = paste_clamp(last + 1, s.begin, limit);
  return s;
}

#endif
