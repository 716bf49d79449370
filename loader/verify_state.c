/* Joins of register states where paths meet, and their texts. States only fall in a join, from one known kind through
 * "any of several" to "undefined", so that the data flow ends. The instructions that change states: verify_flow.c. */
#include <stdio.h>

#include "loader/verify_state.h"

static bool is_complete_kind(state_kind kind) {
  return kind == STATE_FRESH || kind == STATE_STORED || kind == STATE_OBJECT || kind == STATE_ANY;
}

bool state_is_complete(state s) { return is_complete_kind(state_kind_of(s)) && !(s & STATE_MAYBE); }

bool state_is_tensor(state s) {
  return (state_kind_of(s) == STATE_FRESH || state_kind_of(s) == STATE_STORED) && !(s & STATE_MAYBE);
}

/* Kinds and devices of two states that are neither undefined, fetching, none nor possibly none. */
static state join_whole(state a, state b) {
  state_kind ka = state_kind_of(a), kb = state_kind_of(b);
  bool same_device = state_device(a) == state_device(b), memory_a = ka == STATE_FRESH || ka == STATE_STORED,
       memory_b = kb == STATE_FRESH || kb == STATE_STORED;
  if (ka == kb && same_device) return state_make(ka, state_device(a));
  if (memory_a && memory_b && same_device) return state_make(STATE_STORED, state_device(a));
  if (is_complete_kind(ka) && is_complete_kind(kb)) return state_make(STATE_ANY, 0);
  if (same_device && ((ka == STATE_BOUNDED && kb == STATE_SHAPED) || (kb == STATE_BOUNDED && ka == STATE_SHAPED)))
    return state_make(STATE_BOUNDED, state_device(a));
  if (same_device && ((ka == STATE_PENDING && memory_b) || (kb == STATE_PENDING && memory_a)))
    return state_make(STATE_PENDING, state_device(a));
  return state_make(STATE_MIXED, 0);
}

static state join_kinds(state a, state b) {
  state_kind ka = state_kind_of(a), kb = state_kind_of(b);
  if (state_is_fetching(a) || state_is_fetching(b))
    return ka == kb && state_device(a) == state_device(b) ? state_make(ka, state_device(a))
                                                          : state_make(STATE_MIXED_FETCHING, 0);
  if (ka == STATE_DEAD && kb == STATE_DEAD) return state_make(STATE_DEAD, 0);
  if (ka <= STATE_DEAD || kb <= STATE_DEAD) return state_make(STATE_UNDEFINED, 0);
  if (ka == STATE_NONE && kb == STATE_NONE) return state_make(STATE_NONE, 0);
  if (ka == STATE_NONE)
    return is_complete_kind(kb) ? state_make(kb, state_device(b)) | STATE_MAYBE : state_make(STATE_MIXED, 0);
  if (kb == STATE_NONE)
    return is_complete_kind(ka) ? state_make(ka, state_device(a)) | STATE_MAYBE : state_make(STATE_MIXED, 0);
  state whole = join_whole(a, b), maybe = (a | b) & STATE_MAYBE;
  return maybe && !is_complete_kind(state_kind_of(whole)) ? state_make(STATE_MIXED, 0) : whole | maybe;
}

state state_join(state a, state b) {
  if (a == b) return a;
  return state_stamped(join_kinds(a, b) | (a & b & STATE_KNOWN), state_stamp(a) == state_stamp(b) ? state_stamp(a) : 0);
}

const char *state_text(state s, char *out, size_t capacity) {
  static const char *const texts[] = {
      [STATE_UNDEFINED] = "not defined on every path",
      [STATE_DEAD] = "dead",
      [STATE_MIXED] = "something else on another path",
      [STATE_MIXED_FETCHING] = "being fetched on some path",
      [STATE_NONE] = "none",
      [STATE_SHAPED] = "a shaped tensor without memory",
      [STATE_BOUNDED] = "a tensor without memory whose extent its kernel reports",
      [STATE_FRESH] = "an allocated tensor",
      [STATE_STORED] = "a stored tensor",
      [STATE_PENDING] = "a tensor whose extent has not been fetched",
      [STATE_FETCHING] = "being fetched until the next sync",
      [STATE_OBJECT] = "an object",
      [STATE_ANY] = "complete, but of a kind known only at run time",
      [STATE_SCALAR] = "a scalar",
  };
  state_kind kind = state_kind_of(s);
  bool on_device = kind == STATE_SHAPED || kind == STATE_BOUNDED || kind == STATE_FRESH || kind == STATE_STORED ||
                   kind == STATE_PENDING;
  snprintf(out, capacity, "%s%s%s", s & STATE_MAYBE ? "possibly none, else " : "", texts[kind],
           !on_device        ? ""
           : state_device(s) ? " on the device"
                             : " on the host");
  return out;
}
