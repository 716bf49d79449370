/* Gives an epoch's registers their memory for one run: arenas, and storage for roots that outlive the epoch. Offsets
 * are planned before, in layout.c. */
#include "vm/epoch/place.h"

#define ARENA_KEPT_BYTES \
  ((int64_t)1 << 20) /* an arena up to this size is kept for the next epoch, however small the next epoch's is */

/* On an accelerator one arena grows in place to the largest epoch's size, so that addresses stay. On the host the
 * present arena is used again, unless copies of an earlier epoch still read it, it is too small, or it is so large that
 * storage outside the arena can use the rest better. In a session with an accelerator the host's arena is pinned. */
static reed_status ensure_arena(vm_devices *devices, int32_t device, int64_t bytes, reed_diagnosis *diagnosis) {
  vm_device *d = &devices->items[device];
  storage **arena = &d->arena;
  d->at_border = true;
  if (d->arena_bytes < bytes) d->arena_bytes = bytes;
  if (device != 0) return bytes ? pool_arena(d->memory, bytes, arena, diagnosis) : REED_OK;
  int64_t held = *arena ? pool_capacity(*arena) : 0;
  if (held >= bytes && (held <= ARENA_KEPT_BYTES || held / 2 <= bytes) && !d->arena_is_read) return REED_OK;
  /* The old arena is released first, so that the two need not exist together. Copies in flight hold their own
   * references. */
  storage_release(*arena);
  *arena = NULL;
  d->arena_is_read = false;
  return bytes ? pool_allocate_for(devices_arena_pool(devices, 0), POOL_ARENA, bytes, arena, diagnosis) : REED_OK;
}

/* The caller's memory for a root that may become a bound output; NULL: the root is computed elsewhere. */
static storage *take_bound(reed_session *s, const epoch_entry *e, const epoch_root *root) {
  if (root->returned_write < 0) return NULL;
  const ref *value = &e->writes.items[root->returned_write].value;
  if (value->bytes != root->bytes) return NULL;
  return binding_take(&s->bindings, root->returned - 1, root->device, &value->t.desc, value->bounded_axis);
}

reed_status place_begin(reed_session *s, size_t n_roots) {
  const epoch_entry *e = s->epoch.entry;
  for (int32_t d = 0; d < s->devices.n; d++) {
    reed_status status = ensure_arena(&s->devices, d, e->arenas[d].bytes, s->run.diagnosis);
    if (status != REED_OK) return status;
  }
  if (!VEC_RESERVE(&s->epoch.root_storages, n_roots))
    return diag_no_memory(s->run.diagnosis, "storage list of an epoch");
  return REED_OK;
}

reed_status place_root(reed_session *s, uint32_t i) {
  const epoch_entry *e = s->epoch.entry;
  const epoch_root *root = &e->roots.items[i];
  storage *block = NULL;
  reed_status status = REED_OK;
  if (root->outlives && root->inside < 0) {
    if (s->bindings.any_bound && root->returned) block = take_bound(s, e, root);
    storage_request request = {.bytes = root->bytes,
                               .returned = root->returned != 0,
                               .most = root->returned ? s->bindings.outputs[root->returned - 1].most_bytes : 0,
                               .cold = root->bounded};
    if (!block) status = devices_allocate(&s->devices, root->device, request, &block, s->run.diagnosis);
  }
  if (status == REED_OK) s->epoch.root_storages.items[s->epoch.root_storages.n++] = block;
  return status;
}

void place_end(reed_session *s) {
  epoch_active *active = &s->epoch;
  for (size_t i = 0; i < active->root_storages.n; i++) storage_release(active->root_storages.items[i]);
  active->root_storages.n = 0;
}

void place_scalars(reed_session *s) {
  const epoch_entry *e = s->epoch.entry;
  for (size_t i = 0; i < e->scalars.n; i++) *reg_s(&s->run, e->scalars.items[i].reg) = e->scalars.items[i].value;
}

static void write_registers(reed_session *s, bool restore) {
  const epoch_entry *e = s->epoch.entry;
  ref *base = &s->run.r.items[frame_top(&s->run)->r_base];
  for (size_t i = 0; i < e->writes.n; i++) {
    const epoch_write *write = &e->writes.items[i];
    ref *r = &base[write->reg];
    if (restore) {
      ref_clear(&s->run.objects, r);
      *r = write->value;
      storage_retain(r->t.storage);
      if (r->object) r->object->n_references++;
    }
    if (write->root >= 0) {
      const epoch_root *root = &e->roots.items[write->root];
      storage *block = s->epoch.root_storages.items[root->top];
      storage_retain(block);
      r->t.storage = block;
      const storage *memory =
          block ? block : s->devices.items[root->device].arena; /* no arena: all its roots are empty */
      /* the slot of an empty root may lie behind the arena's end */
      r->t.data = memory ? (char *)memory->data + (root->bytes ? root->offset : 0) + write->at : NULL;
    }
    if (write->bound) {
      output_destination *w = &s->bindings.outputs[write->bound - 1];
      storage_retain(&w->place);
      r->t.storage = &w->place;
      r->t.data = w->place.data;
    }
    if (write->extent_root >= 0) {
      storage *block = s->epoch.root_storages.items[write->extent_root];
      storage_retain(block);
      r->extent_storage = block;
      r->extent = (int64_t *)block->data + write->extent_index;
    }
  }
}

reed_status epoch_place(reed_session *s, bool restore) {
  const epoch_entry *e = s->epoch.entry;
  s->epoch.kernel_cursor = s->epoch.copy_cursor = 0;
  reed_status status = place_begin(s, e->roots.n);
  for (size_t i = 0; i < e->roots.n && status == REED_OK; i++) status = place_root(s, (uint32_t)i);
  if (status == REED_OK) write_registers(s, restore);
  place_end(s);
  return status;
}
