/* A plugin with one operator, example.Twice; built with -DREFUSES it registers the same operator twice and so fails. */
#include "reed/operator.h"

REED_API reed_status reed_plugin_register(reed_registry *registry, reed_diagnosis *diagnosis);

static const reed_op_input inputs[] = {{"x", REED_READS_SHAPE, 1u << REED_F32, false, false, false}};
static const reed_op_output outputs[] = {{"y", false, false, false, REED_TYPE_LIKE, 0}};

static reed_status twice_shape(reed_shape_call *call) {
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = reed_dim_mul(call, call->inputs[0].dims[0], 2);
  return REED_OK;
}

static reed_status twice_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "never runs");
}

static const reed_op twice = {.domain = "example",
                              .name = "Twice",
                              .inputs = inputs,
                              .n_inputs = 1,
                              .outputs = outputs,
                              .n_outputs = 1,
                              .shape = twice_shape,
                              .cpu = twice_prepare};

reed_status reed_plugin_register(reed_registry *registry, reed_diagnosis *diagnosis) {
  reed_status status = reed_registry_add(registry, &twice, diagnosis);
#ifdef REFUSES
  if (!status) status = reed_registry_add(registry, &twice, diagnosis);
#endif
  return status;
}
