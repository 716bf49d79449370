/* Heap memory for the memo's next entries (reserve.h). */
#include "vm/epoch/reserve.h"

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

void reserve_use(heap_reserve *r) {
  if (r->used) return;
  r->used = true;
  int64_t wanted = (r->need + RESERVE_BLOCK - 1) / RESERVE_BLOCK;
  if (r->n) drop(r, (int32_t)(wanted < r->n ? wanted : r->n - 1));
}

void reserve_renew(heap_reserve *r, int64_t grown, int64_t left) {
  r->used = false;
  if (grown <= 0 || !hook_is_libc()) return;
  r->need = grown + grown / 2;
  if ((int64_t)(r->n - 1) * RESERVE_BLOCK >= r->need) return;
  if (left > r->need * RESERVE_RUNS) left = r->need * RESERVE_RUNS;
  while (r->n < RESERVE_BLOCKS && (int64_t)r->n * RESERVE_BLOCK < left) {
    void *block = mem_alloc(RESERVE_BLOCK);
    if (!block) return;
    (void)mem_warm(block, RESERVE_BLOCK, NULL);
    r->blocks[r->n++] = block;
  }
}

void reserve_fini(heap_reserve *r) { drop(r, r->n); }
