/* Names to values while reading: an open-addressing hash table per graph. */
#include <string.h>

#include "compiler/onnx/reader.h"

/* FNV-1a */
static uint64_t hash_text(const char *text) {
  uint64_t h = 14695981039346656037ull;
  for (; *text; text++) h = (h ^ (uint8_t)*text) * 1099511628211ull;
  return h;
}

/* The slot that holds the name or where it would go; the table is never full. */
static size_t slot_of(const struct onnx_name *names, size_t capacity, const char *name) {
  size_t i = hash_text(name) & (capacity - 1);
  while (names[i].name && strcmp(names[i].name, name) != 0) i = (i + 1) & (capacity - 1);
  return i;
}

ir_value *onnx_scope_find(const onnx_scope *s, const char *name) {
  for (; s; s = s->parent) {
    if (!s->capacity) continue;
    const struct onnx_name *found = &s->names[slot_of(s->names, s->capacity, name)];
    if (found->name) return found->value;
  }
  return NULL;
}

static bool grow(onnx_scope *s) {
  size_t capacity = s->capacity ? s->capacity * 2 : 64;
  struct onnx_name *names = mem_calloc(capacity, sizeof *names);
  if (!names) return false;
  for (size_t i = 0; i < s->capacity; i++)
    if (s->names[i].name) names[slot_of(names, capacity, s->names[i].name)] = s->names[i];
  mem_free(s->names);
  s->names = names;
  s->capacity = capacity;
  return true;
}

reed_status onnx_scope_define(onnx_scope *s, const char *name, ir_value *value) {
  if ((s->n + 1) * 2 > s->capacity && !grow(s)) return REED_ERROR_MEMORY;
  struct onnx_name *slot = &s->names[slot_of(s->names, s->capacity, name)];
  if (slot->name) return REED_ERROR_FORMAT;
  *slot = (struct onnx_name){name, value};
  s->n++;
  return REED_OK;
}

void onnx_scope_fini(onnx_scope *s) {
  mem_free(s->names);
  *s = (onnx_scope){0};
}
