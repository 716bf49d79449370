/* epoch.plan: walks the run section once with the extents that the shape section found, and turns it into an entry:
 * which registers share memory, from which step to which, arena offsets, prepared kernels.
 *
 * The walk follows the run section's branches (its scalars are known) and meets the same instructions as the run. A
 * root is a piece of memory: a kernel's output, a copy's target, a workspace. Registers are attached to roots; views,
 * parts (Slice, Split) and in-place outputs join the root of what they share, and what is only wanted to be joined
 * (Concat) becomes a part of the root of the whole. A root whose registers are all killed in the section lives in the
 * arena, any other outlives the epoch. */
#include <assert.h>
#include <string.h>

#include "vm/epoch/epoch.h"

#define NO_ROOT (-1)

typedef struct register_note {
  uint32_t stamp;
  int32_t root;  /* NO_ROOT: memory from outside the epoch, or none yet */
  int64_t at;    /* byte of the root where it begins */
  uint32_t mark; /* of the last look ahead that met it */
  int32_t write; /* index into the entry's writes; -1: not written by the shape section */
} register_note;

typedef struct epoch_planner {
  register_note *registers;
  size_t n_registers;
  uint32_t stamp, mark;
  VEC_OF(int32_t) alive;           /* per root: registers attached */
  VEC_OF(plan_interval) intervals; /* of one device */
} epoch_planner;

void epoch_planner_close(epoch_planner **planner) {
  epoch_planner *p = *planner;
  if (!p) return;
  mem_free(p->registers);
  VEC_FREE(&p->alive);
  VEC_FREE(&p->intervals);
  mem_free(p);
  *planner = NULL;
}

static reed_status planner_begin(reed_session *s, epoch_planner **out_planner) {
  if (!s->planner && !(s->planner = mem_calloc(1, sizeof *s->planner)))
    return diag_no_memory(s->diagnosis, "epoch planner");
  epoch_planner *p = s->planner;
  size_t n_r = frame_top(s)->function->n_r;
  if (p->n_registers < n_r) {
    register_note *grown = mem_resize(p->registers, n_r, sizeof *grown);
    if (!grown) return diag_no_memory(s->diagnosis, "epoch planner");
    memset(grown + p->n_registers, 0, (n_r - p->n_registers) * sizeof *grown);
    p->registers = grown;
    p->n_registers = n_r;
  }
  p->stamp++;
  p->alive.n = 0;
  *out_planner = p;
  return REED_OK;
}

static register_note *note_of(epoch_planner *p, uint32_t reg) {
  register_note *note = &p->registers[reg];
  if (note->stamp != p->stamp) *note = (register_note){.stamp = p->stamp, .root = NO_ROOT, .write = -1};
  return note;
}

/* Keeps the registers that the shape section wrote: the entry's own references. */
static reed_status capture_writes(reed_session *s, epoch_planner *p, epoch_entry *e) {
  for (size_t i = 0; i < e->writes.n; i++) {
    epoch_write *write = &e->writes.items[i];
    write->value = (ref){0};
    ref_assign(&s->objects, &write->value, reg_r(s, write->reg));
    note_of(p, write->reg)->write = (int32_t)i;
  }
  for (size_t i = 0; i < e->scalars.n; i++) e->scalars.items[i].value = *reg_s(s, e->scalars.items[i].reg);
  return REED_OK;
}

static reed_status root_new(reed_session *s, epoch_planner *p, int32_t device, int64_t bytes, int32_t step,
                            int32_t *out_root) {
  epoch_entry *e = s->current;
  if (!VEC_PUSH(&e->roots,
                ((epoch_root){.device = device, .inside = NO_ROOT, .first = step, .last = step, .bytes = bytes})) ||
      !VEC_PUSH(&p->alive, 0))
    return diag_no_memory(s->diagnosis, "epoch plan");
  *out_root = (int32_t)e->roots.n - 1;
  return REED_OK;
}

static void attach(reed_session *s, epoch_planner *p, uint32_t reg, int32_t root, int64_t at) {
  note_of(p, reg)->root = root;
  note_of(p, reg)->at = at;
  if (root == NO_ROOT) return;
  p->alive.items[root]++;
  s->current->roots.items[root].returned |= frame_top(s)->function_index == 0 && s->program->returned[reg];
}

static void touch(epoch_planner *p, epoch_entry *e, uint32_t reg, int32_t step) {
  int32_t root = note_of(p, reg)->root;
  if (root != NO_ROOT) e->roots.items[root].last = step;
}

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
static int32_t in_place_root(reed_session *s, epoch_planner *p, const reed_op *op, const ref *output,
                             const uint32_t *inputs, uint32_t n_inputs, const uint32_t *next) {
  if (op->alias != REED_ALIAS_INPLACE && op->alias != REED_ALIAS_INPLACE_FIRST) return NO_ROOT;
  if (output->bounded_axis >= 0) return NO_ROOT;
  int64_t elements = desc_elements(&output->t.desc);
  uint32_t n_candidates = op->alias == REED_ALIAS_INPLACE_FIRST && n_inputs > 1 ? 1 : n_inputs;
  for (uint32_t i = 0; i < n_candidates; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) continue;
    int32_t root = note_of(p, number)->root;
    const ref *r = reg_r(s, number);
    if (root == NO_ROOT || r->t.desc.dtype != output->t.desc.dtype || desc_elements(&r->t.desc) != elements ||
        r->t.device != output->t.device)
      continue;
    if (r->bytes != s->current->roots.items[root].bytes) continue;
    bool ok = true;
    for (uint32_t k = 0; ok && k < n_inputs; k++) {
      uint32_t other = INSN_REGISTER(inputs[k]);
      if (k == i || other == MODULE_ABSENT || note_of(p, other)->root != root) continue;
      ok = op->alias == REED_ALIAS_INPLACE && desc_elements(&reg_r(s, other)->t.desc) == elements;
    }
    if (ok && dies_here(p, root, next)) return root;
  }
  return NO_ROOT;
}

/* Marks what shows the same memory as a marked register by the instruction at w; gives how many. */
static int32_t mark_sharers(reed_session *s, epoch_planner *p, const uint32_t *w) {
  insn_id id = (insn_id)(w[0] & 0xffff);
  bool invoke = id == INSN_INVOKE,
       part = invoke && s->program->site_ops[w[1]]->alias == REED_ALIAS_PART && w[4 + w[3]] > 0;
  if (!part && id != INSN_VIEW && id != INSN_COPY && id != INSN_R_MOVE) return 0;
  const uint32_t *targets = invoke ? w + 4 : w + 1;
  uint32_t source = invoke ? INSN_REGISTER(w[5 + w[3]]) : w[2], n_targets = invoke ? w[3] : 1;
  if (source == MODULE_ABSENT || note_of(p, source)->mark != p->mark) return 0;
  int32_t n = 0;
  for (uint32_t i = 0; i < n_targets; i++) {
    bool copied = id == INSN_COPY && reg_r(s, targets[i])->t.device != reg_r(s, source)->t.device;
    if (targets[i] == MODULE_ABSENT || copied || note_of(p, targets[i])->mark == p->mark) continue;
    note_of(p, targets[i])->mark = p->mark;
    n++;
  }
  return n;
}

/* A register on a part of a root keeps all of it. That is as well where everything on the part goes within the epoch,
 * as far as can be seen from `next` on, and is gone before the rest or is most of it. */
static bool may_keep(reed_session *s, epoch_planner *p, uint32_t reg, int64_t bytes, int32_t root,
                     const uint32_t *next) {
  int32_t n = 1;
  bool rest_is_later = false;
  p->mark++;
  note_of(p, reg)->mark = p->mark;
  for (const uint32_t *w = next; (w[0] & 0xffff) != INSN_EPOCH_END; w += w[0] >> 16) {
    n += mark_sharers(s, p, w);
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
  return n == 0 && (rest_is_later || bytes >= s->current->roots.items[root].bytes / 2);
}

/* The root of input 0 where output i is a stretch of it and may lie there, from byte *out_at on; NO_ROOT: it must not.
 */
static int32_t part_root(reed_session *s, epoch_planner *p, const uint32_t *w, uint32_t i, const reed_kernel *kernel,
                         int64_t *out_at) {
  if (s->program->site_ops[w[1]]->alias != REED_ALIAS_PART || !kernel->part_at || kernel->part_at[i] < 0)
    return NO_ROOT;
  uint32_t n_outputs = w[3], reg = w[4 + i], source = INSN_REGISTER(w[5 + n_outputs]);
  const ref *output = reg_r(s, reg);
  if (source == MODULE_ABSENT) return NO_ROOT;
  const register_note *note = note_of(p, source);
  if (note->root == NO_ROOT || output->bounded_axis >= 0 || output->t.device != reg_r(s, source)->t.device)
    return NO_ROOT;
  if (kernel->part_at[i] > reg_r(s, source)->bytes - output->bytes ||
      !may_keep(s, p, reg, output->bytes, note->root, w + (w[0] >> 16)))
    return NO_ROOT;
  *out_at = note->at + kernel->part_at[i];
  return note->root;
}

/* Inputs that the whole takes up in one stretch are computed where they will lie in it, if they fill memory that is
 * this epoch's, is no part of something yet and is wanted for nothing else from here on. The whole then lives from the
 * first of them on. */
static void join_inputs(reed_session *s, epoch_planner *p, uint32_t site, int32_t whole, const ref *output,
                        const uint32_t *inputs, uint32_t n_inputs, const uint32_t *next) {
  const reed_desc *desc = &output->t.desc;
  int64_t axis = reed_attrs_int(&s->program->module->sites[site].attrs, "axis", 0), at = 0;
  if (axis < 0) axis += desc->rank;
  if (axis < 0 || axis >= desc->rank) return;
  for (int64_t i = 0; i < axis; i++)
    if (desc->dims[i] != 1) return;
  for (uint32_t i = 0; i < n_inputs; i++) {
    uint32_t number = INSN_REGISTER(inputs[i]);
    if (number == MODULE_ABSENT) continue;
    const ref *r = reg_r(s, number);
    int32_t part = note_of(p, number)->root;
    epoch_root *roots = s->current->roots.items;
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

/* invoke SITE DEV RXS_KERNEL RUS_KERNEL */
static reed_status plan_invoke(reed_session *s, epoch_planner *p, const uint32_t *w, int32_t step) {
  epoch_entry *e = s->current;
  uint32_t site = w[1], n_outputs = w[3], n_inputs = w[4 + n_outputs];
  const uint32_t *outputs = w + 4, *inputs = w + 5 + n_outputs;
  const reed_op *op = s->program->site_ops[site];
  int32_t device = s->bind[w[2]];
  reed_shape_output expected[REED_MAX_OPERANDS];
  reed_status status = call_shape(s, site, inputs, n_inputs, expected, n_outputs);
  if (status != REED_OK) return status;
  bool bounded = false;
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (outputs[i] == MODULE_ABSENT) continue;
    const ref *r = reg_r(s, outputs[i]);
    bool same = r->kind == REF_SHAPED && r->t.device == device && r->bounded_axis == expected[i].bounded_axis &&
                r->t.desc.dtype == expected[i].dtype && r->t.desc.rank == expected[i].rank &&
                memcmp(r->t.desc.dims, expected[i].dims, sizeof(int64_t) * (size_t)expected[i].rank) == 0;
    if (!same || note_of(p, outputs[i])->write < 0)
      return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "%s: output %u in r%u was not shaped for this call", op->name, i,
                       outputs[i]);
    bounded |= r->bounded_axis >= 0;
  }
  epoch_kernel kernel = {.site = site, .workspace_root = NO_ROOT, .extent_root = NO_ROOT};
  if ((status = call_prepare(s, site, device, outputs, n_outputs, inputs, n_inputs, &kernel.kernel)) != REED_OK)
    return status;
  if (!VEC_PUSH(&e->kernels, kernel)) {
    if (kernel.kernel.free) kernel.kernel.free(kernel.kernel.state);
    return diag_no_memory(s->diagnosis, "epoch plan");
  }
  epoch_kernel *kept = &e->kernels.items[e->kernels.n - 1];
  for (uint32_t i = 0; i < n_inputs; i++)
    if (INSN_REGISTER(inputs[i]) != MODULE_ABSENT) touch(p, e, INSN_REGISTER(inputs[i]), step);
  if (kernel.kernel.workspace_bytes > 0 &&
      (status = root_new(s, p, device, kernel.kernel.workspace_bytes, step, &kept->workspace_root)) != REED_OK)
    return status;
  if (bounded && (status = root_new(s, p, device, (int64_t)n_outputs * 8, step, &kept->extent_root)) != REED_OK)
    return status;
  if (bounded) p->alive.items[kept->extent_root] = 1; /* read after the epoch */
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (outputs[i] == MODULE_ABSENT) continue;
    ref *r = reg_r(s, outputs[i]);
    int64_t at = 0;
    int32_t root = i == 0 ? in_place_root(s, p, op, r, inputs, n_inputs, w + (w[0] >> 16)) : NO_ROOT;
    if (root == NO_ROOT) root = part_root(s, p, w, i, &kernel.kernel, &at);
    if (root == NO_ROOT && (status = root_new(s, p, device, r->bytes, step, &root)) != REED_OK) return status;
    attach(s, p, outputs[i], root, at);
    if (i == 0 && op->alias == REED_ALIAS_JOIN) join_inputs(s, p, site, root, r, inputs, n_inputs, w + (w[0] >> 16));
    epoch_write *write = &e->writes.items[note_of(p, outputs[i])->write];
    write->root = root;
    write->at = at;
    if (r->bounded_axis >= 0) {
      write->extent_root = kept->extent_root;
      write->extent_index = (int32_t)i;
    }
    r->kind = r->bounded_axis >= 0 ? REF_PENDING : REF_STORED; /* for the rest of the walk; undo_walk puts it back */
  }
  return REED_OK;
}

/* Another register on the same memory: view, move, a copy that is none. */
static void plan_alias(reed_session *s, epoch_planner *p, uint32_t target, uint32_t source, int32_t step) {
  touch(p, s->current, source, step);
  attach(s, p, target, note_of(p, source)->root, note_of(p, source)->at);
  ref *r = reg_r(s, target);
  if (r->kind == REF_SHAPED) r->kind = REF_STORED;
}

static reed_status plan_copy(reed_session *s, epoch_planner *p, const uint32_t *w, int32_t step) {
  ref *target = reg_r(s, w[1]);
  const ref *source = reg_r(s, w[2]);
  if (target->kind != REF_SHAPED || note_of(p, w[1])->write < 0 || source->kind != REF_STORED ||
      target->bytes != source->bytes)
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "copy of r%u to r%u: the target was not shaped like the source",
                     w[2], w[1]);
  if (target->t.device == source->t.device) {
    plan_alias(s, p, w[1], w[2], step);
    return REED_OK;
  }
  touch(p, s->current, w[2], step);
  int32_t root;
  reed_status status = root_new(s, p, target->t.device, target->bytes, step, &root);
  if (status != REED_OK) return status;
  attach(s, p, w[1], root, 0);
  s->current->writes.items[note_of(p, w[1])->write].root = root;
  target->kind = REF_STORED;
  return REED_OK;
}

static reed_status plan_view(reed_session *s, epoch_planner *p, const uint32_t *w, int32_t step) {
  const ref *target = reg_r(s, w[1]), *source = reg_r(s, w[2]);
  if (target->kind != REF_SHAPED || source->kind != REF_STORED || target->bytes != source->bytes ||
      target->t.device != source->t.device) {
    char a[128], b[128];
    return diag_fail(s->diagnosis, REED_ERROR_SHAPE, "cannot view %s as %s", desc_text(&source->t.desc, a, sizeof a),
                     desc_text(&target->t.desc, b, sizeof b));
  }
  plan_alias(s, p, w[1], w[2], step);
  return REED_OK;
}

/* r.move in a run section: the walk needs what the target will be. */
static void plan_move(reed_session *s, epoch_planner *p, const uint32_t *w, int32_t step) {
  const ref *source = reg_r(s, w[2]);
  if (w[1] == w[2]) return;
  ref copy = *source; /* uncounted, for the walk only: the run moves for real */
  copy.t.storage = copy.extent_storage = NULL;
  copy.object = NULL;
  ref *target = reg_r(s, w[1]);
  ref_clear(&s->objects, target);
  *target = copy;
  plan_alias(s, p, w[1], w[2], step);
}

static reed_status walk(reed_session *s, epoch_planner *p, uint32_t pc) {
  const uint32_t *code = s->program->module->code + frame_top(s)->function->code_offset;
  for (int32_t step = 0;; step++) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + (w[0] >> 16);
    reed_status status = REED_OK;
    switch ((insn_id)(w[0] & 0xffff)) {
      case INSN_INVOKE: status = plan_invoke(s, p, w, step); break;
      case INSN_COPY: status = plan_copy(s, p, w, step); break;
      case INSN_VIEW: status = plan_view(s, p, w, step); break;
      case INSN_R_MOVE: plan_move(s, p, w, step); break;
      case INSN_KILL: {
        register_note *note = note_of(p, w[1]);
        if (note->root != NO_ROOT) p->alive.items[note->root]--;
        note->root = NO_ROOT;
        break;
      }
      case INSN_JUMP: next = w[1]; break;
      case INSN_BRANCH_IF:
        if (*reg_s(s, w[1])) next = w[2];
        break;
      case INSN_BRANCH_IFNOT:
        if (!*reg_s(s, w[1])) next = w[2];
        break;
      case INSN_EPOCH_END: return REED_OK;
      default: status = diag_fail(s->diagnosis, REED_ERROR_FORMAT, "an instruction that no run section may hold");
    }
    if (status != REED_OK) {
      diag_place_code(s->diagnosis, s->program->module->strings[frame_top(s)->function->name], pc);
      return status;
    }
    pc = next;
  }
}

/* Registers as the shape section left them: what the walk marked stored is shaped again. */
static void undo_walk(reed_session *s, epoch_entry *e) {
  for (size_t i = 0; i < e->writes.n; i++) {
    ref *r = reg_r(s, e->writes.items[i].reg);
    r->kind = e->writes.items[i].value.kind;
  }
}

/* ---- arenas ---- */

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

/* Parts lie where the whole does. A whole comes after its parts. */
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

static reed_status place_roots(reed_session *s, epoch_planner *p, epoch_entry *e) {
  for (size_t i = 0; i < e->roots.n; i++) e->roots.items[i].outlives = p->alive.items[i] > 0;
  epoch_layout *layout = &s->epochs[e->epoch].layout;
  if (layout_serves(layout, e)) {
    for (size_t i = 0; i < e->roots.n; i++) e->roots.items[i].offset = layout->roots[i].offset;
    memcpy(e->arenas, layout->arenas, sizeof e->arenas);
    place_parts(e);
    s->memo.layouts_reused++;
    return REED_OK;
  }
  for (int32_t d = 0; d < s->n_devices; d++) {
    p->intervals.n = 0;
    for (size_t i = 0; i < e->roots.n; i++) {
      const epoch_root *root = &e->roots.items[i];
      if (in_arena(root, d) &&
          !VEC_PUSH(&p->intervals, ((plan_interval){.first = root->first, .last = root->last, .bytes = root->bytes})))
        return diag_no_memory(s->diagnosis, "epoch plan");
    }
    if (!p->intervals.n) continue;
    reed_status status = plan_offsets(p->intervals.items, (int32_t)p->intervals.n, &e->arenas[d], s->diagnosis);
    if (status != REED_OK) return status;
#ifndef NDEBUG
    if ((status = plan_check(p->intervals.items, (int32_t)p->intervals.n, e->arenas[d].bytes, s->diagnosis)) != REED_OK)
      return status;
#endif
    size_t k = 0;
    for (size_t i = 0; i < e->roots.n; i++)
      if (in_arena(&e->roots.items[i], d)) e->roots.items[i].offset = p->intervals.items[k++].offset;
  }
  place_parts(e);
  epoch_root *roots = mem_copy(e->roots.items, e->roots.n * sizeof *roots);
  if (!roots) return diag_no_memory(s->diagnosis, "epoch plan");
  mem_free(layout->roots);
  layout->roots = roots;
  layout->n_roots = e->roots.n;
  memcpy(layout->arenas, e->arenas, sizeof e->arenas);
  return REED_OK;
}

reed_status epoch_plan(reed_session *s, uint32_t pc_after_plan) {
  epoch_entry *e = s->current;
  int64_t begin = clock_now_ns();
  epoch_planner *p = NULL;
  reed_status status = planner_begin(s, &p);
  if (status == REED_OK) status = capture_writes(s, p, e);
  if (status != REED_OK) return status;
  status = walk(s, p, pc_after_plan);
  undo_walk(s, e);
  if (status == REED_OK) status = place_roots(s, p, e);
  if (status != REED_OK) return status;
  e->n_kernels = (int32_t)e->kernels.n;
  s->in_shape_section = false;
  s->value_chunk = NULL;
  bool memoizable = e->remembered;
  e->remembered = false;
  if (memoizable) epoch_remember(s, e);
  status = epoch_place(s, false);
  int64_t end = clock_now_ns();
  if (s->profile.epochs.n) {
    profile_epoch *note = &s->profile.epochs.items[s->profile.epochs.n - 1];
    note->shape_ns = begin - note->begin_ns - note->enter_ns;
    note->plan_ns = end - begin;
    profile_event *event = profile_note(&s->profile, PROFILE_SHAPE, e->epoch, 0);
    if (event) event->span = (device_span){begin - note->shape_ns, begin};
    event = profile_note(&s->profile, PROFILE_PLAN, e->epoch, 0);
    if (event) event->span = (device_span){begin, end};
  }
  return status;
}
