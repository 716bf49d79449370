/* How soon a cancelled run, compilation, opening or command ends. Cancels at random moments and prints, for each kind
 * of work, the time from the cancellation to the end: median, 95th percentile, maximum, and the moment of the slowest
 * cancellation.
 *
 *   bench_cancel MODEL.onnx 3x480x640 [--cancels N] [--threads N] [--bound MS] [--vm PATH]
 *
 * Latencies of compilations and openings are CPU time of the thread that works, so that a busy machine shows the same
 * steps. An opening copies, checks and verifies the module's bytes.
 * Every input of the model gets random numbers of the given extents. `first run` has a new session each time;
 * `later run` has its keys in the memo. With --vm the command is cancelled, too, by SIGINT and SIGTERM in turn; its
 * exit statuses are counted, and the files that it should not have left. The exit status is 1 if a maximum exceeds the
 * bound, or if a command ended with another status or left a file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/inputs.h"
#include "reed/compiler.h"
#include "reed/reed.h"

enum { MOST_INPUTS = 8, MOST_OUTPUTS = 64 };

static double clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double now_ms(void) { return clock_ms(CLOCK_MONOTONIC); }

static void sleep_ms(double ms) {
  struct timespec t = {(time_t)(ms / 1e3), (long)((ms - 1e3 * (double)(time_t)(ms / 1e3)) * 1e6)};
  while (nanosleep(&t, &t) && errno == EINTR) continue;
}

static _Noreturn void stop(const char *what, const reed_diagnosis *d) {
  fprintf(stderr, "bench_cancel: %s: %s\n", what, d ? reed_diagnosis_message(d) : strerror(errno));
  exit(EXIT_FAILURE);
}

/* ---- latencies ---- */

typedef struct latencies {
  const char *what;
  double whole_ms;           /* the work without a cancellation */
  double *ms, slowest_at_ms; /* the moment of the largest latency */
  int n, too_late;           /* too_late: the work had ended before */
  bool failed;               /* a cancelled command ended with another status or left a file */
  char notes[200];
} latencies;

static void note(latencies *l, double at_ms, double took_ms) {
  bool slowest = true;
  for (int i = 0; i < l->n; i++) slowest = slowest && l->ms[i] < took_ms;
  if (slowest) l->slowest_at_ms = at_ms;
  l->ms[l->n++] = took_ms;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Prints the row; false if it is over the bound or wrong. */
static bool print_row(latencies *l, double bound_ms) {
  if (l->n == 0) {
    printf("%-22s %9.1f  every cancellation came too late\n", l->what, l->whole_ms);
  } else {
    qsort(l->ms, (size_t)l->n, sizeof *l->ms, by_value);
    double most = l->ms[l->n - 1];
    printf("%-22s %9.1f %5d %9.2f %9.2f %9.2f %12.1f  %s%s\n", l->what, l->whole_ms, l->n, l->ms[l->n / 2],
           l->ms[(l->n * 95) / 100], most, l->slowest_at_ms, bound_ms > 0 && most > bound_ms ? "OVER THE BOUND " : "",
           l->notes);
    if (bound_ms > 0 && most > bound_ms) l->failed = true;
  }
  fflush(stdout);
  free(l->ms);
  return !l->failed;
}

/* ---- the library ---- */

typedef struct work {
  const char *path;
  reed_program *program;
  reed_session *session;
  reed_tensor *inputs[MOST_INPUTS];
  size_t n_inputs, n_outputs;
  int n_threads;
  int cancel; /* raised to cancel a compilation or an opening */
  void *module;
  size_t n_module;
  enum { RUN, COMPILE, OPEN } kind;
} work;

static reed_status do_work(work *w) {
  reed_tensor *outputs[MOST_OUTPUTS];
  if (w->kind == RUN) {
    reed_status status = reed_session_run(w->session, w->inputs, w->n_inputs, outputs, w->n_outputs, NULL);
    for (size_t i = 0; i < w->n_outputs && status == REED_OK; i++) reed_tensor_close(&outputs[i]);
    return status;
  }
  void *bytes;
  size_t n;
  __atomic_store_n(&w->cancel, 0, __ATOMIC_SEQ_CST);
  if (w->kind == OPEN) {
    reed_program *program = NULL;
    reed_status status =
        reed_program_open_bytes(w->module, w->n_module, &(reed_program_options){.cancel = &w->cancel}, &program, NULL);
    reed_program_close(&program);
    return status;
  }
  reed_status status =
      reed_compile_file(w->path, &(reed_compile_options){.cancel = &w->cancel}, &bytes, &n, NULL, NULL);
  if (status == REED_OK) reed_text_free(bytes);
  return status;
}

typedef struct canceller {
  work *w;
  clockid_t working; /* the clock of the thread that works: its CPU time */
  double begin_ms, at_ms, cancelled_ms, cancelled_cpu_ms;
} canceller;

static void *cancel_at(void *context) {
  canceller *c = context;
  sleep_ms(c->begin_ms + c->at_ms - now_ms());
  c->cancelled_ms = now_ms();
  c->cancelled_cpu_ms = clock_ms(c->working);
  if (c->w->kind == RUN) reed_session_cancel(c->w->session);
  else __atomic_store_n(&c->w->cancel, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void open_session(work *w) {
  if (w->session) reed_session_close(&w->session);
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d)) exit(EXIT_FAILURE);
  if (reed_session_open(w->program, &(reed_session_options){.n_threads = w->n_threads}, &w->session, d))
    stop("session", d);
  reed_diagnosis_close(&d);
}

/* whole_ms: of the second call, whose memory has been touched before. fresh: a new session for every call. */
static latencies measure(work *w, const char *what, int cancels, bool fresh) {
  latencies l = {.what = what, .ms = calloc((size_t)cancels, sizeof *l.ms)};
  clockid_t working;
  if (!l.ms || pthread_getcpuclockid(pthread_self(), &working)) exit(EXIT_FAILURE);
  for (int i = 0; i < 2; i++) {
    if (fresh) open_session(w);
    double begin = now_ms();
    if (do_work(w) != REED_OK) stop(what, NULL);
    l.whole_ms = now_ms() - begin;
  }
  for (int i = 0; i < cancels; i++) {
    if (fresh) open_session(w);
    pthread_t thread;
    canceller c = {.w = w, .working = working, .begin_ms = now_ms(), .at_ms = random_part() * l.whole_ms};
    if (pthread_create(&thread, NULL, cancel_at, &c)) exit(EXIT_FAILURE);
    reed_status status = do_work(w);
    double end = now_ms(), end_cpu = clock_ms(working);
    pthread_join(thread, NULL);
    double took = w->kind == RUN ? end - c.cancelled_ms : end_cpu - c.cancelled_cpu_ms;
    if (status == REED_ERROR_CANCELLED) note(&l, c.cancelled_ms - c.begin_ms, took);
    else if (status == REED_OK) l.too_late++;
    else l.failed = true, snprintf(l.notes, sizeof l.notes, "ended with %s ", reed_status_name(status));
  }
  return l;
}

/* ---- the command ---- */

typedef struct told {
  char *const *words;
  char folder[64], made[96]; /* the command's working folder; the file that it makes, "" for none */
} told;

static pid_t start(const told *t) {
  pid_t child = fork();
  if (child) return child;
  int nothing = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; i++) dup2(nothing, i);
  execv(t->words[0], t->words);
  _exit(127);
}

static int leftovers(const char *folder, bool cleared) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (strstr(e->d_name, ".tmp")) {
      char path[400];
      n++;
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
      if (cleared) unlink(path);
    }
  if (d) closedir(d);
  return n;
}

static latencies measure_command(const told *t, const char *what, int cancels) {
  latencies l = {.what = what, .ms = calloc((size_t)cancels, sizeof *l.ms)};
  if (!l.ms) exit(EXIT_FAILURE);
  int code, asked = 0, killed = 0, other = 0, left = 0;
  double begin = now_ms();
  pid_t child = start(t);
  if (child < 0 || waitpid(child, &code, 0) < 0 || !WIFEXITED(code) || WEXITSTATUS(code) > 1) stop(what, NULL);
  l.whole_ms = now_ms() - begin;
  for (int i = 0; i < cancels; i++) {
    unlink(t->made);
    begin = now_ms();
    if ((child = start(t)) < 0) stop("fork", NULL);
    sleep_ms(random_part() * l.whole_ms);
    double cancelled = now_ms();
    kill(child, i % 2 ? SIGINT : SIGTERM);
    if (waitpid(child, &code, 0) < 0) stop("waitpid", NULL);
    double end = now_ms();
    if (WIFEXITED(code) && WEXITSTATUS(code) <= 1) {
      l.too_late++;
      continue;
    }
    if (WIFEXITED(code) && WEXITSTATUS(code) == 130) asked++;
    else if (WIFSIGNALED(code)) killed++; /* the signal came before the command had a handler */
    else other++;
    if (access(t->made, F_OK) == 0) left++;
    left += leftovers(t->folder, true);
    note(&l, cancelled - begin, end - cancelled);
  }
  snprintf(l.notes, sizeof l.notes, "exit 130: %d, killed as it began: %d, other: %d, files left: %d", asked, killed,
           other, left);
  l.failed = other || left;
  return l;
}

/* The TensorProto of an f32 tensor: `vm test` reads its inputs from such files. */
static void write_case(const char *folder, const char *model, const work *w) {
  char path[200], *whole = realpath(model, NULL);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  if (!whole || symlink(whole, path)) stop(path, NULL);
  free(whole);
  snprintf(path, sizeof path, "%s/test_data_set_0", folder);
  if (mkdir(path, 0700)) stop(path, NULL);
  for (size_t i = 0; i < w->n_inputs; i++) {
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, i);
    FILE *f = fopen(path, "wb");
    if (!f) stop(path, NULL);
    uint64_t numbers[REED_MAX_RANK + 1];
    int n = reed_tensor_rank(w->inputs[i]);
    for (int axis = 0; axis < n; axis++) numbers[axis] = (uint64_t)reed_tensor_dims(w->inputs[i])[axis];
    numbers[n] = (uint64_t)reed_tensor_bytes(w->inputs[i]);
    for (int k = 0; k <= n; k++) { /* field 1: dims; 2: data type, 1 is float; 9: bytes */
      if (k == n) fputs("\x10\x01", f);
      fputc(k == n ? 0x4a : 0x08, f);
      for (uint64_t v = numbers[k]; fputc((int)(v & 127) | (v > 127 ? 128 : 0), f), v > 127; v >>= 7) continue;
    }
    fwrite(reed_tensor_data(w->inputs[i]), 1, (size_t)numbers[n], f);
    if (fclose(f)) stop(path, NULL);
  }
}

static void remove_folder(const char *folder) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command)) fprintf(stderr, "bench_cancel: %s is left\n", folder);
}

static bool measure_commands(const char *vm, const char *model, const char *extents, const work *w, int cancels,
                             double bound_ms) {
  told t = {.folder = "/tmp/bench_cancel_XXXXXX"};
  char module[96], cases[96], value[100], threads[16];
  if (!mkdtemp(t.folder)) stop("temporary folder", NULL);
  snprintf(module, sizeof module, "%s/m.reed", t.folder);
  snprintf(cases, sizeof cases, "%s/case", t.folder);
  snprintf(t.made, sizeof t.made, "%s/made", t.folder);
  snprintf(value, sizeof value, "%sxf32=rand:7", extents);
  snprintf(threads, sizeof threads, "%d", w->n_threads);
  if (mkdir(cases, 0700)) stop(cases, NULL);
  write_case(cases, model, w);
  t.words = (char *const[]){(char *)vm, "compile", (char *)model, "-o", module, NULL};
  int code;
  pid_t child = start(&t);
  if (child < 0 || waitpid(child, &code, 0) < 0 || code) stop("vm compile", NULL);
  const struct {
    const char *what;
    char *const *words;
  } rows[] = {
      {"vm compile", (char *const[]){(char *)vm, "compile", (char *)model, "-o", t.made, NULL}},
      {"vm run M.reed",
       (char *const[]){(char *)vm, "run", module, "-i", value, "--threads", threads, "--stats", t.made, NULL}},
      {"vm run M.onnx", (char *const[]){(char *)vm, "run", (char *)model, "-i", value, "--threads", threads, NULL}},
      {"vm bench", (char *const[]){(char *)vm, "bench", module, "-i", value, "--threads", threads, "--runs", "2",
                                   "--warmup", "1", "--json", t.made, NULL}},
      {"vm profile", (char *const[]){(char *)vm, "profile", module, "-i", value, "--threads", threads, "--runs", "2",
                                     "--json", t.made, NULL}},
      {"vm plan", (char *const[]){(char *)vm, "plan", module, "-i", value, "--json", t.made, NULL}},
      {"vm test", (char *const[]){(char *)vm, "test", cases, "--json", t.made, NULL}},
      {"vm verify", (char *const[]){(char *)vm, "verify", module, NULL}},
      {"vm dis", (char *const[]){(char *)vm, "dis", module, "-o", t.made, NULL}},
  };
  bool fine = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    t.words = rows[i].words;
    latencies l = measure_command(&t, rows[i].what, cancels);
    fine = print_row(&l, bound_ms) && fine;
  }
  remove_folder(t.folder);
  return fine;
}

/* ---- */

static void make_inputs(work *w, const char *extents) {
  w->n_inputs = reed_program_input_count(w->program);
  w->n_outputs = reed_program_output_count(w->program);
  if (w->n_inputs > MOST_INPUTS || w->n_outputs > MOST_OUTPUTS) stop("inputs", NULL);
  for (size_t i = 0; i < w->n_inputs; i++) {
    reed_value_info info;
    if (reed_program_input(w->program, i, &info)) exit(EXIT_FAILURE);
    /* the extents of the command instead of the model's dims */
    if (input_of_text(info.dtype, extents, &w->inputs[i]))
      fprintf(stderr, "bench_cancel: '%s' is no input\n", extents), exit(2);
  }
}

static int usage(void) {
  fprintf(stderr, "usage: bench_cancel MODEL.onnx 3x480x640 [--cancels N] [--threads N] [--bound MS] [--vm PATH]\n");
  return 2;
}

int main(int n_arguments, char **arguments) {
  const char *vm = NULL;
  int cancels = 40;
  double bound_ms = 0;
  work w = {.n_threads = 1};
  if (n_arguments < 3 || n_arguments % 2 == 0) return usage();
  w.path = arguments[1];
  for (int i = 3; i < n_arguments; i += 2) {
    const char *value = arguments[i + 1];
    if (strcmp(arguments[i], "--cancels") == 0) cancels = (int)argument_integer("--cancels", value, 1, INT32_MAX);
    else if (strcmp(arguments[i], "--threads") == 0)
      w.n_threads = (int)argument_integer("--threads", value, 1, INT32_MAX);
    else if (strcmp(arguments[i], "--bound") == 0) bound_ms = argument_number("--bound", value);
    else if (strcmp(arguments[i], "--vm") == 0) vm = value;
    else return usage();
  }
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d)) return EXIT_FAILURE;
  if (reed_compile_file(w.path, NULL, &w.module, &w.n_module, NULL, d)) stop(w.path, d);
  if (reed_program_open_bytes(w.module, w.n_module, NULL, &w.program, d)) stop(w.path, d);
  make_inputs(&w, arguments[2]);
  double load[1] = {0};
  (void)getloadavg(load, 1);
  printf("%s %s, %d thread%s, load of the machine %.1f, bound %.0f ms\n", w.path, arguments[2], w.n_threads,
         w.n_threads > 1 ? "s" : "", load[0], bound_ms);
  printf("%-22s %9s %5s %9s %9s %9s %12s\n", "", "whole ms", "n", "median ms", "p95 ms", "max ms", "slowest at ms");
  bool fine = true;
  latencies l = measure(&w, "first run", cancels, true);
  fine = print_row(&l, bound_ms) && fine;
  l = measure(&w, "later run", cancels, false);
  fine = print_row(&l, bound_ms) && fine;
  w.kind = COMPILE;
  l = measure(&w, "compilation (CPU)", cancels, false);
  fine = print_row(&l, bound_ms) && fine;
  w.kind = OPEN;
  l = measure(&w, "opening (CPU)", cancels, false);
  fine = print_row(&l, bound_ms) && fine;
  reed_text_free(w.module);
  if (vm) fine = measure_commands(vm, w.path, arguments[2], &w, cancels, bound_ms) && fine;
  for (size_t i = 0; i < w.n_inputs; i++) reed_tensor_close(&w.inputs[i]);
  reed_session_close(&w.session);
  reed_program_close(&w.program);
  reed_diagnosis_close(&d);
  return fine ? 0 : 1;
}
