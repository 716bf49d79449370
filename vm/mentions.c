/* The index of registers' mentions in function main (mentions.h), and walks over it. A walk goes from mention to
 * mention and from turn to turn; it decodes no other instruction. */
#include "vm/mentions.h"

#include <string.h>

#include "base/mem.h"

#define NONE UINT32_MAX

mentions_of mentions_in(const insn *in, int operand, uint32_t reg) {
  const insn_operand *o = &in->operands[operand];
  bool flagged = insn_roles[insn_table[in->id].roles[operand]].flagged;
  mentions_of found = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    if ((flagged ? INSN_REGISTER(o->words[i]) : o->words[i]) != reg) continue;
    found.n++;
    if (flagged) found.reads |= INSN_READS(o->words[i]);
  }
  return found;
}

/* ---- the index ---- */

typedef struct mention {
  uint32_t reg, pc;
} mention;
typedef VEC_OF(mention) mention_list;

/* epoch.enter names epoch.plan, which follows it on every path. */
static bool is_label(const insn *in, int operand) {
  return insn_table[in->id].roles[operand] == INSN_ROLE_LABEL && in->id != INSN_EPOCH_ENTER;
}

/* An instruction that names a register several times has several items. */
static bool note_operands(const insn *in, uint32_t n_r, mention_list *list) {
  const insn_info *info = &insn_table[in->id];
  for (int k = 0; k < info->n_operands; k++) {
    const insn_role_info *role = &insn_roles[info->roles[k]];
    if (role->bank != INSN_BANK_R) continue;
    for (uint32_t i = 0; i < in->operands[k].n; i++) {
      uint32_t word = in->operands[k].words[i], reg = role->flagged ? INSN_REGISTER(word) : word;
      if (reg < n_r && !VEC_PUSH(list, ((mention){reg, in->pc}))) return false;
    }
  }
  return true;
}

static bool note(mentions *found, const insn *in, uint32_t n_r, mention_list *list) {
  insn_flow flow = insn_table[in->id].flow;
  bool turns = flow != INSN_FLOW_NEXT && flow != INSN_FLOW_CALL;
  return (!turns || VEC_PUSH(&found->turns, in->pc)) &&
         (in->id != INSN_READBACK || VEC_PUSH(&found->readbacks, in->pc)) && note_operands(in, n_r, list);
}

/* Sorts the mentions by register; the mentions of one register keep their order. */
static bool sort(mentions *found, uint32_t n_r, const mention_list *list) {
  uint32_t most = 0;
  found->first = mem_calloc((size_t)n_r + 1, sizeof *found->first);
  found->pcs = mem_alloc(list->n * sizeof *found->pcs);
  if (!found->first || !found->pcs) return false;
  for (size_t i = 0; i < list->n; i++) found->first[list->items[i].reg]++;
  for (uint32_t reg = 0, at = 0; reg <= n_r; reg++) {
    uint32_t n = found->first[reg];
    if (n > most) most = n;
    found->first[reg] = at += n; /* the end; filling from the last mention on makes it the beginning */
  }
  for (size_t i = list->n; i-- > 0;) found->pcs[--found->first[list->items[i].reg]] = list->items[i].pc;
  found->seen = mem_alloc(most + found->turns.n);
  return found->seen;
}

bool mentions_find(const module *m, mentions *out) {
  const module_function *main = &m->functions[0];
  *out = (mentions){.m = m, .code = m->code + main->code_offset, .n_code = main->n_code};
  mention_list list = {0};
  bool ok = VEC_RESERVE(&list, main->n_code); /* no more mentions than words */
  insn in;
  for (uint32_t pc = 0; ok && insn_decode(out->code, out->n_code, pc, &in); pc += in.n_words)
    ok = note(out, &in, main->n_r, &list);
  ok = ok && sort(out, main->n_r, &list);
  VEC_FREE(&list);
  return ok;
}

void mentions_fini(mentions *found) {
  mem_free(found->first);
  mem_free(found->pcs);
  mem_free(found->seen);
  VEC_FREE(&found->turns);
  VEC_FREE(&found->readbacks);
  VEC_FREE(&found->work);
}

/* ---- walks ---- */

/* The first item that is not below pc. */
static uint32_t first_from(const uint32_t *pcs, uint32_t n, uint32_t pc) {
  uint32_t low = 0;
  while (n > low) {
    uint32_t middle = low + (n - low) / 2;
    if (pcs[middle] < pc) low = middle + 1;
    else n = middle;
  }
  return low;
}

static bool push_targets(mentions *found, const insn *in) {
  for (int k = 0; k < insn_table[in->id].n_operands; k++)
    for (uint32_t i = 0; is_label(in, k) && i < in->operands[k].n; i++)
      if (!VEC_PUSH(&found->work, in->operands[k].words[i])) return false;
  return true;
}

/* Walks from pc on until the path ends, leads to an instruction that was seen, or the visitor stops. */
static bool walk_stretch(mentions *found, uint32_t reg, uint32_t pc, mentions_visit *visit, void *context) {
  const uint32_t *pcs = found->pcs + found->first[reg], n_pcs = found->first[reg + 1] - found->first[reg],
                 n_turns = (uint32_t)found->turns.n;
  uint8_t *seen_turns = found->seen + n_pcs;
  uint32_t i = first_from(pcs, n_pcs, pc), k = first_from(found->turns.items, n_turns, pc);
  for (;;) {
    uint32_t named = i < n_pcs ? pcs[i] : NONE, turn = k < n_turns ? found->turns.items[k] : NONE,
             at = named < turn ? named : turn;
    uint8_t *seen = named == at ? &found->seen[i] : &seen_turns[k];
    insn in;
    if (at == NONE || *seen || !insn_decode(found->code, found->n_code, at, &in)) return true;
    *seen = 1;
    if (named == at && !visit(context, &in)) return true;
    for (; i < n_pcs && pcs[i] == at; i++) continue;
    if (turn != at) continue;
    k++;
    if (!push_targets(found, &in)) return false;
    if (insn_table[in.id].flow != INSN_FLOW_BRANCH) return true;
  }
}

bool mentions_walk(mentions *found, uint32_t reg, uint32_t pc, mentions_visit *visit, void *context) {
  memset(found->seen, 0, found->first[reg + 1] - found->first[reg] + found->turns.n);
  found->work.n = 0;
  bool ok = VEC_PUSH(&found->work, pc);
  while (ok && found->work.n) ok = walk_stretch(found, reg, found->work.items[--found->work.n], visit, context);
  return ok;
}
