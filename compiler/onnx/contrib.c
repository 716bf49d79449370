/* Operators that onnxruntime's optimiser makes of several operators of ONNX (domain com.microsoft, and
 * SimplifiedLayerNormalization in ONNX's own domain) -> the operators of ONNX for which each stands. Source of the
 * meanings: onnxruntime's list of contrib operators and the kernels of its CPU provider. */
#include <float.h>
#include <string.h>

#include "compiler/onnx/reader.h"

/* ---- attributes and nodes; makers return NULL without memory ---- */

static bool is_text(const Onnx__AttributeProto *a, const char *text) {
  return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

/* A node of the operator with its default attributes; NULL inputs are absent, but for the first. */
static ir_node *node(const onnx_reading *z, op_id op, ir_value *const *inputs, int32_t n_inputs) {
  ir_node *n = inputs[0] ? ir_node_new(z->g, NULL, op_builtin(op), NULL, inputs, n_inputs, NULL, 1) : NULL;
  if (n) n->outputs[0]->type.dtype = inputs[0]->type.dtype;
  return n;
}

/* The node's output; NULL: it could not be made, or its attribute not be set. */
static ir_value *output(const ir_node *n, bool is_set) { return n && is_set ? n->outputs[0] : NULL; }

static ir_value *shape_part(const onnx_reading *z, ir_value *x, int64_t begin, int64_t end) {
  return onnx_part(z->g, onnx_unary(z->g, OP_Shape, x), begin, end);
}

/* Input i with its last two axes exchanged. */
static ir_value *exchanged(onnx_reading *z, int32_t i) {
  ir_value *x = z->inputs[i];
  const int32_t rank = z->ranks[i] < 0 ? 3 : z->ranks[i];
  if (rank < 2) return x;
  int64_t perm[REED_MAX_RANK];
  for (int32_t k = 0; k < rank; k++) perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
  ir_value *front = shape_part(z, x, 0, -2), *rows = shape_part(z, x, -2, -1),
           *columns = shape_part(z, x, -1, INT64_MAX);
  if (z->ranks[i] < 0) x = onnx_reshaped(z->g, x, onnx_product(z->g, front), rows, columns, NULL);
  ir_value *y = onnx_transposed(z->g, x, perm, rank, NULL);
  return z->ranks[i] < 0 ? onnx_reshaped(z->g, y, front, columns, rows, NULL) : y;
}

/* ---- activations ---- */

static void gelu(onnx_reading *z) { z->outputs[0] = onnx_unary(z->g, OP_Gelu, z->inputs[0]); }

static void bias_gelu(onnx_reading *z) {
  z->outputs[0] = onnx_unary(z->g, OP_Gelu, onnx_binary(z->g, OP_Add, z->inputs[0], z->inputs[1]));
}

static void fast_gelu(onnx_reading *z) {
  ir_value *x = z->inputs[0];
  if (z->inputs[1]) x = onnx_binary(z->g, OP_Add, x, z->inputs[1]);
  ir_node *n = node(z, OP_Gelu, &x, 1);
  z->outputs[0] = output(n, n && ir_set_attr_string(n, "approximate", "tanh"));
}

static void quick_gelu(onnx_reading *z) {
  ir_node *n = node(z, OP_Swish, z->inputs, 1);
  z->outputs[0] = output(n, n && ir_set_attr_float(n, "alpha", onnx_float(z, "alpha", 1.702F)));
}

/* Attribute `activation` of a product on x. Its numbers are those of attribute activation_params, or each an attribute
 * of its own: activation_alpha and activation_beta. */
static ir_value *activated(onnx_reading *z, ir_value *x) {
  static const struct {
    const char *name;
    op_id op;
    int n_numbers;
    float alpha, beta; /* without attributes */
  } known[] = {{"Relu", OP_Relu, 0},
               {"Sigmoid", OP_Sigmoid, 0},
               {"Tanh", OP_Tanh, 0},
               {"LeakyRelu", OP_LeakyRelu, 1, .01F},
               {"HardSigmoid", OP_HardSigmoid, 2, .2F, .5F},
               {"Clip", OP_Clip, 2, -FLT_MAX, FLT_MAX}};
  const Onnx__AttributeProto *activation = onnx_find_attribute(z->f, z->node, "activation");
  const Onnx__AttributeProto *list = onnx_find_attribute(z->f, z->node, "activation_params");
  if (!activation || !x) return x;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (!is_text(activation, known[i].name)) continue;
    if (list && list->n_floats < (size_t)known[i].n_numbers) return onnx_refuse(z, "too few 'activation_params'");
    const float alpha =
        list && known[i].n_numbers > 0 ? list->floats[0] : onnx_float(z, "activation_alpha", known[i].alpha);
    const float beta =
        list && known[i].n_numbers > 1 ? list->floats[1] : onnx_float(z, "activation_beta", known[i].beta);
    ir_value *operands[] = {x, NULL, NULL};
    if (known[i].op == OP_Clip) {
      operands[1] = onnx_number_like(z->g, x, alpha), operands[2] = onnx_number_like(z->g, x, beta);
      if (!operands[1] || !operands[2]) return NULL;
    }
    ir_node *n = node(z, known[i].op, operands, known[i].op == OP_Clip ? 3 : 1);
    bool is_set = n != NULL;
    if (is_set && known[i].op != OP_Clip && known[i].n_numbers > 0) is_set = ir_set_attr_float(n, "alpha", alpha);
    if (is_set && known[i].op == OP_HardSigmoid) is_set = ir_set_attr_float(n, "beta", beta);
    return output(n, is_set);
  }
  return onnx_refuse(z, "an activation other than Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid and Clip");
}

/* ---- products ---- */

static void fused_matmul(onnx_reading *z) {
  if (onnx_int(z, "transBatchA", 0) || onnx_int(z, "transBatchB", 0))
    (void)onnx_refuse(z, "attribute 'transBatchA' or 'transBatchB'");
  ir_value *a = onnx_int(z, "transA", 0) ? exchanged(z, 0) : z->inputs[0];
  ir_value *b = onnx_int(z, "transB", 0) ? exchanged(z, 1) : z->inputs[1];
  const float alpha = onnx_float(z, "alpha", 1);
  ir_value *y = onnx_binary(z->g, OP_MatMul, a, b);
  if (alpha != 1) y = onnx_binary(z->g, OP_Mul, y, onnx_number_like(z->g, y, alpha));
  z->outputs[0] = y;
}

/* The operator with the first n_inputs operands and the model's attributes but those of the activation. */
static ir_value *plain(onnx_reading *z, op_id op, int32_t n_inputs) {
  static const char *const others[] = {"activation", "activation_params", "activation_alpha", "activation_beta",
                                       "activation_gamma"};
  ir_node *n = ir_node_new(z->g, NULL, op_builtin(op), z->name, z->inputs, n_inputs, NULL, 1);
  if (!n) return NULL;
  ir_clear_attrs(n);
  z->status = onnx_read_attrs(z->r, z->f, n, z->node);
  for (size_t i = 0; i < sizeof others / sizeof *others && z->status == REED_OK; i++) (void)ir_drop_attr(n, others[i]);
  if (z->status == REED_OK) z->status = onnx_check_attrs(z->r, n);
  if (z->status != REED_OK || !ir_complete_attrs(n)) return NULL;
  n->outputs[0]->type.dtype = z->inputs[0]->type.dtype;
  return n->outputs[0];
}

static void fused_conv(onnx_reading *z) {
  ir_value *y = plain(z, OP_Conv, z->inputs[2] ? 3 : 2);
  if (z->inputs[3]) y = onnx_binary(z->g, OP_Add, y, z->inputs[3]);
  z->outputs[0] = activated(z, y);
}

static void fused_gemm(onnx_reading *z) { z->outputs[0] = activated(z, plain(z, OP_Gemm, z->inputs[2] ? 3 : 2)); }

/* ---- norms ---- */

/* The norm of x over its last axes; shift NULL: none. */
static ir_value *normed(onnx_reading *z, op_id op, ir_value *x, int32_t scale, int32_t shift, float epsilon) {
  ir_value *operands[] = {x, z->inputs[scale], shift >= 0 ? z->inputs[shift] : NULL};
  ir_node *n = node(z, op, operands, operands[2] ? 3 : 2);
  return output(n, n && ir_set_attr_int(n, "axis", onnx_int(z, "axis", -1)) &&
                       ir_set_attr_float(n, "epsilon", onnx_float(z, "epsilon", epsilon)));
}

static bool is_wanted(const onnx_reading *z, size_t i) { return i < z->node->n_output && *z->node->output[i]; }

/* Inputs 0, 1 and `bias` added, which is output 3; output 0 is the norm of the sum. */
static void skip_norm(onnx_reading *z, op_id op, int32_t shift, int32_t bias) {
  if (is_wanted(z, 1) || is_wanted(z, 2)) (void)onnx_refuse(z, "outputs 'mean' and 'inv_std_var'");
  ir_value *sum = onnx_binary(z->g, OP_Add, z->inputs[0], z->inputs[1]);
  if (z->inputs[bias]) sum = onnx_binary(z->g, OP_Add, sum, z->inputs[bias]);
  z->outputs[0] = normed(z, op, sum, 2, shift, 1e-12F);
  z->outputs[3] = sum;
}

static void skip_layer_norm(onnx_reading *z) { skip_norm(z, OP_LayerNormalization, 3, 4); }

static void skip_rms_norm(onnx_reading *z) { skip_norm(z, OP_RMSNormalization, -1, 3); }

static void rms_norm(onnx_reading *z) {
  if (is_wanted(z, 1)) (void)onnx_refuse(z, "output 'inv_std_var'");
  z->outputs[0] = normed(z, OP_RMSNormalization, z->inputs[0], 1, -1, 1e-5F);
}

/* Words, places and segments of BERT: ids, segments?, tables of words, places and segments?, scale, shift, mask?,
 * places? -> the norm of the sum, the number of ones in each row of the mask, the sum. */
static void embed_layer_norm(onnx_reading *z) {
  ir_value *ids = z->inputs[0], *batch = shape_part(z, ids, 0, 1);
  if (!z->inputs[2] || !z->inputs[3] || !z->inputs[5] || !z->inputs[6] || (z->inputs[1] && !z->inputs[4])) {
    (void)onnx_refuse(z, "an EmbedLayerNormalization without tables, scale or shift");
    return;
  }
  /* (0, 1, ... are taken by Gather, which tells of a table that is too short) */
  ir_value *numbers = z->inputs[8] ? z->inputs[8] : onnx_range(z->g, onnx_extent(z->g, ids, 1));
  ir_value *places = onnx_binary(z->g, OP_Gather, z->inputs[3], numbers);
  ir_value *sum = onnx_binary(z->g, OP_Add, onnx_binary(z->g, OP_Gather, z->inputs[2], ids), places);
  if (z->inputs[1]) sum = onnx_binary(z->g, OP_Add, sum, onnx_binary(z->g, OP_Gather, z->inputs[4], z->inputs[1]));
  z->outputs[0] = normed(z, OP_LayerNormalization, sum, 5, 6, 1e-12F);
  z->outputs[2] = sum;
  if (!z->inputs[7]) {
    z->outputs[1] = onnx_binary(z->g, OP_Expand, onnx_number(z->g, 0, REED_I32), batch);
  } else {
    ir_value *ones = onnx_cast(z->g, z->inputs[7], REED_I32);
    ones = onnx_binary(z->g, OP_Equal, ones, onnx_number(z->g, 1, REED_I32));
    ir_value *counted[] = {onnx_cast(z->g, ones, REED_I32), onnx_vector(z->g->module, 1, 1)};
    z->outputs[1] = onnx_made(z->g, NULL, OP_ReduceSum, counted, 2, "keepdims", 0, NULL);
  }
}

const onnx_maker onnx_contrib_makers[] = {
    {"Gelu", 1, 1, 1, gelu},
    {"BiasGelu", 2, 2, 1, bias_gelu},
    {"FastGelu", 1, 2, 1, fast_gelu},
    {"QuickGelu", 1, 1, 1, quick_gelu},
    {"FusedMatMul", 2, 2, 1, fused_matmul},
    {"FusedConv", 2, 4, 1, fused_conv},
    {"FusedGemm", 2, 3, 1, fused_gemm},
    {"SkipLayerNormalization", 3, 5, 4, skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", 3, 4, 4, skip_rms_norm},
    {"EmbedLayerNormalization", 1, 9, 3, embed_layer_norm},
    {0},
};

const onnx_maker onnx_simplified_makers[] = {
    {"SimplifiedLayerNormalization", 2, 2, 2, rms_norm},
    {0},
};
