/* Cancellation of compilations and of compiled models: a compilation ends at whatever step it is cancelled; a Loop
 * without work and a run whose keys are remembered end too, and the session gives the same bits afterwards. Kernels
 * that are cancelled in their middle: tests/vm/test_cancel.c. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/alloc_hook.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"

/* ---- compilations ---- */

static onnx_build *chain_model(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,4]");
  build_f32(b, "w", "4,4", (float[16]){1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7});
  build_f32(b, "v", "4,4", (float[16]){3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3});
  build_node(b, "MatMul", "w,v", "u"); /* folded */
  build_node(b, "MatMul", "x,u", "p");
  build_node(b, "Relu", "p", "r");
  build_node(b, "Add", "r,x", "y");
  build_output(b, "y", "f32[n,4]");
  return b;
}

typedef struct stopper {
  int at, n, flag;
} stopper;

static void stop_at(void *context, const char *what, double done) {
  stopper *s = context;
  if (++s->n == s->at) s->flag = 1;
}

static reed_status compile(onnx_build *b, const reed_compile_options *options, void **out_bytes, size_t *out_n) {
  size_t n;
  const void *onnx = build_pack(b, &n);
  return reed_compile_bytes(onnx, n, options, out_bytes, out_n, NULL, NULL);
}

/* Cancelled in step k for every k: no module comes out. The last step announces the end, when the module is made. */
START_TEST(a_compilation_is_cancelled_at_every_step) {
  onnx_build *b = chain_model();
  stopper all = {0};
  void *bytes = NULL;
  size_t n = 0;
  reed_compile_options options = {.progress = stop_at, .progress_context = &all, .cancel = &all.flag};
  ck_assert_int_eq(compile(b, &options, &bytes, &n), REED_OK);
  reed_text_free(bytes);
  ck_assert_int_gt(all.n, 5);
  for (int k = 1; k < all.n; k++) {
    stopper s = {.at = k};
    void *untouched = &s;
    options.progress_context = &s;
    options.cancel = &s.flag;
    reed_status status = compile(b, &options, &untouched, &n);
    ck_assert_msg(status == REED_ERROR_CANCELLED, "step %d of %d: %s", k, all.n, reed_status_name(status));
    ck_assert_ptr_eq(untouched, &s);
    ck_assert_int_eq(s.n, k); /* no step begins after the cancelled step */
  }
  build_close(&b);
}
END_TEST

START_TEST(a_compilation_that_is_cancelled_before_it_begins_does_nothing) {
  onnx_build *b = chain_model();
  stopper s = {.flag = 1};
  void *bytes;
  size_t n;
  reed_compile_options options = {.progress = stop_at, .progress_context = &s, .cancel = &s.flag};
  ck_assert_int_eq(compile(b, &options, &bytes, &n), REED_ERROR_CANCELLED);
  ck_assert_int_eq(s.n, 1); /* "reading" */
  build_close(&b);
}
END_TEST

/* Weights of 16 MiB each: one is packed while the module is written, the other only gets other extents. */
static onnx_build *large_model(void) {
  enum { SIDE = 2048 };
  onnx_build *b = build_open(17);
  float *elements = malloc((size_t)SIDE * SIDE * sizeof *elements);
  ck_assert_ptr_nonnull(elements);
  for (int i = 0; i < SIDE * SIDE; i++) elements[i] = (float)(i % 1000);
  build_input(b, "x", "f32[n,2048]");
  build_tensor(b, "w", REED_F32, "2048,2048", elements, true);
  build_tensor(b, "v", REED_F32, "1024,4096", elements, true);
  build_i64(b, "square", "2", (int64_t[]){SIDE, SIDE});
  build_node(b, "Reshape", "v,square", "u");
  build_node(b, "MatMul", "x,w", "p");
  build_node(b, "Add", "p,u", "y"); /* u is broadcast against n rows, so that n is 1 or 2048 */
  build_output(b, "y", "f32");
  free(elements);
  return b;
}

typedef struct counting_sink {
  int n, at, flag; /* blocks written; the block at which the flag is raised, 0: before the first, -1: never */
} counting_sink;

static reed_status begin_counting(void *context, size_t n_bytes) {
  counting_sink *s = context;
  s->flag = s->at == 0;
  return REED_OK;
}

static reed_status count_block(void *context, const void *bytes, size_t n) {
  counting_sink *s = context;
  s->flag |= ++s->n == s->at;
  return REED_OK;
}

/* Compiles into the sink; returns the bytes of the largest request for memory. */
static int64_t compile_counting(onnx_build *b, counting_sink *s, reed_status *out_status) {
  const reed_module_sink sink = {s, begin_counting, count_block};
  size_t n;
  const void *onnx = build_pack(b, &n);
  alloc_hook_begin();
  *out_status =
      reed_compile_bytes(onnx, n, &(reed_compile_options){.sink = &sink, .cancel = &s->flag}, NULL, NULL, NULL, NULL);
  ck_assert_int_eq(alloc_hook_end(), 0);
  return alloc_hook_largest();
}

/* No step handles a whole weight at once: the compiler polls between parts of some megabytes, and holds no copy. */
START_TEST(weights_are_written_in_parts_and_a_cancellation_ends_between_two) {
  onnx_build *b = large_model();
  reed_status status;
  counting_sink all = {.at = -1};
  ck_assert_int_lt(compile_counting(b, &all, &status), 8 << 20);
  ck_assert_int_eq(status, REED_OK);
  ck_assert_int_gt(all.n, 32); /* blocks of 1 MiB */
  for (int at = 0; at < all.n; at += 3) {
    counting_sink s = {.at = at};
    (void)compile_counting(b, &s, &status);
    ck_assert_int_eq(status, REED_ERROR_CANCELLED);
    ck_assert_int_eq(s.n, at);
  }
  build_close(&b);
}
END_TEST

/* ---- openings ---- */

static reed_status open_and_close(const void *bytes, size_t n, const reed_program_options *options) {
  reed_program *program = NULL;
  reed_status status = reed_program_open_bytes(bytes, n, options, &program, NULL);
  ck_assert((program != NULL) == (status == REED_OK));
  reed_program_close(&program);
  return status;
}

static reed_status disassemble(const void *bytes, size_t n, const reed_program_options *options) {
  char *text = NULL;
  reed_status status = reed_module_disassemble(bytes, n, options, &text, NULL);
  ck_assert((text != NULL) == (status == REED_OK));
  reed_text_free(text);
  return status;
}

/* A flag that is raised at any request for memory, from the first to the last, ends the work. */
static void raise_at_every_request(const void *bytes, size_t n,
                                   reed_status (*work)(const void *, size_t, const reed_program_options *)) {
  int flag = 0;
  reed_program_options options = {.cancel = &flag};
  alloc_hook_begin();
  ck_assert_int_eq(work(bytes, n, &options), REED_OK);
  int64_t n_requests = alloc_hook_requests();
  ck_assert_int_eq(alloc_hook_end(), 0);
  ck_assert_int_gt(n_requests, 20);
  for (int64_t k = 0; k <= n_requests; k++) {
    flag = k == 0;
    alloc_hook_begin();
    if (k) alloc_hook_raise_at(k, &flag);
    reed_status status = work(bytes, n, &options);
    ck_assert_msg(status == REED_ERROR_CANCELLED, "request %d of %d: %s", (int)k, (int)n_requests,
                  reed_status_name(status));
    ck_assert_int_eq(alloc_hook_end(), 0);
  }
}

START_TEST(an_opening_is_cancelled_at_every_request_for_memory) {
  onnx_build *b = chain_model();
  void *bytes;
  size_t n;
  ck_assert_int_eq(compile(b, NULL, &bytes, &n), REED_OK);
  raise_at_every_request(bytes, n, open_and_close);
  raise_at_every_request(bytes, n, disassemble);
  reed_text_free(bytes);
  build_close(&b);
}
END_TEST

/* ---- runs ---- */

static reed_session *session_of(onnx_build *b, const char *device) {
  void *bytes;
  size_t n;
  reed_program *program;
  reed_session *session;
  ck_assert_int_eq(compile(b, NULL, &bytes, &n), REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(bytes, n, NULL, &program, NULL), REED_OK);
  ck_assert_int_eq(
      reed_session_open(program, &(reed_session_options){.device = device, .n_threads = 1}, &session, NULL), REED_OK);
  reed_text_free(bytes);
  reed_program_close(&program);
  build_close(&b);
  return session;
}

/* A Loop of m rounds. empty: each round hands its state on; otherwise it multiplies the state with itself. */
static onnx_build *loop_model(bool empty) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(b, "m", "i64[]");
  build_input(b, "x", "f32[n,n]");
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "s", "f32[n,n]");
  build_node(body, "Identity", "c", "d");
  if (empty) {
    build_node(body, "Identity", "s", "t");
  } else {
    build_node(body, "MatMul", "s,s", "p");
    build_node(body, "Sigmoid", "p", "t");
  }
  build_output(body, "d", "bool");
  build_output(body, "t", "f32");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "y"), "body", body);
  build_output(b, "y", "f32");
  return b;
}

static void *cancel_again_and_again(void *context) {
  for (;;) {
    usleep(2000);
    reed_session_cancel(context);
    pthread_testcancel();
  }
  return NULL;
}

static reed_status run(reed_session *session, int64_t rounds, reed_tensor **out_tensor) {
  reed_tensor *in[2];
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &in[0]), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){8, 8}, &in[1]), REED_OK);
  memcpy(reed_tensor_data(in[0]), &rounds, sizeof rounds);
  for (int i = 0; i < 64; i++) ((float *)reed_tensor_data(in[1]))[i] = (float)i / 64;
  reed_status status = reed_session_run(session, in, 2, out_tensor, 1, NULL);
  reed_tensor_close(&in[0]);
  reed_tensor_close(&in[1]);
  return status;
}

static void cancel_and_go_on(bool empty, const char *device) {
  reed_session *session = session_of(loop_model(empty), device);
  reed_tensor *before, *after;
  ck_assert_int_eq(run(session, 5, &before), REED_OK);
  for (int i = 0; i < 3; i++) { /* from the second run on the memo has the keys of the first round */
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_again_and_again, session), 0);
    ck_assert_int_eq(run(session, (int64_t)1 << 62, &after), REED_ERROR_CANCELLED);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    ck_assert_int_eq(run(session, 5, &after), REED_OK);
    ck_assert_int_eq(memcmp(reed_tensor_data(before), reed_tensor_data(after), 64 * sizeof(float)), 0);
    reed_tensor_close(&after);
  }
  reed_tensor_close(&before);
  reed_session_close(&session);
}

START_TEST(a_loop_of_2_to_the_62_empty_rounds_is_cancelled) {
  cancel_and_go_on(true, "host");
  cancel_and_go_on(true, "sim");
}
END_TEST

START_TEST(a_loop_whose_rounds_are_remembered_is_cancelled) {
  cancel_and_go_on(false, "host");
  cancel_and_go_on(false, "sim");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cancelled");
  TCase *cases = tcase_create("cases");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, a_compilation_is_cancelled_at_every_step);
  tcase_add_test(cases, a_compilation_that_is_cancelled_before_it_begins_does_nothing);
  tcase_add_test(cases, weights_are_written_in_parts_and_a_cancellation_ends_between_two);
  tcase_add_test(cases, an_opening_is_cancelled_at_every_request_for_memory);
  tcase_add_test(cases, a_loop_of_2_to_the_62_empty_rounds_is_cancelled);
  tcase_add_test(cases, a_loop_whose_rounds_are_remembered_is_cancelled);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
