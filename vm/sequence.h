/* seq.stack and seq.join: make one tensor of the tensors of a sequence. */
#ifndef VM_SEQUENCE_H_
#define VM_SEQUENCE_H_

#include "vm/state.h"

reed_status exec_stack(reed_session *s, ref *target, const ref *sequence, const module_type *type, int32_t device,
                       bool join) REED_MUST_CHECK;

#endif
