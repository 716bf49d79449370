/* Graphs of a device: work is recorded without running, and replayed any number of times. A call that a graph does not
 * allow is refused and spoils the graph. */
#include "ops/kernel.h"
#include "tests/device/device_test.h"
#include "tests/suite.h"

reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? NULL : NULL; } /* stands for ops/cpu */

static both_queues q;
static int64_t *slot;
static void *a, *b;
static device_error fault;

static void open_all(const char *name) {
  q = open_both(name);
  slot = slot_of(&q, 1);
  a = memory_of(&q, 8);
  b = memory_of(&q, 8);
}

static void close_all(void) {
  q.on->release(q.dev, a, q.compute);
  if (b) q.on->release(q.dev, b, q.compute);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}

static void put(int64_t value) {
  *slot = value;
  ck_assert_int_eq(q.on->copy_in(q.compute, a, slot, 8, NULL, q.said), REED_OK);
  ck_assert_int_eq(wait_both(&q, &fault), REED_OK);
}

static int64_t get(void) {
  ck_assert_int_eq(q.on->copy_out(q.compute, slot, a, 8, NULL, q.said), REED_OK);
  ck_assert_int_eq(wait_both(&q, &fault), REED_OK);
  return *slot;
}

/* b = step(a); a = b */
static device_graph *recorded(void) {
  device_graph *graph = NULL;
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_OK);
  ck_assert_int_eq(launch_step(&q, q.compute, a, b, 5), REED_OK);
  ck_assert_int_eq(q.on->copy_within(q.compute, a, b, 8, NULL, q.said), REED_OK);
  ck_assert_msg(q.on->end_record(q.compute, &graph, q.said) == REED_OK, "%s", reed_diagnosis_message(q.said));
  return graph;
}

static const char *const names[] = {"sim", "sim?late=1", "sim?seed=7&late=1", "sim?delay_us=100&poison=1"};

START_TEST(a_graph_is_noted_and_replayed) {
  open_all(names[_i]);
  put(1);
  device_graph *graph = recorded();
  ck_assert_int_eq(get(), 1); /* nothing ran */
  for (int i = 0; i < 3; i++) ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(get(), 15);
  put(10);
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(launch_step(&q, q.compute, a, a, 0), REED_OK); /* replays run in order with other work */
  ck_assert_int_eq(get(), 43);
  q.on->drop(q.dev, graph);
  close_all();
}
END_TEST

START_TEST(another_thread_s_session_is_not_in_the_way) {
  open_all("sim");
  both_queues other = open_both("sim"); /* the same device */
  put(1);
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_OK);
  void *c = slot_of(&other, 1);
  int64_t *far = c;
  *far = 3;
  ck_assert_int_eq(other.on->copy_in(other.copies, b, far, 8, NULL, other.said), REED_OK);
  ck_assert_int_eq(wait_both(&other, &fault), REED_OK); /* another queue may be waited for */
  ck_assert_int_eq(launch_step(&q, q.compute, a, a, 0), REED_OK);
  device_graph *graph = NULL;
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_OK);
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(get(), 3);
  q.on->drop(q.dev, graph);
  other.on->release_pinned(other.dev, far);
  close_both(&other);
  close_all();
}
END_TEST

static reed_status run_fault(const void *state, const reed_kernel_buffers *buffers) {
  (void)state;
  return *(const int64_t *)buffers->inputs[0] == 3 ? reed_kernel_fault(buffers, REED_FAULT_INDEX, 0, 1, 9, 4) : REED_OK;
}

START_TEST(a_failure_in_a_graph_has_its_launch_s_number) {
  open_all("sim");
  device_graph *graph = NULL;
  reed_kernel failing = {.run = run_fault};
  const void *input = a;
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_OK);
  ck_assert_int_eq(launch_step(&q, q.compute, a, a, 30), REED_OK);
  ck_assert_int_eq(q.on->launch(q.compute, &failing, &(reed_kernel_buffers){.inputs = &input}, 1, 0, 31, NULL, q.said),
                   REED_OK);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_OK);
  put(1);
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(wait_both(&q, &fault), REED_ERROR_VALUE);
  ck_assert(fault.launch == 31 && fault.fault.value == 9);
  put(4);
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(get(), 9);
  q.on->drop(q.dev, graph);
  close_all();
}
END_TEST

/* Does the forbidden action number `what` while a graph is recorded. */
static reed_status forbidden(int what, device_event *event) {
  void *data = NULL;
  device_graph *graph = NULL;
  switch (what) {
    case 0: return q.on->allocate(q.dev, 8, 0, &data, q.said);
    case 1: q.on->release(q.dev, b, q.compute); return b = NULL, REED_ERROR_DEVICE;
    case 2: return q.on->synchronize(q.compute, &fault, q.said);
    case 3: return q.on->copy_in(q.compute, a, slot, 8, NULL, q.said);
    case 4: return q.on->copy_out(q.compute, slot, a, 8, NULL, q.said);
    case 5: return q.on->event_record(q.compute, event, q.said);
    case 6: return q.on->event_wait(q.compute, event, q.said);
    case 7: return q.on->extend(q.dev, a, 9) ? REED_OK : REED_ERROR_DEVICE;
    default: return q.on->replay(q.compute, graph, NULL, q.said);
  }
}

START_TEST(what_a_graph_must_not_do_is_refused) {
  static const char *const said[] = {
      "allocated memory", "released memory", "synchronized", "copied between the host", "copied between the host",
      "used an event",    "used an event",   "grew memory",  "replayed a graph"};
  open_all("sim");
  device_event *event = NULL;
  device_graph *graph = NULL;
  ck_assert_int_eq(q.on->event_open(q.dev, &event, q.said), REED_OK);
  ck_assert_int_eq(q.on->event_record(q.compute, event, q.said), REED_OK);
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_OK);
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_ERROR_DEVICE); /* twice */
  ck_assert_int_eq(launch_step(&q, q.compute, a, a, 0), REED_OK);
  ck_assert_int_eq(forbidden(_i, event), REED_ERROR_DEVICE);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_ERROR_DEVICE);
  ck_assert_msg(strstr(reed_diagnosis_message(q.said), said[_i]) != NULL, "%s", reed_diagnosis_message(q.said));
  ck_assert_ptr_null(graph);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_ERROR_DEVICE); /* the recording has ended */
  put(2);                                                                           /* the queue works again */
  ck_assert_int_eq(get(), 2);
  q.on->event_close(q.dev, event);
  close_all();
}
END_TEST

START_TEST(a_graph_whose_memory_went_is_not_replayed) {
  open_all("sim");
  put(1);
  device_graph *graph = recorded();
  void *was = b;
  q.on->release(q.dev, b, q.compute);
  ck_assert_int_eq(wait_both(&q, &fault), REED_OK);
  b = memory_of(&q, 8); /* perhaps at the same address, but another block */
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(q.said), "was released after it was recorded"));
  ck_assert_ptr_nonnull(was);
  ck_assert_int_eq(get(), 1);
  q.on->drop(q.dev, graph);
  close_all();
}
END_TEST

START_TEST(a_block_of_a_graph_may_grow) {
  open_all("sim");
  void *big = NULL;
  ck_assert_int_eq(q.on->allocate(q.dev, 8, 1 << 20, &big, q.said), REED_OK);
  device_graph *graph = NULL;
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_OK);
  ck_assert_int_eq(launch_step(&q, q.compute, a, big, 0), REED_OK);
  ck_assert_int_eq(q.on->copy_within(q.compute, a, big, 8, NULL, q.said), REED_OK);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_OK);
  ck_assert(q.on->extend(q.dev, big, 1 << 20));
  put(6);
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_OK);
  ck_assert_int_eq(get(), 13);
  q.on->drop(q.dev, graph);
  q.on->release(q.dev, big, q.compute);
  close_all();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("graph");
  TCase *tc = tcase_create("graph");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, a_graph_is_noted_and_replayed, 0, sizeof names / sizeof *names);
  tcase_add_test(tc, another_thread_s_session_is_not_in_the_way);
  tcase_add_test(tc, a_failure_in_a_graph_has_its_launch_s_number);
  tcase_add_loop_test(tc, what_a_graph_must_not_do_is_refused, 0, 9);
  tcase_add_test(tc, a_graph_whose_memory_went_is_not_replayed);
  tcase_add_test(tc, a_block_of_a_graph_may_grow);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
