/* Deformable convolutions and their gradients, sample by sample in the order of their definition, with sums in double.
 * The kernels: product/deform.c, product/deform_backward.c. */
#include "ops/cpu/calls/deform.h"

/* Sums of the gradients, in the orders of the outputs. */
typedef struct sums {
  double *of[DEFORM_GRADS];
} sums;

static int64_t weight_at(const deform *d, int64_t output, int64_t channel, int64_t tap) {
  return (output * d->group_channels + channel) * d->taps + tap;
}

#define DEFORM(T, SUFFIX, NAME) \
  typedef struct NAME##_operands { \
    const T *x, *w, *offset, *mask, *bias, *grad; \
  } NAME##_operands; \
  static NAME##_operands NAME##_operands_of(const deform *d, const reed_kernel_buffers *buffers) { \
    const void *const *in = buffers->inputs; \
    return (NAME##_operands){.x = in[d->at.input], \
                             .w = in[d->at.weight], \
                             .offset = in[d->at.offset], \
                             .mask = d->at.mask >= 0 ? in[d->at.mask] : NULL, \
                             .bias = d->at.bias >= 0 ? in[d->at.bias] : NULL, \
                             .grad = d->at.grad >= 0 ? in[d->at.grad] : NULL}; \
  } \
  static deform_sample##SUFFIX NAME##_sample(const deform *d, const NAME##_operands *o, int64_t image, int64_t group, \
                                             int64_t tap, int64_t pixel) { \
    T y = (T)deform_origin(d, 0, pixel, tap) + o->offset[deform_offset_at(d, image, group, tap, 0, pixel)], \
      x = (T)deform_origin(d, 1, pixel, tap) + o->offset[deform_offset_at(d, image, group, tap, 1, pixel)]; \
    return deform_sample_at##SUFFIX(y, x, d->in[0], d->in[1]); \
  } \
  static void NAME##_forward(const deform *d, const reed_kernel_buffers *buffers) { \
    NAME##_operands o = NAME##_operands_of(d, buffers); \
    for (int64_t image = 0; image < d->images; image++) \
      for (int64_t out = 0; out < d->outputs; out++) \
        for (int64_t pixel = 0; pixel < deform_pixels(d); pixel++) { \
          double sum = 0; \
          for (int64_t c = 0; c < d->group_channels; c++) \
            for (int64_t tap = 0; tap < d->taps; tap++) { \
              int64_t channel = out / d->group_outputs * d->group_channels + c, group = channel / d->offset_channels; \
              deform_sample##SUFFIX s = NAME##_sample(d, &o, image, group, tap, pixel); \
              const T *map = o.x + image * d->input.image + channel * d->input.channel; \
              double value = 0; \
              for (int i = 0; i < 4; i++) \
                value += (double)s.weight[i] * (s.pixel[i] < 0 ? 0 : (double)map[s.pixel[i] * d->input.pixel]); \
              if (o.mask) value *= (double)o.mask[deform_mask_at(d, image, group, tap, pixel)]; \
              sum += value * (double)o.w[weight_at(d, out, c, tap)]; \
            } \
          int64_t at = image * d->output.image + out * d->output.channel + pixel * d->output.pixel; \
          ((T *)buffers->outputs[0])[at] = (T)(sum + (o.bias ? (double)o.bias[out] : 0)); \
        } \
  } \
  /* Adds the gradients through one sample, whose product with its weights has gradient `grad`. */ \
  static void NAME##_back(const deform *d, const NAME##_operands *o, const sums *to, int64_t image, int64_t out, \
                          int64_t c, int64_t tap, int64_t pixel, double grad) { \
    int64_t channel = out / d->group_outputs * d->group_channels + c, group = channel / d->offset_channels; \
    deform_sample##SUFFIX s = NAME##_sample(d, o, image, group, tap, pixel); \
    int64_t map = image * d->input.image + channel * d->input.channel, \
            mask_at = deform_mask_at(d, image, group, tap, pixel); \
    double mask = o->mask ? (double)o->mask[mask_at] : 1, w = (double)o->w[weight_at(d, out, c, tap)], value = 0, \
           by_y = 0, by_x = 0; \
    for (int i = 0; i < 4; i++) { \
      int64_t at = map + s.pixel[i] * d->input.pixel; \
      double x = s.pixel[i] < 0 ? 0 : (double)o->x[at]; \
      value += (double)s.weight[i] * x; \
      by_y += (double)s.dy[i] * x; \
      by_x += (double)s.dx[i] * x; \
      if (to->of[DEFORM_GRAD_INPUT] && s.pixel[i] >= 0) \
        to->of[DEFORM_GRAD_INPUT][at] += grad * w * mask * (double)s.weight[i]; \
    } \
    if (to->of[DEFORM_GRAD_WEIGHT]) to->of[DEFORM_GRAD_WEIGHT][weight_at(d, out, c, tap)] += grad * mask * value; \
    if (to->of[DEFORM_GRAD_OFFSET]) { \
      to->of[DEFORM_GRAD_OFFSET][deform_offset_at(d, image, group, tap, 0, pixel)] += grad * w * mask * by_y; \
      to->of[DEFORM_GRAD_OFFSET][deform_offset_at(d, image, group, tap, 1, pixel)] += grad * w * mask * by_x; \
    } \
    if (to->of[DEFORM_GRAD_MASK]) to->of[DEFORM_GRAD_MASK][mask_at] += grad * w * value; \
  } \
  static void NAME##_backward(const deform *d, const reed_kernel_buffers *buffers, const sums *to) { \
    NAME##_operands o = NAME##_operands_of(d, buffers); \
    for (int64_t image = 0; image < d->images; image++) \
      for (int64_t out = 0; out < d->outputs; out++) \
        for (int64_t pixel = 0; pixel < deform_pixels(d); pixel++) { \
          double grad = (double)o.grad[image * d->output.image + out * d->output.channel + pixel * d->output.pixel]; \
          if (to->of[DEFORM_GRAD_BIAS]) to->of[DEFORM_GRAD_BIAS][out] += grad; \
          for (int64_t c = 0; c < d->group_channels; c++) \
            for (int64_t tap = 0; tap < d->taps; tap++) NAME##_back(d, &o, to, image, out, c, tap, pixel, grad); \
        } \
  }
DEFORM(float, , in_f32)
DEFORM(double, _f64, in_f64)

static reed_status run_forward(const void *state, const reed_kernel_buffers *buffers) {
  const deform *d = state;
  if (d->dtype == REED_F64) in_f64_forward(d, buffers);
  else in_f32_forward(d, buffers);
  return REED_OK;
}

typedef struct backward {
  deform d;
  int64_t elements[DEFORM_GRADS]; /* of the outputs; 0: not wanted */
} backward;

static reed_status run_backward(const void *state, const reed_kernel_buffers *buffers) {
  const backward *b = state;
  sums to = {{NULL}};
  double *room = buffers->workspace;
  for (int i = 0; i < DEFORM_GRADS; i++) {
    if (!b->elements[i]) continue;
    to.of[i] = b->d.dtype == REED_F64 ? buffers->outputs[i] : room;
    room += b->d.dtype == REED_F64 ? 0 : b->elements[i];
    for (int64_t k = 0; k < b->elements[i]; k++) to.of[i][k] = 0;
  }
  if (b->d.dtype == REED_F64) {
    in_f64_backward(&b->d, buffers, &to);
    return REED_OK;
  }
  in_f32_backward(&b->d, buffers, &to);
  for (int i = 0; i < DEFORM_GRADS; i++)
    for (int64_t k = 0; k < b->elements[i]; k++) ((float *)buffers->outputs[i])[k] = (float)to.of[i][k];
  return REED_OK;
}

reed_status reference_prepare_deform_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  deform d;
  reed_status status = deform_read(call, &d);
  if (status != REED_OK) return status;
  void *state = mem_copy(&d, sizeof d);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_forward, state);
  return REED_OK;
}

reed_status reference_prepare_deform_conv_backward(const reed_kernel_call *call, reed_kernel *out_kernel) {
  backward b = {.elements = {0}};
  reed_status status = deform_read(call, &b.d);
  if (status != REED_OK) return status;
  int64_t sums_bytes = 0;
  for (int32_t i = 0; i < DEFORM_GRADS && i < call->n_outputs; i++) {
    if (call->outputs[i].dtype != REED_NONE) b.elements[i] = desc_elements(&call->outputs[i]);
    sums_bytes += b.elements[i] * (int64_t)sizeof(double);
  }
  void *state = mem_copy(&b, sizeof b);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_backward, state);
  if (b.d.dtype == REED_F32) out_kernel->workspace_bytes = sums_bytes;
  return REED_OK;
}
