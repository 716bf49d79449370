/* Attention over blocks of queries and keys, after Dao et al. 2022, "FlashAttention": the scores of a block are
 * computed, weighted and applied to the values while they are in the cache, and no [queries, keys] tensor exists. Work
 * is shared out by batch, head and block of queries; where an item of so many keys would take long, it is run in steps
 * of one or more blocks of keys (cpu_relay). Few queries are computed otherwise: attention_few.c.
 *
 * Scores have a row for each key and a column for each query: a block of K is read in place, and both the softmax and
 * the product with V run over contiguous columns. Everything is f32 inside; other float dtypes are converted block by
 * block. The reference computes f64 and qk_matmul_output.
 *
 * The reference: reference/attention.c. */
#include <math.h>

#include "ops/cpu/common/relay.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_loops.h"
#include "ops/cpu/sequence/attention_state.h"

#define QUERIES 64 /* of a block, at most */
#define QUERIES_LEAST 32
#define KEYS 128                         /* of a block, at most */
#define KEYS_WANTED 64                   /* of a block: of fewer, fewer queries are a block */
#define KEYS_GRAIN 16                    /* of a block of fewer */
#define STEP_PRODUCTS ((int64_t)1 << 20) /* of a step, at most: some 30 us */

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
  attention_mask_queries(b->s, b->buffers->inputs[3], (const int64_t[]){b->batch, b->head, b->first, j}, b->n, shown,
                         b->m.scores, columns, b->m.line);
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

/* The keys that a block of queries meets: those of earlier calls, then those of this call, each in blocks. */
typedef struct met_keys {
  int64_t past, now, end;   /* the first of each, counted from the first of all, and the end of all */
  int64_t n_past, n_blocks; /* blocks of the earlier keys, of all */
} met_keys;

static met_keys keys_met(const attention_state *s, const attention_reach *reach, int64_t first, int64_t n) {
  const attention *a = &s->a;
  int64_t begin = attention_first(a, reach, first), end = attention_end(a, reach, first + n - 1),
          past_end = end < a->past ? end : a->past;
  met_keys met = {.past = begin, .now = begin > a->past ? begin : a->past, .end = end};
  if (past_end > begin) met.n_past = (past_end - begin + s->block_keys - 1) / s->block_keys;
  met.n_blocks = met.n_past;
  if (end > met.now) met.n_blocks += (end - met.now + s->block_keys - 1) / s->block_keys;
  return met;
}

/* Processes block number `block` of the keys. */
static void take_block(const query_block *b, const met_keys *met, int64_t block) {
  const attention *a = &b->s->a;
  const void *const *inputs = b->buffers->inputs;
  bool past = block < met->n_past;
  const attention_view *kv = past ? &a->past_k : &a->k, *vv = past ? &a->past_v : &a->v;
  int64_t head = b->head / (a->heads / a->kv_heads), first = past ? 0 : a->past,
          j = past ? met->past + block * b->s->block_keys : met->now + (block - met->n_past) * b->s->block_keys,
          end = past && a->past < met->end ? a->past : met->end;
  take_keys(b, kv, attention_row(kv, inputs[past ? 4 : 1], b->batch, head, j - first), vv,
            attention_row(vv, inputs[past ? 5 : 2], b->batch, head, j - first), j,
            end - j < b->s->block_keys ? end - j : b->s->block_keys);
}

static void give_rows(const query_block *b) {
  for (int64_t i = 0; i < b->n; i++)
    attention_give(b->s, b->buffers, (const int64_t[]){b->batch, b->head, b->first + i},
                   b->m.sums + i * b->s->value_columns, b->m.sum[i], b->m.line);
}

static void begin_block(const query_block *b) {
  take_queries(b);
  memset(b->m.sums, 0, (size_t)(b->n * b->s->value_columns) * sizeof(float));
  for (int64_t i = 0; i < b->columns; i++) b->m.most[i] = -INFINITY, b->m.sum[i] = 0;
}

/* ---- running ---- */

typedef struct attention_job {
  const attention_state *s;
  const reed_kernel_buffers *buffers;
} attention_job;

static int64_t query_blocks(const attention_state *s) {
  return (s->a.queries + s->block_queries - 1) / s->block_queries;
}

/* Item number `item` of (batch, head, block of queries), in a worker's memory. */
static query_block block_at(const attention_job *job, int64_t item, int32_t worker) {
  const attention_state *s = job->s;
  const attention *a = &s->a;
  const int64_t blocks = query_blocks(s);
  query_block b = {.s = s,
                   .buffers = job->buffers,
                   .m = scratch_at(s, (float *)job->buffers->workspace + worker * s->scratch_floats),
                   .first = item % blocks * s->block_queries,
                   .head = item / blocks % a->heads,
                   .batch = item / blocks / a->heads};
  b.n = a->queries - b.first < s->block_queries ? a->queries - b.first : s->block_queries;
  b.columns = (b.n + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
  b.reach = attention_reach_of(a, job->buffers, b.batch);
  return b;
}

/* Items begin..end. */
static void attend_range(void *context, int64_t begin, int64_t end, int32_t worker) {
  const attention_job *job = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&job->s->a.team); i++) {
    const query_block b = block_at(job, i, worker);
    const met_keys met = keys_met(job->s, &b.reach, b.first, b.n);
    begin_block(&b);
    for (int64_t k = 0; k < met.n_blocks; k++) take_block(&b, &met, k);
    give_rows(&b);
  }
}

/* A step of an item: some blocks of keys. The place's memory keeps the item's softmax from step to step. */
static bool attend_step(void *context, int64_t item, int64_t step, int32_t place) {
  const attention_job *job = context;
  const attention_state *s = job->s;
  const query_block b = block_at(job, item, place);
  const met_keys met = keys_met(s, &b.reach, b.first, b.n);
  if (step == 0) begin_block(&b);
  int64_t k = step * s->step_blocks, end = k + s->step_blocks;
  for (; k < end && k < met.n_blocks; k++) take_block(&b, &met, k);
  if (k < met.n_blocks) return true;
  give_rows(&b);
  return false;
}

/* The steps of all items. */
static int64_t count_steps(const attention_job *job) {
  const attention_state *s = job->s;
  const attention *a = &s->a;
  int64_t n_steps = 0;
  for (int64_t batch = 0; batch < a->batch; batch++) {
    const attention_reach reach = attention_reach_of(a, job->buffers, batch);
    for (int64_t i = 0; i < a->queries; i += s->block_queries) {
      const met_keys met =
          keys_met(s, &reach, i, a->queries - i < s->block_queries ? a->queries - i : s->block_queries);
      n_steps += met.n_blocks > 0 ? (met.n_blocks + s->step_blocks - 1) / s->step_blocks : 1;
    }
  }
  return n_steps * a->heads;
}

static reed_status run_attention(const void *state, const reed_kernel_buffers *buffers) {
  const attention_state *s = state;
  attention_job job = {s, buffers};
  reed_status status = attention_write_present(&s->a, buffers);
  if (status != REED_OK) return status;
  const int64_t n = s->a.batch * s->a.heads * query_blocks(s);
  status = s->step_blocks ? cpu_relay(s->a.team, n, count_steps(&job), attend_step, &job)
                          : cpu_parallel_scratch(s->a.team, n, 1, attend_range, &job);
  if (status == REED_OK)
    attention_give_hidden(s, buffers, (float *)buffers->workspace + s->a.team.threads * s->scratch_floats);
  return status;
}

/* Chooses the queries and keys of a block, and the blocks of a step: 0 if an item is no longer than a step. They follow
 * from the extents alone. */
static void choose_steps(attention_state *s) {
  const attention *a = &s->a;
  const int64_t wide = a->size + s->value_columns;
  const bool converts = s->load_k || s->load_v; /* every block of queries anew */
  s->block_queries = !converts && QUERIES * KEYS_WANTED * wide > STEP_PRODUCTS ? QUERIES_LEAST : QUERIES;
  int64_t columns = a->queries < s->block_queries ? (a->queries + LANES_MOST - 1) / LANES_MOST * LANES_MOST
                                                  : s->block_queries,
          keys = STEP_PRODUCTS / (columns * wide) / KEYS_GRAIN * KEYS_GRAIN;
  s->block_keys = keys > KEYS ? KEYS : keys > KEYS_GRAIN ? keys : KEYS_GRAIN;
  s->step_blocks = STEP_PRODUCTS / (columns * wide * s->block_keys);
  if (s->step_blocks < 1) s->step_blocks = 1;
  if (a->total <= s->step_blocks * s->block_keys) s->step_blocks = 0;
}

reed_status attention_prepare_blocks(attention_state *s, reed_kernel *out_kernel) {
  const attention *a = &s->a;
  s->scratch_floats = (scratch_floats(s) + 15) / 16 * 16;
  choose_steps(s);
  int64_t work = a->batch * a->heads * a->queries * (a->total + 5) * (a->size + a->value_size + 8);
  s->a.team = cpu_team_for(a->team, work);
  cpu_kernel_set(out_kernel, run_attention, s);
  out_kernel->workspace_bytes =
      (s->a.team.threads * s->scratch_floats + attention_spare_floats(s)) * (int64_t)sizeof(float);
  return REED_OK;
}
