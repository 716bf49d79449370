/* The pool's chunks, blocks, slabs and arenas. Offsets inside an arena are planned in plan.c.
 *
 * All memory is described by one kind of header, `block`. A chunk is one allocation of the device, cut into a row of
 * large blocks; a large block is linked to its neighbours by address, and a free block without neighbours is a whole
 * chunk. A slab is a large block in use that is carved into objects of one size class, each with a header of its own.
 * Headers come in batches from the heap, are used again, and are freed when the pool closes.
 *
 * Free large blocks are listed by the power of two of their size. The best fit is the smallest block that fits in the
 * request's own list, else the smallest block of the next list that is not empty; on the host, of a pool with headroom
 * and no cap, a block whose pages the system has given comes before one that is new.
 *
 * Of equal blocks, slabs and objects the one with the lowest address is handed out, so that addresses follow from the
 * set of blocks in use, and there of those with pages, and not from the order of earlier releases. A run that repeats
 * the requests of the run before gets the same addresses, and a graph that was recorded with them is replayed. */
#include "allocator/pool.h"

#include <assert.h>
#include <stdio.h>

#include "allocator/chunk.h"
#include "base/mem.h"

enum {
  HEADERS_PER_CALL = 3,  /* most that one allocation uses: a chunk, the rest split off it, and an object */
  KEPT_BYTES = 16 << 20, /* a free block of this size or more is kept for large requests */
  KEPT_SHARE = 16,       /* a request is large for a kept block if it is a sixteenth of the block or more */
};

/* ---- headers and lists ---- */

/* Ensures that the headers for one allocation exist, so that the allocation cannot fail halfway. */
static bool headers_ready(pool *p) {
  if (p->n_spare >= HEADERS_PER_CALL) return true;
  header_batch *batch = mem_alloc(sizeof *batch);
  if (!batch) return false;
  batch->next = p->batches;
  p->batches = batch;
  for (int i = 0; i < HEADER_BATCH; i++) header_give(p, &batch->headers[i]);
  return true;
}

/* ---- large blocks ---- */

/* True if a free block is kept for larger requests than `bytes`, because a small block that stays in use would prevent
 * its use as a whole. */
static bool kept(const block *b, int64_t bytes) { return b->bytes >= KEPT_BYTES && b->bytes / KEPT_SHARE > bytes; }

/* The kept blocks that may be split: none; those with the pages of the request; any, because no other block is left. */
typedef enum kept_split { SPLIT_NONE, SPLIT_WARM, SPLIT_ANY } kept_split;

static bool fits_better(const block *a, const block *b) {
  return a->bytes < b->bytes || (a->bytes == b->bytes && lies_before(a, b));
}

/* The smallest free block of `bytes` whose first `warm_bytes` have pages; NULL: none. break_kept: also a kept one. */
static block *smallest(const pool *p, int64_t bytes, int64_t warm_bytes, bool break_kept) {
  block *best = NULL;
  for (uint64_t mask = p->large_mask & ~0ull << log2_floor(bytes); mask && !best; mask &= mask - 1)
    for (block *b = p->large[__builtin_ctzll(mask)]; b; b = b->next)
      if (b->bytes >= bytes && b->warm_bytes >= warm_bytes && (!best || fits_better(b, best)) &&
          (break_kept || !kept(b, bytes)))
        best = b;
  return best;
}

/* The free block of at least `bytes` that is taken; NULL: none. With headroom on the host, one that has its pages comes
 * first: a smaller arena after a larger one then lies in the memory of the larger one, however large that is. */
static block *best_fit(const pool *p, int64_t bytes, kept_split split) {
  const bool may_be_cold = p->headroom && !p->cap_bytes && p->device->interface->host_memory;
  block *best = may_be_cold ? smallest(p, bytes, bytes, false) : NULL;
  if (!best && may_be_cold && split == SPLIT_WARM) best = smallest(p, bytes, bytes, true);
  return best ? best : smallest(p, bytes, 0, split == SPLIT_ANY);
}

/* Overwrites the bytes of a storage that is new or released, on a device that can, so that a stale read shows. */
static void poison(pool *p, const storage *s) {
  const device_interface *on = p->device->interface;
  if (on->poison && p->queue && p->memory != POOL_PINNED) (void)!on->poison(p->queue, s->data, s->bytes);
}

static void count_used(pool *p, int64_t live, int64_t used) {
  pool_figures *f = &p->figures;
  f->live_bytes += live;
  f->used_bytes += used;
  if (f->peak_live_bytes < f->live_bytes) f->peak_live_bytes = f->live_bytes;
  if (p->peak_used_bytes < f->used_bytes) p->peak_used_bytes = f->used_bytes;
  if (p->window_used_bytes < f->used_bytes) p->window_used_bytes = f->used_bytes;
}

void pool_set_beside(pool *p, int64_t bytes) { p->beside_bytes = bytes; }

void pool_set_headroom(pool *p, int64_t most, const int *cancel) {
  p->headroom = most;
  p->cancel = cancel;
}

int64_t pool_capacity(const storage *s) { return ((const block *)s)->bytes; }

/* Takes `bytes` (a multiple of LARGE_UNIT), with headroom where there is some, from a free block and leaves the rest of
 * it free. */
static block *large_take(pool *p, int64_t bytes, kept_split split) {
  block *b = best_fit(p, bytes, split);
  if (!b) return NULL;
  free_remove(p, b);
  const int64_t wanted = block_roomy(p, bytes);
  bytes = wanted < b->bytes ? wanted : b->bytes;
  if (b->bytes > bytes) {
    block *rest = header_take(p);
    rest->storage.data = (char *)b->storage.data + bytes;
    rest->bytes = b->bytes - bytes;
    rest->warm_bytes = b->warm_bytes > bytes ? b->warm_bytes - bytes : 0;
    rest->before = b;
    rest->after = b->after;
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    if (b->warm_bytes > bytes) b->warm_bytes = bytes;
    free_add(p, rest);
  }
  return b;
}

/* Merges the block after `b` into `b`. */
static void merge_after(pool *p, block *b) {
  block *gone = b->after;
  if (b->warm_bytes == b->bytes) b->warm_bytes += gone->warm_bytes;
  b->bytes += gone->bytes;
  b->after = gone->after;
  if (b->after) b->after->before = b;
  header_give(p, gone);
}

static void large_give(pool *p, block *b) {
  if (b->after && b->after->free) {
    free_remove(p, b->after);
    merge_after(p, b);
  }
  if (b->before && b->before->free) {
    b = b->before;
    free_remove(p, b);
    merge_after(p, b);
  }
  free_add(p, b);
}

/* ---- slabs ---- */

static bool slab_full(const block *slab) {
  int64_t object = class_bytes(slab->class);
  return !slab->objects && (slab->n_carved + 1) * object > slab->bytes;
}

/* A new slab, the only one of its class with room. False: no free block is large enough. */
static bool slab_open(pool *p, int class, kept_split split) {
  block *slab = large_take(p, slab_bytes(class), split);
  if (!slab) return false;
  block_warm(p, slab, slab_bytes(class));
  slab->class = class;
  slab->n_carved = slab->n_used = 0;
  slab->objects = NULL;
  heap_add(&p->slabs[class], slab);
  return true;
}

/* A slab without used objects becomes a free block again. */
static void slab_close(pool *p, block *slab) {
  heap_remove(&p->slabs[slab->class], slab);
  if (p->empty[slab->class] == slab) p->empty[slab->class] = NULL;
  for (block *object; (object = slab->objects) != NULL;) {
    slab->objects = heap_rest(object);
    header_give(p, object);
  }
  large_give(p, slab);
}

static block *small_take(pool *p, int class, kept_split split) {
  block *slab = p->slabs[class];
  if (!slab && !slab_open(p, class, split)) return NULL;
  slab = p->slabs[class];
  block *b = slab->objects;
  if (b) {
    slab->objects = heap_rest(b);
  } else {
    b = header_take(p);
    b->slab = slab;
    b->bytes = class_bytes(class);
    b->storage.data = (char *)slab->storage.data + slab->n_carved++ * b->bytes;
  }
  if (p->empty[class] == slab) p->empty[class] = NULL;
  slab->n_used++;
  if (slab_full(slab)) heap_remove(&p->slabs[class], slab);
  return b;
}

/* An empty slab is kept while it is the only one of its class with room, so that one object coming and going costs
 * nothing. */
static void small_give(pool *p, block *b) {
  block *slab = b->slab;
  if (slab_full(slab)) heap_add(&p->slabs[slab->class], slab);
  heap_add(&slab->objects, b);
  if (--slab->n_used > 0) return;
  if (p->slabs[slab->class] != slab || slab->below) slab_close(p, slab);
  else p->empty[slab->class] = slab;
}

/* ---- the pool ---- */

static void give_back(storage *s) {
  pool *p = s->owner;
  block *b = (block *)s;
  poison(p, s);
  p->figures.live_bytes -= s->bytes;
  p->figures.used_bytes -= b->bytes;
  if (b->slab) small_give(p, b);
  else large_give(p, b);
}

reed_status pool_open(device *dev, device_queue *queue, pool_memory memory, int32_t device_number, int64_t cap_bytes,
                      pool **out_pool) {
  pool *p = mem_calloc(1, sizeof *p);
  if (!p) return REED_ERROR_MEMORY;
  p->device = dev;
  p->queue = queue;
  p->memory = memory;
  p->device_number = device_number;
  p->cap_bytes = cap_bytes;
  device_memory figures;
  dev->interface->memory(dev, &figures);
  p->room_bytes = cap_bytes && cap_bytes < figures.total_bytes ? cap_bytes : figures.total_bytes;
  *out_pool = p;
  return REED_OK;
}

void pool_close(pool **handle) {
  pool *p = *handle;
  if (!p) return;
  assert(p->figures.used_bytes == 0 && "a storage of this pool was not released");
  pool_trim(p, 0);
  while (p->batches) {
    header_batch *next = p->batches->next;
    mem_free(p->batches);
    p->batches = next;
  }
  mem_free(p);
  *handle = NULL;
}

/* taken: of the block that would have the `bytes`. `refused`: the device's last refusal; empty: the cap alone stood in
 * the way. */
static reed_status no_memory(const pool *p, reed_status status, int64_t bytes, int64_t taken,
                             const reed_diagnosis *refused, reed_diagnosis *diagnosis) {
  static const char *const owners[] = {"the session's tensors", "its copies", "the constants"}; /* by pool_memory */
  char cap[96] = "none", part[48] = "";
  if (taken > bytes) snprintf(part, sizeof part, " in a block of %lld", (long long)taken);
  if (status != REED_ERROR_MEMORY) return diag_fail(diagnosis, status, "%s", refused->message);
  if (p->beside_bytes)
    snprintf(cap, sizeof cap, "%lld, of which outputs and objects have %lld", (long long)p->cap_bytes,
             (long long)p->beside_bytes);
  else if (p->cap_bytes) snprintf(cap, sizeof cap, "%lld", (long long)p->cap_bytes);
  return diag_fail(diagnosis, status,
                   "out of %s on device '%s': %lld bytes asked for%s; %s have %lld live, %lld reserved, cap %s%s%s",
                   p->memory == POOL_PINNED ? "pinned host memory" : "memory", p->device->name, (long long)bytes, part,
                   owners[p->memory], (long long)p->figures.live_bytes, (long long)p->figures.reserved_bytes, cap,
                   *refused->message ? "; " : "", refused->message);
}

/* Takes an object of a size class, or a large block (class -1). NULL: no free block is large enough. */
static block *take(pool *p, int class, int64_t bytes, kept_split split) {
  return class >= 0 ? small_take(p, class, split) : large_take(p, bytes, split);
}

reed_status pool_allocate_for(pool *p, pool_use use, int64_t bytes, storage **out_storage, reed_diagnosis *diagnosis) {
  if (bytes < 0) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "storage of %lld bytes", (long long)bytes);
  if (!headers_ready(p)) return diag_no_memory(diagnosis, "headers of storage");
  int class = bytes <= SMALL_MAX ? class_of(bytes ? bytes : 1) : -1;
  int64_t rounded = bytes > INT64_MAX - LARGE_UNIT ? INT64_MAX : (bytes + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
  int64_t least = class >= 0 ? slab_bytes(class) : rounded;
  const kept_split split = use == POOL_ARENA ? SPLIT_WARM : SPLIT_NONE;
  block *b = take(p, class, rounded, split);
  if (!b) { /* order of choice: grow a chunk; else reserve a new chunk if the slack limit allows; else split a block
               kept for large requests; else give free chunks back and reserve a new one */
    reed_status status = REED_ERROR_MEMORY;
    reed_diagnosis refused = {0};
    int64_t wanted = class < 0 ? block_roomy(p, rounded) : least;
    if (class < 0 && (chunks_grow(p, wanted) || chunks_grow(p, rounded))) b = take(p, class, rounded, split);
    bool slack = chunks_have_slack(p, wanted);
    if (!b && slack) status = chunks_reserve(p, wanted, &refused);
    if (!b) b = take(p, class, rounded, SPLIT_ANY);
    if (!b && !slack && (status = chunks_reserve(p, wanted, &refused)) == REED_OK)
      b = take(p, class, rounded, SPLIT_ANY);
    if (!b && wanted > least && (status = chunks_reserve(p, least, &refused)) == REED_OK)
      b = take(p, class, rounded, SPLIT_ANY);
    if (!b) return no_memory(p, status, bytes, least, &refused, diagnosis);
  }
  if (class < 0 && use != POOL_BOUND) block_warm(p, b, rounded);
  b->storage = (storage){.n_references = 1,
                         .device = p->device_number,
                         .data = b->storage.data,
                         .bytes = bytes,
                         .release = give_back,
                         .owner = p};
  p->figures.n_allocations++;
  count_used(p, bytes, b->bytes);
  poison(p, &b->storage);
  *out_storage = &b->storage;
  return REED_OK;
}

/* ---- arenas ---- */

static void arena_give(storage *s) {
  pool *p = s->owner;
  block *b = (block *)s;
  p->figures.live_bytes -= s->bytes;
  p->figures.used_bytes -= b->bytes;
  p->figures.reserved_bytes -= b->bytes;
  memory_give(p, s->data);
  header_give(p, b);
}

/* True if `more` bytes may be reserved under the cap; gives free chunks back to make that possible. */
static bool make_room(pool *p, int64_t more) {
  if (!under_cap(p, more) && more <= p->cap_bytes) pool_trim(p, p->cap_bytes - p->beside_bytes - more);
  return under_cap(p, more);
}

reed_status pool_arena(pool *p, int64_t bytes, storage **arena, reed_diagnosis *diagnosis) {
  if (*arena && (*arena)->bytes >= bytes) return REED_OK;
  int64_t least = bytes > INT64_MAX - LARGE_UNIT ? INT64_MAX : (bytes + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
  int64_t rounded = block_roomy(p, least);
  if (*arena) {
    block *b = (block *)*arena;
    if (!under_cap(p, rounded - b->bytes)) rounded = least;
    int64_t more = rounded - b->bytes;
    if (make_room(p, more) && memory_extend(p, b->storage.data, rounded)) {
      b->bytes = b->storage.bytes = rounded;
      count_reserved(p, more);
      count_used(p, more, more);
      return REED_OK;
    }
    storage_release(*arena); /* freed first: the two need never exist together */
    *arena = NULL;
  }
  if (!headers_ready(p)) return diag_no_memory(diagnosis, "headers of storage");
  if (!under_cap(p, rounded)) rounded = least;
  void *data;
  reed_diagnosis said = {0};
  reed_status status = make_room(p, rounded) ? memory_take(p, rounded, p->room_bytes, &data, &said) : REED_ERROR_MEMORY;
  if (status == REED_ERROR_MEMORY && pool_trim(p, 0) > 0 && under_cap(p, rounded))
    status = memory_take(p, rounded, p->room_bytes, &data, &said);
  if (status == REED_ERROR_MEMORY && rounded > least && under_cap(p, least)) { /* the device has no headroom left */
    rounded = least;
    status = memory_take(p, rounded, p->room_bytes, &data, &said);
  }
  if (status != REED_OK) return no_memory(p, status, bytes, rounded, &said, diagnosis);
  block *b = header_take(p);
  b->bytes = rounded;
  b->storage = (storage){
      .n_references = 1, .device = p->device_number, .data = data, .bytes = rounded, .release = arena_give, .owner = p};
  p->figures.n_device_allocations++;
  p->figures.n_allocations++;
  count_reserved(p, rounded);
  count_used(p, rounded, rounded);
  *arena = &b->storage;
  return REED_OK;
}

/* The free chunk to give back when `excess` bytes are too many: the smallest of at least that size, else the largest.
 * NULL: none is free. */
static block *chunk_to_give(const pool *p, int64_t excess) {
  block *best = NULL;
  for (uint64_t mask = p->large_mask; mask; mask &= mask - 1)
    for (block *b = p->large[__builtin_ctzll(mask)]; b; b = b->next) {
      if (b->before || b->after) continue;
      if (!best || (best->bytes < excess ? b->bytes > best->bytes : b->bytes >= excess && b->bytes < best->bytes))
        best = b;
    }
  return best;
}

/* Makes free blocks of all slabs without used objects. */
static void close_empty_slabs(pool *p) {
  for (int i = 0; i < N_CLASSES; i++)
    if (p->empty[i]) slab_close(p, p->empty[i]);
}

int64_t pool_trim(pool *p, int64_t keep_bytes) {
  int64_t before = p->figures.reserved_bytes;
  if (before <= keep_bytes) return 0;
  close_empty_slabs(p);
  for (block *b; p->figures.reserved_bytes > keep_bytes &&
                 (b = chunk_to_give(p, p->figures.reserved_bytes - keep_bytes)) != NULL;) {
    free_remove(p, b);
    memory_give(p, b->storage.data);
    p->figures.reserved_bytes -= b->bytes;
    header_give(p, b);
  }
  return before - p->figures.reserved_bytes;
}

bool pool_has_excess(const pool *p) { return p->figures.reserved_bytes > chunks_enough(p, 0); }

void pool_trim_excess(pool *p) { pool_trim(p, chunks_enough(p, 0)); }

bool pool_end_run(pool *p) {
  block_warm_more(p);
  if (p->device->interface->record) close_empty_slabs(p);
  if (++p->n_runs < POOL_WINDOW) return false;
  p->n_runs = 0;
  p->peak_used_bytes = p->window_used_bytes;
  p->window_used_bytes = p->figures.used_bytes;
  pool_trim_excess(p);
  return true;
}

void pool_forget_peak(pool *p) {
  p->peak_used_bytes = p->window_used_bytes = p->figures.used_bytes;
  pool_trim_excess(p);
}

/* The largest request that could be served without a device allocation. */
static int64_t largest_free(const pool *p) {
  int64_t largest = 0;
  if (p->large_mask)
    for (block *b = p->large[63 - __builtin_clzll(p->large_mask)]; b; b = b->next)
      if (b->bytes > largest) largest = b->bytes;
  for (int i = N_CLASSES - 1; i >= 0 && class_bytes(i) > largest; i--)
    if (p->slabs[i]) largest = class_bytes(i);
  return largest;
}

void pool_read_figures(const pool *p, pool_figures *out_figures) {
  *out_figures = p->figures;
  int64_t free_bytes = p->figures.reserved_bytes - p->figures.used_bytes;
  out_figures->largest_free_bytes = largest_free(p);
  out_figures->fragmentation = free_bytes > 0 ? 1.0 - (double)out_figures->largest_free_bytes / (double)free_bytes : 0;
}
