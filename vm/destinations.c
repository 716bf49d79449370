/* The public calls that set the destinations of outputs (reed_session_keep_output, reed_session_bind_output). Their use
 * in a run: border.c, epoch/place.c, copy.c. */
#include "base/strides.h"
#include "vm/state.h"

/* Claims the session and finds the output's destination. */
static reed_status claim_output(reed_session *s, size_t output, const char *call, output_destination **out_destination,
                                reed_diagnosis *diagnosis) {
  if (!s) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s: a session is needed", call);
  if (output >= s->bindings.n)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s: the model has %zu outputs, there is no output %zu", call,
                     s->bindings.n, output);
  if (!claim_take(&s->claim, NULL)) return claim_refuse(diagnosis);
  *out_destination = &s->bindings.outputs[output];
  return REED_OK;
}

reed_status reed_session_keep_output(reed_session *s, size_t output, bool keep, reed_diagnosis *diagnosis) {
  output_destination *destination = NULL;
  reed_status status = claim_output(s, output, "reed_session_keep_output", &destination, diagnosis);
  if (status != REED_OK) return status;
  destination->keep = keep;
  bindings_note(&s->bindings, &s->devices);
  claim_release(&s->claim);
  return REED_OK;
}

/* Checks the memory against all facts that are known before a run. */
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
  if (!strides_are_distinct(&memory->desc, memory->strides))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "output '%s': elements of the memory share addresses", info.name);
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
  output_destination *destination = NULL;
  reed_status status = claim_output(s, output, "reed_session_bind_output", &destination, diagnosis);
  if (status != REED_OK) return status;
  if (memory) status = check_memory(s, output, memory, room_axis, diagnosis);
  if (status == REED_OK) {
    binding_set(destination, memory, room_axis, memory ? devices_find(&s->devices, memory->on) : -1);
    bindings_note(&s->bindings, &s->devices);
  }
  claim_release(&s->claim);
  return status;
}
