/* The program of operator Fused (ops/op.def): element-wise operators computed in one pass. Each step's operands are
 * inputs of the call, broadcast to the output, or results of earlier steps. The program is in two attributes, a text
 * that a person can read and a list of its numbers:
 *
 *   program "Add 0 1;Sigmoid 3;Mul 4 2;LeakyRelu 5 alpha=#0"   numbers [0.1]
 *
 * Attributes with the value of the operator's row are left out. An operand is the number of an input, or n_inputs plus
 * the number of an earlier step. Max, Min and Sum have two operands here; Clip has both bounds. The compiler writes
 * programs, kernels read them.
 *
 * The program of FusedColumns computes columns of a matrix from columns of others. The last axis of an input [rows...,
 * width] are its columns; input k is read at column columns[k] of it, and one tensor may be an input for each of its
 * columns that is read. The axes before the last broadcast against each other, aligned from the right; a number is the
 * same for all rows. The output is [rows..., n], whose column j is the value with the number results[j] (of an input,
 * or of a step as above). Boxes as corners, for example, from centres and extents [n, 4]:
 *
 *   columns [0, 1, 2, 3, 0]   (the fifth input: 0.5)   results [7, 8, 9, 10]
 *   program "Mul 2 4;Mul 3 4;Sub 0 5;Sub 1 6;Add 0 5;Add 1 6" */
#ifndef OPS_FUSED_H_
#define OPS_FUSED_H_

#include "base/text.h"
#include "base/vec.h"
#include "ops/op.h"

#define FUSED_STEPS 32
#define FUSED_INPUTS 32
#define FUSED_RESULTS 16 /* columns that FusedColumns makes */
#define FUSED_VALUES (FUSED_INPUTS + FUSED_STEPS)
#define FUSED_OPERANDS 3
#define FUSED_ATTRS 2 /* of one step */

typedef struct fused_step {
  const reed_op *op;
  int32_t n_operands, n_attrs;
  int32_t operands[FUSED_OPERANDS];
  reed_attr attrs[FUSED_ATTRS]; /* complete, sorted by name */
  char word[16];                /* the value of a text attribute */
} fused_step;

/* Must not be copied, because its attributes point into it. */
typedef struct fused_program {
  int32_t n_inputs, n_steps;
  fused_step steps[FUSED_STEPS];
} fused_program;

/* The number of operands of this operator in a step. */
int32_t fused_operands(const reed_op *op);

/* A program while it is written; each step appends its numbers. */
typedef struct fused_text {
  text_buffer program;
  VEC_OF(double) numbers;
  bool failed; /* out of memory, or an attribute that a step cannot have */
} fused_text;
void fused_write(fused_text *text, const reed_op *op, const reed_attrs *attrs, const int32_t *operands);
void fused_text_fini(fused_text *text);

/* Reads the program of a call's attributes. Returns NULL, or a static text that names the error; out_program is then
 * unspecified. */
const char *fused_read(const reed_attrs *attrs, int32_t n_inputs, fused_program *out_program);
/* The columns that a FusedColumns call reads, and the numbers of the values that it writes, as they stand in its
 * attributes. Returns NULL, or a static text that names the error. */
typedef struct fused_columns {
  int32_t n_results;
  int32_t columns[FUSED_INPUTS], results[FUSED_RESULTS];
} fused_columns;
const char *fused_read_columns(const reed_attrs *attrs, int32_t n_inputs, fused_columns *out_columns);
static inline reed_attrs fused_attrs(const fused_step *step) { return (reed_attrs){step->attrs, step->n_attrs}; }

#endif
