/* Softmax and LogSoftmax of f32 (ONNX opset 13; `flattened` is the older form: one softmax over all axes from `axis`
 * on). The reference computes other dtypes, Hardmax and LpNormalization. The reference: reference/softmax.c. */
#include <math.h>

#include "ops/cpu/calls/softmax.h"
#include "ops/cpu/common/rows_loops.h"

#define COLUMNS \
  512 /* columns done at a time where the axis is not the last: their scratch stays in the first cache \
       */

/* Elements of a long row that are summed at a time; fixed, so that results do not depend on the number of threads. */
#define PIECE 16384

typedef struct softmax_job {
  const softmax *s;
  const float *x;
  float *y;
  /* of long rows */
  int64_t n_pieces;                  /* of a row */
  double *sums;                      /* [row][piece], the workspace */
  float *most, *row_most, *row_rest; /* most: [row][piece]; of rows: the largest element, the factor or the shift */
} softmax_job;

static void rows(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t axis = job->s->axis;
  for (int64_t i = begin; i < end; i++)
    CPU_PICK(job->s->level, softmax_row)(job->s->kind == SOFTMAX_LOG, job->x + i * axis, job->y + i * axis, axis);
}

static void columns(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t inner = job->s->inner, axis = job->s->axis, blocks = (inner + COLUMNS - 1) / COLUMNS;
  float scratch[2 * COLUMNS];
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i % blocks * COLUMNS, n = inner - first < COLUMNS ? inner - first : COLUMNS,
            at = i / blocks * axis * inner + first;
    CPU_PICK(job->s->level, softmax_columns)
    (job->s->kind == SOFTMAX_LOG, job->x + at, job->y + at, axis, inner, n, scratch);
  }
}

/* A piece of a long row. */
typedef struct row_piece {
  int64_t row, at, n;
} row_piece;

static row_piece piece_at(const softmax_job *job, int64_t i) {
  int64_t first = i % job->n_pieces * PIECE, left = job->s->axis - first, row = i / job->n_pieces;
  return (row_piece){row, row * job->s->axis + first, left < PIECE ? left : PIECE};
}

static void find_most(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    row_piece p = piece_at(job, i);
    job->most[i] = CPU_PICK(job->s->level, max_f32)(job->x + p.at, p.n);
  }
}

static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    row_piece p = piece_at(job, i);
    job->sums[i] = CPU_PICK(job->s->level, softmax_sum)(job->s->kind == SOFTMAX_LOG, job->x + p.at,
                                                        job->row_most[p.row], job->y + p.at, p.n);
  }
}

static void finish_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    row_piece p = piece_at(job, i);
    float rest = job->row_rest[p.row], *y = job->y + p.at;
    if (job->s->kind == SOFTMAX_LOG)
      CPU_PICK(job->s->level, scale_shift)(job->x + p.at, job->row_most[p.row], 1, -rest, y, p.n);
    else CPU_PICK(job->s->level, scale_row)(rest, y, y, p.n);
  }
}

/* Rows of several pieces each: their largest elements, their sums, their results. */
static reed_status run_long_rows(softmax_job *job, cpu_team team) {
  const softmax *s = job->s;
  int64_t n = s->outer * job->n_pieces;
  job->most = (float *)(job->sums + n);
  job->row_most = job->most + n;
  job->row_rest = job->row_most + s->outer;
  reed_status status = cpu_parallel(team, n, 1, find_most, job);
  if (status != REED_OK) return status;
  for (int64_t row = 0; row < s->outer; row++)
    job->row_most[row] = CPU_PICK(s->level, max_f32)(job->most + row * job->n_pieces, job->n_pieces);
  status = cpu_parallel(team, n, 1, sum_pieces, job);
  if (status != REED_OK) return status;
  for (int64_t row = 0; row < s->outer; row++) {
    double sum = 0;
    for (int64_t k = 0; k < job->n_pieces; k++) sum += job->sums[row * job->n_pieces + k];
    job->row_rest[row] = s->kind == SOFTMAX_LOG ? logf((float)sum) : (float)(1 / sum);
  }
  return cpu_parallel(team, n, 1, finish_pieces, job);
}

static int64_t pieces_of(const softmax *s) {
  return s->inner == 1 && s->axis > 2 * PIECE ? (s->axis + PIECE - 1) / PIECE : 1;
}

static reed_status run_softmax(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  softmax_job job = {s, buffers->inputs[0], buffers->outputs[0], pieces_of(s), buffers->workspace, NULL, NULL, NULL};
  cpu_team team = cpu_team_for(s->team, s->outer * s->axis * s->inner * 24);
  if (job.n_pieces > 1) return run_long_rows(&job, team);
  if (s->inner == 1) return cpu_parallel(team, s->outer, 1, rows, &job);
  return cpu_parallel(team, s->outer * ((s->inner + COLUMNS - 1) / COLUMNS), 1, columns, &job);
}

reed_status cpu_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  softmax s;
  softmax_read(call, &s);
  if (s.dtype != REED_F32 || s.kind == SOFTMAX_HARD || s.kind == SOFTMAX_LP) return REED_OK;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_softmax, state);
  int64_t pieces = pieces_of(&s);
  if (pieces > 1)
    out_kernel->workspace_bytes =
        s.outer * (pieces * (int64_t)(sizeof(double) + sizeof(float)) + 2 * (int64_t)sizeof(float));
  return REED_OK;
}
