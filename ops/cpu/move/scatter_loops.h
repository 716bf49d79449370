/* Updates of single elements of ScatterElements and ScatterND at known places. */
#ifndef OPS_CPU_MOVE_SCATTER_LOOPS_H_
#define OPS_CPU_MOVE_SCATTER_LOOPS_H_

#include "ops/op.h"

/* to[places[k]] = to[places[k]] combined with updates[k], for k < n in order. */
typedef void (*scatter_fn)(void *to, const int64_t *places, const void *updates, int64_t n);

/* The loop that replaces elements of 1, 2, 4 or 8 bytes. */
scatter_fn scatter_replacing(int64_t size);
/* The loop for OP_Add, OP_Mul, OP_Max or OP_Min, with the formula's bits; NULL: there is none for the dtype. */
scatter_fn scatter_combining(reed_dtype dtype, int formula);

#endif
