/* A hash table of item numbers. The items themselves lie in an array of the caller; the caller's table_same compares an
 * item with a wanted one.
 *
 * Open addressing with linear probing, at most three quarters full; removal moves later items up, so that no slot is
 * ever a tombstone. */
#ifndef BASE_TABLE_H_
#define BASE_TABLE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_NONE UINT32_MAX

typedef struct table_slot {
  uint64_t hash;
  uint32_t item; /* the item's number + 1; 0: the slot is free */
} table_slot;

/* A zeroed table is empty. */
typedef struct table {
  table_slot *slots;  /* owned; NULL while empty. Static slots serve a table that never grows and is never freed */
  size_t capacity, n; /* capacity: 0 or a power of two */
} table;

/* True if item number `item` equals `wanted`. Called only for items with the wanted hash. */
typedef bool table_same(const void *context, uint32_t item, const void *wanted);

/* The number of the item that has the hash and equals `wanted`; TABLE_NONE: no such item. */
uint32_t table_find(const table *t, uint64_t hash, table_same *same, const void *context, const void *wanted);
/* The number of the first item that has the hash, whatever it equals; TABLE_NONE: no such item. */
uint32_t table_first(const table *t, uint64_t hash);
/* Fetches the memory with which a search for the hash begins into the CPU's caches. */
static inline void table_prefetch(const table *t, uint64_t hash) {
  if (t->capacity) __builtin_prefetch(&t->slots[hash & (t->capacity - 1)]);
}
/* Makes room for n items in all. False: no memory, and the table is unchanged. */
bool table_reserve(table *t, size_t n);
/* Adds an item that is not in the table. False: no memory, which does not happen after table_reserve. */
bool table_add(table *t, uint64_t hash, uint32_t item);
/* Removes an item that was added with this hash. */
void table_remove(table *t, uint64_t hash, uint32_t item);
void table_fini(table *t);

#endif
