/* The shared part of a pool: its state, its lists of headers and of free large blocks, and its chunks. A chunk is
 * one allocation of the device. chunk.c takes chunks from the device, lets them grow and has the system give their
 * pages; pool.c cuts them into blocks and gives them back. */
#ifndef ALLOCATOR_CHUNK_H_
#define ALLOCATOR_CHUNK_H_

#include <assert.h>

#include "allocator/block.h"
#include "allocator/pool.h"
#include "allocator/size_class.h"

enum { HEADER_BATCH = 64 };

typedef struct header_batch {
  struct header_batch *next;
  block headers[HEADER_BATCH];
} header_batch;

struct pool {
  device *device;
  device_queue *queue;
  pool_memory memory;
  int32_t device_number;
  int64_t cap_bytes, room_bytes; /* room: of an arena */
  int64_t beside_bytes;          /* not the pool's, but under the same cap */
  block *large[64];              /* free large blocks of 2^i <= bytes < 2^(i+1) */
  uint64_t large_mask;           /* bit i: large[i] is not empty */
  block *slabs[N_CLASSES];       /* heaps of slabs with room */
  block *empty[N_CLASSES];       /* the slab with room that has no used object; at most one */
  int64_t peak_used_bytes;       /* in the present window of runs and the one before */
  int64_t window_used_bytes;     /* the most in the present window */
  int32_t n_runs;                /* in the present window */
  int64_t headroom;              /* the most of a block */
  const int *cancel;             /* ends the giving of pages; NULL: nothing does */
  block *grown;                  /* the large block that got pages last and lacks some of its headroom; NULL: none */
  block *spare;                  /* unused headers */
  int32_t n_spare;
  header_batch *batches;
  pool_figures figures; /* largest_free_bytes and fragmentation are worked out when asked for */
};

/* ---- headers and lists ---- */

static inline void header_give(pool *p, block *b) {
  if (p->grown == b) p->grown = NULL;
  b->next = p->spare;
  p->spare = b;
  p->n_spare++;
}

static inline block *header_take(pool *p) {
  block *b = p->spare;
  assert(b);
  p->spare = b->next;
  p->n_spare--;
  *b = (block){0};
  return b;
}

static inline void free_add(pool *p, block *b) {
  int i = log2_floor(b->bytes);
  b->free = true;
  list_add(&p->large[i], b);
  p->large_mask |= 1ull << i;
}

static inline void free_remove(pool *p, block *b) {
  int i = log2_floor(b->bytes);
  b->free = false;
  list_remove(&p->large[i], b);
  if (!p->large[i]) p->large_mask &= ~(1ull << i);
}

/* ---- the device's memory ---- */

reed_status memory_take(pool *p, int64_t bytes, int64_t room_bytes, void **out_data,
                        reed_diagnosis *refused) REED_MUST_CHECK;
void memory_give(pool *p, void *data);
/* Makes the memory larger where it lies. False: the device cannot. */
bool memory_extend(pool *p, void *data, int64_t bytes);

static inline void count_reserved(pool *p, int64_t more) {
  p->figures.reserved_bytes += more;
  if (p->figures.peak_reserved_bytes < p->figures.reserved_bytes)
    p->figures.peak_reserved_bytes = p->figures.reserved_bytes;
}

static inline bool under_cap(const pool *p, int64_t bytes) {
  return p->cap_bytes == 0 || bytes <= p->cap_bytes - p->beside_bytes - p->figures.reserved_bytes;
}

/* ---- chunks (chunk.c) ---- */

/* The limit on reserved bytes while `bytes` more are needed: the most used, a quarter more, and a chunk. */
int64_t chunks_enough(const pool *p, int64_t bytes);
/* True if a new chunk for `bytes` keeps within that limit. */
bool chunks_have_slack(const pool *p, int64_t bytes);
/* Grows the chunk whose free last block lacks least, until that block has `bytes`. False: no chunk can grow. Growing is
 * preferred to a new chunk because the pages already in use are warm. */
bool chunks_grow(pool *p, int64_t bytes);
/* Reserves a chunk for `bytes` when no free block can hold them. Order of choice: a chunk with room to grow; an exact
 * chunk; an exact chunk after all free chunks went back to the device. Without slack, free chunks beyond the limit are
 * given back first, because tensors that grow from iteration to iteration would leave chunks of every earlier size
 * reserved; the new chunk is a quarter larger, except on the host, whose chunks can grow in place. */
reed_status chunks_reserve(pool *p, int64_t bytes, reed_diagnosis *refused) REED_MUST_CHECK;
/* The size that a large block of `bytes` (a multiple of LARGE_UNIT) should have. */
int64_t block_roomy(const pool *p, int64_t bytes);
/* Has the system give the pages of a large block that is given out for `bytes`. A new block gets those of its headroom
 * too. One that has some of its pages, because it has grown, gets those of its headroom at the ends of the next runs.
 */
void block_warm(pool *p, block *b, int64_t bytes);
/* The end of a run: some pages more for the headroom of the block that has grown. */
void block_warm_more(pool *p);

#endif
