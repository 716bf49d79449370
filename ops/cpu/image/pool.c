/* AveragePool, MaxPool (ONNX opset 22) and the global pools for f32. The reference computes MaxPool's Indices, Lp
 * pools, f64 and integers.
 *
 * A window is a product of axes, so a row of outputs takes two steps: the input rows under it are reduced to one row
 * (contiguous, vectorised), then this row is reduced along its own axis. With channels last, an output pixel is the
 * reduction of its taps' channels side by side.
 *
 * The reference: reference/pool.c. The innermost loop: pool_loops.c. */
#include "ops/cpu/calls/pool.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/pool_loops.h"
#include "ops/cpu/views/view.h"

/* ---- rows ---- */

typedef struct fast_pool {
  pool p;
  int64_t channels;
  int64_t row_bytes; /* of a thread's row in the workspace */
} fast_pool;

typedef struct pool_job {
  const fast_pool *f;
  const float *x;
  float *y;
  char *workspace;
} pool_job;

/* Reduces the input rows under the output row at leading position `lead` into `row`; returns the leading axes' share of
 * the count. */
static double reduce_rows(const pool_job *job, const float *plane, const int64_t *lead, float *row) {
  const pool *p = &job->f->p;
  const window *w = &p->w;
  int32_t n_lead = w->n - 1;
  int64_t width = w->in[n_lead], n_taps = 1;
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

/* Output o of a row, tap by tap. */
static float reduce_at(const pool *p, const float *row, double lead_count, int64_t o) {
  const window *w = &p->w;
  int32_t last = w->n - 1;
  window_taps taps = window_taps_at(w, last, o);
  float sum = 0, most = -__builtin_inff();
  for (int64_t t = 0; t < taps.n; t++) {
    float v = row[taps.start + t * w->dilation[last]];
    sum += v;
    most = most >= v || most != most ? most : v;
  }
  return p->mean ? sum / (float)(lead_count * (double)pool_count(p, last, o * w->stride[last] - w->pad_begin[last]))
                 : most;
}

/* Reduces the row along its axis; outputs whose windows lie inside the input are computed together. */
static void reduce_along(const pool *p, const float *row, double lead_count, float *y) {
  const window *w = &p->w;
  int32_t last = w->n - 1;
  int64_t stride = w->stride[last], k = w->kernel[last], out = w->out[last];
  int64_t begin, end;
  window_whole(w, last, &begin, &end);
  for (int64_t o = 0; o < begin; o++) y[o] = reduce_at(p, row, lead_count, o);
  if (begin < end) CPU_PICK(p->level, pool_along)
  (p->mean, row + begin * stride - w->pad_begin[last], stride, w->dilation[last], k,
   1.0f / (float)(lead_count * (double)k), y + begin, end - begin);
  for (int64_t o = end; o < out; o++) y[o] = reduce_at(p, row, lead_count, o);
}

/* Rows begin..end-1 of all planes' outputs; each worker has a row of workspace. */
static void pool_planes_rows(void *context, int64_t begin, int64_t end, int32_t worker) {
  const pool_job *job = context;
  const pool *p = &job->f->p;
  const window *w = &p->w;
  int64_t width = w->out[w->n - 1], rows = p->out_plane / width;
  float *row = (float *)(job->workspace + worker * job->f->row_bytes);
  for (int64_t i = begin; i < end; i++) {
    int64_t lead[WINDOW_MAX_AXES] = {0};
    for (int64_t axis = w->n - 2, rest = i % rows; axis >= 0; axis--) {
      lead[axis] = rest % w->out[axis];
      rest /= w->out[axis];
    }
    double count = reduce_rows(job, job->x + i / rows * p->in_plane, lead, row);
    reduce_along(p, row, count, job->y + i * width);
  }
}

static reed_status run_windows(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  const pool *p = &f->p;
  int64_t rows = p->planes * (p->out_plane / p->w.out[p->w.n - 1]);
  pool_job job = {f, buffers->inputs[0], buffers->outputs[0], buffers->workspace};
  return cpu_parallel_scratch(cpu_team_for(p->team, p->planes * p->out_plane * p->taps * 4), rows, 1, pool_planes_rows,
                              &job);
}

/* ---- whole planes ---- */

static void pool_planes(void *context, int64_t begin, int64_t end) {
  const pool_job *job = context;
  const pool *p = &job->f->p;
  for (int64_t i = begin; i < end; i++) {
    const float *x = job->x + i * p->in_plane;
    job->y[i] = p->mean ? (float)(CPU_PICK(job->f->p.level, sum_f32)(x, p->in_plane) / (double)p->in_plane)
                        : CPU_PICK(job->f->p.level, max_f32)(x, p->in_plane);
  }
}

static reed_status run_global(const void *state, const reed_kernel_buffers *buffers) {
  const fast_pool *f = state;
  pool_job job = {.f = f, .x = buffers->inputs[0], .y = buffers->outputs[0]};
  return cpu_parallel(cpu_team_for(f->p.team, f->p.planes * f->p.in_plane * 4), f->p.planes, 1, pool_planes, &job);
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
  fast_pool f;
  pool_read(call, kind, &f.p);
  if (f.p.dtype != REED_F32 || f.p.with_indices || f.p.power || f.p.in_plane == 0 || f.p.planes * f.p.out_plane == 0)
    return REED_OK;
  f.channels = call->inputs[0].dims[1];
  f.row_bytes = (f.p.w.in[f.p.w.n - 1] * 4 + 63) & ~(int64_t)63;
  void *state = mem_copy(&f, sizeof f);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, view->last ? run_pixels : kind == POOL_GLOBAL ? run_global : run_windows, state);
  if (!view->last && kind != POOL_GLOBAL) out_kernel->workspace_bytes = f.row_bytes * f.p.team.threads;
  return REED_OK;
}

reed_status cpu_prepare_average_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_AVERAGE, out_kernel);
}

reed_status cpu_prepare_max_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_MAX, out_kernel);
}

reed_status cpu_prepare_lp_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_LP, out_kernel);
}

reed_status cpu_prepare_global_pool(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, POOL_GLOBAL, out_kernel);
}
