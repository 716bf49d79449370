/* Gather, GatherElements, GatherND. All indices are checked once before anything is read through them; but those of
 * GatherElements, of which there are as many as elements, as they are read. The reference: reference/movement.c. */
#include <stdatomic.h>

#include "ops/cpu/move/movement.h"

/* False: an index is out of range; the row's elements are then of no use. */
typedef bool (*gather_row_fn)(void *out, const void *data, const void *indices, int64_t n, int64_t extent,
                              int64_t along, int64_t step);

typedef struct gather_state {
  reed_dtype index_dtype;
  cpu_team team;
  int32_t n_components;  /* GatherND: length of an index tuple */
  int64_t outer, extent; /* Gather: data is [outer, extent, inner]; GatherND: batches, elements of one batch */
  int64_t n_indices;     /* per outer position; GatherElements: all */
  int64_t block_bytes;   /* copied per index */
  int64_t pieces;        /* Gather, GatherND: of a block, so that a long one is shared out */
  int64_t extents[REED_MAX_RANK], strides[REED_MAX_RANK]; /* GatherND: of the components; GatherElements: of the data */
  int64_t walk[REED_MAX_RANK];                            /* GatherElements: output extents */
  int32_t rank, axis;
  gather_row_fn row; /* GatherElements */
} gather_state;

typedef struct gathering {
  const gather_state *s;
  const char *data;
  const void *indices;
  char *out;
  _Atomic(bool) *fails; /* GatherElements: becomes true where an index is out of range */
} gathering;

/* more: work besides the bytes and the indices. */
static gather_state *open_gather(const reed_kernel_call *call, int64_t more) {
  gather_state *s = mem_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->index_dtype = call->inputs[1].dtype;
  s->team = cpu_team_for(cpu_env_team(call),
                         4 * (desc_bytes(&call->outputs[0]) + 4 * desc_elements(&call->inputs[1])) + more);
  return s;
}

static void set_block(gather_state *s, int64_t bytes) {
  s->block_bytes = bytes;
  s->pieces = bytes > CPU_WORK_PER_CHUNK / 2 ? bytes / (CPU_WORK_PER_CHUNK / 4) : 1;
}

/* Copies piece i % pieces of the block for index i / pieces. */
static void copy_piece(const gather_state *s, char *out, const char *block, int64_t i) {
  int64_t piece = i % s->pieces, begin = s->block_bytes * piece / s->pieces,
          end = s->block_bytes * (piece + 1) / s->pieces;
  memcpy(out + i / s->pieces * s->block_bytes + begin, block + begin, (size_t)(end - begin));
}

/* ---- Gather ---- */

static void gather_pieces(void *context, int64_t begin, int64_t end) {
  const gathering *g = context;
  const gather_state *s = g->s;
  for (int64_t i = begin; i < end; i++) {
    int64_t outer = i / s->pieces / s->n_indices, k = i / s->pieces % s->n_indices;
    int64_t at = outer * s->extent + cpu_index_wrapped(s->index_dtype, g->indices, k, s->extent);
    copy_piece(s, g->out, g->data + at * s->block_bytes, i);
  }
}

static void gather_range(void *context, int64_t begin, int64_t end) {
  const gathering *g = context;
  const gather_state *s = g->s;
  for (int64_t i = begin; i < end;) {
    int64_t outer = i / s->n_indices, k = i % s->n_indices;
    const char *data = g->data + outer * s->extent * s->block_bytes;
    for (; k < s->n_indices && i < end; k++, i++)
      copy_block(g->out + i * s->block_bytes,
                 data + cpu_index_wrapped(s->index_dtype, g->indices, k, s->extent) * s->block_bytes, s->block_bytes);
  }
}

static reed_status run_gather(const void *state, const reed_kernel_buffers *buffers) {
  const gather_state *s = state;
  reed_status status =
      cpu_indices_check(buffers, s->team, 1, s->index_dtype, buffers->inputs[1], s->n_indices, s->extent);
  if (status || s->block_bytes == 0) return status;
  gathering g = {s, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], NULL};
  if (s->pieces > 1) return cpu_parallel(s->team, s->outer * s->n_indices * s->pieces, 1, gather_pieces, &g);
  return cpu_parallel(s->team, s->outer * s->n_indices, 1, gather_range, &g);
}

/* True for one constant index within range along an axis after extents of 1: the output is then a contiguous part of
 * the data, from *out_offset on. */
static bool is_part(const reed_kernel_call *call, int32_t axis, int64_t *out_offset) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  if (!call->constant[1] || desc_elements(indices) != 1 || cpu_product(data->dims, 0, axis) != 1) return false;
  int64_t extent = data->dims[axis], index = cpu_index_at(indices->dtype, call->host_values[1], 0);
  if (index < -extent || index >= extent) return false;
  *out_offset = (index < 0 ? index + extent : index) * cpu_product(data->dims, axis + 1, data->rank);
  return true;
}

reed_status cpu_prepare_gather(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank);
  int64_t offset;
  if (is_part(call, axis, &offset)) return movement_prepare_part(call, offset, out_kernel);
  gather_state *s = open_gather(call, 0);
  if (!s) return cpu_no_memory(call);
  s->outer = cpu_product(data->dims, 0, axis);
  s->extent = data->dims[axis];
  s->n_indices = desc_elements(&call->inputs[1]);
  set_block(s, cpu_product(data->dims, axis + 1, data->rank) * (int64_t)reed_dtype_bytes(data->dtype));
  cpu_kernel_set(out_kernel, run_gather, s);
  return REED_OK;
}

/* ---- GatherElements ---- */

/* out[i] = data[place of its index along the axis, `along` elements apart, + i * step]: n elements of a row. An index
 * out of range reads place 0, which is there. */
#define GATHER_ROW(T, I, name) \
  static bool name(void *out, const void *data, const void *indices, int64_t n, int64_t extent, int64_t along, \
                   int64_t step) { \
    const I *restrict index = indices; \
    const T *from = data; \
    T *restrict to = out; \
    bool good = true; \
    for (int64_t i = 0; i < n && along == 1 && step == 0; i++) { \
      const int64_t at = index[i] + (index[i] < 0 ? extent : 0); \
      const bool is_inside = (uint64_t)at < (uint64_t)extent; \
      to[i] = from[is_inside ? at : 0]; \
      good &= is_inside; \
    } \
    for (int64_t i = 0; i < n && (along != 1 || step != 0); i++) { \
      const int64_t at = index[i] + (index[i] < 0 ? extent : 0); \
      const bool is_inside = (uint64_t)at < (uint64_t)extent; \
      to[i] = from[(is_inside ? at : 0) * along + i * step]; \
      good &= is_inside; \
    } \
    return good; \
  }
GATHER_ROW(uint8_t, int32_t, gather_row_1_i32)
GATHER_ROW(uint16_t, int32_t, gather_row_2_i32)
GATHER_ROW(uint32_t, int32_t, gather_row_4_i32)
GATHER_ROW(uint64_t, int32_t, gather_row_8_i32)
GATHER_ROW(uint8_t, int64_t, gather_row_1_i64)
GATHER_ROW(uint16_t, int64_t, gather_row_2_i64)
GATHER_ROW(uint32_t, int64_t, gather_row_4_i64)
GATHER_ROW(uint64_t, int64_t, gather_row_8_i64)

static gather_row_fn gather_row_of(reed_dtype data, reed_dtype index) {
  const bool small = index == REED_I32;
  switch (reed_dtype_bytes(data)) {
    case 1: return small ? gather_row_1_i32 : gather_row_1_i64;
    case 2: return small ? gather_row_2_i32 : gather_row_2_i64;
    case 4: return small ? gather_row_4_i32 : gather_row_4_i64;
    default: return small ? gather_row_8_i32 : gather_row_8_i64;
  }
}

/* Elements begin..end-1, row by row along the last dim. */
static void gather_elements_range(void *context, int64_t begin, int64_t end) {
  const gathering *g = context;
  const gather_state *s = g->s;
  const int32_t last = s->rank - 1;
  const int64_t index_bytes = (int64_t)reed_dtype_bytes(s->index_dtype), row = s->walk[last],
                step = s->axis == last ? 0 : 1;
  int64_t coordinates[REED_MAX_RANK], base = 0, index = begin / row, skip = begin % row;
  bool good = true;
  for (int32_t d = last - 1; d >= 0; d--) {
    coordinates[d] = index % s->walk[d];
    index /= s->walk[d];
    if (d != s->axis) base += coordinates[d] * s->strides[d];
  }
  for (int64_t i = begin, n; i < end; i += n, skip = 0) {
    n = row - skip < end - i ? row - skip : end - i;
    good &= s->row(g->out + i * s->block_bytes, g->data + (base + skip * step) * s->block_bytes,
                   (const char *)g->indices + i * index_bytes, n, s->extent, s->strides[s->axis], step);
    for (int32_t d = last - 1; d >= 0; d--) {
      const int64_t stride = d == s->axis ? 0 : s->strides[d];
      base += stride;
      if (++coordinates[d] < s->walk[d]) break;
      base -= stride * s->walk[d];
      coordinates[d] = 0;
    }
  }
  if (!good) atomic_store(g->fails, true);
}

static reed_status run_gather_elements(const void *state, const reed_kernel_buffers *buffers) {
  const gather_state *s = state;
  _Atomic(bool) fails = s->extent == 0; /* there is no place 0 */
  gathering g = {s, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], &fails};
  if (s->extent > 0) {
    reed_status status = cpu_parallel(s->team, s->n_indices, 1, gather_elements_range, &g);
    if (status != REED_OK) return status;
  }
  if (!atomic_load(&fails)) return REED_OK;
  return cpu_indices_check(buffers, s->team, 1, s->index_dtype, buffers->inputs[1], s->n_indices, s->extent);
}

reed_status cpu_prepare_gather_elements(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *out = &call->outputs[0];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank);
  gather_state *s = open_gather(call, 0);
  if (!s) return cpu_no_memory(call);
  s->rank = data->rank;
  s->axis = axis;
  s->extent = data->dims[axis];
  s->n_indices = desc_elements(out);
  s->block_bytes = (int64_t)reed_dtype_bytes(data->dtype);
  s->row = gather_row_of(data->dtype, s->index_dtype);
  memcpy(s->walk, out->dims, sizeof s->walk);
  cpu_dense_strides(data->rank, data->dims, s->strides);
  cpu_kernel_set(out_kernel, run_gather_elements, s);
  return REED_OK;
}

/* ---- GatherND ---- */

/* Work of a slice of data that lies beyond the near caches, besides its bytes and its index: its line is fetched. */
#define FAR_WORK 64
#define FAR_BYTES ((int64_t)1 << 20) /* of such data, at least */

/* Offset in blocks of the tuple's slice within its batch; the tuple has been checked. */
static int64_t tuple_offset(const gather_state *s, const void *indices, int64_t tuple) {
  int64_t offset = 0;
  for (int32_t d = 0; d < s->n_components; d++)
    offset += cpu_index_wrapped(s->index_dtype, indices, tuple * s->n_components + d, s->extents[d]) * s->strides[d];
  return offset;
}

static void gather_nd_range(void *context, int64_t begin, int64_t end) {
  const gathering *g = context;
  const gather_state *s = g->s;
  for (int64_t i = begin; i < end; i++) {
    int64_t tuple = i / s->pieces, at = tuple / s->n_indices * s->extent + tuple_offset(s, g->indices, tuple);
    const char *block = g->data + at * s->block_bytes;
    if (s->pieces > 1) copy_piece(s, g->out, block, i);
    else copy_block(g->out + i * s->block_bytes, block, s->block_bytes);
  }
}

static reed_status run_gather_nd(const void *state, const reed_kernel_buffers *buffers) {
  const gather_state *s = state;
  int64_t n = s->outer * s->n_indices;
  reed_status status =
      cpu_tuples_check(buffers, s->team, 1, s->index_dtype, buffers->inputs[1], n, s->n_components, s->extents);
  if (status || s->block_bytes == 0) return status;
  gathering g = {s, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], NULL};
  return cpu_parallel(s->team, n * s->pieces, 1, gather_nd_range, &g);
}

reed_status cpu_prepare_gather_nd(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  int64_t batch_dims = op_attr_int(call->attrs, "batch_dims");
  if (indices->rank < 1 || batch_dims < 0 || batch_dims >= indices->rank || batch_dims > data->rank ||
      indices->dims[indices->rank - 1] > data->rank - batch_dims)
    return reed_kernel_fail(call, REED_ERROR_SHAPE,
                            "indices of rank %d do not index data of rank %d with %lld batch dims", indices->rank,
                            data->rank, (long long)batch_dims);
  int32_t batch = (int32_t)batch_dims, n = (int32_t)indices->dims[indices->rank - 1];
  const bool far = desc_bytes(data) >= FAR_BYTES;
  gather_state *s = open_gather(call, far ? cpu_product(indices->dims, 0, indices->rank - 1) * FAR_WORK : 0);
  if (!s) return cpu_no_memory(call);
  int64_t element = (int64_t)reed_dtype_bytes(data->dtype), block = cpu_product(data->dims, batch + n, data->rank);
  s->n_components = n;
  s->outer = cpu_product(data->dims, 0, batch);
  s->n_indices = cpu_product(indices->dims, batch, indices->rank - 1);
  s->extent = cpu_product(data->dims, batch, batch + n);
  set_block(s, block * element);
  for (int32_t d = 0; d < n; d++) s->extents[d] = data->dims[batch + d];
  cpu_dense_strides(n, s->extents, s->strides);
  cpu_kernel_set(out_kernel, run_gather_nd, s);
  return REED_OK;
}
