/* Movement of elements by places and by indices. An element is 1, 2, 4 or 8 bytes, whatever its dtype. One thread
 * moves one element, or, where neighbours go to neighbours, a vector of 16 bytes. */
#include "device/cuda/kernels/indices.cuh"

/* The rows that a move with `reported` copies, of n. */
static __device__ inline int64_t rows_of(const move_args &a, int64_t n) {
  int64_t end = a.end < 0 ? a.end + n : a.end;
  if (end > n) end = n;
  return a.start >= end ? 0 : (end - a.start - 1) / a.step + 1;
}

KERNEL(move) {
  const int64_t i = thread_number();
  if (a.reported) {
    const int64_t rows = rows_of(a, true_count(a.counted));
    if (i == 0) *a.reported = rows;
    if (i >= rows * a.row) return;
  } else if (i >= true_number(a.counted, a.n)) {
    return;
  }
  const int64_t count = a.counted.count ? true_count(a.counted) : 1;
  int64_t at[MOVE_DIMS], from = a.from_offset + a.from_outer * count, to = a.to_offset;
  split_index(i, a.rank, a.extents, at);
  for (int32_t d = 0; d < a.rank; d++) {
    from += at[d] * a.from[d] * (a.from_scaled >> d & 1 ? count : 1);
    to += at[d] * a.to[d] * (a.to_scaled >> d & 1 ? count : 1);
  }
  copy_vector(a.size, a.unit, a.y, to, a.x, from);
}

KERNEL(moves) {
  int32_t p = 0;
  UNROLL for (int32_t k = 1; k < MOVES_PARTS; k++) if (k < a.n_parts && blockIdx.x >= a.parts[k].first_block) p = k;
  const move_part &part = a.parts[p];
  const uint32_t i = (blockIdx.x - part.first_block) * blockDim.x + threadIdx.x,
                 n = a.counted.count ? part.n * static_cast<uint32_t>(true_count(a.counted)) : part.n;
  if (i >= n || (part.keeps && part.x == part.y)) return;
  uint32_t at = i, from = part.from_offset, to = part.to_offset;
  UNROLL for (int d = MOVES_DIMS - 1; d >= 0; d--) {
    if (MOVES_DIMS - 1 - d >= part.splits) {
      from += at * part.from[d];
      to += at * part.to[d];
      break;
    }
    const uint32_t rest = at / part.extents[d], own = at - rest * part.extents[d];
    from += own * part.from[d];
    to += own * part.to[d];
    at = rest;
  }
  copy_vector(part.size, part.unit, part.y, to, part.x, from);
}

KERNEL(join) {
  const int64_t i = thread_number(), before = a.before ? *a.before : 0,
                rows = a.is_counted ? true_count(a.counted) : a.rows;
  if (i == 0) *a.after = before + rows;
  if (i < rows * a.row) copy_element(a.size, a.y, before * a.row + i, a.x, i);
}

/* The coordinate of x for coordinate i of y; -1: the constant. */
static __device__ inline int64_t pad_source(int32_t mode, int64_t first, int64_t extent, int64_t before, int64_t i) {
  int64_t at = i - before;
  if (at >= 0 && at < extent) return first + at;
  if (mode == 'e') return first + (at < 0 ? 0 : extent - 1);
  if (mode == 'w') {
    at %= extent;
    return first + (at < 0 ? at + extent : at);
  }
  if (mode == 'r') { /* the edge is not repeated: 2 1 0 1 2 1 0 */
    if (extent == 1) return first;
    const int64_t period = 2 * (extent - 1);
    at %= period;
    if (at < 0) at += period;
    return first + (at < extent ? at : period - at);
  }
  return -1;
}

KERNEL(pad) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  int64_t at[CUDA_DIMS], from = 0;
  bool outside = false;
  split_index(i, a.rank, a.extents, at);
  for (int32_t d = 0; d < a.rank; d++) {
    const int64_t source = pad_source(a.mode, a.first[d], a.extent[d], a.before[d], at[d]);
    outside = outside || source < 0;
    from += source * a.strides[d];
  }
  if (!outside) copy_element(a.size, a.y, i, a.x, from);
  else if (a.value) copy_element(a.size, a.y, i, a.value, 0);
  else zero_element(a.size, a.y, i);
}

KERNEL(gather) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const bool blocks = a.counted.count && a.counted_part == COUNTED_BLOCK;
  const int64_t n_indices = a.counted_part == COUNTED_INDICES ? true_number(a.counted, a.n_indices) : a.n_indices,
                block = blocks ? true_number(a.counted, a.block) : a.block;
  const int64_t extents[] = {0, n_indices, block};
  int64_t at[3];
  split_index(i, 3, extents, at);
  const int64_t b = at[2], k = at[1], outer = at[0];
  int64_t from = outer * (blocks ? true_number(a.counted, a.batch) : a.batch) + b;
  for (int32_t c = 0; c < a.n_components; c++) {
    const int64_t place = outer * a.indices_batch + k * a.n_components + c;
    int64_t index;
    const int64_t extent = a.rows.count ? true_count(a.rows) : a.extents[c];
    if (!read_index(a.index_size, a.indices, place, extent, a.fault, a.launch, &index)) return;
    from += index * (blocks ? true_number(a.counted, a.strides[c]) : a.strides[c]);
  }
  copy_vector(a.size, a.unit, a.y, i, a.x, from);
}

KERNEL(gather_elements) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  int64_t at[CUDA_DIMS], from = 0, index;
  split_index(i, a.rank, a.extents, at);
  if (!read_index(a.index_size, a.indices, i, a.extent, a.fault, a.launch, &index)) return;
  for (int32_t d = 0; d < a.rank; d++) from += (d == a.axis ? index : at[d]) * a.strides[d];
  copy_element(a.size, a.y, i, a.x, from);
}
