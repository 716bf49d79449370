/* Element-wise operators, Cast, Fused and FusedColumns: a program of formulas; most programs have kernel `map_words`. A
 * thread computes `part` neighbours of the output, one after the other, so that it splits one index, and loads and
 * stores up to 16 bytes at once. It keeps a program's values in its local memory, whose words of one number lie side by
 * side for the lanes of a warp, so they stay in the first-level cache and are read as shared memory is. Every lane
 * takes the same branch of a formula. */
#include "device/cuda/kernels/formulas.cuh"
#include "device/cuda/kernels/parts.cuh"

/* The place of an output element in the leaf, which is broadcast by strides of 0. */
static __device__ inline int64_t leaf_place(const map_args &a, int32_t k, const int64_t *at, int64_t count) {
  int64_t place = 0;
  const int32_t scaled = a.scaled >> k & 1 ? a.counted_dim : 0;
  for (int32_t d = 0; d < a.rank; d++) place += at[d] * a.leaves[k].strides[d] * (d < scaled ? count : 1);
  return place;
}

/* As split_index, where the extent of counted_dim is the count. */
static __device__ inline void split_counted(const map_args &a, int64_t i, int64_t count, int64_t *at) {
  for (int32_t d = a.rank - 1; d > 0; d--) {
    const int64_t extent = d == a.counted_dim ? count : a.extents[d];
    at[d] = i % extent;
    i /= extent;
  }
  at[0] = i;
}

/* The coordinates of output element (or row) i. count: of counted_dim. */
static __device__ inline void split_dims(const map_args &a, int64_t i, int64_t count, int64_t *at) {
  if (a.counted_dim) split_counted(a, i, count, at);
  else split_index(i, a.rank, a.extents, at);
}

static __device__ inline uint64_t step_value(const map_step &step, const uint64_t *values, int *fault) {
  const uint64_t first = values[step.operands[0]], second = values[step.operands[1]], third = values[step.operands[2]];
  if (step.formula == OP_Cast) return value_convert(step.from, step.to, first);
  if (step.formula == OP_Where) return (first & 0xff) ? second : third;
  return formula_apply(step, first, second, third, fault);
}

KERNEL(map) {
  const int64_t i = thread_number() * a.part, n = true_number(a.counted, a.n);
  if (i >= n) return;
  const int elements = static_cast<int>(n - i < a.part ? n - i : a.part);
  const int64_t count = a.counted_dim ? true_count(a.counted) : 1;
  int64_t at[CUDA_DIMS];
  uint64_t values[MAP_VALUES];
  part loaded[MAP_LEAVES], made;
  uint32_t repeated = 0; /* bit k: all elements read one element of leaf k */
  split_dims(a, i, count, at);
  for (int32_t k = 0; k < a.n_leaves; k++) {
    const map_leaf &leaf = a.leaves[k];
    const int64_t step = a.rank ? leaf.strides[a.rank - 1] : 0;
    values[k] = leaf.constant;
    if (!leaf.data) continue;
    if (step == 0) repeated |= 1u << k;
    load_part(&loaded[k], a.bytes[k], step ? elements : 1, leaf.data, leaf_place(a, k, at, count), step);
  }
  for (int e = 0; e < elements; e++) {
    int fault = 0;
    for (int32_t k = 0; k < a.n_leaves; k++)
      if (a.leaves[k].data && (e == 0 || !(repeated >> k & 1)))
        values[k] =
            value_convert(a.dtypes[k], a.held[k], value_held(a.dtypes[k], part_element(loaded[k], a.bytes[k], e)));
    for (int32_t j = 0; j < a.n_steps; j++) values[a.n_leaves + j] = step_value(a.steps[j], values, &fault);
    if (fault)
      note_fault(a.fault, a.launch, REED_FAULT_DIVISION, a.divisor,
                 a.divisor < 0
                     ? -1
                     : leaf_place(a, a.divisor, at, count) + (a.rank ? e * a.leaves[a.divisor].strides[a.rank - 1] : 0),
                 0, 0);
    set_part_element(&made, a.y_bytes, e,
                     value_bits(a.y_dtype, value_convert(a.last_dtype, a.y_dtype, values[a.n_leaves + a.n_steps - 1])));
  }
  store_part(made, a.y_bytes, elements, a.y, i);
}

/* FusedColumns: a thread has a row. The threads of a warp read neighbouring rows, so the columns of one tensor come
 * from the same lines of memory. */
KERNEL(map_columns) {
  const map_args &m = a.program;
  const int64_t i = thread_number(), n = true_number(m.counted, m.n);
  if (i >= n) return;
  const int64_t count = m.counted_dim ? true_count(m.counted) : 1;
  int64_t at[CUDA_DIMS];
  uint64_t values[MAP_VALUES];
  int fault = 0;
  split_dims(m, i, count, at);
  for (int32_t k = 0; k < m.n_leaves; k++) {
    part loaded;
    load_part(&loaded, m.bytes[k], 1, m.leaves[k].data, leaf_place(m, k, at, count), 1);
    values[k] = value_convert(m.dtypes[k], m.held[k], value_held(m.dtypes[k], part_element(loaded, m.bytes[k], 0)));
  }
  for (int32_t j = 0; j < m.n_steps; j++) values[m.n_leaves + j] = step_value(m.steps[j], values, &fault);
  if (fault) note_fault(m.fault, m.launch, REED_FAULT_DIVISION, -1, -1, 0, 0);
  const int together = 16 / m.y_bytes;
  part made;
  for (int first = 0; first < a.n_results; first += together) {
    const int results = a.n_results - first < together ? a.n_results - first : together;
    for (int e = 0; e < results; e++)
      set_part_element(&made, m.y_bytes, e,
                       value_bits(m.y_dtype, value_convert(m.last_dtype, m.y_dtype, values[a.results[first + e]])));
    store_part(made, m.y_bytes, results, m.y, i * a.n_results + first);
  }
}
