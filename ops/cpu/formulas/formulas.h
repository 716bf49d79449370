/* The element-wise formulas (formulas.def): a call's formula, its parameters, and its loop. */
#ifndef OPS_CPU_FORMULAS_FORMULAS_H_
#define OPS_CPU_FORMULAS_FORMULAS_H_

#include "ops/cpu/common/cpu.h"
#include "ops/cpu/formulas/formula.h"

/* The formula that the operator and its attributes choose (fmod of Mod, approximate of Gelu, direction of BitShift);
 * FORMULA_COUNT for an unknown word in an attribute. Sum and Mean are Add. */
int elementwise_choice(const reed_op *op, const reed_attrs *attrs);
/* A formula's parameters, read from the attributes, and the cost of an element of the dtype in units of an addition. */
elementwise_parameters elementwise_parameters_of(int formula, const reed_attrs *attrs);
int elementwise_cost(reed_dtype dtype, int formula);

/* The loop for operands of the dtype; NULL: there is no such formula. f16 and bf16 have no loops: convert to f32. */
elementwise_fn elementwise_formula(cpu_level level, reed_dtype dtype, int formula);
/* y of one x in double, by the formula for floats of one operand, or Clip's with alpha and beta for its limits. */
double elementwise_at(int formula, double x, double alpha, double beta);
/* The unsigned integer dtype of the same size, in which Where and other operators move elements. */
reed_dtype elementwise_carrier(reed_dtype dtype);

#endif
