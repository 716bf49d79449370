/* Hardmax and LpNormalization of f32. */
#ifndef OPS_CPU_REDUCE_HARDMAX_H_
#define OPS_CPU_REDUCE_HARDMAX_H_

#include "ops/cpu/calls/softmax.h"

/* Prepares a call that has been read. */
reed_status hardmax_prepare(const reed_kernel_call *call, const softmax *s, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
