/* Reading a call's activation (activation.h), and computing it: rows of f32 by the loops of activation_loops.h, single
 * elements in double for the references and other dtypes. */
#include "ops/cpu/formulas/activation.h"

#include <math.h>

#include "ops/cpu/formulas/activation_loops.h"

reed_status activation_read(const reed_kernel_call *call, activation *out_activation) {
  const reed_attr *word = reed_attrs_find(call->attrs, "activation");
  *out_activation = (activation){.level = cpu_level_now(),
                                 .alpha = op_attr_float(call->attrs, "activation_alpha"),
                                 .beta = op_attr_float(call->attrs, "activation_beta")};
  if (!word) return REED_OK;
#define ACTIVATION(name, text, ...) \
  if (strcmp(word->s, text) == 0) return out_activation->kind = ACTIVATION_##name, REED_OK;
#include "ops/activation.def"
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "activation '%s' is not known", word->s);
}

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double activation_at(const activation *a, double x) {
  switch (a->kind) {
    case ACTIVATION_NONE: return x;
    case ACTIVATION_RELU: return x < 0 ? 0 : x;
    case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case ACTIVATION_TANH: return tanh(x);
    case ACTIVATION_LEAKY_RELU: return x < 0 ? a->alpha * x : x;
    case ACTIVATION_CLIP: return between(x, a->alpha, a->beta);
    case ACTIVATION_HARDSWISH: return x * between(x / 6 + 0.5, 0, 1);
    case ACTIVATION_HARDSIGMOID: return between(a->alpha * x + a->beta, 0, 1);
    case ACTIVATION_ELU: return x < 0 ? a->alpha * expm1(x) : x;
    case ACTIVATION_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case ACTIVATION_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
    case ACTIVATION_SWISH: return x / (1 + exp(-a->alpha * x));
    case ACTIVATION_MISH: return x * tanh(x > 40 ? x : log1p(exp(x)));
    case ACTIVATION_COUNT: break;
  }
  return x;
}

typedef struct span {
  const activation *activation;
  reed_dtype dtype;
  char *data;
} span;

static void apply_any(void *context, int64_t begin, int64_t end) {
  const span *s = context;
  size_t bytes = reed_dtype_bytes(s->dtype);
  for (int64_t i = begin; i < end; i++) {
    char *element = s->data + (size_t)i * bytes;
    reed_dtype_write(s->dtype, element, activation_at(s->activation, reed_dtype_read(s->dtype, element)));
  }
}

void activation_row(const activation *a, float *x, int64_t n) {
  if (a->kind != ACTIVATION_NONE) CPU_PICK(a->level, activate_f32)(a->kind, (float)a->alpha, (float)a->beta, x, n);
}

static void apply_f32(void *context, int64_t begin, int64_t end) {
  const span *s = context;
  activation_row(s->activation, (float *)s->data + begin, end - begin);
}

reed_status activation_apply(const activation *a, cpu_team team, reed_dtype dtype, void *data, int64_t n) {
  if (a->kind == ACTIVATION_NONE) return REED_OK;
  span s = {a, dtype, data};
  return cpu_parallel(cpu_team_for(team, n * 16), n, 64, dtype == REED_F32 ? apply_f32 : apply_any, &s);
}
