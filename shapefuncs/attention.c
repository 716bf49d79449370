/* Attention and RotaryEmbedding (ONNX opset 23): Q, K, V and X are [batch, heads, length, size], or [batch, length,
 * heads * size] with the numbers of heads as attributes. Common helpers: call.h. */
#include "shapefuncs/call.h"

typedef struct heads {
  reed_dim batch, heads, length, size;
} heads;

/* Splits input i into heads: an input of rank 3 has n heads in its last axis. */
static reed_status split(reed_shape_call *call, int32_t i, int64_t n, heads *out) {
  const reed_dim *dims = call->inputs[i].dims;
  reed_status status = shapecall_rank(call, i, call->inputs[0].rank);
  if (status) return status;
  if (call->inputs[0].rank == 4) return *out = (heads){dims[0], dims[1], dims[2], dims[3]}, REED_OK;
  if (n < 1) return reed_shape_fail(call, REED_ERROR_SHAPE, i, "of rank 3 needs its number of heads as an attribute");
  if (reed_dim_known(call, dims[2]) && dims[2] % n)
    return reed_shape_fail(call, REED_ERROR_SHAPE, i, "%lld columns in %lld heads", (long long)dims[2], (long long)n);
  *out = (heads){dims[0], n, dims[1], reed_dim_floordiv(call, dims[2], n)};
  return REED_OK;
}

/* Checks the keys or values of earlier calls: [batch, heads, earlier, size]. */
static reed_status check_past(reed_shape_call *call, int32_t i, const heads *now) {
  const reed_dim *dims = call->inputs[i].dims;
  reed_status status = shapecall_rank(call, i, 4);
  if (!status) status = shapecall_same(call, now->batch, dims[0], i, "the batches", NULL);
  if (!status) status = shapecall_same(call, now->heads, dims[1], i, "the numbers of heads", NULL);
  return status ? status : shapecall_same(call, now->size, dims[3], i, "the sizes of a head", NULL);
}

reed_status shapefn_attention(reed_shape_call *call) {
  heads q, k, v;
  int64_t n_queries = reed_attrs_int(call->attrs, "q_num_heads", 0),
          n_keys = reed_attrs_int(call->attrs, "kv_num_heads", 0);
  int32_t rank = call->inputs[0].rank;
  if (rank != 3 && rank != 4) return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "is of rank %d, not 3 or 4", rank);
  reed_status status = split(call, 0, n_queries, &q);
  if (!status) status = split(call, 1, n_keys, &k);
  if (!status) status = split(call, 2, n_keys, &v);
  if (!status) status = shapecall_same(call, q.batch, k.batch, 1, "the batches", NULL);
  if (!status) status = shapecall_same(call, q.batch, v.batch, 2, "the batches", NULL);
  if (!status) status = shapecall_same(call, k.heads, v.heads, 2, "the numbers of heads", NULL);
  if (!status) status = shapecall_same(call, q.size, k.size, 1, "the sizes of a head", NULL);
  if (!status) status = shapecall_same(call, k.length, v.length, 2, "the lengths", NULL);
  if (status) return status;
  if (reed_dim_known(call, q.heads) && reed_dim_known(call, k.heads) &&
      (k.heads < 1 ? q.heads != 0 : q.heads % k.heads != 0))
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "%lld heads cannot be shared by %lld", (long long)k.heads,
                           (long long)q.heads);
  if (shapecall_has(call, 4) != shapecall_has(call, 5))
    return reed_shape_fail(call, REED_ERROR_SHAPE, 4, "past_key and past_value come together");
  reed_dim total = k.length;
  if (shapecall_has(call, 4)) {
    const reed_dtype values = call->inputs[2].dtype, earlier = call->inputs[5].dtype;
    if (earlier != values)
      return reed_shape_fail(call, REED_ERROR_TYPE, 5, "is %s where V is %s", reed_dtype_name(earlier),
                             reed_dtype_name(values));
    status = check_past(call, 4, &k);
    if (!status) status = check_past(call, 5, &v);
    if (!status)
      status = shapecall_same(call, call->inputs[4].dims[2], call->inputs[5].dims[2], 5, "the lengths", NULL);
    if (status) return status;
    total = reed_dim_add(call, call->inputs[4].dims[2], k.length);
  }
  if (rank == 4) shapecall_set(call, 0, 4, (reed_dim[]){q.batch, q.heads, q.length, v.size});
  else shapecall_set(call, 0, 3, (reed_dim[]){q.batch, q.length, reed_dim_mul(call, q.heads, v.size)});
  shapecall_set(call, 1, 4, (reed_dim[]){k.batch, k.heads, total, k.size});
  shapecall_set(call, 2, 4, (reed_dim[]){v.batch, v.heads, total, v.size});
  shapecall_set(call, 3, 4, (reed_dim[]){q.batch, q.heads, q.length, total});
  return REED_OK;
}

reed_status shapefn_rotary_embedding(reed_shape_call *call) {
  heads x;
  int32_t rank = call->inputs[0].rank, cache_rank = shapecall_has(call, 3) ? 2 : 3;
  if (rank != 3 && rank != 4) return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "is of rank %d, not 3 or 4", rank);
  reed_status status = split(call, 0, reed_attrs_int(call->attrs, "num_heads", 0), &x);
  for (int32_t i = 1; i < 3 && !status; i++) {
    const reed_dim *dims = call->inputs[i].dims;
    status = shapecall_rank(call, i, cache_rank);
    for (int32_t d = 0; d < cache_rank && !status; d++)
      status = shapecall_same(call, call->inputs[1].dims[d], dims[d], i, "the extents of the caches", NULL);
    if (!status && cache_rank == 3) status = shapecall_same(call, x.length, dims[1], i, "the lengths", NULL);
  }
  if (!status && cache_rank == 2) {
    status = shapecall_rank(call, 3, 2);
    if (!status) status = shapecall_same(call, x.batch, call->inputs[3].dims[0], 3, "the batches", NULL);
    if (!status) status = shapecall_same(call, x.length, call->inputs[3].dims[1], 3, "the lengths", NULL);
  }
  if (!status) shapecall_like(call, 0, 0);
  return status;
}
