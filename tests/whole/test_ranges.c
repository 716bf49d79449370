/* Declared ranges (reed_compile_options.dims): checked when a run or a question begins, recorded in the module, and
 * used by the compiler. With and without an accelerator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"
#include "tests/whole/runner.h"

static const char *const devices[] = {NULL, "sim"};

/* y = x + x. No operator reads the mask, so no instruction checks its shape. */
static onnx_build *decoder(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[batch,past,2]");
  build_input(b, "mask", "f32[batch,past]");
  build_node(b, "Add", "x,x", "y");
  build_output(b, "y", "f32[batch,past,2]");
  return b;
}

static reed_status run_with(const runner *r, const int64_t x[3], const int64_t mask[2], reed_diagnosis *d) {
  reed_tensor *in[2], *out[1] = {NULL};
  ck_assert_int_eq(reed_tensor_open(REED_F32, 3, x, &in[0]), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, mask, &in[1]), REED_OK);
  reed_status status = reed_session_run(r->session, in, 2, out, 1, d);
  for (int i = 0; i < 2; i++) reed_tensor_close(&in[i]);
  if (out[0]) reed_tensor_close(&out[0]);
  return status;
}

/* A run that must fail with a message that has all the words. */
static void refused(const runner *r, const int64_t x[3], const int64_t mask[2], const char *const words[5]) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = run_with(r, x, mask, d);
  const char *said = reed_diagnosis_message(d);
  ck_assert_msg(status == REED_ERROR_SHAPE, "%d: %s", status, said);
  for (int i = 0; i < 5; i++) ck_assert_msg(strstr(said, words[i]) != NULL, "'%s' is not in: %s", words[i], said);
  reed_diagnosis_close(&d);
}

#define OPEN(b, list, device) \
  runner_open(b, &(reed_compile_options){.dims = list, .n_dims = sizeof list / sizeof *list}, device, "ranges")

START_TEST(extents_in_their_range_run_and_others_are_refused) {
  onnx_build *b = decoder();
  reed_dim_range dims[] = {{"past", 2, 5}, {"batch", 1, REED_UNBOUNDED}};
  runner r = OPEN(b, dims, devices[_i]);
  for (int64_t past = 0; past < 8; past++) {
    int64_t x[3] = {1 + past, past, 2}, mask[2] = {1 + past, past};
    if (past >= 2 && past <= 5) ck_assert_int_eq(run_with(&r, x, mask, NULL), REED_OK);
    else {
      char is[16];
      snprintf(is, sizeof is, "is %d;", (int)past);
      refused(&r, x, mask, (const char *const[5]){"input 'x'", "dim 1", "'past'", is, "2..5"});
    }
  }
  /* an input without a reader is checked too */
  refused(&r, (int64_t[]){1, 3, 2}, (int64_t[]){1, 9},
          (const char *const[5]){"input 'mask'", "dim 1", "'past'", "is 9;", "2..5"});
  refused(&r, (int64_t[]){0, 3, 2}, (int64_t[]){1, 3},
          (const char *const[5]){"input 'x'", "dim 0", "'batch'", "is 0;", "batch=1.."});
  ck_assert_int_eq(run_with(&r, (int64_t[]){1, 3, 2}, (int64_t[]){1, 3}, NULL), REED_OK);
  runner_close(&r);
  build_close(&b);
}
END_TEST

START_TEST(a_program_tells_its_ranges) {
  onnx_build *b = decoder();
  reed_dim_range dims[] = {{"past", 2, 5}, {"batch", 4, 4}}, range;
  runner r = OPEN(b, dims, NULL);
  ck_assert(reed_program_input_range(r.program, 0, 1, &range));
  ck_assert_str_eq(range.name, "past");
  ck_assert_int_eq(range.low, 2);
  ck_assert_int_eq(range.high, 5);
  ck_assert(reed_program_input_range(r.program, 1, 0, &range));
  ck_assert_str_eq(range.name, "batch");
  ck_assert_int_eq(range.high, 4);
  ck_assert(!reed_program_input_range(r.program, 0, 2, &range));
  ck_assert(!reed_program_input_range(r.program, 2, 0, &range));
  ck_assert(!reed_program_input_range(r.program, 0, -1, &range));
  reed_value_info info;
  ck_assert_int_eq(reed_program_output(r.program, 0, &info), REED_OK);
  ck_assert_int_eq(info.dims[0], 4); /* the range 4..4 fixes the dim */
  ck_assert_int_eq(info.dims[1], -1);
  char *json;
  ck_assert_int_eq(reed_program_info_json(r.program, &json, NULL), REED_OK);
  ck_assert_ptr_nonnull(strstr(json, "\"ranges\""));
  ck_assert_ptr_nonnull(strstr(json, "past"));
  reed_text_free(json);
  refused(&r, (int64_t[]){3, 3, 2}, (int64_t[]){4, 3},
          (const char *const[5]){"input 'x'", "dim 0", "'batch'", "is 3;", "4..4"});
  runner_close(&r);
  build_close(&b);
}
END_TEST

/* If the caller gives no bound, the range is the bound of an unknown extent. */
START_TEST(a_question_about_shapes_knows_the_ranges) {
  onnx_build *b = decoder();
  reed_dim_range dims[] = {{"past", 2, 5}};
  runner r = OPEN(b, dims, devices[_i]);
  reed_shape in[2] = {{.dtype = REED_F32, .rank = 3, .dims = {-1, -1, 2}},
                      {.dtype = REED_F32, .rank = 2, .dims = {3, -1}}},
             out;
  ck_assert_int_eq(reed_session_shapes(r.session, in, NULL, 2, &out, 1, NULL), REED_OK);
  ck_assert_int_eq(out.dims[1], -1);
  ck_assert_int_eq(out.bounds[1], 5);
  ck_assert_int_eq(out.bounds[0], -1);
  in[1].dims[1] = 6;
  ck_assert_int_eq(reed_session_shapes(r.session, in, NULL, 2, &out, 1, NULL), REED_ERROR_SHAPE);
  runner_close(&r);
  build_close(&b);
}
END_TEST

/* y = x + x, beside inputs without readers whose dims have names that are computed from past and new. */
static onnx_build *tied(const char *mask) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[past,new]");
  build_input(b, "mask", mask);
  build_node(b, "Add", "x,x", "y");
  build_output(b, "y", "f32[past,new]");
  return b;
}

/* past=2..5, new=1..3 */
static const struct {
  const char *mask;
  int64_t low, high; /* 0, -1: no range follows */
} tied_names[] = {{"f32[past + 1]", 3, 6},
                  {"f32[past+new]", 3, 8},
                  {"f32[2*past]", 4, 10},
                  {"f32[past*new + 1]", 3, 16},
                  {"f32[2*(past + new) - 1]", 5, 15},
                  {"f32[new - past]", 0, 1},
                  {"f32[past - 1*new]", 0, 4},
                  {"f32[1 + past ]", 3, 6},
                  {"f32[past-new]", 0, -1}, /* a hyphen belongs to the name */
                  {"f32[past + other]", 0, -1},
                  {"f32[past +]", 0, -1},
                  {"f32[(past]", 0, -1},
                  {"f32[past)]", 0, -1},
                  {"f32[2 past]", 0, -1},
                  {"f32[past*99999999999999999999]", 0, -1}};

START_TEST(names_computed_from_others_have_the_range_that_follows) {
  onnx_build *b = tied(tied_names[_i].mask);
  reed_dim_range dims[] = {{"past", 2, 5}, {"new", 1, 3}}, range;
  runner r = OPEN(b, dims, NULL);
  bool follows = tied_names[_i].high >= 0;
  ck_assert_msg(reed_program_input_range(r.program, 1, 0, &range) == follows, "%s", tied_names[_i].mask);
  if (follows) {
    ck_assert_msg(range.low == tied_names[_i].low && range.high == tied_names[_i].high, "%s: %lld..%lld",
                  tied_names[_i].mask, (long long)range.low, (long long)range.high);
    for (int64_t n = range.low - 1; n <= range.high + 1; n++) {
      if (n < 0) continue;
      reed_tensor *in[2], *out = NULL;
      ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){3, 1}, &in[0]), REED_OK);
      ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &in[1]), REED_OK);
      reed_status wanted = n < range.low || n > range.high ? REED_ERROR_SHAPE : REED_OK;
      ck_assert_int_eq(reed_session_run(r.session, in, 2, &out, 1, NULL), wanted);
      for (int i = 0; i < 2; i++) reed_tensor_close(&in[i]);
      reed_tensor_close(&out);
    }
  }
  runner_close(&r);
  build_close(&b);
}
END_TEST

START_TEST(no_upper_bound_follows_from_none) {
  onnx_build *b = tied("f32[2*past + 1]");
  reed_dim_range dims[] = {{"past", 2, REED_UNBOUNDED}}, range;
  runner r = OPEN(b, dims, NULL);
  ck_assert(reed_program_input_range(r.program, 1, 0, &range));
  ck_assert_int_eq(range.low, 5);
  ck_assert_int_eq(range.high, REED_UNBOUNDED);
  runner_close(&r);
  build_close(&b);
  b = tied("f32[4611686018427387904*past]"); /* 2^62 */
  reed_dim_range huge[] = {{"past", 0, 5}};
  r = OPEN(b, huge, NULL);
  ck_assert(reed_program_input_range(r.program, 1, 0, &range));
  ck_assert_int_eq(range.low, 0);
  ck_assert_int_eq(range.high, REED_UNBOUNDED);
  runner_close(&r);
  build_close(&b);
}
END_TEST

/* A compilation that must fail with a message that has all the words. Closes the model. */
static void not_compiled_as(onnx_build *b, const reed_dim_range *dims, size_t n, reed_status wanted,
                            const char *const words[3]) {
  size_t n_onnx, n_bytes;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes = NULL;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status =
      reed_compile_bytes(onnx, n_onnx, &(reed_compile_options){.dims = dims, .n_dims = n}, &bytes, &n_bytes, NULL, d);
  ck_assert_int_eq(status, wanted);
  for (int i = 0; i < 3; i++)
    ck_assert_msg(strstr(reed_diagnosis_message(d), words[i]) != NULL, "'%s' is not in: %s", words[i],
                  reed_diagnosis_message(d));
  ck_assert_ptr_null(bytes);
  reed_diagnosis_close(&d);
  build_close(&b);
}

static void not_compiled(const reed_dim_range *dims, size_t n, const char *const words[3]) {
  not_compiled_as(decoder(), dims, n, REED_ERROR_ARGUMENT, words);
}

START_TEST(ranges_that_contradict_each_other_are_refused) {
  not_compiled_as(tied("f32[past + new]"), (reed_dim_range[]){{"past", 0, 4}, {"past + new", 20, 30}, {"new", 1, 2}}, 3,
                  REED_ERROR_ARGUMENT, (const char *const[3]){"20..30", "'past + new'", "1..6"});
  not_compiled_as(tied("f32[past - 8]"), (reed_dim_range[]){{"past", 0, 4}}, 1, REED_ERROR_ARGUMENT,
                  (const char *const[3]){"'past - 8'", "no extent", "past=0..4"});
  /* a name without a range of its own has some extent of 0 or more */
  not_compiled_as(tied("f32[past + new]"), (reed_dim_range[]){{"past + new", 1, 5}, {"past", 7, 9}}, 2,
                  REED_ERROR_ARGUMENT, (const char *const[3]){"1..5 of dim 'past + new'", "past=7..9, new=0..", "7.."});
  not_compiled_as(tied("f32[past + new]"), (reed_dim_range[]){{"past", 4, 9}, {"new", 2, 9}, {"past + new", 1, 5}}, 3,
                  REED_ERROR_ARGUMENT, (const char *const[3]){"'past + new'", "past=4..9, new=2..9", "6..18"});
  not_compiled_as(tied("f32[2*past]"), (reed_dim_range[]){{"2*past", 3, 3}}, 1, REED_ERROR_ARGUMENT,
                  (const char *const[3]){"3..3 of dim '2*past'", "no extent to dim 'past'", ""});
}
END_TEST

/* Ranges of names that a declared range limits, because they are in the name of its dim. */
static const struct {
  const char *mask;
  reed_dim_range given[2]; /* the second one may have no name */
  int64_t past[2], new[2]; /* 0, -1: no range follows */
} limited_names[] = {
    {"f32[past + new]", {{"past + new", 1, 5}}, {0, 5}, {0, 5}},
    {"f32[past + new]", {{"past + new", 1, 5}, {"past", 2, 9}}, {2, 5}, {0, 3}},
    {"f32[past + new]", {{"past + new", 6, REED_UNBOUNDED}, {"past", 2, 4}}, {2, 4}, {2, INT64_MAX}},
    {"f32[past + new]", {{"past + new", 6, REED_UNBOUNDED}}, {0, -1}, {0, -1}},
    {"f32[past - new]", {{"past - new", 2, 4}, {"new", 1, 3}}, {3, 7}, {1, 3}},
    {"f32[new - past]", {{"new - past", 2, 4}, {"new", 1, 3}}, {0, 1}, {2, 3}},
    {"f32[2*past + 1]", {{"2*past + 1", 4, 8}}, {2, 3}, {0, -1}},
    {"f32[past*new]", {{"past*new", 4, 9}, {"new", 2, 3}}, {2, 4}, {2, 3}},
    {"f32[past*new]", {{"past*new", 4, 9}}, {0, -1}, {0, -1}},
    {"f32[new - past]", {{"new", 1, 3}}, {0, -1}, {1, 3}}, /* a range that nobody has declared limits nothing */
    {"f32[past + other]", {{"past + other", 1, 5}}, {0, -1}, {0, -1}},
};

static void has_range(const reed_program *p, size_t input, int32_t axis, const int64_t wanted[2], const char *mask) {
  reed_dim_range range = {NULL, 0, -1};
  bool follows = reed_program_input_range(p, input, axis, &range);
  ck_assert_msg(follows == (wanted[1] >= 0), "%s: axis %d", mask, (int)axis);
  if (follows)
    ck_assert_msg(range.low == wanted[0] && range.high == wanted[1], "%s: %s=%lld..%lld", mask, range.name,
                  (long long)range.low, (long long)range.high);
}

START_TEST(a_range_limits_the_names_in_its_own) {
  const char *mask = limited_names[_i].mask;
  onnx_build *b = tied(mask);
  const reed_dim_range *given = limited_names[_i].given;
  runner r = runner_open(b, &(reed_compile_options){.dims = given, .n_dims = given[1].name ? 2 : 1}, NULL, mask);
  has_range(r.program, 0, 0, limited_names[_i].past, mask);
  has_range(r.program, 0, 1, limited_names[_i].new, mask);
  runner_close(&r);
  build_close(&b);
}
END_TEST

/* A run is held to the narrower range. */
START_TEST(a_run_is_held_to_a_range_that_follows) {
  onnx_build *b = tied("f32[past + new]");
  const reed_dim_range given[] = {{"past + new", 1, 5}, {"past", 2, 9}};
  runner r = OPEN(b, given, devices[_i]);
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (int64_t past = 1; past < 8; past++) {
    reed_tensor *in[2], *out = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){past, 1}, &in[0]), REED_OK);
    ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){3}, &in[1]), REED_OK);
    bool fits = past >= 2 && past <= 5;
    ck_assert_int_eq(reed_session_run(r.session, in, 2, &out, 1, d), fits ? REED_OK : REED_ERROR_SHAPE);
    if (!fits) ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(d), "past=2..5"));
    for (int i = 0; i < 2; i++) reed_tensor_close(&in[i]);
    reed_tensor_close(&out);
  }
  reed_diagnosis_close(&d);
  runner_close(&r);
  build_close(&b);
}
END_TEST

START_TEST(an_error_of_extents_tells_the_declared_ranges) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,k]");
  build_f32(b, "w", "3,1", (float[]){1, 2, 3});
  build_node(b, "MatMul", "x,w", "y");
  build_output(b, "y", "f32[n,1]");
  not_compiled_as(b, (reed_dim_range[]){{"k", 4, REED_UNBOUNDED}, {"n", 0, 9}}, 2, REED_ERROR_SHAPE,
                  (const char *const[3]){"MatMul", "k=4..", "n=0..9"});
}
END_TEST

START_TEST(names_and_ranges_that_fit_no_dim_are_refused) {
  not_compiled((reed_dim_range[]){{"pst", 0, 4}}, 1, (const char *const[3]){"'pst'", "'batch'", "'past'"});
  not_compiled((reed_dim_range[]){{"", 0, 4}}, 1, (const char *const[3]){"''", "'batch'", "'past'"});
  not_compiled((reed_dim_range[]){{NULL, 0, 4}}, 1, (const char *const[3]){"''", "'batch'", "'past'"});
  not_compiled((reed_dim_range[]){{"past", 4, 3}}, 1, (const char *const[3]){"'past'", "4..3", "no range of extents"});
  not_compiled((reed_dim_range[]){{"past", -1, 3}}, 1,
               (const char *const[3]){"'past'", "-1..3", "no range of extents"});
  not_compiled((reed_dim_range[]){{"past", 0, 3}, {"past", 0, 3}}, 2, (const char *const[3]){"two", "'past'", ""});
}
END_TEST

/* A declared range decides an If on an extent being 0, and a Clip of an extent. */
START_TEST(the_compiler_folds_what_a_range_proves) {
  for (int known = 0; known < 2; known++) {
    onnx_build *b = build_open(17), *yes = build_subgraph(b), *no = build_subgraph(b);
    build_input(b, "x", "f32[n,2]");
    build_i64(b, "zero", "1", (int64_t[]){0});
    build_i64(b, "first", "1", (int64_t[]){0});
    build_node(b, "Shape", "x", "shape");
    build_node(b, "Gather", "shape,first", "rows");
    build_node(b, "Greater", "rows,zero", "any");
    build_node(yes, "Add", "x,x", "double");
    build_output(yes, "double", "f32[?,?]");
    build_node(no, "Neg", "x", "negative");
    build_output(no, "negative", "f32[?,?]");
    build_node_t *n = build_node(b, "If", "any", "y");
    build_graph_attr(b, n, "then_branch", yes);
    build_graph_attr(b, n, "else_branch", no);
    build_output(b, "y", "f32[n,2]");
    reed_dim_range dims[] = {{"n", known ? 1 : 0, 9}};
    runner r = OPEN(b, dims, NULL);
    char *json;
    ck_assert_int_eq(reed_program_info_json(r.program, &json, NULL), REED_OK);
    ck_assert_msg((strstr(json, "\"Neg\"") == NULL) == known, "%s", json);
    reed_text_free(json);
    int64_t shape[2] = {1, 2};
    reed_tensor *in, *out;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, shape, &in), REED_OK);
    ((float *)reed_tensor_data(in))[1] = 3;
    runner_run(&r, &in, 1, &out, 1, "folded");
    ck_assert_float_eq(((float *)reed_tensor_data(out))[1], 6);
    reed_tensor_close(&in);
    reed_tensor_close(&out);
    runner_close(&r);
    build_close(&b);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("ranges");
  TCase *c = tcase_create("ranges");
  tcase_add_loop_test(c, extents_in_their_range_run_and_others_are_refused, 0, 2);
  tcase_add_test(c, a_program_tells_its_ranges);
  tcase_add_loop_test(c, a_question_about_shapes_knows_the_ranges, 0, 2);
  tcase_add_loop_test(c, names_computed_from_others_have_the_range_that_follows, 0,
                      sizeof tied_names / sizeof *tied_names);
  tcase_add_test(c, no_upper_bound_follows_from_none);
  tcase_add_test(c, names_and_ranges_that_fit_no_dim_are_refused);
  tcase_add_test(c, ranges_that_contradict_each_other_are_refused);
  tcase_add_loop_test(c, a_range_limits_the_names_in_its_own, 0, sizeof limited_names / sizeof *limited_names);
  tcase_add_loop_test(c, a_run_is_held_to_a_range_that_follows, 0, 2);
  tcase_add_test(c, an_error_of_extents_tells_the_declared_ranges);
  tcase_add_test(c, the_compiler_folds_what_a_range_proves);
  suite_add_tcase(s, c);
  return suite_run(s);
}
