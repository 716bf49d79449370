/* A thread reads its CPU time at the first chunk of a job, after a pause, and for a chunk that seems to be the longest
 * (chunk_clock.h). */
#include "base/chunk_clock.h"

#include <time.h>

/* A thread's clocks: both when they were last read, and the time at the last chunk's begin and end. */
typedef struct clocks {
  uint64_t job;
  int64_t ns, cpu_ns;
  int64_t begin_ns, end_ns;
} clocks;

static _Thread_local clocks own;

static int64_t time_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CPU time first: what passes between the two reads is then no time without a CPU (chunk_clock_end). */
static void read_both(void) {
  own.cpu_ns = time_ns(CLOCK_THREAD_CPUTIME_ID);
  own.ns = time_ns(CLOCK_MONOTONIC);
}

void chunk_clock_begin(uint64_t job) {
  own.begin_ns = time_ns(CLOCK_MONOTONIC);
  if (own.job == job && own.begin_ns - own.end_ns <= CHUNK_CLOCK_GAP_NS && own.begin_ns - own.ns <= CHUNK_CLOCK_KEPT_NS)
    return;
  own.job = job;
  read_both();
  own.begin_ns = own.ns;
}

int64_t chunk_clock_end(int64_t longest_ns) {
  own.end_ns = time_ns(CLOCK_MONOTONIC);
  const int64_t elapsed = own.end_ns - own.begin_ns, ns_before = own.ns, cpu_before = own.cpu_ns;
  if (elapsed <= longest_ns) return 0;
  const int64_t end = own.end_ns;
  read_both();
  const int64_t off = (end - ns_before) - (own.cpu_ns - cpu_before), ns = off > 0 ? elapsed - off : elapsed;
  own.end_ns = own.ns;
  return ns > longest_ns ? ns : 0;
}
