/* vm test: runs every ONNX test case in the given folders. Finding and running a case: onnx_case.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/files.h"
#include "tools/interrupt.h"
#include "tools/onnx_case.h"
#include "tools/plain.h"
#include "tools/print.h"

static const flag flags[] = {
    FLAG_OF_DEVICE,
    FLAG_OF_GRAPHS,
    FLAG_OF_THREADS,
    {"--runs", NULL, FLAG_INT, offsetof(options, runs), "N",
     "runs of each data set, all compared (default 1; a graph is recorded in the second and replayed from the third "
     "on)",
     NULL, 1, MOST_RUNS},
    FLAG_OF_JSON,
    FLAG_OF_TOLERANCES,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

static const char *const result_names[] = {
    [CASE_PASSED] = "passed", [CASE_FAILED] = "failed", [CASE_UNSUPPORTED] = "unsupported"};

/* The path below the given folder; the folder's own name for a case in the folder itself. */
static const char *case_name(const char *path, const words *roots) {
  for (size_t i = 0; i < roots->n; i++) {
    size_t n = strlen(roots->items[i]);
    if (strncmp(path, roots->items[i], n) == 0 && path[n]) {
      path += n;
      while (*path == '/') path++;
      return path;
    }
  }
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  while (n > 0 && path[n - 1] != '/') n--;
  return path + n;
}

static void print_detail(const char *detail) {
  while (*detail) {
    size_t n = strcspn(detail, "\n");
    char *line = memcpy(need(n + 1, 1), detail, n);
    printf("    %s\n", plain(line));
    free(line);
    detail += n + (detail[n] == '\n');
  }
}

/* The first item of a detail, without the node's name after its last colon. */
static const char *first_named(const char *detail, char *out, size_t capacity) {
  const char *newline = strchr(detail, '\n'), *named = newline ? newline + 1 : detail;
  snprintf(out, capacity, "%.*s", (int)strcspn(named, ":\n"), named);
  return out;
}

/* Prints the unsupported items, each once with its number of cases. */
static void print_unsupported(const words *details) {
  table t = {2, NULL, 0};
  table_add(&t, "cases");
  table_add(&t, "not supported");
  for (size_t i = 0; i < details->n; i++) {
    char line[200], other[200];
    int count = 0;
    bool first = true;
    first_named(details->items[i], line, sizeof line);
    for (size_t k = 0; k < details->n; k++) {
      if (strcmp(line, first_named(details->items[k], other, sizeof other))) continue;
      if (!count) first = i == k;
      count++;
    }
    if (!first) continue;
    table_add(&t, "%d", count);
    table_add(&t, "%s", line + strspn(line, " "));
  }
  if (t.n_cells > 2) {
    putchar('\n');
    table_print(stdout, &t);
  } else {
    for (size_t i = 0; i < t.n_cells; i++) free(t.cells[i]);
    free(t.cells);
  }
}

static int run(const options *o, complaint *c) {
  words cases = {0};
  tolerance any;
  int status = tolerance_find(&o->rtol, &o->atol, "", &any, c), counts[3] = {0};
  for (size_t i = 0; i < o->arguments.n && !status; i++) status = case_find(o->arguments.items[i], &cases, c);
  if (!status && cases.n == 0) status = complain(c, BAD_FILE, "no model.onnx below '%s'", o->arguments.items[0]);
  words unsupported = {0}; /* details, owned */
  json_writer json = {0};
  json_begin_object(&json, NULL);
  json_begin_array(&json, "cases");
  interrupt_polled_begin(); /* after a signal the table is still printed */
  for (size_t i = 0; i < cases.n && !status && !interrupted(); i++) {
    const char *name = case_name(cases.items[i], &o->arguments);
    char *detail;
    progress(name, (double)i / (double)cases.n);
    case_result result = case_run(o, cases.items[i], &detail);
    if (interrupted()) { /* the case has no result */
      free(detail);
      break;
    }
    counts[result]++;
    json_begin_object(&json, NULL);
    json_string(&json, "name", name);
    json_string(&json, "result", result_names[result]);
    json_string(&json, "detail", detail);
    json_end_object(&json);
    if (result == CASE_FAILED && !target_is_printed()) {
      progress_end();
      printf("failed: %s\n", plain(name));
      print_detail(detail);
    }
    if (result == CASE_UNSUPPORTED) words_add(&unsupported, detail);
    else free(detail);
  }
  interrupt_polled_end();
  progress_end();
  json_end_array(&json);
  for (int r = 0; r < 3; r++) json_integer(&json, result_names[r], counts[r]);
  json_end_object(&json);
  if (!status && !target_is_printed()) {
    print_unsupported(&unsupported);
    printf("\n%d passed, %d failed, %d unsupported of %zu cases\n", counts[CASE_PASSED], counts[CASE_FAILED],
           counts[CASE_UNSUPPORTED], cases.n);
  }
  if (!status && o->json && !interrupted()) status = file_write_json(o->json, &json, c);
  json_fini(&json);
  for (size_t i = 0; i < unsupported.n; i++) free((char *)unsupported.items[i]);
  words_fini(&unsupported);
  for (size_t i = 0; i < cases.n; i++) free((char *)cases.items[i]);
  free(cases.items);
  return status ? status : counts[CASE_FAILED] ? DIFFERENT : DONE;
}

static const char notes[] =
    "A case is a folder with model.onnx and test_data_set_*/{input,output}_*.pb. A case counts as unsupported only if "
    "the compiler refuses it as such;\n"
    "the table at the end names the missing operators. Outputs of bf16 may be off by two units of the last place, "
    "unless "
    "--rtol is given. Of a model that draws random numbers only the outputs' dtypes and extents are compared.";

const command command_test = {"test",
                              "DIR... [--device D] [--runs N] [--rtol R] [--atol A] [--json FILE]",
                              "runs every ONNX test case below the folders",
                              notes,
                              flags,
                              1,
                              (size_t)-1,
                              run};
