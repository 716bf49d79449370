/* Keys of TopK, ArgMax and ArgMin, and the loops over them (topk_loops.h), compiled once per CPU level. */
#include "ops/cpu/reduce/topk_loops.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- keys ---- */

INLINE uint32_t key_u32(uint32_t x) { return x; }
INLINE uint32_t key_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
INLINE uint64_t key_u64(uint64_t x) { return x; }
INLINE uint64_t key_i64(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }
/* Maps floats to keys in ascending order: the bits of negatives are inverted, the others are moved above them. */
INLINE uint32_t key_f32(float x) {
  int32_t bits;
  x += 0.0f; /* -0 and 0 are equal */
  memcpy(&bits, &x, 4);
  uint32_t key = (uint32_t)bits ^ ((uint32_t)(bits >> 31) | 0x80000000u);
  return x != x ? UINT32_MAX : key;
}
INLINE uint64_t key_f64(double x) {
  int64_t bits;
  x += 0.0;
  memcpy(&bits, &x, 8);
  uint64_t key = (uint64_t)bits ^ ((uint64_t)(bits >> 63) | 0x8000000000000000u);
  return x != x ? UINT64_MAX : key;
}
/* f16, or bf16, whose infinity has those bits. */
INLINE uint32_t key_half(uint16_t x, uint32_t infinity) {
  uint32_t magnitude = x & 0x7fffu, key = x & 0x8000u ? 0x8000u - magnitude : 0x8000u + magnitude;
  return magnitude > infinity ? UINT32_MAX : key;
}
INLINE uint32_t key_f16(uint16_t x) { return key_half(x, 0x7c00); }
INLINE uint32_t key_bf16(uint16_t x) { return key_half(x, 0x7f80); }

#define KEYS(T, K, name) \
  static void keys_##name(void *keys, const void *x, int64_t n, int64_t step, bool largest) { \
    const T *from = x; \
    const K flip = largest ? (K)-1 : 0; \
    K *to = keys; \
    if (step == 1) \
      for (int64_t i = 0; i < n; i++) to[i] = key_##name(from[i]) ^ flip; \
    else \
      for (int64_t i = 0; i < n; i++) to[i] = key_##name(from[i * step]) ^ flip; \
  }
#define key_i8 key_i32
#define key_i16 key_i32
#define key_u8 key_u32
#define key_u16 key_u32
KEYS(float, uint32_t, f32)
KEYS(double, uint64_t, f64)
KEYS(uint16_t, uint32_t, f16)
KEYS(uint16_t, uint32_t, bf16)
KEYS(int8_t, uint32_t, i8)
KEYS(int16_t, uint32_t, i16)
KEYS(int32_t, uint32_t, i32)
KEYS(int64_t, uint64_t, i64)
KEYS(uint8_t, uint32_t, u8)
KEYS(uint16_t, uint32_t, u16)
KEYS(uint32_t, uint32_t, u32)
KEYS(uint64_t, uint64_t, u64)

topk_keys_fn CPU_LEVELED(topk_keys_of)(reed_dtype dtype) {
  static const topk_keys_fn keys[REED_DTYPE_COUNT] = {
      [REED_F32] = keys_f32, [REED_F64] = keys_f64, [REED_F16] = keys_f16, [REED_BF16] = keys_bf16,
      [REED_I8] = keys_i8,   [REED_I16] = keys_i16, [REED_I32] = keys_i32, [REED_I64] = keys_i64,
      [REED_U8] = keys_u8,   [REED_U16] = keys_u16, [REED_U32] = keys_u32, [REED_U64] = keys_u64,
  };
  return keys[dtype];
}

/* ---- filters ---- */

#define SEEN 32 /* keys that are tested at a time */

/* Bit i: keys[i] is `most` or less. */
INLINE uint32_t not_above_32(const uint32_t *keys, uint32_t most) {
  uint32_t bits = 0;
#if defined(__AVX512F__)
  const __m512i limit = _mm512_set1_epi32((int)most);
  for (int i = 0; i < SEEN; i += 16)
    bits |= (uint32_t)_mm512_cmple_epu32_mask(_mm512_loadu_si512(keys + i), limit) << i;
#elif defined(__AVX2__)
  const __m256i limit = _mm256_set1_epi32((int)most);
  for (int i = 0; i < SEEN; i += 8) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)(keys + i));
    const __m256i within = _mm256_cmpeq_epi32(_mm256_max_epu32(x, limit), limit);
    bits |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(within)) << i;
  }
#else
  const __m128i sign = _mm_set1_epi32(INT32_MIN), limit = _mm_xor_si128(_mm_set1_epi32((int)most), sign);
  for (int i = 0; i < SEEN; i += 4) {
    const __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(keys + i)), sign);
    bits |= (~(uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(x, limit))) & 15) << i;
  }
#endif
  return bits;
}

INLINE uint32_t not_above_64(const uint64_t *keys, uint64_t most) {
  uint32_t bits = 0;
#if defined(__AVX512F__)
  const __m512i limit = _mm512_set1_epi64((long long)most);
  for (int i = 0; i < SEEN; i += 8) bits |= (uint32_t)_mm512_cmple_epu64_mask(_mm512_loadu_si512(keys + i), limit) << i;
#elif defined(__AVX2__)
  const __m256i sign = _mm256_set1_epi64x(INT64_MIN),
                limit = _mm256_xor_si256(_mm256_set1_epi64x((long long)most), sign);
  for (int i = 0; i < SEEN; i += 4) {
    const __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(keys + i)), sign);
    bits |= (~(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(x, limit))) & 15) << i;
  }
#else
  for (int i = 0; i < SEEN; i++) bits |= (uint32_t)(keys[i] <= most) << i;
#endif
  return bits;
}

#define FILTER(K, suffix) \
  static int64_t count_##suffix(const void *keys, int64_t n, uint64_t most) { \
    const K *from = keys; \
    const K limit = (K)most; \
    int64_t found = 0, i = 0; \
    for (; i + SEEN <= n; i += SEEN) found += __builtin_popcount(not_above_##suffix(from + i, limit)); \
    for (; i < n; i++) found += from[i] <= limit; \
    return found; \
  } \
  static int64_t collect_##suffix(void *pairs, int64_t found, int64_t room, const void *keys, int64_t n, \
                                  uint64_t most, uint32_t index) { \
    const K *from = keys; \
    const K limit = (K)most; \
    pair_##suffix *to = pairs; \
    for (int64_t i = 0; i < n; i += SEEN) { \
      uint32_t bits = 0; \
      if (i + SEEN <= n) bits = not_above_##suffix(from + i, limit); \
      else \
        for (int64_t k = i; k < n; k++) bits |= (uint32_t)(from[k] <= limit) << (k - i); \
      if (__builtin_popcount(bits) > room - found) return -1; \
      for (; bits; bits &= bits - 1) { \
        const int64_t at = i + __builtin_ctz(bits); \
        to[found++] = (pair_##suffix){from[at], index + (uint32_t)at}; \
      } \
    } \
    return found; \
  }
FILTER(uint32_t, 32)
FILTER(uint64_t, 64)

const topk_filter *CPU_LEVELED(topk_filter_of)(int64_t key_bytes) {
  static const topk_filter filters[] = {{count_32, collect_32}, {count_64, collect_64}};
  return &filters[key_bytes == 8];
}

/* ---- the least key ---- */

#define LEAST(K, suffix) \
  static uint64_t least_##suffix(const void *keys, int64_t n) { \
    const K *from = keys; \
    K least = from[0]; \
    for (int64_t i = 0; i < n; i++) least = from[i] < least ? from[i] : least; \
    return least; \
  } \
  INLINE void take_as_##suffix(K *best, K *places, const K *keys, int64_t n, int64_t step, K place, bool last) { \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { \
      const K key = keys[i * step], so_far = best[i], before = places[i]; \
      const bool better = last ? key <= so_far : key < so_far; \
      best[i] = better ? key : so_far; \
      places[i] = better ? place : before; \
    } \
  } \
  static void take_##suffix(void *best, void *places, const void *keys, int64_t n, int64_t step, uint32_t place, \
                            bool last) { \
    if (step == 1 && last) take_as_##suffix(best, places, keys, n, 1, place, true); \
    else if (step == 1) take_as_##suffix(best, places, keys, n, 1, place, false); \
    else if (last) take_as_##suffix(best, places, keys, n, step, place, true); \
    else take_as_##suffix(best, places, keys, n, step, place, false); \
  }
LEAST(uint32_t, 32)
LEAST(uint64_t, 64)

const topk_least *CPU_LEVELED(topk_least_of)(int64_t key_bytes) {
  static const topk_least least[] = {{least_32, take_32}, {least_64, take_64}};
  return &least[key_bytes == 8];
}

/* ---- columns side by side ---- */

/* Row j becomes the row above it where the key belongs further up, else the key where it belongs there. */
#define INSERT(K, suffix) \
  INLINE void insert_at_##suffix(K *row, K *place, const K *key, int64_t n, K element, bool above, bool own) { \
    const K *up = above ? row - TOPK_COLUMNS : row, *up_place = above ? place - TOPK_COLUMNS : place; \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { \
      const K it = key[i], here = own ? row[i] : it, here_place = own ? place[i] : element; \
      const bool before = own && it < here; \
      K result = before ? it : here, result_place = before ? element : here_place; \
      if (above) { \
        const bool further = it < up[i]; \
        result = further ? up[i] : result; \
        result_place = further ? up_place[i] : result_place; \
      } \
      row[i] = result; \
      place[i] = result_place; \
    } \
  } \
  static void insert_##suffix(void *best, void *places, const void *keys, int64_t n, int64_t element, int64_t k) { \
    int64_t j = element < k ? element : k - 1; \
    const K *key = keys, number = (K)element; \
    K *row = (K *)best + j * TOPK_COLUMNS, *place = (K *)places + j * TOPK_COLUMNS; \
    if (element == 0) { \
      insert_at_##suffix(row, place, key, n, number, false, false); \
      return; \
    } \
    if (element < k) { \
      insert_at_##suffix(row, place, key, n, number, true, false); \
      j--, row -= TOPK_COLUMNS, place -= TOPK_COLUMNS; \
    } \
    for (; j > 0; j--, row -= TOPK_COLUMNS, place -= TOPK_COLUMNS) \
      insert_at_##suffix(row, place, key, n, number, true, true); \
    insert_at_##suffix(row, place, key, n, number, false, true); \
  }
INSERT(uint32_t, 32)
INSERT(uint64_t, 64)

topk_insert_fn CPU_LEVELED(topk_insert_of)(int64_t key_bytes) { return key_bytes == 8 ? insert_64 : insert_32; }
