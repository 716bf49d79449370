/* The caller's stream (reed_session_set_stream) on the emulated GPU: another user of the driver in this process, as
 * torch is, writes inputs and reads outputs by work that runs late. Without the stream's number the same runs go wrong,
 * so the fake driver would show a wait that is missing. */
#include <dlfcn.h>
#include <uv.h>

#include "device/cuda/driver/driver.h"
#include "tests/whole/model.h"

enum { N = 300, SEEDS = 12 };

/* The other user: a stream of a card. */
typedef struct user {
  cuda_driver cu;
  cu_stream stream;
  cu_context context;
  int number; /* of the card */
} user;

/* number: 0 a stream of the user's own; 1, 2: the default streams, which DLPack and the driver name so. */
static user user_open_on(int number, int card_number) {
  user u = {.stream = (cu_stream)(intptr_t)number};
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  void (*table)(cuda_driver *) = (void (*)(cuda_driver *))dlsym(module, "reed_fake_driver");
  ck_assert_ptr_nonnull(table);
  table(&u.cu);
  cu_device card;
  u.number = u.cu.first_ordinal + card_number;
  ck_assert_int_eq(u.cu.device_get(&card, u.number), CU_SUCCESS);
  ck_assert_int_eq(u.cu.context_retain(&u.context, card), CU_SUCCESS);
  ck_assert_int_eq(u.cu.context_push(u.context), CU_SUCCESS);
  if (!number) ck_assert_int_eq(u.cu.stream_create(&u.stream, 1), CU_SUCCESS);
  dlclose(module);
  return u;
}

static user user_open(int number) { return user_open_on(number, 0); }

static void user_close(user *u) {
  cu_device card;
  if ((uintptr_t)u->stream > 2) ck_assert_int_eq(u->cu.stream_destroy(u->stream), CU_SUCCESS);
  ck_assert_int_eq(u->cu.context_pop(&u->context), CU_SUCCESS);
  ck_assert_int_eq(u->cu.device_get(&card, u->number), CU_SUCCESS);
  ck_assert_int_eq(u->cu.context_release(card), CU_SUCCESS);
}

static void set_stream(model *m, const user *u) {
  reed_status status = reed_session_set_stream(m->session, (int64_t)(intptr_t)u->stream, m->said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m->said));
}

static cu_pointer address(reed_tensor *t) { return (cu_pointer)(uintptr_t)reed_tensor_address(t); }

/* Work before the user's own work, so that the latter runs late in most orders. */
static void enqueue_delay(const user *u, reed_tensor *t) {
  static const float zeros[N];
  for (int i = 0; i < 100; i++) ck_assert_int_eq(u->cu.copy_in(address(t), zeros, sizeof zeros, u->stream), CU_SUCCESS);
}

static bool holds(reed_tensor *t, float first) {
  reed_tensor *host = NULL;
  bool same = true;
  ck_assert_int_eq(reed_tensor_to_host(t, &host, NULL), REED_OK);
  const float *x = reed_tensor_data(host);
  for (int i = 0; i < N; i++) same &= x[i] == first + 2 * (float)i;
  reed_tensor_close(&host);
  return same;
}

static void take_output(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                        const reed_diagnosis *diagnosis) {
  ck_assert_msg(status == REED_OK && n_outputs == 1, "%s", reed_diagnosis_message(diagnosis));
  *(reed_tensor **)context = outputs[0];
}

/* A run on a thread of libuv's pool, which has a default stream of its own. */
static void run_async(model *m, reed_tensor *x, reed_tensor **out) {
  uv_loop_t loop;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(reed_session_run_async(m->session, &loop, &x, 1, take_output, out, m->said), REED_OK);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* y = 2 x + 1 of an x that the user's stream still writes. True: y is of the written x. */
static bool reads_late_input(int seed, int stream, bool async, bool told) {
  char device[64];
  snprintf(device, sizeof device, "cuda-emulated?late=1&seed=%d", seed);
  model m = model_open(affine("f32[n]"), device, REED_COUNTS_HOST);
  user u = user_open(stream);
  reed_tensor *zero = NULL, *x = NULL, *y = NULL;
  float given[N];
  for (int i = 0; i < N; i++) given[i] = (float)i;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){N}, &zero), REED_OK);
  x = on_device(zero, device);
  keep(&m, m.session, 0, true);
  run_model(&m, &x, &y); /* the first run allocates, for which the driver may wait */
  reed_tensor_close(&y);
  if (told) set_stream(&m, &u);
  enqueue_delay(&u, x);
  ck_assert_int_eq(u.cu.copy_in(address(x), given, sizeof given, u.stream), CU_SUCCESS);
  if (async) run_async(&m, x, &y);
  else run_model(&m, &x, &y);
  ck_assert_str_eq(copies_of(m.session), ""); /* neither the input nor the output was copied */
  bool right = holds(y, 1);
  reed_tensor_close(&y); /* needs the stream */
  user_close(&u);        /* the tensors keep the card open */
  reed_tensor_close(&x);
  reed_tensor_close(&zero);
  model_close(&m);
  return right;
}

START_TEST(a_run_waits_for_the_work_of_the_callers_stream) {
  int n_wrong = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    ck_assert_msg(reads_late_input(seed, _i % 3, _i / 3, true), "seed %d", seed);
    n_wrong += !reads_late_input(seed, _i % 3, _i / 3, false);
  }
  ck_assert_int_gt(n_wrong, 0); /* a missing wait shows */
}
END_TEST

/* The user's stream copies y, which is closed before the copy has run; then a second session computes outputs of the
 * same extents, or the session is closed. True: the copy has the first y's elements. */
static bool keeps_closed_output(int seed, int stream, bool told, bool close_session) {
  char device[64];
  snprintf(device, sizeof device, "cuda-emulated?late=1&seed=%d", seed);
  model m = model_open(affine("f32[n]"), device, REED_COUNTS_HOST);
  user u = user_open(stream);
  reed_tensor *host = floats(1, (int64_t[]){N}, 0), *far = floats(1, (int64_t[]){N}, 500), *x = on_device(host, device),
              *z = on_device(far, device), *input = on_device(far, device), *y = NULL;
  keep(&m, m.session, 0, true);
  if (told) set_stream(&m, &u);
  run_model(&m, &x, &y);
  DLManagedTensorVersioned *lent = NULL;
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(y, false, &lent, NULL), REED_OK);
  ck_assert_int_eq(lent->dl_tensor.device.device_type, kDLCUDA);
  reed_tensor_close(&y);
  enqueue_delay(&u, z);
  ck_assert_int_eq(u.cu.copy_within(address(z), (cu_pointer)(uintptr_t)lent->dl_tensor.data, 4 * N, u.stream),
                   CU_SUCCESS);
  lent->deleter(lent);
  /* the session's stream is another one now: so only the closed output's event keeps the copy's source */
  if (told) ck_assert_int_eq(reed_session_set_stream(m.session, 0, m.said), REED_OK);
  if (close_session) reed_session_close(&m.session);
  else run_model(&m, &input, &y);
  bool right = u.cu.stream_synchronize(u.stream) == CU_SUCCESS && holds(z, 1);
  reed_tensor_close(&y);
  user_close(&u);
  reed_tensor_close(&input);
  reed_tensor_close(&x);
  reed_tensor_close(&z);
  reed_tensor_close(&host);
  reed_tensor_close(&far);
  model_close(&m);
  return right;
}

START_TEST(an_output_that_the_callers_stream_uses_stays_when_it_is_closed) {
  int n_wrong = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    ck_assert_msg(keeps_closed_output(seed, _i, true, false), "seed %d", seed);
    ck_assert_msg(keeps_closed_output(seed, _i, true, true), "seed %d, session closed", seed);
    n_wrong += !keeps_closed_output(seed, _i, false, false);
  }
  ck_assert_int_gt(n_wrong, 0);
}
END_TEST

/* After a refusal the session runs. */
static void close_after_a_run(model *m, user *u, reed_tensor **x) {
  reed_tensor *y = NULL;
  run_model(m, x, &y);
  ck_assert(holds(y, 1));
  reed_tensor_close(&y);
  reed_tensor_close(x);
  user_close(u);
  model_close(m);
}

/* On the real driver the run would become a part of the caller's graph. */
START_TEST(a_stream_that_is_captured_takes_no_run) {
  model m = model_open(affine("f32[n]"), "cuda-emulated", REED_COUNTS_HOST);
  user u = user_open(_i ? 2 : 0);
  reed_tensor *x = floats(1, (int64_t[]){N}, 0), *y = NULL;
  cu_graph graph = NULL;
  set_stream(&m, &u);
  run_model(&m, &x, &y);
  reed_tensor_close(&y);
  ck_assert_int_eq(u.cu.capture_begin(u.stream, CU_CAPTURE_THREAD), CU_SUCCESS);
  ck_assert_int_eq(reed_session_run(m.session, &x, 1, &y, 1, m.said), REED_ERROR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "stream is being captured into a graph"));
  ck_assert_ptr_null(y);
  ck_assert_int_eq(u.cu.capture_end(u.stream, &graph), CU_SUCCESS); /* the capture is not broken */
  ck_assert_int_eq(u.cu.graph_destroy(graph), CU_SUCCESS);
  close_after_a_run(&m, &u, &x);
}
END_TEST

/* An event and the stream that it is recorded on must be of one context. */
START_TEST(a_stream_of_another_card_takes_no_run) {
  model m = model_open(affine("f32[n]"), "cuda-emulated", REED_COUNTS_HOST);
  user u = user_open_on(0, 1);
  reed_tensor *x = floats(1, (int64_t[]){N}, 0), *y = NULL;
  set_stream(&m, &u);
  ck_assert_int_eq(reed_session_run(m.session, &x, 1, &y, 1, m.said), REED_ERROR_DEVICE);
  ck_assert_msg(strstr(reed_diagnosis_message(m.said), "the caller's stream, which must be one of this device"), "%s",
                reed_diagnosis_message(m.said));
  ck_assert_ptr_null(y);
  ck_assert_int_eq(reed_session_set_stream(m.session, 0, m.said), REED_OK);
  close_after_a_run(&m, &u, &x);
}
END_TEST

START_TEST(devices_without_streams_of_callers_are_refused) {
  model m = model_open(affine("f32[n]"), "sim", REED_COUNTS_HOST);
  ck_assert_int_eq(reed_session_set_stream(m.session, 7, m.said), REED_ERROR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "streams of callers"));
  ck_assert_int_eq(reed_session_set_stream(m.session, -2, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_set_stream(NULL, 7, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_set_stream(m.session, 0, m.said), REED_OK);
  ck_assert_int_eq(reed_session_set_stream(m.session, -1, m.said), REED_OK);
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("streams");
  tcase_add_loop_test(cases, a_run_waits_for_the_work_of_the_callers_stream, 0, 6);
  tcase_add_loop_test(cases, an_output_that_the_callers_stream_uses_stays_when_it_is_closed, 0, 3);
  tcase_add_loop_test(cases, a_stream_that_is_captured_takes_no_run, 0, 2);
  tcase_add_test(cases, a_stream_of_another_card_takes_no_run);
  tcase_add_test(cases, devices_without_streams_of_callers_are_refused);
  return run_suite(cases, "streams");
}
