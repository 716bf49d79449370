/* BatchNormalization (ONNX opset 15), InstanceNormalization (22), GroupNormalization (21), LayerNormalization (17) and
 * RMSNormalization (23) for f32. Statistics are sums of short runs of distances from an element, in float, added in
 * double. Of f64, in training and with repeated layer parameters: norm_double.c. Channels last: norm_last.c. The
 * reference: reference/norm.c. */
#include <math.h>

#include "ops/cpu/calls/norm.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/reduce/lines_double.h"
#include "ops/cpu/reduce/norm_last.h"
#include "ops/cpu/reduce/norm_loops.h"
#include "ops/cpu/reduce/short_rows.h"
#include "ops/cpu/views/view.h"

/* Elements of a long row or plane that are taken at a time; fixed, so that results do not depend on the number of
 * threads. */
#define PIECE 16384
#define SHORT_PLANE 64     /* elements: planes of given statistics are taken many at a time below it */
#define PLANES_AT_ONCE 256 /* then */
#define RESULT_WORK 64     /* of a number that is written of each stretch, in cpu_team_for's count */

typedef struct norm_job {
  const norm *n;
  const reed_kernel_buffers *buffers;
  norm_kind kind;
  int64_t stretch, n_pieces; /* elements that share their statistics, or a plane of given ones; its pieces */
  double *sums, *squares;    /* [stretch][piece], the workspace */
  double *means, *factors;   /* of stretches */
  bool second;               /* pass: with the squares */
} norm_job;

/* y = (x - centre) * a + b and the activation over a plane of any size, in blocks that stay in the first-level cache.
 */
static void scale_plane(const norm *n, const float *x, double centre, double a, double b, float *y, int64_t size) {
  enum { BLOCK = 4096 };
  b += ((double)(float)centre - centre) * a;
  for (int64_t i = 0; i < size; i += BLOCK) {
    int64_t count = size - i < BLOCK ? size - i : BLOCK;
    CPU_PICK(n->level, scale_shift)(x + i, (float)centre, (float)a, (float)b, y + i, count);
    activation_row(&n->after, y + i, count);
  }
}

/* Part of plane `plane` of (outer, channel) with given statistics. */
static void batch_plane(const norm_job *job, int64_t plane, int64_t first, int64_t size) {
  const norm *n = job->n;
  int64_t c = plane % n->channels, at = plane * n->inner + first;
  double a = norm_parameter(n, job->buffers, 1, c) / sqrt(norm_parameter(n, job->buffers, 4, c) + n->epsilon);
  scale_plane(n, (const float *)job->buffers->inputs[0] + at, norm_parameter(n, job->buffers, 3, c), a,
              norm_parameter(n, job->buffers, 2, c), (float *)job->buffers->outputs[0] + at, size);
}

/* Planes from `plane` on of (outer, channel), count <= PLANES_AT_ONCE, each `per` of which share a mean and a factor.
 */
static void instance_planes(const norm_job *job, int64_t plane, int64_t count, int64_t per, const double *means,
                            const double *factors) {
  const norm *n = job->n;
  const float *scales = n->parameters[1] == REED_F32 ? job->buffers->inputs[1] : NULL,
              *shifts = n->parameters[2] == REED_F32 ? job->buffers->inputs[2] : NULL;
  float centre[PLANES_AT_ONCE], a[PLANES_AT_ONCE], b[PLANES_AT_ONCE];
  for (int64_t i = 0, of = 0, left = per, c = plane % n->channels; i < count; i++) {
    const int64_t at = norm_parameter_of(n, c);
    const double factor = (scales ? (double)scales[at] : norm_parameter(n, job->buffers, 1, at)) * factors[of],
                 shift = shifts ? (double)shifts[at] : norm_parameter(n, job->buffers, 2, at);
    centre[i] = (float)means[of];
    a[i] = (float)factor;
    b[i] = (float)(shift + ((double)centre[i] - means[of]) * factor);
    if (--left == 0) left = per, of++;
    if (++c == n->channels) c = 0;
  }
  const int64_t first = plane * n->inner;
  float *y = (float *)job->buffers->outputs[0] + first;
  CPU_PICK(n->level, scale_shift_planes)
  ((const float *)job->buffers->inputs[0] + first, centre, a, b, n->inner, y, count);
  activation_row(&n->after, y, count * n->inner);
}

/* Part of stretch i of (outer, channels that share their statistics). */
static void instance_stretch(const norm_job *job, int64_t i, int64_t first, int64_t size, double mean, double factor) {
  const norm *n = job->n;
  int64_t begin = i * n->shared * n->inner;
  for (int64_t k = first / n->inner, end = first + size; k * n->inner < end; k++) {
    const int64_t whole = k * n->inner < first || n->inner >= SHORT_PLANE ? 0 : end / n->inner - k;
    if (whole > 1) {
      const int64_t count = whole < PLANES_AT_ONCE ? whole : PLANES_AT_ONCE;
      instance_planes(job, i * n->shared + k, count, count, &mean, &factor);
      k += count - 1;
      continue;
    }
    int64_t from = k * n->inner > first ? k * n->inner : first,
            to = (k + 1) * n->inner < end ? (k + 1) * n->inner : end,
            at = norm_parameter_of(n, i * n->shared % n->channels + k);
    scale_plane(n, (const float *)job->buffers->inputs[0] + begin + from, mean,
                norm_parameter(n, job->buffers, 1, at) * factor, norm_parameter(n, job->buffers, 2, at),
                (float *)job->buffers->outputs[0] + begin + from, to - from);
  }
}

/* Part of row i. */
static void layer_row(const norm_job *job, int64_t i, int64_t first, int64_t size, double mean, double factor) {
  const norm *n = job->n;
  const float *scale = job->buffers->inputs[1], *shift = n->parameters[2] != REED_NONE ? job->buffers->inputs[2] : NULL;
  float *y = (float *)job->buffers->outputs[0] + i * n->inner + first;
  CPU_PICK(n->level, normalize_row)
  ((const float *)job->buffers->inputs[0] + i * n->inner + first, mean, factor, scale + first,
   shift ? shift + first : NULL, y, size);
  activation_row(&n->after, y, size);
}

static bool is_of_rows(const norm_job *job) { return job->kind == NORM_LAYER || job->kind == NORM_RMS; }

/* The factor of stretch i, whose optional outputs are written; a row's *mean may become 0. */
static double take_factor(const norm_job *job, int64_t i, double *mean, double variance) {
  if (!is_of_rows(job)) return norm_factor(job->n, variance);
  double factor = norm_row_factor(job->n, mean, variance);
  norm_row_results(job->n, job->buffers, i, *mean, factor);
  return factor;
}

static void apply_part(const norm_job *job, int64_t i, int64_t first, int64_t size, double mean, double factor) {
  if (job->kind == NORM_BATCH) batch_plane(job, i, first, size);
  else if (is_of_rows(job)) layer_row(job, i, first, size, mean, factor);
  else instance_stretch(job, i, first, size, mean, factor);
}

/* ---- whole stretches ---- */

static bool is_of_short_planes(const norm_job *job) {
  const norm *n = job->n;
  for (int i = 1; i < 5; i++)
    if (job->kind != NORM_BATCH || n->parameters[i] != REED_F32) return false;
  return n->inner < SHORT_PLANE;
}

/* Planes begin..end-1 of (outer, channel) with given statistics. */
static void batch_planes(const norm_job *job, int64_t begin, int64_t end) {
  const norm *n = job->n;
  const void *const *inputs = job->buffers->inputs;
  const float *x = inputs[0], *scale = inputs[1], *shift = inputs[2], *centre = inputs[3], *variance = inputs[4];
  float *y = job->buffers->outputs[0], factors[PLANES_AT_ONCE];
  for (int64_t i = begin, count; i < end; i += count) {
    const int64_t c = i % n->channels, left = n->channels - c < end - i ? n->channels - c : end - i;
    count = left < PLANES_AT_ONCE ? left : PLANES_AT_ONCE;
    memcpy(factors, scale + c, (size_t)count * sizeof *factors);
    CPU_PICK(n->level, batch_factors)(variance + c, n->epsilon, factors, count);
    CPU_PICK(n->level, scale_shift_planes)
    (x + i * n->inner, centre + c, factors, shift + c, n->inner, y + i * n->inner, count);
    activation_row(&n->after, y + i * n->inner, count * n->inner);
  }
}

/* Squares of a row that have not left the range of float. */
static bool is_in_range(double squares, double variance) { return squares < 1e37 && variance > 1e-30; }

/* Of RMSNormalization the variance around 0, which its row factor takes, too, unless squares leave the range of float.
 */
static void take_moments(const norm_job *job, const float *x, double *mean, double *variance) {
  if (!job->n->centred) {
    double unused, squares;
    CPU_PICK(job->n->level, sum_squares_f32)(x, 0, job->stretch, &unused, &squares);
    *mean = 0;
    *variance = squares / (double)job->stretch;
    if (is_in_range(squares, *variance)) return;
  }
  CPU_PICK(job->n->level, moments)(x, job->stretch, mean, variance);
}

/* Stretches begin..end-1 of at most SHORT_ROW elements, none of batch normalisation. */
static void short_stretches(const norm_job *job, int64_t begin, int64_t end) {
  const norm *n = job->n;
  const bool writes = n->results[1] != REED_NONE || n->results[2] != REED_NONE;
  double means[PLANES_AT_ONCE], factors[PLANES_AT_ONCE]; /* PLANES_AT_ONCE: a multiple of NORM_ROWS_STEP */
  for (int64_t i = begin, count; i < end; i += count) {
    const int64_t most = PLANES_AT_ONCE / (is_of_rows(job) ? 1 : n->shared), size = job->stretch;
    count = end - i < most ? end - i : most;
    const float *x = (const float *)job->buffers->inputs[0] + i * size;
    CPU_PICK(n->level, short_moments)(n->centred, x, size, count, means, factors);
    for (int64_t k = 0; k < count && !n->centred; k++)
      if (!is_in_range(factors[k] * (double)size, factors[k])) {
        CPU_PICK(n->level, moments)(x + k * size, size, &means[k], &factors[k]);
        factors[k] += means[k] * means[k];
        means[k] = 0;
      }
    CPU_PICK(n->level, norm_factors)(factors, n->epsilon, count);
    for (int64_t k = 0; k < count && writes; k++) norm_row_results(n, job->buffers, i + k, means[k], factors[k]);
    if (!is_of_rows(job)) {
      instance_planes(job, i * n->shared, count * n->shared, n->shared, means, factors);
      continue;
    }
    float *y = (float *)job->buffers->outputs[0] + i * size;
    CPU_PICK(n->level, normalize_short_rows)
    (x, size, count, means, factors, job->buffers->inputs[1],
     n->parameters[2] != REED_NONE ? job->buffers->inputs[2] : NULL, y);
    activation_row(&n->after, y, count * size);
  }
}

static void stretches(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  if (is_of_short_planes(job)) {
    batch_planes(job, begin, end);
    return;
  }
  if (job->kind != NORM_BATCH && job->stretch <= SHORT_ROW) {
    short_stretches(job, begin, end);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    double mean = 0, variance = 0, factor = 0;
    const float *x = (const float *)job->buffers->inputs[0] + i * job->stretch;
    if (job->kind != NORM_BATCH) {
      take_moments(job, x, &mean, &variance);
      factor = take_factor(job, i, &mean, variance);
    }
    apply_part(job, i, 0, job->stretch, mean, factor);
  }
}

/* ---- long stretches, by pieces ---- */

static int64_t piece_size(const norm_job *job, int64_t first) {
  return job->stretch - first < PIECE ? job->stretch - first : PIECE;
}

static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p / job->n_pieces, first = p % job->n_pieces * PIECE, size = piece_size(job, first);
    const float *x = (const float *)job->buffers->inputs[0] + i * job->stretch + first;
    float centre = (float)job->means[i];
    if (job->second) CPU_PICK(job->n->level, sum_squares_f32)(x, centre, size, &job->sums[p], &job->squares[p]);
    else job->sums[p] = CPU_PICK(job->n->level, sum_around_f32)(x, centre, size);
  }
}

static void apply_pieces(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p / job->n_pieces, first = p % job->n_pieces * PIECE;
    apply_part(job, i, first, piece_size(job, first), job->sums ? job->means[i] : 0, job->sums ? job->factors[i] : 0);
  }
}

static double mean_of_pieces(const norm_job *job, const double *sums, int64_t i) {
  double sum = 0;
  for (int64_t k = 0; k < job->n_pieces; k++) sum += sums[i * job->n_pieces + k];
  return sum / (double)job->stretch;
}

/* The statistics of n stretches, in two passes as `moments` takes them. */
static reed_status take_statistics(norm_job *job, int64_t n, cpu_team team) {
  const float *x = job->buffers->inputs[0];
  for (int64_t i = 0; i < n; i++) job->means[i] = (double)x[i * job->stretch];
  job->second = false;
  reed_status status = cpu_parallel(team, n * job->n_pieces, 1, sum_pieces, job);
  if (status != REED_OK) return status;
  for (int64_t i = 0; i < n; i++) job->means[i] = (double)(float)(job->means[i] + mean_of_pieces(job, job->sums, i));
  job->second = true;
  status = cpu_parallel(team, n * job->n_pieces, 1, sum_pieces, job);
  if (status != REED_OK) return status;
  for (int64_t i = 0; i < n; i++) {
    double off = mean_of_pieces(job, job->sums, i);
    job->means[i] += off;
    job->factors[i] = take_factor(job, i, &job->means[i], mean_of_pieces(job, job->squares, i) - off * off);
  }
  return REED_OK;
}

/* ---- the call ---- */

/* Elements that share their statistics, or a plane of given ones. */
static int64_t stretch_of(const norm *n, norm_kind kind) {
  return kind == NORM_BATCH ? n->inner : n->shared * n->inner;
}
static int64_t pieces_of(int64_t stretch) { return stretch > 2 * PIECE ? (stretch + PIECE - 1) / PIECE : 1; }

static reed_status run(const norm *n, norm_kind kind, const reed_kernel_buffers *buffers) {
  norm_job job = {.n = n, .buffers = buffers, .kind = kind, .stretch = stretch_of(n, kind)};
  int64_t total = n->outer * n->channels * n->inner, stretches_n = total / job.stretch;
  const int64_t results = (n->results[1] != REED_NONE) + (n->results[2] != REED_NONE);
  cpu_team team = cpu_team_for(n->team, total * 8 + stretches_n * (WORK_PER_ROW + results * RESULT_WORK));
  job.n_pieces = pieces_of(job.stretch);
  if (job.n_pieces == 1) return cpu_parallel(team, stretches_n, 1, stretches, &job);
  if (kind != NORM_BATCH) {
    job.sums = buffers->workspace;
    job.squares = job.sums + stretches_n * job.n_pieces;
    job.means = job.squares + stretches_n * job.n_pieces;
    job.factors = job.means + stretches_n;
    reed_status status = take_statistics(&job, stretches_n, team);
    if (status != REED_OK) return status;
  }
  return cpu_parallel(team, stretches_n * job.n_pieces, 1, apply_pieces, &job);
}

static reed_status run_batch(const void *state, const reed_kernel_buffers *buffers) {
  return run(state, NORM_BATCH, buffers);
}
static reed_status run_instance(const void *state, const reed_kernel_buffers *buffers) {
  return run(state, NORM_INSTANCE, buffers);
}
static reed_status run_layer(const void *state, const reed_kernel_buffers *buffers) {
  return run(state, NORM_LAYER, buffers);
}

static reed_status prepare(const cpu_view *view, norm_kind kind, reed_kernel_run_fn run_kind, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  norm n;
  reed_status status = norm_read(call, kind, &n);
  if (status != REED_OK) return status;
  bool fast = n.dtype == REED_F32 && !n.training && ((kind != NORM_LAYER && kind != NORM_RMS) || n.plain) &&
              desc_elements(&call->inputs[0]) > 0;
  if (!fast) return view->last ? REED_OK : norm_prepare_double(call, kind, &n, out_kernel);
  const bool of_rows = kind == NORM_BATCH && n.inner == 1; /* a channel has one element an image */
  if (view->last || of_rows) return norm_prepare_last(call, kind, &n, out_kernel);
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_kind, state);
  int64_t stretch = stretch_of(&n, kind), pieces = pieces_of(stretch);
  if (kind != NORM_BATCH && pieces > 1)
    out_kernel->workspace_bytes = n.outer * n.channels * n.inner / stretch * (2 * pieces + 2) * (int64_t)sizeof(double);
  return REED_OK;
}

reed_status cpu_prepare_batch_norm(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, NORM_BATCH, run_batch, out_kernel);
}

reed_status cpu_prepare_instance_norm(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, NORM_INSTANCE, run_instance, out_kernel);
}

reed_status cpu_prepare_layer_norm(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, NORM_LAYER, run_layer, out_kernel);
}

reed_status cpu_prepare_group_norm(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, NORM_GROUP, run_instance, out_kernel);
}

reed_status cpu_prepare_rms_norm(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, NORM_RMS, run_layer, out_kernel);
}
