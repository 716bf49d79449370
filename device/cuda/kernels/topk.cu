/* TopK. A short row is sorted by a block; a long one is searched for its first k elements, which are sorted. Few long
 * rows, and large k, are spread over blocks.
 * Elements become unsigned keys whose ascending order is the wanted one, as on the host (ops/cpu/reduce/topk.c): NaN is
 * larger than every number, and of equal elements the lower index comes first. A radix select of 8 bits a pass finds
 * the k-th key; the smaller keys and the first of the equal ones are collected in order and sorted by key and index. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/indices.cuh"
#include "device/cuda/kernels/merge.cuh"
#include "device/cuda/kernels/values.cuh"

enum { DIGIT_BITS = 8, DIGITS = TOPK_DIGITS };

struct topk_row {
  int64_t extent, k, from, to; /* from: its first element; to: its first result */
  int64_t padded;              /* a power of two, at least the number of pairs to sort */
};

/* The row of that number, for the true count. False: it has no results. `whole`: all elements are sorted, not the first
 * k only. */
static __device__ inline bool find_row(const topk_args &a, int64_t number, bool whole, topk_row *row) {
  const int64_t rows = a.counts_extent ? a.rows : true_number(a.counted, a.rows);
  row->extent = a.counts_extent ? true_count(a.counted) : a.extent;
  row->k = row->extent < a.k ? row->extent : a.k;
  row->from = number / a.inner * row->extent * a.inner + number % a.inner;
  row->to = number / a.inner * row->k * a.inner + number % a.inner;
  row->padded = 2;
  while (row->padded < (whole ? row->extent : row->k)) row->padded *= 2;
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

/* The k-th key in ascending order; *out_ties: how many equal to it are among the first k. */
static __device__ inline uint64_t find_last(const topk_args &a, const topk_row &row, int64_t *out_ties) {
  SHARED_ARRAY(unsigned long long, counts, [DIGITS]);
  SHARED_VALUE(unsigned long long, chosen);
  SHARED_VALUE(unsigned long long, before_chosen);
  const int t = static_cast<int>(threadIdx.x);
  unsigned long long left = static_cast<unsigned long long>(row.k), all;
  uint64_t prefix = 0, known = 0;
  for (int shift = a.bits - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    if (t < DIGITS) counts[t] = 0;
    __syncthreads();
    for (int64_t i = t; i < row.extent; i += blockDim.x) {
      const uint64_t key = key_of(a, row.from + i * a.inner);
      if ((key & known) == prefix) atomicAdd(&counts[key >> shift & (DIGITS - 1)], 1ull);
    }
    __syncthreads();
    const unsigned long long mine = t < DIGITS ? counts[t] : 0, before = block_sum(mine, &all);
    if (mine && before < left && left <= before + mine) {
      chosen = static_cast<unsigned long long>(t);
      before_chosen = before;
    }
    __syncthreads();
    left -= before_chosen;
    prefix |= static_cast<uint64_t>(chosen) << shift;
    known |= static_cast<uint64_t>(DIGITS - 1) << shift;
  }
  *out_ties = static_cast<int64_t>(left);
  return prefix;
}

/* Bitonic sort (Batcher 1968) of keys, equal ones by their places. */
static __device__ inline void sort_pairs(uint64_t *keys, uint64_t *places, int64_t n) {
  for (int64_t run = 2; run <= n; run *= 2)
    for (int64_t apart = run / 2; apart; apart /= 2) {
      for (int64_t p = threadIdx.x; p < n / 2; p += blockDim.x) {
        const int64_t low = p / apart * 2 * apart + p % apart, high = low + apart;
        const bool falls = (low & run) != 0;
        const uint64_t k = keys[low], l = keys[high], i = places[low], j = places[high];
        if ((k > l || (k == l && i > j)) == falls) continue;
        keys[low] = l;
        keys[high] = k;
        places[low] = j;
        places[high] = i;
      }
      __syncthreads();
    }
}

/* The first k of the sorted pairs. */
static __device__ inline void write_pairs(const topk_args &a, const uint64_t *places, const topk_row &row) {
  for (int64_t i = threadIdx.x; i < row.k; i += blockDim.x) {
    const int64_t place = static_cast<int64_t>(places[i]), to = row.to + i * a.inner;
    copy_element(a.size, a.y, to, a.x, row.from + place * a.inner);
    if (a.indices) a.indices[to] = place;
  }
}

/* A short row is sorted whole. */
KERNEL(topk_short) {
  SHARED_DYNAMIC(uint64_t, keys);
  uint64_t *const places = keys + a.padded;
  topk_row row;
  const bool has_work = find_row(a, blockIdx.x, true, &row);
  report(a, row);
  if (!has_work) return;
  for (int64_t i = threadIdx.x; i < row.padded; i += blockDim.x) {
    keys[i] = i < row.extent ? key_of(a, row.from + i * a.inner) : ~uint64_t(0);
    places[i] = static_cast<uint64_t>(i);
  }
  __syncthreads();
  sort_pairs(keys, places, row.padded);
  write_pairs(a, places, row);
}

KERNEL_OF_MANY_REGISTERS(topk) {
  SHARED_DYNAMIC(uint64_t, keys);
  uint64_t *const places = keys + a.padded;
  topk_row row;
  const bool has_work = find_row(a, blockIdx.x, false, &row);
  report(a, row);
  if (!has_work) return;
  int64_t ties, n = 0, n_ties = 0;
  const uint64_t last = find_last(a, row, &ties);
  for (int64_t begin = 0; begin < row.extent && n < row.k; begin += blockDim.x) {
    const int64_t i = begin + threadIdx.x;
    const uint64_t key = i < row.extent ? key_of(a, row.from + i * a.inner) : 0;
    const bool equal = i < row.extent && key == last;
    int all, all_equal;
    const int64_t tie = n_ties + block_rank(equal, &all_equal);
    const bool taken = i < row.extent && (key < last || (equal && tie < ties));
    const int64_t at = n + block_rank(taken, &all);
    if (taken) {
      keys[at] = key;
      places[at] = static_cast<uint64_t>(i);
    }
    n += all;
    n_ties += all_equal;
  }
  for (int64_t i = row.k + threadIdx.x; i < row.padded; i += blockDim.x) keys[i] = places[i] = ~uint64_t(0);
  __syncthreads();
  sort_pairs(keys, places, row.padded);
  write_pairs(a, places, row);
}

/* ---- rows spread over blocks ---- */

/* The chunk of a block. False: the block has nothing to do. */
static __device__ inline bool find_chunk(const topk_args &a, topk_row *row, int64_t *out_number, int64_t *out_chunk) {
  *out_number = blockIdx.x / a.chunks;
  *out_chunk = blockIdx.x % a.chunks;
  return find_row(a, *out_number, false, row) && *out_chunk * TOPK_CHUNK < row->extent;
}

/* A row's pairs after so many merges as make runs of `run` pairs. */
static __device__ inline uint64_t *pairs_of(const topk_args &a, int64_t row, int64_t run) {
  bool odd = false;
  for (int64_t r = TOPK_RUN; r < run; r *= 2) odd = !odd;
  return (odd ? a.merged : a.pairs) + row * 2 * a.padded;
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

/* Counts the values of the digit at `shift` in a chunk, of the keys whose digits above are the k-th key's. */
KERNEL(topk_count) {
  SHARED_ARRAY(unsigned, counts, [DIGITS]);
  const int t = static_cast<int>(threadIdx.x);
  topk_row row;
  int64_t number, chunk;
  unsigned long long left;
  if (!find_chunk(a, &row, &number, &chunk)) return; /* all threads */
  const uint64_t prefix = find_prefix(a, number, row.k, a.shift, &left),
                 above = a.shift + DIGIT_BITS < 64 ? ~uint64_t(0) << (a.shift + DIGIT_BITS) : 0;
  if (t < DIGITS) counts[t] = 0;
  __syncthreads();
  for (int64_t i = chunk * TOPK_CHUNK + t; i < (chunk + 1) * TOPK_CHUNK && i < row.extent; i += blockDim.x) {
    const uint64_t key = key_of(a, row.from + i * a.inner);
    if ((key & above) == prefix) atomicAdd(&counts[key >> a.shift & (DIGITS - 1)], 1u);
  }
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
  int64_t number, chunk;
  if (!find_chunk(a, &row, &number, &chunk)) return; /* all threads */
  uint64_t *const keys = a.pairs + number * 2 * a.padded, *const places = keys + a.padded;
  unsigned long long ties, n_ties, mine = 0;
  const uint64_t last = find_prefix(a, number, row.k, -1, &ties);
  for (int64_t c = t; c < chunk; c += blockDim.x)
    mine += a.of_chunk[(number * a.chunks + c) * DIGITS + static_cast<int64_t>(last & (DIGITS - 1))];
  (void)block_sum(mine, &n_ties);
  for (int64_t begin = chunk * TOPK_CHUNK; begin < (chunk + 1) * TOPK_CHUNK && begin < row.extent;
       begin += blockDim.x) {
    const int64_t i = begin + t;
    const uint64_t key = i < row.extent ? key_of(a, row.from + i * a.inner) : 0;
    const bool equal = i < row.extent && key == last;
    int all, all_equal;
    const unsigned long long tie = n_ties + static_cast<unsigned>(block_rank(equal, &all_equal));
    const bool taken = i < row.extent && (key < last || (equal && tie < ties));
    const int rank = block_rank(taken, &all);
    if (t == 0) base = all ? atomicAdd(&a.taken[number], static_cast<unsigned long long>(all)) : 0;
    __syncthreads();
    if (taken) {
      keys[base + static_cast<unsigned>(rank)] = key;
      places[base + static_cast<unsigned>(rank)] = static_cast<uint64_t>(i);
    }
    n_ties += static_cast<unsigned>(all_equal);
  }
  if (chunk == 0)
    for (int64_t i = row.k + t; i < row.padded; i += blockDim.x) keys[i] = places[i] = ~uint64_t(0);
}

/* A block sorts a run. */
KERNEL(topk_sort) {
  SHARED_DYNAMIC(uint64_t, keys);
  const int64_t most = a.padded < TOPK_RUN ? a.padded : static_cast<int64_t>(TOPK_RUN), runs = a.padded / most,
                number = blockIdx.x / runs, begin = blockIdx.x % runs * most;
  topk_row row;
  if (!find_row(a, number, false, &row) || begin >= row.padded) return; /* all threads */
  const int64_t run = row.padded < most ? row.padded : most;
  uint64_t *const places = keys + run, *const from = a.pairs + number * 2 * a.padded + begin;
  for (int64_t i = threadIdx.x; i < run; i += blockDim.x) {
    keys[i] = from[i];
    places[i] = from[a.padded + i];
  }
  __syncthreads();
  sort_pairs(keys, places, run);
  for (int64_t i = threadIdx.x; i < run; i += blockDim.x) {
    from[i] = keys[i];
    from[a.padded + i] = places[i];
  }
}

/* One thread a pair. Equal pairs stand behind the first k only. */
KERNEL(topk_merge) {
  const int64_t i = thread_number() % a.padded, number = thread_number() / a.padded;
  topk_row row;
  if (!find_row(a, number, false, &row) || i >= row.padded || a.run >= row.padded) return;
  const uint64_t *const keys = pairs_of(a, number, a.run), *const places = keys + a.padded;
  const uint64_t key = keys[i], place = places[i];
  const int64_t merged = merged_place(i, row.padded, a.run, [&](int64_t j, bool or_equal) {
    const uint64_t k = keys[j], p = places[j];
    return k < key || (k == key && (p < place || (or_equal && p == place)));
  });
  uint64_t *const to = pairs_of(a, number, 2 * a.run) + merged;
  to[0] = key;
  to[a.padded] = place;
}

KERNEL(topk_write) {
  const int64_t i = thread_number() % a.k, number = thread_number() / a.k;
  topk_row row;
  if (!find_row(a, number, false, &row) || i >= row.k) return;
  const int64_t place = static_cast<int64_t>(pairs_of(a, number, row.padded)[a.padded + i]), to = row.to + i * a.inner;
  copy_element(a.size, a.y, to, a.x, row.from + place * a.inner);
  if (a.indices) a.indices[to] = place;
}
