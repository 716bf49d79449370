/* Attention in double, a query at a time: all its scores, their softmax, the sum of values. The kernel:
 * ops/cpu/sequence/attention.c. */
#include <math.h>

#include "ops/cpu/calls/attention.h"
#include "ops/cpu/common/common.h"

static void *place(const attention_view *v, const void *data, int64_t batch, int64_t head, int64_t row, int64_t i) {
  int64_t at = batch * v->batch + head * v->head + row * v->row + i;
  return (char *)data + at * (int64_t)reed_dtype_bytes(v->dtype);
}

static double element(const attention_view *v, const void *data, int64_t batch, int64_t head, int64_t row, int64_t i) {
  return reed_dtype_read(v->dtype, place(v, data, batch, head, row, i));
}

/* Element i of key or value number j (input 1 or 2); keys and values of earlier calls are inputs 4 and 5. */
static double kv_element(const attention *a, const reed_kernel_buffers *buffers, int32_t input, int64_t batch,
                         int64_t head, int64_t j, int64_t i) {
  const attention_view *past = input == 1 ? &a->past_k : &a->past_v, *now = input == 1 ? &a->k : &a->v;
  if (j < a->past) return element(past, buffers->inputs[input + 3], batch, head, j, i);
  return element(now, buffers->inputs[input], batch, head, j - a->past, i);
}

/* Writes earlier and new keys (input 1) or values (input 2) of `size` elements to the output of this number. */
static void write_present(const attention *a, const reed_kernel_buffers *buffers, int32_t input,
                          const attention_view *to, int64_t size) {
  const attention_view *past = input == 1 ? &a->past_k : &a->past_v, *now = input == 1 ? &a->k : &a->v;
  if (to->dtype == REED_NONE || size == 0) return;
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t h = 0; h < a->kv_heads; h++)
      for (int64_t j = 0; j < a->total; j++) {
        bool earlier = j < a->past;
        const void *from = earlier ? place(past, buffers->inputs[input + 3], b, h, j, 0)
                                   : place(now, buffers->inputs[input], b, h, j - a->past, 0);
        memcpy(place(to, buffers->outputs[input], b, h, j, 0), from, (size_t)size * reed_dtype_bytes(to->dtype));
      }
}

typedef struct query {
  int64_t batch, head, kv_head, i;
} query;

/* The score x of key j under the mask. */
static double masked(const attention *a, const reed_kernel_buffers *buffers, const query *q, int64_t j, double x) {
  attention_reach reach = attention_reach_of(a, buffers, q->batch);
  if (j >= reach.keys || j >= a->mask_keys) return -INFINITY;
  bool outside = j < attention_first(a, &reach, q->i) || j >= attention_end(a, &reach, q->i);
  if (outside && a->outside == -INFINITY) return -INFINITY;
  if (a->mask_dtype == REED_NONE && outside) return x + a->outside;
  if (a->mask_dtype == REED_NONE) return x;
  int64_t at =
      q->batch * a->mask_strides[0] + q->head * a->mask_strides[1] + q->i * a->mask_strides[2] + j * a->mask_strides[3];
  double mask =
      reed_dtype_read(a->mask_dtype, (const char *)buffers->inputs[3] + at * (int64_t)reed_dtype_bytes(a->mask_dtype));
  if (a->mask_dtype == REED_BOOL) return mask != 0 && !outside ? x : a->hidden;
  return x + mask + (outside && !(mask <= ATTENTION_LOW) ? a->outside : 0);
}

/* Writes the scores of stage `mode` to qk_matmul_output. */
static void note_score(const attention *a, const reed_kernel_buffers *buffers, reed_dtype dtype, const query *q,
                       int64_t j, int64_t mode, double x) {
  if (dtype == REED_NONE || mode != a->mode) return;
  int64_t at = ((q->batch * a->heads + q->head) * a->queries + q->i) * a->total + j;
  reed_dtype_write(dtype, (char *)buffers->outputs[3] + at * (int64_t)reed_dtype_bytes(dtype), x);
}

/* Scores of a query, then their softmax. */
static void weigh(const attention *a, const reed_kernel_buffers *buffers, reed_dtype noted, const query *q,
                  double *scores) {
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->total; j++) {
    double x = 0;
    for (int64_t d = 0; d < a->size; d++)
      x += element(&a->q, buffers->inputs[0], q->batch, q->head, q->i, d) *
           kv_element(a, buffers, 1, q->batch, q->kv_head, j, d);
    x *= a->scale;
    note_score(a, buffers, noted, q, j, 0, x);
    if (a->softcap > 0) x = a->softcap * tanh(x / a->softcap);
    note_score(a, buffers, noted, q, j, 1, x);
    x = masked(a, buffers, q, j, x);
    note_score(a, buffers, noted, q, j, 2, x);
    scores[j] = x;
    if (x > most || x != x) most = x;
  }
  double from = most == -INFINITY ? 0 : most;
  for (int64_t j = 0; j < a->total; j++) sum += scores[j] = exp(scores[j] - from);
  for (int64_t j = 0; j < a->total; j++) {
    if (sum == 0) scores[j] = a->nan_rows > 0 ? NAN : 0;
    else scores[j] = sum != sum && a->nan_rows < 0 ? 0 : scores[j] / sum;
    note_score(a, buffers, noted, q, j, 3, scores[j]);
  }
}

typedef struct reference_attention {
  attention a;
  reed_dtype noted; /* of qk_matmul_output; REED_NONE: not wanted */
  bool has_results; /* else keys may be any number */
} reference_attention;

static reed_status run(const void *state, const reed_kernel_buffers *buffers) {
  const reference_attention *s = state;
  const attention *a = &s->a;
  double *scores = buffers->workspace;
  size_t bytes = reed_dtype_bytes(a->y.dtype);
  write_present(a, buffers, 1, &a->present_k, a->size);
  write_present(a, buffers, 2, &a->present_v, a->value_size);
  if (!s->has_results) return REED_OK;
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t h = 0; h < a->heads; h++)
      for (int64_t i = 0; i < a->queries; i++) {
        query q = {b, h, h / (a->heads / a->kv_heads), i};
        weigh(a, buffers, s->noted, &q, scores);
        for (int64_t d = 0; d < a->value_size; d++) {
          double y = 0;
          for (int64_t j = 0; j < a->total; j++) {
            double v = kv_element(a, buffers, 2, b, q.kv_head, j, d);
            if (scores[j] != 0) y += scores[j] * v; /* masked values may be anything */
          }
          reed_dtype_write(
              a->y.dtype,
              (char *)buffers->outputs[0] + (size_t)(b * a->y.batch + h * a->y.head + i * a->y.row + d) * bytes, y);
        }
      }
  return REED_OK;
}

reed_status reference_prepare_attention(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reference_attention s = {0};
  reed_status status = attention_read(call, &s.a);
  if (status != REED_OK) return status;
  if (call->n_outputs > 3) s.noted = call->outputs[3].dtype;
  s.has_results = s.a.value_size > 0 || s.noted != REED_NONE;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run, state);
  out_kernel->reads_rooms = attention_reads_rooms(call);
  if (s.has_results) out_kernel->workspace_bytes = s.a.total * (int64_t)sizeof(double);
  return REED_OK;
}
