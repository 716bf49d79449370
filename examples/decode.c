/* Greedy decoding with a cache: runs a decoder on a prompt, then token by token, and prints the tokens that it chooses.
 *
 *     cc decode.c $(pkg-config --cflags --libs reed) -o decode && ./decode decoder.reed 200 1 2 3
 *
 * The decoder's input 0 is ids i64[batch,length], its output 0 logits f32[batch,length,vocabulary]. An input of i64
 * whose name has "mask" is a mask of all tokens, i64[batch,past + length], of ones here; one whose name has "position"
 * the places of the new ones, i64[batch,length]. The other inputs, and the outputs from 1 on, are caches in the same
 * order: a past, and the past with the new rows joined to it along one axis, as exporters write it.
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

/* The numbers first, first + step, ... of n tokens. */
static reed_tensor *numbers(int64_t n, int64_t first, int64_t step) {
  reed_tensor *made;
  must(reed_tensor_open(REED_I64, 2, (int64_t[]){1, n}, &made));
  for (int64_t i = 0; i < n; i++) ((int64_t *)reed_tensor_data(made))[i] = first + i * step;
  return made;
}

/* Input i for n tokens behind `past` ones; NULL: it is a cache. */
static reed_tensor *tokens_input(const reed_program *program, size_t i, int64_t past, int64_t n) {
  reed_value_info info;
  must(reed_program_input(program, i, &info));
  if (info.dtype != REED_I64) return NULL;
  if (strstr(info.name, "mask")) return numbers(past + n, 1, 0);
  if (strstr(info.name, "position")) return numbers(n, past, 1);
  fprintf(stderr, "input '%s' is unknown\n", info.name), exit(1);
}

/* The past of input i before the first token: no rows along the axis that grows, which is the last one without a fixed
 * extent. The memory of its output has room for `capacity` rows there. */
static reed_tensor *begin_cache(reed_session *session, const reed_program *program, size_t i, size_t output,
                                int64_t capacity) {
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
  must(reed_session_bind_output(session, output, memory, axis, diagnosis));
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
  size_t n = reed_program_input_count(program), n_outputs = reed_program_output_count(program), n_caches = 0;
  if (n_tokens < 1 || n < 2 || n_outputs < 2 || n_outputs > n)
    return fprintf(stderr, "a count of tokens, and a decoder with ids and caches are needed\n"), 2;
  reed_tensor *inputs[n], *outputs[n_outputs];
  inputs[0] = numbers(n_prompt, 0, 0);
  for (int64_t i = 0; i < n_prompt; i++) ((int64_t *)reed_tensor_data(inputs[0]))[i] = atoll(argv[3 + i]);
  for (size_t i = 1; i < n; i++) {
    inputs[i] = tokens_input(program, i, 0, n_prompt);
    if (!inputs[i] && ++n_caches < n_outputs)
      inputs[i] = begin_cache(session, program, i, n_caches, n_prompt + n_tokens);
  }
  if (n_caches != n_outputs - 1) return fprintf(stderr, "%zu pasts, %zu caches\n", n_caches, n_outputs - 1), 2;

  for (int64_t step = 0; step < n_tokens; step++) {
    must(reed_session_run(session, inputs, n, outputs, n_outputs, diagnosis));
    int64_t token = choose(outputs[0]);
    size_t cache = 1;
    printf(step ? " %lld" : "%lld", (long long)token);
    for (size_t i = 0; i < n; i++) reed_tensor_close(&inputs[i]);
    reed_tensor_close(&outputs[0]);
    inputs[0] = numbers(1, token, 0);
    for (size_t i = 1; i < n; i++) {
      inputs[i] = tokens_input(program, i, n_prompt + step, 1);
      if (!inputs[i]) inputs[i] = outputs[cache++]; /* the next step's past */
    }
  }
  printf("\n");
  print_figures(session);
  for (size_t i = 0; i < n; i++) reed_tensor_close(&inputs[i]);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
