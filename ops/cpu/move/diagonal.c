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

typedef struct trilu_job {
  const trilu_state *s;
  const char *in;
  char *out;
  int64_t k;
} trilu_job;

/* Columns begin..end-1 of row r, of which those before `edge`, or from there on (upper), are kept. */
static void trilu_part(const trilu_job *job, int64_t r, int64_t edge, int64_t begin, int64_t end) {
  const trilu_state *s = job->s;
  edge = cpu_clamp(edge, begin, end);
  const int64_t size = s->size, kept = s->upper ? edge : begin, kept_end = s->upper ? end : edge,
                zero = s->upper ? begin : edge, zero_end = s->upper ? edge : end;
  const char *from = job->in + r * s->columns * size;
  char *to = job->out + r * s->columns * size;
  if (from != to) memcpy(to + kept * size, from + kept * size, (size_t)((kept_end - kept) * size));
  memset(to + zero * size, 0, (size_t)((zero_end - zero) * size));
}

/* Row i keeps columns from i + k on (upper) or up to i + k. */
static void trilu_rows(void *context, int64_t begin, int64_t end) {
  const trilu_job *job = context;
  const trilu_state *s = job->s;
  const int64_t row_bytes = s->columns * s->size, shift = job->k + !s->upper;
  for (int64_t r = begin, n; r < end; r += n) {
    const char *from = job->in + r * row_bytes;
    char *to = job->out + r * row_bytes;
    const int64_t row = r % s->rows, left = s->rows - row < end - r ? s->rows - row : end - r,
                  edge = cpu_clamp(row + shift, 0, s->columns); /* column at which the kept part begins or ends */
    n = 1;
    if (edge == 0 || edge == s->columns) { /* the same for rows that follow */
      n = edge > 0 ? left : cpu_clamp(1 - shift - row, 1, left);
      const bool kept = s->upper == (edge == 0);
      if (!kept) memset(to, 0, (size_t)(n * row_bytes));
      else if (from != to) memcpy(to, from, (size_t)(n * row_bytes));
      continue;
    }
    trilu_part(job, r, edge, 0, s->columns);
  }
}

/* Ranges count pieces of long rows. */
static void trilu_long_rows(void *context, int64_t begin, int64_t end) {
  const trilu_job *job = context;
  const trilu_state *s = job->s;
  const int64_t pieces = cpu_pieces(s->columns * s->size), each = s->columns / pieces, shift = job->k + !s->upper;
  for (int64_t i = begin; i < end; i++) {
    const int64_t r = i / pieces, piece = i % pieces;
    trilu_part(job, r, r % s->rows + shift, each * piece, piece + 1 == pieces ? s->columns : each * (piece + 1));
  }
}

/* Trilu (ONNX 14). */
static reed_status run_trilu(const void *state, const reed_kernel_buffers *buffers) {
  const trilu_state *s = state;
  trilu_job job = {s, buffers->inputs[0], buffers->outputs[0], 0};
  if (s->has_k) job.k = cpu_clamp(*(const int64_t *)buffers->inputs[1], -s->rows, s->columns);
  const int64_t rows = s->matrices * s->rows, pieces = cpu_pieces(s->columns * s->size);
  return pieces > 1 ? cpu_parallel(s->team, rows * pieces, 1, trilu_long_rows, &job)
                    : cpu_parallel(s->team, rows, 1, trilu_rows, &job);
}

reed_status cpu_prepare_trilu(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  bool has_k = cpu_present(call, 1);
  if (has_k && desc_elements(&call->inputs[1]) != 1)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "'k' must have one element");
  trilu_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  *s = (trilu_state){.matrices = cpu_product(in->dims, 0, in->rank - 2),
                     .rows = in->dims[in->rank - 2],
                     .columns = in->dims[in->rank - 1],
                     .size = (int64_t)reed_dtype_bytes(in->dtype),
                     .upper = op_attr_int(call->attrs, "upper") != 0,
                     .has_k = has_k};
  s->team = cpu_team_for(cpu_env_team(call), 2 * desc_bytes(in));
  cpu_kernel_set(out_kernel, run_trilu, s);
  return REED_OK;
}

/* ---- EyeLike ---- */

typedef struct eye_state {
  cpu_team team;
  int64_t rows, columns, size, k;
  uint64_t one; /* of the output's dtype */
} eye_state;

typedef struct eye_job {
  const eye_state *s;
  char *out;
} eye_job;

static void eye_rows(void *context, int64_t begin, int64_t end) {
  const eye_job *job = context;
  const eye_state *s = job->s;
  memset(job->out + begin * s->columns * s->size, 0, (size_t)((end - begin) * s->columns * s->size));
  for (int64_t r = begin; r < end; r++)
    if (r + s->k >= 0 && r + s->k < s->columns)
      memcpy(job->out + (r * s->columns + r + s->k) * s->size, &s->one, (size_t)s->size);
}

static reed_status run_eye_like(const void *state, const reed_kernel_buffers *buffers) {
  const eye_state *s = state;
  eye_job job = {s, buffers->outputs[0]};
  return cpu_parallel(s->team, s->rows, 1, eye_rows, &job);
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
  s->team = cpu_team_for(cpu_env_team(call), desc_bytes(out));
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

typedef struct one_hot_job {
  const one_hot_state *s;
  const char *indices, *off, *on;
  char *out;
} one_hot_job;

static void fill_off(void *context, int64_t begin, int64_t end) {
  const one_hot_job *job = context;
  strided_fill(job->out + begin * job->s->size, job->off, job->s->size, end - begin);
}

static void set_on(void *context, int64_t begin, int64_t end) {
  const one_hot_job *job = context;
  const one_hot_state *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    int64_t index;
    s->load(&index, job->indices + i * s->index_size, 1);
    if (index < -s->depth || index >= s->depth) continue;
    if (index < 0) index += s->depth;
    memcpy(job->out + ((i / s->inner * s->depth + index) * s->inner + i % s->inner) * s->size, job->on,
           (size_t)s->size);
  }
}

/* The whole output becomes values[0], then each index in -depth..depth-1 sets its element to values[1]. */
static reed_status run_one_hot(const void *state, const reed_kernel_buffers *buffers) {
  const one_hot_state *s = state;
  const char *values = buffers->inputs[2];
  one_hot_job job = {s, buffers->inputs[0], values, values + s->size, buffers->outputs[0]};
  int64_t n = s->outer * s->inner;
  reed_status status = cpu_parallel(cpu_team_for(s->team, n * s->depth * s->size), n * s->depth, 64, fill_off, &job);
  return status == REED_OK ? cpu_parallel(cpu_team_for(s->team, n * 64), n, 1, set_on, &job) : status;
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

typedef struct reverse_job {
  const reverse_state *s;
  const int64_t *lengths;
  const char *in;
  char *out;
} reverse_job;

/* Steps count pairs of a sequence and a time. */
static void reverse_steps(void *context, int64_t begin, int64_t end) {
  const reverse_job *job = context;
  const reverse_state *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    int64_t b = i / s->times, t = i % s->times, length = job->lengths[b], from = t < length ? length - 1 - t : t;
    memcpy(job->out + (b * s->batch_stride + t * s->time_stride) * s->block,
           job->in + (b * s->batch_stride + from * s->time_stride) * s->block, (size_t)s->block);
  }
}

static reed_status run_reverse_sequence(const void *state, const reed_kernel_buffers *buffers) {
  const reverse_state *s = state;
  const int64_t *lengths = buffers->inputs[1];
  for (int64_t b = 0; b < s->batches; b++)
    if (lengths[b] < 0 || lengths[b] > s->times)
      return reed_kernel_fault(buffers, REED_FAULT_LENGTH, 1, b, lengths[b], s->times);
  reverse_job job = {s, lengths, buffers->inputs[0], buffers->outputs[0]};
  return cpu_parallel(s->team, s->batches * s->times, 1, reverse_steps, &job);
}

/* ReverseSequence (ONNX 10): the first sequence_lens[b] steps of sequence b turned round. */
reed_status cpu_prepare_reverse_sequence(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  bool time_first = op_attr_int(call->attrs, "time_axis") == 0;
  reverse_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  *s = (reverse_state){.team = cpu_team_for(cpu_env_team(call), 2 * desc_bytes(in) + 128 * in->dims[0] * in->dims[1]),
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
