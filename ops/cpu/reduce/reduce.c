/* The reductions over any set of axes. Dims are joined until kept and reduced ones alternate. If the innermost dim is
 * reduced, its runs go to the formula's `row` loop; otherwise blocks of columns go to its `column` loop. Long
 * reductions are cut into pieces whose length follows from the extents alone, so that results do not depend on the
 * number of threads. The reference: reference/reduce.c. The loops: reduce_f32.c, reduce_plain.c. */
#include "base/dtype.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/reduce/reduce_f32.h"
#include "ops/cpu/reduce/reduce_plain.h"
#include "ops/cpu/reduce/short_rows.h"

#define BLOCK 256       /* half elements converted, or columns, at a time */
#define PIECE 65536     /* elements of one partial result */
#define EXP_PIECE 8192  /* of ReduceLogSumExp */
#define INT_PIECE 16384 /* of integers, which are widened */
#define SLOW_PIECE 2048 /* the same where a logarithm is taken of each element: in short columns and in f64 */
#define HALF_ROWS 16    /* rows of halves converted at a time for loops that take several */
#define SHORT_COLUMN 16 /* columns with fewer elements along the last reduced dim are short */
#define LEAST_COLUMNS 16
#define ABREAST 128       /* elements that rows of few columns have together where they are reduced as one row */
#define BLOCKS_ABREAST 16 /* such rows that are worth it */
/* Work of an element: it is added to a double or an integer of 64 bits, a half is converted before, a logarithm taken.
 */
#define WORK 8
#define HALF_WORK 24
#define SLOW_WORK 128
#define F64_EXP_WORK 64 /* an exponential in f64 */
#define STEP_WORK 32    /* of a row, or a row's block of columns, besides */

typedef struct reduce_state {
  const reduce_loops *loops;
  convert_fn load, store; /* from and to f32 for the half dtypes; NULL: none */
  bool by_columns;
  int32_t n_kept, n_reduced; /* dims but the innermost */
  cpu_team team;
  int64_t inner;   /* extent of the innermost dim */
  int64_t columns; /* columns a unit of work takes */
  int64_t abreast; /* rows that are reduced as one, of few columns each; 1: none are */
  int64_t n_units; /* of work: output elements, or blocks of columns */
  int64_t n_out;
  int64_t n_reduced_elements;
  int64_t size;     /* bytes of an element */
  int64_t n_steps;  /* of a reduction: rows or, where rows are cut, elements; with columns, elements of a column */
  int64_t piece;    /* steps of one partial result */
  int64_t n_pieces; /* of each reduction; 1: it is not cut */
  bool cut_rows;
  bool short_rows; /* the loops take many rows, one of each reduction, at a time */
  int64_t kept[REED_MAX_RANK], kept_strides[REED_MAX_RANK]; /* strides in elements of the input */
  int64_t reduced[REED_MAX_RANK], reduced_strides[REED_MAX_RANK];
} reduce_state;

typedef struct reduce_job {
  const reduce_state *s;
  const char *in;
  char *out;
  reduce_accumulator *partial;
} reduce_job;

static void add_row(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t n) {
  if (!s->load) {
    s->loops->row(a, x, n);
    return;
  }
  float converted[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    s->load(converted, x + i * s->size, m);
    s->loops->row(a, converted, m);
  }
}

static void add_columns(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t n) {
  float converted[BLOCK];
  if (s->load) {
    s->load(converted, x, n);
    x = (const char *)converted;
  }
  s->loops->column(a, x, n);
}

/* `rows` rows of n columns, `stride` elements apart; several at a time where the loops or a conversion gain by that. */
static void add_column_rows(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t stride, int64_t rows,
                            int64_t n) {
  const int64_t step = stride * s->size;
  if (!s->loops->columns) {
    for (int64_t i = 0; i < rows; i++)
      if (s->load) add_columns(s, a, x + i * step, n);
      else s->loops->column(a, x + i * step, n);
    return;
  }
  if (!s->load) {
    s->loops->columns(a, x, stride, rows, n);
    return;
  }
  float converted[HALF_ROWS * BLOCK];
  for (int64_t i = 0; i < rows; i += HALF_ROWS) {
    const int64_t some = rows - i < HALF_ROWS ? rows - i : HALF_ROWS;
    for (int64_t k = 0; k < some; k++) s->load(converted + k * n, x + (i + k) * step, n);
    s->loops->columns(a, converted, n, some, n);
  }
}

/* Reduces as many of `count` rows of n columns, which lie side by side, as make whole blocks of s->abreast rows.
 * Returns their number. */
static int64_t add_abreast(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t n, int64_t count) {
  reduce_accumulator wide[BLOCK], of_column[BLOCK];
  const int64_t rows = s->abreast, blocks = count / rows;
  if (blocks < BLOCKS_ABREAST) return 0;
  s->loops->start(wide, rows * n);
  add_column_rows(s, wide, x, rows * n, blocks, rows * n);
  for (int64_t column = 0; column < n; column++) {
    for (int64_t k = 0; k < rows; k++) of_column[k] = wide[k * n + column];
    s->loops->join(&a[column], of_column, rows);
  }
  return blocks * rows;
}

static void write_results(const reduce_state *s, char *out, const reduce_accumulator *a, int64_t n) {
  float result[BLOCK];
  s->loops->finish(s->store ? (void *)result : out, a, n, s->n_reduced_elements);
  if (s->store) s->store(out, result, n);
}

/* Reduces `count` steps from `first` on into the n accumulators at `a`: rows of the innermost dim, a part of one row,
 * or n columns. */
static void add_steps(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t n, int64_t first,
                      int64_t count) {
  int64_t coordinates[REED_MAX_RANK], index = first;
  if (s->cut_rows) {
    add_row(s, a, x + first * s->size, count);
    return;
  }
  for (int32_t d = s->n_reduced - 1; d >= 0; d--) {
    coordinates[d] = index % s->reduced[d];
    index /= s->reduced[d];
    x += coordinates[d] * s->reduced_strides[d] * s->size;
  }
  int32_t last = s->n_reduced - 1;
  if (last < 0 && s->by_columns) add_columns(s, a, x, n);
  else if (last < 0) add_row(s, a, x, s->inner);
  int64_t stride = last < 0 ? 0 : s->reduced_strides[last] * s->size;
  for (int64_t run; count > 0 && last >= 0; count -= run) {
    run = s->reduced[last] - coordinates[last] < count ? s->reduced[last] - coordinates[last] : count;
    int64_t done = s->abreast > 1 ? add_abreast(s, a, x, n, run) : 0;
    if (s->by_columns) add_column_rows(s, a, x + done * stride, s->reduced_strides[last], run - done, n);
    else
      for (int64_t i = 0; i < run; i++) add_row(s, a, x + i * stride, s->inner);
    x += run * stride;
    coordinates[last] += run;
    for (int32_t d = last; d > 0 && coordinates[d] == s->reduced[d]; d--) {
      x += (s->reduced_strides[d - 1] - s->reduced[d] * s->reduced_strides[d]) * s->size;
      coordinates[d] = 0;
      coordinates[d - 1]++;
    }
  }
}

/* Offset in the input, in elements, of a kept coordinate given as linear index. */
static int64_t kept_offset(const reduce_state *s, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = s->n_kept - 1; d > 0; d--) {
    offset += index % s->kept[d] * s->kept_strides[d];
    index /= s->kept[d];
  }
  return s->n_kept ? offset + index * s->kept_strides[0] : 0;
}

/* n neighbouring rows into an accumulator each. */
static void add_short_rows(const reduce_state *s, reduce_accumulator *a, const char *x, int64_t n) {
  float converted[BLOCK];
  const int64_t some = s->load ? BLOCK / s->inner : n;
  for (int64_t i = 0, rows; i < n; i += rows, x += rows * s->inner * s->size) {
    rows = n - i < some ? n - i : some;
    if (s->load) s->load(converted, x, rows * s->inner);
    s->loops->short_rows(a + i, s->load ? (const void *)converted : x, rows, s->inner);
  }
}

/* Output elements begin..end, each from rows of its own. */
static void rows_range(void *context, int64_t begin, int64_t end) {
  const reduce_job *job = context;
  const reduce_state *s = job->s;
  reduce_accumulator a[BLOCK];
  for (int64_t first = begin; first < end; first += BLOCK) {
    int64_t n = end - first < BLOCK ? end - first : BLOCK;
    if (s->short_rows) {
      add_short_rows(s, a, job->in + first * s->inner * s->size, n);
      write_results(s, job->out + first * s->size, a, n);
      continue;
    }
    s->loops->start(a, n);
    for (int64_t i = 0; i < n && s->n_reduced_elements; i++)
      add_steps(s, &a[i], job->in + kept_offset(s, first + i) * s->size, 1, 0, s->n_steps);
    write_results(s, job->out + first * s->size, a, n);
  }
}

/* A block of columns, counted over all kept coordinates. */
typedef struct column_block {
  int64_t out, n;   /* its first output element, and their number */
  const char *from; /* its first row in the input */
} column_block;

static column_block block_at(const reduce_job *job, int64_t unit) {
  const reduce_state *s = job->s;
  int64_t blocks = (s->inner + s->columns - 1) / s->columns, kept = unit / blocks, first = unit % blocks * s->columns;
  return (column_block){kept * s->inner + first, s->inner - first < s->columns ? s->inner - first : s->columns,
                        job->in + (kept_offset(s, kept) + first) * s->size};
}

/* Blocks of columns begin..end. */
static void columns_range(void *context, int64_t begin, int64_t end) {
  const reduce_job *job = context;
  const reduce_state *s = job->s;
  reduce_accumulator a[BLOCK];
  for (int64_t unit = begin; unit < end; unit++) {
    const column_block b = block_at(job, unit);
    s->loops->start(a, b.n);
    if (s->n_reduced_elements) add_steps(s, a, b.from, b.n, 0, s->n_steps);
    write_results(s, job->out + b.out * s->size, a, b.n);
  }
}

/* Pieces begin..end of the units' reductions: to partial[output element][piece]. */
static void pieces_range(void *context, int64_t begin, int64_t end) {
  const reduce_job *job = context;
  const reduce_state *s = job->s;
  reduce_accumulator a[BLOCK];
  for (int64_t i = begin; i < end; i++) {
    int64_t unit = i / s->n_pieces, piece = i % s->n_pieces, first = piece * s->piece,
            n = s->n_steps - first < s->piece ? s->n_steps - first : s->piece;
    column_block b =
        s->by_columns ? block_at(job, unit) : (column_block){unit, 1, job->in + kept_offset(s, unit) * s->size};
    s->loops->start(a, b.n);
    add_steps(s, a, b.from, b.n, first, n);
    for (int64_t k = 0; k < b.n; k++) job->partial[(b.out + k) * s->n_pieces + piece] = a[k];
  }
}

/* Joins the pieces of output elements begin..end. */
static void joins_range(void *context, int64_t begin, int64_t end) {
  const reduce_job *job = context;
  const reduce_state *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    reduce_accumulator a;
    s->loops->start(&a, 1);
    s->loops->join(&a, job->partial + i * s->n_pieces, s->n_pieces);
    write_results(s, job->out + i * s->size, &a, 1);
  }
}

static reed_status run_reduce(const void *state, const reed_kernel_buffers *buffers) {
  const reduce_state *s = state;
  reduce_job job = {s, buffers->inputs[0], buffers->outputs[0], buffers->workspace};
  if (s->n_pieces == 1) return cpu_parallel(s->team, s->n_units, 1, s->by_columns ? columns_range : rows_range, &job);
  reed_status status = cpu_parallel(s->team, s->n_units * s->n_pieces, 1, pieces_range, &job);
  if (status != REED_OK) return status;
  return cpu_parallel(cpu_team_for(s->team, s->n_out * s->n_pieces * 16), s->n_out, 1, joins_range, &job);
}

/* Marks the reduced axes (ONNX 18): those in `axes`; if it is absent or empty all axes, or none with
 * noop_with_empty_axes. */
static void reduced_axes(const reed_kernel_call *call, bool *out_reduced) {
  const reed_desc *in = &call->inputs[0];
  int64_t n = cpu_present(call, 1) ? desc_elements(&call->inputs[1]) : 0;
  bool all = n == 0 && !op_attr_int(call->attrs, "noop_with_empty_axes");
  for (int32_t d = 0; d < in->rank; d++) out_reduced[d] = all;
  for (int64_t k = 0; k < n; k++) out_reduced[cpu_axis(((const int64_t *)call->host_values[1])[k], in->rank)] = true;
}

/* Joins the input's dims and splits them into kept and reduced ones. */
static void split_dims(reduce_state *s, const reed_desc *in, const bool *reduced) {
  int64_t extents[REED_MAX_RANK + 1] = {1}, strides[REED_MAX_RANK], stride = 1;
  bool kind[REED_MAX_RANK + 1] = {true};
  int32_t n = 0; /* from the innermost out; a joined dim keeps the innermost's stride */
  for (int32_t d = in->rank - 1; d >= 0; d--) {
    if (in->dims[d] == 1) continue;
    if (n && kind[n - 1] == reduced[d]) {
      extents[n - 1] *= in->dims[d];
    } else {
      extents[n] = in->dims[d];
      strides[n] = stride;
      kind[n++] = reduced[d];
    }
    stride *= in->dims[d];
  }
  s->inner = extents[0];
  s->by_columns = !kind[0];
  for (int32_t d = n - 1; d > 0; d--) {
    int64_t *to = kind[d] ? s->reduced : s->kept, *to_strides = kind[d] ? s->reduced_strides : s->kept_strides;
    int32_t *count = kind[d] ? &s->n_reduced : &s->n_kept;
    to[*count] = extents[d];
    to_strides[(*count)++] = strides[d];
  }
  s->abreast = 1;
  if (s->by_columns && s->inner && s->inner < LEAST_COLUMNS && s->n_reduced &&
      s->reduced[s->n_reduced - 1] * s->inner >= BLOCKS_ABREAST * ABREAST)
    s->abreast = ABREAST / s->inner;
}

/* Rows of the innermost dim, or blocks of their columns, that n_in elements are added in. */
static int64_t steps_of(const reduce_state *s, int64_t n_in) {
  int64_t at_once = s->abreast > 1 ? ABREAST : s->by_columns && s->inner > BLOCK ? BLOCK : s->inner;
  return n_in ? n_in / at_once : 0;
}

/* Cuts the work into units and, if even the shortest units would be long, these into pieces of about `piece` elements.
 */
static void plan_units(reduce_state *s, int64_t n_in, int64_t piece) {
  int64_t kept = s->by_columns ? s->n_out / s->inner : s->n_out, wanted = s->team.chunks / kept + 1;
  s->columns = (s->inner / wanted) & ~(int64_t)(LEAST_COLUMNS - 1);
  s->columns = s->columns < LEAST_COLUMNS ? LEAST_COLUMNS : s->columns > BLOCK ? BLOCK : s->columns;
  s->n_units = s->by_columns ? kept * ((s->inner + s->columns - 1) / s->columns) : s->n_out;
  if (n_in == 0) return;
  int64_t step = 1;
  if (s->by_columns) {
    s->n_steps = s->n_reduced_elements;
    step = s->abreast > 1 ? s->inner : LEAST_COLUMNS;
  } else if (s->n_reduced) {
    s->n_steps = s->n_reduced_elements / s->inner;
    step = s->inner;
  } else {
    s->cut_rows = s->inner > 2 * piece;
    s->n_steps = s->cut_rows ? s->inner : 1;
  }
  if (s->n_steps * step <= 2 * piece) return;
  s->piece = piece > step ? piece / step : 1;
  s->n_pieces = (s->n_steps + s->piece - 1) / s->piece;
}

reed_status cpu_prepare_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  bool reduced[REED_MAX_RANK];
  reduced_axes(call, reduced);
  bool half = in->dtype == REED_F16 || in->dtype == REED_BF16;
  cpu_level level = cpu_level_now();
  const reduce_loops *loops = half || in->dtype == REED_F32 ? CPU_PICK(level, reduce_f32)(op_id_of(call->op))
                                                            : reduce_plain(in->dtype, op_id_of(call->op));
  if (!loops)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "there is no such reduction for %s",
                            reed_dtype_name(in->dtype));
  reduce_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->loops = loops;
  s->load = half ? convert_between(level, in->dtype, REED_F32) : NULL;
  s->store = half ? convert_between(level, REED_F32, in->dtype) : NULL;
  s->size = (int64_t)reed_dtype_bytes(in->dtype);
  split_dims(s, in, reduced);
  s->n_reduced_elements = 1;
  for (int32_t d = 0; d < in->rank; d++)
    if (reduced[d]) s->n_reduced_elements *= in->dims[d];
  const bool sums_exp = op_id_of(call->op) == OP_ReduceLogSumExp,
             short_column = s->by_columns && (!s->n_reduced || s->reduced[s->n_reduced - 1] < SHORT_COLUMN),
             slow = sums_exp && (short_column || (!s->by_columns && s->inner < 64) || (!half && in->dtype != REED_F32));
  s->short_rows = loops->short_rows && !s->by_columns && !s->n_reduced && s->inner > 0 && s->inner <= SHORT_ROW;
  const bool f64_exp = sums_exp && in->dtype == REED_F64;
  int64_t n_in = desc_elements(in), work = f64_exp                  ? F64_EXP_WORK
                                           : slow && !s->short_rows ? SLOW_WORK
                                           : half || sums_exp       ? HALF_WORK
                                                                    : WORK;
  s->n_out = desc_elements(out);
  s->team = cpu_team_for(cpu_env_team(call), n_in * work + steps_of(s, n_in) * STEP_WORK + s->n_out * WORK_PER_ROW);
  s->n_pieces = 1;
  const int64_t piece = slow ? SLOW_PIECE : sums_exp ? EXP_PIECE : dtype_is_real(in->dtype) ? PIECE : INT_PIECE;
  if (s->n_out) plan_units(s, n_in, piece);
  cpu_kernel_set(out_kernel, run_reduce, s);
  if (s->n_pieces > 1) out_kernel->workspace_bytes = s->n_out * s->n_pieces * (int64_t)sizeof(reduce_accumulator);
  return REED_OK;
}
