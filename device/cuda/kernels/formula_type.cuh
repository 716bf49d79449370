/* Template: the formulas of ops/cpu/formulas/formulas.def for one element type. Included once a type with
 *   T, W      element type, unsigned type for wrapping arithmetic (floats: T)
 *   TAG       f32: the function is formula_f32
 *   FN(f)     the type's functions
 *   IF_FLOAT IF_SIGNED IF_UNSIGNED IF_INT IF_BOOL(x): x where the type is of that class, else nothing
 * which it undefines. formula_TAG gives the result's bits; *fault becomes 1 after a division by an integer 0. */
#define NAME_OF_(tag) formula_##tag
#define NAME_OF(tag) NAME_OF_(tag)
#define FAULT (*fault = 1, (T)0)
#define CASE(op, TO, ...) \
  case OP_##op: \
    return value_of(static_cast<TO>(__VA_ARGS__));
#define UNARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
#define TEST(op, class, ...) IF_##class(CASE(op, uint8_t, __VA_ARGS__))
#define BINARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
#define COMPARE(op, class, ...) IF_##class(CASE(op, uint8_t, __VA_ARGS__))
#define TERNARY(op, class, ...) IF_##class(CASE(op, T, __VA_ARGS__))
static __device__ uint64_t NAME_OF(TAG)(const map_step &step, uint64_t first, uint64_t second, uint64_t third,
                                        int *fault) {
  const T a = value_as<T>(first), b = value_as<T>(second), high = value_as<T>(third);
  const T &x = a, &low = b;
  IF_FLOAT(const T alpha = static_cast<T>(step.alpha); const T beta = static_cast<T>(step.beta);)
  IF_INT(const int64_t alpha = whole_of(step.alpha); const int64_t beta = whole_of(step.beta); (void)alpha; (void)beta;)
  (void)x, (void)high, (void)low, (void)fault;
  switch (step.formula) {
#include "ops/cpu/formulas/formulas.def"
    default: return 0;
  }
}
#undef NAME_OF_
#undef NAME_OF
#undef FAULT
#undef CASE
#undef T
#undef W
#undef TAG
#undef FN
