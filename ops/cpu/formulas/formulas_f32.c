/* The formulas on f32, compiled once per CPU level. */
#include "ops/cpu/formulas/formulas_f32.h"

#include "ops/cpu/common/functions.h"

#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define IF_BOOL(...)
#define T float
#define W float
#define TAG f32
#define FN(f) f##_f32
#include "ops/cpu/formulas/formula_template.h"

elementwise_fn CPU_LEVELED(elementwise_f32)(int formula) { return loops_f32[formula]; }
