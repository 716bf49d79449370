/* The innermost loops of Winograd convolutions, compiled once per CPU level. A transform of two axes runs the transform
 * of one axis over all rows, then over all columns, on a vector of channels or outputs at a time. The
 * transforms of an axis are in winograd_axes.h. */
#include "ops/cpu/product/winograd_loops.h"

#include <string.h>

#include "base/half.h"
#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/winograd_axes.h"

/* Registers hold the sums, a row of the weights and one element of V. */
#if LANES == 16
#define ROWS 14
#define ROWS_NEAR 5 /* read at distances from one address, which have registers: others would be held in memory */
#else
#define ROWS (LANES == 8 ? 6 : 4)
#define ROWS_NEAR ROWS
#endif
#define VECTORS 2
#define WIDTH_STEP 16    /* ops/packed.h: PACKED_STEP */
#define CHANNELS_AHEAD 4 /* of the weights, whose taps lie far apart */
#define AHEAD 32         /* floats: the positions' streams are too many for the CPU to foresee */

/* As WITH_PIECE, with the constants `taps`, 2 or 3, and `pixels` of Y as well. */
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

/* The tile of a line. */
static CPU_UNCHECKED void input_line(const winograd_input *t) {
  const bool inside = t->first[0] < t->end[0];
  const int64_t position = t->v_position;
  WITH_PIECE(
      t->columns, for (int64_t channel = 0; channel < t->channels; channel += LANES) {
        lanes v[SIDE];
        float *to = t->v + channel;
        if (!inside) FOR(i, piece + 2) v[i] = (lanes){0};
        else if (t->half) input_row(piece, t, true, 0, channel, v);
        else input_row(piece, t, false, 0, channel, v);
        FOR(i, piece + 1) {
          __builtin_prefetch(to + i * position + AHEAD, 1);
          store(to + i * position, v[i]);
        }
        if (t->last[1]) store(to + (piece + 1) * position, v[piece + 1]);
      })
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_input)(const winograd_input *t) {
  _Alignas(64) lanes half[SIDE][SIDE];
  if (t->rows == WINOGRAD_ACROSS) {
    input_line(t);
    return;
  }
  for (int64_t channel = 0; channel < t->channels; channel += LANES) {
    input_rows(t, channel, half);
    input_columns(t, channel, half);
  }
}

/* ---- weights ---- */

/* Runs a statement with the constants `piece` and `taps`, 1 to 3. */
#define WITH_TAPS(n, n_taps, statement) \
  if ((n_taps) == 3) { \
    enum { taps = 3 }; \
    WITH_PIECE(n, statement) \
  } else if ((n_taps) == 2) { \
    enum { taps = 2 }; \
    WITH_PIECE(n, statement) \
  } else { \
    enum { taps = 1 }; \
    WITH_PIECE(n, statement) \
  }

/* The transforms along the rows: half[tap column][position]. */
INLINE void weights_rows(const winograd_weights *t, const float *w, lanes half[SIDE][SIDE]) {
  WITH_TAPS(
      t->rows, t->taps[0], for (int column = 0; column < t->taps[1]; column++, w += t->w_column) {
        lanes tap[3] = {{0}};
        FOR(i, taps) {
          __builtin_prefetch(w + i * t->w_row + CHANNELS_AHEAD * t->w_channel, 0, 2);
          tap[i] = load(w + i * t->w_row);
        }
        weights_axis(piece, taps, tap, half[column]);
      })
}

INLINE void weights_columns(const winograd_weights *t, bool past, float *u, lanes half[SIDE][SIDE]) {
  const int rows = t->rows + 1 + (t->taps[0] > 1);
  const int64_t position = t->u_position;
  WITH_TAPS(
      t->columns, t->taps[1], for (int row = 0; row < rows; row++, u += (piece + 2) * position) {
        lanes tap[3] = {{0}};
        lanes v[SIDE];
        FOR(i, taps) tap[i] = half[i][row];
        weights_axis(piece, taps, tap, v);
        FOR(i, piece + 1 + (taps > 1)) {
          if (past) store_past(u + i * position, v[i]);
          else store(u + i * position, v[i]);
        }
      })
}

/* The weights of the tile of a line. */
INLINE void weights_line(const winograd_weights *t, const float *w, bool past, float *u) {
  const int64_t position = t->u_position;
  WITH_TAPS(
      t->columns, t->taps[1], lanes tap[3] = {{0}}; lanes v[SIDE]; FOR(i, taps) {
        __builtin_prefetch(w + i * t->w_column + CHANNELS_AHEAD * t->w_channel, 0, 2);
        tap[i] = load(w + i * t->w_column);
      } weights_axis(piece, taps, tap, v);
      FOR(i, piece + 1 + (taps > 1)) {
        if (past) store_past(u + i * position, v[i]);
        else store(u + i * position, v[i]);
      })
}

/* Weights with 3x3 taps. The sizes are constants after inlining, so that values between the two axes are in registers,
 * as far as there are registers. In an array they take longer, and for some threads twice as long, by the place of the
 * array (docs/measurements.md). */
INLINE void weights_of_windows(int rows, int columns, const winograd_weights *t, bool past) {
  const int64_t position = t->u_position;
  for (int64_t channel = 0; channel < t->channels; channel++)
    for (int64_t i = 0; i < t->width; i += LANES) {
      const float *w = t->w + channel * t->w_channel + i;
      float *u = t->u + channel * t->width + i;
      lanes half[3][SIDE];
      FOR(column, 3) {
        lanes tap[3];
        FOR(row, 3) {
          const float *at = w + row * t->w_row + column * t->w_column;
          __builtin_prefetch(at + CHANNELS_AHEAD * t->w_channel, 0, 2);
          tap[row] = load(at);
        }
        weights_axis(rows, 3, tap, half[column]);
      }
      FOR(row, rows + 2) {
        const lanes tap[3] = {half[0][row], half[1][row], half[2][row]};
        lanes v[SIDE];
        weights_axis(columns, 3, tap, v);
        if (past) FOR(j, columns + 2) store_past(u + (row * (columns + 2) + j) * position, v[j]);
        else FOR(j, columns + 2) store(u + (row * (columns + 2) + j) * position, v[j]);
      }
    }
}

/* Weights of other windows. */
static CPU_UNCHECKED void other_weights(const winograd_weights *t, bool past) {
  _Alignas(64) lanes half[SIDE][SIDE];
  for (int64_t channel = 0; channel < t->channels; channel++)
    for (int64_t i = 0; i < t->width; i += LANES) {
      if (t->rows == WINOGRAD_ACROSS) {
        weights_line(t, t->w + channel * t->w_channel + i, past, t->u + channel * t->width + i);
        continue;
      }
      weights_rows(t, t->w + channel * t->w_channel + i, half);
      weights_columns(t, past, t->u + channel * t->width + i, half);
    }
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_weights)(const winograd_weights *t) {
  const bool past = lines_past(t);
  if (t->rows != WINOGRAD_ACROSS && t->taps[0] == 3 && t->taps[1] == 3)
    WITH_PIECE(t->rows, enum {rows = piece}; WITH_PIECE(t->columns, weights_of_windows(rows, piece, t, past)))
  else other_weights(t, past);
  if (past) lanes_fence();
}

/* ---- products ---- */

/* `rows` tiles by `vectors` vectors of outputs (constants after inlining). */
INLINE void tile(const winograd_product *p, const float *v, const float *u, float *m, const char *far, int64_t far_step,
                 int rows, int vectors) {
  lanes sum[ROWS][VECTORS];
  const int64_t v_row = p->v_row, m_row = p->m_row, width = p->width;
  /* the next tiles, and this product's share of the next weights */
  const char *near = (const char *)(v + rows * v_row);
  if (p->adds) EACH(sum[i][j] = load(m + i * m_row + j * LANES))
  else EACH(sum[i][j] = (lanes){0})
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
  const int64_t n = (p->tiles + ROWS - 1) / ROWS,
                far_step = p->next_row ? p->next_row : (p->width * (int64_t)sizeof(float) + n - 1) / n;
  for (int64_t i = 0; i < n; i++) {
    const char *far = (const char *)p->next + (p->next_row ? 0 : i * far_step * p->channels);
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

/* A row of pixels from its positions. `piece`, `taps` and `pixels` are constants after inlining. */
INLINE void output_row(int piece, int taps, int pixels, const winograd_output *t, const lanes *m, int64_t row,
                       int64_t output) {
  const int64_t n = t->outputs - output, at = row * t->y_row + output;
  const lanes bias = !t->bias     ? (lanes){0}
                     : n >= LANES ? load(t->bias + output)
                                  : gathered(t->bias + output, false, n, 1);
  lanes y[SIDE];
  output_axis(piece, taps, m, y);
  if (t->n_columns == pixels && n >= LANES) FOR(i, pixels) {
      __builtin_prefetch(lanes_at(t->y, t->half_y, at + (pixels + i) * t->y_pixel), 1); /* the tile to the right */
      give(t, y[i] + bias, at + i * t->y_pixel, LANES);
    }
  else FOR(i, pixels) if (i < t->n_columns) give(t, y[i] + bias, at + i * t->y_pixel, n);
}

static CPU_UNCHECKED void output_rows(const winograd_output *t, int64_t output, lanes half[SIDE][SIDE]) {
  WITH_FORM(t->columns, t->taps[1],
            for (int64_t row = 0; row < t->n_rows; row++) output_row(piece, taps, pixels, t, half[row], row, output);)
}

/* The tile of a line. */
static CPU_UNCHECKED void output_line(const winograd_output *t) {
  const int64_t position = t->m_position;
  if (t->n_rows == 0) return;
  WITH_FORM(
      t->columns, t->taps[1], for (int64_t output = 0; output < t->outputs; output += LANES) {
        const float *from = t->m + output;
        lanes m[SIDE];
        FOR(i, piece + 2) {
          __builtin_prefetch(from + i * position + AHEAD);
          m[i] = load(from + i * position);
        }
        output_row(piece, taps, pixels, t, m, 0, output);
      })
}

CPU_UNCHECKED void CPU_LEVELED(winograd_transform_output)(const winograd_output *t) {
  _Alignas(64) lanes half[SIDE][SIDE];
  if (t->rows == WINOGRAD_ACROSS) {
    output_line(t);
    return;
  }
  for (int64_t output = 0; output < t->outputs; output += LANES) {
    output_columns(t, output, half);
    output_rows(t, output, half);
  }
}
