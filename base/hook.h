/* The host allocator hook's one variable. */
#ifndef BASE_HOOK_H_
#define BASE_HOOK_H_

#include "reed/memory.h"

/* What every allocation goes through. Exported, so that libreed and libreed-compiler, each of which has base/ inside,
 * share one. */
extern REED_API reed_allocator reed_allocator_hook;

#endif
