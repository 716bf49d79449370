/* The registry: built-in operators from op.def and a program's custom ones, found by domain and name. */
#ifndef OPS_OP_H_
#define OPS_OP_H_

#include "reed/operator.h"

/* OP_Abs ... in the order of op.def. */
typedef enum op_id {
#define OP(name, ...) OP_##name,
#include "ops/op.def"
  OP_COUNT
} op_id;

/* The built-in operator's row; id < OP_COUNT. */
const reed_op *op_builtin(op_id id);
/* The id of a built-in row, OP_COUNT for a custom operator. */
op_id op_id_of(const reed_op *op);
/* Built-in or (registry not NULL) custom operator of that domain and name; NULL: none. "ai.onnx" means "". */
const reed_op *op_find(const reed_registry *registry, const char *domain, const char *name);
/* The i-th custom operator in the order of registration; NULL past the end or where registry is NULL. */
const reed_op *op_custom(const reed_registry *registry, size_t i);
/* True for If, Loop and Scan. */
bool op_is_control(const reed_op *op);
/* True for Shape and Size: their kernels read extents and no memory, so that their operand may be on any device and
 * without memory yet. */
static inline bool op_reads_extents_only(const reed_op *op) {
  op_id id = op_id_of(op);
  return id == OP_Shape || id == OP_Size;
}

#endif
