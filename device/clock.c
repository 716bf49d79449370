/* The clock of spans; also in every module. */
#include <uv.h>

#include "device/device.h"

int64_t clock_now_ns(void) { return (int64_t)uv_hrtime(); }
