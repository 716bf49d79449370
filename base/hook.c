/* The host allocator hook (reed/memory.h): the C library's allocator until a program sets its own. */
#include "base/hook.h"

#include "base/rows.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

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

/* The C library's allocator, recognised by the hook's own address as its context. */
#define LIBC_ALLOCATOR \
  { libc_allocate, libc_resize, libc_release, &reed_allocator_hook }

reed_allocator reed_allocator_hook = LIBC_ALLOCATOR;

reed_rows reed_rows_shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

void hook_trim(void) {
#ifdef __GLIBC__
  if (hook_is_libc()) (void)malloc_trim(0);
#endif
  rows_trim();
}

void reed_set_allocator(const reed_allocator *allocator) {
  reed_allocator_hook = allocator ? *allocator : (reed_allocator)LIBC_ALLOCATOR;
}
