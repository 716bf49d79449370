/* The core of matrix products on tensor cores (mma.sync, ptx.cuh). A block computes a tile of 64 x 64 elements with
 * four warps, or of 128 x 64; each warp has a part of it in the fragments of its sums. Tiles of the operands come into
 * shared memory by copies that run ahead: while one part is multiplied, the next ones are on their way. Fragments are
 * read one step of the depth ahead of their use. Sums are f32, and every element's products are added in the order of
 * k, so that the bits are the same for both kinds of tile.
 */
#ifndef DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_
#define DEVICE_CUDA_KERNELS_PRODUCT_MMA_CUH_

#include "device/cuda/kernels/product.cuh"
#include "device/cuda/kernels/units.cuh"

enum {
  MMA_STEPS = CUDA_MMA_LINE_WORDS / MMA_WORDS, /* along the depth, in a part */
  MMA_DEPTH = MMA_STEPS * MMA_WORDS            /* words */
};
static_assert(MMA_STEPS % 2 == 0, "fragments have two places, which the steps of a part take by turns");

/* A tile: its rows and columns, the warps below and beside each other, the parts of its operands in shared memory. */
struct small_tile {
  enum { ROWS = TILE, COLUMNS = TILE, DOWN = 2, ACROSS = 2, THREADS = 32 * DOWN * ACROSS, STAGES = CUDA_SMALL_STAGES };
};
struct tall_tile {
  enum {
    ROWS = 2 * TILE,
    COLUMNS = TILE,
    DOWN = 2,
    ACROSS = 2,
    THREADS = 32 * DOWN * ACROSS,
    STAGES = CUDA_TALL_STAGES
  };
};

/* An operand's way into shared memory: LINES lines of MMA_DEPTH words at a time. IN_ROWS: its vectors run along the
 * lines, and it lies there as in memory, a row of LINES lines for each step of the depth; else line by line. The
 * vectors of a row are permuted (`place_in`), so that the lanes of a warp write and read different banks. */
template <class Unit, int LINES, int THREADS, bool IN_ROWS, class Places> struct mma_loader {
  enum {
    CHUNK = MMA_DEPTH * Unit::IN_WORD, /* elements along the depth */
    VECTOR = 4 * Unit::IN_WORD,
    VECTORS = LINES * MMA_DEPTH / 4 / THREADS, /* of a thread */
    ROW_VECTORS = IN_ROWS ? LINES / VECTOR : MMA_DEPTH / 4,
    ROW_WORDS = ROW_VECTORS * 4,
    WORDS_IN_ROWS = IN_ROWS && Unit::IN_WORD == 1 /* its fragments are read by vectors of columns */
  };
  static_assert(THREADS % (8 * ROW_VECTORS) == 0, "a thread's vectors are below each other, in rows permuted alike");

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
  /* The place, in words, of a row's vector. */
  static __device__ inline int place_in(int row, int vector) {
    return row * ROW_WORDS + (vector ^ (WORDS_IN_ROWS ? row % 4 * 2 : row % 8)) * 4;
  }

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
      const int i = t / MMA_DEPTH + j * (THREADS / MMA_DEPTH), at = place_in(i, w / 4) + w % 4;
      if constexpr (Unit::IN_WORD == 1) { /* a word as it is in memory */
        const int64_t place = line0 + i < lines && k < depth ? places.place(line0 + i, first) : -1;
        copies->copy_word(&words[at], static_cast<const uint32_t *>(of.data) + (place < 0 ? 0 : place), place >= 0);
        continue;
      }
      words[at] = Unit::word([&](int e) {
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
    uint32_t *const to = words + place_in(row_of(0), in_row());
    UNROLL for (int i = 0; i < VECTORS; i++) {
      copies->copy(to + i * (THREADS / ROW_VECTORS * ROW_WORDS), reinterpret_cast<const uint32_t *>(from[i]),
                   in_memory >> i & 1);
      from[i] += static_cast<uint64_t>(stride);
    }
    if (in_part == 0) return;
    copies->commit();
    copies->wait<0>(); /* the zeros have come */
    UNROLL for (int i = 0; i < VECTORS; i++) if (in_part >> i & 1)
        stage_part(to + i * (THREADS / ROW_VECTORS * ROW_WORDS), i, static_cast<int64_t>(chunk) * CHUNK);
  }

  /* The place, in words of a part, where the lane reads fragments of the first step of the lines from `first` on: A of
   * 16 lines, or B of twice 8. */
  template <bool IS_B> static __device__ inline int lane_place(int first) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (WORDS_IN_ROWS) return place_in(lane % 4, first / 4 + lane / 4);
    /* of matrix lane / 8: its words of the depth, its lines */
    const int far = IS_B ? lane / 8 % 2 : lane / 16, next = IS_B ? lane / 16 : lane / 8 % 2;
    return IN_ROWS ? place_in(far * 8 + lane % 8, first / 8 + next) : place_in(first + next * 8 + lane % 8, far);
  }
  /* From there on fragment number `number` (ptx.cuh) of a step of the depth: an A, or the B of two neighbouring column
   * parts. Words are rounded here, because copies do not pass a register. */
  static __device__ inline void read(uint32_t (&to)[4], const uint32_t *words, int place, int number, int step) {
    static_assert(!WORDS_IN_ROWS, "read_columns");
    if constexpr (!IN_ROWS) load_rows(to, words + number * 16 * ROW_WORDS + (place ^ step * MMA_WORDS));
    else load_transposed(to, words + step * 2 * MMA_WORDS * ROW_WORDS + (place ^ number * 8));
    UNROLL for (int i = 0; i < 4; i++) to[i] = Unit::of_memory(to[i]);
  }
  /* Of WORDS_IN_ROWS the fragments B of N column parts at once: column q of part n is column q N + n of the warp's. */
  template <int N>
  static __device__ inline void read_columns(uint32_t (&to)[N][2], const uint32_t *words, int place, int step) {
    static_assert(N == 4, "a vector has the columns of a lane");
    UNROLL for (int i = 0; i < 2; i++) {
      const uint4 four = *reinterpret_cast<const uint4 *>(words + (step * MMA_WORDS + i * 4) * ROW_WORDS + place);
      const uint32_t of_parts[4] = {four.x, four.y, four.z, four.w};
      UNROLL for (int n = 0; n < N; n++) to[n][i] = Unit::of_memory(of_parts[n]);
    }
  }
};

/* The fragments of a warp for one step of the depth. */
template <int M, int N> struct mma_fragments { uint32_t a[M][4], b[N][2]; };

enum { MMA_SUM_PITCH = TILE + 4 /* so that neighbouring rows lie in different banks; vectors stay aligned */ };

/* The sums of a tile, put into shared memory: rows of MMA_SUM_PITCH words. B_IN_ROWS: of mma_loader. */
template <class Unit, class Tile, bool B_IN_ROWS, class A, class B>
static __device__ inline void add_parts(uint32_t *words, int64_t first_row, int64_t first_column, int64_t rows,
                                        int64_t depth, int64_t columns, const product_operand &a, const A &places_a,
                                        const product_operand &b, const B &places_b) {
  typedef mma_loader<Unit, Tile::ROWS, Tile::THREADS, false, A> loader_a;
  typedef mma_loader<Unit, Tile::COLUMNS, Tile::THREADS, B_IN_ROWS, B> loader_b;
  enum {
    WARP_ROWS = Tile::ROWS / Tile::DOWN,
    WARP_COLUMNS = Tile::COLUMNS / Tile::ACROSS,
    M = WARP_ROWS / MMA_ROWS, /* fragments of a warp */
    N = WARP_COLUMNS / MMA_COLUMNS,
    PART_A = Tile::ROWS * MMA_DEPTH, /* words of an operand's part */
    PARTS = PART_A + Tile::COLUMNS * MMA_DEPTH,
    STAGES = Tile::STAGES
  };
  static_assert(Tile::ROWS * MMA_SUM_PITCH <= STAGES * PARTS, "the parts' memory holds the sums");
  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp % Tile::DOWN * WARP_ROWS,
            column = warp / Tile::DOWN * WARP_COLUMNS;
  const int place_a = loader_a::template lane_place<false>(row), place_b = loader_b::template lane_place<true>(column);
  const int32_t chunks = static_cast<int32_t>((depth + loader_a::CHUNK - 1) / loader_a::CHUNK);
  float sums[M][N][4] = {};
  mma_fragments<M, N> fragments[2];
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
  const auto read = [&](mma_fragments<M, N> &to, const uint32_t *part, int step) {
    UNROLL for (int m = 0; m < M; m++) loader_a::read(to.a[m], part, place_a, m, step);
    if constexpr (loader_b::WORDS_IN_ROWS) {
      loader_b::read_columns(to.b, part + PART_A, place_b, step);
    } else {
      UNROLL for (int n = 0; n < N; n += 2) {
        uint32_t two[4];
        loader_b::read(two, part + PART_A, place_b, n / 2, step);
        UNROLL for (int i = 0; i < 4; i++) to.b[n + i / 2][i % 2] = two[i];
      }
    }
  };
  uint32_t *at = words, *last = words + (STAGES - 1) * PARTS;
  ROLLED for (int32_t i = 0; i < STAGES - 1; i++) stage(words + i * PARTS, i);
  copies.wait<STAGES - 2>();
  __syncthreads();
  read(fragments[0], at, 0);
  ROLLED for (int32_t chunk = 0; chunk < chunks; chunk++) {
    UNROLL for (int step = 0; step < MMA_STEPS; step++) {
      if (step == 0) stage(last, chunk + STAGES - 1);
      if (step == MMA_STEPS - 1) {
        copies.wait<STAGES - 2>();
        __syncthreads(); /* the next part has come, and this one, whose place is filled next, has been read */
        last = at;
        at = at == words + (STAGES - 1) * PARTS ? words : at + PARTS;
      }
      read(fragments[(step + 1) % 2], at, (step + 1) % MMA_STEPS);
      UNROLL for (int n = 0; n < N; n++) UNROLL for (int m = 0; m < M; m++)
          Unit::multiply(sums[m][n], fragments[step % 2].a[m], fragments[step % 2].b[n]);
    }
  }
  copies.wait<0>();
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % 32);
  UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++) {
    const int of_part = lane % 4 * 2 + i % 2;
    words[(row + m * MMA_ROWS + lane / 4 + i / 2 * 8) * MMA_SUM_PITCH + column +
          (loader_b::WORDS_IN_ROWS ? of_part * N + n : n * MMA_COLUMNS + of_part)] = __float_as_uint(sums[m][n][i]);
  }
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
  enum { ROWS = Tile::ROWS, COLUMNS = Tile::COLUMNS, THREADS = Tile::THREADS, VECTOR = 4 * Unit::IN_WORD };
  SHARED_DYNAMIC(uint4, vectors_of_parts);
  uint32_t *const words = reinterpret_cast<uint32_t *>(vectors_of_parts);
  /* The sums go through shared memory, so that neighbouring threads store neighbours, and few registers are live at a
   * call. */
  if (b.vectors && b.by_line)
    add_parts<Unit, Tile, true>(words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  else add_parts<Unit, Tile, false>(words, first_row, first_column, rows, depth, columns, a, places_a, b, places_b);
  const int t = static_cast<int>(threadIdx.x);
  if (rows_side_by_side) {
    ROLLED for (int j = t; j < ROWS * COLUMNS; j += THREADS) {
      const int y = j % ROWS, x = j / ROWS;
      const float sum = __uint_as_float(words[y * MMA_SUM_PITCH + x]);
      if (first_row + y < rows && first_column + x < columns) store(first_row + y, first_column + x, 1, &sum);
    }
    return;
  }
  UNROLL_BY(2) for (int i = 0; i < ROWS * COLUMNS / VECTOR / THREADS; i++) {
    const int j = t + i * THREADS, y = j / (COLUMNS / VECTOR), x = j % (COLUMNS / VECTOR) * VECTOR;
    if (first_row + y >= rows || first_column + x >= columns) continue;
    float of_row[VECTOR];
    UNROLL for (int e = 0; e < VECTOR; e++) of_row[e] = __uint_as_float(words[y * MMA_SUM_PITCH + x + e]);
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
