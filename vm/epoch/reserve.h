/* Heap memory held ready for the memo's next entries. An entry is hundreds of small blocks of the C library's heap, and
 * while the memo grows each new entry lies in pages that the heap has just got from the system: a page fault each. The
 * reserve is blocks whose pages are there already. A miss gives as many of them back to the heap as the last entries
 * took, and allocates in their place.
 *
 * The reserve is empty until a session has met a second size, and while entries that go make room for new ones. */
#ifndef VM_EPOCH_RESERVE_H_
#define VM_EPOCH_RESERVE_H_

#include <stdbool.h>
#include <stdint.h>

enum {
  RESERVE_BLOCK = 1 << 15, /* below the size from which the C library maps a block of its own */
  RESERVE_BLOCKS = 64,
  RESERVE_RUNS = 32 /* the reserve has memory for at most so many runs */
};

typedef struct heap_reserve {
  void *blocks[RESERVE_BLOCKS];
  int32_t n;
  int64_t need[2]; /* bytes by which the memo last exceeded all before, and half as much again: in a run without a miss,
                      which makes a list of calls; in one with a miss */
  bool used;       /* in this run */
  bool low;        /* the next run without a miss takes blocks */
} heap_reserve;

/* Gives blocks of the bytes that a run with a miss, or without, needs back to the heap, once in a run. */
void reserve_use(heap_reserve *r, bool missed);
/* Ends a run after which the memo has so many bytes more than ever before (0 or less: none more), and may grow by
 * `left` bytes more. Takes and warms blocks if there are too few for another run that grows: after a miss those for one
 * such run; those for the following ones after the next run without a miss, so that a new size does not pay for them.
 */
void reserve_renew(heap_reserve *r, int64_t grown, int64_t left, bool missed);
void reserve_fini(heap_reserve *r);

#endif
