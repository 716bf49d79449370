/* Conv and ConvTranspose over packed weights, as plans of ops/cpu/product/panels.h. */
#include "ops/cpu/product/conv_panels.h"

#include "ops/cpu/product/panels.h"
#include "ops/cpu/views/half.h"

/* The weights of a transposed convolution of few outputs, with the taps of a row side by side: its outputs are the
 * outputs of neighbouring pixels of Y. Each run joins them in the workspace: for each tap row a matrix
 * [channels][width]. */
typedef struct joined_taps {
  int64_t rows, columns, channels, outputs; /* of the convolution; rows 0: nothing is joined */
  int64_t tap_width, width;                 /* of a row of a tap's packed weights, and of a joined one */
} joined_taps;

/* One plan; for a transposed convolution whose windows do not overlap one plan per tap or row of taps, because each tap
 * writes pixels of its own. */
typedef struct dense_convolution {
  bool with_bias, with_residual;
  joined_taps joined;
  char variant[48];
  int64_t n_plans;
  struct {
    panel_plan *plan;
    int64_t weights, y; /* offsets of its first weight in bytes, and of its first pixel in Y */
  } parts[];
} dense_convolution;

static void dense_free(void *state) {
  dense_convolution *c = state;
  for (int64_t i = 0; i < c->n_plans; i++) panel_plan_close(c->parts[i].plan);
  mem_free(c);
}

/* Floats of the workspace: the matrices, and a bias for each column. */
static int64_t joined_floats(const joined_taps *j) { return (j->rows * j->channels + 1) * j->width; }

/* Joins packed weights and the bias, which may be NULL. */
static void join_taps(const joined_taps *j, const float *packed, const float *bias, float *joined) {
  memset(joined, 0, (size_t)joined_floats(j) * sizeof *joined);
  for (int64_t tap = 0; tap < j->rows * j->columns; tap++)
    for (int64_t c = 0; c < j->channels; c++)
      memcpy(joined + (tap / j->columns * j->channels + c) * j->width + tap % j->columns * j->outputs,
             packed + (tap * j->channels + c) * j->tap_width, (size_t)j->outputs * sizeof *joined);
  float *biases = joined + j->rows * j->channels * j->width;
  for (int64_t x = 0; bias && x < j->columns; x++)
    memcpy(biases + x * j->outputs, bias, (size_t)j->outputs * sizeof *bias);
}

packed_halves conv_halves(const reed_kernel_call *call) {
  const reed_desc *y = &call->outputs[0];
  return (packed_halves){.x = half_is(call->inputs[0].dtype),
                         .residual = half_is(cpu_present(call, 3) ? call->inputs[3].dtype : y->dtype),
                         .y = half_is(y->dtype)};
}

static reed_status run_dense(const void *state, const reed_kernel_buffers *buffers) {
  const dense_convolution *c = state;
  const float *bias = c->with_bias ? buffers->inputs[2] : NULL;
  const char *weights = buffers->inputs[1];
  const void *residual = c->with_residual ? buffers->inputs[3] : NULL;
  float *workspace = buffers->workspace;
  if (c->joined.rows) {
    join_taps(&c->joined, buffers->inputs[1], bias, workspace);
    weights = (const char *)workspace;
    if (bias) bias = workspace + c->joined.rows * c->joined.channels * c->joined.width;
    workspace += joined_floats(&c->joined);
  }
  for (int64_t i = 0; i < c->n_plans; i++) {
    panel_plan *plan = c->parts[i].plan;
    /* several parts write f32 */
    reed_status status = panel_plan_run(plan, buffers->inputs[0], weights + c->parts[i].weights, bias, residual,
                                        (float *)buffers->outputs[0] + c->parts[i].y, workspace);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

static dense_convolution *dense_new(const reed_kernel_call *call, int64_t n_plans) {
  dense_convolution *c = mem_calloc(1, sizeof *c + (size_t)n_plans * sizeof *c->parts);
  if (!c) return NULL;
  c->with_bias = cpu_present(call, 2);
  c->with_residual = cpu_present(call, 3);
  return c;
}

void conv_variant(const char *form, const reed_kernel_call *call, char *out, size_t capacity) {
  const packed_halves halves = conv_halves(call);
  const char *const words[] = {form, halves.x ? ", X bf16" : "", halves.y ? ", Y bf16" : ""};
  size_t n = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (const char *c = words[i]; *c && n + 1 < capacity; c++) out[n++] = *c;
  out[n] = 0;
}

/* Fills in the kernel, after all plans are open. */
static void dense_done(dense_convolution *c, const reed_kernel_call *call, const packed_order *order,
                       reed_kernel *out_kernel) {
  const bool is_f16 = order->plain.dtype == REED_F16;
  conv_variant(panel_plan_is_strassen(c->parts[0].plan) ? (is_f16 ? "Strassen, W f16" : "Strassen")
               : is_f16                                 ? "direct, W f16"
               : !order->pairs                          ? "direct"
               : cpu_level_now() >= CPU_AMX             ? "bf16, amx"
                                                        : "bf16",
               call, c->variant, sizeof c->variant);
  *out_kernel = (reed_kernel){
      .run = run_dense, .state = c, .free = dense_free, .state_bytes = (int64_t)sizeof *c, .variant = c->variant};
  for (int64_t i = 0; i < c->n_plans; i++) {
    int64_t workspace = panel_plan_workspace_bytes(c->parts[i].plan);
    if (workspace > out_kernel->workspace_bytes) out_kernel->workspace_bytes = workspace;
    out_kernel->state_bytes += (int64_t)sizeof *c->parts + panel_plan_state_bytes(c->parts[i].plan);
  }
  if (c->joined.rows) out_kernel->workspace_bytes += joined_floats(&c->joined) * (int64_t)sizeof(float);
}

/* The weights of a part, of which a pair of bf16 is one. */
static int64_t part_weights(const packed_order *order) { return packed_part_elements(order) / (order->pairs ? 2 : 1); }

/* A convolution over one spatial axis is seen as an image of one row. */
static panel_problem problem_of(const reed_kernel_call *call, const packed_order *order, const window *w,
                                int64_t groups, bool x_last, const activation *act) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  panel_problem p = {.images = x->dims[0],
                     .groups = groups,
                     .channels = x->dims[1] / groups,
                     .outputs = y->dims[1] / groups,
                     .activation = *act};
  for (int i = 0; i < PANEL_AXES; i++) p.in[i] = p.out[i] = p.taps[i] = p.stride[i] = p.dilation[i] = 1;
  for (int32_t i = 0; i < w->n; i++) {
    int32_t axis = PANEL_AXES - w->n + i;
    p.in[axis] = w->in[i];
    p.out[axis] = w->out[i];
    p.taps[axis] = w->kernel[i];
    p.stride[axis] = w->stride[i];
    p.dilation[axis] = w->dilation[i];
    p.pad[axis] = w->pad_begin[i];
  }
  p.x_pixel = x_last ? x->dims[1] : 1;
  p.x_row = p.in[2] * p.x_pixel;
  p.x_slab = p.in[1] * p.x_row;
  p.x_channel = x_last ? 1 : p.in[0] * p.x_slab;
  p.x_image = x->dims[1] * p.in[0] * p.in[1] * p.in[2];
  p.channels_first = !x_last;
  p.weights_f16 = order->plain.dtype == REED_F16;
  if (order->pairs) panel_problem_pair(&p, conv_halves(call));
  p.y_pixel = y->dims[1];
  p.y_row = p.out[2] * p.y_pixel;
  p.y_slab = p.out[1] * p.y_row;
  p.y_image = p.out[0] * p.y_slab;
  return p;
}

reed_status conv_panels_prepare(const reed_kernel_call *call, const packed_order *order, const window *w, bool x_last,
                                const activation *act, reed_kernel *out_kernel) {
  panel_problem problem = problem_of(call, order, w, order->n_parts, x_last, act);
  problem.weights_group = part_weights(order);
  dense_convolution *c = dense_new(call, 1);
  if (!c) return cpu_no_memory(call);
  reed_status status = panel_plan_open(call, &problem, &c->parts[0].plan);
  if (status != REED_OK) {
    dense_free(c);
    return status;
  }
  c->n_plans = 1;
  dense_done(c, call, order, out_kernel);
  return REED_OK;
}

reed_status conv_panels_prepare_transposed(const reed_kernel_call *call, const packed_order *order, const window *w,
                                           const activation *act, reed_kernel *out_kernel) {
  /* each tap is a matrix product: pixels of X by channels, weights W[channel][output] */
  panel_problem whole = problem_of(call, order, w, 1, true, act), tap = whole;
  for (int i = 0; i < PANEL_AXES; i++) {
    tap.out[i] = whole.in[i];
    tap.taps[i] = tap.stride[i] = 1;
  }
  tap.y_pixel = whole.taps[2] * whole.outputs;
  tap.y_row = whole.taps[1] * whole.y_row;
  const int64_t columns = whole.taps[2];
  const bool joins = columns > 1 && columns * whole.outputs <= PACKED_WIDTH;
  if (joins && whole.weights_f16) return REED_OK;                  /* taps are joined in f32 */
  dense_convolution *c = dense_new(call, whole.taps[1] * columns); /* two axes at most */
  if (!c) return cpu_no_memory(call);
  if (joins) {
    tap.outputs *= columns;
    c->joined = (joined_taps){.rows = whole.taps[1],
                              .columns = columns,
                              .channels = whole.channels,
                              .outputs = whole.outputs,
                              .tap_width = packed_width(whole.outputs, 0),
                              .width = packed_width(tap.outputs, 0)};
  }
  const int64_t of_plan = joins ? whole.channels * c->joined.width : part_weights(order);
  for (int64_t y = 0; y < whole.taps[1]; y++)
    for (int64_t x = 0; x < (joins ? 1 : columns); x++) {
      c->parts[c->n_plans].weights =
          c->n_plans * of_plan * (int64_t)(whole.weights_f16 ? sizeof(uint16_t) : sizeof(float));
      c->parts[c->n_plans].y = y * whole.y_row + x * whole.outputs;
      reed_status status = panel_plan_open(call, &tap, &c->parts[c->n_plans].plan);
      if (status != REED_OK) {
        dense_free(c);
        return status;
      }
      c->n_plans++;
    }
  dense_done(c, call, order, out_kernel);
  return REED_OK;
}
