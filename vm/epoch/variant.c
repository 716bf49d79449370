/* Making and using variants (variant.h). Finding the places: variant_places.c; owning entries and wholes: memo.c. */
#include "vm/epoch/variant.h"

#include <string.h>

#include "base/desc.h"
#include "vm/call.h"
#include "vm/epoch/key.h"
#include "vm/epoch/place.h"
#include "vm/epoch/plan.h"
#include "vm/epoch/planner.h"
#include "vm/epoch/replay.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/twin.h"
#include "vm/epoch/variant_places.h"
#include "vm/memory.h"
#include "vm/room.h"

enum { MOST_WAITS = 64 }; /* misses without an attempt, after several attempts in a row that failed */

/* ---- using ---- */

/* Writes the variant's content into the whole; all false: without silent registers that the list does not keep. */
static void write_places(epoch_entry *whole, const epoch_entry *e, bool all) {
  const variant_places *p = whole->places;
  replay *list = whole->replay;
  const variant_content *c = e->content;
  const variant_value *elements = c->values;
  for (size_t i = 0; i < p->writes.n; i++) {
    const variant_write *write = &p->writes.items[i];
    if (!all && write->twin >= 0 && !write->kept) continue; /* a silent register has no elements */
    ref *value = &whole->writes.items[write->write].value;
    const int64_t *word = c->words + write->word;
    value->bytes = *word++;
    for (int32_t k = 0; k < value->t.desc.rank; k++) value->t.desc.dims[k] = *word++;
    if (value->kind != REF_STORED) continue;
    value->t.data = elements->data;
    value->t.storage = elements++->storage;
  }
  for (size_t i = 0; i < p->roots.n; i++) whole->roots.items[p->roots.items[i].root].bytes = c->root_bytes[i];
  for (size_t i = 0; i < p->calls.n; i++) {
    uint32_t number = p->calls.items[i].kernel;
    epoch_kernel *kernel = &whole->kernels.items[number];
    if (kernel->prepared == c->kernels[i]) continue;
    kernel->prepared = c->kernels[i];
    list->calls.items[number].run = kernel->prepared->kernel.run;
    list->calls.items[number].state = kernel->prepared->kernel.state;
  }
  for (size_t i = 0; i < p->pointers.n; i++) {
    const epoch_write *write = &whole->writes.items[p->writes.items[p->pointers.items[i].write].write];
    list->pointers.items[p->pointers.items[i].pointer] = write->value.t.data;
  }
  whole->arenas[0] = e->arenas[0];
  whole->dense_bytes = e->dense_bytes;
  whole->n_shape_functions = e->n_shape_functions;
  whole->n_repeated = e->n_repeated;
  whole->n_shared = e->n_shared;
  whole->shared_bytes = e->shared_bytes;
}

epoch_entry *variant_use(epoch_entry *e) {
  epoch_entry *whole = e->whole;
  if (!whole) return e;
  variant_places *p = whole->places;
  if (p->written != e) write_places(whole, e, true);
  p->written = p->run = e;
  return whole;
}

epoch_entry *variant_use_for_run(epoch_entry *e) {
  epoch_entry *whole = e->whole;
  if (!whole) return e;
  variant_places *p = whole->places;
  if (p->run == e) return whole;
  write_places(whole, e, false);
  p->run = e;
  p->written = NULL;
  return whole;
}

/* ---- making: the shape section ----
 * The functions return false if the epoch must be planned. */

/* Puts the registers that calls of the places read, and that no call writes, into the run's registers, without
 * references of their own. */
static void lend_registers(reed_session *s, const epoch_entry *whole, bool alike) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->lent.n; i++) {
    if (alike && p->lent.items[i].silent) continue;
    const epoch_write *write = &whole->writes.items[p->lent.items[i].write];
    ref *r = reg_r(&s->run, write->reg);
    ref_clear(&s->run.objects, r);
    *r = write->value;
    r->t.storage = r->extent_storage = NULL;
    r->object = NULL;
    s->epoch.notes[write->reg].changed = false;
  }
}

static void clear_registers(reed_session *s, const epoch_entry *whole, bool alike) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->lent.n; i++)
    if (!(alike && p->lent.items[i].silent))
      reg_r(&s->run, whole->writes.items[p->lent.items[i].write].reg)->kind = REF_EMPTY;
  for (size_t i = 0; i < p->writes.n; i++)
    if (!(alike && p->writes.items[i].twin >= 0))
      ref_clear(&s->run.objects, reg_r(&s->run, whole->writes.items[p->writes.items[i].write].reg));
}

/* True if the registers differ in extents and elements at most, which are what a variant keeps. */
static bool alike_but_for_extents(const ref *a, const ref *b) {
  return a->kind == b->kind && a->bounded_axis == b->bounded_axis && a->shaped_as == b->shaped_as &&
         a->resident == b->resident && a->constant == b->constant && a->counter == b->counter &&
         a->factor == b->factor && a->shaped_by == b->shaped_by && a->t.desc.dtype == b->t.desc.dtype &&
         a->t.desc.rank == b->t.desc.rank && a->t.device == b->t.device;
}

/* Gives a register the extents of a twin. */
static reed_status take_extents(reed_session *s, uint32_t reg, uint32_t twin, uint32_t shaped_by, uint32_t output) {
  ref *r = reg_r(&s->run, reg);
  const ref *from = reg_r(&s->run, twin);
  ref_clear(&s->run.objects, r);
  *r = (ref){.kind = REF_SHAPED,
             .bounded_axis = -1,
             .shaped_by = shaped_by,
             .shaped_as = (uint16_t)output & 0x3ff,
             .t = {.desc = from->t.desc, .device = from->t.device},
             .bytes = from->bytes};
  return from->kind == REF_SHAPED ? active_note_twin(&s->epoch, reg, twin, s->run.diagnosis)
                                  : active_note_write(&s->epoch, reg, s->run.diagnosis);
}

/* Executes a `shape` or `shape.like` with the extents of its twin. */
static reed_status repeat_twin(reed_session *s, const uint32_t *w, const uint32_t *twin) {
  if (insn_id_at(w) == INSN_SHAPE_LIKE)
    return take_extents(s, insn_shape_like_at(w).dst, insn_shape_like_at(twin).dst, 0, 0);
  const insn_shape i = insn_shape_at(w), other = insn_shape_at(twin);
  reed_status status = REED_OK;
  for (uint32_t k = 0; k < i.n_outputs && status == REED_OK; k++)
    if (i.outputs[k] != MODULE_ABSENT) status = take_extents(s, i.outputs[k], other.outputs[k], i.site + 1, k);
  return status;
}

static bool run_shapes(reed_session *s, const epoch_entry *whole, epoch_entry *e, bool alike) {
  const variant_places *p = whole->places;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  for (size_t i = 0; i < p->shapes.n; i++) {
    if (alike && p->shapes.items[i].n_silent) {
      e->writes.n += p->shapes.items[i].n_silent;
      continue;
    }
    const uint32_t *w = code + p->shapes.items[i].pc;
    insn_id id = insn_id_at(w);
    int32_t twin = p->shapes.items[i].twin;
    reed_status status = alike && twin >= 0      ? repeat_twin(s, w, code + p->shapes.items[twin].pc)
                         : id == INSN_SHAPE      ? exec_shape(s, w)
                         : id == INSN_INVOKE     ? exec_invoke(s, w)
                         : id == INSN_SHAPE_LIKE ? exec_shape_like(s, w)
                                                 : exec_view(s, insn_view_at(w).dst, insn_view_at(w).src);
    if (status != REED_OK) return false;
  }
  bool same = e->writes.n == p->writes.n;
  for (size_t i = 0; same && i < e->writes.n; i++) {
    if (alike && p->writes.items[i].twin >= 0) continue;
    ref *value = reg_r(&s->run, e->writes.items[i].reg);
    const epoch_write *write = &whole->writes.items[p->writes.items[i].write];
    value->t.room = write->value.t.room; /* rooms_stay looks whether that is right */
    value->t.room_axis = write->value.t.room_axis;
    value->t.cache = write->value.t.cache;
    bool changed = s->epoch.notes[write->reg].changed;
    same = e->writes.items[i].reg == write->reg && alike_but_for_extents(value, &write->value) &&
           (!changed || write->changed);
  }
  return same;
}

/* Keeps the registers that the shape section wrote. */
static void capture(reed_session *s, const variant_places *p, epoch_entry *e, bool alike) {
  int64_t *words = e->content->words, *word = words;
  for (size_t i = 0; i < e->writes.n; i++) {
    int32_t twin = p->writes.items[i].twin;
    if (alike && twin >= 0) {
      const int64_t *from = words + p->writes.items[twin].word, *end = words + p->writes.items[twin + 1].word;
      while (from < end) *word++ = *from++;
      continue;
    }
    const ref *value = reg_r(&s->run, e->writes.items[i].reg);
    if (value->kind == REF_STORED) storage_retain(value->t.storage);
    word = variant_put(e->content, word, value);
  }
}

/* ---- making: kernels and sizes ---- */

/* The registers and sizes of an entry, by register and by root. */
typedef struct content {
  const epoch_entry *whole; /* has the content of the base */
  const epoch_entry *e;     /* NULL: the base */
} content;

static int64_t bytes_of_root(const content *c, int32_t root) {
  int32_t n = c->e ? c->whole->places->root_numbers[root] : NO_ROOT;
  return n == NO_ROOT ? c->whole->roots.items[root].bytes : c->e->content->root_bytes[n];
}

/* Whether each input of a call that may give its place to output 0 has as many elements, and fills its root: two bits
 * each. Of the other inputs of an operator that takes one input's place, nothing but their roots decides. Nothing else
 * of the sizes decides which input's place the output takes (share_in_place). */
static uint64_t place_bits(const content *c, const reed_op *op, const variant_call *call, const ref *const *inputs,
                           uint32_t n_inputs, const ref *output) {
  uint64_t bits = 0;
  for (uint32_t k = 0; k < n_inputs; k++) {
    int32_t root = c->whole->places->operands.items[call->operands + k];
    if (root == NO_ROOT || !share_may_give(op, k)) continue;
    bool same = desc_elements(&inputs[k]->t.desc) == desc_elements(&output->t.desc);
    bool fills = inputs[k]->bytes == bytes_of_root(c, root);
    bits = bits * 4 + same * 2 + fills;
  }
  return bits;
}

/* The registers of an instruction as the base had them: those of the whole. */
static const ref *before(const reed_session *s, const epoch_entry *whole, uint32_t reg) {
  int32_t n = s->epoch.notes[reg].write;
  bool written = active_wrote(&s->epoch, reg);
  return written ? &whole->writes.items[whole->places->writes.items[n].write].value : reg_r(&s->run, reg);
}

/* The output in whose bound memory a register grows, + 1; 0: it does not. */
static uint32_t bound_of(const reed_session *s, const epoch_entry *whole, uint32_t reg) {
  int32_t n = s->epoch.notes[reg].write;
  return active_wrote(&s->epoch, reg) ? whole->writes.items[whole->places->writes.items[n].write].bound : 0;
}

/* True if the output of an operator that may write over an input finds the same inputs fit for it. */
static bool shares_alike(const reed_session *s, const epoch_entry *whole, const epoch_entry *e,
                         const variant_call *call, const insn_invoke *i) {
  const reed_op *op = s->run.program->site_ops[i->site];
  uint32_t n = 0; /* of inputs up to the last one that may give its place */
  for (uint32_t k = 0; k < i->n_inputs; k++)
    if (i->inputs[k] != MODULE_ABSENT && share_may_give(op, k)) n = k + 1;
  if (n == 0) return true;
  const ref *now[REED_MAX_OPERANDS], *then[REED_MAX_OPERANDS];
  if (n > 30 || i->outputs[0] == MODULE_ABSENT) return false;
  for (uint32_t k = 0; k < n; k++) {
    if (i->inputs[k] == MODULE_ABSENT) continue;
    now[k] = reg_r(&s->run, i->inputs[k]);
    then[k] = before(s, whole, i->inputs[k]);
  }
  const content new_content = {whole, e}, old_content = {whole, NULL};
  return place_bits(&new_content, op, call, now, n, reg_r(&s->run, i->outputs[0])) ==
         place_bits(&old_content, op, call, then, n, before(s, whole, i->outputs[0]));
}

static bool sizes_changed(const epoch_entry *whole, const epoch_entry *e, const variant_call *call, uint32_t n) {
  const content now = {whole, e}, then = {whole, NULL};
  for (uint32_t k = 0; k < n; k++) {
    int32_t root = whole->places->operands.items[call->operands + k];
    if (root != NO_ROOT && bytes_of_root(&now, root) != bytes_of_root(&then, root)) return true;
  }
  return false;
}

/* True if every output of the call lies in its source's root as in the base, at the same byte of its source, or outside
 * of it. Whether the kernel says that the output is a part, and whether the part is half of the root, decide this
 * (share_part); everything else that decides is the order of calls. */
static bool parts_stay(const reed_session *s, const epoch_entry *whole, const epoch_entry *e, const variant_call *call,
                       const insn_invoke *i, const reed_kernel *now, const reed_kernel *then) {
  int32_t root = i->n_inputs ? whole->places->operands.items[call->operands] : NO_ROOT;
  if (root == NO_ROOT || s->run.program->site_ops[i->site]->alias != REED_ALIAS_PART) return true;
  const content new_content = {whole, e}, old_content = {whole, NULL};
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    int64_t at = now->part_at ? now->part_at[k] : -1, had = then->part_at ? then->part_at[k] : -1;
    if (i->outputs[k] == MODULE_ABSENT || (at < 0 && had < 0)) continue;
    bool large = share_is_large(reg_r(&s->run, i->outputs[k])->bytes, bytes_of_root(&new_content, root));
    bool was_large = share_is_large(before(s, whole, i->outputs[k])->bytes, bytes_of_root(&old_content, root));
    if (at < 0 || had < 0 || large != was_large || (at != had && call->has_parts)) return false;
  }
  return true;
}

/* Prepares a kernel anew. */
static bool prepare(reed_session *s, const epoch_entry *whole, epoch_entry *e, const variant_call *call,
                    const insn_invoke *i) {
  const epoch_kernel *had = &whole->kernels.items[call->kernel];
  site_kernel *prepared = NULL;
  bool made = false;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  const insn_invoke twin = insn_invoke_at(code + whole->places->calls.items[call->twin < 0 ? 0 : call->twin].pc);
  if (call->twin >= 0 && twin_has_kernel(&s->run, i, &twin)) site_retain(prepared = e->content->kernels[call->twin]);
  else if (call_prepare(&s->run, &s->devices, &s->kernels, 0, i, NULL, &prepared, &made) != REED_OK) return false;
  e->content->kernels[e->content->n_kernels++] = prepared;
  e->n_shared += !made;
  if (!made) e->shared_bytes += prepared->bytes;
  bool joins = s->run.program->site_ops[i->site]->alias == REED_ALIAS_JOIN;
  joins = joins && !bound_of(s, whole, i->outputs[0]) &&
          variant_may_join(&s->run, i->site, &reg_r(&s->run, i->outputs[0])->t.desc);
  for (uint32_t k = 0; joins && k < i->n_inputs; k++)
    if (whole->places->operands.items[call->operands + k] != NO_ROOT) return false;
  return (prepared->kernel.workspace_bytes > 0) == (had->workspace_root != NO_ROOT) &&
         prepared->kernel.apart == had->prepared->kernel.apart &&
         parts_stay(s, whole, e, call, i, &prepared->kernel, &had->prepared->kernel) &&
         (prepared->kernel.dense_bytes > 0) == (had->prepared->kernel.dense_bytes > 0);
}

/* Gives the variant a kernel that there is. */
static void add_found(epoch_entry *e, site_kernel *kernel) {
  site_retain(kernel);
  e->content->kernels[e->content->n_kernels++] = kernel;
  e->n_shared++;
  e->shared_bytes += kernel->bytes;
}

static bool make_kernels(reed_session *s, const epoch_entry *whole, epoch_entry *e, bool alike) {
  const variant_places *p = whole->places;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  e->n_shared = whole->n_kernels - (int32_t)p->calls.n;
  e->shared_bytes = p->shared_bytes;
  for (size_t k = 0; k < p->calls.n; k++) {
    const variant_call *call = &p->calls.items[k];
    if (alike && call->stays_twin) {
      add_found(e, e->content->kernels[call->twin]);
      continue;
    }
    const insn_invoke i = insn_invoke_at(code + call->pc);
    if (active_any_changed(&s->epoch, i.inputs, i.n_inputs) || active_any_changed(&s->epoch, i.outputs, i.n_outputs) ||
        sizes_changed(whole, e, call, i.n_inputs)) {
      if (!prepare(s, whole, e, call, &i) || !shares_alike(s, whole, e, call, &i)) return false;
      continue;
    }
    add_found(e, whole->kernels.items[call->kernel].prepared);
  }
  return true;
}

/* Bytes of the dense copies in front of kernels: the number of copies stays. */
static int64_t dense_bytes(const epoch_entry *whole, const epoch_entry *e) {
  const variant_places *p = whole->places;
  int64_t bytes = whole->dense_bytes;
  for (size_t i = 0; i < p->calls.n; i++)
    bytes += e->content->kernels[i]->kernel.dense_bytes -
             whole->kernels.items[p->calls.items[i].kernel].prepared->kernel.dense_bytes;
  return bytes;
}

/* Sizes of roots that hold results. */
static bool size_results(const epoch_entry *whole, epoch_entry *e) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->roots.n; i++) {
    const variant_root *r = &p->roots.items[i];
    int64_t bytes =
        r->write < 0 ? whole->roots.items[r->root].bytes : e->content->words[p->writes.items[r->write].word];
    if (bytes < r->least || bytes > r->room) return false;
    e->content->root_bytes[i] = bytes;
  }
  return true;
}

/* Sizes of workspaces, and the arena's figures. */
static bool size_arena(const epoch_entry *whole, epoch_entry *e) {
  const variant_places *p = whole->places;
  e->arenas[0].bytes = p->rest_end;
  for (size_t i = 0; i < p->roots.n; i++) {
    const variant_root *r = &p->roots.items[i];
    const epoch_root *root = &whole->roots.items[r->root];
    if (r->write < 0) {
      int64_t bytes = e->content->kernels[r->call]->kernel.workspace_bytes;
      if (bytes < r->least || bytes > r->room) return false;
      e->content->root_bytes[i] = bytes;
    }
    int64_t bytes = e->content->root_bytes[i];
    if (root->outlives) continue;
    int64_t more = plan_round_up(bytes) - plan_round_up(root->bytes),
            end = bytes ? root->offset + plan_round_up(bytes) : 0;
    if (e->arenas[0].bytes < end) e->arenas[0].bytes = end;
    e->arenas[0].bytes_without_reuse += more;
    if (root->fullest) e->arenas[0].lower_bound += more;
  }
  return true;
}

static bool views_fit(const reed_session *s, const variant_places *p, bool alike) {
  for (size_t i = 0; i < p->views.n; i++) {
    const variant_view *view = &p->views.items[i];
    if (!(alike && view->twin) &&
        reg_r(&s->run, view->registers.dst)->bytes != reg_r(&s->run, view->registers.src)->bytes)
      return false;
  }
  return true;
}

/* True if each output of the call grows in bound memory, or does not, as in the base. */
static bool grows_alike(const reed_session *s, const epoch_entry *whole, const insn_invoke *i) {
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    const model_cache *c = plan_grown_cache(&s->run, i, k);
    const tensor *past = c ? &reg_r(&s->run, i->inputs[c->growth.input])->t : NULL;
    const tensor *grown = &reg_r(&s->run, i->outputs[k])->t;
    if (bound_of(s, whole, i->outputs[k]) != (c ? c->output + 1 : 0) || grown->room != (past ? past->room : 0))
      return false;
  }
  return true;
}

/* True if the plan would give all registers the rooms that they have in the base. The registers have these rooms
 * already; if each is right by those before it, all are. */
static bool rooms_stay(const reed_session *s, const epoch_entry *whole, bool alike) {
  const variant_places *p = whole->places;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  for (size_t i = 0; whole->rooms && i < p->views.n; i++) {
    if (alike && p->views.items[i].twin) continue;
    const tensor *to = &reg_r(&s->run, p->views.items[i].registers.dst)->t;
    tensor view = *to;
    if (!room_of_view(&reg_r(&s->run, p->views.items[i].registers.src)->t, &view) || view.room != to->room ||
        (view.room && view.room_axis != to->room_axis))
      return false;
  }
  for (size_t i = 0; whole->rooms && i < p->calls.n; i++) {
    if (alike && p->calls.items[i].stays_twin) continue;
    const insn_invoke call = insn_invoke_at(code + p->calls.items[i].pc);
    if (!grows_alike(s, whole, &call)) return false;
  }
  return true;
}

/* ---- making: the entry ---- */

/* A variant keeps its content only, so the list of its writes lies in memory of the session while it is made. */
static void borrow_writes(epoch_active *active, epoch_entry *e) {
  e->writes.items = active->variant_writes.items;
  e->writes.capacity = active->variant_writes.capacity;
  e->writes.n = 0;
}

static void return_writes(epoch_active *active, epoch_entry *e) {
  active->variant_writes.items = e->writes.items;
  active->variant_writes.capacity = e->writes.capacity;
  memset(&e->writes, 0, sizeof e->writes);
}

/* alike: the parts of the base's key and of the new one are alike, so that calls with twins need not be made. */
static bool fill(reed_session *s, const insn_epoch_enter *enter, const epoch_entry *base, epoch_entry *whole,
                 epoch_entry *e, bool alike, profile_epoch *note) {
  const variant_places *p = whole->places;
  int64_t begin = clock_now_ns();
  borrow_writes(&s->epoch, e);
  bool ok = (e->content = variant_content_open(p)) && active_begin(&s->epoch, e, whole, p, &s->run) == REED_OK;
  if (!ok) {
    return_writes(&s->epoch, e);
    return false;
  }
  key_note_changes(&s->epoch, enter, base);
  lend_registers(s, whole, alike);
  ok = run_shapes(s, whole, e, alike);
  if (ok) capture(s, p, e, alike);
  int64_t shaped = clock_now_ns();
  ok = ok && views_fit(s, p, alike) && rooms_stay(s, whole, alike) && size_results(whole, e) &&
       make_kernels(s, whole, e, alike) && size_arena(whole, e);
  clear_registers(s, whole, alike);
  active_end_shapes(&s->epoch);
  return_writes(&s->epoch, e);
  if (note && ok) note->shape_ns = shaped - begin, note->plan_ns = clock_now_ns() - shaped;
  return ok;
}

/* A variant that the memo does not have, with the key in s->epoch.key; NULL: the epoch must be planned. */
static epoch_entry *make(reed_session *s, const insn_epoch_enter *enter, epoch_entry *base, uint64_t hash,
                         profile_epoch *note) {
  const uint16_t *parts = base->whole->places->alike.items;
  bool alike = key_parts_alike(base->key, enter, parts) && key_parts_alike(s->epoch.key.items, enter, parts);
  epoch_entry *whole = alike ? variant_use_for_run(base) : variant_use(base), *e = mem_calloc(1, sizeof *e);
  int64_t *key = e ? mem_copy(s->epoch.key.items, s->epoch.key.n * sizeof(int64_t)) : NULL;
  if (!key) {
    mem_free(e);
    return NULL;
  }
  *e = (epoch_entry){.epoch = enter->epoch, .hash = hash, .key = key, .n_key = s->epoch.key.n};
  memcpy(e->changed_keys, whole->changed_keys, sizeof e->changed_keys);
  e->arenas[0] = whole->arenas[0];
  bool ok = fill(s, enter, base, whole, e, alike, note);
  s->epoch.entry = NULL;
  s->epoch.base = NULL;
  if (!ok) {
    memo_free_entry(&s->memo, e);
    reed_diagnosis_clear(s->run.diagnosis); /* planning the epoch fails likewise, and says where */
    return NULL;
  }
  e->n_repeated = whole->places->n_shape_functions - e->n_shape_functions;
  e->n_kernels = whole->n_kernels;
  e->n_dense = whole->n_dense;
  e->dense_bytes = dense_bytes(whole, e);
  return e;
}

static void remember(reed_session *s, epoch_entry *e, epoch_entry *whole) {
  e->whole = whole;
  whole->places->n_users++;
  memo_remember(&s->memo, e, devices_busy(&s->devices));
  s->memo.figures.variants++;
}

/* After several attempts in a row that failed, some misses are planned without one. */
static void count_attempt(epoch_state *state, bool succeeded) {
  state->wait = succeeded ? 0 : state->waits;
  if (succeeded) state->waits = 0;
  else state->waits = state->waits * 2 + 1 < MOST_WAITS ? state->waits * 2 + 1 : MOST_WAITS;
}

/* Divides an entry, which is complete. */
static bool divide(reed_session *s, const insn_epoch_enter *enter, uint32_t pc, epoch_entry *e) {
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  if ((size_t)e->n_changed * VARIANT_SHARE > e->writes.n) return false;
  s->epoch.entry = e;
  place_scalars(s);
  const replay *list = replay_of(s, enter->plan + insn_length_at(code + enter->plan));
  s->epoch.entry = NULL;
  variant_places *places = list ? variant_find_places(s, e, enter, pc) : NULL;
  if (!places) count_attempt(&s->memo.epochs[enter->epoch], false);
  epoch_entry *whole = places ? mem_calloc(1, sizeof *whole) : NULL;
  if (whole && memo_divide(&s->memo, e, whole, places)) return true;
  mem_free(whole);
  variant_places_close(&places);
  return false;
}

/* True if some parts of the key have changed, and all of them had changed in the base. */
static bool changes_again(const variant_base *base) {
  uint64_t any = 0, other = 0;
  for (int i = 0; i < ENTRY_KEYS / 64; i++) {
    any |= base->changed[i];
    other |= base->changed[i] & ~base->entry->changed_keys[i];
  }
  return any && !other;
}

/* True if a variant for the key may start from the base. A trace shows all calls of a miss, so there are no variants
 * while spans are collected. Other checks cover what may look forgotten here: an entry whose shape section writes a
 * register twice had no base and so no changed keys (start_entry), or took another path (a branch has no places);
 * key_find_changes compares rooms; and an entry that is not for lists has no list to be divided with. */
static bool may_start_from(const reed_session *s, const insn_epoch_enter *enter, const variant_base *base) {
  return base->entry && s->devices.n == 1 && !s->run.profile.spans &&
         s->run.program->module->epochs_shaped[enter->epoch] && base->comparable && changes_again(base);
}

variant_base variant_find_base(const reed_session *s, const insn_epoch_enter *enter) {
  enum { MOST = 4 }; /* entries of a list: decoders of several batch sizes may take turns */
  const epoch_state *state = &s->memo.epochs[enter->epoch];
  epoch_entry *const lists[] = {state->admitted.newest, state->on_trial.newest};
  variant_base latest = {0};
  for (int i = 0; i < 2 && s->run.rooms; i++) {
    epoch_entry *e = lists[i];
    for (int n = 0; e && n < MOST && (!latest.entry || e->used > latest.entry->used); n++, e = e->after) {
      variant_base found = {.entry = e, .lengths = true, .comparable = true};
      if (key_find_changes(&s->epoch, enter, e, found.changed) &&
          key_lengths_changed(&s->epoch, enter, e, found.changed))
        latest = found;
    }
  }
  if (latest.entry || !(latest.entry = memo_latest(&s->memo, enter->epoch))) return latest;
  latest.comparable = key_find_changes(&s->epoch, enter, latest.entry, latest.changed);
  return latest;
}

epoch_entry *variant_renew(reed_session *s, const insn_epoch_enter *enter, variant_base *base, uint64_t hash,
                           profile_epoch *note) {
  epoch_state *state = &s->memo.epochs[enter->epoch];
  if (!base->lengths || !base->entry->whole || state->wait > 0 || !may_start_from(s, enter, base)) return NULL;
  epoch_entry *made = make(s, enter, base->entry, hash, note);
  count_attempt(state, made != NULL);
  base->failed = !made;
  if (!made) return NULL;
  memo_renew(&s->memo, base->entry, made);
  return base->entry;
}

epoch_entry *variant_make(reed_session *s, const insn_epoch_enter *enter, const variant_base *base, uint32_t pc,
                          uint64_t hash, profile_epoch *note) {
  epoch_state *state = &s->memo.epochs[enter->epoch];
  if (base->failed) return NULL;
  if (state->wait > 0) {
    state->wait--;
    return NULL;
  }
  if (!may_start_from(s, enter, base) || !(base->entry->whole || divide(s, enter, pc, base->entry))) return NULL;
  epoch_entry *e = make(s, enter, base->entry, hash, note);
  count_attempt(state, e != NULL);
  if (e) remember(s, e, base->entry->whole);
  return e;
}
