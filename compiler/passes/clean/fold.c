/* Constant folding: an operator with constant inputs is run at compile time by the host's kernel. An integer value
 * whose elements shape inference knows as numbers becomes a constant too, whichever operator computes it.
 *
 * Two limits keep the module small. A result over FREE_BYTES is folded only if it is no larger than its operands
 * together, each counted once. All constants together grow at most to a multiple of the model's own, so that a few
 * hundred bytes of operators do not become a module of gigabytes. If a kernel fails (an index out of range), its
 * operator stays, and the run reports the error.
 *
 * Elements of shape arithmetic: ir/integer_values.c. */
#include <string.h>

#include "base/cancel.h"
#include "compiler/ir/integer_values.h"
#include "compiler/ir/pass.h"
#include "ops/call.h"

#define FREE_BYTES ((int64_t)1 << 20) /* results up to this are always folded */
#define MOST_BYTES ((int64_t)1 << 30)
/* Limits in bytes, from multiples of the model's own constants: for the constants in use at one time (HELD), and for
 * all constants made (MADE), whose memory stays the module's even without a use. A model's constants grow by masks and
 * tables of some megabytes; weights pass through a handful of operators. */
#define MOST_HELD(given) (2 * (given) + ((int64_t)16 << 20))
#define MOST_MADE(given) (8 * (given) + ((int64_t)64 << 20))

typedef struct folding {
  ir_module *m;
  int64_t held; /* bytes of the constants with a use */
  int64_t n_nodes, n_values;
} folding;

/* One call of a kernel with its memory, which evaluation_fini frees. */
typedef struct evaluation {
  op_call call; /* of the arrays below */
  reed_attrs attrs;
  op_call_input *operands;
  reed_desc *inputs, *outputs;
  const void **data;
  void **copies;  /* of weights that are not aligned */
  void **results; /* memory of the module */
  int64_t *extents;
  reed_shape_output *shapes;
  reed_kernel kernel;
  void *workspace;
} evaluation;

static void evaluation_fini(evaluation *e) {
  for (int32_t i = 0; e->copies && i < e->call.n_inputs; i++) mem_free_aligned(e->copies[i]);
  if (e->kernel.free) e->kernel.free(e->kernel.state);
  mem_free_aligned(e->workspace);
  mem_free(e->operands);
  mem_free(e->inputs);
  mem_free(e->outputs);
  mem_free(e->data);
  mem_free(e->copies);
  mem_free(e->results);
  mem_free(e->extents);
  mem_free(e->shapes);
}

/* The node's call with its constants for inputs. False: no memory. */
static bool evaluation_init(evaluation *e, const ir_node *n) {
  size_t n_inputs = (size_t)n->n_inputs, n_outputs = (size_t)n->n_outputs;
  *e = (evaluation){.attrs = ir_attrs(n)};
  e->operands = mem_calloc(n_inputs, sizeof *e->operands);
  e->inputs = mem_calloc(n_inputs, sizeof *e->inputs);
  e->outputs = mem_calloc(n_outputs, sizeof *e->outputs);
  e->data = mem_calloc(n_inputs, sizeof *e->data);
  e->copies = mem_calloc(n_inputs, sizeof *e->copies);
  e->results = mem_calloc(n_outputs, sizeof *e->results);
  e->extents = mem_calloc(n_outputs, sizeof *e->extents);
  e->shapes = mem_calloc(n_outputs, sizeof *e->shapes);
  e->call = (op_call){.op = n->op,
                      .attrs = &e->attrs,
                      .node = n->name,
                      .n_inputs = n->n_inputs,
                      .n_outputs = n->n_outputs,
                      .inputs = e->operands,
                      .outputs = e->outputs,
                      .prepare = kernel_cpu(n->op)};
  if (!e->operands || !e->inputs || !e->outputs || !e->data || !e->copies || !e->results || !e->extents || !e->shapes)
    return false;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (!n->inputs[i]) continue;
    ir_desc(n->inputs[i], &e->inputs[i]);
    e->operands[i] = (op_call_input){&e->inputs[i], n->inputs[i]->data, true};
  }
  return true;
}

/* Extents of the outputs, by the shape function on numbers. Another status than REED_OK: the operator is not folded. */
static reed_status shape_outputs(evaluation *e) {
  reed_status status = shapefn_call(&e->call, e->shapes);
  for (int32_t i = 0; i < e->call.n_outputs && status == REED_OK; i++) e->outputs[i] = shapefn_desc(&e->shapes[i]);
  return status;
}

/* Bytes of the operands, each counted once: of all operands, and of the operands without another user. */
static void measure_operands(const ir_node *n, const evaluation *e, int64_t *out_all, int64_t *out_only) {
  *out_all = *out_only = 0;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    int32_t n_here = 0, first = i;
    for (int32_t k = 0; k < n->n_inputs; k++) {
      n_here += n->inputs[k] == n->inputs[i];
      if (k < first && n->inputs[k] == n->inputs[i]) first = k;
    }
    if (e->inputs[i].dtype == REED_NONE || first != i) continue;
    int64_t bytes = desc_bytes(&e->inputs[i]);
    *out_all += bytes;
    if (n->inputs[i]->n_uses <= n_here) *out_only += bytes;
  }
}

/* True when the result is within the limits; its bytes are then counted. */
static bool worth_it(folding *f, const ir_node *n, const evaluation *e) {
  int64_t in, only, out = 0, given = f->m->given_bytes;
  measure_operands(n, e, &in, &only);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    int64_t bytes = desc_bytes(&e->outputs[i]);
    if (bytes < 0 || bytes > MOST_BYTES) return false;
    out += bytes;
  }
  if (out > FREE_BYTES && out > in) return false;
  if (f->held + out - only > MOST_HELD(given) || f->m->folded_bytes + out > MOST_MADE(given)) return false;
  f->held += out - only;
  f->m->folded_bytes += out;
  return true;
}

/* True if the output is the operand's elements with other extents, which then need no copy. */
static bool shares_elements(const ir_node *n, const evaluation *e) {
  return n->op->alias == REED_ALIAS_VIEW && n->n_outputs == 1 && e->inputs[0].dtype == e->outputs[0].dtype &&
         desc_bytes(&e->inputs[0]) == desc_bytes(&e->outputs[0]);
}

static reed_status copy_elements(const ir_module *m, void *to, const void *from, int64_t bytes) {
  reed_status status = REED_OK;
  for (int64_t at = 0; at < bytes && status == REED_OK; at += CANCEL_BYTES) {
    int64_t n = bytes - at < CANCEL_BYTES ? bytes - at : CANCEL_BYTES;
    memcpy((char *)to + at, (const char *)from + at, (size_t)n);
    status = ir_check_cancel(m);
  }
  return status;
}

/* Copies the operands that are not aligned for their dtype, because kernels read aligned memory. */
static reed_status align_inputs(const ir_module *m, evaluation *e) {
  for (int32_t i = 0; i < e->call.n_inputs; i++) {
    op_call_input *in = &e->operands[i];
    e->data[i] = in->data;
    if (!in->desc || (uintptr_t)in->data % reed_dtype_bytes(in->desc->dtype) == 0) continue;
    int64_t bytes = desc_bytes(in->desc);
    if (!(e->copies[i] = mem_alloc_aligned((size_t)bytes, 64))) return REED_ERROR_MEMORY;
    reed_status status = copy_elements(m, e->copies[i], in->data, bytes);
    if (status != REED_OK) return status;
    e->data[i] = in->data = e->copies[i];
  }
  return REED_OK;
}

static reed_status run_kernel(ir_module *m, evaluation *e) {
  reed_kernel_env env = {.n_threads = 1, .cancel = m->cancel};
  e->call.env = &env;
  reed_status status = op_call_prepare(&e->call, &e->kernel);
  if (status != REED_OK) return status;
  e->workspace = mem_alloc_aligned((size_t)e->kernel.workspace_bytes, 64);
  bool ok = e->workspace != NULL;
  for (int32_t i = 0; i < e->call.n_outputs; i++) {
    e->results[i] = ir_alloc_elements(m, (size_t)desc_bytes(&e->outputs[i]));
    ok = ok && e->results[i];
  }
  if (!ok) return REED_ERROR_MEMORY;
  return e->kernel.run(e->kernel.state, &(reed_kernel_buffers){e->data, e->results, e->workspace, e->extents, NULL});
}

static reed_status take_results(folding *f, ir_node *n, const evaluation *e) {
  for (int32_t i = 0; i < n->n_outputs; i++) {
    ir_value *v = n->outputs[i];
    if (!v) continue;
    reed_desc desc = e->outputs[i];
    if (e->shapes[i].bounded_axis >= 0) desc.dims[e->shapes[i].bounded_axis] = e->extents[i];
    ir_value *constant = ir_constant(f->m, &desc, e->results[i], true, v->name);
    if (!constant) return diag_no_memory(f->m->diagnosis, "a folded constant");
    constant->n_uses = v->n_uses;
    ir_forward(v, constant);
  }
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i]) n->inputs[i]->n_uses--;
  n->dead = true;
  f->n_nodes++;
  return REED_OK;
}

static bool foldable(const ir_node *n) {
  if (op_is_control(n->op) || n->op->impure || !kernel_cpu(n->op) || !n->n_outputs) return false;
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (n->inputs[i] && !ir_is_constant(n->inputs[i])) return false;
  return true;
}

static reed_status fold_node(folding *f, ir_node *n) {
  evaluation e;
  reed_status status = evaluation_init(&e, n) ? REED_OK : REED_ERROR_MEMORY;
  if (status == REED_OK) status = shape_outputs(&e);
  bool share = status == REED_OK && shares_elements(n, &e), run = status == REED_OK && !share && worth_it(f, n, &e);
  if (share) e.results[0] = (void *)(uintptr_t)n->inputs[0]->data;
  if (run) status = align_inputs(f->m, &e);
  if (run && status == REED_OK) status = run_kernel(f->m, &e);
  if ((share || run) && status == REED_OK) status = take_results(f, n, &e);
  evaluation_fini(&e);
  return status == REED_ERROR_MEMORY ? diag_no_memory(f->m->diagnosis, "constant folding") : REED_OK;
}

/* Makes an integer value a constant where all its elements are known numbers. */
static reed_status fold_elements(folding *f, ir_node *n, ir_value *v) {
  reed_desc desc;
  bool integers = v->type.dtype == REED_I64 || v->type.dtype == REED_I32 || v->type.dtype == REED_BOOL;
  if (!v->elements || !integers || v->bounded || !ir_desc(v, &desc) || desc_elements(&desc) != v->n_elements)
    return REED_OK;
  uint64_t buffer[INTEGER_VALUES_MAX];
  size_t bytes = reed_dtype_bytes(desc.dtype);
  for (int64_t i = 0; i < v->n_elements; i++) {
    if (symbol_is(v->elements[i])) return REED_OK;
    memcpy((char *)buffer + (size_t)i * bytes, &v->elements[i], bytes); /* little-endian: the low bytes */
  }
  ir_value *constant = ir_constant(f->m, &desc, buffer, false, v->name);
  if (!constant) return diag_no_memory(f->m->diagnosis, "a folded constant");
  ir_forward(v, constant);
  f->n_values++;
  return REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  folding *f = context;
  for (int32_t i = 0; i < n->n_inputs; i++) n->inputs[i] = ir_resolve(n->inputs[i]);
  if (foldable(n)) return fold_node(f, n);
  if (op_is_control(n->op) || n->op->impure) return REED_OK;
  bool all_folded = n->n_outputs > 0;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!n->outputs[i]) continue;
    reed_status status = fold_elements(f, n, n->outputs[i]);
    if (status != REED_OK) return status;
    all_folded = all_folded && n->outputs[i]->forward;
  }
  n->dead = all_folded;
  return REED_OK;
}

/* Bytes of the constants with a use. */
static int64_t held_bytes(ir_module *m) {
  int64_t bytes = 0;
  reed_desc desc;
  ir_count_uses(m);
  for (size_t i = 0; i < m->constants.n; i++)
    if (m->constants.items[i]->n_uses > 0 && ir_desc(m->constants.items[i], &desc)) bytes += desc_bytes(&desc);
  return bytes;
}

reed_status pass_fold(ir_module *m, pass_report *report) {
  folding f = {.m = m, .held = held_bytes(m)};
  if (m->given_bytes < 0) m->given_bytes = f.held;
  reed_status status = ir_walk(m->main, true, visit, &f);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){
      .counts = {{"operators of constants folded", f.n_nodes}, {"values of shape arithmetic folded", f.n_values}}};
  return status;
}
