/* Tensors of the interpreter: a descriptor and the address of the elements, row-major, dense but for room along one
 * axis, on one device.
 * The API's tensor: vm/tensor.h.
 *
 * Storage is a counted block of one device's memory. Constants, arena tensors and callers' memory have no storage of
 * their own: `data` is borrowed, and the maker of the tensor keeps the memory alive. */
#ifndef BASE_TENSOR_H_
#define BASE_TENSOR_H_

#include "base/strides.h"

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
  int64_t room;     /* elements along room_axis that fit in the memory (reed_room, not counted); 0: dense */
  int32_t room_axis;
  uint32_t cache; /* of a model's input that grows in place in this run: the output that it becomes, + 1 */
} tensor;

/* The strides of the elements, with the room. */
static inline void tensor_strides(const tensor *t, int64_t *out_strides) {
  strides_of(&t->desc, t->room ? t->room_axis : -1, t->room, out_strides);
}

#endif
