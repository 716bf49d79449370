/* Variants: entries of one epoch that differ in a few places only. A step of a decoder whose cache has one row more
 * changes some shapes, kernels and sizes; the rest of the entry stays as in the step before.
 *
 * The first miss that starts from a complete entry divides the entry: its *whole* (registers, roots, kernels, the list
 * of calls) becomes common property, and the entry keeps its own content of the *places* that depend on the key's
 * parts that have changed. The entry is a variant of the whole then, and a key that differs in the same parts gets
 * another one, made by the calls of these places alone. Before a variant is used, its content is written into the
 * whole. The whole lives as long as one of its variants.
 *
 * A variant holds what the epoch's full plan would give its key, except offsets. If that cannot be known from the
 * places (memory would be shared otherwise, a root does not fit its slot, a branch may turn), no variant is made and
 * the epoch is planned as a whole. Finding the places: variant_places.c. */
#ifndef VM_EPOCH_VARIANT_H_
#define VM_EPOCH_VARIANT_H_

#include "bytecode/operands.h"
#include "vm/epoch/variant_list.h"
#include "vm/state.h"

/* The entry from which a miss of the key in s->epoch.key starts. */
typedef struct variant_base {
  epoch_entry *entry;                /* NULL: none; borrowed from the memo */
  bool lengths;                      /* the keys differ in lengths of caches alone that grow in place */
  bool failed;                       /* the entry could not be renewed, so no variant of it can be made either */
  bool comparable;                   /* they differ in extents and elements alone: */
  uint64_t changed[ENTRY_KEYS / 64]; /* in these parts */
} variant_base;

/* The latest of the epoch's last entries whose key differs in lengths of caches alone that grow in place
 * (key_lengths_changed), otherwise the epoch's last entry. It stays in the memo while the functions below use it. */
variant_base variant_find_base(const reed_session *s, const insn_epoch_enter *enter);
/* The base's entry as that of the key in s->epoch.key, if the keys differ in lengths alone: a hit, for which the entry
 * is renewed by the calls that depend on the lengths. NULL: it is not possible, and no entry has changed; base->failed
 * tells whether that was tried. note: gets the times; or NULL. */
epoch_entry *variant_renew(reed_session *s, const insn_epoch_enter *enter, variant_base *base, uint64_t hash,
                           profile_epoch *note);
/* Makes the variant for the key in s->epoch.key, which the memo lacks, and remembers it. NULL: the epoch must be
 * planned. Its shape section begins at the word `pc`. */
epoch_entry *variant_make(reed_session *s, const insn_epoch_enter *enter, const variant_base *base, uint32_t pc,
                          uint64_t hash, profile_epoch *note);
/* The complete entry: the whole, with the variant's content; the entry itself if it is no variant. Valid until another
 * variant of the whole is used. */
epoch_entry *variant_use(epoch_entry *e);
/* As variant_use, for a run by the list of calls: registers that neither the list nor the next variant reads may have
 * another variant's extents. */
epoch_entry *variant_use_for_run(epoch_entry *e);

#endif
