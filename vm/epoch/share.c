/* Which registers of a run section share memory: outputs in the place of inputs, parts in what they are taken from,
 * inputs in what joins them. */
#include "vm/epoch/planner.h"

/* Whether the kills that follow, from `next` on, end every register on that memory. */
static bool dies_here(epoch_planner *p, int32_t root, const uint32_t *next) {
  int32_t killed = 0;
  for (const uint32_t *w = next; (w[0] & 0xffff) == INSN_KILL; w += w[0] >> 16)
    killed += note_of(p, w[1])->root == root;
  return killed == p->alive.items[root];
}

/* The input whose memory output 0 may take over: the operator allows it, sizes agree, it fills that memory, and the
 * kills that follow the instruction at `next` end every register on it. Inputs that share it must map element for
 * element, which equal element counts say. */
int32_t share_in_place(epoch_planner *p, const reed_op *op, const ref *output, const uint32_t *inputs,
                       uint32_t n_inputs, const uint32_t *next) {
  if (op->alias != REED_ALIAS_INPLACE && op->alias != REED_ALIAS_INPLACE_FIRST) return NO_ROOT;
  if (output->bounded_axis >= 0) return NO_ROOT;
  int64_t elements = desc_elements(&output->t.desc);
  uint32_t n_candidates = op->alias == REED_ALIAS_INPLACE_FIRST && n_inputs > 1 ? 1 : n_inputs;
  for (uint32_t i = 0; i < n_candidates; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) continue;
    int32_t root = note_of(p, number)->root;
    const ref *r = reg_r(p->run, number);
    if (root == NO_ROOT || r->t.desc.dtype != output->t.desc.dtype || desc_elements(&r->t.desc) != elements ||
        r->t.device != output->t.device)
      continue;
    if (r->bytes != p->entry->roots.items[root].bytes) continue;
    bool ok = true;
    for (uint32_t k = 0; ok && k < n_inputs; k++) {
      uint32_t other = INSN_REGISTER(inputs[k]);
      if (k == i || other == MODULE_ABSENT || note_of(p, other)->root != root) continue;
      ok = op->alias == REED_ALIAS_INPLACE && desc_elements(&reg_r(p->run, other)->t.desc) == elements;
    }
    if (ok && dies_here(p, root, next)) return root;
  }
  return NO_ROOT;
}

/* Marks what shows the same memory as a marked register by the instruction at w; gives how many. */
static int32_t mark_sharers(epoch_planner *p, const uint32_t *w) {
  insn_id id = (insn_id)(w[0] & 0xffff);
  bool invoke = id == INSN_INVOKE,
       part = invoke && p->run->program->site_ops[w[1]]->alias == REED_ALIAS_PART && w[4 + w[3]] > 0;
  if (!part && id != INSN_VIEW && id != INSN_COPY && id != INSN_R_MOVE) return 0;
  const uint32_t *targets = invoke ? w + 4 : w + 1;
  uint32_t source = invoke ? INSN_REGISTER(w[5 + w[3]]) : w[2], n_targets = invoke ? w[3] : 1;
  if (source == MODULE_ABSENT || note_of(p, source)->mark != p->mark) return 0;
  int32_t n = 0;
  for (uint32_t i = 0; i < n_targets; i++) {
    bool copied = id == INSN_COPY && reg_r(p->run, targets[i])->t.device != reg_r(p->run, source)->t.device;
    if (targets[i] == MODULE_ABSENT || copied || note_of(p, targets[i])->mark == p->mark) continue;
    note_of(p, targets[i])->mark = p->mark;
    n++;
  }
  return n;
}

/* A register on a part of a root keeps all of it. That is as well where everything on the part goes within the epoch,
 * as far as can be seen from `next` on, and is gone before the rest or is most of it. */
static bool may_keep(epoch_planner *p, uint32_t reg, int64_t bytes, int32_t root, const uint32_t *next) {
  int32_t n = 1;
  bool rest_is_later = false;
  p->mark++;
  note_of(p, reg)->mark = p->mark;
  for (const uint32_t *w = next; (w[0] & 0xffff) != INSN_EPOCH_END; w += w[0] >> 16) {
    n += mark_sharers(p, w);
    if ((w[0] & 0xffff) != INSN_KILL) continue;
    register_note *killed = note_of(p, w[1]);
    if (killed->mark == p->mark) {
      killed->mark = 0;
      n--;
      rest_is_later = false;
    } else {
      rest_is_later |= killed->root == root;
    }
  }
  return n == 0 && (rest_is_later || bytes >= p->entry->roots.items[root].bytes / 2);
}

/* The root of input 0 where output i is a stretch of it and may lie there, from byte *out_at on; NO_ROOT: it must not.
 */
int32_t share_part(epoch_planner *p, const uint32_t *w, uint32_t i, const reed_kernel *kernel, int64_t *out_at) {
  if (p->run->program->site_ops[w[1]]->alias != REED_ALIAS_PART || !kernel->part_at || kernel->part_at[i] < 0)
    return NO_ROOT;
  uint32_t n_outputs = w[3], reg = w[4 + i], source = INSN_REGISTER(w[5 + n_outputs]);
  const ref *output = reg_r(p->run, reg);
  if (source == MODULE_ABSENT) return NO_ROOT;
  const register_note *note = note_of(p, source);
  if (note->root == NO_ROOT || output->bounded_axis >= 0 || output->t.device != reg_r(p->run, source)->t.device)
    return NO_ROOT;
  if (kernel->part_at[i] > reg_r(p->run, source)->bytes - output->bytes ||
      !may_keep(p, reg, output->bytes, note->root, w + (w[0] >> 16)))
    return NO_ROOT;
  *out_at = note->at + kernel->part_at[i];
  return note->root;
}

/* Inputs that the whole takes up in one stretch are computed where they will lie in it, if they fill memory that is
 * this epoch's, is no part of something yet and is wanted for nothing else from here on. The whole then lives from the
 * first of them on. */
void share_join(epoch_planner *p, uint32_t site, int32_t whole, const ref *output, const uint32_t *inputs,
                uint32_t n_inputs, const uint32_t *next) {
  const reed_desc *desc = &output->t.desc;
  int64_t axis = reed_attrs_int(&p->run->program->module->sites[site].attrs, "axis", 0), at = 0;
  if (axis < 0) axis += desc->rank;
  if (axis < 0 || axis >= desc->rank) return;
  for (int64_t i = 0; i < axis; i++)
    if (desc->dims[i] != 1) return;
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) continue;
    const ref *r = reg_r(p->run, number);
    int32_t part = note_of(p, number)->root;
    epoch_root *roots = p->entry->roots.items;
    if (part != NO_ROOT && part != whole && roots[part].inside == NO_ROOT &&
        roots[part].device == roots[whole].device && r->bytes > 0 && r->bytes == roots[part].bytes &&
        r->bytes <= roots[whole].bytes - at && dies_here(p, part, next)) {
      roots[part].inside = whole;
      roots[part].at = at;
      if (roots[whole].first > roots[part].first) roots[whole].first = roots[part].first;
    }
    at += r->bytes;
  }
}
