/* Lines of elements that are computed in double: Softmax, LogSoftmax, Hardmax and LpNormalization of f64, and the
 * normalisations of norm.h of f64, in training and with repeated parameters. */
#ifndef OPS_CPU_REDUCE_LINES_DOUBLE_H_
#define OPS_CPU_REDUCE_LINES_DOUBLE_H_

#include "ops/cpu/calls/norm.h"
#include "ops/cpu/calls/softmax.h"

/* Elements of a line that are taken at a time; fixed, so that results do not depend on the number of threads. */
#define DOUBLE_PIECE 2048

/* Prepare a call that has elements; they leave out_kernel as it is if the call's dtype is not theirs. */
reed_status softmax_prepare_double(const reed_kernel_call *call, const softmax *s,
                                   reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status norm_prepare_double(const reed_kernel_call *call, norm_kind kind, const norm *n,
                                reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
