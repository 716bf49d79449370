/* Opens the driver library of the system at run time. The fake driver has its own cuda_driver_open
 * (device/cuda/fake/open.c); a module links one of the two. */
#include <stdlib.h>

#include "device/symbols.h"
#include "device/cuda/driver/driver.h"

static reed_status say(cuda_driver *driver, cu_result error, reed_diagnosis *diagnosis) {
  const char *text = NULL, *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (error == CU_NO_DEVICE && visible)
    return diag_fail(diagnosis, REED_ERROR_DEVICE,
                     "device 'cuda': no NVIDIA GPU is left by the environment: CUDA_VISIBLE_DEVICES is '%.64s'",
                     visible);
  if (error == CU_NO_DEVICE)
    return diag_fail(diagnosis, REED_ERROR_DEVICE,
                     "device 'cuda': this machine has no NVIDIA GPU that its driver knows");
  driver->error_text(error, &text);
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda': the NVIDIA driver cannot start: %s (error %d)",
                   text ? text : "unknown error", error);
}

reed_status cuda_driver_find(cuda_driver *out_driver, reed_diagnosis *diagnosis) {
  static const symbol_row rows[] = {
#define DRIVER(name, symbol, parameters) {#symbol, offsetof(cuda_driver, name)},
#include "device/cuda/driver/driver.def"
      {NULL, 0}};
  cuda_driver driver = {.images = cuda_images};
  reed_status status = symbols_load("device 'cuda': the NVIDIA driver", "libcuda.so.1", rows,
                                    ", which CUDA " CUDA_MAJOR " has: it is too old", &driver, diagnosis);
  if (status != REED_OK) return status;
  *out_driver = driver;
  return REED_OK;
}

reed_status cuda_driver_open(const char *options, cuda_driver *out_driver, reed_diagnosis *diagnosis) {
  cuda_driver driver;
  (void)options;
  reed_status status = cuda_driver_find(&driver, diagnosis);
  if (status != REED_OK) return status;
  cu_result error = driver.init(0);
  if (error) return say(&driver, error, diagnosis);
  *out_driver = driver;
  return REED_OK;
}

void cuda_driver_close(cuda_driver *driver) { *driver = (cuda_driver){0}; }
