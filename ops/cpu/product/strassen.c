/* Planning and running Strassen's products (strassen.h). The depth is taken in blocks, each of which takes two jobs:
 * the sums of B's panels, which all rows share, then the products. An item of work is a block of rows, or a piece of it
 * where threads share the work, by a pair of panels; a worker keeps the sums of its block of rows from pair to pair. */
#include "ops/cpu/product/strassen.h"

#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/whole.h"

#define PAIR_WIDTH (2 * PACKED_WIDTH)
#define DEPTH_STEP 32          /* of which each half is whole vectors */
#define DEPTH_WHOLE 1024       /* at most, in one block */
#define DEPTH_MOST 768         /* else */
#define TILES 4                /* of the upper rows of a block */
#define PIECES 4               /* of a block's rows, at most */
#define ITEM_TIME 40e6         /* ps, of the products of an item where threads share the work, at most */
#define ITEMS 32               /* of each thread, at least */
#define OWN_ROWS 400           /* of a worker, for which it adds panels for itself, at least */
#define JOB_BYTES (4 << 20)    /* of sums of panels that a job needs, about */
#define LINE 16                /* floats of a cache line */
#define STRIP_BYTES (16 << 10) /* of A that neighbouring tiles multiply, about: half of the first-level cache */
#define SAVED (1. / 8)         /* of the products */
#define GAIN_LEAST .02         /* of the time of the direct products */

/* ---- plans ---- */

static int64_t n_depths_of(int64_t depth) { return depth <= DEPTH_WHOLE ? 1 : divided(depth, DEPTH_MOST); }

bool strassen_is_faster(const strassen_problem *p, cpu_level level) {
  const product_rates *rates = product_rates_of(level);
  const double rows = (double)p->rows, depth = (double)p->depth,
               columns = (double)(p->outputs / PAIR_WIDTH * PAIR_WIDTH);
  if (p->depth == 0 || p->depth % DEPTH_STEP != 0 || columns == 0) return false;
  const double direct = rows * depth * rates->direct, saved = direct * columns * SAVED,
               sums = depth * columns * rates->sum_weight + rows * depth * rates->sum_value +
                      rows * columns * (double)n_depths_of(p->depth) * rates->sum_product;
  return saved - sums > GAIN_LEAST * direct * (double)p->outputs;
}

/* The sums that a worker keeps from one item to the next. */
typedef struct worker_rows {
  int64_t row, rows; /* whose sums it has: `rows` upper rows from this one on; rows 0: none */
  bool is_direct;    /* they cannot be scaled */
  strassen_scales scales;
} worker_rows;

/* Of a pair of panels. */
typedef struct pair_columns {
  bool has_sums; /* of the job */
  bool is_direct;
  strassen_scales scales;
} pair_columns;

static int64_t floats_of(size_t bytes) { return divided((int64_t)bytes, LINE * (int64_t)sizeof(float)) * LINE; }
static int64_t half_depth(const strassen_plan *plan) { return plan->block_depth / 2; }
static int64_t sum_row(const strassen_plan *plan) { return half_depth(plan) + LINE; }
static int64_t pair_floats(const strassen_plan *plan) {
  const int64_t widened = plan->p.weights_f16 ? 2 * plan->block_depth * PACKED_WIDTH : 0;
  return floats_of(sizeof(pair_columns)) + STRASSEN_SUMS * half_depth(plan) * PACKED_WIDTH + widened;
}

/* Pieces of a block, which share its rows evenly. Fewer pieces read B from beyond the second-level cache less often. */
static int64_t n_pieces_of(const strassen_plan *plan, const product_rates *rates) {
  const double products = 2. * (double)plan->half_rows * PAIR_WIDTH * (double)plan->block_depth,
               time = products * rates->direct * (1 - SAVED);
  const int64_t items = plan->n_blocks * plan->job_pairs, least = ITEMS * plan->team.threads;
  int64_t n = 1;
  while (plan->team.threads > 1 && n < PIECES && (time > (double)n * ITEM_TIME || items * n < least)) n *= 2;
  return n;
}

void strassen_plan_init(strassen_plan *plan, const strassen_problem *p, cpu_level level, cpu_team team) {
  *plan = (strassen_plan){.p = *p,
                          .team = team,
                          .tile_rows = CPU_PICK(level, panel_rows)(p->outputs),
                          .lanes = CPU_PICK(level, panel_lanes)(),
                          .multiply = CPU_PICK(level, panel_multiply),
                          .multiply_direct = CPU_PICK(level, panel_multiply),
                          .widen = convert_between(level, REED_F16, REED_F32),
                          .add_columns = CPU_PICK(level, strassen_add_columns),
                          .add_rows = CPU_PICK(level, strassen_add_rows),
                          .finish = CPU_PICK(level, strassen_finish),
                          .n_pairs = p->outputs / PAIR_WIDTH,
                          .n_panels = packed_panels(p->outputs)};
  if (p->weights_f16) plan->multiply_direct = PANEL_F16_PICK(level);
  plan->block_depth = round_up(divided(p->depth, n_depths_of(p->depth)), DEPTH_STEP);
  plan->half_rows = smaller(plan->tile_rows * TILES, PACKED_WIDTH);
  plan->n_blocks = divided(p->rows, 2 * plan->half_rows);
  plan->job_pairs = smaller(larger(JOB_BYTES / (pair_floats(plan) * (int64_t)sizeof(float)), 1), plan->n_pairs);
  plan->n_pieces = n_pieces_of(plan, product_rates_of(level));
  plan->own_pairs = p->rows >= OWN_ROWS * team.threads;
  plan->worker_floats = floats_of(sizeof(worker_rows)) + STRASSEN_SUMS * plan->half_rows * sum_row(plan) +
                        STRASSEN_APART * plan->half_rows * PACKED_WIDTH;
}

/* Pairs whose sums the workspace has. */
static int64_t held_pairs(const strassen_plan *plan) {
  return (plan->own_pairs ? plan->team.threads : 1) * plan->job_pairs;
}

int64_t strassen_plan_workspace_bytes(const strassen_plan *plan) {
  return (held_pairs(plan) * pair_floats(plan) + plan->team.threads * plan->worker_floats) * (int64_t)sizeof(float);
}

/* ---- runs ---- */

typedef struct strassen_run {
  const strassen_plan *plan;
  const float *a, *bias, *residual;
  const char *b;
  float *y, *pairs, *workers;
  int64_t begun, depth, first_pair, n_pairs, n_groups; /* of the job; groups: pairs, and panels after the last pair */
} strassen_run;

static pair_columns *pair_at(const strassen_run *run, int32_t worker, int64_t pair) {
  const strassen_plan *plan = run->plan;
  const int64_t place = (plan->own_pairs ? worker * plan->job_pairs : 0) + pair - run->first_pair;
  return (pair_columns *)(void *)(run->pairs + place * pair_floats(plan));
}
static float *sums_of(pair_columns *pair) { return (float *)(void *)pair + floats_of(sizeof *pair); }
static worker_rows *worker_at(const strassen_run *run, int32_t worker) {
  return (worker_rows *)(void *)(run->workers + worker * run->plan->worker_floats);
}

/* The job's weights of a panel. */
static const void *panel_at(const strassen_run *run, int64_t panel) {
  const strassen_problem *p = &run->plan->p;
  const int64_t at = panel * PACKED_WIDTH * p->depth + run->begun * packed_width(p->outputs, panel);
  return run->b + at * (int64_t)(p->weights_f16 ? sizeof(uint16_t) : sizeof(float));
}

/* The place where a panel of a pair (0: the left one, 1: the right one) is widened, if its weights are f16. */
static float *widened_at(const strassen_run *run, pair_columns *pair, int side) {
  return sums_of(pair) + (STRASSEN_SUMS * half_depth(run->plan) + side * run->plan->block_depth) * PACKED_WIDTH;
}

/* The job's weights of a pair's panel in f32. */
static const float *panel_of(const strassen_run *run, int64_t pair, pair_columns *columns, int side) {
  return run->plan->p.weights_f16 ? widened_at(run, columns, side) : panel_at(run, 2 * pair + side);
}

static void add_pair(const strassen_run *run, int64_t pair, pair_columns *to) {
  for (int side = 0; run->plan->p.weights_f16 && side < 2; side++)
    run->plan->widen(widened_at(run, to, side), panel_at(run, 2 * pair + side), run->depth * PACKED_WIDTH);
  const strassen_columns columns = {panel_of(run, pair, to, 0), panel_of(run, pair, to, 1), sums_of(to),
                                    run->depth / 2};
  to->is_direct = !run->plan->add_columns(&columns, &to->scales);
  to->has_sums = true;
}

static void add_pairs(void *context, int64_t begin, int64_t end) {
  const strassen_run *run = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&run->plan->team); i++)
    add_pair(run, run->first_pair + i, pair_at(run, 0, run->first_pair + i));
}

/* Lines of memory that are fetched a few at a time while other memory is multiplied. */
typedef struct line_fetch {
  const float *rows[2]; /* each may be NULL */
  int64_t row, n_rows, n_lines, at, each;
} line_fetch;

static void fetch_some(line_fetch *f) {
  for (int64_t end = smaller(f->at + f->each, f->n_rows * f->n_lines); f->at < end; f->at++)
    for (int i = 0; i < 2; i++)
      if (f->rows[i]) __builtin_prefetch(f->rows[i] + f->at / f->n_lines * f->row + f->at % f->n_lines * LINE, 0, 2);
}

/* Multiplies `rows` rows by a panel, in tiles of as many rows each as can be. `tile` has the first row's places. */
static void multiply_rows(const strassen_plan *plan, void (*multiply)(const panel_tile *tile), panel_tile tile,
                          int64_t rows, line_fetch *fetch) {
  const int64_t runs = 0, n_tiles = divided(rows, plan->tile_rows), least = rows / n_tiles, n_larger = rows % n_tiles,
                most = larger(STRIP_BYTES / (plan->tile_rows * tile.run_length * (int64_t)sizeof(float)), 1),
                share = tile.next_step * tile.run_length;
  tile.runs = &runs;
  tile.n_runs = 1;
  tile.scale = 1;
  for (int64_t at = 0; at < n_tiles; at += tile.count) {
    tile.rows = least + (at < n_larger);
    tile.count = smaller(most, (at < n_larger ? n_larger : n_tiles) - at);
    if (fetch) fetch_some(fetch);
    multiply(&tile);
    const int64_t passed = tile.count * tile.rows;
    tile.a += passed * tile.a_row;
    tile.c = (float *)tile.c + passed * tile.c_row;
    if (tile.residual) tile.residual = (const float *)tile.residual + passed * tile.c_row;
    tile.next += tile.count * share;
  }
}

static bool is_first(const strassen_run *run) { return run->begun == 0; }
static bool is_last(const strassen_run *run) { return run->begun + run->depth == run->plan->p.depth; }

/* Rows row..row + n by a panel, whole or not, straight into Y. */
static void multiply_directly(const strassen_run *run, int64_t row, int64_t n, int64_t panel) {
  const strassen_plan *plan = run->plan;
  const strassen_problem *p = &plan->p;
  const int64_t output = panel * PACKED_WIDTH, width = packed_width(p->outputs, panel), columns = p->outputs - output,
                place = row * p->y_row + output;
  const void *weights = panel_at(run, panel);
  if (n == 0) return;
  multiply_rows(plan, plan->multiply_direct,
                (panel_tile){.c = run->y + place,
                             .a = run->a + row * p->a_row + run->begun,
                             .panel = weights,
                             .bias = run->bias + output,
                             .residual = is_first(run) && run->residual ? run->residual + place : NULL,
                             .run_length = run->depth,
                             .a_row = p->a_row,
                             .panel_row = width,
                             .c_row = p->y_row,
                             .width = smaller(round_up(columns, plan->lanes), width),
                             .columns = columns,
                             .next = (const char *)weights,
                             .first = is_first(run),
                             .relu = is_last(run) && p->activation.kind == ACTIVATION_RELU},
                n, NULL);
}

/* A product of `rows` rows by a whole panel of half the depth. */
typedef struct block_product {
  const float *a, *b;
  float *c;
  int64_t a_row, c_row;
  const float *bias, *residual; /* of Y, or NULL */
  bool first;
} block_product;

/* Rows of a block that are multiplied together: `rows` upper ones from `row` on, and as many, `lower` rows below. */
typedef struct row_pairs {
  int64_t row, rows, lower;
} row_pairs;

static bool has_sums_of(const worker_rows *worker, const row_pairs *r) {
  return worker->row == r->row && worker->rows == r->rows;
}

/* The sums of these rows. */
static void add_rows(const strassen_run *run, worker_rows *worker, const row_pairs *r) {
  const strassen_problem *p = &run->plan->p;
  const float *upper = run->a + r->row * p->a_row + run->begun;
  const strassen_rows rows = {.upper = upper,
                              .lower = upper + r->lower * p->a_row,
                              .sums = (float *)(void *)worker + floats_of(sizeof *worker),
                              .rows = r->rows,
                              .half = run->depth / 2,
                              .a_row = p->a_row,
                              .sum_row = sum_row(run->plan)};
  worker->row = r->row;
  worker->rows = r->rows;
  worker->is_direct = !run->plan->add_rows(&rows, &worker->scales);
}

/* The panels of a group: a pair, or a panel after the pairs. */
static int64_t group_panel(const strassen_plan *plan, int64_t group) {
  return group < plan->n_pairs ? 2 * group : group + plan->n_pairs;
}
static int64_t group_panels(const strassen_plan *plan, int64_t group) { return group < plan->n_pairs ? 2 : 1; }

/* The group after this one in the order in which a thread takes items: helpers take the last ones first. */
static int64_t group_after(const strassen_run *run, int64_t group, int32_t id) {
  const int64_t step = id > 0 ? run->n_groups - 1 : 1;
  return run->first_pair + (group - run->first_pair + step) % run->n_groups;
}

/* Rows by a pair of panels. False, before anything of Y is written, if they cannot be scaled. */
static bool multiply_pair(const strassen_run *run, worker_rows *worker, const row_pairs *r, int64_t pair,
                          pair_columns *columns, int32_t id) {
  const strassen_plan *plan = run->plan;
  const strassen_problem *p = &plan->p;
  const int64_t row = r->row, rows = r->rows;
  if (columns->is_direct || (has_sums_of(worker, r) && worker->is_direct)) return false;
  const int64_t half = run->depth / 2, weights = half * PACKED_WIDTH, s_row = sum_row(plan), s = rows * s_row,
                apart = rows * PACKED_WIDTH, place = row * p->y_row + pair * PAIR_WIDTH;
  const float *a11 = run->a + row * p->a_row + run->begun, *a12 = a11 + half, *a22 = a12 + r->lower * p->a_row,
              *b11 = panel_of(run, pair, columns, 0), *b21 = b11 + weights,
              *b22 = panel_of(run, pair, columns, 1) + weights, *t = sums_of(columns),
              *bias = is_first(run) ? run->bias + pair * PAIR_WIDTH : NULL,
              *residual = is_first(run) && run->residual ? run->residual + place : NULL;
  float *sums = (float *)(void *)worker + floats_of(sizeof *worker),
        *products = sums + STRASSEN_SUMS * plan->half_rows * s_row, *y = run->y + place;
  const bool first = is_first(run), has_sums = has_sums_of(worker, r);
  const block_product all[] = {
      {a11, b11, products, p->a_row, PACKED_WIDTH, NULL, NULL, true},                     /* p1 */
      {a22, t + 3 * weights, products + apart, p->a_row, PACKED_WIDTH, NULL, NULL, true}, /* p4 */
      {a12, b21, y, p->a_row, p->y_row, bias, residual, first},                           /* p2 */
      {sums + 3 * s, b22, y + PACKED_WIDTH, s_row, p->y_row, bias ? bias + PACKED_WIDTH : NULL,
       residual ? residual + PACKED_WIDTH : NULL, first},                                           /* p3 */
      {sums, t, products + 2 * apart, s_row, PACKED_WIDTH, NULL, NULL, true},                       /* p5 */
      {sums + s, t + weights, products + 3 * apart, s_row, PACKED_WIDTH, NULL, NULL, true},         /* p6 */
      {sums + 2 * s, t + 2 * weights, products + 4 * apart, s_row, PACKED_WIDTH, NULL, NULL, true}, /* p7 */
  };
  enum { N = sizeof all / sizeof *all, OF_A = 2 /* need no sums of A */ };
  const int64_t n_tiles = divided(rows, plan->tile_rows), lines = PAIR_WIDTH / LINE,
                share =
                    smaller(divided(weights * (int64_t)sizeof(float), n_tiles * half), LINE * (int64_t)sizeof(float));
  line_fetch fetch = {.rows = {y + r->lower * p->y_row, residual ? residual + r->lower * p->y_row : NULL},
                      .row = p->y_row,
                      .n_rows = rows,
                      .n_lines = lines,
                      .each = divided(rows * lines, N * n_tiles)};
  const void *after = panel_at(run, group_panel(plan, group_after(run, pair, id)));
  for (int i = 0; i < N; i++) {
    const block_product *of = &all[i];
    const bool new_a = i < OF_A && !has_sums;
    if (i == OF_A && !has_sums) {
      add_rows(run, worker, r);
      if (worker->is_direct) return false;
    }
    multiply_rows(plan, plan->multiply,
                  (panel_tile){.c = of->c,
                               .a = of->a,
                               .panel = of->b,
                               .bias = of->bias,
                               .residual = of->residual,
                               .run_length = half,
                               .a_row = of->a_row,
                               .panel_row = PACKED_WIDTH,
                               .c_row = of->c_row,
                               .width = PACKED_WIDTH,
                               .columns = PACKED_WIDTH,
                               .next = (const char *)(new_a       ? of->a + plan->tile_rows * of->a_row
                                                      : i + 1 < N ? all[i + 1].b
                                                                  : after),
                               .next_step = new_a ? plan->tile_rows * 2 * (int64_t)sizeof(float) : share,
                               .first = of->first},
                  rows, &fetch);
  }
  const strassen_result result = {.products = products,
                                  .rows_scales = &worker->scales,
                                  .columns_scales = &columns->scales,
                                  .bias = bias,
                                  .residual = residual,
                                  .y = y,
                                  .rows = rows,
                                  .y_row = p->y_row,
                                  .lower = r->lower * p->y_row,
                                  .first = first,
                                  .relu = is_last(run) && p->activation.kind == ACTIVATION_RELU};
  plan->finish(&result);
  return true;
}

/* Rows by a group's panels, in Strassen's form if they can be. */
static void multiply_group(const strassen_run *run, const row_pairs *r, int64_t group, int32_t id) {
  const strassen_plan *plan = run->plan;
  const int64_t cut = plan->half_rows / PIECES, panel = group_panel(plan, group);
  if (group < plan->n_pairs) {
    pair_columns *columns = pair_at(run, id, group);
    if (!columns->has_sums) add_pair(run, group, columns);
    if (multiply_pair(run, worker_at(run, id), r, group, columns, id)) return;
    if (r->rows > cut) { /* the pieces are tried, whether or not they are items of their own */
      multiply_group(run, &(row_pairs){r->row, cut, r->lower}, group, id);
      multiply_group(run, &(row_pairs){r->row + cut, r->rows - cut, r->lower}, group, id);
      return;
    }
  }
  for (int64_t i = 0; i < group_panels(plan, group); i++) {
    multiply_directly(run, r->row, r->rows, panel + i);
    multiply_directly(run, r->row + r->lower, r->rows, panel + i);
  }
}

/* Applies an activation that is no part of a tile's end to n rows of the group's outputs. */
static void activate(const strassen_run *run, int64_t row, int64_t n, int64_t group) {
  const strassen_plan *plan = run->plan;
  const strassen_problem *p = &plan->p;
  if (!is_last(run) || activation_ends_tiles(&p->activation)) return;
  const int64_t output = group_panel(plan, group) * PACKED_WIDTH,
                width = smaller(group_panels(plan, group) * PACKED_WIDTH, p->outputs - output);
  for (int64_t i = 0; i < n; i++) activation_row(&p->activation, run->y + (row + i) * p->y_row + output, width);
}

/* The item: a piece of a block of rows by a group. The last piece has the last row of an odd number. */
static void run_item(const strassen_run *run, int64_t block, int64_t piece, int64_t group, int32_t id) {
  const strassen_plan *plan = run->plan;
  const int64_t first = block * 2 * plan->half_rows, n = smaller(2 * plan->half_rows, plan->p.rows - first),
                half = n / 2, cut = plan->half_rows / plan->n_pieces, begin = smaller(piece * cut, half);
  const row_pairs r = {first + begin, smaller(cut, half - begin), half};
  if (r.rows > 0) {
    multiply_group(run, &r, group, id);
    activate(run, r.row, r.rows, group);
    activate(run, r.row + half, r.rows, group);
  }
  if (n % 2 == 0 || piece < plan->n_pieces - 1) return;
  for (int64_t i = 0; i < group_panels(plan, group); i++)
    multiply_directly(run, first + n - 1, 1, group_panel(plan, group) + i);
  activate(run, first + n - 1, 1, group);
}

static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const strassen_run *run = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&run->plan->team); i++)
    run_item(run, i / run->n_groups / run->plan->n_pieces, i / run->n_groups % run->plan->n_pieces,
             run->first_pair + i % run->n_groups, worker);
}

/* All rows by the job's panels, in its block of depth. */
static reed_status run_job(strassen_run *run) {
  const strassen_plan *plan = run->plan;
  cpu_team team = plan->team;
  for (int32_t i = 0; i < team.threads; i++) {
    worker_at(run, i)->rows = 0;
    for (int64_t pair = 0; pair < run->n_pairs; pair++) pair_at(run, i, run->first_pair + pair)->has_sums = false;
  }
  if (!plan->own_pairs) {
    team.chunks = (int32_t)run->n_pairs;
    reed_status status = cpu_parallel(team, run->n_pairs, 1, add_pairs, run);
    if (status != REED_OK) return status;
  }
  const int64_t items = plan->n_blocks * plan->n_pieces * run->n_groups;
  team.chunks = (int32_t)smaller(items, INT32_MAX);
  return cpu_parallel_scratch(team, items, 1, run_items, run);
}

reed_status strassen_plan_run(const strassen_plan *plan, const float *a, const void *b, const float *bias,
                              const float *residual, float *y, void *workspace) {
  float *pairs = workspace;
  strassen_run run = {.plan = plan,
                      .a = a,
                      .b = b,
                      .bias = bias,
                      .residual = residual,
                      .y = y,
                      .pairs = pairs,
                      .workers = pairs + held_pairs(plan) * pair_floats(plan)};
  for (; run.begun < plan->p.depth; run.begun += run.depth) {
    run.depth = smaller(plan->block_depth, plan->p.depth - run.begun);
    for (run.first_pair = 0; run.first_pair < plan->n_pairs; run.first_pair += run.n_pairs) {
      run.n_pairs = smaller(plan->job_pairs, plan->n_pairs - run.first_pair);
      const bool is_last_job = run.first_pair + run.n_pairs == plan->n_pairs;
      run.n_groups = run.n_pairs + (is_last_job ? plan->n_panels - 2 * plan->n_pairs : 0);
      reed_status status = run_job(&run);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}
