/* The simulated accelerator as a loadable module. It shows errors of the run loop on every machine: a missing copy is a
 * crash; a missing synchronisation or event, or a slot freed too early, is a wrong result; options make a chosen call
 * fail. Host memory comes through the allocator hook of the loading process. The device itself: sim.c. */
#include "device/contract.h"
#include "device/loadable.h"
#include "device/sim/state.h"

static reed_status open_one(const device_services *services, int32_t index, const char *options, device **out_device,
                            reed_diagnosis *diagnosis) {
  (void)index; /* any number of devices may be open */
  loadable_use(services);
  sim_options read;
  reed_status status = sim_options_read(options, &read, diagnosis);
  return status == REED_OK ? sim_open(&read, services, out_device, diagnosis) : status;
}

REED_API const device_module *reed_device_module(void);
const device_module *reed_device_module(void) {
  static const device_module module = {DEVICE_CONTRACT, REED_DEVICE_VERSION, "sim", open_one, NULL};
  return &module;
}
