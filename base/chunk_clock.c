/* A thread reads its CPU time at the first chunk of a job, after a pause, and for a chunk that seems to be the longest
 * (chunk_clock.h). */
#include "base/chunk_clock.h"

#include "base/clock.h"

/* A thread's clocks: both when they were last read, and the time at the last chunk's begin and end. */
typedef struct clocks {
  uint64_t job;
  int64_t ns, cpu_ns;
  int64_t begin_ns, end_ns;
} clocks;

static _Thread_local clocks own;

/* CPU time first: what passes between the two reads is then no time without a CPU (chunk_clock_end). */
static void read_both(void) {
  own.cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
  own.ns = clock_read_ns(CLOCK_MONOTONIC);
}

void chunk_clock_begin(uint64_t job) {
  own.begin_ns = clock_read_ns(CLOCK_MONOTONIC);
  if (own.job == job && own.begin_ns - own.end_ns <= CHUNK_CLOCK_GAP_NS && own.begin_ns - own.ns <= CHUNK_CLOCK_KEPT_NS)
    return;
  own.job = job;
  read_both();
  own.begin_ns = own.ns;
}

int64_t chunk_clock_end(int64_t longest_ns) {
  const clocks before = own;
  own.end_ns = clock_read_ns(CLOCK_MONOTONIC);
  const int64_t elapsed = own.end_ns - before.begin_ns, since = own.end_ns - before.ns;
  if (elapsed <= longest_ns) return 0;
  read_both();
  own.end_ns = own.ns;
  const int64_t off = since - (own.cpu_ns - before.cpu_ns), ns = off > 0 ? elapsed - off : elapsed;
  return ns > longest_ns ? ns : 0;
}
