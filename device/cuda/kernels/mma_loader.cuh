/* The tiles of products on tensor cores, and their operands' way into shared memory (product_mma.cuh). */
#ifndef DEVICE_CUDA_KERNELS_MMA_LOADER_CUH_
#define DEVICE_CUDA_KERNELS_MMA_LOADER_CUH_

#include "device/cuda/kernels/product.cuh"
#include "device/cuda/kernels/units.cuh"

enum {
  MMA_STEPS = CUDA_MMA_LINE_WORDS / MMA_WORDS, /* along the depth, in a part */
  MMA_DEPTH = MMA_STEPS * MMA_WORDS            /* words */
};
static_assert(static_cast<int>(MMA_DEPTH) == static_cast<int>(WGMMA_LINE) &&
                  static_cast<int>(CUDA_MMA_ALIGNMENT) == static_cast<int>(WGMMA_ALIGNMENT),
              "lines as wgmma reads them");

/* A tile: its rows and columns, the warps below and beside each other. */
struct small_tile {
  enum { ROWS = TILE, COLUMNS = TILE, DOWN = 2, ACROSS = 2, THREADS = 32 * DOWN * ACROSS };
};
struct tall_tile {
  enum { ROWS = 2 * TILE, COLUMNS = TILE, DOWN = 2, ACROSS = 2, THREADS = 32 * DOWN * ACROSS };
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
    ROWS_IN_MEMORY = IN_ROWS,
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

  /* Finds vector i of the part, whose first k is `k`. */
  template <class Step> __device__ inline void locate_one(int i, int64_t k, const Step &step) {
    const int64_t line = line_of(i);
    if (line >= lines || k >= depth) return;
    if (line + (IN_ROWS ? static_cast<int>(VECTOR) : 1) > lines ||
        k + (IN_ROWS ? 1 : static_cast<int>(VECTOR)) > depth) {
      in_part |= 1u << i;
      return;
    }
    const int64_t at = places.place(line, step);
    if (at < 0) return;
    in_memory |= 1u << i;
    from[i] += static_cast<uint64_t>(at) * (4 / Unit::IN_WORD);
  }
  /* Finds the vectors of the part at k0. */
  __device__ inline void locate(int64_t k0) {
    in_memory = in_part = 0;
    UNROLL for (int i = 0; i < VECTORS; i++) from[i] = reinterpret_cast<uint64_t>(of.data); /* any address, for zeros */
    if constexpr (IN_ROWS) {
      UNROLL for (int i = 0; i < VECTORS; i++) locate_one(i, k0 + k_of(i), places.step(k0 + k_of(i)));
    } else { /* the thread's vectors have one k */
      const int64_t k = k0 + k_of(0);
      const auto step = places.step(k < depth ? k : depth - 1);
      UNROLL for (int i = 0; i < VECTORS; i++) locate_one(i, k, step);
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
  /* Of WORDS_IN_ROWS the fragment A of 16 lines: row g of it is line 2 g of the warp's, row g + 8 line 2 g + 1. */
  static __device__ inline int line_place(int first) {
    const int lane = static_cast<int>(threadIdx.x % 32), line = first + lane / 4 * 2;
    return place_in(lane % 4, line / 4) + line % 4;
  }
  static __device__ inline void read_lines(uint32_t (&to)[4], const uint32_t *words, int place, int step) {
    UNROLL for (int i = 0; i < 2; i++) {
      const uint2 two = *reinterpret_cast<const uint2 *>(words + (step * MMA_WORDS + i * 4) * ROW_WORDS + place);
      to[2 * i] = Unit::of_memory(two.x);
      to[2 * i + 1] = Unit::of_memory(two.y);
    }
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

#endif
