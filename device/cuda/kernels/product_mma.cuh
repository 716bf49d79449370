/* The core of matrix products on tensor cores: as product_tile of product.cuh, a block of 256 threads computes 64 x 64
 * elements, but each of its 8 warps a part of 16 x 32 by mma.sync (ptx.cuh), 8 words along the depth at a time. Sums
 * are f32. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/product.cuh"

/* The numbers that a unit multiplies: IN_WORD of them in a word, made of floats by word(), which `of(e)` gives.
 * Operands of f16 and bf16 come back as they were; those of f32 are rounded to tf32. */
struct tf32_unit {
  enum { IN_WORD = 1 };
  template <class F> static __device__ inline uint32_t word(F of) { return tf32_of_f32(of(0)); }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_tf32(c, a, b);
  }
};
struct f16_unit {
  enum { IN_WORD = 2 };
  template <class F> static __device__ inline uint32_t word(F of) {
    return f16_of_f32(of(0)) | static_cast<uint32_t>(f16_of_f32(of(1))) << 16;
  }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_f16(c, a, b);
  }
};
struct bf16_unit {
  enum { IN_WORD = 2 };
  template <class F> static __device__ inline uint32_t word(F of) {
    return bf16_of_f32(of(0)) | static_cast<uint32_t>(bf16_of_f32(of(1))) << 16;
  }
  static __device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_bf16(c, a, b);
  }
};

enum { MMA_PITCH = MMA_WORDS + 4 }; /* so that the lanes of a warp read different banks */

/* Parameters: product_tile's. */
template <class Unit, class A, class B, class S>
static __device__ inline void mma_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                       int64_t columns, bool by_column, A a, B b, S store) {
  SHARED_ARRAY(uint32_t, part_a, [TILE][MMA_PITCH]);
  SHARED_ARRAY(uint32_t, part_b, [TILE][MMA_PITCH]);
  const int t = static_cast<int>(threadIdx.x), g = t % 32 / 4, p = t % 4, row = t / 32 % 4 * MMA_ROWS,
            column = t / 128 * (TILE / 2);
  float sums[TILE / 2 / MMA_COLUMNS][4] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += MMA_WORDS * Unit::IN_WORD) {
    for (int j = 0; j < TILE * MMA_WORDS / TILE_THREADS; j++) {
      const int w = t % MMA_WORDS, i = t / MMA_WORDS + j * (TILE_THREADS / MMA_WORDS);
      const int wb = by_column ? t / TILE + j * (TILE_THREADS / TILE) : w, ib = by_column ? t % TILE : i;
      const int64_t k = k0 + w * Unit::IN_WORD, kb = k0 + wb * Unit::IN_WORD;
      part_a[i][w] =
          Unit::word([&](int e) { return first_row + i < rows && k + e < depth ? a(first_row + i, k + e) : 0.0f; });
      part_b[ib][wb] = Unit::word(
          [&](int e) { return first_column + ib < columns && kb + e < depth ? b(kb + e, first_column + ib) : 0.0f; });
    }
    __syncthreads();
    const uint32_t left[4] = {part_a[row + g][p], part_a[row + g + 8][p], part_a[row + g][p + 4],
                              part_a[row + g + 8][p + 4]};
    UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n++) {
      const int at = column + n * MMA_COLUMNS + g;
      const uint32_t right[2] = {part_b[at][p], part_b[at][p + 4]};
      Unit::multiply(sums[n], left, right);
    }
    __syncthreads();
  }
  UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n++) UNROLL for (int i = 0; i < 4; i++) {
    const int64_t y = first_row + row + g + i / 2 * 8, x = first_column + column + n * MMA_COLUMNS + 2 * p + i % 2;
    if (y < rows && x < columns) store(y, x, sums[n][i]);
  }
}

/* The cores of products and convolutions: T is the type of the sums. */
template <class Number> struct simt_core {
  typedef Number T;
  template <class... P> static __device__ inline void tile(P... parameters) { product_tile<T>(parameters...); }
};
template <class Unit> struct mma_core {
  typedef float T;
  template <class... P> static __device__ inline void tile(P... parameters) { mma_tile<Unit>(parameters...); }
};

#endif
