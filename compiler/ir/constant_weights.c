/* Edits of products with constant weights (constant_weights.h). The decision which edits to make is in passes/fuse and
 * passes/rewrite. */
#include "compiler/ir/constant_weights.h"

#include <string.h>

#include "base/cancel.h"

#define BIAS_INPUT 2 /* the index of the bias, the same for all four operators */

ir_node *weights_only_for(const ir_value *v, const ir_node *user) {
  ir_node *n = v ? v->producer : NULL;
  if (!n || n->dead || n->graph != user->graph || v->n_uses != 1 || n->outputs[0] != v) return NULL;
  for (int32_t i = 1; i < n->n_outputs; i++)
    if (n->outputs[i] && n->outputs[i]->n_uses > 0) return NULL;
  reed_attrs attrs = ir_attrs(n);
  return reed_attrs_find(&attrs, "activation") ? NULL : n;
}

ir_node *weights_product(const ir_value *v, const ir_node *user) {
  ir_node *n = weights_only_for(v, user);
  return n && op_has(n->op, OP_PROPERTY_PACKABLE) ? n : NULL;
}

int32_t weights_channel_axis(const ir_node *product) {
  int32_t rank = product->outputs[0]->type.rank;
  reed_attrs attrs = ir_attrs(product);
  bool last = product->op == op_builtin(OP_Gemm) || product->op == op_builtin(OP_MatMul) ||
              op_attr_int(&attrs, "channels_last");
  return rank < 2 ? -1 : last ? rank - 1 : 1;
}

int64_t weights_channels(const ir_node *product) {
  int32_t axis = weights_channel_axis(product);
  reed_dim n = axis < 0 ? -1 : product->outputs[0]->type.dims[axis];
  return symbol_is(n) ? -1 : n;
}

bool weights_per_channel(const ir_value *v, int32_t rank, int32_t axis, int64_t n_channels, double *out_numbers) {
  reed_desc d;
  if (!ir_is_constant(v) || !ir_desc(v, &d) || d.rank > rank) return false;
  for (int32_t i = 0; i < d.rank; i++) {
    bool is_channel = i + rank - d.rank == axis;
    if (d.dims[i] != 1 && !(is_channel && d.dims[i] == n_channels)) return false;
  }
  bool one = desc_elements(&d) == 1;
  size_t bytes = reed_dtype_bytes(d.dtype);
  for (int64_t i = 0; i < n_channels; i++)
    out_numbers[i] = reed_dtype_read(d.dtype, (const char *)v->data + (one ? 0 : (size_t)i * bytes));
  return true;
}

/* Moves n, which comes before `place`, to right before it. */
static void move_to(ir_node *n, const ir_node *place) {
  ir_node **items = n->graph->nodes.items;
  size_t from = 0;
  while (items[from] != n) from++;
  for (; items[from + 1] != place; from++) items[from] = items[from + 1];
  items[from] = n;
}

void weights_absorb(ir_node *n, ir_node *user) {
  ir_value *result = user->outputs[0];
  move_to(n, user);
  n->outputs[0] = result;
  result->producer = n;
  result->producer_output = 0;
  user->dead = true;
}

bool weights_bias(const ir_node *product, int64_t n_channels, double *out_numbers) {
  const ir_value *bias = product->n_inputs > BIAS_INPUT ? product->inputs[BIAS_INPUT] : NULL;
  memset(out_numbers, 0, (size_t)n_channels * sizeof *out_numbers);
  if (!bias) return true;
  int32_t axis = weights_channel_axis(product);
  bool is_gemm = product->op == op_builtin(OP_Gemm);
  /* a convolution's bias is a list of channels, a matrix product's broadcasts */
  if (!weights_per_channel(bias, is_gemm ? 2 : 1, is_gemm ? axis : 0, n_channels, out_numbers)) return false;
  reed_attrs attrs = ir_attrs(product);
  double beta = is_gemm ? op_attr_float(&attrs, "beta") : 1;
  for (int64_t i = 0; i < n_channels; i++) out_numbers[i] *= beta;
  return true;
}

bool weights_set_bias(ir_node *product, int64_t n_channels, const double *numbers) {
  ir_module *m = product->graph->module;
  reed_desc d = {.dtype = product->outputs[0]->type.dtype, .rank = 1, .dims = {n_channels}};
  size_t bytes = reed_dtype_bytes(d.dtype);
  char *data = ir_alloc(m, (size_t)n_channels * bytes);
  if (!data) return false;
  for (int64_t i = 0; i < n_channels; i++) reed_dtype_write(d.dtype, data + (size_t)i * bytes, numbers[i]);
  ir_value *bias = ir_constant(m, &d, data, false, NULL);
  if (!bias) return false;
  while (product->n_inputs <= BIAS_INPUT)
    if (!ir_add_input(product, NULL)) return false;
  product->inputs[BIAS_INPUT] = bias;
  return ir_drop_attr(product, "beta");
}

/* True for a matrix product whose weights have a row for each output. */
static bool is_transposed(const ir_node *product, reed_attrs *attrs) {
  return product->op == op_builtin(OP_Gemm) && op_attr_int(attrs, "transB");
}

bool weights_fit(const ir_node *product, int64_t n_channels) {
  reed_attrs attrs = ir_attrs(product);
  reed_desc w;
  if (!ir_is_constant(product->inputs[1]) || !ir_desc(product->inputs[1], &w) || w.rank < 2 || desc_elements(&w) <= 0)
    return false;
  if (product->op == op_builtin(OP_Conv)) return w.dims[0] == n_channels;
  if (product->op == op_builtin(OP_ConvTranspose)) {
    int64_t group = op_attr_int(&attrs, "group");
    return group >= 1 && w.dims[0] % group == 0 && w.dims[1] * group == n_channels;
  }
  return w.dims[is_transposed(product, &attrs) ? 0 : w.rank - 1] == n_channels;
}

int64_t weights_channel_of(const ir_node *product, weights_side side, const reed_desc *w, int64_t i) {
  reed_attrs attrs = ir_attrs(product);
  int64_t per_first = 1;
  for (int32_t k = 1; k < w->rank; k++) per_first *= w->dims[k];
  const int64_t first = i / per_first;
  if (!op_has(product->op, OP_PROPERTY_WINDOW_OF_W)) {
    const bool is_first = is_transposed(product, &attrs) == (side == WEIGHTS_OUTPUT);
    return is_first ? i / w->dims[w->rank - 1] : i % w->dims[w->rank - 1];
  }
  /* Conv: [M, C/group, ...], ConvTranspose: [C, M/group, ...]. The second axis counts within the group of the first. */
  if ((product->op == op_builtin(OP_Conv)) == (side == WEIGHTS_OUTPUT)) return first;
  const int64_t group = op_attr_int(&attrs, "group"), per_second = per_first / w->dims[1];
  return first / (w->dims[0] / group) * w->dims[1] + i / per_second % w->dims[1];
}

reed_status weights_scale(const ir_node *product, weights_side side, const double *factor, ir_value **out_weights) {
  ir_module *m = product->graph->module;
  const ir_value *old = product->inputs[1];
  reed_desc w;
  (void)ir_desc(old, &w);
  size_t bytes = reed_dtype_bytes(w.dtype);
  int64_t n = desc_elements(&w);
  char *data = ir_alloc_elements(m, (size_t)n * bytes);
  reed_status status = data ? REED_OK : diag_no_memory(m->diagnosis, "scaled weights");
  for (int64_t i = 0; i < n && status == REED_OK; i++) {
    if (i % CANCEL_ELEMENTS == 0) status = ir_check_cancel(m);
    double value = reed_dtype_read(w.dtype, (const char *)old->data + (size_t)i * bytes);
    reed_dtype_write(w.dtype, data + (size_t)i * bytes, value * factor[weights_channel_of(product, side, &w, i)]);
  }
  if (status != REED_OK) return status;
  *out_weights = ir_constant(m, &w, data, true, old->name);
  return *out_weights ? REED_OK : diag_no_memory(m->diagnosis, "scaled weights");
}
