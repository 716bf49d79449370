/* Preparing and running Conv in groups (conv_groups.h): an item of work copies the channels of a group in a band of
 * rows of X side by side, with zeros beside the rows, and multiplies tiles of the copy (panel_loops.h). A pixel of X is
 * copied once for all its windows, and its channels, which lie far apart in X, are read as one run. */
#include "ops/cpu/product/conv_groups.h"

#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/product/turned_loops.h"
#include "ops/cpu/product/whole.h"

#define LINE_FLOATS 16
#define BAND_FLOATS 16384              /* of the rows of X in an item's scratch, about */
#define BAND_LEAST 4                   /* rows of Y of a band, at least */
#define REACH_FLOATS (8 * BAND_FLOATS) /* of the rows of X of a window, at most: with dilation they may be many */
#define COLUMNS_MOST 64 /* of Y: the copies of longer rows leave the first-level cache, and few tiles meet an edge */
#define TAPS_LEAST 5    /* of windows with stride 1: fewer read a pixel too seldom to pay for its copy */
#define DEPTH_MOST 1024 /* of a group's weights, whose panel stays in the second-level cache */

typedef struct conv_groups {
  window w;
  void (*multiply)(const panel_tile *tile);
  void (*turn)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row);
  void (*turn_apart)(const float *from, int64_t from_row, int64_t rows, int64_t width, int64_t columns,
                     const turned_places *places, float *to);
  bool last, with_bias, with_residual, relu; /* last: channels last */
  bool pairs;                                /* weights of bf16 in pairs: X is rounded as it is copied */
  int64_t images, groups, inputs, outputs;   /* of a group */
  int64_t units;                             /* floats of a group's pixel in the copy: inputs, or pairs of them */
  int64_t tiles;                             /* of a row */
  int64_t band, bands;                       /* rows of Y of a band */
  int64_t row;                               /* floats of a row of the copy */
  int64_t x_floats, w_floats, scratch;       /* of a thread's scratch: X, then weights, then Y */
  int64_t run_length, row_runs;              /* a run: taps of a row if they are adjacent, or one tap */
  cpu_team team;
  int64_t runs[]; /* of all tap rows, in the copy */
} conv_groups;

typedef struct groups_run {
  const conv_groups *c;
  const float *x, *weights, *bias, *residual;
  float *y, *workspace;
} groups_run;

/* Columns of X that windows of a row reach, from -pad on, and those of them that X has. */
static int64_t columns_of(const window *w) {
  return (w->out[1] - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
}
static void columns_inside(const window *w, int64_t *out_begin, int64_t *out_end) {
  const int64_t n = columns_of(w);
  *out_begin = cpu_clamp(w->pad_begin[1], 0, n);
  *out_end = cpu_clamp(w->in[1] + w->pad_begin[1], *out_begin, n);
}

/* Rounds n values of each of `pixels` pixels to pairs. */
static void round_pixels(const float *from, int64_t from_pixel, int64_t pixels, int64_t n, float *to) {
#ifdef CPU_HAS_BF16_LOOPS
  panel_pairs_convert_pixels(from, from_pixel, pixels, n, to);
#else
  (void)from, (void)from_pixel, (void)pixels, (void)n, (void)to;
#endif
}

/* Copies rows row .. end of X of a group's channels. */
static void copy_rows(const groups_run *run, int64_t image, int64_t group, int64_t row, int64_t end, float *to) {
  const conv_groups *c = run->c;
  const window *w = &c->w;
  const int64_t channels = c->groups * c->inputs, plane = w->in[0] * w->in[1];
  int64_t inside, outside;
  columns_inside(w, &inside, &outside);
  const int64_t n = outside - inside, first = inside - w->pad_begin[1]; /* column of X */
  for (int64_t i = 0; i < end - row; i++) {
    memset(to + i * c->row, 0, (size_t)(inside * c->units) * sizeof *to);
    memset(to + i * c->row + outside * c->units, 0, (size_t)(c->row - outside * c->units) * sizeof *to);
  }
  if (n == 0) return;
  to += inside * c->units;
  if (!c->last) {
    const int64_t together = n == w->in[1] ? end - row : 1; /* rows whose pixels follow each other */
    for (int64_t i = row; i < end; i += together, to += together * c->row)
      c->turn_apart(run->x + (image * channels + group * c->inputs) * plane + i * w->in[1] + first, plane, c->inputs,
                    c->inputs, together * n, &(turned_places){n, c->inputs, c->row}, to);
    return;
  }
  for (; row < end; row++, to += c->row) {
    const float *from = run->x + ((image * w->in[0] + row) * w->in[1] + first) * channels + group * c->inputs;
    if (c->pairs) {
      round_pixels(from, channels, n, c->inputs, to);
      continue;
    }
    for (int64_t i = 0; i < n; i++, from += channels)
      for (int64_t k = 0; k < c->inputs; k += LINE_FLOATS)
        memcpy(to + i * c->inputs + k, from + k, LINE_FLOATS * sizeof *to);
  }
}

/* The tiles of row `row` of Y, whose windows begin with row `first` of the copy: column 0 is at y and residual. `tile`
 * has all else of the group, and is changed in place: a copy would wait for the stores before it. */
static void multiply_row(const conv_groups *c, panel_tile *tile, const float *panel, const float *copy, int64_t row,
                         int64_t first, float *y, const float *residual) {
  const window *w = &c->w;
  window_taps taps = window_taps_at(w, 0, row);
  if (taps.n == 0) taps.first = 0;
  const float *a = copy + (row * w->stride[0] - w->pad_begin[0] - first) * c->row;
  tile->runs = c->runs + taps.first * c->row_runs;
  tile->n_runs = taps.n * c->row_runs;
  tile->panel = panel + taps.first * w->kernel[1] * c->units * c->outputs;
  tile->next = tile->panel;
  for (int64_t i = 0; i < c->tiles; i++) {
    const int64_t column = w->out[1] * i / c->tiles;
    tile->rows = w->out[1] * (i + 1) / c->tiles - column;
    tile->a = a + column * tile->a_row;
    tile->c = y + column * tile->c_row;
    tile->residual = residual ? residual + column * tile->c_row : NULL;
    c->multiply(tile);
  }
}

/* Rows `row` .. end of Y of a group. */
static void run_item(const groups_run *run, int64_t image, int64_t group, int64_t row, int64_t end, float *scratch) {
  const conv_groups *c = run->c;
  const window *w = &c->w;
  const int64_t taps = w->kernel[0] * w->kernel[1], part = taps * c->units * c->outputs;
  float *weights = scratch + c->x_floats, *stage = weights + c->w_floats;
  const int64_t first = row * w->stride[0] - w->pad_begin[0],
                last = (end - 1) * w->stride[0] - w->pad_begin[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
  const int64_t from = larger(first, 0);
  copy_rows(run, image, group, from, smaller(last, w->in[0]), scratch + (from - first) * c->row);
  if (!c->last)
    c->turn_apart(run->weights + group * part, c->inputs * taps, c->outputs, c->outputs, c->inputs * taps,
                  &(turned_places){taps, c->inputs * c->outputs, c->outputs}, weights);
  const float *panel = c->last ? run->weights + group * part : weights;
  panel_tile tile = {.bias = run->bias ? run->bias + group * c->outputs : NULL,
                     .run_length = c->run_length,
                     .a_row = w->stride[1] * c->units,
                     .panel_row = c->outputs,
                     .c_row = c->last ? c->groups * c->outputs : c->outputs,
                     .width = c->outputs,
                     .columns = c->outputs,
                     .count = 1,
                     .scale = 1,
                     .first = true,
                     .relu = c->relu};
  const int64_t plane = w->out[0] * w->out[1], pixels = (end - row) * w->out[1],
                at = c->last ? (image * plane + row * w->out[1]) * tile.c_row + group * c->outputs
                             : (image * c->groups + group) * c->outputs * plane + row * w->out[1];
  if (!c->last && run->residual) c->turn(run->residual + at, plane, c->outputs, pixels, stage, c->outputs);
  float *y = c->last ? run->y + at : stage;
  const float *residual = !run->residual ? NULL : c->last ? run->residual + at : stage;
  for (int64_t i = row; i < end; i++) {
    const int64_t y_row = (i - row) * w->out[1] * tile.c_row;
    multiply_row(c, &tile, panel, scratch, i, first, y + y_row, residual ? residual + y_row : NULL);
  }
  if (!c->last) c->turn(stage, c->outputs, pixels, c->outputs, run->y + at, plane);
}

/* Items are bands of groups of images. */
static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const groups_run *run = context;
  const conv_groups *c = run->c;
  for (int64_t i = begin; i < end && !cpu_cancelled(&c->team); i++) {
    const int64_t row = i % c->bands * c->band, group = i / c->bands % c->groups;
    run_item(run, i / c->bands / c->groups, group, row, smaller(row + c->band, c->w.out[0]),
             run->workspace + worker * c->scratch);
  }
}

static reed_status run_groups(const void *state, const reed_kernel_buffers *buffers) {
  const conv_groups *c = state;
  groups_run run = {.c = c,
                    .x = buffers->inputs[0],
                    .weights = buffers->inputs[1],
                    .bias = c->with_bias ? buffers->inputs[2] : NULL,
                    .residual = c->with_residual ? buffers->inputs[3] : NULL,
                    .y = buffers->outputs[0],
                    .workspace = buffers->workspace};
  return cpu_parallel_scratch(c->team, c->images * c->groups * c->bands, 1, run_items, &run);
}

/* Chooses bands. */
static void share(conv_groups *c) {
  const window *w = &c->w;
  const int64_t reach = (w->kernel[0] - 1) * w->dilation[0] + 1, least = smaller(BAND_LEAST, w->out[0]),
                fit = (BAND_FLOATS / c->row - reach) / w->stride[0] + 1, items = c->images * c->groups;
  c->bands = divided(w->out[0], cpu_clamp(fit, least, w->out[0]));
  if (c->team.threads > 1) c->bands = larger(c->bands, smaller(divided(c->team.chunks, items), w->out[0] / least));
  c->band = divided(w->out[0], c->bands);
  c->bands = divided(w->out[0], c->band);
  c->x_floats = ((c->band - 1) * w->stride[0] + reach) * c->row;
  c->w_floats = c->last ? 0 : w->kernel[0] * w->kernel[1] * c->inputs * c->outputs;
  c->scratch = c->x_floats + c->w_floats + (c->last ? 0 : c->band * w->out[1] * c->outputs);
}

static bool is_faster(const window *w, int64_t inputs) {
  const int64_t taps = w->kernel[0] * w->kernel[1], row = columns_of(w) * inputs;
  return w->out[1] <= COLUMNS_MOST && row <= BAND_FLOATS && taps * inputs <= DEPTH_MOST &&
         (w->kernel[0] - 1) * w->dilation[0] < REACH_FLOATS / row &&
         (taps >= TAPS_LEAST || (taps > 1 && (w->stride[0] > 1 || w->stride[1] > 1)));
}

reed_status conv_groups_prepare(const reed_kernel_call *call, const packed_order *order, const window *given,
                                const activation *act, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  const int64_t groups = order ? order->n_parts : op_attr_int(call->attrs, "group"), inputs = x->dims[1] / groups,
                outputs = y->dims[1] / groups;
  window w = *given;
  if (w.n == 1) window_as_row(&w);
  const bool pairs = order && order->pairs && act->level == CPU_AVX512_BF16;
  const int64_t units = pairs ? inputs / 2 : inputs;
  if (groups == 1 || w.n > 2 || x->dtype != REED_F32 || y->dtype != REED_F32 ||
      (call->inputs[1].dtype != REED_F32 && !pairs) || (cpu_present(call, 3) && call->inputs[3].dtype != REED_F32) ||
      !activation_ends_tiles(act) || desc_elements(y) == 0 || inputs % LINE_FLOATS != 0 || outputs % PACKED_STEP != 0 ||
      outputs > PACKED_WIDTH || !is_faster(&w, units))
    return REED_OK;
  const int64_t tap_rows = w.kernel[0], tap_columns = w.kernel[1];
  const bool joined = w.dilation[1] == 1;
  conv_groups *c = mem_calloc(1, sizeof *c + (size_t)(tap_rows * tap_columns) * sizeof *c->runs);
  if (!c) return cpu_no_memory(call);
  *c = (conv_groups){.w = w,
                     .multiply = CPU_PICK(act->level, panel_multiply),
                     .turn = CPU_PICK(act->level, turn_rows),
                     .turn_apart = CPU_PICK(act->level, turn_apart),
                     .last = order != NULL,
                     .with_bias = cpu_present(call, 2),
                     .with_residual = cpu_present(call, 3),
                     .relu = act->kind == ACTIVATION_RELU,
                     .images = x->dims[0],
                     .groups = groups,
                     .pairs = pairs,
                     .inputs = inputs,
                     .outputs = outputs,
                     .units = units,
                     .tiles = divided(w.out[1], CPU_PICK(act->level, panel_rows)(outputs)),
                     .row = columns_of(&w) * units,
                     .run_length = joined ? tap_columns * units : units,
                     .row_runs = joined ? 1 : tap_columns};
  for (int64_t i = 0; i < tap_rows; i++)
    for (int64_t k = 0; k < c->row_runs; k++)
      c->runs[i * c->row_runs + k] = i * w.dilation[0] * c->row + k * w.dilation[1] * units;
#ifdef CPU_HAS_BF16_LOOPS
  if (pairs) c->multiply = panel_pairs_multiply;
#endif
  const double products = (double)desc_elements(y) * (double)(tap_rows * tap_columns * units);
  c->team = cpu_team_for(cpu_env_team(call), products < 1e15 ? (int64_t)products / PRODUCTS_PER_BYTE : INT64_MAX);
  share(c);
  *out_kernel = (reed_kernel){.run = run_groups,
                              .state = c,
                              .free = mem_free,
                              .workspace_bytes = c->team.threads * c->scratch * (int64_t)sizeof(float),
                              .state_bytes = (int64_t)sizeof *c + tap_rows * tap_columns * (int64_t)sizeof *c->runs,
                              .variant = !c->last ? NULL
                                         : pairs  ? "bf16"
                                                  : "direct"};
  return REED_OK;
}
