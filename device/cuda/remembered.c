/* Items that are found by their key (remembered.h). */
#include "device/cuda/remembered.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static bool same_key(const void *context, uint32_t item, const void *wanted) {
  const remembered_items *of = context;
  return memcmp((const char *)of->items.items[item] + of->key_at, wanted, of->key_bytes) == 0;
}

remembered *remembered_find(remembered_items *of, const void *key) {
  const uint32_t found = table_find(&of->by_key, hash_bytes(key, of->key_bytes, 0), same_key, of, key);
  if (found == TABLE_NONE) return NULL;
  of->items.items[found]->used = ++of->n_uses;
  return of->items.items[found];
}

static void drop(remembered_items *of, remembered *item) {
  if (of->drop) of->drop(of->context, item);
  mem_free(item);
}

/* The item that was used longest ago. A walk over all of them, next to which making a plan takes long. */
static uint32_t oldest(const remembered_items *of) {
  uint32_t found = 0;
  for (uint32_t i = 1; i < of->items.n; i++)
    if (of->items.items[i]->used < of->items.items[found]->used) found = i;
  return found;
}

remembered *remembered_add(remembered_items *of, const void *key) {
  remembered *made = NULL;
  if (!table_reserve(&of->by_key, of->items.n + 1) || !VEC_ROOM(&of->items) || !(made = mem_calloc(1, of->item_bytes)))
    return NULL;
  uint32_t item = (uint32_t)of->items.n;
  if (of->most && of->items.n == of->most) { /* graphs do not need the plan that their launches were made from */
    item = oldest(of);
    table_remove(&of->by_key, of->items.items[item]->hash, item);
    drop(of, of->items.items[item]);
  } else {
    of->items.n++;
  }
  made->hash = hash_bytes(key, of->key_bytes, 0);
  made->used = ++of->n_uses;
  memcpy((char *)made + of->key_at, key, of->key_bytes);
  of->items.items[item] = made;
  (void)table_add(&of->by_key, made->hash, item); /* the room is there */
  return made;
}

/* Drops and frees all items. */
static void remembered_fini(remembered_items *of) {
  for (size_t i = 0; i < of->items.n; i++) drop(of, of->items.items[i]);
  VEC_FREE(&of->items);
  table_fini(&of->by_key);
}

void library_memory_init(library_memory *of, bool always, size_t key_bytes, size_t plan_bytes, size_t habit_bytes,
                         void (*drop_plan)(void *context, remembered *plan), void *context) {
  of->always = always;
  of->plans = (remembered_items){.item_bytes = plan_bytes,
                                 .key_at = sizeof(remembered),
                                 .key_bytes = key_bytes,
                                 .most = LIBRARY_MOST_PLANS,
                                 .drop = drop_plan,
                                 .context = context};
  of->habits = (remembered_items){.item_bytes = habit_bytes, .key_at = sizeof(remembered), .key_bytes = key_bytes};
}

void library_memory_fini(library_memory *of) {
  remembered_fini(&of->plans);
  remembered_fini(&of->habits);
}

bool library_is_there(library_memory *of, bool (*find)(void *context)) {
  if (of->search == LIBRARY_NOT_SOUGHT) of->search = find(of->plans.context) ? LIBRARY_FOUND : LIBRARY_MISSING;
  return of->search == LIBRARY_FOUND;
}
