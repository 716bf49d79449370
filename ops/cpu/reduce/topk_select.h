/* Selecting and sorting the keys of TopK (topk_loops.h) by one thread, for keys of 4 and of 8 bytes. Included by topk.c
 * alone. */
#ifndef OPS_CPU_REDUCE_TOPK_SELECT_H_
#define OPS_CPU_REDUCE_TOPK_SELECT_H_

#include <math.h>

#include "ops/cpu/calls/topk.h"
#include "ops/cpu/reduce/topk_loops.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
#define FEW 32     /* sorted by insertion */
#define LISTED 512 /* digits */
#define FEW_BITS 8 /* of a digit of the sort of fewer pairs than this, where the table of long digits takes longest */
#define FEW_OF_DIGITS 1024
#define FEW_COMPARED 8192 /* k times the extent, up to which the first k are kept sorted by insertion */

/* ---- select and sort, for keys of 4 and of 8 bytes ---- */

static bool is_few(const topk *t) { return t->k > 0 && t->extent <= FEW_COMPARED / t->k; }

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

#define SELECT_FUNCTIONS(K, suffix) \
  /* The bits in which n keys, 1 or more, differ. */ \
  static K varying_##suffix(const void *keys, int64_t n, int64_t step) { \
    const char *at = keys; \
    K varying = 0, first, key; \
    memcpy(&first, at, sizeof first); \
    for (int64_t i = 1; i < n; i++) { \
      memcpy(&key, at + i * step, sizeof key); \
      varying |= key ^ first; \
    } \
    return varying; \
  } \
\
  /* Counts the digits, of the bits `mask` from `shift` on, of those of n keys whose bits `known` are `prefix`. Which \
   * are is hard to foresee in the second pass, so that their digits are listed without a branch; later on few are. */ \
  static void count_matches_##suffix(int pass, const K *keys, int64_t n, K known, K prefix, int shift, K mask, \
                                     uint32_t *count) { \
    uint16_t digits[LISTED]; \
    for (int64_t i = 0; i < n && pass != 1; i++) \
      if ((keys[i] & known) == prefix) count[keys[i] >> shift & mask]++; \
    if (pass != 1) return; \
    for (int64_t first = 0; first < n; first += LISTED) { \
      const int64_t last = n - first < LISTED ? n : first + LISTED; \
      int64_t found = 0; \
      for (int64_t i = first; i < last; i++) { \
        digits[found] = (uint16_t)(keys[i] >> shift & mask); \
        found += (keys[i] & known) == prefix; \
      } \
      for (int64_t i = 0; i < found; i++) count[digits[i]]++; \
    } \
  } \
\
  /* The key that is number k (counting from 1) in ascending order; *out_ties: how many equal to it are among the \
   * first k. */ \
  static K kth_##suffix(const K *keys, int64_t n, int64_t k, int64_t *out_ties) { \
    const K varying = varying_##suffix(keys, n, sizeof *keys); \
    int shift = varying ? 64 - __builtin_clzll(varying) : 0, pass = 0; \
    K known = shift == 8 * sizeof(K) ? 0 : (K)-1 << shift, prefix = keys[0] & known; /* the bits found so far */ \
    while (shift > 0) { \
      int bits = shift < DIGIT_BITS ? shift : DIGIT_BITS; \
      uint32_t count[DIGITS] = {0}; \
      shift -= bits; \
      K mask = ((K)1 << bits) - 1; \
      count_matches_##suffix(pass++, keys, n, known, prefix, shift, mask, count); \
      K digit = 0; \
      while (k > count[digit]) k -= count[digit++]; \
      prefix |= digit << shift; \
      known |= mask << shift; \
    } \
    *out_ties = k; \
    return prefix; \
  } \
\
  /* Stable ascending sort; `spare` has room for n. Returns the sorted array, `from` or `spare`. */ \
  static pair_##suffix *sort_##suffix(pair_##suffix *from, pair_##suffix *spare, int64_t n) { \
    if (n <= FEW) { \
      for (int64_t i = 1; i < n; i++) { \
        pair_##suffix item = from[i]; \
        int64_t at = i; \
        for (; at > 0 && from[at - 1].key > item.key; at--) from[at] = from[at - 1]; \
        from[at] = item; \
      } \
      return from; \
    } \
    pair_##suffix *to = spare; \
    const K varying = varying_##suffix(&from->key, n, sizeof *from); \
    const int end = varying ? 64 - __builtin_clzll(varying) : 0, bits = n < FEW_OF_DIGITS ? FEW_BITS : DIGIT_BITS; \
    const K mask = ((K)1 << bits) - 1; \
    for (int shift = varying ? __builtin_ctzll(varying) : 0; shift < end; shift += bits) { \
      uint32_t begin[DIGITS], total = 0; \
      memset(begin, 0, sizeof *begin << bits); \
      for (int64_t i = 0; i < n; i++) begin[from[i].key >> shift & mask]++; \
      for (K d = 0; d <= mask; d++) { \
        uint32_t here = begin[d]; \
        begin[d] = total; \
        total += here; \
      } \
      for (int64_t i = 0; i < n; i++) to[begin[from[i].key >> shift & mask]++] = from[i]; \
      pair_##suffix *swapped = from; \
      from = to; \
      to = swapped; \
    } \
    return from; \
  } \
\
  /* Puts a pair among the first k found so far, *n of them, which are sorted. */ \
  static inline void insert_##suffix(pair_##suffix *found, int64_t *n, int64_t k, pair_##suffix pair) { \
    if (*n == k && pair.key >= found[k - 1].key) return; \
    int64_t at = *n < k ? (*n)++ : k - 1; \
    for (; at > 0 && found[at - 1].key > pair.key; at--) found[at] = found[at - 1]; \
    found[at] = pair; \
  } \
\
  static int64_t scratch_bytes_##suffix(const topk *t) { \
    return aligned(t->extent * (int64_t)sizeof(K)) + aligned(2 * t->k * (int64_t)sizeof(pair_##suffix)); \
  } \
\
  static void first_keys_##suffix(const topk *t, const K *keys, pair_##suffix *found) { \
    int64_t n = 0; \
    for (int64_t i = 0; i < t->extent; i++) insert_##suffix(found, &n, t->k, (pair_##suffix){keys[i], (uint32_t)i}); \
  } \
\
  static const pair_##suffix *select_##suffix(const topk *t, K *keys) { \
    pair_##suffix *found = (pair_##suffix *)((char *)keys + aligned(t->extent * (int64_t)sizeof(K))); \
    int64_t n = 0, ties; \
    if (is_few(t)) { \
      first_keys_##suffix(t, keys, found); \
      return found; \
    } \
    if (t->k == t->extent) { \
      for (int64_t i = 0; i < t->extent; i++) found[i] = (pair_##suffix){keys[i], (uint32_t)i}; \
      return sort_##suffix(found, found + t->k, t->k); \
    } \
    K last = kth_##suffix(keys, t->extent, t->k, &ties); \
    bool few = t->k * 8 < t->extent; \
    for (int64_t i = 0; i < t->extent && n < t->k && few; i++) \
      if (keys[i] < last || (keys[i] == last && ties-- > 0)) found[n++] = (pair_##suffix){keys[i], (uint32_t)i}; \
    for (int64_t i = 0; i < t->extent && n < t->k && !few; i++) { /* which are taken is hard to foresee: no branch */ \
      found[n] = (pair_##suffix){keys[i], (uint32_t)i}; \
      n += (keys[i] < last) | ((keys[i] == last) & (ties > 0)); \
      ties -= keys[i] == last; \
    } \
    return sort_##suffix(found, found + t->k, t->k); \
  } \
\
  /* The key that some more than k of the elements are probably not above, found in a sample of n keys. */ \
  static uint64_t limit_##suffix(const topk *t, const K *sample, int64_t n) { \
    const double share = (double)t->k * (double)n / (double)t->extent; \
    const int64_t rank = (int64_t)(share + 3 * sqrt(share)) + 3; \
    if (rank > FEW) return kth_##suffix(sample, n, rank, &(int64_t){0}); \
    pair_##suffix least[FEW]; \
    int64_t found = 0; \
    for (int64_t i = 0; i < n; i++) insert_##suffix(least, &found, rank, (pair_##suffix){sample[i], 0}); \
    return least[rank - 1].key; \
  } \
\
  /* The first k of n candidates, sorted; candidates that come first have the lower indices. They are overwritten; \
   * `spare` has room for as many. */ \
  static const pair_##suffix *first_of_##suffix(int64_t k, pair_##suffix *candidates, int64_t n, void *spare) { \
    if (k <= FEW) { \
      int64_t found = 0; \
      for (int64_t i = 0; i < n; i++) insert_##suffix(spare, &found, k, candidates[i]); \
      return spare; \
    } \
    K *keys = spare; \
    int64_t ties, found = 0; \
    for (int64_t i = 0; i < n; i++) keys[i] = candidates[i].key; \
    const K last = kth_##suffix(keys, n, k, &ties); \
    for (int64_t i = 0; found < k; i++) { \
      const pair_##suffix c = candidates[i]; \
      candidates[found] = c; \
      found += (c.key < last) | ((c.key == last) & (ties > 0)); \
      ties -= c.key == last; \
    } \
    return sort_##suffix(candidates, spare, k); \
  }
SELECT_FUNCTIONS(uint32_t, 32)
SELECT_FUNCTIONS(uint64_t, 64)

#endif
