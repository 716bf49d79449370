/* Memory of the simulated accelerator. Each block has whole pages of its own. Pages of device memory are closed
 * (PROT_NONE) except while the device works on them; pages of pinned host memory are always open. New pages are
 * poisoned, released ones are unmapped.
 *
 * The table of blocks is ordered by address and locked. Any thread may add and find blocks; the owner of a block
 * removes it. A block's record does not move, so it may be used without the lock until it is removed. */
#ifndef DEVICE_SIM_PAGES_H_
#define DEVICE_SIM_PAGES_H_

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/vec.h"
#include "reed/status.h"

enum { SIM_POISON = 0xff }; /* as f32 and f64 NaN, as integers -1 */

typedef struct sim_block {
  char *data;
  int64_t bytes;   /* as asked for; grows */
  size_t mapped;   /* whole pages, at least one, that `bytes` needs */
  size_t reserved; /* bytes of addresses, so that the block can grow in place */
  uint64_t serial; /* number of the block among all ever made, which tells it from a later block at the same address */
  bool always;     /* always open: pinned host memory */
  /* Used by the device's thread only. */
  bool open;
  size_t n_open; /* bytes that are open */
  struct sim_block *next_open;
} sim_block;

typedef struct sim_pages {
  uv_mutex_t lock;
  VEC_OF(sim_block *) blocks; /* ordered by address */
  size_t page_bytes;
  uint64_t n_serials;
  char *nowhere; /* a page that is never opened; a kernel gets it for an operand outside this device's memory */
} sim_pages;

/* ERROR_MEMORY; on error nothing stays allocated. */
reed_status sim_pages_init(sim_pages *pages) REED_MUST_CHECK;
/* The table must be empty. */
void sim_pages_fini(sim_pages *pages);

/* Maps `bytes` (>= 0), poisoned, and reserves addresses for room_bytes. Fills *block in, which the caller must not move
 * until sim_pages_remove. ERROR_MEMORY leaves the table as it was. */
reed_status sim_pages_add(sim_pages *pages, int64_t bytes, int64_t room_bytes, bool always,
                          sim_block *block) REED_MUST_CHECK;
/* Grows the block in place; new bytes are poisoned. False: no room, nothing has changed. */
bool sim_pages_grow(sim_pages *pages, sim_block *block, int64_t bytes);
/* Takes the block out of the table and unmaps it. */
void sim_pages_remove(sim_pages *pages, sim_block *block);

/* The first block of the table; NULL when it is empty. */
sim_block *sim_pages_first(sim_pages *pages);
/* The block that holds `pointer`, or ends at `pointer` (a tensor without elements may begin there); NULL: the pointer
 * is not memory of this device. */
sim_block *sim_pages_find(sim_pages *pages, const void *pointer);

/* Opens the block, unless it is open, and puts it first in the list *opened. False: the system refused. */
bool sim_pages_open(sim_pages *pages, sim_block *block, sim_block **opened);
/* Closes all blocks of the list and empties it. */
void sim_pages_close(sim_block **opened);

#endif
