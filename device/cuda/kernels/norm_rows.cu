/* Layer, RMS, instance and group normalisation: `lanes` threads a row, a warp or a block. Mean and variance are taken
 * in two passes in double, as in the host's reference, so that a long row or a large mean loses nothing. Few long rows
 * are split over blocks: a launch before finds mean and squares of each part, which every block joins in the same order
 * (Chan, Golub and LeVeque 1979).
 *
 * norm_dense takes rows that lie densely, in f32 and halves, by vectors of 16 bytes, and computes in f32. It reads a
 * row three times, twice from the cache, in loops that are short, because a kernel of a few microseconds waits longer
 * for its own instructions than for anything else. Its mean is corrected: with the rounded mean m and e = x - m, the
 * row's mean is m + mean(e) and its squares are the sum of e^2 less n mean(e)^2 (Chan, Golub and LeVeque 1983,
 * "Algorithms for Computing the Sample Variance"). The error of m, which grows with the mean, cancels. The sums over e
 * round at most 11 times in f32 (3 within a vector, 8 from vector to vector) before threads are joined in double, so
 * that mean(e) is off by at most 11 units of 2^-24 of mean |e|, which the deviation exceeds: less than 1e-6 of a
 * deviation. A row whose squares leave the range of f32 is computed as norm_rows does. */
#include "device/cuda/kernels/parts.cuh"
#include "device/cuda/kernels/units.cuh"

/* The sum of `mine` of a row's threads, in all of them. */
static __device__ inline double row_sum(double mine, int32_t lanes) {
  SHARED_ARRAY(double, part, [8]);
  for (int d = 16; d; d /= 2) mine += __shfl_xor_sync(~0u, mine, d);
  if (lanes == 32) return mine;
  __syncthreads(); /* all have read the sums before these */
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < lanes / 32; w++) sum += part[w];
  return sum;
}

static __device__ inline double real_at(int dtype, const void *data, int64_t i) {
  return value_real(dtype, value_load(dtype, data, i));
}

/* The place in x of element i of the row that begins at `first`. */
static __device__ inline int64_t element_place(const norm_args &a, int64_t first, int64_t i) {
  int64_t at[CUDA_DIMS];
  split_index(i, a.rank, a.extents, at);
  for (int32_t d = 0; d < a.rank; d++) first += at[d] * a.x_strides[d];
  return first;
}

/* The elements of a thread: begin, begin + lanes, ... before end, a part of a row. */
struct norm_walk {
  int64_t row, split, x, part_begin, begin, end; /* x: the row's first element */
};

/* False: the thread has nothing to do, like all threads of its row. */
static __device__ inline bool find_walk(const norm_args &a, norm_walk *w) {
  const int64_t thread = thread_number(), part = (a.n + a.splits - 1) / a.splits;
  w->row = thread / a.lanes / a.splits;
  w->split = thread / a.lanes % a.splits;
  w->x = w->row / a.groups * a.x_image + w->row % a.groups * a.x_group;
  w->part_begin = w->split * part;
  w->begin = w->part_begin + thread % a.lanes;
  w->end = w->part_begin + part < a.n ? w->part_begin + part : a.n;
  return w->row < true_number(a.counted, a.rows);
}

/* Mean and squares of the walk's part, in all of its threads. */
static __device__ inline norm_part find_part(const norm_args &a, const norm_walk &w) {
  const double n = static_cast<double>(w.end - w.part_begin);
  norm_part made = {0, 0};
  if (a.centred) {
    for (int64_t i = w.begin; i < w.end; i += a.lanes) made.mean += real_at(a.dtype, a.x, element_place(a, w.x, i));
    made.mean = row_sum(made.mean, a.lanes) / n;
  }
  for (int64_t i = w.begin; i < w.end; i += a.lanes) {
    const double away = real_at(a.dtype, a.x, element_place(a, w.x, i)) - made.mean;
    made.squares += away * away;
  }
  made.squares = row_sum(made.squares, a.lanes);
  return made;
}

/* Mean and squares of the row from those of its parts. */
static __device__ inline norm_part join_parts(const norm_args &a, int64_t row) {
  const norm_part *const parts = a.parts + row * a.splits;
  const int64_t part = (a.n + a.splits - 1) / a.splits;
  norm_part made = {0, 0};
  const auto elements = [&](int32_t s) {
    const int64_t left = a.n - s * part;
    return static_cast<double>(left < part ? left : part);
  };
  if (a.centred) {
    for (int32_t s = 0; s < a.splits; s++) made.mean += elements(s) * parts[s].mean;
    made.mean /= static_cast<double>(a.n);
  }
  for (int32_t s = 0; s < a.splits; s++) {
    const double away = parts[s].mean - made.mean;
    made.squares += parts[s].squares + elements(s) * away * away;
  }
  return made;
}

/* A block a part of a row. */
KERNEL(norm_parts) {
  norm_walk w;
  if (!find_walk(a, &w)) return;
  const norm_part part = find_part(a, w);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = part;
}

/* Computes the walk's part of a row in double. Not inlined, because norm_dense calls it once for each dtype. */
static __device__ __noinline__ void run_row(const norm_args &a, const norm_walk &w) {
  const int64_t x = w.x, parameter = w.row % a.groups * a.parameter_group;
  const norm_part of_row = a.parts ? join_parts(a, w.row) : find_part(a, w);
  const double mean = of_row.mean, factor = 1 / sqrt(of_row.squares / static_cast<double>(a.n) + a.epsilon);
  int64_t at[CUDA_DIMS];
  for (int64_t i = w.begin; i < w.end; i += a.lanes) {
    int64_t from = x, scale = parameter, shift = parameter;
    split_index(i, a.rank, a.extents, at);
    for (int32_t d = 0; d < a.rank; d++) {
      from += at[d] * a.x_strides[d];
      scale += at[d] * a.scale_strides[d];
      shift += at[d] * a.shift_strides[d];
    }
    const double y = (real_at(a.dtype, a.x, from) - mean) * factor * real_at(a.scale_dtype, a.scale, scale) +
                     (a.shift ? real_at(a.shift_dtype, a.shift, shift) : 0);
    if (a.dtype == REED_F64) element<double>::store(a.dtype, a.y, from, element<double>::activate(a.activation, y));
    else element<float>::store(a.dtype, a.y, from, element<float>::activate(a.activation, static_cast<float>(y)));
  }
  if (w.begin) return;
  if (a.mean) value_store(a.stash_dtype, a.mean, w.row, convert_real(mean, a.stash_dtype));
  if (a.factor) value_store(a.stash_dtype, a.factor, w.row, convert_real(factor, a.stash_dtype));
}

KERNEL(norm_rows) {
  norm_walk w;
  if (!find_walk(a, &w)) return; /* all threads of a row, which have the warp or the block alone */
  run_row(a, w);
}

/* ---- dense rows ---- */

/* Elements of f32 in memory, as units.cuh has those of halves. */
struct f32_words {
  enum { IN_WORD = 1, DTYPE = REED_F32 };
  static __device__ inline float element(uint32_t word, int) { return __uint_as_float(word); }
};

/* A thread's vectors of a row: number `lane`, lane + lanes, ... below `all`; at most CUDA_NORM_VECTORS. */
template <class Unit> struct dense_part {
  enum { VECTOR = 4 * Unit::IN_WORD, SIZE = 4 / Unit::IN_WORD };
  const void *x;
  int64_t first; /* the row's first element */
  int lane, lanes, all;

  static __device__ inline void unpack(float (&to)[VECTOR], const void *data, int64_t at, int64_t stride) {
    part of;
    load_part(&of, SIZE, VECTOR, data, at, stride);
    UNROLL for (int e = 0; e < VECTOR; e++) to[e] = Unit::element(of.words[e / Unit::IN_WORD], e % Unit::IN_WORD);
  }
  /* Calls f(elements, place in the row) for each vector. */
  template <class F> __device__ inline void each(F f) const {
    ROLLED for (int v = lane; v < all; v += lanes) {
      const int64_t place = static_cast<int64_t>(v) * VECTOR;
      float elements[VECTOR];
      unpack(elements, x, first + place, 1);
      f(elements, place);
    }
  }
};
/* The sum of a vector by pairs. */
template <int N> static __device__ inline float vector_sum(float (&of)[N]) {
  UNROLL for (int n = N / 2; n; n /= 2) UNROLL for (int e = 0; e < n; e++) of[e] += of[e + n];
  return of[0];
}

/* Computes a row. False: f32 has not the range for it, and nothing is written. */
template <class Unit>
static __device__ inline bool normalise(const norm_args &a, const dense_part<Unit> &x, int64_t row, int64_t parameter) {
  enum { VECTOR = dense_part<Unit>::VECTOR };
  const double of_one = 1.0 / static_cast<double>(a.n);
  float about = 0, sum = 0, squares_of_part = 0;
  if (a.centred) {
    x.each([&](float(&e)[VECTOR], int64_t) { sum += vector_sum(e); });
    about = static_cast<float>(row_sum(static_cast<double>(sum), x.lanes) * of_one);
    sum = 0;
  }
  x.each([&](float(&e)[VECTOR], int64_t) {
    float squares[VECTOR];
    UNROLL for (int i = 0; i < VECTOR; i++) {
      e[i] -= about;
      squares[i] = e[i] * e[i];
    }
    sum += vector_sum(e);
    squares_of_part += vector_sum(squares);
  });
  const double rest = a.centred ? row_sum(static_cast<double>(sum), x.lanes) * of_one : 0,
               squares = row_sum(static_cast<double>(squares_of_part), x.lanes);
  if (!(squares <= 1e30 && squares + static_cast<double>(a.n) * a.epsilon >= 1e-25)) return false;
  const float factor = 1 / sqrtf(static_cast<float>(fmax(squares * of_one - rest * rest, 0.0) + a.epsilon)),
              more = static_cast<float>(rest);
  x.each([&](float(&e)[VECTOR], int64_t place) {
    float scale[VECTOR], shift[VECTOR];
    x.unpack(scale, a.scale, parameter + (a.scale_strides[0] ? place : 0), a.scale_strides[0]);
    if (a.shift) x.unpack(shift, a.shift, parameter + (a.shift_strides[0] ? place : 0), a.shift_strides[0]);
    UNROLL for (int i = 0; i < VECTOR; i++) e[i] =
        fmaf((e[i] - about - more) * factor, scale[i], a.shift ? shift[i] : 0.0f);
    activate_all(a.activation, e);
    part y;
    UNROLL for (int w = 0; w < 4; w++) {
      if constexpr (Unit::IN_WORD == 1) y.words[w] = __float_as_uint(e[w]);
      else y.words[w] = Unit::pair(e[2 * w], e[2 * w + 1]);
    }
    store_part(y, x.SIZE, VECTOR, a.y, x.first + place);
  });
  if (x.lane) return true;
  const double mean = static_cast<double>(about) + rest;
  if (a.mean) value_store(a.stash_dtype, a.mean, row, convert_real(mean, a.stash_dtype));
  if (a.factor) value_store(a.stash_dtype, a.factor, row, convert_real(static_cast<double>(factor), a.stash_dtype));
  return true;
}

/* `lanes` threads of block or warp a row. */
template <class Unit> static __device__ inline void run_dense(const norm_args &a) {
  const int64_t thread = thread_number(), row = thread / a.lanes;
  if (row >= true_number(a.counted, a.rows)) return;
  int64_t image = row, first = row * a.x_image, parameter = 0;
  if (a.groups != 1) {
    const int64_t group = split_last(&image, a.groups);
    first = image * a.x_image + group * a.x_group;
    parameter = group * a.parameter_group;
  }
  const dense_part<Unit> x = {a.x, first, static_cast<int>(thread % a.lanes), a.lanes,
                              static_cast<int>(a.n) / dense_part<Unit>::VECTOR};
  if (normalise<Unit>(a, x, row, parameter)) return;
  norm_walk w;
  find_walk(a, &w);
  run_row(a, w);
}

KERNEL_OF_BLOCKS(3, norm_dense) {
  if (a.dtype == REED_F32) run_dense<f32_words>(a);
  else if (a.dtype == REED_F16) run_dense<f16_unit>(a);
  else run_dense<bf16_unit>(a);
}
