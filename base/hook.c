/* The host allocator hook (reed/memory.h): the C library's allocator until a program sets its own. */
#include "base/hook.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/mem.h"

static void *libc_allocate(void *context, size_t bytes) {
  (void)context;
  return malloc(bytes);
}

static void *libc_resize(void *context, void *block, size_t bytes) {
  (void)context;
  return realloc(block, bytes);
}

static void libc_release(void *context, void *block) {
  (void)context;
  free(block);
}

static const reed_allocator libc_allocator = {libc_allocate, libc_resize, libc_release, NULL};
reed_allocator reed_allocator_hook = {libc_allocate, libc_resize, libc_release, NULL};

void mem_trim(void) {
#ifdef __GLIBC__
  if (reed_allocator_hook.allocate == libc_allocate) (void)malloc_trim(0);
#endif
}

void reed_set_allocator(const reed_allocator *allocator) {
  reed_allocator_hook = allocator ? *allocator : libc_allocator;
}
