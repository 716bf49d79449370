/* Kernels that a helper prepares while the walk prepares others (vm/epoch/tail.h): results, kernels and failures are
 * those of a session with one thread, whoever has prepared a kernel. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/team.h"
#include "base/text.h"
#include "reed/memory.h"
#include "tests/vm/hand.h"
#include "vm/epoch/planner.h"
#include "vm/state.h"

enum { CHAIN = 48, CLIP = 40, KERNELS = CHAIN + 1, WANTED = 60 };

/* y = max(x * c0 * c1 ..., z) * c40 ..., where each factor is a constant of its own, 2, 1/2, 4, 1/4 and so on, so that
 * no two calls have one kernel. Values are in the registers from 100 on, constants in those from 10 on. The kernel of
 * Clip can only be prepared for a z of one element. */
static char *text_of_chain(void) {
  text_buffer out = {0};
  text_append(&out, ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n] \"x\"\n.type z = f32[k] \"z\"\n"
                    ".type y = f32[n] \"y\"\n.inputs x, z\n.outputs y\n.site clip = Clip (2 -> 1) \"the clip\"\n");
  for (int i = 0; i < CHAIN; i++)
    text_append(&out, ".const c%d = f32[1] {%.9g}\n", i, ldexp(1, i % 2 ? -1 - i / 2 : 1 + i / 2));
  for (int i = 0; i < CHAIN; i++) text_append(&out, ".site m%d = Mul (2 -> 1) \"m%d\"\n", i, i);
  text_append(&out, ".function main (x, z) -> (y) registers 160 0\n  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
                    "  shape.like r100, r0, device\n  shape.like r3, r1, device\n");
  for (int i = 0; i < CHAIN; i++) text_append(&out, "  const r%d, c%d, device\n", 10 + i, i);
  for (int i = 0, v = 100; i < CHAIN; i++, v++) {
    if (i == CLIP) {
      text_append(&out, "  shape clip, device, [r%d], [r%d:shape, r3:shape]\n", v + 1, v);
      v++;
    }
    text_append(&out, "  shape m%d, device, [r%d], [r%d:shape, r%d:shape]\n", i, v + 1, v, 10 + i);
  }
  text_append(&out, "plan: epoch.plan 0\n  copy r100, r0, input, m0, 0\n  copy r3, r1, input, clip, 1\n");
  for (int i = 0, v = 100; i < CHAIN; i++, v++) {
    if (i == CLIP) {
      text_append(&out, "  invoke clip, device, [r%d], [r%d, r3]\n  kill r%d\n  kill r3\n", v + 1, v, v);
      v++;
    }
    text_append(&out, "  invoke m%d, device, [r%d], [r%d, r%d]\n  kill r%d\n  kill r%d\n", i, v + 1, v, 10 + i, v,
                10 + i);
  }
  const int last = 100 + KERNELS;
  text_append(&out, "  epoch.end 0\n  readback r4, r%d, output, m0, 0\n  kill r%d\n  sync\n  return [r4], []\n", last,
              last);
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

static reed_session *chain_of(int32_t n_threads) {
  return opened(text, &(reed_session_options){.n_threads = n_threads, .memo_entries = 4});
}

static void nothing(void *context, int64_t chunk, int32_t worker) { (void)context, (void)chunk, (void)worker; }

/* A run of n elements whose z has k, and which finds a helper that polls for work, unless the machine is busy. */
static reed_status run_chain(reed_session *session, int64_t n, int64_t k) {
  reed_tensor *inputs[2], *output;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &inputs[0]), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &k, &inputs[1]), REED_OK);
  for (int64_t i = 0; i < n; i++) ((float *)reed_tensor_data(inputs[0]))[i] = (float)(i % 100);
  for (int64_t i = 0; i < k; i++) ((float *)reed_tensor_data(inputs[1]))[i] = 30;
  session->memo.epochs[0].has_jobs = true; /* the kernels are too small for that */
  team_run(2, 64, nothing, NULL);
  const reed_status status = reed_session_run(session, inputs, 2, &output, 1, diagnosis);
  if (status == REED_OK) {
    const float *y = reed_tensor_data(output);
    for (int64_t i = 0; i < n; i++) ck_assert_float_eq(y[i], i % 100 < 30 ? 30.0f : (float)(i % 100));
    reed_tensor_close(&output);
  }
  reed_tensor_close(&inputs[0]);
  reed_tensor_close(&inputs[1]);
  return status;
}

/* Kernels that helpers have prepared for the session. */
static int64_t n_helped(const reed_session *session) {
  return session->planner && session->planner->tail ? session->planner->tail->n_helped : 0;
}

/* On a busy machine helpers do not poll for a fifth of a second. */
static void pause_if(bool busy) {
  if (busy) usleep(50000);
}

static bool has_helpers(void) { return processors_count() > 1; }

START_TEST(a_helper_prepares_kernels_of_new_sizes) {
  if (!has_helpers()) return;
  reed_session *session = chain_of(2 + _i), *alone = chain_of(1);
  int64_t n = 100;
  for (int attempt = 0; attempt < 400 && n_helped(session) < WANTED; attempt++) {
    const int64_t before = n_helped(session);
    for (int i = 0; i < 20; i++, n++) {
      ck_assert_int_eq(run_chain(session, n, 1), REED_OK);
      ck_assert_int_eq(run_chain(alone, n, 1), REED_OK);
      ck_assert_int_eq(reed_session_kernel_count(session), KERNELS);
    }
    pause_if(n_helped(session) == before);
  }
  ck_assert_int_ge(n_helped(session), WANTED);
  ck_assert_int_eq(n_helped(alone), 0);
  ck_assert_int_eq(run_chain(session, n - 1, 1), REED_OK); /* a hit */
  ck_assert_int_eq(run_chain(alone, n - 1, 1), REED_OK);
  static const char *const figures[] = {"kernels_found", "kernels_made", "kernels_held", "hits", "misses", "entries"};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    ck_assert_double_eq(memo_figure(session, figures[i]), memo_figure(alone, figures[i]));
  reed_session_close(&session);
  reed_session_close(&alone);
}
END_TEST

/* The walk prepares the kernel once more, which gives the message. */
START_TEST(a_failure_on_the_helper_is_that_of_its_call) {
  if (!has_helpers()) return;
  reed_session *session = chain_of(2), *alone = chain_of(1);
  int64_t n = 100;
  for (int attempt = 0; attempt < 400 && n_helped(session) < WANTED; attempt++) {
    const int64_t before = n_helped(session);
    for (int i = 0; i < 20; i++, n++) {
      ck_assert_int_eq(run_chain(session, n, 1), REED_OK);
      ck_assert_int_eq(run_chain(alone, n, 1), REED_OK);
      const reed_status failed = run_chain(alone, n, 2);
      ck_assert_int_ne(failed, REED_OK);
      char *said = strdup(reed_diagnosis_message(diagnosis));
      const int64_t pc = reed_diagnosis_pc(diagnosis);
      ck_assert_int_eq(run_chain(session, n, 2), failed);
      ck_assert_str_eq(reed_diagnosis_message(diagnosis), said);
      ck_assert_str_eq(reed_diagnosis_node(diagnosis), "the clip");
      ck_assert_int_eq(reed_diagnosis_pc(diagnosis), pc);
      free(said);
      ck_assert_int_ne(run_chain(session, n + 1000, 2), REED_OK); /* fails with most of the tail before it */
    }
    pause_if(n_helped(session) == before);
  }
  ck_assert_int_ge(n_helped(session), WANTED);
  reed_session_close(&session);
  reed_session_close(&alone);
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

START_TEST(a_plan_is_cancelled_at_any_moment) {
  for (int round = 0; round < 6; round++) {
    reed_session *session = chain_of(2);
    for (int64_t n = 10; n < 14; n++) ck_assert_int_eq(run_chain(session, n, 1), REED_OK);
    pthread_t thread;
    atomic_store(&done, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_often, session), 0);
    for (int64_t n = 100; n < 200; n++) {
      const reed_status status = run_chain(session, n, 1);
      ck_assert(status == REED_OK || status == REED_ERROR_CANCELLED);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    ck_assert(!session->planner->tail || !session->planner->tail->begun); /* nothing outlives a run */
    if (round % 2)
      for (int64_t n = 4; n < 20; n++) ck_assert_int_eq(run_chain(session, n, 1), REED_OK);
    reed_session_close(&session);
  }
}
END_TEST

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}
static void *resize(void *context, void *block, size_t bytes) {
  (void)context;
  return realloc(block, bytes);
}
static void release(void *context, void *block) {
  (void)context;
  free(block);
}

/* So that its calls come in one order. */
START_TEST(an_allocator_of_the_programs_own_has_no_helpers) {
  reed_set_allocator(&(reed_allocator){allocate, resize, release, NULL});
  reed_session *session = chain_of(2);
  for (int64_t n = 10; n < 40; n++) ck_assert_int_eq(run_chain(session, n, 1), REED_OK);
  ck_assert_ptr_null(session->planner->tail);
  reed_session_close(&session);
  reed_set_allocator(NULL);
}
END_TEST

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) {
  (void)state, (void)buffers;
  return REED_OK;
}

/* A helper that has taken calls and does not come back to them. */
START_TEST(the_walk_does_not_wait_long) {
  plan_tail *t = aligned_alloc(64, sizeof *t);
  memset(t, 0, sizeof *t);
  epoch_planner p = {.tail = t};
  reed_kernel kernel;
  t->n = 4;
  atomic_store(&t->n_taken, 2);
  atomic_store(&t->made[1].done, true);
  t->made[1].kernel.run = run_nothing;
  ck_assert(!tail_take(&p, 0, &kernel));
  const int64_t waited = t->waited_ns;
  ck_assert_int_gt(waited, 0);
  ck_assert(tail_take(&p, 1, &kernel));
  ck_assert(kernel.run == run_nothing);
  ck_assert(!tail_take(&p, 1, &kernel)); /* it has gone */
  ck_assert(!tail_take(&p, 2, &kernel)); /* nobody has begun it */
  ck_assert_uint_eq(atomic_load(&t->n_taken), 3);
  ck_assert_int_eq(t->waited_ns, waited);
  free(t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tail");
  TCase *t = tcase_create("a helper's kernels");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, a_helper_prepares_kernels_of_new_sizes, 0, 3);
  tcase_add_test(t, a_failure_on_the_helper_is_that_of_its_call);
  tcase_add_test(t, a_plan_is_cancelled_at_any_moment);
  tcase_add_test(t, an_allocator_of_the_programs_own_has_no_helpers);
  tcase_add_test(t, the_walk_does_not_wait_long);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
