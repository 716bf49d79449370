/* Shape functions by operator: the second column of ops/op.def. A row without its function does not link. */
#include "shapefuncs/table.h"

#include "shapefuncs/functions.h"

#define FUNCTION_LIGHT(shape) shapefn_##shape
#define FUNCTION_HEAVY(shape) shapefn_##shape
#define FUNCTION_CONTROL(shape) NULL

reed_shape_fn shapefn_of(const reed_op *op) {
  static const reed_shape_fn functions[OP_COUNT] = {
#define OP(name, shape, kernel, class, ...) [OP_##name] = FUNCTION_##class(shape),
#include "ops/op.def"
  };
  op_id id = op_id_of(op);
  return id == OP_COUNT ? op->shape : functions[id];
}
