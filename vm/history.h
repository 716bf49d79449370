/* The history of memory in which runs overwrite rows of a past (ops/growth.def: OVERWRITES). Each such run that
 * succeeds gives the memory a new version. Tensors over the memory are views of a version. As long as a view of an
 * older version is open, the memory keeps the rows that later runs have overwritten; so an older view is still a valid
 * input: the run gets its elements in new memory. A pointer to an older view shows the elements of the
 * present version. */
#ifndef VM_HISTORY_H_
#define VM_HISTORY_H_

#include "ops/overwritten.h"
#include "vm/tensor.h"

/* The step from one version to the next: the rows of the older one. */
typedef struct history_step {
  struct history_step *older;
  int64_t version;    /* the newer one */
  int32_t n_older;    /* open views of older versions; 0: the step is dropped */
  reed_tensor *saved; /* the rows' pieces and elements, as a kernel of the device has saved them; NULL: after `rows` */
  overwritten rows;
} history_step;

/* A copy of the record; record NULL: no row was overwritten. NULL: no memory. */
history_step *history_step_of(const overwritten *record);
/* A step with a reference to `saved`, which has the record's pieces and elements. NULL: no memory. */
history_step *history_step_on(const overwritten *record, reed_tensor *saved);
/* Drops a step that is in no history; NULL allowed. */
void history_step_free(history_step *step);
/* The memory gets a new version, of which `view` is; takes the step. The caller holds the memory's mark. */
void history_add(reed_tensor *memory, reed_tensor *view, history_step *step);
/* A view of the memory is closed. */
void history_leave(reed_tensor *memory, int64_t version);
/* True if the past has the memory's present elements, and no other open tensor has them. */
bool history_is_only_view(reed_tensor *memory, const reed_tensor *past);
/* *out_past: a dense copy of a view of an older version, with its own elements. Any other tensor: NULL. ERROR_ARGUMENT
 * while another run writes the memory. */
reed_status history_past(reed_tensor *given, reed_tensor **out_past, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* *out_record: the record with the pieces and elements that a kernel has saved on a device, freed by mem_free;
 * *out_n_saves: how many times it has done so there. ERROR_MEMORY, ERROR_DEVICE. */
reed_status history_fetch(const overwritten *record, reed_tensor *saved, overwritten **out_record, int64_t *out_n_saves,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Puts the rows of the record back into its memory, which belongs to `memory`. */
reed_status history_put_back(const overwritten *record, const reed_tensor *memory,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
