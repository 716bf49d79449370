/* Outputs in memory of the caller: computed there or copied once, with room along an axis, on host and devices; memory
 * that does not fit is refused and not written. */
#include <stdio.h>

#include "tests/whole/model.h"

static const char *const devices[] = {"host", "sim", "sim:1?poison=1&late=1", "sim:2?seed=5&delay_us=80",
                                      "sim:3?seed=9&late=1&poison=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices };

static void bind(model *m, size_t output, reed_tensor *memory, int32_t axis) {
  reed_status status = reed_session_bind_output(m->session, output, memory, axis, m->said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m->said));
}

/* Memory on a device, or on the host, whose elements are all -7. */
static reed_tensor *memory_on(const char *device, int32_t rank, const int64_t *dims) {
  reed_tensor *host = floats(rank, dims, 0), *there;
  for (int64_t i = 0; i < reed_tensor_elements(host); i++) ((float *)reed_tensor_data(host))[i] = -7;
  there = on_device(host, device);
  reed_tensor_close(&host);
  return there;
}

static float element(reed_tensor *t, int64_t i) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(t, &host, NULL), REED_OK);
  float value = ((float *)reed_tensor_data(host))[i];
  reed_tensor_close(&host);
  return value;
}

static void assert_untouched(reed_tensor *t) {
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) ck_assert_float_eq(element(t, i), -7);
}

/* ---- memory of the output's extents ---- */

/* No copy but the read-back: misses and hits write the memory that is bound now. */
START_TEST(an_output_is_computed_or_read_back_in_bound_memory) {
  bool host = _i == 0;
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){4, 3}, 0), *y = NULL, *free_one = NULL,
              *first = memory_on("host", 2, (int64_t[]){4, 3}), *second = memory_on("host", 2, (int64_t[]){4, 3}),
              *there = memory_on(devices[_i], 2, (int64_t[]){4, 3});
  reed_tensor *const row[] = {first, second, first, there, second, there};
  for (int i = 0; i < 6; i++) {
    reed_tensor *in = floats(2, (int64_t[]){4, 3}, (float)i);
    bind(&m, 0, row[i], -1);
    run_model(&m, &in, &y);
    ck_assert_ptr_eq(reed_tensor_address(y), reed_tensor_address(row[i]));
    ck_assert_str_eq(copies_of(m.session), host              ? ""
                                           : row[i] == there ? "host-to-device input 48 inputs;"
                                                             : "host-to-device input 48 inputs;device-to-host output "
                                                               "48 inputs;");
    assert_floats(y, 2, (double)i, 1);
    reed_tensor_close(&y);
    reed_tensor_close(&in);
  }
  ck_assert_int_eq(statistic_of(m.session, "misses"), 1);
  assert_floats(first, 2, 2, 1);
  assert_floats(second, 2, 4, 1);
  assert_floats(there, 2, 5, 1);
  /* An unbound output gets memory of the session; memory that was bound stays as it is. */
  bind(&m, 0, NULL, -1);
  run_model(&m, &x, &free_one);
  assert_floats(free_one, 2, 0, 1);
  assert_floats(there, 2, 5, 1);
  ck_assert_ptr_ne(reed_tensor_address(free_one), reed_tensor_address(there));
  reed_tensor_close(&free_one);
  reed_tensor_close(&first);
  reed_tensor_close(&second);
  reed_tensor_close(&there);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* The memory and the outputs over it stay valid when the session is closed first. */
START_TEST(bound_memory_outlives_the_session) {
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){2, 3}, 0), *y = NULL, *memory = memory_on(devices[_i], 2, (int64_t[]){5, 3});
  bind(&m, 0, memory, 0);
  reed_tensor_close(&memory); /* the session holds the memory */
  run_model(&m, &x, &y);
  model_close(&m);
  ck_assert(reed_tensor_dims(y)[0] == 2 && reed_tensor_is_dense(y));
  assert_floats(y, 2, 0, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&x);
}
END_TEST

/* ---- room ---- */

/* Room along the outermost axis: no copy at any extent, and nothing is written behind the output. */
START_TEST(room_along_the_outermost_axis_costs_no_copy) {
  model m = model_open(affine("f32[1,n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *memory = memory_on(devices[_i], 3, (int64_t[]){1, 6, 3});
  for (int round = 0; round < 2; round++)
    for (int64_t n = 0; n <= 6; n++) {
      reed_tensor *x = floats(3, (int64_t[]){1, n, 3}, (float)n), *in = on_device(x, devices[_i]), *y = NULL,
                  *clean = memory_on(devices[_i], 3, (int64_t[]){1, 6, 3});
      bind(&m, 0, round ? clean : memory, 1);
      run_model(&m, &in, &y);
      ck_assert_str_eq(copies_of(m.session), "");
      ck_assert(reed_tensor_dims(y)[1] == n && reed_tensor_strides(y)[1] == 3);
      assert_floats(y, 2, (double)n, 1);
      for (int64_t i = 3 * n; round && i < 18; i++) ck_assert_float_eq(element(clean, i), -7);
      reed_tensor_close(&clean);
      reed_tensor_close(&y);
      reed_tensor_close(&in);
      reed_tensor_close(&x);
    }
  ck_assert_int_eq(statistic_of(m.session, "hits"), 7);
  reed_tensor_close(&memory);
  model_close(&m);
}
END_TEST

/* Room along each axis in turn: one copy with strides, gaps untouched. */
START_TEST(room_along_an_inner_axis_is_written_with_strides) {
  model m = model_open(affine("f32[a,b,c]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(3, (int64_t[]){2, 3, 4}, 0), *y = NULL, *host = NULL, *dense = NULL;
  for (int32_t axis = 0; axis < 3; axis++) {
    int64_t dims[3] = {2, 3, 4};
    dims[axis] += 2;
    for (int again = 0; again < 2; again++) {
      reed_tensor *memory = memory_on(devices[_i], 3, dims);
      bind(&m, 0, memory, axis);
      run_model(&m, &x, &y);
      const char *copies = copies_of(m.session);
      ck_assert_int_eq(strstr(copies, _i ? "device-to-device output 96 y;" : "host-to-host output 96 y;") != NULL,
                       axis > 0);
      ck_assert_int_eq(reed_tensor_is_dense(y), axis == 0);
      ck_assert(reed_tensor_strides(y)[0] == dims[1] * dims[2] && reed_tensor_strides(y)[1] == dims[2]);
      ck_assert_int_eq(reed_tensor_to_host(memory, &host, NULL), REED_OK);
      const float *at = reed_tensor_data(host);
      for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t k = 0; k < dims[1]; k++)
          for (int64_t j = 0; j < dims[2]; j++) {
            bool inside = i < 2 && k < 3 && j < 4;
            ck_assert_float_eq(at[(i * dims[1] + k) * dims[2] + j], inside ? 2 * (float)((i * 3 + k) * 4 + j) + 1 : -7);
          }
      ck_assert_int_eq(reed_tensor_to_host(y, &dense, NULL), REED_OK);
      assert_floats(dense, 2, 0, 1);
      /* The strided output is an input like any other: copied once. */
      bind(&m, 0, NULL, -1);
      reed_tensor *z = NULL;
      run_model(&m, &y, &z);
      ck_assert_int_eq(strstr(copies_of(m.session), _i ? "device-to-device input 96 x;" : "host-to-host input 96 x;") !=
                           NULL,
                       axis > 0);
      assert_floats(z, 4, 0, 3);
      reed_tensor_close(&z);
      reed_tensor_close(&dense);
      reed_tensor_close(&host);
      reed_tensor_close(&y);
      reed_tensor_close(&memory);
    }
  }
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* A count that a kernel reports: its memory has room for the bound, or for the count only. */
START_TEST(a_counted_output_takes_bound_memory) {
  /* places is i64[1,count], its bound is the extent of x. */
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_node(b, "NonZero", "x", "places");
  build_output(b, "places", "i64[1,k]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  for (int64_t capacity = 3; capacity <= 8; capacity++) {
    reed_tensor *memory = NULL, *there = NULL, *x = floats(1, (int64_t[]){6}, 0), *y = NULL, *host = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_I64, 2, (int64_t[]){1, capacity}, &memory), REED_OK);
    there = on_device(memory, devices[_i]);
    bind(&m, 0, there, 1);
    for (int64_t count = 0; count <= 6; count++) {
      for (int64_t i = 0; i < 6; i++) ((float *)reed_tensor_data(x))[i] = i < count;
      reed_status status = reed_session_run(m.session, &x, 1, &y, 1, m.said);
      if (count > capacity) {
        ck_assert_int_eq(status, REED_ERROR_SHAPE);
        continue;
      }
      ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m.said));
      /* If the bound fits, the output is computed in place; otherwise it is computed elsewhere and copied. */
      ck_assert_int_eq(strstr(copies_of(m.session), "output") != NULL, capacity < 6 && count > 0);
      ck_assert_ptr_eq(reed_tensor_address(y), reed_tensor_address(there));
      ck_assert_int_eq(reed_tensor_dims(y)[1], count);
      ck_assert_int_eq(reed_tensor_to_host(y, &host, NULL), REED_OK);
      for (int64_t i = 0; i < count; i++) ck_assert_int_eq(((int64_t *)reed_tensor_data(host))[i], i);
      reed_tensor_close(&host);
      reed_tensor_close(&y);
    }
    reed_tensor_close(&there);
    reed_tensor_close(&memory);
    reed_tensor_close(&x);
  }
  model_close(&m);
}
END_TEST

/* With counts on the device an element-wise operator runs at the bound, in memory that has room for it. */
START_TEST(an_operator_at_the_bound_takes_bound_memory) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_node(b, "NonZero", "x", "places");
  build_node(b, "Neg", "places", "less");
  build_output(b, "less", "i64[1,k]");
  model m = model_open(b, devices[_i], REED_COUNTS_DEVICE);
  for (int64_t capacity = 4; capacity <= 8; capacity++) {
    reed_tensor *memory = NULL, *there = NULL, *x = floats(1, (int64_t[]){6}, 0), *y = NULL, *host = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_I64, 2, (int64_t[]){1, capacity}, &memory), REED_OK);
    there = on_device(memory, devices[_i]);
    bind(&m, 0, there, 1);
    for (int64_t count = 0; count <= 4; count++) {
      for (int64_t i = 0; i < 6; i++) ((float *)reed_tensor_data(x))[i] = i < count;
      run_model(&m, &x, &y);
      ck_assert_int_eq(strstr(copies_of(m.session), "output") != NULL, capacity < 6 && count > 0);
      ck_assert_ptr_eq(reed_tensor_address(y), reed_tensor_address(there));
      ck_assert_int_eq(reed_tensor_to_host(y, &host, NULL), REED_OK);
      for (int64_t i = 0; i < count; i++) ck_assert_int_eq(((int64_t *)reed_tensor_data(host))[i], -i);
      reed_tensor_close(&host);
      reed_tensor_close(&y);
    }
    reed_tensor_close(&there);
    reed_tensor_close(&memory);
    reed_tensor_close(&x);
  }
  model_close(&m);
}
END_TEST

/* ---- refusals ---- */

START_TEST(memory_that_does_not_fit_is_refused_and_left_alone) {
  const struct {
    int64_t dims[2];
    int32_t axis;
    const char *have;
  } wrong[] = {{{4, 2}, -1, "[4,2]"}, {{3, 3}, -1, "[3,3]"}, {{5, 3}, -1, "[5,3]"}, {{3, 3}, 0, "[3,3]"},
               {{4, 4}, 0, "[4,4]"},  {{4, 2}, 1, "[4,2]"},  {{2, 6}, -1, "[2,6]"}, {{12, 1}, 0, "[12,1]"},
               {{0, 3}, 0, "[0,3]"},  {{3, 4}, -1, "[3,4]"}};
  model m = model_open(affine("f32[n,k]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){4, 3}, 0), *y = NULL;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    for (int where = 0; where < 2; where++) {
      reed_tensor *memory = memory_on(where ? devices[_i] : "host", 2, wrong[i].dims);
      bind(&m, 0, memory, wrong[i].axis);
      for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(reed_session_run(m.session, &x, 1, &y, 1, m.said), REED_ERROR_SHAPE);
        const char *said = reed_diagnosis_message(m.said);
        ck_assert_msg(strstr(said, "'y'") && strstr(said, "[4,3]") && strstr(said, wrong[i].have), "%s", said);
        assert_untouched(memory);
      }
      bind(&m, 0, NULL, -1);
      run_model(&m, &x, &y);
      assert_floats(y, 2, 0, 1);
      reed_tensor_close(&y);
      reed_tensor_close(&memory);
    }
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

START_TEST(memory_of_another_dtype_or_axis_is_refused_at_once) {
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *memory = memory_on(devices[_i], 2, (int64_t[]){4, 3}), *other = NULL;
  ck_assert_int_eq(reed_tensor_open(REED_I32, 2, (int64_t[]){4, 3}, &other), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, other, -1, m.said), REED_ERROR_TYPE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "'y' is f32"));
  ck_assert_int_eq(reed_session_bind_output(m.session, 1, memory, -1, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, 2, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, -2, m.said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_session_keep_output(m.session, 1, true, m.said), REED_ERROR_ARGUMENT);
  reed_tensor_close(&other);
  reed_tensor_close(&memory);
  model_close(&m);
}
END_TEST

static reed_tensor *part_of(reed_tensor *t, uint64_t offset, int64_t n) {
  DLManagedTensorVersioned *view = NULL;
  reed_tensor *part = NULL;
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(t, false, &view, NULL), REED_OK);
  view->dl_tensor.byte_offset = offset;
  static int64_t shape[1];
  shape[0] = n;
  view->dl_tensor.ndim = 1;
  view->dl_tensor.shape = shape;
  view->dl_tensor.strides = NULL;
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &part, NULL), REED_OK);
  return part;
}

START_TEST(overlaps_are_refused) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_node(b, "Neg", "x", "y");
  build_node(b, "Abs", "x", "z");
  build_output(b, "y", "f32[n]");
  build_output(b, "z", "f32[n]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_tensor *all = memory_on(devices[_i], 1, (int64_t[]){12}), *low = part_of(all, 0, 4), *mid = part_of(all, 12, 4),
              *high = part_of(all, 32, 4), *out[2];
  bind(&m, 0, low, -1);
  ck_assert_int_eq(reed_session_bind_output(m.session, 1, mid, -1, m.said), REED_ERROR_ARGUMENT);
  ck_assert_msg(strstr(reed_diagnosis_message(m.said), "'z'") && strstr(reed_diagnosis_message(m.said), "'y'"), "%s",
                reed_diagnosis_message(m.said));
  bind(&m, 1, high, -1);
  bind(&m, 1, high, -1); /* the same binding again: memory does not overlap itself */
  reed_tensor *const inputs[] = {low, mid, high, all};
  for (int i = 0; i < 4; i++) {
    if (i == 3) continue;
    reed_status status = reed_session_run(m.session, &inputs[i], 1, out, 2, m.said);
    ck_assert_int_eq(status, REED_ERROR_ARGUMENT);
    ck_assert_msg(strstr(reed_diagnosis_message(m.said), "'x'"), "%s", reed_diagnosis_message(m.said));
    assert_untouched(all);
  }
  reed_tensor *x = floats(1, (int64_t[]){4}, 1);
  run_model(&m, &x, out);
  assert_floats(low, -1, 1, 0);
  assert_floats(high, 1, 1, 0);
  for (int64_t i = 4; i < 8; i++) ck_assert_float_eq(element(all, i), -7);
  for (int i = 0; i < 2; i++) reed_tensor_close(&out[i]);
  /* Ends that touch do not overlap. */
  reed_tensor *next = part_of(all, 16, 4);
  run_model(&m, &next, out);
  for (int64_t i = 0; i < 4; i++) ck_assert_float_eq(element(low, i), 7);
  for (int i = 0; i < 2; i++) reed_tensor_close(&out[i]);
  reed_tensor_close(&next);
  reed_tensor_close(&x);
  reed_tensor_close(&low);
  reed_tensor_close(&mid);
  reed_tensor_close(&high);
  reed_tensor_close(&all);
  model_close(&m);
}
END_TEST

/* Memory whose elements share addresses is refused; interleaved and reversed memory is not. */
START_TEST(strides_of_bound_memory) {
  const struct {
    int64_t strides[2], offset;
    bool ok;
  } cases[] = {{{0, 1}, 0, false}, {{1, 0}, 0, false}, {{1, 1}, 0, false},  {{2, 1}, 0, false}, {{3, 1}, 0, true},
               {{1, 2}, 0, true},  {{7, 2}, 0, true},  {{-3, 1}, 12, true}, {{1, -2}, 16, true}};
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){2, 3}, 0), *in = on_device(x, devices[_i]), *y = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reed_tensor *all = memory_on(devices[_i], 1, (int64_t[]){20}), *memory = NULL;
    int64_t shape[2] = {2, 3}, strides[2] = {cases[i].strides[0], cases[i].strides[1]};
    DLManagedTensorVersioned *view = NULL;
    ck_assert_int_eq(reed_tensor_to_dlpack_versioned(all, false, &view, NULL), REED_OK);
    view->dl_tensor.ndim = 2;
    view->dl_tensor.shape = shape;
    view->dl_tensor.strides = strides;
    view->dl_tensor.byte_offset = (uint64_t)cases[i].offset;
    ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &memory, NULL), REED_OK);
    reed_status status = reed_session_bind_output(m.session, 0, memory, -1, m.said);
    ck_assert_msg(status == (cases[i].ok ? REED_OK : REED_ERROR_ARGUMENT), "case %zu: %d", i, (int)status);
    run_model(&m, &in, &y);
    assert_floats(y, 2, 0, 1);
    if (cases[i].ok)
      for (int64_t k = 0; k < 6; k++)
        ck_assert_float_eq(element(all, cases[i].offset / 4 + k / 3 * strides[0] + k % 3 * strides[1]),
                           2 * (float)k + 1);
    int changed = 0;
    for (int64_t k = 0; k < 20; k++) changed += element(all, k) != -7;
    ck_assert_int_eq(changed, cases[i].ok ? 6 : 0);
    reed_tensor_close(&y);
    bind(&m, 0, NULL, -1);
    reed_tensor_close(&memory);
    reed_tensor_close(&all);
  }
  reed_tensor_close(&in);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* ---- outputs that are also an input, a constant, a view or a carried value ---- */

/* Output `same` is the input, y and z are one tensor, c is a constant. Each is bound alone, then all are bound, with
 * and without room. */
START_TEST(outputs_that_are_something_else_are_copied_into_place) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_f32(b, "two", "", (float[]){2});
  build_f32(b, "c", "3", (float[]){5, 6, 7});
  build_node(b, "Mul", "x,two", "y");
  build_node(b, "Identity", "x", "same");
  build_node(b, "Identity", "y", "z");
  build_node(b, "Identity", "c", "k");
  build_output(b, "y", "f32[n]");
  build_output(b, "z", "f32[n]");
  build_output(b, "same", "f32[n]");
  build_output(b, "k", "f32[3]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  static const double factor[] = {2, 2, 1, 1};
  for (int which = 0; which < 16; which++) {
    reed_tensor *memory[4] = {NULL}, *out[4];
    int64_t n = 3 + which % 3;
    for (size_t i = 0; i < 4; i++) {
      bool room = (which + (int)i) % 2;
      int64_t extent = (i == 3 ? 3 : n) + (room ? 2 : 0);
      if (which & 1 << i) memory[i] = memory_on(i % 2 ? "host" : devices[_i], 1, &extent);
      bind(&m, i, memory[i], memory[i] && room ? 0 : -1);
      ck_assert_int_eq(reed_session_keep_output(m.session, i, which & 4, m.said), REED_OK);
    }
    for (int again = 0; again < 2; again++) {
      reed_tensor *x = floats(1, &n, (float)again), *in = which & 8 ? on_device(x, devices[_i]) : reed_tensor_retain(x);
      run_model(&m, &in, out);
      for (size_t i = 0; i < 4; i++) {
        if (memory[i]) ck_assert_ptr_eq(reed_tensor_address(out[i]), reed_tensor_address(memory[i]));
        for (size_t k = 0; k < i; k++) ck_assert_ptr_ne(reed_tensor_address(out[i]), reed_tensor_address(out[k]));
        ck_assert_ptr_ne(reed_tensor_address(out[i]), reed_tensor_address(in));
        assert_floats(out[i], factor[i], i == 3 ? 5 : again, 0);
        reed_tensor_close(&out[i]);
      }
      reed_tensor_close(&in);
      reed_tensor_close(&x);
    }
    for (size_t i = 0; i < 4; i++) reed_tensor_close(&memory[i]);
  }
  model_close(&m);
}
END_TEST

/* The output is a view of the kernel's result: still computed in place. */
START_TEST(a_view_is_computed_in_place) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,4]");
  build_f32(b, "two", "", (float[]){2});
  build_i64(b, "flat", "2", (int64_t[]){-1, 2});
  build_node(b, "Mul", "x,two", "m");
  build_node(b, "Reshape", "m,flat", "v");
  build_output(b, "v", "f32[k,2]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){3, 4}, 0), *in = on_device(x, devices[_i]), *y = NULL,
              *memory = memory_on(devices[_i], 2, (int64_t[]){9, 2});
  bind(&m, 0, memory, 0);
  for (int i = 0; i < 2; i++) {
    run_model(&m, &in, &y);
    ck_assert_str_eq(copies_of(m.session), "");
    ck_assert(reed_tensor_dims(y)[0] == 6 && reed_tensor_dims(y)[1] == 2);
    assert_floats(y, 2, 0, 0);
    ck_assert_float_eq(element(memory, 12), -7);
    reed_tensor_close(&y);
  }
  reed_tensor_close(&memory);
  reed_tensor_close(&in);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* A Loop computes a new tensor each round; the rounds never write over a tensor that is still read. */
START_TEST(the_result_of_a_loop_is_bound) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "v", "f32[n]");
  build_node(body, "Identity", "c", "go");
  build_node(body, "Neg", "v", "u");
  build_node(body, "Sub", "v,u", "w");
  build_output(body, "go", "bool[]");
  build_output(body, "w", "f32[n]");
  build_input(b, "x", "f32[n]");
  build_input(b, "times", "i64[]");
  build_graph_attr(b, build_node(b, "Loop", "times,,x", "last"), "body", body);
  build_output(b, "last", "f32[n]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(1, (int64_t[]){5}, 1), *times = NULL, *in[2], *y = NULL,
              *memory = memory_on(devices[_i], 1, (int64_t[]){7});
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &times), REED_OK);
  in[0] = x, in[1] = times;
  bind(&m, 0, memory, 0);
  for (int64_t n = 0; n < 6; n++) {
    *(int64_t *)reed_tensor_data(times) = n;
    run_model(&m, in, &y);
    ck_assert_ptr_eq(reed_tensor_address(y), reed_tensor_address(memory));
    assert_floats(y, (double)(1 << n), 1, 0);
    ck_assert_float_eq(element(memory, 5), -7);
    reed_tensor_close(&y);
  }
  reed_tensor_close(&memory);
  reed_tensor_close(&times);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* Memory of a device that the session does not have, and of the host for a device's session: written at the end. */
START_TEST(memory_elsewhere_is_filled_by_a_copy) {
  const char *const on[] = {"sim:5", "host", "sim"};
  for (size_t k = 0; k < 3; k++) {
    model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
    reed_tensor *x = floats(2, (int64_t[]){4, 3}, 0), *y = NULL, *memory = memory_on(on[k], 2, (int64_t[]){4, 5});
    bind(&m, 0, memory, 1);
    for (int again = 0; again < 2; again++) {
      run_model(&m, &x, &y);
      ck_assert_str_eq(reed_tensor_device(y), reed_tensor_device(memory));
      assert_floats(y, 2, 0, 1);
      for (int64_t i = 0; i < 4; i++) ck_assert_float_eq(element(memory, 5 * i + 4), -7);
      reed_tensor_close(&y);
    }
    reed_tensor_close(&memory);
    reed_tensor_close(&x);
    model_close(&m);
  }
}
END_TEST

/* The last output of a run is bound as the memory of the next one, in turns, for a state that is carried on. */
START_TEST(a_state_goes_back_and_forth_between_two_memories) {
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_tensor *state = floats(2, (int64_t[]){2, 3}, 0), *y = NULL,
              *memory[2] = {memory_on(devices[_i], 2, (int64_t[]){2, 3}), memory_on(devices[_i], 2, (int64_t[]){2, 3})};
  double a = 1, c = 0;
  for (int i = 0; i < 9; i++) {
    bind(&m, 0, memory[i % 2], -1);
    run_model(&m, &state, &y);
    if (i) ck_assert_str_eq(copies_of(m.session), "");
    a *= 2, c = 2 * c + 1;
    reed_tensor_close(&state);
    state = y;
    assert_floats(state, a, 0, c);
  }
  reed_tensor_close(&state);
  reed_tensor_close(&memory[0]);
  reed_tensor_close(&memory[1]);
  model_close(&m);
}
END_TEST

/* A run that is cancelled leaves the session and its bound memory usable. */
START_TEST(a_run_after_a_cancelled_one_writes_the_memory) {
  model m = model_open(affine("f32[n,3]"), devices[_i], REED_COUNTS_HOST);
  reed_session *session = NULL;
  reed_session_options options = {.device = devices[_i], .cancel_at_kernel = 1};
  ck_assert_int_eq(reed_session_open(m.program, &options, &session, m.said), REED_OK);
  reed_tensor *x = floats(2, (int64_t[]){4, 3}, 0), *y = NULL, *memory = memory_on(devices[_i], 2, (int64_t[]){4, 3});
  ck_assert_int_eq(reed_session_bind_output(session, 0, memory, -1, m.said), REED_OK);
  reed_status status = reed_session_run(session, &x, 1, &y, 1, m.said);
  if (status == REED_OK) reed_tensor_close(&y); /* the last kernel may have ended first */
  else ck_assert_int_eq(status, REED_ERROR_CANCELLED);
  run_session(&m, session, &x, &y);
  ck_assert_ptr_eq(reed_tensor_address(y), reed_tensor_address(memory));
  assert_floats(memory, 2, 0, 1);
  reed_tensor_close(&y);
  reed_tensor_close(&memory);
  reed_tensor_close(&x);
  reed_session_close(&session);
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("binding");
  tcase_add_loop_test(cases, an_output_is_computed_or_read_back_in_bound_memory, 0, N_DEVICES);
  tcase_add_loop_test(cases, bound_memory_outlives_the_session, 0, N_DEVICES);
  tcase_add_loop_test(cases, room_along_the_outermost_axis_costs_no_copy, 0, N_DEVICES);
  tcase_add_loop_test(cases, room_along_an_inner_axis_is_written_with_strides, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_counted_output_takes_bound_memory, 0, N_DEVICES);
  tcase_add_loop_test(cases, an_operator_at_the_bound_takes_bound_memory, 0, N_DEVICES);
  tcase_add_loop_test(cases, memory_that_does_not_fit_is_refused_and_left_alone, 0, N_DEVICES);
  tcase_add_loop_test(cases, memory_of_another_dtype_or_axis_is_refused_at_once, 0, N_DEVICES);
  tcase_add_loop_test(cases, strides_of_bound_memory, 0, N_DEVICES);
  tcase_add_loop_test(cases, overlaps_are_refused, 0, N_DEVICES);
  tcase_add_loop_test(cases, outputs_that_are_something_else_are_copied_into_place, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_view_is_computed_in_place, 0, N_DEVICES);
  tcase_add_loop_test(cases, the_result_of_a_loop_is_bound, 0, N_DEVICES);
  tcase_add_loop_test(cases, memory_elsewhere_is_filled_by_a_copy, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_state_goes_back_and_forth_between_two_memories, 0, N_DEVICES);
  tcase_add_loop_test(cases, a_run_after_a_cancelled_one_writes_the_memory, 0, N_DEVICES);
  return run_suite(cases, "binding");
}
