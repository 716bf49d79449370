/* Rows of Attention whose keys within the windows are all hidden by the mask, where keys outside of the windows have a
 * low score instead of none (hidden_score): as a model computes them that adds the lowest number for padding and for
 * the causal mask. All scores of such a row are swallowed by their masks, so the weights follow from the masks alone.
 */
#include <math.h>

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/sequence/attention_state.h"

int64_t attention_spare_floats(const attention_state *s) {
  return s->a.outside == -INFINITY ? 0 : s->a.total + 3 * s->value_columns;
}

/* The mask of key j of the query at `place`. */
static float mask_at(const attention_state *s, const void *mask, const int64_t *place, int64_t j) {
  const attention *a = &s->a;
  if (a->mask_dtype == REED_NONE) return 0;
  if (j >= a->mask_keys) return -INFINITY;
  int64_t at = j * a->mask_strides[3];
  for (int32_t d = 0; d < 3; d++) at += place[d] * a->mask_strides[d];
  const char *from = (const char *)mask + at * (int64_t)reed_dtype_bytes(a->mask_dtype);
  float number = 0;
  if (a->mask_dtype == REED_BOOL) return *from ? 0 : (float)a->hidden;
  if (!s->load_mask) return *(const float *)from;
  s->load_mask(&number, from, 1);
  return number;
}

/* True if some key within the windows is not hidden. Usually the first one is not, or the first after some padding. */
static bool has_shown(const attention_state *s, const void *mask, const int64_t *place, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; j++)
    if (!(mask_at(s, mask, place, j) <= ATTENTION_LOW)) return true;
  return false;
}

/* The weights of all keys, by their masks; returns their sum. */
static float weigh_by_masks(const attention_state *s, const void *mask, const int64_t *place, int64_t begin,
                            int64_t end, int64_t keys, float *weights) {
  float most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; j++) {
    weights[j] = mask_at(s, mask, place, j);
    if ((j < begin || j >= end) && !(weights[j] <= ATTENTION_LOW)) weights[j] += (float)s->a.outside;
    if (weights[j] > most) most = weights[j];
  }
  if (most == -INFINITY) return 0;
  for (int64_t j = 0; j < keys; j++) sum += weights[j] = expf(weights[j] - most);
  return sum;
}

static void give_weighted(const attention_state *s, const reed_kernel_buffers *buffers, const int64_t *place,
                          int64_t keys, const float *weights, float sum, float *spare) {
  const attention *a = &s->a;
  float *sums = spare, *values = spare + s->value_columns, *line = spare + 2 * s->value_columns;
  int64_t head = place[1] / (a->heads / a->kv_heads), row;
  memset(sums, 0, (size_t)s->value_columns * sizeof(float));
  for (int64_t j = 0; j < keys; j++) {
    bool past = j < a->past;
    const attention_view *v = past ? &a->past_v : &a->v;
    const char *from = attention_row(v, buffers->inputs[past ? 5 : 2], place[0], head, past ? j : j - a->past);
    const float *numbers = attention_rows(from, v, s->load_v, 1, a->value_size, s->value_columns, values, &row);
    if (weights[j] != 0) CPU_PICK(a->level, axpy)(weights[j], numbers, sums, s->value_columns);
  }
  attention_give(s, buffers, place, sums, sum, line);
}

void attention_give_hidden(const attention_state *s, const reed_kernel_buffers *buffers, float *spare) {
  const attention *a = &s->a;
  if (a->outside == -INFINITY) return;
  const void *mask = a->mask_dtype != REED_NONE ? buffers->inputs[3] : NULL;
  float *weights = spare + 3 * s->value_columns, sum = 0;
  for (int64_t b = 0; b < a->batch; b++) {
    const attention_reach reach = attention_reach_of(a, buffers, b);
    for (int64_t i = 0; i < a->queries; i++) {
      int64_t begin = attention_first(a, &reach, i), end = attention_end(a, &reach, i);
      bool hidden = false;
      for (int64_t h = 0; h < a->heads; h++) {
        int64_t place[] = {b, h, i};
        if (h == 0 || (mask && a->mask_strides[1])) {
          hidden = !has_shown(s, mask, place, begin, end);
          if (hidden) sum = weigh_by_masks(s, mask, place, begin, end, reach.keys, weights);
        }
        if (hidden) give_weighted(s, buffers, place, reach.keys, weights, sum, spare);
      }
    }
  }
}
