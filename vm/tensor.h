/* Inside vm/: the API's tensor (tensor.c), and the stores of a session's outputs (output.c). */
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

/* Blocks for outputs, given back when the caller closes the tensor and used again, so that a steady state takes nothing
 * from the heap or the device. Thread-safe and counted: outputs may outlive their session. */
typedef struct output_store output_store;
typedef enum output_memory {
  OUTPUT_HEAP,   /* of the host */
  OUTPUT_PINNED, /* of the host, for copies from the device */
  OUTPUT_DEVICE  /* of the device, for outputs that stay there */
} output_memory;
/* on: NULL with OUTPUT_HEAP. queue: the session's, whose work may use blocks that were never given to a caller; number:
 * the value of storage->device. Both with OUTPUT_DEVICE. most_free: the free blocks that stay when another one is given
 * back; of a device all stay until output_store_trim. */
reed_status output_store_open(output_memory memory, device *on, device_queue *queue, int32_t number, int32_t most_free,
                              output_store **out_store) REED_MUST_CHECK;
/* Drops the session's reference and the free blocks; blocks still out are freed when they come back. No work is queued.
 */
void output_store_close(output_store **store);
/* Storage with one reference and undefined elements, which may become an output where it lies. most: the bytes that the
 * output can have by its declared ranges; 0: not known. cold: perhaps only the beginning is ever written, so pages are
 * given when they are. */
reed_status output_allocate(output_store *store, int64_t bytes, int64_t most, bool cold, storage **out_storage,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* New blocks are larger than asked for from now on, by pool_headroom(.., most), or as large as the output can be, and
 * warm on the host. */
void output_store_set_headroom(output_store *store, int64_t most, const int *cancel);
/* Tensors given from now on may be in use on that stream of the caller's when they are closed; 0: none. The device has
 * stream_record. */
void output_store_set_stream(output_store *store, int64_t stream);
/* The end of a window of runs (POOL_WINDOW): frees the free blocks that the window has not used. To be called by the
 * session's thread. Returns by how much the window's largest bytes on the heap are less than those of the
 * window before, if they are less than half of them; otherwise 0. */
int64_t output_store_end_window(output_store *store);
/* Frees surplus blocks of a device; to be called by the session's thread. keep: blocks that stay. */
void output_store_trim(output_store *store, int32_t keep);
/* Bytes in use and bytes held, on a device. */
typedef struct output_figures {
  int64_t live_bytes, reserved_bytes;
  int64_t held_bytes; /* reserved_bytes, and the blocks' headers */
} output_figures;
output_figures output_store_figures(output_store *store);
/* A tensor of the (valid) desc at `data` that keeps a reference to the storage. NULL if the storage is not from a store
 * of outputs, is a tensor already, does not begin at `data`, or would be less than half used. */
reed_tensor *output_give(storage *s, const void *data, const reed_desc *desc);
/* A tensor of that (valid) desc with undefined elements. */
reed_status output_open(output_store *store, const reed_desc *desc, reed_tensor **out_tensor,
                        reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
