/* The fake driver's rules for streams, events and captures. Its other rules: test_fake.c. */
#include <uv.h>

#include "tests/device/cuda/fake_test.h"

/* ---- captures ---- */

static void allocate_elsewhere(void *mode) {
  void *data = NULL;
  ck_assert_int_eq(cu.context_push(context), CU_SUCCESS);
  cu_result result = cu.host_allocate(&data, 64, CU_HOST_PORTABLE | CU_HOST_MAPPED);
  ck_assert_int_eq(result, *(int *)mode == CU_CAPTURE_GLOBAL ? CU_CAPTURE_UNSUPPORTED : CU_SUCCESS);
  if (!result) ck_assert_int_eq(cu.host_free(data), CU_SUCCESS);
  cu_context own;
  ck_assert_int_eq(cu.context_pop(&own), CU_SUCCESS);
}

/* An allocation of another thread breaks a capture in global mode, and none in thread-local mode; one of the capturing
 * thread breaks both. */
START_TEST(allocations_break_captures) {
  open_driver("");
  int mode = _i % 2 ? CU_CAPTURE_THREAD : CU_CAPTURE_GLOBAL;
  bool here = _i >= 2, broken = here || mode == CU_CAPTURE_GLOBAL;
  cu_stream stream = stream_of(CU_NON_BLOCKING);
  cu_graph graph = NULL;
  void *data = NULL;
  ck_assert_int_eq(cu.capture_begin(stream, mode), CU_SUCCESS);
  if (here) {
    ck_assert_int_eq(cu.host_allocate(&data, 64, CU_HOST_PORTABLE | CU_HOST_MAPPED), CU_CAPTURE_UNSUPPORTED);
  } else {
    uv_thread_t thread;
    ck_assert_int_eq(uv_thread_create(&thread, allocate_elsewhere, &mode), 0);
    uv_thread_join(&thread);
  }
  ck_assert_int_eq(cu.capture_end(stream, &graph), broken ? CU_CAPTURE_INVALIDATED : CU_SUCCESS);
  if (graph) ck_assert_int_eq(cu.graph_destroy(graph), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  close_driver();
}
END_TEST

/* Questions, waits and releases of the capturing thread break its capture, though they concern other objects. */
START_TEST(questions_waits_and_releases_break_captures) {
  open_driver("");
  cu_stream stream = stream_of(CU_NON_BLOCKING), other = stream_of(CU_NON_BLOCKING);
  cu_graph graph = NULL;
  cu_event event;
  void *data = NULL;
  cu_result result = CU_SUCCESS;
  ck_assert_int_eq(cu.event_create(&event, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.host_allocate(&data, 64, CU_HOST_PORTABLE | CU_HOST_MAPPED), CU_SUCCESS);
  ck_assert_int_eq(cu.capture_begin(stream, CU_CAPTURE_THREAD), CU_SUCCESS);
  switch (_i) {
    case 0: result = cu.event_query(event); break;
    case 1: result = cu.event_synchronize(event); break;
    case 2: result = cu.stream_synchronize(other); break;
    default: result = cu.host_free(data);
  }
  ck_assert_int_eq(result, CU_CAPTURE_UNSUPPORTED);
  ck_assert_int_eq(cu.capture_end(stream, &graph), CU_CAPTURE_INVALIDATED);
  ck_assert_int_eq(cu.host_free(data), CU_SUCCESS); /* the refused call has done nothing */
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(other), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  close_driver();
}
END_TEST

/* A stream that is captured takes no copy from or to the host, event, wait for an outside event, or graph, and nobody
 * waits for it; another thread does not end the capture. */
static void end_elsewhere(void *stream) {
  cu_graph graph;
  cu_context own;
  ck_assert_int_eq(cu.context_push(context), CU_SUCCESS);
  ck_assert_int_eq(cu.capture_end(stream, &graph), CU_CAPTURE_WRONG_THREAD);
  ck_assert_int_eq(cu.context_pop(&own), CU_SUCCESS);
}

START_TEST(a_captured_stream_refuses_what_a_graph_cannot_hold) {
  open_driver("");
  cu_stream stream = stream_of(CU_NON_BLOCKING);
  cu_graph graph;
  cu_graph_exec exec;
  cu_event event;
  cu_pool pool;
  cu_pointer data;
  char bytes[64] = {0};
  const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}};
  ck_assert_int_eq(cu.capture_end(stream, &graph), CU_INVALID_VALUE);
  check_said(CU_INVALID_VALUE, "not captured");
  ck_assert_int_eq(cu.event_create(&event, CU_EVENT_NO_TIMING), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_create(&pool, &properties), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_allocate(&data, 64, pool, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(event, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.capture_begin(stream, CU_CAPTURE_THREAD), CU_SUCCESS);
  ck_assert_int_eq(cu.capture_end(stream, &graph), CU_SUCCESS);
  ck_assert_int_eq(cu.graph_instantiate(&exec, graph, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.graph_destroy(graph), CU_SUCCESS);
  for (int call = 0; call < 6; call++) {
    ck_assert_int_eq(cu.capture_begin(stream, CU_CAPTURE_THREAD), CU_SUCCESS);
    const cu_result result = call == 0   ? cu.copy_in(data, bytes, 64, stream)
                             : call == 1 ? cu.copy_out(bytes, data, 64, stream)
                             : call == 2 ? cu.stream_synchronize(stream)
                             : call == 3 ? cu.event_record(event, stream)
                             : call == 4 ? cu.graph_launch(exec, stream)
                                         : cu.stream_wait(stream, event, 0);
    ck_assert_msg(result == (call < 5 ? CU_CAPTURE_UNSUPPORTED : CU_CAPTURE_ISOLATION), "call %d: %d", call, result);
    uv_thread_t thread;
    ck_assert_int_eq(uv_thread_create(&thread, end_elsewhere, stream), 0);
    uv_thread_join(&thread);
    const bool breaks = call < 3;
    ck_assert_int_eq(cu.capture_end(stream, &graph), breaks ? CU_CAPTURE_INVALIDATED : CU_SUCCESS);
    if (!breaks) ck_assert_int_eq(cu.graph_destroy(graph), CU_SUCCESS);
  }
  ck_assert_int_eq(cu.graph_exec_destroy(exec), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_free(data, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_destroy(pool), CU_SUCCESS);
  close_driver();
}
END_TEST

/* ---- default streams ---- */

/* Handles of the default streams (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). */
#define LEGACY ((cu_stream)1)
#define PER_THREAD ((cu_stream)2)

/* Work on the legacy default stream waits for blocking streams, so it breaks their captures and is refused with error
 * 906; captures of non-blocking streams are left alone. */
START_TEST(the_default_stream_breaks_captures_of_blocking_streams) {
  open_driver("");
  cu_stream stream = stream_of(_i == 1 ? CU_NON_BLOCKING : 0), captured = _i == 2 ? PER_THREAD : stream;
  const bool breaks = _i != 1;
  cu_graph graph = NULL;
  cu_event event;
  ck_assert_int_eq(cu.event_create(&event, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.capture_begin(captured, CU_CAPTURE_THREAD), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(event, LEGACY), breaks ? CU_CAPTURE_IMPLICIT : CU_SUCCESS);
  if (breaks) check_said(CU_CAPTURE_IMPLICIT, "would wait for a blocking stream that is captured");
  ck_assert_int_eq(cu.capture_end(captured, &graph), breaks ? CU_CAPTURE_INVALIDATED : CU_SUCCESS);
  if (graph) ck_assert_int_eq(cu.graph_destroy(graph), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(event, LEGACY), CU_SUCCESS); /* the capture is over */
  ck_assert_int_eq(cu.capture_begin(LEGACY, CU_CAPTURE_THREAD), CU_CAPTURE_UNSUPPORTED);
  ck_assert_int_eq(cu.event_record(event, NULL), CU_INVALID_HANDLE); /* the module's own work names no default stream */
  ck_assert_int_eq(cu.stream_synchronize(LEGACY), CU_SUCCESS);
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  close_driver();
}
END_TEST

/* Two fills of one block and a copy out of it, on three streams in this order: blocking (0), the legacy default stream
 * and a stream of `flags`. True: the copy has the second fill's bytes. */
static bool in_order_of_calls(int seed, cu_stream second, unsigned flags) {
  char options[32], zeros[64] = {0}, ones[64], got[64];
  memset(ones, 1, sizeof ones);
  snprintf(options, sizeof options, "late=1&seed=%d", seed);
  open_driver(options);
  cu_stream first = stream_of(flags), third = stream_of(flags);
  cu_pool pool;
  cu_pointer data;
  const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}};
  ck_assert_int_eq(cu.pool_create(&pool, &properties), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_allocate(&data, 64, pool, first), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(first), CU_SUCCESS);
  for (int i = 0; i < 5; i++) ck_assert_int_eq(cu.copy_in(data, zeros, 64, first), CU_SUCCESS);
  ck_assert_int_eq(cu.copy_in(data, ones, 64, second), CU_SUCCESS);
  ck_assert_int_eq(cu.copy_out(got, data, 64, third), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(first), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(second), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_free(data, first), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(first), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(third), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_destroy(pool), CU_SUCCESS);
  close_driver();
  return memcmp(got, ones, 64) == 0;
}

START_TEST(the_default_stream_waits_for_blocking_streams_only) {
  int wrong[3] = {0};
  for (int seed = 1; seed <= 12; seed++) {
    wrong[0] += !in_order_of_calls(seed, LEGACY, 0);
    wrong[1] += !in_order_of_calls(seed, LEGACY, CU_NON_BLOCKING);
    wrong[2] += !in_order_of_calls(seed, PER_THREAD, 0);
  }
  ck_assert_int_eq(wrong[0], 0);
  ck_assert_int_gt(wrong[1], 0);
  ck_assert_int_gt(wrong[2], 0);
}
END_TEST

/* ---- order ---- */

/* Memory of a pool belongs to the stream's order: work of another stream that does not wait for the allocation is an
 * error. */
START_TEST(memory_is_used_after_its_allocation_in_stream_order) {
  int wrong = 0;
  for (int seed = 1; seed <= 8; seed++) {
    char options[32];
    snprintf(options, sizeof options, "late=1&seed=%d", seed);
    open_driver(options);
    cu_stream giver = stream_of(CU_NON_BLOCKING), user = stream_of(CU_NON_BLOCKING);
    cu_event given;
    cu_pool pool;
    cu_pointer data;
    const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}};
    ck_assert_int_eq(cu.event_create(&given, CU_EVENT_NO_TIMING), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_create(&pool, &properties), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_wait(giver, given, 0), CU_SUCCESS); /* never recorded: delays nothing */
    if (_i) {                                                      /* the allocation comes after the copy */
      ck_assert_int_eq(cu.pool_allocate(&data, 64, pool, giver), CU_SUCCESS);
      ck_assert_int_eq(cu.event_record(given, giver), CU_SUCCESS);
      ck_assert_int_eq(cu.stream_wait(user, given, 0), CU_SUCCESS);
    } else { /* the allocation waits for work that is enqueued after the copy */
      ck_assert_int_eq(cu.event_record(given, user), CU_SUCCESS);
      ck_assert_int_eq(cu.stream_wait(giver, given, 0), CU_SUCCESS);
      ck_assert_int_eq(cu.pool_allocate(&data, 64, pool, giver), CU_SUCCESS);
    }
    char zeros[64] = {0};
    ck_assert_int_eq(cu.copy_in(data, zeros, 64, user), CU_SUCCESS);
    wrong += cu.stream_synchronize(user) != CU_SUCCESS;
    ck_assert_int_eq(cu.pool_free(data, giver), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_destroy(giver), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_destroy(user), CU_SUCCESS);
    ck_assert_int_eq(cu.event_destroy(given), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_destroy(pool), CU_SUCCESS);
    close_driver();
  }
  if (_i) ck_assert_int_eq(wrong, 0);
  else ck_assert_int_gt(wrong, 0);
}
END_TEST

/* A wait is for the record before it: another stream's later record of the event, which may run first, ends no wait. */
START_TEST(a_wait_is_for_the_record_before_it) {
  for (int seed = 1; seed <= 16; seed++) {
    char options[32];
    snprintf(options, sizeof options, "late=1&seed=%d", seed);
    open_driver(options);
    cu_stream giver = stream_of(CU_NON_BLOCKING), user = stream_of(CU_NON_BLOCKING), other = stream_of(CU_NON_BLOCKING);
    cu_event given, returned;
    cu_pool pool;
    cu_pointer data;
    const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}};
    ck_assert_int_eq(cu.event_create(&given, CU_EVENT_NO_TIMING), CU_SUCCESS);
    ck_assert_int_eq(cu.event_create(&returned, CU_EVENT_NO_TIMING), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_create(&pool, &properties), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_allocate(&data, 64, pool, giver), CU_SUCCESS);
    ck_assert_int_eq(cu.event_record(given, giver), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_wait(user, given, 0), CU_SUCCESS);
    char zeros[64] = {0};
    for (int i = 0; i < 8; i++) ck_assert_int_eq(cu.copy_in(data, zeros, 64, user), CU_SUCCESS);
    ck_assert_int_eq(cu.event_record(returned, user), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_wait(giver, returned, 0), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_free(data, giver), CU_SUCCESS);
    ck_assert_int_eq(cu.event_record(returned, other), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_synchronize(other), CU_SUCCESS);
    ck_assert_int_eq(cu.event_query(returned), CU_SUCCESS); /* asks for the latest record */
    ck_assert_int_eq(cu.stream_synchronize(giver), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_synchronize(user), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_destroy(giver), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_destroy(user), CU_SUCCESS);
    ck_assert_int_eq(cu.stream_destroy(other), CU_SUCCESS);
    ck_assert_int_eq(cu.event_destroy(given), CU_SUCCESS);
    ck_assert_int_eq(cu.event_destroy(returned), CU_SUCCESS);
    ck_assert_int_eq(cu.pool_destroy(pool), CU_SUCCESS);
    close_driver();
  }
}
END_TEST

/* ---- handles ---- */

/* A handle of another context is refused: an event of the second card for a stream of the first one, and a stream of
 * another opening of the driver. */
START_TEST(handles_of_another_context_are_refused) {
  open_driver("");
  cuda_driver second;
  cu_device other_card;
  cu_context other, own;
  cu_stream stream = stream_of(CU_NON_BLOCKING), foreign;
  cu_event event, of_other_card;
  ck_assert_int_eq(cu.event_create(&event, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.device_get(&other_card, cu.first_ordinal + 1), CU_SUCCESS);
  ck_assert_int_eq(cu.context_retain(&other, other_card), CU_SUCCESS);
  ck_assert_int_eq(cu.context_push(other), CU_SUCCESS);
  ck_assert_int_eq(cu.event_create(&of_other_card, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.context_pop(&own), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(of_other_card, stream), CU_INVALID_HANDLE);
  check_said(CU_INVALID_HANDLE, "event and stream are of two contexts");
  ck_assert_int_eq(cu.stream_wait(stream, of_other_card, 0), CU_SUCCESS); /* never recorded */
  ck_assert_int_eq(cu.event_destroy(of_other_card), CU_SUCCESS);
  ck_assert_int_eq(cu.context_release(other_card), CU_SUCCESS);

  ck_assert_msg(cuda_driver_open("", &second, &said) == REED_OK, "%s", said.message);
  ck_assert_int_eq(second.device_get(&other_card, second.first_ordinal), CU_SUCCESS);
  ck_assert_int_eq(second.context_retain(&other, other_card), CU_SUCCESS);
  ck_assert_int_eq(second.context_push(other), CU_SUCCESS);
  ck_assert_int_eq(second.stream_create(&foreign, CU_NON_BLOCKING), CU_SUCCESS);
  ck_assert_int_eq(second.context_pop(&own), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(event, foreign), CU_INVALID_HANDLE);
  check_said(CU_INVALID_HANDLE, "cuEventRecord: the stream is of another context");
  ck_assert_int_eq(cu.stream_synchronize(foreign), CU_INVALID_HANDLE);
  ck_assert_int_eq(second.context_push(other), CU_SUCCESS);
  ck_assert_int_eq(second.stream_destroy(foreign), CU_SUCCESS);
  ck_assert_int_eq(second.context_pop(&own), CU_SUCCESS);
  ck_assert_int_eq(second.context_release(other_card), CU_SUCCESS);
  cuda_driver_close(&second);

  ck_assert_int_eq(cu.event_record(event, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  close_driver();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tests = tcase_create("fake_streams");
  tcase_add_loop_test(tests, questions_waits_and_releases_break_captures, 0, 4);
  tcase_add_loop_test(tests, allocations_break_captures, 0, 4);
  tcase_add_test(tests, a_captured_stream_refuses_what_a_graph_cannot_hold);
  tcase_add_loop_test(tests, the_default_stream_breaks_captures_of_blocking_streams, 0, 3);
  tcase_add_test(tests, the_default_stream_waits_for_blocking_streams_only);
  tcase_add_loop_test(tests, memory_is_used_after_its_allocation_in_stream_order, 0, 2);
  tcase_add_test(tests, a_wait_is_for_the_record_before_it);
  tcase_add_test(tests, handles_of_another_context_are_refused);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
