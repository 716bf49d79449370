/* The formula that an operator and its attributes choose, and its loop for a dtype. The formulas themselves are in
 * formulas.def. */
#include "ops/cpu/formulas/formulas.h"

#include <string.h>

#include "base/dtype.h"
#include "ops/cpu/formulas/formulas_f32.h"
#include "ops/cpu/formulas/formulas_plain.h"

int elementwise_cost(reed_dtype dtype, int formula) {
  static const uint8_t costs[FORMULA_COUNT] = {
#define COST(op, cost) [OP_##op] = cost,
#include "ops/cpu/formulas/formulas.def"
  };
  static const uint8_t of_f64[FORMULA_COUNT] = {
#define COST_OF_F64(op, cost) [OP_##op] = cost,
#include "ops/cpu/formulas/formulas.def"
  };
  static const uint8_t of_int[FORMULA_COUNT] = {
#define COST_OF_INT(op, cost) [OP_##op] = cost,
#include "ops/cpu/formulas/formulas.def"
  };
  if (dtype == REED_F64 && of_f64[formula]) return of_f64[formula];
  if (!dtype_is_real(dtype) && of_int[formula]) return of_int[formula];
  return costs[formula] ? costs[formula] : 1;
}

/* The attribute's number; 0 for an operator without the attribute. */
static double number(const reed_attrs *attrs, const char *name) {
  const reed_attr *attr = reed_attrs_find(attrs, name);
  return !attr ? 0 : attr->type == REED_ATTR_INT ? (double)attr->i : attr->f;
}

elementwise_parameters elementwise_parameters_of(int formula, const reed_attrs *attrs) {
  const char *alpha_name = "alpha", *beta_name = "beta";
  switch (formula) {
#define PARAMETERS(op, alpha, beta) \
  case OP_##op: \
    alpha_name = #alpha; \
    beta_name = #beta; \
    break;
#include "ops/cpu/formulas/formulas.def"
  }
  return (elementwise_parameters){number(attrs, alpha_name), number(attrs, beta_name)};
}

int elementwise_choice(const reed_op *op, const reed_attrs *attrs) {
  static const struct {
    int id;
    const char *attr, *word;
    int formula;
  } words[] = {
      {OP_BitShift, "direction", "LEFT", OP_ShiftLeft},
      {OP_BitShift, "direction", "RIGHT", OP_ShiftRight},
      {OP_Gelu, "approximate", "none", OP_Gelu},
      {OP_Gelu, "approximate", "tanh", OP_GeluTanh},
  };
  int id = (int)op_id_of(op);
  bool worded = false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (words[i].id != id) continue;
    worded = true;
    if (strcmp(op_attr_string(attrs, words[i].attr), words[i].word) == 0) return words[i].formula;
  }
  if (worded) return FORMULA_COUNT;
  if (id == OP_Mod && op_attr_int(attrs, "fmod")) return OP_FMod;
  return id == OP_Sum || id == OP_Mean ? OP_Add : id;
}

elementwise_fn elementwise_formula(cpu_level level, reed_dtype dtype, int formula) {
  return dtype == REED_F32 ? CPU_PICK(level, elementwise_f32)(formula)
                           : CPU_PICK(level, elementwise_plain)(dtype, formula);
}

double elementwise_at(int formula, double x, double alpha, double beta) {
  static const uint8_t steps[] = {1, 1, 1};
  const elementwise_parameters parameters = {alpha, beta};
  double y;
  (void)elementwise_plain_base(REED_F64, formula)(&y, (const void *const[]){&x, &alpha, &beta}, steps, 1, &parameters);
  return y;
}

reed_dtype elementwise_carrier(reed_dtype dtype) {
  switch (reed_dtype_bytes(dtype)) {
    case 1: return REED_U8;
    case 2: return REED_U16;
    case 4: return REED_U32;
    default: return REED_U64;
  }
}
