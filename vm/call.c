/* Calls of operators: shape functions, preparing kernels, launching them. */
#include "vm/call.h"
#include "shapefuncs/shapefn.h"
#include "vm/memory.h"

#include <string.h>

reed_status call_shape(vm_run *run, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                       reed_shape_output *outputs, uint32_t n_outputs) {
  const module_site *c = &run->program->module->sites[site];
  const reed_op *op = run->program->site_ops[site];
  reed_shape_input given[REED_MAX_OPERANDS];
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) {
      given[i] = (reed_shape_input){.dtype = REED_NONE};
      continue;
    }
    const ref *r = reg_r(run, number);
    const reed_op_input *declared = reed_op_input_at(op, (int32_t)i);
    bool value = declared && (declared->reads & REED_READS_VALUE);
    if (r->kind != REF_STORED && !(r->kind == REF_SHAPED && !value))
      return at_site(run, site, not_a_tensor(run, r, "a tensor with known extents"));
    given[i] = (reed_shape_input){.dtype = r->t.desc.dtype, .rank = r->t.desc.rank, .dims = r->t.desc.dims};
    if (value) {
      if (r->t.device != 0)
        return at_site(run, site,
                       diag_fail(run->diagnosis, REED_ERROR_DEVICE,
                                 "input %u is read by the shape function but lies on a device", i));
      given[i].data = r->t.data ? r->t.data : "";
      given[i].n_values = desc_elements(&r->t.desc);
    }
  }
  for (uint32_t i = 0; i < n_outputs; i++) outputs[i] = (reed_shape_output){.bounded_axis = -1};
  return at_site(run, site,
                 shapefn_run(op, &c->attrs, string_of(run, c->node), (int32_t)n_inputs, given, (int32_t)n_outputs,
                             outputs, NULL, run->diagnosis));
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
  profile_event *event = profile_note(&s->run.profile, PROFILE_SHAPE_FUNCTION, site, 0);
  if (event) event->span.begin_ns = clock_now_ns();
  reed_shape_output outputs[REED_MAX_OPERANDS];
  reed_status status = call_shape(&s->run, site, in_items, n_inputs, outputs, n_outputs);
  if (status != REED_OK) return status;
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (out_regs[i] == MODULE_ABSENT) continue;
    reed_desc desc;
    output_desc(&outputs[i], &desc);
    ref *r = reg_r(&s->run, out_regs[i]);
    if (!ref_set_shaped(&s->run.objects, r, &desc, s->devices.bind[w[2]], outputs[i].bounded_axis))
      return at_site(&s->run, site,
                     diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "output %u is larger than any memory", i));
    r->site = site;
    if (s->epoch.in_shape_section && (status = active_note_write(&s->epoch, out_regs[i], s->run.diagnosis)) != REED_OK)
      return status;
  }
  if (s->epoch.entry) s->epoch.entry->n_shape_functions++;
  if (event) event->span.end_ns = clock_now_ns();
  return REED_OK;
}

reed_status call_prepare(vm_run *run, vm_devices *devices, uint32_t site, int32_t device, const uint32_t *outputs,
                         uint32_t n_outputs, const uint32_t *inputs, uint32_t n_inputs, reed_kernel *out_kernel) {
  const module *m = run->program->module;
  const module_site *c = &m->sites[site];
  const reed_op *op = run->program->site_ops[site];
  reed_desc in[REED_MAX_OPERANDS], out[REED_MAX_OPERANDS];
  const void *values[REED_MAX_OPERANDS];
  bool constant[REED_MAX_OPERANDS];
  profile_event *event = profile_note(&run->profile, PROFILE_PREPARE, site, (int8_t)device);
  if (event) event->span.begin_ns = clock_now_ns();
  for (uint32_t i = 0; i < n_inputs; i++) {
    values[i] = NULL;
    constant[i] = false;
    in[i] = (reed_desc){.dtype = REED_NONE};
    if (INSN_REGISTER(inputs[i]) == MODULE_ABSENT) continue;
    const ref *r = reg_r(run, INSN_REGISTER(inputs[i]));
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
    out[i] = outputs[i] == MODULE_ABSENT ? (reed_desc){.dtype = REED_NONE} : reg_r(run, outputs[i])->t.desc;
  reed_kernel_call call = {.op = op,
                           .attrs = &c->attrs,
                           .node = string_of(run, c->node),
                           .n_inputs = (int32_t)n_inputs,
                           .n_outputs = (int32_t)n_outputs,
                           .inputs = in,
                           .outputs = out,
                           .host_values = values,
                           .constant = constant,
                           .env = &devices->env,
                           .diagnosis = run->diagnosis};
  device_interface const *on = devices->items[device]->interface;
  reed_kernel_prepare_fn prepare = on->kernel(devices->items[device], op);
  if (!prepare)
    return at_site(run, site,
                   diag_fail(run->diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s': no kernel on device '%s'", op->name,
                             call.node, on->name));
  *out_kernel = (reed_kernel){0};
  reed_status status = kernel_is_nothing(&call, out_kernel) ? REED_OK : at_site(run, site, prepare(&call, out_kernel));
  if (event) event->span.end_ns = clock_now_ns();
  return status;
}

/* The operands' memory. Input pointers of absent operands are NULL, and of those whose extents are all that the
 * operator reads. */
static reed_status gather_pointers(vm_run *run, const reed_op *op, const uint32_t *outputs, uint32_t n_outputs,
                                   const uint32_t *inputs, uint32_t n_inputs, const void **in, void **out) {
  const ref *base = &run->r.items[frame_top(run)->r_base];
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    in[i] = NULL;
    if (number == MODULE_ABSENT) continue;
    if (base[number].kind == REF_SHAPED && op_reads_extents_only(op)) continue;
    if (base[number].kind != REF_STORED) return not_a_tensor(run, &base[number], "a stored tensor");
    in[i] = base[number].t.data;
  }
  for (uint32_t i = 0; i < n_outputs; i++) out[i] = outputs[i] == MODULE_ABSENT ? NULL : base[outputs[i]].t.data;
  return REED_OK;
}

static reed_status launch(reed_session *s, uint32_t site, int32_t device, const reed_kernel *kernel,
                          const reed_kernel_buffers *buffers, uint32_t n_inputs, uint32_t n_outputs,
                          profile_kind kind) {
  s->run.profile.n_kernels += kind == PROFILE_KERNEL;
  if (device == 0 && !s->run.profile.spans)
    return kernel->run(kernel->state, buffers); /* what the host's launch does */
  profile_event *event = profile_note(&s->run.profile, kind, site, (int8_t)device);
  s->devices.busy |= device != 0;
  return s->devices.items[device]->interface->launch(s->devices.items[device], kernel, buffers, (int32_t)n_inputs,
                                                     (int32_t)n_outputs, site, event ? &event->span : NULL,
                                                     s->run.diagnosis);
}

/* A kernel outside any epoch, or a host kernel of a shape section: checked, prepared, run and freed on the spot. */
static reed_status invoke_now(reed_session *s, uint32_t site, int32_t device, const uint32_t *outputs,
                              uint32_t n_outputs, const uint32_t *inputs, uint32_t n_inputs) {
  reed_shape_output expected[REED_MAX_OPERANDS];
  reed_status status = call_shape(&s->run, site, inputs, n_inputs, expected, n_outputs);
  if (status != REED_OK) return status;
  storage *extents = NULL, *workspace = NULL;
  reed_kernel kernel = {0};
  bool bounded = false;
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (outputs[i] == MODULE_ABSENT) continue;
    ref *r = reg_r(&s->run, outputs[i]);
    reed_desc desc;
    output_desc(&expected[i], &desc);
    if ((r->kind != REF_SHAPED && r->kind != REF_STORED) || !desc_equal(&desc, &r->t.desc) || r->t.device != device)
      return at_site(
          &s->run, site,
          diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "the register of output %u does not fit this call", i));
    r->bounded_axis = (int8_t)expected[i].bounded_axis;
    r->site = site;
    if (r->kind == REF_SHAPED && (status = give_memory(s, r)) != REED_OK) return status;
    bounded |= r->bounded_axis >= 0;
  }
  status = call_prepare(&s->run, &s->devices, site, device, outputs, n_outputs, inputs, n_inputs, &kernel);
  if (status == REED_OK && bounded)
    status = pool_allocate(s->devices.pools[device], (int64_t)n_outputs * 8, &extents, s->run.diagnosis);
  if (status == REED_OK && kernel.workspace_bytes > 0)
    status = pool_allocate(s->devices.pools[device], kernel.workspace_bytes, &workspace, s->run.diagnosis);
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  if (status == REED_OK)
    status = gather_pointers(&s->run, s->run.program->site_ops[site], outputs, n_outputs, inputs, n_inputs, in, out);
  if (status == REED_OK) {
    reed_kernel_buffers buffers = {
        in, out, workspace ? workspace->data : NULL, extents ? extents->data : NULL, s->run.diagnosis, &s->run.fault};
    status = launch(s, site, device, &kernel, &buffers, n_inputs, n_outputs,
                    s->epoch.in_shape_section ? PROFILE_HOST_KERNEL : PROFILE_KERNEL);
    if (status == REED_OK && device != 0) status = devices_synchronize(&s->devices, &s->run);
  }
  if (status == REED_OK)
    for (uint32_t i = 0; i < n_outputs; i++) {
      if (outputs[i] == MODULE_ABSENT) continue;
      ref *r = reg_r(&s->run, outputs[i]);
      r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED;
      if (r->bounded_axis < 0) continue;
      storage_retain(extents);
      r->extent_storage = extents;
      r->extent = (int64_t *)extents->data + i;
    }
  if (kernel.free) kernel.free(kernel.state);
  storage_release(extents);
  storage_release(workspace);
  return at_site(&s->run, site, status);
}

/* invoke SITE DEV RXS_KERNEL RUS_KERNEL */
reed_status exec_invoke(reed_session *s, const uint32_t *w) {
  uint32_t site = w[1], n_outputs = w[3], n_inputs = w[4 + n_outputs];
  const uint32_t *outputs = w + 4, *inputs = w + 5 + n_outputs;
  epoch_entry *e = s->epoch.entry;
  reed_status status = run_check_cancel(&s->run);
  if (status != REED_OK) return status;
  if (!e || s->epoch.in_shape_section)
    return invoke_now(s, site, s->devices.bind[w[2]], outputs, n_outputs, inputs, n_inputs);

  const epoch_kernel *k = &e->kernels.items[s->epoch.kernel_cursor++];
  int32_t device = s->devices.bind[w[2]];
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  status = gather_pointers(&s->run, s->run.program->site_ops[site], outputs, n_outputs, inputs, n_inputs, in, out);
  if (status != REED_OK) return at_site(&s->run, site, status);
  reed_kernel_buffers buffers = {in, out, NULL, NULL, s->run.diagnosis, &s->run.fault};
  if (k->workspace_root >= 0)
    buffers.workspace = (char *)s->devices.arenas[device]->data + e->roots.items[k->workspace_root].offset;
  ref *base = &s->run.r.items[frame_top(&s->run)->r_base];
  if (k->extent_root >= 0)
    for (uint32_t i = 0; i < n_outputs && !buffers.extents; i++)
      if (outputs[i] != MODULE_ABSENT && base[outputs[i]].extent) buffers.extents = base[outputs[i]].extent - i;
  status = launch(s, site, device, &k->kernel, &buffers, n_inputs, n_outputs, PROFILE_KERNEL);
  if (status != REED_OK) return at_site(&s->run, site, status);
  for (uint32_t i = 0; i < n_outputs; i++)
    if (outputs[i] != MODULE_ABSENT)
      base[outputs[i]].kind = base[outputs[i]].bounded_axis >= 0 ? REF_PENDING : REF_STORED;
  return REED_OK;
}
