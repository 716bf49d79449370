/* How long a thread's chunks of a job take, without the time that the thread spends without a CPU. Reading a thread's
 * CPU time takes a call of the system, ten times as long as reading the time. So a chunk costs two reads of the time,
 * and CPU time is read only for a chunk that seems to be the longest so far. */
#ifndef BASE_CHUNK_CLOCK_H_
#define BASE_CHUNK_CLOCK_H_

#include <stdint.h>

/* The calling thread begins a chunk of the job with this number, which is not 0. */
void chunk_clock_begin(uint64_t job);
/* It ends it: the chunk's time, or 0 if that is longest_ns or less. Time that the thread spent without a CPU in earlier
 * chunks, within CHUNK_CLOCK_KEPT_NS, may count as this one's. */
int64_t chunk_clock_end(int64_t longest_ns);

#define CHUNK_CLOCK_KEPT_NS 1000000 /* how long a read of both clocks serves */
#define CHUNK_CLOCK_GAP_NS 2000     /* between two chunks, in which the thread may have slept */

#endif
