/* The time from opening a program to its first output, in a process that has done nothing with Reed before: opening the
 * program, opening the session, the first run (which starts the team's helpers), a second and a third run. Also the
 * start of the process itself: from the parent's fork until main is reached, with the libraries loaded.
 *
 *     bench_open [-t THREADS] [-r ROUNDS] MODULE.reed INPUT...
 *
 * INPUT: an input's extents, "2x1x128", and after "=" the number that all its elements have, "=16000" for a scalar;
 * random floats and ones without "=". Every round is a process of its own. Prints the fastest and the median round in
 * microseconds; page faults are the median round's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/inputs.h"

enum { MAX_ROUNDS = 1000, MAX_INPUTS = 32, MAX_OUTPUTS = 256 };

typedef enum step { START, PROGRAM, SESSION, FIRST_RUN, SECOND_RUN, THIRD_RUN, TO_OUTPUT, FAULTS, N_STEPS } step;
static const char *const names[N_STEPS] = {
    "the process's own start", "opening the program", "opening the session", "first run", "second run", "third run",
    "program to first output", "page faults of these"};

typedef struct figures {
  double of[N_STEPS];
} figures;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double faults(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_minflt + used.ru_majflt);
}

static reed_diagnosis *diagnosis;

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_open: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

static reed_tensor *input_of(reed_dtype dtype, const char *text) {
  reed_tensor *made;
  if (input_of_text(dtype, text, &made) == REED_OK) return made;
  fprintf(stderr, "bench_open: '%s' is no input\n", text);
  exit(2);
}

/* One round, in a fresh process. forked: the parent's time of the fork. Writes the figures to the standard output. */
static int be_round(double forked, int n_threads, char **words, int n_words) {
  figures f = {{[START] = now_us() - forked}};
  need(reed_diagnosis_open(&diagnosis), "no memory");
  double faults_before = faults(), begin = now_us();
  reed_program *program;
  reed_session *session;
  need(reed_program_open(words[0], NULL, &program, diagnosis), "the program");
  double opened = now_us();
  need(reed_session_open(program, &(reed_session_options){.n_threads = n_threads}, &session, diagnosis), "the session");
  double ready = now_us();
  size_t n_in = reed_program_input_count(program), n_out = reed_program_output_count(program);
  if (n_in != (size_t)n_words - 1 || n_in > MAX_INPUTS || n_out > MAX_OUTPUTS) {
    fprintf(stderr, "bench_open: the model has %zu inputs\n", n_in);
    return 2;
  }
  reed_tensor *inputs[MAX_INPUTS], *outputs[MAX_OUTPUTS];
  for (size_t i = 0; i < n_in; i++) {
    reed_value_info info;
    need(reed_program_input(program, i, &info), "an input");
    inputs[i] = input_of(info.dtype, words[1 + i]);
  }
  for (step run = FIRST_RUN; run <= THIRD_RUN; run++) {
    double from = now_us();
    need(reed_session_run(session, inputs, n_in, outputs, n_out, diagnosis), "the run");
    f.of[run] = now_us() - from;
    if (run == FIRST_RUN) f.of[FAULTS] = faults() - faults_before;
    for (size_t i = 0; i < n_out; i++) reed_tensor_close(&outputs[i]);
  }
  f.of[PROGRAM] = opened - begin;
  f.of[SESSION] = ready - opened;
  f.of[TO_OUTPUT] = f.of[PROGRAM] + f.of[SESSION] + f.of[FIRST_RUN];
  for (size_t i = 0; i < n_in; i++) reed_tensor_close(&inputs[i]);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return write(STDOUT_FILENO, &f, sizeof f) == (ssize_t)sizeof f ? 0 : 2;
}

static figures one_round(const char *self, char **argv) {
  int ends[2];
  figures f;
  char forked[64];
  if (pipe(ends) != 0) exit(2);
  snprintf(forked, sizeof forked, "%.3f", now_us());
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    setenv("BENCH_OPEN_FORKED", forked, 1);
    execv(self, argv);
    _exit(2);
  }
  close(ends[1]);
  bool whole = child > 0 && read(ends[0], &f, sizeof f) == (ssize_t)sizeof f;
  int status = 0;
  close(ends[0]);
  if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0 || !whole) exit(2);
  return f;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  int n_threads = 2, rounds = 30, option;
  while ((option = getopt(argc, argv, "t:r:")) != -1)
    if (option == 't') n_threads = (int)argument_integer("-t", optarg, 1, INT32_MAX);
    else if (option == 'r') rounds = (int)argument_integer("-r", optarg, 1, MAX_ROUNDS);
    else return 2;
  if (optind == argc) {
    fprintf(stderr, "usage: bench_open [-t THREADS] [-r ROUNDS] MODULE.reed INPUT...\n");
    return 2;
  }
  const char *forked = getenv("BENCH_OPEN_FORKED");
  if (forked) return be_round(atof(forked), n_threads, argv + optind, argc - optind);
  static double times[N_STEPS][MAX_ROUNDS];
  for (int r = 0; r < rounds; r++) {
    figures f = one_round("/proc/self/exe", argv);
    for (int k = 0; k < N_STEPS; k++) times[k][r] = f.of[k];
  }
  printf("%s, %d threads, %d processes; us: fastest [median]\n", argv[optind], n_threads, rounds);
  for (int k = 0; k < N_STEPS; k++) {
    qsort(times[k], (size_t)rounds, sizeof **times, by_value);
    printf("%-24s %8.0f [%.0f]\n", names[k], times[k][0], times[k][rounds / 2]);
  }
  return 0;
}
