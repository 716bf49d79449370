/* Runs a module on inputs of zeros and prints its outputs; open extents become 64.
 *
 *     cc embed.c $(pkg-config --cflags --libs reed) -o embed && ./embed model.reed */
#include <reed/reed.h>

#include <stdio.h>
#include <stdlib.h>

static reed_diagnosis *diagnosis;

static void must(reed_status status) {
  if (status) fprintf(stderr, "%s: %s\n", reed_status_name(status), reed_diagnosis_message(diagnosis)), exit(1);
}

int main(int argc, char **argv) {
  reed_program *program;
  reed_session *session;
  reed_value_info info;
  must(reed_diagnosis_open(&diagnosis));
  must(reed_program_open(argc > 1 ? argv[1] : "model.reed", NULL, &program, diagnosis));
  must(reed_session_open(program, NULL, &session, diagnosis));
  size_t n_inputs = reed_program_input_count(program), n_outputs = reed_program_output_count(program);
  reed_tensor *inputs[n_inputs + 1], *outputs[n_outputs + 1];
  for (size_t i = 0; i < n_inputs; i++) {
    must(reed_program_input(program, i, &info));
    for (int k = 0; k < info.rank; k++) info.dims[k] = info.dims[k] < 0 ? 64 : info.dims[k];
    must(reed_tensor_open(info.dtype, info.rank, info.dims, &inputs[i]));
  }
  must(reed_session_run(session, inputs, n_inputs, outputs, n_outputs, diagnosis));
  for (size_t i = 0; i < n_outputs; i++) {
    must(reed_program_output(program, i, &info));
    printf("%s %s[", info.name, reed_dtype_name(reed_tensor_dtype(outputs[i])));
    for (int k = 0; k < reed_tensor_rank(outputs[i]); k++)
      printf(k ? ",%lld" : "%lld", (long long)reed_tensor_dims(outputs[i])[k]);
    printf("]%s", reed_tensor_elements(outputs[i]) ? " first element " : "\n");
    if (reed_tensor_elements(outputs[i]))
      printf("%g\n", reed_dtype_read(reed_tensor_dtype(outputs[i]), reed_tensor_data(outputs[i])));
    reed_tensor_close(&outputs[i]);
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
}
