/* Deformable convolutions, f32; weights and result may be halves. Blocks of output pixels are shared out, each in
 * steps of some outputs. The samples of a block, channels side by side, are rows of a matrix
 * [pixels][groups][taps][channels of a group] that stays in a near cache and is multiplied by the weights, which each
 * run puts into panels. An image with its channels second is copied to one with channels last. The backward operator:
 * deform_backward.c; the reference: reference/deform.c. */
#include "ops/cpu/common/convert.h"
#include "ops/cpu/product/deform_parts.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/views/half.h"

#define BLOCK_FLOATS (48 << 10) /* of a block's samples */
#define BLOCK_LEAST 8           /* pixels */
#define BLOCK_MOST 64
#define PACK_CHANNELS 16        /* of a panel of weights, packed at a time: an even number */
#define STEP_PRODUCTS (1 << 20) /* of a step, about */
#define STEP_SAMPLES (24 << 10) /* likewise */

typedef struct forward {
  deform d;
  strided_copy to_last;
  int64_t depth;                 /* taps * channels of a group */
  bool pairs;                    /* products of bf16, with sums of f32: samples are rounded */
  int64_t inner;                 /* elements of the products' depth: floats, or pairs */
  int64_t panels, group_weights; /* of a group */
  int64_t block, n_blocks;       /* pixels of a block; blocks of an image */
  int64_t step_pixels;           /* of a block, whose samples are a step */
  int64_t step_panels;           /* of the products of a block, that a step computes; or if it is one, */
  int64_t step_depth, n_depths;  /* part of its depth, of so many */
  /* the workspace in floats: the image with channels last, weights, bias, then each worker's memory */
  int64_t weights_at, bias_at, workers_at, worker_floats, samples_at, result_at, turned_at;
  convert_fn narrow; /* of a result of halves; else NULL */
} forward;

typedef struct job {
  const forward *f;
  const reed_kernel_buffers *buffers;
  const float *x; /* channels last */
  float *room;
} job;

/* Channels begin..end-1 of one panel of weights of bf16: [tap][pair of channels][output]. `from`: the first of n
 * outputs. */
static void pack_pairs(const forward *f, const uint16_t *from, int64_t begin, int64_t end, int64_t n, int64_t width,
                       float *panel) {
  const deform *d = &f->d;
  for (int64_t tap = 0; tap < d->taps; tap++) {
    float *to = panel + (tap * d->group_channels + begin) / 2 * width;
    for (int64_t c = begin; c < end; c += 2, to += width) {
      for (int64_t o = 0; o < n; o++) {
        const uint16_t *first = from + o * f->depth + c * d->taps + tap;
        const uint32_t pair = first[0] | (uint32_t)first[d->taps] << 16;
        memcpy(to + o, &pair, sizeof pair);
      }
      memset(to + n, 0, (size_t)(width - n) * sizeof *to);
    }
  }
}

static int64_t pack_pieces(const deform *d) { return divided(d->group_channels, PACK_CHANNELS); }

/* Pieces begin..end-1 of channels of the panels of all groups' weights: [tap][channel][output]. */
static void pack_panels(void *context, int64_t begin, int64_t end, int32_t number) {
  const job *j = context;
  const deform *d = &j->f->d;
  float *widened = j->room + j->f->workers_at + number * j->f->worker_floats + j->f->samples_at;
  for (int64_t i = begin; i < end && !cpu_cancelled(&d->team); i++) {
    const int64_t panel = i / pack_pieces(d), group = panel / j->f->panels,
                  output = panel % j->f->panels * DEFORM_PANEL, n = smaller(d->group_outputs - output, DEFORM_PANEL),
                  width = round_up(n, DEFORM_LANES), channel = i % pack_pieces(d) * PACK_CHANNELS,
                  after = smaller(channel + PACK_CHANNELS, d->group_channels), length = (after - channel) * d->taps,
                  first = (group * d->group_outputs + output) * j->f->depth;
    float *to = j->room + j->f->weights_at + group * j->f->group_weights + output * j->f->inner;
    if (j->f->pairs) {
      pack_pairs(j->f, (const uint16_t *)j->buffers->inputs[d->at.weight] + first, channel, after, n, width, to);
      continue;
    }
    const float *from[DEFORM_PANEL];
    for (int64_t o = 0; o < n; o++)
      from[o] =
          deform_weights(d, j->buffers, first + o * j->f->depth + channel * d->taps, length, widened + o * length);
    for (int64_t tap = 0; tap < d->taps; tap++)
      for (int64_t c = channel; c < after; c++) {
        float *row = to + (tap * d->group_channels + c) * width;
        for (int64_t o = 0; o < n; o++) row[o] = from[o][(c - channel) * d->taps + tap];
        memset(row + n, 0, (size_t)(width - n) * sizeof *row);
      }
  }
}

/* Samples of some pixels of a block, from number `at` of it on, in rows of `depth` for each group. */
static void sample_pixels(const job *j, deform_block *block, int64_t at, float *worker) {
  const deform *d = &j->f->d;
  deform_tap *taps = (deform_tap *)worker;
  float *samples = worker + j->f->samples_at + at * d->s.groups * j->f->depth;
  const float *x = j->x + block->image * d->channels * deform_in_pixels(d);
  for (block->group = 0; block->group < d->s.offset_groups; block->group++) {
    deform_fill_taps(d, j->buffers, block, taps, NULL);
    int64_t end = (block->group + 1) * d->offset_channels;
    for (int64_t c = block->group * d->offset_channels; c < end;) { /* to the end of a group of either kind */
      int64_t group = c / d->group_channels, in_group = c % d->group_channels,
              n = smaller(end, (group + 1) * d->group_channels) - c;
      float *to = samples + group * j->f->depth + in_group;
      for (int64_t i = 0; i < block->n; i++) CPU_PICK(d->level, deform_sample_taps)
      (taps + i * d->taps, d->taps, x + c, n, to + i * d->s.groups * j->f->depth, d->group_channels);
      c += n;
    }
  }
  for (int64_t i = 0; i < block->n * d->s.groups && j->f->pairs; i++)
    panel_pairs_convert(samples + i * j->f->depth, j->f->depth, samples + i * j->f->depth);
}

/* Writes the block's results of a group, which are pixel by pixel, in the order and the dtype of Y. */
static void write_results(const job *j, const deform_block *block, int64_t group, float *worker) {
  const forward *f = j->f;
  const deform *d = &f->d;
  const float *from = worker + f->result_at;
  int64_t at = block->image * d->output.image + block->first * d->output.pixel +
               group * d->group_outputs * d->output.channel,
          rows = block->n, length = d->group_outputs, row = d->output.pixel;
  if (!d->last) {
    float *turned = f->narrow ? worker + f->turned_at : (float *)j->buffers->outputs[0] + at;
    deform_transpose(from, length, rows, length, turned, f->narrow ? rows : d->output.channel);
    from = turned;
    rows = d->group_outputs;
    length = block->n;
    row = d->output.channel;
  }
  for (int64_t i = 0; i < rows && f->narrow; i++)
    f->narrow((uint16_t *)j->buffers->outputs[0] + at + i * row, from + i * length, length);
}

/* The product of a block's samples and a panel of a group's weights, from depth k on by the depth of a step. */
static void multiply_panel(const job *j, const deform_block *block, int64_t group, int64_t panel, int64_t k,
                           float *worker) {
  const forward *f = j->f;
  const deform *d = &f->d;
  const bool in_place = d->last && !f->narrow;
  const int64_t output = panel * DEFORM_PANEL, columns = smaller(d->group_outputs - output, DEFORM_PANEL);
  float *to = worker + f->result_at;
  if (in_place)
    to = (float *)j->buffers->outputs[0] + block->image * d->output.image + block->first * d->output.pixel +
         group * d->group_outputs;
  const int64_t b_row = round_up(columns, DEFORM_LANES); /* rows of the last panel may be shorter */
  deform_product p = {.a = worker + f->samples_at + group * f->depth + k,
                      .b = j->room + f->weights_at + group * f->group_weights + output * f->inner + k * b_row,
                      .bias = d->at.bias >= 0 ? j->room + f->bias_at + group * d->group_outputs + output : NULL,
                      .c = to + output,
                      .rows = block->n,
                      .depth = smaller(f->step_depth, f->inner - k),
                      .add = k > 0,
                      .columns = columns,
                      .a_row = d->s.groups * f->depth,
                      .b_row = b_row,
                      .b_panel = DEFORM_PANEL * f->inner,
                      .pairs = f->pairs,
                      .c_row = in_place ? d->outputs : d->group_outputs};
  deform_multiply(d->level, &p);
  if (!in_place && panel + 1 == f->panels && k + p.depth == f->inner) write_results(j, block, group, worker);
}

/* A step of a block of pixels: the samples of some of them, or then some panels of the groups' products. */
static bool run_step(void *context, int64_t item, int64_t step, int32_t place) {
  const job *j = context;
  const forward *f = j->f;
  float *worker = j->room + f->workers_at + place * f->worker_floats;
  const int64_t first = item % f->n_blocks * f->block, panels = f->d.s.groups * f->panels,
                pixels = smaller(f->block, deform_pixels(&f->d) - first), before = divided(f->block, f->step_pixels),
                number = step - before, begin = number / f->n_depths * f->step_panels,
                end = smaller(begin + f->step_panels, panels);
  deform_block block = {.image = item / f->n_blocks, .first = first, .n = pixels};
  if (step < before) {
    const int64_t at = smaller(step * f->step_pixels, pixels);
    block.first += at;
    block.n = smaller(f->step_pixels, pixels - at);
    sample_pixels(j, &block, at, worker);
    return true;
  }
  for (int64_t i = begin; i < end; i++)
    multiply_panel(j, &block, i / f->panels, i % f->panels, number % f->n_depths * f->step_depth, worker);
  return end < panels || number % f->n_depths + 1 < f->n_depths;
}

static reed_status run_forward(const void *state, const reed_kernel_buffers *buffers) {
  const forward *f = state;
  const deform *d = &f->d;
  float *room = buffers->workspace;
  job j = {f, buffers, d->last ? buffers->inputs[d->at.input] : room, room};
  reed_status status = d->last ? REED_OK : strided_run(&f->to_last, buffers->inputs[d->at.input], room);
  if (status != REED_OK) return status;
  if (d->at.bias >= 0) memcpy(room + f->bias_at, buffers->inputs[d->at.bias], (size_t)d->outputs * sizeof *room);
  status = cpu_parallel_scratch(cpu_team_for(d->team, d->outputs * f->depth * 8),
                                d->s.groups * f->panels * pack_pieces(d), 1, pack_panels, &j);
  if (status != REED_OK) return status;
  const int64_t items = d->images * f->n_blocks;
  const int64_t steps =
      divided(f->block, f->step_pixels) + divided(d->s.groups * f->panels, f->step_panels) * f->n_depths;
  return cpu_relay(d->team, items, items * steps, run_step, &j);
}

static void choose(forward *f) {
  deform *d = &f->d;
  int64_t pixels = deform_pixels(d), samples = d->channels * d->taps;
  deform_plan_last(d, d->team, false, &f->to_last);
  if (half_is(d->weight_dtype)) f->narrow = convert_between(d->level, REED_F32, d->weight_dtype);
  f->depth = d->taps * d->group_channels;
  f->pairs = deform_takes_pairs(d, d->group_channels);
  f->inner = f->pairs ? f->depth / 2 : f->depth;
  f->panels = divided(d->group_outputs, DEFORM_PANEL);
  f->group_weights = round_up(d->group_outputs, DEFORM_LANES) * f->inner;
  f->block = cpu_clamp(BLOCK_FLOATS / samples, BLOCK_LEAST, BLOCK_MOST);
  f->block = cpu_clamp(divided(d->images * pixels, 4 * d->team.threads), 1, smaller(f->block, pixels));
  f->n_blocks = divided(pixels, f->block);
  f->step_pixels = cpu_clamp(divided(f->block, divided(f->block * samples, STEP_SAMPLES)), 1, f->block);
  f->step_panels = cpu_clamp(STEP_PRODUCTS / (f->block * f->inner * DEFORM_PANEL), 1, d->s.groups * f->panels);
  f->step_depth = f->inner;
  if (f->step_panels == 1 && d->team.threads > 1)
    f->step_depth = larger(STEP_PRODUCTS / (f->block * DEFORM_PANEL * DEFORM_DEPTH), 1) * DEFORM_DEPTH;
  f->n_depths = divided(f->inner, f->step_depth);
  f->weights_at = d->last ? 0 : round_up(d->images * d->channels * deform_in_pixels(d), DEFORM_LANES);
  f->bias_at = f->weights_at + d->s.groups * f->group_weights;
  f->workers_at = f->bias_at + round_up(d->outputs, DEFORM_LANES) + DEFORM_PANEL;
  f->samples_at = round_up(f->block * d->taps * (int64_t)(sizeof(deform_tap) / sizeof(float)), DEFORM_LANES);
  int64_t results = round_up(f->block * d->group_outputs, DEFORM_LANES),
          widened = f->narrow ? smaller(d->group_outputs, DEFORM_PANEL) * f->depth : 0; /* of a panel */
  f->result_at = f->samples_at + round_up(larger(f->block * samples, widened), DEFORM_LANES);
  f->turned_at = f->result_at + (d->last && !f->narrow ? 0 : results);
  f->worker_floats = f->turned_at + (d->last || !f->narrow ? 0 : results);
  int64_t work = d->images * pixels * samples; /* of samples and products, in cpu_team_for's count */
  d->team = cpu_team_for(d->team, work * (16 + d->group_outputs / 8));
}

reed_status cpu_prepare_deform_conv(const reed_kernel_call *call, reed_kernel *out_kernel) {
  forward f = {0};
  reed_status status = deform_read(call, &f.d);
  if (status != REED_OK || f.d.dtype != REED_F32 || deform_is_empty(&f.d)) return status;
  choose(&f);
  void *state = mem_copy(&f, sizeof f);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_forward, state);
  out_kernel->workspace_bytes = (f.workers_at + f.d.team.threads * f.worker_floats) * (int64_t)sizeof(float);
  return REED_OK;
}
