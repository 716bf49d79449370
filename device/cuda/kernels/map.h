/* Programs of element-wise formulas for kernel `map`: made by the element-wise operators, and by others that need an
 * element-wise pass. */
#ifndef DEVICE_CUDA_KERNELS_MAP_H_
#define DEVICE_CUDA_KERNELS_MAP_H_

#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/formulas/formulas.h"

/* Memory that a leaf reads, or that the program writes. */
typedef struct map_operand {
  cuda_source source; /* CUDA_FROM_INPUT, CUDA_FROM_OUTPUT or CUDA_FROM_WORKSPACE */
  int32_t index;
  reed_dtype dtype;
  const reed_desc *desc; /* extents; NULL: the output's */
} map_operand;

/* A launch of `map` whose program is being written. */
typedef struct map_program {
  map_args args;
  map_operand leaves[MAP_LEAVES], y;
} map_program;

/* The dtype in which values of this dtype are held. */
static inline reed_dtype map_held(reed_dtype dtype) {
  return dtype == REED_F16 || dtype == REED_BF16 ? REED_F32 : dtype;
}

/* Adds a leaf, held as `held`; returns the number of its value. All leaves come before the first step. */
int32_t map_input(map_program *p, const reed_kernel_call *call, int32_t input, reed_dtype held);
int32_t map_leaf_of(map_program *p, map_operand operand, reed_dtype held);
int32_t map_constant(map_program *p, reed_dtype dtype, double value);
/* Adds a step with its operands' numbers; returns the number of its value. */
int32_t map_add(map_program *p, map_step step);
/* Adds the launch to the plan: the last value, of dtype `last`, becomes the elements of y, whose extents are `out`'s.
 * Nothing for a tensor without elements. ERROR_SHAPE: a leaf does not broadcast. */
reed_status map_launch(map_program *p, cuda_plan *plan, const reed_desc *out, map_operand y,
                       reed_dtype last) REED_MUST_CHECK;
/* The args of kernel `map_words` for the program, whose dims are joined; without addresses. False: values of 64 bits,
 * formulas of integers, too many leaves, steps, dims or elements, or a counted dim behind others. */
bool map_words_of(const map_args *a, map_words_args *out_words);

#endif
