/* A pool on a device of this machine, for the tests of pools; each includes this file once. */
#ifndef TESTS_ALLOCATOR_OPENED_POOL_H_
#define TESTS_ALLOCATOR_OPENED_POOL_H_

#include <check.h>
#include <stdio.h>

#include "allocator/pool.h"
#include "ops/kernel.h"

/* Stands for ops/cpu, which is not linked here: no kernel runs. */
reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return NULL; }

enum { KIB = 1024, MIB = 1024 * KIB };

static device *dev;
static pool *p;
static reed_diagnosis *said;

static device_queue *queue;

/* On the host (false) or a simulated accelerator whose name ends with `options`. */
static inline void open_pool(bool sim, const char *options, int64_t cap_bytes) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", sim ? "sim" : "host", options ? options : "");
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  ck_assert_msg(device_open(name, &dev, said) == REED_OK, "%s", reed_diagnosis_message(said));
  ck_assert_int_eq(dev->interface->queue_open(dev, DEVICE_COMPUTE, &queue, said), REED_OK);
  ck_assert_int_eq(pool_open(dev, queue, POOL_DEVICE, 1, cap_bytes, &p), REED_OK);
}

static inline void close_pool(void) {
  device_memory left;
  pool_close(&p);
  ck_assert_ptr_null(p);
  dev->interface->memory(dev, &left);
  ck_assert_int_eq(left.live_bytes, 0);
  dev->interface->queue_close(queue);
  device_close(&dev);
  reed_diagnosis_close(&said);
}

static inline storage *take(int64_t bytes) {
  storage *s = NULL;
  ck_assert_msg(pool_allocate(p, bytes, &s, said) == REED_OK, "%s", reed_diagnosis_message(said));
  ck_assert_ptr_nonnull(s->data);
  ck_assert_uint_eq((uintptr_t)s->data % 64, 0);
  ck_assert(s->bytes == bytes && s->device == 1 && s->n_references == 1);
  return s;
}

static inline pool_figures figures(void) {
  pool_figures f;
  pool_read_figures(p, &f);
  ck_assert_int_le(f.live_bytes, f.used_bytes);
  ck_assert_int_le(f.used_bytes, f.reserved_bytes);
  ck_assert_int_le(f.largest_free_bytes, f.reserved_bytes - f.used_bytes);
  ck_assert(f.fragmentation >= 0 && f.fragmentation <= 1);
  return f;
}

#endif
