/* Cancellation: at kernels throughout a model, in the middle of long kernels, in endless loops. After each cancellation
 * the session gives the same bits as before. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/devices.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"
#include "tests/whole/scenes.h"

static const scene *small_scene(void) { return &scenes[1]; }

static bool same_bits(reed_tensor *const a[4], reed_tensor *const b[4]) {
  for (int i = 0; i < 4; i++)
    if (reed_tensor_bytes(a[i]) != reed_tensor_bytes(b[i]) ||
        memcmp(reed_tensor_data(a[i]), reed_tensor_data(b[i]), (size_t)reed_tensor_bytes(a[i])) != 0)
      return false;
  return true;
}

/* Cancels at the n-th kernel of the first run. */
static void cancel_at(reed_program *program, const char *device, int64_t n, reed_tensor *want[4]) {
  reed_session *session =
      scene_session(program, &(reed_session_options){.device = device, .n_threads = 2, .cancel_at_kernel = n});
  reed_tensor *outputs[4];
  reed_status status = scene_run(session, small_scene(), outputs, NULL);
  if (status != REED_ERROR_CANCELLED)
    ck_abort_msg("%s, kernel %lld: %s", device, (long long)n, reed_status_name(status));
  ck_assert_int_eq(scene_run(session, small_scene(), outputs, NULL), REED_OK);
  if (!same_bits(outputs, want))
    ck_abort_msg("%s: other bits after a cancellation at kernel %lld", device, (long long)n);
  scene_close(outputs);
  reed_session_close(&session);
}

/* Every step-th kernel of a first run. */
static void cancel_everywhere(const char *device, int64_t step) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.device = device, .n_threads = 2});
  reed_tensor *want[4];
  ck_assert_int_eq(scene_run(session, small_scene(), want, NULL), REED_OK);
  int64_t n_kernels = reed_session_kernel_count(session);
  ck_assert_int_gt(n_kernels, 20);
  for (int64_t n = 1; n <= n_kernels; n += step) cancel_at(program, device, n, want);
  scene_close(want);
  reed_session_close(&session);
  reed_program_close(&program);
}

START_TEST(a_model_is_cancelled_at_its_kernels) { cancel_everywhere("host", 9); }
END_TEST
START_TEST(a_model_is_cancelled_at_kernels_of_an_accelerator) { cancel_everywhere("sim", 31); }
END_TEST

/* ---- one long kernel ---- */

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct cancelling {
  reed_session *session;
  double after_s, at_s;
} cancelling;

static void *cancel_later(void *context) {
  cancelling *c = context;
  usleep((useconds_t)(c->after_s * 1e6));
  c->at_s = now_s();
  reed_session_cancel(c->session);
  return NULL;
}

/* One call of an operator on inputs r0 .. n_inputs-1, on the accelerator: on the host in a session without one. */
static reed_program *one_call(const char *types, const char *inputs, const char *site, int n_inputs) {
  char text[2048], copies[512] = "", reads[256] = "", fills[256] = "";
  for (int i = 0; i < n_inputs; i++) {
    const int there = 3 + i;
    snprintf(copies + strlen(copies), sizeof copies - strlen(copies),
             "  shape.like r%d, r%d, device\n  alloc r%d\n  copy r%d, r%d, input, k0, %d\n", there, i, there, there, i,
             i);
    snprintf(reads + strlen(reads), sizeof reads - strlen(reads), "%sr%d:shape", i ? ", " : "", there);
    snprintf(fills + strlen(fills), sizeof fills - strlen(fills), "%sr%d", i ? ", " : "", there);
  }
  snprintf(
      text, sizeof text,
      ".module \"m\" producer \"test\" \"1\" devices 2\n%s.inputs %s\n.outputs t9\n.site k0 = %s (%d -> 1) \"long\"\n"
      ".function main (%s) -> (t9) registers 9 0\n%s  shape k0, device, [r7], [%s]\n  alloc r7\n"
      "  invoke k0, device, [r7], [%s]\n  readback r8, r7, output, k0, 0\n  sync\n  return [r8], []\n",
      types, inputs, site, n_inputs, inputs, copies, reads, fills);
  return assembled(text);
}

/* Runs to the end, then cancels a run after a fifth of that time: this run must return well before its end. A device
 * that this build does not have is left out. */
static void ends_early_on(const char *const *devices, int n_devices, reed_program *program, reed_tensor **inputs,
                          size_t n_inputs) {
  for (int d = 0; d < n_devices; d++) {
    if (!device_is_present(devices[d])) continue;
    reed_session *session;
    reed_tensor *output;
    ck_assert_int_eq(
        reed_session_open(program, &(reed_session_options){.device = devices[d], .n_threads = 1}, &session, NULL),
        REED_OK);
    double whole = 1e9;
    for (int i = 0; i < 2; i++) { /* the first run touches fresh memory, so the shorter time counts */
      double begin = now_s();
      ck_assert_int_eq(reed_session_run(session, inputs, n_inputs, &output, 1, NULL), REED_OK);
      if (now_s() - begin < whole) whole = now_s() - begin;
      reed_tensor_close(&output);
    }
    cancelling c = {.session = session, .after_s = whole / 5};
    reed_status status = REED_OK;
    double took = 0;
    /* A busy machine may cancel too late, or take the CPU away between the cancellation and the run's end. */
    for (int i = 0; i < 8 && (status == REED_OK || took >= whole / 2); i++) {
      pthread_t thread;
      ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &c), 0);
      status = reed_session_run(session, inputs, n_inputs, &output, 1, NULL);
      double end = now_s();
      pthread_join(thread, NULL);
      took = end - c.at_s;
      if (status == REED_OK) reed_tensor_close(&output), c.after_s /= 2;
    }
    printf("%s: %.0f ms in all, %.1f ms after the cancellation\n", devices[d], whole * 1e3, took * 1e3);
    ck_assert_int_eq(status, REED_ERROR_CANCELLED);
    ck_assert_msg(took < whole / 2, "%.3f s after the cancellation of a run of %.3f s", took, whole);
    reed_session_close(&session);
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
  reed_program_close(&program);
}

static void ends_early(reed_program *program, reed_tensor **inputs, size_t n_inputs) {
  ends_early_on((const char *const[]){"host", "sim"}, 2, program, inputs, n_inputs);
}

static reed_tensor *filled(reed_dtype dtype, int32_t rank, const int64_t *dims) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(dtype, rank, dims, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    reed_dtype_write(dtype, (char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(dtype), (double)(i % 97) / 97);
  return t;
}

START_TEST(a_long_elementwise_kernel_ends_early) {
  reed_tensor *x = filled(REED_F32, 1, (int64_t[]){1 << 24});
  ends_early(one_call(".type t0 = f32[n] \"x\"\n.type t9 = f32[n] \"y\"\n", "t0", "Erf", 1), &x, 1);
}
END_TEST

START_TEST(a_long_softmax_ends_early) {
  reed_tensor *x = filled(REED_F32, 2, (int64_t[]){4096, 4096});
  ends_early(one_call(".type t0 = f32[n, k] \"x\"\n.type t9 = f32[n, k] \"y\"\n", "t0", "Softmax", 1), &x, 1);
}
END_TEST

START_TEST(a_long_attention_ends_early) {
  reed_tensor *inputs[3];
  for (int i = 0; i < 3; i++) inputs[i] = filled(REED_F32, 4, (int64_t[]){1, 4, 2048, 64});
  ends_early(
      one_call(".type t0 = f32[a, b, c, d] \"x\"\n.type t9 = f32[a, b, c, d] \"y\"\n", "t0, t0, t0", "Attention", 3),
      inputs, 3);
}
END_TEST

START_TEST(a_long_transpose_ends_early) {
  reed_tensor *x = filled(REED_F32, 2, (int64_t[]){4096, 4096});
  ends_early(one_call(".type t0 = f32[n, k] \"x\"\n.type t9 = f32[k, n] \"y\"\n", "t0", "Transpose", 1), &x, 1);
}
END_TEST

/* ---- loops without kernels ---- */

/* The blocks of an emulated launch take seconds, and so does the work that waits behind them. */
START_TEST(launches_of_an_emulated_gpu_end_early) {
  reed_tensor *x = filled(REED_F32, 2, (int64_t[]){1 << 17, 4});
  ends_early_on((const char *const[]){"cuda-emulated"}, 1, assembled(small_epoch), &x, 1);
}
END_TEST

START_TEST(a_loop_of_2_to_the_62_empty_rounds_is_cancelled) {
  static const char text[] =
      ".module \"m\" producer \"test\" \"1\" devices 1\n.type t0 = i64[] \"y\"\n.inputs\n.outputs t0\n"
      ".function main () -> (t0) registers 1 4\n"
      "  s.const s0, 0\n  s.const s1, 1\n  s.const s2, 4611686018427387904\n"
      "again:\n  s.add s0, s0, s1\n  s.lt s3, s0, s2\n  branch.if s3, again\n"
      "  r.scalar r0, s0, i64\n  return [r0], []\n";
  reed_program *program = assembled(text);
  reed_tensor *output;
  cancelling c = {.session = scene_session(program, NULL), .after_s = 0.02};
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &c), 0);
  ck_assert_int_eq(reed_session_run(c.session, NULL, 0, &output, 1, NULL), REED_ERROR_CANCELLED);
  double took = now_s() - c.at_s;
  pthread_join(thread, NULL);
  ck_assert_msg(took < 1, "%.3f s after the cancellation", took);
  reed_session_close(&c.session);
  reed_program_close(&program);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cancel");
  TCase *models = tcase_create("models"), *cases = tcase_create("kernels");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(models, 60);
  tcase_set_timeout(cases, 60);
  tcase_add_test(models, a_model_is_cancelled_at_its_kernels);
  tcase_add_test(models, a_model_is_cancelled_at_kernels_of_an_accelerator);
  if (!suite_runs_references()) {
    tcase_add_test(cases, a_long_elementwise_kernel_ends_early);
    tcase_add_test(cases, a_long_softmax_ends_early);
    tcase_add_test(cases, a_long_attention_ends_early);
    tcase_add_test(cases, a_long_transpose_ends_early);
  }
  tcase_add_test(cases, launches_of_an_emulated_gpu_end_early);
  tcase_add_test(cases, a_loop_of_2_to_the_62_empty_rounds_is_cancelled);
  suite_add_tcase(suite, models);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
