/* The registry of custom operators, and finding operators by domain and name. A registry borrows its operators and owns
 * the shared objects that it has loaded. The rows of the built-in operators are in ops/table.c. */
#include "ops/op.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/vec.h"

struct reed_registry {
  VEC_OF(const reed_op *) ops;
  VEC_OF(void *) plugins; /* dlopen handles */
};

static const char *plain_domain(const char *domain) { return strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

static bool is_named(const reed_op *op, const char *domain, const char *name) {
  return strcmp(op->name, name) == 0 && strcmp(plain_domain(op->domain), domain) == 0;
}

const reed_op *op_find(const reed_registry *registry, const char *domain, const char *name) {
  domain = plain_domain(domain);
  const reed_op *builtin = op_builtin_in(domain, name);
  if (builtin) return builtin;
  for (size_t i = 0; registry && i < registry->ops.n; i++)
    if (is_named(registry->ops.items[i], domain, name)) return registry->ops.items[i];
  return NULL;
}

const reed_op *op_custom(const reed_registry *registry, size_t i) {
  return registry && i < registry->ops.n ? registry->ops.items[i] : NULL;
}

reed_status reed_registry_open(reed_registry **out_registry) {
  if (!out_registry) return REED_ERROR_ARGUMENT;
  reed_registry *registry = mem_calloc(1, sizeof *registry);
  if (!registry) return REED_ERROR_MEMORY;
  *out_registry = registry;
  return REED_OK;
}

void reed_registry_close(reed_registry **registry) {
  reed_registry *r = registry ? *registry : NULL;
  if (!r) return;
  *registry = NULL;
  VEC_FREE(&r->ops);
  for (size_t i = r->plugins.n; i-- > 0;) dlclose(r->plugins.items[i]);
  VEC_FREE(&r->plugins);
  mem_free(r);
}

static bool has_attr(const reed_op *op, const char *name, reed_attr_type type) {
  for (int32_t i = 0; name && i < op->n_attrs; i++)
    if (op->attrs[i].name && strcmp(op->attrs[i].name, name) == 0) return op->attrs[i].type == type;
  return false;
}

/* A text for the first error in a custom operator's struct; NULL: the struct is valid. */
static const char *flaw(const reed_op *op) {
  const reed_dtype_set known = ((1u << REED_DTYPE_COUNT) - 1) & ~(1u << REED_NONE);
  if (!op->domain) return "has no domain";
  if (!op->shape) return "has no shape function";
  if (!op->cpu && op->alias != REED_ALIAS_VIEW) return "has no kernel";
  if (op->n_inputs < 0 || op->n_outputs < 1 || op->n_attrs < 0)
    return "has a bad number of inputs, outputs or attributes";
  if (op->n_inputs > REED_MAX_OPERANDS || op->n_outputs > REED_MAX_OPERANDS) return "has too many inputs or outputs";
  if ((op->n_inputs && !op->inputs) || !op->outputs || (op->n_attrs && !op->attrs))
    return "lacks its inputs, outputs or attributes";
  if ((unsigned)op->alias > REED_ALIAS_INPLACE_LAST) return "has an unknown alias rule";
  if (op->properties & ~(uint32_t)(REED_OP_EXTENTS_ONLY | REED_OP_ANY_RANK)) return "has unknown properties";
  if (op->alias == REED_ALIAS_VIEW && !op->n_inputs) return "is a view of nothing";
  if (op->alias == REED_ALIAS_PART && !op->n_inputs) return "is a part of nothing";
  for (int32_t i = 0; i < op->n_inputs; i++) {
    const reed_op_input *in = &op->inputs[i];
    if (!in->name || !in->name[0]) return "has an input without a name";
    if (!in->dtypes || (in->dtypes & ~known)) return "has an input with a bad set of dtypes";
    if ((unsigned)in->reads > REED_READS_BOTH) return "has an input with unknown flags";
    if (in->variadic && i != op->n_inputs - 1) return "has a variadic input that is not the last";
    if (!in->reads_attr != !in->reads_word) return "has an input whose flag depends on half a condition";
    if (in->reads_attr && !has_attr(op, in->reads_attr, REED_ATTR_STRING))
      return "has an input whose flag depends on no string attribute";
  }
  for (int32_t i = 0; i < op->n_outputs; i++) {
    const reed_op_output *out = &op->outputs[i];
    if (!out->name || !out->name[0]) return "has an output without a name";
    if (out->variadic && i != op->n_outputs - 1) return "has a variadic output that is not the last";
    bool like = out->type_rule == REED_TYPE_LIKE && out->type_arg >= 0 && out->type_arg < op->n_inputs;
    bool fixed = out->type_rule == REED_TYPE_FIXED && out->type_arg > REED_NONE && out->type_arg < REED_DTYPE_COUNT;
    bool of_attr = out->type_rule == REED_TYPE_ATTR && out->type_arg >= 0 &&
                   (has_attr(op, out->type_attr, REED_ATTR_INT) || has_attr(op, out->type_attr, REED_ATTR_TENSOR));
    if (!like && !fixed && !of_attr && out->type_rule != REED_TYPE_CUSTOM) return "has an output with a bad dtype rule";
  }
  if (op->n_kernels < 0 || (op->n_kernels && !op->kernels)) return "lacks its kernels";
  for (int32_t i = 0; i < op->n_kernels; i++) {
    const char *device = op->kernels[i].device;
    if (!device || !device[0]) return "has a kernel for no device";
    if (strcmp(device, "host") == 0) return "has a kernel for the host besides `cpu`";
    for (int32_t k = 0; k < i; k++)
      if (strcmp(device, op->kernels[k].device) == 0) return "has two kernels for one device";
  }
  for (int32_t i = 0; i < op->n_attrs; i++) {
    const reed_op_attr *attr = &op->attrs[i];
    if (!attr->name || !attr->name[0]) return "has an attribute without a name";
    if (attr->type < REED_ATTR_INT || attr->type > REED_ATTR_TENSOR) return "has an attribute of an unknown type";
    if (op_attr_row(op, attr->name) != attr) return "has two attributes of one name";
    if (attr->otherwise && attr->required) return "has a required attribute with a value for where it is left out";
    bool has_range = attr->type == REED_ATTR_INT || attr->type == REED_ATTR_INTS || attr->type == REED_ATTR_FLOAT;
    if ((attr->least || attr->most) && !has_range) return "has a range of numbers for an attribute that is no number";
    if (attr->least > attr->most) return "has an attribute whose least value is larger than its most";
    if (attr->words && attr->type != REED_ATTR_STRING) return "has a list of words for an attribute that is no string";
    if (attr->each && (attr->type != REED_ATTR_INTS || attr->required || attr->otherwise))
      return "has a number for each axis for an attribute that is no list, or is never left out";
    reed_attr given = attr->otherwise ? *attr->otherwise : (reed_attr){0};
    given.type = attr->type;
    if (attr->otherwise && attr_lacks_value(&given))
      return "has an attribute whose value for where it is left out lacks data";
    int64_t at;
    if (attr->otherwise && !op_attr_is_valid(attr, &given, &at))
      return "has an attribute whose value for where it is left out is no valid one";
  }
  return NULL;
}

reed_status reed_registry_add(reed_registry *registry, const reed_op *op, reed_diagnosis *diagnosis) {
  if (!registry) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_registry_add: a registry is needed");
  if (!op || !op->name || !op->name[0])
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "custom operator without a name");
  const char *what = flaw(op);
  if (what) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "custom operator '%s' %s", op->name, what);
  if (op_find(registry, op->domain, op->name))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "operator '%s' of domain '%s' is already registered", op->name,
                     op->domain);
  if (!VEC_PUSH(&registry->ops, op)) return diag_no_memory(diagnosis, "operator registry");
  return REED_OK;
}

typedef reed_status (*plugin_fn)(reed_registry *registry, reed_diagnosis *diagnosis);

reed_status reed_registry_load(reed_registry *registry, const char *path, reed_diagnosis *diagnosis) {
  if (!registry || !path || !*path) /* for the loader, "" is the process itself */
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_registry_load: a registry and a path are needed");
  struct stat file; /* the loader would wait for a pipe; it looks for names without a folder elsewhere */
  if (strchr(path, '/') && stat(path, &file) == 0 && !S_ISREG(file.st_mode))
    return diag_fail(diagnosis, REED_ERROR_IO, "cannot load plugin '%s': it is not a regular file", path);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    if (!strchr(path, '/') && stat(path, &file) == 0)
      return diag_fail(diagnosis, REED_ERROR_IO,
                       "cannot load plugin '%s': %s; a name without a folder is not looked for in the working folder: "
                       "write './%s'",
                       path, reason, path);
    return diag_fail(diagnosis, REED_ERROR_IO, "cannot load plugin '%s': %s", path, reason);
  }
  void *symbol = dlsym(handle, "reed_plugin_register");
  plugin_fn register_operators = NULL;
  memcpy(&register_operators, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointer */
  size_t n_before = registry->ops.n;
  reed_status status;
  if (!register_operators)
    status = diag_fail(diagnosis, REED_ERROR_FORMAT, "plugin '%s' has no function reed_plugin_register", path);
  else if (!VEC_ROOM(&registry->plugins)) status = diag_no_memory(diagnosis, "operator registry");
  else status = register_operators(registry, diagnosis);
  if (status) {
    registry->ops.n = n_before; /* the object is about to be closed, so its operators must not stay */
    dlclose(handle);
    return status;
  }
  if (!VEC_PUSH(&registry->plugins, handle)) { /* not reserved earlier: the plugin may have loaded plugins */
    registry->ops.n = n_before;
    dlclose(handle);
    return diag_no_memory(diagnosis, "operator registry");
  }
  return REED_OK;
}
