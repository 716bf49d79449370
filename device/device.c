/* What all devices share: closing, and the clock. */
#include "device/device.h"

#include <uv.h>

void device_close(device **self) {
  if (*self) (*self)->interface->close(*self);
  *self = NULL;
}

int64_t clock_now_ns(void) { return (int64_t)uv_hrtime(); }
