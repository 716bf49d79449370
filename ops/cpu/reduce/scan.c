/* CumSum, ArgMax and ArgMin: walks along one axis that read every element in order. Tensors are seen as [outer, extent,
 * inner]; a list makes one loop per dtype. The reference: reference/reduce.c. Reductions to one element a line:
 * reduce.c. */
#include "base/half.h"
#include "ops/cpu/calls/scan.h"
#include "ops/cpu/common/common.h"

/* name, memory type, type of values and sums, value of memory element x, memory element of value v */
#define SCAN_TYPES(X) \
  X(F32, float, double, x, (float)v) \
  X(F64, double, double, x, v) \
  X(F16, uint16_t, float, f16_to_f32(x), f16_from_f32(v)) \
  X(BF16, uint16_t, float, bf16_to_f32(x), bf16_from_f32(v)) \
  X(I8, int8_t, uint64_t, (uint64_t)x, (int8_t)v) \
  X(I16, int16_t, uint64_t, (uint64_t)x, (int16_t)v) \
  X(I32, int32_t, uint64_t, (uint64_t)x, (int32_t)v) \
  X(I64, int64_t, uint64_t, (uint64_t)x, (int64_t)v) \
  X(U8, uint8_t, uint64_t, x, (uint8_t)v) \
  X(U16, uint16_t, uint64_t, x, (uint16_t)v) \
  X(U32, uint32_t, uint64_t, x, (uint32_t)v) \
  X(U64, uint64_t, uint64_t, x, v)

/* ---- CumSum ---- */

/* One line of n elements, `stride` apart; integers wrap. */
typedef void (*cumsum_fn)(void *out, const void *in, int64_t n, int64_t stride, bool exclusive, bool reverse);

#define CUMSUM(name, M, V, load, store) \
  static void cumsum_##name(void *out, const void *in, int64_t n, int64_t stride, bool exclusive, bool reverse) { \
    V sum = 0; \
    for (int64_t k = 0; k < n; k++) { \
      int64_t i = (reverse ? n - 1 - k : k) * stride; \
      const M x = ((const M *)in)[i]; \
      V v = sum; \
      sum += load; \
      if (!exclusive) v = sum; \
      ((M *)out)[i] = store; \
    } \
  }
SCAN_TYPES(CUMSUM)

static const cumsum_fn cumsums[REED_DTYPE_COUNT] = {
#define CUMSUM_ENTRY(name, ...) [REED_##name] = cumsum_##name,
    SCAN_TYPES(CUMSUM_ENTRY)};

typedef struct cumsum_state {
  cumsum_fn line;
  reed_desc in;
  reed_dtype axis_dtype;
  cpu_team team;
  bool exclusive, reverse;
} cumsum_state;

typedef struct cumsum_job {
  const cumsum_state *s;
  const char *in;
  char *out;
  int64_t extent, inner;
} cumsum_job;

static void cumsum_range(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  const cumsum_state *s = job->s;
  int64_t size = (int64_t)reed_dtype_bytes(s->in.dtype);
  for (int64_t line = begin; line < end; line++) {
    int64_t at = (line / job->inner * job->extent * job->inner + line % job->inner) * size;
    s->line(job->out + at, job->in + at, job->extent, job->inner, s->exclusive, s->reverse);
  }
}

static reed_status run_cumsum(const void *state, const reed_kernel_buffers *buffers) {
  const cumsum_state *s = state;
  int64_t axis = cpu_index_at(s->axis_dtype, buffers->inputs[1], 0);
  if (axis < -s->in.rank || axis >= s->in.rank)
    return reed_kernel_fault(buffers, REED_FAULT_AXIS, 1, 0, axis, s->in.rank);
  int32_t d = (int32_t)(axis < 0 ? axis + s->in.rank : axis);
  int64_t n = desc_elements(&s->in);
  if (n == 0) return REED_OK;
  cumsum_job job = {s, buffers->inputs[0], buffers->outputs[0], s->in.dims[d],
                    cpu_product(s->in.dims, d + 1, s->in.rank)};
  return cpu_parallel(s->team, n / job.extent, 1, cumsum_range, &job);
}

reed_status cpu_prepare_cumsum(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = cumsum_check(call);
  if (status != REED_OK) return status;
  cumsum_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->in = call->inputs[0];
  s->line = cumsums[s->in.dtype];
  s->axis_dtype = call->inputs[1].dtype;
  s->exclusive = op_attr_int(call->attrs, "exclusive") != 0;
  s->reverse = op_attr_int(call->attrs, "reverse") != 0;
  s->team = cpu_team_for(cpu_env_team(call), 2 * desc_bytes(&s->in));
  cpu_kernel_set(out_kernel, run_cumsum, s);
  return REED_OK;
}

/* ---- ArgMax, ArgMin ---- */

/* Index along the axis of the best of n elements `stride` apart; of equal elements the first, or the last. NaN is best,
 * as in numpy. */
typedef int64_t (*arg_fn)(const void *in, int64_t n, int64_t stride, bool least, bool last);

#define ARG(name, M, V, load, store) \
  static int64_t arg_##name(const void *in, int64_t n, int64_t stride, bool least, bool last) { \
    int64_t best = 0; \
    M x = ((const M *)in)[0]; \
    __typeof__(ARG_VALUE(M, load)) value = ARG_VALUE(M, load); \
    for (int64_t k = 1; k < n; k++) { \
      x = ((const M *)in)[k * stride]; \
      __typeof__(value) v = ARG_VALUE(M, load); \
      bool same = v == value || (v != v && value != value); \
      bool better = value == value && (v != v || (least ? v < value : v > value)); \
      if (better || (last && same)) { \
        best = k; \
        value = v; \
      } \
    } \
    return best; \
  }
/* f16 and bf16 compare as floats, other types as they are in memory. */
#define ARG_VALUE(M, load) __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(load), float), load, x)
SCAN_TYPES(ARG)

static const arg_fn args[REED_DTYPE_COUNT] = {
#define ARG_ENTRY(name, ...) [REED_##name] = arg_##name,
    SCAN_TYPES(ARG_ENTRY)};

typedef struct arg_state {
  arg_fn line;
  int64_t extent, inner, n_out, size;
  cpu_team team;
  bool least, last;
} arg_state;

typedef struct arg_job {
  const arg_state *s;
  const char *in;
  int64_t *out;
} arg_job;

static void arg_range(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  for (int64_t i = begin; i < end; i++)
    job->out[i] = s->line(job->in + (i / s->inner * s->extent * s->inner + i % s->inner) * s->size, s->extent, s->inner,
                          s->least, s->last);
}

static reed_status run_arg_reduce(const void *state, const reed_kernel_buffers *buffers) {
  const arg_state *s = state;
  arg_job job = {s, buffers->inputs[0], buffers->outputs[0]};
  return cpu_parallel(s->team, s->n_out, 1, arg_range, &job);
}

reed_status cpu_prepare_arg_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  int64_t n_out = desc_elements(&call->outputs[0]);
  arg_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->line = args[in->dtype];
  s->extent = in->dims[axis];
  s->inner = cpu_product(in->dims, axis + 1, in->rank);
  s->n_out = n_out;
  s->size = (int64_t)reed_dtype_bytes(in->dtype);
  s->least = op_id_of(call->op) == OP_ArgMin;
  s->last = op_attr_int(call->attrs, "select_last_index") != 0;
  s->team = cpu_team_for(cpu_env_team(call), desc_bytes(in));
  cpu_kernel_set(out_kernel, run_arg_reduce, s);
  return REED_OK;
}
