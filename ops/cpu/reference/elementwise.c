/* The formulas of formulas.def on long double and 128-bit integers, and the conversions of Cast. The kernel:
 * ops/cpu/elementwise/elementwise.c. */
#include "ops/cpu/reference/elementwise.h"

#include <math.h>

#include "ops/cpu/calls/elementwise.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/cpu/common/functions.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/common/common.h"

static long double clamp_wide(long double x, long double low, long double high) {
  long double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
static long double mod_wide(long double a, long double b) {
  long double r = fmodl(a, b);
  return r == 0 ? copysignl(r, b) : (r < 0) != (b < 0) ? r + b : r;
}
static long double sigmoid_wide(long double x) { return 1 / (1 + expl(-x)); }
static long double softplus_wide(long double x) { return x > 40 ? x : log1pl(expl(x)); }
#define acos_wide acosl
#define acosh_wide acoshl
#define asin_wide asinl
#define asinh_wide asinhl
#define atan_wide atanl
#define atanh_wide atanhl
#define cos_wide cosl
#define cosh_wide coshl
#define sin_wide sinl
#define sinh_wide sinhl
#define tan_wide tanl
#define largest_wide __DBL_MAX__ /* the largest operand */
#define abs_wide fabsl
#define ceil_wide ceill
#define erf_wide erf /* in double erf is 1 from 6 on, so that an integer result is not truncated to 0 */
#define exp_wide expl
#define expm1_wide expm1l
#define floor_wide floorl
#define fmod_wide fmodl
#define log_wide logl
#define pow_wide powl
#define rint_wide rintl
#define sqrt_wide sqrtl
#define tanh_wide tanhl

/* One formula on the operands v. False: no such formula for the class. */
#define FORMULA_FUNCTION(name) \
  static bool name(int formula, const T *v, T alpha, T beta, T *out_y, int *fault) { \
    const T x = v[0], a = v[0], b = v[1], low = v[1], high = v[2]; \
    (void)x, (void)low, (void)high, (void)alpha, (void)beta, (void)b; \
    switch (formula) {

#define FORMULA_END \
  } \
  return false; \
  }
#define FAULT (*fault = 1, (T)0)
#define FN(f) f##_wide
#define CASE(op, e) \
  case OP_##op: \
    *out_y = (e); \
    return true;

#define T long double
#define W long double
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define UNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TEST(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define BINARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define COMPARE(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TERNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
FORMULA_FUNCTION(float_formula)
#include "ops/cpu/formulas/formulas.def"
FORMULA_END

#undef T
#undef W
#define T __int128
#define W unsigned __int128
#undef IF_FLOAT
#define IF_FLOAT(...)
#undef IF_INT
#define IF_INT(...) __VA_ARGS__
#undef IF_SIGNED
#define IF_SIGNED(...) __VA_ARGS__
#define UNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TEST(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define BINARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define COMPARE(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TERNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
FORMULA_FUNCTION(signed_formula)
#include "ops/cpu/formulas/formulas.def"
FORMULA_END

#undef IF_SIGNED
#define IF_SIGNED(...)
#undef IF_UNSIGNED
#define IF_UNSIGNED(...) __VA_ARGS__
#define UNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TEST(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define BINARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define COMPARE(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TERNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
FORMULA_FUNCTION(unsigned_formula)
#include "ops/cpu/formulas/formulas.def"
FORMULA_END

#undef IF_UNSIGNED
#define IF_UNSIGNED(...)
#undef IF_INT
#define IF_INT(...)
#undef IF_BOOL
#define IF_BOOL(...) __VA_ARGS__
#define UNARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define TEST(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define BINARY(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
#define COMPARE(op, class, ...) IF_##class(CASE(op, (__VA_ARGS__)))
FORMULA_FUNCTION(bool_formula)
#include "ops/cpu/formulas/formulas.def"
FORMULA_END

/* Float to integer: rounds towards zero; values out of range give x86's result (see convert_between). */
static __int128 truncate_float(long double v, reed_dtype to) {
  bool wide = to == REED_I64 || to == REED_U64 || to == REED_U32;
  long double limit = wide ? 0x1p63L : 0x1p31L;
  if (v > -limit - 1 && v < limit) return (__int128)v;
  if (to == REED_U64 && v >= 0 && v < 0x1p64L) return (__int128)v;
  return -(__int128)limit;
}

static bool integer_formula(int formula, reed_dtype dtype, const __int128 *v, const elementwise_parameters *p,
                            __int128 *out_y, int *fault) {
  bool is_signed = reference_is_signed(dtype) || formula == OP_Pow;
  return (dtype == REED_BOOL ? bool_formula
          : is_signed        ? signed_formula
                             : unsigned_formula)(formula, v, whole_of(p->alpha), whole_of(p->beta), out_y, fault);
}

bool reference_formula(int formula, const elementwise_parameters *p, int32_t n, const reed_dtype *dtypes,
                       const void *const *cells, reed_dtype out_dtype, void *out, int *fault) {
  long double v[3] = {0}, y = 0;
  __int128 w[3] = {0}, z = 0;
  bool is_float = reference_is_float(dtypes[0]), known;
  for (int32_t k = 0; k < n; k++)
    if (is_float) v[k] = reference_read_float(dtypes[k], cells[k], 0);
    else w[k] = reference_read_int(dtypes[k], cells[k], 0);
  known = is_float ? float_formula(formula, v, p->alpha, p->beta, &y, fault)
                   : integer_formula(formula, dtypes[0], w, p, &z, fault);
  if (is_float) reference_write_float(out_dtype, out, 0, y);
  else reference_write_int(out_dtype, out, 0, z);
  return known;
}

/* Element i of the output in long double; operands are folded if there are more than the formula takes. */
static bool float_element(const reference_state *s, const reed_kernel_buffers *buffers, const int64_t *at, int64_t i) {
  const reed_desc *out = &s->outputs[0];
  bool folds = s->id == OP_Max || s->id == OP_Min || s->id == OP_Sum || s->id == OP_Mean;
  int formula = elementwise_choice(op_builtin(s->id), &s->attrs);
  elementwise_parameters p = elementwise_parameters_of(formula, &s->attrs);
  long double v[3] = {0, 0, 0}, y = 0;
  if (s->id == OP_Clip) v[1] = -INFINITY, v[2] = INFINITY;
  int fault = 0;
  for (int32_t k = 0; k < s->n_inputs; k++) {
    if (s->inputs[k].dtype == REED_NONE) continue;
    const reed_desc *in = &s->inputs[k];
    long double x = reference_read_float(in->dtype, buffers->inputs[k], reference_linear(in, at, out->rank));
    v[folds && k ? 1 : k] = x;
    if (folds && k == 0) y = x;
    if (folds && k) float_formula(formula, v, 0, 0, &y, &fault), v[0] = y;
  }
  if (!folds && !float_formula(formula, v, p.alpha, p.beta, &y, &fault)) return false;
  if (s->id == OP_Mean) y /= s->n_inputs;
  if (reference_is_float(out->dtype) || out->dtype == REED_BOOL)
    reference_write_float(out->dtype, buffers->outputs[0], i, y);
  else /* Pow of an integer to a float */
    reference_write_int(out->dtype, buffers->outputs[0], i, truncate_float(y, out->dtype));
  return true;
}

static bool int_element(const reference_state *s, const reed_kernel_buffers *buffers, const int64_t *at, int64_t i,
                        int *fault) {
  const reed_desc *out = &s->outputs[0];
  reed_dtype dtype = s->inputs[0].dtype;
  bool folds = s->id == OP_Max || s->id == OP_Min;
  int formula = elementwise_choice(op_builtin(s->id), &s->attrs);
  elementwise_parameters p = elementwise_parameters_of(formula, &s->attrs);
  __int128 v[3] = {0, 0, 0}, y = 0;
  if (s->id == OP_Clip) v[1] = (__int128)1 << 100, v[1] = -v[1], v[2] = (__int128)1 << 100;
  for (int32_t k = 0; k < s->n_inputs; k++) {
    if (s->inputs[k].dtype == REED_NONE) continue;
    const reed_desc *in = &s->inputs[k];
    __int128 x = reference_read_int(in->dtype, buffers->inputs[k], reference_linear(in, at, out->rank));
    v[folds && k ? 1 : k] = x;
    if (folds && k == 0) y = x;
    if (folds && k) signed_formula(formula, v, 0, 0, &y, fault), v[0] = y;
  }
  bool known = folds || integer_formula(formula, dtype, v, &p, &y, fault);
  reference_write_int(out->dtype, buffers->outputs[0], i, y);
  return known;
}

static reed_status run_elementwise(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  const reed_desc *out = &s->outputs[0];
  bool any_float = false, known = true;
  for (int32_t k = 0; k < s->n_inputs; k++) any_float |= reference_is_float(s->inputs[k].dtype);
  int64_t n = desc_elements(out), at[REED_MAX_RANK];
  size_t size = reed_dtype_bytes(out->dtype);
  int fault = 0;
  for (int64_t i = 0; i < n && known && !fault; i++) {
    reference_coordinates(out, i, at);
    if (s->id == OP_Where) {
      int32_t k = ((const uint8_t *)buffers->inputs[0])[reference_linear(&s->inputs[0], at, out->rank)] ? 1 : 2;
      memcpy((char *)buffers->outputs[0] + (size_t)i * size,
             (const char *)buffers->inputs[k] + (size_t)reference_linear(&s->inputs[k], at, out->rank) * size, size);
    } else if (any_float) {
      known = float_element(s, buffers, at, i);
    } else {
      known = int_element(s, buffers, at, i, &fault);
    }
  }
  if (!known) return reed_kernel_fault(buffers, REED_FAULT_FORMULA, 0, -1, s->inputs[0].dtype, 0);
  return fault
             ? cpu_division_fault(buffers, (int64_t)reed_dtype_bytes(s->inputs[1].dtype), desc_elements(&s->inputs[1]))
             : REED_OK;
}

reed_status reference_prepare_elementwise(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = elementwise_check(call);
  return status == REED_OK ? reference_open(call, run_elementwise, out_kernel) : status;
}

/* ---- Cast ---- */

void reference_convert(reed_dtype from_dtype, const void *from, reed_dtype to_dtype, void *to, int64_t i) {
  if (reference_is_float(to_dtype)) {
    reference_write_float(to_dtype, to, i, reference_read_float(from_dtype, from, 0));
  } else if (reference_is_float(from_dtype)) {
    long double v = reference_read_float(from_dtype, from, 0);
    reference_write_int(to_dtype, to, i, to_dtype == REED_BOOL ? v != 0 : truncate_float(v, to_dtype));
  } else {
    reference_write_int(to_dtype, to, i, reference_read_int(from_dtype, from, 0));
  }
}

static reed_status run_cast(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  reed_dtype from = s->inputs[0].dtype, to = s->outputs[0].dtype;
  int64_t n = desc_elements(&s->outputs[0]), size = (int64_t)reed_dtype_bytes(from);
  for (int64_t i = 0; i < n; i++)
    reference_convert(from, (const char *)buffers->inputs[0] + i * size, to, buffers->outputs[0], i);
  return REED_OK;
}

reed_status reference_prepare_cast(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reference_open(call, run_cast, out_kernel);
}
