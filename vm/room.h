/* Registers whose memory has room along an axis (tensor.room): views of them, and dense copies for instructions that
 * move bytes. Such registers come from caches (growth.h). */
#ifndef VM_ROOM_H_
#define VM_ROOM_H_

#include "vm/state.h"

/* Gives the view `to` of the tensor `from` its room, if its extents leave the axis with room as it is. Beside axes of
 * extent 1 an axis of extent 1 may be several axes of the view: the view gets the same axis, otherwise the last one,
 * because the strides are the same. False: only a dense copy of the elements has such extents; *to is unchanged. */
bool room_of_view(const tensor *from, tensor *to);
/* True if the tensor's room lies along the axis, or along another one while both and all between have extent 1, and
 * `grown`, the tensor with more rows along the axis, fits into it. axis -1: false. */
bool room_holds(const tensor *t, int32_t axis, const reed_desc *grown);
/* Starts a copy of the elements to dense memory of the same device, behind the work queued there, and counts it. */
reed_status room_copy(reed_session *s, const tensor *from, void *target) REED_MUST_CHECK;
/* *out_dense: the tensor if it is dense; otherwise a dense copy in the device's pool, with a reference of its own to
 * its storage, which the caller releases, also after a failure. */
reed_status room_make_dense(reed_session *s, const tensor *from, tensor *out_dense) REED_MUST_CHECK;

#endif
