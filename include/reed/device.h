/* The kinds of devices by name, for reed_session_options.device and for programs that list them. The functions of a
 * device are not public. */
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
  const char *name;    /* "sim"; the second device of the kind is "sim:1" */
  const char *summary; /* a few words */
  bool present;        /* its module libreed-NAME.so lies beside the library, and the machine has the hardware */
} reed_device_info;

/* Kind i of the kinds known to this version of the library; false past the end. A session can also open a device module
 * of an unknown kind, by its name or path. */
REED_API bool reed_device_kind(size_t i, reed_device_info *out_info);
/* The devices of this machine as JSON (docs/figures.md): opens the first one of each kind. ERROR_MEMORY. */
REED_API REED_MUST_CHECK reed_status reed_devices_json(char **out_json, reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
