/* Copies of packed weights in a library's order (weights.h): made once for a place in a block of memory, and released
 * with the block. */
#include "device/cuda/weights.h"

#include <string.h>

#include "base/hash.h"

static uint64_t hash_of_block(uint64_t serial) { return hash_bytes(&serial, sizeof serial, 0); }

static bool same_place(const void *context, uint32_t item, const void *wanted) {
  return memcmp(&((const weights_copies *)context)->items.items[item].place, wanted, sizeof(weights_place)) == 0;
}

static bool same_block(const void *context, uint32_t item, const void *wanted) {
  return ((const weights_copies *)context)->items.items[item].place.serial == *(const uint64_t *)wanted;
}

/* Room for one more copy in the list and in its tables. False: no memory. */
static bool reserve(weights_copies *of) {
  const size_t n = of->items.n + 1;
  return VEC_ROOM(&of->items) && table_reserve(&of->by_place, n) && table_reserve(&of->by_block, n);
}

/* After reserve. */
static void keep(weights_copies *of, const weights_place *place, void *copy) {
  uint32_t item = of->free_item;
  if (item == TABLE_NONE) item = (uint32_t)of->items.n++;
  else of->free_item = of->items.items[item].next;
  const uint64_t hash = hash_of_block(place->serial);
  const uint32_t first = table_find(&of->by_block, hash, same_block, of, &place->serial);
  of->items.items[item] = (weights_copy){.place = *place, .copy = copy, .next = TABLE_NONE};
  (void)table_add(&of->by_place, hash_bytes(place, sizeof *place, 0), item);
  if (first == TABLE_NONE) {
    (void)table_add(&of->by_block, hash, item);
  } else {
    of->items.items[item].next = of->items.items[first].next;
    of->items.items[first].next = item;
  }
}

const void *weights_find(weights_copies *of, cuda_queue *queue, weights_order order, const void *from, int64_t bytes,
                         weights_unpack *unpack, const void *args) {
  cuda_device *self = cuda_of(&queue->base);
  uv_mutex_lock(&self->lock);
  const cuda_block *block = cuda_blocks_find(&self->blocks, from);
  const weights_place place = {from, block ? block->serial : 0, order};
  uv_mutex_unlock(&self->lock);
  const uint32_t found = table_find(&of->by_place, hash_bytes(&place, sizeof place, 0), same_place, of, &place);
  if (found != TABLE_NONE) return of->items.items[found].copy;
  void *copy = NULL;
  if (!block || queue->recording || !reserve(of) || cuda_allocate(&self->base, bytes, 0, &copy, NULL) != REED_OK)
    return NULL;
  /* another queue may use the copy next, so the copy is finished here */
  if (cuda_begin_work(queue, NULL, NULL) != REED_OK || unpack(queue, args, copy, NULL) != REED_OK ||
      self->driver.stream_synchronize(queue->stream)) {
    cuda_release(&self->base, copy, &queue->base);
    return NULL;
  }
  keep(of, &place, copy);
  return copy;
}

/* Takes the block's copies out of the tables. The items: a list, which the caller frees; TABLE_NONE: there are none. */
static uint32_t take(weights_copies *of, uint64_t serial) {
  const uint32_t first = table_find(&of->by_block, hash_of_block(serial), same_block, of, &serial);
  if (first != TABLE_NONE) table_remove(&of->by_block, hash_of_block(serial), first);
  for (uint32_t i = first; i != TABLE_NONE; i = of->items.items[i].next) {
    const weights_place *place = &of->items.items[i].place;
    table_remove(&of->by_place, hash_bytes(place, sizeof *place, 0), i);
  }
  return first;
}

reed_status weights_move(cuda_queue *queue, const move_args moves[2], const cu_operand operands[2],
                         reed_diagnosis *diagnosis) {
  reed_status status = REED_OK;
  for (int i = 0; i < 2 && status == REED_OK; i++)
    if (moves[i].n)
      status = cuda_launch_ready(queue,
                                 &(cuda_ready){.kernel = CUDA_move,
                                               .grid = {(uint32_t)blocks_for(CUDA_move, moves[i].n), 1, 1},
                                               .args = &moves[i],
                                               .operands = operands,
                                               .n_operands = 2},
                                 diagnosis);
  return status;
}

void weights_forget(weights_copies *of, uv_mutex_t *lock, cuda_device *self, uint64_t serial, device_queue *after) {
  for (uint32_t item = take(of, serial), next; item != TABLE_NONE; item = next) {
    weights_copy *w = &of->items.items[item];
    void *copy = w->copy;
    next = w->next;
    *w = (weights_copy){.next = of->free_item};
    of->free_item = item;
    uv_mutex_unlock(lock);
    cuda_release(&self->base, copy, after);
    uv_mutex_lock(lock);
  }
}

void weights_fini(weights_copies *of) {
  VEC_FREE(&of->items);
  table_fini(&of->by_place);
  table_fini(&of->by_block);
}
