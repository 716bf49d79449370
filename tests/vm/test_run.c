/* Hand-written modules through the public API: scalars, branches, recursion, ADTs, closures, sequences, limits, epochs
 * and their memo. */
#include <check.h>
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reed/reed.h"
#include "tests/alloc_hook.h"

static reed_diagnosis *diagnosis;

static reed_program *assembled(const char *text) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(text, NULL, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program *program;
  status = reed_program_open_bytes(bytes, n, NULL, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_text_free(bytes);
  return program;
}

static reed_session *opened(const char *text, const reed_session_options *options) {
  reed_program *program = assembled(text);
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program, options, &session, diagnosis), REED_OK);
  reed_program_close(&program); /* the session keeps it */
  return session;
}

/* Runs a module without inputs whose one output is an i64 scalar. */
static int64_t value_of(const char *text) {
  reed_session *session = opened(text, NULL);
  reed_tensor *output;
  reed_status status = reed_session_run(session, NULL, 0, &output, 1, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  int64_t value = *(int64_t *)reed_tensor_data(output);
  reed_tensor_close(&output);
  reed_session_close(&session);
  return value;
}

static reed_status failure_of(const char *text, const reed_session_options *options) {
  reed_session *session = opened(text, options);
  reed_tensor *output;
  reed_status status = REED_OK;
  for (int i = 0; i < 2; i++) { /* a session runs again after a failure */
    status = reed_session_run(session, NULL, 0, &output, 1, diagnosis);
    ck_assert_int_ne(status, REED_OK);
    ck_assert_str_ne(reed_diagnosis_function(diagnosis), "");
    ck_assert_int_ge(reed_diagnosis_pc(diagnosis), 0);
  }
  reed_session_close(&session);
  return status;
}

#define HEADER \
  ".module \"m\" producer \"test\" \"1\" devices 1\n.type t0 = i64[] \"out\"\n.type t1 = object\n.inputs\n.outputs " \
  "t0\n"

static const char fibonacci[] = HEADER ".function main () -> (t0) registers 1 2\n"
                                       "  s.const s0, 20\n"
                                       "  call fib, [], [s1], [], [s0]\n"
                                       "  r.scalar r0, s1, i64\n"
                                       "  return [r0], []\n"
                                       ".function fib (| 1) -> (| 1) registers 0 5\n"
                                       "  s.const s1, 2\n"
                                       "  s.lt s2, s0, s1\n"
                                       "  branch.ifnot s2, more\n"
                                       "  return [], [s0]\n"
                                       "more:\n"
                                       "  s.const s1, 1\n"
                                       "  s.sub s3, s0, s1\n"
                                       "  call fib, [], [s4], [], [s3]\n"
                                       "  s.sub s3, s3, s1\n"
                                       "  call fib, [], [s2], [], [s3]\n"
                                       "  s.add s4, s4, s2\n"
                                       "  return [], [s4]\n";

START_TEST(functions_recurse) { ck_assert_int_eq(value_of(fibonacci), 6765); }
END_TEST

/* A list of 1..n as ADTs (tag 0: nil, 1: cons), summed by recursion. */
#define LIST_PROGRAM(n) \
  HEADER \
  ".function main () -> (t0) registers 3 5\n" \
  "  s.const s0, 1\n" \
  "  s.const s1, " #n "\n" \
  "  s.const s2, 1\n" \
  "  adt.make r0, 0, []\n" \
  "head:\n" \
  "  s.le s3, s0, s1\n" \
  "  branch.ifnot s3, done\n" \
  "  r.scalar r1, s0, i64\n" \
  "  adt.make r0, 1, [r1, r0]\n" \
  "  s.add s0, s0, s2\n" \
  "  jump head\n" \
  "done:\n" \
  "  call sum, [], [s4], [r0], []\n" \
  "  r.scalar r2, s4, i64\n" \
  "  return [r2], []\n" \
  ".function sum (t1) -> (| 1) registers 3 3\n" \
  "  adt.tag s0, r0\n" \
  "  branch.if s0, cons\n" \
  "  return [], [s0]\n" \
  "cons:\n" \
  "  adt.get r1, r0, 0\n" \
  "  adt.get r2, r0, 1\n" \
  "  call sum, [], [s1], [r2], []\n" \
  "  assert.shape r1, t0\n" \
  "  s.item s2, r1\n" \
  "  s.add s1, s1, s2\n" \
  "  return [], [s1]\n"

START_TEST(lists_are_built_and_summed_by_recursion) { ck_assert_int_eq(value_of(LIST_PROGRAM(1000)), 500500); }
END_TEST

START_TEST(recursion_deeper_than_the_limit_is_an_error) {
  ck_assert_int_eq(failure_of(LIST_PROGRAM(1000), &(reed_session_options){.max_call_depth = 100}), REED_ERROR_LIMIT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "100"));
}
END_TEST

START_TEST(closures_capture_and_sequences_grow) {
  ck_assert_int_eq(value_of(HEADER ".function main () -> (t0) registers 6 5\n"
                                   "  s.const s0, 30\n"
                                   "  r.scalar r0, s0, i64\n"
                                   "  closure.make r1, plus, [r0]\n"
                                   "  seq.make r2\n"
                                   "  s.const s1, 12\n"
                                   "  r.scalar r3, s1, i64\n"
                                   "  call.closure r1, [r4], [r3]\n"
                                   "  seq.push r2, r4\n"
                                   "  seq.push r2, r3\n"
                                   "  s.const s2, 0\n"
                                   "  seq.get r5, r2, s2\n"
                                   "  assert.shape r5, t0\n"
                                   "  s.item s3, r5\n"
                                   "  seq.length s4, r2\n"
                                   "  s.mul s3, s3, s4\n"
                                   "  r.scalar r5, s3, i64\n"
                                   "  return [r5], []\n"
                                   ".function plus (t0, t0) -> (t0) registers 3 2\n"
                                   "  s.item s0, r0\n"
                                   "  s.item s1, r1\n"
                                   "  s.add s0, s0, s1\n"
                                   "  r.scalar r2, s0, i64\n"
                                   "  return [r2], []\n"),
                   84);
}
END_TEST

START_TEST(an_optional_is_asked_before_it_is_unwrapped) {
  ck_assert_int_eq(value_of(HEADER ".function main () -> (t0) registers 4 4\n"
                                   "  opt.none r0\n"
                                   "  opt.has s0, r0\n"
                                   "  s.const s1, 41\n"
                                   "  r.scalar r1, s1, i64\n"
                                   "  opt.has s2, r1\n"
                                   "  opt.get r2, r1\n"
                                   "  assert.shape r2, t0\n"
                                   "  s.item s3, r2\n"
                                   "  s.add s3, s3, s2\n"
                                   "  s.add s3, s3, s0\n"
                                   "  r.scalar r3, s3, i64\n"
                                   "  return [r3], []\n"),
                   42);
  ck_assert_int_eq(
      failure_of(HEADER
                 ".function main () -> (t0) registers 2 1\n  opt.none r0\n  opt.get r1, r0\n  assert.shape r1, t0\n"
                 "  return [r1], []\n",
                 NULL),
      REED_ERROR_TYPE);
}
END_TEST

START_TEST(overflow_division_by_zero_and_fail_are_errors) {
  static const struct {
    const char *body;
    reed_status status;
  } cases[] = {
      {"  s.const s0, 9223372036854775807\n  s.const s1, 1\n  s.add s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, -9223372036854775808\n  s.const s1, -1\n  s.div s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, 7\n  s.const s1, 0\n  s.mod s0, s0, s1\n", REED_ERROR_VALUE},
      {"  s.const s0, 7\n  s.const s1, 1\n  branch.ifnot s1, on\n  fail \"no way\"\non:\n", REED_ERROR_FAILED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "%s.function main () -> (t0) registers 1 2\n%s  r.scalar r0, s0, i64\n  return [r0], []\n", HEADER,
             cases[i].body);
    ck_assert_int_eq(failure_of(text, NULL), cases[i].status);
  }
}
END_TEST

START_TEST(division_rounds_down) {
  ck_assert_int_eq(value_of(HEADER
                            ".function main () -> (t0) registers 1 4\n"
                            "  s.const s0, -7\n  s.const s1, 2\n  s.div s2, s0, s1\n  s.mod s3, s0, s1\n" /* -4, 1 */
                            "  s.const s1, 10\n  s.mul s2, s2, s1\n  s.add s2, s2, s3\n"
                            "  r.scalar r0, s2, i64\n  return [r0], []\n"),
                   -39);
}
END_TEST

static const char endless[] = HEADER ".function main () -> (t0) registers 1 1\n"
                                     "  s.const s0, 1\n"
                                     "  r.scalar r0, s0, i64\n"
                                     "again:\n"
                                     "  branch.if s0, again\n"
                                     "  return [r0], []\n";

START_TEST(an_endless_loop_ends_with_the_instruction_budget) {
  ck_assert_int_eq(failure_of(endless, &(reed_session_options){.max_instructions = 100000}), REED_ERROR_LIMIT);
}
END_TEST

static void *cancel_soon(void *session) {
  usleep(20000);
  reed_session_cancel(session);
  return NULL;
}

START_TEST(an_endless_loop_is_cancelled_from_another_thread) {
  reed_session *session = opened(endless, NULL);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, session), 0);
  reed_tensor *output;
  ck_assert_int_eq(reed_session_run(session, NULL, 0, &output, 1, diagnosis), REED_ERROR_CANCELLED);
  pthread_join(thread, NULL);
  reed_session_close(&session);
}
END_TEST

/* ---- epochs ---- */

/* y = relu(x + x): one intermediate in the arena, in place; the output from the pool. */
static const char small_epoch[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                                  ".type t0 = f32[n, 4] \"x\"\n"
                                  ".type t1 = f32[n, 4] \"y\"\n"
                                  ".inputs t0\n"
                                  ".outputs t1\n"
                                  ".site k0 = Add (2 -> 1) \"add\"\n"
                                  ".site k1 = Relu (1 -> 1) \"relu\"\n"
                                  ".function main (t0) -> (t1) registers 5 0\n"
                                  "  assert.shape r0, t0\n"
                                  "  epoch.enter 0, plan, [r0:shape], []\n"
                                  "  shape.like r1, r0, device\n"
                                  "  shape k0, device, [r2], [r1:shape, r1:shape]\n"
                                  "  shape k1, device, [r3], [r2:shape]\n"
                                  "plan:\n"
                                  "  epoch.plan 0\n"
                                  "  copy r1, r0, input, k0, 0\n"
                                  "  invoke k0, device, [r2], [r1, r1]\n"
                                  "  kill r1\n"
                                  "  invoke k1, device, [r3], [r2]\n"
                                  "  kill r2\n"
                                  "  epoch.end 0\n"
                                  "  readback r4, r3, output, k1, 0\n"
                                  "  sync\n"
                                  "  kill r3\n"
                                  "  return [r4], []\n";

static reed_status run_floats(reed_session *session, int64_t rows, float first, reed_tensor **out_output) {
  reed_tensor *input;
  int64_t dims[2] = {rows, 4};
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, dims, &input), REED_OK);
  for (int64_t i = 0; i < rows * 4; i++) ((float *)reed_tensor_data(input))[i] = first + (float)i;
  reed_status status = reed_session_run(session, &input, 1, out_output, 1, diagnosis);
  reed_tensor_close(&input);
  return status;
}

static void check_floats(reed_session *session, int64_t rows, float first) {
  reed_tensor *output;
  reed_status status = run_floats(session, rows, first, &output);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  ck_assert_int_eq(reed_tensor_dims(output)[0], rows);
  for (int64_t i = 0; i < rows * 4; i++) {
    float sum = 2 * (first + (float)i);
    ck_assert_float_eq(((float *)reed_tensor_data(output))[i], sum > 0 ? sum : 0);
  }
  reed_tensor_close(&output);
}

/* stats[group][key], or stats[group][member][key]. */
static double figure(reed_session *session, const char *group, const char *member, const char *key) {
  char *json;
  ck_assert_int_eq(reed_session_stats_json(session, &json, NULL), REED_OK);
  cJSON *root = cJSON_Parse(json), *of = cJSON_GetObjectItem(root, group);
  double value = cJSON_GetNumberValue(cJSON_GetObjectItem(member ? cJSON_GetObjectItem(of, member) : of, key));
  cJSON_Delete(root);
  reed_text_free(json);
  return value;
}

static double memo_figure(reed_session *session, const char *key) { return figure(session, "memo", NULL, key); }

static void check_memo(const char *device) {
  reed_session *session = opened(small_epoch, &(reed_session_options){.device = device, .memo_entries = 2});
  check_floats(session, 3, -5);
  check_floats(session, 3, -9);
  ck_assert_double_eq(memo_figure(session, "hits"), 1);
  ck_assert_double_eq(memo_figure(session, "misses"), 1);
  check_floats(session, 0, 0);
  check_floats(session, 7, -3);
  ck_assert_double_eq(memo_figure(session, "evictions"), 1);
  ck_assert_double_eq(memo_figure(session, "entries"), 2);
  check_floats(session, 3, 1);
  ck_assert_double_eq(memo_figure(session, "misses"), 4);
  reed_session_close(&session);
}

START_TEST(a_seen_key_hits_and_the_least_recent_goes_first) {
  check_memo("host");
  check_memo("sim");
}
END_TEST

START_TEST(a_smaller_extent_uses_the_plan_of_a_larger_one) {
  reed_session *session = opened(small_epoch, NULL);
  check_floats(session, 100, 0);
  for (int64_t n = 19; n >= 0; n--) check_floats(session, n, 0);
  ck_assert_double_eq(memo_figure(session, "plans_reused"), 20);
  reed_session_close(&session);
}
END_TEST

/* max(x + max(x + x)): the first epoch has x + x in its arena, the second nothing but x + max, which outlives it. */
static const char three_epochs[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                                   ".type t0 = f32[n, 4] \"x\"\n"
                                   ".type t1 = f32[] \"y\"\n"
                                   ".inputs t0\n"
                                   ".outputs t1\n"
                                   ".site add = Add (2 -> 1) \"add\"\n"
                                   ".site max = ReduceMax (1 -> 1) \"max\" {keepdims = 0}\n"
                                   ".function main (t0) -> (t1) registers 5 0\n"
                                   "  assert.shape r0, t0\n"
                                   "  epoch.enter 0, first, [r0:shape], []\n"
                                   "  shape add, host, [r1], [r0:shape, r0:shape]\n"
                                   "  shape max, host, [r2], [r1:shape]\n"
                                   "first:\n"
                                   "  epoch.plan 0\n"
                                   "  invoke add, host, [r1], [r0, r0]\n"
                                   "  invoke max, host, [r2], [r1]\n"
                                   "  kill r1\n"
                                   "  epoch.end 0\n"
                                   "  epoch.enter 1, second, [r0:shape, r2:shape], []\n"
                                   "  shape add, host, [r3], [r0:shape, r2:shape]\n"
                                   "second:\n"
                                   "  epoch.plan 1\n"
                                   "  invoke add, host, [r3], [r0, r2]\n"
                                   "  epoch.end 1\n"
                                   "  epoch.enter 2, third, [r3:shape], []\n"
                                   "  shape max, host, [r4], [r3:shape]\n"
                                   "third:\n"
                                   "  epoch.plan 2\n"
                                   "  invoke max, host, [r4], [r3]\n"
                                   "  epoch.end 2\n"
                                   "  kill r3\n"
                                   "  return [r4], []\n";

START_TEST(an_arena_no_epoch_needs_makes_room_for_what_outlives_them) {
  enum { ROWS = 1 << 17 };
  const double tensor_bytes = ROWS * 4 * 4;
  reed_session *session =
      opened(three_epochs, &(reed_session_options){.memory_cap_bytes = (int64_t)(tensor_bytes * 1.5)});
  for (int i = 0; i < 3; i++) {
    reed_tensor *output;
    reed_status status = run_floats(session, ROWS, 0, &output);
    ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
    ck_assert_float_eq(*(float *)reed_tensor_data(output), 3 * (ROWS * 4 - 1));
    reed_tensor_close(&output);
    ck_assert_double_ge(figure(session, "memory", "host", "arena_bytes"), tensor_bytes);
    ck_assert_double_lt(figure(session, "memory", "host", "peak_bytes"), tensor_bytes * 1.5);
  }
  reed_session_close(&session);
}
END_TEST

/* y = max over x * x | (x + x | relu(x)) | x | (x + x, which is wanted later, too), + max over x + x. */
static const char joined[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                             ".type t0 = f32[n, 4] \"x\"\n"
                             ".type t1 = f32[] \"y\"\n"
                             ".inputs t0\n"
                             ".outputs t1\n"
                             ".site add = Add (2 -> 1) \"add\"\n"
                             ".site mul = Mul (2 -> 1) \"mul\"\n"
                             ".site relu = Relu (1 -> 1) \"relu\"\n"
                             ".site two = Concat (2 -> 1) \"two\" {axis = 0}\n"
                             ".site four = Concat (4 -> 1) \"four\" {axis = -2}\n"
                             ".site max = ReduceMax (1 -> 1) \"max\" {keepdims = 0}\n"
                             ".function main (t0) -> (t1) registers 12 0\n"
                             "  assert.shape r0, t0\n"
                             "  epoch.enter 0, plan, [r0:shape], []\n"
                             "  shape.like r1, r0, device\n"
                             "  shape mul, device, [r2], [r1:shape, r1:shape]\n"
                             "  shape add, device, [r3], [r1:shape, r1:shape]\n"
                             "  shape relu, device, [r4], [r1:shape]\n"
                             "  shape two, device, [r5], [r3:shape, r4:shape]\n"
                             "  shape add, device, [r6], [r1:shape, r1:shape]\n"
                             "  shape four, device, [r7], [r2:shape, r5:shape, r1:shape, r6:shape]\n"
                             "  shape max, device, [r8], [r7:shape]\n"
                             "  shape max, device, [r9], [r6:shape]\n"
                             "  shape add, device, [r10], [r8:shape, r9:shape]\n"
                             "plan:\n"
                             "  epoch.plan 0\n"
                             "  copy r1, r0, input, add, 0\n"
                             "  invoke mul, device, [r2], [r1, r1]\n"
                             "  invoke add, device, [r3], [r1, r1]\n"
                             "  invoke relu, device, [r4], [r1]\n"
                             "  invoke two, device, [r5], [r3, r4]\n"
                             "  kill r3\n"
                             "  kill r4\n"
                             "  invoke add, device, [r6], [r1, r1]\n"
                             "  invoke four, device, [r7], [r2, r5, r1, r6]\n"
                             "  kill r2\n"
                             "  kill r5\n"
                             "  invoke max, device, [r8], [r7]\n"
                             "  kill r7\n"
                             "  invoke max, device, [r9], [r6]\n"
                             "  kill r6\n"
                             "  kill r1\n"
                             "  invoke add, device, [r10], [r8, r9]\n"
                             "  kill r8\n"
                             "  kill r9\n"
                             "  epoch.end 0\n"
                             "  readback r11, r10, output, add, 0\n"
                             "  sync\n"
                             "  kill r10\n"
                             "  return [r11], []\n";

static float joined_result(reed_session *session, int64_t rows, float first) {
  reed_tensor *output;
  reed_status status = run_floats(session, rows, first, &output);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  float value = *(float *)reed_tensor_data(output);
  reed_tensor_close(&output);
  return value;
}

static float joined_expected(int64_t rows, float first) {
  float most = -1e30f, sums = -1e30f;
  for (int64_t i = 0; i < rows * 4; i++) {
    float x = first + (float)i, values[] = {x * x, x + x, x > 0 ? x : 0, x};
    for (int k = 0; k < 4; k++) most = values[k] > most ? values[k] : most;
    sums = x + x > sums ? x + x : sums;
  }
  return most + sums;
}

START_TEST(what_is_joined_is_computed_in_its_place) {
  const char *devices[] = {"host", "sim"};
  for (int d = 0; d < 2; d++) {
    reed_session *session = opened(joined, &(reed_session_options){.device = devices[d]});
    static const struct {
      int64_t rows;
      float first;
    } runs[] = {{4099, -20000}, {4099, 3},    {17, -9}, {1, 0.25f},
                {3, -2},        {4099, -1e4f}}; /* smaller ones use the plan of the first, with other places */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
      ck_assert_float_eq(joined_result(session, runs[i].rows, runs[i].first),
                         joined_expected(runs[i].rows, runs[i].first));
    ck_assert_double_eq(memo_figure(session, "plans_reused"), 3);
    /* the whole of five and the sum that is wanted later; on an accelerator x, too. Beside it: what the maxima need */
    ck_assert_double_lt(figure(session, "memory", d ? "sim" : "host", "arena_bytes"), 4099 * 16 * (6.1 + d));
    reed_session_close(&session);
  }
}
END_TEST

/* w = x + x is cut in two; y = max over relu(w), which is computed while the parts are wanted, + max over the first +
 * first + max over second * second. */
static const char cut[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                          ".type t0 = f32[n, 4] \"x\"\n"
                          ".type t1 = f32[] \"y\"\n"
                          ".inputs t0\n"
                          ".outputs t1\n"
                          ".site add = Add (2 -> 1) \"add\"\n"
                          ".site mul = Mul (2 -> 1) \"mul\"\n"
                          ".site relu = Relu (1 -> 1) \"relu\"\n"
                          ".site halves = Split (1 -> 2) \"halves\" {axis = 0, num_outputs = 2}\n"
                          ".site max = ReduceMax (1 -> 1) \"max\" {keepdims = 0}\n"
                          ".function main (t0) -> (t1) registers 15 0\n"
                          "  assert.shape r0, t0\n"
                          "  epoch.enter 0, plan, [r0:shape], []\n"
                          "  shape.like r1, r0, device\n"
                          "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                          "  shape halves, device, [r3, r4], [r2:shape]\n"
                          "  shape relu, device, [r5], [r2:shape]\n"
                          "  shape max, device, [r6], [r5:shape]\n"
                          "  shape add, device, [r7], [r3:shape, r3:shape]\n"
                          "  shape max, device, [r8], [r7:shape]\n"
                          "  shape mul, device, [r9], [r4:shape, r4:shape]\n"
                          "  shape max, device, [r10], [r9:shape]\n"
                          "  shape add, device, [r11], [r6:shape, r8:shape]\n"
                          "  shape add, device, [r12], [r11:shape, r10:shape]\n"
                          "plan:\n"
                          "  epoch.plan 0\n"
                          "  copy r1, r0, input, add, 0\n"
                          "  invoke add, device, [r2], [r1, r1]\n"
                          "  kill r1\n"
                          "  invoke halves, device, [r3, r4], [r2]\n"
                          "  invoke relu, device, [r5], [r2]\n"
                          "  invoke max, device, [r6], [r5]\n"
                          "  kill r2\n"
                          "  kill r5\n"
                          "  invoke add, device, [r7], [r3, r3]\n"
                          "  kill r3\n"
                          "  invoke max, device, [r8], [r7]\n"
                          "  kill r7\n"
                          "  invoke mul, device, [r9], [r4, r4]\n"
                          "  kill r4\n"
                          "  invoke max, device, [r10], [r9]\n"
                          "  kill r9\n"
                          "  invoke add, device, [r11], [r6, r8]\n"
                          "  kill r6\n"
                          "  kill r8\n"
                          "  invoke add, device, [r12], [r11, r10]\n"
                          "  kill r10\n"
                          "  kill r11\n"
                          "  epoch.end 0\n"
                          "  readback r13, r12, output, add, 0\n"
                          "  sync\n"
                          "  kill r12\n"
                          "  return [r13], []\n";

static float cut_expected(int64_t rows, float first) {
  float most = 0, sums = -1e30f, squares = -1e30f;
  for (int64_t i = 0; i < rows * 4; i++) {
    float w = 2 * (first + (float)i);
    most = w > most ? w : most;
    if (i < (rows + 1) / 2 * 4) sums = 2 * w > sums ? 2 * w : sums;
    else squares = w * w > squares ? w * w : squares;
  }
  return most + sums + squares;
}

START_TEST(what_is_cut_out_lies_where_it_was) {
  const char *devices[] = {"host", "sim"};
  for (int d = 0; d < 2; d++) {
    reed_session *session = opened(cut, &(reed_session_options){.device = devices[d]});
    static const struct {
      int64_t rows;
      float first;
    } runs[] = {{4098, -20000}, {4098, 3},    {17, -9}, {2, 0.25f},
                {3, -2},        {4098, -1e4f}}; /* smaller ones use the plan of the first, with other places */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
      ck_assert_float_eq(joined_result(session, runs[i].rows, runs[i].first),
                         cut_expected(runs[i].rows, runs[i].first));
    ck_assert_double_lt(figure(session, "memory", d ? "sim" : "host", "arena_bytes"),
                        4098 * 16 * 2.1); /* w and relu(w), but no parts of their own */
    reed_session_close(&session);
  }
}
END_TEST

/* The first half of x + x is all that is given: the rest of the sum goes. */
static const char half[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                           ".type t0 = f32[n, 4] \"x\"\n"
                           ".type t1 = f32[m, 4] \"y\"\n"
                           ".inputs t0\n"
                           ".outputs t1\n"
                           ".site add = Add (2 -> 1) \"add\"\n"
                           ".site halves = Split (1 -> 2) \"halves\" {axis = 0, num_outputs = 2}\n"
                           ".function main (t0) -> (t1) registers 7 0\n"
                           "  assert.shape r0, t0\n"
                           "  epoch.enter 0, plan, [r0:shape], []\n"
                           "  shape.like r1, r0, device\n"
                           "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                           "  shape halves, device, [r3, r4], [r2:shape]\n"
                           "  shape.like r5, r3, device\n"
                           "plan:\n"
                           "  epoch.plan 0\n"
                           "  copy r1, r0, input, add, 0\n"
                           "  invoke add, device, [r2], [r1, r1]\n"
                           "  kill r1\n"
                           "  invoke halves, device, [r3, r4], [r2]\n"
                           "  kill r2\n"
                           "  kill r4\n"
                           "  view r5, r3\n"
                           "  kill r3\n"
                           "  epoch.end 0\n"
                           "  readback r6, r5, output, add, 0\n"
                           "  sync\n"
                           "  kill r5\n"
                           "  return [r6], []\n";

START_TEST(a_part_that_outlives_its_epoch_has_memory_of_its_own) {
  enum { ROWS = 1 << 14 };
  reed_session *session = opened(half, NULL);
  reed_tensor *output;
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(run_floats(session, ROWS, (float)i, &output), REED_OK);
    for (int k = 0; k < ROWS * 2; k++) ck_assert_float_eq(((float *)reed_tensor_data(output))[k], 2 * (float)(i + k));
    reed_tensor_close(&output);
  }
  /* the sum and the half that is not given; the other one is in the output's memory, or it would be here */
  ck_assert_double_ge(figure(session, "memory", "host", "arena_bytes"), ROWS * 16);
  reed_session_close(&session);
}
END_TEST

/* Nothing of it lies in the pool. */
START_TEST(an_output_is_computed_where_it_is_given) {
  enum { ROWS = 1 << 14 };
  const char *devices[] = {"host", "sim"};
  for (int d = 0; d < 2; d++) {
    reed_session *session = opened(small_epoch, &(reed_session_options){.device = devices[d]});
    for (int i = 0; i < 3; i++) check_floats(session, ROWS, (float)i);
    ck_assert_double_lt(figure(session, "memory", "host", "peak_bytes"),
                        ROWS * 4 * 4 * 0.1); /* the sum is computed in place */
    reed_tensor *kept[3];
    for (int i = 0; i < 3; i++) ck_assert_int_eq(run_floats(session, ROWS, (float)i, &kept[i]), REED_OK);
    reed_session_close(&session); /* outputs outlive it */
    for (int i = 0; i < 3; i++) {
      ck_assert_float_eq(((float *)reed_tensor_data(kept[i]))[5], 2 * (float)(i + 5));
      reed_tensor_close(&kept[i]);
    }
  }
}
END_TEST

START_TEST(a_tensor_returned_twice_is_two_outputs) {
  char text[sizeof small_epoch + 64], *at;
  strcpy(text, small_epoch);
  /* the same value as a second output */
  ck_assert_ptr_nonnull(at = strstr(text, ".outputs t1"));
  memmove(at + 15, at + 11, strlen(at + 11) + 1);
  memcpy(at, ".outputs t1, t1", 15);
  ck_assert_ptr_nonnull(at = strstr(text, "-> (t1)"));
  memmove(at + 11, at + 7, strlen(at + 7) + 1);
  memcpy(at, "-> (t1, t1)", 11);
  ck_assert_ptr_nonnull(at = strstr(text, "return [r4]"));
  strcpy(at, "return [r4, r4], []\n");
  reed_session *session = opened(text, NULL);
  reed_tensor *input, *outputs[2];
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){1, 4}, &input), REED_OK);
  ((float *)reed_tensor_data(input))[2] = 4;
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(reed_session_run(session, &input, 1, outputs, 2, diagnosis), REED_OK);
    ck_assert_ptr_ne(reed_tensor_data(outputs[0]), reed_tensor_data(outputs[1]));
    for (int k = 0; k < 2; k++) {
      ck_assert_float_eq(((float *)reed_tensor_data(outputs[k]))[2], 8);
      reed_tensor_close(&outputs[k]);
    }
  }
  reed_tensor_close(&input);
  reed_session_close(&session);
}
END_TEST

static void check_steady(const char *device) {
  alloc_hook_begin();
  reed_diagnosis *d = NULL;
  reed_session *session = opened(small_epoch, &(reed_session_options){.device = device});
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){5, 4}, &input), REED_OK);
  int64_t before = 0;
  for (int i = 0; i < 10; i++) {
    if (i == 3) before = alloc_hook_requests();
    ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, d), REED_OK);
    reed_tensor_close(&output);
  }
  ck_assert_int_eq(alloc_hook_requests(), before);
  reed_tensor_close(&input);
  reed_session_close(&session);
  ck_assert_int_eq(alloc_hook_end(), 0);
}

START_TEST(a_hit_takes_nothing_from_the_heap) {
  check_steady("host");
  check_steady("sim");
}
END_TEST

START_TEST(a_wrong_input_names_input_and_both_shapes) {
  reed_session *session = opened(small_epoch, NULL);
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){5, 3}, &input), REED_OK);
  ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, diagnosis), REED_ERROR_SHAPE);
  ck_assert_str_eq(reed_diagnosis_input(diagnosis), "x");
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "f32[n,4]"));
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "f32[5,3]"));
  reed_tensor_close(&input);
  reed_session_close(&session);
}
END_TEST

START_TEST(every_host_allocation_failed_once_is_reported_and_leaks_nothing) {
  for (int64_t n = 1;; n++) {
    alloc_hook_begin();
    reed_diagnosis *d = NULL;
    void *bytes = NULL;
    size_t n_bytes;
    reed_program *program = NULL;
    reed_session *session = NULL;
    reed_tensor *input = NULL, *output = NULL;
    alloc_hook_fail_at(n);
    reed_status status = reed_diagnosis_open(&d);
    if (status == REED_OK) status = reed_module_assemble(small_epoch, NULL, &bytes, &n_bytes, d);
    if (status == REED_OK) status = reed_program_open_bytes(bytes, n_bytes, NULL, &program, d);
    if (status == REED_OK) status = reed_session_open(program, &(reed_session_options){.device = "sim"}, &session, d);
    if (status == REED_OK) status = reed_tensor_open(REED_F32, 2, (int64_t[]){5, 4}, &input);
    if (status == REED_OK) status = reed_session_run(session, &input, 1, &output, 1, d);
    bool reached = alloc_hook_failed();
    reed_tensor_close(&input);
    reed_tensor_close(&output);
    reed_session_close(&session);
    if (program) reed_program_close(&program);
    if (bytes) reed_text_free(bytes);
    if (d) reed_diagnosis_close(&d);
    ck_assert_int_eq(alloc_hook_end(), 0);
    if (!reached) {
      ck_assert_int_eq(status, REED_OK);
      printf("allocations failed one by one: %lld\n", (long long)n - 1);
      break;
    }
    /* The pool may do with less, or make room and try again: then all is well. */
    ck_assert_msg(status == REED_ERROR_MEMORY || status == REED_OK, "allocation %lld: %s", (long long)n,
                  reed_status_name(status));
  }
}
END_TEST

static void open_diagnosis(void) { ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK); }
static void close_diagnosis(void) { reed_diagnosis_close(&diagnosis); }

int main(void) {
  Suite *suite = suite_create("run");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, functions_recurse);
  tcase_add_test(cases, lists_are_built_and_summed_by_recursion);
  tcase_add_test(cases, recursion_deeper_than_the_limit_is_an_error);
  tcase_add_test(cases, closures_capture_and_sequences_grow);
  tcase_add_test(cases, an_optional_is_asked_before_it_is_unwrapped);
  tcase_add_test(cases, overflow_division_by_zero_and_fail_are_errors);
  tcase_add_test(cases, division_rounds_down);
  tcase_add_test(cases, an_endless_loop_ends_with_the_instruction_budget);
  tcase_add_test(cases, an_endless_loop_is_cancelled_from_another_thread);
  tcase_add_test(cases, a_seen_key_hits_and_the_least_recent_goes_first);
  tcase_add_test(cases, a_smaller_extent_uses_the_plan_of_a_larger_one);
  tcase_add_test(cases, an_arena_no_epoch_needs_makes_room_for_what_outlives_them);
  tcase_add_test(cases, an_output_is_computed_where_it_is_given);
  tcase_add_test(cases, what_is_joined_is_computed_in_its_place);
  tcase_add_test(cases, what_is_cut_out_lies_where_it_was);
  tcase_add_test(cases, a_part_that_outlives_its_epoch_has_memory_of_its_own);
  tcase_add_test(cases, a_tensor_returned_twice_is_two_outputs);
  tcase_add_test(cases, a_hit_takes_nothing_from_the_heap);
  tcase_add_test(cases, a_wrong_input_names_input_and_both_shapes);
  tcase_add_test(cases, every_host_allocation_failed_once_is_reported_and_leaks_nothing);
  suite_add_tcase(suite, cases);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
