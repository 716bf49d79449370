/* Tensors whose elements follow from their places: numbers of places (Range, the running sum of ones), and masks that
 * compare such numbers, as exporters write causal masks and sliding windows. */
#ifndef COMPILER_IR_POSITIONS_H_
#define COMPILER_IR_POSITIONS_H_

#include "compiler/ir/ir.h"

/* A band of the last two axes, row i and column j: elements with low <= j - i <= high are `inside`, others `outside`.
 * Without a bound on either side all elements are `inside`. Bools are 0 and 1. */
typedef struct position_band {
  bool has_low, has_high;
  reed_dim low, high; /* numbers or symbols */
  double inside, outside;
} position_band;

/* The band that v is; false: v is no band, or it is not known to be one. Looks through a bounded number of operators.
 */
bool position_band_of(ir_module *m, ir_value *v, position_band *out_band);
/* True if v, of rank 1, counts places one by one: element i is *out_first + i, a number or a symbol. */
bool position_ramp_of(ir_module *m, ir_value *v, reed_dim *out_first);
/* The places where the band's number is not 0, as a band of 1 inside and 0 outside; false: they are no band. */
bool position_band_true(ir_module *m, const position_band *band, position_band *out_true);
/* The places that are inside of both; the numbers are a's. */
position_band position_band_both(ir_module *m, const position_band *a, const position_band *b);

#endif
