/* Attention on tensor cores, after Dao 2023, "FlashAttention-2": scores, weights and sums stay in the registers of
 * mma.sync fragments, sums are f32. A tile of many rows gives 16 rows to each of four warps, and each warp all keys. A
 * tile of at most 16 rows, such as a step of a decoder, gives all rows to each warp and a quarter of the keys, and
 * joins the warps at its end. Keys and values come into shared memory by copies that run ahead: while one tile of keys
 * is multiplied, the next one is on its way. Scores and their maxima are powers of 2. Weights are rounded to the
 * operands' format before they are multiplied with the values.
 *
 * Values that are infinite or NaN and belong to keys of weight 0 must not count, but the product makes NaN of them. The
 * first pass over the keys does not look for them. If a sum of the block is not finite at its end, a second pass does.
 */
#include <float.h>

#include "device/cuda/kernels/attention_rows.cuh"

enum { WARPS = THREADS / 32 };
static constexpr float LOG2_OF_E = 1.44269504088896341f, LN_OF_2 = 0.693147180559945309f;

/* Keys of a tile, and those of a warp: parts of 8, the columns of a fragment of scores; steps of the product with the
 * values. COLUMNS 64: heads of keys and values have at most 64 elements, which the memory of a tile is padded to. */
template <class Unit, int ROW_WARPS, int COLUMNS> struct shape {
  enum {
    ROWS = ROW_WARPS * MMA_ROWS,
    KEYS = ATTENTION_MMA_KEYS * Unit::IN_WORD,
    WARP_KEYS = ROW_WARPS == 1 ? KEYS / WARPS : KEYS,
    PARTS = WARP_KEYS / MMA_COLUMNS,
    STEPS = PARTS / Unit::IN_WORD,
    COLUMN_PARTS = COLUMNS / MMA_COLUMNS,
    WORDS = COLUMNS == ATTENTION_NARROW ? COLUMNS / Unit::IN_WORD : 0 /* of a row in shared memory; 0: the args say */
  };
};

/* The word at which the lane reads a fragment by load_rows: a of 16 rows, or b of twice 8. */
static __device__ inline int place_of_a(int pitch) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return lane % 16 * pitch + lane / 16 * 4;
}
static __device__ inline int place_of_b(int pitch) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 4;
}

/* Adds the products of one step of the depth to a warp's scores. k: the step's words of its first key. */
template <class Unit, int PARTS>
static __device__ inline void add_scores(float (&s)[PARTS][4], const uint32_t (&of_q)[4], const uint32_t *k,
                                         int pitch) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (PARTS == 1) {
    const uint32_t of_k[2] = {k[lane / 4 * pitch + lane % 4], k[lane / 4 * pitch + lane % 4 + 4]};
    Unit::multiply(s[0], of_q, of_k);
  } else {
    UNROLL for (int n = 0; n < PARTS; n += 2) {
      uint32_t of_k[4];
      load_rows(of_k, k + n * MMA_COLUMNS * pitch + place_of_b(pitch));
      const uint32_t first[2] = {of_k[0], of_k[1]}, second[2] = {of_k[2], of_k[3]};
      Unit::multiply(s[n], of_q, first);
      Unit::multiply(s[n + 1], of_q, second);
    }
  }
}

/* Fragment a of weights from fragments of scores, and fragments b of the values of the same keys in two neighbouring
 * column parts. An a of tf32 has 8 keys in the order 0, 2, 4, 6, 1, 3, 5, 7, so that each lane has its weights already;
 * b has the values in that order. */
template <class Unit> struct values_of {
  template <int PARTS> static __device__ inline void weights(uint32_t (&a)[4], const float (&s)[PARTS][4], int step) {
    UNROLL for (int i = 0; i < 4; i++) a[i] =
        Unit::pair(s[2 * step + i / 2][i % 2 * 2], s[2 * step + i / 2][i % 2 * 2 + 1]);
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
 * value is NaN. The tile then counts these values as zeros. Not inlined, because it would take registers from the loop
 * over keys; fragments of n_parts parts of keys and of column_parts parts of columns are in memory of the thread. */
template <class Unit>
static __device__ __noinline__ void add_odd(float *sums, const float *s, int n_parts, int column_parts,
                                            const uint32_t *v, int pitch, int columns) {
  const int p = static_cast<int>(threadIdx.x) % 4;
  for (int h = 0; h < 2; h++) {
    uint64_t some = 0;
    ROLLED for (int i = 0; i < n_parts * 2; i++) if (s[i / 2 * 4 + 2 * h + i % 2] != 0) some |=
        uint64_t(1) << (i / 2 * MMA_COLUMNS + 2 * p + i % 2);
    for (int d = 1; d < 4; d *= 2) some |= __shfl_xor_sync(~0u, some, d);
    ROLLED for (int k = 0; k < n_parts * MMA_COLUMNS; k++) {
      if ((some >> k & 1) == 0) continue;
      ROLLED for (int i = 0; i < column_parts * 2; i++) {
        const int column = i / 2 * MMA_COLUMNS + 2 * p + i % 2;
        if (column >= columns) continue;
        const float value = Unit::element(v[k * pitch + column / Unit::IN_WORD], column % Unit::IN_WORD);
        if ((__float_as_uint(value) & 0x7f800000u) == 0x7f800000u) sums[i / 2 * 4 + 2 * h + i % 2] += value;
      }
    }
  }
}

/* Not 0 if a word is infinite or NaN. */
template <class Unit> static __device__ inline uint32_t find_odd(const uint32_t *v, int rows, int pitch) {
  uint32_t odd = 0;
  ROLLED for (int i = static_cast<int>(threadIdx.x); i < rows * pitch; i += THREADS) if (i % pitch < pitch - 4) odd |=
      Unit::odd(v[i]);
  return odd;
}

template <class Unit> static __device__ inline void clear_odd(uint32_t *v, int rows, int pitch) {
  ROLLED for (int i = static_cast<int>(threadIdx.x); i < rows * pitch;
              i += THREADS) if (i % pitch < pitch - 4 && Unit::odd(v[i])) v[i] = Unit::word([&](int e) {
    const float value = Unit::element(v[i], e);
    return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u ? 0.0f : value;
  });
}

/* A mask whose rows are equal, of the unit's dtype: its elements at the warp's keys are read in pairs. */
template <class Unit, int PARTS> struct row_mask {
  uint32_t words[PARTS * 2 / Unit::IN_WORD];
  /* at: the place of the warp's first key */
  __device__ inline void load(const void *mask, int64_t at) {
    const int p = static_cast<int>(threadIdx.x) % 4;
    UNROLL for (int n = 0; n < PARTS; n++) {
      const int64_t place = at + n * MMA_COLUMNS + 2 * p;
      if constexpr (Unit::IN_WORD == 2) {
        words[n] = *reinterpret_cast<const uint32_t *>(static_cast<const uint16_t *>(mask) + place);
      } else {
        const uint2 two = *reinterpret_cast<const uint2 *>(static_cast<const uint32_t *>(mask) + place);
        words[2 * n] = two.x;
        words[2 * n + 1] = two.y;
      }
    }
  }
  __device__ inline float at(int n, int e) const {
    return Unit::IN_WORD == 2 ? Unit::element(words[n], e)
                              : __uint_as_float(words[(2 * n + e) % (PARTS * 2 / Unit::IN_WORD)]);
  }
};

/* True if a row_mask may be read for the keys of a tile that begins at `first`, a multiple of 2 keys after `begin`. */
template <class Unit> static __device__ inline bool has_row_mask(const attention_args &a, int64_t place) {
  const uint64_t size = 4 / Unit::IN_WORD;
  return a.mask && a.mask_dtype == Unit::DTYPE && a.mask_strides[3] == 1 && a.mask_strides[2] == 0 &&
         (a.mask_strides[1] == 0 || a.shared == 1) &&
         ((reinterpret_cast<uintptr_t>(a.mask) + static_cast<uint64_t>(place) * size) & (2 * size - 1)) == 0;
}

/* A mask's element as a power of 2. Finite ones stay finite, because rows of such a mask alone have finite weights. */
template <class Unit> static __device__ inline float log2_mask(float mask) {
  const float x = mask * LOG2_OF_E;
  if (static_cast<int>(Unit::DTYPE) == static_cast<int>(REED_F16)) return x;
  return x == -INFINITY && mask > -INFINITY ? -FLT_MAX : x;
}

/* A row of the tile: its window of keys, and its elements in the mask. */
struct mask_row {
  int first, end;
  int64_t mask;
};

/* Masks the scores of half h of the warp's rows, of which `first` is the number of the first key. The keys from `end`
 * on are hidden. A mask has the unit's dtype, or F32 or BOOL. Scores are powers of 2. */
template <class Unit, int PARTS>
static __device__ inline void hide(const attention_args &a, const mask_row &row, int h, int first, int end,
                                   float (&s)[PARTS][4]) {
  const int p = static_cast<int>(threadIdx.x) % 4, size = a.mask_dtype == REED_F32    ? 4
                                                          : a.mask_dtype == REED_BOOL ? 1
                                                                                      : 2;
  const int64_t on = a.mask_strides[3] * size;
  const char *mask = static_cast<const char *>(a.mask) + (row.mask + (first + 2 * p) * a.mask_strides[3]) * size;
  const float low = static_cast<float>(a.low), outer = log2_mask<tf32_unit>(static_cast<float>(a.outside)),
              hidden = static_cast<float>(a.hidden);
  first += 2 * p;
  UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) {
    const int j = first + n * MMA_COLUMNS + e;
    float more = 0, x = s[n][2 * h + e];
    if (a.mask && j < end) {
      if (size == 4) more = *reinterpret_cast<const float *>(mask);
      else if (size == 2) more = Unit::element(*reinterpret_cast<const uint16_t *>(mask), 0);
      else if (!*mask) more = hidden, x = 0;
    }
    mask += e ? on * (MMA_COLUMNS - 1) : on;
    x += log2_mask<tf32_unit>(more);
    const bool outside = j < row.first || j >= row.end;
    if (outside && (!(more <= low) || outer == -INFINITY)) x += outer;
    s[n][2 * h + e] = j < end ? x : -INFINITY;
  }
}

/* tanh(x / 2 ln 2), to an absolute error of 2^-22. */
static __device__ inline float tanh_of_half(float x) {
  const float less = exp2_near(-fabsf(x)), t = (1 - less) / (1 + less);
  return x < 0 ? -t : t;
}

/* The scores of half h of a warp's rows, times `factor` > 0, become weights relative to the row's largest score so far;
 * NaN stays the largest. Returns the factor of the sums before. */
template <int PARTS>
static __device__ inline float weigh(float (&s)[PARTS][4], int h, float factor, float *most, float *weight) {
  /* of even and odd columns, so that fewer steps wait for each other */
  float most_of[2] = {s[0][2 * h], s[0][2 * h + 1]}, sums_of[2] = {0, 0};
  UNROLL for (int n = 1; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) most_of[e] =
      max_or_nan(most_of[e], s[n][2 * h + e]);
  float now = max_or_nan(most_of[0], most_of[1]);
  for (int d = 1; d < 4; d *= 2) now = max_or_nan(now, __shfl_xor_sync(~0u, now, d));
  now = max_or_nan(*most, now * factor);
  const float from = now == -INFINITY ? 0 : now, less = exp2_near(*most - from);
  UNROLL for (int n = 0; n < PARTS; n++) UNROLL for (int e = 0; e < 2; e++) {
    float &x = s[n][2 * h + e];
    x = exp2_near(fmaf(x, factor, -from));
    sums_of[e] += x;
  }
  *most = now;
  *weight = *weight * less + (sums_of[0] + sums_of[1]); /* of this lane's keys */
  return less;
}

/* The four warps' sums, largest scores and weights of the same rows, joined through shared memory. */
template <int COLUMNS>
static __device__ inline void join_warps(const attention_args &a, const attention_tile &t, float *shared,
                                         const float (&sums)[COLUMNS / MMA_COLUMNS][4], const float (&most)[2],
                                         const float (&weight)[2], int columns, int dtype) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, p = thread % 4,
            pitch = COLUMNS + ATTENTION_JOIN_MORE;
  float *const mine = shared + warp * MMA_ROWS * pitch;
  __syncthreads(); /* the last tile has been read */
  UNROLL for (int i = 0; i < COLUMNS / MMA_COLUMNS * 4; i++) {
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
    UNROLL for (int w = 0; w < WARPS; w++) all = max_or_nan(all, of_row[w * MMA_ROWS * pitch + COLUMNS]);
    const float from = all == -INFINITY ? 0 : all;
    UNROLL for (int w = 0; w < WARPS; w++) {
      less[w] = exp2_near(of_row[w * MMA_ROWS * pitch + COLUMNS] - from);
      total += of_row[w * MMA_ROWS * pitch + COLUMNS + 1] * less[w];
    }
    const attention_place place = place_of(a, t, t.first + row);
    for (int column = thread % 32; column < columns; column += 32) {
      float sum = 0;
      UNROLL for (int w = 0; w < WARPS; w++) sum += of_row[w * MMA_ROWS * pitch + column] * less[w];
      put_sum<float>(a, place, dtype, t.column + column, sum, total);
    }
    if (thread % 32 == 0) put_weight<float>(a, t, place, all * LN_OF_2, total);
  }
}

/* y of a warp's rows, through their memory of Q, in vectors. my_row: the first of them in the tile. */
template <class Unit, int COLUMN_PARTS>
static __device__ inline void put_rows(const attention_args &a, const attention_tile &t, uint32_t *q, int my_row,
                                       const float (&sums)[COLUMN_PARTS][4], const float (&weight)[2], int columns) {
  enum { VECTOR = 4 * Unit::IN_WORD };
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, p = lane % 4, in_row = columns / VECTOR;
  UNROLL for (int h = 0; h < 2; h++) {
    const bool hidden = weight[h] != weight[h] && a.nan_rows < 0;
    const float factor = weighted<float>(1.0f, weight[h], a.nan_rows, a.total);
    uint32_t *const to = q + (g + 8 * h) * a.q_pitch;
    UNROLL for (int c = 0; c < COLUMN_PARTS; c++) {
      const float low = hidden ? 0.0f : sums[c][2 * h] * factor, high = hidden ? 0.0f : sums[c][2 * h + 1] * factor;
      if (c * MMA_COLUMNS >= columns) continue;
      if constexpr (Unit::IN_WORD == 2) {
        to[c * MMA_COLUMNS / 2 + p] = Unit::pair(low, high);
      } else {
        to[c * MMA_COLUMNS + 2 * p] = __float_as_uint(low);
        to[c * MMA_COLUMNS + 2 * p + 1] = __float_as_uint(high);
      }
    }
  }
  __syncwarp();
  for (int i = lane; i < MMA_ROWS * in_row; i += 32) {
    const int row = i / in_row, w = i % in_row;
    if (my_row + row >= t.n) break;
    const int64_t at = place_of(a, t, t.first + my_row + row).y + t.column + w * VECTOR;
    *reinterpret_cast<uint4 *>(static_cast<uint32_t *>(a.y) + at / Unit::IN_WORD) =
        *reinterpret_cast<const uint4 *>(q + row * a.q_pitch + w * 4);
  }
}

template <class Unit, int ROW_WARPS, int COLUMNS> static __device__ inline void run_attention(const attention_args &a) {
  typedef shape<Unit, ROW_WARPS, COLUMNS> S;
  SHARED_DYNAMIC(uint32_t, shared);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane / 4, p = lane % 4,
            my_row = ROW_WARPS == 1 ? 0 : thread / 32 * MMA_ROWS,
            my_key = ROW_WARPS == 1 ? thread / 32 * S::WARP_KEYS : 0;
  const int bytes = 4 / Unit::IN_WORD, q_pitch = S::WORDS != 0 ? S::WORDS + 4 : a.q_pitch,
            v_pitch = S::WORDS != 0 ? S::WORDS + 4 : a.v_pitch;
  uint32_t *const q = shared, *const tiles = q + S::ROWS * q_pitch;
  const int v_at = S::KEYS * q_pitch, tile_words = v_at + S::KEYS * v_pitch;
  const attention_tile t = find_tile(a, S::ROWS, ATTENTION_COLUMNS);
  const int columns =
      a.value_size - t.column < COLUMNS ? static_cast<int>(a.value_size - t.column) : static_cast<int>(COLUMNS);
  int64_t first_begin, last_end, low, high;
  find_keys(a, t, &first_begin, &last_end);
  const int begin = static_cast<int>(first_begin), end = static_cast<int>(last_end);
  /* keys that every row looks at, but for a mask */
  find_queries(a, t, &low, &high);
  const int64_t reach = t.reach < a.mask_keys ? t.reach : a.mask_keys, free_last = end_key(a, t, low);
  const int free_begin = static_cast<int>(first_key(a, t, high)),
            free_end = static_cast<int>(free_last < last_end ? free_last : last_end),
            all = static_cast<int>(last_end < reach ? last_end : reach);
  const auto row_of_lane = [&](int h) {
    const int64_t row = my_row + g + 8 * h;
    const attention_row of = row_at(a, t, t.first + (row < t.n ? row : t.n - 1));
    return mask_row{static_cast<int>(of.first), static_cast<int>(of.end), of.mask};
  };
  const mask_row rows[2] = {row_of_lane(0), row_of_lane(1)};
  SHARED_ARRAY(row_source, sources, [2]);
  if (thread < 2) {
    const bool of_v = thread == 1;
    sources[thread] = source_of(a, t, of_v ? a.v : a.k, of_v ? a.past_v : a.past_k, of_v ? t.column : 0,
                                of_v ? a.value_size : a.size, of_v ? columns : static_cast<int>(a.size), bytes);
  }
  const row_source &k = sources[0], &v = sources[1];
  const bool few_masks = has_row_mask<Unit>(a, rows[0].mask + begin);
  const float scale = static_cast<float>(a.scale) * LOG2_OF_E, cap = static_cast<float>(a.softcap);
  async_copies copies;
  const auto q_row = [&](int row) {
    const query_place place = query_of(a, t, t.first + row);
    return row < t.n ? static_cast<const char *>(a.q.data) +
                           (t.batch * a.q.batch + place.head * a.q.head + place.query * a.q.row) * bytes
                     : nullptr;
  };
  const bool q_vectors = in_vectors(a.q.data, (a.q.batch | a.q.head | a.q.row | a.size) * bytes);
  if (q_vectors)
    each_vector<S::WORDS, S::ROWS>(q_pitch - 4, [&](int row, int w) {
      const char *const from = q_row(row);
      const bool some = from && w * Unit::IN_WORD < a.size;
      copies.copy(q + row * q_pitch + w,
                  reinterpret_cast<const uint32_t *>(some ? from + w * 4 : static_cast<const char *>(a.q.data)), some);
    });
  else stage_elements<Unit, S::ROWS>(q, q_pitch, static_cast<int>(a.size), q_row);
  copies.commit();
  if (q_vectors && Unit::IN_WORD == 1) {
    copies.wait<0>();
    round_own<Unit, S::WORDS, S::ROWS>(q, q_pitch);
  }
  /* whole tiles of whole rows, without earlier keys, take a shorter way */
  const int64_t k_row = a.k.row * bytes, v_row = a.v.row * bytes;
  const bool whole = S::WORDS != 0 && a.past == 0 && a.size == COLUMNS && a.value_size == COLUMNS &&
                     in_vectors(a.k.data, (a.k.batch | a.k.head | a.k.row) * bytes) &&
                     in_vectors(a.v.data, (a.v.batch | a.v.head | a.v.row) * bytes);
  const auto first_row = [&](const attention_operand &of) {
    return static_cast<const char *>(of.data) + (t.batch * of.batch + t.kv_head * of.head + begin * of.row) * bytes;
  };
  whole_rows<S::WORDS, S::KEYS> next_k, next_v;
  float most[2], weight[2], sums[S::COLUMN_PARTS][4];
  for (bool careful = false;; careful = true) {
    UNROLL for (int h = 0; h < 2; h++) most[h] = -INFINITY, weight[h] = 0;
    UNROLL for (int c = 0; c < S::COLUMN_PARTS; c++) UNROLL for (int i = 0; i < 4; i++) sums[c][i] = 0;
    if (whole) {
      next_k.begin(first_row(a.k), k_row);
      next_v.begin(first_row(a.v), v_row);
    }
    const int ahead = a.ahead * S::KEYS;
    uint32_t *tile = tiles, *other = tiles + a.ahead * tile_words;
    for (int j0 = begin - ahead; j0 < end; j0 += S::KEYS) {
      uint32_t *const last = tile;
      tile = other;
      other = last;
      /* the tile at j0 is in `other`, and the one before it has been read */
      copies.wait<0>();
      if (j0 >= begin && ahead) {
        if (k.vectors) round_own<Unit, S::WORDS, S::KEYS>(other, q_pitch);
        if (v.vectors) round_own<Unit, S::WORDS, S::KEYS>(other + v_at, v_pitch);
      }
      __syncthreads();
      if (whole && j0 + ahead + S::KEYS <= end) {
        next_k.stage(&copies, tile, k_row);
        next_v.stage(&copies, tile + v_at, v_row);
        copies.commit();
      } else if (j0 + ahead < end) {
        stage<Unit, S::WORDS, S::KEYS>(&copies, tile, q_pitch, k, j0 + ahead, end);
        stage<Unit, S::WORDS, S::KEYS>(&copies, tile + v_at, v_pitch, v, j0 + ahead, end);
        copies.commit();
      }
      if (j0 < begin) continue;
      if (!ahead) {
        copies.wait<0>();
        if (k.vectors) round_own<Unit, S::WORDS, S::KEYS>(other, q_pitch);
        if (v.vectors) round_own<Unit, S::WORDS, S::KEYS>(other + v_at, v_pitch);
        __syncthreads();
      }
      const uint32_t *const my_keys = other + my_key * q_pitch, *const my_values = other + v_at + my_key * v_pitch;
      const bool free = j0 >= free_begin && j0 + S::KEYS <= free_end;
      float s[S::PARTS][4] = {};
      row_mask<Unit, S::PARTS> mask;
      if (few_masks && free) mask.load(a.mask, rows[0].mask + j0 + my_key);
      UNROLL_BY(8) for (int w = 0; w < q_pitch - 4; w += MMA_WORDS) {
        uint32_t of_q[4];
        load_rows(of_q, q + my_row * q_pitch + w + place_of_a(q_pitch));
        add_scores<Unit, S::PARTS>(s, of_q, my_keys + w, q_pitch);
      }
      float factor = scale;
      if (a.mask || !free || cap > 0 || !(scale > 0)) {
        factor = 1;
        const bool quick = few_masks && free;
        if (cap > 0) {
          const float of_cap = 2 * scale / cap, over = cap * LOG2_OF_E;
          UNROLL for (int n = 0; n < S::PARTS; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] =
              over * tanh_of_half(s[n][i] * of_cap);
        } else if (!quick) {
          UNROLL for (int n = 0; n < S::PARTS; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] *= scale;
        }
        if (quick) {
          const float by = cap > 0 ? 1 : scale;
          UNROLL for (int n = 0; n < S::PARTS; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] =
              fmaf(s[n][i], by, log2_mask<Unit>(mask.at(n, i % 2)));
        } else if (a.mask || !free) {
          hide<Unit, S::PARTS>(a, rows[0], 0, j0 + my_key, all, s);
          hide<Unit, S::PARTS>(a, rows[1], 1, j0 + my_key, all, s);
        }
      }
      UNROLL for (int h = 0; h < 2; h++) {
        const float less = weigh<S::PARTS>(s, h, factor, &most[h], &weight[h]);
        UNROLL for (int c = 0; c < S::COLUMN_PARTS; c++) {
          sums[c][2 * h] *= less;
          sums[c][2 * h + 1] *= less;
        }
      }
      if (careful && __syncthreads_or(find_odd<Unit>(other + v_at, S::KEYS, v_pitch) != 0)) {
        float some_sums[S::COLUMN_PARTS * 4], some_weights[S::PARTS * 4];
        UNROLL for (int i = 0; i < S::COLUMN_PARTS * 4; i++) some_sums[i] = sums[i / 4][i % 4];
        UNROLL for (int i = 0; i < S::PARTS * 4; i++) some_weights[i] = s[i / 4][i % 4];
        add_odd<Unit>(some_sums, some_weights, S::PARTS, S::COLUMN_PARTS, my_values, v_pitch, columns);
        UNROLL for (int i = 0; i < S::COLUMN_PARTS * 4; i++) sums[i / 4][i % 4] = some_sums[i];
        __syncthreads();
        clear_odd<Unit>(other + v_at, S::KEYS, v_pitch);
        __syncthreads();
      }
      UNROLL for (int step = 0; step < S::STEPS; step++) {
        uint32_t weights[4];
        values_of<Unit>::template weights<S::PARTS>(weights, s, step);
        UNROLL for (int c = 0; c < S::COLUMN_PARTS; c += 2) {
          if (S::WORDS == 0 && c * MMA_COLUMNS >= columns) continue; /* all threads */
          uint32_t values[2][2];
          values_of<Unit>::load(values, my_values + step * MMA_WORDS * Unit::IN_WORD * v_pitch, v_pitch, c, lane);
          Unit::multiply(sums[c], weights, values[0]);
          Unit::multiply(sums[c + 1], weights, values[1]);
        }
      }
    }
    if (careful) break;
    float odd = 0; /* NaN if something is not finite */
    UNROLL for (int c = 0; c < S::COLUMN_PARTS; c++) UNROLL for (int i = 0; i < 4; i++) odd =
        fmaf(sums[c][i], 0.0f, odd);
    if (!__syncthreads_or(odd != odd)) break;
  }
  copies.wait<0>();
  UNROLL for (int h = 0; h < 2; h++) for (int d = 1; d < 4; d *= 2) weight[h] += __shfl_xor_sync(~0u, weight[h], d);
  if constexpr (ROW_WARPS == 1) {
    join_warps<COLUMNS>(a, t, reinterpret_cast<float *>(shared), sums, most, weight, columns, Unit::DTYPE);
  } else if (!a.sums && columns % (4 * Unit::IN_WORD) == 0 && columns <= (q_pitch - 4) * Unit::IN_WORD &&
             in_vectors(a.y, (a.y_batch | a.y_head | a.y_row) * bytes)) {
    put_rows<Unit, S::COLUMN_PARTS>(a, t, q + my_row * q_pitch, my_row, sums, weight, columns);
  } else {
    UNROLL for (int h = 0; h < 2; h++) {
      const int row = my_row + g + 8 * h;
      if (row >= t.n) continue;
      const attention_place place = place_of(a, t, t.first + row);
      UNROLL for (int i = 0; i < S::COLUMN_PARTS * 2; i++) {
        const int column = i / 2 * MMA_COLUMNS + 2 * p + i % 2;
        if (column < columns)
          put_sum<float>(a, place, Unit::DTYPE, t.column + column, sums[i / 2][2 * h + i % 2], weight[h]);
      }
      if (p == 0) put_weight<float>(a, t, place, most[h] * LN_OF_2, weight[h]);
    }
  }
}

KERNEL(attention_tf32) { run_attention<tf32_unit, WARPS, ATTENTION_COLUMNS>(a); }
KERNEL(attention_f16) { run_attention<f16_unit, WARPS, ATTENTION_COLUMNS>(a); }
KERNEL(attention_bf16) { run_attention<bf16_unit, WARPS, ATTENTION_COLUMNS>(a); }
KERNEL(attention_few_tf32) { run_attention<tf32_unit, 1, ATTENTION_COLUMNS>(a); }
KERNEL(attention_few_f16) { run_attention<f16_unit, 1, ATTENTION_COLUMNS>(a); }
KERNEL(attention_few_bf16) { run_attention<bf16_unit, 1, ATTENTION_COLUMNS>(a); }
KERNEL(attention_narrow_tf32) { run_attention<tf32_unit, WARPS, ATTENTION_NARROW>(a); }
KERNEL_OF_BLOCKS(3, attention_narrow_f16) { run_attention<f16_unit, WARPS, ATTENTION_NARROW>(a); }
KERNEL_OF_BLOCKS(3, attention_narrow_bf16) { run_attention<bf16_unit, WARPS, ATTENTION_NARROW>(a); }
KERNEL(attention_few_narrow_tf32) { run_attention<tf32_unit, 1, ATTENTION_NARROW>(a); }
KERNEL_OF_MANY_REGISTERS(attention_few_narrow_f16) { run_attention<f16_unit, 1, ATTENTION_NARROW>(a); }
KERNEL_OF_MANY_REGISTERS(attention_few_narrow_bf16) { run_attention<bf16_unit, 1, ATTENTION_NARROW>(a); }
