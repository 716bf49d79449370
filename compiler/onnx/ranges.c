/* Declared ranges of the dims of a model's inputs (reed_compile_options.dims): checked against the names that the
 * inputs have, given to the symbols, and noted for the module. Dims themselves: graph.c. */
#include <string.h>

#include "compiler/onnx/reader.h"

/* True for names that exporters give to unknown dims: two dims with such a name are not equal. */
static bool is_anonymous(const char *name) {
  static const char *const words[] = {"", "*", "None", "none", "null", "unk", "unknown", "-1"};
  static const char *const numbered[] = {"?", "unk__", "unknown_",
                                         "unk_"}; /* followed by digits or "?", or by nothing */
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(name, words[i]) == 0) return true;
  for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++) {
    size_t n = strlen(numbered[i]);
    if (strncmp(name, numbered[i], n) == 0 && strspn(name + n, "?0123456789") == strlen(name + n)) return true;
  }
  return false;
}

const char *onnx_dim_name(const Onnx__TensorShapeProto__Dimension *d) {
  bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
  return named && !is_anonymous(onnx_text(d->dim_param)) ? d->dim_param : "";
}

/* The shape of an input; NULL: none is declared. */
static const Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *input) {
  const Onnx__TypeProto *type = input->type;
  bool tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
  return tensor ? type->tensor_type->shape : NULL;
}

static bool is_initializer(const Onnx__GraphProto *g, const char *name) {
  for (size_t i = 0; i < g->n_initializer; i++)
    if (strcmp(onnx_text(g->initializer[i]->name), name) == 0) return true;
  return false;
}

/* Calls `visit` with the name of each named dim of the model's inputs until it returns true. */
static bool find_name(const Onnx__GraphProto *g, bool (*visit)(void *context, const char *name), void *context) {
  for (size_t i = 0; i < g->n_input; i++) {
    const Onnx__TensorShapeProto *shape = shape_of(g->input[i]);
    if (!shape || is_initializer(g, onnx_text(g->input[i]->name))) continue;
    for (size_t k = 0; k < shape->n_dim; k++)
      if (*onnx_dim_name(shape->dim[k]) && visit(context, onnx_dim_name(shape->dim[k]))) return true;
  }
  return false;
}

typedef struct name_list {
  VEC_OF(onnx_named_range) names;
  bool failed;
} name_list;

static onnx_named_range *find(const name_list *l, const char *name) {
  for (size_t i = 0; i < l->names.n; i++)
    if (strcmp(l->names.items[i].name, name) == 0) return &l->names.items[i];
  return NULL;
}

static bool add_name(void *context, const char *name) {
  name_list *l = context;
  if (find(l, name)) return false;
  l->failed |= !VEC_PUSH(&l->names, ((onnx_named_range){.name = name, .high = INT64_MAX}));
  return l->failed;
}

static reed_status refuse_name(const onnx_reader *r, const name_list *l, const char *name) {
  text_buffer text = {0};
  for (size_t i = 0; i < l->names.n; i++) text_append(&text, "%s'%s'", i ? ", " : "", l->names.items[i].name);
  reed_status status = text.failed ? diag_no_memory(r->diagnosis, "the names of dims")
                       : l->names.n
                           ? diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                                       "no input of the model has a dim named '%s'; the names are %s", name, text.data)
                           : diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                                       "no input of the model has a dim named '%s'; no dim has a name", name);
  text_fini(&text);
  return status;
}

/* Lists a range; `name` lives as long as the module; NULL: no memory. */
static reed_status list_range(onnx_reader *r, const char *name, int64_t low, int64_t high) {
  if (!name || !VEC_PUSH(&r->m->declared, ((reed_dim_range){name, low, high})))
    return diag_no_memory(r->diagnosis, "declared ranges");
  symbols_declare_range(r->m->symbols, name, low, high);
  return REED_OK;
}

static const reed_dim_range *range_named(const ir_module *m, const char *name) {
  for (size_t i = 0; i < m->declared.n; i++)
    if (strcmp(m->declared.items[i].name, name) == 0) return &m->declared.items[i];
  return NULL;
}

/* Reads the caller's ranges. */
static reed_status take_given(const onnx_reader *r, const name_list *l) {
  const reed_dim_range *dims = r->m->dims;
  for (size_t i = 0; i < r->m->n_dims; i++) {
    const char *name = onnx_text(dims[i].name);
    char text[64];
    if (dims[i].low < 0 || dims[i].low > dims[i].high)
      return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "the range %s of dim '%s' is no range of extents",
                       range_text(dims[i].low, dims[i].high, text, sizeof text), name);
    onnx_named_range *named = *name ? find(l, name) : NULL;
    if (!named) return refuse_name(r, l, name);
    if (named->given) return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "two ranges are given for dim '%s'", name);
    *named = (onnx_named_range){named->name, dims[i].low, dims[i].high, .given = true};
  }
  return REED_OK;
}

/* The names in `self`, whose parts are marked, contradict its range, or give it none. */
static reed_status refuse_tied(const onnx_reader *r, const name_list *l, const onnx_named_range *self, onnx_tie tie,
                               const onnx_named_range *computed, const uint8_t *parts) {
  char own[64], other[64];
  text_buffer text = {0};
  for (size_t i = 0; i < l->names.n; i++)
    if (parts[i])
      text_append(&text, "%s%s=%s", text.n ? ", " : "", l->names.items[i].name,
                  range_text(l->names.items[i].low, l->names.items[i].high, other, sizeof other));
  range_text(self->low, self->high, own, sizeof own);
  range_text(computed->low, computed->high, other, sizeof other);
  reed_status status =
      text.failed ? diag_no_memory(r->diagnosis, "declared ranges")
      : tie == ONNX_TIE_EMPTY_PART
          ? diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                      "the range %s of dim '%s' leaves no extent to dim '%s', whose range is %s (%s)", own, self->name,
                      computed->name, other, text.data)
      : !self->given
          ? diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "by %s, dim '%s' can have no extent", text.data, self->name)
          : diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "the range %s of dim '%s' contradicts %s, which gives it %s",
                      own, self->name, text.data, other);
  text_fini(&text);
  return status;
}

enum { MAX_ROUNDS = 32 }; /* of narrowing; ranges that are not as narrow as they could be are true, too */

/* Makes the ranges as narrow as they make each other. */
static reed_status tie_all(const onnx_reader *r, const name_list *l) {
  uint8_t *parts = mem_alloc(l->names.n);
  if (!parts) return diag_no_memory(r->diagnosis, "declared ranges");
  reed_status status = REED_OK;
  bool narrower = true;
  for (int round = 0; round < MAX_ROUNDS && narrower && status == REED_OK; round++) {
    narrower = false;
    for (size_t i = 0; i < l->names.n && status == REED_OK; i++) {
      onnx_named_range computed;
      onnx_tie tie = onnx_tie_range(l->names.items, l->names.n, i, &computed, parts);
      narrower |= tie == ONNX_TIE_NARROWER;
      if (tie == ONNX_TIE_EMPTY || tie == ONNX_TIE_EMPTY_PART)
        status = refuse_tied(r, l, &l->names.items[i], tie, &computed, parts);
    }
  }
  mem_free(parts);
  return status;
}

reed_status onnx_declare_ranges(onnx_reader *r, const Onnx__GraphProto *g) {
  if (!r->m->n_dims) return REED_OK;
  name_list l = {0};
  find_name(g, add_name, &l);
  reed_status status = l.failed ? diag_no_memory(r->diagnosis, "the names of dims") : take_given(r, &l);
  if (status == REED_OK) status = tie_all(r, &l);
  for (size_t i = 0; i < l.names.n && status == REED_OK; i++) {
    const onnx_named_range *n = &l.names.items[i];
    if (n->given || n->tied || n->low > 0 || n->high < INT64_MAX)
      status = list_range(r, ir_text(r->m, "%s", n->name), n->low, n->high);
  }
  VEC_FREE(&l.names);
  return status;
}

reed_status onnx_note_ranges(onnx_reader *r, const Onnx__ValueInfoProto *input, int32_t param) {
  const Onnx__TensorShapeProto *shape = shape_of(input);
  for (size_t axis = 0; shape && axis < shape->n_dim; axis++) {
    const reed_dim_range *range = range_named(r->m, onnx_dim_name(shape->dim[axis]));
    if (range && !VEC_PUSH(&r->m->ranges, ((ir_range){param, (int32_t)axis, *range})))
      return diag_no_memory(r->diagnosis, "declared ranges");
  }
  return REED_OK;
}
