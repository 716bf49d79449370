/* The programs of Fused operators (fused.h): writing, reading and checking their text. Computing them is in
 * ops/cpu/elementwise/fused.c. */
#include "ops/fused.h"

#include <string.h>

int32_t fused_operands(const reed_op *op) { return op->inputs[op->n_inputs - 1].variadic ? 2 : op->n_inputs; }

/* ---- writing ---- */

void fused_write(fused_text *text, const reed_op *op, const reed_attrs *attrs, const int32_t *operands) {
  text_append(&text->program, "%s%s", text->program.n ? ";" : "", op->name);
  for (int32_t i = 0; i < fused_operands(op); i++) text_append(&text->program, " %d", operands[i]);
  for (int32_t i = 0; i < attrs->n; i++) {
    const reed_attr *attr = &attrs->items[i];
    if (op_attr_is_default(op, attr)) continue;
    if (attr->type == REED_ATTR_STRING) {
      text->failed |= strlen(attr->s) >= sizeof((fused_step *)0)->word || strcspn(attr->s, " ;") != strlen(attr->s);
      text_append(&text->program, " %s=%s", attr->name, attr->s);
    } else {
      text_append(&text->program, " %s=#%zu", attr->name, text->numbers.n);
      text->failed |= !VEC_PUSH(&text->numbers, attr->type == REED_ATTR_INT ? (double)attr->i : attr->f);
    }
  }
  text->failed |= text->program.failed || attrs->n > FUSED_ATTRS;
}

void fused_text_fini(fused_text *text) {
  text_fini(&text->program);
  VEC_FREE(&text->numbers);
}

/* ---- reading ---- */

typedef struct reading {
  const char *at;
  const reed_attr *numbers; /* NULL: none */
  fused_program *program;
} reading;

static size_t word_length(const char *word) {
  size_t n = 0;
  while (word[n] && word[n] != ' ' && word[n] != ';') n++;
  return n;
}

/* The n digits as a number below `limit`; -1 if they are no such number. */
static int64_t whole_number(const char *digits, size_t n, int64_t limit) {
  int64_t number = 0;
  for (size_t i = 0; i < n; i++) {
    if (digits[i] < '0' || digits[i] > '9') return -1;
    number = number * 10 + digits[i] - '0';
    if (number >= limit) return -1;
  }
  return n ? number : -1;
}

static const char *read_value(const reading *r, fused_step *step, reed_attr *attr, const char *value, size_t n) {
  if (attr->type == REED_ATTR_STRING) {
    if (n >= sizeof step->word) return "a word is too long";
    memcpy(step->word, value, n);
    step->word[n] = 0;
    attr->s = step->word;
    return NULL;
  }
  int64_t k = n > 1 && value[0] == '#' && r->numbers ? whole_number(value + 1, n - 1, r->numbers->n) : -1;
  if (k < 0) return "there is no such number";
  double number = r->numbers->floats[k];
  if (attr->type == REED_ATTR_FLOAT) return attr->f = number, NULL;
  if (!(number > -0x1p53 && number < 0x1p53)) return "a number is not whole";
  return attr->i = (int64_t)number, NULL;
}

/* name=value */
static const char *read_attr(const reading *r, fused_step *step, const char *word, size_t n, size_t equals) {
  if (step->n_attrs == FUSED_ATTRS) return "a step has too many attributes";
  reed_attr *attr = &step->attrs[step->n_attrs];
  *attr = (reed_attr){0};
  for (int32_t i = 0; i < step->op->n_attrs && !attr->name; i++) {
    const reed_op_attr *row = &step->op->attrs[i];
    if (strlen(row->name) == equals && memcmp(row->name, word, equals) == 0)
      *attr = (reed_attr){.name = row->name, .type = row->type};
  }
  if (!attr->name) return "an operator has no such attribute";
  if (step->n_attrs && strcmp(attr[-1].name, attr->name) >= 0) return "attributes are not in order";
  step->n_attrs++;
  return read_value(r, step, attr, word + equals + 1, n - equals - 1);
}

/* Adds the row's values of the attributes that the text leaves out. */
static const char *complete(fused_step *step) {
  reed_attr all[2 * FUSED_ATTRS];
  const reed_attrs given = fused_attrs(step);
  for (int32_t i = 0; i < step->op->n_attrs; i++)
    if (step->op->attrs[i].required && !reed_attrs_find(&given, step->op->attrs[i].name))
      return "an attribute is missing";
  step->n_attrs = op_attrs_complete(step->op, &given, all).n; /* at most FUSED_ATTRS: all are in the row */
  memcpy(step->attrs, all, (size_t)step->n_attrs * sizeof *all);
  return NULL;
}

static const char *read_step(reading *r, fused_step *step, int32_t n_values) {
  char name[32];
  size_t n = word_length(r->at);
  if (n >= sizeof name) return "there is no such operator";
  memcpy(name, r->at, n);
  name[n] = 0;
  r->at += n;
  step->op = op_find(NULL, "", name);
  step->n_operands = step->n_attrs = 0;
  if (!step->op || !op_has(step->op, OP_PROPERTY_FUSABLE)) return "an operator is not element-wise";
  while (*r->at == ' ') {
    const char *word = ++r->at;
    r->at += n = word_length(word);
    const char *sign = memchr(word, '=', n);
    if (sign) {
      const char *wrong = read_attr(r, step, word, n, (size_t)(sign - word));
      if (wrong) return wrong;
      continue;
    }
    int64_t operand = whole_number(word, n, n_values);
    if (operand < 0 || step->n_operands == fused_operands(step->op)) return "an operand is out of place";
    step->operands[step->n_operands++] = (int32_t)operand;
  }
  if (step->n_operands != fused_operands(step->op)) return "an operand is missing";
  return complete(step);
}

const char *fused_read(const reed_attrs *attrs, int32_t n_inputs, fused_program *out_program) {
  const reed_attr *numbers = reed_attrs_find(attrs, "numbers");
  reading r = {.at = op_attr_string(attrs, "program"),
               .numbers = numbers && numbers->type == REED_ATTR_FLOATS ? numbers : NULL};
  if (n_inputs < 1 || n_inputs > FUSED_INPUTS) return "too many inputs";
  out_program->n_inputs = n_inputs;
  for (out_program->n_steps = 0;; r.at++) {
    if (out_program->n_steps == FUSED_STEPS) return "too many steps";
    int32_t step = out_program->n_steps++;
    const char *wrong = read_step(&r, &out_program->steps[step], n_inputs + step);
    if (wrong) return wrong;
    if (!*r.at) return NULL; /* else a semicolon */
  }
}

/* The attribute's whole numbers, from 0 to below `limit`. */
static bool read_numbers(const reed_attrs *attrs, const char *name, int64_t most, int64_t limit, int32_t *out,
                         int64_t *out_n) {
  const int64_t *numbers = reed_attrs_ints(attrs, name, out_n);
  if (!numbers || *out_n > most) return false;
  for (int64_t i = 0; i < *out_n; i++) {
    if (numbers[i] < 0 || numbers[i] >= limit) return false;
    out[i] = (int32_t)numbers[i];
  }
  return true;
}

const char *fused_read_columns(const reed_attrs *attrs, int32_t n_inputs, fused_columns *out_columns) {
  int64_t n, n_results;
  if (!read_numbers(attrs, "columns", FUSED_INPUTS, INT32_MAX, out_columns->columns, &n) || n != n_inputs)
    return "there is not one column for each input";
  if (!read_numbers(attrs, "results", FUSED_RESULTS, n_inputs + FUSED_STEPS, out_columns->results, &n_results) ||
      n_results < 1)
    return "a result is no value of the program, or there are none or too many";
  out_columns->n_results = (int32_t)n_results;
  return NULL;
}
