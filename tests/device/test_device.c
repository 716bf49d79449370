/* The device interface as the run loop uses it: the same cases on the host and on simulated accelerators that run in
 * order, late, in a seeded order and with delays. The simulated accelerator alone: sim/test_sim.c. Names and modules:
 * test_names.c. Order between queues: test_order.c. Graphs: sim/test_graph.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "ops/kernel.h"
#include "tests/alloc_hook.h"
#include "tests/device/kernels.h"
#include "tests/suite.h"

/* Uses everything that a launch may give: an absent input, a workspace, extents. */
static reed_status run_everything(const void *state, const reed_kernel_buffers *buffers) {
  memset(buffers->workspace, 1, 64);
  const uint8_t *input = buffers->inputs[1];
  uint8_t *output = buffers->outputs[1];
  output[0] = (uint8_t)(input[0] + ((uint8_t *)buffers->workspace)[63]);
  buffers->extents[1] = buffers->inputs[0] == NULL && buffers->outputs[0] == NULL ? 7 : -1;
  return REED_OK;
}

START_TEST(device_copies_and_runs_kernels_in_order) {
  open_it(names[_i]);
  int64_t x[4] = {1, 2, 3, 4}, y[4] = {0};
  const int64_t twice[2] = {4, 2}, thrice[2] = {4, 3};
  void *a = allocate(sizeof x), *b = allocate(sizeof x), *c = allocate(sizeof x);
  put(a, x, sizeof x);
  memset(x, 0, sizeof x); /* the source may be reused at once */
  launch(run_scale, twice, a, b);
  ck_assert_int_eq(on->copy_within(queue, c, b, sizeof x, NULL, said), REED_OK);
  launch(run_scale, thrice, c, a);
  on->release(dev, c, queue);
  get(y, a, sizeof y);
  on->release(dev, a, queue);
  on->release(dev, b, queue);
  synchronize();
  for (int64_t i = 0; i < 4; i++) ck_assert_int_eq(y[i], 6 * (i + 1));
  close_it();
}
END_TEST

START_TEST(device_counts_its_memory) {
  open_it(names[_i]);
  device_memory m;
  void *a = allocate(1000), *b = allocate(0), *c = allocate(500);
  ck_assert_ptr_ne(a, b);
  on->release(dev, a, queue);
  on->release(dev, NULL, queue);
  on->memory(dev, &m);
  ck_assert_int_eq(m.live_bytes, 500);
  ck_assert_int_eq(m.peak_bytes, 1500);
  ck_assert_int_eq(m.n_allocations, 3);
  ck_assert_int_ge(m.total_bytes, 0);
  on->release(dev, b, queue);
  on->release(dev, c, queue);
  close_it();
}
END_TEST

START_TEST(device_says_how_much_it_could_not_allocate) {
  open_it(names[_i]);
  void *data = &data, *untouched = data;
  ck_assert_int_eq(on->allocate(dev, INT64_MAX, 0, &data, said), REED_ERROR_MEMORY);
  ck_assert_ptr_eq(data, untouched);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "9223372036854775807"));
  ck_assert_int_eq(on->allocate(dev, INT64_MAX - 4096, 0, &data, NULL), REED_ERROR_MEMORY);
  on->release(dev, allocate(16), queue);
  close_it();
}
END_TEST

START_TEST(device_gives_kernels_workspace_extents_and_absent_operands) {
  open_it(names[_i]);
  uint8_t one = 41, result = 0;
  int64_t extents[2] = {0};
  void *a = allocate(1), *b = allocate(1), *workspace = allocate(64), *e = allocate(sizeof extents);
  put(a, &one, 1);
  const void *inputs[2] = {NULL, a};
  void *outputs[2] = {NULL, b};
  reed_kernel kernel = {.run = run_everything, .workspace_bytes = 64};
  ck_assert_int_eq(
      on->launch(queue, &kernel, &(reed_kernel_buffers){inputs, outputs, workspace, e, NULL}, 2, 2, 0, NULL, said),
      REED_OK);
  inputs[1] = outputs[1] = NULL; /* the arrays are the caller's again */
  get(&result, b, 1);
  get(extents, e, sizeof extents);
  synchronize();
  ck_assert_int_eq(result, 42);
  ck_assert_int_eq(extents[1], 7);
  for (int i = 0; i < 4; i++) on->release(dev, (void *[]){a, b, workspace, e}[i], queue);
  close_it();
}
END_TEST

START_TEST(device_reports_a_kernels_failure_with_its_diagnosis) {
  open_it(names[_i]);
  reed_kernel kernel = {.run = run_fail, .state = "of 3"};
  reed_status status = on->launch(queue, &kernel, &(reed_kernel_buffers){0}, 0, 0, 0, NULL, said);
  ck_assert_int_eq(status, on->host_memory ? REED_ERROR_VALUE : REED_OK);
  if (status == REED_OK) status = on->synchronize(queue, &fault, said);
  ck_assert_int_eq(status, REED_ERROR_VALUE);
  ck_assert_str_eq(reed_diagnosis_message(said), "Gather node 'g': index 9 (of 3)");
  synchronize();
  close_it();
}
END_TEST

static reed_status run_record(const void *state, const reed_kernel_buffers *buffers) {
  return reed_kernel_fault(buffers, REED_FAULT_INDEX, 1, 7, *(const int64_t *)state, 3);
}

/* A kernel that writes numbers only: on the host into the launch's record, elsewhere into synchronize's, with the
 * number of the launch. */
START_TEST(device_reports_the_record_of_a_fault) {
  open_it(names[_i]);
  static const int64_t first = -9, second = 8;
  reed_fault record = {0};
  for (uint32_t i = 0; i < 2; i++) {
    reed_kernel kernel = {.run = run_record, .state = (void *)(i ? &second : &first)};
    reed_status status = on->launch(queue, &kernel, &(reed_kernel_buffers){.fault = &record}, 0, 0, 40 + i, NULL, said);
    ck_assert_int_eq(status, on->host_memory ? REED_ERROR_VALUE : REED_OK);
    if (on->host_memory) break;
  }
  if (!on->host_memory) {
    ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_VALUE);
    ck_assert_int_eq(fault.launch, 40);
    record = fault.fault;
  }
  ck_assert_int_eq(record.code, REED_FAULT_INDEX);
  ck_assert(record.operand == 1 && record.element == 7 && record.value == -9 && record.limit == 3);
  synchronize();
  close_it();
}
END_TEST

START_TEST(device_fills_spans) {
  open_it(names[_i]);
  device_span copy = {0}, run = {0}, back = {0};
  int64_t x = 5, begin = clock_now_ns();
  const int64_t twice[2] = {1, 2};
  void *a = allocate(8);
  ck_assert_int_eq(on->copy_in(queue, a, &x, 8, &copy, said), REED_OK);
  reed_kernel kernel = {.run = run_scale, .state = (void *)twice};
  ck_assert_int_eq(on->launch(queue, &kernel, &(reed_kernel_buffers){.inputs = (const void *const[]){a}, .outputs = &a},
                              1, 1, 0, &run, said),
                   REED_OK);
  ck_assert_int_eq(on->copy_out(queue, &x, a, 8, &back, said), REED_OK);
  synchronize();
  ck_assert_int_eq(x, 10);
  ck_assert(begin <= copy.begin_ns && copy.begin_ns <= copy.end_ns && copy.end_ns <= run.begin_ns);
  ck_assert(run.begin_ns <= run.end_ns && run.end_ns <= back.begin_ns && back.end_ns <= clock_now_ns());
  on->release(dev, a, queue);
  close_it();
}
END_TEST

START_TEST(device_finds_kernels) {
  open_it(names[_i]);
  reed_op op = {.name = "X"};
  ck_assert(on->kernel(dev, &op) == prepare_nothing);
  size_t n = strcspn(names[_i], "?"); /* messages name a device without its options */
  ck_assert(strlen(dev->name) == n && strncmp(dev->name, names[_i], n) == 0);
  ck_assert_int_eq(on->host_memory, !_i);
  close_it();
}
END_TEST

START_TEST(device_survives_each_failed_host_allocation) {
  for (int64_t n = 1;; n++) {
    device *d = NULL;
    void *a = NULL;
    uint8_t big[1000] = {0};
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    device_queue *q = NULL;
    device_event *e = NULL;
    reed_status status = device_open(names[_i], &d, NULL);
    if (status == REED_OK) status = d->interface->queue_open(d, DEVICE_COPIES, &q, NULL);
    if (status == REED_OK) status = d->interface->event_open(d, &e, NULL);
    if (status == REED_OK) status = d->interface->allocate(d, 1000, 0, &a, NULL);
    if (status == REED_OK) {
      status = d->interface->copy_in(q, a, big, sizeof big, NULL, NULL);
      if (status == REED_OK) status = d->interface->event_record(q, e, NULL);
      d->interface->release(d, a, q);
    }
    if (q) d->interface->queue_close(q);
    if (e) d->interface->event_close(d, e);
    device_close(&d);
    bool reached = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_int_eq(status, reached ? REED_ERROR_MEMORY : REED_OK);
    if (!reached) break;
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("device");
  TCase *any = tcase_create("any device"), *sim = tcase_create("sim");
  tcase_set_timeout(any, 60);
  tcase_set_timeout(sim, 60);
  tcase_add_loop_test(any, device_copies_and_runs_kernels_in_order, 0, N_NAMES);
  tcase_add_loop_test(any, device_counts_its_memory, 0, N_NAMES);
  tcase_add_loop_test(any, device_says_how_much_it_could_not_allocate, 0, N_NAMES);
  tcase_add_loop_test(any, device_gives_kernels_workspace_extents_and_absent_operands, 0, N_NAMES);
  tcase_add_loop_test(any, device_reports_a_kernels_failure_with_its_diagnosis, 0, N_NAMES);
  tcase_add_loop_test(any, device_reports_the_record_of_a_fault, 0, N_NAMES);
  tcase_add_loop_test(any, device_fills_spans, 0, N_NAMES);
  tcase_add_loop_test(any, device_finds_kernels, 0, N_NAMES);
  tcase_add_loop_test(any, device_survives_each_failed_host_allocation, 0, N_NAMES);
  suite_add_tcase(suite, any);
  suite_add_tcase(suite, sim);
  return suite_run(suite);
}
