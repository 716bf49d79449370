/* The places of an entry that depend on given parts of its key: found by following both sections once. Variants
 * themselves: variant.c. */
#include "vm/epoch/variant.h"

#include <string.h>

#include "base/desc.h"
#include "vm/epoch/planner.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/twin.h"

/* Functions return false if the entry cannot have variants, or if there is no memory. */
typedef struct finder {
  const vm_run *run;
  const epoch_entry *e;
  variant_places *places;
  bool *touched;     /* per register: the content depends on the key's parts */
  int32_t *write_of; /* per register: index into the entry's writes; -1: none */
  int32_t *root_of;  /* per register, while the run section is followed */
  int32_t *listed;   /* per write: index into places->writes; -1: not there */
  bool *lent;        /* per write */
  bool *known;       /* per root: a kernel before has defined it */
  bool *has_parts;   /* per root */
} finder;

bool variant_may_join(const vm_run *run, uint32_t site, const reed_desc *output) {
  int64_t axis = reed_attrs_int(&run->program->site_attrs[site], "axis", 0);
  if (axis < 0) axis += output->rank;
  for (int64_t k = 0; k < axis && k < output->rank; k++)
    if (output->dims[k] != 1) return false;
  return true;
}

bool variant_has_parts(const reed_kernel *kernel, uint32_t n_outputs) {
  for (uint32_t k = 0; kernel->part_at && k < n_outputs; k++)
    if (kernel->part_at[k] >= 0) return true;
  return false;
}

/* ---- registers ---- */

static bool any_touched(const finder *f, const uint32_t *registers, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t number = INSN_REGISTER(registers[k]);
    if (number != MODULE_ABSENT && f->touched[number]) return true;
  }
  return false;
}

/* Lists a register that a call of the places writes. */
static bool list(finder *f, uint32_t reg) {
  int32_t n = f->write_of[reg];
  if (n < 0) return false;
  const epoch_write *write = &f->e->writes.items[n];
  if (f->listed[n] >= 0) return true;
  if (write->value.bounded_axis >= 0) return false;
  f->touched[reg] = write->changed;
  f->listed[n] = (int32_t)f->places->writes.n;
  return VEC_PUSH(&f->places->writes, (uint32_t)n);
}

static bool is_listed(const finder *f, uint32_t reg) {
  return f->write_of[reg] >= 0 && f->listed[f->write_of[reg]] >= 0;
}

/* Notes that calls of the places read the register. */
static bool lend(finder *f, uint32_t word) {
  uint32_t reg = INSN_REGISTER(word);
  int32_t n = reg == MODULE_ABSENT ? -1 : f->write_of[reg];
  if (n < 0 || f->listed[n] >= 0 || f->lent[n]) return true;
  f->lent[n] = true;
  return VEC_PUSH(&f->places->lent, (uint32_t)n);
}

static bool lend_all(finder *f, const uint32_t *registers, uint32_t n) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++) ok = lend(f, registers[k]);
  return ok;
}

/* ---- the shape section ---- */

static bool add_shape(finder *f, const uint32_t *w, uint32_t pc) {
  const insn_shape i = insn_shape_at(w);
  f->places->n_shape_functions++;
  if (!any_touched(f, i.inputs, i.n_inputs)) return true;
  bool ok = lend_all(f, i.inputs, i.n_inputs);
  for (uint32_t k = 0; ok && k < i.n_outputs; k++)
    if (i.outputs[k] != MODULE_ABSENT) ok = list(f, i.outputs[k]);
  return ok && VEC_PUSH(&f->places->shapes, pc);
}

static bool add_host_kernel(finder *f, const uint32_t *w, uint32_t pc) {
  const insn_invoke i = insn_invoke_at(w);
  if (f->run->program->site_ops[i.site]->impure) return false;
  bool depends = any_touched(f, i.inputs, i.n_inputs), all = true;
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    depends |= is_listed(f, i.outputs[k]);
    all &= is_listed(f, i.outputs[k]);
  }
  if (!depends) return true;
  if (!all) return false; /* elements without extents */
  return lend_all(f, i.inputs, i.n_inputs) && VEC_PUSH(&f->places->shapes, pc);
}

/* `shape.like`, and `view`, whose target has been shaped before. */
static bool add_like(finder *f, insn_sharing i, uint32_t pc, bool shapes) {
  if (!f->touched[i.src] && !is_listed(f, i.dst)) return true;
  if (!shapes && !is_listed(f, i.dst)) return false;
  return lend(f, i.src) && list(f, i.dst) && VEC_PUSH(&f->places->shapes, pc);
}

static bool follow_shapes(finder *f, uint32_t pc, uint32_t plan) {
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  bool ok = true;
  for (; ok && pc != plan; pc += insn_length_at(code + pc)) {
    const uint32_t *w = code + pc;
    switch (insn_id_at(w)) {
      case INSN_SHAPE: ok = add_shape(f, w, pc); break;
      case INSN_INVOKE: ok = add_host_kernel(f, w, pc); break;
      case INSN_SHAPE_LIKE:
        ok = add_like(f, (insn_sharing){insn_shape_like_at(w).dst, insn_shape_like_at(w).src}, pc, true);
        break;
      case INSN_VIEW: ok = add_like(f, insn_sharing_at(w), pc, false); break;
      case INSN_S_DIM: ok = !f->touched[insn_s_dim_at(w).src]; break;
      case INSN_S_ITEM: ok = !f->touched[insn_s_item_at(w).src]; break;
      case INSN_R_MOVE: /* all_listed finds what it changes */
      case INSN_CONST:
      case INSN_R_SCALAR:
      case INSN_S_CONST:
      case INSN_S_MOVE:
      case INSN_S_NOT: INSN_ARITHMETIC(INSN_CASE) break;
      default: ok = false; /* a branch may turn */
    }
  }
  return ok;
}

/* ---- the run section ---- */

static int32_t root_of(const finder *f, uint32_t reg) { return reg == MODULE_ABSENT ? NO_ROOT : f->root_of[reg]; }

static bool list_root(finder *f, int32_t root, int32_t write, uint32_t call) {
  const epoch_root *r = &f->e->roots.items[root];
  if (r->inside != NO_ROOT || f->has_parts[root]) return false;
  f->places->root_numbers[root] = (int32_t)f->places->roots.n;
  return VEC_PUSH(&f->places->roots, ((variant_root){.root = root, .write = write, .call = call}));
}

/* A kernel that depends on the key. Only the operand's place itself can be shared with its output then. Counts from
 * kernels are refused twice: `list` refuses bounded results, whose extents depend on the key, and this function kernels
 * with counts, of which only an operand's place depends on it. */
static bool list_call(finder *f, const insn_invoke *i, uint32_t pc, uint32_t number) {
  const epoch_kernel *kernel = &f->e->kernels.items[number];
  variant_places *p = f->places;
  reed_alias alias = f->run->program->site_ops[i->site]->alias;
  if (kernel->counted || kernel->extent_root >= 0 || variant_has_parts(&kernel->kernel, i->n_outputs)) return false;
  variant_call call = {.pc = pc, .kernel = number, .operands = (uint32_t)p->operands.n};
  call.twin = twin_of_kernel(f->run, p, i);
  bool on_roots = false;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    int32_t root = root_of(f, i->inputs[k]);
    on_roots |= root != NO_ROOT;
    if (!VEC_PUSH(&p->operands, root)) return false;
  }
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    const epoch_write *write = &f->e->writes.items[f->write_of[i->outputs[k]]];
    if (write->value.shaped_by != i->site + 1 || write->value.shaped_as != k) return false;
    if (write->bound) continue;
    if (alias == REED_ALIAS_JOIN && on_roots && variant_may_join(f->run, i->site, &write->value.t.desc)) return false;
    if (!f->known[write->root] && f->touched[i->outputs[k]] &&
        !list_root(f, write->root, f->listed[f->write_of[i->outputs[k]]], 0))
      return false;
  }
  if (kernel->workspace_root >= 0 && !list_root(f, kernel->workspace_root, -1, (uint32_t)p->calls.n)) return false;
  return lend_all(f, i->inputs, i->n_inputs) && lend_all(f, i->outputs, i->n_outputs) && VEC_PUSH(&p->calls, call);
}

static bool add_kernel(finder *f, const uint32_t *w, uint32_t pc, uint32_t number) {
  const insn_invoke i = insn_invoke_at(w);
  if (number >= f->e->kernels.n) return false;
  bool depends = any_touched(f, i.inputs, i.n_inputs) || any_touched(f, i.outputs, i.n_outputs);
  for (uint32_t k = 0; k < i.n_inputs && !depends; k++)
    depends = root_of(f, i.inputs[k]) != NO_ROOT && f->places->root_numbers[root_of(f, i.inputs[k])] >= 0;
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    int32_t n = f->write_of[i.outputs[k]];
    if (n < 0 || (f->e->writes.items[n].root < 0 && !f->e->writes.items[n].bound)) return false;
  }
  if (depends && !list_call(f, &i, pc, number)) return false;
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    int32_t root = f->e->writes.items[f->write_of[i.outputs[k]]].root;
    f->root_of[i.outputs[k]] = root;
    if (root != NO_ROOT) f->known[root] = true;
  }
  return true;
}

static bool add_view(finder *f, insn_sharing i) {
  f->root_of[i.dst] = f->root_of[i.src];
  if (!f->touched[i.dst] && !f->touched[i.src]) return true;
  return lend(f, i.dst) && lend(f, i.src) && VEC_PUSH(&f->places->views, i);
}

static bool follow_run(finder *f, uint32_t pc) {
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  uint32_t n = 0;
  for (bool ok = true; ok;) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + insn_length_at(w);
    switch (insn_id_at(w)) {
      case INSN_INVOKE: ok = add_kernel(f, w, pc, n++); break;
      case INSN_VIEW:
      case INSN_COPY: ok = add_view(f, insn_sharing_at(w)); break;
      case INSN_KILL: f->root_of[insn_kill_at(w).victim] = NO_ROOT; break;
      case INSN_EPOCH_END: return n == f->e->kernels.n;
      default: ok = false;
    }
    pc = next;
  }
  return false;
}

/* ---- sizes ---- */

static bool meet(const epoch_root *a, const epoch_root *b) { return a->first <= b->last && b->first <= a->last; }

/* Gives every root of the list the bytes that it may take where it lies. An arena may grow by an eighth. */
static void find_rooms(finder *f) {
  variant_places *p = f->places;
  const epoch_entry *e = f->e;
  int64_t most = e->arenas[0].bytes + e->arenas[0].bytes / 8;
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *r = &e->roots.items[i];
    if (r->outlives || r->inside != NO_ROOT || !r->bytes || p->root_numbers[i] >= 0) continue;
    if (p->rest_end < r->offset + r->bytes) p->rest_end = r->offset + r->bytes;
  }
  for (size_t k = 0; k < p->roots.n; k++) {
    variant_root *v = &p->roots.items[k];
    const epoch_root *r = &e->roots.items[v->root];
    v->least = r->bytes / 2;
    v->room = INT64_MAX;
    if (r->outlives) continue;
    v->room = most - r->offset;
    for (size_t i = 0; i < e->roots.n; i++) {
      const epoch_root *other = &e->roots.items[i];
      bool empty = !other->bytes && p->root_numbers[i] < 0;
      if ((int32_t)i == v->root || other->outlives || other->inside != NO_ROOT || empty || !meet(r, other)) continue;
      if (other->offset >= r->offset && v->room > other->offset - r->offset) v->room = other->offset - r->offset;
    }
  }
}

/* Lists the pointers to host values. */
static bool list_pointers(finder *f) {
  const replay *list = f->e->replay;
  for (size_t i = 0; i < list->fixed.n; i++) {
    int32_t write = f->listed[list->fixed.items[i].source];
    if (write < 0) continue;
    if (!VEC_PUSH(&f->places->pointers, ((variant_pointer){list->fixed.items[i].index, (uint32_t)write}))) return false;
  }
  return true;
}

/* True if every register that has changed is in the list: no r.move has passed a change on. */
static bool all_listed(const finder *f) {
  for (size_t i = 0; i < f->e->writes.n; i++)
    if (f->e->writes.items[i].changed && f->listed[i] < 0) return false;
  return true;
}

static bool find(finder *f, const insn_epoch_enter *enter, uint32_t pc) {
  const epoch_entry *e = f->e;
  variant_places *p = f->places;
  for (uint32_t i = 0; i < enter->n_keys; i++) f->touched[INSN_REGISTER(enter->keys[i])] |= entry_key_changed(e, i);
  uint32_t n_r = frame_top(f->run)->function->n_r;
  for (uint32_t i = 0; i < n_r; i++) f->write_of[i] = f->root_of[i] = -1;
  for (size_t i = 0; i < e->writes.n; i++) f->write_of[e->writes.items[i].reg] = (int32_t)i, f->listed[i] = -1;
  for (size_t i = 0; i < e->roots.n; i++) {
    p->root_numbers[i] = -1;
    if (e->roots.items[i].inside != NO_ROOT) f->has_parts[e->roots.items[i].inside] = true;
  }
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  uint32_t run_section = enter->plan + insn_length_at(code + enter->plan);
  if (!follow_shapes(f, pc, enter->plan) || !all_listed(f) || !follow_run(f, run_section) || !list_pointers(f))
    return false;
  for (size_t i = 0; i < e->kernels.n; i++) p->shared_bytes += e->kernels.items[i].prepared->bytes;
  for (size_t i = 0; i < p->calls.n; i++) p->shared_bytes -= e->kernels.items[p->calls.items[i].kernel].prepared->bytes;
  find_rooms(f);
  for (size_t i = 0; i < p->writes.n; i++) {
    const ref *value = &e->writes.items[p->writes.items[i]].value;
    p->n_words += 1 + (size_t)value->t.desc.rank;
    p->n_values += value->kind == REF_STORED;
  }
  return p->calls.n * VARIANT_SHARE <= e->kernels.n;
}

variant_places *variant_find_places(reed_session *s, const epoch_entry *e, const insn_epoch_enter *enter, uint32_t pc) {
  uint32_t n_r = frame_top(&s->run)->function->n_r;
  finder f = {.run = &s->run,
              .e = e,
              .places = mem_calloc(1, sizeof *f.places),
              .touched = mem_calloc(n_r, sizeof *f.touched),
              .write_of = mem_calloc(n_r, sizeof *f.write_of),
              .root_of = mem_calloc(n_r, sizeof *f.root_of),
              .listed = mem_calloc(e->writes.n, sizeof *f.listed),
              .lent = mem_calloc(e->writes.n, sizeof *f.lent),
              .known = mem_calloc(e->roots.n, sizeof *f.known),
              .has_parts = mem_calloc(e->roots.n, sizeof *f.has_parts)};
  bool ok = f.places && f.touched && f.write_of && f.root_of && f.listed && f.lent && f.known && f.has_parts;
  if (ok) {
    f.places->root_numbers = mem_calloc(e->roots.n, sizeof *f.places->root_numbers);
    ok = f.places->root_numbers && find(&f, enter, pc);
  }
  if (!ok) variant_places_close(&f.places);
  mem_free(f.touched);
  mem_free(f.write_of);
  mem_free(f.root_of);
  mem_free(f.listed);
  mem_free(f.lent);
  mem_free(f.known);
  mem_free(f.has_parts);
  return f.places;
}
