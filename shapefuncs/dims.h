/* Dims of shape functions as text, and fresh values, besides the public functions of reed/operator.h. */
#ifndef SHAPEFUNCS_DIMS_H_
#define SHAPEFUNCS_DIMS_H_

#include <stddef.h>

#include "reed/operator.h"

/* "[1,h,3]" of dims that may be symbols; returns out. */
char *shapecall_dims_text(const reed_shape_call *call, int32_t rank, const reed_dim *dims, char *out, size_t capacity);

/* One dim as text: a number or a symbol. */
const char *shapecall_dim_text(const reed_shape_call *call, reed_dim d, char out[64]);

#endif
