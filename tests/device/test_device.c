/* Devices as the run loop sees them: the same cases on the host and on simulated accelerators that run in order, late,
 * in a seeded order and with delays; then what only a simulated one does. Names and modules: test_names.c; order
 * between queues: test_order.c; graphs: test_graph.c. */
#include <check.h>
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "ops/kernel.h"
#include "tests/alloc_hook.h"

/* ---- kernels of this file ---- */

static reed_status prepare_nothing(const reed_kernel_call *call, reed_kernel *out_kernel) {
  *out_kernel = (reed_kernel){0};
  return REED_OK;
}

/* Stands for ops/cpu, which is not linked here. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? prepare_nothing : NULL; }

/* Until it is opened, a launch of `run_gate` keeps the device's thread busy. */
static atomic_bool gate_open;

static void gate_set(bool open) { atomic_store(&gate_open, open); }

static reed_status run_gate(const void *state, const reed_kernel_buffers *buffers) {
  while (!atomic_load(&gate_open)) usleep(100);
  return REED_OK;
}

/* output = input * factor, n elements; state: {n, factor} */
static reed_status run_scale(const void *state, const reed_kernel_buffers *buffers) {
  const int64_t *argument = state;
  const int64_t *input = buffers->inputs[0];
  int64_t *output = buffers->outputs[0];
  for (int64_t i = 0; i < argument[0]; i++) output[i] = input[i] * argument[1];
  return REED_OK;
}

/* Uses what a launch may give: an absent input, a workspace, extents. */
static reed_status run_everything(const void *state, const reed_kernel_buffers *buffers) {
  memset(buffers->workspace, 1, 64);
  const uint8_t *input = buffers->inputs[1];
  uint8_t *output = buffers->outputs[1];
  output[0] = (uint8_t)(input[0] + ((uint8_t *)buffers->workspace)[63]);
  buffers->extents[1] = buffers->inputs[0] == NULL && buffers->outputs[0] == NULL ? 7 : -1;
  return REED_OK;
}

static reed_status run_fail(const void *state, const reed_kernel_buffers *buffers) {
  return diag_fail(buffers->diagnosis, REED_ERROR_VALUE, "Gather node 'g': index 9 (%s)", (const char *)state);
}

static reed_status run_fail_silently(const void *state, const reed_kernel_buffers *buffers) { return REED_ERROR_SHAPE; }

static reed_status run_threads(const void *state, const reed_kernel_buffers *buffers) {
  *(int32_t *)buffers->outputs[0] = omp_get_max_threads();
  return REED_OK;
}

/* Reports what its first input points to without reading it. */
static reed_status run_keep_pointer(const void *state, const reed_kernel_buffers *buffers) {
  *(const void **)buffers->outputs[0] = buffers->inputs[0];
  return REED_OK;
}

/* ---- helpers ---- */

static const char *const names[] = {
    "host", "sim", "sim:1", "sim?late=1", "sim?seed=3", "sim?seed=8&delay_us=300", "sim?poison=1"};
enum { N_NAMES = sizeof names / sizeof *names };

static device *dev;
static device_queue *queue; /* all work of these tests but where they say otherwise */
static const device_interface *on;
static reed_diagnosis *said;
static device_error fault;

static void open_it(const char *name) {
  gate_set(true);
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  ck_assert_msg(device_open(name, &dev, said) == REED_OK, "%s", reed_diagnosis_message(said));
  on = dev->interface;
  ck_assert_int_eq(on->queue_open(dev, DEVICE_COMPUTE, 2, &queue, said), REED_OK);
}

static void close_it(void) {
  gate_set(true);
  on->queue_close(queue);
  device_close(&dev);
  ck_assert_ptr_null(dev);
  reed_diagnosis_close(&said);
}

static void *allocate(int64_t bytes) {
  void *data = NULL;
  ck_assert_int_eq(on->allocate(dev, bytes, 0, &data, said), REED_OK);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq((uintptr_t)data % 64, 0);
  return data;
}

static void synchronize(void) {
  ck_assert_msg(on->synchronize(queue, &fault, said) == REED_OK, "%s", reed_diagnosis_message(said));
}

static void launch(reed_kernel_run_fn run, const void *state, const void *input, void *output) {
  reed_kernel kernel = {.run = run, .state = (void *)state};
  reed_kernel_buffers buffers = {.inputs = &input, .outputs = &output};
  ck_assert_int_eq(on->launch(queue, &kernel, &buffers, input != NULL, output != NULL, 0, NULL, said), REED_OK);
}

static void put(void *target, const void *source, int64_t bytes) {
  ck_assert_int_eq(on->copy_in(queue, target, source, bytes, NULL, said), REED_OK);
}

static void get(void *target, const void *source, int64_t bytes) {
  ck_assert_int_eq(on->copy_out(queue, target, source, bytes, NULL, said), REED_OK);
}

/* Whether the host may read the byte: the system call says so instead of dying. */
static bool readable(const void *p) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  bool yes = write(ends[1], p, 1) == 1;
  ck_assert(yes || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return yes;
}

/* ---- any device: _i is 0 for the host, 1 for the simulated accelerator ---- */

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
  size_t n = strcspn(names[_i], "?"); /* options are no part of what messages say */
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
    if (status == REED_OK) status = d->interface->queue_open(d, DEVICE_COPIES, 1, &q, NULL);
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

/* ---- the simulated accelerator only ---- */

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
  ck_assert_int_eq(y, 0); /* nothing has happened yet: reading without synchronize shows it */
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
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would write a report */
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
  launch(run_scale, twice, a, b); /* each fails once */
  get(&y, b, 8);
  synchronize();
  ck_assert_int_eq(y, 2);
  close_it();
}
END_TEST

START_TEST(sim_kernels_get_the_sessions_threads) {
  open_it("sim");
  int32_t n = 0;
  void *a = allocate(4);
  launch(run_threads, NULL, NULL, a);
  get(&n, a, 4);
  synchronize();
  ck_assert_int_eq(n, 2);
  close_it();
}
END_TEST

/* The same work again, at whatever speed the device has, takes nothing from the heap. */
START_TEST(sim_takes_nothing_from_the_heap_in_a_steady_state) {
  enum { N = 40000 };
  static uint8_t data[N], back[N];
  alloc_hook_begin();
  device *d;
  ck_assert_int_eq(device_open("sim", &d, NULL), REED_OK);
  dev = d, on = d->interface, said = NULL;
  ck_assert_int_eq(on->queue_open(dev, DEVICE_COMPUTE, 1, &queue, NULL), REED_OK);
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
    if (round == 1) before = alloc_hook_requests(); /* both kinds of round were seen */
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
  ck_assert_int_eq(d->interface->queue_open(d, DEVICE_COMPUTE, 1, &queue, NULL), REED_OK);
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
  tcase_add_test(sim, sim_works_later_than_the_call);
  tcase_add_test(sim, sim_closes_its_pages_to_the_host);
  tcase_add_test(sim, sim_kills_a_host_that_reads_its_memory);
  tcase_add_test(sim, sim_opens_only_the_operands_of_the_running_kernel);
  tcase_add_test(sim, sim_hands_a_kernel_no_host_memory);
  tcase_add_test(sim, sim_refuses_to_write_elsewhere);
  tcase_add_test(sim, sim_allows_tensors_without_elements_behind_the_end);
  tcase_add_test(sim, sim_keeps_the_first_failure_and_skips_until_synchronize);
  tcase_add_test(sim, sim_fails_the_call_it_was_told_to);
  tcase_add_test(sim, sim_kernels_get_the_sessions_threads);
  tcase_add_test(sim, sim_takes_nothing_from_the_heap_in_a_steady_state);
  tcase_add_test(sim, sim_bounds_what_is_on_its_way);
  tcase_add_test(sim, sim_frees_everything_when_it_closes);
  suite_add_tcase(suite, any);
  suite_add_tcase(suite, sim);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
