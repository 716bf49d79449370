/* MatMul and Gemm for every numeric dtype: Y = activation(alpha * A * B + beta * C + residual). Floats are summed in
 * double, integers in 64 bits and wrap. MatMul's bias is C with beta 1. The kernel: ops/cpu/product/matmul.c. */
#include "base/team.h"
#include "ops/cpu/calls/product.h"
#include "ops/cpu/common/functions.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/product/whole.h"

#define BLOCK 64                          /* columns summed at a time */
#define PRODUCT_WORK 6                    /* of a product in cpu_team_for's count */
#define ROW_WORK 200                      /* of a row, besides */
#define STEP_PRODUCTS 32768               /* of a step of a long row: 15 to 30 us */
#define COLUMNS_FEW 4                     /* so many take as long as one, which waits for its own sums */
#define LONG_PRODUCTS (2 * STEP_PRODUCTS) /* more, of a row */

typedef struct job {
  const product *p;
  const reed_kernel_buffers *buffers;
} job;

/* Integers: alpha and beta are 1 in any graph that means integers; then the sum never passes through a float. */
#define FINISH_INT(T, p, sum, c, has_c, residual) \
  ((p)->exact_ints \
       ? (T)((sum) + (has_c ? (uint64_t)(c) : 0) + (uint64_t)(residual)) \
       : (T)whole_of(activation_at(&(p)->activation, (p)->alpha * (double)(T)(sum) + \
                                                         (has_c ? (p)->beta * (double)(c) : 0) + (double)(residual))))
#define FINISH_FLOAT(T, p, sum, c, has_c, residual) \
  ((T)activation_at(&(p)->activation, (p)->alpha * (sum) + (has_c ? (p)->beta * (double)(c) : 0) + (double)(residual)))

/* A part of the sums of rows begin..end of the stacked result: `columns` from `column` on, the products k..k_end of the
 * depth. If that is not the whole depth: of one row, and of at most BLOCK columns. */
typedef struct step {
  int64_t begin, end, column, columns, k, k_end;
} step;

/* Adds the step's products to the sums, which the row's earlier steps have left; the last step writes Y. */
#define PRODUCT_STEP(T, SUM, FINISH, name) \
  static void name(const job *r, const step *s, void *sums) { \
    const product *p = r->p; \
    const int64_t end = s->column + s->columns, first = s->k, last = s->k_end; \
    for (int64_t i = s->begin; i < s->end; i++) { \
      product_place at = product_place_of(p, i / p->m); \
      const T *a = (const T *)r->buffers->inputs[0] + at.a + i % p->m * p->a_row; \
      const T *b = (const T *)r->buffers->inputs[1] + at.b; \
      const T *c = p->has_c ? (const T *)r->buffers->inputs[2] + at.c + i % p->m * p->c_row : NULL; \
      const T *residual = p->has_residual ? (const T *)r->buffers->inputs[3] + i * p->n : NULL; \
      T *y = (T *)r->buffers->outputs[0] + i * p->n; \
      for (int64_t begin = s->column; begin < end; begin += BLOCK) { \
        int64_t n = smaller(BLOCK, end - begin); \
        SUM sum[BLOCK] = {0}; \
        if (first > 0) memcpy(sum, sums, sizeof sum); \
        for (int64_t k = first; k < last; k++) { \
          SUM factor = (SUM)a[k * p->a_column]; \
          const T *row = b + k * p->b_row + begin * p->b_column; \
          for (int64_t j = 0; j < n; j++) sum[j] += factor * (SUM)row[j * p->b_column]; \
        } \
        if (last < p->k) memcpy(sums, sum, sizeof sum); \
        else \
          for (int64_t j = 0; j < n; j++) \
            y[begin + j] = \
                FINISH(T, p, sum[j], c[(begin + j) * p->c_column], p->has_c, residual ? residual[begin + j] : 0); \
      } \
    } \
  }
PRODUCT_STEP(float, double, FINISH_FLOAT, step_f32)
PRODUCT_STEP(double, double, FINISH_FLOAT, step_f64)
PRODUCT_STEP(int8_t, uint64_t, FINISH_INT, step_i8)
PRODUCT_STEP(int16_t, uint64_t, FINISH_INT, step_i16)
PRODUCT_STEP(int32_t, uint64_t, FINISH_INT, step_i32)
PRODUCT_STEP(int64_t, uint64_t, FINISH_INT, step_i64)
PRODUCT_STEP(uint8_t, uint64_t, FINISH_INT, step_u8)
PRODUCT_STEP(uint16_t, uint64_t, FINISH_INT, step_u16)
PRODUCT_STEP(uint32_t, uint64_t, FINISH_INT, step_u32)
PRODUCT_STEP(uint64_t, uint64_t, FINISH_INT, step_u64)

static void (*const steps[REED_DTYPE_COUNT])(const job *, const step *, void *) = {
    [REED_F32] = step_f32, [REED_F64] = step_f64, [REED_I8] = step_i8,   [REED_I16] = step_i16, [REED_I32] = step_i32,
    [REED_I64] = step_i64, [REED_U8] = step_u8,   [REED_U16] = step_u16, [REED_U32] = step_u32, [REED_U64] = step_u64,
};

/* Sums of BLOCK columns: double or uint64_t. */
typedef struct block_sums {
  _Alignas(64) uint64_t elements[BLOCK];
} block_sums;

static void multiply(void *context, int64_t begin, int64_t end) {
  const job *r = context;
  steps[r->p->dtype](r, &(step){begin, end, .columns = r->p->n, .k_end = r->p->k}, NULL);
}

/* A long row in steps: pieces of the depth of one block of columns, or some whole blocks. */
typedef struct long_rows {
  job job;
  int64_t depth, n_depths;           /* of a step; steps of a block */
  int64_t blocks, n_blocks;          /* of a step; of a row */
  block_sums sums[TEAM_MAX_WORKERS]; /* by place */
} long_rows;

static bool run_step(void *context, int64_t item, int64_t number, int32_t place) {
  long_rows *l = context;
  const product *p = l->job.p;
  const int64_t first = number / l->n_depths * l->blocks, k = number % l->n_depths * l->depth,
                k_end = smaller(k + l->depth, p->k), end = smaller(first + l->blocks, l->n_blocks);
  const int64_t column = first * BLOCK, columns = smaller(end * BLOCK, p->n) - column;
  steps[p->dtype](&l->job, &(step){item, item + 1, column, columns, k, k_end}, l->sums[place].elements);
  return end < l->n_blocks || k_end < p->k;
}

static reed_status run_long(const job *r, cpu_team team) {
  const product *p = r->p;
  long_rows l;
  l.job = *r;
  l.n_blocks = divided(p->n, BLOCK);
  l.depth = smaller(STEP_PRODUCTS / larger(smaller(p->n, BLOCK), COLUMNS_FEW), p->k);
  l.n_depths = divided(p->k, l.depth);
  l.blocks = l.n_depths > 1 ? 1 : larger(STEP_PRODUCTS / (BLOCK * p->k), 1);
  const int64_t rows = p->batch * p->m;
  return cpu_relay(team, rows, rows * divided(l.n_blocks, l.blocks) * l.n_depths, run_step, &l);
}

static reed_status run_product(const void *state, const reed_kernel_buffers *buffers) {
  const product *p = state;
  job r = {p, buffers};
  const int64_t rows = p->batch * p->m;
  const double work = (double)rows * ((double)p->n * (double)(p->k + 1) * PRODUCT_WORK + ROW_WORK);
  const cpu_team team = cpu_team_for(p->team, work < 1e15 ? (int64_t)work : INT64_MAX);
  return p->n > 0 && p->k > LONG_PRODUCTS / p->n ? run_long(&r, team) : cpu_parallel(team, rows, 1, multiply, &r);
}

static reed_status prepare(const reed_kernel_call *call, bool gemm, reed_kernel *out_kernel) {
  product p;
  reed_status status = product_read(call, gemm, &p);
  if (status != REED_OK) return status;
  if (!steps[p.dtype])
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
