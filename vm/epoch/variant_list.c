/* Memory of lists of places, and of variants' contents. */
#include "vm/epoch/variant_list.h"

variant_content *variant_content_open(const variant_places *p) {
  size_t bytes = sizeof(variant_content) + p->n_words * sizeof(int64_t) + p->roots.n * sizeof(int64_t) +
                 p->n_values * sizeof(variant_value) + p->calls.n * sizeof(site_kernel *);
  variant_content *c = mem_alloc(bytes);
  if (!c) return NULL;
  *c = (variant_content){.words = (int64_t *)(c + 1), .bytes = (int64_t)bytes};
  c->root_bytes = c->words + p->n_words;
  c->values = (variant_value *)(c->root_bytes + p->roots.n);
  c->kernels = (site_kernel **)(c->values + p->n_values);
  return c;
}

void variant_places_close(variant_places **places) {
  variant_places *p = *places;
  *places = NULL;
  if (!p) return;
  mem_free(p->root_numbers);
  VEC_FREE(&p->alike);
  VEC_FREE(&p->shapes);
  VEC_FREE(&p->writes);
  VEC_FREE(&p->lent);
  VEC_FREE(&p->views);
  VEC_FREE(&p->calls);
  VEC_FREE(&p->operands);
  VEC_FREE(&p->roots);
  VEC_FREE(&p->pointers);
  mem_free(p);
}
