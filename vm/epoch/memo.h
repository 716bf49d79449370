/* The memo of epochs: for each epoch and key, an entry with the epoch's shapes, kernels and memory plan. The number and
 * bytes of entries are bounded. How a key is formed: key.c; how an entry is made: plan.c.
 *
 * Admission. Many keys never come back. So the entry of a new key is on trial: its key's second sight admits it. Each
 * epoch has a few entries on trial, and the oldest of them goes first. A mark of its key stays: eight bytes, with which
 * the key is admitted when it comes again. Of the admitted entries the least recently used go first. An entry that no
 * run has used for long goes, too, so that keys which came twice by chance do not fill the memo in the end.
 *
 * Hits by capacity. A cache that grows in place within its memory has another length in each step. An entry whose key
 * differs in such lengths alone is renewed: it gets the new lengths in its place, by the calls that read them.
 *
 * Invariant: a remembered entry is complete (planned), and its key holds everything on which its contents depend. */
#ifndef VM_EPOCH_MEMO_H_
#define VM_EPOCH_MEMO_H_

#include "allocator/plan.h"
#include "base/vec.h"
#include "vm/devices.h"
#include "vm/epoch/marks.h"
#include "vm/epoch/reserve.h"
#include "vm/object.h"
#include "vm/site.h"

/* A piece of memory of an entry's tensors: an interval of an arena, a block of storage, or a part of another root (an
 * input of Concat that is computed in its place in the output). Registers that alias (views, in-place) share one root.
 */
typedef struct epoch_root {
  int32_t device;
  bool outlives; /* true: storage of its own, because the tensor outlives the epoch; false: an interval of the arena */
  uint32_t returned; /* the output that it may become, + 1: its storage comes from the outputs' store or is the caller's
                        memory; 0: its storage comes from the pool */
  int32_t returned_write; /* the write whose register may become that output */
  int32_t first, last;    /* steps of the run section in which the root is live */
  int64_t bytes;
  bool bounded;   /* the root holds a tensor at its bound, of which perhaps only the beginning is written */
  bool fullest;   /* live at the fullest step of its arena's layout (plan_figures) */
  bool copied;    /* a copy to an accelerator may read the root until the epoch's end, so the root is not overwritten */
  int32_t inside; /* the root that holds this one at its byte `at`, with a higher index; -1: none */
  int32_t top;    /* the outermost root that holds this one, or itself */
  int64_t at;
  int64_t offset; /* of this root in the arena, or in top's storage */
} epoch_root;

/* A register that the shape section wrote, and its memory in the run section. */
typedef struct epoch_write {
  uint32_t reg;
  int32_t root; /* holds the register's elements from byte `at` on; -1: `value` is complete (host value, constant) */
  int64_t at;
  int32_t extent_root; /* holds the extent that the register's kernel reports, as item extent_index; -1: extents are
                          exact */
  int32_t extent_index;
  uint32_t bound; /* root -1: the register grows in the memory bound to this output, + 1 (append.h); 0: it does not */
  bool changed;   /* the shape section gave the register another content than the base had */
  ref value;      /* with counted references of the entry's own */
} epoch_write;

typedef struct epoch_scalar {
  uint32_t reg;
  int64_t value;
} epoch_scalar;

typedef struct epoch_kernel {
  site_kernel *prepared; /* with a reference of the entry's */
  uint32_t site;
  int32_t n_roots;        /* roots of the plan before this kernel's */
  int32_t workspace_root; /* -1: none */
  int32_t extent_root;    /* -1: none */
  bool counted;           /* some input's extent is reported by its kernel */
  bool made;              /* the plan had to prepare the kernel */
} epoch_kernel;

/* A copy from the host to an accelerator. The copy reads the host's arena: the bytes lie there already, or the run
 * section puts them into a slot. */
typedef struct epoch_copy {
  int32_t source; /* root of the bytes; -1: memory from outside the epoch */
  int32_t slot;   /* root into which the bytes are put first; -1: the source lies in the arena */
} epoch_copy;

enum { ENTRY_KEYS = 256 }; /* only of an epoch with fewer keys entries have variants */

/* The shapes, kernels and memory plan of one epoch under one key. */
typedef struct epoch_entry {
  struct epoch_entry *newer, *older;  /* global least-recently-used list */
  struct epoch_entry *after, *before; /* of the same epoch, on trial as this one or admitted as this one: those that
                                         were used next before and after it */
  struct epoch_entry *next;           /* of the same chain (epoch_memo.chains), or of the retired entries */
  int64_t used;                       /* when it was used last, by epoch_memo.time */
  int64_t run;                        /* the run that used it last, by epoch_memo.runs */
  uint32_t epoch;
  uint64_t hash;
  int64_t *key;
  size_t n_key;
  uint64_t changed_keys[ENTRY_KEYS / 64]; /* keys whose parts were not the base's; none: there was no base */
  int32_t n_changed;                      /* writes that have changed */
  VEC_OF(epoch_write) writes;
  VEC_OF(epoch_scalar) scalars;
  VEC_OF(epoch_root) roots;
  VEC_OF(epoch_kernel) kernels;       /* in the order of the run section */
  VEC_OF(epoch_copy) copies;          /* in the order of the run section */
  VEC_OF(storage *) values;           /* memory of the host values that the shape section computed */
  VEC_OF(site_kernel *) host_kernels; /* of the shape section, in its order; one reference each */
  plan_figures arenas[MODULE_MAX_DEVICES];
  int32_t n_dense; /* dense copies of operands with room in front of kernels */
  int64_t dense_bytes;
  int32_t n_shape_functions, n_kernels;
  int32_t n_repeated;        /* shape functions whose results came from the base (active.h) */
  int32_t n_shared;          /* kernels that were prepared before */
  int64_t shared_bytes;      /* of these kernels */
  struct replay *replay;     /* the run section as a list of calls (replay.h); NULL: none yet, or not_for_lists */
  graph_list graphs;         /* of the run section's launches on accelerators (stretch.h) */
  bool not_for_lists;        /* the interpreter has to execute the run section */
  int64_t bytes;             /* host memory of the entry without its kernels, for the memo's bound */
  bool rooms;                /* some input of its run had room (append.h) */
  bool rewritten;            /* the shape section wrote a register twice, so the entry cannot be the base of another */
  bool remembered;           /* true: in the memo; false: freed after the next synchronisation */
  struct epoch_entry *whole; /* of a variant (variant.h), which has the content of the whole's places only, in the
                                order in which the places list them; NULL: the entry is complete */
  struct variant_places *places;   /* of a whole, which is in no list of the memo; NULL: the entry is no whole */
  struct variant_content *content; /* of a variant; NULL: the entry is complete, or being made */
  int64_t trial_bytes;             /* on trial: the bytes by which the entry made the memo larger; 0: admitted */
} epoch_entry;

static inline bool entry_key_changed(const epoch_entry *e, uint32_t key) {
  return e->changed_keys[key / 64] >> key % 64 & 1;
}

/* The last arena layouts of an epoch, the one used last first; used again if every root of a new plan fits its slot
 * (layout.c). */
#define EPOCH_LAYOUTS 4
typedef struct epoch_layout {
  struct layout_root *roots; /* NULL: none yet */
  size_t n_roots;
  plan_figures arenas[MODULE_MAX_DEVICES];
} epoch_layout;

/* Entries by last use. */
typedef struct entry_list {
  epoch_entry *newest, *oldest;
} entry_list;

typedef struct epoch_state {
  entry_list admitted, on_trial;
  int32_t n_entries, n_trials; /* n_trials: of the entries, those on trial */
  epoch_layout layouts[EPOCH_LAYOUTS];
  int32_t wait, waits;       /* misses until the next attempt at a variant, and how many they were last */
  epoch_entry *unremembered; /* the last one that was not remembered, kept for its kernels; NULL: none */
  bool has_jobs;             /* the last run section had jobs that were worth waking helper threads (base/team.h) */
} epoch_state;

/* Why the memo had no entry for a key. */
#define MEMO_MISS_LIST(X) \
  X(SIZE, "size")          /* the run's inputs have extents that the session has not met */ \
  X(COUNT, "count")        /* it has met them: a number of boxes is new, or elements that the key has */ \
  X(EVICTED, "evicted")    /* the key's entry was admitted, and went */ \
  X(TRIAL, "not admitted") /* the key's entry was on trial, and went */ \
  X(LARGE, "too large")    /* keys with so many elements are not remembered */ \
  X(LENGTH, "length")      /* only lengths of caches that grow in place differ from the last entry's, and the entry \
                              could not be renewed */
typedef enum memo_miss {
#define MEMO_MISS_ENUM_(name, text) MEMO_MISS_##name,
  MEMO_MISS_LIST(MEMO_MISS_ENUM_)
#undef MEMO_MISS_ENUM_
      MEMO_MISSES
} memo_miss;

enum {
  MEMO_CHAINS = 256,
  MEMO_IDLE_RUNS = 512 /* an entry that so many runs in a row have not used goes */
};

typedef struct epoch_memo {
  epoch_state *epochs; /* per module epoch */
  size_t n_epochs;
  epoch_entry *newest, *oldest;     /* all remembered entries */
  epoch_entry *chains[MEMO_CHAINS]; /* the remembered entries by their keys' hashes, so that a search touches few */
  int64_t time;                     /* uses of entries so far */
  int64_t runs;                     /* that have ended */
  epoch_entry *retired; /* evicted or never remembered: freed a few at a time when no work is queued (linked by next) */
  marks tried, evicted; /* keys whose entries went on trial; those whose entries went admitted */
  marks sizes;          /* extents of inputs that the session has met */
  bool sizes_are_new;   /* those of the run in progress had no mark in `sizes` */
  int64_t misses_before; /* figures.misses at the end of the last run */
  heap_reserve reserve;
  int64_t most_bytes;             /* the most bytes that the memo had at the end of a run */
  int64_t max_entries, max_bytes; /* entries of one epoch, bytes of all */
  object_heap *objects;           /* of the registers that entries keep */
  site_kernels *kernels;          /* the table of the kernels that entries use */
  struct {
    int64_t hits, replays /* hits from a list of calls */, renewed /* hits by capacity (memo_renew) */, misses,
        evictions, entries, bytes, layouts_reused, variants /* misses that made one (variant.h) */;
    int64_t missed[MEMO_MISSES]; /* misses by reason */
    int64_t trials, trial_bytes; /* entries on trial now */
    int64_t admitted;            /* entries that were admitted so far */
    int64_t freed_bytes;         /* of freed entries whose place no new entry has taken, since the heap was trimmed */
  } figures;
} epoch_memo;

/* The entry of the key, which is admitted and becomes the most recently used; NULL: none. */
epoch_entry *memo_find(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key);
/* Begins a run whose inputs have these extents. */
void memo_meet_inputs(epoch_memo *memo, reed_tensor *const *inputs, size_t n_inputs);
/* Ends a run, after which at most one entry goes that no run has used for long. several_sizes: the session has met more
 * than one size, so that new entries are to be expected. */
void memo_end_run(epoch_memo *memo, bool several_sizes);
/* Counts a miss and tells why there is no entry for the key. memoizable false: the key is not remembered. lengths: the
 * key differs from the last entry's in lengths of caches alone. */
memo_miss memo_count_miss(epoch_memo *memo, uint32_t epoch, uint64_t hash, bool memoizable, bool lengths);
/* The epoch's entry that was used last; NULL: none. */
epoch_entry *memo_latest(const epoch_memo *memo, uint32_t epoch);
/* The entry of the key for a question: its key has not come again. */
epoch_entry *memo_peek(epoch_memo *memo, uint32_t epoch, uint64_t hash, const int64_t *key, size_t n_key);
/* Puts a planned entry under its key, on trial or admitted, and evicts others over the bounds. device_busy: kernels of
 * entries may be queued, so that evicted ones stay until the next synchronisation. */
void memo_remember(epoch_memo *memo, epoch_entry *e, bool device_busy);
/* Counts `bytes` more for the entry that memo_find has found last, and evicts others over the bounds. */
void memo_add_bytes(epoch_memo *memo, epoch_entry *e, int64_t bytes, bool device_busy);
/* Divides an entry that the memo has (variant.h): it keeps the content of the places, all else goes to `whole`, which
 * is zeroed. On failure, which is for lack of memory, nothing has changed. */
bool memo_divide(epoch_memo *memo, epoch_entry *e, epoch_entry *whole, struct variant_places *places) REED_MUST_CHECK;
/* A hit by the capacity of caches: gives a remembered variant the key and content of `made`, a variant of its whole
 * that is not remembered, has a key of as many words, and is freed. No work may be queued on a device. */
void memo_renew(epoch_memo *memo, epoch_entry *e, epoch_entry *made);
/* Takes an entry that is not remembered and frees it after the next synchronisation, because its kernels may be queued
 * on a device. */
void memo_retire(epoch_memo *memo, epoch_entry *e);
/* Takes an entry that is not remembered and keeps it until the epoch's next one, because kernels are shared with it. */
void memo_keep_unremembered(epoch_memo *memo, epoch_entry *e);
/* Frees a few of the retired entries, so that no run pays for many at once. For this function, memo_forget and
 * memo_fini no work may be queued on a device. */
void memo_free_retired(epoch_memo *memo);
/* Frees all entries and layouts of arenas, because they may need more memory than those of a new session. */
void memo_forget(epoch_memo *memo);
void memo_fini(epoch_memo *memo);
/* Frees an entry that was never given to the memo. */
void memo_free_entry(epoch_memo *memo, epoch_entry *e);

#endif
