/* Heap memory (mem.h, kept.h): checks sizes and adds alignment. The allocator hook (hook.h) allocates. */
#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/cancel.h"
#include "base/hook.h"
#include "base/kept.h"
#include "base/rows.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define HUGE_FROM \
  (2 * HUGE_PAGE_BYTES) /* of less, most may stay unused; clearing one takes 0.2 ms, to make room for it up to 4 */

void *mem_alloc(size_t bytes) {
  void *block = hook_is_libc() ? rows_alloc(bytes) : NULL;
  return block ? block : reed_allocator_hook.allocate(reed_allocator_hook.context, bytes ? bytes : 1);
}

void *mem_calloc(size_t n, size_t bytes) {
  size_t total;
  if (__builtin_mul_overflow(n, bytes, &total)) return NULL;
  void *block = mem_alloc(total);
  if (block) memset(block, 0, total);
  return block;
}

void *mem_resize(void *block, size_t n, size_t bytes) {
  size_t total;
  if (__builtin_mul_overflow(n, bytes, &total)) return NULL;
  if (!rows_have(block)) return reed_allocator_hook.resize(reed_allocator_hook.context, block, total ? total : 1);
  void *moved = mem_alloc(total);
  if (!moved) return NULL;
  const size_t behind = rows_bytes_behind(block); /* the block's own number is not known */
  memmove(moved, block, total < behind ? total : behind);
  rows_free(block);
  return moved;
}

void mem_free(void *block) {
  if (rows_have(block)) rows_free(block);
  else if (block) reed_allocator_hook.release(reed_allocator_hook.context, block);
}

void *mem_copy(const void *source, size_t bytes) {
  void *copy = mem_alloc(bytes);
  if (copy && bytes) memcpy(copy, source, bytes);
  return copy;
}

char *mem_copy_text(const char *text) { return mem_copy(text, strlen(text) + 1); }

/* The address of the heap's block is kept in the word before the aligned address. */
void *mem_alloc_aligned(size_t bytes, size_t alignment) {
  size_t total;
  if (__builtin_add_overflow(bytes, alignment + sizeof(void *), &total)) return NULL;
  char *block = mem_alloc(total);
  if (!block) return NULL;
  uintptr_t aligned = ((uintptr_t)block + sizeof(void *) + alignment - 1) & ~(uintptr_t)(alignment - 1);
  ((void **)aligned)[-1] = block;
  return (void *)aligned;
}

#define MAPPED_FROM ((size_t)1 << 20)

/* True if a block may be a mapping of its own. */
static bool may_map(void) { return !HOOK_HEAP_IS_WATCHED && hook_is_libc(); }

/* A mapping begins with this word's page, and its block a page later. The word before the block tells mappings (lowest
 * bit set) from blocks of the heap. */
typedef struct mapping {
  size_t bytes;
} mapping;

#define PAGE_BYTES ((size_t)4096)

/* A block in a mapping of its own, aligned to `alignment`, a multiple of the page. */
static void *map_block(size_t bytes, size_t alignment) {
  size_t total;
  if (__builtin_add_overflow(bytes, alignment + 2 * PAGE_BYTES, &total)) return NULL;
  total &= ~(PAGE_BYTES - 1);
  char *begin = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return NULL;
  uintptr_t block = ((uintptr_t)begin + PAGE_BYTES + alignment - 1) & ~(uintptr_t)(alignment - 1);
  char *first = (char *)block - PAGE_BYTES, *end = (char *)((block + bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
  if (first > begin) munmap(begin, (size_t)(first - begin));
  if (end < begin + total) munmap(end, (size_t)(begin + total - end));
  ((mapping *)first)->bytes = (size_t)(end - first);
  ((uintptr_t *)block)[-1] = (uintptr_t)first | 1;
  return (void *)block;
}

/* Asks for huge pages where whole ones lie within from..to of a block that may have them. */
static void ask_huge_pages(char *block, size_t from, size_t to) {
#ifdef MADV_HUGEPAGE
  from -= from % HUGE_PAGE_BYTES;
  to -= to % HUGE_PAGE_BYTES;
  if (from < to) (void)madvise(block + from, to - from, MADV_HUGEPAGE); /* only advice */
#else
  (void)block, (void)from, (void)to;
#endif
}

bool mem_addresses_are_free(size_t capacity) {
  struct rlimit limit;
  return capacity >= MAPPED_FROM && may_map() && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

void *mem_alloc_bulk(size_t bytes) { return mem_alloc_bulk_room(bytes, bytes); }

static void *alloc_room(size_t bytes, size_t capacity, size_t mapped_from) {
  bool huge = capacity >= HUGE_FROM;
  char *block = capacity >= mapped_from && may_map() ? map_block(capacity, huge ? HUGE_PAGE_BYTES : PAGE_BYTES)
                                                     : mem_alloc_aligned(capacity, huge ? HUGE_PAGE_BYTES : 64);
  if (block && bytes >= HUGE_FROM) ask_huge_pages(block, 0, bytes);
  return block;
}

void *mem_alloc_bulk_room(size_t bytes, size_t capacity) { return alloc_room(bytes, capacity, MAPPED_FROM); }

void *kept_alloc(size_t bytes, size_t capacity) { return alloc_room(bytes, capacity, KEPT_MAPPED_FROM); }

void mem_extend_bulk(void *block, size_t before, size_t bytes) {
  if (bytes >= HUGE_FROM) ask_huge_pages(block, before, bytes);
}

size_t kept_whole_pages(size_t bytes) {
  size_t beyond = bytes % HUGE_PAGE_BYTES;
  return bytes < HUGE_FROM || !beyond || bytes > SIZE_MAX - HUGE_PAGE_BYTES ? bytes : bytes - beyond + HUGE_PAGE_BYTES;
}

/* The system zeroes a mapping's pages. Those that are not huge are taken at once, because a fault for each of them
 * would cost more than writing zeros into the heap. */
void *mem_calloc_bulk(size_t bytes) {
  if (bytes >= MAPPED_FROM && may_map()) {
    char *mapped = mem_alloc_bulk(bytes);
    size_t huge = bytes < HUGE_FROM ? 0 : bytes - bytes % HUGE_PAGE_BYTES;
    if (mapped && huge < bytes) (void)mem_warm(mapped + huge, bytes - huge, NULL);
    return mapped;
  }
  void *block = mem_alloc_aligned(bytes, 64);
  if (block) memset(block, 0, bytes);
  return block;
}

/* MADV_POPULATE_WRITE (Linux 5.14) works on whole pages and changes no byte of them. Without it each page inside the
 * part is written. */
static void warm_piece(char *part, size_t bytes) {
  uintptr_t page = 4096, begin = (uintptr_t)part & ~(page - 1),
            end = ((uintptr_t)part + bytes + page - 1) & ~(page - 1);
#ifdef MADV_POPULATE_WRITE
  if (madvise((void *)begin, end - begin, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (size_t at = 0; at < bytes; at += page) ((volatile char *)part)[at] = 0;
  ((volatile char *)part)[bytes - 1] = 0;
}

size_t mem_warm(void *part, size_t bytes, const int *cancel) {
  size_t at = 0;
  while (at < bytes && !cancel_asked(cancel)) {
    size_t n = bytes - at < CANCEL_BYTES ? bytes - at : CANCEL_BYTES;
    warm_piece((char *)part + at, n);
    at += n;
  }
  return at;
}

void mem_free_aligned(void *block) {
  if (!block) return;
  uintptr_t word = ((uintptr_t *)block)[-1];
  if (word & 1) munmap((void *)(word - 1), ((mapping *)(word - 1))->bytes);
  else mem_free((void *)word);
}
