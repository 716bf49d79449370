/* vm test: every ONNX test case below the folders given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/json.h"
#include "tools/onnx_case.h"
#include "tools/print.h"

static const flag flags[] = {
    FLAG_OF_DEVICE, FLAG_OF_THREADS, FLAG_OF_JSON, FLAG_OF_TOLERANCES, FLAG_OF_DISABLED, FLAG_OF_PLUGINS, FLAG_END,
};

static const char *const result_names[] = {
    [CASE_PASSED] = "passed", [CASE_FAILED] = "failed", [CASE_UNSUPPORTED] = "unsupported"};

/* The path below the folder given, or the folder's own name where that is the case. */
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
    fputs("    ", stdout);
    fwrite(detail, 1, n, stdout);
    putchar('\n');
    detail += n + (detail[n] == '\n');
  }
}

/* What is not supported, once each with its number of cases. */
static void print_unsupported(const cJSON *cases) {
  const cJSON *a, *b;
  table t = {2, NULL, 0};
  table_add(&t, "cases");
  table_add(&t, "not supported");
  cJSON_ArrayForEach(a, cases) {
    if (strcmp(json_text(a, "result"), "unsupported")) continue;
    char line[200], other[200];
    /* the first thing named, without the node's name behind the last colon */
    const char *detail = json_text(a, "detail"), *what = strchr(detail, '\n');
    snprintf(line, sizeof line, "%.*s", (int)strcspn(what ? what + 1 : detail, ":\n"), what ? what + 1 : detail);
    int count = 0;
    bool first = true;
    cJSON_ArrayForEach(b, cases) {
      if (strcmp(json_text(b, "result"), "unsupported")) continue;
      detail = json_text(b, "detail"), what = strchr(detail, '\n');
      snprintf(other, sizeof other, "%.*s", (int)strcspn(what ? what + 1 : detail, ":\n"), what ? what + 1 : detail);
      if (strcmp(line, other)) continue;
      if (!count) first = a == b;
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
  cJSON *root = cJSON_CreateObject(), *list = NULL;
  for (size_t i = 0; i < cases.n && !status; i++) {
    const char *name = case_name(cases.items[i], &o->arguments);
    char *detail;
    if (!list) {
      for (int r = 0; r < 3; r++) cJSON_AddNumberToObject(root, result_names[r], 0);
      list = cJSON_AddArrayToObject(root, "cases");
    }
    progress(name, (double)i / (double)cases.n);
    case_result result = case_run(o, cases.items[i], &detail);
    counts[result]++;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddStringToObject(item, "result", result_names[result]);
    cJSON_AddStringToObject(item, "detail", detail);
    cJSON_AddItemToArray(list, item);
    if (result == CASE_FAILED && (!o->json || strcmp(o->json, "-"))) {
      progress_end();
      printf("failed: %s\n", name);
      print_detail(detail);
    }
    free(detail);
  }
  progress_end();
  for (int r = 0; r < 3; r++) cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(root, result_names[r]), counts[r]);
  if (!status && (!o->json || strcmp(o->json, "-"))) {
    print_unsupported(list);
    printf("\n%d passed, %d failed, %d unsupported of %zu cases\n", counts[CASE_PASSED], counts[CASE_FAILED],
           counts[CASE_UNSUPPORTED], cases.n);
  }
  if (!status && o->json) status = json_write(root, o->json, c);
  cJSON_Delete(root);
  for (size_t i = 0; i < cases.n; i++) free((char *)cases.items[i]);
  free(cases.items);
  return status ? status : counts[CASE_FAILED] ? DIFFERENT : DONE;
}

static const char notes[] =
    "A case is a folder with model.onnx and test_data_set_*/{input,output}_*.pb. It counts as unsupported only when "
    "compiling says so; the table at the\n"
    "end names what is missing. Outputs of bf16 may be one unit of the last place off unless --rtol says otherwise.";

const command command_test = {"test",
                              "DIR... [--device D] [--rtol R] [--atol A] [--json FILE]",
                              "runs every ONNX test case below the folders",
                              notes,
                              flags,
                              1,
                              (size_t)-1,
                              run};
