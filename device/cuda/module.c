/* An NVIDIA GPU as a loadable module; with the fake driver (device/cuda/fake/) and the emulation of kernels linked in
 * its place, the same module as a device for tests. Host memory comes through the allocator hook of the loading
 * process. The device itself: device.c. */
#include "device/module.h"

#include "device/cuda/state.h"

static const device_services *services;

static void *forward_allocate(void *context, size_t bytes) {
  (void)context;
  return services->allocator->allocate(services->allocator->context, bytes);
}

static void *forward_resize(void *context, void *block, size_t bytes) {
  (void)context;
  return services->allocator->resize(services->allocator->context, block, bytes);
}

static void forward_release(void *context, void *block) {
  (void)context;
  services->allocator->release(services->allocator->context, block);
}

static reed_status open_one(const device_services *given, int32_t index, const char *options, device **out_device,
                            reed_diagnosis *diagnosis) {
  if (!services) {
    services = given;
    reed_set_allocator(&(reed_allocator){forward_allocate, forward_resize, forward_release, NULL});
  }
  return cuda_open(index, options, out_device, diagnosis);
}

REED_API const device_module *reed_device_module(void);
const device_module *reed_device_module(void) {
  static const device_module module = {DEVICE_CONTRACT, REED_DEVICE_VERSION, CUDA_DEVICE_NAME, open_one};
  return &module;
}
