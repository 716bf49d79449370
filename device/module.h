/* The interface between libreed and a loadable device. A module exports one function, reed_device_module, and imports
 * nothing of libreed: `device_services` hands the module the functions that it needs. A module may link base/ and
 * libraries for its kernels. Finding and loading modules: module.c.
 *
 * A module of another version than the library is refused, and so is one that was built from other headers, because the
 * structs in device/device.h, reed/operator.h and this file are shared by layout, and the operators' numbers and the
 * orders of packed weights by meaning. The build makes one number of the headers' text: DEVICE_CONTRACT in the
 * generated "device/contract.h" (device/contract.py). device_module and its first two fields never change. */
#ifndef DEVICE_MODULE_H_
#define DEVICE_MODULE_H_

#include "base/json.h"
#include "device/device.h"
#include "reed/memory.h"

#define DEVICE_MODULE_SYMBOL "reed_device_module"

typedef struct device_services {
  const reed_allocator *allocator; /* the hook in force, which may change while nothing is open */
  /* The host's kernel for an operator, which a simulated device runs. */
  reed_kernel_prepare_fn (*host_kernel)(const reed_op *op);
} device_services;

typedef struct device_module {
  int32_t contract;    /* DEVICE_CONTRACT of "device/contract.h" */
  const char *version; /* REED_DEVICE_VERSION, which the build defines: the project's version */
  const char *name;    /* "sim" */
  /* Opens device number `index`. options: the text after '?' in the device's name, "" if it has none. The services live
   * as long as the process. */
  reed_status (*open)(const device_services *services, int32_t index, const char *options, device **out_device,
                      reed_diagnosis *diagnosis);
  /* Writes members about the machine into the open object (reed_devices_json). opened: the kind's first device; NULL:
   * it cannot be opened. NULL: the module has no more to say. */
  void (*describe)(const device *opened, json_writer *json);
} device_module;

typedef const device_module *(*device_module_fn)(void);

/* The module of a kind, loaded on the first call and never unloaded. `kind`: a name or a path. ERROR_DEVICE: no such
 * file, not a device module, or a module of another version. */
reed_status device_module_find(const char *kind, const device_module **out_module,
                               reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* True if the module's file exists: beside the library for a name, else at the path. */
bool device_module_present(const char *kind);

#endif
