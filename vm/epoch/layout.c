/* Offsets of an epoch's roots in the arenas: packed by allocator/plan.c, or taken again from the last plan's layout.
 * Which registers share a root is settled before, in share.c. */
#include "vm/epoch/planner.h"

#include <assert.h>
#include <string.h>

static bool layout_serves(const epoch_layout *layout, const epoch_entry *e) {
  if (!layout->roots || layout->n_roots != e->roots.n) return false;
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *old = &layout->roots[i], *now = &e->roots.items[i];
    if (old->device != now->device || old->outlives != now->outlives || old->inside != now->inside ||
        old->first != now->first || old->last != now->last || old->bytes < now->bytes)
      return false;
  }
  return true;
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

static bool in_arena(const epoch_root *root, int32_t device) {
  return root->device == device && root->inside == NO_ROOT && !root->outlives;
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

reed_status layout_roots(epoch_planner *p, epoch_layout *layout, bool *out_reused) {
  epoch_entry *e = p->entry;
  for (size_t i = 0; i < e->roots.n; i++) e->roots.items[i].outlives = p->alive.items[i] > 0;
  settle_copies(p);
  *out_reused = layout_serves(layout, e);
  if (*out_reused) {
    for (size_t i = 0; i < e->roots.n; i++) e->roots.items[i].offset = layout->roots[i].offset;
    memcpy(e->arenas, layout->arenas, sizeof e->arenas);
    place_parts(e);
    return REED_OK;
  }
  for (int32_t d = 0; d < p->devices->n; d++) {
    p->intervals.n = 0;
    for (size_t i = 0; i < e->roots.n; i++) {
      const epoch_root *root = &e->roots.items[i];
      if (in_arena(root, d) &&
          !VEC_PUSH(&p->intervals, ((plan_interval){.first = root->first, .last = root->last, .bytes = root->bytes})))
        return diag_no_memory(p->run->diagnosis, "epoch plan");
    }
    if (!p->intervals.n) continue;
    reed_status status = plan_offsets(p->intervals.items, (int32_t)p->intervals.n, &e->arenas[d], p->run->diagnosis);
    if (status != REED_OK) return status;
#ifndef NDEBUG
    if ((status = plan_check(p->intervals.items, (int32_t)p->intervals.n, e->arenas[d].bytes, p->run->diagnosis)) !=
        REED_OK)
      return status;
#endif
    size_t k = 0;
    for (size_t i = 0; i < e->roots.n; i++)
      if (in_arena(&e->roots.items[i], d)) e->roots.items[i].offset = p->intervals.items[k++].offset;
  }
  place_parts(e);
  epoch_root *roots = mem_copy(e->roots.items, e->roots.n * sizeof *roots);
  if (!roots) return diag_no_memory(p->run->diagnosis, "epoch plan");
  mem_free(layout->roots);
  layout->roots = roots;
  layout->n_roots = e->roots.n;
  memcpy(layout->arenas, e->arenas, sizeof e->arenas);
  return REED_OK;
}
