/* Registers, sites, constants and kills, for the emission of epochs, Loops and main (emit.h). */
#include "compiler/lower/emit.h"

#include <string.h>

#include "base/dtype.h"
#include "ops/packed.h"

/* ---- registers ---- */

uint32_t lower_take_r(lower *l) { return l->free_r.n ? l->free_r.items[--l->free_r.n] : l->n_r++; }

static void free_r(lower *l, uint32_t reg) {
  if (!VEC_PUSH(&l->free_r, reg)) l->no_memory = true;
}

uint32_t lower_reg(lower *l, flow_version *x) {
  if (x->reg == FLOW_NO_REGISTER) x->reg = lower_take_r(l);
  return x->reg;
}

void lower_kill_r(lower *l, uint32_t reg) {
  EMIT(l, kill, NULL, .victim = reg);
  free_r(l, reg);
}

void lower_kill(lower *l, flow_version *x) {
  EMIT(l, kill, NULL, .victim = x->reg);
  if (!x->pinned) free_r(l, x->reg);
}

void lower_kill_list(lower *l, flow_version *list) {
  for (; list; list = list->next_kill)
    if (list->reg != FLOW_NO_REGISTER) lower_kill(l, list);
}

void lower_sync(lower *l) {
  if (l->unsynced) EMIT(l, sync, NULL, 0);
  l->unsynced = false;
}

/* ---- sites and constants ---- */

/* Attributes equal to the default in the operator's row are left out, because a program completes its sites when it is
 * opened. */
uint32_t lower_site(lower *l, const ir_node *n) {
  uint32_t *site = &l->sites[n->id];
  if (*site) return *site - 1;
  VEC_OF(reed_attr) attrs = {0};
  for (int32_t i = 0; i < n->n_attrs; i++)
    if (!op_attr_is_default(n->op, &n->attrs[i]) && !VEC_PUSH(&attrs, n->attrs[i])) l->no_memory = true;
  *site = 1 + module_add_site(l->b, n->op->domain, n->op->name, n->name, attrs.items, (int32_t)attrs.n, n->n_inputs,
                              n->n_outputs);
  VEC_FREE(&attrs);
  reed_attrs whole = ir_attrs(n);
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  capability_call call = ir_call(n, &whole, dtypes);
  module_set_site_dtypes(l->b, *site - 1, call.dtypes);
  return *site - 1;
}

/* ---- constants ---- */

static size_t pack(const void *value, size_t at, void *elements) {
  const ir_value *v = value;
  return packed_pack_part(v->packed, v->data, at, elements);
}

void lower_constant_to(lower *l, uint32_t reg, const ir_value *v, int32_t device) {
  flow_value *value = &l->f.values[v->id];
  if (!value->constant) {
    reed_desc desc = {.dtype = v->type.dtype, .rank = v->type.rank};
    memcpy(desc.dims, v->type.dims, sizeof desc.dims);
    value->constant = 1 + (v->packed ? module_add_made_constant(l->b, &desc, pack, v, v->name)
                                     : module_add_constant(l->b, &desc, v->data, v->name, true));
  }
  EMIT(l, const, NULL, .dst = reg, .constant = value->constant - 1, .device = (uint32_t)device);
}

uint32_t lower_constant(lower *l, const ir_value *v, int32_t device) {
  uint32_t reg = lower_take_r(l);
  lower_constant_to(l, reg, v, device);
  return reg;
}

void lower_empty_to(lower *l, uint32_t reg, int32_t device) {
  reed_desc empty = {.dtype = REED_U8, .rank = 1, .dims = {0}};
  EMIT(l, const, NULL, .dst = reg, .constant = module_add_constant(l->b, &empty, "", "empty", false),
       .device = (uint32_t)device);
}

int64_t lower_constant_item(const ir_value *v) { return dtype_read_integer(v->type.dtype, v->data); }
