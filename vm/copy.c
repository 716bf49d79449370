/* Copies between devices, and the fetches that `sync` completes: read-backs and reported extents. Queues and their
 * order: devices.c. */
#include "vm/copy.h"
#include "bytecode/operands.h"
#include "vm/memory.h"
#include "vm/room.h"

#include <string.h>

/* Copies host bytes to an accelerator. In an epoch the plan names the source: a slot in the host's arena, or the place
 * of the bytes in that arena. */
static reed_status copy_from_host(reed_session *s, vm_device *on, const tensor *target, const ref *source,
                                  device_span *span) {
  epoch_entry *e = s->epoch.entry;
  if (!e || !devices_plan_copy(&s->devices, 0, target->device))
    return device_copy_in(on, target, source->t.data, source->bytes, NULL, e != NULL, span, s->run.diagnosis);
  const epoch_copy *planned = &e->copies.items[s->epoch.copy_cursor++];
  vm_device *host = &s->devices.items[0];
  copy_slot slot = {host->arena, source->t.data};
  if (planned->slot >= 0) /* no arena: all its roots are empty */
    slot.data = host->arena ? (char *)host->arena->data + e->roots.items[planned->slot].offset : NULL;
  host->arena_is_read = true;
  return device_copy_in(on, target, source->t.data, source->bytes, &slot, true, span, s->run.diagnosis);
}

/* Copies the elements of a stored, dense tensor into the target. */
static reed_status copy_elements(reed_session *s, const insn_copy *instruction, ref *target, const ref *source) {
  const insn_copy i = *instruction;
  uint32_t site = i.site;
  if (target->bytes != source->bytes)
    return at_site(&s->run, site,
                   diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "a copy of %lld bytes into %lld",
                             (long long)source->bytes, (long long)target->bytes));
  if (target->kind == REF_SHAPED && !s->epoch.entry) {
    reed_status status = give_memory(s, target);
    if (status != REED_OK) return status;
  }
  target->kind = REF_STORED;
  if (target->t.device == 0 && source->t.device == 0) {
    if (source->bytes) memmove(target->t.data, source->t.data, (size_t)source->bytes);
    return REED_OK;
  }
  vm_device *on = &s->devices.items[target->t.device];
  profile_event *event = profile_note(&s->run.profile, PROFILE_COPY, site, (int8_t)target->t.device);
  if (event)
    event->bytes = source->bytes, event->reason = (uint8_t)i.reason, event->source_device = (int8_t)source->t.device;
  bool from_host = source->t.device == 0, to_host = target->t.device == 0;
  profile_note_copy(&s->run.profile, &(profile_copy){.direction = from_host ? PROFILE_TO_DEVICE
                                                                  : to_host ? PROFILE_TO_HOST
                                                                            : PROFILE_WITHIN,
                                                     .reason = (copy_reason)i.reason,
                                                     .bytes = source->bytes,
                                                     .site = site,
                                                     .input = i.input,
                                                     .after_epoch = (uint32_t)s->run.profile.epochs.n - 1});
  device_span *span = event ? &event->span : NULL;
  if (from_host) return at_site(&s->run, site, copy_from_host(s, on, &target->t, source, span));
  vm_device *from = &s->devices.items[source->t.device];
  if (to_host)
    return at_site(&s->run, site, device_fetch(from, &s->run, target->t.data, &source->t, source->bytes, span));
  if (from != on)
    return at_site(
        &s->run, site,
        device_copy_across(from, on, &s->run, &target->t, &source->t, source->bytes, s->epoch.entry != NULL, span));
  reed_status status = device_before_launch(on, s->run.diagnosis);
  if (status == REED_OK)
    status = on->on->copy_within(on->compute, target->t.data, source->t.data, source->bytes, span, s->run.diagnosis);
  return at_site(&s->run, site, status);
}

reed_status exec_copy(reed_session *s, const uint32_t *w) {
  const insn_copy i = insn_copy_at(w);
  ref *target = reg_r(&s->run, i.dst);
  const ref *source = reg_r(&s->run, i.src);
  uint32_t site = i.site;
  if (source->kind != REF_STORED) return at_site(&s->run, site, not_a_tensor(&s->run, source, "a stored tensor"));
  if (target->kind != REF_SHAPED && target->kind != REF_STORED)
    return at_site(&s->run, site, not_a_tensor(&s->run, target, "a tensor to fill"));
  if (target->t.device == source->t.device && target->kind == REF_SHAPED) return exec_view(s, i.dst, i.src);
  const run_twin *twin = target->kind == REF_SHAPED ? run_find_twin(&s->run, source, target->t.device) : NULL;
  if (twin) {
    storage_retain(twin->storage);
    storage_release(target->t.storage);
    target->t.storage = twin->storage;
    target->t.data = twin->data;
    target->kind = REF_STORED;
    target->shaped_by = 0;
    return REED_OK;
  }
  if (source->t.room == 0) return copy_elements(s, &i, target, source);
  ref dense = {.kind = REF_STORED, .bounded_axis = -1, .bytes = source->bytes};
  reed_status status = room_make_dense(s, &source->t, &dense.t);
  if (status == REED_OK) status = copy_elements(s, &i, target, &dense);
  storage_release(dense.t.storage);
  return at_site(&s->run, site, status);
}

/* Starts a copy of `bytes` to the host, to `target` (one reference, taken) or, if it is NULL, to memory of the session;
 * *out_target one reference. */
static reed_status start_fetch(reed_session *s, int32_t device, const void *source, storage *source_storage,
                               int64_t bytes, copy_reason reason, uint32_t site, storage *target,
                               storage **out_target) {
  vm_device *on = &s->devices.items[device];
  reed_status status = REED_OK;
  bool given = reason == COPY_REASON_OUTPUT && device == s->devices.pinned_by && bytes <= s->devices.max_output_bytes;
  if (!target)
    status = given ? devices_allocate(&s->devices, 0, (storage_request){.bytes = bytes, .returned = true}, &target,
                                      s->run.diagnosis)
                   : pool_allocate(on->slots, bytes, &target, s->run.diagnosis);
  if (status != REED_OK) return status;
  profile_event *event = profile_note(&s->run.profile, PROFILE_COPY, site, 0);
  if (event) event->bytes = bytes, event->reason = (uint8_t)reason, event->source_device = (int8_t)device;
  status = device_copy_out(on, target, source_storage, source, bytes, event ? &event->span : NULL, s->run.diagnosis);
  if (status != REED_OK) {
    storage_release(target);
    return status;
  }
  *out_target = target;
  return REED_OK;
}

/* How the caller wants a tensor that a readback of main brings to the host. */
typedef struct result_destination {
  bool stays;     /* no output and no instruction needs a copy on the host */
  bool twin;      /* a copy, and an output of the device's tensor */
  storage *place; /* bound memory for the copy, one reference; NULL: none */
} result_destination;

static result_destination destination_of(reed_session *s, const uint32_t *w, const ref *source) {
  result_destination destination = {0};
  if (s->run.frames.n != 1 || !(s->devices.keeps_outputs || s->bindings.any_bound)) return destination;
  const residence *found = &s->program->residence;
  uint32_t pc = (uint32_t)(w - (s->program->module->code + frame_top(&s->run)->function->code_offset));
  bool here = false, on_host = false;
  for (size_t i = 0; i < found->results.n; i++) {
    const residence_result *result = &found->results.items[i];
    if (result->pc != pc) continue;
    bool wants = source->t.device != 0 && binding_wants(&s->bindings, result->output, source->t.device);
    here |= wants;
    on_host |= !wants || result->read;
    if (!wants && !destination.place && source->t.device != 0)
      destination.place = binding_take(&s->bindings, result->output, 0, &source->t.desc, -1);
  }
  destination.stays = here && !on_host;
  destination.twin = here && on_host;
  return destination;
}

/* Starts the copy to the host: *made becomes the host's tensor, with a reference to its storage. */
static reed_status fetch_result(reed_session *s, const insn_readback *i, const ref *source,
                                const result_destination *destination, ref *made) {
  int32_t device = source->t.device;
  tensor dense;
  storage *target = NULL;
  reed_status status = room_make_dense(s, &source->t, &dense);
  if (status == REED_OK)
    status = start_fetch(s, device, dense.data, dense.storage, source->bytes, (copy_reason)i->reason, i->site,
                         destination->place, &target);
  if (status == REED_OK) made->t = (tensor){.desc = source->t.desc, .data = target->data, .storage = target};
  if (status == REED_OK && destination->twin) {
    const tensor *twin = bindings_have(&s->bindings, source->t.storage) ? &source->t : &dense;
    status = run_add_twin(&s->run, made, device, twin->data, twin->storage);
    if (status != REED_OK) storage_release(target);
  }
  storage_release(dense.storage);
  return status;
}

reed_status exec_readback(reed_session *s, const uint32_t *w) {
  const insn_readback i = insn_readback_at(w);
  ref *target = reg_r(&s->run, i.dst);
  const ref *source = reg_r(&s->run, i.src);
  copy_reason reason = (copy_reason)i.reason;
  uint32_t site = i.site;
  if (source->kind != REF_STORED) return at_site(&s->run, site, not_a_tensor(&s->run, source, "a stored tensor"));
  int32_t device = source->t.device;
  const result_destination destination = destination_of(s, w, source);
  ref made = {.kind = REF_FETCHING, .bounded_axis = -1, .t = source->t, .bytes = source->bytes};
  if (!destination.stays) {
    profile_note_copy(&s->run.profile, &(profile_copy){.direction = device ? PROFILE_TO_HOST : PROFILE_NO_COPY,
                                                       .reason = reason,
                                                       .readback = true,
                                                       .bytes = source->bytes,
                                                       .site = site,
                                                       .input = i.input,
                                                       .after_epoch = (uint32_t)s->run.profile.epochs.n - 1});
    made.t.device = 0;
  }
  if (made.t.device == device) {
    storage_retain(made.t.storage);
  } else {
    reed_status status = fetch_result(s, &i, source, &destination, &made);
    if (status != REED_OK) return at_site(&s->run, site, status);
  }
  ref_clear(&s->run.objects, target);
  *target = made;
  if (!VEC_PUSH(&s->run.fetches, ((pending_fetch){.r_index = (size_t)(target - s->run.r.items)})))
    return diag_no_memory(s->run.diagnosis, "list of read-backs");
  return REED_OK;
}

/* True if a fetch of the same count has begun for another register, so that the count is read back once. *out_target:
 * the fetch's host memory, with one reference for the caller; NULL if the count lies on the host. */
static bool fetched_already(const vm_run *run, const int64_t *extent, storage **out_target) {
  for (size_t i = 0; i < run->fetches.n; i++) {
    const pending_fetch *f = &run->fetches.items[i];
    if (!f->extent || run->r.items[f->r_index].extent != extent) continue;
    storage_retain(f->target);
    *out_target = f->target;
    return true;
  }
  return false;
}

reed_status exec_extent(reed_session *s, ref *r, uint32_t why) {
  if (r->kind == REF_STORED) return REED_OK; /* its kernel is in a branch not taken; the tensor is empty */
  if (r->kind != REF_PENDING) return not_a_tensor(&s->run, r, "a tensor whose kernel reports an extent");
  int32_t device = r->t.device;
  pending_fetch fetch = {.r_index = (size_t)(r - s->run.r.items), .extent = true};
  if (!VEC_ROOM(&s->run.fetches)) return diag_no_memory(s->run.diagnosis, "list of read-backs");
  if (fetched_already(&s->run, r->extent, &fetch.target)) {
    r->kind = REF_FETCHING;
    s->run.fetches.items[s->run.fetches.n++] = fetch;
    return REED_OK;
  }
  profile_note_copy(&s->run.profile, &(profile_copy){.direction = device ? PROFILE_TO_HOST : PROFILE_NO_COPY,
                                                     .reason = COPY_REASON_EXTENT,
                                                     .readback = true,
                                                     .bytes = 8,
                                                     .site = r->shaped_by - 1,
                                                     .input = UINT32_MAX,
                                                     .why = why,
                                                     .after_epoch = (uint32_t)s->run.profile.epochs.n - 1});
  if (device) {
    reed_status status = start_fetch(s, device, r->extent, r->extent_storage, 8, COPY_REASON_EXTENT, r->shaped_by - 1,
                                     NULL, &fetch.target);
    if (status != REED_OK) return at_site(&s->run, r->shaped_by - 1, status);
  }
  r->kind = REF_FETCHING;
  s->run.fetches.items[s->run.fetches.n++] = fetch;
  return REED_OK;
}

reed_status exec_sync(reed_session *s) {
  profile_event *event = profile_note(&s->run.profile, PROFILE_SYNC, UINT32_MAX, 0);
  if (event) event->span.begin_ns = clock_now_ns();
  reed_status status = devices_await_results(&s->devices, &s->run);
  memo_free_retired(&s->memo);
  if (event) event->span.end_ns = clock_now_ns();
  s->run.profile.n_syncs++;
  for (size_t i = 0; i < s->run.fetches.n; i++) {
    pending_fetch *f = &s->run.fetches.items[i];
    ref *r = &s->run.r.items[f->r_index];
    if (status == REED_OK && r->kind == REF_FETCHING && f->extent) {
      int64_t n = *(f->target ? (const int64_t *)f->target->data : r->extent) * r->factor;
      int64_t *bound = &r->t.desc.dims[r->bounded_axis];
      if (n < 0 || n > *bound) {
        status = at_site(&s->run, r->shaped_by - 1,
                         diag_fail(s->run.diagnosis, REED_ERROR_DEVICE,
                                   "the kernel reported the extent %lld, its bound is %lld", (long long)n,
                                   (long long)*bound));
      } else {
        *bound = n;
        r->bytes = desc_bytes(&r->t.desc);
        r->bounded_axis = -1;
        storage_release(r->extent_storage);
        r->extent_storage = NULL;
        r->extent = NULL;
      }
    }
    if (r->kind == REF_FETCHING) r->kind = REF_STORED;
    storage_release(f->target);
  }
  s->run.fetches.n = 0;
  return status;
}
