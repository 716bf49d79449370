/* Pad (ONNX 21), all modes. A negative pad crops; modes other than constant repeat the cropped input. For each dim a
 * map gives the source coordinate of an output coordinate, or -1 for the constant: the modes differ only in the maps
 * that prepare makes. A row's middle is copied as one block. Long rows are shared out by pieces. The reference:
 * reference/movement.c. */
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/strided.h"

#define PIECE 8192  /* elements of a row that are taken at a time */
#define SHORT 16    /* so many elements are written one by one */
#define ROW_WORK 64 /* of a row besides its elements, in cpu_team_for's count: its place in the source, a copy */

typedef struct pad_state {
  int32_t rank;
  cpu_team team;
  int64_t size;                   /* bytes of an element */
  int64_t n_rows;                 /* of the output's innermost dim */
  int64_t block_begin, block_end; /* innermost: the elements between the pads */
  bool repeats;                   /* mode constant or edge: each pad of a row is one element, repeated */
  bool has_value;                 /* input 2 */
  int64_t extents[REED_MAX_RANK]; /* of the output */
  int64_t strides[REED_MAX_RANK]; /* of the source, in bytes */
  int64_t *maps[REED_MAX_RANK];   /* memory after the struct; rank at least 1 */
} pad_state;

typedef struct pad_job {
  const pad_state *s;
  const char *in, *value;
  char *out;
} pad_job;

/* Elements begin..end-1 of a row's pads. */
#define PAD_ELEMENTS(T, name) \
  static void name(T *row, const T *from, const int64_t *map, const T *value, int64_t begin, int64_t end) { \
    for (int64_t i = begin; i < end; i++) row[i] = map[i] < 0 ? *value : from[map[i]]; \
  }
PAD_ELEMENTS(uint8_t, pad_1)
PAD_ELEMENTS(uint16_t, pad_2)
PAD_ELEMENTS(uint32_t, pad_4)
PAD_ELEMENTS(uint64_t, pad_8)

static void pad_span(const pad_job *job, char *row, const char *from, int64_t begin, int64_t end) {
  const pad_state *s = job->s;
  const int64_t *map = s->maps[s->rank - 1];
  if (s->repeats && end - begin > SHORT) {
    strided_fill(row + begin * s->size, map[begin] < 0 ? job->value : from + map[begin] * s->size, s->size,
                 end - begin);
    return;
  }
  switch (s->size) {
    case 1: pad_1((void *)row, (const void *)from, map, (const void *)job->value, begin, end); break;
    case 2: pad_2((void *)row, (const void *)from, map, (const void *)job->value, begin, end); break;
    case 4: pad_4((void *)row, (const void *)from, map, (const void *)job->value, begin, end); break;
    default: pad_8((void *)row, (const void *)from, map, (const void *)job->value, begin, end);
  }
}

/* Elements begin..end-1 of row r. */
static void pad_part(const pad_job *job, int64_t r, int64_t begin, int64_t end) {
  const pad_state *s = job->s;
  const char *from = job->in;
  char *row = job->out + r * s->extents[s->rank - 1] * s->size;
  bool outside = false;
  for (int32_t d = s->rank - 2; d >= 0; d--) {
    int64_t at = s->maps[d][r % s->extents[d]];
    r /= s->extents[d];
    outside |= at < 0;
    from += at < 0 ? 0 : at * s->strides[d];
  }
  if (outside) {
    strided_fill(row + begin * s->size, job->value, s->size, end - begin);
    return;
  }
  int64_t first = cpu_clamp(s->block_begin, begin, end), last = cpu_clamp(s->block_end, begin, end);
  pad_span(job, row, from, begin, first);
  if (first < last)
    memcpy(row + first * s->size, from + s->maps[s->rank - 1][first] * s->size, (size_t)((last - first) * s->size));
  pad_span(job, row, from, last > first ? last : first, end);
}

/* Units begin..end-1: the pieces of the rows. */
static void pad_units(void *context, int64_t begin, int64_t end) {
  const pad_job *job = context;
  int64_t width = job->s->extents[job->s->rank - 1], pieces = (width + PIECE - 1) / PIECE;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = pieces == 1 ? i : i / pieces, first = (i - row * pieces) * PIECE;
    pad_part(job, row, first, first + PIECE < width ? first + PIECE : width);
  }
}

static reed_status run_pad(const void *state, const reed_kernel_buffers *buffers) {
  const pad_state *s = state;
  static const uint64_t zero = 0;
  pad_job job = {s, buffers->inputs[0], s->has_value ? buffers->inputs[2] : (const void *)&zero, buffers->outputs[0]};
  int64_t width = s->extents[s->rank - 1];
  return cpu_parallel(s->team, s->n_rows * ((width + PIECE - 1) / PIECE), 1, pad_units, &job);
}

/* One dim: the crop leaves source coordinates first .. first + extent - 1, after `before` pads. */
typedef struct pad_dim {
  int64_t first, extent, before;
} pad_dim;

static int64_t cropped(int64_t pad, int64_t extent) { return pad >= 0 ? 0 : pad < -extent ? extent : -pad; }

static pad_dim pad_dim_of(int64_t extent, int64_t before, int64_t after) {
  int64_t first = cropped(before, extent), left = extent - first - cropped(after, extent);
  return (pad_dim){first, left > 0 ? left : 0, before > 0 ? before : 0};
}

/* The source coordinate of output coordinate i of a dim; -1: the constant. The dim's extent is at least 1, except in
 * mode constant. */
static int64_t source_of(char mode, const pad_dim *dim, int64_t i) {
  int64_t at = i - dim->before, extent = dim->extent, period;
  if (at >= 0 && at < extent) return dim->first + at;
  switch (mode) {
    case 'e': return dim->first + (at < 0 ? 0 : extent - 1);
    case 'w': at %= extent; return dim->first + (at < 0 ? at + extent : at);
    case 'r': /* the edge is not repeated: 2 1 0 1 2 1 0 */
      if (extent == 1) return dim->first;
      period = 2 * (extent - 1);
      at %= period;
      if (at < 0) at += period;
      return dim->first + (at < extent ? at : period - at);
    default: return -1;
  }
}

/* The dims from `pads` (begins of all axes, then ends) and `axes`. */
static void read_dims(const reed_kernel_call *call, pad_dim *out_dims) {
  const reed_desc *in = &call->inputs[0];
  const int64_t *pads = call->host_values[1];
  int64_t n = desc_elements(&call->inputs[1]) / 2;
  bool has_axes = cpu_present(call, 3);
  for (int32_t d = 0; d < in->rank; d++) out_dims[d] = pad_dim_of(in->dims[d], 0, 0);
  for (int64_t k = 0; k < n; k++) {
    int32_t d =
        has_axes ? cpu_axis(cpu_index_at(call->inputs[3].dtype, call->host_values[3], k), in->rank) : (int32_t)k;
    out_dims[d] = pad_dim_of(in->dims[d], pads[k], pads[n + k]);
  }
}

reed_status cpu_prepare_pad(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  const char *mode = op_attr_string(call->attrs, "mode");
  int64_t strides[REED_MAX_RANK], total = 1;
  pad_dim dims[REED_MAX_RANK];
  read_dims(call, dims);
  int64_t n_out = desc_elements(out);
  for (int32_t d = 0; d < in->rank; d++) total += out->dims[d];
  const int64_t bytes = (int64_t)sizeof(pad_state) + (n_out ? total : 1) * (int64_t)sizeof(int64_t);
  pad_state *s = mem_calloc(1, (size_t)bytes);
  if (!s) return cpu_no_memory(call);
  int64_t *map = (int64_t *)(s + 1);
  s->rank = in->rank;
  s->size = (int64_t)reed_dtype_bytes(in->dtype);
  s->repeats = mode[0] == 'c' || mode[0] == 'e';
  s->has_value = cpu_present(call, 2) && desc_elements(&call->inputs[2]) > 0;
  cpu_dense_strides(in->rank, in->dims, strides);
  for (int32_t d = 0; d < in->rank && n_out; d++) {
    s->extents[d] = out->dims[d];
    s->strides[d] = strides[d] * s->size;
    s->maps[d] = map;
    for (int64_t i = 0; i < out->dims[d]; i++) *map++ = source_of(mode[0], &dims[d], i);
  }
  if (in->rank == 0) { /* a scalar is one row of one */
    s->rank = 1;
    s->extents[0] = 1;
    s->maps[0] = map;
  }
  if (n_out) {
    int64_t width = s->extents[s->rank - 1];
    pad_dim inner = in->rank ? dims[in->rank - 1] : (pad_dim){0, 1, 0};
    s->block_begin = inner.before < width ? inner.before : width;
    s->block_end = inner.extent < width - s->block_begin ? s->block_begin + inner.extent : width;
    s->n_rows = n_out / width;
  }
  s->team = cpu_team_for(cpu_env_team(call), 2 * n_out * s->size + s->n_rows * ROW_WORK);
  cpu_kernel_set(out_kernel, run_pad, s);
  out_kernel->state_bytes = bytes;
  return REED_OK;
}
