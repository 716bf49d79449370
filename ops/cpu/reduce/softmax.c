/* Softmax and LogSoftmax of f32 (ONNX opset 13; `flattened` is the older form: one softmax over all axes from `axis`
 * on). Of f64: softmax_double.c. Hardmax and LpNormalization: hardmax.c. The reference: reference/softmax.c. */
#include <math.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/common/whole.h"
#include "ops/cpu/reduce/hardmax.h"
#include "ops/cpu/reduce/lines_double.h"
#include "ops/cpu/reduce/short_rows.h"
#include "ops/cpu/reduce/softmax_loops.h"

/* Columns done at a time where the axis is not the last: as few of long ones that a chunk stays short, but a
 * multiple of COLUMNS_STEP (a line of the cache) and at least two of them, so that rows which softmax_loops.c takes
 * abreast lie in one block for any width; COLUMNS_LEAST where columns are cut into pieces. */
#define COLUMNS_MOST 512
#define COLUMNS_LEAST 64
#define COLUMNS_STEP 16

/* Elements of a long row, and of a block of long columns, that are summed at a time, and rows that a block of columns
 * has without pieces at most; fixed, so that results do not depend on the number of threads. */
#define PIECE 32768
#define COLUMN_PIECE 16384
#define ROWS_MOST 1024

typedef struct softmax_job {
  const softmax *s;
  const float *x;
  float *y;
  int64_t width; /* of a block of columns; blocks lie within a block of `axis` rows of `inner` columns */
  /* of long rows, and of blocks of long columns, whose items are COLUMNS_LEAST numbers each */
  int64_t n_pieces, piece_rows;      /* piece_rows: of a piece of columns */
  double *sums;                      /* [row][piece], the workspace */
  float *column_sums;                /* instead of sums: [block][piece] */
  float *most, *row_most, *row_rest; /* most: as sums; of rows: the largest element, the factor or the shift */
} softmax_job;

static void rows(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t axis = job->s->axis;
  CPU_PICK(job->s->level, softmax_rows)
  (job->s->kind == SOFTMAX_LOG, job->x + begin * axis, job->y + begin * axis, end - begin, axis);
}

/* A block of neighbouring columns, from its first row on. */
typedef struct column_block {
  int64_t at, n;
} column_block;

static int64_t blocks_of(const softmax *s, int64_t width) { return (s->inner + width - 1) / width; }

static column_block block_at(const softmax_job *job, int64_t i) {
  int64_t inner = job->s->inner, blocks = blocks_of(job->s, job->width), first = i % blocks * job->width;
  return (column_block){i / blocks * job->s->axis * inner + first,
                        inner - first < job->width ? inner - first : job->width};
}

static void columns(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  float scratch[2 * COLUMNS_MOST];
  for (int64_t i = begin; i < end; i++) {
    column_block b = block_at(job, i);
    CPU_PICK(job->s->level, softmax_columns)
    (job->s->kind == SOFTMAX_LOG, job->x + b.at, job->y + b.at, job->s->axis, job->s->inner, b.n, scratch);
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

/* ---- long columns ---- */

/* Piece i of all: its block of columns, narrowed to begin at the piece, and the piece's rows. */
static column_block column_piece(const softmax_job *job, int64_t i, int64_t *out_rows) {
  column_block b = block_at(job, i / job->n_pieces);
  int64_t first = i % job->n_pieces * job->piece_rows, left = job->s->axis - first;
  *out_rows = left < job->piece_rows ? left : job->piece_rows;
  b.at += first * job->s->inner;
  return b;
}

static void find_column_most(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin, n_rows; i < end; i++) {
    column_block b = column_piece(job, i, &n_rows);
    CPU_PICK(job->s->level, softmax_columns_most)
    (job->x + b.at, n_rows, job->s->inner, b.n, job->most + i * COLUMNS_LEAST);
  }
}

/* The largest of each column of blocks begin..end-1. */
static void join_column_most(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) CPU_PICK(job->s->level, softmax_columns_most)
  (job->most + i * job->n_pieces * COLUMNS_LEAST, job->n_pieces, COLUMNS_LEAST, block_at(job, i).n,
   job->row_most + i * COLUMNS_LEAST);
}

static void sum_column_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin, n_rows; i < end; i++) {
    column_block b = column_piece(job, i, &n_rows);
    CPU_PICK(job->s->level, softmax_columns_sum)
    (job->s->kind == SOFTMAX_LOG, job->x + b.at, job->row_most + i / job->n_pieces * COLUMNS_LEAST, job->y + b.at,
     n_rows, job->s->inner, b.n, job->column_sums + i * COLUMNS_LEAST);
  }
}

/* The factor, or what is subtracted after the largest element, of each column of blocks begin..end-1. */
static void join_column_sums(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++)
    for (int64_t c = 0, n = block_at(job, i).n; c < n; c++) {
      double sum = 0;
      for (int64_t k = 0; k < job->n_pieces; k++)
        sum += (double)job->column_sums[(i * job->n_pieces + k) * COLUMNS_LEAST + c];
      job->row_rest[i * COLUMNS_LEAST + c] = job->s->kind == SOFTMAX_LOG ? logf((float)sum) : (float)(1 / sum);
    }
}

static void finish_column_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin, n_rows; i < end; i++) {
    column_block b = column_piece(job, i, &n_rows);
    CPU_PICK(job->s->level, softmax_columns_end)
    (job->s->kind == SOFTMAX_LOG ? job->row_most + i / job->n_pieces * COLUMNS_LEAST : NULL, job->x + b.at,
     job->row_rest + i / job->n_pieces * COLUMNS_LEAST, job->y + b.at, n_rows, job->s->inner, b.n);
  }
}

/* Blocks of columns of several pieces each. */
static reed_status run_long_columns(softmax_job *job, cpu_team team) {
  int64_t blocks = job->s->outer * blocks_of(job->s, job->width), n = blocks * job->n_pieces;
  cpu_team joining = cpu_team_for(job->s->team, n * COLUMNS_LEAST * 8);
  job->column_sums = (float *)job->sums;
  job->most = job->column_sums + n * COLUMNS_LEAST;
  job->row_most = job->most + n * COLUMNS_LEAST;
  job->row_rest = job->row_most + blocks * COLUMNS_LEAST;
  reed_status status = cpu_parallel(team, n, 1, find_column_most, job);
  if (status == REED_OK) status = cpu_parallel(joining, blocks, 1, join_column_most, job);
  if (status == REED_OK) status = cpu_parallel(team, n, 1, sum_column_pieces, job);
  if (status == REED_OK) status = cpu_parallel(joining, blocks, 1, join_column_sums, job);
  return status == REED_OK ? cpu_parallel(team, n, 1, finish_column_pieces, job) : status;
}

/* ---- the call ---- */

static int64_t piece_rows_of(const softmax *s) { return COLUMN_PIECE / smaller(s->inner, COLUMNS_LEAST); }

static int64_t pieces_of(const softmax *s) {
  if (s->inner == 1) return s->axis > 2 * PIECE ? (s->axis + PIECE - 1) / PIECE : 1;
  const bool is_long = s->axis > ROWS_MOST && s->axis * smaller(s->inner, COLUMNS_LEAST) > PIECE;
  return is_long ? (s->axis + piece_rows_of(s) - 1) / piece_rows_of(s) : 1;
}

/* Columns of a block: results do not depend on it. Half as many where threads wait for each other's blocks. */
static int64_t width_of(const softmax *s) {
  if (s->inner > 1 && pieces_of(s) > 1) return COLUMNS_LEAST;
  const int64_t elements = s->team.threads > 1 ? PIECE * 3 / 4 : PIECE * 3 / 2,
                wanted = elements / (s->axis > 0 ? s->axis : 1) / COLUMNS_STEP * COLUMNS_STEP;
  return wanted < 2 * COLUMNS_STEP ? 2 * COLUMNS_STEP : smaller(wanted, COLUMNS_MOST);
}

static reed_status run_softmax(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  softmax_job job = {.s = s,
                     .x = buffers->inputs[0],
                     .y = buffers->outputs[0],
                     .width = width_of(s),
                     .n_pieces = pieces_of(s),
                     .piece_rows = s->inner > 1 ? piece_rows_of(s) : 0,
                     .sums = buffers->workspace};
  cpu_team team = cpu_team_for(s->team, s->outer * s->axis * s->inner * 24 + s->outer * s->inner * WORK_PER_ROW);
  if (s->inner == 1) return job.n_pieces > 1 ? run_long_rows(&job, team) : cpu_parallel(team, s->outer, 1, rows, &job);
  if (job.n_pieces > 1) return run_long_columns(&job, team);
  return cpu_parallel(team, s->outer * blocks_of(s, job.width), 1, columns, &job);
}

reed_status cpu_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  softmax s;
  softmax_read(call, &s);
  if (s.dtype != REED_F32) return softmax_prepare_double(call, &s, out_kernel);
  if (s.kind == SOFTMAX_HARD || s.kind == SOFTMAX_LP) return hardmax_prepare(call, &s, out_kernel);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_softmax, state);
  int64_t pieces = pieces_of(&s), blocks = s.outer * blocks_of(&s, width_of(&s));
  if (pieces == 1) return REED_OK;
  if (s.inner == 1)
    out_kernel->workspace_bytes =
        s.outer * (pieces * (int64_t)(sizeof(double) + sizeof(float)) + 2 * (int64_t)sizeof(float));
  else out_kernel->workspace_bytes = blocks * (pieces + 1) * 2 * COLUMNS_LEAST * (int64_t)sizeof(float);
  return REED_OK;
}
