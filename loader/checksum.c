/* The checksum of a module's bytes. Several threads share the blocks, because the checksum of a file of hundreds of
 * megabytes would be the longest step of opening. The threads end before the function returns. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/hash.h"
#include "bytecode/format.h"
#include "loader/checksum.h"

#define BLOCKS_PER_THREAD 8 /* fewer blocks are not worth a thread */
#define THREADS_MAX 8       /* more threads are not faster: memory bandwidth is the limit */

typedef struct work {
  const uint8_t *bytes;
  size_t n_bytes, n_blocks;
  const int *cancel;
  atomic_size_t next;
  atomic_bool cancelled; /* some block was left out */
  _Atomic uint64_t sum;
} work;

static void *sum_blocks(void *context) {
  work *w = context;
  uint64_t sum = 0;
  for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n_blocks;) {
    if (cancel_asked(w->cancel)) {
      atomic_store(&w->cancelled, true);
      break;
    }
    size_t at = i * FORMAT_BLOCK_BYTES, rest = w->n_bytes - at;
    sum += hash_bytes(w->bytes + at, rest < FORMAT_BLOCK_BYTES ? rest : FORMAT_BLOCK_BYTES, i);
  }
  atomic_fetch_add(&w->sum, sum);
  return NULL;
}

bool module_file_checksum(const uint8_t *bytes, size_t n_bytes, const int *cancel, uint64_t *out_sum) {
  work w = {.bytes = bytes,
            .n_bytes = n_bytes,
            .n_blocks = (n_bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES,
            .cancel = cancel};
  long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
  size_t wanted = w.n_blocks / BLOCKS_PER_THREAD, n = 0;
  if (n_cpus > 0 && wanted > (size_t)n_cpus) wanted = (size_t)n_cpus;
  if (wanted > THREADS_MAX) wanted = THREADS_MAX;
  pthread_t threads[THREADS_MAX];
  while (n + 1 < wanted && pthread_create(&threads[n], NULL, sum_blocks, &w) == 0)
    n++; /* the calling thread counts too; if no other thread starts, it sums all blocks */
  sum_blocks(&w);
  while (n) pthread_join(threads[--n], NULL);
  if (w.cancelled) return false;
  *out_sum = w.sum;
  return true;
}
