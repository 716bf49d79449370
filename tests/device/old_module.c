/* A device module of another version or with structs of other sizes, and (compiled otherwise) a library that is none.
 */
#include "device/module.h"

#ifndef NO_MODULE
#ifndef OLD_LAYOUT
#define OLD_LAYOUT DEVICE_LAYOUT
#endif
REED_API const device_module *reed_device_module(void);
const device_module *reed_device_module(void) {
  static const device_module module = {OLD_CONTRACT, OLD_VERSION, "old", NULL, NULL, OLD_LAYOUT};
  return &module;
}
#else
REED_API int nothing(void);
int nothing(void) { return 0; }
#endif
