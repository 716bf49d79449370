/* Launches of BatchNormalization at inference, as a program of kernel `map`. */
#include "base/desc.h"
#include "base/mem.h"
#include "device/cuda/kernels/map.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/activation.h"

typedef struct norm_program {
  map_program *p;
  reed_dtype compute;
} norm_program;

static int32_t add(norm_program *n, int formula, int32_t a, int32_t b) {
  return map_add(
      n->p,
      (map_step){.formula = (uint16_t)formula, .from = (uint8_t)n->compute, .operands = {(uint8_t)a, (uint8_t)b}});
}

/* The call's activation of value x. Clip's limits are values, which stand before all steps. */
static void add_activation(norm_program *n, const activation *given, int32_t x, int32_t low, int32_t high) {
  static const int formulas[] = {
#define ACTIVATION(name, text, op, approximate, formula) [ACTIVATION_##name] = OP_##formula,
#include "ops/activation.def"
  };
  if (given->kind == ACTIVATION_NONE) return;
  map_add(n->p, (map_step){.formula = (uint16_t)formulas[given->kind],
                           .from = (uint8_t)n->compute,
                           .alpha = given->alpha,
                           .beta = given->beta,
                           .operands = {(uint8_t)x, (uint8_t)low, (uint8_t)high}});
}

reed_status cuda_prepare_batch_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *out = &call->outputs[0];
  const bool last = op_attr_int(call->attrs, "channels_last") != 0;
  cuda_plan plan = {.call = call};
  activation given;
  activation_read(call, &given);
  norm_program n = {mem_calloc(1, sizeof *n.p), map_held(x->dtype)};
  if (!n.p) return cpu_no_memory(call);
  int32_t values[5];
  reed_desc descs[5];
  values[0] = map_input(n.p, call, 0, n.compute);
  for (int32_t k = 1; k < 5; k++) { /* scale, B, mean and variance: one element a channel */
    descs[k] = (reed_desc){.dtype = call->inputs[k].dtype, .rank = last || x->rank < 2 ? 1 : x->rank - 1};
    for (int32_t d = 0; d < descs[k].rank; d++) descs[k].dims[d] = d ? 1 : desc_elements(&call->inputs[k]);
    values[k] = map_leaf_of(n.p, (map_operand){CUDA_FROM_INPUT, k, call->inputs[k].dtype, &descs[k]}, n.compute);
  }
  const int32_t epsilon = map_constant(n.p, n.compute, op_attr_float(call->attrs, "epsilon")),
                low = map_constant(n.p, n.compute, given.alpha), high = map_constant(n.p, n.compute, given.beta);
  const int32_t deviation = map_add(n.p, (map_step){.formula = OP_Sqrt,
                                                    .from = (uint8_t)n.compute,
                                                    .operands = {(uint8_t)add(&n, OP_Add, values[4], epsilon)}});
  const int32_t centred = add(&n, OP_Sub, values[0], values[3]);
  const int32_t scaled = add(&n, OP_Mul, add(&n, OP_Div, centred, deviation), values[1]);
  add_activation(&n, &given, add(&n, OP_Add, scaled, values[2]), low, high);
  const reed_status status =
      map_launch(n.p, &plan, out, (map_operand){CUDA_FROM_OUTPUT, 0, out->dtype, out}, n.compute);
  mem_free(n.p);
  if (status == REED_OK) return cuda_plan_close(&plan, 0, out_kernel);
  cuda_plan_drop(&plan);
  return status;
}
