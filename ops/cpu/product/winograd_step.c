/* The work on a step of a Winograd convolution (winograd_step.h): extents and places of transformed values for the
 * loops of winograd_loops.c and winograd_fixed_loops.c. */
#include "ops/cpu/product/winograd_step.h"

#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/half.h"

#define WEIGHT_CHANNELS 32 /* of a panel's weights that are transformed together: a chunk or two */

winograd_step winograd_step_at(const winograd_plan *plan, const winograd_section *s, int64_t index) {
  int64_t block = index / s->n_ks, columns = round_up(plan->p.outputs, PACKED_STEP), half = winograd_half_tiles(s),
          each = winograd_block_tiles(s), n[2] = {half, s->tiles - half};
  winograd_step t = {.s = s, .column = index % s->n_ks * s->k_width};
  for (int i = 0; i < 2; i++) {
    t.first[i] = i * half + block * each;
    t.n[i] = larger(smaller(n[i] - block * each, each), 0);
    t.tiles += t.n[i];
  }
  t.columns = smaller(columns - t.column, s->k_width);
  return t;
}

/* Tile number `index` of a step: its image, slice and first pixel of Y, which may lie behind the last one. */
typedef struct place {
  int64_t image, slice, at[2];
} place;

static place place_of(const winograd_plan *plan, const winograd_step *t, int64_t index) {
  const winograd_section *s = t->s;
  const int64_t *dilation = plan->p.dilation;
  index += index < t->n[0] ? t->first[0] : t->first[1] - t->n[0];
  if (plan->p.line_taps > 0) { /* neighbouring lattices in turn: a thread's tiles are of one stretch of the line */
    const int64_t tile = index / dilation[1], across = tile / s->n[1];
    return (place){
        across / s->n[0],
        0,
        {across % s->n[0], index % dilation[1] + (s->first[1] + tile % s->n[1] * s->pixels[1]) * dilation[1]}};
  }
  const int64_t row = index / s->n[1], lattice = row / s->n[0], image = lattice / winograd_lattices(&plan->p),
                first[2] = {lattice / dilation[1] % dilation[0], lattice % dilation[1]},
                at[2] = {s->first[0] + row % s->n[0] * s->pixels[0], s->first[1] + index % s->n[1] * s->pixels[1]};
  return (place){image / plan->p.slices.out,
                 image % plan->p.slices.out,
                 {first[0] + at[0] * dilation[0], first[1] + at[1] * dilation[1]}};
}

/* The place of tile number `index` of a step in V or M, whose halves lie apart: a product fetches the rows after its
 * own, which are then no other thread's. */
static int64_t in_halves(const winograd_step *t, int64_t index, int64_t half, int64_t row) {
  return index < t->n[0] ? index * row : half + (index - t->n[0]) * row;
}

/* The first row and column of a phase, in pixels under the window. */
typedef struct phase_start {
  int64_t at[2];
} phase_start;

static phase_start first_of(const winograd_plan *plan, int64_t phase) {
  if (plan->p.line_taps > 3) return (phase_start){{0, 3 * phase}};
  const int32_t *first = plan->phases[phase / plan->p.slices.taps];
  return (phase_start){{first[0], first[1]}};
}

/* True if a phase has a part at infinity along the axis. */
static bool is_at_infinity(const winograd_plan *plan, int64_t phase, int axis) {
  const winograd_problem *p = &plan->p;
  const int64_t first = first_of(plan, phase).at[axis];
  if (axis == 1 && p->line_taps > 3) return first + 3 <= p->line_taps;
  return p->stride[axis] == 1 || first == 0;
}

/* True if a phase has a part at a position of the axis. */
static bool takes_part(const winograd_plan *plan, int64_t phase, int axis, bool infinity) {
  return !infinity || is_at_infinity(plan, phase, axis);
}

/* The phases that have a part at a position of the section: first..end. */
typedef struct phase_range {
  int64_t first, end;
} phase_range;

static phase_range phases_at(const winograd_plan *plan, const winograd_section *s, int64_t position) {
  const int64_t columns = s->size[1] + 2;
  const bool infinity[2] = {s->size[0] != WINOGRAD_ACROSS && position / columns == s->size[0] + 1,
                            position % columns == s->size[1] + 1};
  phase_range range = {.end = plan->n_phases};
  for (int axis = 0; axis < 2; axis++) {
    while (!takes_part(plan, range.first, axis, infinity[axis])) range.first++;
    while (!takes_part(plan, range.end - 1, axis, infinity[axis])) range.end--;
  }
  return range;
}

/* One phase of a tile of X, to positions of v. Along an axis the tile's pixel i is that of X at from + step * i. */
static void transform_phase(const winograd_run *run, const winograd_step *t, int64_t phase, const place *at, float *v,
                            int64_t position) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  winograd_input in = {.half = p->halves.x,
                       .v = v + phase * p->channels,
                       .channels = p->channels,
                       .x_row = p->stride[0] * p->dilation[0] * p->x_row,
                       .x_pixel = p->stride[1] * p->dilation[1] * p->x_pixel,
                       .x_channel = p->x_channel,
                       .v_position = position,
                       .rows = t->s->size[0],
                       .columns = t->s->size[1]};
  const winograd_slices *slices = &p->slices;
  const int64_t slice = at->slice * slices->stride - slices->pad + phase % slices->taps * slices->dilation;
  const phase_start first = first_of(plan, phase);
  int64_t from[2];
  for (int axis = 0; axis < 2; axis++) {
    const int64_t side = t->s->size[axis] + 2, step = p->stride[axis] * p->dilation[axis];
    from[axis] = p->stride[axis] * at->at[axis] - p->pad[axis] + first.at[axis] * p->dilation[axis];
    in.first[axis] = from[axis] < 0 ? smaller(divided(-from[axis], step), side) : 0;
    in.end[axis] = in.first[axis];
    if (p->in[axis] > from[axis])
      in.end[axis] = larger(smaller(divided(p->in[axis] - from[axis], step), side), in.first[axis]);
    in.last[axis] = is_at_infinity(plan, phase, axis);
  }
  if (slice < 0 || slice >= slices->in) in.first[0] = in.end[0] = 0; /* nothing of the tile lies inside X */
  in.x = half_element(run->x, p->halves.x,
                      at->image * p->x_image + slice * slices->x + from[0] * p->x_row + from[1] * p->x_pixel);
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
void winograd_step_input(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  for (int64_t i = begin; i < end; i++) {
    const place at = place_of(plan, t, i);
    float *v = run->v + in_halves(t, i, t->s->v_half, plan->v_row), *to = plan->form.fixed ? run->scratch : v;
    const int64_t position = plan->form.fixed ? plan->scratch_row : t->s->v_position;
    for (int64_t phase = 0; phase < plan->n_phases; phase++) transform_phase(run, t, phase, &at, to, position);
    if (plan->form.fixed) round_tile(run, t->s, v);
  }
}

/* Pieces of WEIGHT_CHANNELS channels of a phase of the weights of a panel. */
static int64_t weight_pieces(const winograd_plan *plan) { return divided(plan->p.channels, WEIGHT_CHANNELS); }

int64_t winograd_panel_pieces(const winograd_plan *plan) {
  return plan->form.fixed ? plan->width / PACKED_STEP : plan->n_phases * weight_pieces(plan);
}

int64_t winograd_weights_work(const winograd_plan *plan) {
  return plan->form.fixed ? 2 * plan->n_phases * plan->p.channels * PACKED_STEP
                          : smaller(plan->p.channels, WEIGHT_CHANNELS) * plan->width;
}

/* The weights of a phase of `width` outputs from `column` on, of n channels (or units, in fixed point) from `channel`
 * on, which are transformed to u. */
static winograd_weights weights_of(const winograd_run *run, const winograd_section *s, int64_t phase, int64_t column,
                                   int64_t width, int64_t channel, int64_t n, float *u) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  const phase_start start = first_of(plan, phase);
  const int64_t *first = start.at;
  const int32_t *stride = p->stride;
  const int64_t channels = p->channels / plan->unit, packed = column / PACKED_WIDTH,
                packed_row = packed_width(p->outputs, packed), tap = channels * packed_row, taps = p->slices.taps,
                first_tap = phase % taps * 9 + 3 * first[0] + first[1];
  return (winograd_weights){.w = run->weights + packed * PACKED_WIDTH * winograd_taps(p) * taps * channels +
                                 channel * packed_row + column % PACKED_WIDTH + first_tap * tap,
                            .u = u,
                            .channels = n,
                            .width = width,
                            .w_row = 3 * stride[0] * tap,
                            .w_column = stride[1] * tap,
                            .w_channel = packed_row,
                            .u_position = s->u_position,
                            .rows = s->size[0],
                            .columns = s->size[1],
                            .taps = {p->line_taps > 0 ? 1 : (int32_t)divided(3 - first[0], stride[0]),
                                     p->line_taps > 3 ? (int32_t)smaller(p->line_taps - first[1], 3)
                                                      : (int32_t)divided(3 - first[1], stride[1])},
                            .past = s->past};
}

/* Pieces begin..end of the weights in fixed point: PACKED_STEP outputs of a panel each, of all channels, because they
 * have a scale. */
static void transform_fixed_weights(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
#ifdef CPU_HAS_BF16_LOOPS
  const winograd_plan *plan = run->plan;
  const int64_t units = plan->p.channels / plan->unit, pieces = winograd_panel_pieces(plan);
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i / pieces * plan->width, width = smaller(t->columns - first, plan->width),
                  from = i % pieces * PACKED_STEP;
    if (from >= width) continue;
    float *u = run->u + first * plan->u_depth + from;
    winograd_norms norms = {0};
    for (int adds = 1; adds >= 0; adds--) {
      for (int64_t phase = 0; phase < plan->n_phases; phase++) {
        const winograd_weights w =
            weights_of(run, t->s, phase, t->column + first + from, width, 0, units, u + phase * units * width);
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
static void transform_weights(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  int64_t channels = plan->p.channels, pieces = weight_pieces(plan);
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = i / pieces / plan->n_phases, phase = i / pieces % plan->n_phases,
                  channel = i % pieces * WEIGHT_CHANNELS, column = t->column + panel * plan->width,
                  width = smaller(t->column + t->columns - column, plan->width);
    const winograd_weights w =
        weights_of(run, t->s, phase, column, width, channel, smaller(channels - channel, WEIGHT_CHANNELS),
                   run->u + panel * plan->width * plan->u_depth + (phase * channels + channel) * width);
    plan->transform_weights(&w);
  }
}

void winograd_step_weights(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
  (run->plan->form.fixed ? transform_fixed_weights : transform_weights)(run, t, begin, end);
}

void winograd_plan_store(const winograd_plan *plan, const float *packed, float *out_stored) {
  const winograd_run run = {.plan = plan, .weights = packed, .u = out_stored};
  const winograd_step all = {.s = &plan->sections[0], .columns = round_up(plan->p.outputs, PACKED_STEP)};
  memset(out_stored, 0, (size_t)winograd_plan_stored_bytes(plan));
  transform_weights(&run, &all, 0, divided(all.columns, plan->width) * winograd_panel_pieces(plan));
}

/* The step's first column in M, which has the columns of all steps or of this one. */
static int64_t column_of(const winograd_step *t) { return t->s->narrow ? 0 : t->column; }

/* Tiles of a product, at most: those of a chunk, but two passes of the products' loop at least. */
int64_t winograd_product_tiles(const winograd_plan *plan) {
  return larger(divided(2 * WINOGRAD_CHUNK, plan->depth * plan->width), WINOGRAD_OWN_TILES);
}

/* The products of half of a step's tiles. */
int64_t winograd_half_products(const winograd_plan *plan, const winograd_step *t, int half) {
  return t->s->positions * divided(t->columns, plan->width) * divided(t->n[half], winograd_product_tiles(plan));
}

/* The way through the products of a step: of the first half of its tiles through their pieces, panels and positions,
 * then of the second half, backwards: two threads read weights from both ends, so that in the middle each one finds
 * what the other has fetched. */
typedef struct product_place {
  int64_t half, tiles, tile, panel, position;
} product_place;

static product_place product_at(const winograd_plan *plan, const winograd_step *t, int64_t index) {
  int64_t panels = divided(t->columns, plan->width), n_first = winograd_half_products(plan, t, 0),
          half = index >= n_first, pieces = divided(t->n[half], winograd_product_tiles(plan));
  index = half ? n_first + winograd_half_products(plan, t, 1) - 1 - index : index;
  return (product_place){half, t->n[half], index % pieces * winograd_product_tiles(plan), index / pieces % panels,
                         index / pieces / panels};
}

/* Products begin..end. */
void winograd_step_products(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  const winograd_section *s = t->s;
  const float *weights = plan->form.stored ? run->weights + t->column * plan->u_depth : run->u;
  const int64_t each = winograd_product_tiles(plan), width = plan->width,
                last = winograd_half_products(plan, t, 0) + winograd_half_products(plan, t, 1) - 1;
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
  const bool dense = o->y_pixel == o->outputs; /* pixels of a row of the tile lie side by side */
  for (int64_t i = 0; i < o->n_rows; i++)
    for (int64_t j = 0; j < (dense ? 1 : o->n_columns); j++)
      activation_row(a, (float *)o->y + i * o->y_row + j * o->y_pixel, dense ? o->n_columns * o->outputs : o->outputs);
}

/* The pixels of a tile along an axis that Y has. */
static int64_t pixels_at(const winograd_problem *p, const winograd_section *s, int axis, int64_t at) {
  return at < p->out[axis] ? smaller(divided(p->out[axis] - at, p->dilation[axis]), s->pixels[axis]) : 0;
}

void winograd_step_output(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  for (int64_t i = begin; i < end; i++) {
    place at = place_of(plan, t, i);
    int64_t y =
        at.image * p->y_image + at.slice * p->slices.y + at.at[0] * p->y_row + at.at[1] * p->y_pixel + t->column;
    winograd_output out = {.m = run->m + in_halves(t, i, t->s->m_half, t->s->m_row) + column_of(t),
                           .bias = run->bias ? run->bias + t->column : NULL,
                           .residual = half_element(run->residual, p->halves.residual, y),
                           .y = half_element(run->y, p->halves.y, y),
                           .half_residual = p->halves.residual,
                           .half_y = p->halves.y,
                           .outputs = smaller(p->outputs - t->column, t->columns),
                           .m_position = t->s->m_position,
                           .y_row = p->dilation[0] * p->y_row,
                           .y_pixel = p->dilation[1] * p->y_pixel,
                           .rows = t->s->size[0],
                           .columns = t->s->size[1],
                           .taps = {4 - p->stride[0], 4 - p->stride[1]},
                           .n_rows = pixels_at(p, t->s, 0, at.at[0]),
                           .n_columns = pixels_at(p, t->s, 1, at.at[1]),
                           .relu = p->activation.kind == ACTIVATION_RELU};
    plan->transform_output(&out);
    activate(plan, &out);
  }
}

/* ---- pieces of the depth ---- */

/* Channels of a phase. */
typedef struct depth_piece {
  int64_t phase, channel, channels;
} depth_piece;

/* The pieces of a phase. */
static int64_t phase_pieces(const winograd_plan *plan, const winograd_section *s) {
  return divided(plan->p.channels, s->depth_step);
}

int64_t winograd_depth_pieces(const winograd_plan *plan, const winograd_section *s) {
  return plan->n_phases * phase_pieces(plan, s);
}

static depth_piece piece_at(const winograd_plan *plan, const winograd_section *s, int64_t index) {
  const int64_t pieces = phase_pieces(plan, s), channel = index % pieces * s->depth_step;
  return (depth_piece){index / pieces, channel, smaller(plan->p.channels - channel, s->depth_step)};
}

static winograd_weights weights_of_piece(const winograd_run *run, const winograd_step *t, int64_t piece) {
  const depth_piece d = piece_at(run->plan, t->s, piece);
  return weights_of(run, t->s, d.phase, t->column, t->columns, d.channel, d.channels, run->u);
}

void winograd_piece_weights(const winograd_run *run, const winograd_step *t, int64_t piece) {
  const winograd_weights w = weights_of_piece(run, t, piece);
  run->plan->transform_weights(&w);
}

/* Line number `index` of the first channel's weights: through the lines of a tap, then through the taps. NULL: the
 * taps have fewer lines. */
static const float *line_of_weights(const winograd_weights *w, int64_t index) {
  const int64_t lines = divided(w->width, WINOGRAD_LINE), tap = index / lines;
  if (tap >= w->taps[0] * w->taps[1]) return NULL;
  return w->w + tap / w->taps[1] * w->w_row + tap % w->taps[1] * w->w_column + index % lines * WINOGRAD_LINE;
}

void winograd_piece_products(const winograd_run *run, const winograd_step *t, int64_t piece, const winograd_step *after,
                             int64_t piece_after, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  const winograd_section *s = t->s;
  const depth_piece d = piece_at(plan, s, piece);
  const winograd_weights next = weights_of_piece(run, after, piece_after);
  for (int64_t position = begin; position < end; position++) {
    const phase_range phases = phases_at(plan, s, position);
    if (d.phase < phases.first || d.phase >= phases.end) continue;
    const float *line = line_of_weights(&next, position);
    winograd_product product = {.v = run->v + position * s->v_position + d.phase * plan->p.channels + d.channel,
                                .u = run->u + position * s->u_position,
                                .m = run->m + position * s->m_position,
                                .next = line ? line : next.w,
                                .next_row = next.w_channel * (int64_t)sizeof(float),
                                .tiles = t->tiles,
                                .channels = d.channels,
                                .width = t->columns,
                                .v_row = plan->v_row,
                                .m_row = s->m_row,
                                .adds = d.phase > phases.first || d.channel > 0};
    plan->multiply(&product);
  }
}
