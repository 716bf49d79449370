/* Reads a function's instructions and labels. Operands are read by the forms and roles of insn.def, so that a new
 * instruction needs no code here. Directives: asm.c. Types and elements: asm_data.c. */
#include "bytecode/text/asm_code.h"

#include <stdio.h>
#include <string.h>

#include "bytecode/insn.h"
#include "bytecode/text/asm_data.h"

static uint32_t parse_register(assembler *a, char bank) {
  token t = a->lex.now;
  if (lexer_is_name(&a->lex, "_") && bank == 'r') {
    lexer_next(&a->lex);
    return MODULE_ABSENT;
  }
  uint64_t number = 0;
  bool ok = t.kind == TOKEN_NAME && t.n >= 2 && t.n <= 8 && *t.begin == bank;
  for (size_t i = 1; ok && i < t.n; i++) {
    ok = t.begin[i] >= '0' && t.begin[i] <= '9';
    number = number * 10 + (uint64_t)(t.begin[i] - '0');
  }
  if (!ok || number >= MODULE_MAX_REGISTERS) {
    FAIL(a, "a register is expected here: %c0, %c1 ...", bank, bank);
    return 0;
  }
  lexer_next(&a->lex);
  uint32_t *n = bank == 'r' ? &a->n_r : &a->n_s;
  if (number >= *n) *n = (uint32_t)number + 1;
  return (uint32_t)number;
}

/* Reads one word of a small set; returns its number in the set. */
static uint32_t parse_word(assembler *a, const char *what, const char *const *words, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (lexer_is_name(&a->lex, words[i])) {
      lexer_next(&a->lex);
      return i;
    }
  FAIL(a, "%s is expected here: one of %s, %s ...", what, words[0], words[1]);
  return 0;
}

static uint32_t parse_flagged_register(assembler *a) {
  static const char *const reads[] = TEXT_READS;
  uint32_t item = parse_register(a, 'r');
  if (lexer_take(&a->lex, ':')) item |= parse_word(a, "what is read", reads, 4) << 24;
  return item;
}

static uint32_t parse_function_name(assembler *a) {
  token t = a->lex.now;
  if (lexer_take(&a->lex, '#'))
    return (uint32_t)lexer_integer(&a->lex, "a function's number", 0, (int64_t)a->functions.n - 1);
  char *name = lexer_name_or_string(&a->lex, "a function's name");
  if (!name) return 0;
  const symbol *s = asm_find(a, name, strlen(name), SYMBOL_FUNCTION);
  char hint[96];
  if (!s)
    lexer_fail(&a->lex, &t, "there is no function '%s'%s", name,
               asm_suggest(a, SYMBOL_FUNCTION, name, strlen(name), hint, sizeof hint));
  else if (s->shared)
    lexer_fail(&a->lex, &t, "several functions are called '%s': name one by its number, #0 ...", name);
  mem_free(name);
  return s ? s->number : 0;
}

/* Reads a label's name; a label is made at its first use. */
static uint32_t parse_label(assembler *a) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "a label is expected here");
    return 0;
  }
  symbol *s = asm_find(a, t.begin, t.n, SYMBOL_LABEL);
  if (!s) s = asm_add(a, asm_copy_name(&t), SYMBOL_LABEL, emit_new_label(a->b), &t, false);
  lexer_next(&a->lex);
  return s ? s->number : 0;
}

static uint32_t parse_string_operand(assembler *a) {
  char *text = lexer_string(&a->lex, "a text");
  uint32_t number = text ? module_add_string(a->b, text) : 0;
  mem_free(text);
  return number;
}

/* Reads one word of an operand of the role. */
static uint32_t parse_item(assembler *a, insn_role role) {
#define REASON_NAME(name, text) text,
  static const char *const reasons[] = {COPY_REASON_LIST(REASON_NAME)};
#undef REASON_NAME
  const insn_role_info *info = &insn_roles[role];
  if (info->flagged) return parse_flagged_register(a);
  if (info->bank != INSN_BANK_N) return parse_register(a, info->bank == INSN_BANK_R ? 'r' : 's');
  switch (role) {
    case INSN_ROLE_INDEX:
    case INSN_ROLE_EPOCH: return (uint32_t)lexer_integer(&a->lex, "an index", 0, UINT32_MAX);
    case INSN_ROLE_DTYPE: return asm_dtype(a);
    case INSN_ROLE_LABEL: return parse_label(a);
    case INSN_ROLE_FUNC: return parse_function_name(a);
    case INSN_ROLE_TYPE: return asm_type(a);
    case INSN_ROLE_CONST: return asm_use(a, SYMBOL_CONST);
    case INSN_ROLE_SITE: return asm_use(a, SYMBOL_SITE);
    case INSN_ROLE_STR: return parse_string_operand(a);
    case INSN_ROLE_DEV: return (uint32_t)asm_device(a);
    case INSN_ROLE_REASON:
      return parse_word(a, "a copy's reason", reasons, COPY_REASON_COUNT);
      INSN_REGISTER_ROLES(INSN_ROLE_CASE) /* read above */
    case INSN_ROLE_IMM:                   /* two words, read by parse_operand */
    case INSN_ROLE_COUNT: break;
  }
  return 0;
}

static void parse_operand(assembler *a, const insn_info *info, int operand) {
  insn_role role = info->roles[operand];
  switch (info->forms[operand]) {
    case INSN_FORM_ONE: emit_u32(a->b, parse_item(a, role)); break;
    case INSN_FORM_LONG: emit_i64(a->b, lexer_integer(&a->lex, "an integer", INT64_MIN, INT64_MAX)); break;
    case INSN_FORM_LIST:
      a->list.n = 0;
      lexer_expect(&a->lex, '[');
      while (!lexer_at(&a->lex, ']') && !failed(a)) {
        uint32_t item = parse_item(a, role);
        PUSH(a, &a->list, item);
        if (!lexer_at(&a->lex, ']')) lexer_expect(&a->lex, ',');
      }
      lexer_expect(&a->lex, ']');
      emit_list(a->b, a->list.items, (uint32_t)a->list.n);
      break;
  }
}

static const char *mnemonic_candidate(const void *context, size_t i) {
  (void)context;
  return i < INSN_COUNT ? insn_table[i].mnemonic : NULL;
}

static int find_mnemonic(const token *t) {
  for (int i = 0; i < INSN_COUNT; i++)
    if (strlen(insn_table[i].mnemonic) == t->n && memcmp(insn_table[i].mnemonic, t->begin, t->n) == 0) return i;
  return -1;
}

/* The node's name after `@` at the end of this line, which the caller frees; NULL: none. It is read before the
 * operands, because emit_begin takes it. */
static char *peek_node(assembler *a) {
  lexer here = a->lex;
  while (a->lex.now.kind != TOKEN_NEWLINE && a->lex.now.kind != TOKEN_END && !lexer_at(&a->lex, '@'))
    lexer_next(&a->lex);
  char *node = lexer_take(&a->lex, '@') ? lexer_string(&a->lex, "a node's name") : NULL;
  reed_status status = a->lex.status;
  if (status == REED_OK) a->lex = here;
  return node;
}

/* Reads mnemonic operand, operand ... @ "node" */
static void parse_insn(assembler *a) {
  token t = a->lex.now;
  int id = find_mnemonic(&t);
  if (id < 0) {
    char hint[96];
    FAIL(a, "there is no instruction '%.*s'%s", (int)t.n, t.begin,
         lexer_suggest(t.begin, t.n, mnemonic_candidate, NULL, hint, sizeof hint));
    return;
  }
  char *node = peek_node(a);
  lexer_next(&a->lex);
  const insn_info *info = &insn_table[id];
  emit_begin(a->b, id, node);
  mem_free(node);
  for (int i = 0; i < info->n_operands && !failed(a); i++) {
    if (i && !lexer_take(&a->lex, ',')) FAIL(a, "'%s' wants another operand, '%s'", info->mnemonic, info->names[i]);
    if (!failed(a)) parse_operand(a, info, i);
  }
  if (lexer_take(&a->lex, '@')) lexer_next(&a->lex);
  if (failed(a)) return;
  emit_end(a->b);
  asm_end_line(a);
}

/* Reads a label's definition, NAME: */
static bool parse_label_definition(assembler *a) {
  lexer here = a->lex;
  token t = a->lex.now;
  lexer_next(&a->lex);
  if (!lexer_at(&a->lex, ':')) {
    a->lex = here;
    return false;
  }
  lexer_next(&a->lex);
  symbol *s = asm_find(a, t.begin, t.n, SYMBOL_LABEL);
  if (s && s->defined)
    lexer_fail(&a->lex, &t, "label '%.*s' has been defined in line %u", (int)t.n, t.begin, s->at.line);
  if (!s) s = asm_add(a, asm_copy_name(&t), SYMBOL_LABEL, emit_new_label(a->b), &t, true);
  if (failed(a)) return true;
  s->defined = true;
  s->at = t;
  emit_bind_label(a->b, s->number);
  if (a->lex.now.kind == TOKEN_NEWLINE) lexer_next(&a->lex);
  return true;
}

/* Forgets the function's labels. Fails if a label was used and not defined. */
static void end_labels(assembler *a, size_t first) {
  for (size_t i = first; i < a->symbols.n; i++) {
    const symbol *s = &a->symbols.items[i];
    char hint[96];
    if (s->defined || failed(a)) continue;
    ((symbol *)s)->kind = SYMBOL_KINDS; /* the label is not suggested for itself */
    lexer_fail(&a->lex, &s->at, "there is no label '%s' in this function%s", s->name,
               asm_suggest(a, SYMBOL_LABEL, s->name, strlen(s->name), hint, sizeof hint));
  }
  asm_forget(a, first);
}

/* Reads the line of .function a second time, for its numbers of registers, then the function's code. */
void asm_function_code(assembler *a, uint32_t number) {
  uint32_t n_r = 0, n_s = 0;
  bool stated = false;
  while (a->lex.now.kind != TOKEN_NEWLINE && a->lex.now.kind != TOKEN_END) {
    stated |= lexer_is_name(&a->lex, "registers");
    bool here = lexer_is_name(&a->lex, "registers");
    lexer_next(&a->lex);
    if (!here) continue;
    n_r = (uint32_t)lexer_integer(&a->lex, "the number of r registers", 0, MODULE_MAX_REGISTERS);
    n_s = (uint32_t)lexer_integer(&a->lex, "the number of s registers", 0, MODULE_MAX_REGISTERS);
  }
  a->n_r = a->functions.items[number].n_r_params, a->n_s = a->functions.items[number].n_s_params;
  size_t first_label = a->symbols.n;
  module_begin_function(a->b, number);
  while (a->lex.now.kind != TOKEN_END && a->lex.now.kind != TOKEN_DIRECTIVE) {
    if (a->lex.now.kind == TOKEN_NEWLINE) lexer_next(&a->lex);
    else if (a->lex.now.kind != TOKEN_NAME) FAIL(a, "an instruction or a label is expected here");
    else if (!parse_label_definition(a)) parse_insn(a);
  }
  end_labels(a, first_label);
  if (!failed(a)) module_end_function(a->b, stated ? n_r : a->n_r, stated ? n_s : a->n_s);
}
