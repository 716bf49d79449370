/* Lowering: the graph of a module becomes the bytecode function `main`. This file has the order of the steps, the
 * checks of the model's inputs and the declaration of inputs and outputs. Epochs are in lower_epoch.c, Loops in
 * lower_loop.c. */
#include <string.h>

#include "compiler/lower/emit.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/lower_epoch.h"
#include "compiler/lower/report.h"
#include "reed/reed.h"
#include "ops/packed.h"

/* ---- the model's inputs and outputs ---- */

/* A type in the module's form: dims are numbers, names that the model declares, or "" for unknown dims. */
static uint32_t type_of(lower *l, const ir_type *type, const char *name) {
  module_type made = {.dtype = type->dtype, .rank = type->rank, .name = module_add_string(l->b, name)};
  for (int32_t i = 0; i < type->rank; i++) {
    char text[256];
    made.dims[i] = type->dims[i];
    if (!symbol_is(type->dims[i])) continue;
    symbols_text(l->f.m->symbols, type->dims[i], text, sizeof text);
    made.dims[i] = ~(int64_t)module_add_string(l->b, text[0] == '?' ? "" : text);
  }
  return module_add_type(l->b, &made);
}

/* A dim's symbol, or the symbol it is assumed equal to, and the input and axis on which it was met first. */
typedef struct bound_dim {
  reed_dim symbol;
  uint32_t scalar; /* + 1; 0: met once, not read yet */
  uint32_t reg, axis;
} bound_dim;
typedef VEC_OF(bound_dim) bound_dims;

static bound_dim *find_dim(bound_dims *dims, reed_dim symbol) {
  for (size_t i = 0; i < dims->n; i++)
    if (dims->items[i].symbol == symbol) return &dims->items[i];
  return NULL;
}

static bool has_argument(const ir_module *m, reed_dim extent, reed_dim symbol) {
  reed_dim argument;
  for (int32_t i = 0; symbols_broadcast_argument(m->symbols, extent, i, &argument); i++)
    if (argument == symbol) return true;
  return false;
}

static bool has_term(const ir_module *m, reed_dim sum, reed_dim symbol) {
  int64_t coefficient;
  reed_dim extent;
  for (int32_t k = 0; symbols_linear_term(m->symbols, sum, k, &coefficient, &extent); k++)
    if (has_argument(m, extent, symbol)) return true;
  return false;
}

/* True if the compiler relies on rows of which the symbol is a dim (symbols_broadcast_part), on a limit of it, or on
 * its being equal to another dim, or 1. */
static bool is_bounded(const ir_module *m, reed_dim symbol) {
  reed_dim extent, whole;
  int64_t most;
  for (size_t i = 0; symbols_broadcast_part(m->symbols, i, &extent, &whole); i++)
    if (has_argument(m, extent, symbol) || has_term(m, whole, symbol)) return true;
  for (size_t i = 0; symbols_limited(m->symbols, i, &extent, &most); i++)
    if (has_term(m, extent, symbol)) return true;
  for (size_t i = 0; symbols_widened(m->symbols, i, &extent, &whole); i++)
    if (extent == symbol || whole == symbol) return true;
  return false;
}

static bool is_relied_on(const ir_module *m, const ir_type *type) {
  reed_dim first;
  for (int32_t axis = 0; axis < type->rank; axis++)
    if (symbols_is_assumed(m->symbols, type->dims[axis], &first) || is_bounded(m, type->dims[axis])) return true;
  return false;
}

/* Emits checks of dtype, rank and fixed extents for every input that has a reader. Dims that the compiler assumed equal
 * because of their declared names must have one extent, also on inputs without a reader. */
static void check_inputs(lower *l, const uint32_t *types) {
  const ir_graph *g = l->f.m->main;
  bound_dims dims = {0};
  ir_count_uses(l->f.m);
  for (int32_t i = 0; i < g->n_params; i++) {
    if (!g->params[i]->n_uses && !is_relied_on(l->f.m, &g->params[i]->type)) continue;
    EMIT(l, assert_shape, NULL, .src = (uint32_t)i, .type = types[i]);
    for (int32_t axis = 0; axis < g->params[i]->type.rank; axis++) {
      reed_dim symbol = g->params[i]->type.dims[axis];
      if (!symbol_is(symbol)) continue;
      (void)symbols_is_assumed(l->f.m->symbols, symbol, &symbol);
      bound_dim *first = find_dim(&dims, symbol);
      if (!first) {
        if (!VEC_PUSH(&dims, ((bound_dim){.symbol = symbol, .reg = (uint32_t)i, .axis = (uint32_t)axis})))
          l->no_memory = true;
        continue;
      }
      if (!first->scalar) {
        first->scalar = ++l->n_s;
        EMIT(l, s_dim, NULL, .dst = first->scalar - 1, .src = first->reg, .axis = first->axis);
      }
      EMIT(l, assert_dim, NULL, .src = (uint32_t)i, .axis = (uint32_t)axis, .extent = first->scalar - 1,
           .type = types[i]);
    }
  }
  VEC_FREE(&dims);
}

/* Finds the input and axis whose dim is this symbol. False: no input has the symbol, or the input has no reader. */
static bool find_input_dim(const ir_graph *g, reed_dim symbol, uint32_t *out_input, uint32_t *out_axis) {
  for (int32_t i = 0; i < g->n_params; i++)
    for (int32_t axis = 0; axis < g->params[i]->type.rank; axis++)
      if (g->params[i]->type.dims[axis] == symbol) {
        *out_input = (uint32_t)i;
        *out_axis = (uint32_t)axis;
        return g->params[i]->n_uses > 0;
      }
  return false;
}

/* Emits checks for dims of one declared name that operators broadcast: the extents are equal, or one of them is 1. The
 * operators check this too, but their messages cannot name the inputs. */
static void check_broadcasts(lower *l, const uint32_t *types) {
  const ir_module *m = l->f.m;
  reed_dim a, b, first;
  uint32_t input_a, input_b, axis_a, axis_b, s = l->n_s;
  for (size_t i = 0; symbols_broadcast_pair(m->symbols, i, &a, &b); i++) {
    if (symbols_is_assumed(m->symbols, b, &first) && symbols_is_assumed(m->symbols, a, &a) && a == first) continue;
    if (!find_input_dim(m->main, a, &input_a, &axis_a) || !find_input_dim(m->main, b, &input_b, &axis_b)) continue;
    uint32_t end = emit_new_label(l->b);
    EMIT(l, s_dim, NULL, .dst = s, .src = input_a, .axis = axis_a);
    EMIT(l, s_dim, NULL, .dst = s + 1, .src = input_b, .axis = axis_b);
    EMIT(l, s_eq, NULL, .dst = s + 2, .a = s, .b = s + 1);
    EMIT(l, branch_if, NULL, .condition = s + 2, .target = end);
    EMIT(l, s_const, NULL, .dst = s + 3, .value = 1);
    for (uint32_t k = 0; k < 2; k++) {
      EMIT(l, s_eq, NULL, .dst = s + 2, .a = s + k, .b = s + 3);
      EMIT(l, branch_if, NULL, .condition = s + 2, .target = end);
    }
    EMIT(l, assert_dim, NULL, .src = input_b, .axis = axis_b, .extent = s, .type = types[input_b]);
    emit_bind_label(l->b, end);
    l->n_s = s + 4;
  }
}

/* As find_input_dim, also of an input without a reader. */
static bool find_relied_dim(const ir_graph *g, reed_dim symbol, uint32_t *out_input, uint32_t *out_axis) {
  *out_input = UINT32_MAX;
  (void)find_input_dim(g, symbol, out_input, out_axis);
  return *out_input != UINT32_MAX;
}

/* Emits the value of an atom, or of a dim that atoms broadcast to; false: an atom is of no input. Uses the next two
 * registers. *out_input, *out_axis: the first atom's. */
static bool emit_extent(lower *l, reed_dim extent, uint32_t dst, uint32_t *out_input, uint32_t *out_axis) {
  reed_dim atom;
  uint32_t input, axis, product = dst + 1, next = dst + 2;
  for (int32_t i = 0; symbols_broadcast_argument(l->f.m->symbols, extent, i, &atom); i++) {
    if (!find_relied_dim(l->f.m->main, atom, &input, &axis)) return false;
    EMIT(l, s_dim, NULL, .dst = i ? next : dst, .src = input, .axis = axis);
    if (i == 0) {
      *out_input = input, *out_axis = axis;
      continue;
    }
    EMIT(l, s_mul, NULL, .dst = product, .a = dst, .b = next);
    EMIT(l, s_max, NULL, .dst = dst, .a = dst, .b = next);
    EMIT(l, s_min, NULL, .dst = dst, .a = dst, .b = product); /* 0 beside 1 is 0 */
  }
  return true;
}

/* Emits the value of a linear symbol; false: a dim is of no input. Uses the next three registers. */
static bool emit_linear(lower *l, reed_dim symbol, uint32_t dst) {
  int64_t coefficient;
  reed_dim extent;
  uint32_t input, axis;
  EMIT(l, s_const, NULL, .dst = dst, .value = 0);
  for (int32_t i = 0; symbols_linear_term(l->f.m->symbols, symbol, i, &coefficient, &extent); i++) {
    if (symbol_is(extent) && !emit_extent(l, extent, dst + 1, &input, &axis)) return false;
    if (!symbol_is(extent)) EMIT(l, s_const, NULL, .dst = dst + 1, .value = extent);
    EMIT(l, s_const, NULL, .dst = dst + 2, .value = coefficient);
    EMIT(l, s_mul, NULL, .dst = dst + 1, .a = dst + 1, .b = dst + 2);
    EMIT(l, s_add, NULL, .dst = dst, .a = dst, .b = dst + 1);
  }
  return true;
}

/* Emits checks of rows that were taken to be there (symbols_broadcast_part): one at least where `extent` is 1. There is
 * no branch, because a question about shapes (vm/query.c) stops at branches on unknown extents. */
static void check_parts(lower *l, const uint32_t *types) {
  const ir_module *m = l->f.m;
  reed_dim extent, whole;
  uint32_t input, axis, whole_input, whole_axis, s = l->n_s, n = s + 4, least = s + 5;
  for (size_t i = 0; symbols_broadcast_part(m->symbols, i, &extent, &whole); i++) {
    l->n_s = s + 6;
    if (!emit_linear(l, whole, s) || !emit_extent(l, extent, s + 1, &input, &axis)) continue;
    EMIT(l, s_const, NULL, .dst = least, .value = 1);
    EMIT(l, s_eq, NULL, .dst = least, .a = s + 1, .b = least); /* the least number of rows */
    EMIT(l, s_dim, NULL, .dst = n, .src = input, .axis = axis);
    if (symbol_is(whole) && find_relied_dim(m->main, whole, &whole_input, &whole_axis)) {
      EMIT(l, s_max, NULL, .dst = least, .a = least, .b = s);
      EMIT(l, assert_dim, NULL, .src = whole_input, .axis = whole_axis, .extent = least, .type = types[whole_input]);
    } else { /* the message says that n rows are needed where there is none */
      EMIT(l, s_const, NULL, .dst = s + 1, .value = 0);
      EMIT(l, s_max, NULL, .dst = s, .a = s, .b = s + 1);
      EMIT(l, s_lt, NULL, .dst = least, .a = s, .b = least);
      EMIT(l, s_sub, NULL, .dst = least, .a = n, .b = least);
      EMIT(l, assert_dim, NULL, .src = input, .axis = axis, .extent = least, .type = types[input]);
    }
  }
}

/* Emits checks of dims that were taken to be another dim's extent, or 1 (symbols_widened); without a branch, as
 * check_parts. */
static void check_widened(lower *l, const uint32_t *types) {
  reed_dim from, to;
  uint32_t input, axis, other, other_axis, s = l->n_s;
  for (size_t i = 0; symbols_widened(l->f.m->symbols, i, &from, &to); i++) {
    if (!find_relied_dim(l->f.m->main, from, &input, &axis) || !find_relied_dim(l->f.m->main, to, &other, &other_axis))
      continue;
    l->n_s = s + 4;
    EMIT(l, s_dim, NULL, .dst = s, .src = input, .axis = axis);
    EMIT(l, s_dim, NULL, .dst = s + 1, .src = other, .axis = other_axis);
    EMIT(l, s_const, NULL, .dst = s + 2, .value = 1);
    EMIT(l, s_sub, NULL, .dst = s + 3, .a = s + 2, .b = s + 1);
    EMIT(l, s_eq, NULL, .dst = s, .a = s, .b = s + 2);
    EMIT(l, s_mul, NULL, .dst = s, .a = s, .b = s + 3);
    EMIT(l, s_add, NULL, .dst = s, .a = s, .b = s + 1); /* 1 where the dim is 1, otherwise the other one's extent */
    EMIT(l, assert_dim, NULL, .src = input, .axis = axis, .extent = s, .type = types[input]);
  }
}

/* Emits checks of extents that were taken to be small enough (symbols_limited). The message names the first dim of the
 * sum, and the most that the other dims leave for it. */
static void check_limits(lower *l, const uint32_t *types) {
  reed_symbols *symbols = l->f.m->symbols;
  reed_dim sum, extent, atom;
  int64_t most, coefficient;
  uint32_t input, axis, s = l->n_s, n = s + 4;
  for (size_t i = 0; symbols_limited(symbols, i, &sum, &most); i++) {
    bool found = symbols_linear_term(symbols, sum, 0, &coefficient, &extent) &&
                 symbols_broadcast_argument(symbols, extent, 0, &atom) &&
                 find_relied_dim(l->f.m->main, atom, &input, &axis);
    l->n_s = s + 5;
    if (!found || !emit_linear(l, symbols_sub(symbols, sum, most), s)) continue;
    EMIT(l, s_const, NULL, .dst = n, .value = 0);
    EMIT(l, s_max, NULL, .dst = s, .a = s, .b = n);
    EMIT(l, s_dim, NULL, .dst = n, .src = input, .axis = axis);
    EMIT(l, s_sub, NULL, .dst = n, .a = n, .b = s);
    EMIT(l, assert_dim, NULL, .src = input, .axis = axis, .extent = n, .type = types[input]);
  }
}

static void return_results(lower *l, uint32_t *results) {
  const ir_graph *g = l->f.m->main;
  for (int32_t i = 0; i < g->n_results; i++) {
    const ir_value *v = g->results[i];
    results[i] = ir_is_constant(v) ? lower_constant(l, v, 0) : l->f.values[v->id].on[0]->reg;
  }
  EMIT(l, return, NULL, .n_results = (uint32_t)g->n_results, .results = results);
}

static const char *result_name(const ir_graph *g, int32_t i) {
  return g->result_names && g->result_names[i] ? g->result_names[i] : g->results[i]->name;
}

/* Dims and dtype of an output: the model's declaration where it fits the inferred type, otherwise the inferred type. */
static const ir_type *result_type(const ir_graph *g, int32_t i) {
  const ir_type *declared = g->result_types ? &g->result_types[i] : NULL;
  bool better = declared && declared->rank >= 0 &&
                (g->results[i]->type.rank < 0 || declared->rank == g->results[i]->type.rank) &&
                (declared->dtype == g->results[i]->type.dtype || g->results[i]->type.dtype == REED_NONE);
  return better ? declared : &g->results[i]->type;
}

static bool uses_accelerator(const lower *l) {
  for (size_t k = 0; k < l->f.blocks.n; k++)
    for (size_t i = 0; i < l->f.blocks.items[k]->versions.n; i++)
      if (l->f.blocks.items[k]->versions.items[i]->device == 1) return true;
  return false;
}

static reed_status emit_main(lower *l) {
  const ir_module *m = l->f.m;
  const ir_graph *g = m->main;
  size_t n = (size_t)(g->n_params + g->n_results);
  uint32_t *types = mem_alloc(n * sizeof *types), *results = mem_alloc((size_t)g->n_results * sizeof *results);
  if (!types || !results) {
    mem_free(types);
    mem_free(results);
    return diag_no_memory(l->f.diagnosis, "lowering");
  }
  uint32_t *result_types = types + g->n_params;
  for (int32_t i = 0; i < g->n_params; i++) {
    types[i] = type_of(l, &g->params[i]->type, g->params[i]->name);
    l->f.values[g->params[i]->id].on[0]->reg = (uint32_t)i;
  }
  for (int32_t i = 0; i < g->n_results; i++) result_types[i] = type_of(l, result_type(g, i), result_name(g, i));
  l->n_r = (uint32_t)g->n_params;
  module_set_names(l->b, m->name, "reed", REED_VERSION_TEXT, uses_accelerator(l) ? 2 : 1);
  module_set_target(l->b, capability_text(m->targets));
  module_set_io(l->b, types, (uint32_t)g->n_params, result_types, (uint32_t)g->n_results);
  for (size_t i = 0; i < m->ranges.n; i++) {
    const ir_range *r = &m->ranges.items[i];
    module_add_range(l->b, &(module_range){.input = (uint32_t)r->param,
                                           .axis = (uint32_t)r->axis,
                                           .name = module_add_string(l->b, r->declared.name),
                                           .low = r->declared.low,
                                           .high = r->declared.high});
  }
  uint32_t function =
      module_declare_function(l->b, "main", types, (uint32_t)g->n_params, 0, result_types, (uint32_t)g->n_results, 0);
  module_begin_function(l->b, function);
  check_inputs(l, types);
  check_broadcasts(l, types);
  check_parts(l, types);
  check_limits(l, types);
  check_widened(l, types);
  lower_root(l, l->f.main);
  return_results(l, results);
  module_end_function(l->b, l->n_r, l->n_s);
  mem_free(types);
  mem_free(results);
  return l->no_memory ? diag_no_memory(l->f.diagnosis, "lowering") : REED_OK;
}

/* Checks what placement and lowering rely on: a node has at most REED_MAX_OPERANDS inputs and outputs, and the
 * parameters and results of its regions fit the node. */
static reed_status check_node(void *context, ir_node *n) {
  reed_diagnosis *diagnosis = context;
  bool ok = true;
  if (n->n_inputs > REED_MAX_OPERANDS || n->n_outputs > REED_MAX_OPERANDS)
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "%s node '%s' has %d inputs and %d outputs, more than %d",
                     n->op->name, n->name, n->n_inputs, n->n_outputs, REED_MAX_OPERANDS);
  if (op_id_of(n->op) == OP_If) {
    ok = n->n_inputs == 1 && n->inputs[0] && n->n_regions == 2;
    for (int32_t i = 0; ok && i < 2; i++) ok = n->regions[i]->n_params == 0 && n->regions[i]->n_results >= n->n_outputs;
  } else if (op_id_of(n->op) == OP_Loop) {
    ok = n->n_regions == 1;
    int32_t n_params = ok ? n->regions[0]->n_params : 0, n_results = ok ? n->regions[0]->n_results : 0;
    ok = ok && n_params >= 2 && (n->n_inputs == n_params || (n_params == 2 && n->n_inputs < 2));
    ok = ok && n_results >= n_params - 1 && n->n_outputs < n_results;
    for (int32_t i = 2; ok && i < n->n_inputs; i++) ok = n->inputs[i] != NULL;
  }
  if (ok) return REED_OK;
  return diag_fail(diagnosis, REED_ERROR_FORMAT,
                   "%s node '%s': its inputs and outputs do not fit the parameters and results of its body",
                   n->op->name, n->name);
}

/* Runs the PLACED passes, then numbers the constants that they made. */
static reed_status run_placed(lower *l, pass_run *passes) {
  size_t n_constants = l->f.m->constants.n;
  reed_status status = passes ? pass_run_placed(passes) : REED_OK;
  place_new_constants(l->f.m, n_constants, &l->f.placed);
  return status;
}

reed_status lower_module(ir_module *m, pass_run *passes, const reed_module_sink *sink, json_writer *report,
                         reed_diagnosis *diagnosis) {
  lower l = {.f = {.m = m, .diagnosis = diagnosis}};
  ir_settle(m);
  ir_sweep(m);
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, check_node, diagnosis);
  if (status == REED_OK) status = place_module(m, &l.f.placed);
  if (status == REED_OK) status = run_placed(&l, passes);
  if (status == REED_OK) status = flow_cut(&l.f);
  if (status == REED_OK && !(l.sites = mem_calloc((size_t)l.f.placed.n_nodes, sizeof *l.sites)))
    status = diag_no_memory(diagnosis, "lowering");
  if (status == REED_OK) status = module_builder_open(&l.b);
  if (status == REED_OK) status = emit_main(&l);
  if (status == REED_OK) status = module_builder_finish_to(l.b, sink, diagnosis);
  if (status == REED_OK && report) lower_report(&l, report);
  if (l.b) module_builder_close(&l.b);
  flow_fini(&l.f);
  mem_free(l.sites);
  VEC_FREE(&l.free_r);
  VEC_FREE(&l.keys);
  VEC_FREE(&l.scalar_keys);
  VEC_FREE(&l.const_regs);
  VEC_FREE(&l.notes);
  VEC_FREE(&l.fetches);
  return status;
}
