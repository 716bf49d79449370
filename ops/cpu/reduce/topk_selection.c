/* The steps of a selection (topk_selection.h), for keys of 4 and of 8 bytes. */
#include "ops/cpu/reduce/topk_selection.h"

#include <math.h>

#define FEW_BITS 8 /* of a digit of the sort of fewer pairs than this, where the table of long digits takes longest */
#define FEW_OF_DIGITS 1024
#define FEW_COMPARED 8192 /* k times the extent, up to which the first k are kept sorted by insertion */

#define LEAST_SAMPLED (4 * TOPK_SAMPLE) /* fewer elements are not sampled */
#define SHARE 8                         /* k is at most this part of them */
#define BLOCK 1024                      /* keys that are made and filtered at a time */

bool topk_is_few(const topk *t) { return t->k > 0 && t->extent <= FEW_COMPARED / t->k; }

bool topk_is_sampled(const topk *t) {
  return t->k > 0 && t->extent >= LEAST_SAMPLED && t->k <= t->extent / SHARE && !topk_is_few(t);
}

int64_t topk_room(const topk *t) { return 2 * t->k + t->extent / 64; }

/* ---- the elements of each dtype ---- */

void topk_make_keys(const topk *t, const reed_kernel_buffers *buffers, int64_t column, void *keys, int64_t begin,
                    int64_t n, int64_t step) {
  const int64_t at = topk_column_at(t, column, t->extent) + begin * t->inner;
  t->keys(keys, (const char *)buffers->inputs[0] + at * (int64_t)reed_dtype_bytes(t->dtype), n, step * t->inner,
          t->largest);
}

#define WRITE(T, suffix, name) \
  static void write_##name(const topk *t, const reed_kernel_buffers *buffers, int64_t column, const void *pairs, \
                           int64_t begin, int64_t end) { \
    const T *x = (const T *)buffers->inputs[0] + topk_column_at(t, column, t->extent); \
    const pair_##suffix *found = pairs; \
    int64_t at = topk_column_at(t, column, t->k); \
    T *values = (T *)buffers->outputs[0] + at; \
    for (int64_t i = begin; i < end; i++) values[i * t->inner] = x[found[i].index * t->inner]; \
    if (!t->with_indices) return; \
    int64_t *indices = (int64_t *)buffers->outputs[1] + at; \
    for (int64_t i = begin; i < end; i++) indices[i * t->inner] = found[i].index; \
  }
WRITE(uint8_t, 32, 1)
WRITE(uint16_t, 32, 2)
WRITE(uint32_t, 32, 4)
WRITE(uint64_t, 64, 8)

void topk_write(const topk *t, const reed_kernel_buffers *buffers, int64_t column, const void *pairs, int64_t begin,
                int64_t end) {
  switch (reed_dtype_bytes(t->dtype)) {
    case 1: write_1(t, buffers, column, pairs, begin, end); break;
    case 2: write_2(t, buffers, column, pairs, begin, end); break;
    case 4: write_4(t, buffers, column, pairs, begin, end); break;
    default: write_8(t, buffers, column, pairs, begin, end);
  }
}

/* ---- keys of 4 and of 8 bytes ---- */

/* SELECT_FUNCTIONS: loops over the keys or pairs begin..end of a selection. */
#define SELECT_FUNCTIONS(K, suffix) \
  /* The bits in which n keys, 1 or more, differ. */ \
  static uint64_t varying_##suffix(const void *keys, int64_t n, int64_t step) { \
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
  /* Adds the bits in which keys differ from the first one. */ \
  static void vary_keys_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    const K *keys = s->keys; \
    s->varying |= varying_##suffix(keys + begin, end - begin, sizeof *keys) | (keys[begin] ^ keys[0]); \
  } \
\
  static void vary_pairs_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    const pair_##suffix *pairs = s->pairs[0]; \
    s->varying |= varying_##suffix(&pairs[begin].key, end - begin, sizeof *pairs) | (pairs[begin].key ^ pairs->key); \
  } \
\
  /* Counts a pass's digits. */ \
  static void count_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    topk_count_matches_##suffix(s->pass, (const K *)s->keys + begin, end - begin, (K)s->known, (K)s->prefix, s->shift, \
                                ((K)1 << s->bits) - 1, s->counts); \
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
  static void first_keys_##suffix(const void *keys, int64_t extent, int64_t k, void *out_pairs) { \
    const K *from = keys; \
    int64_t n = 0; \
    for (int64_t i = 0; i < extent; i++) insert_##suffix(out_pairs, &n, k, (pair_##suffix){from[i], (uint32_t)i}); \
  } \
\
  /* The first k of n pairs, in their order, to pairs[1]. */ \
  static void first_pairs_##suffix(const topk_selection *s, int64_t n, int64_t k) { \
    const pair_##suffix *from = s->pairs[0]; \
    int64_t found = 0; \
    for (int64_t i = 0; i < n; i++) insert_##suffix(s->pairs[1], &found, k, from[i]); \
  } \
\
  /* The keys of candidates. */ \
  static void take_keys_##suffix(const topk_selection *s, int64_t begin, int64_t end) { \
    const pair_##suffix *candidates = s->pairs[0]; \
    K *keys = s->keys; \
    for (int64_t i = begin; i < end; i++) keys[i] = candidates[i].key; \
  } \
\
  static void take_pairs_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    const K *keys = s->keys; \
    pair_##suffix *found = s->pairs[0]; \
    for (int64_t i = begin; i < end; i++) found[i] = (pair_##suffix){keys[i], (uint32_t)i}; \
  } \
\
  /* The keys that are less than the k-th, and of the equal ones the first. Which keys are is hard to foresee if many \
   * are: no branch. Candidates move to their front. */ \
  static void collect_##suffix(topk_selection *s, int64_t k, int64_t begin, int64_t end) { \
    const K *keys = s->keys, last = (K)s->prefix; \
    pair_##suffix *found = s->pairs[0]; \
    const bool of_candidates = s->of_candidates, few = !of_candidates && k * 8 < s->n; \
    int64_t n = s->found, ties = s->rank, i = begin; \
    for (; i < end && n < k && few; i++) \
      if (keys[i] < last || (keys[i] == last && ties-- > 0)) found[n++] = (pair_##suffix){keys[i], (uint32_t)i}; \
    for (; i < end && n < k && of_candidates; i++) { \
      found[n] = found[i]; \
      n += (keys[i] < last) | ((keys[i] == last) & (ties > 0)); \
      ties -= keys[i] == last; \
    } \
    for (; i < end && n < k; i++) { \
      found[n] = (pair_##suffix){keys[i], (uint32_t)i}; \
      n += (keys[i] < last) | ((keys[i] == last) & (ties > 0)); \
      ties -= keys[i] == last; \
    } \
    s->found = n; \
    s->rank = ties; \
  } \
\
  static void count_sort_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    const pair_##suffix *from = s->pairs[0]; \
    const K mask = ((K)1 << s->bits) - 1; \
    const int shift = s->shift; \
    for (int64_t i = begin; i < end; i++) s->counts[from[i].key >> shift & mask]++; \
  } \
\
  static void place_##suffix(topk_selection *s, int64_t begin, int64_t end) { \
    const pair_##suffix *from = s->pairs[0]; \
    pair_##suffix *to = s->pairs[1]; \
    uint32_t *next = s->counts; \
    const K mask = ((K)1 << s->bits) - 1; \
    const int shift = s->shift; \
    for (int64_t i = begin; i < end; i++) to[next[from[i].key >> shift & mask]++] = from[i]; \
  }
SELECT_FUNCTIONS(uint32_t, 32)
SELECT_FUNCTIONS(uint64_t, 64)

typedef struct select_loops {
  uint64_t (*varying)(const void *keys, int64_t n, int64_t step);
  void (*first_keys)(const void *keys, int64_t extent, int64_t k, void *out_pairs);
  void (*first_pairs)(const topk_selection *s, int64_t n, int64_t k);
  void (*take_keys)(const topk_selection *s, int64_t begin, int64_t end);
  void (*vary_keys)(topk_selection *s, int64_t begin, int64_t end);
  void (*count)(topk_selection *s, int64_t begin, int64_t end);
  void (*take_pairs)(topk_selection *s, int64_t begin, int64_t end);
  void (*collect)(topk_selection *s, int64_t k, int64_t begin, int64_t end);
  void (*vary_pairs)(topk_selection *s, int64_t begin, int64_t end);
  void (*count_sort)(topk_selection *s, int64_t begin, int64_t end);
  void (*place)(topk_selection *s, int64_t begin, int64_t end);
} select_loops;

#define LOOPS(suffix) \
  { \
    varying_##suffix, first_keys_##suffix, first_pairs_##suffix, take_keys_##suffix, vary_keys_##suffix, \
        count_##suffix, take_pairs_##suffix, collect_##suffix, vary_pairs_##suffix, count_sort_##suffix, \
        place_##suffix \
  }

static const select_loops *loops_of(const topk *t) {
  static const select_loops loops[] = {LOOPS(32), LOOPS(64)};
  return &loops[t->key_bytes == 8];
}

uint64_t topk_varying(const topk *t, const void *keys, int64_t n) {
  return loops_of(t)->varying(keys, n, t->key_bytes);
}

void topk_first_keys(const topk *t, const void *keys, void *out_pairs) {
  loops_of(t)->first_keys(keys, t->extent, t->k, out_pairs);
}

/* ---- passes over digits ---- */

/* Begins the next pass that counts digits of keys; false: the k-th key is known. */
static bool begin_count(topk_selection *s) {
  if (s->shift == 0) return false;
  s->bits = s->shift < DIGIT_BITS ? s->shift : DIGIT_BITS;
  s->shift -= s->bits;
  memset(s->counts, 0, sizeof s->counts);
  return true;
}

/* Ends a pass: the k-th key's digit. */
static void end_count(topk_selection *s) {
  uint64_t digit = 0;
  while (s->rank > s->counts[digit]) s->rank -= s->counts[digit++];
  s->pass++;
  s->prefix |= digit << s->shift;
  s->known |= (((uint64_t)1 << s->bits) - 1) << s->shift;
}

/* Begins the search for number `rank` (counting from 1) of the n keys, whose varying bits are known. */
static bool begin_kth(topk_selection *s, const topk *t, int64_t rank) {
  const uint64_t first = t->key_bytes == 8 ? *(const uint64_t *)s->keys : *(const uint32_t *)s->keys;
  s->rank = rank;
  s->pass = 0;
  s->shift = s->varying ? 64 - __builtin_clzll(s->varying) : 0;
  s->known = s->shift == 64 ? 0 : UINT64_MAX << s->shift;
  s->prefix = first & s->known;
  return begin_count(s);
}

/* Begins the next pass of the sort from bit s->shift on; false: the pairs are sorted. */
static bool begin_sort(topk_selection *s, const topk *t) {
  const int end = s->varying ? 64 - __builtin_clzll(s->varying) : 0;
  if (s->shift >= end) return false;
  s->bits = t->k < FEW_OF_DIGITS ? FEW_BITS : DIGIT_BITS;
  memset(s->counts, 0, sizeof *s->counts << s->bits);
  return true;
}

/* counts[0..n) become the sums of the counts before them. */
static void sum_before(uint32_t *counts, int64_t n) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t count = counts[i];
    counts[i] = total;
    total += count;
  }
}

static void swap_pairs(topk_selection *s) {
  void *pairs = s->pairs[0];
  s->pairs[0] = s->pairs[1];
  s->pairs[1] = pairs;
}

/* ---- few of many ---- */

uint64_t topk_limit(const topk *t, const reed_kernel_buffers *buffers, int64_t column) {
  uint64_t keys[TOPK_SAMPLE], pairs[2][2 * (FEW + 1)];
  topk_make_keys(t, buffers, column, keys, 0, TOPK_SAMPLE, t->extent / TOPK_SAMPLE);
  /* the key that some more than k of the elements are probably not above */
  const double share = (double)t->k * TOPK_SAMPLE / (double)t->extent;
  const int64_t rank = (int64_t)(share + 3 * sqrt(share)) + 3;
  const select_loops *loops = loops_of(t);
  if (rank <= FEW) {
    loops->first_keys(keys, TOPK_SAMPLE, rank, pairs);
    return t->key_bytes == 8 ? ((const pair_64 *)(const void *)pairs)[rank - 1].key
                             : ((const pair_32 *)(const void *)pairs)[rank - 1].key;
  }
  topk_selection s = {.keys = keys};
  s.varying = loops->varying(keys, TOPK_SAMPLE, t->key_bytes);
  for (bool goes_on = begin_kth(&s, t, rank); goes_on; goes_on = begin_count(&s)) {
    loops->count(&s, 0, TOPK_SAMPLE);
    end_count(&s);
  }
  return s.prefix;
}

/* Finds candidates among the elements begin..end; s->found becomes -1 if there is no room for them. */
static void filter(topk_selection *s, const topk *t, const reed_kernel_buffers *buffers, int64_t begin, int64_t end) {
  uint64_t keys[BLOCK];
  const int64_t room = topk_room(t);
  for (int64_t i = begin; i < end && s->found >= 0; i += BLOCK) {
    const int64_t n = end - i < BLOCK ? end - i : BLOCK;
    topk_make_keys(t, buffers, s->column, keys, i, n, 1);
    s->found = t->filter->collect(s->pairs[0], s->found, room, keys, n, s->limit, (uint32_t)i);
  }
}

/* ---- phases ---- */

static int64_t begin_bytes(void) { return topk_aligned((int64_t)sizeof(topk_selection)); }

int64_t topk_selection_bytes(const topk *t) {
  const int64_t whole = topk_aligned(t->extent * t->key_bytes) + topk_aligned(4 * t->k * t->key_bytes),
                sampled = topk_is_sampled(t) ? topk_aligned(4 * topk_room(t) * t->key_bytes) : 0;
  return begin_bytes() + (whole > sampled ? whole : sampled);
}

/* The whole column: its keys, then the pairs. */
static void begin_whole(topk_selection *s, const topk *t) {
  char *memory = (char *)s + begin_bytes();
  s->keys = memory;
  s->pairs[0] = memory + topk_aligned(t->extent * t->key_bytes);
  s->pairs[1] = (char *)s->pairs[0] + 2 * t->k * t->key_bytes;
  s->n = t->extent;
  s->found = 0;
  s->varying = 0;
  s->of_candidates = false;
  s->phase = TOPK_KEYS;
}

void topk_selection_begin(const topk *t, int64_t column, void *memory) {
  topk_selection *s = memory;
  s->column = column;
  s->at = 0;
  s->only_sorts = false;
  if (!topk_is_sampled(t)) {
    begin_whole(s, t);
    return;
  }
  s->pairs[0] = (char *)memory + begin_bytes();
  s->pairs[1] = (char *)s->pairs[0] + 2 * topk_room(t) * t->key_bytes;
  s->found = 0;
  s->phase = TOPK_LIMIT;
}

/* n candidates in pairs[0]. */
static void begin_candidates(topk_selection *s, const topk *t, int64_t n) {
  s->of_candidates = true;
  s->n = n;
  s->keys = s->pairs[1];
  s->varying = 0;
  s->found = n;
  if (t->k <= FEW) {
    loops_of(t)->first_pairs(s, n, t->k);
    swap_pairs(s);
    s->phase = TOPK_WRITE;
  } else {
    s->phase = n > t->k ? TOPK_CANDIDATES : TOPK_ORDER;
  }
}

bool topk_selection_begin_found(topk_selection *s, const topk *t, void *const *pairs, int64_t n) {
  s->at = 0;
  s->pairs[0] = pairs[0];
  s->pairs[1] = pairs[1];
  s->only_sorts = true;
  begin_candidates(s, t, n);
  return s->phase != TOPK_WRITE;
}

/* The elements of a phase. */
static int64_t end_of(const topk_selection *s, const topk *t) {
  switch (s->phase) {
    case TOPK_LIMIT: return 1;
    case TOPK_FILTER: return t->extent;
    case TOPK_CANDIDATES:
    case TOPK_KEYS:
    case TOPK_COUNT:
    case TOPK_COLLECT: return s->n;
    case TOPK_ORDER:
    case TOPK_COUNT_SORT:
    case TOPK_PLACE:
    case TOPK_WRITE: return t->k;
  }
  return 0;
}

/* The cost of an element in a phase. */
static int64_t cost_of(topk_phase phase, const topk *t) {
  const bool apart = t->inner > 1;
  switch (phase) {
    case TOPK_LIMIT: return TOPK_SAMPLE * (apart ? 32 : 8);
    case TOPK_FILTER:
    case TOPK_KEYS: return apart ? 6 : 2;
    case TOPK_ORDER: return 1;
    case TOPK_CANDIDATES:
    case TOPK_COUNT:
    case TOPK_COUNT_SORT: return 2;
    case TOPK_COLLECT: return 3;
    case TOPK_PLACE: return 6;
    case TOPK_WRITE: return !apart ? 8 : t->key_bytes == 8 ? 48 : 32;
  }
  return 1;
}

/* Writes the results begin..end-1 of the column's round. Columns side by side share lines of the cache: threads that
 * write two of them from the first result on would wait for each other at every line, so that each column's round
 * begins elsewhere. */
static void write_some(const topk_selection *s, const topk *t, const reed_kernel_buffers *buffers, int64_t begin,
                       int64_t end) {
  const int64_t columns = t->outer * t->inner, first = t->inner > 1 ? t->k * s->column / columns : 0,
                before = cpu_clamp(t->k - first, begin, end); /* the round goes on at result 0 */
  topk_write(t, buffers, s->column, s->pairs[0], first + begin, first + before);
  topk_write(t, buffers, s->column, s->pairs[0], first + before - t->k, first + end - t->k);
}

static void run_phase(topk_selection *s, const topk *t, const reed_kernel_buffers *buffers, int64_t begin,
                      int64_t end) {
  const select_loops *loops = loops_of(t);
  switch (s->phase) {
    case TOPK_LIMIT: s->limit = topk_limit(t, buffers, s->column); break;
    case TOPK_FILTER: filter(s, t, buffers, begin, end); break;
    case TOPK_CANDIDATES:
      loops->take_keys(s, begin, end);
      loops->vary_keys(s, begin, end);
      break;
    case TOPK_KEYS:
      topk_make_keys(t, buffers, s->column, (char *)s->keys + begin * t->key_bytes, begin, end - begin, 1);
      loops->vary_keys(s, begin, end);
      break;
    case TOPK_COUNT: loops->count(s, begin, end); break;
    case TOPK_COLLECT:
      if (t->k == s->n) loops->take_pairs(s, begin, end);
      else loops->collect(s, t->k, begin, end);
      break;
    case TOPK_ORDER: loops->vary_pairs(s, begin, end); break;
    case TOPK_COUNT_SORT: loops->count_sort(s, begin, end); break;
    case TOPK_PLACE: loops->place(s, begin, end); break;
    case TOPK_WRITE: write_some(s, t, buffers, begin, end); break;
  }
}

/* The sort's next pass, or the end of the sort. */
static topk_phase after_pass(topk_selection *s, const topk *t) {
  return begin_sort(s, t) ? TOPK_COUNT_SORT : TOPK_WRITE;
}

/* The sort of pairs whose varying bits are known. */
static topk_phase first_pass(topk_selection *s, const topk *t) {
  s->shift = s->varying ? __builtin_ctzll(s->varying) : 0;
  return after_pass(s, t);
}

/* The phase after one that is complete; false: there is none. */
static bool end_phase(topk_selection *s, const topk *t) {
  s->at = 0;
  switch (s->phase) {
    case TOPK_LIMIT: s->phase = TOPK_FILTER; break;
    case TOPK_FILTER:
      if (s->found < t->k) begin_whole(s, t); /* the sample was misleading */
      else begin_candidates(s, t, s->found);
      break;
    case TOPK_CANDIDATES:
    case TOPK_KEYS:
      s->found = 0;
      s->phase = t->k < s->n && begin_kth(s, t, t->k) ? TOPK_COUNT : TOPK_COLLECT;
      break;
    case TOPK_COUNT:
      end_count(s);
      if (!begin_count(s)) s->phase = TOPK_COLLECT;
      break;
    case TOPK_COLLECT:
      if (t->k == s->n) {
        s->phase = first_pass(s, t);
        break;
      }
      s->varying = 0;
      s->phase = TOPK_ORDER;
      if (t->k > FEW) break;
      loops_of(t)->first_pairs(s, t->k, t->k);
      swap_pairs(s);
      s->phase = TOPK_WRITE;
      break;
    case TOPK_ORDER: s->phase = first_pass(s, t); break;
    case TOPK_COUNT_SORT:
      sum_before(s->counts, (int64_t)1 << s->bits);
      s->phase = TOPK_PLACE;
      break;
    case TOPK_PLACE:
      swap_pairs(s);
      s->shift += s->bits;
      s->phase = after_pass(s, t);
      break;
    case TOPK_WRITE: return false;
  }
  return s->phase != TOPK_WRITE || !s->only_sorts;
}

bool topk_selection_step(topk_selection *s, const topk *t, const reed_kernel_buffers *buffers, int64_t cost) {
  while (cost > 0) {
    const int64_t each = cost_of(s->phase, t), left = end_of(s, t) - s->at, most = (cost - 1) / each + 1,
                  n = left < most ? left : most;
    run_phase(s, t, buffers, s->at, s->at + n);
    s->at += n;
    cost -= n * each;
    if (n == left && !end_phase(s, t)) return false;
  }
  return true;
}

static int64_t passes_of(const topk *t) { return (t->key_bytes * 8 + DIGIT_BITS - 1) / DIGIT_BITS; }

int64_t topk_candidates_cost(const topk *t, int64_t n) {
  const int64_t passes = passes_of(t),
                select = cost_of(TOPK_CANDIDATES, t) + passes * cost_of(TOPK_COUNT, t) + cost_of(TOPK_COLLECT, t),
                sort = cost_of(TOPK_ORDER, t) + passes * (cost_of(TOPK_COUNT_SORT, t) + cost_of(TOPK_PLACE, t));
  return n * select + t->k * sort;
}

int64_t topk_selection_cost(const topk *t) {
  const int64_t writes = t->k * cost_of(TOPK_WRITE, t);
  if (topk_is_sampled(t))
    return cost_of(TOPK_LIMIT, t) + t->extent * cost_of(TOPK_FILTER, t) + topk_candidates_cost(t, topk_room(t)) +
           writes;
  return t->extent * cost_of(TOPK_KEYS, t) + topk_candidates_cost(t, t->extent) + writes;
}
