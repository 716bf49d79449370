/* Finding and using twins (twin.h). */
#include "vm/epoch/twin.h"

#include <string.h>

#include "base/desc.h"
#include "ops/call.h"
#include "vm/family.h"

enum { MOST_VALUE_BYTES = 256 }; /* elements of other registers are compared up to this size */

static bool same_absent(const uint32_t *a, const uint32_t *b, uint32_t n) {
  bool same = true;
  for (uint32_t k = 0; same && k < n; k++)
    same = (INSN_REGISTER(a[k]) == MODULE_ABSENT) == (INSN_REGISTER(b[k]) == MODULE_ABSENT);
  return same;
}

static bool alike(const ref *a, const ref *b) {
  bool known = (a->kind == REF_SHAPED || a->kind == REF_STORED) && (b->kind == REF_SHAPED || b->kind == REF_STORED);
  return known && a->bounded_axis < 0 && b->bounded_axis < 0 && desc_equal(&a->t.desc, &b->t.desc);
}

/* ---- shape functions ----
 * A register that a call has read or written still has the content of that call: the section writes no register twice,
 * and the call's inputs are older than its outputs. */

/* True if the registers have equal elements for a shape function; their descriptors are equal. */
static bool same_elements(const ref *a, const ref *b) {
  if (a->constant && a->constant == b->constant) return true;
  return a->kind == REF_STORED && b->kind == REF_STORED && a->t.device == 0 && b->t.device == 0 &&
         a->bytes <= MOST_VALUE_BYTES && (a->bytes == 0 || memcmp(a->t.data, b->t.data, (size_t)a->bytes) == 0);
}

/* Numbers that differ tell that the extents of two calls' inputs do. */
static uint32_t mark_of(const vm_run *run, const insn_shape *i) {
  uint64_t mark = i->n_inputs;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    uint32_t reg = INSN_REGISTER(i->inputs[k]);
    if (reg == MODULE_ABSENT) continue;
    const reed_desc *desc = &reg_r(run, reg)->t.desc;
    for (int32_t d = 0; d < desc->rank; d++) mark = (mark + (uint64_t)desc->dims[d]) * 0x9e3779b97f4a7c15u;
  }
  return (uint32_t)(mark >> 32);
}

static bool is_older(const epoch_active *active, uint32_t input, uint32_t output) {
  return !active_wrote(active, input) || active->notes[input].write < active->notes[output].write;
}

/* True if the call has the results of `other`, which the section has executed. */
static bool is_twin(const reed_session *s, const insn_shape *i, const insn_shape *other) {
  if (i->device != other->device || i->n_inputs != other->n_inputs || i->n_outputs != other->n_outputs ||
      i->outputs[0] == MODULE_ABSENT || !same_absent(i->inputs, other->inputs, i->n_inputs) ||
      !same_absent(i->outputs, other->outputs, i->n_outputs))
    return false;
  const reed_program *p = s->run.program;
  for (uint32_t k = 0; k < i->n_inputs; k++) {
    uint32_t a = INSN_REGISTER(i->inputs[k]), b = INSN_REGISTER(other->inputs[k]);
    if (b == MODULE_ABSENT) continue;
    const ref *now = reg_r(&s->run, a), *then = reg_r(&s->run, b);
    if (!is_older(&s->epoch, b, other->outputs[0]) || !alike(now, then)) return false;
    if (a != b && op_reads_value(p->site_ops[i->site], &p->site_attrs[i->site], (int32_t)k) &&
        !same_elements(now, then))
      return false;
  }
  return true;
}

/* Gives the call's outputs the extents of its twin's. */
static reed_status take_shapes(reed_session *s, const insn_shape *i, const insn_shape *twin) {
  reed_status status = REED_OK;
  for (uint32_t k = 0; k < i->n_outputs && status == REED_OK; k++) {
    if (i->outputs[k] == MODULE_ABSENT) continue;
    ref *r = reg_r(&s->run, i->outputs[k]);
    const ref *from = reg_r(&s->run, twin->outputs[k]);
    if (!ref_set_shaped(&s->run.objects, r, &from->t.desc, from->t.device, from->bounded_axis))
      return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "output %u is larger than any memory", k);
    r->shaped_by = i->site + 1;
    r->shaped_as = (uint16_t)k & 0x3ff;
    if (r->bounded_axis >= 0) r->counter = i->outputs[k] + 1, r->factor = 1;
    status = active_note_write(&s->epoch, i->outputs[k], s->run.diagnosis);
  }
  return status;
}

reed_status twin_repeat_shape(reed_session *s, const uint32_t *w, bool *out_repeated) {
  const insn_shape i = insn_shape_at(w);
  epoch_active *active = &s->epoch;
  uint32_t family = s->run.program->families[i.site];
  *out_repeated = false;
  if (family & FAMILY_OF_ONE) return REED_OK;
  const active_twins *last = &active->twins[family];
  active->twin_mark = mark_of(&s->run, &i);
  if (last->stamp != active->twin_stamp || active->entry->rewritten ||
      !s->run.program->module->epochs_shaped[active->entry->epoch])
    return REED_OK;
  for (uint32_t n = 0; n < last->n; n++) {
    if (last->marks[n] != active->twin_mark) continue;
    const insn_shape other = insn_shape_at(run_code(&s->run) + last->calls[n]);
    if (!is_twin(s, &i, &other)) continue;
    *out_repeated = true;
    return take_shapes(s, &i, &other);
  }
  return REED_OK;
}

void twin_note_shape(reed_session *s, const uint32_t *w) {
  epoch_active *active = &s->epoch;
  uint32_t family = s->run.program->families[insn_shape_at(w).site];
  if (family & FAMILY_OF_ONE) return;
  active_twins *last = &active->twins[family];
  if (last->stamp != active->twin_stamp) *last = (active_twins){.stamp = active->twin_stamp};
  if (last->n < ACTIVE_TWINS) last->n++;
  for (uint32_t n = last->n - 1; n > 0; n--) {
    last->marks[n] = last->marks[n - 1];
    last->calls[n] = last->calls[n - 1];
  }
  last->marks[0] = active->twin_mark;
  last->calls[0] = (uint32_t)(w - run_code(&s->run));
}

/* ---- kernels of variants ---- */

/* Elements that the operator reads are those of one register. */
static bool same_values(const vm_run *run, uint32_t site, const uint32_t *a, const uint32_t *b, uint32_t n) {
  const reed_program *p = run->program;
  for (uint32_t k = 0; k < n; k++)
    if (a[k] != b[k] && op_reads_value(p->site_ops[site], &p->site_attrs[site], (int32_t)k)) return false;
  return true;
}

int32_t twin_of_kernel(const vm_run *run, const variant_places *places, const insn_invoke *i) {
  const uint32_t *families = run->program->families;
  for (size_t n = 0; n < places->calls.n; n++) {
    if (places->calls.items[n].twin >= 0) continue;
    const insn_invoke other = insn_invoke_at(run_code(run) + places->calls.items[n].pc);
    if (families[i->site] == families[other.site] && i->device == other.device && i->n_inputs == other.n_inputs &&
        i->n_outputs == other.n_outputs && same_absent(i->inputs, other.inputs, i->n_inputs) &&
        same_absent(i->outputs, other.outputs, i->n_outputs) &&
        same_values(run, i->site, i->inputs, other.inputs, i->n_inputs))
      return (int32_t)n;
  }
  return -1;
}

/* A kernel may hold the address of a constant, and depends on its operands' rooms. */
static bool fit_alike(const ref *a, const ref *b) {
  bool same_room = a->t.room == b->t.room && (!a->t.room || a->t.room_axis == b->t.room_axis);
  return alike(a, b) && a->constant == b->constant && same_room;
}

bool twin_has_kernel(const vm_run *run, const insn_invoke *i, const insn_invoke *twin) {
  for (uint32_t k = 0; k < i->n_inputs; k++)
    if (i->inputs[k] != twin->inputs[k] && !fit_alike(reg_r(run, i->inputs[k]), reg_r(run, twin->inputs[k])))
      return false;
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT && !fit_alike(reg_r(run, i->outputs[k]), reg_r(run, twin->outputs[k])))
      return false;
  return true;
}
