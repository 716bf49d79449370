/* NonZero and Compress: outputs whose extent depends on the data. Their elements are written dense for the true extent.
 * Both count by blocks first, so that each block of the second pass knows its place in the output. */
#include "ops/cpu/common/common.h"

#define BLOCK ((int64_t)2048)

static int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

/* Marks the elements that are not zero, as bytes 0 and 1. Only the bits count, without the sign of floats: -0 is zero,
 * NaN is not. */
static void mark_set(reed_dtype dtype, const void *data, int64_t first, int64_t n, uint8_t *out_set) {
#define MARK(T, mask) \
  for (int64_t i = 0; i < n; i++) out_set[i] = (((const T *)data)[first + i] & (mask)) != 0; \
  break
  switch (dtype) {
    case REED_F32: MARK(uint32_t, 0x7fffffffu);
    case REED_F64: MARK(uint64_t, 0x7fffffffffffffffu);
    case REED_F16:
    case REED_BF16: MARK(uint16_t, 0x7fffu);
    case REED_I16:
    case REED_U16: MARK(uint16_t, 0xffffu);
    case REED_I32:
    case REED_U32: MARK(uint32_t, 0xffffffffu);
    case REED_I64:
    case REED_U64: MARK(uint64_t, 0xffffffffffffffffu);
    case REED_I8:
    case REED_U8:
    case REED_BOOL: MARK(uint8_t, 0xffu);
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef MARK
}

static int64_t count_set(const uint8_t *set, int64_t n) {
  uint32_t count = 0; /* of at most BLOCK */
  for (int64_t i = 0; i < n; i++) count += set[i];
  return count;
}

/* Lists the places in set[0..n) that are 1. out_places has room for n. Returns their number. */
static int64_t list_set(const uint8_t *set, int64_t n, uint16_t *out_places) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += 8) {
    uint64_t eight = 0;
    int64_t end = i + 8 < n ? i + 8 : n;
    memcpy(&eight, set + i, (size_t)(end - i));
    if (!eight) continue;
    for (int64_t j = i; j < end; j++) { /* without a branch: which elements are set is hard to foresee */
      out_places[count] = (uint16_t)j;
      count += set[j];
    }
  }
  return count;
}
_Static_assert(BLOCK <= UINT16_MAX, "list_set's places");

/* ---- NonZero ---- */

typedef struct nonzero_state {
  cpu_team team; /* of the session */
  reed_desc in;
  int64_t n, n_blocks, element_bytes;
} nonzero_state;

typedef struct nonzero_job {
  const nonzero_state *s;
  const void *data;
  int64_t *before; /* by block: its count, later the sum of the counts before it */
  int64_t count;   /* of all */
  int64_t *out;
} nonzero_job;

static void count_blocks(void *context, int64_t begin, int64_t end) {
  const nonzero_job *job = context;
  uint8_t set[BLOCK];
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * BLOCK, n = job->s->n - first < BLOCK ? job->s->n - first : BLOCK;
    mark_set(job->s->in.dtype, job->data, first, n, set);
    job->before[b] = count_set(set, n);
  }
}

/* Writes coordinate d of the k-th nonzero element to out[d * count + k], for the elements of a block, which is taken by
 * rows of the innermost dim. */
static void list_block(const nonzero_job *job, int64_t block) {
  const nonzero_state *s = job->s;
  const int32_t inner = s->in.rank - 1;
  int64_t coordinates[REED_MAX_RANK] = {0}, width = inner < 0 ? 1 : s->in.dims[inner], k = job->before[block],
          at = block * BLOCK, end = at + BLOCK < s->n ? at + BLOCK : s->n, row = at / width, column = at % width;
  uint8_t set[BLOCK];
  uint16_t places[BLOCK];
  for (int32_t d = inner - 1; d >= 0; d--) {
    coordinates[d] = row % s->in.dims[d];
    row /= s->in.dims[d];
  }
  mark_set(s->in.dtype, job->data, at, end - at, set);
  for (const uint8_t *marks = set; at < end; column = 0) {
    int64_t n = width - column < end - at ? width - column : end - at, n_here = list_set(marks, n, places);
    for (int32_t d = 0; d < inner; d++) {
      int64_t *to = job->out + d * job->count + k, coordinate = coordinates[d];
      for (int64_t i = 0; i < n_here; i++) to[i] = coordinate;
    }
    if (inner >= 0) {
      int64_t *to = job->out + inner * job->count + k;
      for (int64_t i = 0; i < n_here; i++) to[i] = column + places[i];
    }
    k += n_here;
    at += n;
    marks += n;
    for (int32_t d = inner - 1; d >= 0; d--) {
      if (++coordinates[d] < s->in.dims[d]) break;
      coordinates[d] = 0;
    }
  }
}

static void list_blocks(void *context, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; b++) list_block(context, b);
}

static reed_status run_nonzero(const void *state, const reed_kernel_buffers *buffers) {
  const nonzero_state *s = state;
  nonzero_job job = {s, buffers->inputs[0], buffers->workspace, 0, buffers->outputs[0]};
  reed_status status =
      cpu_parallel(cpu_team_for(s->team, s->n * (s->element_bytes + 2)), s->n_blocks, 1, count_blocks, &job);
  if (status != REED_OK) return status;
  job.count = cpu_sum_before(job.before, s->n_blocks, 0);
  int64_t work = s->n * (s->element_bytes + 8) + job.count * s->in.rank * 8;
  if (job.count) status = cpu_parallel(cpu_team_for(s->team, work), s->n_blocks, 1, list_blocks, &job);
  if (status == REED_OK) buffers->extents[0] = job.count;
  return status;
}

reed_status cpu_prepare_nonzero(const reed_kernel_call *call, reed_kernel *out_kernel) {
  nonzero_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->in = call->inputs[0];
  s->n = desc_elements(&s->in);
  s->n_blocks = blocks_of(s->n, BLOCK);
  s->element_bytes = (int64_t)reed_dtype_bytes(s->in.dtype);
  s->team = cpu_env_team(call);
  cpu_kernel_set(out_kernel, run_nonzero, s);
  out_kernel->workspace_bytes = s->n_blocks * (int64_t)sizeof(int64_t);
  return REED_OK;
}

/* ---- Compress ---- */

typedef struct compress_state {
  cpu_slices slices;
  int64_t slice_bytes;
  cpu_team team;        /* of the session */
  int64_t n_conditions; /* of them at most slices.n are looked at */
  int64_t block, n_blocks;
} compress_state;

typedef struct compress_job {
  const compress_state *s;
  const char *data;
  const uint8_t *condition;
  int64_t *before; /* by block of conditions: their count, later the sum of the counts before it */
  int64_t count;   /* of all */
  char *out;
} compress_job;

/* The bounds of a block of conditions, and its marks. Returns its number of conditions. */
static int64_t mark_conditions(const compress_job *job, int64_t b, int64_t *out_first, uint8_t *out_set) {
  int64_t first = b * job->s->block, left = job->s->n_conditions - first,
          n = left < job->s->block ? left : job->s->block;
  mark_set(REED_BOOL, job->condition, first, n, out_set);
  *out_first = first;
  return n;
}

static void count_conditions(void *context, int64_t begin, int64_t end) {
  const compress_job *job = context;
  uint8_t set[BLOCK];
  for (int64_t b = begin, first; b < end; b++) job->before[b] = count_set(set, mark_conditions(job, b, &first, set));
}

/* Copies the slices of n places. */
static void copy_slices(char *to, const char *from, const uint16_t *places, int64_t n, int64_t bytes) {
#define COPY(N) \
  case N: \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * N, from + places[i] * N, N); \
    break
  switch (bytes) {
    COPY(1);
    COPY(2);
    COPY(4);
    COPY(8);
    default:
      for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, from + places[i] * bytes, (size_t)bytes);
  }
#undef COPY
}

/* Items count pairs of an outer coordinate and a block of conditions. */
static void compress_items(void *context, int64_t begin, int64_t end) {
  const compress_job *job = context;
  const compress_state *s = job->s;
  uint8_t set[BLOCK];
  uint16_t places[BLOCK];
  for (int64_t item = begin; item < end; item++) {
    int64_t outer = item / s->n_blocks, b = item % s->n_blocks, first, n = mark_conditions(job, b, &first, set);
    n = list_set(set, n, places);
    copy_slices(job->out + (outer * job->count + job->before[b]) * s->slice_bytes,
                job->data + (outer * s->slices.n + first) * s->slice_bytes, places, n, s->slice_bytes);
  }
}

static reed_status run_compress(const void *state, const reed_kernel_buffers *buffers) {
  const compress_state *s = state;
  compress_job job = {s, buffers->inputs[0], buffers->inputs[1], buffers->workspace, 0, buffers->outputs[0]};
  reed_status status = cpu_parallel(cpu_team_for(s->team, 4 * s->n_conditions), s->n_blocks, 1, count_conditions, &job);
  if (status != REED_OK) return status;
  job.count = cpu_sum_before(job.before, s->n_blocks, 0);
  int64_t work = s->slices.outer * (8 * s->n_conditions + 4 * job.count * s->slice_bytes);
  if (job.count && s->slice_bytes)
    status = cpu_parallel(cpu_team_for(s->team, work), s->slices.outer * s->n_blocks, 1, compress_items, &job);
  if (status == REED_OK) buffers->extents[0] = job.count;
  return status;
}

reed_status cpu_prepare_compress(const reed_kernel_call *call, reed_kernel *out_kernel) {
  compress_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->team = cpu_env_team(call);
  s->slices = cpu_slices_of(call);
  s->slice_bytes = s->slices.block * (int64_t)reed_dtype_bytes(call->inputs[0].dtype);
  int64_t n = desc_elements(&call->inputs[1]), each = s->slice_bytes ? CPU_WORK_PER_CHUNK / 4 / s->slice_bytes : BLOCK;
  s->n_conditions = n < s->slices.n ? n : s->slices.n;
  s->block = cpu_clamp(each, 1, BLOCK);
  s->n_blocks = blocks_of(s->n_conditions, s->block);
  cpu_kernel_set(out_kernel, run_compress, s);
  out_kernel->workspace_bytes = s->n_blocks * (int64_t)sizeof(int64_t);
  return REED_OK;
}
