/* AveragePool, MaxPool (ONNX opset 22) and the global pools for f32. With Indices or of other dtypes: pool_any.c with
 * channels second (as MaxPool over lines that are mostly padding is), else the reference, which also computes the
 * global Lp pools but those of magnitudes and squares. Not here: LpPool (lp_pool.c).
 *
 * A window is a product of axes. Under windows of a few rows and columns, the taps of each row of the input are joined
 * once for a vector of outputs. The smallest windows of long rows, and small ones that are dilated or have three axes,
 * are reduced in registers, a vector of outputs of a row at a time, for all rows below each other. For others, the
 * input lines under a row of outputs are reduced to one line, which is then reduced along its own axis. Rows are cut
 * into pieces. A global pool's large planes are, too: the length of a piece follows from the extents alone, and its
 * result is one number. With channels last, an output pixel is the reduction of its taps' channels side by side, or of
 * those of a line that the rows under it were joined to.
 *
 * The reference: reference/pool.c. The innermost loops: pool_windows_loops.c, pool_lines_loops.c and, with channels
 * last, pool_loops.c. */
#include <math.h>

#include "ops/cpu/calls/pool.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/pool_any.h"
#include "ops/cpu/image/pool_lines_loops.h"
#include "ops/cpu/image/pool_loops.h"
#include "ops/cpu/image/pool_windows_loops.h"
#include "ops/cpu/views/view.h"

#define TAPS_AT_ONCE 64 /* also how far floats are summed before sums are added to sums */

typedef struct fast_pool {
  pool p;
  int64_t channels;
  pool_line line, rows;    /* the window along the last axis, and along the one before it */
  bool in_windows;         /* pool_windows computes them */
  int64_t lines;           /* of the input, under a row of outputs, at most */
  int64_t line_step;       /* floats from line to line in the workspace */
  int64_t lines_at_once;   /* there */
  int64_t row_bytes;       /* of a thread's lines there */
  int64_t piece, n_pieces; /* outputs of a row, or elements of a global pool's plane */
  int64_t block, n_blocks; /* rows of outputs that an item has */
  int64_t work;            /* of all outputs, in cpu_team_for's count */
  bool whole_planes;       /* an item is a plane, whose rows all have the same taps */
} fast_pool;

typedef struct pool_job {
  const fast_pool *f;
  const float *x;
  float *y;
  char *workspace;
} pool_job;

/* Offsets in the input plane of the next `n` of the taps, which `at` counts through, row-major. */
static void next_offsets(const pool *p, const window_taps *taps, int32_t axes, int64_t *at, int64_t n,
                         int64_t *offsets) {
  for (int64_t k = 0; k < n; k++) {
    int64_t offset = 0;
    for (int32_t axis = 0; axis < axes; axis++)
      offset += (taps[axis].start + at[axis] * p->w.dilation[axis]) * p->in_stride[axis];
    offsets[k] = offset;
    for (int32_t axis = axes - 1; axis >= 0 && ++at[axis] == taps[axis].n; axis--) at[axis] = 0;
  }
}

/* ---- rows ---- */

#define ITEM_PS ((int64_t)10000000) /* picoseconds of an item of rows, about */
#define COLUMNS 8192                /* of a line in the workspace, about: half of a first-level cache */
/* Picoseconds: of a run of rows; of an output; of a tap in registers; of a column of a line and of a doubling of its
 * windows; of an output that is not next to the one before it */
#define RUN_PS 50000
#define OUTPUT_PS 200
#define TAP_PS 20
#define COLUMN_PS 30
#define DOUBLING_PS 30
#define APART_PS 300
/* Picoseconds more of an element of X and of an output, if X and Y together are so many elements that they lie beyond
 * the near caches, or in memory (CPU_FAR_ELEMENTS) */
#define NEXT_PS 30
#define NEXT_ELEMENTS ((int64_t)1 << 18)
#define FAR_PS 200
#define WINDOWS_PIECE 256 /* outputs of a row, at most, so that an item has many rows, which share the input's */
#define OUTPUTS_NARROW 32 /* a row of fewer outputs is computed by pool_windows though its windows are small */
#define BASE_TIMES 4      /* on a CPU without AVX2 */

/* Rows of outputs with the same taps. */
typedef struct pool_run {
  const window_taps *taps;       /* of the leading axes */
  int64_t lines;                 /* of the input under a row */
  int64_t offsets[TAPS_AT_ONCE]; /* of the lines, unless there are more */
  int64_t x_step, rows;          /* from the lines under a row to those under the next one */
  double count;                  /* of the leading axes */
} pool_run;

/* Small windows: in registers. */
static void pool_run_strips(const fast_pool *f, const pool_run *run, const float *x, float *y, int64_t first,
                            int64_t after) {
  const pool *p = &f->p;
  const int32_t last = p->w.n - 1;
  const int64_t *offsets = run->offsets, apart = run->lines > 1 ? offsets[1] - offsets[0] : 0;
  bool even = run->lines > 1;
  for (int64_t k = 2; k < run->lines; k++) even = even && offsets[k] - offsets[k - 1] == apart;
  const bool slides = even && (run->x_step == apart || (run->lines == 3 && run->x_step == 2 * apart));
  CPU_PICK(p->level, pool_strips)
  (&f->line, x, offsets, run->lines, slides ? apart : 0, run->x_step, run->count, y + first, p->w.out[last], run->rows,
   first, after);
}

/* Any window: lines are reduced to one in the workspace. */
static void pool_run_lines(const fast_pool *f, const pool_run *run, const float *x, float *y, int64_t first,
                           int64_t after, float *line) {
  const pool *p = &f->p;
  const pool_line *l = &f->line;
  const int32_t last = p->w.n - 1;
  const int64_t column = first * l->stride - l->pad,
                end = (after - 1) * l->stride - l->pad + (l->kernel - 1) * l->dilation + 1,
                low = cpu_clamp(0, column, end), high = cpu_clamp(l->end, low, end); /* of the input; none: padding */
  const float nothing = p->mean ? 0 : -__builtin_inff();
  const int64_t out = p->w.out[last];
  int64_t more_offsets[TAPS_AT_ONCE], at[WINDOW_MAX_AXES] = {0};
  const int64_t *offsets = run->lines > TAPS_AT_ONCE ? more_offsets : run->offsets;
  for (int64_t r = 0, rows; r < run->rows; r += rows, x += rows * run->x_step, y += rows * out) {
    rows = run->rows - r < f->lines_at_once ? run->rows - r : f->lines_at_once;
    for (int64_t k = 0; k < rows; k++) {
      float *to = line + k * f->line_step;
      for (int64_t i = column; i < low; i++) to[i - column] = nothing;
      for (int64_t i = high; i < end; i++) to[i - column] = nothing;
    }
    for (int64_t done = 0, n; done < run->lines; done += n) {
      n = run->lines - done < TAPS_AT_ONCE ? run->lines - done : TAPS_AT_ONCE;
      if (run->lines > TAPS_AT_ONCE) next_offsets(p, run->taps, last, at, n, more_offsets);
      CPU_PICK(p->level, pool_taps)
      (p->mean, x + low, run->x_step, offsets, n, done == 0, 1, line + low - column, f->line_step, rows, high - low);
    }
    CPU_PICK(p->level, pool_along)(l, line, f->line_step, run->count, y + first, out, rows, first, after);
  }
}

/* The run of `rows` rows that begins with row r along the axis before the last one. lines and count: of the axes before
 * that. */
static void set_run(const fast_pool *f, const window_taps *taps, int64_t lines, double count, int64_t r, int64_t rows,
                    pool_run *run) {
  const pool *p = &f->p;
  const int32_t last = p->w.n - 1, inner = last - 1;
  int64_t at[WINDOW_MAX_AXES] = {0};
  run->taps = taps;
  run->lines = lines * taps[inner].n;
  run->x_step = p->w.stride[inner] * p->in_stride[inner];
  run->rows = rows;
  run->count = count * (double)pool_count(p, inner, r * p->w.stride[inner] - p->w.pad_begin[inner]);
  if (run->lines <= TAPS_AT_ONCE) next_offsets(p, taps, last, at, run->lines, run->offsets);
}

static void run_rows(const fast_pool *f, const pool_run *run, const float *x, float *y, int64_t first, int64_t after,
                     float *line) {
  if (run->lines == 0) {
    for (int64_t k = 0; k < run->rows; k++)
      for (int64_t o = first; o < after; o++) y[k * f->p.w.out[f->p.w.n - 1] + o] = f->p.mean ? 0 : -__builtin_inff();
  } else if (line) {
    pool_run_lines(f, run, x, y, first, after, line);
  } else {
    pool_run_strips(f, run, x, y, first, after);
  }
}

/* Outputs first..after-1 of rows begin..end-1 along the axis before the last one; taps and count are those of the axes
 * before it. x and y: the plane's start and row 0. */
static void pool_block(const fast_pool *f, window_taps *taps, double count, const float *x, float *y, int64_t begin,
                       int64_t end, int64_t first, int64_t after, float *line) {
  const pool *p = &f->p;
  const window *w = &p->w;
  const int32_t last = w->n - 1, inner = last - 1;
  int64_t whole_begin, whole_end, rows, lines = 1;
  window_whole(w, inner, &whole_begin, &whole_end);
  for (int32_t axis = 0; axis < inner; axis++) lines *= taps[axis].n;
  if (f->in_windows) {
    CPU_PICK(p->level, pool_windows)
    (&f->rows, &f->line, x, p->in_stride[inner], y + begin * w->out[last] + first, w->out[last], begin, end, first,
     after);
    return;
  }
  for (int64_t r = begin; r < end; r += rows) {
    taps[inner] = window_taps_at(w, inner, r);
    rows = r < whole_begin || r >= whole_end ? 1 : (end < whole_end ? end : whole_end) - r;
    pool_run run;
    set_run(f, taps, lines, count, r, rows, &run);
    run_rows(f, &run, x, y + r * w->out[last], first, after, line);
  }
}

/* All rows of planes begin..end-1, whose rows all have the same taps. */
static void pool_whole_planes(const pool_job *job, int64_t begin, int64_t end, float *line) {
  const fast_pool *f = job->f;
  const pool *p = &f->p;
  window_taps taps[WINDOW_MAX_AXES] = {window_taps_at(&p->w, 0, 0)};
  pool_run run;
  set_run(f, taps, 1, 1, 0, p->w.out[0], &run);
  for (int64_t i = begin; i < end; i++)
    run_rows(f, &run, job->x + i * p->in_plane, job->y + i * p->out_plane, 0, p->w.out[1], line);
}

/* Items begin..end-1: pieces of blocks of rows of planes. */
static void pool_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const pool_job *job = context;
  const fast_pool *f = job->f;
  const pool *p = &f->p;
  const window *w = &p->w;
  const int32_t last = w->n - 1, inner = last - 1;
  const int64_t out = w->out[last], outer = p->out_plane / (out * w->out[inner]);
  float *line = f->row_bytes ? (float *)(job->workspace + worker * f->row_bytes) : NULL;
  if (f->whole_planes) {
    pool_whole_planes(job, begin, end, line);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % f->n_pieces * f->piece, after = out - first < f->piece ? out : first + f->piece,
                  block = i / f->n_pieces, row = block % f->n_blocks * f->block, slice = block / f->n_blocks,
                  plane = slice / outer;
    window_taps taps[WINDOW_MAX_AXES];
    double count = 1;
    for (int64_t axis = inner - 1, rest = slice % outer; axis >= 0; axis--) {
      const int64_t o = rest % w->out[axis];
      rest /= w->out[axis];
      taps[axis] = window_taps_at(w, (int32_t)axis, o);
      count *= (double)pool_count(p, (int32_t)axis, o * w->stride[axis] - w->pad_begin[axis]);
    }
    pool_block(f, taps, count, job->x + plane * p->in_plane, job->y + slice * w->out[inner] * out, row,
               w->out[inner] - row < f->block ? w->out[inner] : row + f->block, first, after, line);
  }
}

static reed_status run_windows(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  const int64_t slices = p->planes * (p->out_plane / (p->w.out[p->w.n - 1] * p->w.out[p->w.n - 2]));
  pool_job job = {.f = f, .x = buffers->inputs[0], .y = buffers->outputs[0], .workspace = buffers->workspace};
  return cpu_parallel_scratch(cpu_team_for(p->team, f->work), slices * f->n_blocks * f->n_pieces, 1, pool_items, &job);
}

/* A line of each plane as the lines of one plane. */
static void join_planes(pool *p) {
  window *w = &p->w;
  window_as_row(w);
  w->in[0] = w->out[0] = p->planes;
  p->in_plane *= p->planes;
  p->out_plane *= p->planes;
  p->planes = 1;
  cpu_dense_strides(w->n, w->in, p->in_stride);
}

/* True if lines with their padding are far longer than the input's. */
static bool is_of_padding(const window *w) {
  const int32_t last = w->n - 1;
  return (w->out[last] - 1) * w->stride[last] + (w->kernel[last] - 1) * w->dilation[last] >
         4 * w->in[last] + 8 * COLUMNS;
}

/* Divides rows of outputs, and their number. If windows overlap, neighbouring pieces of lines both reduce the columns
 * of their border. */
static void divide_rows(fast_pool *f) {
  const window *w = &f->p.w;
  const int32_t last = w->n - 1;
  const int64_t k = w->kernel[last], stride = w->stride[last], out = w->out[last], rows = w->out[last - 1],
                reach = (k - 1) * w->dilation[last] + 1, step = stride < reach ? stride : reach;
  f->line = (pool_line){.mean = f->p.mean, .kernel = k, .stride = stride, .dilation = w->dilation[last]};
  f->line.pad = w->pad_begin[last];
  f->line.end = f->line.high = w->in[last];
  if (f->p.include_pad) f->line.low -= w->pad_begin[last], f->line.high += w->pad_end[last];
  f->rows = (pool_line){.mean = f->p.mean,
                        .kernel = w->kernel[last - 1],
                        .stride = w->stride[last - 1],
                        .dilation = w->dilation[last - 1],
                        .pad = w->pad_begin[last - 1],
                        .end = w->in[last - 1],
                        .high = w->in[last - 1]};
  if (f->p.include_pad) f->rows.low -= f->rows.pad, f->rows.high += w->pad_end[last - 1];
  f->lines = 1;
  for (int32_t axis = 0; axis < last; axis++) f->lines *= w->kernel[axis] < w->in[axis] ? w->kernel[axis] : w->in[axis];
  const bool small = k <= STRIPS_KERNEL && stride <= STRIPS_STRIDE && f->lines <= STRIPS_LINES;
  /* rows of the input that several rows of outputs share, or columns under a stride, which pool_along parts; the rest
   * is a matter of rows so short that a vector of outputs is most of one */
  const bool shares = f->rows.kernel > f->rows.stride, narrow = out < OUTPUTS_NARROW,
             gains = f->rows.kernel == 1 ? stride == 2 || narrow : !small || (narrow && shares);
  f->in_windows = w->n == 2 && pool_windows_take(&f->rows, &f->line) && gains;
  const bool in_registers = f->in_windows || pool_strips_take(k, stride, f->lines);
  int64_t doublings = 0;
  for (int64_t taps = 1; taps < k; taps *= 2) doublings++;
  int64_t output_ps = OUTPUT_PS + TAP_PS * (f->in_windows ? f->rows.kernel + k : f->lines * k), least = 1,
          sums_ps = 0; /* of a mean's output besides */
  if (!in_registers) {
    const int64_t columns = step + (reach - step) / out; /* the first window's are shared among few outputs */
    output_ps = OUTPUT_PS + (stride > 1 ? APART_PS : 0) + columns * (COLUMN_PS * f->lines + DOUBLING_PS * doublings);
    if (f->p.mean) sums_ps = 2 * columns * DOUBLING_PS * doublings;
    least = reach / stride + 16;
  }
  if (f->p.level < CPU_AVX2) output_ps *= BASE_TIMES;
  const int64_t elements = f->p.planes * (f->p.in_plane + f->p.out_plane);
  if (elements > NEXT_ELEMENTS) output_ps += NEXT_PS * f->p.in_plane / f->p.out_plane;
  if (elements > CPU_FAR_ELEMENTS) output_ps += FAR_PS;
  int64_t most = ITEM_PS / output_ps;
  if (f->p.team.threads == 1) most = out;
  if (!in_registers && most > COLUMNS / stride) most = COLUMNS / stride;
  if (f->in_windows && most > WINDOWS_PIECE) most = WINDOWS_PIECE;
  f->piece = most > least ? most : least;
  if (f->piece > out) f->piece = out;
  f->n_pieces = (out + f->piece - 1) / f->piece;
  f->block = ITEM_PS / (output_ps * f->piece) + 1;
  if (f->block > rows) f->block = rows;
  f->n_blocks = (rows + f->block - 1) / f->block;
  f->work = f->p.planes *
            (f->p.out_plane * (output_ps + sums_ps) + f->p.out_plane / (out * rows) * f->n_blocks * RUN_PS) / 100;
  int64_t whole_begin, whole_end;
  window_whole(w, last - 1, &whole_begin, &whole_end);
  f->whole_planes =
      !f->in_windows && w->n == 2 && f->n_pieces == 1 && f->n_blocks == 1 && whole_begin == 0 && whole_end == rows;
  if (in_registers) return;
  f->line_step = ((f->piece - 1) * stride + reach + LINE_SLACK + 15) & ~(int64_t)15;
  f->lines_at_once = cpu_clamp(COLUMNS / f->line_step, 1, f->block);
  f->row_bytes = f->lines_at_once * f->line_step * 4;
}

/* ---- whole planes ---- */

#define PLANE_PIECE 32768 /* elements of a piece of a global pool's plane */

/* The sum, the largest element or the sum of powers of n elements. */
static double reduce_piece(const pool *p, const float *x, int64_t n) {
  if (p->power) return CPU_PICK(p->level, lp_sum)(p->power, x, n, 1);
  return p->mean ? CPU_PICK(p->level, sum_f32)(x, n) : (double)CPU_PICK(p->level, max_f32)(x, n);
}

static float finish_plane(const pool *p, double reduced) {
  return (float)(p->power == 2 ? sqrt(reduced) : p->mean ? reduced / (double)p->in_plane : reduced);
}

static void pool_planes(void *context, int64_t begin, int64_t end) {
  const pool_job *job = context;
  const pool *p = &job->f->p;
  for (int64_t i = begin; i < end; i++)
    job->y[i] = finish_plane(p, reduce_piece(p, job->x + i * p->in_plane, p->in_plane));
}

/* Pieces begin..end-1 of all planes. */
static void pool_pieces(void *context, int64_t begin, int64_t end) {
  const pool_job *job = context;
  const fast_pool *f = job->f;
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % f->n_pieces * f->piece, rest = f->p.in_plane - first;
    ((double *)job->workspace)[i] =
        reduce_piece(&f->p, job->x + i / f->n_pieces * f->p.in_plane + first, rest < f->piece ? rest : f->piece);
  }
}

static reed_status run_global(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  pool_job job = {.f = f, .x = buffers->inputs[0], .y = buffers->outputs[0], .workspace = buffers->workspace};
  const cpu_team team = cpu_team_for(p->team, p->planes * p->in_plane * 4);
  if (f->n_pieces == 1) return cpu_parallel(team, p->planes, 1, pool_planes, &job);
  const reed_status status = cpu_parallel(team, p->planes * f->n_pieces, 1, pool_pieces, &job);
  const double *pieces = buffers->workspace;
  for (int64_t i = 0; i < p->planes && status == REED_OK; i++, pieces += f->n_pieces) {
    double reduced = pieces[0];
    for (int64_t k = 1; k < f->n_pieces; k++)
      if (p->mean || p->power) reduced += pieces[k];
      else reduced = reduced >= pieces[k] || reduced != reduced ? reduced : pieces[k];
    job.y[i] = finish_plane(p, reduced);
  }
  return status;
}

/* ---- channels last ---- */

#define CHANNELS_AT_LEAST 64

#define LINE_ELEMENTS ((int64_t)8192) /* of a line of joined rows, at most: in the first-level cache */
#define LINE_GAIN 2                   /* times as many taps as with such a line, at least, where it is made */

typedef struct pixel_job {
  const fast_pool *f;
  const float *x;
  float *y, *lines;        /* lines: of the threads; NULL: none */
  int64_t block, n_blocks; /* channels of one item of work; blocks in a row */
} pixel_job;

/* Joins the taps of the first `axes` axes for n channels of `pixels` neighbours. x: pixels are x_pixel apart, and
 * offsets are in so many elements; y: y_pixel apart. The result is multiplied by `scale`. */
static void join_taps(const pool *p, const window_taps *taps, int32_t axes, int64_t elements, float scale,
                      const float *x, int64_t x_pixel, float *y, int64_t y_pixel, int64_t pixels, int64_t n) {
  int64_t at[WINDOW_MAX_AXES] = {0}, offsets[TAPS_AT_ONCE], left = 1;
  for (int32_t axis = 0; axis < axes; axis++) left *= taps[axis].n;
  for (bool first = true; left > 0; first = false) {
    int64_t batch = left < TAPS_AT_ONCE ? left : TAPS_AT_ONCE;
    next_offsets(p, taps, axes, at, batch, offsets);
    for (int64_t k = 0; k < batch; k++) offsets[k] *= elements;
    left -= batch;
    CPU_PICK(p->level, pool_taps)
    (p->mean, x, x_pixel, offsets, batch, first, left ? 1 : scale, y, y_pixel, pixels, n);
  }
}

/* Reduces `pixels` neighbours of a row whose windows have the same taps `taps` as the first pixel's. x is the image's
 * start, y the first pixel's; line: the image's rows under the windows, joined; or NULL. */
static void reduce_pixels(const fast_pool *f, const window_taps *taps, double count, const float *x, const float *line,
                          float *y, int64_t pixels, int64_t n) {
  const pool *p = &f->p;
  const window *w = &p->w;
  const int32_t last = w->n - 1;
  bool empty = false;
  for (int32_t axis = 0; axis < w->n; axis++) empty = empty || taps[axis].n == 0;
  const float scale = (float)(1 / count);
  for (int64_t i = 0; i < n && empty; i++) y[i] = p->mean ? 0 : -__builtin_inff();
  if (empty) return;
  if (!line) {
    join_taps(p, taps, w->n, f->channels, scale, x, w->stride[last] * f->channels, y, f->channels, pixels, n);
    return;
  }
  int64_t offsets[TAPS_AT_ONCE];
  for (int64_t done = 0, batch; done < taps[last].n; done += batch) {
    batch = taps[last].n - done < TAPS_AT_ONCE ? taps[last].n - done : TAPS_AT_ONCE;
    for (int64_t k = 0; k < batch; k++) offsets[k] = (taps[last].start + (done + k) * w->dilation[last]) * n;
    CPU_PICK(p->level, pool_taps)
    (p->mean, line, w->stride[last] * n, offsets, batch, done == 0, done + batch < taps[last].n ? 1 : scale, y,
     f->channels, pixels, n);
  }
}

/* Channels channel..channel + n of a row of Y (rows are counted over images and leading axes). Pixels with all their
 * taps are computed together, unless no tap of the leading axes is inside the input. */
static void pool_row(const pixel_job *job, int64_t row, int64_t channel, int64_t n, float *line) {
  const fast_pool *f = job->f;
  const pool *p = &f->p;
  const window *w = &p->w;
  int32_t last = w->n - 1;
  window_taps taps[WINDOW_MAX_AXES];
  int64_t image = row, begin, end;
  double count = 1;
  bool empty = false;
  for (int32_t axis = last - 1; axis >= 0; axis--) {
    int64_t o = image % w->out[axis];
    image /= w->out[axis];
    taps[axis] = window_taps_at(w, axis, o);
    count *= (double)pool_count(p, axis, o * w->stride[axis] - w->pad_begin[axis]);
    empty = empty || taps[axis].n == 0;
  }
  const float *x = job->x + image * p->in_plane * f->channels + channel;
  float *y = job->y + row * w->out[last] * f->channels + channel;
  if (line && !empty) join_taps(p, taps, last, f->channels, 1, x, f->channels, line, n, w->in[last], n);
  window_whole(w, last, &begin, &end);
  for (int64_t o = 0, pixels; o < w->out[last]; o += pixels) {
    taps[last] = window_taps_at(w, last, o);
    pixels = o >= begin && o < end && !empty ? end - o : 1;
    double taken = count * (double)pool_count(p, last, o * w->stride[last] - w->pad_begin[last]);
    reduce_pixels(f, taps, taken, x, line, y + o * f->channels, pixels, n);
  }
}

static void pool_rows(void *context, int64_t begin, int64_t end, int32_t worker) {
  const pixel_job *job = context;
  float *line = job->lines ? job->lines + worker * LINE_ELEMENTS : NULL;
  for (int64_t i = begin; i < end; i++) {
    int64_t channel = i % job->n_blocks * job->block, n = job->f->channels - channel;
    pool_row(job, i / job->n_blocks, channel, n < job->block ? n : job->block, line);
  }
}

/* True if the rows under a row of outputs are joined first, to a line, and that line's elements then: fewer taps. */
static bool joins_rows(const fast_pool *f) {
  const window *w = &f->p.w;
  const int32_t last = w->n - 1;
  const int64_t k = w->kernel[last] < w->in[last] ? w->kernel[last] : w->in[last], lines = f->p.taps / (k > 0 ? k : 1),
                columns = (w->in[last] + w->out[last] - 1) / w->out[last];
  return w->in[last] * CHANNELS_AT_LEAST <= LINE_ELEMENTS && f->p.taps >= LINE_GAIN * (lines * columns + k + columns);
}

static reed_status run_pixels(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  pixel_job job = {.f = f, .x = buffers->inputs[0], .y = buffers->outputs[0], .block = f->channels};
  int64_t rows = p->planes / f->channels * (p->out_plane / p->w.out[p->w.n - 1]);
  if (f->row_bytes) {
    job.lines = buffers->workspace;
    const int64_t most = LINE_ELEMENTS / p->w.in[p->w.n - 1];
    if (job.block > most) job.block = most & ~(int64_t)(CHANNELS_AT_LEAST - 1);
  }
  if (rows < p->team.threads) { /* as of a global pool */
    const int64_t share = f->channels / p->team.threads & ~(int64_t)(CHANNELS_AT_LEAST - 1);
    if (share < job.block) job.block = share;
  }
  if (job.block < CHANNELS_AT_LEAST) job.block = CHANNELS_AT_LEAST;
  job.n_blocks = (f->channels + job.block - 1) / job.block;
  return cpu_parallel_scratch(cpu_team_for(p->team, p->planes * p->out_plane * p->taps * 4), rows * job.n_blocks, 1,
                              pool_rows, &job);
}

/* True if a window is the whole plane, as a global pool's is. */
static bool is_whole_plane(const window *w) {
  for (int32_t axis = 0; axis < w->n; axis++)
    if (w->kernel[axis] != w->in[axis] || w->dilation[axis] != 1 || w->pad_begin[axis] || w->pad_end[axis])
      return false;
  return true;
}

static reed_status prepare(const cpu_view *view, pool_kind kind, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  fast_pool f = {.n_pieces = 1};
  pool_read(call, kind, &f.p);
  const bool power = f.p.power && !(kind == POOL_GLOBAL && f.p.power <= 2 && !view->last);
  if (power || f.p.in_plane == 0 || f.p.planes * f.p.out_plane == 0) return REED_OK;
  if (f.p.dtype != REED_F32 || f.p.with_indices || (kind != POOL_GLOBAL && !view->last && is_of_padding(&f.p.w)))
    return kind == POOL_GLOBAL || view->last ? REED_OK : pool_prepare_any(call, &f.p, out_kernel);
  f.channels = call->inputs[0].dims[1];
  if (!view->last && is_whole_plane(&f.p.w)) kind = POOL_GLOBAL;
  if (kind == POOL_GLOBAL) {
    f.piece = PLANE_PIECE;
    if (f.p.in_plane >= 2 * PLANE_PIECE) f.n_pieces = (f.p.in_plane + PLANE_PIECE - 1) / PLANE_PIECE;
  } else if (!view->last) {
    if (f.p.w.n == 1) join_planes(&f.p);
    divide_rows(&f);
  } else if (joins_rows(&f)) {
    f.row_bytes = LINE_ELEMENTS * (int64_t)sizeof(float);
  }
  void *state = mem_copy(&f, sizeof f);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, view->last ? run_pixels : kind == POOL_GLOBAL ? run_global : run_windows, state);
  if (kind != POOL_GLOBAL || view->last) out_kernel->workspace_bytes = f.row_bytes * f.p.team.threads;
  else if (f.n_pieces > 1) out_kernel->workspace_bytes = f.p.planes * f.n_pieces * (int64_t)sizeof(double);
  return REED_OK;
}

reed_status cpu_prepare_average_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_AVERAGE, out_kernel);
}

reed_status cpu_prepare_max_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_MAX, out_kernel);
}

reed_status cpu_prepare_global_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_GLOBAL, out_kernel);
}
