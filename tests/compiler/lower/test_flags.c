/* Properties of a call in the operator table, from the compiler to the run: a flag that depends on an attribute
 * (Resize's roi), and properties of custom operators: defaults of attributes, flags `value` and `both`, a dtype from an
 * attribute. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "reed/compiler.h"
#include "tests/compiler/lower/graph.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"

#define DIMS(...) \
  (const int64_t[]) { __VA_ARGS__ }

/* ---- Resize's roi ---- */

/* Resizes x to twice its height and width with a roi that the device computes: the region is the whole of x. */
static lowered resized(const char *mapping) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 4, DIMS(1, 1, 2, 2)),
           *r = graph_param(m->main, "r", REED_F32, 1, DIMS(8));
  ir_value *roi = graph_op(m->main, OP_Relu, REED_F32, 1, DIMS(8), r, GRAPH_END);
  ir_value *y = graph_op(m->main, OP_Resize, REED_F32, 4, DIMS(1, 1, 4, 4), x, roi,
                         graph_f32(m, 4, (float[]){1, 1, 2, 2}), GRAPH_END);
  ck_assert(ir_set_attr_string(y->producer, "coordinate_transformation_mode", mapping));
  graph_result(m->main, y);
  return graph_lower(m);
}

START_TEST(a_roi_is_read_back_only_where_the_mapping_reads_it) {
  const bool crops = _i == 1;
  lowered l = resized(crops ? "tf_crop_and_resize" : "half_pixel");
  ck_assert_msg(occurrences(l.text, "readback") == (crops ? 2 : 1), "%s", l.text); /* the output; the roi */
  ck_assert_msg(l.n_epochs == (crops ? 2 : 1), "%s", l.text);
  ck_assert_msg(occurrences(l.text, "sync") == (crops ? 2 : 1), "%s", l.text);
  RUN(l, SPECS({REED_F32, 4, {1, 1, 2, 2}, {1, 2, 3, 4}}, F32(8, 0, 0, 0, 0, 1, 1, 1, 1)),
      SPECS({REED_F32, 4, {1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}}));
  lowered_close(&l);
}
END_TEST

/* ---- Col2Im's sizes ---- */

/* Columns of windows of 2x2 on an image of size `size` + 1. */
static lowered folded(bool computed) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 3, DIMS(1, 4, 4)),
           *r = graph_param(m->main, "r", REED_F32, 2, DIMS(2, 2));
  ir_value *columns = graph_op(m->main, OP_Relu, REED_F32, 3, DIMS(1, 4, 4), x, GRAPH_END);
  ir_value *size;
  if (computed) {
    ir_value *row = graph_op(m->main, OP_ReduceMax, REED_F32, 1, DIMS(2), r, graph_i64(m, 1, DIMS(0)), GRAPH_END);
    ck_assert(ir_set_attr_int(row->producer, "keepdims", 0));
    size = graph_to_i64(m->main, row);
  } else {
    size = graph_op(m->main, OP_Shape, REED_I64, 1, DIMS(2), r, GRAPH_END);
  }
  ir_value *image = graph_op(m->main, OP_Add, REED_I64, 1, DIMS(2), size, graph_i64(m, 1, DIMS(1)), GRAPH_END);
  ir_value *y = graph_op(m->main, OP_Col2Im, REED_F32, 4, DIMS(1, 1, 3, 3), columns, image, graph_i64(m, 2, DIMS(2, 2)),
                         GRAPH_END);
  graph_result(m->main, y);
  return graph_lower(m);
}

START_TEST(a_size_is_read_back_only_where_data_decide_it) {
  lowered l = folded(_i == 1);
  ck_assert_msg(occurrences(l.text, "readback") == (_i ? 2 : 1), "%s", l.text); /* the output; the size */
  ck_assert_msg(l.n_epochs == (_i ? 2 : 1), "%s", l.text);
  RUN(l,
      SPECS({REED_F32, 3, {1, 4, 4}, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4}},
            {REED_F32, 2, {2, 2}, {2, 1, 1, 2}}),
      SPECS({REED_F32, 4, {1, 1, 3, 3}, {1, 3, 2, 4, 10, 6, 3, 7, 4}}));
  lowered_close(&l);
}
END_TEST

/* ---- custom operators ---- */

static int n_prepared;

/* test.Scaled: y = x * factor + offset + the taps' sum, of the dtype that `to` gives (f32 where it is left out). `n`
 * rows of x, whose flag holds only for mode "some". */
typedef struct scaled {
  double factor, offset;
  int64_t n;
} scaled;

static reed_status scaled_shape(reed_shape_call *call) {
  reed_dim dims = call->inputs[0].dims[0];
  if (strcmp(reed_attrs_string(call->attrs, "mode", "?"), "some") == 0) dims = reed_shape_value(call, 1, 0);
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = dims;
  return call->status;
}

static reed_status scaled_run(const void *state, const reed_kernel_buffers *buffers) {
  const scaled *s = state;
  for (int64_t i = 0; i < s->n; i++)
    ((float *)buffers->outputs[0])[i] = (float)(((const float *)buffers->inputs[0])[i] * s->factor + s->offset);
  return REED_OK;
}

/* The fallbacks of -999 are used only if an omitted attribute lacks the row's default; then the results are wrong. */
static reed_status scaled_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t n_taps;
  const int64_t *taps = reed_attrs_ints(call->attrs, "taps", &n_taps);
  scaled *s = malloc(sizeof *s);
  *s = (scaled){.factor = (double)reed_attrs_int(call->attrs, "factor", -999),
                .offset = reed_attrs_float(call->attrs, "offset", -999),
                .n = call->outputs[0].dims[0]};
  for (int64_t i = 0; i < n_taps; i++) s->offset += (double)taps[i];
  n_prepared++;
  *out_kernel = (reed_kernel){.run = scaled_run, .state = s, .free = free};
  return REED_OK;
}

static const reed_attr three = {.i = 3}, half = {.f = 0.5}, all = {.s = "all"},
                       taps = {.ints = (const int64_t[]){1, 2}, .n = 2};
static const reed_op_attr scaled_attrs[] = {
    {.name = "factor", .type = REED_ATTR_INT, .otherwise = &three},
    {.name = "mode", .type = REED_ATTR_STRING, .otherwise = &all},
    {.name = "offset", .type = REED_ATTR_FLOAT, .otherwise = &half},
    {.name = "taps", .type = REED_ATTR_INTS, .otherwise = &taps},
    {.name = "to", .type = REED_ATTR_INT},
};
static const reed_op_output scaled_outputs[] = {{.name = "y", .type_rule = REED_TYPE_ATTR, .type_attr = "to"}};
static reed_op_input scaled_inputs[] = {
    {.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
    {.name = "n", .dtypes = 1u << REED_I64, .optional = true, .reads_attr = "mode", .reads_word = "some"},
};
static const reed_op scaled_op = {.domain = "test",
                                  .name = "Scaled",
                                  .inputs = scaled_inputs,
                                  .n_inputs = 2,
                                  .outputs = scaled_outputs,
                                  .n_outputs = 1,
                                  .attrs = scaled_attrs,
                                  .n_attrs = 5,
                                  .shape = scaled_shape,
                                  .cpu = scaled_prepare};

static reed_diagnosis *diagnosis;
static reed_registry *registry;

#define WELL(status) ck_assert_msg((status) == REED_OK, "%s", reed_diagnosis_message(diagnosis))

typedef struct module_bytes {
  void *bytes;
  size_t n;
} module_bytes;

static module_bytes compiled(onnx_build *b) {
  module_bytes made;
  size_t n;
  const void *onnx = build_pack(b, &n);
  WELL(reed_compile_bytes(onnx, n, &(reed_compile_options){.registry = registry}, &made.bytes, &made.n, NULL,
                          diagnosis));
  build_close(&b);
  return made;
}

static reed_session *opened(const module_bytes *m, const char *device) {
  reed_program *program;
  reed_session *session;
  WELL(reed_program_open_bytes(m->bytes, m->n, &(reed_program_options){.registry = registry}, &program, diagnosis));
  WELL(reed_session_open(program, &(reed_session_options){.device = device, .n_threads = 1}, &session, diagnosis));
  reed_program_close(&program);
  return session;
}

/* One run with x = 0, 1, 2, 3 and n; the output has n_out elements and begins so. */
static void run(reed_session *session, int64_t n, int64_t n_out, float first, float step) {
  reed_tensor *inputs[2], *output;
  WELL(reed_tensor_open(REED_F32, 1, (int64_t[]){4}, &inputs[0]));
  WELL(reed_tensor_open(REED_I64, 1, (int64_t[]){1}, &inputs[1]));
  for (int i = 0; i < 4; i++) ((float *)reed_tensor_data(inputs[0]))[i] = (float)i;
  *(int64_t *)reed_tensor_data(inputs[1]) = n;
  WELL(reed_session_run(session, inputs, 2, &output, 1, diagnosis));
  ck_assert_int_eq(reed_tensor_dims(output)[0], n_out);
  ck_assert_int_eq(reed_tensor_dtype(output), REED_F32);
  for (int64_t i = 0; i < n_out; i++)
    ck_assert_float_eq(((float *)reed_tensor_data(output))[i], first + step * (float)i);
  reed_tensor_close(&output);
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
}

static onnx_build *scaled_model(build_node_t **out_node) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[c]");
  build_input(b, "n", "i64[1]");
  *out_node = build_node(b, "test.Scaled", "x,n", "y");
  build_output(b, "y", "f32");
  return b;
}

START_TEST(custom_rows_give_values_for_what_a_model_leaves_out) {
  const char *device = _i ? "sim" : "host";
  build_node_t *n;
  onnx_build *b = scaled_model(&n);
  module_bytes omitted = compiled(b);
  b = scaled_model(&n);
  build_int(b, n, "factor", 3);
  build_float(b, n, "offset", 0.5f);
  build_string(b, n, "mode", "all");
  build_ints(b, n, "taps", "1,2");
  module_bytes spelled = compiled(b);
  ck_assert_uint_eq(omitted.n, spelled.n);
  ck_assert_mem_eq(omitted.bytes, spelled.bytes, omitted.n);
  b = scaled_model(&n);
  build_int(b, n, "factor", 2);
  build_ints(b, n, "taps", "7");
  module_bytes other = compiled(b);
  reed_session *a = opened(&omitted, device), *c = opened(&other, device);
  run(a, 2, 4, 3.5f, 3);
  run(c, 2, 4, 7.5f, 2);
  reed_session_close(&a);
  reed_session_close(&c);
  mem_free(omitted.bytes), mem_free(spelled.bytes), mem_free(other.bytes);
}
END_TEST

/* With flag `value`, as with `both`, the elements are part of the key. In a mode for which the flag does not hold they
 * are not. */
START_TEST(a_flag_of_a_custom_operator_decides_the_key) {
  static const struct {
    reed_reads reads;
    const char *mode;
    int more; /* kernels prepared when n changes */
  } cases[] = {{REED_READS_VALUE, "some", 1},
               {REED_READS_BOTH, "some", 1},
               {REED_READS_VALUE, "all", 0},
               {REED_READS_BOTH, "all", 0}};
  const char *device = _i & 1 ? "sim" : "host";
  const size_t k = (size_t)_i / 2;
  const bool some = cases[k].more;
  scaled_inputs[1].reads = cases[k].reads;
  build_node_t *n;
  onnx_build *b = scaled_model(&n);
  build_string(b, n, "mode", cases[k].mode);
  module_bytes m = compiled(b);
  reed_session *session = opened(&m, device);
  n_prepared = 0;
  run(session, 3, some ? 3 : 4, 3.5f, 3);
  run(session, 3, some ? 3 : 4, 3.5f, 3);
  ck_assert_int_eq(n_prepared, 1);
  run(session, 2, some ? 2 : 4, 3.5f, 3);
  ck_assert_int_eq(n_prepared, 1 + cases[k].more);
  run(session, 3, some ? 3 : 4, 3.5f, 3);
  ck_assert_int_eq(n_prepared, 1 + cases[k].more);
  reed_session_close(&session);
  mem_free(m.bytes);
}
END_TEST

/* A module's flag may ask for more than the row: `both` or `value` for an input whose elements are not read, `value`
 * where the row says `both`. It may not ask for less. */
START_TEST(modules_may_ask_for_more_than_the_row) {
  static const struct {
    reed_reads row;
    const char *mode, *flag;
    bool fits;
  } cases[] = {{REED_READS_BOTH, "some", "both", true},   {REED_READS_BOTH, "some", "value", true},
               {REED_READS_VALUE, "some", "both", true},  {REED_READS_BOTH, "some", "shape", false},
               {REED_READS_VALUE, "some", "none", false}, {REED_READS_VALUE, "all", "value", true},
               {REED_READS_VALUE, "all", "shape", true},  {REED_READS_SHAPE, "some", "value", true},
               {REED_READS_SHAPE, "some", "none", false}};
  scaled_inputs[1].reads = cases[_i].row;
  char text[1024];
  snprintf(text, sizeof text,
           ".module \"m\" devices 2\n.type x = f32[?] \"x\"\n.type n = i64[1] \"n\"\n.type y = f32[?] \"y\"\n"
           ".site scaled = Scaled in \"test\" (2 -> 1) \"s\" {mode = \"%s\"}\n.function main (x, n) -> (y)\n"
           "  shape scaled, host, [r2], [r0:shape, r1:%s]\n  invoke scaled, host, [r2], [r0, r1]\n"
           "  return [r2], []\n",
           cases[_i].mode, cases[_i].flag);
  module_bytes m;
  reed_status status = reed_module_assemble(text, registry, &m.bytes, &m.n, diagnosis);
  if (cases[_i].fits) {
    WELL(status);
    if (cases[_i].row != REED_READS_SHAPE) { /* with flag `shape` the shape function gets no elements and fails */
      reed_session *session = opened(&m, "host");
      run(session, 4, 4, 3.5f, 3);
      reed_session_close(&session);
    }
    reed_text_free(m.bytes);
  } else {
    ck_assert_int_eq(status, REED_ERROR_FORMAT);
    ck_assert_msg(strncmp(reed_diagnosis_message(diagnosis), "V35", 3) == 0, "%s", reed_diagnosis_message(diagnosis));
  }
}
END_TEST

static void setup(void) {
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  scaled_inputs[1].reads = REED_READS_VALUE;
  WELL(reed_registry_add(registry, &scaled_op, diagnosis));
}

static void teardown(void) {
  reed_registry_close(&registry);
  reed_diagnosis_close(&diagnosis);
}

int main(void) {
  Suite *suite = suite_create("flags");
  TCase *c = tcase_create("flags");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 60);
  suite_add_tcase(suite, c);
  tcase_add_loop_test(c, a_roi_is_read_back_only_where_the_mapping_reads_it, 0, 2);
  tcase_add_loop_test(c, a_size_is_read_back_only_where_data_decide_it, 0, 2);
  tcase_add_loop_test(c, custom_rows_give_values_for_what_a_model_leaves_out, 0, 2);
  tcase_add_loop_test(c, a_flag_of_a_custom_operator_decides_the_key, 0, 8);
  tcase_add_loop_test(c, modules_may_ask_for_more_than_the_row, 0, 9);
  return suite_run(suite);
}
