/* The CUDA device's kernel for each operator: the rows of ops/cuda.def. */
#ifndef DEVICE_CUDA_KERNELS_OPERATORS_H_
#define DEVICE_CUDA_KERNELS_OPERATORS_H_

#include <stdbool.h>

#include "device/cuda/kernels/kernel.h"
#include "reed/operator.h"

/* The function that prepares the operator's launches (kernel.h); NULL: none. `op` may be a row of another copy of the
 * operator table, such as that of the library that loads this module: it is known by its name. */
reed_kernel_prepare_fn cuda_kernel_of(const reed_op *op, cuda_math math);

/* A row of ops/cuda.def: the operator's name, and the kernels that its launches may name (launches.def). */
typedef struct cuda_operator {
  const char *name, *kernels;
} cuda_operator;
/* A row without a name ends the table. */
extern const cuda_operator cuda_operators[];
/* True if the operator of the row may launch the kernel: "map" or, as its symbol, "reed_map". */
bool cuda_operator_launches(const cuda_operator *row, const char *kernel);

#endif
