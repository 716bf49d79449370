/* Preparing kernels for operands with room along an axis (reed_room, not counted), whether they read strides or not. */
#ifndef OPS_ROOM_CALL_H_
#define OPS_ROOM_CALL_H_

#include "ops/kernel.h"

/* Prepares a kernel for a call whose operands may have rooms. A kernel that does not say reads_rooms runs on dense
 * copies of the inputs that have gaps; the copies lie in the workspace, and dense_bytes counts them. ERROR_UNSUPPORTED
 * if an output has gaps that the kernel does not leave out. Counted rooms: bounded_call.h; with reads_counts `prepare`
 * takes them itself. */
reed_status room_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, bool reads_counts,
                         reed_kernel *out_kernel) REED_MUST_CHECK;

/* True if the room leaves gaps between the elements of a tensor of that desc; room NULL: it has none. */
bool room_has_gaps(const reed_desc *desc, const reed_room *room);

#endif
