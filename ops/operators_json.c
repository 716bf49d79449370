/* The operator table as JSON: what `vm ops` prints. */
#include <math.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "ops/op.h"
#include "reed/reed.h"

static void put_string(text_buffer *json, const char *text) {
  text_append(json, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') text_append(json, "\\%c", c);
    else if (c < 0x20) text_append(json, "\\u%04x", c);
    else text_append_bytes(json, text, 1);
  }
  text_append(json, "\"");
}

static void put_bool(text_buffer *json, const char *key, bool value) {
  if (value) text_append(json, ",\"%s\":true", key);
}

static void put_input(text_buffer *json, const reed_op_input *in) {
  static const char *const reads[] = {"none", "shape", "value", "both"};
  text_append(json, "{\"name\":");
  put_string(json, in->name);
  text_append(json, ",\"reads\":\"%s\",\"dtypes\":[", reads[in->reads]);
  const char *between = "";
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT; dtype++) {
    if (!(in->dtypes & 1u << dtype)) continue;
    text_append(json, "%s\"%s\"", between, reed_dtype_name((reed_dtype)dtype));
    between = ",";
  }
  text_append(json, "]");
  put_bool(json, "optional", in->optional);
  put_bool(json, "variadic", in->variadic);
  put_bool(json, "same_dtype", in->same_type);
  if (in->reads_attr) {
    text_append(json, ",\"reads_if\":{");
    put_string(json, in->reads_attr);
    text_append(json, ":");
    put_string(json, in->reads_word);
    text_append(json, "}");
  }
  text_append(json, "}");
}

static void put_output(text_buffer *json, const reed_op *op, const reed_op_output *out) {
  text_append(json, "{\"name\":");
  put_string(json, out->name);
  text_append(json, ",\"extent\":\"%s\",\"dtype\":", out->bounded ? "bounded" : "exact");
  if (out->type_rule == REED_TYPE_FIXED) {
    text_append(json, "\"%s\"", reed_dtype_name((reed_dtype)out->type_arg));
  } else if (out->type_rule == REED_TYPE_LIKE) {
    text_append(json, "{\"like\":");
    put_string(json, op->inputs[out->type_arg].name);
    text_append(json, "}");
  } else if (out->type_rule == REED_TYPE_ATTR) {
    text_append(json, "{\"attribute\":");
    put_string(json, out->type_attr);
    text_append(json, "}");
  } else {
    text_append(json, "\"custom\"");
  }
  put_bool(json, "optional", out->optional);
  put_bool(json, "variadic", out->variadic);
  text_append(json, "}");
}

static void put_number(text_buffer *json, double number) {
  if (isfinite(number)) text_append(json, "%.9g", number);
  else text_append(json, "\"%g\"", number);
}

/* The value where a call leaves the attribute out; of a tensor its dtype and extents. */
static void put_value(text_buffer *json, const reed_op_attr *attr) {
  const reed_attr *value = attr->otherwise;
  char text[128];
  switch (attr->type) {
    case REED_ATTR_INT: text_append(json, "%lld", (long long)value->i); break;
    case REED_ATTR_FLOAT: put_number(json, value->f); break;
    case REED_ATTR_STRING: put_string(json, value->s); break;
    case REED_ATTR_TENSOR: put_string(json, desc_text(&value->desc, text, sizeof text)); break;
    case REED_ATTR_INTS:
    case REED_ATTR_FLOATS:
      text_append(json, "[");
      for (int64_t i = 0; i < value->n; i++) {
        text_append(json, i ? "," : "");
        put_number(json, attr->type == REED_ATTR_INTS ? (double)value->ints[i] : value->floats[i]);
      }
      text_append(json, "]");
      break;
  }
}

static void put_attr(text_buffer *json, const reed_op_attr *attr) {
  static const char *const types[] = {"", "int", "float", "string", "ints", "floats", "tensor"};
  text_append(json, "{\"name\":");
  put_string(json, attr->name);
  text_append(json, ",\"type\":\"%s\"", types[attr->type]);
  put_bool(json, "required", attr->required);
  if (attr->otherwise) {
    text_append(json, ",\"default\":");
    put_value(json, attr);
  }
  text_append(json, "}");
}

static void put_operator(text_buffer *json, const reed_op *op) {
  static const char *const aliases[] = {
      [REED_ALIAS_NONE] = "none", [REED_ALIAS_INPLACE] = "in_place", [REED_ALIAS_INPLACE_FIRST] = "in_place_first",
      [REED_ALIAS_VIEW] = "view", [REED_ALIAS_JOIN] = "join",        [REED_ALIAS_PART] = "part",
  };
  text_append(json, "{\"name\":");
  put_string(json, op->name);
  text_append(json, ",\"domain\":");
  put_string(json, op->domain);
  text_append(json, ",\"class\":\"%s\",\"alias\":\"%s\"",
              op_is_control(op) ? "control"
              : op->light       ? "light"
                                : "heavy",
              aliases[op->alias]);
  put_bool(json, "custom", op_id_of(op) == OP_COUNT);
  put_bool(json, "impure", op->impure);
  put_bool(json, "fusable", op_has(op, OP_PROPERTY_FUSABLE));
  put_bool(json, "extents_only", op_has(op, REED_OP_EXTENTS_ONLY));
  put_bool(json, "any_rank", op_has(op, REED_OP_ANY_RANK));
  put_bool(json, "packable", op_has(op, OP_PROPERTY_PACKABLE));
  text_append(json, ",\"inputs\":[");
  for (int32_t i = 0; i < op->n_inputs; i++) {
    text_append(json, i ? "," : "");
    put_input(json, &op->inputs[i]);
  }
  text_append(json, "],\"outputs\":[");
  for (int32_t i = 0; i < op->n_outputs; i++) {
    text_append(json, i ? "," : "");
    put_output(json, op, &op->outputs[i]);
  }
  text_append(json, "],\"attributes\":[");
  for (int32_t i = 0; i < op->n_attrs; i++) {
    text_append(json, i ? "," : "");
    put_attr(json, &op->attrs[i]);
  }
  text_append(json, "]}");
}

reed_status reed_operators_json(const reed_registry *registry, char **out_json, reed_diagnosis *diagnosis) {
  text_buffer json = {0};
  const reed_op *op;
  text_append(&json, "{\"operators\":[\n");
  for (int id = 0; id < OP_COUNT; id++) {
    text_append(&json, id ? ",\n" : "");
    put_operator(&json, op_builtin((op_id)id));
  }
  for (size_t i = 0; (op = op_custom(registry, i)); i++) {
    text_append(&json, ",\n");
    put_operator(&json, op);
  }
  text_append(&json, "\n]}\n");
  if (json.failed) {
    text_fini(&json);
    return diag_no_memory(diagnosis, "the operator table as JSON");
  }
  *out_json = json.data;
  return REED_OK;
}
