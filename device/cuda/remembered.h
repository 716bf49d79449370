/* Items that are found by their key: plans of a library's calls, and the choices that were measured. */
#ifndef DEVICE_CUDA_REMEMBERED_H_
#define DEVICE_CUDA_REMEMBERED_H_

#include "base/table.h"
#include "base/vec.h"

/* The kernel that carries a call out. */
typedef enum library_choice { CHOICE_UNKNOWN, CHOICE_OWN, CHOICE_LIBRARY } library_choice;

/* The first member of every item. */
typedef struct remembered {
  uint64_t hash, used;
  library_choice choice;
} remembered;

typedef struct remembered_items {
  size_t item_bytes, key_at, key_bytes;          /* the key's bytes lie in the item, from key_at on */
  size_t most;                                   /* then the item that was used longest ago makes room; 0: no limit */
  void (*drop)(void *context, remembered *item); /* NULL: an item owns nothing */
  void *context;
  VEC_OF(remembered *) items;
  table by_key;
  uint64_t n_uses;
} remembered_items;

/* The item of the key; NULL: there is none. */
remembered *remembered_find(remembered_items *of, const void *key);
/* A zeroed item with the key, which has none. NULL: no memory. */
remembered *remembered_add(remembered_items *of, const void *key);
/* Drops and frees all items. */
void remembered_fini(remembered_items *of);

#endif
