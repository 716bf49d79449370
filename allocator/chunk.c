/* The chunks of a pool (chunk.h). */
#include "allocator/chunk.h"

#include "base/mem.h"

enum {
  CHUNK_BYTES = 2 << 20, /* least size of a chunk while the cap allows */
  CAP_SHARE = 32,        /* so much of a cap, at most, is for bytes of one chunk that no request has asked for */
  SLACK = 4,             /* free chunks may make up a quarter of the most that was in use */
  ROOM_TIMES = 4,        /* a chunk on the host that is one block may grow to so many times its first size, */
  ROOM_LEAST = 32 << 20, /* or to so many bytes if that is more, */
  ROOM_SHARE = 4,        /* any other one by a quarter, because a small block in use would keep it from going back */
  WARM_BYTES = 1 << 17,  /* given to headroom at the end of a run: 32 pages take 0.05 to 0.1 ms */
};

reed_status memory_take(pool *p, int64_t bytes, int64_t room_bytes, void **out_data, reed_diagnosis *refused) {
  const device_interface *on = p->device->interface;
  return p->memory == POOL_PINNED ? on->allocate_pinned(p->device, bytes, out_data, refused)
                                  : on->allocate(p->device, bytes, room_bytes, out_data, refused);
}

void memory_give(pool *p, void *data) {
  const device_interface *on = p->device->interface;
  if (p->memory == POOL_PINNED) on->release_pinned(p->device, data);
  else on->release(p->device, data, p->queue);
}

bool memory_extend(pool *p, void *data, int64_t bytes) {
  const device_interface *on = p->device->interface;
  return p->memory != POOL_PINNED && on->extend && on->extend(p->device, data, bytes);
}

/* True if the system gives the pool's pages one by one, and blocks have headroom. */
static bool gives_pages(const pool *p) { return p->headroom && p->device->interface->host_memory; }

/* The addresses that a chunk of `bytes` should have; 0: as many as the device keeps free. */
static int64_t addresses_of(const pool *p, int64_t bytes) {
  if (!gives_pages(p) || p->memory != POOL_DEVICE || bytes > INT64_MAX / ROOM_TIMES) return 0;
  return bytes * ROOM_TIMES > ROOM_LEAST ? bytes * ROOM_TIMES : ROOM_LEAST;
}

/* A new chunk as one free block. */
static reed_status chunk_take(pool *p, int64_t bytes, reed_diagnosis *refused) {
  void *data;
  reed_status status = memory_take(p, bytes, addresses_of(p, bytes), &data, refused);
  if (status != REED_OK) return status;
  block *b = header_take(p);
  b->storage.data = data;
  b->bytes = b->chunk_bytes = bytes;
  free_add(p, b);
  p->figures.n_device_allocations++;
  count_reserved(p, bytes);
  return REED_OK;
}

int64_t chunks_enough(const pool *p, int64_t bytes) {
  int64_t used = p->figures.used_bytes, most = bytes > INT64_MAX - used ? INT64_MAX : used + bytes;
  if (most < p->peak_used_bytes) most = p->peak_used_bytes;
  return most > INT64_MAX - most / SLACK - CHUNK_BYTES ? INT64_MAX : most + most / SLACK + CHUNK_BYTES;
}

bool chunks_grow(pool *p, int64_t bytes) {
  if (p->memory == POOL_PINNED || !p->device->interface->extend) return false;
  block *best = NULL;
  for (uint64_t mask = p->large_mask; mask; mask &= mask - 1)
    for (block *b = p->large[__builtin_ctzll(mask)]; b; b = b->next)
      if (!b->after && b->bytes < bytes && (!best || b->bytes > best->bytes)) best = b;
  if (!best || !under_cap(p, bytes - best->bytes)) return false;
  const block *first = best;
  while (first->before) first = first->before;
  int64_t more = bytes - best->bytes, chunk = (char *)best->storage.data - (char *)first->storage.data + bytes;
  if (best != first && chunk - first->chunk_bytes > first->chunk_bytes / ROOM_SHARE) return false;
  if (!memory_extend(p, first->storage.data, chunk)) return false;
  free_remove(p, best);
  best->bytes = bytes;
  free_add(p, best);
  count_reserved(p, more);
  return true;
}

/* True if a chunk of `wanted` bytes, of which a request needs `bytes`, leaves the cap's rest to other requests. */
static bool affords(const pool *p, int64_t wanted, int64_t bytes) {
  return under_cap(p, wanted) && (!p->cap_bytes || wanted - bytes <= p->cap_bytes / CAP_SHARE);
}

static int64_t generous(int64_t bytes) { return bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes; }

bool chunks_have_slack(const pool *p, int64_t bytes) {
  return p->figures.reserved_bytes <= chunks_enough(p, bytes) - generous(bytes);
}

reed_status chunks_reserve(pool *p, int64_t bytes, reed_diagnosis *refused) {
  reed_status status = REED_ERROR_MEMORY;
  int64_t wanted = generous(bytes), limit = chunks_enough(p, bytes);
  if (!chunks_have_slack(p, bytes)) {
    int64_t more = p->device->interface->host_memory ? 0 : bytes / SLACK / LARGE_UNIT * LARGE_UNIT;
    wanted = bytes > INT64_MAX - more ? bytes : bytes + more;
    pool_trim(p, limit > wanted ? limit - wanted : 0);
  }
  if (wanted > bytes && affords(p, wanted, bytes)) status = chunk_take(p, wanted, refused);
  if (status == REED_ERROR_MEMORY && under_cap(p, bytes)) status = chunk_take(p, bytes, refused);
  if (status == REED_ERROR_MEMORY && pool_trim(p, 0) > 0 && under_cap(p, bytes)) status = chunk_take(p, bytes, refused);
  return status;
}

int64_t block_roomy(const pool *p, int64_t bytes) {
  int64_t more = pool_headroom(bytes, p->headroom) / LARGE_UNIT * LARGE_UNIT;
  return bytes <= INT64_MAX - more ? bytes + more : bytes;
}

/* Has the system give the block's pages up to `end`, if it lacks some. */
static void warm_up_to(pool *p, block *b, int64_t end) {
  char *cold = (char *)b->storage.data + b->warm_bytes;
  b->warm_bytes += (int64_t)mem_warm(cold, (size_t)(end - b->warm_bytes), p->cancel);
}

void block_warm(pool *p, block *b, int64_t bytes) {
  if (b->warm_bytes >= bytes) return;
  if (!gives_pages(p)) {
    b->warm_bytes = b->bytes; /* the block is written now */
    return;
  }
  const bool has_grown = b->warm_bytes > 0;
  warm_up_to(p, b, has_grown ? bytes : b->bytes);
  if (b->warm_bytes < b->bytes) p->grown = b;
}

void block_warm_more(pool *p) {
  block *b = p->grown;
  if (!b) return;
  const int64_t lacking = b->bytes - b->warm_bytes;
  warm_up_to(p, b, b->warm_bytes + (lacking < WARM_BYTES ? lacking : WARM_BYTES));
  if (b->warm_bytes == b->bytes) p->grown = NULL;
}
