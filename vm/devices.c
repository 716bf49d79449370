/* A session's devices: opening and closing, the order of each device's two queues, and waiting for all of them. The
 * instructions that copy: copy.c.
 *
 * Order. The two queues of a device run side by side. An event is recorded and waited for only if one queue has work
 * that the other must not overtake. Kernels wait for all copies enqueued before them. Copies wait for the kernels
 * before them at the border of an epoch, where memory changes hands; a copy from the host inside an epoch need not wait
 * again, because the plan keeps its target's memory unshared from the epoch's beginning on. */
#include "vm/devices.h"

#include "base/processors.h"
#include "loader/loader.h"
#include "vm/target.h"

#include <string.h>

enum {
  FREE_OUTPUTS = 32, /* blocks of outputs that are kept for later runs; on the host at least so many, */
  FREE_SIZES = 8 /* and so many for each output: a block serves a quarter of its size too, and sizes may be far apart */
};

/* ---- opening and closing ---- */

/* Opens queues, events, slots and constants of item d, whose device is set. */
static reed_status device_init(vm_devices *devices, vm_device *d, reed_program *program, reed_diagnosis *diagnosis) {
  d->on = d->device->interface;
  reed_status status = capability_open(d->on->target(d->device), program->registry, &d->target, diagnosis);
  if (status != REED_OK) return status;
  if ((status = d->on->queue_open(d->device, DEVICE_COMPUTE, &d->compute, diagnosis)) != REED_OK ||
      (status = d->on->queue_open(d->device, DEVICE_COPIES, &d->copies, diagnosis)) != REED_OK ||
      (status = d->on->event_open(d->device, &d->computed, diagnosis)) != REED_OK ||
      (status = d->on->event_open(d->device, &d->copied, diagnosis)) != REED_OK)
    return status;
  if (pool_open(d->device, NULL, POOL_PINNED, 0, devices->cap_bytes, &d->slots) != REED_OK)
    return diag_no_memory(diagnosis, "a pool");
  return constants_open(program, d->device, &d->constants, diagnosis);
}

/* Binds the module device to the device of that name, which other module devices may be bound to already. */
static reed_status bind_one(vm_devices *devices, int32_t module_device, const char *name, reed_program *program,
                            reed_diagnosis *diagnosis) {
  device *opened = NULL;
  if (strcmp(name, "host") == 0) return REED_OK; /* bind[] is 0: copies vanish */
  reed_status status = device_open(name, &opened, diagnosis);
  if (status != REED_OK) return status;
  int32_t i = 1;
  while (i < devices->n && devices->items[i].device != opened) i++;
  bool known = i < devices->n;
  if (known || module_device >= program->module->n_devices) {
    device_close(&opened);
  } else {
    devices->items[i].device = opened;
    devices->items[i].number = (int8_t)i;
    devices->items[i].graphs = &devices->graphs;
    devices->n++;
    status = device_init(devices, &devices->items[i], program, diagnosis);
  }
  if (module_device < program->module->n_devices) devices->bind[module_device] = i;
  return status;
}

/* Module devices 1, 2 .. are bound to the names in their order, those beyond the last name to the last one. */
static reed_status bind_all(vm_devices *devices, const char *names, reed_program *program, reed_diagnosis *diagnosis) {
  reed_status status = REED_OK;
  int32_t bound = 0;
  for (const char *at = names; at && status == REED_OK;) {
    size_t n = strcspn(at, ",");
    char *name = mem_alloc(n + 1);
    if (!name) return diag_no_memory(diagnosis, "a device's name");
    memcpy(name, at, n);
    name[n] = 0;
    at = at[n] ? at + n + 1 : NULL;
    do status = bind_one(devices, ++bound, name, program, diagnosis);
    while (!at && bound + 1 < program->module->n_devices && status == REED_OK);
    mem_free(name);
  }
  return status;
}

/* Checks every device's list of capabilities against the module's calls on that device. */
static reed_status check_targets(const vm_devices *devices, const reed_program *program, reed_diagnosis *diagnosis) {
  reed_status status = REED_OK;
  for (int32_t i = 1; i < program->module->n_devices && status == REED_OK; i++)
    if (devices->bind[i]) status = target_check(program, i, devices->items[devices->bind[i]].target, diagnosis);
  return status;
}

/* True if the extents of some input or output are known at run time only. */
static bool has_changing_extents(const module *m) {
  const module_function *main = &m->functions[0];
  for (uint32_t i = 0; i < main->n_r_params + main->n_r_results; i++) {
    const module_type *t = &m->types[i < main->n_r_params ? m->inputs[i] : m->outputs[i - main->n_r_params]];
    if (t->object || t->rank < 0) return true;
    for (int32_t axis = 0; axis < t->rank; axis++)
      if (t->dims[axis] < 0) return true;
  }
  return false;
}

/* Lets the system drop the mapped file's pages of a constant whose packed copy is in memory. */
static void forget_constant(const void *m, const void *data, int64_t bytes) { module_forget(m, data, bytes); }

/* Tells the device's pools and its store of outputs the headroom of their blocks. */
static void tell_headroom(const vm_devices *devices, vm_device *d) {
  const int64_t most = devices->is_exact ? 0 : devices->headroom;
  pool_set_headroom(d->memory, most, devices->env.cancel);
  if (d->slots) pool_set_headroom(d->slots, most, devices->env.cancel);
  output_store_set_headroom(d->outputs, devices->cap_bytes ? 0 : most, devices->env.cancel);
}

static void set_headroom(vm_devices *devices, int64_t most) {
  if (devices->headroom == most) return;
  devices->headroom = most;
  for (int32_t i = 0; i < devices->n; i++) tell_headroom(devices, &devices->items[i]);
}

static void drop_arena(vm_device *d) {
  storage_release(d->arena);
  d->arena = NULL;
}

static int32_t free_outputs(const reed_program *program) {
  const size_t n = reed_program_output_count(program) * FREE_SIZES;
  return n > FREE_OUTPUTS ? n < INT32_MAX ? (int32_t)n : INT32_MAX : FREE_OUTPUTS;
}

reed_status devices_open(vm_devices *devices, reed_program *program, const reed_session_options *options,
                         const int *cancel, reed_diagnosis *diagnosis) {
  const module *m = program->module;
  devices->env = (reed_kernel_env){.n_threads = options->n_threads ? options->n_threads : processors_count(),
                                   .cache = program->cache,
                                   .constant_packed = forget_constant,
                                   .context = m,
                                   .cancel = cancel,
                                   .overwritten = &devices->overwritten,
                                   .random = &devices->random};
  devices->random.seed = options->seed;
  devices->n = 1;
  devices->cap_bytes = options->memory_cap_bytes;
  vm_device *host = &devices->items[0];
  reed_status status = device_open("host", &host->device, diagnosis);
  if (status != REED_OK) return status;
  host->on = host->device->interface;
  device_memory memory;
  host->on->memory(host->device, &memory);
  devices->max_output_bytes = devices->cap_bytes   ? devices->cap_bytes
                              : memory.total_bytes ? memory.total_bytes
                                                   : INT64_MAX;
  status = bind_all(devices, options->device ? options->device : "host", program, diagnosis);
  if (status == REED_OK) status = check_targets(devices, program, diagnosis);
  if (status != REED_OK) return status;
  for (int32_t i = 0; i < devices->n; i++) {
    vm_device *d = &devices->items[i];
    if (pool_open(d->device, d->compute, POOL_DEVICE, i, devices->cap_bytes, &d->memory) != REED_OK)
      return diag_no_memory(diagnosis, "a pool");
  }
  devices->pinned_by = devices->n > 1 ? 1 : 0;
  device *pinned = devices->pinned_by ? devices->items[1].device : NULL;
  status =
      output_store_open(pinned ? OUTPUT_PINNED : OUTPUT_HEAP, pinned, NULL, 0, free_outputs(program), &host->outputs);
  for (int32_t i = 1; i < devices->n && status == REED_OK; i++) {
    vm_device *d = &devices->items[i];
    status = output_store_open(OUTPUT_DEVICE, d->device, d->compute, i, FREE_OUTPUTS, &d->outputs);
  }
  if (status != REED_OK) return diag_no_memory(diagnosis, "a session's output stores");
  if (has_changing_extents(m)) set_headroom(devices, POOL_HEADROOM_FIRST);
  return REED_OK;
}

void devices_meet_sizes(vm_devices *devices) {
  if (devices->headroom) set_headroom(devices, INT64_MAX);
}

static void device_fini(vm_device *d) {
  if (d->on) stretch_fini(d);
  drop_arena(d);
  output_store_close(&d->outputs);
  if (d->slots) pool_close(&d->slots);
  if (d->memory) pool_close(&d->memory);
  constants_close(&d->constants);
  if (d->compute) d->on->queue_close(d->compute);
  if (d->copies) d->on->queue_close(d->copies);
  if (d->computed) d->on->event_close(d->device, d->computed);
  if (d->copied) d->on->event_close(d->device, d->copied);
  VEC_FREE(&d->held);
  capability_close(&d->target);
  device_close(&d->device);
}

void devices_close(vm_devices *devices) {
  if (devices->begun) {
    const vm_device *d = &devices->items[devices->stream_on];
    d->on->event_close(d->device, devices->begun);
    devices->begun = NULL;
  }
  for (int32_t i = 0; i < MODULE_MAX_DEVICES; i++) device_fini(&devices->items[i]);
  overwritten_fini(&devices->overwritten);
}

/* ---- waiting ---- */

bool devices_busy(const vm_devices *devices) {
  bool busy = false;
  for (int32_t i = 1; i < devices->n; i++) busy |= devices->items[i].busy;
  return busy;
}

static reed_status queue_synchronize(const vm_device *d, device_queue *queue, vm_run *run, reed_status before) {
  device_error error = {.launch = DEVICE_NO_LAUNCH};
  reed_status status = d->on->synchronize(queue, &error, before == REED_OK ? run->diagnosis : NULL);
  if (before != REED_OK || status == REED_OK) return before;
  run->fault = error.fault;
  return error.launch != DEVICE_NO_LAUNCH ? at_launch(run, error.launch, status) : status;
}

reed_status devices_synchronize(vm_devices *devices, vm_run *run) {
  reed_status status = REED_OK;
  for (int32_t i = 1; i < devices->n; i++) {
    vm_device *d = &devices->items[i];
    status = queue_synchronize(d, d->compute, run, status);
    status = queue_synchronize(d, d->copies, run, status);
    for (size_t k = 0; k < d->held.n; k++) storage_release(d->held.items[k]);
    d->held.n = 0;
    stretch_drop_replaced(d);
    d->busy = d->has_launches = d->has_copies = false;
  }
  devices->items[0].arena_is_read = false;
  return status;
}

reed_status devices_await_results(vm_devices *devices, vm_run *run) {
  reed_status status = devices_synchronize(devices, run);
  return status == REED_OK && devices->n > 1 ? run_check_cancel(run) : status;
}

/* ---- graphs ---- */

void devices_begin_graphs(vm_devices *devices, graph_list *graphs) {
  devices->graphs.graphs = devices->graphs.on ? graphs : NULL;
  devices->graphs.next = 0;
}

reed_status devices_end_graphs(vm_devices *devices) {
  reed_status status = REED_OK;
  for (int32_t i = 1; i < devices->n && status == REED_OK; i++) status = stretch_end(&devices->items[i]);
  devices->graphs.graphs = NULL;
  return status;
}

void devices_forget_graphs(vm_devices *devices) {
  for (int32_t i = 1; i < devices->n; i++) stretch_forget(&devices->items[i]);
  devices->graphs.graphs = NULL;
}

/* ---- work in order ---- */

reed_status device_before_launch(vm_device *d, reed_diagnosis *diagnosis) {
  reed_status status = stretch_end(d);
  return status == REED_OK ? device_order_launches(d, diagnosis) : status;
}

reed_status device_order_launches(vm_device *d, reed_diagnosis *diagnosis) {
  d->busy = d->has_launches = true;
  if (!d->has_copies) return REED_OK;
  d->has_copies = false;
  reed_status status = d->on->event_record(d->copies, d->copied, diagnosis);
  return status == REED_OK ? d->on->event_wait(d->compute, d->copied, diagnosis) : status;
}

static reed_status before_copy(vm_device *d, bool in_plan, reed_diagnosis *diagnosis) {
  reed_status status = in_plan ? REED_OK : stretch_end(d);
  if (status != REED_OK) return status;
  d->busy = d->has_copies = true;
  if (!d->at_border && (in_plan || !d->has_launches)) return REED_OK;
  d->at_border = d->has_launches = false;
  status = d->on->event_record(d->compute, d->computed, diagnosis);
  return status == REED_OK ? d->on->event_wait(d->copies, d->computed, diagnosis) : status;
}

/* Keeps a reference until the next synchronisation; NULL is allowed. */
static reed_status hold(vm_device *d, storage *s, reed_diagnosis *diagnosis) {
  if (s && !VEC_PUSH(&d->held, s)) return diag_no_memory(diagnosis, "list of copies");
  storage_retain(s);
  return REED_OK;
}

reed_status device_copy_in(vm_device *d, const tensor *target, const void *source, int64_t bytes, const copy_slot *slot,
                           bool in_plan, device_span *span, reed_diagnosis *diagnosis) {
  storage *own = NULL;
  reed_status status = slot ? REED_OK : pool_allocate(d->slots, bytes, &own, diagnosis);
  if (status == REED_OK) status = hold(d, slot ? slot->owner : own, diagnosis);
  storage_release(own);
  if (status == REED_OK) status = hold(d, target->storage, diagnosis);
  if (status != REED_OK) return status;
  void *data = slot ? slot->data : own->data;
  if (bytes && data != source) memcpy(data, source, (size_t)bytes);
  status = before_copy(d, in_plan, diagnosis);
  return status == REED_OK ? d->on->copy_in(d->copies, target->data, data, bytes, span, diagnosis) : status;
}

reed_status device_copy_out(vm_device *d, storage *target, storage *source_storage, const void *source, int64_t bytes,
                            device_span *span, reed_diagnosis *diagnosis) {
  reed_status status = hold(d, target, diagnosis);
  if (status == REED_OK) status = hold(d, source_storage, diagnosis);
  if (status == REED_OK) status = before_copy(d, false, diagnosis);
  return status == REED_OK ? d->on->copy_out(d->copies, target->data, source, bytes, span, diagnosis) : status;
}

/* A slot with the bytes in it; one reference. */
static reed_status fetch(vm_device *from, vm_run *run, const tensor *source, int64_t bytes, device_span *span,
                         storage **out_slot) {
  reed_status status = pool_allocate(from->slots, bytes, out_slot, run->diagnosis);
  if (status == REED_OK)
    status = device_copy_out(from, *out_slot, source->storage, source->data, bytes, span, run->diagnosis);
  if (status == REED_OK) status = queue_synchronize(from, from->copies, run, REED_OK);
  return status == REED_OK ? run_check_cancel(run) : status;
}

reed_status device_fetch(vm_device *from, vm_run *run, void *target, const tensor *source, int64_t bytes,
                         device_span *span) {
  storage *slot = NULL;
  reed_status status = fetch(from, run, source, bytes, span, &slot);
  if (status == REED_OK && bytes) memcpy(target, slot->data, (size_t)bytes);
  storage_release(slot);
  return status;
}

reed_status device_copy_across(vm_device *from, vm_device *to, vm_run *run, const tensor *target, const tensor *source,
                               int64_t bytes, bool in_plan, device_span *span) {
  storage *slot = NULL;
  reed_status status = fetch(from, run, source, bytes, NULL, &slot);
  if (status == REED_OK) status = device_copy_in(to, target, slot->data, bytes, NULL, in_plan, span, run->diagnosis);
  storage_release(slot);
  return status;
}

void devices_trim_outputs(vm_devices *devices) {
  for (int32_t i = 1; i < devices->n; i++)
    if (devices->items[i].outputs) output_store_trim(devices->items[i].outputs, FREE_OUTPUTS);
}

void devices_give_back(vm_devices *devices, bool is_exact) {
  devices->is_exact = is_exact;
  for (int32_t i = 0; i < devices->n; i++) drop_arena(&devices->items[i]); /* may lie in another device's pool */
  for (int32_t i = 0; i < devices->n; i++) {
    vm_device *d = &devices->items[i];
    tell_headroom(devices, d);
    output_store_trim(d->outputs, 0);
    pool_trim(d->memory, 0);
    if (d->slots) pool_trim(d->slots, 0);
  }
}

pool *devices_arena_pool(vm_devices *devices, int32_t device) {
  return device == 0 && devices->pinned_by ? devices->items[devices->pinned_by].slots : devices->items[device].memory;
}

/* The end of a window of runs. The host's arena, which stays for the next run, may be a part of a chunk that is given
 * back. Returns freed bytes of the heap, as output_store_end_window. */
static int64_t end_window(vm_devices *devices, int32_t i) {
  vm_device *d = &devices->items[i];
  pool *arenas = devices_arena_pool(devices, i);
  const bool is_in_the_way = i == 0 && pool_has_excess(arenas);
  if (is_in_the_way || (d->arena && pool_capacity(d->arena) / 2 > d->arena_bytes)) {
    drop_arena(d);
    (is_in_the_way ? pool_trim_excess : pool_forget_peak)(arenas);
  }
  d->arena_bytes = 0;
  return output_store_end_window(d->outputs);
}

bool devices_end_run(vm_devices *devices, int64_t *out_heap_bytes) {
  bool ended = false;
  *out_heap_bytes = 0;
  for (int32_t i = 0; i < devices->n; i++) {
    if (devices->items[i].slots) (void)pool_end_run(devices->items[i].slots);
    if (!pool_end_run(devices->items[i].memory)) continue;
    *out_heap_bytes += end_window(devices, i);
    ended = true;
  }
  return ended;
}

/* The bytes that count towards a device's cap and are not its pool's. */
static int64_t beside_pool(const vm_devices *devices, int32_t device) {
  int64_t outputs = output_store_figures(devices->items[device].outputs).held_bytes;
  return device == 0 ? outputs + devices->object_bytes : outputs;
}

void devices_note_outputs(vm_devices *devices) {
  for (int32_t i = 0; devices->cap_bytes && i < devices->n; i++)
    pool_set_beside(devices->items[i].memory, beside_pool(devices, i));
}

/* Makes room for `bytes` beside the device's pool, under the cap that both share. False: the cap is too small. */
static bool fits_beside(const vm_devices *devices, int32_t device, int64_t bytes) {
  const vm_device *d = &devices->items[device];
  pool_figures held;
  pool_read_figures(d->memory, &held);
  if (bytes <= devices->cap_bytes - held.reserved_bytes - beside_pool(devices, device)) return true;
  output_store_trim(d->outputs, 0);
  int64_t rest = devices->cap_bytes - beside_pool(devices, device) - bytes;
  pool_trim(d->memory, rest > 0 ? rest : 0);
  pool_read_figures(d->memory, &held);
  return held.reserved_bytes <= rest;
}

static reed_status over_cap(const vm_devices *devices, int32_t device, int64_t bytes, const char *purpose,
                            reed_diagnosis *diagnosis) {
  const vm_device *d = &devices->items[device];
  pool_figures held;
  pool_read_figures(d->memory, &held);
  return diag_fail(diagnosis, REED_ERROR_MEMORY,
                   "out of memory on device '%s': %lld bytes asked for %s; outputs have %lld, sequences and objects "
                   "%lld, the session's tensors %lld live, %lld reserved, cap %lld",
                   d->device->name, (long long)bytes, purpose, (long long)output_store_figures(d->outputs).held_bytes,
                   (long long)(device == 0 ? devices->object_bytes : 0), (long long)held.live_bytes,
                   (long long)held.reserved_bytes, (long long)devices->cap_bytes);
}

void devices_tell_holders(const vm_devices *devices, reed_diagnosis *diagnosis) {
  for (int32_t i = 1; i < devices->n; i++) {
    const vm_device *d = &devices->items[i];
    pool_figures held;
    pool_read_figures(d->memory, &held);
    diag_add(diagnosis,
             "; on '%s' the session's tensors hold %lld bytes, its outputs %lld, the program's constants %lld",
             d->device->name, (long long)held.reserved_bytes, (long long)output_store_figures(d->outputs).held_bytes,
             (long long)constants_bytes(d->constants));
  }
}

static reed_status outputs_fit(const vm_devices *devices, int32_t device, int64_t bytes, reed_diagnosis *diagnosis) {
  if (!devices->cap_bytes || fits_beside(devices, device, bytes)) return REED_OK;
  return over_cap(devices, device, bytes, "an output", diagnosis);
}

reed_status devices_count_objects(vm_devices *devices, int64_t bytes, reed_diagnosis *diagnosis) {
  int64_t more = bytes - devices->object_bytes;
  devices->object_bytes = bytes;
  if (more == 0 || !devices->cap_bytes) return REED_OK;
  bool fits = more < 0 || fits_beside(devices, 0, 0);
  pool_set_beside(devices->items[0].memory, beside_pool(devices, 0));
  return fits ? REED_OK : over_cap(devices, 0, more, "sequences and objects", diagnosis);
}

reed_status devices_open_output(vm_devices *devices, int32_t device, const reed_desc *desc, reed_tensor **out_tensor,
                                reed_diagnosis *diagnosis) {
  vm_device *d = &devices->items[device];
  reed_status status = outputs_fit(devices, device, desc_bytes(desc), diagnosis);
  if (status == REED_OK) status = output_open(d->outputs, desc, out_tensor, diagnosis);
  d->at_border = true;
  devices_note_outputs(devices);
  return status;
}

reed_status devices_allocate(vm_devices *devices, int32_t device, storage_request r, storage **out_storage,
                             reed_diagnosis *diagnosis) {
  const vm_device *d = &devices->items[device];
  bool given = r.returned && (device == 0 ? r.bytes <= devices->max_output_bytes : devices->keeps_outputs);
  const pool_use use = r.cold ? POOL_BOUND : POOL_TENSOR;
  if (!given) return pool_allocate_for(d->memory, use, r.bytes, out_storage, diagnosis);
  reed_status status = outputs_fit(devices, device, r.bytes, diagnosis);
  if (status == REED_OK) status = output_allocate(d->outputs, r.bytes, r.most, r.cold, out_storage, diagnosis);
  devices_note_outputs(devices);
  return status;
}
