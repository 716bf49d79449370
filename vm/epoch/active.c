/* The open shape section: notes its written registers, scalars and host values in the epoch's entry. Planning the run
 * section: plan.c. */
#include "vm/epoch/active.h"

#include <string.h>

reed_status active_begin(epoch_active *active, epoch_entry *e, uint32_t n_r, uint32_t n_s, reed_diagnosis *diagnosis) {
  size_t n_stamps = (size_t)n_r + n_s;
  if (active->n_stamps < n_stamps) {
    uint32_t *grown = mem_resize(active->stamps, n_stamps, sizeof *grown);
    if (!grown) return diag_no_memory(diagnosis, "registers of an epoch");
    memset(grown + active->n_stamps, 0, (n_stamps - active->n_stamps) * sizeof *grown);
    active->stamps = grown;
    active->n_stamps = n_stamps;
  }
  if (++active->stamp == 0) {
    memset(active->stamps, 0, active->n_stamps * sizeof *active->stamps);
    active->stamp = 1;
  }
  active->n_r = n_r;
  active->entry = e;
  active->in_shape_section = true;
  active->value_chunk = NULL;
  active->value_used = 0;
  return REED_OK;
}

reed_status active_note_write(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) {
  if (active->stamps[reg] == active->stamp) return REED_OK;
  active->stamps[reg] = active->stamp;
  return VEC_PUSH(&active->entry->writes, ((epoch_write){.reg = reg, .root = -1, .extent_root = -1}))
             ? REED_OK
             : diag_no_memory(diagnosis, "registers of an epoch");
}

reed_status active_note_scalar(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) {
  uint32_t *stamp = &active->stamps[active->n_r + reg];
  if (*stamp == active->stamp) return REED_OK;
  *stamp = active->stamp;
  return VEC_PUSH(&active->entry->scalars, ((epoch_scalar){.reg = reg}))
             ? REED_OK
             : diag_no_memory(diagnosis, "registers of an epoch");
}

static void value_release(storage *block) {
  mem_free_aligned(block->data);
  mem_free(block);
}

reed_status active_value_memory(epoch_active *active, int64_t bytes, void **out_data, storage **out_storage,
                                reed_diagnosis *diagnosis) {
  int64_t need = (bytes + 63) & ~(int64_t)63;
  if (!active->value_chunk || active->value_used + need > active->value_chunk->bytes) {
    int64_t chunk_bytes = need > 2048 ? need : 2048;
    storage *chunk = mem_alloc(sizeof *chunk);
    void *data = chunk ? mem_alloc_aligned((size_t)chunk_bytes, 64) : NULL;
    if (!data || !VEC_PUSH(&active->entry->values, chunk)) {
      mem_free_aligned(data);
      mem_free(chunk);
      return diag_no_memory(diagnosis, "host values of an epoch");
    }
    *chunk = (storage){.n_references = 1, .device = 0, .data = data, .bytes = chunk_bytes, .release = value_release};
    active->value_chunk = chunk;
    active->value_used = 0;
  }
  *out_data = (char *)active->value_chunk->data + active->value_used;
  active->value_used += need;
  storage_retain(active->value_chunk);
  storage_release(*out_storage);
  *out_storage = active->value_chunk;
  return REED_OK;
}

void active_end_shapes(epoch_active *active) {
  active->in_shape_section = false;
  active->value_chunk = NULL;
}

void active_fini(epoch_active *active) {
  mem_free(active->stamps);
  VEC_FREE(&active->key);
  VEC_FREE(&active->root_storages);
}
