/* Helpers of the verifier's passes: operands of an instruction, and the diagnosis of a rejected one. The passes:
 * verify_code.c, verify_flow.c, verify_shaped.c. */
#include "loader/verifier.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
  return 0; /* never reached: callers ask only instructions that have a site */
}

const reed_op *verify_operator(const verifier *v, const insn *in) { return v->m->site_ops[verify_site(in)]; }

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
