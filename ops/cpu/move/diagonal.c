/* Trilu, EyeLike, OneHot and ReverseSequence. These kernels have no separate references, because they are as plain as a
 * reference would be. */
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/strided.h"

/* ---- Trilu ---- */

typedef struct trilu_state {
  cpu_team team;
  int64_t matrices, rows, columns, size; /* bytes of an element */
  bool upper, has_k;
} trilu_state;

/* Trilu (ONNX 14): row i keeps columns from i + k on (upper) or up to i + k. */
static reed_status run_trilu(const void *state, const reed_kernel_buffers *buffers) {
  const trilu_state *s = state;
  int64_t k = s->has_k ? cpu_clamp(*(const int64_t *)buffers->inputs[1], -s->rows, s->columns) : 0;
  int64_t row_bytes = s->columns * s->size;
  for (int64_t r = 0; r < s->matrices * s->rows; r++) {
    if (cpu_cancelled(&s->team)) return REED_ERROR_CANCELLED;
    const char *from = (const char *)buffers->inputs[0] + r * row_bytes;
    char *to = (char *)buffers->outputs[0] + r * row_bytes;
    int64_t edge = cpu_clamp(r % s->rows + k + !s->upper, 0, s->columns) *
                   s->size; /* byte at which the kept part begins or ends */
    if (from != to) memcpy(to, from, (size_t)row_bytes);
    memset(s->upper ? to : to + edge, 0, (size_t)(s->upper ? edge : row_bytes - edge));
  }
  return REED_OK;
}

reed_status cpu_prepare_trilu(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  bool has_k = cpu_present(call, 1);
  if (has_k && desc_elements(&call->inputs[1]) != 1)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "'k' must have one element");
  trilu_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  *s = (trilu_state){.team = cpu_env_team(call),
                     .matrices = cpu_product(in->dims, 0, in->rank - 2),
                     .rows = in->dims[in->rank - 2],
                     .columns = in->dims[in->rank - 1],
                     .size = (int64_t)reed_dtype_bytes(in->dtype),
                     .upper = op_attr_int(call->attrs, "upper") != 0,
                     .has_k = has_k};
  cpu_kernel_set(out_kernel, run_trilu, s);
  return REED_OK;
}

/* ---- EyeLike ---- */

typedef struct eye_state {
  int64_t rows, columns, size, k;
  uint64_t one; /* of the output's dtype */
} eye_state;

static reed_status run_eye_like(const void *state, const reed_kernel_buffers *buffers) {
  const eye_state *s = state;
  char *out = buffers->outputs[0];
  memset(out, 0, (size_t)(s->rows * s->columns * s->size));
  for (int64_t r = s->k < 0 ? -s->k : 0; r < s->rows && r + s->k < s->columns; r++)
    memcpy(out + (r * s->columns + r + s->k) * s->size, &s->one, (size_t)s->size);
  return REED_OK;
}

/* EyeLike (ONNX 22): ones on diagonal k. */
reed_status cpu_prepare_eye_like(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  eye_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->rows = out->dims[0];
  s->columns = out->dims[1];
  s->size = (int64_t)reed_dtype_bytes(out->dtype);
  s->k = cpu_clamp(op_attr_int(call->attrs, "k"), -s->rows, s->columns);
  reed_dtype_write(out->dtype, &s->one, 1);
  cpu_kernel_set(out_kernel, run_eye_like, s);
  return REED_OK;
}

/* ---- OneHot ---- */

typedef struct one_hot_state {
  cpu_team team;
  convert_fn load;             /* an index to i64 */
  int64_t outer, depth, inner; /* output as [outer, depth, inner], indices as [outer, inner] */
  int64_t index_size, size;
} one_hot_state;

/* The whole output becomes values[0], then each index in -depth..depth-1 sets its element to values[1]. */
static reed_status run_one_hot(const void *state, const reed_kernel_buffers *buffers) {
  const one_hot_state *s = state;
  const char *indices = buffers->inputs[0], *off = buffers->inputs[2], *on = off + s->size;
  char *out = buffers->outputs[0];
  strided_fill(out, off, s->size, s->outer * s->depth * s->inner);
  for (int64_t i = 0; i < s->outer * s->inner; i++) {
    if (cpu_cancelled_at(&s->team, i)) return REED_ERROR_CANCELLED;
    int64_t index;
    s->load(&index, indices + i * s->index_size, 1);
    if (index < -s->depth || index >= s->depth) continue;
    if (index < 0) index += s->depth;
    memcpy(out + ((i / s->inner * s->depth + index) * s->inner + i % s->inner) * s->size, on, (size_t)s->size);
  }
  return REED_OK;
}

/* OneHot (ONNX 11). */
reed_status cpu_prepare_one_hot(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *indices = &call->inputs[0], *out = &call->outputs[0];
  if (desc_elements(&call->inputs[2]) != 2)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "'values' must have two elements: off and on");
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), out->rank);
  one_hot_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  *s = (one_hot_state){.team = cpu_env_team(call),
                       .load = convert_between(cpu_level_now(), indices->dtype, REED_I64),
                       .outer = cpu_product(out->dims, 0, axis),
                       .depth = out->dims[axis],
                       .inner = cpu_product(out->dims, axis + 1, out->rank),
                       .index_size = (int64_t)reed_dtype_bytes(indices->dtype),
                       .size = (int64_t)reed_dtype_bytes(out->dtype)};
  cpu_kernel_set(out_kernel, run_one_hot, s);
  return REED_OK;
}

/* ---- ReverseSequence ---- */

typedef struct reverse_state {
  cpu_team team;
  int64_t times, batches, block;     /* block: bytes of the axes after the first two */
  int64_t time_stride, batch_stride; /* in blocks */
} reverse_state;

static reed_status run_reverse_sequence(const void *state, const reed_kernel_buffers *buffers) {
  const reverse_state *s = state;
  const int64_t *lengths = buffers->inputs[1];
  for (int64_t b = 0; b < s->batches; b++)
    if (lengths[b] < 0 || lengths[b] > s->times)
      return reed_kernel_fault(buffers, REED_FAULT_LENGTH, 1, b, lengths[b], s->times);
  for (int64_t b = 0; b < s->batches; b++)
    for (int64_t t = 0; t < s->times; t++) {
      if (cpu_cancelled_at(&s->team, t)) return REED_ERROR_CANCELLED;
      int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t, base = b * s->batch_stride;
      memcpy((char *)buffers->outputs[0] + (base + t * s->time_stride) * s->block,
             (const char *)buffers->inputs[0] + (base + from * s->time_stride) * s->block, (size_t)s->block);
    }
  return REED_OK;
}

/* ReverseSequence (ONNX 10): the first sequence_lens[b] steps of sequence b turned round. */
reed_status cpu_prepare_reverse_sequence(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  bool time_first = op_attr_int(call->attrs, "time_axis") == 0;
  reverse_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  *s = (reverse_state){.team = cpu_env_team(call),
                       .times = in->dims[!time_first],
                       .batches = in->dims[time_first],
                       .block = cpu_product(in->dims, 2, in->rank) * (int64_t)reed_dtype_bytes(in->dtype),
                       .time_stride = time_first ? in->dims[1] : 1,
                       .batch_stride = time_first ? 1 : in->dims[1]};
  if (desc_elements(&call->inputs[1]) != s->batches) {
    reed_status status = reed_kernel_fail(call, REED_ERROR_SHAPE, "%lld lengths for %lld sequences",
                                          (long long)desc_elements(&call->inputs[1]), (long long)s->batches);
    mem_free(s);
    return status;
  }
  cpu_kernel_set(out_kernel, run_reverse_sequence, s);
  return REED_OK;
}
