/* Devices by name, for reed_session_options.device and for programs that list them. */
#ifndef REED_DEVICE_H_
#define REED_DEVICE_H_

#include <stdbool.h>
#include <stddef.h>

#include "reed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kind of device. Static storage. */
typedef struct reed_device_info {
  const char *name;    /* "sim"; the second of its kind is "sim:1" */
  const char *summary; /* some words */
  bool present;        /* it can be opened here: its module libreed-NAME.so is beside the library */
} reed_device_info;

/* Kind i of those that this version knows; false past the end. Modules that it does not know are opened by name or path
 * all the same. */
REED_API bool reed_device_kind(size_t i, reed_device_info *out_info);

#ifdef __cplusplus
}
#endif
#endif
