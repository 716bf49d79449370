/* Caches that grow in place (growth.h), in one run: which outputs are written behind their past in the caller's memory,
 * which must leave that memory alone, and the mark of written rows that the memory keeps from run to run.
 *
 * The rule. An output grows in place if it is bound to the memory in which its past lies, from the first row on, and
 * the mark says that no row behind the past has been written. So two continuations of one past never write the same
 * rows. A run holds the mark from its beginning to its end; the mark moves when the run has succeeded.
 *
 * An operator that overwrites rows of the past (TensorScatter) may do so in place if the past has the memory's present
 * elements and no other open tensor has them. Older tensors keep their elements as inputs of runs: history.h. */
#ifndef VM_APPEND_H_
#define VM_APPEND_H_

#include "vm/state.h"

/* *out_inputs: the inputs, with copies in place of views of older versions; append_drop closes them, in any case. */
reed_status append_restore(reed_session *s, reed_tensor *const *inputs, size_t n_inputs,
                           reed_tensor *const **out_inputs) REED_MUST_CHECK;
void append_drop(reed_tensor *const *given, size_t n_inputs, reed_tensor *const **inputs);
/* Decides for every cache of the model, before inputs are taken. */
void append_begin(reed_session *s, reed_tensor *const *inputs);
/* True if the memory of the output may overlap the input, because append_begin has decided about them. */
bool append_decides(const reed_program *program, size_t input, size_t output);
/* If the input is a cache whose elements may stay where they lie with their strides: makes the register of it, and
 * returns true. */
bool append_take(reed_session *s, uint32_t input, const reed_tensor *given, ref *r);
/* Before a launch: if a device's kernel overwrites rows of a past in the caller's memory, buffers->workspace becomes
 * the memory where the kernel saves them (ops/overwritten.h). */
reed_status append_save(reed_session *s, int32_t device, const reed_kernel *kernel,
                        reed_kernel_buffers *buffers) REED_MUST_CHECK;
/* Takes the memory that the end of the run needs, after the last kernel and before outputs are made. */
reed_status append_keep(reed_session *s) REED_MUST_CHECK;
/* The end of the run: the high-water marks move if it succeeded, and go back if not. Counts the caches of a run that
 * succeeded. lengths: per output its extents, if it has succeeded. */
void append_end(reed_session *s, bool succeeded, reed_tensor *const *inputs, reed_tensor *const *outputs);

#endif
