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
/* Notes for every key register whether its part of active->key differs from its part of the base's key. Both keys are
 * complete (memoizable). */
void key_note_changes(epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base);
/* Finds which parts of active->key differ from those of the base's key: ENTRY_KEYS bits. False: they differ in more
 * than extents and elements, or there are too many. Both keys are complete. */
bool key_find_changes(const epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base,
                      uint64_t *out_changed);
/* True if the parts in the list `changed` differ from the base's in the lengths of caches alone that grow in place, and
 * in extents that grow by as much, such as that of a mask of all tokens. */
bool key_lengths_changed(const epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base,
                         const uint64_t *changed);
/* The first key among the first `n` whose part of the key equals part `n`, but for the cache's number; `n`: none. */
uint32_t key_first_alike(const int64_t *key, const insn_epoch_enter *enter, uint32_t n);
/* True if each part of the key equals the part alike[i], but for the cache's number. No part has elements if
 * alike[i] is another one. */
bool key_parts_alike(const int64_t *key, const insn_epoch_enter *enter, const uint16_t *alike);
/* The parts of a key, which begins with active->key.n = 0: a stored tensor (value: with its elements, whose bytes are
 * added to *value_bytes), a scalar. */
reed_status key_add_tensor(epoch_active *active, const ref *r, bool value, int64_t *value_bytes,
                           reed_diagnosis *diagnosis) REED_MUST_CHECK;
reed_status key_add_scalar(epoch_active *active, int64_t value, reed_diagnosis *diagnosis) REED_MUST_CHECK;
bool key_is_memoizable(int64_t value_bytes);
uint64_t key_hash(const int64_t *key, size_t n);

#endif
