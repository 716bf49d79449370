/* Turning matrices for convolutions with channels second that are computed with channels last (conv_turned.h). */
#ifndef OPS_CPU_PRODUCT_TURNED_LOOPS_H_
#define OPS_CPU_PRODUCT_TURNED_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* to[c * to_row + r] = from[r * from_row + c] for r < rows and c < columns */
CPU_LOOP(void, turn_rows,
         (const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row));

/* Places of a turned matrix's columns: column c lies at c / inner * outer_step + c % inner * inner_step. */
typedef struct turned_places {
  int64_t inner, inner_step, outer_step;
} turned_places;

/* As turn_rows, with columns at such places: to[place + r] = from[r * from_row + c] for r < rows and c < columns; 0 for
 * r from `rows` to `width`, a multiple of 16. */
CPU_LOOP(void, turn_apart,
         (const float *from, int64_t from_row, int64_t rows, int64_t width, int64_t columns,
          const turned_places *places, float *to));

#endif
