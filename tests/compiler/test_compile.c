/* The public entry: options, progress, report, files, and every allocation failed once. */
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "reed/compiler.h"
#include "tests/alloc_hook.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* A model with a place for every pass to change, with a branch and a loop. */
static onnx_build *small_model(void) {
  onnx_build *b = build_open(11), *then = build_subgraph(b), *otherwise = build_subgraph(b), *body = build_subgraph(b);
  build_input(b, "x", "f32[n,2,h,w]");
  build_input(b, "c", "bool[]");
  build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
  build_f32(b, "v", "3", (float[]){1, 2, 3});
  build_i64(b, "m", "", (int64_t[]){3});
  build_node(b, "Conv", "x,k", "p");
  build_node(b, "BatchNormalization", "p,v,v,v,v", "q");
  build_node(b, "Relu", "q", "r");
  build_node(b, "Identity", "r", "s");
  build_node(b, "Exp", "s", "e1");
  build_node(b, "Exp", "s", "e2");
  build_node(b, "Add", "e1,e2", "e");
  build_node(then, "Neg", "e", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Sqrt", "e", "u");
  build_output(otherwise, "u", "f32");
  build_node_t *n = build_node(b, "If", "c", "w");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_input(body, "i", "i64[]");
  build_input(body, "go", "bool[]");
  build_input(body, "a", "f32");
  build_node(body, "Identity", "go", "on");
  build_node(body, "Add", "a,v2", "z");
  build_f32(b, "v2", "", (float[]){1});
  build_output(body, "on", "bool");
  build_output(body, "z", "f32");
  build_graph_attr(b, build_node(b, "Loop", "m,,w", "y"), "body", body);
  build_output(b, "y", "f32[n,3,h,w]");
  return b;
}

typedef struct compiled {
  reed_diagnosis diagnosis;
  reed_status status;
  void *bytes;
  size_t n_bytes;
  char *report;
} compiled;

static void compile(compiled *c, onnx_build *b, const reed_compile_options *options) {
  size_t n;
  const void *onnx = build_pack(b, &n);
  *c = (compiled){0};
  reed_diagnosis_clear(&c->diagnosis);
  c->status = reed_compile_bytes(onnx, n, options, &c->bytes, &c->n_bytes, &c->report, &c->diagnosis);
}

static void compiled_fini(compiled *c) {
  mem_free(c->bytes);
  mem_free(c->report);
}

START_TEST(a_model_becomes_module_bytes_and_a_report) {
  onnx_build *b = small_model();
  compiled c;
  compile(&c, b, NULL);
  ck_assert_msg(c.status == REED_OK, "%s", c.diagnosis.message);
  ck_assert_uint_gt(c.n_bytes, 0);
  reed_pass_info pass;
  for (size_t i = 0; reed_compile_pass(i, &pass); i++) {
    char text[64];
    snprintf(text, sizeof text, "\"name\":\"%s\"", pass.name);
    ck_assert_msg(strstr(c.report, text) != NULL, "%s", c.report);
  }
  ck_assert_ptr_nonnull(strstr(c.report, "1 normalisations and scalings folded into weights"));
  ck_assert_ptr_nonnull(strstr(c.report, "\"nodes_before\":"));
  ck_assert_ptr_nonnull(strstr(c.report, "\"lowering\":{"));
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

START_TEST(the_same_model_gives_the_same_bytes) {
  onnx_build *b = small_model();
  compiled first, second;
  compile(&first, b, NULL);
  compile(&second, b, NULL);
  ck_assert_int_eq(first.status, REED_OK);
  ck_assert_uint_eq(first.n_bytes, second.n_bytes);
  ck_assert_mem_eq(first.bytes, second.bytes, first.n_bytes);
  compiled_fini(&first);
  compiled_fini(&second);
  build_close(&b);
}
END_TEST

START_TEST(passes_can_be_disabled_but_for_those_that_are_needed) {
  onnx_build *b = small_model();
  compiled c;
  for (int i = 0; i < pass_count; i++) {
    const char *disabled[] = {pass_table[i].name, NULL};
    compile(&c, b, &(reed_compile_options){.disabled_passes = disabled});
    ck_assert_msg(c.status == (pass_table[i].required ? REED_ERROR_ARGUMENT : REED_OK), "%s: %s", disabled[0],
                  c.diagnosis.message);
    compiled_fini(&c);
  }
  const char *all[] = {"fold", "simplify", "cse", "bn_fold", "fusion", NULL};
  compile(&c, b, &(reed_compile_options){.disabled_passes = all});
  ck_assert_msg(c.status == REED_OK, "%s", c.diagnosis.message);
  compiled_fini(&c);
  const char *unknown[] = {"fusoin", NULL};
  compile(&c, b, &(reed_compile_options){.disabled_passes = unknown});
  ck_assert_int_eq(c.status, REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(c.diagnosis.message, "fusoin"));
  build_close(&b);
}
END_TEST

START_TEST(a_place_of_counts_that_is_none_is_refused) {
  compiled c;
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n]");
  build_node(b, "Relu", "x", "y");
  build_output(b, "y", "f32[n]");
  compile(&c, b, &(reed_compile_options){.counts = (reed_counts)(REED_COUNTS_DEVICE + 1)});
  ck_assert_int_eq(c.status, REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(c.diagnosis.message, "3 is no place of counts"));
  build_close(&b);
}
END_TEST

/* Compiles the model with weights of bf16, and looks for the words in the report. */
static void check_report_of_bf16(onnx_build *b, const char *said) {
  compiled c;
  compile(&c, b, &(reed_compile_options){.precision = REED_PRECISION_BF16});
  ck_assert_msg(c.status == REED_OK, "%s", c.diagnosis.message);
  ck_assert_msg(strstr(c.report, said) != NULL, "%s", c.report);
  compiled_fini(&c);
  build_close(&b);
}

/* Two products; if _i, an operator chooses from the second product's result; otherwise the result is an output of the
 * model. */
START_TEST(a_head_whose_result_is_chosen_from_keeps_its_precision) {
  static float weights[64 * 64];
  onnx_build *b = build_open(13);
  for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i % 13) / 8;
  build_input(b, "x", "f32[n,64]");
  build_f32(b, "w", "64,64", weights);
  weights[0] = 5;
  build_f32(b, "v", "64,64", weights);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "Relu", "a", "r");
  build_node(b, "MatMul", "r,v", "s");
  build_node(b, "Sigmoid", "s", "p");
  if (_i) build_node(b, "ArgMax", "p", "y");
  build_output(b, _i ? "y" : "p", _i ? "i64" : "f32");
  check_report_of_bf16(b, _i ? "1 products with weights of half precision, 1 weights rounded, 1 products of f32"
                             : "2 products with weights of half precision");
}
END_TEST

START_TEST(weights_of_two_products_are_rounded_once) {
  static float weights[64 * 64];
  onnx_build *b = build_open(13);
  for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i % 1021) / 1000;
  build_input(b, "x", "f32[n,64]");
  build_f32(b, "w", "64,64", weights);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "Relu", "a", "r");
  build_node(b, "MatMul", "r,w", "y");
  build_output(b, "y", "f32");
  check_report_of_bf16(b, "2 products with weights of half precision, 1 weights rounded");
}
END_TEST

/* x -> Conv -> "u" -> Conv -> "v" -> Conv of `taps` x `taps`, and another reader of v: the values that are stored as
 * bf16. u is always one, because a 1x1 convolution alone reads it. */
START_TEST(values_are_halved_where_a_convolution_would_round_them) {
  static const struct {
    int taps, stride;
    const char *reader; /* of v besides; "": v is an output of the model */
    int n_values;
  } cases[] = {{1, 1, NULL, 2},    {3, 2, NULL, 2},      {3, 1, NULL, 1},
               {1, 1, "Shape", 2}, {1, 1, "Sigmoid", 1}, {1, 1, "", 1}};
  static float weights[64 * 64 * 9];
  onnx_build *b = build_open(13);
  compiled c;
  char dims[32];
  for (int i = 0; i < 64 * 64 * 9; i++) weights[i] = (float)(i % 13) / 8;
  snprintf(dims, sizeof dims, "64,64,%d,%d", cases[_i].taps, cases[_i].taps);
  build_input(b, "x", "f32[n,64,h,w]");
  build_f32(b, "k", "64,64,1,1", weights);
  build_f32(b, "l", "64,64,1,1", weights + 1);
  build_f32(b, "m", dims, weights);
  build_node(b, "Conv", "x,k", "u");
  build_node(b, "Conv", "u,l", "v");
  build_node_t *last = build_node(b, "Conv", "v,m", "y");
  build_ints(b, last, "strides", cases[_i].stride == 1 ? "1,1" : "2,2");
  build_output(b, "y", "f32");
  const char *reader = cases[_i].reader;
  if (reader && *reader) build_node(b, reader, "v", "z");
  if (reader) build_output(b, *reader ? "z" : "v", strcmp(reader, "Shape") == 0 ? "i64" : "f32");
  compile(&c, b, &(reed_compile_options){.precision = REED_PRECISION_BF16});
  ck_assert_msg(c.status == REED_OK, "%s", c.diagnosis.message);
  const char *got = strstr(c.report, " values between convolutions in bf16");
  ck_assert_int_eq(got ? got[-1] - '0' : 0, cases[_i].n_values);
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

/* A chain of 45 products, then two ways to an output: none, or a choice. Those far before the choice keep f32; without
 * one none does. */
START_TEST(products_far_from_a_choice_keep_their_precision) {
  enum { PRODUCTS = 45 };
  static float weights[PRODUCTS][64 * 64];
  onnx_build *b = build_open(13);
  compiled c;
  char from[16] = "x", to[16], name[16], inputs[40];
  build_input(b, "x", "f32[n,64]");
  for (int k = 0; k < PRODUCTS; k++) {
    for (int i = 0; i < 64 * 64; i++) weights[k][i] = (float)(i % 13 + k) / 8;
    snprintf(name, sizeof name, "w%d", k);
    snprintf(to, sizeof to, "a%d", k);
    snprintf(inputs, sizeof inputs, "%s,%s", from, name);
    build_f32(b, name, "64,64", weights[k]);
    build_node(b, "MatMul", inputs, to);
    memcpy(from, to, sizeof from);
  }
  build_node(b, _i ? "ArgMax" : "Sigmoid", from, "y");
  build_output(b, "y", _i ? "i64" : "f32");
  compile(&c, b, &(reed_compile_options){.precision = _i == 2 ? REED_PRECISION_F16 : REED_PRECISION_BF16});
  ck_assert_msg(c.status == REED_OK, "%s", c.diagnosis.message);
  /* the last product decides; 16 after a product are near with bf16, 40 with f16 */
  static const char *const said[] = {
      "45 products with weights of half precision, 45 weights rounded",
      "16 products with weights of half precision, 16 weights rounded, 29 products of f32 before choices",
      "40 products with weights of half precision, 40 weights rounded, 5 products of f32 before choices"};
  ck_assert_msg(strstr(c.report, said[_i]) != NULL, "%s", c.report);
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

START_TEST(unknown_precisions_are_refused) {
  onnx_build *b = small_model();
  compiled c;
  const char *disabled[] = {"pack", NULL};
  compile(&c, b, &(reed_compile_options){.precision = REED_PRECISION_BF16, .disabled_passes = disabled});
  ck_assert_int_eq(c.status, REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(c.diagnosis.message, "pack"));
  compile(&c, b, &(reed_compile_options){.precision = (reed_precision)3});
  ck_assert_int_eq(c.status, REED_ERROR_ARGUMENT);
  build_close(&b);
}
END_TEST

/* The lists of a graph grow by half: one copy for each of the outputs would take 1.8 GB. */
START_TEST(a_model_of_many_outputs_takes_little_memory) {
  enum { N_OUTPUTS = 30000 };
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_node(b, "Neg", "x", "y");
  for (int i = 0; i < N_OUTPUTS; i++) build_output(b, "y", "f32");
  compiled c;
  struct rusage before, after;
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
  compile(&c, b, NULL);
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);
  ck_assert_int_ne(c.status, REED_ERROR_MEMORY);
  ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 512 << 10); /* KiB */
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

typedef struct steps {
  int n;
  double last;
  bool backwards;
} steps;

static void note_step(void *context, const char *what, double done) {
  steps *s = context;
  s->n++;
  s->backwards = s->backwards || done < s->last || done > 1;
  s->last = done;
}

START_TEST(progress_goes_forward_to_the_end) {
  onnx_build *b = small_model();
  compiled c;
  steps s = {0};
  compile(&c, b, &(reed_compile_options){.progress = note_step, .progress_context = &s});
  ck_assert_int_eq(c.status, REED_OK);
  ck_assert_int_gt(s.n, pass_count);
  ck_assert(!s.backwards);
  ck_assert_double_eq(s.last, 1);
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

/* A sink that keeps all pieces. The sink refuses piece number `fails`; 0: the sink refuses the beginning. */
typedef struct picky_sink {
  char *bytes;
  size_t n_bytes, n;
  int pieces, fails;
} picky_sink;

static reed_status picky_begin(void *context, size_t n_bytes) {
  picky_sink *s = context;
  s->bytes = malloc(n_bytes);
  s->n_bytes = n_bytes;
  return s->fails == 0 ? REED_ERROR_IO : REED_OK;
}

static reed_status picky_write(void *context, const void *bytes, size_t n) {
  picky_sink *s = context;
  if (++s->pieces == s->fails) return REED_ERROR_CANCELLED;
  ck_assert_uint_le(s->n + n, s->n_bytes);
  memcpy(s->bytes + s->n, bytes, n);
  s->n += n;
  return REED_OK;
}

START_TEST(a_sink_gets_the_bytes_in_pieces_and_may_refuse_them) {
  enum { N = 700 }; /* 1.9 MB of weights: two blocks */
  float *w = malloc(sizeof(float[N][N]));
  for (int i = 0; i < N * N; i++) w[i] = (float)(i % 1009) - 500;
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,700]");
  build_f32(b, "w", "700,700", w);
  build_node(b, "MatMul", "x,w", "y");
  build_output(b, "y", "f32[n,700]");
  compiled whole, c;
  compile(&whole, b, NULL);
  ck_assert_msg(whole.status == REED_OK, "%s", whole.diagnosis.message);
  static const reed_status expected[] = {REED_ERROR_IO, REED_ERROR_CANCELLED, REED_ERROR_CANCELLED, REED_OK};
  for (int i = 0; i < 4; i++) {
    picky_sink sink = {.fails = i < 3 ? i : -1};
    compile(&c, b, &(reed_compile_options){.sink = &(reed_module_sink){&sink, picky_begin, picky_write}});
    ck_assert_msg(c.status == expected[i], "%d: %s", i, c.diagnosis.message);
    ck_assert_ptr_null(c.bytes);
    if (c.status == REED_OK) {
      ck_assert_int_ge(sink.pieces, 2);
      ck_assert_uint_eq(sink.n, whole.n_bytes);
      ck_assert_mem_eq(sink.bytes, whole.bytes, whole.n_bytes);
    }
    free(sink.bytes);
    compiled_fini(&c);
  }
  compiled_fini(&whole);
  build_close(&b);
  free(w);
}
END_TEST

START_TEST(options_that_lack_what_they_announce_are_refused) {
  static const struct {
    reed_module_sink sink;
    size_t n_dims;
    const char *said;
  } cases[] = {{{.write = picky_write}, 0, "the sink lacks its function 'begin'"},
               {{.begin = picky_begin}, 0, "the sink lacks its function 'write'"},
               {{.begin = picky_begin, .write = picky_write}, 2, "2 ranges of dims are announced, but dims is NULL"}};
  onnx_build *b = small_model();
  compiled c;
  compile(&c, b, &(reed_compile_options){.sink = &cases[_i].sink, .n_dims = cases[_i].n_dims});
  ck_assert_int_eq(c.status, REED_ERROR_ARGUMENT);
  ck_assert_str_eq(c.diagnosis.message, cases[_i].said);
  compiled_fini(&c);
  build_close(&b);
}
END_TEST

START_TEST(files_are_compiled_and_what_is_none_is_refused) {
  char folder[] = "/tmp/reed-test-XXXXXX", path[64], empty[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/m.onnx", folder);
  snprintf(empty, sizeof empty, "%s/empty.onnx", folder);
  onnx_build *b = small_model();
  size_t n;
  const void *onnx = build_pack(b, &n);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(onnx, 1, n, file), n);
  fclose(file);
  fclose(fopen(empty, "wb"));
  reed_diagnosis d;
  reed_diagnosis_clear(&d);
  void *bytes = NULL;
  ck_assert_msg(reed_compile_file(path, NULL, &bytes, &n, NULL, &d) == REED_OK, "%s", d.message);
  mem_free(bytes);
  ck_assert_int_eq(reed_compile_file(empty, NULL, &bytes, &n, NULL, &d), REED_ERROR_FORMAT);
  ck_assert_int_eq(reed_compile_file(folder, NULL, &bytes, &n, NULL, &d), REED_ERROR_IO);
  ck_assert_int_eq(reed_compile_file("/nowhere/m.onnx", NULL, &bytes, &n, NULL, &d), REED_ERROR_IO);
  ck_assert_ptr_nonnull(strstr(d.message, "/nowhere/m.onnx"));
  ck_assert_int_eq(reed_compile_file(NULL, NULL, &bytes, &n, NULL, &d), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_compile_file(empty, NULL, &bytes, &n, NULL, NULL), REED_ERROR_FORMAT);
  unlink(path);
  unlink(empty);
  rmdir(folder);
  build_close(&b);
}
END_TEST

START_TEST(every_allocation_failed_once_is_reported_and_leaks_nothing) {
  onnx_build *b = small_model();
  for (int64_t n = 1;; n++) {
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    compiled c;
    compile(&c, b, NULL);
    bool reached = alloc_hook_failed();
    if (c.status == REED_OK) compiled_fini(&c);
    ck_assert_msg(alloc_hook_end() == 0, "request %lld leaks", (long long)n);
    ck_assert_msg(c.status == (reached ? REED_ERROR_MEMORY : REED_OK), "request %lld: %s: %s", (long long)n,
                  reed_status_name(c.status), c.diagnosis.message);
    if (!reached) break;
  }
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compile");
  TCase *t = tcase_create("compile");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, a_model_becomes_module_bytes_and_a_report);
  tcase_add_test(t, the_same_model_gives_the_same_bytes);
  tcase_add_test(t, passes_can_be_disabled_but_for_those_that_are_needed);
  tcase_add_loop_test(t, a_head_whose_result_is_chosen_from_keeps_its_precision, 0, 2);
  tcase_add_loop_test(t, products_far_from_a_choice_keep_their_precision, 0, 3);
  tcase_add_test(t, weights_of_two_products_are_rounded_once);
  tcase_add_loop_test(t, values_are_halved_where_a_convolution_would_round_them, 0, 6);
  tcase_add_test(t, unknown_precisions_are_refused);
  tcase_add_test(t, a_place_of_counts_that_is_none_is_refused);
  tcase_add_test(t, a_model_of_many_outputs_takes_little_memory);
  tcase_add_test(t, progress_goes_forward_to_the_end);
  tcase_add_test(t, a_sink_gets_the_bytes_in_pieces_and_may_refuse_them);
  tcase_add_loop_test(t, options_that_lack_what_they_announce_are_refused, 0, 3);
  tcase_add_test(t, files_are_compiled_and_what_is_none_is_refused);
  tcase_add_test(t, every_allocation_failed_once_is_reported_and_leaks_nothing);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
