/* Resize's tables (ops/cpu/calls/resize.h): coordinate transformations, nearest modes, linear and cubic kernels,
 * antialiasing, exclude_outside. Formulas: ONNX Resize, opset 19. */
#include "ops/cpu/calls/resize.h"

#include <math.h>

#define TAPS_MAX ((int64_t)1 << 30)

/* These three are in the order of op.def's words. */
typedef enum mapping {
  MAP_HALF_PIXEL,
  MAP_HALF_PIXEL_SYMMETRIC,
  MAP_PYTORCH_HALF_PIXEL,
  MAP_ALIGN_CORNERS,
  MAP_ASYMMETRIC,
  MAP_TF_HALF_PIXEL, /* opset 11 only */
  MAP_CROP,
} mapping;
typedef enum interpolation { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC } interpolation;
typedef enum nearest_mode { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL } nearest_mode;

/* Numbers that all axes share; those of one axis are in `scaling`. */
typedef struct settings {
  int mapping, interpolation, nearest;
  bool antialias, exclude_outside;
  double cubic_a;
} settings;

typedef struct scaling {
  int64_t in, out;
  double scale, crop_begin, crop_end;
} scaling;

/* The input coordinate of output position x. */
static double source_of(const settings *s, const scaling *a, int64_t x) {
  double in = (double)a->in, resized = s->mapping == MAP_CROP
                                           ? (double)a->out
                                           : a->scale * in; /* may be no whole number, as in ONNX's reference */
  switch ((mapping)s->mapping) {
    case MAP_HALF_PIXEL: return ((double)x + 0.5) / a->scale - 0.5;
    case MAP_HALF_PIXEL_SYMMETRIC: return in / 2 * (1 - (double)a->out / resized) + ((double)x + 0.5) / a->scale - 0.5;
    case MAP_PYTORCH_HALF_PIXEL: return a->out > 1 ? ((double)x + 0.5) / a->scale - 0.5 : 0;
    case MAP_ALIGN_CORNERS: return resized == 1 ? 0 : (double)x * (in - 1) / (resized - 1);
    case MAP_ASYMMETRIC: return (double)x / a->scale;
    case MAP_TF_HALF_PIXEL: return ((double)x + 0.5) / a->scale;
    case MAP_CROP:
      if (resized == 1) return (a->crop_end - a->crop_begin) * (in - 1) / 2 + a->crop_begin * (in - 1);
      return (double)x * (a->crop_end - a->crop_begin) * (in - 1) / (resized - 1) + a->crop_begin * (in - 1);
  }
  return 0;
}

static double round_to_pixel(const settings *s, double at) {
  at = (double)(float)at; /* so that 8 / 1.6f gives 5 */
  switch ((nearest_mode)s->nearest) {
    case ROUND_PREFER_FLOOR: return ceil(at - 0.5);
    case ROUND_PREFER_CEIL: return floor(at + 0.5);
    case ROUND_FLOOR: return floor(at);
    case ROUND_CEIL: return ceil(at);
  }
  return 0;
}

/* The kernel's weight at a distance, which is in output pixels if antialiasing shrinks. */
static double kernel_at(const settings *s, double distance) {
  double x = fabs(distance), a = s->cubic_a;
  if (s->interpolation == MODE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1; /* Keys, 1981 */
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int32_t clamp_index(double i, int64_t in) {
  return (int32_t)(i > 0 ? (i < (double)(in - 1) ? i : (double)(in - 1)) : 0);
}

/* Taps first .. first + taps - 1 around `at`, weights summing to one. */
static void fill_position(const settings *s, const scaling *a, double at, double shrink, int64_t taps, int32_t *index,
                          float *weight) {
  double base = floor(at), first = base - (double)(taps / 2 - 1), sum = 0;
  for (int64_t k = 0; k < taps; k++) {
    double i = first + (double)k, w = kernel_at(s, (i - at) * shrink);
    if (!(s->exclude_outside && (i < 0 || i >= (double)a->in))) sum += w;
  }
  if (sum == 0) sum = 1;
  bool normalise = s->antialias || s->exclude_outside;
  for (int64_t k = 0; k < taps; k++) {
    double i = first + (double)k, w = kernel_at(s, (i - at) * shrink);
    if (s->exclude_outside && (i < 0 || i >= (double)a->in)) w = 0;
    index[k] = clamp_index(i, a->in);
    weight[k] = (float)(normalise ? w / sum : w);
  }
}

static reed_status build_axis(const reed_kernel_call *call, const settings *s, const scaling *a, resize_axis *out) {
  double shrink = s->antialias && a->scale < 1 ? a->scale : 1, reach = s->interpolation == MODE_CUBIC ? 2 : 1;
  double wanted = s->interpolation == MODE_NEAREST ? 1 : 2 * ceil(reach / shrink);
  if (!(wanted * (double)a->out < (double)TAPS_MAX) || a->in > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "scale %g needs too many taps", a->scale);
  out->in = a->in;
  out->out = a->out;
  out->taps = (int64_t)wanted;
  int64_t n = out->taps * out->out;
  out->index = mem_alloc((size_t)n * sizeof *out->index);
  out->weight = mem_alloc((size_t)n * sizeof *out->weight);
  if (s->mapping == MAP_CROP) out->outside = mem_alloc((size_t)out->out * sizeof *out->outside);
  if (!out->index || !out->weight || (s->mapping == MAP_CROP && !out->outside)) return cpu_no_memory(call);
  for (int64_t x = 0; x < out->out; x++) {
    double at = source_of(s, a, x);
    if (!(fabs(at) < 0x1p52)) at = 0; /* scales and regions may be any numbers */
    if (out->outside) out->outside[x] = at < 0 || at > (double)(a->in - 1);
    if (s->interpolation == MODE_NEAREST) {
      out->index[x] = clamp_index(round_to_pixel(s, at), a->in);
      out->weight[x] = 1;
    } else {
      fill_position(s, a, at, shrink, out->taps, out->index + x * out->taps, out->weight + x * out->taps);
    }
  }
  return REED_OK;
}

int resize_read_mapping(const reed_kernel_call *call) {
  return op_attr_word(call->op, call->attrs, "coordinate_transformation_mode");
}

void resize_taps(int mapping, const double *cubic_a, int64_t in, int64_t out, int64_t begin, int64_t end,
                 int32_t *index, float *weight) {
  settings s = {
      .mapping = mapping, .interpolation = cubic_a ? MODE_CUBIC : MODE_LINEAR, .cubic_a = cubic_a ? *cubic_a : 0};
  scaling a = {in, out, (double)out / (double)in, 0, 1};
  int64_t taps = cubic_a ? 4 : 2;
  for (int64_t x = begin; x < end; x++, index += taps, weight += taps)
    fill_position(&s, &a, source_of(&s, &a, x), 1, taps, index, weight);
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

/* Element k of a float input that is on the host. */
static double host_float(const reed_kernel_call *call, int32_t input, int64_t k) {
  reed_dtype dtype = call->inputs[input].dtype;
  return reed_dtype_read(dtype, (const char *)call->host_values[input] + (size_t)k * reed_dtype_bytes(dtype));
}

static bool has_list(const reed_kernel_call *call, int32_t input, int64_t n) {
  return cpu_present(call, input) && call->host_values[input] && n > 0 && desc_elements(&call->inputs[input]) == n;
}

/* Reads every axis's scale and crop. A scale from sizes is extent / extent, or with keep_aspect_ratio_policy one scale
 * for all axes. */
static void read_scalings(const reed_kernel_call *call, const settings *s, scaling *scalings) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  int64_t n_axes;
  const int64_t *given = reed_attrs_ints(call->attrs, "axes", &n_axes);
  if (!given) n_axes = x->rank;
  bool by_scales = has_list(call, 2, n_axes), by_sizes = has_list(call, 3, n_axes), crop = s->mapping == MAP_CROP;
  const char *policy = op_attr_string(call->attrs, "keep_aspect_ratio_policy");
  bool keep = by_sizes && strcmp(policy, "stretch") != 0, smaller = strcmp(policy, "not_larger") == 0;
  for (int32_t i = 0; i < x->rank; i++)
    scalings[i] = (scaling){x->dims[i], y->dims[i], x->dims[i] ? (double)y->dims[i] / (double)x->dims[i] : 1, 0, 1};
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

reed_status resize_open(const reed_kernel_call *call, resize **out_resize) {
  const reed_desc *x = &call->inputs[0];
  settings s = {.mapping = resize_read_mapping(call),
                .interpolation = op_attr_word(call->op, call->attrs, "mode"),
                .nearest = op_attr_word(call->op, call->attrs, "nearest_mode"),
                .antialias = op_attr_int(call->attrs, "antialias") != 0,
                .exclude_outside = op_attr_int(call->attrs, "exclude_outside") != 0,
                .cubic_a = op_attr_float(call->attrs, "cubic_coeff_a")};
  scaling scalings[REED_MAX_RANK];
  read_scalings(call, &s, scalings);
  resize *r = mem_calloc(1, sizeof *r);
  if (!r) return cpu_no_memory(call);
  r->team = cpu_env_team(call);
  r->level = cpu_level_now();
  r->nearest = s.interpolation == MODE_NEAREST;
  r->x = *x;
  r->y = call->outputs[0];
  r->extrapolation = (float)op_attr_float(call->attrs, "extrapolation_value");
  reed_status status = REED_OK;
  for (int32_t i = 0; i < x->rank && status == REED_OK; i++) {
    const scaling *a = &scalings[i];
    if (a->in == a->out && a->scale == 1 && a->crop_begin == 0 && a->crop_end == 1) continue;
    r->axes[r->n_axes].axis = i;
    status = build_axis(call, &s, a, &r->axes[r->n_axes++]);
  }
  if (status == REED_OK) *out_resize = r;
  else resize_free(r);
  return status;
}
