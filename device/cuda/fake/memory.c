/* The fake driver's memory: reserved addresses, pages mapped into them, blocks of pools, pinned memory. Memory of a
 * card is closed to the host (PROT_NONE) except while the thread of the world works on it. */
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"

static size_t pages(size_t bytes) { return (bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE; }

static char *map(size_t bytes, bool open) {
  char *data =
      mmap(NULL, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? NULL : data;
}

static bool poison(char *data, size_t bytes) {
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  memset(data, FAKE_POISON, bytes);
  return mprotect(data, bytes, PROT_NONE) == 0;
}

/* ---- ranges ---- */

static fake_range *add(fake_world *world, fake_kind kind, char *data, size_t bytes) {
  fake_range *made = mem_calloc(1, sizeof *made);
  if (made) *made = (fake_range){.kind = kind, .data = data, .bytes = bytes, .card = fake_current()->card};
  if (made && VEC_PUSH(&world->ranges, made)) {
    world->n_live[kind]++;
    return made;
  }
  mem_free(made);
  return NULL;
}

static void drop(fake_world *world, fake_range *range) {
  size_t i = 0;
  while (world->ranges.items[i] != range) i++;
  world->ranges.items[i] = world->ranges.items[--world->ranges.n];
  world->n_live[range->kind]--;
  mem_free(range);
}

fake_range *fake_range_of(fake_world *world, const void *pointer, fake_kind kind) {
  const char *at = pointer;
  for (size_t i = 0; i < world->ranges.n; i++) {
    fake_range *range = world->ranges.items[i];
    if (range->kind == kind && at >= range->data && at < range->data + range->bytes) return range;
  }
  return NULL;
}

const char *fake_usable(fake_world *world, const void *pointer, size_t bytes, bool pinned) {
  const char *at = pointer, *end = at + bytes;
  while (at < end) {
    const fake_range *range = fake_range_of(world, at, FAKE_BLOCK);
    if (!range) range = fake_range_of(world, at, FAKE_MAPPING);
    if (!range && pinned) range = fake_range_of(world, at, FAKE_PINNED);
    if (!range) return "is no memory of the card";
    if (!range->open && range->kind == FAKE_BLOCK) return "is a block whose allocation has not run in stream order";
    if (!range->open) return "is mapped without access";
    if (range->kind != FAKE_MAPPING && (size_t)(range->data + range->bytes - at) < (size_t)(end - at))
      return "runs past its block";
    at = range->data + range->bytes;
  }
  return NULL;
}

void fake_open(fake_world *world, const void *pointer, size_t bytes, bool open) {
  if (!bytes || fake_range_of(world, pointer, FAKE_PINNED)) return;
  char *first = (char *)((uintptr_t)pointer / FAKE_PAGE * FAKE_PAGE);
  (void)!mprotect(first, pages((size_t)((const char *)pointer + bytes - first)),
                  open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* ---- addresses and pages ---- */

cu_result fake_granularity(size_t *out_bytes, const cu_allocation_properties *properties, int option) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemGetAllocationGranularity");
  if (result) return result;
  *out_bytes = FAKE_GRANULARITY;
  fake_leave(world);
  return properties->type == CU_PINNED && option == CU_GRANULARITY_RECOMMENDED ? CU_SUCCESS : CU_INVALID_VALUE;
}

cu_result fake_address_reserve(cu_pointer *out_data, size_t bytes, size_t alignment, cu_pointer wanted,
                               unsigned long long flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemAddressReserve");
  if (result) return result;
  if (!bytes || bytes % FAKE_GRANULARITY || alignment || wanted || flags)
    result =
        fake_say(world, CU_INVALID_VALUE, "cuMemAddressReserve: %zu bytes are no multiple of the granularity", bytes);
  if (!result) result = fake_take_memory(world, -1, 0, "cuMemAddressReserve");
  char *data = result ? NULL : map(bytes, false);
  if (!result && (!data || !add(world, FAKE_ADDRESSES, data, bytes))) {
    if (data) munmap(data, bytes);
    result = fake_say(world, CU_OUT_OF_MEMORY, "out of memory: no addresses for %zu bytes", bytes);
  }
  if (!result) *out_data = (cu_pointer)(uintptr_t)data;
  fake_leave(world);
  return result;
}

/* Begins a call that gives memory back, which a capture does not allow. */
static cu_result enter_giving_back(fake_world **out_world, const char *function, cu_result *out_told) {
  cu_result result = fake_enter_undo(out_world, function, out_told);
  if (result) return result;
  result = fake_unsafe(*out_world, function);
  if (result) fake_leave(*out_world);
  return result;
}

cu_result fake_address_free(cu_pointer data, size_t bytes) {
  fake_world *world;
  cu_result told, result = enter_giving_back(&world, "cuMemAddressFree", &told);
  if (result) return result;
  fake_range *range = fake_range_of(world, (void *)(uintptr_t)data, FAKE_ADDRESSES);
  if (!range || (uintptr_t)range->data != data || range->bytes != bytes || range->mapped_bytes) {
    result = fake_say(world, CU_INVALID_VALUE, "cuMemAddressFree: no such range, or pages are still mapped into it");
  } else {
    munmap(range->data, range->bytes);
    drop(world, range);
  }
  fake_leave(world);
  return result ? result : told;
}

static void free_pages(fake_world *world, fake_pages *held, int card) {
  if (!held->released || held->n_mapped) return;
  world->used_bytes[card] -= held->bytes;
  mem_free(held);
}

cu_result fake_memory_create(cu_memory *out_memory, size_t bytes, const cu_allocation_properties *properties,
                             unsigned long long flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemCreate");
  if (result) return result;
  result = fake_unsafe(world, "cuMemCreate");
  if (!result && (!bytes || bytes % FAKE_GRANULARITY || flags || properties->type != CU_PINNED ||
                  properties->location.type != CU_ON_DEVICE || fake_world_of(properties->location.id) != world))
    result = fake_say(world, CU_INVALID_VALUE, "cuMemCreate: wrong properties or size");
  if (!result) result = fake_take_memory(world, fake_current()->card, bytes, "cuMemCreate");
  fake_pages *made = result ? NULL : mem_calloc(1, sizeof *made);
  if (made) {
    made->bytes = bytes;
    *out_memory = (cu_memory)(uintptr_t)made;
    world->n_live[FAKE_PAGES]++;
  } else if (!result) {
    result = CU_OUT_OF_MEMORY;
  }
  fake_leave(world);
  return result;
}

cu_result fake_memory_release(cu_memory memory) {
  fake_world *world;
  cu_result told, result = enter_giving_back(&world, "cuMemRelease", &told);
  if (result) return result;
  fake_pages *held = (fake_pages *)(uintptr_t)memory;
  held->released = true;
  world->n_live[FAKE_PAGES]--;
  free_pages(world, held, fake_current()->card);
  fake_leave(world);
  return told;
}

cu_result fake_memory_map(cu_pointer at, size_t bytes, size_t offset, cu_memory memory, unsigned long long flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemMap");
  if (result) return result;
  char *data = (char *)(uintptr_t)at;
  fake_pages *held = (fake_pages *)(uintptr_t)memory;
  fake_range *room = fake_range_of(world, data, FAKE_ADDRESSES), *made = NULL;
  if (!room || data + bytes > room->data + room->bytes || fake_range_of(world, data, FAKE_MAPPING) || offset || flags ||
      bytes != held->bytes || held->released)
    result = fake_say(world, CU_INVALID_VALUE, "cuMemMap: the addresses are not reserved, or pages are mapped there");
  if (!result && !(made = add(world, FAKE_MAPPING, data, bytes))) result = CU_OUT_OF_MEMORY;
  if (made) {
    made->pages = held;
    held->n_mapped++;
    room->mapped_bytes += bytes;
  }
  fake_leave(world);
  return result;
}

cu_result fake_memory_unmap(cu_pointer at, size_t bytes) {
  fake_world *world;
  cu_result told, result = enter_giving_back(&world, "cuMemUnmap", &told);
  if (result) return result;
  fake_range *mapping = fake_range_of(world, (void *)(uintptr_t)at, FAKE_MAPPING);
  if (!mapping || (uintptr_t)mapping->data != at || mapping->bytes != bytes) {
    result = fake_say(world, CU_INVALID_VALUE, "cuMemUnmap: no such mapping");
  } else {
    (void)!madvise(mapping->data, bytes, MADV_DONTNEED);
    (void)!mprotect(mapping->data, bytes, PROT_NONE);
    fake_range_of(world, mapping->data, FAKE_ADDRESSES)->mapped_bytes -= bytes;
    mapping->pages->n_mapped--;
    free_pages(world, mapping->pages, mapping->card);
    drop(world, mapping);
  }
  fake_leave(world);
  return result ? result : told;
}

cu_result fake_memory_access(cu_pointer at, size_t bytes, const cu_access *access, size_t n) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemSetAccess");
  if (result) return result;
  fake_range *mapping = fake_range_of(world, (void *)(uintptr_t)at, FAKE_MAPPING);
  if (!mapping || (uintptr_t)mapping->data != at || mapping->bytes != bytes || n != 1 ||
      access->flags != CU_READ_WRITE || fake_world_of(access->location.id) != world)
    result = fake_say(world, CU_INVALID_VALUE, "cuMemSetAccess: no such mapping, or wrong access");
  else if (!poison(mapping->data, bytes)) result = fake_say(world, CU_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
  else mapping->open = true;
  fake_leave(world);
  return result;
}

/* ---- pools ---- */

cu_result fake_pool_create(cu_pool *out_pool, const cu_pool_properties *properties) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemPoolCreate");
  if (result) return result;
  cu_pool made = mem_calloc(1, sizeof *made);
  if (!made) {
    result = fake_say(world, CU_OUT_OF_MEMORY, "out of memory: a pool");
  } else if (fake_world_of(properties->location.id) != world || properties->type != CU_PINNED) {
    result = fake_say(world, CU_INVALID_VALUE, "cuMemPoolCreate: wrong properties");
    mem_free(made);
  } else {
    made->card = fake_current()->card;
    world->n_live[FAKE_POOL]++;
    *out_pool = made;
  }
  fake_leave(world);
  return result;
}

cu_result fake_pool_destroy(cu_pool pool) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuMemPoolDestroy", &told);
  if (result) return result;
  world->n_live[FAKE_POOL]--;
  mem_free(pool);
  fake_leave(world);
  return told;
}

cu_result fake_pool_set(cu_pool pool, int attribute, void *value) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemPoolSetAttribute");
  if (result) return result;
  (void)pool;
  fake_leave(world);
  return attribute == CU_POOL_RELEASE_THRESHOLD && value ? CU_SUCCESS : CU_INVALID_VALUE;
}

cu_result fake_pool_trim(cu_pool pool, size_t keep_bytes) {
  fake_world *world;
  cu_result told, result = enter_giving_back(&world, "cuMemPoolTrimTo", &told);
  if (result) return result;
  (void)pool;
  (void)keep_bytes;
  fake_leave(world);
  return told;
}

void fake_block_free(fake_world *world, fake_range *block) {
  munmap(block->data, pages(block->bytes));
  world->used_bytes[block->card] -= block->bytes;
  drop(world, block);
}

fake_range *fake_block_open(fake_world *world, size_t bytes) {
  char *data = map(pages(bytes), false);
  fake_range *made = data && poison(data, pages(bytes)) ? add(world, FAKE_BLOCK, data, bytes) : NULL;
  if (!made && data) munmap(data, pages(bytes));
  return made;
}

cu_result fake_pointer_attribute(void *out_value, int attribute, cu_pointer data) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuPointerGetAttribute");
  if (result) return result;
  void *at = (void *)(uintptr_t)data;
  const fake_range *range = fake_range_of(world, at, FAKE_BLOCK);
  if (!range) range = fake_range_of(world, at, FAKE_MAPPING);
  cu_pointer begin = range ? (cu_pointer)(uintptr_t)range->data : 0;
  unsigned type = CU_TYPE_DEVICE;
  int ordinal = range ? world->number * FAKE_CARDS + range->card : 0;
  if (!range) result = CU_INVALID_VALUE;
  else if (attribute == CU_MEMORY_TYPE) memcpy(out_value, &type, sizeof type);
  else if (attribute == CU_POINTER_ORDINAL) memcpy(out_value, &ordinal, sizeof ordinal);
  else if (attribute == CU_RANGE_BEGIN) memcpy(out_value, &begin, sizeof begin);
  else if (attribute == CU_RANGE_BYTES) memcpy(out_value, &range->bytes, sizeof range->bytes);
  else result = CU_INVALID_VALUE;
  fake_leave(world);
  return result;
}

/* ---- pinned memory ---- */

cu_result fake_host_allocate(void **out_data, size_t bytes, unsigned flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemHostAlloc");
  if (result) return result;
  result = fake_unsafe(world, "cuMemHostAlloc");
  if (!result && (!bytes || flags != (CU_HOST_PORTABLE | CU_HOST_MAPPED))) result = CU_INVALID_VALUE;
  if (!result) result = fake_take_memory(world, -1, 0, "cuMemHostAlloc");
  if (!result && bytes > uv_get_total_memory())
    result = fake_say(world, CU_OUT_OF_MEMORY, "out of memory: %zu bytes of pinned memory", bytes);
  char *data = result ? NULL : map(pages(bytes), true);
  fake_range *made = data ? add(world, FAKE_PINNED, data, bytes) : NULL;
  if (made) {
    memset(data, FAKE_POISON, bytes);
    made->open = true;
    *out_data = data;
  } else if (!result) {
    if (data) munmap(data, pages(bytes));
    result = CU_OUT_OF_MEMORY;
  }
  fake_leave(world);
  return result;
}

cu_result fake_host_free(void *data) {
  fake_world *world;
  cu_result told, result = enter_giving_back(&world, "cuMemFreeHost", &told);
  if (result) return result;
  fake_range *range = fake_range_of(world, data, FAKE_PINNED);
  if (!range || range->data != data) {
    result = fake_say(world, CU_INVALID_VALUE, "cuMemFreeHost: not the beginning of pinned memory");
  } else {
    if (fake_is_used(world, range))
      result = fake_break(world, CU_ILLEGAL_ADDRESS, "pinned memory was released before work that uses it has run");
    for (cu_stream stream = world->streams; fake_is_used(world, range) && stream; stream = stream->next)
      fake_drain(stream);
    munmap(range->data, pages(range->bytes));
    drop(world, range);
  }
  fake_leave(world);
  return result ? result : told;
}
