/* Blocks that are kept while others come and go, such as those of a store. In the C library's heap a kept block would
 * keep the gaps of the others from being joined, and their pages from being returned. */
#ifndef BASE_KEPT_H_
#define BASE_KEPT_H_

#include <stddef.h>

enum { KEPT_MAPPED_FROM = 1 << 16 }; /* bytes from which a kept block is a mapping of its own */

/* As mem_alloc_bulk_room (mem.h), for a block that is kept. Released by mem_free_aligned only. */
void *kept_alloc(size_t bytes, size_t capacity);
/* `bytes` up to the end of their last huge page, of which the system gives the whole in the time that it takes for a
 * tenth of its pages; less than 4 MiB stay as they are. */
size_t kept_whole_pages(size_t bytes);

#endif
