/* Abilities of the simulated accelerator alone: pages closed to the host, work that runs later, calls that fail on
 * request. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "ops/kernel.h"
#include "tests/alloc_hook.h"
#include "tests/device/kernels.h"
#include "tests/suite.h"

static reed_status run_gate(const void *state, const reed_kernel_buffers *buffers) {
  while (!atomic_load(&gate_open)) usleep(100);
  return REED_OK;
}

static reed_status run_fail_silently(const void *state, const reed_kernel_buffers *buffers) { return REED_ERROR_SHAPE; }

/* Writes its first input's address to the output without reading the input. */
static reed_status run_keep_pointer(const void *state, const reed_kernel_buffers *buffers) {
  *(const void **)buffers->outputs[0] = buffers->inputs[0];
  return REED_OK;
}

/* Whether the host may read the byte: write fails with EFAULT instead of ending the process. */
static bool readable(const void *p) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  bool yes = write(ends[1], p, 1) == 1;
  ck_assert(yes || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return yes;
}

START_TEST(sim_works_later_than_the_call) {
  open_it("sim");
  int64_t x[2] = {1, 1}, y = 0;
  const int64_t five[2] = {1, 5};
  void *a = allocate(8), *b = allocate(8);
  gate_set(false);
  launch(run_gate, NULL, NULL, NULL);
  put(a, x, 8);
  launch(run_scale, five, a, b);
  get(&y, b, 8);
  on->release(dev, a, queue);
  on->release(dev, b, queue);
  usleep(2000);
  ck_assert_int_eq(y, 0); /* the copy has not run yet: without synchronize the host reads the old value */
  gate_set(true);
  synchronize();
  ck_assert_int_eq(y, 5);
  close_it();
}
END_TEST

START_TEST(sim_closes_its_pages_to_the_host) {
  open_it("sim");
  uint8_t x[3] = {1, 2, 3}, y[3] = {0};
  uint8_t *a = allocate(3), *b = allocate(3);
  ck_assert(!readable(a));
  put(a, x, 3);
  ck_assert_int_eq(on->copy_within(queue, b, a, 3, NULL, said), REED_OK);
  synchronize();
  ck_assert(!readable(a) && !readable(b));
  get(y, b, 3);
  synchronize();
  ck_assert_int_eq(y[2], 3);
  ck_assert(!readable(a) && !readable(b));
  close_it();
}
END_TEST

START_TEST(sim_kills_a_host_that_reads_its_memory) {
  open_it("sim");
  volatile uint8_t *a = allocate(64);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* the fault makes a sanitizer write a report */
    _exit(a[0] == 0 ? 0 : 1);
  }
  int ended;
  ck_assert_int_eq(waitpid(child, &ended, 0), child);
  ck_assert(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSEGV);
  close_it();
}
END_TEST

/* Tries the first byte of the block whose address is its state. */
static reed_status run_probe(const void *state, const reed_kernel_buffers *buffers) {
  *(uint8_t *)buffers->outputs[0] = readable(state);
  return REED_OK;
}

START_TEST(sim_opens_only_the_operands_of_the_running_kernel) {
  open_it("sim");
  uint8_t seen = 2;
  void *operand = allocate(8), *other = allocate(8), *output = allocate(1);
  launch(run_probe, other, operand, output);
  get(&seen, output, 1);
  synchronize();
  ck_assert_int_eq(seen, 0);
  launch(run_probe, operand, operand, output);
  get(&seen, output, 1);
  synchronize();
  ck_assert_int_eq(seen, 1);
  close_it();
}
END_TEST

START_TEST(sim_hands_a_kernel_no_host_memory) {
  open_it("sim");
  int64_t on_the_host = 3;
  void *seen = NULL, *output = allocate(sizeof seen);
  launch(run_keep_pointer, NULL, &on_the_host, output);
  get(&seen, output, sizeof seen);
  synchronize();
  ck_assert_ptr_ne(seen, &on_the_host);
  ck_assert(!readable(seen));
  close_it();
}
END_TEST

START_TEST(sim_refuses_to_write_elsewhere) {
  open_it("sim");
  int64_t x = 0;
  const int64_t twice[2] = {1, 2};
  char *a = allocate(8), *b = allocate(8);
  launch(run_scale, twice, a, &x); /* an output on the host */
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "output of a kernel"));
  put(a + 4, &x, 8);
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "8 bytes at offset 4, runs past its block of 8 bytes"));
  on->release(dev, b, queue);
  get(&x, b, 8); /* released before, in stream order */
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "not memory of this device"));
  close_it();
}
END_TEST

START_TEST(sim_allows_tensors_without_elements_behind_the_end) {
  open_it("sim");
  const int64_t nothing[2] = {0, 0};
  char *a = allocate(4096);
  launch(run_scale, nothing, a + 4096, a + 4096);
  put(a + 4096, a, 0);
  synchronize();
  close_it();
}
END_TEST

START_TEST(sim_keeps_the_first_failure_and_skips_until_synchronize) {
  open_it("sim");
  int64_t x = 1, y = 77;
  const int64_t twice[2] = {1, 2};
  void *a = allocate(8), *gone = allocate(8);
  put(a, &x, 8);
  launch(run_fail, "first", NULL, NULL);
  launch(run_fail_silently, NULL, NULL, NULL);
  launch(run_scale, twice, a, a);
  get(&y, a, 8);
  on->release(dev, gone, queue); /* releases are not skipped */
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_VALUE);
  ck_assert_str_eq(reed_diagnosis_message(said), "Gather node 'g': index 9 (first)");
  ck_assert_int_eq(y, 77);
  get(&y, a, 8);
  synchronize();
  ck_assert_int_eq(y, 1); /* the scaling was skipped */
  launch(run_fail_silently, NULL, NULL, NULL);
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_SHAPE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "a kernel failed"));
  ck_assert_int_eq(on->synchronize(queue, &fault, NULL), REED_OK);
  close_it();
}
END_TEST

START_TEST(sim_fails_the_call_it_was_told_to) {
  open_it("sim?fail_allocation=2&fail_copy=2&fail_launch=1");
  int64_t x = 1, y = 0;
  const int64_t twice[2] = {1, 2};
  void *none = NULL, *a = allocate(8);
  ck_assert_int_eq(on->allocate(dev, 8, 0, &none, said), REED_ERROR_MEMORY);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "allocation 2 "));
  void *b = allocate(8);
  put(a, &x, 8);
  put(b, &x, 8);
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "copy 2 "));
  launch(run_scale, twice, a, b);
  ck_assert_int_eq(on->synchronize(queue, &fault, said), REED_ERROR_DEVICE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(said), "launch 1 "));
  launch(run_scale, twice, a, b); /* allocation, copy and launch each fail once */
  get(&y, b, 8);
  synchronize();
  ck_assert_int_eq(y, 2);
  close_it();
}
END_TEST

/* Repeated work takes nothing from the heap, whether the device is fast or held back. */
START_TEST(sim_takes_nothing_from_the_heap_in_a_steady_state) {
  enum { N = 40000 };
  static uint8_t data[N], back[N];
  alloc_hook_begin();
  device *d;
  ck_assert_int_eq(device_open("sim", &d, NULL), REED_OK);
  dev = d, on = d->interface, said = NULL;
  ck_assert_int_eq(on->queue_open(dev, DEVICE_COMPUTE, &queue, NULL), REED_OK);
  gate_set(true);
  const int64_t twice[2] = {1, 2};
  void *a = allocate(N), *b = allocate(N);
  int64_t before = 0;
  for (int round = 0; round < 6; round++) {
    gate_set(round != 0);
    launch(run_gate, NULL, NULL, NULL);
    for (int i = 0; i < 20; i++) {
      data[0] = (uint8_t)(round + i);
      put(a, data, N - (round % 2) * 1000 - i);
      launch(run_scale, twice, a, b);
      get(back, a, N);
    }
    gate_set(true);
    synchronize();
    ck_assert_int_eq(back[0], round + 19);
    if (round == 1) before = alloc_hook_requests(); /* the device has been held back once and been free once */
  }
  ck_assert_int_eq(alloc_hook_requests(), before);
  on->queue_close(queue);
  device_close(&dev);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(sim_bounds_what_is_on_its_way) {
  enum { N = 8 << 20 };
  open_it("sim");
  uint8_t *data = calloc(1, N), last = 0;
  void *a = allocate(N);
  for (uint8_t i = 1; i <= 20; i++) { /* 160 MiB: the host waits for the device once or more */
    data[N - 1] = i;
    put(a, data, N);
  }
  get(&last, (char *)a + N - 1, 1);
  synchronize();
  ck_assert_int_eq(last, 20);
  free(data);
  close_it();
}
END_TEST

START_TEST(sim_frees_everything_when_it_closes) {
  alloc_hook_begin();
  device *d;
  void *data;
  ck_assert_int_eq(device_open("sim", &d, NULL), REED_OK);
  ck_assert_int_eq(d->interface->queue_open(d, DEVICE_COMPUTE, &queue, NULL), REED_OK);
  for (int i = 0; i < 50; i++) {
    ck_assert_int_eq(d->interface->allocate(d, 100 * i, 0, &data, NULL), REED_OK);
    if (i % 3 == 0) d->interface->release(d, data, i % 2 ? queue : NULL);
    if (i % 5 == 0) ck_assert_int_eq(d->interface->allocate_pinned(d, 100 * i, &data, NULL), REED_OK);
  }
  d->interface->queue_close(queue);
  device_close(&d); /* with work enqueued and blocks never released */
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sim");
  TCase *any = tcase_create("any device"), *sim = tcase_create("sim");
  tcase_set_timeout(any, 60);
  tcase_set_timeout(sim, 60);
  tcase_add_test(sim, sim_works_later_than_the_call);
  tcase_add_test(sim, sim_closes_its_pages_to_the_host);
  tcase_add_test(sim, sim_kills_a_host_that_reads_its_memory);
  tcase_add_test(sim, sim_opens_only_the_operands_of_the_running_kernel);
  tcase_add_test(sim, sim_hands_a_kernel_no_host_memory);
  tcase_add_test(sim, sim_refuses_to_write_elsewhere);
  tcase_add_test(sim, sim_allows_tensors_without_elements_behind_the_end);
  tcase_add_test(sim, sim_keeps_the_first_failure_and_skips_until_synchronize);
  tcase_add_test(sim, sim_fails_the_call_it_was_told_to);
  tcase_add_test(sim, sim_takes_nothing_from_the_heap_in_a_steady_state);
  tcase_add_test(sim, sim_bounds_what_is_on_its_way);
  tcase_add_test(sim, sim_frees_everything_when_it_closes);
  suite_add_tcase(suite, any);
  suite_add_tcase(suite, sim);
  return suite_run(suite);
}
