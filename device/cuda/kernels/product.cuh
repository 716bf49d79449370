/* The core of matrix products: a block of 256 threads computes 64 x 64 elements, 16 steps of k at a time in shared
 * memory, 4 x 4 elements a thread. Operands and result are reached by the caller's functions, so that a convolution is
 * a product over places of its input (implicit GEMM) and every order of channels is served. */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_CUH_

#include "device/cuda/kernels/elements.cuh"

enum { TILE = 64, TILE_K = 16, TILE_THREADS = 256, TILE_PART = 4 };

/* A panel of packed weights: the place of its first weight in memory, and the number of its columns. */
struct panel {
  int64_t first, width;
};

/* The panel of a group with the weights of column `column`, a multiple of TILE, which is also a panel's width. */
static __device__ inline panel find_panel(const panels_args &p, int64_t group, int64_t column) {
  return panel{group * p.group + column * p.depth, p.columns - column < p.width ? p.last_width : p.width};
}

/* The place in memory of a weight in column `in_panel` of the panel. */
static __device__ inline int64_t panel_place(const panels_args &p, const panel &of, int64_t c, int64_t tap,
                                             int64_t in_panel) {
  return of.first + tap * p.tap + (c * p.channel_rows + tap * p.tap_rows) * of.width + in_panel;
}

/* Rows first_row.. and columns first_column.. of a product with `rows` rows, `depth` and `columns` columns: a(row, k)
 * and b(k, column) give operands, store(row, column, sum) takes results. by_column: neighbours of b lie along columns,
 * not along k. */
template <class T, class A, class B, class S>
static __device__ inline void product_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                           int64_t columns, bool by_column, A a, B b, S store) {
  SHARED_ARRAY(T, part_a, [TILE_K][TILE + 1]);
  SHARED_ARRAY(T, part_b, [TILE_K][TILE + 1]);
  const int t = static_cast<int>(threadIdx.x), row = t / 16, column = t % 16;
  T sums[TILE_PART][TILE_PART] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += TILE_K) {
    for (int j = 0; j < TILE * TILE_K / TILE_THREADS; j++) {
      const int k = t % TILE_K, i = t / TILE_K + j * (TILE_THREADS / TILE_K);
      part_a[k][i] = first_row + i < rows && k0 + k < depth ? a(first_row + i, k0 + k) : T(0);
      const int kb = by_column ? t / TILE + j * (TILE_THREADS / TILE) : k, ib = by_column ? t % TILE : i;
      part_b[kb][ib] = first_column + ib < columns && k0 + kb < depth ? b(k0 + kb, first_column + ib) : T(0);
    }
    __syncthreads();
    const int steps = depth - k0 < TILE_K ? static_cast<int>(depth - k0) : static_cast<int>(TILE_K);
    for (int k = 0; k < steps; k++) {
      T left[TILE_PART], right[TILE_PART];
      UNROLL for (int i = 0; i < TILE_PART; i++) {
        left[i] = part_a[k][row + 16 * i];
        right[i] = part_b[k][column + 16 * i];
      }
      UNROLL for (int i = 0; i < TILE_PART; i++) UNROLL for (int j = 0; j < TILE_PART; j++) sums[i][j] +=
          left[i] * right[j];
    }
    __syncthreads();
  }
  UNROLL for (int i = 0; i < TILE_PART; i++)
      UNROLL for (int j = 0; j < TILE_PART;
                  j++) if (first_row + row + 16 * i < rows && first_column + column + 16 * j < columns)
          store(first_row + row + 16 * i, first_column + column + 16 * j, sums[i][j]);
}

#endif
