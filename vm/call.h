/* A call of an operator: its shape function (`shape`), its kernel (`invoke`). */
#ifndef VM_CALL_H_
#define VM_CALL_H_

#include "bytecode/operands.h"
#include "vm/bound.h"
#include "vm/state.h"

reed_status exec_shape(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
reed_status exec_invoke(reed_session *s, const uint32_t *w) REED_MUST_CHECK;
/* Calls the shape function of a site on registers. Flags in the input words are ignored; the operator's row says which
 * inputs are read as values. *out_count: the count of the bounded outputs. */
reed_status call_shape(vm_run *run, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                       reed_shape_output *outputs, uint32_t n_outputs, bound_count *out_count) REED_MUST_CHECK;
/* True if each output register was last shaped by a `shape` of the site, according to the register's shaped_by. */
bool call_is_shaped(const vm_run *run, const insn_invoke *i);
/* The site's kernel on a physical device, prepared for the registers' present extents, with one reference more.
 * formed: the call's words, if call_form has made them; NULL: they are made here. *out_made: the kernel had to be
 * prepared. */
reed_status call_prepare(vm_run *run, vm_devices *devices, site_kernels *kernels, int32_t device, const insn_invoke *i,
                         const site_call *formed, site_kernel **out_kernel, bool *out_made) REED_MUST_CHECK;
/* Prepares the host's kernel for a call of a built-in operator from the words that call_form has made. On any thread; a
 * failure has no diagnosis. */
reed_status call_prepare_words(const reed_program *program, vm_devices *devices, uint32_t site, const int64_t *words,
                               reed_kernel *out_kernel) REED_MUST_CHECK;
/* Fetches what a call of the site reads of its attributes into the CPU's caches. */
void call_fetch(const vm_run *run, uint32_t site);
/* Appends the call's words to the session's list (vm/site.h). No operand has room. False: no memory. */
bool call_form(const vm_run *run, site_kernels *kernels, int32_t device, const insn_invoke *i,
               site_call *out_call) REED_MUST_CHECK;

#endif
