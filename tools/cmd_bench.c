/* vm bench: the time and memory of a run, from opening the program to the first result, and of later runs. Opening the
 * model: model.c. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/files.h"
#include "tools/interrupt.h"
#include "tools/model.h"
#include "tools/print.h"

static const flag flags[] = {
    FLAG_OF_INPUTS,
    {"--runs", NULL, FLAG_INT, offsetof(options, runs), "N", "runs that are timed (default 20)", NULL, 1, MOST_RUNS},
    {"--warmup", NULL, FLAG_INT, offsetof(options, warmup), "N",
     "runs before the timed runs (default 3; the first run is timed on its own)", NULL, 0, MOST_RUNS},
    {"--fresh", NULL, FLAG_INT, offsetof(options, fresh), "N",
     "processes that load and run once, one after the other (default 1: this one)", NULL, 1, MOST_RUNS},
    FLAG_OF_DEVICE,
    FLAG_OF_GRAPHS,
    {"--fetch-outputs", NULL, FLAG_SWITCH, offsetof(options, fetch_outputs), NULL,
     "a run copies its outputs to the host; without this word they stay on the device, for the next program there"},
    FLAG_OF_SEED,
    FLAG_OF_THREADS,
    FLAG_OF_JSON,
    {"--stats", NULL, FLAG_TARGET, offsetof(options, stats), "FILE.json",
     "epochs, copies, memory, memo and graphs after the last run ('-': standard output)"},
    FLAG_OF_MEMORY_CAP,
    FLAG_OF_PICTURES,
    FLAG_OF_COUNTS,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The cost of one run. */
typedef struct cost {
  double us, page_faults;
} cost;

/* The start: opening program and session (compiling an ONNX file is not part of it), and the first run. */
typedef struct start {
  double load_us;
  cost first;
} start;

typedef struct timing {
  int64_t runs, kernels, fresh, peak_resident_bytes;
  double median_us, min_us, p90_us;
  double page_faults; /* median */
  start start;        /* of the process whose start took the median time */
} timing;

static int timed_run(model *m, reed_tensor *const *inputs, cost *out_cost, complaint *c) {
  reed_tensor **outputs = need(m->n_outputs, sizeof *outputs);
  int64_t faults = page_faults_now();
  double begin = now_us();
  int status = model_run(m, inputs, outputs, c);
  double us = now_us() - begin;
  *out_cost = (cost){us, (double)(page_faults_now() - faults)};
  tensors_close(outputs, m->n_outputs);
  return status;
}

/* Opens everything that a run needs, and runs once. */
static int begin(const options *o, model *m, reed_tensor ***out_inputs, start *out_start, complaint *c) {
  int status = model_open(o, o->arguments.items[0], m, c);
  if (!status) status = model_make_inputs(o, m, true, out_inputs, c);
  if (!status) status = model_open_session(o, false, m, c);
  out_start->load_us = m->open_us + m->session_us;
  progress("first run", 0);
  return status ? status : timed_run(m, *out_inputs, &out_start->first, c);
}

/* As begin, in a process of its own. False: the process gave no result; this process will then fail too and report why.
 */
static bool begin_elsewhere(const options *o, start *out_start) {
  int ends[2];
  fflush(stdout);
  if (pipe(ends)) return false;
  interrupt_polled_begin(); /* the child is ended with this process */
  pid_t child = fork();
  if (child == 0) {
    interrupt_polled_end();
    model m = {0};
    reed_tensor **inputs = NULL;
    complaint c;
    start s;
    bool ok = begin(o, &m, &inputs, &s, &c) == DONE && write(ends[1], &s, sizeof s) == (ssize_t)sizeof s;
    _exit(ok ? DONE : FAILED_RUN);
  }
  close(ends[1]);
  bool ok = child > 0 && read(ends[0], out_start, sizeof *out_start) == (ssize_t)sizeof *out_start;
  close(ends[0]);
  if (child > 0 && interrupted()) kill(child, SIGTERM);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  interrupt_polled_end();
  return ok;
}

static double start_us(const start *s) { return s->load_us + s->first.us; }

static int faster_start(const void *a, const void *b) {
  double x = start_us(a), y = start_us(b);
  return (x > y) - (x < y);
}

static double median(const double *sorted, int64_t n) {
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Summarises the timed runs. */
static void summarize(const cost *costs, int64_t n, timing *t) {
  double *sorted = need((size_t)n, sizeof *sorted);
  for (int64_t i = 0; i < n; i++) sorted[i] = costs[i].page_faults;
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  t->page_faults = median(sorted, n);
  for (int64_t i = 0; i < n; i++) sorted[i] = costs[i].us;
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  t->runs = n;
  t->median_us = median(sorted, n);
  t->min_us = sorted[0];
  t->p90_us = sorted[(n * 9 + 9) / 10 - 1];
  t->peak_resident_bytes = peak_resident_bytes();
  free(sorted);
}

static double start_ratio(const timing *t) { return t->median_us > 0 ? start_us(&t->start) / t->median_us : 0; }

static void print_timing(const timing *t) {
  char a[32], b[32], d[32], f[32];
  printf("%lld run%s: median %s, min %s, p90 %s; %lld kernels, %s each\n", (long long)t->runs, t->runs == 1 ? "" : "s",
         text_us(t->median_us, a, sizeof a), text_us(t->min_us, b, sizeof b), text_us(t->p90_us, d, sizeof d),
         (long long)t->kernels, text_us(t->kernels ? t->median_us / (double)t->kernels : 0, f, sizeof f));
  printf("load %s, first run %s", text_us(t->start.load_us, a, sizeof a), text_us(t->start.first.us, b, sizeof b));
  if (t->fresh > 1) printf(" (median of %lld processes)", (long long)t->fresh);
  printf("; load to first result %s, %.2f of a later run\n", text_us(start_us(&t->start), a, sizeof a), start_ratio(t));
  printf("peak resident memory %s; page faults %.0f a run, %.0f in the first\n",
         text_bytes((double)t->peak_resident_bytes, a, sizeof a), t->page_faults, t->start.first.page_faults);
}

static int write_json(const char *path, const timing *t, complaint *c) {
  const struct {
    const char *key;
    double value;
  } members[] = {{"runs", (double)t->runs},
                 {"median_us", t->median_us},
                 {"min_us", t->min_us},
                 {"p90_us", t->p90_us},
                 {"load_us", t->start.load_us},
                 {"first_us", t->start.first.us},
                 {"load_first_us", start_us(&t->start)},
                 {"load_first_ratio", start_ratio(t)},
                 {"processes", (double)t->fresh},
                 {"kernels", (double)t->kernels},
                 {"page_faults", t->page_faults},
                 {"first_page_faults", t->start.first.page_faults},
                 {"peak_resident_bytes", (double)t->peak_resident_bytes}};
  json_writer json = {0};
  json_begin_object(&json, NULL);
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) json_number(&json, members[i].key, members[i].value);
  json_end_object(&json);
  return file_write_json(path, &json, c);
}

static int run(const options *given, complaint *c) {
  options own = *given;
  const options *o = &own;
  own.keep_outputs = !own.fetch_outputs;
  int64_t runs = o->runs < 0 ? 20 : o->runs, warmup = o->warmup < 0 ? 3 : o->warmup,
          fresh = o->fresh < 1 ? 1 : o->fresh;
  model m = {0};
  reed_tensor **inputs = NULL;
  cost *costs = need((size_t)runs, sizeof *costs), ignored;
  start *starts = need((size_t)fresh, sizeof *starts);
  timing t = {0};
  /* the other processes come first, because this one has no threads yet, which fork would lose */
  while (t.fresh < fresh - 1 && !interrupted() && begin_elsewhere(o, &starts[t.fresh])) t.fresh++;
  int status = begin(o, &m, &inputs, &starts[t.fresh++], c);
  if (warmup == 0) costs[0] = starts[t.fresh - 1].first;
  for (int64_t i = 1; i < warmup && !status; i++) {
    progress("warming up", 0);
    status = timed_run(&m, inputs, &ignored, c);
  }
  for (int64_t i = warmup == 0; i < runs && !status; i++) {
    if (i % 8 == 0) progress("running", (double)i / (double)runs);
    status = timed_run(&m, inputs, &costs[i], c);
  }
  progress_end();
  if (!status) {
    t.kernels = reed_session_kernel_count(m.session);
    qsort(starts, (size_t)t.fresh, sizeof *starts, faster_start);
    t.start = starts[t.fresh / 2];
    summarize(costs, runs, &t);
    if (!target_is_printed()) print_timing(&t);
    if (o->json) status = write_json(o->json, &t, c);
    if (!status && o->stats) status = model_write_json(&m, reed_session_stats_json, "--stats", o->stats, c);
  }
  tensors_close(inputs, m.n_inputs);
  model_fini(&m);
  free(costs);
  free(starts);
  return status;
}

static const char notes[] = "Inputs of fixed shape that are not given are random (floats) or ones (the rest).";

const command command_bench = {
    "bench",
    "M [-i NAME=VALUE]... [--runs N] [--warmup N] [--fresh N] [--device D] [--fetch-outputs] [--threads N] [--json "
    "FILE]",
    "times runs of a model: median, least, 90th percentile, from loading to the first result; memory and page faults",
    notes,
    flags,
    1,
    1,
    run};
