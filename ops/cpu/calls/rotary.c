/* Reading a RotaryEmbedding call: heads, pairs of elements, and how the caches lie. */
#include "ops/cpu/calls/rotary.h"

reed_status rotary_read(const reed_kernel_call *call, rotary *r) {
  const reed_desc *x = &call->inputs[0], *cos = &call->inputs[1], *sin = &call->inputs[2];
  bool flat = x->rank == 3, ids = cpu_present(call, 3), interleaved = op_attr_int(call->attrs, "interleaved") != 0;
  *r = (rotary){.team = cpu_env_team(call), .level = cpu_level_now()};
  r->batch = x->dims[0];
  r->heads = flat ? reed_attrs_int(call->attrs, "num_heads", 1) : x->dims[1];
  r->length = x->dims[flat ? 1 : 2];
  r->size = flat ? x->dims[2] / r->heads : x->dims[3];
  r->x_batch = r->heads * r->length * r->size;
  r->x_head = flat ? r->size : r->length * r->size;
  r->x_row = flat ? r->heads * r->size : r->size;
  int64_t turned = op_attr_int(call->attrs, "rotary_embedding_dim");
  if (turned == 0) turned = r->size;
  if (turned > r->size || turned % 2)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "turns %lld of a head's %lld elements", (long long)turned,
                            (long long)r->size);
  r->pairs = turned / 2;
  r->apart = interleaved ? 1 : r->pairs;
  r->step = interleaved ? 2 : 1;
  r->cache_row = cos->dims[cos->rank - 1];
  bool full = r->pairs > 0 && r->cache_row == turned;
  r->cache_step = full ? r->step : 1;
  r->cache_apart = full ? r->apart : 0;
  r->places = ids ? cos->dims[0] : -1;
  r->cache_batch = ids || cos->dims[0] == 1 ? 0 : r->length * r->cache_row;
  bool fits = cos->rank == sin->rank && (full || r->cache_row == r->pairs);
  for (int32_t d = 0; d < cos->rank && fits; d++) fits = cos->dims[d] == sin->dims[d];
  if (!ids) fits = fits && (cos->dims[0] == r->batch || cos->dims[0] == 1) && cos->dims[1] == r->length;
  if (fits) return REED_OK;
  char a[96], b[96];
  return reed_kernel_fail(call, REED_ERROR_SHAPE, "the caches %s and %s do not fit %lld pairs at %lld places",
                          desc_text(cos, a, sizeof a), desc_text(sin, b, sizeof b), (long long)r->pairs,
                          (long long)r->length);
}
