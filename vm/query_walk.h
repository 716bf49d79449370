/* Shapes without a run: a walk over function main that runs shape functions on numbers and symbols. It runs only the
 * kernels of shape sections whose operands are known. The walk has registers of its own. */
#ifndef VM_QUERY_WALK_H_
#define VM_QUERY_WALK_H_

#include "bytecode/operands.h"
#include "shapefuncs/symbols.h"
#include "vm/state.h"

typedef enum query_kind {
  QUERY_NOTHING, /* nothing is known of the register */
  QUERY_NONE,    /* an absent optional */
  QUERY_TENSOR,
  QUERY_SEQUENCE /* dtype, rank and dims are those of its items; rank -1: items differ */
} query_kind;

/* A register. Dims are numbers, or symbols where only a kernel knows the extent; a symbol's range has the bound. */
typedef struct query_ref {
  query_kind kind;
  reed_dtype dtype; /* REED_NONE: unknown */
  int32_t rank;     /* -1: unknown */
  reed_dim dims[REED_MAX_RANK];
  const void *data;         /* the elements on the host; NULL: unknown */
  int32_t device, constant; /* as ref.t.device, ref.constant */
  uint8_t resident;         /* as ref.resident */
  uint32_t section;         /* the shape section that wrote the register */
  int64_t n_items;          /* of a sequence */
  reed_dim rows;            /* sum of the items' first extents */
} query_ref;

typedef struct query_scalar {
  bool known;
  int64_t value;
} query_scalar;

typedef struct query {
  reed_session *s;
  reed_symbols *symbols;
  query_ref *r;
  query_scalar *scalars;
  uint32_t n_r, n_s, section;
  VEC_OF(void *) blocks; /* elements that the walk has computed */
} query;

/* True if all extents are numbers; *out_desc is the descriptor then. */
bool query_desc(const query_ref *r, reed_desc *out_desc);
/* Memory that lives as long as the query; NULL: none. */
void *query_memory(query *q, int64_t bytes);
/* The instructions that call operators. A failure is one that a run would have, too, or lack of memory; a call that
 * fails only because something is unknown makes its outputs unknown. */
reed_status query_shape(query *q, const insn_shape *i) REED_MUST_CHECK;
reed_status query_invoke(query *q, const insn_invoke *i, bool in_shape_section) REED_MUST_CHECK;
/* Restores the registers of a memo entry for the key of the epoch. False: something in the key is unknown, or the memo
 * has no such entry. */
bool query_recall(query *q, const insn_epoch_enter *enter);

#endif
