/* The loops of CumSum (cumsum_loops.h), compiled once per CPU level. Sums of f32 are doubles, those of f16 and bf16
 * floats, those of integers unsigned integers that are as wide as the elements or wider. A single line is added in
 * vectors: the sums within a vector, then the sum before the vector. Columns side by side are added row by row. */
#include "ops/cpu/reduce/cumsum_loops.h"

#include <immintrin.h>
#include <string.h>

#include "ops/cpu/common/convert_loops.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define AT_ONCE 4       /* vectors of columns whose sums are kept in registers */
#define FEW_ROWS 32     /* so few that columns are added block by block, with their sums in registers */
#define MANY_COLUMNS 64 /* so many that their sums are kept in memory */
#define BLOCK 256       /* elements of f16 and bf16 that are converted at a time */
#define INLINE static inline __attribute__((always_inline))

/* The elements of a vector, some places later or earlier; 0 moves in. The first or last element in all places. */
#define MOVED_2(a, b, at) __builtin_shufflevector(a, b, (at), (at) + 1)
#define MOVED_4(a, b, at) __builtin_shufflevector(a, b, (at), (at) + 1, (at) + 2, (at) + 3)
#define MOVED_8(a, b, at) \
  __builtin_shufflevector(a, b, (at), (at) + 1, (at) + 2, (at) + 3, (at) + 4, (at) + 5, (at) + 6, (at) + 7)
#define MOVED_16(a, b, at) \
  __builtin_shufflevector(a, b, (at), (at) + 1, (at) + 2, (at) + 3, (at) + 4, (at) + 5, (at) + 6, (at) + 7, (at) + 8, \
                          (at) + 9, (at) + 10, (at) + 11, (at) + 12, (at) + 13, (at) + 14, (at) + 15)
#define SAME_2(a, at) __builtin_shufflevector(a, a, at, at)
#define SAME_4(a, at) __builtin_shufflevector(a, a, at, at, at, at)
#define SAME_8(a, at) __builtin_shufflevector(a, a, at, at, at, at, at, at, at, at)
#define SAME_16(a, at) __builtin_shufflevector(a, a, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if VECTOR_BYTES == 64
#define LANES_4 16
#define LANES_8 8
#elif VECTOR_BYTES == 32
#define LANES_4 8
#define LANES_8 4
#else
#define LANES_4 4
#define LANES_8 2
#endif
#define MOVED(lanes, a, b, at) PASTE(MOVED_, lanes)(a, b, at)
#define SAME(lanes, a, at) PASTE(SAME_, lanes)(a, at)
#define EARLIER(lanes, x, by) MOVED(lanes, x, zero, by)
#define LATER(lanes, x, by) MOVED(lanes, zero, x, (lanes) - (by))
#define SHIFTED(lanes, x, by) (reverse ? EARLIER(lanes, x, by) : LATER(lanes, x, by))

/* A vector of sums, and elements of memory as such a vector. */
#define VECTORS(name, M, V, lanes) \
  typedef V sums_##name __attribute__((vector_size(lanes * sizeof(V)), aligned(sizeof(V)), may_alias)); \
  typedef M elements_##name __attribute__((vector_size(lanes * sizeof(M)), aligned(sizeof(M)), may_alias));
#define CONVERTED(name, M, V, lanes) \
  VECTORS(name, M, V, lanes) \
  INLINE sums_##name load_##name(const M *p) { \
    return __builtin_convertvector(*(const elements_##name *)p, sums_##name); \
  } \
  INLINE void store_##name(M *p, sums_##name x) { *(elements_##name *)p = __builtin_convertvector(x, elements_##name); }
CONVERTED(f64, double, double, LANES_8)
CONVERTED(half, float, float, LANES_4)
CONVERTED(u8, uint8_t, uint32_t, LANES_4)
CONVERTED(u16, uint16_t, uint32_t, LANES_4)
CONVERTED(u32, uint32_t, uint32_t, LANES_4)
CONVERTED(u64, uint64_t, uint64_t, LANES_8)
VECTORS(f32, float, double, LANES_8)
/* gcc converts half a vector at a time. */
INLINE sums_f32 load_f32(const float *p) {
#if VECTOR_BYTES == 64
  return (sums_f32)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif VECTOR_BYTES == 32
  return (sums_f32)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  return __builtin_convertvector(*(const elements_f32 *)p, sums_f32);
#endif
}
INLINE void store_f32(float *p, sums_f32 x) {
#if VECTOR_BYTES == 64
  _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)x));
#elif VECTOR_BYTES == 32
  _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)x));
#else
  *(elements_f32 *)p = __builtin_convertvector(x, elements_f32);
#endif
}

/* Of columns: copies of the sums before a part and before its piece; zeros where there is nothing before. */
INLINE void sums_before(const cumsum_part *p, void *own, void *from, size_t sum_bytes) {
  const size_t bytes = (size_t)p->count * sum_bytes;
  if (p->begins) memset(own, 0, bytes);
  else memcpy(own, p->own, bytes);
  if (p->first) memset(from, 0, bytes);
  else memcpy(from, p->before, bytes);
}

/* Functions for elements M whose sums are V, of `lanes` in a vector.
 * within: the sums within a vector.
 * line: n elements of one line, in memory from `in` on, `reverse` from the last one on; *sum: of the elements before in
 * the same part; base: of those before the part. */
#define CUMSUM(name, M, V, lanes) \
  INLINE sums_##name within_##name(sums_##name x, bool reverse) { \
    const sums_##name zero = {0}; \
    x += SHIFTED(lanes, x, 1); \
    if (lanes > 2) x += SHIFTED(lanes, x, lanes > 2 ? 2 : 1); \
    if (lanes > 4) x += SHIFTED(lanes, x, lanes > 4 ? 4 : 1); \
    if (lanes > 8) x += SHIFTED(lanes, x, lanes > 8 ? 8 : 1); \
    return x; \
  } \
  INLINE void line_as_##name(M *out, const M *in, int64_t n, V base, V *sum, bool reverse, bool exclusive, \
                             bool write) { \
    const sums_##name zero = {0}, from = zero + base; \
    sums_##name carry = zero + *sum; \
    int64_t i = 0; \
    for (; i + 2 * lanes <= n; i += 2 * lanes) { \
      const int64_t at0 = reverse ? n - i - lanes : i, at1 = reverse ? at0 - lanes : at0 + lanes; \
      sums_##name a = within_##name(load_##name(in + at0), reverse), \
                  b = within_##name(load_##name(in + at1), reverse); \
      const sums_##name of_a = reverse ? SAME(lanes, a, 0) : SAME(lanes, a, lanes - 1), \
                        of_b = reverse ? SAME(lanes, b, 0) : SAME(lanes, b, lanes - 1); \
      if (exclusive) a = SHIFTED(lanes, a, 1), b = SHIFTED(lanes, b, 1); \
      if (write) { \
        store_##name(out + at0, from + (carry + a)); \
        store_##name(out + at1, from + (carry + (of_a + b))); \
      } \
      carry += of_a + of_b; \
    } \
    V own = carry[0]; \
    for (; i < n; i++) { \
      const int64_t at = reverse ? n - 1 - i : i; \
      const V left = own; \
      own += (V)in[at]; \
      if (write) out[at] = (M)(base + (exclusive ? left : own)); \
    } \
    *sum = own; \
  } \
  static void line_##name(M *out, const M *in, int64_t n, V base, V *sum, bool reverse, bool exclusive) { \
    if (!out && reverse) line_as_##name(NULL, in, n, base, sum, true, false, false); \
    else if (!out) line_as_##name(NULL, in, n, base, sum, false, false, false); \
    else if (reverse && exclusive) line_as_##name(out, in, n, base, sum, true, true, true); \
    else if (reverse) line_as_##name(out, in, n, base, sum, true, false, true); \
    else if (exclusive) line_as_##name(out, in, n, base, sum, false, true, true); \
    else line_as_##name(out, in, n, base, sum, false, false, true); \
  } \
\
  INLINE void row_##name(M *out, const M *in, int64_t count, V *own, const V *from, bool first, bool exclusive, \
                         bool write) { \
    _Pragma("GCC ivdep") for (int64_t c = 0; c < count; c++) { \
      const V left = own[c], sum = left + (V)in[c]; \
      own[c] = sum; \
      if (write) out[c] = (M)(first ? exclusive ? left : sum : from[c] + (exclusive ? left : sum)); \
    } \
  } \
  static void chain_##name(void *sums, int64_t n, int64_t lines) { \
    for (int64_t line = 0; line < lines; line++) { \
      V before = 0; \
      for (int64_t k = 0; k < n; k++) { \
        char *at = (char *)sums + (k * lines + line) * (int64_t)sizeof(V); \
        V own; \
        memcpy(&own, at, sizeof own); \
        memcpy(at, &before, sizeof own); \
        before += own; \
      } \
    } \
  }

/* Columns whose elements are loaded as they are. */
#define COLUMNS(name, M, V, lanes) \
  INLINE void rows_##name(const cumsum_part *p, int64_t count, V *own, const V *from, bool first, bool exclusive, \
                          bool write) { \
    const M *in = p->in; \
    M *out = p->out; \
    const int64_t n = p->n, stride = p->stride; \
    for (int64_t k = 0; k < n; k++) \
      row_##name(write ? out + k *stride : NULL, in + k * stride, count, own, from, first, exclusive, write); \
  } \
  INLINE void columns_of_##name(const cumsum_part *p, int64_t count, V *own, const V *from) { \
    if (!p->out) rows_##name(p, count, own, from, false, false, false); \
    else if (p->first && p->exclusive) rows_##name(p, count, own, from, true, true, true); \
    else if (p->first) rows_##name(p, count, own, from, true, false, true); \
    else if (p->exclusive) rows_##name(p, count, own, from, false, true, true); \
    else rows_##name(p, count, own, from, false, false, true); \
  } \
  /* Columns from `c` on whose sums stay in registers: `vectors` vectors of them, or fewer than a vector. */ \
  INLINE void block_##name(const cumsum_part *p, int64_t c, const int vectors, bool first, bool exclusive) { \
    const M *in = (const M *)p->in + c; \
    M *out = p->out ? (M *)p->out + c : NULL; \
    V *before = (V *)p->before + c, *within = (V *)p->own + c; \
    sums_##name own[AT_ONCE], from[AT_ONCE]; \
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) { \
      own[v] = from[v] = (sums_##name){0}; \
      if (!p->begins) own[v] = ((const sums_##name *)within)[v]; \
      if (!first) from[v] = ((const sums_##name *)before)[v]; \
    } \
    for (int64_t k = 0, n = p->n, at = 0; k < n; k++, at += p->stride) \
      _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) { \
        const sums_##name left = own[v]; \
        own[v] += load_##name(in + at + v * lanes); \
        sums_##name result = exclusive ? left : own[v]; \
        if (!first) result += from[v]; \
        if (out) store_##name(out + at + v * lanes, result); \
      } \
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) if (p->ends)((sums_##name *)before)[v] = \
        from[v] + own[v]; \
    else((sums_##name *)within)[v] = own[v]; } \
  INLINE void narrow_##name(const cumsum_part *p, int64_t c, const int count, bool first, bool exclusive) { \
    const M *in = (const M *)p->in + c; \
    M *out = p->out ? (M *)p->out + c : NULL; \
    V *before = (V *)p->before + c, *within = (V *)p->own + c, own[4], from[4]; \
    _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) { \
      own[v] = p->begins ? 0 : within[v]; \
      from[v] = first ? 0 : before[v]; \
    } \
    for (int64_t k = 0, n = p->n, at = 0; k < n; k++, at += p->stride) \
      _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) { \
        const V left = own[v]; \
        own[v] += (V)in[at + v]; \
        const V result = exclusive ? left : own[v]; \
        if (out) out[at + v] = (M)(first ? result : from[v] + result); \
      } \
    _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) if (p->ends) before[v] = from[v] + own[v]; \
    else within[v] = own[v]; } \
  INLINE void blocks_of_##name(const cumsum_part *p, bool first, bool exclusive) { \
    int64_t c = 0; \
    for (; c + AT_ONCE * lanes <= p->count; c += AT_ONCE * lanes) block_##name(p, c, AT_ONCE, first, exclusive); \
    for (; c + lanes <= p->count; c += lanes) block_##name(p, c, 1, first, exclusive); \
    for (; c + 4 <= p->count; c += 4) narrow_##name(p, c, 4, first, exclusive); \
    if (p->count - c == 3) narrow_##name(p, c, 3, first, exclusive); \
    else if (p->count - c == 2) narrow_##name(p, c, 2, first, exclusive); \
    else if (p->count > c) narrow_##name(p, c, 1, first, exclusive); \
  } \
  static void columns_##name(const cumsum_part *p) { \
    if (p->n > FEW_ROWS && p->count >= MANY_COLUMNS) { \
      V own[CUMSUM_COLUMNS], from[CUMSUM_COLUMNS]; \
      sums_before(p, own, from, sizeof *own); \
      columns_of_##name(p, p->count, own, from); \
      if (p->ends) \
        for (int64_t c = 0; c < p->count; c++) own[c] += from[c]; \
      memcpy(p->ends ? p->before : p->own, own, (size_t)p->count * sizeof *own); \
    } else if (p->first && p->exclusive) { \
      blocks_of_##name(p, true, true); \
    } else if (p->first) { \
      blocks_of_##name(p, true, false); \
    } else { \
      blocks_of_##name(p, false, p->exclusive); \
    } \
  }

/* Addition of a part of such lines. */
#define ADD(name, M, V) \
  static void add_##name(const cumsum_part *p) { \
    if (p->count > 1 || (p->stride != 1 && p->stride != -1)) { \
      columns_##name(p); \
      return; \
    } \
    const bool reverse = p->stride < 0; \
    const int64_t least = reverse ? 1 - p->n : 0; \
    V base = 0, sum = 0; \
    if (!p->first) memcpy(&base, p->before, sizeof base); \
    if (!p->begins) memcpy(&sum, p->own, sizeof sum); \
    line_##name(p->out ? (M *)p->out + least : NULL, (const M *)p->in + least, p->n, base, &sum, reverse, \
                p->exclusive); \
    if (p->ends) sum += base; \
    memcpy(p->ends ? p->before : p->own, &sum, sizeof sum); \
  }
/* Lines so short that calls for each would take longer than their sums. */
#define LINES(name, M, V) \
  INLINE void lines_as_##name(M *out, const M *in, int64_t lines, int64_t n, bool reverse, bool exclusive) { \
    for (int64_t line = 0; line < lines; line++, in += n, out += n) { \
      V own = 0; \
      for (int64_t k = 0; k < n; k++) { \
        const int64_t at = reverse ? n - 1 - k : k; \
        const V left = own; \
        own += (V)in[at]; \
        out[at] = (M)(exclusive ? left : own); \
      } \
    } \
  } \
  static void lines_##name(void *out, const void *in, int64_t lines, int64_t n, bool reverse, bool exclusive) { \
    if (reverse && exclusive) lines_as_##name(out, in, lines, n, true, true); \
    else if (reverse) lines_as_##name(out, in, lines, n, true, false); \
    else if (exclusive) lines_as_##name(out, in, lines, n, false, true); \
    else lines_as_##name(out, in, lines, n, false, false); \
  }
#define LOOPS(name, M, V, lanes) \
  CUMSUM(name, M, V, lanes) \
  COLUMNS(name, M, V, lanes) \
  ADD(name, M, V) \
  LINES(name, M, V) \
  static const cumsum_loops loops_##name = {sizeof(V), add_##name, lines_##name, chain_##name};

LOOPS(f32, float, double, LANES_8)
LOOPS(f64, double, double, LANES_8)
LOOPS(u8, uint8_t, uint32_t, LANES_4)
LOOPS(u16, uint16_t, uint32_t, LANES_4)
LOOPS(u32, uint32_t, uint32_t, LANES_4)
LOOPS(u64, uint64_t, uint64_t, LANES_8)
CUMSUM(half, float, float, LANES_4)

/* A line or columns of f16 or bf16, converted in blocks. */
static void add_line_of_halves(const cumsum_part *p, convert_half_fn load, convert_half_fn store) {
  const bool reverse = p->stride < 0;
  _Alignas(64) float block[BLOCK];
  float base = 0, sum = 0;
  if (!p->first) memcpy(&base, p->before, sizeof base);
  if (!p->begins) memcpy(&sum, p->own, sizeof sum);
  for (int64_t i = 0; i < p->n; i += BLOCK) {
    const int64_t n = p->n - i < BLOCK ? p->n - i : BLOCK, at = reverse ? 1 - i - n : i;
    load(block, (const uint16_t *)p->in + at, n);
    line_half(p->out ? block : NULL, block, n, base, &sum, reverse, p->exclusive);
    if (p->out) store((uint16_t *)p->out + at, block, n);
  }
  if (p->ends) sum += base;
  memcpy(p->ends ? p->before : p->own, &sum, sizeof sum);
}

static void add_columns_of_halves(const cumsum_part *p, convert_half_fn load, convert_half_fn store) {
  float own[CUMSUM_COLUMNS], from[CUMSUM_COLUMNS], row[CUMSUM_COLUMNS];
  sums_before(p, own, from, sizeof *own);
  for (int64_t k = 0; k < p->n; k++) {
    load(row, (const uint16_t *)p->in + k * p->stride, p->count);
    row_half(row, row, p->count, own, from, false, p->exclusive, true);
    if (p->out) store((uint16_t *)p->out + k * p->stride, row, p->count);
  }
  if (p->ends)
    for (int64_t c = 0; c < p->count; c++) own[c] += from[c];
  memcpy(p->ends ? p->before : p->own, own, (size_t)p->count * sizeof *own);
}

static void add_halves(const cumsum_part *p, reed_dtype dtype) {
  const convert_half_fn load = CPU_LEVELED(convert_half)(dtype, 1), store = CPU_LEVELED(convert_half)(dtype, 0);
  const bool line = p->count == 1 && (p->stride == 1 || p->stride == -1);
  (line ? add_line_of_halves : add_columns_of_halves)(p, load, store);
}
static void add_f16(const cumsum_part *p) { add_halves(p, REED_F16); }
static void add_bf16(const cumsum_part *p) { add_halves(p, REED_BF16); }
static const cumsum_loops loops_f16 = {sizeof(float), add_f16, NULL, chain_half},
                          loops_bf16 = {sizeof(float), add_bf16, NULL, chain_half};

const cumsum_loops *CPU_LEVELED(cumsum_loops_of)(reed_dtype dtype) {
  switch (dtype) {
    case REED_F32: return &loops_f32;
    case REED_F64: return &loops_f64;
    case REED_F16: return &loops_f16;
    case REED_BF16: return &loops_bf16;
    case REED_I8:
    case REED_U8: return &loops_u8;
    case REED_I16:
    case REED_U16: return &loops_u16;
    case REED_I32:
    case REED_U32: return &loops_u32;
    case REED_I64:
    case REED_U64: return &loops_u64;
    case REED_BOOL:
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
  return NULL;
}
