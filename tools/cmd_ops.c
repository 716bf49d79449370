/* vm ops: prints the operator table, from the library's JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/print.h"

static const flag flags[] = {
    {"--device", "-d", FLAG_CHOICE, offsetof(options, device), "KIND",
     "a kind of device: where each operator runs with it, and why", (const char *const *)device_names},
    FLAG_OF_JSON,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

/* "data:shape starts:value [axes:value]" */
static char *operands_text(const cJSON *operands, const char *key) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  const cJSON *item;
  cJSON_ArrayForEach(item, operands) {
    bool optional = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "optional"));
    bool variadic = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "variadic"));
    const cJSON *condition = cJSON_GetObjectItemCaseSensitive(item, "reads_if");
    fprintf(out, "%s%s%s:%s", item == operands->child ? "" : " ", optional ? "[" : "", json_text_of(item, "name"),
            json_text_of(item, key));
    if (condition) fprintf(out, " if %s", condition->child->valuestring);
    fprintf(out, "%s%s", variadic ? "..." : "", optional ? "]" : "");
  }
  fclose(out);
  return text;
}

/* "{none,tanh}" or "{1..3}": the valid words or numbers */
static void put_valid(FILE *out, const cJSON *attribute) {
  const cJSON *words = cJSON_GetObjectItemCaseSensitive(attribute, "words"),
              *least = cJSON_GetObjectItemCaseSensitive(attribute, "least"),
              *most = cJSON_GetObjectItemCaseSensitive(attribute, "most"), *word;
  cJSON_ArrayForEach(word, words) fprintf(out, "%s%s", word == words->child ? "{" : ",", word->valuestring);
  if (words) fprintf(out, "}");
  if (least) fprintf(out, "{%.0f..", least->valuedouble);
  if (most) fprintf(out, "%.0f", most->valuedouble);
  if (least) fprintf(out, "}");
}

/* "axis=0 mode=nearest{nearest,linear} pads=0,...{0..} [axes] kernel_shape{1..}!" */
static char *attributes_text(const cJSON *attributes) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  const cJSON *item;
  cJSON_ArrayForEach(item, attributes) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "default"),
                *each = cJSON_GetObjectItemCaseSensitive(item, "each");
    bool required = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "required"));
    const char *between = item == attributes->child ? "" : " ", *name = json_text_of(item, "name");
    fprintf(out, "%s%s%s", between, required || value || each ? "" : "[", name);
    if (cJSON_IsNumber(value)) fprintf(out, "=%g", value->valuedouble);
    else if (cJSON_IsString(value)) fprintf(out, "=%s", value->valuestring);
    else if (value) fprintf(out, "=(list)");
    if (each) fprintf(out, "=%g,...", each->valuedouble);
    put_valid(out, item);
    fprintf(out, "%s", required ? "!" : value || each ? "" : "]");
  }
  fclose(out);
  return text;
}

/* "light, fusable" */
static char *properties_text(const cJSON *op) {
  static const char *const names[] = {"custom", "impure", "fusable", "extents_only", "any_rank", "packable"};
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  fprintf(out, "%s", json_text_of(op, "class"));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(op, names[i]))) fprintf(out, " %s", names[i]);
  fclose(out);
  return text;
}

static void print_operators(const cJSON *operators) {
  static const char *const titles[] = {"operator", "properties", "outputs", "inputs: what the shape function reads",
                                       "attributes"};
  table t = {5, NULL, 0};
  const cJSON *op;
  for (int i = 0; i < 5; i++) table_add(&t, "%s", titles[i]);
  cJSON_ArrayForEach(op, operators) {
    char *inputs = operands_text(cJSON_GetObjectItemCaseSensitive(op, "inputs"), "reads");
    char *outputs = operands_text(cJSON_GetObjectItemCaseSensitive(op, "outputs"), "extent");
    const char *domain = json_text_of(op, "domain");
    table_add(&t, "%s%s%s", domain, *domain ? "." : "", json_text_of(op, "name"));
    char *attributes = attributes_text(cJSON_GetObjectItemCaseSensitive(op, "attributes")),
         *properties = properties_text(op);
    table_add(&t, "%s", properties);
    table_add(&t, "%s", outputs);
    table_add(&t, "%s", inputs);
    table_add(&t, "%s", attributes);
    free(inputs);
    free(outputs);
    free(attributes);
    free(properties);
  }
  table_print(stdout, &t);
  printf("%d operators; [..]: may be absent, ...: any number, !: required, = value: the value if a model does not "
         "give the attribute, {..}: the valid words or numbers\n",
         cJSON_GetArraySize(operators));
}

/* The operators of that kind of device whose kernels no card has proven; NULL: the device does not say. */
static const cJSON *find_emulated_only(const cJSON *devices, const char *kind) {
  const cJSON *device;
  cJSON_ArrayForEach(device, devices) {
    if (strcmp(json_text_of(device, "name"), kind) == 0)
      return cJSON_GetObjectItemCaseSensitive(device, "emulated_only");
  }
  return NULL;
}

static bool holds(const cJSON *names, const char *name) {
  const cJSON *item;
  cJSON_ArrayForEach(item, names) {
    if (strcmp(item->valuestring, name) == 0) return true;
  }
  return false;
}

/* Every operator with its place on a device of that kind. */
static void print_places(const cJSON *operators, const char *kind, const cJSON *emulated_only) {
  table t = {2, NULL, 0};
  const cJSON *op;
  int n_kernels = 0;
  table_add(&t, "operator");
  table_add(&t, "on %s", kind);
  cJSON_ArrayForEach(op, operators) {
    const cJSON *excluded = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(op, "devices"), kind);
    const char *domain = json_text_of(op, "domain"), *text = excluded ? excluded->valuestring : "";
    const bool control = strcmp(json_text_of(op, "class"), "control") == 0;
    const bool view = strcmp(json_text_of(op, "alias"), "view") == 0;
    n_kernels += excluded != NULL;
    table_add(&t, "%s%s%s", domain, *domain ? "." : "", json_text_of(op, "name"));
    if (excluded)
      table_add(&t, "kernel%s%s%s", holds(emulated_only, json_text_of(op, "name")) ? ", emulated only" : "",
                *text ? "; on the host: " : "", text);
    else if (control || view) table_add(&t, "%s", control ? "jumps" : "view, no kernel needed");
    else {
      const cJSON *why = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(op, "on_host"), kind);
      table_add(&t, "on the host: %s", why ? why->valuestring : "no kernel");
    }
  }
  table_print(stdout, &t);
  printf("%d of %d operators have kernels on %s", n_kernels, cJSON_GetArraySize(operators), kind);
  if (emulated_only)
    printf("; %d of them have a kernel that no card has proven (emulated only)", cJSON_GetArraySize(emulated_only));
  printf("\n");
}

/* Prints the places on a device of the kind, with the proofs that the device's module knows. */
static int print_device(const cJSON *operators, const char *kind, model *m, complaint *c) {
  char *text = NULL;
  reed_status got = reed_devices_json(&text, m->diagnosis);
  if (got) return complain_diagnosis(c, FAILED_RUN, "the devices", got, m->diagnosis);
  cJSON *root = json_parse(text, c);
  int status = root ? 0 : c->exit_status;
  if (root) print_places(operators, kind, find_emulated_only(cJSON_GetObjectItemCaseSensitive(root, "devices"), kind));
  cJSON_Delete(root);
  reed_text_free(text);
  return status;
}

static int run(const options *o, complaint *c) {
  model m = {0};
  char *text = NULL;
  int status = model_load_plugins(o, &m, c);
  if (!status) {
    reed_status got = reed_operators_json(m.registry, &text, m.diagnosis);
    if (got) status = complain_diagnosis(c, FAILED_RUN, "the operator table", got, m.diagnosis);
  }
  if (!status && !target_is_printed()) {
    cJSON *root = json_parse(text, c);
    if (root && o->device) status = print_device(cJSON_GetObjectItemCaseSensitive(root, "operators"), o->device, &m, c);
    else if (root) print_operators(cJSON_GetObjectItemCaseSensitive(root, "operators"));
    else status = c->exit_status;
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  if (text) reed_text_free(text);
  model_fini(&m);
  return status;
}

static const char notes[] =
    "Inputs: the shape function reads none of the input, its shape, its value (the elements, on the host), or both.\n"
    "Outputs: exact (the extents are computed before the kernel runs) or bounded (the kernel reports the true "
    "extent).\n"
    "Properties: the operator's class; fusable (element-wise, may join others in one pass); extents_only (its kernel "
    "reads\n"
    "no elements); any_rank (inputs may be of unknown rank); packable (its constant weights may be packed).";

const command command_ops = {"ops",
                             "[--device KIND] [--json FILE]",
                             "lists the operators, and what their shape functions read of each input",
                             notes,
                             flags,
                             0,
                             0,
                             run};
