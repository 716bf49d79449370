/* Kernels that know nothing of room, run for operands whose extents only the device knows. */
#ifndef OPS_BOUNDED_CALL_H_
#define OPS_BOUNDED_CALL_H_

#include "ops/kernel.h"

/* Prepares a kernel for a call some of whose inputs have a counted room, from a kernel that knows no room: `run` reads
 * the true extents, prepares `prepare`'s kernel for them (again only where they differ from the last run's) and runs it
 * on the workspace of the bound. Results are those of the exact call, bit for bit. A call without such an input is
 * prepared as it is. A prepared kernel is run by one thread at a time. */
reed_status bounded_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare,
                            reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
