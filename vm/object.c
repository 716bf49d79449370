/* Counting, copying and freeing of the objects that registers refer to (object.h). The instructions on objects:
 * interp.c. */
#include "vm/object.h"

void ref_clear_slow(object_heap *heap, ref *r) {
  storage_release(r->t.storage);
  storage_release(r->extent_storage);
  object *o = r->object;
  r->t.storage = NULL;
  r->extent_storage = NULL;
  r->object = NULL;
  r->kind = REF_EMPTY;
  if (o) object_release(heap, o);
}

void ref_assign(object_heap *heap, ref *to, const ref *from) {
  if (to == from) return;
  if (!to->t.storage && !to->object && !to->extent_storage) {
    ref_copy(to, from);
    return;
  }
  storage_retain(from->t.storage);
  storage_retain(from->extent_storage);
  if (from->object) from->object->n_references++;
  ref copy = *from; /* `from` may live inside the object that `to` holds */
  ref_clear(heap, to);
  *to = copy;
}

bool ref_set_shaped(object_heap *heap, ref *r, const reed_desc *desc, int32_t device, int32_t bounded_axis) {
  int64_t bytes = desc_bytes(desc);
  if (bytes < 0) return false;
  reed_desc copy = *desc;
  ref_clear(heap, r);
  *r = (ref){
      .kind = REF_SHAPED, .bounded_axis = (int8_t)bounded_axis, .t = {.desc = copy, .device = device}, .bytes = bytes};
  return true;
}

object *object_new(object_heap *heap, object_kind kind, uint32_t tag) {
  object *o = heap->free;
  if (o) heap->free = o->next;
  else if (!(o = mem_calloc(1, sizeof *o))) return NULL;
  else heap->bytes += (int64_t)sizeof *o;
  o->n_references = 1;
  o->kind = kind;
  o->tag = tag;
  o->next = NULL;
  return o;
}

/* Iterative, because a list of a million cells is a chain of a million objects. */
void object_release(object_heap *heap, object *o) {
  if (--o->n_references > 0) return;
  object *work = o;
  o->next = NULL;
  while (work) {
    object *dead = work;
    work = dead->next;
    for (size_t i = 0; i < dead->fields.n; i++) {
      ref *field = &dead->fields.items[i];
      storage_release(field->t.storage);
      storage_release(field->extent_storage);
      if (field->object && --field->object->n_references == 0) {
        field->object->next = work;
        work = field->object;
      }
    }
    dead->fields.n = 0;
    dead->next = heap->free;
    heap->free = dead;
  }
}

bool object_push(object_heap *heap, object *o, const ref *item) {
  ref copy = *item; /* growing may move the array that `item` lies in */
  size_t before = o->fields.capacity;
  if (!VEC_ROOM(&o->fields)) return false;
  heap->bytes += (int64_t)((o->fields.capacity - before) * sizeof *o->fields.items);
  ref *slot = &o->fields.items[o->fields.n];
  *slot = (ref){0};
  ref_assign(heap, slot, &copy);
  o->fields.n++;
  return true;
}

bool object_own(object_heap *heap, ref *r) {
  object *shared = r->object;
  if (shared->n_references == 1) return true;
  object *own = object_new(heap, shared->kind, shared->tag);
  if (!own) return false;
  for (size_t i = 0; i < shared->fields.n; i++)
    if (!object_push(heap, own, &shared->fields.items[i])) {
      object_release(heap, own);
      return false;
    }
  shared->n_references--;
  r->object = own;
  return true;
}

void object_heap_fini(object_heap *heap) {
  while (heap->free) {
    object *o = heap->free;
    heap->free = o->next;
    mem_free(o->fields.items);
    mem_free(o);
  }
}
