/* Capability lists: the rows of ops/targets.def and the user's options, parsed once into items, and the comparison of a
 * call with these items. The syntax is described in the header. The only kernels looked up here are those of custom
 * operators. */
#include "ops/capability.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "ops/device_options.h"
#include "ops/kernel.h"

/* ---- the table ---- */

typedef struct target_row {
  const char *name, *list;
  bool host_kernels, keeps_counts;
} target_row;

/* The list of the CUDA devices, from the operators that have kernels there. An item of the table may be empty. */
static const char cuda_list[] = "only="
#define CUDA_OPERATOR(name, prepare, only, lacks, counts) only "+"
#include "ops/cuda.def"
                                "&lacks="
#define CUDA_OPERATOR(name, prepare, only, lacks, counts) lacks "+"
#include "ops/cuda.def"
                                "&counts="
#define CUDA_OPERATOR(name, prepare, only, lacks, counts) counts "+"
#include "ops/cuda.def"
    ;
#define CUDA_LIST cuda_list

static const target_row rows[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, about) {#name, list, host_kernels, counts},
#include "ops/targets.def"
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const target_row *row_of(const char *name, size_t n) {
  for (size_t i = 0; i < N_ROWS; i++)
    if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0) return &rows[i];
  return NULL;
}

/* ---- one list ---- */

/* A part of the list's own text; n 0: any word fits. */
typedef struct word {
  const char *text;
  size_t n;
} word;

/* The kind of an item that names an operator of a library's, besides those of device_list. */
#define LIST_LIBRARY N_LISTS

typedef struct item {
  device_list kind;
  const char *library; /* LIST_LIBRARY: the key of the option that opens it */
  bool onnx;           /* the item names ONNX's own domain, which operators' rows write as "" */
  word domain, op, attribute, value;
  reed_dtype dtype; /* REED_NONE: any */
} item;

typedef struct target {
  const target_row *row;
  bool has_only, has_counts;
  size_t first, n; /* the target's items */
} target;

struct capability {
  char *text;
  VEC_OF(target) targets;
  VEC_OF(item) items;
};

static bool is(word w, const char *text) { return strlen(text) == w.n && memcmp(w.text, text, w.n) == 0; }

/* Cuts off and returns the part of *rest before the first `mark`, or all of *rest if it has no `mark`. The mark is
 * dropped. */
static word take(word *rest, char mark) {
  const char *at = rest->n ? memchr(rest->text, mark, rest->n) : NULL;
  word taken = {rest->text, at ? (size_t)(at - rest->text) : rest->n};
  size_t gone = taken.n + (at != NULL);
  *rest = (word){rest->text + gone, rest->n - gone};
  return taken;
}

static reed_dtype dtype_of(word w) {
  for (int d = REED_NONE + 1; d < REED_DTYPE_COUNT; d++)
    if (is(w, reed_dtype_name((reed_dtype)d))) return (reed_dtype)d;
  return REED_NONE;
}

static bool names_op(const item *it, const reed_op *op) {
  if (it->op.n && !is(it->op, op->name)) return false;
  return it->onnx ? !*op->domain : !it->domain.n || is(it->domain, op->domain);
}

static bool names_attribute(const item *it, const reed_op *op) {
  for (int32_t i = 0; i < op->n_attrs; i++)
    if (is(it->attribute, op->attrs[i].name)) return true;
  return false;
}

static bool fits(const item *it, const reed_op *op, bool attribute) {
  return names_op(it, op) && (!attribute || names_attribute(it, op));
}

/* True if an operator with kernels fits the item; `attribute`: if its row has the item's attribute, too. */
static bool is_known(const item *it, const reed_registry *registry, bool attribute) {
  for (int i = 0; i < OP_COUNT; i++)
    if (!op_is_control(op_builtin((op_id)i)) && fits(it, op_builtin((op_id)i), attribute)) return true;
  for (size_t i = 0; op_custom(registry, i); i++)
    if (fits(it, op_custom(registry, i), attribute)) return true;
  return false;
}

static bool names_control_flow(const item *it) {
  for (int i = 0; i < OP_COUNT; i++)
    if (op_is_control(op_builtin((op_id)i)) && names_op(it, op_builtin((op_id)i))) return true;
  return false;
}

/* OPERATOR[.DTYPE][@ATTRIBUTE[=VALUE]]. it: the item with its kind alone. */
static reed_status read_item(capability *c, word text, item it, const reed_registry *registry,
                             reed_diagnosis *diagnosis) {
  word rest = text, left = take(&rest, '@'), condition = rest;
  const bool conditional = left.n < text.n;
  it.attribute = take(&rest, '=');
  it.value = rest;
  if (conditional && (!it.attribute.n || (it.attribute.n < condition.n && !it.value.n)))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "target '%s': '%.*s' ends too early; an attribute is like Conv@group or Conv@group=1", c->text,
                     (int)text.n, text.text);
  for (size_t i = 0; i + 1 < left.n; i++)
    if (left.text[i] == ':' && left.text[i + 1] == ':') {
      it.domain = (word){left.text, i};
      it.onnx = !i || is(it.domain, "ai.onnx");
      left = (word){left.text + i + 2, left.n - i - 2};
      break;
    }
  for (size_t i = left.n; i-- > 0;)
    if (left.text[i] == '.') {
      it.dtype = dtype_of((word){left.text + i + 1, left.n - i - 1});
      if (it.dtype == REED_NONE)
        return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%s': '%.*s' is no dtype", c->text,
                         (int)(left.n - i - 1), left.text + i + 1);
      left.n = i;
      break;
    }
  if (!left.n)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%s': an operator is missing; a list is like Conv+TopK",
                     c->text);
  it.op = is(left, "*") ? (word){0} : left;
  const bool known = is_known(&it, registry, false);
  if (!known && names_control_flow(&it))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "target '%s': %.*s is control flow, which becomes jumps of the module: no target needs a kernel "
                     "for it, and none can lack it",
                     c->text, (int)it.op.n, it.op.text);
  if (!known)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%s': there is no operator '%.*s'", c->text,
                     (int)(left.text + left.n - text.text), text.text);
  if (conditional && !is_known(&it, registry, true))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%s': %.*s has no attribute '%.*s'", c->text,
                     it.op.n ? (int)left.n : 1, it.op.n ? left.text : "*", (int)it.attribute.n, it.attribute.text);
  return VEC_PUSH(&c->items, it) ? REED_OK : diag_no_memory(diagnosis, "a list of operators");
}

/* lacks=ITEM+ITEM, only=ITEM+ITEM or counts=ITEM+ITEM, or an option that opens a library; other options are the
 * device's, which are checked alone. In a row's own list items may be empty. */
static reed_status read_option(capability *c, target *t, const device_option *option, bool of_row,
                               const reed_registry *registry, reed_diagnosis *diagnosis) {
  int64_t number;
  reed_status status =
      of_row ? REED_OK : device_option_read(t->row->name, "target", c->text, option, &number, diagnosis);
  item made = {.kind = device_option_list(option)};
  if (status != REED_OK) return status;
  word list = {option->value, option->n_value};
  if (made.kind == NO_LIST) {
    const char *computed = of_row || !number ? NULL : device_option_library(option, &made.library);
    if (!computed) return REED_OK;
    list = (word){computed, strlen(computed)};
    made.kind = LIST_LIBRARY;
  }
  t->has_only |= made.kind == LIST_ONLY;
  t->has_counts |= made.kind == LIST_COUNTS;
  bool more = true; /* a list ends with an item, so a sign at its end is followed by an empty one */
  while (more && status == REED_OK) {
    more = list.n && memchr(list.text, '+', list.n) != NULL;
    word text = take(&list, '+');
    if (text.n || !of_row) status = read_item(c, text, made, registry, diagnosis);
  }
  return status;
}

static reed_status read_options(capability *c, target *t, word rest, bool of_row, const reed_registry *registry,
                                reed_diagnosis *diagnosis) {
  reed_status status = REED_OK;
  const char *at = rest.text, *end = rest.text + rest.n;
  for (device_option option; status == REED_OK && device_option_next(&at, end, &option);)
    status = read_option(c, t, &option, of_row, registry, diagnosis);
  return status;
}

static reed_status read_target(capability *c, word text, const reed_registry *registry, reed_diagnosis *diagnosis) {
  word rest = text, numbered = take(&rest, '?'), whole = numbered, name = take(&numbered, ':');
  target t = {.row = row_of(name.text, name.n), .first = c->items.n};
  if (!t.row || !t.row->list) {
    char known[256] = "";
    for (size_t i = 0, n = 0; i < N_ROWS && n < sizeof known; i++)
      if (rows[i].list) n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", rows[i].name);
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "there is no target '%.*s' in this build; known: %s", (int)name.n,
                     name.text, known);
  }
  int32_t number;
  if (name.n < whole.n && !device_number_read(numbered.text, numbered.n, &number))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%.*s': '%.*s' is no number of a device, from 0 to %d",
                     (int)text.n, text.text, (int)numbered.n, numbered.text, DEVICES_OF_A_KIND - 1);
  if (whole.n < text.n && !rest.n)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "target '%.*s': options are missing behind the '?'", (int)text.n,
                     text.text);
  reed_status status = read_options(c, &t, (word){t.row->list, strlen(t.row->list)}, true, registry, diagnosis);
  if (status == REED_OK) status = read_options(c, &t, rest, false, registry, diagnosis);
  if (status != REED_OK) return status;
  t.n = c->items.n - t.first;
  return VEC_PUSH(&c->targets, t) ? REED_OK : diag_no_memory(diagnosis, "a list of targets");
}

reed_status capability_open(const char *targets, const reed_registry *registry, capability **out_capability,
                            reed_diagnosis *diagnosis) {
  capability *c = mem_calloc(1, sizeof *c);
  if (!c || !(c->text = mem_copy_text(targets ? targets : CAPABILITY_DEFAULT))) {
    mem_free(c);
    return diag_no_memory(diagnosis, "a list of targets");
  }
  word rest = {c->text, strlen(c->text)};
  reed_status status = REED_OK;
  for (bool more = true; more && status == REED_OK;) {
    more = memchr(rest.text, ',', rest.n) != NULL;
    status = read_target(c, take(&rest, ','), registry, diagnosis);
  }
  if (status == REED_OK) *out_capability = c;
  else capability_close(&c);
  return status;
}

void capability_close(capability **c) {
  if (!*c) return;
  mem_free((*c)->text);
  VEC_FREE(&(*c)->targets);
  VEC_FREE(&(*c)->items);
  mem_free(*c);
  *c = NULL;
}

const char *capability_text(const capability *c) { return c ? c->text : ""; }

/* ---- calls ---- */

static bool value_equals(const reed_attr *a, word value) {
  char text[64] = "";
  switch (a->type) {
    case REED_ATTR_INT: snprintf(text, sizeof text, "%" PRId64, a->i); return is(value, text);
    case REED_ATTR_FLOAT: snprintf(text, sizeof text, "%g", a->f); return is(value, text);
    case REED_ATTR_STRING: return is(value, a->s);
    case REED_ATTR_INTS: /* true if one of the integers fits */
      for (int64_t i = 0; i < a->n; i++) {
        snprintf(text, sizeof text, "%" PRId64, a->ints[i]);
        if (is(value, text)) return true;
      }
      return false;
    case REED_ATTR_FLOATS:
    case REED_ATTR_TENSOR: return false;
  }
  return false;
}

/* True if the call has the item's attribute; a value from the operator's row counts like a given one. */
static bool has_attribute(const item *it, const capability_call *call) {
  if (!it->attribute.n) return true;
  const reed_attr *found = NULL;
  for (int32_t i = 0; call->attrs && i < call->attrs->n; i++)
    if (is(it->attribute, call->attrs->items[i].name)) found = &call->attrs->items[i];
  for (int32_t i = 0; i < call->op->n_attrs && !found; i++)
    if (is(it->attribute, call->op->attrs[i].name)) found = call->op->attrs[i].otherwise;
  return found && (!it->value.n || value_equals(found, it->value));
}

/* An item of `lacks` fits if any operand that the kernel reads or writes has the dtype; an item of `only` or `counts`
 * fits if the first operand has it. An unknown dtype fits these and does not fit `lacks`. */
static bool has_dtype(const item *it, const capability_call *call) {
  if (it->dtype == REED_NONE) return true;
  int32_t n = call->dtypes ? call->n_dtypes : 0;
  if (it->kind != LIST_LACKS) return !n || call->dtypes[0] == REED_NONE || call->dtypes[0] == it->dtype;
  for (int32_t i = 0; i < n; i++) {
    bool on_host = i < call->n_inputs && op_reads_value(call->op, call->attrs, i);
    if (call->dtypes[i] == it->dtype && !on_host) return true;
  }
  return false;
}

static bool fits_call(const item *it, const capability_call *call) {
  return names_op(it, call->op) && has_dtype(it, call) && has_attribute(it, call);
}

/* The item that makes the target lack the call; *out_lacking false: the target has it. NULL with *out_lacking true: no
 * item of `only` names the call. */
static const item *lack(const capability *c, const target *t, const capability_call *call, bool *out_lacking) {
  bool named = !t->has_only;
  *out_lacking = true;
  for (size_t i = t->first; i < t->first + t->n; i++) {
    const item *it = &c->items.items[i];
    if (it->kind == LIST_COUNTS || it->kind == LIST_LIBRARY || !fits_call(it, call)) continue;
    if (it->kind == LIST_LACKS) return it;
    named = true;
  }
  *out_lacking = !named;
  return NULL;
}

static bool has_kernel(const target *t, const reed_op *op) {
  if (op_id_of(op) < OP_COUNT) return true;
  return kernel_on(op, t->row->name, t->row->host_kernels ? op->cpu : NULL) != NULL;
}

bool capability_has(const capability *c, const capability_call *call) {
  for (size_t i = 0; c && i < c->targets.n; i++) {
    bool lacking = !has_kernel(&c->targets.items[i], call->op);
    if (!lacking) (void)lack(c, &c->targets.items[i], call, &lacking);
    if (lacking) return false;
  }
  return true;
}

bool capability_reads_counts(const capability *c, const capability_call *call) {
  for (size_t i = 0; c && i < c->targets.n; i++) {
    const target *t = &c->targets.items[i];
    bool reads = !t->has_counts;
    for (size_t k = t->first; k < t->first + t->n && !reads; k++)
      reads = c->items.items[k].kind == LIST_COUNTS && fits_call(&c->items.items[k], call);
    if (!reads) return false;
  }
  return true;
}

const char *capability_library(const capability *c, const capability_call *call) {
  for (size_t i = 0; c && i < c->items.n; i++)
    if (c->items.items[i].kind == LIST_LIBRARY && fits_call(&c->items.items[i], call)) return c->items.items[i].library;
  return NULL;
}

bool capability_keeps_counts(const capability *c) {
  for (size_t i = 0; i < c->targets.n; i++)
    if (!c->targets.items[i].row->keeps_counts) return false;
  return true;
}

void capability_say_lack(const capability *c, const capability_call *call, text_buffer *out) {
  for (size_t i = 0; i < c->targets.n; i++) {
    bool lacking;
    const item *it = lack(c, &c->targets.items[i], call, &lacking);
    if (!lacking && has_kernel(&c->targets.items[i], call->op)) continue;
    text_append(out, "%s", call->op->name);
    if (it && it->dtype != REED_NONE) text_append(out, " with %s", reed_dtype_name(it->dtype));
    if (it && it->attribute.n)
      text_append(out, " with %.*s%s%.*s", (int)it->attribute.n, it->attribute.text, it->value.n ? "=" : "",
                  (int)it->value.n, it->value.n ? it->value.text : "");
    if (!it && lacking && call->dtypes && call->n_dtypes && call->dtypes[0] != REED_NONE)
      text_append(out, " of %s", reed_dtype_name(call->dtypes[0]));
    return;
  }
}

bool capability_of_op(const capability *c, const reed_op *op, text_buffer *out_excluded) {
  for (size_t i = 0; i < c->targets.n; i++) {
    const target *t = &c->targets.items[i];
    bool named = !t->has_only;
    for (size_t k = t->first; k < t->first + t->n && !named; k++)
      named = c->items.items[k].kind == LIST_ONLY && names_op(&c->items.items[k], op);
    if (!named || !has_kernel(t, op)) return false;
    for (size_t k = t->first; k < t->first + t->n; k++) {
      const item *it = &c->items.items[k];
      if (it->kind != LIST_LACKS || !fits(it, op, it->attribute.n != 0)) continue;
      if (it->dtype == REED_NONE && !it->attribute.n) return false;
      text_append(out_excluded, "%s%s%s%.*s%s%.*s", out_excluded->n ? ", " : "",
                  it->dtype != REED_NONE ? reed_dtype_name(it->dtype) : "",
                  it->dtype != REED_NONE && it->attribute.n ? " with " : "", (int)it->attribute.n,
                  it->attribute.n ? it->attribute.text : "", it->value.n ? "=" : "", (int)it->value.n,
                  it->value.n ? it->value.text : "");
    }
  }
  return true;
}
