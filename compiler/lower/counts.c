/* Counts that stay on the device: which operators run at the bound of an input whose extent a kernel of the same epoch
 * reports (ops/bound.def), and when the host fetches such an extent. The cut into epochs itself is in epochs.c. */
#include "compiler/lower/counts.h"

#include "ops/bound.h"

static bool dims_equal(void *context, reed_dim a, reed_dim b) { return symbols_equal(context, a, b); }

/* The version that input i reads, if a kernel reports its extent; NULL: the extent is known with the epoch's shapes. */
static flow_version *counted_version(const flow *f, const ir_node *n, int32_t i) {
  const ir_value *v = n->inputs[i];
  if (!v || ir_is_constant(v) || place_of_node(n) != 1) return NULL;
  flow_version *x = f->values[v->id].on[1];
  return x && x->bounded ? x : NULL;
}

/* True if the accelerator's kernel of n runs at a bound. */
static bool device_reads_counts(const flow *f, const ir_node *n) {
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  const reed_attrs attrs = ir_attrs(n);
  const capability_call call = ir_call(n, &attrs, dtypes);
  return capability_reads_counts(f->m->targets, &call);
}

static flow_count needed(const char *why) { return (flow_count){NULL, -1, why}; }

static bool has_rule(const reed_op *op) {
  for (int32_t i = 0; i < REED_MAX_OPERANDS; i++)
    if (bound_may_pass(op, i)) return true;
  return false;
}

flow_count counts_operator(const flow *f, const flow_block *b, const ir_node *n) {
  if (!f->m->counts_on_device) return needed("all counts are fetched (compiled with --counts host)");
  if (!has_rule(n->op)) return needed(bound_reason(n->op));
  if (place_of_node(n) != 1) return needed("it runs on the host");
  if (n->n_outputs != 1 || !n->outputs[0]) return needed("it has several outputs, and a rule gives the axis of one");
  bound_operand operands[REED_MAX_OPERANDS];
  flow_version *first = NULL;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = n->inputs[i];
    operands[i] = (bound_operand){.rank = v ? v->type.rank : -1, .dims = v ? v->type.dims : NULL};
    if (ir_is_constant(v) && v->type.rank == 1) {
      operands[i].values = v->data;
      operands[i].n_values = v->type.dims[0];
      operands[i].dtype = v->type.dtype;
    }
    flow_version *x = counted_version(f, n, i);
    if (!x) continue;
    if (x->home != b) return needed("it stands in another branch or loop than the count");
    if (first && x->counter != first->counter) return needed("two counts meet, which are equal only by chance");
    operands[i].counter = 1;
    operands[i].axis = x->bounded_axis;
    first = x;
  }
  if (first && !device_reads_counts(f, n)) return needed("the accelerator's kernel cannot run at a bound");
  const ir_type *type = &n->outputs[0]->type;
  bound_operand output = {.rank = type->rank, .dims = type->dims};
  reed_attrs attrs = ir_attrs(n);
  int32_t axis = bound_output_axis(n->op, &attrs, operands, n->n_inputs, &output, dims_equal, f->m->symbols);
  if (axis >= 0) return (flow_count){first, axis, NULL};
  return needed(first ? bound_reason(n->op) : "its other operands are known in a later epoch only");
}

bool counts_is_input(const flow *f, const ir_node *n, int32_t i) { return counted_version(f, n, i) != NULL; }

const char *counts_reason(const flow *f, const flow_block *b, const ir_node *consumer) {
  if (!consumer) return "it is an output of the model";
  const flow_count count = counts_operator(f, b, consumer);
  const char *why = count.version ? "its other operands are known in a later epoch only" : count.why;
  return ir_text(f->m, "%s '%s': %s", consumer->op->name, consumer->name, why);
}
