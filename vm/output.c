/* The store of output tensors: blocks of host memory that callers give back by closing a tensor. Whether an epoch's
 * root comes from the store is decided in epoch/place.c. A free block serves a request when it is large enough and at
 * most four times as large; beyond OUTPUT_MAX_FREE blocks the least recently returned one is freed. */
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "vm/tensor.h"

#define OUTPUT_MAX_FREE 32

typedef struct output_block {
  storage storage; /* first: referred to by registers. The tensor, once given to the caller, holds a reference too */
  reed_tensor tensor;
  bool given;
  output_store *store;
  struct output_block *next; /* free list, latest returned first */
  int64_t capacity;
} output_block;

struct output_store {
  uv_mutex_t mutex;
  device *pinned_for; /* one reference; NULL: memory of the heap */
  int64_t n_out;      /* blocks with callers */
  bool closed;
  int32_t n_free;
  output_block *free;
};

reed_status output_store_open(device *pinned_for, output_store **out_store) {
  output_store *store = mem_calloc(1, sizeof *store);
  if (!store) return REED_ERROR_MEMORY;
  if (uv_mutex_init(&store->mutex) != 0) {
    mem_free(store);
    return REED_ERROR_MEMORY;
  }
  store->pinned_for = pinned_for;
  if (pinned_for) device_retain(pinned_for);
  *out_store = store;
  return REED_OK;
}

static void block_free(output_block *block) {
  device *on = block->store->pinned_for;
  if (on) on->interface->release_pinned(on, block->storage.data);
  else mem_free_aligned(block->storage.data);
  mem_free(block);
}

static void store_free(output_store *store) {
  uv_mutex_destroy(&store->mutex);
  device_close(&store->pinned_for);
  mem_free(store);
}

void output_store_close(output_store **store_slot) {
  output_store *store = *store_slot;
  *store_slot = NULL;
  if (!store) return;
  uv_mutex_lock(&store->mutex);
  store->closed = true;
  output_block *blocks = store->free;
  store->free = NULL;
  bool last = store->n_out == 0;
  uv_mutex_unlock(&store->mutex);
  while (blocks) {
    output_block *next = blocks->next;
    block_free(blocks);
    blocks = next;
  }
  if (last) store_free(store);
}

/* Takes back a block whose last reference was dropped. */
static void give_back(storage *s) {
  output_block *block = (output_block *)s, *surplus = NULL;
  output_store *store = block->store;
  uv_mutex_lock(&store->mutex);
  store->n_out--;
  bool closed = store->closed, last = closed && store->n_out == 0;
  if (closed) {
    surplus = block;
  } else {
    block->next = store->free;
    store->free = block;
    if (++store->n_free > OUTPUT_MAX_FREE) {
      output_block **at = &store->free;
      while ((*at)->next) at = &(*at)->next;
      surplus = *at;
      *at = NULL;
      store->n_free--;
    }
  }
  uv_mutex_unlock(&store->mutex);
  if (surplus) block_free(surplus);
  if (last) store_free(store);
}

static output_block *take_free(output_store *store, int64_t bytes) {
  uv_mutex_lock(&store->mutex);
  output_block *found = NULL;
  for (output_block **at = &store->free; *at; at = &(*at)->next)
    if ((*at)->capacity >= bytes && (*at)->capacity / 4 <= bytes + 64) {
      found = *at;
      *at = found->next;
      store->n_free--;
      break;
    }
  store->n_out++;
  uv_mutex_unlock(&store->mutex);
  return found;
}

static void *memory_take(output_store *store, int64_t bytes) {
  void *data = NULL;
  device *on = store->pinned_for;
  if (!on) return mem_alloc_bulk((size_t)bytes);
  return on->interface->allocate_pinned(on, bytes, &data, NULL) == REED_OK ? data : NULL;
}

reed_status output_allocate(output_store *store, int64_t bytes, storage **out_storage) {
  output_block *block = take_free(store, bytes);
  if (!block) {
    block = mem_calloc(1, sizeof *block);
    if (block) block->storage.data = memory_take(store, bytes);
    if (!block || !block->storage.data) {
      mem_free(block);
      uv_mutex_lock(&store->mutex);
      store->n_out--;
      uv_mutex_unlock(&store->mutex);
      return REED_ERROR_MEMORY;
    }
    block->store = store;
    block->capacity = bytes;
  }
  block->given = false;
  block->storage =
      (storage){.n_references = 1, .device = 0, .data = block->storage.data, .bytes = bytes, .release = give_back};
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
                                .desc = *desc,
                                .elements = desc_elements(desc),
                                .bytes = bytes,
                                .data = s->data,
                                .release = drop_tensor,
                                .context = s};
  storage_retain(s);
  return &block->tensor;
}

reed_status output_open(output_store *store, const reed_desc *desc, reed_tensor **out_tensor) {
  storage *s;
  reed_status status = output_allocate(store, desc_bytes(desc), &s);
  if (status != REED_OK) return status;
  *out_tensor = output_give(s, s->data, desc);
  storage_release(s);
  return REED_OK;
}
