/* The operator table as C: the rows of the built-in operators, a program's custom operators, finding both by domain and
 * name, and reading a row's properties and attributes. Shape functions (shapefuncs/) and kernels (ops/kernel.h) have
 * their own headers. */
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
/* The built-in operator of this name in this domain ("", "torchvision"); NULL: none. */
const reed_op *op_builtin_in(const char *domain, const char *name);
/* The id of a built-in row, OP_COUNT for a custom operator. */
op_id op_id_of(const reed_op *op);
/* The operator with this domain and name: built-in, or custom if registry is not NULL; NULL: none. The domain "ai.onnx"
 * means "". */
const reed_op *op_find(const reed_registry *registry, const char *domain, const char *name);
/* Custom operator i in the order of registration; NULL past the end or for a NULL registry. */
const reed_op *op_custom(const reed_registry *registry, size_t i);

/* ---- properties ---- */

/* Bits of reed_op.properties for Reed's own operators only; their numbers follow those of reed/operator.h. */
enum {
  OP_PROPERTY_FUSABLE = 1 << 16,     /* element-wise: may be a step of Fused (ops/fused.h) */
  OP_PROPERTY_PACKABLE = 1 << 17,    /* a product whose constant weights may be packed (ops/packed.h) */
  OP_PROPERTY_CONTROL = 1 << 18,     /* class CONTROL: If, Loop, Scan */
  OP_PROPERTY_TORCHVISION = 1 << 19, /* of the domain "torchvision" */
  OP_PROPERTY_WINDOW_OF_W = 1 << 20, /* kernel_shape, if given, repeats the extents of input 1 from axis 2 on */
  OP_PROPERTY_IMPURE = 1 << 21       /* reed_op.impure */
};
static inline bool op_has(const reed_op *op, uint32_t property) { return (op->properties & property) != 0; }
static inline bool op_is_control(const reed_op *op) { return op_has(op, OP_PROPERTY_CONTROL); }

/* How much of input i the operator's shape function reads in a call with these attributes, complete or not; NONE past
 * the end. All other code asks this function instead of the row's flags. */
reed_reads op_reads(const reed_op *op, const reed_attrs *attrs, int32_t i);
/* True if the shape function reads the elements of input i, which must then be on the host. */
static inline bool op_reads_value(const reed_op *op, const reed_attrs *attrs, int32_t i) {
  return (op_reads(op, attrs, i) & REED_READS_VALUE) != 0;
}
/* True if a flag `given` makes available everything that a flag `needed` asks for. */
static inline bool op_reads_covers(reed_reads given, reed_reads needed) {
  return (given & REED_READS_VALUE) || given >= needed;
}

/* The dtype of output i by its row, for inputs of these dtypes and completed attributes. REED_NONE if the shape
 * function decides the dtype, or if the input whose dtype it follows is absent or unknown. REED_DTYPE_COUNT if the
 * row's attribute is no dtype's number. */
reed_dtype op_output_dtype(const reed_op *op, const reed_attrs *attrs, int32_t i, int32_t n_inputs,
                           const reed_dtype *inputs);

/* ---- attributes ---- */

/* The row of the attribute with this name; NULL: the operator has no such attribute. */
const reed_op_attr *op_attr_row(const reed_op *op, const char *name);
/* True if a call without the attribute means the same. */
bool op_attr_is_default(const reed_op *op, const reed_attr *attr);
/* The number that an absent list of the operator has for each axis (reed_op_attr.each, which the row must have). */
int64_t op_attr_each(const reed_op *op, const char *name);
/* True if the list has nothing but that number. A call without the list means the same if the list's length is right,
 * which the shape function checks. */
bool op_attr_is_each(const reed_op *op, const reed_attr *attr);
/* Writes a call's attributes, sorted by name: the given ones, and the row's values for the others. out_items must have
 * room for them (given->n + op->n_attrs is enough) and borrows everything that the attributes point at. Every call of a
 * shape function or a kernel gets its attributes from here. */
reed_attrs op_attrs_complete(const reed_op *op, const reed_attrs *given, reed_attr *out_items);
/* The number of attributes that op_attrs_complete writes. */
int32_t op_attrs_completed(const reed_op *op, const reed_attrs *given);

/* The value of an attribute that is in every completed list: a required one, or one with a value in the row. */
int64_t op_attr_int(const reed_attrs *attrs, const char *name);
double op_attr_float(const reed_attrs *attrs, const char *name);
const char *op_attr_string(const reed_attrs *attrs, const char *name);
/* The place of the attribute's word among the valid words of its row. */
int32_t op_attr_word(const reed_op *op, const reed_attrs *attrs, const char *name);
/* Takes the first of the row's valid words that are left, and moves *words to the rest; false: no word is left. */
bool op_attr_next_word(const char **words, char *out_word, size_t capacity);
/* True if the row limits the attribute's numbers. */
static inline bool op_attr_has_range(const reed_op_attr *row) { return row->least || row->most; }
/* True if the row calls the attribute's value valid. Otherwise *out_at is the index of the wrong number of INTS. */
bool op_attr_is_valid(const reed_op_attr *row, const reed_attr *attr, int64_t *out_at);

#endif
