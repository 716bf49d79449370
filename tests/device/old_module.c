/* A device module of another version or of other sources, and (compiled otherwise) a library that is none. */
#include "device/contract.h"
#include "device/module.h"

#ifndef NO_MODULE
REED_API const device_module *reed_device_module(void);
const device_module *reed_device_module(void) {
  static const device_module module = {OLD_CONTRACT, OLD_VERSION, "old", NULL, NULL};
  return &module;
}
#else
REED_API int nothing(void);
int nothing(void) { return 0; }
#endif
