/* Running shape functions, and checking a call against the operator's row. Results of shape functions are checked here
 * once, so that no caller meets a negative or overflowing size. The shape functions themselves are in the other files.
 */
#include "shapefuncs/shapefn.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/desc.h"
#include "base/text.h"
#include "ops/operands.h"
#include "ops/packed.h"
#include "shapefuncs/call.h"
#include "shapefuncs/table.h"

/* ---- a call against the operator's row ---- */

typedef struct call_site {
  const reed_op *op;
  const char *node;
  reed_diagnosis *diagnosis;
  const reed_attrs *attrs;
} call_site;

REED_PRINTF(4, 5)
static reed_status refuse(const call_site *site, reed_status status, int32_t input, const char *format, ...) {
  char message[512], name[96];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  status = diag_fail(site->diagnosis, status, "%s node '%s': %s", site->op->name, site->node, message);
  diag_place_node(site->diagnosis, site->op->name, site->node,
                  input >= 0 ? operands_name(site->op, input, name) : NULL);
  return status;
}

static void dtypes_text(reed_dtype_set set, char out[128]) {
  size_t n = 0;
  out[0] = 0;
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT && n < 128; dtype++)
    if (set & 1u << dtype)
      n += (size_t)snprintf(out + n, 128 - n, "%s%s", n ? " " : "", reed_dtype_name((reed_dtype)dtype));
}

/* True for an operand of a product with packed weights of half precision that may differ from X: the weights of an f32
 * X; beside weights of bf16 in pairs, X and the residual are f32 or bf16 each, and other operands f32. */
static bool mixed_product(const call_site *site, int32_t i, const reed_dtype *inputs) {
  if (!packed_is(site->op, site->attrs)) return false;
  if (i == 1 && inputs[0] == REED_F32) return inputs[1] == REED_BF16 || inputs[1] == REED_F16;
  if (!packed_has_pairs(site->op, site->attrs) || (inputs[0] != REED_F32 && inputs[0] != REED_BF16)) return false;
  return inputs[i] == REED_F32 || (i == 3 && inputs[i] == REED_BF16);
}

static reed_status check_input(const call_site *site, int32_t i, int32_t n_inputs, const reed_dtype *inputs) {
  const reed_op_input *declared = reed_op_input_at(site->op, i);
  char name[96], allowed[128];
  if (!declared)
    return refuse(site, REED_ERROR_TYPE, -1, "has %d inputs, at most %d are allowed", n_inputs, site->op->n_inputs);
  if (i >= n_inputs || inputs[i] == REED_NONE) {
    if (declared->optional) return REED_OK;
    return refuse(site, REED_ERROR_TYPE, i, "input %d (%s) is missing", i, operands_name(site->op, i, name));
  }
  if (inputs[i] < REED_NONE || inputs[i] >= REED_DTYPE_COUNT || !(declared->dtypes & 1u << inputs[i])) {
    dtypes_text(declared->dtypes, allowed);
    return refuse(site, REED_ERROR_TYPE, i, "input %d (%s) is %s; allowed are %s", i, operands_name(site->op, i, name),
                  reed_dtype_name(inputs[i]), allowed);
  }
  if (declared->same_type && inputs[0] != REED_NONE && inputs[i] != inputs[0] && !mixed_product(site, i, inputs))
    return refuse(site, REED_ERROR_TYPE, i, "input %d (%s) is %s, input 0 is %s: they must have the same dtype", i,
                  operands_name(site->op, i, name), reed_dtype_name(inputs[i]), reed_dtype_name(inputs[0]));
  return REED_OK;
}

static reed_status check_inputs(const call_site *site, int32_t n_inputs, const reed_dtype *inputs) {
  int32_t n_declared = n_inputs > site->op->n_inputs ? n_inputs : site->op->n_inputs;
  for (int32_t i = 0; i < n_declared; i++) {
    reed_status status = check_input(site, i, n_inputs, inputs);
    if (status) return status;
  }
  return REED_OK;
}

static const char *attr_type_name(reed_attr_type type) {
  static const char *const names[] = {"?", "an int", "a float", "a string", "ints", "floats", "a tensor"};
  return (unsigned)type < sizeof names / sizeof *names ? names[type] : names[0];
}

static reed_status check_attrs(const call_site *site, const reed_attrs *attrs) {
  const reed_op *op = site->op;
  for (int32_t i = 0; i < attrs->n; i++) {
    const reed_attr *given = &attrs->items[i];
    const reed_op_attr *declared = op_attr_row(op, given->name);
    if (!declared) return refuse(site, REED_ERROR_UNSUPPORTED, -1, "attribute '%s' is not known", given->name);
    if (declared->type != given->type)
      return refuse(site, REED_ERROR_TYPE, -1, "attribute '%s' is %s where %s is wanted", given->name,
                    attr_type_name(given->type), attr_type_name(declared->type));
  }
  for (int32_t k = 0; k < op->n_attrs; k++)
    if (op->attrs[k].required && !reed_attrs_find(attrs, op->attrs[k].name))
      return refuse(site, REED_ERROR_TYPE, -1, "attribute '%s' is missing", op->attrs[k].name);
  return REED_OK;
}

reed_status shapefn_check_call(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                               const reed_dtype *inputs, int32_t n_outputs, reed_diagnosis *diagnosis) {
  const call_site site = {op, node, diagnosis, attrs};
  reed_status status = check_inputs(&site, n_inputs, inputs);
  if (status) return status;
  int32_t n_required = 0;
  for (int32_t i = 0; i < op->n_outputs; i++)
    if (!op->outputs[i].optional) n_required = i + 1;
  if (n_outputs < n_required)
    return refuse(&site, REED_ERROR_TYPE, -1, "has %d outputs, at least %d are wanted", n_outputs, n_required);
  if (n_outputs && !reed_op_output_at(op, n_outputs - 1))
    return refuse(&site, REED_ERROR_TYPE, -1, "has %d outputs, at most %d are allowed", n_outputs, op->n_outputs);
  return check_attrs(&site, attrs);
}

/* ---- the runner ---- */

static bool has_unknown_rank(const reed_shape_call *call) {
  for (int32_t i = 0; i < call->n_inputs; i++)
    if (call->inputs[i].dtype != REED_NONE && call->inputs[i].rank < 0 &&
        op_reads(call->op, call->attrs, i) != REED_READS_NONE)
      return true;
  return false;
}

/* Sets the outputs' dtypes by the row, with unknown extents. */
static reed_status preset(reed_shape_call *call, const op_facts *facts) {
  reed_dtype inputs[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) inputs[i] = call->inputs[i].dtype;
  for (int32_t i = 0; i < call->n_outputs; i++) {
    reed_shape_output *out = &call->outputs[i];
    *out = (reed_shape_output){.dtype = facts && i == 0
                                            ? op_facts_dtype(facts, call->op, call->n_inputs, inputs)
                                            : op_output_dtype(call->op, call->attrs, i, call->n_inputs, inputs),
                               .bounded_axis = -1};
    if (out->dtype == REED_DTYPE_COUNT) {
      const char *attr = reed_op_output_at(call->op, i)->type_attr;
      return reed_shape_fail(call, REED_ERROR_TYPE, -1, "attribute %s: %lld is no dtype", attr,
                             (long long)op_attr_int(call->attrs, attr));
    }
  }
  return REED_OK;
}

/* Checks the shape function's result for output i. */
static reed_status check_output(reed_shape_call *call, int32_t i) {
  const reed_shape_output *out = &call->outputs[i];
  const reed_op_output *declared = reed_op_output_at(call->op, i);
  char text[256];
  if (!declared || out->rank > REED_MAX_RANK || out->rank < (call->symbols ? -1 : 0))
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "output %d has rank %d", i, out->rank);
  if (!call->symbols && (out->dtype <= REED_NONE || out->dtype >= REED_DTYPE_COUNT))
    return reed_shape_fail(call, REED_ERROR_TYPE, -1, "output %d (%s) has no dtype", i, declared->name);
  if (out->rank >= 0 &&
      (out->bounded_axis < -1 || out->bounded_axis >= out->rank || (out->bounded_axis >= 0) != declared->bounded))
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "output %d (%s): bounded axis %d of rank %d", i, declared->name,
                           out->bounded_axis, out->rank);
  int64_t bytes = (int64_t)reed_dtype_bytes(out->dtype);
  for (int32_t k = 0; k < out->rank; k++) {
    if (!reed_dim_known(call, out->dims[k])) continue;
    if (out->dims[k] < 0)
      return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "output %s would have the negative extents %s", declared->name,
                             shapecall_dims_text(call, out->rank, out->dims, text, sizeof text));
    if (out->dims[k] && !desc_multiply(&bytes, out->dims[k])) /* as desc_elements: zeros do not excuse the others */
      return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "output %s of %s is too large", declared->name,
                             shapecall_dims_text(call, out->rank, out->dims, text, sizeof text));
  }
  return REED_OK;
}

/* Checks the inputs' dtypes at run time, because a module's registers have no dtype until they are filled. */
static reed_status check_dtypes(const reed_shape_call *call) {
  const call_site site = {call->op, call->node, call->diagnosis, call->attrs};
  reed_dtype dtypes[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) dtypes[i] = call->inputs[i].dtype;
  return check_inputs(&site, call->n_inputs, dtypes);
}

/* Checks the attributes' values by the operator's row: no shape function and no kernel checks them again. */
static reed_status check_values(reed_shape_call *call) {
  int64_t at;
  for (int32_t i = 0; i < call->op->n_attrs; i++) {
    const reed_op_attr *row = &call->op->attrs[i];
    if (!row->words && !row->least && !row->most) continue;
    const reed_attr *given = reed_attrs_find(call->attrs, row->name);
    if (!given || op_attr_is_valid(row, given, &at)) continue;
    if (row->type == REED_ATTR_STRING)
      return reed_shape_fail(call, REED_ERROR_VALUE, -1, "attribute %s has no meaning '%s'", row->name, given->s);
    if (row->type == REED_ATTR_INTS)
      return reed_shape_fail(call, REED_ERROR_VALUE, -1, "attribute %s has the number %lld", row->name,
                             (long long)given->ints[at]);
    if (row->type == REED_ATTR_FLOAT)
      return reed_shape_fail(call, REED_ERROR_VALUE, -1, "attribute %s is %g", row->name, given->f);
    return reed_shape_fail(call, REED_ERROR_VALUE, -1, "attribute %s is %lld", row->name, (long long)given->i);
  }
  return REED_OK;
}

/* Gives packed weights the extents of ONNX. */
static reed_status see_plain_weights(reed_shape_call *call, reed_shape_input *seen) {
  packed_order order;
  int64_t n;
  const int64_t *dims = reed_attrs_ints(call->attrs, PACKED_ATTR, &n);
  const reed_shape_input *weights = &call->inputs[1];
  bool fits = call->n_inputs >= 2 && call->n_inputs <= PACKED_INPUTS && weights->rank == 1;
  reed_desc packed = {.dtype = fits ? weights->dtype : REED_NONE, .rank = 1, .dims = {fits ? weights->dims[0] : 0}};
  if (!fits || !packed_order_read(call->op, call->attrs, &packed, &order))
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "weights are not packed as attribute %s says", PACKED_ATTR);
  memcpy(seen, call->inputs, (size_t)call->n_inputs * sizeof *seen);
  seen[1].rank = (int32_t)n;
  seen[1].dims = dims;
  call->inputs = seen;
  return REED_OK;
}

/* The extents of a Conv with packed weights, as shapefn_conv has them. False: it has an error to tell. */
static bool conv_extents(const reed_shape_call *call, const op_conv_facts *f, reed_dim *out_dims) {
  const reed_shape_input *x = &call->inputs[0], *weights = &call->inputs[1];
  const int32_t rank = f->n_axes + 2, channel = rank - 1, spatial = 1, x_channel = f->first_input ? 1 : channel,
                x_spatial = f->first_input ? 2 : spatial;
  if (call->n_inputs < 2 || call->n_inputs > PACKED_INPUTS || x->rank != rank || weights->rank != 1) return false;
  if (weights->dims[0] != f->n_packed || (f->order.pairs && weights->dtype != REED_BF16) ||
      weights->dtype == REED_F64 || x->dims[x_channel] != f->order.plain.dims[1] * f->group)
    return false;
  out_dims[0] = x->dims[0];
  out_dims[channel] = f->order.plain.dims[0];
  for (int32_t i = 0; i < f->n_axes; i++) {
    const int64_t in = x->dims[x_spatial + i], stride = f->strides[i];
    if (in < 1 || in > INT32_MAX) return false;
    if (f->auto_pad == FACTS_PAD_SAME_UPPER || f->auto_pad == FACTS_PAD_SAME_LOWER) {
      out_dims[spatial + i] = (in + stride - 1) / stride;
      continue;
    }
    const bool padded = f->auto_pad == FACTS_PAD_NOTSET;
    const int64_t slack = in + (padded ? f->pads[i] + f->pads[f->n_axes + i] : 0) -
                          ((f->order.plain.dims[2 + i] - 1) * f->dilations[i] + 1);
    if (slack < 0) return false;
    out_dims[spatial + i] = slack / stride + 1;
  }
  return true;
}

/* Calls the shape function, with packed weights seen as ONNX has them. */
static reed_status call_function(reed_shape_call call, reed_shape_fn shape) {
  reed_shape_input seen[PACKED_INPUTS];
  reed_status status = packed_is(call.op, call.attrs) ? see_plain_weights(&call, seen) : REED_OK;
  if (status) return status;
  if (has_unknown_rank(&call) && !op_has(call.op, REED_OP_ANY_RANK)) {
    if (!call.symbols) return reed_shape_fail(&call, REED_ERROR_SHAPE, -1, "an input has no rank");
    for (int32_t i = 0; i < call.n_outputs; i++) shapecall_unknown(&call, i);
  } else {
    status = shape(&call);
  }
  return status && !call.status ? reed_shape_fail(&call, status, -1, "the shape function failed") : call.status;
}

/* Runs the call's shape function; `checked`: the attributes' values have been checked. */
static reed_status run(reed_shape_call call, bool checked, const op_facts *facts) {
  struct reed_symbols *symbols = call.symbols;
  const reed_shape_fn shape = shapefn_of(call.op);
  if (!shape) return reed_shape_fail(&call, REED_ERROR_ARGUMENT, -1, "control flow has no shape function");
  reed_status status = symbols ? REED_OK : check_dtypes(&call);
  if (!status) status = preset(&call, facts);
  if (!status && !checked) status = check_values(&call);
  if (status) return status;
  if (facts && facts->conv && call.n_outputs == 1 && conv_extents(&call, facts->conv, call.outputs[0].dims))
    call.outputs[0].rank = facts->conv->n_axes + 2;
  else status = call_function(call, shape);
  if (status) return status;
  for (int32_t i = 0; !call.status && i < call.n_outputs; i++) (void)check_output(&call, i);
  if (call.status) return call.status;
  if (symbols && symbols_status(symbols)) return diag_no_memory(call.diagnosis, "symbolic extents");
  return REED_OK;
}

reed_status shapefn_run(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                        const reed_shape_input *inputs, int32_t n_outputs, reed_shape_output *outputs,
                        struct reed_symbols *symbols, reed_diagnosis *diagnosis) {
  reed_shape_call call = {.op = op,
                          .attrs = attrs,
                          .node = node,
                          .n_inputs = n_inputs,
                          .n_outputs = n_outputs,
                          .inputs = inputs,
                          .outputs = outputs,
                          .symbols = symbols,
                          .diagnosis = diagnosis};
  return run(call, false, NULL);
}

bool shapefn_values_fit(const reed_op *op, const reed_attrs *attrs) {
  reed_shape_call call = {.op = op, .attrs = attrs, .node = ""};
  return check_values(&call) == REED_OK;
}

reed_status shapefn_call(const op_call *call, reed_shape_output *outputs) {
  reed_shape_input inputs[REED_MAX_OPERANDS];
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const reed_desc *desc = call->inputs[i].desc;
    inputs[i] = (reed_shape_input){.dtype = REED_NONE};
    if (!desc) continue;
    inputs[i] = (reed_shape_input){.dtype = desc->dtype, .rank = desc->rank, .dims = desc->dims};
    if ((inputs[i].data = op_call_value(call, i))) inputs[i].n_values = desc_elements(desc);
  }
  reed_shape_call made = {.op = call->op,
                          .attrs = call->attrs,
                          .node = call->node,
                          .n_inputs = call->n_inputs,
                          .n_outputs = call->n_outputs,
                          .inputs = inputs,
                          .outputs = outputs,
                          .diagnosis = call->diagnosis};
  return run(made, call->values_checked, call->facts);
}
