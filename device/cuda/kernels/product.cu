/* MatMul and Gemm: tiles of product.cuh or product_mma.cuh over strided matrices. */
#include "device/cuda/kernels/product_mma.cuh"

/* alpha * sum + beta * c + residual, activated, of n neighbours in a row of the result. c: the place of the first one's
 * c in row 0; vectors: c, residual and y may be read and written in vectors. A c that is the same in every row is read
 * once. */
template <class Core> struct product_end {
  typedef typename Core::T T;
  const product_args &a;
  const int64_t c;
  const int n;
  const bool vectors;
  T addend[Core::VECTOR];

  __device__ inline product_end(const product_args &args, int64_t of_c, int columns, bool in_vectors)
      : a(args), c(of_c), n(columns), vectors(in_vectors) {
    UNROLL for (int i = 0; i < Core::VECTOR; i++) addend[i] = 0;
    if (a.c && a.c_row == 0) load(addend, c);
  }
  __device__ inline void load(T (&to)[Core::VECTOR], int64_t at) const {
    if (a.c_column == 1) {
      load_some<Core>(to, a.dtype, a.c, at, n, vectors);
    } else {
      UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) to[i] =
          element<T>::load(Core::dtype(a.dtype), a.c, at + i * a.c_column);
    }
  }
  __device__ inline void store(int64_t row, int64_t at, const T *sums) const {
    const T alpha = static_cast<T>(a.alpha), beta = static_cast<T>(a.beta);
    T y[Core::VECTOR];
    if (a.c && a.c_row) {
      load(y, c + row * a.c_row);
    } else {
      UNROLL for (int i = 0; i < Core::VECTOR; i++) y[i] = addend[i];
    }
    if (Core::VECTOR > 1 && vectors && n == Core::VECTOR) {
      UNROLL for (int i = 0; i < Core::VECTOR; i++) y[i] = a.c ? alpha * sums[i] + beta * y[i] : alpha * sums[i];
      if (a.residual) {
        T more[Core::VECTOR];
        Core::load(more, a.residual, at);
        UNROLL for (int i = 0; i < Core::VECTOR; i++) y[i] += more[i];
      }
      Core::activate(a.activation, y);
      Core::store(a.y, at, y);
      return;
    }
    UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) {
      T value = a.c ? alpha * sums[i] + beta * y[i] : alpha * sums[i];
      if (a.residual) value += element<T>::load(Core::dtype(a.dtype), a.residual, at + i);
      element<T>::store(Core::dtype(a.y_dtype), a.y, at + i, element<T>::activate(a.activation, value));
    }
  }
};
template <> struct product_end<simt_core<uint64_t>> {
  const product_args &a;
  const int64_t c;
  __device__ inline product_end(const product_args &args, int64_t of_c, int, bool) : a(args), c(of_c) {}
  __device__ inline void store(int64_t row, int64_t at, const uint64_t *sums) const {
    uint64_t sum = *sums;
    if (a.c) sum += element<uint64_t>::load(a.dtype, a.c, c + row * a.c_row);
    element<uint64_t>::store(a.y_dtype, a.y, at, sum);
  }
};

template <class Core> static __device__ inline void run_product(const product_args &a) {
  typedef typename Core::T T;
  const int64_t tile = blockIdx.x, matrix = tile / (a.tiles_m * a.tiles_n),
                row = tile / a.tiles_n % a.tiles_m * Core::ROWS, column = tile % a.tiles_n * Core::COLUMNS;
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
  const int64_t rows = a.counted_batch ? a.m : true_number(a.counted, a.m), size = Core::vector_size(a.dtype);
  const panel weights = find_panel(a.panels, 0, column);
  const product_operand of_a = {a.a, a.dtype, a.a_row == 1 && a.a_column != 1,
                                size &&
                                    (a.a_column == 1 ? in_vectors(a.a, (from_a | a.a_row) * size)
                                                     : a.a_row == 1 && in_vectors(a.a, (from_a | a.a_column) * size))};
  const bool by_column = a.panels.width || a.b_column == 1;
  const product_operand of_b = {a.b, a.dtype, by_column,
                                size && (a.panels.width ? panel_in_vectors(a.b, a.panels, weights, size)
                                         : by_column    ? in_vectors(a.b, (from_b | a.b_row) * size)
                                                     : a.b_row == 1 && in_vectors(a.b, (from_b | a.b_column) * size))};
  const bool vectors = size && in_vectors(a.y, a.n * size) && in_vectors(a.residual, 0) &&
                       (!a.c || a.c_column != 1 || in_vectors(a.c, (from_c | a.c_row) * size));
  Core::tile(row, column, rows, a.k, a.n, of_a,
             places_of([&](int64_t k) { return from_a + k * a.a_column; },
                       [&](int64_t i, int64_t step) { return step + i * a.a_row; }, a.a_column, 0),
             of_b,
             places_of(
                 [&](int64_t k) {
                   return a.panels.width ? find_row(a.panels, k, 0) : panel_row{0, from_b + k * a.b_row};
                 },
                 [&](int64_t j, const panel_row &row) {
                   return a.panels.width ? panel_place(weights, row, j - column) : row.before + j * a.b_column;
                 },
                 a.panels.width ? weights.width * a.panels.channel_rows : a.b_row, 0),
             false, [&](int64_t j, int n) {
               const product_end<Core> end(a, from_c + j * a.c_column, n, vectors);
               return [=, &a](int64_t i, const T *sums) { end.store(i, (matrix * a.m + i) * a.n + j, sums); };
             });
}

KERNEL(product_f32) { run_product<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(product_f64) { run_product<simt_core<double>>(a); }
KERNEL(product_ints) { run_product<simt_core<uint64_t>>(a); }
KERNEL_OF_BLOCKS(3, product_tf32) { run_product<mma_core<tf32_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, product_f16) { run_product<mma_core<f16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, product_bf16) { run_product<mma_core<bf16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(2, product_tall_tf32) { run_product<mma_core<tf32_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(2, product_tall_f16) { run_product<mma_core<f16_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(2, product_tall_bf16) { run_product<mma_core<bf16_unit, tall_tile>>(a); }
