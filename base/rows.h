/* Small blocks of the heap side by side. Blocks that are made together and go together, as the states of an entry's
 * kernels, lie far apart in the C library's heap once it has been used for a while. To make and to free them then waits
 * for memory several times a block: for the neighbours' headers and the lists of free blocks. While a thread uses a
 * row, mem_alloc (mem.h) puts its small blocks into the row's page, one behind the other. A page is free again when all
 * of its blocks are. mem_free knows such blocks by their address.
 *
 * Rows serve the C library's allocator only, and no build with a sanitizer, which watches blocks one by one. */
#ifndef BASE_ROWS_H_
#define BASE_ROWS_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reed/memory.h"

#define ROWS_BYTES ((size_t)256 << 20) /* of addresses for all rows of the process; beyond, blocks are the heap's */
#define ROWS_PAGE ((size_t)32 << 10)
#define ROWS_BLOCK_MOST ((int64_t)ROWS_PAGE / 8) /* larger blocks are the heap's */

/* One owner at a time. Zeros: no page yet. */
typedef struct mem_row {
  struct row_page *page; /* the page that is being filled; the row counts as one of its blocks */
} mem_row;

/* The addresses of all rows. Exported, so that all copies of base/ share them (hook.h). */
typedef struct reed_rows {
  _Atomic(uintptr_t) base; /* 0: none yet */
  pthread_mutex_t lock;    /* guards the members below */
  bool watched;            /* forks wait for the lock */
  bool refused;            /* the system has no addresses */
  size_t n_used, n_free;   /* pages used so far; free ones among them */
  size_t n_cold;           /* of the free pages, the first ones, whose memory the system has back */
  uint16_t free[ROWS_BYTES / ROWS_PAGE];
} reed_rows;
extern REED_API reed_rows reed_rows_shared;

/* The calling thread uses the row from now on; NULL: none. Returns the row that it used. */
mem_row *rows_use(mem_row *row);
/* Gives up the page; blocks in it stay. */
void rows_close(mem_row *row);

/* For mem.c. A block in the row that the calling thread uses; NULL: there is none, or no place. */
void *rows_alloc(size_t bytes);
static inline bool rows_have(const void *block) {
  const uintptr_t base = atomic_load_explicit(&reed_rows_shared.base, memory_order_relaxed);
  return base && (uintptr_t)block - base < ROWS_BYTES;
}
void rows_free(void *block);
/* The bytes from a block of a row to the end of its page. */
size_t rows_bytes_behind(const void *block);
/* Gives some pages their memory if hardly any free page has some, so that no block waits for the system. */
void rows_renew(void);
/* Gives the memory of free pages back to the system. */
void rows_trim(void);

#endif
