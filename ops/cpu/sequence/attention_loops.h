/* The loops of Attention: a product of small matrices, and a softmax over blocks of keys. */
#ifndef OPS_CPU_SEQUENCE_ATTENTION_LOOPS_H_
#define OPS_CPU_SEQUENCE_ATTENTION_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* c[m][n] += a[m][k] * b[k][n]; a's rows and columns at any distances, b's and c's rows at theirs; n a multiple of * 16
 */
CPU_LOOP(void, multiply_add,
         (float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row,
          int64_t m, int64_t n, int64_t k));
/* scores[r][j] = the dot product of q's row r and k's row j, for `rows` rows and n keys of `size` floats */
CPU_LOOP(void, score_keys,
         (float *scores, int64_t scores_row, const float *q, int64_t q_row, int64_t rows, const float *k, int64_t k_row,
          int64_t n, int64_t size));
/* c[j * c_row + i] += a[i * a_row + j] for i < n, j < k: a matrix is added to the transposed one */
CPU_LOOP(void, add_transposed, (float *c, int64_t c_row, const float *a, int64_t a_row, int64_t n, int64_t k));
/* one block of keys in one query's softmax that goes on over blocks; n a multiple of 16. Returns the factor for earlier
 * sums. */
CPU_LOOP(float, attend_row, (float *scores, int64_t n, float *most, float *sum));
/* A query and all of its keys, whose scores nothing changes. Rows of k and v are k_row and v_row floats apart; those of
 * `rest`, the values of the keys from n_whole on, are `columns` floats apart. */
typedef struct row_operands {
  float scale;
  const float *q, *k, *v, *rest;
  int64_t k_row, v_row, n, n_whole, size, columns; /* columns of v, a multiple of 16 */
  float *scaled, *scores, *sums; /* memory: of size and of n floats, n up to a multiple of 16; results */
} row_operands;
/* sums = the sum of v's rows, each times exp(score - the largest score); returns the sum of these factors. The same
 * bits as score_keys, attend_row and multiply_add. */
CPU_LOOP(float, attend_whole, (const row_operands *o));
/* one block of keys in the softmax of n queries that goes on over blocks */
CPU_LOOP(void, attend_keys, (float *scores, int64_t n_keys, int64_t n, float *most, float *sum, float *shrink));

#endif
