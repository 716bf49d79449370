/* Conv and ConvTranspose (ONNX opset 22) for f32, with bias, residual and activation: choosing the implementation.
 * Packed weights with channels last, which the compiler makes of most convolutions, have kernels that need no
 * preparation per shape (conv_panels.h, conv_depthwise.h). oneDNN computes the rest: 1 to 3 spatial axes, groups,
 * dilations, channels second. The reference computes other dtypes, and calls that oneDNN has no primitive for. The
 * reference: reference/conv.c. */
#include "ops/cpu/calls/convolution.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/onednn/onednn.h"
#include "ops/cpu/product/conv_depthwise.h"
#include "ops/cpu/product/conv_panels.h"
#include "ops/cpu/views/channels.h"
#include "ops/cpu/views/view.h"

/* Images (or boxes) per primitive, unless they are big: more would only enlarge the workspace. */
#define CHUNK_MAX 32
#define CHUNK_BYTES ((int64_t)32 << 20)

typedef struct convolution {
  onednn_runner *runner;
  int n_inputs;
  cpu_team team;
  activation after; /* applied after oneDNN, whose own activation would turn NaN into 0 */
  int64_t n_elements;
} convolution;

static void convolution_free(void *state) {
  convolution *c = state;
  onednn_close(c->runner);
  mem_free(c);
}

static reed_status run_convolution(const void *state, const reed_kernel_buffers *buffers) {
  const convolution *c = state;
  const float *inputs[4] = {NULL};
  for (int i = 0; i < c->n_inputs; i++) inputs[i] = buffers->inputs[i];
  reed_status status =
      onednn_run(c->runner, inputs[0], inputs[1], inputs[2], inputs[3], buffers->outputs[0], buffers->workspace);
  if (status != REED_OK) return reed_kernel_fault(buffers, REED_FAULT_LIBRARY, -1, -1, status, 0);
  return activation_apply(&c->after, c->team, buffers->outputs[0], c->n_elements);
}

/* Gives the dense ONNX weights with oneDNN's axes, [group][out][in][taps...]: W[out][in][taps] of a convolution,
 * W[in][out][taps] of a transposed one. */
static void describe_weights(onednn_problem *p, const reed_desc *weights, int64_t groups, bool transposed) {
  int64_t dense[REED_MAX_RANK], k = 0;
  cpu_dense_strides(weights->rank, weights->dims, dense);
  int out_axis = transposed ? 1 : 0, in_axis = 1 - out_axis;
  int64_t first = weights->dims[0] / groups; /* of axis 0, per group */
  if (groups > 1) {
    p->weights[k] = groups;
    p->weights_strides[k++] = first * dense[0];
  }
  p->weights[k] = transposed ? weights->dims[1] : first;
  p->weights_strides[k++] = dense[out_axis];
  p->weights[k] = transposed ? first : weights->dims[1];
  p->weights_strides[k++] = dense[in_axis];
  for (int32_t i = 2; i < weights->rank; i++) {
    p->weights[k] = weights->dims[i];
    p->weights_strides[k++] = dense[i];
  }
  p->weights_rank = k;
}

static void describe(const reed_kernel_call *call, const window *w, int64_t groups, bool transposed, bool last_in,
                     bool last_out, onednn_problem *p) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  *p = (onednn_problem){.kind = transposed ? ONEDNN_CONV_TRANSPOSE : ONEDNN_CONV, .rank = x->rank, .scale = 1};
  memcpy(p->src, x->dims, (size_t)x->rank * sizeof *p->src);
  memcpy(p->dst, y->dims, (size_t)y->rank * sizeof *p->dst);
  channels_strides(x->rank, x->dims, last_in, p->src_strides);
  channels_strides(y->rank, y->dims, last_out, p->dst_strides);
  p->src_plain = last_in;
  p->dst_plain = last_out;
  describe_weights(p, &call->inputs[1], groups, transposed);
  /* every weight is multiplied with every pixel of its output plane, or of its input plane if transposed */
  p->products = desc_elements(&call->inputs[1]) * cpu_product(transposed ? x->dims : y->dims, 2, x->rank);
  for (int32_t i = 0; i < w->n; i++) {
    p->strides[i] = w->stride[i];
    p->dilations[i] = w->dilation[i] - 1;
    p->pads_begin[i] = w->pad_begin[i];
    /* oneDNN needs pads that give the output's extent exactly; ONNX allows the last window to end early or the output
     * to go on */
    int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    p->pads_end[i] = transposed ? (w->in[i] - 1) * w->stride[i] + reach - w->pad_begin[i] - w->out[i]
                                : (w->out[i] - 1) * w->stride[i] + reach - w->pad_begin[i] - w->in[i];
  }
  p->with_bias = cpu_present(call, 2);
  p->with_residual = cpu_present(call, 3);
}

/* False if some window has no tap on its plane (dilated across it, or all in the pads): oneDNN's generated loops count
 * such a window's taps down from 0 and never end (2.6). */
static bool windows_meet(const window *w, const onednn_problem *p, bool transposed) {
  for (int32_t i = 0; i < w->n; i++) {
    int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1, plane = transposed ? w->out[i] : w->in[i];
    if ((w->kernel[i] > 1 && w->dilation[i] > plane) || p->pads_begin[i] >= span || p->pads_end[i] >= span)
      return false;
  }
  return true;
}

static reed_status prepare(const cpu_view *view, bool transposed, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  bool last_in = transposed || !op_attr_int(call->attrs, "channels_first_input");
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  if (x->dtype != REED_F32 || x->rank > 5 || desc_elements(x) == 0 || desc_elements(weights) == 0) return REED_OK;
  window w;
  activation act;
  onednn_problem problem;
  reed_status status = convolution_check_addends(call);
  if (status != REED_OK) return status;
  (transposed ? window_init_transposed : window_init)(call, weights->dims + 2, &w);
  activation_read(call, &act);
  if (view->order && !view->order->depthwise)
    return transposed ? conv_panels_prepare_transposed(call, view->order, &w, &act, out_kernel)
                      : conv_panels_prepare(call, &w, last_in, &act, out_kernel);
  if (view->last && last_in && !transposed)
    status = conv_depthwise_prepare(call, view->order != NULL, &w, &act, out_kernel);
  if (status != REED_OK || out_kernel->run || view->order) return status;
  describe(call, &w, op_attr_int(call->attrs, "group"), transposed, view->last && last_in, view->last, &problem);
  if (!windows_meet(&w, &problem, transposed)) return REED_OK;
  int64_t image_bytes = (problem.src_strides[0] + problem.dst_strides[0]) * 4, chunk = CHUNK_BYTES / image_bytes;
  chunk = chunk < 1 ? 1 : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;

  convolution *c = mem_calloc(1, sizeof *c);
  if (!c) return cpu_no_memory(call);
  *c = (convolution){
      .n_inputs = call->n_inputs, .team = cpu_env_team(call), .after = act, .n_elements = desc_elements(y)};
  status = onednn_open(call, &problem, x->dims[0], chunk, call->constant[1] ? call->host_values[1] : NULL, &c->runner);
  if (status != REED_OK || !c->runner) {
    mem_free(c);
    return status;
  }
  *out_kernel = (reed_kernel){run_convolution, c, convolution_free, onednn_workspace_bytes(c->runner),
                              onednn_state_bytes(c->runner)};
  return REED_OK;
}

reed_status cpu_prepare_conv(const cpu_view *view, reed_kernel *out_kernel) { return prepare(view, false, out_kernel); }

reed_status cpu_prepare_conv_transpose(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, true, out_kernel);
}
