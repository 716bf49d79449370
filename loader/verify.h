/* Inside the verifier. verify_code.c looks at each instruction by itself; verify_flow.c follows the states of registers
 * (verify_state.c) along every path; verify_shaped.c follows operands from `shape` to `invoke`; verify.c makes the
 * messages. */
#ifndef LOADER_VERIFY_H_
#define LOADER_VERIFY_H_

#include "base/vec.h"
#include "bytecode/operands.h"
#include "loader/loader.h"
#include "loader/rules.h"

/* ---- what a register holds ---- */

typedef enum state_kind {
  STATE_UNDEFINED,      /* not defined on some path */
  STATE_DEAD,           /* killed on every path */
  STATE_MIXED,          /* defined on every path, but nothing that could be used */
  STATE_MIXED_FETCHING, /* as MIXED, and being fetched on some path */
  STATE_NONE,
  STATE_SHAPED,
  STATE_FRESH, /* has memory that nothing has filled: readable, and a kernel may write it */
  STATE_STORED,
  STATE_PENDING, /* on some path its kernel has reported an extent that was not fetched */
  STATE_FETCHING,
  STATE_OBJECT,
  STATE_ANY, /* complete, kind and device unknown */
  STATE_SCALAR
} state_kind;

/* kind, whether it may be none instead, device, whether its elements follow from the epoch's keys, and the epoch (+ 1)
 * that may read it. */
typedef uint32_t state;
#define STATE_MAYBE 0x10u
#define STATE_DEVICE_SHIFT 5
#define STATE_DEVICE_MASK 0xfu
#define STATE_KNOWN 0x200u
#define STATE_STAMP_SHIFT 10
_Static_assert(MODULE_MAX_DEVICES <= STATE_DEVICE_MASK + 1, "a state names any device");
static inline state_kind state_kind_of(state s) { return (state_kind)(s & 0xf); }
static inline int32_t state_device(state s) { return (int32_t)(s >> STATE_DEVICE_SHIFT & STATE_DEVICE_MASK); }
static inline uint32_t state_stamp(state s) { return s >> STATE_STAMP_SHIFT; }
static inline state state_make(state_kind kind, int32_t device) {
  return (state)kind | (state)device << STATE_DEVICE_SHIFT;
}
static inline state state_stamped(state s, uint32_t stamp) {
  return (s & ((1u << STATE_STAMP_SHIFT) - 1)) | stamp << STATE_STAMP_SHIFT;
}
static inline bool state_is_fetching(state s) {
  return state_kind_of(s) == STATE_FETCHING || state_kind_of(s) == STATE_MIXED_FETCHING;
}
/* A stored tensor or an object, and not possibly none. */
bool state_is_complete(state s);
bool state_is_tensor(state s); /* stored, on a known device */
/* What holds where two paths meet. */
state state_join(state a, state b);
/* "a stored tensor on the host" */
const char *state_text(state s, char *out, size_t capacity);

/* ---- the verifier ---- */

typedef struct block {
  uint32_t begin;
  state *states; /* at its beginning; NULL: not reached yet */
  bool dirty;
} block;

/* Per word of the function's code. */
#define MARK_START 1u  /* an instruction begins */
#define MARK_LEADER 2u /* a stretch begins */

typedef struct verifier {
  const module *m;
  reed_diagnosis *diagnosis;
  const reed_op **ops; /* per call site */
  VEC_OF(uint64_t)
  asked; /* site << 32 | input of the `shape` instructions whose flag asks for elements that the
            operator does not read (any more); sorted once a function's code has been checked */
  uint32_t n_epochs_seen;
  /* the function at hand */
  uint32_t number;
  const module_function *f;
  const uint32_t *code;
  uint8_t *marks;
  uint32_t *places;   /* 0 outside of epochs, 2e + 1 in the shape section of epoch e, 2e + 2 in its run section */
  uint32_t *block_of; /* at leaders */
  block *blocks;
  uint32_t n_blocks;
  state *states; /* now: n_r references, then n_s scalars */
  size_t n_states;
  size_t n_fetching; /* of them */
} verifier;

#define PLACE_OUTSIDE 0u
static inline bool place_is_shape(uint32_t place) { return place & 1; }
static inline bool place_is_run(uint32_t place) { return place && !(place & 1); }
/* Epoch + 1; 0 outside. */
static inline uint32_t place_stamp(uint32_t place) { return (place + 1) / 2; }

/* The device operand of an instruction; the host where it has none. */
int32_t verify_device(const insn *in);
/* The number of the call site of `shape` and `invoke`, and the declaration of its operator. */
uint32_t verify_site(const insn *in);
const reed_op *verify_operator(const verifier *v, const insn *in);

/* Rejects an instruction, for the operand of that name (NULL: none) and the item of its list (-1: not a list's). */
reed_status verify_fail(const verifier *v, verify_rule rule, const insn *in, const char *operand, int64_t item,
                        const char *format, ...) REED_PRINTF(6, 7) REED_MUST_CHECK;

/* Rules V20 to V24, V35 to V43 and V50 to V52 for one function: fills marks and places. */
reed_status verify_code(verifier *v) REED_MUST_CHECK;
/* Rules V25, V30 to V34, V41, V42, V53 to V55 for one function whose code has passed verify_code. */
reed_status verify_flow(verifier *v) REED_MUST_CHECK;
/* Rule V56 for the epochs of one function whose code has passed both; fills the module's epochs_shaped. */
reed_status verify_shaped(verifier *v) REED_MUST_CHECK;

#endif
