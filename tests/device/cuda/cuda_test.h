/* Both queues of an emulated CUDA device, and launches of one operator of the module: y = a + b on f32. */
#ifndef TESTS_DEVICE_CUDA_CUDA_TEST_H_
#define TESTS_DEVICE_CUDA_CUDA_TEST_H_

#include <stdlib.h>

#include "ops/kernel.h"
#include "ops/op.h"
#include "tests/device/device_test.h"
#include "tests/suite.h"

#ifndef CUDA_TEST_LINKED
/* Stands for ops/cpu, which is not linked where the module is loaded. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? NULL : NULL; }
#endif

static inline reed_status prepare_add(device *dev, int64_t n, reed_kernel *out_kernel, reed_diagnosis *said) {
  const reed_op *op = op_builtin(OP_Add);
  const reed_desc x = {.dtype = REED_F32, .rank = 1, .dims = {n}}, inputs[2] = {x, x};
  const reed_kernel_call call = {.op = op,
                                 .attrs = &(reed_attrs){0},
                                 .node = "n",
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = &x,
                                 .host_values = (const void *const[]){NULL, NULL},
                                 .constant = (const bool[]){false, false},
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = said};
  return dev->interface->kernel(dev, op)(&call, out_kernel);
}

/* Enqueues y = a + b. */
static inline reed_status launch_add(both_queues *q, device_queue *queue, const reed_kernel *kernel, const void *a,
                                     const void *b, void *y, device_span *span) {
  const void *inputs[2] = {a, b};
  return q->on->launch(queue, kernel, &(reed_kernel_buffers){.inputs = inputs, .outputs = &y}, 2, 1, 5, span, q->said);
}

static inline float *floats_of(both_queues *q, int64_t n) {
  void *data = NULL;
  ck_assert_int_eq(q->on->allocate_pinned(q->dev, n * 4, &data, q->said), REED_OK);
  return data;
}

#define MUST(call) ck_assert_msg((call) == REED_OK, "%s", reed_diagnosis_message(q.said))

#endif
