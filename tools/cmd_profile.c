/* vm profile: the time of runs by operator and by node. Opening the model: model.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/print.h"

static const flag flags[] = {
    FLAG_OF_INPUTS,
    {"--runs", NULL, FLAG_INT, offsetof(options, runs), "N", "runs that are profiled (default 5)", NULL, 1, MOST_RUNS},
    {"--warmup", NULL, FLAG_INT, offsetof(options, warmup), "N",
     "runs before the profiled runs, not counted (default 1)", NULL, 0, MOST_RUNS},
    {"--trace", NULL, FLAG_TARGET, offsetof(options, trace), "FILE.json",
     "spans of the profiled runs, for Perfetto or chrome://tracing ('-': standard output)"},
    FLAG_OF_DEVICE,
    FLAG_OF_GRAPHS,
    FLAG_OF_SEED,
    FLAG_OF_THREADS,
    FLAG_OF_JSON,
    FLAG_OF_MEMORY_CAP,
    FLAG_OF_PICTURES,
    FLAG_OF_COUNTS,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

enum { SHOWN_NODES = 20 };

static int by_total(const void *a, const void *b) {
  double x = json_number_of(*(cJSON *const *)a, "total_us"), y = json_number_of(*(cJSON *const *)b, "total_us");
  return (x < y) - (x > y);
}

/* Prints a table of the rows, slowest first; `runs` makes sums into means. */
static void print_rows(const cJSON *rows, const char *key, int most, double runs) {
  int n = cJSON_GetArraySize(rows), i = 0;
  const cJSON **sorted = need((size_t)n, sizeof *sorted), *row;
  double sum = 0;
  cJSON_ArrayForEach(row, rows) {
    sorted[i++] = row;
    sum += json_number_of(row, "total_us");
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_total);
  bool of_nodes = strcmp(key, "node") == 0;
  table t = {of_nodes ? 11 : 9, NULL, 0};
  table_add(&t, "us/run");
  table_add(&t, "%%");
  table_add(&t, "calls/run");
  table_add(&t, "shape us");
  table_add(&t, "prepare us");
  table_add(&t, "chunks/run");
  table_add(&t, "longest us");
  table_add(&t, "alone us");
  if (of_nodes) table_add(&t, "operator");
  if (of_nodes) table_add(&t, "variant");
  table_add(&t, "%s", key);
  for (i = 0; i < n && i < most; i++) {
    double total = json_number_of(sorted[i], "total_us");
    table_add(&t, "%.1f", total / runs);
    table_add(&t, "%.1f", sum > 0 ? 100 * total / sum : 0);
    table_add(&t, "%g", json_number_of(sorted[i], "calls") / runs);
    table_add(&t, "%.1f", json_number_of(sorted[i], "shape_us") / runs);
    table_add(&t, "%.1f", json_number_of(sorted[i], "prepare_us") / runs);
    table_add(&t, "%g", json_number_of(sorted[i], "chunks") / runs);
    table_add(&t, "%.0f", json_number_of(sorted[i], "longest_chunk_us"));
    table_add(&t, "%.0f", json_number_of(sorted[i], "alone_us"));
    if (of_nodes) table_add(&t, "%s", json_text_of(sorted[i], "operator"));
    if (of_nodes) table_add(&t, "%s", json_text_of(sorted[i], "variant"));
    table_add(&t, "%s", json_text_of(sorted[i], key));
  }
  table_print(stdout, &t);
  if (n > most) printf("and %d more\n", n - most);
  free(sorted);
}

static int one_run(model *m, reed_tensor *const *inputs, complaint *c) {
  reed_tensor **outputs = need(m->n_outputs, sizeof *outputs);
  int status = model_run(m, inputs, outputs, c);
  tensors_close(outputs, m->n_outputs);
  return status;
}

static int report(const options *o, model *m, double runs, double wall_us, complaint *c) {
  char *text, time[32];
  int status = model_json(m, reed_session_profile_json, "the profile", &text, c);
  if (status) return status;
  if (!target_is_printed()) {
    cJSON *root = json_parse(text, c);
    if (!root) status = c->exit_status;
    if (root) {
      print_rows(cJSON_GetObjectItemCaseSensitive(root, "operators"), "operator", 1000, runs);
      putchar('\n');
      print_rows(cJSON_GetObjectItemCaseSensitive(root, "nodes"), "node", SHOWN_NODES, runs);
      printf("\n%.0f runs of %s with the profiler on\n", runs, text_us(wall_us / runs, time, sizeof time));
      if (json_number_of(root, "dropped_events") > 0)
        printf("%.0f events were dropped\n", json_number_of(root, "dropped_events"));
    }
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  reed_text_free(text);
  return status;
}

static int run(const options *o, complaint *c) {
  int64_t runs = o->runs < 0 ? 5 : o->runs, warmup = o->warmup < 0 ? 1 : o->warmup;
  model m = {0};
  reed_tensor **inputs = NULL;
  int status = model_open(o, o->arguments.items[0], &m, c);
  if (!status) status = model_make_inputs(o, &m, true, &inputs, c);
  if (!status) status = model_open_session(o, true, &m, c);
  for (int64_t i = 0; i < warmup && !status; i++) status = one_run(&m, inputs, c);
  if (!status && warmup) { /* fetching the trace forgets the spans of the warm-up */
    char *text;
    status = model_json(&m, reed_session_trace_json, "the trace", &text, c);
    if (!status) reed_text_free(text);
  }
  double begin = now_us();
  for (int64_t i = 0; i < runs && !status; i++) {
    progress("profiling", (double)i / (double)runs);
    status = one_run(&m, inputs, c);
  }
  double wall = now_us() - begin;
  progress_end();
  if (!status) status = report(o, &m, (double)runs, wall, c);
  if (!status && o->trace) status = model_write_json(&m, reed_session_trace_json, "--trace", o->trace, c);
  tensors_close(inputs, m.n_inputs);
  model_fini(&m);
  return status;
}

const command command_profile = {
    "profile",
    "M [-i NAME=VALUE]... [--runs N] [--warmup N] [--trace FILE] [--device D] [--threads N] [--json FILE]",
    "shows the time of a run, by operator and by node",
    NULL,
    flags,
    1,
    1,
    run};
