/* Pages of small blocks (rows.h). */
#include "base/rows.h"

#include <sys/mman.h>

#include "base/fetch.h"
#include "base/hook.h"
#include "base/mem.h"

#define BLOCK_ALIGN ((size_t)16)
#define PAGES_AHEAD 4     /* free pages with memory, below which rows_renew takes more, */
#define PAGES_AT_ONCE 8   /* so many */
#define FREE_MOST 64      /* free pages that keep their memory, the last ones that became free */
#define WRITTEN_AHEAD 512 /* bytes fetched behind a new block, which the next blocks will write */

typedef struct row_page {
  atomic_size_t n_blocks;
  size_t used; /* bytes from the page's begin */
} row_page;
#define PAGE_BEGIN ((size_t)64)

static _Thread_local mem_row *used_row;

mem_row *rows_use(mem_row *row) {
  mem_row *before = used_row;
  used_row = row;
  return before;
}

/* A fork waits for the lock, so that the child's copy is free. Of several copies of base/ the one that is loaded first
 * sees to it, before any thread can take the lock. */
static void lock_rows(void) { pthread_mutex_lock(&reed_rows_shared.lock); }
static void unlock_rows(void) { pthread_mutex_unlock(&reed_rows_shared.lock); }
__attribute__((constructor)) static void watch_forks(void) {
  if (reed_rows_shared.watched) return;
  reed_rows_shared.watched = pthread_atfork(lock_rows, unlock_rows, unlock_rows) == 0;
  reed_rows_shared.refused = !reed_rows_shared.watched;
}

/* Takes the addresses, once; their pages have no memory yet. False: there are none. The lock is held. */
static bool have_addresses(void) {
  reed_rows *rows = &reed_rows_shared;
  if (atomic_load_explicit(&rows->base, memory_order_relaxed)) return true;
  if (rows->refused) return false;
  const size_t all = ROWS_BYTES + ROWS_PAGE;
  char *begin = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  rows->refused = begin == MAP_FAILED;
  if (rows->refused) return false;
  const uintptr_t base = ((uintptr_t)begin + ROWS_PAGE - 1) & ~(uintptr_t)(ROWS_PAGE - 1);
  atomic_store_explicit(&rows->base, base, memory_order_release);
  return true;
}

static row_page *page_at(size_t number) {
  return (row_page *)(atomic_load_explicit(&reed_rows_shared.base, memory_order_relaxed) + number * ROWS_PAGE);
}

/* Makes n pages more, or as many as are left, free ones. The lock is held. */
static void add_pages(size_t n) {
  reed_rows *rows = &reed_rows_shared;
  const size_t left = ROWS_BYTES / ROWS_PAGE - rows->n_used;
  if (left < n) n = left;
  if (!n || mprotect(page_at(rows->n_used), n * ROWS_PAGE, PROT_READ | PROT_WRITE) != 0) return;
  (void)mem_warm(page_at(rows->n_used), n * ROWS_PAGE, NULL);
  for (size_t i = n; i > 0; i--) rows->free[rows->n_free++] = (uint16_t)(rows->n_used + i - 1);
  rows->n_used += n;
}

/* A thread that would have to wait, while memory is asked for, takes no page. */
static row_page *take_page(void) {
  reed_rows *rows = &reed_rows_shared;
  row_page *page = NULL;
  if (pthread_mutex_trylock(&rows->lock) != 0) return NULL;
  if (have_addresses()) {
    if (!rows->n_free) add_pages(1);
    if (rows->n_free) page = page_at(rows->free[--rows->n_free]);
    if (rows->n_cold > rows->n_free) {
      rows->n_cold = rows->n_free;
      (void)mem_warm(page, ROWS_PAGE, NULL);
    }
  }
  pthread_mutex_unlock(&rows->lock);
  return page;
}

/* Gives the memory of the first free page that has some back to the system. The lock is held. */
static void cool_page(void) {
  reed_rows *rows = &reed_rows_shared;
  (void)madvise(page_at(rows->free[rows->n_cold++]), ROWS_PAGE, MADV_DONTNEED); /* zeros, if it is used again */
}

static void drop_block(row_page *page) {
  reed_rows *rows = &reed_rows_shared;
  if (atomic_fetch_sub_explicit(&page->n_blocks, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_lock(&rows->lock);
  const uintptr_t base = atomic_load_explicit(&rows->base, memory_order_relaxed);
  rows->free[rows->n_free++] = (uint16_t)(((uintptr_t)page - base) / ROWS_PAGE);
  if (rows->n_free - rows->n_cold > FREE_MOST) cool_page();
  pthread_mutex_unlock(&rows->lock);
}

void rows_close(mem_row *row) {
  if (row->page) drop_block(row->page);
  row->page = NULL;
}

void *rows_alloc(size_t bytes) {
  mem_row *row = used_row;
  if (HOOK_HEAP_IS_WATCHED || !row || bytes > (size_t)ROWS_BLOCK_MOST) return NULL;
  bytes = ((bytes ? bytes : 1) + BLOCK_ALIGN - 1) & ~(BLOCK_ALIGN - 1);
  row_page *page = row->page;
  if (page && atomic_load_explicit(&page->n_blocks, memory_order_acquire) == 1) page->used = PAGE_BEGIN;
  if (!page || page->used + bytes > ROWS_PAGE) {
    rows_close(row);
    if (!(page = take_page())) return NULL;
    atomic_init(&page->n_blocks, 1);
    page->used = PAGE_BEGIN;
    row->page = page;
  }
  char *block = (char *)page + page->used;
  page->used += bytes;
  atomic_fetch_add_explicit(&page->n_blocks, 1, memory_order_relaxed);
  fetch_bytes(block + WRITTEN_AHEAD, bytes);
  return block;
}

static row_page *page_of(const void *block) { return (row_page *)((uintptr_t)block & ~(uintptr_t)(ROWS_PAGE - 1)); }

void rows_free(void *block) { drop_block(page_of(block)); }

size_t rows_bytes_behind(const void *block) { return ROWS_PAGE - ((uintptr_t)block & (uintptr_t)(ROWS_PAGE - 1)); }

void rows_renew(void) {
  reed_rows *rows = &reed_rows_shared;
  if (HOOK_HEAP_IS_WATCHED || pthread_mutex_trylock(&rows->lock) != 0) return;
  if (rows->n_used && rows->n_free < rows->n_cold + PAGES_AHEAD) {
    for (int i = 0; i < PAGES_AT_ONCE && rows->n_cold > 0; i++)
      (void)mem_warm(page_at(rows->free[--rows->n_cold]), ROWS_PAGE, NULL);
    if (rows->n_free < rows->n_cold + PAGES_AHEAD) add_pages(PAGES_AT_ONCE);
  }
  pthread_mutex_unlock(&rows->lock);
}

void rows_trim(void) {
  reed_rows *rows = &reed_rows_shared;
  pthread_mutex_lock(&rows->lock);
  while (rows->n_cold < rows->n_free) cool_page();
  pthread_mutex_unlock(&rows->lock);
}
