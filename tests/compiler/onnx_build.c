/* Models over the protobuf structs (onnx_build.h). */
#include "tests/compiler/onnx_build.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
  struct block *next;
} block;

struct onnx_build {
  struct onnx_build *root; /* owns the blocks */
  block *blocks;
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto opset;
  Onnx__OperatorSetIdProto *opsets[1];
};

static void *take(onnx_build *b, size_t bytes) {
  block *made = calloc(1, sizeof *made + 16 + bytes);
  if (!made) abort();
  made->next = b->root->blocks;
  b->root->blocks = made;
  return (char *)made + 16;
}

static char *text(onnx_build *b, const char *from, size_t n) { return memcpy(take(b, n + 1), from, n); }
static char *copy(onnx_build *b, const char *from) { return text(b, from, strlen(from)); }

/* One more pointer at the end of a protobuf list. */
#define APPEND(b, list, n, item) \
  do { \
    void **grown_ = take((b), ((n) + 1) * sizeof *(list)); \
    if (n) memcpy(grown_, (list), (n) * sizeof *(list)); \
    grown_[(n)++] = (item); \
    (list) = (void *)grown_; \
  } while (0)

/* "a,b,,c" -> four texts; "" -> none. */
static size_t split(onnx_build *b, const char *list, char ***out_items) {
  size_t n = 0;
  char **items = take(b, (strlen(list) + 1) * sizeof *items);
  for (const char *at = list; *list;) {
    size_t length = strcspn(at, ",");
    items[n++] = text(b, at, length);
    if (!at[length]) break;
    at += length + 1;
  }
  *out_items = items;
  return n;
}

static void init(onnx_build *b, onnx_build *root, int64_t opset) {
  b->root = root;
  b->graph = (Onnx__GraphProto)ONNX__GRAPH_PROTO__INIT;
  b->graph.name = copy(b, "test");
  b->model = (Onnx__ModelProto)ONNX__MODEL_PROTO__INIT;
  b->model.has_ir_version = true;
  b->model.ir_version = 8;
  b->model.graph = &b->graph;
  b->opset = (Onnx__OperatorSetIdProto)ONNX__OPERATOR_SET_ID_PROTO__INIT;
  b->opset.has_version = true;
  b->opset.version = opset;
  b->opset.domain = copy(b, "");
  b->opsets[0] = &b->opset;
  b->model.opset_import = b->opsets;
  b->model.n_opset_import = 1;
}

onnx_build *build_open(int64_t opset) {
  onnx_build *b = calloc(1, sizeof *b);
  if (!b) abort();
  init(b, b, opset);
  return b;
}

onnx_build *build_subgraph(onnx_build *b) {
  onnx_build *made = take(b, sizeof *made);
  init(made, b->root, b->opset.version);
  return made;
}

void build_close(onnx_build **b) {
  for (block *at = (*b)->blocks, *next; at; at = next) {
    next = at->next;
    free(at);
  }
  free(*b);
  *b = NULL;
}

Onnx__ModelProto *build_model(onnx_build *b) { return &b->model; }
Onnx__GraphProto *build_graph(onnx_build *b) { return &b->graph; }

const void *build_pack(onnx_build *b, size_t *out_n) {
  *out_n = onnx__model_proto__get_packed_size(&b->model);
  void *bytes = take(b, *out_n);
  onnx__model_proto__pack(&b->model, bytes);
  return bytes;
}

static int32_t onnx_number(reed_dtype dtype) {
  static const int32_t numbers[] = {
#define NUMBER(name, text, bytes, dlpack, onnx) [REED_##name] = onnx,
      REED_DTYPE_LIST(NUMBER)
#undef NUMBER
  };
  return numbers[dtype];
}

/* ---- values ---- */

static Onnx__ValueInfoProto *value_info(onnx_build *b, const char *name, const char *type) {
  Onnx__ValueInfoProto *info = take(b, sizeof *info);
  *info = (Onnx__ValueInfoProto)ONNX__VALUE_INFO_PROTO__INIT;
  info->name = copy(b, name);
  info->type = take(b, sizeof *info->type);
  *info->type = (Onnx__TypeProto)ONNX__TYPE_PROTO__INIT;
  info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  Onnx__TypeProto__Tensor *tensor = take(b, sizeof *tensor);
  *tensor = (Onnx__TypeProto__Tensor)ONNX__TYPE_PROTO__TENSOR__INIT;
  info->type->tensor_type = tensor;
  size_t n_dtype = strcspn(type, "[");
  tensor->has_elem_type = true;
  tensor->elem_type = onnx_number(reed_dtype_parse(text(b, type, n_dtype)));
  if (!type[n_dtype]) return info;
  tensor->shape = take(b, sizeof *tensor->shape);
  *tensor->shape = (Onnx__TensorShapeProto)ONNX__TENSOR_SHAPE_PROTO__INIT;
  char **dims;
  size_t n = split(b, text(b, type + n_dtype + 1, strlen(type) - n_dtype - 2), &dims);
  for (size_t i = 0; i < n; i++) {
    Onnx__TensorShapeProto__Dimension *d = take(b, sizeof *d);
    *d = (Onnx__TensorShapeProto__Dimension)ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
    char *end;
    int64_t number = strtoll(dims[i], &end, 10);
    if (!*end) {
      d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      d->dim_value = number;
    } else if (strcmp(dims[i], "?") != 0) {
      d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
      d->dim_param = dims[i];
    }
    APPEND(b, tensor->shape->dim, tensor->shape->n_dim, d);
  }
  return info;
}

void build_input(onnx_build *b, const char *name, const char *type) {
  APPEND(b, b->graph.input, b->graph.n_input, value_info(b, name, type));
}
void build_output(onnx_build *b, const char *name, const char *type) {
  APPEND(b, b->graph.output, b->graph.n_output, value_info(b, name, type));
}

/* ---- tensors ---- */

static void set_typed(onnx_build *b, Onnx__TensorProto *t, reed_dtype dtype, size_t n, const void *elements) {
  size_t bytes = reed_dtype_bytes(dtype);
  if (dtype == REED_F32) {
    t->float_data = memcpy(take(b, n * bytes), elements, n * bytes);
    t->n_float_data = n;
  } else if (dtype == REED_F64) {
    t->double_data = memcpy(take(b, n * bytes), elements, n * bytes);
    t->n_double_data = n;
  } else if (dtype == REED_I64) {
    t->int64_data = memcpy(take(b, n * bytes), elements, n * bytes);
    t->n_int64_data = n;
  } else if (dtype == REED_U64 || dtype == REED_U32) {
    t->uint64_data = take(b, n * 8);
    for (size_t i = 0; i < n; i++) memcpy(&t->uint64_data[i], (const char *)elements + i * bytes, bytes);
    t->n_uint64_data = n;
  } else {
    t->int32_data = take(b, n * 4);
    for (size_t i = 0; i < n; i++) memcpy(&t->int32_data[i], (const char *)elements + i * bytes, bytes);
    t->n_int32_data = n;
  }
}

static Onnx__TensorProto *tensor(onnx_build *b, reed_dtype dtype, const char *dims, const void *elements, bool raw) {
  Onnx__TensorProto *t = take(b, sizeof *t);
  *t = (Onnx__TensorProto)ONNX__TENSOR_PROTO__INIT;
  char **items;
  t->n_dims = split(b, dims, &items);
  t->dims = take(b, t->n_dims * sizeof *t->dims);
  size_t n = 1;
  for (size_t i = 0; i < t->n_dims; i++) n *= (size_t)(t->dims[i] = strtoll(items[i], NULL, 10));
  t->has_data_type = true;
  t->data_type = onnx_number(dtype);
  size_t bytes = n * reed_dtype_bytes(dtype);
  if (raw) {
    t->has_raw_data = true;
    t->raw_data.len = bytes;
    t->raw_data.data = memcpy(take(b, bytes), elements, bytes);
  } else {
    set_typed(b, t, dtype, n, elements);
  }
  return t;
}

Onnx__TensorProto *build_tensor(onnx_build *b, const char *name, reed_dtype dtype, const char *dims,
                                const void *elements, bool raw) {
  Onnx__TensorProto *t = tensor(b, dtype, dims, elements, raw);
  t->name = copy(b, name);
  APPEND(b, b->graph.initializer, b->graph.n_initializer, t);
  return t;
}

Onnx__TensorProto *build_f32(onnx_build *b, const char *name, const char *dims, const float *elements) {
  return build_tensor(b, name, REED_F32, dims, elements, true);
}

Onnx__TensorProto *build_i64(onnx_build *b, const char *name, const char *dims, const int64_t *elements) {
  return build_tensor(b, name, REED_I64, dims, elements, false);
}

Onnx__TensorProto *build_loose_tensor(onnx_build *b, reed_dtype dtype, const char *dims, const void *elements) {
  return tensor(b, dtype, dims, elements, true);
}

/* ---- nodes ---- */

build_node_t *build_node(onnx_build *b, const char *op, const char *inputs, const char *outputs) {
  build_node_t *n = take(b, sizeof *n);
  *n = (build_node_t)ONNX__NODE_PROTO__INIT;
  const char *dot = strrchr(op, '.');
  n->domain = dot ? text(b, op, (size_t)(dot - op)) : NULL;
  n->op_type = copy(b, dot ? dot + 1 : op);
  n->n_input = split(b, inputs, &n->input);
  n->n_output = split(b, outputs, &n->output);
  size_t length = n->n_output ? strlen(n->output[0]) : 0;
  n->name = take(b, length + 6);
  if (n->n_output) memcpy(n->name, n->output[0], length);
  strcpy(n->name + length, "_node");
  APPEND(b, b->graph.node, b->graph.n_node, n);
  return n;
}

static Onnx__AttributeProto *attribute(onnx_build *b, build_node_t *n, const char *name,
                                       Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a = take(b, sizeof *a);
  *a = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
  a->name = copy(b, name);
  a->has_type = true;
  a->type = type;
  APPEND(b, n->attribute, n->n_attribute, a);
  return a;
}

Onnx__AttributeProto *build_int(onnx_build *b, build_node_t *n, const char *name, int64_t value) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->has_i = true;
  a->i = value;
  return a;
}

Onnx__AttributeProto *build_float(onnx_build *b, build_node_t *n, const char *name, float value) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  a->has_f = true;
  a->f = value;
  return a;
}

Onnx__AttributeProto *build_string(onnx_build *b, build_node_t *n, const char *name, const char *value) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  a->has_s = true;
  a->s.len = strlen(value);
  a->s.data = (uint8_t *)copy(b, value);
  return a;
}

Onnx__AttributeProto *build_strings(onnx_build *b, build_node_t *n, const char *name, const char *values) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
  char **items;
  a->n_strings = split(b, values, &items);
  a->strings = take(b, a->n_strings * sizeof *a->strings);
  for (size_t i = 0; i < a->n_strings; i++)
    a->strings[i] = (ProtobufCBinaryData){strlen(items[i]), (uint8_t *)items[i]};
  return a;
}

Onnx__AttributeProto *build_ints(onnx_build *b, build_node_t *n, const char *name, const char *numbers) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  char **items;
  a->n_ints = split(b, numbers, &items);
  a->ints = take(b, a->n_ints * sizeof *a->ints);
  for (size_t i = 0; i < a->n_ints; i++) a->ints[i] = strtoll(items[i], NULL, 10);
  return a;
}

Onnx__AttributeProto *build_floats(onnx_build *b, build_node_t *n, const char *name, const char *numbers) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
  char **items;
  a->n_floats = split(b, numbers, &items);
  a->floats = take(b, a->n_floats * sizeof *a->floats);
  for (size_t i = 0; i < a->n_floats; i++) a->floats[i] = strtof(items[i], NULL);
  return a;
}

Onnx__AttributeProto *build_tensor_attr(onnx_build *b, build_node_t *n, const char *name, Onnx__TensorProto *t) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
  a->t = t;
  return a;
}

Onnx__AttributeProto *build_graph_attr(onnx_build *b, build_node_t *n, const char *name, onnx_build *body) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  a->g = &body->graph;
  return a;
}

Onnx__AttributeProto *build_ref_attr(onnx_build *b, build_node_t *n, const char *name, const char *ref) {
  Onnx__AttributeProto *a = attribute(b, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  a->ref_attr_name = copy(b, ref);
  return a;
}

void build_function(onnx_build *b, const char *domain, const char *name, const char *inputs, const char *outputs,
                    const char *attributes, onnx_build *body) {
  Onnx__FunctionProto *f = take(b, sizeof *f);
  *f = (Onnx__FunctionProto)ONNX__FUNCTION_PROTO__INIT;
  f->domain = copy(b, domain);
  f->name = copy(b, name);
  f->n_input = split(b, inputs, &f->input);
  f->n_output = split(b, outputs, &f->output);
  f->n_attribute = split(b, attributes, &f->attribute);
  f->node = body->graph.node;
  f->n_node = body->graph.n_node;
  f->opset_import = body->opsets;
  f->n_opset_import = 1;
  APPEND(b, b->model.functions, b->model.n_functions, f);
}
