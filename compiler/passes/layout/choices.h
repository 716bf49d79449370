/* Products whose results decide a choice, and therefore keep f32 under a lower precision.
 *
 * A product keeps f32 if its result reaches, without another product between, an operator that chooses among elements
 * or counts them, or elements that a shape function reads: the heads of boxes and scores, in which a rounded element
 * would change the choice and not only its value. Extents are no elements: a map whose Shape is read decides nothing.
 *
 * So does a product with many others between its result and a choice (PRODUCTS_AFTER_BF16): each of them amplifies its
 * rounding, so that the first layers of a deep detector change more choices than all others together. */
#ifndef COMPILER_PASSES_LAYOUT_CHOICES_H_
#define COMPILER_PASSES_LAYOUT_CHOICES_H_

#include "compiler/ir/ir.h"
#include "ops/packed.h"

typedef struct choices {
  ir_module *m;
  bool *deciding; /* by the id of the node */
  int32_t *after; /* by id: products on the longest way from the node's results to a choice; -1: there is no way */
  VEC_OF(ir_node *) in_order; /* all nodes */
  int32_t n_ids;
  VEC_OF(ir_node *) pending; /* nodes whose results reach a choice, and whose operands have not been followed */
} choices;

/* Finds the products that decide choices, for the module's precision. Every node's id must be another number, 0 or
 * more. The caller ends with choices_fini, after a failure too. ERROR_MEMORY, ERROR_CANCELLED. */
reed_status choices_find(ir_module *m, choices *out_choices) REED_MUST_CHECK;
void choices_fini(choices *c);
/* True if the product keeps f32. Nodes made since choices_find must not be asked for. */
bool choices_keep_f32(const choices *c, const ir_node *product);
/* True if the product has too few inputs or outputs for that precision. */
bool choices_narrow(reed_dtype precision, const packed_order *order);

#endif
