/* Functions of ops/cpu/move/movement.c for other kernels. */
#ifndef OPS_CPU_MOVE_MOVEMENT_H_
#define OPS_CPU_MOVE_MOVEMENT_H_

#include "ops/cpu/common/common.h"

/* Prepares a kernel whose output 0 is a part of input 0: the elements from `offset` on. */
reed_status movement_prepare_part(const reed_kernel_call *call, int64_t offset,
                                  reed_kernel *out_kernel) REED_MUST_CHECK;

/* Copies a block; blocks with the size of one load and store are copied without a call. */
static inline void copy_block(char *to, const char *from, int64_t bytes) {
  switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    case 16: memcpy(to, from, 16); break;
    default: memcpy(to, from, (size_t)bytes);
  }
}

#endif
