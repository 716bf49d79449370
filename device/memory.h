/* The figures of a device's memory that lies in the host's; any thread. */
#ifndef DEVICE_MEMORY_H_
#define DEVICE_MEMORY_H_

#include <stdatomic.h>

#include "device/device.h"

typedef struct device_figures {
  int64_t total_bytes;
  _Atomic int64_t live_bytes, peak_bytes, n_allocations;
} device_figures;

/* Whether the machine could hold such a block at all. Systems promise more than they have: a block beyond all memory
 * would be given and its use would end the process. */
static inline bool figures_hold(const device_figures *figures, int64_t bytes) {
  return figures->total_bytes == 0 || bytes <= figures->total_bytes;
}

/* `bytes` more are in use; fewer where negative. */
static inline void figures_grow(device_figures *figures, int64_t bytes) {
  int64_t live = atomic_fetch_add(&figures->live_bytes, bytes) + bytes, peak = atomic_load(&figures->peak_bytes);
  while (peak < live && !atomic_compare_exchange_weak(&figures->peak_bytes, &peak, live)) continue;
}

static inline void figures_add(device_figures *figures, int64_t bytes) {
  atomic_fetch_add(&figures->n_allocations, 1);
  figures_grow(figures, bytes);
}

static inline void figures_read(device_figures *figures, device_memory *out_memory) {
  *out_memory = (device_memory){.total_bytes = figures->total_bytes,
                                .live_bytes = atomic_load(&figures->live_bytes),
                                .peak_bytes = atomic_load(&figures->peak_bytes),
                                .n_allocations = atomic_load(&figures->n_allocations)};
}

/* ERROR_MEMORY: what was asked of which device, what is in use, what there is. */
REED_MUST_CHECK static inline reed_status figures_refuse(device_figures *figures, const char *device_name,
                                                         int64_t bytes, reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_MEMORY,
                   "device '%s': no memory for %lld bytes (%lld are in use, the machine has %lld)", device_name,
                   (long long)bytes, (long long)atomic_load(&figures->live_bytes), (long long)figures->total_bytes);
}

#endif
