/* Counts that stay on the device: which operators run at the bound of an input whose extent a kernel of the same epoch
 * reports (ops/bound.def), and when the host fetches such an extent. The cut into epochs itself is in epochs.c. */
#include "compiler/lower/counts.h"

#include "ops/bound.h"

static bool dims_equal(void *context, reed_dim a, reed_dim b) { return symbols_equal(context, a, b); }

static bool dim_known(void *context, reed_dim a) {
  (void)context;
  return !symbol_is(a);
}

flow_version *counts_input(const flow *f, const ir_node *n, int32_t i) {
  const ir_value *v = n->inputs[i];
  if (!v || ir_is_constant(v) || place_of_node(n) != 1) return NULL;
  flow_version *x = f->values[v->id].on[1];
  return x && x->bounded ? x : NULL;
}

/* Why the accelerator does not run n at a bound; NULL: it does. */
static const char *device_reason(const flow *f, const ir_node *n) {
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  const reed_attrs attrs = ir_attrs(n);
  const capability_call call = ir_call(n, &attrs, dtypes);
  const char *library = capability_library(f->m->targets, &call);
  if (library) return ir_text(f->m, "the target's %s plans it for numbers of the host", library);
  return capability_reads_counts(f->m->targets, &call) ? NULL : bound_kernel_reason(n->op);
}

static flow_count needed(const char *why) { return (flow_count){.axis = -1, .why = why}; }

static bool has_rule(const reed_op *op) {
  for (int32_t i = 0; i < REED_MAX_OPERANDS; i++)
    if (bound_may_pass(op, i)) return true;
  return false;
}

/* Counters of versions, numbered from 1 in the order in which they are met. */
typedef struct counters {
  const flow_version *met[2 * REED_MAX_OPERANDS];
  uint32_t n;
} counters;

static uint32_t number_of(counters *c, const flow_version *counter) {
  uint32_t i = 0;
  while (i < c->n && c->met[i] != counter) i++;
  if (i == c->n) c->met[c->n++] = counter;
  return i + 1;
}

static void read_operands(const flow *f, const ir_node *n, counters *c, bound_operand *out_operands) {
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = n->inputs[i];
    out_operands[i] = (bound_operand){.rank = v ? v->type.rank : -1, .dims = v ? v->type.dims : NULL};
    if (ir_is_constant(v) && v->type.rank == 1) {
      out_operands[i].values = v->data;
      out_operands[i].n_values = v->type.dims[0];
      out_operands[i].dtype = v->type.dtype;
    }
    const flow_version *x = counts_input(f, n, i);
    if (!x) continue;
    out_operands[i].counter = number_of(c, x->counter);
    out_operands[i].factor = x->factor;
    out_operands[i].axis = x->bounded_axis;
  }
}

/* The first result of an earlier operator of the block that reports the count that n reports along `axis`. */
static flow_version *same_report(const flow *f, const flow_block *b, const ir_node *n, int32_t axis) {
  const bound_dims dims = {dims_equal, dim_known, f->m->symbols};
  if (!bound_follows(n->op)) return NULL;
  for (size_t k = b->items.n; k-- > 0;) {
    const flow_item *item = b->items.items[k];
    if (item->kind != FLOW_OP || !item->reports || item->node->op != n->op) continue;
    counters c = {.n = 0};
    bound_operand mine[REED_MAX_OPERANDS], others[REED_MAX_OPERANDS];
    const flow_version *made = NULL;
    for (int32_t i = 0; i < item->node->n_outputs && !(made && made->bounded); i++) made = item->outputs[i];
    if (!made || !made->bounded) continue;
    read_operands(f, n, &c, mine);
    read_operands(f, item->node, &c, others);
    const bound_report one = {n->op, mine, n->n_inputs, axis},
                       other = {n->op, others, item->node->n_inputs, made->bounded_axis};
    if (bound_same_report(&one, &other, &dims)) return made->counter;
  }
  return NULL;
}

flow_count counts_operator(const flow *f, const flow_block *b, const ir_node *n) {
  if (!f->m->counts_on_device) return needed(f->m->why_fetched);
  if (!has_rule(n->op)) return needed(bound_reason(n->op));
  if (place_of_node(n) != 1) return needed("it runs on the host");
  if (!n->outputs[0] || !bound_has_outputs(n->op, n->n_outputs))
    return needed("it has several outputs, and a rule gives the axis of one");
  counters c = {.n = 0};
  bound_operand operands[REED_MAX_OPERANDS];
  flow_version *first = NULL;
  bool many = false;
  read_operands(f, n, &c, operands);
  for (int32_t i = 0; i < n->n_inputs; i++) {
    flow_version *x = counts_input(f, n, i);
    if (!x) continue;
    if (x->home != b) return needed("it stands in another branch or loop than the count");
    if (!first) first = x;
    many |= x->counter != first->counter || x->factor != first->factor;
  }
  const char *refused = first ? device_reason(f, n) : NULL;
  if (refused) return needed(refused);
  const ir_value *made = n->outputs[0];
  const bound_operand output = {
      .rank = made->type.rank, .dims = made->type.dims, .axis = made->bounded ? made->bounded_axis : -1};
  const reed_attrs attrs = ir_attrs(n);
  const bound_dims dims = {dims_equal, dim_known, f->m->symbols};
  const bound_outcome found = bound_apply(n->op, &attrs, operands, n->n_inputs, &output, &dims);
  if (found.axis >= 0 || found.exact)
    return (flow_count){.version = found.input < 0 ? first : counts_input(f, n, found.input),
                        .reports = found.input < 0 && !found.exact,
                        .same = found.input < 0 && !found.exact ? same_report(f, b, n, found.axis) : NULL,
                        .factor = found.factor,
                        .axis = found.axis};
  if (many && !bound_allows_counts(n->op)) return needed("two counts meet, which are equal only by chance");
  return needed(first ? bound_reason(n->op) : "its other operands are known in a later epoch only");
}

bool counts_before(const flow *f, const ir_node *n, int32_t epoch) {
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const flow_version *x = counts_input(f, n, i);
    if (x && flow_epoch(x->time) < epoch) return true;
  }
  return false;
}

const char *counts_reason(const flow *f, const flow_block *b, const ir_node *consumer) {
  if (!consumer) return "an output of the model";
  const flow_count count = counts_operator(f, b, consumer);
  const char *why = count.version ? "its other operands are known in a later epoch only" : count.why;
  return ir_text(f->m, "%s '%s': %s", consumer->op->name, consumer->name, why);
}
