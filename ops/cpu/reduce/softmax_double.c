/* Softmax, LogSoftmax, Hardmax and LpNormalization of f64. The pieces of all lines are shared out in passes: the
 * largest elements, the sums, the results; sums are added piece by piece. The reference: reference/softmax.c. */
#include <math.h>

#include "ops/cpu/reduce/exp_loops.h"
#include "ops/cpu/reduce/lines_double.h"

typedef struct softmax_job {
  const softmax *s;
  cpu_level level;
  const double *x;
  double *y;
  int64_t n_pieces;
  double *most, *sums; /* [line][piece], the workspace */
  double *line_most;   /* of lines: the largest element, for Hardmax its place along the line */
  double *line_rest;   /* of lines: the divisor, or the logarithm to subtract */
} softmax_job;

/* ---- pieces of lines: of rows, and of lines without exponentials, whose elements are `inner` apart ---- */

typedef struct piece {
  int64_t line, first, at, n; /* first: along the line; at: in X and Y */
} piece;

static piece piece_at(const softmax_job *job, int64_t i) {
  const softmax *s = job->s;
  int64_t line = i / job->n_pieces, first = i % job->n_pieces * DOUBLE_PIECE, left = s->axis - first;
  return (piece){line, first, line / s->inner * s->axis * s->inner + line % s->inner + first * s->inner,
                 left < DOUBLE_PIECE ? left : DOUBLE_PIECE};
}

static bool takes_exp(const softmax *s) { return s->kind == SOFTMAX || s->kind == SOFTMAX_LOG; }

static void find_most(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t step = job->s->inner;
  for (int64_t i = begin; i < end; i++) {
    piece p = piece_at(job, i);
    const double *x = job->x + p.at;
    double most = x[0];
    if (takes_exp(job->s)) most = CPU_PICK(job->level, most_f64)(x, p.n);
    else
      for (int64_t k = 1; k < p.n; k++) most = most >= x[k * step] || isnan(most) ? most : x[k * step];
    job->most[i] = most;
  }
}

static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  const softmax *s = job->s;
  int64_t step = s->inner;
  for (int64_t i = begin; i < end; i++) {
    piece p = piece_at(job, i);
    const double *x = job->x + p.at;
    double sum = 0;
    if (takes_exp(s))
      sum =
          CPU_PICK(job->level, exp_sum_f64)(x, job->line_most[p.line], s->kind == SOFTMAX ? job->y + p.at : NULL, p.n);
    else
      for (int64_t k = 0; k < p.n; k++) sum += s->p == 1 ? fabs(x[k * step]) : x[k * step] * x[k * step];
    job->sums[i] = sum;
  }
}

static void finish_pieces(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  const softmax *s = job->s;
  int64_t step = s->inner;
  for (int64_t i = begin; i < end; i++) {
    piece p = piece_at(job, i);
    const double *x = job->x + p.at;
    double *y = job->y + p.at, rest = s->kind == SOFTMAX_HARD ? 0 : job->line_rest[p.line];
    switch (s->kind) {
      case SOFTMAX:
        for (int64_t k = 0; k < p.n; k++) y[k] /= rest;
        break;
      case SOFTMAX_LOG:
        for (int64_t k = 0; k < p.n; k++) y[k] = x[k] - job->line_most[p.line] - rest;
        break;
      case SOFTMAX_HARD:
        for (int64_t k = 0; k < p.n; k++) y[k * step] = p.first + k == (int64_t)job->line_most[p.line];
        break;
      default: /* a line without length stays 0 */
        for (int64_t k = 0; k < p.n; k++) y[k * step] = rest == 0 ? 0 : x[k * step] / rest;
    }
  }
}

/* The place along a line of the first of its largest elements, of which the first one is in a piece. As in ArgMax NaN
 * is larger than any number. */
static int64_t first_largest(const softmax_job *job, piece p, double most) {
  const double *x = job->x + p.at - p.first * job->s->inner;
  int64_t k = p.first;
  while (isnan(most) ? !isnan(x[k * job->s->inner]) : x[k * job->s->inner] != most) k++;
  return k;
}

/* Lines begin..end-1 join what their pieces have found. */
static void join_most(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t line = begin; line < end; line++) {
    int64_t of_most = line * job->n_pieces;
    for (int64_t k = of_most + 1; k < (line + 1) * job->n_pieces; k++)
      of_most = job->most[of_most] >= job->most[k] || isnan(job->most[of_most]) ? of_most : k;
    job->line_most[line] = job->most[of_most];
    if (job->s->kind == SOFTMAX_HARD)
      job->line_most[line] = (double)first_largest(job, piece_at(job, of_most), job->most[of_most]);
  }
}

static void join_sums(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  const softmax *s = job->s;
  for (int64_t line = begin; line < end; line++) {
    double sum = 0;
    for (int64_t k = line * job->n_pieces; k < (line + 1) * job->n_pieces; k++) sum += job->sums[k];
    job->line_rest[line] = s->kind == SOFTMAX_LOG ? log(sum) : s->kind == SOFTMAX_LP && s->p == 2 ? sqrt(sum) : sum;
  }
}

static bool seeks_most(const softmax *s) { return s->kind != SOFTMAX_LP; }
static bool adds_up(const softmax *s) { return s->kind != SOFTMAX_HARD; }

/* Whole lines of one piece each. */
static void whole_lines(void *context, int64_t begin, int64_t end) {
  const softmax *s = ((const softmax_job *)context)->s;
  for (int64_t line = begin; line < end; line++) {
    if (seeks_most(s)) {
      find_most(context, line, line + 1);
      join_most(context, line, line + 1);
    }
    if (adds_up(s)) {
      sum_pieces(context, line, line + 1);
      join_sums(context, line, line + 1);
    }
    finish_pieces(context, line, line + 1);
  }
}

/* Rows of one piece each. */
static void whole_rows(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  const int64_t n = job->s->axis;
  CPU_PICK(job->level, softmax_rows_f64)
  (job->s->kind == SOFTMAX_LOG, job->x + begin * n, job->y + begin * n, end - begin, n);
}

/* Columns of one piece each. */
static void whole_columns(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  const softmax *s = job->s;
  int64_t n;
  for (int64_t line = begin; line < end; line += n) {
    const piece p = piece_at(job, line);
    n = s->inner - line % s->inner < end - line ? s->inner - line % s->inner : end - line;
    CPU_PICK(job->level, softmax_columns_f64)
    (s->kind == SOFTMAX_LOG, job->x + p.at, job->y + p.at, s->axis, s->inner, n);
  }
}

/* ---- pieces of long columns ---- */

/* A piece of some columns side by side, all of one image of `inner` columns. */
typedef struct block {
  int64_t line, columns, piece, at, n; /* the first column; at: in X and Y; n: elements of a column */
} block;

static int64_t blocks_of(const softmax *s) { return (s->inner + COLUMNS_ABREAST - 1) / COLUMNS_ABREAST; }

/* Blocks that lie side by side follow each other. */
static block block_at(const softmax_job *job, int64_t i) {
  const softmax *s = job->s;
  const int64_t column = i % blocks_of(s) * COLUMNS_ABREAST, left = s->inner - column, rest = i / blocks_of(s),
                line = rest / job->n_pieces * s->inner + column;
  const piece p = piece_at(job, line * job->n_pieces + rest % job->n_pieces);
  return (block){line, left < COLUMNS_ABREAST ? left : COLUMNS_ABREAST, rest % job->n_pieces, p.at, p.n};
}

static void find_most_abreast(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    const block b = block_at(job, i);
    double most[COLUMNS_ABREAST];
    CPU_PICK(job->level, most_columns_f64)(job->x + b.at, b.n, job->s->inner, b.columns, most);
    for (int64_t c = 0; c < b.columns; c++) job->most[(b.line + c) * job->n_pieces + b.piece] = most[c];
  }
}

static void sum_abreast(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    const block b = block_at(job, i);
    double sums[COLUMNS_ABREAST];
    CPU_PICK(job->level, exp_sum_columns_f64)
    (job->x + b.at, job->line_most + b.line, job->s->kind == SOFTMAX_LOG ? NULL : job->y + b.at, b.n, job->s->inner,
     b.columns, sums);
    for (int64_t c = 0; c < b.columns; c++) job->sums[(b.line + c) * job->n_pieces + b.piece] = sums[c];
  }
}

static void finish_abreast(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    const block b = block_at(job, i);
    CPU_PICK(job->level, finish_columns_f64)
    (job->s->kind == SOFTMAX_LOG, job->x + b.at, job->line_most + b.line, job->line_rest + b.line, job->y + b.at, b.n,
     job->s->inner, b.columns);
  }
}

/* ---- running ---- */

static int64_t pieces_of(const softmax *s) { return (s->axis + DOUBLE_PIECE - 1) / DOUBLE_PIECE; }

static reed_status run_double(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  int64_t lines = s->outer * s->inner, n = lines * pieces_of(s);
  softmax_job job = {.s = s,
                     .level = cpu_level_now(),
                     .x = buffers->inputs[0],
                     .y = buffers->outputs[0],
                     .n_pieces = pieces_of(s),
                     .most = buffers->workspace};
  job.sums = job.most + n;
  job.line_most = job.sums + n;
  job.line_rest = job.line_most + lines;
  cpu_team team = cpu_team_for(s->team, lines * s->axis * 64),
           joining = cpu_team_for(s->team, n * 16 + (s->kind == SOFTMAX_HARD ? lines * DOUBLE_PIECE * 8 : 0));
  if (job.n_pieces == 1 && s->inner == 1 && takes_exp(s)) return cpu_parallel(team, lines, 1, whole_rows, &job);
  if (job.n_pieces == 1 && takes_exp(s)) return cpu_parallel(team, lines, COLUMNS_ABREAST, whole_columns, &job);
  if (job.n_pieces == 1) return cpu_parallel(team, lines, 1, whole_lines, &job);
  const bool abreast = s->inner > 1 && takes_exp(s);
  const int64_t items = abreast ? s->outer * blocks_of(s) * job.n_pieces : n;
  reed_status status = REED_OK;
  if (seeks_most(s)) {
    status = cpu_parallel(team, items, 1, abreast ? find_most_abreast : find_most, &job);
    if (status == REED_OK) status = cpu_parallel(joining, lines, 1, join_most, &job);
  }
  if (status == REED_OK && adds_up(s)) {
    status = cpu_parallel(team, items, 1, abreast ? sum_abreast : sum_pieces, &job);
    if (status == REED_OK) status = cpu_parallel(joining, lines, 1, join_sums, &job);
  }
  return status == REED_OK ? cpu_parallel(team, items, 1, abreast ? finish_abreast : finish_pieces, &job) : status;
}

reed_status softmax_prepare_double(const reed_kernel_call *call, const softmax *s, reed_kernel *out_kernel) {
  if (s->dtype != REED_F64 || s->outer * s->axis * s->inner == 0) return REED_OK;
  void *state = mem_copy(s, sizeof *s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_double, state);
  out_kernel->workspace_bytes = s->outer * s->inner * (2 * pieces_of(s) + 2) * (int64_t)sizeof(double);
  return REED_OK;
}
