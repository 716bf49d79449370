/* Costs of calls (ops/cost.h), counted by hand. */
#include <check.h>
#include <string.h>

#include "base/desc.h"
#include "ops/cost.h"
#include "ops/packed.h"
#include "tests/suite.h"

enum { MOST_ATTRS = 40 };

typedef struct cost_case {
  op_id op;
  const char *kind;
  double operations;
  int64_t bytes;
  reed_desc inputs[5]; /* rank 0 and no dtype: absent */
  reed_desc output;
  reed_attr attrs[3];
} cost_case;

#define F32(...) \
  { \
    .dtype = REED_F32, .rank = sizeof((int64_t[]){__VA_ARGS__}) / 8, .dims = { __VA_ARGS__ } \
  }
#define INT(name_, value) \
  { .name = name_, .type = REED_ATTR_INT, .i = value }
#define INTS(name_, ...) \
  { \
    .name = name_, .type = REED_ATTR_INTS, .ints = (const int64_t[]){__VA_ARGS__}, \
    .n = sizeof((int64_t[]){__VA_ARGS__}) / 8 \
  }

static const cost_case cases[] = {
    {OP_Conv,
     "1x1",
     2.0 * 4 * 5 * 6 * 3,
     4 * (3 * 20 + 6 * 3 + 6 * 20),
     {F32(1, 3, 4, 5), F32(6, 3, 1, 1)},
     F32(1, 6, 4, 5)},
    {OP_Conv,
     "3x3",
     2.0 * 20 * 6 * 27,
     4 * (60 + 162 + 120),
     {F32(1, 3, 4, 5), F32(6, 3, 3, 3)},
     F32(1, 6, 4, 5),
     {INTS("pads", 1, 1, 1, 1)}},
    {OP_Conv,
     "3x3, stride",
     2.0 * 6 * 6 * 27,
     4 * (60 + 162 + 36 + 6),
     {F32(1, 3, 4, 5), F32(6, 3, 3, 3), F32(6)},
     F32(1, 6, 2, 3),
     {INTS("pads", 1, 1, 1, 1), INTS("strides", 2, 2)}},
    {OP_Conv,
     "other windows",
     2.0 * 7 * 8 * 3 * 5,
     4 * (3 * 7 + 8 * 15 + 56),
     {F32(1, 3, 7), F32(8, 3, 5)},
     F32(1, 8, 7),
     {INTS("pads", 2, 2)}},
    {OP_Conv,
     "depthwise",
     2.0 * 20 * 6 * 9,
     4 * (120 + 54 + 120),
     {F32(1, 6, 4, 5), F32(6, 1, 3, 3)},
     F32(1, 6, 4, 5),
     {INTS("pads", 1, 1, 1, 1), INT("group", 6)}},
    {OP_Conv,
     "groups",
     2.0 * 20 * 8 * 3 * 9,
     4 * (120 + 216 + 160),
     {F32(1, 6, 4, 5), F32(8, 3, 3, 3)},
     F32(1, 8, 4, 5),
     {INTS("pads", 1, 1, 1, 1), INT("group", 2)}},
    /* Channels last: the weights keep their ONNX extents. */
    {OP_Conv,
     "3x3",
     2.0 * 20 * 6 * 27,
     4 * (60 + 162 + 120),
     {F32(1, 4, 5, 3), F32(6, 3, 3, 3)},
     F32(1, 4, 5, 6),
     {INTS("pads", 1, 1, 1, 1), INT("channels_last", 1)}},
    /* Packed weights have columns without an output, which are bytes but no arithmetic. */
    {OP_Conv,
     "1x1",
     2.0 * 20 * 6 * 3,
     4 * (60 + 16 * 3 + 120),
     {F32(1, 4, 5, 3), F32(16 * 3)},
     F32(1, 4, 5, 6),
     {INT("channels_last", 1), INTS(PACKED_ATTR, 6, 3, 1, 1)}},
    {OP_ConvTranspose,
     "transposed",
     2.0 * 3 * 20 * 6 * 4,
     4 * (60 + 72 + 480),
     {F32(1, 3, 4, 5), F32(3, 6, 2, 2)},
     F32(1, 6, 8, 10),
     {INTS("strides", 2, 2)}},
    {OP_Gemm, "product", 2.0 * 3 * 4 * 5, 4 * (15 + 20 + 12), {F32(5, 3), F32(5, 4)}, F32(3, 4), {INT("transA", 1)}},
    {OP_MatMul, "product", 2.0 * 2 * 3 * 4 * 5, 4 * (30 + 20 + 24), {F32(2, 3, 5), F32(5, 4)}, F32(2, 3, 4)},
    /* 2 heads, 3 queries, 4 past keys and 1 new one, sizes 8 and 6. */
    {OP_Attention,
     "attention",
     2.0 * 2 * 3 * 5 * (8 + 6),
     4 * (48 + 16 + 12 + 64 + 36),
     {F32(1, 2, 3, 8), F32(1, 2, 1, 8), F32(1, 2, 1, 6), {0}, F32(1, 2, 4, 8)},
     F32(1, 2, 3, 6)},
    {OP_LSTM,
     "recurrent",
     2.0 * 7 * 2 * (20 * 3 + 20 * 5),
     4 * (42 + 60 + 100 + 70),
     {F32(7, 2, 3), F32(1, 20, 3), F32(1, 20, 5)},
     F32(7, 1, 2, 5),
     {INT("hidden_size", 5)}},
    {OP_Relu, NULL, 0, 4 * 6, {F32(2, 3)}, F32(2, 3)},
    {OP_Gather, NULL, 0, 4 * 3, {F32(1000, 3), F32(1)}, F32(1, 3)},
};

START_TEST(a_call_costs_what_its_definition_says) {
  const cost_case *c = &cases[_i];
  const reed_op *op = op_builtin(c->op);
  reed_attr items[MOST_ATTRS];
  reed_attrs given = {c->attrs, 0};
  while (given.n < 3 && c->attrs[given.n].name) given.n++;
  const reed_attrs attrs = op_attrs_complete(op, &given, items);
  op_call_input inputs[5] = {0};
  for (int i = 0; i < 5; i++)
    if (c->inputs[i].dtype != REED_NONE) inputs[i].desc = &c->inputs[i];
  const op_call call = {
      .op = op, .attrs = &attrs, .n_inputs = 5, .n_outputs = 1, .inputs = inputs, .outputs = &c->output};
  const op_cost cost = op_cost_of(&call);
  ck_assert_pstr_eq(cost.kind, c->kind);
  ck_assert_double_eq(cost.operations, c->operations);
  ck_assert_int_eq(cost.bytes, c->bytes);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cost");
  TCase *tests = tcase_create("cost");
  tcase_add_loop_test(tests, a_call_costs_what_its_definition_says, 0, sizeof cases / sizeof *cases);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
