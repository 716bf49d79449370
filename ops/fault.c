/* Sentences for the faults that kernels record: the rows of ops/fault.def with the record's numbers filled in. Also
 * reed_kernel_fault, which records them. */
#include "ops/fault.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "ops/operands.h"

typedef struct fault_row {
  reed_status status;
  const char *sentence;
} fault_row;

static const fault_row rows[] = {
    {REED_OK, ""},
#define FAULT(code, status, sentence) [REED_FAULT_##code] = {REED_ERROR_##status, sentence},
#include "ops/fault.def"
#undef FAULT
};
enum { N_ROWS = sizeof rows / sizeof *rows };
_Static_assert(N_ROWS == REED_FAULT_IMAGE_REAL + 1, "ops/fault.def has a row for each code");

static reed_status status_of(const reed_fault *fault) {
  if (fault->code <= 0 || fault->code >= N_ROWS) return REED_ERROR_DEVICE;
  if (fault->code == REED_FAULT_LIBRARY && fault->value < 0) return (reed_status)fault->value;
  return rows[fault->code].status;
}

reed_status reed_kernel_fault(const reed_kernel_buffers *buffers, reed_fault_code code, int32_t operand,
                              int64_t element, int64_t value, int64_t limit) {
  reed_fault fault = {(int32_t)code, operand, element, value, limit};
  if (buffers && buffers->fault && !buffers->fault->code) *buffers->fault = fault;
  return status_of(&fault);
}

static double real_of(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The text of one {word}, whose length is n. */
static int word_text(const reed_fault *f, const char *word, size_t n, char *out, size_t capacity) {
#define IS(text) (n == sizeof text - 1 && memcmp(word, text, n) == 0)
  if (IS("value")) return snprintf(out, capacity, "%lld", (long long)f->value);
  if (IS("element")) return snprintf(out, capacity, "%lld", (long long)f->element);
  if (IS("limit")) return snprintf(out, capacity, "%lld", (long long)f->limit);
  if (IS("-limit")) return snprintf(out, capacity, "%lld", (long long)(0 - (uint64_t)f->limit));
  if (IS("limit-1")) return snprintf(out, capacity, "%lld", (long long)((uint64_t)f->limit - 1));
  if (IS("value:real")) return snprintf(out, capacity, "%g", real_of(f->value));
  if (IS("limit:real")) return snprintf(out, capacity, "%g", real_of(f->limit));
  if (IS("value:dtype")) return snprintf(out, capacity, "%s", reed_dtype_name((reed_dtype)f->value));
  return 0;
#undef IS
}

static void sentence_text(const reed_fault *f, const char *sentence, char *out, size_t capacity) {
  size_t n = 0;
  for (const char *c = sentence; *c && n + 1 < capacity; c++) {
    if (*c == '[' && f->element < 0) {
      c = strchr(c, ']');
    } else if (*c == '{') {
      const char *end = strchr(c, '}');
      n += (size_t)word_text(f, c + 1, (size_t)(end - c - 1), out + n, capacity - n);
      c = end;
    } else if (*c != '[' && *c != ']') {
      out[n++] = *c;
    }
  }
  out[n < capacity ? n : capacity - 1] = 0;
}

/* The name, dtype and extents of the call's inputs. */
static void inputs_text(const op_call *call, text_buffer *out) {
  reed_desc inputs[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++)
    inputs[i] = call->inputs[i].desc ? *call->inputs[i].desc : (reed_desc){.dtype = REED_NONE};
  operands_append(out, call->op, call->n_inputs, inputs);
}

reed_status fault_say(const reed_fault *fault, const op_call *call) {
  char text[256], name[96];
  const reed_op *op = call->op;
  text_buffer inputs = {0};
  if (fault->code > 0 && fault->code < N_ROWS) sentence_text(fault, rows[fault->code].sentence, text, sizeof text);
  else snprintf(text, sizeof text, "fault %d, element %lld", (int)fault->code, (long long)fault->element);
  inputs_text(call, &inputs);
  reed_status status = diag_fail(call->diagnosis, status_of(fault), "%s node '%s': %s%s", op->name, call->node, text,
                                 inputs.data && !inputs.failed ? inputs.data : "");
  diag_place_node(call->diagnosis, op->name, call->node,
                  fault->operand >= 0 ? operands_name(op, fault->operand, name) : NULL);
  text_fini(&inputs);
  return status;
}
