/* Template: the cheap formulas of ops/cpu/formulas/formulas.def for the WORDS_PART elements of a thread, so that the
 * choice of the formula is made once for all of them. Included once a type with T, TAG, FN(f) and IF_...(x) as
 * formula_type.cuh; undefines the first three. The function gives false if the formula is not one of these. */
#define NAME_OF_(tag) words_##tag
#define NAME_OF(tag) NAME_OF_(tag)
#define CASE(op, TO, ...) \
  case OP_##op: \
    if constexpr (formula_cost(OP_##op) <= WORDS_COST) { \
      UNROLL for (int e = 0; e < WORDS_PART; e++) { \
        const T a = value_as<T>(first.of[e]), b = value_as<T>(second.of[e]), high = value_as<T>(third.of[e]); \
        const T &x = a, &low = b; \
        (void)x, (void)high, (void)low; \
        made->of[e] = static_cast<uint32_t>(value_of(static_cast<TO>(__VA_ARGS__))); \
      } \
      return true; \
    } else { \
      return false; \
    }
#define UNARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
#define TEST(op, class, ...) IF_##class(CASE(op, uint8_t, __VA_ARGS__))
#define BINARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
#define COMPARE(op, class, ...) IF_##class(CASE(op, uint8_t, __VA_ARGS__))
#define TERNARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
static __device__ inline bool NAME_OF(TAG)(const map_step &step, const words &first, const words &second,
                                           const words &third, words *made) {
  const T alpha = static_cast<T>(step.alpha), beta = static_cast<T>(step.beta);
  (void)alpha, (void)beta;
  switch (step.formula) {
#include "ops/cpu/formulas/formulas.def"
    default: return false;
  }
}
#undef NAME_OF_
#undef NAME_OF
#undef CASE
#undef T
#undef TAG
#undef FN
