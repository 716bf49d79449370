/* Hardmax and LpNormalization of f32: one number is found for each line, from its pieces, and then all elements are
 * written. Pieces have a fixed length, so that results do not depend on the number of threads. The reference:
 * reference/softmax.c. */
#include "ops/cpu/reduce/hardmax.h"

#include <math.h>

#include "ops/cpu/common/relay.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/common/whole.h"
#include "ops/cpu/reduce/short_rows.h"

#define PIECE 16384

typedef struct hardmax_job {
  const softmax *s;
  const float *x;
  float *y;
  int64_t n_pieces;
  double *found; /* [line][piece], by columns [piece][line]: the largest element, or the sum */
  double *whole; /* of a line: the place of the first largest element, or what x is multiplied with */
} hardmax_job;

/* A piece of a line. */
typedef struct line_piece {
  int64_t line, first, n, at; /* first: along the line; at: in X and Y */
} line_piece;

static line_piece piece_at(const hardmax_job *job, int64_t i) {
  const softmax *s = job->s;
  int64_t line = i / job->n_pieces, first = i % job->n_pieces * PIECE, left = s->axis - first;
  int64_t at = (line / s->inner * s->axis + first) * s->inner + line % s->inner;
  return (line_piece){line, first, left < PIECE ? left : PIECE, at};
}

/* The largest of elements `inner` apart; NaN if there is one. */
static float largest(const softmax *s, const float *x, int64_t n) {
  if (s->inner == 1) return CPU_PICK(s->level, max_f32)(x, n);
  float most = x[0];
  for (int64_t k = 1; k < n; k++) most = most >= x[k * s->inner] || isnan(most) ? most : x[k * s->inner];
  return most;
}

static void find_pieces(void *context, int64_t begin, int64_t end) {
  const hardmax_job *job = context;
  const softmax *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    line_piece p = piece_at(job, i);
    job->found[i] = s->kind == SOFTMAX_HARD ? (double)largest(s, job->x + p.at, p.n)
                                            : CPU_PICK(s->level, lp_sum)(s->p, job->x + p.at, p.n, s->inner);
  }
}

/* The place along a line of the first of its largest elements, as ArgMax finds it: NaN is larger than any number. */
static double first_largest(const hardmax_job *job, int64_t line) {
  int64_t inner = job->s->inner, best = 0, i = 0;
  const double *found = job->found + line * job->n_pieces;
  for (int64_t k = 1; k < job->n_pieces; k++) best = found[best] >= found[k] || isnan(found[best]) ? best : k;
  line_piece p = piece_at(job, line * job->n_pieces + best);
  const float *x = job->x + p.at, most = (float)found[best];
  while (isnan(most) ? !isnan(x[i * inner]) : x[i * inner] != most) i++;
  return (double)(p.first + i);
}

static void find_lines(void *context, int64_t begin, int64_t end) {
  const hardmax_job *job = context;
  for (int64_t line = begin; line < end; line++) {
    double sum = 0;
    if (job->s->kind == SOFTMAX_HARD) {
      job->whole[line] = first_largest(job, line);
      continue;
    }
    const int64_t lines = job->s->outer * job->s->inner;
    for (int64_t k = 0; k < job->n_pieces; k++)
      sum += job->found[job->s->inner > 1 ? k * lines + line : line * job->n_pieces + k];
    if (job->s->p == 2) sum = sqrt(sum);
    job->whole[line] = sum == 0 ? 0 : 1 / sum;
  }
}

static void write_pieces(void *context, int64_t begin, int64_t end) {
  const hardmax_job *job = context;
  const softmax *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    line_piece p = piece_at(job, i);
    double whole = job->whole[p.line];
    if (s->kind == SOFTMAX_LP) {
      CPU_PICK(s->level, scale_by_double)(whole, job->x + p.at, job->y + p.at, p.n, s->inner);
      continue;
    }
    for (int64_t k = 0; k < p.n; k++) job->y[p.at + k * s->inner] = 0;
    int64_t best = (int64_t)whole - p.first;
    if (best >= 0 && best < p.n) job->y[p.at + best * s->inner] = 1;
  }
}

/* ---- LpNormalization of lines side by side ---- */

#define STEP 16384 /* elements of a step of a piece of some columns */
#define COLUMNS_LEAST 16
#define COLUMNS_MOST 256
#define FACTORS 128 /* so many at least are multiplied in one loop, if rows are shorter */

/* Pieces of groups of columns. */
typedef struct columns_job {
  hardmax_job job;
  int64_t width, n_groups, step_rows; /* columns of a group, groups of `inner` columns, rows of a step */
} columns_job;

/* A step of a piece of a group, whose sums take the rows in their order. */
static bool sum_step(void *context, int64_t item, int64_t step, int32_t place) {
  (void)place;
  const columns_job *c = context;
  const softmax *s = c->job.s;
  const int64_t piece = item % c->job.n_pieces, group = item / c->job.n_pieces, column = group % c->n_groups * c->width,
                outer = group / c->n_groups, count = smaller(s->inner - column, c->width),
                row = piece * PIECE + step * c->step_rows, rows = smaller(s->axis - row, c->step_rows);
  double *sums = c->job.found + (piece * s->outer + outer) * s->inner + column;
  if (step == 0) memset(sums, 0, (size_t)count * sizeof *sums);
  CPU_PICK(s->level, lp_sum_columns)
  (s->p, c->job.x + (outer * s->axis + row) * s->inner + column, rows, s->inner, count, sums);
  return row + rows < s->axis && (row + rows) % PIECE != 0;
}

/* Elements begin..end-1 of X and Y: whole rows many at a time, and the parts of rows at both ends. */
static void scale_elements(void *context, int64_t begin, int64_t end) {
  const columns_job *c = context;
  const softmax *s = c->job.s;
  const int64_t inner = s->inner, block = s->axis * inner, repeats = smaller(divided(FACTORS, inner), s->axis);
  double repeated[2 * FACTORS];
  for (int64_t at = begin, n; at < end; at += n) {
    const int64_t column = at % inner, left = smaller(end, (at / block + 1) * block) - at;
    const double *factors = c->job.whole + at / block * inner + column;
    n = column ? smaller(inner - column, left) : left;
    int64_t width = column ? n : inner;
    if (repeats > 1 && n > inner) {
      for (int64_t i = 0; i < repeats; i++) memcpy(repeated + i * inner, factors, (size_t)inner * sizeof *factors);
      factors = repeated;
      width *= repeats;
    }
    CPU_PICK(s->level, scale_by_doubles)(factors, width, c->job.x + at, c->job.y + at, n);
  }
}

/* Pieces of one step each. */
static void sum_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  for (int64_t i = begin; i < end; i++) sum_step(context, i, 0, worker);
}

static reed_status run_columns(const hardmax_job *job) {
  const softmax *s = job->s;
  columns_job c = {.job = *job};
  const cpu_team team = cpu_team_for(s->team, s->outer * s->inner * s->axis * 8);
  const int64_t wanted = s->outer * s->inner * job->n_pieces / (2 * team.threads);
  c.width = cpu_clamp(round_up(wanted, COLUMNS_LEAST), COLUMNS_LEAST, COLUMNS_MOST);
  c.n_groups = divided(s->inner, c.width);
  for (c.step_rows = PIECE; c.step_rows > 1 && c.step_rows * smaller(c.width, s->inner) > STEP;) c.step_rows /= 2;
  const int64_t items = s->outer * c.n_groups * job->n_pieces;
  const int64_t steps = divided(s->axis, c.step_rows);
  reed_status status = steps <= job->n_pieces ? cpu_parallel_scratch(team, items, 1, sum_items, &c)
                                              : cpu_relay(team, items, s->outer * c.n_groups * steps, sum_step, &c);
  const int64_t lines = s->outer * s->inner;
  if (status == REED_OK)
    status = cpu_parallel(cpu_team_for(s->team, lines * WORK_PER_ROW), lines, 64, find_lines, &c.job);
  return status == REED_OK ? cpu_parallel(team, s->axis * lines, 64, scale_elements, &c) : status;
}

static int64_t pieces_of(const softmax *s) { return divided(s->axis, PIECE); }

static reed_status run_hardmax(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  hardmax_job job = {s, buffers->inputs[0], buffers->outputs[0], pieces_of(s), buffers->workspace, NULL};
  int64_t lines = s->outer * s->inner, n = lines * job.n_pieces;
  if (n == 0) return REED_OK;
  job.whole = job.found + n;
  if (s->kind == SOFTMAX_LP && s->inner > 1) return run_columns(&job);
  cpu_team team = cpu_team_for(s->team, lines * (s->axis * (s->inner == 1 ? 6 : 24) + WORK_PER_ROW));
  reed_status status = cpu_parallel(team, n, 1, find_pieces, &job);
  if (status == REED_OK) status = cpu_parallel(team, lines, 1, find_lines, &job);
  return status == REED_OK ? cpu_parallel(team, n, 1, write_pieces, &job) : status;
}

reed_status hardmax_prepare(const reed_kernel_call *call, const softmax *s, reed_kernel *out_kernel) {
  void *state = mem_copy(s, sizeof *s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_hardmax, state);
  out_kernel->workspace_bytes = s->outer * s->inner * (pieces_of(s) + 1) * (int64_t)sizeof(double);
  return REED_OK;
}
