/* The state of emission, and its parts that epochs (lower_epoch.c), Loops (lower_loop.c) and the whole (lower.c) share:
 * registers, sites, constants, single instructions. */
#ifndef COMPILER_LOWER_EMIT_H_
#define COMPILER_LOWER_EMIT_H_

#include "base/vec.h"
#include "bytecode/emit.h"
#include "compiler/lower/flow.h"

/* For the report: an epoch, and what was fetched at the boundary behind it. */
typedef struct lower_note {
  const flow_block *root;
  int32_t epoch; /* index in the module; UINT32_MAX as -1: a boundary before any epoch */
  int32_t n_shapes, n_host_kernels, n_kernels, n_views, n_copies, n_keys;
  int32_t n_late_kernels; /* of n_kernels: on the host */
} lower_note;
typedef struct lower_fetch {
  int32_t epoch; /* after which */
  const flow_item *item;
} lower_fetch;

typedef struct lower {
  flow f;
  module_builder *b;
  bool no_memory;
  uint32_t *sites; /* by node id: index + 1; 0: not yet made */
  uint32_t n_r, n_s, n_epochs;
  VEC_OF(uint32_t) free_r;
  /* the epoch being emitted */
  int64_t epoch; /* its serial number; constants and keys of another one do not count */
  int32_t time;
  const flow_block *root;
  VEC_OF(uint32_t) keys, scalar_keys;
  VEC_OF(uint32_t) const_regs;
  uint32_t empty[2]; /* by device: register of an empty tensor, or FLOW_NO_REGISTER */
  bool unsynced;     /* something was started that no sync has finished */
  VEC_OF(lower_note) notes;
  VEC_OF(lower_fetch) fetches;
} lower;

uint32_t lower_take_r(lower *l);
void lower_free_r(lower *l, uint32_t reg);
/* The register of x, taken on first use. */
uint32_t lower_reg(lower *l, flow_version *x);
/* `kill`, and the register is free again unless it is pinned. */
void lower_kill(lower *l, flow_version *x);
void lower_kill_r(lower *l, uint32_t reg);
/* Kills of a list, in the order of their making. */
void lower_kill_list(lower *l, flow_version *list);
uint32_t lower_site(lower *l, const ir_node *n);
/* `const reg, v, device`; reg is taken and returned. */
uint32_t lower_constant(lower *l, const ir_value *v, int32_t device);
void lower_constant_to(lower *l, uint32_t reg, const ir_value *v, int32_t device);
/* `const reg` of an empty tensor: what a register of a path not taken holds. */
void lower_empty_to(lower *l, uint32_t reg, int32_t device);
/* One instruction, operands by name: EMIT(l, view, node, .dst = to, .src = from). */
#define EMIT(l, op, node, ...) insn_emit_##op((l)->b, node, (insn_##op){__VA_ARGS__})
/* `sync` where something was started that none has finished. */
void lower_sync(lower *l);
/* The one element of a constant of integer or bool dtype. */
int64_t lower_constant_item(const ir_value *v);

#endif
