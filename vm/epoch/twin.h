/* Twins: two calls of one family (vm/family.h), such as those of a model's equal layers. While their operands are equal
 * too, the second call has the results of the first: its extents, or its prepared kernel. Every shape section asks for
 * the extents, variants (variant.h) for the kernels of the calls that they list. Kernels of all other calls are found
 * in the table of prepared kernels (vm/site.h). */
#ifndef VM_EPOCH_TWIN_H_
#define VM_EPOCH_TWIN_H_

#include "bytecode/operands.h"
#include "vm/epoch/variant_list.h"
#include "vm/state.h"

/* Executes a `shape` of the shape section with the results of a twin that the section has called. *out_repeated false:
 * none of the family's last calls is a twin, and nothing has been done. */
reed_status twin_repeat_shape(reed_session *s, const uint32_t *w, bool *out_repeated) REED_MUST_CHECK;
/* Notes that the shape section has called the shape function of the `shape` at w. */
void twin_note_shape(reed_session *s, const uint32_t *w);
/* The number of the first kernel of the places of which the call may be a twin; -1: there is none. */
int32_t twin_of_kernel(const vm_run *run, const variant_places *places, const insn_invoke *i);
/* True if everything that `prepare` would be given for the call equals that of its twin. */
bool twin_has_kernel(const vm_run *run, const insn_invoke *i, const insn_invoke *twin);

#endif
