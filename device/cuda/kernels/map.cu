/* Element-wise operators, Cast and Fused: a program of formulas, one thread an element of the output. A thread keeps
 * the program's values in its local memory, whose words of one number lie side by side for the lanes of a warp, so they
 * stay in the first-level cache and are read as shared memory is. Every lane takes the same branch of a formula. */
#include "device/cuda/kernels/formulas.cuh"

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

KERNEL(map) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t count = a.counted_dim ? true_count(a.counted) : 1;
  int64_t at[CUDA_DIMS];
  uint64_t values[MAP_VALUES];
  int fault = 0;
  if (a.counted_dim) split_counted(a, i, count, at);
  else split_index(i, a.rank, a.extents, at);
  for (int32_t k = 0; k < a.n_leaves; k++) {
    const map_leaf &leaf = a.leaves[k];
    values[k] = leaf.constant;
    if (leaf.data)
      values[k] = value_convert(a.dtypes[k], a.held[k], value_load(a.dtypes[k], leaf.data, leaf_place(a, k, at, count)));
  }
  for (int32_t j = 0; j < a.n_steps; j++) {
    const map_step &step = a.steps[j];
    const uint64_t first = values[step.operands[0]], second = values[step.operands[1]],
                   third = values[step.operands[2]];
    uint64_t result;
    if (step.formula == OP_Cast) result = value_convert(step.from, step.to, first);
    else if (step.formula == OP_Where) result = (first & 0xff) ? second : third;
    else result = formula_apply(step, first, second, third, &fault);
    values[a.n_leaves + j] = result;
  }
  if (fault)
    note_fault(a.fault, a.launch, REED_FAULT_DIVISION, a.divisor,
               a.divisor < 0 ? -1 : leaf_place(a, a.divisor, at, count), 0, 0);
  value_store(a.y_dtype, a.y, i, value_convert(a.last_dtype, a.y_dtype, values[a.n_leaves + a.n_steps - 1]));
}
