/* Keys of TopK, ArgMax and ArgMin, and the loops over them, one set a CPU level. A key is an unsigned integer of 4 or 8
 * bytes; the keys' ascending order is the wanted order of the elements. */
#ifndef OPS_CPU_REDUCE_TOPK_LOOPS_H_
#define OPS_CPU_REDUCE_TOPK_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>

#include "ops/cpu/common/cpu.h"

/* A key with the place of its element along the axis. */
typedef struct pair_32 {
  uint32_t key, index;
} pair_32;
typedef struct pair_64 {
  uint64_t key;
  uint32_t index;
} pair_64;

/* The keys of n elements, `step` elements apart, to keys[0..n). */
typedef void (*topk_keys_fn)(void *keys, const void *x, int64_t n, int64_t step, bool largest);

typedef struct topk_filter {
  /* How many of the keys are `most` or less. */
  int64_t (*count)(const void *keys, int64_t n, uint64_t most);
  /* Appends the pairs of such keys to pairs[found..room), in order; the first key's index is `index`. Returns how many
   * pairs there are afterwards, or -1 if the room is too small. */
  int64_t (*collect)(void *pairs, int64_t found, int64_t room, const void *keys, int64_t n, uint64_t most,
                     uint32_t index);
} topk_filter;

/* The least key, as ArgMax and ArgMin search it. */
typedef struct topk_least {
  /* The least of n keys, 1 or more. */
  uint64_t (*of)(const void *keys, int64_t n);
  /* best[i] becomes the lesser of itself and keys[i * step]; where that key is less, or with `last` equal, places[i]
   * becomes `place`. The elements of `best` and `places` are as wide as keys. */
  void (*take)(void *best, void *places, const void *keys, int64_t n, int64_t step, uint32_t place, bool last);
} topk_least;

/* Inserts an element of each of n columns, TOPK_COLUMNS at most, among the first k that have been found of its column.
 * keys: the elements', whose number along the axis is `element`. best, places: [k][TOPK_COLUMNS] keys in
 * ascending order, equal ones in the order of their places, and places; of both the first min(element, k) rows are
 * there. Elements of all four are as wide as keys. */
#define TOPK_COLUMNS 128
typedef void (*topk_insert_fn)(void *best, void *places, const void *keys, int64_t n, int64_t element, int64_t k);

/* NULL: no numeric dtype. Keys of dtypes of 8 bytes have 8 bytes, others 4. */
CPU_LOOP(topk_keys_fn, topk_keys_of, (reed_dtype dtype));
CPU_LOOP(const topk_filter *, topk_filter_of, (int64_t key_bytes));
CPU_LOOP(const topk_least *, topk_least_of, (int64_t key_bytes));
CPU_LOOP(topk_insert_fn, topk_insert_of, (int64_t key_bytes));

#endif
