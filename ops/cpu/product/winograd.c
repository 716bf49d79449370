/* Running Winograd convolutions (winograd.h). The tiles of a section are taken in blocks, whose
 * transformed values stay near the CPU. A block takes two stages, each shared out to threads: the transforms (of this
 * block's X, of weights, and of the block before into Y), then the products. The choice of a form is in
 * winograd_choice.c, the plan in winograd_plan.c, the loops are in winograd_loops.c and winograd_fixed_loops.c. */
#include "ops/cpu/product/winograd.h"

#include "ops/cpu/common/relay.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/half.h"

#define CHUNK_PRODUCTS (5 << 17)          /* of a chunk of products, about: some 13 us */
#define OWN_PRODUCTS (3 * CHUNK_PRODUCTS) /* of a step of it */
#define WEIGHT_CHANNELS 32                /* of a panel's weights that are transformed together: a chunk or two */

/* A block of a section's tiles by a part of the outputs. A block in halves has tiles of the section's first half and of
 * its second one. The calling thread takes a stage from its begin on, which is the first halves, and helpers from its
 * end: so a thread mostly reads what it wrote itself, here and in the layers before. Caches of two cores may be far
 * from each other. */
typedef struct step {
  const winograd_section *s;
  int64_t first[2], n[2];    /* the tiles, by halves */
  int64_t tiles;             /* of both halves */
  int64_t column, columns;   /* of the packed weights, with those beyond the outputs */
  int64_t index, n_together; /* of a narrow section: steps that share their jobs, each with M and U */
} step;

/* Step `index` of a section: through the parts of the outputs, then through the blocks (one of both has one). */
static step step_at(const winograd_plan *plan, const winograd_section *s, int64_t index) {
  int64_t block = index / s->n_ks, columns = round_up(plan->p.outputs, PACKED_STEP), half = winograd_half_tiles(s),
          each = winograd_block_tiles(s), n[2] = {half, s->tiles - half};
  step t = {.s = s, .column = index % s->n_ks * s->k_width, .index = index, .n_together = 1};
  for (int i = 0; i < 2; i++) {
    t.first[i] = i * half + block * each;
    t.n[i] = larger(smaller(n[i] - block * each, each), 0);
    t.tiles += t.n[i];
  }
  t.columns = smaller(columns - t.column, s->k_width);
  return t;
}

typedef struct winograd_run {
  const winograd_plan *plan;
  const void *x;
  const float *weights; /* packed or transformed ones; pairs of bf16 are as long as a float */
  const float *bias;
  const void *residual;
  void *y;
  float *v, *m, *u;
  float *scratch; /* of a thread */
} winograd_run;

/* Tile number `index` of a step: its image and first pixel of Y. */
typedef struct place {
  int64_t image, at[2];
} place;

static place place_of(const step *t, int64_t index) {
  const winograd_section *s = t->s;
  index += index < t->n[0] ? t->first[0] : t->first[1] - t->n[0];
  int64_t rows = index / s->n[1];
  return (place){rows / s->n[0],
                 {s->first[0] + rows % s->n[0] * s->pixels[0], s->first[1] + index % s->n[1] * s->pixels[1]}};
}

/* The place of tile number `index` of a step in V or M, whose halves lie apart: a product fetches the rows after its
 * own, which are then no other thread's. */
static int64_t in_halves(const step *t, int64_t index, int64_t half, int64_t row) {
  return index < t->n[0] ? index * row : half + (index - t->n[0]) * row;
}

/* True if a phase has a part at a position of the axis. */
static bool takes_part(const winograd_plan *plan, int phase, int axis, bool infinity) {
  return !infinity || plan->p.stride[axis] == 1 || plan->phases[phase][axis] == 0;
}

/* The phases that have a part at a position of the section: first..end. */
typedef struct phase_range {
  int first, end;
} phase_range;

static phase_range phases_at(const winograd_plan *plan, const winograd_section *s, int64_t position) {
  const int64_t columns = s->size[1] + 2;
  const bool infinity[2] = {position / columns == s->size[0] + 1, position % columns == s->size[1] + 1};
  phase_range range = {.end = plan->n_phases};
  for (int axis = 0; axis < 2; axis++) {
    while (!takes_part(plan, range.first, axis, infinity[axis])) range.first++;
    while (!takes_part(plan, range.end - 1, axis, infinity[axis])) range.end--;
  }
  return range;
}

/* One phase of a tile of X, to positions of v. Along an axis the tile's pixel i is that of X at from + stride * i. */
static void transform_phase(const winograd_run *run, const step *t, int phase, const place *at, float *v,
                            int64_t position) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  winograd_input in = {.half = p->halves.x,
                       .v = v + phase * p->channels,
                       .channels = p->channels,
                       .x_row = p->stride[0] * p->x_row,
                       .x_pixel = p->stride[1] * p->x_pixel,
                       .x_channel = p->x_channel,
                       .v_position = position,
                       .rows = t->s->size[0],
                       .columns = t->s->size[1]};
  int64_t from[2];
  for (int axis = 0; axis < 2; axis++) {
    const int64_t side = t->s->size[axis] + 2, stride = p->stride[axis];
    from[axis] = stride * at->at[axis] - p->pad[axis] + plan->phases[phase][axis];
    in.first[axis] = from[axis] < 0 ? smaller(divided(-from[axis], stride), side) : 0;
    in.end[axis] = in.first[axis];
    if (p->in[axis] > from[axis])
      in.end[axis] = larger(smaller(divided(p->in[axis] - from[axis], stride), side), in.first[axis]);
    in.last[axis] = takes_part(plan, phase, axis, true);
  }
  in.x = half_element(run->x, p->halves.x, at->image * p->x_image + from[0] * p->x_row + from[1] * p->x_pixel);
  plan->transform_input(&in);
}

/* Rounds the tile in the scratch to fixed point. */
static void round_tile(const winograd_run *run, const winograd_section *s, float *v) {
#ifdef CPU_HAS_BF16_LOOPS
  const winograd_plan *plan = run->plan;
  const int64_t channels = plan->p.channels;
  for (int64_t i = 0; i < s->positions; i++, v += s->v_position) {
    const phase_range phases = phases_at(plan, s, i);
    const int64_t first = phases.first * channels;
    winograd_fixed_round(run->scratch + i * plan->scratch_row + first, (phases.end - phases.first) * channels,
                         v + first / plan->unit, v + plan->depth);
  }
#else
  (void)run, (void)s, (void)v;
#endif
}

/* The phases in their order, because up to 15 floats behind a phase are written. */
static void transform_input(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  for (int64_t i = begin; i < end; i++) {
    const place at = place_of(t, i);
    float *v = run->v + in_halves(t, i, t->s->v_half, plan->v_row), *to = plan->form.fixed ? run->scratch : v;
    const int64_t position = plan->form.fixed ? plan->scratch_row : t->s->v_position;
    for (int phase = 0; phase < plan->n_phases; phase++) transform_phase(run, t, phase, &at, to, position);
    if (plan->form.fixed) round_tile(run, t->s, v);
  }
}

/* Pieces of WEIGHT_CHANNELS channels of a phase of the weights of a panel. */
static int64_t weight_pieces(const winograd_plan *plan) { return divided(plan->p.channels, WEIGHT_CHANNELS); }

static int64_t panel_pieces(const winograd_plan *plan) {
  return plan->form.fixed ? plan->width / PACKED_STEP : plan->n_phases * weight_pieces(plan);
}

/* The weights of a phase of `width` outputs from `column` on, of n channels (or units, in fixed point) from `channel`
 * on. */
static winograd_weights weights_of(const winograd_run *run, const winograd_section *s, int64_t phase, int64_t column,
                                   int64_t width, int64_t channel, int64_t n, float *u) {
  const winograd_plan *plan = run->plan;
  const int32_t *first = plan->phases[phase], *stride = plan->p.stride;
  const int64_t channels = plan->p.channels / plan->unit, packed = column / PACKED_WIDTH,
                packed_row = packed_width(plan->p.outputs, packed), tap = channels * packed_row;
  return (winograd_weights){.w = run->weights + packed * PACKED_WIDTH * 9 * channels + channel * packed_row +
                                 column % PACKED_WIDTH + (3 * first[0] + first[1]) * tap,
                            .u = u + (phase * channels + channel) * width,
                            .channels = n,
                            .width = width,
                            .w_row = 3 * stride[0] * tap,
                            .w_column = stride[1] * tap,
                            .w_channel = packed_row,
                            .u_position = s->u_position,
                            .rows = s->size[0],
                            .columns = s->size[1],
                            .taps = {divided(3 - first[0], stride[0]), divided(3 - first[1], stride[1])},
                            .past = s->past};
}

/* Pieces begin..end of the weights in fixed point: PACKED_STEP outputs of a panel each, of all channels, because they
 * have a scale. */
static void transform_fixed_weights(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
#ifdef CPU_HAS_BF16_LOOPS
  const winograd_plan *plan = run->plan;
  const int64_t units = plan->p.channels / plan->unit, pieces = panel_pieces(plan);
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i / pieces * plan->width, width = smaller(t->columns - first, plan->width),
                  from = i % pieces * PACKED_STEP;
    if (from >= width) continue;
    float *u = run->u + first * plan->u_depth + from;
    winograd_norms norms = {0};
    for (int adds = 1; adds >= 0; adds--) {
      for (int phase = 0; phase < plan->n_phases; phase++) {
        const winograd_weights w = weights_of(run, t->s, phase, t->column + first + from, width, 0, units, u);
        if (adds) winograd_fixed_add_norms(&w, &norms);
        else winograd_fixed_weights(&w, &norms);
      }
      if (adds) winograd_fixed_scales(&norms, t->s->positions, u + plan->depth * width, t->s->u_position);
    }
  }
#else
  (void)run, (void)t, (void)begin, (void)end;
#endif
}

/* Pieces begin..end of the weights, counted through the panels of the step's part of the outputs and their phases. */
static void transform_weights(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  int64_t channels = plan->p.channels, pieces = weight_pieces(plan);
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = i / pieces / plan->n_phases, phase = i / pieces % plan->n_phases,
                  channel = i % pieces * WEIGHT_CHANNELS, column = t->column + panel * plan->width,
                  width = smaller(t->column + t->columns - column, plan->width);
    const winograd_weights w =
        weights_of(run, t->s, phase, column, width, channel, smaller(channels - channel, WEIGHT_CHANNELS),
                   run->u + panel * plan->width * plan->u_depth);
    plan->transform_weights(&w);
  }
}

void winograd_plan_store(const winograd_plan *plan, const float *packed, float *out_stored) {
  const winograd_run run = {.plan = plan, .weights = packed, .u = out_stored};
  const step all = step_at(plan, &plan->sections[0], 0);
  memset(out_stored, 0, (size_t)winograd_plan_stored_bytes(plan));
  transform_weights(&run, &all, 0, divided(all.columns, plan->width) * panel_pieces(plan));
}

/* The step's first column in M, which has the columns of all steps or of this one. */
static int64_t column_of(const step *t) { return t->s->narrow ? 0 : t->column; }

/* Tiles of a product, at most: those of a chunk, but two passes of the products' loop at least. */
static int64_t product_tiles(const winograd_plan *plan) {
  return larger(divided(2 * CHUNK_PRODUCTS, plan->depth * plan->width), WINOGRAD_OWN_TILES);
}

/* The products of half of a step's tiles. */
static int64_t products_of(const winograd_plan *plan, const step *t, int half) {
  return t->s->positions * divided(t->columns, plan->width) * divided(t->n[half], product_tiles(plan));
}

/* The way through the products of a step: of the first half of its tiles through their pieces, panels and positions,
 * then of the second half, backwards: two threads read weights from both ends, so that in the middle each one finds
 * what the other has fetched. */
typedef struct product_place {
  int64_t half, tiles, tile, panel, position;
} product_place;

static product_place product_at(const winograd_plan *plan, const step *t, int64_t index) {
  int64_t panels = divided(t->columns, plan->width), n_first = products_of(plan, t, 0), half = index >= n_first,
          pieces = divided(t->n[half], product_tiles(plan));
  index = half ? n_first + products_of(plan, t, 1) - 1 - index : index;
  return (product_place){half, t->n[half], index % pieces * product_tiles(plan), index / pieces % panels,
                         index / pieces / panels};
}

/* Products begin..end. */
static void multiply(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  const winograd_section *s = t->s;
  const float *weights = plan->form.stored ? run->weights : run->u;
  const int64_t each = product_tiles(plan), width = plan->width,
                last = products_of(plan, t, 0) + products_of(plan, t, 1) - 1;
  for (int64_t i = begin; i < end; i++) {
    const product_place at = product_at(plan, t, i), after = product_at(plan, t, smaller(i + 1, last));
    const phase_range phases = phases_at(plan, s, at.position);
    const int64_t units = plan->p.channels / plan->unit, first = phases.first * units,
                  panel_width = smaller(t->columns - at.panel * width, width);
    const float *u = weights + at.position * s->u_position + at.panel * width * plan->u_depth,
                *v = run->v + at.half * s->v_half + at.position * s->v_position + at.tile * plan->v_row;
    winograd_product product = {.v = v + first,
                                .u = u + first * panel_width,
                                .m = run->m + at.half * s->m_half + at.position * s->m_position + at.tile * s->m_row +
                                     column_of(t) + at.panel * width,
                                .next = weights + after.position * s->u_position + after.panel * width * plan->u_depth,
                                .tiles = smaller(at.tiles - at.tile, each),
                                .channels = (phases.end - phases.first) * units,
                                .width = panel_width,
                                .v_row = plan->v_row,
                                .m_row = s->m_row,
                                .v_scale = v + plan->depth,
                                .u_scale = u + plan->depth * panel_width};
    plan->multiply(&product);
  }
}

static void activate(const winograd_plan *plan, const winograd_output *o) {
  const activation *a = &plan->p.activation;
  if (activation_ends_tiles(a)) return;
  for (int64_t i = 0; i < o->n_rows; i++)
    for (int64_t j = 0; j < o->n_columns; j++)
      activation_row(a, (float *)o->y + i * o->y_row + j * o->y_pixel, o->outputs);
}

static void transform_output(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  for (int64_t i = begin; i < end; i++) {
    place at = place_of(t, i);
    int64_t y = at.image * p->y_image + at.at[0] * p->y_row + at.at[1] * p->y_pixel + t->column;
    winograd_output out = {.m = run->m + in_halves(t, i, t->s->m_half, t->s->m_row) + column_of(t),
                           .bias = run->bias ? run->bias + t->column : NULL,
                           .residual = half_element(run->residual, p->halves.residual, y),
                           .y = half_element(run->y, p->halves.y, y),
                           .half_residual = p->halves.residual,
                           .half_y = p->halves.y,
                           .outputs = smaller(p->outputs - t->column, t->columns),
                           .m_position = t->s->m_position,
                           .y_row = p->y_row,
                           .y_pixel = p->y_pixel,
                           .rows = t->s->size[0],
                           .columns = t->s->size[1],
                           .taps = {4 - p->stride[0], 4 - p->stride[1]},
                           .n_rows = smaller(p->out[0] - at.at[0], t->s->pixels[0]),
                           .n_columns = smaller(p->out[1] - at.at[1], t->s->pixels[1]),
                           .relu = p->activation.kind == ACTIVATION_RELU};
    plan->transform_output(&out);
    activate(plan, &out);
  }
}

/* Work of one kind in a stage: elements begin..end of each of n_steps steps, in items of `each`. */
typedef struct part {
  void (*fn)(const winograd_run *run, const step *t, int64_t begin, int64_t end);
  const step *step;
  int64_t first_step, n_steps, begin, end, each;
} part;

typedef struct stage {
  const winograd_run *run;
  int n_parts; /* of each half */
  part parts[2][3];
} stage;

static const part *part_of(const stage *stage, int64_t i) {
  return &stage->parts[i / stage->n_parts][i % stage->n_parts];
}

/* The first of a step's tiles that the second half of a stage has. */
static int64_t second_half(const step *t) { return t->n[1] > 0 ? t->n[0] : divided(t->tiles, 2); }

static int64_t items_of_step(const part *part) { return divided(part->end - part->begin, part->each); }

static int64_t items_of(const part *part) { return part->n_steps * items_of_step(part); }

/* Elements 0..n of each of part.n_steps steps, which take `cost` products each; part.each of them belong together, if
 * so many are no long item. Of several steps each half gets some, of one the elements before and from `first` on. */
static void add_part(stage *stage, part part, int64_t first, int64_t n, double cost) {
  double most = (double)(part.step->s->narrow ? 2 * CHUNK_PRODUCTS : CHUNK_PRODUCTS) / cost;
  int64_t each = most < 1 ? 1 : most < (double)n ? (int64_t)most : larger(n, 1), steps = part.n_steps;
  bool by_steps = steps > 1;
  part.each = each - (part.each > 0 && each >= part.each ? each % part.each : 0);
  for (int half = 0; half < 2; half++) {
    part.first_step = half && by_steps ? divided(steps, 2) : 0;
    part.n_steps = !by_steps ? 1 : half ? steps / 2 : divided(steps, 2);
    part.begin = half && !by_steps ? first : 0;
    part.end = half || by_steps ? n : first;
    stage->parts[half][stage->n_parts] = part;
  }
  stage->n_parts++;
}

static void run_item(const stage *stage, const part *part, int64_t item, int32_t worker) {
  const winograd_plan *plan = stage->run->plan;
  int64_t items = items_of_step(part), which = part->first_step + item / items,
          begin = part->begin + item % items * part->each;
  winograd_run run = *stage->run;
  run.m += which * plan->worker_m;
  run.u += which * plan->worker_u;
  run.scratch += worker * plan->worker_scratch;
  step t = which ? step_at(plan, part->step->s, part->step->index + which) : *part->step;
  part->fn(&run, &t, begin, smaller(begin + part->each, part->end));
}

/* Helpers take the last items first, so those of the second half are in reverse: each thread goes forward, to what the
 * item before it has fetched. */
static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const stage *stage = context;
  for (int64_t item = begin; item < end; item++) {
    int64_t i = item, at = 0;
    for (; i >= items_of(part_of(stage, at)); at++) i -= items_of(part_of(stage, at));
    const part *part = part_of(stage, at);
    run_item(stage, part, at < stage->n_parts ? i : items_of(part) - 1 - i, worker);
  }
}

static reed_status run_stage(stage *stage) {
  int64_t n = 0;
  for (int i = 0; i < 2 * stage->n_parts; i++) n += items_of(part_of(stage, i));
  return cpu_parallel_scratch(stage->run->plan->team, n, 1, run_items, stage);
}

/* Products that take as long as a transformed value of X, of the weights, or for Y. */
enum { COST_INPUT = 10, COST_WEIGHT = 12, COST_OUTPUT = 10 };

/* The transforms of a step (NULL: after the last), and those into Y of the step before it (NULL: none). */
static reed_status transform(const winograd_run *run, const step *t, const step *before) {
  const winograd_problem *p = &run->plan->p;
  stage stage = {.run = run};
  if (before)
    add_part(&stage, (part){transform_output, before, .n_steps = before->n_together}, second_half(before),
             before->tiles, (double)(before->s->positions * before->columns) * COST_OUTPUT);
  if (t && t->first[0] == 0 && !run->plan->form.stored) {
    int64_t panels = divided(t->columns, run->plan->width), pieces = panel_pieces(run->plan);
    const bool fixed = run->plan->form.fixed;
    const int64_t values = fixed ? 2 * run->plan->n_phases * p->channels * PACKED_STEP
                                 : smaller(p->channels, WEIGHT_CHANNELS) * run->plan->width;
    add_part(&stage, (part){fixed ? transform_fixed_weights : transform_weights, t, .n_steps = t->n_together},
             divided(panels, 2) * pieces, panels * pieces, (double)(t->s->positions * values) * COST_WEIGHT);
  }
  if (t && t->column == 0 && !t->s->own)
    add_part(&stage, (part){transform_input, t, .n_steps = 1}, second_half(t), t->tiles,
             (double)(t->s->positions * run->plan->depth) * COST_INPUT);
  return run_stage(&stage);
}

typedef struct own_run {
  const winograd_run *run;
  const winograd_section *section;
} own_run;

enum { OWN_PARTS = 3 };

/* The work on a block, from X to Y, in items of some 30 us. Returns their number. */
static int64_t own_parts(const winograd_plan *plan, const step *t, part *out_parts) {
  const int64_t ends[] = {t->tiles, products_of(plan, t, 0), t->tiles}, positions = t->s->positions,
                costs[] = {positions * plan->v_row * COST_INPUT,
                           smaller(t->tiles, product_tiles(plan)) * plan->depth * plan->width,
                           positions * t->columns * COST_OUTPUT};
  int64_t items = 0;
  for (int i = 0; i < OWN_PARTS; items += items_of_step(&out_parts[i++]))
    out_parts[i] = (part){.fn = i == 0   ? transform_input
                                : i == 1 ? multiply
                                         : transform_output,
                          .end = ends[i],
                          .each = larger(OWN_PRODUCTS / costs[i], 1)};
  return items;
}

/* A step of a block of a section, with V and M of the place. */
static bool run_own(void *context, int64_t block, int64_t index, int32_t place) {
  const own_run *own = context;
  const winograd_plan *plan = own->run->plan;
  winograd_run run = *own->run;
  run.v += place * plan->worker_v;
  run.m += place * plan->worker_m;
  run.scratch += place * plan->worker_scratch;
  const step t = step_at(plan, own->section, block);
  if (t.tiles <= 0) return false; /* blocks are rounded up */
  part parts[OWN_PARTS];
  const bool last = index + 1 == own_parts(plan, &t, parts);
  const part *at = parts;
  for (; index >= items_of_step(at); at++) index -= items_of_step(at);
  at->fn(&run, &t, index * at->each, smaller((index + 1) * at->each, at->end));
  return !last;
}

static reed_status run_own_blocks(const winograd_run *run, const step *t) {
  part parts[OWN_PARTS];
  own_run own = {run, t->s};
  return cpu_relay(run->plan->team, t->s->n_blocks, t->s->n_blocks * own_parts(run->plan, t, parts), run_own, &own);
}

static reed_status products(const winograd_run *run, const step *t) {
  const winograd_plan *plan = run->plan;
  if (t->s->own) return run_own_blocks(run, t);
  stage stage = {.run = run};
  int64_t pieces = divided(t->n[0], product_tiles(plan)), first = products_of(plan, t, 0),
          all = first + products_of(plan, t, 1);
  if (t->n[1] == 0) first = divided(first / pieces, 2) * pieces;
  add_part(&stage, (part){multiply, t, .n_steps = t->n_together, .each = pieces}, first, all,
           (double)(smaller(t->n[0], product_tiles(plan)) * plan->depth * plan->width));
  return run_stage(&stage);
}

reed_status winograd_plan_run(const winograd_plan *plan, const void *x, const void *weights, const float *bias,
                              const void *residual, void *y, void *workspace) {
  float *v = workspace, *m = v + plan->v_elements;
  float *u = m + plan->m_elements;
  winograd_run run = {plan, x, weights, bias, residual, y, v, m, u, u + plan->u_elements};
  step steps[2];
  const step *before = NULL;
  int64_t n = 0;
  reed_status status = REED_OK;
  for (int32_t i = 0; i < plan->n_sections; i++) {
    const winograd_section *s = &plan->sections[i];
    int64_t n_steps = s->own ? 1 : s->n_blocks * s->n_ks, together = s->narrow ? plan->team.threads : 1;
    for (int64_t k = 0; k < n_steps && status == REED_OK; k += together, n++) {
      step *t = &steps[n % 2];
      *t = step_at(plan, s, k);
      t->n_together = smaller(together, n_steps - k);
      if (t->tiles <= 0) break; /* blocks are rounded up */
      status = transform(&run, t, before);
      if (status == REED_OK) status = products(&run, t);
      before = s->own ? NULL : t;
    }
  }
  return status == REED_OK && before ? transform(&run, NULL, before) : status;
}
