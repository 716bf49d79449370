/* Memory of a CUDA device. A block with room to grow (an arena) has reserved addresses, into which pages are mapped as
 * the block grows, so that its address stays. Other blocks come from a pool of the driver, in the order of a stream of
 * their own: work on a queue waits for the event of the latest allocation, and a release waits for the queue that used
 * the block. Pinned host memory is the driver's. The pool of sessions (allocator/pool.h) stands above this file, so
 * that a steady state calls none of these functions. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/state.h"

/* ---- the table of blocks; all functions under the lock ---- */

/* Number of blocks that begin at or before the pointer. */
static size_t upper_bound(const cuda_blocks *blocks, const char *pointer) {
  size_t low = 0, high = blocks->items.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (blocks->items.items[middle]->data <= pointer) low = middle + 1;
    else high = middle;
  }
  return low;
}

cuda_block *cuda_blocks_find(const cuda_blocks *blocks, const void *pointer) {
  size_t after = upper_bound(blocks, pointer);
  cuda_block *block = after ? blocks->items.items[after - 1] : NULL;
  return block && (const char *)pointer <= block->data + block->bytes ? block : NULL;
}

/* The caller has made room in the table. */
static void add(cuda_device *self, cuda_blocks *blocks, cuda_block *block) {
  size_t at = upper_bound(blocks, block->data), n = blocks->items.n++;
  block->serial = ++self->n_serials;
  memmove(blocks->items.items + at + 1, blocks->items.items + at, (n - at) * sizeof *blocks->items.items);
  blocks->items.items[at] = block;
}

/* Takes the block that begins at `data` out of the table; NULL: no such block. */
static cuda_block *take(cuda_blocks *blocks, const void *data) {
  size_t at = upper_bound(blocks, data);
  cuda_block *block = at ? blocks->items.items[at - 1] : NULL;
  if (!block || block->data != data) return NULL;
  size_t n = --blocks->items.n;
  memmove(blocks->items.items + at - 1, blocks->items.items + at, (n + 1 - at) * sizeof *blocks->items.items);
  return block;
}

/* ---- pages in reserved addresses ---- */

static size_t whole(const cuda_device *self, int64_t bytes) {
  size_t n = bytes ? (size_t)bytes : 1;
  return __builtin_add_overflow(n, self->granularity - 1, &n) ? 0 : n / self->granularity * self->granularity;
}

/* Maps more pages at the end of the block, so that `mapped` bytes of it have pages. */
static cu_result map_more(cuda_device *self, cuda_block *block, size_t mapped) {
  const cuda_driver *cu = &self->driver;
  const cu_location here = {CU_ON_DEVICE, self->ordinal};
  const cu_allocation_properties properties = {.type = CU_PINNED, .location = here};
  const cu_access access = {here, CU_READ_WRITE};
  cuda_mapping made = {block->mapped, mapped - block->mapped};
  const cu_pointer at = (cu_pointer)(uintptr_t)block->data + made.at;
  cu_memory pages;
  if (!VEC_ROOM(&block->mappings)) return CU_OUT_OF_MEMORY;
  cu_result result = cu->memory_create(&pages, made.bytes, &properties, 0);
  if (result) return result;
  result = cu->memory_map(at, made.bytes, 0, pages, 0);
  (void)cu->memory_release(pages); /* the mapping keeps the pages */
  if (result) return result;
  result = cu->memory_access(at, made.bytes, &access, 1);
  if (result) {
    (void)cu->memory_unmap(at, made.bytes);
    return result;
  }
  block->mappings.items[block->mappings.n++] = made;
  block->mapped = mapped;
  return CU_SUCCESS;
}

/* Gives pages, addresses and record back. */
static void unmap(cuda_device *self, cuda_block *block) {
  for (size_t i = 0; i < block->mappings.n; i++)
    (void)self->driver.memory_unmap((cu_pointer)(uintptr_t)block->data + block->mappings.items[i].at,
                                    block->mappings.items[i].bytes);
  if (block->data) (void)self->driver.address_free((cu_pointer)(uintptr_t)block->data, block->reserved);
  if (block->done) (void)self->driver.event_destroy(block->done);
  VEC_FREE(&block->mappings);
  mem_free(block);
}

void cuda_reap(cuda_device *self, bool all) {
  uv_mutex_lock(&self->lock);
  for (cuda_block **at = &self->retired; *at;) {
    cuda_block *block = *at;
    if (!all && self->driver.event_query(block->done)) { /* not done, or not known to be */
      at = &block->next;
      continue;
    }
    *at = block->next;
    unmap(self, block);
  }
  uv_mutex_unlock(&self->lock);
}

/* Gives unused memory back to the driver, and waits for the work before the releases that are enqueued. */
static void reclaim(cuda_device *self) {
  uv_mutex_lock(&self->lock);
  for (const cuda_block *block = self->retired; block; block = block->next)
    (void)self->driver.event_synchronize(block->done);
  uv_mutex_unlock(&self->lock);
  cuda_reap(self, false);
  (void)self->driver.stream_synchronize(self->memory);
  (void)self->driver.pool_trim(self->pool, 0);
}

static cu_result reserve(cuda_device *self, cuda_block *block, int64_t bytes, int64_t room_bytes) {
  cu_pointer data = 0;
  const size_t mapped = whole(self, bytes), reserved = whole(self, room_bytes);
  if (!mapped || !reserved) return CU_OUT_OF_MEMORY;
  cu_result result = self->driver.address_reserve(&data, reserved, 0, 0, 0);
  if (result) return result;
  block->data = (char *)(uintptr_t)data;
  block->reserved = reserved;
  result = self->driver.event_create(&block->done, CU_EVENT_NO_TIMING);
  return result ? result : map_more(self, block, mapped);
}

/* ---- blocks ---- */

static cu_result from_pool(cuda_device *self, cuda_block *block, int64_t bytes) {
  cu_pointer data = 0;
  uv_mutex_lock(&self->lock);
  cu_result result = self->driver.pool_allocate(&data, bytes ? (size_t)bytes : 1, self->pool, self->memory);
  if (!result) {
    result = self->driver.event_record(self->given, self->memory);
    if (result) (void)self->driver.pool_free(data, self->memory);
    else atomic_fetch_add(&self->n_given, 1);
  }
  uv_mutex_unlock(&self->lock);
  if (!result) block->data = (char *)(uintptr_t)data;
  return result;
}

/* Takes memory for the block; when there is none, gives unused memory back to the driver and tries once more. */
static cu_result obtain(cuda_device *self, cuda_block *block, int64_t bytes, int64_t room_bytes) {
  for (int attempt = 0;; attempt++) {
    cu_result result = room_bytes > bytes ? reserve(self, block, bytes, room_bytes) : from_pool(self, block, bytes);
    if (!result) return result;
    if (block->data) (void)self->driver.address_free((cu_pointer)(uintptr_t)block->data, block->reserved);
    if (block->done) (void)self->driver.event_destroy(block->done);
    VEC_FREE(&block->mappings);
    *block = (cuda_block){0};
    if (result != CU_OUT_OF_MEMORY || attempt) return result;
    reclaim(self);
  }
}

static reed_status refuse(cuda_device *self, cu_result result, int64_t bytes, reed_diagnosis *diagnosis) {
  size_t available = 0, total = 0;
  if (result && result != CU_OUT_OF_MEMORY) return cuda_check(self, result, "memory cannot be allocated", diagnosis);
  (void)self->driver.memory_info(&available, &total);
  return diag_fail(diagnosis, REED_ERROR_MEMORY,
                   "device '%s': no memory for %lld bytes (%lld are in use by this process's sessions; of the card's "
                   "%lld, %lld are free)",
                   self->base.name, (long long)bytes, (long long)atomic_load(&self->figures.live_bytes),
                   (long long)self->figures.total_bytes, (long long)available);
}

/* False if the calling thread is recording a graph, because memory must not change during a recording. */
static bool may_change_memory(cuda_device *self, const char *what) {
  device_graph *graph = cuda_graph_recording(self);
  if (graph) cuda_graph_spoil(graph, what);
  return !graph;
}

reed_status cuda_allocate(device *base, int64_t bytes, int64_t room_bytes, void **out_data, reed_diagnosis *diagnosis) {
  cuda_device *self = (cuda_device *)base;
  assert(bytes >= 0);
  if (!may_change_memory(self, "allocated memory"))
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%s': memory was asked for while a graph is recorded",
                     base->name);
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  cuda_block *block = figures_hold(&self->figures, bytes) ? mem_calloc(1, sizeof *block) : NULL;
  uv_mutex_lock(&self->lock);
  bool room = block && VEC_RESERVE(&self->blocks.items, self->blocks.items.n + 1);
  uv_mutex_unlock(&self->lock);
  cu_result result = room ? obtain(self, block, bytes, room_bytes) : CU_OUT_OF_MEMORY;
  if (result) {
    status = refuse(self, result, bytes, diagnosis);
    mem_free(block);
  } else {
    block->bytes = bytes;
    uv_mutex_lock(&self->lock);
    /* Another thread may have used the room made above. */
    room = VEC_ROOM(&self->blocks.items);
    if (room) add(self, &self->blocks, block);
    uv_mutex_unlock(&self->lock);
    if (room) {
      figures_add(&self->figures, bytes);
      *out_data = block->data;
    } else {
      if (block->reserved) {
        unmap(self, block);
      } else {
        (void)self->driver.pool_free((cu_pointer)(uintptr_t)block->data, self->memory);
        mem_free(block);
      }
      status = refuse(self, CU_OUT_OF_MEMORY, bytes, diagnosis);
    }
  }
  cuda_leave(self);
  return status;
}

bool cuda_extend(device *base, void *data, int64_t bytes) {
  cuda_device *self = (cuda_device *)base;
  if (!figures_hold(&self->figures, bytes) || !may_change_memory(self, "grew memory")) return false;
  uv_mutex_lock(&self->lock);
  cuda_block *block = cuda_blocks_find(&self->blocks, data);
  uv_mutex_unlock(&self->lock);
  assert(block && block->data == data && bytes >= block->bytes);
  const size_t mapped = whole(self, bytes);
  if (!block->reserved || !mapped || mapped > block->reserved || cuda_enter(self, NULL) != REED_OK) return false;
  cu_result result = mapped > block->mapped ? map_more(self, block, mapped) : CU_SUCCESS;
  if (result == CU_OUT_OF_MEMORY) {
    reclaim(self);
    result = map_more(self, block, mapped);
  }
  cuda_leave(self);
  if (result) return false;
  uv_mutex_lock(&self->lock);
  int64_t more = bytes - block->bytes;
  block->bytes = bytes;
  uv_mutex_unlock(&self->lock);
  figures_grow(&self->figures, more);
  return true;
}

/* Returns the block once the work on `after` is done. Called under the lock. */
static void give_back(cuda_device *self, cuda_block *block, cuda_queue *after) {
  const cuda_driver *cu = &self->driver;
  if (block->reserved) {
    if (after && cu->event_record(block->done, after->stream)) (void)cu->stream_synchronize(after->stream);
    block->next = self->retired;
    self->retired = block;
    return;
  }
  if (after && (cu->event_record(self->returned, after->stream) || cu->stream_wait(self->memory, self->returned, 0)))
    (void)cu->stream_synchronize(after->stream);
  (void)cu->pool_free((cu_pointer)(uintptr_t)block->data, self->memory);
  mem_free(block);
}

void cuda_release(device *base, void *data, device_queue *after) {
  cuda_device *self = (cuda_device *)base;
  cuda_queue *queue = (cuda_queue *)after;
  if (!data) return;
  (void)may_change_memory(self, "released memory");
  bool entered = cuda_enter_again(self, NULL) == REED_OK;
  uv_mutex_lock(&self->lock);
  cuda_block *block = take(&self->blocks, data);
  assert(block && "not a block of this device, or released before");
  const uint64_t serial = block ? block->serial : 0;
  if (block) figures_grow(&self->figures, -block->bytes);
  if (block && queue && queue->recording) {
    block->next = queue->withheld;
    queue->withheld = block;
  } else if (block) {
    give_back(self, block, queue);
  }
  uv_mutex_unlock(&self->lock);
  if (self->library && serial) self->library->forget(self, serial, after);
  if (!entered) return;
  cuda_reap(self, false);
  cuda_leave(self);
}

void cuda_release_withheld(cuda_queue *queue) {
  cuda_device *self = cuda_of(&queue->base);
  uv_mutex_lock(&self->lock);
  while (queue->withheld) {
    cuda_block *block = queue->withheld;
    queue->withheld = block->next;
    give_back(self, block, queue);
  }
  uv_mutex_unlock(&self->lock);
}

bool cuda_holds(device *base, const void *data, int64_t bytes) {
  cuda_device *self = (cuda_device *)base;
  const cu_pointer at = (cu_pointer)(uintptr_t)data;
  uv_mutex_lock(&self->lock);
  const cuda_block *block = cuda_blocks_find(&self->blocks, data);
  bool inside = block && bytes <= block->bytes - ((const char *)data - block->data);
  uv_mutex_unlock(&self->lock);
  if (inside || cuda_enter(self, NULL) != REED_OK) return inside;
  /* Memory that another library allocated on the same card */
  unsigned type = 0;
  int ordinal = -1;
  cu_pointer begin = 0;
  size_t n = 0;
  inside = !self->driver.pointer_attribute(&type, CU_MEMORY_TYPE, at) && type == CU_TYPE_DEVICE &&
           !self->driver.pointer_attribute(&ordinal, CU_POINTER_ORDINAL, at) && ordinal == self->ordinal &&
           !self->driver.pointer_attribute(&begin, CU_RANGE_BEGIN, at) &&
           !self->driver.pointer_attribute(&n, CU_RANGE_BYTES, at) && at >= begin &&
           (size_t)bytes <= n - (size_t)(at - begin);
  cuda_leave(self);
  return inside;
}

/* ---- pinned host memory ---- */

reed_status cuda_allocate_pinned(device *base, int64_t bytes, void **out_data, reed_diagnosis *diagnosis) {
  cuda_device *self = (cuda_device *)base;
  assert(bytes >= 0);
  reed_status status = cuda_enter(self, diagnosis);
  if (status != REED_OK) return status;
  cuda_block *block = mem_calloc(1, sizeof *block);
  void *data = NULL;
  cu_result result =
      block ? self->driver.host_allocate(&data, bytes ? (size_t)bytes : 1, CU_HOST_PORTABLE | CU_HOST_MAPPED)
            : CU_OUT_OF_MEMORY;
  bool room = false;
  if (!result) {
    *block = (cuda_block){.data = data, .bytes = bytes};
    uv_mutex_lock(&self->lock);
    room = VEC_ROOM(&self->pinned.items);
    if (room) add(self, &self->pinned, block);
    uv_mutex_unlock(&self->lock);
    if (!room) (void)self->driver.host_free(data);
  }
  cuda_leave(self);
  if (room) {
    atomic_fetch_add(&self->pinned_bytes, bytes);
    *out_data = data;
    return REED_OK;
  }
  mem_free(block);
  if (result && result != CU_OUT_OF_MEMORY)
    return cuda_check(self, result, "pinned host memory cannot be allocated", diagnosis);
  return diag_fail(diagnosis, REED_ERROR_MEMORY, "device '%s': no pinned host memory for %lld bytes", base->name,
                   (long long)bytes);
}

void cuda_release_pinned(device *base, void *data) {
  cuda_device *self = (cuda_device *)base;
  if (!data) return;
  uv_mutex_lock(&self->lock);
  cuda_block *block = take(&self->pinned, data);
  uv_mutex_unlock(&self->lock);
  assert(block && "not pinned memory of this device");
  if (!block) return;
  atomic_fetch_sub(&self->pinned_bytes, block->bytes);
  if (cuda_enter_again(self, NULL) == REED_OK) {
    (void)self->driver.host_free(data);
    cuda_leave(self);
  }
  mem_free(block);
}

void cuda_memory(device *base, device_memory *out_memory) {
  cuda_device *self = (cuda_device *)base;
  figures_read(&self->figures, out_memory);
  out_memory->pinned_bytes = atomic_load(&self->pinned_bytes);
  out_memory->n_unpinned_copies = atomic_load(&self->n_unpinned_copies);
}

/* ---- fault records ---- */

reed_status cuda_fault_open(cuda_device *self, cuda_fault **out_fault, reed_diagnosis *diagnosis) {
  enum { PAGE_BYTES = 4096, N = PAGE_BYTES / (int)sizeof(cuda_fault) };
  uv_mutex_lock(&self->lock);
  void *page = NULL;
  reed_status status = REED_OK;
  if (!self->faults.n) {
    bool room = VEC_RESERVE(&self->faults, (self->fault_pages.n + 1) * N) && VEC_ROOM(&self->fault_pages);
    status = room ? cuda_check(self, self->driver.host_allocate(&page, PAGE_BYTES, CU_HOST_PORTABLE | CU_HOST_MAPPED),
                               "no pinned memory for records of faults", diagnosis)
                  : diag_no_memory(diagnosis, "records of faults");
    if (status == REED_OK) self->fault_pages.items[self->fault_pages.n++] = page;
    for (int i = N; status == REED_OK && i-- > 0;) self->faults.items[self->faults.n++] = (cuda_fault *)page + i;
  }
  if (status == REED_OK) {
    *out_fault = self->faults.items[--self->faults.n];
    **out_fault = (cuda_fault){0};
  }
  uv_mutex_unlock(&self->lock);
  return status;
}

void cuda_fault_close(cuda_device *self, cuda_fault *fault) {
  uv_mutex_lock(&self->lock);
  if (fault) self->faults.items[self->faults.n++] = fault;
  uv_mutex_unlock(&self->lock);
}

void cuda_memory_close(cuda_device *self) {
  while (self->blocks.items.n) cuda_release(&self->base, self->blocks.items.items[0]->data, NULL);
  while (self->pinned.items.n) cuda_release_pinned(&self->base, self->pinned.items.items[0]->data);
  cuda_reap(self, true);
  for (size_t i = 0; i < self->fault_pages.n; i++) (void)self->driver.host_free(self->fault_pages.items[i]);
  VEC_FREE(&self->blocks.items);
  VEC_FREE(&self->pinned.items);
  VEC_FREE(&self->faults);
  VEC_FREE(&self->fault_pages);
}
