/* NonMaxSuppression and torchvision's nms in four steps, all rows (classes of batches) side by side, with the bits
 * of the host's (ops/cpu/reference/nms.c): a sort of each row by score (runs, which are merged), the overlaps of the
 * best boxes of each row as a matrix of bits in tiles of 64 x 64, a walk over the sorted boxes 64 at a time, and the
 * list of all rows. Compiled without fused multiply-adds, because a rounding decides. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/merge.cuh"
#include "device/cuda/kernels/sort.cuh"
#include "device/cuda/kernels/values.cuh"

enum { CHUNK = NMS_CHUNK };
static constexpr uint32_t KEY_FIRST = 0, KEY_NAN = 0xfffffffeu, KEY_NONE = 0xffffffffu;

/* The boxes of a batch. */
static __device__ inline int64_t boxes_of(const nms_args &a) { return a.counted.count ? true_count(a.counted) : a.n; }

/* A smaller key comes first: a higher score; of equal ones the lower index, which the key's lower half is. NaN comes
 * after all numbers (as_given: before them), boxes that take no part after NaN. least: the value of a.least. */
static __device__ inline uint32_t key_of(const nms_args &a, float score, bool is_candidate, float least) {
  if (!is_candidate || (a.least && !(score > least))) return KEY_NONE;
  if (score != score) return a.as_given ? KEY_FIRST : KEY_NAN;
  const uint32_t bits = score == 0 ? 0 : __float_as_uint(score);
  return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

/* The sorted keys of a row of n boxes: each merge writes into the other memory. */
static __device__ inline const uint64_t *sorted_keys(const nms_args &a, int64_t row, int64_t n) {
  bool odd = false;
  for (int64_t run = NMS_SORT_RUN; run < n; run *= CUDA_MERGE_WAYS) odd = !odd;
  return (odd ? a.merged : a.sorted) + row * a.padded;
}

enum { SORT_LOADS = 4 }; /* of a thread at once */

/* A block sorts a run of a row's keys. */
KERNEL(nms_sort) {
  SHARED_DYNAMIC(uint64_t, keys);
  const uint32_t all = static_cast<uint32_t>(a.padded), longest = NMS_SORT_RUN, most = all < longest ? all : longest,
                 runs = all / most, row = blockIdx.x / runs;
  const int64_t begin = blockIdx.x % runs * most, n = boxes_of(a), padded = padded_to_power(n);
  if (begin >= padded) return; /* all threads */
  const int here = static_cast<int>(padded < most ? padded : most), size = sorted_size(here),
            t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int64_t first = row * n, candidates = row / static_cast<uint32_t>(a.classes) * n;
  const float least = a.least ? *a.least : 0;
  ROLLED for (int i = t; i < size; i += SORT_LOADS * threads) {
    uint32_t scores[SORT_LOADS] = {}; /* their bits */
    bool takes_part[SORT_LOADS];
    UNROLL for (int e = 0; e < SORT_LOADS; e++) {
      const int64_t box = begin + i + e * threads;
      takes_part[e] = box < n && (!a.candidates || a.candidates[candidates + box]);
      if (box >= n) continue;
      if (a.scores_dtype == REED_F32) scores[e] = static_cast<const uint32_t *>(a.scores)[first + box];
      else scores[e] = static_cast<const uint16_t *>(a.scores)[first + box];
    }
    UNROLL for (int e = 0; e < SORT_LOADS; e++) {
      const int at = i + e * threads;
      if (at >= size) break;
      const float score = value_as<float>(value_held(a.scores_dtype, scores[e]));
      const uint64_t key = key_of(a, score, takes_part[e], least), box = static_cast<uint64_t>(begin + at);
      keys[slot_of(at, size)] = begin + at < n ? key << 32 | box : UINT64_MAX;
    }
  }
  sort_keys(keys, size);
  uint64_t *const to = a.sorted + row * a.padded + begin;
  for (int i = t; i < here; i += threads) to[i] = keys[slot_of(i, size)];
}

/* One thread a key. Keys are different but for those behind the boxes. */
KERNEL_OF_MANY_REGISTERS(nms_merge) {
  const int64_t number = thread_number(), i = number & (a.padded - 1), row = number >> (__ffsll(a.padded) - 1),
                padded = padded_to_power(boxes_of(a));
  if (row >= a.rows || i >= padded || a.run >= padded) return;
  const uint64_t *const from = sorted_keys(a, row, a.run); /* the merges before */
  uint64_t *const to = (from == a.sorted + row * a.padded ? a.merged : a.sorted) + row * a.padded;
  const uint64_t key = from[i];
  to[merged_place_of_many(i, padded, a.run, [&](int64_t j, bool or_equal) {
    const uint64_t other = from[j];
    return other < key || (or_equal && other == key);
  })] = key;
}

struct alignas(16) corners {
  float x1, y1, x2, y2;
};

/* With x1 <= x2 and y1 <= y2 unless boxes are taken as given, as nms_corners of ops/cpu/calls/nms.c. */
static __device__ inline corners corners_of(const nms_args &a, int64_t box) {
  float c[4];
  if (a.boxes_dtype == REED_F32) {
    UNROLL for (int k = 0; k < 4; k++) c[k] = static_cast<const float *>(a.boxes)[4 * box + k];
  } else {
    UNROLL for (int k = 0; k < 4; k++) c[k] = value_as<float>(value_load(a.boxes_dtype, a.boxes, 4 * box + k));
  }
  if (a.as_given) return {c[0], c[1], c[2], c[3]};
  if (a.centers) {
    const float half_width = c[2] / 2, half_height = c[3] / 2;
    return {c[0] - half_width, c[1] - half_height, c[0] + half_width, c[1] + half_height};
  }
  const bool x_swapped = c[1] > c[3], y_swapped = c[0] > c[2];
  return {x_swapped ? c[3] : c[1], y_swapped ? c[2] : c[0], x_swapped ? c[1] : c[3], y_swapped ? c[0] : c[2]};
}

static __device__ inline float area_of(const corners &c) { return (c.x2 - c.x1) * (c.y2 - c.y1); }

/* The area that both boxes have. A NaN among the corners makes its box's area NaN, and neither the choice between a NaN
 * and a number here nor the sign of a zero decides. */
static __device__ inline float shared_area(const corners &a, const corners &b) {
  const float width = fminf(a.x2, b.x2) - fmaxf(a.x1, b.x1), height = fminf(a.y2, b.y2) - fmaxf(a.y1, b.y1);
  return fmaxf(width, 0.0f) * fmaxf(height, 0.0f);
}

/* The order of operations is the host's. */
static __device__ inline bool overlap(const corners &a, float area_a, const corners &b, float area_b, float limit) {
  const float both = shared_area(a, b);
  return both / (area_a + area_b - both) > limit;
}

static __device__ inline float limit_of(const nms_args &a) { return a.as_given ? a.threshold : a.iou ? *a.iou : 0; }

/* A column of the matrix: for each tile of boxes that come before, and for the column's own tile, a word for each of
 * the column's boxes. Bit i of a word says that box i of the tile suppresses the column's box. */
static __device__ inline unsigned long long *words_of(const nms_args &a, int64_t row, int64_t column) {
  return a.mask + (row * a.tiles + column) * a.tiles * CHUNK;
}

enum { MASK_PARTS = 4 };

/* A thread's bits of a word: those of boxes part, part + 4, ... Most pairs are decided without a division, which takes
 * a GPU much longer if the dividend is 0: with t = limit * union and room for the roundings, both > t (1 + 2^-20) is a
 * quotient above the limit, both < t (1 - 2^-20) one that is not. The others are divided: those close to t, unions that
 * are not positive or so small that t loses digits, NaN, and all pairs at a limit that is tiny, negative or huge. */
static __device__ inline unsigned long long bits_of(const nms_args &a, const corners *earlier, const float *areas,
                                                    const int64_t *ids, const corners &mine, int64_t id, int part,
                                                    float limit) {
  const float area = area_of(mine), least = limit >= 1e-18f && limit <= 1e18f ? 1e-30f : INFINITY;
  unsigned long long hits = 0, unsure = 0;
  UNROLL for (int k = 0; k < CHUNK; k += MASK_PARTS) {
    const float both = shared_area(earlier[k + part], mine), t = limit * (areas[k + part] + area - both), d = both - t;
    const bool sure = t > least && fabsf(d) > t * 0x1p-20f;
    if (sure && d > 0) hits |= 1ull << k;
    if (!sure) unsure |= 1ull << k;
  }
  for (; unsure; unsure &= unsure - 1) {
    const int k = __ffsll(static_cast<long long>(unsure)) - 1;
    if (overlap(earlier[k + part], areas[k + part], mine, area, limit)) hits |= 1ull << k;
  }
  if (a.ids)
    for (unsigned long long rest = hits; rest; rest &= rest - 1) {
      const int k = __ffsll(static_cast<long long>(rest)) - 1;
      if (ids[k + part] != id) hits &= ~(1ull << k);
    }
  return hits << part;
}

/* A block takes one tile on or above the diagonal of a row's matrix after another; four threads make a word. Columns q
 * and tiles - 1 - q have tiles + 1 such tiles together, so that half as many columns as tiles, each of tiles + 1
 * places, are all. The tiles are those of the true number of boxes. */
KERNEL(nms_mask) {
  SHARED_ARRAY(corners, earlier, [CHUNK]);
  SHARED_ARRAY(float, areas, [CHUNK]);
  SHARED_ARRAY(int64_t, ids, [CHUNK]);
  const int64_t n_boxes = boxes_of(a), n_tiles = (n_boxes + CHUNK - 1) / CHUNK;
  const uint32_t tiles = static_cast<uint32_t>(n_tiles < a.tiles ? n_tiles : a.tiles), each = tiles + 1,
                 pairs = each / 2, all = static_cast<uint32_t>(a.rows) * pairs * each;
  const int t = static_cast<int>(threadIdx.x), j = t / MASK_PARTS, part = t % MASK_PARTS;
  for (uint32_t number = blockIdx.x; number < all; number += gridDim.x) {
    const uint32_t place = number % each, pair = number / each % pairs, row = number / each / pairs;
    const uint32_t column = place <= pair ? pair : tiles - 1 - pair, upper = place <= pair ? place : place - pair - 1;
    if (place > pair && column == pair) continue; /* the column in the middle has no partner */
    const int64_t first = static_cast<int64_t>(row / static_cast<uint32_t>(a.classes)) * n_boxes;
    const uint64_t *const sorted = sorted_keys(a, row, n_boxes);
    const int64_t begin = static_cast<int64_t>(column) * CHUNK, at = begin + j,
                  before = static_cast<int64_t>(upper) * CHUNK + t;
    const uint64_t key = at < n_boxes ? sorted[at] : UINT64_MAX,
                   earlier_key = t < CHUNK && before < n_boxes ? sorted[before] : UINT64_MAX;
    if (sorted[begin] >> 32 == KEY_NONE) continue; /* all threads: no box of the column takes part */
    const float limit = limit_of(a);
    corners mine = {0, 0, 0, 0};
    int64_t id = 0;
    if (key >> 32 != KEY_NONE) {
      const int64_t box = first + static_cast<uint32_t>(key);
      mine = corners_of(a, box);
      if (a.ids) id = a.ids[box];
    }
    if (t < CHUNK) {
      corners theirs = {0, 0, 0, 0};
      int64_t their_id = 0;
      if (earlier_key >> 32 != KEY_NONE) {
        const int64_t box = first + static_cast<uint32_t>(earlier_key);
        theirs = corners_of(a, box);
        if (a.ids) their_id = a.ids[box];
      }
      earlier[t] = theirs;
      areas[t] = area_of(theirs);
      ids[t] = their_id;
    }
    __syncthreads();
    unsigned long long word = bits_of(a, earlier, areas, ids, mine, id, part, limit);
    UNROLL for (int lanes = 1; lanes < MASK_PARTS; lanes *= 2) word |= __shfl_xor_sync(~0u, word, lanes);
    if (upper == column) word &= (1ull << j) - 1;
    if (part == 0) words_of(a, row, column)[upper * CHUNK + j] = word;
    __syncthreads(); /* the boxes have been read */
  }
}

enum { SELECT_WARPS = kernel_threads_nms_select / 32, SELECT_AHEAD = 4 };

static __device__ inline unsigned long long votes(bool first, bool second) {
  const unsigned low = __ballot_sync(~0u, first), high = __ballot_sync(~0u, second);
  return static_cast<unsigned long long>(high) << 32 | low;
}

/* The kept boxes of a chunk, by a warp whose lane l has boxes l and l + 32. first, second: they take part and no kept
 * box of a chunk before suppresses them; first_hits, second_hits: the boxes of the chunk that would suppress them. A
 * box is kept if no kept box suppresses it. Only boxes before it can, so there is one such set, and each round decides
 * at least one box more. At most `left` are kept. */
static __device__ inline unsigned long long keep_of(bool first, bool second, unsigned long long first_hits,
                                                    unsigned long long second_hits, int left) {
  unsigned long long keep = votes(first, second), guess;
  do {
    guess = keep;
    keep = votes(first && !(first_hits & guess), second && !(second_hits & guess));
  } while (keep != guess);
  if (left >= CHUNK || __popcll(keep) <= left) return keep;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned long long below = (1ull << lane) - 1, below_second = (1ull << (lane + 32)) - 1;
  return votes((keep >> lane & 1) && __popcll(keep & below) < left,
               (keep >> (lane + 32) & 1) && __popcll(keep & below_second) < left);
}

/* The row of a block of nms_select, and how many of its boxes have been kept. */
struct chosen_row {
  const uint64_t *sorted;
  int32_t *kept;
  int64_t row, all; /* all: the first box of the batch */
  int n_boxes, limit, n_kept;
  float overlap;
};

/* Boxes of the matrix. A warp has one tile of each group of as many tiles as warps. Once a tile's boxes are decided,
 * the warps of later tiles of the group mark those of their boxes that it suppresses; words of the matrix are loaded
 * tiles ahead of their use. */
static __device__ inline void select_by_bits(const nms_args &a, chosen_row &r) {
  SHARED_ARRAY(unsigned long long, kept_bits, [NMS_MOST_TILES]); /* per tile: the kept boxes */
  const int tiles = static_cast<int>(a.tiles), lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32);
  for (int group = 0; group < tiles && r.n_kept < r.limit; group += SELECT_WARPS) {
    const int tile = group + warp, at = tile * CHUNK + lane;
    const uint64_t key = tile < tiles && at < r.n_boxes ? r.sorted[at] : UINT64_MAX,
                   second_key = tile < tiles && at + 32 < r.n_boxes ? r.sorted[at + 32] : UINT64_MAX;
    const bool here = key >> 32 != KEY_NONE;
    bool first = here, second = second_key >> 32 != KEY_NONE;
    const int n_tiles = __syncthreads_count(lane == 0 && here); /* of the group, those that have boxes */
    const unsigned long long *const words = words_of(a, r.row, here ? tile : 0) + lane;
    unsigned long long hits = 0, second_hits = 0, ahead[SELECT_AHEAD] = {}, second_ahead[SELECT_AHEAD] = {};
    const auto load_ahead = [&](int slot, int step) {
      if (step >= warp || !here) return;
      ahead[slot] = words[(group + step) * CHUNK];
      second_ahead[slot] = words[(group + step) * CHUNK + 32];
    };
    UNROLL for (int q = 0; q < SELECT_AHEAD; q++) load_ahead(q, q);
    if (here) {
      unsigned long long dead = 0, second_dead = 0;
      for (int begin = 0; begin < group; begin += SELECT_WARPS / 2)
        UNROLL for (int u = begin; u < begin + SELECT_WARPS / 2; u++) {
          dead |= words[u * CHUNK] & kept_bits[u];
          second_dead |= words[u * CHUNK + 32] & kept_bits[u];
        }
      first = !dead;
      second = second && !second_dead;
      hits = words[tile * CHUNK];
      second_hits = words[tile * CHUNK + 32];
    }
    ROLLED for (int step = 0; step < n_tiles && r.n_kept < r.limit; step++) {
      if (warp == step) {
        const unsigned long long keep = keep_of(first, second, hits, second_hits, r.limit - r.n_kept);
        if (lane == 0) kept_bits[group + step] = keep;
      }
      __syncthreads();
      const unsigned long long keep = kept_bits[group + step];
      if (warp == step) {
        int32_t *const to = r.kept + r.n_kept;
        if (keep >> lane & 1) to[__popcll(keep & ((1ull << lane) - 1))] = static_cast<int32_t>(key);
        if (keep >> (lane + 32) & 1)
          to[__popcll(keep & ((1ull << (lane + 32)) - 1))] = static_cast<int32_t>(second_key);
      } else {
        first = first && !(ahead[0] & keep);
        second = second && !(second_ahead[0] & keep);
        UNROLL for (int q = 1; q < SELECT_AHEAD; q++) {
          ahead[q - 1] = ahead[q];
          second_ahead[q - 1] = second_ahead[q];
        }
        load_ahead(SELECT_AHEAD - 1, step + SELECT_AHEAD);
      }
      r.n_kept += __popcll(keep);
    }
  }
}

/* Boxes behind the matrix: a chunk of 64 is compared with all kept boxes and with itself box by box. */
static __device__ inline void select_by_boxes(const nms_args &a, chosen_row &r) {
  SHARED_ARRAY(corners, chunk, [CHUNK]);
  SHARED_ARRAY(int64_t, ids, [CHUNK]);
  SHARED_ARRAY(int32_t, boxes, [CHUNK]);
  SHARED_ARRAY(unsigned long long, hits, [CHUNK]); /* bit i of hits[j]: box i suppresses box j */
  SHARED_VALUE(unsigned long long, gone);          /* boxes of the chunk that kept boxes suppress */
  SHARED_VALUE(unsigned long long, chosen);
  const int t = static_cast<int>(threadIdx.x), column = t % CHUNK, part = t / CHUNK,
            parts = static_cast<int>(blockDim.x) / CHUNK;
  for (int64_t begin = a.tiles * CHUNK; begin < r.n_boxes && r.n_kept < r.limit; begin += CHUNK) {
    const int64_t at = begin + column;
    const uint64_t key = at < r.n_boxes ? r.sorted[at] : UINT64_MAX;
    const bool here = key >> 32 != KEY_NONE;
    if (!__syncthreads_or(here)) break;
    if (part == 0 && here) {
      const int32_t box = static_cast<int32_t>(key);
      boxes[column] = box;
      chunk[column] = corners_of(a, r.all + box);
      ids[column] = a.ids ? a.ids[r.all + box] : 0;
    }
    if (part == 0) hits[column] = 0;
    if (t == 0) gone = 0;
    __syncthreads();
    if (here) {
      const corners mine = chunk[column];
      const float area = area_of(mine);
      const int64_t id = ids[column];
      bool suppressed = false;
      for (int k = part; k < r.n_kept && !suppressed; k += parts) {
        const int64_t box = r.all + r.kept[k];
        if (a.ids && a.ids[box] != id) continue;
        const corners theirs = corners_of(a, box);
        suppressed = overlap(theirs, area_of(theirs), mine, area, r.overlap);
      }
      if (suppressed) atomicOr(&gone, 1ull << column);
      unsigned long long hit = 0;
      for (int i = part; i < column; i += parts)
        if (ids[i] == id && overlap(chunk[i], area_of(chunk[i]), mine, area, r.overlap)) hit |= 1ull << i;
      if (hit) atomicOr(&hits[column], hit);
    }
    const int n_here = __syncthreads_count(here && part == 0);
    if (t < 32) {
      const unsigned long long keep =
          keep_of(t < n_here && !(gone >> t & 1), t + 32 < n_here && !(gone >> (t + 32) & 1), hits[t], hits[t + 32],
                  r.limit - r.n_kept);
      if (t == 0) chosen = keep;
    }
    __syncthreads();
    const unsigned long long keep = chosen; /* the next chunk's first barrier is behind this read */
    if (part == 0 && (keep >> column & 1)) r.kept[r.n_kept + __popcll(keep & ((1ull << column) - 1))] = boxes[column];
    r.n_kept += __popcll(keep);
  }
}

/* One block a row: boxes 64 at a time, by the matrix of bits as far as it goes, behind it box by box. */
KERNEL(nms_select) {
  const uint32_t row = blockIdx.x;
  const int64_t n_boxes = boxes_of(a);
  chosen_row r = {sorted_keys(a, row, n_boxes),
                  a.kept + row * a.limit,
                  row,
                  static_cast<int64_t>(row / static_cast<uint32_t>(a.classes)) * n_boxes,
                  static_cast<int>(n_boxes),
                  static_cast<int>(a.limit),
                  0,
                  limit_of(a)};
  select_by_bits(a, r);
  select_by_boxes(a, r);
  if (threadIdx.x == 0) a.counts[row] = r.n_kept;
}

/* A block for so many boxes of a row as it has threads; their places are behind the boxes of all rows before. */
KERNEL(nms_list) {
  if (!a.rows) { /* one block for the extent */
    if (threadIdx.x == 0) *a.extent = 0;
    return;
  }
  const uint32_t limit = a.limit ? static_cast<uint32_t>(a.limit) : 1, chunks = (limit + blockDim.x - 1) / blockDim.x,
                 row = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  const int64_t k = static_cast<int64_t>(chunk) * blockDim.x + threadIdx.x, n = a.counts[row];
  const bool is_last = row + 1 == a.rows && chunk == 0;
  if (chunk * blockDim.x >= n && !is_last) return; /* all threads */
  const int64_t box = k < n ? a.kept[row * a.limit + k] : 0;
  unsigned long long mine = 0, before;
  for (int64_t r = threadIdx.x; r < row; r += blockDim.x) mine += static_cast<unsigned long long>(a.counts[r]);
  (void)block_sum(mine, &before);
  const int64_t at = static_cast<int64_t>(before) + k;
  if (is_last && threadIdx.x == 0) *a.extent = static_cast<int64_t>(before) + n;
  if (k >= n) return;
  if (a.as_given) {
    a.selected[at] = box;
    return;
  }
  const uint32_t classes = static_cast<uint32_t>(a.classes);
  int64_t *const to = a.selected + 3 * at;
  to[0] = row / classes;
  to[1] = row % classes;
  to[2] = box;
}
