/* MatMul and Gemm: tiles of product.cuh or product_mma.cuh over strided matrices. */
#include "device/cuda/kernels/product_mma.cuh"

/* alpha * sum + beta * c, activated. */
template <class T> struct finish {
  static __device__ inline void store(const product_args &a, int64_t at, int64_t c, T sum) {
    T y = static_cast<T>(a.alpha) * sum;
    if (a.c) y += static_cast<T>(a.beta) * element<T>::load(a.dtype, a.c, c);
    element<T>::store(a.y_dtype, a.y, at, element<T>::activate(a.activation, y));
  }
};
template <> struct finish<uint64_t> {
  static __device__ inline void store(const product_args &a, int64_t at, int64_t c, uint64_t sum) {
    if (a.c) sum += element<uint64_t>::load(a.dtype, a.c, c);
    element<uint64_t>::store(a.y_dtype, a.y, at, sum);
  }
};

template <class Core> static __device__ inline void run_product(const product_args &a) {
  typedef typename Core::T T;
  const int64_t tile = blockIdx.x, matrix = tile / (a.tiles_m * a.tiles_n), row = tile / a.tiles_n % a.tiles_m * TILE,
                column = tile % a.tiles_n * TILE;
  int64_t at[CUDA_DIMS], from_a = 0, from_b = 0, from_c = 0;
  split_index(matrix, a.batch_rank, a.batch_dims, at);
  for (int32_t d = 0; d < a.batch_rank; d++) {
    from_a += at[d] * a.a_batch[d];
    from_b += at[d] * a.b_batch[d];
    from_c += at[d] * a.c_batch[d];
  }
  if (a.counted.count) { /* blocks beyond the count leave as a whole */
    const int64_t matrices = gridDim.x / (a.tiles_m * a.tiles_n);
    if (a.counted_batch ? matrix >= true_number(a.counted, matrices) : row >= true_number(a.counted, a.m)) return;
  }
  const int64_t rows = a.counted_batch ? a.m : true_number(a.counted, a.m);
  const panel weights = find_panel(a.panels, 0, column);
  const int64_t size = Core::vector_size(a.dtype);
  const product_operand of_a = {a.a, a.dtype, a.a_row == 1 && a.a_column != 1,
                                size &&
                                    (a.a_column == 1 ? in_vectors(a.a, (from_a | a.a_row) * size)
                                                     : a.a_row == 1 && in_vectors(a.a, (from_a | a.a_column) * size))};
  const bool by_column = a.panels.width || a.b_column == 1;
  const product_operand of_b = {a.b, a.dtype, by_column,
                                size && (a.panels.width ? panel_in_vectors(a.b, a.panels, weights, size)
                                         : by_column    ? in_vectors(a.b, (from_b | a.b_row) * size)
                                                     : a.b_row == 1 && in_vectors(a.b, (from_b | a.b_column) * size))};
  Core::tile(
      row, column, rows, a.k, a.n, of_a, [&](int64_t i, int64_t k) { return from_a + i * a.a_row + k * a.a_column; },
      of_b,
      [&](int64_t j, int64_t k) {
        return a.panels.width ? panel_place(a.panels, weights, k, 0, j - column)
                              : from_b + k * a.b_row + j * a.b_column;
      },
      false,
      [&](int64_t i, int64_t j, T sum) {
        finish<T>::store(a, (matrix * a.m + i) * a.n + j, from_c + i * a.c_row + j * a.c_column, sum);
      });
}

KERNEL(product_f32) { run_product<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(product_f64) { run_product<simt_core<double>>(a); }
KERNEL(product_ints) { run_product<simt_core<uint64_t>>(a); }
KERNEL(product_tf32) { run_product<mma_core<tf32_unit>>(a); }
KERNEL(product_f16) { run_product<mma_core<f16_unit>>(a); }
KERNEL(product_bf16) { run_product<mma_core<bf16_unit>>(a); }
