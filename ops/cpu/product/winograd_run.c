/* Running Winograd convolutions (winograd.h). The tiles of a section are taken in blocks, whose transformed values stay
 * near the CPU. A block takes two stages, each shared out to threads: the transforms (of this block's X, of weights,
 * and of the block before into Y), then the products. In other sections a thread takes all work on a block, or on a
 * panel of outputs. The work itself is in winograd_step.c. */
#include "ops/cpu/product/winograd_step.h"

#include "ops/cpu/common/relay.h"

#define OWN_PRODUCTS (3 * WINOGRAD_CHUNK)   /* of a step of a thread's own block */
#define PANEL_PRODUCTS (4 * WINOGRAD_CHUNK) /* of a step of its own panel */

/* Work of one kind in a stage: elements begin..end of a step, in items of `each`. */
typedef struct part {
  void (*fn)(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end);
  const winograd_step *step;
  int64_t begin, end, each;
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
static int64_t second_half(const winograd_step *t) { return t->n[1] > 0 ? t->n[0] : divided(t->tiles, 2); }

static int64_t items_of(const part *part) { return divided(part->end - part->begin, part->each); }

/* Elements 0..n of part.step, which take `cost` products each; part.each of them belong together, if so many are no
 * long item. The first half gets the elements before `first`. */
static void add_part(stage *stage, part part, int64_t first, int64_t n, double cost) {
  const double most = WINOGRAD_CHUNK / cost;
  const int64_t each = most < 1 ? 1 : most < (double)n ? (int64_t)most : larger(n, 1);
  part.each = each - (part.each > 0 && each >= part.each ? each % part.each : 0);
  for (int half = 0; half < 2; half++) {
    part.begin = half ? first : 0;
    part.end = half ? n : first;
    stage->parts[half][stage->n_parts] = part;
  }
  stage->n_parts++;
}

static void run_item(const stage *stage, const part *part, int64_t item, int32_t worker) {
  winograd_run run = *stage->run;
  run.scratch += worker * run.plan->worker_scratch;
  const int64_t begin = part->begin + item * part->each;
  part->fn(&run, part->step, begin, smaller(begin + part->each, part->end));
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
enum { COST_INPUT = 13, COST_WEIGHT = 12, COST_OUTPUT = 13 };

/* The transforms of a step (NULL: after the last), and those into Y of the step before it (NULL: none). */
static reed_status transform(const winograd_run *run, const winograd_step *t, const winograd_step *before) {
  stage stage = {.run = run};
  if (before)
    add_part(&stage, (part){winograd_step_output, before}, second_half(before), before->tiles,
             (double)(before->s->positions * before->columns) * COST_OUTPUT);
  if (t && t->first[0] == 0 && !run->plan->form.stored && !t->s->narrow) {
    int64_t panels = divided(t->columns, run->plan->width), pieces = winograd_panel_pieces(run->plan);
    add_part(&stage, (part){winograd_step_weights, t}, divided(panels, 2) * pieces, panels * pieces,
             (double)(t->s->positions * winograd_weights_work(run->plan)) * COST_WEIGHT);
  }
  if (t && t->column == 0 && !t->s->own)
    add_part(&stage, (part){winograd_step_input, t}, second_half(t), t->tiles,
             (double)(t->s->positions * run->plan->depth) * COST_INPUT);
  return run_stage(&stage);
}

/* ---- blocks of a thread ---- */

typedef struct own_run {
  const winograd_run *run;
  const winograd_section *section;
} own_run;

enum { OWN_PARTS = 3 };

/* The work on a block, from X to Y, in items of some 30 us. Returns their number. */
static int64_t own_parts(const winograd_plan *plan, const winograd_step *t, part *out_parts) {
  const int64_t ends[] = {t->tiles, winograd_half_products(plan, t, 0), t->tiles}, positions = t->s->positions,
                costs[] = {positions * plan->v_row * COST_INPUT,
                           smaller(t->tiles, winograd_product_tiles(plan)) * plan->depth * plan->width,
                           positions * t->columns * COST_OUTPUT};
  int64_t items = 0;
  for (int i = 0; i < OWN_PARTS; items += items_of(&out_parts[i++]))
    out_parts[i] = (part){.fn = i == 0   ? winograd_step_input
                                : i == 1 ? winograd_step_products
                                         : winograd_step_output,
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
  const winograd_step t = winograd_step_at(plan, own->section, block);
  if (t.tiles <= 0) return false; /* blocks are rounded up */
  part parts[OWN_PARTS];
  const bool last = index + 1 == own_parts(plan, &t, parts);
  const part *at = parts;
  for (; index >= items_of(at); at++) index -= items_of(at);
  at->fn(&run, &t, index * at->each, smaller((index + 1) * at->each, at->end));
  return !last;
}

static reed_status run_own_blocks(const winograd_run *run, const winograd_step *t) {
  part parts[OWN_PARTS];
  own_run own = {run, t->s};
  return cpu_relay(run->plan->team, t->s->n_blocks, t->s->n_blocks * own_parts(run->plan, t, parts), run_own, &own);
}

/* ---- narrow sections: panels of a thread ---- */

/* The steps of a panel: for each piece of its depth those that transform weights, then those that multiply; after all
 * pieces those that transform tiles into Y. */
typedef struct panel_steps {
  int64_t n_pieces, n_weights, n_products; /* pieces, and the steps of both kinds that each one has */
  int64_t products_each, tiles_each;       /* of a step */
  int64_t n;                               /* all steps */
} panel_steps;

static panel_steps steps_of_panel(const winograd_plan *plan, const winograd_step *t) {
  const winograd_section *s = t->s;
  const bool whole = s->depth_step == 0;
  const int64_t products = whole ? winograd_half_products(plan, t, 0) : s->positions,
                tiles = whole ? smaller(t->tiles, winograd_product_tiles(plan)) : t->tiles,
                depth = whole ? plan->depth : s->depth_step;
  panel_steps p = {.n_pieces = whole ? 1 : winograd_depth_pieces(plan, s),
                   .n_weights = plan->form.stored ? 0
                                : whole           ? winograd_panel_pieces(plan)
                                                  : 1,
                   .products_each = larger(PANEL_PRODUCTS / (tiles * depth * plan->width), 1),
                   .tiles_each = larger(PANEL_PRODUCTS / (s->positions * plan->width * COST_OUTPUT), 1)};
  p.n_products = divided(products, p.products_each);
  p.n = p.n_pieces * (p.n_weights + p.n_products) + divided(t->tiles, p.tiles_each);
  return p;
}

/* Products begin..end of a panel whose depth is taken in pieces. */
static void multiply_piece(const winograd_run *run, const winograd_step *t, const panel_steps *p, int64_t piece,
                           int64_t begin, int64_t end, int32_t place) {
  const winograd_section *s = t->s;
  const bool last = piece + 1 == p->n_pieces;
  int64_t panel = t->column / s->k_width;
  /* the calling thread takes panels from the first one on, helpers from the last one */
  if (last) panel = place == 0 ? smaller(panel + 1, s->n_ks - 1) : larger(panel - 1, 0);
  const winograd_step after = winograd_step_at(run->plan, s, panel);
  winograd_piece_products(run, t, piece, &after, !last ? piece + 1 : 0, begin, smaller(end, s->positions));
}

typedef struct narrow_run {
  const winograd_run *run;
  const winograd_section *section;
  int64_t first; /* step of the section */
} narrow_run;

/* A step of a panel of a block, with M and U of the place. */
static bool run_panel(void *context, int64_t panel, int64_t index, int32_t place) {
  const narrow_run *narrow = context;
  const winograd_plan *plan = narrow->run->plan;
  const winograd_section *s = narrow->section;
  winograd_run run = *narrow->run;
  run.m += place * plan->worker_m;
  run.u += place * plan->worker_u;
  const winograd_step t = winograd_step_at(plan, s, narrow->first + panel);
  const panel_steps p = steps_of_panel(plan, &t);
  const int64_t each = p.n_weights + p.n_products, piece = index / each, at = index % each;
  if (piece >= p.n_pieces) {
    const int64_t begin = (index - p.n_pieces * each) * p.tiles_each;
    winograd_step_output(&run, &t, begin, smaller(begin + p.tiles_each, t.tiles));
  } else if (at < p.n_weights) {
    if (s->depth_step) winograd_piece_weights(&run, &t, piece);
    else winograd_step_weights(&run, &t, at, at + 1);
  } else {
    const int64_t begin = (at - p.n_weights) * p.products_each, end = begin + p.products_each;
    if (s->depth_step) multiply_piece(&run, &t, &p, piece, begin, end, place);
    else winograd_step_products(&run, &t, begin, smaller(end, winograd_half_products(plan, &t, 0)));
  }
  return index + 1 < p.n;
}

/* The panels of block number `block`. */
static reed_status run_panels(const winograd_run *run, const winograd_step *t, int64_t block) {
  const int64_t panels = t->s->n_ks;
  narrow_run narrow = {run, t->s, block * panels};
  return cpu_relay(run->plan->team, panels, panels * steps_of_panel(run->plan, t).n, run_panel, &narrow);
}

/* ---- plans ---- */

static reed_status products(const winograd_run *run, const winograd_step *t) {
  const winograd_plan *plan = run->plan;
  stage stage = {.run = run};
  int64_t pieces = divided(t->n[0], winograd_product_tiles(plan)), first = winograd_half_products(plan, t, 0),
          all = first + winograd_half_products(plan, t, 1);
  if (t->n[1] == 0) first = divided(first / pieces, 2) * pieces;
  add_part(&stage, (part){winograd_step_products, t, .each = pieces}, first, all,
           (double)(smaller(t->n[0], winograd_product_tiles(plan)) * plan->depth * plan->width));
  return run_stage(&stage);
}

reed_status winograd_plan_run(const winograd_plan *plan, const void *x, const void *weights, const float *bias,
                              const void *residual, void *y, void *workspace) {
  float *v = workspace, *m = v + plan->v_elements;
  float *u = m + plan->m_elements;
  winograd_run run = {plan, x, weights, bias, residual, y, v, m, u, u + plan->u_elements};
  winograd_step steps[2];
  const winograd_step *before = NULL; /* whose transform into Y is left */
  int64_t n = 0;
  reed_status status = REED_OK;
  for (int32_t i = 0; i < plan->n_sections; i++) {
    const winograd_section *s = &plan->sections[i];
    const int64_t n_steps = s->own ? 1 : s->narrow ? s->n_blocks : s->n_blocks * s->n_ks;
    for (int64_t k = 0; k < n_steps && status == REED_OK; k++, n++) {
      winograd_step *t = &steps[n % 2];
      *t = winograd_step_at(plan, s, s->narrow ? k * s->n_ks : k);
      if (t->tiles <= 0) break; /* blocks are rounded up */
      status = transform(&run, t, before);
      before = s->own || s->narrow ? NULL : t;
      if (status == REED_OK)
        status = s->own ? run_own_blocks(&run, t) : s->narrow ? run_panels(&run, t, k) : products(&run, t);
    }
  }
  return status == REED_OK && before ? transform(&run, NULL, before) : status;
}
