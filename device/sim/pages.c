/* The address ranges of the simulated accelerator, and which of them the host may touch (pages.h). */
#include "device/sim/pages.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *map_closed(size_t bytes) {
  char *data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? NULL : data;
}

reed_status sim_pages_init(sim_pages *pages) {
  *pages = (sim_pages){.page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
  pages->nowhere = map_closed(pages->page_bytes);
  if (!pages->nowhere) return REED_ERROR_MEMORY;
  if (uv_mutex_init(&pages->lock) == 0) return REED_OK;
  munmap(pages->nowhere, pages->page_bytes);
  return REED_ERROR_MEMORY;
}

void sim_pages_fini(sim_pages *pages) {
  assert(pages->blocks.n == 0);
  VEC_FREE(&pages->blocks);
  munmap(pages->nowhere, pages->page_bytes);
  uv_mutex_destroy(&pages->lock);
}

/* Number of blocks that begin at or before the pointer. */
static size_t upper_bound(const sim_pages *pages, const char *pointer) {
  size_t low = 0, high = pages->blocks.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (pages->blocks.items[middle]->data <= pointer) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Bytes in whole pages, at least one; 0: too many. */
static size_t whole_pages(const sim_pages *pages, int64_t bytes) {
  size_t mapped = bytes ? (size_t)bytes : 1;
  if (__builtin_add_overflow(mapped, pages->page_bytes - 1, &mapped)) return 0;
  return mapped & ~(pages->page_bytes - 1);
}

/* New pages of a block, poisoned and closed again. */
static bool poison_pages(char *data, size_t bytes, bool always) {
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  memset(data, SIM_POISON, bytes);
  return always || mprotect(data, bytes, PROT_NONE) == 0;
}

reed_status sim_pages_add(sim_pages *pages, int64_t bytes, int64_t room_bytes, bool always, sim_block *block) {
  size_t mapped = whole_pages(pages, bytes), reserved = whole_pages(pages, room_bytes > bytes ? room_bytes : bytes);
  if (!mapped || !reserved) return REED_ERROR_MEMORY;
  *block = (sim_block){.bytes = bytes, .mapped = mapped, .reserved = reserved, .always = always};
  block->data = map_closed(reserved);
  if (!block->data) return REED_ERROR_MEMORY;
  bool room = poison_pages(block->data, mapped, always);
  uv_mutex_lock(&pages->lock);
  room = room && VEC_ROOM(&pages->blocks);
  if (room) {
    size_t at = upper_bound(pages, block->data);
    memmove(pages->blocks.items + at + 1, pages->blocks.items + at,
            (pages->blocks.n - at) * sizeof *pages->blocks.items);
    pages->blocks.items[at] = block;
    pages->blocks.n++;
    block->serial = ++pages->n_serials;
  }
  uv_mutex_unlock(&pages->lock);
  if (room) return REED_OK;
  munmap(block->data, reserved);
  return REED_ERROR_MEMORY;
}

bool sim_pages_grow(sim_pages *pages, sim_block *block, int64_t bytes) {
  size_t mapped = whole_pages(pages, bytes);
  if (!mapped || mapped > block->reserved) return false;
  if (mapped > block->mapped && !poison_pages(block->data + block->mapped, mapped - block->mapped, block->always))
    return false;
  uv_mutex_lock(&pages->lock);
  block->bytes = bytes;
  block->mapped = mapped;
  uv_mutex_unlock(&pages->lock);
  return true;
}

void sim_pages_remove(sim_pages *pages, sim_block *block) {
  uv_mutex_lock(&pages->lock);
  size_t at = upper_bound(pages, block->data) - 1;
  memmove(pages->blocks.items + at, pages->blocks.items + at + 1,
          (pages->blocks.n - at - 1) * sizeof *pages->blocks.items);
  pages->blocks.n--;
  uv_mutex_unlock(&pages->lock);
  munmap(block->data, block->reserved);
}

sim_block *sim_pages_first(sim_pages *pages) {
  uv_mutex_lock(&pages->lock);
  sim_block *block = pages->blocks.n ? pages->blocks.items[0] : NULL;
  uv_mutex_unlock(&pages->lock);
  return block;
}

sim_block *sim_pages_find(sim_pages *pages, const void *pointer) {
  uv_mutex_lock(&pages->lock);
  size_t after = upper_bound(pages, pointer);
  sim_block *block = after ? pages->blocks.items[after - 1] : NULL;
  if (block && (const char *)pointer > block->data + block->bytes) block = NULL;
  uv_mutex_unlock(&pages->lock);
  return block;
}

bool sim_pages_open(sim_pages *pages, sim_block *block, sim_block **opened) {
  if (block->open || block->always) return true;
  uv_mutex_lock(&pages->lock);
  block->n_open = block->mapped;
  uv_mutex_unlock(&pages->lock);
  if (mprotect(block->data, block->n_open, PROT_READ | PROT_WRITE) != 0) return false;
  block->open = true;
  block->next_open = *opened;
  *opened = block;
  return true;
}

void sim_pages_close(sim_block **opened) {
  while (*opened) {
    sim_block *block = *opened;
    *opened = block->next_open;
    block->open = false;
    (void)!mprotect(block->data, block->n_open, PROT_NONE);
  }
}
