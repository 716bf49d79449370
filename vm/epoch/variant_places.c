/* The places of an entry that depend on given parts of its key: found by following both sections once. Variants
 * themselves: variant.c. */
#include "vm/epoch/variant_places.h"

#include <string.h>

#include "base/desc.h"
#include "ops/call.h"
#include "vm/epoch/key.h"
#include "vm/epoch/planner.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/twin.h"
#include "vm/family.h"

enum { LAST_SHAPES = 4 }; /* of a family: so many items are compared with an item behind them */

/* The last items of places->shapes without twins of a family, the latest first. */
typedef struct last_shapes {
  uint32_t n;
  uint32_t items[LAST_SHAPES];
} last_shapes;

/* Functions return false if the entry cannot have variants, or if there is no memory. */
typedef struct finder {
  const vm_run *run;
  const epoch_entry *e;
  variant_places *places;
  bool *touched;     /* per register: the content depends on the key's parts */
  uint32_t *like;    /* per touched register: the first one that has equal extents while the key's parts are alike */
  last_shapes *last; /* per family */
  int32_t *write_of; /* per register: index into the entry's writes; -1: none */
  int32_t *root_of;  /* per register, while the run section is followed */
  int32_t *listed;   /* per write: index into places->writes; -1: not there */
  bool *lent;        /* per write */
  bool *read;        /* per register: a call that is made for every variant reads it */
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
  return VEC_PUSH(&f->places->writes, ((variant_write){.write = (uint32_t)n, .twin = -1}));
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
  return VEC_PUSH(&f->places->lent, ((variant_lent){.write = (uint32_t)n}));
}

static bool lend_all(finder *f, const uint32_t *registers, uint32_t n) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++) ok = lend(f, registers[k]);
  return ok;
}

/* ---- calls that have equal results while the key's parts are alike ---- */

/* The register's content in every variant, except its elements; or, if it is touched, in the whole. */
static const ref *content_of(const finder *f, uint32_t reg) {
  return f->write_of[reg] < 0 ? reg_r(f->run, reg) : &f->e->writes.items[f->write_of[reg]].value;
}

/* True if the registers have equal descriptors and rooms in every variant whose parts are alike. */
static bool are_like(const finder *f, uint32_t a, uint32_t b) {
  if (a == b) return true;
  const ref *one = content_of(f, a), *other = content_of(f, b);
  if (one->t.room != other->t.room || (one->t.room && one->t.room_axis != other->t.room_axis) ||
      one->t.device != other->t.device)
    return false;
  if (f->touched[a] || f->touched[b]) return f->touched[a] && f->touched[b] && f->like[a] == f->like[b];
  return ref_is_tensor(one) && ref_is_tensor(other) && one->bounded_axis < 0 && other->bounded_axis < 0 &&
         desc_equal(&one->t.desc, &other->t.desc);
}

/* True if the operands of two calls of a family are alike; elements that the operator reads are those of one register,
 * and so are constants if the calls are those of kernels, which may keep their addresses. */
static bool have_like_inputs(const finder *f, uint32_t site, const uint32_t *a, const uint32_t *b, uint32_t n,
                             bool kernels) {
  const reed_program *p = f->run->program;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t one = INSN_REGISTER(a[k]), other = INSN_REGISTER(b[k]);
    if (one == other) continue;
    if (one == MODULE_ABSENT || other == MODULE_ABSENT || !are_like(f, one, other) ||
        (kernels && content_of(f, one)->constant != content_of(f, other)->constant) ||
        op_reads_value(p->site_ops[site], &p->site_attrs[site], (int32_t)k))
      return false;
  }
  return true;
}

static bool have_like_outputs(const finder *f, const uint32_t *a, const uint32_t *b, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (a[k] != b[k] && (a[k] == MODULE_ABSENT || b[k] == MODULE_ABSENT || !are_like(f, a[k], b[k]))) return false;
  return true;
}

/* The item that gives the outputs of a `shape` the extents; -1: none. */
static int32_t twin_of_shape(finder *f, const insn_shape *i) {
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  uint32_t family = f->run->program->families[i->site];
  if (family & FAMILY_OF_ONE) return -1;
  last_shapes *last = &f->last[family];
  for (uint32_t n = 0; n < last->n; n++) {
    const insn_shape other = insn_shape_at(code + f->places->shapes.items[last->items[n]].pc);
    bool same = i->device == other.device && i->n_inputs == other.n_inputs && i->n_outputs == other.n_outputs &&
                have_like_inputs(f, i->site, i->inputs, other.inputs, i->n_inputs, false);
    for (uint32_t k = 0; same && k < i->n_outputs; k++)
      same = i->outputs[k] == MODULE_ABSENT
                 ? other.outputs[k] == MODULE_ABSENT
                 : other.outputs[k] != MODULE_ABSENT && f->touched[i->outputs[k]] == f->touched[other.outputs[k]];
    if (!same) continue;
    for (uint32_t k = 0; k < i->n_outputs; k++)
      if (i->outputs[k] != MODULE_ABSENT) f->like[i->outputs[k]] = f->like[other.outputs[k]];
    return (int32_t)last->items[n];
  }
  if (last->n < LAST_SHAPES) last->n++;
  memmove(last->items + 1, last->items, (last->n - 1) * sizeof *last->items);
  last->items[0] = (uint32_t)f->places->shapes.n;
  return -1;
}

/* The `shape.like` of a register that is alike; -1: none. */
static int32_t twin_of_like(finder *f, const insn_shape_like *i) {
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  for (size_t n = 0; f->touched[i->src] && n < f->places->shapes.n; n++) {
    const uint32_t *w = code + f->places->shapes.items[n].pc;
    if (f->places->shapes.items[n].twin >= 0 || insn_id_at(w) != INSN_SHAPE_LIKE) continue;
    const insn_shape_like other = insn_shape_like_at(w);
    if (other.device != i->device || !are_like(f, i->src, other.src) || f->touched[i->dst] != f->touched[other.dst])
      continue;
    f->like[i->dst] = f->like[other.dst];
    return (int32_t)n;
  }
  return -1;
}

/* True if a call's operands on roots lie on roots of equal sizes. */
static bool have_like_roots(const finder *f, const variant_call *call, const variant_call *twin, uint32_t n) {
  const variant_places *p = f->places;
  for (uint32_t k = 0; k < n; k++) {
    int32_t a = p->operands.items[call->operands + k], b = p->operands.items[twin->operands + k];
    if ((a == NO_ROOT) != (b == NO_ROOT)) return false;
    if (a == b) continue;
    int32_t one = p->root_numbers[a], other = p->root_numbers[b];
    if ((one < 0) != (other < 0) || f->e->roots.items[a].bytes != f->e->roots.items[b].bytes) return false;
    if (one < 0) continue;
    int32_t x = p->roots.items[one].write, y = p->roots.items[other].write;
    if (x < 0 || y < 0 ||
        !are_like(f, f->e->writes.items[p->writes.items[x].write].reg,
                  f->e->writes.items[p->writes.items[y].write].reg))
      return false;
  }
  return true;
}

/* True if everything by which a variant makes the call's kernel is as for its twin, while the key's parts are alike. */
static bool stays_twin(const finder *f, const insn_invoke *i, const variant_call *call) {
  if (call->twin < 0) return false;
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  const variant_call *twin = &f->places->calls.items[call->twin];
  const insn_invoke other = insn_invoke_at(code + twin->pc);
  const epoch_kernel *kernel = &f->e->kernels.items[call->kernel], *its = &f->e->kernels.items[twin->kernel];
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT && !f->e->writes.items[f->write_of[i->outputs[k]]].bound !=
                                              !f->e->writes.items[f->write_of[other.outputs[k]]].bound)
      return false;
  return kernel->prepared == its->prepared && (kernel->workspace_root < 0) == (its->workspace_root < 0) &&
         have_like_inputs(f, i->site, i->inputs, other.inputs, i->n_inputs, true) &&
         have_like_outputs(f, i->outputs, other.outputs, i->n_outputs) && have_like_roots(f, call, twin, i->n_inputs);
}

/* ---- the shape section ---- */

static bool add_shape(finder *f, const uint32_t *w, uint32_t pc) {
  const insn_shape i = insn_shape_at(w);
  f->places->n_shape_functions++;
  if (!any_touched(f, i.inputs, i.n_inputs)) return true;
  bool ok = lend_all(f, i.inputs, i.n_inputs);
  for (uint32_t k = 0; ok && k < i.n_outputs; k++)
    if (i.outputs[k] != MODULE_ABSENT) ok = list(f, i.outputs[k]);
  if (!ok) return false;
  const variant_shape shape = {.pc = pc, .twin = twin_of_shape(f, &i)};
  return VEC_PUSH(&f->places->shapes, shape);
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
  return lend_all(f, i.inputs, i.n_inputs) && VEC_PUSH(&f->places->shapes, ((variant_shape){.pc = pc, .twin = -1}));
}

static bool add_like(finder *f, const uint32_t *w, uint32_t pc) {
  const insn_shape_like i = insn_shape_like_at(w);
  if (!f->touched[i.src] && !is_listed(f, i.dst)) return true;
  if (!lend(f, i.src) || !list(f, i.dst)) return false;
  const variant_shape shape = {.pc = pc, .twin = twin_of_like(f, &i)};
  return VEC_PUSH(&f->places->shapes, shape);
}

/* A `view`, whose target has been shaped before. */
static bool add_value_view(finder *f, insn_sharing i, uint32_t pc) {
  if (!f->touched[i.src] && !is_listed(f, i.dst)) return true;
  return is_listed(f, i.dst) && lend(f, i.src) && VEC_PUSH(&f->places->shapes, ((variant_shape){.pc = pc, .twin = -1}));
}

static bool follow_shapes(finder *f, uint32_t pc, uint32_t plan) {
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  bool ok = true;
  for (; ok && pc != plan; pc += insn_length_at(code + pc)) {
    const uint32_t *w = code + pc;
    switch (insn_id_at(w)) {
      case INSN_SHAPE: ok = add_shape(f, w, pc); break;
      case INSN_INVOKE: ok = add_host_kernel(f, w, pc); break;
      case INSN_SHAPE_LIKE: ok = add_like(f, w, pc); break;
      case INSN_VIEW: ok = add_value_view(f, insn_sharing_at(w), pc); break;
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
  if (kernel->counted || kernel->extent_root >= 0) return false;
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
    call.has_parts |= i->n_inputs && write->root == root_of(f, i->inputs[0]);
    if (alias == REED_ALIAS_JOIN && on_roots && variant_may_join(f->run, i->site, &write->value.t.desc)) return false;
    if (!f->known[write->root] && f->touched[i->outputs[k]] &&
        !list_root(f, write->root, f->listed[f->write_of[i->outputs[k]]], 0))
      return false;
  }
  if (kernel->workspace_root >= 0 && !list_root(f, kernel->workspace_root, -1, (uint32_t)p->calls.n)) return false;
  call.stays_twin = stays_twin(f, i, &call);
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
  bool twin = false;
  for (size_t n = f->places->views.n, tried = 0; n-- > 0 && tried < LAST_SHAPES && !twin;) {
    const variant_view *other = &f->places->views.items[n];
    if (other->twin) continue;
    twin = are_like(f, i.dst, other->registers.dst) && are_like(f, i.src, other->registers.src);
    tried++;
  }
  return lend(f, i.dst) && lend(f, i.src) && VEC_PUSH(&f->places->views, ((variant_view){i, twin}));
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

/* ---- silent registers ---- */

static void mark(bool *read, const uint32_t *registers, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (INSN_REGISTER(registers[k]) != MODULE_ABSENT) read[INSN_REGISTER(registers[k])] = true;
}

static void mark_shape(bool *read, const uint32_t *w) {
  if (insn_id_at(w) == INSN_SHAPE) {
    const insn_shape shape = insn_shape_at(w);
    mark(read, shape.inputs, shape.n_inputs);
  } else if (insn_id_at(w) == INSN_INVOKE) {
    const insn_invoke call = insn_invoke_at(w);
    mark(read, call.inputs, call.n_inputs);
    mark(read, call.outputs, call.n_outputs);
  } else {
    const insn_sharing sharing = insn_sharing_at(w);
    mark(read, &sharing.src, 1);
    if (insn_id_at(w) == INSN_VIEW) mark(read, &sharing.dst, 1);
  }
}

/* Marks the registers of the calls and views that are made while the key's parts are alike. */
static void mark_made(const finder *f, bool *read) {
  const variant_places *p = f->places;
  const uint32_t *code = f->run->program->module->code + frame_top(f->run)->function->code_offset;
  for (size_t i = 0; i < p->shapes.n; i++)
    if (p->shapes.items[i].twin < 0) mark_shape(read, code + p->shapes.items[i].pc);
  for (size_t i = 0; i < p->calls.n; i++) {
    if (p->calls.items[i].stays_twin) continue;
    const insn_invoke call = insn_invoke_at(code + p->calls.items[i].pc);
    mark(read, call.inputs, call.n_inputs);
    mark(read, call.outputs, call.n_outputs);
  }
  for (size_t i = 0; i < p->views.n; i++) {
    if (p->views.items[i].twin) continue;
    mark(read, &p->views.items[i].registers.dst, 1);
    mark(read, &p->views.items[i].registers.src, 1);
  }
}

/* The registers that a `shape` or `shape.like` writes. */
static const uint32_t *results_of(const finder *f, const variant_shape *shape, uint32_t *out_n) {
  const uint32_t *w = f->run->program->module->code + frame_top(f->run)->function->code_offset + shape->pc;
  *out_n = 1;
  if (insn_id_at(w) == INSN_SHAPE_LIKE) return w + 1;
  const insn_shape i = insn_shape_at(w);
  *out_n = i.n_outputs;
  return i.outputs;
}

/* Makes the results of a `shape` with a twin silent, if no call that is made reads them. */
static void silence(finder *f, variant_shape *shape) {
  variant_places *p = f->places;
  uint32_t n, n_of_twin, n_written = 0;
  const uint32_t *results = results_of(f, shape, &n);
  const uint32_t *of_twin = results_of(f, &p->shapes.items[shape->twin], &n_of_twin);
  for (uint32_t k = 0; k < n; k++) {
    if (results[k] == MODULE_ABSENT) continue;
    if (f->read[results[k]]) return;
    n_written++;
  }
  for (uint32_t k = 0; k < n; k++)
    if (results[k] != MODULE_ABSENT)
      p->writes.items[f->listed[f->write_of[results[k]]]].twin = f->listed[f->write_of[of_twin[k]]];
  shape->n_silent = n_written;
}

/* Finds which writes and lent registers are silent, and gives each write its words. */
static void find_silent(finder *f) {
  variant_places *p = f->places;
  mark_made(f, f->read);
  for (size_t i = 0; i < p->shapes.n; i++)
    if (p->shapes.items[i].twin >= 0) silence(f, &p->shapes.items[i]);
  for (size_t i = 0; i < p->lent.n; i++)
    p->lent.items[i].silent = !f->read[f->e->writes.items[p->lent.items[i].write].reg];
  for (size_t i = 0; i < f->e->replay->kept.n; i++) {
    int32_t n = f->listed[f->e->replay->kept.items[i].write];
    if (n >= 0) p->writes.items[n].kept = true;
  }
  for (size_t i = 0; i < p->writes.n; i++) {
    const ref *value = &f->e->writes.items[p->writes.items[i].write].value;
    p->writes.items[i].word = (uint32_t)p->n_words;
    p->n_words += 1 + (size_t)value->t.desc.rank;
    p->n_values += value->kind == REF_STORED;
  }
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
    if (p->rest_end < r->offset + plan_round_up(r->bytes)) p->rest_end = r->offset + plan_round_up(r->bytes);
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

/* Finds which of the changed parts are alike in the entry's key. */
static bool find_alike(finder *f, const insn_epoch_enter *enter) {
  const epoch_entry *e = f->e;
  if (!VEC_RESERVE(&f->places->alike, enter->n_keys)) return false;
  for (uint32_t i = 0; i < enter->n_keys; i++) {
    uint32_t reg = INSN_REGISTER(enter->keys[i]), first = i;
    bool value = INSN_READS(enter->keys[i]) & REED_READS_VALUE;
    if (entry_key_changed(e, i) && !value) first = key_first_alike(e->key, enter, i);
    bool changes = entry_key_changed(e, first) && !(INSN_READS(enter->keys[first]) & REED_READS_VALUE);
    if (!changes) first = i;
    f->places->alike.items[i] = (uint16_t)first;
    f->like[reg] = f->like[INSN_REGISTER(enter->keys[first])];
  }
  f->places->alike.n = enter->n_keys;
  return true;
}

static bool find(finder *f, const insn_epoch_enter *enter, uint32_t pc) {
  const epoch_entry *e = f->e;
  variant_places *p = f->places;
  for (uint32_t i = 0; i < enter->n_keys; i++) f->touched[INSN_REGISTER(enter->keys[i])] |= entry_key_changed(e, i);
  uint32_t n_r = frame_top(f->run)->function->n_r;
  for (uint32_t i = 0; i < n_r; i++) f->write_of[i] = f->root_of[i] = -1, f->like[i] = i;
  if (!find_alike(f, enter)) return false;
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
  find_silent(f);
  return p->calls.n * VARIANT_SHARE <= e->kernels.n;
}

variant_places *variant_find_places(reed_session *s, const epoch_entry *e, const insn_epoch_enter *enter, uint32_t pc) {
  uint32_t n_r = frame_top(&s->run)->function->n_r;
  finder f = {.run = &s->run,
              .e = e,
              .places = mem_calloc(1, sizeof *f.places),
              .touched = mem_calloc(n_r, sizeof *f.touched),
              .like = mem_calloc(n_r, sizeof *f.like),
              .last = mem_calloc(s->run.program->module->n_sites, sizeof *f.last),
              .write_of = mem_calloc(n_r, sizeof *f.write_of),
              .root_of = mem_calloc(n_r, sizeof *f.root_of),
              .listed = mem_calloc(e->writes.n, sizeof *f.listed),
              .lent = mem_calloc(e->writes.n, sizeof *f.lent),
              .read = mem_calloc(n_r, sizeof *f.read),
              .known = mem_calloc(e->roots.n, sizeof *f.known),
              .has_parts = mem_calloc(e->roots.n, sizeof *f.has_parts)};
  bool ok = f.places && f.touched && f.like && f.last && f.write_of && f.root_of && f.listed && f.lent && f.read &&
            f.known && f.has_parts;
  if (ok) {
    f.places->root_numbers = mem_calloc(e->roots.n, sizeof *f.places->root_numbers);
    ok = f.places->root_numbers && find(&f, enter, pc);
  }
  if (!ok) variant_places_close(&f.places);
  mem_free(f.touched);
  mem_free(f.like);
  mem_free(f.last);
  mem_free(f.write_of);
  mem_free(f.root_of);
  mem_free(f.listed);
  mem_free(f.lent);
  mem_free(f.read);
  mem_free(f.known);
  mem_free(f.has_parts);
  return f.places;
}
