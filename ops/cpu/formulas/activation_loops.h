/* Activations over a row of f32, and their kinds (ops/activation.def). */
#ifndef OPS_CPU_FORMULAS_ACTIVATION_LOOPS_H_
#define OPS_CPU_FORMULAS_ACTIVATION_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

typedef enum activation_kind {
  ACTIVATION_NONE,
#define ACTIVATION(kind, ...) ACTIVATION_##kind,
#include "ops/activation.def"
  ACTIVATION_COUNT
} activation_kind;

/* x[i] = activation(x[i]) */
CPU_LOOP(void, activate_f32, (activation_kind kind, float alpha, float beta, float *x, int64_t n));

#endif
