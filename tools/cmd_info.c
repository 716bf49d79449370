/* vm info: prints a module's contents, from the library's JSON; vm info --devices: the devices of this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/plain.h"
#include "tools/print.h"

static const flag flags[] = {
    {"--devices", NULL, FLAG_SWITCH, offsetof(options, devices), NULL,
     "the devices of this machine instead of a module: which can be used, else why not; what is missing"},
    FLAG_OF_JSON,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END};

static void print_io(const char *what, const reed_value_info *infos, size_t n) {
  char type[300];
  for (size_t i = 0; i < n; i++)
    printf("%-9s %s %s\n", what, plain(infos[i].name), info_type_text(&infos[i], type, sizeof type));
}

/* Prints "key value" for a single value, "key: a 1, b 2" for an object, a table for a list of objects. */
static void print_item(const cJSON *item) {
  const cJSON *part, *cell;
  if (cJSON_IsString(item) || cJSON_IsNumber(item)) {
    char *text = cJSON_PrintUnformatted(item);
    printf("%-9s %s\n", item->string, plain(cJSON_IsString(item) ? item->valuestring : text ? text : ""));
    cJSON_free(text);
  } else if (cJSON_IsObject(item)) {
    printf("%s:", item->string);
    const char *comma = " ";
    cJSON_ArrayForEach(part, item) {
      char *text = cJSON_PrintUnformatted(part);
      printf("%s%s %s", comma, plain(part->string), plain(text ? text : ""));
      cJSON_free(text);
      comma = ", ";
    }
    putchar('\n');
  } else if (cJSON_IsArray(item) && cJSON_IsObject(item->child)) {
    table t = {cJSON_GetArraySize(item->child), NULL, 0};
    printf("%s:\n", item->string);
    cJSON_ArrayForEach(cell, item->child) table_add(&t, "%s%s", cell == item->child ? "  " : "", cell->string);
    cJSON_ArrayForEach(part, item) {
      cJSON_ArrayForEach(cell, part) {
        char *text = cJSON_PrintUnformatted(cell);
        table_add(&t, "%s%s", cell == part->child ? "  " : "",
                  cJSON_IsString(cell) ? cell->valuestring
                  : text               ? text
                                       : "");
        cJSON_free(text);
      }
    }
    table_print(stdout, &t);
  }
}

/* "key value" for a number, a text or a bool; sizes in bytes with their unit. */
static void print_fact(const cJSON *fact, const char *between) {
  char bytes[32];
  const char *end = fact->string + strlen(fact->string);
  bool is_bytes = end - fact->string > 6 && strcmp(end - 6, "_bytes") == 0;
  printf("%s%s", between, plain(fact->string));
  if (cJSON_IsString(fact)) printf(" %s", plain(fact->valuestring));
  else if (cJSON_IsBool(fact)) printf(" %s", cJSON_IsTrue(fact) ? "yes" : "no");
  else if (is_bytes) printf(" %s", text_bytes(fact->valuedouble, bytes, sizeof bytes));
  else printf(" %.0f", fact->valuedouble);
}

/* The number of the device's own kernels and of the kernels that a card has proven; each of them is in the JSON. */
static void print_proofs(const cJSON *device) {
  const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(device, "kernels"), *kernel;
  int n = 0, n_proven = 0;
  cJSON_ArrayForEach(kernel, kernels) n++, n_proven += cJSON_HasObjectItem(kernel, "proven_on");
  if (n)
    printf("%s: %d kernels, %d of them proven on a card; %d operators emulated only (vm ops --device %s)\n",
           plain(json_text_of(device, "name")), n, n_proven,
           cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(device, "emulated_only")),
           plain(json_text_of(device, "name")));
}

/* The facts of one device: single facts in one line, then a line for each item of a list. */
static void print_facts(const cJSON *device) {
  const cJSON *fact, *item, *part;
  const char *name = json_text_of(device, "name"), *between = ": ";
  bool any = false;
  cJSON_ArrayForEach(fact, device) {
    bool of_table = !strcmp(fact->string, "name") || !strcmp(fact->string, "summary") ||
                    !strcmp(fact->string, "ready") || !strcmp(fact->string, "reason");
    if (of_table || cJSON_IsArray(fact)) continue;
    if (!any) printf("%s", plain(name));
    print_fact(fact, between);
    between = ", ";
    any = true;
  }
  if (any) putchar('\n');
  print_proofs(device);
  cJSON_ArrayForEach(fact, device) {
    bool missing = strcmp(fact->string, "missing") == 0;
    if (!cJSON_IsArray(fact) || !strcmp(fact->string, "kernels") || !strcmp(fact->string, "emulated_only")) continue;
    cJSON_ArrayForEach(item, fact) {
      const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, "number"); /* of a card, as `--device` takes it */
      printf("%s", plain(name));
      if (number) printf(":%.0f", number->valuedouble);
      between = ": ";
      if (missing) printf(": missing %s: %s", plain(json_text_of(item, "what")), json_text_of(item, "command"));
      cJSON_ArrayForEach(part, item) {
        if (missing || part == number) continue;
        print_fact(part, between);
        between = ", ";
      }
      putchar('\n');
    }
  }
}

/* A table of the devices, each ready or with the sentence of its refusal; then the facts of each device. */
static void print_devices(const cJSON *root) {
  table t = {3, NULL, 0};
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "devices"), *device;
  for (int i = 0; i < 3; i++) table_add(&t, "%s", (const char *const[]){"device", "is", "state"}[i]);
  cJSON_ArrayForEach(device, list) {
    bool ready = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(device, "ready"));
    table_add(&t, "%s", json_text_of(device, "name"));
    table_add(&t, "%s", json_text_of(device, "summary"));
    table_add(&t, "%s", ready ? "ready" : json_text_of(device, "reason"));
  }
  table_print(stdout, &t);
  putchar('\n');
  cJSON_ArrayForEach(device, list) print_facts(device);
}

static int run_devices(const options *o, complaint *c) {
  char *text = NULL;
  int status = DONE;
  reed_diagnosis *diagnosis = need_diagnosis();
  reed_status got = reed_devices_json(&text, diagnosis);
  if (got) status = complain_diagnosis(c, FAILED_RUN, "the devices", got, diagnosis);
  if (!status && !target_is_printed()) {
    cJSON *root = json_parse(text, c);
    if (root) print_devices(root);
    else status = c->exit_status;
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  if (text) reed_text_free(text);
  reed_diagnosis_close(&diagnosis);
  return status;
}

static int run(const options *o, complaint *c) {
  if (o->devices && !o->arguments.n) return run_devices(o, c);
  if (o->devices) return complain(c, MISUSE, "--devices shows no module: vm info --devices");
  if (!o->arguments.n) return complain(c, MISUSE, "M is missing: vm info M, or vm info --devices");
  model m = {0};
  char *text = NULL;
  int status = model_open(o, o->arguments.items[0], &m, c);
  reed_status got = REED_OK;
  if (!status) got = reed_program_info_json(m.program, &text, m.diagnosis);
  if (got) status = complain_diagnosis(c, BAD_FILE, o->arguments.items[0], got, m.diagnosis);
  if (!status && !target_is_printed()) {
    cJSON *root = json_parse(text, c);
    const cJSON *item;
    if (root) {
      cJSON_ArrayForEach(item, root) {
        if (strcmp(item->string, "inputs") == 0) print_io("input", m.inputs, m.n_inputs);
        else if (strcmp(item->string, "outputs") == 0) print_io("output", m.outputs, m.n_outputs);
        else print_item(item);
      }
    } else {
      status = c->exit_status;
    }
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  if (text) reed_text_free(text);
  model_fini(&m);
  return status;
}

const command command_info = {"info",
                              "M [--json FILE] | --devices",
                              "shows a module's inputs, outputs, functions, operators and sizes; devices",
                              NULL,
                              flags,
                              0,
                              1,
                              run};
