/* Pad (ONNX 21), all modes. Per dim a map says which source coordinate an output coordinate reads, -1 for the constant:
 * cropping, reflecting, repeating and wrapping differ only in how prepare fills the maps. Rows are copied as one block
 * where the innermost map is consecutive. */
#include "ops/cpu/common.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/move/strided.h"

typedef struct pad_state {
  int32_t rank, n_threads;
  int64_t size;                   /* bytes of an element */
  int64_t n_rows;                 /* of the output's innermost dim */
  int64_t block_begin, block_end; /* innermost: the longest prefix-suffix cut that is consecutive in the source */
  bool has_value;                 /* input 2 */
  int64_t extents[REED_MAX_RANK]; /* of the output */
  int64_t strides[REED_MAX_RANK]; /* of the source, in bytes */
  int64_t *maps[REED_MAX_RANK];   /* behind the struct; rank at least 1 */
} pad_state;

typedef struct pad_job {
  const pad_state *s;
  const char *in, *value;
  char *out;
} pad_job;

static void pad_span(const pad_job *job, char *row, const char *from, int64_t begin, int64_t end) {
  const pad_state *s = job->s;
  const int64_t *map = s->maps[s->rank - 1];
  for (int64_t i = begin; i < end; i++)
    memcpy(row + i * s->size, map[i] < 0 ? job->value : from + map[i] * s->size, (size_t)s->size);
}

static void pad_rows(void *context, int64_t begin, int64_t end) {
  const pad_job *job = context;
  const pad_state *s = job->s;
  int64_t width = s->extents[s->rank - 1];
  for (int64_t r = begin; r < end; r++) {
    const char *from = job->in;
    int64_t index = r;
    bool outside = false;
    for (int32_t d = s->rank - 2; d >= 0; d--) {
      int64_t at = s->maps[d][index % s->extents[d]];
      index /= s->extents[d];
      outside |= at < 0;
      from += at < 0 ? 0 : at * s->strides[d];
    }
    char *row = job->out + r * width * s->size;
    if (outside) {
      strided_fill(row, job->value, s->size, width);
      continue;
    }
    pad_span(job, row, from, 0, s->block_begin);
    int64_t n = s->block_end - s->block_begin;
    if (n)
      memcpy(row + s->block_begin * s->size, from + s->maps[s->rank - 1][s->block_begin] * s->size,
             (size_t)(n * s->size));
    pad_span(job, row, from, s->block_end, width);
  }
}

static reed_status run_pad(const void *state, const reed_kernel_buffers *buffers) {
  const pad_state *s = state;
  static const uint64_t zero = 0;
  pad_job job = {s, buffers->inputs[0], s->has_value ? buffers->inputs[2] : (const void *)&zero, buffers->outputs[0]};
  cpu_parallel(s->n_threads, s->n_rows, 1, pad_rows, &job);
  return REED_OK;
}

/* The source coordinate that output coordinate i of a dim reads, -1: the constant. at = i - pad before; extent >= 1 but
 * for constant. */
static int64_t source_of(char mode, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent) return at;
  int64_t period;
  switch (mode) {
    case 'e': return at < 0 ? 0 : extent - 1;
    case 'w': at %= extent; return at < 0 ? at + extent : at;
    case 'r': /* the edge is not repeated: 2 1 0 1 2 1 0 */
      if (extent == 1) return 0;
      period = 2 * (extent - 1);
      at %= period;
      if (at < 0) at += period;
      return at < extent ? at : period - at;
    default: return -1;
  }
}

/* Pads before each dim, from `pads` (begins of all axes, then ends) and `axes`. */
static reed_status pads_before(const reed_kernel_call *call, int64_t *out_before) {
  const reed_desc *in = &call->inputs[0];
  const int64_t *pads = call->host_values[1];
  int64_t n = desc_elements(&call->inputs[1]) / 2;
  bool has_axes = cpu_present(call, 3);
  if (!has_axes && n != in->rank)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "%lld pads for a tensor of rank %d", (long long)(2 * n), in->rank);
  for (int32_t d = 0; d < in->rank; d++) out_before[d] = 0;
  for (int64_t k = 0; k < n; k++) {
    int32_t d = (int32_t)k;
    if (has_axes) {
      reed_status status = cpu_axis(call, cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank, &d);
      if (status) return status;
    }
    out_before[d] = pads[k];
  }
  return REED_OK;
}

reed_status cpu_prepare_pad(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (cpu_level_now() == CPU_REFERENCE) return reference_prepare_move(call, out_kernel);
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  const char *mode = reed_attrs_string(call->attrs, "mode", "constant");
  int64_t before[REED_MAX_RANK], strides[REED_MAX_RANK], total = 1;
  reed_status status = pads_before(call, before);
  if (status) return status;
  if (strcmp(mode, "constant") && strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "mode '%s' is not known", mode);
  int64_t n_out = desc_elements(out);
  for (int32_t d = 0; d < in->rank; d++) {
    total += out->dims[d];
    if (n_out && in->dims[d] == 0 && mode[0] != 'c')
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "mode '%s' has nothing to repeat on axis %d of extent 0", mode,
                              d);
  }
  pad_state *s = mem_calloc(1, sizeof *s + (size_t)(n_out ? total : 1) * sizeof(int64_t));
  if (!s) return cpu_no_memory(call);
  int64_t *map = (int64_t *)(s + 1);
  s->rank = in->rank;
  s->size = (int64_t)reed_dtype_bytes(in->dtype);
  s->has_value = cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0;
  cpu_dense_strides(in->rank, in->dims, strides);
  for (int32_t d = 0; d < in->rank && n_out; d++) {
    s->extents[d] = out->dims[d];
    s->strides[d] = strides[d] * s->size;
    s->maps[d] = map;
    for (int64_t i = 0; i < out->dims[d]; i++) *map++ = source_of(mode[0], i - before[d], in->dims[d]);
  }
  if (in->rank == 0) { /* a scalar is one row of one */
    s->rank = 1;
    s->extents[0] = 1;
    s->maps[0] = map;
  }
  if (n_out) {
    int64_t width = s->extents[s->rank - 1], first = in->rank ? before[s->rank - 1] : 0,
            extent = in->rank ? in->dims[s->rank - 1] : 1;
    s->block_begin = first < 0 ? 0 : first < width ? first : width;
    s->block_end = first + extent < s->block_begin ? s->block_begin : first + extent < width ? first + extent : width;
    s->n_rows = n_out / width;
  }
  s->n_threads = cpu_threads_for(cpu_env_threads(call), 2 * n_out * s->size);
  cpu_kernel_set(out_kernel, run_pad, s);
  return REED_OK;
}
