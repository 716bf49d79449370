#include "ops/cpu/views/half.h"

#include "ops/cpu/common/convert.h"

#define OPERANDS_MAX 8 /* no kernel that comes here has more inputs or outputs */
#define ALIGNMENT 64

typedef struct operand {
  reed_dtype dtype;  /* f16 or bf16: convert; REED_NONE: pass as it is */
  int64_t n, offset; /* elements; place in the workspace */
} operand;

typedef struct wrapped {
  reed_kernel inner;
  cpu_level level;
  int n_inputs, n_outputs;
  cpu_team team;
  int64_t inner_offset;
  operand inputs[OPERANDS_MAX], outputs[OPERANDS_MAX];
} wrapped;

static void wrapped_free(void *state) {
  wrapped *w = state;
  if (w->inner.free) w->inner.free(w->inner.state);
  mem_free(w);
}

typedef struct conversion {
  convert_fn run;
  const char *from;
  char *to;
  size_t from_bytes, to_bytes; /* of an element */
} conversion;

static void convert_range(void *context, int64_t begin, int64_t end) {
  const conversion *c = context;
  c->run(c->to + (size_t)begin * c->to_bytes, c->from + (size_t)begin * c->from_bytes, end - begin);
}

static reed_status convert(const wrapped *w, const operand *o, reed_dtype from_dtype, reed_dtype to_dtype,
                           const void *from, void *to) {
  conversion c = {convert_between(w->level, from_dtype, to_dtype), from, to, reed_dtype_bytes(from_dtype),
                  reed_dtype_bytes(to_dtype)};
  return cpu_parallel(cpu_team_for(w->team, o->n * 6), o->n, 64, convert_range, &c);
}

static reed_status widen(const wrapped *w, const operand *o, const void *from, void *to) {
  return convert(w, o, o->dtype, REED_F32, from, to);
}
static reed_status narrow(const wrapped *w, const operand *o, const void *from, void *to) {
  return convert(w, o, REED_F32, o->dtype, from, to);
}

static reed_status run_wrapped(const void *state, const reed_kernel_buffers *buffers) {
  const wrapped *w = state;
  const void *inputs[OPERANDS_MAX];
  void *outputs[OPERANDS_MAX];
  char *workspace = buffers->workspace;
  for (int i = 0; i < w->n_inputs; i++) {
    inputs[i] = buffers->inputs[i];
    if (w->inputs[i].dtype == REED_NONE || !inputs[i]) continue;
    reed_status status = widen(w, &w->inputs[i], buffers->inputs[i], workspace + w->inputs[i].offset);
    if (status != REED_OK) return status;
    inputs[i] = workspace + w->inputs[i].offset;
  }
  for (int i = 0; i < w->n_outputs; i++) {
    bool half = w->outputs[i].dtype != REED_NONE && buffers->outputs[i];
    outputs[i] = half ? workspace + w->outputs[i].offset : buffers->outputs[i];
  }
  reed_kernel_buffers inner = {
      inputs, outputs, workspace + w->inner_offset, buffers->extents, buffers->diagnosis, buffers->fault};
  reed_status status = w->inner.run(w->inner.state, &inner);
  if (status != REED_OK) return status;
  for (int i = 0; i < w->n_outputs && status == REED_OK; i++)
    if (w->outputs[i].dtype != REED_NONE && buffers->outputs[i])
      status = narrow(w, &w->outputs[i], outputs[i], buffers->outputs[i]);
  return status;
}

/* Notes what to convert and gives the operand's f32 descriptor. */
static reed_desc see_as_f32(const reed_desc *desc, operand *o, int64_t *workspace) {
  reed_desc seen = *desc;
  if (!half_is(desc->dtype)) return seen;
  seen.dtype = REED_F32;
  *o = (operand){desc->dtype, desc_elements(desc), *workspace};
  *workspace = (*workspace + o->n * 4 + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
  return seen;
}

reed_status half_prepare_as_f32(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  if (call->n_inputs > OPERANDS_MAX || call->n_outputs > OPERANDS_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "too many operands for f16");
  reed_desc inputs[OPERANDS_MAX], outputs[OPERANDS_MAX];
  const void *host_values[OPERANDS_MAX] = {NULL};
  void *widened[OPERANDS_MAX] = {NULL};
  bool constant[OPERANDS_MAX] = {false};
  reed_status status = REED_ERROR_MEMORY;
  wrapped *w = mem_calloc(1, sizeof *w);
  if (!w) return cpu_no_memory(call);
  w->level = cpu_level_now();
  w->team = cpu_env_team(call);
  w->n_inputs = call->n_inputs;
  w->n_outputs = call->n_outputs;
  for (int i = 0; i < call->n_inputs; i++) {
    inputs[i] = see_as_f32(&call->inputs[i], &w->inputs[i], &w->inner_offset);
    bool half = w->inputs[i].dtype != REED_NONE,
         read = call->host_values[i] && op_reads_value(call->op, call->attrs, i);
    if (!half) {
      host_values[i] = call->host_values[i];
      constant[i] = call->constant[i];
    } else if (read) {
      widened[i] = mem_alloc((size_t)w->inputs[i].n * 4);
      if (!widened[i]) goto fail;
      status = widen(w, &w->inputs[i], call->host_values[i], widened[i]);
      if (status != REED_OK) goto fail;
      host_values[i] = widened[i];
    }
  }
  for (int i = 0; i < call->n_outputs; i++)
    outputs[i] = see_as_f32(&call->outputs[i], &w->outputs[i], &w->inner_offset);
  reed_kernel_call inner = *call;
  inner.inputs = inputs;
  inner.outputs = outputs;
  inner.host_values = host_values;
  inner.constant = constant;
  status = prepare(&inner, &w->inner);
  for (int i = 0; i < call->n_inputs; i++) mem_free(widened[i]);
  if (status != REED_OK) {
    mem_free(w);
    return status;
  }
  *out_kernel =
      (reed_kernel){run_wrapped, w, wrapped_free, w->inner_offset + w->inner.workspace_bytes, w->inner.state_bytes};
  return REED_OK;
fail:
  for (int i = 0; i < call->n_inputs; i++) mem_free(widened[i]);
  mem_free(w);
  return status == REED_ERROR_CANCELLED ? status : cpu_no_memory(call);
}
