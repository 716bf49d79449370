/* The innermost loops of products with packed weights (ops/cpu/product/panels.h), compiled once per CPU level. A tile
 * is a few rows by the columns of one panel; its sums stay in registers over the whole depth of a block. */
#include "ops/cpu/product/panel_loops.h"

#include <math.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/panel_finish.h"

/* Registers hold the sums, a row of the panel and one element of X: 7 * 4 sums of 32 registers, 6 * 2 of 16. Wide tiles
 * need fewer instructions for a product than tall ones, but a product of one or two vectors has tall ones: 14 * 2. */
#if LANES == 16
#define REGISTERS 32
#define VECTORS 4
#define ROWS 7
#define ROWS_NARROW 14 /* of VECTORS_NARROW at most */
#define ROWS_NEAR 5    /* of a tall tile, read at distances from one address, which have registers */
#elif LANES == 8
#define REGISTERS 16
#define VECTORS 2
#define ROWS 6
#else
#define REGISTERS 16
#define VECTORS 2
#define ROWS 4
#endif
#define VECTORS_MOST 8
#define VECTORS_NARROW 2
#ifndef ROWS_NARROW
#define ROWS_NARROW ROWS
#define ROWS_NEAR 3
#endif
#define ROWS_NEAR_SHALLOW 3 /* of a shallow tile, likewise */

/* Rows of a shallow tile: so few instructions that a tile's end and the next tile's beginning run side by side. */
#if LANES == 16
#define ROWS_SHALLOW 6 /* of VECTORS_SHALLOW */
#define ROWS_SHALLOW_OF_1 12
#define ROWS_SHALLOW_OF_3 5
#define VECTORS_SHALLOW 2 /* of a wide panel */
#else
#define VECTORS_SHALLOW VECTORS
#endif
#define SUMS (ROWS * VECTORS_MOST) /* of a tile, at most */
_Static_assert(ROWS_NARROW *VECTORS_NARROW <= SUMS, "tall tiles have no more sums");

/* Tiles of few rows are wider, so that more sums go on side by side and a panel is read in longer pieces. */
#if LANES < 16
#define VECTORS_OF_1 8 /* of one row */
#define VECTORS_OF_3 4 /* of three at most */
#endif

/* Runs of fewer elements, as a picture's, leave no time to prefetch; their panel is small. */
#define SHORT_RUN (LANES < 16 ? 8 : 0)
#define CACHE_LINE 16 /* floats */
#define LINE_WEIGHTS ((int)(CACHE_LINE * sizeof(float) / sizeof(weight)))
#define PANEL_WIDTH 64                  /* of a packed panel, at most */
#define PANEL_AHEAD (32 * LINE_WEIGHTS) /* of the panel, fetched ahead: some 200 cycles */
#define ROWS_AHEAD 8                    /* the same, of a matrix that is read in place */
/* Small tiles read the panel too fast for the second-level cache. */
#define FETCHES_PANEL(rows) (LANES < 16 || (rows) < 4)

/* A product of f32, or of pairs of bf16 (panel_pairs_multiply). VDPBF16PS (Intel SDM) adds both products of a pair in
 * f32, each sum rounded to nearest even, whatever MXCSR says; denormal bf16 numbers and f32 results count as 0. */
#ifdef PANEL_PAIRS
typedef __m512bh pairs;
INLINE lanes multiplied(lanes sum, const float *a, lanes weights) {
  int pair;
  __builtin_memcpy(&pair, a, sizeof pair);
  return _mm512_dpbf16_ps(sum, (pairs)_mm512_set1_epi32(pair), (pairs)weights);
}
/* The same with weights in memory. gcc loads them into a register, for which it keeps a sum in memory. */
INLINE lanes multiplied_from(lanes sum, const float *a, const float *weights) {
  int pair;
  __builtin_memcpy(&pair, a, sizeof pair);
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(_mm512_set1_epi32(pair)), "m"(*(const __m512_u *)weights));
  return sum;
}
#else
#define multiplied(sum, a, weights) ((sum) + *(a) * (weights))
#define multiplied_from(sum, a, weights) multiplied(sum, a, load_weights(weights))
#endif

/* An element of the panel: a float, a pair of bf16 in its place, or f16, which is widened exactly. */
#ifdef PANEL_F16
typedef uint16_t weight;
enum { CONVERTS = true }; /* a vector of weights is worth a register for the time of a column */
INLINE lanes load_weights(const weight *p) {
#if LANES == 16
  return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#else
  return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#endif
}
#else
typedef float weight;
enum { CONVERTS = false };
INLINE lanes load_weights(const weight *p) { return load(p); }
#endif

/* Runs a statement for each sum of a tile. */
#define EACH(statement) \
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) _Pragma("GCC unroll 8") for (int j = 0; j < vectors; j++) { \
    statement; \
  }

/* The end of a tile some of whose columns are not c's. Most tiles have the addends of a convolution alone: their loop
 * decides nothing else. */
CPU_UNCHECKED static __attribute__((noinline)) void finish_some(const panel_tile *t, int64_t row, int64_t column,
                                                                int rows, int vectors, lanes *sum) {
  const bool plain = t->first && t->bias && !t->row_bias && !t->halves;
  const lanes least = all(t->relu ? 0 : -INFINITY);
  for (int j = 0; j < vectors; j++, column += LANES) {
    const int64_t n = t->columns - column;
    if (!plain || n <= 0) {
      for (int i = 0; i < rows; i++) panel_finish(t, row + i, column, sum[i * vectors + j]);
      continue;
    }
    const lane_mask mask = lanes_between(0, n);
    const lanes bias = load_some(t->bias + column, mask);
    for (int i = 0; i < rows; i++) {
      const int64_t at = (row + i) * t->c_row + column;
      float *c = (float *)t->c + at;
      lanes x = sum[i * vectors + j] + bias;
      if (t->residual) x += load_some((const float *)t->residual + at, mask);
      x = LANES_MAX(least, x); /* NaN stays */
      if (n < LANES) store_first(c, x, n);
      else store(c, x);
    }
  }
}

/* Addresses that a tile prefetches for the tile after it: of panel_tile.next a line for each element of depth; of Y and
 * its residual a row for each of the first elements, because memory takes only some twenty requests at a time. They go
 * to the second-level cache: in the first one they would replace the panel, whose rows share its sets. */
typedef struct fetches {
  const char *next;
  const char *y, *y_end, *residual; /* the residual's, or Y's again */
  int64_t row;                      /* bytes from a row to the next */
} fetches;

/* Fetches a row of the next tile, and of its residual. */
INLINE void fetch_row(int vectors, bool halves, fetches *fetch) {
#pragma GCC unroll 8
  for (int j = 0; j < vectors * LANES; j += CACHE_LINE) {
    __builtin_prefetch(lanes_at(fetch->y, halves, j), 0, 2);
    __builtin_prefetch(lanes_at(fetch->residual, halves, j), 0, 2);
  }
  fetch->y += fetch->row;
  fetch->residual += fetch->row;
}

/* Fetches a tile of Y. */
INLINE void fetch_tile(int rows, int vectors, bool halves, const char *y, int64_t row_bytes) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++, y += row_bytes)
#pragma GCC unroll 8
    for (int j = 0; j < vectors * LANES; j += CACHE_LINE) __builtin_prefetch(lanes_at(y, halves, j), 0, 2);
}

/* Adds the product of one element of depth: `rows` elements of X, a_row apart, by `vectors` of the panel's row b, which
 * is also written to `widened` (NULL, a constant after inlining: it is not). */
INLINE void multiply_element(const panel_tile *t, const float *a, const weight *b, int64_t ahead, bool fetches_more,
                             int rows, int rows_near, int vectors, fetches *fetch, float *widened, lanes *sum) {
  /* Vectors of the panel's row that are kept in registers. If no register is left, the last vector is a memory operand,
   * because gcc would otherwise keep a sum in memory. */
  const int held_weights = rows == 1 || rows * vectors + vectors < REGISTERS ? vectors : vectors - 1;
  if (fetches_more && FETCHES_PANEL(rows)) {
#pragma GCC unroll 8
    for (int j = 0; j < vectors * LANES; j += LINE_WEIGHTS) __builtin_prefetch(b + ahead + j);
  }
  if (fetches_more && rows >= 4) {
    __builtin_prefetch(fetch->next, 0, 2);
    fetch->next += t->next_step;
  }
  lanes weights[VECTORS_MOST];
#pragma GCC unroll 8
  for (int j = 0; j < held_weights; j++) {
    weights[j] = load_weights(b + j * LANES);
    if (widened) store(widened + j * LANES, weights[j]);
  }
  const float *near = a;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    if (i > 0 && i % rows_near == 0) {
      near = a + i * t->a_row;
      __asm__("" : "+r"(near)); /* keeps gcc from holding a distance for each row, in memory */
    }
    const float *x = near + i % rows_near * t->a_row;
#pragma GCC unroll 8
    for (int j = 0; j < held_weights; j++) sum[i * vectors + j] = multiplied(sum[i * vectors + j], x, weights[j]);
    if (held_weights == vectors || CONVERTS) continue;
    __asm__("" : "+r"(b)); /* keeps gcc from holding the vector in a register */
    sum[i * vectors + vectors - 1] = multiplied_from(sum[i * vectors + vectors - 1], x, b + (vectors - 1) * LANES);
  }
  if (held_weights == vectors || !CONVERTS) return;
  __asm__("" : "+r"(b)); /* likewise */
  const lanes last = load_weights(b + (vectors - 1) * LANES);
  if (widened) store(widened + (vectors - 1) * LANES, last);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
    sum[i * vectors + vectors - 1] = multiplied(sum[i * vectors + vectors - 1], a + i * t->a_row, last);
}

/* The strip's tile from row `at` on, of `rows` by `vectors` (constants after inlining) from column `column` of the
 * panel on, of which elements `ahead` are fetched: a constant of a packed panel, because gcc would hold a distance in
 * memory. Returns the place to prefetch next. */
INLINE const char *tile(const panel_tile *t, int64_t at, const char *next, int64_t column, int rows, int vectors,
                        bool halves, bool widens, int64_t ahead) {
  const int rows_near = LANES < 16 || rows > ROWS ? ROWS_NEAR : rows;
  lanes sum[SUMS];
  const weight *b = (const weight *)t->panel + column;
  const float *first_a = t->a + at * t->a_row;
  const int64_t place = at * t->c_row + column;
  char *c = (char *)t->c + (lanes_at(t->c, halves, place) - (const char *)t->c);
  const char *residual = t->residual ? lanes_at(t->residual, halves, place) : NULL;
  const int64_t panel_row = t->panel_row, length = t->run_length,
                row_bytes = t->c_row * (int64_t)(halves ? sizeof(uint16_t) : sizeof(float)),
                next_rows = rows * row_bytes;
  fetches fetch = {next, c + next_rows, c + 2 * next_rows, (residual ? residual : c) + next_rows, row_bytes};
  float *to = widens ? t->widened + column : NULL;
  EACH(sum[i * vectors + j] = (lanes){0})
  int64_t r = 0;
  for (; r < t->n_runs && (length >= SHORT_RUN || r == 0); r++) {
    const float *a = first_a + t->runs[r], *end = a + length;
    /* two loops, because gcc keeps sums of a loop with a branch in memory */
    for (; a < end && fetch.y < fetch.y_end; a++, b += panel_row, to = widens ? to + panel_row : NULL) {
      fetch_row(vectors, halves, &fetch);
      multiply_element(t, a, b, ahead, true, rows, rows_near, vectors, &fetch, to, sum);
    }
    for (; a < end; a++, b += panel_row, to = widens ? to + panel_row : NULL)
      multiply_element(t, a, b, ahead, true, rows, rows_near, vectors, &fetch, to, sum);
  }
  for (; r < t->n_runs; r++) {
    const float *a = first_a + t->runs[r], *end = a + length;
    for (; a < end; a++, b += panel_row, to = widens ? to + panel_row : NULL)
      multiply_element(t, a, b, ahead, false, rows, rows_near, vectors, &fetch, to, sum);
  }
  if (t->scale != 1) EACH(sum[i * vectors + j] *= t->scale)
  if (column + vectors * LANES > t->columns) {
    lanes sums[SUMS]; /* in memory, while `sum` is in registers */
    EACH(sums[i * vectors + j] = sum[i * vectors + j])
    finish_some(t, at, column, rows, vectors, sums);
    return fetch.next;
  }
  /* biases, residual or earlier sums are added last: they may be far larger than the products, which would then be
   * rounded to their precision */
  const float *before = !t->first ? (const float *)c : t->bias ? t->bias + column : NULL;
  const int64_t before_row = t->first ? 0 : t->c_row;
  if (before) EACH(sum[i * vectors + j] += load(before + i * before_row + j * LANES))
  if (t->row_bias) EACH(sum[i * vectors + j] += t->row_bias[at + i])
  if (residual) EACH(sum[i * vectors + j] += load_either(residual, halves, i * t->c_row + j * LANES))
  if (t->relu) EACH(sum[i * vectors + j] = LANES_MAX((lanes){0}, sum[i * vectors + j])) /* NaN stays */
  EACH(store_either(c, halves, i * t->c_row + j * LANES, sum[i * vectors + j]))
  return fetch.next;
}

/* All tiles of the strip. */
INLINE void tiles(const panel_tile *t, int64_t column, int rows, int vectors) {
  const char *next = t->next;
  const int64_t end = t->count * rows;
#ifdef PANEL_PAIRS
  for (int64_t at = 0; t->halves && at < end; at += rows)
    next = tile(t, at, next, column, rows, vectors, true, false, PANEL_AHEAD);
  if (t->halves) return;
#elif defined(PANEL_F16)
  if (t->widened) (void)tile(t, 0, next, column, rows, vectors, false, true, PANEL_AHEAD);
  if (t->widened) return;
#endif
  if (FETCHES_PANEL(rows) && t->panel_row > PANEL_WIDTH) {
    const int64_t ahead = ROWS_AHEAD * t->panel_row;
    for (int64_t at = 0; at < end; at += rows) next = tile(t, at, next, column, rows, vectors, false, false, ahead);
    return;
  }
  for (int64_t at = 0; at < end; at += rows) next = tile(t, at, next, column, rows, vectors, false, false, PANEL_AHEAD);
}

/* All tiles of the strip, of shallow tiles that begin sums of whole vectors: nothing is fetched or decided within a
 * tile. */
INLINE void shallow_tiles(const panel_tile *t, int64_t column, int rows, int vectors, bool halves) {
  const panel_tile own = {.a_row = t->a_row}; /* which no store changes */
  const int64_t c_bytes = t->c_row * (int64_t)(halves ? sizeof(uint16_t) : sizeof(float)), panel_row = t->panel_row,
                length = t->run_length;
  const int64_t *const runs = t->runs, *const runs_end = runs + t->n_runs;
  const lanes least = all(t->relu ? 0 : -INFINITY);
  const weight *const panel = (const weight *)t->panel + column;
  const float *const bias = t->bias + column, *a_at = t->a;
  const char *residual = t->residual ? lanes_at(t->residual, halves, column) : NULL;
  char *c = (char *)t->c + (lanes_at(t->c, halves, column) - (const char *)t->c);
  const char *next = t->next;
  const int64_t next_bytes = column == 0 ? t->next_bytes : 0;
  for (int64_t k = 0; k < t->count; k++) {
    lanes sum[SUMS];
    fetches unused = {0};
    for (int64_t i = 0; i < next_bytes; i += (int64_t)(CACHE_LINE * sizeof(float))) __builtin_prefetch(next + i, 0, 2);
    next += next_bytes;
    if (t->far_y) fetch_tile(rows, vectors, halves, c + rows * c_bytes, c_bytes);
    EACH(sum[i * vectors + j] = (lanes){0})
    const weight *b = panel;
    for (const int64_t *run = runs; run < runs_end; run++) {
      const float *a = a_at + *run, *end = a + length;
      for (; a < end; a++, b += panel_row)
        multiply_element(&own, a, b, 0, false, rows, ROWS_NEAR_SHALLOW, vectors, &unused, NULL, sum);
    }
    EACH(sum[i * vectors + j] += load(bias + j * LANES))
    if (residual) {
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++, residual += c_bytes) {
        __asm__("" : "+r"(residual)); /* keeps gcc from holding a distance for each row */
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) sum[i * vectors + j] += load_either(residual, halves, j * LANES);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += c_bytes) {
      __asm__("" : "+r"(c)); /* likewise */
#pragma GCC unroll 8
      for (int j = 0; j < vectors; j++) store_either(c, halves, j * LANES, LANES_MAX(least, sum[i * vectors + j]));
    }
    a_at += rows * own.a_row;
  }
}

/* CASE for the rows of tiles that are neither tall nor, with seven rows, the largest. */
#if ROWS > 4
#define CASES_OF_ROWS CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#else
#define CASES_OF_ROWS CASE(1) CASE(2) CASE(3) CASE(4)
#endif

#define CASE(n) \
  case n: shallow_tiles(t, column, n, vectors, halves); break;
INLINE void shallow_rows(const panel_tile *t, int64_t column, int vectors, bool halves) {
  switch (t->rows) { CASES_OF_ROWS }
#if ROWS_NARROW > ROWS
  if (vectors > 1) return;
  switch (t->rows) {
    CASE(7);
    CASE(8);
    CASE(9);
    CASE(10);
    CASE(11);
    CASE(12);
  }
#endif
}
#undef CASE

INLINE void shallow_columns(const panel_tile *t, bool halves) {
  int64_t column = 0, vectors = t->width / LANES;
  for (; vectors >= 2 && (vectors != 3 || VECTORS < 3); column += 2 * LANES, vectors -= 2)
    shallow_rows(t, column, 2, halves);
#if VECTORS >= 3
  if (vectors == 3) return shallow_rows(t, column, 3, halves);
#endif
  if (vectors == 1) shallow_rows(t, column, 1, halves);
}

CPU_UNCHECKED static __attribute__((noinline)) void multiply_shallow(const panel_tile *t) {
#ifdef PANEL_PAIRS
  if (t->halves) return shallow_columns(t, true);
#endif
  shallow_columns(t, false);
}

#define CASE(n) \
  case n: tiles(t, column, n, vectors); break;
INLINE void tile_rows(const panel_tile *t, int64_t column, int vectors) {
  switch (t->rows) {
    CASES_OF_ROWS
#if ROWS > 6
    CASE(7);
#endif
  }
}

#if ROWS_NARROW > ROWS
/* Tall tiles: so many vectors are the whole width. */
INLINE void tall_rows(const panel_tile *t, int vectors) {
  const int64_t column = 0;
  switch (t->rows) {
    CASE(8);
    CASE(9);
    CASE(10);
    CASE(11);
    CASE(12);
    CASE(13);
    CASE(14);
  }
}

/* A function of its own, so that other tiles do not save its registers. */
CPU_UNCHECKED static __attribute__((noinline)) void tall_tiles(const panel_tile *t) {
  if (t->width > LANES) tall_rows(t, VECTORS_NARROW);
  else tall_rows(t, 1);
}
#endif

#ifdef PANEL_PAIRS
#define MULTIPLY panel_pairs_multiply
/* n values of f32, an even number, to bf16: pairs. VCVTNE2PS2BF16 rounds to nearest even; denormals become 0. */
CPU_UNCHECKED void panel_pairs_convert(const float *from, int64_t n, float *to) {
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES, to += LANES)
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(load(from + i + LANES), load(from + i)));
  if (i == n) return;
  lanes low = load_some(from + i, lanes_between(0, n - i)),
        high = load_some(from + i + LANES, lanes_between(0, n - i - LANES));
  store_first(to, (lanes)_mm512_cvtne2ps_pbh(high, low), (n - i) / 2);
}
CPU_UNCHECKED void panel_pairs_convert_pixels(const float *from, int64_t from_pixel, int64_t pixels, int64_t n,
                                              float *to) {
  int64_t i = 0;
  for (; n == LANES && i + 2 <= pixels; i += 2, from += 2 * from_pixel, to += LANES)
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(load(from + from_pixel), load(from)));
  for (; i < pixels; i++, from += from_pixel, to += n / 2) panel_pairs_convert(from, n, to);
}
#elif defined(PANEL_F16)
#define MULTIPLY CPU_LEVELED(panel_f16_multiply)
#else
#define MULTIPLY CPU_LEVELED(panel_multiply)
int CPU_LEVELED(panel_rows)(int64_t columns) { return columns <= VECTORS_NARROW * LANES ? ROWS_NARROW : ROWS; }
int CPU_LEVELED(panel_rows_shallow)(int64_t columns) {
#if LANES == 16
  return columns <= LANES                              ? ROWS_SHALLOW_OF_1
         : columns > 2 * LANES && columns <= 3 * LANES ? ROWS_SHALLOW_OF_3
                                                       : ROWS_SHALLOW;
#else
  return CPU_LEVELED(panel_rows)(columns);
#endif
}
int CPU_LEVELED(panel_lanes)(void) { return LANES; }
#endif

/* Columns outside, tiles inside: the columns' weights stay in the first-level cache. */
CPU_UNCHECKED void MULTIPLY(const panel_tile *t) {
  int64_t column = 0, width = t->width;
  if (t->shallow && t->first && t->bias && !t->row_bias && t->scale == 1 && t->columns == width && !t->widened)
    return multiply_shallow(t);
#if ROWS_NARROW > ROWS
  if (t->rows > ROWS) return tall_tiles(t);
  panel_tile rest;
  if (width <= LANES && t->rows > ROWS / 2 && t->count > 1 && !t->widened) {
    /* the last vector of a wide product: the few sums of a tile wait for each other, so two tiles are one */
    panel_tile joined = *t;
    joined.rows = 2 * t->rows;
    joined.count = t->count / 2;
    tall_tiles(&joined);
    if (t->count % 2 == 0) return;
    const int64_t done = (t->count - 1) * t->rows;
    rest = *t;
    rest.a += done * t->a_row;
    rest.c = (char *)t->c + (lanes_at(t->c, t->halves, done * t->c_row) - (const char *)t->c);
    if (t->residual) rest.residual = lanes_at(t->residual, t->halves, done * t->c_row);
    if (t->row_bias) rest.row_bias += done;
    rest.count = 1;
    t = &rest;
  }
#endif
#if LANES < 16
  for (; t->rows == 1 && column + VECTORS_OF_1 * LANES <= width; column += VECTORS_OF_1 * LANES)
    tiles(t, column, 1, VECTORS_OF_1);
  for (; t->rows <= 3 && column + VECTORS_OF_3 * LANES <= width; column += VECTORS_OF_3 * LANES) switch (t->rows) {
      case 1: tiles(t, column, 1, VECTORS_OF_3); break;
      case 2: tiles(t, column, 2, VECTORS_OF_3); break;
      case 3: tiles(t, column, 3, VECTORS_OF_3); break;
    }
#endif
  for (; VECTORS_SHALLOW < VECTORS && t->shallow && column + VECTORS_SHALLOW * LANES <= width;
       column += VECTORS_SHALLOW * LANES) {
    if (column + 3 * LANES == width) break;
    tile_rows(t, column, VECTORS_SHALLOW);
  }
  for (; column + VECTORS * LANES <= width; column += VECTORS * LANES) tile_rows(t, column, VECTORS);
  /* a narrow last panel */
  if (VECTORS > 3 && column + 3 * LANES <= width) {
    tile_rows(t, column, 3);
    column += 3 * LANES;
  }
  for (; VECTORS > 2 && column + 2 * LANES <= width; column += 2 * LANES) tile_rows(t, column, 2);
  for (; column < width; column += LANES) tile_rows(t, column, 1);
}
