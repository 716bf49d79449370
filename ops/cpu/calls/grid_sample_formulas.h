/* The formulas of GridSample (ONNX, opset 22) for one axis of one sample. C and CUDA read this file, so that the host's
 * kernel, its reference and the GPU's kernel take their numbers from the same lines. */
#ifndef OPS_CPU_CALLS_GRID_SAMPLE_FORMULAS_H_
#define OPS_CPU_CALLS_GRID_SAMPLE_FORMULAS_H_

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GRID_FORMULA static __device__ inline
#else
#define GRID_FORMULA static inline
#endif

/* Both are in the order of op.def's words. */
enum { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum { OUTSIDE_ZEROS, OUTSIDE_BORDER, OUTSIDE_REFLECTION };

#define GRID_TAPS_MOST 4 /* along an axis */

typedef struct grid_settings {
  int mode, outside;
  bool align_corners, single; /* single: coordinates are computed in float, as the grid's elements are f32 or less */
} grid_settings;

GRID_FORMULA int32_t grid_taps_of(int mode) { return mode == SAMPLE_NEAREST ? 1 : mode == SAMPLE_LINEAR ? 2 : 4; }

/* The pixel at coordinate g of the grid along an axis of `extent` pixels: -1 and 1 are the centres of the outermost
 * pixels with align_corners, otherwise their outer edges. In the order of ONNX's operations, because nearest rounds the
 * result. */
GRID_FORMULA double grid_pixel(const grid_settings *s, double g, int64_t extent) {
  if (s->single) {
    const float at = (float)g + 1, n = (float)extent;
    return (double)(s->align_corners ? at / 2 * (n - 1) : (at * n - 1) / 2);
  }
  const double at = g + 1, n = (double)extent;
  return s->align_corners ? at / 2 * (n - 1) : (at * n - 1) / 2;
}

/* The pixel that is read for pixel i of an axis; -1: none, it counts as 0. */
GRID_FORMULA int64_t grid_place(const grid_settings *s, int64_t extent, int64_t i) {
  if (i >= 0 && i < extent) return i;
  if (s->outside == OUTSIDE_ZEROS || extent == 0) return -1;
  if (s->outside == OUTSIDE_BORDER || extent == 1) return i > 0 ? extent - 1 : 0;
  const int64_t period = s->align_corners ? 2 * (extent - 1) : 2 * extent, at = i % period,
                ahead = at < 0 ? at + period : at;
  return ahead < extent ? ahead : period - (s->align_corners ? 0 : 1) - ahead;
}

/* Keys, 1981, with a = -0.75, at a distance of 0 to 2. */
GRID_FORMULA double grid_cubic(double x) {
  const double a = -0.75;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* The places and weights of a sample along one axis, grid_taps_of(mode) each. A coordinate that is no number, or so far
 * away that pixels cannot be told apart, lies outside: beside the first pixel, or the last one if it is positive. */
GRID_FORMULA void grid_taps(const grid_settings *s, double g, int64_t extent, int64_t *places, double *weights) {
  double at = grid_pixel(s, g, extent);
  if (!(fabs(at) < 4503599627370496.0)) at = at > 0 ? (double)extent + 2 : -3; /* 2^52 */
  if (s->mode == SAMPLE_NEAREST) {
    places[0] = grid_place(s, extent, llrint(at));
    weights[0] = 1;
    return;
  }
  const int64_t cut = (int64_t)at, base = (double)cut > at ? cut - 1 : cut;
  const double part = at - (double)base;
  if (s->mode == SAMPLE_LINEAR) {
    weights[0] = 1 - part;
    weights[1] = part;
  } else {
    for (int32_t k = 0; k < 4; k++) weights[k] = grid_cubic(fabs(part - (double)(k - 1)));
  }
  const int32_t n = grid_taps_of(s->mode);
  for (int32_t k = 0; k < n; k++) places[k] = grid_place(s, extent, base + k - (n / 2 - 1));
}

#endif
