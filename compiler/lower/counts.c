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

flow_count counts_operator(const flow *f, const flow_block *b, const ir_node *n) {
  const flow_count none = {NULL, -1};
  if (!f->m->counts_on_device || n->n_outputs != 1 || !n->outputs[0]) return none;
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
    if (x->home != b || (first && x->counter != first->counter)) return none;
    operands[i].counter = 1;
    operands[i].axis = x->bounded_axis;
    first = x;
  }
  if (!first || !device_reads_counts(f, n)) return none;
  const ir_type *type = &n->outputs[0]->type;
  bound_operand output = {.rank = type->rank, .dims = type->dims};
  reed_attrs attrs = ir_attrs(n);
  int32_t axis = bound_output_axis(n->op, &attrs, operands, n->n_inputs, &output, dims_equal, f->m->symbols);
  return axis < 0 ? none : (flow_count){first, axis};
}

bool counts_is_input(const flow *f, const ir_node *n, int32_t i) { return counted_version(f, n, i) != NULL; }
