/* What single instructions do, apart from moves, arithmetic and control (interp.c) and epochs (epoch.c): shapes,
 * memory, kernels, copies between devices, synchronisation. Extents and kinds that the verifier could not prove are
 * checked here. */
#include <stdio.h>
#include <string.h>

#include "ops/fault.h"
#include "shapefuncs/shapefn.h"
#include "vm/vm.h"

static const char *site_text(const reed_session *s, uint32_t string) { return s->program->module->strings[string]; }

/* Adds operator and node of a site to the diagnosis of a failure, and words where a custom operator's function gave
 * none. */
static reed_status at_site(reed_session *s, uint32_t site, reed_status status) {
  if (status == REED_OK) return REED_OK;
  const module_site *c = &s->program->module->sites[site];
  const char *op = site_text(s, c->op), *node = site_text(s, c->node);
  if (s->fault.code) {
    status = fault_say(&s->fault, s->program->site_ops[site], node, s->diagnosis);
    s->fault.code = REED_FAULT_NONE;
  }
  if (s->diagnosis->status == REED_OK)
    status = diag_fail(s->diagnosis, status, "%s node '%s' failed: %s", op, node, reed_status_text(status));
  diag_place_node(s->diagnosis, op, node, NULL);
  return status;
}

static reed_status not_a_tensor(reed_session *s, const ref *r, const char *what) {
  static const char *const kinds[] = {"nothing",
                                      "none",
                                      "a tensor without memory",
                                      "a tensor",
                                      "a tensor whose extent is not fetched",
                                      "a tensor being fetched",
                                      "an object"};
  return diag_fail(s->diagnosis, REED_ERROR_TYPE, "%s is needed, the register holds %s", what, kinds[r->kind]);
}

/* ---- shape functions ---- */

reed_status call_shape(reed_session *s, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                       reed_shape_output *outputs, uint32_t n_outputs) {
  const module_site *c = &s->program->module->sites[site];
  const reed_op *op = s->program->site_ops[site];
  reed_shape_input given[REED_MAX_OPERANDS];
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) {
      given[i] = (reed_shape_input){.dtype = REED_NONE};
      continue;
    }
    const ref *r = reg_r(s, number);
    const reed_op_input *declared = reed_op_input_at(op, (int32_t)i);
    bool value = declared && (declared->reads & REED_READS_VALUE);
    if (r->kind != REF_STORED && !(r->kind == REF_SHAPED && !value))
      return at_site(s, site, not_a_tensor(s, r, "a tensor with known extents"));
    given[i] = (reed_shape_input){.dtype = r->t.desc.dtype, .rank = r->t.desc.rank, .dims = r->t.desc.dims};
    if (value) {
      if (r->t.device != 0)
        return at_site(s, site,
                       diag_fail(s->diagnosis, REED_ERROR_DEVICE,
                                 "input %u is read by the shape function but lies on a device", i));
      given[i].data = r->t.data ? r->t.data : "";
      given[i].n_values = desc_elements(&r->t.desc);
    }
  }
  for (uint32_t i = 0; i < n_outputs; i++) outputs[i] = (reed_shape_output){.bounded_axis = -1};
  return at_site(s, site,
                 shapefn_run(op, &c->attrs, site_text(s, c->node), (int32_t)n_inputs, given, (int32_t)n_outputs,
                             outputs, NULL, s->diagnosis));
}

static void output_desc(const reed_shape_output *output, reed_desc *out_desc) {
  out_desc->dtype = output->dtype;
  out_desc->rank = output->rank;
  memcpy(out_desc->dims, output->dims, sizeof out_desc->dims);
}

/* shape SITE DEV RDS_SHAPED RFS_IN */
reed_status exec_shape(reed_session *s, const uint32_t *w) {
  uint32_t site = w[1], n_outputs = w[3], n_inputs = w[4 + n_outputs];
  const uint32_t *out_regs = w + 4, *in_items = w + 5 + n_outputs;
  profile_event *event = profile_note(&s->profile, PROFILE_SHAPE_FUNCTION, site, 0);
  if (event) event->span.begin_ns = clock_now_ns();
  reed_shape_output outputs[REED_MAX_OPERANDS];
  reed_status status = call_shape(s, site, in_items, n_inputs, outputs, n_outputs);
  if (status != REED_OK) return status;
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (out_regs[i] == MODULE_ABSENT) continue;
    reed_desc desc;
    output_desc(&outputs[i], &desc);
    ref *r = reg_r(s, out_regs[i]);
    if (!ref_set_shaped(&s->objects, r, &desc, s->bind[w[2]], outputs[i].bounded_axis))
      return at_site(s, site, diag_fail(s->diagnosis, REED_ERROR_SHAPE, "output %u is larger than any memory", i));
    r->site = site;
    if (s->in_shape_section && (status = epoch_note_write(s, out_regs[i])) != REED_OK) return status;
  }
  if (s->current) s->current->n_shape_functions++;
  if (event) event->span.end_ns = clock_now_ns();
  return REED_OK;
}

static const char *type_name(const reed_session *s, const module_type *type) {
  const char *name = site_text(s, type->name);
  return name[0] ? name : "value";
}

static void type_text(const reed_session *s, const module_type *type, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, "%s[", type->dtype == REED_NONE ? "any" : reed_dtype_name(type->dtype));
  for (int32_t i = 0; i < type->rank && n < capacity; i++) {
    const char *comma = i ? "," : "";
    if (type->dims[i] >= 0) n += (size_t)snprintf(out + n, capacity - n, "%s%lld", comma, (long long)type->dims[i]);
    else n += (size_t)snprintf(out + n, capacity - n, "%s%s", comma, site_text(s, (uint32_t)~type->dims[i]));
  }
  if (n < capacity) snprintf(out + n, capacity - n, "]");
}

reed_status exec_assert_shape(reed_session *s, const ref *r, const module_type *type) {
  if (type->object) return REED_OK;
  if (r->kind != REF_SHAPED && r->kind != REF_STORED) return not_a_tensor(s, r, "a tensor");
  const reed_desc *desc = &r->t.desc;
  bool ok = (type->dtype == REED_NONE || type->dtype == desc->dtype) && (type->rank < 0 || type->rank == desc->rank);
  for (int32_t i = 0; ok && i < type->rank; i++) ok = type->dims[i] < 0 || type->dims[i] == desc->dims[i];
  if (ok) return REED_OK;
  char want[256], got[256];
  type_text(s, type, want, sizeof want);
  reed_status status = type->dtype != REED_NONE && type->dtype != desc->dtype ? REED_ERROR_TYPE : REED_ERROR_SHAPE;
  status = diag_fail(s->diagnosis, status, "input '%s': expected %s, got %s", type_name(s, type), want,
                     desc_text(desc, got, sizeof got));
  diag_place_node(s->diagnosis, NULL, NULL, type_name(s, type));
  return status;
}

reed_status exec_assert_dim(reed_session *s, const ref *r, uint32_t axis, int64_t extent, const module_type *type) {
  if (r->kind != REF_SHAPED && r->kind != REF_STORED) return not_a_tensor(s, r, "a tensor");
  if ((int32_t)axis >= r->t.desc.rank)
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "input '%s' has rank %d, axis %u is asked for", type_name(s, type),
                     r->t.desc.rank, axis);
  if (r->t.desc.dims[axis] == extent) return REED_OK;
  const char *symbol =
      (int32_t)axis < type->rank && type->dims[axis] < 0 ? site_text(s, (uint32_t)~type->dims[axis]) : "";
  reed_status status =
      diag_fail(s->diagnosis, REED_ERROR_SHAPE, "input '%s': dim %u ('%s') is %lld here, %lld where it was met first",
                type_name(s, type), axis, symbol, (long long)r->t.desc.dims[axis], (long long)extent);
  diag_place_node(s->diagnosis, NULL, NULL, type_name(s, type));
  return status;
}

reed_status exec_item(reed_session *s, const ref *r, int64_t *out_value) {
  if (r->kind != REF_STORED || r->t.device != 0) return not_a_tensor(s, r, "a host tensor");
  if (desc_elements(&r->t.desc) != 1) {
    char text[128];
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a single element is needed, got %s",
                     desc_text(&r->t.desc, text, sizeof text));
  }
  switch (r->t.desc.dtype) {
    case REED_I64: memcpy(out_value, r->t.data, 8); return REED_OK;
    case REED_BOOL: *out_value = *(const uint8_t *)r->t.data != 0; return REED_OK;
    case REED_I32: *out_value = *(const int32_t *)r->t.data; return REED_OK;
    default:
      return diag_fail(s->diagnosis, REED_ERROR_TYPE, "an integer or bool is needed, got %s",
                       reed_dtype_name(r->t.desc.dtype));
  }
}

/* ---- memory ---- */

/* Gives a shaped register memory: of the entry in a shape section, else of its device's pool. */
static reed_status give_memory(reed_session *s, ref *r) {
  if (s->in_shape_section) return epoch_value_memory(s, r->bytes, &r->t.data, &r->t.storage);
  storage *block;
  reed_status status = pool_allocate(s->pools[r->t.device], r->bytes, &block, s->diagnosis);
  if (status != REED_OK) return status;
  r->t.storage = block;
  r->t.data = block->data;
  return REED_OK;
}

reed_status exec_alloc(reed_session *s, ref *r) {
  if (r->kind != REF_SHAPED) return not_a_tensor(s, r, "a tensor without memory");
  reed_status status = give_memory(s, r);
  if (status != REED_OK) return status;
  if (r->t.device == 0 && r->bytes)
    memset(r->t.data, 0, (size_t)r->bytes); /* hand-written code may read before it fills */
  r->kind = REF_STORED;
  return REED_OK;
}

reed_status exec_view(reed_session *s, ref *target, const ref *source) {
  if (target->kind != REF_SHAPED) return not_a_tensor(s, target, "a tensor without memory");
  if (source->kind != REF_STORED) return not_a_tensor(s, source, "a stored tensor");
  if (target->bytes != source->bytes || target->t.device != source->t.device) {
    char a[128], b[128];
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "cannot view %s as %s", desc_text(&source->t.desc, a, sizeof a),
                     desc_text(&target->t.desc, b, sizeof b));
  }
  if (s->in_shape_section) { /* a memo entry must not refer to memory of a key */
    reed_status status = give_memory(s, target);
    if (status != REED_OK) return status;
    if (target->bytes) memcpy(target->t.data, source->t.data, (size_t)target->bytes);
  } else {
    storage_retain(source->t.storage);
    storage_release(target->t.storage);
    target->t.storage = source->t.storage;
    target->t.data = source->t.data;
  }
  target->kind = REF_STORED;
  return REED_OK;
}

reed_status exec_move(reed_session *s, uint32_t target, uint32_t source) {
  ref *to = reg_r(s, target);
  const ref *from = reg_r(s, source);
  if (!s->in_shape_section || s->stamps[source] == s->stamp) {
    ref_assign(&s->objects, to, from);
    return s->in_shape_section ? epoch_note_write(s, target) : REED_OK;
  }
  /* From a key: its elements are copied, as in exec_view. */
  if (from->kind != REF_STORED || from->t.device != 0) return not_a_tensor(s, from, "a host tensor");
  ref made = {0};
  if (!ref_set_shaped(&s->objects, &made, &from->t.desc, 0, -1))
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a moved tensor is larger than any memory");
  reed_status status = exec_view(s, &made, from);
  ref_assign(&s->objects, to, &made);
  ref_clear(&s->objects, &made);
  return status == REED_OK ? epoch_note_write(s, target) : status;
}

reed_status exec_scalar_tensor(reed_session *s, ref *target, int64_t value, reed_dtype dtype) {
  reed_desc desc = {.dtype = dtype, .rank = 0};
  if (!ref_set_shaped(&s->objects, target, &desc, 0, -1))
    return diag_fail(s->diagnosis, REED_ERROR_TYPE, "a scalar has no dtype");
  reed_status status = give_memory(s, target);
  if (status != REED_OK) return status;
  if (dtype == REED_I64) memcpy(target->t.data, &value, 8);
  else reed_dtype_write(dtype, target->t.data, (double)value);
  target->kind = REF_STORED;
  return REED_OK;
}

reed_status exec_constant(reed_session *s, ref *target, uint32_t constant, int32_t module_device) {
  const module_constant *c = &s->program->module->constants[constant];
  int32_t device = s->bind[module_device];
  void *data = (void *)c->data;
  if (device != 0) {
    storage **held = &s->device_constants[constant];
    if (!*held) {
      int64_t bytes = desc_bytes(&c->desc);
      storage *block;
      reed_status status = pool_allocate(s->pools[device], bytes, &block, s->diagnosis);
      if (status != REED_OK) return status;
      profile_event *event = profile_note(&s->profile, PROFILE_COPY, UINT32_MAX, (int8_t)device);
      if (event) event->bytes = bytes, event->reason = COPY_REASON_CONSTANT, event->source_device = 0;
      device_interface const *on = s->devices[device]->interface;
      status = on->copy_in(s->devices[device], block->data, c->data, bytes, event ? &event->span : NULL, s->diagnosis);
      s->device_busy = true;
      if (status != REED_OK) {
        storage_release(block);
        return status;
      }
      profile_note_copy(&s->profile, &(profile_copy){.direction = PROFILE_TO_DEVICE,
                                                     .reason = COPY_REASON_CONSTANT,
                                                     .bytes = bytes,
                                                     .site = UINT32_MAX,
                                                     .input = constant,
                                                     .after_epoch = (uint32_t)s->profile.epochs.n - 1});
      *held = block;
    }
    data = (*held)->data;
  }
  ref_clear(&s->objects, target);
  *target = (ref){.kind = REF_STORED,
                  .bounded_axis = -1,
                  .constant = (int32_t)constant + 1,
                  .bytes = desc_bytes(&c->desc),
                  .t = {.desc = c->desc, .device = device, .data = data}};
  return REED_OK;
}

/* ---- kernels ---- */

reed_status call_prepare(reed_session *s, uint32_t site, int32_t device, const uint32_t *outputs, uint32_t n_outputs,
                         const uint32_t *inputs, uint32_t n_inputs, reed_kernel *out_kernel) {
  const module *m = s->program->module;
  const module_site *c = &m->sites[site];
  const reed_op *op = s->program->site_ops[site];
  reed_desc in[REED_MAX_OPERANDS], out[REED_MAX_OPERANDS];
  const void *values[REED_MAX_OPERANDS];
  bool constant[REED_MAX_OPERANDS];
  profile_event *event = profile_note(&s->profile, PROFILE_PREPARE, site, (int8_t)device);
  if (event) event->span.begin_ns = clock_now_ns();
  for (uint32_t i = 0; i < n_inputs; i++) {
    values[i] = NULL;
    constant[i] = false;
    in[i] = (reed_desc){.dtype = REED_NONE};
    if (INSN_REGISTER(inputs[i]) == MODULE_ABSENT) continue;
    const ref *r = reg_r(s, INSN_REGISTER(inputs[i]));
    in[i] = r->t.desc;
    const reed_op_input *declared = reed_op_input_at(op, (int32_t)i);
    if (r->constant) {
      values[i] = m->constants[r->constant - 1].data;
      constant[i] = true;
    } else if (declared && (declared->reads & REED_READS_VALUE)) {
      values[i] = r->t.data ? r->t.data : "";
    }
  }
  for (uint32_t i = 0; i < n_outputs; i++)
    out[i] = outputs[i] == MODULE_ABSENT ? (reed_desc){.dtype = REED_NONE} : reg_r(s, outputs[i])->t.desc;
  reed_kernel_call call = {.op = op,
                           .attrs = &c->attrs,
                           .node = site_text(s, c->node),
                           .n_inputs = (int32_t)n_inputs,
                           .n_outputs = (int32_t)n_outputs,
                           .inputs = in,
                           .outputs = out,
                           .host_values = values,
                           .constant = constant,
                           .env = &s->env,
                           .diagnosis = s->diagnosis};
  device_interface const *on = s->devices[device]->interface;
  reed_kernel_prepare_fn prepare = on->kernel(s->devices[device], op);
  if (!prepare)
    return at_site(s, site,
                   diag_fail(s->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': no kernel on device '%s'", op->name,
                             call.node, on->name));
  *out_kernel = (reed_kernel){0};
  reed_status status = kernel_is_nothing(&call, out_kernel) ? REED_OK : at_site(s, site, prepare(&call, out_kernel));
  if (event) event->span.end_ns = clock_now_ns();
  return status;
}

/* The operands' memory. Input pointers of absent operands are NULL, and of those whose extents are all that the
 * operator reads. */
static reed_status gather_pointers(reed_session *s, const reed_op *op, const uint32_t *outputs, uint32_t n_outputs,
                                   const uint32_t *inputs, uint32_t n_inputs, const void **in, void **out) {
  const ref *base = &s->r.items[frame_top(s)->r_base];
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    in[i] = NULL;
    if (number == MODULE_ABSENT) continue;
    if (base[number].kind == REF_SHAPED && op_reads_extents_only(op)) continue;
    if (base[number].kind != REF_STORED) return not_a_tensor(s, &base[number], "a stored tensor");
    in[i] = base[number].t.data;
  }
  for (uint32_t i = 0; i < n_outputs; i++) out[i] = outputs[i] == MODULE_ABSENT ? NULL : base[outputs[i]].t.data;
  return REED_OK;
}

static reed_status launch(reed_session *s, uint32_t site, int32_t device, const reed_kernel *kernel,
                          const reed_kernel_buffers *buffers, uint32_t n_inputs, uint32_t n_outputs,
                          profile_kind kind) {
  s->profile.n_kernels += kind == PROFILE_KERNEL;
  if (device == 0 && !s->profile.spans) return kernel->run(kernel->state, buffers); /* what the host's launch does */
  profile_event *event = profile_note(&s->profile, kind, site, (int8_t)device);
  s->device_busy |= device != 0;
  return s->devices[device]->interface->launch(s->devices[device], kernel, buffers, (int32_t)n_inputs,
                                               (int32_t)n_outputs, site, event ? &event->span : NULL, s->diagnosis);
}

/* A kernel outside any epoch, or a host kernel of a shape section: checked, prepared, run and freed on the spot. */
static reed_status invoke_now(reed_session *s, uint32_t site, int32_t device, const uint32_t *outputs,
                              uint32_t n_outputs, const uint32_t *inputs, uint32_t n_inputs) {
  reed_shape_output expected[REED_MAX_OPERANDS];
  reed_status status = call_shape(s, site, inputs, n_inputs, expected, n_outputs);
  if (status != REED_OK) return status;
  storage *extents = NULL, *workspace = NULL;
  reed_kernel kernel = {0};
  bool bounded = false;
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (outputs[i] == MODULE_ABSENT) continue;
    ref *r = reg_r(s, outputs[i]);
    reed_desc desc;
    output_desc(&expected[i], &desc);
    if ((r->kind != REF_SHAPED && r->kind != REF_STORED) || !desc_equal(&desc, &r->t.desc) || r->t.device != device)
      return at_site(s, site,
                     diag_fail(s->diagnosis, REED_ERROR_SHAPE, "the register of output %u does not fit this call", i));
    r->bounded_axis = (int8_t)expected[i].bounded_axis;
    r->site = site;
    if (r->kind == REF_SHAPED && (status = give_memory(s, r)) != REED_OK) return status;
    bounded |= r->bounded_axis >= 0;
  }
  status = call_prepare(s, site, device, outputs, n_outputs, inputs, n_inputs, &kernel);
  if (status == REED_OK && bounded)
    status = pool_allocate(s->pools[device], (int64_t)n_outputs * 8, &extents, s->diagnosis);
  if (status == REED_OK && kernel.workspace_bytes > 0)
    status = pool_allocate(s->pools[device], kernel.workspace_bytes, &workspace, s->diagnosis);
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  if (status == REED_OK)
    status = gather_pointers(s, s->program->site_ops[site], outputs, n_outputs, inputs, n_inputs, in, out);
  if (status == REED_OK) {
    reed_kernel_buffers buffers = {
        in, out, workspace ? workspace->data : NULL, extents ? extents->data : NULL, s->diagnosis, &s->fault};
    status = launch(s, site, device, &kernel, &buffers, n_inputs, n_outputs,
                    s->in_shape_section ? PROFILE_HOST_KERNEL : PROFILE_KERNEL);
    if (status == REED_OK && device != 0) status = session_synchronize(s);
  }
  if (status == REED_OK)
    for (uint32_t i = 0; i < n_outputs; i++) {
      if (outputs[i] == MODULE_ABSENT) continue;
      ref *r = reg_r(s, outputs[i]);
      r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED;
      if (r->bounded_axis < 0) continue;
      storage_retain(extents);
      r->extent_storage = extents;
      r->extent = (int64_t *)extents->data + i;
    }
  if (kernel.free) kernel.free(kernel.state);
  storage_release(extents);
  storage_release(workspace);
  return at_site(s, site, status);
}

/* invoke SITE DEV RXS_KERNEL RUS_KERNEL */
reed_status exec_invoke(reed_session *s, const uint32_t *w) {
  uint32_t site = w[1], n_outputs = w[3], n_inputs = w[4 + n_outputs];
  const uint32_t *outputs = w + 4, *inputs = w + 5 + n_outputs;
  epoch_entry *e = s->current;
  if (!e || s->in_shape_section) return invoke_now(s, site, s->bind[w[2]], outputs, n_outputs, inputs, n_inputs);

  const epoch_kernel *k = &e->kernels.items[s->kernel_cursor++];
  int32_t device = s->bind[w[2]];
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  reed_status status = gather_pointers(s, s->program->site_ops[site], outputs, n_outputs, inputs, n_inputs, in, out);
  if (status != REED_OK) return at_site(s, site, status);
  reed_kernel_buffers buffers = {in, out, NULL, NULL, s->diagnosis, &s->fault};
  if (k->workspace_root >= 0)
    buffers.workspace = (char *)s->arenas[device]->data + e->roots.items[k->workspace_root].offset;
  ref *base = &s->r.items[frame_top(s)->r_base];
  if (k->extent_root >= 0)
    for (uint32_t i = 0; i < n_outputs && !buffers.extents; i++)
      if (outputs[i] != MODULE_ABSENT && base[outputs[i]].extent) buffers.extents = base[outputs[i]].extent - i;
  status = launch(s, site, device, &k->kernel, &buffers, n_inputs, n_outputs, PROFILE_KERNEL);
  if (status != REED_OK) return at_site(s, site, status);
  for (uint32_t i = 0; i < n_outputs; i++)
    if (outputs[i] != MODULE_ABSENT)
      base[outputs[i]].kind = base[outputs[i]].bounded_axis >= 0 ? REF_PENDING : REF_STORED;
  return REED_OK;
}

/* ---- copies and synchronisation ---- */

/* copy RX_FILL RU_TENSOR REASON SITE INDEX */
reed_status exec_copy(reed_session *s, const uint32_t *w) {
  ref *target = reg_r(s, w[1]);
  const ref *source = reg_r(s, w[2]);
  uint32_t site = w[4];
  if (source->kind != REF_STORED) return at_site(s, site, not_a_tensor(s, source, "a stored tensor"));
  if (target->kind != REF_SHAPED && target->kind != REF_STORED)
    return at_site(s, site, not_a_tensor(s, target, "a tensor to fill"));
  if (target->t.device == source->t.device && target->kind == REF_SHAPED) return exec_view(s, target, source);
  if (target->bytes != source->bytes)
    return at_site(s, site,
                   diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a copy of %lld bytes into %lld", (long long)source->bytes,
                             (long long)target->bytes));
  if (target->t.device == 0 && source->t.device != 0)
    return at_site(s, site, diag_fail(s->diagnosis, REED_ERROR_DEVICE, "only readback copies to the host"));
  if (target->kind == REF_SHAPED && !s->current) {
    reed_status status = give_memory(s, target);
    if (status != REED_OK) return status;
  }
  target->kind = REF_STORED;
  if (target->t.device == 0) {
    if (source->bytes) memmove(target->t.data, source->t.data, (size_t)source->bytes);
    return REED_OK;
  }
  device *on = s->devices[target->t.device];
  profile_event *event = profile_note(&s->profile, PROFILE_COPY, site, (int8_t)target->t.device);
  if (event)
    event->bytes = source->bytes, event->reason = (uint8_t)w[3], event->source_device = (int8_t)source->t.device;
  bool from_host = source->t.device == 0;
  profile_note_copy(&s->profile, &(profile_copy){.direction = from_host ? PROFILE_TO_DEVICE : PROFILE_WITHIN,
                                                 .reason = (copy_reason)w[3],
                                                 .bytes = source->bytes,
                                                 .site = site,
                                                 .input = w[5],
                                                 .after_epoch = (uint32_t)s->profile.epochs.n - 1});
  s->device_busy = true;
  device_span *span = event ? &event->span : NULL;
  return at_site(s, site,
                 (from_host ? on->interface->copy_in : on->interface->copy_within)(on, target->t.data, source->t.data,
                                                                                   source->bytes, span, s->diagnosis));
}

/* Starts a copy of `bytes` to the host; *out_target one reference. */
static reed_status start_fetch(reed_session *s, int32_t device, const void *source, int64_t bytes, copy_reason reason,
                               uint32_t site, storage **out_target) {
  storage *target;
  reed_status status = session_allocate(s, 0, bytes, reason == COPY_REASON_OUTPUT, &target);
  if (status != REED_OK) return status;
  profile_event *event = profile_note(&s->profile, PROFILE_COPY, site, 0);
  if (event) event->bytes = bytes, event->reason = (uint8_t)reason, event->source_device = (int8_t)device;
  s->device_busy = true;
  status = s->devices[device]->interface->copy_out(s->devices[device], target->data, source, bytes,
                                                   event ? &event->span : NULL, s->diagnosis);
  if (status != REED_OK) {
    (void)!session_synchronize(s); /* the device may still write what was enqueued */
    storage_release(target);
    return status;
  }
  *out_target = target;
  return REED_OK;
}

/* readback RD_FETCH RU_TENSOR REASON SITE INDEX */
reed_status exec_readback(reed_session *s, const uint32_t *w) {
  ref *target = reg_r(s, w[1]);
  const ref *source = reg_r(s, w[2]);
  copy_reason reason = (copy_reason)w[3];
  uint32_t site = w[4];
  if (source->kind != REF_STORED) return at_site(s, site, not_a_tensor(s, source, "a stored tensor"));
  int32_t device = source->t.device;
  profile_note_copy(&s->profile, &(profile_copy){.direction = device ? PROFILE_TO_HOST : PROFILE_NO_COPY,
                                                 .reason = reason,
                                                 .readback = true,
                                                 .bytes = source->bytes,
                                                 .site = site,
                                                 .input = w[5],
                                                 .after_epoch = (uint32_t)s->profile.epochs.n - 1});
  ref made = {.kind = REF_FETCHING, .bounded_axis = -1, .t = source->t, .bytes = source->bytes};
  made.t.device = 0;
  if (device == 0) {
    storage_retain(made.t.storage);
  } else {
    reed_status status = start_fetch(s, device, source->t.data, source->bytes, reason, site, &made.t.storage);
    if (status != REED_OK) return at_site(s, site, status);
    made.t.data = made.t.storage->data;
  }
  ref_clear(&s->objects, target);
  *target = made;
  if (!VEC_PUSH(&s->fetches, ((pending_fetch){.r_index = (size_t)(target - s->r.items)})))
    return diag_no_memory(s->diagnosis, "list of read-backs");
  return REED_OK;
}

reed_status exec_extent(reed_session *s, ref *r) {
  if (r->kind == REF_STORED) return REED_OK; /* a branch not taken left it empty */
  if (r->kind != REF_PENDING) return not_a_tensor(s, r, "a tensor whose kernel reports an extent");
  int32_t device = r->t.device;
  profile_note_copy(&s->profile, &(profile_copy){.direction = device ? PROFILE_TO_HOST : PROFILE_NO_COPY,
                                                 .reason = COPY_REASON_EXTENT,
                                                 .readback = true,
                                                 .bytes = 8,
                                                 .site = r->site,
                                                 .input = UINT32_MAX,
                                                 .after_epoch = (uint32_t)s->profile.epochs.n - 1});
  pending_fetch fetch = {.r_index = (size_t)(r - s->r.items), .extent = true};
  if (!VEC_ROOM(&s->fetches)) return diag_no_memory(s->diagnosis, "list of read-backs");
  if (device) {
    reed_status status = start_fetch(s, device, r->extent, 8, COPY_REASON_EXTENT, r->site, &fetch.target);
    if (status != REED_OK) return at_site(s, r->site, status);
  }
  r->kind = REF_FETCHING;
  s->fetches.items[s->fetches.n++] = fetch;
  return REED_OK;
}

reed_status session_synchronize(reed_session *s) {
  reed_status status = REED_OK;
  for (int32_t i = 1; i < s->n_devices; i++) {
    device_error error = {0};
    reed_status one =
        s->devices[i]->interface->synchronize(s->devices[i], &error, status == REED_OK ? s->diagnosis : NULL);
    if (status != REED_OK || one == REED_OK) continue;
    s->fault = error.fault;
    status = error.fault.code ? at_site(s, error.launch, one) : one;
  }
  s->device_busy = false;
  epoch_free_retired(s);
  return status;
}

reed_status exec_sync(reed_session *s) {
  profile_event *event = profile_note(&s->profile, PROFILE_SYNC, UINT32_MAX, 0);
  if (event) event->span.begin_ns = clock_now_ns();
  reed_status status = session_synchronize(s);
  if (event) event->span.end_ns = clock_now_ns();
  s->profile.n_syncs++;
  for (size_t i = 0; i < s->fetches.n; i++) {
    pending_fetch *f = &s->fetches.items[i];
    ref *r = &s->r.items[f->r_index];
    if (status == REED_OK && r->kind == REF_FETCHING && f->extent) {
      int64_t n = *(f->target ? (const int64_t *)f->target->data : r->extent);
      int64_t *bound = &r->t.desc.dims[r->bounded_axis];
      if (n < 0 || n > *bound) {
        status =
            at_site(s, r->site,
                    diag_fail(s->diagnosis, REED_ERROR_DEVICE, "the kernel reported the extent %lld, its bound is %lld",
                              (long long)n, (long long)*bound));
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
  s->fetches.n = 0;
  return status;
}

/* ---- sequences ---- */

/* The extents of n items put together; *desc is one item's for an empty sequence. */
static reed_status together(reed_session *s, const ref *items, size_t n, int32_t device, bool join, reed_desc *desc) {
  int64_t rows = 0;
  for (size_t i = 0; i < n; i++) {
    if (items[i].kind != REF_STORED || items[i].t.device != device)
      return not_a_tensor(s, &items[i], "a sequence of tensors on one device");
    reed_desc item = items[i].t.desc, like = i ? items[0].t.desc : item;
    bool fits = !join || (item.rank > 0 && !__builtin_add_overflow(rows, item.dims[0], &rows));
    if (join && fits) like.dims[0] = item.dims[0];
    if (!fits || !desc_equal(&like, &item)) {
      char a[128], b[128];
      return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a %s changes from %s in iteration 0 to %s in iteration %zu",
                       join ? "part" : "scan output", desc_text(&items[0].t.desc, a, sizeof a),
                       desc_text(&item, b, sizeof b), i);
    }
    *desc = item;
  }
  if (join) {
    desc->dims[0] = rows;
    return REED_OK;
  }
  if (desc->rank == REED_MAX_RANK)
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a stacked sequence would have rank %d", REED_MAX_RANK + 1);
  memmove(desc->dims + 1, desc->dims, sizeof(int64_t) * (size_t)desc->rank);
  desc->dims[0] = (int64_t)n;
  desc->rank++;
  return REED_OK;
}

reed_status exec_stack(reed_session *s, ref *target, const ref *sequence, const module_type *type,
                       int32_t module_device, bool join) {
  if (sequence->kind != REF_OBJECT || sequence->object->kind != OBJECT_SEQUENCE)
    return not_a_tensor(s, sequence, "a sequence");
  int32_t device = s->bind[module_device];
  size_t n = sequence->object->fields.n;
  const ref *items = sequence->object->fields.items;
  reed_desc desc = {.dtype = type->dtype, .rank = type->rank < 0 ? 0 : type->rank};
  for (int32_t i = 0; i < desc.rank; i++) desc.dims[i] = type->dims[i] < 0 ? 0 : type->dims[i];
  reed_status status = together(s, items, n, device, join, &desc);
  if (status != REED_OK) return status;
  ref made = {0};
  if (!ref_set_shaped(&s->objects, &made, &desc, device, -1))
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "a sequence is larger than any memory when it is put together");
  status = give_memory(s, &made);
  if (status != REED_OK) return status;
  char *to = made.t.data;
  for (size_t i = 0; i < n && status == REED_OK; i++) {
    if (items[i].bytes == 0) continue;
    if (device == 0) memcpy(to, items[i].t.data, (size_t)items[i].bytes);
    else
      status = s->devices[device]->interface->copy_within(s->devices[device], to, items[i].t.data, items[i].bytes, NULL,
                                                          s->diagnosis);
    to += items[i].bytes;
  }
  s->device_busy |= device != 0;
  made.kind = REF_STORED;
  ref_assign(&s->objects, target, &made);
  ref_clear(&s->objects, &made);
  return status;
}
