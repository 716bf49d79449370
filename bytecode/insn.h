/* Opcodes and operand roles, expanded from insn.def, and the one decoder that verifier, disassembler and tools walk
 * code with. */
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

/* The roles of insn.def's operands: how each is encoded (WORD one word, LONG two, LIST a count and words), and what it
 * says. References first, then scalars, then what is no register. */
#define INSN_ROLE_LIST(X) \
  X(RD_SHAPED, WORD, "defines r: extents known, no memory") \
  X(RD_STORED, WORD, "defines r: a tensor with memory") \
  X(RD_OBJECT, WORD, "defines r: ADT, closure or sequence") \
  X(RD_ANY, WORD, "defines r: complete, its kind known only at run time") \
  X(RD_NONE, WORD, "defines r: none, an absent optional") \
  X(RD_FETCH, WORD, "defines r: a host tensor, being fetched until the next `sync`") \
  X(RX_ALLOC, WORD, "r: shaped -> allocated") \
  X(RX_FILL, WORD, "r: shaped (for `copy` outside of epochs also allocated) -> stored") \
  X(RX_EXTENT, WORD, "r: pending or stored -> being fetched until the next `sync`") \
  X(RX_KILL, WORD, "r: anything but undefined or being fetched -> dead") \
  X(RX_PUSH, WORD, "r: a sequence, changed in place") \
  X(RU_ANY, WORD, "reads r: complete (a stored tensor or an object)") \
  X(RU_SHAPE, WORD, "reads r: a tensor with known extents") \
  X(RU_TENSOR, WORD, "reads r: a stored tensor on any device") \
  X(RU_HOST, WORD, "reads r: a stored tensor on the host") \
  X(RU_OBJECT, WORD, "reads r: an object") \
  X(RU_MAYBE, WORD, "reads r: complete or none") \
  X(RDS_SHAPED, LIST, "defines each r: extents known, no memory; `_`: an output that is not wanted") \
  X(RDS_ANY, LIST, "defines each r: complete") \
  X(RUS_ANY, LIST, "reads each r: complete") \
  X(RFS_IN, LIST, \
    "reads each r as its flag says: `shape` (or `none`) its extents, `value` and `both` a stored tensor on the host; " \
    "`_`: an absent input") \
  X(RUS_KERNEL, LIST, \
    "reads each r: what the operator reads as `value` on the host, the others on the instruction's device; `_`: an " \
    "absent input") \
  X(RXS_KERNEL, LIST, \
    "each r: shaped or allocated -> stored, or pending where the operator's output is bounded; `_`: an output that " \
    "is not wanted") \
  X(SD, WORD, "defines s") \
  X(SU, WORD, "reads s") \
  X(SDS, LIST, "defines each s") \
  X(SUS, LIST, "reads each s") \
  X(IMM, LONG, "a 64-bit integer") \
  X(INDEX, WORD, "a number below 2^24 - 1: an axis, a field, a tag, an input") \
  X(DTYPE, WORD, "a dtype") \
  X(LABEL, WORD, "an instruction of the function, by its word") \
  X(LABELS, LIST, "instructions of the function") \
  X(FUNC, WORD, "a function") \
  X(TYPE, WORD, "a type") \
  X(CONST, WORD, "a constant") \
  X(SITE, WORD, "a call site: an operator with its attributes and its node's name") \
  X(STR, WORD, "a string") \
  X(DEV, WORD, "a module device: 0 the host, 1 the accelerator") \
  X(REASON, WORD, "why a copy is made") \
  X(EPOCH, WORD, "an epoch")

typedef enum insn_role {
#define INSN_ROLE_ENUM_(name, form, text) INSN_ROLE_##name,
  INSN_ROLE_LIST(INSN_ROLE_ENUM_)
#undef INSN_ROLE_ENUM_
      INSN_ROLE_COUNT
} insn_role;

typedef enum insn_form { INSN_FORM_WORD, INSN_FORM_LONG, INSN_FORM_LIST } insn_form;
typedef enum insn_flow {
  INSN_FLOW_NEXT,
  INSN_FLOW_JUMP,
  INSN_FLOW_BRANCH,
  INSN_FLOW_CALL,
  INSN_FLOW_RETURN,
  INSN_FLOW_FAIL
} insn_flow;

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
const char *insn_role_text(insn_role role);
/* Which bank of registers a role's words name, if any (by the order of INSN_ROLE_LIST). */
static inline bool insn_role_is_reference(insn_role role) { return role <= INSN_ROLE_RXS_KERNEL; }
static inline bool insn_role_is_scalar(insn_role role) { return role >= INSN_ROLE_SD && role <= INSN_ROLE_SUS; }

/* One decoded instruction: operand i is words[0..n) for lists, words[0] for a word, words[0..1] for a long. Borrows the
 * code. */
typedef struct insn_operand {
  const uint32_t *words;
  uint32_t n; /* items of a list; else 1 */
} insn_operand;
typedef struct insn {
  insn_id id;
  uint32_t pc, n_words;
  insn_operand operands[INSN_MAX_OPERANDS];
} insn;

/* Decodes the instruction at `pc` of n_code words: false when the opcode is unknown or anything reaches past the end or
 * the stated length is not exactly what the operands take. Checks nothing else. */
bool insn_decode(const uint32_t *code, uint32_t n_code, uint32_t pc, insn *out_insn);
static inline int64_t insn_long(const insn_operand *o) { return (int64_t)((uint64_t)o->words[1] << 32 | o->words[0]); }

/* RFS_IN items. */
#define INSN_REGISTER(item) ((item)&0xffffffu)
#define INSN_READS(item) ((item) >> 24)

#endif
