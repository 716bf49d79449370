/* Loops of products of whole numbers (ops/cpu/product/integers.c). Operands are packed as numbers of 16 bits, two steps
 * of the depth side by side, because the CPU multiplies and adds such pairs in one instruction. Sums are i32 and wrap.
 */
#ifndef OPS_CPU_PRODUCT_INTEGER_LOOPS_H_
#define OPS_CPU_PRODUCT_INTEGER_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

#define INTEGER_ROWS 6     /* of A in a tile, at most */
#define INTEGER_COLUMNS 64 /* of a panel, at most */

/* Columns of a panel at this level. */
CPU_LOOP(int64_t, integer_columns, (void));
/* Writes a row of n numbers, then a zero if n is odd. False: a number has more than 16 bits; the row is then useless.
 */
CPU_LOOP(bool, integer_pack_row, (const int32_t *a, int64_t n, int16_t *row));
/* Writes a panel [pairs of the depth][columns of the level][2] of n columns of b, zeros after them. False: as above. */
CPU_LOOP(bool, integer_pack_panel, (const int32_t *b, int64_t b_row, int64_t depth, int64_t n, int16_t *panel));
/* y[rows][n] = packed rows of A, a_row numbers apart, times a packed panel of `pairs` pairs of the depth. */
CPU_LOOP(void, integer_multiply,
         (int rows, const int16_t *a, int64_t a_row, const int16_t *panel, int64_t pairs, int64_t n, int32_t *y,
          int64_t y_row));

/* y[i] = the product of row i of A, a_row numbers apart, and one column, of any numbers of 32 bits. */
CPU_LOOP(void, integer_dots,
         (const int32_t *a, int64_t a_row, const int32_t *column, int64_t depth, int64_t rows, int32_t *y));

#endif
