/* The disassembler: writes a module as text. Types, constants and call sites get the names t0, c0, k0 in their order; a
 * label's name is the number of its word. The opposite: asm.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "bytecode/insn.h"
#include "bytecode/text/lexer.h"
#include "bytecode/text/text.h"

#define SMALL_CONSTANT 64 /* most elements of a constant that is written as numbers; larger ones are base64 */

typedef struct dis {
  const module *m;
  text_buffer out;
  bool *quoted_number; /* per function: its name is not unique, so calls name its number */
  bool *is_target;     /* per word of the function being written */
  size_t next_debug;
  const int *cancel;
  bool cancelled; /* the text is incomplete */
} dis;

/* True if the caller has cancelled the work, now or earlier. */
static bool ended(dis *d) {
  d->cancelled = d->cancelled || cancel_asked(d->cancel);
  return d->cancelled;
}

/* The text of a module is UTF-8 (rule V05). */
static void put_string(dis *d, const char *text) {
  text_append_bytes(&d->out, "\"", 1);
  for (size_t n = strlen(text), length; n; text += length, n -= length) {
    length = utf8_length(text, n);
    if (!length) length = 1;
    const uint32_t c = utf8_read(text, length);
    if (c == '"' || c == '\\') text_append(&d->out, "\\%c", (int)c);
    else if (c == '\n') text_append(&d->out, "\\n");
    else if (c < 0x80 && utf8_is_obeyed(c)) text_append(&d->out, "\\x%02x", c);
    else if (utf8_is_obeyed(c)) text_append(&d->out, "\\u%04x", c);
    else text_append_bytes(&d->out, text, length);
  }
  text_append_bytes(&d->out, "\"", 1);
}

static void put_name(dis *d, const char *text) {
  if (lexer_is_plain_name(text)) text_append(&d->out, "%s", text);
  else put_string(d, text);
}

/* ---- data ---- */

static void put_base64(dis *d, const uint8_t *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  text_append(&d->out, "base64 {");
  for (size_t line = 0; line < n && !ended(d); line += 72) {
    char text[97 + 1];
    size_t k = 0;
    for (size_t i = line; i < n && i < line + 72; i += 3) {
      uint32_t triple =
          (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) | (i + 2 < n ? data[i + 2] : 0);
      text[k++] = digits[triple >> 18];
      text[k++] = digits[triple >> 12 & 63];
      text[k++] = i + 1 < n ? digits[triple >> 6 & 63] : '=';
      text[k++] = i + 2 < n ? digits[triple & 63] : '=';
    }
    text_append(&d->out, "\n  \"%.*s\"", (int)k, text);
  }
  text_append(&d->out, "}");
}

static int64_t read_integer(reed_dtype dtype, const uint8_t *element) {
  int64_t value = 0;
  size_t n = reed_dtype_bytes(dtype);
  memcpy(&value, element, n);
  bool is_signed = dtype == REED_I8 || dtype == REED_I16 || dtype == REED_I32;
  return is_signed ? (int64_t)((uint64_t)value << (64 - 8 * n)) >> (64 - 8 * n) : value;
}

/* True if elements written as numbers are read back with the same bits: floats go through double, which loses a NaN's
 * bits. */
static bool readable(const reed_desc *desc, const uint8_t *data, int64_t n) {
  size_t item = reed_dtype_bytes(desc->dtype);
  for (int64_t i = 0; number_digits(desc->dtype) && i < n; i++) {
    double value = reed_dtype_read(desc->dtype, data + (size_t)i * item);
    if (value != value) return false;
  }
  return true;
}

static void put_elements(dis *d, const reed_desc *desc, const void *data) {
  int64_t n = desc_elements(desc);
  size_t item = reed_dtype_bytes(desc->dtype);
  int digits = number_digits(desc->dtype);
  if (n > SMALL_CONSTANT || !readable(desc, data, n)) {
    put_base64(d, data, (size_t)n * item);
    return;
  }
  text_append(&d->out, "{");
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *element = (const uint8_t *)data + (size_t)i * item;
    char number[NUMBER_BYTES];
    if (digits)
      text_append(&d->out, "%s%s", i ? ", " : "", number_text(reed_dtype_read(desc->dtype, element), digits, number));
    else if (desc->dtype == REED_U64)
      text_append(&d->out, "%s%" PRIu64, i ? ", " : "", (uint64_t)read_integer(desc->dtype, element));
    else text_append(&d->out, "%s%" PRId64, i ? ", " : "", read_integer(desc->dtype, element));
  }
  text_append(&d->out, "}");
}

static void put_desc(dis *d, const reed_desc *desc) {
  char text[256];
  text_append(&d->out, "%s", desc_text(desc, text, sizeof text));
}

/* ---- directives ---- */

static void put_type(dis *d, const module_type *t) {
  if (t->object) {
    text_append(&d->out, "object");
  } else {
    text_append(&d->out, "%s[", t->dtype == REED_NONE ? "any" : reed_dtype_name(t->dtype));
    if (t->rank < 0) text_append(&d->out, "*");
    for (int32_t i = 0; i < t->rank; i++) {
      if (i) text_append(&d->out, ", ");
      if (t->dims[i] >= 0) text_append(&d->out, "%" PRId64, t->dims[i]);
      else if (*d->m->strings[~t->dims[i]]) put_name(d, d->m->strings[~t->dims[i]]);
      else text_append(&d->out, "?");
    }
    text_append(&d->out, "]");
  }
  if (*d->m->strings[t->name]) {
    text_append(&d->out, " ");
    put_string(d, d->m->strings[t->name]);
  }
  char device[TEXT_DEVICE_BYTES];
  if (t->device) text_append(&d->out, " %s", text_device(t->device, device));
}

static void put_attribute(dis *d, const reed_attr *a) {
  char number[NUMBER_BYTES];
  put_name(d, a->name);
  text_append(&d->out, " = ");
  switch (a->type) {
    case REED_ATTR_INT: text_append(&d->out, "%" PRId64, a->i); break;
    case REED_ATTR_FLOAT: text_append(&d->out, "%s", number_text(a->f, 17, number)); break;
    case REED_ATTR_STRING: put_string(d, a->s); break;
    case REED_ATTR_INTS:
      text_append(&d->out, "[");
      for (int64_t i = 0; i < a->n; i++) text_append(&d->out, "%s%" PRId64, i ? ", " : "", a->ints[i]);
      text_append(&d->out, "]");
      break;
    case REED_ATTR_FLOATS:
      text_append(&d->out, "floats [");
      for (int64_t i = 0; i < a->n; i++)
        text_append(&d->out, "%s%s", i ? ", " : "", number_text(a->floats[i], 17, number));
      text_append(&d->out, "]");
      break;
    case REED_ATTR_TENSOR:
      put_desc(d, &a->desc);
      text_append(&d->out, " ");
      put_elements(d, &a->desc, a->data);
      break;
  }
}

static void put_site(dis *d, size_t number) {
  const module_site *s = &d->m->sites[number];
  text_append(&d->out, ".site k%zu = ", number);
  put_name(d, d->m->strings[s->op]);
  if (*d->m->strings[s->domain]) {
    text_append(&d->out, " in ");
    put_string(d, d->m->strings[s->domain]);
  }
  text_append(&d->out, " (%d -> %d)", s->n_inputs, s->n_outputs);
  if (*d->m->strings[s->node]) {
    text_append(&d->out, " ");
    put_string(d, d->m->strings[s->node]);
  }
  for (int32_t i = 0; s->dtypes && i < s->n_inputs + s->n_outputs; i++)
    text_append(&d->out, "%s%s", i ? ", " : " of [",
                s->dtypes[i] == REED_NONE ? "_" : reed_dtype_name((reed_dtype)s->dtypes[i]));
  if (s->dtypes) text_append(&d->out, "]");
  for (int32_t i = 0; i < s->attrs.n; i++) {
    text_append(&d->out, i ? ", " : " {");
    put_attribute(d, &s->attrs.items[i]);
  }
  text_append(&d->out, s->attrs.n ? "}\n" : "\n");
}

static void put_numbers(dis *d, char letter, const uint32_t *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) text_append(&d->out, "%s%c%u", i ? ", " : "", letter, items[i]);
}

static void put_range(dis *d, const module_range *r) {
  text_append(&d->out, ".range ");
  put_name(d, d->m->strings[r->name]);
  text_append(&d->out, " (%u, %u) = [%" PRId64 ", ", r->input, r->axis, r->low);
  if (r->high == REED_UNBOUNDED) text_append(&d->out, "*]\n");
  else text_append(&d->out, "%" PRId64 "]\n", r->high);
}

static void put_directives(dis *d) {
  const module *m = d->m;
  text_append(&d->out, ".module ");
  put_string(d, m->model_name);
  text_append(&d->out, " producer ");
  put_string(d, m->producer);
  text_append(&d->out, " ");
  put_string(d, m->producer_version);
  text_append(&d->out, " devices %d", m->n_devices);
  if (*m->target) {
    text_append(&d->out, " target ");
    put_string(d, m->target);
  }
  text_append(&d->out, "\n");
  for (size_t i = 0; i < m->n_types; i++) {
    text_append(&d->out, ".type t%zu = ", i);
    put_type(d, &m->types[i]);
    text_append(&d->out, "\n");
  }
  text_append(&d->out, ".inputs ");
  put_numbers(d, 't', m->inputs, m->functions[0].n_r_params);
  text_append(&d->out, "\n.outputs ");
  put_numbers(d, 't', m->outputs, m->functions[0].n_r_results);
  text_append(&d->out, "\n");
  for (size_t i = 0; i < m->n_ranges; i++) put_range(d, &m->ranges[i]);
  for (size_t i = 0; i < m->n_constants && !ended(d); i++) {
    const module_constant *c = &m->constants[i];
    text_append(&d->out, ".const c%zu ", i);
    if (*m->strings[c->name]) {
      put_string(d, m->strings[c->name]);
      text_append(&d->out, " ");
    }
    text_append(&d->out, "= ");
    put_desc(d, &c->desc);
    text_append(&d->out, " ");
    put_elements(d, &c->desc, c->data);
    text_append(&d->out, "\n");
  }
  for (size_t i = 0; i < m->n_sites && !ended(d); i++) put_site(d, i);
}

/* ---- code ---- */

static void put_register(dis *d, char bank, uint32_t number) {
  if (number == MODULE_ABSENT) text_append(&d->out, "_");
  else text_append(&d->out, "%c%u", bank, number);
}

static void put_function_name(dis *d, uint32_t number) {
  if (d->quoted_number[number]) text_append(&d->out, "#%u", number);
  else put_name(d, d->m->strings[d->m->functions[number].name]);
}

/* Writes one word of an operand. */
static void put_item(dis *d, insn_role role, uint32_t word) {
  static const char *const reads[] = TEXT_READS;
  char device[TEXT_DEVICE_BYTES];
#define REASON_NAME(name, text) text,
  static const char *const reasons[] = {COPY_REASON_LIST(REASON_NAME)};
#undef REASON_NAME
  const insn_role_info *info = &insn_roles[role];
  if (info->bank != INSN_BANK_N) {
    uint32_t number = info->flagged ? INSN_REGISTER(word) : word;
    put_register(d, info->bank == INSN_BANK_R ? 'r' : 's', number);
    if (info->flagged && (number != MODULE_ABSENT || INSN_READS(word)))
      text_append(&d->out, ":%s", reads[INSN_READS(word) & 3]);
    return;
  }
  switch (role) {
    case INSN_ROLE_IMM: /* two words, written by put_operand */
    case INSN_ROLE_INDEX:
    case INSN_ROLE_EPOCH: text_append(&d->out, "%u", word); break;
    case INSN_ROLE_DTYPE: text_append(&d->out, "%s", reed_dtype_name((reed_dtype)word)); break;
    case INSN_ROLE_LABEL: text_append(&d->out, "L%u", word); break;
    case INSN_ROLE_FUNC: put_function_name(d, word); break;
    case INSN_ROLE_TYPE: text_append(&d->out, "t%u", word); break;
    case INSN_ROLE_CONST: text_append(&d->out, "c%u", word); break;
    case INSN_ROLE_SITE: text_append(&d->out, "k%u", word); break;
    case INSN_ROLE_STR: put_string(d, d->m->strings[word]); break;
    case INSN_ROLE_DEV: text_append(&d->out, "%s", text_device((int32_t)word, device)); break;
    case INSN_ROLE_REASON:
      text_append(&d->out, "%s", reasons[word < COPY_REASON_COUNT ? word : 0]);
      break;
      INSN_REGISTER_ROLES(INSN_ROLE_CASE) /* written above */
    case INSN_ROLE_COUNT: break;
  }
}

static void put_operand(dis *d, insn_form form, insn_role role, const insn_operand *o) {
  switch (form) {
    case INSN_FORM_ONE: put_item(d, role, o->words[0]); break;
    case INSN_FORM_LONG: text_append(&d->out, "%" PRId64, insn_long(o)); break;
    case INSN_FORM_LIST:
      text_append(&d->out, "[");
      for (uint32_t i = 0; i < o->n; i++) {
        if (i) text_append(&d->out, ", ");
        put_item(d, role, o->words[i]);
      }
      text_append(&d->out, "]");
      break;
  }
}

static void mark_targets(dis *d, const uint32_t *code, uint32_t n_code) {
  insn in;
  for (uint32_t pc = 0; insn_decode(code, n_code, pc, &in); pc += in.n_words)
    for (int i = 0; i < insn_table[in.id].n_operands; i++) {
      if (insn_table[in.id].roles[i] != INSN_ROLE_LABEL) continue;
      for (uint32_t k = 0; k < in.operands[i].n; k++) d->is_target[in.operands[i].words[k]] = true;
    }
}

/* Writes a comment: the number of the instruction's word, and the operator of its call site. */
static void put_comment(dis *d, const insn *in) {
  text_append(&d->out, "  ; %u", in->pc);
  for (int i = 0; i < insn_table[in->id].n_operands; i++)
    if (insn_table[in->id].roles[i] == INSN_ROLE_SITE)
      text_append(&d->out, " %s", d->m->strings[d->m->sites[in->operands[i].words[0]].op]);
}

static void put_insn(dis *d, uint32_t function, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  if (d->is_target[in->pc]) text_append(&d->out, "L%u:\n", in->pc);
  text_append(&d->out, "  %s", info->mnemonic);
  for (int i = 0; i < info->n_operands; i++) {
    text_append(&d->out, i ? ", " : " ");
    put_operand(d, info->forms[i], info->roles[i], &in->operands[i]);
  }
  const module_debug *debug = &d->m->debug[d->next_debug];
  if (d->next_debug < d->m->n_debug && debug->function == function && debug->pc == in->pc) {
    text_append(&d->out, " @ ");
    put_string(d, d->m->strings[debug->node]);
    d->next_debug++;
  }
  put_comment(d, in);
  text_append(&d->out, "\n");
}

static void put_signature(dis *d, const uint32_t *types, uint32_t n, uint32_t n_scalars) {
  text_append(&d->out, "(");
  put_numbers(d, 't', types, n);
  if (n_scalars) text_append(&d->out, "%s| %u", n ? " " : "", n_scalars);
  text_append(&d->out, ")");
}

static reed_status put_function(dis *d, uint32_t number, reed_diagnosis *diagnosis) {
  const module_function *f = &d->m->functions[number];
  const uint32_t *code = d->m->code + f->code_offset;
  d->is_target = mem_calloc(f->n_code + 1, sizeof *d->is_target);
  if (!d->is_target) return diag_no_memory(diagnosis, "disassembling a function");
  mark_targets(d, code, f->n_code);
  text_append(&d->out, "\n.function ");
  put_name(d, d->m->strings[f->name]);
  text_append(&d->out, " ");
  put_signature(d, f->param_types, f->n_r_params, f->n_s_params);
  text_append(&d->out, " -> ");
  put_signature(d, f->result_types, f->n_r_results, f->n_s_results);
  text_append(&d->out, " registers %u %u\n", f->n_r, f->n_s);
  insn in;
  for (uint32_t pc = 0; !ended(d) && insn_decode(code, f->n_code, pc, &in); pc += in.n_words) put_insn(d, number, &in);
  mem_free(d->is_target);
  d->is_target = NULL;
  return REED_OK;
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* Finds the functions that share their name with another function. Strings are unique, so equal names have equal
 * numbers. */
static bool find_shared_names(dis *d) {
  const module *m = d->m;
  uint32_t *names = mem_alloc(m->n_functions * sizeof *names);
  d->quoted_number = mem_calloc(m->n_functions, sizeof *d->quoted_number);
  if (names && d->quoted_number) {
    for (size_t i = 0; i < m->n_functions; i++) names[i] = m->functions[i].name;
    qsort(names, m->n_functions, sizeof *names, compare_numbers);
    for (size_t i = 0; i < m->n_functions; i++) {
      const uint32_t *at = bsearch(&m->functions[i].name, names, m->n_functions, sizeof *names, compare_numbers);
      size_t k = (size_t)(at - names);
      d->quoted_number[i] = (k > 0 && names[k - 1] == *at) || (k + 1 < m->n_functions && names[k + 1] == *at);
    }
  }
  mem_free(names);
  return names && d->quoted_number;
}

reed_status text_disassemble(const module *m, const int *cancel, char **out_text, reed_diagnosis *diagnosis) {
  dis d = {.m = m, .cancel = cancel};
  reed_status status = find_shared_names(&d) ? REED_OK : diag_no_memory(diagnosis, "disassembling a module");
  if (status == REED_OK) put_directives(&d);
  for (uint32_t i = 0; status == REED_OK && i < m->n_functions; i++) status = put_function(&d, i, diagnosis);
  if (status == REED_OK && d.cancelled) status = diag_cancelled(diagnosis);
  if (status == REED_OK && d.out.failed) status = diag_no_memory(diagnosis, "a module's text");
  mem_free(d.quoted_number);
  if (status == REED_OK) *out_text = d.out.data;
  else text_fini(&d.out);
  return status;
}
