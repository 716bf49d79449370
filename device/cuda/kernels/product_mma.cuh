/* The core of matrix products on tensor cores (mma.sync, ptx.cuh). A block computes a tile of 64 x 64 elements with
 * four warps, or of 128 x 64; each warp has a part of it in the fragments of its sums. Tiles of the operands come into
 * shared memory by copies that run ahead: while one part is multiplied, the next three are on their way. Sums are f32,
 * and every element's products are added in the order of k, so that the bits are the same for both kinds of tile.
 */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/product.cuh"
#include "device/cuda/kernels/units.cuh"

enum {
  MMA_STEPS = 2, /* of MMA_WORDS words along the depth, in a part */
  MMA_DEPTH = MMA_STEPS * MMA_WORDS,
  MMA_PITCH = MMA_DEPTH + 4 /* so that the lanes of a warp read different banks; vectors stay aligned */
};
static_assert(static_cast<int>(CUDA_MMA_LINE_WORDS) == static_cast<int>(MMA_PITCH), "the host's sizes of memory");

/* A tile: its rows and columns, the warps below and beside each other. */
struct small_tile {
  enum { ROWS = TILE, COLUMNS = TILE, DOWN = 2, ACROSS = 2, THREADS = 32 * DOWN * ACROSS };
};
struct tall_tile {
  enum { ROWS = 2 * TILE, COLUMNS = TILE, DOWN = 2, ACROSS = 2, THREADS = 32 * DOWN * ACROSS };
};

/* An operand's way into shared memory: LINES lines of MMA_DEPTH words at a time. IN_ROWS: its vectors run along the
 * lines, and it lies there as in memory, a row of LINES lines for each step of the depth; else line by line. */
template <class Unit, int LINES, int THREADS, bool IN_ROWS, class Places> struct mma_loader {
  enum {
    CHUNK = MMA_DEPTH * Unit::IN_WORD, /* elements along the depth */
    VECTOR = 4 * Unit::IN_WORD,
    VECTORS = LINES * MMA_DEPTH / 4 / THREADS, /* of a thread */
    ROW_VECTORS = IN_ROWS ? LINES / VECTOR : MMA_DEPTH / 4,
    PITCH = !IN_ROWS             ? static_cast<int>(MMA_PITCH)
            : Unit::IN_WORD == 2 ? LINES / 2 + 4
                                 : LINES + 8 /* as MMA_PITCH */
  };
  static_assert(!IN_ROWS || CHUNK * PITCH <= LINES * MMA_PITCH, "a part holds rows, too");
  static_assert(THREADS % ROW_VECTORS == 0, "a thread's vectors are below each other");

  const product_operand &of;
  const Places &places;
  const int64_t line0, lines, depth;
  uint64_t from[VECTORS]; /* addresses of the thread's vectors in the coming part */
  int64_t stride;         /* bytes to the part behind it */
  uint32_t in_memory;     /* bit i: all of vector i comes from memory; else it is zeros, or */
  uint32_t in_part;       /* bit i: some of it does */
  int32_t chunks, left;   /* parts that lie evenly, those of them that are left */
  int32_t cut;            /* the part that the depth cuts */
  bool vectors;

  __device__ inline mma_loader(const product_operand &operand, const Places &its_places, int64_t first_line,
                               int64_t n_lines, int64_t n_depth)
      : of(operand), places(its_places), line0(first_line), lines(n_lines), depth(n_depth),
        stride(its_places.stride * (MMA_DEPTH * 4)), in_memory(0), in_part(0), left(0),
        cut(n_depth % CHUNK ? static_cast<int32_t>(n_depth / CHUNK) : -1),
        vectors(operand.vectors && operand.by_line == IN_ROWS) {
    const int64_t run = places.run;
    chunks = run == 0 ? INT32_MAX : run % CHUNK == 0 && run / CHUNK < INT32_MAX ? static_cast<int32_t>(run / CHUNK) : 1;
    UNROLL for (int i = 0; i < VECTORS; i++) from[i] = 0;
  }

  /* Of vector i of the thread: its row in shared memory and its place there, its line, its first k in a part. */
  static __device__ inline int row_of(int i) {
    return static_cast<int>(threadIdx.x) / ROW_VECTORS + i * (THREADS / ROW_VECTORS);
  }
  static __device__ inline int in_row() { return static_cast<int>(threadIdx.x) % ROW_VECTORS; }
  __device__ inline int64_t line_of(int i) const { return line0 + (IN_ROWS ? in_row() * VECTOR : row_of(i)); }
  static __device__ inline int k_of(int i) { return IN_ROWS ? row_of(i) : in_row() * VECTOR; }

  __device__ inline float element_at(int64_t line, int64_t k) const {
    const int64_t place = line < lines && k < depth ? places.place(line, places.step(k)) : -1;
    return place < 0 ? 0.0f : element<float>::load(Unit::DTYPE, of.data, place);
  }

  /* Elements of an operand without vectors. A thread keeps its k, so that its steps are taken once. */
  __device__ inline void stage_elements(uint32_t *words, int64_t k0, async_copies *copies) const {
    const int t = static_cast<int>(threadIdx.x), w = t % MMA_DEPTH;
    const int64_t k = k0 + w * Unit::IN_WORD;
    const auto first = places.step(k < depth ? k : depth - 1), second = places.step(k + 1 < depth ? k + 1 : depth - 1);
    ROLLED for (int j = 0; j < LINES * MMA_DEPTH / THREADS; j++) {
      const int i = t / MMA_DEPTH + j * (THREADS / MMA_DEPTH);
      if constexpr (Unit::IN_WORD == 1) { /* a word as it is in memory */
        const int64_t place = line0 + i < lines && k < depth ? places.place(line0 + i, first) : -1;
        copies->copy_word(&words[i * MMA_PITCH + w], static_cast<const uint32_t *>(of.data) + (place < 0 ? 0 : place),
                          place >= 0);
        continue;
      }
      words[i * MMA_PITCH + w] = Unit::word([&](int e) {
        const int64_t place = line0 + i < lines && k + e < depth ? places.place(line0 + i, e ? second : first) : -1;
        return place < 0 ? 0.0f : element<float>::load(Unit::DTYPE, of.data, place);
      });
    }
  }

  /* Finds the vectors of the part at k0. */
  __device__ inline void locate(int64_t k0) {
    in_memory = in_part = 0;
    UNROLL for (int i = 0; i < VECTORS; i++) {
      const int64_t line = line_of(i), k = k0 + k_of(i);
      from[i] = reinterpret_cast<uint64_t>(of.data); /* any address, for zeros */
      if (line >= lines || k >= depth) continue;
      if (line + (IN_ROWS ? static_cast<int>(VECTOR) : 1) > lines ||
          k + (IN_ROWS ? 1 : static_cast<int>(VECTOR)) > depth) {
        in_part |= 1u << i;
        continue;
      }
      const int64_t at = places.place(line, places.step(k));
      if (at < 0) continue;
      in_memory |= 1u << i;
      from[i] += static_cast<uint64_t>(at) * (4 / Unit::IN_WORD);
    }
  }

  /* Elements of a vector of which only some are in the operand. */
  __device__ inline void stage_part(uint32_t *to, int i, int64_t k0) const {
    const int64_t line = line_of(i), k = k0 + k_of(i);
    ROLLED for (int w = 0; w < 4; w++) to[w] = Unit::word([&](int e) {
      const int n = w * Unit::IN_WORD + e;
      return element_at(line + (IN_ROWS ? n : 0), k + (IN_ROWS ? 0 : n));
    });
  }

  /* Part number `chunk` of the depth. */
  __device__ inline void stage(uint32_t *words, int32_t chunk, async_copies *copies) {
    if (!vectors) {
      stage_elements(words, static_cast<int64_t>(chunk) * CHUNK, copies);
      return;
    }
    if (left == 0 || chunk == cut) {
      locate(static_cast<int64_t>(chunk) * CHUNK);
      left = chunks;
    }
    left--;
    uint32_t *const to = words + row_of(0) * PITCH + in_row() * 4;
    UNROLL for (int i = 0; i < VECTORS; i++) {
      copies->copy(to + i * (THREADS / ROW_VECTORS * PITCH), reinterpret_cast<const uint32_t *>(from[i]),
                   in_memory >> i & 1);
      from[i] += static_cast<uint64_t>(stride);
    }
    if (in_part == 0) return;
    copies->commit();
    copies->wait<0>(); /* the zeros have come */
    UNROLL for (int i = 0; i < VECTORS; i++) if (in_part >> i & 1)
        stage_part(to + i * (THREADS / ROW_VECTORS * PITCH), i, static_cast<int64_t>(chunk) * CHUNK);
  }

  /* The place, in words of a part, where the lane reads fragments of the lines from `first` on: A of 16 lines, or B of
   * twice 8. */
  template <bool IS_B> static __device__ inline int lane_place(int first) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    /* of matrix lane / 8: its words of the depth, its lines */
    const int far = IS_B ? lane / 8 % 2 : lane / 16, next = IS_B ? lane / 16 : lane / 8 % 2;
    if (!IN_ROWS) return (first + next * 8 + lane % 8) * MMA_PITCH + far * 4;
    if (Unit::IN_WORD == 2) return (far * 8 + lane % 8) * PITCH + (first + next * 8) / 2;
    return lane % 4 * PITCH + first + lane / 4;
  }
  /* Fragment (ptx.cuh) number `fragment` from there on, of one step of the depth. Words are rounded here, because
   * copies do not pass a register. */
  template <bool IS_B>
  static __device__ inline void read(uint32_t (&to)[4], const uint32_t *from, int number, int step) {
    if constexpr (!IN_ROWS) {
      load_rows(to, from + number * 16 * MMA_PITCH + step * MMA_WORDS);
    } else if constexpr (Unit::IN_WORD == 2) {
      load_transposed(to, from + step * 2 * MMA_WORDS * PITCH + number * 8);
    } else {
      UNROLL for (int i = 0; i < 4; i++) to[i] =
          from[(step * MMA_WORDS + (IS_B ? i % 2 : i / 2) * 4) * PITCH + number * 16 + (IS_B ? i / 2 : i % 2) * 8];
    }
    UNROLL for (int i = 0; i < 4; i++) to[i] = Unit::of_memory(to[i]);
  }
};

/* The sums of a tile. B_IN_ROWS: of mma_loader. */
template <class Unit, class Tile, bool B_IN_ROWS, int M, int N, class A, class B>
static __device__ inline void add_parts(float (&sums)[M][N][4], uint32_t *words, int64_t first_row,
                                        int64_t first_column, int64_t rows, int64_t depth, int64_t columns,
                                        const product_operand &a, const A &places_a, const product_operand &b,
                                        const B &places_b) {
  typedef mma_loader<Unit, Tile::ROWS, Tile::THREADS, false, A> loader_a;
  typedef mma_loader<Unit, Tile::COLUMNS, Tile::THREADS, B_IN_ROWS, B> loader_b;
  enum {
    PART_A = Tile::ROWS * MMA_PITCH, /* words of an operand's part */
    PARTS = PART_A + Tile::COLUMNS * MMA_PITCH,
    STAGES = CUDA_MMA_STAGES
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int place_a = loader_a::template lane_place<false>(warp % Tile::DOWN * (Tile::ROWS / Tile::DOWN)),
            place_b = PART_A + loader_b::template lane_place<true>(warp / Tile::DOWN * (Tile::COLUMNS / Tile::ACROSS));
  const int32_t chunks = static_cast<int32_t>((depth + loader_a::CHUNK - 1) / loader_a::CHUNK);
  async_copies copies;
  loader_a from_a(a, places_a, first_row, rows, depth);
  loader_b from_b(b, places_b, first_column, columns, depth);
  const auto stage = [&](uint32_t *to, int32_t chunk) {
    if (chunk < chunks) {
      from_a.stage(to, chunk, &copies);
      from_b.stage(to + PART_A, chunk, &copies);
    }
    copies.commit();
  };
  uint32_t *at = words, *last = words + (STAGES - 1) * PARTS;
  ROLLED for (int32_t i = 0; i < STAGES - 1; i++) stage(words + i * PARTS, i);
  ROLLED for (int32_t chunk = 0; chunk < chunks; chunk++) {
    copies.wait<STAGES - 2>();
    __syncthreads(); /* the part has come, and the one before it, whose place is filled next, has been multiplied */
    stage(last, chunk + STAGES - 1);
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      uint32_t left[M][4], right[N / 2][4];
      UNROLL for (int m = 0; m < M; m++) loader_a::template read<false>(left[m], at + place_a, m, step);
      UNROLL for (int n = 0; n < N / 2; n++) loader_b::template read<true>(right[n], at + place_b, n, step);
      UNROLL for (int n = 0; n < N; n++) {
        const uint32_t of_column[2] = {right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]};
        UNROLL for (int m = 0; m < M; m++) Unit::multiply(sums[m][n], left[m], of_column);
      }
    }
    last = at;
    at = at == words + (STAGES - 1) * PARTS ? words : at + PARTS;
  }
  copies.wait<0>();
  __syncthreads();
}

/* Parameters: product_tile's, but store(row, column, n, sums) takes n <= 4 * IN_WORD neighbours of a row, from a
 * multiple of as many on. rows_side_by_side: neighbouring rows of a column of the result are neighbours in memory; then
 * n is 1.
 */
template <class Unit, class Tile, class A, class B, class S>
static __device__ inline void mma_tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                       int64_t columns, const product_operand &a, const A &places_a,
                                       const product_operand &b, const B &places_b, bool rows_side_by_side, S store) {
  enum {
    ROWS = Tile::ROWS,
    COLUMNS = Tile::COLUMNS,
    THREADS = Tile::THREADS,
    M = ROWS / Tile::DOWN / MMA_ROWS, /* fragments of a warp */
    N = COLUMNS / Tile::ACROSS / MMA_COLUMNS,
    SUM_PITCH = COLUMNS + 4,
    VECTOR = 4 * Unit::IN_WORD
  };
  static_assert(ROWS * SUM_PITCH * 4 <= (ROWS + COLUMNS) * CUDA_MMA_LINE_BYTES, "the parts' memory holds the sums");
  SHARED_DYNAMIC(uint4, vectors_of_parts);
  uint32_t *const words = reinterpret_cast<uint32_t *>(vectors_of_parts);
  float sums[M][N][4] = {};
  if (b.vectors && b.by_line)
    add_parts<Unit, Tile, true>(sums, words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  else
    add_parts<Unit, Tile, false>(sums, words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  /* through shared memory, so that neighbouring threads store neighbours, and few registers are live at a call */
  const int t = static_cast<int>(threadIdx.x), row = t / 32 % Tile::DOWN * (ROWS / Tile::DOWN),
            column = t / 32 / Tile::DOWN * (COLUMNS / Tile::ACROSS);
  UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++)
      words[(row + m * MMA_ROWS + t % 32 / 4 + i / 2 * 8) * SUM_PITCH + column + n * MMA_COLUMNS + t % 4 * 2 + i % 2] =
          __float_as_uint(sums[m][n][i]);
  __syncthreads();
  if (rows_side_by_side) {
    ROLLED for (int j = t; j < ROWS * COLUMNS; j += THREADS) {
      const int y = j % ROWS, x = j / ROWS;
      const float sum = __uint_as_float(words[y * SUM_PITCH + x]);
      if (first_row + y < rows && first_column + x < columns) store(first_row + y, first_column + x, 1, &sum);
    }
    return;
  }
  UNROLL_BY(2) for (int i = 0; i < ROWS * COLUMNS / VECTOR / THREADS; i++) {
    const int j = t + i * THREADS, y = j / (COLUMNS / VECTOR), x = j % (COLUMNS / VECTOR) * VECTOR;
    if (first_row + y >= rows || first_column + x >= columns) continue;
    float of_row[VECTOR];
    UNROLL for (int e = 0; e < VECTOR; e++) of_row[e] = __uint_as_float(words[y * SUM_PITCH + x + e]);
    const int64_t n = columns - first_column - x;
    store(first_row + y, first_column + x, n < VECTOR ? static_cast<int>(n) : static_cast<int>(VECTOR), of_row);
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
  static __device__ inline int64_t vector_size(int dtype) { return sizeof(T) == 4 && dtype == REED_F32 ? 4 : 0; }
  template <class A, class B, class S>
  static __device__ inline void tile(int64_t first_row, int64_t first_column, int64_t rows, int64_t depth,
                                     int64_t columns, const product_operand &a, const A &places_a,
                                     const product_operand &b, const B &places_b, bool, S store) {
    product_tile<T>(first_row, first_column, rows, depth, columns, a, places_a, b, places_b,
                    [&](int64_t i, int64_t j, T sum) { store(i, j, 1, &sum); });
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
template <class Core>
static __device__ inline void store_some(int dtype, void *data, int64_t at, int n, bool vectors,
                                         const typename Core::T (&from)[Core::VECTOR]) {
  if (Core::VECTOR > 1 && vectors && n == Core::VECTOR) {
    Core::store(data, at, from);
    return;
  }
  UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n)
      element<typename Core::T>::store(Core::dtype(dtype), data, at + i, from[i]);
}

#endif
