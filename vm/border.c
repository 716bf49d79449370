/* Makes registers of inputs and tensors of outputs (border.h). Copies are complete when a function returns. A copy that
 * the caller's choice of device or memory causes is counted. */
#include "vm/border.h"

#include <string.h>

#include "base/strides.h"
#include "vm/append.h"
#include "vm/transfer.h"

/* ---- copies ---- */

static transfer_side side_on(const vm_devices *devices, int32_t device, void *data, const int64_t *strides) {
  const vm_device *d = &devices->items[device];
  return (transfer_side){
      .data = data, .strides = strides, .on = device ? d->device : NULL, .compute = d->compute, .copies = d->copies};
}

/* Copies between devices and counts the copy for an input or output of the model. */
static reed_status copy_counted(reed_session *s, const transfer_side *target, const transfer_side *source,
                                const reed_desc *desc, copy_reason reason, uint32_t site, uint32_t input) {
  profile_copy copy = {.direction = target->on   ? source->on ? PROFILE_WITHIN : PROFILE_TO_DEVICE
                                    : source->on ? PROFILE_TO_HOST
                                                 : PROFILE_ON_HOST,
                       .reason = reason,
                       .bytes = desc_bytes(desc),
                       .site = site,
                       .input = input,
                       .after_epoch = (uint32_t)s->run.profile.epochs.n - 1};
  int64_t begin = clock_now_ns();
  reed_status status = transfer(target, source, desc, s->run.diagnosis);
  if (status != REED_OK || copy.bytes == 0) return status;
  profile_note_copy(&s->run.profile, &copy);
  profile_event *event = profile_note(&s->run.profile, PROFILE_COPY, site, 0);
  if (event)
    event->bytes = copy.bytes, event->reason = (uint8_t)reason, event->span = (device_span){begin, clock_now_ns()};
  return REED_OK;
}

/* Copies between a tensor of the caller, which may lie on a device that the session does not have, and memory of the
 * session. */
static reed_status copy_callers(reed_session *s, const reed_tensor *tensor, const int64_t *strides, bool to_caller,
                                const transfer_side *own, const reed_desc *desc, copy_reason reason, uint32_t site,
                                uint32_t input) {
  int32_t device = devices_find(&s->devices, tensor->on);
  transfer_side theirs;
  reed_status status = REED_OK;
  if (device < 0) status = transfer_open(tensor, &theirs, s->run.diagnosis);
  else theirs = side_on(&s->devices, device, tensor->data, strides);
  if (status != REED_OK) return status;
  theirs.strides = strides;
  status = copy_counted(s, to_caller ? &theirs : own, to_caller ? own : &theirs, desc, reason, site, input);
  if (device < 0) transfer_close(&theirs);
  return status;
}

/* ---- inputs ---- */

/* A dense copy of the input on the device, in memory of its pool; *out_data is inside *out_storage (one reference). */
static reed_status input_copy(reed_session *s, const reed_tensor *given, int32_t device, copy_reason reason,
                              uint32_t site, uint32_t input, storage **out_storage) {
  storage *block = NULL;
  int64_t dense[REED_MAX_RANK];
  strides_of(&given->desc, -1, 0, dense);
  reed_status status = pool_allocate(s->devices.items[device].memory, given->bytes, &block, s->run.diagnosis);
  if (status != REED_OK) return status;
  transfer_side own = side_on(&s->devices, device, block->data, dense);
  status = copy_callers(s, given, given->strides, false, &own, &given->desc, reason, site, input);
  if (status == REED_OK) *out_storage = block;
  else storage_release(block);
  return status;
}

static reed_status take_input(reed_session *s, uint32_t i, const reed_tensor *given, ref *r) {
  const residence_reader *reader = &s->program->residence.inputs[i];
  int32_t device = devices_find(&s->devices, given->on);
  void *data = given->data;
  storage *block = NULL;
  reed_status status = REED_OK;
  bool wanted = reader->reads || reader->travels; /* false: only the extents are used */
  if (device < 0 && !wanted) device = 0, data = NULL;
  else if (device < 0) device = 0, status = input_copy(s, given, 0, COPY_REASON_INPUT, UINT32_MAX, i, &block);
  else if (!given->dense && wanted) status = input_copy(s, given, device, COPY_REASON_INPUT, UINT32_MAX, i, &block);
  if (status != REED_OK) return status;
  if (block) data = block->data;
  *r = (ref){.kind = REF_STORED,
             .bounded_axis = -1,
             .t = {.desc = given->desc, .device = device, .data = data, .storage = block},
             .bytes = given->bytes};
  if (device == 0 || !reader->reads) return REED_OK;
  /* The host reads the elements: the register has a copy on the host, and the original on the device is its twin. */
  storage *on_host = NULL;
  status = input_copy(s, given, 0, reader->reason, reader->site, reader->input, &on_host);
  if (status != REED_OK) return status;
  r->t.device = 0;
  r->t.data = on_host->data;
  r->t.storage = on_host;
  status = run_add_twin(&s->run, r, device, data, block);
  storage_release(block);
  return status;
}

reed_status border_take(reed_session *s, reed_tensor *const *inputs, size_t n_inputs) {
  for (size_t i = 0; i < n_inputs; i++) {
    const reed_tensor *given = inputs[i];
    ref *r = reg_r(&s->run, (uint32_t)i);
    if (append_take(s, (uint32_t)i, given, r)) continue;
    if (!given->on && given->dense) {
      *r = (ref){.kind = REF_STORED,
                 .bounded_axis = -1,
                 .t = {.desc = given->desc, .data = given->data},
                 .bytes = given->bytes};
      continue;
    }
    reed_status status = take_input(s, (uint32_t)i, given, r);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* ---- outputs ---- */

static const char *output_name(const reed_session *s, size_t i) {
  const module *m = s->program->module;
  return m->strings[m->types[m->outputs[i]].name];
}

reed_status border_check(const reed_session *s, reed_tensor *const *inputs, size_t n_inputs) {
  const module *m = s->program->module;
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    const reed_tensor *memory = s->bindings.outputs[i].memory;
    for (size_t k = 0; memory && k < n_inputs; k++)
      if (tensor_overlap(memory, inputs[k]) && !append_decides(s->program, k, i))
        return diag_fail(s->run.diagnosis, REED_ERROR_ARGUMENT, "output '%s': its memory overlaps that of input '%s'",
                         output_name(s, i), m->strings[m->types[m->inputs[k]].name]);
  }
  return REED_OK;
}

/* The place of an output's elements before the caller gets them: the memory of the register, or of the register's
 * copy on the destination's device. */
typedef struct output_source {
  int32_t device;
  void *data;
  storage *storage; /* borrowed */
  int64_t strides[REED_MAX_RANK];
} output_source;

static output_source source_of(const reed_session *s, const ref *r, uint32_t output) {
  const run_twin *twin = run_find_twin(&s->run, r, r->resident);
  bool from_twin = twin && binding_wants(&s->bindings, output, twin->device);
  output_source from = {r->t.device, r->t.data, r->t.storage, {0}};
  if (from_twin) from = (output_source){twin->device, twin->data, twin->storage, {0}};
  tensor_strides(&r->t, from.strides);
  return from;
}

/* A new tensor of the session with a copy of the elements. */
static reed_status give_copy(reed_session *s, const ref *r, const output_source *from, int32_t device, bool counted,
                             uint32_t output, reed_tensor **out_tensor) {
  reed_tensor *made = NULL;
  reed_status status = devices_open_output(&s->devices, device, &r->t.desc, &made, s->run.diagnosis);
  if (status != REED_OK) return status;
  transfer_side target = side_on(&s->devices, device, made->data, made->strides),
                source = side_on(&s->devices, from->device, from->data, from->strides);
  if (counted) status = copy_counted(s, &target, &source, &r->t.desc, COPY_REASON_OUTPUT, UINT32_MAX, output);
  else status = transfer(&target, &source, &r->t.desc, s->run.diagnosis);
  if (status == REED_OK) *out_tensor = made;
  else reed_tensor_close(&made);
  return status;
}

static bool in_place(const output_destination *w, const output_source *from) {
  return from->storage == &w->place && from->data == w->memory->data;
}

/* An output that is not bound. Usually the epoch has placed the tensor in a store of outputs, and no copy is needed. An
 * output that is an input, a constant or another output as well is copied. */
static reed_status give_free(reed_session *s, const ref *r, uint32_t output, reed_tensor **out_tensor) {
  output_source from = source_of(s, r, output);
  const output_destination *w = &s->bindings.outputs[output];
  bool keeps = w->memory ? w->device == from.device : w->keep; /* bound, but the memory must stay as it is */
  int32_t device = keeps ? from.device : 0;
  if (from.device == device && r->t.room == 0) {
    reed_tensor *given = output_give(from.storage, from.data, &r->t.desc);
    if (given) return *out_tensor = given, REED_OK;
  }
  bool counted = from.device != 0 || bindings_have(&s->bindings, from.storage);
  return give_copy(s, r, &from, device, counted, output, out_tensor);
}

static reed_status check_bound(const reed_session *s, const ref *r, size_t i) {
  const output_destination *w = &s->bindings.outputs[i];
  if (!binding_memory(w) || binding_holds(w, &r->t.desc)) return REED_OK;
  char have[128], need[128];
  desc_text(&w->memory->desc, have, sizeof have);
  desc_text(&r->t.desc, need, sizeof need);
  if (w->room_axis >= 0)
    return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "output '%s' is %s, its memory is %s with room along axis %d",
                     output_name(s, i), need, have, w->room_axis);
  return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "output '%s' is %s, its memory is %s", output_name(s, i), need,
                   have);
}

/* Writes a bound output, unless it was computed in its place. staged: a copy of the elements outside of all bound
 * memory, or NULL. */
static reed_status fill_bound(reed_session *s, const ref *r, uint32_t output, const reed_tensor *staged) {
  const output_destination *w = &s->bindings.outputs[output];
  output_source from = source_of(s, r, output);
  if (in_place(w, &from)) return REED_OK;
  if (staged) {
    from = (output_source){devices_find(&s->devices, staged->on), staged->data, NULL, {0}};
    strides_of(&r->t.desc, -1, 0, from.strides);
  }
  int64_t strides[REED_MAX_RANK];
  binding_strides(w, &r->t.desc, strides);
  transfer_side source = side_on(&s->devices, from.device, from.data, from.strides);
  return copy_callers(s, w->memory, strides, true, &source, &r->t.desc, COPY_REASON_OUTPUT, UINT32_MAX, output);
}

/* The bound memory as a tensor with the output's extents. */
static reed_status view_bound(reed_session *s, const ref *r, output_destination *w, reed_tensor **out_tensor) {
  if (w->room_axis < 0 && !w->overwrites) return *out_tensor = reed_tensor_retain(w->memory), REED_OK;
  reed_status status = tensor_view(w->memory, &r->t.desc, out_tensor);
  return status == REED_OK ? status : diag_no_memory(s->run.diagnosis, "an output tensor");
}

/* Checks every output before any memory is written. */
static reed_status check_results(reed_session *s, const uint32_t *results, size_t n_outputs) {
  for (size_t i = 0; i < n_outputs; i++) {
    const ref *r = reg_r(&s->run, results[i]);
    if (r->kind != REF_STORED)
      return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "output %zu ('%s') is no tensor", i, output_name(s, i));
    reed_status status = check_bound(s, r, i);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* Settles which outputs have grown in place. An output that was to grow in the memory of its past, and did not (another
 * branch of the model computed it), leaves that memory alone. */
static void settle_growth(reed_session *s, const uint32_t *results, size_t n_outputs) {
  for (size_t i = 0; s->bindings.any_bound && i < n_outputs; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (!w->grows) continue;
    output_source from = source_of(s, reg_r(&s->run, results[i]), (uint32_t)i);
    w->grown = in_place(w, &from);
    w->aside = !w->grown && w->has_rows;
  }
}

reed_status border_give(reed_session *s, const uint32_t *results, size_t n_outputs, reed_tensor **outputs) {
  reed_status status = check_results(s, results, n_outputs);
  if (status != REED_OK) return status;
  settle_growth(s, results, n_outputs);
  /* First the outputs that are not bound, and copies of elements that lie in bound memory of another output: then bound
   * memory may be written. */
  size_t n_made = 0;
  for (; n_made < n_outputs && status == REED_OK; n_made++) {
    const ref *r = reg_r(&s->run, results[n_made]);
    const output_destination *w = &s->bindings.outputs[n_made];
    outputs[n_made] = NULL;
    if (!binding_memory(w)) {
      status = give_free(s, r, (uint32_t)n_made, &outputs[n_made]);
      continue;
    }
    output_source from = source_of(s, r, (uint32_t)n_made);
    if (!in_place(w, &from) && bindings_have(&s->bindings, from.storage))
      status = give_copy(s, r, &from, from.device, true, (uint32_t)n_made, &outputs[n_made]);
  }
  for (size_t i = 0; i < n_outputs && status == REED_OK; i++) {
    const ref *r = reg_r(&s->run, results[i]);
    output_destination *w = &s->bindings.outputs[i];
    if (!binding_memory(w)) continue;
    status = fill_bound(s, r, (uint32_t)i, outputs[i]);
    reed_tensor_close(&outputs[i]);
    if (status == REED_OK) status = view_bound(s, r, w, &outputs[i]);
  }
  for (size_t i = 0; i < n_made && status != REED_OK; i++) reed_tensor_close(&outputs[i]);
  return status;
}
