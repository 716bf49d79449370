/* Runs a shape function on a call written as text, for tests. */
#ifndef TESTS_SHAPEFUNCS_INFER_H_
#define TESTS_SHAPEFUNCS_INFER_H_

#include "ops/op.h"
#include "shapefuncs/shapefn.h"

#define INFER_MAX_INPUTS 8
#define INFER_MAX_VALUES 16
#define INFER_MAX_OUTPUTS 8

/* A call and its result. Large: on the stack of one test at a time. */
typedef struct inference {
  reed_symbols *symbols; /* NULL: the text has numbers only */
  reed_diagnosis *diagnosis;
  reed_shape_input inputs[INFER_MAX_INPUTS];
  reed_dim dims[INFER_MAX_INPUTS][REED_MAX_RANK], values[INFER_MAX_INPUTS][INFER_MAX_VALUES];
  char data[INFER_MAX_INPUTS][INFER_MAX_VALUES * 8];
  reed_attr attrs[16];
  int64_t ints[16][16], one_element;
  double floats[16][16]; /* elements of attributes of type floats */
  char names[16][40], strings[16][40];
  int32_t n_inputs, n_attrs, n_outputs;
  reed_shape_output outputs[INFER_MAX_OUTPUTS];
  reed_status status;
} inference;

/* op: "Split" or "Split/3" for three outputs. attrs: "axis=1 perm=(0,2,1) mode=reflect alpha=0.5 value=tensor:i64"
 * separated by spaces ("" none). inputs, separated by spaces: "f32[2,h,?]" a shape of numbers, named dims and unknown
 * ones; "f32[...]" of unknown rank; "i64{1,-1,h}" a list with its elements; "f32[]{0.5}" a scalar; "i64[3]{?,?,?}" a
 * list whose elements are unknown; "-" absent. A name, "?" or "..." makes the run symbolic, so that "i64[?]" is a list
 * of unknown length. */
void infer_begin(inference *run, const char *op, const char *attrs, const char *inputs);
void infer_end(inference *run);
/* "[2,h] [<=6,3]" of the outputs (fresh unknowns are "?", unknown rank "[...]", a bounded extent has "<="), or the
 * diagnosis. In static storage. */
const char *infer(const char *op, const char *attrs, const char *inputs);

#endif
