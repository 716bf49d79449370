/* The transforms of one axis of Winograd convolutions, on a vector of channels or outputs, for the loop files.
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
#ifndef OPS_CPU_PRODUCT_WINOGRAD_AXES_H_
#define OPS_CPU_PRODUCT_WINOGRAD_AXES_H_

#include "ops/cpu/common/lanes.h"
#include "ops/cpu/product/winograd_loops.h"

#define SIDE WINOGRAD_SIDE
#define A 2.0
#define B 0.5
#define AA (A * A)
#define BB (B * B)

/* `piece` and `taps` are constants after inlining. */

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

#define FOR(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* A statement for each of `rows` rows and `vectors` vectors of a tile of products. */
#define FOR_ROWS(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#define EACH(statement) \
  FOR_ROWS(i, rows) FOR(j, vectors) { statement; }

/* True if the vectors of U are lines of the cache that can be written past it. */
INLINE bool lines_past(const winograd_weights *t) {
  const uintptr_t line = LANES * sizeof(float);
  return t->past && LANES_FILL_A_LINE && (uintptr_t)t->u % line == 0 && t->u_position % LANES == 0 &&
         t->width % LANES == 0;
}

#endif
