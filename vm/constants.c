/* Constants of a program on a device: copied once, in pieces through pinned memory, on a queue of their own. Packed
 * weights of host kernels: ops/cache.c. */
#include "vm/constants.h"

#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "allocator/pool.h"
#include "base/mem.h"
#include "vm/program.h"

enum { PIECE_BYTES = 4 << 20 };

struct program_constants {
  program_constants *next; /* list of the program; guarded by the program's lock, as n_references is */
  reed_program *program;   /* borrowed: every session holds it */
  int64_t n_references;
  device *device;
  uv_mutex_t lock; /* guards the fields below; elements of `data` that are set may be read without it */
  device_queue *queue;
  pool *pool;
  void *piece; /* pinned */
  storage **blocks;
  _Atomic(void *) *data; /* per constant; NULL: not copied */
  int64_t bytes;
};

static void close_all(program_constants *c) {
  for (size_t i = 0; c->blocks && i < c->program->module->n_constants; i++) storage_release(c->blocks[i]);
  if (c->pool) pool_close(&c->pool);
  if (c->queue) c->device->interface->queue_close(c->queue);
  c->device->interface->release_pinned(c->device, c->piece);
  device_close(&c->device);
  mem_free(c->blocks);
  mem_free(c->data);
  uv_mutex_destroy(&c->lock);
  mem_free(c);
}

static reed_status open_new(reed_program *program, device *dev, program_constants **out_constants,
                            reed_diagnosis *diagnosis) {
  size_t n = program->module->n_constants;
  program_constants *c = mem_calloc(1, sizeof *c);
  if (!c || uv_mutex_init(&c->lock) != 0) {
    mem_free(c);
    return diag_no_memory(diagnosis, "constants on a device");
  }
  c->program = program;
  c->device = dev;
  device_retain(dev);
  c->blocks = mem_calloc(n, sizeof *c->blocks);
  c->data = mem_calloc(n, sizeof *c->data);
  reed_status status = dev->interface->queue_open(dev, DEVICE_COPIES, &c->queue, diagnosis);
  if (status == REED_OK && (!c->blocks || !c->data || pool_open(dev, NULL, POOL_CONSTANTS, 1, 0, &c->pool) != REED_OK))
    status = diag_no_memory(diagnosis, "constants on a device");
  if (status != REED_OK) {
    close_all(c);
    return status;
  }
  *out_constants = c;
  return REED_OK;
}

reed_status constants_open(reed_program *program, device *dev, program_constants **out_constants,
                           reed_diagnosis *diagnosis) {
  reed_status status = REED_OK;
  uv_mutex_lock(&program->constants_lock);
  program_constants *found = program->constants;
  while (found && found->device != dev) found = found->next;
  if (!found && (status = open_new(program, dev, &found, diagnosis)) == REED_OK) {
    found->next = program->constants;
    program->constants = found;
  }
  if (status == REED_OK) {
    found->n_references++;
    *out_constants = found;
  }
  uv_mutex_unlock(&program->constants_lock);
  return status;
}

void constants_close(program_constants **constants) {
  program_constants *c = *constants;
  *constants = NULL;
  if (!c) return;
  reed_program *program = c->program;
  uv_mutex_lock(&program->constants_lock);
  if (--c->n_references == 0) {
    program_constants **at = &program->constants;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    close_all(c);
  }
  uv_mutex_unlock(&program->constants_lock);
}

/* Copies host bytes to the device in pieces and waits for the last piece. */
static reed_status copy(program_constants *c, char *target, const char *source, int64_t bytes,
                        reed_diagnosis *diagnosis) {
  const device_interface *on = c->device->interface;
  reed_status status = REED_OK;
  if (!c->piece) status = on->allocate_pinned(c->device, PIECE_BYTES, &c->piece, diagnosis);
  for (int64_t at = 0; at < bytes && status == REED_OK; at += PIECE_BYTES) {
    int64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    device_error error = {0};
    memcpy(c->piece, source + at, (size_t)n);
    status = on->copy_in(c->queue, target + at, c->piece, n, NULL, diagnosis);
    if (status == REED_OK) status = on->synchronize(c->queue, &error, diagnosis);
  }
  return status;
}

static reed_status make(program_constants *c, uint32_t number, int64_t cap_bytes, reed_diagnosis *diagnosis) {
  const module_constant *constant = &c->program->module->constants[number];
  int64_t bytes = desc_bytes(&constant->desc);
  if (cap_bytes && bytes > cap_bytes - c->bytes)
    return diag_fail(diagnosis, REED_ERROR_MEMORY,
                     "out of memory on device '%s': %lld bytes asked for a constant; constants have %lld, cap %lld",
                     c->device->name, (long long)bytes, (long long)c->bytes, (long long)cap_bytes);
  storage *block = NULL;
  reed_status status = pool_allocate(c->pool, bytes, &block, diagnosis);
  if (status == REED_OK) status = copy(c, block->data, constant->data, bytes, diagnosis);
  if (status != REED_OK) {
    storage_release(block);
    return status;
  }
  c->blocks[number] = block;
  c->bytes += bytes;
  atomic_store_explicit(&c->data[number], block->data, memory_order_release);
  return REED_OK;
}

reed_status constants_get(program_constants *c, uint32_t number, int64_t cap_bytes, void **out_data, bool *out_copied,
                          reed_diagnosis *diagnosis) {
  *out_copied = false;
  *out_data = atomic_load_explicit(&c->data[number], memory_order_acquire);
  if (*out_data) return REED_OK;
  reed_status status = REED_OK;
  uv_mutex_lock(&c->lock);
  if (!c->blocks[number]) {
    status = make(c, number, cap_bytes, diagnosis);
    *out_copied = status == REED_OK;
  }
  *out_data = status == REED_OK ? c->blocks[number]->data : NULL;
  uv_mutex_unlock(&c->lock);
  return status;
}

int64_t constants_bytes(program_constants *c) {
  pool_figures figures;
  uv_mutex_lock(&c->lock);
  pool_read_figures(c->pool, &figures);
  uv_mutex_unlock(&c->lock);
  return figures.reserved_bytes;
}
