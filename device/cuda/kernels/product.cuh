/* The core of matrix products: a block of 256 threads computes 64 x 64 elements, 16 steps of k at a time in shared
 * memory, 4 x 4 neighbours a thread. Places of operands and the result's fate are the caller's functions, so that a
 * convolution is a product over places of its input (implicit GEMM) and every order of channels is served. Operands
 * whose neighbours lie side by side and aligned are read 16 bytes at a time. */
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

/* The row of a panel with the weights of a channel and a tap; and, of the taps that have matrices of their own, the
 * elements before this one's. */
struct panel_row {
  int64_t row, before;
};
static __device__ inline panel_row find_row(const panels_args &p, int64_t c, int64_t tap) {
  return panel_row{c * p.channel_rows + tap * p.tap_rows, tap * p.tap};
}

/* The place in memory of a weight in column `in_panel` of the panel. */
static __device__ inline int64_t panel_place(const panel &of, const panel_row &row, int64_t in_panel) {
  return of.first + row.before + row.row * of.width + in_panel;
}

/* An operand of a product. by_line: neighbours in memory are neighbouring rows of A, or columns of B; else neighbours
 * along k. vectors: each 16 bytes of such neighbours, counted from a multiple of as many, are aligned. */
struct product_operand {
  const void *data;
  int dtype;
  bool by_line, vectors;
};

/* The places of an operand's elements. step(k): what the lines (rows of A, columns of B) share at k; place(line,
 * step(k)): the element's place, below 0: it is 0. run: so many elements along k, from a multiple of that number on,
 * lie `stride` apart; 1: no two need to; 0: all do. */
template <class Step, class Place> struct product_places {
  Step step;
  Place place;
  int64_t stride, run;
};
template <class Step, class Place>
static __device__ inline product_places<Step, Place> places_of(Step step, Place place, int64_t stride, int64_t run) {
  return {step, place, stride, run};
}

/* a b + c, rounded once: the kernels are compiled without contraction. */
static __device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
static __device__ inline uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }

/* Four neighbours in shared memory. */
template <class T> static __device__ inline void read_four(T (&to)[4], const T *from) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const float4 four = *reinterpret_cast<const float4 *>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  } else {
    UNROLL for (int i = 0; i < 4; i++) to[i] = from[i];
  }
}

enum { TILE_PITCH = TILE + 4 }; /* rows begin at multiples of 16 bytes */

/* Puts TILE lines (rows of A, columns of B) of TILE_K steps of k in shared memory. */
template <class T, class Places>
static __device__ inline void stage_tile(T (&part)[TILE_K][TILE_PITCH], const product_operand &of, int64_t line0,
                                         int64_t lines, int64_t k0, int64_t depth, const Places &places) {
  const int t = static_cast<int>(threadIdx.x);
  /* of a vector: its first element */
  const int quad_k = of.by_line ? t / (TILE / 4) : t % (TILE_K / 4) * 4,
            quad = of.by_line ? t % (TILE / 4) * 4 : t / (TILE_K / 4);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (of.vectors && line0 + quad + (of.by_line ? 3 : 0) < lines && k0 + quad_k + (of.by_line ? 0 : 3) < depth) {
      const int64_t at = places.place(line0 + quad, places.step(k0 + quad_k));
      float4 four = make_float4(0, 0, 0, 0);
      if (at >= 0) four = *reinterpret_cast<const float4 *>(static_cast<const float *>(of.data) + at);
      if (of.by_line) {
        *reinterpret_cast<float4 *>(&part[quad_k][quad]) = four;
      } else {
        part[quad_k][quad] = four.x;
        part[quad_k + 1][quad] = four.y;
        part[quad_k + 2][quad] = four.z;
        part[quad_k + 3][quad] = four.w;
      }
      return;
    }
  }
  ROLLED for (int j = 0; j < TILE * TILE_K / TILE_THREADS; j++) {
    int k = of.by_line ? t / TILE + j * (TILE_THREADS / TILE) : t % TILE_K,
        i = of.by_line ? t % TILE : t / TILE_K + j * (TILE_THREADS / TILE_K);
    if (of.vectors) { /* the elements of the vector, some of which are outside */
      k = quad_k + (of.by_line ? 0 : j);
      i = quad + (of.by_line ? j : 0);
    }
    const int64_t at = line0 + i < lines && k0 + k < depth ? places.place(line0 + i, places.step(k0 + k)) : -1;
    part[k][i] = at < 0 ? T(0) : element<T>::load(of.dtype, of.data, at);
  }
}

/* Rows first_row.. and columns first_column.. of a product with `rows` rows, `depth` and `columns` columns. store(row,
 * column, sum) takes results. */
template <class T, class A, class B, class S>
static __device__ inline void product_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                           int64_t columns, const product_operand &a, const A &places_a,
                                           const product_operand &b, const B &places_b, S store) {
  SHARED_ARRAY(T, part_a, [TILE_K][TILE_PITCH]);
  SHARED_ARRAY(T, part_b, [TILE_K][TILE_PITCH]);
  const int t = static_cast<int>(threadIdx.x), row = t / 16 * TILE_PART, column = t % 16 * TILE_PART;
  T sums[TILE_PART][TILE_PART] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += TILE_K) {
    stage_tile<T>(part_a, a, first_row, rows, k0, depth, places_a);
    stage_tile<T>(part_b, b, first_column, columns, k0, depth, places_b);
    __syncthreads();
    const int steps = depth - k0 < TILE_K ? static_cast<int>(depth - k0) : static_cast<int>(TILE_K);
    for (int k = 0; k < steps; k++) {
      T left[TILE_PART], right[TILE_PART];
      read_four<T>(left, &part_a[k][row]);
      read_four<T>(right, &part_b[k][column]);
      UNROLL for (int i = 0; i < TILE_PART; i++) UNROLL for (int j = 0; j < TILE_PART; j++) sums[i][j] =
          multiply_add(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
  UNROLL for (int i = 0; i < TILE_PART; i++)
      UNROLL for (int j = 0; j < TILE_PART; j++) if (first_row + row + i < rows && first_column + column + j < columns)
          store(first_row + row + i, first_column + column + j, sums[i][j]);
}

/* True if weights of the panel that are neighbours along columns lie in vectors of elements of `size` bytes. */
static __device__ inline bool panel_in_vectors(const void *w, const panels_args &p, const panel &of, int64_t size) {
  return in_vectors(w, (of.first | of.width | p.tap) * size);
}

#endif
