/* The formulas on f32, compiled once per CPU level. */
#include "ops/cpu/formulas/formulas_f32.h"

#include "ops/cpu/common/trigonometry.h"

#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define T float
#define W float
#define TAG f32
#define FN(f) f##_f32
#include "ops/cpu/formulas/formula_template.h"

/* ---- formulas that hold for a part of the floats ---- */

#define BLOCK 256

/* Elements are compared by their bits without the sign, so that NaN counts as large. */
static int32_t magnitude_of(float x) { return (int32_t)(bits_of_float(x) & 0x7fffffffu); }

/* The loop `near`, then `far` in double for the elements above `most`, whose neighbours stay as they are. */
static int reach_farther(elementwise_fn near, double (*far)(double), float most, float *y, const float *x, int64_t n,
                         const uint8_t *steps, const elementwise_parameters *p) {
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    const int32_t limit = magnitude_of(most);
    int32_t largest = 0;
    float before[BLOCK]; /* y may be x */
    for (int64_t k = 0; k < m; k++) {
      const int32_t magnitude = magnitude_of(x[i + k]);
      largest = magnitude > largest ? magnitude : largest;
    }
    if (largest > limit) memcpy(before, x + i, (size_t)m * sizeof *before);
    (void)near(y + i, (const void *const[]){x + i}, steps, m, p);
    for (int64_t k = 0; k < m && largest > limit; k++)
      if (magnitude_of(before[k]) > limit) y[i + k] = (float)far((double)before[k]);
  }
  return 0;
}

#define REACH(op, most, f) \
  static int CPU_CONCAT(op, anywhere)(void *y, const void *const *in, const uint8_t *steps, int64_t n, \
                                      const elementwise_parameters *p) { \
    return reach_farther(CPU_CONCAT(op, f32), f, most, y, in[0], n, steps, p); \
  }
#include "ops/cpu/formulas/formulas.def"

elementwise_fn CPU_LEVELED(elementwise_f32)(int formula) {
#define REACH(op, ...) \
  if (formula == OP_##op) return CPU_CONCAT(op, anywhere);
#include "ops/cpu/formulas/formulas.def"
  return loops_f32[formula];
}
