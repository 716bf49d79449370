/* Fetching memory into the CPU's caches before it is read. */
#ifndef BASE_FETCH_H_
#define BASE_FETCH_H_

#include <stddef.h>

#define FETCH_LINE_BYTES 64

/* The empty statement is an effect: gcc takes a function of nothing but __builtin_prefetch for one without effects, and
 * leaves out its calls. */
static inline void fetch_line(const void *at) {
  __builtin_prefetch(at);
  __asm__ volatile("" : : "r"(at));
}

static inline void fetch_bytes(const void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += FETCH_LINE_BYTES) fetch_line((const char *)at + i);
}

#endif
