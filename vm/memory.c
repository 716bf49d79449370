/* Memory of single registers, one instruction at a time. The memory of an epoch's run section is given at once:
 * epoch/place.c. */
#include "vm/memory.h"

#include <string.h>

#include "vm/room.h"

reed_status give_memory(reed_session *s, ref *r) {
  if (s->epoch.in_shape_section)
    return active_value_memory(&s->epoch, r->bytes, &r->t.data, &r->t.storage, s->run.diagnosis);
  storage *block;
  const pool_use use = r->bounded_axis >= 0 ? POOL_BOUND : POOL_TENSOR;
  reed_status status = pool_allocate_for(s->devices.items[r->t.device].memory, use, r->bytes, &block, s->run.diagnosis);
  if (status != REED_OK) return status;
  s->devices.items[r->t.device].at_border = true;
  r->t.storage = block;
  r->t.data = block->data;
  return REED_OK;
}

reed_status exec_alloc(reed_session *s, ref *r) {
  if (r->kind != REF_SHAPED) return not_a_tensor(&s->run, r, "a tensor without memory");
  reed_status status = give_memory(s, r);
  if (status != REED_OK) return status;
  if (r->t.device == 0 && r->bytes)
    memset(r->t.data, 0, (size_t)r->bytes); /* hand-written code may read the register before it fills it */
  r->kind = REF_STORED;
  return REED_OK;
}

reed_status exec_shape_like(reed_session *s, const uint32_t *w) {
  const insn_shape_like i = insn_shape_like_at(w);
  const ref *source = reg_r(&s->run, i.src);
  if (source->kind != REF_SHAPED && source->kind != REF_STORED)
    return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is not a tensor with known extents", i.src);
  if (!ref_set_shaped(&s->run.objects, reg_r(&s->run, i.dst), &source->t.desc, s->devices.bind[i.device], -1) ||
      !s->epoch.in_shape_section)
    return REED_OK;
  return active_note_write(&s->epoch, i.dst, s->run.diagnosis);
}

static reed_status view(reed_session *s, ref *target, const ref *source) {
  if (target->kind != REF_SHAPED) return not_a_tensor(&s->run, target, "a tensor without memory");
  bool counted = target->bounded_axis >= 0 && source->kind == REF_PENDING;
  if (source->kind != REF_STORED && !counted) return not_a_tensor(&s->run, source, "a stored tensor");
  if (target->bytes != source->bytes || target->t.device != source->t.device) {
    char a[128], b[128];
    return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "cannot view %s as %s",
                     desc_text(&source->t.desc, a, sizeof a), desc_text(&target->t.desc, b, sizeof b));
  }
  bool shares = room_of_view(&source->t, &target->t);
  if (!shares || s->epoch.in_shape_section) {                   /* a memo entry must not refer to memory of a key */
    bool placed = !s->epoch.in_shape_section && s->epoch.entry; /* the plan has given the copy its memory */
    reed_status status = placed ? REED_OK : give_memory(s, target);
    if (status != REED_OK) return status;
    target->t.room = 0;
    if (source->t.room) status = room_copy(s, &source->t, target->t.data);
    else if (target->bytes) memcpy(target->t.data, source->t.data, (size_t)target->bytes);
    if (status != REED_OK) return status;
  } else {
    storage_retain(source->t.storage);
    storage_release(target->t.storage);
    target->t.storage = source->t.storage;
    target->t.data = source->t.data;
    target->t.cache = source->t.cache;
  }
  target->kind = counted ? REF_PENDING : REF_STORED;
  target->shaped_by = 0;
  return REED_OK;
}

reed_status exec_view(reed_session *s, uint32_t target, uint32_t source) {
  reed_status status = view(s, reg_r(&s->run, target), reg_r(&s->run, source));
  if (s->epoch.in_shape_section && status == REED_OK) active_note_elements(&s->epoch, target);
  return status;
}

reed_status exec_move(reed_session *s, uint32_t target, uint32_t source) {
  ref *to = reg_r(&s->run, target);
  const ref *from = reg_r(&s->run, source);
  if (!s->epoch.in_shape_section || active_wrote(&s->epoch, source)) {
    ref_assign(&s->run.objects, to, from);
    to->shaped_by = 0;
    return s->epoch.in_shape_section ? active_note_write(&s->epoch, target, s->run.diagnosis) : REED_OK;
  }
  /* The source is a key: its elements are copied, as by a view. */
  if (from->kind != REF_STORED || from->t.device != 0) return not_a_tensor(&s->run, from, "a host tensor");
  ref made = {0};
  if (!ref_set_shaped(&s->run.objects, &made, &from->t.desc, 0, -1))
    return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "a moved tensor is larger than any memory");
  reed_status status = view(s, &made, from);
  ref_assign(&s->run.objects, to, &made);
  ref_clear(&s->run.objects, &made);
  return status == REED_OK ? active_note_write(&s->epoch, target, s->run.diagnosis) : status;
}

reed_status exec_scalar_tensor(reed_session *s, ref *target, int64_t value, reed_dtype dtype) {
  reed_desc desc = {.dtype = dtype, .rank = 0};
  if (!ref_set_shaped(&s->run.objects, target, &desc, 0, -1))
    return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "a scalar has no dtype");
  reed_status status = give_memory(s, target);
  if (status != REED_OK) return status;
  if (dtype == REED_I64) memcpy(target->t.data, &value, 8);
  else reed_dtype_write(dtype, target->t.data, (double)value);
  target->kind = REF_STORED;
  return REED_OK;
}

static void note_constant(vm_run *run, uint32_t constant, int32_t device, int64_t bytes, int64_t begin) {
  profile_event *event = profile_note(&run->profile, PROFILE_COPY, UINT32_MAX, (int8_t)device);
  if (event) {
    event->bytes = bytes, event->reason = COPY_REASON_CONSTANT, event->source_device = 0;
    event->span = (device_span){begin, clock_now_ns()};
  }
  profile_note_copy(&run->profile, &(profile_copy){.direction = PROFILE_TO_DEVICE,
                                                   .reason = COPY_REASON_CONSTANT,
                                                   .bytes = bytes,
                                                   .site = UINT32_MAX,
                                                   .input = constant,
                                                   .after_epoch = (uint32_t)run->profile.epochs.n - 1});
}

reed_status exec_constant(reed_session *s, ref *target, uint32_t constant, int32_t module_device) {
  const module_constant *c = &s->run.program->module->constants[constant];
  int32_t device = s->devices.bind[module_device];
  void *data = (void *)c->data;
  int64_t bytes = desc_bytes(&c->desc);
  if (device != 0) {
    bool copied = false;
    int64_t begin = s->run.profile.spans ? clock_now_ns() : 0;
    reed_status status = constants_get(s->devices.items[device].constants, constant, s->devices.cap_bytes, &data,
                                       &copied, s->run.diagnosis);
    if (status != REED_OK) return status;
    if (copied) note_constant(&s->run, constant, device, bytes, begin);
  }
  ref_clear(&s->run.objects, target);
  *target = (ref){.kind = REF_STORED,
                  .bounded_axis = -1,
                  .constant = (int32_t)constant + 1,
                  .bytes = bytes,
                  .t = {.desc = c->desc, .device = device, .data = data}};
  return REED_OK;
}
