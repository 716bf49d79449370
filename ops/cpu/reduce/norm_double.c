/* The normalisations computed in double: of f64, BatchNormalization in training, LayerNormalization and
 * RMSNormalization with repeated parameters. The pieces of all stretches, which are the elements that share their
 * statistics, are shared out in three passes: the sums, the squares of distances from the mean, the results; sums are
 * added piece by piece. The other calls of f32: norm.c. The reference: reference/norm.c. */
#include "ops/cpu/reduce/lines_double.h"
#include "ops/cpu/reduce/norm_loops.h"
#include "ops/cpu/reduce/short_rows.h"

#define SHORT_RUN 16 /* calls with shorter runs are left to the reference, which walks them faster */

typedef struct double_norm {
  norm n;
  norm_kind kind;
  int64_t n_stretches, stretch, n_pieces; /* elements of a stretch, and its pieces */
  int64_t run, step;                      /* a stretch is runs of so many elements that begin `step` apart */
  int64_t each;                           /* the distance of a run's elements */
} double_norm;

typedef struct double_job {
  const double_norm *d;
  const reed_kernel_buffers *buffers;
  double *sums;            /* [stretch][piece], the workspace */
  double *means, *factors; /* of stretches */
  bool squares;            /* pass: of distances from the mean, instead of elements */
} double_job;

/* Elements first..first+n-1 of a run; the first is at `at` in memory. */
typedef struct part {
  int64_t stretch, at, first, n;
} part;

static int64_t piece_begin(const double_norm *d, int64_t p) { return p % d->n_pieces * DOUBLE_PIECE; }
static int64_t piece_end(const double_norm *d, int64_t p) {
  int64_t end = piece_begin(d, p) + DOUBLE_PIECE;
  return end < d->stretch ? end : d->stretch;
}

/* The part of piece p that begins with element `from` of its stretch. */
static part part_at(const double_norm *d, int64_t p, int64_t from) {
  int64_t stretch = p / d->n_pieces, end = piece_end(d, p), left = d->run - from % d->run;
  int64_t base = d->kind == NORM_BATCH ? stretch * d->n.inner : stretch * d->stretch;
  return (part){stretch, base + from / d->run * d->step + from % d->run * d->each, from,
                left < end - from ? left : end - from};
}

/* Elements `each` apart. Four sums at a time, because an addition waits for the one before it. */
#define SUM_LOOP(T, name) \
  static double name(const T *x, int64_t n, int64_t each, double mean, bool squares) { \
    double sums[4] = {0, 0, 0, 0}; \
    int64_t i = 0; \
    if (squares) \
      for (; i + 4 <= n; i += 4) \
        for (int k = 0; k < 4; k++) \
          sums[k] += ((double)x[(i + k) * each] - mean) * ((double)x[(i + k) * each] - mean); \
    else \
      for (; i + 4 <= n; i += 4) \
        for (int k = 0; k < 4; k++) sums[k] += (double)x[(i + k) * each]; \
    for (; i < n; i++) \
      sums[0] += squares ? ((double)x[i * each] - mean) * ((double)x[i * each] - mean) : (double)x[i * each]; \
    return sums[0] + sums[1] + (sums[2] + sums[3]); \
  }
SUM_LOOP(float, sum_apart_f32)
SUM_LOOP(double, sum_apart_f64)

/* The sum of n elements from x on, or of the squares of their distances from the mean. */
static double sum_run(const double_job *job, const void *x, int64_t n, double mean) {
  const double_norm *d = job->d;
  const bool is_f32 = d->n.dtype == REED_F32;
  if (d->each == 1)
    return is_f32 ? CPU_PICK(d->n.level, double_sum_f32)(x, n, mean, job->squares)
                  : CPU_PICK(d->n.level, double_sum_f64)(x, n, mean, job->squares);
  return is_f32 ? sum_apart_f32(x, n, d->each, mean, job->squares) : sum_apart_f64(x, n, d->each, mean, job->squares);
}

static void sum_pieces(void *context, int64_t begin, int64_t end) {
  const double_job *job = context;
  const double_norm *d = job->d;
  for (int64_t p = begin; p < end; p++) {
    double sum = 0;
    for (int64_t from = piece_begin(d, p); from < piece_end(d, p);) {
      part at = part_at(d, p, from);
      double mean = job->squares ? job->means[at.stretch] : 0;
      sum += sum_run(job, (const char *)job->buffers->inputs[0] + (size_t)at.at * reed_dtype_bytes(d->n.dtype), at.n,
                     mean);
      from += at.n;
    }
    job->sums[p] = sum;
  }
}

static double mean_of_pieces(const double_job *job, int64_t stretch) {
  const double_norm *d = job->d;
  double sum = 0;
  for (int64_t k = 0; k < d->n_pieces; k++) sum += job->sums[stretch * d->n_pieces + k];
  return sum / (double)d->stretch;
}

static void join_sums(void *context, int64_t begin, int64_t end) {
  const double_job *job = context;
  for (int64_t i = begin; i < end; i++) job->means[i] = mean_of_pieces(job, i);
}

/* The factors of stretches, from their variances, and the call's other outputs. */
static void join_squares(void *context, int64_t begin, int64_t end) {
  const double_job *job = context;
  const norm *n = &job->d->n;
  for (int64_t i = begin; i < end; i++) {
    double variance = mean_of_pieces(job, i);
    if (job->d->kind == NORM_BATCH) {
      double mean = norm_parameter(n, job->buffers, 3, i), old = norm_parameter(n, job->buffers, 4, i);
      norm_result(n, job->buffers, 1, i, mean * n->momentum + job->means[i] * (1 - n->momentum));
      norm_result(n, job->buffers, 2, i, old * n->momentum + variance * (1 - n->momentum));
    }
    bool of_rows = job->d->kind == NORM_LAYER || job->d->kind == NORM_RMS;
    job->factors[i] = of_rows ? norm_row_factor(n, &job->means[i], variance) : norm_factor(n, variance);
    if (of_rows) norm_row_results(n, job->buffers, i, job->means[i], job->factors[i]);
  }
}

/* The statistics of BatchNormalization's inputs. */
static void take_given(void *context, int64_t begin, int64_t end) {
  const double_job *job = context;
  for (int64_t i = begin; i < end; i++) {
    job->means[i] = norm_parameter(&job->d->n, job->buffers, 3, i);
    job->factors[i] = norm_factor(&job->d->n, norm_parameter(&job->d->n, job->buffers, 4, i));
  }
}

static double read_x(const double_job *job, int64_t i) {
  return job->d->n.dtype == REED_F32 ? (double)((const float *)job->buffers->inputs[0])[i]
                                     : ((const double *)job->buffers->inputs[0])[i];
}

static void write_y(const double_job *job, int64_t i, double value) {
  value = activation_at(&job->d->n.after, value);
  if (job->d->n.dtype == REED_F32) ((float *)job->buffers->outputs[0])[i] = (float)value;
  else ((double *)job->buffers->outputs[0])[i] = value;
}

/* y = (x - mean) * factor * scale + shift with one scale and shift, of elements `each` apart. */
#define SCALE_LOOP(T, name) \
  static void name(const T *x, int64_t n, int64_t each, double mean, double factor, double scale, double shift, \
                   T *y) { \
    for (int64_t i = 0; i < n; i++) y[i * each] = (T)(((double)x[i * each] - mean) * factor * scale + shift); \
  }
SCALE_LOOP(float, scale_apart_f32)
SCALE_LOOP(double, scale_apart_f64)

/* With those of each element; shift NULL: 0. */
static void scale_each(const double *x, int64_t n, double mean, double factor, const double *scale, const double *shift,
                       double *y) {
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * scale[i] + (shift ? shift[i] : 0);
}

/* n elements from `at` on, `each` apart, with one scale and shift. */
static void apply_plane(const double_job *job, int64_t at, int64_t n, int64_t stretch, int64_t channel) {
  const norm *m = &job->d->n;
  const void *x = job->buffers->inputs[0];
  void *y = job->buffers->outputs[0];
  int64_t each = job->d->each;
  double mean = job->means[stretch], factor = job->factors[stretch],
         scale = norm_parameter(m, job->buffers, 1, channel), shift = norm_parameter(m, job->buffers, 2, channel);
  if (m->after.kind != ACTIVATION_NONE)
    for (int64_t i = at; i < at + n * each; i += each)
      write_y(job, i, (read_x(job, i) - mean) * factor * scale + shift);
  else if (m->dtype == REED_F32 && each == 1)
    CPU_PICK(m->level, double_scale_f32)((const float *)x + at, n, mean, factor, scale, shift, (float *)y + at);
  else if (m->dtype == REED_F32)
    scale_apart_f32((const float *)x + at, n, each, mean, factor, scale, shift, (float *)y + at);
  else if (each == 1)
    CPU_PICK(m->level, double_scale_f64)((const double *)x + at, n, mean, factor, scale, shift, (double *)y + at);
  else scale_apart_f64((const double *)x + at, n, each, mean, factor, scale, shift, (double *)y + at);
}

/* A part of one channel, or of a group's planes. */
static void apply_planes(const double_job *job, part p) {
  const norm *n = &job->d->n;
  if (job->d->kind == NORM_BATCH) {
    apply_plane(job, p.at, p.n, p.stretch, p.stretch);
    return;
  }
  for (int64_t i = p.at, end = p.at + p.n; i < end;) {
    int64_t plane = i / n->inner, next = (plane + 1) * n->inner < end ? (plane + 1) * n->inner : end;
    apply_plane(job, i, next - i, p.stretch, norm_parameter_of(n, plane % n->channels));
    i = next;
  }
}

/* A part of a row, whose parameters may be repeated. */
static void apply_row(const double_job *job, part p) {
  const norm *n = &job->d->n;
  double mean = job->means[p.stretch], factor = job->factors[p.stretch];
  bool shifts = n->parameters[2] != REED_NONE;
  if (n->dtype == REED_F64 && n->plain && n->after.kind == ACTIVATION_NONE && n->parameters[1] == REED_F64 &&
      (!shifts || n->parameters[2] == REED_F64)) {
    const double *x = job->buffers->inputs[0], *scale = job->buffers->inputs[1], *shift = job->buffers->inputs[2];
    scale_each(x + p.at, p.n, mean, factor, scale + p.first, shifts ? shift + p.first : NULL,
               (double *)job->buffers->outputs[0] + p.at);
    return;
  }
  for (int64_t i = 0; i < p.n; i++) {
    int64_t scale_at = p.first + i, shift_at = scale_at, rest = scale_at;
    if (!n->plain) scale_at = shift_at = 0;
    for (int32_t axis = n->rank - 1; axis >= 0 && !n->plain; axis--) {
      scale_at += rest % n->dims[axis] * n->scale_strides[axis];
      shift_at += rest % n->dims[axis] * n->shift_strides[axis];
      rest /= n->dims[axis];
    }
    double shift = shifts ? norm_parameter(n, job->buffers, 2, shift_at) : 0;
    write_y(job, p.at + i,
            (read_x(job, p.at + i) - mean) * factor * norm_parameter(n, job->buffers, 1, scale_at) + shift);
  }
}

static void apply_pieces(void *context, int64_t begin, int64_t end) {
  const double_job *job = context;
  const double_norm *d = job->d;
  for (int64_t p = begin; p < end; p++)
    for (int64_t from = piece_begin(d, p); from < piece_end(d, p);) {
      part at = part_at(d, p, from);
      if (d->kind == NORM_LAYER || d->kind == NORM_RMS) apply_row(job, at);
      else apply_planes(job, at);
      from += at.n;
    }
}

static reed_status run_double(const void *state, const reed_kernel_buffers *buffers) {
  const double_norm *d = state;
  int64_t n = d->n_stretches * d->n_pieces;
  double_job job = {.d = d, .buffers = buffers, .sums = buffers->workspace};
  job.means = job.sums + n;
  job.factors = job.means + d->n_stretches;
  const int64_t elements = d->n_stretches * d->stretch;
  cpu_team team = cpu_team_for(d->n.team, elements * (d->each > 1 ? 48 : 16) + elements / d->run * WORK_PER_ROW),
           joining = cpu_team_for(d->n.team, n * 16 + d->n_stretches * 256);
  reed_status status = REED_OK;
  if (d->kind == NORM_BATCH && !d->n.training) {
    status = cpu_parallel(joining, d->n_stretches, 1, take_given, &job);
  } else {
    status = cpu_parallel(team, n, 1, sum_pieces, &job);
    if (status == REED_OK) status = cpu_parallel(joining, d->n_stretches, 1, join_sums, &job);
    job.squares = true;
    if (status == REED_OK) status = cpu_parallel(team, n, 1, sum_pieces, &job);
    if (status == REED_OK) status = cpu_parallel(joining, d->n_stretches, 1, join_squares, &job);
  }
  return status == REED_OK ? cpu_parallel(team, n, 1, apply_pieces, &job) : status;
}

reed_status norm_prepare_double(const reed_kernel_call *call, norm_kind kind, const norm *n, reed_kernel *out_kernel) {
  double_norm d = {.n = *n, .kind = kind};
  int64_t total = n->outer * n->channels * n->inner;
  if ((n->dtype != REED_F32 && n->dtype != REED_F64) || total == 0) return REED_OK;
  d.stretch = kind == NORM_BATCH ? n->outer * n->inner : n->shared * n->inner;
  d.n_stretches = total / d.stretch;
  d.n_pieces = (d.stretch + DOUBLE_PIECE - 1) / DOUBLE_PIECE;
  d.run = kind == NORM_BATCH && n->inner > 1 ? n->inner : d.stretch;
  d.step = n->channels * n->inner;
  d.each = kind == NORM_BATCH && n->inner == 1 ? n->channels : 1;
  if (d.run < SHORT_RUN && d.run < d.stretch) return REED_OK;
  void *state = mem_copy(&d, sizeof d);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_double, state);
  out_kernel->workspace_bytes = d.n_stretches * (d.n_pieces + 2) * (int64_t)sizeof(double);
  return REED_OK;
}
