/* Reading the facts of a program's sites (facts.h). */
#include "ops/facts.h"

#include <stddef.h>
#include <string.h>

#include "base/desc.h"
#include "base/mem.h"
#include "ops/properties.h"

/* ---- Conv ---- */

/* Reads attribute `name` of n ints; an absent one has the row's number for each axis. False: another length. */
static bool read_ints(const reed_op *op, const reed_attrs *attrs, const char *name, int64_t n, int64_t *out) {
  int64_t n_given;
  const int64_t *given = reed_attrs_ints(attrs, name, &n_given);
  for (int64_t i = 0; i < n; i++) out[i] = given && n_given == n ? given[i] : op_attr_each(op, name);
  return !given || n_given == n;
}

/* True unless the attribute kernel_shape says otherwise than the weights. */
static bool has_kernel(const reed_attrs *attrs, const reed_desc *plain) {
  int64_t n = 0;
  if (!reed_attrs_find(attrs, "kernel_shape")) return true;
  const int64_t *given = reed_attrs_ints(attrs, "kernel_shape", &n);
  return given && n == plain->rank - 2 && memcmp(given, &plain->dims[2], (size_t)n * sizeof *given) == 0;
}

static bool read_conv(const reed_op *op, const reed_attrs *attrs, op_conv_facts *f) {
  int64_t n;
  const int64_t *dims = reed_attrs_ints(attrs, PACKED_ATTR, &n);
  if (!dims || n < 3 || n > REED_MAX_RANK) return false;
  reed_desc plain = {.dtype = packed_has_pairs(op, attrs) ? REED_BF16 : REED_F32, .rank = (int32_t)n};
  memcpy(plain.dims, dims, (size_t)n * sizeof *dims);
  f->n_axes = plain.rank - 2;
  f->group = op_attr_int(attrs, "group");
  for (int32_t i = 0; i < plain.rank; i++)
    if (plain.dims[i] < 1 || plain.dims[i] > INT32_MAX) return false;
  if (f->group > plain.dims[0] || plain.dims[0] % f->group || !packed_order_of(op, attrs, &plain, &f->order))
    return false;
  f->n_packed = packed_desc(&f->order).dims[0];
  f->first_input = op_attr_int(attrs, "channels_first_input") != 0;
  f->shared = op_attr_int(attrs, SHARED_WEIGHTS_ATTR) != 0;
  f->auto_pad = op_attr_word(op, attrs, "auto_pad");
  f->activation = reed_attrs_find(attrs, "activation") ? 1 + op_attr_word(op, attrs, "activation") : 0;
  f->alpha = op_attr_float(attrs, "activation_alpha");
  f->beta = op_attr_float(attrs, "activation_beta");
  return has_kernel(attrs, &plain) && read_ints(op, attrs, "strides", f->n_axes, f->strides) &&
         read_ints(op, attrs, "dilations", f->n_axes, f->dilations) &&
         read_ints(op, attrs, "pads", 2 * f->n_axes, f->pads);
}

/* Appends the attributes of the call that ONNX defines. */
static void see(const reed_attrs *attrs, reed_attr *items, op_conv_facts *f) {
  f->seen = (reed_attrs){.items = items};
  for (int32_t i = 0; i < attrs->n; i++) {
    if (strcmp(attrs->items[i].name, PACKED_ATTR) == 0) continue;
    items[f->seen.n] = attrs->items[i];
    if (strcmp(attrs->items[i].name, "channels_last") == 0) items[f->seen.n].i = 0;
    f->seen.n++;
  }
}

/* The facts that all operators have, followed by `bytes` bytes. */
static op_facts *facts_new(const reed_op *op, const reed_attrs *attrs, size_t bytes) {
  op_facts *f = mem_calloc(1, sizeof *f + bytes);
  if (!f) return NULL;
  f->ops = op_builtin((op_id)0);
  f->bytes = sizeof *f + bytes;
  f->output = op_output_dtype(op, attrs, 0, 0, NULL); /* without inputs the attribute's alone */
  return f;
}

static bool open_conv(const reed_op *op, const reed_attrs *attrs, op_facts **out_facts) {
  op_conv_facts read = {0};
  if (!read_conv(op, attrs, &read)) return true;
  op_facts *f = facts_new(op, attrs, sizeof read + (size_t)attrs->n * sizeof *attrs->items);
  if (!f) return false;
  f->bytes = sizeof *f + sizeof read; /* the list of attributes is only handed on */
  f->conv = (op_conv_facts *)(f + 1);
  *f->conv = read;
  see(attrs, (reed_attr *)(f->conv + 1), f->conv);
  *out_facts = f;
  return true;
}

bool op_conv_order(const op_conv_facts *f, const reed_desc *packed, packed_order *out_order) {
  const reed_dtype dtype = packed->dtype;
  if (packed->rank != 1 || packed->dims[0] != f->n_packed) return false;
  if (f->order.pairs ? dtype != REED_BF16 : dtype != REED_F32 && dtype != REED_F16 && dtype != REED_BF16) return false;
  *out_order = f->order;
  out_order->plain.dtype = dtype;
  return true;
}

/* ---- Fused ---- */

static bool open_program(const reed_op *op, const reed_attrs *attrs, op_facts **out_facts) {
  fused_program read;
  if (fused_read(attrs, FUSED_INPUTS, &read)) return true; /* the call's own reading says why */
  op_facts *f = facts_new(op, attrs, offsetof(fused_program, steps) + (size_t)read.n_steps * sizeof *read.steps);
  if (!f) return false;
  f->program = (fused_program *)(f + 1);
  const char *wrong = fused_read(attrs, FUSED_INPUTS, f->program); /* again, because a program stays where it is read */
  if (wrong) mem_free(f);
  else *out_facts = f;
  return true;
}

const fused_program *op_facts_program(const op_facts *facts, int32_t n_inputs) {
  const fused_program *p = facts && n_inputs >= 1 && n_inputs <= FUSED_INPUTS ? facts->program : NULL;
  for (int32_t j = 0; p && j < p->n_steps; j++)
    for (int32_t k = 0; k < p->steps[j].n_operands; k++)
      if (p->steps[j].operands[k] >= n_inputs + j) return NULL;
  return p;
}

/* ---- the list ---- */

bool op_facts_list_open(const reed_attr *items, size_t n, op_facts_list *out_list) {
  *out_list = (op_facts_list){.items = items, .n = n, .of = mem_calloc(n, sizeof *out_list->of)};
  return out_list->of;
}

bool op_facts_list_add(op_facts_list *list, const reed_op *op, const reed_attrs *attrs) {
  const bool conv = op == op_builtin(OP_Conv), fused = op == op_builtin(OP_Fused) || op == op_builtin(OP_FusedColumns);
  if ((!conv && !fused) || op_facts_find(list, attrs)) return true;
  op_facts **to = &list->of[attrs->items - list->items];
  return conv ? open_conv(op, attrs, to) : open_program(op, attrs, to);
}

void op_facts_list_close(op_facts_list *list) {
  for (size_t i = 0; list->of && i < list->n; i++) mem_free(list->of[i]);
  mem_free(list->of);
  *list = (op_facts_list){0};
}
