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

/* ---- strict f32, many rows ----
 * A block has 64 rows and 64 keys at a time, and 64 columns of values. A thread has 8 rows, 8 apart, against 4 keys, 16
 * apart, and against 4 neighbouring columns; a warp has 16 rows for all keys and all columns, so that weights pass
 * between its lanes alone. Keys and values come by copies that run ahead: those of the next tile's keys while values
 * are multiplied, those of its values while keys are. */
enum {
  TILED_ROWS = ATTENTION_TILED_ROWS,
  TILED_KEYS = ATTENTION_TILED_KEYS,
  TILED_COLUMNS = ATTENTION_TILED_COLUMNS,
  TILED_PITCH = ATTENTION_TILED_PITCH, /* of weights */
  TILED_THREADS = 128,
  MY_ROWS = 8,
  ROW_STEP = TILED_ROWS / MY_ROWS,
  MY_KEYS = 4,
  KEY_STEP = TILED_KEYS / MY_KEYS
};

/* Rows of `size` floats on their way to shared memory, with zeros behind them up to the pitch: from(row) is a row's
 * address, NULL: zeros. */
template <class F>
static __device__ inline void stage_floats(async_copies *copies, float *to, int rows, int pitch, int size, bool vectors,
                                           F from) {
  const int in_row = pitch / 4;
  ROLLED for (int i = static_cast<int>(threadIdx.x); i < rows * in_row; i += TILED_THREADS) {
    const int row = i / in_row, d = i % in_row * 4;
    const float *const data = from(row);
    uint32_t *const at = reinterpret_cast<uint32_t *>(to + row * pitch + d);
    if (vectors) {
      copies->copy(at, reinterpret_cast<const uint32_t *>(data ? data + d : nullptr), data && d < size);
      continue;
    }
    for (int e = 0; e < 4; e++)
      copies->copy_word(at + e, reinterpret_cast<const uint32_t *>(data ? data + d + e : nullptr),
                        data && d + e < size);
  }
}

/* sums[i][c] += the sum over e of left[i][e] right[e][c] (BY_ROWS), or of left[i][e] right[c][e]. */
template <bool BY_ROWS>
static __device__ inline void add_outer(float (&sums)[MY_ROWS][4], const float4 (&left)[MY_ROWS],
                                        const float4 (&right)[4]) {
  UNROLL for (int i = 0; i < MY_ROWS; i++) {
    const float l[4] = {left[i].x, left[i].y, left[i].z, left[i].w};
    UNROLL for (int e = 0; e < 4; e++) UNROLL for (int c = 0; c < 4; c++) {
      const float4 r = right[BY_ROWS ? e : c];
      const int part = BY_ROWS ? c : e;
      sums[i][c] = fmaf(l[e], part == 0 ? r.x : part == 1 ? r.y : part == 2 ? r.z : r.w, sums[i][c]);
    }
  }
}

/* The scores of one row of the thread at its keys, of which `first` is the first, masked. Keys from `end` on are
 * hidden. A mask has F32 or BOOL. Not inlined, because the places of eight rows would take the registers of the
 * products. */
static __device__ __noinline__ float4 hidden_scores(const attention_args &a, const attention_tile &t, int64_t row,
                                                    int first, int end, float4 four) {
  const attention_row of = row_at(a, t, row);
  const bool bytes = a.mask_dtype == REED_BOOL;
  const float low = static_cast<float>(a.low), outer = static_cast<float>(a.outside);
  float s[MY_KEYS] = {four.x, four.y, four.z, four.w};
  UNROLL for (int c = 0; c < MY_KEYS; c++) {
    const int j = first + c * KEY_STEP;
    float more = 0;
    if (a.mask && j < end) {
      const int64_t at = of.mask + j * a.mask_strides[3];
      if (!bytes) more = static_cast<const float *>(a.mask)[at];
      else if (!static_cast<const uint8_t *>(a.mask)[at]) more = static_cast<float>(a.hidden), s[c] = 0;
    }
    s[c] += more;
    const bool outside = j < of.first || j >= of.end;
    if (outside && (!(more <= low) || outer == -INFINITY)) s[c] += outer;
    if (j >= end) s[c] = -INFINITY;
  }
  return make_float4(s[0], s[1], s[2], s[3]);
}

static __device__ inline float4 four_at(const float *from) { return *reinterpret_cast<const float4 *>(from); }

static __device__ inline void run_tiled(const attention_args &a) {
  SHARED_DYNAMIC(float, shared);
  const int thread = static_cast<int>(threadIdx.x), my_row = thread / KEY_STEP, mine = thread % KEY_STEP,
            pitch = a.q_pitch, depth = (static_cast<int>(a.size) + 3) / 4 * 4;
  float *const q = shared, *const k = q + TILED_ROWS * pitch, *const v = k + TILED_KEYS * pitch,
               *const weights = v + TILED_KEYS * TILED_COLUMNS;
  const attention_tile t = find_tile(a, TILED_ROWS, TILED_COLUMNS);
  int64_t first_begin, last_end, low, high;
  find_keys(a, t, &first_begin, &last_end);
  find_queries(a, t, &low, &high);
  const int64_t reach = t.reach < a.mask_keys ? t.reach : a.mask_keys, free_last = end_key(a, t, low);
  const int begin = static_cast<int>(first_begin), end = static_cast<int>(last_end),
            free_begin = static_cast<int>(first_key(a, t, high)),
            free_end = static_cast<int>(free_last < last_end ? free_last : last_end),
            all = static_cast<int>(last_end < reach ? last_end : reach),
            columns = a.value_size - t.column < TILED_COLUMNS ? static_cast<int>(a.value_size - t.column)
                                                              : static_cast<int>(TILED_COLUMNS);
  const attention_tile cold = t; /* in memory, for calls */
  const auto in_four = [](const attention_operand &o, int64_t size) {
    return in_vectors(o.data, (o.batch | o.head | o.row | size) * static_cast<int64_t>(sizeof(float)));
  };
  const bool k_vectors = in_four(a.k, a.size) && in_four(a.past_k, a.size),
             v_vectors = in_four(a.v, a.value_size) && in_four(a.past_v, a.value_size);
  async_copies copies;
  const auto stage_k = [&](int j0) {
    stage_floats(&copies, k, TILED_KEYS, pitch, static_cast<int>(a.size), k_vectors, [&](int row) -> const float * {
      if (j0 + row >= end) return nullptr;
      return static_cast<const float *>(j0 + row < a.past ? a.past_k.data : a.k.data) +
             row_of(a, a.k, a.past_k, t, j0 + row);
    });
  };
  const auto stage_v = [&](int j0) {
    stage_floats(&copies, v, TILED_KEYS, TILED_COLUMNS, columns, v_vectors, [&](int row) -> const float * {
      if (j0 + row >= end) return nullptr;
      return static_cast<const float *>(j0 + row < a.past ? a.past_v.data : a.v.data) +
             row_of(a, a.v, a.past_v, t, j0 + row) + t.column;
    });
  };
  stage_floats(&copies, q, TILED_ROWS, pitch, static_cast<int>(a.size), in_four(a.q, a.size),
               [&](int row) -> const float * {
                 if (row >= t.n) return nullptr;
                 const query_place place = query_of(a, t, t.first + row);
                 return static_cast<const float *>(a.q.data) + t.batch * a.q.batch + place.head * a.q.head +
                        place.query * a.q.row;
               });
  const float scale = static_cast<float>(a.scale), cap = static_cast<float>(a.softcap);
  float most[MY_ROWS], weight[MY_ROWS], sums[MY_ROWS][4];
  for (bool careful = false;; careful = true) {
    UNROLL for (int i = 0; i < MY_ROWS; i++) {
      most[i] = -INFINITY;
      weight[i] = 0;
      UNROLL for (int c = 0; c < 4; c++) sums[i][c] = 0;
    }
    __syncthreads(); /* the keys and values of the pass before have been read */
    stage_k(begin);
    copies.commit();
    stage_v(begin);
    copies.commit();
    for (int j0 = begin; j0 < end; j0 += TILED_KEYS) {
      copies.wait<1>(); /* all but the values */
      __syncthreads();
      float s[MY_ROWS][MY_KEYS] = {};
      ROLLED for (int d = 0; d < depth; d += 4) {
        float4 of_q[MY_ROWS], of_k[MY_KEYS];
        UNROLL for (int i = 0; i < MY_ROWS; i++) of_q[i] = four_at(q + (my_row + i * ROW_STEP) * pitch + d);
        UNROLL for (int c = 0; c < MY_KEYS; c++) of_k[c] = four_at(k + (mine + c * KEY_STEP) * pitch + d);
        add_outer<false>(s, of_q, of_k);
      }
      __syncthreads(); /* the keys have been read */
      if (j0 + TILED_KEYS < end) stage_k(j0 + TILED_KEYS);
      copies.commit();
      const bool free = !a.mask && j0 >= free_begin && j0 + TILED_KEYS <= free_end;
      UNROLL for (int i = 0; i < MY_ROWS; i++) {
        UNROLL for (int c = 0; c < MY_KEYS; c++) {
          s[i][c] *= scale;
          if (cap > 0) s[i][c] = cap * tanhf(s[i][c] / cap);
        }
        const int row = my_row + i * ROW_STEP;
        if (!free) {
          const float4 four = hidden_scores(a, cold, t.first + (row < t.n ? row : t.n - 1), j0 + mine, all,
                                            make_float4(s[i][0], s[i][1], s[i][2], s[i][3]));
          s[i][0] = four.x;
          s[i][1] = four.y;
          s[i][2] = four.z;
          s[i][3] = four.w;
        }
        float now = most[i];
        UNROLL for (int c = 0; c < MY_KEYS; c++) now = max_or_nan(now, s[i][c]);
        for (int d = 1; d < KEY_STEP; d *= 2) now = max_or_nan(now, __shfl_xor_sync(~0u, now, d));
        const float from = now == -INFINITY ? 0 : now, less = most[i] == -INFINITY ? 0 : expf(most[i] - from);
        most[i] = now;
        weight[i] *= less;
        UNROLL for (int c = 0; c < 4; c++) sums[i][c] *= less;
        UNROLL for (int c = 0; c < MY_KEYS; c++) {
          const float share = expf(s[i][c] - from);
          weight[i] += share; /* of this thread's keys */
          weights[row * TILED_PITCH + mine + c * KEY_STEP] = share;
        }
      }
      copies.wait<1>(); /* all but the next keys */
      __syncthreads();  /* the values have come; the warp's weights are there */
      ROLLED for (int key = 0; key < TILED_KEYS; key += 4) {
        float4 of_row[MY_ROWS], of_v[4];
        UNROLL for (int i = 0; i < MY_ROWS; i++) of_row[i] =
            four_at(weights + (my_row + i * ROW_STEP) * TILED_PITCH + key);
        UNROLL for (int e = 0; e < 4; e++) of_v[e] = four_at(v + (key + e) * TILED_COLUMNS + mine * 4);
        if (!careful) {
          add_outer<true>(sums, of_row, of_v);
          continue;
        }
        /* values of weight 0 may be infinite or NaN */
        UNROLL for (int i = 0; i < MY_ROWS; i++) {
          const float share[4] = {of_row[i].x, of_row[i].y, of_row[i].z, of_row[i].w};
          UNROLL for (int e = 0; e < 4; e++) {
            if (share[e] == 0) continue;
            sums[i][0] = fmaf(share[e], of_v[e].x, sums[i][0]);
            sums[i][1] = fmaf(share[e], of_v[e].y, sums[i][1]);
            sums[i][2] = fmaf(share[e], of_v[e].z, sums[i][2]);
            sums[i][3] = fmaf(share[e], of_v[e].w, sums[i][3]);
          }
        }
      }
      __syncthreads(); /* the values have been read */
      if (j0 + TILED_KEYS < end) stage_v(j0 + TILED_KEYS);
      copies.commit();
    }
    copies.wait<0>();
    if (careful) break;
    float odd = 0; /* NaN if something is not finite */
    UNROLL for (int i = 0; i < MY_ROWS; i++) UNROLL for (int c = 0; c < 4; c++) odd = fmaf(sums[i][c], 0.0f, odd);
    if (!__syncthreads_or(odd != odd)) break;
  }
  UNROLL for (int i = 0; i < MY_ROWS; i++) {
    for (int d = 1; d < KEY_STEP; d *= 2) weight[i] += __shfl_xor_sync(~0u, weight[i], d);
    const int row = my_row + i * ROW_STEP;
    if (row >= t.n) continue; /* all threads of the row */
    const attention_place place = place_of(a, t, t.first + row);
    UNROLL for (int c = 0; c < 4; c++) if (mine * 4 + c < columns)
        put_sum<float>(a, place, REED_F32, t.column + mine * 4 + c, sums[i][c], weight[i]);
    if (mine == 0) put_weight<float>(a, t, place, most[i], weight[i]);
  }
}

KERNEL_OF_BLOCKS(3, attention_tiled_f32) { run_tiled(a); }

/* ---- joining of splits ---- */

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
