/* Calls of operators in a walk without a run (query_walk.h): shape functions, kernels of shape sections, entries of the
 * memo. The walk itself: query.c. */
#include "vm/query_walk.h"

#include <string.h>

#include "base/mem.h"
#include "ops/fault.h"
#include "shapefuncs/shapefn.h"
#include "vm/epoch/key.h"
#include "vm/epoch/variant.h"

bool query_desc(const query_ref *r, reed_desc *out_desc) {
  if (r->kind != QUERY_TENSOR || r->rank < 0 || r->dtype == REED_NONE) return false;
  *out_desc = (reed_desc){.dtype = r->dtype, .rank = r->rank};
  for (int32_t i = 0; i < r->rank; i++) {
    if (symbol_is(r->dims[i])) return false;
    out_desc->dims[i] = r->dims[i];
  }
  return true;
}

void *query_memory(query *q, int64_t bytes) {
  void *block = mem_alloc_aligned((size_t)bytes, 64);
  if (!block || VEC_PUSH(&q->blocks, block)) return block;
  mem_free_aligned(block);
  return NULL;
}

static reed_status no_memory(query *q) { return diag_no_memory(q->s->run.diagnosis, "shapes without a run"); }

/* An extent that a kernel reports, at most `bound`. */
static reed_dim counted(query *q, reed_dim bound) {
  return bound == 0 ? 0 : symbols_min(q->symbols, symbols_fresh_extent(q->symbols), bound);
}

/* ---- shape functions ---- */

/* Describes one operand; false: its dtype is unknown. *numbers becomes false if something that the shape function may
 * read is unknown. */
static bool describe(const query *q, const reed_op *op, const reed_attrs *attrs, uint32_t i, const query_ref *r,
                     reed_shape_input *out_input, bool *numbers) {
  reed_desc desc;
  if (r->kind != QUERY_TENSOR || r->dtype == REED_NONE) return false;
  (void)q;
  *out_input = (reed_shape_input){.dtype = r->dtype, .rank = r->rank, .dims = r->dims};
  bool known = query_desc(r, &desc), reads = op_reads_value(op, attrs, (int32_t)i);
  *numbers = *numbers && known && (!reads || r->data);
  if (!reads || !known) return true;
  out_input->n_values = desc_elements(&desc);
  out_input->data = r->data;
  return true;
}

reed_status query_shape(query *q, const insn_shape *i) {
  const reed_program *p = q->s->program;
  const reed_op *op = p->site_ops[i->site];
  const reed_attrs *attrs = &p->site_attrs[i->site];
  vm_run *run = &q->s->run;
  reed_shape_input in[REED_MAX_OPERANDS];
  reed_shape_output out[REED_MAX_OPERANDS];
  bool numbers = true, typed = true;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    uint32_t number = INSN_REGISTER(i->inputs[k]);
    in[k] = (reed_shape_input){.dtype = REED_NONE};
    if (number != MODULE_ABSENT) typed = typed && describe(q, op, attrs, k, &q->r[number], &in[k], &numbers);
  }
  reed_status status = REED_OK;
  if (typed)
    status = shapefn_run(op, attrs, string_of(run, p->module->sites[i->site].node), (int32_t)i->n_inputs, in,
                         (int32_t)i->n_outputs, out, numbers ? NULL : q->symbols, numbers ? run->diagnosis : NULL);
  if (symbols_status(q->symbols) != REED_OK) return no_memory(q);
  if (status != REED_OK && numbers) return at_site(run, i->site, status);
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    query_ref *r = &q->r[i->outputs[k]];
    *r = (query_ref){.section = q->section};
    if (!typed || status != REED_OK) continue;
    r->kind = QUERY_TENSOR;
    r->dtype = out[k].dtype;
    r->rank = out[k].rank;
    r->device = q->s->devices.bind[i->device];
    if (out[k].rank < 0) continue;
    memcpy(r->dims, out[k].dims, sizeof(reed_dim) * (size_t)out[k].rank);
    if (out[k].bounded_axis >= 0) r->dims[out[k].bounded_axis] = counted(q, r->dims[out[k].bounded_axis]);
  }
  return REED_OK;
}

/* ---- kernels of shape sections ---- */

/* Everything that a kernel reads and writes is known: *in, *in_descs and *out_descs are filled. */
static bool may_run(const query *q, const insn_invoke *i, op_call_input *in, reed_desc *in_descs,
                    reed_desc *out_descs) {
  bool extents_only = op_has(q->s->program->site_ops[i->site], REED_OP_EXTENTS_ONLY);
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    in[k] = (op_call_input){0};
    if (i->inputs[k] == MODULE_ABSENT) continue;
    const query_ref *r = &q->r[i->inputs[k]];
    if (!query_desc(r, &in_descs[k]) || (!r->data && !extents_only)) return false;
    in[k] = (op_call_input){.desc = &in_descs[k], .data = r->data, .constant = r->constant != 0};
  }
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    out_descs[k] = (reed_desc){.dtype = REED_NONE};
    if (i->outputs[k] != MODULE_ABSENT && !query_desc(&q->r[i->outputs[k]], &out_descs[k])) return false;
  }
  return true;
}

static reed_status run_kernel(query *q, const insn_invoke *i, const reed_kernel *kernel, const op_call_input *in,
                              const reed_desc *out_descs) {
  const void *sources[REED_MAX_OPERANDS];
  void *targets[REED_MAX_OPERANDS];
  vm_run *run = &q->s->run;
  for (uint32_t k = 0; k < i->n_inputs; k++) sources[k] = in[k].data;
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    targets[k] = NULL;
    if (out_descs[k].dtype == REED_NONE) continue;
    targets[k] = query_memory(q, desc_bytes(&out_descs[k]));
    if (!targets[k]) return no_memory(q);
  }
  void *workspace = kernel->workspace_bytes > 0 ? query_memory(q, kernel->workspace_bytes) : NULL;
  if (kernel->workspace_bytes > 0 && !workspace) return no_memory(q);
  reed_kernel_buffers buffers = {sources, targets, workspace, NULL, run->diagnosis, &run->fault};
  reed_status status = kernel->run(kernel->state, &buffers);
  for (uint32_t k = 0; k < i->n_outputs && status == REED_OK; k++)
    if (targets[k]) q->r[i->outputs[k]].data = targets[k];
  return status;
}

reed_status query_invoke(query *q, const insn_invoke *i, bool in_shape_section) {
  op_call_input in[REED_MAX_OPERANDS];
  reed_desc in_descs[REED_MAX_OPERANDS], out_descs[REED_MAX_OPERANDS];
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT) q->r[i->outputs[k]].data = NULL;
  if (!in_shape_section || !may_run(q, i, in, in_descs, out_descs)) return REED_OK;
  const reed_program *p = q->s->program;
  const vm_device *host = &q->s->devices.items[0];
  op_call call = {.op = p->site_ops[i->site],
                  .attrs = &p->site_attrs[i->site],
                  .node = string_of(&q->s->run, p->module->sites[i->site].node),
                  .n_inputs = (int32_t)i->n_inputs,
                  .n_outputs = (int32_t)i->n_outputs,
                  .inputs = in,
                  .diagnosis = q->s->run.diagnosis,
                  .outputs = out_descs,
                  .env = &q->s->devices.env,
                  .prepare = host->on->kernel(host->device, p->site_ops[i->site])};
  reed_kernel kernel = {0};
  reed_status status = op_call_prepare(&call, &kernel);
  if (status == REED_OK) {
    status = run_kernel(q, i, &kernel, in, out_descs);
    if (q->s->run.fault.code) status = fault_say(&q->s->run.fault, &call);
    q->s->run.fault.code = REED_FAULT_NONE;
    if (kernel.free) kernel.free(kernel.state);
  }
  return at_site(&q->s->run, i->site, status);
}

/* ---- the memo ---- */

/* Appends the keys that a run would form; false: something is unknown, or elements are too many. */
static bool form_key(query *q, const insn_epoch_enter *enter) {
  epoch_active *active = &q->s->epoch;
  int64_t value_bytes = 0;
  active->key.n = 0;
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    const query_ref *r = &q->r[INSN_REGISTER(enter->keys[i])];
    bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE;
    ref known = {.constant = r->constant, .resident = r->resident, .t = {.device = r->device, .data = (void *)r->data}};
    if (!query_desc(r, &known.t.desc) || (value && (!r->data || r->device != 0))) return false;
    known.bytes = desc_bytes(&known.t.desc);
    if (key_add_tensor(active, &known, value, &value_bytes, q->s->run.diagnosis) != REED_OK) return false;
  }
  for (uint32_t i = 0; i < enter->n_scalar_keys; i++) {
    const query_scalar *scalar = &q->scalars[enter->scalar_keys[i]];
    if (!scalar->known || key_add_scalar(active, scalar->value, q->s->run.diagnosis) != REED_OK) return false;
  }
  return key_is_memoizable(value_bytes);
}

/* The register as the entry has it. Tensors with the same count share a symbol. */
static query_ref recalled(query *q, const epoch_entry *e, size_t i) {
  const epoch_write *write = &e->writes.items[i];
  const ref *value = &write->value;
  query_ref made = {.section = q->section};
  if (value->kind == REF_NONE) made.kind = QUERY_NONE;
  if (!ref_is_tensor(value)) return made;
  made.kind = QUERY_TENSOR;
  made.dtype = value->t.desc.dtype;
  made.rank = value->t.desc.rank;
  memcpy(made.dims, value->t.desc.dims, sizeof made.dims);
  made.device = value->t.device;
  made.constant = value->constant;
  if (write->root < 0 && value->kind == REF_STORED) made.data = value->t.data;
  if (value->bounded_axis < 0) return made;
  for (size_t k = 0; k < i; k++) {
    const epoch_write *other = &e->writes.items[k];
    if (other->value.bounded_axis < 0 || other->value.counter != value->counter || other->value.factor != value->factor)
      continue;
    made.dims[value->bounded_axis] = q->r[other->reg].dims[other->value.bounded_axis];
    return made;
  }
  made.dims[value->bounded_axis] = counted(q, made.dims[value->bounded_axis]);
  return made;
}

bool query_recall(query *q, const insn_epoch_enter *enter) {
  const epoch_active *active = &q->s->epoch;
  if (!form_key(q, enter)) return false;
  epoch_entry *found = memo_peek(&q->s->memo, enter->epoch, key_hash(active->key.items, active->key.n),
                                 active->key.items, active->key.n);
  if (!found) return false;
  const epoch_entry *e = variant_use(found);
  for (size_t i = 0; i < e->writes.n; i++) q->r[e->writes.items[i].reg] = recalled(q, e, i);
  for (size_t i = 0; i < e->scalars.n; i++)
    q->scalars[e->scalars.items[i].reg] = (query_scalar){true, e->scalars.items[i].value};
  return true;
}
