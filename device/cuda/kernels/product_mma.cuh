/* The core of matrix products on tensor cores: as product_tile of product.cuh, a block of 256 threads computes 64 x 64
 * elements, but each of its 8 warps a part of 16 x 32 by mma.sync (ptx.cuh). Sums are f32. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/product.cuh"
#include "device/cuda/kernels/units.cuh"

enum {
  MMA_STEPS = 2, /* of MMA_WORDS words along the depth, in shared memory at a time */
  MMA_DEPTH = MMA_STEPS * MMA_WORDS,
  MMA_PITCH = MMA_DEPTH + 4 /* so that the lanes of a warp read different banks; vectors stay aligned */
};

/* Puts TILE lines of MMA_DEPTH words in shared memory; as stage_tile. A vector has 16 bytes of the operand. */
template <class Unit, class F>
static __device__ inline void stage_words(uint32_t (&part)[TILE][MMA_PITCH], const product_operand &of, int64_t line0,
                                          int64_t lines, int64_t k0, int64_t depth, F place) {
  enum { VECTOR = 4 * Unit::IN_WORD };
  const int t = static_cast<int>(threadIdx.x);
  const uint32_t *const data = static_cast<const uint32_t *>(of.data);
  const auto word = [&](int i, int w) {
    return Unit::word([&](int e) {
      const int64_t k = k0 + w * Unit::IN_WORD + e, at = line0 + i < lines && k < depth ? place(line0 + i, k) : -1;
      return at < 0 ? 0.0f : element<float>::load(Unit::DTYPE, of.data, at);
    });
  };
  if (!of.vectors) {
    ROLLED for (int j = t; j < TILE * MMA_DEPTH; j += TILE_THREADS) {
      const int i = of.by_line ? j % TILE : j / MMA_DEPTH, w = of.by_line ? j / TILE : j % MMA_DEPTH;
      part[i][w] = word(i, w);
    }
  } else if (of.by_line) {
    for (int j = t; j < TILE / VECTOR * MMA_DEPTH; j += TILE_THREADS) {
      const int i = j % (TILE / VECTOR) * VECTOR, w = j / (TILE / VECTOR);
      const int64_t k = k0 + w * Unit::IN_WORD;
      if (line0 + i + VECTOR > lines || k + Unit::IN_WORD > depth) {
        ROLLED for (int e = 0; e < VECTOR; e++) part[i + e][w] = word(i + e, w);
        continue;
      }
      uint32_t rows[Unit::IN_WORD][4];
      UNROLL for (int e = 0; e < Unit::IN_WORD; e++) {
        const int64_t at = place(line0 + i, k + e);
        uint4 four = make_uint4(0, 0, 0, 0);
        if (at >= 0) four = *reinterpret_cast<const uint4 *>(data + at / Unit::IN_WORD);
        rows[e][0] = four.x;
        rows[e][1] = four.y;
        rows[e][2] = four.z;
        rows[e][3] = four.w;
      }
      UNROLL for (int e = 0; e < VECTOR; e++) part[i + e][w] =
          Unit::of_lines([&](int step) { return rows[step % Unit::IN_WORD][e / Unit::IN_WORD]; }, e);
    }
  } else {
    for (int j = t; j < TILE * MMA_DEPTH / 4; j += TILE_THREADS) {
      const int i = j / (MMA_DEPTH / 4), w = j % (MMA_DEPTH / 4) * 4;
      const int64_t k = k0 + w * Unit::IN_WORD;
      if (line0 + i >= lines || k + VECTOR > depth) {
        ROLLED for (int e = 0; e < 4; e++) part[i][w + e] = word(i, w + e);
        continue;
      }
      const int64_t at = place(line0 + i, k);
      uint4 four = make_uint4(0, 0, 0, 0);
      if (at >= 0) four = *reinterpret_cast<const uint4 *>(data + at / Unit::IN_WORD);
      *reinterpret_cast<uint4 *>(&part[i][w]) = make_uint4(Unit::of_memory(four.x), Unit::of_memory(four.y),
                                                           Unit::of_memory(four.z), Unit::of_memory(four.w));
    }
  }
}

/* Parameters: product_tile's. */
template <class Unit, class A, class B, class S>
static __device__ inline void mma_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                       int64_t columns, const product_operand &a, A place_a, const product_operand &b,
                                       B place_b, S store) {
  SHARED_ARRAY(uint32_t, part_a, [TILE][MMA_PITCH]);
  SHARED_ARRAY(uint32_t, part_b, [TILE][MMA_PITCH]);
  const int t = static_cast<int>(threadIdx.x), g = t % 32 / 4, p = t % 4, row = t / 32 % 4 * MMA_ROWS,
            column = t / 128 * (TILE / 2);
  float sums[TILE / 2 / MMA_COLUMNS][4] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += MMA_DEPTH * Unit::IN_WORD) {
    stage_words<Unit>(part_a, a, first_row, rows, k0, depth, place_a);
    stage_words<Unit>(part_b, b, first_column, columns, k0, depth, place_b);
    __syncthreads();
    UNROLL for (int w = p; w < MMA_DEPTH; w += MMA_WORDS) {
      const uint32_t left[4] = {part_a[row + g][w], part_a[row + g + 8][w], part_a[row + g][w + 4],
                                part_a[row + g + 8][w + 4]};
      UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n++) {
        const int at = column + n * MMA_COLUMNS + g;
        const uint32_t right[2] = {part_b[at][w], part_b[at][w + 4]};
        Unit::multiply(sums[n], left, right);
      }
    }
    __syncthreads();
  }
  UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n++) UNROLL for (int i = 0; i < 4; i++) {
    const int64_t y = first_row + row + g + i / 2 * 8, x = first_column + column + n * MMA_COLUMNS + 2 * p + i % 2;
    if (y < rows && x < columns) store(y, x, sums[n][i]);
  }
}

/* The cores of products and convolutions: T is the type of the sums; vector_size: bytes of an element that is read in
 * vectors, 0: it is not. */
template <class Number> struct simt_core {
  typedef Number T;
  static __device__ inline int64_t vector_size(int dtype) { return sizeof(T) == 4 && dtype == REED_F32 ? 4 : 0; }
  template <class... P> static __device__ inline void tile(P... parameters) { product_tile<T>(parameters...); }
};
template <class Unit> struct mma_core {
  typedef float T;
  static __device__ inline int64_t vector_size(int) { return 4 / Unit::IN_WORD; }
  template <class... P> static __device__ inline void tile(P... parameters) { mma_tile<Unit>(parameters...); }
};

#endif
