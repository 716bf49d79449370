/* Heap memory for the memo's next entries (reserve.h). */
#include "vm/epoch/reserve.h"

#include <stdint.h>
#include <string.h>

#include "base/hook.h"
#include "base/mem.h"

/* Drops the first n blocks, which the heap joins to one free piece. The others stay behind it, so that the piece is not
 * the heap's end, which the C library would give back to the system. */
static void drop(heap_reserve *r, int32_t n) {
  for (int32_t i = 0; i < n; i++) mem_free(r->blocks[i]);
  r->n -= n;
  memmove(r->blocks, r->blocks + n, (size_t)r->n * sizeof *r->blocks);
}

/* Puts the block with the highest address last. */
static void keep_highest(heap_reserve *r) {
  for (int32_t i = 0; i + 1 < r->n; i++) {
    void *block = r->blocks[i];
    if ((uintptr_t)block < (uintptr_t)r->blocks[r->n - 1]) continue;
    r->blocks[i] = r->blocks[r->n - 1];
    r->blocks[r->n - 1] = block;
  }
}

void reserve_use(heap_reserve *r, bool missed) {
  if (r->used) return;
  r->used = true;
  int64_t wanted = (r->need[missed] + RESERVE_BLOCK - 1) / RESERVE_BLOCK;
  keep_highest(r);
  if (r->n) drop(r, (int32_t)(wanted < r->n ? wanted : r->n - 1));
}

/* Takes blocks until the reserve has so many bytes. */
static void fill(heap_reserve *r, int64_t bytes) {
  while (r->n < RESERVE_BLOCKS && (int64_t)r->n * RESERVE_BLOCK < bytes) {
    void *block = mem_alloc(RESERVE_BLOCK);
    if (!block) return;
    (void)mem_warm(block, RESERVE_BLOCK, NULL);
    r->blocks[r->n++] = block;
  }
}

void reserve_renew(heap_reserve *r, int64_t grown, int64_t left, bool missed) {
  r->used = false;
  if (grown > 0) r->need[missed] = grown + grown / 2;
  const int64_t need = r->need[0] + r->need[1];
  if (!need || left <= 0 || !hook_is_libc()) return;
  const int64_t least = need + RESERVE_BLOCK; /* a block stays */
  /* a run without a miss does not wait until there are too few */
  r->low |= (int64_t)r->n * RESERVE_BLOCK < least + (missed ? 0 : need);
  if (!r->low) return;
  const int64_t wanted = missed ? least : need * RESERVE_RUNS;
  fill(r, wanted < left ? wanted : left);
  r->low = missed;
}

void reserve_fini(heap_reserve *r) { drop(r, r->n); }
