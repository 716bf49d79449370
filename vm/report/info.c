/* A program's contents as JSON, for `vm info`. Figures of runs: figures.c. */
#include "base/json.h"
#include "base/mem.h"
#include "vm/program.h"

static void add_io(json_writer *json, const reed_value_info *info) {
  json_begin_object(json, NULL);
  json_string(json, "name", info->name);
  json_string(json, "dtype", reed_dtype_name(info->dtype));
  if (info->rank < 0) {
    json_null(json, "dims");
  } else {
    json_begin_array(json, "dims");
    for (int32_t i = 0; i < info->rank; i++) {
      if (info->dims[i] >= 0) json_integer(json, NULL, info->dims[i]);
      else json_string(json, NULL, info->symbols[i] ? info->symbols[i] : "?");
    }
    json_end_array(json);
  }
  json_end_object(json);
}

static reed_status add_operators(json_writer *json, const module *m, reed_diagnosis *diagnosis) {
  int *counts = mem_calloc(m->n_strings, sizeof *counts);
  if (!counts) return diag_no_memory(diagnosis, "program information as JSON");
  for (size_t i = 0; i < m->n_sites; i++) counts[m->sites[i].op]++;
  json_begin_object(json, "operators");
  for (size_t i = 0; i < m->n_strings; i++)
    if (counts[i]) json_integer(json, m->strings[i], counts[i]);
  json_end_object(json);
  mem_free(counts);
  return REED_OK;
}

static void add_functions(json_writer *json, const module *m) {
  json_begin_array(json, "functions");
  for (size_t i = 0; i < m->n_functions; i++) {
    const module_function *f = &m->functions[i];
    json_begin_object(json, NULL);
    json_string(json, "name", m->strings[f->name]);
    json_integer(json, "code_words", f->n_code);
    json_integer(json, "r_registers", f->n_r);
    json_integer(json, "s_registers", f->n_s);
    json_end_object(json);
  }
  json_end_array(json);
}

/* Bytes of constants by dtype: a module of --precision bf16 has its weights there. */
static void add_constants(json_writer *json, const module *m) {
  int64_t bytes[REED_DTYPE_COUNT] = {0};
  for (size_t i = 0; i < m->n_constants; i++) bytes[m->constants[i].desc.dtype] += desc_bytes(&m->constants[i].desc);
  json_begin_object(json, "constant_bytes");
  for (int32_t d = 0; d < REED_DTYPE_COUNT; d++)
    if (bytes[d]) json_integer(json, reed_dtype_name((reed_dtype)d), bytes[d]);
  json_end_object(json);
}

reed_status reed_program_info_json(const reed_program *p, char **out_json, reed_diagnosis *diagnosis) {
  if (!p || !out_json)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_program_info_json: a program and a place for the text are needed");
  const module *m = p->module;
  json_writer writer = {0}, *json = &writer;
  reed_value_info info;
  int64_t constant_bytes = 0;
  for (size_t i = 0; i < m->n_constants; i++) constant_bytes += desc_bytes(&m->constants[i].desc);
  json_begin_object(json, NULL);
  json_string(json, "model", m->model_name);
  json_string(json, "producer", m->producer);
  json_string(json, "producer_version", m->producer_version);
  if (*m->target) json_string(json, "target", m->target);
  json_integer(json, "devices", m->n_devices);
  json_begin_array(json, "inputs");
  for (size_t i = 0; i < reed_program_input_count(p); i++)
    if (reed_program_input(p, i, &info) == REED_OK) add_io(json, &info);
  json_end_array(json);
  json_begin_array(json, "outputs");
  for (size_t i = 0; i < reed_program_output_count(p); i++)
    if (reed_program_output(p, i, &info) == REED_OK) add_io(json, &info);
  json_end_array(json);
  if (m->n_ranges) json_begin_array(json, "ranges");
  for (size_t i = 0; i < m->n_ranges; i++) {
    const module_range *r = &m->ranges[i];
    json_begin_object(json, NULL);
    json_string(json, "dim", m->strings[r->name]);
    json_integer(json, "low", r->low);
    if (r->high == REED_UNBOUNDED) json_null(json, "high");
    else json_integer(json, "high", r->high);
    json_string(json, "input", m->strings[m->types[m->inputs[r->input]].name]);
    json_integer(json, "axis", r->axis);
    json_end_object(json);
  }
  if (m->n_ranges) json_end_array(json);
  json_begin_object(json, "counts");
  json_integer(json, "code_words", (int64_t)m->n_code);
  json_integer(json, "sites", (int64_t)m->n_sites);
  json_integer(json, "epochs", (int64_t)m->n_epochs);
  json_integer(json, "constants", (int64_t)m->n_constants);
  json_integer(json, "constant_bytes", constant_bytes);
  json_integer(json, "strings", (int64_t)m->n_strings);
  json_integer(json, "types", (int64_t)m->n_types);
  json_integer(json, "debug_records", (int64_t)m->n_debug);
  json_end_object(json);
  add_constants(json, m);
  add_functions(json, m);
  reed_status status = add_operators(json, m, diagnosis);
  if (status != REED_OK) {
    json_fini(json);
    return status;
  }
  json_end_object(json);
  return json_finish(json, out_json, diagnosis, "program information as JSON");
}
