/* Epochs: entering (key, memo), noting what a shape section writes, placing memory for a run, leaving. The plan itself:
 * epoch_plan.c.
 *
 * Invariant: a remembered entry is complete (it has been planned) and its key holds everything its contents depend on:
 * extents and dtypes of all key registers, elements of those flagged `value`, and the scalar keys. */
#include "vm/epoch/epoch.h"

#include <string.h>

#define ARENA_KEPT_BYTES \
  ((int64_t)1 << 20) /* an arena up to this size stays for the next epoch however small that one's is */
#define TRIM_SHARE 4 /* the heap is trimmed whenever entries of this part of the memo's bytes have been freed */
#define KERNEL_STATE_BYTES 512    /* of a kernel that does not say what it holds */
#define KEY_MAX_VALUE_BYTES 65536 /* larger `value` elements are not worth comparing: plan such an epoch each time */

/* ---- keys ---- */

static reed_status key_push(reed_session *s, const void *words, size_t n_bytes) {
  size_t n = (n_bytes + 7) / 8;
  while (s->key.n + n > s->key.capacity)
    if (!mem_vec_grow((void **)&s->key.items, &s->key.capacity, s->key.n + n, sizeof(int64_t)))
      return diag_no_memory(s->diagnosis, "epoch key");
  if (n) s->key.items[s->key.n + n - 1] = 0;
  if (n_bytes) memcpy(s->key.items + s->key.n, words, n_bytes);
  s->key.n += n;
  return REED_OK;
}

/* epoch.enter EPOCH LABEL RFS_IN SUS. *out_memoizable false: elements too many to compare. */
static reed_status form_key(reed_session *s, const uint32_t *w, bool *out_memoizable) {
  uint32_t n_keys = w[3], n_scalars = w[4 + n_keys];
  const uint32_t *keys = w + 4, *scalars = w + 5 + n_keys;
  int64_t value_bytes = 0;
  s->key.n = 0;
  for (uint32_t i = 0; i < n_keys; i++) {
    const ref *r = reg_r(s, INSN_REGISTER(keys[i]));
    if (r->kind != REF_STORED)
      return diag_fail(s->diagnosis, REED_ERROR_TYPE, "key r%u of epoch %u is no stored tensor", INSN_REGISTER(keys[i]),
                       w[1]);
    const reed_desc *desc = &r->t.desc;
    bool value = INSN_READS(keys[i]) & REED_READS_VALUE;
    if (value && r->t.device != 0)
      return diag_fail(s->diagnosis, REED_ERROR_DEVICE, "key r%u of epoch %u is read on the host but lies on a device",
                       INSN_REGISTER(keys[i]), w[1]);
    int64_t head =
        (int64_t)desc->dtype | (int64_t)desc->rank << 8 | (int64_t)r->t.device << 16 | (int64_t)r->constant << 32;
    reed_status status = key_push(s, &head, sizeof head);
    if (status == REED_OK) status = key_push(s, desc->dims, sizeof(int64_t) * (size_t)desc->rank);
    if (status == REED_OK && value && (value_bytes += r->bytes) <= KEY_MAX_VALUE_BYTES)
      status = key_push(s, r->t.data, (size_t)r->bytes);
    if (status != REED_OK) return status;
  }
  for (uint32_t i = 0; i < n_scalars; i++) {
    reed_status status = key_push(s, reg_s(s, scalars[i]), sizeof(int64_t));
    if (status != REED_OK) return status;
  }
  *out_memoizable = value_bytes <= KEY_MAX_VALUE_BYTES;
  return REED_OK;
}

/* Multiply-xorshift over the words (the finaliser of MurmurHash3, Appleby, public domain constants). */
static uint64_t key_hash(const int64_t *key, size_t n) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ n;
  for (size_t i = 0; i < n; i++) {
    h ^= (uint64_t)key[i];
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
  }
  return h;
}

/* ---- entries ---- */

static void entry_free(reed_session *s, epoch_entry *e) {
  s->memo.freed_bytes += e->bytes;
  for (size_t i = 0; i < e->writes.n; i++) ref_clear(&s->objects, &e->writes.items[i].value);
  for (size_t i = 0; i < e->kernels.n; i++)
    if (e->kernels.items[i].kernel.free) e->kernels.items[i].kernel.free(e->kernels.items[i].kernel.state);
  for (size_t i = 0; i < e->values.n; i++) storage_release(e->values.items[i]);
  VEC_FREE(&e->writes);
  VEC_FREE(&e->scalars);
  VEC_FREE(&e->roots);
  VEC_FREE(&e->kernels);
  VEC_FREE(&e->values);
  mem_free(e->key);
  mem_free(e);
}

static void unlink_global(reed_session *s, epoch_entry *e) {
  *(e->newer ? &e->newer->older : &s->newest) = e->older;
  *(e->older ? &e->older->newer : &s->oldest) = e->newer;
  e->newer = e->older = NULL;
}

static void link_newest(reed_session *s, epoch_entry *e) {
  e->older = s->newest;
  e->newer = NULL;
  *(s->newest ? &s->newest->newer : &s->oldest) = e;
  s->newest = e;
}

/* Kernels of the entry may be queued on a device: it is freed at the next synchronisation. */
static void retire(reed_session *s, epoch_entry *e) {
  e->next = s->retired;
  s->retired = e;
}

void epoch_free_retired(reed_session *s) {
  while (s->retired) {
    epoch_entry *e = s->retired;
    s->retired = e->next;
    entry_free(s, e);
  }
  /* Entries are thousands of small blocks of many sizes, and those that follow do not fit where these were */
  if (s->memo.freed_bytes <= s->memo_max_bytes / TRIM_SHARE) return;
  s->memo.freed_bytes = 0;
  mem_trim();
}

static void evict(reed_session *s, epoch_entry *e) {
  epoch_state *state = &s->epochs[e->epoch];
  for (epoch_entry **at = &state->entries; *at; at = &(*at)->next)
    if (*at == e) {
      *at = e->next;
      break;
    }
  state->n_entries--;
  unlink_global(s, e);
  s->memo.evictions++;
  s->memo.entries--;
  s->memo.bytes -= e->bytes;
  e->remembered = false;
  retire(s, e);
}

/* Least recently used first: of the epoch's own entries when they are too many, of all when they are too large. Never
 * the newest. */
static void evict_to_bounds(reed_session *s, epoch_entry *newest) {
  epoch_state *state = &s->epochs[newest->epoch];
  while (state->n_entries > s->memo_max_entries) {
    epoch_entry *last = state->entries;
    while (last->next) last = last->next;
    if (last == newest) break;
    evict(s, last);
  }
  while (s->memo.bytes > s->memo_max_bytes && s->oldest != newest) evict(s, s->oldest);
  if (!s->device_busy) epoch_free_retired(s);
}

static int64_t entry_bytes(const epoch_entry *e) {
  int64_t bytes = (int64_t)(sizeof *e + e->n_key * sizeof(int64_t) + e->writes.capacity * sizeof(epoch_write) +
                            e->scalars.capacity * sizeof(epoch_scalar) + e->roots.capacity * sizeof(epoch_root) +
                            e->kernels.capacity * sizeof(epoch_kernel));
  for (size_t i = 0; i < e->values.n; i++) bytes += e->values.items[i]->bytes;
  for (size_t i = 0; i < e->kernels.n; i++) bytes += KERNEL_STATE_BYTES + e->kernels.items[i].kernel.state_bytes;
  return bytes;
}

void epoch_remember(reed_session *s, epoch_entry *e) {
  epoch_state *state = &s->epochs[e->epoch];
  VEC_FIT(&e->writes);
  VEC_FIT(&e->scalars);
  VEC_FIT(&e->roots);
  VEC_FIT(&e->kernels);
  VEC_FIT(&e->values);
  e->bytes = entry_bytes(e);
  e->remembered = true;
  e->next = state->entries;
  state->entries = e;
  state->n_entries++;
  link_newest(s, e);
  s->memo.entries++;
  s->memo.bytes += e->bytes;
  evict_to_bounds(s, e);
}

/* ---- entering ---- */

static epoch_entry *find(reed_session *s, uint32_t epoch, uint64_t hash) {
  for (epoch_entry **at = &s->epochs[epoch].entries; *at; at = &(*at)->next) {
    epoch_entry *e = *at;
    if (e->hash != hash || e->n_key != s->key.n || memcmp(e->key, s->key.items, s->key.n * sizeof(int64_t)) != 0)
      continue;
    *at = e->next; /* most recent first */
    e->next = s->epochs[epoch].entries;
    s->epochs[epoch].entries = e;
    if (s->newest != e) {
      unlink_global(s, e);
      link_newest(s, e);
    }
    return e;
  }
  return NULL;
}

static reed_status start_entry(reed_session *s, uint32_t epoch, uint64_t hash, bool memoizable) {
  epoch_entry *e = mem_calloc(1, sizeof *e);
  int64_t *key = e ? mem_copy(s->key.items, s->key.n * sizeof(int64_t)) : NULL;
  if (!key) {
    mem_free(e);
    return diag_no_memory(s->diagnosis, "memo entry of an epoch");
  }
  *e = (epoch_entry){.epoch = epoch, .hash = hash, .key = key, .n_key = s->key.n, .remembered = memoizable};
  uint32_t n_r = frame_top(s)->function->n_r, n_stamps = n_r + frame_top(s)->function->n_s;
  if (s->n_stamps < n_stamps) {
    uint32_t *grown = mem_resize(s->stamps, n_stamps, sizeof *grown);
    if (!grown) {
      entry_free(s, e);
      return diag_no_memory(s->diagnosis, "registers of an epoch");
    }
    memset(grown + s->n_stamps, 0, (n_stamps - s->n_stamps) * sizeof *grown);
    s->stamps = grown;
    s->n_stamps = n_stamps;
  }
  if (++s->stamp == 0) {
    memset(s->stamps, 0, s->n_stamps * sizeof *s->stamps);
    s->stamp = 1;
  }
  s->current = e;
  s->in_shape_section = true;
  s->value_chunk = NULL;
  s->value_used = 0;
  return REED_OK;
}

reed_status epoch_enter(reed_session *s, const uint32_t *w, bool *out_hit) {
  uint32_t epoch = w[1];
  bool memoizable = false;
  profile_epoch *note = profile_note_epoch(&s->profile, epoch);
  int64_t begin = clock_now_ns();
  if (note) note->begin_ns = begin;
  reed_status status = form_key(s, w, &memoizable);
  if (status != REED_OK) return status;
  uint64_t hash = key_hash(s->key.items, s->key.n);
  epoch_entry *e = memoizable ? find(s, epoch, hash) : NULL;
  *out_hit = e != NULL;
  if (!e) {
    s->memo.misses++;
    status = start_entry(s, epoch, hash, memoizable);
  } else {
    s->memo.hits++;
    s->current = e;
    s->in_shape_section = false;
    status = epoch_place(s, true);
  }
  int64_t end = clock_now_ns();
  if (note) {
    note->enter_ns = end - begin;
    note->hit = *out_hit;
  }
  profile_event *event = profile_note(&s->profile, PROFILE_ENTER, epoch, 0);
  if (event) event->span = (device_span){begin, end};
  return status;
}

reed_status epoch_note_write(reed_session *s, uint32_t reg) {
  if (s->stamps[reg] == s->stamp) return REED_OK;
  s->stamps[reg] = s->stamp;
  return VEC_PUSH(&s->current->writes, ((epoch_write){.reg = reg, .root = -1, .extent_root = -1}))
             ? REED_OK
             : diag_no_memory(s->diagnosis, "registers of an epoch");
}

reed_status epoch_note_scalar(reed_session *s, uint32_t reg) {
  uint32_t *stamp = &s->stamps[frame_top(s)->function->n_r + reg];
  if (*stamp == s->stamp) return REED_OK;
  *stamp = s->stamp;
  return VEC_PUSH(&s->current->scalars, ((epoch_scalar){.reg = reg}))
             ? REED_OK
             : diag_no_memory(s->diagnosis, "registers of an epoch");
}

/* ---- host values of a shape section ---- */

static void value_release(storage *block) {
  mem_free_aligned(block->data);
  mem_free(block);
}

reed_status epoch_value_memory(reed_session *s, int64_t bytes, void **out_data, storage **out_storage) {
  int64_t need = (bytes + 63) & ~(int64_t)63;
  if (!s->value_chunk || s->value_used + need > s->value_chunk->bytes) {
    int64_t chunk_bytes = need > 2048 ? need : 2048;
    storage *chunk = mem_alloc(sizeof *chunk);
    void *data = chunk ? mem_alloc_aligned((size_t)chunk_bytes, 64) : NULL;
    if (!data || !VEC_PUSH(&s->current->values, chunk)) {
      mem_free_aligned(data);
      mem_free(chunk);
      return diag_no_memory(s->diagnosis, "host values of an epoch");
    }
    *chunk = (storage){.n_references = 1, .device = 0, .data = data, .bytes = chunk_bytes, .release = value_release};
    s->value_chunk = chunk;
    s->value_used = 0;
  }
  *out_data = (char *)s->value_chunk->data + s->value_used;
  s->value_used += need;
  storage_retain(s->value_chunk);
  storage_release(*out_storage);
  *out_storage = s->value_chunk;
  return REED_OK;
}

/* ---- memory for one run ---- */

/* The arena at hand serves unless it is too small, or so large that what outlives the epoch had better have the rest of
 * it. */
static reed_status ensure_arena(reed_session *s, int32_t device, int64_t bytes) {
  storage **arena = &s->arenas[device];
  int64_t held = *arena ? (*arena)->bytes : 0;
  if (held >= bytes && (held <= ARENA_KEPT_BYTES || held / 2 <= bytes)) return REED_OK;
  /* Freed first: the two need never exist together. The pool keeps stream order. */
  storage_release(*arena);
  *arena = NULL;
  return bytes ? pool_allocate(s->pools[device], bytes, arena, s->diagnosis) : REED_OK;
}

/* Drops the placing's own references (registers hold theirs). */
static void release_roots(reed_session *s) {
  for (size_t i = 0; i < s->root_storages.n; i++) storage_release(s->root_storages.items[i]);
  s->root_storages.n = 0;
}

reed_status epoch_place(reed_session *s, bool restore) {
  epoch_entry *e = s->current;
  s->kernel_cursor = 0;
  for (int32_t d = 0; d < s->n_devices; d++) {
    reed_status status = ensure_arena(s, d, e->arenas[d].bytes);
    if (status != REED_OK) return status;
  }
  while (s->root_storages.capacity < e->roots.n)
    if (!mem_vec_grow((void **)&s->root_storages.items, &s->root_storages.capacity, e->roots.n, sizeof(storage *)))
      return diag_no_memory(s->diagnosis, "storage list of an epoch");
  for (size_t i = 0; i < e->roots.n; i++) {
    storage *block = NULL;
    const epoch_root *root = &e->roots.items[i];
    if (root->outlives && root->inside < 0) {
      reed_status status = session_allocate(s, root->device, root->bytes, root->returned, &block);
      if (status != REED_OK) {
        release_roots(s);
        return status;
      }
    }
    s->root_storages.items[s->root_storages.n++] = block;
  }
  ref *base = &s->r.items[frame_top(s)->r_base];
  for (size_t i = 0; i < e->writes.n; i++) {
    const epoch_write *write = &e->writes.items[i];
    ref *r = &base[write->reg];
    if (restore) {
      ref_clear(&s->objects, r);
      *r = write->value;
      storage_retain(r->t.storage);
      if (r->object) r->object->n_references++;
    }
    if (write->root >= 0) {
      const epoch_root *root = &e->roots.items[write->root];
      storage *block = s->root_storages.items[root->top];
      storage_retain(block);
      r->t.storage = block;
      const storage *memory = block ? block : s->arenas[root->device]; /* no arena: all that would be in it is empty */
      r->t.data = memory ? (char *)memory->data + root->offset + write->at : NULL;
    }
    if (write->extent_root >= 0) {
      storage *block = s->root_storages.items[write->extent_root];
      storage_retain(block);
      r->extent_storage = block;
      r->extent = (int64_t *)block->data + write->extent_index;
    }
  }
  release_roots(s);
  if (restore)
    for (size_t i = 0; i < e->scalars.n; i++) *reg_s(s, e->scalars.items[i].reg) = e->scalars.items[i].value;
  return REED_OK;
}

/* ---- leaving ---- */

/* A memory counter per device, for the trace. */
static void note_memory(reed_session *s, int64_t now) {
  for (int32_t d = 0; s->profile.spans && d < s->n_devices; d++) {
    pool_figures figures;
    pool_read_figures(s->pools[d], &figures);
    profile_event *event = profile_note(&s->profile, PROFILE_MEMORY, UINT32_MAX, (int8_t)d);
    if (event) event->span = (device_span){now, now}, event->bytes = figures.live_bytes;
  }
}

void epoch_end(reed_session *s) {
  epoch_entry *e = s->current;
  s->current = NULL;
  profile *p = &s->profile;
  if (p->epochs.n) {
    profile_epoch *note = &p->epochs.items[p->epochs.n - 1];
    int64_t now = clock_now_ns(), run_begin = note->begin_ns + note->enter_ns + note->shape_ns + note->plan_ns;
    note->run_ns = now - run_begin;
    note->n_shape_functions = e->n_shape_functions;
    note->n_kernels = e->n_kernels;
    for (int32_t d = 0; d < s->n_devices; d++) {
      note->arenas[d].bytes = e->arenas[d].bytes;
      note->arenas[d].without_reuse = e->arenas[d].bytes_without_reuse;
      note->arenas[d].lower_bound = e->arenas[d].lower_bound;
    }
    profile_event *event = profile_note(p, PROFILE_LAUNCH, e->epoch, 0);
    if (event) event->span = (device_span){run_begin, now};
    event = profile_note(p, PROFILE_EPOCH, e->epoch, 0);
    if (event) event->span = (device_span){note->begin_ns, now};
    note_memory(s, now);
  }
  if (!e->remembered) {
    retire(s, e);
    if (!s->device_busy) epoch_free_retired(s);
  }
}

void epoch_abandon(reed_session *s) {
  epoch_entry *e = s->current;
  s->current = NULL;
  if (!e) return;
  bool planned = !s->in_shape_section;
  s->in_shape_section = false;
  s->value_chunk = NULL;
  if (planned && e->remembered) return; /* a complete entry: only this run failed */
  retire(s, e);
}

void epoch_forget(reed_session *s) {
  while (s->oldest) evict(s, s->oldest);
  epoch_free_retired(s);
}

void epoch_fini(reed_session *s) {
  epoch_abandon(s);
  epoch_forget(s);
  for (size_t i = 0; s->epochs && i < s->program->module->n_epochs; i++) mem_free(s->epochs[i].layout.roots);
  mem_free(s->epochs);
  mem_free(s->stamps);
  VEC_FREE(&s->key);
  VEC_FREE(&s->root_storages);
  epoch_planner_close(&s->planner);
}
