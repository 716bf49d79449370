/* Rows of queries, keys and values on their way to the shared memory of a block of attention on tensor cores. Rows
 * there are WORDS words and 4 more, so that the lanes of a warp read different banks; WORDS 0: as many as the args say.
 */
#ifndef DEVICE_CUDA_KERNELS_ATTENTION_ROWS_CUH_
#define DEVICE_CUDA_KERNELS_ATTENTION_ROWS_CUH_

#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/units.cuh"

enum { THREADS = 128 };

/* Calls f(row, word) for each vector of 4 words that belongs to the thread, of ROWS rows in shared memory. */
template <int WORDS, int ROWS, class F> static __device__ inline void each_vector(int words, F f) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (WORDS != 0) {
    enum { IN_ROW = WORDS / 4, AT_ONCE = THREADS / IN_ROW };
    static_assert(ROWS % AT_ONCE == 0 || ROWS < AT_ONCE, "whole rounds");
    UNROLL for (int i = 0; i < (ROWS + AT_ONCE - 1) / AT_ONCE; i++) {
      const int row = thread / IN_ROW + i * AT_ONCE;
      if (ROWS >= AT_ONCE || row < ROWS) f(row, thread % IN_ROW * 4);
    }
  } else {
    const int in_row = words / 4, rows_on = THREADS / in_row, on = THREADS % in_row;
    int row = thread / in_row, w = thread % in_row;
    UNROLL_BY(2) while (row < ROWS) {
      f(row, w * 4);
      row += rows_on;
      w += on;
      if (w < in_row) continue;
      w -= in_row;
      row++;
    }
  }
}

/* Rows in memory, of which the first `split` are those of the past. Distances are bytes. */
struct row_source {
  const char *past, *now;
  int64_t past_row, now_row;
  int split, size; /* size: elements of a row */
  bool vectors;
  __device__ inline const char *at(int j) const {
    return j < split ? past + j * past_row : now + (j - split) * now_row;
  }
};

/* `size` elements of each row, from column `column` on. */
static __device__ inline row_source source_of(const attention_args &a, const attention_tile &t,
                                              const attention_operand &now, const attention_operand &past,
                                              int64_t column, int64_t whole_size, int size, int bytes) {
  row_source s;
  s.past = static_cast<const char *>(past.data) + (t.batch * past.batch + t.kv_head * past.head + column) * bytes;
  s.now = static_cast<const char *>(now.data) + (t.batch * now.batch + t.kv_head * now.head + column) * bytes;
  s.past_row = past.row * bytes;
  s.now_row = now.row * bytes;
  s.split = static_cast<int>(a.past);
  s.size = size;
  s.vectors = in_vectors(now.data, (now.batch | now.head | now.row | whole_size) * bytes) &&
              in_vectors(past.data, (past.batch | past.head | past.row) * bytes);
  return s;
}

/* Elements of rows in shared memory, word by word: from(row) is the address of a row, NULL: zeros. */
template <class Unit, int ROWS, class F>
static __device__ inline void stage_elements(uint32_t *to, int pitch, int size, F from) {
  const int words = pitch - 4;
  ROLLED for (int i = static_cast<int>(threadIdx.x); i < ROWS * words; i += THREADS) {
    const int row = i / words, w = i % words;
    const char *const data = from(row);
    to[row * pitch + w] = Unit::word([&](int e) {
      const int d = w * Unit::IN_WORD + e;
      return data && d < size ? element<float>::load(Unit::DTYPE, data, d) : 0.0f;
    });
  }
}

/* Copies a tile of keys or values, from key j0 on, into shared memory. Elements behind the row's end, and rows from key
 * `end` on, are zeros. */
template <class Unit, int WORDS, int ROWS>
static __device__ inline void stage(async_copies *copies, uint32_t *to, int pitch, const row_source &source, int j0,
                                    int end) {
  if (!source.vectors) {
    stage_elements<Unit, ROWS>(to, pitch, source.size,
                               [&](int row) { return j0 + row < end ? source.at(j0 + row) : nullptr; });
    return;
  }
  const int rows = end - j0 < ROWS ? end - j0 : static_cast<int>(ROWS);
  const auto copy = [&](int row, int w, const char *from) {
    copies->copy(to + row * pitch + w, reinterpret_cast<const uint32_t *>(from),
                 row < rows && w * Unit::IN_WORD < source.size);
  };
  each_vector<WORDS, ROWS>(pitch - 4, [&](int row, int w) {
    const char *const from = row < rows ? source.at(j0 + row) : source.now;
    copy(row, w, from + w * 4);
  });
}

/* The way of the thread's vectors through tiles of whole rows of WORDS words, `distance` bytes apart. */
template <int WORDS, int ROWS> struct whole_rows {
  enum { IN_ROW = WORDS / 4, AT_ONCE = THREADS / IN_ROW };
  static_assert(ROWS % AT_ONCE == 0, "whole rounds");
  const char *from;
  __device__ inline void begin(const char *first, int64_t distance) {
    const int thread = static_cast<int>(threadIdx.x);
    from = first + thread / IN_ROW * distance + thread % IN_ROW * 16;
  }
  __device__ inline void stage(async_copies *copies, uint32_t *to, int64_t distance) {
    const int thread = static_cast<int>(threadIdx.x);
    uint32_t *const first = to + thread / IN_ROW * (WORDS + 4) + thread % IN_ROW * 4;
    UNROLL for (int i = 0; i < ROWS / AT_ONCE; i++, from += AT_ONCE * distance)
        copies->copy(first + i * AT_ONCE * (WORDS + 4), reinterpret_cast<const uint32_t *>(from));
  }
};
template <int ROWS> struct whole_rows<0, ROWS> { /* none */
  __device__ inline void begin(const char *, int64_t) {}
  __device__ inline void stage(async_copies *, uint32_t *, int64_t) {}
};

/* Rounds the words that the thread has copied, because copies do not pass a register. */
template <class Unit, int WORDS, int ROWS> static __device__ inline void round_own(uint32_t *to, int pitch) {
  if constexpr (Unit::IN_WORD == 1)
    each_vector<WORDS, ROWS>(pitch - 4, [&](int row, int w) {
      uint4 *const four = reinterpret_cast<uint4 *>(to + row * pitch + w);
      *four = make_uint4(Unit::of_memory(four->x), Unit::of_memory(four->y), Unit::of_memory(four->z),
                         Unit::of_memory(four->w));
    });
}

#endif
