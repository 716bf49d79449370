/* vm bench: how long a run takes, first and later, and the memory it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json.h"
#include "tools/model.h"
#include "tools/print.h"

static const flag flags[] = {
    FLAG_OF_INPUTS,
    {"--runs", NULL, FLAG_INT, offsetof(options, runs), "N", "runs that are timed (default 20)", NULL, 1},
    {"--warmup", NULL, FLAG_INT, offsetof(options, warmup), "N", "runs before them (default 3; the first one is timed on its own)"},
    FLAG_OF_DEVICE,
    FLAG_OF_THREADS,
    FLAG_OF_JSON,
    FLAG_OF_MEMORY_CAP,
    FLAG_OF_PICTURES,
    FLAG_OF_DISABLED,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* What one run took. */
typedef struct cost {
  double us, page_faults;
} cost;

typedef struct timing {
  int64_t runs, kernels, peak_resident_bytes;
  double median_us, min_us, p90_us;
  double page_faults; /* median */
  cost first;
} timing;

static int timed_run(model *m, reed_tensor *const *inputs, cost *out_cost, complaint *c) {
  reed_tensor **outputs = need(m->n_outputs, sizeof *outputs);
  int64_t faults = usage_now().page_faults;
  double begin = now_us();
  int status = model_run(m, inputs, outputs, c);
  *out_cost = (cost){now_us() - begin, (double)(usage_now().page_faults - faults)};
  tensors_close(outputs, m->n_outputs);
  return status;
}

static double median(const double *sorted, int64_t n) { return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2; }

/* Of the runs timed; first is filled already where there was a warm-up. */
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
  t->peak_resident_bytes = usage_now().peak_resident_bytes;
  free(sorted);
}

static void print_timing(const timing *t) {
  char a[32], b[32], d[32], e[32], f[32];
  printf("%lld run%s: median %s, min %s, p90 %s; first %s; %lld kernels, %s each\n", (long long)t->runs, t->runs == 1 ? "" : "s",
         text_us(t->median_us, a, sizeof a), text_us(t->min_us, b, sizeof b), text_us(t->p90_us, d, sizeof d),
         text_us(t->first.us, e, sizeof e), (long long)t->kernels, text_us(t->kernels ? t->median_us / (double)t->kernels : 0, f, sizeof f));
  printf("peak resident memory %s; page faults %.0f a run, %.0f in the first\n", text_bytes((double)t->peak_resident_bytes, a, sizeof a),
         t->page_faults, t->first.page_faults);
}

static int write_json(const char *path, const timing *t, complaint *c) {
  const struct {
    const char *key;
    double value;
  } members[] = {{"runs", (double)t->runs}, {"median_us", t->median_us}, {"min_us", t->min_us}, {"p90_us", t->p90_us},
                 {"first_us", t->first.us}, {"kernels", (double)t->kernels}, {"page_faults", t->page_faults},
                 {"first_page_faults", t->first.page_faults}, {"peak_resident_bytes", (double)t->peak_resident_bytes}};
  cJSON *root = cJSON_CreateObject();
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) cJSON_AddNumberToObject(root, members[i].key, members[i].value);
  int status = json_write(root, path, c);
  cJSON_Delete(root);
  return status;
}

static int run(const options *o, complaint *c) {
  int64_t runs = o->runs < 0 ? 20 : o->runs, warmup = o->warmup < 0 ? 3 : o->warmup;
  model m = {0};
  reed_tensor **inputs = NULL;
  cost *costs = need((size_t)runs, sizeof *costs), ignored;
  timing t = {0};
  int status = model_open(o, o->arguments.items[0], &m, c);
  if (!status) status = model_make_inputs(o, &m, true, &inputs, c);
  if (!status) status = model_open_session(o, false, &m, c);
  for (int64_t i = 0; i < warmup && !status; i++) {
    progress("warming up", 0);
    status = timed_run(&m, inputs, i ? &ignored : &t.first, c);
  }
  for (int64_t i = 0; i < runs && !status; i++) {
    if (i % 8 == 0) progress("running", (double)i / (double)runs);
    status = timed_run(&m, inputs, &costs[i], c);
    if (i == 0 && warmup == 0) t.first = costs[0];
  }
  progress_end();
  if (!status) {
    t.kernels = reed_session_kernel_count(m.session);
    summarize(costs, runs, &t);
    if (!o->json || strcmp(o->json, "-")) print_timing(&t);
    if (o->json) status = write_json(o->json, &t, c);
  }
  tensors_close(inputs, m.n_inputs);
  model_fini(&m);
  free(costs);
  return status;
}

static const char notes[] = "Inputs of fixed shape that are not given are random (floats) or ones (the rest).";

const command command_bench = {"bench", "M [-i NAME=VALUE]... [--runs N] [--warmup N] [--device D] [--threads N] [--json FILE]",
                               "times runs of a model: median, least, 90th percentile and the first; memory and page faults", notes, flags, 1, 1, run};
