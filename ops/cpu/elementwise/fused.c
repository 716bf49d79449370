/* Fused: a program of element-wise operators over blocks of the output; a block and all intermediate results stay in
 * the first-level cache. A step runs the same loop (formulas.h) as its operator alone, so f32 results are the same to
 * the bit; f16 and bf16 are computed in f32 and rounded when they are stored or cast.
 *
 * Output and inputs are seen with joined dims. An input with the output's layout, or of one element, is read in place.
 * Other inputs are read in place as long as a block stays within one row; if rows are short, blocks span them, and such
 * inputs are first copied into the block.
 *
 * The reference: reference/fused.c. */
#include "ops/cpu/calls/fused.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/formulas/formulas.h"

#define SCRATCH_BYTES 32768 /* of a thread's stack: first-level caches have this size or more */
#define BLOCK_MOST 1024
#define BLOCK_LEAST 64
#define ROW_LEAST 256 /* a row of this many elements or more gets blocks of its own */

static reed_dtype held_dtype(reed_dtype dtype) { return dtype == REED_F16 || dtype == REED_BF16 ? REED_F32 : dtype; }

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

typedef struct run_step {
  elementwise_fn fn;      /* NULL: Cast */
  convert_fn cast, widen; /* widen: back from f16 or bf16 to f32; NULL: no need */
  int32_t n_operands, operands[FUSED_OPERANDS];
  elementwise_parameters parameters;
  int64_t size; /* bytes of an element of the result */
  int32_t slot; /* -1: the output itself */
} run_step;

typedef struct fused_state {
  int32_t n_inputs, n_steps, n_slots, rank;
  cpu_team team;
  bool by_row; /* no block spans two rows */
  int64_t n, block, slot_bytes, out_size;
  int64_t extents[REED_MAX_RANK];
  convert_fn store; /* from f32; NULL: as it is */
  leaf *leaves;     /* n_inputs, and n_steps steps: in the state's own block */
  run_step *steps;
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

/* Repeats the element at `to` n times. */
static void repeat(char *to, int64_t size, int64_t n) {
  uint64_t element = 0;
  memcpy(&element, to, (size_t)size);
  strided_fill(to, &element, size, n);
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
    if (one) repeat(to, l->held_size, n);
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

static int step_block(const run_step *r, const void *const *values, const uint8_t *steps, void *to, int64_t m) {
  const void *operands[FUSED_OPERANDS];
  uint8_t own[FUSED_OPERANDS], any = 0;
  for (int32_t k = 0; k < r->n_operands; k++) {
    operands[k] = values[r->operands[k]];
    any |= own[k] = steps[r->operands[k]];
  }
  int64_t n = any ? m : 1;
  int fault = 0;
  if (r->fn) {
    fault = r->fn(to, operands, own, n, &r->parameters);
  } else if (r->widen) {
    uint16_t narrow[BLOCK_MOST];
    r->cast(narrow, operands[0], n);
    r->widen(to, narrow, n);
  } else {
    r->cast(to, operands[0], n);
  }
  if (n < m) repeat(to, r->size, m);
  return fault;
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
      const run_step *r = &s->steps[j];
      char *to = r->slot < 0 ? out + at * s->out_size : scratch + r->slot * s->slot_bytes;
      fault |= step_block(r, values, steps, to, m);
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
    reed_dtype dtype = call->inputs[k].dtype, held = held_dtype(dtype);
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
    const fused_typed_step *step = &p->steps[j];
    run_step *r = &s->steps[j];
    reed_dtype result = p->dtypes[s->n_inputs + j], held = held_dtype(result);
    reed_dtype operand = held_dtype(p->dtypes[step->operands[step->formula == OP_Where]]);
    *r = (run_step){
        .n_operands = step->n_operands, .parameters = step->parameters, .size = (int64_t)reed_dtype_bytes(held)};
    memcpy(r->operands, step->operands, sizeof r->operands);
    cost += 4 * elementwise_cost(step->formula);
    if (step->formula == OP_Cast) {
      r->cast = convert_between(cpu_level_now(), operand, result);
      if (held != result) r->widen = convert_between(cpu_level_now(), result, held);
      continue;
    }
    r->fn = elementwise_formula(cpu_level_now(), step->formula == OP_Where ? elementwise_carrier(operand) : operand,
                                step->formula);
    if (!r->fn)
      return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "step %d: there is no such formula for %s", j,
                              reed_dtype_name(operand));
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
    run_step *r = &s->steps[j];
    bool to_output = j == s->n_steps - 1 && !s->store;
    r->slot = to_output ? -1 : n_free ? free_slots[--n_free] : s->n_slots++;
    if (r->size > widest) widest = r->size;
    for (int32_t i = 0; i < j; i++) /* results without a user keep their slot */
      if (last_use[s->n_inputs + i] == j) free_slots[n_free++] = s->steps[i].slot;
  }
  int64_t slots = s->n_slots ? s->n_slots : 1;
  s->block = SCRATCH_BYTES / (slots * widest) / BLOCK_LEAST * BLOCK_LEAST;
  if (s->block > BLOCK_MOST) s->block = BLOCK_MOST;
  s->slot_bytes = s->block * widest;
}

reed_status cpu_prepare_fused(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_typed program;
  reed_status status = fused_type(call, &program);
  if (status != REED_OK) return status;
  size_t leaf_bytes = (size_t)program.n_inputs * sizeof(leaf),
         bytes = sizeof(fused_state) + leaf_bytes + (size_t)program.n_steps * sizeof(run_step);
  fused_state *s = mem_calloc(1, bytes);
  if (!s) return cpu_no_memory(call);
  s->leaves = (leaf *)(s + 1);
  s->steps = (run_step *)((char *)s->leaves + leaf_bytes);
  const reed_desc *out = &call->outputs[0];
  s->n_inputs = program.n_inputs;
  s->n_steps = program.n_steps;
  s->n = desc_elements(out);
  s->out_size = (int64_t)reed_dtype_bytes(out->dtype);
  if (held_dtype(out->dtype) != out->dtype)
    s->store = convert_between(cpu_level_now(), held_dtype(out->dtype), out->dtype);
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
