/* The parts that every loadable device needs of its own, because a module imports nothing of libreed: host memory
 * through the hook of the loading process, and the options that give its list of capabilities. Linked into each module.
 */
#ifndef DEVICE_LOADABLE_H_
#define DEVICE_LOADABLE_H_

#include <stdbool.h>

#include "device/module.h"

/* Makes the module's own allocator forward to the services'. All calls of a process give the same services. */
void loadable_use(const device_services *services);
/* The host's kernel for an operator. */
reed_kernel_prepare_fn loadable_host_kernel(const reed_op *op);
/* The device's list of capabilities (ops/capability.h): `name` with the options ("KEY=VALUE&...") that belong
 * to the list. To be freed with mem_free; NULL: no memory. */
char *loadable_target(const char *name, const char *options);

#endif
