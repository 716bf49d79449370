/* An NVIDIA GPU as a loadable module; with the fake driver (device/cuda/fake/) and the emulation of kernels linked in
 * its place, the same module as a device for tests. Host memory comes through the allocator hook of the loading
 * process. The device itself: device.c. */
#include "device/contract.h"
#include "device/loadable.h"
#include "device/cuda/state.h"

static reed_status open_one(const device_services *services, int32_t index, const char *options, device **out_device,
                            reed_diagnosis *diagnosis) {
  loadable_use(services);
  return cuda_open(index, options, out_device, diagnosis);
}

REED_API const device_module *reed_device_module(void);
const device_module *reed_device_module(void) {
  static const device_module module = {DEVICE_CONTRACT, REED_DEVICE_VERSION, CUDA_DEVICE_NAME, open_one, cuda_describe};
  return &module;
}
