/* The table of shape functions by operator. */
#ifndef SHAPEFUNCS_TABLE_H_
#define SHAPEFUNCS_TABLE_H_

#include "reed/operator.h"

/* The operator's shape function: a built-in operator's from the table, a custom operator's from its row; NULL for
 * control flow. */
reed_shape_fn shapefn_of(const reed_op *op);

#endif
