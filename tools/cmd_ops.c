/* vm ops: the operators that Reed knows, and what the shape function of each reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/print.h"

static const flag flags[] = {FLAG_OF_JSON, FLAG_OF_PLUGINS, FLAG_END};

/* "data:shape starts:value [axes:value]" */
static char *operands_text(const cJSON *operands, const char *key) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  const cJSON *item;
  cJSON_ArrayForEach(item, operands) {
    bool optional = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "optional"));
    bool variadic = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "variadic"));
    fprintf(out, "%s%s%s:%s%s%s", item == operands->child ? "" : " ", optional ? "[" : "", json_text_of(item, "name"),
            json_text_of(item, key), variadic ? "..." : "", optional ? "]" : "");
  }
  fclose(out);
  return text;
}

static void print_operators(const cJSON *operators) {
  table t = {4, NULL, 0};
  const cJSON *op;
  for (int i = 0; i < 4; i++)
    table_add(&t, "%s",
              ((const char *const[]){"operator", "class", "outputs", "inputs: what the shape function reads"})[i]);
  cJSON_ArrayForEach(op, operators) {
    char *inputs = operands_text(cJSON_GetObjectItemCaseSensitive(op, "inputs"), "reads");
    char *outputs = operands_text(cJSON_GetObjectItemCaseSensitive(op, "outputs"), "extent");
    const char *domain = json_text_of(op, "domain");
    table_add(&t, "%s%s%s", domain, *domain ? "." : "", json_text_of(op, "name"));
    table_add(&t, "%s", json_text_of(op, "class"));
    table_add(&t, "%s", outputs);
    table_add(&t, "%s", inputs);
    free(inputs);
    free(outputs);
  }
  table_print(stdout, &t);
  printf("%d operators; [..] may be absent, ... stands for any number\n", cJSON_GetArraySize(operators));
}

static int run(const options *o, complaint *c) {
  model m = {0};
  char *text = NULL;
  int status = model_load_plugins(o, &m, c);
  if (!status) {
    reed_status got = reed_operators_json(m.registry, &text, m.diagnosis);
    if (got) status = complain_diagnosis(c, FAILED_RUN, "the operator table", got, m.diagnosis);
  }
  if (!status && (!o->json || strcmp(o->json, "-"))) {
    cJSON *root = json_parse(text, c);
    if (root) print_operators(cJSON_GetObjectItemCaseSensitive(root, "operators"));
    else status = c->exit_status;
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  if (text) reed_text_free(text);
  model_fini(&m);
  return status;
}

static const char notes[] = "Of each input: none (nothing of it decides a shape), shape, value (its elements, on the "
                            "host), both. Of each output: exact (its extents are\n"
                            "computed before the kernel runs) or bounded (the kernel reports the true extent).";

const command command_ops = {
    "ops", "[--json FILE]", "lists the operators and what their shape functions read", notes, flags, 0, 0, run};
