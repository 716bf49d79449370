/* A test that a session's memory stops growing. Runs a model many times, with new extents in each run for the dims that
 * the model leaves open, and prints the resident memory and its parts after each tenth of the runs. Memo, primitives
 * and pools fill up during the first runs. Growth after a tenth of the runs (and the hundredth) is a leak or a missing
 * bound; growth by more than a twentieth ends the program with status 1. A line has the largest resident memory since
 * the line before, because pools give memory back at the end of each window of runs and take it again, and the parts of
 * the present memory.
 *
 *     bench_soak MODEL.onnx|MODEL.reed RUNS LOW HIGH [ENTRIES]
 *
 * Extents are LOW..HIGH; dims of one name have one extent in a run. ENTRIES: keys remembered for each epoch; a small
 * number makes the memo reach its bound sooner. */
#include <malloc.h>
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

int main(int argc, char **argv) {
  if (argc < 5 || argc > 6 || atoll(argv[2]) < 4 || atoll(argv[3]) < 1 || atoll(argv[4]) < atoll(argv[3])) {
    fprintf(stderr, "usage: bench_soak MODEL RUNS LOW HIGH [ENTRIES]\n");
    return 2;
  }
  int64_t runs = atoll(argv[2]), low = atoll(argv[3]), high = atoll(argv[4]), filled = 0, most = 0, last = 0;
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
  int64_t full = runs / 10 > 100 ? runs / 10 : runs / 2; /* the runs after which memory must not grow */
  printf("   runs  resident | MiB\n");
  print_parts(0, resident(), session);
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
    int64_t now = resident();
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
  free(outputs);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return grown > allowed;
}
