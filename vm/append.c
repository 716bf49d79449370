/* Deciding which caches grow in place, and moving the marks and versions of their memory (append.h, history.h). */
#include "vm/append.h"

#include "base/mem.h"
#include "base/strides.h"
#include "vm/history.h"

/* The mark is the root's: memory that was bound may itself be a tensor over bound memory. */

/* Takes the mark if it says that `rows` rows are written, or if it says nothing yet. */
static bool hold_mark(reed_tensor *memory, int64_t rows, int64_t *out_before) {
  int64_t known = TENSOR_ROWS(rows), unknown = TENSOR_ROWS_UNKNOWN;
  reed_tensor *t = tensor_root(memory);
  *out_before = known;
  return __atomic_compare_exchange_n(&t->written, &known, TENSOR_ROWS_HELD, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED) ||
         __atomic_compare_exchange_n(&t->written, &unknown, TENSOR_ROWS_HELD, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

/* Takes the mark of memory that is written from the first row on. False: a tensor of an earlier run lies there, or
 * another run holds the mark. */
static bool hold_all(reed_tensor *memory) {
  reed_tensor *t = tensor_root(memory);
  if (__atomic_load_n(&t->n_views, __ATOMIC_ACQUIRE) > 0) return false;
  return __atomic_exchange_n(&t->written, TENSOR_ROWS_HELD, __ATOMIC_ACQ_REL) != TENSOR_ROWS_HELD;
}

/* Takes the mark of memory in which rows of the past are overwritten: the past has the memory's present elements, and
 * no other open tensor has them. */
static bool hold_version(reed_tensor *memory, const reed_tensor *past, int64_t *out_before) {
  reed_tensor *t = tensor_root(memory);
  *out_before = __atomic_exchange_n(&t->written, TENSOR_ROWS_HELD, __ATOMIC_ACQ_REL);
  if (*out_before == TENSOR_ROWS_HELD) return false;
  if (history_is_only_view(t, past)) return true;
  __atomic_store_n(&t->written, *out_before, __ATOMIC_RELEASE);
  return false;
}

static void set_mark(reed_tensor *memory, int64_t mark) {
  __atomic_store_n(&tensor_root(memory)->written, mark, __ATOMIC_RELEASE);
}

/* ---- the beginning of a run ---- */

/* True if the kernel that joins the rows reads and writes strides, and no instruction needs the past's elements on the
 * host instead. A kernel that overwrites rows must save them. */
static bool reads_strides(const reed_session *s, const model_cache *c) {
  int32_t device = s->devices.bind[c->device];
  const vm_device *d = &s->devices.items[device];
  const reed_op *op = s->program->site_ops[c->site];
  const reed_kernel_prepare_fn kernel = d->on->kernel(d->device, op);
  return (device == 0 || !s->program->residence.inputs[c->input].reads) &&
         (kernel == kernel_cpu(op) || (kernel && d->on->writes_rooms && (d->on->overwrites || !c->growth.overwrites)));
}

static bool is_there(const reed_session *s, const model_cache *c, const reed_tensor *past) {
  return devices_find(&s->devices, past->on) == s->devices.bind[c->device];
}

/* True if the past is empty, or lies in the (dense) memory as the first of its rows. */
static bool lies_in(const reed_tensor *past, const reed_tensor *memory) {
  bool same = past->on == memory->on && past->data == memory->data;
  for (int32_t i = 0; i < past->desc.rank; i++)
    same = same && (past->desc.dims[i] == 1 || past->strides[i] == memory->strides[i]);
  return same || past->elements == 0;
}

/* True if the past with new rows may be written into the bound memory by the call that joins them. */
static bool may_grow(const reed_session *s, const model_cache *c, const output_destination *w,
                     const reed_tensor *past) {
  const reed_desc *have = &past->desc, *memory = &w->memory->desc;
  int32_t axis = growth_axis(&c->growth, have->rank);
  if (axis < 0 || !w->memory->dense || have->rank != memory->rank || have->dtype != memory->dtype ||
      memory->dims[axis] == 0)
    return false;
  if (w->room_axis != axis && !(c->growth.overwrites && binding_holds(w, have))) return false;
  for (int32_t i = 0; i < have->rank; i++)
    if (i == axis ? have->dims[i] > memory->dims[i] : have->dims[i] != memory->dims[i]) return false;
  return w->device == s->devices.bind[c->device] && reads_strides(s, c) && lies_in(past, w->memory);
}

static void decide(const reed_session *s, const model_cache *c, output_destination *w, const reed_tensor *past) {
  if (w->held) return; /* a cache of several inputs: the first one decided */
  bool fits = may_grow(s, c, w, past);
  int64_t rows = fits ? past->desc.dims[growth_axis(&c->growth, past->desc.rank)] : 0;
  w->overwrites = c->growth.overwrites;
  if (rows > 0) {
    w->held = w->grows = w->has_rows =
        w->overwrites ? hold_version(w->memory, past, &w->mark_before) : hold_mark(w->memory, rows, &w->mark_before);
    w->aside = !w->held;
  } else if (tensor_overlap(w->memory, past) || !hold_all(w->memory)) {
    w->aside = true;
  } else {
    w->held = true;
    w->grows = fits;
    w->has_rows = false;
    w->mark_before = TENSOR_ROWS(0);
  }
  w->grown_input = c->input;
}

void append_begin(reed_session *s, reed_tensor *const *inputs) {
  const model_caches *caches = &s->program->caches;
  s->run.rooms = false;
  s->devices.overwritten.n_bytes = 0;
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    w->held = w->grows = w->grown = w->aside = w->overwrites = w->saves = false;
  }
  for (size_t i = 0; s->bindings.any_bound && i < caches->items.n; i++) {
    const model_cache *c = &caches->items.items[i];
    output_destination *w = &s->bindings.outputs[c->output];
    if (w->memory) decide(s, c, w, inputs[c->input]);
  }
}

bool append_decides(const reed_program *program, size_t input, size_t output) {
  const model_caches *caches = &program->caches;
  for (size_t i = 0; i < caches->items.n; i++)
    if (caches->items.items[i].input == input && caches->items.items[i].output == output) return true;
  return false;
}

/* True if the run may write the cache's output after the past in bound memory. */
static bool grows_here(const reed_session *s, const model_cache *c) {
  const output_destination *w = &s->bindings.outputs[c->output];
  return w->memory && w->grows && w->grown_input == c->input;
}

/* True if the cache's input has room, and the call that joins its rows reads it where it lies. */
static bool stays_strided(const reed_session *s, const model_cache *c, const reed_tensor *given, int64_t *out_room) {
  int32_t axis = growth_axis(&c->growth, given->desc.rank);
  return !given->dense && axis >= 0 && is_there(s, c, given) && reads_strides(s, c) &&
         strides_have_room(&given->desc, given->strides, axis, out_room);
}

/* The first cache of the input, whose caches follow each other; their end is where another input's begin. */
static size_t first_of_input(const model_caches *caches, uint32_t input) {
  size_t i = 0;
  while (i < caches->items.n && caches->items.items[i].input < input) i++;
  return i;
}

bool append_take(reed_session *s, uint32_t input, const reed_tensor *given, ref *r) {
  const model_caches *caches = &s->program->caches;
  const model_cache *grown = NULL, *strided = NULL; /* of the input: the first cache of each kind */
  int64_t room = 0;
  for (size_t i = first_of_input(caches, input); i < caches->items.n && !grown; i++) {
    const model_cache *c = &caches->items.items[i];
    if (c->input != input) break;
    if (grows_here(s, c)) grown = c;
    else if (!strided && stays_strided(s, c, given, &room)) strided = c;
  }
  const model_cache *c = grown ? grown : strided;
  if (!c) return false;
  const reed_tensor *memory = grown ? s->bindings.outputs[c->output].memory : NULL;
  int32_t axis = growth_axis(&c->growth, given->desc.rank);
  *r = (ref){.kind = REF_STORED,
             .bounded_axis = -1,
             .t = {.desc = given->desc,
                   .device = s->devices.bind[c->device],
                   .data = memory ? memory->data : given->data,
                   .room = memory ? memory->desc.dims[axis] : room,
                   .room_axis = axis,
                   .cache = memory ? c->output + 1 : 0},
             .bytes = given->bytes};
  s->run.rooms = true;
  return true;
}

/* ---- older versions of memory whose rows are overwritten (history.h) ---- */

reed_status append_restore(reed_session *s, reed_tensor *const *inputs, size_t n_inputs,
                           reed_tensor *const **out_inputs) {
  reed_tensor **list = NULL;
  *out_inputs = inputs;
  for (size_t i = 0; i < n_inputs; i++) {
    reed_tensor *past;
    reed_status status = history_past(inputs[i], &past, s->run.diagnosis);
    if (status == REED_OK && past && !list) {
      list = mem_calloc(n_inputs, sizeof *list);
      for (size_t k = 0; list && k < n_inputs; k++) list[k] = reed_tensor_retain(inputs[k]);
      if (list) *out_inputs = list;
      else status = diag_no_memory(s->run.diagnosis, "a cache");
    }
    if (past && list) {
      reed_tensor_close(&list[i]);
      list[i] = past;
    } else reed_tensor_close(&past);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

void append_drop(reed_tensor *const *given, size_t n_inputs, reed_tensor *const **inputs) {
  if (*inputs == given) return;
  reed_tensor **list = (reed_tensor **)*inputs;
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&list[i]);
  mem_free(list);
  *inputs = given;
}

/* The output in whose memory the record's rows were overwritten; NULL: none. */
static output_destination *overwritten_in(const reed_session *s, const overwritten *o) {
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (w->memory && w->held && w->overwrites && w->grows && w->memory->data == o->memory) return w;
  }
  return NULL;
}

/* Memory of the output's device where a kernel may save rows: the memory of the last run, unless it is too small, or a
 * step of the history has it. */
static reed_status memory_for_rows(reed_session *s, output_destination *w, int64_t bytes) {
  const reed_desc desc = {.dtype = REED_U8, .rank = 1, .dims = {bytes}}, count = {.dtype = REED_I64, .rank = 0};
  if (w->saved && w->saved->bytes >= bytes && __atomic_load_n(&w->saved->n_references, __ATOMIC_ACQUIRE) == 1)
    return REED_OK;
  reed_tensor_close(&w->saved);
  w->n_saves = 0;
  reed_status status = devices_open_output(&s->devices, w->device, &desc, &w->saved, s->run.diagnosis);
  if (status != REED_OK) return status;
  /* The copy is enqueued behind the memory's poisoning and in front of the kernel, and nobody waits for it here: a
   * failure of the kernels before it is reported as theirs. */
  const tensor target = {.desc = count, .device = w->device, .data = w->saved->data};
  status = device_copy_in(&s->devices.items[w->device], &target, &w->n_saves, desc_bytes(&count), NULL, true, NULL,
                          s->run.diagnosis);
  if (status != REED_OK) reed_tensor_close(&w->saved);
  return status;
}

reed_status append_save(reed_session *s, int32_t device, const reed_kernel *kernel, reed_kernel_buffers *buffers) {
  const device_interface *on = s->devices.items[device].on;
  const overwritten *rows = s->bindings.any_bound && device && on->overwrites ? on->overwrites(kernel) : NULL;
  for (size_t i = 0; rows && buffers->inputs[0] == buffers->outputs[0] && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (!w->memory || !w->grows || !w->overwrites || w->memory->data != buffers->outputs[0]) continue;
    reed_status status = memory_for_rows(s, w, overwritten_saved_bytes(rows));
    if (status != REED_OK) return status;
    w->rows = *rows;
    w->rows.memory = w->memory->data;
    w->saves = true;
    buffers->workspace = w->saved->data;
    break;
  }
  return REED_OK;
}

reed_status append_keep(reed_session *s) {
  const overwritten_log *log = &s->devices.overwritten;
  for (int64_t at = 0; at < log->n_bytes;) {
    const overwritten *o = (const overwritten *)(log->records + at);
    output_destination *w = overwritten_in(s, o);
    if (w && !w->step && !(w->step = history_step_of(o))) return diag_no_memory(s->run.diagnosis, "a cache");
    at += o->n_bytes;
  }
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (!w->memory || !w->grows || !w->overwrites || w->step) continue;
    w->step = w->saves ? history_step_on(&w->rows, w->saved) : history_step_of(NULL);
    if (!w->step) return diag_no_memory(s->run.diagnosis, "a cache");
  }
  return REED_OK;
}

/* Puts the rows back that the run's kernel has saved on the device, if it has run: the launch may have waited for its
 * graph when the run failed. */
static void put_back_saved(const reed_session *s, output_destination *w) {
  overwritten *rows = NULL;
  int64_t n_saves;
  if (history_fetch(&w->rows, w->saved, &rows, &n_saves, s->run.diagnosis) == REED_OK) {
    if (n_saves != w->n_saves) (void)!history_put_back(rows, w->memory, s->run.diagnosis);
    w->n_saves = n_saves;
  } else reed_tensor_close(&w->saved);
  mem_free(rows);
}

/* The new version of each output that has one; rows that no output has taken are put back. */
static void settle_versions(reed_session *s, bool succeeded, reed_tensor *const *outputs) {
  const overwritten_log *log = &s->devices.overwritten;
  for (int64_t at = 0; at < log->n_bytes;) {
    const overwritten *o = (const overwritten *)(log->records + at);
    const output_destination *w = overwritten_in(s, o);
    if (w && !(succeeded && w->grown)) (void)!history_put_back(o, w->memory, s->run.diagnosis);
    at += o->n_bytes;
  }
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (w->saves && succeeded && w->grown) w->n_saves++;
    else if (w->saves) put_back_saved(s, w);
    if (succeeded && w->step && w->grown) history_add(tensor_root(w->memory), outputs[i], w->step);
    else history_step_free(w->step);
    w->step = NULL;
  }
}

/* ---- the end of a run ---- */

/* Of two caches of one input. */
static bool same_call(const model_cache *a, const model_cache *b) {
  return a->site == b->site && a->growth.output == b->growth.output;
}

/* True if item i is of a cache that an item before it stands for: another output of the same call, or another call that
 * joins rows to the past for the same output, as in the branches of an If. */
static bool is_counted(const model_caches *caches, size_t i) {
  const model_cache *items = caches->items.items, *c = &items[i];
  for (size_t k = i; k > 0 && items[k - 1].input == c->input; k--)
    if (items[k - 1].output == c->output || same_call(&items[k - 1], c)) return true;
  return false;
}

/* Counts the caches of the run: a cache that has grown in place as none of its outputs was copied. One whose output has
 * another past in this run was not run. */
static void count(reed_session *s, reed_tensor *const *inputs) {
  const model_caches *caches = &s->program->caches;
  profile_caches *figures = &s->run.profile.caches;
  for (size_t i = 0; i < caches->items.n; i++) {
    const model_cache *c = &caches->items.items[i];
    if (is_counted(caches, i)) continue;
    bool grown = false, runs = true;
    for (size_t k = i; k < caches->items.n && caches->items.items[k].input == c->input; k++) {
      if (!same_call(c, &caches->items.items[k])) continue;
      const output_destination *w = &s->bindings.outputs[caches->items.items[k].output];
      const bool own = w->grown_input == c->input;
      grown |= w->memory && w->grown && own;
      runs &= !w->memory || !w->held || own;
    }
    if (!runs) continue;
    *(grown ? &figures->n_in_place : &figures->n_copied) += 1;
    *(grown ? &figures->in_place_bytes : &figures->copied_bytes) += inputs[c->input]->bytes;
  }
}

void append_end(reed_session *s, bool succeeded, reed_tensor *const *inputs, reed_tensor *const *outputs) {
  settle_versions(s, succeeded, outputs);
  if (succeeded && s->program->caches.items.n) count(s, inputs);
  for (size_t i = 0; s->bindings.any_bound && i < s->bindings.n; i++) {
    output_destination *w = &s->bindings.outputs[i];
    if (!w->memory) continue;
    if (succeeded && w->room_axis >= 0 && !w->aside)
      set_mark(w->memory, TENSOR_ROWS(outputs[i]->desc.dims[w->room_axis]));
    else if (w->held) set_mark(w->memory, w->mark_before);
    w->held = false;
  }
}
