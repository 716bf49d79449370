/* NonMaxSuppression and torchvision's nms in four steps, all rows (classes of batches) side by side, with the bits
 * of the host's (ops/cpu/reference/nms.c): a sort of each row by score (runs, which are merged), the overlaps of the
 * best boxes of each row as a matrix of bits in tiles of 64 x 64, a walk over the sorted boxes 64 at a time, and the
 * list of all rows. Compiled without fused multiply-adds, because a rounding decides. */
#include "device/cuda/kernels/merge.cuh"
#include "device/cuda/kernels/values.cuh"

enum { CHUNK = NMS_CHUNK };
static constexpr uint32_t KEY_FIRST = 0, KEY_NAN = 0xfffffffeu, KEY_NONE = 0xffffffffu;

/* A coordinate or score, which torchvision's nms also takes in half precision. */
static __device__ inline float float_at(int dtype, const void *data, int64_t i) {
  return dtype == REED_F32 ? static_cast<const float *>(data)[i] : value_as<float>(value_load(dtype, data, i));
}

/* The boxes of a batch. */
static __device__ inline int64_t boxes_of(const nms_args &a) { return a.counted.count ? true_count(a.counted) : a.n; }

/* A smaller key comes first: a higher score; of equal ones the lower index, which the key's lower half is. NaN comes
 * after all numbers (as_given: before them), boxes that take no part after NaN. */
static __device__ inline uint32_t key_of(const nms_args &a, int64_t n, int64_t row, int64_t i) {
  const int64_t batch = row / a.classes;
  const float score = float_at(a.scores_dtype, a.scores, row * n + i);
  if (a.candidates && !a.candidates[batch * n + i]) return KEY_NONE;
  if (a.least && !(score > *a.least)) return KEY_NONE;
  if (score != score) return a.as_given ? KEY_FIRST : KEY_NAN;
  const uint32_t bits = score == 0 ? 0 : __float_as_uint(score);
  return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

/* Keys of a row: a power of two, as the true number of boxes needs. */
static __device__ inline int64_t padded_of(int64_t n) {
  int64_t padded = 2;
  while (padded < n) padded *= 2;
  return padded;
}

/* The sorted keys of a row of n boxes: each merge writes into the other memory. */
static __device__ inline const uint64_t *sorted_keys(const nms_args &a, int64_t row, int64_t n) {
  bool odd = false;
  for (int64_t run = NMS_SORT_RUN; run < n; run *= 2) odd = !odd;
  return (odd ? a.merged : a.sorted) + row * a.padded;
}

/* Bitonic sort (Batcher 1968) of a run of a row's keys by one block. */
KERNEL(nms_sort) {
  SHARED_DYNAMIC(uint64_t, keys);
  const int64_t most = a.padded < NMS_SORT_RUN ? a.padded : static_cast<int64_t>(NMS_SORT_RUN), runs = a.padded / most,
                row = blockIdx.x / runs, begin = blockIdx.x % runs * most, n = boxes_of(a), padded = padded_of(n);
  if (begin >= padded) return; /* all threads */
  const int64_t here = padded < most ? padded : most;
  for (int64_t i = threadIdx.x; i < here; i += blockDim.x) {
    const int64_t box = begin + i;
    keys[i] = box < n ? static_cast<uint64_t>(key_of(a, n, row, box)) << 32 | static_cast<uint64_t>(box) : UINT64_MAX;
  }
  __syncthreads();
  for (int64_t run = 2; run <= here; run *= 2)
    for (int64_t apart = run / 2; apart; apart /= 2) {
      for (int64_t k = threadIdx.x; k < here / 2; k += blockDim.x) {
        const int64_t low = k / apart * 2 * apart + k % apart, high = low + apart;
        const bool falls = (low & run) != 0;
        const uint64_t first = keys[low], second = keys[high];
        if ((first > second) == falls) continue;
        keys[low] = second;
        keys[high] = first;
      }
      __syncthreads();
    }
  uint64_t *const to = a.sorted + row * a.padded + begin;
  for (int64_t i = threadIdx.x; i < here; i += blockDim.x) to[i] = keys[i];
}

/* One thread a key. Keys are different but for those behind the boxes. */
KERNEL(nms_merge) {
  const int64_t i = thread_number() % a.padded, row = thread_number() / a.padded;
  if (row >= a.rows || i >= padded_of(boxes_of(a)) || a.run >= padded_of(boxes_of(a))) return;
  const uint64_t *const from = sorted_keys(a, row, a.run); /* the merges before */
  uint64_t *const to = from == a.sorted + row * a.padded ? a.merged : a.sorted;
  const uint64_t key = from[i];
  const int64_t place = merged_place(
      i, a.padded, a.run, [&](int64_t j, bool or_equal) { return from[j] < key || (or_equal && from[j] == key); });
  to[row * a.padded + place] = key;
}

struct corners {
  float x1, y1, x2, y2;
};

/* With x1 <= x2 and y1 <= y2 unless boxes are taken as given, as nms_corners of ops/cpu/calls/nms.c. */
static __device__ inline corners corners_of(const nms_args &a, int64_t box) {
  float c[4];
  UNROLL for (int k = 0; k < 4; k++) c[k] = float_at(a.boxes_dtype, a.boxes, 4 * box + k);
  if (a.as_given) return {c[0], c[1], c[2], c[3]};
  if (a.centers) {
    const float half_width = c[2] / 2, half_height = c[3] / 2;
    return {c[0] - half_width, c[1] - half_height, c[0] + half_width, c[1] + half_height};
  }
  const bool x_swapped = c[1] > c[3], y_swapped = c[0] > c[2];
  return {x_swapped ? c[3] : c[1], y_swapped ? c[2] : c[0], x_swapped ? c[1] : c[3], y_swapped ? c[0] : c[2]};
}

/* The order of operations is the host's. */
static __device__ inline float overlap(const corners &a, const corners &b) {
  const float width = (a.x2 < b.x2 ? a.x2 : b.x2) - (a.x1 > b.x1 ? a.x1 : b.x1),
              height = (a.y2 < b.y2 ? a.y2 : b.y2) - (a.y1 > b.y1 ? a.y1 : b.y1);
  const float both = (width > 0 ? width : 0) * (height > 0 ? height : 0);
  const float area_a = (a.x2 - a.x1) * (a.y2 - a.y1), area_b = (b.x2 - b.x1) * (b.y2 - b.y1);
  return both / (area_a + area_b - both);
}

static __device__ inline float limit_of(const nms_args &a) { return a.as_given ? a.threshold : a.iou ? *a.iou : 0; }

/* The words of a tile's column of the matrix, one for each box that comes before: bit j of a word says that the box
 * suppresses box j of the tile. */
static __device__ inline unsigned long long *words_of(const nms_args &a, int64_t row, int64_t tile) {
  return a.mask + (row * a.tiles + tile) * a.tiles * CHUNK;
}

/* One block for a tile on or above the diagonal of a row's matrix; four threads for a word. Columns q and tiles - 1 - q
 * have tiles + 1 such tiles together, so that half as many columns as tiles, each of tiles + 1 blocks, are all. */
KERNEL(nms_mask) {
  SHARED_ARRAY(corners, later, [CHUNK]);
  SHARED_ARRAY(int64_t, ids, [CHUNK]);
  const int64_t each = a.tiles + 1, pair = blockIdx.x / each % (each / 2), row = blockIdx.x / each / (each / 2),
                place = blockIdx.x % each, column = place <= pair ? pair : a.tiles - 1 - pair,
                upper = place <= pair ? place : place - pair - 1, batch = row / a.classes, n_boxes = boxes_of(a),
                begin = column * CHUNK, all = batch * n_boxes;
  if (place > pair && column == pair) return; /* the column in the middle has no partner */
  const uint64_t *const sorted = sorted_keys(a, row, n_boxes);
  const int t = static_cast<int>(threadIdx.x), i = t / 4, part = t % 4;
  const bool loads = t < CHUNK && begin + t < n_boxes && sorted[begin + t] >> 32 != KEY_NONE;
  const int n_here = __syncthreads_count(loads);
  if (!n_here) return;
  if (loads) {
    const int64_t box = all + static_cast<int64_t>(sorted[begin + t] & 0xffffffffu);
    later[t] = corners_of(a, box);
    ids[t] = a.ids ? a.ids[box] : 0;
  }
  __syncthreads();
  const int64_t at = upper * CHUNK + i;
  const float limit = limit_of(a);
  unsigned long long word = 0;
  if (upper < column || i < n_here) {
    const int64_t box = all + static_cast<int64_t>(sorted[at] & 0xffffffffu), id = a.ids ? a.ids[box] : 0;
    const corners mine = corners_of(a, box);
    for (int j = part; j < n_here; j += 4)
      if ((upper < column || j > i) && ids[j] == id && overlap(mine, later[j]) > limit) word |= 1ull << j;
  }
  word |= __shfl_xor_sync(~0u, word, 1);
  word |= __shfl_xor_sync(~0u, word, 2);
  if (part == 0) words_of(a, row, column)[at] = word;
}

/* One block a row. A chunk of 64 boxes is compared with all kept boxes and with itself: by the matrix of bits as far as
 * it goes, behind it box by box. Then one thread decides box after box from the bits. */
KERNEL(nms_select) {
  SHARED_ARRAY(corners, chunk, [CHUNK]);
  SHARED_ARRAY(int64_t, ids, [CHUNK]);
  SHARED_ARRAY(int32_t, boxes, [CHUNK]);
  SHARED_ARRAY(unsigned long long, hits, [CHUNK]);               /* bit j of hits[i]: box i suppresses box j */
  SHARED_ARRAY(unsigned long long, kept_bits, [NMS_MOST_TILES]); /* per tile of the matrix: the kept boxes */
  SHARED_VALUE(unsigned long long, gone);                        /* boxes of the chunk that kept boxes suppress */
  SHARED_VALUE(unsigned long long, chosen);
  const int64_t row = blockIdx.x, batch = row / a.classes, n_boxes = boxes_of(a);
  const int t = static_cast<int>(threadIdx.x), column = t % CHUNK, part = t / CHUNK,
            parts = static_cast<int>(blockDim.x) / CHUNK;
  const float limit = limit_of(a);
  const int64_t all = batch * n_boxes;
  const uint64_t *const sorted = sorted_keys(a, row, n_boxes);
  int32_t *const kept = a.kept + row * a.limit;
  int64_t n_kept = 0;
  for (int64_t begin = 0, tile = 0; begin < n_boxes && n_kept < a.limit; begin += CHUNK, tile++) {
    const bool by_bits = tile < a.tiles;
    const unsigned long long *const words = by_bits ? words_of(a, row, tile) : nullptr;
    const int64_t at = begin + column;
    const bool here = at < n_boxes && sorted[at] >> 32 != KEY_NONE;
    const int n_here = __syncthreads_count(here && part == 0);
    if (!n_here) break;
    if (part == 0 && here) {
      const int32_t box = static_cast<int32_t>(sorted[at] & 0xffffffffu);
      boxes[column] = box;
      if (!by_bits) {
        chunk[column] = corners_of(a, all + box);
        ids[column] = a.ids ? a.ids[all + box] : 0;
      }
    }
    if (part == 0) hits[column] = by_bits && here ? words[at] : 0;
    if (t == 0) gone = 0;
    __syncthreads();
    if (by_bits) {
      unsigned long long dead = 0;
      for (int64_t k = t; k < begin; k += blockDim.x)
        if (kept_bits[k / CHUNK] >> k % CHUNK & 1) dead |= words[k];
      for (int lanes = 16; lanes; lanes /= 2) dead |= __shfl_xor_sync(~0u, dead, lanes);
      if (t % 32 == 0 && dead) atomicOr(&gone, dead);
    } else if (here) {
      const corners mine = chunk[column];
      const int64_t id = ids[column];
      bool suppressed = false;
      for (int64_t k = part; k < n_kept && !suppressed; k += parts) {
        const int64_t box = all + kept[k];
        if (a.ids && a.ids[box] != id) continue;
        suppressed = overlap(corners_of(a, box), mine) > limit;
      }
      if (suppressed) atomicOr(&gone, 1ull << column);
      unsigned long long hit = 0;
      for (int j = column + 1 + part; j < n_here; j += parts)
        if (ids[j] == id && overlap(mine, chunk[j]) > limit) hit |= 1ull << j;
      if (hit) atomicOr(&hits[column], hit);
    }
    __syncthreads();
    if (t == 0) {
      unsigned long long dead = gone, keep = 0;
      int64_t n = n_kept;
      UNROLL for (int i = 0; i < CHUNK; i++) { /* without branches: words are loaded ahead of their use */
        const bool keeps = i < n_here && n < a.limit && !(dead >> i & 1);
        keep |= static_cast<unsigned long long>(keeps) << i;
        dead |= keeps ? hits[i] : 0;
        n += keeps;
      }
      chosen = keep;
      if (by_bits) kept_bits[tile] = keep;
    }
    __syncthreads();
    if (part == 0 && (chosen >> column & 1)) kept[n_kept + __popcll(chosen & ((1ull << column) - 1))] = boxes[column];
    n_kept += __popcll(chosen); /* the next chunk's count of boxes is the barrier behind these reads */
  }
  if (t == 0) a.counts[row] = static_cast<int32_t>(n_kept);
}

/* One block a row: its place is behind the boxes of all rows before. */
KERNEL(nms_list) {
  SHARED_VALUE(unsigned long long, before);
  const int64_t row = blockIdx.x;
  if (!a.rows) { /* one block for the extent */
    if (threadIdx.x == 0) *a.extent = 0;
    return;
  }
  unsigned long long mine = 0;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  for (int64_t r = threadIdx.x; r < row; r += blockDim.x) mine += static_cast<unsigned long long>(a.counts[r]);
  if (mine) atomicAdd(&before, mine);
  __syncthreads();
  const int64_t first = static_cast<int64_t>(before), n = a.counts[row];
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) {
    const int64_t box = a.kept[row * a.limit + k];
    if (a.as_given) {
      a.selected[first + k] = box;
      continue;
    }
    int64_t *const to = a.selected + 3 * (first + k);
    to[0] = row / a.classes;
    to[1] = row % a.classes;
    to[2] = box;
  }
  if (row == a.rows - 1 && threadIdx.x == 0) *a.extent = first + n;
}
