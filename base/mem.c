#include "base/mem.h"

#include "base/hook.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* The block's own address is kept in the word before the aligned one. */
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

void mem_vec_fit(void **items, size_t *capacity, size_t n, size_t item_bytes) {
  if (*capacity == n || !*items) return;
  void *fitting = mem_resize(*items, n, item_bytes);
  if (!fitting) return;
  *items = fitting;
  *capacity = n;
}

int mem_vec_grow(void **items, size_t *capacity, size_t need, size_t item_bytes) {
  size_t wanted = *capacity ? *capacity * 2 : 8;
  if (wanted < need) wanted = need;
  void *grown = mem_resize(*items, wanted, item_bytes);
  if (!grown) return 0;
  *items = grown;
  *capacity = wanted;
  return 1;
}

static int text_room(text_buffer *text, size_t more) {
  if (text->failed) return 0;
  if (text->n + more + 1 <= text->capacity) return 1;
  size_t wanted = text->capacity * 2 > text->n + more + 1 ? text->capacity * 2 : text->n + more + 64;
  char *grown = mem_resize(text->data, wanted, 1);
  if (!grown) {
    text->failed = 1;
    return 0;
  }
  text->data = grown;
  text->capacity = wanted;
  return 1;
}

void text_append(text_buffer *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (n >= 0 && text_room(text, (size_t)n)) {
    vsnprintf(text->data + text->n, (size_t)n + 1, format, again);
    text->n += (size_t)n;
  }
  va_end(again);
}

void text_append_bytes(text_buffer *text, const void *bytes, size_t n) {
  if (!text_room(text, n)) return;
  if (n) memcpy(text->data + text->n, bytes, n);
  text->n += n;
  text->data[text->n] = 0;
}

void text_fini(text_buffer *text) {
  mem_free(text->data);
  *text = (text_buffer){0};
}
