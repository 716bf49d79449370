/* Attention over blocks of queries and keys, after Dao et al. 2022, "FlashAttention": the scores of a block are
 * computed, weighted and applied to the values while they are in the cache, and no [queries, keys] tensor exists. Work
 * is shared out by batch, head and block of queries. Few queries are computed otherwise: attention_few.c.
 *
 * Scores have a row for each key and a column for each query: a block of K is read in place, and both the softmax and
 * the product with V run over contiguous columns. Everything is f32 inside; other float dtypes are converted block by
 * block. The reference computes f64 and qk_matmul_output.
 *
 * The reference: reference/attention.c. */
#include <math.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_loops.h"
#include "ops/cpu/sequence/attention_state.h"

#define QUERIES 64
#define KEYS 128

/* ---- one block of queries ---- */

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

static void take_queries(const query_block *b) {
  const attention *a = &b->s->a;
  float scale = (float)a->scale;
  if (b->n < b->columns) memset(b->m.queries, 0, (size_t)(a->size * b->columns) * sizeof(float));
  for (int64_t i = 0; i < b->n; i++) {
    const void *row = attention_row(&a->q, b->buffers->inputs[0], b->batch, b->head, b->first + i);
    if (b->s->load_q) b->s->load_q(b->m.line, row, a->size), row = b->m.line;
    for (int64_t d = 0; d < a->size; d++) b->m.queries[d * b->columns + i] = ((const float *)row)[d] * scale;
  }
}

/* Masks keys j .. j + n (counted from the first of all) for the queries that may not look at them. */
static void mask_scores(const query_block *b, int64_t j, int64_t n) {
  const attention *a = &b->s->a;
  int64_t columns = b->columns, shown = a->mask_keys - j < n ? a->mask_keys - j : n;
  if (shown < 0) shown = 0;
  for (int64_t i = 0; a->mask_dtype != REED_NONE && i < b->n; i++)
    attention_mask_query(b->s, b->buffers->inputs[3], (const int64_t[]){b->batch, b->head, b->first + i, j}, shown,
                         b->m.scores + i, columns, b->m.line);
  for (int64_t k = shown; k < n; k++)
    for (int64_t i = 0; i < columns; i++) b->m.scores[k * columns + i] = -INFINITY;
  if (a->after < ATTENTION_ANY_DISTANCE) /* queries before the first one that may look at the key */
    for (int64_t k = 0; k < n; k++)
      for (int64_t i = 0; i < b->n && attention_end(a, &b->reach, b->first + i) <= j + k; i++)
        b->m.scores[k * columns + i] = -INFINITY;
  if (a->before < ATTENTION_ANY_DISTANCE) /* queries behind the last one that may look at the key */
    for (int64_t k = 0; k < n; k++)
      for (int64_t i = b->n - 1; i >= 0 && attention_first(a, &b->reach, b->first + i) > j + k; i--)
        b->m.scores[k * columns + i] = -INFINITY;
}

/* Processes n keys from number j on; k and v are the first of them. */
static void take_keys(const query_block *b, const attention_view *kv, const char *k, const attention_view *vv,
                      const char *v, int64_t j, int64_t n) {
  const attention_state *s = b->s;
  const attention *a = &s->a;
  int64_t k_row, columns = b->columns;
  const float *keys = attention_rows(k, kv, s->load_k, n, a->size, a->size, b->m.keys, &k_row);
  const value_rows values = attention_values(s, vv, v, n, b->m.values);
  memset(b->m.scores, 0, (size_t)(n * columns) * sizeof(float));
  CPU_PICK(a->level, multiply_add)(b->m.scores, columns, keys, k_row, 1, b->m.queries, columns, n, columns, a->size);
  attention_cap(a, b->m.scores, n * columns);
  mask_scores(b, j, n);
  CPU_PICK(a->level, attend_keys)(b->m.scores, n, columns, b->m.most, b->m.sum, b->m.shrink);
  for (int64_t i = 0; i < b->n; i++)
    if (b->m.shrink[i] != 1) {
      float *sums = b->m.sums + i * s->value_columns;
      CPU_PICK(a->level, scale_row)(b->m.shrink[i], sums, sums, s->value_columns);
    }
  attention_weigh_values(s, b->m.sums, b->m.scores, 1, columns, b->n, &values);
}

/* Processes the keys of one tensor, earlier or new ones: numbers first .. first + n, of them those in begin .. end. */
static void take_tensor(const query_block *b, const attention_view *kv, const void *k, const attention_view *vv,
                        const void *v, int64_t first, int64_t n, int64_t begin, int64_t end) {
  const attention *a = &b->s->a;
  int64_t head = b->head / (a->heads / a->kv_heads);
  if (first + n > end) n = end - first;
  for (int64_t j = begin > first ? begin - first : 0; j < n; j += KEYS)
    take_keys(b, kv, attention_row(kv, k, b->batch, head, j), vv, attention_row(vv, v, b->batch, head, j), first + j,
              n - j < KEYS ? n - j : KEYS);
}

static void give_rows(const query_block *b) {
  for (int64_t i = 0; i < b->n; i++)
    attention_give(b->s, b->buffers, (const int64_t[]){b->batch, b->head, b->first + i},
                   b->m.sums + i * b->s->value_columns, b->m.sum[i], b->m.line);
}

static void attend(query_block *b) {
  const attention_state *s = b->s;
  const attention *a = &s->a;
  int64_t begin = attention_first(a, &b->reach, b->first), end = attention_end(a, &b->reach, b->first + b->n - 1);
  take_queries(b);
  memset(b->m.sums, 0, (size_t)(b->n * s->value_columns) * sizeof(float));
  for (int64_t i = 0; i < b->columns; i++) b->m.most[i] = -INFINITY, b->m.sum[i] = 0;
  if (a->past)
    take_tensor(b, &a->past_k, b->buffers->inputs[4], &a->past_v, b->buffers->inputs[5], 0, a->past, begin, end);
  take_tensor(b, &a->k, b->buffers->inputs[1], &a->v, b->buffers->inputs[2], a->past, a->keys, begin, end);
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
  reed_status status = attention_write_present(&s->a, buffers);
  if (status != REED_OK) return status;
  status = cpu_parallel_scratch(s->a.team, s->a.batch * s->a.heads * ((s->a.queries + QUERIES - 1) / QUERIES), 1,
                                attend_range, &job);
  if (status == REED_OK)
    attention_give_hidden(s, buffers, (float *)buffers->workspace + s->a.team.threads * s->scratch_floats);
  return status;
}

reed_status attention_prepare_blocks(attention_state *s, reed_kernel *out_kernel) {
  const attention *a = &s->a;
  s->scratch_floats = (scratch_floats(s) + 15) / 16 * 16;
  int64_t work = a->batch * a->heads * a->queries * (a->total + 1) * (a->size + a->value_size + 8);
  s->a.team = cpu_team_for(a->team, work);
  cpu_kernel_set(out_kernel, run_attention, s);
  out_kernel->workspace_bytes =
      (s->a.team.threads * s->scratch_floats + attention_spare_floats(s)) * (int64_t)sizeof(float);
  return REED_OK;
}
