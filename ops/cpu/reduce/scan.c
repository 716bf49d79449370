/* CumSum, ArgMax and ArgMin: walks along one axis that read every element in order. Tensors are seen as [outer, extent,
 * inner]. The reference: reference/reduce.c. Reductions to one element a line: reduce.c. */
#include "base/dtype.h"
#include "ops/cpu/calls/scan.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/common/whole.h"
#include "ops/cpu/reduce/cumsum_loops.h"
#include "ops/cpu/reduce/topk_loops.h"

/* ---- CumSum ---- */

/* A line is added in pieces of fixed length, so that results do not depend on the number of threads: an element's
 * result is the sum before its piece, plus the sum within the piece. */
#define PIECE 16384

/* Columns of a group: a multiple of the first; a wide group; of a part of a row that comes from memory. */
#define GROUP_LEAST 8
#define GROUP_WIDE 32
#define GROUP_FAR 256

/* Elements of a group of columns in the caches, as far as a group may be narrower: where threads share the groups, and
 * where one thread has them all. */
#define GROUP_ELEMENTS (4 * PIECE)
#define GROUP_ALONE (8 * PIECE)

/* Elements of a step where X and Y together are at most so many bytes, and where more of them come from memory. A row
 * of f16 or bf16 counts so many elements more, for its conversion. */
#define STEP_NEAR (4 * PIECE)
#define STEP_FAR (PIECE / 2)
#define NEAR_BYTES ((int64_t)16 << 20)
#define CONVERSION 48

typedef struct cumsum_state {
  const cumsum_loops *loops;
  reed_desc in;
  reed_dtype axis_dtype;
  cpu_team team; /* of the session */
  bool exclusive, reverse;
} cumsum_state;

typedef struct cumsum_job {
  const cumsum_state *s;
  const char *in;
  char *out;
  int64_t extent, inner, lines;
  int64_t n_pieces;       /* of a line */
  int64_t width, n_group; /* columns of a group, and groups of a block of `inner` columns */
  int64_t step_rows;      /* elements of a group's columns in a step: PIECE, or a part of it */
  bool write;             /* by pieces: the results, not the sums alone */
  char *sums;             /* by pieces: [piece][line] */
  char *places;           /* [place] of column_sums: of the steps of a group, or of a piece */
} cumsum_job;

/* Of a group's columns, before a step (cumsum_loops.h). */
typedef struct column_sums {
  uint64_t before[CUMSUM_COLUMNS], own[CUMSUM_COLUMNS];
} column_sums;

/* A group of lines that lie side by side. */
typedef struct line_group {
  int64_t line, n, at; /* line: the first; at: its first element */
} line_group;

static line_group group_at(const cumsum_job *job, int64_t i) {
  int64_t block = i / job->n_group, column = i % job->n_group * job->width, left = job->inner - column;
  return (line_group){block * job->inner + column, left < job->width ? left : job->width,
                      block * job->extent * job->inner + column};
}

/* Adds up to n rows of a group from a row on, which are of one piece. `only`: without what comes before the piece.
 * Returns the row after them. */
static int64_t sum_rows(const cumsum_job *job, const line_group *g, int64_t row, int64_t n, bool only, bool write,
                        void *before, void *own) {
  const cumsum_state *s = job->s;
  const int64_t first = row % PIECE, left = job->extent - row, size = (int64_t)reed_dtype_bytes(s->in.dtype),
                at = (g->at + (s->reverse ? left - 1 : row) * job->inner) * size;
  if (n > left) n = left;
  s->loops->add(&(cumsum_part){.in = job->in + at,
                               .out = write ? job->out + at : NULL,
                               .before = before,
                               .own = own,
                               .first = only || row < PIECE,
                               .begins = first == 0,
                               .ends = n == left || first + n == PIECE,
                               .exclusive = s->exclusive,
                               .n = n,
                               .count = g->n,
                               .stride = s->reverse ? -job->inner : job->inner});
  return row + n;
}

static void cumsum_lines(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  column_sums sums;
  for (int64_t i = begin; i < end; i++) {
    line_group g = group_at(job, i);
    for (int64_t row = 0; row < job->extent && !cpu_cancelled(&job->s->team);)
      row = sum_rows(job, &g, row, job->step_rows, false, true, sums.before, sums.own);
  }
}

static column_sums *sums_of_place(const cumsum_job *job, int32_t place) {
  return (column_sums *)(void *)job->places + place;
}

/* A step of a group. */
static bool step_lines(void *context, int64_t item, int64_t step, int32_t place) {
  const cumsum_job *job = context;
  column_sums *sums = sums_of_place(job, place);
  line_group g = group_at(job, item);
  return sum_rows(job, &g, step * job->step_rows, job->step_rows, false, true, sums->before, sums->own) < job->extent;
}

/* A step of a piece of a group. */
static bool step_piece(void *context, int64_t item, int64_t step, int32_t place) {
  const cumsum_job *job = context;
  line_group g = group_at(job, item / job->n_pieces);
  const int64_t piece = item % job->n_pieces,
                row = sum_rows(job, &g, piece * PIECE + step * job->step_rows, job->step_rows, !job->write, job->write,
                               job->sums + (piece * job->lines + g.line) * job->s->loops->sum_bytes,
                               sums_of_place(job, place)->own);
  return row < job->extent && row % PIECE != 0;
}

static void cumsum_short_lines(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  const cumsum_state *s = job->s;
  const int64_t at = begin * job->extent * (int64_t)reed_dtype_bytes(s->in.dtype);
  s->loops->lines(job->out + at, job->in + at, end - begin, job->extent, s->reverse, s->exclusive);
}

/* Pieces of one step each. */
static void run_pieces(void *context, int64_t begin, int64_t end, int32_t worker) {
  for (int64_t i = begin; i < end; i++) step_piece(context, i, 0, worker);
}

static reed_status sum_pieces(cumsum_job *job, cpu_team team, int64_t groups, int64_t n_steps) {
  const int64_t n = groups * job->n_pieces;
  if (job->step_rows == PIECE) return cpu_parallel_scratch(team, n, 1, run_pieces, job);
  return cpu_relay(team, n, groups * n_steps, step_piece, job);
}

/* Bytes of lines of one element, which is its own sum, and 0 without itself. */
static void copy_lines(void *context, int64_t begin, int64_t end) {
  const cumsum_job *job = context;
  if (job->s->exclusive) memset(job->out + begin, 0, (size_t)(end - begin));
  else if (job->out != job->in) memcpy(job->out + begin, job->in + begin, (size_t)(end - begin));
}

static bool is_far(const cumsum_state *s) { return 2 * desc_bytes(&s->in) > NEAR_BYTES; }

/* Rows of a step of so many columns. Parts of rows that come from memory are read some rows of the same lines at a
 * time, whole rows one after the other. */
static int64_t step_rows_of(const cumsum_state *s, int64_t width, bool whole) {
  const bool halves = s->in.dtype == REED_F16 || s->in.dtype == REED_BF16;
  const int64_t most = is_far(s) ? STEP_FAR : STEP_NEAR, row = width > 1 ? width + (halves ? CONVERSION : 0) : 1;
  int64_t rows = PIECE;
  while (rows > (whole ? 2 * CUMSUM_GRAIN : CUMSUM_GRAIN) && rows * row > most) rows /= 2;
  return rows;
}

/* Columns of a group. X and Y in the caches: so few that many groups are shared out, unless they would be narrow. From
 * memory: whole rows, which are read in order, or wide parts of long ones. */
static int64_t group_width(const cumsum_state *s, int32_t threads, int64_t extent, int64_t inner, int64_t lines) {
  const int64_t elements = threads > 1 ? GROUP_ELEMENTS : GROUP_ALONE, pieces = extent / PIECE,
                groups = pieces > 1 ? divided(threads, pieces) : 2 * threads;
  if (is_far(s)) return inner <= CUMSUM_COLUMNS ? CUMSUM_COLUMNS : GROUP_FAR;
  if (elements / extent >= GROUP_WIDE) return smaller(elements / extent, CUMSUM_COLUMNS) & -GROUP_LEAST;
  return round_up(cpu_clamp(threads > 1 ? divided(lines, groups) : lines, 1, GROUP_FAR), GROUP_LEAST);
}

/* Bytes of the sums of all places. */
static int64_t places_bytes(const cumsum_state *s) {
  return s->team.threads > 1 ? s->team.threads * (int64_t)sizeof(column_sums) : 0;
}

static reed_status run_cumsum(const void *state, const reed_kernel_buffers *buffers) {
  const cumsum_state *s = state;
  int64_t axis = cpu_index_at(s->axis_dtype, buffers->inputs[1], 0);
  if (axis < -s->in.rank || axis >= s->in.rank)
    return reed_kernel_fault(buffers, REED_FAULT_AXIS, 1, 0, axis, s->in.rank);
  int32_t d = (int32_t)(axis < 0 ? axis + s->in.rank : axis);
  int64_t n = desc_elements(&s->in), extent = s->in.dims[d], lines = extent ? n / extent : 0;
  if (n == 0) return REED_OK;
  const cpu_team team = cpu_team_for(s->team, n * 8);
  const int64_t inner = cpu_product(s->in.dims, d + 1, s->in.rank),
                width = group_width(s, team.threads, extent, inner, lines);
  char *const places = buffers->workspace;
  cumsum_job job = {.s = s,
                    .in = buffers->inputs[0],
                    .out = buffers->outputs[0],
                    .extent = extent,
                    .inner = inner,
                    .lines = lines,
                    .n_pieces = divided(extent, PIECE),
                    .width = width,
                    .n_group = divided(inner, width),
                    .step_rows = step_rows_of(s, smaller(width, inner), width >= inner),
                    .places = places,
                    .sums = places + places_bytes(s)};
  const int64_t bytes = desc_bytes(&s->in);
  if (extent == 1) return cpu_parallel(cpu_team_for(s->team, 2 * bytes), bytes, 64, copy_lines, &job);
  if (inner == 1 && extent <= CUMSUM_SHORT && s->loops->lines)
    return cpu_parallel(team, lines, 16, cumsum_short_lines, &job);
  const int64_t groups = lines / inner * job.n_group, n_steps = divided(extent, job.step_rows);
  if (team.threads == 1 || (n_steps == 1 && groups > 1)) return cpu_parallel(team, groups, 1, cumsum_lines, &job);
  if (groups >= 2 * team.threads || job.n_pieces == 1)
    return cpu_relay(team, groups, groups * n_steps, step_lines, &job);
  reed_status status = sum_pieces(&job, team, groups, n_steps);
  if (status != REED_OK) return status;
  s->loops->chain(job.sums, job.n_pieces, lines);
  job.write = true;
  return sum_pieces(&job, team, groups, n_steps);
}

reed_status cpu_prepare_cumsum(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = cumsum_check(call);
  if (status != REED_OK) return status;
  cumsum_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->in = call->inputs[0];
  s->loops = CPU_PICK(cpu_level_now(), cumsum_loops_of)(s->in.dtype);
  s->axis_dtype = call->inputs[1].dtype;
  s->exclusive = op_attr_int(call->attrs, "exclusive") != 0;
  s->reverse = op_attr_int(call->attrs, "reverse") != 0;
  s->team = cpu_env_team(call);
  cpu_kernel_set(out_kernel, run_cumsum, s);
  /* of whichever axis: a line of more than a piece has at most 2 pieces for each PIECE elements */
  out_kernel->workspace_bytes = places_bytes(s) + desc_elements(&s->in) / PIECE * 2 * s->loops->sum_bytes;
  return REED_OK;
}

/* ---- ArgMax, ArgMin ---- */

/* Elements become the keys of topk_loops.h, and the least key is searched: of equal ones the first, or the last. NaN is
 * best, as in numpy. */
#define ARG_BLOCK 1024  /* keys that are made at a time */
#define ARG_SHORT 64    /* elements of a row that is searched together with its neighbours */
#define ARG_COLUMNS 256 /* columns that are searched together */
#define ARG_NARROW 16   /* so few columns are searched one by one */
#define ARG_GRAIN 32    /* of columns */
#define ARG_ROWS 2048   /* of a piece of long columns that threads share out */

typedef struct arg_state {
  topk_keys_fn keys;
  const topk_least *least_of;
  int64_t extent, inner, n_out, size, key_bytes, n_pieces;
  cpu_team team;
  bool least, last, real;
  bool by_columns; /* many lines side by side */
} arg_state;

typedef struct arg_job {
  const arg_state *s;
  const char *in;
  int64_t *out;
  /* the workspace, if lines have several pieces: [line][piece]; by columns [piece][line], with places as wide as keys
   */
  int64_t *places;
  char *best;
} arg_job;

/* A key of one width or the other. */
typedef union arg_keys {
  uint32_t narrow[ARG_BLOCK];
  uint64_t wide[ARG_BLOCK];
} arg_keys __attribute__((aligned(64)));

/* The keys of n elements, `step` apart, of which the least is best. */
static inline __attribute__((always_inline)) void make_arg_keys(const arg_state *s, void *keys, const char *in,
                                                                int64_t n, int64_t step) {
  s->keys(keys, in, n, step, !s->least);
  if (!s->real || !s->least) return;
  /* NaN has the greatest key, and no number the one before it */
  if (s->key_bytes == 8)
    for (int64_t i = 0; i < n; i++) ((uint64_t *)keys)[i]++;
  else
    for (int64_t i = 0; i < n; i++) ((uint32_t *)keys)[i]++;
}

#define ARG_LOOKED 16 /* keys that are compared at a time */

/* True if one of the keys from `place` on equals `key`. */
static __attribute__((noinline)) bool is_among(const arg_state *s, const arg_keys *keys, int64_t place, uint64_t key) {
  if (s->key_bytes == 8) {
    const uint64_t *wide = keys->wide + place;
    uint64_t equal = 0;
    for (int k = 0; k < ARG_LOOKED; k++) equal |= wide[k] == key;
    return equal != 0;
  }
  const uint32_t *narrow = keys->narrow + place, wanted = (uint32_t)key;
  uint32_t equal = 0;
#pragma omp simd reduction(| : equal)
  for (int k = 0; k < ARG_LOOKED; k++) equal |= narrow[k] == wanted ? 1 : 0;
  return equal != 0;
}

/* The place of the first or last of n keys that equals `key`; one does. */
static int64_t place_of(const arg_state *s, const arg_keys *keys, int64_t n, uint64_t key) {
  int64_t place = s->last ? n - 1 : 0;
  const int64_t step = s->last ? -1 : 1;
  if (s->last)
    while (place >= ARG_LOOKED - 1 && !is_among(s, keys, place - ARG_LOOKED + 1, key)) place -= ARG_LOOKED;
  else
    while (place + ARG_LOOKED <= n && !is_among(s, keys, place, key)) place += ARG_LOOKED;
  if (s->key_bytes == 8)
    while (keys->wide[place] != key) place += step;
  else
    while (keys->narrow[place] != key) place += step;
  return place;
}

/* Index along the axis of the best of n elements `stride` apart. */
static int64_t best_of_line(const arg_state *s, const char *in, int64_t n, int64_t stride) {
  arg_keys keys;
  uint64_t best = 0;
  int64_t place = -1;
  for (int64_t begin = 0; begin < n; begin += ARG_BLOCK) {
    const int64_t count = n - begin < ARG_BLOCK ? n - begin : ARG_BLOCK;
    make_arg_keys(s, &keys, in + begin * stride * s->size, count, stride);
    const uint64_t least = s->least_of->of(&keys, count);
    if (place >= 0 && (s->last ? least > best : least >= best)) continue;
    best = least;
    place = begin + place_of(s, &keys, count, least);
  }
  return place;
}

/* The index along line i of the best of elements first..first+n-1. */
static int64_t best_of(const arg_job *job, int64_t i, int64_t first, int64_t n) {
  const arg_state *s = job->s;
  int64_t at = (i / s->inner * s->extent + first) * s->inner + i % s->inner;
  return first + best_of_line(s, job->in + at * s->size, n, s->inner);
}

static void arg_lines(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  for (int64_t i = begin; i < end; i++) job->out[i] = best_of(job, i, 0, job->s->extent);
}

/* Writes n places, which are as wide as keys. */
static void write_places(const arg_state *s, int64_t *out, const uint64_t *places, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    out[i] = s->key_bytes == 8 ? (int64_t)places[i] : (int64_t)((const uint32_t *)places)[i];
}

/* Short rows, whose keys are made many at a time: element by element of all of them. */
static void arg_short_rows(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  const int64_t most = ARG_BLOCK / s->extent < ARG_COLUMNS ? ARG_BLOCK / s->extent : ARG_COLUMNS;
  arg_keys keys;
  uint64_t best[ARG_COLUMNS], places[ARG_COLUMNS];
  for (int64_t i = begin, rows; i < end; i += rows) {
    rows = end - i < most ? end - i : most;
    make_arg_keys(s, &keys, job->in + i * s->extent * s->size, rows * s->extent, 1);
    memset(best, 0xff, (size_t)(rows * s->key_bytes)); /* no key is greater */
    memset(places, 0, (size_t)(rows * s->key_bytes));
    for (int64_t k = 0; k < s->extent; k++)
      s->least_of->take(best, places, (const char *)&keys + k * s->key_bytes, rows, s->extent, (uint32_t)k, s->last);
    write_places(s, job->out + i, places, rows);
  }
}

/* The best keys and their places of n lines side by side, in rows first..after-1; in: the first line's first row. */
static inline __attribute__((always_inline)) void take_rows(const arg_state *s, const char *in, int64_t n,
                                                            int64_t first, int64_t after, void *best, void *places) {
  uint64_t keys[ARG_COLUMNS];
  const int64_t row_bytes = s->inner * s->size;
  make_arg_keys(s, best, in + first * row_bytes, n, 1);
  for (int64_t i = 0; i < n; i++)
    if (s->key_bytes == 8) ((uint64_t *)places)[i] = (uint64_t)first;
    else ((uint32_t *)places)[i] = (uint32_t)first;
  for (int64_t row = first + 1; row < after && ((row & 1023) || !cpu_cancelled(&s->team)); row++) {
    make_arg_keys(s, keys, in + row * row_bytes, n, 1);
    s->least_of->take(best, places, keys, n, 1, (uint32_t)row, s->last);
  }
}

/* Many lines side by side. */
static void arg_columns(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  uint64_t best[ARG_COLUMNS], places[ARG_COLUMNS];
  for (int64_t i = begin, n; i < end && !cpu_cancelled(&s->team); i += n) {
    const int64_t column = i % s->inner;
    n = s->inner - column < end - i ? s->inner - column : end - i;
    if (n > ARG_COLUMNS) n = ARG_COLUMNS;
    take_rows(s, job->in + (i / s->inner * s->extent * s->inner + column) * s->size, n, 0, s->extent, best, places);
    write_places(s, job->out + i, places, n);
  }
}

/* Long lines side by side: pieces of ARG_GRAIN of them, to places and keys [piece][line], both as wide as keys. */
static void arg_column_pieces(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  const int64_t blocks = (s->inner + ARG_GRAIN - 1) / ARG_GRAIN;
  for (int64_t p = begin; p < end && !cpu_cancelled(&s->team); p++) {
    const int64_t block = p / s->n_pieces, piece = p % s->n_pieces, column = block % blocks * ARG_GRAIN,
                  n = s->inner - column < ARG_GRAIN ? s->inner - column : ARG_GRAIN, first = piece * ARG_ROWS,
                  after = s->extent - first < ARG_ROWS ? s->extent : first + ARG_ROWS, outer = block / blocks,
                  at = piece * s->n_out + outer * s->inner + column;
    uint64_t best[ARG_GRAIN], places[ARG_GRAIN];
    take_rows(s, job->in + (outer * s->extent * s->inner + column) * s->size, n, first, after, best, places);
    memcpy(job->best + at * s->key_bytes, best, (size_t)(n * s->key_bytes));
    memcpy((char *)job->places + at * s->key_bytes, places, (size_t)(n * s->key_bytes));
  }
}

/* A key or a place, which is as wide. */
static uint64_t number_at(const arg_state *s, const void *numbers, int64_t i) {
  return s->key_bytes == 8 ? ((const uint64_t *)numbers)[i] : ((const uint32_t *)numbers)[i];
}

/* The best of the pieces' best, of lines begin..end-1. */
static void join_columns(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  for (int64_t i = begin; i < end; i++) {
    uint64_t best = 0;
    for (int64_t piece = 0; piece < s->n_pieces; piece++) {
      const int64_t at = piece * s->n_out + i;
      const uint64_t key = number_at(s, job->best, at);
      if (piece > 0 && key >= best && !(s->last && key == best)) continue;
      best = key;
      job->out[i] = (int64_t)number_at(s, job->places, at);
    }
  }
}

static void arg_pieces(void *context, int64_t begin, int64_t end) {
  const arg_job *job = context;
  const arg_state *s = job->s;
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p / s->n_pieces, first = p % s->n_pieces * PIECE,
            n = s->extent - first < PIECE ? s->extent - first : PIECE, best = best_of(job, i, first, n);
    job->places[p] = best;
    memcpy(job->best + p * s->size, job->in + ((i / s->inner * s->extent + best) * s->inner + i % s->inner) * s->size,
           (size_t)s->size);
  }
}

static reed_status run_arg_reduce(const void *state, const reed_kernel_buffers *buffers) {
  const arg_state *s = state;
  arg_job job = {s, buffers->inputs[0], buffers->outputs[0], buffers->workspace, NULL};
  if (s->n_pieces == 1) {
    if (s->by_columns) return cpu_parallel(s->team, s->n_out, ARG_GRAIN, arg_columns, &job);
    const bool is_short = s->inner == 1 && s->extent <= ARG_SHORT;
    return cpu_parallel(s->team, s->n_out, 1, is_short ? arg_short_rows : arg_lines, &job);
  }
  job.best = (char *)(job.places + s->n_out * s->n_pieces);
  if (s->by_columns) {
    const int64_t blocks = s->n_out / s->inner * ((s->inner + ARG_GRAIN - 1) / ARG_GRAIN);
    const reed_status done = cpu_parallel(s->team, blocks * s->n_pieces, 1, arg_column_pieces, &job);
    if (done != REED_OK) return done;
    return cpu_parallel(cpu_team_for(s->team, s->n_out * s->n_pieces * 16), s->n_out, 1, join_columns, &job);
  }
  reed_status status = cpu_parallel(s->team, s->n_out * s->n_pieces, 1, arg_pieces, &job);
  for (int64_t i = 0; i < s->n_out && status == REED_OK; i++) /* the best of the pieces' best */
    job.out[i] = job.places[i * s->n_pieces + best_of_line(s, job.best + i * s->n_pieces * s->size, s->n_pieces, 1)];
  return status;
}

reed_status cpu_prepare_arg_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), in->rank);
  int64_t n_out = desc_elements(&call->outputs[0]);
  arg_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  const cpu_level level = cpu_level_now();
  s->size = (int64_t)reed_dtype_bytes(in->dtype);
  s->key_bytes = s->size == 8 ? 8 : 4;
  s->keys = CPU_PICK(level, topk_keys_of)(in->dtype);
  s->least_of = CPU_PICK(level, topk_least_of)(s->key_bytes);
  s->real = dtype_is_real(in->dtype);
  s->extent = in->dims[axis];
  s->inner = cpu_product(in->dims, axis + 1, in->rank);
  s->n_out = n_out;
  s->least = op_id_of(call->op) == OP_ArgMin;
  s->last = op_attr_int(call->attrs, "select_last_index") != 0;
  s->team = cpu_team_for(cpu_env_team(call), desc_elements(in) * 8);
  s->by_columns = s->inner >= ARG_NARROW && s->extent <= UINT32_MAX;
  const int64_t piece = s->by_columns ? ARG_ROWS : PIECE;
  s->n_pieces = s->extent > piece && s->team.threads > 1 ? (s->extent + piece - 1) / piece : 1;
  cpu_kernel_set(out_kernel, run_arg_reduce, s);
  if (s->n_pieces > 1)
    out_kernel->workspace_bytes = n_out * s->n_pieces * (8 + (s->by_columns ? s->key_bytes : s->size));
  return REED_OK;
}
