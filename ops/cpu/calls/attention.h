/* An Attention call read as extents and strides, all in elements, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_ATTENTION_H_
#define OPS_CPU_CALLS_ATTENTION_H_

#include "ops/cpu/common/common.h"

/* A tensor [batch, heads, length, size] in memory; the elements of a head's row are contiguous. A tensor with room
 * along the length (reed_room) has heads further apart. */
typedef struct attention_view {
  reed_dtype dtype; /* REED_NONE: absent */
  int64_t batch, head, row;
  int64_t element; /* bytes */
} attention_view;

typedef struct attention {
  cpu_team team;
  cpu_level level;
  int64_t batch, heads, kv_heads, queries, size, value_size;
  int64_t past, keys, total; /* number of keys of earlier calls, of this call, of both */
  attention_view q, k, v, past_k, past_v, present_k, present_v, y;
  reed_dtype mask_dtype;   /* REED_NONE: no mask */
  int64_t mask_strides[4]; /* of [batch, heads, queries, keys]; 0: repeated */
  int64_t mask_keys;       /* keys from here on are masked */
  int64_t before, after;   /* a query looks at keys from `before` places before its own to `after` places after it */
  bool to_last_key;        /* the last query's place is the last key */
  bool has_lengths;
  int64_t nan_rows;      /* op.def */
  double scale, softcap; /* softcap 0: none */
  double hidden;         /* the score of a key that a bool mask hides */
  double outside;        /* the score of a key outside of the windows: -inf, or at most ATTENTION_LOW */
  int64_t mode;          /* which scores qk_matmul_output holds */
} attention;

/* Reads a call whose shape function has passed; ERROR_SHAPE for a mask that does not fit, ERROR_VALUE for attributes.
 */
reed_status attention_read(const reed_kernel_call *call, attention *out_attention) REED_MUST_CHECK;
/* True if the views have the strides of all rooms of the call (reed_kernel.reads_rooms). */
bool attention_reads_rooms(const reed_kernel_call *call);

/* Such a mask swallows any score: the sum is the mask. */
#define ATTENTION_LOW -1e30

/* The keys of one batch: their number, and the key at the place of query 0. */
typedef struct attention_reach {
  int64_t keys, offset;
} attention_reach;
static inline attention_reach attention_reach_of(const attention *a, const reed_kernel_buffers *buffers,
                                                 int64_t batch) {
  if (!a->has_lengths) return (attention_reach){a->total, a->to_last_key ? a->total - a->queries : a->past};
  int64_t length = ((const int64_t *)buffers->inputs[6])[batch];
  length = length < 0 ? 0 : length > a->total ? a->total : length;
  return (attention_reach){length, a->past ? a->past : length - a->queries};
}

/* The keys that query i may look at by its place: from the first up to, and without, the end. */
#define ATTENTION_ANY_DISTANCE (INT64_MAX / 4)
static inline int64_t attention_first(const attention *a, const attention_reach *reach, int64_t i) {
  int64_t first = i + reach->offset - a->before;
  return first < 0 ? 0 : first;
}
static inline int64_t attention_end(const attention *a, const attention_reach *reach, int64_t i) {
  int64_t end = i + reach->offset + a->after + 1;
  return end > reach->keys ? reach->keys : end < 0 ? 0 : end;
}

#endif
