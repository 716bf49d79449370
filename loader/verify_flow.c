/* The state of every register along every path of a function: forward data flow to a fixpoint over the basic blocks
 * (stretches between jumps), with states kept at each block's beginning. The states and their join: verify_state.c.
 * Checks of single instructions without paths: verify_code.c. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "loader/verify_flow.h"
#include "ops/bound.h"

#define MAX_STATE_BYTES ((size_t)256 << 20)
#define MAX_VISITS 64 /* of a basic block, on average; loops nested less deep than this need fewer visits */

#define FAIL(rule, operand, item, ...) return verify_fail(v, rule, in, operand, item, __VA_ARGS__)

/* The requirement of an operand on a register that it reads. */
typedef enum want {
  WANT_COMPLETE, /* a stored tensor or an object */
  WANT_MAYBE,    /* or none */
  WANT_OBJECT,
  WANT_EXTENTS,   /* a shaped or stored tensor */
  WANT_TENSOR,    /* stored, on any device */
  WANT_ON_DEVICE, /* stored, on the device named */
  WANT_ASKED      /* the same, or of a kind known only at run time: the instruction asks for kind and device itself */
} want;

static const char *want_text(want w, int32_t device) {
  switch (w) {
    case WANT_COMPLETE: return "something complete";
    case WANT_MAYBE: return "something complete or none";
    case WANT_OBJECT: return "an object";
    case WANT_EXTENTS: return "a tensor with known extents";
    case WANT_TENSOR: return "a stored tensor";
    case WANT_ON_DEVICE:
    case WANT_ASKED: return device ? "a stored tensor on the device" : "a stored tensor on the host";
  }
  return "";
}

static uint32_t stamp_now(const verifier *v, const insn *in) { return place_stamp(v->places[in->pc]); }
static bool in_shape(const verifier *v, const insn *in) { return place_is_shape(v->places[in->pc]); }
static bool in_epoch(const verifier *v, const insn *in) { return v->places[in->pc] != PLACE_OUTSIDE; }

/* ---- reading ---- */

/* Complete, of a kind known only at run time: a field, an element, a closure's result. */
static bool is_unknown(state s) { return state_kind_of(s) == STATE_ANY && state_is_complete(s); }

static bool satisfies(state s, want w, int32_t device) {
  switch (w) {
    case WANT_COMPLETE: return state_is_complete(s);
    case WANT_MAYBE: return state_is_complete(s & ~STATE_MAYBE) || state_kind_of(s) == STATE_NONE;
    case WANT_OBJECT: /* the instruction checks the object's kind and size at run time */
      return is_unknown(s) || (state_is_complete(s) && state_kind_of(s) == STATE_OBJECT);
    case WANT_EXTENTS: return state_kind_of(s) == STATE_SHAPED || state_is_tensor(s) || is_unknown(s);
    case WANT_TENSOR: return state_is_tensor(s);
    case WANT_ON_DEVICE: return state_is_tensor(s) && state_device(s) == device;
    case WANT_ASKED: return (state_is_tensor(s) && state_device(s) == device) || is_unknown(s);
  }
  return false;
}

/* Fails unless the register is defined, is not being fetched and, inside an epoch, belongs to that epoch. */
static reed_status check_readable(const verifier *v, const insn *in, const char *operand, int64_t item, state s) {
  char text[96];
  state_kind kind = state_kind_of(s);
  if (kind == STATE_UNDEFINED || kind == STATE_DEAD || kind == STATE_MIXED)
    FAIL(RULE_UNDEFINED, operand, item, "the register is %s", state_text(s, text, sizeof text));
  if (state_is_fetching(s)) FAIL(RULE_FETCHING, operand, item, "the register is %s", state_text(s, text, sizeof text));
  if (in_epoch(v, in) && state_stamp(s) != stamp_now(v, in))
    FAIL(RULE_EPOCH_KEYS, operand, item,
         "epoch %u reads this register, which it has neither defined on every path nor among its keys",
         stamp_now(v, in) - 1);
  return REED_OK;
}

static reed_status need(const verifier *v, const insn *in, const char *operand, int64_t item, uint32_t reg, want w,
                        int32_t device) {
  state s = v->states[reg];
  reed_status status = check_readable(v, in, operand, item, s);
  if (status != REED_OK || satisfies(s, w, device)) return status;
  if (w == WANT_EXTENTS && state_kind_of(s) == STATE_BOUNDED) {
    if (!in_epoch(v, in)) return REED_OK; /* the call checks it at run time */
    FAIL(RULE_COUNT, operand, item, "its extent is reported by a kernel of this epoch and needed on the host here");
  }
  char text[96];
  verify_rule rule = (w == WANT_ON_DEVICE || w == WANT_ASKED) && state_is_tensor(s) ? RULE_DEVICE : RULE_STATE;
  FAIL(rule, operand, item, "the register is %s; %s is needed here", state_text(s, text, sizeof text),
       want_text(w, device));
}

/* Requires elements on the host. Inside an epoch they must also follow from the keys, because the host reads them
 * before the epoch's kernels run. */
static reed_status need_values(const verifier *v, const insn *in, const char *operand, int64_t item, uint32_t reg) {
  bool strict = in_epoch(v, in) || in->id == INSN_EPOCH_ENTER;
  reed_status status = need(v, in, operand, item, reg, strict ? WANT_ON_DEVICE : WANT_ASKED, 0);
  if (status != REED_OK || !in_epoch(v, in) || v->states[reg] & STATE_KNOWN) return status;
  FAIL(RULE_EPOCH_VALUES, operand, item,
       "its elements are read before the kernels of epoch %u run, but do not follow from the keys",
       stamp_now(v, in) - 1);
}

static int compare_numbers(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* True if the operator's row reads the input as a value, or the module flags the input so, because the row did when the
 * module was made. */
static bool reads_value(const verifier *v, const insn *in, int64_t item) {
  uint64_t key = (uint64_t)verify_site(in) << 32 | (uint64_t)item;
  return op_reads_value(verify_operator(v, in), &v->m->sites[verify_site(in)].attrs, (int32_t)item) ||
         (v->asked.n && bsearch(&key, v->asked.items, v->asked.n, sizeof key, compare_numbers));
}

/* An operand whose extent may be a bound: a kernel of the epoch reports the true extent. */
static reed_status use_bounded(const verifier *v, const insn *in, const char *operand, int64_t item, uint32_t reg) {
  reed_status status = check_readable(v, in, operand, item, v->states[reg]);
  if (status != REED_OK) return status;
  if (!bound_may_pass(verify_operator(v, in), (int32_t)item))
    FAIL(RULE_COUNT, operand, item, "its extent is reported by a kernel of this epoch; %s needs it on the host",
         verify_operator(v, in)->name);
  if (in->id == INSN_INVOKE && state_device(v->states[reg]) != verify_device(in))
    FAIL(RULE_DEVICE, operand, item, "the register is on another device");
  return REED_OK;
}

/* An input of `invoke`. */
static reed_status use_kernel_input(const verifier *v, const insn *in, const char *operand, int64_t item,
                                    uint32_t reg) {
  if (state_kind_of(v->states[reg]) == STATE_PENDING && in_epoch(v, in) && !in_shape(v, in))
    return use_bounded(v, in, operand, item, reg);
  if (op_has(verify_operator(v, in), REED_OP_EXTENTS_ONLY)) return need(v, in, operand, item, reg, WANT_EXTENTS, 0);
  if (reads_value(v, in, item) || in_shape(v, in)) {
    reed_status status = need_values(v, in, operand, item, reg);
    if (status != REED_OK) return status;
    return need(v, in, operand, item, reg, WANT_ON_DEVICE, 0); /* kernels do not check the kind */
  }
  return need(v, in, operand, item, reg, WANT_ON_DEVICE, verify_device(in));
}

/* The source of r.move or view. In a shape section its elements must follow from the keys, because the memo keeps the
 * target under them. A view in a shape section copies on the host, so its source must be a host tensor. */
static reed_status use_alias(const verifier *v, const insn *in, const char *operand, uint32_t reg, want w) {
  bool counted = in->id == INSN_VIEW && in_epoch(v, in) && !in_shape(v, in) &&
                 state_kind_of(v->states[reg]) == STATE_PENDING &&
                 state_kind_of(v->states[insn_view_at(in->code).dst]) == STATE_BOUNDED;
  if (counted) return check_readable(v, in, operand, -1, v->states[reg]);
  reed_status status = need(v, in, operand, -1, reg, w, 0);
  if (status != REED_OK || !in_shape(v, in)) return status;
  if (in->id == INSN_VIEW) return need_values(v, in, operand, -1, reg);
  if (!(v->states[reg] & STATE_KNOWN))
    FAIL(RULE_EPOCH_VALUES, operand, -1, "its elements do not follow from the keys of epoch %u", stamp_now(v, in) - 1);
  return REED_OK;
}

/* A register operand of a list whose item may be absent. */
static bool is_absent(uint32_t word) { return INSN_REGISTER(word) == MODULE_ABSENT; }

/* Checks the register that one operand item reads. The switch has no default, so that a role without a rule does not
 * compile. */
static reed_status use_item(const verifier *v, const insn *in, insn_role role, const char *operand, int64_t item,
                            uint32_t word) {
  switch (role) {
    case INSN_ROLE_RU_ANY:
      if (in->id == INSN_R_MOVE) return use_alias(v, in, operand, word, WANT_COMPLETE);
      return need(v, in, operand, item, word, WANT_COMPLETE, 0);
    case INSN_ROLE_RU_MAYBE: return need(v, in, operand, item, word, WANT_MAYBE, 0);
    case INSN_ROLE_RU_OBJECT: return need(v, in, operand, item, word, WANT_OBJECT, 0);
    case INSN_ROLE_RU_SHAPE: return need(v, in, operand, item, word, WANT_EXTENTS, 0);
    case INSN_ROLE_RU_TENSOR:
      if (!in_epoch(v, in) && is_unknown(v->states[word]))
        return REED_OK; /* copy, view and readback check the kind at run time */
      if (in->id == INSN_VIEW) return use_alias(v, in, operand, word, WANT_TENSOR);
      return need(v, in, operand, item, word, WANT_TENSOR, 0);
    case INSN_ROLE_RU_HOST: return need_values(v, in, operand, item, word);
    case INSN_ROLE_RF_INPUT:
      if (is_absent(word)) return REED_OK;
      if (INSN_READS(word) & REED_READS_VALUE) return need_values(v, in, operand, item, INSN_REGISTER(word));
      if (state_kind_of(v->states[INSN_REGISTER(word)]) == STATE_BOUNDED && in_epoch(v, in))
        return use_bounded(v, in, operand, item, INSN_REGISTER(word));
      return need(v, in, operand, item, INSN_REGISTER(word), WANT_EXTENTS, 0);
    case INSN_ROLE_RF_KEY:
      if (INSN_READS(word) & REED_READS_VALUE) return need_values(v, in, operand, item, INSN_REGISTER(word));
      return need(v, in, operand, item, INSN_REGISTER(word), WANT_TENSOR, 0);
    case INSN_ROLE_RU_KERNEL: return is_absent(word) ? REED_OK : use_kernel_input(v, in, operand, item, word);
    case INSN_ROLE_SU:
      return check_readable(v, in, operand, item, v->states[v->f->n_r + word]);
      INSN_DEFINING_ROLES(INSN_ROLE_CASE) /* define_item */
      INSN_CHANGING_ROLES(INSN_ROLE_CASE) /* define_item */
      INSN_NAMING_ROLES(INSN_ROLE_CASE)   /* verify_code.c */
    case INSN_ROLE_COUNT: break;
  }
  return REED_OK;
}

/* ---- writing ---- */

static void set_state(verifier *v, size_t reg, state s) {
  v->n_fetching -= state_is_fetching(v->states[reg]);
  v->n_fetching += state_is_fetching(s);
  v->states[reg] = s;
}

/* Gives the register a new state. The old state may be any state except being fetched. */
static reed_status define(verifier *v, const insn *in, const char *operand, int64_t item, size_t reg, state s) {
  char text[96];
  if (state_is_fetching(v->states[reg]))
    FAIL(RULE_FETCHING, operand, item, "the register that is overwritten is %s",
         state_text(v->states[reg], text, sizeof text));
  set_state(v, reg, state_stamped(s, stamp_now(v, in)));
  return REED_OK;
}

/* Checks that a register can be given memory: it is shaped or, with or_fresh and outside epochs, freshly allocated. */
static reed_status check_fillable(const verifier *v, const insn *in, const char *operand, int64_t item, uint32_t reg,
                                  bool or_fresh) {
  state s = v->states[reg];
  reed_status status = check_readable(v, in, operand, item, s);
  if (status != REED_OK) return status;
  char text[96];
  bool fresh = state_kind_of(s) == STATE_FRESH && state_is_tensor(s) && !in_epoch(v, in);
  bool shaped = state_kind_of(s) == STATE_SHAPED || state_kind_of(s) == STATE_BOUNDED;
  if (!shaped && !(or_fresh && fresh))
    FAIL(RULE_STATE, operand, item, "the register is %s; a shaped tensor is needed here",
         state_text(s, text, sizeof text));
  return REED_OK;
}

static reed_status fill_kernel_output(verifier *v, const insn *in, const char *operand, int64_t item, uint32_t reg) {
  const reed_op_output *row = reed_op_output_at(verify_operator(v, in), (int32_t)item);
  reed_status status = check_fillable(v, in, operand, item, reg, true);
  if (status != REED_OK) return status;
  const insn_invoke i = insn_invoke_at(in->code);
  for (uint32_t k = 0; state_kind_of(v->states[reg]) == STATE_FRESH && k < i.n_inputs; k++)
    if (i.inputs[k] == reg) FAIL(RULE_OPERANDS, operand, item, "input %u is the same register", k);
  int32_t device = state_device(v->states[reg]);
  if (device != verify_device(in)) FAIL(RULE_DEVICE, operand, item, "the register was shaped for another device");
  if (in_shape(v, in) && (device != 0 || row->bounded))
    FAIL(RULE_EPOCH_EXACT, operand, item,
         row->bounded ? "its extent is reported by the kernel" : "it is not on the host");
  bool counted = row->bounded;
  for (uint32_t k = 0; !counted && k < i.n_inputs; k++)
    counted = !is_absent(i.inputs[k]) && state_kind_of(v->states[i.inputs[k]]) == STATE_PENDING &&
              bound_may_give(verify_operator(v, in), (int32_t)k);
  state known = in_shape(v, in) ? STATE_KNOWN : 0;
  return define(v, in, operand, item, reg, state_make(counted ? STATE_PENDING : STATE_STORED, device) | known);
}

/* Fills dst of copy and view; src has been checked. */
static reed_status fill_from(verifier *v, const insn *in, const char *operand, uint32_t reg) {
  reed_status status = check_fillable(v, in, operand, -1, reg, in->id == INSN_COPY);
  if (status != REED_OK) return status;
  state source = v->states[insn_sharing_at(in->code).src];
  int32_t to = state_device(v->states[reg]), from = is_unknown(source) ? to : state_device(source);
  if (in->id == INSN_VIEW && to != from) FAIL(RULE_DEVICE, operand, -1, "a view is on its source's device");
  if (to == 0 && from != 0) FAIL(RULE_DEVICE, operand, -1, "only readback copies to the host");
  state_kind kind = state_kind_of(source) == STATE_PENDING ? STATE_PENDING : STATE_STORED;
  return define(v, in, operand, -1, reg, state_make(kind, to) | (to == from ? source & STATE_KNOWN : 0));
}

static reed_status fetch_extent(verifier *v, const insn *in, const char *operand, uint32_t reg) {
  state s = v->states[reg];
  reed_status status = check_readable(v, in, operand, -1, s);
  if (status != REED_OK) return status;
  char text[96];
  if (!state_is_tensor(s) && state_kind_of(s) != STATE_PENDING)
    FAIL(RULE_STATE, operand, -1, "the register is %s; a pending or stored tensor is needed here",
         state_text(s, text, sizeof text));
  set_state(v, reg, state_make(STATE_FETCHING, state_device(s)));
  return REED_OK;
}

static reed_status kill_register(verifier *v, const insn *in, const char *operand, uint32_t reg) {
  state s = v->states[reg];
  char text[96];
  if (state_is_fetching(s)) FAIL(RULE_FETCHING, operand, -1, "the register is %s", state_text(s, text, sizeof text));
  if (state_kind_of(s) <= STATE_DEAD)
    FAIL(RULE_KILL, operand, -1, "the register is %s", state_text(s, text, sizeof text));
  set_state(v, reg, state_make(STATE_DEAD, 0));
  return REED_OK;
}

static reed_status allocate_register(verifier *v, const insn *in, const char *operand, uint32_t reg) {
  reed_status status = check_fillable(v, in, operand, -1, reg, false);
  if (status != REED_OK) return status;
  return define(v, in, operand, -1, reg, state_make(STATE_FRESH, state_device(v->states[reg])));
}

static reed_status push_to(const verifier *v, const insn *in, const char *operand, uint32_t reg) {
  reed_status status = check_readable(v, in, operand, -1, v->states[reg]);
  char text[96];
  if (status == REED_OK && !satisfies(v->states[reg], WANT_OBJECT, 0))
    FAIL(RULE_STATE, operand, -1, "the register is %s; a sequence is needed here",
         state_text(v->states[reg], text, sizeof text));
  return status;
}

static state declared_state(const module_type *t) {
  return t->object ? state_make(STATE_ANY, 0) : state_make(STATE_STORED, t->device);
}

/* The state that an operand of role RD_ANY gets: the signature's type for a result of `call`, the source's state for
 * r.move and opt.get, else complete and of unknown kind. */
static state any_state(const verifier *v, const insn *in, int64_t item) {
  if (in->id == INSN_CALL) {
    const module_function *f = &v->m->functions[insn_call_at(in->code).function];
    return declared_state(&v->m->types[f->result_types[item]]);
  }
  if (insn_table[in->id].shares != INSN_SHARES_REFERENCE) return state_make(STATE_ANY, 0);
  state s = v->states[insn_sharing_at(in->code).src] & ~STATE_MAYBE;
  return state_kind_of(s) == STATE_NONE ? state_make(STATE_ANY, 0)
                                        : s; /* opt.get of none fails, so the result is an object or tensor */
}

/* The kind that `shape` defines: BOUNDED where the operator's output is bounded or may have an input's bound. */
static state_kind shaped_kind(const verifier *v, const insn *in, int64_t item) {
  const insn_shape i = insn_shape_at(in->code);
  bool bounded = reed_op_output_at(verify_operator(v, in), (int32_t)item)->bounded;
  for (uint32_t k = 0; !bounded && k < i.n_inputs; k++)
    bounded = !is_absent(i.inputs[k]) && state_kind_of(v->states[INSN_REGISTER(i.inputs[k])]) == STATE_BOUNDED &&
              bound_may_give(verify_operator(v, in), (int32_t)k);
  return bounded ? STATE_BOUNDED : STATE_SHAPED;
}

/* Sets the state of the register that one operand item defines or changes. The switch has no default, so that a role
 * without a rule does not compile. */
static reed_status define_item(verifier *v, const insn *in, insn_role role, const char *operand, int64_t item,
                               uint32_t word) {
  state known = in_shape(v, in) ? STATE_KNOWN : 0;
  switch (role) {
    case INSN_ROLE_RD_OUTPUT:
      if (is_absent(word)) return REED_OK;
      return define(v, in, operand, item, word, state_make(shaped_kind(v, in, item), verify_device(in)));
    case INSN_ROLE_RD_SHAPED: return define(v, in, operand, item, word, state_make(STATE_SHAPED, verify_device(in)));
    case INSN_ROLE_RD_STORED:
      return define(v, in, operand, item, word, state_make(STATE_STORED, verify_device(in)) | known);
    case INSN_ROLE_RD_OBJECT: return define(v, in, operand, item, word, state_make(STATE_OBJECT, 0));
    case INSN_ROLE_RD_ANY: return define(v, in, operand, item, word, any_state(v, in, item));
    case INSN_ROLE_RD_NONE: return define(v, in, operand, item, word, state_make(STATE_NONE, 0));
    case INSN_ROLE_RD_FETCH: return define(v, in, operand, item, word, state_make(STATE_FETCHING, 0));
    case INSN_ROLE_SD: return define(v, in, operand, item, (size_t)v->f->n_r + word, state_make(STATE_SCALAR, 0));
    case INSN_ROLE_RX_ALLOC: return allocate_register(v, in, operand, word);
    case INSN_ROLE_RX_FILL: return fill_from(v, in, operand, word);
    case INSN_ROLE_RX_KERNEL: return is_absent(word) ? REED_OK : fill_kernel_output(v, in, operand, item, word);
    case INSN_ROLE_RX_EXTENT: return fetch_extent(v, in, operand, word);
    case INSN_ROLE_RX_KILL: return kill_register(v, in, operand, word);
    case INSN_ROLE_RX_PUSH:
      return push_to(v, in, operand, word);
      INSN_READING_ROLES(INSN_ROLE_CASE) /* use_item */
      INSN_NAMING_ROLES(INSN_ROLE_CASE)  /* verify_code.c */
    case INSN_ROLE_COUNT: break;
  }
  return REED_OK;
}

/* ---- whole instructions ---- */

/* The operands that a visit concerns, by their roles. The roles that name no register concern none. */
typedef enum access { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE } access;
static const uint8_t accesses[INSN_ROLE_COUNT] = {
#define READ_ROW(role, ...) [INSN_ROLE_##role] = ACCESS_READ,
#define WRITE_ROW(role, ...) [INSN_ROLE_##role] = ACCESS_WRITE,
    INSN_READING_ROLES(READ_ROW) INSN_DEFINING_ROLES(WRITE_ROW) INSN_CHANGING_ROLES(WRITE_ROW)
#undef READ_ROW
#undef WRITE_ROW
};

typedef reed_status (*visit_item)(verifier *v, const insn *in, insn_role role, const char *operand, int64_t item,
                                  uint32_t word);

static reed_status each_item(verifier *v, const insn *in, access wanted, visit_item visit) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++) {
    if (accesses[info->roles[i]] != wanted) continue;
    bool list = info->forms[i] == INSN_FORM_LIST;
    for (uint32_t k = 0; k < in->operands[i].n; k++) {
      reed_status status =
          visit(v, in, info->roles[i], info->names[i], list ? (int64_t)k : -1, in->operands[i].words[k]);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}

/* Checks a read. A freshly allocated register becomes stored once a second register may share its memory, because a
 * kernel may then no longer write it. */
static reed_status use_visit(verifier *v, const insn *in, insn_role role, const char *operand, int64_t item,
                             uint32_t word) {
  reed_status status = use_item(v, in, role, operand, item, word);
  bool shares = role == INSN_ROLE_RU_ANY || role == INSN_ROLE_RU_MAYBE || role == INSN_ROLE_RU_TENSOR;
  if (status == REED_OK && shares && state_kind_of(v->states[word]) == STATE_FRESH)
    v->states[word] = (v->states[word] & ~0xfu) | STATE_STORED;
  return status;
}

/* Checks a list of arguments or results against the types of a signature. any_allowed: a register of unknown kind
 * passes, because the call checks its kind at run time. */
static reed_status check_types(const verifier *v, const insn *in, const char *operand, const uint32_t *regs, uint32_t n,
                               const uint32_t *types, bool any_allowed, verify_rule rule) {
  for (uint32_t i = 0; i < n; i++) {
    const module_type *t = &v->m->types[types[i]];
    state s = v->states[regs[i]];
    char text[96];
    if (t->object || (state_is_tensor(s) && state_device(s) == t->device) ||
        (any_allowed && state_kind_of(s) == STATE_ANY))
      continue;
    FAIL(rule, operand, i, "the register is %s; the signature says a tensor on the %s",
         state_text(s, text, sizeof text), t->device ? "device" : "host");
  }
  return REED_OK;
}

static reed_status check_signature(const verifier *v, const insn *in) {
  if (v->n_fetching)
    FAIL(RULE_FETCHING, NULL, -1, "%zu registers are being fetched: a sync is needed before", v->n_fetching);
  if (in->id == INSN_CALL) {
    const insn_call c = insn_call_at(in->code);
    return check_types(v, in, "arguments", c.arguments, c.n_arguments, v->m->functions[c.function].param_types, true,
                       RULE_CALL);
  }
  if (in->id == INSN_RETURN) {
    const insn_return r = insn_return_at(in->code);
    return check_types(v, in, "results", r.results, r.n_results, v->f->result_types, false, RULE_RETURN);
  }
  return REED_OK;
}

/* epoch.enter: stamps the keys with the epoch, so that it may read them. */
static void open_keys(verifier *v, const insn *in) {
  const insn_epoch_enter e = insn_epoch_enter_at(in->code);
  for (uint32_t i = 0; i < e.n_keys; i++) {
    uint32_t reg = INSN_REGISTER(e.keys[i]);
    state known = INSN_READS(e.keys[i]) & REED_READS_VALUE ? STATE_KNOWN : 0;
    v->states[reg] = state_stamped(state_make(STATE_STORED, state_device(v->states[reg])) | known, e.epoch + 1);
  }
  for (uint32_t i = 0; i < e.n_scalar_keys; i++) {
    size_t reg = (size_t)v->f->n_r + e.scalar_keys[i];
    v->states[reg] = state_stamped(v->states[reg], e.epoch + 1);
  }
}

/* After epoch.end: removes the epoch's stamp from every register; registers shaped in the epoch and never filled become
 * dead. Only the open epoch's stamp can be there, because no path leaves an epoch but over its end. */
static void close_epoch(verifier *v) {
  for (size_t i = 0; i < v->n_states; i++) {
    state s = v->states[i];
    bool unfilled = state_kind_of(s) == STATE_SHAPED || state_kind_of(s) == STATE_BOUNDED;
    if (unfilled && state_stamp(s)) s = state_make(STATE_DEAD, 0);
    v->states[i] = state_stamped(s & ~STATE_KNOWN, 0);
  }
}

static void finish_fetches(verifier *v) {
  for (size_t i = 0; v->n_fetching && i < v->f->n_r; i++) {
    if (!state_is_fetching(v->states[i])) continue;
    bool whole = state_kind_of(v->states[i]) == STATE_FETCHING;
    set_state(v, i, state_make(whole ? STATE_STORED : STATE_UNDEFINED, whole ? state_device(v->states[i]) : 0));
  }
}

/* After assert.shape with a tensor type, a register of unknown kind is a stored tensor. The assertion does not check
 * the device; so the state is refined only in a module with one device. With several devices the register stays of
 * unknown kind, and a call checks its device at run time. */
static void learn_type(verifier *v, const insn *in) {
  const insn_assert_shape i = insn_assert_shape_at(in->code);
  state *s = &v->states[i.src];
  const module_type *t = &v->m->types[i.type];
  if (is_unknown(*s) && !t->object && v->m->n_devices == 1) *s = state_make(STATE_STORED, 0) | (*s & STATE_KNOWN);
}

static reed_status step(verifier *v, const insn *in) {
  reed_status status = diag_check_cancel(v->diagnosis, v->cancel);
  if (status == REED_OK) status = each_item(v, in, ACCESS_READ, use_visit);
  if (status == REED_OK && (in->id == INSN_CALL || in->id == INSN_CALL_CLOSURE || in->id == INSN_RETURN))
    status = check_signature(v, in);
  if (status == REED_OK) status = each_item(v, in, ACCESS_WRITE, define_item);
  if (status != REED_OK) return status;
  if (in->id == INSN_EPOCH_ENTER) open_keys(v, in);
  if (in->id == INSN_EPOCH_END) close_epoch(v);
  if (in->id == INSN_SYNC) finish_fetches(v);
  if (in->id == INSN_ASSERT_SHAPE) learn_type(v, in);
  return REED_OK;
}

/* ---- basic blocks ---- */

/* Joins the current states into those at the beginning of the block at `pc`. */
static reed_status flow_to(verifier *v, uint32_t pc) {
  block *b = &v->blocks[v->block_of[pc]];
  if (!b->states) {
    b->states = mem_alloc(v->n_states * sizeof *b->states);
    if (!b->states) return diag_no_memory(v->diagnosis, "verifying a function");
    memcpy(b->states, v->states, v->n_states * sizeof *b->states);
    b->dirty = true;
    return REED_OK;
  }
  for (size_t i = 0; i < v->n_states; i++) {
    state joined = state_join(b->states[i], v->states[i]);
    b->dirty |= joined != b->states[i];
    b->states[i] = joined;
  }
  return REED_OK;
}

static reed_status flow_to_targets(verifier *v, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++) {
    if (info->roles[i] != INSN_ROLE_LABEL) continue;
    for (uint32_t k = 0; k < in->operands[i].n; k++) {
      reed_status status = flow_to(v, in->operands[i].words[k]);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}

static reed_status visit_block(verifier *v, block *b) {
  b->dirty = false;
  if (v->loops) {
    memcpy(v->states, b->states, v->n_states * sizeof *v->states);
  } else { /* every path to the block has been seen */
    mem_free(v->states);
    v->states = b->states;
    b->states = NULL;
  }
  v->n_fetching = 0;
  for (size_t i = 0; i < v->f->n_r; i++) v->n_fetching += state_is_fetching(v->states[i]);
  insn in;
  for (uint32_t pc = b->begin;; pc += in.n_words) {
    if (pc != b->begin && v->marks[pc] & MARK_LEADER) return flow_to(v, pc);
    if (!insn_decode(v->code, v->f->n_code, pc, &in)) return REED_OK; /* decoded before, by verify_code */
    reed_status status = step(v, &in);
    insn_flow flow = insn_table[in.id].flow;
    if (status == REED_OK && (flow == INSN_FLOW_JUMP || flow == INSN_FLOW_BRANCH)) status = flow_to_targets(v, &in);
    if (status != REED_OK || flow == INSN_FLOW_JUMP || flow == INSN_FLOW_RETURN || flow == INSN_FLOW_FAIL)
      return status;
  }
}

static reed_status find_blocks(verifier *v) {
  uint32_t n_code = v->f->n_code;
  v->n_blocks = 0;
  for (uint32_t pc = 0; pc < n_code; pc++)
    if (v->marks[pc] & MARK_LEADER) v->block_of[pc] = v->n_blocks++;
  v->blocks = mem_calloc(v->n_blocks, sizeof *v->blocks);
  if (!v->blocks) return diag_no_memory(v->diagnosis, "verifying a function");
  for (uint32_t pc = 0; pc < n_code; pc++)
    if (v->marks[pc] & MARK_LEADER) v->blocks[v->block_of[pc]].begin = pc;
  return REED_OK;
}

static reed_status over_limit(const verifier *v, const char *what) {
  return verify_reject(v->diagnosis, REED_ERROR_LIMIT, RULE_LIMIT,
                       "function '%.200s' is too complex: %u stretches of code with %zu registers %s",
                       v->m->strings[v->f->name], v->n_blocks, v->n_states, what);
}

static reed_status flow_from_start(verifier *v) {
  if ((v->n_states + 1) * sizeof(state) * v->n_blocks > MAX_STATE_BYTES) return over_limit(v, "need too much memory");
  memset(v->states, 0, v->n_states * sizeof *v->states);
  for (uint32_t i = 0; i < v->f->n_r_params; i++) v->states[i] = declared_state(&v->m->types[v->f->param_types[i]]);
  for (uint32_t i = 0; i < v->f->n_s_params; i++) v->states[v->f->n_r + i] = state_make(STATE_SCALAR, 0);
  reed_status status = flow_to(v, 0);
  uint64_t visits = 0;
  for (bool changed = true; changed && status == REED_OK;) {
    changed = false;
    for (uint32_t i = 0; i < v->n_blocks && status == REED_OK; i++) {
      if (!v->blocks[i].dirty) continue;
      changed = true;
      if (++visits > (uint64_t)MAX_VISITS * (v->n_blocks + 16)) return over_limit(v, "take too many visits");
      status = visit_block(v, &v->blocks[i]);
    }
  }
  return status;
}

reed_status verify_flow(verifier *v) {
  reed_status status = find_blocks(v);
  if (status == REED_OK) status = flow_from_start(v);
  for (uint32_t i = 0; v->blocks && i < v->n_blocks; i++) mem_free(v->blocks[i].states);
  mem_free(v->blocks);
  v->blocks = NULL;
  return status;
}
