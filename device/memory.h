/* The figures of a device's memory that lies in the host's. */
#ifndef DEVICE_MEMORY_H_
#define DEVICE_MEMORY_H_

#include "device/device.h"

/* Whether the machine could hold such a block at all. Systems promise more than they have: a block beyond all memory
 * would be given and its use would end the process. */
static inline bool memory_holds(const device_memory *memory, int64_t bytes) {
  return memory->total_bytes == 0 || bytes <= memory->total_bytes;
}

static inline void memory_add(device_memory *memory, int64_t bytes) {
  memory->n_allocations++;
  memory->live_bytes += bytes;
  if (memory->peak_bytes < memory->live_bytes) memory->peak_bytes = memory->live_bytes;
}

/* ERROR_MEMORY: what was asked of which device, what is in use, what there is. */
REED_MUST_CHECK static inline reed_status memory_refuse(const device_memory *memory, const char *device_name,
                                                        int64_t bytes, reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_MEMORY,
                   "device '%s': no memory for %lld bytes (%lld are in use, the machine has %lld)", device_name,
                   (long long)bytes, (long long)memory->live_bytes, (long long)memory->total_bytes);
}

#endif
