/* The variable of the host allocator hook, and trimming, which works only with the C library's allocator. Allocation
 * functions: mem.h.
 *
 * A program may hold several copies of base/ (in libreed, in libreed-compiler, in the `vm` command). All copies use one
 * variable, the first in the order of linking. So code must not compare the hook with the addresses of a copy's own
 * functions. */
#ifndef BASE_HOOK_H_
#define BASE_HOOK_H_

#include <stdbool.h>

#include "reed/memory.h"

/* The hook, through which every allocation goes. Exported, so that all copies of base/ share one variable. */
extern REED_API reed_allocator reed_allocator_hook;

/* True if every allocation is the C library's, whose hook has its own address as context. Inline, so that a library
 * that uses the variable of another one needs no object code of hook.c, which would bring a second variable. */
static inline bool hook_is_libc(void) { return reed_allocator_hook.context == &reed_allocator_hook; }
/* True in a build whose sanitizer watches the heap's blocks one by one: there, all memory is the heap's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOOK_HEAP_IS_WATCHED true
#else
#define HOOK_HEAP_IS_WATCHED false
#endif
/* Returns unused pages of the C library's heap to the system. Does nothing if the program has set its own allocator.
 * Takes a few milliseconds for 100 MB of heap. */
void hook_trim(void);

#endif
