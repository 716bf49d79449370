/* A launch that makes an input dense: part of other operators' plans (rooms.c). */
#ifndef DEVICE_CUDA_KERNELS_MOVE_H_
#define DEVICE_CUDA_KERNELS_MOVE_H_

#include "device/cuda/kernels/kernel.h"

/* Adds a copy of the input, which has room along an axis, to the workspace from byte workspace_at on. */
void move_to_dense(cuda_plan *plan, int32_t input, int64_t workspace_at);

#endif
