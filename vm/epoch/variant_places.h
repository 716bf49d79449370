/* The places of an entry that a variant has of its own (variant.h). */
#ifndef VM_EPOCH_VARIANT_PLACES_H_
#define VM_EPOCH_VARIANT_PLACES_H_

#include "bytecode/operands.h"
#include "vm/epoch/variant_list.h"
#include "vm/state.h"

/* The places of a complete entry for keys that differ in the parts in which its own key differed from its base's; NULL:
 * there are too many places, a part decides more than shapes, kernels and sizes, or there is no memory. The entry has a
 * list of calls; its shape section begins at the word `pc`. */
variant_places *variant_find_places(reed_session *s, const epoch_entry *e, const insn_epoch_enter *enter,
                                    uint32_t pc) REED_MUST_CHECK;
/* True if Concat's inputs may be computed in the output's place. */
bool variant_may_join(const vm_run *run, uint32_t site, const reed_desc *output);

#endif
