/* Follows inputs of main through views and copies to the call that joins rows to them, and its result to the return
 * (growth.h). Each register is followed along every path until it is defined anew or killed. */
#include "vm/growth.h"

#include "base/mem.h"
#include "bytecode/operands.h"

/* A register that holds the past or the grown tensor from an instruction on. */
typedef struct trail {
  uint32_t reg, pc;
} trail;

typedef struct tracer {
  const reed_op *const *operators;
  const reed_attrs *attributes;
  uint32_t reg;               /* the register being followed */
  VEC_OF(trail) trails;       /* registers of one tensor, those that are followed already first */
  VEC_OF(model_cache) joined; /* calls that join rows to the past; `output` is their result's register */
  VEC_OF(uint32_t) pcs;       /* the instruction after each of them */
  VEC_OF(uint32_t) outputs;   /* of the model, that the tensor becomes */
  int32_t n_readers;          /* calls and returns that use the tensor's elements */
  bool other_use, failed;
} tracer;

static void add_trail(tracer *t, uint32_t reg, uint32_t pc) {
  for (size_t i = 0; i < t->trails.n; i++)
    if (t->trails.items[i].reg == reg && t->trails.items[i].pc == pc) return;
  if (!VEC_PUSH(&t->trails, ((trail){reg, pc}))) t->failed = true;
}

/* True if one of the kills that follow the call at once is the register's. */
static bool dies_after(const insn_invoke *i, uint32_t reg) {
  for (const uint32_t *w = i->next; insn_id_at(w) == INSN_KILL; w = insn_next(w))
    if (insn_kill_at(w).victim == reg) return true;
  return false;
}

static void note_joined(tracer *t, const insn_invoke *i, uint32_t reg, uint32_t next) {
  if (op_has(t->operators[i->site], REED_OP_EXTENTS_ONLY)) return;
  t->n_readers++;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    growth g;
    if (i->inputs[k] != reg || !growth_of(t->operators[i->site], &t->attributes[i->site], (int32_t)k, &g)) continue;
    if ((uint32_t)g.output >= i->n_outputs || i->outputs[g.output] == MODULE_ABSENT) continue;
    if (g.overwrites && !dies_after(i, reg)) continue;
    model_cache cache = {.site = i->site, .growth = g, .device = i->device, .output = i->outputs[g.output]};
    if (!VEC_PUSH(&t->joined, cache) || !VEC_PUSH(&t->pcs, next)) t->failed = true;
  }
}

static void note_outputs(tracer *t, const insn_return *r, uint32_t reg) {
  for (uint32_t i = 0; i < r->n_results; i++) {
    if (r->results[i] != reg) continue;
    t->n_readers++;
    bool known = false;
    for (size_t k = 0; k < t->outputs.n; k++) known |= t->outputs.items[k] == i;
    if (!known && !VEC_PUSH(&t->outputs, i)) t->failed = true;
  }
}

/* How an instruction names the register. */
typedef struct naming {
  bool defines, kills, uses;
  uint32_t reads; /* flags, of operands that have some */
} naming;

static naming naming_of(const insn *in, uint32_t reg) {
  const insn_info *info = &insn_table[in->id];
  naming n = {0};
  for (int k = 0; k < info->n_operands; k++) {
    insn_role role = info->roles[k];
    if (insn_roles[role].bank != INSN_BANK_R) continue;
    mentions_of named = mentions_in(in, k, reg);
    if (!named.n) continue;
    n.reads |= named.reads;
    switch (role) {
      INSN_DEFINING_ROLES(INSN_ROLE_CASE)
      n.defines = true;
      break;
      case INSN_ROLE_RX_KILL: n.kills = true; break;
      default: n.uses = true; break;
    }
  }
  return n;
}

/* Notes the use of the register by one instruction. Returns true if the walk goes on: the register holds the tensor
 * afterwards, and all its uses so far are allowed. */
static bool step(void *context, const insn *in) {
  tracer *t = context;
  const uint32_t *w = in->code, reg = t->reg, next = in->pc + in->n_words;
  naming n = naming_of(in, reg);
  if (n.uses) switch (in->id) {
      case INSN_SHAPE:
      case INSN_EPOCH_ENTER: t->other_use |= (n.reads & REED_READS_VALUE) != 0; break;
      case INSN_SHAPE_LIKE:
      case INSN_S_DIM:
      case INSN_ASSERT_SHAPE:
      case INSN_ASSERT_DIM: break;
      case INSN_INVOKE: {
        const insn_invoke i = insn_invoke_at(w);
        note_joined(t, &i, reg, next);
        break;
      }
      case INSN_VIEW:
      case INSN_COPY:
      case INSN_READBACK:
        if (insn_sharing_at(w).src == reg) add_trail(t, insn_sharing_at(w).dst, next);
        else return false; /* filled anew */
        break;
      case INSN_RETURN: {
        const insn_return r = insn_return_at(w);
        note_outputs(t, &r, reg);
        break;
      }
      default: t->other_use = true; break;
    }
  return !n.defines && !n.kills && !t->other_use;
}

/* Follows the tensor that register `reg` holds from the instruction at pc on. */
static void follow(tracer *t, mentions *found, uint32_t reg, uint32_t pc) {
  t->trails.n = t->joined.n = t->pcs.n = t->outputs.n = 0;
  t->n_readers = 0;
  t->other_use = false;
  add_trail(t, reg, pc);
  for (size_t i = 0; i < t->trails.n && !t->failed && !t->other_use; i++) {
    t->reg = t->trails.items[i].reg;
    if (!mentions_walk(found, t->reg, t->trails.items[i].pc, step, t)) t->failed = true;
  }
}

/* Adds the caches that grow out of the input. */
static void find_of(tracer *t, mentions *found, uint32_t input, model_caches *out) {
  follow(t, found, input, 0);
  size_t n = t->other_use ? 0 : t->joined.n;
  bool one_reader = t->n_readers == 1;
  model_cache *joined = mem_copy(t->joined.items, n * sizeof *joined);
  uint32_t *pcs = mem_copy(t->pcs.items, n * sizeof *pcs);
  t->failed |= n && (!joined || !pcs);
  for (size_t i = 0; i < n && !t->failed; i++) {
    if (joined[i].growth.overwrites && !one_reader) continue;
    follow(t, found, joined[i].output, pcs[i]);
    joined[i].input = input;
    for (size_t k = 0; !t->other_use && k < t->outputs.n; k++) {
      joined[i].output = t->outputs.items[k];
      if (!VEC_PUSH(&out->items, joined[i])) t->failed = true;
    }
  }
  mem_free(joined);
  mem_free(pcs);
}

/* False for a module none of whose calls joins rows to an input: then nothing is followed. */
static bool has_growth(const module *m, const reed_op *const *operators, const reed_attrs *attributes) {
  growth g;
  for (size_t i = 0; i < m->n_sites; i++)
    for (int32_t k = 0; k < operators[i]->n_inputs; k++)
      if (growth_of(operators[i], &attributes[i], k, &g)) return true;
  return false;
}

bool model_caches_find(mentions *found, const reed_op *const *operators, const reed_attrs *attributes,
                       model_caches *out) {
  if (!has_growth(found->m, operators, attributes)) return true;
  tracer t = {.operators = operators, .attributes = attributes};
  for (uint32_t i = 0; i < found->m->functions[0].n_r_params && !t.failed; i++) find_of(&t, found, i, out);
  VEC_FREE(&t.trails);
  VEC_FREE(&t.joined);
  VEC_FREE(&t.pcs);
  VEC_FREE(&t.outputs);
  return !t.failed;
}

void model_caches_fini(model_caches *caches) { VEC_FREE(&caches->items); }
