/* Twins: two calls of one operator with equal attributes, such as those of a decoder's equal layers. While their
 * operands are equal too, the second call has the results of the first: its extents, or its prepared kernel. Variants
 * (variant.h) ask; which calls may be twins is found once, when an entry is divided. */
#ifndef VM_EPOCH_VARIANT_TWIN_H_
#define VM_EPOCH_VARIANT_TWIN_H_

#include "bytecode/operands.h"
#include "vm/epoch/variant_list.h"
#include "vm/state.h"

/* The number of the first `shape`, or kernel, of the places of which the call is a twin; -1: there is none. Elements
 * that the operator reads are those of the same registers in both calls. */
int32_t twin_of_shape(const vm_run *run, const variant_places *places, const insn_shape *i);
int32_t twin_of_kernel(const vm_run *run, const variant_places *places, const insn_invoke *i);
/* Executes the `shape` at w with the results of its twin, which has been executed; false: their inputs differ, and
 * nothing has been done. */
bool twin_repeat_shape(reed_session *s, const uint32_t *w, const uint32_t *twin);
/* True if everything that `prepare` would be given for the call equals that of its twin. */
bool twin_has_kernel(const vm_run *run, const insn_invoke *i, const insn_invoke *twin);

#endif
