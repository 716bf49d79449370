/* Which operators may be steps of a fused program (members.h). */
#include "compiler/passes/fuse/members.h"

#include <math.h>

#include "ops/fused.h"

#define SMALL_ELEMENTS 64

static bool is_float(reed_dtype dtype) { return dtype >= REED_F32 && dtype <= REED_BF16; }

bool member_is_small(const ir_value *v) {
  reed_desc d;
  return ir_desc(v, &d) && desc_elements(&d) <= SMALL_ELEMENTS;
}

int32_t member_steps(const ir_node *n) { return n->op->inputs[0].variadic ? n->n_inputs - 1 : 1; }

/* True for a bound of Clip: absent, or one element that does not widen `like`. */
static bool is_bound(const ir_value *v, const ir_value *like) {
  reed_desc d;
  return !v || (ir_desc(v, &d) && desc_elements(&d) == 1 && d.rank <= like->type.rank);
}

bool member_may_join(const ir_node *n) {
  const ir_value *y = n->n_outputs == 1 ? n->outputs[0] : NULL;
  if (n->dead || !y || !op_has(n->op, OP_PROPERTY_FUSABLE) || n->n_attrs > FUSED_ATTRS || member_steps(n) < 1)
    return false;
  if (y->type.rank < 0 || y->type.dtype == REED_NONE || y->elements || member_is_small(y)) return false;
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && n->inputs[i]->type.dtype == REED_NONE) return false;
  reed_dtype first = n->inputs[0]->type.dtype;
  if (n->op == op_builtin(OP_Clip)) {
    for (int32_t i = 1; i < n->n_inputs; i++)
      if (!is_bound(n->inputs[i], y)) return false;
  }
  if (n->op == op_builtin(OP_Pow) && (!is_float(first) || n->inputs[1]->type.dtype != first)) return false;
  /* division of integers may fail, and its error should name the operator */
  bool divides = n->op == op_builtin(OP_Div) || n->op == op_builtin(OP_Mod);
  return !divides || is_float(first);
}

ir_value *member_no_bound(ir_module *m, reed_dtype dtype, bool least) {
  uint64_t element = 0;
  reed_dtype_write(dtype, &element, least ? -INFINITY : INFINITY);
  return ir_constant(m, &(reed_desc){.dtype = dtype}, &element, false, NULL);
}
