/* Every operator with random ranks, extents up to the largest numbers, values and attributes, as a file may hold them.
 * A shape function answers or diagnoses. Best run under the sanitizers. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "shapefuncs/shapefn.h"
#include "tests/suite.h"

#define MAX_INPUTS 8
#define MAX_OUTPUTS 8
#define MAX_ELEMENTS 12
#define MAX_ATTRS 16

static uint64_t state = 0x2545f4914f6cdd1dull;

static uint64_t pick(uint64_t n) { /* xorshift64 (Marsaglia 2003) */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % n;
}

static int64_t odd_number(void) {
  static const int64_t odd[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                INT32_MAX,
                                INT32_MIN,
                                INT64_MAX,
                                INT64_MIN,
                                INT64_MIN + 1,
                                (int64_t)1 << 40,
                                -((int64_t)1 << 62),
                                (int64_t)1 << 62};
  return odd[pick(4) ? pick(8) : pick(sizeof odd / sizeof *odd)];
}

typedef struct random_call {
  reed_shape_input inputs[MAX_INPUTS];
  reed_dim dims[MAX_INPUTS][REED_MAX_RANK], values[MAX_INPUTS][MAX_ELEMENTS];
  char data[MAX_INPUTS][MAX_ELEMENTS * 8];
  reed_attr attrs[MAX_ATTRS];
  int64_t ints[MAX_ATTRS][MAX_ELEMENTS + 1], element;
  reed_shape_output outputs[MAX_OUTPUTS];
  int32_t n_inputs, n_attrs;
} random_call;

static reed_dim random_extent(reed_symbols *symbols) {
  static const char *const names[] = {"a", "b", "c"};
  if (symbols && pick(3) == 0) return pick(4) ? symbols_named(symbols, names[pick(3)]) : symbols_fresh_extent(symbols);
  int64_t n = odd_number();
  return n < 0 ? 0 : n;
}

static reed_dtype random_dtype(const reed_op_input *row, reed_dtype first) {
  if (row->same_type && first != REED_NONE) return first;
  for (;;) {
    reed_dtype dtype = (reed_dtype)(1 + pick(REED_DTYPE_COUNT - 1));
    if (row->dtypes & 1u << dtype) return dtype;
  }
}

static void random_values(random_call *c, int32_t i, reed_symbols *symbols) {
  reed_shape_input *in = &c->inputs[i];
  if (symbols && pick(4) == 0) { /* unknown number of elements */
    c->dims[i][0] = symbols_fresh_extent(symbols);
    in->rank = 1;
    return;
  }
  in->rank = pick(6) ? 1 : 0;
  in->n_values = in->rank ? (int64_t)pick(MAX_ELEMENTS + 1) : 1;
  c->dims[i][0] = in->n_values;
  bool symbolic = symbols && pick(2);
  for (int64_t k = 0; k < in->n_values; k++) {
    int64_t number = odd_number();
    c->values[i][k] = symbolic && pick(2)                          ? random_extent(symbols)
                      : number < SYMBOL_FIRST + ((int64_t)1 << 32) ? -5
                                                                   : number;
    reed_dtype_write(in->dtype, c->data[i] + (size_t)k * reed_dtype_bytes(in->dtype),
                     pick(8) ? (double)number : (double)number * 0.3);
    if (in->dtype == REED_I64) memcpy(c->data[i] + k * 8, &number, 8);
  }
  if (symbolic) in->values = c->values[i];
  else in->data = c->data[i];
}

static void random_inputs(random_call *c, const reed_op *op, reed_symbols *symbols) {
  c->n_inputs = op->n_inputs;
  if (op->n_inputs && op->inputs[op->n_inputs - 1].variadic) c->n_inputs += (int32_t)pick(3);
  ck_assert_int_le(c->n_inputs, MAX_INPUTS);
  int32_t common = (int32_t)pick(REED_MAX_RANK + 1);
  for (int32_t i = 0; i < c->n_inputs; i++) {
    const reed_op_input *row = reed_op_input_at(op, i);
    reed_shape_input *in = &c->inputs[i];
    if (row->optional && pick(2)) continue;
    in->dtype = random_dtype(row, i ? c->inputs[0].dtype : REED_NONE);
    in->dims = c->dims[i];
    /* an input whose flag depends on an attribute gets values whatever the attribute says */
    if (row->reads & REED_READS_VALUE) {
      random_values(c, i, symbols);
      continue;
    }
    in->rank = pick(2) ? common : (int32_t)pick(REED_MAX_RANK + 1);
    if (symbols && pick(12) == 0) in->rank = -1;
    for (int32_t k = 0; k < in->rank; k++) c->dims[i][k] = i && pick(2) ? c->dims[0][k] : random_extent(symbols);
  }
}

static void random_attrs(random_call *c, const reed_op *op) {
  static const char *const words[] = {
      "",     "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID",      "reflect",     "edge",
      "wrap", "add",    "CRD",        "DCR",        "not_larger", "not_smaller", "tf_crop_and_resize"};
  for (int32_t k = 0; k < op->n_attrs && c->n_attrs < MAX_ATTRS; k++) {
    if (!op->attrs[k].required && pick(3) == 0) continue;
    reed_attr *a = &c->attrs[c->n_attrs];
    int64_t *ints = c->ints[c->n_attrs++];
    *a = (reed_attr){
        .name = op->attrs[k].name, .type = op->attrs[k].type, .i = odd_number(), .f = (double)odd_number() * 0.3};
    a->s = words[pick(sizeof words / sizeof *words)];
    a->n = a->type == REED_ATTR_TENSOR ? 1 : (int64_t)pick(MAX_ELEMENTS + 1);
    for (int64_t i = 0; i < a->n; i++) ints[i] = odd_number();
    a->ints = ints;
    a->desc = (reed_desc){.dtype = (reed_dtype)(1 + pick(REED_DTYPE_COUNT - 1))};
    a->data = &c->element;
  }
}

static bool run_one(const reed_op *op, bool symbolic, reed_diagnosis *diagnosis) {
  random_call c = {.n_inputs = 0};
  reed_symbols *symbols = NULL;
  if (symbolic) ck_assert_int_eq(symbols_open(&symbols), REED_OK);
  random_inputs(&c, op, symbols);
  random_attrs(&c, op);
  int32_t n_outputs =
      op->outputs[op->n_outputs - 1].variadic ? (int32_t)(1 + pick(4)) : (int32_t)(1 + pick((uint64_t)op->n_outputs));
  ck_assert_int_le(n_outputs, MAX_OUTPUTS);
  const reed_attrs given = {c.attrs, c.n_attrs};
  reed_attr completed[64];
  const reed_attrs attrs = op_attrs_complete(op, &given, completed);
  reed_diagnosis_clear(diagnosis);
  reed_status status = shapefn_run(op, &attrs, "n", c.n_inputs, c.inputs, n_outputs, c.outputs, symbols, diagnosis);
  ck_assert_int_eq(status, reed_diagnosis_status(diagnosis));
  ck_assert_msg(!status || strstr(reed_diagnosis_message(diagnosis), op->name), "%s: %s", op->name,
                reed_diagnosis_message(diagnosis));
  for (int32_t i = 0; !status && i < n_outputs; i++) {
    reed_desc d = {.dtype = c.outputs[i].dtype, .rank = c.outputs[i].rank};
    ck_assert_int_ge(d.rank, symbolic ? -1 : 0);
    if (symbolic) continue;
    memcpy(d.dims, c.outputs[i].dims, sizeof d.dims);
    ck_assert_int_ge(desc_bytes(&d), 0);
  }
  symbols_close(&symbols);
  return status == REED_OK;
}

START_TEST(every_operator_answers_or_diagnoses) {
  reed_diagnosis *diagnosis = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  const char *rounds = getenv("REED_ROUNDS"), *seed = getenv("REED_SEED");
  int n_rounds = rounds ? atoi(rounds) : 400;
  if (seed) state = strtoull(seed, NULL, 10) | 1;
  int64_t n_passed = 0;
  for (int id = 0; id < OP_COUNT; id++)
    for (int i = 0; i < n_rounds && !op_is_control(op_builtin((op_id)id)); i++)
      n_passed += run_one(op_builtin((op_id)id), i & 1, diagnosis);
  ck_assert_int_gt(n_passed, 0);
  reed_diagnosis_close(&diagnosis);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("any call");
  TCase *tests = tcase_create("random");
  tcase_set_timeout(tests, 600);
  tcase_add_test(tests, every_operator_answers_or_diagnoses);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
