/* Reading a call's activation (activation.h), and computing it by the formulas of formulas.def: rows of f32 by the
 * loops of activation_loops.h, single elements in double for the references. */
#include "ops/cpu/formulas/activation.h"

#include "ops/cpu/formulas/activation_loops.h"
#include "ops/cpu/formulas/formulas.h"

void activation_read(const reed_kernel_call *call, activation *out_activation) {
  bool given = reed_attrs_find(call->attrs, "activation") != NULL;
  *out_activation = (activation){.kind = ACTIVATION_NONE,
                                 .level = cpu_level_now(),
                                 .alpha = op_attr_float(call->attrs, "activation_alpha"),
                                 .beta = op_attr_float(call->attrs, "activation_beta")};
  /* the valid words of the attribute are the rows of activation.def, in their order */
  if (given) out_activation->kind = (activation_kind)(1 + op_attr_word(call->op, call->attrs, "activation"));
}

double activation_at(const activation *a, double x) {
  static const int formulas[] = {
#define ACTIVATION(name, text, op, approximate, formula) [ACTIVATION_##name] = OP_##formula,
#include "ops/activation.def"
  };
  return a->kind == ACTIVATION_NONE ? x : elementwise_at(formulas[a->kind], x, a->alpha, a->beta);
}

void activation_row(const activation *a, float *x, int64_t n) {
  if (a->kind != ACTIVATION_NONE) CPU_PICK(a->level, activate_f32)(a->kind, (float)a->alpha, (float)a->beta, x, n);
}

typedef struct span {
  const activation *activation;
  float *x;
} span;

static void apply(void *context, int64_t begin, int64_t end) {
  const span *s = context;
  activation_row(s->activation, s->x + begin, end - begin);
}

reed_status activation_apply(const activation *a, cpu_team team, float *x, int64_t n) {
  if (a->kind == ACTIVATION_NONE) return REED_OK;
  return cpu_parallel(cpu_team_for(team, n * 16), n, 64, apply, &(span){a, x});
}
