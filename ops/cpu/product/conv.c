/* Conv and ConvTranspose (ONNX opset 22) for f32, with bias, residual and activation: choosing the implementation.
 * Packed weights with channels last, which the compiler makes of most convolutions, have conv_panels.h, conv_few.h,
 * conv_winograd.h, conv_groups.h and conv_depthwise.h; transposed ones with channels last and plain weights have
 * conv_phases.h; channels second have conv_turned.h, conv_groups.h, conv_depthwise_planes.h, conv_relaid.h and
 * conv_planes.h, and the table (ops/cpu/table.c) runs these between transposes for other calls with channels last. No
 * kernel needs preparation but arithmetic. The reference computes other dtypes, and what conv_planes.h declines. The
 * reference: reference/conv.c. */
#include "ops/cpu/calls/convolution.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/product/conv_depthwise.h"
#include "ops/cpu/product/conv_depthwise_planes.h"
#include "ops/cpu/product/conv_few.h"
#include "ops/cpu/product/conv_groups.h"
#include "ops/cpu/product/conv_panels.h"
#include "ops/cpu/product/conv_relaid.h"
#include "ops/cpu/product/conv_phases.h"
#include "ops/cpu/product/conv_turned.h"
#include "ops/cpu/product/panels.h"
#include "ops/cpu/product/conv_planes.h"
#include "ops/cpu/product/conv_winograd.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/views/half.h"
#include "ops/cpu/views/view.h"
#include "ops/cpu/views/widen.h"

/* The dtypes and extents that the kernels below compute. Only kernels over packed weights take images of bf16. */
static bool is_computed(const reed_kernel_call *call, bool takes_bf16) {
  const reed_dtype images[] = {call->inputs[0].dtype, call->outputs[0].dtype,
                               cpu_present(call, 3) ? call->inputs[3].dtype : REED_F32};
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    if (images[i] != REED_F32 && !(takes_bf16 && images[i] == REED_BF16)) return false;
  return desc_elements(&call->inputs[0]) && desc_elements(&call->inputs[1]);
}

reed_status cpu_prepare_conv_second(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (!is_computed(call, false)) return REED_OK;
  reed_status status = conv_turned_prepare(call, out_kernel);
  if (status == REED_OK && !out_kernel->run) status = conv_depthwise_planes_prepare(call, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  window w;
  activation act;
  window_init(call, call->inputs[1].dims + 2, &w);
  window_drop_units(&w);
  activation_read(call, &act);
  status = conv_groups_prepare(call, NULL, &w, &act, out_kernel);
  if (status == REED_OK && !out_kernel->run) status = conv_relaid_prepare(call, &w, &act, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  return conv_planes_prepare(call, false, out_kernel);
}

reed_status cpu_prepare_conv_transpose_second(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return is_computed(call, false) ? conv_planes_prepare(call, true, out_kernel) : REED_OK;
}

/* The packed weights, if the program may keep them transformed: constants, but not those that are read at several
 * extents, because the largest of these take most of the time. */
static const void *kept_constant(const cpu_view *view) {
  const bool shared = view->facts ? view->facts->shared : op_attr_int(view->call->attrs, SHARED_WEIGHTS_ATTR) != 0;
  return shared ? NULL : view->unpack.constant;
}

/* Convolutions over packed weights that need fewer products than a direct one. Weights of half precision: only forms
 * that store transformed weights in f32, or multiply pairs in fixed point. */
static reed_status prepare_indirect(const cpu_view *view, const window *w, const activation *act,
                                    reed_kernel *out_kernel) {
  const bool halves = half_is(view->order->plain.dtype), images = conv_has_halves(view->call);
  if (halves && !images && conv_few_is_faster(view->call, view->order, w)) return REED_OK;
  reed_status status = halves || images ? REED_OK : conv_few_prepare(view->call, view->order, w, act, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  return conv_winograd_prepare(view->call, view->order, kept_constant(view), w, act, out_kernel);
}
static bool indirect_is_faster(const cpu_view *view, const window *w, const activation *act) {
  return (!conv_has_halves(view->call) && conv_few_is_faster(view->call, view->order, w)) ||
         conv_winograd_is_faster(view->call, view->order, kept_constant(view), w, act);
}

/* True if constant weights in pairs take less time than the same weights in f32, widened once. Each tap of a transposed
 * convolution, or each row of taps, is a product of its own. Images of halves, which f32 would have to convert, take
 * pairs unless their products are slower. */
static bool pairs_are_faster(const cpu_view *view, const window *w, bool transposed, bool halves) {
  if (!widen_once(view->call, view->unpack.constant)) return true;
  if (halves) return product_pairs_are_fast(cpu_level_now());
  const packed_order *o = view->order;
  const int32_t last = w->n - 1;
  direct_product d = {.pixels = 1,
                      .outputs = (double)o->outputs,
                      .depth = (double)(o->rows * o->columns * o->channels),
                      .rounded_pixels = 1,
                      .channels = (double)o->channels};
  if (transposed) {
    if (w->kernel[last] * o->outputs <= PACKED_WIDTH) d.outputs *= (double)w->kernel[last];
  } else {
    d.rounded_pixels =
        rounded_pixels((double)o->rows, (double)o->columns, (double)w->stride[last], (double)w->dilation[last]);
  }
  return direct_pairs_are_faster(&d, cpu_level_now());
}

/* As activation_read. */
static void activation_of(const op_conv_facts *f, activation *out_activation) {
  *out_activation = (activation){.kind = (activation_kind)(ACTIVATION_NONE + f->activation),
                                 .level = cpu_level_now(),
                                 .alpha = f->alpha,
                                 .beta = f->beta};
}

static reed_status prepare(const cpu_view *view, bool transposed, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  const op_conv_facts *facts = view->facts;
  bool last_in = transposed || !(facts ? facts->first_input : op_attr_int(call->attrs, "channels_first_input"));
  const reed_desc *weights = &call->inputs[1];
  if (!is_computed(call, view->order && last_in && !transposed)) return REED_OK;
  const bool halves = !transposed && conv_has_halves(call);
  window w;
  activation act;
  reed_status status = convolution_check_addends(call);
  if (status != REED_OK) return status;
  if (facts) {
    window_init_conv(call, facts, &w);
    activation_of(facts, &act);
  } else {
    (transposed ? window_init_transposed : window_init)(call, weights->dims + 2, &w);
    activation_read(call, &act);
  }
  window_drop_units(&w);
  if (view->order && last_in && !transposed) {
    status = prepare_indirect(view, &w, &act, out_kernel);
    if (status != REED_OK || out_kernel->run) return status;
    if (half_is(view->order->plain.dtype) && indirect_is_faster(view, &w, &act))
      return REED_OK; /* declined, so that the call is prepared again with weights in f32 */
  }
  if (!packed_computes(view->order, weights->dtype)) return REED_OK;
  if (halves && !view->order->pairs) return REED_OK; /* only pairs and Winograd's form take images of bf16 */
  if (view->order && view->order->pairs && !pairs_are_faster(view, &w, transposed, halves))
    return REED_OK; /* likewise, and images of bf16 in f32 (half.h) */
  if (view->order && !view->order->small_groups) {
    if (last_in && !transposed) status = conv_groups_prepare(call, view->order, &w, &act, out_kernel);
    if (status != REED_OK || out_kernel->run) return status;
    return transposed ? conv_panels_prepare_transposed(call, view->order, &w, &act, out_kernel)
                      : conv_panels_prepare(call, view->order, &w, last_in, &act, out_kernel);
  }
  if (view->last && transposed && !view->order) status = conv_phases_prepare(call, &w, &act, out_kernel);
  if (view->last && last_in && !transposed)
    status = conv_depthwise_prepare(call, view->order != NULL, &w, &act, out_kernel);
  return status;
}

reed_status cpu_prepare_conv(const cpu_view *view, reed_kernel *out_kernel) { return prepare(view, false, out_kernel); }

reed_status cpu_prepare_conv_transpose(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, true, out_kernel);
}
