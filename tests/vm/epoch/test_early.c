/* Kernels that a helper runs while their epoch is planned (vm/epoch/early.h): a failure, a cancellation and the count
 * of kernels are what they are in a session that collects spans, in which no kernel runs early. Results and memory:
 * test_random.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/vm/epoch/early_runs.h"
#include "tests/vm/hand.h"

enum { CHAIN = 12, LAST = 4 + CHAIN, KERNELS = CHAIN + 3 };

/* y = -table[x] by way of KERNELS kernels: Neg of the table, Gather, a chain of Neg in one place, and another Gather,
 * whose result outlives the epoch. The second one changes nothing, because the first elements of x are 0, 1 and 2. */
static char *text_of_chain(void) {
  text_buffer out = {0};
  text_append(&out, ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = i64[n] \"x\"\n.type y = f32[n] \"y\"\n"
                    ".const table = f32[3] {10, 20, 30}\n.site neg = Neg (1 -> 1) \"the neg\"\n"
                    ".site gather = Gather (2 -> 1) \"the gather\" {axis = 0}\n.site again = Gather (2 -> 1) \"again\" "
                    "{axis = 0}\n.inputs x\n.outputs y\n"
                    ".function main (x) -> (y)\n  epoch.enter 0, plan, [r0:shape], []\n  shape.like r1, r0, device\n"
                    "  const r2, table, device\n  shape neg, device, [r3], [r2:shape]\n"
                    "  shape gather, device, [r4], [r3:shape, r1:shape]\n");
  for (int i = 4; i < LAST; i++) text_append(&out, "  shape neg, device, [r%d], [r%d:shape]\n", i + 1, i);
  text_append(&out, "  shape again, device, [r19], [r%d:shape, r1:shape]\n", LAST);
  text_append(&out, "plan: epoch.plan 0\n  copy r1, r0, input, gather, 1\n  invoke neg, device, [r3], [r2]\n"
                    "  kill r2\n  invoke gather, device, [r4], [r3, r1]\n  kill r3\n");
  for (int i = 4; i < LAST; i++) text_append(&out, "  invoke neg, device, [r%d], [r%d]\n  kill r%d\n", i + 1, i, i);
  text_append(&out,
              "  invoke again, device, [r19], [r%d, r1]\n  kill r1\n  kill r%d\n  epoch.end 0\n"
              "  readback r20, r19, output, gather, 0\n  kill r19\n  sync\n  return [r20], []\n",
              LAST, LAST);
  ck_assert(!out.failed);
  return out.data;
}

static char *text;

static void setup(void) {
  open_diagnosis();
  text = text_of_chain();
}

static void teardown(void) {
  free(text);
  close_diagnosis();
}

/* Looks n elements up, the last one with this index. */
static reed_status look_up(reed_session *session, int64_t n, int64_t index) {
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, &n, &input), REED_OK);
  for (int64_t i = 0; i < n; i++) ((int64_t *)reed_tensor_data(input))[i] = i < n - 1 ? i % 3 : index;
  early_expect(session);
  const reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
  if (status == REED_OK) {
    for (int64_t i = 0; i < n; i++)
      ck_assert_float_eq(((float *)reed_tensor_data(output))[i], -10.0f * (float)((i < n - 1 ? i % 3 : index) + 1));
    reed_tensor_close(&output);
  }
  reed_tensor_close(&input);
  return status;
}

static reed_session *chain_of(int32_t n_threads, bool profile) {
  return opened(text, &(reed_session_options){.n_threads = n_threads, .profile = profile, .memo_entries = 4});
}

/* All but the last kernel may run early: the last one's result outlives the epoch. */
START_TEST(new_sizes_run_their_first_kernels_early) {
  const int32_t n_threads = 2 + _i;
  reed_session *session = chain_of(n_threads, false);
  int64_t n = 100, early = 0;
  for (int attempt = 0; attempt < 200 && !early; attempt++) {
    for (int i = 0; i < 20; i++) {
      n += 1 + i % 3;
      ck_assert_int_eq(look_up(session, n, 2), REED_OK);
      ck_assert_int_lt(session->epoch.n_early, KERNELS);
      ck_assert_int_eq(reed_session_kernel_count(session), KERNELS);
      early += session->epoch.n_early;
    }
    if (!early) early_pause();
  }
  ck_assert_int_gt(early, 0);
  ck_assert_int_ge((int64_t)memo_figure(session, "early"), early);
  ck_assert_int_eq(look_up(session, n, 1), REED_OK); /* a hit */
  ck_assert_int_eq(session->epoch.n_early, 0);
  reed_session_close(&session);
}
END_TEST

START_TEST(one_thread_runs_nothing_early) {
  reed_session *session = chain_of(1, false);
  for (int64_t n = 4; n < 30; n++) ck_assert_int_eq(look_up(session, n, 0), REED_OK);
  ck_assert_double_eq(memo_figure(session, "early"), 0);
  reed_session_close(&session);
}
END_TEST

START_TEST(an_early_failure_is_that_of_its_call) {
  reed_session *session = chain_of(2, false), *plain = chain_of(2, true);
  for (int64_t n = 4; n < 20; n++) ck_assert_int_eq(look_up(plain, n, 0), REED_OK);
  bool failed_early = false;
  int64_t n = 100;
  for (int attempt = 0; attempt < 4000 && !failed_early; attempt++) {
    ck_assert_int_eq(look_up(session, n++, 0), REED_OK);
    ck_assert_int_eq(look_up(plain, n, 7), REED_ERROR_VALUE);
    char *said = strdup(reed_diagnosis_message(diagnosis));
    const int64_t pc = reed_diagnosis_pc(diagnosis);
    ck_assert_int_eq(look_up(session, n++, 7), REED_ERROR_VALUE);
    failed_early = session->epoch.n_early == 2; /* Neg, and Gather, which has failed */
    ck_assert_int_le(session->epoch.n_early, 2);
    ck_assert_str_eq(reed_diagnosis_message(diagnosis), said);
    ck_assert_str_eq(reed_diagnosis_node(diagnosis), "the gather");
    ck_assert_int_eq(reed_diagnosis_pc(diagnosis), pc);
    ck_assert_int_eq(reed_session_kernel_count(session), 2);
    free(said);
    if (attempt % 100 == 99) early_pause();
  }
  ck_assert(failed_early);
  ck_assert_int_eq(look_up(session, n, 0), REED_OK);
  reed_session_close(&session);
  reed_session_close(&plain);
}
END_TEST

/* Kernel number k of all runs cancels its run, whoever runs the kernel. */
START_TEST(a_run_is_cancelled_at_each_kernel) {
  enum { RUNS = 3 };
  for (int64_t k = 1; k <= KERNELS * RUNS; k++) {
    int64_t cancelled[2] = {0};
    for (int profile = 0; profile < 2; profile++) {
      reed_session *session =
          opened(text, &(reed_session_options){.n_threads = 2, .cancel_at_kernel = k, .profile = profile == 1});
      for (int run = 0; run <= RUNS; run++) {
        const reed_status status = look_up(session, 40 + run, 0);
        ck_assert(status == REED_OK || status == REED_ERROR_CANCELLED);
        if (status == REED_ERROR_CANCELLED) cancelled[profile] += 1 + run;
      }
      reed_session_close(&session);
    }
    if (k % KERNELS != 0) ck_assert_int_eq(cancelled[0], 1 + k / KERNELS);
    ck_assert_int_eq(cancelled[1], cancelled[0]);
  }
}
END_TEST

static atomic_bool done;

static void *cancel_often(void *session) {
  while (!atomic_load(&done)) {
    reed_session_cancel(session);
    usleep(30);
  }
  return NULL;
}

/* A run that another thread cancels at any moment ends so or with its result, and so does the next one. */
START_TEST(a_cancelled_plan_waits_for_its_helper) {
  reed_session *session = chain_of(2, false);
  pthread_t thread;
  atomic_store(&done, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_often, session), 0);
  for (int64_t n = 1; n < 600; n++) {
    const reed_status status = look_up(session, 1000 + n * 50, 2);
    ck_assert(status == REED_OK || status == REED_ERROR_CANCELLED);
  }
  atomic_store(&done, true);
  pthread_join(thread, NULL);
  for (int64_t n = 4; n < 20; n++) ck_assert_int_eq(look_up(session, n, 2), REED_OK);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("early");
  TCase *t = tcase_create("early kernels");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, new_sizes_run_their_first_kernels_early, 0, 3);
  tcase_add_test(t, one_thread_runs_nothing_early);
  tcase_add_test(t, an_early_failure_is_that_of_its_call);
  tcase_add_test(t, a_run_is_cancelled_at_each_kernel);
  tcase_add_test(t, a_cancelled_plan_waits_for_its_helper);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
