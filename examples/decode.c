/* Greedy decoding with a cache: runs a decoder on a prompt, then token by token, and prints the tokens that it chooses.
 *
 *     cc decode.c $(pkg-config --cflags --libs reed) -o decode && ./decode decoder.reed 200 1 2 3
 *
 * The decoder's input 0 is ids i64[batch,length], its output 0 logits f32[batch,length,vocabulary]. Input i and output
 * i for i > 0 are a cache: its past, and the past with the new rows joined to it along one axis, as exporters write it.
 *
 * Each cache has memory for all tokens, which is bound to the output. The first past is empty. From then on a step's
 * past is the output of the step before, which lies in that memory; so the step writes its new rows behind the past,
 * and copies nothing. The program prints the figures of the last step at the end. */
#include <reed/reed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static reed_diagnosis *diagnosis;

static void must(reed_status status) {
  if (status) fprintf(stderr, "%s: %s\n", reed_status_name(status), reed_diagnosis_message(diagnosis)), exit(1);
}

/* The past of input i before the first token: no rows along the axis that grows, which is the last one without a fixed
 * extent. The output's memory has room for `capacity` rows there. */
static reed_tensor *begin_cache(reed_session *session, const reed_program *program, size_t i, int64_t capacity) {
  reed_value_info info;
  must(reed_program_input(program, i, &info));
  int32_t axis = -1;
  for (int32_t k = 0; k < info.rank; k++) {
    if (info.dims[k] >= 0) continue;
    info.dims[k] = 1; /* the batch */
    axis = k;
  }
  if (axis < 0) fprintf(stderr, "input '%s' is no cache\n", info.name), exit(1);
  reed_tensor *memory, *past;
  info.dims[axis] = capacity;
  must(reed_tensor_open_on("host", info.dtype, info.rank, info.dims, &memory, diagnosis));
  must(reed_session_bind_output(session, i, memory, axis, diagnosis));
  reed_tensor_close(&memory); /* the session holds it */
  info.dims[axis] = 0;
  must(reed_tensor_open(info.dtype, info.rank, info.dims, &past));
  return past;
}

/* The token with the greatest logit in the last row. */
static int64_t choose(const reed_tensor *logits) {
  int64_t n = reed_tensor_dims(logits)[reed_tensor_rank(logits) - 1], best = 0;
  const float *row = (const float *)reed_tensor_data((reed_tensor *)logits) + reed_tensor_elements(logits) - n;
  for (int64_t i = 1; i < n; i++)
    if (row[i] > row[best]) best = i;
  return best;
}

static void print_figures(reed_session *session) {
  char *json;
  must(reed_session_stats_json(session, &json, diagnosis));
  const char *caches = strstr(json, "\"caches\"");
  if (caches) printf("%.*s}\n", (int)strcspn(caches, "}"), caches);
  reed_text_free(json);
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: decode DECODER.reed COUNT TOKEN...\n"), 2;
  reed_program *program;
  reed_session *session;
  must(reed_diagnosis_open(&diagnosis));
  must(reed_program_open(argv[1], NULL, &program, diagnosis));
  must(reed_session_open(program, NULL, &session, diagnosis));
  int64_t n_tokens = atoll(argv[2]), n_prompt = argc - 3;
  size_t n = reed_program_input_count(program);
  if (n_tokens < 1 || n < 2 || n != reed_program_output_count(program))
    return fprintf(stderr, "a count of tokens, and a decoder with ids and caches are needed\n"), 2;
  reed_tensor *inputs[n], *outputs[n];
  must(reed_tensor_open(REED_I64, 2, (int64_t[]){1, n_prompt}, &inputs[0]));
  for (int64_t i = 0; i < n_prompt; i++) ((int64_t *)reed_tensor_data(inputs[0]))[i] = atoll(argv[3 + i]);
  for (size_t i = 1; i < n; i++) inputs[i] = begin_cache(session, program, i, n_prompt + n_tokens);

  for (int64_t step = 0; step < n_tokens; step++) {
    must(reed_session_run(session, inputs, n, outputs, n, diagnosis));
    int64_t token = choose(outputs[0]);
    printf(step ? " %lld" : "%lld", (long long)token);
    reed_tensor_close(&outputs[0]);
    for (size_t i = 0; i < n; i++) reed_tensor_close(&inputs[i]);
    for (size_t i = 1; i < n; i++) inputs[i] = outputs[i]; /* the next step's past */
    must(reed_tensor_open(REED_I64, 2, (int64_t[]){1, 1}, &inputs[0]));
    *(int64_t *)reed_tensor_data(inputs[0]) = token;
  }
  printf("\n");
  print_figures(session);
  for (size_t i = 0; i < n; i++) reed_tensor_close(&inputs[i]);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
