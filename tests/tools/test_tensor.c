/* Tensors of the API: reference counts, owners of memory, and DLPack in both directions. */
#include "reed/tensor.h"
#include "tests/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int n_released;
static void note_release(void *context) { n_released += *(int *)context; }

START_TEST(a_new_tensor_is_zero_aligned_and_of_its_size) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F16, 3, (int64_t[]){2, 3, 5}, &t), REED_OK);
  ck_assert(reed_tensor_elements(t) == 30 && reed_tensor_bytes(t) == 60 && reed_tensor_rank(t) == 3 &&
            reed_tensor_dims(t)[2] == 5);
  ck_assert_uint_eq((uintptr_t)reed_tensor_data(t) % 64, 0);
  for (int i = 0; i < 60; i++) ck_assert_int_eq(((char *)reed_tensor_data(t))[i], 0);
  reed_tensor_close(&t);
  ck_assert_ptr_null(t);
  reed_tensor_close(&t);
}
END_TEST

START_TEST(impossible_tensors_are_refused) {
  reed_tensor *t = NULL;
  int64_t huge[] = {INT64_MAX, INT64_MAX, 0}, one = 1, dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  ck_assert_int_eq(reed_tensor_open(REED_F32, 3, huge, &t), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){-1}, &t), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 9, dims, &t), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open(REED_F32, -1, dims, &t), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open(REED_NONE, 1, &one, &t), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_tensor_open((reed_dtype)99, 1, &one, &t), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 1, &one, NULL, NULL, NULL, &t), REED_ERROR_ARGUMENT);
  ck_assert_ptr_null(t);
}
END_TEST

START_TEST(borrowed_memory_is_released_once_with_the_last_reference) {
  float data[2] = {1, 2};
  int one = 1;
  int64_t two = 2;
  reed_tensor *t, *again;
  n_released = 0;
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 1, &two, data, note_release, &one, &t), REED_OK);
  again = reed_tensor_retain(t);
  reed_tensor_close(&t);
  ck_assert_int_eq(n_released, 0);
  ck_assert_ptr_eq(reed_tensor_data(again), data);
  reed_tensor_close(&again);
  ck_assert_int_eq(n_released, 1);
}
END_TEST

START_TEST(dlpack_shares_memory_both_ways) {
  for (int d = REED_NONE + 1; d < REED_DTYPE_COUNT; d++) {
    reed_tensor *t, *back;
    DLManagedTensor *managed;
    ck_assert_int_eq(reed_tensor_open((reed_dtype)d, 2, (int64_t[]){2, 3}, &t), REED_OK);
    ck_assert_int_eq(reed_tensor_to_dlpack(t, &managed), REED_OK);
    ck_assert(managed->dl_tensor.ndim == 2 && managed->dl_tensor.shape[1] == 3 && managed->dl_tensor.dtype.lanes == 1);
    ck_assert_uint_eq(managed->dl_tensor.dtype.bits, 8 * reed_dtype_bytes((reed_dtype)d));
    void *data = reed_tensor_data(t);
    reed_tensor_close(&t); /* the managed tensor keeps the memory */
    ck_assert_int_eq(reed_tensor_from_dlpack(managed, &back), REED_OK);
    ck_assert(reed_tensor_dtype(back) == (reed_dtype)d && reed_tensor_data(back) == data);
    reed_tensor_close(&back);
  }
}
END_TEST

static int n_deleted;
static void note_delete(DLManagedTensor *self) { n_deleted++, (void)self; }

START_TEST(dlpack_tensors_that_reed_cannot_hold_stay_the_callers) {
  float data[12];
  int64_t shape[] = {3, 4}, strides[] = {4, 1}, transposed[] = {1, 3}, one_row[] = {1, 4}, odd[] = {77, 1},
          empty[] = {0, 4};
  DLManagedTensor base = {.dl_tensor =
                              {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = shape},
                          .deleter = note_delete},
                  m;
  reed_tensor *t = NULL;
  n_deleted = 0;
#define REFUSED(change) \
  m = base; \
  change; \
  ck_assert_int_eq(reed_tensor_from_dlpack(&m, &t), REED_ERROR_UNSUPPORTED)
  REFUSED(m.dl_tensor.device.device_type = kDLCUDA);
  REFUSED(m.dl_tensor.dtype.lanes = 4);
  REFUSED(m.dl_tensor.dtype.bits = 24);
  REFUSED(m.dl_tensor.dtype.code = 5);
  REFUSED(m.dl_tensor.ndim = 9);
#undef REFUSED
  /* The first or the last element would lie beyond the largest address. */
  const uint64_t wrong_offsets[] = {(uint64_t)-4, (uint64_t) - (intptr_t)data, INT64_MAX, (uint64_t)1 << 63,
                                    (uint64_t)(INT64_MAX - (intptr_t)data - 40)};
  for (size_t i = 0; i < sizeof wrong_offsets / sizeof *wrong_offsets; i++) {
    m = base, m.dl_tensor.byte_offset = wrong_offsets[i];
    ck_assert_int_eq(reed_tensor_from_dlpack(&m, &t), REED_ERROR_SHAPE);
  }
  int64_t down[] = {INT64_MIN / 16, 1}, up[] = {INT64_MAX / 8, 1};
  m = base, m.dl_tensor.strides = down;
  ck_assert_int_eq(reed_tensor_from_dlpack(&m, &t), REED_ERROR_SHAPE);
  m = base, m.dl_tensor.strides = up;
  ck_assert_int_eq(reed_tensor_from_dlpack(&m, &t), REED_ERROR_SHAPE);
  ck_assert_int_eq(n_deleted, 0);
#define TAKEN(change) \
  m = base; \
  change; \
  ck_assert_int_eq(reed_tensor_from_dlpack(&m, &t), REED_OK); \
  reed_tensor_close(&t)
  TAKEN(m.dl_tensor.strides = strides);
  TAKEN(m.dl_tensor.strides = transposed);
  TAKEN((m.dl_tensor.shape = one_row, m.dl_tensor.strides = odd)); /* the stride of an axis of extent 1 is ignored */
  TAKEN((m.dl_tensor.shape = empty, m.dl_tensor.strides = transposed, m.dl_tensor.data = NULL));
#undef TAKEN
  ck_assert_int_eq(n_deleted, 4);
  base.dl_tensor.byte_offset = 4, base.dl_tensor.shape = one_row;
  ck_assert_int_eq(reed_tensor_from_dlpack(&base, &t), REED_OK);
  ck_assert_ptr_eq(reed_tensor_data(t), data + 1);
  reed_tensor_close(&t);
}
END_TEST

static void *retain_and_close(void *context) {
  for (int i = 0; i < 20000; i++) {
    reed_tensor *t = reed_tensor_retain(context);
    reed_tensor_close(&t);
  }
  return NULL;
}

START_TEST(references_may_be_counted_by_several_threads) {
  reed_tensor *t;
  pthread_t threads[4];
  int one = 1;
  float data;
  n_released = 0;
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 0, NULL, &data, note_release, &one, &t), REED_OK);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, retain_and_close, t), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  ck_assert_int_eq(n_released, 0);
  reed_tensor_close(&t);
  ck_assert_int_eq(n_released, 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tensor");
  TCase *all = tcase_create("tensor");
  tcase_add_test(all, a_new_tensor_is_zero_aligned_and_of_its_size);
  tcase_add_test(all, impossible_tensors_are_refused);
  tcase_add_test(all, borrowed_memory_is_released_once_with_the_last_reference);
  tcase_add_test(all, dlpack_shares_memory_both_ways);
  tcase_add_test(all, dlpack_tensors_that_reed_cannot_hold_stay_the_callers);
  tcase_add_test(all, references_may_be_counted_by_several_threads);
  suite_add_tcase(suite, all);
  return suite_run(suite);
}
