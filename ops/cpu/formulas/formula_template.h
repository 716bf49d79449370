/* Template: the loops of formulas.def for one element type, and a table of them. Included once per type with
 *   T, W      element type, unsigned type for wrapping arithmetic (floats: T)
 *   TAG       f32: names end in it
 *   FN(f)     the type's functions
 *   IF_FLOAT IF_SIGNED IF_UNSIGNED IF_INT IF_BOOL(x): x where the type is of that class, else nothing
 * and undefined at the end. `ivdep`: an output may be an input (same element, same size), which is no dependence
 * between elements. */
#define LOOP(...) \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { __VA_ARGS__ }
#define NAME_OF(op) CPU_CONCAT(op, TAG)
#define FAULT (fault = 1, (T)0)
#define LOOP_FUNCTION(op, ...) \
  static int NAME_OF(op)(void *out, const void *const *in, const uint8_t *steps, int64_t n, \
                         const elementwise_parameters *p) { \
    int fault = 0; \
    __VA_ARGS__ \
    return fault; \
  }

/* An attribute in the formulas' type: a float, or a whole number. */
#define PARAMETER(name) \
  const IF_FLOAT(T) IF_INT(int64_t) IF_BOOL(T) name = IF_FLOAT((T)p->name) IF_INT(whole_of(p->name)) IF_BOOL(0); \
  (void)name
#define LOOP_UNARY_TO(TO, op, e) \
  LOOP_FUNCTION(op, TO *y = out; const T *px = in[0]; PARAMETER(alpha); PARAMETER(beta); \
                LOOP(const T x = px[i]; y[i] = (TO)(e);))
#define LOOP_BINARY_TO(TO, op, e) \
  LOOP_FUNCTION( \
      op, TO *y = out; const T *pa = in[0]; const T *pb = in[1]; if (steps[0] == steps[1]) { \
        LOOP(const T a = pa[i]; const T b = pb[i]; (void)b; y[i] = (TO)(e);) \
      } else if (steps[0]) { \
        const T b = *pb; \
        (void)b; \
        LOOP(const T a = pa[i]; y[i] = (TO)(e);) \
      } else { \
        const T a = *pa; \
        LOOP(const T b = pb[i]; (void)b; y[i] = (TO)(e);) \
      })
#define LOOP_TERNARY(op, e) \
  LOOP_FUNCTION(op, T *y = out; const T *px = in[0]; const T low = *(const T *)in[1], high = *(const T *)in[2]; \
                LOOP(const T x = px[i]; y[i] = (e);))
#define LOOP_SELECT(op, e) \
  LOOP_FUNCTION( \
      op, T *y = out; const uint8_t *pc = in[0]; const T *pa = in[1]; const T *pb = in[2]; \
      const int64_t sa = steps[1], sb = steps[2]; if (!steps[0] && n > 1) { \
        const T *p1 = *pc ? pa : pb; \
        const int64_t s = *pc ? sa : sb; \
        LOOP(y[i] = p1[i * s];) \
      } else if (sa && sb) { \
        LOOP(const uint8_t c = pc[i]; const T a = pa[i]; const T b = pb[i]; y[i] = (e);) \
      } else if (sa) { \
        const T b = *pb; \
        LOOP(const uint8_t c = pc[i]; const T a = pa[i]; y[i] = (e);) \
      } else if (sb) { \
        const T a = *pa; \
        LOOP(const uint8_t c = pc[i]; const T b = pb[i]; y[i] = (e);) \
      } else { \
        const T a = *pa; \
        const T b = *pb; \
        LOOP(const uint8_t c = pc[i]; y[i] = (e);) \
      })

#define UNARY(op, class, ...) IF_##class(LOOP_UNARY_TO(T, op, (__VA_ARGS__)))
#define TEST(op, class, ...) IF_##class(LOOP_UNARY_TO(uint8_t, op, (__VA_ARGS__)))
#define BINARY(op, class, ...) IF_##class(LOOP_BINARY_TO(T, op, (__VA_ARGS__)))
#define COMPARE(op, class, ...) IF_##class(LOOP_BINARY_TO(uint8_t, op, (__VA_ARGS__)))
#define TERNARY(op, class, ...) IF_##class(LOOP_TERNARY(op, (__VA_ARGS__)))
#define SELECT(op, class, ...) IF_##class(LOOP_SELECT(op, (__VA_ARGS__)))
#include "ops/cpu/formulas/formulas.def"

static const elementwise_fn CPU_CONCAT(loops, TAG)[FORMULA_COUNT] = {
#define ENTRY(op) [OP_##op] = NAME_OF(op),
#define UNARY(op, class, ...) IF_##class(ENTRY(op))
#define TEST(op, class, ...) IF_##class(ENTRY(op))
#define BINARY(op, class, ...) IF_##class(ENTRY(op))
#define COMPARE(op, class, ...) IF_##class(ENTRY(op))
#define TERNARY(op, class, ...) IF_##class(ENTRY(op))
#define SELECT(op, class, ...) IF_##class(ENTRY(op))
#include "ops/cpu/formulas/formulas.def"
#undef ENTRY
};

#undef LOOP
#undef NAME_OF
#undef FAULT
#undef LOOP_FUNCTION
#undef PARAMETER
#undef LOOP_UNARY_TO
#undef LOOP_BINARY_TO
#undef LOOP_TERNARY
#undef LOOP_SELECT
#undef T
#undef W
#undef TAG
#undef FN
