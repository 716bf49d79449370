/* MatMul and Gemm as one problem: a batch of products Y = activation(alpha * A * B + beta * C + residual) over strided
 * matrices. */
#ifndef OPS_CPU_CALLS_PRODUCT_H_
#define OPS_CPU_CALLS_PRODUCT_H_

#include "ops/cpu/formulas/activation.h"

typedef struct product {
  reed_dtype dtype;
  cpu_team team;
  int64_t batch, m, k, n;
  int32_t batch_rank;
  int64_t batch_dims[REED_MAX_RANK];                                              /* of Y, without its matrices */
  int64_t a_batch[REED_MAX_RANK], b_batch[REED_MAX_RANK], c_batch[REED_MAX_RANK]; /* strides in elements; 0: repeated */
  int64_t a_row, a_column, b_row, b_column, c_row, c_column;                      /* strides in elements */
  bool has_c, exact_ints; /* exact_ints: no scaling, no activation */
  bool has_residual;      /* input 3, dense like Y */
  double alpha, beta;
  activation activation;
} product;

typedef struct product_place {
  int64_t a, b, c; /* offsets of one matrix of the batch in the operands, in elements */
} product_place;

static inline product_place product_place_of(const product *p, int64_t matrix) {
  product_place at = {0};
  for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
    int64_t index = matrix % p->batch_dims[i];
    matrix /= p->batch_dims[i];
    at.a += index * p->a_batch[i];
    at.b += index * p->b_batch[i];
    at.c += index * p->c_batch[i];
  }
  return at;
}

/* True if an operand with these batch strides has one matrix for each of the batch, `matrix` elements apart. */
bool product_one_each(const product *p, const int64_t *strides, int64_t matrix);
/* True if it has one matrix for the whole batch. */
bool product_only_one(const product *p, const int64_t *strides);

/* Reads a Gemm or MatMul call; ERROR_SHAPE with a diagnosis for extents that do not fit together. */
reed_status product_read(const reed_kernel_call *call, bool gemm, product *out_product) REED_MUST_CHECK;

#endif
