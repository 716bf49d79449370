/* BatchNormalization (ONNX opset 15), InstanceNormalization (22), GroupNormalization (21), LayerNormalization (17) and
 * RMSNormalization (23) for f32. Statistics are summed in short runs of float with a double over them; training, other
 * dtypes and repeated layer parameters are the reference's. */
#include "ops/cpu/calls/norm.h"

#include <math.h>

#include "ops/cpu/views/channels.h"
#include "ops/cpu/views/half.h"
#include "ops/cpu/common/layer_loops.h"
#include "ops/cpu/reference/layers.h"

static reed_status read_layer(const reed_kernel_call *call, norm *n) {
  const reed_desc *x = &call->inputs[0];
  int32_t axis;
  reed_status status = cpu_axis(call, op_attr_int(call->attrs, "axis"), x->rank, &axis);
  if (status != REED_OK) return status;
  n->outer = cpu_product(x->dims, 0, axis);
  n->inner = cpu_product(x->dims, axis, x->rank);
  n->channels = 1;
  reed_desc part = {x->dtype, x->rank - axis, {0}};
  memcpy(part.dims, x->dims + axis, (size_t)part.rank * sizeof *part.dims);
  n->rank = part.rank;
  memcpy(n->dims, part.dims, sizeof part.dims);
  n->plain = true;
  for (int32_t i = 1; i <= 2; i++) {
    if (!cpu_present(call, i)) continue;
    if (!cpu_broadcast_strides(&call->inputs[i], &part, i == 1 ? n->scale_strides : n->shift_strides)) {
      char a[96], b[96];
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "%s does not broadcast to %s",
                              desc_text(&call->inputs[i], a, sizeof a), desc_text(&part, b, sizeof b));
    }
    n->plain = n->plain && desc_elements(&call->inputs[i]) == n->inner;
  }
  return REED_OK;
}

/* Groups of channels; scale and bias have an element a channel (opset 21) or a group (18). */
static reed_status read_groups(const reed_kernel_call *call, norm *n) {
  int64_t groups = op_attr_int(call->attrs, "num_groups");
  if (groups < 1 || n->channels % groups)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "%lld channels in %lld groups", (long long)n->channels,
                            (long long)groups);
  if (n->channels > 0) n->shared = n->channels / groups;
  n->per_group = desc_elements(&call->inputs[1]) == groups && groups != n->channels;
  for (int32_t i = 1; i <= 2; i++)
    if (desc_elements(&call->inputs[i]) != (n->per_group ? groups : n->channels))
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "input %d has %lld elements for %lld channels in %lld groups", i,
                              (long long)desc_elements(&call->inputs[i]), (long long)n->channels, (long long)groups);
  return REED_OK;
}

reed_status norm_read(const reed_kernel_call *call, norm_kind kind, norm *n) {
  const reed_desc *x = &call->inputs[0];
  *n = (norm){.dtype = x->dtype,
              .centred = kind != NORM_RMS,
              .shared = 1,
              .n_threads = cpu_env_threads(call),
              .level = cpu_level_now(),
              .epsilon = op_attr_float(call->attrs, "epsilon"),
              .momentum = kind == NORM_BATCH ? op_attr_float(call->attrs, "momentum") : 0,
              .training = kind == NORM_BATCH && op_attr_int(call->attrs, "training_mode") != 0};
  reed_status status = activation_read(call, &n->after);
  if (status != REED_OK) return status;
  for (int32_t i = 0; i < call->n_inputs && i < 5; i++) n->parameters[i] = call->inputs[i].dtype;
  for (int32_t i = 0; i < call->n_outputs && i < 3; i++) n->results[i] = call->outputs[i].dtype;
  if (kind == NORM_LAYER || kind == NORM_RMS) return read_layer(call, n);
  n->outer = x->rank > 0 ? x->dims[0] : 1;
  n->channels = x->rank > 1 ? x->dims[1] : 1;
  n->inner = cpu_product(x->dims, 2, x->rank);
  if (kind == NORM_GROUP) return read_groups(call, n);
  for (int32_t i = 1; i < call->n_inputs; i++)
    if (desc_elements(&call->inputs[i]) != n->channels)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "input %d has %lld elements for %lld channels", i,
                              (long long)desc_elements(&call->inputs[i]), (long long)n->channels);
  return REED_OK;
}

typedef struct norm_job {
  const norm *n;
  const reed_kernel_buffers *buffers;
} norm_job;

/* y = (x - centre) * a + b, and the activation, over a plane of any size: by blocks that stay in the first cache. */
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
    double inverse = 1 / sqrt(variance + n->epsilon);
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
    if (!n->centred) variance += mean * mean, mean = 0; /* the mean of the squares */
    double inverse = 1 / sqrt(variance + n->epsilon);
    CPU_PICK(job->n->level, normalize_row)(x, (float)mean, (float)inverse, scale, shift, y, n->inner);
    activation_row(&n->after, y, n->inner);
    norm_result(n, job->buffers, 1, i, mean);
    norm_result(n, job->buffers, 2, i, inverse);
  }
}

static reed_status run_planes(const norm *n, const reed_kernel_buffers *buffers, cpu_range_fn fn) {
  norm_job job = {n, buffers};
  int64_t planes = n->outer * n->channels / n->shared;
  cpu_parallel(cpu_threads_for(n->n_threads, planes * n->shared * n->inner * 8), planes, 1, fn, &job);
  return REED_OK;
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

static reed_status prepare(const reed_kernel_call *outer, norm_kind kind, reed_kernel_run_fn run,
                           reed_kernel_prepare_fn plain, reed_kernel *out_kernel) {
  norm n;
  channels_view view;
  reed_status status = channels_view_init(outer, 1u << 0, &view);
  const reed_kernel_call *call = &view.call;
  if (status == REED_OK) status = norm_read(call, kind, &n);
  if (status != REED_OK) return status;
  bool fast = n.dtype == REED_F32 && !n.training && ((kind != NORM_LAYER && kind != NORM_RMS) || n.plain) &&
              desc_elements(&call->inputs[0]) > 0;
  if (reference_wanted() || !fast) return channels_prepare_second(&view, plain, out_kernel);
  if (view.last) return norm_prepare_last(call, kind, &n, out_kernel);
  void *state = mem_copy(&n, sizeof n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run, state);
  return REED_OK;
}

reed_status cpu_prepare_batch_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  HALF_AS_F32(call, cpu_prepare_batch_norm, out_kernel);
  return prepare(call, NORM_BATCH, run_batch, reference_prepare_batch_norm, out_kernel);
}

reed_status cpu_prepare_instance_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  HALF_AS_F32(call, cpu_prepare_instance_norm, out_kernel);
  return prepare(call, NORM_INSTANCE, run_instance, reference_prepare_instance_norm, out_kernel);
}

reed_status cpu_prepare_layer_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  HALF_AS_F32(call, cpu_prepare_layer_norm, out_kernel);
  return prepare(call, NORM_LAYER, run_layer, reference_prepare_layer_norm, out_kernel);
}

reed_status cpu_prepare_group_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  HALF_AS_F32(call, cpu_prepare_group_norm, out_kernel);
  return prepare(call, NORM_GROUP, run_instance, reference_prepare_group_norm, out_kernel);
}

reed_status cpu_prepare_rms_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  HALF_AS_F32(call, cpu_prepare_rms_norm, out_kernel);
  return prepare(call, NORM_RMS, run_layer, reference_prepare_rms_norm, out_kernel);
}
