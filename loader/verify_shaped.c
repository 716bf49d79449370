/* Rule V56: in an epoch, an `invoke` is given the operands of a `shape` of its call site, and none of them is defined
 * again between the two. Planning then trusts the extents that `shape` has left in the registers and calls no shape
 * function a second time.
 *
 * Jumps inside of an epoch go forwards (V52), so one walk over its words in order sees every path: a set of facts
 * flows along the words, waits at the targets of jumps, and sets that meet are united. The facts about a `shape`: some
 * path to here has passed it, and no equal `shape` since (PASSED); on some path an operand of it was defined after it
 * (BROKEN). Filling a shaped
 * register (`copy`, `view`, `invoke`) and killing one changes no extents and is no definition.
 *
 * The walk can not see which `shape` a path has passed where two paths meet; planning compares the call site and the
 * number of the output that each output's register remembers. A module of a format before FORMAT_MINOR_SHAPED that does
 * not keep the rule is accepted, and planning calls the shape functions of such an epoch again. */
#include <string.h>

#include "base/vec.h"
#include "bytecode/format.h"
#include "loader/verify_shaped.h"

#define MAX_FACT_BYTES ((size_t)64 << 20)
#define MAX_STEPS_PER_WORD 256 /* of the walk, on average: uses of registers that are defined again */
#define NONE UINT32_MAX

#define FAIL(rule, operand, item, ...) return verify_fail(v, rule, in, operand, item, __VA_ARGS__)

/* A `shape` of the epoch. */
typedef struct shaping {
  uint32_t pc, site;
  uint32_t before; /* the `shape` of the same site before this one; NONE */
} shaping;

/* A `shape` that has the register as an operand. */
typedef struct use {
  uint32_t shaping;
  uint32_t before; /* the register's use before this one; NONE */
} use;

typedef struct walker {
  verifier *v;
  uint32_t *last_of_site; /* per call site: its latest `shape`; NONE */
  uint32_t *last_use;     /* per r register; NONE */
  uint64_t **waiting;     /* per word of the function: facts of the jumps to here; NULL: none yet */
  VEC_OF(shaping) shapings;
  VEC_OF(use) uses;
  uint64_t *facts; /* here: n_words of PASSED, n_words of BROKEN */
  size_t n_words, n_fact_bytes;
  bool reached; /* some path leads here */
  uint64_t n_steps, max_steps;
} walker;

static uint64_t *passed(walker *w, uint32_t shaping) { return &w->facts[shaping / 64]; }
static uint64_t *broken(walker *w, uint32_t shaping) { return &w->facts[w->n_words + shaping / 64]; }
static uint64_t bit(uint32_t shaping) { return (uint64_t)1 << shaping % 64; }

static reed_status no_memory(const walker *w) { return diag_no_memory(w->v->diagnosis, "verifying an epoch"); }

static reed_status over_limit(const walker *w) {
  const verifier *v = w->v;
  return verify_reject(v->diagnosis, REED_ERROR_LIMIT, RULE_LIMIT,
                       "function '%.200s' is too complex: an epoch with %zu shape functions defines registers again",
                       v->m->strings[v->f->name], w->shapings.n);
}

/* ---- facts ---- */

/* Adds the current facts to those that wait at `pc`, a later word. */
static reed_status flow_to(walker *w, uint32_t pc) {
  size_t n = 2 * w->n_words;
  if (!w->waiting[pc]) {
    if ((w->n_fact_bytes += n * sizeof(uint64_t)) > MAX_FACT_BYTES) return over_limit(w);
    w->waiting[pc] = mem_copy(w->facts, n * sizeof *w->facts);
    return w->waiting[pc] ? REED_OK : no_memory(w);
  }
  for (size_t i = 0; i < n; i++) w->waiting[pc][i] |= w->facts[i];
  return REED_OK;
}

/* Unites the facts that wait at `pc` with the current ones. */
static void meet_at(walker *w, uint32_t pc) {
  if (!w->waiting[pc]) return;
  size_t n = 2 * w->n_words;
  if (!w->reached) memset(w->facts, 0, n * sizeof *w->facts);
  for (size_t i = 0; i < n; i++) w->facts[i] |= w->waiting[pc][i];
  mem_free(w->waiting[pc]);
  w->waiting[pc] = NULL;
  w->n_fact_bytes -= n * sizeof(uint64_t);
  w->reached = true;
}

/* A register is defined: marks every earlier `shape` with the register as an operand as broken. */
static reed_status define(walker *w, uint32_t reg) {
  for (uint32_t i = w->last_use[reg]; i != NONE; i = w->uses.items[i].before) {
    uint32_t shaping = w->uses.items[i].shaping;
    *broken(w, shaping) |= *passed(w, shaping) & bit(shaping);
    if (++w->n_steps > w->max_steps) return over_limit(w);
  }
  return REED_OK;
}

static reed_status define_operands(walker *w, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++) {
    switch (info->roles[i]) {
      INSN_DEFINING_ROLES(INSN_ROLE_CASE) break;
      INSN_CHANGING_ROLES(INSN_ROLE_CASE)
      INSN_READING_ROLES(INSN_ROLE_CASE)
      INSN_NAMING_ROLES(INSN_ROLE_CASE)
      case INSN_ROLE_COUNT: continue;
    }
    if (insn_roles[info->roles[i]].bank != INSN_BANK_R) continue;
    for (uint32_t k = 0; k < in->operands[i].n; k++) {
      uint32_t reg = in->operands[i].words[k];
      reed_status status = reg == MODULE_ABSENT ? REED_OK : define(w, reg);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}

/* ---- instructions ---- */

static bool add_use(walker *w, uint32_t reg, uint32_t shaping) {
  if (reg == MODULE_ABSENT) return true;
  if (!VEC_PUSH(&w->uses, ((use){.shaping = shaping, .before = w->last_use[reg]}))) return false;
  w->last_use[reg] = (uint32_t)w->uses.n - 1;
  return true;
}

static bool same_shape(insn_shape a, insn_shape b) {
  bool same = a.device == b.device && a.n_outputs == b.n_outputs && a.n_inputs == b.n_inputs;
  for (uint32_t k = 0; same && k < a.n_outputs; k++) same = a.outputs[k] == b.outputs[k];
  for (uint32_t k = 0; same && k < a.n_inputs; k++) same = INSN_REGISTER(a.inputs[k]) == INSN_REGISTER(b.inputs[k]);
  return same;
}

/* Takes back, on the path to here, the earlier `shape`s of the same site and operands: an `invoke` follows the latest
 * one. */
static reed_status replace_earlier(walker *w, const insn_shape *s) {
  for (uint32_t k = w->last_of_site[s->site]; k != NONE; k = w->shapings.items[k].before) {
    if (++w->n_steps > w->max_steps) return over_limit(w);
    if (!same_shape(insn_shape_at(w->v->code + w->shapings.items[k].pc), *s)) continue;
    *passed(w, k) &= ~bit(k);
    *broken(w, k) &= ~bit(k);
  }
  return REED_OK;
}

/* Notes a `shape` as passed, after its outputs were defined. A `shape` with an output among its inputs is broken at
 * once. */
static reed_status pass_shape(walker *w, const insn *in) {
  const insn_shape s = insn_shape_at(in->code);
  reed_status status = replace_earlier(w, &s);
  if (status != REED_OK) return status;
  uint32_t number = (uint32_t)w->shapings.n;
  shaping made = {.pc = in->pc, .site = s.site, .before = w->last_of_site[s.site]};
  if (!VEC_PUSH(&w->shapings, made)) return no_memory(w);
  w->last_of_site[s.site] = number;
  bool ok = true, own_input = false;
  for (uint32_t i = 0; ok && i < s.n_outputs; i++) {
    for (uint32_t k = 0; k < s.n_inputs; k++)
      own_input |= s.outputs[i] != MODULE_ABSENT && INSN_REGISTER(s.inputs[k]) == s.outputs[i];
    ok = add_use(w, s.outputs[i], number);
  }
  for (uint32_t i = 0; ok && i < s.n_inputs; i++) ok = add_use(w, INSN_REGISTER(s.inputs[i]), number);
  *passed(w, number) |= bit(number);
  if (own_input) *broken(w, number) |= bit(number);
  return ok ? REED_OK : no_memory(w);
}

static bool same_operands(insn_shape s, insn_invoke i) {
  bool same = s.device == i.device && s.n_outputs == i.n_outputs && s.n_inputs == i.n_inputs;
  for (uint32_t k = 0; same && k < s.n_outputs; k++) same = s.outputs[k] == i.outputs[k];
  for (uint32_t k = 0; same && k < s.n_inputs; k++) same = INSN_REGISTER(s.inputs[k]) == i.inputs[k];
  return same;
}

/* True if `shape` writes an output register of `invoke`, at the same position. */
static bool shapes_output(insn_shape s, insn_invoke i) {
  bool found = false;
  for (uint32_t k = 0; k < s.n_outputs && k < i.n_outputs; k++)
    found |= s.outputs[k] == i.outputs[k] && s.outputs[k] != MODULE_ABSENT;
  return found;
}

/* Checks the rule for one `invoke`. A call site may be called several times in an epoch, with other outputs. */
static reed_status check_invoke(walker *w, const insn *in) {
  const verifier *v = w->v;
  const insn_invoke i = insn_invoke_at(in->code);
  bool found = false;
  for (uint32_t k = w->last_of_site[i.site]; k != NONE; k = w->shapings.items[k].before) {
    uint32_t pc = w->shapings.items[k].pc;
    if (++w->n_steps > w->max_steps) return over_limit(w);
    const insn_shape s = insn_shape_at(v->code + pc);
    if (!(*passed(w, k) & bit(k))) continue;
    if (!same_operands(s, i)) {
      if (!shapes_output(s, i)) continue;
      FAIL(RULE_EPOCH_SHAPED, NULL, -1, "its operands are not those of the call site's `shape` at word %u", pc);
    }
    if (*broken(w, k) & bit(k))
      FAIL(RULE_EPOCH_SHAPED, NULL, -1, "an operand is defined again after the call site's `shape` at word %u", pc);
    found = true;
  }
  if (!found)
    FAIL(RULE_EPOCH_SHAPED, "site", -1, "the epoch runs no `shape` of this call site and these operands before");
  return REED_OK;
}

static reed_status flow_to_targets(walker *w, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++)
    for (uint32_t k = 0; info->roles[i] == INSN_ROLE_LABEL && k < in->operands[i].n; k++) {
      reed_status status = flow_to(w, in->operands[i].words[k]);
      if (status != REED_OK) return status;
    }
  return REED_OK;
}

static reed_status step(walker *w, const insn *in) {
  reed_status status = diag_check_cancel(w->v->diagnosis, w->v->cancel);
  if (status == REED_OK) status = define_operands(w, in);
  if (status == REED_OK && in->id == INSN_SHAPE) status = pass_shape(w, in);
  if (status == REED_OK && in->id == INSN_INVOKE) status = check_invoke(w, in);
  insn_flow flow = insn_table[in->id].flow;
  if (status == REED_OK && (flow == INSN_FLOW_JUMP || flow == INSN_FLOW_BRANCH)) status = flow_to_targets(w, in);
  if (flow == INSN_FLOW_JUMP) w->reached = false;
  return status;
}

/* ---- epochs ---- */

static bool has_room(walker *w, uint32_t begin, uint32_t end) {
  const uint32_t *code = w->v->code;
  size_t n = 0;
  for (uint32_t pc = begin; pc < end; pc += insn_length_at(code + pc)) /* decoded before, by verify_code */
    n += insn_id_at(code + pc) == INSN_SHAPE;
  w->n_words = n / 64 + 1;
  w->facts = mem_calloc(2 * w->n_words, sizeof *w->facts);
  return w->facts != NULL;
}

static reed_status walk_epoch(walker *w, const module_epoch *e) {
  const verifier *v = w->v;
  uint32_t begin = e->enter + insn_length_at(v->code + e->enter);
  reed_status status = has_room(w, begin, e->end) ? REED_OK : no_memory(w);
  w->reached = true;
  w->max_steps = (uint64_t)MAX_STEPS_PER_WORD * (e->end - e->enter);
  insn in;
  for (uint32_t pc = begin; status == REED_OK && pc < e->end; pc += in.n_words) {
    meet_at(w, pc);
    if (!insn_decode(v->code, v->f->n_code, pc, &in)) break; /* decoded before, by verify_code */
    if (w->reached) status = step(w, &in);
  }
  return status;
}

/* Forgets one epoch's words, registers and sites. */
static void leave_epoch(walker *w, const module_epoch *e) {
  for (uint32_t pc = e->enter; w->n_fact_bytes && pc <= e->end; pc++)
    if (w->waiting[pc]) mem_free(w->waiting[pc]), w->waiting[pc] = NULL;
  for (size_t i = 0; i < w->shapings.n; i++) w->last_of_site[w->shapings.items[i].site] = NONE;
  memset(w->last_use, 0xff, w->v->f->n_r * sizeof *w->last_use);
  w->shapings.n = w->uses.n = 0;
  w->n_fact_bytes = 0;
  w->n_steps = 0;
  mem_free(w->facts);
  w->facts = NULL;
}

reed_status verify_shaped(verifier *v) {
  bool any = false;
  for (size_t i = 0; i < v->m->n_epochs; i++) any |= v->m->epochs[i].function == v->number;
  if (!any) return REED_OK;
  walker w = {.v = v,
              .last_of_site = mem_alloc((v->m->n_sites + 1) * sizeof *w.last_of_site),
              .last_use = mem_alloc(((size_t)v->f->n_r + 1) * sizeof *w.last_use),
              .waiting = mem_calloc((size_t)v->f->n_code + 1, sizeof *w.waiting)};
  reed_status status = w.last_of_site && w.last_use && w.waiting ? REED_OK : no_memory(&w);
  if (status == REED_OK) {
    memset(w.last_of_site, 0xff, v->m->n_sites * sizeof *w.last_of_site);
    memset(w.last_use, 0xff, v->f->n_r * sizeof *w.last_use);
  }
  for (size_t i = 0; status == REED_OK && i < v->m->n_epochs; i++) {
    const module_epoch *e = &v->m->epochs[i];
    if (e->function != v->number) continue;
    status = walk_epoch(&w, e);
    leave_epoch(&w, e);
    v->m->epochs_shaped[i] = status == REED_OK;
    if (v->m->minor >= FORMAT_MINOR_SHAPED || status == REED_OK || status == REED_ERROR_MEMORY ||
        status == REED_ERROR_CANCELLED)
      continue;
    status = REED_OK; /* an older module: its epochs are planned with second calls of the shape functions */
    if (v->diagnosis) reed_diagnosis_clear(v->diagnosis);
  }
  mem_free(w.last_of_site);
  mem_free(w.last_use);
  mem_free(w.waiting);
  VEC_FREE(&w.shapings);
  VEC_FREE(&w.uses);
  return status;
}
