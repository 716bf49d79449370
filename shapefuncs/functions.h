/* The shape functions' prototypes, from the second column of ops/op.def. Each reads its call's inputs and fills its
 * outputs: see reed_shape_fn in reed/operator.h. */
#ifndef SHAPEFUNCS_FUNCTIONS_H_
#define SHAPEFUNCS_FUNCTIONS_H_

#include "ops/op.h"

#define SHAPEFN_DECLARE_LIGHT(shape) reed_status shapefn_##shape(reed_shape_call *call);
#define SHAPEFN_DECLARE_HEAVY(shape) reed_status shapefn_##shape(reed_shape_call *call);
#define SHAPEFN_DECLARE_CONTROL(shape)
#define OP(name, shape, kernel, class, ...) SHAPEFN_DECLARE_##class(shape)
#include "ops/op.def"
#undef SHAPEFN_DECLARE_LIGHT
#undef SHAPEFN_DECLARE_HEAVY
#undef SHAPEFN_DECLARE_CONTROL

#endif
