/* A test that a session's memory stops growing. Runs a model many times, with new extents in each run for the dims that
 * the model leaves open, and prints the resident memory after each quarter of the runs. Memo, primitives and pools fill
 * up during the first half. Growth during the second half is a leak or a missing bound, and ends the program with
 * status 1.
 *
 *     bench_soak MODEL.onnx|MODEL.reed RUNS LOW HIGH [ENTRIES]
 *
 * Extents are LOW..HIGH; dims of one name have one extent in a run. ENTRIES: keys remembered for each epoch; a small
 * number makes the memo reach its bound sooner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/inputs.h"
#include "reed/compiler.h"
#include "reed/reed.h"

#define MAX_INPUTS 8
#define MAX_SYMBOLS 32

static reed_diagnosis *diagnosis;

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_soak: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

/* Resident bytes of this process. */
static int64_t resident(void) {
  long long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * (int64_t)sysconf(_SC_PAGESIZE);
}

/* The extents of one run: dims of one name have one extent. */
typedef struct drawing {
  int64_t low, high;
  int n;
  struct {
    const char *symbol;
    int64_t extent;
  } drawn[MAX_SYMBOLS];
} drawing;

static int64_t draw_extent(void *context, const char *symbol) {
  drawing *d = context;
  for (int i = 0; symbol && i < d->n; i++)
    if (strcmp(d->drawn[i].symbol, symbol) == 0) return d->drawn[i].extent;
  int64_t extent = d->low + (int64_t)(random_part() * (double)(d->high - d->low + 1));
  if (symbol && d->n < MAX_SYMBOLS) {
    d->drawn[d->n].symbol = symbol;
    d->drawn[d->n++].extent = extent;
  }
  return extent;
}

static reed_program *open_program(const char *path) {
  const char *dot = strrchr(path, '.');
  reed_program *program;
  if (!dot || strcmp(dot, ".onnx") != 0) {
    need(reed_program_open(path, NULL, &program, diagnosis), path);
    return program;
  }
  void *bytes;
  size_t n;
  need(reed_compile_file(path, NULL, &bytes, &n, NULL, diagnosis), path);
  need(reed_program_open_bytes(bytes, n, NULL, &program, diagnosis), path);
  reed_text_free(bytes);
  return program;
}

int main(int argc, char **argv) {
  if (argc < 5 || argc > 6 || atoll(argv[2]) < 4 || atoll(argv[3]) < 1 || atoll(argv[4]) < atoll(argv[3])) {
    fprintf(stderr, "usage: bench_soak MODEL RUNS LOW HIGH [ENTRIES]\n");
    return 2;
  }
  int64_t runs = atoll(argv[2]), low = atoll(argv[3]), high = atoll(argv[4]), at_quarter[5];
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  reed_program *program = open_program(argv[1]);
  size_t n_inputs = reed_program_input_count(program), n_outputs = reed_program_output_count(program);
  if (n_inputs > MAX_INPUTS) return fprintf(stderr, "bench_soak: more than %d inputs\n", MAX_INPUTS), 2;
  reed_session *session;
  need(reed_session_open(program, &(reed_session_options){.memo_entries = argc > 5 ? atoll(argv[5]) : 0}, &session,
                         diagnosis),
       "a session");
  reed_tensor **outputs = calloc(n_outputs ? n_outputs : 1, sizeof *outputs);
  if (!outputs) return 2;
  at_quarter[0] = resident();
  for (int64_t i = 0; i < runs; i++) {
    drawing extents = {.low = low, .high = high};
    reed_tensor *inputs[MAX_INPUTS];
    for (size_t k = 0; k < n_inputs; k++) {
      reed_value_info info;
      need(reed_program_input(program, k, &info), "an input");
      need(input_open(&info, draw_extent, &extents, &inputs[k]), "an input");
    }
    need(reed_session_run(session, inputs, n_inputs, outputs, n_outputs, diagnosis), "a run");
    for (size_t k = 0; k < n_inputs; k++) reed_tensor_close(&inputs[k]);
    for (size_t k = 0; k < n_outputs; k++) reed_tensor_close(&outputs[k]);
    if ((i + 1) * 4 / runs > i * 4 / runs) at_quarter[(i + 1) * 4 / runs] = resident();
  }
  printf("resident MiB at the start and after each quarter of %lld runs:", (long long)runs);
  for (int i = 0; i <= 4; i++) printf(" %.1f", (double)at_quarter[i] / (1 << 20));
  int64_t grown = at_quarter[4] - at_quarter[2], allowed = at_quarter[2] / 20 + (4 << 20);
  printf("; second half %+.1f\n", (double)grown / (1 << 20));
  free(outputs);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return grown > allowed;
}
