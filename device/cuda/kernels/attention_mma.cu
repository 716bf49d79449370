/* Attention on tensor cores, after Dao 2023, "FlashAttention-2": scores, weights and sums stay in the registers of
 * mma.sync fragments, sums are f32. A tile of many rows gives 16 rows to each of four warps, and each warp all keys. A
 * tile of at most 16 rows, such as a step of a decoder, gives all rows to each warp and a quarter of the keys, and
 * joins the warps at its end. Weights are rounded to the operands' format before they are multiplied with the values.
 */
#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/units.cuh"

enum { THREADS = 128, WARPS = 4, COLUMNS = ATTENTION_COLUMNS, COLUMN_PARTS = COLUMNS / MMA_COLUMNS };
static constexpr float LOG2_OF_E = 1.44269504088896341f;

/* Keys of a tile, and those of a warp: parts of 8, the columns of a fragment of scores; steps of the product with the
 * values. */
template <class Unit, int ROW_WARPS> struct shape {
  enum {
    ROWS = ROW_WARPS * MMA_ROWS,
    KEYS = ATTENTION_MMA_KEYS * Unit::IN_WORD,
    WARP_KEYS = ROW_WARPS == 1 ? KEYS / WARPS : KEYS,
    PARTS = WARP_KEYS / MMA_COLUMNS,
    STEPS = PARTS / Unit::IN_WORD
  };
};

/* Rows of `size` elements in shared memory: `from(row)` is where a row begins in memory, NULL: zeros. Elements behind
 * the row's end are zeros up to the pitch. Returns not 0 if an element of the thread is infinite or NaN. */
template <class Unit, class F>
static __device__ inline uint32_t stage(uint32_t *to, int rows, int pitch, int64_t size, bool vectors, F from) {
  const int words = pitch - 4, thread = static_cast<int>(threadIdx.x);
  uint32_t odd = 0;
  if (vectors) {
    for (int i = thread; i < rows * (words / 4); i += THREADS) {
      const int row = i / (words / 4), w = i % (words / 4) * 4;
      const void *const data = from(row);
      uint4 four = make_uint4(0, 0, 0, 0);
      if (data && w * Unit::IN_WORD < size) four = static_cast<const uint4 *>(data)[w / 4];
      four = make_uint4(Unit::of_memory(four.x), Unit::of_memory(four.y), Unit::of_memory(four.z),
                        Unit::of_memory(four.w));
      odd |= Unit::odd(four.x) | Unit::odd(four.y) | Unit::odd(four.z) | Unit::odd(four.w);
      *reinterpret_cast<uint4 *>(to + row * pitch + w) = four;
    }
    return odd;
  }
  for (int i = thread; i < rows * words; i += THREADS) {
    const int row = i / words, w = i % words;
    const void *const data = from(row);
    const uint32_t word = Unit::word([&](int e) {
      const int64_t d = w * Unit::IN_WORD + e;
      return data && d < size ? element<float>::load(Unit::DTYPE, data, d) : 0.0f;
    });
    odd |= Unit::odd(word);
    to[row * pitch + w] = word;
  }
  return odd;
}

/* Elements from one row, head and batch to the next are whole vectors, and so are the rows. */
static __device__ inline bool rows_in_vectors(const attention_operand &o, int64_t size, int64_t bytes) {
  return in_vectors(o.data, (o.batch | o.head | o.row | size) * bytes);
}

/* Fragment a of weights from fragments of scores, and fragments b of the values of the same keys in two neighbouring
 * column parts. An a of tf32 has 8 keys in the order 0, 2, 4, 6, 1, 3, 5, 7, so that each lane has its weights already;
 * b has the values in that order. */
template <class Unit> struct values_of {
  template <int PARTS> static __device__ inline void weights(uint32_t (&a)[4], const float (&s)[PARTS][4], int step) {
    UNROLL for (int i = 0; i < 4; i++) a[i] = Unit::word([&](int e) { return s[2 * step + i / 2][i % 2 * 2 + e]; });
  }
  static __device__ inline void load(uint32_t (&b)[2][2], const uint32_t *v, int pitch, int part, int lane) {
    uint32_t words[4];
    load_transposed(words, v + lane % 16 * pitch + (part + lane / 16) * MMA_COLUMNS / 2);
    UNROLL for (int i = 0; i < 4; i++) b[i / 2][i % 2] = words[i];
  }
};
template <> struct values_of<tf32_unit> {
  template <int PARTS> static __device__ inline void weights(uint32_t (&a)[4], const float (&s)[PARTS][4], int step) {
    UNROLL for (int i = 0; i < 4; i++) a[i] = tf32_of_f32(s[step][i % 2 * 2 + i / 2]);
  }
  static __device__ inline void load(uint32_t (&b)[2][2], const uint32_t *v, int pitch, int part, int lane) {
    UNROLL for (int i = 0; i < 4; i++) b[i / 2][i % 2] =
        v[(lane % 4 * 2 + i % 2) * pitch + (part + i / 2) * MMA_COLUMNS + lane / 4];
  }
};

/* Adds infinite values and NaN to the sums of those rows alone whose weight of the key is not 0, because 0 times such a
 * value is NaN. The tile then counts these values as zeros. */
template <class Unit, int PARTS>
static __device__ inline void add_odd(float (&sums)[COLUMN_PARTS][4], const float (&s)[PARTS][4], const uint32_t *v,
                                      int pitch, int columns) {
  const int p = static_cast<int>(threadIdx.x) % 4;
  uint64_t some[2] = {0, 0};
  UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int i = 0; i < 4; i++) if (s[n][i] != 0) some[i / 2] |=
      uint64_t(1) << (n * MMA_COLUMNS + 2 * p + i % 2);
  UNROLL for (int h = 0; h < 2; h++) for (int d = 1; d < 4; d *= 2) some[h] |= __shfl_xor_sync(~0u, some[h], d);
  for (int k = 0; k < PARTS * MMA_COLUMNS; k++, v += pitch) {
    const bool of_row[2] = {(some[0] >> k & 1) != 0, (some[1] >> k & 1) != 0};
    UNROLL for (int i = 0; i < COLUMN_PARTS * 2; i++) {
      const int column = i / 2 * MMA_COLUMNS + 2 * p + i % 2;
      if (column >= columns) continue;
      const float value = Unit::element(v[column / Unit::IN_WORD], column % Unit::IN_WORD);
      if ((__float_as_uint(value) & 0x7f800000u) != 0x7f800000u) continue;
      UNROLL for (int h = 0; h < 2; h++) if (of_row[h]) sums[i / 2][2 * h + i % 2] += value;
    }
  }
}

template <class Unit> static __device__ inline void clear_odd(uint32_t *v, int words) {
  for (int i = static_cast<int>(threadIdx.x); i < words; i += THREADS)
    if (Unit::odd(v[i]))
      v[i] = Unit::word([&](int e) {
        const float value = Unit::element(v[i], e);
        return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u ? 0.0f : value;
      });
}

/* A distance between keys, within a warp's keys. */
template <int PARTS> static __device__ inline int in_part(int64_t keys) {
  return keys < 0 ? 0 : keys > PARTS * MMA_COLUMNS ? PARTS * MMA_COLUMNS : static_cast<int>(keys);
}

/* Masks the scores of the warp's keys, of which `first` is the number of the first. A mask has the unit's dtype, or F32
 * or BOOL. */
template <class Unit, int PARTS>
static __device__ inline void hide(const attention_args &a, const attention_tile &t, const attention_row (&rows)[2],
                                   int64_t first, int64_t end, float (&s)[PARTS][4]) {
  const int p = static_cast<int>(threadIdx.x) % 4;
  const int64_t reach = t.reach < a.mask_keys ? t.reach : a.mask_keys;
  const bool windows = a.outside == -INFINITY;
  UNROLL for (int h = 0; h < 2; h++) {
    const int from = in_part<PARTS>(rows[h].first - first), to = in_part<PARTS>(rows[h].end - first),
              all = in_part<PARTS>((end < reach ? end : reach) - first);
    const int64_t at = rows[h].mask + first * a.mask_strides[3];
    UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) {
      const int j = n * MMA_COLUMNS + 2 * p + e;
      float &x = s[n][2 * h + e];
      const bool outside = j < from || j >= to;
      if (j >= all || (outside && windows)) {
        x = -INFINITY;
        continue;
      }
      float mask = 0;
      if (a.mask) {
        const int64_t place = at + j * a.mask_strides[3];
        if (a.mask_dtype == REED_F32) mask = static_cast<const float *>(a.mask)[place];
        else if (a.mask_dtype != REED_BOOL) mask = Unit::element(static_cast<const uint16_t *>(a.mask)[place], 0);
        else if (!static_cast<const uint8_t *>(a.mask)[place]) mask = static_cast<float>(a.hidden), x = 0;
      }
      x += mask;
      if (outside && !(mask <= static_cast<float>(a.low))) x += static_cast<float>(a.outside);
    }
  }
}

/* The scores of half h of a warp's rows become weights relative to the row's largest score so far; NaN stays the
 * largest. Returns the factor of the sums before. */
template <int PARTS> static __device__ inline float weigh(float (&s)[PARTS][4], int h, float *most, float *weight) {
  const float before = *most;
  float now = before, sum = 0;
  UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) {
    const float x = s[n][2 * h + e];
    if (x > now || x != x) now = x;
  }
  for (int d = 1; d < 4; d *= 2) {
    const float other = __shfl_xor_sync(~0u, now, d);
    if (other > now || other != other) now = other;
  }
  const float from = now == -INFINITY ? 0 : now, less = before == -INFINITY ? 0 : exp2f((before - from) * LOG2_OF_E);
  UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) {
    float &x = s[n][2 * h + e];
    x = exp2f((x - from) * LOG2_OF_E);
    sum += x;
  }
  *most = now;
  *weight = *weight * less + sum; /* of this lane's keys */
  return less;
}

/* The four warps' sums, largest scores and weights of the same rows, joined through shared memory. */
static __device__ inline void join_warps(const attention_args &a, const attention_tile &t, float *shared,
                                         const float (&sums)[COLUMN_PARTS][4], const float (&most)[2],
                                         const float (&weight)[2], int columns, int dtype) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, p = thread % 4,
            pitch = ATTENTION_JOIN_PITCH;
  float *const mine = shared + warp * MMA_ROWS * pitch;
  __syncthreads(); /* the last tile has been read */
  UNROLL for (int i = 0; i < COLUMN_PARTS * 4; i++) {
    const int column = i / 4 * MMA_COLUMNS + 2 * p + i % 2;
    if (column < columns) mine[(g + i % 4 / 2 * 8) * pitch + column] = sums[i / 4][i % 4];
  }
  UNROLL for (int h = 0; h < 2; h++) {
    if (p) continue;
    mine[(g + 8 * h) * pitch + COLUMNS] = most[h];
    mine[(g + 8 * h) * pitch + COLUMNS + 1] = weight[h];
  }
  __syncthreads();
  for (int row = warp; row < t.n; row += WARPS) {
    const float *const of_row = shared + row * pitch;
    float all = -INFINITY, less[WARPS], total = 0;
    UNROLL for (int w = 0; w < WARPS; w++) {
      const float x = of_row[w * MMA_ROWS * pitch + COLUMNS];
      if (x > all || x != x) all = x;
    }
    const float from = all == -INFINITY ? 0 : all;
    UNROLL for (int w = 0; w < WARPS; w++) {
      const float x = of_row[w * MMA_ROWS * pitch + COLUMNS];
      less[w] = x == -INFINITY ? 0 : exp2f((x - from) * LOG2_OF_E);
      total += of_row[w * MMA_ROWS * pitch + COLUMNS + 1] * less[w];
    }
    const attention_place place = place_of(a, t, t.first + row);
    for (int column = thread % 32; column < columns; column += 32) {
      float sum = 0;
      UNROLL for (int w = 0; w < WARPS; w++) sum += of_row[w * MMA_ROWS * pitch + column] * less[w];
      put_sum<float>(a, place, dtype, t.column + column, sum, total);
    }
    if (thread % 32 == 0) put_weight<float>(a, t, place, all, total);
  }
}

template <class Unit, int ROW_WARPS> static __device__ inline void run_attention(const attention_args &a) {
  typedef shape<Unit, ROW_WARPS> S;
  SHARED_DYNAMIC(uint32_t, shared);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane / 4, p = lane % 4,
            my_row = ROW_WARPS == 1 ? 0 : thread / 32 * MMA_ROWS,
            my_key = ROW_WARPS == 1 ? thread / 32 * S::WARP_KEYS : 0;
  const int bytes = 4 / Unit::IN_WORD, depth = a.q_pitch - 4;
  uint32_t *const q = shared, *const k = q + S::ROWS * a.q_pitch, *const v = k + S::KEYS * a.q_pitch;
  const attention_tile t = find_tile(a, S::ROWS, COLUMNS);
  const int columns =
      a.value_size - t.column < COLUMNS ? static_cast<int>(a.value_size - t.column) : static_cast<int>(COLUMNS);
  int64_t begin, end, low, high;
  find_keys(a, t, &begin, &end);
  /* keys that every row looks at, if there is no mask */
  find_queries(a, t, &low, &high);
  const int64_t free_begin = first_key(a, t, high), free_end = a.mask ? 0 : end_key(a, t, low);
  const attention_row rows[2] = {row_at(a, t, t.first + (my_row + g < t.n ? my_row + g : t.n - 1)),
                                 row_at(a, t, t.first + (my_row + g + 8 < t.n ? my_row + g + 8 : t.n - 1))};
  stage<Unit>(q, S::ROWS, a.q_pitch, a.size, rows_in_vectors(a.q, a.size, bytes), [&](int row) {
    const int64_t r = t.first + row, head = t.kv_head * a.shared + r / a.queries;
    return row < t.n ? static_cast<const char *>(a.q.data) +
                           (t.batch * a.q.batch + head * a.q.head + r % a.queries * a.q.row) * bytes
                     : nullptr;
  });
  const bool k_vectors = rows_in_vectors(a.k, a.size, bytes) && rows_in_vectors(a.past_k, a.size, bytes),
             v_vectors = rows_in_vectors(a.v, a.value_size, bytes) && rows_in_vectors(a.past_v, a.value_size, bytes);
  float most[2] = {-INFINITY, -INFINITY}, weight[2] = {}, sums[COLUMN_PARTS][4] = {};
  for (int64_t j0 = begin; j0 < end; j0 += S::KEYS) {
    __syncthreads(); /* the tile before has been read */
    stage<Unit>(k, S::KEYS, a.q_pitch, a.size, k_vectors, [&](int row) {
      const int64_t j = j0 + row;
      return j < end ? static_cast<const char *>(j < a.past ? a.past_k.data : a.k.data) +
                           row_of(a, a.k, a.past_k, t, j) * bytes
                     : nullptr;
    });
    const uint32_t odd = stage<Unit>(v, S::KEYS, a.v_pitch, columns, v_vectors, [&](int row) {
      const int64_t j = j0 + row;
      return j < end ? static_cast<const char *>(j < a.past ? a.past_v.data : a.v.data) +
                           (row_of(a, a.v, a.past_v, t, j) + t.column) * bytes
                     : nullptr;
    });
    const bool some_odd = __syncthreads_or(odd != 0) != 0;
    float s[S::PARTS][4] = {};
    for (int w = p; w < depth; w += MMA_WORDS) {
      const uint32_t *const left = q + (my_row + g) * a.q_pitch + w;
      const uint32_t of_q[4] = {left[0], left[8 * a.q_pitch], left[4], left[8 * a.q_pitch + 4]};
      UNROLL for (int n = 0; n < S::PARTS; n++) {
        const uint32_t *const right = k + (my_key + n * MMA_COLUMNS + g) * a.q_pitch + w;
        const uint32_t of_k[2] = {right[0], right[4]};
        Unit::multiply(s[n], of_q, of_k);
      }
    }
    UNROLL for (int n = 0; n < S::PARTS; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] *= static_cast<float>(a.scale);
    if (a.softcap > 0) {
      const float cap = static_cast<float>(a.softcap);
      UNROLL for (int n = 0; n < S::PARTS; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] = cap * tanhf(s[n][i] / cap);
    }
    if (j0 < free_begin || j0 + S::KEYS > free_end || j0 + S::KEYS > end)
      hide<Unit, S::PARTS>(a, t, rows, j0 + my_key, end, s);
    UNROLL for (int h = 0; h < 2; h++) {
      const float less = weigh<S::PARTS>(s, h, &most[h], &weight[h]);
      UNROLL for (int c = 0; c < COLUMN_PARTS; c++) {
        sums[c][2 * h] *= less;
        sums[c][2 * h + 1] *= less;
      }
    }
    const uint32_t *const mine = v + my_key * a.v_pitch;
    if (some_odd) {
      add_odd<Unit, S::PARTS>(sums, s, mine, a.v_pitch, columns);
      __syncthreads();
      clear_odd<Unit>(v, S::KEYS * a.v_pitch);
      __syncthreads();
    }
    UNROLL for (int step = 0; step < S::STEPS; step++) {
      uint32_t weights[4];
      values_of<Unit>::template weights<S::PARTS>(weights, s, step);
      UNROLL for (int c = 0; c < COLUMN_PARTS; c += 2) {
        if (c * MMA_COLUMNS >= columns) continue; /* all threads */
        uint32_t values[2][2];
        values_of<Unit>::load(values, mine + step * MMA_WORDS * Unit::IN_WORD * a.v_pitch, a.v_pitch, c, lane);
        Unit::multiply(sums[c], weights, values[0]);
        Unit::multiply(sums[c + 1], weights, values[1]);
      }
    }
  }
  UNROLL for (int h = 0; h < 2; h++) for (int d = 1; d < 4; d *= 2) weight[h] += __shfl_xor_sync(~0u, weight[h], d);
  if constexpr (ROW_WARPS == 1) {
    join_warps(a, t, reinterpret_cast<float *>(shared), sums, most, weight, columns, Unit::DTYPE);
  } else {
    UNROLL for (int h = 0; h < 2; h++) {
      const int row = my_row + g + 8 * h;
      if (row >= t.n) continue;
      const attention_place place = place_of(a, t, t.first + row);
      UNROLL for (int i = 0; i < COLUMN_PARTS * 2; i++) {
        const int column = i / 2 * MMA_COLUMNS + 2 * p + i % 2;
        if (column < columns)
          put_sum<float>(a, place, Unit::DTYPE, t.column + column, sums[i / 2][2 * h + i % 2], weight[h]);
      }
      if (p == 0) put_weight<float>(a, t, place, most[h], weight[h]);
    }
  }
}

KERNEL(attention_tf32) { run_attention<tf32_unit, WARPS>(a); }
KERNEL(attention_f16) { run_attention<f16_unit, WARPS>(a); }
KERNEL(attention_bf16) { run_attention<bf16_unit, WARPS>(a); }
KERNEL(attention_few_tf32) { run_attention<tf32_unit, 1>(a); }
KERNEL(attention_few_f16) { run_attention<f16_unit, 1>(a); }
KERNEL(attention_few_bf16) { run_attention<bf16_unit, 1>(a); }
