/* The columns of the operator table beside operands: attributes and their defaults, properties, flags that depend on an
 * attribute. Whether giving a default changes a module: tests/compiler/test_op_table.c. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/fused.h"
#include "ops/op.h"
#include "ops/packed.h"
#include "tests/suite.h"

START_TEST(attributes_have_values_of_their_types) {
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    reed_attr items[64];
    const reed_attrs complete = op_attrs_complete(op, &(reed_attrs){0}, items);
    ck_assert_int_eq(complete.n, op_attrs_completed(op, &(reed_attrs){0}));
    for (int32_t i = 0; i < op->n_attrs; i++) {
      const reed_op_attr *row = &op->attrs[i];
      ck_assert_ptr_eq(op_attr_row(op, row->name), row); /* no name twice */
      const reed_attr *attr = reed_attrs_find(&complete, row->name);
      ck_assert_msg((attr != NULL) == (row->otherwise != NULL), "%s %s", op->name, row->name);
      if (!attr) continue;
      ck_assert_msg(!row->required && attr->type == row->type && op_attr_is_default(op, attr), "%s %s", op->name,
                    row->name);
      if (row->type == REED_ATTR_STRING) ck_assert_ptr_nonnull(attr->s);
      if (row->type == REED_ATTR_FLOAT) ck_assert_double_eq(attr->f, (double)(float)attr->f); /* ONNX's are f32 */
      if (row->type == REED_ATTR_TENSOR) ck_assert_ptr_nonnull(attr->data);
    }
    for (int32_t i = 1; i < complete.n; i++) ck_assert_int_lt(strcmp(items[i - 1].name, items[i].name), 0);
  }
}
END_TEST

/* Values that ONNX's operator definitions give (opset 23), some of each type. */
START_TEST(values_of_attributes_are_those_of_onnx) {
  static const struct {
    const char *op, *attr;
    double number;
    const char *word;
  } cases[] = {{"LeakyRelu", "alpha", 0.01f},
               {"HardSigmoid", "alpha", 0.2f},
               {"HardSigmoid", "beta", 0.5},
               {"Selu", "gamma", 1.05070102214813232421875},
               {"Shrink", "lambd", 0.5},
               {"IsInf", "detect_negative", 1},
               {"BatchNormalization", "epsilon", 1e-5f},
               {"BatchNormalization", "momentum", 0.9f},
               {"LayerNormalization", "axis", -1},
               {"Softmax", "axis", -1},
               {"Flatten", "axis", 1},
               {"OneHot", "axis", -1},
               {"TopK", "largest", 1},
               {"ReduceSum", "keepdims", 1},
               {"ReduceSum", "noop_with_empty_axes", 0},
               {"ReverseSequence", "batch_axis", 1},
               {"ReverseSequence", "time_axis", 0},
               {"Trilu", "upper", 1},
               {"Gemm", "beta", 1},
               {"LpPool", "p", 2},
               {"Conv", "group", 1},
               {"Conv", "auto_pad", 0, "NOTSET"},
               {"DepthToSpace", "mode", 0, "DCR"},
               {"Pad", "mode", 0, "constant"},
               {"ScatterND", "reduction", 0, "none"},
               {"Resize", "cubic_coeff_a", -0.75},
               {"Resize", "nearest_mode", 0, "round_prefer_floor"},
               {"Resize", "coordinate_transformation_mode", 0, "half_pixel"},
               {"RoiAlign", "coordinate_transformation_mode", 0, "half_pixel"},
               {"RoiAlign", "spatial_scale", 1},
               {"LSTM", "direction", 0, "forward"},
               {"GRU", "activations", 0, "Sigmoid,Tanh,Sigmoid,Tanh"},
               {"Gelu", "approximate", 0, "none"},
               {"Attention", "softcap", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const reed_op_attr *row = op_attr_row(op_find(NULL, "", cases[i].op), cases[i].attr);
    ck_assert_msg(row && row->otherwise, "%s %s", cases[i].op, cases[i].attr);
    if (cases[i].word) ck_assert_str_eq(row->otherwise->s, cases[i].word);
    else
      ck_assert_double_eq(row->type == REED_ATTR_INT ? (double)row->otherwise->i : row->otherwise->f, cases[i].number);
  }
  static const char *const absent[][2] = {
      {"Conv", "pads"},        {"Conv", "strides"}, {"Transpose", "perm"},    {"Shape", "end"},
      {"Compress", "axis"},    {"Unique", "axis"},  {"Split", "num_outputs"}, {"Attention", "scale"},
      {"LSTM", "hidden_size"}, {"RNN", "clip"},     {"EyeLike", "dtype"},     {"Resize", "axes"},
      {"Cast", "to"}};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    const reed_op_attr *row = op_attr_row(op_find(NULL, "", absent[i][0]), absent[i][1]);
    ck_assert_msg(row && !row->otherwise, "%s %s", absent[i][0], absent[i][1]);
  }
}
END_TEST

START_TEST(properties_go_with_their_rows) {
  int n_fusable = 0, n_packable = 0, n_extents = 0, n_any_rank = 0;
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    n_fusable += op_has(op, OP_PROPERTY_FUSABLE);
    n_packable += op_has(op, OP_PROPERTY_PACKABLE);
    n_extents += op_has(op, REED_OP_EXTENTS_ONLY);
    n_any_rank += op_has(op, REED_OP_ANY_RANK);
    /* a step of a fused program has room for the operator, which gives one element for one */
    if (op_has(op, OP_PROPERTY_FUSABLE)) {
      ck_assert_msg(op->n_attrs <= FUSED_ATTRS && fused_operands(op) <= FUSED_OPERANDS && op->n_outputs == 1 &&
                        op->light && !op->outputs[0].bounded,
                    "%s", op->name);
      for (int32_t i = 0; i < op->n_attrs; i++) ck_assert_int_le(op->attrs[i].type, REED_ATTR_STRING);
    }
    ck_assert_msg(op_has(op, OP_PROPERTY_PACKABLE) == (op_attr_row(op, PACKED_ATTR) != NULL), "%s", op->name);
    for (int32_t i = 0; op_has(op, REED_OP_EXTENTS_ONLY) && i < op->n_inputs; i++)
      ck_assert_int_eq(op->inputs[i].reads, REED_READS_SHAPE);
    for (int32_t i = 0; i < op->n_inputs; i++) {
      ck_assert_int_ne(op->inputs[i].reads, REED_READS_BOTH); /* a built-in row says VALUE, which means the same */
      const reed_op_attr *attr = op->inputs[i].reads_attr ? op_attr_row(op, op->inputs[i].reads_attr) : NULL;
      ck_assert_msg(!op->inputs[i].reads_attr || (attr && attr->type == REED_ATTR_STRING && attr->otherwise), "%s",
                    op->name);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
      if (op->outputs[i].type_rule != REED_TYPE_ATTR) continue;
      const reed_op_attr *attr = op_attr_row(op, op->outputs[i].type_attr);
      ck_assert_msg(attr && (attr->type == REED_ATTR_INT || attr->type == REED_ATTR_TENSOR), "%s", op->name);
      /* an attribute that may be absent needs OF_OR_LIKE, which takes the dtype of input 0 */
      ck_assert_msg(attr->required || attr->otherwise || op->n_inputs > 0, "%s", op->name);
    }
  }
  ck_assert_int_gt(n_fusable, 60);
  ck_assert_int_ge(n_packable, 4);
  ck_assert_int_ge(n_extents, 2);
  ck_assert_int_ge(n_any_rank, 10);
}
END_TEST

START_TEST(rows_say_which_values_are_valid) {
  int n_words = 0, n_numbers = 0;
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    for (int32_t i = 0; i < op->n_attrs; i++) {
      const reed_op_attr *row = &op->attrs[i];
      reed_attr given = {.name = row->name, .type = row->type};
      int64_t at;
      if (row->otherwise) ck_assert_msg(op_attr_is_valid(row, row->otherwise, &at), "%s.%s", op->name, row->name);
      if (row->words) {
        ck_assert_int_eq(row->type, REED_ATTR_STRING);
        char words[512];
        int32_t place = 0;
        ck_assert_int_lt((int)snprintf(words, sizeof words, "%s", row->words), (int)sizeof words);
        for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
          given.s = word;
          ck_assert(op_attr_is_valid(row, &given, &at));
          ck_assert_int_eq(op_attr_word(op, &(reed_attrs){&given, 1}, row->name), place++);
        }
        given.s = "";
        ck_assert_msg(!op_attr_is_valid(row, &given, &at), "%s.%s", op->name, row->name);
        n_words++;
      } else if (row->least || row->most) {
        int64_t below[2] = {row->least, row->least - 1};
        given.i = below[1], given.f = (double)below[1], given.ints = below, given.n = 2;
        ck_assert_msg(!op_attr_is_valid(row, &given, &at), "%s.%s", op->name, row->name);
        ck_assert_int_eq(at, row->type == REED_ATTR_INTS);
        given.i = row->least, given.f = (double)row->least, given.n = 1;
        ck_assert(op_attr_is_valid(row, &given, &at));
        given.f = NAN;
        ck_assert(row->type != REED_ATTR_FLOAT || !op_attr_is_valid(row, &given, &at));
        n_numbers++;
      }
    }
  }
  ck_assert_int_gt(n_words, 20);
  ck_assert_int_gt(n_numbers, 20);
}
END_TEST

/* The flag of Resize's roi depends on the mapping, which is given or left out; the other inputs' flags do not. */
START_TEST(a_flag_may_depend_on_an_attribute) {
  const reed_attr crop = {
      .name = "coordinate_transformation_mode", .type = REED_ATTR_STRING, .s = "tf_crop_and_resize"};
  reed_attr other = crop;
  other.s = "asymmetric";
  const reed_op *resize = op_builtin(OP_Resize);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){&crop, 1}, 1), REED_READS_VALUE);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){&other, 1}, 1), REED_READS_NONE);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){0}, 1), REED_READS_NONE);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){&crop, 1}, 2), REED_READS_VALUE);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){0}, 3), REED_READS_VALUE);
  ck_assert_int_eq(op_reads(resize, &(reed_attrs){0}, 9), REED_READS_NONE);
  static const bool covers[4][4] = {/* given, needed: none shape value both */
                                    {true, false, false, false},
                                    {true, true, false, false},
                                    {true, true, true, true},
                                    {true, true, true, true}};
  for (int given = 0; given < 4; given++)
    for (int needed = 0; needed < 4; needed++)
      ck_assert_int_eq(op_reads_covers((reed_reads)given, (reed_reads)needed), covers[given][needed]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("attrs");
  TCase *tests = tcase_create("attrs");
  tcase_add_test(tests, attributes_have_values_of_their_types);
  tcase_add_test(tests, values_of_attributes_are_those_of_onnx);
  tcase_add_test(tests, properties_go_with_their_rows);
  tcase_add_test(tests, rows_say_which_values_are_valid);
  tcase_add_test(tests, a_flag_may_depend_on_an_attribute);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
