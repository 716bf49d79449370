/* Gradients of deformable convolutions, f32; weights and their gradients may be halves. A unit is a range of channels
 * in one group of weights and one of offsets: it owns the gradients of its channels of the input and of the weights,
 * and computes, pixel block by pixel block, the gradients of its samples (a product of the output's gradients and the
 * weights). Gradients of offsets and masks are sums over the units of an offset group; the units' parts are kept for a
 * band of pixels and then added up. Units, blocks and bands follow from the extents alone and each sum has one order,
 * so the number of threads changes no bits. The forward operator: deform.c; the reference: reference/deform.c. */
#include "ops/cpu/common/convert.h"
#include "ops/cpu/product/deform_parts.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/views/half.h"

#define UNIT_CHANNELS 32
#define BLOCK_FLOATS (12 << 10) /* of a unit's samples of a block */
#define BLOCK_LEAST 8           /* pixels */
#define BLOCK_MOST 64
#define BAND_PIXELS 2048
#define PARTS 3         /* of a unit's share in a tap's gradients: by y, by x, by the mask */
#define PART_PIXELS 512 /* of a tap, whose parts are added up at a time */

typedef struct backward {
  deform d;
  bool wants[DEFORM_GRADS];
  strided_copy to_last, from_last;
  int64_t unit, group_units, n_units; /* channels; units of the smaller kind of group; all units */
  int64_t group_size;                 /* channels of the smaller kind of group */
  int64_t row;                        /* of a unit's matrices: taps * channels, rounded up */
  int64_t block, band;                /* pixels */
  bool pairs; /* the products of gradients and weights, both bf16, take pairs, which loses nothing */
  /* the workspace in floats: image and its gradient with channels last; the units' weights, gradients of weights and
   * parts of a band; then each worker's memory */
  int64_t grad_at, weights_at, sums_at, parts_at, workers_at, worker_floats;
  int64_t slopes_at, samples_at, product_at, other_at, pairs_at; /* in a worker's memory, after its taps */
} backward;

typedef struct job {
  const backward *b;
  const reed_kernel_buffers *buffers;
  const float *x; /* channels last */
  float *grad_x;  /* like x */
  float *room;
  int64_t image, band; /* the band's first pixel */
  int64_t band_pixels;
} job;

/* Channels first.. first + n of group `group` of weights and `offset_group` of offsets. */
typedef struct unit {
  int64_t first, n, group, offset_group;
} unit;

static unit unit_at(const backward *b, int64_t i) {
  int64_t small_group = i / b->group_units, in_group = i % b->group_units * b->unit,
          first = small_group * b->group_size + in_group;
  return (unit){first, smaller(b->unit, b->group_size - in_group), first / b->d.group_channels,
                first / b->d.offset_channels};
}

/* The unit's first weight of an output of its group. */
static int64_t weights_of(const deform *d, const unit *u, int64_t output) {
  return ((u->group * d->group_outputs + output) * d->group_channels + u->first % d->group_channels) * d->taps;
}

static float *worker_at(const job *j, int32_t number) {
  return j->room + j->b->workers_at + number * j->b->worker_floats;
}

/* The unit's columns of weights of bf16, [pair of outputs of the group][tap][channel]. */
static void gather_pairs(const job *j, const unit *u, float *to) {
  const deform *d = &j->b->d;
  for (int64_t o = 0; o < d->group_outputs; o += 2, to += j->b->row) {
    const uint16_t *first = (const uint16_t *)j->buffers->inputs[d->at.weight] + weights_of(d, u, o),
                   *second = first + d->group_channels * d->taps;
    for (int64_t tap = 0; tap < d->taps; tap++)
      for (int64_t c = 0; c < u->n; c++) {
        const uint32_t pair = first[c * d->taps + tap] | (uint32_t)second[c * d->taps + tap] << 16;
        memcpy(to + tap * u->n + c, &pair, sizeof pair);
      }
  }
}

/* Copies the units' columns of the weights, [outputs of the group][tap][channel]. */
static void gather_weights(void *context, int64_t begin, int64_t end, int32_t number) {
  const job *j = context;
  const deform *d = &j->b->d;
  for (int64_t i = begin; i < end && !cpu_cancelled(&d->team); i++) {
    unit u = unit_at(j->b, i);
    float *to = j->room + j->b->weights_at + i * d->group_outputs * j->b->row;
    if (j->b->pairs) gather_pairs(j, &u, to);
    for (int64_t o = 0; o < d->group_outputs && !j->b->pairs; o++, to += j->b->row) {
      const float *from =
          deform_weights(d, j->buffers, weights_of(d, &u, o), u.n * d->taps, worker_at(j, number) + j->b->product_at);
      for (int64_t tap = 0; tap < d->taps; tap++)
        for (int64_t c = 0; c < u.n; c++) to[tap * u.n + c] = from[c * d->taps + tap];
    }
  }
}

/* Writes the units' gradients of the weights in the weights' order. */
static void scatter_weights(void *context, int64_t begin, int64_t end, int32_t number) {
  const job *j = context;
  const deform *d = &j->b->d;
  const convert_fn write = convert_between(d->level, REED_F32, d->weight_dtype);
  const bool halves = half_is(d->weight_dtype);
  float *turned = worker_at(j, number) + j->b->product_at;
  for (int64_t i = begin; i < end && !cpu_cancelled(&d->team); i++) {
    unit u = unit_at(j->b, i);
    const float *from = j->room + j->b->sums_at + i * d->group_outputs * j->b->row;
    for (int64_t o = 0; o < d->group_outputs; o++, from += j->b->row) {
      for (int64_t tap = 0; tap < d->taps; tap++)
        for (int64_t c = 0; c < u.n; c++) turned[c * d->taps + tap] = from[tap * u.n + c];
      write(half_element(j->buffers->outputs[DEFORM_GRAD_WEIGHT], halves, weights_of(d, &u, o)), turned, u.n * d->taps);
    }
  }
}

/* A block's gradients of the group's outputs, in both orders: rows of pixels, and rows of outputs. */
typedef struct block_grads {
  const float *pixels, *outputs;
  int64_t pixel_row, output_row;
} block_grads;

/* turns: one of the orders is not in the room yet. */
static block_grads grads_of(const job *j, const unit *u, const deform_block *block, bool turns, float *room) {
  const deform *d = &j->b->d;
  const float *grad = (const float *)j->buffers->inputs[d->at.grad] + block->image * d->output.image +
                      u->group * d->group_outputs * d->output.channel + block->first * d->output.pixel;
  if (d->last) {
    if (turns) deform_transpose(grad, d->outputs, block->n, d->group_outputs, room, block->n);
    return (block_grads){grad, room, d->outputs, block->n};
  }
  if (turns) deform_transpose(grad, d->output.channel, d->group_outputs, block->n, room, d->group_outputs);
  return (block_grads){room, grad, d->group_outputs, d->output.channel};
}

static void multiply(const backward *b, const float *a, int64_t a_row, int64_t rows, int64_t depth, const float *matrix,
                     int64_t columns, float *to, bool add, bool pairs) {
  deform_product p = {.a = a,
                      .b = matrix,
                      .c = to,
                      .rows = rows,
                      .depth = depth,
                      .columns = columns,
                      .a_row = a_row,
                      .b_row = b->row,
                      .b_panel = DEFORM_PANEL,
                      .c_row = b->row,
                      .add = add,
                      .pairs = pairs};
  deform_multiply(b->d.level, &p);
}

/* A block of pixels for a unit, and the worker's memory, in which the taps and the output's gradients stay for all of
 * the block's steps. */
typedef struct unit_block {
  const job *job;
  unit unit;
  deform_block block;
  deform_tap *taps;
  deform_slope *slopes;
  float *samples, *products, *turned, *rounded; /* turned: see grads_of; rounded: pairs */
  float *matrices;                              /* the unit's, from the room's begin on */
  int64_t number, image_at;                     /* the unit's; its first channel of the image */
} unit_block;

static unit_block block_at(const job *j, int64_t number, int64_t first, float *worker) {
  const backward *b = j->b;
  const unit u = unit_at(b, number);
  return (unit_block){.job = j,
                      .unit = u,
                      .block = {j->image, u.offset_group, j->band + first, smaller(b->block, j->band_pixels - first)},
                      .taps = (deform_tap *)worker,
                      .slopes = (deform_slope *)(worker + b->slopes_at),
                      .samples = worker + b->samples_at,
                      .products = worker + b->product_at,
                      .turned = worker + b->other_at,
                      .rounded = worker + b->pairs_at,
                      .matrices = j->room + number * b->d.group_outputs * b->row,
                      .number = number,
                      .image_at = j->image * b->d.channels * deform_in_pixels(&b->d) + u.first};
}

/* The first step: the block's gradients of the outputs in the other order, its taps, and samples. */
static void run_samples(unit_block *at) {
  const job *j = at->job;
  const backward *b = j->b;
  const deform *d = &b->d;
  const int64_t channels = at->unit.n;
  grads_of(j, &at->unit, &at->block, true, at->turned);
  deform_fill_taps(d, j->buffers, &at->block, at->taps, at->slopes);
  if (!b->wants[DEFORM_GRAD_WEIGHT]) return;
  for (int64_t i = 0; i < at->block.n; i++) CPU_PICK(d->level, deform_sample_taps)
  (at->taps + i * d->taps, d->taps, j->x + at->image_at, channels, at->samples + i * b->row, channels);
}

/* Gradients of the weights. */
static void run_weights(unit_block *at) {
  const backward *b = at->job->b;
  const deform *d = &b->d;
  const block_grads grads = grads_of(at->job, &at->unit, &at->block, false, at->turned);
  multiply(b, grads.outputs, grads.output_row, d->group_outputs, at->block.n, at->samples, d->taps * at->unit.n,
           at->matrices + b->sums_at, at->block.image + at->block.first > 0, false);
}

/* Gradients of the samples, and those of the input. */
static void run_products(unit_block *at) {
  const job *j = at->job;
  const backward *b = j->b;
  const deform *d = &b->d;
  const int64_t columns = d->taps * at->unit.n;
  const float *weights = at->matrices + b->weights_at;
  const block_grads grads = grads_of(j, &at->unit, &at->block, false, at->turned);
  if (b->pairs) {
    const int64_t depth = d->group_outputs / 2;
    for (int64_t i = 0; i < at->block.n; i++)
      panel_pairs_convert(grads.pixels + i * grads.pixel_row, d->group_outputs, at->rounded + i * depth);
    multiply(b, at->rounded, depth, at->block.n, depth, weights, columns, at->products, false, true);
  } else {
    multiply(b, grads.pixels, grads.pixel_row, at->block.n, d->group_outputs, weights, columns, at->products, false,
             false);
  }
  for (int64_t i = 0; i < at->block.n && b->wants[DEFORM_GRAD_INPUT]; i++)
    for (int64_t k = 0; k < d->taps; k++) CPU_PICK(d->level, deform_spread)
  (at->taps + i * d->taps + k, at->products + i * b->row + k * at->unit.n, at->unit.n, j->grad_x + at->image_at);
}

/* The unit's share in the gradients of the block's offsets and masks. */
static void run_shares(unit_block *at) {
  const job *j = at->job;
  const backward *b = j->b;
  const deform *d = &b->d;
  const deform_tap *taps = at->taps;
  const deform_slope *slopes = at->slopes;
  float *parts = j->room + b->parts_at + (at->number * b->band + at->block.first - j->band) * d->taps * PARTS;
  for (int64_t i = 0; i < at->block.n; i++)
    for (int64_t k = 0; k < d->taps; k++, taps++, slopes++, parts += PARTS) {
      float dots[4], by_y = 0, by_x = 0, by_mask = 0;
      CPU_PICK(d->level, deform_dots)
      (taps, j->x + at->image_at, at->products + i * b->row + k * at->unit.n, at->unit.n, dots);
      for (int t = 0; t < 4; t++) {
        by_y += slopes->dy[t] * dots[t];
        by_x += slopes->dx[t] * dots[t];
        by_mask += slopes->weight[t] * dots[t];
      }
      parts[0] = slopes->mask * by_y;
      parts[1] = slopes->mask * by_x;
      parts[2] = by_mask;
    }
}

static bool wants_shares(const backward *b) { return b->wants[DEFORM_GRAD_OFFSET] || b->wants[DEFORM_GRAD_MASK]; }

typedef void (*block_step)(unit_block *at);

/* The steps of a block that the call needs, in their order. Returns their number. */
static int64_t steps_of(const backward *b, block_step out_steps[4]) {
  int64_t n = 0;
  out_steps[n++] = run_samples;
  if (b->wants[DEFORM_GRAD_WEIGHT]) out_steps[n++] = run_weights;
  if (wants_shares(b) || b->wants[DEFORM_GRAD_INPUT]) out_steps[n++] = run_products;
  if (wants_shares(b)) out_steps[n++] = run_shares;
  return n;
}

/* Clears elements begin..end-1 of the gradient of all images' pixels. */
static void clear_grad(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  memset(j->grad_x + begin, 0, (size_t)(end - begin) * sizeof *j->grad_x);
}

/* A step of a block of a unit's band: the unit's sums take the blocks in their order. */
static bool run_unit(void *context, int64_t i, int64_t step, int32_t place) {
  const job *j = context;
  block_step steps[4];
  const int64_t n = steps_of(j->b, steps), first = step / n * j->b->block;
  unit_block at = block_at(j, i, first, worker_at(j, place));
  steps[step % n](&at);
  return first + j->b->block < j->band_pixels || step % n + 1 < n;
}

/* Adds up the units' parts: pieces begin..end-1 of the band's pixels, for each tap of all offset groups. */
static void add_parts(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const backward *b = j->b;
  const deform *d = &b->d;
  const int64_t units = b->n_units / d->s.offset_groups, pieces = divided(j->band_pixels, PART_PIXELS);
  float *offset = b->wants[DEFORM_GRAD_OFFSET] ? j->buffers->outputs[DEFORM_GRAD_OFFSET] : NULL,
        *mask = b->wants[DEFORM_GRAD_MASK] ? j->buffers->outputs[DEFORM_GRAD_MASK] : NULL;
  for (int64_t i = begin; i < end; i++) {
    const int64_t group = i / pieces / d->taps, tap = i / pieces % d->taps, first = i % pieces * PART_PIXELS,
                  after = smaller(first + PART_PIXELS, j->band_pixels);
    for (int64_t k = first; k < after; k++) {
      float sums[PARTS] = {0};
      for (int64_t n = group * units; n < (group + 1) * units; n++) {
        const float *part = j->room + b->parts_at + ((n * b->band + k) * d->taps + tap) * PARTS;
        for (int p = 0; p < PARTS; p++) sums[p] += part[p];
      }
      for (int axis = 0; axis < 2 && offset; axis++)
        offset[deform_offset_at(d, j->image, group, tap, axis, j->band + k)] = sums[axis];
      if (mask) mask[deform_mask_at(d, j->image, group, tap, j->band + k)] = sums[2];
    }
  }
}

static void add_bias(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const deform *d = &j->b->d;
  const float *grad = j->buffers->inputs[d->at.grad];
  for (int64_t o = begin; o < end && !cpu_cancelled(&d->team); o++) {
    double sum = 0;
    for (int64_t image = 0; image < d->images; image++)
      for (int64_t k = 0; k < deform_pixels(d); k++)
        sum += (double)grad[image * d->output.image + o * d->output.channel + k * d->output.pixel];
    ((float *)j->buffers->outputs[DEFORM_GRAD_BIAS])[o] = (float)sum;
  }
}

static reed_status run_bands(job *j) {
  const backward *b = j->b;
  const deform *d = &b->d;
  block_step steps[4];
  const int64_t n_steps = steps_of(b, steps);
  for (j->image = 0; j->image < d->images; j->image++)
    for (j->band = 0; j->band < deform_pixels(d); j->band += b->band) {
      j->band_pixels = smaller(b->band, deform_pixels(d) - j->band);
      reed_status status =
          cpu_relay(d->team, b->n_units, b->n_units * divided(j->band_pixels, b->block) * n_steps, run_unit, j);
      if (status == REED_OK && wants_shares(b))
        status =
            cpu_parallel(d->team, d->s.offset_groups * d->taps * divided(j->band_pixels, PART_PIXELS), 1, add_parts, j);
      if (status != REED_OK) return status;
    }
  return REED_OK;
}

static reed_status run_backward(const void *state, const reed_kernel_buffers *buffers) {
  const backward *b = state;
  const deform *d = &b->d;
  float *room = buffers->workspace;
  job j = {.b = b, .buffers = buffers, .x = buffers->inputs[d->at.input], .grad_x = buffers->outputs[0], .room = room};
  reed_status status = REED_OK;
  if (!d->last) {
    j.x = room;
    j.grad_x = room + b->grad_at;
    status = strided_run(&b->to_last, buffers->inputs[d->at.input], room);
  }
  if (status == REED_OK) status = cpu_parallel_scratch(d->team, b->n_units, 1, gather_weights, &j);
  const int64_t elements = d->images * d->channels * deform_in_pixels(d);
  if (status == REED_OK && b->wants[DEFORM_GRAD_INPUT])
    status = cpu_parallel(cpu_team_for(d->team, elements * 4), elements, 1024, clear_grad, &j);
  if (status == REED_OK) status = run_bands(&j);
  if (status == REED_OK && b->wants[DEFORM_GRAD_WEIGHT])
    status = cpu_parallel_scratch(d->team, b->n_units, 1, scatter_weights, &j);
  if (status == REED_OK && b->wants[DEFORM_GRAD_BIAS]) status = cpu_parallel(d->team, d->outputs, 1, add_bias, &j);
  if (status == REED_OK && b->wants[DEFORM_GRAD_INPUT] && !d->last)
    status = strided_run(&b->from_last, j.grad_x, buffers->outputs[DEFORM_GRAD_INPUT]);
  return status;
}

static void choose(backward *b) {
  deform *d = &b->d;
  int64_t image = round_up(d->images * d->channels * deform_in_pixels(d), DEFORM_LANES), pixels = deform_pixels(d);
  deform_plan_last(d, d->team, false, &b->to_last);
  deform_plan_last(d, d->team, true, &b->from_last);
  b->group_size = smaller(d->group_channels, d->offset_channels);
  b->unit = smaller(b->group_size, UNIT_CHANNELS);
  b->group_units = divided(b->group_size, b->unit);
  b->n_units = d->channels / b->group_size * b->group_units;
  b->pairs = deform_takes_pairs(d, d->group_outputs);
  b->row = round_up(d->taps * b->unit, DEFORM_LANES);
  b->block = smaller(cpu_clamp(BLOCK_FLOATS / b->row, BLOCK_LEAST, BLOCK_MOST), pixels);
  b->band = smaller(round_up(BAND_PIXELS, b->block), pixels);
  int64_t matrices = b->n_units * d->group_outputs * b->row, samples = round_up(b->block * b->row, DEFORM_LANES),
          taps = b->block * d->taps;
  b->grad_at = d->last ? 0 : image;
  b->weights_at = d->last ? 0 : 2 * image;
  b->sums_at = b->weights_at + matrices;
  b->parts_at = b->sums_at + (b->wants[DEFORM_GRAD_WEIGHT] ? matrices : 0);
  b->workers_at = round_up(b->parts_at + b->n_units * b->band * d->taps * PARTS, DEFORM_LANES);
  b->slopes_at = round_up(taps * (int64_t)(sizeof(deform_tap) / sizeof(float)), DEFORM_LANES);
  b->samples_at = round_up(b->slopes_at + taps * (int64_t)(sizeof(deform_slope) / sizeof(float)), DEFORM_LANES);
  b->product_at = b->samples_at + samples;
  b->other_at = b->product_at + samples;
  b->pairs_at = round_up(b->other_at + b->block * d->group_outputs, DEFORM_LANES);
  b->worker_floats = round_up(b->pairs_at + (b->pairs ? b->block * d->group_outputs / 2 : 0), DEFORM_LANES);
  d->team = cpu_team_for(d->team, d->images * pixels * d->channels * d->taps * (48 + d->group_outputs / 4));
}

reed_status cpu_prepare_deform_conv_backward(const reed_kernel_call *call, reed_kernel *out_kernel) {
  backward b = {.wants = {false}};
  reed_status status = deform_read(call, &b.d);
  if (status != REED_OK || b.d.dtype != REED_F32 || deform_is_empty(&b.d)) return status;
  /* groups of weights and of offsets divide one another, or the units would have unequal extents */
  int64_t small = smaller(b.d.group_channels, b.d.offset_channels),
          large = larger(b.d.group_channels, b.d.offset_channels);
  if (large % small != 0) return REED_OK;
  for (int32_t i = 0; i < DEFORM_GRADS && i < call->n_outputs; i++) b.wants[i] = call->outputs[i].dtype != REED_NONE;
  choose(&b);
  void *state = mem_copy(&b, sizeof b);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_backward, state);
  out_kernel->workspace_bytes = (b.workers_at + b.d.team.threads * b.worker_floats) * (int64_t)sizeof(float);
  return REED_OK;
}
