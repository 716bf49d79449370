/* BatchNormalization (ONNX opset 15), InstanceNormalization (22), GroupNormalization (21), LayerNormalization (17) and
 * RMSNormalization (23) for f32. Statistics are sums of short runs in float, added in double. The reference computes
 * training, other dtypes and repeated layer parameters. The reference: reference/norm.c. Channels last: norm_last.c. */
#include <math.h>

#include "ops/cpu/calls/norm.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/reduce/norm_last.h"
#include "ops/cpu/views/view.h"

typedef struct norm_job {
  const norm *n;
  const reed_kernel_buffers *buffers;
} norm_job;

/* y = (x - centre) * a + b and the activation over a plane of any size, in blocks that stay in the first-level cache.
 */
static void scale_plane(const norm *n, const float *x, double centre, double a, double b, float *y) {
  enum { BLOCK = 4096 };
  for (int64_t i = 0; i < n->inner; i += BLOCK) {
    int64_t count = n->inner - i < BLOCK ? n->inner - i : BLOCK;
    CPU_PICK(n->level, scale_shift)(x + i, (float)centre, (float)a, (float)b, y + i, count);
    activation_row(&n->after, y + i, count);
  }
}

/* Planes begin..end of (outer, channel) with given statistics. */
static void batch_planes(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  const norm *n = job->n;
  for (int64_t i = begin; i < end; i++) {
    int64_t c = i % n->channels;
    double a = norm_parameter(n, job->buffers, 1, c) / sqrt(norm_parameter(n, job->buffers, 4, c) + n->epsilon);
    scale_plane(n, (const float *)job->buffers->inputs[0] + i * n->inner, norm_parameter(n, job->buffers, 3, c), a,
                norm_parameter(n, job->buffers, 2, c), (float *)job->buffers->outputs[0] + i * n->inner);
  }
}

/* Blocks begin..end of (outer, channels that share their statistics). */
static void instance_planes(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  const norm *n = job->n;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)job->buffers->inputs[0] + i * n->shared * n->inner;
    float *y = (float *)job->buffers->outputs[0] + i * n->shared * n->inner;
    double mean, variance;
    CPU_PICK(job->n->level, moments)(x, n->shared * n->inner, &mean, &variance);
    double inverse = norm_factor(n, variance);
    for (int64_t k = 0; k < n->shared; k++) {
      int64_t at = norm_parameter_of(n, i * n->shared % n->channels + k);
      scale_plane(n, x + k * n->inner, mean, norm_parameter(n, job->buffers, 1, at) * inverse,
                  norm_parameter(n, job->buffers, 2, at), y + k * n->inner);
    }
  }
}

static void layer_rows(void *context, int64_t begin, int64_t end) {
  const norm_job *job = context;
  const norm *n = job->n;
  const float *scale = job->buffers->inputs[1], *shift = n->parameters[2] != REED_NONE ? job->buffers->inputs[2] : NULL;
  for (int64_t i = begin; i < end; i++) {
    const float *x = (const float *)job->buffers->inputs[0] + i * n->inner;
    float *y = (float *)job->buffers->outputs[0] + i * n->inner;
    double mean, variance;
    CPU_PICK(job->n->level, moments)(x, n->inner, &mean, &variance);
    double inverse = norm_row_factor(n, &mean, variance);
    CPU_PICK(job->n->level, normalize_row)(x, (float)mean, (float)inverse, scale, shift, y, n->inner);
    activation_row(&n->after, y, n->inner);
    norm_row_results(n, job->buffers, i, mean, inverse);
  }
}

static reed_status run_planes(const norm *n, const reed_kernel_buffers *buffers, cpu_range_fn fn) {
  norm_job job = {n, buffers};
  int64_t planes = n->outer * n->channels / n->shared;
  return cpu_parallel(cpu_team_for(n->team, planes * n->shared * n->inner * 8), planes, 1, fn, &job);
}

static reed_status run_batch(const void *state, const reed_kernel_buffers *buffers) {
  return run_planes(state, buffers, batch_planes);
}
static reed_status run_instance(const void *state, const reed_kernel_buffers *buffers) {
  return run_planes(state, buffers, instance_planes);
}
static reed_status run_layer(const void *state, const reed_kernel_buffers *buffers) {
  return run_planes(state, buffers, layer_rows);
}

static reed_status prepare(const cpu_view *view, norm_kind kind, reed_kernel_run_fn run, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  norm n;
  reed_status status = norm_read(call, kind, &n);
  if (status != REED_OK) return status;
  bool fast = n.dtype == REED_F32 && !n.training && ((kind != NORM_LAYER && kind != NORM_RMS) || n.plain) &&
              desc_elements(&call->inputs[0]) > 0;
  if (!fast) return REED_OK;
  if (view->last) return norm_prepare_last(call, kind, &n, out_kernel);
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run, state);
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
