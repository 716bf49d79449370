/* The sums of Strassen's products (ops/cpu/product/strassen.h), compiled once per CPU level. */
#include "ops/cpu/product/strassen_loops.h"

#include "ops/cpu/common/lanes.h"

typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES)));

#define ABREAST (PACKED_WIDTH / LANES < 8 ? PACKED_WIDTH / LANES : 8) /* vectors, which registers hold */
#define EXPONENT_BITS 23
#define EXPONENT_MOST 240 /* of a scaled value: no sum of scaled blocks, scaled back, overflows before Y does */
#define BIAS_TWICE 254    /* exponents that sum to it are those of a power of two and its inverse */

/* The larger of two vectors of magnitudes, as whole numbers: NaN and infinity are largest. */
INLINE whole_lanes larger_bits(whole_lanes a, whole_lanes b) {
#if defined(__AVX512F__)
  return (whole_lanes)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (whole_lanes)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  const whole_lanes is_larger = a > b;
  return (a & is_larger) | (b & ~is_larger);
#endif
}
INLINE whole_lanes magnitude(const float *p) { return (whole_lanes)load(p) & INT32_MAX; }

/* The factor for numbers whose largest magnitude has these bits, and its inverse. */
INLINE bool scale_of(int32_t bits, float *out_by, float *out_back) {
  const int32_t found = bits >> EXPONENT_BITS, exponent = found > 0 ? found : 1;
  *out_by = *out_back = 0;
  if (exponent > EXPONENT_MOST) return false;
  const union {
    int32_t bits;
    float value;
  } by = {(BIAS_TWICE - exponent) << EXPONENT_BITS}, back = {exponent << EXPONENT_BITS};
  *out_by = by.value;
  if (bits > 0) *out_back = back.value;
  return true;
}

bool CPU_LEVELED(strassen_add_columns)(const strassen_columns *c, strassen_scales *out_scales) {
  const float *panels[2] = {c->left, c->right};
  bool fits = true;
  for (int side = 0; side < 2; side++)
    for (int first = 0; first < PACKED_WIDTH; first += ABREAST * LANES) {
      whole_lanes most[ABREAST] = {{0}};
      for (int64_t k = 0; k < 2 * c->half; k++)
#pragma GCC unroll 8
        for (int j = 0; j < ABREAST; j++)
          most[j] = larger_bits(most[j], magnitude(panels[side] + k * PACKED_WIDTH + first + j * LANES));
      for (int i = 0; i < ABREAST * LANES; i++)
        fits &=
            scale_of(most[i / LANES][i % LANES], &out_scales->by[side][first + i], &out_scales->back[side][first + i]);
    }
  if (!fits) return false;
  const int64_t block = c->half * PACKED_WIDTH;
  for (int64_t at = 0; at < block; at += PACKED_WIDTH)
    for (int j = 0; j < PACKED_WIDTH; j += LANES) {
      const lanes left = load(out_scales->by[0] + j), right = load(out_scales->by[1] + j);
      const float *b = c->left + at + j, *b_right = c->right + at + j;
      float *to = c->sums + at + j;
      const lanes b11 = left * load(b), b21 = left * load(b + block), b12 = right * load(b_right),
                  b22 = right * load(b_right + block), t1 = b12 - b11, t2 = b22 - t1;
      store(to, t1);
      store(to + block, t2);
      store(to + 2 * block, b22 - b12);
      store(to + 3 * block, t2 - b21);
    }
  return true;
}

/* The scale of a row of n floats. */
INLINE bool scale_row(const float *a, int64_t n, float *out_by, float *out_back) {
  whole_lanes most = {0}, other = {0};
  for (int64_t k = 0; k < n; k += 2 * LANES) {
    most = larger_bits(most, magnitude(a + k));
    other = larger_bits(other, magnitude(a + k + LANES));
  }
  most = larger_bits(most, other);
  int32_t bits = 0;
  for (int i = 0; i < LANES; i++) bits = most[i] > bits ? most[i] : bits;
  return scale_of(bits, out_by, out_back);
}

bool CPU_LEVELED(strassen_add_rows)(const strassen_rows *r, strassen_scales *out_scales) {
  bool fits = true;
  const int64_t half = r->half, block = r->rows * r->sum_row;
  for (int64_t i = 0; i < r->rows && fits; i++) {
    const float *upper = r->upper + i * r->a_row, *lower = r->lower + i * r->a_row;
    float *to = r->sums + i * r->sum_row;
    fits = scale_row(upper, 2 * half, &out_scales->by[0][i], &out_scales->back[0][i]) &&
           scale_row(lower, 2 * half, &out_scales->by[1][i], &out_scales->back[1][i]);
    const lanes above = all(out_scales->by[0][i]), below = all(out_scales->by[1][i]),
                back = all(out_scales->back[0][i]);
    for (int64_t k = 0; k < half; k += LANES) {
      const lanes a11 = above * load(upper + k), a12 = above * load(upper + half + k), a21 = below * load(lower + k),
                  a22 = below * load(lower + half + k), s1 = a21 + a22, s2 = s1 - a11;
      store(to + k, s1);
      store(to + block + k, s2);
      store(to + 2 * block + k, a11 - a21);
      store(to + 3 * block + k, (a12 - s2) * back); /* its product is one of the upper rows' */
    }
  }
  return fits;
}

/* The products by the names of strassen.h: Y's upper blocks have p2 and p3. */
void CPU_LEVELED(strassen_finish)(const strassen_result *r) {
  const int64_t block = r->rows * PACKED_WIDTH;
  const strassen_scales *columns = r->columns_scales;
  for (int64_t i = 0; i < r->rows; i++) {
    const lanes above = all(r->rows_scales->by[0][i]), below = all(r->rows_scales->by[1][i]),
                above_back = all(r->rows_scales->back[0][i]), below_back = all(r->rows_scales->back[1][i]);
    for (int j = 0; j < PACKED_WIDTH; j += LANES) {
      const float *product = r->products + i * PACKED_WIDTH + j;
      float *y = r->y + i * r->y_row + j, *low = y + r->lower;
      const lanes p1 = load(product), p4 = load(product + block), p5 = load(product + 2 * block),
                  u2 = p1 * above * load(columns->by[0] + j) + load(product + 3 * block),
                  u3 = u2 + load(product + 4 * block), left_back = load(columns->back[0] + j),
                  right_back = load(columns->back[1] + j);
      lanes y11 = load(y) + p1, y12 = load(y + PACKED_WIDTH) + (u2 + p5) * above_back * right_back,
            y21 = (u3 - below * p4) * below_back * left_back, y22 = (u3 + p5) * below_back * right_back;
      const float *before = r->first ? r->bias + j : low;
      y21 += load(before);
      y22 += load(before + PACKED_WIDTH);
      if (r->first && r->residual) {
        const float *residual = r->residual + (low - r->y);
        y21 += load(residual);
        y22 += load(residual + PACKED_WIDTH);
      }
      if (r->relu) { /* NaN stays */
        y11 = LANES_MAX((lanes){0}, y11);
        y12 = LANES_MAX((lanes){0}, y12);
        y21 = LANES_MAX((lanes){0}, y21);
        y22 = LANES_MAX((lanes){0}, y22);
      }
      store(y, y11);
      store(y + PACKED_WIDTH, y12);
      store(low, y21);
      store(low + PACKED_WIDTH, y22);
    }
  }
}
