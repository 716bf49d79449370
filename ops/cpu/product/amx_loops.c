/* Products of pairs of bf16 (ops/cpu/product/panel_loops.h) by the tile instructions of AMX (amx.h). A tile of up to 16
 * pixels by 64 outputs has its sums in four registers; a step of depth loads 16 pairs of each pixel once and multiplies
 * them by the packed weights of four times 16 outputs, which lie as TDPBF16PS reads them. So each step has five loads
 * of 8 cycles beside four products of 16. The rest of a run's depth has registers of its own, because their extents
 * differ. */
#include "ops/cpu/product/amx.h"
#include "ops/cpu/product/panel_finish.h"

/* Numbers of registers: digits, which the intrinsics paste into instructions. */
#define SUM_0 0
#define SUM_1 1
#define SUM_2 2
#define SUM_3 3
#define A 4
#define A_REST 5
#define WEIGHTS 6
#define WEIGHTS_REST 7

enum { STEP = 16, COLUMNS = 16, VECTORS = 4 }; /* pairs; outputs of a register; registers of sums */

int panel_amx_rows(void) { return AMX_ROWS; }

/* The configuration of a thread's registers: LDTILECFG takes longer than a short product. 0: none. */
static _Thread_local int64_t configured;

void panel_amx_release(void) {
  if (configured) amx_release();
  configured = 0;
}

static void configure(int64_t rows, int64_t rest) {
  const int64_t wanted = rows * STEP + rest;
  if (configured == wanted) return;
  amx_config c = {.palette = 1};
  const struct {
    int i;
    int64_t rows, row_bytes;
  } registers[] = {{SUM_0, rows, 4 * COLUMNS},   {SUM_1, rows, 4 * COLUMNS},
                   {SUM_2, rows, 4 * COLUMNS},   {SUM_3, rows, 4 * COLUMNS},
                   {A, rows, 4 * STEP},          {A_REST, rest ? rows : 0, 4 * rest},
                   {WEIGHTS, STEP, 4 * COLUMNS}, {WEIGHTS_REST, rest, rest ? 4 * COLUMNS : 0}};
  for (int i = 0; i < AMX_REGISTERS; i++) {
    c.rows[registers[i].i] = (uint8_t)registers[i].rows;
    c.row_bytes[registers[i].i] = (uint16_t)registers[i].row_bytes;
  }
  amx_configure(&c);
  configured = wanted;
}

/* Runs the statement with the number of the register of each 16 columns' sums, a constant, and these columns. */
#define EACH(n, statement) \
  do { \
    for (int j = 0; j < (n); j++) switch (j) { \
        case 0: statement(SUM_0, 0); break; \
        case 1: statement(SUM_1, COLUMNS); break; \
        case 2: statement(SUM_2, 2 * COLUMNS); break; \
        case 3: statement(SUM_3, 3 * COLUMNS); break; \
      } \
  } while (0)

#define ZERO(sum, column) amx_zero(sum)
#define MULTIPLY(sum, column) \
  do { \
    amx_load(WEIGHTS, b + (column), weights_row); \
    amx_multiply(sum, A, WEIGHTS); \
  } while (0)
#define MULTIPLY_REST(sum, column) \
  do { \
    amx_load(WEIGHTS_REST, b + (column), weights_row); \
    amx_multiply(sum, A_REST, WEIGHTS_REST); \
  } while (0)
#define STORE(sum, column) amx_store(sum, sums + (column), VECTORS * COLUMNS * 4)

/* The sums of the tile whose first row of X is `a`, for `vectors` (a constant after inlining) times 16 columns of the
 * panel. */
INLINE void add_up(const panel_tile *t, const float *first_a, const float *b, int vectors, float *sums) {
  const int64_t a_row = t->a_row * 4, weights_row = t->panel_row * 4, rest = t->run_length % STEP;
  EACH(vectors, ZERO);
  for (int64_t r = 0; r < t->n_runs; r++) {
    const float *a = first_a + t->runs[r];
    for (int64_t k = STEP; k <= t->run_length; k += STEP, a += STEP, b += STEP * t->panel_row) {
      amx_load(A, a, a_row);
      EACH(vectors, MULTIPLY);
    }
    if (rest == 0) continue;
    amx_load(A_REST, a, a_row);
    EACH(vectors, MULTIPLY_REST);
    b += rest * t->panel_row;
  }
  EACH(vectors, STORE);
}

CPU_UNCHECKED void panel_amx_multiply(const panel_tile *t) {
  _Alignas(64) float sums[AMX_ROWS * VECTORS * COLUMNS];
  configure(t->rows, t->run_length % STEP);
  for (int64_t column = 0; column < t->width; column += VECTORS * COLUMNS)
    for (int64_t tile = 0; tile < t->count; tile++) {
      const float *a = t->a + tile * t->rows * t->a_row, *b = (const float *)t->panel + column;
      const int64_t vectors = (t->width - column) / COLUMNS;
      switch (vectors) {
        case 1: add_up(t, a, b, 1, sums); break;
        case 2: add_up(t, a, b, 2, sums); break;
        case 3: add_up(t, a, b, 3, sums); break;
        default: add_up(t, a, b, 4, sums); break;
      }
      for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < VECTORS * COLUMNS && column + j < t->width; j += LANES)
          panel_finish(t, tile * t->rows + i, column + j, t->scale * load(sums + i * VECTORS * COLUMNS + j));
    }
}
