/* Graphs of the CUDA module over the fake driver: the cases of sim/test_graph.c. Graphs of sessions:
 * tests/whole/test_graphs.c. */
#include <uv.h>

#include "tests/device/cuda/cuda_test.h"

static both_queues q;
static float *slot;
static void *a, *b;
static device_error fault;
static reed_kernel add;

static void open_all(const char *name) {
  q = open_both(name);
  slot = floats_of(&q, 1);
  a = memory_of(&q, 4);
  b = memory_of(&q, 4);
  add = (reed_kernel){0};
  MUST(prepare_add(q.dev, 1, &add, q.said));
}

static void close_all(void) {
  q.on->release(q.dev, a, q.compute);
  if (b) q.on->release(q.dev, b, q.compute);
  q.on->release_pinned(q.dev, slot);
  add.free(add.state);
  close_both(&q);
}

static void put(float value) {
  *slot = value;
  MUST(q.on->copy_in(q.compute, a, slot, 4, NULL, q.said));
  MUST(wait_both(&q, &fault));
}

static float get(void) {
  MUST(q.on->copy_out(q.compute, slot, a, 4, NULL, q.said));
  MUST(wait_both(&q, &fault));
  return *slot;
}

/* b = a + a; a = b */
static device_graph *recorded(void) {
  device_graph *graph = NULL;
  MUST(q.on->record(q.compute, q.said));
  MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
  MUST(q.on->copy_within(q.compute, a, b, 4, NULL, q.said));
  MUST(q.on->end_record(q.compute, &graph, q.said));
  return graph;
}

static const char *const names[] = {"cuda-emulated", "cuda-emulated?late=1", "cuda-emulated?seed=7&late=1&order=1"};
enum { N_NAMES = sizeof names / sizeof *names };

START_TEST(a_graph_is_noted_and_replayed) {
  open_all(names[_i]);
  put(1);
  device_graph *graph = recorded();
  ck_assert_float_eq(get(), 1); /* nothing ran */
  for (int i = 0; i < 3; i++) MUST(q.on->replay(q.compute, graph, NULL, q.said));
  ck_assert_float_eq(get(), 8);
  put(10);
  MUST(q.on->replay(q.compute, graph, NULL, q.said));
  MUST(launch_add(&q, q.compute, &add, b, b, a, NULL)); /* replays run in order with other work */
  ck_assert_float_eq(get(), 40);
  MUST(q.on->replay(q.compute, graph, NULL, q.said));
  MUST(wait_both(&q, &fault));
  q.on->drop(q.dev, graph);
  close_all();
}
END_TEST

/* Another thread allocates, copies and waits while a graph is recorded: the capture is of one thread. */
static void other_session(void *said) {
  (void)said;
  both_queues other = open_both("cuda-emulated?late=1"); /* the same device */
  void *mine = memory_of(&other, 4096), *arena = NULL;
  float *far = floats_of(&other, 1);
  ck_assert_int_eq(other.on->allocate(other.dev, 64, 1 << 20, &arena, other.said), REED_OK);
  *far = 3;
  ck_assert_int_eq(other.on->copy_in(other.copies, mine, far, 4, NULL, other.said), REED_OK);
  ck_assert_int_eq(wait_both(&other, &fault), REED_OK);
  other.on->release(other.dev, mine, other.copies);
  other.on->release(other.dev, arena, other.copies);
  other.on->release_pinned(other.dev, far);
  close_both(&other);
}

START_TEST(another_thread_s_session_is_not_in_the_way) {
  open_all("cuda-emulated?late=1");
  put(3);
  MUST(q.on->record(q.compute, q.said));
  uv_thread_t thread;
  ck_assert_int_eq(uv_thread_create(&thread, other_session, NULL), 0);
  uv_thread_join(&thread);
  MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
  MUST(q.on->copy_within(q.compute, a, b, 4, NULL, q.said));
  device_graph *graph = NULL;
  MUST(q.on->end_record(q.compute, &graph, q.said));
  MUST(q.on->replay(q.compute, graph, NULL, q.said));
  ck_assert_float_eq(get(), 6);
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
    case 3: return q.on->copy_in(q.compute, a, slot, 4, NULL, q.said);
    case 4: return q.on->copy_out(q.compute, slot, a, 4, NULL, q.said);
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
  open_all("cuda-emulated");
  device_event *event = NULL;
  device_graph *graph = NULL;
  MUST(q.on->event_open(q.dev, &event, q.said));
  MUST(q.on->event_record(q.compute, event, q.said));
  MUST(q.on->record(q.compute, q.said));
  ck_assert_int_eq(q.on->record(q.compute, q.said), REED_ERROR_DEVICE); /* twice */
  MUST(launch_add(&q, q.compute, &add, a, a, a, NULL));
  ck_assert_int_eq(forbidden(_i, event), REED_ERROR_DEVICE);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_ERROR_DEVICE);
  ck_assert_msg(strstr(reed_diagnosis_message(q.said), said[_i]) != NULL, "%s", reed_diagnosis_message(q.said));
  ck_assert_ptr_null(graph);
  ck_assert_int_eq(q.on->end_record(q.compute, &graph, q.said), REED_ERROR_DEVICE); /* the recording has ended */
  put(2);                                                                           /* the queue works again */
  ck_assert_float_eq(get(), 2);
  q.on->event_close(q.dev, event);
  close_all();
}
END_TEST

START_TEST(a_graph_whose_memory_went_is_not_replayed) {
  open_all("cuda-emulated");
  put(1);
  device_graph *graph = recorded();
  q.on->release(q.dev, b, q.compute);
  MUST(wait_both(&q, &fault));
  b = memory_of(&q, 4); /* perhaps at the same address */
  ck_assert_int_eq(q.on->replay(q.compute, graph, NULL, q.said), REED_ERROR_DEVICE);
  ck_assert(strstr(reed_diagnosis_message(q.said), "was released after it was recorded") != NULL);
  ck_assert_float_eq(get(), 1);
  q.on->drop(q.dev, graph);
  close_all();
}
END_TEST

START_TEST(a_queue_closes_while_a_graph_is_recorded) {
  open_all("cuda-emulated");
  MUST(q.on->record(q.compute, q.said));
  MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
  q.on->queue_close(q.compute);
  q.on->release(q.dev, a, q.copies);
  q.on->release(q.dev, b, q.copies);
  q.on->release_pinned(q.dev, slot);
  q.on->queue_close(q.copies);
  add.free(add.state);
  device_close(&q.dev);
  reed_diagnosis_close(&q.said);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tests = tcase_create("graph");
  tcase_add_loop_test(tests, a_graph_is_noted_and_replayed, 0, N_NAMES);
  tcase_add_test(tests, another_thread_s_session_is_not_in_the_way);
  tcase_add_loop_test(tests, what_a_graph_must_not_do_is_refused, 0, 9);
  tcase_add_test(tests, a_graph_whose_memory_went_is_not_replayed);
  tcase_add_test(tests, a_queue_closes_while_a_graph_is_recorded);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
