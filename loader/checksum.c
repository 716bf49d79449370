/* The checksum of a module's bytes. The process's team (base/team.h) shares the blocks, because the checksum would be
 * the longest step of opening: of a file of some megabytes it takes as long as reading and verifying, of a larger one
 * longer. */
#include "loader/checksum.h"

#include <stdatomic.h>

#include "base/cancel.h"
#include "base/hash.h"
#include "base/processors.h"
#include "base/team.h"
#include "bytecode/format.h"

#define BYTES_PER_HELPER ((size_t)4 << 20) /* fewer are not worth a second helper */
#define WORKERS_MAX 8                      /* more threads are not faster: memory bandwidth is the limit */

typedef struct work {
  const uint8_t *bytes;
  size_t n_bytes;
  const checksum_beside *beside;
  const int *cancel;
  size_t blocks_per_chunk;
  atomic_bool cancelled; /* some block was left out */
  _Atomic uint64_t sum;
} work;

/* Chunk 0 is the other work, so that it begins first. */
static void run_chunk(void *context, int64_t chunk, int32_t worker) {
  work *w = context;
  (void)worker;
  if (chunk == 0) {
    if (w->beside) w->beside->run(w->beside->context);
    return;
  }
  if (cancel_asked(w->cancel)) {
    atomic_store(&w->cancelled, true);
    return;
  }
  size_t i = (size_t)(chunk - 1) * w->blocks_per_chunk, at = i * FORMAT_BLOCK_BYTES, rest = w->n_bytes - at;
  size_t n = w->blocks_per_chunk * FORMAT_BLOCK_BYTES;
  atomic_fetch_add(&w->sum, hash_sum(w->bytes + at, rest < n ? rest : n, FORMAT_BLOCK_BYTES, i));
}

/* A helper's start takes about as long as one chunk. For one chunk alone it gains little where a CPU is idle, and on a
 * busy machine opening then waits for the helper. */
static int32_t workers_for(size_t n_bytes, size_t n_chunks) {
  if (n_chunks <= 1) return 1;
  size_t wanted = 2 + n_bytes / BYTES_PER_HELPER, most = (size_t)processors_in_affinity();
  if (wanted > WORKERS_MAX) wanted = WORKERS_MAX;
  return (int32_t)(wanted < most ? wanted : most);
}

bool module_file_checksum(const uint8_t *bytes, size_t n_bytes, const checksum_beside *beside, const int *cancel,
                          uint64_t *out_sum) {
  work w = {.bytes = bytes, .n_bytes = n_bytes, .beside = beside, .cancel = cancel};
  w.blocks_per_chunk = (size_t)hash_blocks_at_once();
  size_t chunk_bytes = w.blocks_per_chunk * FORMAT_BLOCK_BYTES, n_chunks = (n_bytes + chunk_bytes - 1) / chunk_bytes;
  team_run(workers_for(n_bytes, n_chunks), 1 + (int64_t)n_chunks, run_chunk, &w);
  if (w.cancelled) return false;
  *out_sum = w.sum;
  return true;
}
