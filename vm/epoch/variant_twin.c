/* Finding and using twins (variant_twin.h). */
#include "vm/epoch/variant_twin.h"

#include "base/desc.h"
#include "ops/call.h"

/* ---- finding ---- */

static bool same_attrs(const reed_attrs *a, const reed_attrs *b) {
  bool same = a->n == b->n;
  for (int32_t k = 0; same && k < a->n; k++) same = attr_equal(&a->items[k], &b->items[k]);
  return same;
}

static bool same_operators(const vm_run *run, uint32_t a, uint32_t b) {
  const reed_program *p = run->program;
  return p->site_ops[a] == p->site_ops[b] && !p->site_ops[a]->impure &&
         same_attrs(&p->site_attrs[a], &p->site_attrs[b]);
}

/* Operands that are absent are absent in both calls, and elements that the operator reads are those of one register. */
static bool same_operands(const vm_run *run, uint32_t site, const uint32_t *a, const uint32_t *b, uint32_t n) {
  const reed_program *p = run->program;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t x = INSN_REGISTER(a[k]), y = INSN_REGISTER(b[k]);
    if ((x == MODULE_ABSENT) != (y == MODULE_ABSENT)) return false;
    if (x != y && op_reads_value(p->site_ops[site], &p->site_attrs[site], (int32_t)k)) return false;
  }
  return true;
}

static bool same_absent(const uint32_t *a, const uint32_t *b, uint32_t n) {
  bool same = true;
  for (uint32_t k = 0; same && k < n; k++) same = (a[k] == MODULE_ABSENT) == (b[k] == MODULE_ABSENT);
  return same;
}

static const uint32_t *code_of(const vm_run *run) {
  return run->program->module->code + frame_top(run)->function->code_offset;
}

int32_t twin_of_shape(const vm_run *run, const variant_places *places, const insn_shape *i) {
  for (size_t n = 0; n < places->shapes.n; n++) {
    const uint32_t *w = code_of(run) + places->shapes.items[n].pc;
    if (insn_id_at(w) != INSN_SHAPE || places->shapes.items[n].twin >= 0) continue;
    const insn_shape other = insn_shape_at(w);
    if (i->device == other.device && i->n_inputs == other.n_inputs && i->n_outputs == other.n_outputs &&
        same_operators(run, i->site, other.site) && same_operands(run, i->site, i->inputs, other.inputs, i->n_inputs) &&
        same_absent(i->outputs, other.outputs, i->n_outputs))
      return (int32_t)n;
  }
  return -1;
}

int32_t twin_of_kernel(const vm_run *run, const variant_places *places, const insn_invoke *i) {
  for (size_t n = 0; n < places->calls.n; n++) {
    if (places->calls.items[n].twin >= 0) continue;
    const insn_invoke other = insn_invoke_at(code_of(run) + places->calls.items[n].pc);
    if (i->device == other.device && i->n_inputs == other.n_inputs && i->n_outputs == other.n_outputs &&
        same_operators(run, i->site, other.site) && same_operands(run, i->site, i->inputs, other.inputs, i->n_inputs) &&
        same_absent(i->outputs, other.outputs, i->n_outputs))
      return (int32_t)n;
  }
  return -1;
}

/* ---- using ---- */

static bool alike(const ref *a, const ref *b) {
  bool known = (a->kind == REF_SHAPED || a->kind == REF_STORED) && (b->kind == REF_SHAPED || b->kind == REF_STORED);
  return known && a->bounded_axis < 0 && b->bounded_axis < 0 && desc_equal(&a->t.desc, &b->t.desc);
}

bool twin_repeat_shape(reed_session *s, const uint32_t *w, const uint32_t *twin) {
  const insn_shape i = insn_shape_at(w), other = insn_shape_at(twin);
  for (uint32_t k = 0; k < i.n_inputs; k++) {
    uint32_t a = INSN_REGISTER(i.inputs[k]), b = INSN_REGISTER(other.inputs[k]);
    if (a != b && !alike(reg_r(&s->run, a), reg_r(&s->run, b))) return false;
  }
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (i.outputs[k] == MODULE_ABSENT) continue;
    ref *r = reg_r(&s->run, i.outputs[k]);
    const ref *from = reg_r(&s->run, other.outputs[k]);
    if (!ref_set_shaped(&s->run.objects, r, &from->t.desc, from->t.device, -1)) return false;
    r->shaped_by = i.site + 1;
    r->shaped_as = (uint16_t)k & 0x3ff;
    if (active_note_write(&s->epoch, i.outputs[k], s->run.diagnosis) != REED_OK) return false;
  }
  return true;
}

/* A kernel may hold the address of a constant. No entry with rooms has variants. */
static bool fit_alike(const ref *a, const ref *b) { return alike(a, b) && a->constant == b->constant; }

bool twin_has_kernel(const vm_run *run, const insn_invoke *i, const insn_invoke *twin) {
  for (uint32_t k = 0; k < i->n_inputs; k++)
    if (i->inputs[k] != twin->inputs[k] && !fit_alike(reg_r(run, i->inputs[k]), reg_r(run, twin->inputs[k])))
      return false;
  for (uint32_t k = 0; k < i->n_outputs; k++)
    if (i->outputs[k] != MODULE_ABSENT && !fit_alike(reg_r(run, i->outputs[k]), reg_r(run, twin->outputs[k])))
      return false;
  return true;
}
