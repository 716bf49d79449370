/* epoch.plan: walks the run section once with the extents that the shape section found, and turns it into an entry:
 * which registers share memory, from which step to which, arena offsets, prepared kernels.
 *
 * The walk follows the run section's branches (its scalars are known) and meets the same instructions as the run. A
 * root is a piece of memory: a kernel's output, a copy's target, a workspace. Registers are attached to roots. Views,
 * parts (Slice, Split) and in-place outputs are attached to their source's root; the root of an input of Concat can
 * become a part of the output's root (share.c). A root whose registers are all killed in the section lives in the
 * arena; any other root outlives the epoch. */
#include "base/team.h"
#include "vm/call.h"
#include "vm/epoch/place.h"
#include "vm/epoch/plan.h"
#include "vm/epoch/planner.h"
#include "vm/room.h"

#include <string.h>

/* Keeps the registers that the shape section wrote: the entry's own references. */
static reed_status capture_writes(epoch_planner *p) {
  epoch_entry *e = p->entry;
  for (size_t i = 0; i < e->writes.n; i++) {
    epoch_write *write = &e->writes.items[i];
    ref *now = reg_of(p, write->reg);
    if (p->rooms) now->t.room = now->t.cache = 0; /* the walk finds the rooms anew */
    ref_copy(&write->value, now);
    write->changed = p->active->notes[write->reg].changed;
    e->n_changed += write->changed;
    note_of(p, write->reg)->write = (int32_t)i;
  }
  for (size_t i = 0; i < e->scalars.n; i++) e->scalars.items[i].value = *reg_s(p->run, e->scalars.items[i].reg);
  return REED_OK;
}

static reed_status root_new(epoch_planner *p, int32_t device, int64_t bytes, int32_t step, int32_t *out_root) {
  epoch_entry *e = p->entry;
  if (!VEC_PUSH(&e->roots,
                ((epoch_root){.device = device, .inside = NO_ROOT, .first = step, .last = step, .bytes = bytes})) ||
      !VEC_PUSH(&p->alive, 0) || !VEC_PUSH(&p->dying, 0))
    return diag_no_memory(p->run->diagnosis, "epoch plan");
  *out_root = (int32_t)e->roots.n - 1;
  return REED_OK;
}

static void attach(epoch_planner *p, uint32_t reg, int32_t root, int64_t at) {
  note_of(p, reg)->root = root;
  note_of(p, reg)->at = at;
  if (root == NO_ROOT) return;
  p->alive.items[root]++;
  epoch_root *r = &p->entry->roots.items[root];
  r->bounded |= reg_of(p, reg)->bounded_axis >= 0;
  uint32_t mark = p->returned ? p->returned[reg] : 0;
  if (!mark || at != 0) return;
  r->returned = mark; /* of a row of views, the last one is the output */
  r->returned_write = note_of(p, reg)->write;
}

static void touch(epoch_planner *p, epoch_entry *e, uint32_t reg, int32_t step) {
  int32_t root = note_of(p, reg)->root;
  if (root != NO_ROOT) e->roots.items[root].last = step;
}

/* Checks that the shape section has shaped the outputs for this call. The registers are trusted if the verifier proved
 * rule V56 for the epoch and a `shape` of the same site wrote them last. Otherwise the shape function is called again
 * and the output registers are compared with its results. *out_bounded: some output's extent is a bound. */
static reed_status check_outputs(epoch_planner *p, const insn_invoke *i, int32_t device, bool *out_bounded) {
  bool trusted = p->run->program->module->epochs_shaped[p->entry->epoch] && call_is_shaped(p->run, i);
  reed_shape_output expected[REED_MAX_OPERANDS];
  bound_count count;
  if (!trusted) {
    reed_status status = call_shape(p->run, i->site, i->inputs, i->n_inputs, expected, i->n_outputs, &count);
    if (status != REED_OK) return status;
    p->entry->n_shape_functions++;
  }
  *out_bounded = false;
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    const ref *r = reg_of(p, i->outputs[k]);
    bool same = trusted || (r->kind == REF_SHAPED && r->bounded_axis == expected[k].bounded_axis &&
                            r->t.desc.dtype == expected[k].dtype && r->t.desc.rank == expected[k].rank &&
                            memcmp(r->t.desc.dims, expected[k].dims, sizeof(int64_t) * (size_t)expected[k].rank) == 0);
    if (!same || r->t.device != device || note_of(p, i->outputs[k])->write < 0)
      return diag_fail(p->run->diagnosis, REED_ERROR_SHAPE, "%s: output %u in r%u was not shaped for this call",
                       p->run->program->site_ops[i->site]->name, k, i->outputs[k]);
    *out_bounded |= r->bounded_axis >= 0;
  }
  return REED_OK;
}

/* ---- kernels of the base ----
 * The kernel with the number of this call in the base. The base is dropped as soon as its plan differs from this one in
 * more than sizes: then the number of roots, the kernels' sites or the roots of registers differ. */

static const epoch_kernel *kernel_in_base(epoch_planner *p, const insn_invoke *i) {
  const epoch_entry *e = p->entry, *base = p->base;
  if (!base) return NULL;
  const epoch_kernel *kernel = e->kernels.n < base->kernels.n ? &base->kernels.items[e->kernels.n] : NULL;
  if (kernel && kernel->site == i->site && kernel->n_roots == (int32_t)e->roots.n) return kernel;
  p->base = NULL;
  return NULL;
}

/* True if a register of the list, or the root that holds it, is another than in the base. */
static bool any_changed(epoch_planner *p, const uint32_t *registers, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (registers[k] == MODULE_ABSENT) continue;
    if (p->active->notes[registers[k]].changed) return true;
    int32_t root = note_of(p, registers[k])->root;
    if (root != NO_ROOT && p->entry->roots.items[root].bytes != p->base->roots.items[root].bytes) return true;
  }
  return false;
}

/* Drops the base unless the call's outputs lie on the same roots there, and its inputs are parts of the same roots. */
static void compare_with_base(epoch_planner *p, const insn_invoke *i, const epoch_kernel *kernel,
                              const epoch_kernel *before) {
  const epoch_entry *e = p->entry, *base = p->base;
  bool same = kernel->workspace_root == before->workspace_root && kernel->extent_root == before->extent_root;
  for (uint32_t k = 0; same && k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    int32_t write = note_of(p, i->outputs[k])->write;
    same = e->writes.items[write].root == base->writes.items[write].root;
  }
  for (uint32_t k = 0; same && k < i->n_inputs; k++) {
    int32_t root = i->inputs[k] == MODULE_ABSENT ? NO_ROOT : note_of(p, i->inputs[k])->root;
    same = root == NO_ROOT || e->roots.items[root].inside == base->roots.items[root].inside;
  }
  if (!same) p->base = NULL;
}

/* ---- kernels ---- */

static void count_shared(epoch_entry *e, const site_kernel *prepared) {
  e->n_shared++;
  e->shared_bytes += prepared->bytes;
}

static void count_dense(epoch_entry *e, const reed_kernel *kernel) {
  e->n_dense += kernel->dense_bytes > 0;
  e->dense_bytes += kernel->dense_bytes;
}

/* A root for the extents that a kernel reports, which are read after the epoch. */
static reed_status extent_root_new(epoch_planner *p, const insn_invoke *i, int32_t device, int32_t step,
                                   int32_t *out_root) {
  reed_status status = root_new(p, device, (int64_t)i->n_outputs * 8, step, out_root);
  if (status == REED_OK) p->alive.items[*out_root] = 1;
  return status;
}

/* Takes the site's kernel for the call, and gives workspace and reported extents their roots. */
static reed_status add_kernel(epoch_planner *p, const insn_invoke *i, int32_t device, bool bounded, int32_t step,
                              epoch_kernel **out_kernel) {
  epoch_entry *e = p->entry;
  site_kernel *prepared = NULL;
  bool is_new = false;
  /* A kernel may be long in the making: a convolution transforms its weights. */
  reed_status status = run_check_cancel(p->run);
  if (status == REED_OK) status = ahead_prepare(p, i, device, &prepared, &is_new);
  if (status != REED_OK) return status;
  if (!VEC_ROOM(&e->kernels)) {
    site_release(p->kernels, prepared);
    return diag_no_memory(p->run->diagnosis, "epoch plan");
  }
  epoch_kernel *kept = *out_kernel = &e->kernels.items[e->kernels.n++];
  *kept = (epoch_kernel){.prepared = prepared,
                         .site = i->site,
                         .n_roots = (int32_t)e->roots.n,
                         .workspace_root = NO_ROOT,
                         .extent_root = NO_ROOT,
                         .made = is_new};
  if (!is_new) count_shared(e, prepared);
  count_dense(e, &prepared->kernel);
  if (prepared->kernel.workspace_bytes > 0)
    status = root_new(p, device, prepared->kernel.workspace_bytes, step, &kept->workspace_root);
  if (status == REED_OK && bounded) status = extent_root_new(p, i, device, step, &kept->extent_root);
  return status;
}

/* The write of the first input whose extent a kernel of this epoch reports, for the count `counter` (0: for any); NULL:
 * none. */
static const epoch_write *counted_input(epoch_planner *p, const insn_invoke *i, uint32_t counter) {
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    if (i->inputs[k] == MODULE_ABSENT) continue;
    const ref *r = reg_of(p, i->inputs[k]);
    if (r->kind != REF_PENDING || (counter && r->counter != counter)) continue;
    const register_note *note = note_of(p, i->inputs[k]);
    if (note->write >= 0) return &p->entry->writes.items[note->write];
  }
  return NULL;
}

/* True if the operator's row bounds output k, so that its kernel always reports a count. */
static bool is_bounded(const epoch_planner *p, const insn_invoke *i, uint32_t k) {
  return reed_op_output_at(p->run->program->site_ops[i->site], (int32_t)k)->bounded;
}

/* The write of an input whose count output k has; NULL: the call's kernel reports the count. */
static const epoch_write *count_of(epoch_planner *p, const insn_invoke *i, uint32_t k) {
  return is_bounded(p, i, k) ? NULL : counted_input(p, i, reg_of(p, i->outputs[k])->counter);
}

static bool reports_count(epoch_planner *p, const insn_invoke *i) {
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT && reg_of(p, i->outputs[k])->bounded_axis >= 0 && !count_of(p, i, k))
      return true;
  return false;
}

/* Fails if an output has an input's count, but another factor or bound: the kernel would take the one for the other. */
static reed_status check_factors(epoch_planner *p, const insn_invoke *i) {
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    const ref *r = i->outputs[k] == MODULE_ABSENT ? NULL : reg_of(p, i->outputs[k]);
    bool same = !r || r->bounded_axis < 0 || !count_of(p, i, k);
    for (uint32_t n = 0; n < i->n_inputs && !same; n++) {
      const ref *in = i->inputs[n] == MODULE_ABSENT ? NULL : reg_of(p, i->inputs[n]);
      same = in && in->kind == REF_PENDING && in->counter == r->counter && in->factor == r->factor &&
             in->t.desc.dims[in->bounded_axis] == r->t.desc.dims[r->bounded_axis];
    }
    if (!same)
      return diag_fail(p->run->diagnosis, REED_ERROR_SHAPE,
                       "%s: output %u joins an extent that only the device knows with others, which only a view can",
                       p->run->program->site_ops[i->site]->name, k);
  }
  return REED_OK;
}

/* ---- registers with room (vm/room.h) ---- */

/* Gives a register that the shape section wrote its room. The register has changed if the base's has another one, even
 * if its extents are the base's. */
static void give_room(epoch_planner *p, uint32_t reg, int64_t room, int32_t axis, uint32_t cache) {
  int32_t n = note_of(p, reg)->write;
  ref *r = reg_of(p, reg);
  tensor *kept = n < 0 ? &r->t : &p->entry->writes.items[n].value.t;
  kept->room = r->t.room = room;
  kept->room_axis = r->t.room_axis = axis;
  kept->cache = r->t.cache = cache;
  const tensor *before = p->base && n >= 0 ? &p->base->writes.items[n].value.t : NULL;
  if (before && (before->room != room || before->room_axis != axis || before->cache != cache))
    p->active->notes[reg].changed = true;
}

const model_cache *plan_grown_cache(const vm_run *run, const insn_invoke *i, uint32_t k) {
  const model_caches *caches = &run->program->caches;
  for (size_t n = 0; n < caches->items.n; n++) {
    const model_cache *c = &caches->items.items[n];
    if (c->site != i->site || c->growth.output != (int32_t)k) continue;
    const tensor *past = &reg_r(run, i->inputs[c->growth.input])->t;
    const reed_desc *grown = &reg_r(run, i->outputs[k])->t.desc;
    if (past->cache == c->output + 1 && room_holds(past, growth_axis(&c->growth, grown->rank), grown)) return c;
  }
  return NULL;
}

/* Gives the outputs that grow in place the rooms of their pasts, before the kernel is prepared. */
static void plan_growth(epoch_planner *p, const insn_invoke *i) {
  bool any = false;
  for (uint32_t k = 0; k < i->n_inputs; k++)
    any |= i->inputs[k] != MODULE_ABSENT && reg_of(p, i->inputs[k])->t.cache != 0;
  for (uint32_t k = 0; (any || p->run->program->caches.items.n) && k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    const model_cache *c = any ? plan_grown_cache(p->run, i, k) : NULL;
    const tensor *past = c ? &reg_of(p, i->inputs[c->growth.input])->t : NULL;
    give_room(p, i->outputs[k], past ? past->room : 0, past ? growth_axis(&c->growth, past->desc.rank) : 0, 0);
    if (c) p->entry->writes.items[note_of(p, i->outputs[k])->write].bound = c->output + 1;
  }
}

/* Finds output k its root: an input's root that the output may share, or a new one. */
static reed_status output_root(epoch_planner *p, const insn_invoke *i, uint32_t k, int32_t device, int32_t step,
                               const reed_kernel *kernel, int32_t *out_root, int64_t *out_at) {
  *out_at = 0;
  *out_root = k == 0 ? share_in_place(p, i, kernel) : NO_ROOT;
  if (*out_root == NO_ROOT) *out_root = share_part(p, i, k, kernel, out_at);
  return *out_root == NO_ROOT ? root_new(p, device, reg_of(p, i->outputs[k])->bytes, step, out_root) : REED_OK;
}

/* Notes the place of a kernel's output k, and marks the register as computed for the rest of the walk (undo_walk puts
 * the mark back). root NO_ROOT: the output lies in bound memory. */
static void place_output(epoch_planner *p, const insn_invoke *i, uint32_t k, epoch_write *write, int32_t root,
                         int64_t at) {
  ref *r = reg_of(p, i->outputs[k]);
  attach(p, i->outputs[k], root, at);
  write->root = root;
  write->at = at;
  r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED;
  if (k == 0 && root != NO_ROOT && p->run->program->site_ops[i->site]->alias == REED_ALIAS_JOIN) share_join(p, i, root);
}

/* Repeats a call whose operands equal the operands in the base: the kernel needs no check and no preparation, and the
 * outputs lie on the roots with the same numbers. */
static reed_status repeat_invoke(epoch_planner *p, const insn_invoke *i, int32_t step, const epoch_kernel *before) {
  epoch_entry *e = p->entry;
  if (!VEC_PUSH(&e->kernels, *before)) return diag_no_memory(p->run->diagnosis, "epoch plan");
  site_retain(before->prepared);
  e->kernels.items[e->kernels.n - 1].made = false;
  count_shared(e, before->prepared);
  count_dense(e, &before->prepared->kernel);
  for (uint32_t k = 0; k < i->n_inputs; k++)
    if (i->inputs[k] != MODULE_ABSENT) touch(p, e, i->inputs[k], step);
  int32_t device = p->devices->bind[i->device], made;
  reed_status status = REED_OK;
  if (before->workspace_root != NO_ROOT)
    status = root_new(p, device, before->prepared->kernel.workspace_bytes, step, &made);
  if (status == REED_OK && before->extent_root != NO_ROOT) status = extent_root_new(p, i, device, step, &made);
  for (uint32_t k = 0; k < i->n_outputs && status == REED_OK; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    int32_t n = note_of(p, i->outputs[k])->write;
    const epoch_write *had = &p->base->writes.items[n];
    epoch_write *write = &e->writes.items[n];
    int64_t at = 0;
    if (had->root >= (int32_t)e->roots.n) status = root_new(p, device, reg_of(p, i->outputs[k])->bytes, step, &made);
    else if (had->root != NO_ROOT && p->run->program->site_ops[i->site]->alias == REED_ALIAS_PART)
      at = note_of(p, i->inputs[0])->at +
           before->prepared->kernel.part_at[k]; /* the source may lie elsewhere in its root */
    if (status != REED_OK) return status;
    place_output(p, i, k, write, had->root, at);
    write->extent_root = had->extent_root;
    write->extent_index = had->extent_index;
  }
  return status;
}

static reed_status plan_invoke(epoch_planner *p, const uint32_t *w, int32_t step) {
  const insn_invoke i = insn_invoke_at(w);
  epoch_entry *e = p->entry;
  int32_t device = p->devices->bind[i.device];
  bool bounded;
  epoch_kernel *kernel = NULL;
  ahead_go(p, w);
  const epoch_kernel *before = kernel_in_base(p, &i);
  if (p->rooms) plan_growth(p, &i);
  if (before && !any_changed(p, i.inputs, i.n_inputs) && !active_any_changed(p->active, i.outputs, i.n_outputs))
    return repeat_invoke(p, &i, step, before);
  reed_status status = check_outputs(p, &i, device, &bounded);
  for (uint32_t k = 0; status == REED_OK && k < i.n_inputs; k++)
    if (i.inputs[k] != MODULE_ABSENT) touch(p, e, i.inputs[k], step);
  if (status == REED_OK && bounded) status = check_factors(p, &i);
  if (status == REED_OK) status = add_kernel(p, &i, device, bounded && reports_count(p, &i), step, &kernel);
  if (status != REED_OK) return status;
  kernel->counted = counted_input(p, &i, 0) != NULL;
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    epoch_write *write = &e->writes.items[note_of(p, i.outputs[k])->write];
    int64_t at = 0;
    int32_t root = NO_ROOT;
    if (!write->bound) status = output_root(p, &i, k, device, step, &kernel->prepared->kernel, &root, &at);
    if (status != REED_OK) return status;
    place_output(p, &i, k, write, root, at);
    if (reg_of(p, i.outputs[k])->bounded_axis < 0) continue;
    const epoch_write *counted = count_of(p, &i, k);
    write->extent_root = counted ? counted->extent_root : kernel->extent_root;
    write->extent_index =
        counted ? counted->extent_index : (int32_t)bound_reporter(p->run->program->site_ops[i.site], i.outputs, k);
  }
  if (before) compare_with_base(p, &i, kernel, before);
  return REED_OK;
}

/* Attaches `target` to the memory of `source`: a view, a move, or a copy on the same device. */
static void plan_alias(epoch_planner *p, uint32_t target, uint32_t source, int32_t step) {
  touch(p, p->entry, source, step);
  attach(p, target, note_of(p, source)->root, note_of(p, source)->at);
  ref *r = reg_of(p, target);
  if (p->rooms) {
    tensor view = r->t;
    if (room_of_view(&reg_of(p, source)->t, &view))
      give_room(p, target, view.room, view.room_axis, reg_of(p, source)->t.cache);
  }
  if (r->kind != REF_SHAPED) return;
  r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED;
  if (r->bounded_axis < 0) return;
  const epoch_write *from = &p->entry->writes.items[note_of(p, source)->write];
  epoch_write *to = &p->entry->writes.items[note_of(p, target)->write];
  to->extent_root = from->extent_root;
  to->extent_index = from->extent_index;
}

/* Gives a copy to an accelerator its slot: a root of pinned host memory from which the copy reads. */
static reed_status plan_slot(epoch_planner *p, uint32_t reg, int64_t bytes, int32_t step) {
  epoch_entry *e = p->entry;
  epoch_copy copy = {.source = note_of(p, reg)->root};
  reed_status status = root_new(p, 0, bytes, step, &copy.slot);
  if (copy.source != NO_ROOT) e->roots.items[copy.source].copied = true;
  if (status == REED_OK && !VEC_PUSH(&e->copies, copy)) status = diag_no_memory(p->run->diagnosis, "epoch plan");
  return status;
}

static reed_status plan_copy(epoch_planner *p, const uint32_t *w, int32_t step) {
  const insn_copy i = insn_copy_at(w);
  ref *target = reg_of(p, i.dst);
  const ref *source = reg_of(p, i.src);
  if (target->kind != REF_SHAPED || note_of(p, i.dst)->write < 0 || source->kind != REF_STORED ||
      target->bytes != source->bytes)
    return diag_fail(p->run->diagnosis, REED_ERROR_SHAPE,
                     "copy of r%u to r%u: the target was not shaped like the source", i.src, i.dst);
  if (target->t.device == source->t.device) {
    plan_alias(p, i.dst, i.src, step);
    return REED_OK;
  }
  if (run_find_twin(p->run, source, target->t.device)) { /* the run takes the twin's memory */
    target->kind = REF_STORED;
    return REED_OK;
  }
  touch(p, p->entry, i.src, step);
  int32_t root;
  /* A copy to a device need not wait for kernels of this epoch (vm/devices.c); so the target's root lives from step 0
   * on and overlaps no other.
   */
  reed_status status = root_new(p, target->t.device, target->bytes, step, &root);
  if (status == REED_OK) p->entry->roots.items[root].first = 0;
  if (status == REED_OK && devices_plan_copy(p->devices, source->t.device, target->t.device))
    status = plan_slot(p, i.src, source->bytes, step);
  if (status != REED_OK) return status;
  attach(p, i.dst, root, 0);
  p->entry->writes.items[note_of(p, i.dst)->write].root = root;
  target->kind = REF_STORED;
  return REED_OK;
}

/* A view that only a dense copy of its source can be (vm/room.h): the copy gets a root. */
static reed_status plan_dense(epoch_planner *p, uint32_t target, uint32_t source, int32_t step) {
  ref *r = reg_of(p, target);
  int32_t root;
  if (note_of(p, target)->write < 0)
    return diag_fail(p->run->diagnosis, REED_ERROR_SHAPE, "view of r%u: r%u was not shaped in this epoch", source,
                     target);
  touch(p, p->entry, source, step);
  reed_status status = root_new(p, r->t.device, r->bytes, step, &root);
  if (status != REED_OK) return status;
  attach(p, target, root, 0);
  p->entry->writes.items[note_of(p, target)->write].root = root;
  give_room(p, target, 0, 0, 0);
  r->kind = REF_STORED;
  return REED_OK;
}

static reed_status plan_view(epoch_planner *p, const uint32_t *w, int32_t step) {
  const insn_view i = insn_view_at(w);
  const ref *target = reg_of(p, i.dst), *source = reg_of(p, i.src);
  bool same_count = target->bounded_axis < 0 ? source->kind == REF_STORED
                                             : source->kind == REF_PENDING && target->counter == source->counter &&
                                                   note_of(p, i.dst)->write >= 0 && note_of(p, i.src)->write >= 0;
  if (target->kind != REF_SHAPED || !same_count || target->bytes != source->bytes ||
      target->t.device != source->t.device) {
    char a[128], b[128];
    return diag_fail(p->run->diagnosis, REED_ERROR_SHAPE, "cannot view %s as %s",
                     desc_text(&source->t.desc, a, sizeof a), desc_text(&target->t.desc, b, sizeof b));
  }
  tensor view = target->t;
  if (source->t.room && !room_of_view(&source->t, &view)) return plan_dense(p, i.dst, i.src, step);
  plan_alias(p, i.dst, i.src, step);
  return REED_OK;
}

/* r.move in a run section: the walk needs the descriptor that the target will have. */
static void plan_move(epoch_planner *p, const uint32_t *w, int32_t step) {
  const insn_r_move i = insn_r_move_at(w);
  if (i.dst == i.src) return;
  ref copy = *reg_of(p, i.src); /* uncounted, for the walk only: the run moves for real */
  copy.t.storage = copy.extent_storage = NULL;
  copy.object = NULL;
  copy.shaped_by = 0;
  p->active->notes[i.dst].changed = p->active->notes[i.src].changed;
  ref *target = reg_of(p, i.dst);
  ref_clear(&p->run->objects, target);
  *target = copy;
  plan_alias(p, i.dst, i.src, step);
}

static void plan_kill(epoch_planner *p, const uint32_t *w) {
  const insn_kill i = insn_kill_at(w);
  register_note *note = note_of(p, i.victim);
  if (note->root != NO_ROOT) p->alive.items[note->root]--;
  note->root = NO_ROOT;
}

/* The word that `branch.if` or `branch.ifnot` (on_zero) leads to. */
static uint32_t branch_target(const epoch_planner *p, const uint32_t *w, bool on_zero, uint32_t next) {
  const insn_branch_if i = insn_branch_if_at(w);
  return (*reg_s(p->run, i.condition) == 0) == on_zero ? i.target : next;
}

static reed_status walk(epoch_planner *p, uint32_t pc) {
  const uint32_t *code = p->run->program->module->code + frame_top(p->run)->function->code_offset;
  for (int32_t step = 0;; step++) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + insn_length_at(w);
    reed_status status = REED_OK;
    switch (insn_id_at(w)) {
      case INSN_INVOKE: status = plan_invoke(p, w, step); break;
      case INSN_COPY: status = plan_copy(p, w, step), compare_root(p, insn_copy_at(w).dst); break;
      case INSN_VIEW: status = plan_view(p, w, step), compare_root(p, insn_view_at(w).dst); break;
      case INSN_R_MOVE: plan_move(p, w, step); break;
      case INSN_KILL: plan_kill(p, w); break;
      case INSN_JUMP: next = insn_jump_at(w).target; break;
      case INSN_BRANCH_IF: next = branch_target(p, w, false, next); break;
      case INSN_BRANCH_IFNOT: next = branch_target(p, w, true, next); break;
      case INSN_EPOCH_END: p->end = step; return REED_OK;
      default: status = diag_fail(p->run->diagnosis, REED_ERROR_FORMAT, "an instruction that no run section may hold");
    }
    if (status != REED_OK) {
      diag_place_code(p->run->diagnosis, p->run->program->module->strings[frame_top(p->run)->function->name], pc);
      return status;
    }
    pc = next;
  }
}

/* Puts the registers' kinds back to those that the shape section left, because the walk marked them stored. */
static void undo_walk(epoch_planner *p) {
  const epoch_entry *e = p->entry;
  for (size_t i = 0; i < e->writes.n; i++) {
    ref *r = reg_of(p, e->writes.items[i].reg);
    r->kind = e->writes.items[i].value.kind;
  }
}

reed_status epoch_plan(reed_session *s, uint32_t pc_after_plan) {
  epoch_entry *e = s->epoch.entry;
  int64_t begin = clock_now_ns();
  epoch_planner *p = NULL;
  reed_status status = epoch_planner_begin(s, &p);
  if (status == REED_OK) status = capture_writes(p);
  if (status != REED_OK) return status;
  tail_begin(p, run_code(p->run) + pc_after_plan);
  status = walk(p, pc_after_plan);
  tail_end(p);
  undo_walk(p);
  bool reused = false;
  if (status == REED_OK) status = layout_roots(p, s->memo.epochs[e->epoch].layouts, &reused);
  if (status != REED_OK) return status;
  s->memo.figures.layouts_reused += reused;
  e->n_kernels = (int32_t)e->kernels.n;
  e->n_repeated = s->epoch.n_repeated;
  active_end_shapes(&s->epoch);
  bool memoizable = e->remembered;
  e->remembered = false;
  if (memoizable) memo_remember(&s->memo, e, devices_busy(&s->devices));
  status = epoch_place(s, false);
  int64_t end = clock_now_ns();
  if (s->run.profile.epochs.n) {
    profile_epoch *note = &s->run.profile.epochs.items[s->run.profile.epochs.n - 1];
    note->shape_ns = begin - note->begin_ns - note->enter_ns;
    note->plan_ns = end - begin;
    profile_event *event = profile_note(&s->run.profile, PROFILE_SHAPE, e->epoch, 0);
    if (event) event->span = (device_span){begin - note->shape_ns, begin};
    event = profile_note(&s->run.profile, PROFILE_PLAN, e->epoch, 0);
    if (event) event->span = (device_span){begin, end};
  }
  s->epoch.n_jobs = team_n_jobs(); /* without those of kernels being prepared */
  return status;
}
