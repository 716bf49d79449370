/* The number formats of mma.sync (ptx.cuh) as types, so that a kernel is written once for all of them. A unit holds
 * IN_WORD elements in a 32-bit word. f16 and bf16 stay as they are in memory; f32 is rounded to tf32. */
#ifndef DEVICE_CUDA_KERNELS_UNITS_CUH_
#define DEVICE_CUDA_KERNELS_UNITS_CUH_

#include "device/cuda/kernels/elements.cuh"
#include "device/cuda/kernels/wgmma.cuh"

/* Each unit:
 *   word(of)         a word of the floats of(0) and, if IN_WORD is 2, of(1)
 *   pair(low, high)  the same of two floats; IN_WORD 2
 *   of_memory(word)  the word of IN_WORD neighbours in memory
 *   element(word, e) element e as a float
 *   odd(word)        not 0 if an element is infinite or NaN
 *   multiply(c, a, b) the product of fragments, added to c
 *   multiply_lines<IN_ROWS>(group, d, a, b, step) likewise of a warpgroup, A in shared memory; not of tf32, whose words
 *                     there would be cut off */
struct tf32_unit {
  enum { IN_WORD = 1, DTYPE = REED_F32 };
  /* without the bits that the unit ignores, so that of_memory leaves it as it is */
  template <class F> static __device__ inline uint32_t word(F of) { return tf32_of_f32(of(0)) & ~0x1fffu; }
  static __device__ inline uint32_t of_memory(uint32_t word) { return tf32_of_f32(__uint_as_float(word)); }
  static __device__ inline float element(uint32_t word, int) { return __uint_as_float(word); }
  static __device__ inline uint32_t odd(uint32_t word) { return ((word & 0x7f800000u) + 0x00800000u) & 0x80000000u; }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_tf32(c, a, b);
  }
};
struct f16_unit {
  enum { IN_WORD = 2, DTYPE = REED_F16 };
  template <class F> static __device__ inline uint32_t word(F of) {
    return f16_of_f32(of(0)) | static_cast<uint32_t>(f16_of_f32(of(1))) << 16;
  }
  static __device__ inline uint32_t pair(float low, float high) { return f16_pair(low, high); }
  static __device__ inline uint32_t of_memory(uint32_t word) { return word; }
  static __device__ inline float element(uint32_t word, int e) {
    return f32_of_f16(static_cast<uint16_t>(word >> 16 * e));
  }
  static __device__ inline uint32_t odd(uint32_t word) { return ((word & 0x7c007c00u) + 0x04000400u) & 0x80008000u; }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_f16(c, a, b);
  }
  template <bool IN_ROWS, int N>
  static __device__ inline void multiply_lines(warpgroup &group, float (&d)[N], const uint32_t *a, const uint32_t *b,
                                               int step) {
    group.multiply_f16<IN_ROWS>(d, a, b, step);
  }
};
struct bf16_unit {
  enum { IN_WORD = 2, DTYPE = REED_BF16 };
  template <class F> static __device__ inline uint32_t word(F of) {
    return bf16_of_f32(of(0)) | static_cast<uint32_t>(bf16_of_f32(of(1))) << 16;
  }
  static __device__ inline uint32_t pair(float low, float high) { return bf16_pair(low, high); }
  static __device__ inline uint32_t of_memory(uint32_t word) { return word; }
  static __device__ inline float element(uint32_t word, int e) {
    return f32_of_bf16(static_cast<uint16_t>(word >> 16 * e));
  }
  static __device__ inline uint32_t odd(uint32_t word) { return ((word & 0x7f807f80u) + 0x00800080u) & 0x80008000u; }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_bf16(c, a, b);
  }
  template <bool IN_ROWS, int N>
  static __device__ inline void multiply_lines(warpgroup &group, float (&d)[N], const uint32_t *a, const uint32_t *b,
                                               int step) {
    group.multiply_bf16<IN_ROWS>(d, a, b, step);
  }
};

/* 16 bytes of elements as floats, and back; `at` is a multiple of their number. */
template <class Unit>
static __device__ inline void load_vector(float (&to)[4 * Unit::IN_WORD], const void *data, int64_t at) {
  const uint4 v = *reinterpret_cast<const uint4 *>(static_cast<const uint32_t *>(data) + at / Unit::IN_WORD);
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
  UNROLL for (int i = 0; i < 4 * Unit::IN_WORD; i++) to[i] = Unit::element(words[i / Unit::IN_WORD], i % Unit::IN_WORD);
}
template <class Unit>
static __device__ inline void store_vector(void *data, int64_t at, const float (&from)[4 * Unit::IN_WORD]) {
  uint32_t words[4];
  UNROLL for (int i = 0; i < 4; i++) {
    if constexpr (Unit::IN_WORD == 1) words[i] = __float_as_uint(from[i]);
    else words[i] = Unit::word([&](int e) { return from[i * Unit::IN_WORD + e]; });
  }
  *reinterpret_cast<uint4 *>(static_cast<uint32_t *>(data) + at / Unit::IN_WORD) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

#endif
