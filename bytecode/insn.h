/* Opcodes and operand roles, expanded from insn.def, and the one decoder that verifier, disassembler and tools walk code with. */
#ifndef BYTECODE_INSN_H_
#define BYTECODE_INSN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum insn_id {
#define INSN(id, mnemonic, flow, effect, ...) INSN_##id,
#include "bytecode/insn.def"
  INSN_COUNT
} insn_id;

/* The roles of insn.def's operands, and how each is encoded: WORD one word, LONG two, LIST a count and words. */
#define INSN_ROLE_LIST(X)                                                                                                                     \
  X(RD_SHAPED, WORD) X(RD_STORED, WORD) X(RD_OBJECT, WORD) X(RD_ANY, WORD) X(RD_NONE, WORD) X(RD_FETCH, WORD)                                  \
  X(RX_ALLOC, WORD) X(RX_FILL, WORD) X(RX_EXTENT, WORD) X(RX_KILL, WORD) X(RX_PUSH, WORD)                                                      \
  X(RU_ANY, WORD) X(RU_SHAPE, WORD) X(RU_TENSOR, WORD) X(RU_HOST, WORD) X(RU_OBJECT, WORD) X(RU_MAYBE, WORD)                                   \
  X(RDS_SHAPED, LIST) X(RDS_ANY, LIST) X(RUS_ANY, LIST) X(RFS_IN, LIST) X(RUS_KERNEL, LIST) X(RXS_KERNEL, LIST)                                \
  X(SD, WORD) X(SU, WORD) X(SDS, LIST) X(SUS, LIST) X(IMM, LONG) X(INDEX, WORD) X(DTYPE, WORD) X(LABEL, WORD) X(LABELS, LIST)                 \
  X(FUNC, WORD) X(TYPE, WORD) X(CONST, WORD) X(SITE, WORD) X(STR, WORD) X(DEV, WORD) X(REASON, WORD) X(EPOCH, WORD)

typedef enum insn_role {
#define INSN_ROLE_ENUM_(name, form) INSN_ROLE_##name,
  INSN_ROLE_LIST(INSN_ROLE_ENUM_)
#undef INSN_ROLE_ENUM_
  INSN_ROLE_COUNT
} insn_role;

typedef enum insn_form { INSN_FORM_WORD, INSN_FORM_LONG, INSN_FORM_LIST } insn_form;
typedef enum insn_flow { INSN_FLOW_NEXT, INSN_FLOW_JUMP, INSN_FLOW_BRANCH, INSN_FLOW_CALL, INSN_FLOW_RETURN, INSN_FLOW_FAIL } insn_flow;

#define INSN_MAX_OPERANDS 8

typedef struct insn_info {
  const char *mnemonic, *effect;
  insn_flow flow;
  int n_operands;
  insn_role roles[INSN_MAX_OPERANDS];
  const char *names[INSN_MAX_OPERANDS];
} insn_info;

extern const insn_info insn_table[INSN_COUNT];
insn_form insn_role_form(insn_role role);
const char *insn_role_name(insn_role role);
/* Which bank of registers a role's words name, if any (by the order of INSN_ROLE_LIST). */
static inline bool insn_role_is_reference(insn_role role) { return role <= INSN_ROLE_RXS_KERNEL; }
static inline bool insn_role_is_scalar(insn_role role) { return role >= INSN_ROLE_SD && role <= INSN_ROLE_SUS; }

/* One decoded instruction: operand i is words[0..n) for lists, words[0] for a word, words[0..1] for a long. Borrows the code. */
typedef struct insn_operand {
  const uint32_t *words;
  uint32_t n; /* items of a list; else 1 */
} insn_operand;
typedef struct insn {
  insn_id id;
  uint32_t pc, n_words;
  insn_operand operands[INSN_MAX_OPERANDS];
} insn;

/* Decodes the instruction at `pc` of n_code words: false when the opcode is unknown or anything reaches past the end or the stated length is not
 * exactly what the operands take. Checks nothing else. */
bool insn_decode(const uint32_t *code, uint32_t n_code, uint32_t pc, insn *out_insn);
static inline int64_t insn_long(const insn_operand *o) { return (int64_t)((uint64_t)o->words[1] << 32 | o->words[0]); }

/* RFS_IN items. */
#define INSN_REGISTER(item) ((item) & 0xffffffu)
#define INSN_READS(item) ((item) >> 24)

#endif
