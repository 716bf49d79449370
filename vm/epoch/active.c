/* The open shape section: notes its written registers, scalars and host values in the epoch's entry. Planning the run
 * section: plan.c. */
#include "vm/epoch/active.h"

#include <string.h>

#include "base/desc.h"
#include "base/fetch.h"
#include "vm/bound.h"
#include "vm/epoch/variant_list.h"

reed_status active_begin(epoch_active *active, epoch_entry *e, const epoch_entry *base, const variant_places *places,
                         vm_run *run) {
  const module_function *function = frame_top(run)->function;
  size_t n_notes = (size_t)function->n_r + function->n_s;
  if (active->n_notes < n_notes) {
    active_note *grown = mem_resize(active->notes, n_notes, sizeof *grown);
    if (!grown) return diag_no_memory(run->diagnosis, "registers of an epoch");
    memset(grown + active->n_notes, 0, (n_notes - active->n_notes) * sizeof *grown);
    active->notes = grown;
    active->n_notes = n_notes;
  }
  size_t n_sites = run->program->module->n_sites;
  if (!active->twins && !(active->twins = mem_calloc(n_sites, sizeof *active->twins)))
    return diag_no_memory(run->diagnosis, "call sites of an epoch");
  if (++active->stamp == 0) {
    memset(active->notes, 0, active->n_notes * sizeof *active->notes);
    active->stamp = 1;
  }
  active->n_twins = n_sites;
  active->reports.n = 0;
  active_forget_twins(active);
  if (places && !VEC_RESERVE(&e->writes, places->writes.n))
    return diag_no_memory(run->diagnosis, "registers of an epoch");
  if (base && !places &&
      (!VEC_RESERVE(&e->writes, base->writes.n) || !VEC_RESERVE(&e->scalars, base->scalars.n) ||
       !VEC_RESERVE(&e->host_kernels, base->host_kernels.n)))
    return diag_no_memory(run->diagnosis, "registers of an epoch");
  active->n_r = function->n_r;
  active->entry = e;
  active->base = base;
  active->places = places;
  active->run = run;
  active->host_cursor = 0;
  active->n_repeated = 0;
  active->in_shape_section = true;
  active->value_chunk = NULL;
  active->value_used = 0;
  return REED_OK;
}

/* True if the register has the content that it had in the base. The register may lack its elements yet, which are
 * compared when they are written. Elements on an accelerator are those of constants. */
static bool same_content(const ref *now, const ref *before) {
  bool shaped = now->kind == REF_SHAPED && (before->kind == REF_SHAPED || before->kind == REF_STORED);
  if (!shaped && (now->kind != REF_STORED || before->kind != REF_STORED)) return false;
  if (now->bounded_axis != before->bounded_axis || now->counter != before->counter || now->factor != before->factor ||
      now->t.device != before->t.device || now->constant != before->constant || now->resident != before->resident ||
      !desc_equal(&now->t.desc, &before->t.desc))
    return false;
  if (shaped || now->constant || now->bytes == 0 || now->t.data == before->t.data) return true;
  return now->t.device == 0 && memcmp(now->t.data, before->t.data, (size_t)now->bytes) == 0;
}

/* The base's write with this number of the calls that are made; NULL: there are not so many. */
static const epoch_write *write_numbered(const epoch_active *active, size_t n) {
  const variant_places *p = active->places;
  if (n >= (p ? p->writes.n : active->base->writes.n)) return NULL;
  return &active->base->writes.items[p ? p->writes.items[n].write : n];
}

/* The base's write with this number, if it is of the register; else the base is dropped. */
static const epoch_write *base_write(epoch_active *active, int32_t write, uint32_t reg) {
  if (!active->base) return NULL;
  const epoch_write *before = write_numbered(active, (size_t)write);
  if (before && before->reg == reg) return before;
  active->base = NULL;
  return NULL;
}

static reed_status push_write(epoch_active *active, uint32_t reg, bool changed, reed_diagnosis *diagnosis) {
  epoch_entry *e = active->entry;
  active->notes[reg] = (active_note){.stamp = active->stamp, .write = (int32_t)e->writes.n, .changed = changed};
  if (!VEC_ROOM(&e->writes)) return diag_no_memory(diagnosis, "registers of an epoch");
  epoch_write *write = &e->writes.items[e->writes.n++];
  write->reg = reg;
  write->root = write->extent_root = -1;
  write->at = write->extent_index = 0;
  write->bound = 0;
  write->value.t.storage = write->value.extent_storage = NULL; /* epoch.plan copies the register's content */
  write->value.object = NULL;
  return REED_OK;
}

enum { FETCHED_AHEAD = 3 }; /* writes */

/* Fetches a write of the base that comes soon into the CPU's caches. */
static void fetch_write(const epoch_active *active, size_t number) {
  const epoch_write *soon = active->base ? write_numbered(active, number) : NULL;
  if (soon) fetch_bytes(soon, sizeof *soon);
}

reed_status active_note_write(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) {
  if (active_wrote(active, reg)) {
    /* The notes have one content for each register. */
    active->entry->rewritten = true;
    active->base = NULL;
    return REED_OK;
  }
  fetch_write(active, active->entry->writes.n + FETCHED_AHEAD);
  const epoch_write *before = base_write(active, (int32_t)active->entry->writes.n, reg);
  return push_write(active, reg, !before || !same_content(reg_r(active->run, reg), &before->value), diagnosis);
}

reed_status active_note_twin(epoch_active *active, uint32_t reg, uint32_t twin, reed_diagnosis *diagnosis) {
  return push_write(active, reg, active->notes[twin].changed, diagnosis);
}

void active_note_elements(epoch_active *active, uint32_t reg) {
  active_note *note = &active->notes[reg];
  const epoch_write *before = base_write(active, note->write, reg);
  note->changed = !before || !same_content(reg_r(active->run, reg), &before->value);
}

void active_forget_twins(epoch_active *active) {
  if (++active->twin_stamp) return;
  memset(active->twins, 0, active->n_twins * sizeof *active->twins);
  active->twin_stamp = 1;
}

reed_status active_repeat_shape(epoch_active *active, const insn_shape *i, bool *out_repeated) {
  *out_repeated = false;
  if (!active->base || active_any_changed(active, i->inputs, i->n_inputs)) return REED_OK;
  size_t first = active->entry->writes.n, n = 0;
  for (uint32_t k = 0; k < i->n_outputs; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    const epoch_write *before = write_numbered(active, first + n++);
    if (!before || active_wrote(active, i->outputs[k])) return REED_OK;
    /* The results are this call's, so they do not come from another path of the shape section. */
    if (before->reg != i->outputs[k] || before->value.shaped_by != i->site + 1 || before->value.shaped_as != k)
      return REED_OK;
  }
  for (size_t k = first; k < first + n; k++) {
    const epoch_write *before = write_numbered(active, k);
    ref_assign(&active->run->objects, reg_r(active->run, before->reg), &before->value);
    reed_status status = push_write(active, before->reg, false, active->run->diagnosis);
    if (status != REED_OK) return status;
  }
  active->n_repeated++;
  *out_repeated = true;
  return REED_OK;
}

reed_status active_find_report(epoch_active *active, const uint32_t *w, int32_t axis, uint32_t *out_counter) {
  const insn_shape i = insn_shape_at(w);
  *out_counter =
      active->entry->rewritten ? 0 : bound_counter_of(active->run, &i, axis, active->reports.items, active->reports.n);
  return VEC_PUSH(&active->reports, (uint32_t)(w - run_code(active->run)))
             ? REED_OK
             : diag_no_memory(active->run->diagnosis, "counts of an epoch");
}

reed_status active_repeat_invoke(epoch_active *active, const insn_invoke *i, bool *out_repeated) {
  *out_repeated = false;
  if (!active->base || active_any_changed(active, i->inputs, i->n_inputs) ||
      active_any_changed(active, i->outputs, i->n_outputs))
    return REED_OK;
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT &&
        (!active_wrote(active, i->outputs[k]) || reg_r(active->run, i->outputs[k])->kind != REF_STORED))
      return REED_OK;
  const epoch_entry *base = active->base;
  if (!active->places && active->host_cursor < base->host_kernels.n &&
      base->host_kernels.items[active->host_cursor]->family == active->run->program->families[i->site]) {
    site_kernel *kernel = base->host_kernels.items[active->host_cursor++];
    if (!VEC_PUSH(&active->entry->host_kernels, kernel))
      return diag_no_memory(active->run->diagnosis, "registers of an epoch");
    site_retain(kernel);
  }
  *out_repeated = true;
  return REED_OK;
}

reed_status active_note_scalar(epoch_active *active, uint32_t reg, reed_diagnosis *diagnosis) {
  uint32_t *stamp = &active->notes[active->n_r + reg].stamp;
  if (*stamp == active->stamp) return REED_OK;
  *stamp = active->stamp;
  return VEC_PUSH(&active->entry->scalars, ((epoch_scalar){.reg = reg}))
             ? REED_OK
             : diag_no_memory(diagnosis, "registers of an epoch");
}

static void value_release(storage *block) {
  mem_free_aligned(block->data);
  mem_free(block);
}

reed_status active_value_memory(epoch_active *active, int64_t bytes, void **out_data, storage **out_storage,
                                reed_diagnosis *diagnosis) {
  int64_t need = (bytes + 63) & ~(int64_t)63;
  if (!active->value_chunk || active->value_used + need > active->value_chunk->bytes) {
    int64_t chunk_bytes = need > 2048 ? need : 2048;
    storage *chunk = mem_alloc(sizeof *chunk);
    void *data = chunk ? mem_alloc_aligned((size_t)chunk_bytes, 64) : NULL;
    if (!data || !VEC_PUSH(&active->entry->values, chunk)) {
      mem_free_aligned(data);
      mem_free(chunk);
      return diag_no_memory(diagnosis, "host values of an epoch");
    }
    *chunk = (storage){.n_references = 1, .device = 0, .data = data, .bytes = chunk_bytes, .release = value_release};
    active->value_chunk = chunk;
    active->value_used = 0;
  }
  *out_data = (char *)active->value_chunk->data + active->value_used;
  active->value_used += need;
  storage_retain(active->value_chunk);
  storage_release(*out_storage);
  *out_storage = active->value_chunk;
  return REED_OK;
}

void active_end_shapes(epoch_active *active) {
  active->in_shape_section = false;
  active->value_chunk = NULL;
}

void active_fini(epoch_active *active) {
  mem_free(active->notes);
  mem_free(active->twins);
  VEC_FREE(&active->key);
  VEC_FREE(&active->variant_writes);
  VEC_FREE(&active->root_storages);
  VEC_FREE(&active->reports);
}
