/* The kernels of these tests: their args, and the table of them. */
#ifndef TESTS_DEVICE_CUDA_SIMT_KERNELS_H_
#define TESTS_DEVICE_CUDA_SIMT_KERNELS_H_

#include "device/cuda/simt/simt.h"

/* `fault` chooses the fault of a kernel of faults.cu; 0: none. */
typedef struct test_args {
  const float *x;
  float *y;
  int32_t n, fault;
} test_args;

#ifdef __cplusplus
extern "C" {
#endif
extern const simt_kernel kernel_sum, kernel_barriers, kernel_votes, kernel_places, kernel_atomics; /* sound.cu */
extern const simt_kernel kernel_reverse, kernel_lanes, kernel_memory;                              /* faults.cu */
extern const simt_kernel kernel_mma_tf32, kernel_mma_f16, kernel_mma_bf16, kernel_transposed,
    kernel_in_rows; /* mma.cu */
#ifdef __cplusplus
}
#endif
#endif
