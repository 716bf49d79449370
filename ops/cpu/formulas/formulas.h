/* The element-wise formulas as loops over one run of elements, looked up by dtype and formula. */
#ifndef OPS_CPU_FORMULAS_FORMULAS_H_
#define OPS_CPU_FORMULAS_FORMULAS_H_

#include "ops/cpu/common/cpu.h"
#include "ops/op.h"

/* Formulas go by their operator's number; those that an attribute chooses have numbers of their own. */
enum { OP_FMod = OP_COUNT, OP_GeluTanh, OP_ShiftLeft, OP_ShiftRight, FORMULA_COUNT };

typedef struct elementwise_parameters {
  double alpha, beta;
} elementwise_parameters;

/* The formula that the operator and its attributes choose (fmod of Mod, approximate of Gelu, direction of BitShift),
 * FORMULA_COUNT where an attribute says something unknown. Sum and Mean are Add. */
int elementwise_choice(const reed_op *op, const reed_attrs *attrs);
/* Its parameters from the attributes, and the cost of an element in units of an addition. */
elementwise_parameters elementwise_parameters_of(int formula, const reed_attrs *attrs);
int elementwise_cost(int formula);

/* out[i] = formula(in[0][i * steps[0]], in[1][i * steps[1]], ...) for i below n, where a step is 1, or 0 for a single
 * element that meets all n. Not all steps are 0 unless n is 1. out may equal an in[k] whose step is 1 and whose
 * elements have the output's size. Returns 0, or 1 after a fault (division by an integer 0); the elements are then
 * unspecified. */
typedef int (*elementwise_fn)(void *out, const void *const *in, const uint8_t *steps, int64_t n,
                              const elementwise_parameters *parameters);

/* The loop for operands of that dtype (f16 and bf16 have none: convert to f32); NULL where there is no such formula. */
elementwise_fn elementwise_formula(cpu_level level, reed_dtype dtype, int formula);
/* The unsigned integer dtype of the same size: what Where and other movers of elements compute in. */
reed_dtype elementwise_carrier(reed_dtype dtype);

/* n dense elements from one dtype to another: ONNX Cast (19). out may equal in only where the dtypes have the same
 * size. Out of range: float to integer gives what x86's truncation does (the integer's minimum for 32 and 64 bit
 * signed, low bits of that for narrower), integer to narrower integer wraps, to bool is "not zero". */
typedef void (*convert_fn)(void *out, const void *in, int64_t n);
convert_fn convert_between(cpu_level level, reed_dtype from, reed_dtype to);

#endif
