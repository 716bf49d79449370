/* Element-wise operators, Cast and Fused: a program of formulas, one thread an element of the output. A thread keeps
 * the program's values in its local memory, whose words of one number lie side by side for the lanes of a warp, so they
 * stay in the first-level cache and are read as shared memory is. Every lane takes the same branch of a formula. */
#include "device/cuda/kernels/formulas.cuh"

/* The place of an output element in the leaf, which is broadcast by strides of 0. */
static __device__ inline int64_t leaf_place(const map_args &a, const map_leaf &leaf, const int64_t *at) {
  int64_t place = 0;
  for (int32_t d = 0; d < a.rank; d++) place += at[d] * leaf.strides[d];
  return place;
}

KERNEL(map) {
  const int64_t i = thread_number();
  if (i >= a.n) return;
  int64_t at[CUDA_DIMS];
  uint64_t values[MAP_VALUES];
  int fault = 0;
  split_index(i, a.rank, a.extents, at);
  for (int32_t k = 0; k < a.n_leaves; k++) {
    const map_leaf &leaf = a.leaves[k];
    values[k] = leaf.constant;
    if (leaf.data)
      values[k] = value_convert(a.dtypes[k], a.held[k], value_load(a.dtypes[k], leaf.data, leaf_place(a, leaf, at)));
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
               a.divisor < 0 ? -1 : leaf_place(a, a.leaves[a.divisor], at), 0, 0);
  value_store(a.y_dtype, a.y, i, value_convert(a.last_dtype, a.y_dtype, values[a.n_leaves + a.n_steps - 1]));
}
