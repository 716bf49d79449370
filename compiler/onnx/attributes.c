/* Attributes of a node: ONNX structs -> reed_attr in the module's memory, resolution of references inside functions,
 * and the check against the operator's row. Attributes that are graphs are read as bodies in graph.c. */
#include <string.h>

#include "bytecode/format.h"
#include "compiler/onnx/reader.h"

static Onnx__AttributeProto__AttributeType type_of(const Onnx__AttributeProto *a) {
  if (a->type) return a->type;
  /* IR versions before 3 may leave the type out: the field that is set decides */
  if (a->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  if (a->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  if (a->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
  if (a->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  if (a->g) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
  if (a->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
  if (a->n_ints) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  if (a->n_strings) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
  return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

const Onnx__AttributeProto *onnx_dereferenced(const onnx_frame *f, const Onnx__AttributeProto *a) {
  while (a && a->ref_attr_name && *a->ref_attr_name) {
    while (f && !f->call) f = f->caller; /* skips the bodies of If, Loop and Scan inside the function */
    if (!f) return NULL;
    const Onnx__AttributeProto *given = NULL;
    for (size_t i = 0; i < f->call->n_attribute && !given; i++)
      if (strcmp(onnx_text(f->call->attribute[i]->name), a->ref_attr_name) == 0) given = f->call->attribute[i];
    a = given;
    f = f->caller;
  }
  return a;
}

/* Copies floats to the arena as doubles, the IR's form. */
static bool copy_floats(ir_module *m, const Onnx__AttributeProto *a, reed_attr *out_attr) {
  double *floats = ir_alloc(m, a->n_floats * sizeof *floats);
  if (!floats) return false;
  for (size_t i = 0; i < a->n_floats; i++) floats[i] = a->floats[i];
  out_attr->floats = floats;
  out_attr->n = (int64_t)a->n_floats;
  return true;
}

/* Joins a list of strings to one string with commas. *out_text NULL: the bytes are not UTF-8. */
static reed_status join_strings(onnx_reader *r, const Onnx__AttributeProto *a, const char **out_text) {
  text_buffer text = {0};
  bool valid = true;
  for (size_t i = 0; i < a->n_strings; i++) {
    if (i) text_append(&text, ",");
    text_append_bytes(&text, a->strings[i].data, a->strings[i].len);
    valid = valid && utf8_valid((const char *)a->strings[i].data, a->strings[i].len);
  }
  *out_text = valid && !text.failed ? ir_text(r->m, "%s", text.data ? text.data : "") : NULL;
  bool out_of_memory = text.failed || (valid && !*out_text);
  text_fini(&text);
  return out_of_memory ? diag_no_memory(r->diagnosis, "attributes") : REED_OK;
}

/* Reads one attribute. `name` is the attribute's name at this node; a referenced attribute may have another name. */
static reed_status read_attr(onnx_reader *r, const onnx_frame *f, ir_node *n, const char *name,
                             const Onnx__AttributeProto *a) {
  reed_attr attr = {.name = name};
  bool ok = true;
  switch (type_of(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
      attr.type = REED_ATTR_INT;
      attr.i = a->i;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
      attr.type = REED_ATTR_FLOAT;
      attr.f = a->f;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
      if (!utf8_valid((const char *)a->s.data, a->s.len))
        return onnx_unsupported(r, n->name, "attribute '%s' of %s: its bytes are no text", name, n->op->name);
      attr.type = REED_ATTR_STRING;
      attr.s = ir_text(r->m, "%.*s", (int)(a->s.len < INT32_MAX ? a->s.len : INT32_MAX),
                       a->s.len ? (const char *)a->s.data : "");
      ok = attr.s != NULL;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS: {
      attr.type = REED_ATTR_STRING;
      reed_status status = join_strings(r, a, &attr.s);
      if (status != REED_OK) return status;
      if (!attr.s)
        return onnx_unsupported(r, n->name, "attribute '%s' of %s: its bytes are no text", name, n->op->name);
      break;
    }
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
      attr.type = REED_ATTR_INTS;
      attr.ints = a->n_ints ? a->ints : (int64_t[]){0};
      attr.n = (int64_t)a->n_ints;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
      attr.type = REED_ATTR_FLOATS;
      ok = copy_floats(r->m, a, &attr);
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR: {
      if (!a->t)
        return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s': attribute '%s' has no tensor", n->name, name);
      const void *data;
      attr.type = REED_ATTR_TENSOR;
      reed_status status = onnx_read_tensor(r, a->t, n->name, &attr.desc, &data);
      if (status != REED_OK || !data) return status;
      attr.data = data;
      attr.n = desc_elements(&attr.desc);
      break;
    }
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
      if (op_is_control(n->op)) return REED_OK; /* read by read_regions */
      return onnx_unsupported(r, n->name, "attribute '%s' (a graph) of %s", name, n->op->name);
    default: return onnx_unsupported(r, n->name, "attribute '%s' of %s: its type", name, n->op->name);
  }
  return ok && ir_set_attr(n, &attr) ? REED_OK : diag_no_memory(r->diagnosis, "attributes");
}

const Onnx__AttributeProto *onnx_find_attribute(const onnx_frame *f, const Onnx__NodeProto *node, const char *name) {
  const Onnx__AttributeProto *found = NULL;
  for (size_t i = 0; i < node->n_attribute && !found; i++)
    if (strcmp(onnx_text(node->attribute[i]->name), name) == 0) found = onnx_dereferenced(f, node->attribute[i]);
  return found;
}

reed_status onnx_read_attrs(onnx_reader *r, const onnx_frame *f, ir_node *n, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *a = onnx_dereferenced(f, node->attribute[i]);
    const char *name = onnx_text(node->attribute[i]->name);
    if (!*name)
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): an attribute has no name", n->name,
                       n->op->name);
    reed_status status = a ? read_attr(r, f, n, name, a) : REED_OK;
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

reed_status onnx_check_attrs(onnx_reader *r, const ir_node *n) {
  for (int32_t i = 0; i < n->n_attrs; i++) {
    const reed_op_attr *row = op_attr_row(n->op, n->attrs[i].name);
    reed_status status = REED_OK;
    if (!row) status = onnx_unsupported(r, n->name, "attribute '%s' of %s", n->attrs[i].name, n->op->name);
    else if (row->type != n->attrs[i].type)
      status = diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): attribute '%s' is of the wrong type",
                         n->name, n->op->name, row->name);
    if (status != REED_OK) return status;
  }
  reed_attrs attrs = ir_attrs(n);
  for (int32_t k = 0; k < n->op->n_attrs; k++)
    if (n->op->attrs[k].required && !reed_attrs_find(&attrs, n->op->attrs[k].name))
      return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): attribute '%s' is missing", n->name,
                       n->op->name, n->op->attrs[k].name);
  return REED_OK;
}
