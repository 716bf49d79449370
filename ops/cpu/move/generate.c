/* Outputs made of shapes, attributes and single values: Shape, Size, Constant, ConstantOfShape, Range, and Dropout for
 * inference. */
#include "base/dtype.h"
#include "base/half.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/strided.h"

/* Copies `bytes` bytes to output 0, n times (n 1: Shape, Size, Constant). */
typedef struct emit_state {
  cpu_team team;
  const void *source; /* memory after the struct, or the module's */
  int64_t bytes, n;
  int64_t own[REED_MAX_RANK];
} emit_state;

typedef struct emit_job {
  const emit_state *s;
  char *out;
} emit_job;

static void fill_range(void *context, int64_t begin, int64_t end) {
  const emit_job *job = context;
  strided_fill(job->out + begin * job->s->bytes, job->s->source, job->s->bytes, end - begin);
}

static reed_status run_emit(const void *state, const reed_kernel_buffers *buffers) {
  const emit_state *s = state;
  emit_job job = {s, buffers->outputs[0]};
  if (s->n != 1) return s->n ? cpu_parallel(s->team, s->n, 64, fill_range, &job) : REED_OK;
  if (s->bytes) memcpy(buffers->outputs[0], s->source, (size_t)s->bytes);
  return REED_OK;
}

static emit_state *open_emit(const reed_kernel_call *call, reed_kernel *out_kernel) {
  emit_state *s = mem_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->source = s->own;
  s->n = 1;
  cpu_kernel_set(out_kernel, run_emit, s);
  return s;
}

/* Shape (ONNX 15): dims start..end, both clamped to 0..rank. */
reed_status cpu_prepare_shape(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  emit_state *s = open_emit(call, out_kernel);
  if (!s) return cpu_no_memory(call);
  int64_t start = op_attr_int(call->attrs, "start");
  if (start < 0) start += in->rank;
  if (start < 0) start = 0;
  int64_t n = desc_elements(&call->outputs[0]);
  for (int64_t i = 0; i < n && start + i < in->rank; i++) s->own[i] = in->dims[start + i];
  s->bytes = n * 8;
  return REED_OK;
}

reed_status cpu_prepare_size(const reed_kernel_call *call, reed_kernel *out_kernel) {
  emit_state *s = open_emit(call, out_kernel);
  if (!s) return cpu_no_memory(call);
  s->own[0] = desc_elements(&call->inputs[0]);
  s->bytes = 8;
  return REED_OK;
}

/* Constant: borrows the attribute's bytes, which live as long as the module. */
reed_status cpu_prepare_constant(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_attr *value = reed_attrs_find(call->attrs, "value");
  emit_state *s = open_emit(call, out_kernel);
  if (!s) return cpu_no_memory(call);
  s->source = value->data;
  s->bytes = desc_bytes(&call->outputs[0]);
  return REED_OK;
}

/* ConstantOfShape: the one element of attribute `value`, or f32 0 if it is absent. */
reed_status cpu_prepare_constant_of_shape(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_attr *value = reed_attrs_find(call->attrs, "value");
  const reed_desc *out = &call->outputs[0];
  emit_state *s = open_emit(call, out_kernel);
  if (!s) return cpu_no_memory(call);
  s->bytes = (int64_t)reed_dtype_bytes(out->dtype);
  s->n = desc_elements(out);
  s->team = cpu_team_for(cpu_env_team(call), s->n * s->bytes);
  if (value) memcpy(s->own, value->data, (size_t)s->bytes);
  return REED_OK;
}

/* ---- Range ---- */

/* Floats: start + i * delta in double, rounded once. Integers: modulo 2^64, exact for every value the dtype holds. */
typedef struct range_state {
  cpu_team team;
  reed_dtype dtype;
  int64_t n;
  double start, delta;
  uint64_t start_bits, delta_bits;
} range_state;

typedef struct range_job {
  const range_state *s;
  void *out;
} range_job;

static uint16_t bf16_from_f64(double x) { return bf16_from_f32((float)x); }

static void range_elements(void *context, int64_t begin, int64_t end) {
  enum { AT_ONCE = 8 };
  const range_job *job = context;
  const range_state *s = job->s;
  /* gcc 12 makes wrong code of eight sums that go on side by side (-O3): one goes on, eight steps are added to it */
  uint64_t bits = s->start_bits + (uint64_t)begin * s->delta_bits, steps[AT_ONCE];
  int64_t i = begin;
  for (int k = 0; k < AT_ONCE; k++) steps[k] = (uint64_t)k * s->delta_bits;
#define INTEGERS(T) \
  for (T *to = job->out; i + AT_ONCE <= end; i += AT_ONCE, bits += AT_ONCE * s->delta_bits) \
    for (int k = 0; k < AT_ONCE; k++) to[i + k] = (T)(bits + steps[k]); \
  for (; i < end; i++, bits += s->delta_bits) ((T *)job->out)[i] = (T)bits; \
  break
#define REALS(T, from_double) \
  for (; i < end; i++) ((T *)job->out)[i] = from_double(s->start + (double)i * s->delta); \
  break
  switch (s->dtype) {
    case REED_F32: REALS(float, (float));
    case REED_F64: REALS(double, (double));
    case REED_F16: REALS(uint16_t, f16_from_f64);
    case REED_BF16: REALS(uint16_t, bf16_from_f64);
    case REED_I8:
    case REED_U8: INTEGERS(uint8_t);
    case REED_I16:
    case REED_U16: INTEGERS(uint16_t);
    case REED_I32:
    case REED_U32: INTEGERS(uint32_t);
    case REED_I64:
    case REED_U64: INTEGERS(uint64_t);
    case REED_BOOL:
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef INTEGERS
#undef REALS
}

static reed_status run_range(const void *state, const reed_kernel_buffers *buffers) {
  const range_state *s = state;
  range_job job = {s, buffers->outputs[0]};
  return cpu_parallel(s->team, s->n, 64, range_elements, &job);
}

reed_status cpu_prepare_range(const reed_kernel_call *call, reed_kernel *out_kernel) {
  range_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->dtype = call->outputs[0].dtype;
  s->n = desc_elements(&call->outputs[0]);
  s->team = cpu_team_for(cpu_env_team(call), s->n * 16);
  const void *start = call->host_values[0], *delta = call->host_values[2];
  s->start = reed_dtype_read(s->dtype, start);
  s->delta = reed_dtype_read(s->dtype, delta);
  if (!dtype_is_real(s->dtype)) {
    s->start_bits = (uint64_t)dtype_read_integer(s->dtype, start);
    s->delta_bits = (uint64_t)dtype_read_integer(s->dtype, delta);
  }
  cpu_kernel_set(out_kernel, run_range, s);
  return REED_OK;
}

/* ---- Dropout ---- */

typedef struct dropout_state {
  strided_copy copy;
  cpu_team mask_team;
  int64_t n_mask;
  reed_dtype ratio_dtype; /* NONE: absent, 0.5 */
  bool has_mode;
} dropout_state;

static void mark_range(void *context, int64_t begin, int64_t end) {
  memset((uint8_t *)context + begin, 1, (size_t)(end - begin));
}

/* Inference: the identity, and a mask of ones. Training with a ratio above 0 is refused, because it would need random
 * numbers. */
static reed_status run_dropout(const void *state, const reed_kernel_buffers *buffers) {
  const dropout_state *s = state;
  bool training = s->has_mode && *(const uint8_t *)buffers->inputs[2];
  double ratio = s->ratio_dtype == REED_NONE ? 0.5 : reed_dtype_read(s->ratio_dtype, buffers->inputs[1]);
  if (training && ratio != 0) return reed_kernel_fault(buffers, REED_FAULT_TRAINING, 2, -1, cpu_bits_of(ratio), 0);
  reed_status status = strided_run(&s->copy, buffers->inputs[0], buffers->outputs[0]);
  if (status != REED_OK) return status;
  return s->n_mask ? cpu_parallel(s->mask_team, s->n_mask, 64, mark_range, buffers->outputs[1]) : REED_OK;
}

reed_status cpu_prepare_dropout(const reed_kernel_call *call, reed_kernel *out_kernel) {
  for (int32_t k = 1; k < 3; k++)
    if (cpu_present(call, k) && desc_elements(&call->inputs[k]) != 1)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "'%s' must have one element", call->op->inputs[k].name);
  dropout_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  strided_plan_bytes(&s->copy, desc_bytes(&call->inputs[0]), cpu_env_team(call));
  s->n_mask = call->n_outputs > 1 && call->outputs[1].dtype != REED_NONE ? desc_elements(&call->outputs[1]) : 0;
  s->mask_team = cpu_team_for(cpu_env_team(call), s->n_mask);
  s->ratio_dtype = cpu_present(call, 1) ? call->inputs[1].dtype : REED_NONE;
  s->has_mode = cpu_present(call, 2);
  cpu_kernel_set(out_kernel, run_dropout, s);
  return REED_OK;
}
