/* Freeing lists of places. */
#include "vm/epoch/variant_list.h"

void variant_places_close(variant_places **places) {
  variant_places *p = *places;
  *places = NULL;
  if (!p) return;
  mem_free(p->root_numbers);
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
