/* Selecting and sorting the first k keys of a column of TopK by one thread at a time (topk.c), in steps, between which
 * any thread may go on. A radix select finds the k-th key (11 bits a pass), one pass collects the smaller keys and the
 * first of the equal ones, and a stable radix sort orders them; equal values therefore come lower index first. If k is
 * a small part of the elements, a sample of the keys gives a limit that a few more than k keys are not above, and only
 * those go on. */
#ifndef OPS_CPU_REDUCE_TOPK_SELECTION_H_
#define OPS_CPU_REDUCE_TOPK_SELECTION_H_

#include "ops/cpu/calls/topk.h"
#include "ops/cpu/reduce/topk_loops.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
#define FEW 32           /* sorted by insertion */
#define TOPK_SAMPLE 1024 /* keys of a column */

/* ---- the elements of each dtype ---- */

static inline int64_t topk_aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* The place in X or, with the extent k, in the outputs of a column's first element. */
static inline int64_t topk_column_at(const topk *t, int64_t column, int64_t extent) {
  return t->inner == 1 ? column * extent : column / t->inner * extent * t->inner + column % t->inner;
}

/* n keys of a column, of the elements `begin`, `begin` + `step`, ... */
void topk_make_keys(const topk *t, const reed_kernel_buffers *buffers, int64_t column, void *keys, int64_t begin,
                    int64_t n, int64_t step);
/* Writes the results begin..end-1 of a column, from pairs in their final order. */
void topk_write(const topk *t, const reed_kernel_buffers *buffers, int64_t column, const void *pairs, int64_t begin,
                int64_t end);

/* ---- few elements, and few of many ---- */

/* True if the first k are kept sorted by insertion, which takes a key after the other. */
bool topk_is_few(const topk *t);
/* The first k pairs of a column that topk_is_few, by insertion. */
void topk_first_keys(const topk *t, const void *keys, void *out_pairs);

bool topk_is_sampled(const topk *t);
/* The most candidates; if more elements are not above the limit, they are selected without it. */
int64_t topk_room(const topk *t);
/* The limit for candidates of a column. */
uint64_t topk_limit(const topk *t, const reed_kernel_buffers *buffers, int64_t column);
/* The bits in which n keys, 1 or more, differ. */
uint64_t topk_varying(const topk *t, const void *keys, int64_t n);

/* TOPK_COUNT_MATCHES: counts the digits, of the bits `mask` from `shift` on, of those of n keys whose bits `known` are
 * `prefix`. Which are is hard to foresee in the second pass, so that their digits are listed without a branch; later on
 * few are. */
#define TOPK_LISTED 512 /* digits */
#define TOPK_COUNT_MATCHES(K, suffix) \
  static inline void topk_count_matches_##suffix(int pass, const K *keys, int64_t n, K known, K prefix, int shift, \
                                                 K mask, uint32_t *count) { \
    uint16_t digits[TOPK_LISTED]; \
    for (int64_t i = 0; i < n && pass != 1; i++) \
      if ((keys[i] & known) == prefix) count[keys[i] >> shift & mask]++; \
    if (pass != 1) return; \
    for (int64_t first = 0; first < n; first += TOPK_LISTED) { \
      const int64_t last = n - first < TOPK_LISTED ? n : first + TOPK_LISTED; \
      int64_t found = 0; \
      for (int64_t i = first; i < last; i++) { \
        digits[found] = (uint16_t)(keys[i] >> shift & mask); \
        found += (keys[i] & known) == prefix; \
      } \
      for (int64_t i = 0; i < found; i++) count[digits[i]]++; \
    } \
  }
TOPK_COUNT_MATCHES(uint32_t, 32)
TOPK_COUNT_MATCHES(uint64_t, 64)

/* ---- selections ---- */

typedef enum topk_phase {
  TOPK_LIMIT,      /* the limit of a sampled column */
  TOPK_FILTER,     /* its candidates */
  TOPK_CANDIDATES, /* their keys */
  TOPK_KEYS,       /* the keys of a whole column */
  TOPK_COUNT,      /* the digits of a pass */
  TOPK_COLLECT,
  TOPK_ORDER,      /* the bits in which the pairs differ */
  TOPK_COUNT_SORT, /* the digits of a pass of the sort */
  TOPK_PLACE,      /* the pairs of such a pass */
  TOPK_WRITE,
} topk_phase;

/* A column's state between two steps. */
typedef struct topk_selection {
  int64_t column;
  topk_phase phase;
  int64_t at;            /* the element or pair of the phase that comes next */
  int64_t n, found;      /* keys; pairs that have been found */
  void *keys, *pairs[2]; /* pairs[0]: those that have been found, in the order so far */
  bool of_candidates;    /* the keys are those of pairs[0], else of the column */
  bool only_sorts;       /* ends before TOPK_WRITE */
  uint64_t limit;
  uint64_t varying;       /* the bits in which the keys or pairs differ */
  uint64_t known, prefix; /* of the k-th key: the mask of the bits found so far, and these bits */
  int64_t rank;          /* of the k-th key among those that begin with the prefix; of such pairs, those still wanted */
  int pass, shift, bits; /* pass; digit that is counted */
  uint32_t counts[DIGITS];
} topk_selection;

/* Bytes of the memory that a column's selection needs, with the selection itself at its begin. */
int64_t topk_selection_bytes(const topk *t);
/* Begins the selection of a column in such memory. */
void topk_selection_begin(const topk *t, int64_t column, void *memory);
/* Begins with n candidates, at least k, in pairs[0]; pairs[1] has room for as many. The selection ends with the first k
 * of them sorted in s->pairs[0]; false: they are already. */
bool topk_selection_begin_found(topk_selection *s, const topk *t, void *const *pairs, int64_t n);

/* A selection's cost is counted in units of some 0.15 ns (Zen 4), where its memory is near. */
#define TOPK_STEP_COST 65536
int64_t topk_selection_cost(const topk *t);
/* Of n candidates. */
int64_t topk_candidates_cost(const topk *t, int64_t n);
/* Goes on by about so much cost. False: the selection has ended. */
bool topk_selection_step(topk_selection *s, const topk *t, const reed_kernel_buffers *buffers, int64_t cost);

#endif
