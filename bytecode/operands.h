/* Operands by name: for every instruction of insn.def a struct of its operands and the function that reads them from
 * code, both expanded from the table.
 *
 *      insn_invoke i = insn_invoke_at(w);  ->  i.site, i.device, i.n_outputs, i.outputs, i.n_inputs, i.inputs
 *
 * The code must have been decoded once (verified, or just emitted): nothing is checked here. A word operand is a
 * uint32_t, a long an int64_t, a list `x` a count `n_x` and a pointer into the code. */
#ifndef BYTECODE_OPERANDS_H_
#define BYTECODE_OPERANDS_H_

#include "bytecode/insn.h"

#define ONE(name, role) uint32_t name;
#define LONG(name, role) int64_t name;
#define LIST(name, role) \
  uint32_t n_##name; \
  const uint32_t *name;
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  typedef struct insn_##op { \
    const uint32_t *next; /* the instruction that follows in the code */ \
    __VA_ARGS__ \
  } insn_##op;
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST

#define ONE(name, role) i.name = *at++;
#define LONG(name, role) i.name = (int64_t)((uint64_t)at[1] << 32 | at[0]), at += 2;
#define LIST(name, role) i.n_##name = *at++, i.name = at, at += i.n_##name;
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  static inline insn_##op insn_##op##_at(const uint32_t *w) { \
    const uint32_t *at = w + 1; \
    insn_##op i; \
    __VA_ARGS__(void) at; \
    i.next = insn_next(w); \
    return i; \
  }
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST

/* The two registers that share memory, or may, after an instruction whose SHARES is REFERENCE, MEMORY or DEVICE. */
typedef struct insn_sharing {
  uint32_t dst, src;
} insn_sharing;
static inline bool insn_shares_src(insn_id id) {
  insn_shares shares = insn_table[id].shares;
  return shares == INSN_SHARES_REFERENCE || shares == INSN_SHARES_MEMORY || shares == INSN_SHARES_DEVICE;
}
/* All such instructions begin with the operands of a view (a test holds the table to it). */
static inline insn_sharing insn_sharing_at(const uint32_t *w) {
  insn_view i = insn_view_at(w);
  return (insn_sharing){i.dst, i.src};
}

#endif
