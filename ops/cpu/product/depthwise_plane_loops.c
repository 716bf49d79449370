/* The loops of depthwise convolution of planes (ops/cpu/product/depthwise_plane_loops.h), compiled once per CPU level.
 * A tile is one vector of some neighbouring rows of Y, whose sums stay in registers over all taps. */
#include "ops/cpu/product/depthwise_plane_loops.h"

#include <math.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/formulas/activation_loops.h"

#define ROWS 4             /* of a tile with constant taps: they share the reading of X's rows */
#define ROWS_MOST 7        /* of a tile of 3 x 3 where the sums and all weights stay in AVX-512's registers */
#define PAIRS (LANES == 8) /* pairs of vectors of a row: AVX-512 reads a weight with the product */
#define VECTORS 4          /* of a tile with any taps, side by side */
#define TAPS_MOST 7

/* A vector of some rows of Y. */
typedef struct tile {
  const depthwise_plane *p;
  int64_t row, column; /* of Y */
  int64_t kept;        /* elements of the row of Y from there on */
  float low, high;     /* bounds of the sums: the activation as a clamp */
  bool hardswish;      /* HardSwish instead of the clamp */
} tile;

/* Elements at .. at + LANES of a row of X; those beyond its edges are 0. edge false: there are none. */
INLINE lanes read(const float *row, int64_t at, lane_mask mask, bool edge) {
  return edge ? load_some(row + at, mask) : load(row + at);
}

/* The end of a tile, read once, because gcc would read all of it again after each store to Y. */
typedef struct ending {
  float *y;              /* at the tile's first element */
  const float *residual; /* likewise; or NULL */
  int64_t width;         /* of a row of Y */
  lanes low, high;
  bool hardswish;
} ending;

INLINE ending ending_of(const tile *t) {
  const depthwise_plane *p = t->p;
  const int64_t width = p->w->out[1], at = t->row * width + t->column;
  return (ending){p->y + at, p->residual ? p->residual + at : NULL, width, all(t->low), all(t->high), t->hardswish};
}

/* Finishes a vector of the tile's row r, from its element `column` on; `kept` of them are Y's. */
INLINE void finish(const ending *e, int64_t r, int64_t column, int64_t kept, lanes sum) {
  const int64_t at = r * e->width + column;
  if (e->residual) sum += kept < LANES ? load_some(e->residual + at, lanes_between(0, kept)) : load(e->residual + at);
  if (e->hardswish) sum *= between(sum * all(1.0f / 6.0f) + all(0.5f), all(0), all(1));
  else sum = between(sum, e->low, e->high);
  if (kept < LANES) store_first(e->y + at, sum, kept);
  else store(e->y + at, sum);
}

/* Square windows of `taps`, and the same stride and dilation along both axes, one of which is 1; all counts are
 * constants after inlining. A row of X is read once for all rows of the tile. Two vectors side by side, of stride 1,
 * share the reading of weights. */
INLINE void tile_square(const tile *t, int rows, int vectors, int taps, int stride, int dilation, bool edge) {
  const depthwise_plane *p = t->p;
  const window *w = p->w;
  lanes sum[2][ROWS_MOST];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 7
    for (int r = 0; r < rows; r++) sum[v][r] = all(p->bias);
  lanes weights[9]; /* of 3 x 3; more would not stay in registers */
#pragma GCC unroll 9
  for (int k = 0; k < 9 && taps == 3; k++) weights[k] = held(all(p->weights[k]));
  const int64_t width = w->in[1], height = w->in[0], first = t->row * stride - w->pad_begin[0],
                at = t->column * stride - w->pad_begin[1];
  /* of stride 2, a tap's elements are every second one of two vectors */
  const int loads = stride == 1 ? taps : (taps + 1) / 2 * 2;
  lane_mask masks[2 * TAPS_MOST];
#pragma GCC unroll 8
  for (int i = 0; i < loads; i++) {
    int64_t from = at + (stride == 1 ? i * dilation : i / 2 * 2 + i % 2 * LANES);
    masks[i] = edge ? lanes_between(-from, width - from) : lanes_between(0, LANES);
  }
  const float *plane = p->x;
#pragma GCC unroll 16
  for (int i = 0; i < (rows - 1) * stride + (taps - 1) * dilation + 1; i++) {
    if ((uint64_t)(first + i) >= (uint64_t)height) continue;
    const float *x = plane + (first + i) * width;
    lanes a = {0}, b = {0};
#pragma GCC unroll 8
    for (int k = 0; k < taps; k++) {
      if (stride == 1) a = held(read(x, at + k * dilation, masks[k], edge));
      if (vectors == 2) b = held(load(x + at + LANES + k * dilation));
      if (stride == 2 && k % 2 == 0) {
        a = read(x, at + k, masks[k], edge);
        b = read(x, at + k + LANES, masks[k + 1], edge);
      }
      const lanes v = stride == 1 ? a : k % 2 == 0 ? evens(a, b) : odds(a, b);
#pragma GCC unroll 7
      for (int r = 0; r < rows; r++) {
        const int down = i - r * stride, tap = down / dilation * taps + k;
        if (down < 0 || down > (taps - 1) * dilation || down % dilation != 0) continue;
        const lanes weight = taps == 3 ? weights[tap] : all(p->weights[tap]);
        sum[0][r] += v * weight;
        if (vectors == 2) sum[1][r] += b * weight;
      }
    }
  }
  const ending end = ending_of(t);
  const int64_t kept = t->kept;
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 7
    for (int r = 0; r < rows; r++)
      finish(&end, r, v * LANES, v + 1 < vectors ? LANES : kept - v * LANES,
             stride == 1 ? sum[v][r] : ordered(sum[v][r]));
}

/* A row of any windows, `vectors` vectors side by side. */
INLINE void tile_any(const tile *t, int vectors, int stride, bool edge) {
  const depthwise_plane *p = t->p;
  const window *w = p->w;
  lanes sum[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) sum[v] = all(p->bias);
  const int64_t width = w->in[1], at = t->column * stride - w->pad_begin[1], dilation = w->dilation[1],
                taps = w->kernel[1];
  window_taps rows = window_taps_at(w, 0, t->row);
  for (int64_t i = 0; i < rows.n; i++) {
    const float *x = p->x + (rows.start + i * w->dilation[0]) * width, *weights = p->weights + (rows.first + i) * taps;
    for (int64_t k = 0, from = at; k < taps; k++, from += dilation) {
      lanes weight = held(all(weights[k]));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const int64_t a = from + v * LANES * stride, b = a + LANES;
        lanes element = read(x, a, lanes_between(-a, width - a), edge);
        if (stride == 2) element = evens(element, read(x, b, lanes_between(-b, width - b), edge));
        sum[v] += weight * element;
      }
    }
  }
  const ending end = ending_of(t);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
    finish(&end, 0, v * LANES, v + 1 < vectors ? LANES : t->kept - v * LANES, stride == 1 ? sum[v] : ordered(sum[v]));
}

/* ---- rows ---- */

/* True if a tile's loads, which reach so many elements from its first one, all lie in X's row. */
static bool inside(const window *w, int64_t column, int64_t reach) {
  int64_t at = column * w->stride[1] - w->pad_begin[1];
  return at >= 0 && at + reach <= w->in[1];
}

INLINE void rows_square(tile *t, int rows, int taps, int stride, int dilation) {
  const window *w = t->p->w;
  const int64_t reach = stride == 1 ? LANES + (taps - 1) * dilation : 2 * LANES + (taps + 1) / 2 * 2 - 2;
  for (t->column = 0; t->column < w->out[1]; t->column += LANES) {
    t->kept = w->out[1] - t->column;
    if (PAIRS && stride == 1 && taps > 3 && t->kept > LANES && inside(w, t->column, reach + LANES)) {
      tile_square(t, rows, 2, taps, stride, dilation, false);
      t->column += LANES;
    } else if (inside(w, t->column, reach)) tile_square(t, rows, 1, taps, stride, dilation, false);
    else tile_square(t, rows, 1, taps, stride, dilation, true);
  }
}

INLINE void row_any(tile *t, int stride) {
  const window *w = t->p->w;
  const int64_t reach = (w->kernel[1] - 1) * w->dilation[1] + stride * LANES;
  for (t->column = 0; t->column < w->out[1];) {
    int64_t left = w->out[1] - t->column, more = (VECTORS - 1) * LANES;
    if (left >= VECTORS * LANES && inside(w, t->column, reach + stride * more)) {
      t->kept = VECTORS * LANES;
      tile_any(t, VECTORS, stride, false);
      t->column += VECTORS * LANES;
      continue;
    }
    t->kept = left < LANES ? left : LANES;
    if (inside(w, t->column, reach)) tile_any(t, 1, stride, false);
    else tile_any(t, 1, stride, true);
    t->column += LANES;
  }
}

#define SQUARE(taps, stride, dilation) \
  CPU_UNCHECKED static void rows_##taps##_by_##stride##_apart_##dilation(tile *t, int64_t end) { \
    for (; LANES == 16 && taps == 3 && stride == 1 && t->row + ROWS_MOST <= end; t->row += ROWS_MOST) \
      rows_square(t, ROWS_MOST, taps, stride, dilation); \
    for (; t->row + ROWS <= end; t->row += ROWS) rows_square(t, ROWS, taps, stride, dilation); \
    for (; t->row + 2 <= end; t->row += 2) rows_square(t, 2, taps, stride, dilation); \
    for (; t->row < end; t->row++) rows_square(t, 1, taps, stride, dilation); \
  }
#define SQUARES(X) X(3, 1, 1) X(3, 2, 1) X(5, 1, 1) X(5, 2, 1) X(7, 1, 1) X(3, 1, 2)
SQUARES(SQUARE)

CPU_UNCHECKED static void rows_any_by_1(tile *t, int64_t end) {
  for (; t->row < end; t->row++) row_any(t, 1);
}
CPU_UNCHECKED static void rows_any_by_2(tile *t, int64_t end) {
  for (; t->row < end; t->row++) row_any(t, 2);
}

typedef void (*rows_fn)(tile *t, int64_t end);

/* The function for tiles of these windows. */
static rows_fn rows_for(const window *w) {
#define IS_SQUARE(taps, by, apart) \
  if (w->kernel[0] == taps && w->kernel[1] == taps && w->stride[0] == by && w->stride[1] == by && \
      w->dilation[0] == apart && w->dilation[1] == apart) \
    return rows_##taps##_by_##by##_apart_##apart;
  SQUARES(IS_SQUARE)
  return w->stride[1] == 2 ? rows_any_by_2 : rows_any_by_1;
}

/* ---- X with zeros beside its rows ---- */

#define STRIP 4608 /* elements of a strip, at most */

/* The rows of X that some rows of Y read, with zeros beside them, so that all tiles are pairs without edges. */
typedef struct strip {
  window w; /* on the strip */
  depthwise_plane p;
  float x[STRIP];
} strip;

/* False: pairs of vectors do not serve these windows, or the rows do not fit. */
CPU_UNCHECKED static bool cut_strip(const depthwise_plane *p, strip *out) {
  const window *w = p->w;
  const int64_t taps = w->kernel[1], pad = w->pad_begin[1] > 0 ? w->pad_begin[1] : 0, cropped = pad - w->pad_begin[1],
                width = (w->out[1] + LANES - 1) / LANES * LANES + LANES + taps - 1, left = w->in[1] - cropped,
                n = left < width - pad ? left : width - pad;
  int64_t begin = p->row - w->pad_begin[0], end = begin + p->rows - 1 + w->kernel[0];
  if (!PAIRS || taps <= 3 || taps > TAPS_MOST || w->kernel[0] != taps || w->stride[0] != 1 || w->stride[1] != 1 ||
      w->dilation[0] != 1 || w->dilation[1] != 1 || w->out[1] <= LANES || n <= 0)
    return false;
  if (begin < 0) begin = 0;
  if (end > w->in[0]) end = w->in[0];
  if (end <= begin || (end - begin) * width + LANES > STRIP) return false;
  float *to = out->x;
  for (int64_t row = begin; row < end; row++, to += width) {
    const float *x = p->x + row * w->in[1] + cropped;
    int64_t i = 0;
    for (int64_t k = 0; k < width; k += LANES) store(to + k, all(0));
    for (; i + LANES <= n; i += LANES) store(to + pad + i, load(x + i));
    if (i < n) store_first(to + pad + i, load_some(x + i, lanes_between(0, n - i)), n - i);
  }
  out->w = *w;
  out->w.in[0] = end - begin;
  out->w.in[1] = width;
  out->w.pad_begin[0] += begin;
  out->w.pad_begin[1] = 0;
  out->p = *p;
  out->p.w = &out->w;
  out->p.x = out->x;
  return true;
}

void CPU_LEVELED(depthwise_plane_rows)(const depthwise_plane *p) {
  strip strip;
  const activation *a = p->activation;
  bool relu = a->kind == ACTIVATION_RELU, clip = a->kind == ACTIVATION_CLIP,
       hardswish = a->kind == ACTIVATION_HARDSWISH;
  tile t = {
      .p = cut_strip(p, &strip) ? &strip.p : p,
      .row = p->row,
      .low = clip   ? (float)a->alpha
             : relu ? 0
                    : -INFINITY,
      .high = clip ? (float)a->beta : INFINITY,
      .hardswish = hardswish,
  };
  rows_for(p->w)(&t, p->row + p->rows);
  if (a->kind != ACTIVATION_NONE && !relu && !clip && !hardswish) CPU_LEVELED(activate_f32)
  (a->kind, (float)a->alpha, (float)a->beta, p->y + p->row * p->w->out[1], p->rows * p->w->out[1]);
}
