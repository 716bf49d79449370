/* Looking ahead in a run section that is being planned (ahead.h). A call's words follow from its registers as the shape
 * section left them: the walk before the call changes their kinds, and their rooms if some register has room. Then, or
 * with an r.move in between, no call is formed ahead. */
#include "vm/epoch/ahead.h"

#include <assert.h>

#include "base/fetch.h"
#include "base/team.h"
#include "vm/call.h"
#include "vm/epoch/planner.h"

bool ahead_is_exact(const epoch_planner *p, const insn_invoke *i) {
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    if (i->inputs[k] == MODULE_ABSENT) continue;
    const ref *r = reg_of(p, i->inputs[k]);
    if (r->bounded_axis >= 0 && r->kind != REF_STORED) return false;
  }
  return !p->rooms;
}

/* Lists the call with the number among the entry's kernels, and fetches the place where the search for it begins. */
static void list_call(epoch_planner *p, const uint32_t *w, size_t number) {
  const insn_invoke i = insn_invoke_at(w);
  const epoch_entry *base = p->base;
  ahead_call *call = &p->ahead.calls[p->ahead.n++];
  *call = (ahead_call){.next = i.next, .site = i.site, .number = TABLE_NONE, .tail = tail_find(p, &i)};
  const epoch_kernel *before = base && number < base->kernels.n ? &base->kernels.items[number] : NULL;
  if (before && before->site == i.site && !active_any_changed(p->active, i.inputs, i.n_inputs) &&
      !active_any_changed(p->active, i.outputs, i.n_outputs)) {
    __builtin_prefetch(before->prepared);
    return;
  }
  if (!ahead_is_exact(p, &i)) return;
  if (call->tail >= 0) {
    if (!tail_form(p, call->tail, &call->formed)) call->formed.n = 0;
    else site_prefetch_slot(p->kernels, &call->formed);
    return;
  }
  /* Without memory for the words the call is formed when the walk has come to it, which then fails. */
  if (!call_form(p->run, p->kernels, p->devices->bind[i.device], &i, &call->formed)) call->formed.n = 0;
  if (call->formed.n) site_prefetch_slot(p->kernels, &call->formed);
}

static void list_calls(epoch_planner *p, const uint32_t *w) {
  size_t number = p->entry->kernels.n;
  p->ahead.n = p->ahead.at = 0;
  site_cut(p->kernels, 0);
  if (p->has_jobs) team_expect();
  for (bool on = true; on && p->ahead.n < AHEAD_CALLS; w = insn_next(w)) {
    insn_id id = insn_id_at(w);
    if (id == INSN_INVOKE) list_call(p, w, number++);
    else on = id == INSN_VIEW || id == INSN_COPY || id == INSN_KILL;
  }
  for (uint32_t k = 0; k < p->ahead.n; k++)
    if (p->ahead.calls[k].formed.n)
      site_prefetch_number(p->kernels, &p->ahead.calls[k].formed, &p->ahead.calls[k].number);
  for (uint32_t k = 0; k < p->ahead.n; k++)
    if (p->ahead.calls[k].formed.n && p->ahead.calls[k].number == TABLE_NONE && p->ahead.calls[k].tail < 0)
      call_fetch(p->run, p->ahead.calls[k].site);
  for (uint32_t k = 0; k < p->ahead.n; k++)
    if (p->ahead.calls[k].formed.n)
      site_prefetch_kernel(p->kernels, &p->ahead.calls[k].formed, p->ahead.calls[k].number);
}

void ahead_begin(epoch_planner *p) {
  const epoch_entry *base = p->base;
  p->ahead.n = p->ahead.at = 0;
  if (!base) return;
  fetch_bytes(base->roots.items, base->roots.n * sizeof *base->roots.items);
  fetch_bytes(base->kernels.items, base->kernels.n * sizeof *base->kernels.items);
}

void ahead_go(epoch_planner *p, const uint32_t *w) {
  const uint32_t *next = insn_next(w);
  if (p->ahead.at < p->ahead.n) p->ahead.at++;
  if (p->ahead.at == p->ahead.n || p->ahead.calls[p->ahead.at].next != next) list_calls(p, w);
}

#ifndef NDEBUG
/* True if the call's words are those that were formed ahead, or cannot be formed for lack of memory. */
static bool is_formed(const epoch_planner *p, const insn_invoke *i, const site_call *formed) {
  const size_t n = p->kernels->words.n;
  site_call again;
  bool same = !call_form(p->run, p->kernels, p->devices->bind[i->device], i, &again) ||
              site_same_call(p->kernels, formed, &again);
  site_cut(p->kernels, n);
  return same;
}
#endif

/* The words of the invoke i; NULL: they are not formed, because an operand has room, has a count that a kernel reports,
 * or equals the base's. */
static const site_call *formed_call(const epoch_planner *p, const insn_invoke *i) {
  const site_call *formed = &p->ahead.calls[p->ahead.at].formed;
  if (!formed->n) return NULL;
#ifndef NDEBUG
  assert(is_formed(p, i, formed));
#else
  (void)i;
#endif
  return formed;
}

reed_status ahead_prepare(epoch_planner *p, const insn_invoke *i, int32_t device, site_kernel **out_kernel,
                          bool *out_made) {
  const site_call *formed = formed_call(p, i);
  const int32_t number = p->ahead.calls[p->ahead.at].tail;
  reed_kernel made;
  *out_made = false;
  if (formed && number >= 0 && (*out_kernel = site_find(p->kernels, formed, i->site))) return REED_OK;
  if (!formed || number < 0 || !tail_take(p, number, &made))
    return call_prepare(p->run, p->devices, p->kernels, device, i, formed, out_kernel, out_made);
  *out_made = true;
  reed_status status = site_adopt(p->kernels, formed, i->site, &made, out_kernel, p->run->diagnosis);
  if (status != REED_OK && made.free) made.free(made.state);
  return at_site(p->run, i->site, status);
}
