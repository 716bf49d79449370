/* TopK (ONNX opset 11 to 24), any numeric dtype. Elements become unsigned keys whose ascending order is the wanted one
 * (topk_loops.h), and the first k are selected and sorted (topk_selection.h). NaN counts as larger than every number,
 * as in numpy. The output is always sorted. Threads share out the columns, or the parts of each column if they are
 * long: what is selected follows from the elements alone. The reference: reference/topk.c. */
#include "ops/cpu/common/relay.h"
#include "ops/cpu/reduce/topk_selection.h"

#define STEPS_LEAST 4 /* of a selection: with fewer it takes some 15 us at most */
#define SHORT 64      /* elements of a row that is selected together with its neighbours */
#define BLOCK 1024    /* keys of such rows that are made at a time */

/* The workspace of a long column. */
typedef struct long_column {
  void *keys, *pairs[2];
  uint32_t *counts;     /* [part][digit], and one row more: of all parts */
  int64_t *less, *ties; /* by part: how many keys are less than the k-th, or equal; later the sums before the part.
                         * `less` has the bits in which a part's keys differ first */
} long_column;

typedef struct topk_job {
  const topk *t;
  const reed_kernel_buffers *buffers;
  int64_t column; /* a long one */
  long_column at;
  uint64_t varying;       /* the bits in which the keys differ */
  uint64_t prefix, known; /* of the k-th key: the bits found so far, and their mask */
  int pass;               /* 0: all keys begin with the prefix */
  int shift, bits;        /* the digit that is counted */
  int32_t sort_shift;
  int32_t sorted; /* of the two arrays of pairs: the one that has been sorted so far */
} topk_job;

/* ---- whole columns ---- */

/* Short rows, whose keys are made many at a time. */
static bool is_short(const topk *t) { return t->inner == 1 && t->extent <= SHORT && topk_is_few(t); }

static void topk_short_rows(const topk_job *job, int64_t begin, int64_t end, char *scratch) {
  const topk *t = job->t;
  uint64_t keys[BLOCK];
  for (int64_t i = begin, rows; i < end; i += rows) {
    rows = end - i < BLOCK / t->extent ? end - i : BLOCK / t->extent;
    topk_make_keys(t, job->buffers, i, keys, 0, rows * t->extent, 1);
    for (int64_t row = 0; row < rows; row++) {
      topk_first_keys(t, (const char *)keys + row * t->extent * t->key_bytes, scratch);
      topk_write(t, job->buffers, i + row, scratch, 0, t->k);
    }
  }
}

/* ---- short columns side by side ---- */

#define BESIDE_STEPS(level) ((level) >= CPU_AVX2 ? 256 : 64) /* k times the extent, at most */
#define BESIDE_LEAST 16                                      /* columns that lie side by side, at least */

static bool is_beside(const topk *t, cpu_level level) {
  return t->extent <= SHORT && t->k > 0 && t->k * t->extent <= BESIDE_STEPS(level) &&
         (t->inner == 1 ? t->outer : t->inner) >= BESIDE_LEAST;
}

static int64_t beside_bytes(const topk *t) { return (2 * t->k + 1) * TOPK_COLUMNS * t->key_bytes; }

/* Writes the k results of n columns from their places. Rows of elements of 2 and 4 bytes have loops of their own,
 * which make them faster, and rows of elements of 1 and 8 bytes slower (gcc 12, Zen 4). */
#define WRITE_BESIDE(T, K, name) \
  static void write_beside_##name(const topk_job *job, int64_t column, int64_t n, const void *all_places) { \
    const topk *t = job->t; \
    const int64_t k = t->k, inner = t->inner, x_step = inner == 1 ? t->extent : 1, y_step = inner == 1 ? k : 1, \
                  at = topk_column_at(t, column, k); \
    const bool rows = inner == 1 && (sizeof(T) == 2 || sizeof(T) == 4); \
    const T *restrict x = (const T *)job->buffers->inputs[0] + topk_column_at(t, column, t->extent); \
    T *restrict values = (T *)job->buffers->outputs[0] + at; \
    int64_t *restrict indices = t->with_indices ? (int64_t *)job->buffers->outputs[1] + at : NULL; \
    const K *restrict places = all_places; \
    for (int64_t j = 0; j < k; j++, places += TOPK_COLUMNS) { \
      for (int64_t i = 0; i < n && rows; i++) values[j + i * y_step] = x[(int64_t)places[i] + i * x_step]; \
      for (int64_t i = 0; i < n && rows && indices; i++) indices[j + i * y_step] = (int64_t)places[i]; \
      if (rows) continue; \
      for (int64_t i = 0; i < n; i++) values[j * inner + i * y_step] = x[(int64_t)places[i] * inner + i * x_step]; \
      for (int64_t i = 0; i < n && indices; i++) indices[j * inner + i * y_step] = (int64_t)places[i]; \
    } \
  }
WRITE_BESIDE(uint8_t, uint32_t, 1)
WRITE_BESIDE(uint16_t, uint32_t, 2)
WRITE_BESIDE(uint32_t, uint32_t, 4)
WRITE_BESIDE(uint64_t, uint64_t, 8)

/* Inserts element after element of a block of columns. */
static void topk_beside(const topk_job *job, int64_t begin, int64_t end, char *scratch) {
  const topk *t = job->t;
  const int64_t size = (int64_t)reed_dtype_bytes(t->dtype), row = TOPK_COLUMNS * t->key_bytes,
                step = t->inner == 1 ? t->extent : 1;
  char *keys = scratch, *best = keys + row, *places = best + t->k * row;
  for (int64_t i = begin, n; i < end && !cpu_cancelled(&t->team); i += n) {
    n = end - i < TOPK_COLUMNS ? end - i : TOPK_COLUMNS;
    if (t->inner > 1 && n > t->inner - i % t->inner) n = t->inner - i % t->inner;
    const char *x = (const char *)job->buffers->inputs[0] + topk_column_at(t, i, t->extent) * size;
    for (int64_t e = 0; e < t->extent; e++, x += t->inner * size) {
      t->keys(keys, x, n, step, t->largest);
      t->insert(best, places, keys, n, e, t->k);
    }
    switch (size) {
      case 1: write_beside_1(job, i, n, places); break;
      case 2: write_beside_2(job, i, n, places); break;
      case 4: write_beside_4(job, i, n, places); break;
      default: write_beside_8(job, i, n, places);
    }
  }
}

static void topk_columns(void *context, int64_t begin, int64_t end, int32_t worker) {
  const topk_job *job = context;
  const topk *t = job->t;
  char *scratch = (char *)job->buffers->workspace + worker * t->scratch_bytes;
  if (t->insert) {
    topk_beside(job, begin, end, scratch);
    return;
  }
  if (is_short(t)) {
    topk_short_rows(job, begin, end, scratch);
    return;
  }
  for (int64_t i = begin; i < end && !cpu_cancelled(&t->team); i++) {
    if (topk_is_few(t)) {
      char *pairs = scratch + topk_aligned(t->extent * t->key_bytes);
      topk_make_keys(t, job->buffers, i, scratch, 0, t->extent, 1);
      topk_first_keys(t, scratch, pairs);
      topk_write(t, job->buffers, i, pairs, 0, t->k);
      continue;
    }
    topk_selection_begin(t, i, scratch);
    while (topk_selection_step((topk_selection *)(void *)scratch, t, job->buffers, INT64_MAX)) continue;
  }
}

/* A column whose selection takes longer than a chunk should goes on in steps. */
static bool is_in_steps(const topk *t) {
  return t->team.threads > 1 && !t->insert && !topk_is_few(t) && topk_selection_cost(t) > STEPS_LEAST * TOPK_STEP_COST;
}

static bool topk_column_step(void *context, int64_t column, int64_t step, int32_t place) {
  const topk_job *job = context;
  char *scratch = (char *)job->buffers->workspace + place * job->t->scratch_bytes;
  if (step == 0) topk_selection_begin(job->t, column, scratch);
  return topk_selection_step((topk_selection *)(void *)scratch, job->t, job->buffers, TOPK_STEP_COST);
}

/* ---- long columns, by parts ---- */

#define PART 16384      /* elements of a part of a column; columns of several parts are shared out */
#define SORT_LEAST 2048 /* pairs of a part of the sort, which has SORT_PARTS parts of SORT_LEAST to SORT_MOST pairs */
#define SORT_MOST 16384
#define SORT_PARTS 16
#define MANY SORT_MOST    /* more pairs are sorted by several threads */
#define FEW_SELECTED 4096 /* so many of a sampled column are selected by one thread */

/* The pairs of a part of the sort. Shorter parts of keys of 8 bytes cost 16 %, because their sort has twice the steps.
 */
static int64_t sort_part_of(const topk *t) {
  return t->key_bytes == 8 ? SORT_MOST : cpu_clamp(t->k / SORT_PARTS, SORT_LEAST, SORT_MOST);
}

static int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }
static int64_t part_end(int64_t number, int64_t part, int64_t n) {
  return (number + 1) * part < n ? (number + 1) * part : n;
}

/* Lays the parts of a column's workspace out from `at` on (NULL: it does not), and returns its bytes. */
static int64_t lay_column(const topk *t, char *at, long_column *out) {
  int64_t key_bytes = t->key_bytes, pair_bytes = 2 * key_bytes, n = parts_of(t->extent, PART),
          digits = (n + 1) * DIGITS, sort_digits = parts_of(t->k, sort_part_of(t)) * CPU_DIGITS;
  const int64_t pairs = topk_is_sampled(t) && topk_room(t) > t->k ? topk_room(t) : t->k;
  int64_t bytes[] = {t->extent * key_bytes,
                     pairs * pair_bytes,
                     pairs * pair_bytes,
                     (digits > sort_digits ? digits : sort_digits) * 4,
                     n * 8,
                     n * 8};
  void **places[] = {&out->keys,          &out->pairs[0],     &out->pairs[1], (void **)&out->counts,
                     (void **)&out->less, (void **)&out->ties};
  int64_t used = 0;
  for (int i = 0; i < 6; i++) {
    if (at) *places[i] = at + used;
    used += topk_aligned(bytes[i]);
  }
  return used;
}

static void make_keys(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  for (int64_t p = begin; p < end; p++)
    topk_make_keys(job->t, job->buffers, job->column, (char *)c->keys + p * PART * job->t->key_bytes, p * PART,
                   part_end(p, PART, job->t->extent) - p * PART, 1);
}

/* Makes the keys and finds the bits in which those of a part differ. */
static void make_compared_keys(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  make_keys(context, begin, end);
  for (int64_t p = begin; p < end; p++) {
    const int64_t n = part_end(p, PART, job->t->extent) - p * PART;
    c->less[p] = (int64_t)topk_varying(job->t, (const char *)c->keys + p * PART * job->t->key_bytes, n);
  }
}

/* Key i of a long column. */
static uint64_t key_at(const topk_job *job, int64_t i) {
  const void *keys = job->at.keys;
  return job->t->key_bytes == 8 ? ((const uint64_t *)keys)[i] : ((const uint32_t *)keys)[i];
}

/* Makes the keys and counts the candidates among them. */
static void count_candidates(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const topk *t = job->t;
  make_keys(context, begin, end);
  for (int64_t p = begin; p < end; p++)
    job->at.less[p] = t->filter->count((const char *)job->at.keys + p * PART * t->key_bytes,
                                       part_end(p, PART, t->extent) - p * PART, job->prefix);
}

/* Pairs that go on in a selection. */
typedef struct found_pairs {
  const topk_job *job;
  topk_selection *selection;
} found_pairs;

static void collect_candidates(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const topk *t = job->t;
  for (int64_t p = begin; p < end; p++)
    (void)t->filter->collect(job->at.pairs[0], job->at.less[p], topk_room(t),
                             (const char *)job->at.keys + p * PART * t->key_bytes,
                             part_end(p, PART, t->extent) - p * PART, job->prefix, (uint32_t)(p * PART));
}

static bool sort_step(void *context, int64_t item, int64_t step, int32_t place) {
  (void)item, (void)step, (void)place;
  const found_pairs *f = context;
  return topk_selection_step(f->selection, f->job->t, f->job->buffers, TOPK_STEP_COST);
}

/* Selects and sorts the first k of n pairs in pairs[0], in chunks that a thread takes one after the other. */
static reed_status sort_found(topk_job *job, int64_t n) {
  const topk *t = job->t;
  topk_selection selection;
  found_pairs found = {job, &selection};
  reed_status status = REED_OK;
  if (topk_selection_begin_found(&selection, t, job->at.pairs, n))
    status = cpu_relay(t->team, 1, topk_candidates_cost(t, n) / TOPK_STEP_COST + 1, sort_step, &found);
  job->sorted = selection.pairs[0] == job->at.pairs[1];
  return status;
}

/* Finds the first k pairs by a limit. *out_found false: it was misleading; only the keys are made. */
static reed_status find_few(topk_job *job, cpu_team team, bool *out_found) {
  const topk *t = job->t;
  const int64_t n = parts_of(t->extent, PART);
  job->prefix = topk_limit(t, job->buffers, job->column);
  reed_status status = cpu_parallel(team, n, 1, count_candidates, job);
  if (status != REED_OK) return status;
  const int64_t found = cpu_sum_before(job->at.less, n, 0);
  *out_found = found >= t->k && found <= topk_room(t);
  if (!*out_found) return REED_OK;
  status = cpu_parallel(team, n, 1, collect_candidates, job);
  return status == REED_OK ? sort_found(job, found) : status;
}

/* Sums the parts' counts of digits begin..end-1. */
static void add_counts(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  int64_t n = parts_of(job->t->extent, PART);
  uint32_t *all = c->counts + n * DIGITS;
  memset(all + begin, 0, (size_t)(end - begin) * sizeof *all);
  for (int64_t p = 0; p < n; p++)
    for (int64_t d = begin; d < end; d++) all[d] += c->counts[p * DIGITS + d];
}

/* LONG_FUNCTIONS: the steps for keys of 4 and of 8 bytes. count_digits: the digits of the keys that begin as the k-th
 * does. count_less: for `less` and `ties`. collect: the keys that are less, and of the equal ones the first.
 * count_sort, sort: one digit of the stable sort of the pairs. */
#define LONG_FUNCTIONS(K, suffix) \
  static void count_digits_##suffix(void *context, int64_t begin, int64_t end) { \
    const topk_job *job = context; \
    const long_column *c = &job->at; \
    const K *keys = c->keys, prefix = (K)job->prefix, known = (K)job->known, mask = ((K)1 << job->bits) - 1; \
    int shift = job->shift; \
    for (int64_t p = begin; p < end; p++) { \
      uint32_t *count = c->counts + p * DIGITS; \
      memset(count, 0, DIGITS * sizeof *count); \
      int64_t first = p * PART, last = part_end(p, PART, job->t->extent); \
      if (job->pass == 0) \
        for (int64_t i = first; i < last; i++) count[keys[i] >> shift & mask]++; \
      else topk_count_matches_##suffix(job->pass, keys + first, last - first, known, prefix, shift, mask, count); \
    } \
  } \
\
  static void count_less_##suffix(void *context, int64_t begin, int64_t end) { \
    const topk_job *job = context; \
    const long_column *c = &job->at; \
    const K *keys = c->keys, kth = (K)job->prefix; \
    for (int64_t p = begin; p < end; p++) { \
      uint32_t less = 0, ties = 0; \
      for (int64_t i = p * PART, last = part_end(p, PART, job->t->extent); i < last; i++) \
        less += keys[i] < kth, ties += keys[i] == kth; \
      c->less[p] = less; \
      c->ties[p] = ties; \
    } \
  } \
\
  static void collect_##suffix(void *context, int64_t begin, int64_t end) { \
    const topk_job *job = context; \
    const long_column *c = &job->at; \
    const K *keys = c->keys, kth = (K)job->prefix; \
    for (int64_t p = begin; p < end; p++) { \
      pair_##suffix *found = (pair_##suffix *)c->pairs[0] + c->less[p]; \
      int64_t ties = c->ties[p], end_of_part = p + 1 < parts_of(job->t->extent, PART) ? c->less[p + 1] : job->t->k, \
              wanted = end_of_part - c->less[p]; \
      for (int64_t i = p * PART, n = 0; n < wanted; i++) { \
        found[n] = (pair_##suffix){keys[i], (uint32_t)i}; \
        n += (keys[i] < kth) | ((keys[i] == kth) & (ties > 0)); \
        ties -= keys[i] == kth; \
      } \
    } \
  } \
\
  static void count_sort_##suffix(void *context, int64_t begin, int64_t end) { \
    const topk_job *job = context; \
    const long_column *c = &job->at; \
    const pair_##suffix *from = c->pairs[job->sorted]; \
    int64_t part = sort_part_of(job->t); \
    for (int64_t p = begin; p < end; p++) { \
      uint32_t *count = c->counts + p * CPU_DIGITS; \
      memset(count, 0, CPU_DIGITS * sizeof *count); \
      for (int64_t i = p * part, last = part_end(p, part, job->t->k); i < last; i++) \
        count[from[i].key >> job->sort_shift & (CPU_DIGITS - 1)]++; \
    } \
  } \
\
  static void sort_part_##suffix(void *context, int64_t begin, int64_t end) { \
    const topk_job *job = context; \
    const long_column *c = &job->at; \
    const pair_##suffix *from = c->pairs[job->sorted]; \
    pair_##suffix *to = c->pairs[!job->sorted]; \
    int64_t part = sort_part_of(job->t); \
    for (int64_t p = begin; p < end; p++) { \
      uint32_t *next = c->counts + p * CPU_DIGITS; \
      for (int64_t i = p * part, last = part_end(p, part, job->t->k); i < last; i++) \
        to[next[from[i].key >> job->sort_shift & (CPU_DIGITS - 1)]++] = from[i]; \
    } \
  }
LONG_FUNCTIONS(uint32_t, 32)
LONG_FUNCTIONS(uint64_t, 64)

typedef struct long_steps {
  cpu_range_fn count_digits, count_less, collect, count_sort, sort_part;
} long_steps;

static const long_steps steps_32 = {count_digits_32, count_less_32, collect_32, count_sort_32, sort_part_32},
                        steps_64 = {count_digits_64, count_less_64, collect_64, count_sort_64, sort_part_64};

/* The number of bits up to the highest that differs. */
static int varying_end(const topk_job *job) { return job->varying ? 64 - __builtin_clzll(job->varying) : 0; }

/* Makes the keys, and job->varying. */
static reed_status find_varying(topk_job *job, cpu_team team) {
  const int64_t n = parts_of(job->t->extent, PART);
  const long_column *c = &job->at;
  reed_status status = cpu_parallel(team, n, 1, make_compared_keys, job);
  job->varying = 0;
  for (int64_t p = 0; p < n && status == REED_OK; p++)
    job->varying |= (uint64_t)c->less[p] | (key_at(job, p * PART) ^ key_at(job, 0));
  return status;
}

/* Finds the k-th key: job->prefix. *out_ties: how many equal to it are among the first k. */
static reed_status find_kth(topk_job *job, const long_steps *steps, cpu_team team, int64_t *out_ties) {
  int64_t n = parts_of(job->t->extent, PART), k = job->t->k;
  const long_column *c = &job->at;
  const uint32_t *all = c->counts + n * DIGITS;
  *out_ties = k;
  if (k == job->t->extent) { /* all are wanted, and none is greater than: */
    job->prefix = UINT64_MAX;
    return REED_OK;
  }
  job->shift = varying_end(job);
  job->known = job->shift == 64 ? 0 : UINT64_MAX << job->shift;
  job->prefix = job->known & key_at(job, 0);
  job->pass = 0;
  while (job->shift > 0) {
    uint64_t digit = 0;
    job->bits = job->shift < DIGIT_BITS ? job->shift : DIGIT_BITS;
    job->shift -= job->bits;
    reed_status status = cpu_parallel(team, n, 1, steps->count_digits, job);
    if (status == REED_OK)
      status = cpu_parallel(cpu_team_for(job->t->team, n * DIGITS * 4), DIGITS, 64, add_counts, job);
    if (status != REED_OK) return status;
    while (k > all[digit]) k -= all[digit++];
    job->pass++;
    job->prefix |= digit << job->shift;
    job->known |= (((uint64_t)1 << job->bits) - 1) << job->shift;
  }
  *out_ties = k;
  return REED_OK;
}

/* Collects the first k pairs in the order of their indices. */
static reed_status collect_pairs(topk_job *job, const long_steps *steps, cpu_team team, int64_t ties) {
  int64_t n = parts_of(job->t->extent, PART), at = 0;
  const long_column *c = &job->at;
  reed_status status = cpu_parallel(team, n, 1, steps->count_less, job);
  if (status != REED_OK) return status;
  for (int64_t p = 0; p < n; p++) {
    int64_t less = c->less[p], equal = c->ties[p] < ties ? c->ties[p] : ties;
    c->less[p] = at;
    c->ties[p] = equal;
    at += less + equal;
    ties -= equal;
  }
  return cpu_parallel(team, n, 1, steps->collect, job);
}

/* Sorts many pairs by the digits that differ. */
static reed_status sort_pairs(topk_job *job, const long_steps *steps) {
  int64_t n = parts_of(job->t->k, sort_part_of(job->t));
  cpu_team team = cpu_team_for(job->t->team, job->t->k * job->t->key_bytes * 16);
  const int end = varying_end(job);
  job->sort_shift = job->varying ? __builtin_ctzll(job->varying) : 0;
  for (; job->sort_shift < end; job->sort_shift += CPU_DIGIT_BITS) {
    reed_status status = cpu_parallel(team, n, 1, steps->count_sort, job);
    if (status != REED_OK) return status;
    cpu_place_digits(job->at.counts, n);
    status = cpu_parallel(team, n, 1, steps->sort_part, job);
    if (status != REED_OK) return status;
    job->sorted = !job->sorted;
  }
  return REED_OK;
}

static void write_results(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  topk_write(job->t, job->buffers, job->column, c->pairs[job->sorted], begin, end);
}

static reed_status run_long_column(topk_job *job) {
  const topk *t = job->t;
  const long_steps *steps = t->key_bytes == 8 ? &steps_64 : &steps_32;
  cpu_team team = cpu_team_for(t->team, t->extent * 10);
  int64_t ties;
  job->sorted = 0;
  if (topk_is_sampled(t) && t->k <= FEW_SELECTED) {
    bool found;
    reed_status status = find_few(job, team, &found);
    if (status != REED_OK) return status;
    if (found) return cpu_parallel(cpu_team_for(t->team, t->k * 64), t->k, 64, write_results, job);
  }
  reed_status status = find_varying(job, team);
  if (status == REED_OK) status = find_kth(job, steps, team, &ties);
  if (status == REED_OK) status = collect_pairs(job, steps, team, ties);
  if (status != REED_OK) return status;
  status = t->k > MANY ? sort_pairs(job, steps) : sort_found(job, t->k);
  return status == REED_OK ? cpu_parallel(cpu_team_for(t->team, t->k * 64), t->k, 64, write_results, job) : status;
}

/* A column whose parts are shared out. Columns as many as threads are selected by a thread each where most elements are
 * wanted, because the sort of a column by its parts takes twice as long. */
static bool is_long(const topk *t) {
  const int64_t wanted = (topk_is_sampled(t) ? 4 : 1) * t->team.threads;
  const bool enough = t->extent <= 4 * PART && t->outer * t->inner >= wanted;
  return t->team.threads > 1 && t->extent > PART && t->k > 0 && !enough;
}

/* ---- the call ---- */

/* The work of a column that one thread selects: its elements, its results, and the tables of the digits. */
static int64_t column_work(const topk *t) {
  /* chunks of 15 to 18 us for 3 and 8 elements (Zen 4) */
  if (t->insert) return t->extent * ((reed_dtype_bytes(t->dtype) == 4 ? 7 : 11) + t->k);
  if (topk_is_sampled(t)) return t->extent * 8 + TOPK_SAMPLE * 64 + t->k * 256;
  int64_t passes = topk_is_few(t) ? 0 : (t->key_bytes * 8 + DIGIT_BITS - 1) / DIGIT_BITS;
  return t->extent * 16 + t->k * 80 + passes * DIGITS * 4 * (t->k > FEW ? 2 : 1);
}

static reed_status run_topk(const void *state, const reed_kernel_buffers *buffers) {
  const topk *t = state;
  int64_t total = t->outer * t->inner;
  cpu_team team = cpu_team_for(t->team, total * column_work(t));
  topk_job job = {.t = t, .buffers = buffers};
  if (t->k == 0) return REED_OK;
  if (is_long(t)) {
    lay_column(t, buffers->workspace, &job.at);
    reed_status status = REED_OK;
    for (; job.column < total && status == REED_OK; job.column++) status = run_long_column(&job);
    return status;
  }
  if (is_in_steps(t))
    return cpu_relay(team, total, total * (topk_selection_cost(t) / TOPK_STEP_COST + 1), topk_column_step, &job);
  return cpu_parallel_scratch(team, total, 1, topk_columns, &job);
}

reed_status cpu_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  topk t;
  topk_read(call, &t);
  if (t.extent >= UINT32_MAX) return REED_OK;
  const cpu_level level = cpu_level_now();
  t.keys = CPU_PICK(level, topk_keys_of)(t.dtype);
  if (!t.keys) return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(t.dtype));
  t.key_bytes = reed_dtype_bytes(t.dtype) == 8 ? 8 : 4;
  t.filter = CPU_PICK(level, topk_filter_of)(t.key_bytes);
  t.scratch_bytes = topk_selection_bytes(&t);
  if (is_beside(&t, level)) {
    t.insert = CPU_PICK(level, topk_insert_of)(t.key_bytes);
    t.scratch_bytes = beside_bytes(&t);
  }
  void *state = mem_copy(&t, sizeof t);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_topk, state);
  long_column unused;
  out_kernel->workspace_bytes = is_long(&t) ? lay_column(&t, NULL, &unused) : t.scratch_bytes * t.team.threads;
  return REED_OK;
}
