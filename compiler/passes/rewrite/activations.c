/* Replaces activations that an exporter wrote as several operators by one operator: a table of patterns. The one
 * operator computes the same function with fewer roundings.
 *
 *   - Gelu: x Phi(x) by erf or by tanh (Hendrycks and Gimpel 2016, "Gaussian Error Linear Units")
 *   - Swish: x sigmoid(alpha x) (Ramachandran et al. 2017, "Searching for Activation Functions"); alpha 1 is SiLU
 *   - Mish: x tanh(softplus(x)) (Misra 2019, "Mish")
 *   - HardSwish, HardSigmoid (Howard et al. 2019, "Searching for MobileNetV3") */
#include <math.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { X, ALPHA, N_SLOTS };

#define P_X P_AS(X, P_ANY)
#define ONE_USE(name, ...) P_ONCE(P_OP(name, __VA_ARGS__))
#define ONE_USE_PAIR(name, a, b) P_ONCE(P_PAIR(name, a, b))
/* part * scale or part / inverse, used by one other operator. */
#define SCALED(part, scale, inverse) \
  P_EITHER(ONE_USE_PAIR(Mul, part, P_NUMBER(scale)), ONE_USE(Div, part, P_NUMBER(inverse)))
/* The last operator: x * gate / 2, multiplied in any order. */
#define HALF_X_TIMES(gate) \
  P_EITHER(P_PAIR(Mul, P_X, SCALED(gate, 0.5, 2)), P_PAIR(Mul, SCALED(P_X, 0.5, 2), gate), \
           P_PAIR(Mul, P_NUMBER(0.5), ONE_USE_PAIR(Mul, P_X, gate)), \
           P_OP(Div, ONE_USE_PAIR(Mul, P_X, gate), P_NUMBER(2)))

#define ONE_PLUS(part) ONE_USE_PAIR(Add, P_NUMBER(1), part)
static const pattern *const gelu =
    HALF_X_TIMES(ONE_PLUS(ONE_USE(Erf, SCALED(P_X, 0.70710678118654752440, 1.41421356237309504880))));

/* sqrt(2/pi) (x + 0.044715 x^3), or x sqrt(2/pi) (1 + 0.044715 x^2) */
#define ROOT_2_OVER_PI P_NUMBER(0.79788456080286535588)
#define TINY P_NUMBER(0.044715)
#define SQUARE P_EITHER(ONE_USE(Mul, P_X, P_X), ONE_USE(Pow, P_X, P_NUMBER(2)))
#define CUBE P_EITHER(ONE_USE(Pow, P_X, P_NUMBER(3)), ONE_USE_PAIR(Mul, P_X, SQUARE))
#define TINY_CUBE \
  P_EITHER(ONE_USE_PAIR(Mul, TINY, CUBE), ONE_USE_PAIR(Mul, SQUARE, ONE_USE_PAIR(Mul, TINY, P_X)), \
           ONE_USE_PAIR(Mul, P_X, ONE_USE_PAIR(Mul, P_X, ONE_USE_PAIR(Mul, TINY, P_X))))
#define TINY_SQUARE P_EITHER(ONE_USE_PAIR(Mul, TINY, SQUARE), ONE_USE_PAIR(Mul, P_X, ONE_USE_PAIR(Mul, TINY, P_X)))
static const pattern *const gelu_tanh = HALF_X_TIMES(ONE_PLUS(
    ONE_USE(Tanh, P_EITHER(ONE_USE_PAIR(Mul, ROOT_2_OVER_PI, ONE_USE_PAIR(Add, P_X, TINY_CUBE)),
                           ONE_USE_PAIR(Mul, ONE_USE_PAIR(Mul, P_X, ROOT_2_OVER_PI), ONE_PLUS(TINY_SQUARE))))));

static const pattern *const swish = P_PAIR(
    Mul, P_X, P_EITHER(ONE_USE(Sigmoid, P_X), ONE_USE(Sigmoid, ONE_USE_PAIR(Mul, P_X, P_AS(ALPHA, P_CONSTANT)))));
static const pattern *const mish = P_PAIR(Mul, P_X, ONE_USE(Tanh, ONE_USE(Softplus, P_X)));

#define CLIPPED ONE_USE(Clip, ONE_USE_PAIR(Add, P_X, P_NUMBER(3)), P_NUMBER(0), P_NUMBER(6))
#define SIXTH 0.16666666666666666667
static const pattern *const hard_swish =
    P_EITHER(P_OP(Div, ONE_USE_PAIR(Mul, P_X, CLIPPED), P_NUMBER(6)), P_PAIR(Mul, P_X, SCALED(CLIPPED, SIXTH, 6)),
             P_PAIR(Mul, P_X, P_FLOAT("alpha", SIXTH, P_FLOAT("beta", 0.5, ONE_USE(HardSigmoid, P_X)))));
static const pattern *const hard_sigmoid =
    P_EITHER(P_OP(Div, CLIPPED, P_NUMBER(6)), P_PAIR(Mul, CLIPPED, P_NUMBER(SIXTH)));

/* Patterns are tried in this order, because a HardSigmoid is part of a HardSwish. */
static const struct {
  const pattern *const *is;
  op_id op;
  const char *approximate; /* NULL: no such attribute */
  double alpha;            /* NAN: no such attribute, unless the pattern has one */
} spelled[] = {
    {&gelu, OP_Gelu, NULL, NAN}, {&gelu_tanh, OP_Gelu, "tanh", NAN},     {&swish, OP_Swish, NULL, NAN},
    {&mish, OP_Mish, NULL, NAN}, {&hard_swish, OP_HardSwish, NULL, NAN}, {&hard_sigmoid, OP_HardSigmoid, NULL, SIXTH},
};

typedef struct replacing {
  ir_module *m;
  VEC_OF(ir_node *) nodes;
  int64_t n_replaced;
} replacing;

static bool set_attrs(ir_node *n, const char *approximate, double alpha) {
  if (approximate && !ir_set_attr_string(n, "approximate", approximate)) return false;
  return isnan(alpha) || ir_set_attr_float(n, "alpha", alpha);
}

/* Replaces the spelled activation whose last operator is `last`. The matched constants may have extents of their own,
 * but must not widen the result. */
static reed_status replace(void *context, ir_node *last) {
  replacing *r = context;
  ir_value *slots[N_SLOTS], *result = last->outputs[0];
  if (result->n_uses <= 0) return REED_OK;
  for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
    double alpha = spelled[i].alpha;
    if (!pattern_match(*spelled[i].is, result, slots, N_SLOTS) || !ir_same_type(r->m, slots[X], result)) continue;
    if (slots[ALPHA] && !pattern_number(slots[ALPHA], &alpha)) continue;
    ir_node *n = ir_node_new(last->graph, last, op_builtin(spelled[i].op), last->name, &slots[X], 1, &result, 1);
    if (!n || !set_attrs(n, spelled[i].approximate, alpha)) return diag_no_memory(r->m->diagnosis, "an activation");
    last->dead = true;
    for (int32_t k = 0; k < last->n_inputs; k++) last->inputs[k]->n_uses--;
    slots[X]->n_uses++;
    r->n_replaced++;
    return REED_OK;
  }
  return REED_OK;
}

static reed_status collect(void *context, ir_node *n) {
  replacing *r = context;
  bool last = n->op == op_builtin(OP_Mul) || n->op == op_builtin(OP_Div);
  if (!last || VEC_PUSH(&r->nodes, n)) return REED_OK;
  return diag_no_memory(r->m->diagnosis, "an activation");
}

/* Visits nodes from the last one back, so that the longest spelling is matched first. The other operators of a spelling
 * are left unused for dce to remove. */
reed_status pass_activations(ir_module *m, pass_report *report) {
  replacing r = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, collect, &r);
  if (status == REED_OK) status = pass_try_back(m, r.nodes.items, r.nodes.n, replace, &r, &r.n_replaced);
  VEC_FREE(&r.nodes);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"activations recognised", r.n_replaced}}};
  return status;
}
