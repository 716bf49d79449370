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

static bool is_name(void *context, const char *name) { return strcmp(context, name) == 0; }

typedef struct name_list {
  text_buffer text;
  VEC_OF(const char *) names;
} name_list;

static bool add_name(void *context, const char *name) {
  name_list *l = context;
  for (size_t i = 0; i < l->names.n; i++)
    if (strcmp(l->names.items[i], name) == 0) return false;
  text_append(&l->text, "%s'%s'", l->names.n ? ", " : "", name);
  if (!VEC_PUSH(&l->names, name)) l->text.failed = true;
  return false;
}

static reed_status refuse_name(const onnx_reader *r, const Onnx__GraphProto *g, const char *name) {
  name_list l = {0};
  find_name(g, add_name, &l);
  reed_status status =
      l.text.failed ? diag_no_memory(r->diagnosis, "the names of dims")
      : l.names.n   ? diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                                "no input of the model has a dim named '%s'; the names are %s", name, l.text.data)
                    : diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                                "no input of the model has a dim named '%s'; no dim has a name", name);
  VEC_FREE(&l.names);
  text_fini(&l.text);
  return status;
}

/* Lists a range; `name` lives as long as the module, or is the caller's. */
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

typedef struct tied_search {
  onnx_reader *r;
  reed_status status;
} tied_search;

/* Lists the range of a name that is computed from declared ones. True: an error. */
static bool add_tied(void *context, const char *name) {
  tied_search *search = context;
  onnx_reader *r = search->r;
  reed_dim_range tied;
  char one[64], other[64];
  if (!onnx_tied_range(name, r->m->dims, r->m->n_dims, &tied)) return false;
  const reed_dim_range *given = range_named(r->m, name);
  if (tied.high < tied.low)
    search->status = diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                               "by the ranges of the names in it, dim '%s' can have no extent", name);
  else if (given && (given->high < tied.low || tied.high < given->low))
    search->status = diag_fail(r->diagnosis, REED_ERROR_ARGUMENT,
                               "the range %s of dim '%s' contradicts the ranges of the names in it, which give %s",
                               range_text(given->low, given->high, one, sizeof one), name,
                               range_text(tied.low, tied.high, other, sizeof other));
  else if (!given) search->status = list_range(r, ir_text(r->m, "%s", name), tied.low, tied.high);
  return search->status != REED_OK;
}

reed_status onnx_declare_ranges(onnx_reader *r, const Onnx__GraphProto *g) {
  const reed_dim_range *dims = r->m->dims;
  for (size_t i = 0; i < r->m->n_dims; i++) {
    const char *name = onnx_text(dims[i].name);
    char text[64];
    if (dims[i].low < 0 || dims[i].low > dims[i].high)
      return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "the range %s of dim '%s' is no range of extents",
                       range_text(dims[i].low, dims[i].high, text, sizeof text), name);
    if (range_named(r->m, name))
      return diag_fail(r->diagnosis, REED_ERROR_ARGUMENT, "two ranges are given for dim '%s'", name);
    if (!*name || !find_name(g, is_name, (void *)(uintptr_t)name)) return refuse_name(r, g, name);
    reed_status status = list_range(r, name, dims[i].low, dims[i].high);
    if (status != REED_OK) return status;
  }
  tied_search search = {r, REED_OK};
  if (r->m->n_dims) find_name(g, add_tied, &search);
  return search.status;
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
