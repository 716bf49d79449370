/* Memory that another user of the driver has allocated on the card, as torch does, taken by DLPack as an input or as
 * the memory of an output: in place where it can be, refused with a sentence where its address, its card or its extents
 * are wrong, and free for its owner as soon as a run is over, also a run that failed. */
#include <dlfcn.h>

#include "device/cuda/driver/driver.h"
#include "tests/whole/model.h"

enum { N = 60, CARDS = 2 };

/* Made once more if it fails, because the call that the driver was told to fail may be the user's. Calls that give
 * something back do so also when they are told to fail. */
#define CALL(call) ck_assert((call) == CU_SUCCESS || (call) == CU_SUCCESS)

/* The other user: a pool and a stream on one card. */
typedef struct user {
  cuda_driver cu;
  cu_device card;
  cu_context context;
  cu_pool pool;
  cu_stream stream;
} user;

static user user_open(int number) {
  user u = {.stream = NULL};
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  void (*table)(cuda_driver *) = (void (*)(cuda_driver *))dlsym(module, "reed_fake_driver");
  ck_assert_ptr_nonnull(table);
  table(&u.cu);
  const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, u.cu.first_ordinal + number}};
  CALL(u.cu.device_get(&u.card, u.cu.first_ordinal + number));
  CALL(u.cu.context_retain(&u.context, u.card));
  CALL(u.cu.context_push(u.context));
  CALL(u.cu.stream_create(&u.stream, CU_NON_BLOCKING));
  CALL(u.cu.pool_create(&u.pool, &properties));
  dlclose(module);
  return u;
}

static void user_close(user *u) {
  CALL(u->cu.stream_synchronize(u->stream));
  (void)u->cu.pool_destroy(u->pool);
  (void)u->cu.stream_destroy(u->stream);
  (void)u->cu.context_pop(&u->context);
  (void)u->cu.context_release(u->card);
}

/* A block of N elements 0, 1, 2..., whose work is done. */
static cu_pointer numbers(user *u) {
  static float given[N];
  cu_pointer data = 0;
  for (int i = 0; i < N; i++) given[i] = (float)i;
  CALL(u->cu.pool_allocate(&data, sizeof given, u->pool, u->stream));
  CALL(u->cu.copy_in(data, given, sizeof given, u->stream));
  CALL(u->cu.stream_synchronize(u->stream));
  return data;
}

static void drop(user *u, cu_pointer data) {
  (void)u->cu.pool_free(data, u->stream);
  CALL(u->cu.stream_synchronize(u->stream));
}

static int n_dropped;
static void note_drop(DLManagedTensorVersioned *self) { n_dropped++, (void)self; }

static int64_t extents[2];
static DLManagedTensorVersioned given;

/* The tensor [rows, 3] at the address. */
static reed_status take(cu_pointer data, int card, int64_t rows, uint64_t offset, int64_t *strides, reed_tensor **out,
                        reed_diagnosis *said) {
  extents[0] = rows, extents[1] = 3;
  given = (DLManagedTensorVersioned){.version = {1, 0},
                                     .deleter = note_drop,
                                     .dl_tensor = {.data = (void *)(uintptr_t)data,
                                                   .device = {kDLCUDA, card},
                                                   .ndim = 2,
                                                   .dtype = {2, 32, 1},
                                                   .shape = extents,
                                                   .strides = strides,
                                                   .byte_offset = offset}};
  return reed_tensor_from_dlpack_versioned(&given, out, said);
}

static void check_output(reed_tensor *y, int64_t first, int64_t row, int64_t column) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(y, &host, NULL), REED_OK);
  for (int64_t i = 0; i < reed_tensor_dims(host)[0]; i++)
    for (int64_t k = 0; k < 3; k++)
      ck_assert_float_eq(((float *)reed_tensor_data(host))[3 * i + k], (float)(2 * (first + i * row + k * column) + 1));
  reed_tensor_close(&host);
}

START_TEST(memory_of_another_library_is_used_in_place) {
  const char *device = _i ? "cuda-emulated:1" : "cuda-emulated";
  model m = model_open(affine("f32[n,3]"), device, REED_COUNTS_HOST);
  user u = user_open(_i);
  cu_pointer data = numbers(&u), bound = numbers(&u);
  reed_tensor *x = NULL, *memory = NULL, *y = NULL;
  n_dropped = 0;
  keep(&m, m.session, 0, true);
  ck_assert_int_eq(reed_session_set_stream(m.session, (int64_t)(intptr_t)u.stream, m.said), REED_OK);
  for (int run = 0; run < 4; run++) { /* the third run replays a graph */
    ck_assert_int_eq(take(data, _i, 5, 24, NULL, &x, m.said), REED_OK);
    run_model(&m, &x, &y);
    ck_assert_str_eq(copies_of(m.session), "");
    check_output(y, 6, 3, 1);
    reed_tensor_close(&y);
    reed_tensor_close(&x);
    ck_assert_int_eq(n_dropped, run + 1);
  }
  DLManagedTensorVersioned lent;
  int64_t shape[] = {5, 3};
  ck_assert_int_eq(take(bound, _i, 5, 0, NULL, &memory, m.said), REED_OK);
  lent = given, lent.dl_tensor.shape = shape;
  reed_tensor_close(&memory);
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&lent, &memory, m.said), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, -1, m.said), REED_OK);
  ck_assert_int_eq(take(data, _i, 5, 0, NULL, &x, m.said), REED_OK);
  run_model(&m, &x, &y);
  ck_assert_str_eq(copies_of(m.session), "");
  ck_assert_ptr_eq(reed_tensor_address(y), (void *)(uintptr_t)bound);
  check_output(y, 0, 3, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, NULL, -1, m.said), REED_OK);
  reed_tensor_close(&memory);
  drop(&u, data);
  drop(&u, bound);
  /* the owner has freed the block */
  ck_assert_int_eq(take(data, _i, 5, 0, NULL, &x, m.said), REED_ERROR_UNSUPPORTED);
  user_close(&u);
  model_close(&m);
}
END_TEST

START_TEST(strided_empty_and_odd_tensors) {
  model m = model_open(affine("f32[n,3]"), "cuda-emulated?late=1&seed=5", REED_COUNTS_HOST);
  user u = user_open(0);
  cu_pointer data = numbers(&u);
  reed_tensor *x = NULL, *y = NULL;
  static int64_t views[][2] = {{1, 7}, {6, 2}, {0, 1}, {-3, 1}};
  static const uint64_t offsets[] = {0, 4, 24, 48};
  for (int v = 0; v < 4; v++) {
    ck_assert_int_eq(take(data, 0, 4, offsets[v], views[v], &x, m.said), REED_OK);
    run_model(&m, &x, &y);
    check_output(y, (int64_t)offsets[v] / 4, views[v][0], views[v][1]);
    reed_tensor_close(&y);
    reed_tensor_close(&x);
  }
  /* no elements: any address will do, and no deleter is needed */
  ck_assert_int_eq(take(0, 0, 0, 0, NULL, &x, m.said), REED_OK);
  given.deleter = NULL;
  run_model(&m, &x, &y);
  ck_assert_int_eq(reed_tensor_dims(y)[0], 0);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  /* at any element, but not between elements */
  ck_assert_int_eq(take(data, 0, 3, 4, NULL, &x, m.said), REED_OK);
  run_model(&m, &x, &y);
  check_output(y, 1, 3, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  ck_assert_int_eq(take(data, 0, 3, 2, NULL, &x, m.said), REED_ERROR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "multiple of their size"));
  drop(&u, data);
  user_close(&u);
  model_close(&m);
}
END_TEST

static const struct {
  int card;
  int64_t rows;
  uint64_t offset;
  int64_t strides[2];
  reed_status status;
} wrong[] = {{1, 5, 0, {3, 1}, REED_ERROR_UNSUPPORTED},         {7, 5, 0, {3, 1}, REED_ERROR_UNSUPPORTED},
             {-1, 5, 0, {3, 1}, REED_ERROR_UNSUPPORTED},        {0, N / 3 + 1, 0, {3, 1}, REED_ERROR_UNSUPPORTED},
             {0, 5, 4 * N - 8, {3, 1}, REED_ERROR_UNSUPPORTED}, {0, 5, 0, {-3, 1}, REED_ERROR_UNSUPPORTED},
             {0, 5, 0, {INT64_MAX, 1}, REED_ERROR_SHAPE},       {0, -1, 0, {3, 1}, REED_ERROR_SHAPE},
             {0, INT64_MAX / 2, 0, {3, 1}, REED_ERROR_SHAPE},   {0, 5, UINT64_MAX - 3, {3, 1}, REED_ERROR_SHAPE}};

START_TEST(wrong_memory_is_refused) {
  model m = model_open(affine("f32[n,3]"), "cuda-emulated", REED_COUNTS_HOST);
  user u = user_open(0);
  reed_session *other = session_of(&m, "cuda-emulated:1");
  const cu_pointer data = numbers(&u);
  reed_tensor *x = NULL, *y = NULL;
  float host[6] = {0};
  n_dropped = 0;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    int64_t strides[] = {wrong[i].strides[0], wrong[i].strides[1]};
    ck_assert_msg(take(data, wrong[i].card, wrong[i].rows, wrong[i].offset, strides, &x, m.said) == wrong[i].status,
                  "case %zu: %s", i, reed_diagnosis_message(m.said));
  }
  ck_assert_int_eq(take((cu_pointer)(uintptr_t)host, 0, 2, 0, NULL, &x, m.said), REED_ERROR_UNSUPPORTED);
  ck_assert_int_eq(n_dropped, 0); /* nothing was taken */
  /* a session on another card copies the input, through the host */
  ck_assert_int_eq(take(data, 0, 5, 0, NULL, &x, m.said), REED_OK);
  run_session(&m, other, &x, &y);
  check_output(y, 0, 3, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  given.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&given, &x, m.said), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, x, -1, m.said), REED_ERROR_ARGUMENT);
  run_model(&m, &x, &y);
  check_output(y, 0, 3, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  drop(&u, data);
  user_close(&u);
  reed_session_close(&other);
  model_close(&m);
}
END_TEST

/* The number of the driver's last call that opens a session: the failure of a later one leaves it open. */
static int calls_of_opening(model *m) {
  enum { MOST = 1000 };
  int last = 0;
  for (int call = 1; call < last + 100 && call < MOST; call++) {
    char device[64];
    reed_session *session = NULL;
    snprintf(device, sizeof device, "cuda-emulated?fail_call=%d", call);
    if (reed_session_open(m->program, &(reed_session_options){.device = device, .n_threads = 1}, &session, m->said) !=
        REED_OK)
      last = call;
    reed_session_close(&session);
  }
  ck_assert_int_gt(last, 0);
  return last;
}

/* A call of the driver fails in the run; then the owner frees the memory at once, and the fake driver would tell of
 * work that still reads it. The session runs again. */
START_TEST(memory_is_free_when_a_failed_run_returns) {
  model m = model_open(affine("f32[n,3]"), "cuda-emulated", REED_COUNTS_HOST);
  int n_failed = 0, opening = calls_of_opening(&m);
  for (int call = 1; call <= 80; call++) {
    char device[64];
    snprintf(device, sizeof device, "cuda-emulated?late=1&seed=%d&fail_call=%d", call, opening + call);
    reed_session *session = session_of(&m, device);
    user u = user_open(0);
    for (int run = 0, failed = 0; run < 3; run++) {
      const cu_pointer data = numbers(&u);
      reed_tensor *x = NULL, *y = NULL;
      reed_status status = take(data, 0, 5, 0, NULL, &x, m.said);
      if (status == REED_OK) status = reed_session_run(session, &x, 1, &y, 1, m.said);
      ck_assert_msg(status == REED_OK || !failed++, "%s: %s", device, reed_diagnosis_message(m.said));
      n_failed += status != REED_OK;
      if (status == REED_OK) check_output(y, 0, 3, 1);
      reed_tensor_close(&y);
      reed_tensor_close(&x);
      drop(&u, data);
    }
    user_close(&u); /* before the session, with which the card closes */
    reed_session_close(&session);
  }
  ck_assert_int_gt(n_failed, 10);
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("foreign");
  tcase_add_loop_test(cases, memory_of_another_library_is_used_in_place, 0, CARDS);
  tcase_add_test(cases, strided_empty_and_odd_tensors);
  tcase_add_test(cases, wrong_memory_is_refused);
  tcase_add_test(cases, memory_is_free_when_a_failed_run_returns);
  return run_suite(cases, "foreign");
}
