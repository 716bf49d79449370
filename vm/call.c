/* Calls of operators: shape functions, preparing kernels, launching them. Kernels themselves are in the devices; calls
 * planned as part of an epoch: epoch/plan.c. */
#include "vm/call.h"
#include "base/fetch.h"
#include "base/team.h"
#include "ops/bound.h"
#include "ops/cost.h"
#include "shapefuncs/shapefn.h"
#include "vm/append.h"
#include "vm/bound.h"
#include "vm/epoch/twin.h"
#include "vm/memory.h"

#include <string.h>

/* The site's call; without its operands. */
static op_call call_of(const reed_program *program, uint32_t site, uint32_t n_inputs, uint32_t n_outputs,
                       reed_diagnosis *diagnosis) {
  const program_site *known = &program->sites[site];
  return (op_call){.op = known->op,
                   .attrs = &known->attrs,
                   .node = known->node,
                   .n_inputs = (int32_t)n_inputs,
                   .n_outputs = (int32_t)n_outputs,
                   .diagnosis = diagnosis,
                   .values_checked = known->values_fit,
                   .facts = known->facts};
}

static op_call_input input_of(const vm_run *run, const ref *r) {
  const void *data = r->constant ? run->program->module->constants[r->constant - 1].data : r->t.data;
  return (op_call_input){.desc = &r->t.desc, .data = data, .constant = r->constant != 0};
}

/* Marks the axis of the outputs that has a count (bound_outputs). With a bound of 1 the shape function is
 * called again for a count of 2, because the bound of 1 could stand on any axis of extent 1. */
static reed_status shape_at_bound(vm_run *run, uint32_t site, const uint32_t *inputs, op_call *call,
                                  op_call_input *given, reed_shape_output *outputs, bound_count *out_count) {
  reed_desc descs[REED_MAX_OPERANDS];
  reed_shape_output at_two = outputs[0];
  bool of_one = false;
  for (int32_t i = 0; i < call->n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    const ref *r = number == MODULE_ABSENT ? NULL : reg_r(run, number);
    if (!r || !bound_is_counted(r) || r->t.desc.dims[r->bounded_axis] != 1) continue;
    descs[i] = *given[i].desc;
    descs[i].dims[r->bounded_axis] = 2;
    given[i].desc = &descs[i];
    of_one = true;
  }
  if (of_one) {
    reed_shape_output all[REED_MAX_OPERANDS];
    reed_status status = shapefn_call(call, all);
    if (status != REED_OK) return status;
    at_two = all[0];
  }
  return bound_outputs(run, site, inputs, call, &at_two, outputs, out_count);
}

reed_status call_shape(vm_run *run, uint32_t site, const uint32_t *inputs, uint32_t n_inputs,
                       reed_shape_output *outputs, uint32_t n_outputs, bound_count *out_count) {
  op_call call = call_of(run->program, site, n_inputs, n_outputs, run->diagnosis);
  op_call_input given[REED_MAX_OPERANDS];
  call.inputs = given;
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    given[i] = (op_call_input){0};
    if (number == MODULE_ABSENT) continue;
    const ref *r = reg_r(run, number);
    bool value = op_reads_value(call.op, call.attrs, (int32_t)i);
    bool shaped = r->kind == REF_SHAPED || r->kind == REF_PENDING;
    if (r->kind != REF_STORED && (!shaped || value))
      return at_site(run, site, not_a_tensor(run, r, "a tensor with known extents"));
    given[i] = input_of(run, r);
    if (value && r->t.device != 0)
      return at_site(run, site,
                     diag_fail(run->diagnosis, REED_ERROR_DEVICE,
                               "input %u is read by the shape function but lies on a device", i));
  }
  *out_count = (bound_count){.factor = 1};
  reed_status status = shapefn_call(&call, outputs);
  if (status == REED_OK && bound_first(run, inputs, n_inputs))
    status = shape_at_bound(run, site, inputs, &call, given, outputs, out_count);
  return at_site(run, site, status);
}

enum {
  FETCHED_AHEAD = 2, /* `shape`s behind the one in hand */
  LOOKED_AT = 6      /* instructions behind it, at most */
};

void call_fetch(const vm_run *run, uint32_t site) {
  const program_site *known = &run->program->sites[site];
  fetch_bytes(known->read, known->n_read);
  if (known->facts) fetch_line(&run->program->facts.of[known->attrs.items - run->program->facts.items]);
}

/* Fetches the attributes and the output of the calls that come next into the CPU's caches. After a run of the model
 * they lie far away, and a shape function that waits for each of its attributes takes twice as long. */
static void fetch_next_shapes(const vm_run *run, const uint32_t *w) {
  uint32_t n = 0;
  for (int k = 0; k < LOOKED_AT && n < FETCHED_AHEAD; k++) {
    w = insn_next(w);
    const insn_id id = insn_id_at(w);
    if (id == INSN_EPOCH_PLAN) return;
    if (id != INSN_SHAPE) continue;
    const insn_shape i = insn_shape_at(w);
    if (++n < FETCHED_AHEAD) continue;
    call_fetch(run, i.site);
    if (i.n_outputs && i.outputs[0] != MODULE_ABSENT) fetch_bytes(reg_r(run, i.outputs[0]), sizeof(ref));
  }
}

reed_status exec_shape(reed_session *s, const uint32_t *w) {
  const insn_shape i = insn_shape_at(w);
  if (s->epoch.in_shape_section) fetch_next_shapes(&s->run, w);
  /* Counts that follow from others are compared with each other, so each such call is made. */
  const bool follows = bound_follows(s->run.program->site_ops[i.site]) && bound_first(&s->run, i.inputs, i.n_inputs);
  if (s->epoch.in_shape_section && !follows) {
    bool repeated = false;
    reed_status status = active_repeat_shape(&s->epoch, &i, &repeated);
    if (status == REED_OK && !repeated) status = at_site(&s->run, i.site, twin_repeat_shape(s, w, &repeated));
    if (status != REED_OK || repeated) return status;
  }
  profile_event *event = profile_note(&s->run.profile, PROFILE_SHAPE_FUNCTION, i.site, 0);
  if (event) event->span.begin_ns = clock_now_ns();
  reed_shape_output outputs[REED_MAX_OPERANDS];
  bound_count count;
  reed_status status = call_shape(&s->run, i.site, i.inputs, i.n_inputs, outputs, i.n_outputs, &count);
  if (status == REED_OK && count.follows && s->epoch.in_shape_section)
    status = at_site(&s->run, i.site, active_find_report(&s->epoch, w, outputs[0].bounded_axis, &count.counter));
  if (status != REED_OK) return status;
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    reed_desc desc = shapefn_desc(&outputs[k]);
    ref *r = reg_r(&s->run, i.outputs[k]);
    if (!ref_set_shaped(&s->run.objects, r, &desc, s->devices.bind[i.device], outputs[k].bounded_axis))
      return at_site(&s->run, i.site,
                     diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "output %u is larger than any memory", k));
    r->shaped_by = i.site + 1;
    r->shaped_as = (uint16_t)k;
    if (r->bounded_axis >= 0) {
      const reed_op *op = s->run.program->site_ops[i.site];
      const bool given = !reed_op_output_at(op, (int32_t)k)->bounded;
      r->counter = given && count.counter ? count.counter : i.outputs[bound_reporter(op, i.outputs, k)] + 1;
      r->factor = given ? count.factor : 1;
    }
    if (s->epoch.in_shape_section && (status = active_note_write(&s->epoch, i.outputs[k], s->run.diagnosis)) != REED_OK)
      return status;
  }
  if (s->epoch.in_shape_section) twin_note_shape(s, w);
  if (s->epoch.entry) s->epoch.entry->n_shape_functions++;
  if (event) event->span.end_ns = clock_now_ns();
  return REED_OK;
}

/* The call with its operands' extents. */
static op_call described(const vm_run *run, const insn_invoke *i, op_call_input *in, reed_desc *out) {
  op_call call = call_of(run->program, i->site, i->n_inputs, i->n_outputs, run->diagnosis);
  for (uint32_t k = 0; k < i->n_inputs; k++)
    in[k] = i->inputs[k] == MODULE_ABSENT ? (op_call_input){0} : input_of(run, reg_r(run, i->inputs[k]));
  for (uint32_t k = 0; k < i->n_outputs; k++)
    out[k] = i->outputs[k] == MODULE_ABSENT ? (reed_desc){.dtype = REED_NONE} : reg_r(run, i->outputs[k])->t.desc;
  call.inputs = in;
  call.outputs = out;
  return call;
}

bool call_form(const vm_run *run, site_kernels *kernels, int32_t device, const insn_invoke *i, site_call *out_call) {
  op_call_input in[REED_MAX_OPERANDS];
  reed_desc out[REED_MAX_OPERANDS];
  const op_call call = described(run, i, in, out);
  return site_form(kernels, &call, i->site, device, out_call);
}

reed_status call_prepare(vm_run *run, vm_devices *devices, site_kernels *kernels, int32_t device, const insn_invoke *i,
                         const site_call *formed, site_kernel **out_kernel, bool *out_made) {
  *out_made = false;
  if (formed && (*out_kernel = site_find(kernels, formed, i->site))) return REED_OK;
  op_call_input in[REED_MAX_OPERANDS];
  reed_desc out[REED_MAX_OPERANDS];
  reed_room in_rooms[REED_MAX_OPERANDS], out_rooms[REED_MAX_OPERANDS];
  int64_t begin = run->profile.spans ? clock_now_ns() : 0;
  op_call call = described(run, i, in, out);
  if (bound_rooms(run, i, in_rooms, out_rooms)) {
    call.input_rooms = in_rooms;
    call.output_rooms = out_rooms;
  }
  const vm_device *on = &devices->items[device];
  call.env = &devices->env;
  call.prepare = on->on->kernel(on->device, call.op);
  call.device = on->device->name;
  call.reads_counts = on->on->reads_counts;
  /* With dtypes in the module, opening the session has checked them against the device's list; but not for counts. */
  if (device != 0 && (call.input_rooms || !run->program->module->sites[i->site].dtypes)) call.target = on->target;
  *out_made = formed != NULL;
  reed_status status = formed ? site_make(kernels, &call, formed, i->site, out_kernel)
                              : site_prepare(kernels, &call, i->site, device, out_kernel, out_made);
  status = at_site(run, i->site, status);
  profile_event *event = *out_made ? profile_note(&run->profile, PROFILE_PREPARE, i->site, (int8_t)device) : NULL;
  if (event) event->span = (device_span){begin, clock_now_ns()};
  return status;
}

reed_status call_prepare_words(const reed_program *program, vm_devices *devices, uint32_t site, const int64_t *words,
                               reed_kernel *out_kernel) {
  op_call_input in[REED_MAX_OPERANDS];
  reed_desc descs[REED_MAX_OPERANDS], out[REED_MAX_OPERANDS];
  const vm_device *host = &devices->items[0];
  op_call call = call_of(program, site, 0, 0, NULL);
  site_describe(words, &call, in, descs, out);
  call.env = &devices->env;
  call.prepare = host->on->kernel(host->device, call.op);
  call.device = host->device->name;
  call.reads_counts = host->on->reads_counts;
  return op_call_prepare(&call, out_kernel);
}

/* Collects the operands' memory. An input's pointer is NULL if the input is absent or the operator reads only its
 * extents. */
static reed_status gather_pointers(vm_run *run, const insn_invoke *i, const void **in, void **out) {
  const ref *base = &run->r.items[frame_top(run)->r_base];
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    in[k] = NULL;
    if (i->inputs[k] == MODULE_ABSENT) continue;
    const ref *r = &base[i->inputs[k]];
    if (r->kind == REF_SHAPED && op_has(run->program->site_ops[i->site], REED_OP_EXTENTS_ONLY)) continue;
    if (r->kind != REF_STORED && r->kind != REF_PENDING) return not_a_tensor(run, r, "a stored tensor");
    in[k] = r->t.data;
  }
  for (uint32_t k = 0; k < i->n_outputs; k++)
    out[k] = i->outputs[k] == MODULE_ABSENT ? NULL : base[i->outputs[k]].t.data;
  return REED_OK;
}

/* Lets the launch wait for the graph of its stretch. */
static reed_status wait_for_graph(reed_session *s, const insn_invoke *i, vm_device *on, const reed_kernel *kernel,
                                  const reed_kernel_buffers *buffers, uint32_t number) {
  const ref *base = &s->run.r.items[frame_top(&s->run)->r_base];
  storage *held[4 * REED_MAX_OPERANDS];
  int32_t n = 0;
  for (uint32_t k = 0; k < i->n_inputs + i->n_outputs; k++) {
    uint32_t reg = k < i->n_inputs ? i->inputs[k] : i->outputs[k - i->n_inputs];
    if (reg == MODULE_ABSENT) continue;
    if (base[reg].t.storage) held[n++] = base[reg].t.storage;
    if (base[reg].extent_storage) held[n++] = base[reg].extent_storage;
  }
  return stretch_add(on, kernel, buffers, (int32_t)i->n_inputs, (int32_t)i->n_outputs, number, held, n,
                     s->run.diagnosis);
}

/* Runs a kernel of the host and notes its span and its chunks. */
static reed_status run_noted(const reed_kernel *kernel, const reed_kernel_buffers *buffers, profile_event *event) {
  team_measure measure;
  team_measure_begin(&measure);
  event->span.begin_ns = clock_now_ns();
  reed_status status = kernel->run(kernel->state, buffers);
  event->span.end_ns = clock_now_ns();
  event->alone_ns = event->span.end_ns - event->span.begin_ns - measure.jobs_ns;
  team_measure_end();
  event->n_chunks = measure.n_chunks;
  event->longest_ns = measure.longest_ns;
  return status;
}

/* Notes the arithmetic and the bytes of the kernel's call. */
static void note_cost(vm_run *run, const insn_invoke *i, profile_event *event) {
  op_call_input in[REED_MAX_OPERANDS];
  reed_desc out[REED_MAX_OPERANDS];
  const op_call call = described(run, i, in, out);
  const op_cost cost = op_cost_of(&call);
  event->what = cost.kind;
  event->operations = cost.operations;
  event->bytes = cost.bytes;
}

static reed_status launch(reed_session *s, const insn_invoke *i, int32_t device, const site_kernel *prepared,
                          const reed_kernel_buffers *buffers, profile_kind kind) {
  const reed_kernel *kernel = &prepared->kernel;
  s->run.profile.n_kernels += kind == PROFILE_KERNEL;
  if (kind == PROFILE_KERNEL && ++s->run.n_launched == s->run.cancel_at) claim_cancel(&s->claim);
  if (device == 0 && !s->run.profile.spans) return kernel->run(kernel->state, buffers); /* as the host's launch does */
  vm_device *on = &s->devices.items[device];
  const uint32_t number = site_launch_number(&s->kernels, i->site, prepared);
  if (device != 0 && s->devices.graphs.graphs && on->on->record)
    return wait_for_graph(s, i, on, kernel, buffers, number);
  profile_event *event = profile_note(&s->run.profile, kind, i->site, (int8_t)device);
  if (event) note_cost(&s->run, i, event);
  if (device == 0) {
    return event ? run_noted(kernel, buffers, event) : kernel->run(kernel->state, buffers);
  }
  reed_status status = device_before_launch(on, s->run.diagnosis);
  if (status != REED_OK) return status;
  return on->on->launch(on->compute, kernel, buffers, (int32_t)i->n_inputs, (int32_t)i->n_outputs, number,
                        event ? &event->span : NULL, s->run.diagnosis);
}

bool call_is_shaped(const vm_run *run, const insn_invoke *i) {
  bool shaped = true;
  for (uint32_t k = 0; shaped && k < i->n_outputs; k++)
    shaped = i->outputs[k] == MODULE_ABSENT || ref_is_shaped_by(reg_r(run, i->outputs[k]), i->site, k);
  return shaped;
}

/* Checks that the output registers have the extents that the site's shape function gives. In an epoch that keeps rule
 * V56, it is enough that a `shape` of the site wrote them last; otherwise the shape function is called again and its
 * extents compared. */
static reed_status check_shaped(reed_session *s, const insn_invoke *i) {
  epoch_entry *e = s->epoch.entry;
  bool trusted = e && s->run.program->module->epochs_shaped[e->epoch] && call_is_shaped(&s->run, i);
  reed_shape_output expected[REED_MAX_OPERANDS];
  bound_count count;
  if (!trusted) {
    reed_status status = call_shape(&s->run, i->site, i->inputs, i->n_inputs, expected, i->n_outputs, &count);
    if (status != REED_OK) return status;
    if (e) e->n_shape_functions++;
  }
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    ref *r = reg_r(&s->run, i->outputs[k]);
    bool same = trusted;
    if (!trusted && (r->kind == REF_SHAPED || r->kind == REF_STORED)) {
      reed_desc desc = shapefn_desc(&expected[k]);
      same = desc_equal(&desc, &r->t.desc);
    }
    if (!same || r->t.device != s->devices.bind[i->device])
      return at_site(
          &s->run, i->site,
          diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "the register of output %u does not fit this call", k));
    if (!trusted) r->bounded_axis = (int8_t)expected[k].bounded_axis;
    r->shaped_by = i->site + 1;
  }
  return REED_OK;
}

/* Gives the reference to the kernel of an invoke_now to the entry in whose shape section the kernel ran, or to its
 * site.
 */
static reed_status keep_kernel(reed_session *s, uint32_t site, site_kernel *kernel) {
  if (!s->epoch.in_shape_section) {
    site_keep(&s->kernels, site, kernel);
    return REED_OK;
  }
  if (VEC_PUSH(&s->epoch.entry->host_kernels, kernel)) return REED_OK;
  site_release(&s->kernels, kernel);
  return diag_no_memory(s->run.diagnosis, "host kernels of an epoch");
}

/* A kernel outside any epoch, or a host kernel of a shape section: checked, prepared and run on the spot. */
static reed_status invoke_now(reed_session *s, const insn_invoke *i) {
  int32_t device = s->devices.bind[i->device];
  reed_status status = check_shaped(s, i);
  if (status != REED_OK) return status;
  storage *extents = NULL, *workspace = NULL;
  site_kernel *prepared = NULL;
  reed_kernel kernel = {0};
  bool bounded = false, made = false;
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    ref *r = reg_r(&s->run, i->outputs[k]);
    if (r->kind == REF_SHAPED && (status = give_memory(s, r)) != REED_OK) return status;
    bounded |= r->bounded_axis >= 0;
  }
  status = call_prepare(&s->run, &s->devices, &s->kernels, device, i, NULL, &prepared, &made);
  if (status == REED_OK) kernel = prepared->kernel;
  if (status == REED_OK && bounded)
    status = pool_allocate(s->devices.items[device].memory, (int64_t)i->n_outputs * 8, &extents, s->run.diagnosis);
  if (status == REED_OK && kernel.workspace_bytes > 0)
    status = pool_allocate(s->devices.items[device].memory, kernel.workspace_bytes, &workspace, s->run.diagnosis);
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  if (status == REED_OK) status = gather_pointers(&s->run, i, in, out);
  if (status == REED_OK) {
    reed_kernel_buffers buffers = {
        in, out, workspace ? workspace->data : NULL, extents ? extents->data : NULL, s->run.diagnosis, &s->run.fault};
    status = launch(s, i, device, prepared, &buffers, s->epoch.in_shape_section ? PROFILE_HOST_KERNEL : PROFILE_KERNEL);
    if (status == REED_OK && device != 0) status = devices_await_results(&s->devices, &s->run);
  }
  if (status == REED_OK)
    for (uint32_t k = 0; k < i->n_outputs; k++) {
      if (i->outputs[k] == MODULE_ABSENT) continue;
      ref *r = reg_r(&s->run, i->outputs[k]);
      r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED;
      if (r->bounded_axis < 0) continue;
      storage_retain(extents);
      r->extent_storage = extents;
      r->extent = (int64_t *)extents->data + k;
    }
  if (s->epoch.in_shape_section && status == REED_OK)
    for (uint32_t k = 0; k < i->n_outputs; k++)
      if (i->outputs[k] != MODULE_ABSENT) active_note_elements(&s->epoch, i->outputs[k]);
  if (status == REED_OK) {
    status = at_site(&s->run, i->site, keep_kernel(s, i->site, prepared));
  } else {
    status = at_kernel(&s->run, i->site, prepared, status);
    site_release(&s->kernels, prepared);
  }
  storage_release(extents);
  storage_release(workspace);
  return status;
}

enum { FETCHED_STATE = 512 }; /* bytes */

/* Fetches the state of the kernel that runs next into the CPU's caches, which the kernels before it have filled with
 * tensors since it was prepared; of the kernel behind that one, the struct that tells where its state is. */
static void fetch_kernels(const epoch_entry *e, size_t next) {
  if (next < e->kernels.n && e->kernels.items[next].prepared)
    fetch_bytes(e->kernels.items[next].prepared->kernel.state, FETCHED_STATE);
  if (next + 1 < e->kernels.n) fetch_line(e->kernels.items[next + 1].prepared);
}

reed_status exec_invoke(reed_session *s, const uint32_t *w) {
  const insn_invoke i = insn_invoke_at(w);
  epoch_entry *e = s->epoch.entry;
  reed_status status = run_check_cancel(&s->run);
  if (status != REED_OK) return status;
  if (!e) return invoke_now(s, &i);
  if (s->epoch.in_shape_section) {
    bool repeated = false;
    if (s->run.program->site_ops[i.site]->impure) active_forget_twins(&s->epoch);
    else status = active_repeat_invoke(&s->epoch, &i, &repeated);
    if (status != REED_OK || repeated) return status;
    s->epoch.host_cursor++; /* the base's kernel of this call is not needed */
    return invoke_now(s, &i);
  }

  const epoch_kernel *kernel = &e->kernels.items[s->epoch.kernel_cursor++];
  fetch_kernels(e, s->epoch.kernel_cursor);
  int32_t device = s->devices.bind[i.device];
  const void *in[REED_MAX_OPERANDS];
  void *out[REED_MAX_OPERANDS];
  status = gather_pointers(&s->run, &i, in, out);
  if (status != REED_OK) return at_site(&s->run, i.site, status);
  reed_kernel_buffers buffers = {in, out, NULL, NULL, s->run.diagnosis, &s->run.fault};
  if (kernel->workspace_root >= 0)
    buffers.workspace = (char *)s->devices.items[device].arena->data + e->roots.items[kernel->workspace_root].offset;
  ref *base = &s->run.r.items[frame_top(&s->run)->r_base];
  if (kernel->extent_root >= 0)
    for (uint32_t k = 0; k < i.n_outputs && !buffers.extents; k++)
      if (i.outputs[k] != MODULE_ABSENT && base[i.outputs[k]].extent) buffers.extents = base[i.outputs[k]].extent - k;
  const int64_t *extents[REED_MAX_OPERANDS];
  if (kernel->counted) {
    for (uint32_t k = 0; k < i.n_inputs; k++) {
      const ref *r = i.inputs[k] == MODULE_ABSENT ? NULL : &base[i.inputs[k]];
      extents[k] = r && r->kind == REF_PENDING ? r->extent : NULL;
    }
    buffers.input_extents = extents;
  }
  status = append_save(s, device, &kernel->prepared->kernel, &buffers);
  if (status == REED_OK) status = launch(s, &i, device, kernel->prepared, &buffers, PROFILE_KERNEL);
  if (status != REED_OK) return at_kernel(&s->run, i.site, kernel->prepared, status);
  for (uint32_t k = 0; k < i.n_outputs; k++)
    if (i.outputs[k] != MODULE_ABSENT)
      base[i.outputs[k]].kind = base[i.outputs[k]].bounded_axis >= 0 ? REF_PENDING : REF_STORED;
  return REED_OK;
}
