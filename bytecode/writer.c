/* Writes a module's file bytes (format.h). The bytes depend on the module alone: they hold no time and no addresses,
 * and all padding is zero. Reading them: loader/.
 *
 * Sections are built in memory, except DATA: a list holds the places of the constants' elements, which are read once,
 * while they are written. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "base/vec.h"
#include "bytecode/format.h"

/* A section of the file while its items are added. */
typedef text_buffer section;

/* A part of DATA: borrowed bytes, or the function that makes them, and their offset. Bytes between two parts are zero.
 */
typedef struct piece {
  uint64_t at;
  const void *data;
  size_t n;
  module_make *make;
} piece;

typedef struct writer {
  section sections[FORMAT_SECTION_END]; /* by section id; 0 unused, and DATA */
  VEC_OF(piece) data;
  uint64_t n_data;
  bool failed;
} writer;

static void put(section *s, const void *bytes, size_t n) { text_append_bytes(s, bytes, n); }

static uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

/* Adds aligned data to DATA and returns its offset. The data is borrowed until the module has been written. */
static uint64_t put_made_data(writer *w, module_make *make, const void *data, size_t n, size_t alignment) {
  uint64_t at = align_up(w->n_data, alignment);
  if (n && !VEC_PUSH(&w->data, ((piece){at, data, n, make}))) w->failed = true;
  w->n_data = at + n;
  return at;
}

static uint64_t put_data(writer *w, const void *data, size_t n, size_t alignment) {
  return put_made_data(w, NULL, data, n, alignment);
}

static uint32_t put_list(writer *w, const uint32_t *items, uint32_t n) {
  section *s = &w->sections[FORMAT_SIGNATURES];
  uint32_t at = (uint32_t)(s->n / sizeof *items);
  put(s, items, n * sizeof *items);
  return at;
}

static void write_values(json_writer *json, const module *m, const char *key, const uint32_t *types, uint32_t n) {
  json_begin_array(json, key);
  for (uint32_t i = 0; i < n; i++) {
    const module_type *t = &m->types[types[i]];
    json_begin_object(json, NULL);
    json_string(json, "name", m->strings[t->name]);
    json_string(json, "dtype", t->object ? "object" : reed_dtype_name(t->dtype));
    if (t->rank < 0) json_null(json, "dims");
    else json_begin_array(json, "dims");
    for (int32_t k = 0; k < t->rank; k++) {
      if (t->dims[k] >= 0) json_integer(json, NULL, t->dims[k]);
      else if (*m->strings[~t->dims[k]]) json_string(json, NULL, m->strings[~t->dims[k]]);
      else json_null(json, NULL);
    }
    if (t->rank >= 0) json_end_array(json);
    json_end_object(json);
  }
  json_end_array(json);
}

/* The declared ranges; nothing without ranges. */
static void write_ranges(json_writer *json, const module *m) {
  if (!m->n_ranges) return;
  json_begin_array(json, "ranges");
  for (size_t i = 0; i < m->n_ranges; i++) {
    const module_range *r = &m->ranges[i];
    json_begin_object(json, NULL);
    json_string(json, "name", m->strings[r->name]);
    json_integer(json, "input", r->input);
    json_integer(json, "axis", r->axis);
    json_integer(json, "low", r->low);
    if (r->high == REED_UNBOUNDED) json_null(json, "high");
    else json_integer(json, "high", r->high);
    json_end_object(json);
  }
  json_end_array(json);
}

static void put_metadata(writer *w, const module *m) {
  json_writer json = {.text = w->sections[FORMAT_METADATA], .in_one_line = true};
  json_begin_object(&json, NULL);
  json_string(&json, "model", m->model_name);
  json_string(&json, "producer", m->producer);
  json_string(&json, "producer_version", m->producer_version);
  json_integer(&json, "devices", m->n_devices);
  json_string(&json, "target", m->target);
  write_values(&json, m, "inputs", m->inputs, m->functions[0].n_r_params);
  write_values(&json, m, "outputs", m->outputs, m->functions[0].n_r_results);
  write_ranges(&json, m);
  json_end_object(&json);
  w->sections[FORMAT_METADATA] = json.text;
  put(&w->sections[FORMAT_METADATA], "\n", 1);
}

static int compare_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The number of a string of the module, by binary search: strings are in ascending order. */
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
    format_type f = {.flags = t->object ? FORMAT_TYPE_OBJECT : 0,
                     .dtype = t->dtype,
                     .rank = t->rank,
                     .device = t->device,
                     .name = t->name};
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
    case REED_ATTR_INT: f.value = (uint64_t)a->i; break;
    case REED_ATTR_FLOAT: memcpy(&f.value, &a->f, sizeof f.value); break;
    case REED_ATTR_STRING: f.value = string_number(m, a->s); break;
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
    format_site f = {
        .domain = s->domain, .op = s->op, .node = s->node, .n_inputs = s->n_inputs, .n_outputs = s->n_outputs};
    f.attributes_at = (uint32_t)(w->sections[FORMAT_ATTRIBUTES].n / sizeof(format_attribute));
    f.n_attributes = (uint32_t)s->attrs.n;
    for (int32_t k = 0; k < s->attrs.n; k++) put_attribute(w, m, &s->attrs.items[k]);
    put(&w->sections[FORMAT_SITES], &f, sizeof f);
  }
}

/* Writes the dtypes of all sites; leaves the section empty if no site has dtypes. */
static void put_site_dtypes(writer *w, const module *m) {
  static const uint8_t unknown[2 * REED_MAX_OPERANDS];
  bool known = false;
  for (size_t i = 0; i < m->n_sites; i++) known |= m->sites[i].dtypes != NULL;
  for (size_t i = 0; known && i < m->n_sites; i++) {
    const module_site *s = &m->sites[i];
    put(&w->sections[FORMAT_SITE_DTYPES], s->dtypes ? s->dtypes : unknown, (size_t)(s->n_inputs + s->n_outputs));
  }
}

static void put_target(writer *w, const module *m) {
  uint32_t number = string_number(m, m->target);
  if (*m->target) put(&w->sections[FORMAT_TARGET], &number, sizeof number);
}

static void put_constants(writer *w, const module *m) {
  for (size_t i = 0; i < m->n_constants; i++) {
    const module_constant *c = &m->constants[i];
    format_constant f = {.name = c->name, .n_bytes = (uint64_t)desc_bytes(&c->desc)};
    put_desc(&c->desc, &f.dtype, &f.rank, f.dims);
    f.data_at = put_made_data(w, c->make, c->data, f.n_bytes, FORMAT_ALIGNMENT);
    put(&w->sections[FORMAT_CONSTANTS], &f, sizeof f);
  }
}

/* ---- the file ---- */

/* The output: collects bytes into a block, which is written and added to the checksum when it is full. */
typedef struct stream {
  char *block;
  size_t n;          /* bytes in the block */
  uint64_t at;       /* bytes put so far */
  uint64_t checksum; /* of the finished blocks */
  const reed_module_sink *sink;
  reed_status status;
} stream;

static void stream_flush(stream *s) {
  if (!s->n || s->status != REED_OK) return;
  s->checksum += hash_bytes(s->block, s->n, (s->at - s->n) / FORMAT_BLOCK_BYTES);
  s->status = s->sink->write(s->sink->context, s->block, s->n);
  s->n = 0;
}

/* Puts n bytes; bytes NULL: n zeros. */
static void stream_put(stream *s, const void *bytes, uint64_t n) {
  while (n && s->status == REED_OK) {
    size_t part = FORMAT_BLOCK_BYTES - s->n < n ? FORMAT_BLOCK_BYTES - s->n : (size_t)n;
    if (bytes) {
      memcpy(s->block + s->n, bytes, part);
      bytes = (const char *)bytes + part;
    } else {
      memset(s->block + s->n, 0, part);
    }
    s->n += part;
    s->at += part;
    n -= part;
    if (s->n == FORMAT_BLOCK_BYTES) stream_flush(s);
  }
}

/* Puts elements that are made part by part, so that a cancellation, which the sink reports, waits for one part only and
 * no copy of all elements is held. */
static void stream_made(stream *s, const piece *p) {
  void *part = NULL;
  size_t capacity = 0;
  for (size_t at = 0, n; at < p->n && s->status == REED_OK; at += n) {
    n = p->make(p->data, at, NULL);
    if (n > capacity) {
      mem_free_aligned(part);
      part = mem_alloc_bulk(capacity = n);
    }
    if (part) {
      p->make(p->data, at, part);
      stream_put(s, part, n);
    } else {
      s->status = REED_ERROR_MEMORY;
    }
  }
  mem_free_aligned(part);
}

static void stream_data(stream *s, const writer *w) {
  uint64_t begin = s->at;
  for (size_t i = 0; i < w->data.n; i++) {
    const piece *p = &w->data.items[i];
    stream_put(s, NULL, begin + p->at - s->at);
    if (p->make) stream_made(s, p);
    else stream_put(s, p->data, p->n);
  }
  stream_put(s, NULL, begin + w->n_data - s->at);
}

/* Writes header, table of contents, sections and the checksum of all these bytes. */
static void stream_file(stream *s, const writer *w, const format_header *header, const format_section *toc) {
  stream_put(s, header, sizeof *header);
  stream_put(s, toc, FORMAT_N_SECTIONS * sizeof *toc);
  for (int i = 0; i < FORMAT_N_SECTIONS; i++) {
    stream_put(s, NULL, toc[i].offset - s->at);
    if (toc[i].id == FORMAT_DATA) stream_data(s, w);
    else stream_put(s, w->sections[toc[i].id].data, toc[i].n_bytes);
  }
  stream_flush(s);
  format_trailer trailer = s->checksum;
  if (s->status == REED_OK) s->status = s->sink->write(s->sink->context, &trailer, sizeof trailer);
}

/* A loaded module keeps its minor version, because it may break rules of later ones. */
static reed_status write_file(const writer *w, uint16_t minor, const reed_module_sink *sink,
                              reed_diagnosis *diagnosis) {
  static const format_need needs[FORMAT_SECTION_END] = {
#define NEED_ROW(name, number, item, need) [number] = FORMAT_NEED_##need,
      FORMAT_SECTION_LIST(NEED_ROW)
#undef NEED_ROW
  };
  format_section toc[FORMAT_N_SECTIONS];
  uint64_t at = sizeof(format_header) + sizeof toc;
  for (int i = 0; i < FORMAT_N_SECTIONS; i++) {
    at = align_up(at, FORMAT_ALIGNMENT);
    uint64_t n_bytes = i + 1 == FORMAT_DATA ? w->n_data : w->sections[i + 1].n;
    bool required = needs[i + 1] == FORMAT_NEED_ALWAYS || (needs[i + 1] == FORMAT_NEED_BINDING && n_bytes);
    toc[i] = (format_section){(uint32_t)i + 1, required ? FORMAT_SECTION_REQUIRED : 0, at, n_bytes};
    at += toc[i].n_bytes;
  }
  at += sizeof(format_trailer);
  format_header header = {.major = FORMAT_MAJOR,
                          .minor = minor < FORMAT_MINOR ? minor : FORMAT_MINOR,
                          .n_sections = FORMAT_N_SECTIONS,
                          .n_bytes = at};
  memcpy(header.magic, FORMAT_MAGIC, sizeof header.magic);
  stream s = {.block = mem_alloc(FORMAT_BLOCK_BYTES), .sink = sink};
  if (!s.block) return diag_no_memory(diagnosis, "writing the module");
  s.status = sink->begin(sink->context, (size_t)at);
  stream_file(&s, w, &header, toc);
  mem_free(s.block);
  return s.status == REED_OK
             ? REED_OK
             : diag_fail(diagnosis, s.status, "the module's %llu bytes could not be written", (unsigned long long)at);
}

reed_status module_write(const module *m, const reed_module_sink *sink, reed_diagnosis *diagnosis) {
  writer w = {0};
  put_strings(&w, m);
  put_types(&w, m);
  put_info(&w, m);
  put_functions(&w, m);
  put(&w.sections[FORMAT_CODE], m->code, m->n_code * sizeof *m->code);
  put(&w.sections[FORMAT_EPOCHS], m->epochs, m->n_epochs * sizeof *m->epochs);
  put_sites(&w, m);
  put_site_dtypes(&w, m);
  put_target(&w, m);
  put_constants(&w, m);
  put(&w.sections[FORMAT_RANGES], m->ranges, m->n_ranges * sizeof *m->ranges);
  put(&w.sections[FORMAT_DEBUG], m->debug, m->n_debug * sizeof *m->debug);
  put_metadata(&w, m);
  bool failed = w.failed;
  for (int i = 1; i < FORMAT_SECTION_END; i++) failed |= w.sections[i].failed;
  reed_status status =
      failed ? diag_no_memory(diagnosis, "writing the module") : write_file(&w, m->minor, sink, diagnosis);
  for (int i = 1; i < FORMAT_SECTION_END; i++) text_fini(&w.sections[i]);
  VEC_FREE(&w.data);
  return status;
}

/* ---- a sink ---- */

static reed_status memory_begin(void *context, size_t n_bytes) {
  module_memory *memory = context;
  memory->bytes = mem_alloc(n_bytes);
  memory->capacity = n_bytes;
  return memory->bytes ? REED_OK : REED_ERROR_MEMORY;
}

static reed_status memory_write(void *context, const void *bytes, size_t n) {
  module_memory *memory = context;
  assert(n <= memory->capacity - memory->n);
  memcpy(memory->bytes + memory->n, bytes, n);
  memory->n += n;
  return REED_OK;
}

reed_module_sink module_memory_sink(module_memory *memory) {
  *memory = (module_memory){0};
  return (reed_module_sink){memory, memory_begin, memory_write};
}
