/* The run section of a memo entry as a flat list of kernel calls with their pointers. How it is made and run: replay.h.
 *
 * A pointer of a list is one of five kinds. The pointer to a constant or to a host value of the shape section never
 * changes. A pointer into the arena is written again when the arena has another address. Pointers into storage of the
 * run, into memory of the epoch's keys and into bound memory are written in every run. */
#ifndef VM_EPOCH_REPLAY_LIST_H_
#define VM_EPOCH_REPLAY_LIST_H_

#include "base/vec.h"
#include "reed/operator.h"
#include "vm/object.h"

typedef enum place_kind {
  PLACE_NULL,
  PLACE_FIXED, /* memory that the entry keeps: `source` is the write that has it */
  PLACE_ARENA, /* byte `at` of the host's arena */
  PLACE_BLOCK, /* byte `at` of the storage of roots[source] */
  PLACE_KEY,   /* the memory of the tensor in register `source` */
  PLACE_BOUND  /* the memory bound to output `source`, in which it grows */
} place_kind;

typedef struct place {
  place_kind kind;
  uint32_t source;
  int64_t at;
} place;

/* One kernel. The indices are positions in the list's pointers; position 0 is NULL. */
typedef struct replay_call {
  reed_kernel_run_fn run;
  const void *state;
  uint32_t inputs, outputs, workspace, extents;
  uint32_t input_extents; /* 0: no input has a counted extent */
  uint32_t pc;            /* the `invoke` */
} replay_call;

/* A pointer that is written again: at a new arena, or in every run. */
typedef struct replay_pointer {
  uint32_t index; /* in the list's pointers */
  uint32_t source;
  int64_t at;
} replay_pointer;

/* A register that the shape section writes and that is alive at `next`. */
typedef struct replay_kept {
  uint32_t write;
  ref_kind kind; /* at the end of the section */
  place data, extent;
} replay_kept;

typedef struct replay {
  VEC_OF(replay_call) calls;
  VEC_OF(void *) pointers;
  VEC_OF(replay_pointer) in_arena, in_blocks, in_keys, in_bound;
  VEC_OF(replay_pointer) fixed; /* to host values of the shape section */
  VEC_OF(uint32_t) roots;       /* of the entry: those with storage of their own */
  VEC_OF(replay_kept) kept;
  VEC_OF(uint32_t) dead_writes; /* registers that the shape section writes and that are dead at `next` */
  VEC_OF(uint32_t) dead_keys;   /* other registers that the run section kills */
  const void *arena;            /* to which the pointers of in_arena lead; NULL: to none yet */
  uint32_t end;                 /* the word of `epoch.end` */
  uint32_t next;                /* where the run goes on after it: behind kills that the list has made needless */
  int64_t n_instructions;       /* of the section and of these kills, without `epoch.end` */
} replay;

/* Frees the list and nulls. */
void replay_free(struct replay **list);
/* Gives unused capacity back to the heap; returns the bytes of the list. */
int64_t replay_fit(replay *list);

#endif
