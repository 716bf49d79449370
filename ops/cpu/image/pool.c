/* AveragePool, MaxPool (ONNX opset 22) and the global pools for f32. The reference computes MaxPool's Indices, the
 * global Lp pools but those of magnitudes and squares, f64 and integers. Not here: LpPool (lp_pool.c).
 *
 * A window is a product of axes, so a row of outputs takes two steps: the input rows under it are reduced to one row
 * (contiguous, vectorised), then this row is reduced along its own axis; long rows are cut into pieces. A global pool's
 * large planes are, too: the length of a piece follows from the extents alone, and its result is one number. With
 * channels last, an output pixel is the reduction of its taps' channels side by side.
 *
 * The reference: reference/pool.c. The innermost loop: pool_loops.c. */
#include <math.h>

#include "ops/cpu/calls/pool.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/pool_loops.h"
#include "ops/cpu/views/view.h"

/* ---- rows ---- */

#define PIECE_WORK ((int64_t)1 << 20) /* of a piece of a long row of outputs */
#define TAP_WORK 4                    /* of a tap along the row; 1 of a tap of another axis */
#define PLANE_PIECE 32768             /* elements of a piece of a global pool's plane */

typedef struct fast_pool {
  pool p;
  int64_t channels;
  int64_t row_bytes;       /* of a thread's row in the workspace */
  int64_t piece, n_pieces; /* outputs of a row, or elements of a global pool's plane */
} fast_pool;

typedef struct pool_job {
  const fast_pool *f;
  const float *x;
  float *y;
  char *workspace;
} pool_job;

/* Reduces `width` columns of the input rows under the output row at leading position `lead` into `row`; `plane` is the
 * first of these columns. Returns the leading axes' share of the count. */
static double reduce_rows(const pool_job *job, const float *plane, int64_t width, const int64_t *lead, float *row) {
  const pool *p = &job->f->p;
  const window *w = &p->w;
  int32_t n_lead = w->n - 1;
  int64_t n_taps = 1;
  double count = 1;
  window_taps taps[WINDOW_MAX_AXES];
  for (int32_t axis = 0; axis < n_lead; axis++) {
    taps[axis] = window_taps_at(w, axis, lead[axis]);
    count *= (double)pool_count(p, axis, lead[axis] * w->stride[axis] - w->pad_begin[axis]);
    n_taps *= taps[axis].n;
  }
  for (int64_t tap = 0; tap < n_taps; tap++) {
    int64_t offset = 0;
    for (int64_t axis = n_lead - 1, rest = tap; axis >= 0; axis--) {
      offset += (taps[axis].start + rest % taps[axis].n * w->dilation[axis]) * p->in_stride[axis];
      rest /= taps[axis].n;
    }
    if (tap == 0) memcpy(row, plane + offset, (size_t)width * sizeof *row);
    else if (p->mean) CPU_PICK(job->f->p.level, add_rows)(plane + offset, row, width);
    else CPU_PICK(job->f->p.level, max_rows)(plane + offset, row, width);
  }
  float nothing = p->mean ? 0 : -__builtin_inff();
  for (int64_t i = 0; i < width && n_taps == 0; i++) row[i] = nothing;
  return count;
}

/* Output o of a row, tap by tap. row[0] is column `low` of the input. */
static float reduce_at(const pool *p, const float *row, int64_t low, double lead_count, int64_t o) {
  const window *w = &p->w;
  int32_t last = w->n - 1;
  window_taps taps = window_taps_at(w, last, o);
  float sum = 0, most = -__builtin_inff();
  for (int64_t t = 0; t < taps.n; t++) {
    float v = row[taps.start - low + t * w->dilation[last]];
    sum += v;
    most = most >= v || most != most ? most : v;
  }
  return p->mean ? sum / (float)(lead_count * (double)pool_count(p, last, o * w->stride[last] - w->pad_begin[last]))
                 : most;
}

/* Reduces the row along its axis to outputs first..after-1; those whose windows lie inside the input are computed
 * together. y[0] is output `first`. */
static void reduce_along(const pool *p, const float *row, int64_t low, double lead_count, int64_t first, int64_t after,
                         float *y) {
  const window *w = &p->w;
  int32_t last = w->n - 1;
  int64_t stride = w->stride[last], k = w->kernel[last], begin, end;
  window_whole(w, last, &begin, &end);
  begin = cpu_clamp(begin, first, after);
  end = cpu_clamp(end, begin, after);
  for (int64_t o = first; o < begin; o++) y[o - first] = reduce_at(p, row, low, lead_count, o);
  if (begin < end) CPU_PICK(p->level, pool_along)
  (p->mean, row + (begin * stride - w->pad_begin[last] - low), stride, w->dilation[last], k,
   1.0f / (float)(lead_count * (double)k), y + begin - first, end - begin);
  for (int64_t o = end; o < after; o++) y[o - first] = reduce_at(p, row, low, lead_count, o);
}

/* Pieces begin..end-1 of the rows of all planes' outputs; each worker has a row of workspace. */
static void pool_planes_rows(void *context, int64_t begin, int64_t end, int32_t worker) {
  const pool_job *job = context;
  const fast_pool *f = job->f;
  const pool *p = &f->p;
  const window *w = &p->w;
  const int32_t last = w->n - 1;
  const int64_t out = w->out[last], in = w->in[last], rows = p->out_plane / out;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i / f->n_pieces, first = i % f->n_pieces * f->piece,
                  after = out - first < f->piece ? out : first + f->piece,
                  low = cpu_clamp(first * w->stride[last] - w->pad_begin[last], 0, in),
                  high = cpu_clamp((after - 1) * w->stride[last] - w->pad_begin[last] +
                                       (w->kernel[last] - 1) * w->dilation[last] + 1,
                                   low, in);
    const float *row = job->x + at / rows * p->in_plane + low;
    double count = 1;
    if (last > 0) {
      int64_t lead[WINDOW_MAX_AXES] = {0};
      for (int64_t axis = last - 1, rest = at % rows; axis >= 0; axis--) {
        lead[axis] = rest % w->out[axis];
        rest /= w->out[axis];
      }
      float *reduced = (float *)(job->workspace + worker * f->row_bytes);
      count = reduce_rows(job, row, high - low, lead, reduced);
      row = reduced;
    }
    reduce_along(p, row, low, count, first, after, job->y + at * out + first);
  }
}

static reed_status run_windows(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  int64_t rows = p->planes * (p->out_plane / p->w.out[p->w.n - 1]);
  pool_job job = {.f = f, .x = buffers->inputs[0], .y = buffers->outputs[0], .workspace = buffers->workspace};
  return cpu_parallel_scratch(cpu_team_for(p->team, p->planes * p->out_plane * p->taps * 4), rows * f->n_pieces, 1,
                              pool_planes_rows, &job);
}

/* Divides long rows of outputs. If windows overlap, neighbouring pieces both reduce the columns of their border. */
static void divide_rows(fast_pool *f) {
  const window *w = &f->p.w;
  const int32_t last = w->n - 1;
  const int64_t k = w->kernel[last], stride = w->stride[last], out = w->out[last];
  int64_t lead = 1;
  for (int32_t axis = 0; axis < last; axis++) lead *= w->kernel[axis] < w->in[axis] ? w->kernel[axis] : w->in[axis];
  const int64_t in_row = k < w->in[last] ? k : w->in[last],
                work = (stride > 2 ? 8 : 1) * TAP_WORK * in_row +
                       (last > 0 ? lead * (stride < in_row ? stride : in_row) : 0),
                least = stride >= k ? 1
                        : last > 0  ? 4 * in_row / stride + 16
                                    : 256;
  f->piece = PIECE_WORK / work > least ? PIECE_WORK / work : least;
  if (f->piece > out || f->p.team.threads == 1) f->piece = out;
  f->n_pieces = (out + f->piece - 1) / f->piece;
}

/* ---- whole planes ---- */

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

#define TAPS_AT_ONCE 64 /* also how far floats are summed before sums are added to sums */
#define CHANNELS_AT_LEAST 64

typedef struct pixel_job {
  const pool *p;
  const float *x;
  float *y;
  int64_t channels, block, n_blocks; /* channels of an image; of one item of work; blocks in a row */
} pixel_job;

/* Reduces `pixels` neighbours of a row whose windows have the same taps `taps` as the first pixel's. x is the image's
 * start, y the first pixel's. */
static void reduce_pixels(const pixel_job *job, const window_taps *taps, double count, const float *x, float *y,
                          int64_t pixels, int64_t n) {
  const pool *p = job->p;
  const window *w = &p->w;
  int64_t at[WINDOW_MAX_AXES] = {0}, offsets[TAPS_AT_ONCE], left = 1;
  for (int32_t axis = 0; axis < w->n; axis++) left *= taps[axis].n;
  for (int64_t i = 0; i < n && left == 0; i++) y[i] = p->mean ? 0 : -__builtin_inff();
  for (bool first = true; left > 0; first = false) {
    int64_t batch = left < TAPS_AT_ONCE ? left : TAPS_AT_ONCE;
    for (int64_t k = 0; k < batch; k++) {
      int64_t offset = 0;
      for (int32_t axis = 0; axis < w->n; axis++)
        offset += (taps[axis].start + at[axis] * w->dilation[axis]) * p->in_stride[axis];
      offsets[k] = offset * job->channels;
      for (int32_t axis = w->n - 1; axis >= 0 && ++at[axis] == taps[axis].n; axis--) at[axis] = 0;
    }
    left -= batch;
    CPU_PICK(p->level, pool_taps)
    (p->mean, x, w->stride[w->n - 1] * job->channels, offsets, batch, first, left ? 1 : (float)(1 / count), y,
     job->channels, pixels, n);
  }
}

/* Channels channel..channel + n of a row of Y (rows are counted over images and leading axes). Pixels with all their
 * taps are computed together, unless no tap of the leading axes is inside the input. */
static void pool_row(const pixel_job *job, int64_t row, int64_t channel, int64_t n) {
  const pool *p = job->p;
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
  const float *x = job->x + image * p->in_plane * job->channels + channel;
  float *y = job->y + row * w->out[last] * job->channels + channel;
  window_whole(w, last, &begin, &end);
  for (int64_t o = 0, pixels; o < w->out[last]; o += pixels) {
    taps[last] = window_taps_at(w, last, o);
    pixels = o >= begin && o < end && !empty ? end - o : 1;
    double taken = count * (double)pool_count(p, last, o * w->stride[last] - w->pad_begin[last]);
    reduce_pixels(job, taps, taken, x, y + o * job->channels, pixels, n);
  }
}

static void pool_rows(void *context, int64_t begin, int64_t end) {
  const pixel_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t channel = i % job->n_blocks * job->block, n = job->channels - channel;
    pool_row(job, i / job->n_blocks, channel, n < job->block ? n : job->block);
  }
}

static reed_status run_pixels(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  pixel_job job = {
      .p = p, .x = buffers->inputs[0], .y = buffers->outputs[0], .channels = f->channels, .block = f->channels};
  int64_t rows = p->planes / f->channels * (p->out_plane / p->w.out[p->w.n - 1]);
  if (rows < p->team.threads)
    job.block = f->channels / p->team.threads & ~(int64_t)(CHANNELS_AT_LEAST - 1); /* a global pool */
  if (job.block < CHANNELS_AT_LEAST) job.block = CHANNELS_AT_LEAST;
  job.n_blocks = (f->channels + job.block - 1) / job.block;
  return cpu_parallel(cpu_team_for(p->team, p->planes * p->out_plane * p->taps * 4), rows * job.n_blocks, 1, pool_rows,
                      &job);
}

static reed_status prepare(const cpu_view *view, pool_kind kind, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  fast_pool f = {.n_pieces = 1};
  pool_read(call, kind, &f.p);
  const bool power = f.p.power && !(kind == POOL_GLOBAL && f.p.power <= 2 && !view->last);
  if (f.p.dtype != REED_F32 || f.p.with_indices || power || f.p.in_plane == 0 || f.p.planes * f.p.out_plane == 0)
    return REED_OK;
  f.channels = call->inputs[0].dims[1];
  f.row_bytes = (f.p.w.in[f.p.w.n - 1] * 4 + 63) & ~(int64_t)63;
  if (kind == POOL_GLOBAL) {
    f.piece = PLANE_PIECE;
    if (f.p.in_plane >= 2 * PLANE_PIECE) f.n_pieces = (f.p.in_plane + PLANE_PIECE - 1) / PLANE_PIECE;
  } else {
    divide_rows(&f);
  }
  void *state = mem_copy(&f, sizeof f);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, view->last ? run_pixels : kind == POOL_GLOBAL ? run_global : run_windows, state);
  if (view->last) return REED_OK;
  if (kind != POOL_GLOBAL) out_kernel->workspace_bytes = f.p.w.n > 1 ? f.row_bytes * f.p.team.threads : 0;
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
