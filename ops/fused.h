/* The program of operator Fused (ops/op.def): element-wise operators in one pass, each over the element of the call's
 * inputs that broadcasting gives, or over the results of earlier ones. Attributes hold it as text, which a person can
 * read, with its numbers beside it:
 *
 *   program "Add 0 1;Sigmoid 3;Mul 4 2;LeakyRelu 5 alpha=#0"   numbers [0.1]
 *
 * Attributes with the value of the operator's row are left out. An operand is the number of an input, or n_inputs + the
 * number of an earlier step. Max, Min and Sum have two operands here, Clip has both bounds. Written by the compiler,
 * read by kernels. */
#ifndef OPS_FUSED_H_
#define OPS_FUSED_H_

#include "base/text.h"
#include "base/vec.h"
#include "ops/op.h"

#define FUSED_STEPS 32
#define FUSED_INPUTS 32
#define FUSED_VALUES (FUSED_INPUTS + FUSED_STEPS)
#define FUSED_OPERANDS 3
#define FUSED_ATTRS 2 /* of one step */

typedef struct fused_step {
  const reed_op *op;
  int32_t n_operands, n_attrs;
  int32_t operands[FUSED_OPERANDS];
  reed_attr attrs[FUSED_ATTRS]; /* complete, sorted by name */
  char word[16];                /* what a text attribute says */
} fused_step;

/* Not to be copied: attributes point into it. */
typedef struct fused_program {
  int32_t n_inputs, n_steps;
  fused_step steps[FUSED_STEPS];
} fused_program;

/* How many operands it has in a step. */
int32_t fused_operands(const reed_op *op);

/* Numbers are appended while a program is written. */
typedef struct fused_text {
  text_buffer program;
  VEC_OF(double) numbers;
  bool failed; /* no memory, or an attribute that a step cannot have */
} fused_text;
void fused_write(fused_text *text, const reed_op *op, const reed_attrs *attrs, const int32_t *operands);
void fused_text_fini(fused_text *text);

/* From a call's attributes. Gives NULL, or what is wrong with them (static text): out_program is then unspecified. */
const char *fused_read(const reed_attrs *attrs, int32_t n_inputs, fused_program *out_program);
static inline reed_attrs fused_attrs(const fused_step *step) { return (reed_attrs){step->attrs, step->n_attrs}; }

#endif
