/* Shapes without a run (reed_session_shapes): equal to a run's where they are known, -1 with a bound where a kernel
 * decides, and no kernel, no copy and no memory of a device is used. */
#include <stdio.h>

#include "tests/whole/model.h"

static const char *const devices[] = {"host", "sim", "sim:1?poison=1&late=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices };

static reed_shape shape_f32(int32_t rank, const int64_t *dims) {
  reed_shape s = {.dtype = REED_F32, .rank = rank};
  memcpy(s.dims, dims, sizeof *dims * (size_t)rank);
  return s;
}

static void ask(model *m, const reed_shape *shapes, reed_tensor *const *values, reed_shape *out) {
  reed_status status = reed_session_shapes(m->session, shapes, values, reed_program_input_count(m->program), out,
                                           reed_program_output_count(m->program), m->said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m->said));
}

/* "f32[2,-1<=6]" */
static const char *text_of(const reed_shape *s) {
  static char text[256];
  size_t n = (size_t)snprintf(text, sizeof text, "%s[", s->dtype == REED_NONE ? "?" : reed_dtype_name(s->dtype));
  if (s->rank < 0) return strcpy(text + n, "?]"), text;
  for (int32_t i = 0; i < s->rank; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i ? "," : "", (long long)s->dims[i]);
    if (s->dims[i] < 0 && s->bounds[i] >= 0)
      n += (size_t)snprintf(text + n, sizeof text - n, "<=%lld", (long long)s->bounds[i]);
    else ck_assert_int_eq(s->bounds[i], s->dims[i]);
  }
  snprintf(text + n, sizeof text - n, "]");
  return text;
}

#define ASSERT_SHAPE(shape, expected) ck_assert_str_eq(text_of(shape), expected)

/* Concat and slices of symbolic extents: no values are read. */
static onnx_build *arithmetic(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,k]");
  build_input(b, "y", "f32[m,k]");
  build_int(b, build_node(b, "Concat", "x,y", "c"), "axis", 0);
  build_node(b, "Shape", "c", "s");
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "two", "1", (int64_t[]){2});
  build_node(b, "Div", "s,two", "half");
  build_i64(b, "axes", "2", (int64_t[]){0, 1});
  build_i64(b, "zeros", "2", (int64_t[]){0, 0});
  build_node(b, "Slice", "c,zeros,half,axes", "part");
  build_node(b, "Relu", "part", "r");
  build_output(b, "r", "f32[a,b]");
  build_output(b, "c", "f32[p,k]");
  return b;
}

START_TEST(shapes_are_those_of_a_run) {
  model m = model_open(arithmetic(), devices[_i], REED_COUNTS_HOST);
  for (int64_t n = 0; n < 5; n++) {
    reed_tensor *in[2] = {floats(2, (int64_t[]){n, 7}, 0), floats(2, (int64_t[]){5, 7}, 0)}, *out[2];
    reed_shape given[2] = {shape_f32(2, (int64_t[]){n, 7}), shape_f32(2, (int64_t[]){5, 7})}, found[2], again[2];
    int64_t misses = n ? statistic_of(m.session, "misses") : 0;
    ask(&m, given, NULL, found);
    if (n) ck_assert_int_eq(statistic_of(m.session, "misses"), misses); /* the query enters nothing into the memo */
    run_model(&m, in, out);
    ask(&m, NULL, in, again);
    for (int i = 0; i < 2; i++) {
      ck_assert_int_eq(found[i].dtype, reed_tensor_dtype(out[i]));
      ck_assert_int_eq(found[i].rank, reed_tensor_rank(out[i]));
      for (int32_t k = 0; k < 2; k++) {
        ck_assert_int_eq(found[i].dims[k], reed_tensor_dims(out[i])[k]);
        ck_assert_int_eq(found[i].bounds[k], found[i].dims[k]);
      }
      ck_assert_mem_eq(&found[i], &again[i], sizeof found[i]);
      reed_tensor_close(&out[i]);
    }
    ck_assert_int_eq(statistic_of(m.session, "kernels") > 0, 1); /* the query has not replaced the run's figures */
    reed_tensor_close(&in[0]);
    reed_tensor_close(&in[1]);
  }
  model_close(&m);
}
END_TEST

/* Unknown extents of inputs, with and without bounds. */
START_TEST(extents_of_inputs_may_be_unknown) {
  model m = model_open(arithmetic(), devices[_i], REED_COUNTS_HOST);
  reed_shape given[2] = {shape_f32(2, (int64_t[]){-1, 7}), shape_f32(2, (int64_t[]){5, 7})}, found[2];
  given[0].bounds[0] = 10;
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[1], "f32[-1<=15,7]");
  ck_assert(found[0].rank == 2);
  given[0].bounds[0] = 0;
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[1], "f32[-1,7]");
  model_close(&m);
}
END_TEST

/* The check that a whole has rows (shapefuncs/symbols_part.c) keeps nothing unknown that does not depend on it. */
START_TEST(rows_of_an_unknown_whole_may_be_unknown) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_input(b, "y", "f32[m]");
  build_i64(b, "far", "1", (int64_t[]){INT64_MAX});
  build_node(b, "Shape", "x", "n");
  build_node(b, "Neg", "n", "from");
  build_node(b, "Slice", "y,from,far", "last");
  build_node(b, "Add", "x,last", "s");
  build_node(b, "Neg", "y", "less");
  build_output(b, "s", "f32[n]");
  build_output(b, "less", "f32[m]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_shape given[2] = {shape_f32(1, (int64_t[]){-1}), shape_f32(1, (int64_t[]){7})}, found[2];
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[1], "f32[7]");
  given[0].dims[0] = 3;
  given[1].dims[0] = -1;
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[1], "f32[-1]");
  given[1].dims[0] = 7;
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[0], "f32[3]");
  given[0].dims[0] = 1;
  given[1].dims[0] = 0;
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_SHAPE);
  model_close(&m);
}
END_TEST

/* A count that a kernel reports is unknown, with its bound, through everything that follows. */
START_TEST(counts_have_their_bounds) {
  for (int on_device = 0; on_device < 2; on_device++) {
    onnx_build *b = build_open(17);
    build_input(b, "x", "f32[n,4]");
    build_node(b, "NonZero", "x", "places");
    build_ints(b, build_node(b, "Transpose", "places", "rows"), "perm", "1,0");
    build_node(b, "GatherND", "x,rows", "kept");
    build_node(b, "Neg", "kept", "less");
    build_int(b, build_node(b, "Concat", "less,kept", "both"), "axis", 0);
    build_node(b, "Shape", "kept", "count");
    build_output(b, "places", "i64[2,k]");
    build_output(b, "less", "f32[k]");
    build_output(b, "both", "f32[l]");
    build_output(b, "count", "i64[1]");
    model m = model_open(b, devices[_i], on_device ? REED_COUNTS_DEVICE : REED_COUNTS_HOST);
    reed_shape given = shape_f32(2, (int64_t[]){6, 4}), found[4];
    for (int after_a_run = 0; after_a_run < 2; after_a_run++) {
      ask(&m, &given, NULL, found);
      ASSERT_SHAPE(&found[0], "i64[2,-1<=24]");
      ASSERT_SHAPE(&found[1], "f32[-1<=24]");
      ASSERT_SHAPE(&found[2], "f32[-1<=48]");
      ASSERT_SHAPE(&found[3], "i64[1]");
      reed_tensor *x = floats(2, (int64_t[]){6, 4}, 0), *out[4];
      run_model(&m, &x, out);
      for (int i = 0; i < 4; i++) {
        for (int32_t k = 0; k < found[i].rank; k++) ck_assert_int_le(reed_tensor_dims(out[i])[k], found[i].bounds[k]);
        reed_tensor_close(&out[i]);
      }
      reed_tensor_close(&x);
    }
    model_close(&m);
  }
}
END_TEST

/* A shape in the values of an input: unknown extents without the values, known with them, also from a device. */
START_TEST(values_are_read_where_they_are_given) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_input(b, "s", "i64[2]");
  build_node(b, "Reshape", "x,s", "y");
  build_node(b, "Relu", "y", "z");
  build_output(b, "z", "f32[a,b]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_shape given[2] = {shape_f32(1, (int64_t[]){12}), {.dtype = REED_I64, .rank = 1, .dims = {2}}}, found;
  ask(&m, given, NULL, &found);
  ck_assert(found.rank == 2 && found.dtype == REED_F32 && found.dims[0] == -1 && found.dims[1] == -1);
  reed_tensor *s = NULL, *values[2] = {NULL, NULL};
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){2}, &s), REED_OK);
  ((int64_t *)reed_tensor_data(s))[0] = 3;
  ((int64_t *)reed_tensor_data(s))[1] = -1;
  values[1] = on_device(s, devices[_i]);
  ask(&m, given, values, &found);
  ASSERT_SHAPE(&found, "f32[3,4]");
  ((int64_t *)reed_tensor_data(s))[0] = 5; /* 12 is no multiple: refused as a run would */
  reed_tensor_close(&values[1]);
  values[1] = on_device(s, devices[_i]);
  reed_tensor *in[2] = {floats(1, (int64_t[]){12}, 0), s}, *out;
  char sentence[512];
  ck_assert_int_lt(reed_session_run(m.session, in, 2, &out, 1, m.said), 0);
  snprintf(sentence, sizeof sentence, "%s", reed_diagnosis_message(m.said));
  ck_assert_int_eq(reed_session_shapes(m.session, given, values, 2, &found, 1, m.said), REED_ERROR_SHAPE);
  ck_assert_str_eq(reed_diagnosis_message(m.said), sentence);
  reed_tensor_close(&in[0]);
  reed_tensor_close(&values[1]);
  reed_tensor_close(&s);
  model_close(&m);
}
END_TEST

/* ---- Loops and Ifs ---- */

static model looping(const char *device) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "v", "f32[n]");
  build_node(body, "Identity", "c", "go");
  build_int(body, build_node(body, "Concat", "v,v", "w"), "axis", 0);
  build_i64(body, "one", "1", (int64_t[]){1});
  build_node(body, "ReduceSum", "w", "sum");
  build_output(body, "go", "bool[]");
  build_output(body, "w", "f32[l]");
  build_output(body, "sum", "f32[1]");
  build_input(b, "x", "f32[n]");
  build_input(b, "times", "i64[]");
  build_graph_attr(b, build_node(b, "Loop", "times,,x", "last,all"), "body", body);
  build_node(b, "Neg", "x", "known");
  build_output(b, "last", "f32[k]");
  build_output(b, "all", "f32[r,1]");
  build_output(b, "known", "f32[n]");
  return model_open(b, device, REED_COUNTS_HOST);
}

START_TEST(a_loop_is_walked_when_its_trip_count_is_known) {
  model m = looping(devices[_i]);
  reed_tensor *times = NULL, *values[2] = {NULL, NULL};
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &times), REED_OK);
  reed_shape given[2] = {shape_f32(1, (int64_t[]){3}), {.dtype = REED_I64, .rank = 0}}, found[3];
  values[1] = times;
  for (int64_t n = 0; n < 5; n++) {
    *(int64_t *)reed_tensor_data(times) = n;
    ask(&m, given, values, found);
    ck_assert_int_eq(found[0].dims[0], 3 << n);
    ck_assert_int_eq(found[1].dims[0], n);
    ck_assert_int_eq(found[2].dims[0], 3);
  }
  /* Without the trip count the Loop's outputs have the dims that the model declares; other outputs may be known. */
  ask(&m, given, NULL, found);
  ASSERT_SHAPE(&found[0], "f32[-1]");
  ck_assert(found[1].rank == 2 && found[1].dims[0] == -1);
  ck_assert(found[2].rank == 1);
  reed_tensor_close(&times);
  model_close(&m);
}
END_TEST

START_TEST(an_if_whose_condition_is_unknown_is_as_declared) {
  onnx_build *b = build_open(17), *then = build_subgraph(b), *other = build_subgraph(b);
  build_int(then, build_node(then, "Concat", "x,x", "t"), "axis", 0);
  build_output(then, "t", "f32[p,3]");
  build_node(other, "Neg", "x", "e");
  build_output(other, "e", "f32[q,3]");
  build_input(b, "x", "f32[n,3]");
  build_input(b, "c", "bool[]");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", other);
  build_output(b, "y", "f32[m,3]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_tensor *c = NULL, *values[2] = {NULL, NULL};
  ck_assert_int_eq(reed_tensor_open(REED_BOOL, 0, NULL, &c), REED_OK);
  reed_shape given[2] = {shape_f32(2, (int64_t[]){4, 3}), {.dtype = REED_BOOL, .rank = 0}}, found;
  ask(&m, given, values, &found);
  ASSERT_SHAPE(&found, "f32[-1,3]");
  values[1] = c;
  ask(&m, given, values, &found);
  ASSERT_SHAPE(&found, "f32[4,3]");
  *(bool *)reed_tensor_data(c) = true;
  ask(&m, given, values, &found);
  ASSERT_SHAPE(&found, "f32[8,3]");
  reed_tensor_close(&c);
  model_close(&m);
}
END_TEST

/* ---- errors ---- */

START_TEST(inputs_that_a_run_refuses_are_refused) {
  model m = model_open(arithmetic(), devices[_i], REED_COUNTS_HOST);
  reed_shape found[2], given[2] = {shape_f32(2, (int64_t[]){2, 7}), shape_f32(2, (int64_t[]){5, 8})};
  reed_tensor *in[2] = {floats(2, (int64_t[]){2, 7}, 0), floats(2, (int64_t[]){5, 8}, 0)}, *out[2];
  char sentence[512];
  ck_assert_int_eq(reed_session_run(m.session, in, 2, out, 2, m.said), REED_ERROR_SHAPE);
  snprintf(sentence, sizeof sentence, "%s", reed_diagnosis_message(m.said));
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_SHAPE);
  ck_assert_str_eq(reed_diagnosis_message(m.said), sentence);
  given[1] = shape_f32(3, (int64_t[]){5, 7, 1});
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_SHAPE);
  given[1] = shape_f32(2, (int64_t[]){5, 7});
  given[1].dtype = REED_I32;
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_TYPE);
  given[1].dtype = REED_NONE;
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_ARGUMENT);
  given[1] = shape_f32(2, (int64_t[]){1ll << 40, 1ll << 40});
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_SHAPE);
  given[1] = shape_f32(2, (int64_t[]){5, -7}); /* -1 is the only number for an unknown extent */
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_ARGUMENT);
  given[1].rank = 9;
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 2, found, 2, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_shapes(m.session, NULL, NULL, 2, found, 2, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_shapes(m.session, given, NULL, 1, found, 2, m.said), REED_ERROR_ARGUMENT);
  /* And the session goes on. */
  reed_tensor_close(&in[1]);
  in[1] = floats(2, (int64_t[]){5, 7}, 0);
  run_model(&m, in, out);
  for (int i = 0; i < 2; i++) {
    reed_tensor_close(&in[i]);
    reed_tensor_close(&out[i]);
  }
  model_close(&m);
}
END_TEST

/* ---- cost ---- */

/* An operator that counts its calls. */
static int n_shapes, n_kernels;

static reed_status counting_shape(reed_shape_call *call) {
  n_shapes++;
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = call->inputs[0].dims[0];
  return REED_OK;
}

static reed_status counting_run(const void *state, const reed_kernel_buffers *buffers) {
  (void)state, (void)buffers;
  n_kernels++;
  return REED_OK;
}

static reed_status counting_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  (void)call;
  out_kernel->run = counting_run;
  return REED_OK;
}

static const reed_op_input counting_inputs[] = {{"x", REED_READS_SHAPE, 1u << REED_F32}};
static const reed_op_output counting_outputs[] = {{.name = "y", .type_rule = REED_TYPE_LIKE}};
static const reed_op counting = {.domain = "test",
                                 .name = "Counting",
                                 .inputs = counting_inputs,
                                 .n_inputs = 1,
                                 .outputs = counting_outputs,
                                 .n_outputs = 1,
                                 .shape = counting_shape,
                                 .cpu = counting_prepare};

/* No kernel runs; an epoch that the session remembers calls no shape function either; nothing new is remembered. */
START_TEST(a_query_runs_no_kernel_and_uses_the_memo) {
  reed_registry *registry = NULL;
  model m = {0};
  ck_assert_int_eq(reed_diagnosis_open(&m.said), REED_OK);
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &counting, m.said), REED_OK);
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_string(b, build_node(b, "Counting", "x", "y"), "unused", "");
  build_graph(b)->node[0]->domain = (char *)"test";
  build_graph(b)->node[0]->n_attribute = 0;
  build_output(b, "y", "f32[n]");
  size_t n_onnx, n;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes;
  reed_status status =
      reed_compile_bytes(onnx, n_onnx, &(reed_compile_options){.registry = registry}, &bytes, &n, NULL, m.said);
  if (status == REED_OK)
    status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &m.program, m.said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m.said));
  reed_text_free(bytes);
  m.session = session_of(&m, devices[_i]);
  reed_shape given = shape_f32(1, (int64_t[]){5}), found;
  n_shapes = n_kernels = 0;
  ask(&m, &given, NULL, &found);
  ASSERT_SHAPE(&found, "f32[5]");
  ck_assert(n_shapes == 1 && n_kernels == 0);
  reed_tensor *x = floats(1, (int64_t[]){5}, 0), *y = NULL;
  run_model(&m, &x, &y);
  ck_assert(n_shapes == 2 && n_kernels == 1); /* a miss: the query has entered nothing */
  reed_tensor_close(&y);
  for (int i = 0; i < 3; i++) ask(&m, i ? &given : NULL, i ? NULL : &x, &found);
  ASSERT_SHAPE(&found, "f32[5]");
  ck_assert(n_shapes == 2 && n_kernels == 1);
  given.dims[0] = 6;
  ask(&m, &given, NULL, &found);
  ck_assert(n_shapes == 3 && n_kernels == 1);
  run_model(&m, &x, &y);
  ck_assert(n_shapes == 3 && n_kernels == 2); /* and the memo still has the entry */
  ck_assert_int_eq(statistic_of(m.session, "entries"), 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  model_close(&m);
  build_close(&b);
  reed_registry_close(&registry);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("query");
  tcase_add_loop_test(cases, shapes_are_those_of_a_run, 0, N_DEVICES);
  tcase_add_loop_test(cases, extents_of_inputs_may_be_unknown, 0, N_DEVICES);
  tcase_add_loop_test(cases, rows_of_an_unknown_whole_may_be_unknown, 0, N_DEVICES);
  tcase_add_loop_test(cases, counts_have_their_bounds, 0, N_DEVICES);
  tcase_add_loop_test(cases, values_are_read_where_they_are_given, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_loop_is_walked_when_its_trip_count_is_known, 0, N_DEVICES);
  tcase_add_loop_test(cases, an_if_whose_condition_is_unknown_is_as_declared, 0, N_DEVICES);
  tcase_add_loop_test(cases, inputs_that_a_run_refuses_are_refused, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_query_runs_no_kernel_and_uses_the_memo, 0, N_DEVICES);
  return run_suite(cases, "query");
}
