/* Template: the loops of reduce.def for one element type. Included once per type with T, A, W, LOWEST, HIGHEST, TAG and
 * IF_FLOAT, IF_SIGNED, IF_UNSIGNED, IF_INT, IF_BOOL (x where the type is of that class, else nothing); the first six
 * are undefined at the end. */
#define SUMS 16 /* independent sums: hides the latency of addition, and errors grow with n / 16 */

#define NAME_OF(op, part) CPU_CONCAT(op##_##part, TAG)
#define LOOPS_OF(op, START, MAP, JOIN, RESULT) \
  static void NAME_OF(op, start)(reduce_accumulator * pa, int64_t count) { \
    for (int64_t i = 0; i < count; i++) ((A *)pa)[i] = (START); \
  } \
  static void NAME_OF(op, row)(reduce_accumulator * pa, const void *px, int64_t count) { \
    const T *in = px; \
    A lanes[SUMS]; \
    int64_t i = 0; \
    if (count < SUMS) { \
      A a = *(A *)pa; \
      for (; i < count; i++) { \
        const T x = in[i]; \
        const A v = (A)(MAP); \
        a = (A)(JOIN); \
      } \
      *(A *)pa = a; \
      return; \
    } \
    for (int k = 0; k < SUMS; k++) lanes[k] = (START); \
    for (; i + SUMS <= count; i += SUMS) _Pragma("omp simd") for (int k = 0; k < SUMS; k++) { \
        const T x = in[i + k]; \
        const A v = (A)(MAP), a = lanes[k]; \
        lanes[k] = (A)(JOIN); \
      } \
    for (int k = 0; i + k < count; k++) { \
      const T x = in[i + k]; \
      const A v = (A)(MAP), a = lanes[k]; \
      lanes[k] = (A)(JOIN); \
    } \
    for (int half = SUMS / 2; half; half /= 2) \
      for (int k = 0; k < half; k++) { \
        const A a = lanes[k], v = lanes[k + half]; \
        lanes[k] = (A)(JOIN); \
      } \
    const A a = *(A *)pa, v = lanes[0]; \
    *(A *)pa = (A)(JOIN); \
  } \
  static void NAME_OF(op, column)(reduce_accumulator * pa, const void *px, int64_t count) { \
    const T *in = px; \
    A *to = (A *)pa; \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++) { \
      const T x = in[i]; \
      const A v = (A)(MAP), a = to[i]; \
      to[i] = (A)(JOIN); \
    } \
  } \
  static void NAME_OF(op, join)(reduce_accumulator * pa, const reduce_accumulator *pv, int64_t count) { \
    for (int64_t i = 0; i < count; i++) { \
      const A a = *(A *)pa, v = ((const A *)pv)[i]; \
      *(A *)pa = (A)(JOIN); \
    } \
  } \
  static void NAME_OF(op, finish)(void *out, const reduce_accumulator *pa, int64_t n_out, int64_t n) { \
    (void)n; \
    for (int64_t i = 0; i < n_out; i++) { \
      const A a = ((const A *)pa)[i]; \
      ((T *)out)[i] = (T)(RESULT); \
    } \
  }

#define REDUCTION(op, class, ...) IF_##class(LOOPS_OF(op, __VA_ARGS__))
#include "ops/cpu/reduce/reduce.def"

static const reduce_loops *CPU_CONCAT(reductions, TAG)(op_id op) {
#define TABLE_ROW(name) \
  static const reduce_loops loops_of_##name = {NAME_OF(name, start), NAME_OF(name, row),    NAME_OF(name, column), \
                                               NAME_OF(name, join),  NAME_OF(name, finish), NULL}; \
  if (op == OP_##name) return &loops_of_##name;
#define REDUCTION(name, class, ...) IF_##class(TABLE_ROW(name))
#include "ops/cpu/reduce/reduce.def"
#undef TABLE_ROW
  return NULL;
}

#undef SUMS
#undef NAME_OF
#undef LOOPS_OF
#undef T
#undef A
#undef W
#undef LOWEST
#undef HIGHEST
#undef TAG
