/* Inside vm/: the API's tensor. */
#ifndef VM_TENSOR_H_
#define VM_TENSOR_H_

#include "base/tensor.h"
#include "device/device.h"
#include "reed/tensor.h"

struct reed_tensor {
  int32_t n_references; /* atomic */
  bool embedded;        /* the struct lies in the memory that `release` frees */
  bool dense, read_only;
  reed_desc desc;
  int64_t strides[REED_MAX_RANK]; /* elements */
  int64_t elements, bytes;        /* bytes: of the elements, without gaps */
  void *data;                     /* the first element, in memory of `on` */
  device *on;                     /* one reference; NULL: the host */
  void (*release)(void *context); /* NULL: no memory to release */
  void *context;
  struct reed_tensor *base; /* the bound memory that the tensor is a view of, one reference; NULL: none */
  /* Of memory to which outputs with room are bound, also by several sessions (append.h); atomic. */
  int64_t written; /* the mark: rows along the axis with room that an output has written, as TENSOR_ROWS */
  int32_t n_views; /* open tensors whose base it is */
  /* history.h */
  int64_t version;              /* of the memory; of a view: the memory's version that it shows */
  struct history_step *history; /* the newest first */
  int32_t history_lock;
};
#define TENSOR_ROWS_UNKNOWN 0
#define TENSOR_ROWS_HELD (-1) /* by a run */
#define TENSOR_ROWS(n) ((n) + 1)

/* A tensor's memory as its caller provides it. */
typedef struct tensor_memory {
  void *data;
  const int64_t *strides; /* NULL: dense */
  bool read_only;
  device *on;                     /* NULL: the host */
  void (*release)(void *context); /* with the last reference; NULL allowed */
  void *context;
} tensor_memory;

/* A tensor over the memory, which belongs to the tensor from here on; the tensor takes a reference of its own to the
 * device. ERROR_SHAPE: the extents or strides describe no memory; ERROR_ARGUMENT: no dtype, no address. */
reed_status tensor_over(reed_dtype dtype, int32_t rank, const int64_t *dims, const tensor_memory *memory,
                        reed_tensor **out_tensor) REED_MUST_CHECK;
/* A dense copy in new memory of the device, or of the host for NULL. */
reed_status tensor_copy(reed_tensor *tensor, device *on, reed_tensor **out_tensor,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* A tensor of that desc at the beginning of the memory, with the memory's strides: its base. Keeps a reference to the
 * memory. ERROR_MEMORY. */
reed_status tensor_view(reed_tensor *memory, const reed_desc *desc, reed_tensor **out_tensor) REED_MUST_CHECK;
/* The memory that the tensor is a view of, over any number of views; the tensor itself if it is no view. */
reed_tensor *tensor_root(reed_tensor *tensor);
/* The tensor from which the tensor was made by DLPack in this process and without other libraries between; otherwise
 * the tensor itself. */
const reed_tensor *tensor_origin(const reed_tensor *tensor);
/* True if the two tensors cover bytes in common, judged by their first and last bytes. */
bool tensor_overlap(const reed_tensor *a, const reed_tensor *b);

#endif
