/* Records and their parts (parts_loops.h), compiled once per CPU level: plain loops, of which compilers make shuffles
 * of whole vectors. */
#include "ops/cpu/common/parts_loops.h"

#define LOOPS(T, tag) \
  static void split_2_##tag(const T *restrict x, T *restrict a, T *restrict b, int64_t n) { \
    for (int64_t i = 0; i < n; i++) a[i] = x[2 * i], b[i] = x[2 * i + 1]; \
  } \
  static void split_3_##tag(const T *restrict x, T *restrict a, T *restrict b, T *restrict c, int64_t n) { \
    for (int64_t i = 0; i < n; i++) a[i] = x[3 * i], b[i] = x[3 * i + 1], c[i] = x[3 * i + 2]; \
  } \
  static void split_4_##tag(const T *restrict x, T *restrict a, T *restrict b, T *restrict c, T *restrict d, \
                            int64_t n) { \
    for (int64_t i = 0; i < n; i++) a[i] = x[4 * i], b[i] = x[4 * i + 1], c[i] = x[4 * i + 2], d[i] = x[4 * i + 3]; \
  } \
  static void split_##tag(int64_t parts, const T *x, T *y, int64_t step, int64_t n) { \
    if (parts == 2) split_2_##tag(x, y, y + step, n); \
    else if (parts == 3) split_3_##tag(x, y, y + step, y + 2 * step, n); \
    else split_4_##tag(x, y, y + step, y + 2 * step, y + 3 * step, n); \
  } \
  static void join_2_##tag(const T *restrict a, const T *restrict b, T *restrict y, int64_t n) { \
    for (int64_t i = 0; i < n; i++) y[2 * i] = a[i], y[2 * i + 1] = b[i]; \
  } \
  static void join_3_##tag(const T *restrict a, const T *restrict b, const T *restrict c, T *restrict y, int64_t n) { \
    for (int64_t i = 0; i < n; i++) y[3 * i] = a[i], y[3 * i + 1] = b[i], y[3 * i + 2] = c[i]; \
  } \
  static void join_4_##tag(const T *restrict a, const T *restrict b, const T *restrict c, const T *restrict d, \
                           T *restrict y, int64_t n) { \
    for (int64_t i = 0; i < n; i++) y[4 * i] = a[i], y[4 * i + 1] = b[i], y[4 * i + 2] = c[i], y[4 * i + 3] = d[i]; \
  } \
  static void join_##tag(int64_t parts, const T *x, int64_t step, T *y, int64_t n) { \
    if (parts == 2) join_2_##tag(x, x + step, y, n); \
    else if (parts == 3) join_3_##tag(x, x + step, x + 2 * step, y, n); \
    else join_4_##tag(x, x + step, x + 2 * step, x + 3 * step, y, n); \
  }
/* An element may be several of a tensor's, and is aligned as one of those. */
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint16_t any_u16 ANYWHERE;
typedef uint32_t any_u32 ANYWHERE;
typedef uint64_t any_u64 ANYWHERE;
LOOPS(uint8_t, u8)
LOOPS(any_u16, u16)
LOOPS(any_u32, u32)
LOOPS(any_u64, u64)

void CPU_LEVELED(split_parts)(int64_t bytes, int64_t parts, const void *x, void *y, int64_t y_step, int64_t n) {
  switch (bytes) {
    case 1: split_u8(parts, x, y, y_step, n); break;
    case 2: split_u16(parts, x, y, y_step, n); break;
    case 4: split_u32(parts, x, y, y_step, n); break;
    default: split_u64(parts, x, y, y_step, n);
  }
}

void CPU_LEVELED(join_parts)(int64_t bytes, int64_t parts, const void *x, int64_t x_step, void *y, int64_t n) {
  switch (bytes) {
    case 1: join_u8(parts, x, x_step, y, n); break;
    case 2: join_u16(parts, x, x_step, y, n); break;
    case 4: join_u32(parts, x, x_step, y, n); break;
    default: join_u64(parts, x, x_step, y, n);
  }
}
