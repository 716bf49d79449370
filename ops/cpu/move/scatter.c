/* ScatterElements and ScatterND (ONNX 18): a copy of data, then the updates in order on one thread, so that with
 * reduction `none` the last update of an element stays. The output may share data's memory. The reference:
 * reference/movement.c. Reading by indices: gather.c. */
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/formulas/formulas.h"

typedef struct scatter_state {
  strided_copy copy;      /* data to output */
  elementwise_fn combine; /* NULL: replace */
  convert_fn load, store; /* the half dtypes combine in f32; NULL: none */
  reed_dtype index_dtype;
  int32_t rank, axis;                                     /* ScatterElements */
  int32_t n_components;                                   /* ScatterND: length of an index tuple */
  int64_t n;                                              /* updates: elements, or slices */
  int64_t block, size;                                    /* elements in an update, bytes of an element */
  int64_t extents[REED_MAX_RANK], strides[REED_MAX_RANK]; /* of data, in elements */
  int64_t walk[REED_MAX_RANK];                            /* ScatterElements: extents of indices */
} scatter_state;

#define BLOCK 256

/* to[0..n) = combine(to, update) */
static void apply(const scatter_state *s, char *to, const char *update, int64_t n) {
  static const elementwise_parameters none = {0, 0};
  static const uint8_t steps[2] = {1, 1};
  if (!s->combine) {
    memcpy(to, update, (size_t)(n * s->size));
  } else if (!s->load) {
    s->combine(to, (const void *const[]){to, update}, steps, n, &none);
  } else {
    float a[BLOCK], b[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
      int64_t m = n - i < BLOCK ? n - i : BLOCK;
      s->load(a, to + i * s->size, m);
      s->load(b, update + i * s->size, m);
      s->combine(a, (const void *const[]){a, b}, steps, m, &none);
      s->store(to + i * s->size, a, m);
    }
  }
}

static reed_status run_scatter_elements(const void *state, const reed_kernel_buffers *buffers) {
  const scatter_state *s = state;
  const void *indices = buffers->inputs[1];
  const char *updates = buffers->inputs[2];
  char *out = buffers->outputs[0];
  reed_status status = cpu_indices_check(buffers, 1, s->index_dtype, indices, s->n, s->extents[s->axis]);
  if (status) return status;
  status = strided_run(&s->copy, buffers->inputs[0], out);
  if (status != REED_OK) return status;
  int64_t coordinates[REED_MAX_RANK] = {0}, base = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (cpu_cancelled_at(&s->copy.team, i)) return REED_ERROR_CANCELLED;
    int64_t at = base + cpu_index_wrapped(s->index_dtype, indices, i, s->extents[s->axis]) * s->strides[s->axis];
    apply(s, out + at * s->size, updates + i * s->size, 1);
    for (int32_t d = s->rank - 1; d >= 0; d--) {
      int64_t stride = d == s->axis ? 0 : s->strides[d];
      base += stride;
      if (++coordinates[d] < s->walk[d]) break;
      base -= stride * s->walk[d];
      coordinates[d] = 0;
    }
  }
  return REED_OK;
}

static reed_status run_scatter_nd(const void *state, const reed_kernel_buffers *buffers) {
  const scatter_state *s = state;
  const void *indices = buffers->inputs[1];
  const char *updates = buffers->inputs[2];
  char *out = buffers->outputs[0];
  reed_status status = cpu_tuples_check(buffers, 1, s->index_dtype, indices, s->n, s->n_components, s->extents);
  if (status) return status;
  status = strided_run(&s->copy, buffers->inputs[0], out);
  if (status != REED_OK) return status;
  for (int64_t i = 0; i < s->n && s->block; i++) {
    if (cpu_cancelled_at(&s->copy.team, i)) return REED_ERROR_CANCELLED;
    int64_t at = 0;
    for (int32_t d = 0; d < s->n_components; d++)
      at += cpu_index_wrapped(s->index_dtype, indices, i * s->n_components + d, s->extents[d]) * s->strides[d];
    apply(s, out + at * s->size, updates + i * s->block * s->size, s->block);
  }
  return REED_OK;
}

/* The formula of a reduction; bools add and multiply as or and and, which on 0 and 1 are max and min. */
static void find_combine(const reed_kernel_call *call, scatter_state *s) {
  static const int formulas[] = {-1, OP_Add, OP_Mul, OP_Max, OP_Min}, /* in the order of op.def */
      truths[] = {-1, OP_Max, OP_Min, OP_Max, OP_Min};
  int32_t reduction = op_attr_word(call->op, call->attrs, "reduction");
  if (!reduction) return;
  reed_dtype dtype = call->inputs[0].dtype;
  bool truth = dtype == REED_BOOL, half = dtype == REED_F16 || dtype == REED_BF16;
  int formula = truth ? truths[reduction] : formulas[reduction];
  cpu_level level = cpu_level_now();
  s->combine = elementwise_formula(level, half ? REED_F32 : truth ? REED_U8 : dtype, formula);
  s->load = half ? convert_between(level, dtype, REED_F32) : NULL;
  s->store = half ? convert_between(level, REED_F32, dtype) : NULL;
}

/* Opens a state with the parts that both operators share; NULL: no memory. */
static scatter_state *open_scatter(const reed_kernel_call *call) {
  const reed_desc *data = &call->inputs[0];
  scatter_state *s = mem_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->index_dtype = call->inputs[1].dtype;
  s->size = (int64_t)reed_dtype_bytes(data->dtype);
  s->rank = data->rank;
  memcpy(s->extents, data->dims, sizeof s->extents);
  cpu_dense_strides(data->rank, data->dims, s->strides);
  strided_plan_bytes(&s->copy, desc_bytes(data), cpu_env_team(call));
  return s;
}

static reed_status close_scatter(const reed_kernel_call *call, scatter_state *s, reed_kernel_run_fn run,
                                 reed_kernel *out_kernel) {
  find_combine(call, s);
  cpu_kernel_set(out_kernel, run, s);
  return REED_OK;
}

reed_status cpu_prepare_scatter_elements(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank);
  scatter_state *s = open_scatter(call);
  if (!s) return cpu_no_memory(call);
  s->axis = axis;
  s->n = desc_elements(indices);
  s->block = 1;
  memcpy(s->walk, indices->dims, sizeof s->walk);
  return close_scatter(call, s, run_scatter_elements, out_kernel);
}

reed_status cpu_prepare_scatter_nd(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1], *updates = &call->inputs[2];
  int64_t k = indices->rank ? indices->dims[indices->rank - 1] : -1;
  bool fits = k >= 0 && k <= data->rank && updates->rank == indices->rank - 1 + data->rank - (int32_t)k;
  for (int32_t d = 0; d < updates->rank && fits; d++)
    fits = updates->dims[d] == (d < indices->rank - 1 ? indices->dims[d] : data->dims[k + d - (indices->rank - 1)]);
  if (!fits) return reed_kernel_fail(call, REED_ERROR_SHAPE, "data, indices and updates do not agree");
  scatter_state *s = open_scatter(call);
  if (!s) return cpu_no_memory(call);
  s->n_components = (int32_t)k;
  s->n = cpu_product(indices->dims, 0, indices->rank - 1);
  s->block = cpu_product(data->dims, (int32_t)k, data->rank);
  return close_scatter(call, s, run_scatter_nd, out_kernel);
}
