/* Caches of a model: inputs of function main that leave as outputs with new rows (ops/growth.def), as
 * the keys and values of a decoder. Found once for a program. Whether a cache grows in place is decided in each run:
 * append.h. */
#ifndef VM_GROWTH_H_
#define VM_GROWTH_H_

#include "base/vec.h"
#include "bytecode/module.h"
#include "ops/growth.h"
#include "vm/mentions.h"

/* One cache: the input of the model, the call that joins the new rows, the output of the model. A grown tensor that
 * leaves as several outputs has an item for each of them, one after the other. */
typedef struct model_cache {
  uint32_t input, output;
  uint32_t site;
  growth growth;   /* of the site's call */
  uint32_t device; /* of the module, where the call runs */
} model_cache;

typedef struct model_caches {
  VEC_OF(model_cache) items; /* in ascending order of `input` */
} model_caches;

/* An input is a cache only if all its uses, and those of the tensor that it grows into, are shapes, kernels, views,
 * copies and returns: then no other instruction meets a tensor with room. If the new rows take the place of rows of the
 * past, the call that writes them must be the only reader of the past's elements, and its last use. operators and
 * attributes: per site. False: no memory. *out is to be closed in any case. */
bool model_caches_find(mentions *found, const reed_op *const *operators, const reed_attrs *attributes,
                       model_caches *out);
void model_caches_fini(model_caches *caches);

#endif
