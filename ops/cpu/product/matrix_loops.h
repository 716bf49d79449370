/* The loops of products with plain matrices (ops/cpu/product/matmul.c) that are no tiles: few rows at a time, and
 * panels of a matrix that lies transposed. */
#ifndef OPS_CPU_PRODUCT_MATRIX_LOOPS_H_
#define OPS_CPU_PRODUCT_MATRIX_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define FEW_ROWS 4 /* the most rows in a call of few_rows or dots */

/* y[r][j] (+)= sum over k < depth of a[r][k] * b[k][j], for r < rows and j < n; first: y is not read. The elements of a
 * row are adjacent in all three. Reads b once, in the order of its memory: for products that are as fast as b is read.
 * Parts of the depth one after the other give the same bits if all but the last are multiples of 8. */
CPU_LOOP(void, few_rows,
         (int rows, const float *a, int64_t a_row, const float *b, int64_t b_row, int64_t depth, bool first, int64_t n,
          float *y, int64_t y_row));
/* y[r][j] = sum over k < depth of a[r][k] * b[j * b_column + k], for r < rows and j < n; rows is at most FEW_ROWS */
CPU_LOOP(void, dots,
         (int rows, const float *a, int64_t a_row, const float *b, int64_t b_column, int64_t depth, int64_t n, float *y,
          int64_t y_row));
/* panel[k * width + j] = b[j * b_column + k] for k < depth and j < n, 0 for n <= j < width */
CPU_LOOP(void, transpose_panel,
         (const float *b, int64_t b_column, int64_t depth, int64_t n, int64_t width, float *panel));

#endif
