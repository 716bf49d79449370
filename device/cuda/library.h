/* Parts of the libraries of kernels that the device may use: weights in a library's order (weights.c), measured choices
 * (library.c), convolutions by cuDNN (convolutions.c), products by cuBLASLt (products.c). All functions are called
 * within the context and under the libraries' lock, which is taken before the device's. */
#ifndef DEVICE_CUDA_LIBRARY_H_
#define DEVICE_CUDA_LIBRARY_H_

#include "device/cuda/remembered.h"
#include "device/cuda/state.h"

enum { LIBRARY_ALIGNMENT = 16, LIBRARY_MOST_WORKSPACE_BYTES = 64 << 20 };
enum { LIBRARY_ALWAYS = 2 }; /* the option's value that takes a plan without a measurement */

/* True if one of the pointers is not aligned as plans expect. */
bool library_is_unaligned(const void *const *pointers, size_t n);

/* ---- weights.c ---- */

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

/* ---- library.c ---- */

/* Memory of the queue for a plan's workspace; earlier, smaller blocks stay, because graphs name them. False: no memory,
 * or a graph is recorded. */
bool library_find_workspace(cuda_queue *queue, int64_t bytes, void **out_data);

/* A launch that a plan may carry out in place of Reed's own kernel. */
typedef struct library_call {
  const char *spoilt;     /* the reason why a recording fails if the plan does */
  remembered *plan;       /* its choice: OWN from the plan's first failure on */
  library_memory *memory; /* that the plan is of */
  const void *kind;
  /* Enqueues the plan. False: nothing was enqueued. */
  bool (*enqueue)(const struct library_call *call, cuda_queue *queue);
  const cuda_ready *own;
} library_call;

/* Enqueues the plan or, as *out_done false, leaves the launch to the own kernel. The first launch of a kind measures
 * both, and leaves the faster one's result. */
reed_status library_run(const library_call *call, cuda_queue *queue, bool *out_done,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- convolutions.c, products.c ---- */

typedef struct convolutions convolutions;
typedef struct products products;

/* NULL: no memory. `always`: as in library_memory. */
convolutions *convolutions_open(bool always);
products *products_open(bool always);
void convolutions_close(convolutions *of);
void products_close(products *of);
void convolutions_close_queue(convolutions *of, cuda_queue *queue);
/* True for launches that the library may take. */
bool convolutions_take(cuda_kernel_id kernel);
bool products_take(cuda_kernel_id kernel);
/* Enqueues the launch by the library, if the library takes it and is chosen for it; *out_done says so. */
reed_status convolutions_launch(convolutions *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                                bool *out_done, reed_diagnosis *diagnosis) REED_MUST_CHECK;
reed_status products_launch(products *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                            bool *out_done, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
