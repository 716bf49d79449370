/* Planning products over packed panels (panels.h): tiles, blocks of depth, chunks. The run of a plan is in
 * panel_run.c. */
#include "ops/cpu/product/panel_plan.h"

#include <assert.h>

#include "ops/cpu/product/panel_problem.h"
#include "ops/cpu/product/pieces.h"

#define ROWS_MOST 16 /* of a tile, at any level */
#define TILES_SHARED \
  8                   /* of a chunk, at least, where a thread would have none otherwise: the weights pass the cache \
                       */
#define TILES_LEAST 2 /* of a chunk, at least, where panels alone are too few */
#define TILES_FEW 8   /* of a chunk with one tap, at least, if all weights are at most FEW_BYTES */
#define FEW_BYTES (1 << 20)      /* about the second-level cache */
#define NEAR_BYTES (64 << 10)    /* of X and Y of a chunk of more than TILES_FEW tiles */
#define NEAR_SHALLOW (256 << 10) /* the same of shallow tiles, of which an item has more: its beginning takes long */
#define RESULTS_FEW 4096  /* at most, of a product whose depth is cut: as many chunks as threads want have few tiles */
#define TILES_STREAMED 16 /* of a chunk, at least, if all weights are more than FEW_BYTES */
#define ITEMS_LEAST 4     /* of a block of depth for each thread, where a job for each block makes chunks short */
#define PANELS_STREAMED 4 /* of a group, at least, if a chunk's X is more than FEW_BYTES */
#define DEPTH_MOST \
  1024 /* of a block of several taps: 256 KB of a panel, which stay in the second-level cache while a chunk's tiles \
          pass */
#define WHOLE_UNITS 2.5         /* times as many products in the same time where units compute whole vectors */
#define DEPTH_SHALLOW 32        /* of shallow tiles, at most */
#define COPIED_SHALLOW 48       /* shallow tiles of a copy of X */
#define FAR_Y_BYTES (8 << 20)   /* of Y that shallow tiles fetch before they write it, at least */
#define CHANNELS_MOST 512       /* of a block of one tap, whose X has no overlap between taps to live on */
#define CHUNK_BYTES (576 << 10) /* of X that a chunk reads, about: passes the second-level cache once a panel */
#define STRIP_BYTES (16 << 10)  /* of X that a strip's tiles multiply, about: half of the first-level cache */
#define STAGE_BYTES (128 << 10) /* of the sums of a chunk that are rounded together: in the second-level cache */
#define ROW_DEPTH_LEAST 96      /* of a tap row that is a block, to leave out columns */
#define ALIASED_BYTES 4096      /* rows at multiples of this share the same few lines of the first-level cache */

/* True if many of a dilated window's columns lie beyond X's row: a block of a tap row leaves those out (run_block). */
static bool leaves_columns_out(const panel_problem *p) {
  return p->pairs && !p->halves.y && !p->halves.residual && p->taps[2] > 1 && p->dilation[2] > 1 &&
         p->taps[0] * p->taps[1] > 1 && p->taps[2] * p->channels >= ROW_DEPTH_LEAST && 4 * p->pad[2] >= p->out[2];
}

static void choose_blocks(panel_plan *plan) {
  const depth_order *o = &plan->order;
  int64_t taps = o->tap_rows * o->tap_columns, most = taps == 1 ? CHANNELS_MOST : DEPTH_MOST;
  plan->taps_per_block = taps;
  plan->channels_per_block = o->channels;
  if (o->channels > most) {
    int64_t pieces = (o->channels + most - 1) / most;
    plan->channels_per_block = round_up((o->channels + pieces - 1) / pieces, 16);
    plan->taps_per_block = 1;
    plan->n_blocks = taps * ((o->channels + plan->channels_per_block - 1) / plan->channels_per_block);
    return;
  }
  if (taps * o->channels > most) {
    plan->taps_per_block = most / o->channels;
    if (plan->taps_per_block >= o->tap_columns)
      plan->taps_per_block -= plan->taps_per_block % o->tap_columns; /* whole tap rows */
  }
  if (leaves_columns_out(&plan->p)) plan->taps_per_block = smaller(plan->taps_per_block, o->tap_columns);
  plan->n_blocks = (taps + plan->taps_per_block - 1) / plan->taps_per_block;
}

/* Distance in X between the first elements of tap row 0 and of tap row `tap_row`. */
static int64_t tap_row_at(const panel_plan *plan, int64_t tap_row) {
  const panel_problem *p = &plan->p;
  int64_t taps = p->taps[0] * p->taps[1], tap = tap_row % taps;
  return tap_row / taps * p->x_channel + tap / p->taps[1] * p->dilation[0] * p->x_slab +
         tap % p->taps[1] * p->dilation[1] * p->x_row;
}

/* The most tap rows that a block touches. */
static int64_t block_rows(const panel_plan *plan) {
  int64_t columns = plan->order.tap_columns, n = (plan->taps_per_block + columns - 1) / columns;
  if (plan->taps_per_block % columns != 0) n++; /* it may begin within a row */
  return n < plan->order.tap_rows ? n : plan->order.tap_rows;
}

static void choose_runs(panel_plan *plan) {
  const panel_problem *p = &plan->p;
  const depth_order *o = &plan->order;
  bool whole_rows =
      plan->channels_per_block == o->channels && (plan->taps_per_block % o->tap_columns == 0) && p->dilation[2] == 1;
  const int64_t taps = taps_of(plan);
  plan->in_place = (run_table){whole_rows && p->x_pixel == o->channels, p->stride[2] * p->x_pixel, plan->offsets};
  plan->copied =
      (run_table){whole_rows && plan->copy_pixel == o->channels, p->stride[2] * plan->copy_pixel, plan->offsets + taps};
  int64_t *in_place = plan->offsets;
  for (int64_t y = 0; y < o->tap_rows; y++)
    for (int64_t x = 0; x < (plan->in_place.joined ? 1 : o->tap_columns); x++)
      *in_place++ = tap_row_at(plan, y) + x * p->dilation[2] * p->x_pixel;
  for (int64_t tiles = 1; tiles <= plan->copied_most; tiles++) {
    int64_t *copied = plan->offsets + tiles * taps;
    for (int64_t y = 0; y < o->tap_rows; y++)
      for (int64_t x = 0; x < (plan->copied.joined ? 1 : o->tap_columns); x++)
        *copied++ = (y * copy_span(plan, tiles) + x * p->dilation[2]) * plan->copy_pixel;
  }
}

/* Splits the work further, up to `wanted` items: into groups of at least `panels` panels, then into chunks of at least
 * `tiles` tiles. */
static void share_further(panel_plan *plan, int64_t wanted, int64_t panels, int64_t tiles) {
  int64_t each = divided(wanted, plan->p.groups), groups = packed_panels(plan->p.outputs) / panels;
  plan->n_groups = larger(plan->n_groups, smaller(divided(each, plan->n_chunks), groups));
  each = divided(each, plan->n_groups);
  plan->n_chunks = larger(plan->n_chunks, smaller(each, plan->n_tiles / tiles));
}

/* Cuts items that are longer than the team's chunks, in an order that keeps them in the caches: items that follow each
 * other are pieces of a chunk's tiles, which pass one panel, then the chunk's next panel. One job for each block of a
 * depth of several blocks keeps the block of X in the cache from panel to panel, as long as each job has work enough
 * for all threads; sums that are staged must be complete within an item. */
static void cut_items(panel_plan *plan, int64_t wanted) {
  const panel_problem *p = &plan->p;
  int64_t panels = packed_panels(p->outputs), tiles = divided(plan->n_tiles, plan->n_chunks);
  plan->by_depth = plan->n_blocks > 1 && plan->n_parts == 1 && !p->halves.y && !p->halves.residual &&
                   wanted >= plan->n_blocks * ITEMS_LEAST * plan->team.threads;
  if (plan->by_depth) wanted = divided(wanted, plan->n_blocks);
  int64_t each = divided(wanted, p->groups * plan->n_chunks);
  if (plan->by_depth || plan->n_blocks == 1)
    plan->n_groups = larger(plan->n_groups, divided(panels, larger(panels / each, 1)));
  each = smaller(larger((each + plan->n_groups / 2) / plan->n_groups, 1), PIECES_MOST);
  plan->n_pieces =
      divided(tiles, larger(divided(tiles, each), plan->by_depth || plan->n_blocks == 1 ? 1 : TILES_LEAST));
  int64_t items = p->groups * plan->n_chunks * plan->n_groups * plan->n_pieces,
          all = items < 2 * wanted ? items : divided(items, items / wanted); /* of as many items each */
  plan->team.chunks = (int32_t)(all * plan->n_parts);
}

/* Makes as many items of work as the team wants: smaller chunks if the weights stay in the cache, then groups of
 * panels, then chunks smaller still. A group reads its chunk's X anew, and a chunk its group's weights: where these
 * are larger than the cache, groups and chunks are no smaller than the memory's rate allows, unless threads would have
 * no work. */
static void share_tiles(panel_plan *plan, bool few_weights) {
  const panel_problem *p = &plan->p;
  int64_t least = divided(4 * plan->team.threads, plan->n_parts),
          wanted = larger(least, plan->team.chunks / plan->n_parts), each = divided(wanted, p->groups);
  if (few_weights) plan->n_chunks = larger(plan->n_chunks, smaller(each, divided(plan->n_tiles, TILES_SHARED)));
  int64_t x_bytes = divided(plan->n_tiles, plan->n_chunks) * plan->level_rows * p->channels * (int64_t)sizeof(float);
  share_further(plan, wanted, x_bytes > FEW_BYTES ? PANELS_STREAMED : 1, few_weights ? TILES_LEAST : TILES_STREAMED);
  share_further(plan, least, 1, TILES_LEAST);
  cut_items(plan, wanted);
}

/* The team for the work, whose chunks take as long where units compute whole vectors: fewer of them there, but of
 * flat products, which memory decides. */
static cpu_team team_of(const reed_kernel_call *call, const panel_problem *p, cpu_level level) {
  const bool flat = p->taps[0] * p->taps[1] * p->taps[2] * p->channels < FLAT_DEPTH;
  cpu_team team = cpu_team_for(cpu_env_team(call), panel_work(p));
  if (team.threads > 1 && level >= CPU_AVX512 && cpu_units_now() == CPU_UNITS_WHOLE && !flat)
    team.chunks = (int32_t)round_up((int64_t)(team.chunks / WHOLE_UNITS) + 1, team.threads);
  return team;
}

/* True if tiles are shallow (panel_loops.h): of one panel, because more of them write so much that fetching Y ahead is
 * worth more. */
static bool is_shallow(const panel_problem *p) {
  return p->outputs <= PACKED_WIDTH && p->taps[0] * p->taps[1] * p->taps[2] * p->channels <= DEPTH_SHALLOW;
}

/* Tiles of a copy of X, at most. */
static int64_t copied_tiles(const panel_problem *p) {
  if (!p->pairs || p->halves.x) return 1;
  return is_shallow(p) ? COPIED_SHALLOW : COPIED_MOST;
}

static void choose_tiles(panel_plan *plan) {
  panel_problem *p = &plan->p;
  plan->tiles_per_row = (p->out[2] + plan->level_rows - 1) / plan->level_rows;
  plan->rows_least = p->out[2] / plan->tiles_per_row;
  plan->n_larger = p->out[2] % plan->tiles_per_row;
  plan->strip_most = larger(
      STRIP_BYTES / (plan->level_rows * plan->taps_per_block * plan->channels_per_block * (int64_t)sizeof(float)), 1);
  plan->n_tiles = p->images * p->out[0] * p->out[1] * plan->tiles_per_row;
  plan->last_whole = panel_last_whole_column(p);
  plan->all_copied = p->pairs && !p->halves.x;
  plan->some_copied = plan->all_copied;
  for (int i = 0; i < PANEL_AXES; i++)
    if (p->pad[i] > 0 || (p->out[i] - 1) * p->stride[i] - p->pad[i] + (p->taps[i] - 1) * p->dilation[i] >= p->in[i])
      plan->some_copied = true;
  plan->copy_pixel = plan->channels_per_block;
  if (plan->copy_pixel * p->stride[2] * (int64_t)sizeof(float) % (ALIASED_BYTES / 2) == 0) plan->copy_pixel += 16;
  plan->copied_most = smaller(smaller(plan->strip_most, plan->tiles_per_row), copied_tiles(p));
  /* so many for each of its tiles hold a copy of several */
  const int64_t span = larger(copy_span(plan, 1), plan->level_rows * p->stride[2]);
  plan->copy_elements = round_up(block_rows(plan) * span * plan->copy_pixel, 16);
  /* with one tap, tiles share no X: if the weights stay in the cache from chunk to chunk, small chunks keep X and Y
   * near */
  int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
  bool few_weights = taps * p->channels * p->outputs * (int64_t)sizeof(float) <= FEW_BYTES,
       few = taps == 1 && few_weights;
  const int64_t near = (plan->shallow ? NEAR_SHALLOW : NEAR_BYTES) /
                       (plan->level_rows * (p->channels + p->outputs) * (int64_t)sizeof(float));
  int64_t tiles = CHUNK_BYTES / (plan->copy_elements * (int64_t)sizeof(float)),
          most = few ? smaller(larger(near, TILES_FEW), TILES_MOST) : TILES_MOST;
  tiles = tiles < 4 ? 4 : tiles > most ? most : tiles;
  plan->n_chunks = divided(plan->n_tiles, tiles);
  plan->n_groups = plan->n_pieces = 1;
  if (plan->team.threads > 1) share_tiles(plan, few_weights);
  plan->tiles_per_chunk = divided(plan->n_tiles, plan->n_chunks);
}

/* One long row of pixels under one tap. */
static bool is_matrix(const panel_problem *p) {
  return p->images == 1 && p->groups == 1 && p->out[0] == 1 && p->out[1] == 1 && p->taps[0] == 1 && p->taps[1] == 1 &&
         p->taps[2] == 1 && p->pad[2] == 0 && p->stride[2] == 1 && p->in[2] == p->out[2] && !p->channels_first;
}

/* Cuts the depth of a product of matrices with few results. */
static void choose_parts(panel_plan *plan) {
  panel_problem *p = &plan->p;
  plan->n_parts = 1;
  if (!is_matrix(p) || p->halves.y || p->halves.residual || p->y_pixel != p->outputs ||
      p->out[2] * p->outputs > RESULTS_FEW)
    return;
  const int64_t parts = depth_pieces(p->out[2], p->outputs, packed_width(p->outputs, 0), p->channels, PIECE_LEAST);
  plan->n_parts = smaller(parts, plan->n_blocks);
  if (plan->n_parts == 1) return;
  plan->ends = p->activation;
  p->activation = (activation){.level = plan->ends.level};
}

static void choose_stage(panel_plan *plan, cpu_level level) {
  const packed_halves *halves = &plan->p.halves;
  plan->halves = halves->y && halves->residual && plan->n_blocks == 1 && activation_ends_tiles(&plan->p.activation);
  plan->staged = (halves->y || halves->residual) && !plan->halves;
  plan->stage_panels = packed_panels(plan->p.outputs);
  if (!plan->staged) return;
  int64_t most = STAGE_BYTES / (chunk_pixels(plan) * PACKED_WIDTH * (int64_t)sizeof(float));
  plan->stage_panels = larger(smaller(plan->stage_panels, most), 1);
  plan->widen = convert_between(level, REED_BF16, REED_F32);
  plan->narrow = convert_between(level, REED_F32, REED_BF16);
}

/* Takes Strassen's form for a product of matrices, if it is faster. */
static void consider_strassen(panel_plan *plan, cpu_level level) {
  const panel_problem *p = &plan->p;
  const strassen_problem problem = {.rows = p->out[2],
                                    .depth = p->channels,
                                    .outputs = p->outputs,
                                    .a_row = p->x_pixel,
                                    .y_row = p->y_pixel,
                                    .weights_f16 = p->weights_f16,
                                    .activation = p->activation};
  plan->by_strassen = is_matrix(p) && !p->pairs && strassen_is_faster(&problem, level);
  if (plan->by_strassen) strassen_plan_init(&plan->strassen, &problem, level, plan->team);
}

/* Tables of offsets of runs: of X itself, and of copies. */
static int64_t run_tables(const panel_problem *p) { return 1 + copied_tiles(p); }

reed_status panel_plan_open(const reed_kernel_call *call, const panel_problem *problem, panel_plan **out_plan) {
  bool first = problem->channels_first;
  depth_order order = {problem->taps[0] * problem->taps[1] * (first ? problem->channels : 1), problem->taps[2],
                       first ? 1 : problem->channels};
  panel_plan *plan = mem_calloc(1, sizeof *plan + (size_t)(run_tables(problem) * order.tap_rows * order.tap_columns) *
                                                      sizeof *plan->offsets);
  if (!plan) return cpu_no_memory(call);
  plan->p = *problem;
  plan->order = order;
  panel_join_rows(&plan->p);
  cpu_level level = cpu_level_now();
  plan->multiply = CPU_PICK(level, panel_multiply);
  plan->multiply_f32 = plan->multiply;
  plan->widen_weights = convert_between(level, REED_F16, REED_F32);
  if (problem->weights_f16) plan->multiply = PANEL_F16_PICK(level);
#ifdef CPU_HAS_BF16_LOOPS
  if (problem->pairs) plan->multiply = panel_pairs_multiply;
#endif
  plan->shallow = is_shallow(problem);
  plan->far_y = (double)problem->images * (double)problem->y_image * sizeof(float) >= FAR_Y_BYTES;
  plan->level_rows =
      (plan->shallow ? CPU_PICK(level, panel_rows_shallow) : CPU_PICK(level, panel_rows))(problem->outputs);
  plan->level_rows = (int)smaller(plan->level_rows, larger(plan->p.out[2], 1));
#ifdef CPU_HAS_AMX_LOOPS
  if (problem->pairs && level >= CPU_AMX) {
    plan->multiply = panel_amx_multiply;
    plan->release = panel_amx_release;
    plan->level_rows = panel_amx_rows();
  }
#endif
  assert(plan->level_rows <= ROWS_MOST);
  plan->level_lanes = CPU_PICK(level, panel_lanes)();
  plan->team = team_of(call, problem, level);
  plan->bias_elements = round_up(problem->groups * problem->outputs, PACKED_WIDTH) + PACKED_WIDTH;
  consider_strassen(plan, level);
  if (!plan->by_strassen) {
    choose_blocks(plan);
    choose_parts(plan);
    choose_tiles(plan);
    choose_stage(plan, level);
    choose_runs(plan);
  }
  *out_plan = plan;
  return REED_OK;
}

void panel_plan_close(panel_plan *plan) { mem_free(plan); }

int64_t panel_plan_state_bytes(const panel_plan *plan) {
  return (int64_t)sizeof *plan + run_tables(&plan->p) * taps_of(plan) * (int64_t)sizeof *plan->offsets;
}

bool panel_plan_is_strassen(const panel_plan *plan) { return plan->by_strassen; }

int64_t panel_plan_workspace_bytes(const panel_plan *plan) {
  if (plan->by_strassen)
    return plan->bias_elements * (int64_t)sizeof(float) + strassen_plan_workspace_bytes(&plan->strassen);
  return (plan->bias_elements + plan->team.threads * thread_elements(plan) + parts_elements(plan)) *
         (int64_t)sizeof(float);
}
