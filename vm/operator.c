/* A call of an operator on tensors of the host, without a module (reed/call.h). Calls in a program: call.c. */
#include "reed/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/processors.h"
#include "ops/call.h"
#include "ops/fault.h"
#include "shapefuncs/shapefn.h"
#include "vm/tensor.h"

#define NODE "call"

typedef struct operator_run {
  const reed_operator_call *call;
  const reed_op *op;
  reed_diagnosis *diagnosis;
  reed_attr *given, *completed;
  reed_attrs attrs;
  reed_tensor **inputs, **outputs; /* dense, on the host */
  op_call_input *in;
  reed_desc *out;
  reed_shape_output *shapes;
  const void **data;
  void **results;
  int64_t *extents;
  void *workspace;
  reed_kernel_env env;
  reed_kernel kernel;
} operator_run;

static int by_name(const void *a, const void *b) {
  return strcmp(((const reed_attr *)a)->name, ((const reed_attr *)b)->name);
}

static reed_status misuse(const operator_run *r, const char *what) {
  return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "%s: %s", r->call->name, what);
}

static reed_status check(operator_run *r) {
  const reed_operator_call *call = r->call;
  if (call->n_inputs < 0 || call->n_outputs < 0 || call->n_attrs < 0 || call->n_threads < 0)
    return misuse(r, "a negative number");
  if (call->n_inputs > REED_MAX_OPERANDS || call->n_outputs > REED_MAX_OPERANDS) return misuse(r, "too many operands");
  if ((call->n_inputs > 0 && !call->inputs) || (call->n_attrs > 0 && !call->attrs))
    return misuse(r, "a missing list of inputs or attributes");
  for (int32_t i = 0; i < call->n_attrs; i++)
    if (!call->attrs[i].name || attr_lacks_value(&call->attrs[i]))
      return misuse(r, "an attribute without a name or a value");
  r->op = op_find(call->registry, call->domain ? call->domain : "", call->name);
  if (!r->op)
    return diag_fail(r->diagnosis, REED_ERROR_UNSUPPORTED, "operator '%s' of domain '%s' is not known", call->name,
                     call->domain ? call->domain : "");
  if (op_is_control(r->op))
    return diag_fail(r->diagnosis, REED_ERROR_UNSUPPORTED, "%s: control flow needs a model", call->name);
  return REED_OK;
}

static reed_status take_attrs(operator_run *r) {
  const reed_operator_call *call = r->call;
  reed_dtype dtypes[REED_MAX_OPERANDS];
  if (call->n_attrs > 0) memcpy(r->given, call->attrs, (size_t)call->n_attrs * sizeof *r->given);
  qsort(r->given, (size_t)call->n_attrs, sizeof *r->given, by_name);
  for (int32_t i = 1; i < call->n_attrs; i++)
    if (strcmp(r->given[i - 1].name, r->given[i].name) == 0)
      return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "%s: attribute '%s' is given twice", call->name,
                       r->given[i].name);
  for (int32_t i = 0; i < call->n_inputs; i++)
    dtypes[i] = call->inputs[i] ? reed_tensor_dtype(call->inputs[i]) : REED_NONE;
  reed_attrs given = {r->given, call->n_attrs};
  reed_status status = shapefn_check_call(r->op, &given, NODE, call->n_inputs, dtypes, call->n_outputs, r->diagnosis);
  if (status != REED_OK) return status;
  r->attrs = op_attrs_complete(r->op, &given, r->completed);
  return REED_OK;
}

static reed_status take_inputs(operator_run *r) {
  for (int32_t i = 0; i < r->call->n_inputs; i++) {
    if (!r->call->inputs[i]) continue;
    reed_status status = reed_tensor_to_host(r->call->inputs[i], &r->inputs[i], r->diagnosis);
    if (status != REED_OK) return status;
    r->data[i] = r->inputs[i]->data;
    r->in[i] = (op_call_input){.desc = &r->inputs[i]->desc, .data = r->inputs[i]->data};
  }
  return REED_OK;
}

/* Extents, kernel, memory. */
static reed_status prepare(operator_run *r) {
  op_call call = {.op = r->op,
                  .attrs = &r->attrs,
                  .node = NODE,
                  .n_inputs = r->call->n_inputs,
                  .n_outputs = r->call->n_outputs,
                  .inputs = r->in,
                  .diagnosis = r->diagnosis,
                  .outputs = r->out,
                  .env = &r->env,
                  .prepare = kernel_on(r->op, "host", kernel_cpu(r->op))};
  r->env = (reed_kernel_env){.n_threads = r->call->n_threads ? r->call->n_threads : processors_count(),
                             .cancel = r->call->cancel};
  reed_status status = shapefn_call(&call, r->shapes);
  for (int32_t i = 0; i < call.n_outputs && status == REED_OK; i++) {
    r->out[i] = shapefn_desc(&r->shapes[i]);
    status = reed_tensor_open(r->out[i].dtype, r->out[i].rank, r->out[i].dims, &r->outputs[i]);
    if (status != REED_OK) return diag_fail(r->diagnosis, status, "%s: no memory for output %d", r->op->name, i);
    r->results[i] = r->outputs[i]->data;
    r->extents[i] = -1;
  }
  if (status == REED_OK) status = op_call_prepare(&call, &r->kernel);
  if (status != REED_OK || r->kernel.workspace_bytes == 0) return status;
  r->workspace = mem_alloc_aligned((size_t)r->kernel.workspace_bytes, 64);
  return r->workspace ? REED_OK : diag_no_memory(r->diagnosis, "an operator's workspace");
}

/* An output whose extent the kernel has reported gets it: its elements lie side by side at its beginning. */
static reed_status trim(operator_run *r, int32_t i) {
  int32_t axis = r->shapes[i].bounded_axis;
  if (axis < 0 || r->extents[i] < 0 || r->extents[i] == r->out[i].dims[axis]) return REED_OK;
  reed_tensor *whole = r->outputs[i], *trimmed = NULL;
  r->out[i].dims[axis] = r->extents[i];
  reed_status status = reed_tensor_open(r->out[i].dtype, r->out[i].rank, r->out[i].dims, &trimmed);
  if (status != REED_OK) return diag_fail(r->diagnosis, status, "%s: no memory for output %d", r->op->name, i);
  if (trimmed->bytes > 0) memcpy(trimmed->data, whole->data, (size_t)trimmed->bytes);
  r->outputs[i] = trimmed;
  reed_tensor_close(&whole);
  return REED_OK;
}

static reed_status launch(operator_run *r) {
  reed_fault fault = {0};
  reed_kernel_buffers buffers = {
      .inputs = r->data, .outputs = r->results, .workspace = r->workspace, .extents = r->extents, .fault = &fault};
  reed_status status = diag_check_cancel(r->diagnosis, r->call->cancel);
  if (status != REED_OK) return status;
  status = r->kernel.run(r->kernel.state, &buffers);
  if (status == REED_ERROR_CANCELLED) return diag_cancelled(r->diagnosis);
  const op_call call = {
      .op = r->op, .node = NODE, .n_inputs = r->call->n_inputs, .inputs = r->in, .diagnosis = r->diagnosis};
  if (fault.code) return fault_say(&fault, &call);
  if (status != REED_OK) return diag_fail(r->diagnosis, status, "%s: %s", r->op->name, reed_status_text(status));
  for (int32_t i = 0; i < r->call->n_outputs && status == REED_OK; i++) status = trim(r, i);
  return status;
}

/* All lists of the call. */
static reed_status open_lists(operator_run *r) {
  size_t n_in = (size_t)r->call->n_inputs, n_out = (size_t)r->call->n_outputs, n_given = (size_t)r->call->n_attrs,
         n_completed = n_given + (size_t)r->op->n_attrs;
  r->given = mem_calloc(n_given + 1, sizeof *r->given);
  r->completed = mem_calloc(n_completed + 1, sizeof *r->completed);
  r->inputs = mem_calloc(n_in + 1, sizeof(reed_tensor *));
  r->in = mem_calloc(n_in + 1, sizeof *r->in);
  r->data = mem_calloc(n_in + 1, sizeof *r->data);
  r->outputs = mem_calloc(n_out + 1, sizeof(reed_tensor *));
  r->out = mem_calloc(n_out + 1, sizeof *r->out);
  r->shapes = mem_calloc(n_out + 1, sizeof *r->shapes);
  r->results = mem_calloc(n_out + 1, sizeof *r->results);
  r->extents = mem_calloc(n_out + 1, sizeof *r->extents);
  bool all = r->given && r->completed && r->inputs && r->in && r->data && r->outputs && r->out && r->shapes &&
             r->results && r->extents;
  return all ? REED_OK : diag_no_memory(r->diagnosis, "an operator's call");
}

static void close_all(operator_run *r) {
  if (r->kernel.free) r->kernel.free(r->kernel.state);
  mem_free_aligned(r->workspace);
  for (int32_t i = 0; r->inputs && i < r->call->n_inputs; i++) reed_tensor_close(&r->inputs[i]);
  for (int32_t i = 0; r->outputs && i < r->call->n_outputs; i++) reed_tensor_close(&r->outputs[i]);
  void *lists[] = {r->given,   r->completed, r->inputs, r->in,      r->data,
                   r->outputs, r->out,       r->shapes, r->results, r->extents};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) mem_free(lists[i]);
}

reed_status reed_operator_run(const reed_operator_call *call, reed_tensor **out_outputs, reed_diagnosis *diagnosis) {
  if (!call || !call->name || !out_outputs)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_operator_run: a missing call, name or place for outputs");
  operator_run r = {.call = call, .diagnosis = diagnosis};
  reed_status status = check(&r);
  if (status != REED_OK) return status;
  status = open_lists(&r);
  if (status == REED_OK) status = take_attrs(&r);
  if (status == REED_OK) status = take_inputs(&r);
  if (status == REED_OK) status = prepare(&r);
  if (status == REED_OK) status = launch(&r);
  for (int32_t i = 0; i < call->n_outputs && status == REED_OK; i++) {
    out_outputs[i] = r.outputs[i];
    r.outputs[i] = NULL;
  }
  close_all(&r);
  return status;
}
