/* Two modules with the same inputs beside each other, hit runs only: which one is faster, and by how much this
 * measurement errs.
 *
 *     bench_pair FIRST.reed SECOND.reed [--threads 1] [--rounds 101] [--batch_us 100] CASE...
 *
 * CASE: the extents of all inputs in order, 1x8x1x64,1x8x300x64 (a number after "=" fills an input: 3=0). Three
 * sessions take turns, in an order that changes: of FIRST, of SECOND and of FIRST once more. A turn is a batch of runs
 * that takes at least batch_us. One line a case: us of a run of FIRST and of SECOND (medians), the median over the
 * rounds of FIRST / SECOND, and that of FIRST / FIRST. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/arguments.h"
#include "bench/inputs.h"

enum { MAX_INPUTS = 32, MAX_OUTPUTS = 32, MAX_ROUNDS = 2001, SIDES = 3 };

static reed_diagnosis *diagnosis;
static reed_session *sessions[SIDES];
static double times[SIDES][MAX_ROUNDS];

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_pair: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return values[n / 2];
}

static double median_ratio(const double *a, const double *b, int n) {
  static double ratios[MAX_ROUNDS];
  for (int i = 0; i < n; i++) ratios[i] = a[i] / b[i];
  return median(ratios, n);
}

/* us of a run, mean of n. */
static double run_batch(int side, reed_tensor *const *inputs, size_t n_in, size_t n_out, int n) {
  reed_tensor *outputs[MAX_OUTPUTS];
  double begin = now_us();
  for (int i = 0; i < n; i++) {
    need(reed_session_run(sessions[side], inputs, n_in, outputs, n_out, diagnosis), "a run");
    for (size_t k = 0; k < n_out; k++) reed_tensor_close(&outputs[k]);
  }
  return (now_us() - begin) / n;
}

static void run_case(const reed_program *program, char *text, int rounds, double batch_us) {
  reed_tensor *inputs[MAX_INPUTS];
  size_t n_in = reed_program_input_count(program), n_out = reed_program_output_count(program), i = 0;
  if (n_in > MAX_INPUTS || n_out > MAX_OUTPUTS) fprintf(stderr, "bench_pair: too many values\n"), exit(2);
  printf("%s ", text);
  for (char *word = strtok(text, ","); word && i < n_in; word = strtok(NULL, ","), i++) {
    reed_value_info info;
    need(reed_program_input(program, i, &info), "an input");
    if (input_of_text(info.dtype, word, &inputs[i]) != REED_OK)
      fprintf(stderr, "bench_pair: '%s' is no input\n", word), exit(2);
  }
  if (i != n_in) fprintf(stderr, "bench_pair: the model has %zu inputs\n", n_in), exit(2);
  for (int side = 0; side < SIDES; side++) run_batch(side, inputs, n_in, n_out, 8); /* known from here on */
  int n = 1 + (int)(batch_us / run_batch(0, inputs, n_in, n_out, 4));
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < SIDES; k++) {
      int side = (k + round) % SIDES;
      times[side][round] = run_batch(side, inputs, n_in, n_out, n);
    }
  double ratio = median_ratio(times[0], times[1], rounds), floor = median_ratio(times[0], times[2], rounds);
  printf("%.2f %.2f %.4f %.4f\n", median(times[0], rounds), median(times[1], rounds), ratio, floor);
  fflush(stdout);
  for (i = 0; i < n_in; i++) reed_tensor_close(&inputs[i]);
}

int main(int argc, char **argv) {
  int n_threads = 1, rounds = 101, at = 3;
  double batch_us = 100;
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    if (strcmp(argv[at], "--threads") == 0) n_threads = (int)argument_integer(argv[at], argv[at + 1], 1, INT32_MAX);
    else if (strcmp(argv[at], "--rounds") == 0) rounds = (int)argument_integer(argv[at], argv[at + 1], 1, MAX_ROUNDS);
    else if (strcmp(argv[at], "--batch_us") == 0) batch_us = argument_number(argv[at], argv[at + 1]);
    else return fprintf(stderr, "bench_pair: there is no %s\n", argv[at]), 2;
  }
  if (at >= argc)
    return fprintf(stderr, "bench_pair FIRST.reed SECOND.reed [--threads N] [--rounds N] [--batch_us N] CASE...\n"), 2;
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  reed_program *programs[2];
  for (int i = 0; i < 2; i++) need(reed_program_open(argv[1 + i], NULL, &programs[i], diagnosis), argv[1 + i]);
  for (int i = 0; i < SIDES; i++)
    need(reed_session_open(programs[i % 2], &(reed_session_options){.n_threads = n_threads}, &sessions[i], diagnosis),
         "a session");
  for (; at < argc; at++) run_case(programs[0], argv[at], rounds, batch_us);
  for (int i = 0; i < SIDES; i++) reed_session_close(&sessions[i]);
  for (int i = 0; i < 2; i++) reed_program_close(&programs[i]);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
