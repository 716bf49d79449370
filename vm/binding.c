/* Wishes about outputs: the public calls that state them, and questions about bound memory (binding.h). */
#include "vm/binding.h"

#include "base/mem.h"
#include "base/strides.h"
#include "vm/session.h"

/* Storage of the caller's memory: a binding holds the tensor itself. */
static void leave_to_the_caller(storage *place) { (void)place; }

static void note_wishes(bindings *b, vm_devices *devices) {
  b->any_bound = devices->keeps_outputs = false;
  for (size_t i = 0; i < b->n; i++) {
    const output_wish *w = &b->outputs[i];
    b->any_bound |= w->memory != NULL;
    devices->keeps_outputs |= w->memory ? w->device > 0 : w->keep;
  }
}

reed_status bindings_open(bindings *b, size_t n_outputs, bool keep, vm_devices *devices, reed_diagnosis *diagnosis) {
  b->outputs = mem_calloc(n_outputs, sizeof *b->outputs);
  if (!b->outputs) return diag_no_memory(diagnosis, "a session's outputs");
  b->n = n_outputs;
  for (size_t i = 0; i < n_outputs; i++) b->outputs[i].keep = keep;
  note_wishes(b, devices);
  return REED_OK;
}

void bindings_close(bindings *b) {
  for (size_t i = 0; i < b->n; i++) reed_tensor_close(&b->outputs[i].memory);
  mem_free(b->outputs);
  *b = (bindings){0};
}

bool binding_holds(const output_wish *w, const reed_desc *desc) {
  const reed_desc *memory = &w->memory->desc;
  if (desc->dtype != memory->dtype || desc->rank != memory->rank) return false;
  for (int32_t i = 0; i < desc->rank; i++)
    if (i == w->room_axis ? desc->dims[i] > memory->dims[i] : desc->dims[i] != memory->dims[i]) return false;
  return true;
}

void binding_strides(const output_wish *w, const reed_desc *desc, int64_t *out_strides) {
  for (int32_t i = 0; i < desc->rank; i++) out_strides[i] = w->memory->strides[i];
}

storage *binding_take(bindings *b, uint32_t output, int32_t device, const reed_desc *desc, int32_t bounded_axis) {
  output_wish *w = &b->outputs[output];
  if (!w->memory || w->device != device || !w->memory->dense || w->place.n_references != 1) return NULL;
  if (!binding_holds(w, desc)) return NULL;
  if (bounded_axis >= 0 && bounded_axis != w->room_axis) return NULL; /* the true extent may not be the memory's */
  for (int32_t i = 0; i < w->room_axis; i++)
    if (desc->dims[i] != 1) return NULL; /* rows with room behind each: not dense */
  storage_retain(&w->place);
  return &w->place;
}

/* ---- public ---- */

/* The output's wish, with the session claimed. */
static reed_status claim_output(reed_session *s, size_t output, const char *call, output_wish **out_wish,
                                reed_diagnosis *diagnosis) {
  if (!s) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s: a session is needed", call);
  if (output >= s->bindings.n)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s: the model has %zu outputs, there is no output %zu", call,
                     s->bindings.n, output);
  if (!claim_take(&s->claim, NULL)) return session_in_use(diagnosis);
  *out_wish = &s->bindings.outputs[output];
  return REED_OK;
}

reed_status reed_session_keep_output(reed_session *s, size_t output, bool keep, reed_diagnosis *diagnosis) {
  output_wish *wish;
  reed_status status = claim_output(s, output, "reed_session_keep_output", &wish, diagnosis);
  if (status != REED_OK) return status;
  wish->keep = keep;
  note_wishes(&s->bindings, &s->devices);
  claim_release(&s->claim);
  return REED_OK;
}

/* Checks the memory against everything that is known before a run. */
static reed_status check_memory(const reed_session *s, size_t output, const reed_tensor *memory, int32_t room_axis,
                                reed_diagnosis *diagnosis) {
  reed_value_info info;
  reed_status status = reed_program_output(s->program, output, &info);
  if (status != REED_OK) return status;
  char have[128];
  desc_text(&memory->desc, have, sizeof have);
  if (memory->read_only)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "output '%s': the memory is read-only", info.name);
  if (room_axis < -1 || room_axis >= memory->desc.rank)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "output '%s': %s has no axis %d", info.name, have, room_axis);
  if (info.dtype != REED_NONE && info.dtype != memory->desc.dtype)
    return diag_fail(diagnosis, REED_ERROR_TYPE, "output '%s' is %s, the memory %s", info.name,
                     reed_dtype_name(info.dtype), have);
  for (int32_t i = 0; i < memory->desc.rank; i++)
    if (memory->desc.dims[i] > 1 && memory->strides[i] == 0)
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "output '%s': elements of the memory share an address",
                       info.name);
  for (size_t i = 0; i < s->bindings.n; i++) {
    const reed_tensor *other = s->bindings.outputs[i].memory;
    if (i == output || !other || !tensor_overlap(memory, other)) continue;
    reed_value_info other_info;
    status = reed_program_output(s->program, i, &other_info);
    return status != REED_OK
               ? status
               : diag_fail(diagnosis, REED_ERROR_ARGUMENT, "output '%s': the memory overlaps that of output '%s'",
                           info.name, other_info.name);
  }
  return REED_OK;
}

reed_status reed_session_bind_output(reed_session *s, size_t output, reed_tensor *memory, int32_t room_axis,
                                     reed_diagnosis *diagnosis) {
  output_wish *wish;
  reed_status status = claim_output(s, output, "reed_session_bind_output", &wish, diagnosis);
  if (status != REED_OK) return status;
  if (memory) status = check_memory(s, output, memory, room_axis, diagnosis);
  if (status == REED_OK) {
    reed_tensor *before = wish->memory;
    wish->memory = reed_tensor_retain(memory);
    reed_tensor_close(&before);
    wish->room_axis = memory ? room_axis : -1;
    wish->device = memory ? devices_find(&s->devices, memory->on) : -1;
    wish->place = (storage){.n_references = 1, .release = leave_to_the_caller};
    if (memory) wish->place.device = wish->device, wish->place.data = memory->data, wish->place.bytes = memory->bytes;
    note_wishes(&s->bindings, &s->devices);
  }
  claim_release(&s->claim);
  return status;
}
