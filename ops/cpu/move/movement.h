/* What other kernels take from ops/cpu/move/movement.c. */
#ifndef OPS_CPU_MOVE_MOVEMENT_H_
#define OPS_CPU_MOVE_MOVEMENT_H_

#include "ops/cpu/common/common.h"

/* A kernel whose output 0 is the elements of input 0 from `offset` on, which are as many at least. */
reed_status movement_prepare_part(const reed_kernel_call *call, int64_t offset,
                                  reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
