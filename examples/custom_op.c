/* An operator of one's own in C, with shape function, flags and kernel. Without an argument the program registers the
 * operator, assembles a small module that calls it, and runs the module. Built as a shared object (-DPLUGIN) it is a
 * plugin for `vm run --plugin`.
 *
 * example.Repeat: data [n] and count (one int64) -> [n * count], the data repeated count times. Its shape function
 * reads the shape of `data` and the value of `count`. From these two flags the compiler and the interpreter find the
 * operator's epoch, and know that only `count` must be on the host. */
#include <reed/reed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the operator ---- */

static reed_status repeat_shape(reed_shape_call *call) {
  const reed_shape_input *data = &call->inputs[0], *count = &call->inputs[1];
  if (data->rank != 1) return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "data must have one axis");
  if (count->n_values != 1) return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "count must have one element");
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = reed_dim_mul(call, data->dims[0], reed_shape_value(call, 1, 0));
  return call->status;
}

/* The kernel's state, made when the shapes are known: bytes of the data, and the number of repetitions. */
typedef struct repeat_state {
  size_t bytes, count;
} repeat_state;

static reed_status repeat_run(const void *state, const reed_kernel_buffers *buffers) {
  const repeat_state *s = state;
  for (size_t i = 0; i < s->count && s->bytes; i++)
    memcpy((char *)buffers->outputs[0] + i * s->bytes, buffers->inputs[0], s->bytes);
  return REED_OK;
}

static reed_status repeat_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *in = &call->inputs[0], *out = &call->outputs[0];
  repeat_state *s = malloc(sizeof *s);
  if (!s) return reed_kernel_fail(call, REED_ERROR_MEMORY, "out of memory");
  s->bytes = (size_t)in->dims[0] * reed_dtype_bytes(in->dtype);
  s->count = in->dims[0] ? (size_t)(out->dims[0] / in->dims[0]) : 0;
  *out_kernel = (reed_kernel){.run = repeat_run, .state = s, .free = free};
  return REED_OK;
}

#define ANY_DTYPE ((1u << REED_DTYPE_COUNT) - 2) /* all but REED_NONE */
static const reed_op_input repeat_inputs[] = {{.name = "data", .reads = REED_READS_SHAPE, .dtypes = ANY_DTYPE},
                                              {.name = "count", .reads = REED_READS_VALUE, .dtypes = 1u << REED_I64}};
static const reed_op_output repeat_outputs[] = {{.name = "repeated", .type_rule = REED_TYPE_LIKE, .type_arg = 0}};
static const reed_op repeat = {.domain = "example",
                               .name = "Repeat",
                               .inputs = repeat_inputs,
                               .n_inputs = 2,
                               .outputs = repeat_outputs,
                               .n_outputs = 1,
                               .shape = repeat_shape,
                               .cpu = repeat_prepare};

/* The entry point of a plugin: `vm run model.onnx --plugin libcustom_op.so`. */
REED_API reed_status reed_plugin_register(reed_registry *registry, reed_diagnosis *diagnosis);
reed_status reed_plugin_register(reed_registry *registry, reed_diagnosis *diagnosis) {
  return reed_registry_add(registry, &repeat, diagnosis);
}

#ifndef PLUGIN
/* ---- a program that uses it ---- */

static const char module_text[] = ".module \"repeat\"\n"
                                  ".type numbers = f32[?] \"numbers\"\n"
                                  ".type times = i64[] \"times\"\n"
                                  ".type repeated = f32[?] \"repeated\"\n"
                                  ".site repeat = Repeat in \"example\" (2 -> 1) \"repeat\"\n"
                                  ".function main (numbers, times) -> (repeated)\n"
                                  "  shape repeat, host, [r2], [r0:shape, r1:value]\n"
                                  "  alloc r2\n"
                                  "  invoke repeat, host, [r2], [r0, r1]\n"
                                  "  return [r2], []\n";

static reed_status run(reed_registry *registry, reed_diagnosis *diagnosis) {
  reed_program *program = NULL;
  reed_session *session = NULL;
  reed_tensor *inputs[2] = {NULL, NULL}, *output = NULL;
  void *bytes = NULL;
  size_t n_bytes;
  float numbers[] = {1, 2, 3};
  int64_t times = 3, extent = 3;
  reed_status status = reed_module_assemble(module_text, registry, &bytes, &n_bytes, diagnosis);
  if (!status)
    status =
        reed_program_open_bytes(bytes, n_bytes, &(reed_program_options){.registry = registry}, &program, diagnosis);
  if (!status) status = reed_session_open(program, NULL, &session, diagnosis);
  if (!status) status = reed_tensor_open_borrowed(REED_F32, 1, &extent, numbers, NULL, NULL, &inputs[0]);
  if (!status) status = reed_tensor_open_borrowed(REED_I64, 0, NULL, &times, NULL, NULL, &inputs[1]);
  if (!status) status = reed_session_run(session, inputs, 2, &output, 1, diagnosis);
  for (int64_t i = 0; !status && i < reed_tensor_elements(output); i++)
    printf("%g ", ((const float *)reed_tensor_data(output))[i]);
  if (!status) printf("\n");
  reed_tensor_close(&output);
  reed_tensor_close(&inputs[0]);
  reed_tensor_close(&inputs[1]);
  if (session) reed_session_close(&session);
  if (program) reed_program_close(&program);
  reed_text_free(bytes);
  return status;
}

int main(void) {
  reed_diagnosis *diagnosis;
  reed_registry *registry;
  if (reed_diagnosis_open(&diagnosis) || reed_registry_open(&registry)) return 1;
  reed_status status = reed_plugin_register(registry, diagnosis);
  if (!status) status = run(registry, diagnosis);
  if (status) fprintf(stderr, "%s: %s\n", reed_status_name(status), reed_diagnosis_message(diagnosis));
  reed_registry_close(&registry);
  reed_diagnosis_close(&diagnosis);
  return status ? 1 : 0;
}
#endif
