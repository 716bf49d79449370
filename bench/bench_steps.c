/* The cost of a new shape: runs of extents never seen before beside repeated runs of the same extents. Each step runs a
 * new size once and then twice more, so that a machine that changes its speed changes all of them alike. Each run has
 * inputs that have just been written, as those of a new step are, so that all runs find the CPU's caches in the same
 * state (but see --hot).
 *
 *     bench_steps MODEL.reed [--threads 1] [--steps 100] [--warm 8] [--entries N] [--pictures 1] [--once 1] [--rows 1]
 * [--control US] SYMBOL=EXTENTS...
 *     bench_steps MODEL.reed [--threads 1] [--entries N] --orders 1
 *
 * Every extent that the model leaves open needs EXTENTS (steps.h). With --pictures an input [3,h,w] is another picture
 * of this kind in each step: then only the number of boxes that a detector finds is new. With --once no step is
 * repeated, so that no key comes back. With --hot the repeated runs read the same memory as the first one,
 * which lies in the caches. Columns: minimum, median and 99th percentile of a run; its parts (shapes, plan, run
 * sections, the rest: inputs, outputs, borders) as medians; page faults; CPU time. The last lines are ratios of runs of
 * one step: the first over the second, and as the noise floor the second over the third. With --control each step
 * times, before its first run, as much arithmetic in registers as takes about so many us: the machine's share in long
 * spans.
 *
 * With --rows every step is a line of JSON with the figures of its runs, and there are no other lines (counts.py, which
 * compares several processes). With --orders each line of the standard input is a turn of steps,
 * `SYMBOL=EXTENT ... ; SYMBOL=EXTENT ...`, which is answered by such a line for each step when the last one is done
 * (steps.py, which lets onnxruntime take its turns). */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/arguments.h"
#include "bench/inputs.h"
#include "bench/steps.h"
#include "reed/reed.h"

enum { MAX_INPUTS = 64, MAX_OUTPUTS = 128, MAX_STEPS = 4096 };

typedef struct parts {
  double wall, enter, shapes, plan, run, cpu, faults, misses;
  double rows; /* of the first output: a detector's boxes */
  double control;
} parts;

static reed_program *program;
static reed_session *session;
static reed_diagnosis *diagnosis;
static size_t n_inputs, n_outputs;
static steps_extents extents;

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_steps: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int pictures;
static bool hot;
static int64_t control_rounds; /* of arithmetic, before each step */
static volatile double control_result;

static reed_tensor *make_input(size_t i) {
  reed_value_info info;
  reed_tensor *t = NULL;
  need(reed_program_input(program, i, &info), "an input");
  need(input_open(&info, steps_extent, &extents, &t), "an input");
  input_draw(t, pictures);
  return t;
}

/* ---- one run ---- */

/* The sum of all numbers with this key in the session's figures. */
static double sum_of(const char *json, const char *key) {
  double sum = 0;
  for (const char *at = json; (at = strstr(at, key)) != NULL; at += strlen(key)) sum += atof(at + strlen(key));
  return sum;
}

/* How often the word occurs in the session's figures. */
static int count_of(const char *json, const char *word) {
  int n = 0;
  for (const char *at = json; (at = strstr(at, word)) != NULL; at += strlen(word)) n++;
  return n;
}

/* The time of so many rounds of arithmetic in registers, in us. */
static double time_arithmetic(int64_t rounds) {
  const double begin = seconds(CLOCK_MONOTONIC);
  double x = 1;
  for (int64_t i = 0; i < rounds; i++) x = x * 0.999 + 0.5;
  control_result = x;
  return (seconds(CLOCK_MONOTONIC) - begin) * 1e6;
}

/* The rounds that take about so many us. */
static int64_t rounds_of(double us) {
  enum { ROUNDS = 100000, TURNS = 9 };
  double least = time_arithmetic(ROUNDS);
  for (int i = 0; i < TURNS; i++) {
    const double time = time_arithmetic(ROUNDS);
    least = time < least ? time : least;
  }
  return (int64_t)(us / least * ROUNDS);
}

static parts run_once(reed_tensor **inputs) {
  reed_tensor *outputs[MAX_OUTPUTS];
  struct rusage before, after;
  parts p;
  getrusage(RUSAGE_SELF, &before);
  double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), begin = seconds(CLOCK_MONOTONIC);
  need(reed_session_run(session, inputs, n_inputs, outputs, n_outputs, diagnosis), "a run");
  p.wall = (seconds(CLOCK_MONOTONIC) - begin) * 1e6;
  p.cpu = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6;
  getrusage(RUSAGE_SELF, &after);
  p.faults = (double)(after.ru_minflt - before.ru_minflt);
  p.rows = reed_tensor_rank(outputs[0]) > 0 ? (double)reed_tensor_dims(outputs[0])[0] : 1;
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&outputs[i]);
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  p.enter = sum_of(json, "\"enter_us\":");
  p.shapes = sum_of(json, "\"shape_us\":");
  p.plan = sum_of(json, "\"plan_us\":");
  p.run = sum_of(json, "\"run_us\":");
  p.misses = count_of(json, "\"memo\":\"miss\"");
  reed_text_free(json);
  return p;
}

/* ---- the report ---- */

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The value at this share of the sorted column that begins at `first` in each of n rows. */
static double column(const parts *rows, int n, size_t first, double share) {
  static double values[MAX_STEPS];
  for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&rows[i] + first, sizeof values[i]);
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  int at = (int)(share * n);
  return values[at < n ? at : n - 1];
}

#define AT(rows, part, share) column(rows, n, offsetof(parts, part), share)

static void report(const char *name, const parts *rows, int n) {
  double known = AT(rows, enter, 0.5) + AT(rows, shapes, 0.5) + AT(rows, plan, 0.5) + AT(rows, run, 0.5);
  printf("%-9s %9.0f %9.0f %9.0f | %7.1f %7.1f %7.1f %9.0f %7.0f | %6.0f %9.0f\n", name, AT(rows, wall, 0),
         AT(rows, wall, 0.5), AT(rows, wall, 0.99), AT(rows, enter, 0.5), AT(rows, shapes, 0.5), AT(rows, plan, 0.5),
         AT(rows, run, 0.5), AT(rows, wall, 0.5) - known, AT(rows, faults, 0.5), AT(rows, cpu, 0.5));
}

/* Ratios of two runs of each step. */
static void report_ratios(const char *name, const parts *first, const parts *second, int n) {
  static parts ratios[MAX_STEPS];
  double wall = 0, cpu = 0;
  for (int i = 0; i < n; i++) {
    ratios[i] = (parts){.wall = first[i].wall / second[i].wall, .cpu = first[i].cpu / second[i].cpu};
    wall += ratios[i].wall / n;
    cpu += ratios[i].cpu / n;
  }
  printf("%s: minima %.3f, medians %.3f; of one size: mean %.3f, median %.3f, 95th percentile %.3f; CPU time: %.3f, "
         "%.3f, %.3f\n",
         name, AT(first, wall, 0) / AT(second, wall, 0), AT(first, wall, 0.5) / AT(second, wall, 0.5), wall,
         AT(ratios, wall, 0.5), AT(ratios, wall, 0.95), cpu, AT(ratios, cpu, 0.5), AT(ratios, cpu, 0.95));
}

/* The session's misses by reason. */
static void report_reasons(void) {
  static const char *const figures[] = {"missed_sizes",        "missed_counts",    "missed_evicted",
                                        "missed_not_admitted", "missed_too_large", "missed_lengths"};
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  printf("all misses by reason:");
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", figures[i]);
    printf("%s %s %.0f", i ? "," : "", figures[i] + strlen("missed_"), sum_of(json, key));
  }
  printf("\n");
  reed_text_free(json);
}

/* The misses of the first runs: their number and their time. */
static void report_misses(const parts *fresh, const parts *again, int n) {
  static parts rows[MAX_STEPS];
  int n_rows = 0;
  double misses = 0, later = 0, planned = 0, all = 0;
  for (int i = 0; i < n; i++) {
    planned += fresh[i].shapes + fresh[i].plan;
    all += again[i].wall;
    misses += fresh[i].misses;
    later += again[i].misses;
    if (fresh[i].misses == 0) continue;
    rows[n_rows] = fresh[i];
    rows[n_rows].plan += fresh[i].shapes;
    rows[n_rows].enter = fresh[i].cpu;
    rows[n_rows++].cpu = fresh[i].wall / again[i].wall;
  }
  printf("misses: %d of %d first runs, %.0f epochs; %.0f epochs of second runs; shapes and plans of all first runs are "
         "%.4f of the second runs' time\n",
         n_rows, n, misses, later, planned / all);
  report_reasons();
  if (!n_rows) return;
  n = n_rows;
  printf("of a run with misses: CPU time: median %.0f us, 99th percentile %.0f; shapes and plan: minimum %.1f us, "
         "median %.1f, 99th percentile %.1f, most %.1f; page "
         "faults: median %.0f, most %.0f; over its second run: median %.3f\n",
         AT(rows, enter, 0.5), AT(rows, enter, 0.99), AT(rows, plan, 0), AT(rows, plan, 0.5), AT(rows, plan, 0.99),
         AT(rows, plan, 1), AT(rows, faults, 0.5), AT(rows, faults, 1), AT(rows, cpu, 0.5));
}

static void report_memo(void) {
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  const char *memo = strstr(json, "\"memo\":{");
  printf("memo: %.*s\n", memo ? (int)strcspn(memo + 8, "}") : 0, memo ? memo + 8 : "");
  reed_text_free(json);
}

enum { FRESH, AGAIN, THIRD, RUNS };

/* Writes input i again with the same elements, so that the CPU's caches are in the same state as in a new step. */
static void make_again(size_t i, reed_tensor **t) {
  reed_tensor *made = make_input(i);
  memcpy(reed_tensor_data(made), reed_tensor_data(*t), (size_t)reed_tensor_bytes(*t));
  reed_tensor_close(t);
  *t = made;
}

/* The runs of a step, each with inputs that have just been written, or, if `hot`, all with the same memory; with `once`
 * the first run stands for all. */
static void run_step(int step, bool once, parts *runs) {
  reed_tensor *inputs[MAX_INPUTS];
  steps_draw(&extents, step);
  for (size_t i = 0; i < n_inputs; i++) inputs[i] = make_input(i);
  const double control = control_rounds > 0 ? time_arithmetic(control_rounds) : 0;
  for (int k = 0; k < RUNS; k++) {
    for (size_t i = 0; k && !hot && !once && i < n_inputs; i++) make_again(i, &inputs[i]);
    runs[k] = k && once ? runs[FRESH] : run_once(inputs);
  }
  runs[FRESH].control = control;
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
}

/* The figure that lies at `first` in the parts of the new, the repeated and the third run. */
static void print_three(const char *name, const parts *runs, size_t first) {
  printf("\"%s\":[%.2f,%.2f,%.2f],", name, *(const double *)((const char *)&runs[FRESH] + first),
         *(const double *)((const char *)&runs[AGAIN] + first), *(const double *)((const char *)&runs[THIRD] + first));
}

/* A step's figures as a line of JSON. */
static void print_row(const parts *runs) {
  printf("{\"new\":%.2f,\"again\":%.2f,\"third\":%.2f,\"plan\":%.2f,", runs[FRESH].wall, runs[AGAIN].wall,
         runs[THIRD].wall, runs[FRESH].shapes + runs[FRESH].plan);
  print_three("cpu", runs, offsetof(parts, cpu));
  print_three("enter_us", runs, offsetof(parts, enter));
  print_three("shape_us", runs, offsetof(parts, shapes));
  print_three("plan_us", runs, offsetof(parts, plan));
  print_three("run_us", runs, offsetof(parts, run));
  print_three("faults", runs, offsetof(parts, faults));
  print_three("misses", runs, offsetof(parts, misses));
  if (control_rounds > 0) printf("\"control\":%.2f,", runs[FRESH].control);
  printf("\"rows\":%.0f}\n", runs[FRESH].rows);
  fflush(stdout);
}

/* Prints after the last step, because a program that reads a row at once takes a CPU from the next step. */
static void print_rows(int n_warm, int n_steps, bool once) {
  static parts rows[MAX_STEPS][RUNS];
  for (int step = 0; step < n_warm + n_steps; step++) run_step(step, once, rows[step < n_warm ? 0 : step - n_warm]);
  for (int step = 0; step < n_steps; step++) print_row(rows[step]);
}

static void run_steps(int n_warm, int n_steps, bool once) {
  static parts fresh[MAX_STEPS], again[MAX_STEPS], third[MAX_STEPS];
  int n = 0;
  for (int step = 0; step < n_warm + n_steps; step++) {
    parts runs[RUNS];
    run_step(step, once, runs);
    if (step >= n_warm) fresh[n] = runs[FRESH], again[n] = runs[AGAIN], third[n++] = runs[THIRD];
  }
  printf("us        %9s %9s %9s | %7s %7s %7s %9s %7s | %6s %9s\n", "min", "median", "p99", "enter", "shapes", "plan",
         "run", "rest", "faults", "CPU");
  report("new", fresh, n);
  if (!once) {
    report("repeated", again, n);
    report("again", third, n);
  }
  report_misses(fresh, again, n);
  if (control_rounds > 0)
    printf("as much arithmetic: minimum %.1f us, median %.1f, 99th percentile %.1f, most %.1f\n", AT(fresh, control, 0),
           AT(fresh, control, 0.5), AT(fresh, control, 0.99), AT(fresh, control, 1));
  if (!once) {
    report_ratios("new over repeated", fresh, again, n);
    report_ratios("repeated over again", again, third, n);
  }
  report_memo();
}

static void follow_orders(void) {
  static char line[1 << 16];
  static parts rows[MAX_STEPS][RUNS];
  while (fgets(line, sizeof line, stdin)) {
    int n = 0;
    extents.n = 0;
    for (char *word = strtok(line, " \n"); n < MAX_STEPS; word = strtok(NULL, " \n")) {
      if (word && strcmp(word, ";") != 0) {
        if (extents.n < STEPS_WORDS) extents.words[extents.n++] = word;
        continue;
      }
      steps_check(&extents, program);
      run_step(0, false, rows[n++]);
      extents.n = 0;
      if (!word) break;
    }
    for (int i = 0; i < n; i++) print_row(rows[i]);
  }
}

int main(int argc, char **argv) {
  int n_threads = 1, n_steps = 100, n_warm = 8, first = 2;
  bool once = false, orders = false, rows = false;
  int64_t entries = 0;
  for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
    int value = (int)argument_integer(argv[first], argv[first + 1], 0, INT32_MAX);
    if (strcmp(argv[first], "--threads") == 0) n_threads = value;
    else if (strcmp(argv[first], "--steps") == 0) n_steps = value;
    else if (strcmp(argv[first], "--warm") == 0) n_warm = value;
    else if (strcmp(argv[first], "--entries") == 0) entries = value;
    else if (strcmp(argv[first], "--pictures") == 0) pictures = value;
    else if (strcmp(argv[first], "--once") == 0) once = value != 0;
    else if (strcmp(argv[first], "--hot") == 0) hot = value != 0;
    else if (strcmp(argv[first], "--control") == 0) control_rounds = rounds_of(value);
    else if (strcmp(argv[first], "--orders") == 0) orders = value != 0;
    else if (strcmp(argv[first], "--rows") == 0) rows = value != 0;
    else return fprintf(stderr, "bench_steps: there is no %s\n", argv[first]), 2;
  }
  if (argc < 2 || argc - first > STEPS_WORDS || n_steps < 1 || n_steps > MAX_STEPS) {
    fprintf(stderr, "bench_steps MODEL.reed [--threads N] [--steps N] [--warm N] [--entries N] SYMBOL=EXTENTS...\n");
    return 2;
  }
  while (first < argc) extents.words[extents.n++] = argv[first++];
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  need(reed_program_open(argv[1], NULL, &program, diagnosis), argv[1]);
  steps_check(&extents, program);
  n_inputs = reed_program_input_count(program);
  n_outputs = reed_program_output_count(program);
  if (n_inputs > MAX_INPUTS || n_outputs > MAX_OUTPUTS) return fprintf(stderr, "bench_steps: too many inputs\n"), 2;
  need(reed_session_open(program, &(reed_session_options){.n_threads = n_threads, .memo_entries = entries}, &session,
                         diagnosis),
       "a session");
  if (orders) follow_orders();
  else if (rows) print_rows(n_warm, n_steps, once);
  else run_steps(n_warm, n_steps, once);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
