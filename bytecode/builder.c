/* The module builder: the compiler and the assembler add a module's strings, types, constants, call sites and code to
 * it, piece by piece. Layout and writing: finish.c.
 *
 * Equal strings, types and constants are found by hash and added once. The builder keeps the first failure (no memory,
 * or a misuse such as an operand too many), and module_builder_finish returns it. Results of calls after a failure have
 * no meaning. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "bytecode/builder.h"
#include "bytecode/operands.h"

/* Bytes of a constant that are hashed. Different weights differ early; weights in a mapped file should be read once. */
#define HASHED_BYTES ((int64_t)64 << 10)

void builder_misuse(module_builder *b, const char *format, ...) {
  if (b->status != REED_OK) return;
  b->status = REED_ERROR_ARGUMENT;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(b->message, sizeof b->message, format, arguments);
  va_end(arguments);
}

void builder_no_memory(module_builder *b) {
  if (b->status == REED_OK) b->status = REED_ERROR_MEMORY;
}

/* ---- interning ---- */

static bool same_string(const void *context, uint32_t item, const void *wanted) {
  const module_builder *b = context;
  return strcmp(b->strings.items[item], wanted) == 0;
}

static bool same_type(const void *context, uint32_t item, const void *wanted) {
  const module_builder *b = context;
  const module_type *a = &b->types.items[item], *t = wanted;
  return a->object == t->object && a->dtype == t->dtype && a->rank == t->rank && a->name == t->name &&
         a->device == t->device && (t->rank <= 0 || memcmp(a->dims, t->dims, (size_t)t->rank * sizeof *t->dims) == 0);
}

static bool same_constant(const void *context, uint32_t item, const void *wanted) {
  const module_builder *b = context;
  const module_constant *a = &b->constants.items[item], *c = wanted;
  return desc_equal(&a->desc, &c->desc) && memcmp(a->data, c->data, (size_t)desc_bytes(&c->desc)) == 0;
}

uint32_t module_add_string(module_builder *b, const char *text) {
  uint64_t hash = hash_bytes(text, strlen(text), 0);
  uint32_t found = table_find(&b->string_table, hash, same_string, b, text);
  if (found != TABLE_NONE) return found;
  const char *copy = mem_copy_text(text);
  if (!copy || !VEC_ROOM(&b->strings) || !table_add(&b->string_table, hash, (uint32_t)b->strings.n)) {
    mem_free((void *)copy);
    builder_no_memory(b);
    return 0;
  }
  b->strings.items[b->strings.n++] = copy;
  return (uint32_t)b->strings.n - 1;
}

uint32_t module_add_type(module_builder *b, const module_type *type) {
  if (type->rank > REED_MAX_RANK) {
    builder_misuse(b, "type of rank %d", type->rank);
    return 0;
  }
  bool named = type->name < b->strings.n;
  for (int32_t i = 0; i < type->rank; i++)
    named = named && (type->dims[i] >= 0 || (uint64_t)~type->dims[i] < b->strings.n);
  if (!named) {
    builder_misuse(b, "a type's name or symbol is no string of this builder");
    return 0;
  }
  module_type t = {
      .object = type->object, .dtype = type->dtype, .rank = type->rank, .name = type->name, .device = type->device};
  if (t.object) t.dtype = REED_NONE, t.rank = -1;
  for (int32_t i = 0; i < t.rank; i++) t.dims[i] = type->dims[i];
  uint64_t seed = (uint64_t)t.object | (uint64_t)t.dtype << 1 | (uint64_t)(t.rank + 1) << 8 | (uint64_t)t.device << 16 |
                  (uint64_t)t.name << 32;
  uint64_t hash = hash_bytes(t.dims, sizeof t.dims, seed);
  uint32_t found = table_find(&b->type_table, hash, same_type, b, &t);
  if (found != TABLE_NONE) return found;
  if (!VEC_ROOM(&b->types) || !table_add(&b->type_table, hash, (uint32_t)b->types.n)) {
    builder_no_memory(b);
    return 0;
  }
  b->types.items[b->types.n++] = t;
  return (uint32_t)b->types.n - 1;
}

/* Bytes of a constant. For a descriptor that is not valid: notes a misuse and returns -1. */
static int64_t constant_bytes(module_builder *b, const reed_desc *desc, const char *name) {
  int64_t n_bytes =
      desc->rank >= 0 && desc->rank <= REED_MAX_RANK && reed_dtype_bytes(desc->dtype) ? desc_bytes(desc) : -1;
  if (n_bytes < 0) builder_misuse(b, "constant '%s' has no valid type", name);
  return n_bytes;
}

uint32_t module_add_constant(module_builder *b, const reed_desc *desc, const void *data, const char *name,
                             bool borrow) {
  int64_t n_bytes = constant_bytes(b, desc, name);
  if (n_bytes < 0) return 0;
  module_constant c = {.desc = *desc, .data = data};
  size_t n_hashed = (size_t)(n_bytes < HASHED_BYTES ? n_bytes : HASHED_BYTES);
  uint64_t hash =
      hash_bytes(data, n_hashed, (uint64_t)desc->dtype << 8 | (uint64_t)desc->rank | (uint64_t)n_bytes << 16);
  uint32_t found = table_find(&b->constant_table, hash, same_constant, b, &c);
  if (found != TABLE_NONE) return found;
  c.name = module_add_string(b, name);
  if (!borrow) c.data = mem_copy(data, (size_t)n_bytes);
  if (!c.data || !VEC_ROOM(&b->owned) || !VEC_ROOM(&b->constants) ||
      !table_add(&b->constant_table, hash, (uint32_t)b->constants.n)) {
    if (!borrow) mem_free((void *)c.data);
    builder_no_memory(b);
    return 0;
  }
  b->owned.items[b->owned.n++] = !borrow;
  b->constants.items[b->constants.n++] = c;
  return (uint32_t)b->constants.n - 1;
}

uint32_t module_add_made_constant(module_builder *b, const reed_desc *desc, module_make *make, const void *data,
                                  const char *name) {
  if (constant_bytes(b, desc, name) < 0) return 0;
  module_constant c = {.desc = *desc, .data = data, .name = module_add_string(b, name), .make = make};
  if (!VEC_ROOM(&b->owned) || !VEC_PUSH(&b->constants, c)) {
    builder_no_memory(b);
    return 0;
  }
  b->owned.items[b->owned.n++] = false;
  return (uint32_t)b->constants.n - 1;
}

uint32_t module_add_site(module_builder *b, const char *domain, const char *op, const char *node,
                         const reed_attr *attrs, int32_t n_attrs, int32_t n_inputs, int32_t n_outputs) {
  module_site s = {.n_inputs = n_inputs, .n_outputs = n_outputs};
  s.domain = module_add_string(b, domain), s.op = module_add_string(b, op), s.node = module_add_string(b, node);
  if (attrs_copy(attrs, n_attrs, &s.attrs) != REED_OK) {
    builder_no_memory(b);
    return 0;
  }
  if (!VEC_PUSH(&b->sites, s)) {
    attrs_free(&s.attrs);
    builder_no_memory(b);
    return 0;
  }
  for (int32_t i = 0; i < s.attrs.n; i++) {
    module_add_string(b, s.attrs.items[i].name);
    if (s.attrs.items[i].type == REED_ATTR_STRING) module_add_string(b, s.attrs.items[i].s);
  }
  return (uint32_t)b->sites.n - 1;
}

void module_set_site_dtypes(module_builder *b, uint32_t site, const reed_dtype *dtypes) {
  if (b->status != REED_OK || site >= b->sites.n) return;
  module_site *s = &b->sites.items[site];
  size_t n = (size_t)(s->n_inputs + s->n_outputs);
  bool known = false;
  for (size_t i = 0; i < n; i++) known |= dtypes[i] != REED_NONE;
  uint8_t *made = known ? mem_alloc(n) : NULL;
  if (known && !made) builder_no_memory(b);
  for (size_t i = 0; made && i < n; i++) made[i] = (uint8_t)dtypes[i];
  mem_free((void *)s->dtypes);
  s->dtypes = made;
}

/* ---- functions and emission ---- */

uint32_t module_declare_function(module_builder *b, const char *name, const uint32_t *param_types, uint32_t n_r_params,
                                 uint32_t n_s_params, const uint32_t *result_types, uint32_t n_r_results,
                                 uint32_t n_s_results) {
  built_function made = {.f = {.name = module_add_string(b, name),
                               .n_r_params = n_r_params,
                               .n_s_params = n_s_params,
                               .n_r_results = n_r_results,
                               .n_s_results = n_s_results}};
  made.f.param_types = mem_copy(param_types, n_r_params * sizeof *param_types);
  made.f.result_types = mem_copy(result_types, n_r_results * sizeof *result_types);
  if (!made.f.param_types || !made.f.result_types || !VEC_PUSH(&b->functions, made)) {
    mem_free((void *)made.f.param_types);
    mem_free((void *)made.f.result_types);
    builder_no_memory(b);
    return 0;
  }
  return (uint32_t)b->functions.n - 1;
}

void module_begin_function(module_builder *b, uint32_t function) {
  if (b->function != NO_FUNCTION) builder_misuse(b, "function %u begun inside another", function);
  else if (function >= b->functions.n || b->functions.items[function].begun)
    builder_misuse(b, "function %u is not declared, or begun twice", function);
  if (b->status != REED_OK) return;
  b->function = function;
  b->functions.items[function].begun = true;
  b->fixups.n = 0;
  b->insn = -1;
}

void module_end_function(module_builder *b, uint32_t n_r, uint32_t n_s) {
  if (b->function == NO_FUNCTION || b->insn >= 0)
    builder_misuse(b, "module_end_function without begin, or inside an instruction");
  if (b->status != REED_OK) return;
  built_function *f = &b->functions.items[b->function];
  for (size_t i = 0; i < b->fixups.n; i++) {
    const label *l = &b->labels.items[b->fixups.items[i].label];
    if (!l->bound || l->function != b->function) {
      builder_misuse(b, "function '%s': a label is used but not bound", b->strings.items[f->f.name]);
      return;
    }
    f->code.items[b->fixups.items[i].word] = l->pc;
  }
  f->f.n_r = n_r, f->f.n_s = n_s;
  f->f.n_code = (uint32_t)f->code.n;
  f->ended = true;
  b->function = NO_FUNCTION;
}

static void push_word(module_builder *b, uint32_t word) {
  if (b->status == REED_OK && !VEC_PUSH(&b->functions.items[b->function].code, word)) builder_no_memory(b);
}

/* Counts the next operand; true if the instruction's operand has that form. */
static bool next_operand(module_builder *b, insn_form form) {
  if (b->status != REED_OK) return false;
  const insn_info *info = b->insn >= 0 ? &insn_table[b->insn] : NULL;
  if (!info) builder_misuse(b, "an operand outside of an instruction");
  else if (b->operand >= info->n_operands)
    builder_misuse(b, "%s: more than %d operands", info->mnemonic, info->n_operands);
  else if (info->forms[b->operand] != form)
    builder_misuse(b, "%s: operand '%s' given in the wrong form", info->mnemonic, info->names[b->operand]);
  b->operand++;
  return b->status == REED_OK;
}

void emit_begin(module_builder *b, int insn, const char *node) {
  if (b->function == NO_FUNCTION || b->insn >= 0)
    builder_misuse(b, "emit_begin outside of a function, or inside an instruction");
  if (b->status != REED_OK) return;
  built_function *f = &b->functions.items[b->function];
  b->insn = insn, b->operand = 0;
  b->insn_pc = (uint32_t)f->code.n;
  push_word(b, (uint32_t)insn);
  if (!node) return;
  module_debug d = {b->function, b->insn_pc, module_add_string(b, node)};
  if (!VEC_PUSH(&f->debug, d)) builder_no_memory(b);
}

static void push_label(module_builder *b, uint32_t label) {
  if (label >= b->labels.n) builder_misuse(b, "label %u does not exist", label);
  if (b->status != REED_OK) return;
  fixup fix = {label, (uint32_t)b->functions.items[b->function].code.n};
  if (!VEC_PUSH(&b->fixups, fix)) builder_no_memory(b);
  push_word(b, 0);
}

/* Appends a word of the operand that next_operand has counted. */
static void push_item(module_builder *b, uint32_t word) {
  if (insn_table[b->insn].roles[b->operand - 1] == INSN_ROLE_LABEL) push_label(b, word);
  else push_word(b, word);
}

void emit_u32(module_builder *b, uint32_t operand) {
  if (next_operand(b, INSN_FORM_ONE)) push_item(b, operand);
}

void emit_i64(module_builder *b, int64_t operand) {
  if (!next_operand(b, INSN_FORM_LONG)) return;
  push_word(b, (uint32_t)operand);
  push_word(b, (uint32_t)((uint64_t)operand >> 32));
}

void emit_list(module_builder *b, const uint32_t *items, uint32_t n) {
  if (!next_operand(b, INSN_FORM_LIST)) return;
  push_word(b, n);
  for (uint32_t i = 0; i < n; i++) push_item(b, items[i]);
}

void emit_end(module_builder *b) {
  if (b->status != REED_OK) return;
  if (b->insn < 0) {
    builder_misuse(b, "emit_end without emit_begin");
    return;
  }
  built_function *f = &b->functions.items[b->function];
  const insn_info *info = &insn_table[b->insn];
  size_t n_words = f->code.n - b->insn_pc;
  if (b->operand != info->n_operands)
    builder_misuse(b, "%s: %d of %d operands given", info->mnemonic, b->operand, info->n_operands);
  if (n_words > 0xffff) builder_misuse(b, "%s: longer than 65535 words", info->mnemonic);
  f->code.items[b->insn_pc] |= (uint32_t)n_words << 16;
  b->insn = -1;
}

uint32_t emit_new_label(module_builder *b) {
  label l = {0};
  if (!VEC_PUSH(&b->labels, l)) builder_no_memory(b);
  return b->labels.n ? (uint32_t)b->labels.n - 1 : 0;
}

void emit_bind_label(module_builder *b, uint32_t label_number) {
  if (b->function == NO_FUNCTION || b->insn >= 0 || label_number >= b->labels.n)
    builder_misuse(b, "label %u bound outside of a function", label_number);
  else if (b->labels.items[label_number].bound) builder_misuse(b, "label %u bound twice", label_number);
  if (b->status != REED_OK) return;
  b->labels.items[label_number] = (label){b->function, (uint32_t)b->functions.items[b->function].code.n, true};
}

/* ---- the module's inputs, outputs and names ---- */

static void set_list(module_builder *b, uint32_t **list, uint32_t *out_n, const uint32_t *items, uint32_t n) {
  mem_free(*list);
  *list = mem_copy(items, n * sizeof *items);
  *out_n = *list ? n : 0;
  if (!*list) builder_no_memory(b);
}

void module_set_io(module_builder *b, const uint32_t *input_types, uint32_t n_inputs, const uint32_t *output_types,
                   uint32_t n_outputs) {
  set_list(b, &b->inputs, &b->n_inputs, input_types, n_inputs);
  set_list(b, &b->outputs, &b->n_outputs, output_types, n_outputs);
}

void module_set_names(module_builder *b, const char *model_name, const char *producer, const char *producer_version,
                      int32_t n_devices) {
  b->model_name = module_add_string(b, model_name);
  b->producer = module_add_string(b, producer);
  b->producer_version = module_add_string(b, producer_version);
  b->n_devices = n_devices;
}

void module_set_target(module_builder *b, const char *target) { b->target = module_add_string(b, target); }

void module_add_range(module_builder *b, const module_range *range) {
  if (range->name >= b->strings.n) builder_misuse(b, "a range's name is no string of this builder");
  else if (!VEC_PUSH(&b->ranges, *range)) builder_no_memory(b);
}

reed_status module_builder_open(module_builder **out_builder) {
  module_builder *b = mem_calloc(1, sizeof *b);
  if (!b) return REED_ERROR_MEMORY;
  b->function = NO_FUNCTION;
  b->insn = -1;
  b->n_devices = 1;
  module_add_string(b, "");
  *out_builder = b;
  return REED_OK;
}

void module_builder_close(module_builder **builder) {
  module_builder *b = *builder;
  *builder = NULL;
  if (!b) return;
  for (size_t i = 0; i < b->strings.n; i++) mem_free((void *)b->strings.items[i]);
  for (size_t i = 0; i < b->constants.n; i++)
    if (b->owned.items[i]) mem_free((void *)b->constants.items[i].data);
  for (size_t i = 0; i < b->sites.n; i++) {
    attrs_free(&b->sites.items[i].attrs);
    mem_free((void *)b->sites.items[i].dtypes);
  }
  for (size_t i = 0; i < b->functions.n; i++) {
    built_function *f = &b->functions.items[i];
    mem_free((void *)f->f.param_types);
    mem_free((void *)f->f.result_types);
    VEC_FREE(&f->code);
    VEC_FREE(&f->debug);
  }
  VEC_FREE(&b->strings), VEC_FREE(&b->types), VEC_FREE(&b->constants), VEC_FREE(&b->owned), VEC_FREE(&b->sites);
  VEC_FREE(&b->functions), VEC_FREE(&b->labels), VEC_FREE(&b->fixups);
  VEC_FREE(&b->ranges);
  mem_free(b->string_table.slots), mem_free(b->type_table.slots), table_fini(&b->constant_table);
  mem_free(b->inputs), mem_free(b->outputs);
  mem_free(b);
}
