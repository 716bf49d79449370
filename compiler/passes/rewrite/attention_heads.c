/* Lets Attention read K and V once for the heads that share them, where an exporter repeats each head of K and V:
 *
 *   [batch, kv_heads, length, size] -> Unsqueeze, Expand or Tile to [batch, kv_heads, repeats, length, size] -> Reshape
 *
 * or a Gather of the heads 0, 0, 1, 1, ... (Ainslie et al. 2023, "GQA"). */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

typedef struct sharing {
  ir_module *m;
  int64_t n_shared;
} sharing;

static bool same(const sharing *s, reed_dim a, reed_dim b) { return symbols_assume_equal(s->m->symbols, a, b); }

/* The source of a Gather of heads 0, 0, 1, 1, ...; NULL: v is not made so. */
static ir_value *gathered(const ir_value *v) {
  const ir_node *n = pattern_made_by(v, OP_Gather);
  reed_desc index;
  if (!n || n->inputs[0]->type.rank != 4 || !ir_is_constant(n->inputs[1]) || !ir_desc(n->inputs[1], &index))
    return NULL;
  reed_attrs attrs = ir_attrs(n);
  int64_t axis = op_attr_int(&attrs, "axis"), heads = n->inputs[0]->type.dims[1], total = desc_elements(&index);
  if ((axis != 1 && axis != -3) || index.rank != 1 || symbol_is(heads) || heads < 1 || total % heads) return NULL;
  for (int64_t i = 0; i < total; i++) {
    const char *at = (const char *)n->inputs[1]->data + (size_t)i * reed_dtype_bytes(index.dtype);
    if (reed_dtype_read(index.dtype, at) != (double)(i / (total / heads))) return NULL;
  }
  return n->inputs[0];
}

/* The [batch, kv_heads, length, size] of which v, [batch, heads, length, size], repeats each head; NULL: v is not made
 * so. */
static ir_value *unrepeated(const sharing *s, ir_value *v) {
  ir_value *source = gathered(v);
  if (source) return source;
  const ir_node *join = pattern_made_by(v, OP_Reshape);
  const ir_node *repeat = join ? pattern_made_by(join->inputs[0], OP_Expand) : NULL;
  if (join && !repeat) repeat = pattern_made_by(join->inputs[0], OP_Tile);
  if (!repeat) return NULL;
  const ir_value *wide = repeat->outputs[0], *narrow = repeat->inputs[0];
  source = pattern_viewed(narrow);
  if (!source || source->type.rank != 4 || narrow->type.rank != 5 || wide->type.rank != 5 || narrow->type.dims[2] != 1)
    return NULL;
  const reed_dim *from = source->type.dims, *a = narrow->type.dims, *b = wide->type.dims, *to = v->type.dims;
  if (symbol_is(from[1]) || symbol_is(b[2]) || symbol_is(to[1]) || from[1] * b[2] != to[1]) return NULL;
  static const int32_t places[4] = {0, 1, 3, 4};
  for (int32_t i = 0; i < 4; i++) {
    if (!same(s, from[i], a[places[i]]) || !same(s, from[i], b[places[i]])) return NULL;
    if (i != 1 && !same(s, from[i], to[i])) return NULL;
  }
  return source;
}

static reed_status visit(void *context, ir_node *n) {
  sharing *s = context;
  if (n->op != op_builtin(OP_Attention) || n->inputs[0]->type.rank != 4 || n->n_inputs > 4) return REED_OK;
  if (n->n_outputs > 1 && n->outputs[1]) return REED_OK;
  ir_value *k = unrepeated(s, n->inputs[1]), *v = unrepeated(s, n->inputs[2]);
  if (!k || !v || !same(s, k->type.dims[1], v->type.dims[1])) return REED_OK;
  n->inputs[1] = k;
  n->inputs[2] = v;
  s->n_shared++;
  return REED_OK;
}

reed_status pass_attention_heads(ir_module *m, pass_report *report) {
  sharing s = {.m = m};
  reed_status status = pass_try_each(m, visit, &s, &s.n_shared);
  *report = (pass_report){.counts = {{"attentions whose heads share keys", s.n_shared}}};
  return status;
}
