/* Conversions between half precision and f32 around an f32 kernel (half.h). */
#include "ops/cpu/views/half.h"

#include "ops/cpu/common/convert.h"
#include "ops/inner.h"

typedef struct operand {
  reed_dtype dtype;  /* f16 or bf16: convert; REED_NONE: pass as it is */
  int64_t n, offset; /* elements; place in the workspace */
} operand;

typedef struct wrapped {
  inner_kernel inner;
  cpu_level level;
  int n_inputs, n_outputs;
  cpu_team team;
  operand inputs[CALL_COPY_INPUTS], outputs[CALL_COPY_OUTPUTS];
} wrapped;

typedef struct conversion {
  convert_fn run;
  const char *from;
  char *to;
  size_t from_bytes, to_bytes; /* bytes of an element */
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
  const void *inputs[CALL_COPY_INPUTS];
  void *outputs[CALL_COPY_OUTPUTS];
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
  reed_status status = inner_run(&w->inner, buffers, inputs, outputs);
  if (status != REED_OK) return status;
  for (int i = 0; i < w->n_outputs && status == REED_OK; i++)
    if (w->outputs[i].dtype != REED_NONE && buffers->outputs[i])
      status = narrow(w, &w->outputs[i], outputs[i], buffers->outputs[i]);
  return status;
}

/* Notes the operand's conversion and gives its descriptor the dtype f32. */
static void see_as_f32(reed_desc *desc, operand *o, int64_t *workspace) {
  if (!half_is(desc->dtype)) return;
  *o = (operand){desc->dtype, desc_elements(desc), *workspace};
  *workspace = call_copy_next(*workspace, o->n * 4);
  desc->dtype = REED_F32;
}

/* Input i's elements on the host in f32, in heap memory that the caller frees, if the shape function reads the input:
 * the kernel may read them while it is prepared. */
static reed_status see_values(const reed_kernel_call *call, const wrapped *w, int32_t i, call_copy *copy,
                              void **out_widened) {
  if (w->inputs[i].dtype == REED_NONE) return REED_OK;
  call_copy_hide_values(copy, i);
  if (!call->host_values[i] || !op_reads_value(call->op, call->attrs, i)) return REED_OK;
  *out_widened = mem_alloc((size_t)w->inputs[i].n * 4);
  if (!*out_widened) return cpu_no_memory(call);
  copy->host_values[i] = *out_widened;
  return widen(w, &w->inputs[i], call->host_values[i], *out_widened);
}

reed_status half_prepare_as_f32(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  call_copy seen;
  void *widened[CALL_COPY_INPUTS] = {NULL};
  reed_status status = call_copy_init(call, &seen);
  if (status != REED_OK) return status;
  wrapped *w = mem_calloc(1, sizeof *w);
  if (!w) return cpu_no_memory(call);
  w->level = cpu_level_now();
  w->team = cpu_env_team(call);
  w->n_inputs = call->n_inputs;
  w->n_outputs = call->n_outputs;
  for (int32_t i = 0; i < call->n_inputs && status == REED_OK; i++) {
    see_as_f32(&seen.inputs[i], &w->inputs[i], &w->inner.workspace_at);
    status = see_values(call, w, i, &seen, &widened[i]);
  }
  for (int32_t i = 0; i < call->n_outputs; i++) see_as_f32(&seen.outputs[i], &w->outputs[i], &w->inner.workspace_at);
  if (status == REED_OK) status = prepare(&seen.call, &w->inner.kernel);
  for (int32_t i = 0; i < call->n_inputs; i++) mem_free(widened[i]);
  return inner_wrap(status, run_wrapped, w, sizeof *w, out_kernel);
}
