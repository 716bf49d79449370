/* Folds batch normalisation into the constant weights and bias of the product before it. At inference batch
 * normalisation is y = x * factor + shift for each channel, with factor = scale / sqrt(var + epsilon) and shift = B -
 * mean * factor (Ioffe and Szegedy 2015; ONNX BatchNormalization-15). A Mul by constants for each channel is folded
 * too, because frozen batch normalisations are exported so, and so are both behind a view of a matrix product that
 * keeps the channels (LeViT normalises tokens as the rows of a matrix). Bias, residual and activation: fusion.c. */
#include <math.h>
#include <string.h>

#include "compiler/ir/pass.h"
#include "compiler/ir/constant_weights.h"
#include "compiler/ir/pattern.h"

typedef struct folding {
  ir_module *m;
  int64_t n_folded;
} folding;

/* Numbers for each channel of one fold; channels_fini frees them together. */
typedef struct channels {
  int64_t n;
  double *factor, *shift, *bias;
} channels;

static bool channels_init(channels *c, int64_t n) {
  *c = (channels){.n = n};
  c->factor = mem_calloc((size_t)n, sizeof *c->factor);
  c->shift = mem_calloc((size_t)n, sizeof *c->shift);
  c->bias = mem_calloc((size_t)n, sizeof *c->bias);
  return c->factor && c->shift && c->bias;
}

static void channels_fini(channels *c) {
  mem_free(c->factor);
  mem_free(c->shift);
  mem_free(c->bias);
}

/* A node and the product whose channels it scales: they are its operand's axis `axis`. */
typedef struct scaling {
  ir_node *n, *product;
  ir_node *view; /* between them; NULL: none */
  int32_t operand, axis;
} scaling;

/* Computes factor and shift of the node. False: the node has another form. */
static bool affine_of(const scaling *s, channels *c) {
  const ir_node *n = s->n;
  if (n->op == op_builtin(OP_Mul))
    return weights_per_channel(n->inputs[1 - s->operand], n->inputs[s->operand]->type.rank, s->axis, c->n, c->factor);
  reed_attrs attrs = ir_attrs(n);
  double epsilon = op_attr_float(&attrs, "epsilon");
  double *variance = c->bias; /* the array of the bias is free until weights_bias */
  if (op_attr_int(&attrs, "training_mode") || n->n_outputs != 1 || s->axis != 1) return false;
  if (!weights_per_channel(n->inputs[1], 1, 0, c->n, c->factor) ||
      !weights_per_channel(n->inputs[4], 1, 0, c->n, variance))
    return false;
  for (int64_t i = 0; i < c->n; i++) c->factor[i] /= sqrt(variance[i] + epsilon);
  double *mean = c->bias;
  if (!weights_per_channel(n->inputs[3], 1, 0, c->n, mean) || !weights_per_channel(n->inputs[2], 1, 0, c->n, c->shift))
    return false;
  for (int64_t i = 0; i < c->n; i++) c->shift[i] -= mean[i] * c->factor[i];
  return true;
}

static reed_status fold(folding *f, const scaling *s, channels *c) {
  ir_node *product = s->product;
  if (!weights_fit(product, c->n)) return REED_OK;
  if (product->n_inputs > 3 && product->inputs[3])
    return REED_OK; /* the product's residual input would have to be scaled too */
  if (!affine_of(s, c) || !weights_bias(product, c->n, c->bias)) return REED_OK;
  ir_value *weights = NULL;
  reed_status status = weights_scale(product, WEIGHTS_OUTPUT, c->factor, &weights);
  if (status != REED_OK) return status;
  bool needs_bias = product->n_inputs > 2 && product->inputs[2];
  for (int64_t i = 0; i < c->n; i++) {
    c->bias[i] = c->bias[i] * c->factor[i] + c->shift[i];
    needs_bias = needs_bias || c->bias[i] != 0;
  }
  if (needs_bias && !weights_set_bias(product, c->n, c->bias)) return diag_no_memory(f->m->diagnosis, "folded weights");
  product->inputs[1] = weights;
  if (s->view) {
    ir_forward(s->n->outputs[0], s->view->outputs[0]);
    s->n->dead = true;
  } else {
    weights_absorb(product, s->n);
  }
  f->n_folded++;
  return REED_OK;
}

/* Finds the product that makes operand i of n, directly or under other extents with the same last one. */
static bool find_product(ir_node *n, int32_t i, scaling *out) {
  ir_value *v = n->inputs[i];
  *out = (scaling){.n = n, .operand = i, .product = weights_product(v, n)};
  if (out->product) return (out->axis = weights_channel_axis(out->product)) >= 0;
  ir_node *view = weights_only_for(v, n);
  const ir_value *source = view ? pattern_viewed(v) : NULL;
  if (!source) return false;
  out->view = view;
  out->product = weights_product(source, view);
  out->axis = v->type.rank - 1;
  const int32_t last = out->product ? weights_channel_axis(out->product) : -1;
  return last >= 0 && last == source->type.rank - 1 && out->axis >= 0 &&
         source->type.dims[last] == v->type.dims[out->axis];
}

static reed_status visit(void *context, ir_node *n) {
  folding *f = context;
  bool is_mul = n->op == op_builtin(OP_Mul), found = false;
  if (!is_mul && n->op != op_builtin(OP_BatchNormalization)) return REED_OK;
  scaling s;
  for (int32_t k = 0; k < (is_mul ? 2 : 1) && !found; k++) found = find_product(n, k, &s);
  int64_t n_channels = found ? weights_channels(s.product) : -1;
  if (n_channels < 1 || n->inputs[s.operand]->type.rank != n->outputs[0]->type.rank) return REED_OK;
  reed_dtype dtype = s.product->outputs[0]->type.dtype;
  if (dtype != REED_F32 && dtype != REED_F64) return REED_OK; /* in half precision the weights would be rounded twice */
  channels c;
  reed_status status =
      channels_init(&c, n_channels) ? fold(f, &s, &c) : diag_no_memory(f->m->diagnosis, "folded weights");
  channels_fini(&c);
  return status;
}

reed_status pass_bn_fold(ir_module *m, pass_report *report) {
  folding f = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, visit, &f);
  ir_settle(m);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"normalisations and scalings folded into weights", f.n_folded}}};
  return status;
}
