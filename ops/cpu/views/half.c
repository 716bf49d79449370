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
  int64_t n;
} conversion;

/* Conversions of several operands in one parallel loop. Item i of it is part i of each operand, so that a thread has
 * the same region of all operands, which is mostly the one that it has in the kernel. */
typedef struct conversions {
  int n;
  int64_t parts, elements;
  conversion items[CALL_COPY_INPUTS > CALL_COPY_OUTPUTS ? CALL_COPY_INPUTS : CALL_COPY_OUTPUTS];
} conversions;

#define UNIT 64         /* elements: parts begin at multiples */
#define PARTS_MOST 4096 /* of an operand; a chunk of work is one or more */

static void add(conversions *all, const wrapped *w, const operand *o, bool widens, const void *from, void *to) {
  const reed_dtype from_dtype = widens ? o->dtype : REED_F32, to_dtype = widens ? REED_F32 : o->dtype;
  all->items[all->n++] = (conversion){convert_between(w->level, from_dtype, to_dtype),
                                      from,
                                      to,
                                      reed_dtype_bytes(from_dtype),
                                      reed_dtype_bytes(to_dtype),
                                      o->n};
  all->elements += o->n;
}

/* The first element of a part; part `parts` begins after the last element. */
static int64_t part_begin(const conversions *all, const conversion *c, int64_t part) {
  const int64_t units = (c->n + UNIT - 1) / UNIT, first = units * part / all->parts * UNIT;
  return first < c->n ? first : c->n;
}

/* Parts begin..end-1 of all operands. */
static void convert_parts(void *context, int64_t begin, int64_t end) {
  const conversions *all = context;
  for (const conversion *c = all->items; c < all->items + all->n; c++) {
    const int64_t first = part_begin(all, c, begin), after = part_begin(all, c, end);
    c->run(c->to + (size_t)first * c->to_bytes, c->from + (size_t)first * c->from_bytes, after - first);
  }
}

static reed_status convert(const wrapped *w, conversions *all) {
  const int64_t units = (all->elements + UNIT - 1) / UNIT;
  all->parts = units < PARTS_MOST ? units : PARTS_MOST;
  return cpu_parallel(cpu_team_for(w->team, all->elements * 6), all->parts, 1, convert_parts, all);
}

static reed_status run_wrapped(const void *state, const reed_kernel_buffers *buffers) {
  const wrapped *w = state;
  const void *inputs[CALL_COPY_INPUTS];
  void *outputs[CALL_COPY_OUTPUTS];
  char *workspace = buffers->workspace;
  conversions before = {0}, after = {0};
  for (int i = 0; i < w->n_inputs; i++) {
    inputs[i] = buffers->inputs[i];
    if (w->inputs[i].dtype == REED_NONE || !inputs[i]) continue;
    add(&before, w, &w->inputs[i], true, inputs[i], workspace + w->inputs[i].offset);
    inputs[i] = workspace + w->inputs[i].offset;
  }
  for (int i = 0; i < w->n_outputs; i++) {
    bool half = w->outputs[i].dtype != REED_NONE && buffers->outputs[i];
    outputs[i] = half ? workspace + w->outputs[i].offset : buffers->outputs[i];
  }
  reed_status status = convert(w, &before);
  if (status == REED_OK) status = inner_run(&w->inner, buffers, inputs, outputs);
  if (status != REED_OK) return status;
  for (int i = 0; i < w->n_outputs; i++)
    if (w->outputs[i].dtype != REED_NONE && buffers->outputs[i])
      add(&after, w, &w->outputs[i], false, outputs[i], buffers->outputs[i]);
  return convert(w, &after);
}

/* Notes the operand's conversion and gives its descriptor the dtype f32, unless it is kept. */
static void see_as_f32(reed_desc *desc, bool kept, operand *o, int64_t *workspace) {
  if (kept || !half_is(desc->dtype)) return;
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
  conversions one = {0};
  add(&one, w, &w->inputs[i], true, call->host_values[i], *out_widened);
  return convert(w, &one);
}

reed_status half_prepare_as_f32(const reed_kernel_call *call, half_kept kept, reed_kernel_prepare_fn prepare,
                                reed_kernel *out_kernel) {
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
    see_as_f32(&seen.inputs[i], kept.inputs >> i & 1, &w->inputs[i], &w->inner.workspace_at);
    status = see_values(call, w, i, &seen, &widened[i]);
  }
  for (int32_t i = 0; i < call->n_outputs; i++)
    see_as_f32(&seen.outputs[i], kept.outputs >> i & 1, &w->outputs[i], &w->inner.workspace_at);
  if (status == REED_OK) status = prepare(&seen.call, &w->inner.kernel);
  for (int32_t i = 0; i < call->n_inputs; i++) mem_free(widened[i]);
  return inner_wrap(status, run_wrapped, w, sizeof *w, out_kernel);
}
