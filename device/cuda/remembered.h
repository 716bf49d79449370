/* Items that are found by their key: plans of a library's calls, and the choices that were measured. */
#ifndef DEVICE_CUDA_REMEMBERED_H_
#define DEVICE_CUDA_REMEMBERED_H_

#include <stdbool.h>

#include "base/table.h"
#include "base/vec.h"

enum { LIBRARY_MOST_PLANS = 1024 };

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

typedef enum library_search { LIBRARY_NOT_SOUGHT, LIBRARY_FOUND, LIBRARY_MISSING } library_search;

/* The calls of a library that are remembered: a plan for all extents of a call, and by kind of call the choice that was
 * measured. Items of both lists have the key right behind their head. */
typedef struct library_memory {
  bool always; /* plans are taken without a measurement */
  library_search search;
  remembered_items plans, habits;
} library_memory;

/* Sets the lists up, empty. `drop` frees what a plan owns; it gets `context`. */
void library_memory_init(library_memory *of, bool always, size_t key_bytes, size_t plan_bytes, size_t habit_bytes,
                         void (*drop)(void *context, remembered *plan), void *context);
void library_memory_fini(library_memory *of);
/* True if the library is there. At the first call `find` looks for it, and gets the plans' context. */
bool library_is_there(library_memory *of, bool (*find)(void *context));
/* The item of the key; NULL: there is none. */
remembered *remembered_find(remembered_items *of, const void *key);
/* A zeroed item with the key, which has none. NULL: no memory. */
remembered *remembered_add(remembered_items *of, const void *key);

#endif
