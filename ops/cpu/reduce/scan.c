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

/* A line is added in pieces of fixed length, each in four quarters, so that results do not depend on the number of
 * threads: an element's result is the sum before its piece, plus the sums of the piece's quarters before it, plus the
 * sum within its quarter. The four sums of a piece do not wait for each other. */
#define QUARTER 4096
#define PIECE (4 * QUARTER)

/* Lines that lie side by side, which are added together: their sums do not wait for each other. */
#define COLUMNS 8

/* 8 bytes, of the type of the sums. */
typedef uint64_t scan_sum;

/* n <= PIECE elements of a line, `stride` apart; integers wrap. out NULL: only their sum is wanted. `before` is the sum
 * of the elements before, and becomes the sum with these. */
typedef void (*cumsum_fn)(void *out, const void *in, int64_t n, int64_t stride, bool exclusive, scan_sum *before);

#define CUMSUM(name, M, V, load, store) \
  static void cumsum_##name(void *out, const void *in, int64_t n, int64_t stride, bool exclusive, scan_sum *before) { \
    V sums[4] = {0}, base = 0; \
    memcpy(&base, before, sizeof base); \
    if (n == PIECE && (stride == 1 || stride == -1)) { \
      for (int64_t k = 0; k < QUARTER; k++) \
        for (int q = 0; q < 4; q++) { \
          const M x = ((const M *)in)[(q * QUARTER + k) * stride]; \
          sums[q] += load; \
        } \
      V from[4] = {base, base + sums[0], base + (sums[0] + sums[1]), base + (sums[0] + sums[1] + sums[2])}, \
        own[4] = {0}; \
      for (int64_t k = 0; k < QUARTER && out; k++) \
        for (int q = 0; q < 4; q++) { \
          int64_t i = (q * QUARTER + k) * stride; \
          const M x = ((const M *)in)[i]; \
          V v = own[q]; \
          own[q] += load; \
          v = from[q] + (exclusive ? v : own[q]); \
          ((M *)out)[i] = store; \
        } \
    } else { \
      for (int q = 0; q * QUARTER < n; q++) { \
        int64_t end = (q + 1) * QUARTER < n ? (q + 1) * QUARTER : n; \
        V sum = 0, from = q ? base + (sums[0] + sums[1] + sums[2]) : base; \
        for (int64_t k = q * QUARTER; k < end; k++) { \
          int64_t i = k * stride; \
          const M x = ((const M *)in)[i]; \
          V v = sum; \
          sum += load; \
          v = from + (exclusive ? v : sum); \
          if (out) ((M *)out)[i] = store; \
        } \
        sums[q] = sum; \
      } \
    } \
    base += sums[0] + sums[1] + sums[2] + sums[3]; \
    memcpy(before, &base, sizeof base); \
  } \
\
  static void cumsum_columns_##name(void *out, const void *in, int64_t n, int64_t stride, bool exclusive, \
                                    scan_sum *before) { \
    V sums[4][COLUMNS] = {{0}}, base[COLUMNS] = {0}; \
    for (int c = 0; c < COLUMNS; c++) memcpy(&base[c], &before[c], sizeof base[c]); \
    for (int q = 0; q * QUARTER < n; q++) { \
      int64_t end = (q + 1) * QUARTER < n ? (q + 1) * QUARTER : n; \
      V sum[COLUMNS] = {0}, from[COLUMNS]; \
      for (int c = 0; c < COLUMNS; c++) from[c] = q ? base[c] + (sums[0][c] + sums[1][c] + sums[2][c]) : base[c]; \
      for (int64_t k = q * QUARTER; k < end; k++) { \
        const M *row = (const M *)in + k * stride; \
        M *to = (M *)out + (out ? k * stride : 0); \
        for (int c = 0; c < COLUMNS; c++) { \
          const M x = row[c]; \
          V v = sum[c]; \
          sum[c] += load; \
          v = from[c] + (exclusive ? v : sum[c]); \
          if (out) to[c] = store; \
        } \
      } \
      for (int c = 0; c < COLUMNS; c++) sums[q][c] = sum[c]; \
    } \
    for (int c = 0; c < COLUMNS; c++) { \
      base[c] += sums[0][c] + sums[1][c] + sums[2][c] + sums[3][c]; \
      memcpy(&before[c], &base[c], sizeof base[c]); \
    } \
  } \
\
  static void add_##name(scan_sum *sum, scan_sum more) { \
    V a, b; \
    memcpy(&a, sum, sizeof a); \
    memcpy(&b, &more, sizeof b); \
    a += b; \
    memcpy(sum, &a, sizeof a); \
  }
SCAN_TYPES(CUMSUM)

/* Of each dtype: a piece, the same of COLUMNS lines side by side (with as many sums), and the addition of a piece's sum
 * to that of the pieces before. */
typedef struct cumsum_steps {
  cumsum_fn piece, columns;
  void (*add)(scan_sum *sum, scan_sum more);
} cumsum_steps;

static const cumsum_steps cumsums[REED_DTYPE_COUNT] = {
#define CUMSUM_ENTRY(name, ...) [REED_##name] = {cumsum_##name, cumsum_columns_##name, add_##name},
    SCAN_TYPES(CUMSUM_ENTRY)};

typedef struct cumsum_state {
  cumsum_steps steps;
  reed_desc in;
  reed_dtype axis_dtype;
  cpu_team team; /* of the session */
  bool exclusive, reverse;
} cumsum_state;

typedef struct cumsum_job {
  const cumsum_state *s;
  const char *in;
  char *out;
  int64_t extent, inner, n_pieces; /* of a line */
  scan_sum *sums;                  /* [line][piece] */
} cumsum_job;

/* A group of lines: up to COLUMNS that lie side by side. */
typedef struct line_group {
  int64_t line, n, at; /* line: the first; at: its first element */
} line_group;

static int64_t groups_of_block(const cumsum_job *job) { return (job->inner + COLUMNS - 1) / COLUMNS; }

static line_group group_at(const cumsum_job *job, int64_t i) {
  int64_t block = i / groups_of_block(job), column = i % groups_of_block(job) * COLUMNS, left = job->inner - column;
  return (line_group){block * job->inner + column, left < COLUMNS ? left : COLUMNS,
                      block * job->extent * job->inner + column};
}

/* Sums a piece of each line of a group, and with `write` writes its results. */
static void sum_piece(const cumsum_job *job, const line_group *g, int64_t piece, bool write, scan_sum *before) {
  const cumsum_state *s = job->s;
  int64_t first = piece * PIECE, n = job->extent - first < PIECE ? job->extent - first : PIECE,
          size = (int64_t)reed_dtype_bytes(s->in.dtype), stride = s->reverse ? -job->inner : job->inner;
  int64_t at = g->at + (s->reverse ? job->extent - 1 - first : first) * job->inner;
  bool together = g->n == COLUMNS;
  for (int64_t c = 0; c < (together ? 1 : g->n); c++)
    (together ? s->steps.columns : s->steps.piece)(write ? job->out + (at + c) * size : NULL, job->in + (at + c) * size,
                                                   n, stride, s->exclusive, before + c);
}

static void cumsum_lines(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    scan_sum before[COLUMNS] = {0};
    line_group g = group_at(job, i);
    for (int64_t piece = 0; piece < job->n_pieces && !cpu_cancelled(&job->s->team); piece++)
      sum_piece(job, &g, piece, true, before);
  }
}

static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    scan_sum sums[COLUMNS] = {0};
    line_group g = group_at(job, i / job->n_pieces);
    sum_piece(job, &g, i % job->n_pieces, false, sums);
    for (int64_t c = 0; c < g.n; c++) job->sums[(g.line + c) * job->n_pieces + i % job->n_pieces] = sums[c];
  }
}

static void write_pieces(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    scan_sum before[COLUMNS] = {0};
    line_group g = group_at(job, i / job->n_pieces);
    for (int64_t c = 0; c < g.n; c++) before[c] = job->sums[(g.line + c) * job->n_pieces + i % job->n_pieces];
    sum_piece(job, &g, i % job->n_pieces, true, before);
  }
}

/* Turns a line's sums of pieces into the sums before them, in the order in which cumsum_lines adds. */
static void add_sums(const cumsum_job *job, scan_sum *sums) {
  scan_sum before = 0;
  for (int64_t piece = 0; piece < job->n_pieces; piece++) {
    scan_sum own = sums[piece];
    sums[piece] = before;
    job->s->steps.add(&before, own);
  }
}

static reed_status run_cumsum(const void *state, const reed_kernel_buffers *buffers) {
  const cumsum_state *s = state;
  int64_t axis = cpu_index_at(s->axis_dtype, buffers->inputs[1], 0);
  if (axis < -s->in.rank || axis >= s->in.rank)
    return reed_kernel_fault(buffers, REED_FAULT_AXIS, 1, 0, axis, s->in.rank);
  int32_t d = (int32_t)(axis < 0 ? axis + s->in.rank : axis);
  int64_t n = desc_elements(&s->in), extent = s->in.dims[d], lines = extent ? n / extent : 0;
  if (n == 0) return REED_OK;
  cumsum_job job = {s,
                    buffers->inputs[0],
                    buffers->outputs[0],
                    extent,
                    cpu_product(s->in.dims, d + 1, s->in.rank),
                    (extent + PIECE - 1) / PIECE,
                    buffers->workspace};
  cpu_team team = cpu_team_for(s->team, n * 16);
  int64_t groups = lines / job.inner * groups_of_block(&job);
  bool few = groups < 4 * team.threads || extent > 4 * PIECE;
  if (job.n_pieces == 1 || team.threads == 1 || !few) return cpu_parallel(team, groups, 1, cumsum_lines, &job);
  reed_status status = cpu_parallel(team, groups * job.n_pieces, 1, sum_pieces, &job);
  if (status != REED_OK) return status;
  for (int64_t line = 0; line < lines; line++) add_sums(&job, job.sums + line * job.n_pieces);
  return cpu_parallel(team, groups * job.n_pieces, 1, write_pieces, &job);
}

reed_status cpu_prepare_cumsum(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = cumsum_check(call);
  if (status != REED_OK) return status;
  cumsum_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->in = call->inputs[0];
  s->steps = cumsums[s->in.dtype];
  s->axis_dtype = call->inputs[1].dtype;
  s->exclusive = op_attr_int(call->attrs, "exclusive") != 0;
  s->reverse = op_attr_int(call->attrs, "reverse") != 0;
  s->team = cpu_env_team(call);
  cpu_kernel_set(out_kernel, run_cumsum, s);
  /* of whichever axis: a line of more than a piece has at most 2 pieces for each PIECE elements */
  out_kernel->workspace_bytes = desc_elements(&s->in) / PIECE * 2 * (int64_t)sizeof(scan_sum);
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
  int64_t extent, inner, n_out, size, n_pieces;
  cpu_team team;
  bool least, last;
} arg_state;

typedef struct arg_job {
  const arg_state *s;
  const char *in;
  int64_t *out;
  /* the workspace, if lines have several pieces: [line][piece] */
  int64_t *places;
  char *best;
} arg_job;

/* The index along line i of the best of elements first..first+n-1. */
static int64_t best_of(const arg_job *job, int64_t i, int64_t first, int64_t n) {
  const arg_state *s = job->s;
  int64_t at = (i / s->inner * s->extent + first) * s->inner + i % s->inner;
  return first + s->line(job->in + at * s->size, n, s->inner, s->least, s->last);
}

static void arg_range(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  for (int64_t i = begin; i < end; i++) job->out[i] = best_of(job, i, 0, job->s->extent);
}

static void arg_pieces(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p / s->n_pieces, first = p % s->n_pieces * PIECE,
            n = s->extent - first < PIECE ? s->extent - first : PIECE, best = best_of(job, i, first, n);
    job->places[p] = best;
    memcpy(job->best + p * s->size, job->in + ((i / s->inner * s->extent + best) * s->inner + i % s->inner) * s->size,
           (size_t)s->size);
  }
}

static reed_status run_arg_reduce(const void *state, const reed_kernel_buffers *buffers) {
  const arg_state *s = state;
  arg_job job = {s, buffers->inputs[0], buffers->outputs[0], buffers->workspace, NULL};
  if (s->n_pieces == 1) return cpu_parallel(s->team, s->n_out, 1, arg_range, &job);
  job.best = (char *)(job.places + s->n_out * s->n_pieces);
  reed_status status = cpu_parallel(s->team, s->n_out * s->n_pieces, 1, arg_pieces, &job);
  for (int64_t i = 0; i < s->n_out && status == REED_OK; i++) /* the best of the pieces' best */
    job.out[i] =
        job.places[i * s->n_pieces + s->line(job.best + i * s->n_pieces * s->size, s->n_pieces, 1, s->least, s->last)];
  return status;
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
  s->team = cpu_team_for(cpu_env_team(call), desc_elements(in) * 12);
  s->n_pieces = s->extent > PIECE && s->team.threads > 1 ? (s->extent + PIECE - 1) / PIECE : 1;
  cpu_kernel_set(out_kernel, run_arg_reduce, s);
  if (s->n_pieces > 1) out_kernel->workspace_bytes = n_out * s->n_pieces * (8 + s->size);
  return REED_OK;
}
