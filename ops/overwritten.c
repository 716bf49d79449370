/* Adding records to the log of overwritten rows, and reading their pieces (overwritten.h). */
#include "ops/overwritten.h"

#include "base/mem.h"

overwritten *overwritten_add(overwritten_log *log, int64_t n_pieces, int64_t element_bytes) {
  int64_t bytes = overwritten_bytes(n_pieces, element_bytes);
  if (log->n_bytes + bytes > log->capacity) {
    int64_t capacity = 2 * log->capacity > log->n_bytes + bytes ? 2 * log->capacity : log->n_bytes + bytes;
    char *grown = mem_resize(log->records, (size_t)capacity, 1);
    if (!grown) return NULL;
    log->records = grown;
    log->capacity = capacity;
  }
  overwritten *o = (overwritten *)(log->records + log->n_bytes);
  *o = (overwritten){.n_bytes = bytes, .n_pieces = n_pieces};
  log->n_bytes += bytes;
  return o;
}

void overwritten_fini(overwritten_log *log) {
  mem_free(log->records);
  *log = (overwritten_log){0};
}

reed_status overwritten_each(const overwritten *o, void *memory, int64_t block_bytes, overwritten_fn *fn,
                             void *context) {
  const overwritten_piece *pieces = overwritten_pieces(o);
  const char *elements = overwritten_elements(o);
  reed_status status = REED_OK;
  for (int64_t i = 0; i < o->n_pieces && status == REED_OK; i++) {
    const int64_t at = pieces[i].row * o->row_bytes, saved = pieces[i].rows * o->row_bytes,
                  bytes = saved < block_bytes - at ? saved : block_bytes - at;
    if (bytes > 0) status = fn(context, (char *)memory + pieces[i].block * block_bytes + at, elements, bytes);
    elements += saved;
  }
  return status;
}
