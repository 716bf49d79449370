/* Planning Winograd convolutions (winograd.h): blocks of tiles, the memory of V, M and U. The choice of a form is in
 * winograd_choice.c. */
#include <stdio.h>

#include "ops/cpu/product/winograd.h"

#define ALIASED 1024                   /* rows at multiples of so many floats share lines of the first-level cache */
#define BLOCK_BYTES (2 << 20)          /* of V and M of a block, about */
#define WEIGHT_BYTES (6 << 20)         /* of weights that are transformed together if one block needs them */
#define BLOCKS_OF_WEIGHTS 4            /* bytes of transformed weights for one of a block, at most */
#define HALVES_WEIGHT_BYTES (20 << 20) /* of transformed weights of several blocks in halves, at most */
#define TILES_LEAST 48                 /* of a block: fewer read the weights too often */
#define SPARED 1.5                     /* times the memory of one block that several take, to be one */
#define PAST_BYTES (4 << 20)           /* of transformed weights that one thread writes past the caches, at least */
#define NARROW_PRODUCTS (10 << 20)     /* of a panel: at most if no memory is saved */
#define NARROW_PANELS_EACH 4           /* of each thread, at least, where memory is saved */
#define NARROW_PANELS 8                /* at least */
#define NARROW_CHANNELS 256       /* of a piece of a panel's depth, at most: longer ones take memory, no less time */
#define NARROW_V_BYTES (12 << 20) /* of V of a block, at most (one thread) */
#define OWN_BYTES (384 << 10)     /* of V and M of a block that is a chunk, about: they stay in a core's own cache */
#define OWN_MOST (1 << 20)        /* and at most */
#define OWN_BLOCKS 2              /* of each thread, at least */
#define OWN_BLOCKS_EVEN 4         /* of each thread: if fewer, as many for each */

/* A row of n floats in V or M. */
static int64_t row_of(int64_t n) {
  int64_t row = round_up(n, WINOGRAD_LINE);
  return row % ALIASED == 0 ? row + WINOGRAD_LINE : row;
}

/* A position of n floats: neighbouring positions begin in different lines of the first-level cache. */
static int64_t position_of(int64_t n) { return round_up(n, ALIASED) + WINOGRAD_LINE; }

/* The places at which panels of a narrow section are in work (relay.h): the same for all narrow sections. */
static int64_t narrow_places(const winograd_plan *plan, const winograd_section *s) {
  return smaller(plan->team.threads, s->n_ks);
}

/* Floats of V, M and U of a section in the workspace. */
static int64_t section_elements(const winograd_plan *plan, const winograd_section *s) {
  int64_t m = s->n_halves * s->m_half, u = plan->form.stored ? 0 : s->positions * s->u_position;
  return s->n_halves * s->v_half + (s->narrow ? narrow_places(plan, s) * (m + u) : m + u);
}

/* The rows, positions and halves of V, M and U, from the number of blocks and the outputs that are taken together. */
static void lay_out(const winograd_plan *plan, winograd_section *s) {
  int64_t tiles = winograd_block_tiles(s);
  s->m_row = s->narrow ? plan->width : plan->m_row;
  s->v_position = position_of(tiles * plan->v_row);
  s->m_position = s->narrow ? tiles * s->m_row + WINOGRAD_LINE : position_of(tiles * plan->m_row);
  s->v_half = s->positions * s->v_position;
  s->m_half = s->positions * s->m_position;
  s->n_ks = divided(round_up(plan->p.outputs, PACKED_STEP), s->k_width);
  s->u_position = position_of(plan->form.stored ? round_up(plan->p.outputs, PACKED_STEP) * plan->u_depth
                              : s->depth_step   ? s->k_width * s->depth_step
                                                : s->k_width * plan->u_depth);
}

/* A narrow section in place of `s` where a panel is little work, or where panels are enough for all threads and it
 * takes less memory: V of a block, but M of a panel and U of a piece of its depth for each thread. Several threads take
 * all tiles as one block, because each of them reads all of V, which other threads wrote in part. An activation whose
 * last bits may depend on its vectors leaves only the first reason, which is no matter of threads. */
static void consider_narrow(const winograd_plan *plan, winograd_section *s, bool one_block) {
  const winograd_problem *p = &plan->p;
  const int64_t panels = divided(round_up(p->outputs, PACKED_STEP), plan->width),
                products = s->positions * s->tiles * plan->depth * plan->width,
                v_bytes = s->tiles * s->positions * plan->v_row * (int64_t)sizeof(float);
  if (s->own || panels < NARROW_PANELS) return;
  winograd_section narrow = *s;
  narrow.n_blocks =
      plan->team.threads > 1 ? 1 : smaller(divided(v_bytes, NARROW_V_BYTES), larger(s->tiles / TILES_LEAST, 1));
  narrow.n_halves = 1;
  narrow.narrow = true;
  narrow.depth_step = plan->form.stored || plan->form.fixed ? 0 : smaller(p->channels, NARROW_CHANNELS);
  narrow.k_width = plan->width;
  lay_out(plan, &narrow);
  const bool enough = panels >= NARROW_PANELS_EACH * plan->team.threads && activation_ends_tiles(&p->activation);
  if ((one_block && products <= NARROW_PRODUCTS) ||
      (enough && section_elements(plan, &narrow) < section_elements(plan, s)))
    *s = narrow;
}

static void plan_section(winograd_plan *plan, winograd_section *s) {
  const winograd_problem *p = &plan->p;
  int64_t row = plan->v_row + plan->m_row, columns = round_up(p->outputs, PACKED_STEP);
  s->positions = (int64_t)(s->size[0] + 2) * (s->size[1] + 2);
  s->tiles = p->images * p->slices.out * winograd_lattices(p) * s->n[0] * s->n[1];
  /* large weights: blocks so large that a small map has only one, which needs few of the transformed weights at a time
   */
  int64_t weights = plan->form.stored ? 0 : s->positions * plan->depth * columns * (int64_t)sizeof(float),
          most =
              larger(larger(BLOCK_BYTES, weights / BLOCKS_OF_WEIGHTS) / (s->positions * row * (int64_t)sizeof(float)),
                     TILES_LEAST);
  int64_t tile = s->positions * row * (int64_t)sizeof(float);
  /* one block, with some of the weights at a time, where all weights are much larger than its V and M */
  if ((double)(s->tiles * tile + WEIGHT_BYTES) * SPARED < (double)(most * tile + weights))
    most = larger(most, s->tiles);
  int64_t own = larger(OWN_BYTES / tile, WINOGRAD_OWN_TILES);
  s->own = plan->team.threads > 1 && own * tile <= OWN_MOST && weights / BLOCKS_OF_WEIGHTS <= own * tile &&
           divided(s->tiles, own) >= OWN_BLOCKS * plan->team.threads;
  /* halves, unless threads would read large weights anew for each of the blocks */
  bool shared = plan->team.threads > 1 && !s->own && s->tiles > 1;
  s->n_halves = shared && (weights <= HALVES_WEIGHT_BYTES || s->tiles <= most) ? 2 : 1;
  s->n_blocks = divided(s->tiles, s->own ? own : s->n_halves * most);
  if (s->own && s->n_blocks < OWN_BLOCKS_EVEN * plan->team.threads)
    s->n_blocks = round_up(s->n_blocks, plan->team.threads);
  /* which outputs are taken together is no matter of threads */
  bool one_block = s->n_blocks == 1 && s->tiles <= most;
  s->k_width = columns;
  if (one_block && !plan->form.stored) {
    int64_t each = s->positions * plan->depth * plan->width * (int64_t)sizeof(float);
    s->k_width = smaller(larger(WEIGHT_BYTES / each, 1) * plan->width, columns);
  }
  lay_out(plan, s);
  consider_narrow(plan, s, one_block);
  /* all threads read the weights, and lines that another CPU has read are slow to overwrite (docs/measurements.md) */
  s->past =
      !s->narrow && (plan->team.threads > 1 || s->positions * s->u_position * (int64_t)sizeof(float) >= PAST_BYTES);
  int64_t v = s->n_halves * s->v_half, m = s->n_halves * s->m_half, u = s->positions * s->u_position,
          workers = plan->team.threads;
  if (s->own) plan->worker_v = larger(plan->worker_v, v);
  plan->v_elements = larger(plan->v_elements, s->own ? workers * plan->worker_v : v);
  if (s->narrow || s->own) {
    plan->worker_m = larger(plan->worker_m, m);
    plan->m_places = larger(plan->m_places, s->own ? workers : narrow_places(plan, s));
  }
  if (s->narrow && !plan->form.stored) plan->worker_u = larger(plan->worker_u, u);
  plan->m_elements = larger(plan->m_elements, s->narrow || s->own ? plan->m_places * plan->worker_m : m);
  plan->worker_scratch = larger(plan->worker_scratch, s->positions * plan->scratch_row);
  if (plan->form.stored) plan->stored_elements = u;
  else plan->u_elements = larger(plan->u_elements, s->narrow ? narrow_places(plan, s) * plan->worker_u : u);
}

/* The strided phases. Those with a part at infinity of the rows, of the columns, and of both are neighbours. */
static void list_phases(winograd_plan *plan) {
  static const int32_t all[WINOGRAD_PHASES][2] = {{0, 1}, {0, 0}, {1, 0}, {1, 1}};
  int n = 0;
  for (int i = 0; i < WINOGRAD_PHASES && plan->p.line_taps <= 3; i++)
    if (all[i][0] < plan->p.stride[0] && all[i][1] < plan->p.stride[1])
      memcpy(plan->phases[n++], all[i], sizeof all[i]);
  plan->n_phases = winograd_phases(&plan->p);
  const int64_t values = (plan->n_phases - 1) * plan->p.channels + round_up(plan->p.channels, WINOGRAD_LINE);
  plan->unit = plan->form.fixed ? 2 : 1;
  plan->depth = plan->u_depth = plan->n_phases * plan->p.channels / plan->unit;
  plan->v_row = row_of(values);
  if (!plan->form.fixed) return;
  plan->u_depth++;
  plan->v_row = row_of(plan->depth + 1); /* and the scale */
  plan->scratch_row = round_up(values, WINOGRAD_LINE);
  plan->scratch_row +=
      plan->scratch_row % (2 * WINOGRAD_LINE) ? 0 : WINOGRAD_LINE; /* positions in different lines of the cache */
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
#ifdef CPU_HAS_BF16_LOOPS
  if (form->fixed) plan->multiply = winograd_fixed_multiply;
#endif
  list_phases(plan);
  int64_t row = 0;
  for (int i = 0; i < WINOGRAD_SIZES; row += form->n[0][i] * winograd_pixels(p, 0, i), i++) {
    int64_t column = 0;
    for (int j = 0; j < WINOGRAD_SIZES; column += form->n[1][j] * winograd_pixels(p, 1, j), j++) {
      if (form->n[0][i] == 0 || form->n[1][j] == 0) continue;
      winograd_section *s = &plan->sections[plan->n_sections++];
      *s = (winograd_section){.size = {winograd_size(p, 0, i), winograd_size(p, 1, j)},
                              .pixels = {winograd_pixels(p, 0, i), winograd_pixels(p, 1, j)},
                              .first = {row, column},
                              .n = {form->n[0][i], form->n[1][j]}};
      plan_section(plan, s);
    }
  }
}

int64_t winograd_plan_workspace_bytes(const winograd_plan *plan) {
  return (plan->v_elements + plan->m_elements + plan->u_elements + plan->team.threads * plan->worker_scratch) *
         (int64_t)sizeof(float);
}

int64_t winograd_plan_stored_bytes(const winograd_plan *plan) { return plan->stored_elements * (int64_t)sizeof(float); }

void winograd_form_text(const winograd_problem *p, const winograd_form *form, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, p->line_taps > 0 ? "winograd of lines " : "winograd ");
  const int from = p->line_taps > 0 ? 1 : 0;
  for (int axis = from; axis < 2; axis++) {
    const char *before = axis > from ? "x" : "";
    for (int i = 0; i < WINOGRAD_SIZES && n < capacity; i++) {
      if (form->n[axis][i] == 0) continue;
      n += (size_t)snprintf(out + n, capacity - n, "%s%d", before, (int)winograd_pixels(p, axis, i));
      before = ",";
    }
  }
  if (from > 0 && p->dilation[1] > 1 && n < capacity)
    n += (size_t)snprintf(out + n, capacity - n, ", dilation %lld", (long long)p->dilation[1]);
  else if (winograd_lattices(p) > 1 && n < capacity)
    n += (size_t)snprintf(out + n, capacity - n, ", dilation %lldx%lld", (long long)p->dilation[0],
                          (long long)p->dilation[1]);
  if (form->stored && n < capacity) snprintf(out + n, capacity - n, ", stored");
  if (form->fixed && n < capacity) snprintf(out + n, capacity - n, ", fixed point");
}
