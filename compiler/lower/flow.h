/* The flow of a module: when each operator runs and where each value lives. epochs.c makes the flow from the placed
 * module (place.h); lower*.c emit it as bytecode; docs/epochs.md explains it.
 *
 * The flow consists of blocks, items and versions. A *root* block is the main graph or the body of a Loop, and has
 * epochs of its own. A *branch* block is one side of an If, and shares the epochs of its root. An item is one step of a
 * block (an operator, a copy, an If, a Loop) and has a time. A version is a value on one device, and becomes a
 * register. All memory belongs to the ir_module's arena except the vectors, which flow_fini frees. */
#ifndef COMPILER_LOWER_FLOW_H_
#define COMPILER_LOWER_FLOW_H_

#include "base/vec.h"
#include "bytecode/module.h"
#include "compiler/lower/place.h"

/* ---- times ----
 * Each epoch of a root has three times, one a slot. Epoch -1 stands for the time before the first epoch. */
enum {
  SLOT_EPOCH,
  SLOT_FETCH /* read-backs and extents fetched after the epoch */,
  SLOT_LOOP /* Loops after the fetches, and the read-backs of their results */
};
#define FLOW_END INT32_MAX /* the time at which the results of main, or of a Loop's body, are used */
static inline int32_t flow_time(int32_t epoch, int slot) { return 3 * (epoch + 1) + slot; }
static inline int32_t flow_epoch(int32_t time) { return time / 3 - 1; }
static inline int flow_slot(int32_t time) { return time % 3; }

typedef struct flow_block flow_block;
typedef struct flow_item flow_item;

/* A value on one device, in one register. */
typedef struct flow_version {
  ir_value *value;  /* NULL: an unused output that the kernel must write */
  flow_block *home; /* the block that defines it */
  int32_t device;
  int32_t time, order; /* of its definition */
  int32_t known;       /* first epoch of its root in whose shape section its extents are known */
  int32_t elements;    /* on the host: first epoch in whose shape section its elements may be read */
  int32_t ready;       /* epoch after which a Loop may use it; -1: at once */
  bool bounded;        /* a kernel reports its extent along bounded_axis */
  int32_t bounded_axis;
  uint32_t factor;              /* of a bounded version: its extent is the count times this */
  struct flow_version *counter; /* the version whose count this one has: itself where its kernel reports the count */
  bool fetched;                 /* an item fetches the extent to the host */
  bool filled;                  /* the run section of its epoch gives it memory */
  bool late;                    /* on the host, and computed in the run section of its epoch */
  bool pinned;                  /* keeps its register for the whole of the Loop: a carried value */
  bool killed_in_run;           /* its last use is in the run section of its own epoch, so its memory is in the arena */
  struct flow_version *memory;  /* union-find: versions that share memory by views */
  int32_t last_of_memory;       /* at the root of the union: the latest use of any of its versions */
  int32_t first, last, last_order; /* times of the first and last use, as seen from home; order of the last use in the
                                      run section of its own epoch */
  struct flow_version *next_kill;
  uint32_t reg; /* FLOW_NO_REGISTER until emitted */
  uint32_t key; /* index in the keys of epoch key_epoch */
  int64_t key_epoch;
} flow_version;
#define FLOW_NO_REGISTER UINT32_MAX

typedef enum flow_kind { FLOW_OP, FLOW_COPY, FLOW_FETCH, FLOW_EXTENT, FLOW_IF, FLOW_LOOP } flow_kind;

struct flow_item {
  flow_kind kind;
  flow_block *block;
  int32_t time, order; /* of an If: the time of its condition */
  int32_t number;      /* items are numbered in the order of their making */
  ir_node *node;       /* OP, IF, LOOP; of COPY and FETCH the consumer of the target, of EXTENT the producer */
  int32_t input;       /* of COPY and FETCH: the number of the consumer's input */
  copy_reason reason;
  const char *why;               /* of EXTENT: why the host needs it */
  flow_version *source, *target; /* COPY, FETCH; EXTENT: target. IF: source is the condition (NULL: constant) */
  bool reports;                  /* OP: its kernel reports a count that follows from its inputs' counts */
  flow_version **outputs;        /* OP: n_outputs, NULL: absent; IF: joins; LOOP: results (NULL unused) */
  /* IF */
  flow_block *branches[2]; /* then, else */
  uint32_t condition;      /* scalar register */
  /* LOOP */
  flow_block *body;
  flow_version **params; /* n_params of the body; NULL: unused */
  int32_t need;          /* the epoch after which every value that the body captures is ready */
};

/* An item at one of its times: an If has several. In a branch, the entry of order FLOW_END whose item is the If itself
 * stands for the If's joins at that time. */
typedef struct flow_entry {
  int32_t time, order;
  flow_item *item;
  flow_version *kills; /* versions to kill after the item, in the run section */
} flow_entry;

struct flow_block {
  ir_graph *graph;
  flow_item *owner; /* the If or Loop; NULL: main */
  flow_block *root; /* itself for roots */
  int polarity;     /* of a branch: 0 then, 1 else */
  int32_t floor; /* no operator of the block runs before this epoch, because the conditions of the Ifs around it are not
                    known earlier */
  VEC_OF(flow_item *) items;
  VEC_OF(flow_entry) entries; /* by time, then order */
  /* roots only */
  int32_t n_epochs;
  VEC_OF(flow_version *) versions; /* versions whose home is this block or a branch of it */
  flow_version **kills;            /* by time, up to the last boundary's: the versions that die then */
  flow_version *end_kills;         /* versions that die at FLOW_END */
};

/* The versions and registers of an ir_value. */
typedef struct flow_value {
  flow_version *on[2];   /* by device */
  uint32_t constant;     /* index of the constant in the module + 1; 0: not yet added */
  uint32_t const_reg[2]; /* registers of the constant, by device, in epoch const_epoch */
  int64_t const_epoch[2];
} flow_value;

typedef struct flow {
  ir_module *m;
  reed_diagnosis *diagnosis;
  place_counts placed;
  flow_value *values; /* by value id */
  flow_block *main;
  int32_t next_order, n_items;
  int32_t n_at_bound; /* operators that run at the bound of a counted input */
  VEC_OF(flow_block *) blocks;
} flow;

/* Cuts the placed module into epochs: sets every item's time and every version's last use. After a failure the caller
 * calls flow_fini too. */
reed_status flow_cut(flow *f) REED_MUST_CHECK;
/* Frees the vectors of all blocks. */
void flow_fini(flow *f);
/* The entries of the block at that time: [*out_begin, *out_end). */
void flow_entries_at(const flow_block *b, int32_t time, size_t *out_begin, size_t *out_end);
/* True when a shape section reads the elements of operand i of n, because the shape function does or because n is an
 * early operator. */
bool flow_reads_elements(const ir_node *n, int32_t i);
/* The device on which n uses operand i (not absent): the host where a shape section reads its elements, otherwise n's
 * own device. */
int32_t flow_operand_device(const ir_node *n, int32_t i);
/* The version that an operator's operand uses; NULL for absent and constant ones. */
flow_version *flow_operand(const flow *f, const flow_item *item, int32_t i);
/* True for an operator that runs no kernel: output 0 is input 0 with other extents. */
bool flow_item_is_view(const flow_item *item);
/* The version that result i of a Loop's body has at the end of a turn; NULL for constants and unused scan outputs. */
flow_version *flow_loop_result(const flow *f, const flow_item *loop, int32_t i);

#endif
