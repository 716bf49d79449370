/* The core of matrix products on tensor cores: as product_tile of product.cuh, a block of 256 threads computes 64 x 64
 * elements, but each of its 8 warps a part of 16 x 32 by mma.sync (ptx.cuh). Sums are f32. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/product.cuh"
#include "device/cuda/kernels/units.cuh"

enum {
  MMA_STEPS = 2, /* of MMA_WORDS words along the depth, in shared memory at a time */
  MMA_DEPTH = MMA_STEPS * MMA_WORDS,
  MMA_PITCH = MMA_DEPTH + 4,   /* so that the lanes of a warp read different banks; vectors stay aligned */
  MMA_PART = TILE * MMA_PITCH, /* words of an operand's part */
  MMA_SUM_PITCH = TILE + 4,
  MMA_PARTS = 2 /* of each operand: one is multiplied while the next one is copied */
};

/* An operand's part in shared memory: TILE lines of MMA_DEPTH words. Operands whose vectors run along the lines lie as
 * in memory, a row of TILE lines for each step of the depth; others line by line. */
template <class Unit> struct mma_part {
  enum {
    VECTOR = 4 * Unit::IN_WORD,
    ROW_PITCH = Unit::IN_WORD == 2 ? TILE / 2 + 4 : TILE + 8 /* as MMA_PITCH */
  };
  static_assert(MMA_DEPTH * Unit::IN_WORD * ROW_PITCH <= MMA_PART, "a part holds rows, too");

  /* A thread copies one vector; elements of operands without vectors, and at the edges, one by one. As stage_tile. */
  template <class F>
  static __device__ inline void stage(uint32_t *words, const product_operand &of, int64_t line0, int64_t lines,
                                      int64_t k0, int64_t depth, F place, async_copies *copies) {
    static_assert(TILE * MMA_DEPTH == 4 * TILE_THREADS, "a vector of four words for each thread");
    const int t = static_cast<int>(threadIdx.x);
    const auto element_at = [&](int64_t line, int64_t k) {
      const int64_t at = line < lines && k < depth ? place(line, k) : -1;
      return at < 0 ? 0.0f : element<float>::load(Unit::DTYPE, of.data, at);
    };
    if (!of.vectors) {
      ROLLED for (int j = t; j < TILE * MMA_DEPTH; j += TILE_THREADS) {
        const int i = of.by_line ? j % TILE : j / MMA_DEPTH, w = of.by_line ? j / TILE : j % MMA_DEPTH;
        words[i * MMA_PITCH + w] = Unit::word([&](int e) { return element_at(line0 + i, k0 + w * Unit::IN_WORD + e); });
      }
      return;
    }
    const int in_row = of.by_line ? TILE / VECTOR : MMA_DEPTH / 4, row = t / in_row, vector = t % in_row;
    const int64_t line = line0 + (of.by_line ? vector * VECTOR : row), k = k0 + (of.by_line ? row : vector * VECTOR);
    uint32_t *const to =
        words + row * (of.by_line ? static_cast<int>(ROW_PITCH) : static_cast<int>(MMA_PITCH)) + vector * 4;
    if (line + (of.by_line ? static_cast<int>(VECTOR) : 1) <= lines &&
        k + (of.by_line ? 1 : static_cast<int>(VECTOR)) <= depth) {
      const int64_t at = place(line, k);
      copies->copy(to, static_cast<const uint32_t *>(of.data) + (at < 0 ? 0 : at / Unit::IN_WORD), at >= 0);
      return;
    }
    ROLLED for (int w = 0; w < 4; w++) to[w] = Unit::word([&](int e) {
      const int n = w * Unit::IN_WORD + e;
      return element_at(line + (of.by_line ? n : 0), k + (of.by_line ? 0 : n));
    });
  }

  /* Fragments (ptx.cuh) of the lines from `first` on, of one step of the depth: A of 16 lines, or B of twice 8. Words
   * are rounded here, because copies do not pass a register. */
  template <bool IS_B>
  static __device__ inline void read(uint32_t (&fragment)[4], const uint32_t *words, bool in_rows, int first,
                                     int step) {
    const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, p = lane % 4;
    if constexpr (Unit::IN_WORD == 2) {
      if (in_rows) {
        const int far = IS_B ? lane / 8 % 2 : lane / 16, next = IS_B ? lane / 16 : lane / 8 % 2;
        load_transposed(fragment,
                        words + (step * 2 * MMA_WORDS + far * 8 + lane % 8) * ROW_PITCH + (first + next * 8) / 2);
        return;
      }
    }
    UNROLL for (int i = 0; i < 4; i++) {
      const int far = IS_B ? i % 2 : i / 2, next = IS_B ? i / 2 : i % 2, w = step * MMA_WORDS + p + far * 4,
                line = first + next * 8 + g;
      fragment[i] = Unit::of_memory(words[in_rows ? w * ROW_PITCH + line : line * MMA_PITCH + w]);
    }
  }
};

/* Parameters: product_tile's. rows_side_by_side: neighbouring rows of a column of the result are neighbours in memory.
 */
template <class Unit, class A, class B, class S>
static __device__ inline void mma_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                       int64_t columns, const product_operand &a, A place_a, const product_operand &b,
                                       B place_b, bool rows_side_by_side, S store) {
  typedef mma_part<Unit> part;
  struct __attribute__((aligned(16))) shared_words {
    uint32_t of[MMA_PARTS][2][MMA_PART];
  };
  static_assert(TILE * MMA_SUM_PITCH <= MMA_PARTS * 2 * MMA_PART, "the parts' memory holds the sums");
  SHARED_VALUE(shared_words, words);
  const int t = static_cast<int>(threadIdx.x), row = t / 32 % 4 * MMA_ROWS, column = t / 128 * (TILE / 2);
  float sums[TILE / 2 / MMA_COLUMNS][4] = {};
  async_copies copies;
  const auto stage = [&](int at, int64_t k0) {
    part::stage(words.of[at][0], a, first_row, rows, k0, depth, place_a, &copies);
    part::stage(words.of[at][1], b, first_column, columns, k0, depth, place_b, &copies);
    copies.commit();
  };
  int at = 0;
  if (depth > 0) stage(0, 0);
  for (int64_t k0 = 0; k0 < depth; k0 += MMA_DEPTH * Unit::IN_WORD, at = 1 - at) {
    if (k0 + MMA_DEPTH * Unit::IN_WORD < depth) {
      stage(1 - at, k0 + MMA_DEPTH * Unit::IN_WORD);
      copies.wait<1>();
    } else {
      copies.wait<0>();
    }
    __syncthreads();
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      uint32_t left[4];
      part::template read<false>(left, words.of[at][0], a.vectors && a.by_line, row, step);
      UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n += 2) {
        uint32_t right[4];
        part::template read<true>(right, words.of[at][1], b.vectors && b.by_line, column + n * MMA_COLUMNS, step);
        const uint32_t first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
        Unit::multiply(sums[n], left, first);
        Unit::multiply(sums[n + 1], left, second);
      }
    }
    __syncthreads();
  }
  /* through shared memory, so that neighbouring threads store neighbours, and few registers are live at a call */
  uint32_t *const all = &words.of[0][0][0];
  UNROLL for (int n = 0; n < TILE / 2 / MMA_COLUMNS; n++) UNROLL for (int i = 0; i < 4; i++)
      all[(row + t % 32 / 4 + i / 2 * 8) * MMA_SUM_PITCH + column + n * MMA_COLUMNS + t % 4 * 2 + i % 2] =
          __float_as_uint(sums[n][i]);
  __syncthreads();
  ROLLED for (int j = t; j < TILE * TILE; j += TILE_THREADS) {
    const int y = rows_side_by_side ? j % TILE : j / TILE, x = rows_side_by_side ? j / TILE : j % TILE;
    if (first_row + y < rows && first_column + x < columns)
      store(first_row + y, first_column + x, __uint_as_float(all[y * MMA_SUM_PITCH + x]));
  }
}

/* The cores of products and convolutions: T is the type of the sums; vector_size: bytes of an element that is read in
 * vectors, 0: it is not. tile's parameters: mma_tile's. */
template <class Number> struct simt_core {
  typedef Number T;
  static __device__ inline int64_t vector_size(int dtype) { return sizeof(T) == 4 && dtype == REED_F32 ? 4 : 0; }
  template <class A, class B, class S>
  static __device__ inline void tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                     int64_t columns, const product_operand &a, A place_a, const product_operand &b,
                                     B place_b, bool, S store) {
    product_tile<T>(first_row, first_column, rows, depth, columns, a, place_a, b, place_b, store);
  }
};
template <class Unit> struct mma_core {
  typedef float T;
  static __device__ inline int64_t vector_size(int) { return 4 / Unit::IN_WORD; }
  template <class A, class B, class S>
  static __device__ inline void tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                     int64_t columns, const product_operand &a, A place_a, const product_operand &b,
                                     B place_b, bool rows_side_by_side, S store) {
    mma_tile<Unit>(first_row, first_column, rows, depth, columns, a, place_a, b, place_b, rows_side_by_side, store);
  }
};

#endif
