/* Making, placing and running the lists of calls (replay_list.h). Which memory a register has was planned before, in
 * plan.c and layout.c: the list holds the same places, found by following the run section once. */
#include "vm/epoch/replay.h"

#include "bytecode/operands.h"
#include "vm/epoch/place.h"
#include "vm/epoch/replay_list.h"

#include <string.h>

#define NO_WRITE (-1)

/* ---- making ---- */

/* A register while the section is followed. */
typedef struct followed {
  int32_t write; /* index into the entry's writes; NO_WRITE: a key */
  uint8_t kind;  /* ref_kind; keys are stored */
  bool dead;
  place data, extent;
} followed;

/* The maker of one list. Functions that add to the list return false if there is no memory. */
typedef struct maker {
  const vm_run *run;
  const vm_devices *devices;
  const epoch_entry *entry;
  replay *list;
  followed *registers; /* of the function */
  uint32_t *blocks;    /* per root of the entry: position in list->roots */
  size_t next_kernel;
} maker;

static place place_in_root(const maker *m, int32_t root, int64_t at) {
  const epoch_root *r = &m->entry->roots.items[root];
  bool outlives = m->entry->roots.items[r->top].outlives;
  return (place){outlives ? PLACE_BLOCK : PLACE_ARENA, outlives ? m->blocks[r->top] : 0, r->offset + at};
}

static bool list_roots(maker *m) {
  const epoch_entry *e = m->entry;
  for (size_t i = 0; i < e->roots.n; i++) {
    if (!e->roots.items[i].outlives || e->roots.items[i].inside >= 0) continue;
    m->blocks[i] = (uint32_t)m->list->roots.n;
    if (!VEC_PUSH(&m->list->roots, (uint32_t)i)) return false;
  }
  return true;
}

static void begin_registers(maker *m, uint32_t n_r) {
  for (uint32_t i = 0; i < n_r; i++)
    m->registers[i] = (followed){.write = NO_WRITE, .kind = REF_STORED, .data = {PLACE_KEY, i, 0}};
  for (size_t i = 0; i < m->entry->writes.n; i++) {
    const epoch_write *w = &m->entry->writes.items[i];
    followed *r = &m->registers[w->reg];
    *r = (followed){.write = (int32_t)i, .kind = w->value.kind, .data = {PLACE_FIXED, (uint32_t)i, 0}};
    if (w->root >= 0) r->data = place_in_root(m, w->root, w->at);
    if (w->bound) r->data = (place){PLACE_BOUND, w->bound - 1, 0};
    if (w->extent_root >= 0) r->extent = place_in_root(m, w->extent_root, 8 * (int64_t)w->extent_index);
  }
}

/* Appends a pointer to the place. */
static bool add_pointer(maker *m, place at) {
  replay *p = m->list;
  replay_pointer again = {(uint32_t)p->pointers.n, at.source, at.at};
  void *known = at.kind == PLACE_FIXED ? m->entry->writes.items[at.source].value.t.data : NULL;
  if (!VEC_PUSH(&p->pointers, known)) return false;
  switch (at.kind) {
    case PLACE_NULL: break;
    case PLACE_FIXED: return m->entry->writes.items[at.source].value.constant || VEC_PUSH(&p->fixed, again);
    case PLACE_ARENA: return VEC_PUSH(&p->in_arena, again);
    case PLACE_BLOCK: return VEC_PUSH(&p->in_blocks, again);
    case PLACE_KEY: return VEC_PUSH(&p->in_keys, again);
    case PLACE_BOUND: return VEC_PUSH(&p->in_bound, again);
  }
  return true;
}

typedef enum verdict {
  MADE,
  NOT_FOR_LISTS, /* the interpreter has to execute the section */
  NO_MEMORY
} verdict;

static verdict add_inputs(maker *m, const insn_invoke *i) {
  bool extents_only = op_has(m->run->program->site_ops[i->site], REED_OP_EXTENTS_ONLY);
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    place at = {PLACE_NULL, 0, 0};
    if (i->inputs[k] != MODULE_ABSENT) {
      const followed *r = &m->registers[i->inputs[k]];
      bool stored = r->kind == REF_STORED || r->kind == REF_PENDING;
      if (!stored && !(r->kind == REF_SHAPED && extents_only)) return NOT_FOR_LISTS;
      if (stored) at = r->data;
    }
    if (!add_pointer(m, at)) return NO_MEMORY;
  }
  return MADE;
}

/* Marks the register as filled, with its kind from then on. */
static void fill(maker *m, followed *r) {
  r->kind = m->entry->writes.items[r->write].value.bounded_axis >= 0 ? REF_PENDING : REF_STORED;
}

static verdict add_outputs(maker *m, const insn_invoke *i) {
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    place at = {PLACE_NULL, 0, 0};
    if (i->outputs[k] != MODULE_ABSENT) {
      followed *r = &m->registers[i->outputs[k]];
      if (r->write == NO_WRITE) return NOT_FOR_LISTS;
      fill(m, r);
      at = r->data;
    }
    if (!add_pointer(m, at)) return NO_MEMORY;
  }
  return MADE;
}

/* Appends the pointer to byte 0 of the root; *out_index stays 0 for no root. */
static bool add_root(maker *m, int32_t root, uint32_t *out_index) {
  if (root < 0) return true;
  *out_index = (uint32_t)m->list->pointers.n;
  return add_pointer(m, place_in_root(m, root, 0));
}

static verdict add_input_extents(maker *m, const insn_invoke *i, uint32_t *out_index) {
  *out_index = (uint32_t)m->list->pointers.n;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    place at = {PLACE_NULL, 0, 0};
    if (i->inputs[k] != MODULE_ABSENT && m->registers[i->inputs[k]].kind == REF_PENDING)
      at = m->registers[i->inputs[k]].extent;
    if (!add_pointer(m, at)) return NO_MEMORY;
  }
  return MADE;
}

static verdict add_call(maker *m, const uint32_t *w, uint32_t pc) {
  const insn_invoke i = insn_invoke_at(w);
  if (m->devices->bind[i.device] != 0 || m->next_kernel == m->entry->kernels.n) return NOT_FOR_LISTS;
  const epoch_kernel *kernel = &m->entry->kernels.items[m->next_kernel++];
  replay *p = m->list;
  replay_call call = {.run = kernel->prepared->kernel.run, .state = kernel->prepared->kernel.state, .pc = pc};
  call.inputs = (uint32_t)p->pointers.n;
  verdict made = add_inputs(m, &i);
  if (made == MADE && kernel->counted) made = add_input_extents(m, &i, &call.input_extents);
  call.outputs = (uint32_t)p->pointers.n;
  if (made == MADE) made = add_outputs(m, &i);
  if (made != MADE) return made;
  bool ok = add_root(m, kernel->workspace_root, &call.workspace) && add_root(m, kernel->extent_root, &call.extents);
  return ok && VEC_PUSH(&p->calls, call) ? MADE : NO_MEMORY;
}

static int32_t device_of(const maker *m, uint32_t reg) {
  int32_t write = m->registers[reg].write;
  return write == NO_WRITE ? reg_r(m->run, reg)->t.device : m->entry->writes.items[write].value.t.device;
}

/* `view`, or a `copy` that stays on its device. */
static verdict alias(maker *m, insn_sharing i, bool counts) {
  followed *dst = &m->registers[i.dst];
  const followed *src = &m->registers[i.src];
  bool stored = src->kind == REF_STORED || (counts && src->kind == REF_PENDING);
  if (dst->write == NO_WRITE || dst->kind != REF_SHAPED || !stored || device_of(m, i.dst) != device_of(m, i.src) ||
      m->entry->writes.items[dst->write].root >= 0) /* a dense copy (vm/room.h) */
    return NOT_FOR_LISTS;
  fill(m, dst);
  if (dst->kind != src->kind) return NOT_FOR_LISTS;
  dst->data = src->data;
  return MADE;
}

static verdict note_kill(maker *m, uint32_t reg) {
  followed *r = &m->registers[reg];
  if (r->dead) return MADE;
  r->dead = true;
  r->kind = REF_EMPTY;
  return r->write != NO_WRITE || VEC_PUSH(&m->list->dead_keys, reg) ? MADE : NO_MEMORY;
}

static uint32_t branch(const maker *m, const uint32_t *w, bool on_zero, uint32_t next) {
  const insn_branch_if i = insn_branch_if_at(w);
  return (*reg_s(m->run, i.condition) == 0) == on_zero ? i.target : next;
}

/* Takes the kills behind `epoch.end` (which ends before the word `pc`) into the list. A register that dies there, such
 * as a constant or a value that only shape functions have read, needs no content in a run from the list, unless it
 * holds the storage in which a kernel computes. */
static void follow_end(maker *m, uint32_t pc) {
  const uint32_t *code = m->run->program->module->code + frame_top(m->run)->function->code_offset;
  for (; insn_id_at(code + pc) == INSN_KILL; pc += insn_length_at(code + pc)) {
    followed *r = &m->registers[insn_kill_at(code + pc).victim];
    if (r->write == NO_WRITE || r->data.kind == PLACE_BLOCK || r->extent.kind == PLACE_BLOCK) break;
    r->dead = true;
    m->list->n_instructions++;
  }
  m->list->next = pc;
}

/* Follows the section from `pc` to its end. */
static verdict follow(maker *m, uint32_t pc) {
  const uint32_t *code = m->run->program->module->code + frame_top(m->run)->function->code_offset;
  verdict made = MADE;
  while (made == MADE) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + insn_length_at(w);
    switch (insn_id_at(w)) {
      case INSN_INVOKE: made = add_call(m, w, pc); break;
      case INSN_VIEW: made = alias(m, insn_sharing_at(w), true); break;
      case INSN_COPY: made = alias(m, insn_sharing_at(w), false); break;
      case INSN_KILL: made = note_kill(m, insn_kill_at(w).victim); break;
      case INSN_JUMP: next = insn_jump_at(w).target; break;
      case INSN_BRANCH_IF: next = branch(m, w, false, next); break;
      case INSN_BRANCH_IFNOT: next = branch(m, w, true, next); break;
      case INSN_EPOCH_END:
        m->list->end = pc;
        follow_end(m, next);
        return MADE;
      default: return NOT_FOR_LISTS;
    }
    m->list->n_instructions++;
    pc = next;
  }
  return made;
}

static bool list_writes(maker *m) {
  for (size_t i = 0; i < m->entry->writes.n; i++) {
    uint32_t reg = m->entry->writes.items[i].reg;
    const followed *r = &m->registers[reg];
    bool ok = r->dead ? VEC_PUSH(&m->list->dead_writes, reg)
                      : VEC_PUSH(&m->list->kept, ((replay_kept){(uint32_t)i, r->kind, r->data, r->extent}));
    if (!ok) return false;
  }
  return true;
}

static verdict make(maker *m, uint32_t pc) {
  uint32_t n_r = frame_top(m->run)->function->n_r;
  m->registers = mem_calloc(n_r, sizeof *m->registers);
  m->blocks = mem_calloc(m->entry->roots.n, sizeof *m->blocks);
  verdict made = NO_MEMORY;
  if ((m->registers || !n_r) && (m->blocks || !m->entry->roots.n) && VEC_PUSH(&m->list->pointers, NULL) &&
      list_roots(m)) {
    begin_registers(m, n_r);
    made = follow(m, pc);
    if (made == MADE && !list_writes(m)) made = NO_MEMORY;
  }
  mem_free(m->registers);
  mem_free(m->blocks);
  return made;
}

const struct replay *replay_of(reed_session *s, uint32_t pc) {
  epoch_entry *e = s->epoch.entry;
  if (s->run.profile.spans) return NULL;
  if (e->replay || e->not_for_lists) return e->replay;
  reserve_use(&s->memo.reserve, false);
  maker m = {.run = &s->run, .devices = &s->devices, .entry = e, .list = mem_calloc(1, sizeof *m.list)};
  verdict made = m.list ? make(&m, pc) : NO_MEMORY;
  if (made != MADE) replay_free(&m.list);
  e->not_for_lists = made == NOT_FOR_LISTS;
  e->replay = m.list;
  if (made == MADE) memo_add_bytes(&s->memo, e, replay_fit(m.list), devices_busy(&s->devices));
  return e->replay; /* without memory for a list, the interpreter needs none */
}

/* ---- placing ---- */

/* The run's address of a place. */
static void *data_of(const reed_session *s, const epoch_entry *e, place at, const void *arena) {
  switch (at.kind) {
    case PLACE_NULL: return NULL;
    case PLACE_FIXED: return e->writes.items[at.source].value.t.data;
    case PLACE_ARENA: return arena ? (char *)arena + at.at : NULL;
    case PLACE_BLOCK: return (char *)s->epoch.root_storages.items[at.source]->data + at.at;
    case PLACE_KEY: return reg_r(&s->run, at.source)->t.data;
    case PLACE_BOUND: return s->bindings.outputs[at.source].place.data;
  }
  return NULL;
}

static storage *storage_of(reed_session *s, const epoch_entry *e, place at) {
  switch (at.kind) {
    case PLACE_FIXED: return e->writes.items[at.source].value.t.storage;
    case PLACE_BLOCK: return s->epoch.root_storages.items[at.source];
    case PLACE_KEY: return reg_r(&s->run, at.source)->t.storage;
    case PLACE_BOUND: return &s->bindings.outputs[at.source].place;
    case PLACE_NULL:
    case PLACE_ARENA: break;
  }
  return NULL;
}

static void write_kept(reed_session *s, const epoch_entry *e, const replay_kept *kept, const void *arena) {
  const epoch_write *write = &e->writes.items[kept->write];
  ref *r = reg_r(&s->run, write->reg);
  ref_clear(&s->run.objects, r);
  *r = write->value;
  if (r->object) r->object->n_references++;
  r->kind = (uint8_t)kept->kind;
  if (kept->kind == REF_STORED || kept->kind == REF_PENDING) {
    r->t.data = data_of(s, e, kept->data, arena);
    r->t.storage = storage_of(s, e, kept->data);
  }
  storage_retain(r->t.storage);
  if (kept->extent.kind == PLACE_NULL) return;
  r->extent = data_of(s, e, kept->extent, arena);
  r->extent_storage = storage_of(s, e, kept->extent);
  storage_retain(r->extent_storage);
}

static void write_pointers(reed_session *s, replay *p, const void *arena) {
  void **pointers = p->pointers.items;
  if (arena && arena != p->arena) {
    p->arena = arena;
    for (size_t i = 0; i < p->in_arena.n; i++) {
      const replay_pointer *again = &p->in_arena.items[i];
      pointers[again->index] = (char *)arena + again->at;
    }
  }
  for (size_t i = 0; i < p->in_blocks.n; i++) {
    const replay_pointer *again = &p->in_blocks.items[i];
    pointers[again->index] = (char *)s->epoch.root_storages.items[again->source]->data + again->at;
  }
  const ref *base = &s->run.r.items[frame_top(&s->run)->r_base];
  for (size_t i = 0; i < p->in_bound.n; i++)
    pointers[p->in_bound.items[i].index] = s->bindings.outputs[p->in_bound.items[i].source].place.data;
  for (size_t i = 0; i < p->in_keys.n; i++)
    pointers[p->in_keys.items[i].index] = base[p->in_keys.items[i].source].t.data;
}

reed_status replay_place(reed_session *s) {
  epoch_entry *e = s->epoch.entry;
  replay *p = e->replay;
  reed_status status = place_begin(s, p->roots.n);
  for (size_t i = 0; i < p->roots.n && status == REED_OK; i++) status = place_root(s, p->roots.items[i]);
  if (status == REED_OK) {
    const storage *arena = s->devices.items[0].arena;
    const void *data = arena && e->arenas[0].bytes ? arena->data : NULL;
    for (size_t i = 0; i < p->dead_writes.n; i++) {
      ref *r = reg_r(&s->run, p->dead_writes.items[i]);
      if (r->kind != REF_EMPTY) ref_clear(&s->run.objects, r);
    }
    write_pointers(s, p, data);
    for (size_t i = 0; i < p->kept.n; i++) write_kept(s, e, &p->kept.items[i], data);
  }
  place_end(s);
  return status;
}

/* ---- running ---- */

reed_status replay_run(reed_session *s, uint32_t *pc) {
  vm_run *run = &s->run;
  const replay *p = s->epoch.entry->replay;
  void *const *pointers = p->pointers.items;
  reed_kernel_buffers buffers = {.diagnosis = run->diagnosis, .fault = &run->fault};
  const replay_call *call = p->calls.items, *end = call + p->calls.n;
  for (; call < end; call++) {
    reed_status status = run_check_cancel(run);
    bool launched = status == REED_OK;
    if (launched) {
      if (++run->n_launched == run->cancel_at) claim_cancel(&s->claim);
      buffers.inputs = (const void *const *)(pointers + call->inputs);
      buffers.outputs = pointers + call->outputs;
      buffers.workspace = pointers[call->workspace];
      buffers.extents = pointers[call->extents];
      buffers.input_extents = call->input_extents ? (const int64_t *const *)(pointers + call->input_extents) : NULL;
      status = call->run(call->state, &buffers);
      if (status == REED_OK) continue;
    }
    run->profile.n_kernels += call - p->calls.items + launched;
    *pc = call->pc;
    const epoch_kernel *kernel = &s->epoch.entry->kernels.items[call - p->calls.items];
    return launched ? at_kernel(run, kernel->site, kernel->prepared, status) : status;
  }
  run->profile.n_kernels += (int64_t)p->calls.n;
  run->n_instructions += p->n_instructions;
  for (size_t i = 0; i < p->dead_keys.n; i++) ref_clear(&run->objects, reg_r(run, p->dead_keys.items[i]));
  *pc = p->end;
  return REED_OK;
}
