/* Tensors of the interpreter: a descriptor and the address of the elements, dense, row-major, on one device.
 * The API's tensor: vm/tensor.h.
 *
 * Storage is a counted block of one device's memory. Constants, arena tensors and callers' memory have no storage of
 * their own: `data` is borrowed, and the maker of the tensor keeps the memory alive. */
#ifndef BASE_TENSOR_H_
#define BASE_TENSOR_H_

#include "base/desc.h"

/* A counted block. `release` gives the block back to its maker (pool, memo, caller) when the last reference is dropped.
 * Counts are atomic, because outputs leave their session. */
typedef struct storage {
  int32_t n_references;
  int32_t device;
  void *data;
  int64_t bytes;
  void (*release)(struct storage *storage);
  void *owner;
} storage;

static inline void storage_retain(storage *s) {
  if (s) __atomic_fetch_add(&s->n_references, 1, __ATOMIC_RELAXED);
}

static inline void storage_release(storage *s) {
  if (s && __atomic_fetch_sub(&s->n_references, 1, __ATOMIC_ACQ_REL) == 1) s->release(s);
}

typedef struct tensor {
  reed_desc desc;
  int32_t device;   /* module device: 0 host, 1.. accelerators */
  void *data;       /* NULL until stored */
  storage *storage; /* counted reference, or NULL when data is borrowed */
} tensor;

#endif
