/* The places in which the variants of one whole differ, as lists. Variants: variant.h; the search for
 * places: variant_places.c. */
#ifndef VM_EPOCH_VARIANT_LIST_H_
#define VM_EPOCH_VARIANT_LIST_H_

#include "base/vec.h"
#include "bytecode/operands.h"
#include "vm/object.h"
#include "vm/site.h"

struct epoch_entry;

enum { VARIANT_SHARE = 2 }; /* variants do not pay where more than one of two calls depends on the key */

/* An instruction of the shape section that depends on the key. */
typedef struct variant_shape {
  uint32_t pc;
  int32_t twin;      /* an item of the same list before it, which gives the same extents while the key's parts are alike
                        (variant_places.alike); -1: none */
  uint32_t n_silent; /* its writes, if all of them are silent; else 0 */
} variant_shape;

/* A register that depends on the key. A register is silent if it has the extents of a twin and, while the key's parts
 * are alike, no call that is made reads it: then only its extents are written. */
typedef struct variant_write {
  uint32_t write; /* of the whole */
  uint32_t word;  /* its first of the words of a variant */
  int32_t twin;   /* of a silent one: the item that has its extents; -1: it is not silent */
  bool kept;      /* the list of calls restores it */
} variant_write;

/* A register that calls of the places read, and that does not depend on the key. */
typedef struct variant_lent {
  uint32_t write; /* of the whole */
  bool silent;    /* only calls with twins read it */
} variant_lent;

/* A `view` or `copy` of the run section. */
typedef struct variant_view {
  insn_sharing registers;
  bool twin; /* an item before it has the same extents while the key's parts are alike */
} variant_view;

/* A kernel that depends on the key. */
typedef struct variant_call {
  uint32_t pc;       /* the `invoke` */
  int32_t twin;      /* an item of the same list before it, whose kernel it has if their operands are equal; -1: none */
  bool stays_twin;   /* the operands are equal while the key's parts are alike */
  bool has_parts;    /* some output lies in the root of input 0 */
  uint32_t kernel;   /* its number in the whole's kernels, and in its list of calls */
  uint32_t operands; /* `operands` has the roots of its inputs from this item on */
} variant_call;

/* A root whose size depends on the key. */
typedef struct variant_root {
  int32_t root;
  int32_t write; /* the write of a variant that gives the root's bytes; -1: the workspace of calls[call] gives them */
  uint32_t call;
  int64_t least, room; /* bytes with which the root may stay where it is */
} variant_root;

/* A pointer of the list of calls to a host value that depends on the key. */
typedef struct variant_pointer {
  uint32_t pointer, write; /* write: of a variant */
} variant_pointer;

/* The places of a whole. Lists that name "writes of a variant" mean the order of `writes`. */
typedef struct variant_places {
  int32_t n_users, n_remembered;     /* variants of the whole; those in the memo */
  const struct epoch_entry *written; /* the variant whose content the whole has; NULL: none */
  const struct epoch_entry *run;     /* the variant whose content the whole has but for the silent writes that are not
                                        kept; NULL: none */
  /* per key of the epoch: the first key whose part is equal; of parts that variants do not change, the key itself */
  VEC_OF(uint16_t) alike;
  VEC_OF(variant_shape) shapes; /* in the order of the section */
  VEC_OF(variant_write) writes;
  VEC_OF(variant_lent) lent;
  VEC_OF(variant_view) views;
  VEC_OF(variant_call) calls;
  VEC_OF(int32_t) operands;
  VEC_OF(variant_root) roots;
  VEC_OF(variant_pointer) pointers;
  int32_t *root_numbers;     /* per root of the whole: its number in `roots`; -1: not there */
  int64_t rest_end;          /* bytes of the arena up to the last of the other roots */
  int32_t n_shape_functions; /* of the whole shape section */
  int64_t shared_bytes;      /* of the kernels that are not in `calls` */
  size_t n_words, n_values;  /* of a variant's content */
} variant_places;

/* Elements of a host value. */
typedef struct variant_value {
  void *data;
  storage *storage; /* counted; NULL: those of a constant */
} variant_value;

/* A variant's content of the places of its whole, in one block: little, so that many variants stay in the caches. */
typedef struct variant_content {
  int64_t *words;             /* per write: bytes, then the extents */
  int64_t *root_bytes;        /* per root */
  variant_value *values;      /* per write that has elements */
  site_kernel **kernels;      /* per call; one reference each */
  size_t n_values, n_kernels; /* in use: less than the places ask for while the variant is being made */
  int64_t bytes;              /* of the block */
} variant_content;

/* A block for the places of a whole, without values and kernels yet; NULL: no memory. */
variant_content *variant_content_open(const variant_places *places);
/* Writes a register's extents to `word`, and its elements, whose reference the content takes, behind the values so far.
 * Returns the word behind. */
static inline int64_t *variant_put(variant_content *c, int64_t *word, const ref *value) {
  *word++ = value->bytes;
  for (int32_t k = 0; k < value->t.desc.rank; k++) *word++ = value->t.desc.dims[k];
  if (value->kind == REF_STORED) c->values[c->n_values++] = (variant_value){value->t.data, value->t.storage};
  return word;
}

/* Frees the lists and nulls. */
void variant_places_close(variant_places **places);

#endif
