/* Which registers of a run section share memory: an output takes its input's place, a part (Slice, Split) lies in its
 * source, an input of Concat lies in the output. The walk that asks: plan.c. Offsets: layout.c. */
#include "vm/epoch/planner.h"

/* True if the unbroken row of kills from `next` on kills every register on the root. */
static bool dies_here(epoch_planner *p, int32_t root, const uint32_t *next) {
  int32_t killed = 0;
  for (const uint32_t *w = next; insn_id_at(w) == INSN_KILL; w = insn_next(w))
    killed += note_of(p, insn_kill_at(w).victim)->root == root;
  return killed == p->alive.items[root];
}

/* Other inputs on the same root are allowed only if the operator maps element for element; equal element counts tell.
 */
int32_t share_in_place(epoch_planner *p, const insn_invoke *i, const reed_kernel *kernel) {
  const reed_op *op = p->run->program->site_ops[i->site];
  const ref *output = reg_r(p->run, i->outputs[0]);
  if (kernel->apart || output->bounded_axis >= 0) return NO_ROOT;
  int64_t elements = desc_elements(&output->t.desc);
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    if (!share_may_give(op, k) || i->inputs[k] == MODULE_ABSENT) continue;
    int32_t root = note_of(p, i->inputs[k])->root;
    const ref *r = reg_r(p->run, i->inputs[k]);
    if (root == NO_ROOT || r->t.desc.dtype != output->t.desc.dtype || desc_elements(&r->t.desc) != elements ||
        r->t.device != output->t.device)
      continue;
    if (r->bytes != p->entry->roots.items[root].bytes || p->entry->roots.items[root].copied) continue;
    bool ok = true;
    for (uint32_t o = 0; ok && o < i->n_inputs; o++) {
      uint32_t other = i->inputs[o];
      if (o == k || other == MODULE_ABSENT || note_of(p, other)->root != root) continue;
      ok = op->alias == REED_ALIAS_INPLACE && desc_elements(&reg_r(p->run, other)->t.desc) == elements;
    }
    if (ok && dies_here(p, root, i->next)) return root;
  }
  return NO_ROOT;
}

/* Marks a register; 1 if it was not marked before, else 0. */
static int32_t mark(epoch_planner *p, uint32_t reg) {
  if (reg == MODULE_ABSENT || note_of(p, reg)->mark == p->mark) return 0;
  note_of(p, reg)->mark = p->mark;
  return 1;
}

/* Marks the registers that share a marked register's memory after the instruction at w. Returns how many. */
static int32_t mark_sharers(epoch_planner *p, const uint32_t *w) {
  insn_shares shares = insn_table[insn_id_at(w)].shares;
  if (shares == INSN_SHARES_NONE) return 0;
  if (shares == INSN_SHARES_OPERATOR) {
    const insn_invoke i = insn_invoke_at(w);
    uint32_t source = i.n_inputs ? i.inputs[0] : MODULE_ABSENT;
    if (p->run->program->site_ops[i.site]->alias != REED_ALIAS_PART || source == MODULE_ABSENT ||
        note_of(p, source)->mark != p->mark)
      return 0;
    int32_t n = 0;
    for (uint32_t k = 0; k < i.n_outputs; k++) n += mark(p, i.outputs[k]);
    return n;
  }
  const insn_sharing i = insn_sharing_at(w);
  if (note_of(p, i.src)->mark != p->mark) return 0;
  bool copied = shares == INSN_SHARES_DEVICE && reg_r(p->run, i.dst)->t.device != reg_r(p->run, i.src)->t.device;
  return copied ? 0 : mark(p, i.dst);
}

/* True if register `reg` may lie on a part of the root. A register on a part keeps the whole root alive; so every
 * register on the part must be killed in the epoch (seen from `next` on), and the part must be at least half of the
 * root or die before the root's other registers. The look ahead ends when the part's registers are killed and the
 * root's others cannot change the answer. */
static bool may_keep(epoch_planner *p, uint32_t reg, int64_t bytes, int32_t root, const uint32_t *next) {
  int32_t n = 1, n_others = p->alive.items[root];
  bool rest_is_later = false, large = share_is_large(bytes, p->entry->roots.items[root].bytes);
  p->mark++;
  note_of(p, reg)->mark = p->mark;
  for (const uint32_t *w = next; insn_id_at(w) != INSN_EPOCH_END; w = insn_next(w)) {
    n += mark_sharers(p, w);
    if (insn_id_at(w) != INSN_KILL) continue;
    register_note *killed = note_of(p, insn_kill_at(w).victim);
    if (killed->mark == p->mark) {
      killed->mark = 0;
      n--;
      rest_is_later = false;
    } else if (killed->root == root) {
      rest_is_later = true;
      n_others--;
    }
    if (n == 0 && (large || rest_is_later || n_others == 0)) break;
  }
  return n == 0 && (rest_is_later || large);
}

int32_t share_part(epoch_planner *p, const insn_invoke *i, uint32_t output, const reed_kernel *kernel,
                   int64_t *out_at) {
  if (p->run->program->site_ops[i->site]->alias != REED_ALIAS_PART || !kernel->part_at || kernel->part_at[output] < 0)
    return NO_ROOT;
  uint32_t reg = i->outputs[output], source = i->inputs[0];
  const ref *part = reg_r(p->run, reg);
  if (source == MODULE_ABSENT) return NO_ROOT;
  const register_note *note = note_of(p, source);
  if (note->root == NO_ROOT || part->bounded_axis >= 0 || part->t.device != reg_r(p->run, source)->t.device)
    return NO_ROOT;
  if (kernel->part_at[output] > reg_r(p->run, source)->bytes - part->bytes ||
      !may_keep(p, reg, part->bytes, note->root, i->next))
    return NO_ROOT;
  *out_at = note->at + kernel->part_at[output];
  return note->root;
}

/* Adds `by` to the count of each root for every register of it that the unbroken row of kills from `next` on kills. */
static void count_dying(epoch_planner *p, const uint32_t *next, int32_t by) {
  for (const uint32_t *w = next; insn_id_at(w) == INSN_KILL; w = insn_next(w)) {
    int32_t root = note_of(p, insn_kill_at(w).victim)->root;
    if (root != NO_ROOT) p->dying.items[root] += by;
  }
}

/* Makes inputs of Concat parts of the output's root (`whole`), so that their kernels write straight into it. An input
 * qualifies if it is contiguous in the output, fills a root of this epoch on the output's device, that root is not a
 * part already, and every register on it dies at this instruction. The whole then lives from the first use of its
 * earliest part. Inputs behind rows that only the device counts have no place yet. */
void share_join(epoch_planner *p, const insn_invoke *i, int32_t whole) {
  const reed_desc *desc = &reg_r(p->run, i->outputs[0])->t.desc;
  int64_t axis = reed_attrs_int(&p->run->program->site_attrs[i->site], "axis", 0), at = 0;
  if (axis < 0) axis += desc->rank;
  if (axis < 0 || axis >= desc->rank) return;
  for (int64_t k = 0; k < axis; k++)
    if (desc->dims[k] != 1) return;
  count_dying(p, i->next, 1);
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    if (i->inputs[k] == MODULE_ABSENT) continue;
    const ref *r = reg_r(p->run, i->inputs[k]);
    int32_t part = note_of(p, i->inputs[k])->root;
    epoch_root *roots = p->entry->roots.items;
    if (part != NO_ROOT && part != whole && roots[part].inside == NO_ROOT &&
        roots[part].device == roots[whole].device && r->bytes > 0 && r->bytes == roots[part].bytes &&
        r->bytes <= roots[whole].bytes - at && p->dying.items[part] == p->alive.items[part]) {
      roots[part].inside = whole;
      roots[whole].copied |= roots[part].copied;
      roots[part].at = at;
      if (roots[whole].first > roots[part].first) roots[whole].first = roots[part].first;
    }
    if (r->kind == REF_PENDING && r->bounded_axis == axis) break;
    at += r->bytes;
  }
  count_dying(p, i->next, -1);
}
