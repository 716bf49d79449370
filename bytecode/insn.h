/* Opcodes, operand roles, the instruction table, and the one generic decoder. Operands of a known instruction by name:
 * bytecode/operands.h. The instructions themselves: insn.def. */
#ifndef BYTECODE_INSN_H_
#define BYTECODE_INSN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum insn_id {
#define INSN(id, ...) INSN_##id,
#include "bytecode/insn.def"
  INSN_COUNT
} insn_id;

/* ---- roles ----
 * X(ROLE, BANK, ABSENCE, FLAG, "meaning of an operand with the role")
 *   BANK     R: the operand's words name registers of references; S: registers of scalars; N: no registers
 *   ABSENCE  GIVEN: always a register; OPTIONAL: `_` (MODULE_ABSENT) may stand for a register
 *   FLAG     PLAIN: a word is the register's number; FLAGGED: register | reads << 24 (INSN_REGISTER, INSN_READS)
 * The roles are in four lists. A switch over roles without a default expands the lists that it ignores to cases. */
#define INSN_DEFINING_ROLES(X) \
  X(RD_SHAPED, R, GIVEN, PLAIN, "defines r: extents known, no memory") \
  X(RD_STORED, R, GIVEN, PLAIN, "defines r: a tensor with memory") \
  X(RD_OBJECT, R, GIVEN, PLAIN, "defines r: ADT, closure or sequence") \
  X(RD_ANY, R, GIVEN, PLAIN, "defines r: a stored tensor or an object, known at run time only") \
  X(RD_NONE, R, GIVEN, PLAIN, "defines r: none, an absent optional") \
  X(RD_FETCH, R, GIVEN, PLAIN, "defines r: a host tensor, being fetched until the next `sync`") \
  X(RD_OUTPUT, R, OPTIONAL, PLAIN, "defines r: extents known, no memory; `_`: an output that is not wanted") \
  X(SD, S, GIVEN, PLAIN, "defines s")
#define INSN_CHANGING_ROLES(X) \
  X(RX_ALLOC, R, GIVEN, PLAIN, "r: shaped -> allocated") \
  X(RX_FILL, R, GIVEN, PLAIN, "r: shaped (for `copy` outside of epochs also allocated) -> stored") \
  X(RX_EXTENT, R, GIVEN, PLAIN, "r: pending or stored -> being fetched until the next `sync`") \
  X(RX_KILL, R, GIVEN, PLAIN, "r: any state but undefined and being fetched -> dead") \
  X(RX_PUSH, R, GIVEN, PLAIN, "r: a sequence, changed in place") \
  X(RX_KERNEL, R, OPTIONAL, PLAIN, \
    "r: shaped or allocated -> stored, or pending where the operator's output is bounded; `_`: an output that is not " \
    "wanted")
#define INSN_READING_ROLES(X) \
  X(RU_ANY, R, GIVEN, PLAIN, "reads r: complete (a stored tensor or an object)") \
  X(RU_SHAPE, R, GIVEN, PLAIN, "reads r: a tensor with known extents") \
  X(RU_TENSOR, R, GIVEN, PLAIN, "reads r: a stored tensor on any device") \
  X(RU_HOST, R, GIVEN, PLAIN, "reads r: a stored tensor on the host") \
  X(RU_OBJECT, R, GIVEN, PLAIN, "reads r: an object") \
  X(RU_MAYBE, R, GIVEN, PLAIN, "reads r: complete or none") \
  X(RU_KERNEL, R, OPTIONAL, PLAIN, \
    "reads r: a stored tensor, on the host if the operator's row reads the input as `value`, else on the " \
    "instruction's " \
    "device; `_`: an absent input") \
  X(RF_INPUT, R, OPTIONAL, FLAGGED, \
    "reads r by its flag: `shape` (or `none`) the extents, `value` and `both` the elements of a stored host tensor; " \
    "`_`: an absent input") \
  X(RF_KEY, R, GIVEN, FLAGGED, \
    "reads r, a stored tensor, by its flag: `shape` (or `none`) the extents, `value` and `both` the elements on the " \
    "host") \
  X(SU, S, GIVEN, PLAIN, "reads s")
#define INSN_NAMING_ROLES(X) \
  X(IMM, N, GIVEN, PLAIN, "a 64-bit integer") \
  X(INDEX, N, GIVEN, PLAIN, "a number below 2^24 - 1: an axis, a field, a tag, an input") \
  X(DTYPE, N, GIVEN, PLAIN, "a dtype") \
  X(LABEL, N, GIVEN, PLAIN, "an instruction of the function, by the number of its word") \
  X(FUNC, N, GIVEN, PLAIN, "a function") \
  X(TYPE, N, GIVEN, PLAIN, "a type") \
  X(CONST, N, GIVEN, PLAIN, "a constant") \
  X(SITE, N, GIVEN, PLAIN, "a call site: an operator with its attributes and its node's name") \
  X(STR, N, GIVEN, PLAIN, "a string") \
  X(DEV, N, GIVEN, PLAIN, "a module device: 0 is the host, 1 and more are accelerators") \
  X(REASON, N, GIVEN, PLAIN, "the reason of a copy") \
  X(EPOCH, N, GIVEN, PLAIN, "an epoch")
#define INSN_REGISTER_ROLES(X) INSN_DEFINING_ROLES(X) INSN_CHANGING_ROLES(X) INSN_READING_ROLES(X)
#define INSN_ROLE_LIST(X) INSN_REGISTER_ROLES(X) INSN_NAMING_ROLES(X)
/* Expands a list to the cases of a switch. */
#define INSN_ROLE_CASE(role, ...) case INSN_ROLE_##role:

typedef enum insn_role {
#define INSN_ROLE_ENUM_(role, ...) INSN_ROLE_##role,
  INSN_ROLE_LIST(INSN_ROLE_ENUM_)
#undef INSN_ROLE_ENUM_
      INSN_ROLE_COUNT
} insn_role;

/* Expands a class of insn.def to the cases of a switch. */
#define INSN_CASE(id, ...) case INSN_##id:

typedef enum insn_bank { INSN_BANK_R, INSN_BANK_S, INSN_BANK_N } insn_bank;
typedef enum insn_absence { INSN_ABSENCE_GIVEN, INSN_ABSENCE_OPTIONAL } insn_absence;
typedef enum insn_flag { INSN_FLAG_PLAIN, INSN_FLAG_FLAGGED } insn_flag;

typedef struct insn_role_info {
  const char *name, *text;
  insn_bank bank;
  bool optional, flagged;
} insn_role_info;

extern const insn_role_info insn_roles[INSN_ROLE_COUNT];

/* ---- instructions ---- */

typedef enum insn_form { INSN_FORM_ONE, INSN_FORM_LONG, INSN_FORM_LIST } insn_form;
typedef enum insn_flow {
  INSN_FLOW_NEXT,
  INSN_FLOW_JUMP,
  INSN_FLOW_BRANCH,
  INSN_FLOW_CALL,
  INSN_FLOW_RETURN,
  INSN_FLOW_FAIL
} insn_flow;
/* Sets of places where an instruction may stand (PLACES in insn.def): unions of O, S and R. */
typedef enum insn_places {
  INSN_PLACES_O = 1, /* outside of epochs */
  INSN_PLACES_S = 2, /* in a shape section */
  INSN_PLACES_R = 4, /* in a run section */
  INSN_PLACES_OS = INSN_PLACES_O | INSN_PLACES_S,
  INSN_PLACES_OR = INSN_PLACES_O | INSN_PLACES_R,
  INSN_PLACES_OSR = INSN_PLACES_O | INSN_PLACES_S | INSN_PLACES_R
} insn_places;
typedef enum insn_shares {
  INSN_SHARES_NONE,
  INSN_SHARES_REFERENCE,
  INSN_SHARES_MEMORY,
  INSN_SHARES_DEVICE,
  INSN_SHARES_OPERATOR
} insn_shares;

#define INSN_MAX_OPERANDS 8

typedef struct insn_info {
  const char *mnemonic, *effect;
  insn_flow flow;
  insn_places places;
  insn_shares shares;
  int n_operands;
  insn_role roles[INSN_MAX_OPERANDS];
  insn_form forms[INSN_MAX_OPERANDS];
  const char *names[INSN_MAX_OPERANDS];
} insn_info;

extern const insn_info insn_table[INSN_COUNT];

/* The id and the length in words of the instruction that begins at `w`. */
static inline insn_id insn_id_at(const uint32_t *w) { return (insn_id)(w[0] & 0xffff); }
static inline uint32_t insn_length_at(const uint32_t *w) { return w[0] >> 16; }
static inline const uint32_t *insn_next(const uint32_t *w) { return w + insn_length_at(w); }

/* One decoded instruction: operand i is words[0..n) for a list, words[0] for a word, words[0..1] for a long. Borrows
 * the code. */
typedef struct insn_operand {
  const uint32_t *words;
  uint32_t n; /* items of a list; else 1 */
} insn_operand;
typedef struct insn {
  insn_id id;
  uint32_t pc, n_words;
  const uint32_t *code; /* its first word */
  insn_operand operands[INSN_MAX_OPERANDS];
} insn;

/* Decodes the instruction at `pc` of n_code words: false if the opcode is unknown, the instruction reaches past the
 * end, or its stated length is not the length of its operands. Checks nothing else. */
bool insn_decode(const uint32_t *code, uint32_t n_code, uint32_t pc, insn *out_insn);
static inline int64_t insn_long(const insn_operand *o) { return (int64_t)((uint64_t)o->words[1] << 32 | o->words[0]); }
/* The number of the operand that the table calls `name`; -1: the instruction has none. */
int insn_operand_named(insn_id id, const char *name);

/* The two parts of a word of a FLAGGED role. */
#define INSN_REGISTER(item) ((item)&0xffffffu)
#define INSN_READS(item) ((item) >> 24)

#endif
