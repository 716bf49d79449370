/* Facts of ONNX that the operator table must agree with, the texts of refused calls, and custom operators. Each row by
 * itself: test_rows.c. */
#include <check.h>
#include <stdio.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "ops/bound.h"
#include "ops/capability.h"
#include "ops/kernel.h"
#include "ops/op.h"
#include "reed/reed.h"
#include "shapefuncs/shapefn.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "shapefuncs/table.h"

/* ---- the table ---- */

/* Which inputs' values decide extents, from the ONNX operator definitions (opset 23): V where the value is needed, 0
 * where not, per input in order; in front, per output, U where only a bound is known before the kernel has run and E
 * where the extents are exact (no letter: exact). Operators that are not listed are in test_rows.c only. */
static const struct {
  const char *name, *flags;
} value_reads[] = {
    {"Reshape", "0V"},
    {"Expand", "0V"},
    {"Slice", "0VVVV"},
    {"Tile", "0V"},
    {"Pad", "0V0V"},
    {"Split", "0V"},
    {"Squeeze", "0V"},
    {"Unsqueeze", "0V"},
    {"ReduceL1", "0V"},
    {"ReduceL2", "0V"},
    {"ReduceMax", "0V"},
    {"ReduceMean", "0V"},
    {"ReduceMin", "0V"},
    {"ReduceProd", "0V"},
    {"ReduceSum", "0V"},
    {"ReduceLogSum", "0V"},
    {"ReduceLogSumExp", "0V"},
    {"ReduceSumSquare", "0V"},
    {"OneHot", "0V0"},
    {"Resize", "0VVV"},
    {"Upsample", "0VV"},
    {"TopK", "0V"},
    {"Range", "VVV"},
    {"ConstantOfShape", "V"},
    {"RandomNormal", "V"},
    {"RandomUniform", "V"},
    {"If", "V"},
    {"Loop", "VV0"},
    {"NonZero", "U0"},
    {"Compress", "U00"},
    {"Unique", "UUEU0"},
    /* of NonMaxSuppression only the limit: boxes and scores stay where they are and the kernel reports the count */
    {"NonMaxSuppression", "U00V00"},
    {"MaxRoiPool", "00"},
    {"Col2Im", "0VV"},
    {"PasteMasks", "00VV"}};

START_TEST(values_are_read_where_onnx_needs_them) {
  for (size_t k = 0; k < sizeof value_reads / sizeof *value_reads; k++) {
    const reed_op *op = op_find(NULL, "", value_reads[k].name);
    const char *flags = value_reads[k].flags;
    ck_assert_msg(op != NULL, "%s is missing", value_reads[k].name);
    size_t n_letters = strspn(flags, "UE");
    for (int32_t i = 0; i < op->n_outputs; i++)
      ck_assert_msg(op->outputs[i].bounded == ((size_t)i < n_letters && flags[i] == 'U'), "%s output %d", op->name, i);
    flags += n_letters;
    for (int32_t i = 0; i < op->n_inputs; i++) {
      bool wanted = strlen(flags) > (size_t)i && flags[i] == 'V';
      ck_assert_msg(((op->inputs[i].reads & REED_READS_VALUE) != 0) == wanted, "%s input %d (%s)", op->name, i,
                    op->inputs[i].name);
    }
  }
}
END_TEST

START_TEST(variadic_operands_repeat) {
  const reed_op *concat = op_find(NULL, "", "Concat"), *add = op_find(NULL, "", "Add"),
                *split = op_find(NULL, "", "Split");
  ck_assert_ptr_eq(reed_op_input_at(concat, 0), reed_op_input_at(concat, 99));
  ck_assert_ptr_eq(reed_op_output_at(split, 0), reed_op_output_at(split, 7));
  ck_assert_ptr_null(reed_op_input_at(add, 2));
  ck_assert_ptr_null(reed_op_input_at(add, -1));
  ck_assert_ptr_null(reed_op_input_at(op_find(NULL, "", "Constant"), 0));
}
END_TEST

/* ---- calls against the table ---- */

static void expect_check(const char *op, const reed_attr *attr, int32_t n_inputs, const reed_dtype *dtypes,
                         int32_t n_outputs, reed_status status, const char *message) {
  reed_diagnosis *d = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_attrs attrs = {attr, attr != NULL};
  ck_assert_int_eq(shapefn_check_call(op_find(NULL, "", op), &attrs, "n", n_inputs, dtypes, n_outputs, d), status);
  ck_assert_str_eq(reed_diagnosis_message(d), message);
  reed_diagnosis_close(&d);
}

START_TEST(calls_are_checked_against_the_row) {
  const reed_dtype floats[] = {REED_F32, REED_F32, REED_F32, REED_F32, REED_F32, REED_F32},
                   mixed[] = {REED_F32, REED_F64}, ints[] = {REED_I64, REED_I64};
  const reed_dtype absent[] = {REED_F32, REED_NONE, REED_F32}, wild[] = {REED_F32, (reed_dtype)77};
  const reed_attr axis = {.name = "axis", .type = REED_ATTR_INT},
                  text = {.name = "axis", .type = REED_ATTR_STRING, .s = "x"}, other = {.name = "axes"};
  expect_check("Add", NULL, 2, floats, 1, REED_OK, "");
  expect_check("Clip", NULL, 3, absent, 1, REED_OK, "");
  expect_check("Clip", NULL, 1, floats, 1, REED_OK, "");
  expect_check("Concat", &axis, 6, floats, 1, REED_OK, "");
  expect_check("Loop", NULL, 0, NULL, 3, REED_OK, "");
  expect_check("MaxPool", NULL, 1, floats, 1, REED_ERROR_TYPE, "MaxPool node 'n': attribute 'kernel_shape' is missing");
  expect_check("Concat", &text, 1, floats, 1, REED_ERROR_TYPE,
               "Concat node 'n': attribute 'axis' is a string where an int is wanted");
  expect_check("Softmax", &other, 1, floats, 1, REED_ERROR_UNSUPPORTED,
               "Softmax node 'n': attribute 'axes' is not known");
  expect_check("Concat", &axis, 0, NULL, 1, REED_ERROR_TYPE, "Concat node 'n': input 0 (inputs[0]) is missing");
  expect_check("Add", NULL, 1, floats, 1, REED_ERROR_TYPE, "Add node 'n': input 1 (B) is missing");
  expect_check("Add", NULL, 3, absent, 1, REED_ERROR_TYPE, "Add node 'n': input 1 (B) is missing");
  expect_check("Add", NULL, 3, floats, 1, REED_ERROR_TYPE, "Add node 'n': has 3 inputs, at most 2 are allowed");
  expect_check("Add", NULL, 2, mixed, 1, REED_ERROR_TYPE,
               "Add node 'n': input 1 (B) is f64, input 0 is f32: they must have the same dtype");
  expect_check("Add", NULL, 2, wild, 1, REED_ERROR_TYPE,
               "Add node 'n': input 1 (B) is ?; allowed are f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64");
  expect_check("Exp", NULL, 1, ints, 1, REED_ERROR_TYPE,
               "Exp node 'n': input 0 (X) is i64; allowed are f32 f64 f16 bf16");
  expect_check("Exp", NULL, 1, floats, 2, REED_ERROR_TYPE, "Exp node 'n': has 2 outputs, at most 1 are allowed");
  expect_check("Exp", NULL, 1, floats, 0, REED_ERROR_TYPE, "Exp node 'n': has 0 outputs, at least 1 are wanted");
}
END_TEST

/* ---- custom operators ---- */

static reed_status double_shape(reed_shape_call *call) {
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = reed_dim_mul(call, call->inputs[0].dims[0], 2);
  return REED_OK;
}

static reed_status silent_shape(reed_shape_call *call) {
  (void)call;
  return REED_ERROR_VALUE;
}

static reed_status negative_shape(reed_shape_call *call) {
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = reed_dim_sub(call, call->inputs[0].dims[0], 9);
  return REED_OK;
}

static reed_status deep_shape(reed_shape_call *call) {
  call->outputs[0].rank = REED_MAX_RANK + 1;
  return REED_OK;
}

static reed_status fresh_shape(reed_shape_call *call) {
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = reed_dim_fresh(call);
  return REED_OK;
}

static reed_status no_kernel(const reed_kernel_call *call, reed_kernel *out_kernel) {
  (void)out_kernel;
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "never runs for %d", 7);
}

static const reed_op_input one_input[] = {{"x", REED_READS_SHAPE, 1u << REED_F32, false, false, false}};
static const reed_op_output one_output[] = {{"y", false, false, false, REED_TYPE_LIKE, 0}};

static reed_op custom(const char *name, reed_shape_fn shape) {
  return (reed_op){.domain = "example",
                   .name = name,
                   .inputs = one_input,
                   .n_inputs = 1,
                   .outputs = one_output,
                   .n_outputs = 1,
                   .shape = shape,
                   .cpu = no_kernel};
}

static const char *run_custom(reed_shape_fn shape, reed_shape_output *output) {
  static char message[512];
  reed_op op = custom("Twice", shape);
  reed_attrs attrs = {0};
  reed_dim dims[] = {6};
  reed_shape_input input = {.dtype = REED_F32, .rank = 1, .dims = dims};
  reed_diagnosis *d = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = shapefn_run(&op, &attrs, "n", 1, &input, 1, output, NULL, d);
  ck_assert_int_eq(status, reed_diagnosis_status(d));
  strncpy(message, reed_diagnosis_message(d), sizeof message - 1);
  reed_diagnosis_close(&d);
  return message;
}

START_TEST(custom_shape_functions_are_checked) {
  reed_shape_output output;
  ck_assert_str_eq(run_custom(double_shape, &output), "");
  ck_assert_int_eq(output.dims[0], 12);
  ck_assert_int_eq(output.dtype, REED_F32);
  ck_assert_str_eq(run_custom(silent_shape, &output), "Twice node 'n': the shape function failed (x f32[6])");
  ck_assert_str_eq(run_custom(negative_shape, &output),
                   "Twice node 'n': output y would have the negative extents [-3] (x f32[6])");
  ck_assert_str_eq(run_custom(deep_shape, &output), "Twice node 'n': output 0 has rank 9 (x f32[6])");
  ck_assert_str_eq(run_custom(fresh_shape, &output),
                   "Twice node 'n': an extent cannot be computed while the program runs (x f32[6])");
}
END_TEST

static reed_registry *open_registry(reed_diagnosis **out_diagnosis) {
  reed_registry *registry = NULL;
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_diagnosis_open(out_diagnosis), REED_OK);
  return registry;
}

START_TEST(custom_operators_are_found_by_domain_and_name) {
  reed_diagnosis *d;
  reed_registry *registry = open_registry(&d);
  reed_op twice = custom("Twice", double_shape);
  ck_assert_int_eq(reed_registry_add(registry, &twice, d), REED_OK);
  ck_assert_ptr_eq(op_find(registry, "example", "Twice"), &twice);
  ck_assert_ptr_null(op_find(registry, "", "Twice"));
  ck_assert_ptr_eq(op_find(registry, "", "Add"), op_builtin(OP_Add));
  ck_assert_int_eq(op_id_of(&twice), OP_COUNT);
  ck_assert(!op_is_control(&twice));
  ck_assert_ptr_eq(op_custom(registry, 0), &twice);
  ck_assert_ptr_null(op_custom(registry, 1));
  reed_registry_close(&registry);
  ck_assert_ptr_null(registry);
  reed_diagnosis_close(&d);
}
END_TEST

static void expect_refused(reed_registry *registry, const reed_op *op, reed_diagnosis *d, const char *message) {
  ck_assert_int_eq(reed_registry_add(registry, op, d), REED_ERROR_ARGUMENT);
  ck_assert_str_eq(reed_diagnosis_message(d), message);
}

START_TEST(taken_names_and_incomplete_structs_are_refused) {
  reed_diagnosis *d;
  reed_registry *registry = open_registry(&d);
  reed_op twice = custom("Twice", double_shape), op = twice;
  ck_assert_int_eq(reed_registry_add(registry, &twice, d), REED_OK);
  expect_refused(registry, &op, d, "operator 'Twice' of domain 'example' is already registered");
  op.domain = "ai.onnx", op.name = "Add";
  expect_refused(registry, &op, d, "operator 'Add' of domain 'ai.onnx' is already registered");
  op = twice, op.name = "";
  expect_refused(registry, &op, d, "custom operator without a name");
  op = twice, op.shape = NULL;
  expect_refused(registry, &op, d, "custom operator 'Twice' has no shape function");
  op = twice, op.cpu = NULL;
  expect_refused(registry, &op, d, "custom operator 'Twice' has no kernel");
  op = twice, op.inputs = NULL;
  expect_refused(registry, &op, d, "custom operator 'Twice' lacks its inputs, outputs or attributes");
  op = twice, op.n_outputs = 0;
  expect_refused(registry, &op, d, "custom operator 'Twice' has a bad number of inputs, outputs or attributes");
  reed_op_input inputs[2] = {one_input[0], one_input[0]};
  op = twice, op.inputs = inputs, op.n_inputs = 2, inputs[0].variadic = true;
  expect_refused(registry, &op, d, "custom operator 'Twice' has a variadic input that is not the last");
  inputs[0].variadic = false, inputs[1].dtypes = 0;
  expect_refused(registry, &op, d, "custom operator 'Twice' has an input with a bad set of dtypes");
  reed_op_output outputs[1] = {one_output[0]};
  op = twice, op.outputs = outputs, outputs[0].type_arg = 1;
  expect_refused(registry, &op, d, "custom operator 'Twice' has an output with a bad dtype rule");
  outputs[0] = (reed_op_output){.name = "y", .type_rule = REED_TYPE_ATTR, .type_attr = "to"};
  expect_refused(registry, &op, d, "custom operator 'Twice' has an output with a bad dtype rule");
  inputs[0] = one_input[0], inputs[0].reads_attr = "mode";
  op = twice, op.inputs = inputs;
  expect_refused(registry, &op, d, "custom operator 'Twice' has an input whose flag depends on half a condition");
  inputs[0].reads_word = "some";
  expect_refused(registry, &op, d, "custom operator 'Twice' has an input whose flag depends on no string attribute");
  const reed_attr nothing = {0};
  reed_op_attr attrs[2] = {{.name = "mode", .type = REED_ATTR_STRING, .otherwise = &nothing}};
  op = twice, op.attrs = attrs, op.n_attrs = 1;
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has an attribute whose value for where it is left out lacks data");
  attrs[0] = (reed_op_attr){.name = "speed", .type = REED_ATTR_INT, .required = true, .otherwise = &nothing};
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has a required attribute with a value for where it is left out");
  attrs[0].required = false, attrs[1] = attrs[0], op.n_attrs = 2;
  expect_refused(registry, &op, d, "custom operator 'Twice' has two attributes of one name");
  op.n_attrs = 1;
  attrs[0] = (reed_op_attr){.name = "speed", .type = REED_ATTR_INT, .each = &(const int64_t){1}};
  expect_refused(
      registry, &op, d,
      "custom operator 'Twice' has a number for each axis for an attribute that is no list, or is never left out");
  attrs[0] = (reed_op_attr){.name = "speed", .type = REED_ATTR_INT, .least = 2, .most = 1};
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has an attribute whose least value is larger than its most");
  attrs[0].least = 1, attrs[0].most = 0;
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has an attribute whose least value is larger than its most");
  attrs[0].most = 1;
  const reed_attr four = {.i = 4, .s = "four"};
  attrs[0].otherwise = &four;
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has an attribute whose value for where it is left out is no valid one");
  attrs[0] = (reed_op_attr){.name = "mode", .type = REED_ATTR_STRING, .least = 1, .most = 4};
  expect_refused(registry, &op, d, "custom operator 'Twice' has a range of numbers for an attribute that is no number");
  attrs[0] = (reed_op_attr){.name = "mode", .type = REED_ATTR_STRING, .words = "one two", .otherwise = &four};
  expect_refused(registry, &op, d,
                 "custom operator 'Twice' has an attribute whose value for where it is left out is no valid one");
  attrs[0] = (reed_op_attr){.name = "mode", .type = REED_ATTR_INT, .words = "one two"};
  expect_refused(registry, &op, d, "custom operator 'Twice' has a list of words for an attribute that is no string");
  op = twice, op.properties = OP_PROPERTY_FUSABLE;
  expect_refused(registry, &op, d, "custom operator 'Twice' has unknown properties");
  ck_assert_ptr_null(op_custom(registry, 1));
  reed_registry_close(&registry);
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(plugins_register_their_operators) {
  reed_diagnosis *d;
  reed_registry *registry = open_registry(&d);
  ck_assert_int_eq(reed_registry_load(registry, getenv("REED_TEST_PLUGIN"), d), REED_OK);
  const reed_op *twice = op_find(registry, "example", "Twice");
  ck_assert_ptr_nonnull(twice);
  reed_shape_output output;
  reed_dim dims[] = {21};
  reed_shape_input input = {.dtype = REED_F32, .rank = 1, .dims = dims};
  reed_attrs attrs = {0};
  ck_assert_int_eq(shapefn_run(twice, &attrs, "n", 1, &input, 1, &output, NULL, d), REED_OK);
  ck_assert_int_eq(output.dims[0], 42);
  ck_assert_int_eq(reed_registry_load(registry, getenv("REED_TEST_PLUGIN"), d), REED_ERROR_ARGUMENT);
  ck_assert_str_eq(reed_diagnosis_message(d), "operator 'Twice' of domain 'example' is already registered");
  ck_assert_ptr_eq(op_find(registry, "example", "Twice"), twice);
  reed_registry_close(&registry);
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(a_plugin_that_fails_leaves_nothing) {
  reed_diagnosis *d;
  reed_registry *registry = open_registry(&d);
  ck_assert_int_eq(reed_registry_load(registry, getenv("REED_TEST_PLUGIN_REFUSES"), d), REED_ERROR_ARGUMENT);
  ck_assert_ptr_null(op_custom(registry, 0));
  ck_assert_int_eq(reed_registry_load(registry, "/nowhere/plugin.so", d), REED_ERROR_IO);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(d), "cannot load plugin '/nowhere/plugin.so'"));
  ck_assert_int_eq(reed_registry_load(registry, "", d), REED_ERROR_ARGUMENT);
  ck_assert_str_eq(reed_diagnosis_message(d), "reed_registry_load: a registry and a path are needed");
  reed_registry_close(&registry);
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(kernels_diagnose_by_operator_and_node) {
  reed_diagnosis *d = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_op op = custom("Twice", double_shape);
  reed_kernel_call call = {.op = &op, .node = "layer/7", .diagnosis = d};
  reed_kernel kernel;
  ck_assert_int_eq(op.cpu(&call, &kernel), REED_ERROR_UNSUPPORTED);
  ck_assert_str_eq(reed_diagnosis_message(d), "Twice node 'layer/7': never runs for 7");
  ck_assert_str_eq(reed_diagnosis_node(d), "layer/7");
  reed_diagnosis_close(&d);
}
END_TEST

/* ---- JSON ---- */

START_TEST(the_table_is_printed_as_json) {
  reed_diagnosis *d;
  reed_registry *registry = open_registry(&d);
  reed_op odd = custom("Odd \"name\"\n", double_shape);
  char *json = NULL;
  ck_assert_int_eq(reed_registry_add(registry, &odd, d), REED_OK);
  ck_assert_int_eq(reed_operators_json(registry, &json, d), REED_OK);
  cJSON *root = cJSON_Parse(json);
  ck_assert_ptr_nonnull(root);
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "operators"), *op, *slice = NULL, *concat = NULL,
              *last = NULL;
  ck_assert_int_eq(cJSON_GetArraySize(list), OP_COUNT + 1);
  cJSON_ArrayForEach(op, list) {
    last = op;
    if (strcmp(cJSON_GetObjectItemCaseSensitive(op, "name")->valuestring, "Slice") == 0) slice = op;
    if (strcmp(cJSON_GetObjectItemCaseSensitive(op, "name")->valuestring, "Concat") == 0) concat = op;
  }
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(last, "name")->valuestring, "Odd \"name\"\n");
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(last, "custom")));
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(slice, "class")->valuestring, "light");
  /* the last word of the list of aliases */
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(concat, "alias")->valuestring, "join");
  const cJSON *starts = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(slice, "inputs"), 1);
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(starts, "reads")->valuestring, "value");
  const cJSON *add = cJSON_GetArrayItem(list, OP_Add), *leaky = cJSON_GetArrayItem(list, OP_LeakyRelu),
              *resize = cJSON_GetArrayItem(list, OP_Resize), *cast = cJSON_GetArrayItem(list, OP_Cast),
              *conv = cJSON_GetArrayItem(list, OP_Conv), *shape = cJSON_GetArrayItem(list, OP_Shape);
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(add, "fusable")));
  ck_assert(!cJSON_GetObjectItemCaseSensitive(conv, "fusable"));
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(conv, "packable")));
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(shape, "extents_only")));
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(shape, "any_rank")));
  const cJSON *alpha = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(leaky, "attributes"), 0);
  ck_assert_double_eq_tol(cJSON_GetObjectItemCaseSensitive(alpha, "default")->valuedouble, 0.01, 1e-9);
  const cJSON *roi = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(resize, "inputs"), 1);
  const cJSON *condition = cJSON_GetObjectItemCaseSensitive(roi, "reads_if");
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(condition, "coordinate_transformation_mode")->valuestring,
                   "tf_crop_and_resize");
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(
      cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(cast, "outputs"), 0), "dtype");
  ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(dtype, "attribute")->valuestring, "to");
  cJSON_Delete(root);
  free(json);
  reed_registry_close(&registry);
  reed_diagnosis_close(&d);
}
END_TEST

/* The words of a JSON list with a blank after each. */
static void join_words(const cJSON *list, char *out, size_t capacity) {
  const cJSON *word;
  size_t n = 0;
  *out = 0;
  cJSON_ArrayForEach(word, list) n += (size_t)snprintf(out + n, capacity - n, "%s ", word->valuestring);
}

/* An operator's devices are the devices whose lists have it, each with the dtypes and attributes that the list
 * excludes. */
START_TEST(the_json_has_the_devices_with_kernels) {
  char *json = NULL;
  capability *cuda = NULL;
  int n_cuda = 0, n_excluded = 0;
  ck_assert_int_eq(reed_operators_json(NULL, &json, NULL), REED_OK);
  ck_assert_int_eq(capability_open("cuda", NULL, &cuda, NULL), REED_OK);
  cJSON *root = cJSON_Parse(json);
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "operators");
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, id), "devices"),
                *on = cJSON_GetObjectItemCaseSensitive(devices, "cuda");
    ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(devices, "host") != NULL, !op_is_control(op));
    ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(devices, "sim") != NULL, !op_is_control(op));
    ck_assert_int_eq(on != NULL, cJSON_GetObjectItemCaseSensitive(devices, "cuda-emulated") != NULL);
    if (!op_is_control(op)) ck_assert_int_eq(on != NULL, capability_has(cuda, &(capability_call){.op = op}));
    n_cuda += on != NULL;
    n_excluded += on && *on->valuestring;
  }
  ck_assert_int_gt(n_cuda, 50);
  ck_assert_int_lt(n_cuda, OP_COUNT);
  cJSON_Delete(root);
  capability_close(&cuda);
  free(json);
  /* Items of both lists, as a user writes them */
  text_buffer text = {0};
  ck_assert_int_eq(capability_open("sim?only=TopK+Relu.f32&lacks=TopK.f64+*@mode=cubic+Relu", NULL, &cuda, NULL),
                   REED_OK);
  ck_assert(capability_of_op(cuda, op_builtin(OP_TopK), &text));
  ck_assert_str_eq(text.data, "f64"); /* TopK has no mode */
  ck_assert(!capability_of_op(cuda, op_builtin(OP_Relu), &text) && !capability_of_op(cuda, op_builtin(OP_Add), &text));
  text_fini(&text);
  capability_close(&cuda);
}
END_TEST

/* Without `counts` a target's kernels run at every bound; with it the kernels of the named operators do. A list names
 * no operator without a rule for bounds, because the host fetches the count for such an operator anyway. */
START_TEST(a_target_names_the_operators_that_run_at_a_bound) {
  capability *c;
  ck_assert_int_eq(capability_open("sim", NULL, &c, NULL), REED_OK);
  ck_assert(capability_reads_counts(c, &(capability_call){.op = op_builtin(OP_Conv)}));
  capability_close(&c);
  ck_assert_int_eq(capability_open("sim?counts=Conv.f32+Resize@mode=cubic,sim", NULL, &c, NULL), REED_OK);
  const reed_dtype f32 = REED_F32, f64 = REED_F64;
  ck_assert(capability_reads_counts(
      c, &(capability_call){.op = op_builtin(OP_Conv), .dtypes = &f32, .n_inputs = 1, .n_dtypes = 1}));
  ck_assert(!capability_reads_counts(
      c, &(capability_call){.op = op_builtin(OP_Conv), .dtypes = &f64, .n_inputs = 1, .n_dtypes = 1}));
  ck_assert(!capability_reads_counts(c, &(capability_call){.op = op_builtin(OP_Resize)}));
  ck_assert(!capability_reads_counts(c, &(capability_call){.op = op_builtin(OP_Add)}));
  ck_assert(capability_has(c, &(capability_call){.op = op_builtin(OP_Add)}));
  capability_close(&c);
  ck_assert_int_eq(capability_open("cuda", NULL, &c, NULL), REED_OK);
  int n = 0;
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    const capability_call call = {.op = op};
    if (!capability_reads_counts(c, &call)) continue;
    ck_assert_msg(capability_has(c, &call), "cuda has no kernel for %s", op->name);
    ck_assert_msg(bound_may_pass(op, 0) || bound_may_pass(op, 1), "%s has no rule for bounds", op->name);
    n++;
  }
  ck_assert_int_gt(n, 80);
  capability_close(&c);
}
END_TEST

/* Counts stay on the device by default if no target of the list is the host. An option that opens a library names the
 * operators whose plans the library makes; its number 0 opens none. The device has their calls and runs them at a bound
 * all the same. */
START_TEST(a_list_of_targets_keeps_counts_and_has_libraries) {
  static const struct {
    const char *targets;
    bool keep;
    const char *conv, *gemm;
  } lists[] = {{NULL, false, NULL, NULL},
               {"cuda,host", false, NULL, NULL},
               {"sim,cuda", true, NULL, NULL},
               {"cuda:1?cudnn=0&cublas=0", true, NULL, NULL},
               {"cuda?cudnn=1", true, "cudnn", NULL},
               {"sim,cuda-emulated?cublas=2&cudnn=2", true, "cudnn", "cublas"}};
  capability *c;
  const capability_call conv = {.op = op_builtin(OP_Conv)}, gemm = {.op = op_builtin(OP_Gemm)},
                        relu = {.op = op_builtin(OP_Relu)};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    ck_assert_int_eq(capability_open(lists[i].targets, NULL, &c, NULL), REED_OK);
    ck_assert_msg(capability_keeps_counts(c) == lists[i].keep, "%s", capability_text(c));
    ck_assert_pstr_eq(capability_library(c, &conv), lists[i].conv);
    ck_assert_pstr_eq(capability_library(c, &gemm), lists[i].gemm);
    ck_assert_ptr_null(capability_library(c, &relu));
    ck_assert(capability_has(c, &conv) && capability_has(c, &relu) && capability_reads_counts(c, &conv));
    capability_close(&c);
  }
}
END_TEST

/* Every attribute's members `words`, `least` and `most` are the row's; an attribute without limits has none of them. */
START_TEST(the_json_has_the_valid_values_of_attributes) {
  char *json = NULL;
  int n_words = 0, n_ranges = 0, n_free = 0;
  ck_assert_int_eq(reed_operators_json(NULL, &json, NULL), REED_OK);
  cJSON *root = cJSON_Parse(json);
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "operators");
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, id), "attributes");
    ck_assert_int_eq(cJSON_GetArraySize(attrs), op->n_attrs);
    for (int32_t i = 0; i < op->n_attrs; i++) {
      const reed_op_attr *row = &op->attrs[i];
      const cJSON *attr = cJSON_GetArrayItem(attrs, i), *words = cJSON_GetObjectItemCaseSensitive(attr, "words"),
                  *least = cJSON_GetObjectItemCaseSensitive(attr, "least"),
                  *most = cJSON_GetObjectItemCaseSensitive(attr, "most");
      const bool ranged = row->least || row->most;
      ck_assert_msg(!words == !row->words && !least == !ranged && !most == (!ranged || row->most == INT64_MAX), "%s.%s",
                    op->name, row->name);
      if (words) {
        char joined[512], wanted[512];
        join_words(words, joined, sizeof joined);
        snprintf(wanted, sizeof wanted, "%s%s", row->words, row->words[strlen(row->words) - 1] == ' ' ? "" : " ");
        ck_assert_str_eq(joined, wanted);
      }
      if (least) ck_assert_double_eq(least->valuedouble, (double)row->least);
      if (most) ck_assert_double_eq(most->valuedouble, (double)row->most);
      n_words += words != NULL, n_ranges += ranged, n_free += !words && !ranged;
    }
  }
  ck_assert(n_words > 10 && n_ranges > 10 && n_free > 10);
  cJSON_Delete(root);
  free(json);
}
END_TEST

START_TEST(every_failed_allocation_is_reported) {
  for (int64_t n = 1;; n++) {
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    reed_registry *registry = NULL;
    reed_op twice = custom("Twice", double_shape);
    reed_status status = reed_registry_open(&registry);
    if (!status) status = reed_registry_add(registry, &twice, NULL);
    if (!status)
      status = reed_registry_load(registry, getenv("REED_TEST_PLUGIN"), NULL) == REED_ERROR_ARGUMENT
                   ? REED_OK
                   : REED_ERROR_MEMORY;
    if (registry) reed_registry_close(&registry);
    bool reached = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_int_eq(status, reached ? REED_ERROR_MEMORY : REED_OK);
    if (!reached) break;
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("registry");
  TCase *tests = tcase_create("operators");
  tcase_add_test(tests, values_are_read_where_onnx_needs_them);
  tcase_add_test(tests, variadic_operands_repeat);
  tcase_add_test(tests, calls_are_checked_against_the_row);
  tcase_add_test(tests, custom_shape_functions_are_checked);
  tcase_add_test(tests, custom_operators_are_found_by_domain_and_name);
  tcase_add_test(tests, taken_names_and_incomplete_structs_are_refused);
  tcase_add_test(tests, plugins_register_their_operators);
  tcase_add_test(tests, a_plugin_that_fails_leaves_nothing);
  tcase_add_test(tests, kernels_diagnose_by_operator_and_node);
  tcase_add_test(tests, the_table_is_printed_as_json);
  tcase_add_test(tests, the_json_has_the_devices_with_kernels);
  tcase_add_test(tests, a_target_names_the_operators_that_run_at_a_bound);
  tcase_add_test(tests, a_list_of_targets_keeps_counts_and_has_libraries);
  tcase_add_test(tests, the_json_has_the_valid_values_of_attributes);
  tcase_add_test(tests, every_failed_allocation_is_reported);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
