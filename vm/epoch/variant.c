/* Making and using variants (variant.h). Finding the places: variant_places.c; owning entries and wholes: memo.c. */
#include "vm/epoch/variant.h"

#include <string.h>

#include "base/desc.h"
#include "vm/call.h"
#include "vm/epoch/key.h"
#include "vm/epoch/place.h"
#include "vm/epoch/planner.h"
#include "vm/epoch/replay.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/twin.h"
#include "vm/memory.h"

enum { MOST_WAITS = 64 }; /* misses without an attempt, after several attempts in a row that failed */

/* ---- using ---- */

static void write_places(epoch_entry *whole, const epoch_entry *e) {
  const variant_places *p = whole->places;
  replay *list = whole->replay;
  for (size_t i = 0; i < p->writes.n; i++) whole->writes.items[p->writes.items[i]].value = e->writes.items[i].value;
  for (size_t i = 0; i < p->roots.n; i++) whole->roots.items[p->roots.items[i].root].bytes = e->root_bytes.items[i];
  for (size_t i = 0; i < p->calls.n; i++) {
    uint32_t number = p->calls.items[i].kernel;
    whole->kernels.items[number] = e->kernels.items[i];
    list->calls.items[number].run = e->kernels.items[i].kernel.run;
    list->calls.items[number].state = e->kernels.items[i].kernel.state;
  }
  for (size_t i = 0; i < p->pointers.n; i++)
    list->pointers.items[p->pointers.items[i].pointer] = e->writes.items[p->pointers.items[i].write].value.t.data;
  whole->arenas[0] = e->arenas[0];
  whole->n_shape_functions = e->n_shape_functions;
  whole->n_repeated = e->n_repeated;
  whole->n_shared = e->n_shared;
  whole->shared_bytes = e->shared_bytes;
}

epoch_entry *variant_use(epoch_entry *e) {
  epoch_entry *whole = e->whole;
  if (!whole) return e;
  if (whole->places->written != e) {
    write_places(whole, e);
    whole->places->written = e;
  }
  return whole;
}

/* ---- making: the shape section ----
 * The functions return false if the epoch must be planned. */

/* Puts the registers that calls of the places read, and that no call writes, into the run's registers, without
 * references of their own. */
static void lend_registers(reed_session *s, const epoch_entry *whole) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->lent.n; i++) {
    const epoch_write *write = &whole->writes.items[p->lent.items[i]];
    ref *r = reg_r(&s->run, write->reg);
    ref_clear(&s->run.objects, r);
    *r = write->value;
    r->t.storage = r->extent_storage = NULL;
    r->object = NULL;
    s->epoch.notes[write->reg].changed = false;
  }
}

static void clear_registers(reed_session *s, const epoch_entry *whole) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->lent.n; i++) reg_r(&s->run, whole->writes.items[p->lent.items[i]].reg)->kind = REF_EMPTY;
  for (size_t i = 0; i < p->writes.n; i++)
    ref_clear(&s->run.objects, reg_r(&s->run, whole->writes.items[p->writes.items[i]].reg));
}

static bool run_shapes(reed_session *s, const epoch_entry *whole, const epoch_entry *e) {
  const variant_places *p = whole->places;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  for (size_t i = 0; i < p->shapes.n; i++) {
    const uint32_t *w = code + p->shapes.items[i];
    insn_id id = insn_id_at(w);
    reed_status status = id == INSN_SHAPE        ? exec_shape(s, w)
                         : id == INSN_INVOKE     ? exec_invoke(s, w)
                         : id == INSN_SHAPE_LIKE ? exec_shape_like(s, w)
                                                 : exec_view(s, insn_view_at(w).dst, insn_view_at(w).src);
    if (status != REED_OK) return false;
  }
  bool same = e->writes.n == p->writes.n;
  for (size_t i = 0; same && i < e->writes.n; i++) {
    const ref *value = reg_r(&s->run, e->writes.items[i].reg);
    const epoch_write *write = &whole->writes.items[p->writes.items[i]];
    bool changed = s->epoch.notes[write->reg].changed;
    same = e->writes.items[i].reg == write->reg && value->kind == write->value.kind && (!changed || write->changed);
  }
  return same;
}

/* Keeps the registers that the shape section wrote. */
static void capture(reed_session *s, const epoch_entry *whole, epoch_entry *e) {
  for (size_t i = 0; i < e->writes.n; i++) {
    const epoch_write *write = &whole->writes.items[whole->places->writes.items[i]];
    e->writes.items[i] = *write;
    ref_copy(&e->writes.items[i].value, reg_r(&s->run, write->reg));
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
  return n == NO_ROOT ? c->whole->roots.items[root].bytes : c->e->root_bytes.items[n];
}

/* Whether each input of a call has as many elements as output 0, and fills its root: two bits each. Nothing else of the
 * sizes decides which input's place the output takes (share_in_place). */
static uint64_t place_bits(const content *c, const variant_call *call, const ref *const *inputs, uint32_t n_inputs,
                           const ref *output) {
  uint64_t bits = 0;
  for (uint32_t k = 0; k < n_inputs; k++) {
    int32_t root = c->whole->places->operands.items[call->operands + k];
    if (root == NO_ROOT) continue;
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
  return written ? &whole->writes.items[whole->places->writes.items[n]].value : reg_r(&s->run, reg);
}

/* True if the output of an operator that may write over an input finds the same inputs fit for it. */
static bool shares_alike(const reed_session *s, const epoch_entry *whole, const epoch_entry *e,
                         const variant_call *call, const insn_invoke *i) {
  const reed_op *op = s->run.program->site_ops[i->site];
  if (op->alias != REED_ALIAS_INPLACE && op->alias != REED_ALIAS_INPLACE_FIRST) return true;
  const ref *now[REED_MAX_OPERANDS], *then[REED_MAX_OPERANDS];
  if (i->n_inputs > 30 || i->outputs[0] == MODULE_ABSENT) return false;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    if (i->inputs[k] == MODULE_ABSENT) continue;
    now[k] = reg_r(&s->run, i->inputs[k]);
    then[k] = before(s, whole, i->inputs[k]);
  }
  const content new_content = {whole, e}, old_content = {whole, NULL};
  return place_bits(&new_content, call, now, i->n_inputs, reg_r(&s->run, i->outputs[0])) ==
         place_bits(&old_content, call, then, i->n_inputs, before(s, whole, i->outputs[0]));
}

static bool sizes_changed(const epoch_entry *whole, const epoch_entry *e, const variant_call *call, uint32_t n) {
  const content now = {whole, e}, then = {whole, NULL};
  for (uint32_t k = 0; k < n; k++) {
    int32_t root = whole->places->operands.items[call->operands + k];
    if (root != NO_ROOT && bytes_of_root(&now, root) != bytes_of_root(&then, root)) return true;
  }
  return false;
}

/* Prepares a kernel anew. */
static bool prepare(reed_session *s, const epoch_entry *whole, epoch_entry *e, const variant_call *call,
                    const insn_invoke *i) {
  const epoch_kernel *had = &whole->kernels.items[call->kernel];
  site_kernel *prepared = NULL;
  bool made = false;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  const insn_invoke twin = insn_invoke_at(code + whole->places->calls.items[call->twin < 0 ? 0 : call->twin].pc);
  if (call->twin >= 0 && twin_has_kernel(&s->run, i, &twin))
    site_retain(prepared = e->kernels.items[call->twin].prepared);
  else if (call_prepare(&s->run, &s->devices, &s->kernels, 0, i, &prepared, &made) != REED_OK) return false;
  epoch_kernel *kernel = &e->kernels.items[e->kernels.n++];
  *kernel = *had;
  kernel->kernel = prepared->kernel;
  kernel->prepared = prepared;
  e->n_shared += !made;
  if (!made) e->shared_bytes += prepared->bytes;
  bool joins = s->run.program->site_ops[i->site]->alias == REED_ALIAS_JOIN;
  for (uint32_t k = 0; joins && k < i->n_inputs; k++)
    if (whole->places->operands.items[call->operands + k] != NO_ROOT)
      return !variant_may_join(&s->run, i->site, &reg_r(&s->run, i->outputs[0])->t.desc);
  return (prepared->kernel.workspace_bytes > 0) == (had->workspace_root != NO_ROOT) &&
         !variant_has_parts(&prepared->kernel, i->n_outputs) && prepared->kernel.dense_bytes == had->kernel.dense_bytes;
}

static bool make_kernels(reed_session *s, const epoch_entry *whole, epoch_entry *e) {
  const variant_places *p = whole->places;
  const uint32_t *code = s->run.program->module->code + frame_top(&s->run)->function->code_offset;
  e->n_shared = whole->n_kernels - (int32_t)p->calls.n;
  e->shared_bytes = p->shared_bytes;
  for (size_t k = 0; k < p->calls.n; k++) {
    const variant_call *call = &p->calls.items[k];
    const insn_invoke i = insn_invoke_at(code + call->pc);
    if (active_any_changed(&s->epoch, i.inputs, i.n_inputs) || active_any_changed(&s->epoch, i.outputs, i.n_outputs) ||
        sizes_changed(whole, e, call, i.n_inputs)) {
      if (!prepare(s, whole, e, call, &i) || !shares_alike(s, whole, e, call, &i)) return false;
      continue;
    }
    const epoch_kernel *had = &whole->kernels.items[call->kernel];
    e->kernels.items[e->kernels.n++] = *had;
    site_retain(had->prepared);
    e->n_shared++;
    e->shared_bytes += had->prepared->bytes;
  }
  return true;
}

/* Sizes of roots that hold results. */
static bool size_results(const epoch_entry *whole, epoch_entry *e) {
  const variant_places *p = whole->places;
  for (size_t i = 0; i < p->roots.n; i++) {
    const variant_root *r = &p->roots.items[i];
    int64_t bytes = r->write < 0 ? whole->roots.items[r->root].bytes : e->writes.items[r->write].value.bytes;
    if (bytes < r->least || bytes > r->room) return false;
    e->root_bytes.items[e->root_bytes.n++] = bytes;
  }
  return true;
}

/* Sizes of workspaces, and of the arena. */
static bool size_arena(const epoch_entry *whole, epoch_entry *e) {
  const variant_places *p = whole->places;
  e->arenas[0].bytes = p->rest_end;
  for (size_t i = 0; i < p->roots.n; i++) {
    const variant_root *r = &p->roots.items[i];
    const epoch_root *root = &whole->roots.items[r->root];
    if (r->write < 0) {
      int64_t bytes = e->kernels.items[r->call].kernel.workspace_bytes;
      if (bytes < r->least || bytes > r->room) return false;
      e->root_bytes.items[i] = bytes;
    }
    int64_t bytes = e->root_bytes.items[i];
    if (root->outlives || !bytes) continue;
    int64_t end = root->offset + (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
    if (e->arenas[0].bytes < end) e->arenas[0].bytes = end;
  }
  return true;
}

static bool views_fit(const reed_session *s, const variant_places *p) {
  for (size_t i = 0; i < p->views.n; i++)
    if (reg_r(&s->run, p->views.items[i].dst)->bytes != reg_r(&s->run, p->views.items[i].src)->bytes) return false;
  return true;
}

/* ---- making: the entry ---- */

static bool fill(reed_session *s, const insn_epoch_enter *enter, const epoch_entry *base, epoch_entry *whole,
                 epoch_entry *e, profile_epoch *note) {
  const variant_places *p = whole->places;
  int64_t begin = clock_now_ns();
  if (!VEC_RESERVE(&e->kernels, p->calls.n) || !VEC_RESERVE(&e->root_bytes, p->roots.n) ||
      active_begin(&s->epoch, e, base, &s->run) != REED_OK)
    return false;
  key_note_changes(&s->epoch, enter, base);
  lend_registers(s, whole);
  bool ok = run_shapes(s, whole, e);
  if (ok) capture(s, whole, e);
  int64_t shaped = clock_now_ns();
  ok = ok && views_fit(s, p) && size_results(whole, e) && make_kernels(s, whole, e) && size_arena(whole, e);
  clear_registers(s, whole);
  active_end_shapes(&s->epoch);
  if (note && ok) note->shape_ns = shaped - begin, note->plan_ns = clock_now_ns() - shaped;
  return ok;
}

static epoch_entry *make(reed_session *s, const insn_epoch_enter *enter, epoch_entry *base, uint64_t hash,
                         profile_epoch *note) {
  epoch_entry *whole = variant_use(base), *e = mem_calloc(1, sizeof *e);
  int64_t *key = e ? mem_copy(s->epoch.key.items, s->epoch.key.n * sizeof(int64_t)) : NULL;
  if (!key) {
    mem_free(e);
    return NULL;
  }
  *e = (epoch_entry){.epoch = enter->epoch, .hash = hash, .key = key, .n_key = s->epoch.key.n};
  memcpy(e->changed_keys, whole->changed_keys, sizeof e->changed_keys);
  memcpy(e->arenas, whole->arenas, sizeof e->arenas);
  bool ok = fill(s, enter, base, whole, e, note);
  s->epoch.entry = NULL;
  s->epoch.base = NULL;
  if (!ok) {
    memo_free_entry(&s->memo, e);
    reed_diagnosis_clear(s->run.diagnosis); /* planning the epoch fails likewise, and says where */
    return NULL;
  }
  e->n_repeated = whole->places->n_shape_functions - e->n_shape_functions;
  e->n_kernels = whole->n_kernels;
  e->whole = whole;
  whole->places->n_users++;
  memo_remember(&s->memo, e, devices_busy(&s->devices));
  return e;
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
  epoch_entry *whole = places ? mem_calloc(1, sizeof *whole) : NULL;
  if (whole && memo_divide(&s->memo, e, whole, places)) return true;
  mem_free(whole);
  variant_places_close(&places);
  return false;
}

/* True if some parts of the key have changed, and all of them had changed in the base. */
static bool changes_again(const epoch_entry *base, const uint64_t *changed) {
  uint64_t any = 0, other = 0;
  for (int i = 0; i < ENTRY_KEYS / 64; i++) {
    any |= changed[i];
    other |= changed[i] & ~base->changed_keys[i];
  }
  return any && !other;
}

/* The base for a variant of the key; NULL: there is none. A trace shows all calls of a miss, so there are no variants
 * while spans are collected. Other checks cover what may look forgotten here: an entry whose shape section writes a
 * register twice had no base and so no changed keys (find_base), or took another path (a branch has no places); the
 * head of a key's part tells room; and an entry that is not for lists has no list to be divided with. */
static epoch_entry *base_of(reed_session *s, const insn_epoch_enter *enter, uint32_t pc) {
  epoch_entry *base = s->memo.epochs[enter->epoch].entries;
  const epoch_entry *complete = base && base->whole ? base->whole : base;
  uint64_t changed[ENTRY_KEYS / 64];
  if (!base || s->devices.n > 1 || s->run.profile.spans || complete->rooms ||
      !s->run.program->module->epochs_shaped[enter->epoch] || !key_find_changes(&s->epoch, enter, base, changed) ||
      !changes_again(base, changed))
    return NULL;
  return base->whole || divide(s, enter, pc, base) ? base : NULL;
}

epoch_entry *variant_make(reed_session *s, const insn_epoch_enter *enter, uint32_t pc, uint64_t hash,
                          profile_epoch *note) {
  epoch_state *state = &s->memo.epochs[enter->epoch];
  if (state->wait > 0) {
    state->wait--;
    return NULL;
  }
  epoch_entry *base = base_of(s, enter, pc), *e = base ? make(s, enter, base, hash, note) : NULL;
  if (e) {
    state->waits = 0;
    s->memo.figures.variants++;
  } else if (base) {
    state->wait = state->waits;
    state->waits = state->waits * 2 + 1 < MOST_WAITS ? state->waits * 2 + 1 : MOST_WAITS;
  }
  return e;
}
