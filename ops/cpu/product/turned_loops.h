/* Turning matrices for convolutions with channels second that are computed with channels last (conv_turned.h). */
#ifndef OPS_CPU_PRODUCT_TURNED_LOOPS_H_
#define OPS_CPU_PRODUCT_TURNED_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* to[c * to_row + r] = from[r * from_row + c] for r < rows and c < columns */
CPU_LOOP(void, turn_rows,
         (const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row));

#endif
