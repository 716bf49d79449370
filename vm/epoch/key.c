/* Forming and hashing keys of epochs. Finding an entry by its key: memo.c. */
#include "vm/epoch/key.h"

#include <string.h>

#include "base/desc.h"

#define KEY_MAX_VALUE_BYTES 65536 /* with larger `value` elements an epoch is not memoized */

#define KEY_HAS_ROOM ((int64_t)1 << 15) /* in a part's first word, above the rank: two words follow the extents */

static reed_status key_push(epoch_active *active, const void *words, size_t n_bytes, reed_diagnosis *diagnosis) {
  size_t n = (n_bytes + 7) / 8;
  if (!VEC_RESERVE(&active->key, active->key.n + n)) return diag_no_memory(diagnosis, "epoch key");
  if (n) active->key.items[active->key.n + n - 1] = 0;
  if (n_bytes) memcpy(active->key.items + active->key.n, words, n_bytes);
  active->key.n += n;
  return REED_OK;
}

reed_status key_add_tensor(epoch_active *active, const ref *r, bool value, int64_t *value_bytes,
                           reed_diagnosis *diagnosis) {
  const reed_desc *desc = &r->t.desc;
  int64_t head = (int64_t)desc->dtype | (int64_t)desc->rank << 8 | (int64_t)r->t.device << 16 |
                 (int64_t)r->resident << 24 | (int64_t)r->constant << 32;
  if (r->t.room) head |= KEY_HAS_ROOM;
  reed_status status = key_push(active, &head, sizeof head, diagnosis);
  if (status == REED_OK) status = key_push(active, desc->dims, sizeof(int64_t) * (size_t)desc->rank, diagnosis);
  const int64_t room[2] = {r->t.room, (int64_t)r->t.room_axis << 32 | (int64_t)r->t.cache};
  if (status == REED_OK && r->t.room) status = key_push(active, room, sizeof room, diagnosis);
  if (status == REED_OK && value && key_is_memoizable(*value_bytes += r->bytes))
    status = key_push(active, r->t.data, (size_t)r->bytes, diagnosis);
  return status;
}

reed_status key_add_scalar(epoch_active *active, int64_t value, reed_diagnosis *diagnosis) {
  return key_push(active, &value, sizeof value, diagnosis);
}

bool key_is_memoizable(int64_t value_bytes) { return value_bytes <= KEY_MAX_VALUE_BYTES; }

reed_status key_form(vm_run *run, epoch_active *active, const insn_epoch_enter *enter, bool *out_memoizable) {
  int64_t value_bytes = 0;
  active->key.n = 0;
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    uint32_t number = INSN_REGISTER(enter->keys[i]);
    const ref *r = reg_r(run, number);
    if (r->kind != REF_STORED)
      return diag_fail(run->diagnosis, REED_ERROR_TYPE, "key r%u of epoch %u is no stored tensor", number,
                       enter->epoch);
    bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE;
    if (value && r->t.device != 0)
      return diag_fail(run->diagnosis, REED_ERROR_DEVICE,
                       "key r%u of epoch %u is read on the host but lies on a device", number, enter->epoch);
    reed_status status = key_add_tensor(active, r, value, &value_bytes, run->diagnosis);
    if (status != REED_OK) return status;
  }
  for (uint32_t i = 0; i < enter->n_scalar_keys; i++) {
    reed_status status = key_add_scalar(active, *reg_s(run, enter->scalar_keys[i]), run->diagnosis);
    if (status != REED_OK) return status;
  }
  *out_memoizable = key_is_memoizable(value_bytes);
  return REED_OK;
}

/* Words of the part that begins with this head and these extents. */
static size_t part_words(const int64_t *part, bool value) {
  reed_desc desc = {.dtype = (reed_dtype)(part[0] & 0xff), .rank = (int32_t)(part[0] >> 8 & 0x7f)};
  size_t n = 1 + (size_t)desc.rank + (part[0] & KEY_HAS_ROOM ? 2 : 0);
  memcpy(desc.dims, part + 1, sizeof(int64_t) * (size_t)desc.rank);
  return value ? n + (size_t)(desc_bytes(&desc) + 7) / 8 : n;
}

void key_note_changes(epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base) {
  const int64_t *now = active->key.items, *before = base->key;
  for (uint32_t i = 0; i < enter->n_keys; i++) active->notes[INSN_REGISTER(enter->keys[i])].changed = false;
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE;
    size_t n = part_words(now, value), n_before = part_words(before, value);
    bool changed = n != n_before || memcmp(now, before, n * sizeof(int64_t)) != 0;
    active->notes[INSN_REGISTER(enter->keys[i])].changed |= changed; /* a register may be listed twice */
    now += n;
    before += n_before;
  }
}

/* True if the rooms of two parts with equal heads differ. */
static bool room_differs(const int64_t *now, const int64_t *before) {
  size_t rank = (size_t)(*now >> 8 & 0x7f);
  return (*now & KEY_HAS_ROOM) && memcmp(now + 1 + rank, before + 1 + rank, 2 * sizeof(int64_t)) != 0;
}

bool key_find_changes(const epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base,
                      uint64_t *out_changed) {
  const int64_t *now = active->key.items, *before = base->key;
  if (enter->n_keys > ENTRY_KEYS) return false;
  memset(out_changed, 0, ENTRY_KEYS / 8);
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE;
    if (*now != *before || room_differs(now, before)) return false;
    size_t n = part_words(now, value), n_before = part_words(before, value);
    bool changed = n != n_before || memcmp(now, before, n * sizeof(int64_t)) != 0;
    out_changed[i / 64] |= (uint64_t)changed << i % 64;
    now += n;
    before += n_before;
  }
  return memcmp(now, before, enter->n_scalar_keys * sizeof(int64_t)) == 0;
}

/* True if the parts are those of a cache that grows in place, and differ in its length alone: by *out_more. */
static bool cache_grows(const int64_t *now, const int64_t *before, int64_t *out_more) {
  size_t rank = (size_t)(*now >> 8 & 0x7f);
  if (!(*now & KEY_HAS_ROOM) || !(int32_t)now[rank + 2]) return false;
  for (size_t k = 0; k < rank; k++)
    if ((int64_t)k == now[rank + 2] >> 32) *out_more = now[1 + k] - before[1 + k];
    else if (now[1 + k] != before[1 + k]) return false;
  return true;
}

/* True if the parts' extents are equal, or differ by `more`. */
static bool grows_with_caches(const int64_t *now, const int64_t *before, int64_t more) {
  if (*now & KEY_HAS_ROOM) return false;
  for (size_t k = 0; k < (size_t)(*now >> 8 & 0x7f); k++)
    if (now[1 + k] != before[1 + k] && now[1 + k] - before[1 + k] != more) return false;
  return true;
}

bool key_lengths_changed(const epoch_active *active, const insn_epoch_enter *enter, const epoch_entry *base,
                         const uint64_t *changed) {
  int64_t more = 0, of_cache = 0;
  for (int others = 0; others < 2; others++) { /* the caches first: they say by how much other parts may differ */
    const int64_t *now = active->key.items, *before = base->key;
    for (uint32_t i = 0; i < enter->n_keys; i++) {
      bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE, differs = changed[i / 64] >> i % 64 & 1;
      bool grows = differs && !value && cache_grows(now, before, &of_cache);
      if (grows && !others) more = of_cache;
      if (differs && !grows && others && (value || !more || !grows_with_caches(now, before, more))) return false;
      now += part_words(now, value);
      before += part_words(before, value);
    }
  }
  return more != 0;
}

/* True if the parts of two tensors have equal heads, extents and rooms, and both grow in place or neither does. */
static bool parts_alike(const int64_t *a, const int64_t *b) {
  size_t n = 1 + (size_t)(*a >> 8 & 0x7f);
  if (*a != *b || memcmp(a, b, n * sizeof(int64_t)) != 0) return false;
  if (!(*a & KEY_HAS_ROOM)) return true;
  const int64_t *room = a + n, *other = b + n;
  return room[0] == other[0] && room[1] >> 32 == other[1] >> 32 && !(int32_t)room[1] == !(int32_t)other[1];
}

uint32_t key_first_alike(const int64_t *key, const insn_epoch_enter *enter, uint32_t n) {
  const int64_t *parts[ENTRY_KEYS];
  for (uint32_t i = 0; i <= n; i++) {
    parts[i] = key;
    key += part_words(key, INSN_READS(enter->keys[i]) & REED_READS_VALUE);
  }
  for (uint32_t i = 0; i < n; i++)
    if (parts_alike(parts[i], parts[n])) return i;
  return n;
}

bool key_parts_alike(const int64_t *key, const insn_epoch_enter *enter, const uint16_t *alike) {
  const int64_t *parts[ENTRY_KEYS];
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    parts[i] = key;
    if (alike[i] != i && !parts_alike(parts[alike[i]], key)) return false;
    key += part_words(key, INSN_READS(enter->keys[i]) & REED_READS_VALUE);
  }
  return true;
}

/* Multiply-xorshift over the words (the finaliser of MurmurHash3, Appleby, public domain constants). */
uint64_t key_hash(const int64_t *key, size_t n) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ n;
  for (size_t i = 0; i < n; i++) {
    h ^= (uint64_t)key[i];
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
  }
  return h;
}
