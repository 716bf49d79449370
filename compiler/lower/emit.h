/* The state of emission, shared by lower_epoch.c (epochs), lower_loop.c (Loops) and lower.c (function main): registers,
 * sites, constants and single instructions. The flow that they emit is in flow.h. */
#ifndef COMPILER_LOWER_EMIT_H_
#define COMPILER_LOWER_EMIT_H_

#include "base/vec.h"
#include "bytecode/emit.h"
#include "compiler/lower/flow.h"

/* For the report: the counts of an epoch, and an item fetched at the boundary after an epoch. */
typedef struct lower_note {
  const flow_block *root;
  int32_t epoch; /* index in the module; -1: a boundary before any epoch */
  int32_t n_shapes, n_host_kernels, n_kernels, n_views, n_copies, n_keys;
  int32_t n_late_kernels; /* of n_kernels: on the host */
} lower_note;
typedef struct lower_fetch {
  int32_t epoch; /* the boundary after this epoch */
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
  int64_t epoch; /* serial number of the epoch; constants and keys of other epochs are not valid in it */
  int32_t time;
  const flow_block *root;
  VEC_OF(uint32_t) keys, scalar_keys;
  VEC_OF(uint32_t) const_regs;
  uint32_t empty[2]; /* by device: register of an empty tensor, or FLOW_NO_REGISTER */
  bool unsynced;     /* an instruction has started work that no `sync` has waited for */
  VEC_OF(lower_note) notes;
  VEC_OF(lower_fetch) fetches;
} lower;

/* A free register, or a new one. */
uint32_t lower_take_r(lower *l);
/* The register of x, taken on first use. */
uint32_t lower_reg(lower *l, flow_version *x);
/* Emits `kill` for x's register and frees the register, unless x is pinned. */
void lower_kill(lower *l, flow_version *x);
/* Emits `kill` for the register and frees it. */
void lower_kill_r(lower *l, uint32_t reg);
/* Kills the versions of a list, in the order of the list. */
void lower_kill_list(lower *l, flow_version *list);
/* The index of the node's site, which is added to the module on first use. */
uint32_t lower_site(lower *l, const ir_node *n);
/* Emits `const` of v on the device into a register that is taken here. Returns the register. */
uint32_t lower_constant(lower *l, const ir_value *v, int32_t device);
void lower_constant_to(lower *l, uint32_t reg, const ir_value *v, int32_t device);
/* Emits `const` of an empty tensor into reg: registers of a path not taken hold empty tensors. */
void lower_empty_to(lower *l, uint32_t reg, int32_t device);
/* Emits one instruction, operands by name: EMIT(l, view, node, .dst = to, .src = from). */
#define EMIT(l, op, node, ...) insn_emit_##op((l)->b, node, (insn_##op){__VA_ARGS__})
/* Emits `sync` where started work has not been waited for. */
void lower_sync(lower *l);
/* The element of a constant of one element, of integer or bool dtype. */
int64_t lower_constant_item(const ir_value *v);

#endif
