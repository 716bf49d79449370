/* Inside vm/: the API's tensor (tensor.c), and the store of a session's outputs (output.c). */
#ifndef VM_TENSOR_H_
#define VM_TENSOR_H_

#include "base/tensor.h"
#include "device/device.h"
#include "reed/tensor.h"

struct reed_tensor {
  int32_t n_references; /* atomic */
  bool embedded;        /* the struct lies in the memory that `release` frees */
  reed_desc desc;
  int64_t elements, bytes;
  void *data;
  void (*release)(void *context); /* NULL: no memory to release */
  void *context;
};

/* Blocks for outputs, given back when the caller closes the tensor and used again, so that a steady state takes nothing
 * from the heap. Thread-safe and counted: outputs may outlive their session. */
typedef struct output_store output_store;
/* pinned_for: the accelerator whose copies write outputs, which then lie in its pinned memory; NULL: none. */
reed_status output_store_open(device *pinned_for, output_store **out_store) REED_MUST_CHECK;
/* Drops the session's reference and the free blocks; blocks still out are freed when they come back. */
void output_store_close(output_store **store);
/* Host storage with one reference and undefined elements, which may become an output where it lies. */
reed_status output_allocate(output_store *store, int64_t bytes, storage **out_storage) REED_MUST_CHECK;
/* A tensor of the (valid) desc at `data` that keeps a reference to the storage. NULL if the storage is not from a store
 * of outputs, is a tensor already, does not begin at `data`, or would be less than half used. */
reed_tensor *output_give(storage *s, const void *data, const reed_desc *desc);
/* A tensor of that (valid) desc with undefined elements. */
reed_status output_open(output_store *store, const reed_desc *desc, reed_tensor **out_tensor) REED_MUST_CHECK;

#endif
