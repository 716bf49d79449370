/* Threads: programs shared, sessions on a thread each, runs cancelled and
 * asynchronous, outputs closed elsewhere and later. scripts/tsan.sh runs this under ThreadSanitizer. */
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "tests/devices.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"
#include "tests/whole/scenes.h"

#define N_THREADS 4

/* The emulated GPU's work is done by a thread of its fake driver. */
static const char *const devices[] = {"host", "sim", "cuda-emulated", "cuda-emulated?late=1&seed=3&poison=1&order=7"};

static int n_devices(void) { return device_is_present("cuda-emulated") ? sizeof devices / sizeof *devices : 2; }

static const char endless[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                              ".type t0 = i64[] \"out\"\n"
                              ".inputs\n"
                              ".outputs t0\n"
                              ".function main () -> (t0) registers 1 1\n"
                              "  s.const s0, 1\n"
                              "  r.scalar r0, s0, i64\n"
                              "again:\n"
                              "  branch.if s0, again\n"
                              "  return [r0], []\n";

static reed_session *session_of(reed_program *program, const char *device) {
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program,
                                     &(reed_session_options){.device = device, .n_threads = 2, .memo_entries = 3},
                                     &session, NULL),
                   REED_OK);
  return session;
}

static reed_tensor *rows(int64_t n) {
  reed_tensor *tensor;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){n, 4}, &tensor), REED_OK);
  for (int64_t i = 0; i < n * 4; i++) ((float *)reed_tensor_data(tensor))[i] = (float)(i - 8);
  return tensor;
}

static void check_rows(const reed_tensor *tensor) {
  const float *y = reed_tensor_data(tensor);
  for (int64_t i = 0; i < reed_tensor_elements(tensor); i++) ck_assert_float_eq(y[i], i < 8 ? 0 : (float)(2 * (i - 8)));
}

static void on_threads(void *(*work)(void *), void *context) {
  pthread_t threads[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, work, context), 0);
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- a program shared ---- */

typedef struct sharing {
  reed_program *program;
  const char *device;
  atomic_int opened;
} sharing;

static void *run_small(void *context) {
  sharing *all = context;
  reed_session *session = session_of(all->program, all->device);
  reed_diagnosis *diagnosis;
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  /* the sessions keep the program */
  if (atomic_fetch_add(&all->opened, 1) == N_THREADS - 1) reed_program_close(&all->program);
  for (int i = 0; i < 60; i++) {
    reed_tensor *input = rows(i % 7), *output;
    reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
    ck_assert_msg(status == REED_OK, "%s, run %d: %s", all->device, i, reed_diagnosis_message(diagnosis));
    check_rows(output);
    reed_tensor_close(&input);
    reed_tensor_close(&output);
  }
  reed_session_close(&session);
  reed_diagnosis_close(&diagnosis);
  return NULL;
}

START_TEST(a_program_serves_a_session_per_thread) {
  for (int d = 0; d < n_devices(); d++) {
    sharing all = {.program = assembled(small_epoch), .device = devices[d]};
    on_threads(run_small, &all);
    ck_assert_ptr_null(all.program);
  }
}
END_TEST

static void *make_and_run(void *context) {
  (void)context;
  for (int i = 0; i < 5; i++) {
    sharing own = {.program = assembled(small_epoch), .device = "host", .opened = N_THREADS - 1};
    (void)run_small(&own);
  }
  return NULL;
}

START_TEST(programs_are_made_by_many_threads) { on_threads(make_and_run, NULL); }
END_TEST

/* ---- cancelling ---- */

typedef struct cancelling {
  reed_session *session;
  atomic_bool done;
} cancelling;

static void *cancel_again_and_again(void *context) {
  cancelling *c = context;
  while (!atomic_load(&c->done)) {
    reed_session_cancel(c->session);
    usleep(200);
  }
  return NULL;
}

START_TEST(runs_are_cancelled_from_another_thread) {
  reed_program *program = assembled(endless);
  cancelling c = {.session = session_of(program, "host")};
  reed_program_close(&program);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_again_and_again, &c), 0);
  for (int i = 0; i < 200; i++) {
    reed_tensor *output;
    ck_assert_int_eq(reed_session_run(c.session, NULL, 0, &output, 1, NULL), REED_ERROR_CANCELLED);
  }
  atomic_store(&c.done, true);
  pthread_join(thread, NULL);
  reed_session_close(&c.session);
}
END_TEST

/* ---- outputs elsewhere ---- */

typedef struct handing {
  const char *device;
  pthread_mutex_t mutex;
  pthread_cond_t more;
  reed_tensor *waiting[8];
  int n;
  bool done;
} handing;

static void *close_tensors(void *context) {
  handing *h = context;
  for (bool done = false; !done;) {
    pthread_mutex_lock(&h->mutex);
    while (!h->n && !h->done) pthread_cond_wait(&h->more, &h->mutex);
    reed_tensor *taken = h->n ? h->waiting[--h->n] : NULL;
    done = !taken;
    pthread_mutex_unlock(&h->mutex);
    pthread_cond_broadcast(&h->more);
    if (taken) check_rows(taken);
    reed_tensor_close(&taken);
  }
  return NULL;
}

static void hand_over(handing *h, reed_tensor *tensor) {
  pthread_mutex_lock(&h->mutex);
  while (h->n == 8) pthread_cond_wait(&h->more, &h->mutex);
  h->waiting[h->n++] = tensor;
  pthread_mutex_unlock(&h->mutex);
  pthread_cond_broadcast(&h->more);
}

static void *produce(void *context) {
  handing *h = context;
  reed_program *program = assembled(small_epoch);
  reed_session *session = session_of(program, h->device);
  reed_program_close(&program);
  for (int i = 0; i < 100; i++) {
    reed_tensor *input = rows(i % 5), *output;
    ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, NULL), REED_OK);
    hand_over(h, reed_tensor_retain(output));
    check_rows(output);
    reed_tensor_close(&output); /* either thread may hold the last reference */
    reed_tensor_close(&input);
  }
  reed_session_close(&session); /* the session is closed before its last outputs */
  return NULL;
}

static int n_tasks(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  ck_assert_ptr_nonnull(tasks);
  for (struct dirent *entry; (entry = readdir(tasks));) n += entry->d_name[0] != '.';
  closedir(tasks);
  return n;
}

static void *run_to_its_end(void *session) {
  reed_tensor *output;
  ck_assert_int_eq(reed_session_run(session, NULL, 0, &output, 1, NULL), REED_ERROR_CANCELLED);
  return NULL;
}

/* On two CPUs a run beside another one starts no helper, though the other run has no kernel; alone it starts one. */
START_TEST(a_run_leaves_the_other_runs_their_cpus) {
  cpu_set_t all, two;
  ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&two);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&two) < 2; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &two);
  ck_assert_int_eq(sched_setaffinity(0, sizeof two, &two), 0);
  reed_program *programs[] = {assembled(endless), assembled(small_epoch)};
  reed_session *other = session_of(programs[0], "host"), *session = session_of(programs[1], "host");
  reed_tensor *input = rows(2000000), *output;
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, run_to_its_end, other), 0);
  usleep(200000); /* the other run has begun */
  int before = n_tasks();
  for (int i = 0; i < 5; i++) {
    ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, NULL), REED_OK);
    reed_tensor_close(&output);
    ck_assert_int_eq(n_tasks(), before);
  }
  reed_session_cancel(other);
  pthread_join(thread, NULL);
  ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, NULL), REED_OK);
  ck_assert_int_eq(n_tasks(), before); /* a helper more, the other run's thread less */
  reed_tensor_close(&output);
  reed_tensor_close(&input);
  reed_session_close(&other);
  reed_session_close(&session);
  for (int i = 0; i < 2; i++) reed_program_close(&programs[i]);
}
END_TEST

START_TEST(outputs_are_closed_by_other_threads_and_after_their_session) {
  handing h = {.device = devices[_i], .mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
  pthread_t closers[2];
  for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&closers[i], NULL, close_tensors, &h), 0);
  on_threads(produce, &h);
  pthread_mutex_lock(&h.mutex);
  h.done = true;
  pthread_mutex_unlock(&h.mutex);
  pthread_cond_broadcast(&h.more);
  for (int i = 0; i < 2; i++) pthread_join(closers[i], NULL);
}
END_TEST

/* ---- asynchronous runs ---- */

typedef struct async_session {
  uv_loop_t *loop;
  reed_session *session;
  handing *closers;
  int n_left, n_failed, n_cancelled;
} async_session;

static void start(async_session *a);

static void on_done(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                    const reed_diagnosis *diagnosis) {
  async_session *a = context;
  if (status == REED_ERROR_CANCELLED) a->n_cancelled++;
  else if (status != REED_OK || n_outputs != 1) a->n_failed++;
  else hand_over(a->closers, outputs[0]);
  if (--a->n_left > 0) start(a);
}

static void start(async_session *a) {
  reed_tensor *input = rows(a->n_left % 6);
  ck_assert_int_eq(reed_session_run_async(a->session, a->loop, &input, 1, on_done, a, NULL), REED_OK);
  if (a->n_left % 10 == 0) reed_session_cancel(a->session);
  reed_tensor_close(&input); /* the run has its own reference */
}

START_TEST(asynchronous_runs_of_several_sessions_end_on_their_loop) {
  handing h = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
  pthread_t closer;
  ck_assert_int_eq(pthread_create(&closer, NULL, close_tensors, &h), 0);
  uv_loop_t loop;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  reed_program *program = assembled(small_epoch);
  async_session sessions[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) {
    sessions[i] = (async_session){
        .loop = &loop, .session = session_of(program, devices[i % n_devices()]), .closers = &h, .n_left = 50};
    start(&sessions[i]);
  }
  reed_program_close(&program);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  for (int i = 0; i < N_THREADS; i++) {
    ck_assert_int_eq(sessions[i].n_left, 0);
    ck_assert_int_eq(sessions[i].n_failed, 0);
    ck_assert_int_le(sessions[i].n_cancelled, 5); /* a cancellation may come too late, or meet the next run */
    reed_session_close(&sessions[i].session);
  }
  pthread_mutex_lock(&h.mutex);
  h.done = true;
  pthread_mutex_unlock(&h.mutex);
  pthread_cond_broadcast(&h.more);
  pthread_join(closer, NULL);
}
END_TEST

/* ---- one user at a time ---- */

typedef struct outcome {
  int n_done;
  reed_status status;
  reed_session *close; /* closed by the callback */
} outcome;

static void note_outcome(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                         const reed_diagnosis *diagnosis) {
  outcome *o = context;
  o->n_done++;
  o->status = status;
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&outputs[i]);
  if (o->close) reed_session_close(&o->close);
}

static reed_status run_endless(reed_session *session, uv_loop_t *loop, outcome *o) {
  return reed_session_run_async(session, loop, NULL, 0, note_outcome, o, NULL);
}

static void run_loop(uv_loop_t *loop) {
  ck_assert_int_eq(uv_run(loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(uv_loop_close(loop), 0);
}

static reed_session *endless_session(void) {
  reed_program *program = assembled(endless);
  reed_session *session = session_of(program, "host");
  reed_program_close(&program);
  return session;
}

START_TEST(a_second_run_is_refused_and_harms_nothing) {
  uv_loop_t loop;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  for (int i = 0; i < 6; i++) {
    reed_session *session = endless_session();
    outcome first = {0}, second = {0};
    reed_tensor *output = NULL;
    char *json = NULL;
    ck_assert_int_eq(run_endless(session, &loop, &first), REED_OK);
    if (i % 2) usleep(2000); /* even i: before the run begins; odd i: while it runs */
    ck_assert_int_eq(run_endless(session, &loop, &second), REED_ERROR_ARGUMENT);
    ck_assert_int_eq(reed_session_run(session, NULL, 0, &output, 1, NULL), REED_ERROR_ARGUMENT);
    ck_assert_int_eq(reed_session_stats_json(session, &json, NULL), REED_ERROR_ARGUMENT);
    ck_assert_int_eq(reed_session_plan_json(session, &json, NULL), REED_ERROR_ARGUMENT);
    ck_assert_int_eq(reed_session_kernel_count(session), 0);
    reed_session_cancel(session);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(first.n_done, 1);
    ck_assert_int_eq(first.status, REED_ERROR_CANCELLED);
    ck_assert_int_eq(second.n_done, 0);
    ck_assert_int_eq(reed_session_stats_json(session, &json, NULL), REED_OK);
    reed_text_free(json);
    reed_session_close(&session);
  }
  run_loop(&loop);
}
END_TEST

START_TEST(closing_ends_the_run_in_flight) {
  uv_loop_t loop;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  for (int i = 0; i < 6; i++) {
    reed_session *session = endless_session();
    outcome o = {0};
    ck_assert_int_eq(run_endless(session, &loop, &o), REED_OK);
    usleep((useconds_t)i * 500);
    reed_session_close(&session);
    ck_assert_ptr_null(session);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(o.n_done, 1);
    ck_assert_int_eq(o.status, REED_ERROR_CANCELLED);
  }
  run_loop(&loop);
}
END_TEST

static void wait_for_gate(uv_work_t *work) { uv_sem_wait(work->data); }
static void gate_passed(uv_work_t *work, int status) { (void)work, (void)status; }

START_TEST(closing_drops_a_run_that_no_thread_has_begun) {
  uv_loop_t loop;
  uv_sem_t gate;
  uv_work_t blocked[128]; /* libuv's pool has 4 threads, or UV_THREADPOOL_SIZE, at most 1024 */
  const char *size = getenv("UV_THREADPOOL_SIZE");
  int n = size ? atoi(size) : 4;
  ck_assert_int_le(n, 128);
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uv_sem_init(&gate, 0), 0);
  for (int i = 0; i < n; i++) {
    blocked[i].data = &gate;
    ck_assert_int_eq(uv_queue_work(&loop, &blocked[i], wait_for_gate, gate_passed), 0);
  }
  reed_session *session = endless_session();
  outcome o = {0};
  ck_assert_int_eq(run_endless(session, &loop, &o), REED_OK);
  reed_session_close(&session); /* without dropping the run, close would wait for ever for a thread of the pool */
  for (int i = 0; i < n; i++) uv_sem_post(&gate);
  run_loop(&loop);
  uv_sem_destroy(&gate);
  ck_assert_int_eq(o.n_done, 1);
  ck_assert_int_eq(o.status, REED_ERROR_CANCELLED);
}
END_TEST

START_TEST(the_callback_may_close_the_session) {
  uv_loop_t loop;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  reed_session *session = endless_session();
  outcome o = {.close = session};
  ck_assert_int_eq(run_endless(session, &loop, &o), REED_OK);
  reed_session_cancel(session); /* at once: the run may not have begun */
  run_loop(&loop);
  ck_assert_int_eq(o.status, REED_ERROR_CANCELLED);
}
END_TEST

START_TEST(a_cancel_between_runs_does_nothing) {
  reed_program *program = assembled(small_epoch);
  reed_session *session = session_of(program, "host");
  reed_program_close(&program);
  for (int i = 0; i < 3; i++) {
    reed_tensor *input = rows(3), *output;
    reed_session_cancel(session);
    ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, NULL), REED_OK);
    reed_session_cancel(session);
    reed_tensor_close(&input);
    reed_tensor_close(&output);
  }
  reed_session_close(&session);
}
END_TEST

/* ---- a whole model: packed weights shared ---- */

typedef struct detecting {
  reed_program *program;
  reed_tensor *want[4]; /* scene 1 by one thread alone */
  const char *device;
} detecting;

static void *detect(void *context) {
  const detecting *all = context;
  reed_session *session = session_of(all->program, all->device);
  for (int i = 0; i < 2; i++) {
    reed_tensor *outputs[4];
    ck_assert_int_eq(scene_run(session, &scenes[1], outputs, NULL), REED_OK);
    for (int k = 0; k < 4; k++) {
      ck_assert_int_eq(reed_tensor_bytes(outputs[k]), reed_tensor_bytes(all->want[k]));
      ck_assert_int_eq(
          memcmp(reed_tensor_data(outputs[k]), reed_tensor_data(all->want[k]), (size_t)reed_tensor_bytes(all->want[k])),
          0);
    }
    scene_close(outputs);
  }
  reed_session_close(&session);
  return NULL;
}

static void check_detecting(const char *device) {
  detecting all = {.program = scenes_program(), .device = device};
  /* another program, so that the threads are the first to pack the weights of all.program */
  reed_program *other = scenes_program();
  reed_session *session = session_of(other, "host");
  ck_assert_int_eq(scene_run(session, &scenes[1], all.want, NULL), REED_OK);
  reed_session_close(&session);
  reed_program_close(&other);
  on_threads(detect, &all);
  scene_close(all.want);
  reed_program_close(&all.program);
}

START_TEST(threads_share_packed_weights_and_agree_to_the_bit) {
  check_detecting("host");
  check_detecting("sim");
}
END_TEST

static void *compile_model(void *context) {
  size_t n;
  void *bytes = scenes_compile(&n);
  reed_text_free(bytes);
  return NULL;
}

START_TEST(models_are_compiled_by_many_threads) { on_threads(compile_model, NULL); }
END_TEST

int main(void) {
  Suite *suite = suite_create("threads");
  TCase *cases = tcase_create("threads");
  tcase_set_timeout(cases, 300);
  tcase_add_test(cases, a_program_serves_a_session_per_thread);
  tcase_add_test(cases, programs_are_made_by_many_threads);
  tcase_add_test(cases, a_second_run_is_refused_and_harms_nothing);
  tcase_add_test(cases, closing_ends_the_run_in_flight);
  tcase_add_test(cases, closing_drops_a_run_that_no_thread_has_begun);
  tcase_add_test(cases, the_callback_may_close_the_session);
  tcase_add_test(cases, a_cancel_between_runs_does_nothing);
  tcase_add_test(cases, runs_are_cancelled_from_another_thread);
  tcase_add_test(cases, a_run_leaves_the_other_runs_their_cpus);
  tcase_add_loop_test(cases, outputs_are_closed_by_other_threads_and_after_their_session, 1, n_devices());
  tcase_add_test(cases, asynchronous_runs_of_several_sessions_end_on_their_loop);
  tcase_add_test(cases, threads_share_packed_weights_and_agree_to_the_bit);
  tcase_add_test(cases, models_are_compiled_by_many_threads);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
