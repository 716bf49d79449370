/* Copies between devices, read-backs, synchronisation. */
#ifndef VM_COPY_H_
#define VM_COPY_H_

#include "vm/state.h"

reed_status exec_copy(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_readback(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
/* why: the number of the string that says why the host needs the extent, or PROFILE_NO_REASON. */
reed_status exec_extent(reed_session *s, ref *r, uint32_t why) REED_MUST_CHECK;
reed_status exec_sync(reed_session *s) REED_MUST_CHECK;

#endif
