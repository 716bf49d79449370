/* Fused: a program of element-wise operators over blocks of the output; a block and all intermediate results stay in
 * the first-level cache. A step runs the same loop (formulas.h) as its operator alone, so f32 results are the same to
 * the bit; f16 and bf16 are computed in f32 and rounded when they are stored or cast.
 *
 * Output and inputs are seen with joined dims. An input with the output's layout, or of one element, is read in place.
 * Other inputs are read in place as long as a block stays within one row; if rows are short, blocks span them, and such
 * inputs are first copied into the block.
 *
 * The reference: reference/fused.c. */
#include "ops/cpu/elementwise/fused_steps.h"

#define SCRATCH_BYTES 32768 /* of a thread's stack: first-level caches have this size or more */
#define BLOCK_LEAST 64
#define ROW_LEAST 256 /* a row of this many elements or more gets blocks of its own */

/* ---- the state ---- */

typedef enum leaf_kind {
  LEAF_DENSE, /* has the output's layout */
  LEAF_ONE,   /* one element for all */
  LEAF_ROWS   /* repeats along some dims */
} leaf_kind;

typedef struct leaf {
  leaf_kind kind;
  bool spread;                    /* blocks span several of its rows, so it is copied into its slot */
  uint8_t step;                   /* step of the loops over it: 1, or 0 for one element */
  convert_fn load;                /* to f32; NULL: as it is */
  int64_t size, held_size;        /* bytes of an element in memory, in a slot */
  int64_t strides[REED_MAX_RANK]; /* in bytes */
  int32_t slot;                   /* -1: none */
} leaf;

typedef struct fused_state {
  int32_t n_inputs, n_steps, n_slots, rank;
  cpu_team team;
  bool by_row; /* no block spans two rows */
  int64_t n, block, slot_bytes, out_size;
  int64_t extents[REED_MAX_RANK];
  convert_fn store; /* from f32; NULL: as it is */
  leaf *leaves;     /* n_inputs, and n_steps steps: in the state's own block */
  fused_run_step *steps;
} fused_state;

/* ---- running ---- */

typedef struct fused_job {
  const fused_state *s;
  const reed_kernel_buffers *buffers;
  int fault;
} fused_job;

/* Byte offset of output element `at` in the leaf, and its coordinates. */
static int64_t locate(const fused_state *s, const leaf *l, int64_t at, int64_t *coordinates) {
  int64_t offset = 0;
  for (int32_t d = s->rank - 1; d >= 0; d--) {
    coordinates[d] = at % s->extents[d];
    at /= s->extents[d];
    offset += coordinates[d] * l->strides[d];
  }
  return offset;
}

/* Copies the leaf's elements for output elements at .. at + m, row by row. */
static void spread(const fused_state *s, const leaf *l, const char *from, int64_t at, int64_t m, char *to) {
  int64_t coordinates[REED_MAX_RANK], inner = s->rank - 1;
  from += locate(s, l, at, coordinates);
  while (m > 0) {
    int64_t left = s->extents[inner] - coordinates[inner], n = left < m ? left : m;
    bool one = l->strides[inner] == 0;
    if (l->load) l->load(to, from, one ? 1 : n);
    else memcpy(to, from, (size_t)((one ? 1 : n) * l->size));
    if (one) fused_repeat(to, l->held_size, n);
    to += n * l->held_size;
    m -= n;
    from -= coordinates[inner] * l->strides[inner];
    coordinates[inner] = 0;
    for (int64_t d = inner - 1; d >= 0; d--) {
      from += l->strides[d];
      if (++coordinates[d] < s->extents[d]) break;
      from -= s->extents[d] * l->strides[d];
      coordinates[d] = 0;
    }
  }
}

static const char *leaf_block(const fused_state *s, const leaf *l, const char *from, int64_t at, int64_t m,
                              char *scratch) {
  int64_t coordinates[REED_MAX_RANK];
  char *slot = scratch + l->slot * s->slot_bytes;
  if (l->spread) return spread(s, l, from, at, m, slot), slot;
  if (l->kind == LEAF_DENSE) from += at * l->size;
  if (l->kind == LEAF_ROWS) from += locate(s, l, at, coordinates);
  if (!l->load) return from;
  l->load(slot, from, l->step ? m : 1);
  return slot;
}

static void fused_range(void *context, int64_t begin, int64_t end) {
  fused_job *job = context;
  const fused_state *s = job->s;
  _Alignas(64) char scratch[SCRATCH_BYTES];
  const void *values[FUSED_VALUES];
  uint8_t steps[FUSED_VALUES];
  char *out = job->buffers->outputs[0];
  int64_t row = s->extents[s->rank - 1], m;
  int fault = 0;
  for (int32_t k = 0; k < s->n_inputs; k++) steps[k] = s->leaves[k].step;
  memset(steps + s->n_inputs, 1, (size_t)s->n_steps);
  for (int64_t at = begin; at < end; at += m) {
    m = end - at < s->block ? end - at : s->block;
    if (s->by_row && row - at % row < m) m = row - at % row;
    for (int32_t k = 0; k < s->n_inputs; k++)
      values[k] = leaf_block(s, &s->leaves[k], job->buffers->inputs[k], at, m, scratch);
    for (int32_t j = 0; j < s->n_steps; j++) {
      const fused_run_step *r = &s->steps[j];
      char *to = r->slot < 0 ? out + at * s->out_size : scratch + r->slot * s->slot_bytes;
      fault |= fused_step_run(r, values, steps, to, m);
      values[s->n_inputs + j] = to;
    }
    if (s->store) s->store(out + at * s->out_size, values[s->n_inputs + s->n_steps - 1], m);
  }
  if (fault) __atomic_store_n(&job->fault, 1, __ATOMIC_RELAXED);
}

static reed_status run_fused(const void *state, const reed_kernel_buffers *buffers) {
  const fused_state *s = state;
  fused_job job = {s, buffers, 0};
  reed_status status = cpu_parallel(s->team, s->n, 64, fused_range, &job);
  if (status != REED_OK) return status;
  return job.fault ? reed_kernel_fault(buffers, REED_FAULT_DIVISION, -1, -1, 0, 0) : REED_OK;
}

/* ---- preparing ---- */

/* Joins the output's dims: dims of extent 1 are dropped, neighbours that every input walks as one dim are joined.
 * Strides are in elements on entry, in bytes afterwards. */
static void join_dims(fused_state *s, const reed_desc *out) {
  for (int32_t d = 0; d < out->rank; d++) {
    if (out->dims[d] == 1) continue;
    bool joins = s->rank > 0;
    for (int32_t k = 0; k < s->n_inputs && joins; k++)
      joins = s->leaves[k].strides[s->rank - 1] == s->leaves[k].strides[d] * out->dims[d];
    int32_t to = joins ? s->rank - 1 : s->rank;
    s->extents[to] = joins ? s->extents[to] * out->dims[d] : out->dims[d];
    for (int32_t k = 0; k < s->n_inputs; k++) s->leaves[k].strides[to] = s->leaves[k].strides[d];
    s->rank = to + 1;
  }
  if (s->rank == 0) {
    s->rank = 1;
    s->extents[0] = 1;
    for (int32_t k = 0; k < s->n_inputs; k++) s->leaves[k].strides[0] = 0;
  }
}

static void classify(fused_state *s, leaf *l) {
  int64_t dense[REED_MAX_RANK];
  cpu_dense_strides(s->rank, s->extents, dense);
  bool is_dense = true, is_one = true;
  for (int32_t d = 0; d < s->rank; d++) {
    is_dense &= l->strides[d] == dense[d];
    is_one &= l->strides[d] == 0;
    l->strides[d] *= l->size;
  }
  l->kind = is_one ? LEAF_ONE : is_dense ? LEAF_DENSE : LEAF_ROWS;
  l->spread = l->kind == LEAF_ROWS && !s->by_row;
  l->step = l->spread || l->strides[s->rank - 1] != 0;
}

static bool read_leaves(fused_state *s, const reed_kernel_call *call) {
  for (int32_t k = 0; k < s->n_inputs; k++) {
    leaf *l = &s->leaves[k];
    reed_dtype dtype = call->inputs[k].dtype, held = fused_held(dtype);
    l->size = (int64_t)reed_dtype_bytes(dtype);
    l->held_size = (int64_t)reed_dtype_bytes(held);
    l->load = held == dtype ? NULL : convert_between(cpu_level_now(), dtype, held);
    if (!cpu_broadcast_strides(&call->inputs[k], &call->outputs[0], l->strides)) return false;
  }
  join_dims(s, &call->outputs[0]);
  s->by_row = s->rank == 1 || s->extents[s->rank - 1] >= ROW_LEAST;
  for (int32_t k = 0; k < s->n_inputs; k++) classify(s, &s->leaves[k]);
  return true;
}

static reed_status read_steps(fused_state *s, const reed_kernel_call *call, const fused_typed *p) {
  int64_t cost = s->out_size;
  for (int32_t j = 0; j < s->n_steps; j++) {
    const reed_status status = fused_step_of(call, p, j, &s->steps[j]);
    if (status != REED_OK) return status;
    cost += 4 * elementwise_cost(p->dtypes[p->n_inputs + j], p->steps[j].formula);
  }
  s->team = cpu_team_for(cpu_env_team(call), s->n * cost);
  return REED_OK;
}

/* Gives values slots in scratch. A value takes over the slot of a value that no later step reads. */
static void assign_slots(fused_state *s) {
  int32_t last_use[FUSED_VALUES] = {0}, free_slots[FUSED_VALUES], n_free = 0;
  int64_t widest = 1;
  for (int32_t k = 0; k < s->n_inputs; k++) {
    leaf *l = &s->leaves[k];
    l->slot = l->spread || l->load ? s->n_slots++ : 0;
    if (l->held_size > widest) widest = l->held_size;
  }
  for (int32_t j = 0; j < s->n_steps; j++)
    for (int32_t k = 0; k < s->steps[j].n_operands; k++) last_use[s->steps[j].operands[k]] = j;
  for (int32_t j = 0; j < s->n_steps; j++) {
    fused_run_step *r = &s->steps[j];
    bool to_output = j == s->n_steps - 1 && !s->store;
    r->slot = to_output ? -1 : n_free ? free_slots[--n_free] : s->n_slots++;
    if (r->size > widest) widest = r->size;
    for (int32_t i = 0; i < j; i++) /* results without a user keep their slot */
      if (last_use[s->n_inputs + i] == j) free_slots[n_free++] = s->steps[i].slot;
  }
  int64_t slots = s->n_slots ? s->n_slots : 1;
  s->block = SCRATCH_BYTES / (slots * widest) / BLOCK_LEAST * BLOCK_LEAST;
  if (s->block > FUSED_BLOCK_MOST) s->block = FUSED_BLOCK_MOST;
  s->slot_bytes = s->block * widest;
}

reed_status cpu_prepare_fused(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_typed program;
  reed_status status = fused_type(call, &program);
  if (status != REED_OK) return status;
  size_t leaf_bytes = (size_t)program.n_inputs * sizeof(leaf),
         bytes = sizeof(fused_state) + leaf_bytes + (size_t)program.n_steps * sizeof(fused_run_step);
  fused_state *s = mem_calloc(1, bytes);
  if (!s) return cpu_no_memory(call);
  s->leaves = (leaf *)(s + 1);
  s->steps = (fused_run_step *)((char *)s->leaves + leaf_bytes);
  const reed_desc *out = &call->outputs[0];
  s->n_inputs = program.n_inputs;
  s->n_steps = program.n_steps;
  s->n = desc_elements(out);
  s->out_size = (int64_t)reed_dtype_bytes(out->dtype);
  if (fused_held(out->dtype) != out->dtype)
    s->store = convert_between(cpu_level_now(), fused_held(out->dtype), out->dtype);
  if (read_leaves(s, call)) status = read_steps(s, call, &program);
  else status = reed_kernel_fail(call, REED_ERROR_SHAPE, "the inputs do not broadcast to the output");
  if (status != REED_OK) {
    mem_free(s);
    return status;
  }
  assign_slots(s);
  cpu_kernel_set(out_kernel, run_fused, s);
  out_kernel->state_bytes = (int64_t)bytes;
  return REED_OK;
}
