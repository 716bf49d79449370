/* The rows of the built-in operators: ops/op.def expanded into reed_op structs. Shape functions (shapefuncs/table.c)
 * and kernels (ops/cpu/table.c) of these operators are in tables of their own. */
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "ops/properties.h"

#define BIT(dtype) (1u << REED_##dtype)
#define SET_FLOAT (BIT(F32) | BIT(F64) | BIT(F16) | BIT(BF16))
#define SET_SINGLE (SET_FLOAT & ~BIT(F64))
#define SET_SIGNED (SET_FLOAT | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64))
#define SET_UNSIGNED (BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64))
#define SET_NUMERIC (SET_SIGNED | SET_UNSIGNED)
#define SET_INT (SET_NUMERIC & ~SET_FLOAT)
#define SET_INDEX (BIT(I32) | BIT(I64))
#define SET_ANY (SET_NUMERIC | BIT(BOOL))
#define SET_F32 BIT(F32)
#define SET_I32 BIT(I32)
#define SET_I64 BIT(I64)
#define SET_BOOL BIT(BOOL)

#define INPUT(input_name, input_reads, set, is_optional, is_variadic, is_same, ...) \
  {.name = #input_name, \
   .reads = REED_READS_##input_reads, \
   .dtypes = SET_##set, \
   .optional = is_optional, \
   .variadic = is_variadic, \
   .same_type = is_same, \
   __VA_ARGS__},
#define IN(name, reads, set) INPUT(name, reads, set, false, false, false, )
#define OPT(name, reads, set) INPUT(name, reads, set, true, false, false, )
#define VAR(name, reads, set) INPUT(name, reads, set, false, true, false, )
#define OPT_VAR(name, reads, set) INPUT(name, reads, set, true, true, false, )
#define SAME(name, reads, set) INPUT(name, reads, set, false, false, true, )
#define SAME_OPT(name, reads, set) INPUT(name, reads, set, true, false, true, )
#define SAME_VAR(name, reads, set) INPUT(name, reads, set, false, true, true, )
#define OPT_IF(name, reads, set, attr, word) \
  INPUT(name, reads, set, true, false, false, .reads_attr = #attr, .reads_word = #word)

#define RULE_LIKE(i) .type_rule = REED_TYPE_LIKE, .type_arg = i
#define RULE_FIXED(dtype) .type_rule = REED_TYPE_FIXED, .type_arg = REED_##dtype
#define RULE_OF(attr) .type_rule = REED_TYPE_ATTR, .type_attr = #attr
#define RULE_OF_OR_LIKE(attr, i) .type_rule = REED_TYPE_ATTR, .type_attr = #attr, .type_arg = i
#define RULE_CUSTOM .type_rule = REED_TYPE_CUSTOM
#define IS_BOUNDED_EXACT false
#define IS_BOUNDED_BOUNDED true
#define OUTPUT(output_name, exactness, rule, is_optional, is_variadic) \
  {.name = #output_name, \
   .bounded = IS_BOUNDED_##exactness, \
   .optional = is_optional, \
   .variadic = is_variadic, \
   RULE_##rule},
#define OUT(name, exactness, rule) OUTPUT(name, exactness, rule, false, false)
#define OUT_OPT(name, exactness, rule) OUTPUT(name, exactness, rule, true, false)
#define OUT_VAR(name, exactness, rule) OUTPUT(name, exactness, rule, false, true)

/* f32, because ONNX's numbers are f32: a value given by a model and the same value from the row then have the same
 * bits. */
static const float zero = 0;
#define VALUE_INT(value) .i = value
#define VALUE_FLOAT(value) .f = (double)(float)(value)
#define VALUE_STRING(value) .s = value
#define VALUE_TENSOR(...) __VA_ARGS__
#define F32_ZERO .desc = {.dtype = REED_F32, .rank = 1, .dims = {1}}, .n = 1, .data = &zero
#define ATTRIBUTE(attr_name, attr_type, ...) {.name = #attr_name, .type = REED_ATTR_##attr_type, __VA_ARGS__},
#define OTHERWISE(attr_type, ...) \
  .otherwise = &(const reed_attr) { VALUE_##attr_type(__VA_ARGS__) }
#define ATTR(name, type, value) ATTRIBUTE(name, type, OTHERWISE(type, value))
#define OPT_ATTR(name, type) ATTRIBUTE(name, type, )
#define REQ(name, type) ATTRIBUTE(name, type, .required = true)
#define WORD(name, value, valid) ATTRIBUTE(name, STRING, OTHERWISE(STRING, value), .words = valid)
#define OPT_WORD(name, valid) ATTRIBUTE(name, STRING, .words = valid)
#define REQ_WORD(name, valid) ATTRIBUTE(name, STRING, .required = true, .words = valid)
#define NUMBER(name, type, value, low, high) ATTRIBUTE(name, type, OTHERWISE(type, value), .least = low, .most = high)
#define EACH(name, value, low, high) ATTRIBUTE(name, INTS, .least = low, .most = high, .each = &(const int64_t){value})
#define OPT_NUMBER(name, type, low, high) ATTRIBUTE(name, type, .least = low, .most = high)
#define REQ_NUMBER(name, type, low, high) ATTRIBUTE(name, type, .required = true, .least = low, .most = high)

static const char activation_words[] =
#define ACTIVATION(kind, text, ...) text " "
#include "ops/activation.def"
    ;

#define OP(name, shape, kernel, class, alias, properties, INPUTS, OUTPUTS, ATTRS) \
  static const reed_op_input inputs_##name[] = {INPUTS}; \
  static const reed_op_output outputs_##name[] = {OUTPUTS}; \
  static const reed_op_attr attrs_##name[] = {ATTRS};
#include "ops/op.def"

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof *(array)))
#define IS_LIGHT_LIGHT true
#define IS_LIGHT_HEAVY false
#define IS_LIGHT_CONTROL false
#define OF_CLASS_LIGHT 0
#define OF_CLASS_HEAVY 0
#define OF_CLASS_CONTROL OP_PROPERTY_CONTROL

static const reed_op builtins[OP_COUNT] = {
#define OP(op_name, shape_function, kernel, class, op_alias, op_properties, INPUTS, OUTPUTS, ATTRS) \
  [OP_##op_name] = {.domain = (op_properties)&OP_PROPERTY_TORCHVISION ? "torchvision" : "", \
                    .name = #op_name, \
                    .inputs = inputs_##op_name, \
                    .n_inputs = COUNT(inputs_##op_name), \
                    .outputs = outputs_##op_name, \
                    .n_outputs = COUNT(outputs_##op_name), \
                    .attrs = attrs_##op_name, \
                    .n_attrs = COUNT(attrs_##op_name), \
                    .alias = REED_ALIAS_##op_alias, \
                    .light = IS_LIGHT_##class, \
                    .impure = ((op_properties)&OP_PROPERTY_IMPURE) != 0, \
                    .properties = OF_CLASS_##class | op_properties},
#include "ops/op.def"
};

const reed_op *op_builtin(op_id id) { return &builtins[id]; }

/* The rows by name, which no two domains share. Filled when a row is first wanted, which is a part of opening a
 * program; the slots are enough for all rows, so that the table never grows. */
enum { NAME_SLOTS = 512 };
_Static_assert(OP_COUNT <= NAME_SLOTS / 4 * 3, "the slots are enough (base/table.h)");
static table_slot name_slots[NAME_SLOTS];
static table by_name = {.slots = name_slots, .capacity = NAME_SLOTS};
static pthread_once_t by_name_once = PTHREAD_ONCE_INIT;

static uint64_t hash_of(const char *name) { return hash_bytes(name, strlen(name), 0); }

static void fill_names(void) {
  for (uint32_t id = 0; id < OP_COUNT; id++) (void)!table_add(&by_name, hash_of(builtins[id].name), id);
}

static bool has_name(const void *context, uint32_t id, const void *name) {
  return strcmp(((const reed_op *)context)[id].name, name) == 0;
}

const reed_op *op_builtin_in(const char *domain, const char *name) {
  pthread_once(&by_name_once, fill_names);
  const uint32_t id = table_find(&by_name, hash_of(name), has_name, builtins, name);
  return id != TABLE_NONE && strcmp(builtins[id].domain, domain) == 0 ? &builtins[id] : NULL;
}

op_id op_id_of(const reed_op *op) {
  uintptr_t offset = (uintptr_t)op - (uintptr_t)builtins;
  return offset < sizeof builtins ? (op_id)(offset / sizeof *builtins) : OP_COUNT;
}

/* The declaration of operand i; the last entry of the list may stand for any number of operands. */
#define OPERAND_AT(list, n, i) \
  ((i) < 0 ? NULL : (i) < (n) ? &(list)[i] : (n) > 0 && (list)[(n)-1].variadic ? &(list)[(n)-1] : NULL)

const reed_op_input *reed_op_input_at(const reed_op *op, int32_t i) {
  return !op ? NULL : OPERAND_AT(op->inputs, op->n_inputs, i);
}
const reed_op_output *reed_op_output_at(const reed_op *op, int32_t i) {
  return !op ? NULL : OPERAND_AT(op->outputs, op->n_outputs, i);
}
