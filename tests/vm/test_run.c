/* Runs of a session: outputs and their memory, inputs that do not fit, allocations of a run, and failed allocations. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "reed/reed.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"

/* max(x + max(x + x)): the first epoch has x + x in its arena, the second has nothing in its arena, because x + max
 * outlives the epoch. */
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

/* No byte of the output lies in the pool. */
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
    reed_session_close(&session); /* outputs outlive their session */
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
    /* The pool may do with less, or make room and try again: then the run succeeds. */
    ck_assert_msg(status == REED_ERROR_MEMORY || status == REED_OK, "allocation %lld: %s", (long long)n,
                  reed_status_name(status));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("run");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, an_arena_no_epoch_needs_makes_room_for_what_outlives_them);
  tcase_add_test(cases, an_output_is_computed_where_it_is_given);
  tcase_add_test(cases, a_tensor_returned_twice_is_two_outputs);
  tcase_add_test(cases, a_hit_takes_nothing_from_the_heap);
  tcase_add_test(cases, a_wrong_input_names_input_and_both_shapes);
  tcase_add_test(cases, every_host_allocation_failed_once_is_reported_and_leaks_nothing);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
