/* Heap memory (mem.h): checks sizes and adds alignment. The allocator hook (hook.h) allocates. */
#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>

#include "base/hook.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *mem_alloc(size_t bytes) { return reed_allocator_hook.allocate(reed_allocator_hook.context, bytes ? bytes : 1); }

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
  return reed_allocator_hook.resize(reed_allocator_hook.context, block, total ? total : 1);
}

void mem_free(void *block) {
  if (block) reed_allocator_hook.release(reed_allocator_hook.context, block);
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

void *mem_alloc_bulk(size_t bytes) {
  if (bytes < HUGE_PAGE_BYTES) return mem_alloc_aligned(bytes, 64);
  char *block = mem_alloc_aligned(bytes, HUGE_PAGE_BYTES);
#ifdef MADV_HUGEPAGE
  if (block) (void)madvise(block, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* only advice */
#endif
  return block;
}

void mem_free_aligned(void *block) {
  if (block) mem_free(((void **)block)[-1]);
}
