/* A RotaryEmbedding call read as extents and strides, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_ROTARY_H_
#define OPS_CPU_CALLS_ROTARY_H_

#include "ops/cpu/common/common.h"

typedef struct rotary {
  cpu_team team;
  cpu_level level;
  int64_t batch, heads, length, size;
  int64_t x_batch, x_head, x_row;  /* of X and Y, in elements */
  int64_t pairs;                   /* of elements that are turned; the first of them are at the front of a head */
  int64_t apart, step;             /* from a pair's first to its second element; from pair to pair */
  int64_t cache_step, cache_apart; /* the same in a row of the caches; apart 0: one column for both elements */
  int64_t cache_row;
  int64_t cache_batch; /* from batch to batch, if the caches have a row for each place */
  int64_t places;      /* rows of the caches, if position_ids choose them; -1: none are given */
} rotary;

/* Reads a call whose shape function has passed; ERROR_SHAPE for caches that do not fit. */
reed_status rotary_read(const reed_kernel_call *call, rotary *out_rotary) REED_MUST_CHECK;

/* The first element of the caches' row for a place; ids: position_ids. */
static inline int64_t rotary_row(const rotary *r, const int64_t *ids, int64_t batch, int64_t i) {
  if (r->places < 0) return batch * r->cache_batch + i * r->cache_row;
  int64_t place = ids[batch * r->length + i];
  return (place < 0 ? place + r->places : place) * r->cache_row;
}

#endif
