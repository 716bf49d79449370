/* Which instructions of function main name which r register, and the walk along a register's paths. Made once for a
 * program while it opens, for residence.h and growth.h; dropped afterwards. */
#ifndef VM_MENTIONS_H_
#define VM_MENTIONS_H_

#include "base/vec.h"
#include "bytecode/insn.h"
#include "bytecode/module.h"

typedef struct mentions {
  const module *m;
  const uint32_t *code; /* main's */
  uint32_t n_code;
  uint32_t *first;            /* per r register, and one more: the place in `pcs` of its first instruction */
  uint32_t *pcs;              /* ascending for each register */
  VEC_OF(uint32_t) turns;     /* instructions after which the next one need not follow; ascending */
  VEC_OF(uint32_t) readbacks; /* ascending */
  uint8_t *seen;              /* of a walk: per mention of its register, then per turn */
  VEC_OF(uint32_t) work;      /* of a walk: targets of jumps */
} mentions;

/* False: no memory. *out is to be closed in any case. */
bool mentions_find(const module *m, mentions *out);
void mentions_fini(mentions *found);

/* Called for an instruction that names the register. Returns true if the walk goes on after the instruction. */
typedef bool mentions_visit(void *context, const insn *in);
/* Visits the instructions that name the register, each once, on every path from the instruction at pc on. False: no
 * memory. */
bool mentions_walk(mentions *found, uint32_t reg, uint32_t pc, mentions_visit *visit, void *context);

/* How often an operand names the register, and the flags of all these operand words. */
typedef struct mentions_of {
  uint32_t n, reads;
} mentions_of;
mentions_of mentions_in(const insn *in, int operand, uint32_t reg);

#endif
