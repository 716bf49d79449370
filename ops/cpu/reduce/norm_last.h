/* Normalisation of images whose channels come last. */
#ifndef OPS_CPU_REDUCE_NORM_LAST_H_
#define OPS_CPU_REDUCE_NORM_LAST_H_

#include "ops/cpu/calls/norm.h"

/* Batch (without training), instance and group normalisation of f32 images with channels last in memory. */
reed_status norm_prepare_last(const reed_kernel_call *call, norm_kind kind, const norm *n,
                              reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
