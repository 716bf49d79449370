/* Products over plain matrices (blocks.h). An item of work is a chunk of rows by one panel of a part. The loop over one
 * tile is in panel_loops.c. */
#include "ops/cpu/product/blocks.h"

#include "ops/packed.h"
#include "ops/cpu/product/whole.h"

#define DEPTH_MOST 768  /* of a block: 192 KB of a panel, which stay in the second-level cache while rows pass */
#define DEPTH_BLOCK 512 /* of a block if one is not enough, about */
#define ROWS_LEAST 128  /* of a chunk, if there are so many: filling a panel then takes a few hundredths of the time */
#define CHUNK_PRODUCTS ((int64_t)3 << 20) /* of a chunk, about: some 50 us */
#define TILES_IN_PLACE 2                  /* tiles that a panel of B must serve to be worth filling, less one */
#define PRODUCTS_PER_BYTE 8               /* products that take as long as a byte in cpu_team_for's count */
#define MOST_PRODUCTS 1e15

void block_plan_init(block_plan *plan, cpu_team team) {
  cpu_level level = cpu_level_now();
  plan->multiply = CPU_PICK(level, panel_multiply);
  plan->level_rows = CPU_PICK(level, panel_rows)(plan->columns);
  int64_t blocks = plan->depth <= DEPTH_MOST ? 1 : divided(plan->depth, DEPTH_BLOCK);
  plan->block_depth = divided(plan->depth, blocks);
  plan->n_panels = packed_panels(plan->columns);
  int64_t width = smaller(divided(plan->columns, PACKED_STEP) * PACKED_STEP, PACKED_WIDTH),
          rows = CHUNK_PRODUCTS / (width * (plan->depth > 0 ? plan->depth : 1));
  plan->n_row_chunks = divided(plan->rows, rows > ROWS_LEAST ? rows : ROWS_LEAST);
  double products = (double)plan->parts * (double)plan->rows * (double)plan->columns * (double)plan->depth;
  plan->team = cpu_team_for(team, products < MOST_PRODUCTS ? (int64_t)products / PRODUCTS_PER_BYTE : INT64_MAX);
  /* too few items for the threads: smaller chunks of rows */
  int64_t items = plan->parts * plan->n_panels, wanted = 2 * plan->team.threads,
          most = divided(plan->rows, plan->level_rows);
  if (plan->team.threads > 1 && items * plan->n_row_chunks < wanted)
    plan->n_row_chunks = smaller(divided(wanted, items > 0 ? items : 1), most);
  int64_t chunk_rows = divided(plan->rows, plan->n_row_chunks > 0 ? plan->n_row_chunks : 1);
  plan->worker_floats = (plan->block_depth + chunk_rows) * PACKED_WIDTH;
}

int64_t block_plan_workspace_bytes(const block_plan *plan) {
  return plan->team.threads * plan->worker_floats * (int64_t)sizeof(float);
}

int64_t block_worker_floats_most(int64_t rows, int64_t depth) {
  return (smaller(depth, DEPTH_MOST) + rows) * PACKED_WIDTH;
}

typedef struct block_run {
  const block_plan *plan;
  const block_operands *operands;
  float *scratch;
} block_run;

/* An item, and where its results are computed: in Y, or beside it if whole vectors would reach beyond its columns or
 * its elements are not adjacent. */
typedef struct item {
  block_place at;
  int64_t part, row, rows, column, n, width;
  bool beside;
  float *c;
  int64_t c_row;
} item;

/* Multiplies the item's rows with a block of the depth, whose panel has rows panel_row apart. */
static void multiply_block(const block_plan *plan, const item *it, int64_t k, int64_t depth, const float *panel,
                           int64_t panel_row) {
  const int64_t start = 0;
  bool first = k == 0, last = k + depth == plan->depth;
  int64_t tiles = divided(it->rows, plan->level_rows);
  for (int64_t i = 0; i < tiles; i++) {
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

/* Finishes the item's rows after the tiles: addends, activation, and the copy to Y. */
static void finish(const block_run *run, const item *it) {
  const block_plan *plan = run->plan;
  if (!it->beside && activation_ends_tiles(&plan->activation)) return;
  for (int64_t i = 0; i < it->rows; i++) {
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

static void run_item(const block_run *run, int64_t index, float *scratch) {
  const block_plan *plan = run->plan;
  int64_t panel = index % plan->n_panels, chunk = index / plan->n_panels % plan->n_row_chunks;
  item it = {.part = index / plan->n_panels / plan->n_row_chunks,
             .row = plan->rows * chunk / plan->n_row_chunks,
             .column = panel * PACKED_WIDTH,
             .width = packed_width(plan->columns, panel)};
  it.rows = plan->rows * (chunk + 1) / plan->n_row_chunks - it.row;
  it.n = smaller(plan->columns - it.column, PACKED_WIDTH);
  run->operands->place(run->operands->context, it.part, &it.at);
  it.beside = it.n < it.width || run->operands->give;
  it.c = it.beside ? scratch + plan->block_depth * PACKED_WIDTH : it.at.y + it.row * plan->y_row + it.column;
  it.c_row = it.beside ? PACKED_WIDTH : plan->y_row;
  bool in_place = plan->b_row && it.n == it.width && it.rows <= TILES_IN_PLACE * plan->level_rows;
  int64_t k = 0;
  do { /* once if the depth is 0 */
    int64_t depth = smaller(plan->block_depth, plan->depth - k);
    if (in_place) {
      multiply_block(plan, &it, k, depth, it.at.b + k * plan->b_row + it.column, plan->b_row);
    } else {
      block_range range = {k, depth, it.column, it.n, it.width};
      run->operands->fill(run->operands->context, it.at.b, &range, scratch);
      multiply_block(plan, &it, k, depth, scratch, it.width);
    }
    k += depth;
  } while (k < plan->depth);
  finish(run, &it);
}

static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const block_run *run = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&run->plan->team); i++)
    run_item(run, i, run->scratch + worker * run->plan->worker_floats);
}

reed_status block_plan_run(const block_plan *plan, const block_operands *operands, void *workspace) {
  block_run run = {plan, operands, workspace};
  return cpu_parallel_scratch(plan->team, plan->parts * plan->n_row_chunks * plan->n_panels, 1, run_items, &run);
}
