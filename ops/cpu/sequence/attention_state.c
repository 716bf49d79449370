/* The parts of an Attention kernel's run that do not depend on the number of queries (attention_state.h). */
#include "ops/cpu/sequence/attention_state.h"

#include <math.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_loops.h"

/* ---- the cache of keys and values ---- */

typedef struct present_job {
  const attention *a;
  const char *past, *now; /* past NULL: these rows are at their places */
  char *to;
  const attention_view *past_view, *now_view, *to_view;
  int64_t row_bytes, element;
} present_job;

static void copy_rows(const present_job *job, char *to, const attention_view *v, const char *from, int64_t n) {
  int64_t from_row = v->row * job->element, to_row = job->to_view->row * job->element;
  if (from_row == job->row_bytes && to_row == job->row_bytes) memcpy(to, from, (size_t)(n * job->row_bytes));
  else
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_row, from + i * from_row, (size_t)job->row_bytes);
}

static void write_heads(void *context, int64_t begin, int64_t end) {
  const present_job *job = context;
  const attention *a = job->a;
  for (int64_t i = begin; i < end; i++) {
    int64_t b = i / a->kv_heads, h = i % a->kv_heads;
    char *to = (char *)attention_row(job->to_view, job->to, b, h, 0);
    if (a->past && job->past)
      copy_rows(job, to, job->past_view, attention_row(job->past_view, job->past, b, h, 0), a->past);
    if (a->keys)
      copy_rows(job, to + a->past * job->to_view->row * job->element, job->now_view,
                attention_row(job->now_view, job->now, b, h, 0), a->keys);
  }
}

static bool same_places(const attention_view *a, const attention_view *b) {
  return a->batch == b->batch && a->head == b->head && a->row == b->row;
}

static reed_status write_one(const attention *a, const reed_kernel_buffers *buffers, int32_t input,
                             const attention_view *now, const attention_view *past, const attention_view *to,
                             int64_t size) {
  int64_t element = (int64_t)reed_dtype_bytes(to->dtype), n = a->batch * a->kv_heads;
  if (to->dtype == REED_NONE || size == 0 || n == 0 || a->total == 0) return REED_OK;
  const void *earlier = a->past ? buffers->inputs[input + 3] : NULL;
  bool in_place = earlier == buffers->outputs[input] && same_places(past, to);
  present_job job = {.a = a,
                     .past = in_place ? NULL : earlier,
                     .now = buffers->inputs[input],
                     .to = buffers->outputs[input],
                     .past_view = past,
                     .now_view = now,
                     .to_view = to,
                     .row_bytes = size * element,
                     .element = element};
  int64_t rows = job.past ? a->total : a->keys;
  return cpu_parallel(cpu_team_for(a->team, n * rows * job.row_bytes), n, 1, write_heads, &job);
}

reed_status attention_write_present(const attention *a, const reed_kernel_buffers *buffers) {
  reed_status status = write_one(a, buffers, 1, &a->k, &a->past_k, &a->present_k, a->size);
  return status != REED_OK ? status : write_one(a, buffers, 2, &a->v, &a->past_v, &a->present_v, a->value_size);
}

/* ---- operands and results ---- */

const float *attention_rows(const char *from, const attention_view *v, convert_fn load, int64_t n, int64_t size,
                            int64_t width, float *to, int64_t *out_row) {
  if (!load && size == width) return *out_row = v->row, (const float *)from;
  const int64_t distance = v->row * v->element;
  *out_row = width;
  if (load && size == width && v->row == size) return load(to, from, n * size), to; /* a call a row costs most of it */
  for (int64_t j = 0; j < n; j++) {
    if (load) load(to + j * width, from + j * distance, size);
    else memcpy(to + j * width, from + j * distance, (size_t)size * sizeof(float));
    memset(to + j * width + size, 0, (size_t)(width - size) * sizeof(float));
  }
  return to;
}

value_rows attention_values(const attention_state *s, const attention_view *v, const char *from, int64_t n, float *to) {
  const int64_t size = s->a.value_size, beyond = s->value_columns - size;
  value_rows rows = {.n = n, .n_whole = n};
  if (!s->load_v && beyond && v->row > 0) {
    int64_t last = (beyond + v->row - 1) / v->row; /* rows whose columns would reach behind the last row */
    rows.n_whole = last < n ? n - last : 0;
    rows.row = v->row;
    rows.whole = (const float *)from;
    from += rows.n_whole * v->row * v->element;
    rows.rest = attention_rows(from, v, NULL, n - rows.n_whole, size, s->value_columns, to, &(int64_t){0});
  } else rows.whole = attention_rows(from, v, s->load_v, n, size, s->value_columns, to, &rows.row);
  return rows;
}

void attention_weigh_values(const attention_state *s, float *sums, const float *weights, int64_t row, int64_t column,
                            int64_t rows, const value_rows *v) {
  const int64_t columns = s->value_columns, n_rest = v->n - v->n_whole;
  CPU_PICK(s->a.level, multiply_add)
  (sums, columns, weights, row, column, v->whole, v->row, rows, columns, v->n_whole);
  if (n_rest) CPU_PICK(s->a.level, multiply_add)
  (sums, columns, weights + v->n_whole * column, row, column, v->rest, columns, rows, columns, n_rest);
}

void attention_cap(const attention *a, float *scores, int64_t n) {
  const float cap = (float)a->softcap;
  for (int64_t i = 0; cap > 0 && i < n; i++) scores[i] = cap * tanhf(scores[i] / cap);
}

void attention_mask_query(const attention_state *s, const void *mask, const int64_t *place, int64_t n, float *column,
                          int64_t columns, float *line) {
  const attention *a = &s->a;
  int64_t step = a->mask_strides[3], at = 0;
  if (n <= 0) return;
  for (int32_t d = 0; d < 4; d++) at += place[d] * a->mask_strides[d];
  const char *from = (const char *)mask + at * (int64_t)reed_dtype_bytes(a->mask_dtype);
  if (a->mask_dtype == REED_BOOL) {
    for (int64_t j = 0; j < n; j++)
      if (!from[j * step]) column[j * columns] = (float)a->hidden;
    return;
  }
  const float *numbers = (const float *)from;
  if (s->load_mask) s->load_mask(line, from, step ? n : 1), numbers = line;
  for (int64_t j = 0; j < n; j++) column[j * columns] += numbers[j * step];
}

void attention_mask_queries(const attention_state *s, const void *mask, const int64_t *place, int64_t n_queries,
                            int64_t n, float *scores, int64_t columns, float *line) {
  const attention *a = &s->a;
  const bool is_dense = a->mask_dtype == REED_F32 && a->mask_strides[3] == 1;
  if (is_dense && n > 0) {
    int64_t at = 0;
    for (int32_t d = 0; d < 4; d++) at += place[d] * a->mask_strides[d];
    CPU_PICK(a->level, add_transposed)
    (scores, columns, (const float *)mask + at, a->mask_strides[2], n_queries, n);
    return;
  }
  for (int64_t i = 0; a->mask_dtype != REED_NONE && i < n_queries; i++)
    attention_mask_query(s, mask, (const int64_t[]){place[0], place[1], place[2] + i, place[3]}, n, scores + i, columns,
                         line);
}

void attention_give(const attention_state *s, const reed_kernel_buffers *buffers, const int64_t *place,
                    const float *sums, float sum, float *line) {
  const attention *a = &s->a;
  char *to = (char *)attention_row(&a->y, buffers->outputs[0], place[0], place[1], place[2]);
  float *row = s->store ? line : (float *)to, nothing = a->nan_rows > 0 && a->total > 0 ? NAN : 0;
  if (sum == 0 || (sum != sum && a->nan_rows < 0))
    for (int64_t d = 0; d < a->value_size; d++) row[d] = nothing;
  else CPU_PICK(a->level, scale_row)(1 / sum, sums, row, a->value_size);
  if (s->store) s->store(to, row, a->value_size);
}
