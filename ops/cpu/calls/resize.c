/* Reading a Resize call, and its tables (resize.h). The formulas of one position: resize_formulas.h. */
#include "ops/cpu/calls/resize.h"

#define TAPS_MAX ((int64_t)1 << 30)

reed_status resize_taps_of(const reed_kernel_call *call, const resize_settings *s, const resize_scaling *a,
                           int64_t *out_taps) {
  const double reach = s->mode == MODE_CUBIC ? 2 : 1,
               wanted = s->mode == MODE_NEAREST ? 1 : 2 * ceil(reach / resize_shrink(s, a));
  if (!(wanted * (double)a->out < (double)TAPS_MAX) || a->in > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "scale %g needs too many taps", a->scale);
  *out_taps = (int64_t)wanted;
  return REED_OK;
}

static reed_status build_axis(const reed_kernel_call *call, const resize_settings *s, const resize_scaling *a,
                              resize_axis *out) {
  reed_status status = resize_taps_of(call, s, a, &out->taps);
  if (status != REED_OK) return status;
  out->in = a->in;
  out->out = a->out;
  int64_t n = out->taps * out->out;
  out->index = mem_alloc((size_t)n * sizeof *out->index);
  out->weight = mem_alloc((size_t)n * sizeof *out->weight);
  if (s->mapping == MAP_CROP) out->outside = mem_alloc((size_t)out->out * sizeof *out->outside);
  if (!out->index || !out->weight || (s->mapping == MAP_CROP && !out->outside)) return cpu_no_memory(call);
  for (int64_t x = 0; x < out->out; x++) {
    bool outside;
    resize_position(s, a, x, out->taps, out->index + x * out->taps, out->weight + x * out->taps, &outside);
    if (out->outside) out->outside[x] = outside;
  }
  return REED_OK;
}

int resize_read_mapping(const reed_kernel_call *call) {
  return op_attr_word(call->op, call->attrs, "coordinate_transformation_mode");
}

void resize_taps(int mapping, const double *cubic_a, int64_t in, int64_t out, int64_t begin, int64_t end,
                 int32_t *index, float *weight) {
  resize_settings s = {
      .mapping = mapping, .mode = cubic_a ? MODE_CUBIC : MODE_LINEAR, .cubic_a = cubic_a ? *cubic_a : 0};
  resize_scaling a = {in, out, (double)out / (double)in, 0, 1};
  int64_t taps = cubic_a ? 4 : 2;
  for (int64_t x = begin; x < end; x++, index += taps, weight += taps)
    resize_fill_position(&s, &a, resize_source_of(&s, &a, x), 1, taps, index, weight);
}

/* ---- the call ---- */

void resize_free(void *state) {
  resize *r = state;
  for (int32_t i = 0; i < r->n_axes; i++) {
    mem_free(r->axes[i].index);
    mem_free(r->axes[i].weight);
    mem_free(r->axes[i].outside);
  }
  mem_free(r);
}

int64_t resize_bytes(const resize *r) {
  int64_t bytes = (int64_t)sizeof *r;
  for (int32_t i = 0; i < r->n_axes; i++) {
    const resize_axis *a = &r->axes[i];
    bytes += a->out * a->taps * (int64_t)(sizeof *a->index + sizeof *a->weight);
    if (a->outside) bytes += a->out * (int64_t)sizeof *a->outside;
  }
  return bytes;
}

/* Element k of a float input that is on the host. */
static double host_float(const reed_kernel_call *call, int32_t input, int64_t k) {
  reed_dtype dtype = call->inputs[input].dtype;
  return reed_dtype_read(dtype, (const char *)call->host_values[input] + (size_t)k * reed_dtype_bytes(dtype));
}

static bool has_list(const reed_kernel_call *call, int32_t input, int64_t n) {
  return cpu_present(call, input) && call->host_values[input] && n > 0 && desc_elements(&call->inputs[input]) == n;
}

/* Reads every axis's scale and crop. A scale from sizes is extent / extent, or with keep_aspect_ratio_policy one scale
 * for all axes. So is one for align_corners of whole extents. */
static void read_scalings(const reed_kernel_call *call, const resize_settings *s, resize_scaling *scalings) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  int64_t n_axes;
  const int64_t *given = reed_attrs_ints(call->attrs, "axes", &n_axes);
  if (!given) n_axes = x->rank;
  bool by_scales = has_list(call, 2, n_axes), by_sizes = has_list(call, 3, n_axes), crop = s->mapping == MAP_CROP;
  if (s->mapping == MAP_ALIGN_CORNERS && op_attr_int(call->attrs, "whole_extents")) by_scales = false;
  const char *policy = op_attr_string(call->attrs, "keep_aspect_ratio_policy");
  bool keep = by_sizes && strcmp(policy, "stretch") != 0, smaller = strcmp(policy, "not_larger") == 0;
  for (int32_t i = 0; i < x->rank; i++)
    scalings[i] =
        (resize_scaling){x->dims[i], y->dims[i], x->dims[i] ? (double)y->dims[i] / (double)x->dims[i] : 1, 0, 1};
  double common = 0;
  for (int64_t k = 0; k < n_axes; k++) {
    int32_t axis = cpu_axis(given ? given[k] : k, x->rank);
    if (by_scales) scalings[axis].scale = host_float(call, 2, k);
    if (crop)
      scalings[axis].crop_begin = host_float(call, 1, k), scalings[axis].crop_end = host_float(call, 1, n_axes + k);
    double ratio =
        keep && x->dims[axis] ? (double)((const int64_t *)call->host_values[3])[k] / (double)x->dims[axis] : 0;
    if (k == 0 || (smaller ? ratio < common : ratio > common)) common = ratio;
  }
  for (int64_t k = 0; k < n_axes && keep; k++) {
    scalings[cpu_axis(given ? given[k] : k, x->rank)].scale = common;
  }
}

void resize_read(const reed_kernel_call *call, resize_settings *out_settings, resize_scaling *out_scalings) {
  *out_settings = (resize_settings){.mapping = resize_read_mapping(call),
                                    .mode = op_attr_word(call->op, call->attrs, "mode"),
                                    .nearest = op_attr_word(call->op, call->attrs, "nearest_mode"),
                                    .antialias = op_attr_int(call->attrs, "antialias") != 0,
                                    .exclude_outside = op_attr_int(call->attrs, "exclude_outside") != 0,
                                    .cubic_a = op_attr_float(call->attrs, "cubic_coeff_a")};
  read_scalings(call, out_settings, out_scalings);
}

reed_status resize_open(const reed_kernel_call *call, resize **out_resize) {
  const reed_desc *x = &call->inputs[0];
  resize_settings s;
  resize_scaling scalings[REED_MAX_RANK];
  resize_read(call, &s, scalings);
  resize *r = mem_calloc(1, sizeof *r);
  if (!r) return cpu_no_memory(call);
  r->team = cpu_env_team(call);
  r->level = cpu_level_now();
  r->nearest = s.mode == MODE_NEAREST;
  r->x = *x;
  r->y = call->outputs[0];
  r->extrapolation = (float)op_attr_float(call->attrs, "extrapolation_value");
  reed_status status = REED_OK;
  for (int32_t i = 0; i < x->rank && status == REED_OK; i++) {
    const resize_scaling *a = &scalings[i];
    if (resize_stays(a)) continue;
    r->axes[r->n_axes].axis = i;
    status = build_axis(call, &s, a, &r->axes[r->n_axes++]);
  }
  if (status == REED_OK) *out_resize = r;
  else resize_free(r);
  return status;
}
