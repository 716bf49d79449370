/* The samples of deformable convolutions in float and in double (deform_formula_template.h), for C and CUDA. */
#ifndef OPS_CPU_CALLS_DEFORM_FORMULAS_H_
#define OPS_CPU_CALLS_DEFORM_FORMULAS_H_

#include <stdint.h>

#define T float
#define DEFORM_NAME(name) name
#include "ops/cpu/calls/deform_formula_template.h"
#undef T
#undef DEFORM_NAME
#define T double
#define DEFORM_NAME(name) name##_f64
#include "ops/cpu/calls/deform_formula_template.h"
#undef T
#undef DEFORM_NAME

#endif
