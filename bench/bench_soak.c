/* A test that a session's memory stops growing. Runs a model many times, with new extents in each run for the dims that
 * the model leaves open, and prints the resident memory and its parts after each tenth of the runs. Memo, primitives
 * and pools fill up during the first runs. Growth after a tenth of the runs (and the hundredth) is a leak or a missing
 * bound; growth by more than a twentieth ends the program with status 1. A line has the largest resident memory since
 * the line before, because pools give memory back at the end of each window of runs and take it again, and the parts of
 * the present memory.
 *
 *     bench_soak MODEL.onnx|MODEL.reed [--threads N] [--entries N] [--pictures KIND] [--small N] RUNS SYMBOL=EXTENTS...
 *
 * EXTENTS and pictures: steps.h. --entries: keys remembered for each epoch; a small number makes the memo reach its
 * bound sooner. With --small N runs follow at the least of all drawn extents, and the pool must have given back a third
 * of its bytes or more after them, or the status is 1. */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/inputs.h"
#include "bench/steps.h"
#include "reed/compiler.h"
#include "reed/reed.h"

#define MAX_INPUTS 64

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

/* The number after "key": in the JSON, from the word `from` on. */
static double figure(const char *json, const char *from, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, from);
  at = at ? strstr(at, quoted) : NULL;
  return at ? strtod(at + strlen(quoted), NULL) / (1 << 20) : 0;
}

/* A line of the curve: resident bytes, and the present bytes of the session's parts and of the C library's heap. The
 * heap's blocks below its limit for mmap are memo entries, packed weights and small outputs; free: gaps between them.
 */
static void print_parts(int64_t run, int64_t bytes, reed_session *session) {
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  struct mallinfo2 heap = mallinfo2();
  printf(
      "%7lld %9.1f | memo %5.1f  pool %6.1f (live %6.1f)  arena %6.1f  outputs %5.1f  stored %5.1f | heap %6.1f (free "
      "%5.1f)  mapped %6.1f\n",
      (long long)run, (double)bytes / (1 << 20), figure(json, "\"memo\":{", "bytes"),
      figure(json, "\"host\":", "reserved_bytes"), figure(json, "\"host\":", "live_bytes"),
      figure(json, "\"host\":", "arena_held_bytes"), figure(json, "\"host\":", "output_reserved_bytes"),
      figure(json, "{", "stored_bytes"), (double)heap.arena / (1 << 20), (double)heap.fordblks / (1 << 20),
      (double)heap.hblkhd / (1 << 20));
  reed_text_free(json);
}

static steps_extents extents;
static int pictures;
static reed_program *program;
static reed_session *session;
static reed_tensor **outputs;
static size_t n_inputs, n_outputs;

/* Runs the model at extents and a picture of this step. Returns the resident bytes afterwards. */
static int64_t run_step(int64_t step) {
  reed_tensor *inputs[MAX_INPUTS];
  steps_draw(&extents, step);
  for (size_t k = 0; k < n_inputs; k++) {
    reed_value_info info;
    need(reed_program_input(program, k, &info), "an input");
    need(input_open(&info, steps_extent, &extents, &inputs[k]), "an input");
    input_draw(inputs[k], pictures);
  }
  need(reed_session_run(session, inputs, n_inputs, outputs, n_outputs, diagnosis), "a run");
  for (size_t k = 0; k < n_inputs; k++) reed_tensor_close(&inputs[k]);
  for (size_t k = 0; k < n_outputs; k++) reed_tensor_close(&outputs[k]);
  return resident();
}

/* True if memory has grown. */
static bool run_soak(int64_t runs) {
  int64_t filled = 0, most = 0, last = 0;
  int64_t full = runs / 10 > 100 ? runs / 10 : runs / 2; /* the runs after which memory must not grow */
  printf("   runs  resident | MiB\n");
  print_parts(0, resident(), session);
  for (int64_t i = 0; i < runs; i++) {
    int64_t now = run_step(i);
    most = now > most ? now : most;
    if ((i + 1) * 10 / runs == i * 10 / runs) continue;
    last = most;
    most = 0;
    if (i + 1 <= full) filled = last;
    print_parts(i + 1, last, session);
  }
  int64_t grown = last - filled, allowed = filled / 20 + (full < 100 ? 4 << 20 : 0);
  printf("after %lld runs %.1f MiB, after %lld %.1f MiB: %+.1f %%\n", (long long)full, (double)filled / (1 << 20),
         (long long)runs, (double)last / (1 << 20), 100.0 * (double)grown / (double)filled);
  return grown > allowed;
}

/* MiB that the session's pool of host memory has. */
static double pool_bytes(void) {
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  double bytes = figure(json, "\"host\":", "reserved_bytes");
  reed_text_free(json);
  return bytes;
}

/* True if the pool has kept more than two thirds of its bytes after runs at the least of all drawn extents. */
static bool run_small(int64_t first, int64_t runs) {
  double pool = pool_bytes();
  int64_t before = resident(), after = before;
  for (int i = 0; i < extents.n; i++) {
    char *range = strchr(extents.words[i], ':');
    if (range) *range = '\0';
  }
  for (int64_t i = 0; i < runs; i++) after = run_step(first + i);
  print_parts(first + runs, after, session);
  printf("after %lld small runs: resident %.1f -> %.1f MiB, pool %.1f -> %.1f\n", (long long)runs,
         (double)before / (1 << 20), (double)after / (1 << 20), pool, pool_bytes());
  return pool_bytes() > pool * 2 / 3;
}

int main(int argc, char **argv) {
  int64_t n_threads = 0, entries = 0, n_small = 0;
  int first = 2;
  for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
    int64_t value = argument_integer(argv[first], argv[first + 1], 0, INT32_MAX);
    if (strcmp(argv[first], "--threads") == 0) n_threads = value;
    else if (strcmp(argv[first], "--entries") == 0) entries = value;
    else if (strcmp(argv[first], "--pictures") == 0) pictures = (int)value;
    else if (strcmp(argv[first], "--small") == 0) n_small = value;
    else return fprintf(stderr, "bench_soak: there is no %s\n", argv[first]), 2;
  }
  if (first >= argc || argc - first - 1 > STEPS_WORDS) {
    fprintf(stderr, "usage: bench_soak MODEL [--threads N] [--entries N] [--pictures KIND] [--small N] RUNS "
                    "SYMBOL=EXTENTS...\n");
    return 2;
  }
  int64_t runs = argument_integer("RUNS", argv[first++], 4, INT32_MAX);
  while (first < argc) extents.words[extents.n++] = argv[first++];
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  program = open_program(argv[1]);
  steps_check(&extents, program);
  n_inputs = reed_program_input_count(program);
  n_outputs = reed_program_output_count(program);
  if (n_inputs > MAX_INPUTS) return fprintf(stderr, "bench_soak: more than %d inputs\n", MAX_INPUTS), 2;
  need(reed_session_open(program, &(reed_session_options){.n_threads = (int32_t)n_threads, .memo_entries = entries},
                         &session, diagnosis),
       "a session");
  outputs = calloc(n_outputs ? n_outputs : 1, sizeof *outputs);
  if (!outputs) return 2;
  bool grown = run_soak(runs), kept = n_small > 0 && run_small(runs, n_small);
  free(outputs);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return grown || kept;
}
