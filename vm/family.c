/* Finding families (family.h): sites with equal operators and attributes, by a hash table. A family has the number of
 * its first site. */
#include "vm/family.h"

#include <string.h>

#include "base/desc.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/table.h"

typedef struct finder {
  const reed_op *const *ops;
  const reed_attrs *attrs;
} finder;

/* Names and the elements of tensors are left to the comparison. */
static uint64_t hash_attr(const reed_attr *a, uint64_t hash) {
  switch (a->type) {
    case REED_ATTR_INT: return hash_bytes(&a->i, sizeof a->i, hash);
    case REED_ATTR_FLOAT: return hash_bytes(&a->f, sizeof a->f, hash);
    case REED_ATTR_STRING: return hash_bytes(a->s, strlen(a->s), hash);
    case REED_ATTR_INTS: return a->n ? hash_bytes(a->ints, (size_t)a->n * sizeof *a->ints, hash) : hash;
    case REED_ATTR_FLOATS: return a->n ? hash_bytes(a->floats, (size_t)a->n * sizeof *a->floats, hash) : hash;
    case REED_ATTR_TENSOR: return hash;
  }
  return hash;
}

static uint64_t hash_site(const finder *f, size_t site) {
  uint64_t hash = hash_bytes(&f->ops[site], sizeof f->ops[site], 0);
  for (int32_t k = 0; k < f->attrs[site].n; k++) hash = hash_attr(&f->attrs[site].items[k], hash);
  return hash;
}

static bool same_sites(const void *context, uint32_t site, const void *wanted) {
  const finder *f = context;
  size_t other = *(const uint32_t *)wanted;
  const reed_attrs *a = &f->attrs[site], *b = &f->attrs[other];
  bool same = f->ops[site] == f->ops[other] && a->n == b->n;
  for (int32_t k = 0; same && k < a->n; k++) same = attr_equal(&a->items[k], &b->items[k]);
  return same;
}

bool families_find(const reed_op *const *ops, const reed_attrs *attrs, size_t n_sites, uint32_t **out_families) {
  const finder f = {ops, attrs};
  table sites = {0};
  uint32_t *families = mem_calloc(n_sites, sizeof *families);
  bool ok = families && table_reserve(&sites, n_sites);
  for (uint32_t i = 0; ok && i < n_sites; i++) {
    uint64_t hash = hash_site(&f, i);
    uint32_t first = ops[i]->impure ? TABLE_NONE : table_find(&sites, hash, same_sites, &f, &i);
    families[i] = first == TABLE_NONE ? i | FAMILY_OF_ONE : first;
    if (first != TABLE_NONE) families[first] = first;
    if (first == TABLE_NONE && !ops[i]->impure) ok = table_add(&sites, hash, i);
  }
  table_fini(&sites);
  if (!ok) {
    mem_free(families);
    return false;
  }
  *out_families = families;
  return true;
}
