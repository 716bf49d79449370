/* The clock of profiles (clock_now_ns). Every device module links its own copy. */
#include <uv.h>

#include "device/device.h"

int64_t clock_now_ns(void) { return (int64_t)uv_hrtime(); }
