/* Extents, sizes, attribute lists and their texts (desc.h). */
#include "base/desc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int64_t desc_elements(const reed_desc *desc) {
  /* The product of the non-zero extents must fit too: [2^40, 2^40, 0] is refused like [2^40, 2^40]. */
  int64_t n = 1;
  bool empty = false;
  for (int32_t i = 0; i < desc->rank; i++) {
    if (desc->dims[i] < 0) return -1;
    if (desc->dims[i] == 0) empty = true;
    else if (!desc_multiply(&n, desc->dims[i])) return -1;
  }
  return empty ? 0 : n;
}

int64_t desc_bytes(const reed_desc *desc) {
  const int64_t n = desc_elements(desc), bytes = n * (int64_t)reed_dtype_bytes(desc->dtype);
  return n < 0 || bytes > DESC_BYTES_MOST ? -1 : bytes;
}

static bool same_dims(const reed_desc *a, const reed_desc *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank) == 0;
}

bool desc_equal(const reed_desc *a, const reed_desc *b) { return a->dtype == b->dtype && same_dims(a, b); }

char *dims_text(int32_t rank, const int64_t *dims, char *out, size_t capacity) {
  size_t n = 0;
  n += (size_t)snprintf(out, capacity, "[");
  for (int32_t i = 0; i < rank && n < capacity; i++)
    n += (size_t)snprintf(out + n, capacity - n, i ? ",%lld" : "%lld", (long long)dims[i]);
  if (n < capacity) snprintf(out + n, capacity - n, "]");
  return out;
}

char *desc_text(const reed_desc *desc, char *out, size_t capacity) {
  if (desc->dtype == REED_NONE) {
    snprintf(out, capacity, "absent");
    return out;
  }
  int n = snprintf(out, capacity, "%s", reed_dtype_name(desc->dtype));
  if (n >= 0 && (size_t)n < capacity) dims_text(desc->rank, desc->dims, out + n, capacity - (size_t)n);
  return out;
}

const reed_attr *reed_attrs_find(const reed_attrs *attrs, const char *name) {
  if (!attrs || !name) return NULL;
  /* The names of completed attributes are the row's literals, which are often those of the caller. */
  for (int32_t i = 0; i < attrs->n; i++)
    if (attrs->items[i].name == name) return &attrs->items[i];
  for (int32_t i = 0; i < attrs->n; i++)
    if (attrs->items[i].name[0] == name[0] && strcmp(attrs->items[i].name, name) == 0) return &attrs->items[i];
  return NULL;
}

int64_t reed_attrs_int(const reed_attrs *attrs, const char *name, int64_t otherwise) {
  const reed_attr *a = reed_attrs_find(attrs, name);
  return a && a->type == REED_ATTR_INT ? a->i : otherwise;
}

double reed_attrs_float(const reed_attrs *attrs, const char *name, double otherwise) {
  const reed_attr *a = reed_attrs_find(attrs, name);
  return a && a->type == REED_ATTR_FLOAT ? a->f : otherwise;
}

const char *reed_attrs_string(const reed_attrs *attrs, const char *name, const char *otherwise) {
  const reed_attr *a = reed_attrs_find(attrs, name);
  return a && a->type == REED_ATTR_STRING ? a->s : otherwise;
}

const int64_t *reed_attrs_ints(const reed_attrs *attrs, const char *name, int64_t *out_n) {
  const reed_attr *a = reed_attrs_find(attrs, name);
  if (!out_n) return NULL;
  *out_n = a && a->type == REED_ATTR_INTS ? a->n : 0;
  return *out_n ? a->ints : NULL;
}

static bool same_bytes(const void *a, const void *b, size_t bytes) { return bytes == 0 || memcmp(a, b, bytes) == 0; }

bool attr_lacks_value(const reed_attr *attr) {
  switch (attr->type) {
    case REED_ATTR_INT:
    case REED_ATTR_FLOAT: return false;
    case REED_ATTR_STRING: return !attr->s;
    case REED_ATTR_INTS: return attr->n < 0 || (attr->n && !attr->ints);
    case REED_ATTR_FLOATS: return attr->n < 0 || (attr->n && !attr->floats);
    case REED_ATTR_TENSOR: return desc_bytes(&attr->desc) < 0 || !attr->data;
  }
  return true;
}

bool attr_equal(const reed_attr *a, const reed_attr *b) {
  if (a->type != b->type || strcmp(a->name, b->name) != 0) return false;
  switch (a->type) {
    case REED_ATTR_INT: return a->i == b->i;
    case REED_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case REED_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case REED_ATTR_INTS: return a->n == b->n && same_bytes(a->ints, b->ints, (size_t)a->n * sizeof *a->ints);
    case REED_ATTR_FLOATS: return a->n == b->n && same_bytes(a->floats, b->floats, (size_t)a->n * sizeof *a->floats);
    case REED_ATTR_TENSOR:
      return desc_equal(&a->desc, &b->desc) && same_bytes(a->data, b->data, (size_t)desc_bytes(&a->desc));
  }
  return false;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const reed_attr *)a)->name, ((const reed_attr *)b)->name);
}

void attrs_free(reed_attrs *attrs) {
  for (int32_t i = 0; i < attrs->n; i++) {
    const reed_attr *a = &attrs->items[i];
    mem_free((void *)a->name);
    mem_free((void *)a->s);
    mem_free((void *)a->ints);
    mem_free((void *)a->floats);
    mem_free((void *)a->data);
  }
  mem_free((void *)attrs->items);
  *attrs = (reed_attrs){0};
}

reed_status attrs_copy(const reed_attr *items, int32_t n, reed_attrs *out_attrs) {
  reed_attr *copies = mem_calloc((size_t)n, sizeof *copies);
  if (!copies) return REED_ERROR_MEMORY;
  reed_attrs made = {copies, 0};
  for (int32_t i = 0; i < n; i++) {
    const reed_attr *from = &items[i];
    reed_attr *to = &copies[i];
    *to = *from;
    to->s = NULL, to->ints = NULL, to->floats = NULL, to->data = NULL;
    made.n = i + 1;
    int64_t data_bytes = from->type == REED_ATTR_TENSOR ? desc_bytes(&from->desc) : 0;
    bool ok = (to->name = mem_copy_text(from->name)) != NULL;
    if (ok && from->s) ok = (to->s = mem_copy_text(from->s)) != NULL;
    if (ok && from->ints) ok = (to->ints = mem_copy(from->ints, (size_t)from->n * sizeof(int64_t))) != NULL;
    if (ok && from->floats) ok = (to->floats = mem_copy(from->floats, (size_t)from->n * sizeof(double))) != NULL;
    if (ok && from->data) ok = data_bytes >= 0 && (to->data = mem_copy(from->data, (size_t)data_bytes)) != NULL;
    if (!ok) {
      attrs_free(&made);
      return REED_ERROR_MEMORY;
    }
  }
  qsort(copies, (size_t)n, sizeof *copies, by_name);
  *out_attrs = made;
  return REED_OK;
}
