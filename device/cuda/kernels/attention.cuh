/* Tiles and scores of Attention, as the kernels of attention.cu and attention_mma.cu share them. A row is a query of a
 * head; heads that share a key head share tiles, so that keys are read once for all of them. */
#ifndef DEVICE_CUDA_KERNELS_ATTENTION_CUH_
#define DEVICE_CUDA_KERNELS_ATTENTION_CUH_

#include "device/cuda/kernels/elements.cuh"

template <class T> static __device__ inline T exp_of(T x);
template <> __device__ inline float exp_of(float x) { return expf(x); }
template <> __device__ inline double exp_of(double x) { return exp(x); }
template <class T> static __device__ inline T tanh_of(T x);
template <> __device__ inline float tanh_of(float x) { return tanhf(x); }
template <> __device__ inline double tanh_of(double x) { return tanh(x); }

/* The rows of a tile, and the keys that they look at. */
struct attention_tile {
  int64_t batch, kv_head, first, n; /* rows first .. first + n of the key head */
  int64_t reach, offset;            /* keys of the batch; the key at the place of query 0 */
  int64_t column;                   /* of the values */
  int64_t split;
};

/* A row of a tile: its head and query, the keys of its windows, and the places of key 0 in the mask and in the scores.
 */
struct attention_row {
  int64_t head, query, first, end, mask, scores;
};

static __device__ inline int64_t first_key(const attention_args &a, const attention_tile &t, int64_t query) {
  const int64_t first = query + t.offset - a.before;
  return first < 0 ? 0 : first;
}
static __device__ inline int64_t end_key(const attention_args &a, const attention_tile &t, int64_t query) {
  const int64_t end = query + t.offset + a.after + 1, most = t.reach < a.mask_keys ? t.reach : a.mask_keys;
  return end > most ? most : end < 0 ? 0 : end;
}

/* The tile of this block, for tiles of so many rows and columns. */
static __device__ inline attention_tile find_tile(const attention_args &a, int64_t rows, int64_t columns) {
  const int64_t all = a.shared * a.queries;
  attention_tile t;
  int64_t block = blockIdx.x;
  /* divisions by 1 are left out, because a block of few keys takes about as long as its divisions */
  t.split = a.splits == 1 ? 0 : split_last(&block, a.splits);
  t.column = a.column_tiles == 1 ? 0 : split_last(&block, a.column_tiles) * columns;
  t.first = split_last(&block, a.row_tiles) * rows;
  t.kv_head = split_last(&block, a.kv_heads);
  t.batch = block;
  t.n = all - t.first < rows ? all - t.first : rows;
  t.reach = a.total;
  t.offset = a.to_last_key ? a.total - a.queries : a.past;
  if (a.lengths) {
    const int64_t length = a.lengths[t.batch];
    t.reach = length < 0 ? 0 : length > a.total ? a.total : length;
    t.offset = a.past ? a.past : t.reach - a.queries;
  }
  return t;
}

/* Head and query of a key head's row. */
struct query_place {
  int64_t head, query;
};
static __device__ inline query_place query_of(const attention_args &a, const attention_tile &t, int64_t row) {
  if (a.shared == 1) return {t.kv_head, row};
  const int64_t query = split_last(&row, a.queries);
  return {t.kv_head * a.shared + row, query};
}

/* The first and the last query of a tile; of all heads if the tile has rows of several. */
static __device__ inline void find_queries(const attention_args &a, const attention_tile &t, int64_t *out_first,
                                           int64_t *out_last) {
  const query_place first = query_of(a, t, t.first), last = query_of(a, t, t.first + t.n - 1);
  const bool one_head = first.head == last.head;
  *out_first = one_head ? first.query : 0;
  *out_last = one_head ? last.query : a.queries - 1;
}

/* The keys of the split that a row of the tile looks at; all where scores are wanted, or keys outside of the windows
 * count. */
static __device__ inline void find_keys(const attention_args &a, const attention_tile &t, int64_t *out_begin,
                                        int64_t *out_end) {
  int64_t begin = t.split * a.split_keys, end = begin + a.split_keys < a.total ? begin + a.split_keys : a.total;
  if (!a.scores && a.outside == -INFINITY) {
    int64_t low, high;
    find_queries(a, t, &low, &high);
    const int64_t first = first_key(a, t, low), last = end_key(a, t, high);
    if (begin < first) begin = first;
    if (end > last) end = last;
  }
  *out_begin = begin;
  *out_end = end;
}

/* The place of the first element of key or value `j`. */
static __device__ inline int64_t row_of(const attention_args &a, const attention_operand &now,
                                        const attention_operand &past, const attention_tile &t, int64_t j) {
  if (j < a.past) return t.batch * past.batch + t.kv_head * past.head + j * past.row;
  return t.batch * now.batch + t.kv_head * now.head + (j - a.past) * now.row;
}

static __device__ inline attention_row row_at(const attention_args &a, const attention_tile &t, int64_t row) {
  const query_place place = query_of(a, t, row);
  attention_row r;
  r.head = place.head;
  r.query = place.query;
  r.first = first_key(a, t, r.query);
  r.end = end_key(a, t, r.query);
  r.mask = t.batch * a.mask_strides[0] + r.head * a.mask_strides[1] + r.query * a.mask_strides[2];
  r.scores = ((t.batch * a.kv_heads * a.shared + r.head) * a.queries + r.query) * a.total;
  return r;
}

template <class T>
static __device__ inline void note_score(const attention_args &a, const attention_tile &t, const attention_row &r,
                                         int64_t j, int32_t mode, T score) {
  if (!a.scores || mode != a.mode || t.column) return;
  element<T>::store(static_cast<int>(a.q.dtype), a.scores, r.scores + j, score);
}

/* The score of a row and a key, from their product. */
template <class T>
static __device__ inline T score_of(const attention_args &a, const attention_tile &t, const attention_row &r, int64_t j,
                                    T sum) {
  T x = sum * static_cast<T>(a.scale);
  note_score<T>(a, t, r, j, 0, x);
  if (a.softcap > 0) x = static_cast<T>(a.softcap) * tanh_of<T>(x / static_cast<T>(a.softcap));
  note_score<T>(a, t, r, j, 1, x);
  const bool outside = j < r.first || j >= r.end;
  if (j >= t.reach || j >= a.mask_keys || (outside && a.outside == -INFINITY)) {
    x = -static_cast<T>(INFINITY);
  } else {
    bool hidden = false;
    T mask = 0;
    if (a.mask) {
      const int64_t at = r.mask + j * a.mask_strides[3];
      hidden = a.mask_dtype == REED_BOOL && !static_cast<const uint8_t *>(a.mask)[at];
      if (hidden) mask = static_cast<T>(a.hidden);
      else if (a.mask_dtype != REED_BOOL) mask = static_cast<T>(element<double>::load(a.mask_dtype, a.mask, at));
    }
    x = hidden ? mask : x + mask;
    if (outside && !(mask <= static_cast<T>(a.low))) x += static_cast<T>(a.outside);
  }
  note_score<T>(a, t, r, j, 2, x);
  return x;
}

/* y of a row from its sums. */
template <class T> static __device__ inline T weighted(T sum, T weight, int32_t nan_rows, int64_t total) {
  if (weight == 0) return nan_rows > 0 && total ? static_cast<T>(NAN) : T(0);
  if (weight != weight && nan_rows < 0) return 0;
  return sum / weight;
}

/* The place of a row's results: the parts of its split, or column 0 of y. */
struct attention_place {
  int64_t part, y;
};
static __device__ inline attention_place place_of(const attention_args &a, const attention_tile &t, int64_t row) {
  const query_place place = query_of(a, t, row);
  return {((t.batch * a.kv_heads + t.kv_head) * a.shared * a.queries + row) * a.splits + t.split,
          t.batch * a.y_batch + place.head * a.y_head + place.query * a.y_row};
}

/* Writes a column of a row: to y, or, for attention_join, to the parts. dtype: of y. */
template <class T>
static __device__ inline void put_sum(const attention_args &a, const attention_place &place, int dtype, int64_t column,
                                      T sum, T weight) {
  if (a.sums) static_cast<T *>(a.parts)[place.part * a.value_size + column] = sum;
  else element<T>::store(dtype, a.y, place.y + column, weighted<T>(sum, weight, a.nan_rows, a.total));
}

/* Writes the largest score and the sum of weights of a row, for attention_join. */
template <class T>
static __device__ inline void put_weight(const attention_args &a, const attention_tile &t, const attention_place &place,
                                         T most, T weight) {
  if (!a.sums || t.column) return;
  static_cast<T *>(a.sums)[2 * place.part] = most;
  static_cast<T *>(a.sums)[2 * place.part + 1] = weight;
}

#endif
