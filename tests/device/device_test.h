/* A device with both of its queues, for tests of device/. */
#ifndef TESTS_DEVICE_DEVICE_TEST_H_
#define TESTS_DEVICE_DEVICE_TEST_H_

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "device/device.h"

typedef struct both_queues {
  device *dev;
  const device_interface *on;
  device_queue *compute, *copies;
  reed_diagnosis *said;
} both_queues;

static inline both_queues open_both(const char *name) {
  both_queues q = {0};
  ck_assert_int_eq(reed_diagnosis_open(&q.said), REED_OK);
  ck_assert_msg(device_open(name, &q.dev, q.said) == REED_OK, "%s", reed_diagnosis_message(q.said));
  q.on = q.dev->interface;
  ck_assert_int_eq(q.on->queue_open(q.dev, DEVICE_COMPUTE, &q.compute, q.said), REED_OK);
  ck_assert_int_eq(q.on->queue_open(q.dev, DEVICE_COPIES, &q.copies, q.said), REED_OK);
  return q;
}

static inline void close_both(both_queues *q) {
  q->on->queue_close(q->compute);
  q->on->queue_close(q->copies);
  device_close(&q->dev);
  reed_diagnosis_close(&q->said);
}

static inline void *memory_of(both_queues *q, int64_t bytes) {
  void *data = NULL;
  ck_assert_int_eq(q->on->allocate(q->dev, bytes, 0, &data, q->said), REED_OK);
  return data;
}

static inline int64_t *slot_of(both_queues *q, int64_t n) {
  void *data = NULL;
  ck_assert_int_eq(q->on->allocate_pinned(q->dev, n * 8, &data, q->said), REED_OK);
  return data;
}

/* Waits for both; the first failure. */
static inline reed_status wait_both(both_queues *q, device_error *error) {
  reed_status first = q->on->synchronize(q->compute, error, q->said);
  device_error other;
  reed_status second =
      q->on->synchronize(q->copies, first == REED_OK ? error : &other, first == REED_OK ? q->said : NULL);
  return first == REED_OK ? second : first;
}

/* output[0] = input[0] * 2 + 1 */
static inline reed_status run_step(const void *state, const reed_kernel_buffers *buffers) {
  (void)state;
  *(int64_t *)buffers->outputs[0] = *(const int64_t *)buffers->inputs[0] * 2 + 1;
  return REED_OK;
}

static inline reed_status launch_step(both_queues *q, device_queue *queue, const void *input, void *output,
                                      uint32_t number) {
  static const reed_kernel kernel = {.run = run_step};
  return q->on->launch(queue, &kernel, &(reed_kernel_buffers){.inputs = &input, .outputs = &output}, 1, 1, number, NULL,
                       q->said);
}

#endif
