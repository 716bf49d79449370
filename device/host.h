/* The host as a device: built in, like a module's `open`. */
#ifndef DEVICE_HOST_H_
#define DEVICE_HOST_H_

#include "device/device.h"

reed_status host_open(device **out_device, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
