/* The checksum of a module's bytes. A file of hundreds of megabytes would take longest of all that opening does, so
 * that several threads share its blocks; they end before this returns. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/hash.h"
#include "bytecode/format.h"
#include "loader/checksum.h"

#define BLOCKS_PER_THREAD 8 /* fewer are not worth starting one */
#define THREADS_MAX 8       /* memory gives no more */

typedef struct work {
  const uint8_t *bytes;
  size_t n_bytes, n_blocks;
  atomic_size_t next;
  _Atomic uint64_t sum;
} work;

static void *sum_blocks(void *context) {
  work *w = context;
  uint64_t sum = 0;
  for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n_blocks;) {
    size_t at = i * FORMAT_BLOCK_BYTES, rest = w->n_bytes - at;
    sum += hash_bytes(w->bytes + at, rest < FORMAT_BLOCK_BYTES ? rest : FORMAT_BLOCK_BYTES, i);
  }
  atomic_fetch_add(&w->sum, sum);
  return NULL;
}

uint64_t module_file_checksum(const uint8_t *bytes, size_t n_bytes) {
  work w = {.bytes = bytes, .n_bytes = n_bytes, .n_blocks = (n_bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES};
  long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
  size_t wanted = w.n_blocks / BLOCKS_PER_THREAD, n = 0;
  if (n_cpus > 0 && wanted > (size_t)n_cpus) wanted = (size_t)n_cpus;
  if (wanted > THREADS_MAX) wanted = THREADS_MAX;
  pthread_t threads[THREADS_MAX];
  while (n + 1 < wanted && pthread_create(&threads[n], NULL, sum_blocks, &w) == 0)
    n++; /* this thread is one of them; without others it does all */
  sum_blocks(&w);
  while (n) pthread_join(threads[--n], NULL);
  return w.sum;
}
