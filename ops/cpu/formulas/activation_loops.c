/* Activations over a row of f32, compiled once per CPU level: the formulas of formulas.def in place. */
#include "ops/cpu/formulas/activation_loops.h"

#include "ops/cpu/common/trigonometry.h"

#define INLINE_FORMULA static inline __attribute__((always_inline)) float
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define T float
#define FN(f) f##_f32
#define UNARY(op, class, ...) \
  IF_##class(INLINE_FORMULA formula_##op(float x, float alpha, float beta) { return (__VA_ARGS__); })
#define TERNARY(op, class, ...) \
  IF_##class(INLINE_FORMULA formula_##op(float x, float low, float high) { return (__VA_ARGS__); })
#include "ops/cpu/formulas/formulas.def"

void CPU_LEVELED(activate_f32)(activation_kind kind, float alpha, float beta, float *x, int64_t n) {
  switch (kind) {
    case ACTIVATION_NONE: break;
#define ACTIVATION(name, text, op, approximate, formula) \
  case ACTIVATION_##name: \
    for (int64_t i = 0; i < n; i++) x[i] = formula_##formula(x[i], alpha, beta); \
    break;
#include "ops/activation.def"
    case ACTIVATION_COUNT: break;
  }
}
