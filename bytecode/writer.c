/* Module -> file bytes. The order of everything follows from the module alone: no time, no addresses, no padding that is not zero. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytecode/format.h"

/* One growing section. */
typedef text_buffer section;

typedef struct writer {
  section sections[FORMAT_SECTION_END]; /* by section id; 0 unused */
} writer;

static void put(section *s, const void *bytes, size_t n) { text_append_bytes(s, bytes, n); }

static void pad(section *s, size_t alignment) {
  static const char zeros[FORMAT_ALIGNMENT];
  put(s, zeros, (alignment - s->n % alignment) % alignment);
}

/* Appends aligned data, returns where it lies. */
static uint64_t put_data(writer *w, const void *data, size_t n, size_t alignment) {
  section *s = &w->sections[FORMAT_DATA];
  pad(s, alignment);
  uint64_t at = s->n;
  put(s, data, n);
  return at;
}

static uint32_t put_list(writer *w, const uint32_t *items, uint32_t n) {
  section *s = &w->sections[FORMAT_SIGNATURES];
  uint32_t at = (uint32_t)(s->n / sizeof *items);
  put(s, items, n * sizeof *items);
  return at;
}

/* A JSON string literal; control characters as \u00xx, UTF-8 as it is. */
static void put_json_string(section *s, const char *text) {
  put(s, "\"", 1);
  for (const char *p = text; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c == '"' || c == '\\')
      text_append(s, "\\%c", c);
    else if (c < 0x20)
      text_append(s, "\\u%04x", c);
    else
      put(s, p, 1);
  }
  put(s, "\"", 1);
}

static void put_json_values(section *s, const module *m, const char *key, const uint32_t *types, uint32_t n) {
  text_append(s, ",\"%s\":[", key);
  for (uint32_t i = 0; i < n; i++) {
    const module_type *t = &m->types[types[i]];
    text_append(s, "%s{\"name\":", i ? "," : "");
    put_json_string(s, m->strings[t->name]);
    text_append(s, ",\"dtype\":\"%s\",\"dims\":", t->object ? "object" : reed_dtype_name(t->dtype));
    if (t->rank < 0) text_append(s, "null");
    for (int32_t k = 0; k < t->rank; k++) {
      put(s, k ? "," : "[", 1);
      if (t->dims[k] >= 0)
        text_append(s, "%" PRId64, t->dims[k]);
      else if (*m->strings[~t->dims[k]])
        put_json_string(s, m->strings[~t->dims[k]]);
      else
        text_append(s, "null");
    }
    if (t->rank == 0) put(s, "[", 1);
    text_append(s, "%s}", t->rank < 0 ? "" : "]");
  }
  put(s, "]", 1);
}

static void put_metadata(writer *w, const module *m) {
  section *s = &w->sections[FORMAT_METADATA];
  text_append(s, "{\"model\":");
  put_json_string(s, m->model_name);
  text_append(s, ",\"producer\":");
  put_json_string(s, m->producer);
  text_append(s, ",\"producer_version\":");
  put_json_string(s, m->producer_version);
  text_append(s, ",\"devices\":%d", m->n_devices);
  put_json_values(s, m, "inputs", m->inputs, m->functions[0].n_r_params);
  put_json_values(s, m, "outputs", m->outputs, m->functions[0].n_r_results);
  put(s, "}\n", 2);
}

static int compare_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The number of a string that the module has: they are in ascending order. */
static uint32_t string_number(const module *m, const char *text) {
  const char **found = bsearch(&text, m->strings, m->n_strings, sizeof *m->strings, compare_text);
  return found ? (uint32_t)(found - m->strings) : 0;
}

static void put_info(writer *w, const module *m) {
  uint32_t n_inputs = m->functions[0].n_r_params, n_outputs = m->functions[0].n_r_results;
  format_info info = {.model_name = string_number(m, m->model_name),
                      .producer = string_number(m, m->producer),
                      .producer_version = string_number(m, m->producer_version),
                      .n_devices = m->n_devices,
                      .n_inputs = n_inputs,
                      .n_outputs = n_outputs};
  info.inputs_at = put_list(w, m->inputs, n_inputs);
  info.outputs_at = put_list(w, m->outputs, n_outputs);
  put(&w->sections[FORMAT_INFO], &info, sizeof info);
}

static void put_strings(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_strings; i++) {
    uint32_t at = (uint32_t)w->sections[FORMAT_TEXT].n;
    put(&w->sections[FORMAT_STRINGS], &at, sizeof at);
    put(&w->sections[FORMAT_TEXT], m->strings[i], strlen(m->strings[i]) + 1);
  }
}

static void put_types(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_types; i++) {
    const module_type *t = &m->types[i];
    format_type f = {.flags = t->object ? FORMAT_TYPE_OBJECT : 0, .dtype = t->dtype, .rank = t->rank, .device = t->device, .name = t->name};
    for (int32_t k = 0; k < t->rank; k++) f.dims[k] = t->dims[k];
    put(&w->sections[FORMAT_TYPES], &f, sizeof f);
  }
}

static void put_functions(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_functions; i++) {
    const module_function *f = &m->functions[i];
    format_function out = {.name = f->name,
                           .code_at = f->code_offset,
                           .n_code = f->n_code,
                           .n_r = f->n_r,
                           .n_s = f->n_s,
                           .n_r_params = f->n_r_params,
                           .n_s_params = f->n_s_params,
                           .n_r_results = f->n_r_results,
                           .n_s_results = f->n_s_results};
    out.params_at = put_list(w, f->param_types, f->n_r_params);
    out.results_at = put_list(w, f->result_types, f->n_r_results);
    put(&w->sections[FORMAT_FUNCTIONS], &out, sizeof out);
  }
}

static void put_desc(const reed_desc *desc, uint32_t *out_dtype, int32_t *out_rank, int64_t *out_dims) {
  *out_dtype = desc->dtype, *out_rank = desc->rank;
  for (int32_t k = 0; k < desc->rank; k++) out_dims[k] = desc->dims[k];
}

static void put_attribute(writer *w, const module *m, const reed_attr *a) {
  format_attribute f = {.name = string_number(m, a->name), .type = a->type};
  switch (a->type) {
    case REED_ATTR_INT:
      f.value = (uint64_t)a->i;
      break;
    case REED_ATTR_FLOAT:
      memcpy(&f.value, &a->f, sizeof f.value);
      break;
    case REED_ATTR_STRING:
      f.value = string_number(m, a->s);
      break;
    case REED_ATTR_INTS:
      f.n = a->n;
      f.value = put_data(w, a->ints, (size_t)a->n * sizeof *a->ints, sizeof *a->ints);
      break;
    case REED_ATTR_FLOATS:
      f.n = a->n;
      f.value = put_data(w, a->floats, (size_t)a->n * sizeof *a->floats, sizeof *a->floats);
      break;
    case REED_ATTR_TENSOR:
      put_desc(&a->desc, &f.dtype, &f.rank, f.dims);
      f.value = put_data(w, a->data, (size_t)desc_bytes(&a->desc), FORMAT_ALIGNMENT);
      break;
  }
  put(&w->sections[FORMAT_ATTRIBUTES], &f, sizeof f);
}

static void put_sites(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_sites; i++) {
    const module_site *s = &m->sites[i];
    format_site f = {.domain = s->domain, .op = s->op, .node = s->node, .n_inputs = s->n_inputs, .n_outputs = s->n_outputs};
    f.attributes_at = (uint32_t)(w->sections[FORMAT_ATTRIBUTES].n / sizeof(format_attribute));
    f.n_attributes = (uint32_t)s->attrs.n;
    for (int32_t k = 0; k < s->attrs.n; k++) put_attribute(w, m, &s->attrs.items[k]);
    put(&w->sections[FORMAT_SITES], &f, sizeof f);
  }
}

static void put_constants(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_constants; i++) {
    const module_constant *c = &m->constants[i];
    format_constant f = {.name = c->name, .n_bytes = (uint64_t)desc_bytes(&c->desc)};
    put_desc(&c->desc, &f.dtype, &f.rank, f.dims);
    f.data_at = put_data(w, c->data, f.n_bytes, FORMAT_ALIGNMENT);
    put(&w->sections[FORMAT_CONSTANTS], &f, sizeof f);
  }
}

static size_t align_up(size_t n) { return (n + FORMAT_ALIGNMENT - 1) / FORMAT_ALIGNMENT * FORMAT_ALIGNMENT; }

/* Header and table of contents, then the sections. DATA, by far the largest, is last. */
static void *assemble_file(const writer *w, size_t *out_n) {
  static const bool required[FORMAT_SECTION_END] = {
#define REQUIRED_ROW(name, number, item, is_required) [number] = is_required,
    FORMAT_SECTION_LIST(REQUIRED_ROW)
#undef REQUIRED_ROW
  };
  format_section toc[FORMAT_N_SECTIONS];
  size_t at = sizeof(format_header) + sizeof toc;
  for (int i = 0; i < FORMAT_N_SECTIONS; i++) {
    at = align_up(at);
    toc[i] = (format_section){(uint32_t)i + 1, required[i + 1] ? FORMAT_SECTION_REQUIRED : 0, at, w->sections[i + 1].n};
    at += w->sections[i + 1].n;
  }
  char *file = mem_calloc(at, 1);
  if (!file) return NULL;
  format_header header = {.major = FORMAT_MAJOR, .minor = FORMAT_MINOR, .n_sections = FORMAT_N_SECTIONS, .n_bytes = at};
  memcpy(header.magic, FORMAT_MAGIC, sizeof header.magic);
  memcpy(file, &header, sizeof header);
  memcpy(file + sizeof header, toc, sizeof toc);
  for (int i = 0; i < FORMAT_N_SECTIONS; i++)
    if (toc[i].n_bytes) memcpy(file + toc[i].offset, w->sections[i + 1].data, toc[i].n_bytes);
  header.checksum = format_checksum(file, at);
  memcpy(file, &header, sizeof header);
  *out_n = at;
  return file;
}

reed_status module_write(const module *m, void **out_bytes, size_t *out_n_bytes, reed_diagnosis *diagnosis) {
  writer w = {0};
  put_strings(&w, m);
  put_types(&w, m);
  put_info(&w, m);
  put_functions(&w, m);
  put(&w.sections[FORMAT_CODE], m->code, m->n_code * sizeof *m->code);
  put(&w.sections[FORMAT_EPOCHS], m->epochs, m->n_epochs * sizeof *m->epochs);
  put_sites(&w, m);
  put_constants(&w, m);
  put(&w.sections[FORMAT_DEBUG], m->debug, m->n_debug * sizeof *m->debug);
  put_metadata(&w, m);
  bool failed = false;
  for (int i = 1; i < FORMAT_SECTION_END; i++) failed |= w.sections[i].failed;
  size_t n = 0;
  void *file = failed ? NULL : assemble_file(&w, &n);
  for (int i = 1; i < FORMAT_SECTION_END; i++) text_fini(&w.sections[i]);
  if (!file) return diag_no_memory(diagnosis, "writing the module");
  *out_bytes = file;
  *out_n_bytes = n;
  return REED_OK;
}
