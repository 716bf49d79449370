/* The rules of the proof in nonnegative.h: a table says which operands must not be negative for an operator's result
 * not to be. Values are followed back to constants, extents and operators whose results are never negative. */
#include "compiler/ir/nonnegative.h"

/* The search ends after this many operators. A chain between a clip and a selection has some dozens, a detector's 90
 * classes some thousands. */
#define MOST_STEPS 20000
#define MOST_DEPTH 256
/* Constants of more elements are not searched. */
#define MOST_ELEMENTS 65536

typedef enum rule {
  ALWAYS, /* for any operands */
  FIRST,  /* if the first operand is never negative */
  ALL,    /* if no operand is ever negative */
  ANY,    /* if one operand is never negative */
  CHOICE, /* if all operands but the first are never negative */
  COUNTS, /* if the first operand is never negative and is shape arithmetic: integers, at least one */
  CAST,   /* FIRST; from floats to integers COUNTS, because a large float does not fit an integer */
  STEPS,  /* Range: if neither the first number nor the step is ever negative */
  BOUNDS  /* operands x, min, max: if x or min is never negative, and max too where it is given */
} rule;

static const struct {
  op_id op;
  rule rule;
} rules[] = {
    {OP_Abs, ALWAYS},       {OP_Exp, ALWAYS},      {OP_NonZero, ALWAYS},
    {OP_Relu, ALWAYS},      {OP_Shape, ALWAYS},    {OP_Sigmoid, ALWAYS},
    {OP_Size, ALWAYS},      {OP_Softmax, ALWAYS},  {OP_Sqrt, ALWAYS},
    {OP_Ceil, FIRST},       {OP_Expand, FIRST},    {OP_Flatten, FIRST},
    {OP_Floor, FIRST},      {OP_Gather, FIRST},    {OP_GatherElements, FIRST},
    {OP_GatherND, FIRST},   {OP_Identity, FIRST},  {OP_Reshape, FIRST},
    {OP_Slice, FIRST},      {OP_Split, FIRST},     {OP_Squeeze, FIRST},
    {OP_Tile, FIRST},       {OP_Transpose, FIRST}, {OP_Unsqueeze, FIRST},
    {OP_Concat, ALL},       {OP_Min, ALL},         {OP_Max, ANY},
    {OP_Where, CHOICE},     {OP_Clip, BOUNDS},     {OP_ReduceMax, COUNTS},
    {OP_ReduceMin, COUNTS}, {OP_Cast, CAST},       {OP_Range, STEPS},
};

typedef struct search {
  const ir_module *m;
  int32_t steps_left, depth;
} search;

static bool never_negative(search *s, const ir_value *v);

static bool constant_never_negative(const ir_value *v) {
  reed_desc d;
  if (!ir_desc(v, &d) || desc_elements(&d) > MOST_ELEMENTS) return false;
  for (int64_t i = 0; i < desc_elements(&d); i++)
    if (reed_dtype_read(d.dtype, (const char *)v->data + (size_t)i * reed_dtype_bytes(d.dtype)) < 0) return false;
  return true;
}

/* True when the ranges of all elements, which are shape arithmetic, have no negative number. */
static bool elements_never_negative(const ir_module *m, const ir_value *v) {
  for (int64_t i = 0; i < v->n_elements; i++) {
    int64_t low, high;
    symbols_range(m->symbols, v->elements[i], &low, &high);
    if (low < 0) return false;
  }
  return true;
}

static bool operands_never_negative(search *s, const ir_node *n, int32_t first) {
  for (int32_t i = first; i < n->n_inputs; i++)
    if (!never_negative(s, n->inputs[i])) return false;
  return true;
}

static bool an_operand_never_negative(search *s, const ir_node *n) {
  for (int32_t i = 0; i < n->n_inputs; i++)
    if (never_negative(s, n->inputs[i])) return true;
  return false;
}

static bool bounds_never_negative(search *s, const ir_node *n) {
  const ir_value *min = n->n_inputs > 1 ? n->inputs[1] : NULL, *max = n->n_inputs > 2 ? n->inputs[2] : NULL;
  return (!max || never_negative(s, max)) && ((min && never_negative(s, min)) || never_negative(s, n->inputs[0]));
}

static bool is_float(reed_dtype t) { return t == REED_F16 || t == REED_BF16 || t == REED_F32 || t == REED_F64; }

static bool count_never_negative(search *s, const ir_value *v) {
  return v->elements && v->n_elements > 0 && never_negative(s, v);
}

static bool cast_never_negative(search *s, const ir_node *n) {
  bool exact = is_float(n->outputs[0]->type.dtype) || !is_float(n->inputs[0]->type.dtype);
  return exact ? never_negative(s, n->inputs[0]) : count_never_negative(s, n->inputs[0]);
}

static const rule *rule_of(const reed_op *op) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (op_builtin(rules[i].op) == op) return &rules[i].rule;
  return NULL;
}

bool nonnegative_has_rule(const reed_op *op) { return rule_of(op) != NULL; }

static bool result_never_negative(search *s, const ir_node *n) {
  const rule *own = rule_of(n->op);
  if (!own) return false;
  switch (*own) {
    case ALWAYS: return true;
    case FIRST: return never_negative(s, n->inputs[0]);
    case ALL: return operands_never_negative(s, n, 0);
    case ANY: return an_operand_never_negative(s, n);
    case CHOICE: return operands_never_negative(s, n, 1);
    case COUNTS: return count_never_negative(s, n->inputs[0]);
    case CAST: return cast_never_negative(s, n);
    case STEPS: return never_negative(s, n->inputs[0]) && never_negative(s, n->inputs[2]);
    case BOUNDS: return bounds_never_negative(s, n);
  }
  return false;
}

static bool never_negative(search *s, const ir_value *v) {
  if (!v || s->steps_left-- <= 0) return false;
  if (ir_is_constant(v)) return constant_never_negative(v);
  if (v->elements && elements_never_negative(s->m, v)) return true;
  if (!v->producer || s->depth == MOST_DEPTH) return false;
  s->depth++;
  bool result = result_never_negative(s, v->producer);
  s->depth--;
  return result;
}

bool nonnegative_proven(const ir_module *m, const ir_value *v) {
  return never_negative(&(search){.m = m, .steps_left = MOST_STEPS}, v);
}
