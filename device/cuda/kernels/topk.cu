/* TopK. A short row is sorted by a block; a long one is searched for its first k elements, which are sorted. Few long
 * rows, and large k, are spread over blocks.
 * Elements become unsigned keys whose ascending order is the wanted one, as on the host (ops/cpu/reduce/topk.c): NaN is
 * larger than every number, and of equal elements the lower index comes first. A radix select of 8 bits a pass finds
 * the k-th key; the smaller keys and the first of the equal ones are collected and sorted by key and index. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/indices.cuh"
#include "device/cuda/kernels/merge.cuh"
#include "device/cuda/kernels/sort.cuh"
#include "device/cuda/kernels/values.cuh"

enum { DIGIT_BITS = 8, DIGITS = TOPK_DIGITS, LOADS = 8 }; /* LOADS: of a thread at once */

struct topk_row {
  int64_t extent, k, from, to; /* from: its first element; to: its first result */
  int64_t padded;              /* a power of two, at least the number of keys to sort */
};

/* The row of that number, for the true count. False: it has no results. `whole`: all elements are sorted, not the first
 * k only. */
static __device__ inline bool find_row(const topk_args &a, uint32_t number, bool whole, topk_row *row) {
  const int64_t rows = a.counts_extent ? a.rows : true_number(a.counted, a.rows);
  const uint32_t inner = static_cast<uint32_t>(a.inner); /* a factor of the number of rows */
  const int64_t outer = inner <= 1 ? number : number / inner, at = inner <= 1 ? 0 : number % inner;
  row->extent = a.counts_extent ? true_count(a.counted) : a.extent;
  row->k = row->extent < a.k ? row->extent : a.k;
  row->from = outer * row->extent * a.inner + at;
  row->to = outer * row->k * a.inner + at;
  row->padded = padded_to_power(whole ? row->extent : row->k);
  return number < rows && row->k > 0;
}

/* The first thread of the launch writes the output's count. */
static __device__ inline void report(const topk_args &a, const topk_row &row) {
  if (a.reported && blockIdx.x == 0 && threadIdx.x == 0) *a.reported = row.k;
}

static __device__ inline uint64_t key_of(const topk_args &a, int64_t at) {
  const uint64_t key = value_key(a.dtype, a.bits, value_load(a.dtype, a.x, at));
  return a.largest ? ~key & (a.bits == 64 ? ~uint64_t(0) : 0xffffffffu) : key;
}

/* The same of the bits of an f32. */
static __device__ inline uint32_t key_of_f32(const topk_args &a, uint32_t bits) {
  const uint32_t sign = 0x80000000u, size = bits & ~sign;
  const uint32_t key = size > 0x7f800000u ? ~0u : !size ? sign : bits & sign ? ~bits : bits | sign;
  return a.largest ? ~key : key;
}

/* Calls visit(i, key) for elements begin + t, begin + t + threads, ... of a row, before `end`; t: the thread. A thread
 * waits for several loads at once. */
template <class F>
static __device__ inline void visit_keys(const topk_args &a, const topk_row &row, int64_t begin, int64_t end,
                                         const F &visit) {
  const int64_t threads = blockDim.x;
  int64_t i = begin + threadIdx.x;
  if (a.dtype != REED_F32) {
    ROLLED for (; i < end; i += threads) visit(i, key_of(a, row.from + i * a.inner));
    return;
  }
  const uint32_t *const x = static_cast<const uint32_t *>(a.x) + row.from;
  ROLLED for (; i < end; i += LOADS * threads) {
    uint32_t bits[LOADS];
    UNROLL for (int e = 0; e < LOADS; e++) bits[e] = i + e * threads < end ? x[(i + e * threads) * a.inner] : 0;
    UNROLL for (int e = 0; e < LOADS; e++) if (i + e * threads < end)
        visit(i + e * threads, uint64_t(key_of_f32(a, bits[e])));
  }
}

/* ---- keys that are sorted: of 64 bits with their places, or (a.packed) key and place in 32 bits each ---- */

static __device__ inline void put_key(const topk_args &a, void *keys, int64_t at, uint64_t key, int64_t place) {
  const uint64_t number = static_cast<uint64_t>(place);
  if (a.packed) static_cast<uint64_t *>(keys)[at] = key << 32 | (number & 0xffffffffu);
  else static_cast<key_and_place *>(keys)[at] = {key, number};
}
/* A key that comes after all others. */
static __device__ inline void put_last(const topk_args &a, void *keys, int64_t at) {
  put_key(a, keys, at, ~uint64_t(0), -1);
}
static __device__ inline int64_t place_of(uint64_t key) { return static_cast<int64_t>(key & 0xffffffffu); }
static __device__ inline int64_t place_of(const key_and_place &key) { return static_cast<int64_t>(key.place); }

/* The k-th key in ascending order; *out_ties: how many equal to it are among the first k; *out_equal: how many there
 * are. Rows of fewer than 2^32 elements. */
static __device__ inline uint64_t find_last(const topk_args &a, const topk_row &row, uint32_t *out_ties,
                                            uint32_t *out_equal) {
  SHARED_ARRAY(uint32_t, counts, [DIGITS]);
  SHARED_VALUE(uint32_t, chosen);
  SHARED_VALUE(uint32_t, before_chosen);
  const int t = static_cast<int>(threadIdx.x);
  uint32_t left = static_cast<uint32_t>(row.k), all;
  uint64_t prefix = 0, known = 0;
  *out_equal = 0;
  for (int shift = a.bits - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    if (t < DIGITS) counts[t] = 0;
    __syncthreads();
    visit_keys(a, row, 0, row.extent, [&](int64_t, uint64_t key) {
      if ((key & known) == prefix) atomicAdd(&counts[key >> shift & (DIGITS - 1)], 1u);
    });
    __syncthreads();
    const uint32_t mine = t < DIGITS ? counts[t] : 0, before = block_sum(mine, &all);
    if (mine && before < left && left <= before + mine) {
      chosen = static_cast<uint32_t>(t);
      before_chosen = before;
    }
    __syncthreads();
    left -= before_chosen;
    prefix |= static_cast<uint64_t>(chosen) << shift;
    known |= static_cast<uint64_t>(DIGITS - 1) << shift;
    *out_equal = counts[chosen];
    __syncthreads(); /* the counts have been read */
  }
  *out_ties = left;
  return prefix;
}

/* Writes the elements of the first k of a row's sorted keys. */
template <class K>
static __device__ inline void write_sorted(const topk_args &a, const topk_row &row, const K *keys, int size) {
  for (int i = static_cast<int>(threadIdx.x); i < row.k; i += static_cast<int>(blockDim.x)) {
    const int64_t place = place_of(keys[slot_of(i, size)]), to = row.to + i * a.inner;
    copy_element(a.size, a.y, to, a.x, row.from + place * a.inner);
    if (a.indices) a.indices[to] = place;
  }
}

/* Sorts a row's keys, which are in the first n slots, and writes the elements of the first k. */
static __device__ inline void write_first(const topk_args &a, const topk_row &row, uint64_t *keys, int n, int size) {
  for (int i = n + static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x))
    put_last(a, keys, slot_of(i, size));
  key_and_place *const wide = reinterpret_cast<key_and_place *>(keys);
  if (a.packed) {
    sort_keys(keys, size);
    write_sorted(a, row, keys, size);
  } else {
    sort_keys(wide, size);
    write_sorted(a, row, wide, size);
  }
}

/* A short row is sorted whole. */
KERNEL_OF_MANY_REGISTERS(topk_short) {
  SHARED_DYNAMIC(uint64_t, keys);
  topk_row row;
  const bool has_work = find_row(a, blockIdx.x, true, &row);
  report(a, row);
  if (!has_work) return;
  const int size = sorted_size(row.padded);
  visit_keys(a, row, 0, row.extent,
             [&](int64_t i, uint64_t key) { put_key(a, keys, slot_of(static_cast<int>(i), size), key, i); });
  write_first(a, row, keys, static_cast<int>(row.extent), size);
}

/* Takes the elements of a row, or of a chunk of one, that are among its first k: take(at, i, key) for each, `at` from 0
 * on, in any order. last: the k-th key; ties: how many of the equal keys are taken, the first ones; equal: how many
 * there are. reserve(n), called by all threads: n elements follow. */
template <class R, class F>
static __device__ inline void take_first(const topk_args &a, const topk_row &row, int64_t begin, int64_t end,
                                         uint64_t last, uint64_t ties, uint64_t equal, const R &reserve,
                                         const F &take) {
  if (!ties || ties >= equal) { /* the equal keys' order does not matter */
    const uint64_t first_not = ties ? last + 1 : last;
    const bool all_keys = ties && last == ~uint64_t(0);
    uint32_t mine = 0, all;
    visit_keys(a, row, begin, end, [&](int64_t, uint64_t key) { mine += all_keys || key < first_not; });
    uint32_t at = block_sum(mine, &all);
    const unsigned long long base = reserve(all);
    visit_keys(a, row, begin, end, [&](int64_t i, uint64_t key) {
      if (all_keys || key < first_not) take(base + at++, i, key);
    });
    return;
  }
  uint64_t n_ties = 0;
  for (int64_t at = begin; at < end; at += blockDim.x) {
    const int64_t i = at + threadIdx.x;
    const uint64_t key = i < end ? key_of(a, row.from + i * a.inner) : 0;
    const bool is_equal = i < end && key == last;
    int all, all_equal;
    const uint64_t tie = n_ties + static_cast<unsigned>(block_rank(is_equal, &all_equal));
    const bool taken = i < end && (key < last || (is_equal && tie < ties));
    const int rank = block_rank(taken, &all);
    const unsigned long long base = reserve(static_cast<uint32_t>(all));
    if (taken) take(base + static_cast<unsigned>(rank), i, key);
    n_ties += static_cast<unsigned>(all_equal);
  }
}

KERNEL_OF_MANY_REGISTERS(topk) {
  SHARED_DYNAMIC(uint64_t, keys);
  topk_row row;
  const bool has_work = find_row(a, blockIdx.x, false, &row);
  report(a, row);
  if (!has_work) return;
  const int size = sorted_size(row.padded);
  uint32_t ties, equal;
  const uint64_t last = find_last(a, row, &ties, &equal);
  unsigned long long n = 0;
  const auto reserve = [&](uint32_t more) {
    n += more;
    return n - more;
  };
  take_first(a, row, 0, row.extent, last, ties, equal, reserve, [&](unsigned long long at, int64_t i, uint64_t key) {
    put_key(a, keys, slot_of(static_cast<int>(at), size), key, i);
  });
  write_first(a, row, keys, static_cast<int>(row.k), size);
}

/* ---- rows spread over blocks ---- */

/* The chunk of a block. False: the block has nothing to do. */
static __device__ inline bool find_chunk(const topk_args &a, topk_row *row, uint32_t *out_number, int64_t *out_chunk) {
  const uint32_t chunks = static_cast<uint32_t>(a.chunks);
  *out_number = blockIdx.x / chunks;
  *out_chunk = blockIdx.x % chunks;
  return find_row(a, *out_number, false, row) && *out_chunk * TOPK_CHUNK < row->extent;
}

/* A row's keys after so many merges as make runs of `run` keys. */
template <class K> static __device__ inline K *keys_of(const topk_args &a, int64_t row, int64_t run) {
  bool odd = false;
  for (int64_t r = TOPK_RUN; r < run; r *= CUDA_MERGE_WAYS) odd = !odd;
  return static_cast<K *>(odd ? a.merged : a.keys) + row * a.padded;
}

/* The k-th key of a row from the counts of its digits above `shift`, which are all if shift is below 0. *out_left: how
 * many of the keys with these digits are among the first k. */
static __device__ inline uint64_t find_prefix(const topk_args &a, int64_t row, int64_t k, int shift,
                                              unsigned long long *out_left) {
  SHARED_VALUE(unsigned long long, chosen);
  SHARED_VALUE(unsigned long long, before_chosen);
  const int t = static_cast<int>(threadIdx.x);
  const unsigned long long *counts = a.counts + row * (a.bits / DIGIT_BITS) * DIGITS;
  unsigned long long left = static_cast<unsigned long long>(k), all;
  uint64_t prefix = 0;
  for (int above = a.bits - DIGIT_BITS; above > shift; above -= DIGIT_BITS, counts += DIGITS) {
    const unsigned long long mine = t < DIGITS ? counts[t] : 0, before = block_sum(mine, &all);
    if (mine && before < left && left <= before + mine) {
      chosen = static_cast<unsigned long long>(t);
      before_chosen = before;
    }
    __syncthreads();
    left -= before_chosen;
    prefix |= static_cast<uint64_t>(chosen) << above;
  }
  *out_left = left;
  return prefix;
}

KERNEL(topk_begin) {
  const int64_t i = thread_number(), counts = a.rows * (a.bits / DIGIT_BITS) * DIGITS;
  if (i < counts) a.counts[i] = 0;
  else if (i < counts + a.rows) a.taken[i - counts] = 0;
  if (!a.reported) return;
  topk_row row;
  (void)find_row(a, 0, false, &row);
  report(a, row);
}

static __device__ inline int64_t end_of(const topk_row &row, int64_t chunk) {
  return (chunk + 1) * TOPK_CHUNK < row.extent ? (chunk + 1) * TOPK_CHUNK : row.extent;
}

/* Counts the values of the digit at `shift` in a chunk, of the keys whose digits above are the k-th key's. */
KERNEL_OF_MANY_REGISTERS(topk_count) {
  SHARED_ARRAY(unsigned, counts, [DIGITS]);
  const int t = static_cast<int>(threadIdx.x);
  topk_row row;
  uint32_t number;
  int64_t chunk;
  unsigned long long left;
  if (!find_chunk(a, &row, &number, &chunk)) return; /* all threads */
  const uint64_t prefix = find_prefix(a, number, row.k, a.shift, &left),
                 above = a.shift + DIGIT_BITS < 64 ? ~uint64_t(0) << (a.shift + DIGIT_BITS) : 0;
  if (t < DIGITS) counts[t] = 0;
  __syncthreads();
  visit_keys(a, row, chunk * TOPK_CHUNK, end_of(row, chunk), [&](int64_t, uint64_t key) {
    if ((key & above) == prefix) atomicAdd(&counts[key >> a.shift & (DIGITS - 1)], 1u);
  });
  __syncthreads();
  if (t >= DIGITS) return;
  const int64_t digit = a.bits / DIGIT_BITS - 1 - a.shift / DIGIT_BITS;
  if (counts[t])
    atomicAdd(&a.counts[(number * (a.bits / DIGIT_BITS) + digit) * DIGITS + t],
              static_cast<unsigned long long>(counts[t]));
  if (a.of_chunk) a.of_chunk[static_cast<int64_t>(blockIdx.x) * DIGITS + t] = counts[t];
}

/* Takes a chunk's elements among the first k, in any order, because they are sorted by key and place. Of the keys equal
 * to the k-th the first ones are taken: the counts of the chunks before say how many went before. */
KERNEL(topk_take) {
  SHARED_VALUE(unsigned long long, base);
  const int t = static_cast<int>(threadIdx.x);
  topk_row row;
  uint32_t number;
  int64_t chunk;
  if (!find_chunk(a, &row, &number, &chunk)) return; /* all threads */
  char *const keys = static_cast<char *>(a.keys) + number * a.padded * (a.packed ? 8 : 16);
  unsigned long long ties, before, mine = 0;
  const uint64_t last = find_prefix(a, number, row.k, -1, &ties);
  const uint32_t *const equal = a.of_chunk + number * a.chunks * DIGITS + (last & (DIGITS - 1));
  for (int64_t c = t; c < chunk; c += blockDim.x) mine += equal[c * DIGITS];
  (void)block_sum(mine, &before);
  const auto reserve = [&](uint32_t n) {
    __syncthreads(); /* the base before has been read */
    if (t == 0) base = n ? atomicAdd(&a.taken[number], static_cast<unsigned long long>(n)) : 0;
    __syncthreads();
    return base;
  };
  take_first(a, row, chunk * TOPK_CHUNK, end_of(row, chunk), last, before < ties ? ties - before : 0,
             equal[chunk * DIGITS], reserve, [&](unsigned long long at, int64_t i, uint64_t key) {
               put_key(a, keys, static_cast<int64_t>(at), key, i);
             });
  if (chunk == 0)
    for (int64_t i = row.k + t; i < row.padded; i += blockDim.x) put_last(a, keys, i);
}

template <class K>
static __device__ inline void sort_run(const topk_args &a, const topk_row &row, K *keys, uint32_t number, int64_t begin,
                                       int run) {
  const int size = sorted_size(run), t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  K *const from = keys_of<K>(a, number, TOPK_RUN) + begin;
  for (int i = t; i < run; i += threads) keys[slot_of(i, size)] = from[i];
  for (int i = run + t; i < size; i += threads) put_last(a, keys, slot_of(i, size));
  sort_keys(keys, size);
  if (a.y) write_sorted(a, row, keys, size);
  else
    for (int i = t; i < run; i += threads) from[i] = keys[slot_of(i, size)];
}

/* A block sorts a run; of a row that is one run it writes the elements. */
KERNEL_OF_MANY_REGISTERS(topk_sort) {
  SHARED_DYNAMIC(uint64_t, keys);
  const int64_t most = a.padded < TOPK_RUN ? a.padded : static_cast<int64_t>(TOPK_RUN);
  const uint32_t runs = static_cast<uint32_t>(a.padded / most), number = blockIdx.x / runs;
  const int64_t begin = blockIdx.x % runs * most;
  topk_row row;
  if (!find_row(a, number, false, &row) || begin >= row.padded) return; /* all threads */
  const int run = static_cast<int>(row.padded < most ? row.padded : most);
  if (a.packed) sort_run(a, row, keys, number, begin, run);
  else sort_run(a, row, reinterpret_cast<key_and_place *>(keys), number, begin, run);
}

template <class K>
static __device__ inline void merge_key(const topk_args &a, const topk_row &row, uint32_t number, int64_t i) {
  const K *const keys = keys_of<K>(a, number, a.run);
  const K key = keys[i];
  keys_of<K>(a, number,
             CUDA_MERGE_WAYS * a.run)[merged_place_of_many(i, row.padded, a.run, [&](int64_t j, bool or_equal) {
    const K other = keys[j];
    return or_equal ? !goes_before(key, other) : goes_before(other, key);
  })] = key;
}

/* One thread a key. Equal keys stand behind the first k only. */
KERNEL_OF_MANY_REGISTERS(topk_merge) {
  const int64_t thread = thread_number(), i = thread & (a.padded - 1);
  const uint32_t number = static_cast<uint32_t>(thread >> (__ffsll(a.padded) - 1));
  topk_row row;
  if (!find_row(a, number, false, &row) || i >= row.padded || a.run >= row.padded) return;
  if (a.packed) merge_key<uint64_t>(a, row, number, i);
  else merge_key<key_and_place>(a, row, number, i);
}

KERNEL(topk_write) {
  const uint32_t blocks = static_cast<uint32_t>((a.k + blockDim.x - 1) / blockDim.x), number = blockIdx.x / blocks;
  const int64_t i = static_cast<int64_t>(blockIdx.x % blocks) * blockDim.x + threadIdx.x;
  topk_row row;
  if (!find_row(a, number, false, &row) || i >= row.k) return;
  const int64_t place = a.packed ? place_of(keys_of<uint64_t>(a, number, row.padded)[i])
                                 : place_of(keys_of<key_and_place>(a, number, row.padded)[i]),
                to = row.to + i * a.inner;
  copy_element(a.size, a.y, to, a.x, row.from + place * a.inner);
  if (a.indices) a.indices[to] = place;
}
