/* Scopes: the values by name while a graph is read. Each graph has a table; a name is searched in the inner graph
 * first, then in the graphs around it. */
#include <string.h>

#include "base/hash.h"
#include "compiler/onnx/reader.h"

static bool same_name(const void *context, uint32_t item, const void *wanted) {
  const onnx_scope *s = context;
  return strcmp(s->names.items[item].name, wanted) == 0;
}

ir_value *onnx_scope_find(const onnx_scope *s, const char *name) {
  uint64_t hash = hash_bytes(name, strlen(name), 0);
  for (; s; s = s->parent) {
    uint32_t found = table_find(&s->table, hash, same_name, s, name);
    if (found != TABLE_NONE) return s->names.items[found].value;
  }
  return NULL;
}

reed_status onnx_scope_define(onnx_scope *s, const char *name, ir_value *value) {
  uint64_t hash = hash_bytes(name, strlen(name), 0);
  if (table_find(&s->table, hash, same_name, s, name) != TABLE_NONE) return REED_ERROR_FORMAT;
  if (!VEC_ROOM(&s->names) || !table_add(&s->table, hash, (uint32_t)s->names.n)) return REED_ERROR_MEMORY;
  s->names.items[s->names.n++] = (onnx_name){name, value};
  return REED_OK;
}

void onnx_scope_fini(onnx_scope *s) {
  VEC_FREE(&s->names);
  table_fini(&s->table);
}
