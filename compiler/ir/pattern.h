/* Patterns over the graph, written down in a few lines and matched backwards from a value:
 *
 *   enum { BOXES, KEPT };
 *   static const pattern *const first_rows =
 *       P_INT("axis", 0, P_OP(Gather, P_AS(BOXES, P_ANY), P_VIEWS(P_AS(KEPT, P_OP(NonZero, P_ANY)))));
 *
 *   ir_value *found[2];
 *   if (pattern_match(first_rows, value, found, 2)) ... found[BOXES] ...
 *
 * A pattern says what a value must be. Parts are looked at from left to right and the first way that fits is taken: a
 * choice (P_EITHER, P_PAIR, P_VIEWS) is not made again when something to its right fails. A slot named twice must be
 * the same value both times, which is how a pattern says that two of its places belong together. */
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
  double number; /* NUMBER, FILL; INT, FLOAT: what the attribute must be */
  const char *attr;
  const char *text; /* TEXT */
  const struct pattern *parts[PATTERN_PARTS];
} pattern;

#define P_(...) (&(const pattern){__VA_ARGS__})
/* Any value that is there. */
#define P_ANY P_(.kind = PATTERN_ANY)
/* No value: an operand that is not given. */
#define P_ABSENT P_(.kind = PATTERN_ABSENT)
/* A constant. */
#define P_CONSTANT P_(.kind = PATTERN_CONSTANT)
/* A constant all of whose elements are this number (it has one at least), which a float dtype may have rounded. */
#define P_NUMBER(x) P_(.kind = PATTERN_NUMBER, .number = (x))
/* What `part` says, noted in a slot. */
#define P_AS(which, part) P_(.kind = PATTERN_AS, .slot = (which), .parts = {part})
/* Output 0 of that operator. Inputs as the parts say; those without a part, and those whose part is NULL, may be
 * anything. */
#define P_OP(name, ...) P_(.kind = PATTERN_OP, .op = OP_##name, .parts = {__VA_ARGS__})
/* Output 0 of that operator of two inputs, in either order. */
#define P_PAIR(name, a, b) P_(.kind = PATTERN_PAIR, .op = OP_##name, .parts = {a, b})
/* The first of these that fits. */
#define P_EITHER(...) P_(.kind = PATTERN_EITHER, .parts = {__VA_ARGS__})
/* What `part` says, or that behind operators that give the same elements in the same order under other extents:
 * Identity, Reshape, Squeeze, Unsqueeze, Flatten; a Split into one; a Transpose that does not change the order of the
 * extents other than 1; an Expand that repeats nothing; a Gather of all there is of an extent 1. */
#define P_VIEWS(part) P_(.kind = PATTERN_VIEWS, .parts = {part})
/* What `part` says of the value behind all of these: the same one whichever view of it the graph has here. */
#define P_ROOT(part) P_(.kind = PATTERN_ROOT, .parts = {part})
/* A new tensor of this number: ConstantOfShape. */
#define P_FILL(x, extents) P_(.kind = PATTERN_FILL, .number = (x), .parts = {extents})
/* What `part` says, used once (ir_count_uses has been called). */
#define P_ONCE(part) P_(.kind = PATTERN_ONCE, .parts = {part})
/* What `part` says, made by an operator that has this attribute (given, or by its row), which is this integer, number
 * (rounded or not) or text. */
#define P_INT(name, value, part) P_(.kind = PATTERN_INT, .attr = (name), .number = (value), .parts = {part})
#define P_FLOAT(name, value, part) P_(.kind = PATTERN_FLOAT, .attr = (name), .number = (value), .parts = {part})
#define P_TEXT(name, value, part) P_(.kind = PATTERN_TEXT, .attr = (name), .text = (value), .parts = {part})

/* Whether v is as p says; fills the slots it names, others are NULL. Without a match the slots mean nothing. */
bool pattern_match(const pattern *p, ir_value *v, ir_value **out_slots, int32_t n_slots);

/* What v is a view of (see P_VIEWS); NULL: it is none. */
ir_value *pattern_viewed(const ir_value *v);
/* v is output 0 of a live node of that operator: the node, else NULL. */
ir_node *pattern_made_by(const ir_value *v, op_id op);
/* The one element of a constant; false: it is not one. */
bool pattern_number(const ir_value *v, double *out_number);
/* The Loop has that many turns, provably: it is told so, and its condition does not end it. */
bool pattern_loops(const ir_module *m, const ir_node *loop, reed_dim turns);

#endif
