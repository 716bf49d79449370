/* Planning and running Winograd convolutions (winograd.h). The tiles of a section are taken in blocks, whose
 * transformed values stay near the CPU. A block takes two stages, each shared out to threads: the transforms (of this
 * block's X, of weights, and of the block before into Y), then the products. The choice of a form is in
 * winograd_choice.c, the loops are in winograd_loops.c. */
#include "ops/cpu/product/winograd.h"

#include <stdio.h>

#include "ops/cpu/common/relay.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/half.h"

#define LINE 16                         /* floats of a cache line */
#define ALIASED 1024                    /* rows at multiples of so many floats share lines of the first-level cache */
#define BLOCK_BYTES (2 << 20)           /* of V and M of a block, about */
#define WEIGHT_BYTES (6 << 20)          /* of weights that are transformed together if one block needs them */
#define BLOCKS_OF_WEIGHTS 4             /* bytes of transformed weights for one of a block, at most */
#define HALVES_WEIGHT_BYTES (20 << 20)  /* of transformed weights of several blocks in halves, at most */
#define TILES_LEAST 48                  /* of a block: fewer read the weights too often */
#define PAST_BYTES (4 << 20)            /* of transformed weights that are written past the caches, at least */
#define CHUNK_PRODUCTS (5 << 17)        /* of a chunk of products, about: some 13 us */
#define NARROW_PRODUCTS (10 << 20)      /* of a panel: at most if no memory is saved */
#define NARROW_PRODUCTS_MOST (48 << 20) /* at most where memory is saved: some 1 ms */
#define NARROW_PANELS_EACH 4            /* of each thread, at least, where memory is saved */
#define NARROW_PANELS 8                 /* at least */
#define OWN_BYTES (384 << 10) /* of V and M of a block that is a chunk, about: they stay in a core's own cache */
#define OWN_MOST (1 << 20)    /* and at most */
#define OWN_TILES 28          /* at least: two passes of the products' loop */
#define OWN_BLOCKS 4          /* of each thread, at least: the last ones leave threads without work */
#define OWN_PRODUCTS (3 * CHUNK_PRODUCTS) /* of a step of it */
#define WEIGHT_CHANNELS 32                /* of a panel's weights that are transformed together: a chunk or two */

/* ---- plans ---- */

/* A row of n floats in V or M. */
static int64_t row_of(int64_t n) {
  int64_t row = round_up(n, LINE);
  return row % ALIASED == 0 ? row + LINE : row;
}

/* A position of n floats: neighbouring positions begin in different lines of the first-level cache. */
static int64_t position_of(int64_t n) { return round_up(n, ALIASED) + LINE; }

static int64_t half_tiles(const winograd_section *s) { return divided(s->tiles, s->n_halves); }

/* The tiles of a block of one half, at most. */
static int64_t block_tiles(const winograd_section *s) { return divided(half_tiles(s), s->n_blocks); }

/* Floats of V, M and U of a section in the workspace. */
static int64_t section_elements(const winograd_plan *plan, const winograd_section *s) {
  int64_t m = s->n_halves * s->m_half, u = plan->form.stored ? 0 : s->positions * s->u_position;
  return s->n_halves * s->v_half + (s->narrow ? plan->team.threads * (m + u) : m + u);
}

/* The rows, positions and halves of V, M and U, from the number of blocks and the outputs that are taken together. */
static void lay_out(const winograd_plan *plan, winograd_section *s) {
  int64_t tiles = block_tiles(s);
  s->m_row = s->narrow ? plan->width : plan->m_row;
  s->v_position = position_of(tiles * plan->v_row);
  s->m_position = s->narrow ? tiles * s->m_row + LINE : position_of(tiles * plan->m_row);
  s->v_half = s->positions * s->v_position;
  s->m_half = s->positions * s->m_position;
  s->n_ks = divided(round_up(plan->p.outputs, PACKED_STEP), s->k_width);
  s->u_position = position_of(s->k_width * plan->depth);
}

/* A narrow section in place of `s` where a panel is little work, or where panels are enough for all threads and it
 * takes less memory: V of all tiles, but M and U of as many panels as there are threads. An activation whose last bits
 * may depend on its vectors leaves only the first reason, which is no matter of threads. */
static void consider_narrow(const winograd_plan *plan, winograd_section *s, bool one_block) {
  const winograd_problem *p = &plan->p;
  int64_t panels = divided(round_up(p->outputs, PACKED_STEP), plan->width),
          products = s->positions * s->tiles * plan->depth * plan->width;
  if (plan->form.stored || s->own || panels < NARROW_PANELS) return;
  winograd_section narrow = *s;
  narrow.n_blocks = 1;
  narrow.narrow = true;
  narrow.k_width = plan->width;
  lay_out(plan, &narrow);
  bool enough = panels >= NARROW_PANELS_EACH * plan->team.threads && products <= NARROW_PRODUCTS_MOST &&
                activation_ends_tiles(&p->activation);
  if ((one_block && products <= NARROW_PRODUCTS) ||
      (enough && section_elements(plan, &narrow) < section_elements(plan, s)))
    *s = narrow;
}

static void plan_section(winograd_plan *plan, winograd_section *s) {
  const winograd_problem *p = &plan->p;
  int64_t row = plan->v_row + plan->m_row, columns = round_up(p->outputs, PACKED_STEP);
  s->positions = (s->size[0] + 2) * (s->size[1] + 2);
  s->tiles = p->images * s->n[0] * s->n[1];
  /* large weights: blocks so large that a small map has only one, which needs few of the transformed weights at a time
   */
  int64_t weights = plan->form.stored ? 0 : s->positions * plan->depth * columns * (int64_t)sizeof(float),
          most =
              larger(larger(BLOCK_BYTES, weights / BLOCKS_OF_WEIGHTS) / (s->positions * row * (int64_t)sizeof(float)),
                     TILES_LEAST);
  int64_t tile = s->positions * row * (int64_t)sizeof(float), own = larger(OWN_BYTES / tile, OWN_TILES);
  s->own = plan->team.threads > 1 && own * tile <= OWN_MOST && weights / BLOCKS_OF_WEIGHTS <= own * tile &&
           s->tiles >= OWN_BLOCKS * own * plan->team.threads;
  /* halves, unless threads would read large weights anew for each of the blocks */
  bool shared = plan->team.threads > 1 && !s->own && s->tiles > 1;
  s->n_halves = shared && (weights <= HALVES_WEIGHT_BYTES || s->tiles <= most) ? 2 : 1;
  s->n_blocks = divided(s->tiles, s->own ? own : s->n_halves * most);
  /* which outputs are taken together is no matter of threads */
  bool one_block = s->n_blocks == 1 && s->tiles <= most;
  s->k_width = columns;
  if (one_block && !plan->form.stored) {
    int64_t each = s->positions * plan->depth * plan->width * (int64_t)sizeof(float);
    s->k_width = smaller(larger(WEIGHT_BYTES / each, 1) * plan->width, columns);
  }
  lay_out(plan, s);
  consider_narrow(plan, s, one_block);
  s->past = !s->narrow && s->positions * s->u_position * (int64_t)sizeof(float) >= PAST_BYTES;
  int64_t v = s->n_halves * s->v_half, m = s->n_halves * s->m_half, u = s->positions * s->u_position,
          workers = plan->team.threads;
  if (s->own) plan->worker_v = larger(plan->worker_v, v);
  plan->v_elements = larger(plan->v_elements, s->own ? workers * plan->worker_v : v);
  if (s->narrow || s->own) plan->worker_m = larger(plan->worker_m, m);
  plan->worker_u = s->narrow ? larger(plan->worker_u, u) : plan->worker_u;
  plan->m_elements = larger(plan->m_elements, s->narrow || s->own ? workers * plan->worker_m : m);
  if (plan->form.stored) plan->stored_elements = u;
  else plan->u_elements = larger(plan->u_elements, s->narrow ? workers * plan->worker_u : u);
}

/* The phases of both axes. Those with a part at infinity of the rows, of the columns, and of both are neighbours. */
static void list_phases(winograd_plan *plan) {
  static const int32_t all[WINOGRAD_PHASES][2] = {{0, 1}, {0, 0}, {1, 0}, {1, 1}};
  for (int i = 0; i < WINOGRAD_PHASES; i++)
    if (all[i][0] < plan->p.stride[0] && all[i][1] < plan->p.stride[1])
      memcpy(plan->phases[plan->n_phases++], all[i], sizeof all[i]);
  plan->depth = plan->n_phases * plan->p.channels;
  plan->v_row = row_of((plan->n_phases - 1) * plan->p.channels + round_up(plan->p.channels, LINE));
}

/* True if a phase has a part at a position of the axis. */
static bool takes_part(const winograd_plan *plan, int phase, int axis, bool infinity) {
  return !infinity || plan->p.stride[axis] == 1 || plan->phases[phase][axis] == 0;
}

void winograd_plan_init(winograd_plan *plan, const winograd_problem *p, const winograd_form *form, cpu_team team) {
  cpu_level level = p->activation.level;
  *plan = (winograd_plan){.p = *p,
                          .form = *form,
                          .team = team,
                          .m_row = row_of(p->outputs),
                          .width = CPU_PICK(level, winograd_width)(),
                          .transform_input = CPU_PICK(level, winograd_transform_input),
                          .transform_weights = CPU_PICK(level, winograd_transform_weights),
                          .multiply = CPU_PICK(level, winograd_multiply),
                          .transform_output = CPU_PICK(level, winograd_transform_output)};
  plan->team.chunks = INT32_MAX; /* an item of a stage is a chunk */
  list_phases(plan);
  int64_t row = 0;
  for (int i = 0; i < WINOGRAD_SIZES; row += form->n[0][i] * winograd_pixels(p, 0, i), i++) {
    int64_t column = 0;
    for (int j = 0; j < WINOGRAD_SIZES; column += form->n[1][j] * winograd_pixels(p, 1, j), j++) {
      if (form->n[0][i] == 0 || form->n[1][j] == 0) continue;
      winograd_section *s = &plan->sections[plan->n_sections++];
      *s = (winograd_section){.size = {winograd_sizes[i], winograd_sizes[j]},
                              .pixels = {winograd_pixels(p, 0, i), winograd_pixels(p, 1, j)},
                              .first = {row, column},
                              .n = {form->n[0][i], form->n[1][j]}};
      plan_section(plan, s);
    }
  }
}

int64_t winograd_plan_workspace_bytes(const winograd_plan *plan) {
  return (plan->v_elements + plan->m_elements + plan->u_elements) * (int64_t)sizeof(float);
}

int64_t winograd_plan_stored_bytes(const winograd_plan *plan) { return plan->stored_elements * (int64_t)sizeof(float); }

void winograd_form_text(const winograd_problem *p, const winograd_form *form, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, "winograd ");
  for (int axis = 0; axis < 2; axis++) {
    const char *before = axis ? "x" : "";
    for (int i = 0; i < WINOGRAD_SIZES && n < capacity; i++) {
      if (form->n[axis][i] == 0) continue;
      n += (size_t)snprintf(out + n, capacity - n, "%s%d", before, (int)winograd_pixels(p, axis, i));
      before = ",";
    }
  }
  if (form->stored && n < capacity) snprintf(out + n, capacity - n, ", stored");
}

/* ---- running ---- */

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
  int64_t block = index / s->n_ks, columns = round_up(plan->p.outputs, PACKED_STEP), half = half_tiles(s),
          each = block_tiles(s), n[2] = {half, s->tiles - half};
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
  const float *weights, *bias;
  const void *residual;
  void *y;
  float *v, *m, *u;
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

/* One phase of a tile of X. Along an axis the tile's pixel i is that of X at from + stride * i. */
static void transform_phase(const winograd_run *run, const step *t, int phase, const place *at, float *v) {
  const winograd_plan *plan = run->plan;
  const winograd_problem *p = &plan->p;
  winograd_input in = {.half = p->halves.x,
                       .v = v + phase * p->channels,
                       .channels = p->channels,
                       .x_row = p->stride[0] * p->x_row,
                       .x_pixel = p->stride[1] * p->x_pixel,
                       .x_channel = p->x_channel,
                       .v_position = t->s->v_position,
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

/* The phases in their order, because up to 15 floats behind a phase are written. */
static void transform_input(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  for (int64_t i = begin; i < end; i++) {
    const place at = place_of(t, i);
    for (int phase = 0; phase < plan->n_phases; phase++)
      transform_phase(run, t, phase, &at, run->v + in_halves(t, i, t->s->v_half, plan->v_row));
  }
}

/* Pieces of WEIGHT_CHANNELS channels of a phase of the weights of a panel. */
static int64_t weight_pieces(const winograd_plan *plan) { return divided(plan->p.channels, WEIGHT_CHANNELS); }

static int64_t panel_pieces(const winograd_plan *plan) { return plan->n_phases * weight_pieces(plan); }

/* Pieces begin..end of the weights, counted through the panels of the step's part of the outputs and their phases. */
static void transform_weights(const winograd_run *run, const step *t, int64_t begin, int64_t end) {
  const winograd_plan *plan = run->plan;
  int64_t channels = plan->p.channels, pieces = weight_pieces(plan);
  for (int64_t i = begin; i < end; i++) {
    int64_t panel = i / pieces / plan->n_phases, phase = i / pieces % plan->n_phases,
            channel = i % pieces * WEIGHT_CHANNELS, column = t->column + panel * plan->width,
            packed = column / PACKED_WIDTH, packed_row = packed_width(plan->p.outputs, packed),
            tap = channels * packed_row, width = smaller(t->column + t->columns - column, plan->width);
    const int32_t *first = plan->phases[phase], *stride = plan->p.stride;
    winograd_weights w = {.w = run->weights + packed * PACKED_WIDTH * 9 * channels + channel * packed_row +
                               column % PACKED_WIDTH + (3 * first[0] + first[1]) * tap,
                          .u = run->u + panel * plan->width * plan->depth + (phase * channels + channel) * width,
                          .channels = smaller(channels - channel, WEIGHT_CHANNELS),
                          .width = width,
                          .w_row = 3 * stride[0] * tap,
                          .w_column = stride[1] * tap,
                          .w_channel = packed_row,
                          .u_position = t->s->u_position,
                          .rows = t->s->size[0],
                          .columns = t->s->size[1],
                          .taps = {divided(3 - first[0], stride[0]), divided(3 - first[1], stride[1])},
                          .past = t->s->past};
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
  return larger(divided(2 * CHUNK_PRODUCTS, plan->depth * plan->width), OWN_TILES);
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
    const int64_t first = phases.first * plan->p.channels, panel_width = smaller(t->columns - at.panel * width, width);
    const float *u = weights + at.position * s->u_position + at.panel * width * plan->depth;
    winograd_product product = {.v = run->v + at.half * s->v_half + at.position * s->v_position +
                                     at.tile * plan->v_row + first,
                                .u = u + first * panel_width,
                                .m = run->m + at.half * s->m_half + at.position * s->m_position + at.tile * s->m_row +
                                     column_of(t) + at.panel * width,
                                .next = weights + after.position * s->u_position + after.panel * width * plan->depth,
                                .tiles = smaller(at.tiles - at.tile, each),
                                .channels = (phases.end - phases.first) * plan->p.channels,
                                .width = panel_width,
                                .v_row = plan->v_row,
                                .m_row = s->m_row};
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

static void run_item(const stage *stage, const part *part, int64_t item) {
  const winograd_plan *plan = stage->run->plan;
  int64_t items = items_of_step(part), which = part->first_step + item / items,
          begin = part->begin + item % items * part->each;
  winograd_run run = *stage->run;
  run.m += which * plan->worker_m;
  run.u += which * plan->worker_u;
  step t = which ? step_at(plan, part->step->s, part->step->index + which) : *part->step;
  part->fn(&run, &t, begin, smaller(begin + part->each, part->end));
}

/* Helpers take the last items first, so those of the second half are in reverse: each thread goes forward, to what the
 * item before it has fetched. */
static void run_items(void *context, int64_t begin, int64_t end) {
  const stage *stage = context;
  for (int64_t item = begin; item < end; item++) {
    int64_t i = item, at = 0;
    for (; i >= items_of(part_of(stage, at)); at++) i -= items_of(part_of(stage, at));
    const part *part = part_of(stage, at);
    run_item(stage, part, at < stage->n_parts ? i : items_of(part) - 1 - i);
  }
}

static reed_status run_stage(stage *stage) {
  int64_t n = 0;
  for (int i = 0; i < 2 * stage->n_parts; i++) n += items_of(part_of(stage, i));
  return cpu_parallel(stage->run->plan->team, n, 1, run_items, stage);
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
    add_part(&stage, (part){transform_weights, t, .n_steps = t->n_together}, divided(panels, 2) * pieces,
             panels * pieces,
             (double)(t->s->positions * smaller(p->channels, WEIGHT_CHANNELS) * run->plan->width) * COST_WEIGHT);
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

reed_status winograd_plan_run(const winograd_plan *plan, const void *x, const float *weights, const float *bias,
                              const void *residual, void *y, void *workspace) {
  float *v = workspace, *m = v + plan->v_elements;
  winograd_run run = {plan, x, weights, bias, residual, y, v, m, m + plan->m_elements};
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
