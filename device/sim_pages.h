/* Memory of the simulated accelerator: whole pages of their own per block, closed (PROT_NONE) except while the device
 * works on them.
 *
 * The table of blocks is ordered by address and locked: the host adds and asks, the device's thread asks and removes. A
 * block stays where it is and belongs to whoever removes it, so a block that was found may be used without the lock by
 * the thread that alone removes. */
#ifndef DEVICE_SIM_PAGES_H_
#define DEVICE_SIM_PAGES_H_

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/mem.h"
#include "reed/status.h"

typedef struct sim_block {
  char *data;
  int64_t bytes; /* as asked for */
  size_t mapped; /* whole pages, at least one */
  bool open;     /* the device's thread only */
  struct sim_block *next_open;
} sim_block;

typedef struct sim_pages {
  uv_mutex_t lock;
  VEC_OF(sim_block *) blocks; /* by address */
  size_t page_bytes;
  char *nowhere; /* one page that is never opened: what a kernel gets for an operand that is not this device's memory */
} sim_pages;

/* ERROR_MEMORY; on error nothing is left behind. */
reed_status sim_pages_init(sim_pages *pages) REED_MUST_CHECK;
/* The table must be empty. */
void sim_pages_fini(sim_pages *pages);

/* Maps `bytes` (>= 0), closed, as *block, which the caller keeps at its place until sim_pages_remove. ERROR_MEMORY
 * leaves the table as it was. */
reed_status sim_pages_add(sim_pages *pages, int64_t bytes, sim_block *block) REED_MUST_CHECK;
/* Takes the block out of the table and unmaps it. */
void sim_pages_remove(sim_pages *pages, sim_block *block);

/* The first block of the table; NULL when it is empty. */
sim_block *sim_pages_first(sim_pages *pages);
/* The block that `pointer` points into, or just behind (a tensor without elements may lie there); NULL: not memory of
 * this device. */
sim_block *sim_pages_find(sim_pages *pages, const void *pointer);

/* Opens the block, unless it is open, and puts it in front of the list *opened. False: the system refused. */
bool sim_pages_open(sim_block *block, sim_block **opened);
/* Closes all blocks of the list and empties it. */
void sim_pages_close(sim_block **opened);

#endif
