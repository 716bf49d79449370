/* The innermost loops of pools with channels second (pool_lines_loops.h), compiled once per CPU level: a vector has
 * neighbouring outputs of a row.
 *
 * The taps of an output are joined in an order that follows from the window and the CPU level alone, not from the row's
 * pieces. */
#include "ops/cpu/image/pool_lines_loops.h"

#include <string.h>

#include "ops/cpu/image/pool_join.h"

/* Taps, at most, that are joined output by output under large strides, and as vectors. */
#define WALKED_KERNEL 4
#define FOLDED_KERNEL 32

/* ---- strips ---- */

/* LANES outputs of a row, whose first taps are at column `column`. whole: all taps are in memory, and vectors of them
 * can be loaded; else masks has one for each tap and element of a stride. */
typedef struct strip {
  int64_t column;
  bool whole;
  int kept; /* outputs that are stored: the first ones */
  lane_mask masks[STRIPS_STRIDE * STRIPS_KERNEL];
  lanes scale;
} strip;

/* The taps of one line joined. With stride 2 in the order of evens(). */
INLINE lanes across(joining how, const pool_line *l, const strip *s, const float *x, int kernel, int stride, bool whole,
                    nan_marks *marks) {
  const lanes nothing = all(how == SUM ? 0 : -__builtin_inff());
  lanes taps[STRIPS_WIDE], result, a = nothing, b = nothing;
#pragma GCC unroll 5
  for (int t = 0; t < kernel; t++) {
    const float *at = x + t * l->dilation;
    if (stride == 2 && t == 1 && l->dilation == 1) { /* between the elements of tap 0 */
      taps[1] = odds(a, b);
      continue;
    }
    a = whole ? load(at) : load_masked(at, s->masks[stride * t], nothing);
    if (stride == 2) b = whole ? load(at + LANES) : load_masked(at + LANES, s->masks[stride * t + 1], nothing);
    taps[t] = stride == 1 ? a : evens(a, b);
  }
  result = taps[0];
#pragma GCC unroll 5
  for (int t = 1; t < kernel; t++) result = join(how, result, taps[t]);
  if (how == LARGEST) {
    *marks = marked(*marks, taps[0], taps[kernel - 1]);
    if (kernel > 2 && (stride > 1 || l->dilation > 1)) /* else those two have all elements */
#pragma GCC unroll 3
      for (int t = 1; t <= kernel - 1 - t; t++) *marks = marked(*marks, taps[t], taps[kernel - 1 - t]);
  }
  return result;
}

INLINE void put(joining how, const strip *s, int stride, lanes x, float *y) {
  if (stride == 2) x = ordered(x);
  if (how == SUM) x *= s->scale;
  if (s->kept == LANES) store(y, x);
  else store_first(y, x, s->kept);
}

/* A strip of all rows. slides: a row has lines of the row before it. Returns true if there is NaN, after which `how`
 * LARGEST has wrong results. */
INLINE bool run_strip(joining how, const pool_line *l, const strip *s, const float *x, const int64_t *offsets,
                      int64_t lines, int64_t pitch, int64_t x_step, float *y, int64_t y_step, int64_t rows, int kernel,
                      int stride, bool whole) {
  nan_marks marks = {0};
  x += s->column;
  if (pitch > 0 && lines == 3 && x_step <= 2 * pitch) {
    const bool one = x_step == pitch;
    x += offsets[0];
    lanes a = across(how, l, s, x, kernel, stride, whole, &marks), b = a;
    if (one) b = across(how, l, s, x + pitch, kernel, stride, whole, &marks);
    for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step) {
      if (!one) b = across(how, l, s, x + pitch, kernel, stride, whole, &marks);
      const lanes c = across(how, l, s, x + 2 * pitch, kernel, stride, whole, &marks);
      put(how, s, stride, join(how, join(how, a, b), c), y);
      a = one ? b : c;
      b = c;
    }
  } else if (pitch > 0 && lines == 2 && x_step == pitch) {
    x += offsets[0];
    lanes a = across(how, l, s, x, kernel, stride, whole, &marks);
    for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step) {
      const lanes b = across(how, l, s, x + pitch, kernel, stride, whole, &marks);
      put(how, s, stride, join(how, a, b), y);
      a = b;
    }
  } else if (kernel == STRIPS_WIDE && pitch > 0 && lines == STRIPS_WIDE && x_step == pitch) {
    lanes held[STRIPS_WIDE - 1];
    x += offsets[0];
#pragma GCC unroll 4
    for (int t = 0; t < STRIPS_WIDE - 1; t++) held[t] = across(how, l, s, x + t * pitch, kernel, stride, whole, &marks);
    for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step) {
      const lanes next = across(how, l, s, x + (STRIPS_WIDE - 1) * pitch, kernel, stride, whole, &marks);
      lanes result = held[0];
#pragma GCC unroll 4
      for (int t = 1; t < STRIPS_WIDE - 1; t++) result = join(how, result, held[t]), held[t - 1] = held[t];
      held[STRIPS_WIDE - 2] = next;
      put(how, s, stride, join(how, result, next), y);
    }
  } else {
    for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step) {
      lanes result = across(how, l, s, x + offsets[0], kernel, stride, whole, &marks);
      for (int64_t t = 1; t < lines; t++)
        result = join(how, result, across(how, l, s, x + offsets[t], kernel, stride, whole, &marks));
      put(how, s, stride, result, y);
    }
  }
  return how == LARGEST && any_marked(marks);
}

/* 1 over the elements that output o divides its sum by. */
INLINE float share_of(const pool_line *l, double count, int64_t o) {
  const int64_t origin = o * l->stride - l->pad, d = l->dilation;
  int64_t before = origin < l->low ? l->low - origin : 0, end = l->high > origin ? l->high - origin : 0;
  if (d > 1) before = (before + d - 1) / d, end = (end + d - 1) / d;
  if (end > l->kernel) end = l->kernel;
  return 1.0f / (float)(count * (double)(end > before ? end - before : 1));
}

INLINE void set_masks(const pool_line *l, strip *s) {
  for (int t = 0; t < l->kernel; t++)
    for (int half = 0; half < l->stride; half++) {
      const int64_t at = s->column + t * l->dilation + half * LANES;
      s->masks[l->stride * t + half] = lanes_between(l->begin - at, l->end - at);
    }
}

/* The strip of `kept` outputs from output o on. */
INLINE strip strip_at(const pool_line *l, double count, int64_t o, int kept) {
  const int64_t reach = (l->kernel - 1) * l->dilation, column = o * l->stride - l->pad;
  strip s = {.column = column, .kept = kept};
  s.whole = column >= l->begin && column + l->stride * LANES + reach <= l->end;
  if (!s.whole) set_masks(l, &s);
  if (!l->mean) return s;
  if (column >= l->low && column + (kept - 1) * l->stride + reach < l->high) {
    s.scale = all(1.0f / (float)(count * (double)l->kernel));
  } else {
    float shares[LANES] = {0};
    for (int i = 0; i < kept; i++) shares[i] = share_of(l, count, o + i);
    s.scale = load(shares);
  }
  return s;
}

INLINE void run_strips(const pool_line *l, const float *x, const int64_t *offsets, int64_t lines, int64_t pitch,
                       int64_t x_step, double count, float *y, int64_t y_step, int64_t rows, int64_t first,
                       int64_t after, bool mean, int kernel, int stride) {
  const joining how = mean ? SUM : LARGEST;
  for (int64_t i = first; i < after; i += LANES) {
    int64_t o = i;
    if (o + LANES > after && after - first >= LANES) o = after - LANES; /* outputs of the strip before it once more */
    strip s = strip_at(l, count, o, (int)(after - o < LANES ? after - o : LANES));
    float *to = y + o - first;
    const bool has_nan =
        s.whole ? run_strip(how, l, &s, x, offsets, lines, pitch, x_step, to, y_step, rows, kernel, stride, true)
                : run_strip(how, l, &s, x, offsets, lines, pitch, x_step, to, y_step, rows, kernel, stride, false);
    if (mean || !has_nan) continue;
    set_masks(l, &s);
    run_strip(LARGEST_WITH_NAN, l, &s, x, offsets, lines, pitch, x_step, to, y_step, rows, kernel, stride, false);
  }
}

#define STRIPS(kernel, stride) \
  if (l->mean) \
    run_strips(l, x, offsets, lines, pitch, x_step, count, y, y_step, rows, first, after, true, kernel, stride); \
  else run_strips(l, x, offsets, lines, pitch, x_step, count, y, y_step, rows, first, after, false, kernel, stride)

/* A function of its own, so that those of small kernels keep their registers. */
static CPU_UNCHECKED __attribute__((noinline)) void wide_strips(const pool_line *l, const float *x,
                                                                const int64_t *offsets, int64_t lines, int64_t pitch,
                                                                int64_t x_step, double count, float *y, int64_t y_step,
                                                                int64_t rows, int64_t first, int64_t after) {
  if (l->kernel == 4) STRIPS(4, 1);
  else STRIPS(5, 1);
}

CPU_UNCHECKED void CPU_LEVELED(pool_strips)(const pool_line *l, const float *x, const int64_t *offsets, int64_t lines,
                                            int64_t pitch, int64_t x_step, double count, float *y, int64_t y_step,
                                            int64_t rows, int64_t first, int64_t after) {
  if (l->kernel > STRIPS_KERNEL) {
    wide_strips(l, x, offsets, lines, pitch, x_step, count, y, y_step, rows, first, after);
  } else if (l->stride == 1) {
    if (l->kernel == 1) STRIPS(1, 1);
    else if (l->kernel == 2) STRIPS(2, 1);
    else STRIPS(3, 1);
  } else {
    if (l->kernel == 1) STRIPS(1, 2);
    else if (l->kernel == 2) STRIPS(2, 2);
    else STRIPS(3, 2);
  }
}
#undef STRIPS

/* ---- one line ---- */

INLINE float largest(float a, float b) { return a > b || a != a ? a : b; }

/* x[i] = x[i] and x[i + shift] joined, for i < n; vectors reach beyond n */
INLINE void double_up(joining how, float *x, int64_t shift, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) store(x + i, join(how, load(x + i), load(x + i + shift)));
}

/* y[o] (add: joined with y[o]) = x[o * stride + shift], o < n */
static void pick(const float *x, int64_t stride, int64_t shift, bool add, float *y, int64_t n) {
  x += shift;
  if (stride == 1 && add)
    for (int64_t o = 0; o < n; o++) y[o] += x[o];
  else if (stride == 1) memcpy(y, x, (size_t)n * sizeof *y);
  else if (add)
    for (int64_t o = 0; o < n; o++) y[o] += x[o * stride];
  else
    for (int64_t o = 0; o < n; o++) y[o] = x[o * stride];
}

/* Sums of powers of two of taps, one after the other, for each bit of the kernel. */
static void sum_line(const pool_line *l, float *x, int64_t columns, float *y, int64_t n) {
  int64_t at = 0;
  for (int64_t taps = 1; taps <= l->kernel; taps *= 2) {
    if (l->kernel & taps) {
      pick(x, l->stride, at * l->dilation, at > 0, y, n);
      at += taps;
    }
    columns -= taps * l->dilation;
    if (2 * taps <= l->kernel) double_up(SUM, x, taps * l->dilation, columns);
  }
}

/* The largest of a power of two of taps, and of two such runs, which may overlap. */
INLINE void largest_line(joining how, const pool_line *l, float *x, int64_t columns, float *y, int64_t n) {
  int64_t taps = 1;
  for (; 2 * taps <= l->kernel; taps *= 2) {
    columns -= taps * l->dilation;
    double_up(how, x, taps * l->dilation, columns);
  }
  const int64_t shift = (l->kernel - taps) * l->dilation, stride = l->stride;
  if (stride > 1) {
    for (int64_t o = 0; o < n; o++) y[o] = largest(x[o * stride], x[o * stride + shift]);
    return;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    const lanes most = join(how, load(x + i), load(x + i + shift));
    if (i + LANES <= n) store(y + i, most);
    else store_first(y + i, most, n - i);
  }
}

/* Tap after tap, for few taps far apart. */
static void walk_line(const pool_line *l, const float *x, float *y, int64_t n) {
  for (int64_t o = 0; o < n; o++, x += l->stride) {
    float result = x[0];
    for (int64_t t = 1; t < l->kernel; t++) {
      const float v = x[t * l->dilation];
      result = l->mean ? result + v : largest(result, v);
    }
    y[o] = result;
  }
}

/* Neighbours of a, then of b, joined. */
INLINE lanes paired(joining how, lanes a, lanes b) { return ordered(join(how, evens(a, b), odds(a, b))); }

/* A window's taps joined to one vector: `wholes` vectors of them, and those of the mask. */
INLINE lanes window_at(joining how, const float *x, int64_t wholes, lane_mask rest) {
  const lanes nothing = all(how == SUM ? 0 : -__builtin_inff());
  lanes result = load_masked(x + wholes * LANES, rest, nothing);
  for (int64_t i = 0; i < wholes; i++) result = join(how, result, load(x + i * LANES));
  return result;
}

/* Windows that lie apart: each is a vector, and the vectors are folded, LANES of them at a time where there are. */
INLINE void fold_line(joining how, const pool_line *l, const float *x, float *y, int64_t n) {
  const int64_t wholes = (l->kernel - 1) / LANES, stride = l->stride;
  const lane_mask rest = lanes_between(0, l->kernel - wholes * LANES);
  int64_t o = 0;
  for (; o + LANES <= n; o += LANES, x += LANES * stride) {
    lanes windows[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) windows[i] = window_at(how, x + i * stride, wholes, rest);
#pragma GCC unroll 4
    for (int left = LANES / 2; left > 0; left /= 2)
#pragma GCC unroll 8
      for (int i = 0; i < left; i++) windows[i] = paired(how, windows[2 * i], windows[2 * i + 1]);
    store(y + o, windows[0]);
  }
  for (; o < n; o++, x += stride) {
    lanes window = window_at(how, x, wholes, rest);
    for (int left = LANES; left > 1; left /= 2) window = paired(how, window, window);
    y[o] = window[0];
  }
}

static bool has_nan(const float *x, int64_t n) {
  nan_marks marks = {0};
  for (int64_t i = 0; i < n; i += 2 * LANES) marks = marked(marks, load(x + i), load(x + i + LANES));
  return any_marked(marks);
}

/* One line, without the division of means. */
static void run_line(const pool_line *l, float *x, int64_t columns, float *y, int64_t n) {
  const bool apart = l->stride > STRIPS_STRIDE, folds = apart && l->dilation == 1 && l->kernel <= FOLDED_KERNEL;
  if (apart && l->kernel <= WALKED_KERNEL) {
    walk_line(l, x, y, n);
  } else if (l->mean) {
    if (folds) fold_line(SUM, l, x, y, n);
    else sum_line(l, x, columns, y, n);
  } else if (has_nan(x, columns)) {
    largest_line(LARGEST_WITH_NAN, l, x, columns, y, n);
  } else {
    if (folds) fold_line(LARGEST, l, x, y, n);
    else largest_line(LARGEST, l, x, columns, y, n);
  }
}

CPU_UNCHECKED void CPU_LEVELED(pool_along)(const pool_line *l, float *x, int64_t x_step, double count, float *y,
                                           int64_t y_step, int64_t rows, int64_t first, int64_t after) {
  const int64_t reach = (l->kernel - 1) * l->dilation, n = after - first, columns = (n - 1) * l->stride + reach + 1,
                column = first * l->stride - l->pad;
  const lanes nothing = all(l->mean ? 0 : -__builtin_inff());
  for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 16
    for (int64_t i = 0; i < LINE_SLACK; i += LANES) store(x + r * x_step + columns + i, nothing);
  if (pool_strips_take(l->kernel, l->stride, 1)) {
    pool_line line = *l;
    line.begin = column;
    line.end = column + columns + LINE_SLACK;
    CPU_LEVELED(pool_strips)
    (&line, x - column, &(const int64_t){0}, 1, 0, x_step, count, y, y_step, rows, first, after);
    return;
  }
  const float share = 1.0f / (float)(count * (double)l->kernel);
  for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step) {
    run_line(l, x, columns, y, n);
    if (!l->mean) continue;
    int64_t o = first, end = after;
    for (; o < end && o * l->stride - l->pad < l->low; o++) y[o - first] *= share_of(l, count, o);
    for (; o < end && (end - 1) * l->stride - l->pad + reach >= l->high; end--)
      y[end - 1 - first] *= share_of(l, count, end - 1);
    for (; o < end; o++) y[o - first] *= share;
  }
}
