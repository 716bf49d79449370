/* References (the content of an `r` register) and the counted objects (ADT, closure, sequence) to which some of them
 * point.
 *
 * A tensor's descriptor lies in the register itself; only storage and objects are counted. Objects have value semantics
 * (pushing to a shared sequence copies it), so that they can not form cycles. Owned by one session, used by one thread.
 */
#ifndef VM_OBJECT_H_
#define VM_OBJECT_H_

#include "base/tensor.h"
#include "base/vec.h"
#include "bytecode/module.h"

typedef enum ref_kind {
  REF_EMPTY = 0, /* undefined or dead */
  REF_NONE,      /* an absent optional */
  REF_SHAPED,    /* a tensor whose extents are known */
  REF_STORED,    /* a tensor with memory */
  REF_PENDING,   /* a tensor whose kernel reports an extent, not fetched yet */
  REF_FETCHING,  /* a tensor that is being read back, or whose extent is being fetched; complete after `sync` */
  REF_OBJECT
} ref_kind;

typedef struct object object;

typedef struct ref {
  uint8_t kind;            /* ref_kind */
  int8_t bounded_axis;     /* -1: exact */
  uint16_t shaped_as : 10; /* number of the output of the `shape` that shaped_by names */
  uint16_t resident : 6;   /* of a host tensor: the device that has the same elements (run_twin); 0: none */
  int32_t constant;        /* constant number + 1 when the tensor is a module constant */
  uint32_t counter; /* bounded tensors: the register whose kernel reports the count, + 1; equal in all tensors with the
                       same count */
  uint32_t factor;  /* bounded tensors: the extent is the count times this */
  uint32_t shaped_by; /* call site + 1 of the `shape` that wrote the extents; 0: no `shape` wrote them */
  tensor t;
  int64_t bytes;   /* of t.desc, which holds the bound of a bounded tensor */
  object *object;  /* counted */
  int64_t *extent; /* the count of a bounded tensor, which a kernel reports: memory of t.device inside extent_storage */
  storage *extent_storage; /* counted */
} ref;

_Static_assert(REED_MAX_OPERANDS <= 1 << 10 && MODULE_MAX_DEVICES <= 1 << 6, "the bits of a ref hold their numbers");

typedef enum object_kind { OBJECT_ADT, OBJECT_CLOSURE, OBJECT_SEQUENCE } object_kind;

struct object {
  int32_t n_references;
  object_kind kind;
  uint32_t tag; /* ADT: constructor; closure: function */
  VEC_OF(ref) fields;
  object *next; /* free list and release worklist */
};

/* Recycles objects, so that a steady state takes none from the heap. */
typedef struct object_heap {
  object *free;
  int64_t bytes; /* of all objects, those on the free list included */
} object_heap;

/* True if the register was last shaped as that output of a `shape` of that call site, and no other tensor was assigned
 * to the register since. */
static inline bool ref_is_shaped_by(const ref *r, uint32_t site, uint32_t output) {
  return r->kind == REF_SHAPED && r->shaped_by == site + 1 && r->shaped_as == output;
}

static inline bool ref_is_tensor(const ref *r) { return r->kind >= REF_SHAPED && r->kind <= REF_FETCHING; }

/* Drops the register's reference and leaves the register REF_EMPTY. */
void ref_clear_slow(object_heap *heap, ref *r);
static inline void ref_clear(object_heap *heap, ref *r) {
  if (r->t.storage || r->object || r->extent_storage) ref_clear_slow(heap, r);
  r->kind = REF_EMPTY;
}
/* Makes *to, which holds nothing, a second reference to the content of *from. */
static inline void ref_copy(ref *to, const ref *from) {
  storage_retain(from->t.storage);
  storage_retain(from->extent_storage);
  if (from->object) from->object->n_references++;
  *to = *from;
}
/* Clears *to and makes it a second reference to the content of *from. */
void ref_assign(object_heap *heap, ref *to, const ref *from);
/* Clears the register and makes it a shaped tensor. False: the extents' product overflows. */
bool ref_set_shaped(object_heap *heap, ref *r, const reed_desc *desc, int32_t device, int32_t bounded_axis);

/* A new object with one reference and no fields; NULL: no memory. */
object *object_new(object_heap *heap, object_kind kind, uint32_t tag);
void object_release(object_heap *heap, object *o);
/* Appends a reference to *item; false: no memory. */
bool object_push(object_heap *heap, object *o, const ref *item);
/* Ensures that *r holds the only reference to its object, by copying a shared object; false: no memory. */
bool object_own(object_heap *heap, ref *r);
void object_heap_fini(object_heap *heap);

#endif
