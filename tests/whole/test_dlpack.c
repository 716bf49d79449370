/* DLPack tensors of devices, versions, flags, strides: exports, imports, and the copies that a session makes. */
#include <stdio.h>

#include "tests/whole/model.h"

START_TEST(dlpack_names_the_device) {
  reed_tensor *x = floats(2, (int64_t[]){2, 3}, 0), *y = on_device(x, "sim:1"), *back = NULL;
  DLManagedTensor *old = NULL;
  DLManagedTensorVersioned *made = NULL;
  ck_assert_int_eq(reed_tensor_to_dlpack(x, &old), REED_OK);
  ck_assert(old->dl_tensor.device.device_type == kDLCPU && old->dl_tensor.device.device_id == 0);
  ck_assert_ptr_null(old->dl_tensor.strides);
  old->deleter(old);
  ck_assert_int_eq(reed_tensor_to_dlpack(y, &old), REED_OK);
  ck_assert(old->dl_tensor.device.device_type == kDLExtDev && old->dl_tensor.device.device_id == 1);
  ck_assert_ptr_eq(old->dl_tensor.data, reed_tensor_address(y));
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(y, false, &made, NULL), REED_OK);
  ck_assert(made->version.major == 1 && made->flags == 0 && made->dl_tensor.device.device_id == 1);
  ck_assert(made->dl_tensor.strides[0] == 3 && made->dl_tensor.strides[1] == 1);
  reed_tensor_close(&y); /* the DLPack tensors hold the memory */
  ck_assert_int_eq(reed_tensor_from_dlpack(old, &back), REED_OK);
  ck_assert_str_eq(reed_tensor_device(back), "sim:1");
  assert_floats(back, 1, 0, 0);
  reed_tensor_close(&back);
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(made, &back, NULL), REED_OK);
  model m = model_open(affine("f32[n,3]"), "sim:1", REED_COUNTS_HOST);
  keep(&m, m.session, 0, true);
  run_model(&m, &back, &y);
  ck_assert_str_eq(copies_of(m.session), "");
  assert_floats(y, 2, 0, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&back);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* A copy for the consumer alone; a device's block of another device and addresses of no device's memory are refused. */
START_TEST(dlpack_copies_on_request_and_knows_its_memory) {
  reed_tensor *x = floats(1, (int64_t[]){5}, 0), *y = on_device(x, "sim?seed=3"), *back = NULL;
  DLManagedTensorVersioned *made = NULL;
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(y, true, &made, NULL), REED_OK);
  ck_assert_uint_eq(made->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  ck_assert_ptr_ne(made->dl_tensor.data, reed_tensor_address(y));
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(made, &back, NULL), REED_OK);
  ck_assert_str_eq(reed_tensor_device(back), "sim"); /* the device with the seed, found by the address */
  assert_floats(back, 1, 0, 0);
  reed_tensor_close(&back);
  int64_t shape[] = {5}, far[] = {6};
  DLManagedTensor wrong = {
      .dl_tensor = {
          .data = reed_tensor_address(y), .device = {kDLExtDev, 1}, .ndim = 1, .dtype = {2, 32, 1}, .shape = shape}};
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_ERROR_UNSUPPORTED);
  wrong.dl_tensor.device.device_id = 0;
  wrong.dl_tensor.data = reed_tensor_data(x);
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_ERROR_UNSUPPORTED);
  wrong.dl_tensor.data = reed_tensor_address(y);
  wrong.dl_tensor.shape = far;
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_ERROR_UNSUPPORTED);
  wrong.dl_tensor.shape = shape;
  wrong.dl_tensor.byte_offset = 4;
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_ERROR_UNSUPPORTED);
  shape[0] = 4;
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_OK);
  assert_floats(back, 1, 1, 0);
  reed_tensor_close(&back);
  wrong.dl_tensor.device = (DLDevice){kDLCUDA, 0};
  ck_assert_int_eq(reed_tensor_from_dlpack(&wrong, &back), REED_ERROR_UNSUPPORTED);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
}
END_TEST

static int n_deleted;
static void note_delete(DLManagedTensorVersioned *self) { n_deleted++, (void)self; }

START_TEST(dlpack_versions_and_flags) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 3};
  DLManagedTensorVersioned given = {
      .version = {1, 7},
      .deleter = note_delete,
      .flags = DLPACK_FLAG_BITMASK_READ_ONLY | 1ul << 40,
      .dl_tensor = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = shape}};
  reed_tensor *t = NULL, *y = NULL;
  DLManagedTensor *old = NULL;
  DLManagedTensorVersioned *made = NULL;
  n_deleted = 0;
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&given, &t, NULL), REED_OK);
  ck_assert(reed_tensor_is_read_only(t));
  /* the unversioned form has no flag for read-only memory */
  ck_assert_int_eq(reed_tensor_to_dlpack(t, &old), REED_ERROR_UNSUPPORTED);
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(t, false, &made, NULL), REED_OK);
  ck_assert_uint_eq(made->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  made->deleter(made);
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(t, true, &made, NULL), REED_OK);
  ck_assert_uint_eq(made->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  made->deleter(made);
  model m = model_open(affine("f32[n,3]"), "host", REED_COUNTS_HOST);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, t, -1, m.said), REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "read-only"));
  run_model(&m, &t, &y);
  assert_floats(y, 2, 0, 1);
  for (int i = 0; i < 6; i++) ck_assert_float_eq(data[i], (float)i);
  reed_tensor_close(&y);
  reed_tensor_close(&t);
  ck_assert_int_eq(n_deleted, 1);
  given.version.major = 2;
  given.dl_tensor.ndim = 77; /* must not be read */
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&given, &t, m.said), REED_ERROR_UNSUPPORTED);
  given.version.major = 0;
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&given, &t, m.said), REED_ERROR_UNSUPPORTED);
  ck_assert_int_eq(n_deleted, 1);
  model_close(&m);
}
END_TEST

/* Views of [4,6] memory: transposed, every second column, backwards, one row repeated, from an offset; of the host and
 * of a device. Each is copied once a run, and counted. */
START_TEST(strided_inputs_are_copied_and_counted) {
  const struct {
    int64_t shape[2], strides[2];
    uint64_t offset;
  } views[] = {
      {{6, 3}, {1, 6}, 0}, {{4, 3}, {6, 2}, 0}, {{4, 3}, {-6, 1}, 72}, {{5, 3}, {0, 1}, 24}, {{3, 3}, {6, 1}, 20}};
  model m = model_open(affine("f32[n,3]"), _i ? "sim?late=1" : "host", REED_COUNTS_HOST);
  reed_tensor *all = floats(2, (int64_t[]){4, 6}, 0), *at = on_device(all, _i ? "sim?late=1" : "host"), *y = NULL;
  for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
    int64_t shape[2] = {views[v].shape[0], views[v].shape[1]}, strides[2] = {views[v].strides[0], views[v].strides[1]};
    DLManagedTensorVersioned given = {.version = {1, 0},
                                      .dl_tensor = {.data = reed_tensor_address(at),
                                                    .device = {_i ? kDLExtDev : kDLCPU, 0},
                                                    .ndim = 2,
                                                    .dtype = {2, 32, 1},
                                                    .shape = shape,
                                                    .strides = strides,
                                                    .byte_offset = views[v].offset}};
    reed_tensor *view = NULL, *host = NULL;
    ck_assert_int_eq(reed_tensor_from_dlpack_versioned(&given, &view, m.said), REED_OK);
    ck_assert(!reed_tensor_is_dense(view) && reed_tensor_strides(view)[0] == strides[0]);
    for (int again = 0; again < 2; again++) {
      run_model(&m, &view, &y);
      char expected[128];
      int bytes = (int)(12 * shape[0]);
      if (_i == 0) snprintf(expected, sizeof expected, "host-to-host input %d x;", bytes);
      else
        snprintf(expected, sizeof expected, "device-to-device input %d x;device-to-host output %d inputs;", bytes,
                 bytes);
      ck_assert_str_eq(copies_of(m.session), expected);
      for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t k = 0; k < 3; k++) {
          float x = (float)((int64_t)views[v].offset / 4 + i * strides[0] + k * strides[1]);
          ck_assert_float_eq(((float *)reed_tensor_data(y))[3 * i + k], 2 * x + 1);
        }
      reed_tensor_close(&y);
    }
    ck_assert_int_eq(reed_tensor_to_host(view, &host, m.said), REED_OK);
    ck_assert(reed_tensor_is_dense(host) && reed_tensor_data(host) != reed_tensor_address(view));
    ck_assert_float_eq(((float *)reed_tensor_data(host))[1], (float)((int64_t)views[v].offset / 4 + strides[1]));
    reed_tensor_close(&host);
    reed_tensor_close(&view);
  }
  reed_tensor_close(&at);
  reed_tensor_close(&all);
  model_close(&m);
}
END_TEST

/* The memory of an input's copy is new, so its poisoning comes before the copy, in whatever order the queues run. */
START_TEST(the_copy_of_a_strided_input_is_not_poisoned) {
  enum { ROWS = 90 };
  char device[48];
  snprintf(device, sizeof device, "sim?late=1&poison=1&seed=%d", _i + 1);
  model m = model_open(affine("f32[n,3]"), device, REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){3, ROWS}, 0), *at = on_device(x, device);
  int64_t shape[] = {ROWS, 3}, strides[] = {1, ROWS};
  DLManagedTensor given = {.dl_tensor = {.data = reed_tensor_address(at),
                                         .device = {kDLExtDev, 0},
                                         .ndim = 2,
                                         .dtype = {2, 32, 1},
                                         .shape = shape,
                                         .strides = strides}};
  reed_tensor *t = NULL, *y = NULL;
  ck_assert_int_eq(reed_tensor_from_dlpack(&given, &t), REED_OK);
  for (int run = 0; run < 4; run++) {
    run_model(&m, &t, &y);
    for (int64_t i = 0; i < ROWS; i++)
      for (int64_t k = 0; k < 3; k++)
        ck_assert_float_eq(((float *)reed_tensor_data(y))[3 * i + k], (float)(2 * (k * ROWS + i) + 1));
    reed_tensor_close(&y);
  }
  reed_tensor_close(&t);
  reed_tensor_close(&at);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* Thousands of rows of one element go by the host, with the same result. */
START_TEST(a_transposed_tensor_of_a_device_is_copied) {
  enum { ROWS = 70, COLUMNS = 90 };
  reed_tensor *x = floats(2, (int64_t[]){ROWS, COLUMNS}, 0), *at = on_device(x, "sim"), *t = NULL, *dense = NULL,
              *host = NULL;
  int64_t shape[] = {COLUMNS, ROWS}, strides[] = {1, COLUMNS};
  DLManagedTensor given = {.dl_tensor = {.data = reed_tensor_address(at),
                                         .device = {kDLExtDev, 0},
                                         .ndim = 2,
                                         .dtype = {2, 32, 1},
                                         .shape = shape,
                                         .strides = strides}};
  ck_assert_int_eq(reed_tensor_from_dlpack(&given, &t), REED_OK);
  ck_assert_int_eq(reed_tensor_to_device(t, "sim", &dense, NULL), REED_OK);
  ck_assert(reed_tensor_is_dense(dense) && reed_tensor_address(dense) != reed_tensor_address(t));
  ck_assert_int_eq(reed_tensor_to_host(dense, &host, NULL), REED_OK);
  for (int64_t i = 0; i < COLUMNS; i++)
    for (int64_t k = 0; k < ROWS; k++)
      ck_assert_float_eq(((float *)reed_tensor_data(host))[i * ROWS + k], (float)(k * COLUMNS + i));
  reed_tensor *same = NULL, *other = NULL;
  ck_assert_int_eq(reed_tensor_to_device(dense, "sim:0", &same, NULL), REED_OK);
  ck_assert_ptr_eq(same, dense); /* no copy: another reference */
  ck_assert_int_eq(reed_tensor_to_device(dense, "sim:1", &other, NULL), REED_OK);
  ck_assert_str_eq(reed_tensor_device(other), "sim:1");
  reed_tensor *there = NULL;
  ck_assert_int_eq(reed_tensor_to_host(other, &there, NULL), REED_OK);
  ck_assert_mem_eq(reed_tensor_data(there), reed_tensor_data(host), ROWS * COLUMNS * 4);
  reed_tensor_close(&there);
  reed_tensor_close(&other);
  reed_tensor_close(&same);
  reed_tensor_close(&host);
  reed_tensor_close(&dense);
  reed_tensor_close(&t);
  reed_tensor_close(&at);
  reed_tensor_close(&x);
}
END_TEST

START_TEST(tensors_of_devices_are_refused_where_they_cannot_be) {
  reed_tensor *t = NULL;
  reed_diagnosis *said;
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  int64_t dims[] = {1ll << 40, 1ll << 5}, more[] = {1ll << 40, 1ll << 20};
  ck_assert_int_eq(reed_tensor_open_on("nowhere", REED_F32, 1, (int64_t[]){1}, &t, said), REED_ERROR_DEVICE);
  ck_assert_int_eq(reed_tensor_open_on("sim", REED_F32, 1, (int64_t[]){-1}, &t, said), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open_on("sim", REED_NONE, 0, NULL, &t, said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_tensor_open_on("sim", REED_F32, 2, dims, &t, said), REED_ERROR_MEMORY);
  ck_assert_int_eq(reed_tensor_open_on("sim", REED_F32, 2, more, &t, said), REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_tensor_open_on("host", REED_F32, 1, (int64_t[]){2}, &t, said), REED_OK);
  ck_assert_ptr_nonnull(reed_tensor_data(t));
  reed_tensor_close(&t);
  ck_assert_int_eq(reed_tensor_open_on("sim", REED_F32, 1, (int64_t[]){0}, &t, said), REED_OK);
  reed_tensor_close(&t);
  reed_diagnosis_close(&said);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("dlpack");
  tcase_add_test(cases, dlpack_names_the_device);
  tcase_add_test(cases, dlpack_copies_on_request_and_knows_its_memory);
  tcase_add_test(cases, dlpack_versions_and_flags);
  tcase_add_loop_test(cases, strided_inputs_are_copied_and_counted, 0, 2);
  tcase_add_test(cases, a_transposed_tensor_of_a_device_is_copied);
  tcase_add_loop_test(cases, the_copy_of_a_strided_input_is_not_poisoned, 0, 20);
  tcase_add_test(cases, tensors_of_devices_are_refused_where_they_cannot_be);
  return run_suite(cases, "dlpack");
}
