/* Preparing and running depthwise Conv with channels second: pieces of channels of Y are shared out to threads. The
 * loops are in depthwise_plane_loops.c. */
#include "ops/cpu/product/conv_depthwise_planes.h"

#include "ops/cpu/product/depthwise_plane_loops.h"

#define TAPS_PER_BYTE 2 /* products of a window that take as long as a byte in cpu_team_for's count */
/* Products that take as long as an element of X or Y where these lie in memory. */
#define FAR_PRODUCTS 1
#define ROW_PRODUCTS 40 /* products that take as long as the edges of a row of Y */
#define MOST_PRODUCTS 1e15
#define MULTIPLIER_MOST 4 /* outputs to a channel: more are faster as a product */
#define ROWS_GRAIN 4      /* rows of Y that are computed together */

typedef struct depthwise_planes {
  window w;
  activation activation;
  int64_t planes, outputs, multiplier; /* channels of Y in all images; of one image; outputs to a channel of X */
  int64_t rows_per_item, row_items;
  bool with_bias, with_residual;
  cpu_team team;
} depthwise_planes;

typedef struct planes_run {
  const depthwise_planes *d;
  const float *x, *weights, *bias, *residual;
  float *y;
} planes_run;

/* Items are pieces of channels. */
static void run_items(void *context, int64_t begin, int64_t end) {
  const planes_run *run = context;
  const depthwise_planes *d = run->d;
  const window *w = &d->w;
  for (int64_t i = begin; i < end && !cpu_cancelled(&d->team); i++) {
    int64_t plane = i / d->row_items, row = i % d->row_items * d->rows_per_item, left = w->out[0] - row;
    int64_t y = plane * w->out[0] * w->out[1], output = plane % d->outputs;
    depthwise_plane p = {
        .w = w,
        .activation = &d->activation,
        .row = row,
        .rows = left < d->rows_per_item ? left : d->rows_per_item,
        .x = run->x + plane / d->multiplier * w->in[0] * w->in[1],
        .weights = run->weights + output * w->kernel[0] * w->kernel[1],
        .residual = run->residual ? run->residual + y : NULL,
        .y = run->y + y,
        .bias = run->bias ? run->bias[output] : 0,
    };
    CPU_PICK(d->activation.level, depthwise_plane_rows)(&p);
  }
}

static reed_status run_planes(const void *state, const reed_kernel_buffers *buffers) {
  const depthwise_planes *d = state;
  planes_run run = {d,
                    buffers->inputs[0],
                    buffers->inputs[1],
                    d->with_bias ? buffers->inputs[2] : NULL,
                    d->with_residual ? buffers->inputs[3] : NULL,
                    buffers->outputs[0]};
  return cpu_parallel(d->team, d->planes * d->row_items, 1, run_items, &run);
}

reed_status conv_depthwise_planes_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  window w;
  window_init(call, weights->dims + 2, &w);
  window_drop_units(&w);
  if (w.n > 2 || weights->dims[1] != 1 || y->dims[1] > MULTIPLIER_MOST * x->dims[1]) return REED_OK;
  if (w.n == 1) window_as_row(&w);
  if (w.stride[1] > 2 || (w.stride[1] == 2 && w.dilation[1] != 1)) return REED_OK;
  depthwise_planes *d = mem_calloc(1, sizeof *d);
  if (!d) return cpu_no_memory(call);
  *d = (depthwise_planes){.w = w,
                          .planes = y->dims[0] * y->dims[1],
                          .outputs = y->dims[1],
                          .multiplier = y->dims[1] / x->dims[1],
                          .with_bias = cpu_present(call, 2),
                          .with_residual = cpu_present(call, 3)};
  activation_read(call, &d->activation);
  const int64_t elements = desc_elements(x) + desc_elements(y);
  const double products = (double)desc_elements(y) * (double)w.kernel[0] * (double)w.kernel[1] +
                          (double)d->planes * (double)w.out[0] * ROW_PRODUCTS +
                          (elements > CPU_FAR_ELEMENTS ? (double)elements * FAR_PRODUCTS : 0);
  d->team = cpu_team_for(cpu_env_team(call), products < MOST_PRODUCTS ? (int64_t)products / TAPS_PER_BYTE : INT64_MAX);
  int64_t pieces = d->planes > 0 ? (d->team.chunks + d->planes - 1) / d->planes : 1,
          blocks = (w.out[0] + ROWS_GRAIN - 1) / ROWS_GRAIN;
  if (pieces > blocks) pieces = blocks > 0 ? blocks : 1;
  d->rows_per_item = (blocks + pieces - 1) / pieces * ROWS_GRAIN;
  d->row_items = (w.out[0] + d->rows_per_item - 1) / d->rows_per_item;
  cpu_kernel_set(out_kernel, run_planes, d);
  out_kernel->state_bytes = (int64_t)sizeof *d;
  return REED_OK;
}
