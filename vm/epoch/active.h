/* The epoch being executed: its entry, the writes of its shape section, the cursors of its run section. Entries of
 * other epochs: memo.h. */
#ifndef VM_EPOCH_ACTIVE_H_
#define VM_EPOCH_ACTIVE_H_

#include "base/vec.h"
#include "vm/epoch/memo.h"

typedef struct epoch_active {
  epoch_entry *entry; /* NULL outside epochs */
  bool in_shape_section;
  size_t kernel_cursor;            /* next of the entry's kernels */
  size_t copy_cursor;              /* next of the entry's copies */
  VEC_OF(storage *) root_storages; /* storage of the entry's roots that outlive the epoch, while memory is given out */
  VEC_OF(int64_t) key;             /* scratch of epoch.enter */
  uint32_t *stamps; /* per register of the current function, r before s: `stamp` when written in this shape section */
  size_t n_stamps, n_r; /* n_r: of the current function */
  uint32_t stamp;
  storage *value_chunk; /* host memory being filled with shape-section values */
  int64_t value_used;
} epoch_active;

/* Begins a shape section that fills `e`, in a function with n_r and n_s registers. On failure *active is unchanged. */
reed_status active_begin(epoch_active *active, epoch_entry *e, uint32_t n_r, uint32_t n_s,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Notes that the shape section wrote a register. */
reed_status active_note_write(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) REED_MUST_CHECK;
reed_status active_note_scalar(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* True if this shape section has written the r register. */
static inline bool active_wrote(const epoch_active *active, uint32_t reg) {
  return active->stamps[reg] == active->stamp;
}
/* Host memory for a value of the shape section (64-byte aligned, counted by the entry). */
reed_status active_value_memory(epoch_active *active, int64_t bytes, void **out_data, storage **out_storage,
                                reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Leaves the shape section for the run section. */
void active_end_shapes(epoch_active *active);
void active_fini(epoch_active *active);

#endif
