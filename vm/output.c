/* A store of output tensors: blocks of host or device memory that callers give back by closing a tensor. Whether an
 * epoch's root comes from a store is decided in devices.c. The smallest free block serves a request that is large
 * enough and at most four times as large. A request of 64 KiB or more gets one up to 128 times as large (16 times, of
 * memory that is not the heap's) if fewer bytes than it asks for are out: so one block serves few boxes and many, and
 * no row of outputs that a caller keeps. Such a use does not count when blocks that a window of runs has not used are
 * freed. Beyond most_free blocks the least recently returned one is freed. With headroom a new block is larger than
 * asked for (pool_headroom), and its pages are warm. A new block for an output whose extents have declared ranges is as
 * large as the output can be, and only its pages have headroom. Without ranges a mapping of its own has addresses for
 * several times as much: an output that grows from run to run, as one with a row for each box does, takes the pages
 * that it lacks and no new block.
 *
 * A tensor of a device that is closed while a stream of the caller's may still use it has an event on that stream: its
 * block serves no request before the event, and is released after it. */
#include "vm/output.h"

#include <string.h>
#include <uv.h>

#include "allocator/pool.h"
#include "base/hook.h"
#include "base/kept.h"
#include "base/mem.h"
#include "base/strides.h"
#include "vm/tensor.h"

enum {
  WARM_FROM = 4096,              /* smaller blocks share pages with others, and get no headroom */
  ROOMY_FROM = KEPT_MAPPED_FROM, /* blocks from this size on, */
  ROOMY_TIMES = 4,               /* have addresses for so many times as much */
  MOST_TIMES = 4,                /* a block serves a request so many times smaller, */
  ALONE_TIMES = 128,             /* or so many if fewer bytes are out than are asked for, */
  ALONE_TIMES_OTHERS = 16,       /* and so many of memory that is not the heap's */
};

typedef struct output_block {
  storage storage; /* first: referred to by registers. The tensor, once given to the caller, holds a reference too */
  reed_tensor tensor;
  bool given;
  output_store *store;
  struct output_block *next; /* free list, latest returned first */
  int64_t capacity;
  int64_t warm_bytes; /* the system has given the pages of so many bytes */
  bool spread;        /* only warm_bytes of the capacity are in memory */
  bool far_larger;    /* than four times its last request */
  int64_t window;     /* the window of runs in which the block was last given out */
  int64_t stream;     /* of the caller, that may use the tensor; 0: none */
  device_event *used; /* the stream's work when the tensor was closed; NULL: never on a stream */
} output_block;

struct output_store {
  uv_mutex_t mutex;
  output_memory memory;
  device *on;          /* one reference; NULL: memory of the heap */
  device_queue *queue; /* of the session; with OUTPUT_DEVICE, until the store is closed */
  int32_t number;
  int64_t n_users; /* blocks of registers and callers; functions that use the store after it is closed */
  bool closed;
  int32_t n_free, most_free;
  int64_t headroom;          /* the most of a block */
  const int *cancel;         /* of the session that allocates */
  int64_t stream;            /* of the caller; 0: none */
  int64_t window;            /* of runs, counted from 0 */
  int64_t most, most_before; /* reserved bytes in this window and in the one before, at most */
  output_block *free;
  output_figures figures;
};

reed_status output_store_open(output_memory memory, device *on, device_queue *queue, int32_t number, int32_t most_free,
                              output_store **out_store) {
  output_store *store = mem_calloc(1, sizeof *store);
  if (!store) return REED_ERROR_MEMORY;
  if (uv_mutex_init(&store->mutex) != 0) {
    mem_free(store);
    return REED_ERROR_MEMORY;
  }
  store->memory = memory;
  store->on = on;
  store->queue = queue;
  store->number = number;
  store->most_free = most_free;
  if (on) device_retain(on);
  *out_store = store;
  return REED_OK;
}

static bool in_use(const output_store *store, const output_block *block) {
  return block->used && !store->on->interface->event_done(store->on, block->used);
}

/* Releases the block after the caller's work on it, which a queue of its own waits for where the session's cannot. */
static void release_used(const output_store *store, output_block *block, device_queue *after) {
  const device_interface *on = store->on->interface;
  device_queue *own = NULL;
  if (in_use(store, block)) {
    if (!after && on->queue_open(store->on, DEVICE_COMPUTE, &own, NULL) == REED_OK) after = own;
    if (!after || on->event_wait(after, block->used, NULL) != REED_OK)
      while (in_use(store, block)) uv_sleep(1);
  }
  on->release(store->on, block->storage.data, after);
  if (own) on->queue_close(own);
  if (block->used) on->event_close(store->on, block->used);
}

/* after: the queue whose work may still use a block of a device; NULL: none. */
static void block_free(output_store *store, output_block *block, device_queue *after) {
  device *on = store->on;
  void *data = block->storage.data;
  switch (store->memory) {
    case OUTPUT_HEAP: mem_free_aligned(data); break;
    case OUTPUT_PINNED: on->interface->release_pinned(on, data); break;
    case OUTPUT_DEVICE: release_used(store, block, after); break;
  }
  mem_free(block);
}

static void store_free(output_store *store) {
  uv_mutex_destroy(&store->mutex);
  device_close(&store->on);
  mem_free(store);
}

/* The bytes that the block has in memory. */
static int64_t held_bytes(const output_block *block) { return block->spread ? block->warm_bytes : block->capacity; }

static void count_reserved(output_store *store, int64_t bytes) {
  store->figures.reserved_bytes += bytes;
  if (store->most < store->figures.reserved_bytes) store->most = store->figures.reserved_bytes;
}

/* Takes the least recently returned of the free blocks beyond `keep`, as a list. The mutex is held. */
static output_block *take_surplus(output_store *store, int32_t keep) {
  output_block **at = &store->free;
  for (int32_t i = 0; i < keep && *at; i++) at = &(*at)->next;
  output_block *surplus = *at;
  *at = NULL;
  for (output_block *block = surplus; block; block = block->next) {
    store->n_free--;
    store->figures.reserved_bytes -= held_bytes(block);
  }
  return surplus;
}

static void blocks_free(output_store *store, output_block *blocks, device_queue *after) {
  while (blocks) {
    output_block *next = blocks->next;
    block_free(store, blocks, after);
    blocks = next;
  }
}

void output_store_set_headroom(output_store *store, int64_t most, const int *cancel) {
  store->headroom = most;
  store->cancel = cancel;
}

void output_store_set_stream(output_store *store, int64_t stream) { store->stream = stream; }

int64_t output_store_end_window(output_store *store) {
  output_block *old = NULL;
  uv_mutex_lock(&store->mutex);
  for (output_block **at = &store->free; *at;) {
    output_block *block = *at;
    if (block->window == store->window) {
      at = &block->next;
      continue;
    }
    *at = block->next;
    block->next = old;
    old = block;
    store->n_free--;
    store->figures.reserved_bytes -= held_bytes(block);
  }
  store->window++;
  int64_t most = store->most, before = store->most_before;
  store->most_before = most;
  store->most = store->figures.reserved_bytes;
  uv_mutex_unlock(&store->mutex);
  blocks_free(store, old, store->queue);
  return store->memory == OUTPUT_HEAP && most < before / 2 ? before - most : 0;
}

void output_store_trim(output_store *store, int32_t keep) {
  uv_mutex_lock(&store->mutex);
  output_block *surplus = take_surplus(store, keep);
  uv_mutex_unlock(&store->mutex);
  blocks_free(store, surplus, store->queue);
}

/* Drops one user of the store. The last user of a closed store frees it. */
static void leave(output_store *store) {
  uv_mutex_lock(&store->mutex);
  bool last = --store->n_users == 0 && store->closed;
  uv_mutex_unlock(&store->mutex);
  if (last) store_free(store);
}

void output_store_close(output_store **store_slot) {
  output_store *store = *store_slot;
  *store_slot = NULL;
  if (!store) return;
  uv_mutex_lock(&store->mutex);
  store->closed = true;
  store->n_users++;
  output_block *blocks = take_surplus(store, 0);
  uv_mutex_unlock(&store->mutex);
  blocks_free(store, blocks, NULL);
  leave(store);
}

output_figures output_store_figures(output_store *store) {
  uv_mutex_lock(&store->mutex);
  output_figures figures = store->figures;
  figures.held_bytes = figures.reserved_bytes + (store->n_users + store->n_free) * (int64_t)sizeof(output_block);
  uv_mutex_unlock(&store->mutex);
  return figures;
}

/* The last reference is gone. A block of a device may have work queued that uses it, and another thread may be here: so
 * surplus blocks of a device stay until the session's thread trims them. */
static void give_back(storage *s) {
  output_block *block = (output_block *)s, *surplus = NULL;
  output_store *store = block->store;
  if (block->given && block->stream &&
      store->on->interface->stream_record(store->on, block->stream, block->used, NULL) != REED_OK)
    (void)!store->on->interface->stream_record(store->on, block->stream, block->used,
                                               NULL); /* the stream may be gone */
  uv_mutex_lock(&store->mutex);
  store->figures.live_bytes -= s->bytes;
  if (!block->far_larger) block->window = store->window;
  block->next = store->free;
  store->free = block;
  store->n_free++;
  if (store->closed) surplus = take_surplus(store, 0);
  else if (store->memory != OUTPUT_DEVICE) surplus = take_surplus(store, store->most_free);
  uv_mutex_unlock(&store->mutex);
  blocks_free(store, surplus, NULL);
  leave(store);
}

/* True if the block suits the request better: it has less memory than the other one but enough, or more memory where
 * neither has enough. */
static bool suits_better(const output_block *block, const output_block *other, int64_t bytes) {
  int64_t a = held_bytes(block), b = held_bytes(other);
  return b < bytes ? a > b : a >= bytes && a < b;
}

/* Takes the free block that suits the request best, and of equal ones the one returned last; NULL: none. The mutex is
 * held. */
static output_block *take_free(output_store *store, int64_t bytes) {
  output_block **best = NULL;
  const bool alone = bytes >= ROOMY_FROM && store->figures.live_bytes < bytes;
  const int64_t times = !alone ? MOST_TIMES : store->memory == OUTPUT_HEAP ? ALONE_TIMES : ALONE_TIMES_OTHERS;
  for (output_block **at = &store->free; *at; at = &(*at)->next)
    if ((*at)->capacity >= bytes && !in_use(store, *at) && held_bytes(*at) / times <= bytes + 64 &&
        (!best || suits_better(*at, *best, bytes)))
      best = at;
  if (!best) return NULL;
  output_block *found = *best;
  *best = found->next;
  found->far_larger = held_bytes(found) / MOST_TIMES > bytes + 64;
  store->n_free--;
  return found;
}

/* Memory of `bytes`, of which the first `used` are needed now. */
static reed_status memory_take(output_store *store, int64_t used, int64_t bytes, void **out_data,
                               reed_diagnosis *diagnosis) {
  device *on = store->on;
  switch (store->memory) {
    case OUTPUT_HEAP: *out_data = kept_alloc((size_t)used, (size_t)bytes); break;
    case OUTPUT_PINNED: return on->interface->allocate_pinned(on, bytes, out_data, diagnosis);
    case OUTPUT_DEVICE: return on->interface->allocate(on, bytes, 0, out_data, diagnosis);
  }
  return *out_data ? REED_OK : diag_no_memory(diagnosis, "an output tensor");
}

/* A new block; its memory has `bytes` or more. */
static reed_status block_open(output_store *store, int64_t bytes, int64_t capacity, output_block **out_block,
                              reed_diagnosis *diagnosis) {
  output_block *block = mem_calloc(1, sizeof *block);
  if (!block) return diag_no_memory(diagnosis, "an output tensor");
  reed_status status = memory_take(store, bytes, capacity, &block->storage.data, capacity > bytes ? NULL : diagnosis);
  if (status != REED_OK && capacity > bytes)
    status = memory_take(store, bytes, capacity = bytes, &block->storage.data, diagnosis);
  if (status != REED_OK) {
    mem_free(block);
    return status;
  }
  block->store = store;
  block->capacity = capacity;
  *out_block = block;
  return REED_OK;
}

static int64_t with_headroom(const output_store *store, int64_t bytes) {
  int64_t more = bytes >= WARM_FROM ? pool_headroom(bytes, store->headroom) : 0;
  return bytes <= INT64_MAX - more ? bytes + more : bytes;
}

/* The bytes of a new block. Memory of the heap is there when it is first used, so a declared bound costs addresses
 * only; any other memory is taken whole, and then not for outputs far below their bound. most: the bound; 0: none.
 * cold: the block will not be warmed, so it cannot be told how much of it is in memory. */
static int64_t new_capacity(const output_store *store, int64_t bytes, int64_t most, bool cold) {
  int64_t capacity = with_headroom(store, bytes);
  if (!store->headroom || bytes < WARM_FROM || cold) return capacity;
  bool heap = store->memory == OUTPUT_HEAP;
  if (most >= bytes && (heap || most / 4 <= bytes)) return most;
  bool roomy = heap && !most && bytes >= ROOMY_FROM && hook_is_libc() && bytes <= INT64_MAX / ROOMY_TIMES;
  return roomy ? bytes * ROOMY_TIMES : capacity;
}

/* Faults in the pages of the block and of its headroom, if no request to the block was as large as `bytes` so far. From
 * the second size on, the headroom reaches to the end of a huge page where there are addresses. */
static void warm(output_store *store, output_block *block, int64_t bytes) {
  if (!store->headroom || store->memory != OUTPUT_HEAP || block->warm_bytes >= bytes) return;
  int64_t end = with_headroom(store, bytes);
  if (store->headroom > POOL_HEADROOM_FIRST) end = (int64_t)kept_whole_pages((size_t)end);
  if (end > block->capacity) end = block->capacity;
  mem_extend_bulk(block->storage.data, (size_t)block->warm_bytes, (size_t)end);
  if (block->capacity >= WARM_FROM)
    end = block->warm_bytes + (int64_t)mem_warm((char *)block->storage.data + block->warm_bytes,
                                                (size_t)(end - block->warm_bytes), store->cancel);
  if (block->spread) {
    uv_mutex_lock(&store->mutex);
    count_reserved(store, end - block->warm_bytes);
    uv_mutex_unlock(&store->mutex);
  }
  block->warm_bytes = end;
}

reed_status output_allocate(output_store *store, int64_t bytes, int64_t most, bool cold, storage **out_storage,
                            reed_diagnosis *diagnosis) {
  uv_mutex_lock(&store->mutex);
  output_block *block = take_free(store, bytes);
  store->n_users++;
  store->figures.live_bytes += bytes;
  uv_mutex_unlock(&store->mutex);
  if (!block) {
    reed_status status = block_open(store, bytes, new_capacity(store, bytes, most, cold), &block, diagnosis);
    uv_mutex_lock(&store->mutex);
    if (status == REED_OK) {
      block->spread = store->memory == OUTPUT_HEAP && block->capacity > with_headroom(store, bytes);
      count_reserved(store, held_bytes(block));
    } else {
      store->n_users--;
      store->figures.live_bytes -= bytes;
    }
    uv_mutex_unlock(&store->mutex);
    if (status != REED_OK) return status;
  }
  if (!cold) warm(store, block, bytes);
  if (!block->far_larger) block->window = store->window;
  block->stream = store->stream;
  block->given = false;
  block->storage = (storage){
      .n_references = 1, .device = store->number, .data = block->storage.data, .bytes = bytes, .release = give_back};
  if (store->stream && !block->used) {
    reed_status status = store->on->interface->event_open(store->on, &block->used, diagnosis);
    if (status != REED_OK) {
      storage_release(&block->storage);
      return status;
    }
  }
  if (store->memory == OUTPUT_DEVICE && store->on->interface->poison)
    (void)!store->on->interface->poison(store->queue, block->storage.data, bytes);
  *out_storage = &block->storage;
  return REED_OK;
}

/* The release function of a tensor that a caller has closed. */
static void drop_tensor(void *context) { storage_release(context); }

reed_tensor *output_give(storage *s, const void *data, const reed_desc *desc) {
  if (!s || s->release != give_back) return NULL;
  output_block *block = (output_block *)s;
  int64_t bytes = desc_bytes(desc);
  if (block->given || data != s->data || s->bytes / 2 > bytes) return NULL;
  block->given = true;
  block->tensor = (reed_tensor){.n_references = 1,
                                .embedded = true,
                                .dense = true,
                                .desc = *desc,
                                .elements = desc_elements(desc),
                                .bytes = bytes,
                                .data = s->data,
                                .release = drop_tensor,
                                .context = s};
  strides_of(desc, -1, 0, block->tensor.strides);
  if (block->store->memory == OUTPUT_DEVICE) device_retain(block->tensor.on = block->store->on);
  storage_retain(s);
  return &block->tensor;
}

reed_status output_open(output_store *store, const reed_desc *desc, reed_tensor **out_tensor,
                        reed_diagnosis *diagnosis) {
  storage *s;
  reed_status status = output_allocate(store, desc_bytes(desc), 0, false, &s, diagnosis);
  if (status != REED_OK) return status;
  *out_tensor = output_give(s, s->data, desc);
  storage_release(s);
  return REED_OK;
}
