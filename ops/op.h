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

/* ---- properties ---- */

/* Bits of reed_op.properties that only Reed's own operators may have, behind those of reed/operator.h. */
enum {
  OP_PROPERTY_FUSABLE = 1 << 16,  /* element-wise: may be a step of Fused (ops/fused.h) */
  OP_PROPERTY_PACKABLE = 1 << 17, /* a product whose constant weights may be packed (ops/packed.h) */
  OP_PROPERTY_CONTROL = 1 << 18   /* class CONTROL: If, Loop, Scan */
};
static inline bool op_has(const reed_op *op, uint32_t property) { return (op->properties & property) != 0; }
static inline bool op_is_control(const reed_op *op) { return op_has(op, OP_PROPERTY_CONTROL); }

/* What the operator's shape function reads of input i in a call with these attributes, complete or not; NONE past the
 * end. The only reader of the flags in a row. */
reed_reads op_reads(const reed_op *op, const reed_attrs *attrs, int32_t i);
/* The shape function reads the elements of input i, which have to be on the host. */
static inline bool op_reads_value(const reed_op *op, const reed_attrs *attrs, int32_t i) {
  return (op_reads(op, attrs, i) & REED_READS_VALUE) != 0;
}
/* True where a flag `given` makes all available that a flag `needed` asks for. */
static inline bool op_reads_covers(reed_reads given, reed_reads needed) {
  return (given & REED_READS_VALUE) || given >= needed;
}

/* The dtype of output i by its row, for inputs of these dtypes and completed attributes. REED_NONE: the row leaves it
 * to the shape function, or the input that it is like is absent or not known. An attribute that is no dtype's number
 * gives REED_DTYPE_COUNT. */
reed_dtype op_output_dtype(const reed_op *op, const reed_attrs *attrs, int32_t i, int32_t n_inputs,
                           const reed_dtype *inputs);

/* ---- attributes ---- */

/* The row of that attribute; NULL: the operator has none of the name. */
const reed_op_attr *op_attr_row(const reed_op *op, const char *name);
/* True where leaving the attribute out says the same. */
bool op_attr_is_default(const reed_op *op, const reed_attr *attr);
/* Writes the attributes of a call, sorted by name: those given and, for the others, the row's values. out_items has
 * room for them (given->n + op->n_attrs is enough) and borrows all that they point at. Every call of a shape function
 * or a kernel gets its attributes from here. */
reed_attrs op_attrs_complete(const reed_op *op, const reed_attrs *given, reed_attr *out_items);
/* How many op_attrs_complete writes. */
int32_t op_attrs_completed(const reed_op *op, const reed_attrs *given);

/* Attributes that a completed list has in any case: required ones and those with a value in the row. */
int64_t op_attr_int(const reed_attrs *attrs, const char *name);
double op_attr_float(const reed_attrs *attrs, const char *name);
const char *op_attr_string(const reed_attrs *attrs, const char *name);

#endif
