/* Attributes of a call completed from the operator's row: finding an attribute's row, comparing with its value, adding
 * the attributes that the call does not give. The rows are expanded in ops/table.c; copying and searching attribute
 * lists is in base/desc.c. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/desc.h"
#include "ops/op.h"

const reed_op_attr *op_attr_row(const reed_op *op, const char *name) {
  for (int32_t i = 0; i < op->n_attrs; i++) {
    const char *row = op->attrs[i].name;
    if (row == name || (row[0] == name[0] && strcmp(row, name) == 0)) return &op->attrs[i];
  }
  return NULL;
}

/* The row's value as an attribute with the row's name and type. */
static reed_attr value_of(const reed_op_attr *row) {
  reed_attr value = *row->otherwise;
  value.name = row->name;
  value.type = row->type;
  return value;
}

bool op_attr_is_default(const reed_op *op, const reed_attr *attr) {
  const reed_op_attr *row = op_attr_row(op, attr->name);
  if (!row || !row->otherwise) return false;
  const reed_attr value = value_of(row);
  return attr_equal(&value, attr);
}

int64_t op_attr_each(const reed_op *op, const char *name) {
  const reed_op_attr *row = op_attr_row(op, name);
  assert(row && row->each);
  return row && row->each ? *row->each : 0;
}

bool op_attr_is_each(const reed_op *op, const reed_attr *attr) {
  const reed_op_attr *row = op_attr_row(op, attr->name);
  if (!row || !row->each || attr->type != REED_ATTR_INTS) return false;
  for (int64_t i = 0; i < attr->n; i++)
    if (attr->ints[i] != *row->each) return false;
  return true;
}

static void insert(reed_attr *items, int32_t *n, const reed_attr *attr) {
  int32_t at = (*n)++;
  for (; at > 0 && strcmp(items[at - 1].name, attr->name) > 0; at--) items[at] = items[at - 1];
  items[at] = *attr;
}

reed_attrs op_attrs_complete(const reed_op *op, const reed_attrs *given, reed_attr *out_items) {
  int32_t n = given->n;
  if (n) memcpy(out_items, given->items, (size_t)n * sizeof *out_items);
  for (int32_t i = 0; i < n; i++) {
    const reed_op_attr *row = op_attr_row(op, out_items[i].name);
    if (row) out_items[i].name = row->name;
  }
  for (int32_t i = 0; i < op->n_attrs; i++) {
    if (!op->attrs[i].otherwise || reed_attrs_find(given, op->attrs[i].name)) continue;
    const reed_attr value = value_of(&op->attrs[i]);
    insert(out_items, &n, &value);
  }
  return (reed_attrs){out_items, n};
}

int32_t op_attrs_completed(const reed_op *op, const reed_attrs *given) {
  int32_t n = given->n;
  for (int32_t i = 0; i < op->n_attrs; i++) n += op->attrs[i].otherwise && !reed_attrs_find(given, op->attrs[i].name);
  return n;
}

/* Asserts that the attribute is present. Lists are completed and checked against the row before they are read, so an
 * absent attribute here is a misspelled name or a list that was never completed. */
static const reed_attr *present(const reed_attrs *attrs, const char *name, reed_attr_type type) {
  static const reed_attr nothing = {.s = ""};
  const reed_attr *attr = reed_attrs_find(attrs, name);
  assert(attr && attr->type == type);
  return attr && attr->type == type ? attr : &nothing;
}

int64_t op_attr_int(const reed_attrs *attrs, const char *name) { return present(attrs, name, REED_ATTR_INT)->i; }
double op_attr_float(const reed_attrs *attrs, const char *name) { return present(attrs, name, REED_ATTR_FLOAT)->f; }
const char *op_attr_string(const reed_attrs *attrs, const char *name) {
  return present(attrs, name, REED_ATTR_STRING)->s;
}

/* The place of a word in a list with blanks between the words; -1: it is not there. */
static int32_t place_of(const char *words, const char *word) {
  for (int32_t i = 0; *words; i++) {
    size_t n = 0;
    while (words[n] && words[n] != ' ' && words[n] == word[n]) n++;
    if ((!words[n] || words[n] == ' ') && !word[n]) return i;
    while (words[n] && words[n] != ' ') n++;
    while (words[n] == ' ') n++;
    words += n;
  }
  return -1;
}

bool op_attr_next_word(const char **words, char *out_word, size_t capacity) {
  size_t n = strcspn(*words, " ");
  if (n) snprintf(out_word, capacity, "%.*s", (int)n, *words);
  *words += n + strspn(*words + n, " ");
  return n > 0;
}

int32_t op_attr_word(const reed_op *op, const reed_attrs *attrs, const char *name) {
  int32_t place = place_of(op_attr_row(op, name)->words, op_attr_string(attrs, name));
  assert(place >= 0);
  return place < 0 ? 0 : place;
}

static bool in_range(const reed_op_attr *row, int64_t number) { return number >= row->least && number <= row->most; }

bool op_attr_is_valid(const reed_op_attr *row, const reed_attr *attr, int64_t *out_at) {
  *out_at = 0;
  if (row->words) return place_of(row->words, attr->s) >= 0;
  if (!op_attr_has_range(row)) return true;
  switch (attr->type) {
    case REED_ATTR_INT: return in_range(row, attr->i);
    case REED_ATTR_FLOAT:
      return attr->f >= (double)row->least && (row->most == INT64_MAX || attr->f <= (double)row->most);
    case REED_ATTR_INTS:
      while (*out_at < attr->n && in_range(row, attr->ints[*out_at])) ++*out_at;
      return *out_at == attr->n;
    case REED_ATTR_STRING:
    case REED_ATTR_FLOATS:
    case REED_ATTR_TENSOR: break;
  }
  return true;
}

reed_reads op_reads(const reed_op *op, const reed_attrs *attrs, int32_t i) {
  const reed_op_input *row = reed_op_input_at(op, i);
  if (!row) return REED_READS_NONE;
  if (!row->reads_attr) return row->reads;
  const reed_attr *given = reed_attrs_find(attrs, row->reads_attr);
  const reed_op_attr *declared = given ? NULL : op_attr_row(op, row->reads_attr);
  const char *word = given ? given->s : declared && declared->otherwise ? declared->otherwise->s : NULL;
  return word && strcmp(word, row->reads_word) == 0 ? row->reads : REED_READS_NONE;
}

static reed_dtype dtype_in(const reed_attr *attr) {
  if (attr->type == REED_ATTR_TENSOR) return attr->desc.dtype;
  bool valid = attr->type == REED_ATTR_INT && attr->i > REED_NONE && attr->i < REED_DTYPE_COUNT;
  return valid ? (reed_dtype)attr->i : REED_DTYPE_COUNT;
}

reed_dtype op_output_dtype(const reed_op *op, const reed_attrs *attrs, int32_t i, int32_t n_inputs,
                           const reed_dtype *inputs) {
  const reed_op_output *row = reed_op_output_at(op, i);
  if (!row) return REED_NONE;
  switch (row->type_rule) {
    case REED_TYPE_CUSTOM: return REED_NONE;
    case REED_TYPE_FIXED: return (reed_dtype)row->type_arg;
    case REED_TYPE_ATTR: {
      const reed_attr *attr = reed_attrs_find(attrs, row->type_attr);
      if (attr) return dtype_in(attr);
      break;
    }
    case REED_TYPE_LIKE: break;
  }
  return row->type_arg < n_inputs ? inputs[row->type_arg] : REED_NONE;
}
