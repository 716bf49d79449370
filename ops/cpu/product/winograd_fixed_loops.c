/* The innermost loops of Winograd convolutions in fixed point (winograd_loops.h), for level AVX512_BF16. The transforms
 * of X and into Y are those of f32. */
#include <float.h>
#include <math.h>

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/winograd_axes.h"
#include "ops/cpu/product/winograd_loops.h"

#define ROWS 14
#define ROWS_NEAR 5 /* read at distances from one address, which have registers */
#define VECTORS 2
#define UNITS_AHEAD 4        /* of the weights, whose taps lie far apart */
#define AHEAD 32             /* units of a position's stream */
#define NORM_LEAST 1e-30     /* others count as 0 */
#define SQUARES_LEAST 1e-30f /* that are added in f32 */
#define SQUARES_MOST 1e30f

typedef lanes pair_half[2][SIDE][SIDE]; /* of both channels of a unit */

/* ---- weights ---- */

static CPU_UNCHECKED void weights_rows(const winograd_weights *t, const float *w, pair_half half) {
  WITH_PIECE(
      t->rows, for (int column = 0; column < 3; column++) {
        lanes taps[2][3] = {{{0}}};
        for (int i = 0; i < t->taps[0] && column < t->taps[1]; i++) {
          const float *tap = w + i * t->w_row + column * t->w_column;
          __builtin_prefetch(tap + UNITS_AHEAD * t->w_channel, 0, 2);
          const bit_lanes pair = (bit_lanes)load(tap);
          taps[0][i] = (lanes)(pair << 16);
          taps[1][i] = (lanes)(pair & 0xffff0000u);
        }
        FOR(k, 2) {
          lanes u[SIDE];
          weights_axis(piece, t->taps[0], taps[k], u);
          FOR(i, piece + 2) half[k][i][column] = u[i];
        }
      })
}

/* Positions of an axis that have weights. */
static int positions_of(int32_t size, int32_t taps) { return size + 1 + (taps > 1); }

/* The norms of a row of positions of a unit; `piece` is a constant after inlining. */
INLINE void add_row(int piece, const winograd_weights *t, pair_half half, int row, winograd_norms *norms) {
  lanes u[2][SIDE];
  FOR(k, 2) weights_axis(piece, t->taps[1], half[k][row], u[k]);
  FOR(i, piece + 2) {
    if (i > piece && t->taps[1] == 1) break;
    float *squares = norms->squares[row * (piece + 2) + i], *largest = norms->largest[row * (piece + 2) + i];
    store(squares, load(squares) + u[0][i] * u[0][i] + u[1][i] * u[1][i]);
    const lanes most = _mm512_max_ps(_mm512_abs_ps(u[0][i]), _mm512_abs_ps(u[1][i]));
    store(largest, _mm512_max_ps(load(largest), most));
  }
}

CPU_UNCHECKED void winograd_fixed_add_norms(const winograd_weights *t, winograd_norms *norms) {
  const int rows = positions_of(t->rows, t->taps[0]);
  pair_half half;
  for (int64_t channel = 0; channel < t->channels; channel++) {
    weights_rows(t, t->w + channel * t->w_channel, half);
    WITH_PIECE(t->columns, for (int row = 0; row < rows; row++) add_row(piece, t, half, row, norms))
  }
}

CPU_UNCHECKED void winograd_fixed_scales(winograd_norms *norms, int64_t positions, float *scales, int64_t u_position) {
  for (int64_t i = 0; i < positions; i++, scales += u_position) {
    const lanes squares = load(norms->squares[i]), largest = load(norms->largest[i]);
    /* squares beyond f32: the largest times the root of WINOGRAD_FIXED_DEPTH, which is no less than the norm */
    const __mmask16 far = (__mmask16)(_mm512_cmp_ps_mask(squares, all(SQUARES_LEAST), _CMP_LT_OQ) |
                                      _mm512_cmp_ps_mask(squares, all(SQUARES_MOST), _CMP_GT_OQ));
    const lanes norm = _mm512_mask_mul_ps(_mm512_sqrt_ps(squares), far, largest, all(WINOGRAD_FIXED_DEPTH_ROOT));
    /* a number of U is at most 32767 as well; NaN stays, because the norm is the second operand */
    const lanes scale = _mm512_max_ps(largest / 32767.0f, norm / (float)WINOGRAD_NORM_U);
    const __mmask16 any = _mm512_cmp_ps_mask(scale, (lanes){0}, _CMP_GT_OQ);
    store(scales, scale);
    store(norms->squares[i], _mm512_maskz_div_ps(any, all(1), scale));
  }
}

INLINE lanes rounded(lanes low, lanes high, lanes factor) {
  const __m512i a = _mm512_cvtps_epi32(low * factor), b = _mm512_cvtps_epi32(high * factor);
  return (lanes)_mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}

/* A row of positions of a unit, times the factors; `piece` is a constant after inlining. */
INLINE void write_row(int piece, const winograd_weights *t, pair_half half, int row, const winograd_norms *norms,
                      bool past, float *to) {
  lanes u[2][SIDE];
  FOR(k, 2) weights_axis(piece, t->taps[1], half[k][row], u[k]);
  FOR(i, piece + 2) {
    if (i > piece && t->taps[1] == 1) break;
    const lanes units = rounded(u[0][i], u[1][i], load(norms->squares[row * (piece + 2) + i]));
    if (past) {
      store_past(to + i * t->u_position, units);
    } else {
      __builtin_prefetch(to + i * t->u_position + AHEAD, 1);
      store(to + i * t->u_position, units);
    }
  }
}

CPU_UNCHECKED void winograd_fixed_weights(const winograd_weights *t, const winograd_norms *norms) {
  const int rows = positions_of(t->rows, t->taps[0]);
  const bool past = lines_past(t);
  const int64_t row_positions = (t->columns + 2) * t->u_position;
  pair_half half;
  for (int64_t channel = 0; channel < t->channels; channel++) {
    weights_rows(t, t->w + channel * t->w_channel, half);
    float *to = t->u + channel * t->width;
    if (past)
      WITH_PIECE(t->columns, for (int row = 0; row < rows; row++)
                                 write_row(piece, t, half, row, norms, true, to + row * row_positions))
    else
      WITH_PIECE(t->columns, for (int row = 0; row < rows; row++)
                                 write_row(piece, t, half, row, norms, false, to + row * row_positions))
  }
  if (past) lanes_fence();
}

/* ---- X ---- */

/* The norm of n values whose sum of squares is no usual number. */
static float far_norm(const float *x, int64_t n) {
  int64_t zeros = 0; /* a blank picture has no other values */
  while (zeros < n && x[zeros] == 0) zeros++;
  double sum = 0;
  for (int64_t i = zeros; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sum < NORM_LEAST * NORM_LEAST ? 0 : (float)sqrt(sum);
}

CPU_UNCHECKED void winograd_fixed_round(const float *from, int64_t n, float *to, float *out_scale) {
  enum { PARTS = 4 };
  lanes sums[PARTS] = {{0}};
  int64_t i = 0;
  for (; i + PARTS * LANES <= n; i += PARTS * LANES) FOR(k, PARTS) {
      const lanes x = load(from + i + k * LANES);
      sums[k] += x * x;
    }
  for (; i < n; i += LANES) {
    const lanes x = load_some(from + i, lanes_between(0, n - i));
    sums[0] += x * x;
  }
  const float squares = _mm512_reduce_add_ps((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const bool usual = squares >= SQUARES_LEAST && squares <= SQUARES_MOST;
  const float norm = usual ? sqrtf(squares) : far_norm(from, n);
  const lanes factor = all(norm > 0 ? WINOGRAD_NORM_V / norm : 0);
  *out_scale = norm <= FLT_MAX ? norm / WINOGRAD_NORM_V : NAN; /* the numbers lose the sign of an infinite value */
  uint16_t *numbers = (uint16_t *)to;
  for (i = 0; i + LANES <= n; i += LANES)
    _mm256_storeu_si256((__m256i *)(void *)(numbers + i),
                        _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(load(from + i) * factor)));
  if (i == n) return;
  const lane_mask mask = lanes_between(0, n - i);
  _mm512_mask_cvtsepi32_storeu_epi16(numbers + i, mask, _mm512_cvtps_epi32(load_some(from + i, mask) * factor));
}

/* ---- products ---- */

/* VPDPWSSD: the sum and both products of each pair. gcc moves the operands of the intrinsic from register to register.
 */
INLINE __m512i multiplied(__m512i sum, __m512i values, __m512i weights) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(values), "v"(weights));
  return sum;
}

/* `rows` tiles by `vectors` vectors of outputs (constants after inlining). */
INLINE void tile(const winograd_product *p, int64_t row, int64_t column, const char *far, int64_t far_step, int rows,
                 int vectors) {
  __m512i sum[ROWS][VECTORS];
  const int64_t v_row = p->v_row, m_row = p->m_row, width = p->width;
  const float *v = p->v + row * v_row, *u = p->u + column, *v_scale = p->v_scale + row * v_row;
  float *m = p->m + row * m_row + column;
  /* the next tiles, and this product's share of the next weights */
  const char *near = (const char *)(v + rows * v_row);
  EACH(sum[i][j] = _mm512_setzero_si512())
  for (const float *end = v + p->channels; v < end; v++, u += width) {
    __builtin_prefetch(near);
    near += rows * sizeof *v;
    __builtin_prefetch(far, 0, 2);
    far += far_step;
    __m512i weights[VECTORS];
    FOR(j, vectors) weights[j] = (__m512i)load(u + j * LANES);
    const float *near_v = v;
    FOR_ROWS(i, rows) {
      if (i > 0 && i % ROWS_NEAR == 0) {
        near_v = v + i * v_row;
        __asm__("" : "+r"(near_v)); /* keeps gcc from holding a distance for each row */
      }
      int unit;
      __builtin_memcpy(&unit, near_v + i % ROWS_NEAR * v_row, sizeof unit);
      const __m512i values = _mm512_set1_epi32(unit);
      FOR(j, vectors) sum[i][j] = multiplied(sum[i][j], values, weights[j]);
    }
  }
  lanes scales[VECTORS];
  FOR(j, vectors) scales[j] = load(p->u_scale + column + j * LANES);
  EACH(store(m + i * m_row + j * LANES, (lanes)_mm512_cvtepi32_ps(sum[i][j]) * (v_scale[i * v_row] * scales[j])))
}

#define CASE(n) \
  case n: tile(p, row, column, far, far_step, n, vectors); break;
INLINE void tile_rows(const winograd_product *p, int64_t row, int64_t rows, int64_t column, const char *far,
                      int64_t far_step, int vectors) {
  switch (rows) {
    CASE(1)
    CASE(2)
    CASE(3)
    CASE(4)
    CASE(5)
    CASE(6)
    CASE(7)
    CASE(8)
    CASE(9)
    CASE(10)
    CASE(11)
    CASE(12)
    CASE(13)
    CASE(14)
  }
}

CPU_UNCHECKED void winograd_fixed_multiply(const winograd_product *p) {
  int64_t n = (p->tiles + ROWS - 1) / ROWS, far_step = (p->width * (int64_t)sizeof(float) + n - 1) / n;
  for (int64_t i = 0; i < n; i++) {
    const char *far = (const char *)p->next + i * far_step * p->channels;
    int64_t row = p->tiles * i / n, rows = p->tiles * (i + 1) / n - row;
    int64_t column = 0;
    for (; column + VECTORS * LANES <= p->width; column += VECTORS * LANES)
      tile_rows(p, row, rows, column, far, far_step, VECTORS);
    for (; column < p->width; column += LANES) tile_rows(p, row, rows, column, far, far_step, 1);
  }
}
