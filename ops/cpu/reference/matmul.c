/* MatMul and Gemm for every numeric dtype: Y = activation(alpha * A * B + beta * C). Floats are summed in double,
 * integers in 64 bits and wrap. MatMul's bias is C with beta 1. The kernel: ops/cpu/product/matmul.c. */
#include "ops/cpu/calls/product.h"
#include "ops/cpu/common/functions.h"
#include "ops/cpu/common/common.h"

#define BLOCK 64 /* columns summed at a time */

typedef struct job {
  const product *p;
  const reed_kernel_buffers *buffers;
} job;

/* Integers: alpha and beta are 1 in any graph that means integers; then the sum never passes through a float. */
#define FINISH_INT(T, p, sum, c, has_c) \
  ((p)->exact_ints ? (T)((sum) + (has_c ? (uint64_t)(c) : 0)) \
                   : (T)whole_of(activation_at(&(p)->activation, (p)->alpha * (double)(T)(sum) + \
                                                                     (has_c ? (p)->beta * (double)(c) : 0))))
#define FINISH_FLOAT(T, p, sum, c, has_c) \
  ((T)activation_at(&(p)->activation, (p)->alpha * (sum) + (has_c ? (p)->beta * (double)(c) : 0)))

/* Row i of the stacked result: every matrix of the batch, one after the other. */
#define PRODUCT_ROW(T, SUM, FINISH, name) \
  static void name(const job *r, int64_t matrix, int64_t i) { \
    const product *p = r->p; \
    product_place at = product_place_of(p, matrix); \
    const T *a = (const T *)r->buffers->inputs[0] + at.a + i * p->a_row, *b = (const T *)r->buffers->inputs[1] + at.b; \
    const T *c = p->has_c ? (const T *)r->buffers->inputs[2] + at.c + i * p->c_row : NULL; \
    T *y = (T *)r->buffers->outputs[0] + (matrix * p->m + i) * p->n; \
    for (int64_t begin = 0; begin < p->n; begin += BLOCK) { \
      int64_t n = p->n - begin < BLOCK ? p->n - begin : BLOCK; \
      SUM sum[BLOCK] = {0}; \
      for (int64_t k = 0; k < p->k; k++) { \
        SUM factor = (SUM)a[k * p->a_column]; \
        const T *row = b + k * p->b_row + begin * p->b_column; \
        for (int64_t j = 0; j < n; j++) sum[j] += factor * (SUM)row[j * p->b_column]; \
      } \
      for (int64_t j = 0; j < n; j++) y[begin + j] = FINISH(T, p, sum[j], c[(begin + j) * p->c_column], p->has_c); \
    } \
  }
PRODUCT_ROW(float, double, FINISH_FLOAT, row_f32)
PRODUCT_ROW(double, double, FINISH_FLOAT, row_f64)
PRODUCT_ROW(int8_t, uint64_t, FINISH_INT, row_i8)
PRODUCT_ROW(int16_t, uint64_t, FINISH_INT, row_i16)
PRODUCT_ROW(int32_t, uint64_t, FINISH_INT, row_i32)
PRODUCT_ROW(int64_t, uint64_t, FINISH_INT, row_i64)
PRODUCT_ROW(uint8_t, uint64_t, FINISH_INT, row_u8)
PRODUCT_ROW(uint16_t, uint64_t, FINISH_INT, row_u16)
PRODUCT_ROW(uint32_t, uint64_t, FINISH_INT, row_u32)
PRODUCT_ROW(uint64_t, uint64_t, FINISH_INT, row_u64)

static void (*const rows[REED_DTYPE_COUNT])(const job *, int64_t, int64_t) = {
    [REED_F32] = row_f32, [REED_F64] = row_f64, [REED_I8] = row_i8,   [REED_I16] = row_i16, [REED_I32] = row_i32,
    [REED_I64] = row_i64, [REED_U8] = row_u8,   [REED_U16] = row_u16, [REED_U32] = row_u32, [REED_U64] = row_u64,
};

static void multiply(void *context, int64_t begin, int64_t end) {
  const job *r = context;
  for (int64_t i = begin; i < end; i++) rows[r->p->dtype](r, i / r->p->m, i % r->p->m);
}

static reed_status run_product(const void *state, const reed_kernel_buffers *buffers) {
  const product *p = state;
  job r = {p, buffers};
  int64_t n_rows = p->batch * p->m;
  return cpu_parallel(cpu_team_for(p->team, n_rows * p->n * (p->k + 1) * 4), n_rows, 1, multiply, &r);
}

static reed_status prepare(const reed_kernel_call *call, bool gemm, reed_kernel *out_kernel) {
  product p;
  reed_status status = product_read(call, gemm, &p);
  if (status != REED_OK) return status;
  if (!rows[p.dtype])
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(p.dtype));
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_product, state);
  out_kernel->reads_rooms = cpu_rooms_only(call, 1u << 0 | 1u << 1);
  return REED_OK;
}

reed_status reference_prepare_matmul(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, false, out_kernel);
}

reed_status reference_prepare_gemm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, true, out_kernel);
}
