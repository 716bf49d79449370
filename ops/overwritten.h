/* The log of rows that kernels of one run have overwritten in memory of the caller (ops/growth.def: OVERWRITES), with
 * the elements that the rows had before. The kernel saves a row before it writes the row. So the session can put the
 * rows back after a failed run, and can make the past again for a second continuation (vm/history.h). */
#ifndef OPS_OVERWRITTEN_H_
#define OPS_OVERWRITTEN_H_

#include <stdint.h>

#include "reed/status.h"

/* Some rows of a block, one after the other. */
typedef struct overwritten_piece {
  int64_t block, row, rows;
} overwritten_piece;

/* One call's record. After it come its pieces, and then their saved elements in the order of the pieces. */
typedef struct overwritten {
  void *memory;    /* of the output, on the device of the call */
  int64_t n_bytes; /* of the record, with pieces and elements; a multiple of 8 */
  int64_t row_bytes;
  int64_t n_blocks;    /* a block has the rows of one batch and head */
  int64_t block_bytes; /* from one block of the memory to the next */
  int64_t n_pieces;
} overwritten;

static inline overwritten_piece *overwritten_pieces(const overwritten *o) { return (overwritten_piece *)(o + 1); }
static inline char *overwritten_elements(const overwritten *o) { return (char *)(overwritten_pieces(o) + o->n_pieces); }

/* The bytes of a record, a multiple of 8. */
static inline int64_t overwritten_bytes(int64_t n_pieces, int64_t element_bytes) {
  return ((int64_t)sizeof(overwritten) + n_pieces * (int64_t)sizeof(overwritten_piece) + element_bytes + 7) &
         ~(int64_t)7;
}

/* The log is the host's. A device tells the record of its kernel before the launch, without pieces and elements
 * (device_interface.overwrites). The kernel saves these in memory of the device that it gets as its workspace: first
 * the number of times that rows were saved in this memory, an int64, then pieces and elements as after a record. */
static inline int64_t overwritten_saved_bytes(const overwritten *o) {
  return (int64_t)sizeof(int64_t) + o->n_bytes - (int64_t)sizeof *o;
}

typedef struct overwritten_log {
  char *records;
  int64_t n_bytes, capacity; /* the memory stays for the next run */
} overwritten_log;

/* A record at the end of the log, without pieces' places and elements; NULL: no memory. The record may move when the
 * next one is added. */
overwritten *overwritten_add(overwritten_log *log, int64_t n_pieces, int64_t element_bytes);
void overwritten_fini(overwritten_log *log);

/* Called for each piece: the place in the memory, and the saved elements. */
typedef reed_status overwritten_fn(void *context, void *to, const char *elements, int64_t n_bytes);
/* Calls fn for the pieces of the record, with places in memory whose blocks are block_bytes apart and have at most
 * that many bytes: rows that lie further back in a block are left out. */
reed_status overwritten_each(const overwritten *o, void *memory, int64_t block_bytes, overwritten_fn *fn,
                             void *context) REED_MUST_CHECK;

#endif
