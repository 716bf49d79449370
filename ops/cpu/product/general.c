/* General products (general.h). An item of work is some rows by some columns of Y: by a panel of B, which the item's
 * thread fills unless B lies as a panel does; or, for few rows, by a longer piece of B's rows, which are read in place,
 * or by the only vector of them; or, of one column, dots of A's rows. A step of an item is a block of the depth, whose
 * sums are added to Y. The blocks follow from the form alone, so that bits do not depend on the number of threads. */
#include "ops/cpu/product/general.h"

#include "ops/cpu/common/relay.h"
#include "ops/cpu/product/general_loops.h"
#include "ops/cpu/product/whole.h"

#define TILE_DEPTH 256                 /* of a block of a panel: 64 KB of f64, which stay near while rows pass */
#define TURNED_DEPTH 128               /* the same if each step of the depth is another row of A's memory, or page */
#define DOTS_DEPTH 4096                /* of a block of dots or strands: B's elements stay in the first-level cache */
#define LANE_PRODUCTS 65536            /* of a step, about, for each element of a vector: some 15 us */
#define STEP_BYTES ((int64_t)3 << 16)  /* of A, B and Y that a step reads and writes, about: likewise */
#define ROWS_LEAST 84                  /* of an item, if there are so many: filling a panel takes little then */
#define FILL_PRODUCTS 16               /* that take as long as filling a panel with an element of B */
#define ROWS_IN_PLACE 14               /* rows that a panel of B must serve to be worth filling, less one */
#define FEW_COLUMNS ((int64_t)8 << 10) /* bytes of Y's rows in an item of few rows: they stay near */
#define FEW_COLUMNS_LEAST 512          /* of an item of few rows: shorter pieces of B's rows are read more slowly */
#define FEW_COLUMNS_SHARED 64          /* the same where threads share a product */
#define FEW_COLUMNS_GRAIN 16           /* of an item: whole lines of Y */
#define FEW_DEPTH 8                    /* steps of the depth that few rows add together */
#define DEEP_LEAST 32                  /* a shorter depth leaves dots and strands too little beside their ends */
#define NARROW_ROWS 64                 /* of a product of f32 that is computed here, at least */
#define COLUMN_DEPTH 16                /* from which on one column of f32 is a matter of dots (matrix.h) */
#define NARROW_COLUMNS 16              /* at most */
#define LINE_BYTES 64                  /* that take as long as an item's row besides its products */
#define MOST_WORK 1e15

typedef enum general_form { GENERAL_TILES, GENERAL_FEW, GENERAL_DEEP, GENERAL_DOTS } general_form;

typedef struct general_product {
  product p; /* of few columns perhaps turned: Y' = B' A'; or one matrix for the whole batch */
  general_form form;
  bool turned;
  cpu_team team;
  cpu_level level;
  int64_t element;      /* bytes */
  int64_t width, lanes; /* columns of a panel, of a vector */
  bool padded;          /* B's rows have whole vectors */
  int64_t item_rows, item_columns, n_row_items, n_column_items;
  int64_t lines_ahead;                        /* general_tile */
  int64_t block_depth, n_blocks, step_blocks; /* step_blocks: of an item that takes several steps; 0: one step */
  bool in_place;                              /* B is read where it lies */
  bool has_bias;                              /* C is a row that tiles add to each row of Y */
  bool ends;                                  /* Y's elements change after their sums */
  void (*multiply)(const general_tile *tile);
  void (*finish)(const general_end *end);
  void (*turn)(const void *b, int64_t b_column, int64_t depth, int64_t n, int64_t width, void *panel);
} general_product;

/* ---- plans ---- */

static void swap(int64_t *a, int64_t *b) {
  const int64_t was = *a;
  *a = *b;
  *b = was;
}

/* Y' = B' A': the same memory if Y has one column or row. */
static void turn(product *p) {
  swap(&p->m, &p->n);
  swap(&p->a_row, &p->b_column);
  swap(&p->a_column, &p->b_row);
  swap(&p->c_row, &p->c_column);
  for (int32_t i = 0; i < p->batch_rank; i++) swap(&p->a_batch[i], &p->b_batch[i]);
}

/* Makes the batch one tall matrix if its products have one B and their rows of A, and of C, follow each other. */
static void join_batch(product *p) {
  const int64_t c_row = p->m == 1 ? p->n : p->c_row;
  const bool c_joins = !p->has_c || (product_only_one(p, p->c_batch) && (p->c_row == 0 || p->m == 1)),
             c_follows = p->has_c && product_one_each(p, p->c_batch, p->m * c_row);
  if (p->batch == 1 || !product_only_one(p, p->b_batch) || !product_one_each(p, p->a_batch, p->m * p->a_row) ||
      (!c_joins && !c_follows))
    return;
  p->c_row = c_joins ? 0 : c_row;
  p->m *= p->batch;
  p->batch = 1;
  p->batch_rank = 0;
}

static void choose_form(general_product *g) {
  product *p = &g->p;
  const bool row_of_b = p->m == 1 && p->b_row == 1, column_of_a = p->n == 1 && p->a_row == 1 && p->m > 1;
  g->turned = (row_of_b && p->n > 1) || column_of_a;
  if (g->turned) turn(p);
  if (p->n == 1) p->b_column = 1;
  const bool f64 = p->dtype == REED_F64, few = p->m <= GENERAL_FEW_ROWS && p->b_column == 1;
  g->form = f64 && p->n == 1 && p->a_column == 1 && p->b_row == 1 && p->k >= DEEP_LEAST ? GENERAL_DOTS
            : few && p->n > g->lanes                                                    ? GENERAL_FEW
            : f64 && few && p->k >= DEEP_LEAST                                          ? GENERAL_DEEP
                                                                                        : GENERAL_TILES;
}

static int64_t step_products(const general_product *g) { return LANE_PRODUCTS * g->lanes; }

static void plan_tiles(general_product *g) {
  const product *p = &g->p;
  const int64_t columns = smaller(round_up(p->n, g->lanes), g->width),
                most = p->a_column == 1 ? TILE_DEPTH : TURNED_DEPTH, depth = smaller(p->k, most);
  const int64_t rows = smaller(step_products(g) / (columns * depth), STEP_BYTES / (g->element * (depth + columns)));
  g->block_depth = depth;
  g->lines_ahead = g->element / (int64_t)sizeof(float);
  g->item_columns = g->width;
  g->item_rows = larger(rows, ROWS_LEAST);
  const bool whole = (g->padded && !g->turned) || p->n % g->lanes == 0;
  g->in_place = p->b_column == 1 && whole && (p->m <= ROWS_IN_PLACE || p->b_row == columns);
}

static void plan_few(general_product *g) {
  const product *p = &g->p;
  g->item_rows = p->m;
  g->item_columns = smaller(larger(FEW_COLUMNS / (g->element * p->m), FEW_COLUMNS_LEAST), p->n);
  g->block_depth = larger(STEP_BYTES / (g->element * g->item_columns) & ~(int64_t)(FEW_DEPTH - 1), FEW_DEPTH);
  g->in_place = true;
}

static void plan_deep(general_product *g) {
  g->item_rows = g->p.m;
  g->item_columns = g->p.n;
  g->block_depth = smaller(g->p.k, DOTS_DEPTH);
  g->in_place = true;
}

static void plan_dots(general_product *g) {
  const int64_t depth = smaller(g->p.k, DOTS_DEPTH);
  g->block_depth = depth;
  g->item_columns = 1;
  g->item_rows = round_up(larger(STEP_BYTES / (g->element * depth), 1), GENERAL_DOTS_ROWS);
  g->in_place = true;
}

static void choose_loops(general_product *g) {
  const cpu_level level = g->level;
  const bool f64 = g->p.dtype == REED_F64;
  g->finish = f64 ? CPU_PICK(level, general_finish_f64) : CPU_PICK(level, general_finish_f32);
  g->turn = f64 ? CPU_PICK(level, general_turn_f64) : CPU_PICK(level, general_turn_f32);
  switch (g->form) {
    case GENERAL_TILES:
      g->multiply = f64 ? CPU_PICK(level, general_multiply_f64) : CPU_PICK(level, general_multiply_f32);
      plan_tiles(g);
      break;
    case GENERAL_FEW:
      g->multiply = f64 ? CPU_PICK(level, general_few_f64) : CPU_PICK(level, general_few_f32);
      plan_few(g);
      break;
    case GENERAL_DEEP:
      g->multiply = CPU_PICK(level, general_deep_f64);
      plan_deep(g);
      break;
    case GENERAL_DOTS:
      g->multiply = CPU_PICK(level, general_dots_f64);
      plan_dots(g);
      break;
  }
}

/* Sums over products, with the bytes of the operands, in cpu_team_for's count. */
static double work_of(const general_product *g) {
  const product *p = &g->p;
  const double rows = (double)p->batch * (double)p->m,
               columns = (double)round_up(p->n, g->form == GENERAL_TILES ? g->lanes : 1),
               products = rows * columns * (double)p->k * (double)g->element / (PRODUCTS_PER_BYTE * sizeof(float));
  const double bytes =
      (double)g->element * (rows * (double)(p->k + p->n) + (double)p->batch * (double)p->k * (double)p->n);
  return (g->form == GENERAL_DOTS ? 0 : products) + bytes / 2 + rows * (double)g->n_column_items * LINE_BYTES;
}

/* Makes items smaller if there are fewer than wanted. Few rows stay together, so that B is read once; items of some of
 * their columns must share no lines of Y, for which threads would often wait. */
static void divide(general_product *g, int64_t wanted) {
  const product *p = &g->p;
  const int64_t parts = p->batch * g->n_column_items;
  if (parts * divided(p->m, g->item_rows) >= wanted) return;
  if (g->form == GENERAL_FEW) {
    if (p->n < 2 * FEW_COLUMNS_SHARED || p->n % FEW_COLUMNS_GRAIN != 0) return;
    const int64_t columns = round_up(divided(p->n, divided(wanted, p->batch)), FEW_COLUMNS_GRAIN);
    g->item_columns = smaller(larger(columns, FEW_COLUMNS_SHARED), g->item_columns);
    g->n_column_items = divided(p->n, g->item_columns);
    return;
  }
  const int64_t rows = larger(divided(p->m, divided(wanted, parts)), 1);
  g->item_rows = g->form == GENERAL_DOTS && rows > GENERAL_DOTS_ROWS ? rows - rows % GENERAL_DOTS_ROWS : rows;
}

static void plan(general_product *g, const reed_kernel_call *call) {
  const product *p = &g->p;
  g->n_column_items = divided(p->n, g->item_columns);
  g->n_blocks = divided(p->k, g->block_depth);
  const double work = work_of(g);
  g->team = cpu_team_for(cpu_env_team(call), work < MOST_WORK ? (int64_t)work : INT64_MAX);
  if (g->team.threads > 1) divide(g, 2 * g->team.threads);
  g->n_row_items = divided(p->m, g->item_rows);
  /* what a block of an item takes of a step */
  const int64_t rows = g->item_rows, columns = round_up(g->item_columns, g->lanes), depth = g->block_depth,
                products = depth * columns * (rows + (g->in_place ? 0 : FILL_PRODUCTS)),
                bytes = g->element * (depth * (rows + g->item_columns) + rows * g->item_columns),
                blocks = larger(smaller(step_products(g) / products, STEP_BYTES / bytes), 1);
  if (2 * g->n_blocks > blocks) g->team.chunks = INT32_MAX; /* an item, or a step, is a chunk */
  if (g->n_blocks > blocks) g->step_blocks = blocks;
}

/* ---- running ---- */

typedef struct general_run {
  const general_product *g;
  const char *a, *b, *c;
  char *y;
  char *scratch;
} general_run;

typedef struct general_item {
  int64_t part, row, rows, column, columns;
  product_place at;
} general_item;

static general_item item_of(const general_product *g, int64_t index) {
  const product *p = &g->p;
  general_item it = {.column = index % g->n_column_items * g->item_columns,
                     .row = index / g->n_column_items % g->n_row_items * g->item_rows,
                     .part = index / g->n_column_items / g->n_row_items};
  it.rows = smaller(g->item_rows, p->m - it.row);
  it.columns = smaller(g->item_columns, p->n - it.column);
  it.at = product_place_of(p, it.part);
  return it;
}

static int64_t panel_bytes(const general_product *g) {
  return g->in_place ? 0 : round_up(g->block_depth * g->width * g->element, 64);
}

/* Fills a panel with `depth` rows of n columns of B, with zeros up to its width. */
static void fill(const general_product *g, const char *b, int64_t depth, int64_t n, int64_t width, char *panel) {
  const product *p = &g->p;
  const size_t row_bytes = (size_t)(n * g->element), rest = (size_t)((width - n) * g->element);
  if (p->b_row == 1 && p->b_column > 1) {
    g->turn(b, p->b_column, depth, n, width, panel);
    return;
  }
  for (int64_t k = 0; k < depth; k++, b += p->b_row * g->element, panel += width * g->element) {
    memcpy(panel, b, row_bytes);
    memset(panel + row_bytes, 0, rest);
  }
}

/* Adds block number `block` of the depth. filled: the scratch has the block's panel. */
static void multiply_block(const general_run *r, const general_item *it, int64_t block, char *scratch, bool filled) {
  const general_product *g = r->g;
  const product *p = &g->p;
  const int64_t k = block * g->block_depth, depth = smaller(g->block_depth, p->k - k), size = g->element,
                width = round_up(it->columns, g->lanes);
  const char *b = r->b + (it->at.b + k * p->b_row + it->column * p->b_column) * size;
  if (!g->in_place && !filled) fill(g, b, depth, it->columns, width, scratch);
  const general_tile tile = {.a = r->a + (it->at.a + it->row * p->a_row + k * p->a_column) * size,
                             .b = g->in_place ? b : scratch,
                             .y = r->y + ((it->part * p->m + it->row) * p->n + it->column) * size,
                             .rows = it->rows,
                             .depth = depth,
                             .columns = it->columns,
                             .a_row = p->a_row,
                             .a_column = p->a_column,
                             .b_row = g->in_place ? p->b_row : width,
                             .y_row = p->n,
                             .bias = g->has_bias && block + 1 == g->n_blocks ? r->c + it->column * size : NULL,
                             .first = block == 0,
                             .lines_ahead = p->a_row == p->k && p->a_column == 1 && depth == p->k ? g->lines_ahead : 0};
  g->multiply(&tile);
}

static void activate(const product *p, char *y, int64_t n) {
  if (p->activation.kind == ACTIVATION_NONE) return;
  double *x = (double *)(void *)y;
  if (p->dtype == REED_F32) activation_row(&p->activation, (float *)(void *)y, n);
  else
    for (int64_t i = 0; i < n; i++) x[i] = activation_at(&p->activation, x[i]);
}

static void finish(const general_run *r, const general_item *it) {
  const general_product *g = r->g;
  const product *p = &g->p;
  if (!g->ends) return;
  const int64_t at = (it->part * p->m + it->row) * p->n + it->column, size = g->element;
  general_end end = {
      .scale = p->alpha,
      .c_scale = p->beta,
      .c = p->has_c && !g->has_bias ? r->c + (it->at.c + it->row * p->c_row + it->column * p->c_column) * size : NULL,
      .y = r->y + at * size,
      .rows = it->rows,
      .columns = it->columns,
      .y_row = p->n,
      .c_row = p->c_row,
      .c_column = p->n == 1 ? p->c_row == 1 : p->c_column == 1};
  const bool all_columns = it->columns == p->n, c_joins = !end.c || p->c_row == (end.c_column ? p->n : 0);
  if (all_columns && c_joins) {
    end.columns *= end.rows;
    end.rows = 1;
  }
  if (end.c || end.scale != 1) g->finish(&end);
  if (all_columns) activate(p, end.y, it->rows * p->n);
  else
    for (int64_t i = 0; i < it->rows; i++) activate(p, (char *)end.y + i * p->n * size, it->columns);
}

static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const general_run *r = context;
  const general_product *g = r->g;
  char *scratch = r->scratch + worker * panel_bytes(g);
  int64_t panel = -1; /* in the scratch */
  for (int64_t i = begin; i < end && !cpu_cancelled(&g->team); i++) {
    const general_item it = item_of(g, i);
    const int64_t wanted = it.part * g->n_column_items + i % g->n_column_items;
    for (int64_t block = 0; block < g->n_blocks; block++)
      multiply_block(r, &it, block, scratch, panel == wanted && g->n_blocks == 1);
    panel = wanted;
    finish(r, &it);
  }
}

static bool run_step(void *context, int64_t index, int64_t step, int32_t place) {
  const general_run *r = context;
  const general_product *g = r->g;
  const general_item it = item_of(g, index);
  const int64_t end = smaller((step + 1) * g->step_blocks, g->n_blocks);
  for (int64_t block = step * g->step_blocks; block < end; block++)
    multiply_block(r, &it, block, r->scratch + place * panel_bytes(g), false);
  if (end < g->n_blocks) return true;
  finish(r, &it);
  return false;
}

static reed_status run_general(const void *state, const reed_kernel_buffers *buffers) {
  const general_product *g = state;
  general_run r = {.g = g,
                   .a = buffers->inputs[g->turned],
                   .b = buffers->inputs[!g->turned],
                   .c = g->p.has_c ? buffers->inputs[2] : NULL,
                   .y = buffers->outputs[0],
                   .scratch = buffers->workspace};
  const int64_t items = g->p.batch * g->n_row_items * g->n_column_items;
  if (g->step_blocks > 0) return cpu_relay(g->team, items, items * divided(g->n_blocks, g->step_blocks), run_step, &r);
  return cpu_parallel_scratch(g->team, items, 1, run_items, &r);
}

bool general_product_suits(const product *p) {
  const int64_t rows = p->m * p->batch, columns = round_up(p->n, CPU_PICK(cpu_level_now(), general_lanes_f32)());
  const bool in_place = p->b_column == 1 && p->b_row == NARROW_COLUMNS;
  if (p->has_residual) return false;
  if (p->n == 1 && p->k >= COLUMN_DEPTH) return p->a_row == 1 && p->m >= NARROW_ROWS; /* few rows, turned */
  /* Blocks of the depth would fill B's panels anew for each item, and rows with a B each one for a row. */
  if (p->k > TILE_DEPTH && columns == NARROW_COLUMNS && p->a_column == 1 && !in_place) return false;
  if (p->m == 1 && !in_place && !product_only_one(p, p->b_batch)) return false;
  return (p->n == 1 ? p->m : rows) >= NARROW_ROWS && p->n <= NARROW_COLUMNS;
}

reed_status general_product_prepare(const reed_kernel_call *call, const product *p, bool padded,
                                    reed_kernel *out_kernel) {
  const cpu_level level = cpu_level_now();
  general_product *g = mem_calloc(1, sizeof *g);
  if (!g) return cpu_no_memory(call);
  const bool f64 = p->dtype == REED_F64;
  g->p = *p;
  g->level = level;
  g->padded = padded;
  g->element = f64 ? sizeof(double) : sizeof(float);
  g->lanes = f64 ? CPU_PICK(level, general_lanes_f64)() : CPU_PICK(level, general_lanes_f32)();
  g->width = f64 ? CPU_PICK(level, general_columns_f64)() : CPU_PICK(level, general_columns_f32)();
  join_batch(&g->p);
  choose_form(g);
  const bool one_c = g->p.c_row == 0 && (g->p.c_column == 1 || g->p.n == 1) && product_only_one(&g->p, g->p.c_batch);
  g->has_bias = p->has_c && one_c && p->alpha == 1 && p->beta == 1 && g->form == GENERAL_TILES;
  g->ends = p->alpha != 1 || (p->has_c && !g->has_bias) || p->activation.kind != ACTIVATION_NONE;
  choose_loops(g);
  plan(g, call);
  cpu_kernel_set(out_kernel, run_general, g);
  out_kernel->workspace_bytes = g->team.threads * panel_bytes(g);
  out_kernel->state_bytes = (int64_t)sizeof *g;
  out_kernel->reads_rooms = cpu_rooms_only(call, 1u << 0 | 1u << 1);
  return REED_OK;
}
