/* The parser of infer.h. Its texts are written by tests, so it does not check them. */
#include "tests/shapefuncs/infer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number, a named dim or "?"; the rest of the text. */
static const char *parse_dim(inference *run, const char *p, bool value, reed_dim *out) {
  char name[40];
  size_t n = 0;
  if (*p == '?') {
    *out = value ? symbols_fresh_value(run->symbols) : symbols_fresh_extent(run->symbols);
    return p + 1;
  }
  if (!isalpha((unsigned char)*p)) return *out = strtoll(p, (char **)&p, 10), p;
  while (isalnum((unsigned char)*p) || *p == '_') name[n++] = *p++;
  name[n] = 0;
  *out = symbols_named(run->symbols, name);
  return p;
}

static const char *parse_dims(inference *run, const char *p, reed_shape_input *in, reed_dim *dims) {
  in->dims = dims;
  if (strncmp(p, "[...]", 5) == 0) return in->rank = -1, p + 5;
  for (p++; *p != ']'; p += *p == ',') p = parse_dim(run, p, false, &dims[in->rank++]);
  return p + 1;
}

static const char *parse_values(inference *run, const char *p, int32_t i) {
  reed_shape_input *in = &run->inputs[i];
  size_t bytes = reed_dtype_bytes(in->dtype);
  bool known = true;
  for (p++; *p != '}'; p += *p == ',') {
    int64_t k = in->n_values++;
    const char *end = parse_dim(run, p, true, &run->values[i][k]);
    double number = strtod(p, NULL);
    known = known && (*p == '-' || isdigit((unsigned char)*p));
    if (in->dtype == REED_I64) memcpy(run->data[i] + (size_t)k * bytes, &run->values[i][k], bytes);
    else reed_dtype_write(in->dtype, run->data[i] + (size_t)k * bytes, number);
    /* parse_dim reads 0.5 up to the point: the rest of the number is skipped */
    if (known && end < strpbrk(p, ",}")) end = strpbrk(p, ",}");
    p = end;
  }
  if (known) in->data = run->data[i];
  else in->values = run->values[i];
  return p + 1;
}

static const char *parse_input(inference *run, const char *p) {
  int32_t i = run->n_inputs++;
  reed_shape_input *in = &run->inputs[i];
  char dtype[8];
  size_t n = strcspn(p, "[{ ");
  if (*p == '-') return p + 1;
  memcpy(dtype, p, n);
  dtype[n] = 0;
  in->dtype = reed_dtype_parse(dtype);
  p += n;
  bool list = *p == '{';
  if (*p == '[') p = parse_dims(run, p, in, run->dims[i]);
  if (*p == '{') p = parse_values(run, p, i);
  if (!list) return p;
  in->rank = 1;
  in->dims = run->dims[i];
  run->dims[i][0] = in->n_values;
  return p;
}

/* Types come from the operator's row. */
static const char *parse_attr(inference *run, const reed_op *op, const char *p) {
  int32_t i = run->n_attrs++;
  reed_attr *a = &run->attrs[i];
  size_t n = strcspn(p, "=");
  memcpy(run->names[i], p, n);
  run->names[i][n] = 0;
  a->name = run->names[i];
  p += n + 1;
  n = strcspn(p, " ");
  memcpy(run->strings[i], p, n);
  run->strings[i][n] = 0;
  for (int32_t k = 0; k < op->n_attrs; k++)
    if (strcmp(op->attrs[k].name, a->name) == 0) a->type = op->attrs[k].type;
  const char *q = run->strings[i];
  a->i = strtoll(q, NULL, 10);
  a->f = strtod(q, NULL);
  a->s = q;
  a->ints = run->ints[i];
  if (*q == '(')
    for (q++; *q != ')'; q += *q == ',') run->ints[i][a->n++] = strtoll(q, (char **)&q, 10);
  for (int64_t k = 0; k < a->n; k++) run->floats[i][k] = (double)run->ints[i][k];
  a->floats = run->floats[i];
  if (a->type == REED_ATTR_TENSOR) {
    a->desc = (reed_desc){.dtype = reed_dtype_parse(strchr(q, ':') + 1)};
    a->n = 1;
    a->data = &run->one_element;
  }
  return p + n;
}

void infer_begin(inference *run, const char *op_text, const char *attrs, const char *inputs) {
  char name[64];
  memset(run, 0, sizeof *run);
  size_t n = strcspn(op_text, "/");
  memcpy(name, op_text, n);
  name[n] = 0;
  run->n_outputs = op_text[n] ? atoi(op_text + n + 1) : 1;
  const reed_op *op = op_find(NULL, "", name);
  if (reed_diagnosis_open(&run->diagnosis)) abort();
  bool symbolic = strpbrk(inputs, "?") || strstr(inputs, "...");
  for (const char *p = inputs; *p; p++) /* a name within brackets */
    if (p > inputs && isalpha((unsigned char)*p) && strchr("[{,", p[-1])) symbolic = true;
  if (symbolic && symbols_open(&run->symbols)) abort();
  for (const char *p = attrs; *p; p += *p == ' ') p = parse_attr(run, op, p);
  for (const char *p = inputs; *p; p += *p == ' ') p = parse_input(run, p);
  const reed_attrs given = {run->attrs, run->n_attrs};
  reed_attr completed[64];
  const reed_attrs list = op_attrs_complete(op, &given, completed);
  run->status = shapefn_run(op, &list, "n", run->n_inputs, run->inputs, run->n_outputs, run->outputs, run->symbols,
                            run->diagnosis);
  /* The check before a run agrees with the one in the call. */
  const bool fits = shapefn_values_fit(op, &list);
  if (run->status ? fits && strstr(reed_diagnosis_message(run->diagnosis), " has no meaning '") : !fits) abort();
}

void infer_end(inference *run) {
  symbols_close(&run->symbols);
  reed_diagnosis_close(&run->diagnosis);
}

/* Appends text with the numbers of fresh unknowns left out. */
static size_t put(char *out, size_t n, const char *text) {
  for (; *text; text++) {
    out[n++] = *text;
    if (*text == '?')
      while (isdigit((unsigned char)text[1])) text++;
  }
  out[n] = 0;
  return n;
}

const char *infer(const char *op, const char *attrs, const char *inputs) {
  static char text[4096];
  char dim[256];
  inference run;
  infer_begin(&run, op, attrs, inputs);
  size_t n = 0;
  if (run.status) n = put(text, 0, reed_diagnosis_message(run.diagnosis));
  for (int32_t i = 0; !run.status && i < run.n_outputs; i++) {
    const reed_shape_output *out = &run.outputs[i];
    n = put(text, n, i ? " [" : "[");
    if (out->rank < 0) n = put(text, n, "...");
    for (int32_t k = 0; k < out->rank; k++) {
      n = put(text, n, k ? "," : "");
      n = put(text, n, k == out->bounded_axis ? "<=" : "");
      if (run.symbols) symbols_text(run.symbols, out->dims[k], dim, sizeof dim);
      else snprintf(dim, sizeof dim, "%lld", (long long)out->dims[k]);
      n = put(text, n, dim);
    }
    n = put(text, n, "]");
  }
  text[n] = 0;
  infer_end(&run);
  return text;
}
