/* Functions of ops/cpu/move/movement.c for other kernels. */
#ifndef OPS_CPU_MOVE_MOVEMENT_H_
#define OPS_CPU_MOVE_MOVEMENT_H_

#include "ops/cpu/common/common.h"

/* Prepares a kernel whose output 0 is a part of input 0: the elements from `offset` on. */
reed_status movement_prepare_part(const reed_kernel_call *call, int64_t offset,
                                  reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
