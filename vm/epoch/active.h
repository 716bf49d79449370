/* The epoch being executed: its entry, the writes of its shape section, the cursors of its run section. Entries of
 * other epochs: memo.h. */
#ifndef VM_EPOCH_ACTIVE_H_
#define VM_EPOCH_ACTIVE_H_

#include "base/vec.h"
#include "bytecode/operands.h"
#include "vm/epoch/memo.h"
#include "vm/run.h"

/* A register of the shape section being executed. */
typedef struct active_note {
  uint32_t stamp; /* `stamp` of epoch_active: this shape section has written the register */
  int32_t write;  /* index into the entry's writes */
  bool changed;   /* of a key, or of a register that is written: its content differs from that in the base */
} active_note;

/* The `shape`s of a family (vm/family.h) whose shape functions this shape section has called last, the latest first. */
enum { ACTIVE_TWINS = 4 };
typedef struct active_twins {
  uint32_t stamp; /* `twin_stamp` of epoch_active; another one: none */
  uint32_t n;
  uint32_t marks[ACTIVE_TWINS]; /* equal if the inputs' extents are */
  uint32_t calls[ACTIVE_TWINS]; /* words of the function's code */
} active_twins;

/* A miss starts from the base, the epoch's entry that was used last. A register that this shape section writes is
 * compared with the base's register; a call of an operator whose inputs have not changed takes its results from the
 * base. The base is dropped (NULL) as soon as the shape section writes other registers than the base's did, and all
 * calls after this are made. */
typedef struct epoch_active {
  epoch_entry *entry; /* NULL outside epochs */
  bool in_shape_section;
  const struct replay *list;           /* from which the run section runs; NULL: the interpreter executes it */
  const epoch_entry *base;             /* NULL: none; borrowed from the memo, until the entry is remembered */
  const struct variant_places *places; /* of the base: only their calls are made (variant.h); NULL: all calls */
  vm_run *run;                         /* of the shape section */
  size_t host_cursor;                  /* next of the base's host kernels */
  int32_t n_repeated;                  /* shape functions whose results the base had */
  size_t kernel_cursor;                /* next of the entry's kernels */
  size_t copy_cursor;                  /* next of the entry's copies */
  VEC_OF(storage *) root_storages;     /* storage of roots that outlive the epoch, while memory is given out */
  VEC_OF(int64_t) key;                 /* scratch of epoch.enter */
  VEC_OF(epoch_write) variant_writes;  /* scratch of variants that are being made */
  active_note *notes;                  /* per register of the current function, r before s */
  size_t n_notes, n_r;                 /* n_r: of the current function */
  active_twins *twins;                 /* per family */
  size_t n_twins;
  VEC_OF(uint32_t)
  reports; /* `shape`s of the section whose kernels report counts that follow from others: words of the
              function's code */
  uint32_t stamp, twin_stamp, twin_mark; /* twin_mark: of the `shape` being executed */
  storage *value_chunk;                  /* host memory being filled with shape-section values */
  int64_t value_used;
  uint64_t n_jobs; /* of the thread (base/team.h), when the run section began */
} epoch_active;

/* Begins a shape section of the run's top frame that fills `e`, starting from `base` (NULL: from nothing). The notes of
 * the key registers are the caller's to set then. With `places` of the base, the section is theirs. On failure *active
 * is unchanged. */
reed_status active_begin(epoch_active *active, epoch_entry *e, const epoch_entry *base,
                         const struct variant_places *places, vm_run *run) REED_MUST_CHECK;
/* Notes that the shape section wrote a register, which has its new content already. */
reed_status active_note_write(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Notes that the shape section gave a register the extents of another one that it wrote before, whose note holds for
 * both. */
reed_status active_note_twin(epoch_active *active, uint32_t reg, uint32_t twin,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Forgets the calls so far: a kernel that is no function of its inputs has run. */
void active_forget_twins(epoch_active *active);
/* Notes that a register that this shape section had shaped got its elements. */
void active_note_elements(epoch_active *active, uint32_t reg);
reed_status active_note_scalar(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* True if this shape section has written the r register. */
static inline bool active_wrote(const epoch_active *active, uint32_t reg) {
  return active->notes[reg].stamp == active->stamp;
}
/* The results of a `shape`, or of an `invoke` of the shape section, from the base; false: the base has no such results
 * or an input has changed, so the call must be made. */
reed_status active_repeat_shape(epoch_active *active, const insn_shape *i, bool *out_repeated) REED_MUST_CHECK;
reed_status active_repeat_invoke(epoch_active *active, const insn_invoke *i, bool *out_repeated) REED_MUST_CHECK;
/* True if some register of the list has another content than in the base. The words may have flags. */
static inline bool active_any_changed(const epoch_active *active, const uint32_t *registers, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t number = INSN_REGISTER(registers[k]);
    if (number != MODULE_ABSENT && active->notes[number].changed) return true;
  }
  return false;
}
/* The counter of an earlier `shape` of the section that reports the count of this one (at word w), which is noted; 0:
 * none. axis: of the outputs, which has the count. */
reed_status active_find_report(epoch_active *active, const uint32_t *w, int32_t axis,
                               uint32_t *out_counter) REED_MUST_CHECK;
/* Host memory for a value of the shape section (64-byte aligned, counted by the entry). */
reed_status active_value_memory(epoch_active *active, int64_t bytes, void **out_data, storage **out_storage,
                                reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Leaves the shape section for the run section. */
void active_end_shapes(epoch_active *active);
void active_fini(epoch_active *active);

#endif
