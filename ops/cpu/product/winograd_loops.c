/* The innermost loops of Winograd convolutions, compiled once per CPU level. A transform of two axes runs the transform
 * of one axis over all rows, then over all columns, on a vector of channels or outputs at a time.
 *
 * The matrices follow from Cook-Toom interpolation (Lavin and Gray 2015, arXiv 1509.09308) at points p_j and infinity:
 * row j of the input's transform has the coefficients of prod_{k != j}(x - p_k), the weights' row is (1, p_j, p_j^2) /
 * prod_{k != j}(p_j - p_k), and column j of the output's is (1, p_j, p_j^2, ...). With two taps the same points give a
 * pixel more: the input's transform stays, the third tap is 0, and infinity belongs to the second tap and the last
 * pixel. The finite points of 2, 4 and 6 pixels (with two taps: 3 and 5; the error of 7 would be three times that of
 * 6):
 *
 *   2   0, 1, -1
 *   4   0, 1, -1, 2, -1/2          a third of the error of 0, 1, -1, 2, -2 (Barabasz et al. 2018, arXiv 1803.10986)
 *   6   0, 1, -1, A, -A, B, -B     A and B below */
#include "ops/cpu/product/winograd_loops.h"

#include <string.h>

#include "base/half.h"
#include "ops/cpu/common/lanes.h"

/* Registers hold the sums, a row of the weights and one element of V. */
#if LANES == 16
#define ROWS 14
#define ROWS_NEAR 5 /* read at distances from one address, which have registers: others would be held in memory */
#else
#define ROWS (LANES == 8 ? 6 : 4)
#define ROWS_NEAR ROWS
#endif
#define VECTORS 2
#define WIDTH_STEP 16 /* ops/packed.h: PACKED_STEP */
#define SIDE WINOGRAD_SIDE
#define CHANNELS_AHEAD 4 /* of the weights, whose taps lie far apart */
#define AHEAD 32         /* floats: the positions' streams are too many for the CPU to foresee */

#define A 2.0
#define B 0.5
#define AA (A * A)
#define BB (B * B)

/* ---- transforms of one axis; `piece` is a constant after inlining ---- */

/* e[4], e[2], e[0] and o[5], o[3], o[1]: products of (x^2 - ...) that leave out one pair of points. */
INLINE lanes of_others(lanes d4, lanes d2, lanes d0, float sum, float product) { return d4 - sum * d2 + product * d0; }

INLINE void input_axis(int piece, const lanes *d, lanes *v) {
  if (piece == 2) {
    v[0] = d[2] - d[0];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  } else if (piece == 4) {
    lanes a = d[4] - d[2], b = d[3] - d[1], e = a - 1.5f * d[3], f = b - 1.5f * d[2];
    v[0] = a + (d[0] - d[2]) - 1.5f * b;
    v[1] = e + f;
    v[2] = e - f;
    v[3] = a + 0.5f * b;
    v[4] = a - 2.0f * b;
    v[5] = (d[5] - d[3]) - b - 1.5f * a;
  } else {
    lanes e1 = of_others(d[6], d[4], d[2], (float)(AA + BB), (float)(AA * BB)),
          o1 = of_others(d[5], d[3], d[1], (float)(AA + BB), (float)(AA * BB)),
          ea = of_others(d[6], d[4], d[2], (float)(1 + BB), (float)BB),
          oa = of_others(d[5], d[3], d[1], (float)(1 + BB), (float)BB),
          eb = of_others(d[6], d[4], d[2], (float)(1 + AA), (float)AA),
          ob = of_others(d[5], d[3], d[1], (float)(1 + AA), (float)AA);
    const float s1 = (float)(1 + AA + BB), s2 = (float)(AA + BB + AA * BB), s3 = (float)(AA * BB);
    v[0] = d[6] - s1 * d[4] + s2 * d[2] - s3 * d[0];
    v[1] = e1 + o1;
    v[2] = e1 - o1;
    v[3] = ea + (float)A * oa;
    v[4] = ea - (float)A * oa;
    v[5] = eb + (float)B * ob;
    v[6] = eb - (float)B * ob;
    v[7] = d[7] - s1 * d[5] + s2 * d[3] - s3 * d[1];
  }
}

/* Taps beyond `taps` are 0. */
INLINE void weights_axis(int piece, int taps, const lanes *w, lanes *u) {
  lanes even = w[0] + w[2];
  if (piece == 2) {
    u[0] = -w[0];
    u[1] = 0.5f * (even + w[1]);
    u[2] = 0.5f * (even - w[1]);
    u[3] = w[2];
  } else if (piece == 4) {
    u[0] = w[0];
    u[1] = (float)(-1.0 / 3) * (even + w[1]);
    u[2] = (float)(1.0 / 3) * (even - w[1]);
    u[3] = (float)(1.0 / 15) * (w[0] + 2.0f * w[1] + 4.0f * w[2]);
    u[4] = (float)(-16.0 / 15) * (w[0] - 0.5f * w[1] + 0.25f * w[2]);
    u[5] = w[2];
  } else {
    const float f1 = (float)(1 / (2 * (1 - AA) * (1 - BB))), fa = (float)(1 / (2 * AA * (AA - 1) * (AA - BB))),
                fb = (float)(1 / (2 * BB * (BB - 1) * (BB - AA)));
    lanes at_a = w[0] + (float)AA * w[2], at_b = w[0] + (float)BB * w[2];
    u[0] = (float)(-1 / (AA * BB)) * w[0];
    u[1] = f1 * (even + w[1]);
    u[2] = f1 * (even - w[1]);
    u[3] = fa * (at_a + (float)A * w[1]);
    u[4] = fa * (at_a - (float)A * w[1]);
    u[5] = fb * (at_b + (float)B * w[1]);
    u[6] = fb * (at_b - (float)B * w[1]);
    u[7] = w[2];
  }
  if (taps == 2) u[piece + 1] = w[1];
}

INLINE void output_axis(int piece, int taps, const lanes *m, lanes *y) {
  lanes s = m[1] + m[2], d = m[1] - m[2], last = taps == 3 ? m[piece + 1] : (lanes){0};
  if (piece == 2) {
    y[0] = m[0] + s;
    y[1] = d + last;
    if (taps == 2) y[2] = s + m[3];
  } else if (piece == 4) {
    y[0] = m[0] + s + (m[3] + m[4]);
    y[1] = d + 2.0f * m[3] - 0.5f * m[4];
    y[2] = s + 4.0f * m[3] + 0.25f * m[4];
    y[3] = d + last + 8.0f * m[3] - 0.125f * m[4];
    if (taps == 2) y[4] = s + m[5] + 16.0f * m[3] + 0.0625f * m[4];
  } else {
    lanes sa = m[3] + m[4], da = m[3] - m[4], sb = m[5] + m[6], db = m[5] - m[6];
    y[0] = m[0] + s + sa + sb;
    y[1] = d + (float)A * da + (float)B * db;
    y[2] = s + (float)AA * sa + (float)BB * sb;
    y[3] = d + (float)(A * AA) * da + (float)(B * BB) * db;
    y[4] = s + (float)(AA * AA) * sa + (float)(BB * BB) * sb;
    y[5] = d + last + (float)(A * AA * AA) * da + (float)(B * BB * BB) * db;
  }
}

/* Runs a statement with the constant `piece`. */
#define WITH_PIECE(n, statement) \
  switch (n) { \
    case 2: { \
      enum { piece = 2 }; \
      statement; \
    } break; \
    case 4: { \
      enum { piece = 4 }; \
      statement; \
    } break; \
    default: { \
      enum { piece = 6 }; \
      statement; \
    } break; \
  }

/* Likewise with the constants `taps`, 2 or 3, and `pixels` of Y. */
#define WITH_FORM(n, n_taps, statement) \
  if ((n_taps) == 3) { \
    enum { taps = 3 }; \
    WITH_PIECE(n, enum {pixels = piece}; statement) \
  } else if ((n) == 2) { \
    enum { taps = 2, piece = 2, pixels = 3 }; \
    statement; \
  } else { \
    enum { taps = 2, piece = 4, pixels = 5 }; \
    statement; \
  }

#define FOR(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* ---- X ---- */

/* The first n of a vector, the rest 0; `step`: distance of neighbours. */
static lanes gathered(const void *p, bool half, int64_t n, int64_t step) {
  float some[LANES] = {0};
  for (int64_t i = 0; i < n && i < LANES; i++)
    some[i] = half ? bf16_to_f32(((const uint16_t *)p)[i * step]) : ((const float *)p)[i * step];
  return load(some);
}

INLINE void input_row(int piece, const winograd_input *t, bool is_half, int row, int64_t channel, lanes *half) {
  lanes d[SIDE];
  const void *x = lanes_at(t->x, is_half, row * t->x_row + channel * t->x_channel);
  int64_t n = t->channels - channel;
  if (n >= LANES && t->x_channel == 1 && t->first[1] == 0 && t->end[1] == piece + 2) {
    FOR(i, piece + 2) d[i] = load_either(x, is_half, i * t->x_pixel);
    FOR(i, piece)
    __builtin_prefetch(lanes_at(x, is_half, (piece + 2 + i) * t->x_pixel), 0, 2); /* the tile to the right */
  } else {
    FOR(i, piece + 2) {
      bool inside = i >= t->first[1] && i < t->end[1];
      d[i] = !inside                           ? (lanes){0}
             : n >= LANES && t->x_channel == 1 ? load_either(x, is_half, i * t->x_pixel)
             : t->x_channel == 1 && !is_half   ? load_some((const float *)x + i * t->x_pixel, lanes_between(0, n))
                                             : gathered(lanes_at(x, is_half, i * t->x_pixel), is_half, n, t->x_channel);
    }
  }
  input_axis(piece, d, half);
}

static CPU_UNCHECKED void input_rows(const winograd_input *t, int64_t channel, lanes half[SIDE][SIDE]) {
  WITH_PIECE(
      t->columns, for (int row = 0; row < t->rows + 2; row++) {
        if (row < t->first[0] || row >= t->end[0]) FOR(i, piece + 2) half[row][i] = (lanes){0};
        else if (t->half) input_row(piece, t, true, row, channel, half[row]);
        else input_row(piece, t, false, row, channel, half[row]);
      })
}

static CPU_UNCHECKED void input_columns(const winograd_input *t, int64_t channel, lanes half[SIDE][SIDE]) {
  const int columns = t->columns + 1 + t->last[1];
  const int64_t position = t->v_position, row = (t->columns + 2) * position;
  WITH_PIECE(
      t->rows, float *to = t->v + channel; for (int column = 0; column < columns; column++, to += position) {
        lanes d[SIDE];
        lanes v[SIDE];
        FOR(i, piece + 2) d[i] = half[i][column];
        input_axis(piece, d, v);
        FOR(i, piece + 2) {
          if (i > piece && !t->last[0]) break;
          __builtin_prefetch(to + i * row + AHEAD, 1);
          store(to + i * row, v[i]);
        }
      })
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_input)(const winograd_input *t) {
  lanes half[SIDE][SIDE];
  for (int64_t channel = 0; channel < t->channels; channel += LANES) {
    input_rows(t, channel, half);
    input_columns(t, channel, half);
  }
}

/* ---- weights ---- */

static CPU_UNCHECKED void weights_rows(const winograd_weights *t, const float *w, lanes half[SIDE][SIDE]) {
  WITH_PIECE(
      t->rows, for (int column = 0; column < 3; column++) {
        lanes taps[3] = {{0}};
        lanes u[SIDE];
        for (int i = 0; i < t->taps[0] && column < t->taps[1]; i++) {
          const float *tap = w + i * t->w_row + column * t->w_column;
          __builtin_prefetch(tap + CHANNELS_AHEAD * t->w_channel, 0, 2);
          taps[i] = load(tap);
        }
        weights_axis(piece, t->taps[0], taps, u);
        FOR(i, piece + 2) half[i][column] = u[i];
      })
}

static CPU_UNCHECKED void weights_columns(const winograd_weights *t, bool past, float *u, lanes half[SIDE][SIDE]) {
  const int rows = t->rows + 1 + (t->taps[0] > 1);
  WITH_PIECE(
      t->columns, const int columns = piece + 1 + (t->taps[1] > 1); for (int row = 0; row < rows; row++) {
        lanes v[SIDE];
        weights_axis(piece, t->taps[1], half[row], v);
        float *to = u + row * (piece + 2) * t->u_position;
        if (past)
          for (int i = 0; i < columns; i++) store_past(to + i * t->u_position, v[i]);
        else
          for (int i = 0; i < columns; i++) {
            __builtin_prefetch(to + i * t->u_position + AHEAD, 1);
            store(to + i * t->u_position, v[i]);
          }
      })
}

/* True if the vectors of U are lines of the cache that can be written past it. */
static bool lines_past(const winograd_weights *t) {
  const uintptr_t line = LANES * sizeof(float);
  return t->past && LANES_FILL_A_LINE && (uintptr_t)t->u % line == 0 && t->u_position % LANES == 0 &&
         t->width % LANES == 0;
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_weights)(const winograd_weights *t) {
  lanes half[SIDE][SIDE];
  const bool past = lines_past(t);
  for (int64_t channel = 0; channel < t->channels; channel++)
    for (int64_t i = 0; i < t->width; i += LANES) {
      weights_rows(t, t->w + channel * t->w_channel + i, half);
      weights_columns(t, past, t->u + channel * t->width + i, half);
    }
  if (past) lanes_fence();
}

/* ---- products ---- */

#define FOR_ROWS(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#define EACH(statement) \
  FOR_ROWS(i, rows) FOR(j, vectors) { statement; }

/* `rows` tiles by `vectors` vectors of outputs (constants after inlining). */
INLINE void tile(const winograd_product *p, const float *v, const float *u, float *m, const char *far, int64_t far_step,
                 int rows, int vectors) {
  lanes sum[ROWS][VECTORS];
  const int64_t v_row = p->v_row, m_row = p->m_row, width = p->width;
  /* the next tiles, and this product's share of the next weights */
  const char *near = (const char *)(v + rows * v_row);
  EACH(sum[i][j] = (lanes){0})
  for (const float *end = v + p->channels; v < end; v++, u += width) {
    __builtin_prefetch(near);
    near += rows * sizeof *v;
    __builtin_prefetch(far, 0, 2);
    far += far_step;
    lanes weights[VECTORS];
    FOR(j, vectors) weights[j] = load(u + j * LANES);
    const float *near_v = v;
    FOR_ROWS(i, rows) {
      if (i > 0 && i % ROWS_NEAR == 0) {
        near_v = v + i * v_row;
        __asm__("" : "+r"(near_v)); /* keeps gcc from holding a distance for each row */
      }
      FOR(j, vectors) sum[i][j] += near_v[i % ROWS_NEAR * v_row] * weights[j];
    }
  }
  EACH(store(m + i * m_row + j * LANES, sum[i][j]))
}

#define CASE(n) \
  case n: tile(p, v, u, m, far, far_step, n, vectors); break;
INLINE void tile_rows(const winograd_product *p, const float *v, const float *u, float *m, const char *far,
                      int64_t far_step, int64_t rows, int vectors) {
  switch (rows) {
    CASE(1)
    CASE(2)
    CASE(3)
    CASE(4)
#if LANES >= 8
    CASE(5)
    CASE(6)
#endif
#if LANES == 16
    CASE(7)
    CASE(8)
    CASE(9)
    CASE(10)
    CASE(11)
    CASE(12)
    CASE(13)
    CASE(14)
#endif
  }
}

CPU_UNCHECKED void CPU_LEVELED(winograd_multiply)(const winograd_product *p) {
  int64_t n = (p->tiles + ROWS - 1) / ROWS, far_step = (p->width * (int64_t)sizeof(float) + n - 1) / n;
  for (int64_t i = 0; i < n; i++) {
    const char *far = (const char *)p->next + i * far_step * p->channels;
    int64_t row = p->tiles * i / n, rows = p->tiles * (i + 1) / n - row;
    int64_t column = 0;
    for (; column + VECTORS * LANES <= p->width; column += VECTORS * LANES)
      tile_rows(p, p->v + row * p->v_row, p->u + column, p->m + row * p->m_row + column, far, far_step, rows, VECTORS);
    for (; column < p->width; column += LANES)
      tile_rows(p, p->v + row * p->v_row, p->u + column, p->m + row * p->m_row + column, far, far_step, rows, 1);
  }
}

int CPU_LEVELED(winograd_width)(void) { return VECTORS * LANES < WIDTH_STEP ? WIDTH_STEP : VECTORS * LANES; }

/* ---- Y ---- */

static CPU_UNCHECKED void output_columns(const winograd_output *t, int64_t output, lanes half[SIDE][SIDE]) {
  const int columns = t->columns + 2;
  const int64_t position = t->m_position, row = columns * position;
  WITH_FORM(
      t->rows, t->taps[0], const float *from = t->m + output;
      for (int column = 0; column < columns; column++, from += position) {
        lanes m[SIDE];
        lanes y[SIDE];
        FOR(i, piece + 2) {
          __builtin_prefetch(from + i * row + AHEAD);
          m[i] = load(from + i * row);
        }
        output_axis(piece, taps, m, y);
        FOR(i, pixels) half[i][column] = y[i];
      })
}

/* One pixel's sums with addends and relu. `n`: outputs of the vector. */
INLINE void give(const winograd_output *t, lanes sum, int64_t i, int64_t n) {
  if (t->residual)
    sum += n >= LANES ? load_either(t->residual, t->half_residual, i)
                      : gathered(lanes_at(t->residual, t->half_residual, i), t->half_residual, n, 1);
  if (t->relu) sum = LANES_MAX((lanes){0}, sum); /* NaN stays */
  if (n >= LANES) {
    store_either(t->y, t->half_y, i, sum);
  } else if (t->half_y) {
    uint16_t some[LANES];
    store_bf16(some, sum);
    memcpy((uint16_t *)t->y + i, some, (size_t)n * sizeof *some);
  } else {
    store_first((float *)t->y + i, sum, n);
  }
}

static CPU_UNCHECKED void output_rows(const winograd_output *t, int64_t output, lanes half[SIDE][SIDE]) {
  int64_t n = t->outputs - output;
  lanes bias = !t->bias ? (lanes){0} : n >= LANES ? load(t->bias + output) : gathered(t->bias + output, false, n, 1);
  WITH_FORM(
      t->columns, t->taps[1], for (int64_t row = 0; row < t->n_rows; row++) {
        lanes y[SIDE];
        output_axis(piece, taps, half[row], y);
        int64_t at = row * t->y_row + output;
        if (t->n_columns == pixels && n >= LANES) FOR(i, pixels) {
            __builtin_prefetch(lanes_at(t->y, t->half_y, at + (pixels + i) * t->y_pixel),
                               1); /* the tile to the right */
            give(t, y[i] + bias, at + i * t->y_pixel, LANES);
          }
        else FOR(i, pixels) if (i < t->n_columns) give(t, y[i] + bias, at + i * t->y_pixel, n);
      })
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_output)(const winograd_output *t) {
  lanes half[SIDE][SIDE];
  for (int64_t output = 0; output < t->outputs; output += LANES) {
    output_columns(t, output, half);
    output_rows(t, output, half);
  }
}
