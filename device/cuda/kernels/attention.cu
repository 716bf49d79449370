/* Attention over tiles of queries and keys, after Dao et al. 2022, "FlashAttention": the scores of a tile are weighted
 * while they are in shared memory, and no tensor of all scores exists (but where the call asks for one). A row is a
 * query of a head; heads that share a key head share tiles, so that keys are read once for all of them. Few rows on
 * many keys are split over blocks, whose sums attention_join joins (Dao et al. 2023, "Flash-Decoding"). */
#include "device/cuda/kernels/elements.cuh"

enum { ROWS = 16, KEYS = 32, DEPTH = 32, COLUMNS = 128, LANES = 8, STEPS = KEYS / LANES };

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
};

static __device__ inline int64_t first_key(const attention_args &a, const attention_tile &t, int64_t query) {
  const int64_t first = query + t.offset - a.before;
  return first < 0 ? 0 : first;
}
static __device__ inline int64_t end_key(const attention_args &a, const attention_tile &t, int64_t query) {
  const int64_t end = query + t.offset + a.after + 1, most = t.reach < a.mask_keys ? t.reach : a.mask_keys;
  return end > most ? most : end < 0 ? 0 : end;
}

/* Where key or value `j` begins. */
static __device__ inline int64_t row_of(const attention_args &a, const attention_operand &now,
                                        const attention_operand &past, const attention_tile &t, int64_t j) {
  if (j < a.past) return t.batch * past.batch + t.kv_head * past.head + j * past.row;
  return t.batch * now.batch + t.kv_head * now.head + (j - a.past) * now.row;
}

template <class T>
static __device__ inline void note_score(const attention_args &a, const attention_tile &t, int64_t row, int64_t j,
                                         int32_t mode, T score) {
  if (!a.scores || mode != a.mode || t.column) return;
  const int64_t head = t.kv_head * a.shared + row / a.queries,
                at = ((t.batch * a.kv_heads * a.shared + head) * a.queries + row % a.queries) * a.total + j;
  element<T>::store(static_cast<int>(a.q.dtype), a.scores, at, score);
}

/* The score of a row and a key, from their product. */
template <class T>
static __device__ inline T score_of(const attention_args &a, const attention_tile &t, int64_t row, int64_t j, T sum) {
  const int64_t head = t.kv_head * a.shared + row / a.queries, query = row % a.queries;
  T x = sum * static_cast<T>(a.scale);
  note_score<T>(a, t, row, j, 0, x);
  if (a.softcap > 0) x = static_cast<T>(a.softcap) * tanh_of<T>(x / static_cast<T>(a.softcap));
  note_score<T>(a, t, row, j, 1, x);
  const bool outside = j < first_key(a, t, query) || j >= end_key(a, t, query);
  if (j >= t.reach || j >= a.mask_keys || (outside && a.outside == -INFINITY)) {
    x = -static_cast<T>(INFINITY);
  } else {
    bool hidden = false;
    T mask = 0;
    if (a.mask) {
      const int64_t at =
          t.batch * a.mask_strides[0] + head * a.mask_strides[1] + query * a.mask_strides[2] + j * a.mask_strides[3];
      hidden = a.mask_dtype == REED_BOOL && !static_cast<const uint8_t *>(a.mask)[at];
      if (hidden) mask = static_cast<T>(a.hidden);
      else if (a.mask_dtype != REED_BOOL) mask = static_cast<T>(element<double>::load(a.mask_dtype, a.mask, at));
    }
    x = hidden ? mask : x + mask;
    if (outside && !(mask <= static_cast<T>(a.low))) x += static_cast<T>(a.outside);
  }
  note_score<T>(a, t, row, j, 2, x);
  return x;
}

/* y of a row from its sums. */
template <class T> static __device__ inline T weighted(T sum, T weight, int32_t nan_rows, int64_t total) {
  if (weight == 0) return nan_rows > 0 && total ? static_cast<T>(NAN) : T(0);
  if (weight != weight && nan_rows < 0) return 0;
  return sum / weight;
}

template <class T> static __device__ inline void run_attention(const attention_args &a) {
  SHARED_ARRAY(T, part_q, [ROWS][DEPTH + 1]);
  SHARED_ARRAY(T, part_k, [KEYS][DEPTH + 1]);
  SHARED_ARRAY(T, scores, [ROWS][KEYS + 1]);
  SHARED_ARRAY(T, most, [ROWS]);
  SHARED_ARRAY(T, weight, [ROWS]);
  SHARED_ARRAY(T, shrink, [ROWS]);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, mine = thread / LANES,
            my_key = thread % LANES;
  const int q_dtype = static_cast<int>(a.q.dtype), v_dtype = static_cast<int>(a.v.dtype);
  const int64_t rows = a.shared * a.queries;
  int64_t block = blockIdx.x;
  const int64_t split = block % a.splits;
  block /= a.splits;
  attention_tile t;
  t.column = block % a.column_tiles * COLUMNS;
  block /= a.column_tiles;
  t.first = block % a.row_tiles * ROWS;
  block /= a.row_tiles;
  t.kv_head = block % a.kv_heads;
  t.batch = block / a.kv_heads;
  t.n = rows - t.first < ROWS ? rows - t.first : static_cast<int64_t>(ROWS);
  t.reach = a.total;
  t.offset = a.to_last_key ? a.total - a.queries : a.past;
  if (a.lengths) {
    const int64_t length = a.lengths[t.batch];
    t.reach = length < 0 ? 0 : length > a.total ? a.total : length;
    t.offset = a.past ? a.past : t.reach - a.queries;
  }
  /* The keys of the split that a row of the tile looks at; all where scores are wanted, or keys outside of the windows
   * count. */
  int64_t begin = split * a.split_keys, end = begin + a.split_keys < a.total ? begin + a.split_keys : a.total;
  if (!a.scores && a.outside == -INFINITY) {
    const bool one_head = t.first / a.queries == (t.first + t.n - 1) / a.queries;
    const int64_t first = first_key(a, t, one_head ? t.first % a.queries : 0),
                  last = end_key(a, t, one_head ? (t.first + t.n - 1) % a.queries : a.queries - 1);
    if (begin < first) begin = first;
    if (end > last) end = last;
  }
  if (thread < ROWS) {
    most[thread] = -static_cast<T>(INFINITY);
    weight[thread] = 0;
  }
  T sums[ROWS] = {};
  const int64_t column = t.column + thread;
  for (int64_t j0 = begin; j0 < end; j0 += KEYS) {
    T products[STEPS] = {};
    for (int64_t d0 = 0; d0 < a.size; d0 += DEPTH) {
      __syncthreads();
      for (int i = thread; i < ROWS * DEPTH; i += 128) {
        const int64_t row = t.first + i / DEPTH, d = d0 + i % DEPTH, head = t.kv_head * a.shared + row / a.queries;
        part_q[i / DEPTH][i % DEPTH] =
            i / DEPTH < t.n && d < a.size
                ? element<T>::load(q_dtype, a.q.data,
                                   t.batch * a.q.batch + head * a.q.head + row % a.queries * a.q.row + d)
                : T(0);
      }
      for (int i = thread; i < KEYS * DEPTH; i += 128) {
        const int64_t j = j0 + i / DEPTH, d = d0 + i % DEPTH;
        part_k[i / DEPTH][i % DEPTH] =
            j < end && d < a.size
                ? element<T>::load(q_dtype, j < a.past ? a.past_k.data : a.k.data, row_of(a, a.k, a.past_k, t, j) + d)
                : T(0);
      }
      __syncthreads();
      const int depth = a.size - d0 < DEPTH ? static_cast<int>(a.size - d0) : static_cast<int>(DEPTH);
      for (int d = 0; d < depth && mine < t.n; d++) {
        const T q = part_q[mine][d];
        UNROLL for (int s = 0; s < STEPS; s++) products[s] += q * part_k[my_key + LANES * s][d];
      }
    }
    for (int s = 0; s < STEPS; s++) {
      const int64_t j = j0 + my_key + LANES * s;
      T score = -static_cast<T>(INFINITY);
      if (mine < t.n && j < end) {
        score = score_of<T>(a, t, t.first + mine, j, products[s]);
        if (a.kept && t.column == 0)
          static_cast<T *>(a.kept)[((t.batch * a.kv_heads + t.kv_head) * rows + t.first + mine) * a.total + j] = score;
      }
      scores[mine][my_key + LANES * s] = score;
    }
    __syncthreads();
    /* a warp a row: the row's new most, and weights relative to it; NaN stays the most */
    for (int row = warp; row < ROWS; row += 4) {
      const T score = scores[row][lane], before = most[row];
      T now = score > before || score != score ? score : before;
      for (int d = 16; d; d /= 2) {
        const T other = __shfl_xor_sync(~0u, now, d);
        if (other > now || other != other) now = other;
      }
      const T from = now == -static_cast<T>(INFINITY) ? T(0) : now, share = exp_of<T>(score - from);
      T sum = share;
      for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
      scores[row][lane] = share;
      __syncwarp(); /* all lanes have read the row's most */
      if (lane) continue;
      const T less = before == -static_cast<T>(INFINITY) ? T(0) : exp_of<T>(before - from);
      most[row] = now;
      weight[row] = weight[row] * less + sum;
      shrink[row] = less;
    }
    __syncthreads();
    const int keys = end - j0 < KEYS ? static_cast<int>(end - j0) : static_cast<int>(KEYS);
    if (column < a.value_size) {
      UNROLL for (int row = 0; row < ROWS; row++) sums[row] *= shrink[row];
      for (int k = 0; k < keys; k++) {
        const int64_t j = j0 + k;
        const T v =
            element<T>::load(v_dtype, j < a.past ? a.past_v.data : a.v.data, row_of(a, a.v, a.past_v, t, j) + column);
        UNROLL for (int row = 0; row < ROWS; row++) {
          const T share = scores[row][k];
          if (share != 0) sums[row] += share * v; /* masked values may be anything */
        }
      }
    }
    __syncthreads();
  }
  __syncthreads();
  const int64_t head_rows = (t.batch * a.kv_heads + t.kv_head) * rows;
  if (a.kept && a.scores && t.column == 0) {
    for (int64_t i = thread; i < t.n * a.total; i += 128) {
      const int64_t row = i / a.total, j = i % a.total;
      const T from = most[row] == -static_cast<T>(INFINITY) ? T(0) : most[row];
      const T share = exp_of<T>(static_cast<const T *>(a.kept)[(head_rows + t.first + row) * a.total + j] - from);
      note_score<T>(a, t, t.first + row, j, 3, weighted<T>(share, weight[row], a.nan_rows, a.total));
    }
  }
  for (int row = 0; row < t.n; row++) {
    const int64_t r = t.first + row, head = t.kv_head * a.shared + r / a.queries;
    if (a.sums) {
      const int64_t at = (head_rows + r) * a.splits + split;
      if (column < a.value_size) static_cast<T *>(a.parts)[at * a.value_size + column] = sums[row];
      if (thread < 2 && t.column == 0) static_cast<T *>(a.sums)[2 * at + thread] = thread ? weight[row] : most[row];
    } else if (column < a.value_size) {
      element<T>::store(q_dtype, a.y, t.batch * a.y_batch + head * a.y_head + r % a.queries * a.y_row + column,
                        weighted<T>(sums[row], weight[row], a.nan_rows, a.total));
    }
  }
}

KERNEL(attention_f32) { run_attention<float>(a); }
KERNEL(attention_f64) { run_attention<double>(a); }

/* One thread an element of y. */
template <class T> static __device__ inline void run_join(const attention_join_args &a) {
  const int64_t i = thread_number(), r = i / a.value_size, column = i % a.value_size;
  if (r >= a.rows) return;
  const T *const sums = static_cast<const T *>(a.sums) + 2 * r * a.splits, *const parts =
                                                                               static_cast<const T *>(a.parts) +
                                                                               r * a.splits * a.value_size + column;
  T most = -static_cast<T>(INFINITY), sum = 0, weight = 0;
  for (int64_t s = 0; s < a.splits; s++)
    if (sums[2 * s] > most || sums[2 * s] != sums[2 * s]) most = sums[2 * s];
  const T from = most == -static_cast<T>(INFINITY) ? T(0) : most;
  for (int64_t s = 0; s < a.splits; s++) {
    if (sums[2 * s] == -static_cast<T>(INFINITY)) continue; /* a split without a key */
    const T less = exp_of<T>(sums[2 * s] - from);
    sum += parts[s * a.value_size] * less;
    weight += sums[2 * s + 1] * less;
  }
  const int64_t rows = a.shared * a.queries, row = r % rows, kv = r / rows % a.kv_heads, batch = r / rows / a.kv_heads;
  element<T>::store(a.dtype, a.y,
                    batch * a.y_batch + (kv * a.shared + row / a.queries) * a.y_head + row % a.queries * a.y_row +
                        column,
                    weighted<T>(sum, weight, a.nan_rows, a.total));
}

KERNEL(attention_join_f32) { run_join<float>(a); }
KERNEL(attention_join_f64) { run_join<double>(a); }
