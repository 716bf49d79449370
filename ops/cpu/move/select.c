/* NonZero and Compress: outputs whose extent depends on the data. Their elements are written dense for the true extent.
 */
#include "ops/cpu/common/common.h"

/* ---- NonZero ---- */

typedef struct nonzero_state {
  cpu_team team;
  reed_desc in;
  int64_t n;
} nonzero_state;

/* Marks the elements that are not zero, as bytes 0 and 1. Only the bits count, without the sign of floats: -0 is zero,
 * NaN is not. */
static void mark_set(reed_dtype dtype, const void *data, int64_t first, int64_t n, uint8_t *out_set) {
#define MARK(T, mask) \
  for (int64_t i = 0; i < n; i++) out_set[i] = (((const T *)data)[first + i] & (mask)) != 0; \
  break
  switch (dtype) {
    case REED_F32: MARK(uint32_t, 0x7fffffffu);
    case REED_F64: MARK(uint64_t, 0x7fffffffffffffffu);
    case REED_F16:
    case REED_BF16: MARK(uint16_t, 0x7fffu);
    case REED_I16:
    case REED_U16: MARK(uint16_t, 0xffffu);
    case REED_I32:
    case REED_U32: MARK(uint32_t, 0xffffffffu);
    case REED_I64:
    case REED_U64: MARK(uint64_t, 0xffffffffffffffffu);
    case REED_I8:
    case REED_U8:
    case REED_BOOL: MARK(uint8_t, 0xffu);
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef MARK
}

#define BLOCK 1024

static int64_t count_set(const nonzero_state *s, const void *data) {
  uint8_t set[BLOCK];
  int64_t count = 0;
  for (int64_t first = 0; first < s->n && !cpu_cancelled(&s->team); first += BLOCK) {
    int64_t n = s->n - first < BLOCK ? s->n - first : BLOCK;
    mark_set(s->in.dtype, data, first, n, set);
    for (int64_t i = 0; i < n; i++) count += set[i];
  }
  return count;
}

/* Writes coordinate d of the k-th nonzero element to out[d * count + k]. The elements are counted first, because
 * `count` is the rows' length. */
static reed_status run_nonzero(const void *state, const reed_kernel_buffers *buffers) {
  const nonzero_state *s = state;
  const void *data = buffers->inputs[0];
  int64_t *out = buffers->outputs[0], count = s->n ? count_set(s, data) : 0, k = 0;
  int64_t coordinates[REED_MAX_RANK] = {0};
  int32_t inner = s->in.rank - 1;
  int64_t width = inner < 0 ? 1 : s->in.dims[inner];
  uint8_t set[BLOCK];
  if (cpu_cancelled(&s->team)) return REED_ERROR_CANCELLED; /* a cancelled count may be too small */
  for (int64_t row = 0; k < count; row += width) {
    for (int64_t first = 0; first < width; first += BLOCK) {
      if (cpu_cancelled(&s->team)) return REED_ERROR_CANCELLED;
      int64_t n = width - first < BLOCK ? width - first : BLOCK;
      mark_set(s->in.dtype, data, row + first, n, set);
      for (int64_t i = 0; i < n; i++) {
        if (!set[i]) continue;
        for (int32_t d = 0; d < inner; d++) out[d * count + k] = coordinates[d];
        if (inner >= 0) out[inner * count + k] = first + i;
        k++;
      }
    }
    for (int32_t d = inner - 1; d >= 0; d--) {
      if (++coordinates[d] < s->in.dims[d]) break;
      coordinates[d] = 0;
    }
  }
  buffers->extents[0] = count;
  return REED_OK;
}

reed_status cpu_prepare_nonzero(const reed_kernel_call *call, reed_kernel *out_kernel) {
  nonzero_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->in = call->inputs[0];
  s->n = desc_elements(&s->in);
  s->team = cpu_env_team(call);
  cpu_kernel_set(out_kernel, run_nonzero, s);
  return REED_OK;
}

/* ---- Compress ---- */

typedef struct compress_state {
  cpu_slices slices;
  int64_t block_bytes;
  cpu_team team;
  int64_t n_conditions; /* of them at most slices.n are looked at */
} compress_state;

static reed_status run_compress(const void *state, const reed_kernel_buffers *buffers) {
  const compress_state *s = state;
  const char *data = buffers->inputs[0];
  const uint8_t *condition = buffers->inputs[1];
  char *out = buffers->outputs[0];
  int64_t count = 0;
  for (int64_t i = 0; i < s->n_conditions; i++) count += condition[i] != 0;
  for (int64_t o = 0; o < s->slices.outer && s->block_bytes && count; o++)
    for (int64_t i = 0; i < s->n_conditions; i++) {
      if (cpu_cancelled_at(&s->team, i)) return REED_ERROR_CANCELLED;
      if (!condition[i]) continue;
      memcpy(out, data + (o * s->slices.n + i) * s->block_bytes, (size_t)s->block_bytes);
      out += s->block_bytes;
    }
  buffers->extents[0] = count;
  return REED_OK;
}

reed_status cpu_prepare_compress(const reed_kernel_call *call, reed_kernel *out_kernel) {
  compress_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->team = cpu_env_team(call);
  s->slices = cpu_slices_of(call);
  s->block_bytes = s->slices.block * (int64_t)reed_dtype_bytes(call->inputs[0].dtype);
  int64_t n = desc_elements(&call->inputs[1]);
  s->n_conditions = n < s->slices.n ? n : s->slices.n;
  cpu_kernel_set(out_kernel, run_compress, s);
  return REED_OK;
}
