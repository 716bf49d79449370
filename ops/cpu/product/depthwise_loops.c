/* The innermost loops of convolution in small groups (ops/cpu/product/depthwise_loops.h), compiled once per CPU level.
 * A tile is some pixels of a row by one vector of channels, whose sums stay in registers over all taps. */
#include "ops/cpu/product/depthwise_loops.h"

#include <math.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/formulas/activation_loops.h"

/* PIXELS sums, TAPS_MOST weights and one vector of X stay in registers. */
#if LANES == 16
#define PIXELS 12
#define VECTORS_SLIDING 2 /* of a tile of three taps, side by side */
#else
#define PIXELS 8
#define VECTORS_SLIDING 1
#endif
#define ODD_MOST 7  /* pixels of a tile whose number is odd, at most */
#define TAPS_MOST 7 /* most columns of a sliding window */
#if LANES == 16
#define EIGHTS _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8)
#endif
#define VECTORS 4 /* of channels side by side in a tile of one pixel, so that sums do not wait for each other */
#define NEAR 4    /* pixels of X that are read at distances from one address: one and three of them have registers */

/* Neighbouring pixels of a row of Y; of a sliding window with a dilation of d: every d-th pixel of the rows. */
typedef struct tile {
  const float *x, *weights; /* of the first tap row that meets X */
  int64_t first, width; /* the first window's first pixel of X's row, which may lie before it; how many the row has */
  int64_t tap_rows, taps;
  int64_t x_row, x_tap, x_pixel; /* from a tap row to the next, a tap, a pixel of Y */
  int64_t x_step, y_pixel;       /* from a pixel that is read to the next, and of Y */
  int64_t w_row, channels, group;
  const float *bias, *residual;
  float *y;
  float low, high; /* bounds of the sums: the activation as a clamp */
  bool hardswish;  /* HardSwish instead of the clamp */
  bool activate;   /* applies the other activations at once, while the tile is in the first-level cache */
  bool far;        /* a sliding tile fetches X and Y of the next one */
} tile;

/* Finishes `count` sums and stores them at `channel` of the first pixel and every y_step floats after it. Only the last
 * `kept` lanes are stored, because the lanes before them belong to another vector, whose residual may lie in the same
 * memory. */
INLINE void finish(const tile *t, int64_t channel, int kept, int count, int64_t y_step, lanes *sum) {
  float *y = t->y + channel;
  if (t->residual) {
    const float *residual = t->residual + channel;
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) sum[i] += load(residual + i * y_step);
  }
  if (t->hardswish) {
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) sum[i] *= between(sum[i] * all(1.0f / 6.0f) + all(0.5f), all(0), all(1));
  } else {
    lanes low = held(all(t->low)), high = held(all(t->high));
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) sum[i] = between(sum[i], low, high);
  }
  if (kept == LANES) {
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) store(y + i * y_step, sum[i]);
  } else {
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) store_last(y + i * y_step, sum[i], kept);
  }
}

/* A tap row's weights stay in registers, and every pixel of X, t->x_step after the one before, is read once for all its
 * windows, whose taps are `apart` pixels apart. edge: X does not have some of these pixels. vectors: neighbouring ones
 * of channels. */
INLINE void tile_sliding(const tile *t, int64_t channel, int kept, int pixels, int vectors, int stride, int taps,
                         int apart, bool edge) {
  lanes sum[VECTORS_SLIDING][PIXELS];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) {
    const lanes bias = t->bias ? load(t->bias + channel + v * LANES) : (lanes){0};
#pragma GCC unroll 12
    for (int p = 0; p < pixels; p++) sum[v][p] = bias;
  }
  const int64_t channels = t->channels, step = t->x_step;
  const float *x = t->x + t->first * step + channel, *w = t->weights + channel;
  for (int64_t row = 0; row < t->tap_rows; row++, x += t->x_row, w += t->w_row) {
    lanes weights[VECTORS_SLIDING][TAPS_MOST];
#pragma GCC unroll 8
    for (int k = 0; k < taps; k++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) weights[v][k] = held(load(w + k * channels + v * LANES));
    const float *near = x;
#pragma GCC unroll 32
    for (int i = 0; i <= (pixels - 1) * stride + (taps - 1) * apart; i++) {
      if (i > 0 && i % NEAR == 0) {
        near += NEAR * step;
        __asm__("" : "+r"(near)); /* keeps gcc from holding a distance for each pixel, in memory */
      }
      if (edge && (uint64_t)(t->first + i) >= (uint64_t)t->width) continue;
#pragma GCC unroll 2
      for (int j = 0; j < vectors; j++) {
        const lanes v = held(load(near + i % NEAR * step + j * LANES));
#pragma GCC unroll 8
        for (int k = 0; k < taps; k++) {
          const int from = i - k * apart; /* the first window that has the pixel under tap k */
          if (from >= 0 && from % stride == 0 && from / stride < pixels) sum[j][from / stride] += v * weights[j][k];
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) finish(t, channel + v * LANES, kept, pixels, t->y_pixel, sum[v]);
}

/* Of a pixel's vector from `channel` on: input `input` of each channel's group, in all channels of the group. x: the
 * pixel's first channel. group and input are constants after inlining. */
INLINE lanes spread(const float *x, int64_t channel, int group, int input) {
  if (group == 1) return load(x + channel);
  if (group >= LANES) return all(x[channel / group * group + input]);
  lanes v = load(x + channel);
#if LANES == 16
  if (group == 8) return _mm512_permutexvar_ps(_mm512_add_epi32(EIGHTS, _mm512_set1_epi32(input)), v);
  if (group == 4)
    return input == 0   ? _mm512_permute_ps(v, 0x00)
           : input == 1 ? _mm512_permute_ps(v, 0x55)
           : input == 2 ? _mm512_permute_ps(v, 0xaa)
                        : _mm512_permute_ps(v, 0xff);
  return input == 0 ? _mm512_moveldup_ps(v) : _mm512_movehdup_ps(v);
#elif LANES == 8
  if (group == 4)
    return input == 0   ? _mm256_permute_ps(v, 0x00)
           : input == 1 ? _mm256_permute_ps(v, 0x55)
           : input == 2 ? _mm256_permute_ps(v, 0xaa)
                        : _mm256_permute_ps(v, 0xff);
  return input == 0 ? _mm256_moveldup_ps(v) : _mm256_movehdup_ps(v);
#else
  return input == 0 ? _mm_shuffle_ps(v, v, 0xa0) : _mm_shuffle_ps(v, v, 0xf5);
#endif
}

/* Windows of any form with all their taps: a weight is read once for all pixels. */
INLINE void tile_any(const tile *t, int64_t channel, int kept, int pixels, int group) {
  lanes sum[PIXELS], bias = t->bias ? load(t->bias + channel) : (lanes){0};
#pragma GCC unroll 12
  for (int p = 0; p < pixels; p++) sum[p] = bias;
  for (int64_t row = 0; row < t->tap_rows; row++) {
    const float *x_row = t->x + row * t->x_row + t->first * t->channels, *w = t->weights + row * t->w_row + channel;
    for (int64_t k = 0; k < t->taps; k++, x_row += t->x_tap)
#pragma GCC unroll 8
      for (int i = 0; i < group; i++, w += t->channels) {
        const float *x = x_row;
        lanes weight = held(load(w));
#pragma GCC unroll 12
        for (int p = 0; p < pixels; p++, x += t->x_pixel) sum[p] += weight * spread(x, channel, group, i);
      }
  }
  finish(t, channel, kept, pixels, t->y_pixel, sum);
}

#if LANES == 16
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

/* Groups of 8, two to a vector, as tile_any: a product of half a vector takes its element of X from memory, while
 * spreading two elements in one vector takes as long as the product. */
INLINE void tile_eights(const tile *t, int64_t channel, int kept, int pixels) {
  eight low[PIXELS], high[PIXELS];
  lanes sum[PIXELS], bias = t->bias ? load(t->bias + channel) : (lanes){0};
#pragma GCC unroll 12
  for (int p = 0; p < pixels; p++) {
    low[p] = (eight)_mm512_castps512_ps256(bias);
    high[p] = (eight)_mm512_extractf32x8_ps(bias, 1);
  }
  for (int64_t row = 0; row < t->tap_rows; row++) {
    const float *x_row = t->x + row * t->x_row + t->first * t->channels + channel,
                *w = t->weights + row * t->w_row + channel;
    for (int64_t k = 0; k < t->taps; k++, x_row += t->x_tap)
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++, w += t->channels) {
        const float *x = x_row + i;
        const eight a = *(const eight *)w, b = *(const eight *)(w + 8);
#pragma GCC unroll 12
        for (int p = 0; p < pixels; p++, x += t->x_pixel) {
          low[p] += a * x[0];
          high[p] += b * x[8];
        }
      }
  }
#pragma GCC unroll 12
  for (int p = 0; p < pixels; p++)
    sum[p] = (lanes)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)low[p]), (__m256)high[p], 1);
  finish(t, channel, kept, pixels, t->y_pixel, sum);
}
#endif

/* Fetches `vectors` vectors of n pixels, `step` floats apart, into the second-level cache. */
INLINE void fetch_pixels(const float *at, int64_t n, int64_t step, int vectors) {
  for (int64_t i = 0; i < n; i++, at += step)
    for (int v = 0; v < vectors; v++) __builtin_prefetch(at + v * LANES, 0, 2);
}

/* Fetches some vectors of the next tile, `pixels` outputs on: of the X that this one, of `span` pixels, does not have,
 * and of Y. A function of its own, so that tiles that fetch nothing keep their registers. */
CPU_UNCHECKED static __attribute__((noinline)) void fetch_next(const tile *t, int64_t channel, int64_t pixels,
                                                               int64_t stride, int64_t span, int vectors) {
  const float *x = t->x + (t->first + span) * t->x_step + channel;
  for (int64_t row = 0; row < t->tap_rows; row++, x += t->x_row) fetch_pixels(x, pixels * stride, t->x_step, vectors);
  if (!t->residual) fetch_pixels(t->y + pixels * t->y_pixel + channel, pixels, t->y_pixel, vectors);
  __asm__ volatile(""); /* gcc leaves out calls of a function that only fetches */
}

/* All vectors of a tile; the last one ends with the channels and may overlap the one before. taps 0: any number, in
 * groups of `group`. Two vectors side by side share the decisions at an edge, and read two lines of a pixel of X in
 * turn, which the caches fetch sooner; tiles of neighbouring pixels inside are faster apart, because the core's window
 * of instructions then holds the end of one tile and the beginning of the next. */
INLINE void tile_channels(const tile *t, int pixels, int stride, int taps, int apart, bool edge, int group) {
  const int span = (pixels - 1) * stride + (taps - 1) * apart + 1;
  int64_t c = 0;
  for (; taps == 3 && (edge || apart > 1 || stride > 1) && VECTORS_SLIDING == 2 && c + 2 * LANES <= t->channels;
       c += 2 * LANES) {
    if (t->far) fetch_next(t, c, pixels, stride, span, VECTORS_SLIDING);
    tile_sliding(t, c, LANES, pixels, VECTORS_SLIDING, stride, taps, apart, edge);
  }
  for (; c < t->channels; c += LANES) {
    int64_t left = t->channels - c, channel = left < LANES ? t->channels - LANES : c;
    int kept = left < LANES ? (int)left : LANES;
    if (taps && t->far) fetch_next(t, channel, pixels, stride, span, 1);
    if (taps) tile_sliding(t, channel, kept, pixels, 1, stride, taps, apart, edge);
#if LANES == 16
    else if (group == 8) tile_eights(t, channel, kept, pixels);
#endif
    else tile_any(t, channel, kept, pixels, group);
  }
}

/* Makes a function for tiles of some counts of pixels (tile_width). In each case the count is a constant, as are
 * stride, taps, apart and edge. */
#define CASE(pixels, ...) \
  case pixels: \
    tile_channels(t, pixels, __VA_ARGS__); \
    break;
#if PIXELS == 12
#define CASES_TO_12(...) CASE(10, __VA_ARGS__) CASE(12, __VA_ARGS__)
#else
#define CASES_TO_12(...)
#endif
#define TILES(name, ...) \
  CPU_UNCHECKED static void name(const tile *t, int64_t pixels) { \
    switch (pixels) { \
      CASE(1, __VA_ARGS__) \
      CASE(2, __VA_ARGS__) \
      CASE(3, __VA_ARGS__) \
      CASE(4, __VA_ARGS__) \
      CASE(5, __VA_ARGS__) CASE(6, __VA_ARGS__) CASE(7, __VA_ARGS__) CASE(8, __VA_ARGS__) CASES_TO_12(__VA_ARGS__) \
    } \
  }
TILES(tiles_any, 0, 0, 0, false, 1)
TILES(tiles_of_2, 0, 0, 0, false, 2)
TILES(tiles_of_4, 0, 0, 0, false, 4)
TILES(tiles_of_8, 0, 0, 0, false, 8)
TILES(tiles_3_by_1, 1, 3, 1, false, 1)
TILES(edges_3_by_1, 1, 3, 1, true, 1)
TILES(tiles_3_by_2, 2, 3, 1, false, 1)
TILES(edges_3_by_2, 2, 3, 1, true, 1)
TILES(tiles_3_apart, 1, 3, 2, false, 1)
TILES(edges_3_apart, 1, 3, 2, true, 1)
TILES(tiles_5_by_1, 1, 5, 1, false, 1)
TILES(edges_5_by_1, 1, 5, 1, true, 1)
TILES(tiles_5_by_2, 2, 5, 1, false, 1)
TILES(edges_5_by_2, 2, 5, 1, true, 1)
TILES(tiles_7_by_1, 1, 7, 1, false, 1)
TILES(edges_7_by_1, 1, 7, 1, true, 1)
TILES(tiles_7_by_2, 2, 7, 1, false, 1)
TILES(edges_7_by_2, 2, 7, 1, true, 1)

/* One pixel, any window. */
INLINE void pixel(const tile *t, int group) {
  int64_t channel = 0;
  for (; channel + VECTORS * LANES <= t->channels; channel += VECTORS * LANES) {
    lanes sum[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sum[v] = t->bias ? load(t->bias + channel + v * LANES) : (lanes){0};
    for (int64_t row = 0; row < t->tap_rows; row++) {
      const float *x = t->x + row * t->x_row + t->first * t->channels, *w = t->weights + row * t->w_row + channel;
      for (int64_t k = 0; k < t->taps; k++, x += t->x_tap)
#pragma GCC unroll 8
        for (int i = 0; i < group; i++, w += t->channels)
#pragma GCC unroll 4
          for (int v = 0; v < VECTORS; v++) sum[v] += load(w + v * LANES) * spread(x, channel + v * LANES, group, i);
    }
    finish(t, channel, LANES, VECTORS, LANES, sum);
  }
  for (; channel < t->channels; channel += LANES) {
    int64_t left = t->channels - channel;
    if (left < LANES) tile_any(t, t->channels - LANES, (int)left, 1, group);
    else tile_any(t, channel, LANES, 1, group);
  }
}
CPU_UNCHECKED static void pixel_any(const tile *t, int64_t pixels) { pixel(t, 1); }
CPU_UNCHECKED static void pixel_of_2(const tile *t, int64_t pixels) { pixel(t, 2); }
CPU_UNCHECKED static void pixel_of_4(const tile *t, int64_t pixels) { pixel(t, 4); }
CPU_UNCHECKED static void pixel_of_8(const tile *t, int64_t pixels) { pixel(t, 8); }

/* One pixel, fewer channels than lanes: one at a time. */
static void pixel_narrow(const tile *t, int64_t pixels) {
  for (int64_t c = 0; c < t->channels; c++) {
    float sum = t->bias ? t->bias[c] : 0;
    int64_t first = c / t->group * t->group; /* of the channel's group */
    for (int64_t row = 0; row < t->tap_rows; row++) {
      const float *x = t->x + row * t->x_row + t->first * t->channels + first, *w = t->weights + row * t->w_row + c;
      for (int64_t k = 0; k < t->taps; k++, x += t->x_tap)
        for (int64_t i = 0; i < t->group; i++, w += t->channels) sum += x[i] * *w;
    }
    if (t->residual) sum += t->residual[c];
    t->y[c] = sum;
  }
}

/* ---- a row ---- */

typedef void (*tiles_fn)(const tile *t, int64_t pixels);

/* How a row is computed: a function for tiles whose windows have all their taps, and one for edges, which takes tiles
 * if `slides`, else single pixels with the taps that they have. */
typedef struct method {
  tiles_fn whole, edge;
  bool slides;
  int apart; /* pixels from a tap to the next */
} method;

static const method *method_for(const depthwise_row *r) {
  static const method sliding[3][2] = {{{tiles_3_by_1, edges_3_by_1, true, 1}, {tiles_3_by_2, edges_3_by_2, true, 1}},
                                       {{tiles_5_by_1, edges_5_by_1, true, 1}, {tiles_5_by_2, edges_5_by_2, true, 1}},
                                       {{tiles_7_by_1, edges_7_by_1, true, 1}, {tiles_7_by_2, edges_7_by_2, true, 1}}};
  static const method apart = {tiles_3_apart, edges_3_apart, true, 2}, narrow = {pixel_narrow, pixel_narrow},
                      any = {tiles_any, pixel_any}, of_2 = {tiles_of_2, pixel_of_2}, of_4 = {tiles_of_4, pixel_of_4},
                      of_8 = {tiles_of_8, pixel_of_8};
  int64_t stride = r->w->stride[1], taps = r->w->kernel[1], dilation = r->w->dilation[1];
  if (r->channels < LANES) return &narrow;
  if (r->group > 1) return r->group == 2 ? &of_2 : r->group == 4 ? &of_4 : &of_8;
  if (taps == 3 && stride == 1 && dilation % 2 == 0) return &apart;
  if ((taps == 3 || taps == 5 || taps == TAPS_MOST) && (stride == 1 || (stride == 2 && dilation == 1)))
    return &sliding[(taps - 3) / 2][stride == 2];
  return &any;
}

/* `pixels` pixels from column `o` on. */
static inline void run_tile(const depthwise_row *r, tile *t, tiles_fn tiles, int64_t o, int64_t pixels) {
  const activation *a = r->activation;
  t->y = r->y + o * r->channels;
  t->residual = r->residual ? r->residual + o * r->channels : NULL;
  tiles(t, pixels);
  if (!t->activate) return;
  const bool dense = t->y_pixel == r->channels;
  for (int64_t i = 0; i < (dense ? 1 : pixels); i++) CPU_LEVELED(activate_f32)
  (a->kind, (float)a->alpha, (float)a->beta, t->y + i * t->y_pixel, dense ? pixels * r->channels : r->channels);
}

/* The number of pixels of the next tile, given `left` remaining ones: even above ODD_MOST, which makes less code. The
 * remaining tiles are about equally wide, because the few sums of a narrow one wait for each other. */
static int64_t tile_width(int64_t left) {
  const int64_t tiles = (left + PIXELS - 1) / PIXELS, width = (left + tiles - 1) / tiles;
  return width & 1 && width < left ? width + 1 : width > ODD_MOST ? width & ~(int64_t)1 : width;
}

/* With a dilation of d times `apart`, columns of Y with the same remainder by d read pixels of X with the same
 * remainder: each is a row of its own with a dilation of `apart`. */
static void run_sliding(const depthwise_row *r, tile *t, const method *m) {
  const window *w = r->w;
  const int64_t d = w->dilation[1] == 1 ? 1 : w->dilation[1] / m->apart, stride = w->stride[1]; /* d or stride is 1 */
  const float *x = t->x;
  t->x_step = t->y_pixel = d * r->channels;
  for (int64_t begin = r->begin; begin < r->end && begin < r->begin + d; begin++) {
    int64_t first = begin * stride - w->pad_begin[1], columns = r->end - begin;
    if (d > 1) {
      const int64_t remainder = (first % d + d) % d;
      first = (first - remainder) / d;
      columns = (columns + d - 1) / d;
      t->x = x + remainder * r->channels;
      t->width = (w->in[1] - remainder + d - 1) / d;
    }
    for (int64_t i = 0, n; i < columns; i += n) {
      n = tile_width(columns - i);
      t->first = first + i * stride;
      bool inside = t->first >= 0 && t->first + (n - 1) * stride + (w->kernel[1] - 1) * m->apart < t->width;
      run_tile(r, t, inside ? m->whole : m->edge, begin + i * d, n);
    }
  }
}

static void run_any(const depthwise_row *r, tile *t, const method *m) {
  const window *w = r->w;
  const float *weights = t->weights;
  int64_t begin, end;
  window_whole(w, 1, &begin, &end);
  if (end > r->end) end = r->end;
  for (int64_t o = r->begin, n; o < r->end; o += n) {
    bool inside = o >= begin && o < end;
    window_taps taps = window_taps_at(w, 1, o);
    n = inside && r->channels >= LANES ? tile_width(end - o) : 1;
    t->taps = taps.n;
    t->first = taps.n ? taps.start : 0;
    t->weights = weights + (taps.n ? taps.first * r->group * r->channels : 0);
    run_tile(r, t, inside ? m->whole : m->edge, o, n);
  }
}

void CPU_LEVELED(depthwise_row)(const depthwise_row *r) {
  const window *w = r->w;
  const activation *a = r->activation;
  bool relu = a->kind == ACTIVATION_RELU, clip = a->kind == ACTIVATION_CLIP,
       hardswish = a->kind == ACTIVATION_HARDSWISH;
  window_taps rows = window_taps_at(w, 0, r->row);
  /* all members: gcc would else fill the whole with zeros first, by an instruction that takes long */
  tile t = {
      .x = r->x + (rows.n ? rows.start * w->in[1] * r->channels : 0),
      .weights = r->weights + (rows.n ? rows.first * w->kernel[1] * r->group * r->channels : 0),
      .first = 0,
      .width = w->in[1],
      .tap_rows = rows.n,
      .taps = 0,
      .x_row = w->dilation[0] * w->in[1] * r->channels,
      .x_tap = w->dilation[1] * r->channels,
      .x_pixel = w->stride[1] * r->channels,
      .x_step = r->channels,
      .y_pixel = r->channels,
      .w_row = w->kernel[1] * r->group * r->channels,
      .channels = r->channels,
      .group = r->group,
      .bias = r->bias,
      .residual = NULL,
      .y = NULL,
      .low = clip   ? (float)a->alpha
             : relu ? 0
                    : -INFINITY,
      .high = clip ? (float)a->beta : INFINITY,
      .hardswish = hardswish,
      .activate = a->kind != ACTIVATION_NONE && (r->channels < LANES || !(relu || clip || hardswish)),
      .far = r->far,
  };
  const method *m = method_for(r);
  (m->slides ? run_sliding : run_any)(r, &t, m);
}
