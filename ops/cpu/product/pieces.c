/* The pieces of a long depth and their sum (pieces.h). */
#include "ops/cpu/product/pieces.h"

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/product/whole.h"

#define LONG_DEPTH 8192     /* so much is cut: less takes no longer than some chunks */
#define SUMS_MOST (1 << 20) /* floats of all pieces' sums */
#define ADD_GRAIN 16        /* results: a cache line */

int64_t depth_pieces(int64_t rows, int64_t columns, int64_t width, int64_t depth, int64_t least) {
  if (depth < LONG_DEPTH || rows == 0 || columns == 0 || columns > SUMS_MOST / rows) return 1;
  const int64_t results = rows * columns, products = rows * width / PRODUCTS_PER_BYTE,
                bytes = (rows + width) * (int64_t)sizeof(float),
                length = smaller(2 * CPU_WORK_PER_CHUNK / larger(products, 1), 4 * CPU_WORK_PER_CHUNK / bytes);
  return larger(smaller(depth / larger(length, least), SUMS_MOST / results), 1);
}

/* Results begin..end of all rows. */
static void add_results(void *context, int64_t begin, int64_t end) {
  const piece_sums *s = context;
  const cpu_level level = s->activation->level;
  while (begin < end) {
    const int64_t column = begin % s->columns, n = smaller(s->columns - column, end - begin);
    float *sums = s->sums + begin;
    for (int64_t i = 1; i < s->n_pieces; i++) CPU_PICK(level, add_rows)(sums + i * s->rows * s->columns, sums, n);
    if (s->bias) CPU_PICK(level, add_rows)(s->bias + column, sums, n);
    if (s->residual) CPU_PICK(level, add_rows)(s->residual + begin, sums, n);
    activation_row(s->activation, sums, n);
    memcpy(s->y + begin, sums, (size_t)n * sizeof *sums);
    begin += n;
  }
}

reed_status piece_sums_add(const piece_sums *sums, cpu_team team) {
  const int64_t results = sums->rows * sums->columns;
  return cpu_parallel(cpu_team_for(team, results * (sums->n_pieces + 1) * (int64_t)sizeof(float)), results, ADD_GRAIN,
                      add_results, (void *)sums);
}
