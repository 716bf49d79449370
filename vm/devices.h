/* The devices of a session: bound module devices, their pools and arenas, the store of outputs, constants on an
 * accelerator. What runs on them and when is not decided here. */
#ifndef VM_DEVICES_H_
#define VM_DEVICES_H_

#include "allocator/pool.h"
#include "device/device.h"
#include "ops/kernel.h"
#include "reed/reed.h"
#include "vm/run.h"
#include "vm/tensor.h"

#define VM_MAX_DEVICES 2 /* module devices: the host and one accelerator */

typedef struct vm_devices {
  device *items[VM_MAX_DEVICES];
  pool *pools[VM_MAX_DEVICES];
  storage *arenas[VM_MAX_DEVICES];
  int32_t n;                    /* physical ones: 1 when module device 1 is bound to the host */
  int32_t bind[VM_MAX_DEVICES]; /* module device -> physical device */
  storage **constants;          /* per constant on physical device 1, made on first use; NULL without one */
  size_t n_constants;
  output_store *outputs;
  int64_t max_output_bytes; /* larger ones are left to the pool, which says why they can not be */
  reed_kernel_env env;      /* of kernels while they are prepared */
  bool busy;                /* work enqueued since the last synchronisation */
} vm_devices;

/* cancel: base/cancel.h, for kernels to poll. On failure *devices is still to be closed. *devices is zero before. */
reed_status devices_open(vm_devices *devices, const reed_program *program, const reed_session_options *options,
                         const int *cancel, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Nothing may refer to their memory any more but outputs. */
void devices_close(vm_devices *devices);
/* Drops the constants on accelerators: they are copied anew when they are next used. */
void devices_forget_constants(vm_devices *devices);
/* Waits for every device; the first failure of queued work is reported here, in the diagnosis of the run. */
reed_status devices_synchronize(vm_devices *devices, vm_run *run) REED_MUST_CHECK;
/* Storage for what may become an output, else of the device's pool. */
reed_status devices_allocate(vm_devices *devices, int32_t device, int64_t bytes, bool returned, storage **out_storage,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
