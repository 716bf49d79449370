/* vm info: prints a module's contents, from the library's JSON; vm info --devices: the devices of this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/plain.h"
#include "tools/print.h"

static const flag flags[] = {{"--devices", NULL, FLAG_SWITCH, offsetof(options, devices), NULL,
                              "the kinds of devices instead of a module: which can be used here, else why not"},
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

/* Opens the first device of every kind: "ready", or the sentence of the refusal. */
static int print_devices(const options *o, complaint *c) {
  table t = {3, NULL, 0};
  reed_device_info kind;
  cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "devices");
  reed_diagnosis *diagnosis = need_diagnosis();
  for (int i = 0; i < 3; i++) table_add(&t, "%s", (const char *const[]){"device", "is", "state"}[i]);
  for (size_t i = 0; reed_device_kind(i, &kind); i++) {
    reed_tensor *probe = NULL;
    reed_status got = reed_tensor_open_on(kind.name, REED_U8, 1, (const int64_t[]){0}, &probe, diagnosis);
    const char *state = got ? reed_diagnosis_message(diagnosis) : "ready";
    reed_tensor_close(&probe);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", kind.name);
    cJSON_AddStringToObject(row, "summary", kind.summary);
    cJSON_AddBoolToObject(row, "ready", !got);
    if (got) cJSON_AddStringToObject(row, "reason", state);
    cJSON_AddItemToArray(list, row);
    table_add(&t, "%s", kind.name);
    table_add(&t, "%s", kind.summary);
    table_add(&t, "%s", state);
  }
  if (!o->json || strcmp(o->json, "-")) table_print(stdout, &t);
  int status = DONE;
  if (o->json) {
    char *text = cJSON_Print(root);
    status = file_write(o->json, text, strlen(text), c);
    cJSON_free(text);
  }
  cJSON_Delete(root);
  reed_diagnosis_close(&diagnosis);
  return status;
}

static int run(const options *o, complaint *c) {
  if (o->devices && !o->arguments.n) return print_devices(o, c);
  if (o->devices) return complain(c, MISUSE, "--devices shows no module: vm info --devices");
  if (!o->arguments.n) return complain(c, MISUSE, "something is missing: vm info M, or vm info --devices");
  model m = {0};
  char *text = NULL;
  int status = model_open(o, o->arguments.items[0], &m, c);
  reed_status got = REED_OK;
  if (!status) got = reed_program_info_json(m.program, &text, m.diagnosis);
  if (got) status = complain_diagnosis(c, BAD_FILE, o->arguments.items[0], got, m.diagnosis);
  if (!status && (!o->json || strcmp(o->json, "-"))) {
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
