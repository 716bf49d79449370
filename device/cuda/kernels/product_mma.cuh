/* The core of matrix products on tensor cores. A block of four warps computes a tile of 64 x 64 elements or of 128 x
 * 64. Tiles of the operands come into shared memory by copies that run ahead: while one part is multiplied, the next
 * ones are on their way. On a card with warpgroups (wgmma) the four warps multiply together: the tile's columns are the
 * rows of A, scaled in registers if they are f32, and the tile's rows are B, cut off to tf32. On other cards each warp
 * multiplies a part of the tile (mma.sync), scales both operands, and reads fragments one step of the depth ahead of
 * their use. Sums are f32, and every element's products are added in the order of k, so that the bits are the same for
 * both kinds of tile.
 */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/mma_loader.cuh"

enum { MMA_SUM_PITCH = TILE + 4 /* so that neighbouring rows lie in different banks; vectors stay aligned */ };

/* The parts of a tile's operands in shared memory, from `words` on: STAGES places, each for the rows' part and then the
 * columns' one. Sums: rows of MMA_SUM_PITCH words, in the same memory. */
template <class Unit, class Tile, bool B_IN_ROWS, class A, class B> struct mma_parts {
  typedef mma_loader<Unit, Tile::ROWS, Tile::THREADS, false, A> loader_a;
  typedef mma_loader<Unit, Tile::COLUMNS, Tile::THREADS, B_IN_ROWS, B> loader_b;
  enum {
    STAGES = CUDA_MMA_STAGES,
    PART_A = Tile::ROWS * MMA_DEPTH, /* words of an operand's part */
    PARTS = PART_A + Tile::COLUMNS * MMA_DEPTH
  };
  static_assert(Tile::ROWS * MMA_SUM_PITCH <= STAGES * PARTS, "the parts' memory holds the sums");

  uint32_t *const words;
  loader_a from_a;
  loader_b from_b;
  int32_t chunks;
  async_copies copies;
  uint32_t *at, *last; /* the part that is multiplied next, and the place of the one that is copied next */

  __device__ inline mma_parts(uint32_t *memory, int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                              int64_t columns, const product_operand &a, const A &places_a, const product_operand &b,
                              const B &places_b)
      : words(memory), from_a(a, places_a, first_row, rows, depth), from_b(b, places_b, first_column, columns, depth),
        chunks(static_cast<int32_t>((depth + loader_a::CHUNK - 1) / loader_a::CHUNK)), at(memory), last(memory) {}
  __device__ inline uint32_t *behind(uint32_t *part) const {
    return part == words + (STAGES - 1) * PARTS ? words : part + PARTS;
  }
  /* Copies the part that comes STAGES - 1 parts behind part `chunk`, which is 1 - STAGES in the first call. */
  __device__ inline void stage_ahead(int32_t chunk) {
    chunk += STAGES - 1;
    if (chunk < chunks) {
      from_a.stage(last, chunk, &copies);
      from_b.stage(last + PART_A, chunk, &copies);
    }
    copies.commit();
    last = behind(last);
  }
  /* Until the thread's copies of the next part are done. */
  __device__ inline void wait() { copies.wait<STAGES - 2>(); }
  __device__ inline void next() { at = behind(at); }
  /* Waits for the copies behind the last part and for all threads, so that sums may be stored. */
  __device__ inline void end() {
    copies.wait<0>();
    __syncthreads();
  }
  __device__ inline void store_sum(int row, int column, float sum) {
    words[row * MMA_SUM_PITCH + column] = __float_as_uint(sum);
  }
};

/* The fragments of a warp for one step of the depth. */
template <int M, int N> struct mma_fragments { uint32_t a[M][4], b[N][2]; };

/* The sums of the parts, stored; each warp has a part of the tile. */
template <class Unit, class Tile, class Parts> static __device__ inline void add_by_warps(Parts &parts) {
  typedef typename Parts::loader_a loader_a;
  typedef typename Parts::loader_b loader_b;
  enum {
    WARP_ROWS = Tile::ROWS / Tile::DOWN,
    WARP_COLUMNS = Tile::COLUMNS / Tile::ACROSS,
    M = WARP_ROWS / MMA_ROWS, /* fragments of a warp */
    N = WARP_COLUMNS / MMA_COLUMNS
  };
  static_assert(MMA_STEPS % 2 == 0, "fragments have two places, which the steps of a part take by turns");
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x) / 32,
            row = warp % Tile::DOWN * WARP_ROWS, column = warp / Tile::DOWN * WARP_COLUMNS;
  const int place_a = loader_a::template lane_place<false>(row),
            place_b = Parts::PART_A + loader_b::template lane_place<true>(column);
  float sums[M][N][4] = {};
  mma_fragments<M, N> fragments[2];
  const auto read = [&](mma_fragments<M, N> &to, int step) {
    UNROLL for (int m = 0; m < M; m++) loader_a::read(to.a[m], parts.at, place_a, m, step);
    if constexpr (loader_b::WORDS_IN_ROWS) {
      loader_b::read_columns(to.b, parts.at, place_b, step);
    } else {
      UNROLL for (int n = 0; n < N; n += 2) {
        uint32_t two[4];
        loader_b::read(two, parts.at, place_b, n / 2, step);
        UNROLL for (int i = 0; i < 4; i++) to.b[n + i / 2][i % 2] = two[i];
      }
    }
  };
  ROLLED for (int32_t chunk = 1 - Parts::STAGES; chunk < 0; chunk++) parts.stage_ahead(chunk);
  parts.wait();
  __syncthreads();
  read(fragments[0], 0);
  ROLLED for (int32_t chunk = 0; chunk < parts.chunks; chunk++) {
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      if (step == 0) parts.stage_ahead(chunk);
      if (step == MMA_STEPS - 1) {
        parts.wait();
        __syncthreads(); /* the next part has come, and this one, whose place is filled next, has been read */
        parts.next();
      }
      read(fragments[(step + 1) % 2], (step + 1) % MMA_STEPS);
      UNROLL for (int n = 0; n < N; n++) UNROLL for (int m = 0; m < M; m++)
          Unit::multiply(sums[m][n], fragments[step % 2].a[m], fragments[step % 2].b[n]);
    }
  }
  parts.end();
  UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++) {
    const int of_part = lane % 4 * 2 + i % 2;
    parts.store_sum(row + m * MMA_ROWS + lane / 4 + i / 2 * 8,
                    column + (loader_b::WORDS_IN_ROWS ? of_part * N + n : n * MMA_COLUMNS + of_part), sums[m][n][i]);
  }
}

/* The sums of the parts, stored; the block's warps are a warpgroup. */
template <class Unit, class Tile, class Parts> static __device__ inline void add_by_warpgroup(Parts &parts) {
  typedef typename Parts::loader_b loader_b;
  static_assert(static_cast<int>(Tile::COLUMNS) == static_cast<int>(WGMMA_ROWS) && Tile::THREADS == 128, "a warpgroup");
  enum { IN_REGISTERS = Unit::IN_WORD == 1, IN_ROWS = loader_b::ROWS_IN_MEMORY };
  const int lane = static_cast<int>(threadIdx.x % 32), first = static_cast<int>(threadIdx.x) / 32 * MMA_ROWS;
  const int place = loader_b::WORDS_IN_ROWS ? loader_b::line_place(first) : loader_b::template lane_place<false>(first);
  float sums[Tile::ROWS / 2] = {};
  warpgroup group;
  ROLLED for (int32_t chunk = 1 - Parts::STAGES; chunk < 0; chunk++) parts.stage_ahead(chunk);
  ROLLED for (int32_t chunk = 0; chunk < parts.chunks; chunk++) {
    uint32_t left[MMA_STEPS][4];
    parts.wait();
    warpgroup::publish();
    __syncthreads(); /* the part has come, and the one before it, whose place is filled next, has been multiplied */
    const uint32_t *const a = parts.at + Parts::PART_A;
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      if constexpr (loader_b::WORDS_IN_ROWS) loader_b::read_lines(left[step], a, place, step);
      else if constexpr (IN_REGISTERS) loader_b::read(left[step], a, place, 0, step);
    }
    group.begin();
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      if constexpr (IN_REGISTERS) group.multiply_tf32(sums, left[step], parts.at, step);
      else Unit::template multiply_lines<IN_ROWS>(group, sums, a, parts.at, step);
    }
    group.commit();
    parts.stage_ahead(chunk);
    group.wait();
    parts.next();
  }
  parts.end();
  UNROLL for (int i = 0; i < Tile::ROWS / 2; i++) {
    const int half = i / 2 % 2;
    parts.store_sum(i / 4 * 8 + lane % 4 * 2 + i % 2,
                    first + (loader_b::WORDS_IN_ROWS ? lane / 4 * 2 + half : lane / 4 + half * 8), sums[i]);
  }
}

/* The sums of a tile, in shared memory: rows of MMA_SUM_PITCH words. B_IN_ROWS: of mma_loader. */
template <class Unit, class Tile, bool B_IN_ROWS, class A, class B>
static __device__ inline void add_parts(uint32_t *words, int64_t first_row, int64_t first_column, int64_t rows,
                                        int64_t depth, int64_t columns, const product_operand &a, const A &places_a,
                                        const product_operand &b, const B &places_b) {
  typedef mma_parts<Unit, Tile, B_IN_ROWS, A, B> parts_of_tile;
  parts_of_tile parts(words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  if (has_warpgroups()) add_by_warpgroup<Unit, Tile>(parts);
  else add_by_warps<Unit, Tile>(parts);
  __syncthreads();
}

/* Parameters: product_tile's, but store(column, n) gives a function of (row, sums) that takes n <= 4 * IN_WORD
 * neighbours of a row, from a multiple of as many on: what it reads for the columns alone it reads once.
 * rows_side_by_side: neighbouring rows of a column of the result are neighbours in memory; then n is 1.
 */
template <class Unit, class Tile, class A, class B, class S>
static __device__ inline void mma_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                       int64_t columns, const product_operand &a, const A &places_a,
                                       const product_operand &b, const B &places_b, bool rows_side_by_side, S store) {
  enum { ROWS = Tile::ROWS, COLUMNS = Tile::COLUMNS, THREADS = Tile::THREADS, VECTOR = 4 * Unit::IN_WORD };
  SHARED_DYNAMIC(uint4, vectors_of_parts);
  uint32_t *const words = wgmma_aligned(reinterpret_cast<uint32_t *>(vectors_of_parts));
  /* The sums go through shared memory, so that neighbouring threads store neighbours, and few registers are live at a
   * call. */
  if (b.vectors && b.by_line)
    add_parts<Unit, Tile, true>(words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  else add_parts<Unit, Tile, false>(words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  const int t = static_cast<int>(threadIdx.x);
  if (rows_side_by_side) {
    static_assert(THREADS == ROWS || THREADS == 2 * ROWS, "a thread has one row");
    const int y = t % ROWS;
    if (first_row + y >= rows) return;
    ROLLED for (int x = t / ROWS; x < COLUMNS; x += THREADS / ROWS) {
      const float sum = __uint_as_float(words[y * MMA_SUM_PITCH + x]);
      if (first_column + x < columns) store(first_column + x, 1)(first_row + y, &sum);
    }
    return;
  }
  enum { ACROSS = COLUMNS / VECTOR };
  static_assert(THREADS % ACROSS == 0, "a thread's vectors are below each other");
  const int x = t % ACROSS * VECTOR;
  if (first_column + x >= columns) return;
  const int64_t n = columns - first_column - x;
  const auto store_row = store(first_column + x, n < VECTOR ? static_cast<int>(n) : static_cast<int>(VECTOR));
  ROLLED for (int y = t / ACROSS; y < ROWS; y += THREADS / ACROSS) {
    if (first_row + y >= rows) break;
    float of_row[VECTOR];
    UNROLL for (int e = 0; e < VECTOR; e += 4) {
      const float4 four = *reinterpret_cast<const float4 *>(words + y * MMA_SUM_PITCH + x + e);
      of_row[e] = four.x, of_row[e + 1] = four.y, of_row[e + 2] = four.z, of_row[e + 3] = four.w;
    }
    store_row(first_row + y, of_row);
  }
}

/* The cores of products and convolutions: T is the type of the sums, ROWS and COLUMNS the tile's; dtype: of the
 * elements, which the args say; vector_size: bytes of an element that is read in vectors, 0: it is not; VECTOR: results
 * that `store` takes at once. tile's parameters: mma_tile's. */
template <class Number> struct simt_core {
  typedef Number T;
  enum { ROWS = TILE, COLUMNS = TILE, VECTOR = 1 };
  static __device__ inline int dtype(int given) { return given; }
  static __device__ inline void load(T (&)[VECTOR], const void *, int64_t) {}
  static __device__ inline void store(void *, int64_t, const T (&)[VECTOR]) {}
  static __device__ inline void activate(const map_step &, T (&)[VECTOR]) {}
  static __device__ inline int64_t vector_size(int dtype) { return sizeof(T) == 4 && dtype == REED_F32 ? 4 : 0; }
  template <class A, class B, class S>
  static __device__ inline void tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                     int64_t columns, const product_operand &a, const A &places_a,
                                     const product_operand &b, const B &places_b, bool, S store) {
    product_tile<T>(first_row, first_column, rows, depth, columns, a, places_a, b, places_b,
                    [&](int64_t i, int64_t j, T sum) { store(j, 1)(i, &sum); });
  }
};
template <class Unit, class Tile> struct mma_core {
  typedef float T;
  enum { ROWS = Tile::ROWS, COLUMNS = Tile::COLUMNS, VECTOR = 4 * Unit::IN_WORD };
  static __device__ inline int dtype(int) { return Unit::DTYPE; }
  static __device__ inline void load(T (&to)[VECTOR], const void *data, int64_t at) { load_vector<Unit>(to, data, at); }
  static __device__ inline void store(void *data, int64_t at, const T (&from)[VECTOR]) {
    store_vector<Unit>(data, at, from);
  }
  static __device__ inline void activate(const map_step &step, T (&values)[VECTOR]) { activate_all(step, values); }
  static __device__ inline int64_t vector_size(int) { return 4 / Unit::IN_WORD; }
  template <class A, class B, class S>
  static __device__ inline void tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                     int64_t columns, const product_operand &a, const A &places_a,
                                     const product_operand &b, const B &places_b, bool rows_side_by_side, S store) {
    mma_tile<Unit, Tile>(first_row, first_column, rows, depth, columns, a, places_a, b, places_b, rows_side_by_side,
                         store);
  }
};

/* n <= VECTOR neighbours; vectors: they may be taken at once if all are there. */
template <class Core>
static __device__ inline void load_some(typename Core::T (&to)[Core::VECTOR], int dtype, const void *data, int64_t at,
                                        int n, bool vectors) {
  if (Core::VECTOR > 1 && vectors && n == Core::VECTOR) {
    Core::load(to, data, at);
    return;
  }
  UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) to[i] =
      element<typename Core::T>::load(Core::dtype(dtype), data, at + i);
}

#endif
