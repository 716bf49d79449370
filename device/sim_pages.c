#include "device/sim_pages.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *map_closed(size_t bytes) {
  char *data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

reed_status sim_pages_add(sim_pages *pages, int64_t bytes, sim_block *block) {
  size_t mapped = bytes ? (size_t)bytes : 1;
  if (__builtin_add_overflow(mapped, pages->page_bytes - 1, &mapped)) return REED_ERROR_MEMORY;
  mapped &= ~(pages->page_bytes - 1);
  *block = (sim_block){.data = map_closed(mapped), .bytes = bytes, .mapped = mapped};
  if (!block->data) return REED_ERROR_MEMORY;
  uv_mutex_lock(&pages->lock);
  bool room = VEC_ROOM(&pages->blocks);
  if (room) {
    size_t at = upper_bound(pages, block->data);
    memmove(pages->blocks.items + at + 1, pages->blocks.items + at,
            (pages->blocks.n - at) * sizeof *pages->blocks.items);
    pages->blocks.items[at] = block;
    pages->blocks.n++;
  }
  uv_mutex_unlock(&pages->lock);
  if (room) return REED_OK;
  munmap(block->data, mapped);
  return REED_ERROR_MEMORY;
}

void sim_pages_remove(sim_pages *pages, sim_block *block) {
  uv_mutex_lock(&pages->lock);
  size_t at = upper_bound(pages, block->data) - 1;
  memmove(pages->blocks.items + at, pages->blocks.items + at + 1,
          (pages->blocks.n - at - 1) * sizeof *pages->blocks.items);
  pages->blocks.n--;
  uv_mutex_unlock(&pages->lock);
  munmap(block->data, block->mapped);
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
  uv_mutex_unlock(&pages->lock);
  return block && (const char *)pointer <= block->data + block->bytes ? block : NULL;
}

bool sim_pages_open(sim_block *block, sim_block **opened) {
  if (block->open) return true;
  if (mprotect(block->data, block->mapped, PROT_READ | PROT_WRITE) != 0) return false;
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
    (void)!mprotect(block->data, block->mapped, PROT_NONE);
  }
}
