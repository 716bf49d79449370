/* Families of call sites. The sites of one operator with equal attributes are one family: two calls of a family with
 * equal operands have equal extents and equal prepared kernels (site.h, epoch/twin.h). Equal layers of a model have
 * many such calls. A site of an operator that is not a pure function is a family of its own. */
#ifndef VM_FAMILY_H_
#define VM_FAMILY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/kernel.h"

enum { FAMILY_OF_ONE = 1 << 30 }; /* a bit of the number of a family with one site */

/* Sets *out_families to a list with a family's number for each site, which the caller frees with mem_free. Attributes
 * are complete. False: no memory. */
bool families_find(const reed_op *const *ops, const reed_attrs *attrs, size_t n_sites, uint32_t **out_families);

#endif
