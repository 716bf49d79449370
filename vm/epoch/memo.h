/* The memo of epochs: all that is known of an epoch under one key, kept least recently used first, bounded in number
 * and bytes. How a key is formed: key.c; how an entry is made: plan.c.
 *
 * Invariant: a remembered entry is complete (it has been planned) and its key holds everything its contents depend on.
 */
#ifndef VM_EPOCH_MEMO_H_
#define VM_EPOCH_MEMO_H_

#include "allocator/plan.h"
#include "base/vec.h"
#include "vm/devices.h"
#include "vm/object.h"

/* What a memo entry's tensors share: an interval of an arena, a block of storage, or a part of another root (an input
 * that was born in its place in what joins it). Registers that alias (views, in-place) share one root. */
typedef struct epoch_root {
  int32_t device;
  bool outlives; /* storage of its own; else arena */
  bool returned; /* then of the outputs' store; else of the pool */
  int32_t first, last;
  int64_t bytes;
  bool copied;    /* a copy to an accelerator reads it until the epoch's end: nothing may be written in its place */
  int32_t inside; /* a later root that this one is a part of, at byte `at`; -1: none */
  int32_t top;    /* the root that has the memory: the last one inside which this is, or itself */
  int64_t at;
  int64_t offset; /* of this root in the arena, or in top's storage */
} epoch_root;

/* A register that the shape section wrote. root -1: `value` is complete as it is (host value, constant, none); else its
 * memory is that root's. */
typedef struct epoch_write {
  uint32_t reg;
  int32_t root;
  int64_t at;          /* byte of the root */
  int32_t extent_root; /* -1: exact */
  int32_t extent_index;
  ref value; /* counted references of the entry's own */
} epoch_write;

typedef struct epoch_scalar {
  uint32_t reg;
  int64_t value;
} epoch_scalar;

typedef struct epoch_kernel {
  reed_kernel kernel;
  uint32_t site;
  int32_t workspace_root; /* -1: none */
  int32_t extent_root;    /* -1: none */
  bool counted;           /* some input's extent is known to its kernel only */
} epoch_kernel;

/* A copy from the host to an accelerator. Its bytes wait in the host's arena, where they lie already or where the run
 * section puts them. */
typedef struct epoch_copy {
  int32_t source; /* root of the bytes; -1: memory from outside the epoch */
  int32_t slot;   /* root that they are put into first; -1: they lie in the arena */
} epoch_copy;

/* Everything known of one epoch under one key. */
typedef struct epoch_entry {
  struct epoch_entry *newer, *older; /* global least-recently-used list */
  struct epoch_entry *next;          /* same epoch, most recent first */
  uint32_t epoch;
  uint64_t hash;
  int64_t *key;
  size_t n_key;
  VEC_OF(epoch_write) writes;
  VEC_OF(epoch_scalar) scalars;
  VEC_OF(epoch_root) roots;
  VEC_OF(epoch_kernel) kernels; /* in the order of the run section, as the copies */
  VEC_OF(epoch_copy) copies;
  VEC_OF(storage *) values; /* memory of the host values that the shape section computed */
  plan_figures arenas[MODULE_MAX_DEVICES];
  int32_t n_shape_functions, n_kernels;
  int64_t bytes;   /* of the entry itself, for the memo's bound */
  bool remembered; /* in the memo; else it lives until the next synchronisation */
} epoch_entry;

/* The last arena layout of an epoch: serves again whenever every tensor fits its slot. */
typedef struct epoch_layout {
  epoch_root *roots;
  size_t n_roots;
  plan_figures arenas[MODULE_MAX_DEVICES];
} epoch_layout;

typedef struct epoch_state {
  epoch_entry *entries;
  int32_t n_entries;
  epoch_layout layout;
} epoch_state;

typedef struct epoch_memo {
  epoch_state *epochs; /* per module epoch */
  size_t n_epochs;
  epoch_entry *newest, *oldest; /* all remembered entries */
  epoch_entry *retired;         /* evicted or never remembered: freed after the next synchronisation (linked by next) */
  int64_t max_entries, max_bytes; /* entries of one epoch, bytes of all */
  object_heap *objects;           /* of the registers that entries keep */
  struct {
    int64_t hits, misses, evictions, entries, bytes, layouts_reused, freed_bytes /* since the heap was trimmed */;
  } figures;
} epoch_memo;

/* The entry of that key, which is the most recently used from then on; NULL: none. */
epoch_entry *memo_find(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key);
/* Puts a planned entry under its key, evicting the least recently used ones over the bounds. device_busy: kernels of
 * entries may be queued, so that evicted ones stay until the next synchronisation. */
void memo_remember(epoch_memo *memo, epoch_entry *e, bool device_busy);
/* Takes an entry that is not remembered; kernels of it may be queued on a device. */
void memo_retire(epoch_memo *memo, epoch_entry *e);
/* No work may be queued on a device, here and below. */
void memo_free_retired(epoch_memo *memo);
void memo_forget(epoch_memo *memo);
void memo_fini(epoch_memo *memo);
/* An entry that was never given to the memo. */
void memo_free_entry(epoch_memo *memo, epoch_entry *e);

#endif
