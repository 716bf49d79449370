/* The cost and the gain of a second thread: latency with one thread and with more, in a tight loop, called after
 * pauses, and beside busy processes; then the throughput of several sessions at once.
 *
 *     bench_threads MODEL.reed [--threads 2] [--rounds 5] [--runs 20] [--pause 30] [--busy 3,6] [--sessions 4]
 *                   SYMBOL=EXTENT...
 *     bench_threads MODEL.reed [FLAGS] INPUT...
 *
 * Every extent that the model leaves open needs a value; or each input is given, as bench_open takes it: "2x1x128",
 * "=16000". A round is one turn of each kind with each number of threads, in an order that changes; a figure is the
 * median over the rounds of a turn's median. A turn in a tight loop lasts a tenth of a second or longer. --busy none:
 * only the first two kinds. --sessions 0: no throughput. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/inputs.h"

#define TURN_US 1e5 /* of a turn in a tight loop, at least */
enum {
  MAX_INPUTS = 64,
  MAX_OUTPUTS = 64,
  MAX_RUNS = 10000,
  MAX_ROUNDS = 101,
  MAX_KINDS = 16,
  MAX_SESSIONS = 4,
  MAX_BUSY = 64
};

static reed_program *program;
static reed_tensor *inputs[MAX_INPUTS];
static size_t n_inputs, n_outputs;
static reed_diagnosis *diagnosis;
static int n_threads = 2, n_rounds = 5, n_runs = 20, pause_ms = 30, n_sessions = MAX_SESSIONS;

static void need(reed_status status, const char *what) {
  if (status == REED_OK) return;
  fprintf(stderr, "bench_threads: %s: %s\n", what, reed_diagnosis_message(diagnosis));
  exit(2);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  return values[n / 2];
}

/* The extent of a symbol from the words of the command, which end with NULL. */
static int64_t extent_of(void *words, const char *symbol) {
  size_t n = symbol ? strlen(symbol) : 0;
  for (char **word = words; *word && symbol; word++)
    if (strncmp(*word, symbol, n) == 0 && (*word)[n] == '=')
      return argument_integer(*word, *word + n + 1, 0, INT64_MAX);
  fprintf(stderr, "bench_threads: no extent for '%s'\n", symbol ? symbol : "an unnamed axis");
  exit(2);
}

/* ---- turns ---- */

static reed_session *open_session(int threads) {
  reed_session *s = NULL;
  need(reed_session_open(program, &(reed_session_options){.n_threads = threads}, &s, diagnosis), "a session");
  return s;
}

static double run_once(reed_session *s) {
  reed_tensor *outputs[MAX_OUTPUTS];
  double begin = now_us();
  need(reed_session_run(s, inputs, n_inputs, outputs, n_outputs, diagnosis), "a run");
  double us = now_us() - begin;
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&outputs[i]);
  return us;
}

static double turn(reed_session *s, int runs, int pause) {
  static double us[MAX_RUNS];
  int n = 0;
  run_once(s);
  for (double begin = now_us(); n < runs || (!pause && n < MAX_RUNS && now_us() - begin < TURN_US); n++) {
    if (pause) usleep((useconds_t)pause * 1000);
    us[n] = run_once(s);
  }
  return median(us, n);
}

static void busy_begin(int n, pid_t *children) {
  for (int i = 0; i < n; i++)
    if ((children[i] = fork()) == 0)
      for (volatile unsigned k = 0;; k++) continue;
}

static void busy_end(int n, const pid_t *children) {
  for (int i = 0; i < n; i++) kill(children[i], SIGKILL);
  for (int i = 0; i < n; i++) waitpid(children[i], NULL, 0);
}

typedef struct kind {
  char name[64];
  int pause, busy;
  double one[MAX_ROUNDS], more[MAX_ROUNDS];
} kind;

static void measure(kind *k, int round, reed_session *one, reed_session *more) {
  pid_t children[MAX_BUSY];
  busy_begin(k->busy, children);
  for (int i = 0; i < 2; i++)
    if (i == round % 2) k->one[round] = turn(one, n_runs, k->pause);
    else k->more[round] = turn(more, n_runs, k->pause);
  busy_end(k->busy, children);
}

/* ---- several sessions ---- */

static void *run_all(void *session) {
  for (int i = 0; i < n_runs; i++) run_once(session);
  return NULL;
}

/* Runs a second of n sessions at once. */
static double throughput(int n, int threads) {
  reed_session *sessions[MAX_SESSIONS];
  pthread_t workers[MAX_SESSIONS];
  for (int i = 0; i < n; i++) {
    sessions[i] = open_session(threads);
    run_once(sessions[i]);
  }
  double begin = now_us();
  for (int i = 0; i < n; i++) pthread_create(&workers[i], NULL, run_all, sessions[i]);
  for (int i = 0; i < n; i++) pthread_join(workers[i], NULL);
  double us = now_us() - begin;
  for (int i = 0; i < n; i++) reed_session_close(&sessions[i]);
  return n * n_runs / us * 1e6;
}

static int add_kinds(kind *kinds, const char *busy) {
  int n = 0;
  snprintf(kinds[n++].name, sizeof kinds->name, "in a tight loop");
  snprintf(kinds[n].name, sizeof kinds->name, "every %d ms", pause_ms);
  kinds[n++].pause = pause_ms;
  for (const char *at = strcmp(busy, "none") ? busy : NULL; at && n < MAX_KINDS; at = *at ? at + 1 : NULL) {
    int64_t processes;
    if (!argument_digits(at, &at, &processes) || processes > MAX_BUSY || (*at && *at != ','))
      fprintf(stderr, "--busy: '%s' is neither a list of integers up to %d, as 3,6, nor none\n", busy, MAX_BUSY),
          exit(2);
    kinds[n].busy = (int)processes;
    snprintf(kinds[n].name, sizeof kinds->name, "beside %d busy processes", kinds[n].busy);
    n++;
  }
  return n;
}

int main(int n_words, char **words) {
  static kind kinds[MAX_KINDS];
  const char *busy = "3,6";
  int first = 2;
  if (n_words < 2) {
    fprintf(stderr, "bench_threads MODEL.reed [--threads N] [--rounds N] [--runs N] [--pause MS] [--busy N,N] "
                    "[--sessions N] SYMBOL=EXTENT... | INPUT...\n");
    return 2;
  }
  for (; first + 1 < n_words && strncmp(words[first], "--", 2) == 0; first += 2) {
    const char *flag = words[first], *value = words[first + 1];
    if (strcmp(flag, "--threads") == 0) n_threads = (int)argument_integer(flag, value, 1, INT32_MAX);
    else if (strcmp(flag, "--rounds") == 0) n_rounds = (int)argument_integer(flag, value, 1, MAX_ROUNDS);
    else if (strcmp(flag, "--runs") == 0) n_runs = (int)argument_integer(flag, value, 1, MAX_RUNS);
    else if (strcmp(flag, "--pause") == 0) pause_ms = (int)argument_integer(flag, value, 0, INT32_MAX);
    else if (strcmp(flag, "--busy") == 0) busy = value;
    else if (strcmp(flag, "--sessions") == 0) n_sessions = (int)argument_integer(flag, value, 0, MAX_SESSIONS);
    else return fprintf(stderr, "bench_threads: there is no %s\n", flag), 2;
  }
  need(reed_diagnosis_open(&diagnosis), "a diagnosis");
  need(reed_program_open(words[1], NULL, &program, diagnosis), words[1]);
  n_inputs = reed_program_input_count(program);
  n_outputs = reed_program_output_count(program);
  if (n_inputs > MAX_INPUTS || n_outputs > MAX_OUTPUTS) return fprintf(stderr, "bench_threads: too many inputs\n"), 2;
  /* an input's text begins with a digit or "=", a symbol does not */
  bool as_texts = first < n_words && strchr("=0123456789", *words[first]) && (size_t)(n_words - first) == n_inputs;
  for (size_t i = 0; i < n_inputs; i++) {
    reed_value_info info;
    need(reed_program_input(program, i, &info), "an input");
    const char *text = words[first + (int)(as_texts ? i : 0)];
    reed_status status = as_texts ? input_of_text(info.dtype, text, &inputs[i])
                                  : input_open(&info, extent_of, words + first, &inputs[i]);
    if (status == REED_ERROR_VALUE && as_texts) fprintf(stderr, "bench_threads: '%s' is no input\n", text), exit(2);
    need(status, "an input");
  }
  reed_session *one = open_session(1), *more = open_session(n_threads);
  int n_kinds = add_kinds(kinds, busy);
  for (int round = 0; round < n_rounds; round++)
    for (int i = 0; i < n_kinds; i++) measure(&kinds[i], round, one, more);
  printf("%-26s %12s %12s  ratio\n", "", "1 thread", "threads");
  for (int i = 0; i < n_kinds; i++) {
    double a = median(kinds[i].one, n_rounds), b = median(kinds[i].more, n_rounds);
    printf("%-26s %9.0f us %9.0f us  %.3f\n", kinds[i].name, a, b, b / a);
  }
  for (int n = 1; n <= n_sessions; n *= 2)
    printf("%d session%s of 1 thread, of %d: %.1f, %.1f runs/s\n", n, n > 1 ? "s" : "", n_threads, throughput(n, 1),
           throughput(n, n_threads));
  reed_session_close(&one);
  reed_session_close(&more);
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
  reed_program_close(&program);
  reed_diagnosis_close(&diagnosis);
  return 0;
}
