/* Older opsets' forms -> op.def's form (opset 23). One table: each row names an operator, the first opset that does not
 * need the row, and one rewrite. The rows of an operator are applied in order. Source of the changes: the ONNX operator
 * changelog. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler/onnx/reader.h"

#define ANY_OPSET \
  INT64_MAX /* newer opsets too, although they are refused: reading goes on, so that one error lists everything \
               unsupported */

typedef struct rule rule;

typedef struct rule_call {
  onnx_reader *r;
  ir_node *n;
  const rule *rule;
} rule_call;

typedef reed_status (*rewrite)(const rule_call *c);

struct rule {
  const char *name; /* the model's name of the operator; "Reduce*": all names with this beginning */
  int64_t until;    /* applies in opsets below this */
  rewrite rewrite;
  const char *attr; /* the attribute concerned */
  int32_t index;    /* the input or output concerned */
  const char *text; /* a value for the attribute */
  int64_t i;
  double f;
};

static reed_status no_memory(const rule_call *c) { return diag_no_memory(c->r->diagnosis, "an operator's newer form"); }

static reed_status set_input(const rule_call *c, int32_t index, ir_value *v) {
  while (c->n->n_inputs <= index)
    if (!ir_add_input(c->n, NULL)) return no_memory(c);
  c->n->inputs[index] = v;
  return REED_OK;
}

/* A constant scalar (rank 0) or vector of these numbers in the dtype. */
static ir_value *float_constant(const rule_call *c, const double *values, int64_t n, int32_t rank, reed_dtype dtype) {
  reed_desc desc = {.dtype = dtype, .rank = rank, .dims = {n}};
  char *data = ir_alloc(c->r->m, (size_t)n * reed_dtype_bytes(dtype));
  if (!data) return NULL;
  for (int64_t i = 0; i < n; i++) reed_dtype_write(dtype, data + (size_t)i * reed_dtype_bytes(dtype), values[i]);
  return ir_constant(c->r->m, &desc, data, false, NULL);
}

static reed_dtype dtype_of_data(const rule_call *c) {
  reed_dtype dtype = c->n->n_inputs && c->n->inputs[0] ? c->n->inputs[0]->type.dtype : REED_NONE;
  return dtype == REED_NONE ? REED_F32 : dtype;
}

/* Makes the attribute constant input `index`: an int or ints an i64 vector, a float a scalar of the data's dtype,
 * floats an f32 vector. */
static reed_status attr_to_input(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  const reed_attr *a = reed_attrs_find(&attrs, c->rule->attr);
  if (!a) return REED_OK;
  if (c->n->n_inputs > c->rule->index && c->n->inputs[c->rule->index])
    return diag_fail(c->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): attribute '%s' and input %d are both given",
                     c->n->name, c->rule->name, a->name, c->rule->index);
  ir_value *v = NULL;
  switch (a->type) {
    case REED_ATTR_INT: v = ir_constant_i64(c->r->m, &a->i, 1, NULL); break;
    case REED_ATTR_INTS: v = ir_constant_i64(c->r->m, a->ints, a->n, NULL); break;
    case REED_ATTR_FLOAT: v = float_constant(c, &a->f, 1, 0, dtype_of_data(c)); break;
    case REED_ATTR_FLOATS: v = float_constant(c, a->floats, a->n, 1, REED_F32); break;
    case REED_ATTR_STRING:
    case REED_ATTR_TENSOR:
      return diag_fail(c->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): attribute '%s' is of the wrong type",
                       c->n->name, c->rule->name, a->name);
  }
  if (!v) return no_memory(c);
  ir_drop_attr(c->n, c->rule->attr);
  return set_input(c, c->rule->index, v);
}

static reed_status set_text(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  if (reed_attrs_find(&attrs, c->rule->attr)) return REED_OK;
  return ir_set_attr_string(c->n, c->rule->attr, c->rule->text) ? REED_OK : no_memory(c);
}

/* Sets the attribute to the default of the older opset. */
static reed_status set_int(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  if (reed_attrs_find(&attrs, c->rule->attr)) return REED_OK;
  return ir_set_attr_int(c->n, c->rule->attr, c->rule->i) ? REED_OK : no_memory(c);
}

static reed_status set_float(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  if (reed_attrs_find(&attrs, c->rule->attr)) return REED_OK;
  return ir_set_attr_float(c->n, c->rule->attr, c->rule->f) ? REED_OK : no_memory(c);
}

/* Sets the attribute to 0, 1, ...: as many axes as the list `text` has numbers. */
static reed_status first_axes(const rule_call *c) {
  int64_t axes[REED_MAX_RANK], n;
  reed_attrs attrs = ir_attrs(c->n);
  if (reed_attrs_find(&attrs, c->rule->attr) || !reed_attrs_ints(&attrs, c->rule->text, &n) || n > REED_MAX_RANK)
    return REED_OK;
  for (int64_t i = 0; i < n; i++) axes[i] = i;
  return ir_set_attr_ints(c->n, c->rule->attr, axes, n) ? REED_OK : no_memory(c);
}

/* Drops a float attribute of 0, the meaning of the input's absence. */
static reed_status drop_zero(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  const reed_attr *a = reed_attrs_find(&attrs, c->rule->attr);
  if (a && a->type == REED_ATTR_FLOAT && a->f == 0 && !signbit(a->f)) ir_drop_attr(c->n, c->rule->attr);
  return REED_OK;
}

/* Drops an attribute without effect here: it concerns training, or dtypes that Reed lacks or computes with anyway. */
static reed_status drop(const rule_call *c) {
  ir_drop_attr(c->n, c->rule->attr);
  return REED_OK;
}

/* Drops the attribute, which may only have the value `i`. */
static reed_status only_int(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  int64_t value = reed_attrs_int(&attrs, c->rule->attr, c->rule->i);
  if (value != c->rule->i)
    return onnx_unsupported(c->r, c->n->name, "attribute '%s' = %lld of %s", c->rule->attr, (long long)value,
                            c->rule->name);
  ir_drop_attr(c->n, c->rule->attr);
  return REED_OK;
}

/* Replaces an ONNX dtype number by Reed's. */
static reed_status dtype_number(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  const reed_attr *a = reed_attrs_find(&attrs, c->rule->attr);
  if (!a || a->type != REED_ATTR_INT) return REED_OK;
  reed_dtype dtype = a->i >= 0 && a->i < INT32_MAX ? onnx_dtype((int32_t)a->i) : REED_NONE;
  if (dtype == REED_NONE) {
    const char *text = onnx_dtype_text(a->i >= 0 && a->i < INT32_MAX ? (int32_t)a->i : -1);
    reed_status status = onnx_unsupported(c->r, c->n->name, "%s to a dtype that is %s", c->rule->name, text);
    if (status != REED_OK) return status;
  }
  return ir_set_attr_int(c->n, c->rule->attr, dtype) ? REED_OK : no_memory(c);
}

/* Inputs (X, scales) become (X, absent roi, scales). */
static reed_status make_room_for_roi(const rule_call *c) {
  if (c->n->n_inputs != 2) return REED_OK;
  ir_value *scales = c->n->inputs[1];
  c->n->inputs[1] = NULL;
  return set_input(c, 2, scales);
}

/* Drops the outputs from `index` on, which were for training only; a use of one is not supported. */
static reed_status drop_outputs(const rule_call *c) {
  for (int32_t i = c->rule->index; i < c->n->n_outputs; i++)
    if (c->n->outputs[i]) {
      reed_status status = onnx_unsupported(c->r, c->n->name, "output %d of %s (training)", i, c->rule->name);
      if (status != REED_OK) return status;
    }
  if (c->n->n_outputs > c->rule->index) c->n->n_outputs = c->rule->index;
  return REED_OK;
}

/* True for a constant of one element that is zero or false. */
static bool is_constant_zero(const ir_value *v) {
  reed_desc d;
  return ir_is_constant(v) && ir_desc(v, &d) && desc_elements(&d) == 1 && reed_dtype_read(d.dtype, v->data) == 0;
}

/* Refuses a Dropout that may draw random numbers: training_mode is not a constant false, and the ratio not a constant
 * zero. */
static reed_status inference_only(const rule_call *c) {
  const ir_node *n = c->n;
  bool training = n->n_inputs > 2 && n->inputs[2] && !is_constant_zero(n->inputs[2]);
  if (!training || is_constant_zero(n->inputs[1])) return REED_OK;
  return onnx_unsupported(c->r, n->name, "Dropout in training mode");
}

/* Renames the modes "bilinear" and "bicubic" of first versions, which are of images of two axes, to "linear" and
 * "cubic". */
static reed_status plain_mode(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  const char *mode = reed_attrs_string(&attrs, "mode", "");
  if (strcmp(mode, "bilinear") != 0 && strcmp(mode, "bicubic") != 0) return REED_OK;
  return ir_set_attr_string(c->n, "mode", mode + strlen("bi")) ? REED_OK : no_memory(c);
}

/* CastLike(X, Y) is Cast to Y's dtype. */
static reed_status cast_like(const rule_call *c) {
  ir_node *n = c->n;
  reed_dtype dtype = n->n_inputs == 2 && n->inputs[1] ? n->inputs[1]->type.dtype : REED_NONE;
  if (dtype == REED_NONE) {
    reed_status status = onnx_unsupported(c->r, n->name, "CastLike to a dtype that is not known");
    if (status != REED_OK) return status;
    dtype = REED_F32; /* the model is refused; reading goes on for the list of problems */
  }
  if (n->n_inputs > 1) n->n_inputs = 1;
  return ir_set_attr_int(n, "to", dtype) ? REED_OK : no_memory(c);
}

/* Sets the attribute if PyTorch has exported the model and Resize aligns the corners: PyTorch computes places from
 * whole extents, but its exporters write scales. */
static reed_status as_in_pytorch(const rule_call *c) {
  reed_attrs attrs = ir_attrs(c->n);
  const reed_attr *mapping = reed_attrs_find(&attrs, "coordinate_transformation_mode");
  if (!mapping || mapping->type != REED_ATTR_STRING || strcmp(mapping->s, "align_corners") != 0 ||
      strcmp(onnx_text(c->r->model->producer_name), "pytorch") != 0)
    return REED_OK;
  return set_int(c);
}

static const rule rules[] = {
    {"Attention", ANY_OPSET, drop, .attr = "softmax_precision"},
    {"BatchNormalization", 9, only_int, .attr = "spatial", .i = 1},
    {"BatchNormalization", 14, drop_outputs, .index = 1},
    {"Cast", ANY_OPSET, dtype_number, .attr = "to"},
    {"Cast", ANY_OPSET, drop, .attr = "round_mode"},
    {"Cast", ANY_OPSET, drop, .attr = "saturate"},
    {"CastLike", ANY_OPSET, cast_like},
    {"CastLike", ANY_OPSET, drop, .attr = "round_mode"},
    {"CastLike", ANY_OPSET, drop, .attr = "saturate"},
    {"Clip", 11, set_float, .attr = "min", .f = -FLT_MAX},
    {"Clip", 11, set_float, .attr = "max", .f = FLT_MAX},
    {"Clip", 11, attr_to_input, .attr = "min", .index = 1},
    {"Clip", 11, attr_to_input, .attr = "max", .index = 2},
    {"Dropout", 12, drop, .attr = "ratio"},
    {"Dropout", ANY_OPSET, inference_only},
    {"EyeLike", ANY_OPSET, dtype_number, .attr = "dtype"},
    {"GridSample", ANY_OPSET, plain_mode},
    {"GroupNormalization", ANY_OPSET, drop, .attr = "stash_type"},
    {"Hardmax", 13, set_int, .attr = "axis", .i = 1},
    {"Hardmax", 13, set_int, .attr = "flattened", .i = 1},
    {"LayerNormalization", ANY_OPSET, dtype_number, .attr = "stash_type"},
    {"LogSoftmax", 13, set_int, .attr = "axis", .i = 1},
    {"LogSoftmax", 13, set_int, .attr = "flattened", .i = 1},
    {"Pad", 11, attr_to_input, .attr = "pads", .index = 1},
    {"Pad", 11, drop_zero, .attr = "value"},
    {"Pad", 11, attr_to_input, .attr = "value", .index = 2},
    {"RMSNormalization", ANY_OPSET, drop, .attr = "stash_type"},
    {"ReduceSum", 13, attr_to_input, .attr = "axes", .index = 1},
    {"Reduce*", 18, attr_to_input, .attr = "axes", .index = 1},
    {"Resize", 11, make_room_for_roi},
    {"Resize", 11, set_text, .attr = "coordinate_transformation_mode", .text = "asymmetric"},
    {"Resize", 11, set_text, .attr = "nearest_mode", .text = "floor"},
    {"Resize", ANY_OPSET, as_in_pytorch, .attr = "whole_extents", .i = 1},
    {"RoiAlign", 16, set_text, .attr = "coordinate_transformation_mode", .text = "output_half_pixel"},
    {"Slice", 10, first_axes, .attr = "axes", .text = "starts"},
    {"Slice", 10, attr_to_input, .attr = "starts", .index = 1},
    {"Slice", 10, attr_to_input, .attr = "ends", .index = 2},
    {"Slice", 10, attr_to_input, .attr = "axes", .index = 3},
    {"Softmax", 13, set_int, .attr = "axis", .i = 1},
    {"Softmax", 13, set_int, .attr = "flattened", .i = 1},
    {"Split", 13, attr_to_input, .attr = "split", .index = 1},
    {"Squeeze", 13, attr_to_input, .attr = "axes", .index = 1},
    {"TopK", 10, attr_to_input, .attr = "k", .index = 1},
    {"Unsqueeze", 13, attr_to_input, .attr = "axes", .index = 1},
    {"Upsample", 9, attr_to_input, .attr = "scales", .index = 1},
    {"Upsample", ANY_OPSET, make_room_for_roi},
    {"Upsample", ANY_OPSET, plain_mode},
    {"Upsample", ANY_OPSET, set_text, .attr = "coordinate_transformation_mode", .text = "asymmetric"},
    {"Upsample", ANY_OPSET, set_text, .attr = "nearest_mode", .text = "floor"},
};

/* Renamed operators; the rows of the new names list the attributes. */
static const struct {
  const char *old, *modern;
} renamed[] = {{"CastLike", "Cast"}, {"Scatter", "ScatterElements"}, {"Upsample", "Resize"}};

const char *onnx_modern_name(const char *name) {
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
    if (strcmp(renamed[i].old, name) == 0) return renamed[i].modern;
  return name;
}

static bool matches(const char *pattern, const char *name) {
  size_t n = strlen(pattern);
  return pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

reed_status onnx_upgrade(onnx_reader *r, ir_node *n, const char *name, int64_t opset) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (opset >= rules[i].until || !matches(rules[i].name, name)) continue;
    reed_status status = rules[i].rewrite(&(rule_call){r, n, &rules[i]});
    if (status != REED_OK) return status;
  }
  return REED_OK;
}
