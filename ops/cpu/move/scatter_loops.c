/* The loops of scatter_loops.h. Formulas are those of formulas.def, where integers wrap and the larger of a number and
 * NaN is NaN. */
#include "ops/cpu/move/scatter_loops.h"

#define LOOP(name, T, e) \
  static void name(void *to, const int64_t *places, const void *updates, int64_t n) { \
    for (int64_t k = 0; k < n; k++) { \
      T *at = (T *)to + places[k]; \
      const T a = *at, b = ((const T *)updates)[k]; \
      (void)a; \
      *at = (T)(e); \
    } \
  }
/* Two choices, because the first one is an instruction without a branch, which updates would mispredict. */
#define EXTREME(name, T, is) \
  static inline T name(T a, T b) { \
    const T number = a is b ? a : b; \
    return a != a ? a : number; \
  }
#define LOOPS(T, W, tag) \
  EXTREME(larger_##tag, T, >) \
  EXTREME(smaller_##tag, T, <) \
  LOOP(add_##tag, T, (W)a + (W)b) \
  LOOP(mul_##tag, T, (W)a *(W)b) \
  LOOP(max_##tag, T, larger_##tag(a, b)) \
  LOOP(min_##tag, T, smaller_##tag(a, b))

LOOP(replace_1, uint8_t, b)
LOOP(replace_2, uint16_t, b)
LOOP(replace_4, uint32_t, b)
LOOP(replace_8, uint64_t, b)
LOOPS(float, float, f32)
LOOPS(double, double, f64)
LOOPS(int32_t, uint32_t, i32)
LOOPS(int64_t, uint64_t, i64)

scatter_fn scatter_replacing(int64_t size) {
  return size == 1 ? replace_1 : size == 2 ? replace_2 : size == 4 ? replace_4 : replace_8;
}

scatter_fn scatter_combining(reed_dtype dtype, int formula) {
#define CHOICE(DTYPE, tag) \
  if (dtype == DTYPE) \
    return formula == OP_Add   ? add_##tag \
           : formula == OP_Mul ? mul_##tag \
           : formula == OP_Max ? max_##tag \
           : formula == OP_Min ? min_##tag \
                               : NULL;
  CHOICE(REED_F32, f32)
  CHOICE(REED_F64, f64)
  CHOICE(REED_I32, i32)
  CHOICE(REED_I64, i64)
#undef CHOICE
  return NULL;
}
