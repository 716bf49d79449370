/* Graphs, nodes and model-local functions: ONNX structs -> IR. Function calls are inlined; subgraphs become regions;
 * initializers and Constant nodes become values with data. Names are checked here: each is defined once, and before its
 * uses. Tensors are read in tensor.c, attributes in attributes.c, and nodes take the form of op.def in upgrade.c. */
#include <stdio.h>
#include <string.h>

#include "compiler/onnx/reader.h"

static reed_status read_nodes(onnx_reader *r, onnx_frame *f, Onnx__NodeProto *const *nodes, size_t n_nodes);
static reed_status read_region(onnx_reader *r, onnx_frame *outer, ir_node *parent, const Onnx__GraphProto *g);

reed_status onnx_define(onnx_reader *r, onnx_frame *f, const char *name, ir_value *value) {
  if (!value) return diag_no_memory(r->diagnosis, "a value of the graph");
  reed_status status = onnx_scope_define(&f->scope, name, value);
  if (status == REED_ERROR_FORMAT)
    return diag_fail(r->diagnosis, status, "graph '%s': '%s' is defined twice", f->graph->name, name);
  return status == REED_OK ? REED_OK : diag_no_memory(r->diagnosis, "the names of the graph");
}

/* A new value under its ONNX name (with the function call's prefix). */
static ir_value *named_value(onnx_reader *r, const onnx_frame *f, const char *name) {
  if (!*f->prefix) return ir_value_new(f->graph, name);
  char *full = ir_text(r->m, "%s%s", f->prefix, name);
  return full ? ir_value_new(f->graph, full) : NULL;
}

/* ---- types ---- */

static void read_dims(onnx_reader *r, const Onnx__TensorShapeProto *shape, ir_type *out_type) {
  out_type->rank = (int32_t)shape->n_dim;
  for (int32_t i = 0; i < out_type->rank; i++) {
    const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value >= 0)
      out_type->dims[i] = d->dim_value;
    else if (*onnx_dim_name(d)) out_type->dims[i] = symbols_declared(r->m->symbols, onnx_dim_name(d));
    else out_type->dims[i] = symbols_fresh_extent(r->m->symbols);
  }
}

static reed_status read_type(onnx_reader *r, const char *what, const Onnx__ValueInfoProto *info, bool with_dims,
                             ir_type *out_type) {
  *out_type = (ir_type){.rank = -1};
  const Onnx__TypeProto *type = info->type;
  const char *name = onnx_text(info->name);
  if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) return REED_OK;
  if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    return onnx_unsupported(r, name, "%s that is no tensor", what);
  const Onnx__TypeProto__Tensor *tensor = type->tensor_type;
  if (!tensor || !tensor->elem_type) return REED_OK;
  out_type->dtype = onnx_dtype(tensor->elem_type);
  if (out_type->dtype == REED_NONE)
    return onnx_unsupported(r, name, "%s whose dtype is %s", what, onnx_dtype_text(tensor->elem_type));
  if (!tensor->shape || !with_dims) return REED_OK;
  if (tensor->shape->n_dim > REED_MAX_RANK)
    return onnx_unsupported(r, name, "%s of rank %zu (up to %d)", what, tensor->shape->n_dim, REED_MAX_RANK);
  read_dims(r, tensor->shape, out_type);
  return REED_OK;
}

/* ---- constants ---- */

static reed_status define_tensor(onnx_reader *r, onnx_frame *f, const char *name, const char *where,
                                 const Onnx__TensorProto *t) {
  reed_desc desc;
  const void *data;
  if (t->n_dims > REED_MAX_RANK) {
    reed_status status =
        onnx_unsupported(r, where, "constant '%s' of rank %zu (up to %d)", name, t->n_dims, REED_MAX_RANK);
    return status == REED_OK ? onnx_define(r, f, name, named_value(r, f, name)) : status;
  }
  reed_status status = onnx_read_tensor(r, t, where, &desc, &data);
  if (status != REED_OK) return status;
  /* an unsupported tensor has been noted; reading goes on with a value of unknown type */
  return onnx_define(r, f, name, data ? ir_constant(r->m, &desc, data, true, name) : named_value(r, f, name));
}

static reed_status define_elements(onnx_reader *r, onnx_frame *f, const char *name, reed_dtype dtype, int32_t rank,
                                   size_t n, const void *elements) {
  reed_desc desc = {.dtype = dtype, .rank = rank, .dims = {(int64_t)n}};
  return onnx_define(r, f, name, ir_constant(r->m, &desc, elements, false, name));
}

static reed_status read_constant(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name) {
  if (node->n_output != 1 || !*node->output[0] || node->n_input)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Constant) needs one output and no input", node_name);
  const char *name = node->output[0];
  for (size_t i = 0; i < node->n_attribute; i++) {
    const char *key = onnx_text(node->attribute[i]->name);
    const Onnx__AttributeProto *a = onnx_dereferenced(f, node->attribute[i]);
    if (!a) continue;
    if (strcmp(key, "value") == 0 && a->t) return define_tensor(r, f, name, node_name, a->t);
    if (strcmp(key, "value_float") == 0) return define_elements(r, f, name, REED_F32, 0, 1, &a->f);
    if (strcmp(key, "value_int") == 0) return define_elements(r, f, name, REED_I64, 0, 1, &a->i);
    if (strcmp(key, "value_floats") == 0) return define_elements(r, f, name, REED_F32, 1, a->n_floats, a->floats);
    if (strcmp(key, "value_ints") == 0) return define_elements(r, f, name, REED_I64, 1, a->n_ints, a->ints);
    reed_status status = onnx_unsupported(r, node_name, "attribute '%s' of Constant", key);
    return status == REED_OK ? onnx_define(r, f, name, named_value(r, f, name)) : status;
  }
  return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Constant) has no value", node_name);
}

/* ---- nodes ---- */

/* True for an input of the function that the call leaves out: the name is absent wherever the body uses it. */
static bool absent_parameter(const onnx_frame *f, const char *name) {
  for (; f && !f->function; f = f->caller) {
  }
  if (!f) return false;
  for (size_t i = 0; i < f->function->n_input; i++)
    if (strcmp(f->function->input[i], name) == 0) return i >= f->call->n_input || !*f->call->input[i];
  return false;
}

reed_status onnx_find_input(onnx_reader *r, const onnx_frame *f, const char *node_name, const char *op,
                            const char *name, ir_value **out_value) {
  *out_value = NULL;
  if (!*name) return REED_OK;
  *out_value = onnx_scope_find(&f->scope, name);
  if (*out_value || absent_parameter(f, name)) return REED_OK;
  return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                   "node '%s' (%s): input '%s' is not defined: no input, initializer or node has that name", node_name,
                   op, name);
}

/* Defines the outputs of an unsupported node as values of unknown type, so that reading goes on. */
static reed_status define_unknown_outputs(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < node->n_output; i++) {
    if (!*node->output[i]) continue;
    reed_status status = onnx_define(r, f, node->output[i], named_value(r, f, node->output[i]));
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* Sets the outputs' dtypes by the operator's row as far as they follow without shapes, for upgrades and the check of
 * dtypes. */
static void type_outputs(ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  reed_dtype inputs[REED_MAX_OPERANDS + 2];
  for (int32_t i = 0; i < n->n_inputs; i++) inputs[i] = n->inputs[i] ? n->inputs[i]->type.dtype : REED_NONE;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!n->outputs[i]) continue;
    reed_dtype dtype = op_output_dtype(n->op, &attrs, i, n->n_inputs, inputs);
    if (dtype != REED_NONE && dtype < REED_DTYPE_COUNT) n->outputs[i]->type.dtype = dtype;
  }
}

reed_status onnx_check_depth(onnx_reader *r, const onnx_frame *f, const char *node_name) {
  if (f->depth < ONNX_MAX_GRAPH_DEPTH) return REED_OK;
  return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s': graphs are nested deeper than %d", node_name,
                   ONNX_MAX_GRAPH_DEPTH);
}

reed_status onnx_fail_body(onnx_reader *r, const char *node_name, size_t n_inputs, size_t n_outputs, size_t n_params,
                           size_t n_results) {
  return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                   "node '%s' (Loop) has %zu inputs and %zu outputs, but its body takes %zu and gives %zu results (the "
                   "condition first)",
                   node_name, n_inputs, n_outputs, n_params, n_results);
}

/* Reads the bodies of an If, Loop or Scan, in the regions' order. */
static reed_status read_regions(onnx_reader *r, onnx_frame *f, ir_node *n, const Onnx__NodeProto *node) {
  static const char *const if_names[] = {"then_branch", "else_branch", NULL}, *const loop_names[] = {"body", NULL};
  bool is_if = n->op == op_builtin(OP_If), is_loop = n->op == op_builtin(OP_Loop);
  for (const char *const *name = is_if ? if_names : loop_names; *name; name++) {
    const Onnx__AttributeProto *found = onnx_find_attribute(f, node, *name);
    if (!found || !found->g)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s) has no graph '%s'", n->name, n->op->name,
                       *name);
    reed_status status = read_region(r, f, n, found->g);
    if (status != REED_OK) return status;
    const ir_graph *region = n->regions[n->n_regions - 1];
    if (is_if && (region->n_params || region->n_results != n->n_outputs))
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                       "node '%s' (If): graph '%s' takes %d inputs and gives %d results, 0 and %d are needed", n->name,
                       *name, region->n_params, region->n_results, n->n_outputs);
    if (is_loop && (region->n_params != n->n_inputs || region->n_results != n->n_outputs + 1 ||
                    region->n_results < n->n_inputs - 1))
      return onnx_fail_body(r, n->name, (size_t)n->n_inputs, (size_t)n->n_outputs, (size_t)region->n_params,
                            (size_t)region->n_results);
  }
  for (int32_t i = 0; i < n->n_outputs && i + is_loop < n->regions[0]->n_results; i++) {
    const ir_value *inner = n->regions[0]->results[i + is_loop];
    if (n->outputs[i]) n->outputs[i]->type.dtype = inner->type.dtype;
  }
  return REED_OK;
}

static reed_status check_arity(onnx_reader *r, const ir_node *n) {
  for (int32_t i = 0; i < n->n_inputs || i < n->op->n_inputs; i++) {
    const reed_op_input *row = reed_op_input_at(n->op, i);
    if (!row)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s) has %d inputs, at most %d are taken", n->name,
                       n->op->name, n->n_inputs, n->op->n_inputs);
    if (!row->optional && (i >= n->n_inputs || !n->inputs[i]))
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): input %d '%s' is missing", n->name,
                       n->op->name, i, row->name);
  }
  for (int32_t i = 0; i < n->n_outputs; i++)
    if (!reed_op_output_at(n->op, i))
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s) has %d outputs, at most %d are given", n->name,
                       n->op->name, n->n_outputs, n->op->n_outputs);
  return REED_OK;
}

/* Checks each known dtype of an input against the operator's row. */
static reed_status check_dtypes(onnx_reader *r, const ir_node *n) {
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const reed_op_input *row = reed_op_input_at(n->op, i);
    const ir_value *v = n->inputs[i];
    if (!v || v->type.dtype == REED_NONE) continue;
    reed_status status = REED_OK;
    const ir_value *first = n->inputs[0];
    if (!(row->dtypes & 1u << v->type.dtype))
      status = onnx_unsupported(r, n->name, "dtype %s of %s's input '%s'", reed_dtype_name(v->type.dtype), n->op->name,
                                row->name);
    else if (row->same_type && first && first->type.dtype != REED_NONE && first->type.dtype != v->type.dtype)
      status = diag_fail(r->diagnosis, REED_ERROR_TYPE, "%s node '%s': input %d '%s' is %s, but input 0 '%s' is %s",
                         n->op->name, n->name, i, v->name, reed_dtype_name(v->type.dtype), first->name,
                         reed_dtype_name(first->type.dtype));
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* Makes the node with its inputs and outputs, which are not checked yet. *out_node stays NULL where the node is
 * unsupported. */
static reed_status make_node(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const reed_op *op,
                             const char *node_name, ir_node **out_node) {
  int32_t n_inputs = (int32_t)node->n_input, n_outputs = (int32_t)node->n_output;
  bool is_loop = op == op_builtin(OP_Loop);
  if (node->n_input > REED_MAX_OPERANDS || node->n_output > REED_MAX_OPERANDS)
    return onnx_unsupported(r, node_name, "more than %d inputs or outputs", REED_MAX_OPERANDS);
  while (n_inputs && !*node->input[n_inputs - 1] && !(is_loop && n_inputs <= 2)) n_inputs--;
  ir_value *inputs[REED_MAX_OPERANDS + 2] = {NULL}, *outputs[REED_MAX_OPERANDS] = {NULL};
  for (int32_t i = 0; i < n_inputs; i++) {
    reed_status status = onnx_find_input(r, f, node_name, op->name, node->input[i], &inputs[i]);
    if (status != REED_OK) return status;
  }
  for (int32_t i = 0; i < n_inputs; i++)
    if (onnx_sequence_of(r, inputs[i])) return onnx_unsupported(r, node_name, "a sequence as input of %s", op->name);
  if (is_loop && n_inputs < 2) n_inputs = 2;
  for (int32_t i = 0; i < n_outputs; i++)
    if (*node->output[i] && !(outputs[i] = named_value(r, f, node->output[i])))
      return diag_no_memory(r->diagnosis, "a value of the graph");
  ir_node *n = ir_node_new(f->graph, NULL, op, node_name, inputs, n_inputs, outputs, n_outputs);
  if (!n) return diag_no_memory(r->diagnosis, "a node of the graph");
  ir_clear_attrs(n); /* only the model's attributes until the node has been upgraded */
  *out_node = n;
  return REED_OK;
}

static reed_status read_operator(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *domain,
                                 const reed_op *op, const char *node_name) {
  if (!*domain && !onnx_opset(f))
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): the model imports no opset of ai.onnx",
                     node_name, op->name);
  ir_node *n = NULL;
  reed_status status = make_node(r, f, node, op, node_name, &n);
  if (status != REED_OK || !n) return status == REED_OK ? define_unknown_outputs(r, f, node) : status;
  status = onnx_read_attrs(r, f, n, node);
  if (status == REED_OK && !*domain) status = onnx_upgrade(r, n, onnx_text(node->op_type), onnx_opset(f));
  if (status == REED_OK && op_is_control(op)) status = read_regions(r, f, n, node);
  if (status == REED_OK) status = onnx_check_attrs(r, n);
  if (status == REED_OK && !ir_complete_attrs(n)) status = diag_no_memory(r->diagnosis, "attributes");
  if (status == REED_OK) status = check_arity(r, n);
  if (status == REED_OK) status = check_dtypes(r, n);
  if (status != REED_OK) {
    if (r->diagnosis) diag_place_node(r->diagnosis, n->op->name, n->name, NULL);
    return status;
  }
  if (!op_is_control(op)) type_outputs(n);
  /* names are defined last, because a node does not see its own outputs; outputs that the upgrade dropped get no name
   */
  for (int32_t i = 0; i < n->n_outputs && status == REED_OK; i++)
    if (n->outputs[i]) status = onnx_define(r, f, node->output[i], n->outputs[i]);
  return status == REED_OK && op == op_builtin(OP_Scan) ? onnx_scan_to_loop(r, n, onnx_opset(f)) : status;
}

/* The rank that the model declares for a value between nodes of the main graph; -1: none. */
static int32_t declared_rank(const onnx_reader *r, const onnx_frame *f, const char *name) {
  const Onnx__GraphProto *g = r->model->graph;
  for (size_t i = 0; f->graph == r->m->main && !f->function && i < g->n_value_info; i++) {
    const Onnx__ValueInfoProto *info = g->value_info[i];
    const Onnx__TypeProto *type = info->type;
    if (strcmp(onnx_text(info->name), name) == 0 && type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        type->tensor_type && type->tensor_type->shape)
      return type->tensor_type->shape->n_dim > REED_MAX_RANK ? -1 : (int32_t)type->tensor_type->shape->n_dim;
  }
  return -1;
}

/* Finds the inputs of a node that is read as several nodes, and their ranks where they are known. *out_n stays -1 where
 * the node is unsupported. sequences: it may take some. */
static reed_status find_operands(onnx_reader *r, const onnx_frame *f, const Onnx__NodeProto *node,
                                 const char *node_name, bool sequences, ir_value **operands, int32_t *ranks,
                                 int32_t *out_n) {
  *out_n = -1;
  if (node->n_input > REED_MAX_OPERANDS || node->n_output > REED_MAX_OPERANDS)
    return onnx_unsupported(r, node_name, "more than %d inputs or outputs", REED_MAX_OPERANDS);
  for (size_t i = 0; i < node->n_input; i++) {
    reed_status status = onnx_find_input(r, f, node_name, node->op_type, node->input[i], &operands[i]);
    if (status != REED_OK) return status;
    if (!sequences && onnx_sequence_of(r, operands[i]))
      return onnx_unsupported(r, node_name, "a sequence as input of %s", node->op_type);
    if (!operands[i]) continue;
    ranks[i] = operands[i]->type.rank >= 0 ? operands[i]->type.rank : declared_rank(r, f, node->input[i]);
  }
  *out_n = (int32_t)node->n_input;
  return REED_OK;
}

/* Reads an Einsum: its output is what the nodes made of it compute. */
static reed_status read_einsum(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name) {
  const Onnx__AttributeProto *equation = onnx_find_attribute(f, node, "equation");
  ir_value *operands[REED_MAX_OPERANDS] = {NULL}, *result = NULL;
  int32_t ranks[REED_MAX_OPERANDS], n;
  if (!equation || !equation->s.data || memchr(equation->s.data, 0, equation->s.len))
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Einsum) has no text 'equation'", node_name);
  if (node->n_input < 1 || node->n_output != 1 || !*node->output[0])
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Einsum) needs inputs and one output", node_name);
  reed_status status = find_operands(r, f, node, node_name, false, operands, ranks, &n);
  for (int32_t i = 0; i < n && status == REED_OK; i++)
    if (!operands[i])
      status = diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Einsum): input %d is missing", node_name, i);
  if (status != REED_OK) return status;
  if (n < 0) return define_unknown_outputs(r, f, node);
  const char *text = ir_text(r->m, "%.*s", (int)equation->s.len, (const char *)equation->s.data);
  if (!text) return diag_no_memory(r->diagnosis, "an Einsum's equation");
  status = onnx_einsum(r, f->graph, node_name, text, operands, ranks, n, &result);
  if (status != REED_OK) return status;
  return result ? onnx_define(r, f, node->output[0], result) : define_unknown_outputs(r, f, node);
}

/* Reads a node for which other nodes compute its outputs. */
static reed_status read_made(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name,
                             reed_status (*read)(onnx_reading *z)) {
  ir_value *operands[REED_MAX_OPERANDS] = {NULL}, *results[REED_MAX_OPERANDS] = {NULL};
  int32_t ranks[REED_MAX_OPERANDS];
  onnx_reading z = {.r = r,
                    .f = f,
                    .node = node,
                    .name = node_name,
                    .g = f->graph,
                    .inputs = operands,
                    .ranks = ranks,
                    .outputs = results};
  reed_status status = find_operands(r, f, node, node_name, read == onnx_read_sequence, operands, ranks, &z.n_inputs);
  if (status == REED_OK && z.n_inputs < 0) return define_unknown_outputs(r, f, node);
  if (status == REED_OK) status = read(&z);
  if (status == REED_OK && z.unsupported) return define_unknown_outputs(r, f, node);
  for (size_t i = 0; i < node->n_output && status == REED_OK; i++)
    if (*node->output[i]) status = onnx_define(r, f, node->output[i], results[i]);
  return status;
}

static bool is_of_sequences(const onnx_reader *r, const onnx_frame *f, const Onnx__NodeProto *node) {
  if (!onnx_is_of_sequences(node->op_type)) return false;
  const bool is_plain = strcmp(node->op_type, "Identity") == 0;
  return !is_plain || (node->n_input == 1 && onnx_sequence_of(r, onnx_scope_find(&f->scope, node->input[0])));
}

static bool carries_sequences(const onnx_reader *r, const onnx_frame *f, const Onnx__NodeProto *node) {
  bool found = false;
  for (size_t i = 2; i < node->n_input && strcmp(node->op_type, "Loop") == 0 && !found; i++)
    found = onnx_sequence_of(r, onnx_scope_find(&f->scope, node->input[i])) != NULL;
  return found;
}

/* Reads a Loop that carries sequences. */
static reed_status read_loop(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name) {
  onnx_loop loop;
  int64_t n_rounds;
  bool supported;
  if (onnx_has_rounds(f, node, &n_rounds)) {
    reed_status status = onnx_read_rounds(r, f, node, node_name, n_rounds, &supported);
    return status == REED_OK && !supported ? define_unknown_outputs(r, f, node) : status;
  }
  reed_status status = onnx_unsequenced_loop(r, f, node, node_name, &loop);
  if (status == REED_OK && !loop.node) return define_unknown_outputs(r, f, node);
  if (status == REED_OK) status = read_operator(r, f, loop.node, "", op_builtin(OP_Loop), node_name);
  for (int32_t i = 0; i < loop.n_names && status == REED_OK; i++) {
    char **names = &loop.node->output[loop.node->n_output - ONNX_LOOP_ITEMS * (size_t)(loop.n_names - i)];
    ir_value *items[ONNX_LOOP_ITEMS];
    for (int32_t k = 0; k < ONNX_LOOP_ITEMS; k++) items[k] = onnx_scope_find(&f->scope, names[k]);
    if (*loop.names[i]) status = onnx_define(r, f, loop.names[i], onnx_looped_sequence(r, f->graph, items));
  }
  return status;
}

/* ---- functions ---- */

static reed_status check_opset(onnx_reader *r, const onnx_frame *f, const char *where) {
  int64_t opset = onnx_opset(f);
  if (opset && (opset < ONNX_OPSET_MIN || opset > ONNX_OPSET_MAX))
    return onnx_unsupported(r, where, "opset %lld (%d to %d are)", (long long)opset, ONNX_OPSET_MIN, ONNX_OPSET_MAX);
  return REED_OK;
}

static reed_status inline_function(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node,
                                   const Onnx__FunctionProto *function, const char *node_name) {
  const char *op = onnx_text(function->name);
  if (f->depth >= ONNX_MAX_GRAPH_DEPTH)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (%s): functions are nested deeper than %d, or call themselves", node_name, op,
                     ONNX_MAX_GRAPH_DEPTH);
  if (node->n_input > function->n_input || node->n_output > function->n_output)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (%s) has %zu inputs and %zu outputs, the function %zu and %zu", node_name, op,
                     node->n_input, node->n_output, function->n_input, function->n_output);
  onnx_frame body = {.graph = f->graph,
                     .opsets = function->opset_import,
                     .n_opsets = function->n_opset_import,
                     .call = node,
                     .caller = f,
                     .function = function,
                     .prefix = ir_text(r->m, "%s/", node_name),
                     .depth = f->depth + 1};
  reed_status status =
      body.prefix ? check_opset(r, &body, node_name) : diag_no_memory(r->diagnosis, "names of a function");
  for (size_t i = 0; i < node->n_input && status == REED_OK; i++) {
    ir_value *v;
    status = onnx_find_input(r, f, node_name, op, node->input[i], &v);
    if (status == REED_OK && v) status = onnx_define(r, &body, function->input[i], v);
  }
  if (status == REED_OK) status = read_nodes(r, &body, function->node, function->n_node);
  for (size_t i = 0; i < node->n_output && status == REED_OK; i++) {
    if (!*node->output[i]) continue;
    ir_value *v;
    status = onnx_find_input(r, &body, node_name, op, function->output[i], &v);
    if (status == REED_OK && !v)
      status = diag_fail(r->diagnosis, REED_ERROR_FORMAT, "function '%s': output %zu has no name", op, i);
    if (status == REED_OK) status = onnx_define(r, f, node->output[i], v);
  }
  onnx_scope_fini(&body.scope);
  return status;
}

/* ---- lists of nodes, graphs ---- */

static reed_status read_node(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node) {
  const char *domain = onnx_plain_domain(node->domain), *type = onnx_text(node->op_type);
  if (++r->n_nodes > r->most_nodes)
    return diag_fail(r->diagnosis, REED_ERROR_LIMIT, "the model has more than %lld nodes", (long long)r->most_nodes);
  if (!*type) return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' names no operator", onnx_text(node->name));
  char *name = node->name && *node->name ? ir_text(r->m, "%s%s", f->prefix, node->name)
                                         : ir_text(r->m, "%s%s_%d", f->prefix, type, r->m->n_names++);
  if (!name) return diag_no_memory(r->diagnosis, "a node's name");
  const Onnx__FunctionProto *function = onnx_find_function(r, domain, type);
  if (function) return inline_function(r, f, node, function, name);
  if (!*domain && strcmp(type, "Constant") == 0) return read_constant(r, f, node, name);
  if (!*domain && strcmp(type, "Einsum") == 0) return read_einsum(r, f, node, name);
  const reed_op *op = op_find(r->m->registry, domain, *domain ? type : onnx_modern_name(type));
  const bool is_custom = op && op_id_of(op) == OP_COUNT;
  if (!is_custom && onnx_has_maker(domain, type)) return read_made(r, f, node, name, onnx_read_made);
  if (!*domain && is_of_sequences(r, f, node)) return read_made(r, f, node, name, onnx_read_sequence);
  if (!*domain && carries_sequences(r, f, node)) return read_loop(r, f, node, name);
  if (op) return read_operator(r, f, node, domain, op, name);
  reed_status status = onnx_unsupported(r, name, *domain ? "operator %s of domain %s" : "operator %s", type, domain);
  return status == REED_OK ? define_unknown_outputs(r, f, node) : status;
}

static reed_status read_nodes(onnx_reader *r, onnx_frame *f, Onnx__NodeProto *const *nodes, size_t n_nodes) {
  size_t *order;
  reed_status status = onnx_order_nodes(r, f, nodes, n_nodes, &order);
  if (status != REED_OK) return status;
  for (size_t i = 0; i < n_nodes && status == REED_OK; i++) status = read_node(r, f, nodes[order ? order[i] : i]);
  mem_free(order);
  return status;
}

static reed_status read_initializers(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) {
  for (size_t i = 0; i < g->n_initializer; i++) {
    const char *name = onnx_text(g->initializer[i]->name);
    if (!*name)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "graph '%s': initializer %zu has no name", f->graph->name, i);
    reed_status status = define_tensor(r, f, name, name, g->initializer[i]);
    if (status != REED_OK) return status;
  }
  for (size_t i = 0; i < g->n_sparse_initializer; i++) {
    const Onnx__TensorProto *values = g->sparse_initializer[i]->values;
    const char *name = values ? onnx_text(values->name) : "";
    reed_status status = onnx_unsupported(r, name, "a sparse initializer");
    if (status == REED_OK && *name) status = onnx_define(r, f, name, named_value(r, f, name));
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* The dtype of parameter i of a body that does not declare it: the dtype of the operand that the body's node gives. */
static reed_dtype given_dtype(const onnx_frame *f, size_t i) {
  const ir_node *n = f->graph->parent;
  if (n->op == op_builtin(OP_Loop) && i < 2) return i == 0 ? REED_I64 : REED_BOOL;
  if (n->op == op_builtin(OP_Scan) && onnx_opset(f) < 9) i++; /* skips sequence_lens */
  return i < (size_t)n->n_inputs && n->inputs[i] ? n->inputs[i]->type.dtype : REED_NONE;
}

/* Reads parameters. An input of the main graph that is also an initializer is the constant. Dims of a body's parameters
 * are left to inference, because a name may stand for another extent in each round. */
static reed_status read_params(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) {
  bool is_main = !f->graph->parent;
  for (size_t i = 0; i < g->n_input; i++) {
    const char *name = onnx_text(g->input[i]->name);
    if (!*name)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "graph '%s': input %zu has no name", f->graph->name, i);
    if (is_main && onnx_scope_find(&f->scope, name)) continue;
    ir_value *v = named_value(r, f, name);
    reed_status status = onnx_define(r, f, name, v);
    if (status != REED_OK) return status;
    status = read_type(r, "an input", g->input[i], is_main, &v->type);
    if (!is_main && v->type.dtype == REED_NONE) v->type.dtype = given_dtype(f, i);
    if (status == REED_OK && is_main && v->type.dtype == REED_NONE && !r->problems.n)
      status = diag_fail(r->diagnosis, REED_ERROR_FORMAT, "input '%s' of the model has no dtype", name);
    if (status != REED_OK) return status;
    status = is_main ? onnx_note_ranges(r, g->input[i], f->graph->n_params) : REED_OK;
    if (status != REED_OK) return status;
    if (!ir_add_param(f->graph, v)) return diag_no_memory(r->diagnosis, "the graph's inputs");
  }
  return REED_OK;
}

static reed_status read_results(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) {
  ir_graph *graph = f->graph;
  bool is_main = !graph->parent;
  graph->result_names = ir_alloc(r->m, sizeof *graph->result_names * g->n_output);
  graph->result_types = ir_alloc(r->m, sizeof *graph->result_types * g->n_output);
  if (!graph->result_names || !graph->result_types) return diag_no_memory(r->diagnosis, "the graph's outputs");
  for (size_t i = 0; i < g->n_output; i++) {
    const char *name = onnx_text(g->output[i]->name);
    ir_value *v = *name ? onnx_scope_find(&f->scope, name) : NULL;
    if (!v)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "graph '%s': output '%s' is not defined", graph->name, name);
    bool with_dims = is_main || graph->parent->op == op_builtin(OP_Scan); /* a Scan stacks its outputs by their ranks */
    graph->result_types[i].rank = -1;
    reed_status status = onnx_sequence_of(r, v)
                             ? onnx_unsupported(r, name, "an output that is no tensor")
                             : read_type(r, "an output", g->output[i], with_dims, &graph->result_types[i]);
    if (status != REED_OK) return status;
    graph->result_names[i] = ir_text(r->m, "%s", name);
    if (!graph->result_names[i] || !ir_add_result(graph, v)) return diag_no_memory(r->diagnosis, "the graph's outputs");
    if (is_main && graph->result_types[i].dtype != REED_NONE && v->type.dtype != REED_NONE &&
        graph->result_types[i].dtype != v->type.dtype)
      return diag_fail(r->diagnosis, REED_ERROR_TYPE, "output '%s' is declared %s, but is %s", name,
                       reed_dtype_name(graph->result_types[i].dtype), reed_dtype_name(v->type.dtype));
  }
  return REED_OK;
}

reed_status onnx_read_body(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) {
  reed_status status = read_initializers(r, f, g);
  return status == REED_OK ? read_nodes(r, f, g->node, g->n_node) : status;
}

static reed_status read_contents(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) {
  reed_status status = read_initializers(r, f, g);
  if (status == REED_OK) status = read_params(r, f, g);
  if (status == REED_OK) status = read_nodes(r, f, g->node, g->n_node);
  if (status == REED_OK) status = read_results(r, f, g);
  return status;
}

static reed_status read_region(onnx_reader *r, onnx_frame *outer, ir_node *parent, const Onnx__GraphProto *g) {
  reed_status status = onnx_check_depth(r, outer, parent->name);
  if (status != REED_OK) return status;
  onnx_frame f = {.graph = ir_graph_new(r->m, parent, onnx_text(g->name)),
                  .scope = {.parent = &outer->scope},
                  .opsets = outer->opsets,
                  .n_opsets = outer->n_opsets,
                  .caller = outer,
                  .prefix = outer->prefix,
                  .depth = outer->depth + 1};
  status = f.graph ? read_contents(r, &f, g) : diag_no_memory(r->diagnosis, "a graph");
  onnx_scope_fini(&f.scope);
  return status;
}

reed_status onnx_read_graph(onnx_reader *r, const Onnx__GraphProto *g) {
  onnx_frame f = {
      .graph = r->m->main, .opsets = r->model->opset_import, .n_opsets = r->model->n_opset_import, .prefix = ""};
  reed_status status = check_opset(r, &f, "the model");
  if (status == REED_OK) status = onnx_declare_ranges(r, g);
  if (status == REED_OK) status = onnx_check_growth(r);
  if (status == REED_OK) status = read_contents(r, &f, g);
  onnx_scope_fini(&f.scope);
  return status;
}
