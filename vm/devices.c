/* Opening and closing a session's devices, and what waits for all of them. */
#include "vm/devices.h"

#include "loader/loader.h"

#include <omp.h>
#include <string.h>

static reed_status open_accelerator(vm_devices *devices, const reed_program *program,
                                    const reed_session_options *options, reed_diagnosis *diagnosis) {
  const char *name = options->device ? options->device : "host";
  if (strcmp(name, "host") == 0 || program->module->n_devices < 2) {
    if (strcmp(name, "host") != 0 && strcmp(name, "sim") != 0) goto unknown;
    return REED_OK; /* module device 1, if there is one, is the host itself: its copies vanish */
  }
  if (strcmp(name, "sim") == 0) {
    device_sim_faults faults = {options->sim_fail_allocation, options->sim_fail_copy, options->sim_fail_launch};
    reed_status status = device_open_sim(devices->env.n_threads, &faults, &devices->items[1], diagnosis);
    if (status != REED_OK) return status;
    devices->n = 2;
    devices->bind[1] = 1;
    return REED_OK;
  }
unknown:
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "there is no device '%s' in this build; known: host, sim", name);
}

/* A packed constant is in memory twice: of the mapped file's copy only what else reads it needs to stay. */
static void forget_constant(const void *m, const void *data, int64_t bytes) { module_forget(m, data, bytes); }

reed_status devices_open(vm_devices *devices, const reed_program *program, const reed_session_options *options,
                         const int *cancel, reed_diagnosis *diagnosis) {
  const module *m = program->module;
  devices->env = (reed_kernel_env){.n_threads = options->n_threads ? options->n_threads : omp_get_num_procs(),
                                   .cache = program->cache,
                                   .constant_packed = forget_constant,
                                   .context = m,
                                   .cancel = cancel};
  devices->n = 1;
  reed_status status = device_open_host(&devices->items[0], diagnosis);
  if (status != REED_OK) return status;
  device_memory memory;
  devices->items[0]->interface->memory(devices->items[0], &memory);
  devices->max_output_bytes = options->memory_cap_bytes ? options->memory_cap_bytes
                              : memory.total_bytes      ? memory.total_bytes
                                                        : INT64_MAX;
  if ((status = open_accelerator(devices, program, options, diagnosis)) != REED_OK) return status;
  for (int32_t d = 0; d < devices->n; d++)
    if (pool_open(devices->items[d], d, options->memory_cap_bytes, &devices->pools[d]) != REED_OK)
      return diag_no_memory(diagnosis, "a pool");
  if (output_store_open(&devices->outputs) != REED_OK) return diag_no_memory(diagnosis, "a session's output store");
  devices->n_constants = m->n_constants;
  if (devices->n > 1 && !(devices->constants = mem_calloc(m->n_constants, sizeof *devices->constants)))
    return diag_no_memory(diagnosis, "a session's constants");
  return REED_OK;
}

void devices_forget_constants(vm_devices *devices) {
  for (size_t i = 0; devices->constants && i < devices->n_constants; i++) {
    storage_release(devices->constants[i]);
    devices->constants[i] = NULL;
  }
}

void devices_close(vm_devices *devices) {
  devices_forget_constants(devices);
  mem_free(devices->constants);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++) storage_release(devices->arenas[d]);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++)
    if (devices->pools[d]) pool_close(&devices->pools[d]);
  for (int32_t d = 0; d < VM_MAX_DEVICES; d++) device_close(&devices->items[d]);
  output_store_close(&devices->outputs);
}

reed_status devices_synchronize(vm_devices *devices, vm_run *run) {
  reed_status status = REED_OK;
  for (int32_t i = 1; i < devices->n; i++) {
    device *d = devices->items[i];
    device_error error = {0};
    reed_status one = d->interface->synchronize(d, &error, status == REED_OK ? run->diagnosis : NULL);
    if (status != REED_OK || one == REED_OK) continue;
    run->fault = error.fault;
    status = error.fault.code ? at_site(run, error.launch, one) : one;
  }
  devices->busy = false;
  return status;
}

reed_status devices_allocate(vm_devices *devices, int32_t device, int64_t bytes, bool returned, storage **out_storage,
                             reed_diagnosis *diagnosis) {
  if (!returned || device != 0 || bytes > devices->max_output_bytes)
    return pool_allocate(devices->pools[device], bytes, out_storage, diagnosis);
  reed_status status = output_allocate(devices->outputs, bytes, out_storage);
  return status == REED_OK ? status : diag_no_memory(diagnosis, "an output tensor");
}
