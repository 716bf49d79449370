/* The verifier's entry: function by function, and how a rejected instruction is named. */
#include "loader/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

int32_t verify_device(const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++)
    if (info->roles[i] == INSN_ROLE_DEV) return (int32_t)in->operands[i].words[0];
  return 0;
}

uint32_t verify_site(const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++)
    if (info->roles[i] == INSN_ROLE_SITE) return in->operands[i].words[0];
  return 0; /* only asked of instructions that have one */
}

const reed_op *verify_operator(const verifier *v, const insn *in) { return v->ops[verify_site(in)]; }

static int compare_debug(const void *a, const void *b) {
  const module_debug *x = a, *y = b;
  if (x->function != y->function) return x->function < y->function ? -1 : 1;
  return x->pc < y->pc ? -1 : x->pc > y->pc;
}

/* "operand 'inputs'[2] (r17)" */
static void operand_text(const insn *in, int operand, int64_t item, char *out, size_t capacity) {
  const insn_role_info *role = &insn_roles[insn_table[in->id].roles[operand]];
  int n = snprintf(out, capacity, ", operand '%s'", insn_table[in->id].names[operand]);
  if (item >= 0) n += snprintf(out + n, capacity - (size_t)n, "[%lld]", (long long)item);
  if (insn_table[in->id].forms[operand] == INSN_FORM_LIST && item < 0) return;
  uint32_t word = in->operands[operand].words[item > 0 ? item : 0];
  if (role->bank == INSN_BANK_N) return;
  if (role->flagged) word = INSN_REGISTER(word);
  if (word == MODULE_ABSENT) snprintf(out + n, capacity - (size_t)n, " (_)");
  else snprintf(out + n, capacity - (size_t)n, role->bank == INSN_BANK_R ? " (r%u)" : " (s%u)", word);
}

reed_status verify_fail(const verifier *v, verify_rule rule, const insn *in, const char *operand, int64_t item,
                        const char *format, ...) {
  char message[512], what[128] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  int number = operand ? insn_operand_named(in->id, operand) : -1;
  if (number >= 0) operand_text(in, number, item, what, sizeof what);
  const char *function = v->m->strings[v->f->name];
  reed_status status = verify_reject(v->diagnosis, REED_ERROR_FORMAT, rule, "function '%.200s', word %u, %s%s: %s",
                                     function, in->pc, insn_table[in->id].mnemonic, what, message);
  diag_place_code(v->diagnosis, function, in->pc);
  module_debug wanted = {v->number, in->pc, 0};
  const module_debug *debug =
      v->m->n_debug ? bsearch(&wanted, v->m->debug, v->m->n_debug, sizeof wanted, compare_debug) : NULL;
  if (debug) diag_place_node(v->diagnosis, NULL, v->m->strings[debug->node], NULL);
  return status;
}

static reed_status verify_function(verifier *v, uint32_t number) {
  v->number = number;
  v->f = &v->m->functions[number];
  v->code = v->m->code + v->f->code_offset;
  v->n_states = (size_t)v->f->n_r + v->f->n_s;
  size_t n = (size_t)v->f->n_code + 1;
  v->marks = mem_calloc(n, sizeof *v->marks);
  v->places = mem_calloc(n, sizeof *v->places);
  v->block_of = mem_calloc(n, sizeof *v->block_of);
  v->states = mem_calloc(v->n_states + 1, sizeof *v->states);
  reed_status status = v->marks && v->places && v->block_of && v->states
                           ? REED_OK
                           : diag_no_memory(v->diagnosis, "verifying a function");
  if (status == REED_OK) status = verify_code(v);
  if (status == REED_OK) status = verify_flow(v);
  if (status == REED_OK) status = verify_shaped(v);
  mem_free(v->marks), mem_free(v->places), mem_free(v->block_of), mem_free(v->states);
  return status;
}

reed_status verify_module(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) {
  verifier v = {.m = m, .diagnosis = diagnosis};
  v.ops = mem_calloc(m->n_sites + 1, sizeof *v.ops);
  if (!v.ops) return diag_no_memory(diagnosis, "verifying a module");
  reed_status status = REED_OK;
  for (size_t i = 0; i < m->n_sites; i++)
    v.ops[i] = op_find(registry, m->strings[m->sites[i].domain], m->strings[m->sites[i].op]);
  for (uint32_t i = 0; status == REED_OK && i < m->n_functions; i++) status = verify_function(&v, i);
  if (status == REED_OK && v.n_epochs_seen != m->n_epochs)
    status = verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_EPOCH_TABLE,
                           "the module lists %zu epochs, its code enters %u", m->n_epochs, v.n_epochs_seen);
  mem_free(v.ops);
  VEC_FREE(&v.asked);
  return status;
}
