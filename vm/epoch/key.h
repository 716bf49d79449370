/* Keys of epochs: extents and dtypes of all key registers, elements of those flagged `value`, the scalar keys. */
#ifndef VM_EPOCH_KEY_H_
#define VM_EPOCH_KEY_H_

#include "bytecode/operands.h"
#include "vm/epoch/active.h"
#include "vm/run.h"

/* Forms the key of an `epoch.enter` in active->key. *out_memoizable false: the `value` elements are too many to
 * compare. */
reed_status key_form(vm_run *run, epoch_active *active, const insn_epoch_enter *enter,
                     bool *out_memoizable) REED_MUST_CHECK;
uint64_t key_hash(const int64_t *key, size_t n);

#endif
