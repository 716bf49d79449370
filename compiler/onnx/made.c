/* Nodes that stand for an operator of the model which Reed has no kernel for: scan.c, einsum.c, sequences.c, and the
 * operators of the lists of makers (makers.c). */
#include "base/dtype.h"
#include "compiler/onnx/reader.h"

ir_value *onnx_made(ir_graph *g, ir_node *before, op_id op, ir_value *const *inputs, int32_t n_inputs, const char *attr,
                    int64_t value, ir_value *result) {
  for (int32_t i = 0; i < n_inputs; i++)
    if (!inputs[i]) return NULL; /* an input could not be made */
  ir_node *n = ir_node_new(g, before, op_builtin(op), NULL, inputs, n_inputs, result ? &result : NULL, 1);
  if (!n || (attr && !ir_set_attr_int(n, attr, value))) return NULL;
  const reed_op_output *row = reed_op_output_at(n->op, 0);
  if (!result)
    n->outputs[0]->type.dtype = row->type_rule == REED_TYPE_FIXED ? (reed_dtype)row->type_arg : inputs[0]->type.dtype;
  return n->outputs[0];
}

ir_value *onnx_unary(ir_graph *g, op_id op, ir_value *x) { return onnx_made(g, NULL, op, &x, 1, NULL, 0, NULL); }

ir_value *onnx_binary(ir_graph *g, op_id op, ir_value *a, ir_value *b) {
  return onnx_made(g, NULL, op, (ir_value *[]){a, b}, 2, NULL, 0, NULL);
}

ir_value *onnx_joined(ir_graph *g, ir_value *const *parts, int32_t n, int64_t axis) {
  return onnx_made(g, NULL, OP_Concat, parts, n, "axis", axis, NULL);
}

ir_value *onnx_chosen(ir_graph *g, ir_value *condition, ir_value *yes, ir_value *no) {
  ir_value *y = onnx_made(g, NULL, OP_Where, (ir_value *[]){condition, yes, no}, 3, NULL, 0, NULL);
  if (y) y->type.dtype = yes->type.dtype;
  return y;
}

ir_value *onnx_integer(ir_graph *g, int64_t n) {
  return ir_constant(g->module, &(reed_desc){.dtype = REED_I64}, &n, false, NULL);
}

ir_value *onnx_number(ir_graph *g, double x, reed_dtype dtype) {
  uint64_t bits = 0;
  reed_dtype_write(dtype, &bits, x);
  return ir_constant(g->module, &(reed_desc){.dtype = dtype}, &bits, false, NULL);
}

ir_value *onnx_number_like(ir_graph *g, const ir_value *x, double number) {
  return x ? onnx_number(g, number, x->type.dtype == REED_NONE ? REED_F32 : x->type.dtype) : NULL;
}

ir_value *onnx_cast(ir_graph *g, ir_value *x, reed_dtype to) {
  if (x && x->type.dtype == to) return x;
  ir_value *y = onnx_made(g, NULL, OP_Cast, &x, 1, "to", to, NULL);
  if (y) y->type.dtype = to;
  return y;
}

bool onnx_name_made(ir_graph *g, size_t first, const char *node_name) {
  for (size_t i = first; i < g->nodes.n; i++) {
    ir_node *n = g->nodes.items[i];
    if (!(n->name = ir_text(g->module, "%s/%s_%zu", node_name, n->op->name, i - first))) return false;
  }
  return true;
}

ir_value *onnx_vector(ir_module *m, int64_t first, int64_t n) {
  int64_t numbers[REED_MAX_RANK];
  for (int64_t i = 0; i < n; i++) numbers[i] = first + i;
  return ir_constant_i64(m, numbers, n, NULL);
}

ir_value *onnx_part(ir_graph *g, ir_value *x, int64_t begin, int64_t end) {
  return onnx_made(g, NULL, OP_Slice,
                   (ir_value *[]){x, onnx_vector(g->module, begin, 1), onnx_vector(g->module, end, 1)}, 3, NULL, 0,
                   NULL);
}

ir_value *onnx_single(ir_graph *g, ir_value *x, int64_t rank) {
  return onnx_binary(g, OP_Reshape, onnx_cast(g, x, REED_I64), onnx_vector(g->module, 1, rank));
}

ir_value *onnx_extent(ir_graph *g, ir_value *x, int64_t axis) {
  return onnx_binary(g, OP_Gather, onnx_unary(g, OP_Shape, x), onnx_integer(g, axis));
}

ir_value *onnx_range(ir_graph *g, ir_value *n) {
  return onnx_made(g, NULL, OP_Range, (ir_value *[]){onnx_integer(g, 0), n, onnx_integer(g, 1)}, 3, NULL, 0, NULL);
}

ir_value *onnx_slice(ir_graph *g, ir_value *x, ir_value *begin, ir_value *end, int64_t axis) {
  ir_value *operands[] = {x, begin, end, onnx_vector(g->module, axis, 1)};
  return onnx_made(g, NULL, OP_Slice, operands, 4, NULL, 0, NULL);
}

ir_value *onnx_transposed(ir_graph *g, ir_value *x, const int64_t *perm, int32_t rank, ir_value *result) {
  ir_value *y = onnx_made(g, NULL, OP_Transpose, &x, 1, NULL, 0, result);
  return y && ir_set_attr_ints(y->producer, "perm", perm, rank) ? y : NULL;
}

ir_value *onnx_shaped(ir_graph *g, ir_value *x, ir_value *shape, ir_value *result) {
  return onnx_made(g, NULL, OP_Reshape, (ir_value *[]){x, shape}, 2, "allowzero", 1, result);
}

ir_value *onnx_product(ir_graph *g, ir_value *x) {
  return onnx_made(g, NULL, OP_ReduceProd, &x, 1, "keepdims", 1, NULL);
}

ir_value *onnx_reshaped(ir_graph *g, ir_value *x, ir_value *a, ir_value *b, ir_value *c, ir_value *result) {
  ir_value *shape = onnx_joined(g, (ir_value *[]){a, b, c}, 3, 0);
  return onnx_shaped(g, x, shape, result);
}

ir_value *onnx_refuse(onnx_reading *z, const char *what) {
  z->unsupported = true;
  if (z->status == REED_OK) z->status = onnx_unsupported(z->r, z->name, "%s", what);
  return NULL;
}

reed_dtype onnx_float_of_x(onnx_reading *z, const char *what) {
  const reed_dtype dtype = z->inputs[0]->type.dtype;
  if (!dtype_is_real(dtype)) (void)onnx_refuse(z, what);
  return dtype;
}

int64_t onnx_int(const onnx_reading *z, const char *name, int64_t absent) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, name);
  return a ? a->i : absent;
}

float onnx_float(const onnx_reading *z, const char *name, float absent) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, name);
  return a ? a->f : absent;
}

reed_status onnx_end_reading(onnx_reading *z, size_t first) {
  if (z->status != REED_OK || z->unsupported) return z->status;
  bool complete = true;
  for (size_t i = 0; i < z->node->n_output; i++) complete = complete && (!*z->node->output[i] || z->outputs[i]);
  return complete && onnx_name_made(z->g, first, z->name) ? REED_OK : diag_no_memory(z->r->diagnosis, "a node's parts");
}
