/* The host allocator hook: every byte that Reed's own code takes from the heap goes through it; other libraries
 * allocate by themselves. The hook is process-wide: set it once, before any other call, and never while Reed
 * objects live. Devices allocate their tensor memory themselves; tensor memory on the host comes from the hook. */
#ifndef REED_MEMORY_H_
#define REED_MEMORY_H_

#include "reed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The C library's contracts: allocate and resize return memory aligned for any type or NULL; resize(NULL, n) allocates.
 * All three must be callable from any thread. */
typedef struct reed_allocator {
  void *(*allocate)(void *context, size_t bytes);
  void *(*resize)(void *context, void *block, size_t bytes);
  void (*release)(void *context, void *block);
  void *context;
} reed_allocator;

/* Copies *allocator; NULL restores the C library's. */
REED_API void reed_set_allocator(const reed_allocator *allocator);

#ifdef __cplusplus
}
#endif
#endif
