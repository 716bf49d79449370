/* One device with a compute queue, launches on it and kernels for them. It stands in for ops/cpu, which is not linked.
 */
#ifndef TESTS_DEVICE_KERNELS_H_
#define TESTS_DEVICE_KERNELS_H_

#include <check.h>
#include <stdatomic.h>

#include "device/device.h"
#include "ops/kernel.h"
#include "tests/suite.h"

static inline reed_status prepare_nothing(const reed_kernel_call *call, reed_kernel *out_kernel) {
  (void)call;
  *out_kernel = (reed_kernel){0};
  return REED_OK;
}

/* Stands for ops/cpu, which is not linked here. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? prepare_nothing : NULL; }

/* Until it is opened, a launch of `run_gate` keeps the device's thread busy. */
static atomic_bool gate_open;

static inline void gate_set(bool open) { atomic_store(&gate_open, open); }

/* output = input * factor, n elements; state: {n, factor} */
static inline reed_status run_scale(const void *state, const reed_kernel_buffers *buffers) {
  const int64_t *argument = state;
  const int64_t *input = buffers->inputs[0];
  int64_t *output = buffers->outputs[0];
  for (int64_t i = 0; i < argument[0]; i++) output[i] = input[i] * argument[1];
  return REED_OK;
}

static inline reed_status run_fail(const void *state, const reed_kernel_buffers *buffers) {
  return diag_fail(buffers->diagnosis, REED_ERROR_VALUE, "Gather node 'g': index 9 (%s)", (const char *)state);
}

static const char *const names[] = {
    "host", "sim", "sim:1", "sim?late=1", "sim?seed=3", "sim?seed=8&delay_us=300", "sim?poison=1"};
enum { N_NAMES = sizeof names / sizeof *names };

static device *dev;
static device_queue *queue; /* the queue of these tests, unless a test names another queue */
static const device_interface *on;
static reed_diagnosis *said;
static device_error fault;

static inline void open_it(const char *name) {
  gate_set(true);
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  ck_assert_msg(device_open(name, &dev, said) == REED_OK, "%s", reed_diagnosis_message(said));
  on = dev->interface;
  ck_assert_int_eq(on->queue_open(dev, DEVICE_COMPUTE, &queue, said), REED_OK);
}

static inline void close_it(void) {
  gate_set(true);
  on->queue_close(queue);
  device_close(&dev);
  ck_assert_ptr_null(dev);
  reed_diagnosis_close(&said);
}

static inline void *allocate(int64_t bytes) {
  void *data = NULL;
  ck_assert_int_eq(on->allocate(dev, bytes, 0, &data, said), REED_OK);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq((uintptr_t)data % 64, 0);
  return data;
}

static inline void synchronize(void) {
  ck_assert_msg(on->synchronize(queue, &fault, said) == REED_OK, "%s", reed_diagnosis_message(said));
}

static inline void launch(reed_kernel_run_fn run, const void *state, const void *input, void *output) {
  reed_kernel kernel = {.run = run, .state = (void *)state};
  reed_kernel_buffers buffers = {.inputs = &input, .outputs = &output};
  ck_assert_int_eq(on->launch(queue, &kernel, &buffers, input != NULL, output != NULL, 0, NULL, said), REED_OK);
}

static inline void put(void *target, const void *source, int64_t bytes) {
  ck_assert_int_eq(on->copy_in(queue, target, source, bytes, NULL, said), REED_OK);
}

static inline void get(void *target, const void *source, int64_t bytes) {
  ck_assert_int_eq(on->copy_out(queue, target, source, bytes, NULL, said), REED_OK);
}

#endif
