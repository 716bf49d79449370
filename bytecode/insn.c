/* The instruction table, expanded from insn.def, and the decoder. */
#include "bytecode/insn.h"

/* Every role of insn.def is one OPERAND, whatever that means at the time. */
#define RD_SHAPED(name) OPERAND(RD_SHAPED, name)
#define RD_STORED(name) OPERAND(RD_STORED, name)
#define RD_OBJECT(name) OPERAND(RD_OBJECT, name)
#define RD_ANY(name) OPERAND(RD_ANY, name)
#define RD_NONE(name) OPERAND(RD_NONE, name)
#define RD_FETCH(name) OPERAND(RD_FETCH, name)
#define RX_ALLOC(name) OPERAND(RX_ALLOC, name)
#define RX_FILL(name) OPERAND(RX_FILL, name)
#define RX_EXTENT(name) OPERAND(RX_EXTENT, name)
#define RX_KILL(name) OPERAND(RX_KILL, name)
#define RX_PUSH(name) OPERAND(RX_PUSH, name)
#define RU_ANY(name) OPERAND(RU_ANY, name)
#define RU_SHAPE(name) OPERAND(RU_SHAPE, name)
#define RU_TENSOR(name) OPERAND(RU_TENSOR, name)
#define RU_HOST(name) OPERAND(RU_HOST, name)
#define RU_OBJECT(name) OPERAND(RU_OBJECT, name)
#define RU_MAYBE(name) OPERAND(RU_MAYBE, name)
#define RDS_SHAPED(name) OPERAND(RDS_SHAPED, name)
#define RDS_ANY(name) OPERAND(RDS_ANY, name)
#define RUS_ANY(name) OPERAND(RUS_ANY, name)
#define RFS_IN(name) OPERAND(RFS_IN, name)
#define RUS_KERNEL(name) OPERAND(RUS_KERNEL, name)
#define RXS_KERNEL(name) OPERAND(RXS_KERNEL, name)
#define SD(name) OPERAND(SD, name)
#define SU(name) OPERAND(SU, name)
#define SDS(name) OPERAND(SDS, name)
#define SUS(name) OPERAND(SUS, name)
#define IMM(name) OPERAND(IMM, name)
#define INDEX(name) OPERAND(INDEX, name)
#define DTYPE(name) OPERAND(DTYPE, name)
#define LABEL(name) OPERAND(LABEL, name)
#define LABELS(name) OPERAND(LABELS, name)
#define FUNC(name) OPERAND(FUNC, name)
#define TYPE(name) OPERAND(TYPE, name)
#define CONST(name) OPERAND(CONST, name)
#define SITE(name) OPERAND(SITE, name)
#define STR(name) OPERAND(STR, name)
#define DEV(name) OPERAND(DEV, name)
#define REASON(name) OPERAND(REASON, name)
#define EPOCH(name) OPERAND(EPOCH, name)

const insn_info insn_table[INSN_COUNT] = {
#define OPERAND(role, name) INSN_ROLE_##role,
#define INSN(id, text, flow_, effect_, ...) \
  [INSN_##id].mnemonic = text, [INSN_##id].effect = effect_, [INSN_##id].flow = INSN_FLOW_##flow_, \
  [INSN_##id].n_operands = (int)(sizeof((insn_role[]){__VA_ARGS__ INSN_ROLE_COUNT}) / sizeof(insn_role)) - 1, \
  [INSN_##id].roles = {__VA_ARGS__ INSN_ROLE_COUNT},
#include "bytecode/insn.def"
#undef OPERAND
#define OPERAND(role, name) #name,
#define INSN(id, text, flow_, effect_, ...) [INSN_##id].names = {__VA_ARGS__ 0},
#include "bytecode/insn.def"
#undef OPERAND
};

/* How one role is encoded. */
insn_form insn_role_form(insn_role role) {
  static const insn_form forms[INSN_ROLE_COUNT] = {
#define FORM_ROW(name, form, text) [INSN_ROLE_##name] = INSN_FORM_##form,
      INSN_ROLE_LIST(FORM_ROW)
#undef FORM_ROW
  };
  return forms[role];
}

/* "RD_SHAPED". Static storage. */
const char *insn_role_name(insn_role role) {
  static const char *const names[INSN_ROLE_COUNT] = {
#define NAME_ROW(name, form, text) [INSN_ROLE_##name] = #name,
      INSN_ROLE_LIST(NAME_ROW)
#undef NAME_ROW
  };
  return names[role];
}

/* What an operand of the role says, for documents. Static storage. */
const char *insn_role_text(insn_role role) {
  static const char *const texts[INSN_ROLE_COUNT] = {
#define TEXT_ROW(name, form, text) [INSN_ROLE_##name] = text,
      INSN_ROLE_LIST(TEXT_ROW)
#undef TEXT_ROW
  };
  return texts[role];
}

bool insn_decode(const uint32_t *code, uint32_t n_code, uint32_t pc, insn *out_insn) {
  if (pc >= n_code) return false;
  uint32_t id = code[pc] & 0xffff, n_words = code[pc] >> 16;
  if (id >= INSN_COUNT || n_words == 0 || n_words > n_code - pc) return false;
  const insn_info *info = &insn_table[id];
  const uint32_t *w = code + pc + 1, *end = code + pc + n_words;
  out_insn->id = (insn_id)id, out_insn->pc = pc, out_insn->n_words = n_words;
  for (int i = 0; i < info->n_operands; i++) {
    insn_operand *o = &out_insn->operands[i];
    size_t left = (size_t)(end - w), need = 1;
    switch (insn_role_form(info->roles[i])) {
      case INSN_FORM_WORD: *o = (insn_operand){w, 1}; break;
      case INSN_FORM_LONG:
        *o = (insn_operand){w, 1};
        need = 2;
        break;
      case INSN_FORM_LIST:
        if (left == 0) return false;
        *o = (insn_operand){w + 1, *w};
        need = (size_t)*w + 1;
        break;
    }
    if (need > left) return false;
    w += need;
  }
  return w == end;
}
