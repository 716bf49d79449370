/* Copies of packed weights in the order of a library of kernels. Called within the context and under the libraries'
 * lock, which is taken before the device's. */
#ifndef DEVICE_CUDA_WEIGHTS_H_
#define DEVICE_CUDA_WEIGHTS_H_

#include "base/vec.h"
#include "device/cuda/remembered.h"
#include "device/cuda/state.h"

/* Orders of copies. */
typedef enum weights_order { WEIGHTS_OF_CONVOLUTION, WEIGHTS_OF_PRODUCT } weights_order;

/* The place of weights: an address in a block of memory, which has the serial number; and the copy's order. */
typedef struct weights_place {
  const void *from;
  uint64_t serial, order;
} weights_place;

/* A copy of the weights at the place. */
typedef struct weights_copy {
  weights_place place;
  void *copy;    /* NULL: the item is free */
  uint32_t next; /* another item of the same block, or another free one; TABLE_NONE: the last */
} weights_copy;

/* All copies. They live as long as the block of their weights. */
typedef struct weights_copies {
  VEC_OF(weights_copy) items;
  uint32_t free_item; /* the first free one; TABLE_NONE before the first copy */
  table by_place;
  table by_block; /* the first item of each block */
} weights_copies;

/* Enqueues the launches that fill a copy. */
typedef reed_status weights_unpack(cuda_queue *queue, const void *args, void *copy, reed_diagnosis *diagnosis);

/* The copy of the weights `from`; made at the first call. NULL: no memory, or a graph is recorded. */
const void *weights_find(weights_copies *of, cuda_queue *queue, weights_order order, const void *from, int64_t bytes,
                         weights_unpack *unpack, const void *args);
/* Two moves that fill a copy; one without elements is left out. The operands: the weights, then the copy. */
reed_status weights_move(cuda_queue *queue, const move_args moves[2], const cu_operand operands[2],
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Releases the block's copies after the queue's work (NULL: none uses them). `lock` guards the copies; it is given up
 * during each release, because the device's lock is taken there. */
void weights_forget(weights_copies *of, uv_mutex_t *lock, cuda_device *self, uint64_t serial, device_queue *after);
/* Frees the list; the copies are blocks of the device. */
void weights_fini(weights_copies *of);

#endif
