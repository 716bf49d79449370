/* Caches that grow in place (growth.h), in one run: which outputs are written behind their past in the caller's memory,
 * which must leave that memory alone, and the mark of written rows that the memory keeps from run to run.
 *
 * The rule. An output grows in place if it is bound to the memory in which its past lies, from the first row on, and
 * the mark says that no row behind the past has been written. So two continuations of one past never write the same
 * rows. A run holds the mark from its beginning to its end; the mark moves when the run has succeeded. */
#ifndef VM_APPEND_H_
#define VM_APPEND_H_

#include "vm/state.h"

/* Decides for every cache of the model, before inputs are taken. */
void append_begin(reed_session *s, reed_tensor *const *inputs);
/* True if the memory of the output may overlap the input, because append_begin has decided about them. */
bool append_decides(const reed_program *program, size_t input, size_t output);
/* If the input is a cache whose elements may stay where they lie with their strides: makes the register of it, and
 * returns true. */
bool append_take(reed_session *s, uint32_t input, const reed_tensor *given, ref *r);
/* The end of the run: the marks move (succeeded), or become what they were. Counts the caches of a run that succeeded.
 * lengths: per output its extents, if it has succeeded. */
void append_end(reed_session *s, bool succeeded, reed_tensor *const *inputs, reed_tensor *const *outputs);

#endif
