/* Devices that a build or a machine may lack: the emulated GPU is absent where there is no C++ compiler. */
#ifndef TESTS_DEVICES_H_
#define TESTS_DEVICES_H_

#include <stdbool.h>
#include <string.h>

#include "reed/device.h"

/* True if there is a device of the kind with this name, as "cuda-emulated". */
static inline bool device_is_present(const char *name) {
  reed_device_info kind;
  for (size_t i = 0; reed_device_kind(i, &kind); i++)
    if (strcmp(kind.name, name) == 0) return kind.present;
  return false;
}

#endif
