/* FusedColumns: a program of element-wise operators from columns of matrices to columns of one (ops/fused.h), over
 * blocks of rows. A block's columns are copied side by side into the thread's scratch, every step runs over the block,
 * and the results are written column by column into the rows of the output.
 *
 * The reference: reference/fused.c. */
#include "ops/cpu/elementwise/fused_steps.h"

#include "ops/cpu/common/strided.h"

#define SCRATCH_BYTES 32768 /* of a thread's stack: first-level caches have this size or more */
#define SLOT_ALIGNMENT 64

typedef struct column {
  bool one;                       /* the same element for all rows */
  convert_fn load;                /* to f32; NULL: as it is */
  int64_t size;                   /* bytes of an element in memory */
  int64_t at;                     /* bytes from the tensor's first element */
  int64_t strides[REED_MAX_RANK]; /* along the rows' axes, in bytes */
} column;

typedef struct columns_state {
  int32_t n_inputs, n_steps, n_results, rank;
  cpu_team team;
  int64_t n, block, slot_bytes; /* rows; rows of a block; bytes of a value of a block */
  int64_t out_size;
  int64_t extents[REED_MAX_RANK];
  convert_fn store; /* from f32; NULL: as it is */
  int32_t results[FUSED_RESULTS];
  column *columns; /* n_inputs, and n_steps steps: in the state's own block */
  fused_run_step *steps;
} columns_state;

typedef struct columns_job {
  const columns_state *s;
  const reed_kernel_buffers *buffers;
  int fault;
} columns_job;

#define COPY_APART(T) \
  for (int64_t i = 0; i < n; i++) *(T *)(to + i * to_step) = *(const T *)(from + i * from_step);
/* Copies n elements that lie from_step bytes apart to places to_step bytes apart. */
static void copy_apart(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t size, int64_t n) {
  switch (size) {
    case 1: COPY_APART(uint8_t) break;
    case 2: COPY_APART(uint16_t) break;
    case 4: COPY_APART(uint32_t) break;
    default: COPY_APART(uint64_t) break;
  }
}
#undef COPY_APART

/* Copies the column's elements of rows at .. at + m side by side. */
static void read_column(const columns_state *s, const column *c, const char *from, int64_t at, int64_t m, char *to) {
  int64_t coordinates[REED_MAX_RANK], inner = s->rank - 1;
  from += c->at;
  for (int32_t d = s->rank - 1; d >= 0; d--) {
    coordinates[d] = at % s->extents[d];
    at /= s->extents[d];
    from += coordinates[d] * c->strides[d];
  }
  for (int64_t n; m > 0; m -= n, to += n * c->size) {
    n = s->extents[inner] - coordinates[inner] < m ? s->extents[inner] - coordinates[inner] : m;
    copy_apart(to, c->size, from, c->strides[inner], c->size, n);
    from -= coordinates[inner] * c->strides[inner];
    coordinates[inner] = 0;
    for (int64_t d = inner - 1; d >= 0; d--) {
      from += c->strides[d];
      if (++coordinates[d] < s->extents[d]) break;
      from -= s->extents[d] * c->strides[d];
      coordinates[d] = 0;
    }
  }
}

/* The input's values of rows at .. at + m, as the steps read them. */
static void load_column(const columns_state *s, const column *c, const char *from, int64_t at, int64_t m, char *slot) {
  _Alignas(SLOT_ALIGNMENT) uint16_t halves[FUSED_BLOCK_MOST];
  const int64_t n = c->one ? 1 : m;
  read_column(s, c, from, at, n, c->load ? (char *)halves : slot);
  if (c->load) c->load(slot, halves, n);
}

static void columns_range(void *context, int64_t begin, int64_t end) {
  columns_job *job = context;
  const columns_state *s = job->s;
  _Alignas(SLOT_ALIGNMENT) char scratch[SCRATCH_BYTES];
  _Alignas(SLOT_ALIGNMENT) uint16_t halves[FUSED_BLOCK_MOST];
  const void *values[FUSED_VALUES];
  uint8_t steps[FUSED_VALUES];
  const int32_t n_values = s->n_inputs + s->n_steps;
  char *out = job->buffers->outputs[0];
  int fault = 0;
  for (int32_t k = 0; k < n_values; k++) {
    values[k] = scratch + k * s->slot_bytes;
    steps[k] = k >= s->n_inputs || !s->columns[k].one;
  }
  for (int64_t at = begin, m; at < end; at += m) {
    m = end - at < s->block ? end - at : s->block;
    for (int32_t k = 0; k < s->n_inputs; k++)
      if (at == begin || steps[k])
        load_column(s, &s->columns[k], job->buffers->inputs[k], at, m, scratch + k * s->slot_bytes);
    for (int32_t j = 0; j < s->n_steps; j++)
      fault |= fused_step_run(&s->steps[j], values, steps, scratch + (s->n_inputs + j) * s->slot_bytes, m);
    for (int32_t j = 0; j < s->n_results; j++) {
      const int32_t k = s->results[j];
      const char *from = values[k];
      int64_t step = steps[k] * s->out_size;
      if (s->store) s->store(halves, from, steps[k] ? m : 1), from = (const char *)halves;
      copy_apart(out + (at * s->n_results + j) * s->out_size, s->n_results * s->out_size, from, step, s->out_size, m);
    }
  }
  if (fault) __atomic_store_n(&job->fault, 1, __ATOMIC_RELAXED);
}

static reed_status run_columns(const void *state, const reed_kernel_buffers *buffers) {
  const columns_state *s = state;
  columns_job job = {s, buffers, 0};
  reed_status status = cpu_parallel(s->team, s->n, 64, columns_range, &job);
  if (status != REED_OK) return status;
  return job.fault ? reed_kernel_fault(buffers, REED_FAULT_DIVISION, -1, -1, 0, 0) : REED_OK;
}

/* The rows' axes, without those of extent 1; neighbours that every input walks as one axis are joined. */
static void join_rows(columns_state *s, fused_rows *r) {
  for (int32_t d = 0; d < r->rows.rank; d++) {
    if (r->rows.dims[d] == 1) continue;
    bool joins = s->rank > 0;
    for (int32_t k = 0; k < s->n_inputs && joins; k++)
      joins = r->strides[k][s->rank - 1] == r->strides[k][d] * r->rows.dims[d];
    const int32_t to = joins ? s->rank - 1 : s->rank;
    s->extents[to] = joins ? s->extents[to] * r->rows.dims[d] : r->rows.dims[d];
    for (int32_t k = 0; k < s->n_inputs; k++) r->strides[k][to] = r->strides[k][d];
    s->rank = to + 1;
  }
  if (s->rank > 0) return;
  s->rank = 1;
  s->extents[0] = 1;
  for (int32_t k = 0; k < s->n_inputs; k++) r->strides[k][0] = 0;
}

static reed_status read_call(columns_state *s, const reed_kernel_call *call, const fused_typed *p, fused_rows *r) {
  int64_t cost = s->out_size * s->n_results, widest = 1;
  join_rows(s, r);
  for (int32_t k = 0; k < s->n_inputs; k++) {
    const reed_dtype dtype = call->inputs[k].dtype, held = fused_held(dtype);
    column *c = &s->columns[k];
    c->size = (int64_t)reed_dtype_bytes(dtype);
    if ((int64_t)reed_dtype_bytes(held) > widest) widest = (int64_t)reed_dtype_bytes(held);
    c->at = r->columns.columns[k] * c->size;
    c->load = held == dtype ? NULL : convert_between(cpu_level_now(), dtype, held);
    c->one = true;
    for (int32_t d = 0; d < s->rank; d++) {
      c->strides[d] = r->strides[k][d] * c->size;
      c->one = c->one && c->strides[d] == 0;
    }
    cost += c->size;
  }
  for (int32_t j = 0; j < s->n_steps; j++) {
    const reed_status status = fused_step_of(call, p, j, &s->steps[j]);
    if (status != REED_OK) return status;
    if (s->steps[j].size > widest) widest = s->steps[j].size;
    cost += 4 * elementwise_cost(p->dtypes[p->n_inputs + j], p->steps[j].formula);
  }
  const int64_t n_values = s->n_inputs + s->n_steps;
  s->block = SCRATCH_BYTES / (n_values * widest) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
  if (s->block > FUSED_BLOCK_MOST) s->block = FUSED_BLOCK_MOST;
  s->slot_bytes = s->block * widest;
  s->team = cpu_team_for(cpu_env_team(call), s->n * cost);
  return REED_OK;
}

reed_status cpu_prepare_fused_columns(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_typed program;
  fused_rows rows;
  reed_status status = fused_type_columns(call, &program, &rows);
  if (status != REED_OK) return status;
  const size_t column_bytes = (size_t)program.n_inputs * sizeof(column),
               bytes = sizeof(columns_state) + column_bytes + (size_t)program.n_steps * sizeof(fused_run_step);
  columns_state *s = mem_calloc(1, bytes);
  if (!s) return cpu_no_memory(call);
  const reed_dtype dtype = call->outputs[0].dtype;
  s->columns = (column *)(s + 1);
  s->steps = (fused_run_step *)((char *)s->columns + column_bytes);
  s->n_inputs = program.n_inputs;
  s->n_steps = program.n_steps;
  s->n_results = rows.columns.n_results;
  memcpy(s->results, rows.columns.results, sizeof s->results);
  s->n = desc_elements(&rows.rows);
  s->out_size = (int64_t)reed_dtype_bytes(dtype);
  if (fused_held(dtype) != dtype) s->store = convert_between(cpu_level_now(), fused_held(dtype), dtype);
  status = read_call(s, call, &program, &rows);
  if (status != REED_OK) {
    mem_free(s);
    return status;
  }
  cpu_kernel_set(out_kernel, run_columns, s);
  out_kernel->state_bytes = (int64_t)bytes;
  return REED_OK;
}
