/* The operator table as JSON, built-in and custom operators: reed_operators_json, which `vm ops` prints. */
#include <math.h>

#include "base/desc.h"
#include "base/json.h"
#include "ops/capability.h"
#include "reed/reed.h"

/* Writes a flag only if it is true. */
static void put_flag(json_writer *json, const char *key, bool value) {
  if (value) json_bool(json, key, true);
}

static void put_input(json_writer *json, const reed_op_input *in) {
  static const char *const reads[] = {"none", "shape", "value", "both"};
  json_begin_object(json, NULL);
  json_string(json, "name", in->name);
  json_string(json, "reads", reads[in->reads]);
  json_begin_array(json, "dtypes");
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT; dtype++)
    if (in->dtypes & 1u << dtype) json_string(json, NULL, reed_dtype_name((reed_dtype)dtype));
  json_end_array(json);
  put_flag(json, "optional", in->optional);
  put_flag(json, "variadic", in->variadic);
  put_flag(json, "same_dtype", in->same_type);
  if (in->reads_attr) {
    json_begin_object(json, "reads_if");
    json_string(json, in->reads_attr, in->reads_word);
    json_end_object(json);
  }
  json_end_object(json);
}

static void put_output(json_writer *json, const reed_op *op, const reed_op_output *out) {
  json_begin_object(json, NULL);
  json_string(json, "name", out->name);
  json_string(json, "extent", out->bounded ? "bounded" : "exact");
  if (out->type_rule == REED_TYPE_LIKE || out->type_rule == REED_TYPE_ATTR) {
    bool like = out->type_rule == REED_TYPE_LIKE;
    json_begin_object(json, "dtype");
    json_string(json, like ? "like" : "attribute", like ? op->inputs[out->type_arg].name : out->type_attr);
    json_end_object(json);
  } else {
    bool fixed = out->type_rule == REED_TYPE_FIXED;
    json_string(json, "dtype", fixed ? reed_dtype_name((reed_dtype)out->type_arg) : "custom");
  }
  put_flag(json, "optional", out->optional);
  put_flag(json, "variadic", out->variadic);
  json_end_object(json);
}

/* Writes a number; an infinity, which JSON does not have, becomes a text. */
static void put_float(json_writer *json, const char *key, float value) {
  if (isfinite(value)) json_float(json, key, value);
  else json_string(json, key, value < 0 ? "-inf" : value > 0 ? "inf" : "nan");
}

/* Writes the attribute's value in the row; a tensor is written as its dtype and extents. */
static void put_default(json_writer *json, reed_attr_type type, const reed_attr *value) {
  const char *key = "default";
  char text[128];
  switch (type) {
    case REED_ATTR_INT: json_integer(json, key, value->i); break;
    case REED_ATTR_FLOAT: put_float(json, key, value->f); break;
    case REED_ATTR_STRING: json_string(json, key, value->s); break;
    case REED_ATTR_TENSOR: json_string(json, key, desc_text(&value->desc, text, sizeof text)); break;
    case REED_ATTR_INTS:
    case REED_ATTR_FLOATS:
      json_begin_array(json, key);
      for (int64_t i = 0; i < value->n; i++) {
        if (type == REED_ATTR_INTS) json_integer(json, NULL, value->ints[i]);
        else put_float(json, NULL, value->floats[i]);
      }
      json_end_array(json);
      break;
  }
}

/* Writes the row's valid words, or its range of numbers. */
static void put_valid(json_writer *json, const reed_op_attr *attr) {
  char text[128];
  if (attr->words) {
    json_begin_array(json, "words");
    for (const char *word = attr->words; op_attr_next_word(&word, text, sizeof text);) json_string(json, NULL, text);
    json_end_array(json);
  } else if (op_attr_has_range(attr)) {
    json_integer(json, "least", attr->least);
    if (attr->most < INT64_MAX) json_integer(json, "most", attr->most);
  }
}

static void put_attr(json_writer *json, const reed_op_attr *attr) {
  static const char *const types[] = {"", "int", "float", "string", "ints", "floats", "tensor"};
  json_begin_object(json, NULL);
  json_string(json, "name", attr->name);
  json_string(json, "type", types[attr->type]);
  put_flag(json, "required", attr->required);
  if (attr->otherwise) put_default(json, attr->type, attr->otherwise);
  if (attr->each) json_integer(json, "each", *attr->each);
  put_valid(json, attr);
  json_end_object(json);
}

static const char *const target_names[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) #name,
#include "ops/targets.def"
};
enum { N_TARGETS = sizeof target_names / sizeof *target_names };

/* The reasons for which an operator has no kernel on a kind of device; NULL: none is known. */
#define CUDA_HOST(name, reason) [OP_##name] = reason,
static const char *const cuda_reasons[OP_COUNT] = {
#include "ops/cuda.def"
};
#define CUDA_OPERATOR(name, ...) CUDA_ROW_##name,
#define CUDA_HOST(name, reason) CUDA_ROW_##name,
enum {
#include "ops/cuda.def"
  CUDA_ROWS
};
_Static_assert((int)CUDA_ROWS == (int)OP_COUNT, "ops/cuda.def has a row for each operator");
#define CUDA_LIST "cuda"
static const bool is_cuda[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) sizeof list > 1,
#include "ops/targets.def"
};

static void close_all(capability **targets) {
  for (size_t i = 0; i < N_TARGETS; i++) capability_close(&targets[i]);
}

/* The kinds of devices that have kernels for the operator, each with the dtypes and attributes that it excludes: "" for
 * none. */
static void put_devices(json_writer *json, const reed_op *op, capability *const *targets) {
  json_begin_object(json, "devices");
  for (size_t i = 0; i < N_TARGETS && !op_is_control(op); i++) {
    text_buffer excluded = {0};
    if (capability_of_op(targets[i], op, &excluded))
      json_string(json, target_names[i], excluded.n ? excluded.data : "");
    text_fini(&excluded);
  }
  json_end_object(json);
}

/* The kinds of devices that leave the operator to the host, each with its reason. */
static void put_reasons(json_writer *json, const reed_op *op) {
  const op_id id = op_id_of(op);
  if (id == OP_COUNT || !cuda_reasons[id]) return;
  json_begin_object(json, "on_host");
  for (size_t i = 0; i < N_TARGETS; i++)
    if (is_cuda[i]) json_string(json, target_names[i], cuda_reasons[id]);
  json_end_object(json);
}

static void put_operator(json_writer *json, const reed_op *op, capability *const *targets) {
  static const char *const aliases[] = {
      [REED_ALIAS_NONE] = "none",
      [REED_ALIAS_INPLACE] = "in_place",
      [REED_ALIAS_INPLACE_FIRST] = "in_place_first",
      [REED_ALIAS_VIEW] = "view",
      [REED_ALIAS_JOIN] = "join",
      [REED_ALIAS_PART] = "part",
      [REED_ALIAS_INPLACE_LAST] = "in_place_last",
  };
  json_begin_object(json, NULL);
  json_string(json, "name", op->name);
  json_string(json, "domain", op->domain);
  json_string(json, "class", op_is_control(op) ? "control" : op->light ? "light" : "heavy");
  json_string(json, "alias", aliases[op->alias]);
  put_flag(json, "custom", op_id_of(op) == OP_COUNT);
  put_flag(json, "impure", op->impure);
  put_flag(json, "fusable", op_has(op, OP_PROPERTY_FUSABLE));
  put_flag(json, "extents_only", op_has(op, REED_OP_EXTENTS_ONLY));
  put_flag(json, "any_rank", op_has(op, REED_OP_ANY_RANK));
  put_flag(json, "packable", op_has(op, OP_PROPERTY_PACKABLE));
  json_begin_array(json, "inputs");
  for (int32_t i = 0; i < op->n_inputs; i++) put_input(json, &op->inputs[i]);
  json_end_array(json);
  json_begin_array(json, "outputs");
  for (int32_t i = 0; i < op->n_outputs; i++) put_output(json, op, &op->outputs[i]);
  json_end_array(json);
  json_begin_array(json, "attributes");
  for (int32_t i = 0; i < op->n_attrs; i++) put_attr(json, &op->attrs[i]);
  json_end_array(json);
  put_devices(json, op, targets);
  put_reasons(json, op);
  json_end_object(json);
}

reed_status reed_operators_json(const reed_registry *registry, char **out_json, reed_diagnosis *diagnosis) {
  if (!out_json)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_operators_json: a place for the text is needed");
  json_writer json = {0};
  const reed_op *op;
  capability *targets[N_TARGETS] = {NULL};
  reed_status status = REED_OK;
  for (size_t i = 0; i < N_TARGETS && status == REED_OK; i++)
    status = capability_open(target_names[i], registry, &targets[i], diagnosis);
  if (status != REED_OK) {
    close_all(targets);
    return status;
  }
  json_begin_object(&json, NULL);
  json_begin_array(&json, "operators");
  for (int id = 0; id < OP_COUNT; id++) put_operator(&json, op_builtin((op_id)id), targets);
  for (size_t i = 0; (op = op_custom(registry, i)); i++) put_operator(&json, op, targets);
  json_end_array(&json);
  json_end_object(&json);
  close_all(targets);
  return json_finish(&json, out_json, diagnosis, "the operator table as JSON");
}
