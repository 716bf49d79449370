/* The tables of instructions and roles, expanded from insn.def and INSN_ROLE_LIST, and the decoder (insn.h). */
#include "bytecode/insn.h"

#include <string.h>

const insn_info insn_table[INSN_COUNT] = {
#define INSN(id, name, text, flow_, places_, shares_, effect_, ...) \
  [INSN_##id].mnemonic = text, [INSN_##id].effect = effect_, [INSN_##id].flow = INSN_FLOW_##flow_, \
  [INSN_##id].places = INSN_PLACES_##places_, [INSN_##id].shares = INSN_SHARES_##shares_, \
  [INSN_##id].n_operands = (int)(sizeof((insn_role[]){__VA_ARGS__ INSN_ROLE_COUNT}) / sizeof(insn_role)) - 1, \
  [INSN_##id].roles = {__VA_ARGS__ INSN_ROLE_COUNT},
#define ONE(name, role) INSN_ROLE_##role,
#define LONG(name, role) INSN_ROLE_##role,
#define LIST(name, role) INSN_ROLE_##role,
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST
#define INSN(id, name, text, flow, places, shares, effect, ...) [INSN_##id].forms = {__VA_ARGS__ 0},
#define ONE(name, role) INSN_FORM_ONE,
#define LONG(name, role) INSN_FORM_LONG,
#define LIST(name, role) INSN_FORM_LIST,
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST
#define INSN(id, name, text, flow, places, shares, effect, ...) [INSN_##id].names = {__VA_ARGS__ 0},
#define ONE(name, role) #name,
#define LONG(name, role) #name,
#define LIST(name, role) #name,
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST
};

const insn_role_info insn_roles[INSN_ROLE_COUNT] = {
#define ROLE_ROW(role, bank_, absence, flag, text_) \
  [INSN_ROLE_##role] = {.name = #role, \
                        .text = text_, \
                        .bank = INSN_BANK_##bank_, \
                        .optional = INSN_ABSENCE_##absence == INSN_ABSENCE_OPTIONAL, \
                        .flagged = INSN_FLAG_##flag == INSN_FLAG_FLAGGED},
    INSN_ROLE_LIST(ROLE_ROW)
#undef ROLE_ROW
};

bool insn_decode(const uint32_t *code, uint32_t n_code, uint32_t pc, insn *out_insn) {
  if (pc >= n_code) return false;
  uint32_t id = code[pc] & 0xffff, n_words = code[pc] >> 16;
  if (id >= INSN_COUNT || n_words == 0 || n_words > n_code - pc) return false;
  const insn_info *info = &insn_table[id];
  const uint32_t *w = code + pc + 1, *end = code + pc + n_words;
  out_insn->id = (insn_id)id, out_insn->pc = pc, out_insn->n_words = n_words, out_insn->code = code + pc;
  for (int i = 0; i < info->n_operands; i++) {
    uint32_t n = 1;
    size_t n_words_of = 1;
    if (info->forms[i] == INSN_FORM_LIST) {
      if (w == end) return false;
      n_words_of = n = *w++;
    } else if (info->forms[i] == INSN_FORM_LONG) {
      n_words_of = 2;
    }
    if (n_words_of > (size_t)(end - w)) return false;
    out_insn->operands[i] = (insn_operand){w, n};
    w += n_words_of;
  }
  return w == end;
}

int insn_operand_named(insn_id id, const char *name) {
  for (int i = 0; i < insn_table[id].n_operands; i++)
    if (strcmp(insn_table[id].names[i], name) == 0) return i;
  return -1;
}
