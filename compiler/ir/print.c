/* The graph as text, one line for each node, for reports and tests; no code parses it:
 *
 *   %y: f32[n,64] = Gemm 'fc1' (x, w = f32[64,64]) {transB = 1}
 *
 * Regions are indented below their node. */
#include <stdio.h>
#include <string.h>

#include "compiler/ir/ir.h"

#define SHOWN_ELEMENTS 8

static void print_type(const ir_module *m, const ir_type *t, text_buffer *out) {
  text_append(out, "%s", t->dtype == REED_NONE ? "?" : reed_dtype_name(t->dtype));
  if (t->rank < 0) {
    text_append(out, "[..]");
    return;
  }
  text_append(out, "[");
  char dim[256];
  for (int32_t i = 0; i < t->rank; i++)
    text_append(out, "%s%s", i ? "," : "", symbols_text(m->symbols, t->dims[i], dim, sizeof dim));
  text_append(out, "]");
}

static void print_elements(const ir_module *m, const ir_value *v, text_buffer *out) {
  char element[256];
  text_append(out, " = {");
  for (int64_t i = 0; i < v->n_elements && i < SHOWN_ELEMENTS; i++)
    text_append(out, "%s%s", i ? ", " : "", symbols_text(m->symbols, v->elements[i], element, sizeof element));
  text_append(out, "%s}", v->n_elements > SHOWN_ELEMENTS ? ", ..." : "");
}

static void print_constant(const ir_value *v, text_buffer *out) {
  reed_desc d;
  char text[128];
  if (!ir_desc(v, &d)) return;
  text_append(out, " = %s", desc_text(&d, text, sizeof text));
  int64_t n = desc_elements(&d);
  if (n < 0 || n > SHOWN_ELEMENTS) return;
  text_append(out, "{");
  for (int64_t i = 0; i < n; i++)
    text_append(out, "%s%g", i ? ", " : "",
                reed_dtype_read(d.dtype, (const char *)v->data + i * (int64_t)reed_dtype_bytes(d.dtype)));
  text_append(out, "}");
}

static void print_attr(const reed_attr *a, text_buffer *out) {
  char text[128];
  text_append(out, "%s = ", a->name);
  switch (a->type) {
    case REED_ATTR_INT: text_append(out, "%lld", (long long)a->i); break;
    case REED_ATTR_FLOAT: text_append(out, "%g", a->f); break;
    case REED_ATTR_STRING: text_append(out, "'%s'", a->s); break;
    case REED_ATTR_INTS:
      for (int64_t i = 0; i < a->n; i++) text_append(out, "%s%lld", i ? "," : "[", (long long)a->ints[i]);
      text_append(out, a->n ? "]" : "[]");
      break;
    case REED_ATTR_FLOATS:
      for (int64_t i = 0; i < a->n; i++) text_append(out, "%s%g", i ? "," : "[", a->floats[i]);
      text_append(out, a->n ? "]" : "[]");
      break;
    case REED_ATTR_TENSOR: text_append(out, "%s", desc_text(&a->desc, text, sizeof text)); break;
  }
}

static void print_node(const ir_module *m, const ir_node *n, int indent, text_buffer *out);

static void print_graph(const ir_module *m, const ir_graph *g, int indent, text_buffer *out) {
  text_append(out, "%*sgraph %s(", indent, "", g->name);
  for (int32_t i = 0; i < g->n_params; i++) {
    text_append(out, "%s%s: ", i ? ", " : "", g->params[i]->name);
    print_type(m, &g->params[i]->type, out);
  }
  text_append(out, ")\n");
  for (size_t i = 0; i < g->nodes.n; i++)
    if (!g->nodes.items[i]->dead) print_node(m, g->nodes.items[i], indent + 2, out);
  text_append(out, "%*sreturn ", indent + 2, "");
  for (int32_t i = 0; i < g->n_results; i++) {
    text_append(out, "%s%s", i ? ", " : "", g->results[i]->name);
    if (ir_is_constant(g->results[i])) print_constant(g->results[i], out);
  }
  text_append(out, "\n");
}

static void print_node(const ir_module *m, const ir_node *n, int indent, text_buffer *out) {
  text_append(out, "%*s", indent, "");
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const ir_value *v = n->outputs[i];
    text_append(out, "%s%s", i ? ", " : "", v ? v->name : "_");
    if (!v) continue;
    text_append(out, ": ");
    print_type(m, &v->type, out);
    if (v->elements) print_elements(m, v, out);
  }
  text_append(out, " = %s '%s' (", n->op->name, n->name);
  for (int32_t i = 0; i < n->n_inputs; i++) {
    text_append(out, "%s%s", i ? ", " : "", n->inputs[i] ? n->inputs[i]->name : "_");
    if (ir_is_constant(n->inputs[i])) print_constant(n->inputs[i], out);
  }
  text_append(out, ")");
  bool any = false;
  for (int32_t i = 0; i < n->n_attrs; i++) {
    if (op_attr_is_default(n->op, &n->attrs[i])) continue;
    text_append(out, "%s", any ? ", " : " {");
    print_attr(&n->attrs[i], out);
    any = true;
  }
  text_append(out, "%s\n", any ? "}" : "");
  for (int32_t i = 0; i < n->n_regions; i++) print_graph(m, n->regions[i], indent + 2, out);
}

void ir_print(const ir_module *m, text_buffer *out) { print_graph(m, m->main, 0, out); }
