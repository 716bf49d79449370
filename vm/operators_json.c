/* The operator table as JSON, for `vm ops`: one object a row of ops/op.def or of the registry, nothing that is not in the row. */
#include <cjson/cJSON.h>

#include "base/diag.h"
#include "base/mem.h"
#include "ops/op.h"
#include "reed/reed.h"

static const char *const reads_texts[] = {[REED_READS_NONE] = "none", [REED_READS_SHAPE] = "shape", [REED_READS_VALUE] = "value", [REED_READS_BOTH] = "both"};
static const char *const alias_texts[] = {
    [REED_ALIAS_NONE] = "none", [REED_ALIAS_INPLACE] = "in-place", [REED_ALIAS_INPLACE_FIRST] = "in-place-first", [REED_ALIAS_VIEW] = "view"};
static const char *const attr_texts[] = {[REED_ATTR_INT] = "int",   [REED_ATTR_FLOAT] = "float",   [REED_ATTR_STRING] = "string",
                                         [REED_ATTR_INTS] = "ints", [REED_ATTR_FLOATS] = "floats", [REED_ATTR_TENSOR] = "tensor"};

/* An object at the list's end; NULL: no memory. */
static cJSON *append(cJSON *list) {
  cJSON *item = cJSON_CreateObject();
  if (item && cJSON_AddItemToArray(list, item)) return item;
  cJSON_Delete(item);
  return NULL;
}

static bool add_dtypes(cJSON *object, reed_dtype_set set) {
  cJSON *list = cJSON_AddArrayToObject(object, "dtypes");
  bool ok = list != NULL;
  for (int d = REED_NONE + 1; ok && d < REED_DTYPE_COUNT; d++) {
    if (!(set & 1u << d)) continue;
    cJSON *name = cJSON_CreateString(reed_dtype_name((reed_dtype)d));
    ok = name && cJSON_AddItemToArray(list, name);
  }
  return ok;
}

static bool add_input(cJSON *list, const reed_op_input *in) {
  cJSON *item = append(list);
  return item && cJSON_AddStringToObject(item, "name", in->name) && cJSON_AddStringToObject(item, "reads", reads_texts[in->reads]) &&
         cJSON_AddBoolToObject(item, "optional", in->optional) && cJSON_AddBoolToObject(item, "variadic", in->variadic) && add_dtypes(item, in->dtypes);
}

static bool add_output(cJSON *list, const reed_op_output *out) {
  cJSON *item = append(list);
  return item && cJSON_AddStringToObject(item, "name", out->name) && cJSON_AddStringToObject(item, "extent", out->bounded ? "bounded" : "exact") &&
         cJSON_AddBoolToObject(item, "optional", out->optional) && cJSON_AddBoolToObject(item, "variadic", out->variadic);
}

static bool add_attribute(cJSON *list, const reed_op_attr *attr) {
  cJSON *item = append(list);
  return item && cJSON_AddStringToObject(item, "name", attr->name) && cJSON_AddStringToObject(item, "type", attr_texts[attr->type]) &&
         cJSON_AddBoolToObject(item, "required", attr->required);
}

static bool add_operator(cJSON *list, const reed_op *op) {
  cJSON *item = append(list);
  bool ok = item && cJSON_AddStringToObject(item, "domain", op->domain) && cJSON_AddStringToObject(item, "name", op->name) &&
            cJSON_AddBoolToObject(item, "custom", op_id_of(op) == OP_COUNT) &&
            cJSON_AddStringToObject(item, "class", op_is_control(op) ? "control" : op->light ? "light" : "heavy") &&
            cJSON_AddStringToObject(item, "alias", alias_texts[op->alias]);
  cJSON *inputs = ok ? cJSON_AddArrayToObject(item, "inputs") : NULL, *outputs = inputs ? cJSON_AddArrayToObject(item, "outputs") : NULL,
        *attributes = outputs ? cJSON_AddArrayToObject(item, "attributes") : NULL;
  ok = attributes != NULL;
  for (int32_t i = 0; ok && i < op->n_inputs; i++) ok = add_input(inputs, &op->inputs[i]);
  for (int32_t i = 0; ok && i < op->n_outputs; i++) ok = add_output(outputs, &op->outputs[i]);
  for (int32_t i = 0; ok && i < op->n_attrs; i++) ok = add_attribute(attributes, &op->attrs[i]);
  return ok;
}

reed_status reed_operators_json(const reed_registry *registry, char **out_json, reed_diagnosis *diagnosis) {
  cJSON *root = cJSON_CreateObject(), *list = root ? cJSON_AddArrayToObject(root, "operators") : NULL;
  bool ok = list != NULL;
  for (int i = 0; ok && i < OP_COUNT; i++) ok = add_operator(list, op_builtin((op_id)i));
  const reed_op *custom;
  for (size_t i = 0; ok && (custom = op_custom(registry, i)); i++) ok = add_operator(list, custom);
  char *printed = ok ? cJSON_PrintUnformatted(root) : NULL, *copy = printed ? mem_copy_text(printed) : NULL;
  cJSON_free(printed);
  cJSON_Delete(root);
  if (!copy) return diag_no_memory(diagnosis, "the operator table as JSON");
  *out_json = copy;
  return REED_OK;
}
