/* Shape functions by operator. */
#ifndef SHAPEFUNCS_TABLE_H_
#define SHAPEFUNCS_TABLE_H_

#include "reed/operator.h"

/* The operator's shape function: by a table of its own for built-in ones, the row's for custom ones; NULL for control
 * flow. */
reed_shape_fn shapefn_of(const reed_op *op);

#endif
