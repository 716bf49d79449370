/* Loops of Softmax and LogSoftmax of f32 (ops/cpu/reduce/softmax_loops.h). Compiled once per CPU level. */
#include "ops/cpu/reduce/softmax_loops.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/reduce/turned_rows.h"

/* ---- rows ---- */

#define TAKEN 16    /* elements at a time; the last ones of a row are filled up */
#define SUMMED 4096 /* elements that are added in floats */
#define SHORT 16    /* rows of fewer elements are turned into columns */
#define TURNED 64   /* such rows at a time */
#define HELD 8      /* vectors of a row that stay in registers */

static inline __attribute__((always_inline)) double sum_of(const float sums[TAKEN]) {
  double add[TAKEN];
  for (int k = 0; k < TAKEN; k++) add[k] = (double)sums[k];
  for (int half = TAKEN / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) add[k] += add[k + half];
  return add[0];
}

/* The sum of e^(x - most), put to y if there is one, of up to SUMMED elements. x and y may be the same. The last
 * elements come in a block with some that are not added again. */
static inline __attribute__((always_inline)) double exp_part(const float *x, float most, float *y, int64_t n) {
  enum { PARTS = TAKEN / LANES };
  float sums[TAKEN] = {0};
  if (n < TAKEN) {
    for (int k = 0; k < n; k++) sums[k] = exp_falling(x[k] - most);
    for (int64_t k = 0; y && k < n; k++) y[k] = sums[k];
    return sum_of(sums);
  }
  const int64_t rest = n % TAKEN;
  lanes sum[PARTS], last[PARTS];
  for (int p = 0; p < PARTS; p++) sum[p] = (lanes){0}, last[p] = load(x + n - TAKEN + p * LANES);
  for (int64_t i = 0; i + TAKEN <= n; i += TAKEN)
    for (int p = 0; p < PARTS; p++) {
      const lanes v = exp_lanes(load(x + i + p * LANES) - most);
      sum[p] += v;
      if (y) store(y + i + p * LANES, v);
    }
  float added[TAKEN];
  for (int k = 0; k < TAKEN; k++) added[k] = k >= TAKEN - rest ? 1 : 0;
  for (int p = 0; p < PARTS && rest; p++) {
    const lanes v = exp_lanes(last[p] - most);
    sum[p] += v * load(added + p * LANES);
    if (y) store(y + n - TAKEN + p * LANES, v);
  }
  for (int p = 0; p < PARTS; p++) store(sums + p * LANES, sum[p]);
  return sum_of(sums);
}

static inline __attribute__((always_inline)) double exp_all(const float *x, float most, float *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += SUMMED)
    sum += exp_part(x + i, most, y ? y + i : NULL, n - i < SUMMED ? n - i : SUMMED);
  return sum;
}

double CPU_LEVELED(softmax_sum)(bool log, const float *x, float most, float *y, int64_t n) {
  return log ? exp_all(x, most, NULL, n) : exp_all(x, most, y, n);
}

/* Up to TURNED rows of fewer than SHORT elements. Columns are filled up to whole vectors, so that a row's result does
 * not depend on the rows beside it. */
static void turned_rows(bool log, const float *x, float *y, int64_t rows, int64_t axis) {
  float in[SHORT * TURNED] = {0}, out[SHORT * TURNED], scratch[2 * TURNED];
  const int64_t columns = (rows + TAKEN - 1) / TAKEN * TAKEN;
  for (int64_t k = 0; k < axis; k++)
    for (int64_t r = 0; r < rows; r++) in[k * TURNED + r] = x[r * axis + k];
  CPU_LEVELED(softmax_columns)(log, in, out, axis, TURNED, columns, scratch);
  for (int64_t k = 0; k < axis; k++)
    for (int64_t r = 0; r < rows; r++) y[r * axis + k] = out[k * TURNED + r];
}

/* Rows of more than n - 1 and up to n vectors (n <= HELD), which stay in registers. The last one begins before the end
 * of the one before it; these elements are in the sum once. */
INLINE void held_rows(bool log, int n, const float *x, float *y, int64_t rows, int64_t axis) {
  const int64_t again = n * LANES - axis, last = axis - LANES;
  float added[LANES];
  for (int k = 0; k < LANES; k++) added[k] = k >= again ? 1 : 0;
  for (; rows > 0; rows--, x += axis, y += axis) {
    lanes v[HELD], whole = load(x + last), sum;
    for (int i = 0; i < n - 1; i++) whole = larger(whole, load(x + i * LANES));
    const lanes most = all(largest_of(whole));
    v[n - 1] = exp_lanes(load(x + last) - most);
    sum = v[n - 1] * load(added);
    for (int i = 0; i < n - 1; i++) sum += v[i] = exp_lanes(load(x + i * LANES) - most);
    const double total = sum_of_lanes(sum);
    const lanes rest = all(log ? log_f32((float)total) : (float)(1 / total));
    if (log) v[n - 1] = load(x + last) - most; /* before y, which may be x, is written */
    for (int i = 0; i < n - 1; i++) store(y + i * LANES, log ? load(x + i * LANES) - most - rest : v[i] * rest);
    store(y + last, log ? v[n - 1] - rest : v[n - 1] * rest);
  }
}

void CPU_LEVELED(softmax_rows)(bool log, const float *x, float *y, int64_t rows, int64_t axis) {
  if (axis < SHORT) {
    for (; rows > 0; rows -= TURNED, x += TURNED * axis, y += TURNED * axis)
      turned_rows(log, x, y, rows < TURNED ? rows : TURNED, axis);
    return;
  }
#define HELD_ROWS(n) (log ? held_rows(true, n, x, y, rows, axis) : held_rows(false, n, x, y, rows, axis))
  switch ((axis + LANES - 1) / LANES) {
    case 1: HELD_ROWS(1); return;
    case 2: HELD_ROWS(2); return;
    case 3: HELD_ROWS(3); return;
    case 4: HELD_ROWS(4); return;
    case 5: HELD_ROWS(5); return;
    case 6: HELD_ROWS(6); return;
    case 7: HELD_ROWS(7); return;
    case 8: HELD_ROWS(8); return;
    default: break;
  }
#undef HELD_ROWS
  for (; rows > 0; rows--, x += axis, y += axis) {
    const float most = CPU_LEVELED(max_f32)(x, axis);
    const double sum = CPU_LEVELED(softmax_sum)(log, x, most, y, axis);
    if (log) CPU_LEVELED(scale_shift)(x, most, 1, -log_f32((float)sum), y, axis);
    else CPU_LEVELED(scale_row)((float)(1 / sum), y, y, axis);
  }
}

/* ---- columns ---- */

/* Columns that are all of their rows, and few, are done several rows abreast, as one row. */
#define ABREAST 64 /* elements */

/* Rows of n columns that are done as one. Fewer than two such rows are not worth it. */
static inline int64_t rows_abreast(int64_t axis, int64_t inner, int64_t n) {
  const int64_t rows = n == inner && n > 0 && n <= ABREAST / 2 ? ABREAST / n : 1;
  return axis >= 2 * rows ? rows : 1;
}

/* `from` for each of the rows abreast. */
static inline void repeat_abreast(const float *from, int64_t n, int64_t rows, float *to) {
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * n, from, (size_t)n * sizeof *to);
}

void CPU_LEVELED(softmax_columns_most)(const float *x, int64_t axis, int64_t inner, int64_t n, float *most) {
  const int64_t abreast = rows_abreast(axis, inner, n), first = axis / abreast * abreast, wide = abreast * n;
  memcpy(most, x, (size_t)n * sizeof *most);
  if (abreast > 1) {
    float joined[ABREAST];
    memcpy(joined, x, (size_t)wide * sizeof *joined);
    for (int64_t k = abreast; k < first; k += abreast) CPU_LEVELED(max_rows)(x + k * inner, joined, wide);
    for (int64_t r = 0; r < abreast; r++) CPU_LEVELED(max_rows)(joined + r * n, most, n);
  }
  for (int64_t k = abreast > 1 ? first : 1; k < axis; k++) CPU_LEVELED(max_rows)(x + k * inner, most, n);
}

/* sum[i] += e^(x[i] - most[i]), put to y with log false. */
static inline void add_exp(bool log, const float *x, const float *most, float *y, float *restrict sum, int64_t n) {
  if (log)
    for (int64_t i = 0; i < n; i++) sum[i] += exp_falling(x[i] - most[i]);
  else
    for (int64_t i = 0; i < n; i++) sum[i] += y[i] = exp_falling(x[i] - most[i]);
}

void CPU_LEVELED(softmax_columns_sum)(bool log, const float *x, const float *most, float *y, int64_t axis,
                                      int64_t inner, int64_t n, float *sum) {
  const int64_t abreast = rows_abreast(axis, inner, n), first = axis / abreast * abreast, wide = abreast * n;
  memset(sum, 0, (size_t)n * sizeof *sum);
  if (abreast > 1) {
    float mosts[ABREAST], sums[ABREAST] = {0};
    repeat_abreast(most, n, abreast, mosts);
    for (int64_t k = 0; k < first; k += abreast)
      add_exp(log, x + k * inner, mosts, log ? NULL : y + k * inner, sums, wide);
    for (int64_t r = 0; r < abreast; r++) CPU_LEVELED(add_rows)(sums + r * n, sum, n);
  }
  for (int64_t k = abreast > 1 ? first : 0; k < axis; k++)
    add_exp(log, x + k * inner, most, log ? NULL : y + k * inner, sum, n);
}

static inline void end_row(const float *most, const float *x, const float *rest, float *y, int64_t n) {
  if (most)
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - most[i] - rest[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] *= rest[i];
}

void CPU_LEVELED(softmax_columns_end)(const float *most, const float *x, const float *rest, float *y, int64_t axis,
                                      int64_t inner, int64_t n) {
  const int64_t abreast = rows_abreast(axis, inner, n), first = axis / abreast * abreast;
  float mosts[ABREAST], rests[ABREAST];
  if (abreast > 1) repeat_abreast(rest, n, abreast, rests);
  if (abreast > 1 && most) repeat_abreast(most, n, abreast, mosts);
  for (int64_t k = 0; k < first && abreast > 1; k += abreast)
    end_row(most ? mosts : NULL, x + k * inner, rests, y + k * inner, abreast * n);
  for (int64_t k = abreast > 1 ? first : 0; k < axis; k++) end_row(most, x + k * inner, rest, y + k * inner, n);
}

void CPU_LEVELED(softmax_columns)(bool log, const float *x, float *y, int64_t axis, int64_t inner, int64_t n,
                                  float *scratch) {
  float *most = scratch, *sum = scratch + n;
  CPU_LEVELED(softmax_columns_most)(x, axis, inner, n, most);
  CPU_LEVELED(softmax_columns_sum)(log, x, most, y, axis, inner, n, sum);
  for (int64_t i = 0; i < n; i++) sum[i] = log ? log_f32(sum[i]) : 1.0f / sum[i];
  CPU_LEVELED(softmax_columns_end)(log ? most : NULL, x, sum, y, axis, inner, n);
}
