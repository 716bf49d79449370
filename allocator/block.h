/* The header of a piece of a pool's memory (pool.c), its lists, and the heap by address of a slab's free objects. */
#ifndef ALLOCATOR_BLOCK_H_
#define ALLOCATOR_BLOCK_H_

#include "base/tensor.h"

typedef struct block block;
struct block {
  storage storage;       /* first: the caller's view. data is set in every block, the other fields while it is in use */
  int64_t bytes;         /* of the block; storage.bytes: as requested */
  int64_t warm_bytes;    /* large blocks: the system has given the pages of so many bytes from the beginning */
  bool free;             /* large blocks: on a list of free ones */
  block *before, *after; /* large blocks: neighbours in their chunk */
  block *previous, *next; /* neighbours in the list that holds the block */
  block *slab;            /* objects: the slab that holds the object */
  block *objects;         /* slabs: heap of free objects; free objects: the heaps below, linked by next */
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

/* Adds the block to a list in order of address. */
static inline void list_add_in_order(block **list, block *b) {
  block *before = NULL;
  for (block *at = *list; at && lies_before(at, b); at = at->next) before = at;
  if (!before) {
    list_add(list, b);
    return;
  }
  b->previous = before;
  b->next = before->next;
  if (before->next) before->next->previous = b;
  before->next = b;
}

/* A pairing heap of free objects (Fredman, Sedgewick, Sleator and Tarjan, 1986): the lowest address on top. */
static inline block *heap_join(block *a, block *b) {
  if (!a || !b) return a ? a : b;
  block *top = lies_before(a, b) ? a : b, *below = top == a ? b : a;
  below->next = top->objects;
  top->objects = below;
  return top;
}

/* The heap without its top: the heaps below are joined in pairs, then all pairs. */
static inline block *heap_rest(const block *top) {
  block *pairs = NULL, *rest = NULL;
  for (block *a = top->objects, *b, *next; a; a = next) {
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
  return rest;
}

#endif
