/* TopK by searching the next best element k times. The kernel: ops/cpu/reduce/topk.c. */
#include "ops/cpu/calls/topk.h"
#include "ops/cpu/common/common.h"

/* True if element a comes before element b: by value (NaN is larger than every number), then by index. */
#define TOPK_COLUMN(T, name) \
  static bool before_##name(const topk *t, T a, int64_t index_a, T b, int64_t index_b) { \
    bool a_nan = a != a, b_nan = b != b; \
    if (a_nan && b_nan) return index_a < index_b; \
    if (a_nan || b_nan) return a_nan == t->largest; \
    return a == b ? index_a < index_b : (a > b) == t->largest; \
  } \
  static void name(const topk *t, const void *from, void *to, int64_t *indices) { \
    const T *x = from; \
    T *values = to; \
    int64_t last = -1; \
    for (int64_t i = 0; i < t->k; i++) { \
      int64_t best = -1; \
      for (int64_t j = 0; j < t->extent; j++) { \
        T v = x[j * t->inner]; \
        if (last >= 0 && !before_##name(t, x[last * t->inner], last, v, j)) continue; \
        if (best < 0 || before_##name(t, v, j, x[best * t->inner], best)) best = j; \
      } \
      values[i * t->inner] = x[best * t->inner]; \
      if (indices) indices[i * t->inner] = best; \
      last = best; \
    } \
  }
TOPK_COLUMN(float, column_f32)
TOPK_COLUMN(double, column_f64)
TOPK_COLUMN(int8_t, column_i8)
TOPK_COLUMN(int16_t, column_i16)
TOPK_COLUMN(int32_t, column_i32)
TOPK_COLUMN(int64_t, column_i64)
TOPK_COLUMN(uint8_t, column_u8)
TOPK_COLUMN(uint16_t, column_u16)
TOPK_COLUMN(uint32_t, column_u32)
TOPK_COLUMN(uint64_t, column_u64)

static void (*const columns[REED_DTYPE_COUNT])(const topk *, const void *, void *, int64_t *) = {
    [REED_F32] = column_f32, [REED_F64] = column_f64, [REED_I8] = column_i8, [REED_I16] = column_i16,
    [REED_I32] = column_i32, [REED_I64] = column_i64, [REED_U8] = column_u8, [REED_U16] = column_u16,
    [REED_U32] = column_u32, [REED_U64] = column_u64,
};

static reed_status run_topk(const void *state, const reed_kernel_buffers *buffers) {
  const topk *t = state;
  int64_t bytes = (int64_t)reed_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < t->outer * t->inner; i++) {
    int64_t from = i / t->inner * t->extent * t->inner + i % t->inner,
            to = i / t->inner * t->k * t->inner + i % t->inner;
    columns[t->dtype](t, (const char *)buffers->inputs[0] + from * bytes, (char *)buffers->outputs[0] + to * bytes,
                      t->with_indices ? (int64_t *)buffers->outputs[1] + to : NULL);
  }
  return REED_OK;
}

reed_status reference_prepare_topk(const reed_kernel_call *call, reed_kernel *out_kernel) {
  topk t;
  topk_read(call, &t);
  if (!columns[t.dtype])
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(t.dtype));
  void *state = mem_copy(&t, sizeof t);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_topk, state);
  return REED_OK;
}
