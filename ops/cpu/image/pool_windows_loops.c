/* The innermost loops of pools over windows of a few rows and columns (pool_windows_loops.h), compiled once per CPU
 * level. For a vector of neighbouring outputs, the taps of each row of the input are joined once, to a vector that is
 * held; an output joins the held vectors of its rows.
 *
 * Taps are joined from left to right, then from top to bottom, wherever rows and columns are cut. */
#include "ops/cpu/image/pool_windows_loops.h"

#include <string.h>

#include "ops/cpu/image/pool_join.h"

#define ROWS_HELD 64 /* of the input, at a time */
#define TOGETHER 4   /* rows, whose sums do not wait for each other */
/* Vectors of columns under a vector of outputs. */
#define VECTORS(stride) ((stride) + (WINDOWS_KERNEL - 1 + LANES - 1) / LANES)
#define VECTORS_MOST VECTORS(STRIPS_STRIDE)

/* LANES outputs of a row, whose first taps are at column `column`. whole: all columns that are loaded are the input's;
 * else `masks` has those that are, a vector of columns each. */
typedef struct strip {
  int64_t column;
  bool whole;
  int kept; /* outputs that are stored: the first ones */
  lane_mask masks[VECTORS_MOST];
  lanes counts, scale; /* of a mean: elements along the row that are counted; 1 over those of n_rows such rows */
  int64_t n_rows;
} strip;

/* Elements that output o counts along an axis, at least 1. */
INLINE int64_t counted(const pool_line *l, int64_t o) {
  const int64_t origin = o * l->stride - l->pad, begin = origin > l->low ? origin : l->low,
                end = origin + l->kernel < l->high ? origin + l->kernel : l->high;
  return end > begin ? end - begin : 1;
}

/* The strip of `kept` outputs from output o on; mean (a constant): it has counts. */
INLINE strip strip_at(const pool_line *l, int64_t o, int kept, bool mean) {
  const int64_t column = o * l->stride - l->pad;
  strip s = {.column = column, .kept = kept};
  s.whole = column >= l->begin && column + l->stride * LANES + l->kernel - 1 <= l->end;
  for (int v = 0; v < VECTORS(l->stride) && !s.whole; v++)
    s.masks[v] = lanes_between(l->begin - column - v * LANES, l->end - column - v * LANES);
  if (!mean) return s;
  float counts[LANES];
  const bool counts_all = column >= l->low && column + l->stride * (LANES - 1) + l->kernel <= l->high;
  for (int i = 0; i < LANES; i++) counts[i] = (float)(counts_all ? l->kernel : counted(l, o + i));
  s.counts = load(counts);
  return s;
}

/* The taps of `n` rows (a constant), joined: with stride 2 in the order of evens(). */
INLINE void across(joining how, const float *x, int64_t x_row, int64_t kernel, int stride, int n, float *to,
                   nan_marks *marks) {
  lanes result[TOGETHER];
  nan_marks met = *marks;
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    const lanes a = load(x + i * x_row);
    result[i] = a;
    if (stride == 2) {
      const lanes b = load(x + i * x_row + LANES);
      result[i] = evens(a, b);
      if (kernel > 1) result[i] = join(how, result[i], odds(a, b));
      if (how == LARGEST) met = marked(met, a, b);
    } else if (how == LARGEST) {
      met = marked(met, a, load(x + i * x_row + kernel - 1));
    }
  }
  for (int64_t t = stride; t < kernel; t += stride)
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      const lanes a = load(x + i * x_row + t);
      if (stride == 1) {
        result[i] = join(how, result[i], a);
        if (LANES < WINDOWS_KERNEL && how == LARGEST) met = marked(met, a, a);
        continue;
      }
      const lanes b = load(x + i * x_row + t + LANES);
      result[i] = join(how, result[i], evens(a, b));
      if (t + 1 < kernel) result[i] = join(how, result[i], odds(a, b));
      if (how == LARGEST) met = marked(met, a, b);
    }
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) store(to + i * LANES, result[i]);
  *marks = met;
}

/* Joins the taps of n rows, each to the next vector of `to`. */
INLINE void hold_rows(joining how, const pool_line *columns, const strip *s, const float *x, int64_t x_row, int64_t n,
                      int stride, float *to, nan_marks *marks) {
  _Alignas(64) float copy[ROWS_HELD * VECTORS_MOST * LANES];
  const float *from = x + s->column;
  int64_t row = x_row, r = 0;
  if (!s->whole) {
    const lanes nothing = joined_nothing(how);
    row = VECTORS(stride) * LANES;
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 6
      for (int v = 0; v < VECTORS(stride); v++)
        store(copy + i * row + v * LANES, load_masked(from + i * x_row + v * LANES, s->masks[v], nothing));
    from = copy;
  }
  for (; r + TOGETHER <= n; r += TOGETHER, from += TOGETHER * row)
    across(how, from, row, columns->kernel, stride, TOGETHER, to + r * LANES, marks);
  for (; r < n; r++, from += row) across(how, from, row, columns->kernel, stride, 1, to + r * LANES, marks);
}

/* The held vectors of the windows of `n` outputs below each other (a constant), joined. */
INLINE void down(joining how, const float *held, int64_t kernel, int64_t stride, int n, lanes *result) {
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) result[i] = load(held + i * stride * LANES);
  for (int64_t t = 1; t < kernel; t++)
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) result[i] = join(how, result[i], load(held + (i * stride + t) * LANES));
}

INLINE void set_scale(strip *s, int64_t n_rows) {
  if (n_rows != s->n_rows) s->scale = 1 / (s->counts * (float)n_rows), s->n_rows = n_rows;
}

/* Outputs of `n` rows (a constant) from row o on. */
INLINE void give_rows(joining how, const pool_line *rows, strip *s, const float *held, int64_t o, int stride, float *y,
                      int64_t y_row, int n) {
  lanes result[TOGETHER];
  down(how, held, rows->kernel, rows->stride, n, result);
  const int64_t origin = o * rows->stride - rows->pad;
  const bool counts_all = origin >= rows->low && origin + (n - 1) * rows->stride + rows->kernel <= rows->high;
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    if (stride == 2) result[i] = ordered(result[i]);
    if (how == SUM) {
      if (i == 0 || !counts_all) set_scale(s, counts_all ? rows->kernel : counted(rows, o + i));
      result[i] *= s->scale;
    }
    if (s->kept == LANES) store(y + i * y_row, result[i]);
    else store_first(y + i * y_row, result[i], s->kept);
  }
}

/* A strip of all rows. Returns true if there is NaN, after which `how` LARGEST has wrong results. */
INLINE bool run_strip(joining how, const pool_line *rows, const pool_line *columns, strip *s, const float *x,
                      int64_t x_row, float *y, int64_t y_row, int64_t begin, int64_t end, int stride) {
  _Alignas(64) float held[ROWS_HELD * LANES];
  const int64_t kernel = rows->kernel, down_by = rows->stride, most = (ROWS_HELD - kernel) / down_by + 1;
  const lanes nothing = joined_nothing(how);
  nan_marks marks = {0};
  int64_t ready = 0; /* rows that are held already */
  for (int64_t o = begin, n; o < end; o += n) {
    n = end - o < most ? end - o : most;
    const int64_t top = o * down_by - rows->pad, needed = (n - 1) * down_by + kernel;
    int64_t low = rows->begin - top, high = rows->end - top; /* low..high-1 of the needed rows are the input's */
    low = low < ready ? ready : low > needed ? needed : low;
    high = high < low ? low : high > needed ? needed : high;
    for (int64_t i = ready; i < low; i++) store(held + i * LANES, nothing);
    hold_rows(how, columns, s, x + (top + low) * x_row, x_row, high - low, stride, held + low * LANES, &marks);
    for (int64_t i = high; i < needed; i++) store(held + i * LANES, nothing);
    int64_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER, y += TOGETHER * y_row)
      give_rows(how, rows, s, held + i * down_by * LANES, o + i, stride, y, y_row, TOGETHER);
    for (; i < n; i++, y += y_row) give_rows(how, rows, s, held + i * down_by * LANES, o + i, stride, y, y_row, 1);
    ready = kernel - down_by;
    memmove(held, held + n * down_by * LANES, (size_t)(ready * LANES) * sizeof *held);
  }
  return how == LARGEST && any_marked(marks);
}

INLINE void run_strips(const pool_line *rows, const pool_line *columns, const float *x, int64_t x_row, float *y,
                       int64_t y_row, int64_t begin, int64_t end, int64_t first, int64_t after, bool mean, int stride) {
  for (int64_t i = first; i < after; i += LANES) {
    int64_t o = i;
    if (o + LANES > after && after - first >= LANES) o = after - LANES; /* outputs of the strip before it once more */
    strip s = strip_at(columns, o, (int)(after - o < LANES ? after - o : LANES), mean);
    float *to = y + o - first;
    if (run_strip(mean ? SUM : LARGEST, rows, columns, &s, x, x_row, to, y_row, begin, end, stride))
      (void)run_strip(LARGEST_WITH_NAN, rows, columns, &s, x, x_row, to, y_row, begin, end, stride);
  }
}

CPU_UNCHECKED void CPU_LEVELED(pool_windows)(const pool_line *rows, const pool_line *columns, const float *x,
                                             int64_t x_row, float *y, int64_t y_row, int64_t begin, int64_t end,
                                             int64_t first, int64_t after) {
  if (columns->mean && columns->stride == 1)
    run_strips(rows, columns, x, x_row, y, y_row, begin, end, first, after, true, 1);
  else if (columns->mean) run_strips(rows, columns, x, x_row, y, y_row, begin, end, first, after, true, 2);
  else if (columns->stride == 1) run_strips(rows, columns, x, x_row, y, y_row, begin, end, first, after, false, 1);
  else run_strips(rows, columns, x, x_row, y, y_row, begin, end, first, after, false, 2);
}
