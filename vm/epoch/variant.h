/* Variants: entries of one epoch that differ in a few places only. A step of a decoder whose cache has one row more
 * changes some shapes, kernels and sizes; all else is that of the step before.
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
#include "vm/state.h"

enum { VARIANT_SHARE = 2 }; /* variants do not pay where more than one of two calls depends on the key */

/* A kernel that depends on the key. */
typedef struct variant_call {
  uint32_t pc;       /* the `invoke` */
  uint32_t kernel;   /* its number in the whole's kernels, and in its list of calls */
  uint32_t operands; /* `operands` has the roots of its inputs from this item on */
} variant_call;

/* A root whose size depends on the key. */
typedef struct variant_root {
  int32_t root;
  int32_t write; /* the bytes are those of this write of a variant; -1: of the workspace of calls[call] */
  uint32_t call;
  int64_t least, room; /* bytes with which the root may stay where it is */
} variant_root;

/* A pointer of the list of calls to a host value that depends on the key. */
typedef struct variant_pointer {
  uint32_t pointer, write; /* write: of a variant */
} variant_pointer;

/* The places of a whole. Lists that name "writes of a variant" mean the order of `writes`. */
typedef struct variant_places {
  int32_t n_users, n_remembered; /* variants of the whole; those in the memo */
  const epoch_entry *written;    /* the variant whose content the whole has; NULL: none */
  VEC_OF(uint32_t) shapes;       /* words of the instructions of the shape section */
  VEC_OF(uint32_t) writes;       /* of the whole */
  VEC_OF(uint32_t) lent;         /* writes of the whole that these instructions and kernels read, too */
  VEC_OF(insn_sharing) views;    /* of the run section */
  VEC_OF(variant_call) calls;
  VEC_OF(int32_t) operands;
  VEC_OF(variant_root) roots;
  VEC_OF(variant_pointer) pointers;
  int32_t *root_numbers;     /* per root of the whole: its number in `roots`; -1: not there */
  int64_t rest_end;          /* bytes of the arena up to the last of the other roots */
  int32_t n_shape_functions; /* of the whole shape section */
  int64_t shared_bytes;      /* of the kernels that are not in `calls` */
} variant_places;

/* Makes the variant for the key in s->epoch.key, which the memo lacks, and remembers it. NULL: the epoch must be
 * planned. Its shape section begins at the word `pc`. note: gets the times; or
 * NULL. */
epoch_entry *variant_make(reed_session *s, const insn_epoch_enter *enter, uint32_t pc, uint64_t hash,
                          profile_epoch *note);
/* The complete entry: the whole, with the variant's content; the entry itself if it is no variant. Valid until another
 * variant of the whole is used. */
epoch_entry *variant_use(epoch_entry *e);

/* The places of a complete entry for keys that differ in the parts in which its own key differed from its base's; NULL:
 * there are too many places, a part decides more than shapes, kernels and sizes, or there is no memory. The entry has a
 * list of calls; its shape section begins at the word `pc`. */
variant_places *variant_find_places(reed_session *s, const epoch_entry *e, const insn_epoch_enter *enter,
                                    uint32_t pc) REED_MUST_CHECK;
void variant_places_close(variant_places **places);
/* True if Concat's inputs may be computed in the output's place. */
bool variant_may_join(const vm_run *run, uint32_t site, const reed_desc *output);
/* True if some output of the kernel may lie in its source. */
bool variant_has_parts(const reed_kernel *kernel, uint32_t n_outputs);

#endif
