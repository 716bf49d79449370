/* The header of a piece of a pool's memory (pool.c), its lists, and the heaps by address of slabs and of objects. */
#ifndef ALLOCATOR_BLOCK_H_
#define ALLOCATOR_BLOCK_H_

#include "base/tensor.h"

typedef struct block block;
struct block {
  storage storage;       /* first: the caller's view. data is set in every block, the other fields while it is in use */
  int64_t bytes;         /* of the block; storage.bytes: as requested */
  int64_t warm_bytes;    /* large blocks: the system has given the pages of so many bytes from the beginning */
  int64_t chunk_bytes;   /* first blocks of chunks: the chunk's bytes when it was taken */
  bool free;             /* large blocks: on a list of free ones */
  block *before, *after; /* large blocks: neighbours in their chunk */
  block *previous, *next; /* neighbours in the list that holds the block */
  block *slab;            /* objects: the slab that holds the object */
  block *objects;         /* slabs: heap of free objects */
  block *below;           /* in a heap: the heaps below, linked by next; `previous` of the first is the block itself */
  int32_t class, n_carved, n_used;
};

/* Adds the block in front of a list. */
static inline void list_add(block **list, block *b) {
  b->previous = NULL;
  b->next = *list;
  if (*list) (*list)->previous = b;
  *list = b;
}

static inline void list_remove(block **list, block *b) {
  if (b->previous) b->previous->next = b->next;
  else *list = b->next;
  if (b->next) b->next->previous = b->previous;
}

/* By address. */
static inline bool lies_before(const block *a, const block *b) {
  return (uintptr_t)a->storage.data < (uintptr_t)b->storage.data;
}

/* Pairing heaps (Fredman, Sedgewick, Sleator and Tarjan, 1986): the lowest address on top. */
static inline block *heap_join(block *a, block *b) {
  if (!a || !b) return a ? a : b;
  block *top = lies_before(a, b) ? a : b, *other = top == a ? b : a;
  other->previous = top;
  other->next = top->below;
  if (top->below) top->below->previous = other;
  top->below = other;
  return top;
}

static inline void heap_add(block **heap, block *b) {
  b->previous = b->next = b->below = NULL;
  *heap = heap_join(*heap, b);
}

/* The heap without its top: the heaps below are joined in pairs, then all pairs. */
static inline block *heap_rest(const block *top) {
  block *pairs = NULL, *rest = NULL;
  for (block *a = top->below, *b, *next; a; a = next) {
    b = a->next;
    next = b ? b->next : NULL;
    a = heap_join(a, b);
    a->next = pairs;
    pairs = a;
  }
  for (block *next; pairs; pairs = next) {
    next = pairs->next;
    rest = heap_join(rest, pairs);
  }
  if (rest) rest->previous = rest->next = NULL;
  return rest;
}

/* Removes a block that is somewhere in the heap. */
static inline void heap_remove(block **heap, block *b) {
  block *rest = heap_rest(b);
  if (*heap == b) {
    *heap = rest;
    return;
  }
  if (b->previous->below == b) b->previous->below = b->next;
  else b->previous->next = b->next;
  if (b->next) b->next->previous = b->previous;
  *heap = heap_join(*heap, rest);
}

#endif
