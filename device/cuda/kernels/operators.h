/* The CUDA device's kernel for each operator: the rows of ops/cuda.def. */
#ifndef DEVICE_CUDA_KERNELS_OPERATORS_H_
#define DEVICE_CUDA_KERNELS_OPERATORS_H_

#include "reed/operator.h"

/* The function that prepares the operator's launches (kernel.h); NULL: none. `op` may be a row of another copy of the
 * operator table, such as that of the library that loads this module: it is known by its name. */
reed_kernel_prepare_fn cuda_kernel_of(const reed_op *op);

#endif
