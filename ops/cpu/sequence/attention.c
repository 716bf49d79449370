/* Attention over blocks of queries and keys, after Dao et al. 2022, "FlashAttention": the scores of a block are
 * computed, weighted and applied to the values while they are in the cache, and no [queries, keys] tensor exists. Work
 * is shared out by batch, head and block of queries.
 *
 * Scores have a row for each key and a column for each query: a block of K is read in place, and both the softmax and
 * the product with V run over contiguous columns. Everything is f32 inside; other float dtypes are converted block by
 * block. The reference computes f64 and qk_matmul_output.
 *
 * The reference: reference/attention.c. */
#include <math.h>

#include "ops/cpu/calls/attention.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_loops.h"

#define QUERIES 64
#define KEYS 128
#define LANES_MOST 16 /* columns are a multiple of it: of the loops' vectors at every level */

/* ---- the cache of keys and values ---- */

typedef struct present_job {
  const attention *a;
  const char *past, *now;
  char *to;
  const attention_view *past_view, *now_view, *to_view;
  int64_t row_bytes, size;
} present_job;

static void write_heads(void *context, int64_t begin, int64_t end) {
  const present_job *job = context;
  const attention *a = job->a;
  for (int64_t i = begin; i < end; i++) {
    int64_t b = i / a->kv_heads, h = i % a->kv_heads, element = job->row_bytes / job->size;
    char *to = job->to + (b * job->to_view->batch + h * job->to_view->head) * element;
    for (int64_t t = 0; t < a->total; t++) {
      bool earlier = t < a->past;
      const attention_view *v = earlier ? job->past_view : job->now_view;
      const char *from = (earlier ? job->past : job->now) +
                         (b * v->batch + h * v->head + (t - (earlier ? 0 : a->past)) * v->row) * element;
      memcpy(to + t * job->row_bytes, from, (size_t)job->row_bytes);
    }
  }
}

static reed_status write_one(const attention *a, const reed_kernel_buffers *buffers, int32_t input,
                             const attention_view *now, const attention_view *past, const attention_view *to,
                             int64_t size) {
  int64_t bytes = size * (int64_t)reed_dtype_bytes(to->dtype), n = a->batch * a->kv_heads;
  if (to->dtype == REED_NONE || bytes == 0 || n == 0 || a->total == 0) return REED_OK;
  present_job job = {a,
                     a->past ? buffers->inputs[input + 3] : NULL,
                     buffers->inputs[input],
                     buffers->outputs[input],
                     past,
                     now,
                     to,
                     bytes,
                     size};
  return cpu_parallel(cpu_team_for(a->team, n * a->total * bytes), n, 1, write_heads, &job);
}

/* Writes earlier and new keys and values to present_key and present_value, if these are outputs. */
static reed_status write_present(const attention *a, const reed_kernel_buffers *buffers) {
  reed_status status = write_one(a, buffers, 1, &a->k, &a->past_k, &a->present_k, a->size);
  return status != REED_OK ? status : write_one(a, buffers, 2, &a->v, &a->past_v, &a->present_v, a->value_size);
}

/* ---- one block of queries ---- */

typedef struct attention_state {
  attention a;
  convert_fn load_q, load_k, load_v, load_mask, store; /* to and from f32; NULL: as it is */
  int64_t value_columns;                               /* value_size, up to a multiple of LANES_MOST */
  int64_t scratch_floats;                              /* of a thread */
} attention_state;

/* A thread's memory. */
typedef struct scratch {
  float *queries;             /* [size][columns], scaled */
  float *scores;              /* [KEYS][columns] */
  float *sums;                /* [QUERIES][value_columns] */
  float *keys, *values;       /* converted or widened blocks */
  float *line;                /* an output row, or part of a mask's */
  float *most, *sum, *shrink; /* [columns] */
} scratch;

static int64_t line_floats(const attention_state *s) {
  int64_t most = s->a.size > s->value_columns ? s->a.size : s->value_columns;
  return most > KEYS ? most : KEYS;
}

static int64_t scratch_floats(const attention_state *s) {
  return (s->a.size + KEYS + 3) * QUERIES + (QUERIES + KEYS) * s->value_columns + KEYS * s->a.size + line_floats(s);
}

static scratch scratch_at(const attention_state *s, float *at) {
  scratch m;
  m.queries = at;
  m.scores = m.queries + s->a.size * QUERIES;
  m.sums = m.scores + KEYS * QUERIES;
  m.values = m.sums + QUERIES * s->value_columns;
  m.most = m.values + KEYS * s->value_columns;
  m.sum = m.most + QUERIES;
  m.shrink = m.sum + QUERIES;
  m.keys = m.shrink + QUERIES;
  m.line = m.keys + KEYS * s->a.size;
  return m;
}

/* A block of queries and the tensors that it is computed from. */
typedef struct query_block {
  const attention_state *s;
  const reed_kernel_buffers *buffers;
  scratch m;
  int64_t batch, head, first, n, columns; /* n queries from `first` on, in that many columns */
  attention_reach reach;
} query_block;

static const char *row_at(const attention_view *v, const void *data, int64_t batch, int64_t head, int64_t row) {
  return (const char *)data + (batch * v->batch + head * v->head + row * v->row) * (int64_t)reed_dtype_bytes(v->dtype);
}

static void take_queries(const query_block *b) {
  const attention *a = &b->s->a;
  float scale = (float)a->scale;
  if (b->n < b->columns) memset(b->m.queries, 0, (size_t)(a->size * b->columns) * sizeof(float));
  for (int64_t i = 0; i < b->n; i++) {
    const void *row = row_at(&a->q, b->buffers->inputs[0], b->batch, b->head, b->first + i);
    if (b->s->load_q) b->s->load_q(b->m.line, row, a->size), row = b->m.line;
    for (int64_t d = 0; d < a->size; d++) b->m.queries[d * b->columns + i] = ((const float *)row)[d] * scale;
  }
}

/* Rows as f32, at least `width` floats apart: in place, or converted into `to`. */
static const float *take_rows(const char *from, int64_t distance, convert_fn load, int64_t n, int64_t size,
                              int64_t width, float *to, int64_t *out_row) {
  if (!load && size == width) return *out_row = distance / 4, (const float *)from;
  for (int64_t j = 0; j < n; j++) {
    if (load) load(to + j * width, from + j * distance, size);
    else memcpy(to + j * width, from + j * distance, (size_t)size * sizeof(float));
    memset(to + j * width + size, 0, (size_t)(width - size) * sizeof(float));
  }
  return *out_row = width, to;
}

/* Adds the mask of query i and keys j .. j + n, which begins at `from`, to column i. */
static void mask_query(const query_block *b, const char *from, int64_t n, float *column, int64_t columns) {
  const attention *a = &b->s->a;
  int64_t step = a->mask_strides[3];
  if (a->mask_dtype == REED_BOOL) {
    for (int64_t j = 0; j < n; j++)
      if (!from[j * step]) column[j * columns] = -INFINITY;
    return;
  }
  const float *numbers = (const float *)from;
  if (b->s->load_mask) b->s->load_mask(b->m.line, from, step ? n : 1), numbers = b->m.line;
  for (int64_t j = 0; j < n; j++) column[j * columns] += numbers[j * step];
}

/* Masks keys j .. j + n (counted from the first of all) for the queries that may not look at them. */
static void mask_scores(const query_block *b, int64_t j, int64_t n) {
  const attention *a = &b->s->a;
  int64_t columns = b->columns, shown = a->mask_keys - j < n ? a->mask_keys - j : n;
  if (shown < 0) shown = 0;
  for (int64_t i = 0; a->mask_dtype != REED_NONE && i < b->n; i++) {
    int64_t at = b->batch * a->mask_strides[0] + b->head * a->mask_strides[1] + (b->first + i) * a->mask_strides[2] +
                 j * a->mask_strides[3];
    mask_query(b, (const char *)b->buffers->inputs[3] + at * (int64_t)reed_dtype_bytes(a->mask_dtype), shown,
               b->m.scores + i, columns);
  }
  for (int64_t k = shown; k < n; k++)
    for (int64_t i = 0; i < columns; i++) b->m.scores[k * columns + i] = -INFINITY;
  for (int64_t k = 0; a->causal && k < n; k++) /* queries before the first one that may look at the key */
    for (int64_t i = 0; i < b->n && b->first + i + b->reach.offset < j + k; i++)
      b->m.scores[k * columns + i] = -INFINITY;
}

static void cap_scores(const query_block *b, int64_t n) {
  float cap = (float)b->s->a.softcap;
  for (int64_t i = 0; cap > 0 && i < n * b->columns; i++) b->m.scores[i] = cap * tanhf(b->m.scores[i] / cap);
}

/* Processes n keys from number j on; k and v are the first of them. */
static void take_keys(const query_block *b, const char *k, int64_t k_distance, const char *v, int64_t v_distance,
                      int64_t j, int64_t n) {
  const attention_state *s = b->s;
  const attention *a = &s->a;
  int64_t k_row, v_row, columns = b->columns;
  const float *keys = take_rows(k, k_distance, s->load_k, n, a->size, a->size, b->m.keys, &k_row);
  const float *values = take_rows(v, v_distance, s->load_v, n, a->value_size, s->value_columns, b->m.values, &v_row);
  memset(b->m.scores, 0, (size_t)(n * columns) * sizeof(float));
  CPU_PICK(a->level, multiply_add)(b->m.scores, columns, keys, k_row, 1, b->m.queries, columns, n, columns, a->size);
  cap_scores(b, n);
  mask_scores(b, j, n);
  CPU_PICK(a->level, attend_keys)(b->m.scores, n, columns, b->m.most, b->m.sum, b->m.shrink);
  for (int64_t i = 0; i < b->n; i++)
    if (b->m.shrink[i] != 1) {
      float *sums = b->m.sums + i * s->value_columns;
      CPU_PICK(a->level, scale_row)(b->m.shrink[i], sums, sums, s->value_columns);
    }
  CPU_PICK(a->level, multiply_add)
  (b->m.sums, s->value_columns, b->m.scores, 1, columns, values, v_row, b->n, s->value_columns, n);
}

/* Processes the keys of one tensor, earlier or new ones: numbers first .. first + n, without those from `end` on. */
static void take_tensor(const query_block *b, const attention_view *kv, const void *k, const attention_view *vv,
                        const void *v, int64_t first, int64_t n, int64_t end) {
  const attention *a = &b->s->a;
  int64_t head = b->head / (a->heads / a->kv_heads);
  int64_t k_distance = kv->row * (int64_t)reed_dtype_bytes(kv->dtype),
          v_distance = vv->row * (int64_t)reed_dtype_bytes(vv->dtype);
  if (first + n > end) n = end - first;
  for (int64_t j = 0; j < n; j += KEYS)
    take_keys(b, row_at(kv, k, b->batch, head, j), k_distance, row_at(vv, v, b->batch, head, j), v_distance, first + j,
              n - j < KEYS ? n - j : KEYS);
}

static void give_rows(const query_block *b) {
  const attention_state *s = b->s;
  const attention *a = &s->a;
  for (int64_t i = 0; i < b->n; i++) {
    char *to = (char *)row_at(&a->y, b->buffers->outputs[0], b->batch, b->head, b->first + i);
    float sum = b->m.sum[i], *line = s->store ? b->m.line : (float *)to,
          nothing = a->nan_rows > 0 && a->total > 0 ? NAN : 0;
    const float *sums = b->m.sums + i * s->value_columns;
    if (sum == 0 || (sum != sum && a->nan_rows < 0))
      for (int64_t d = 0; d < a->value_size; d++) line[d] = nothing;
    else CPU_PICK(a->level, scale_row)(1 / sum, sums, line, a->value_size);
    if (s->store) s->store(to, line, a->value_size);
  }
}

static void attend(query_block *b) {
  const attention_state *s = b->s;
  const attention *a = &s->a;
  int64_t end = b->reach.keys;
  if (a->causal && b->first + b->n + b->reach.offset < end) end = b->first + b->n + b->reach.offset;
  take_queries(b);
  memset(b->m.sums, 0, (size_t)(b->n * s->value_columns) * sizeof(float));
  for (int64_t i = 0; i < b->columns; i++) b->m.most[i] = -INFINITY, b->m.sum[i] = 0;
  if (a->past) take_tensor(b, &a->past_k, b->buffers->inputs[4], &a->past_v, b->buffers->inputs[5], 0, a->past, end);
  take_tensor(b, &a->k, b->buffers->inputs[1], &a->v, b->buffers->inputs[2], a->past, a->keys, end);
  give_rows(b);
}

/* ---- running ---- */

typedef struct attention_job {
  const attention_state *s;
  const reed_kernel_buffers *buffers;
} attention_job;

/* Items begin..end of (batch, head, block of queries). */
static void attend_range(void *context, int64_t begin, int64_t end, int32_t worker) {
  const attention_job *job = context;
  const attention *a = &job->s->a;
  int64_t blocks = (a->queries + QUERIES - 1) / QUERIES;
  query_block b = {.s = job->s,
                   .buffers = job->buffers,
                   .m = scratch_at(job->s, (float *)job->buffers->workspace + worker * job->s->scratch_floats)};
  for (int64_t i = begin; i < end && !cpu_cancelled(&a->team); i++) {
    b.first = i % blocks * QUERIES;
    b.head = i / blocks % a->heads;
    b.batch = i / blocks / a->heads;
    b.n = a->queries - b.first < QUERIES ? a->queries - b.first : QUERIES;
    b.columns = (b.n + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
    b.reach = attention_reach_of(a, job->buffers, b.batch);
    attend(&b);
  }
}

static reed_status run_attention(const void *state, const reed_kernel_buffers *buffers) {
  const attention_state *s = state;
  attention_job job = {s, buffers};
  reed_status status = write_present(&s->a, buffers);
  if (status != REED_OK) return status;
  return cpu_parallel_scratch(s->a.team, s->a.batch * s->a.heads * ((s->a.queries + QUERIES - 1) / QUERIES), 1,
                              attend_range, &job);
}

static convert_fn to_f32(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_NONE ? NULL : convert_between(cpu_level_now(), dtype, REED_F32);
}

/* True for calls whose earlier keys and values have the dtype of the new ones; others would need two conversions in the
 * block loops. */
static bool is_fast(const attention *a) {
  bool halves = a->q.dtype != REED_F64 && a->v.dtype != REED_F64;
  return halves && (a->past == 0 || (a->past_k.dtype == a->k.dtype && a->past_v.dtype == a->v.dtype));
}

reed_status cpu_prepare_attention(const reed_kernel_call *call, reed_kernel *out_kernel) {
  attention a;
  reed_status status = attention_read(call, &a);
  if (status != REED_OK) return status;
  bool scores_wanted = call->n_outputs > 3 && call->outputs[3].dtype != REED_NONE;
  if (scores_wanted || !is_fast(&a) || desc_elements(&call->outputs[0]) == 0) return REED_OK;
  attention_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->a = a;
  s->load_q = to_f32(a.q.dtype);
  s->load_k = to_f32(a.k.dtype);
  s->load_v = to_f32(a.v.dtype);
  s->load_mask = a.mask_dtype == REED_BOOL ? NULL : to_f32(a.mask_dtype);
  if (a.y.dtype != REED_F32) s->store = convert_between(cpu_level_now(), REED_F32, a.y.dtype);
  s->value_columns = (a.value_size + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
  s->scratch_floats = (scratch_floats(s) + 15) / 16 * 16;
  int64_t work = a.batch * a.heads * a.queries * (a.total + 1) * (a.size + a.value_size + 8);
  s->a.team = cpu_team_for(a.team, work);
  cpu_kernel_set(out_kernel, run_attention, s);
  out_kernel->workspace_bytes = s->a.team.threads * s->scratch_floats * (int64_t)sizeof(float);
  return REED_OK;
}
