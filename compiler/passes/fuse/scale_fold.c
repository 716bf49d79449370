/* Moves scalings and shifts of a product's input into its constant weights and bias: W (s x + t) = (W s) x + W t.
 * Networks write them behind an activation, such as the learnable affine blocks of PP-LCNetV3. A shift stays
 *   - in front of a convolution with padding, because the pixels around the image are not shifted
 *   - unless an activation gives x, and t is no more than some times s: of timestamps less their mean, W s x and W t
 * would each be rounded where they are many times their sum What follows a product directly is bn_fold.c's and
 * fusion.c's. */
#include <math.h>
#include <string.h>

#include "base/cancel.h"
#include "compiler/ir/constant_weights.h"
#include "compiler/ir/pass.h"

#define MOST_SHIFT 16 /* times the scale */
#define MOST_SCALE 0x1p32

typedef struct folding {
  ir_module *m;
  int64_t n_folded;
} folding;

/* The product's input is factor * source + shift, with numbers for each of its n channels. */
typedef struct scaled {
  ir_node *product;
  ir_value *source;
  int32_t axis; /* of the channels in the source */
  int64_t n;
  bool may_shift;
  double *factor, *shift;
  double *numbers; /* the constants of one operator */
} scaled;

static bool has_padding(const reed_attrs *attrs) {
  int64_t n;
  const int64_t *pads = reed_attrs_ints(attrs, "pads", &n);
  for (int64_t i = 0; pads && i < n; i++)
    if (pads[i] != 0) return true;
  return strncmp(op_attr_string(attrs, "auto_pad"), "SAME", 4) == 0;
}

/* Describes the product's input. False: the weights are no constant that only this product reads, or the number of
 * channels is not known. */
static bool describe(ir_node *n, scaled *out) {
  reed_desc w;
  ir_value *x = n->inputs[0];
  if (!op_has(n->op, OP_PROPERTY_PACKABLE) || !ir_is_constant(n->inputs[1]) || n->inputs[1]->n_uses != 1 ||
      !ir_desc(n->inputs[1], &w) || w.rank < 2)
    return false;
  const reed_attrs attrs = ir_attrs(n);
  *out = (scaled){.product = n, .source = x, .axis = 1, .may_shift = true};
  if (n->op == op_builtin(OP_Conv)) {
    out->n = w.dims[1] * op_attr_int(&attrs, "group");
    out->may_shift = !has_padding(&attrs);
  } else if (n->op == op_builtin(OP_ConvTranspose)) {
    out->n = w.dims[0];
    out->may_shift = false; /* not all pixels of Y have the same number of taps */
  } else if (n->op == op_builtin(OP_Gemm)) {
    out->n = w.dims[op_attr_int(&attrs, "transB") != 0];
    out->axis = op_attr_int(&attrs, "transA") ? 0 : 1;
  } else {
    if (w.rank != 2) return false;
    out->n = w.dims[0];
    out->axis = x->type.rank - 1;
  }
  return out->axis >= 0 && out->axis < x->type.rank && out->n > 0 && x->type.dims[out->axis] == out->n &&
         weights_fit(n, weights_channels(n));
}

static bool is_activation(const ir_value *v) {
  static const op_id ops[] = {
#define ACTIVATION(kind, text, op, approximate, formula) OP_##op,
#include "ops/activation.def"
  };
  for (size_t i = 0; i < sizeof ops / sizeof *ops && v->producer; i++)
    if (v->producer->op == op_builtin(ops[i])) return true;
  return false;
}

/* x op number, or number op x, as factor * x + shift. False: it is no such operator. */
static bool affine_of(op_id op, bool number_first, double number, double *out_factor, double *out_shift) {
  *out_factor = op == OP_Mul ? number : op == OP_Div ? 1 / number : op == OP_Sub && number_first ? -1 : 1;
  *out_shift = op == OP_Add || (op == OP_Sub && number_first) ? number : op == OP_Sub ? -number : 0;
  return op == OP_Add || op == OP_Sub || op == OP_Mul || (op == OP_Div && !number_first);
}

/* Takes the operator that makes the source into the numbers. False: it is no scaling, nor a shift that may be taken. */
static bool take_operator(const folding *f, scaled *s) {
  ir_value *x = s->source;
  ir_node *n = weights_only_for(x, s->product);
  if (!n || n->n_inputs != 2 || !n->inputs[0] || !n->inputs[1]) return false;
  const op_id op = op_id_of(n->op);
  const bool number_first = ir_is_constant(n->inputs[0]);
  ir_value *source = n->inputs[number_first];
  double factor, shift;
  if (!affine_of(op, number_first, 1, &factor, &shift) || !ir_proven_same_type(f->m, source, x) ||
      !weights_per_channel(n->inputs[!number_first], x->type.rank, s->axis, s->n, s->numbers))
    return false;
  for (int64_t i = 0; i < s->n && !s->may_shift; i++)
    if (affine_of(op, number_first, s->numbers[i], &factor, &shift) && shift != 0) return false;
  for (int64_t i = 0; i < s->n; i++) {
    (void)affine_of(op, number_first, s->numbers[i], &factor, &shift);
    s->shift[i] += s->factor[i] * shift;
    s->factor[i] *= factor;
  }
  s->source = source;
  return true;
}

/* True if the numbers may go into weights and bias. */
static bool are_foldable(const scaled *s) {
  for (int64_t i = 0; i < s->n; i++) {
    const double factor = fabs(s->factor[i]), shift = fabs(s->shift[i]);
    if (!(factor <= MOST_SCALE) || (factor != 0 && factor < 1 / MOST_SCALE) || !isfinite(shift)) return false;
    if (shift != 0 && (!is_activation(s->source) || shift > MOST_SHIFT * factor)) return false;
  }
  return true;
}

/* Collects the operators before the product, and the numbers of all of them. False: there are none that may be folded.
 */
static bool collect(const folding *f, scaled *s) {
  for (int64_t i = 0; i < s->n; i++) s->factor[i] = 1, s->shift[i] = 0;
  s->source = s->product->inputs[0];
  while (take_operator(f, s)) continue;
  return s->source != s->product->inputs[0] && are_foldable(s);
}

/* Adds the products of the weights and the shifts to the bias. */
static reed_status add_to_bias(const scaled *s, bool *out_done) {
  ir_node *product = s->product;
  const int64_t n = weights_channels(product);
  const ir_value *w = product->inputs[1];
  const reed_attrs attrs = ir_attrs(product);
  const double alpha = product->op == op_builtin(OP_Gemm) ? op_attr_float(&attrs, "alpha") : 1;
  ir_module *m = product->graph->module;
  reed_desc d;
  (void)ir_desc(w, &d);
  double *bias = mem_calloc((size_t)n, sizeof *bias);
  reed_status status = bias ? REED_OK : diag_no_memory(m->diagnosis, "scaled weights");
  *out_done = status == REED_OK && weights_bias(product, n, bias);
  const int64_t elements = *out_done ? desc_elements(&d) : 0;
  for (int64_t i = 0; i < elements && status == REED_OK; i++) {
    if (i % CANCEL_ELEMENTS == 0) status = ir_check_cancel(m);
    bias[weights_channel_of(product, WEIGHTS_OUTPUT, &d, i)] +=
        alpha * s->shift[weights_channel_of(product, WEIGHTS_INPUT, &d, i)] *
        reed_dtype_read(d.dtype, (const char *)w->data + (size_t)i * reed_dtype_bytes(d.dtype));
  }
  if (*out_done && status == REED_OK && !weights_set_bias(product, n, bias))
    status = diag_no_memory(m->diagnosis, "scaled weights");
  mem_free(bias);
  return status;
}

static reed_status fold(folding *f, scaled *s) {
  ir_node *product = s->product;
  ir_value *x = product->inputs[0], *weights = product->inputs[1];
  bool shifts = false, done = true;
  reed_status status = REED_OK;
  if (!collect(f, s)) {
    s->may_shift = false; /* the last scalings alone */
    if (!collect(f, s)) return REED_OK;
  }
  for (int64_t i = 0; i < s->n; i++) shifts |= s->shift[i] != 0;
  if (shifts) status = add_to_bias(s, &done);
  if (status == REED_OK && done) status = weights_scale(product, WEIGHTS_INPUT, s->factor, &weights);
  if (status != REED_OK || !done) return status;
  product->inputs[1] = weights;
  product->inputs[0] = s->source; /* the operators before have no use now, which dce sees */
  x->n_uses--;
  s->source->n_uses++;
  f->n_folded++;
  return REED_OK;
}

static reed_status visit(void *context, ir_node *n) {
  folding *f = context;
  scaled s;
  if (!describe(n, &s)) return REED_OK;
  const reed_dtype dtype = n->outputs[0]->type.dtype;
  if (dtype != REED_F32 && dtype != REED_F64) return REED_OK; /* in half precision the weights would be rounded twice */
  double *numbers = mem_calloc((size_t)s.n, 3 * sizeof *numbers);
  if (!numbers) return diag_no_memory(f->m->diagnosis, "scaled weights");
  s.factor = numbers;
  s.shift = numbers + s.n;
  s.numbers = numbers + 2 * s.n;
  const reed_status status = fold(f, &s);
  mem_free(numbers);
  return status;
}

reed_status pass_scale_fold(ir_module *m, pass_report *report) {
  folding f = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, visit, &f);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"scalings and shifts folded into weights", f.n_folded}}};
  return status;
}
