/* The verifier's notes on the current function, and the rejection of an instruction. The passes over a function are
 * called by verify.c: verify_code.c checks each instruction by itself; verify_flow.c follows the states of registers
 * (verify_state.c) along every path; verify_shaped.c follows operands from `shape` to `invoke`. */
#ifndef LOADER_VERIFIER_H_
#define LOADER_VERIFIER_H_

#include "base/vec.h"
#include "bytecode/operands.h"
#include "loader/rules.h"
#include "loader/verify_state.h"
#include "ops/op.h"

typedef struct block {
  uint32_t begin;
  state *states; /* of the registers at the block's beginning; NULL: no path has reached it yet, or it needs no other
                    visit */
  bool dirty;
} block;

/* Marks of the words of the function's code. */
#define MARK_START 1u  /* an instruction begins */
#define MARK_LEADER 2u /* a basic block begins */

typedef struct verifier {
  const module *m;
  reed_diagnosis *diagnosis;
  const int *cancel; /* base/cancel.h */
  /* site << 32 | input, for each `shape` whose flag asks for elements that the operator's row does not read (older rows
   * did); sorted after the function's code has been checked. */
  VEC_OF(uint64_t) asked;
  uint32_t n_epochs_seen;
  /* ---- of the current function ---- */
  uint32_t number;
  const module_function *f;
  const uint32_t *code;
  uint8_t *marks;
  uint32_t *places;   /* 0 outside of epochs, 2e + 1 in the shape section of epoch e, 2e + 2 in its run section */
  uint32_t *block_of; /* per word that is a leader: its block */
  block *blocks;
  uint32_t n_blocks;
  bool loops;    /* some jump leads backwards */
  state *states; /* at the current instruction: n_r references, then n_s scalars */
  size_t n_states;
  size_t n_fetching; /* registers being fetched */
} verifier;

#define PLACE_OUTSIDE 0u
static inline bool place_is_shape(uint32_t place) { return place & 1; }
static inline bool place_is_run(uint32_t place) { return place && !(place & 1); }
/* The epoch of a place, + 1; 0: outside of epochs. */
static inline uint32_t place_stamp(uint32_t place) { return (place + 1) / 2; }

/* The device operand of an instruction; 0 (the host) if it has none. */
int32_t verify_device(const insn *in);
/* The number of the call site of `shape` and `invoke`, and the declaration of its operator. */
uint32_t verify_site(const insn *in);
const reed_op *verify_operator(const verifier *v, const insn *in);

/* Rejects an instruction because of an operand (NULL: no single operand) and an item of its list (-1: not a list). */
reed_status verify_fail(const verifier *v, verify_rule rule, const insn *in, const char *operand, int64_t item,
                        const char *format, ...) REED_PRINTF(6, 7) REED_MUST_CHECK;

#endif
