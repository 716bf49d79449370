/* Batch, instance and group normalisation of f32 images with channels last: y = (x - centre) * factor + shift, with
 * numbers of each channel, and the activation, pixel by pixel. Statistics are sums of short runs in float, added in
 * double, in two passes. The first gives a centre that is off the mean by a few roundings of an element; the second
 * sums distances from it, which correct the mean, and their squares. Of large, nearly equal elements these are small
 * multiples of an element's last bit, and their sums are exact. Channels second: norm.c. */
#include "ops/cpu/reduce/norm_last.h"

#include <math.h>

#include "ops/cpu/common/rows_loops.h"

#define PIXELS_AT_ONCE 64

typedef struct last_norm {
  norm n;
  bool given; /* batch: the statistics are inputs */
} last_norm;

/* The workspace: numbers of every channel, and each range's sums. */
typedef struct columns {
  float *centre, *factor, *shift;
  double *sums, *squares;                /* [range][channel] */
  float *partial_sums, *partial_squares; /* [range][channel] */
} columns;

typedef struct last_job {
  const norm *n;
  const float *x;
  float *y;
  columns at;
  int64_t n_ranges; /* of pixels */
  bool second;      /* pass: with the squares */
} last_job;

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* Places for up to n_ranges ranges from `at` (NULL: only measures); gives the bytes. */
static int64_t lay_columns(const norm *n, int64_t n_ranges, char *at, columns *out) {
  int64_t used = 0;
  struct {
    int64_t bytes;
    void **place;
  } parts[] = {{n->channels * 4, (void **)&out->centre},
               {n->channels * 4, (void **)&out->factor},
               {n->channels * 4, (void **)&out->shift},
               {n->channels * 8 * n_ranges, (void **)&out->sums},
               {n->channels * 8 * n_ranges, (void **)&out->squares},
               {n->channels * 4 * n_ranges, (void **)&out->partial_sums},
               {n->channels * 4 * n_ranges, (void **)&out->partial_squares}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (at) *parts[i].place = at + used;
    used += aligned(parts[i].bytes);
  }
  return used;
}

static int64_t range_begin(const last_job *job, int64_t range) { return job->n->inner * range / job->n_ranges; }

/* Sums every channel over a range's pixels, as shares of PIXELS_AT_ONCE of them so that no sum is too large for float;
 * in the second pass its distances from the centre, and their squares. */
static void sum_ranges(void *context, int64_t begin, int64_t end) {
  const last_job *job = context;
  int64_t channels = job->n->channels;
  size_t bytes = (size_t)channels * sizeof(float);
  for (int64_t range = begin; range < end; range++) {
    double *sums = job->at.sums + range * channels, *squares = job->at.squares + range * channels;
    float *partial_sums = job->at.partial_sums + range * channels,
          *partial_squares = job->at.partial_squares + range * channels;
    int64_t first = range_begin(job, range), last = range_begin(job, range + 1);
    for (int64_t c = 0; c < channels; c++) sums[c] = squares[c] = 0;
    for (int64_t i = first; i < last && !cpu_cancelled(&job->n->team); i += PIXELS_AT_ONCE) {
      int64_t pixels = last - i < PIXELS_AT_ONCE ? last - i : PIXELS_AT_ONCE;
      const float *x = job->x + i * channels;
      memset(partial_sums, 0, bytes);
      if (job->second) {
        memset(partial_squares, 0, bytes);
        CPU_PICK(job->n->level, add_moments)(x, job->at.centre, pixels, partial_sums, partial_squares, channels);
        for (int64_t c = 0; c < channels; c++) squares[c] += (double)partial_squares[c];
      } else {
        CPU_PICK(job->n->level, add_shares)(x, 1.0F / PIXELS_AT_ONCE, pixels, partial_sums, channels);
      }
      for (int64_t c = 0; c < channels; c++) sums[c] += (double)partial_sums[c];
    }
  }
}

static void apply_pixels(void *context, int64_t begin, int64_t end) {
  const last_job *job = context;
  const int64_t channels = job->n->channels;
  const activation *after = &job->n->after;
  const float least = after->kind == ACTIVATION_RELU ? 0 : -INFINITY;
  for (int64_t i = begin; i < end; i++) {
    if (i % PIXELS_AT_ONCE == 0 && cpu_cancelled(&job->n->team)) return;
    float *y = job->y + i * channels;
    CPU_PICK(job->n->level, scale_shift_row)
    (job->x + i * channels, job->at.centre, job->at.factor, job->at.shift, least, y, channels);
    if (!activation_ends_tiles(after)) activation_row(after, y, channels);
  }
}

/* The mean of `sums` over the channels, from c on, that share their statistics. */
static double shared_mean(const last_job *job, const double *sums, int64_t c) {
  double sum = 0;
  for (int64_t range = 0; range < job->n_ranges; range++)
    for (int64_t k = 0; k < job->n->shared; k++) sum += sums[range * job->n->channels + c + k];
  return sum / (double)(job->n->inner * job->n->shared);
}

/* Computes one image's statistics into centre, factor, shift. */
static reed_status take_statistics(last_job *job, const reed_kernel_buffers *buffers, cpu_team team) {
  const norm *n = job->n;
  job->second = false;
  reed_status status = cpu_parallel(team, job->n_ranges, 1, sum_ranges, job);
  if (status != REED_OK) return status;
  for (int64_t c = 0; c < n->channels; c += n->shared) {
    const float centre = (float)(PIXELS_AT_ONCE * shared_mean(job, job->at.sums, c));
    for (int64_t k = 0; k < n->shared; k++) job->at.centre[c + k] = centre;
  }
  job->second = true;
  status = cpu_parallel(team, job->n_ranges, 1, sum_ranges, job);
  if (status != REED_OK) return status;
  for (int64_t c = 0; c < n->channels; c += n->shared) {
    double off = shared_mean(job, job->at.sums, c); /* of the mean from the centre */
    double inverse = norm_factor(n, shared_mean(job, job->at.squares, c) - off * off);
    for (int64_t k = c; k < c + n->shared; k++) {
      int64_t at = norm_parameter_of(n, k);
      double factor = norm_parameter(n, buffers, 1, at) * inverse;
      job->at.factor[k] = (float)factor;
      job->at.shift[k] = (float)(norm_parameter(n, buffers, 2, at) - off * factor);
    }
  }
  return REED_OK;
}

/* The number of ranges with sums of their own, of about 16,384 elements each. It follows from the extents alone, so
 * that results do not depend on the number of threads. */
static int64_t ranges_of(const norm *n) {
  int64_t ranges = n->channels * n->inner / 16384;
  return ranges < 1 ? 1 : ranges < n->inner ? ranges : n->inner;
}

static reed_status run_last(const void *state, const reed_kernel_buffers *buffers) {
  const last_norm *l = state;
  const norm *n = &l->n;
  cpu_team team = cpu_team_for(n->team, n->channels * n->inner * 8);
  last_job job = {.n = n, .n_ranges = ranges_of(n)};
  lay_columns(n, ranges_of(n), buffers->workspace, &job.at);
  for (int64_t c = 0; c < n->channels && l->given; c++) {
    job.at.centre[c] = (float)norm_parameter(n, buffers, 3, c);
    job.at.factor[c] = (float)(norm_parameter(n, buffers, 1, c) / sqrt(norm_parameter(n, buffers, 4, c) + n->epsilon));
    job.at.shift[c] = (float)norm_parameter(n, buffers, 2, c);
  }
  for (int64_t image = 0; image < n->outer; image++) {
    job.x = (const float *)buffers->inputs[0] + image * n->channels * n->inner;
    job.y = (float *)buffers->outputs[0] + image * n->channels * n->inner;
    reed_status status = l->given ? REED_OK : take_statistics(&job, buffers, team);
    if (status == REED_OK) status = cpu_parallel(team, n->inner, 1, apply_pixels, &job);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

reed_status norm_prepare_last(const reed_kernel_call *call, norm_kind kind, const norm *n, reed_kernel *out_kernel) {
  columns unused;
  last_norm l = {.n = *n, .given = kind == NORM_BATCH};
  if (l.given) l.n.inner *= n->outer, l.n.outer = 1; /* the pixels of all images have the same numbers */
  void *state = mem_copy(&l, sizeof l);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_last, state);
  out_kernel->workspace_bytes = lay_columns(&l.n, ranges_of(&l.n), NULL, &unused);
  return REED_OK;
}
