/* The cost of the interpreter itself. Prints, from one run of the program:
 *   - a chain of 1000 adds on 8 floats, memo hit: nanoseconds a kernel, and the ratio to calls of the same loop through
 *     a function pointer, which is the limit;
 *   - the same while spans are collected, which the interpreter executes instruction by instruction;
 *   - a run of one kernel, also a memo hit: the cost of a run besides its kernels (input, key, output, the session's
 * claim);
 *   - scalar instructions and calls;
 *   - the cost of the profiler when it is off.
 * Figures are the fastest of many runs, because other processes only ever add to them; medians are in brackets.
 *
 *   bench_vm [RUNS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/arguments.h"
#include "reed/reed.h"

#define N_ADDS 1000

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void stop(const char *what, const reed_diagnosis *d) {
  fprintf(stderr, "%s: %s\n", what, reed_diagnosis_message(d));
  exit(EXIT_FAILURE);
}

/* n_adds additions of the input to itself, one after the other. */
static char *chain_text(int n_adds) {
  size_t capacity = 400 * ((size_t)n_adds + 10), n = 0;
  char *text = malloc(capacity);
  if (!text) exit(EXIT_FAILURE);
#define PUT(...) n += (size_t)snprintf(text + n, capacity - n, __VA_ARGS__)
  PUT(".module \"chain\" producer \"bench\" \"1\" devices 2\n.type t0 = f32[n] \"x\"\n.type t1 = f32[n] \"y\"\n.inputs "
      "t0\n.outputs t1\n");
  PUT(".site k0 = Add (2 -> 1) \"add\"\n.function main (t0) -> (t1) registers %d 0\n  assert.shape r0, t0\n",
      n_adds + 3);
  PUT("  epoch.enter 0, plan, [r0:shape], []\n  shape.like r1, r0, device\n");
  for (int i = 0; i < n_adds; i++) PUT("  shape k0, device, [r%d], [r%d:shape, r1:shape]\n", i + 2, i + 1);
  PUT("plan:\n  epoch.plan 0\n  copy r1, r0, input, k0, 0\n");
  for (int i = 0; i < n_adds; i++) {
    PUT("  invoke k0, device, [r%d], [r%d, r1]\n", i + 2, i + 1);
    if (i > 0) PUT("  kill r%d\n", i + 1);
  }
  PUT("  kill r1\n  epoch.end 0\n  readback r%d, r%d, output, k0, 0\n  sync\n  return [r%d], []\n", n_adds + 2,
      n_adds + 1, n_adds + 2);
#undef PUT
  return text;
}

static const char loop_text[] =
    ".module \"loop\" producer \"bench\" \"1\" devices 1\n.type t0 = i64[] \"n\"\n.type t1 = i64[] \"sum\"\n.inputs "
    "t0\n.outputs t1\n"
    ".function main (t0) -> (t1) registers 2 5\n"
    "  s.item s0, r0\n  s.const s1, 0\n  s.const s2, 1\n  s.const s3, 0\n"
    "again:\n  s.add s3, s3, s1\n  s.add s1, s1, s2\n  s.lt s4, s1, s0\n  branch.if s4, again\n"
    "  r.scalar r1, s3, i64\n  return [r1], []\n";

static const char call_text[] =
    ".module \"call\" producer \"bench\" \"1\" devices 1\n.type t0 = i64[] \"n\"\n.type t1 = i64[] \"sum\"\n.inputs "
    "t0\n.outputs t1\n"
    ".function main (t0) -> (t1) registers 2 5\n"
    "  s.item s0, r0\n  s.const s1, 0\n  s.const s2, 1\n  s.const s3, 0\n"
    "again:\n  call next, [], [s1], [], [s1]\n  s.lt s4, s1, s0\n  branch.if s4, again\n"
    "  r.scalar r1, s1, i64\n  return [r1], []\n"
    ".function next (| 1) -> (| 1) registers 0 2\n  s.const s1, 1\n  s.add s0, s0, s1\n  return [], [s0]\n";

static reed_session *open_text(const char *text, bool profile, reed_diagnosis *d) {
  void *bytes;
  size_t n;
  reed_program *program;
  reed_session *session;
  if (reed_module_assemble(text, NULL, &bytes, &n, d) != REED_OK) stop("assemble", d);
  if (reed_program_open_bytes(bytes, n, NULL, &program, d) != REED_OK) stop("open", d);
  if (reed_session_open(program, &(reed_session_options){.n_threads = 1, .profile = profile}, &session, d) != REED_OK)
    stop("session", d);
  reed_program_close(&program);
  reed_text_free(bytes);
  return session;
}

/* Nanoseconds of a run. */
typedef struct run_times {
  double fastest, median;
} run_times;

static run_times time_runs(reed_session *session, reed_tensor *input, int runs, reed_diagnosis *d) {
  double *times = calloc((size_t)runs, sizeof *times);
  if (!times) exit(EXIT_FAILURE);
  for (int i = -3; i < runs; i++) {
    reed_tensor *output;
    double begin = now_ns();
    if (reed_session_run(session, &input, 1, &output, 1, d) != REED_OK) stop("run", d);
    if (i >= 0) times[i] = now_ns() - begin;
    reed_tensor_close(&output);
  }
  qsort(times, (size_t)runs, sizeof *times, by_value);
  run_times found = {times[0], times[runs / 2]};
  free(times);
  return found;
}

static void add8(const float *a, const float *b, float *c) {
  for (int i = 0; i < 8; i++) c[i] = a[i] + b[i];
}

/* The limit: the same adds, one call through a pointer each. */
static double direct_ns(int runs) {
  void (*volatile call)(const float *, const float *, float *) = add8;
  static float x[8], y[2][8];
  double best = 1e300;
  for (int r = 0; r < runs; r++) {
    double begin = now_ns();
    for (int i = 0; i < N_ADDS; i++) call(y[i & 1], x, y[(i + 1) & 1]);
    double took = now_ns() - begin;
    if (took < best) best = took;
  }
  return best / N_ADDS;
}

static void print_cpu(void) {
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[256];
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, "model name", 10) == 0) {
      printf("CPU%s", strchr(line, ':'));
      break;
    }
  if (f) fclose(f);
}

int main(int argc, char **argv) {
  int runs = argc > 1 ? (int)argument_integer("RUNS", argv[1], 1, INT32_MAX) : 2000;
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d) != REED_OK) return EXIT_FAILURE;
  print_cpu();
  char *chain = chain_text(N_ADDS), *single = chain_text(1);
  reed_tensor *eight, *count;
  int64_t n = 1000000;
  if (reed_tensor_open(REED_F32, 1, (int64_t[]){8}, &eight) != REED_OK ||
      reed_tensor_open(REED_I64, 0, NULL, &count) != REED_OK)
    return EXIT_FAILURE;
  memcpy(reed_tensor_data(count), &n, sizeof n);

  reed_session *quiet = open_text(chain, false, d), *loud = open_text(chain, true, d),
               *one = open_text(single, false, d);
  run_times off = time_runs(quiet, eight, runs, d), on = time_runs(loud, eight, runs < 200 ? runs : 200, d),
            of_one = time_runs(one, eight, runs, d);
  double direct = direct_ns(runs), each = (off.fastest - of_one.fastest) / (N_ADDS - 1);
  printf("chain of %d adds on 8 floats, memo hit: %.1f ns a kernel [%.1f]; direct calls %.1f ns; ratio %.1f\n", N_ADDS,
         each, (off.median - of_one.median) / (N_ADDS - 1), direct, each / direct);
  printf("the same with spans collected: %.1f ns a kernel [%.1f]; ratio %.2f\n", on.fastest / N_ADDS,
         on.median / N_ADDS, on.fastest / off.fastest);
  printf("a run besides its kernels: %.0f ns [%.0f]\n", of_one.fastest - each, of_one.median - each);

  /* A profiler that is off costs a test of a flag for each kernel and, for each run, the clock reads and notes of its
   * epochs. The figure is the time of six clock reads. */
  double begin = now_ns();
  for (int i = 0; i < 100000; i++) (void)now_ns();
  double clock_ns = (now_ns() - begin) / 100000;
  printf("profiler off: 6 clock reads of %.0f ns a run of %.0f us: %.3f %%\n", clock_ns, off.fastest / 1000,
         600 * clock_ns / off.fastest);

  reed_session *loop = open_text(loop_text, false, d), *call = open_text(call_text, false, d);
  printf("scalar instruction: %.2f ns\n", time_runs(loop, count, 15, d).fastest / (double)(4 * n));
  printf("call and return with 5 instructions: %.1f ns\n", time_runs(call, count, 15, d).fastest / (double)n);
  reed_session_close(&quiet);
  reed_session_close(&loud);
  reed_session_close(&one);
  reed_session_close(&loop);
  reed_session_close(&call);
  reed_tensor_close(&eight);
  reed_tensor_close(&count);
  free(chain);
  free(single);
  reed_diagnosis_close(&d);
  return 0;
}
