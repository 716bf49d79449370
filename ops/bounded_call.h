/* Preparing the kernels of ops/cpu, which know only exact extents, for operands whose extents only the device knows. */
#ifndef OPS_BOUNDED_CALL_H_
#define OPS_BOUNDED_CALL_H_

#include "ops/kernel.h"

/* Prepares a kernel for a call with counted rooms from a `prepare` that knows no rooms. A run reads the true extents,
 * prepares the inner kernel for them (only if they differ from the last run's) and runs it on the workspace of the
 * bound. Results are those of the exact call, bit for bit. A call without counted rooms is prepared directly, and so
 * is every call of a `prepare` that takes counted rooms (reads_counts). One
 * thread at a time may run the prepared kernel. */
reed_status bounded_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, bool reads_counts,
                            reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
