/* Figures of the memory of a device that lives in the host's memory (host, sim); any thread. Allocation itself: host.c,
 * sim/. */
#ifndef DEVICE_MEMORY_H_
#define DEVICE_MEMORY_H_

#include <stdatomic.h>
#include <unistd.h>

#include "device/device.h"

typedef struct device_figures {
  int64_t total_bytes;
  _Atomic int64_t live_bytes, peak_bytes, n_allocations;
} device_figures;

/* The machine's memory; 0: unknown. From the system call, because the system makes /proc/meminfo anew for each reader,
 * which takes as long as opening a small program. */
static inline int64_t figures_machine_bytes(void) {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 && pages <= INT64_MAX / page_bytes ? pages * page_bytes : 0;
}

/* True if the machine's memory could hold a block of this size. Checked because the system overcommits: it would grant
 * a larger block and kill the process at its first use. */
static inline bool figures_hold(const device_figures *figures, int64_t bytes) {
  return figures->total_bytes == 0 || bytes <= figures->total_bytes;
}

/* Counts `bytes` more in use; fewer if negative. */
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

/* Returns ERROR_MEMORY with the device, the bytes asked for, those in use and the total. */
REED_MUST_CHECK static inline reed_status figures_refuse(device_figures *figures, const char *device_name,
                                                         int64_t bytes, reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_MEMORY,
                   "device '%s': no memory for %lld bytes (%lld are in use, the machine has %lld)", device_name,
                   (long long)bytes, (long long)atomic_load(&figures->live_bytes), (long long)figures->total_bytes);
}

#endif
