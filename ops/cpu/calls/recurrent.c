/* Reading an RNN, GRU or LSTM call: extents, strides of the layout, directions, activations. */
#include "ops/cpu/calls/recurrent.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define ACTIVATIONS_MAX 6 /* three of an LSTM's in each of two directions */

static const struct {
  const char *name;
  op_id op;
} activations[] = {
#define ACTIVATION_ROW(name, op) [RECURRENT_##name] = {#name, op},
    RECURRENT_ACTIVATION_LIST(ACTIVATION_ROW)
#undef ACTIVATION_ROW
};

/* The activation with this name, in any case of letters; COUNT: none. */
static recurrent_activation_kind activation_named(const char *name, size_t n) {
  int kind = 0;
  while (kind < RECURRENT_ACTIVATION_COUNT &&
         (strncasecmp(activations[kind].name, name, n) != 0 || activations[kind].name[n]))
    kind++;
  return (recurrent_activation_kind)kind;
}

/* Alpha or beta of an activation in a call that gives none; NAN: the activation has no such number. ONNX gives no
 * values for Affine and ScaledTanh, which are no operators: they get 1, or 0 for the shift of Affine. */
static double number_of(recurrent_activation_kind kind, const char *name) {
  if (kind == RECURRENT_Affine) return strcmp(name, "alpha") == 0 ? 1 : 0;
  if (kind == RECURRENT_ScaledTanh) return 1;
  const reed_op_attr *row = op_attr_row(op_builtin(activations[kind].op), name);
  return row && row->otherwise ? row->otherwise->f : NAN;
}

/* The attribute's next number if the activation takes one; its default if the attribute has no more numbers. */
static double next_number(const reed_attr *numbers, int64_t *used, double otherwise) {
  if (isnan(otherwise)) return 0;
  return numbers && *used < numbers->n ? numbers->floats[(*used)++] : otherwise;
}

/* `n` activations from "Sigmoid,Tanh,..."; activation_alpha and _beta hold numbers for those that take one, in order.
 */
static reed_status read_activations(const reed_kernel_call *call, const char *names, int32_t n,
                                    recurrent_activation *out_activations) {
  const reed_attr *alphas = reed_attrs_find(call->attrs, "activation_alpha"),
                  *betas = reed_attrs_find(call->attrs, "activation_beta");
  int64_t n_alphas = 0, n_betas = 0;
  const char *p = names;
  for (int32_t i = 0; i < n; i++) {
    size_t length = strcspn(p, ",");
    recurrent_activation_kind kind = activation_named(p, length);
    if (kind == RECURRENT_ACTIVATION_COUNT)
      return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "activation %d of '%s' is not known", i, names);
    double alpha = next_number(alphas, &n_alphas, number_of(kind, "alpha")),
           beta = next_number(betas, &n_betas, number_of(kind, "beta"));
    recurrent_activation *a = &out_activations[i];
    *a = (recurrent_activation){
        .formula = (int)activations[kind].op, .parameters = {alpha, beta}, .slope = 1, .scale = 1};
    if (kind == RECURRENT_Affine) a->scale = alpha, a->shift = beta;
    if (kind == RECURRENT_ScaledTanh) a->scale = alpha, a->slope = beta;
    p += length;
    if (*p ? i == n - 1 : i < n - 1)
      return reed_kernel_fail(call, REED_ERROR_VALUE, "'%s' are not %d activations", names, n);
    p += *p == ',';
  }
  return REED_OK;
}

static reed_status read_attributes(const reed_kernel_call *call, recurrent *r) {
  const int32_t n_functions = r->id == OP_RNN ? 1 : r->id == OP_GRU ? 2 : 3;
  recurrent_activation read[ACTIVATIONS_MAX];
  const reed_attr *given = reed_attrs_find(call->attrs, "activations");
  const char *names = given && *given->s ? given->s : op_attr_row(call->op, "activations")->otherwise->s;
  bool plain = !given || !*given->s || op_attr_is_default(call->op, given);
  /* the row's names are those of two directions */
  int32_t n = n_functions * (plain ? 2 : (int32_t)r->n_directions);
  reed_status status = read_activations(call, names, n, read);
  if (status != REED_OK) return status;
  for (int32_t d = 0; d < r->n_directions; d++)
    memcpy(r->activations[d], read + d * n_functions, (size_t)n_functions * sizeof *read);
  r->linear_before_reset = r->id == OP_GRU && op_attr_int(call->attrs, "linear_before_reset") != 0;
  r->input_forget = r->id == OP_LSTM && op_attr_int(call->attrs, "input_forget") != 0;
  r->clip = reed_attrs_float(call->attrs, "clip", INFINITY);
  return REED_OK;
}

reed_status recurrent_read(const reed_kernel_call *call, recurrent *out_recurrent) {
  const reed_desc *x = &call->inputs[RECURRENT_X], *hidden = &call->inputs[RECURRENT_R];
  const int64_t layout = op_attr_int(call->attrs, "layout");
  const char *direction = op_attr_string(call->attrs, "direction");
  recurrent r = {
      .id = op_id_of(call->op),
      .dtype = x->dtype,
      .team = cpu_env_team(call),
      .level = cpu_level_now(),
      .n_inputs = call->n_inputs,
      .n_outputs = call->n_outputs,
      .n_directions = hidden->dims[0],
      .steps = x->dims[layout],
      .sequences = x->dims[!layout],
      .features = x->dims[2],
      .hidden = hidden->dims[2],
      .batch_first = layout != 0,
      .backward = {strcmp(direction, "reverse") == 0, true},
  };
  const int64_t n_h = r.n_directions * r.hidden;
  r.n_gates = r.id == OP_RNN ? 1 : r.id == OP_GRU ? 3 : 4;
  r.x_step = layout ? r.features : r.sequences * r.features;
  r.x_sequence = layout ? r.steps * r.features : r.features;
  r.y_step = layout ? n_h : r.sequences * n_h;
  r.y_direction = layout ? r.hidden : r.sequences * r.hidden;
  r.y_sequence = layout ? r.steps * n_h : r.hidden;
  r.state_direction = layout ? r.hidden : r.sequences * r.hidden;
  r.state_sequence = layout ? n_h : r.hidden;
  reed_status status = read_attributes(call, &r);
  if (status == REED_OK) *out_recurrent = r;
  return status;
}

reed_status recurrent_check_lengths(const recurrent *r, const reed_kernel_buffers *buffers) {
  for (int64_t k = 0; k < r->sequences; k++) {
    int64_t length = recurrent_length(r, buffers, k);
    if (length < 0 || length > r->steps)
      return reed_kernel_fault(buffers, REED_FAULT_LENGTH, RECURRENT_LENGTHS, k, length, r->steps);
  }
  return REED_OK;
}
