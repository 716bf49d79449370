/* The destinations of outputs, and checks of bound memory (binding.h). The public calls that set destinations:
 * destinations.c. */
#include "vm/binding.h"

#include "base/mem.h"
#include "base/strides.h"

/* The release function of storage in the caller's memory. It frees nothing, because the binding holds the tensor. */
static void leave_to_the_caller(storage *place) { (void)place; }

void bindings_note(bindings *b, vm_devices *devices) {
  b->any_bound = devices->keeps_outputs = false;
  for (size_t i = 0; i < b->n; i++) {
    const output_destination *w = &b->outputs[i];
    b->any_bound |= w->memory != NULL;
    devices->keeps_outputs |= w->memory ? w->device > 0 : w->keep;
  }
}

reed_status bindings_open(bindings *b, size_t n_outputs, bool keep, vm_devices *devices, reed_diagnosis *diagnosis) {
  b->outputs = mem_calloc(n_outputs, sizeof *b->outputs);
  if (!b->outputs) return diag_no_memory(diagnosis, "a session's outputs");
  b->n = n_outputs;
  for (size_t i = 0; i < n_outputs; i++) b->outputs[i].keep = keep;
  bindings_note(b, devices);
  return REED_OK;
}

void bindings_close(bindings *b) {
  for (size_t i = 0; i < b->n; i++) {
    reed_tensor_close(&b->outputs[i].memory);
    reed_tensor_close(&b->outputs[i].saved);
  }
  mem_free(b->outputs);
  *b = (bindings){0};
}

bool bindings_have(const bindings *b, const storage *place) {
  for (size_t i = 0; place && i < b->n; i++)
    if (place == &b->outputs[i].place) return true;
  return false;
}

bool binding_holds(const output_destination *w, const reed_desc *desc) {
  const reed_desc *memory = &w->memory->desc;
  if (desc->dtype != memory->dtype || desc->rank != memory->rank) return false;
  for (int32_t i = 0; i < desc->rank; i++)
    if (i == w->room_axis ? desc->dims[i] > memory->dims[i] : desc->dims[i] != memory->dims[i]) return false;
  return true;
}

void binding_strides(const output_destination *w, const reed_desc *desc, int64_t *out_strides) {
  for (int32_t i = 0; i < desc->rank; i++) out_strides[i] = w->memory->strides[i];
}

storage *binding_take(bindings *b, uint32_t output, int32_t device, const reed_desc *desc, int32_t bounded_axis) {
  output_destination *w = &b->outputs[output];
  if (!binding_memory(w) || w->grows || w->device != device || !w->memory->dense || w->place.n_references != 1)
    return NULL;
  if (!binding_holds(w, desc)) return NULL;
  if (bounded_axis >= 0 && bounded_axis != w->room_axis) return NULL; /* the true extent may differ from the memory's */
  for (int32_t i = 0; i < w->room_axis; i++)
    if (desc->dims[i] != 1) return NULL; /* several rows, each with room after it, do not lie dense */
  storage_retain(&w->place);
  return &w->place;
}

void binding_set(output_destination *w, reed_tensor *memory, int32_t room_axis, int32_t device) {
  reed_tensor *before = w->memory;
  w->memory = reed_tensor_retain(memory);
  reed_tensor_close(&before);
  reed_tensor_close(&w->saved);
  w->room_axis = memory ? room_axis : -1;
  w->device = device;
  w->place = (storage){.n_references = 1, .device = device, .release = leave_to_the_caller};
  if (memory) w->place.data = memory->data, w->place.bytes = memory->bytes;
}
