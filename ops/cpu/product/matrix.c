/* Planning and running products over plain matrices (matrix.h). The bounds of chunks follow from the extents, and the
 * bits of results from no bounds. */
#include "ops/cpu/product/matrix.h"

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/product/matrix_loops.h"
#include "ops/cpu/product/pieces.h"
#include "ops/packed.h"
#include "ops/cpu/product/whole.h"

#define COLUMNS_GRAIN 64   /* of a chunk of B's rows: whole cache lines, and the same vectors as without chunks */
#define COLUMNS_LEAST 1024 /* of a chunk of B's rows: shorter pieces of them are read more slowly */
#define DEPTH_GRAIN 8      /* steps that few_rows adds together */
#define COLUMNS_MOST 4096  /* of a chunk: Y's row stays in the first-level cache; of several rows as many together */
#define DOTS_ROWS 16       /* the most rows whose products are dots: of more rows a transposed panel costs little */
#define DOTS_SHORTEST 32   /* a shorter depth is mostly the ends of dots */
#define NEAR_FLOATS 4096   /* of B's columns in dots of several tiles of rows: half a first-level cache */
#define DOT_BYTES 40       /* that take as long as the end of a dot in cpu_team_for's count */
#define DOTS_GRAIN 24      /* columns of whole tiles of several rows */
#define DOTS_OF_ROW 8      /* columns of a tile of one row */
#define RESULTS_FEW 4096   /* of a product in blocks: the panels of more are shared in any case */
#define DOTS_DEPTH 16384   /* of a piece of the depth of dots, at least: columns of shorter ones are read slowly */

/* ---- plans ---- */

/* The columns of Y that chunks divide: of one column its rows. */
static int64_t divided_columns(const matrix_plan *plan) {
  return plan->form == MATRIX_COLUMN ? plan->rows : plan->columns;
}

static int64_t dots_grain(const matrix_plan *plan) {
  return plan->form == MATRIX_COLUMN || plan->rows == 1 ? DOTS_OF_ROW : DOTS_GRAIN;
}

/* Rounds columns up to the grain of a chunk; dots need no more than whole tiles. */
static int64_t grains(const matrix_plan *plan, int64_t columns) {
  return round_up(columns, plan->form == MATRIX_ROWS ? COLUMNS_GRAIN : dots_grain(plan));
}

static void init_few(matrix_plan *plan, cpu_team team) {
  int64_t columns = divided_columns(plan), depth = plan->depth > 0 ? plan->depth : 1;
  double elements = (double)plan->parts * (double)columns * (double)plan->depth;
  double work = weights_work(elements);
  if (plan->form != MATRIX_COLUMN) work += elements * (double)plan->rows / PRODUCTS_PER_BYTE;
  const int64_t ends = plan->form == MATRIX_ROWS ? 0 : plan->form == MATRIX_COLUMN ? DOT_BYTES : plan->rows * DOT_BYTES;
  work += (double)plan->parts * (double)columns * (double)ends;
  plan->team = cpu_team_for(team, work < 1e15 ? (int64_t)work : INT64_MAX);
  int64_t work_most = plan->team.threads > 1 ? CPU_WORK_PER_CHUNK : CPU_WORK_PER_POLL,
          most = grains(plan, larger(work_most / (depth * (int64_t)sizeof(float) + ends), 1));
  int64_t near = plan->form == MATRIX_ROWS ? COLUMNS_MOST / plan->rows : COLUMNS_MOST;
  plan->chunk_columns = most > near ? near : most;
  if (plan->form == MATRIX_ROWS) plan->chunk_columns = larger(plan->chunk_columns, COLUMNS_LEAST);
  int64_t chunks = 2 * plan->team.threads; /* at least, of one part */
  if (plan->team.threads > 1 && plan->parts < chunks && plan->chunk_columns * chunks > columns)
    plan->chunk_columns = smaller(plan->chunk_columns, grains(plan, divided(columns, chunks)));
  plan->n_chunks = divided(columns, plan->chunk_columns);
  plan->block_depth = plan->depth;
  if (plan->form != MATRIX_ROWS || plan->team.threads == 1) return;
  /* long columns: a job for each block of depth */
  plan->block_depth = round_up(2 * work_most / (int64_t)sizeof(float) / plan->chunk_columns, DEPTH_GRAIN);
  plan->team.chunks = INT32_MAX; /* an item is a chunk */
}

void matrix_plan_init(matrix_plan *plan, cpu_team team) {
  plan->form = plan->columns == 1 && plan->b_row == 1                                        ? MATRIX_COLUMN
               : plan->rows <= FEW_ROWS && plan->b_column == 1                               ? MATRIX_ROWS
               : plan->rows <= DOTS_ROWS && plan->b_row == 1 && plan->depth >= DOTS_SHORTEST ? MATRIX_DOTS
                                                                                             : MATRIX_BLOCKS;
  if (plan->form != MATRIX_BLOCKS) {
    init_few(plan, team);
    return;
  }
  plan->blocks = (block_plan){.parts = plan->parts,
                              .rows = plan->rows,
                              .depth = plan->depth,
                              .columns = plan->columns,
                              .a_row = plan->a_row,
                              .y_row = plan->columns,
                              .b_row = plan->b_column == 1 ? plan->b_row : 0,
                              .scale = plan->scale,
                              .activation = plan->activation,
                              .may_share = true};
  block_plan_init(&plan->blocks, team);
}

int64_t matrix_plan_pieces(const matrix_plan *plan) {
  switch (plan->form) {
    case MATRIX_ROWS: return 1;
    case MATRIX_COLUMN: return depth_pieces(plan->rows, 1, 1, plan->depth, DOTS_DEPTH);
    case MATRIX_DOTS:
      return depth_pieces(plan->rows, plan->columns, smaller(dots_grain(plan), plan->columns), plan->depth, DOTS_DEPTH);
    case MATRIX_BLOCKS:
      if (plan->columns > 0 && plan->rows > RESULTS_FEW / plan->columns) return 1; /* panels are shared */
      return depth_pieces(plan->rows, plan->columns, smaller(PACKED_WIDTH, plan->columns), plan->depth, PIECE_LEAST);
  }
  return 1;
}

int64_t matrix_plan_workspace_bytes(const matrix_plan *plan) {
  return plan->form == MATRIX_BLOCKS ? block_plan_workspace_bytes(&plan->blocks) : 0;
}

/* ---- running ---- */

typedef struct matrix_run {
  const matrix_plan *plan;
  const matrix_operands *o;
  int64_t k, depth; /* the job's block of depth */
} matrix_run;

static void place(const void *context, int64_t part, block_place *out) {
  const matrix_run *run = context;
  const matrix_operands *o = run->o;
  int64_t a = 0, b = 0, y = part * run->plan->rows * run->plan->columns;
  if (o->place) o->place(o->context, part, &a, &b);
  *out = (block_place){
      .a = o->a + a, .b = o->b + b, .bias = o->bias, .residual = o->residual ? o->residual + y : NULL, .y = o->y + y};
}

static void fill(const void *context, const float *b, const block_range *r, float *panel) {
  const matrix_plan *plan = ((const matrix_run *)context)->plan;
  b += r->k * plan->b_row + r->column * plan->b_column;
  if (plan->b_row == 1) {
    CPU_PICK(plan->activation.level, transpose_panel)(b, plan->b_column, r->depth, r->n, r->width, panel);
    return;
  }
  for (int64_t k = 0; k < r->depth; k++, b += plan->b_row, panel += r->width) {
    if (plan->b_column == 1) memcpy(panel, b, (size_t)r->n * sizeof *panel);
    else
      for (int64_t j = 0; j < r->n; j++) panel[j] = b[j * plan->b_column];
    memset(panel + r->n, 0, (size_t)(r->width - r->n) * sizeof *panel);
  }
}

/* B's columns stay in the first-level cache while all tiles of rows pass. */
static void multiply_dots(const matrix_plan *plan, const block_place *at, int64_t column, int64_t n) {
  int64_t depth = plan->depth > 0 ? plan->depth : 1,
          near = NEAR_FLOATS / depth / DOTS_GRAIN > 0 ? NEAR_FLOATS / depth / DOTS_GRAIN * DOTS_GRAIN : DOTS_GRAIN;
  for (int64_t end = column + n; column < end; column += near)
    for (int64_t row = 0; row < plan->rows; row += FEW_ROWS) CPU_PICK(plan->activation.level, dots)
  ((int)(plan->rows - row < FEW_ROWS ? plan->rows - row : FEW_ROWS), at->a + row * plan->a_row, plan->a_row,
   at->b + column * plan->b_column, plan->b_column, plan->depth, end - column < near ? end - column : near,
   at->y + row * plan->columns + column, plan->columns);
}

/* Columns column .. column + n of a part; of B's rows k .. k + depth. */
static void multiply_few(const matrix_plan *plan, const block_place *at, int64_t column, int64_t n, int64_t k,
                         int64_t depth) {
  cpu_level level = plan->activation.level;
  float *y = at->y + column;
  if (plan->form == MATRIX_COLUMN) {
    CPU_PICK(level, dots)(1, at->b, 0, at->a + column * plan->a_row, plan->a_row, plan->depth, n, y, 0);
  } else if (plan->form == MATRIX_DOTS) {
    multiply_dots(plan, at, column, n);
  } else {
    CPU_PICK(level, few_rows)
    ((int)plan->rows, at->a + k, plan->a_row, at->b + k * plan->b_row + column, plan->b_row, depth, k == 0, n, y,
     plan->columns);
  }
}

static void finish_few(const matrix_plan *plan, const block_place *at, int64_t column, int64_t n) {
  int64_t rows = plan->form == MATRIX_COLUMN ? 1 : plan->rows;
  for (int64_t row = 0; row < rows; row++) {
    int64_t to = row * plan->columns + column;
    float *y = at->y + to;
    if (plan->scale != 1) CPU_PICK(plan->activation.level, scale_row)(plan->scale, y, y, n);
    if (at->bias && plan->form == MATRIX_COLUMN)
      for (int64_t j = 0; j < n; j++) y[j] += at->bias[0];
    else if (at->bias) CPU_PICK(plan->activation.level, add_rows)(at->bias + column, y, n);
    if (at->residual) CPU_PICK(plan->activation.level, add_rows)(at->residual + to, y, n);
    activation_row(&plan->activation, y, n);
  }
}

/* Chunks begin..end, counted over all parts. */
static void run_few(void *context, int64_t begin, int64_t end) {
  const matrix_run *run = context;
  const matrix_plan *plan = run->plan;
  for (int64_t i = begin; i < end && !cpu_cancelled(&plan->team); i++) {
    int64_t column = i % plan->n_chunks * plan->chunk_columns, n = divided_columns(plan) - column;
    if (n > plan->chunk_columns) n = plan->chunk_columns;
    block_place at;
    place(run, i / plan->n_chunks, &at);
    multiply_few(plan, &at, column, n, run->k, run->depth);
    if (run->k + run->depth == plan->depth) finish_few(plan, &at, column, n);
  }
}

static reed_status run_blocks_of_depth(matrix_run *run) {
  const matrix_plan *plan = run->plan;
  reed_status status = REED_OK;
  do { /* once if the depth is 0 */
    run->depth = smaller(plan->block_depth, plan->depth - run->k);
    status = cpu_parallel(plan->team, plan->parts * plan->n_chunks, 1, run_few, run);
    run->k += run->depth;
  } while (run->k < plan->depth && status == REED_OK);
  return status;
}

reed_status matrix_plan_run(const matrix_plan *plan, const matrix_operands *operands, void *workspace) {
  matrix_run run = {.plan = plan, .o = operands};
  if (plan->form != MATRIX_BLOCKS) return run_blocks_of_depth(&run);
  block_operands blocks = {.context = &run, .place = place, .fill = fill};
  return block_plan_run(&plan->blocks, &blocks, workspace);
}
