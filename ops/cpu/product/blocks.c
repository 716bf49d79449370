/* Products over plain matrices (blocks.h). An item of work is a chunk of rows by one panel of a part. A long one runs
 * in steps (cpu_relay): some rows by a block of the depth. The loop over one tile is in panel_loops.c. */
#include "ops/cpu/product/blocks.h"

#include "ops/cpu/common/relay.h"
#include "ops/packed.h"
#include "ops/cpu/product/whole.h"

#define DEPTH_MOST 768  /* of a block: 192 KB of a panel, which stay in the second-level cache while rows pass */
#define DEPTH_BLOCK 512 /* of a block if one is not enough, about */
#define ROWS_LEAST 128  /* of a chunk, if there are so many: filling a panel then takes a few hundredths of the time */
#define CHUNK_PRODUCTS ((int64_t)3 << 19) /* of a chunk, about: some 25 us */
#define CHUNK_FLOATS ((int64_t)1 << 16)   /* of A and Y that a chunk reads and writes, about: likewise */
#define OWN_PRODUCTS \
  ((int64_t)2 << 20)           /* of a chunk that fills its panel for itself, at most, if threads may share \
                                */
#define SHARED_BYTES (2 << 20) /* of a block of depth of the panels that threads share, about */
#define SHARED_ITEMS 2         /* of rows for each thread, at least */
#define FILL_DEPTH 128         /* of a chunk that fills shared panels: some 10 us */
#define FILL_PRODUCTS 16       /* that take as long as filling a panel with an element of B */
#define GIVE_PRODUCTS 64       /* that take as long as giving an element of Y away from its neighbours */
#define TILES_IN_PLACE 2       /* tiles that a panel of B must serve to be worth filling, less one */
#define ROW_BYTES 64           /* that take as long as the begin and the end of a panel's row, in that count */
#define MOST_PRODUCTS 1e15

void block_plan_init(block_plan *plan, cpu_team team) {
  cpu_level level = cpu_level_now();
  plan->multiply = CPU_PICK(level, panel_multiply);
  plan->level_rows = CPU_PICK(level, panel_rows)(plan->columns);
  int64_t blocks = plan->depth <= DEPTH_MOST ? 1 : divided(plan->depth, DEPTH_BLOCK);
  plan->block_depth = divided(plan->depth, blocks);
  plan->n_panels = packed_panels(plan->columns);
  int64_t width = smaller(divided(plan->columns, PACKED_STEP) * PACKED_STEP, PACKED_WIDTH),
          floats = plan->depth < FLAT_DEPTH ? CHUNK_FLOATS / 2 : CHUNK_FLOATS,
          rows = smaller(CHUNK_PRODUCTS / (width * larger(plan->depth, 1)), floats / larger(plan->depth + width, 1));
  if (plan->fills_once) rows = BLOCK_ROWS_ONCE;
  plan->n_row_chunks = divided(plan->rows, rows > ROWS_LEAST ? rows : ROWS_LEAST);
  double products = (double)plan->parts * (double)plan->rows * (double)plan->columns * (double)plan->depth;
  const double touched =
      (double)plan->parts *
      (((double)plan->rows * (double)(plan->depth + plan->columns) + (double)plan->depth * (double)plan->columns) *
           sizeof(float) +
       (double)plan->rows * (double)plan->n_panels * ROW_BYTES);
  if (products > 0 && products < touched * PRODUCTS_PER_BYTE) products = touched * PRODUCTS_PER_BYTE;
  plan->team = cpu_team_for(team, products < MOST_PRODUCTS ? (int64_t)products / PRODUCTS_PER_BYTE : INT64_MAX);
  /* too few items for the threads: smaller chunks of rows */
  int64_t items = plan->parts * plan->n_panels, wanted = 2 * plan->team.threads,
          most = divided(plan->rows, plan->level_rows);
  if (plan->team.threads > 1 && items * plan->n_row_chunks < wanted)
    plan->n_row_chunks = smaller(divided(wanted, items > 0 ? items : 1), most);
  int64_t chunk_rows = divided(plan->rows, plan->n_row_chunks > 0 ? plan->n_row_chunks : 1);
  plan->shared_panels = 0;
  const int64_t job = plan->rows * plan->columns * plan->block_depth; /* products of a block of depth */
  if (plan->may_share && plan->team.threads > 1 && chunk_rows * width * plan->depth > OWN_PRODUCTS &&
      job >= CHUNK_PRODUCTS) {
    const int64_t panel = plan->block_depth * width;
    plan->shared_panels = smaller(larger(SHARED_BYTES / (panel * (int64_t)sizeof(float)), 1), plan->n_panels);
    const int64_t pieces = divided(SHARED_ITEMS * plan->team.threads, plan->shared_panels);
    plan->n_row_chunks = smaller(larger(divided(plan->rows * panel, CHUNK_PRODUCTS), pieces), most);
    chunk_rows = divided(plan->rows, plan->n_row_chunks);
    plan->team.chunks = INT32_MAX; /* an item is a chunk */
  }
  plan->worker_floats = (plan->block_depth + chunk_rows) * PACKED_WIDTH;
  if (width * plan->depth * larger(chunk_rows, FILL_PRODUCTS) > CHUNK_PRODUCTS / 2) plan->team.chunks = INT32_MAX;
  plan->step_tiles = 0;
  const bool fills_long =
      blocks > 1 && width * plan->depth * larger(chunk_rows, FILL_PRODUCTS) > CHUNK_PRODUCTS / 4 * 3;
  if (chunk_rows * width * plan->depth > OWN_PRODUCTS || fills_long)
    plan->step_tiles = larger(
        CHUNK_PRODUCTS / (plan->level_rows * width * (plan->block_depth + (plan->fills_once ? GIVE_PRODUCTS : 0))), 1);
}

static bool is_ragged(const block_plan *plan) { return plan->n_panels * PACKED_WIDTH > plan->columns; }

/* Of a block of depth of the shared panels. */
static int64_t shared_panel_floats(const block_plan *plan) {
  return plan->shared_panels * plan->block_depth * PACKED_WIDTH;
}

/* With the sums of the last panel's columns, if it has fewer than others. */
static int64_t shared_floats(const block_plan *plan) {
  return plan->shared_panels == 0 ? 0 : shared_panel_floats(plan) + is_ragged(plan) * plan->rows * PACKED_WIDTH;
}

int64_t block_plan_workspace_bytes(const block_plan *plan) {
  return (plan->team.threads * plan->worker_floats + shared_floats(plan)) * (int64_t)sizeof(float);
}

int64_t block_worker_floats_most(int64_t rows, int64_t depth) {
  return (smaller(depth, DEPTH_MOST) + rows) * PACKED_WIDTH;
}

typedef struct block_run {
  const block_plan *plan;
  const block_operands *operands;
  float *scratch;
  float *shared;                                 /* panels that threads share, then sums; NULL: none are shared */
  int64_t part, first_panel, n_panels, k, depth; /* of the shared panels and their block of depth */
} block_run;

static float *shared_panel(const block_run *run, int64_t panel) {
  return run->shared + (panel - run->first_panel) * run->plan->block_depth * PACKED_WIDTH;
}

/* An item, and where its results are computed: in Y, or beside it if whole vectors would reach beyond its columns or
 * its elements are not adjacent. */
typedef struct item {
  block_place at;
  int64_t part, row, rows, column, n, width;
  bool beside;
  float *c;
  int64_t c_row;
} item;

static int64_t tiles_of(const block_plan *plan, const item *it) { return divided(it->rows, plan->level_rows); }

/* Multiplies some of the item's tiles of rows with a block of the depth, whose panel has rows panel_row apart. */
static void multiply_block(const block_plan *plan, const item *it, int64_t first_tile, int64_t end_tile, int64_t k,
                           int64_t depth, const float *panel, int64_t panel_row) {
  const int64_t start = 0;
  bool first = k == 0, last = k + depth == plan->depth;
  const int64_t tiles = tiles_of(plan, it);
  for (int64_t i = first_tile; i < end_tile; i++) {
    int64_t row = it->rows * i / tiles, end = it->rows * (i + 1) / tiles;
    panel_tile t = {
        .c = it->c + row * it->c_row,
        .a = it->at.a + (it->row + row) * plan->a_row + k,
        .runs = &start,
        .panel = panel,
        .bias = it->beside || !it->at.bias ? NULL : it->at.bias + it->column,
        .row_bias = it->at.row_bias ? it->at.row_bias + it->row + row : NULL,
        .residual = it->beside || !first || !it->at.residual
                        ? NULL
                        : it->at.residual + (it->row + row) * plan->y_row + it->column,
        .n_runs = 1,
        .run_length = depth,
        .a_row = plan->a_row,
        .panel_row = panel_row,
        .c_row = it->c_row,
        .width = it->width,
        .columns = it->width,
        .rows = end - row,
        .count = 1,
        .scale = plan->scale,
        .next = (const char *)panel,
        .first = first,
        .relu = last && !it->beside && plan->activation.kind == ACTIVATION_RELU,
    };
    if (!first) t.row_bias = NULL;
    plan->multiply(&t);
  }
}

/* Finishes the rows of some of the item's tiles: addends, activation, and the copy to Y. */
static void finish(const block_run *run, const item *it, int64_t first_tile, int64_t end_tile) {
  const block_plan *plan = run->plan;
  if (!it->beside && activation_ends_tiles(&plan->activation)) return;
  const int64_t tiles = tiles_of(plan, it), end = it->rows * end_tile / tiles;
  for (int64_t i = it->rows * first_tile / tiles; i < end; i++) {
    float *c = it->c + i * it->c_row;
    int64_t at = (it->row + i) * plan->y_row + it->column;
    for (int64_t j = 0; it->beside && it->at.bias && j < it->n; j++) c[j] += it->at.bias[it->column + j];
    for (int64_t j = 0; it->beside && it->at.residual && j < it->n; j++) c[j] += it->at.residual[at + j];
    activation_row(&plan->activation, c, it->n);
    if (!it->beside) continue;
    if (run->operands->give)
      run->operands->give(run->operands->context, &it->at, &(block_row){it->part, it->row + i, it->column, it->n, c});
    else memcpy(it->at.y + at, c, (size_t)it->n * sizeof *c);
  }
}

/* Chunk number `chunk` of a part's rows by a panel. */
static item item_at(const block_run *run, int64_t part, int64_t chunk, int64_t panel) {
  const block_plan *plan = run->plan;
  item it = {.part = part,
             .row = plan->rows * chunk / plan->n_row_chunks,
             .column = panel * PACKED_WIDTH,
             .width = packed_width(plan->columns, panel)};
  it.rows = plan->rows * (chunk + 1) / plan->n_row_chunks - it.row;
  it.n = smaller(plan->columns - it.column, PACKED_WIDTH);
  run->operands->place(run->operands->context, it.part, &it.at);
  it.beside = it.n < it.width || run->operands->give;
  it.c = it.at.y + it.row * plan->y_row + it.column;
  it.c_row = it.beside ? PACKED_WIDTH : plan->y_row;
  return it;
}

/* Item number `index`, whose sums lie in `scratch` if they are not computed in Y. */
static item item_of(const block_run *run, int64_t index, float *scratch) {
  const block_plan *plan = run->plan;
  item it = item_at(run, index / plan->n_panels / plan->n_row_chunks, index / plan->n_panels % plan->n_row_chunks,
                    index % plan->n_panels);
  if (it.beside) it.c = scratch + plan->block_depth * PACKED_WIDTH;
  return it;
}

/* Multiplies some of the item's tiles with the block of depth that begins at k. The first tile fills the block's panel,
 * which stays in `scratch` for the others. */
static void run_tiles(const block_run *run, const item *it, int64_t first_tile, int64_t end_tile, int64_t k,
                      float *scratch) {
  const block_plan *plan = run->plan;
  const int64_t depth = smaller(plan->block_depth, plan->depth - k);
  if (plan->b_row && it->n == it->width && it->rows <= TILES_IN_PLACE * plan->level_rows) {
    const float *b = it->at.b + k * plan->b_row + it->column;
    multiply_block(plan, it, first_tile, end_tile, k, depth, b, plan->b_row);
    return;
  }
  const block_range range = {k, depth, it->column, it->n, it->width};
  if (first_tile == 0) run->operands->fill(run->operands->context, it->at.b, &range, scratch);
  multiply_block(plan, it, first_tile, end_tile, k, depth, scratch, it->width);
}

static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const block_run *run = context;
  const block_plan *plan = run->plan;
  float *scratch = run->scratch + worker * plan->worker_floats;
  for (int64_t i = begin; i < end && !cpu_cancelled(&plan->team); i++) {
    const item it = item_of(run, i, scratch);
    int64_t k = 0;
    do { /* once if the depth is 0 */
      run_tiles(run, &it, 0, tiles_of(plan, &it), k, scratch);
      k += plan->block_depth;
    } while (k < plan->depth);
    finish(run, &it, 0, tiles_of(plan, &it));
  }
}

/* A step of a long item. The place's scratch keeps the panel and the sums from step to step. */
static bool run_step(void *context, int64_t index, int64_t step, int32_t place) {
  const block_run *run = context;
  const block_plan *plan = run->plan;
  float *scratch = run->scratch + place * plan->worker_floats;
  const item it = item_of(run, index, scratch);
  const int64_t tiles = tiles_of(plan, &it), pieces = divided(tiles, plan->step_tiles),
                k = step / pieces * plan->block_depth, first = step % pieces * plan->step_tiles,
                end = smaller(first + plan->step_tiles, tiles);
  const bool last = k + plan->block_depth >= plan->depth;
  run_tiles(run, &it, first, end, k, scratch);
  if (last) finish(run, &it, first, end);
  return !last || end < tiles;
}

/* The steps of all items. */
static int64_t count_steps(const block_plan *plan) {
  int64_t pieces = 0;
  for (int64_t i = 0; i < plan->n_row_chunks; i++) {
    const int64_t rows = plan->rows * (i + 1) / plan->n_row_chunks - plan->rows * i / plan->n_row_chunks;
    pieces += divided(divided(rows, plan->level_rows), plan->step_tiles);
  }
  return plan->parts * plan->n_panels * pieces * divided(plan->depth, plan->block_depth);
}

/* ---- shared panels ---- */

/* Pieces begin..end of the panels' block of depth. */
static void fill_shared(void *context, int64_t begin, int64_t end) {
  const block_run *run = context;
  const block_plan *plan = run->plan;
  const int64_t pieces = divided(run->depth, FILL_DEPTH);
  block_place at;
  run->operands->place(run->operands->context, run->part, &at);
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = run->first_panel + i / pieces, from = i % pieces * FILL_DEPTH, column = panel * PACKED_WIDTH,
                  width = packed_width(plan->columns, panel);
    const block_range range = {run->k + from, smaller(FILL_DEPTH, run->depth - from), column,
                               smaller(plan->columns - column, PACKED_WIDTH), width};
    run->operands->fill(run->operands->context, at.b, &range, shared_panel(run, panel) + from * width);
  }
}

/* Adds the block of depth to items begin..end: all rows pass a panel before the next one. */
static void run_shared_items(void *context, int64_t begin, int64_t end) {
  const block_run *run = context;
  const block_plan *plan = run->plan;
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = run->first_panel + i / plan->n_row_chunks;
    item it = item_at(run, run->part, i % plan->n_row_chunks, panel);
    if (it.beside) it.c = run->shared + shared_panel_floats(plan) + it.row * PACKED_WIDTH;
    multiply_block(plan, &it, 0, tiles_of(plan, &it), run->k, run->depth, shared_panel(run, panel), it.width);
    if (run->k + run->depth == plan->depth) finish(run, &it, 0, tiles_of(plan, &it));
  }
}

/* A block of depth of the shared panels. */
static reed_status run_shared_block(block_run *run) {
  const block_plan *plan = run->plan;
  reed_status status = cpu_parallel(plan->team, run->n_panels * divided(run->depth, FILL_DEPTH), 1, fill_shared, run);
  if (status != REED_OK) return status;
  return cpu_parallel(plan->team, run->n_panels * plan->n_row_chunks, 1, run_shared_items, run);
}

static reed_status run_shared(block_run *run) {
  const block_plan *plan = run->plan;
  for (run->part = 0; run->part < plan->parts; run->part++)
    for (run->first_panel = 0; run->first_panel < plan->n_panels; run->first_panel += plan->shared_panels) {
      run->n_panels = smaller(plan->shared_panels, plan->n_panels - run->first_panel);
      for (run->k = 0; run->k < plan->depth; run->k += run->depth) {
        run->depth = smaller(plan->block_depth, plan->depth - run->k);
        reed_status status = run_shared_block(run);
        if (status != REED_OK) return status;
      }
    }
  return REED_OK;
}

reed_status block_plan_run(const block_plan *plan, const block_operands *operands, void *workspace) {
  block_run run = {.plan = plan, .operands = operands, .scratch = workspace};
  const int64_t items = plan->parts * plan->n_row_chunks * plan->n_panels;
  if (plan->shared_panels == 0)
    return plan->step_tiles ? cpu_relay(plan->team, items, count_steps(plan), run_step, &run)
                            : cpu_parallel_scratch(plan->team, items, 1, run_items, &run);
  run.shared = run.scratch + plan->team.threads * plan->worker_floats;
  return run_shared(&run);
}
