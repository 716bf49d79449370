/* Activations over a row of f32, compiled once per CPU level. */
#include "ops/cpu/formulas/activation_loops.h"

#include "ops/cpu/common/functions.h"

#define APPLY(expression) \
  for (int64_t i = 0; i < n; i++) { \
    float v = x[i]; \
    x[i] = (expression); \
  } \
  break

void CPU_LEVELED(activate_f32)(activation_kind kind, float alpha, float beta, float *x, int64_t n) {
  switch (kind) {
    case ACTIVATION_NONE: break;
    case ACTIVATION_RELU: APPLY(v < 0 ? 0 : v);
    case ACTIVATION_SIGMOID: APPLY(sigmoid_f32(v));
    case ACTIVATION_TANH: APPLY(tanh_f32(v));
    case ACTIVATION_LEAKY_RELU: APPLY(v < 0 ? alpha * v : v);
    case ACTIVATION_CLIP: APPLY(clamp_f32(v, alpha, beta));
    case ACTIVATION_HARDSWISH: APPLY(v * clamp_f32(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f));
    case ACTIVATION_HARDSIGMOID: APPLY(clamp_f32(alpha * v + beta, 0.0f, 1.0f));
    case ACTIVATION_ELU: APPLY(v < 0 ? alpha * expm1_f32(v) : v);
    case ACTIVATION_GELU: APPLY(0.5f * v * (1 + erf_f32(v * 0.70710678f)));
    case ACTIVATION_GELU_TANH: APPLY(0.5f * v * (1 + tanh_f32(0.79788456f * v * (1 + 0.044715f * v * v))));
    case ACTIVATION_SWISH: APPLY(v * sigmoid_f32(alpha * v));
    case ACTIVATION_MISH: APPLY(v * tanh_f32(softplus_f32(v)));
    case ACTIVATION_COUNT: break;
  }
}
