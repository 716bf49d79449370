/* Memory of registers: alloc, shape.like, view, move, constants, scalars. */
#ifndef VM_MEMORY_H_
#define VM_MEMORY_H_

#include "vm/state.h"

/* Gives a shaped register memory: the epoch entry's in a shape section, else from its device's pool. */
reed_status give_memory(reed_session *s, ref *r) REED_MUST_CHECK;
reed_status exec_alloc(reed_session *s, ref *r) REED_MUST_CHECK;
reed_status exec_shape_like(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
/* view, of registers of the top frame. */
reed_status exec_view(reed_session *s, uint32_t target, uint32_t source) REED_MUST_CHECK;
/* r.move. In a shape section the elements of a key are copied, because a memo entry must not refer to a key's memory.
 */
reed_status exec_move(reed_session *s, uint32_t target, uint32_t source) REED_MUST_CHECK;
reed_status exec_constant(reed_session *s, ref *target, uint32_t constant, int32_t device) REED_MUST_CHECK;
reed_status exec_scalar_tensor(reed_session *s, ref *target, int64_t value, reed_dtype dtype) REED_MUST_CHECK;

#endif
