/* Hash tables of item numbers (table.h): open addressing, growth and removal. */
#include "base/table.h"

#include "base/mem.h"

#define CAPACITY_FIRST 64

uint32_t table_find(const table *t, uint64_t hash, table_same *same, const void *context, const void *wanted) {
  if (!t->capacity) return TABLE_NONE;
  size_t mask = t->capacity - 1;
  for (size_t k = hash & mask; t->slots[k].item; k = (k + 1) & mask)
    if (t->slots[k].hash == hash && same(context, t->slots[k].item - 1, wanted)) return t->slots[k].item - 1;
  return TABLE_NONE;
}

uint32_t table_first(const table *t, uint64_t hash) {
  if (!t->capacity) return TABLE_NONE;
  size_t mask = t->capacity - 1;
  for (size_t k = hash & mask; t->slots[k].item; k = (k + 1) & mask)
    if (t->slots[k].hash == hash) return t->slots[k].item - 1;
  return TABLE_NONE;
}

static void put(table_slot *slots, size_t capacity, table_slot slot) {
  size_t k = slot.hash & (capacity - 1);
  while (slots[k].item) k = (k + 1) & (capacity - 1);
  slots[k] = slot;
}

bool table_reserve(table *t, size_t n) {
  size_t capacity = t->capacity ? t->capacity : CAPACITY_FIRST;
  while (capacity / 4 * 3 < n) capacity *= 2;
  if (capacity == t->capacity) return true;
  table_slot *slots = mem_calloc(capacity, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < t->capacity; i++)
    if (t->slots[i].item) put(slots, capacity, t->slots[i]);
  mem_free(t->slots);
  t->slots = slots;
  t->capacity = capacity;
  return true;
}

bool table_add(table *t, uint64_t hash, uint32_t item) {
  if (!table_reserve(t, t->n + 1)) return false;
  put(t->slots, t->capacity, (table_slot){hash, item + 1});
  t->n++;
  return true;
}

/* Knuth, TAOCP 3, 6.4, algorithm R: an item after the gap moves into it unless its own place lies between the two. */
void table_remove(table *t, uint64_t hash, uint32_t item) {
  if (!t->capacity) return;
  size_t mask = t->capacity - 1, gap = hash & mask;
  while (t->slots[gap].item && t->slots[gap].item != item + 1) gap = (gap + 1) & mask;
  if (!t->slots[gap].item) return;
  for (size_t k = (gap + 1) & mask; t->slots[k].item; k = (k + 1) & mask) {
    size_t home = t->slots[k].hash & mask;
    if (((k - home) & mask) < ((k - gap) & mask)) continue;
    t->slots[gap] = t->slots[k];
    gap = k;
  }
  t->slots[gap] = (table_slot){0};
  t->n--;
}

void table_fini(table *t) {
  mem_free(t->slots);
  *t = (table){0};
}
