/* Reads and checks the items of the sections: ranges, texts, types, sizes. One function per section; a diagnosis names
 * the section and the item. Operators' rows: sites.c. Code: verify_code.c. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "loader/rules.h"
#include "loader/sections.h"
#include "loader/sites.h"

#define FAIL(rule, ...) return verify_reject(diagnosis, REED_ERROR_FORMAT, rule, __VA_ARGS__)

/* An array of at least one zeroed item. */
#define NEW_ARRAY(array, n) ((array) = mem_calloc((n) + 1, sizeof *(array)))

static reed_status read_strings(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const uint32_t *at = file->sections[FORMAT_STRINGS].items;
  const char *text = file->sections[FORMAT_TEXT].items;
  size_t n = file->sections[FORMAT_STRINGS].n, n_text = file->sections[FORMAT_TEXT].n;
  if (!NEW_ARRAY(m->strings, n)) return diag_no_memory(diagnosis, "strings of a module");
  m->n_strings = n;
  for (size_t i = 0; i < n; i++) {
    const char *end = at[i] < n_text ? memchr(text + at[i], 0, n_text - at[i]) : NULL;
    if (!end) FAIL(RULE_STRINGS, "string %zu does not end inside of the text", i);
    m->strings[i] = text + at[i];
    if (!utf8_valid(m->strings[i], (size_t)(end - m->strings[i]))) FAIL(RULE_STRINGS, "string %zu is not UTF-8", i);
    if (i ? strcmp(m->strings[i - 1], m->strings[i]) >= 0 : *m->strings[0] != 0)
      FAIL(RULE_STRINGS, "string %zu is out of order", i);
  }
  if (n == 0) FAIL(RULE_STRINGS, "there are no strings");
  return REED_OK;
}

static bool desc_from(uint32_t dtype, int32_t rank, const int64_t *dims, reed_desc *out_desc) {
  *out_desc = (reed_desc){.dtype = (reed_dtype)dtype, .rank = rank};
  if (dtype == REED_NONE || dtype >= REED_DTYPE_COUNT || rank < 0 || rank > REED_MAX_RANK) return false;
  memcpy(out_desc->dims, dims, (size_t)rank * sizeof *dims);
  return desc_bytes(out_desc) >= 0;
}

static reed_status read_types(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const format_type *from = file->sections[FORMAT_TYPES].items;
  size_t n = file->sections[FORMAT_TYPES].n;
  if (!NEW_ARRAY(m->types, n)) return diag_no_memory(diagnosis, "types of a module");
  m->n_types = n;
  for (size_t i = 0; i < n; i++) {
    const format_type *f = &from[i];
    if (f->flags & ~FORMAT_TYPE_OBJECT || f->dtype >= REED_DTYPE_COUNT || (f->flags && (f->dtype || f->rank != -1)))
      FAIL(RULE_TYPES, "type %zu: dtype %u, flags %u", i, f->dtype, f->flags);
    if (f->rank < -1 || f->rank > REED_MAX_RANK) FAIL(RULE_TYPES, "type %zu: rank %d", i, f->rank);
    if (f->device < 0 || f->device >= m->n_devices)
      FAIL(RULE_TYPES, "type %zu: device %d of %d", i, f->device, m->n_devices);
    if (f->name >= m->n_strings) FAIL(RULE_TYPES, "type %zu: string %u of %zu", i, f->name, m->n_strings);
    for (int32_t k = 0; k < f->rank; k++)
      if (f->dims[k] < 0 && (uint64_t)~f->dims[k] >= m->n_strings)
        FAIL(RULE_TYPES, "type %zu: extent %d is string %" PRId64 " of %zu", i, k, ~f->dims[k], m->n_strings);
    module_type *t = &m->types[i];
    *t = (module_type){.object = f->flags & FORMAT_TYPE_OBJECT,
                       .dtype = (reed_dtype)f->dtype,
                       .rank = f->rank,
                       .name = f->name,
                       .device = f->device};
    for (int32_t k = 0; k < f->rank; k++) t->dims[k] = f->dims[k];
  }
  return REED_OK;
}

/* A list of `n` type numbers in SIGNATURES. */
static reed_status read_list(const module_file *file, const module *m, const char *what, size_t item, uint32_t at,
                             uint32_t n, verify_rule rule, const uint32_t **out_list, reed_diagnosis *diagnosis) {
  const module_file_section *s = &file->sections[FORMAT_SIGNATURES];
  if (at > s->n || n > s->n - at) FAIL(rule, "%s %zu: its list of types is outside of the signatures", what, item);
  const uint32_t *list = (const uint32_t *)s->items + at;
  for (uint32_t i = 0; i < n; i++)
    if (list[i] >= m->n_types) FAIL(rule, "%s %zu: type %u of %zu", what, item, list[i], m->n_types);
  *out_list = list;
  return REED_OK;
}

static reed_status read_functions(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const format_function *from = file->sections[FORMAT_FUNCTIONS].items;
  size_t n = file->sections[FORMAT_FUNCTIONS].n, code_at = 0;
  m->code = file->sections[FORMAT_CODE].items;
  m->n_code = file->sections[FORMAT_CODE].n;
  if (n == 0) FAIL(RULE_FUNCTIONS, "there is no main function");
  if (!NEW_ARRAY(m->functions, n)) return diag_no_memory(diagnosis, "functions of a module");
  m->n_functions = n;
  for (size_t i = 0; i < n; i++) {
    const format_function *f = &from[i];
    if (f->name >= m->n_strings) FAIL(RULE_FUNCTIONS, "function %zu: string %u of %zu", i, f->name, m->n_strings);
    if (f->code_at != code_at || f->n_code > m->n_code - code_at)
      FAIL(RULE_FUNCTIONS, "function %zu: %u words of code at %u", i, f->n_code, f->code_at);
    code_at += f->n_code;
    if (f->n_r > MODULE_MAX_REGISTERS || f->n_s > MODULE_MAX_REGISTERS ||
        f->n_r > (uint64_t)f->n_code + f->n_r_params || f->n_s > (uint64_t)f->n_code + f->n_s_params)
      FAIL(RULE_FUNCTIONS, "function %zu: %u and %u registers for %u words of code", i, f->n_r, f->n_s, f->n_code);
    if (f->n_r_params > f->n_r || f->n_s_params > f->n_s)
      FAIL(RULE_FUNCTIONS, "function %zu: more parameters than registers", i);
    module_function *t = &m->functions[i];
    *t = (module_function){.name = f->name,
                           .code_offset = f->code_at,
                           .n_code = f->n_code,
                           .n_r = f->n_r,
                           .n_s = f->n_s,
                           .n_r_params = f->n_r_params,
                           .n_s_params = f->n_s_params,
                           .n_r_results = f->n_r_results,
                           .n_s_results = f->n_s_results};
    reed_status status =
        read_list(file, m, "function", i, f->params_at, f->n_r_params, RULE_FUNCTIONS, &t->param_types, diagnosis);
    if (status == REED_OK)
      status =
          read_list(file, m, "function", i, f->results_at, f->n_r_results, RULE_FUNCTIONS, &t->result_types, diagnosis);
    if (status != REED_OK) return status;
  }
  if (code_at != m->n_code) FAIL(RULE_FUNCTIONS, "%zu words of code belong to no function", m->n_code - code_at);
  return REED_OK;
}

/* Reads names and devices, before the sections that refer to them. */
static reed_status read_names(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  if (file->sections[FORMAT_INFO].n != 1)
    FAIL(RULE_INTERFACE, "the info section has %zu items", file->sections[FORMAT_INFO].n);
  const format_info *info = file->sections[FORMAT_INFO].items;
  if (info->model_name >= m->n_strings || info->producer >= m->n_strings || info->producer_version >= m->n_strings)
    FAIL(RULE_INTERFACE, "a name in the info section is no string");
  m->model_name = m->strings[info->model_name];
  m->producer = m->strings[info->producer];
  m->producer_version = m->strings[info->producer_version];
  if (info->n_devices < 1 || info->n_devices > MODULE_MAX_DEVICES)
    FAIL(RULE_INTERFACE, "the module is for %d devices", info->n_devices);
  m->n_devices = info->n_devices;
  const module_file_section *target = &file->sections[FORMAT_TARGET];
  const uint32_t *number = target->items;
  if (target->n > 1 || (target->n && *number >= m->n_strings))
    FAIL(RULE_INTERFACE, "the target section is not one string");
  m->target = target->n ? m->strings[*number] : "";
  return REED_OK;
}

/* Checks that main's parameters or results are host tensors. */
static reed_status check_host_tensors(const module *m, const char *what, const uint32_t *types, uint32_t n,
                                      reed_diagnosis *diagnosis) {
  for (uint32_t i = 0; i < n; i++)
    if (m->types[types[i]].object || m->types[types[i]].device != 0)
      FAIL(RULE_INTERFACE, "%s %u is no tensor on the host", what, i);
  return REED_OK;
}

static reed_status read_interface(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const format_info *info = file->sections[FORMAT_INFO].items;
  const module_function *main = &m->functions[0];
  if (info->n_inputs != main->n_r_params || info->n_outputs != main->n_r_results)
    FAIL(RULE_INTERFACE, "%u inputs and %u outputs, but main has %u parameters and %u results", info->n_inputs,
         info->n_outputs, main->n_r_params, main->n_r_results);
  if (main->n_s_params || main->n_s_results) FAIL(RULE_INTERFACE, "main takes or gives scalars");
  const uint32_t *inputs = NULL, *outputs = NULL;
  reed_status status =
      read_list(file, m, "info", 0, info->inputs_at, info->n_inputs, RULE_INTERFACE, &inputs, diagnosis);
  if (status == REED_OK)
    status = read_list(file, m, "info", 0, info->outputs_at, info->n_outputs, RULE_INTERFACE, &outputs, diagnosis);
  if (status == REED_OK) status = check_host_tensors(m, "input", inputs, info->n_inputs, diagnosis);
  if (status == REED_OK) status = check_host_tensors(m, "output", outputs, info->n_outputs, diagnosis);
  if (status == REED_OK)
    status = check_host_tensors(m, "main's parameter", main->param_types, info->n_inputs, diagnosis);
  if (status == REED_OK)
    status = check_host_tensors(m, "main's result", main->result_types, info->n_outputs, diagnosis);
  if (status != REED_OK) return status;
  m->inputs = mem_copy(inputs, info->n_inputs * sizeof *inputs);
  m->outputs = mem_copy(outputs, info->n_outputs * sizeof *outputs);
  if (!m->inputs || !m->outputs) return diag_no_memory(diagnosis, "inputs and outputs of a module");
  return REED_OK;
}

/* True if `n` elements of `item_bytes` at `at` lie in DATA and are aligned. */
static bool data_range(const module_file *file, uint64_t at, int64_t n, size_t item_bytes, size_t alignment,
                       const void **out_data) {
  size_t n_data = file->sections[FORMAT_DATA].n;
  if (n < 0 || at > n_data || at % alignment || (uint64_t)n > (n_data - at) / item_bytes) return false;
  *out_data = (const char *)file->sections[FORMAT_DATA].items + at;
  return true;
}

static reed_status read_attribute(const module_file *file, const module *m, const format_attribute *f,
                                  const reed_attr *previous, reed_attr *out_attr, reed_diagnosis *diagnosis) {
  size_t number = (size_t)(f - (const format_attribute *)file->sections[FORMAT_ATTRIBUTES].items);
  if (f->name >= m->n_strings) FAIL(RULE_ATTRIBUTES, "attribute %zu: string %u of %zu", number, f->name, m->n_strings);
  reed_attr a = {.name = m->strings[f->name], .type = (reed_attr_type)f->type};
  if (previous && strcmp(previous->name, a.name) >= 0)
    FAIL(RULE_ATTRIBUTES, "attribute %zu ('%s') is out of order", number, a.name);
  const void *data = NULL;
  bool inside = true;
  switch (f->type) {
    case REED_ATTR_INT: a.i = (int64_t)f->value; break;
    case REED_ATTR_FLOAT: memcpy(&a.f, &f->value, sizeof a.f); break;
    case REED_ATTR_STRING:
      inside = f->value < m->n_strings;
      if (inside) a.s = m->strings[f->value];
      break;
    case REED_ATTR_INTS:
    case REED_ATTR_FLOATS:
      a.n = f->n;
      inside = data_range(file, f->value, f->n, 8, 8, &data);
      *(f->type == REED_ATTR_INTS ? (const void **)&a.ints : (const void **)&a.floats) = data;
      break;
    case REED_ATTR_TENSOR:
      inside = desc_from(f->dtype, f->rank, f->dims, &a.desc) &&
               data_range(file, f->value, desc_bytes(&a.desc), 1, FORMAT_ALIGNMENT, &a.data);
      a.n = inside ? desc_elements(&a.desc) : 0;
      break;
    default: FAIL(RULE_ATTRIBUTES, "attribute %zu ('%s') has the unknown type %u", number, a.name, f->type);
  }
  if (!inside)
    FAIL(RULE_ATTRIBUTES, "attribute %zu ('%s') refers to a string or elements that are not there", number, a.name);
  *out_attr = a;
  return REED_OK;
}

static reed_status read_sites(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const format_site *from = file->sections[FORMAT_SITES].items;
  size_t n = file->sections[FORMAT_SITES].n, n_attributes = file->sections[FORMAT_ATTRIBUTES].n, attributes_at = 0;
  reed_attr *items;
  if (!NEW_ARRAY(m->sites, n)) return diag_no_memory(diagnosis, "call sites of a module");
  m->n_sites = n;
  /* All attributes are one block, which the first site owns (see module_close). */
  if (!NEW_ARRAY(items, n_attributes)) return diag_no_memory(diagnosis, "attributes of a module");
  m->sites[0].attrs.items = items;
  for (size_t i = 0; i < n; i++) {
    const format_site *f = &from[i];
    if (f->domain >= m->n_strings || f->op >= m->n_strings || f->node >= m->n_strings)
      FAIL(RULE_SITES, "call site %zu: a name is no string", i);
    if (f->n_inputs < 0 || f->n_inputs > REED_MAX_OPERANDS || f->n_outputs < 0 || f->n_outputs > REED_MAX_OPERANDS)
      FAIL(RULE_SITES, "call site %zu: %d inputs and %d outputs", i, f->n_inputs, f->n_outputs);
    if (f->attributes_at != attributes_at || f->n_attributes > n_attributes - attributes_at)
      FAIL(RULE_ATTRIBUTES, "call site %zu: %u attributes at %u of %zu", i, f->n_attributes, f->attributes_at,
           n_attributes);
    module_site *s = &m->sites[i];
    *s = (module_site){.domain = f->domain,
                       .op = f->op,
                       .node = f->node,
                       .n_inputs = f->n_inputs,
                       .n_outputs = f->n_outputs,
                       .attrs = {items + attributes_at, (int32_t)f->n_attributes}};
    for (uint32_t k = 0; k < f->n_attributes; k++) {
      const format_attribute *a = (const format_attribute *)file->sections[FORMAT_ATTRIBUTES].items + attributes_at;
      reed_status status =
          read_attribute(file, m, a, k ? &items[attributes_at - 1] : NULL, &items[attributes_at], diagnosis);
      if (status != REED_OK) return status;
      attributes_at++;
    }
  }
  if (attributes_at != n_attributes)
    FAIL(RULE_ATTRIBUTES, "%zu attributes belong to no call site", n_attributes - attributes_at);
  return REED_OK;
}

/* Reads SITE_DTYPES, which is empty or has one dtype for every operand of every site. */
static reed_status read_site_dtypes(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const module_file_section *from = &file->sections[FORMAT_SITE_DTYPES];
  const uint8_t *dtypes = from->items;
  size_t at = 0;
  for (size_t i = 0; from->n && i < m->n_sites; i++) {
    size_t n = (size_t)(m->sites[i].n_inputs + m->sites[i].n_outputs);
    if (n > from->n - at) FAIL(RULE_SITES, "call site %zu: its operands' dtypes are missing", i);
    bool known = false;
    for (size_t k = 0; k < n; k++) {
      if (dtypes[at + k] >= REED_DTYPE_COUNT)
        FAIL(RULE_SITES, "call site %zu: operand %zu has the unknown dtype %u", i, k, dtypes[at + k]);
      known |= dtypes[at + k] != REED_NONE;
    }
    if (known) m->sites[i].dtypes = dtypes + at;
    at += n;
  }
  if (at != from->n) FAIL(RULE_SITES, "%zu dtypes belong to no call site", from->n - at);
  return REED_OK;
}

static reed_status read_constants(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  const format_constant *from = file->sections[FORMAT_CONSTANTS].items;
  size_t n = file->sections[FORMAT_CONSTANTS].n;
  if (!NEW_ARRAY(m->constants, n)) return diag_no_memory(diagnosis, "constants of a module");
  m->n_constants = n;
  for (size_t i = 0; i < n; i++) {
    const format_constant *f = &from[i];
    module_constant *c = &m->constants[i];
    if (f->name >= m->n_strings) FAIL(RULE_CONSTANTS, "constant %zu: string %u of %zu", i, f->name, m->n_strings);
    c->name = f->name;
    if (!desc_from(f->dtype, f->rank, f->dims, &c->desc))
      FAIL(RULE_CONSTANTS, "constant %zu ('%s') has no valid type", i, m->strings[f->name]);
    int64_t n_bytes = desc_bytes(&c->desc);
    if (f->n_bytes != (uint64_t)n_bytes)
      FAIL(RULE_CONSTANTS, "constant %zu ('%s') has %" PRIu64 " bytes, its type %" PRId64, i, m->strings[f->name],
           f->n_bytes, n_bytes);
    if (!data_range(file, f->data_at, n_bytes, 1, FORMAT_ALIGNMENT, &c->data))
      FAIL(RULE_CONSTANTS,
           "constant %zu ('%s'): %" PRId64 " bytes at %" PRIu64 " are not inside of the data, or not aligned", i,
           m->strings[f->name], n_bytes, f->data_at);
  }
  return REED_OK;
}

static reed_status read_epochs(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  size_t n = file->sections[FORMAT_EPOCHS].n;
  if (!NEW_ARRAY(m->epochs, n) || !NEW_ARRAY(m->epochs_shaped, n))
    return diag_no_memory(diagnosis, "epochs of a module");
  m->n_epochs = n;
  if (n) memcpy(m->epochs, file->sections[FORMAT_EPOCHS].items, n * sizeof *m->epochs);
  for (size_t i = 0; i < n; i++) {
    const module_epoch *e = &m->epochs[i];
    if (e->function >= m->n_functions || e->enter >= e->plan || e->plan >= e->end ||
        e->end >= m->functions[e->function].n_code)
      FAIL(RULE_EPOCH_TABLE, "epoch %zu: function %u, enter %u, plan %u, end %u", i, e->function, e->enter, e->plan,
           e->end);
  }
  return REED_OK;
}

static reed_status read_debug(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  size_t n = file->sections[FORMAT_DEBUG].n;
  if (!NEW_ARRAY(m->debug, n)) return diag_no_memory(diagnosis, "debug entries of a module");
  m->n_debug = n;
  if (n) memcpy(m->debug, file->sections[FORMAT_DEBUG].items, n * sizeof *m->debug);
  for (size_t i = 0; i < n; i++) {
    const module_debug *d = &m->debug[i], *before = i ? d - 1 : d;
    if (d->function >= m->n_functions || d->pc >= m->functions[d->function].n_code || d->node >= m->n_strings)
      FAIL(RULE_DEBUG, "debug entry %zu: function %u, pc %u, string %u", i, d->function, d->pc, d->node);
    if (i && (d->function < before->function || (d->function == before->function && d->pc <= before->pc)))
      FAIL(RULE_DEBUG, "debug entry %zu is out of order", i);
  }
  return REED_OK;
}

/* Checks one range against its input's type and the range before it. */
static reed_status check_range(const module *m, size_t i, reed_diagnosis *diagnosis) {
  const module_range *r = &m->ranges[i], *before = i ? r - 1 : r;
  if (r->input >= m->functions[0].n_r_params || r->name >= m->n_strings || !*m->strings[r->name] || r->reserved)
    FAIL(RULE_RANGES, "range %zu: input %u, string %u", i, r->input, r->name);
  const module_type *t = &m->types[m->inputs[r->input]];
  const char *name = m->strings[r->name];
  if (t->object || (int64_t)r->axis >= t->rank)
    FAIL(RULE_RANGES, "range %zu ('%s'): axis %u of input %u, whose rank is %d", i, name, r->axis, r->input, t->rank);
  if (i && (r->input < before->input || (r->input == before->input && r->axis <= before->axis)))
    FAIL(RULE_RANGES, "range %zu ('%s') is out of order", i, name);
  if (r->low < 0 || r->low > r->high)
    FAIL(RULE_RANGES, "range %zu ('%s') is %" PRId64 " to %" PRId64, i, name, r->low, r->high);
  int64_t dim = t->dims[r->axis];
  if (dim >= 0 && (r->low != dim || r->high != dim))
    FAIL(RULE_RANGES, "range %zu ('%s') contradicts the type of input %u", i, name, r->input);
  return REED_OK;
}

/* Checks that ranges of one name are equal. */
static reed_status check_range_names(const module *m, reed_diagnosis *diagnosis) {
  uint32_t *first = mem_calloc(m->n_strings, sizeof *first); /* per string: its first range, + 1 */
  if (!first) return diag_no_memory(diagnosis, "ranges of a module");
  size_t i = 0;
  for (; i < m->n_ranges; i++) {
    uint32_t *number = &first[m->ranges[i].name];
    if (!*number) *number = (uint32_t)i + 1;
    const module_range *r = &m->ranges[i], *same = &m->ranges[*number - 1];
    if (r->low != same->low || r->high != same->high) break;
  }
  mem_free(first);
  if (i < m->n_ranges) FAIL(RULE_RANGES, "range %zu: '%s' has another range before", i, m->strings[m->ranges[i].name]);
  return REED_OK;
}

static reed_status read_ranges(const module_file *file, module *m, reed_diagnosis *diagnosis) {
  size_t n = file->sections[FORMAT_RANGES].n;
  if (n > (size_t)m->functions[0].n_r_params * REED_MAX_RANK)
    FAIL(RULE_RANGES, "%zu ranges for %u inputs", n, m->functions[0].n_r_params);
  m->ranges = file->sections[FORMAT_RANGES].items;
  m->n_ranges = n;
  for (size_t i = 0; i < n; i++) {
    reed_status status = check_range(m, i, diagnosis);
    if (status != REED_OK) return status;
  }
  return n ? check_range_names(m, diagnosis) : REED_OK;
}

reed_status sections_read(const module_file *file, const reed_registry *registry, const int *cancel, module *m,
                          reed_diagnosis *diagnosis) {
  static reed_status (*const readers[])(const module_file *, module *, reed_diagnosis *) = {
      read_strings, read_names,       read_types,     read_functions, read_interface, read_ranges,
      read_sites,   read_site_dtypes, read_constants, read_epochs,    read_debug};
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    reed_status status = diag_check_cancel(diagnosis, cancel);
    if (status == REED_OK) status = readers[i](file, m, diagnosis);
    if (status != REED_OK) return status;
  }
  return sites_resolve(m, registry, diagnosis);
}
