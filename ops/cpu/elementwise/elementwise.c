/* The element-wise operators: operands are broadcast, dims are joined until few are left, and the innermost dim is
 * given to a loop of formulas.h. Operands of another dtype than the formula's are converted block by block on the
 * stack.
 *
 * Output 0 may share memory with any input of its size, because an element is written only after the same element of
 * all inputs has been read.
 *
 * The reference: reference/elementwise.c. */
#include <math.h>

#include "base/dtype.h"
#include "ops/cpu/calls/elementwise.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/formulas/formulas.h"

#define ROW_WORK 64 /* of a row besides its elements, in cpu_team_for's count: its operands' places, a call */
#define BLOCK 256   /* elements converted at a time: 2 KiB a buffer */

typedef struct operand {
  convert_fn load;                /* to the compute dtype; NULL: as it is */
  int32_t index;                  /* of the operator's inputs; -1: the state's `limit[k]` */
  uint8_t step;                   /* innermost dim: 1, or 0 if one element serves the whole dim */
  int64_t size;                   /* bytes of an element in memory */
  int64_t strides[REED_MAX_RANK]; /* in bytes */
} operand;

typedef struct elementwise_state elementwise_state;
typedef int (*row_fn)(const elementwise_state *s, char *out, const char *const *in, int64_t n);

struct elementwise_state {
  elementwise_fn fn;
  elementwise_fn finish; /* Mean's division; NULL: none */
  elementwise_parameters parameters;
  row_fn row;
  int32_t n_in, rank;
  cpu_team team;
  int64_t n; /* elements of the output */
  int64_t extents[REED_MAX_RANK];
  int64_t out_size, compute_size;
  convert_fn store;                 /* from the compute dtype; NULL: as it is */
  convert_fn load_first;            /* fold: input 0 into the accumulator */
  uint64_t limit[2];                /* Clip's absent bounds: the dtype's limits */
  uint8_t steps[4];                 /* the steps of operands 0..3, for loops without conversion */
  const elementwise_state *grouped; /* for several short rows at once: with the steps of operands that are repeated in
                                       memory; NULL: row by row */
  operand operands[];
};

/* ---- rows ---- */

static int row_direct(const elementwise_state *s, char *out, const char *const *in, int64_t n) {
  return s->fn(out, (const void *const *)in, s->steps, n, &s->parameters);
}

/* Converts operands that do not have the compute dtype, block by block. At most 3 operands. */
static int row_converted(const elementwise_state *s, char *out, const char *const *in, int64_t n) {
  uint64_t buffers[3][BLOCK], result[BLOCK];
  int fault = 0;
  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    int64_t m = n - begin < BLOCK ? n - begin : BLOCK;
    const void *block[3];
    for (int32_t k = 0; k < s->n_in; k++) {
      const operand *o = &s->operands[k];
      block[k] = in[k] + (o->step ? begin * o->size : 0);
      if (!o->load) continue;
      if (o->step || begin == 0) o->load(buffers[k], block[k], o->step ? m : 1);
      block[k] = buffers[k];
    }
    void *to = s->store ? (void *)result : out + begin * s->out_size;
    fault |= s->fn(to, block, s->steps, m, &s->parameters);
    if (s->store) s->store(out + begin * s->out_size, result, m);
  }
  return fault;
}

/* Max, Mean, Min, Sum of any number of inputs, folded into an accumulator block: an output that overwrites an input is
 * written only when all inputs have been read. */
static int row_fold(const elementwise_state *s, char *out, const char *const *in, int64_t n) {
  uint64_t accumulator[BLOCK], buffer[BLOCK];
  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    int64_t m = n - begin < BLOCK ? n - begin : BLOCK;
    for (int32_t k = 0; k < s->n_in; k++) {
      const operand *o = &s->operands[k];
      const char *from = in[k] + (o->step ? begin * o->size : 0);
      if (k == 0) {
        s->load_first(accumulator, from, o->step ? m : 1);
        if (!o->step) strided_fill(accumulator, &(uint64_t){accumulator[0]}, s->compute_size, m);
        continue;
      }
      if (o->load) o->load(buffer, from, o->step ? m : 1);
      const void *pair[2] = {accumulator, o->load ? (const void *)buffer : from};
      s->fn(accumulator, pair, (const uint8_t[]){1, o->step || m == 1}, m, &s->parameters);
    }
    if (s->finish) s->finish(accumulator, (const void *const[]){accumulator}, (const uint8_t[]){1}, m, &s->parameters);
    if (s->store) s->store(out + begin * s->out_size, accumulator, m);
    else memcpy(out + begin * s->out_size, accumulator, (size_t)(m * s->out_size));
  }
  return 0;
}

/* ---- running ---- */

typedef struct elementwise_job {
  const elementwise_state *s;
  const char *const *in;
  char *out;
  int fault;
} elementwise_job;

/* ---- short rows ---- */

/* Several rows of a broadcast are given to the loop at once if they are short. Operands that the rows do not read one
 * after the other are repeated in a buffer. */
#define SHORT_ROW 128 /* bytes of the output */
#define GROUP 512     /* elements, at most */
#define GROUP_OPERANDS 3

typedef struct group_buffers {
  struct {
    uint64_t elements[GROUP + 2]; /* repeat_elements writes up to 15 bytes more */
    const char *from;             /* a row that has been repeated; NULL: none */
    int64_t rows;                 /* so often */
  } of[GROUP_OPERANDS];
} group_buffers;

/* Writes each of `rows` elements n times, in vectors that the next element's overwrite. */
#define REPEAT_ELEMENT(T) \
  static void repeat_##T(char *out, const char *in, int64_t stride, int64_t rows, int64_t n) { \
    typedef T vector __attribute__((vector_size(16), aligned(1), may_alias)); \
    for (int64_t row = 0; row < rows; row++) { \
      const vector x = *(const T *)(in + row * stride) + (vector){0}; \
      for (int64_t i = 0; i < n * (int64_t)sizeof(T); i += 16) *(vector *)(out + i) = x; \
      out += n * (int64_t)sizeof(T); \
    } \
  }
REPEAT_ELEMENT(uint8_t)
REPEAT_ELEMENT(uint16_t)
REPEAT_ELEMENT(uint32_t)
REPEAT_ELEMENT(uint64_t)

static void repeat_elements(const operand *o, char *out, const char *in, int64_t stride, int64_t rows, int64_t n) {
  switch (o->size) {
    case 1: repeat_uint8_t(out, in, stride, rows, n); break;
    case 2: repeat_uint16_t(out, in, stride, rows, n); break;
    case 4: repeat_uint32_t(out, in, stride, rows, n); break;
    default: repeat_uint64_t(out, in, stride, rows, n);
  }
}

/* Repeats a row of some bytes, in copies of all rows so far. */
static void repeat_row(char *out, const char *in, int64_t rows, int64_t bytes) {
  memcpy(out, in, (size_t)bytes);
  for (int64_t done = 1; done < rows;) {
    const int64_t more = done < rows - done ? done : rows - done;
    memcpy(out + done * bytes, out, (size_t)(more * bytes));
    done += more;
  }
}

/* Whether the operand of short rows is repeated in a buffer. */
static bool is_repeated(const elementwise_state *s, const operand *o) {
  const int64_t stride = o->strides[s->rank - 2];
  return o->step ? stride != s->extents[s->rank - 1] * o->size : stride != 0;
}

static int run_group(const elementwise_state *s, group_buffers *buffers, char *out, const char *const *in,
                     int64_t rows) {
  const char *from[GROUP_OPERANDS];
  const int64_t n = s->extents[s->rank - 1];
  for (int32_t k = 0; k < s->n_in; k++) {
    const operand *o = &s->operands[k];
    char *elements = (char *)buffers->of[k].elements;
    from[k] = is_repeated(s, o) ? elements : in[k];
    if (from[k] == in[k]) continue;
    if (!o->step) {
      repeat_elements(o, elements, in[k], o->strides[s->rank - 2], rows, n);
    } else if (buffers->of[k].from != in[k] || buffers->of[k].rows < rows) {
      repeat_row(elements, in[k], rows, n * o->size);
      buffers->of[k].from = in[k];
      buffers->of[k].rows = rows;
    }
  }
  return s->row(s->grouped, out, from, rows * n);
}

/* How many rows from the row at coordinate `at` on make a group, of `left` elements; 0: too few. */
static int64_t group_rows(const elementwise_state *s, int64_t at, int64_t left) {
  const int64_t extent = s->extents[s->rank - 1], in_dim = s->extents[s->rank - 2] - at;
  int64_t rows = GROUP / extent < left / extent ? GROUP / extent : left / extent;
  rows = rows < in_dim ? rows : in_dim;
  return rows > 1 ? rows : 0;
}

/* Elements begin..end of the output. */
static void elementwise_range(void *context, int64_t begin, int64_t end) {
  elementwise_job *job = context;
  const elementwise_state *s = job->s;
  const char *in[s->n_in];
  int64_t coordinates[REED_MAX_RANK], inner = s->rank - 1, extent = s->extents[inner], index = begin / extent;
  for (int32_t k = 0; k < s->n_in; k++) in[k] = job->in[k];
  for (int64_t d = inner - 1; d >= 0; d--) {
    coordinates[d] = index % s->extents[d];
    index /= s->extents[d];
    for (int32_t k = 0; k < s->n_in; k++) in[k] += coordinates[d] * s->operands[k].strides[d];
  }
  int fault = 0;
  int64_t skip = begin % extent;
  for (int32_t k = 0; k < s->n_in; k++) in[k] += skip * s->operands[k].strides[inner];
  group_buffers buffers;
  for (int32_t k = 0; k < GROUP_OPERANDS; k++) buffers.of[k].from = NULL;
  while (begin < end) {
    const int64_t rows = s->grouped && !skip ? group_rows(s, coordinates[inner - 1], end - begin) : 0;
    if (rows) {
      fault |= run_group(s, &buffers, job->out + begin * s->out_size, in, rows);
      begin += rows * extent;
      coordinates[inner - 1] += rows - 1; /* the last row of the group is left below */
      for (int32_t k = 0; k < s->n_in; k++) in[k] += (rows - 1) * s->operands[k].strides[inner - 1];
    } else {
      int64_t n = extent - skip < end - begin ? extent - skip : end - begin;
      fault |= s->row(s, job->out + begin * s->out_size, in, n);
      begin += n;
    }
    for (int32_t k = 0; k < s->n_in; k++) in[k] -= skip * s->operands[k].strides[inner];
    skip = 0;
    for (int64_t d = inner - 1; d >= 0; d--) {
      for (int32_t k = 0; k < s->n_in; k++) in[k] += s->operands[k].strides[d];
      if (++coordinates[d] < s->extents[d]) break;
      for (int32_t k = 0; k < s->n_in; k++) in[k] -= s->extents[d] * s->operands[k].strides[d];
      coordinates[d] = 0;
    }
  }
  if (fault) __atomic_store_n(&job->fault, 1, __ATOMIC_RELAXED);
}

/* Finds the divisor's 0: among its joined dims those with a stride are its own. */
static reed_status division_fault(const elementwise_state *s, const reed_kernel_buffers *buffers) {
  int64_t n = 1;
  for (int32_t d = 0; d < s->rank; d++) n *= s->operands[1].strides[d] ? s->extents[d] : 1;
  return cpu_division_fault(buffers, s->operands[1].size, n);
}

static reed_status run_elementwise(const void *state, const reed_kernel_buffers *buffers) {
  const elementwise_state *s = state;
  const char *in[s->n_in];
  for (int32_t k = 0; k < s->n_in; k++) {
    int32_t index = s->operands[k].index;
    in[k] = index < 0 ? (const char *)&s->limit[k - 1] : buffers->inputs[index];
  }
  elementwise_job job = {s, in, buffers->outputs[0], 0};
  reed_status status = cpu_parallel(s->team, s->n, 64, elementwise_range, &job);
  if (status != REED_OK) return status;
  return job.fault ? division_fault(s, buffers) : REED_OK;
}

/* The most frequent case: no conversion, one joined dim, one thread, operands that are the first inputs in order. */
static reed_status run_flat(const void *state, const reed_kernel_buffers *buffers) {
  const elementwise_state *s = state;
  int fault = s->fn(buffers->outputs[0], buffers->inputs, s->steps, s->n, &s->parameters);
  return fault ? division_fault(s, buffers) : REED_OK;
}

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) { return REED_OK; }

/* ---- preparing ---- */

/* Joins the output's dims and the operands' strides: dims of extent 1 are dropped, and neighbours that every operand
 * walks as one dim are joined. */
static bool join_dims(elementwise_state *s, const reed_kernel_call *call) {
  const reed_desc *out = &call->outputs[0];
  for (int32_t k = 0; k < s->n_in; k++) {
    operand *o = &s->operands[k];
    if (o->index < 0 || desc_elements(&call->inputs[o->index]) == 1) memset(o->strides, 0, sizeof o->strides);
    else if (!cpu_broadcast_strides(&call->inputs[o->index], out, o->strides)) return false;
  }
  s->rank = 0;
  for (int32_t d = 0; d < out->rank; d++) {
    if (out->dims[d] == 1) continue;
    bool joins = s->rank > 0;
    for (int32_t k = 0; k < s->n_in && joins; k++)
      joins = s->operands[k].strides[s->rank - 1] == s->operands[k].strides[d] * out->dims[d];
    int32_t to = joins ? s->rank - 1 : s->rank;
    s->extents[to] = joins ? s->extents[to] * out->dims[d] : out->dims[d];
    for (int32_t k = 0; k < s->n_in; k++) s->operands[k].strides[to] = s->operands[k].strides[d];
    s->rank = to + 1;
  }
  if (s->rank == 0) {
    s->rank = 1;
    s->extents[0] = 1;
    for (int32_t k = 0; k < s->n_in; k++) s->operands[k].strides[0] = 1;
  }
  for (int32_t k = 0; k < s->n_in; k++) {
    operand *o = &s->operands[k];
    o->step = o->strides[s->rank - 1] != 0;
    if (k < 4) s->steps[k] = o->step;
    for (int32_t d = 0; d < s->rank; d++) o->strides[d] *= o->size;
  }
  return true;
}

/* The formula and dtypes of a call; extents play no part yet. */
typedef struct formula_call {
  int formula;
  reed_dtype compute; /* of the loop; operands of other dtypes are converted to it */
  reed_dtype result;  /* dtype that the loop writes; converted if the output's differs */
  int32_t n_in;
  bool folds; /* any number of operands: the formula is applied from left to right */
  bool as_is; /* elements are moved without conversion */
} formula_call;

static size_t state_bytes(int32_t n_in) { return sizeof(elementwise_state) + (size_t)n_in * sizeof(operand); }

/* Fills in the second state of the memory, if rows are so short that several make a group. */
static void group_short_rows(elementwise_state *s) {
  if (s->rank < 2 || s->n_in > GROUP_OPERANDS || s->extents[s->rank - 1] * s->out_size > SHORT_ROW) return;
  elementwise_state *grouped = (elementwise_state *)((char *)s + state_bytes(s->n_in));
  memcpy(grouped, s, state_bytes(s->n_in));
  for (int32_t k = 0; k < s->n_in; k++) {
    grouped->operands[k].step |= is_repeated(s, &s->operands[k]);
    grouped->steps[k] = grouped->operands[k].step;
  }
  s->grouped = grouped;
}

static elementwise_state *open_state(const reed_kernel_call *call, const formula_call *f, elementwise_fn fn) {
  elementwise_state *s = mem_calloc(2, state_bytes(f->n_in));
  if (!s) return NULL;
  cpu_level level = cpu_level_now();
  const reed_desc *out = &call->outputs[0];
  s->fn = fn;
  s->parameters = elementwise_parameters_of(f->formula, call->attrs);
  s->n_in = f->n_in;
  s->n = desc_elements(out);
  s->out_size = (int64_t)reed_dtype_bytes(out->dtype);
  s->compute_size = (int64_t)reed_dtype_bytes(f->compute);
  if (!f->as_is && f->result != out->dtype) s->store = convert_between(level, f->result, out->dtype);
  bool converts = s->store != NULL;
  for (int32_t k = 0; k < f->n_in; k++) {
    operand *o = &s->operands[k];
    bool given = cpu_present(call, k);
    reed_dtype dtype = given ? call->inputs[k].dtype : f->compute;
    o->index = given ? k : -1;
    o->size = (int64_t)reed_dtype_bytes(dtype);
    if (!f->as_is && dtype != f->compute) o->load = convert_between(level, dtype, f->compute);
    converts |= o->load != NULL;
  }
  s->row = f->folds ? row_fold : converts ? row_converted : row_direct;
  if (f->folds) s->load_first = convert_between(level, call->inputs[0].dtype, f->compute);
  return s;
}

static reed_status prepare_formula(const reed_kernel_call *call, const formula_call *f, reed_kernel *out_kernel) {
  reed_status status = elementwise_check(call);
  if (status != REED_OK) return status;
  elementwise_fn fn = elementwise_formula(cpu_level_now(), f->compute, f->formula);
  if (!fn)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "there is no such formula for %s",
                            reed_dtype_name(call->inputs[0].dtype));
  elementwise_state *s = open_state(call, f, fn);
  if (!s) return cpu_no_memory(call);
  if (!join_dims(s, call)) {
    mem_free(s);
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "the inputs do not broadcast to the output");
  }
  const int64_t rows = s->rank > 1 && s->n ? s->n / s->extents[s->rank - 1] : 0;
  const int64_t work = s->out_size + 4 * elementwise_cost(f->compute, f->formula);
  s->team = cpu_team_for(cpu_env_team(call), s->n * work + rows * ROW_WORK);
  group_short_rows(s);
  bool flat = s->rank == 1 && s->team.threads == 1 && s->team.chunks == 1 && s->row == row_direct;
  for (int32_t k = 0; k < s->n_in; k++) flat &= s->operands[k].index == k;
  cpu_kernel_set(out_kernel, s->n == 0 ? run_nothing : flat ? run_flat : run_elementwise, s);
  return REED_OK;
}

static reed_dtype compute_dtype(reed_dtype dtype) { return dtype == REED_F16 || dtype == REED_BF16 ? REED_F32 : dtype; }

/* Pow (ONNX 15): the exponent has a dtype of its own. A float base computes in its own dtype, an integer base with a
 * float exponent in f64, two integers of different dtypes in i64 (which wraps as the base's dtype does). */
static reed_dtype pow_dtype(reed_dtype base, reed_dtype exponent) {
  if (dtype_is_real(base) || base == exponent) return compute_dtype(base);
  return dtype_is_real(exponent) ? REED_F64 : REED_I64;
}

/* Operators with rows in formulas.def. Pow has its own dtype rules; Max, Mean, Min and Sum take any number of inputs.
 */
reed_status cpu_prepare_elementwise(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int id = (int)op_id_of(call->op);
  reed_dtype dtype = call->inputs[0].dtype;
  formula_call f = {
      .formula = elementwise_choice(call->op, call->attrs), .compute = compute_dtype(dtype), .n_in = call->n_inputs};
  if (id == OP_Pow) f.compute = pow_dtype(dtype, call->inputs[1].dtype);
  if (id == OP_Max || id == OP_Min || id == OP_Sum || id == OP_Mean) f.folds = id == OP_Mean || call->n_inputs != 2;
  f.result = call->outputs[0].dtype == REED_BOOL ? REED_BOOL : f.compute;
  reed_status status = prepare_formula(call, &f, out_kernel);
  if (status || id != OP_Mean) return status;
  elementwise_state *s = out_kernel->state;
  s->finish = elementwise_formula(cpu_level_now(), f.compute, OP_Mean);
  s->parameters.alpha = call->n_inputs;
  group_short_rows(s);
  return REED_OK;
}

/* Clip: an absent bound is the dtype's limit. */
reed_status cpu_prepare_clip(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_dtype compute = compute_dtype(call->inputs[0].dtype);
  formula_call f = {.formula = OP_Clip, .compute = compute, .result = compute, .n_in = 3};
  reed_status status = prepare_formula(call, &f, out_kernel);
  if (status) return status;
  elementwise_state *s = out_kernel->state;
  reed_dtype_write(compute, &s->limit[0], -INFINITY);
  reed_dtype_write(compute, &s->limit[1], INFINITY);
  group_short_rows(s);
  return REED_OK;
}

reed_status cpu_prepare_where(const reed_kernel_call *call, reed_kernel *out_kernel) {
  formula_call f = {
      .formula = OP_Where, .compute = elementwise_carrier(call->outputs[0].dtype), .n_in = 3, .as_is = true};
  return prepare_formula(call, &f, out_kernel);
}

/* ---- Cast ---- */

typedef struct cast_state {
  convert_fn convert;
  int64_t n, from_size, to_size;
  cpu_team team;
} cast_state;

typedef struct cast_job {
  const cast_state *s;
  const char *in;
  char *out;
} cast_job;

static void cast_range(void *context, int64_t begin, int64_t end) {
  const cast_job *job = context;
  job->s->convert(job->out + begin * job->s->to_size, job->in + begin * job->s->from_size, end - begin);
}

static reed_status run_cast(const void *state, const reed_kernel_buffers *buffers) {
  const cast_state *s = state;
  cast_job job = {s, buffers->inputs[0], buffers->outputs[0]};
  return cpu_parallel(s->team, s->n, 64, cast_range, &job);
}

reed_status cpu_prepare_cast(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cast_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  reed_dtype from = call->inputs[0].dtype, to = call->outputs[0].dtype;
  s->convert = convert_between(cpu_level_now(), from, to);
  s->n = desc_elements(&call->outputs[0]);
  s->from_size = (int64_t)reed_dtype_bytes(from);
  s->to_size = (int64_t)reed_dtype_bytes(to);
  s->team = cpu_team_for(cpu_env_team(call), s->n * (s->from_size + s->to_size));
  cpu_kernel_set(out_kernel, run_cast, s);
  return REED_OK;
}
