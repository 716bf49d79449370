/* Finishes a module: lays out the functions' code, collects epochs, renumbers strings, and has the module written
 * (writer.c). Adding to a module: builder.c. Invariant of a finished module: its strings are in ascending order, the
 * first is "", and every other string is referred to. */
#include <stdlib.h>
#include <string.h>

#include "bytecode/builder.h"
#include "bytecode/format.h"
#include "bytecode/operands.h"

/* The new numbers of the strings in use, in ascending order of text. */
typedef struct renumbering {
  uint32_t *to;         /* per old number: the new number + 1; 0: not in use */
  const char **strings; /* the new list */
  size_t n;
} renumbering;

/* Calls `visit` on every place that holds a string's number, in the builder and in the finished code. */
static void each_string(module_builder *b, uint32_t *code, size_t n_code, module_debug *debug, size_t n_debug,
                        void (*visit)(renumbering *r, uint32_t *number), renumbering *r) {
  visit(r, &b->model_name), visit(r, &b->producer), visit(r, &b->producer_version), visit(r, &b->target);
  for (size_t i = 0; i < b->types.n; i++) {
    module_type *t = &b->types.items[i];
    visit(r, &t->name);
    for (int32_t k = 0; k < t->rank; k++) {
      if (t->dims[k] >= 0) continue;
      uint32_t symbol = (uint32_t)~t->dims[k];
      visit(r, &symbol);
      t->dims[k] = ~(int64_t)symbol;
    }
  }
  for (size_t i = 0; i < b->ranges.n; i++) visit(r, &b->ranges.items[i].name);
  for (size_t i = 0; i < b->constants.n; i++) visit(r, &b->constants.items[i].name);
  for (size_t i = 0; i < b->functions.n; i++) visit(r, &b->functions.items[i].f.name);
  for (size_t i = 0; i < b->sites.n; i++) {
    module_site *s = &b->sites.items[i];
    visit(r, &s->domain), visit(r, &s->op), visit(r, &s->node);
    for (int32_t k = 0; k < s->attrs.n;
         k++) { /* an attribute holds its text; the text's number is looked up and visited, so that it counts as used */
      const reed_attr *a = &s->attrs.items[k];
      uint32_t name = module_add_string(b, a->name);
      visit(r, &name);
      if (a->type != REED_ATTR_STRING) continue;
      uint32_t text = module_add_string(b, a->s);
      visit(r, &text);
    }
  }
  for (size_t i = 0; i < n_debug; i++) visit(r, &debug[i].node);
  insn in;
  for (uint32_t pc = 0; insn_decode(code, (uint32_t)n_code, pc, &in); pc += in.n_words)
    for (int i = 0; i < insn_table[in.id].n_operands; i++)
      if (insn_table[in.id].roles[i] == INSN_ROLE_STR) visit(r, &code[in.operands[i].words - code]);
}

static void mark_string(renumbering *r, uint32_t *number) {
  if (*number < r->n) r->to[*number] = 1;
}
static void replace_string(renumbering *r, uint32_t *number) {
  if (*number < r->n) *number = r->to[*number] - 1;
}

static int compare_strings(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The module's lists, each in one array that this struct owns. */
typedef struct layout {
  uint32_t *code;
  size_t n_code;
  VEC_OF(module_epoch) epochs;
  VEC_OF(module_debug) debug;
  module_function *functions;
  renumbering names;
} layout;

static void layout_fini(layout *l) {
  mem_free(l->code);
  VEC_FREE(&l->epochs);
  VEC_FREE(&l->debug);
  mem_free(l->functions);
  mem_free(l->names.to);
  mem_free(l->names.strings);
}

/* Notes where the epochs of one function's code begin, plan and end. Operands that are no epoch numbers are left to the
 * verifier. */
static bool collect_epochs(layout *l, uint32_t function, const uint32_t *code, uint32_t n_code) {
  insn in;
  for (uint32_t pc = 0; insn_decode(code, n_code, pc, &in); pc += in.n_words) {
    if (in.id != INSN_EPOCH_ENTER && in.id != INSN_EPOCH_PLAN && in.id != INSN_EPOCH_END) continue;
    uint32_t e = insn_epoch_plan_at(in.code).epoch; /* epoch.enter and epoch.end have the same first operand */
    if (e >= n_code && e > l->epochs.n + n_code)
      continue; /* no epoch number is so large: an epoch has three words or more */
    while (l->epochs.n <= e) {
      module_epoch none = {function, 0, 0, 0};
      if (!VEC_PUSH(&l->epochs, none)) return false;
    }
    module_epoch *epoch = &l->epochs.items[e];
    epoch->function = function;
    *(in.id == INSN_EPOCH_ENTER ? &epoch->enter : in.id == INSN_EPOCH_PLAN ? &epoch->plan : &epoch->end) = pc;
  }
  return true;
}

static bool lay_out_code(const module_builder *b, layout *l) {
  for (size_t i = 0; i < b->functions.n; i++) l->n_code += b->functions.items[i].code.n;
  l->code = mem_alloc(l->n_code * sizeof *l->code);
  l->functions = mem_calloc(b->functions.n, sizeof *l->functions);
  if (!l->code || !l->functions) return false;
  size_t at = 0;
  for (size_t i = 0; i < b->functions.n; i++) {
    const built_function *f = &b->functions.items[i];
    if (f->code.n) memcpy(l->code + at, f->code.items, f->code.n * sizeof *l->code);
    l->functions[i] = f->f;
    l->functions[i].code_offset = (uint32_t)at;
    at += f->code.n;
    for (size_t k = 0; k < f->debug.n; k++)
      if (!VEC_PUSH(&l->debug, f->debug.items[k])) return false;
    if (!collect_epochs(l, (uint32_t)i, f->code.items, (uint32_t)f->code.n)) return false;
  }
  return true;
}

static bool renumber_strings(module_builder *b, layout *l) {
  renumbering *r = &l->names;
  r->n = b->strings.n;
  r->to = mem_calloc(r->n, sizeof *r->to);
  r->strings = mem_calloc(r->n, sizeof *r->strings);
  if (!r->to || !r->strings) return false;
  uint32_t empty = 0;
  mark_string(r, &empty);
  each_string(b, l->code, l->n_code, l->debug.items, l->debug.n, mark_string, r);
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->to[i]) r->strings[n++] = b->strings.items[i];
  qsort(r->strings, n, sizeof *r->strings, compare_strings);
  for (size_t i = 0; i < n; i++) {
    uint32_t old = module_add_string(b, r->strings[i]); /* the string exists, so it is only looked up */
    r->to[old] = (uint32_t)i + 1;
  }
  each_string(b, l->code, l->n_code, l->debug.items, l->debug.n, replace_string, r);
  for (size_t i = 0; i < b->functions.n; i++) l->functions[i].name = b->functions.items[i].f.name;
  r->n = n;
  return true;
}

static void check_complete(module_builder *b) {
  if (b->functions.n == 0) builder_misuse(b, "a module needs a main function");
  for (size_t i = 0; i < b->functions.n; i++)
    if (!b->functions.items[i].ended)
      builder_misuse(b, "function '%s' was declared but has no code", b->strings.items[b->functions.items[i].f.name]);
  if (b->status != REED_OK) return;
  const module_function *main = &b->functions.items[0].f;
  if (b->n_inputs != main->n_r_params || b->n_outputs != main->n_r_results)
    builder_misuse(b, "%u inputs and %u outputs, but main has %u parameters and %u results", b->n_inputs, b->n_outputs,
                   main->n_r_params, main->n_r_results);
  for (uint32_t i = 0; i < b->n_inputs + b->n_outputs && b->status == REED_OK; i++)
    if ((i < b->n_inputs ? b->inputs[i] : b->outputs[i - b->n_inputs]) >= b->types.n)
      builder_misuse(b, "an input's or output's type does not exist");
}

reed_status module_builder_finish(module_builder *b, void **out_bytes, size_t *out_n_bytes, reed_diagnosis *diagnosis) {
  module_memory memory;
  reed_module_sink sink = module_memory_sink(&memory);
  reed_status status = module_builder_finish_to(b, &sink, diagnosis);
  if (status != REED_OK) {
    mem_free(memory.bytes);
    return status;
  }
  *out_bytes = memory.bytes;
  *out_n_bytes = memory.n;
  return REED_OK;
}

reed_status module_builder_finish_to(module_builder *b, const reed_module_sink *sink, reed_diagnosis *diagnosis) {
  check_complete(b);
  layout l = {0};
  if (b->status == REED_OK && (!lay_out_code(b, &l) || !renumber_strings(b, &l))) builder_no_memory(b);
  reed_status status = b->status;
  if (status == REED_OK) {
    const char **strings = l.names.strings;
    module m = {.minor = FORMAT_MINOR,
                .strings = strings,
                .n_strings = l.names.n,
                .types = b->types.items,
                .n_types = b->types.n,
                .functions = l.functions,
                .n_functions = b->functions.n,
                .code = l.code,
                .n_code = l.n_code,
                .sites = b->sites.items,
                .n_sites = b->sites.n,
                .constants = b->constants.items,
                .n_constants = b->constants.n,
                .epochs = l.epochs.items,
                .n_epochs = l.epochs.n,
                .debug = l.debug.items,
                .n_debug = l.debug.n,
                .inputs = b->inputs,
                .outputs = b->outputs,
                .ranges = b->ranges.items,
                .n_ranges = b->ranges.n,
                .model_name = strings[b->model_name],
                .producer = strings[b->producer],
                .producer_version = strings[b->producer_version],
                .target = strings[b->target],
                .n_devices = b->n_devices};
    status = module_write(&m, sink, diagnosis);
    builder_misuse(b, "the builder is finished"); /* a second finish would see renumbered strings */
  } else if (status == REED_ERROR_MEMORY) {
    status = diag_no_memory(diagnosis, "building the module");
  } else {
    status = diag_fail(diagnosis, status, "module builder: %s", b->message);
  }
  layout_fini(&l);
  return status;
}
