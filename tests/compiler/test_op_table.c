/* The operator table against the compiler. A model that spells an attribute's default and a model that omits the
 * attribute give the same module, for every attribute of the table with a default. Each of the passes' own tables over
 * operators has a row or a reason for every operator. */
#include "base/mem.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/nonnegative.h"
#include "compiler/passes/layout/rules.h"
#include "reed/compiler.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* ---- attributes ---- */

/* Values for the attributes that an operator requires, which no row can have. */
static void build_required(onnx_build *b, build_node_t *n, const reed_op *op) {
  for (int32_t i = 0; i < op->n_attrs; i++) {
    const reed_op_attr *a = &op->attrs[i];
    if (!a->required) continue;
    switch (a->type) {
      case REED_ATTR_INT: build_int(b, n, a->name, 1); break; /* `to`: ONNX's FLOAT */
      case REED_ATTR_FLOAT: build_float(b, n, a->name, 1); break;
      case REED_ATTR_STRING: build_string(b, n, a->name, op == op_builtin(OP_BitShift) ? "LEFT" : "Abs 0"); break;
      case REED_ATTR_INTS: build_ints(b, n, a->name, "2,2"); break;
      case REED_ATTR_FLOATS: build_floats(b, n, a->name, "1"); break;
      case REED_ATTR_TENSOR:
        build_tensor_attr(b, n, a->name, build_loose_tensor(b, REED_F32, "1", (float[]){1}));
        break;
    }
  }
}

/* The row's value, as a model would spell it. */
static void build_default(onnx_build *b, build_node_t *n, const reed_op_attr *a) {
  const reed_attr *value = a->otherwise;
  switch (a->type) {
    case REED_ATTR_INT:
      build_int(b, n, a->name, strcmp(a->name, "stash_type") == 0 ? 1 : value->i); /* ONNX's number of f32 */
      break;
    case REED_ATTR_FLOAT: build_float(b, n, a->name, (float)value->f); break;
    case REED_ATTR_STRING: build_string(b, n, a->name, value->s); break;
    case REED_ATTR_TENSOR:
      build_tensor_attr(b, n, a->name, build_loose_tensor(b, value->desc.dtype, "1", value->data));
      break;
    case REED_ATTR_INTS:
    case REED_ATTR_FLOATS: ck_abort_msg("no row has such a value");
  }
}

static reed_dtype first_dtype(reed_dtype_set set) {
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT; dtype++)
    if (set & 1u << dtype) return (reed_dtype)dtype;
  return REED_NONE;
}

/* One node of the operator over inputs of any extents; `spelled`: the attribute that it spells, NULL: none. */
static onnx_build *model_of(const reed_op *op, const reed_op_attr *spelled) {
  onnx_build *b = build_open(ONNX_OPSET_MAX);
  char names[256] = "";
  for (int32_t i = 0; i < op->n_inputs; i++) {
    if (op->inputs[i].optional) continue;
    snprintf(names + strlen(names), sizeof names - strlen(names), "%sin%d", *names ? "," : "", i);
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    build_input(b, name, reed_dtype_name(first_dtype(op->inputs[i].dtypes)));
  }
  char outputs[64] = "y";
  for (int32_t i = 1; i < op->n_outputs; i++)
    if (!op->outputs[i].optional) strcat(outputs, ",z");
  char type[64];
  snprintf(type, sizeof type, "%s%s%s", op->domain, *op->domain ? "." : "", op->name);
  build_node_t *n = build_node(b, type, names, outputs);
  build_required(b, n, op);
  if (spelled) build_default(b, n, spelled);
  build_output(b, "y", "f32");
  build_graph(b)->output[0]->type = NULL; /* the output's dtype is left to inference */
  return b;
}

static char *graph_of(const reed_op *op, const reed_op_attr *spelled) {
  onnx_build *b = model_of(op, spelled);
  front f;
  front_read(&f, &b);
  ck_assert_msg(f.status == REED_OK, "%s: %s", op->name, f.diagnosis.message);
  text_buffer text = {0};
  ir_print(f.m, &text);
  const reed_attrs attrs = ir_attrs(f.m->main->nodes.items[0]);
  for (int32_t i = 0; i < op->n_attrs; i++) /* the call has all attributes, spelled or not */
    ck_assert_msg(!op->attrs[i].otherwise || reed_attrs_find(&attrs, op->attrs[i].name), "%s: %s", op->name,
                  op->attrs[i].name);
  front_fini(&f);
  return text.data;
}

typedef struct compiled {
  reed_status status;
  void *bytes;
  size_t n;
  char message[512];
} compiled;

/* Compiles the model, and closes it. */
static compiled compiled_of(onnx_build *b) {
  compiled c = {0};
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  size_t n;
  const void *onnx = build_pack(b, &n);
  c.status = reed_compile_bytes(onnx, n, NULL, &c.bytes, &c.n, NULL, d);
  snprintf(c.message, sizeof c.message, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  build_close(&b);
  return c;
}

static compiled module_of(const reed_op *op, const reed_op_attr *spelled) { return compiled_of(model_of(op, spelled)); }

/* Operators that are no nodes after import, because import turns them into others, or they have bodies, and those of
 * random numbers, which have other operands in ONNX. */
static bool is_named_only(const reed_op *op) {
  return op_is_control(op) || op->impure || op == op_builtin(OP_Upsample) || op == op_builtin(OP_Constant);
}

START_TEST(a_spelled_default_and_an_omitted_one_give_the_same_module) {
  int n_attributes = 0, n_compiled = 0;
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    for (int32_t i = 0; i < op->n_attrs; i++) {
      if (!op->attrs[i].otherwise || is_named_only(op)) continue;
      n_attributes++;
      char *omitted = graph_of(op, NULL), *spelled = graph_of(op, &op->attrs[i]);
      ck_assert_msg(strcmp(omitted, spelled) == 0, "%s, %s:\n%s\n%s", op->name, op->attrs[i].name, omitted, spelled);
      mem_free(omitted);
      mem_free(spelled);
      compiled a = module_of(op, NULL), b = module_of(op, &op->attrs[i]);
      ck_assert_msg(a.status == b.status && strcmp(a.message, b.message) == 0, "%s, %s: %s\n%s", op->name,
                    op->attrs[i].name, a.message, b.message);
      ck_assert_msg(a.status == REED_OK, "%s: %s", op->name, a.message);
      n_compiled += a.status == REED_OK;
      ck_assert_msg(a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0, "%s, %s: other bytes", op->name,
                    op->attrs[i].name);
      mem_free(a.bytes);
      mem_free(b.bytes);
    }
  }
  ck_assert_int_gt(n_attributes, 150);
  ck_assert_int_eq(n_compiled, n_attributes);
}
END_TEST

/* ---- defaults that depend on the rank ---- */

/* Calls of two spatial axes with every attribute that their rows leave out. */
static const struct {
  op_id op;
  const char *types[3];
  const char *window; /* kernel_shape if the operator has a default for it */
} ranked[] = {{OP_Conv, {"f32[n,4,h,w]", "f32[4,4,3,2]"}, "3,2"},
              {OP_ConvTranspose, {"f32[n,4,h,w]", "f32[4,4,3,2]"}, "3,2"},
              {OP_DeformConv, {"f32[n,4,h,w]", "f32[4,4,3,2]", "f32[n,12,a,b]"}, "3,2"},
              {OP_AveragePool, {"f32[n,4,h,w]"}, NULL},
              {OP_MaxPool, {"f32[n,4,h,w]"}, NULL},
              {OP_LpPool, {"f32[n,4,h,w]"}, NULL},
              {OP_Col2Im, {"f32[n,16,l]", "i64[2]", "i64[2]"}, NULL}};
enum { N_RANKED = sizeof ranked / sizeof *ranked };

/* The bytes of the module of one call; name NULL: no attribute beside the required ones. */
static compiled ranked_module(int which, const char *name, const char *numbers) {
  static const char *const names[] = {"in0", "in1", "in2"};
  const reed_op *op = op_builtin(ranked[which].op);
  onnx_build *b = build_open(ONNX_OPSET_MAX);
  char inputs[32] = "";
  for (int i = 0; i < 3 && ranked[which].types[i]; i++) {
    build_input(b, names[i], ranked[which].types[i]);
    snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? "," : "", names[i]);
  }
  build_node_t *n = build_node(b, op->name, inputs, "y");
  build_required(b, n, op);
  if (name) build_ints(b, n, name, numbers);
  build_output(b, "y", "f32");
  return compiled_of(b);
}

static void expect_module(int which, const char *name, const char *numbers, bool same) {
  compiled omitted = ranked_module(which, NULL, NULL), given = ranked_module(which, name, numbers);
  ck_assert_msg(omitted.status == REED_OK, "%s", omitted.message);
  ck_assert_msg(given.status == REED_OK, "%s", given.message);
  ck_assert_msg(same == (omitted.n == given.n && memcmp(omitted.bytes, given.bytes, given.n) == 0), "%s, %s = %s",
                op_builtin(ranked[which].op)->name, name, numbers);
  mem_free(omitted.bytes);
  mem_free(given.bytes);
}

START_TEST(a_list_of_defaults_for_each_axis_gives_the_module_without_it) {
  int n_lists = 0, n_rows = 0;
  for (int which = 0; which < N_RANKED; which++) {
    const reed_op *op = op_builtin(ranked[which].op);
    for (int32_t i = 0; i < op->n_attrs; i++) {
      const reed_op_attr *row = &op->attrs[i];
      if (!row->each) continue;
      bool pads = strcmp(row->name, "pads") == 0;
      char numbers[32];
      snprintf(numbers, sizeof numbers, pads ? "%d,%d,%d,%d" : "%d,%d", (int)*row->each, (int)*row->each,
               (int)*row->each, (int)*row->each);
      expect_module(which, row->name, numbers, true);
      if (strcmp(row->name, "output_padding") != 0) expect_module(which, row->name, pads ? "0,0,1,0" : "1,2", false);
      n_lists++;
    }
    if (ranked[which].window) expect_module(which, "kernel_shape", ranked[which].window, true);
  }
  for (int id = 0; id < OP_COUNT; id++)
    for (int32_t i = 0; i < op_builtin((op_id)id)->n_attrs; i++) n_rows += op_builtin((op_id)id)->attrs[i].each != NULL;
  ck_assert_int_eq(n_lists, n_rows); /* the table above lacks an operator */
}
END_TEST

START_TEST(lists_of_a_wrong_length_are_refused_although_they_hold_defaults) {
  for (int which = 0; which < N_RANKED; which++) {
    compiled c = ranked_module(which, "strides", "1,1,1");
    ck_assert_int_eq(c.status, REED_ERROR_SHAPE);
    ck_assert_ptr_nonnull(strstr(c.message, "attribute strides has 3 numbers where 2 are wanted"));
    mem_free(c.bytes);
  }
  compiled c = ranked_module(0, "kernel_shape", "2,3");
  ck_assert_int_eq(c.status, REED_ERROR_SHAPE);
  mem_free(c.bytes);
}
END_TEST

START_TEST(a_transpose_without_perm_is_the_one_that_reverses_the_axes) {
  compiled c[2];
  for (int i = 0; i < 2; i++) {
    onnx_build *b = build_open(ONNX_OPSET_MAX);
    build_input(b, "x", "f32[n,3,m]");
    build_node_t *n = build_node(b, "Transpose", "x", "y");
    if (i) build_ints(b, n, "perm", "2,1,0");
    build_output(b, "y", "f32");
    c[i] = compiled_of(b);
    ck_assert_msg(c[i].status == REED_OK, "%s", c[i].message);
  }
  ck_assert(c[0].n == c[1].n && memcmp(c[0].bytes, c[1].bytes, c[0].n) == 0);
  for (int i = 0; i < 2; i++) mem_free(c[i].bytes);
}
END_TEST

/* Another value is written, and not taken for the row's. */
START_TEST(another_value_gives_another_module) {
  static const struct {
    op_id op;
    const char *attr;
    double number;
    const char *word;
  } cases[] = {{OP_Softmax, "axis", 0},
               {OP_LeakyRelu, "alpha", 0.02},
               {OP_Elu, "alpha", 0},
               {OP_ReduceSum, "keepdims", 0},
               {OP_Resize, "mode", 0, "linear"},
               {OP_LayerNormalization, "epsilon", 1e-6},
               {OP_Gelu, "approximate", 0, "tanh"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const reed_op *op = op_builtin(cases[i].op);
    const reed_op_attr *row = op_attr_row(op, cases[i].attr);
    const reed_attr other = {.i = (int64_t)cases[i].number, .f = cases[i].number, .s = cases[i].word};
    reed_op_attr changed = *row;
    changed.otherwise = &other;
    compiled a = module_of(op, NULL), b = module_of(op, &changed);
    ck_assert_msg(b.status == REED_OK, "%s", b.message);
    ck_assert_msg(a.n != b.n || memcmp(a.bytes, b.bytes, a.n) != 0, "%s: the same bytes", op->name);
    mem_free(a.bytes);
    mem_free(b.bytes);
  }
}
END_TEST

START_TEST(cse_shares_a_spelled_and_an_omitted_default) {
  for (int axis = -1; axis < 1; axis++) {
    onnx_build *b = build_open(ONNX_OPSET_MAX);
    build_input(b, "x", "f32[n,4]");
    build_node(b, "Softmax", "x", "p");
    build_int(b, build_node(b, "Softmax", "x", "q"), "axis", axis);
    build_node(b, "Sub", "p,q", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_int_eq(front_count(&f, OP_Softmax), axis == -1 ? 1 : 2);
    front_fini(&f);
  }
}
END_TEST

/* A node made by a pass has the row's values, keeps them when one is set and dropped, and gets those of another row. */
START_TEST(nodes_are_complete_however_they_are_edited) {
  front f = {0};
  ck_assert_int_eq(ir_module_open(NULL, &f.diagnosis, &f.m), REED_OK);
  ir_value *x = ir_value_new(f.m->main, "x");
  ir_node *n = ir_node_new(f.m->main, NULL, op_builtin(OP_TopK), NULL, (ir_value *[]){x, x}, 2, NULL, 2);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_int_eq(attrs.n, 4);
  ck_assert_int_eq(op_attr_int(&attrs, "axis"), -1);
  ck_assert(ir_set_attr_int(n, "axis", 2));
  attrs = ir_attrs(n);
  ck_assert_int_eq(attrs.n, 4);
  ck_assert_int_eq(op_attr_int(&attrs, "axis"), 2);
  ck_assert(ir_drop_attr(n, "axis"));
  attrs = ir_attrs(n);
  ck_assert_int_eq(op_attr_int(&attrs, "axis"), -1);
  ck_assert(ir_set_op(n, op_builtin(OP_Gather)));
  attrs = ir_attrs(n);
  ck_assert_int_eq(attrs.n, 1);
  ck_assert_int_eq(op_attr_int(&attrs, "axis"), 0);
  ir_clear_attrs(n);
  ck_assert(ir_set_attr_int(n, "axis", 1) && ir_complete_attrs(n));
  attrs = ir_attrs(n);
  ck_assert_int_eq(attrs.n, 1);
  ck_assert_int_eq(op_attr_int(&attrs, "axis"), 1);
  front_fini(&f);
}
END_TEST

/* ---- the passes' own tables ---- */

typedef struct exempt {
  const char *reason, *operators; /* names between spaces */
} exempt;

static bool is_listed(const char *names, const char *name) {
  size_t n = strlen(name);
  for (const char *p = names; (p = strstr(p, name)); p += n)
    if ((p == names || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
  return false;
}

/* Every operator has a row in the pass's table, or stands in the list with the reason why it has none; never both. */
static void covers(const char *table, bool (*has_rule)(const reed_op *op), const exempt *list, size_t n) {
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    int n_listed = 0;
    for (size_t i = 0; i < n; i++) n_listed += is_listed(list[i].operators, op->name);
    ck_assert_msg(n_listed < 2, "%s: %s is listed twice", table, op->name);
    ck_assert_msg(has_rule(op) || n_listed, "%s: %s has no rule: give it one, or a reason here", table, op->name);
    ck_assert_msg(!has_rule(op) || !n_listed, "%s: %s has a rule and is listed as having none", table, op->name);
  }
}
#define COVERS(table, has_rule, list) covers(table, has_rule, list, sizeof(list) / sizeof *(list))

static bool layout_has_rule(const reed_op *op) { return layout_rule_of(op) != NULL; }

START_TEST(every_operator_has_a_layout_rule_or_a_reason) {
  static const exempt list[] = {
      {"its data has no axes of an image, or too few elements to matter",
       "Constant ConstantOfShape RandomNormal RandomUniform Range Size EyeLike OneHot NonMaxSuppression"},
      {"elements move by index: which one goes where depends on the order of the axes",
       "GatherElements GatherND ScatterElements ScatterND ReverseSequence Compress NonZero Unique Tile Trilu CumSum "
       "TensorScatter"},
      {"its axes have meanings of their own, which are not an image's",
       "Gemm MatMul Attention RotaryEmbedding GRU LSTM RNN PasteMasks LayerNormalization RMSNormalization"},
      {"its columns have no axes of an image, and its image comes channels second", "Col2Im"},
      {"gradients, which no exported model has",
       "roi_align_backward roi_pool_backward ps_roi_align_backward ps_roi_pool_backward deform_conv2d_backward"},
      {"boxes are no image", "nms"},
      {"simplify removes it before", "Dropout"},
      {"made after the layout pass", "Fused FusedColumns"},
      {"regions have no operands that are stored in an order", "If Loop Scan"},
  };
  COVERS("layout", layout_has_rule, list);
}
END_TEST

START_TEST(every_operator_follows_integers_or_has_a_reason) {
  static const exempt list[] = {
      {"floats only, or numbers that no shape is made of",
       "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp HardSwish Log Mish Reciprocal Sigmoid Sin Sinh Softplus "
       "Softsign Sqrt Tan Tanh Celu Elu Gelu HardSigmoid LeakyRelu Selu Shrink Swish ThresholdedRelu IsInf IsNaN PRelu "
       "Mean Sum Pow Sign Relu BitwiseNot BitwiseAnd BitwiseOr BitwiseXor BitShift"},
      {"over data: images, matrices, sequences, regions",
       "Conv ConvTranspose Gemm MatMul Attention RotaryEmbedding AveragePool MaxPool LpPool GlobalAveragePool "
       "GlobalLpPool "
       "GlobalMaxPool BatchNormalization GroupNormalization InstanceNormalization LayerNormalization RMSNormalization "
       "Softmax Hardmax LpNormalization LogSoftmax GRU LSTM RNN Resize Upsample RoiAlign MultiLevelRoiAlign PasteMasks "
       "MaxRoiPool roi_align roi_pool ps_roi_align ps_roi_pool roi_align_backward roi_pool_backward "
       "ps_roi_align_backward ps_roi_pool_backward nms deform_conv2d deform_conv2d_backward DeformConv "
       "Keypoints NonMaxSuppression DepthToSpace SpaceToDepth Col2Im GridSample"},
      {"not met in the shape arithmetic of exported models",
       "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceSumSquare ArgMax ArgMin CumSum TopK Tile Pad "
       "OneHot EyeLike Trilu GatherElements GatherND ScatterElements ScatterND ReverseSequence TensorScatter Dropout "
       "RandomNormal RandomUniform"},
      {"how many there are is known when its kernel has run", "Compress NonZero Unique"},
      {"import makes constants of it", "Constant"},
      {"made after the last inference", "Fused FusedColumns"},
      {"the passes over regions join what leaves them", "If Loop Scan"},
  };
  COVERS("integer values", integer_values_has_rule, list);
}
END_TEST

START_TEST(every_operator_has_a_rule_of_signs_or_a_reason) {
  static const exempt list[] = {
      {"negative for operands that are not, or for any",
       "Neg Sub Log Cos Sin Tan Acos Asin Atan Asinh Acosh Atanh Sinh Tanh Mod BitwiseNot BitwiseXor Celu Elu Gelu "
       "HardSwish Mish LeakyRelu Selu Shrink Swish ThresholdedRelu Softsign PRelu Erf Sign Round Pad Conv "
       "ConvTranspose "
       "Gemm MatMul Attention RotaryEmbedding BatchNormalization GroupNormalization InstanceNormalization "
       "LayerNormalization "
       "RMSNormalization LogSoftmax LpNormalization GRU LSTM RNN Resize Upsample GridSample CumSum Trilu "
       "RandomNormal RandomUniform"},
      {"could have one, and no model that is looked at needs it",
       "Add Mul Div Pow Sum Mean Reciprocal Cosh Softplus HardSigmoid PasteMasks Keypoints RoiAlign MultiLevelRoiAlign "
       "AveragePool MaxPool LpPool GlobalAveragePool GlobalLpPool GlobalMaxPool Hardmax DepthToSpace SpaceToDepth "
       "Compress Unique NonMaxSuppression TopK ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean "
       "ReduceProd ReduceSum ReduceSumSquare OneHot EyeLike ReverseSequence ScatterElements ScatterND TensorScatter "
       "BitShift "
       "BitwiseAnd BitwiseOr ConstantOfShape Dropout Col2Im "
       "MaxRoiPool roi_align roi_pool ps_roi_align ps_roi_pool roi_align_backward roi_pool_backward "
       "ps_roi_align_backward ps_roi_pool_backward nms deform_conv2d deform_conv2d_backward DeformConv"},
      {"truths", "And Or Xor Not Equal Greater GreaterOrEqual Less LessOrEqual IsInf IsNaN"},
      {"import makes constants of it", "Constant"},
      {"made after the passes that ask", "Fused FusedColumns"},
      {"regions", "If Loop Scan"},
  };
  COVERS("signs", nonnegative_has_rule, list);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("op_table");
  TCase *c = tcase_create("op_table");
  tcase_set_timeout(c, 60);
  suite_add_tcase(suite, c);
  tcase_add_test(c, a_spelled_default_and_an_omitted_one_give_the_same_module);
  tcase_add_test(c, another_value_gives_another_module);
  tcase_add_test(c, a_list_of_defaults_for_each_axis_gives_the_module_without_it);
  tcase_add_test(c, lists_of_a_wrong_length_are_refused_although_they_hold_defaults);
  tcase_add_test(c, a_transpose_without_perm_is_the_one_that_reverses_the_axes);
  tcase_add_test(c, cse_shares_a_spelled_and_an_omitted_default);
  tcase_add_test(c, nodes_are_complete_however_they_are_edited);
  tcase_add_test(c, every_operator_has_a_layout_rule_or_a_reason);
  tcase_add_test(c, every_operator_follows_integers_or_has_a_reason);
  tcase_add_test(c, every_operator_has_a_rule_of_signs_or_a_reason);
  return suite_run(suite);
}
