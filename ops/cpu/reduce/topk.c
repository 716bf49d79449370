/* TopK (ONNX opset 11 to 24), any numeric dtype. Elements become unsigned keys whose ascending order is the wanted one.
 * A radix select finds the k-th key (11 bits per pass), one pass collects the smaller keys and the first of the equal
 * ones, and a stable radix sort orders them; equal values therefore come lower index first. NaN counts as larger than
 * every number, as in numpy. The output is always sorted. The reference: reference/topk.c. */
#include "ops/cpu/calls/topk.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
#define FEW 32 /* sorted by insertion */

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
      for (int64_t i = 0; i < n; i++) \
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
  static int64_t scratch_bytes_##suffix(const topk *t) { \
    return ((t->extent * (int64_t)sizeof(K) + 63) & ~(int64_t)63) + \
           ((2 * t->k * (int64_t)sizeof(pair_##suffix) + 63) & ~(int64_t)63); \
  } \
\
  static const pair_##suffix *select_##suffix(const topk *t, K *keys) { \
    pair_##suffix *found = (pair_##suffix *)((char *)keys + ((t->extent * (int64_t)sizeof(K) + 63) & ~(int64_t)63)); \
    int64_t n = 0, ties; \
    K last = kth_##suffix(keys, t->extent, t->k, &ties); \
    for (int64_t i = 0; i < t->extent && n < t->k; i++) \
      if (keys[i] < last || (keys[i] == last && ties-- > 0)) found[n++] = (pair_##suffix){keys[i], (uint32_t)i}; \
    return sort_##suffix(found, found + t->k, t->k); \
  }
SELECT_FUNCTIONS(uint32_t, 32)
SELECT_FUNCTIONS(uint64_t, 64)

/* ---- columns of each dtype ---- */

typedef struct topk_job {
  const topk *t;
  const reed_kernel_buffers *buffers;
} topk_job;

#define TOPK_COLUMN(T, suffix, K, key_of, name) \
  static void name(const topk_job *job, int64_t outer, int64_t inner, void *scratch) { \
    const topk *t = job->t; \
    const T *x = (const T *)job->buffers->inputs[0] + outer * t->extent * t->inner + inner; \
    K *keys = scratch, flip = t->largest ? (K)-1 : 0; \
    for (int64_t i = 0; i < t->extent; i++) keys[i] = key_of(x[i * t->inner]) ^ flip; \
    const pair_##suffix *found = select_##suffix(t, keys); \
    int64_t at = outer * t->k * t->inner + inner; \
    T *values = (T *)job->buffers->outputs[0] + at; \
    for (int64_t i = 0; i < t->k; i++) values[i * t->inner] = x[found[i].index * t->inner]; \
    if (!t->with_indices) return; \
    int64_t *indices = (int64_t *)job->buffers->outputs[1] + at; \
    for (int64_t i = 0; i < t->k; i++) indices[i * t->inner] = found[i].index; \
  }
TOPK_COLUMN(float, 32, uint32_t, key_f32, column_f32)
TOPK_COLUMN(double, 64, uint64_t, key_f64, column_f64)
TOPK_COLUMN(int8_t, 32, uint32_t, key_i32, column_i8)
TOPK_COLUMN(int16_t, 32, uint32_t, key_i32, column_i16)
TOPK_COLUMN(int32_t, 32, uint32_t, key_i32, column_i32)
TOPK_COLUMN(int64_t, 64, uint64_t, key_i64, column_i64)
TOPK_COLUMN(uint8_t, 32, uint32_t, key_u32, column_u8)
TOPK_COLUMN(uint16_t, 32, uint32_t, key_u32, column_u16)
TOPK_COLUMN(uint32_t, 32, uint32_t, key_u32, column_u32)
TOPK_COLUMN(uint64_t, 64, uint64_t, key_u64, column_u64)

static void (*const columns[REED_DTYPE_COUNT])(const topk_job *, int64_t, int64_t, void *) = {
    [REED_F32] = column_f32, [REED_F64] = column_f64, [REED_I8] = column_i8, [REED_I16] = column_i16,
    [REED_I32] = column_i32, [REED_I64] = column_i64, [REED_U8] = column_u8, [REED_U16] = column_u16,
    [REED_U32] = column_u32, [REED_U64] = column_u64,
};

static void topk_columns(void *context, int64_t begin, int64_t end, int32_t worker) {
  const topk_job *job = context;
  const topk *t = job->t;
  for (int64_t i = begin; i < end && !cpu_cancelled(&t->team); i++)
    columns[t->dtype](job, i / t->inner, i % t->inner, (char *)job->buffers->workspace + worker * t->scratch_bytes);
}

static reed_status run_topk(const void *state, const reed_kernel_buffers *buffers) {
  const topk *t = state;
  int64_t total = t->outer * t->inner;
  cpu_team team = cpu_team_for(t->team, total * (t->extent * 16 + t->k * 64));
  topk_job job = {t, buffers};
  return cpu_parallel_scratch(team, total, 1, topk_columns, &job);
}

reed_status cpu_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  topk t;
  topk_read(call, &t);
  if (t.extent >= UINT32_MAX) return REED_OK;
  if (!columns[t.dtype])
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(t.dtype));
  t.scratch_bytes = reed_dtype_bytes(t.dtype) == 8 ? scratch_bytes_64(&t) : scratch_bytes_32(&t);
  void *state = mem_copy(&t, sizeof t);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_topk, state);
  out_kernel->workspace_bytes = t.scratch_bytes * t.team.threads;
  return REED_OK;
}
