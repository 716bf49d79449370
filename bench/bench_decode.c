/* The additional time of a decoder's step with a longer cache, by operator. Two sessions of one program hold caches of
 * two lengths; their steps of one token take turns, so that a machine that changes its speed changes both alike.
 *
 *     bench_decode DECODER.reed [--threads 1] [--steps 100] [--warm 8] SHORT LONG
 *     bench_decode DECODER.reed [--threads 1] [--steps 100] [--warm 8] --again 1 LENGTH
 *
 * The decoder has the inputs, outputs and caches of examples/decode.c: each cache lies in memory that is bound to its
 * output, and a step writes one row of this memory. The first run of a session fills its cache with SHORT or LONG rows.
 * Rows: an operator's time in a step, median of all steps, at both lengths, and the difference; operators with less
 * than one part in two hundred of the difference are added up. Then the steps themselves: medians and minima.
 *
 * With --again both caches have LENGTH rows at first, and the second session has made all the steps before, with the
 * same memory: its steps are of lengths that its memo has, the first one's are of lengths never seen. One line of JSON:
 * medians of both, of their ratio, the ratio of medians of their CPU time, and hits of the memo in a step of each. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/arguments.h"
#include "reed/reed.h"

enum { MAX_VALUES = 256, MAX_STEPS = 1024, MAX_OPERATORS = 128, SIDES = 2 };

typedef struct side {
  reed_session *session;
  int64_t length;
  reed_tensor *inputs[MAX_VALUES];
  double steps[MAX_STEPS];
} side;

typedef struct operator_time {
  char name[64];
  double total[SIDES]; /* so far */
  double steps[SIDES][MAX_STEPS];
  double us[SIDES]; /* of the median step */
} operator_time;

static reed_diagnosis *diagnosis;
static reed_program *program;
static size_t n_values;
static operator_time operators[MAX_OPERATORS];
static int n_operators;

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_decode: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- steps ---- */

/* An empty past for input i, and memory with room for `capacity` rows for output i. */
static reed_tensor *begin_cache(reed_session *session, size_t i, int64_t capacity) {
  reed_value_info info;
  int32_t axis = -1;
  need(reed_program_input(program, i, &info), "a cache");
  for (int32_t k = 0; k < info.rank; k++) {
    if (info.dims[k] >= 0) continue;
    info.dims[k] = 1; /* the batch */
    axis = k;         /* the last one grows */
  }
  if (axis < 0) fprintf(stderr, "bench_decode: input '%s' is no cache\n", info.name), exit(2);
  reed_tensor *memory, *past;
  info.dims[axis] = capacity;
  need(reed_tensor_open_on("host", info.dtype, info.rank, info.dims, &memory, diagnosis), "a cache's memory");
  need(reed_session_bind_output(session, i, memory, axis, diagnosis), "a cache's memory");
  reed_tensor_close(&memory);
  info.dims[axis] = 0;
  need(reed_tensor_open(info.dtype, info.rank, info.dims, &past), "a past");
  return past;
}

/* Runs n tokens; the outputs become the next past. Returns the run's time. */
static double run_tokens(side *s, int64_t n) {
  reed_tensor *outputs[MAX_VALUES];
  need(reed_tensor_open(REED_I64, 2, (int64_t[]){1, n}, &s->inputs[0]), "tokens");
  for (int64_t i = 0; i < n; i++) ((int64_t *)reed_tensor_data(s->inputs[0]))[i] = i % 97;
  double begin = now_us();
  need(reed_session_run(s->session, s->inputs, n_values, outputs, n_values, diagnosis), "a step");
  double taken = now_us() - begin;
  reed_tensor_close(&outputs[0]);
  for (size_t i = 0; i < n_values; i++) reed_tensor_close(&s->inputs[i]);
  for (size_t i = 1; i < n_values; i++) s->inputs[i] = outputs[i];
  return taken;
}

/* Empty caches with memory for all steps, then the first rows. */
static void begin_rows(side *s, int64_t n_steps) {
  for (size_t i = 1; i < n_values; i++) s->inputs[i] = begin_cache(s->session, i, s->length + n_steps);
  run_tokens(s, s->length);
}

static void open_side(side *s, int n_threads, int64_t n_steps, bool profile) {
  need(reed_session_open(program,
                         &(reed_session_options){
                             .n_threads = n_threads, .profile = profile, .memo_entries = profile ? 0 : 2 * n_steps},
                         &s->session, diagnosis),
       "a session");
  begin_rows(s, n_steps);
}

static void close_rows(side *s) {
  for (size_t i = 1; i < n_values; i++) reed_tensor_close(&s->inputs[i]);
}

/* ---- operators' times ---- */

static operator_time *operator_named(const char *name, size_t n) {
  for (int i = 0; i < n_operators; i++)
    if (strncmp(operators[i].name, name, n) == 0 && !operators[i].name[n]) return &operators[i];
  if (n_operators == MAX_OPERATORS || n >= sizeof operators->name) exit(2);
  memcpy(operators[n_operators].name, name, n);
  return &operators[n_operators++];
}

/* Notes the operators' times of the session's last run as those of the step; step -1: a run that is no step. */
static void note_times(const side *s, int number, int step) {
  char *json;
  need(reed_session_profile_json(s->session, &json, diagnosis), "figures");
  const char *at = json, *end = strstr(json, "\"nodes\""), *key = "\"operator\":\"", *total = "\"total_us\":";
  while ((at = strstr(at, key)) != NULL && at < end) {
    const char *name = at + strlen(key), *time = strstr(name, total);
    at = name;
    if (!time || time > end) continue;
    operator_time *o = operator_named(name, strcspn(name, "\""));
    double now = atof(time + strlen(total));
    if (step >= 0) o->steps[number][step] = now - o->total[number];
    o->total[number] = now;
  }
  reed_text_free(json);
}

static double growth(const operator_time *o) { return o->us[1] - o->us[0]; }

static int by_growth(const void *a, const void *b) {
  double x = growth(a), y = growth(b);
  return (y > x) - (y < x);
}

/* ---- the report ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return values[n / 2];
}

static void print_row(const char *name, double a, double b) { printf("%-24s %9.1f %9.1f %9.1f\n", name, a, b, b - a); }

static void report(side *sides, int n_steps) {
  operator_time all = {0}, small = {0};
  printf("us of a step             at %6lld at %6lld      more\n", (long long)sides[0].length,
         (long long)sides[1].length);
  for (int i = 0; i < n_operators; i++)
    for (int k = 0; k < SIDES; k++) operators[i].us[k] = median(operators[i].steps[k], n_steps);
  qsort(operators, (size_t)n_operators, sizeof *operators, by_growth);
  for (int i = 0; i < n_operators; i++)
    for (int k = 0; k < SIDES; k++) all.us[k] += operators[i].us[k];
  for (int i = 0; i < n_operators; i++) {
    double part = growth(&operators[i]) / growth(&all);
    if (part > -0.005 && part < 0.005)
      for (int k = 0; k < SIDES; k++) small.us[k] += operators[i].us[k];
    else print_row(operators[i].name, operators[i].us[0], operators[i].us[1]);
  }
  print_row("other operators", small.us[0], small.us[1]);
  print_row("all operators", all.us[0], all.us[1]);
  print_row("the step, median", median(sides[0].steps, n_steps), median(sides[1].steps, n_steps));
  print_row("the step, least", sides[0].steps[0], sides[1].steps[0]);
}

/* ---- lengths never seen beside lengths seen before ---- */

static double cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double memo_figure(reed_session *session, const char *key) {
  char *json;
  need(reed_session_stats_json(session, &json, diagnosis), "figures");
  const char *memo = strstr(json, "\"memo\":{"), *at = memo ? strstr(memo, key) : NULL;
  double value = at ? atof(at + strlen(key)) : 0;
  reed_text_free(json);
  return value;
}

/* Makes all steps of the side, twice: a memo keeps a key on its second sight. */
static void make_known(side *s, int64_t n_steps) {
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < n_steps; i++) run_tokens(s, 1);
    close_rows(s);
    begin_rows(s, n_steps);
  }
}

static void report_again(side *sides, int n_warm, int n_steps) {
  static double ratios[MAX_STEPS], cpu[SIDES][MAX_STEPS];
  double hits[SIDES];
  for (int k = 0; k < SIDES; k++) hits[k] = memo_figure(sides[k].session, "\"hits\":");
  for (int step = -n_warm; step < n_steps; step++)
    for (int i = 0; i < SIDES; i++) {
      int k = step & 1 ? 1 - i : i;
      double begin = cpu_us(), taken = run_tokens(&sides[k], 1);
      if (step >= 0) sides[k].steps[step] = taken, cpu[k][step] = cpu_us() - begin;
    }
  for (int k = 0; k < SIDES; k++) hits[k] = memo_figure(sides[k].session, "\"hits\":") - hits[k];
  for (int i = 0; i < n_steps; i++) ratios[i] = sides[0].steps[i] / sides[1].steps[i];
  printf("{\"new\":%.2f,\"again\":%.2f,\"of_one\":%.4f,\"cpu\":%.4f,\"hits\":[%.2f,%.2f]}\n",
         median(sides[0].steps, n_steps), median(sides[1].steps, n_steps), median(ratios, n_steps),
         median(cpu[0], n_steps) / median(cpu[1], n_steps), hits[0] / (n_warm + n_steps), hits[1] / (n_warm + n_steps));
}

int main(int argc, char **argv) {
  static side sides[SIDES];
  bool again = false;
  int n_threads = 1, n_steps = 100, n_warm = 8, at = 2;
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    int value = (int)argument_integer(argv[at], argv[at + 1], 0, INT32_MAX);
    if (strcmp(argv[at], "--threads") == 0) n_threads = value;
    else if (strcmp(argv[at], "--steps") == 0) n_steps = value;
    else if (strcmp(argv[at], "--warm") == 0) n_warm = value;
    else if (strcmp(argv[at], "--again") == 0) again = value != 0;
    else return fprintf(stderr, "bench_decode: there is no %s\n", argv[at]), 2;
  }
  if (argc - at != (again ? 1 : SIDES) || n_steps < 1 || n_steps > MAX_STEPS || n_warm < 1)
    return fprintf(stderr, "bench_decode DECODER.reed [--threads N] [--steps N] [--warm N] SHORT LONG\n"
                           "bench_decode DECODER.reed [--threads N] [--steps N] [--warm N] --again 1 LENGTH\n"),
           2;
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  need(reed_program_open(argv[1], NULL, &program, diagnosis), argv[1]);
  n_values = reed_program_input_count(program);
  if (n_values < 2 || n_values > MAX_VALUES || n_values != reed_program_output_count(program))
    return fprintf(stderr, "bench_decode: ids and caches are needed\n"), 2;
  for (int k = 0; k < SIDES; k++) {
    sides[k].length = argument_integer("LENGTH", argv[again ? at : at + k], 1, INT32_MAX);
    open_side(&sides[k], n_threads, n_warm + n_steps, !again);
  }
  if (again) make_known(&sides[1], n_warm + n_steps);
  if (again) report_again(sides, n_warm, n_steps);
  for (int step = -n_warm; step < n_steps && !again; step++)
    for (int i = 0; i < SIDES; i++) {
      int k = step & 1 ? 1 - i : i;
      double taken = run_tokens(&sides[k], 1);
      if (step >= 0) sides[k].steps[step] = taken;
      note_times(&sides[k], k, step);
    }
  if (!again) report(sides, n_steps);
  for (int k = 0; k < SIDES; k++) {
    close_rows(&sides[k]);
    reed_session_close(&sides[k].session);
  }
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
