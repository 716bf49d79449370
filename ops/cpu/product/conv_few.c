/* Planning and running convolutions of few outputs (conv_few.h). The columns of the product are the outputs of all
 * taps, or of the taps of a row; then the depth runs over tap rows and channels. Y is cut into pieces of some rows and
 * columns. A piece computes the products of all pixels that its windows see, [row][column][tap][output], in its
 * worker's part of the workspace, then sums them over the joined taps. Pixels at the border of two pieces are
 * multiplied for both. The bounds of pieces follow from the extents. */
#include "ops/cpu/product/conv_few.h"

#include "ops/cpu/common/relay.h"
#include "ops/cpu/formulas/activation_loops.h"
#include "ops/cpu/product/few_loops.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/product/whole.h"

#define OUTPUTS_MOST 7           /* with more, Winograd's form or a direct convolution is faster */
#define PIECE_PRODUCTS (2 << 20) /* of a piece, about: some 40 us */
#define STEP_PRODUCTS (1 << 20)  /* of a step of a piece, about */
#define PIECE_BYTES (384 << 10)  /* of its products, at most: they stay in the second-level cache */
#define PIECE_PIXELS 64          /* of Y, at least */
#define SUM_PRODUCTS 24          /* that take as long as the sum of a tap's products of a pixel */
#define GAIN .8                  /* of a direct convolution's time, at most: few pixels and short depths are slower */
#define PAIRS_SPEED 2            /* products of pairs of bf16 in the time of one in f32 */
#define ALIGNMENT 16             /* floats */

typedef struct few_plan {
  int64_t images, channels, outputs;
  int64_t joined[2], summed; /* rows and columns of taps that are joined; tap rows that the depth runs over */
  int64_t taps, columns;     /* joined taps, and columns of the product: of their outputs, rounded up */
  int64_t in[2], out[2], kernel[2], dilation[2], pad[2];
  int64_t piece[2], n_pieces[2], seen[2]; /* extents of a piece, numbers of them, pixels of X that a piece sees */
  int64_t step_rows;                      /* of those pixels: their products are a step, the sums are in the last one */
  int level_rows;
  cpu_team team;
  activation activation;
  bool with_bias, with_residual;
  const int64_t *runs; /* distances of the summed tap rows in X */
  int64_t at_taps[];   /* distances of the taps in a piece's products; runs */
} few_plan;

/* ---- plans ---- */

/* Cuts an extent into pieces of equal size, of about `most`. */
static void cut(int64_t extent, int64_t most, int64_t *out_piece, int64_t *out_n) {
  *out_n = divided(extent, larger(most, 1));
  *out_piece = divided(extent, *out_n);
  *out_n = divided(extent, *out_piece);
}

/* Joins the taps of a row, or of all rows, and chooses the pieces. */
static void join(few_plan *plan, bool rows) {
  plan->joined[0] = rows ? plan->kernel[0] : 1;
  plan->joined[1] = plan->kernel[1];
  plan->summed = plan->kernel[0] / plan->joined[0];
  plan->taps = plan->joined[0] * plan->joined[1];
  plan->columns = round_up(plan->taps * plan->outputs, PACKED_STEP);
  int64_t pixels = smaller(PIECE_PRODUCTS / (plan->summed * plan->channels * plan->columns),
                           PIECE_BYTES / (plan->columns * (int64_t)sizeof(float))),
          height = 1;
  pixels = larger(pixels, PIECE_PIXELS);
  while (2 * height * height <= pixels) height++; /* pieces are about twice as wide as high */
  height = rows ? smaller(height, plan->out[0]) : 1;
  cut(plan->out[1], pixels / height, &plan->piece[1], &plan->n_pieces[1]);
  cut(plan->out[0], pixels / plan->piece[1], &plan->piece[0], &plan->n_pieces[0]);
  for (int i = 0; i < 2; i++) plan->seen[i] = plan->piece[i] + (plan->joined[i] - 1) * plan->dilation[i];
  const int64_t of_row = plan->summed * plan->channels * plan->columns * plan->seen[1],
                steps = divided(plan->seen[0], larger(STEP_PRODUCTS / of_row, 1));
  plan->step_rows = divided(plan->seen[0], steps);
}

/* Of a whole piece. */
static int64_t steps_of(const few_plan *plan) { return divided(plan->seen[0], plan->step_rows); }

/* Products of all pieces, and sums counted as products. */
static double time_of(const few_plan *plan) {
  double pieces = (double)plan->images * (double)plan->n_pieces[0] * (double)plan->n_pieces[1], seen = 1, pixels = 1;
  for (int i = 0; i < 2; i++) {
    seen *= (double)smaller(plan->seen[i], plan->in[i]);
    pixels *= (double)plan->piece[i];
  }
  return pieces * (seen * (double)(plan->summed * plan->channels) * (double)plan->columns +
                   pixels * (double)plan->taps * SUM_PRODUCTS);
}

/* Fills in the extents; false: the convolution has another form. */
static bool read_extents(const reed_kernel_call *call, const packed_order *order, const window *w, few_plan *plan) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  if (w->n < 1 || w->n > 2 || order->n_parts != 1 || order->small_groups) return false;
  if (y->dims[1] > OUTPUTS_MOST) return false;
  *plan = (few_plan){.images = x->dims[0], .channels = x->dims[1], .outputs = y->dims[1]};
  for (int i = 0; i < 2; i++) plan->in[i] = plan->out[i] = plan->kernel[i] = plan->dilation[i] = 1;
  for (int32_t i = 0; i < w->n; i++) {
    int axis = 2 - w->n + i;
    if (w->stride[i] != 1) return false;
    plan->in[axis] = w->in[i];
    plan->out[axis] = w->out[i];
    plan->kernel[axis] = w->kernel[i];
    plan->dilation[axis] = w->dilation[i];
    plan->pad[axis] = w->pad_begin[i];
  }
  few_plan of_rows = *plan;
  join(plan, true);
  join(&of_rows, false);
  if (time_of(&of_rows) < time_of(plan)) *plan = of_rows;
  return true;
}

static bool is_faster(const few_plan *plan, bool pairs) {
  double direct = (double)plan->images * (double)plan->out[0] * (double)plan->out[1] *
                  (double)(plan->kernel[0] * plan->kernel[1] * plan->channels) * PACKED_STEP /
                  (pairs ? PAIRS_SPEED : 1);
  return time_of(plan) < GAIN * direct;
}

bool conv_few_is_faster(const reed_kernel_call *call, const packed_order *order, const window *w) {
  few_plan plan;
  return read_extents(call, order, w, &plan) && is_faster(&plan, order->pairs);
}

/* ---- running ---- */

/* Floats: the weights of all taps, in panels, and biases; a piece's products. */
static int64_t depth_of(const few_plan *plan) { return plan->summed * plan->channels; }
static int64_t weights_floats(const few_plan *plan) { return depth_of(plan) * plan->columns; }
static int64_t shared_floats(const few_plan *plan) { return weights_floats(plan) + OUTPUTS_MOST + 1 + FEW_SLACK; }
static int64_t piece_floats(const few_plan *plan) {
  return round_up(plan->seen[0] * plan->seen[1] * plan->columns + FEW_SLACK, ALIGNMENT);
}

/* Packed weights [tap row][tap column][channel][PACKED_STEP] to panels of columns [joined tap][output] (ops/packed.h),
 * whose depth is [summed tap row][channel]. */
static void join_weights(const few_plan *plan, const float *packed, float *joined) {
  memset(joined, 0, (size_t)weights_floats(plan) * sizeof *joined);
  for (int64_t tap = 0; tap < plan->kernel[0] * plan->kernel[1]; tap++)
    for (int64_t o = 0; o < plan->outputs; o++) {
      int64_t column = tap % plan->taps * plan->outputs + o, panel = column / PACKED_WIDTH,
              width = packed_width(plan->columns, panel);
      float *to = joined + panel * PACKED_WIDTH * depth_of(plan) + tap / plan->taps * plan->channels * width +
                  column % PACKED_WIDTH;
      const float *from = packed + tap * plan->channels * PACKED_STEP + o;
      for (int64_t c = 0; c < plan->channels; c++) to[c * width] = from[c * PACKED_STEP];
    }
}

typedef struct few_run {
  const few_plan *plan;
  const float *x, *residual, *joined, *bias;
  float *y, *products;
  void (*multiply)(const panel_tile *tile);
  void (*sum)(const few_row *row);
} few_run;

/* Products of n neighbouring pixels of X with one panel, summed over the tap rows from `tap` up to `tap_end`. */
static void multiply_row(const few_run *run, const float *x, int64_t n, int64_t panel, int64_t tap, int64_t tap_end,
                         float *products) {
  const few_plan *plan = run->plan;
  int64_t tiles = divided(n, plan->level_rows), rows = n / tiles, n_larger = n % tiles,
          width = packed_width(plan->columns, panel);
  panel_tile t = {.runs = plan->runs + tap,
                  .panel = run->joined + panel * PACKED_WIDTH * depth_of(plan) + tap * plan->channels * width,
                  .n_runs = tap_end - tap,
                  .run_length = plan->channels,
                  .a_row = plan->channels,
                  .panel_row = width,
                  .c_row = plan->columns,
                  .width = width,
                  .columns = width,
                  .scale = 1,
                  .first = true,
                  .next_step = divided((int64_t)sizeof(float) * plan->level_rows, plan->summed)};
  for (int larger_ones = 1; larger_ones >= 0; larger_ones--) {
    t.rows = rows + larger_ones;
    t.count = larger_ones ? n_larger : tiles - n_larger;
    t.a = x;
    t.c = products + panel * PACKED_WIDTH;
    t.next = (const char *)(x + plan->runs[tap_end - 1] + t.rows * plan->channels);
    if (t.count > 0) run->multiply(&t);
    x += t.rows * t.count * plan->channels;
    products += t.rows * t.count * plan->columns;
  }
}

/* Products of rows first..end-1 of the pixels of X that a piece sees, from `begin` on; those beyond the image's edges
 * are 0. Rows of products are as far apart in a smaller piece at the end. */
static void multiply_rows(const few_run *run, const float *x, const int64_t *begin, const int64_t *seen, int64_t first,
                          int64_t end, float *products) {
  const few_plan *plan = run->plan;
  int64_t row = plan->seen[1] * plan->columns, left = smaller(larger(-begin[1], 0), seen[1]),
          right = larger(smaller(plan->in[1] - begin[1], seen[1]), left);
  for (int64_t y = first; y < end; y++) {
    float *to = products + y * row;
    int64_t at = begin[0] + y, step = plan->dilation[0], tap = at < 0 ? divided(-at, step) : 0,
            tap_end = at < plan->in[0] ? smaller(divided(plan->in[0] - at, step), plan->summed) : 0;
    bool inside = tap < tap_end && left < right;
    memset(to, 0, (size_t)((inside ? left : seen[1]) * plan->columns) * sizeof *to);
    if (!inside) continue;
    memset(to + right * plan->columns, 0, (size_t)((seen[1] - right) * plan->columns) * sizeof *to);
    const float *from = x + (at * plan->in[1] + begin[1] + left) * plan->channels;
    for (int64_t panel = 0; panel < packed_panels(plan->columns); panel++)
      multiply_row(run, from, right - left, panel, tap, tap_end, to + left * plan->columns);
  }
}

/* A step of a piece: some rows of products, which stay in the place's memory; after all of them the sums. */
static bool run_step(void *context, int64_t i, int64_t step, int32_t place) {
  const few_run *run = context;
  const few_plan *plan = run->plan;
  float *products = run->products + place * piece_floats(plan);
  int64_t at[2] = {i / plan->n_pieces[1] % plan->n_pieces[0] * plan->piece[0], i % plan->n_pieces[1] * plan->piece[1]},
          image = i / plan->n_pieces[1] / plan->n_pieces[0], begin[2], seen[2], n[2];
  for (int axis = 0; axis < 2; axis++) {
    begin[axis] = at[axis] - plan->pad[axis];
    n[axis] = smaller(plan->piece[axis], plan->out[axis] - at[axis]);
    seen[axis] = n[axis] + plan->seen[axis] - plan->piece[axis];
  }
  const int64_t first = step * plan->step_rows, end = smaller(first + plan->step_rows, seen[0]);
  multiply_rows(run, run->x + image * plan->in[0] * plan->in[1] * plan->channels, begin, seen, first, end, products);
  if (end < seen[0]) return true;
  const activation *a = &plan->activation;
  for (int64_t y = 0; y < n[0]; y++) {
    int64_t pixel = ((image * plan->out[0] + at[0] + y) * plan->out[1] + at[1]) * plan->outputs;
    few_row row = {.y = run->y + pixel,
                   .products = products + y * plan->seen[1] * plan->columns,
                   .taps = plan->at_taps,
                   .bias = run->bias,
                   .residual = run->residual ? run->residual + pixel : NULL,
                   .n_taps = plan->taps,
                   .z_pixel = plan->columns,
                   .n = n[1],
                   .outputs = plan->outputs,
                   .relu = a->kind == ACTIVATION_RELU};
    run->sum(&row);
    if (!activation_ends_tiles(a))
      CPU_PICK(a->level, activate_f32)(a->kind, (float)a->alpha, (float)a->beta, row.y, n[1] * plan->outputs);
  }
  return false;
}

/* Whole pieces. */
static void run_pieces(void *context, int64_t begin, int64_t end, int32_t worker) {
  const few_run *run = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&run->plan->team); i++)
    for (int64_t step = 0; run_step(context, i, step, worker); step++) continue;
}

static reed_status run_few(const void *state, const reed_kernel_buffers *buffers) {
  const few_plan *plan = state;
  cpu_level level = plan->activation.level;
  float *joined = buffers->workspace, *bias = joined + weights_floats(plan),
        *products = joined + round_up(shared_floats(plan), ALIGNMENT);
  join_weights(plan, buffers->inputs[1], joined);
  memset(bias, 0, (size_t)(plan->outputs + FEW_SLACK) * sizeof *bias);
  if (plan->with_bias) memcpy(bias, buffers->inputs[2], (size_t)plan->outputs * sizeof *bias);
  few_run run = {.plan = plan,
                 .x = buffers->inputs[0],
                 .residual = plan->with_residual ? buffers->inputs[3] : NULL,
                 .joined = joined,
                 .bias = bias,
                 .y = buffers->outputs[0],
                 .products = products,
                 .multiply = CPU_PICK(level, panel_multiply),
                 .sum = CPU_PICK(level, few_sum)};
  int64_t pieces = plan->images * plan->n_pieces[0] * plan->n_pieces[1];
  return plan->team.threads > 1 && steps_of(plan) > 1
             ? cpu_relay(plan->team, pieces, pieces * steps_of(plan), run_step, &run)
             : cpu_parallel_scratch(plan->team, pieces, 1, run_pieces, &run);
}

reed_status conv_few_prepare(const reed_kernel_call *call, const packed_order *order, const window *w,
                             const activation *act, reed_kernel *out_kernel) {
  few_plan read;
  if (!read_extents(call, order, w, &read) || !is_faster(&read, false)) return REED_OK;
  size_t bytes = sizeof read + (size_t)(read.taps + read.summed) * sizeof(int64_t);
  few_plan *plan = mem_alloc(bytes);
  if (!plan) return cpu_no_memory(call);
  *plan = read;
  plan->activation = *act;
  plan->level_rows = CPU_PICK(act->level, panel_rows)(plan->columns);
  plan->with_bias = cpu_present(call, 2);
  plan->with_residual = cpu_present(call, 3);
  double work = time_of(plan) / PRODUCTS_PER_BYTE;
  plan->team = cpu_team_for(cpu_env_team(call), work < 1e15 ? (int64_t)work : INT64_MAX);
  for (int64_t tap = 0; tap < plan->taps; tap++) {
    int64_t y = tap / plan->kernel[1] * plan->dilation[0], x = tap % plan->kernel[1] * plan->dilation[1];
    plan->at_taps[tap] = (y * plan->seen[1] + x) * plan->columns + tap * plan->outputs;
  }
  int64_t *runs = plan->at_taps + plan->taps;
  for (int64_t y = 0; y < plan->summed; y++) runs[y] = y * plan->dilation[0] * plan->in[1] * plan->channels;
  plan->runs = runs;
  int64_t floats = round_up(shared_floats(plan), ALIGNMENT) + plan->team.threads * piece_floats(plan);
  *out_kernel = (reed_kernel){.run = run_few,
                              .state = plan,
                              .free = mem_free,
                              .workspace_bytes = floats * (int64_t)sizeof(float),
                              .state_bytes = (int64_t)bytes,
                              .variant = "taps joined"};
  return REED_OK;
}
