/* BatchNormalization (with training), the normalisations by instance, group and layer, and RMSNormalization in double,
 * for f32 and f64. The kernel: ops/cpu/reduce/norm.c. */
#include "ops/cpu/calls/norm.h"
#include "ops/cpu/common/common.h"

typedef struct job {
  const norm *n;
  const reed_kernel_buffers *buffers;
} job;

static double read_x(const job *j, int64_t i) {
  return j->n->dtype == REED_F32 ? (double)((const float *)j->buffers->inputs[0])[i]
                                 : ((const double *)j->buffers->inputs[0])[i];
}

static void write_y(const job *j, int64_t i, double value) {
  value = activation_at(&j->n->after, value);
  if (j->n->dtype == REED_F32) ((float *)j->buffers->outputs[0])[i] = (float)value;
  else ((double *)j->buffers->outputs[0])[i] = value;
}

/* Mean and variance of `count` runs of `inner` elements that begin `step` apart, the first at `first`. */
static void statistics(const job *j, int64_t first, int64_t count, int64_t step, int64_t inner, double *out_mean,
                       double *out_variance) {
  double mean = 0, variance = 0, n = (double)(count * inner);
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < inner; i++) mean += read_x(j, first + k * step + i);
  mean /= n;
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < inner; i++) {
      double d = read_x(j, first + k * step + i) - mean;
      variance += d * d;
    }
  *out_mean = mean;
  *out_variance = variance / n;
}

static void batch_channels(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const norm *n = j->n;
  for (int64_t c = begin; c < end; c++) {
    double old_mean = norm_parameter(n, j->buffers, 3, c), old_variance = norm_parameter(n, j->buffers, 4, c);
    double mean = old_mean, variance = old_variance, scale = norm_parameter(n, j->buffers, 1, c),
           shift = norm_parameter(n, j->buffers, 2, c);
    int64_t step = n->channels * n->inner;
    if (n->training) {
      statistics(j, c * n->inner, n->outer, step, n->inner, &mean, &variance);
      norm_result(n, j->buffers, 1, c, old_mean * n->momentum + mean * (1 - n->momentum));
      norm_result(n, j->buffers, 2, c, old_variance * n->momentum + variance * (1 - n->momentum));
    }
    double inverse = norm_factor(n, variance);
    for (int64_t k = 0; k < n->outer; k++)
      for (int64_t i = 0; i < n->inner; i++) {
        int64_t at = k * step + c * n->inner + i;
        write_y(j, at, (read_x(j, at) - mean) * inverse * scale + shift);
      }
  }
}

static void instance_planes(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const norm *n = j->n;
  int64_t block = n->shared * n->inner;
  for (int64_t plane = begin; plane < end; plane++) {
    double mean, variance;
    statistics(j, plane * block, 1, 0, block, &mean, &variance);
    double inverse = norm_factor(n, variance);
    for (int64_t i = plane * block; i < (plane + 1) * block; i++) {
      int64_t at = norm_parameter_of(n, i / n->inner % n->channels);
      write_y(j, i,
              (read_x(j, i) - mean) * inverse * norm_parameter(n, j->buffers, 1, at) +
                  norm_parameter(n, j->buffers, 2, at));
    }
  }
}

static void layer_rows(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const norm *n = j->n;
  for (int64_t row = begin; row < end; row++) {
    double mean, variance;
    statistics(j, row * n->inner, 1, 0, n->inner, &mean, &variance);
    double inverse = norm_row_factor(n, &mean, variance);
    for (int64_t i = 0; i < n->inner; i++) {
      int64_t scale_at = 0, shift_at = 0, rest = i;
      for (int32_t axis = n->rank - 1; axis >= 0; axis--) {
        scale_at += rest % n->dims[axis] * n->scale_strides[axis];
        shift_at += rest % n->dims[axis] * n->shift_strides[axis];
        rest /= n->dims[axis];
      }
      double shift = n->parameters[2] != REED_NONE ? norm_parameter(n, j->buffers, 2, shift_at) : 0;
      write_y(j, row * n->inner + i,
              (read_x(j, row * n->inner + i) - mean) * inverse * norm_parameter(n, j->buffers, 1, scale_at) + shift);
    }
    norm_row_results(n, j->buffers, row, mean, inverse);
  }
}

static cpu_team team_of(const norm *n) { return cpu_team_for(n->team, n->outer * n->channels * n->inner * 16); }

static reed_status run_batch(const void *state, const reed_kernel_buffers *buffers) {
  const norm *n = state;
  job j = {n, buffers};
  return cpu_parallel(team_of(n), n->channels, 1, batch_channels, &j);
}

static reed_status run_instance(const void *state, const reed_kernel_buffers *buffers) {
  const norm *n = state;
  job j = {n, buffers};
  return cpu_parallel(team_of(n), n->outer * n->channels / n->shared, 1, instance_planes, &j);
}

static reed_status run_layer(const void *state, const reed_kernel_buffers *buffers) {
  const norm *n = state;
  job j = {n, buffers};
  return cpu_parallel(team_of(n), n->outer, 1, layer_rows, &j);
}

static reed_status prepare(const reed_kernel_call *call, norm_kind kind, reed_kernel_run_fn run,
                           reed_kernel *out_kernel) {
  norm n;
  reed_status status = norm_read(call, kind, &n);
  if (status != REED_OK) return status;
  if (n.dtype != REED_F32 && n.dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(n.dtype));
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run, state);
  return REED_OK;
}

reed_status reference_prepare_batch_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, NORM_BATCH, run_batch, out_kernel);
}

reed_status reference_prepare_instance_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, NORM_INSTANCE, run_instance, out_kernel);
}

reed_status reference_prepare_layer_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, NORM_LAYER, run_layer, out_kernel);
}

reed_status reference_prepare_group_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, NORM_GROUP, run_instance, out_kernel);
}

reed_status reference_prepare_rms_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, NORM_RMS, run_layer, out_kernel);
}
