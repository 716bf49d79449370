/* Conv of one group over packed weights (ops/cpu/panels.h). */
#include "ops/cpu/conv.h"
#include "ops/cpu/panels.h"

typedef struct dense_convolution {
  panel_plan *plan;
  bool with_bias, with_residual;
} dense_convolution;

static void dense_free(void *state) {
  dense_convolution *c = state;
  panel_plan_close(c->plan);
  mem_free(c);
}

static reed_status run_dense(const void *state, const reed_kernel_buffers *buffers) {
  const dense_convolution *c = state;
  panel_plan_run(c->plan, buffers->inputs[0], c->with_bias ? buffers->inputs[2] : NULL, c->with_residual ? buffers->inputs[3] : NULL,
                 buffers->outputs[0], buffers->workspace);
  return REED_OK;
}

/* One spatial axis counts as the columns of an image of one row. */
static panel_problem problem_of(const reed_kernel_call *call, const window *w, bool x_last, const activation *act) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  panel_problem p = {.images = x->dims[0], .channels = x->dims[1], .outputs = y->dims[1], .activation = *act};
  p.in[0] = p.out[0] = p.taps[0] = p.stride[0] = p.dilation[0] = 1;
  for (int32_t i = 0; i < w->n; i++) {
    int32_t axis = 2 - w->n + i;
    p.in[axis] = w->in[i];
    p.out[axis] = w->out[i];
    p.taps[axis] = w->kernel[i];
    p.stride[axis] = w->stride[i];
    p.dilation[axis] = w->dilation[i];
    p.pad[axis] = w->pad_begin[i];
  }
  p.x_image = p.channels * p.in[0] * p.in[1];
  p.x_pixel = x_last ? p.channels : 1;
  p.x_row = p.in[1] * p.x_pixel;
  p.x_channel = x_last ? 1 : p.in[0] * p.in[1];
  p.y_pixel = p.outputs;
  p.y_row = p.out[1] * p.y_pixel;
  p.y_image = p.out[0] * p.y_row;
  p.w_tap[1] = 1;
  p.w_tap[0] = p.taps[1];
  p.w_channel = p.taps[0] * p.taps[1];
  p.w_output = weights->dims[1] * p.w_channel;
  return p;
}

reed_status conv_panels_prepare(const reed_kernel_call *call, const window *w, bool x_last, const activation *act, reed_kernel *out_kernel) {
  if (w->n > 2 || !call->constant[1]) return REED_OK;
  panel_problem problem = problem_of(call, w, x_last, act);
  dense_convolution *c = mem_calloc(1, sizeof *c);
  if (!c) return cpu_no_memory(call);
  c->with_bias = cpu_present(call, 2);
  c->with_residual = cpu_present(call, 3);
  int64_t weights_bytes = desc_elements(&call->inputs[1]) * (int64_t)sizeof(float);
  reed_status status = panel_plan_open(call, &problem, call->host_values[1], weights_bytes, &c->plan);
  if (status != REED_OK) {
    mem_free(c);
    return status;
  }
  *out_kernel = (reed_kernel){run_dense, c, dense_free, panel_plan_workspace_bytes(c->plan), (int64_t)sizeof *c + panel_plan_state_bytes(c->plan)};
  return REED_OK;
}
