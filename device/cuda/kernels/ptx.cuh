/* Inline PTX (the PTX ISA manual has each instruction): each function beside its emulation. Only wgmma.cuh has more. */
#ifndef DEVICE_CUDA_KERNELS_PTX_CUH_
#define DEVICE_CUDA_KERNELS_PTX_CUH_

#include "device/cuda/kernels/dialect.cuh"

#ifdef __CUDACC__

static __device__ inline float f32_of_f16(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
static __device__ inline uint16_t f16_of_f32(float f) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
static __device__ inline uint16_t f16_of_f64(double d) {
  uint16_t h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d));
  return h;
}

#else

#include "base/half.h"
static inline float f32_of_f16(uint16_t h) { return f16_to_f32(h); }
static inline uint16_t f16_of_f32(float f) { return f16_from_f32(f); }
static inline uint16_t f16_of_f64(double d) { return f16_from_f64(d); }

#endif

/* 2^f to 2 units in the last place (ex2.approx); 0 below 2^-126. */
static __device__ inline float exp2_near(float f) {
#ifdef __CUDACC__
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(f));
  return e;
#else
  return f < -126 ? 0 : exp2f(f);
#endif
}

/* The larger one; NaN if one of them is NaN. */
static __device__ inline float max_or_nan(float a, float b) {
#if defined __CUDACC__ && __CUDA_ARCH__ >= 800
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
#else
  return a != a || a > b ? a : b;
#endif
}

/* ---- tensor cores, from sm_80 on ----
 * D = A B + C on matrices that the 32 lanes of a warp hold together. A is 16 x K, B is K x 8, C and D are 16 x 8 in
 * f32. K is 16 (f16, bf16: two neighbours along K in a word, the first in the low half) or 8 (tf32: one in a word), so
 * that a row of A and a column of B are 8 words either way. Lane 4 g + p holds (PTX ISA, "Matrix Fragments for
 * mma.m16n8k8" and "mma.m16n8k16")
 *   a[i]  word p + 4 (i / 2) of row g + 8 (i % 2)
 *   b[i]  word p + 4 i of column g
 *   c[i]  row g + 8 (i / 2), column 2 p + i % 2
 * The sums' order and roundings are the card's own; the emulation adds along K in f32. */
enum { MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_WORDS = 8 };

/* A number of which the unit, which ignores the low 13 bits of a word, reads f with 10 bits after the point: f made
 * larger by a third of their unit, relative to f's power of 2, so that what is cut off is 0 on average, weighted by
 * size. A number of 10 bits stays as it is, infinite and NaN too; the largest error is 2/3 of a unit, the deviation
 * 0.31 to 0.33 of one (0.29 if it were the nearest number, which takes twice the instructions; cvt.rna.tf32 four
 * times). */
static __device__ inline uint32_t tf32_of_f32(float f) { return __float_as_uint(f * (1.0f + 0x1p-10f / 3)); }

#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
#define MMA_FUNCTION(name, instruction) \
  static __device__ inline void name(float(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) { \
    asm(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
#else /* never launched there: launches are planned by the card's capability */
#define MMA_FUNCTION(name, instruction) \
  static __device__ inline void name(float(&)[4], const uint32_t(&)[4], const uint32_t(&)[2]) { asm volatile("trap;"); }
#endif
MMA_FUNCTION(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_FUNCTION(mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_FUNCTION(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")

/* Four matrices of 8 rows of 16 bytes from shared memory (ldmatrix, from compute capability 7.5 on). Lane l gives row l
 * % 8 of matrix l / 8: 16 bytes, aligned to 16. Of matrix i lane 4 g + p gets in words[i], by
 *   load_rows        word p of row g: fragment a, or b of a product whose B lies in memory column by column
 *   load_transposed  of elements of 2 bytes, rows 2 p and 2 p + 1 of column g (.trans): fragment b of a product whose B
 *                    lies in memory row by row */
#define LOAD_FUNCTION(name, instruction) \
  static __device__ inline void name(uint32_t(&words)[4], const uint32_t *row) { \
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row)); \
    asm volatile(instruction " {%0,%1,%2,%3}, [%4];" \
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) \
                 : "r"(at) \
                 : "memory"); \
  }
LOAD_FUNCTION(load_rows, "ldmatrix.sync.aligned.m8n8.x4.shared.b16")
LOAD_FUNCTION(load_transposed, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
#undef LOAD_FUNCTION

#else

/* The unit ignores the low 13 bits of a word. */
static inline float tf32_part(uint32_t word, int) { return __uint_as_float(word & ~0x1fffu); }
static inline float f16_part(uint32_t word, int e) { return f32_of_f16(static_cast<uint16_t>(word >> 16 * e)); }
static inline float bf16_part(uint32_t word, int e) { return __uint_as_float(e ? word & 0xffff0000u : word << 16); }
#define MMA_FUNCTION(name, part, in_word) \
  static inline void name(float(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2], SIMT_SITE) { \
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]}; \
    uint32_t all[32][6]; \
    simt_exchange(mine, 6, all[0], file, line); \
    const unsigned g = threadIdx.x % 32 / 4, p = threadIdx.x % 4; \
    for (unsigned i = 0; i < 4; i++) { \
      const unsigned row = g + i / 2 * 8, column = 2 * p + i % 2; \
      for (unsigned w = 0; w < MMA_WORDS; w++) { \
        const uint32_t left = all[row % 8 * 4 + w % 4][row / 8 + w / 4 * 2], \
                       right = all[column * 4 + w % 4][4 + w / 4]; \
        for (int e = 0; e < in_word; e++) c[i] += part(left, e) * part(right, e); \
      } \
    } \
  }
MMA_FUNCTION(mma_tf32, tf32_part, 1)
MMA_FUNCTION(mma_f16, f16_part, 2)
MMA_FUNCTION(mma_bf16, bf16_part, 2)

/* Row l of all four matrices from lane l. */
static inline void exchange_rows(uint32_t (&all)[32][4], const uint32_t *row, const char *file, int line) {
  const uint4 mine = *reinterpret_cast<const uint4 *>(row);
  const uint32_t given[4] = {mine.x, mine.y, mine.z, mine.w};
  simt_exchange(given, 4, all[0], file, line);
}
static inline void load_rows(uint32_t (&words)[4], const uint32_t *row, SIMT_SITE) {
  uint32_t all[32][4];
  exchange_rows(all, row, file, line);
  const unsigned g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  for (unsigned i = 0; i < 4; i++) words[i] = all[8 * i + g][p];
}

static inline void load_transposed(uint32_t (&words)[4], const uint32_t *row, SIMT_SITE) {
  uint32_t all[32][4];
  exchange_rows(all, row, file, line);
  const unsigned g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  for (unsigned i = 0; i < 4; i++)
    words[i] = (all[8 * i + 2 * p][g / 2] >> g % 2 * 16 & 0xffffu) | all[8 * i + 2 * p + 1][g / 2] >> g % 2 * 16 << 16;
}

#endif
#undef MMA_FUNCTION

/* ---- copies to shared memory that run while the thread goes on, from sm_80 on (cp.async); before, plain ones ----
 * Copies form a group when they are committed. After `wait` for all groups but the latest N the thread's own copies are
 * done; a barrier makes them visible to the block. The emulation copies as late as this allows, and fills the
 * destination with ones (as floats: NaN) until then. */
struct async_copies {
#ifdef __CUDACC__
  /* 16 bytes, both addresses aligned to 16; zeros unless `some`. */
  __device__ inline void copy(uint32_t *to, const uint32_t *from, bool some) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(__cvta_generic_to_global(from)),
                   "r"(some ? 16 : 0)
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(to) = some ? *reinterpret_cast<const uint4 *>(from) : make_uint4(0, 0, 0, 0);
#endif
  }
  /* The same without the choice, which takes instructions. */
  __device__ inline void copy(uint32_t *to, const uint32_t *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(__cvta_generic_to_global(from))
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
#endif
  }
  /* A word likewise. */
  __device__ inline void copy_word(uint32_t *to, const uint32_t *from, bool some) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(__cvta_generic_to_global(from)),
                   "r"(some ? 4 : 0)
                 : "memory");
#else
    *to = some ? *from : 0;
#endif
  }
  __device__ inline void commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
  }
  template <int N> __device__ inline void wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#endif
  }
#else
  enum { MOST = 192 };
  struct {
    uint32_t *to;
    const uint32_t *from;
    int group;
    bool word;
  } pending[MOST];
  int n = 0, groups = 0;

  void copy(uint32_t *to, const uint32_t *from, bool some) {
    const uint32_t ones = ~0u;
    *reinterpret_cast<uint4 *>(to) = make_uint4(ones, ones, ones, ones);
    pending[n++] = {to, some ? from : nullptr, groups, false};
  }
  void copy(uint32_t *to, const uint32_t *from) { copy(to, from, true); }
  void copy_word(uint32_t *to, const uint32_t *from, bool some) {
    *to = ~0u;
    pending[n++] = {to, some ? from : nullptr, groups, true};
  }
  void commit() { groups++; }
  template <int N> void wait() {
    int left = 0;
    for (int i = 0; i < n; i++) {
      if (pending[i].group + N >= groups) {
        pending[left++] = pending[i];
        continue;
      }
      if (pending[i].word) *pending[i].to = pending[i].from ? *pending[i].from : 0;
      else
        *reinterpret_cast<uint4 *>(pending[i].to) =
            pending[i].from ? *reinterpret_cast<const uint4 *>(pending[i].from) : make_uint4(0, 0, 0, 0);
    }
    n = left;
  }
#endif
};

/* bfloat16 in integer arithmetic: cards before sm_80 have no instruction for it. */
static __device__ inline float f32_of_bf16(uint16_t h) { return __uint_as_float(static_cast<unsigned>(h) << 16); }
static __device__ inline uint16_t bf16_of_f32(float f) {
  const unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u); /* quiet NaN */
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Two halves in a word, `low` in its low half: one instruction from sm_80 on. */
#if defined __CUDACC__ && __CUDA_ARCH__ >= 800
#define PAIR_FUNCTION(name, one, instruction) \
  static __device__ inline uint32_t name(float low, float high) { \
    uint32_t word; \
    asm(instruction " %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low)); \
    return word; \
  }
#else
#define PAIR_FUNCTION(name, one, instruction) \
  static __device__ inline uint32_t name(float low, float high) { \
    return one(low) | static_cast<uint32_t>(one(high)) << 16; \
  }
#endif
PAIR_FUNCTION(f16_pair, f16_of_f32, "cvt.rn.f16x2.f32")
PAIR_FUNCTION(bf16_pair, bf16_of_f32, "cvt.rn.bf16x2.f32")
#undef PAIR_FUNCTION

#endif
