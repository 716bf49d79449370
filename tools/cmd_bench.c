/* vm bench: how long a run takes, first and later. */
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

static int timed_run(model *m, reed_tensor *const *inputs, double *out_us, complaint *c) {
  reed_tensor **outputs = need(m->n_outputs, sizeof *outputs);
  double begin = now_us();
  int status = model_run(m, inputs, outputs, c);
  *out_us = now_us() - begin;
  tensors_close(outputs, m->n_outputs);
  return status;
}

static int write_json(const char *path, int64_t runs, double median, double min, double p90, double first, int64_t kernels, complaint *c) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "runs", (double)runs);
  cJSON_AddNumberToObject(root, "median_us", median);
  cJSON_AddNumberToObject(root, "min_us", min);
  cJSON_AddNumberToObject(root, "p90_us", p90);
  cJSON_AddNumberToObject(root, "first_us", first);
  cJSON_AddNumberToObject(root, "kernels", (double)kernels);
  int status = json_write(root, path, c);
  cJSON_Delete(root);
  return status;
}

static int run(const options *o, complaint *c) {
  int64_t runs = o->runs < 0 ? 20 : o->runs, warmup = o->warmup < 0 ? 3 : o->warmup;
  model m = {0};
  reed_tensor **inputs = NULL;
  double first = 0, ignored, *us = need((size_t)runs, sizeof *us);
  int status = model_open(o, o->arguments.items[0], &m, c);
  if (!status) status = model_make_inputs(o, &m, true, &inputs, c);
  if (!status) status = model_open_session(o, false, &m, c);
  for (int64_t i = 0; i < warmup && !status; i++) {
    progress("warming up", 0);
    status = timed_run(&m, inputs, i ? &ignored : &first, c);
  }
  for (int64_t i = 0; i < runs && !status; i++) {
    if (i % 8 == 0) progress("running", (double)i / (double)runs);
    status = timed_run(&m, inputs, &us[i], c);
    if (i == 0 && warmup == 0) first = us[0];
  }
  progress_end();
  if (!status) {
    int64_t kernels = reed_session_kernel_count(m.session);
    qsort(us, (size_t)runs, sizeof *us, ascending);
    double median = runs % 2 ? us[runs / 2] : (us[runs / 2 - 1] + us[runs / 2]) / 2, p90 = us[(runs * 9 + 9) / 10 - 1];
    char a[32], b[32], d[32], e[32], f[32];
    if (!o->json || strcmp(o->json, "-"))
      printf("%lld run%s: median %s, min %s, p90 %s; first %s; %lld kernels, %s each\n", (long long)runs, runs == 1 ? "" : "s",
             text_us(median, a, sizeof a), text_us(us[0], b, sizeof b), text_us(p90, d, sizeof d), text_us(first, e, sizeof e), (long long)kernels,
             text_us(kernels ? median / (double)kernels : 0, f, sizeof f));
    if (o->json) status = write_json(o->json, runs, median, us[0], p90, first, kernels, c);
  }
  tensors_close(inputs, m.n_inputs);
  model_fini(&m);
  free(us);
  return status;
}

static const char notes[] = "Inputs of fixed shape that are not given are random (floats) or ones (the rest).";

const command command_bench = {"bench", "M [-i NAME=VALUE]... [--runs N] [--warmup N] [--device D] [--threads N] [--json FILE]",
                               "times runs of a model: median, least, 90th percentile and the first", notes, flags, 1, 1, run};
