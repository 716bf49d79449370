/* LpPool (ONNX opset 22) for f32 and f64 with channels second: an output is the root of a sum of powers, added in
 * double. The taps of a window along its last axis are a run, which is summed at once; short runs of f32 are summed tap
 * by tap for many windows of a row. Large windows are cut into pieces, whose extents follow from the kernel's alone,
 * and the sums of an output's pieces are added in their order. So the bits are the same for any number of threads.
 *
 * The reference: reference/pool.c. The innermost loop of short runs: pool_loops.c. */
#include <math.h>

#include "ops/cpu/calls/pool.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/pool_loops.h"
#include "ops/cpu/views/view.h"

#define PIECE_TAPS 16384 /* of a window, at most: 5 us of squares */
#define PIECE_POWERS 512 /* likewise, if each takes a pow */
#define SHORT_RUN 16     /* taps */
#define SIDE_TAPS 1024   /* of windows that are summed tap by tap, at most */
#define WINDOWS 256      /* of a row, that are summed tap by tap */
#define CALL_WORK 8      /* of a tap of them besides, in cpu_team_for's count */

typedef struct lp_pool {
  pool p;
  int64_t runs;              /* of a window: products of the leading axes' taps, at most */
  int64_t piece, piece_runs; /* taps of a run that a piece has, and runs */
  int64_t along, pieces;     /* pieces of a run, and of a window */
  bool side_by_side;         /* runs are short */
} lp_pool;

typedef struct lp_job {
  const lp_pool *l;
  const char *x;
  void *y;
  double *sums; /* by output and piece; NULL: a window is one piece */
} lp_job;

/* The sum of powers of n elements `stride` apart. */
static double sum_run(const pool *p, const void *x, int64_t n, int64_t stride) {
  const double power = (double)p->power;
  const float *single = x;
  const double *wide = x;
  double sum = 0;
  if (p->dtype == REED_F32 && p->power <= 2) return CPU_PICK(p->level, lp_sum)(p->power, single, n, stride);
  for (int64_t i = 0; i < n; i++) {
    const double v = fabs(p->dtype == REED_F32 ? (double)single[i * stride] : wide[i * stride]);
    sum += p->power == 1 ? v : p->power == 2 ? v * v : pow(v, power);
  }
  return sum;
}

/* The taps of the window of output `at`, outputs being counted over all planes. Returns the number of its runs. */
static int64_t taps_of(const pool *p, int64_t at, window_taps *taps) {
  const window *w = &p->w;
  int64_t runs = 1, o = at % p->out_plane;
  for (int32_t axis = w->n - 1; axis >= 0; axis--) {
    taps[axis] = window_taps_at(w, axis, o % w->out[axis]);
    o /= w->out[axis];
    if (axis < w->n - 1) runs *= taps[axis].n;
  }
  return runs;
}

/* The first element of a run of the window of output `at`. */
static int64_t run_at(const pool *p, int64_t at, const window_taps *taps, int64_t run) {
  const int32_t last = p->w.n - 1;
  int64_t offset = at / p->out_plane * p->in_plane + taps[last].start;
  for (int32_t axis = last - 1; axis >= 0; axis--) {
    offset += (taps[axis].start + run % taps[axis].n * p->w.dilation[axis]) * p->in_stride[axis];
    run /= taps[axis].n;
  }
  return offset;
}

/* The sum of a piece of the window of output `at`. */
static double sum_piece(const lp_job *job, int64_t at, int64_t piece) {
  const lp_pool *l = job->l;
  const pool *p = &l->p;
  const int32_t last = p->w.n - 1;
  window_taps taps[WINDOW_MAX_AXES];
  const int64_t runs = taps_of(p, at, taps), first = piece % l->along * l->piece, rest = taps[last].n - first,
                n = rest < l->piece ? rest : l->piece, begin = piece / l->along * l->piece_runs,
                end = runs - begin < l->piece_runs ? runs : begin + l->piece_runs,
                bytes = (int64_t)reed_dtype_bytes(p->dtype), d = p->w.dilation[last];
  double sum = 0;
  for (int64_t run = begin; run < end && n > 0; run++)
    sum += sum_run(p, job->x + (run_at(p, at, taps, run) + first * d) * bytes, n, d);
  return sum;
}

static void write_root(const lp_job *job, int64_t at, double sum) {
  const pool *p = &job->l->p;
  const double root = p->power == 1 ? sum : p->power == 2 ? sqrt(sum) : pow(sum, 1.0 / (double)p->power);
  if (p->dtype == REED_F32) ((float *)job->y)[at] = (float)root;
  else ((double *)job->y)[at] = root;
}

/* n windows of a row, from output `at` on, which lie inside the input along the row: tap by tap. */
static void sum_side_by_side(const lp_job *job, int64_t at, int64_t n) {
  const pool *p = &job->l->p;
  const int32_t last = p->w.n - 1;
  double sums[WINDOWS] = {0};
  window_taps taps[WINDOW_MAX_AXES];
  const int64_t runs = taps_of(p, at, taps);
  for (int64_t run = 0; run < runs; run++) {
    const float *x = (const float *)job->x + run_at(p, at, taps, run);
    for (int64_t t = 0; t < taps[last].n; t++)
      CPU_PICK(p->level, lp_add)(p->power, x + t * p->w.dilation[last], p->w.stride[last], sums, n);
  }
  for (int64_t i = 0; i < n; i++) write_root(job, at + i, sums[i]);
}

/* Windows begin..end-1, each of one piece. */
static void sum_windows(void *context, int64_t begin, int64_t end) {
  const lp_job *job = context;
  const lp_pool *l = job->l;
  const window *w = &l->p.w;
  const int32_t last = w->n - 1;
  int64_t whole, after;
  window_whole(w, last, &whole, &after);
  for (int64_t at = begin, n; at < end && !cpu_cancelled(&l->p.team); at += n) {
    const int64_t o = at % w->out[last];
    n = l->side_by_side && o >= whole && o < after ? after - o : 1;
    n = n > end - at ? end - at : n;
    n = n > WINDOWS ? WINDOWS : n;
    if (n > 1) sum_side_by_side(job, at, n);
    else write_root(job, at, sum_piece(job, at, 0));
  }
}

/* Pieces begin..end-1 of all windows. */
static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const lp_job *job = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&job->l->p.team); i++)
    job->sums[i] = sum_piece(job, i / job->l->pieces, i % job->l->pieces);
}

/* Adds up the sums of the pieces of windows begin..end-1. */
static void add_pieces(void *context, int64_t begin, int64_t end) {
  const lp_job *job = context;
  const int64_t pieces = job->l->pieces;
  for (int64_t at = begin; at < end; at++) {
    double sum = 0;
    for (int64_t k = 0; k < pieces; k++) sum += job->sums[at * pieces + k];
    write_root(job, at, sum);
  }
}

/* The work of a window, in cpu_team_for's count. */
static int64_t work_of(const lp_pool *l) {
  const pool *p = &l->p;
  if (l->side_by_side) { /* a tap of some windows of a row is a call */
    const int64_t row = p->w.out[p->w.n - 1], together = row < WINDOWS ? row : WINDOWS;
    return 32 + p->taps * 8 + p->taps * CALL_WORK / together;
  }
  const bool lanes = p->dtype == REED_F32 && p->power <= 2 && p->w.dilation[p->w.n - 1] == 1;
  return 256 + l->runs * 128 + p->taps * (p->power > 2 ? 300 : lanes ? 4 : 12);
}

static reed_status run_lp_pool(const void *state, const reed_kernel_buffers *buffers) {
  const lp_pool *l = state;
  const pool *p = &l->p;
  const int64_t n = p->planes * p->out_plane;
  lp_job job = {.l = l, .x = buffers->inputs[0], .y = buffers->outputs[0]};
  const cpu_team team = cpu_team_for(p->team, n * work_of(l));
  if (l->pieces == 1) return cpu_parallel(team, n, 1, sum_windows, &job);
  job.sums = buffers->workspace;
  const reed_status status = cpu_parallel(team, n * l->pieces, 1, sum_pieces, &job);
  if (status != REED_OK) return status;
  return cpu_parallel(cpu_team_for(p->team, n * (64 + l->pieces * 8)), n, 1, add_pieces, &job);
}

static void divide(lp_pool *l) {
  const window *w = &l->p.w;
  const int32_t last = w->n - 1;
  const int64_t most = l->p.power > 2 ? PIECE_POWERS : PIECE_TAPS,
                run = w->kernel[last] < w->in[last] ? w->kernel[last] : w->in[last];
  l->runs = run ? l->p.taps / run : 0;
  l->side_by_side = l->p.dtype == REED_F32 && l->p.power <= 2 && run < SHORT_RUN && l->p.taps <= SIDE_TAPS;
  l->piece = run < most ? run : most;
  l->piece_runs = run < most ? most / (run ? run : 1) : 1;
  l->along = run ? (run + l->piece - 1) / l->piece : 1;
  const int64_t down = (l->runs + l->piece_runs - 1) / l->piece_runs;
  l->pieces = down > 1 ? l->along * down : l->along;
}

reed_status cpu_prepare_lp_pool_second(const reed_kernel_call *call, reed_kernel *out_kernel) {
  lp_pool l;
  pool_read(call, POOL_LP, &l.p);
  if (l.p.dtype != REED_F32 && l.p.dtype != REED_F64) return REED_OK;
  divide(&l);
  if (l.p.taps == 0 || l.p.planes * l.p.out_plane == 0) return REED_OK;
  void *state = mem_copy(&l, sizeof l);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_lp_pool, state);
  if (l.pieces > 1) out_kernel->workspace_bytes = l.p.planes * l.p.out_plane * l.pieces * (int64_t)sizeof(double);
  return REED_OK;
}

reed_status cpu_prepare_lp_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return view->last ? REED_OK : cpu_prepare_lp_pool_second(view->call, out_kernel);
}
