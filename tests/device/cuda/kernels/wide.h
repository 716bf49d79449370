/* Launches over more elements than 32 bits, or their signed numbers, count: the first and the last block of each. The
 * memory is only reserved; the blocks' pages alone are touched. */
#ifndef TESTS_DEVICE_CUDA_KERNELS_WIDE_H_
#define TESTS_DEVICE_CUDA_KERNELS_WIDE_H_

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

#define MANY (((int64_t)1 << 32) + 777) /* elements */

enum { ONE = 0x3c00 }; /* of f16; ONE + k: the k-th number after 1 */

static inline void *reserve(int64_t bytes) {
  void *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert_ptr_ne(data, MAP_FAILED);
  return data;
}

/* Runs the first and the last block of each launch of the call. */
static inline void run_ends(emulated_call *c) {
  reed_kernel kernel = emulated_prepare(c);
  const cuda_prepared *plan = kernel.state;
  if (kernel.workspace_bytes) c->workspace = reserve(kernel.workspace_bytes);
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    const uint64_t last = plan->launches[i].grid[0] - 1, ends[] = {0, last};
    c->blocks = ends;
    c->n_blocks = last ? 2 : 1;
    emulated_launch(c, plan, &plan->launches[i]);
  }
  kernel.free(kernel.state);
}

#endif
