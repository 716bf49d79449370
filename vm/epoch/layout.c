/* Offsets of an epoch's roots in the arenas: packed by allocator/plan.c, or taken again from an earlier plan's layout.
 * Which registers share a root is settled before, in share.c.
 *
 * Headroom. The first layout of an epoch is exact, but for workspaces that lie apart (plan.c). When a new layout is
 * needed because extents have changed, slots of roots whose bytes differ from the last entry's get up to a tenth more,
 * or keep the room that they have, so that the next extents fit too, as do small roots, because a workspace may grow in
 * steps of its own; the arena stays within a tenth of the entry's lower bound. In a small arena (SMALL_BYTES) slots of
 * changed roots are twice as large, and every slot keeps the room that it had before, so that tensors whose extents
 * change by chance (a detector's counts of boxes) fit from the second or third layout on, whatever they are.
 *
 * Shrinking. A layout serves an entry only if the entry's end in the arena is at most twice its lower bound there (or
 * small). In a session whose runs have lacked memory (vm_devices.is_exact) layouts are exact, and one serves an entry
 * only if the entry needs no less than its end. An epoch keeps its last EPOCH_LAYOUTS layouts, so that sizes far apart
 * which take turns are not laid out again and again. */
#include "vm/epoch/planner.h"

#include <assert.h>
#include <string.h>

enum {
  HEADROOM = 10,         /* a slot may be a tenth larger than its root, and the arena than its lower bound */
  SMALL_HEADROOM = 1,    /* in a small arena a slot may be as large again as its root */
  SMALL_SHARE = 64,      /* a root of this share of the lower bound has headroom before it changes */
  FILL = 2,              /* a layout serves an entry that needs half of it */
  SMALL_BYTES = 1 << 20, /* no entry is laid out anew for fewer bytes, and slots of such an arena keep their room */
};

typedef struct layout_root {
  int32_t device, inside, first, last;
  bool outlives;
  bool fullest;  /* live at the fullest step of its arena */
  int64_t room;  /* of the slot */
  int64_t bytes; /* of the entry that the layout served last */
  int64_t offset;
} layout_root;

static bool in_arena(const epoch_root *root, int32_t device) {
  return root->device == device && root->inside == NO_ROOT && !root->outlives;
}

/* True if the layout is of the same roots, whatever their bytes are. */
static bool same_roots(const epoch_layout *layout, const epoch_entry *e) {
  if (!layout->roots || layout->n_roots != e->roots.n) return false;
  for (size_t i = 0; i < e->roots.n; i++) {
    const layout_root *old = &layout->roots[i];
    const epoch_root *now = &e->roots.items[i];
    if (old->device != now->device || old->outlives != now->outlives || old->inside != now->inside ||
        old->first != now->first || old->last != now->last)
      return false;
  }
  return true;
}

/* True if every root fits its slot and no arena is much larger than the entry needs, or, exactly, larger at all. The
 * bytes at the layout's fullest step stand for the entry's lower bound. */
static bool layout_serves(const epoch_layout *layout, const epoch_entry *e, bool is_exact) {
  if (!same_roots(layout, e)) return false;
  int64_t need[MODULE_MAX_DEVICES] = {0}, end[MODULE_MAX_DEVICES] = {0};
  for (size_t i = 0; i < e->roots.n; i++) {
    const layout_root *slot = &layout->roots[i];
    const epoch_root *root = &e->roots.items[i];
    if (slot->room < root->bytes) return false;
    if (!in_arena(root, root->device)) continue;
    int64_t bytes = plan_round_up(root->bytes);
    if (slot->fullest) need[root->device] += bytes;
    if (bytes && end[root->device] < slot->offset + bytes) end[root->device] = slot->offset + bytes;
  }
  for (int32_t d = 0; d < MODULE_MAX_DEVICES; d++)
    if (is_exact ? end[d] > need[d] : end[d] > SMALL_BYTES && end[d] / FILL > need[d]) return false;
  return true;
}

/* Puts layout i before all others. */
static void make_first(epoch_layout *layouts, int i) {
  epoch_layout first = layouts[i];
  memmove(layouts + 1, layouts, (size_t)i * sizeof *layouts);
  layouts[0] = first;
}

/* Gives the entry its arenas' figures: their sizes up to its own last byte, and as their lower bounds its bytes at the
 * layout's fullest step. */
static void size_arenas(const epoch_layout *layout, epoch_entry *e) {
  for (int32_t d = 0; d < MODULE_MAX_DEVICES; d++) e->arenas[d] = (plan_figures){.fullest = layout->arenas[d].fullest};
  for (size_t i = 0; i < e->roots.n; i++) {
    epoch_root *root = &e->roots.items[i];
    plan_figures *arena = &e->arenas[root->device];
    root->fullest = layout->roots[i].fullest;
    if (!in_arena(root, root->device) || !root->bytes) continue;
    int64_t bytes = plan_round_up(root->bytes);
    if (arena->bytes < root->offset + bytes) arena->bytes = root->offset + bytes;
    arena->bytes_without_reuse += bytes;
    if (root->fullest) arena->lower_bound += bytes;
  }
}

/* Offsets of parts, relative to their whole. Roots are visited from the last to the first, because a whole has a higher
 * index than its parts. */
static void place_parts(epoch_entry *e) {
  for (int32_t i = (int32_t)e->roots.n - 1; i >= 0; i--) {
    epoch_root *root = &e->roots.items[i];
    assert(root->inside == NO_ROOT || root->inside > i);
    if (root->inside == NO_ROOT) {
      root->top = i;
    } else {
      const epoch_root *whole = &e->roots.items[root->inside];
      assert(root->at + root->bytes <= whole->bytes && root->first >= whole->first && root->last <= whole->last);
      root->top = whole->top;
      root->offset = whole->offset + root->at;
    }
  }
}

/* Extends the life of the host bytes that copies to an accelerator read to the epoch's end, because a copy may run late
 * (vm/devices.c keeps them from there on). A source in the host's arena needs no slot of its own, because the arena is
 * pinned. */
static void settle_copies(epoch_planner *p) {
  epoch_root *roots = p->entry->roots.items;
  for (size_t i = 0; i < p->entry->copies.n; i++) {
    epoch_copy *c = &p->entry->copies.items[i];
    int32_t whole = c->source;
    while (whole != NO_ROOT && roots[whole].inside != NO_ROOT) whole = roots[whole].inside;
    roots[c->slot].last = p->end;
    if (whole == NO_ROOT || roots[whole].outlives) continue;
    roots[c->slot].bytes = 0;
    c->slot = NO_ROOT;
    for (int32_t root = c->source; root != NO_ROOT; root = roots[root].inside) roots[root].last = p->end;
  }
}

/* Lists the roots of one arena as intervals, with a share of headroom (0: none) for those that have changed or are of
 * at most `small` bytes. */
static reed_status list_intervals(epoch_planner *p, int32_t device, const epoch_layout *before, int64_t share,
                                  int64_t small) {
  const epoch_entry *e = p->entry;
  p->intervals.n = 0;
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *root = &e->roots.items[i];
    if (!in_arena(root, device)) continue;
    int64_t bytes = root->bytes;
    if (share && (before->roots[i].bytes != bytes || (bytes > 0 && bytes <= small)) && bytes <= INT64_MAX / 2) {
      /* a slot that has room keeps it, so that the arena does not grow for another root's sake */
      int64_t more = bytes / share / PLAN_ALIGNMENT * PLAN_ALIGNMENT, room = before->roots[i].room;
      more = more ? more : PLAN_ALIGNMENT;
      bytes = room > bytes && room - bytes < more ? room : bytes + more;
    }
    if (!VEC_PUSH(&p->intervals, ((plan_interval){.first = root->first, .last = root->last, .bytes = bytes})))
      return diag_no_memory(p->run->diagnosis, "epoch plan");
  }
  return REED_OK;
}

/* Lists the roots of one arena as intervals that are no smaller than their slots before. */
static void keep_rooms(epoch_planner *p, int32_t device, const epoch_layout *before) {
  size_t k = 0;
  for (size_t i = 0; i < p->entry->roots.n; i++) {
    if (!in_arena(&p->entry->roots.items[i], device)) continue;
    plan_interval *v = &p->intervals.items[k++];
    if (v->bytes < before->roots[i].room) v->bytes = before->roots[i].room;
  }
}

/* True if the arena may be a little larger for its workspaces' sake, which threads share. */
static bool workspaces_apart(const epoch_planner *p, int32_t device) {
  return device == 0 && p->devices->env.n_threads > 1 && !p->devices->cap_bytes && !p->devices->is_exact;
}

/* Places one arena's intervals exactly, or with headroom for roots that have changed since `before` (NULL: exactly) if
 * the arena stays within a tenth of its lower bound. */
static reed_status place_arena(epoch_planner *p, int32_t device, const epoch_layout *before, plan_figures *out) {
  reed_diagnosis *d = p->run->diagnosis;
  plan_figures exact = {0};
  reed_status status = list_intervals(p, device, before, 0, 0);
  if (status != REED_OK || !p->intervals.n) return status;
  if (before) status = plan_bound(p->intervals.items, (int32_t)p->intervals.n, &exact, d);
  if (before && status == REED_OK && exact.lower_bound <= SMALL_BYTES) {
    status = list_intervals(p, device, before, SMALL_HEADROOM, 0);
    if (status != REED_OK) return status;
    keep_rooms(p, device, before);
    status = plan_offsets(p->intervals.items, (int32_t)p->intervals.n, false, out, d);
    if (status != REED_OK && status != REED_ERROR_MEMORY) return status;
    if (status == REED_OK && out->bytes <= SMALL_BYTES) {
      *out = (plan_figures){out->bytes, exact.bytes_without_reuse, exact.lower_bound, exact.fullest};
      return REED_OK;
    }
    status = REED_OK;
  }
  for (int64_t share = HEADROOM; before && share <= 4 * HEADROOM && status == REED_OK; share *= 2) {
    status = list_intervals(p, device, before, share, exact.lower_bound / SMALL_SHARE);
    if (status == REED_OK) status = plan_offsets(p->intervals.items, (int32_t)p->intervals.n, false, out, d);
    if (status == REED_ERROR_MEMORY) break;
    if (status != REED_OK || out->bytes - exact.lower_bound > exact.lower_bound / HEADROOM) continue;
    *out = (plan_figures){out->bytes, exact.bytes_without_reuse, exact.lower_bound, exact.fullest};
    return REED_OK;
  }
  status = list_intervals(p, device, before, 0, 0);
  if (status == REED_OK)
    status = plan_offsets(p->intervals.items, (int32_t)p->intervals.n, workspaces_apart(p, device), out, d);
  return status;
}

/* A new layout for the entry's roots, whose offsets are set. */
static reed_status layout_make(epoch_planner *p, const epoch_layout *before, epoch_layout *out_layout) {
  epoch_entry *e = p->entry;
  epoch_layout made = {.roots = mem_calloc(e->roots.n, sizeof *made.roots), .n_roots = e->roots.n};
  if (!made.roots) return diag_no_memory(p->run->diagnosis, "epoch plan");
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *r = &e->roots.items[i];
    made.roots[i] = (layout_root){.device = r->device,
                                  .inside = r->inside,
                                  .first = r->first,
                                  .last = r->last,
                                  .outlives = r->outlives,
                                  .room = in_arena(r, r->device) ? 0 : INT64_MAX,
                                  .bytes = r->bytes};
  }
  for (int32_t d = 0; d < p->devices->n; d++) {
    reed_status status = place_arena(p, d, before, &made.arenas[d]);
#ifndef NDEBUG
    if (status == REED_OK && p->intervals.n)
      status = plan_check(p->intervals.items, (int32_t)p->intervals.n, made.arenas[d].bytes, p->run->diagnosis);
#endif
    if (status != REED_OK) {
      mem_free(made.roots);
      return status;
    }
    size_t k = 0;
    for (size_t i = 0; i < e->roots.n; i++) {
      if (!in_arena(&e->roots.items[i], d)) continue;
      const plan_interval *v = &p->intervals.items[k++];
      e->roots.items[i].offset = made.roots[i].offset = v->offset;
      made.roots[i].room = plan_round_up(v->bytes);
      made.roots[i].fullest = v->first <= made.arenas[d].fullest && v->last >= made.arenas[d].fullest;
    }
  }
  *out_layout = made;
  return REED_OK;
}

reed_status layout_roots(epoch_planner *p, epoch_layout *layouts, bool *out_reused) {
  epoch_entry *e = p->entry;
  for (size_t i = 0; i < e->roots.n; i++) e->roots.items[i].outlives = p->alive.items[i] > 0;
  settle_copies(p);
  int i = 0;
  const bool is_exact = p->devices->is_exact;
  while (i < EPOCH_LAYOUTS && !layout_serves(&layouts[i], e, is_exact)) i++;
  *out_reused = i < EPOCH_LAYOUTS;
  if (*out_reused) {
    make_first(layouts, i);
    for (size_t k = 0; k < e->roots.n; k++) {
      if (e->roots.items[k].inside == NO_ROOT) e->roots.items[k].offset = layouts[0].roots[k].offset;
      layouts[0].roots[k].bytes = e->roots.items[k].bytes;
    }
  } else {
    epoch_layout made;
    reed_status status = layout_make(p, !is_exact && same_roots(&layouts[0], e) ? &layouts[0] : NULL, &made);
    if (status != REED_OK) return status;
    mem_free(layouts[EPOCH_LAYOUTS - 1].roots);
    layouts[EPOCH_LAYOUTS - 1] = made;
    make_first(layouts, EPOCH_LAYOUTS - 1);
  }
  place_parts(e);
  size_arenas(&layouts[0], e);
  return REED_OK;
}
