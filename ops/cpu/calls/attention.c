/* Reading an Attention call: heads, the cache, the mask and how they lie in memory. */
#include "ops/cpu/calls/attention.h"

#include <math.h>

/* An operand of heads of `size` elements: [batch, heads, length, size] or [batch, length, heads * size]; strides of its
 * axes. */
static attention_view view_of(const reed_desc *d, int64_t size, const int64_t *strides) {
  if (d->dtype == REED_NONE) return (attention_view){0};
  int64_t element = (int64_t)reed_dtype_bytes(d->dtype);
  if (d->rank == 4) return (attention_view){d->dtype, strides[0], strides[1], strides[2], element};
  return (attention_view){d->dtype, strides[0], size, strides[1], element};
}

static attention_view input_view(const reed_kernel_call *call, int32_t i, int64_t size) {
  int64_t strides[REED_MAX_RANK];
  if (!cpu_present(call, i)) return (attention_view){0};
  cpu_input_strides(call, i, strides);
  return view_of(&call->inputs[i], size, strides);
}

static attention_view output_view(const reed_kernel_call *call, int32_t i, int64_t size) {
  int64_t strides[REED_MAX_RANK];
  if (i >= call->n_outputs || call->outputs[i].dtype == REED_NONE) return (attention_view){0};
  cpu_output_strides(call, i, strides);
  return view_of(&call->outputs[i], size, strides);
}

static const reed_desc *operand(const reed_desc *descs, int32_t n, int32_t i) {
  static const reed_desc absent = {0};
  return i < n ? &descs[i] : &absent;
}

/* Reads the mask, which broadcasts to [batch, heads, queries, keys]; it may have fewer keys. */
static reed_status read_mask(const reed_kernel_call *call, attention *a) {
  const reed_desc *mask = operand(call->inputs, call->n_inputs, 3);
  a->mask_dtype = mask->dtype;
  a->mask_keys = a->total;
  if (mask->dtype == REED_NONE) return REED_OK;
  reed_desc scores = {REED_F32, 4, {a->batch, a->heads, a->queries, a->total}};
  int64_t last = mask->rank ? mask->dims[mask->rank - 1] : 1;
  if (last < a->total && last != 1) scores.dims[3] = a->mask_keys = last;
  if (cpu_broadcast_strides(mask, &scores, a->mask_strides)) return REED_OK;
  char from[96], to[96];
  return reed_kernel_fail(call, REED_ERROR_SHAPE, "the mask %s does not broadcast to the scores' %s",
                          desc_text(mask, from, sizeof from), desc_text(&scores, to, sizeof to));
}

static int64_t distance(const reed_kernel_call *call, const char *name) {
  int64_t window = op_attr_int(call->attrs, name);
  return window < 0 || window > ATTENTION_ANY_DISTANCE ? ATTENTION_ANY_DISTANCE : window;
}

reed_status attention_read(const reed_kernel_call *call, attention *a) {
  const reed_desc *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
  const reed_desc *past_k = operand(call->inputs, call->n_inputs, 4);
  const reed_desc *lengths = operand(call->inputs, call->n_inputs, 6);
  bool flat = q->rank == 3;
  *a = (attention){.team = cpu_env_team(call), .level = cpu_level_now()};
  a->batch = q->dims[0];
  a->heads = flat ? reed_attrs_int(call->attrs, "q_num_heads", 1) : q->dims[1];
  a->kv_heads = flat ? reed_attrs_int(call->attrs, "kv_num_heads", 1) : k->dims[1];
  a->queries = q->dims[flat ? 1 : 2];
  a->keys = k->dims[flat ? 1 : 2];
  a->past = past_k->dtype != REED_NONE ? past_k->dims[2] : 0;
  a->total = a->past + a->keys;
  a->size = flat ? q->dims[2] / a->heads : q->dims[3];
  a->value_size = flat ? v->dims[2] / a->kv_heads : v->dims[3];
  a->q = input_view(call, 0, a->size);
  a->k = input_view(call, 1, a->size);
  a->v = input_view(call, 2, a->value_size);
  a->past_k = input_view(call, 4, a->size);
  a->past_v = input_view(call, 5, a->value_size);
  a->present_k = output_view(call, 1, a->size);
  a->present_v = output_view(call, 2, a->value_size);
  a->y = output_view(call, 0, a->value_size);
  a->before = distance(call, "left_window_size");
  a->after = op_attr_int(call->attrs, "is_causal") ? 0 : distance(call, "right_window_size");
  a->to_last_key = op_attr_int(call->attrs, "to_last_key") != 0;
  a->hidden = reed_attrs_float(call->attrs, "hidden_score", -INFINITY);
  bool limited = a->before < ATTENTION_ANY_DISTANCE || a->after < ATTENTION_ANY_DISTANCE;
  a->outside = limited && a->hidden <= ATTENTION_LOW ? a->hidden : -INFINITY;
  a->nan_rows = op_attr_int(call->attrs, "nan_rows");
  a->scale = reed_attrs_float(call->attrs, "scale", 1 / sqrt((double)a->size));
  a->softcap = op_attr_float(call->attrs, "softcap");
  a->mode = op_attr_int(call->attrs, "qk_matmul_output_mode");
  a->has_lengths = lengths->dtype != REED_NONE;
  if (a->has_lengths && desc_elements(lengths) != a->batch)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "nonpad_kv_seqlen has %lld elements for a batch of %lld",
                            (long long)desc_elements(lengths), (long long)a->batch);
  return read_mask(call, a);
}

/* Inputs and outputs whose views have the strides of their rooms. */
#define VIEWED_INPUTS (1u << 0 | 1u << 1 | 1u << 2 | 1u << 4 | 1u << 5)
#define N_VIEWED_OUTPUTS 3

bool attention_reads_rooms(const reed_kernel_call *call) {
  reed_kernel_call seen = *call;
  seen.output_rooms = call->output_rooms ? call->output_rooms + N_VIEWED_OUTPUTS : NULL;
  seen.n_outputs = call->n_outputs - N_VIEWED_OUTPUTS;
  return cpu_rooms_only(&seen, VIEWED_INPUTS);
}
