/* Patterns over the graph, written in a few lines and matched backwards from a value:
 *
 *   enum { BOXES, KEPT };
 *   static const pattern *const first_rows =
 *       P_INT("axis", 0, P_OP(Gather, P_AS(BOXES, P_ANY), P_VIEWS(P_AS(KEPT, P_OP(NonZero, P_ANY)))));
 *
 *   ir_value *found[2];
 *   if (pattern_match(first_rows, value, found, 2)) ... found[BOXES] ...
 *
 * A pattern describes a value. Parts are tried from left to right and the first match is kept: a choice (P_EITHER,
 * P_PAIR, P_VIEWS) is not tried again when a part to its right fails. A slot named twice must hold the same value both
 * times; this is how a pattern requires two of its operands to be equal. Patterns do not change the graph. */
#ifndef COMPILER_IR_PATTERN_H_
#define COMPILER_IR_PATTERN_H_

#include "compiler/ir/ir.h"

#define PATTERN_PARTS 6
#define PATTERN_SLOTS 24 /* at most */

typedef enum pattern_kind {
  PATTERN_ANY,
  PATTERN_ABSENT,
  PATTERN_CONSTANT,
  PATTERN_NUMBER,
  PATTERN_AS,
  PATTERN_OP,
  PATTERN_PAIR,
  PATTERN_EITHER,
  PATTERN_VIEWS,
  PATTERN_ROOT,
  PATTERN_FILL,
  PATTERN_ONCE,
  PATTERN_INT,
  PATTERN_FLOAT,
  PATTERN_TEXT
} pattern_kind;

typedef struct pattern {
  pattern_kind kind;
  op_id op;
  int32_t slot;
  double number; /* NUMBER, FILL: the elements; INT, FLOAT: the value of the attribute */
  const char *attr;
  const char *text; /* TEXT */
  const struct pattern *parts[PATTERN_PARTS];
} pattern;

#define P_(...) (&(const pattern){__VA_ARGS__})
/* Any value, but not an absent operand. */
#define P_ANY P_(.kind = PATTERN_ANY)
/* An absent operand. */
#define P_ABSENT P_(.kind = PATTERN_ABSENT)
/* A constant. */
#define P_CONSTANT P_(.kind = PATTERN_CONSTANT)
/* A constant with at least one element, all equal to this number (rounded to the constant's float dtype, or exact). */
#define P_NUMBER(x) P_(.kind = PATTERN_NUMBER, .number = (x))
/* A value that matches `part`; the value is stored in a slot. */
#define P_AS(which, part) P_(.kind = PATTERN_AS, .slot = (which), .parts = {part})
/* Output 0 of that operator, whose inputs match the parts. Inputs without a part, or with a NULL part, may be anything.
 */
#define P_OP(name, ...) P_(.kind = PATTERN_OP, .op = OP_##name, .parts = {__VA_ARGS__})
/* Output 0 of that operator with two inputs, which match the parts in either order. */
#define P_PAIR(name, a, b) P_(.kind = PATTERN_PAIR, .op = OP_##name, .parts = {a, b})
/* The first of these patterns that matches. */
#define P_EITHER(...) P_(.kind = PATTERN_EITHER, .parts = {__VA_ARGS__})
/* A value that matches `part`, or a view of one. A view has the same elements in the same order under other extents:
 * Identity, Reshape, Squeeze, Unsqueeze, Flatten; a Split into one output; a Transpose that keeps the order of the
 * extents other than 1; an Expand that repeats nothing; a Gather of the only element of an extent 1. */
#define P_VIEWS(part) P_(.kind = PATTERN_VIEWS, .parts = {part})
/* A view of any depth whose source matches `part`. The source is the same value whichever view the graph uses here. */
#define P_ROOT(part) P_(.kind = PATTERN_ROOT, .parts = {part})
/* ConstantOfShape with this number and extents. */
#define P_FILL(x, extents) P_(.kind = PATTERN_FILL, .number = (x), .parts = {extents})
/* A value that matches `part` and has one use. Needs ir_count_uses. */
#define P_ONCE(part) P_(.kind = PATTERN_ONCE, .parts = {part})
/* A value that matches `part` and whose producer has the attribute (given, or by the operator's row) with this integer,
 * number (rounded or not) or text. */
#define P_INT(name, value, part) P_(.kind = PATTERN_INT, .attr = (name), .number = (value), .parts = {part})
#define P_FLOAT(name, value, part) P_(.kind = PATTERN_FLOAT, .attr = (name), .number = (value), .parts = {part})
#define P_TEXT(name, value, part) P_(.kind = PATTERN_TEXT, .attr = (name), .text = (value), .parts = {part})

/* True when v matches p. Slots that p names are filled, the others are NULL. Without a match the slots are undefined.
 */
bool pattern_match(const pattern *p, ir_value *v, ir_value **out_slots, int32_t n_slots);

/* The source of the view v (see P_VIEWS); NULL: v is no view. */
ir_value *pattern_viewed(const ir_value *v);
/* The live node of that operator whose output 0 is v; NULL: there is none. */
ir_node *pattern_made_by(const ir_value *v, op_id op);
/* The element of a constant of one element; false: v is not such a constant. */
bool pattern_number(const ir_value *v, double *out_number);
/* True when the Loop provably has `turns` turns: they are its trip count, and its condition never ends it. */
bool pattern_loops(const ir_module *m, const ir_node *loop, reed_dim turns);

#endif
