/* The caching pool of one device: storage that outlives an epoch, and the arenas. Offsets inside an arena: plan.h.
 *
 * Small blocks (<= 64 KiB) come from size classes carved out of slabs; large ones by best fit from chunks, split on
 * allocation and merged with free neighbours on release. Released memory stays reserved for reuse, up to a quarter (and
 * a chunk) more than was ever in use at once. Large free blocks are kept for large requests while other blocks can
 * serve small ones. Peaks of use of old runs are forgotten, run by run (pool_end_run). A hard cap bounds the reserved
 * bytes. Blocks are 64-byte aligned. Of equal free blocks the lowest is handed out. A steady state (the same requests
 * again) takes nothing from the device and nothing from the heap. One thread at a time. */
#ifndef ALLOCATOR_POOL_H_
#define ALLOCATOR_POOL_H_

#include "base/tensor.h"
#include "device/device.h"

typedef struct pool pool;

typedef struct pool_figures {
  int64_t live_bytes;     /* handed out, as requested */
  int64_t used_bytes;     /* handed out, rounded up */
  int64_t reserved_bytes; /* taken from the device */
  int64_t peak_live_bytes, peak_reserved_bytes;
  int64_t largest_free_bytes;
  double fragmentation; /* 1 - largest free block / all free bytes; 0 when nothing is free */
  int64_t n_allocations, n_device_allocations;
} pool_figures;

/* Whose memory a pool is: tensors of a session, host memory for copies from and to the device, constants of a program.
 */
typedef enum pool_memory { POOL_DEVICE, POOL_PINNED, POOL_CONSTANTS } pool_memory;

/* Borrows device and queue. queue: work on it may use storage of the pool, even for a while after the storage's
 * release; NULL: no such work. cap_bytes: most bytes to reserve; 0: no cap. device_number: the value of
 * storage->device. */
reed_status pool_open(device *dev, device_queue *queue, pool_memory memory, int32_t device_number, int64_t cap_bytes,
                      pool **out_pool) REED_MUST_CHECK;
/* Every storage must have been released. */
void pool_close(pool **p);
/* Headroom before a second size was seen: an eighth of a large block would be much memory that a program with one size
 * never uses. */
#define POOL_HEADROOM_FIRST ((int64_t)1 << 20)
/* The bytes that a block of `bytes` gets besides: an eighth, `most` at most. */
static inline int64_t pool_headroom(int64_t bytes, int64_t most) { return bytes / 8 < most ? bytes / 8 : most; }
/* Large blocks and arenas get headroom from now on: an eighth more than asked for, `most` bytes at most, where the cap
 * allows. Memory of the host's is warm (its pages are given) when a block is. So a request that is larger by as much
 * than one before is served by the same memory, and costs no page fault. The giving of pages ends early while the flag
 * (base/cancel.h; NULL: none) is raised. */
void pool_set_headroom(pool *p, int64_t most, const int *cancel);
/* The end of a run. On a device that records graphs, the addresses of the next run follow from the blocks that are
 * still in use and from its requests alone. The most in use at once is that of the last POOL_WINDOW to 2 * POOL_WINDOW
 * runs; at the end of a window, free chunks beyond the limit go back to the device. Returns true at the end of a
 * window. */
#define POOL_WINDOW 64
bool pool_end_run(pool *p);
/* True if more is reserved than the end of a window leaves, because blocks in use are parts of chunks that are free
 * otherwise; and what the end of a window gives back, given back when these blocks have been released. */
bool pool_has_excess(const pool *p);
void pool_trim_excess(pool *p);
/* Forgets the most in use so far, because a large user of the pool has left for good, and trims. */
void pool_forget_peak(pool *p);
/* Bytes that the storage of a pool could hold. */
int64_t pool_capacity(const storage *s);
/* Bytes of the same device that others hold and that count towards the cap; 0 at first. */
void pool_set_beside(pool *p, int64_t bytes);
/* A storage with one reference, released by storage_release. Over the cap or out of device memory: trims and tries once
 * more, then ERROR_MEMORY with the bytes asked, live and reserved, whose they are, the cap, and the device's refusal.
 * Another failure of the device is passed on. */
typedef enum pool_use {
  POOL_TENSOR,
  POOL_BOUND, /* a tensor at its bound, of which perhaps only the beginning is ever written: pages are given when they
                 are */
  POOL_ARENA  /* released before the next arena is asked for: on the host it may lie in a free block that is kept for
                 large requests, if that has its pages */
} pool_use;
reed_status pool_allocate_for(pool *p, pool_use use, int64_t bytes, storage **out_storage,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;
static inline reed_status pool_allocate(pool *p, int64_t bytes, storage **out_storage, reed_diagnosis *diagnosis) {
  return pool_allocate_for(p, POOL_TENSOR, bytes, out_storage, diagnosis);
}
/* Makes *arena hold `bytes` or more. An arena is one block outside all chunks; its address stays while the device can
 * grow it in place. *arena is NULL at first; on error it may have been released, and is then NULL. Released like any
 * storage.
 */
reed_status pool_arena(pool *p, int64_t bytes, storage **arena, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Gives free chunks back to the device until at most keep_bytes are reserved or no free chunk is left. Returns the
 * bytes given back. */
int64_t pool_trim(pool *p, int64_t keep_bytes);
void pool_read_figures(const pool *p, pool_figures *out_figures);

#endif
