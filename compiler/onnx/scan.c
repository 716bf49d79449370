/* Scan -> Loop (ONNX opsets 8 to 23): a Loop over the extent of the scanned axis, whose body gathers its elements from
 * the scanned inputs. Nodes after the Loop transpose and reverse its stacked outputs where the Scan's attributes
 * require it. In opset 8 a Scan runs for every entry of a batch: a further Loop is put around it. */
#include "compiler/onnx/reader.h"

typedef struct scan {
  onnx_reader *r;
  ir_node *n;
  ir_graph *body;                        /* parameters: states, elements; results: states, outputs */
  int32_t n_inputs, n_states, n_outputs; /* scanned inputs, states, stacked outputs */
  const int64_t *input_axes, *input_directions, *output_axes, *output_directions; /* NULL: all 0 */
} scan;

static reed_status no_memory(const scan *s) { return diag_no_memory(s->r->diagnosis, "a Scan's newer form"); }

static int64_t number(const int64_t *numbers, int32_t k) { return numbers ? numbers[k] : 0; }

/* A constant scalar. */
static ir_value *scalar(ir_module *m, reed_dtype dtype, int64_t value) {
  const bool truth = value != 0;
  return ir_constant(m, &(reed_desc){.dtype = dtype}, dtype == REED_BOOL ? (const void *)&truth : &value, false, NULL);
}

/* The extent of x along the axis as a scalar, computed before the node `before`. */
static ir_value *extent(ir_node *before, ir_value *x, int64_t axis) {
  if (axis < 0 && x->type.rank >= 0) axis += x->type.rank;
  ir_graph *g = before->graph;
  ir_value *shape = onnx_made(g, before, OP_Shape, &x, 1, NULL, 0, NULL);
  return onnx_made(g, before, OP_Gather, (ir_value *[]){shape, scalar(g->module, REED_I64, axis)}, 2, "axis", 0, NULL);
}

/* Gives a body a Loop's first two parameters and first result, in place of its own parameters and results.
 * *out_iteration is the first parameter. */
static bool loop_body(ir_graph *body, ir_value **out_iteration) {
  ir_module *m = body->module;
  ir_value *iteration = ir_value_new(body, NULL), *condition = ir_value_new(body, NULL);
  if (!iteration || !condition) return false;
  iteration->type = (ir_type){.dtype = REED_I64};
  condition->type = (ir_type){.dtype = REED_BOOL};
  *out_iteration = iteration;
  body->n_params = body->n_results = 0;
  body->params = body->results = NULL;
  ir_value *truth = scalar(m, REED_BOOL, 1);
  return truth && ir_add_param(body, iteration) && ir_add_param(body, condition) && ir_add_result(body, truth);
}

/* Makes the node a Loop of `trips` turns that carries n_states states. False: no memory. */
static bool make_loop(ir_node *n, ir_value *trips, ir_value *const *states, int32_t n_states) {
  ir_value **inputs = ir_alloc(n->graph->module, sizeof *inputs * (size_t)(n_states + 2));
  if (!inputs || !trips) return false;
  inputs[0] = trips;
  for (int32_t i = 0; i < n_states; i++) inputs[i + 2] = states[i];
  n->inputs = inputs;
  n->n_inputs = n_states + 2;
  return ir_set_op(n, op_builtin(OP_Loop));
}

/* ---- the stacked outputs ---- */

/* The rank of output k's elements; -1: the body does not declare it, and inference comes later. */
static int32_t element_rank(const scan *s, int32_t k) {
  const ir_value *element = s->body->results[1 + s->n_states + k];
  return element->type.rank >= 0 ? element->type.rank : s->body->result_types[s->n_states + k].rank;
}

static reed_status check_output_axis(const scan *s, int32_t k) {
  const int64_t given = s->output_axes[k];
  int32_t known = element_rank(s, k), rank = known < 0 ? REED_MAX_RANK - 1 : known;
  if (given >= -(rank + 1) && given <= rank && rank < REED_MAX_RANK) return REED_OK;
  return diag_fail(s->r->diagnosis, REED_ERROR_FORMAT,
                   "node '%s' (Scan): scan_output_axes: no axis %lld in an output of rank %d%s", s->n->name,
                   (long long)given, rank + 1, known < 0 ? " or less" : "");
}

/* Moves axis 0 of x, a tensor of unknown rank, to `axis` as `result`: the axes before its place are seen as one axis,
 * and those after it as another. Returns NULL without memory. */
static ir_value *move_axis(ir_graph *g, ir_value *x, int64_t axis, ir_value *result) {
  ir_module *m = g->module;
  ir_value *shape = onnx_made(g, NULL, OP_Shape, &x, 1, NULL, 0, NULL), *before, *after;
  if (axis >= 0) { /* Gather fails in the run if there are not so many axes */
    before = onnx_made(g, NULL, OP_Gather, (ir_value *[]){shape, onnx_vector(m, 1, axis)}, 2, "axis", 0, NULL);
    after = onnx_part(g, shape, axis + 1, INT64_MAX);
  } else { /* -1 - axis axes come after it */
    before = onnx_part(g, shape, 1, axis == -1 ? INT64_MAX : axis + 1);
    after =
        onnx_made(g, NULL, OP_Gather, (ir_value *[]){shape, onnx_vector(m, axis + 1, -1 - axis)}, 2, "axis", 0, NULL);
  }
  ir_value *trips = onnx_part(g, shape, 0, 1);
  ir_value *three = onnx_reshaped(g, x, trips, onnx_product(g, before), onnx_product(g, after), NULL);
  ir_value *turned = onnx_transposed(g, three, (int64_t[]){1, 0, 2}, 3, NULL);
  return onnx_reshaped(g, turned, before, trips, after, result);
}

/* As move_axis, for a tensor of this rank. */
static ir_value *transpose(ir_graph *g, ir_value *x, int64_t axis, int32_t rank, ir_value *result) {
  int64_t perm[REED_MAX_RANK];
  if (axis < 0) axis += rank;
  for (int32_t i = 0, from = 1; i < rank; i++) perm[i] = i == axis ? 0 : from++;
  return onnx_transposed(g, x, perm, rank, result);
}

/* Gives the Loop a stacked output k, from which nodes after the Loop make the Scan's output by reversing and
 * transposing. */
static reed_status arrange_output(const scan *s, int32_t k) {
  ir_node *n = s->n;
  ir_graph *g = n->graph;
  ir_module *m = g->module;
  ir_value *wanted = n->outputs[s->n_states + k];
  const bool turn = number(s->output_axes, k) != 0, reverse = number(s->output_directions, k) != 0;
  if (!wanted || (!turn && !reverse)) return REED_OK;
  reed_status status = turn ? check_output_axis(s, k) : REED_OK;
  if (status != REED_OK) return status;
  const int32_t rank = element_rank(s, k);
  ir_value *stacked = ir_value_new(g, NULL);
  if (!stacked) return no_memory(s);
  stacked->type.dtype = wanted->type.dtype;
  stacked->producer = n;
  stacked->producer_output = s->n_states + k;
  n->outputs[s->n_states + k] = stacked;
  if (reverse)
    stacked = onnx_made(g, NULL, OP_Slice,
                        (ir_value *[]){stacked, ir_constant_i64(m, (int64_t[]){-1}, 1, NULL),
                                       ir_constant_i64(m, (int64_t[]){-INT64_MAX}, 1, NULL),
                                       ir_constant_i64(m, (int64_t[]){0}, 1, NULL),
                                       ir_constant_i64(m, (int64_t[]){-1}, 1, NULL)},
                        5, NULL, 0, turn ? NULL : wanted);
  if (turn && stacked)
    stacked = rank < 0 ? move_axis(g, stacked, s->output_axes[k], wanted)
                       : transpose(g, stacked, s->output_axes[k], rank + 1, wanted);
  return stacked ? REED_OK : no_memory(s);
}

/* ---- the two forms ---- */

static reed_status to_loop(const scan *s) {
  ir_node *n = s->n;
  ir_graph *body = s->body;
  ir_node *first = body->nodes.n ? body->nodes.items[0] : NULL;
  ir_value **params = body->params, **results = body->results, **scanned = n->inputs + s->n_states, *iteration;
  const int32_t n_results = body->n_results;
  ir_value *trips = extent(n, scanned[0], number(s->input_axes, 0)), *last = NULL, *backward = NULL;
  bool ok = trips && loop_body(body, &iteration);
  for (int32_t k = 0; k < s->n_inputs && ok; k++) {
    bool reverse = number(s->input_directions, k) != 0;
    if (reverse && !backward) {
      last = onnx_made(n->graph, n, OP_Sub, (ir_value *[]){trips, scalar(n->graph->module, REED_I64, 1)}, 2, NULL, 0,
                       NULL);
      backward = onnx_made(body, first, OP_Sub, (ir_value *[]){last, iteration}, 2, NULL, 0, NULL);
    }
    ok = onnx_made(body, first, OP_Gather, (ir_value *[]){scanned[k], reverse ? backward : iteration}, 2, "axis",
                   number(s->input_axes, k), params[s->n_states + k]) != NULL;
  }
  for (int32_t i = 0; i < s->n_states && ok; i++) ok = ir_add_param(body, params[i]);
  for (int32_t i = 0; i < n_results && ok; i++) ok = ir_add_result(body, results[i]);
  if (!ok || !make_loop(n, trips, n->inputs, s->n_states)) return no_memory(s);
  reed_status status = REED_OK;
  for (int32_t k = 0; k < s->n_outputs && status == REED_OK; k++) status = arrange_output(s, k);
  return status;
}

/* For opset 8, whose inputs and outputs have the batch axis 0: makes the node a Loop over the batch, with a Scan of the
 * later form in its body. s then describes that Scan. */
static reed_status unbatch(scan *s) {
  ir_node *outer = s->n;
  ir_module *m = outer->graph->module;
  const int32_t n_inputs = outer->n_inputs;
  ir_value *entries[REED_MAX_OPERANDS], *iteration;
  ir_value *trips = extent(outer, outer->inputs[0], 0);
  outer->n_regions = 0;
  outer->regions = NULL;
  ir_graph *g = ir_graph_new(m, outer, NULL);
  bool ok = trips && g && loop_body(g, &iteration);
  for (int32_t i = 0; i < n_inputs && ok; i++)
    ok = (entries[i] =
              onnx_made(g, NULL, OP_Gather, (ir_value *[]){outer->inputs[i], iteration}, 2, "axis", 0, NULL)) != NULL;
  ir_node *inner = ok ? ir_node_new(g, NULL, outer->op, outer->name, entries, n_inputs, NULL, outer->n_outputs) : NULL;
  ir_graph **regions = ir_alloc(m, sizeof *regions);
  ok = inner && regions && make_loop(outer, trips, NULL, 0);
  for (int32_t i = 0; i < outer->n_outputs && ok; i++) {
    inner->outputs[i]->type.dtype = s->body->results[i]->type.dtype;
    ok = ir_add_result(g, inner->outputs[i]);
  }
  if (!ok) return no_memory(s);
  regions[0] = s->body;
  inner->regions = regions;
  inner->n_regions = 1;
  s->body->parent = inner;
  s->n = inner;
  return REED_OK;
}

/* Reads an attribute of n numbers; NULL: not given. */
static reed_status read_numbers(const scan *s, const char *name, int32_t n, const int64_t **out_numbers) {
  reed_attrs attrs = ir_attrs(s->n);
  int64_t n_given;
  *out_numbers = reed_attrs_ints(&attrs, name, &n_given);
  if (!*out_numbers || n_given == n) return REED_OK;
  return diag_fail(s->r->diagnosis, REED_ERROR_FORMAT,
                   "node '%s' (Scan): attribute '%s' has %lld numbers, %d are needed", s->n->name, name,
                   (long long)n_given, n);
}

reed_status onnx_scan_to_loop(onnx_reader *r, ir_node *n, int64_t opset) {
  reed_attrs attrs = ir_attrs(n);
  const bool batched = opset < 9;
  if (batched && n->n_inputs > 0) {
    if (n->inputs[0]) return onnx_unsupported(r, n->name, "sequence_lens of Scan");
    n->inputs++; /* the place of sequence_lens */
    n->n_inputs--;
  }
  const int64_t n_scanned = op_attr_int(&attrs, "num_scan_inputs");
  scan s = {.r = r, .n = n, .body = n->regions[0]};
  if (n->n_inputs > REED_MAX_OPERANDS - 2)
    return onnx_unsupported(r, n->name, "more than %d inputs of Scan", REED_MAX_OPERANDS - 2);
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (!n->inputs[i])
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Scan): input %d is missing", n->name, i + batched);
  if (n_scanned < 1 || n_scanned > n->n_inputs || s.body->n_params != n->n_inputs ||
      s.body->n_results != n->n_outputs || n->n_outputs < n->n_inputs - n_scanned)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (Scan) has %d inputs, %lld of them scanned, and %d outputs, but its body takes %d and "
                     "gives %d results",
                     n->name, n->n_inputs, (long long)n_scanned, n->n_outputs, s.body->n_params, s.body->n_results);
  s.n_inputs = (int32_t)n_scanned;
  s.n_states = n->n_inputs - s.n_inputs;
  s.n_outputs = n->n_outputs - s.n_states;
  reed_status status =
      read_numbers(&s, batched ? "directions" : "scan_input_directions", s.n_inputs, &s.input_directions);
  if (status == REED_OK) status = read_numbers(&s, "scan_input_axes", s.n_inputs, &s.input_axes);
  if (status == REED_OK) status = read_numbers(&s, "scan_output_directions", s.n_outputs, &s.output_directions);
  if (status == REED_OK) status = read_numbers(&s, "scan_output_axes", s.n_outputs, &s.output_axes);
  if (status == REED_OK && batched) status = unbatch(&s);
  return status == REED_OK ? to_loop(&s) : status;
}
