/* Products of whole numbers (integers.h). A's rows are packed first, for all panels. An item of work is a chunk of rows
 * by a panel of B. The panels of a constant B are packed once a program; another one's are packed by each thread in
 * memory of its own, and items of one panel follow each other, so that a thread mostly finds the panel packed. Numbers
 * of more than 16 bits, which quantised numbers are not, are multiplied without packing; so is a single column, for
 * which A is read once. Sums wrap, so that the order of additions has no influence. */
#include "ops/cpu/product/integers.h"

#include <string.h>

#include "ops/cpu/product/integer_loops.h"
#include "ops/cpu/product/whole.h"

#define ITEM_PRODUCTS ((int64_t)3 << 19) /* of an item, about: some 25 us */
#define ROW_DEPTH 32                     /* takes as long as a row's begin and end, in a panel of any width */
#define ITEM_ROWS_LEAST 12               /* packing a panel takes as long as multiplying it with 4 to 8 rows */
#define PACKED_ROW 16                    /* in cpu_team_for's count, of packing a row besides its elements */
#define DEEP 4096                        /* from here on an item has one tile of rows */
#define DEPTH_MOST 32768                 /* a deeper item would take too long; the reference cuts the depth */

typedef struct integer_product {
  product p;
  int64_t a_rows;  /* of all matrices of A */
  int64_t pairs;   /* of the depth */
  int64_t columns; /* of a panel */
  int64_t n_panels, n_chunks, chunk_rows;
  cpu_team team;
  cpu_level level;
  int64_t fits_offset, panels_offset; /* into the workspace, which begins with A's packed rows */
  kernel_cache *cache;
  char *stored; /* the cache's: all panels of a constant B, then for each whether it is packed; NULL: not stored */
} integer_product;

typedef struct integer_run {
  const integer_product *s;
  const int32_t *a, *b;
  int32_t *y;
  int16_t *rows;
  bool *fits; /* for each row of A: it is packed */
  char *panels;
} integer_run;

/* All that the stored panels of a constant depend on. */
typedef struct stored_key {
  char what[16];
  const void *constant;
  int64_t depth, columns, level;
} stored_key;

static int64_t panel_bytes(const integer_product *s) { return s->pairs * 2 * s->columns * (int64_t)sizeof(int16_t); }

static void pack_rows(void *context, int64_t begin, int64_t end) {
  const integer_run *r = context;
  const integer_product *s = r->s;
  for (int64_t i = begin; i < end; i++)
    r->fits[i] = CPU_PICK(s->level, integer_pack_row)(r->a + i * s->p.k, s->p.k, r->rows + i * 2 * s->pairs);
}

static bool pack_panel(const integer_product *s, const int32_t *b, int64_t n, char *panel) {
  return CPU_PICK(s->level, integer_pack_panel)(b, s->p.b_row, s->p.k, n, (int16_t *)(void *)panel);
}

/* A row of A times n columns of B, in any number of bits. */
static void multiply_plainly(const int32_t *a, const int32_t *b, int64_t b_row, int64_t depth, int64_t n, int32_t *y) {
  memset(y, 0, (size_t)n * sizeof *y);
  for (int64_t k = 0; k < depth; k++)
    for (int64_t j = 0; j < n; j++) y[j] = (int32_t)((uint32_t)y[j] + (uint32_t)a[k] * (uint32_t)b[k * b_row + j]);
}

/* The rows first .. first + n_rows of A, of a matrix whose results begin at y, by the columns of a panel. */
static void multiply_rows(const integer_run *r, int64_t first, int64_t n_rows, const int16_t *panel, const int32_t *b,
                          int64_t n, int32_t *y) {
  const integer_product *s = r->s;
  const int64_t a_row = 2 * s->pairs;
  int64_t n_tile;
  for (int64_t i = 0; i < n_rows; i += n_tile) {
    for (n_tile = 0; panel && n_tile < smaller(INTEGER_ROWS, n_rows - i) && r->fits[first + i + n_tile];) n_tile++;
    int32_t *to = y + i * s->p.n;
    if (n_tile) {
      CPU_PICK(s->level, integer_multiply)
      ((int)n_tile, r->rows + (first + i) * a_row, a_row, panel, s->pairs, n, to, s->p.n);
      continue;
    }
    multiply_plainly(r->a + (first + i) * s->p.k, b, s->p.b_row, s->p.k, n, to);
    n_tile = 1;
  }
}

static void multiply_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const integer_run *r = context;
  const integer_product *s = r->s;
  const product *p = &s->p;
  char *own = r->panels + worker * panel_bytes(s);
  bool fits = false;
  for (int64_t item = begin, packed = -1; item < end && !cpu_cancelled(&s->team); item++) {
    const int64_t part_panel = item / s->n_chunks, part = part_panel / s->n_panels, panel_at = part_panel % s->n_panels,
                  column = panel_at * s->columns, n = smaller(s->columns, p->n - column),
                  row = item % s->n_chunks * s->chunk_rows, n_rows = smaller(s->chunk_rows, p->m - row);
    const product_place at = product_place_of(p, part);
    const int32_t *b = r->b + at.b + column;
    const char *panel = s->stored ? s->stored + panel_at * panel_bytes(s) : own;
    if (s->stored) fits = s->stored[s->n_panels * panel_bytes(s) + panel_at];
    else if (packed != part_panel) fits = pack_panel(s, b, n, own);
    packed = part_panel;
    multiply_rows(r, at.a / p->k + row, n_rows, fits ? (const int16_t *)(const void *)panel : NULL, b, n,
                  r->y + (part * p->m + row) * p->n + column);
  }
}

static reed_status run_integers(const void *state, const reed_kernel_buffers *buffers) {
  const integer_product *s = state;
  char *workspace = buffers->workspace;
  integer_run r = {.s = s,
                   .a = buffers->inputs[0],
                   .b = buffers->inputs[1],
                   .y = buffers->outputs[0],
                   .rows = (int16_t *)(void *)workspace,
                   .fits = (bool *)(workspace + s->fits_offset),
                   .panels = workspace + s->panels_offset};
  reed_status status =
      cpu_parallel(cpu_team_for(s->team, s->a_rows * (s->p.k * 6 + PACKED_ROW)), s->a_rows, 1, pack_rows, &r);
  if (status != REED_OK) return status;
  return cpu_parallel_scratch(s->team, s->p.batch * s->n_panels * s->n_chunks, 1, multiply_items, &r);
}

/* ---- one column ---- */

#define DOT_COST 16 /* of a row besides its elements, in elements */
#define DOT_BYTES 4 /* in cpu_team_for's count, of an element */

/* Items are chunks of rows of the matrices of the batch. */
static void multiply_column(void *context, int64_t begin, int64_t end) {
  const integer_run *r = context;
  const integer_product *s = r->s;
  const product *p = &s->p;
  for (int64_t i = begin; i < end && !cpu_cancelled(&s->team); i++) {
    const int64_t part = i / s->n_chunks, row = i % s->n_chunks * s->chunk_rows;
    const product_place at = product_place_of(p, part);
    CPU_PICK(s->level, integer_dots)
    (r->a + at.a + row * p->k, p->k, r->b + at.b, p->k, smaller(s->chunk_rows, p->m - row), r->y + part * p->m + row);
  }
}

static reed_status run_column(const void *state, const reed_kernel_buffers *buffers) {
  const integer_product *s = state;
  integer_run r = {.s = s, .a = buffers->inputs[0], .b = buffers->inputs[1], .y = buffers->outputs[0]};
  return cpu_parallel(s->team, s->p.batch * s->n_chunks, 1, multiply_column, &r);
}

static reed_status prepare_column(const reed_kernel_call *call, integer_product *s, reed_kernel *out_kernel) {
  const product *p = &s->p;
  const double work = (double)p->batch * (double)p->m * (double)((p->k + DOT_COST) * DOT_BYTES);
  s->chunk_rows = round_up(larger(ITEM_PRODUCTS / PACKED_ROW / (p->k + DOT_COST), 1), INTEGER_COLUMNS);
  s->n_chunks = divided(p->m, s->chunk_rows);
  s->team = cpu_team_for(cpu_env_team(call), work < 1e15 ? (int64_t)work : INT64_MAX);
  cpu_kernel_set(out_kernel, run_column, s);
  out_kernel->state_bytes = (int64_t)sizeof *s;
  out_kernel->variant = "one column";
  return REED_OK;
}

/* ---- the call ---- */

static void free_integers(void *state) {
  integer_product *s = state;
  if (s->stored) kernel_cache_release(s->cache, s->stored);
  mem_free(s);
}

typedef struct stored_context {
  const integer_product *s;
  const int32_t *b;
} stored_context;

static reed_status stored_build(void *context, kernel_cache_value *out_value) {
  const stored_context *c = context;
  const integer_product *s = c->s;
  const int64_t bytes = s->n_panels * (panel_bytes(s) + 1);
  char *stored = mem_alloc_bulk((size_t)bytes);
  if (!stored) return REED_ERROR_MEMORY;
  for (int64_t i = 0; i < s->n_panels; i++)
    stored[s->n_panels * panel_bytes(s) + i] =
        pack_panel(s, c->b + i * s->columns, smaller(s->columns, s->p.n - i * s->columns), stored + i * panel_bytes(s));
  *out_value = (kernel_cache_value){stored, mem_free_aligned, bytes};
  return REED_OK;
}

/* Packs a constant B once for all sessions of the program. */
static reed_status store(const reed_kernel_call *call, integer_product *s) {
  if (!call->env || !call->env->cache || !call->constant || !call->constant[1] || !call->host_values[1] ||
      call->inputs[1].rank != 2)
    return REED_OK;
  stored_context context = {s, call->host_values[1]};
  stored_key key = {"integers", context.b, s->p.k, s->p.n, s->level};
  void *stored;
  s->cache = call->env->cache;
  reed_status status = kernel_cache_get(s->cache, &key, sizeof key, stored_build, &context, &stored);
  if (status == REED_OK) s->stored = stored;
  return status;
}

reed_status integer_product_prepare(const reed_kernel_call *call, const product *p, reed_kernel *out_kernel) {
  const bool dense_a = p->a_column == 1 && (p->a_row == p->k || p->m == 1),
             dense_b = (p->b_column == 1 || p->n == 1) && (p->b_row == p->n || p->k == 1);
  if (p->has_c || p->k == 0 || p->k > DEPTH_MOST || !dense_a || !dense_b) return REED_OK;
  integer_product *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->p = *p;
  s->level = cpu_level_now();
  if (p->n == 1) return prepare_column(call, s, out_kernel);
  s->a_rows = desc_elements(&call->inputs[0]) / p->k;
  s->pairs = divided(p->k, 2);
  s->columns = CPU_PICK(s->level, integer_columns)();
  s->n_panels = divided(p->n, s->columns);
  s->n_chunks = divided(
      p->m, larger(ITEM_PRODUCTS / (s->columns * (p->k + ROW_DEPTH)), p->k > DEEP ? INTEGER_ROWS : ITEM_ROWS_LEAST));
  s->chunk_rows = round_up(divided(p->m, larger(s->n_chunks, 1)), INTEGER_ROWS);
  s->n_chunks = divided(p->m, s->chunk_rows > 0 ? s->chunk_rows : 1);
  const double products =
      (double)p->batch * (double)p->m * (double)(s->n_panels * s->columns) * (double)(p->k + ROW_DEPTH);
  s->team = cpu_team_for(cpu_env_team(call), products < 1e15 ? (int64_t)products / PRODUCTS_PER_BYTE : INT64_MAX);
  s->fits_offset = round_up(s->a_rows * s->pairs * 2 * (int64_t)sizeof(int16_t), 64);
  s->panels_offset = s->fits_offset + round_up(s->a_rows, 64);
  reed_status status = store(call, s);
  if (status != REED_OK) {
    mem_free(s);
    return status;
  }
  *out_kernel = (reed_kernel){.run = run_integers,
                              .state = s,
                              .free = free_integers,
                              .workspace_bytes = s->panels_offset + (s->stored ? 0 : s->team.threads * panel_bytes(s)),
                              .state_bytes = (int64_t)sizeof *s,
                              .variant = "pairs of 16 bits"};
  return REED_OK;
}
