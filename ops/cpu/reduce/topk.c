/* TopK (ONNX opset 11 to 24), any numeric dtype. Elements become unsigned keys whose ascending order is the wanted one.
 * A radix select finds the k-th key (11 bits per pass), one pass collects the smaller keys and the first of the equal
 * ones, and a stable radix sort orders them; equal values therefore come lower index first. NaN counts as larger than
 * every number, as in numpy. The output is always sorted. Threads share out the columns, or the parts of each column if
 * they are long: what is selected follows from the elements alone. The reference: reference/topk.c. */
#include "ops/cpu/calls/topk.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
#define FEW 32            /* sorted by insertion */
#define FEW_COMPARED 8192 /* k times the extent, up to which the first k are kept sorted by insertion */

/* ---- keys ---- */

static uint32_t key_u32(uint32_t x) { return x; }
static uint32_t key_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
static uint64_t key_u64(uint64_t x) { return x; }
static uint64_t key_i64(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }
/* Maps floats to keys in ascending order: the bits of negatives are inverted, the others are moved above them. */
static uint32_t key_f32(float x) {
  uint32_t bits;
  x += 0.0f; /* -0 and 0 are equal */
  memcpy(&bits, &x, 4);
  return x != x ? UINT32_MAX : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static uint64_t key_f64(double x) {
  uint64_t bits;
  x += 0.0;
  memcpy(&bits, &x, 8);
  return x != x ? UINT64_MAX : bits & 0x8000000000000000u ? ~bits : bits | 0x8000000000000000u;
}

/* ---- select and sort, for keys of 4 and of 8 bytes ---- */

static bool is_few(const topk *t) { return t->k > 0 && t->extent <= FEW_COMPARED / t->k; }

#define SELECT_FUNCTIONS(K, suffix) \
  typedef struct pair_##suffix { \
    K key; \
    uint32_t index; \
  } pair_##suffix; \
\
  /* The key that is number k (counting from 1) in ascending order; *out_ties: how many equal to it are among the \
   * first k. */ \
  static K kth_##suffix(const K *keys, int64_t n, int64_t k, int64_t *out_ties) { \
    K prefix = 0, known = 0; /* the bits found so far, and their mask */ \
    for (int shift = (int)sizeof(K) * 8; shift > 0;) { \
      int bits = shift < DIGIT_BITS ? shift : DIGIT_BITS; \
      uint32_t count[DIGITS] = {0}; \
      shift -= bits; \
      K mask = ((K)1 << bits) - 1; \
      if (!known) \
        for (int64_t i = 0; i < n; i++) count[keys[i] >> shift]++; \
      for (int64_t i = 0; i < n && known; i++) \
        if ((keys[i] & known) == prefix) count[keys[i] >> shift & mask]++; \
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
    for (int shift = 0; shift < (int)sizeof(K) * 8; shift += DIGIT_BITS) { \
      uint32_t begin[DIGITS] = {0}, total = 0; \
      for (int64_t i = 0; i < n; i++) begin[from[i].key >> shift & (DIGITS - 1)]++; \
      for (int d = 0; d < DIGITS; d++) { \
        uint32_t here = begin[d]; \
        begin[d] = total; \
        total += here; \
      } \
      for (int64_t i = 0; i < n; i++) to[begin[from[i].key >> shift & (DIGITS - 1)]++] = from[i]; \
      pair_##suffix *swapped = from; \
      from = to; \
      to = swapped; \
    } \
    return from; \
  } \
\
  /* The first k pairs of few keys, sorted: a key is inserted if it is less than the last one so far. */ \
  static const pair_##suffix *insert_##suffix(const topk *t, const K *keys, pair_##suffix *found) { \
    for (int64_t i = 0, n = 0; i < t->extent; i++) { \
      if (n == t->k && keys[i] >= found[n - 1].key) continue; \
      int64_t at = n < t->k ? n++ : n - 1; \
      for (; at > 0 && found[at - 1].key > keys[i]; at--) found[at] = found[at - 1]; \
      found[at] = (pair_##suffix){keys[i], (uint32_t)i}; \
    } \
    return found; \
  } \
\
  static int64_t scratch_bytes_##suffix(const topk *t) { \
    return ((t->extent * (int64_t)sizeof(K) + 63) & ~(int64_t)63) + \
           ((2 * t->k * (int64_t)sizeof(pair_##suffix) + 63) & ~(int64_t)63); \
  } \
\
  static const pair_##suffix *select_##suffix(const topk *t, K *keys) { \
    pair_##suffix *found = (pair_##suffix *)((char *)keys + ((t->extent * (int64_t)sizeof(K) + 63) & ~(int64_t)63)); \
    int64_t n = 0, ties; \
    if (is_few(t)) return insert_##suffix(t, keys, found); \
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
  }
SELECT_FUNCTIONS(uint32_t, 32)
SELECT_FUNCTIONS(uint64_t, 64)

/* ---- the elements of each dtype ---- */

/* The workspace of a long column. */
typedef struct long_column {
  void *keys, *pairs[2];
  uint32_t *counts;     /* [part][digit], and one row more: of all parts */
  int64_t *less, *ties; /* by part: how many keys are less than the k-th, or equal; later the sums before the part */
} long_column;

typedef struct topk_job {
  const topk *t;
  const reed_kernel_buffers *buffers;
  int64_t column; /* a long one */
  long_column at;
  uint64_t prefix, known; /* of the k-th key: the bits found so far, and their mask */
  int shift, bits;        /* the digit that is counted */
  int32_t sort_shift;
  int32_t sorted; /* of the two arrays of pairs: the one that has been sorted so far */
} topk_job;

/* The place in X or, with the extent k, in the outputs of a column's first element. */
static int64_t column_at(const topk *t, int64_t column, int64_t extent) {
  return column / t->inner * extent * t->inner + column % t->inner;
}

/* Two functions of a dtype: the keys begin..end-1 of a column; the results begin..end-1 from pairs in their final
 * order. */
#define TOPK_ELEMENTS(T, suffix, K, key_of, name) \
  static void name##_keys(const topk_job *job, int64_t column, void *keys, int64_t begin, int64_t end) { \
    const topk *t = job->t; \
    const T *x = (const T *)job->buffers->inputs[0] + column_at(t, column, t->extent); \
    K flip = t->largest ? (K)-1 : 0, *to = keys; \
    int64_t inner = t->inner; \
    if (inner == 1) \
      for (int64_t i = begin; i < end; i++) to[i] = key_of(x[i]) ^ flip; \
    else \
      for (int64_t i = begin; i < end; i++) to[i] = key_of(x[i * inner]) ^ flip; \
  } \
  static void name##_write(const topk_job *job, int64_t column, const void *pairs, int64_t begin, int64_t end) { \
    const topk *t = job->t; \
    const T *x = (const T *)job->buffers->inputs[0] + column_at(t, column, t->extent); \
    const pair_##suffix *found = pairs; \
    int64_t at = column_at(t, column, t->k); \
    T *values = (T *)job->buffers->outputs[0] + at; \
    for (int64_t i = begin; i < end; i++) values[i * t->inner] = x[found[i].index * t->inner]; \
    if (!t->with_indices) return; \
    int64_t *indices = (int64_t *)job->buffers->outputs[1] + at; \
    for (int64_t i = begin; i < end; i++) indices[i * t->inner] = found[i].index; \
  }
TOPK_ELEMENTS(float, 32, uint32_t, key_f32, f32)
TOPK_ELEMENTS(double, 64, uint64_t, key_f64, f64)
TOPK_ELEMENTS(int8_t, 32, uint32_t, key_i32, i8)
TOPK_ELEMENTS(int16_t, 32, uint32_t, key_i32, i16)
TOPK_ELEMENTS(int32_t, 32, uint32_t, key_i32, i32)
TOPK_ELEMENTS(int64_t, 64, uint64_t, key_i64, i64)
TOPK_ELEMENTS(uint8_t, 32, uint32_t, key_u32, u8)
TOPK_ELEMENTS(uint16_t, 32, uint32_t, key_u32, u16)
TOPK_ELEMENTS(uint32_t, 32, uint32_t, key_u32, u32)
TOPK_ELEMENTS(uint64_t, 64, uint64_t, key_u64, u64)

static const struct {
  void (*keys)(const topk_job *job, int64_t column, void *keys, int64_t begin, int64_t end);
  void (*write)(const topk_job *job, int64_t column, const void *pairs, int64_t begin, int64_t end);
} elements[REED_DTYPE_COUNT] = {
    [REED_F32] = {f32_keys, f32_write}, [REED_F64] = {f64_keys, f64_write}, [REED_I8] = {i8_keys, i8_write},
    [REED_I16] = {i16_keys, i16_write}, [REED_I32] = {i32_keys, i32_write}, [REED_I64] = {i64_keys, i64_write},
    [REED_U8] = {u8_keys, u8_write},    [REED_U16] = {u16_keys, u16_write}, [REED_U32] = {u32_keys, u32_write},
    [REED_U64] = {u64_keys, u64_write},
};

/* ---- whole columns ---- */

static void topk_columns(void *context, int64_t begin, int64_t end, int32_t worker) {
  const topk_job *job = context;
  const topk *t = job->t;
  void *keys = (char *)job->buffers->workspace + worker * t->scratch_bytes;
  for (int64_t i = begin; i < end && !cpu_cancelled(&t->team); i++) {
    elements[t->dtype].keys(job, i, keys, 0, t->extent);
    const void *found = reed_dtype_bytes(t->dtype) == 8 ? (const void *)select_64(t, keys) : select_32(t, keys);
    elements[t->dtype].write(job, i, found, 0, t->k);
  }
}

/* ---- long columns, by parts ---- */

#define PART 16384      /* elements of a part of a column; columns of several parts are shared out */
#define SORT_LEAST 2048 /* pairs of a part of the sort, which has SORT_PARTS parts of SORT_LEAST to SORT_MOST pairs */
#define SORT_MOST 16384
#define SORT_PARTS 16
#define MANY SORT_MOST /* more pairs are sorted by several threads */
#define SORT_BITS 8    /* of a digit of that sort */
#define SORT_DIGITS (1 << SORT_BITS)

static int64_t key_bytes_of(const topk *t) { return reed_dtype_bytes(t->dtype) == 8 ? 8 : 4; }

/* The pairs of a part of the sort. Shorter parts of keys of 8 bytes cost 16 %, because their sort has twice the steps.
 */
static int64_t sort_part_of(const topk *t) {
  return key_bytes_of(t) == 8 ? SORT_MOST : cpu_clamp(t->k / SORT_PARTS, SORT_LEAST, SORT_MOST);
}

static int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }
static int64_t part_end(int64_t number, int64_t part, int64_t n) {
  return (number + 1) * part < n ? (number + 1) * part : n;
}
static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* Lays the parts of a column's workspace out from `at` on (NULL: it does not), and returns its bytes. */
static int64_t lay_column(const topk *t, char *at, long_column *out) {
  int64_t key_bytes = key_bytes_of(t), pair_bytes = 2 * key_bytes, n = parts_of(t->extent, PART),
          digits = (n + 1) * DIGITS, sort_digits = parts_of(t->k, sort_part_of(t)) * SORT_DIGITS;
  int64_t bytes[] = {t->extent * key_bytes,
                     t->k * pair_bytes,
                     t->k * pair_bytes,
                     (digits > sort_digits ? digits : sort_digits) * 4,
                     n * 8,
                     n * 8};
  void **places[] = {&out->keys,          &out->pairs[0],     &out->pairs[1], (void **)&out->counts,
                     (void **)&out->less, (void **)&out->ties};
  int64_t used = 0;
  for (int i = 0; i < 6; i++) {
    if (at) *places[i] = at + used;
    used += aligned(bytes[i]);
  }
  return used;
}

static void make_keys(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  for (int64_t p = begin; p < end; p++)
    elements[job->t->dtype].keys(job, job->column, c->keys, p * PART, part_end(p, PART, job->t->extent));
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
      if (!known) \
        for (int64_t i = first; i < last; i++) count[keys[i] >> shift]++; \
      for (int64_t i = first; i < last && known; i++) \
        if ((keys[i] & known) == prefix) count[keys[i] >> shift & mask]++; \
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
      uint32_t *count = c->counts + p * SORT_DIGITS; \
      memset(count, 0, SORT_DIGITS * sizeof *count); \
      for (int64_t i = p * part, last = part_end(p, part, job->t->k); i < last; i++) \
        count[from[i].key >> job->sort_shift & (SORT_DIGITS - 1)]++; \
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
      uint32_t *next = c->counts + p * SORT_DIGITS; \
      for (int64_t i = p * part, last = part_end(p, part, job->t->k); i < last; i++) \
        to[next[from[i].key >> job->sort_shift & (SORT_DIGITS - 1)]++] = from[i]; \
    } \
  }
LONG_FUNCTIONS(uint32_t, 32)
LONG_FUNCTIONS(uint64_t, 64)

typedef struct long_steps {
  int key_bits;
  cpu_range_fn count_digits, count_less, collect, count_sort, sort_part;
} long_steps;

static const long_steps steps_32 = {32, count_digits_32, count_less_32, collect_32, count_sort_32, sort_part_32},
                        steps_64 = {64, count_digits_64, count_less_64, collect_64, count_sort_64, sort_part_64};

/* Finds the k-th key: job->prefix. *out_ties: how many equal to it are among the first k. */
static reed_status find_kth(topk_job *job, const long_steps *steps, cpu_team team, int64_t *out_ties) {
  int64_t n = parts_of(job->t->extent, PART), k = job->t->k;
  const long_column *c = &job->at;
  const uint32_t *all = c->counts + n * DIGITS;
  job->prefix = job->known = 0;
  for (job->shift = steps->key_bits; job->shift > 0;) {
    uint64_t digit = 0;
    job->bits = job->shift < DIGIT_BITS ? job->shift : DIGIT_BITS;
    job->shift -= job->bits;
    reed_status status = cpu_parallel(team, n, 1, steps->count_digits, job);
    if (status == REED_OK)
      status = cpu_parallel(cpu_team_for(job->t->team, n * DIGITS * 4), DIGITS, 64, add_counts, job);
    if (status != REED_OK) return status;
    while (k > all[digit]) k -= all[digit++];
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

/* Sorts many pairs, digit by digit. */
static reed_status sort_pairs(topk_job *job, const long_steps *steps) {
  int64_t n = parts_of(job->t->k, sort_part_of(job->t));
  cpu_team team = cpu_team_for(job->t->team, job->t->k * steps->key_bits * 2);
  const long_column *c = &job->at;
  for (job->sort_shift = 0; job->sort_shift < steps->key_bits; job->sort_shift += SORT_BITS) {
    uint32_t at = 0;
    reed_status status = cpu_parallel(team, n, 1, steps->count_sort, job);
    if (status != REED_OK) return status;
    for (int64_t digit = 0; digit < SORT_DIGITS; digit++)
      for (int64_t p = 0; p < n; p++) {
        uint32_t *count = &c->counts[p * SORT_DIGITS + digit], here = *count;
        *count = at;
        at += here;
      }
    status = cpu_parallel(team, n, 1, steps->sort_part, job);
    if (status != REED_OK) return status;
    job->sorted = !job->sorted;
  }
  return REED_OK;
}

static void write_results(void *context, int64_t begin, int64_t end) {
  const topk_job *job = context;
  const long_column *c = &job->at;
  elements[job->t->dtype].write(job, job->column, c->pairs[job->sorted], begin, end);
}

static reed_status run_long_column(topk_job *job) {
  const topk *t = job->t;
  const long_steps *steps = reed_dtype_bytes(t->dtype) == 8 ? &steps_64 : &steps_32;
  cpu_team team = cpu_team_for(t->team, t->extent * 10);
  int64_t ties;
  const long_column *c = &job->at;
  job->sorted = 0;
  reed_status status = cpu_parallel(team, parts_of(t->extent, PART), 1, make_keys, job);
  if (status == REED_OK) status = find_kth(job, steps, team, &ties);
  if (status == REED_OK) status = collect_pairs(job, steps, team, ties);
  if (status != REED_OK) return status;
  if (t->k > MANY) status = sort_pairs(job, steps);
  else if (steps == &steps_64) job->sorted = sort_64(c->pairs[0], c->pairs[1], t->k) == c->pairs[1];
  else job->sorted = sort_32(c->pairs[0], c->pairs[1], t->k) == c->pairs[1];
  return status == REED_OK ? cpu_parallel(cpu_team_for(t->team, t->k * 64), t->k, 64, write_results, job) : status;
}

static bool is_long(const topk *t) { return t->team.threads > 1 && t->extent > PART && t->k > 0; }

/* ---- the call ---- */

/* The work of a column that one thread selects: its elements, its results, and the tables of the digits. */
static int64_t column_work(const topk *t) {
  int64_t passes = is_few(t) ? 0 : (key_bytes_of(t) * 8 + DIGIT_BITS - 1) / DIGIT_BITS;
  return t->extent * 16 + t->k * 64 + passes * DIGITS * 4 * (t->k > FEW ? 2 : 1);
}

static reed_status run_topk(const void *state, const reed_kernel_buffers *buffers) {
  const topk *t = state;
  int64_t total = t->outer * t->inner;
  cpu_team team = cpu_team_for(t->team, total * column_work(t));
  topk_job job = {.t = t, .buffers = buffers};
  if (is_long(t)) {
    lay_column(t, buffers->workspace, &job.at);
    reed_status status = REED_OK;
    for (; job.column < total && status == REED_OK; job.column++) status = run_long_column(&job);
    return status;
  }
  return cpu_parallel_scratch(team, total, 1, topk_columns, &job);
}

reed_status cpu_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  topk t;
  topk_read(call, &t);
  if (t.extent >= UINT32_MAX) return REED_OK;
  if (!elements[t.dtype].keys)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(t.dtype));
  t.scratch_bytes = reed_dtype_bytes(t.dtype) == 8 ? scratch_bytes_64(&t) : scratch_bytes_32(&t);
  void *state = mem_copy(&t, sizeof t);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_topk, state);
  long_column unused;
  out_kernel->workspace_bytes = is_long(&t) ? lay_column(&t, NULL, &unused) : t.scratch_bytes * t.team.threads;
  return REED_OK;
}
