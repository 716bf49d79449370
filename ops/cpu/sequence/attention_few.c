/* Attention of few queries, such as the one that a decoder adds in a step: a product of K with a vector, a softmax, and
 * a product of a vector with V, in one pass over the keys. A block of K and V is read in place, once for all heads that
 * share it, and nothing is packed.
 *
 * Work is shared out by batch, head of K and V, and part of the keys (Dao et al. 2023, "Flash-Decoding for long-context
 * inference"). The parts are PART_KEYS keys each, whatever the number of threads is, so that results have the same bits
 * for every number. Each part leaves a softmax that is not yet divided by its sum; a second loop joins the parts.
 *
 * Many queries: attention.c. The reference: reference/attention.c. */
#include <math.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_loops.h"
#include "ops/cpu/sequence/attention_state.h"

#define PART_KEYS 512
#define KEYS 128 /* of a block; a multiple of LANES_MOST */

/* A thread's memory. A row is a query of a head: head number r / queries of those that share K and V, query
 * r % queries. */
typedef struct scratch {
  float *queries;       /* [rows][size], scaled */
  float *scores;        /* [rows][KEYS] */
  float *keys, *values; /* converted or widened blocks */
  float *line;          /* an output row, or part of a mask's */
} scratch;

/* The softmax of a part: sums of values, and for each row the largest score and the sum of weights. */
typedef struct part {
  float *sums; /* [rows][value_columns] */
  float *most, *sum;
} part;

static int64_t line_floats(const attention_state *s) {
  int64_t most = s->a.size > s->value_columns ? s->a.size : s->value_columns;
  return most > KEYS ? most : KEYS;
}

static int64_t scratch_floats(const attention_state *s) {
  return s->rows * (s->a.size + KEYS) + KEYS * (s->a.size + s->value_columns) + line_floats(s);
}

static scratch scratch_at(const attention_state *s, float *at) {
  scratch m;
  m.scores = at;
  m.values = m.scores + s->rows * KEYS;
  m.keys = m.values + KEYS * s->value_columns;
  m.queries = m.keys + KEYS * s->a.size;
  m.line = m.queries + s->rows * s->a.size;
  return m;
}

static part part_at(const attention_state *s, float *at) {
  return (part){at, at + s->rows * s->value_columns, at + s->rows * (s->value_columns + 1)};
}

typedef struct few_job {
  const attention_state *s;
  const reed_kernel_buffers *buffers;
  float *parts; /* of all items: batch, head of K and V, part of the keys */
} few_job;

/* The keys that an item is about. */
typedef struct item {
  const few_job *job;
  scratch m;
  part p;
  int64_t batch, kv_head, begin, end;
  attention_reach reach;
} item;

/* The head and query of a row of scratch, counted up: with few keys a division is a good part of a row's time. */
typedef struct row_place {
  int64_t head, query;
} row_place;

static row_place first_row(const attention_state *s, int64_t kv_head) { return (row_place){kv_head * s->sharing, 0}; }

static void next_row(const attention_state *s, row_place *at) {
  if (++at->query == s->a.queries) at->query = 0, at->head++;
}

static void take_queries(const item *t) {
  const attention_state *s = t->job->s;
  const attention *a = &s->a;
  row_place at = first_row(s, t->kv_head);
  for (int64_t r = 0; r < s->rows; r++, next_row(s, &at)) {
    const void *row = attention_row(&a->q, t->job->buffers->inputs[0], t->batch, at.head, at.query);
    if (s->load_q) s->load_q(t->m.line, row, a->size), row = t->m.line;
    CPU_PICK(a->level, scale_row)((float)a->scale, row, t->m.queries + r * a->size, a->size);
  }
}

/* Masks the scores of a row and of n keys from number j on. */
static void mask_row(const item *t, row_place at, int64_t j, int64_t n, float *scores) {
  const attention_state *s = t->job->s;
  const attention *a = &s->a;
  int64_t first = attention_first(a, &t->reach, at.query) - j, end = attention_end(a, &t->reach, at.query) - j;
  attention_cap(a, scores, n);
  if (a->mask_keys - j < end) end = a->mask_keys - j;
  if (a->mask_dtype != REED_NONE)
    attention_mask_query(s, t->job->buffers->inputs[3], (const int64_t[]){t->batch, at.head, at.query, j},
                         end < n ? end : n, scores, 1, t->m.line);
  for (int64_t k = 0; k < first && k < n; k++) scores[k] = -INFINITY;
  for (int64_t k = end > 0 ? end : 0; k < n; k++) scores[k] = -INFINITY;
}

/* Processes n keys from number j on; k and v are the first of them. */
static void take_keys(const item *t, const attention_view *kv, const char *k, const attention_view *vv, const char *v,
                      int64_t j, int64_t n) {
  const attention_state *s = t->job->s;
  const attention *a = &s->a;
  int64_t k_row, padded = (n + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
  const float *keys = attention_rows(k, kv, s->load_k, n, a->size, a->size, t->m.keys, &k_row);
  const value_rows values = attention_values(s, vv, v, n, t->m.values);
  CPU_PICK(a->level, score_keys)(t->m.scores, KEYS, t->m.queries, a->size, s->rows, keys, k_row, n, a->size);
  row_place at = first_row(s, t->kv_head);
  for (int64_t r = 0; r < s->rows; r++, next_row(s, &at)) {
    float *scores = t->m.scores + r * KEYS, *sums = t->p.sums + r * s->value_columns;
    mask_row(t, at, j, n, scores);
    for (int64_t i = n; i < padded; i++) scores[i] = -INFINITY;
    float shrink = CPU_PICK(a->level, attend_row)(scores, padded, &t->p.most[r], &t->p.sum[r]);
    if (shrink != 1) CPU_PICK(a->level, scale_row)(shrink, sums, sums, s->value_columns);
  }
  attention_weigh_values(s, t->p.sums, t->m.scores, KEYS, 1, s->rows, &values);
}

/* Processes those keys of the item that lie in one tensor, which has the keys first .. first + n. */
static void take_tensor(const item *t, const attention_view *kv, const void *k, const attention_view *vv, const void *v,
                        int64_t first, int64_t n) {
  int64_t begin = t->begin > first ? t->begin - first : 0, end = t->end < first + n ? t->end - first : n;
  for (int64_t j = begin; j < end; j += KEYS)
    take_keys(t, kv, attention_row(kv, k, t->batch, t->kv_head, j), vv, attention_row(vv, v, t->batch, t->kv_head, j),
              first + j, end - j < KEYS ? end - j : KEYS);
}

/* The weight of a row's single key beside mask and cap: 1, 0 if it is hidden, NaN if its score is infinite or NaN. */
static float masked_weight(const item *t, row_place at) {
  float *score = t->m.scores;
  mask_row(t, at, t->begin, 1, score);
  return *score == -INFINITY ? 0 : *score - *score + 1;
}

/* The item's only row over all its keys, a single block, or its rows over a single key. With `direct` the results are
 * written as well. False: the keys are more, or lie in two tensors. */
static bool take_block(const item *t) {
  const attention_state *s = t->job->s;
  const attention *a = &s->a;
  bool past = t->begin < a->past;
  int64_t n = t->end - t->begin, first = past ? 0 : a->past, k_row;
  if (n > KEYS || (past && t->end > a->past)) return false;
  const attention_view *kv = past ? &a->past_k : &a->k, *vv = past ? &a->past_v : &a->v;
  const void *const *inputs = t->job->buffers->inputs;
  const char *k = attention_row(kv, inputs[past ? 4 : 1], t->batch, t->kv_head, t->begin - first),
             *v = attention_row(vv, inputs[past ? 5 : 2], t->batch, t->kv_head, t->begin - first);
  const float *keys = attention_rows(k, kv, s->load_k, n, a->size, a->size, t->m.keys, &k_row);
  const value_rows values = attention_values(s, vv, v, n, t->m.values);
  row_operands o = {.scale = (float)a->scale,
                    .scaled = t->m.queries,
                    .k = keys,
                    .v = values.whole,
                    .rest = values.rest,
                    .scores = t->m.scores,
                    .k_row = k_row,
                    .v_row = values.row,
                    .n = n,
                    .n_whole = values.n_whole,
                    .size = a->size,
                    .columns = s->value_columns};
  row_place at = first_row(s, t->kv_head);
  for (int64_t r = 0; r < s->rows; r++, next_row(s, &at)) {
    const void *q = attention_row(&a->q, inputs[0], t->batch, at.head, at.query);
    if (s->load_q) s->load_q(t->m.line, q, a->size), q = t->m.line;
    bool sees = attention_first(a, &t->reach, at.query) <= t->begin && attention_end(a, &t->reach, at.query) >= t->end;
    char *y = (char *)attention_row(&a->y, t->job->buffers->outputs[0], t->batch, at.head, at.query);
    o.q = q;
    o.sums = s->direct ? (float *)(void *)y : t->p.sums + r * s->value_columns;
    float *sum = &t->p.sum[r];
    *sum = sees ? CPU_PICK(a->level, attend_whole)(&o) : 0;
    if (sees && s->masked) {
      const float weight = masked_weight(t, at);
      if (weight != *sum)
        CPU_PICK(a->level, scale_row)(weight, values.n_whole ? o.v : o.rest, o.sums, s->value_columns);
      *sum = weight;
    }
    if (s->direct && *sum != 1)
      attention_give(s, t->job->buffers, (const int64_t[]){t->batch, at.head, at.query}, o.sums, *sum, t->m.line);
  }
  return true;
}

/* Divides the joined sums of an item's rows and writes the results. */
static void give_rows(const few_job *job, const part *p, int64_t batch, int64_t kv_head, float *line) {
  const attention_state *s = job->s;
  row_place at = first_row(s, kv_head);
  for (int64_t r = 0; r < s->rows; r++, next_row(s, &at))
    attention_give(s, job->buffers, (const int64_t[]){batch, at.head, at.query}, p->sums + r * s->value_columns,
                   p->sum[r], line);
}

static void attend_parts(void *context, int64_t begin, int64_t end, int32_t worker) {
  const few_job *job = context;
  const attention_state *s = job->s;
  const attention *a = &s->a;
  const void *const *inputs = job->buffers->inputs;
  item t = {.job = job, .m = scratch_at(s, (float *)job->buffers->workspace + worker * s->scratch_floats)};
  int64_t number = begin % s->parts;
  t.kv_head = begin / s->parts % a->kv_heads;
  t.batch = begin / s->parts / a->kv_heads;
  for (int64_t i = begin; i < end && !cpu_cancelled(&a->team); i++) {
    t.reach = attention_reach_of(a, job->buffers, t.batch);
    t.p = part_at(s, job->parts + i * s->part_floats);
    t.begin = attention_first(a, &t.reach, 0);
    t.end = attention_end(a, &t.reach, a->queries - 1);
    if (t.begin < number * PART_KEYS) t.begin = number * PART_KEYS;
    if (t.end > (number + 1) * PART_KEYS) t.end = (number + 1) * PART_KEYS;
    bool done = s->plain && t.begin < t.end && take_block(&t);
    if (!done) {
      memset(t.p.sums, 0, (size_t)(s->rows * s->value_columns) * sizeof(float));
      for (int64_t r = 0; r < s->rows; r++) t.p.most[r] = -INFINITY, t.p.sum[r] = 0;
    }
    if (!done && t.begin < t.end) {
      take_queries(&t);
      if (a->past) take_tensor(&t, &a->past_k, inputs[4], &a->past_v, inputs[5], 0, a->past);
      take_tensor(&t, &a->k, inputs[1], &a->v, inputs[2], a->past, a->keys);
    }
    if (s->parts == 1 && !(done && s->direct)) give_rows(job, &t.p, t.batch, t.kv_head, t.m.line);
    if (++number == s->parts) number = 0, t.kv_head++;
    if (t.kv_head == a->kv_heads) t.kv_head = 0, t.batch++;
  }
}

/* Joins the parts of items begin .. end of (batch, head of K and V) into their first part. */
static void join_parts(void *context, int64_t begin, int64_t end, int32_t worker) {
  const few_job *job = context;
  const attention_state *s = job->s;
  scratch m = scratch_at(s, (float *)job->buffers->workspace + worker * s->scratch_floats);
  for (int64_t i = begin; i < end; i++) {
    part all = part_at(s, job->parts + i * s->parts * s->part_floats);
    for (int64_t k = 1; k < s->parts; k++) {
      part p = part_at(s, job->parts + (i * s->parts + k) * s->part_floats);
      for (int64_t r = 0; r < s->rows; r++) {
        if (p.sum[r] == 0) continue;
        float most = p.most[r] > all.most[r] || p.most[r] != p.most[r] ? p.most[r] : all.most[r];
        float shrink = all.sum[r] == 0 ? 0 : expf(all.most[r] - most), added = expf(p.most[r] - most);
        float *sums = all.sums + r * s->value_columns;
        CPU_PICK(s->a.level, scale_row)(shrink, sums, sums, s->value_columns);
        CPU_PICK(s->a.level, axpy)(added, p.sums + r * s->value_columns, sums, s->value_columns);
        all.sum[r] = all.sum[r] * shrink + p.sum[r] * added;
        all.most[r] = most;
      }
    }
    give_rows(job, &all, i / s->a.kv_heads, i % s->a.kv_heads, m.line);
  }
}

static reed_status run_few(const void *state, const reed_kernel_buffers *buffers) {
  const attention_state *s = state;
  const attention *a = &s->a;
  few_job job = {s, buffers, (float *)buffers->workspace + a->team.threads * s->scratch_floats};
  reed_status status = attention_write_present(a, buffers);
  int64_t n = a->batch * a->kv_heads;
  if (status == REED_OK) status = cpu_parallel_scratch(a->team, n * s->parts, 1, attend_parts, &job);
  cpu_team team = cpu_team_for(a->team, n * s->parts * s->part_floats * 8);
  if (status == REED_OK && s->parts > 1) status = cpu_parallel_scratch(team, n, 1, join_parts, &job);
  if (status == REED_OK) attention_give_hidden(s, buffers, job.parts + n * s->parts * s->part_floats);
  return status;
}

reed_status attention_prepare_few(attention_state *s, reed_kernel *out_kernel) {
  const attention *a = &s->a;
  int64_t n = a->batch * a->kv_heads;
  s->sharing = a->heads / a->kv_heads;
  s->rows = s->sharing * a->queries;
  s->parts = a->total > PART_KEYS ? (a->total + PART_KEYS - 1) / PART_KEYS : 1;
  s->masked = a->mask_dtype != REED_NONE || a->softcap > 0;
  s->direct = a->total == 1 && !s->store && s->value_columns == a->value_size;
  s->plain = a->total == 1 || (s->rows == 1 && s->parts == 1 && !s->masked);
  s->part_floats = (s->rows * (s->value_columns + 2) + 15) / 16 * 16;
  s->scratch_floats = (scratch_floats(s) + 15) / 16 * 16;
  int64_t work = n * a->total * ((a->size + a->value_size) * (4 + s->rows / 2) + s->rows * 8);
  s->a.team = cpu_team_for(a->team, work);
  cpu_kernel_set(out_kernel, run_few, s);
  out_kernel->workspace_bytes =
      (s->a.team.threads * s->scratch_floats + n * s->parts * s->part_floats + attention_spare_floats(s)) *
      (int64_t)sizeof(float);
  return REED_OK;
}
