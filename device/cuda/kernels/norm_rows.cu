/* Layer, RMS, instance and group normalisation: `lanes` threads a row, a warp or a block. Mean and variance are taken
 * in two passes in double, as in the host's reference, so that a long row or a large mean loses nothing. Few long rows
 * are split over blocks: a launch before finds mean and squares of each part, which every block joins in the same order
 * (Chan, Golub and LeVeque 1979). */
#include "device/cuda/kernels/elements.cuh"

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

KERNEL(norm_rows) {
  norm_walk w;
  if (!find_walk(a, &w)) return; /* all threads of a row, which have the warp or the block alone */
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
