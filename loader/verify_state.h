/* The state of a register at a place of the code, and the join of two states where paths meet. Not here: the effect of
 * each instruction on the state (verify_flow.c). */
#ifndef LOADER_VERIFY_STATE_H_
#define LOADER_VERIFY_STATE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytecode/module.h"

typedef enum state_kind {
  STATE_UNDEFINED,      /* some path has not defined the register */
  STATE_DEAD,           /* killed on every path */
  STATE_MIXED,          /* defined on every path, but with kinds or devices that do not agree: unusable */
  STATE_MIXED_FETCHING, /* as MIXED, and being fetched on some path */
  STATE_NONE,
  STATE_SHAPED,
  STATE_BOUNDED, /* shaped at a bound: a kernel of this epoch reports the extent */
  STATE_FRESH,   /* has memory that no kernel has filled: readable, and a kernel may write it */
  STATE_STORED,
  STATE_PENDING, /* on some path its kernel has reported an extent that was not fetched */
  STATE_FETCHING,
  STATE_OBJECT,
  STATE_ANY, /* complete, kind and device unknown */
  STATE_SCALAR
} state_kind;

/* A state's bits: kind, whether the register may hold none instead, device, whether the elements follow from the
 * epoch's keys, and the epoch (+ 1) that may read the register. */
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
/* A stored tensor or an object on every path, never none. */
bool state_is_complete(state s);
bool state_is_tensor(state s); /* stored, on a known device */
/* The state of a register where two paths meet. */
state state_join(state a, state b);
/* Describes a state for a diagnosis, in `out`: "a stored tensor on the host". */
const char *state_text(state s, char *out, size_t capacity);

#endif
