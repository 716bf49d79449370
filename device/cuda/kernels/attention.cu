/* Attention over tiles of queries and keys, after Dao et al. 2022, "FlashAttention": the scores of a tile are weighted
 * while they are in shared memory, and no tensor of all scores exists (but where the call asks for one). Few rows on
 * many keys are split over blocks, whose sums attention_join joins (Dao et al. 2023, "Flash-Decoding"). Tensor cores:
 * attention_mma.cu. */
#include "device/cuda/kernels/attention.cuh"

enum { ROWS = 16, KEYS = 32, DEPTH = 32, COLUMNS = ATTENTION_COLUMNS, LANES = 8, STEPS = KEYS / LANES };

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
  const attention_tile t = find_tile(a, ROWS, COLUMNS);
  const attention_row my_row = row_at(a, t, t.first + (mine < t.n ? mine : t.n - 1));
  int64_t begin, end;
  find_keys(a, t, &begin, &end);
  if (thread < ROWS) {
    most[thread] = -static_cast<T>(INFINITY);
    weight[thread] = 0;
  }
  T sums[ROWS] = {};
  const int64_t column = t.column + thread;
  for (int64_t j0 = begin; j0 < end; j0 += KEYS) {
    T products[STEPS] = {};
    int64_t d0 = 0;
    do {
      __syncthreads(); /* all threads have read the parts before these; heads without elements need the barrier, too */
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
      d0 += DEPTH;
    } while (d0 < a.size);
    for (int s = 0; s < STEPS; s++) {
      const int64_t j = j0 + my_key + LANES * s;
      T score = -static_cast<T>(INFINITY);
      if (mine < t.n && j < end) {
        score = score_of<T>(a, t, my_row, j, products[s]);
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
  }
  __syncthreads();
  const int64_t head_rows = (t.batch * a.kv_heads + t.kv_head) * rows;
  if (a.kept && a.scores && t.column == 0) {
    for (int64_t i = thread; i < t.n * a.total; i += 128) {
      const int64_t row = i / a.total, j = i % a.total;
      const T from = most[row] == -static_cast<T>(INFINITY) ? T(0) : most[row];
      const T share = exp_of<T>(static_cast<const T *>(a.kept)[(head_rows + t.first + row) * a.total + j] - from);
      note_score<T>(a, t, row_at(a, t, t.first + row), j, 3, weighted<T>(share, weight[row], a.nan_rows, a.total));
    }
  }
  for (int row = 0; row < t.n; row++) {
    const attention_place place = place_of(a, t, t.first + row);
    if (column < a.value_size) put_sum<T>(a, place, q_dtype, column, sums[row], weight[row]);
    if (thread == 0) put_weight<T>(a, t, place, most[row], weight[row]);
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
