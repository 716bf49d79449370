/* A program's contents as JSON, for `vm info`. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "vm/program.h"

static bool add_io(cJSON *list, const reed_value_info *info) {
  cJSON *item = cJSON_CreateObject();
  if (!item || !cJSON_AddItemToArray(list, item)) {
    cJSON_Delete(item);
    return false;
  }
  bool ok = cJSON_AddStringToObject(item, "name", info->name) &&
            cJSON_AddStringToObject(item, "dtype", reed_dtype_name(info->dtype));
  cJSON *dims = info->rank < 0 ? cJSON_AddNullToObject(item, "dims") : cJSON_AddArrayToObject(item, "dims");
  ok = ok && dims;
  for (int32_t i = 0; ok && i < info->rank; i++) {
    cJSON *dim = info->dims[i] >= 0 ? cJSON_CreateNumber((double)info->dims[i])
                                    : cJSON_CreateString(info->symbols[i] ? info->symbols[i] : "?");
    ok = dim && cJSON_AddItemToArray(dims, dim);
  }
  return ok;
}

static bool add_operators(cJSON *root, const module *m) {
  cJSON *object = cJSON_AddObjectToObject(root, "operators");
  int *counts = mem_calloc(m->n_strings, sizeof *counts);
  bool ok = object && counts;
  for (size_t i = 0; ok && i < m->n_sites; i++) counts[m->sites[i].op]++;
  for (size_t i = 0; ok && i < m->n_strings; i++)
    if (counts[i]) ok = cJSON_AddNumberToObject(object, m->strings[i], counts[i]) != NULL;
  mem_free(counts);
  return ok;
}

static bool add_functions(cJSON *root, const module *m) {
  cJSON *list = cJSON_AddArrayToObject(root, "functions");
  bool ok = list != NULL;
  for (size_t i = 0; ok && i < m->n_functions; i++) {
    const module_function *f = &m->functions[i];
    cJSON *item = cJSON_CreateObject();
    ok = item && cJSON_AddItemToArray(list, item) && cJSON_AddStringToObject(item, "name", m->strings[f->name]) &&
         cJSON_AddNumberToObject(item, "code_words", f->n_code) &&
         cJSON_AddNumberToObject(item, "r_registers", f->n_r) && cJSON_AddNumberToObject(item, "s_registers", f->n_s);
  }
  return ok;
}

reed_status reed_program_info_json(const reed_program *p, char **out_json, reed_diagnosis *diagnosis) {
  const module *m = p->module;
  cJSON *root = cJSON_CreateObject();
  int64_t constant_bytes = 0;
  for (size_t i = 0; i < m->n_constants; i++) constant_bytes += desc_bytes(&m->constants[i].desc);
  bool ok = root && cJSON_AddStringToObject(root, "model", m->model_name) &&
            cJSON_AddStringToObject(root, "producer", m->producer) &&
            cJSON_AddStringToObject(root, "producer_version", m->producer_version) &&
            cJSON_AddNumberToObject(root, "devices", m->n_devices);
  cJSON *inputs = ok ? cJSON_AddArrayToObject(root, "inputs") : NULL,
        *outputs = inputs ? cJSON_AddArrayToObject(root, "outputs") : NULL;
  ok = outputs != NULL;
  reed_value_info info;
  for (size_t i = 0; ok && i < reed_program_input_count(p); i++)
    ok = reed_program_input(p, i, &info) == REED_OK && add_io(inputs, &info);
  for (size_t i = 0; ok && i < reed_program_output_count(p); i++)
    ok = reed_program_output(p, i, &info) == REED_OK && add_io(outputs, &info);
  cJSON *counts = ok ? cJSON_AddObjectToObject(root, "counts") : NULL;
  ok = counts && cJSON_AddNumberToObject(counts, "code_words", (double)m->n_code) &&
       cJSON_AddNumberToObject(counts, "sites", (double)m->n_sites) &&
       cJSON_AddNumberToObject(counts, "epochs", (double)m->n_epochs) &&
       cJSON_AddNumberToObject(counts, "constants", (double)m->n_constants) &&
       cJSON_AddNumberToObject(counts, "constant_bytes", (double)constant_bytes) &&
       cJSON_AddNumberToObject(counts, "strings", (double)m->n_strings) &&
       cJSON_AddNumberToObject(counts, "types", (double)m->n_types) &&
       cJSON_AddNumberToObject(counts, "debug_records", (double)m->n_debug);
  ok = ok && add_functions(root, m) && add_operators(root, m);
  char *printed = ok ? cJSON_PrintUnformatted(root) : NULL;
  char *copy = printed ? mem_copy_text(printed) : NULL;
  cJSON_free(printed);
  cJSON_Delete(root);
  if (!copy) return diag_no_memory(diagnosis, "program information as JSON");
  *out_json = copy;
  return REED_OK;
}
