/* Preparing kernels for inputs with room along an axis (reed_room, not counted), whether they read strides or not: on
 * the card what ops/room_call.h is on the host. */
#ifndef DEVICE_CUDA_KERNELS_ROOMS_H_
#define DEVICE_CUDA_KERNELS_ROOMS_H_

#include "device/cuda/kernels/kernel.h"

/* Prepares a kernel for a cuda_call whose inputs may have rooms. A kernel that does not say reads_rooms gets launches
 * before its own that copy the inputs with gaps to the workspace; dense_bytes counts them. */
reed_status rooms_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare,
                          reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
