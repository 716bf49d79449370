/* The public functions for shape functions (reed/operator.h): checked arithmetic on dims, elements of value inputs, and
 * diagnoses that name the operands. Also the texts of dims.h. */
#include "shapefuncs/dims.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/dtype.h"
#include "base/text.h"
#include "ops/operands.h"
#include "shapefuncs/symbols.h"

const char *shapecall_dim_text(const reed_shape_call *call, reed_dim d, char out[64]) {
  if (reed_dim_known(call, d)) snprintf(out, 64, "%lld", (long long)d);
  else symbols_text(call->symbols, d, out, 64);
  return out;
}

char *shapecall_dims_text(const reed_shape_call *call, int32_t rank, const reed_dim *dims, char *out, size_t capacity) {
  char text[64];
  size_t n = (size_t)snprintf(out, capacity, rank < 0 ? "[..." : "[");
  for (int32_t i = 0; i < rank && n < capacity; i++)
    n += (size_t)snprintf(out + n, capacity - n, "%s%s", i ? "," : "", shapecall_dim_text(call, dims[i], text));
  if (n < capacity) snprintf(out + n, capacity - n, "]");
  return out;
}

/* ---- diagnosis ---- */

static const char *element_of(const reed_shape_input *in, int64_t k) {
  return (const char *)in->data + (size_t)k * reed_dtype_bytes(in->dtype);
}

/* A known element of an integer dtype (or bool); u64 wraps. */
static int64_t int_at(const reed_shape_input *in, int64_t k) {
  return dtype_read_integer(in->dtype, element_of(in, k));
}

/* "={1,-1,h}" of a short list of known elements. */
static void append_values(text_buffer *text, reed_shape_call *call, int32_t i) {
  const reed_shape_input *in = &call->inputs[i];
  char symbol[64];
  if (in->n_values < 1 || in->n_values > 16 || (!in->data && !in->values)) return;
  for (int64_t k = 0; k < in->n_values; k++) {
    text_append(text, k ? "," : "={");
    if (in->data && dtype_is_real(in->dtype)) text_append(text, "%g", reed_dtype_read(in->dtype, element_of(in, k)));
    else if (in->data) text_append(text, "%lld", (long long)int_at(in, k));
    else if (reed_dim_known(call, in->values[k])) text_append(text, "%lld", (long long)in->values[k]);
    else text_append(text, "%s", symbols_text(call->symbols, in->values[k], symbol, sizeof symbol));
  }
  text_append(text, "}");
}

/* " (X f32[1,3,h,w], shape i64[2]={1,-1})", with only the parts that the shape function may read. */
static void append_inputs(text_buffer *text, reed_shape_call *call) {
  char name[96], dims[512];
  const char *between = " (";
  for (int32_t i = 0; i < call->n_inputs && i < 16; i++) {
    if (op_reads(call->op, call->attrs, i) == REED_READS_NONE || call->inputs[i].dtype == REED_NONE) continue;
    text_append(text, "%s%s %s%s", between, operands_name(call->op, i, name), reed_dtype_name(call->inputs[i].dtype),
                shapecall_dims_text(call, call->inputs[i].rank, call->inputs[i].dims, dims, sizeof dims));
    append_values(text, call, i);
    between = ", ";
  }
  if (between[0] == ',') text_append(text, call->n_inputs > 16 ? ", ...)" : ")");
}

reed_status reed_shape_fail(reed_shape_call *call, reed_status status, int32_t input, const char *format, ...) {
  if (!call || !call->op || !format) return status;
  if (call->status) return call->status; /* the first failure is the cause */
  call->status = status;
  if (!call->diagnosis) return status;
  char message[1024], name[96];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  const char *input_name = input >= 0 ? operands_name(call->op, input, name) : "";
  text_buffer inputs = {0};
  append_inputs(&inputs, call);
  status = diag_fail(call->diagnosis, status, "%s node '%s': %s%s%s%s", call->op->name, call->node, input_name,
                     input_name[0] ? ": " : "", message, inputs.data && !inputs.failed ? inputs.data : "");
  diag_place_node(call->diagnosis, call->op->name, call->node, input_name);
  text_fini(&inputs);
  return status;
}

/* ---- arithmetic ---- */

bool reed_dim_known(const reed_shape_call *call, reed_dim a) { return !call || !call->symbols || !symbol_is(a); }

static bool both_known(const reed_shape_call *call, reed_dim a, reed_dim b) {
  return reed_dim_known(call, a) && reed_dim_known(call, b);
}

reed_dim reed_dim_fresh(reed_shape_call *call) {
  if (call && call->symbols) return symbols_fresh_extent(call->symbols);
  (void)reed_shape_fail(call, REED_ERROR_SHAPE, -1, "an extent cannot be computed while the program runs");
  return 0;
}

/* A fresh value of any sign (compile time only). */
static reed_dim fresh_value(reed_shape_call *call) {
  return call->symbols ? symbols_fresh_value(call->symbols) : reed_dim_fresh(call);
}

static reed_dim overflow(reed_shape_call *call, reed_dim a, const char *operation, reed_dim b) {
  (void)reed_shape_fail(call, REED_ERROR_SHAPE, -1, "extents overflow: %lld %s %lld", (long long)a, operation,
                        (long long)b);
  return 0;
}

/* True for an overflow. At compile time also for a number in the range of symbols, because it can only come from an
 * overflow. */
static bool too_large(const reed_shape_call *call, bool overflowed, reed_dim result) {
  return overflowed || (call && call->symbols && (symbol_is(result) || result == INT64_MIN));
}

reed_dim reed_dim_add(reed_shape_call *call, reed_dim a, reed_dim b) {
  reed_dim sum;
  if (!both_known(call, a, b)) return symbols_add(call->symbols, a, b);
  bool overflowed = __builtin_add_overflow(a, b, &sum);
  return too_large(call, overflowed, sum) ? overflow(call, a, "+", b) : sum;
}

reed_dim reed_dim_sub(reed_shape_call *call, reed_dim a, reed_dim b) {
  reed_dim difference;
  if (!both_known(call, a, b)) return symbols_sub(call->symbols, a, b);
  bool overflowed = __builtin_sub_overflow(a, b, &difference);
  return too_large(call, overflowed, difference) ? overflow(call, a, "-", b) : difference;
}

reed_dim reed_dim_mul(reed_shape_call *call, reed_dim a, reed_dim b) {
  reed_dim product;
  if (!both_known(call, a, b)) return symbols_mul(call->symbols, a, b);
  bool overflowed = __builtin_mul_overflow(a, b, &product);
  return too_large(call, overflowed, product) ? overflow(call, a, "*", b) : product;
}

static bool divisor_ok(reed_shape_call *call, reed_dim a, reed_dim b) {
  if (!reed_dim_known(call, b) || b > 0) return true;
  (void)reed_shape_fail(call, REED_ERROR_SHAPE, -1, "division of %lld by %lld", (long long)a, (long long)b);
  return false;
}

reed_dim reed_dim_floordiv(reed_shape_call *call, reed_dim a, reed_dim b) {
  if (!divisor_ok(call, a, b)) return 0;
  if (!both_known(call, a, b)) return symbols_floordiv(call->symbols, a, b);
  return a / b - (a % b < 0);
}

reed_dim reed_dim_ceildiv(reed_shape_call *call, reed_dim a, reed_dim b) {
  if (!divisor_ok(call, a, b)) return 0;
  if (!both_known(call, a, b))
    return symbols_floordiv(call->symbols, symbols_add(call->symbols, a, symbols_sub(call->symbols, b, 1)), b);
  return a / b + (a % b > 0);
}

reed_dim reed_dim_min(reed_shape_call *call, reed_dim a, reed_dim b) {
  if (!both_known(call, a, b)) return symbols_min(call->symbols, a, b);
  return a < b ? a : b;
}

reed_dim reed_dim_max(reed_shape_call *call, reed_dim a, reed_dim b) {
  if (!both_known(call, a, b)) return symbols_max(call->symbols, a, b);
  return a > b ? a : b;
}

bool reed_dim_equal(const reed_shape_call *call, reed_dim a, reed_dim b) {
  return call && call->symbols ? symbols_equal(call->symbols, a, b) : a == b;
}

/* ---- values ---- */

reed_dim reed_shape_value(reed_shape_call *call, int32_t input, int64_t k) {
  if (!call || input < 0 || input >= call->n_inputs) return 0;
  const reed_shape_input *in = &call->inputs[input];
  if ((in->data || in->values) && (k < 0 || k >= in->n_values)) {
    (void)reed_shape_fail(call, REED_ERROR_SHAPE, input, "has no element %lld", (long long)k);
    return 0;
  }
  if (in->values) return in->values[k];
  if (!in->data) return fresh_value(call);
  if (dtype_is_real(in->dtype)) {
    (void)reed_shape_fail(call, REED_ERROR_TYPE, input, "is %s where integers are wanted", reed_dtype_name(in->dtype));
    return 0;
  }
  int64_t value = int_at(in, k);
  if (in->dtype == REED_U64 && value < 0)
    (void)reed_shape_fail(call, REED_ERROR_VALUE, input, "element %lld is too large", (long long)k);
  const int64_t lowest = SYMBOL_FIRST + ((int64_t)1 << 32);
  return call->symbols && value < lowest ? lowest : value; /* stands for "very negative" either way */
}

bool reed_shape_value_f64(reed_shape_call *call, int32_t input, int64_t k, double *out_value) {
  if (!call || !out_value || input < 0 || input >= call->n_inputs) return false;
  const reed_shape_input *in = &call->inputs[input];
  if (k < 0 || k >= in->n_values || (!in->data && !in->values)) return false;
  if (in->data) *out_value = reed_dtype_read(in->dtype, element_of(in, k));
  else if (reed_dim_known(call, in->values[k])) *out_value = (double)in->values[k];
  else return false;
  return true;
}
