/* A formula: its number, its parameters, its loop over one run of elements. */
#ifndef OPS_CPU_FORMULAS_FORMULA_H_
#define OPS_CPU_FORMULAS_FORMULA_H_

#include "ops/op.h"

/* A formula has its operator's number; formulas that an attribute chooses have further numbers. */
enum { OP_FMod = OP_COUNT, OP_GeluTanh, OP_ShiftLeft, OP_ShiftRight, FORMULA_COUNT };

typedef struct elementwise_parameters {
  double alpha, beta;
} elementwise_parameters;

/* out[i] = formula(in[0][i * steps[0]], in[1][i * steps[1]], ...) for i below n. A step is 1, or 0 for a single element
 * that is combined with all n; not all steps are 0 unless n is 1. out may equal an in[k] whose step is 1 and whose
 * elements have the output's size. Returns 0, or 1 after a fault (division by an integer 0); the elements are then
 * unspecified. */
typedef int (*elementwise_fn)(void *out, const void *const *in, const uint8_t *steps, int64_t n,
                              const elementwise_parameters *parameters);

#endif
