/* Reading the system's clocks. */
#ifndef BASE_CLOCK_H_
#define BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

/* In nanoseconds. */
static inline int64_t clock_read_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
