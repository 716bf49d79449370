/* Stores of a session's outputs. */
#ifndef VM_OUTPUT_H_
#define VM_OUTPUT_H_

#include "base/tensor.h"
#include "device/device.h"
#include "reed/tensor.h"

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
