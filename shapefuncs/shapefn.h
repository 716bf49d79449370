/* Running shape functions.
 *
 * A shape function is pure: dims (and declared values) in, dims out. The shape functions are in one file per operator
 * family, named shapefn_<x> as in the second column of ops/op.def; shapefuncs/table.c finds an operator's function, and
 * shapefuncs/dims.c is the checked arithmetic that they use.
 *
 * At compile time some dims are unknown. An input may have rank -1 (unknown), a `value` input may have neither data nor
 * values, and an output may come back with rank -1 if its rank depends on unknown numbers (Squeeze without axes,
 * Reshape to a shape of unknown length). With symbols NULL none of this happens. */
#ifndef SHAPEFUNCS_SHAPEFN_H_
#define SHAPEFUNCS_SHAPEFN_H_

#include "base/desc.h"
#include "base/diag.h"
#include "ops/call.h"
#include "reed/operator.h"
#include "shapefuncs/symbols.h"

/* Runs op's shape function: presets the outputs' dtypes from the table, calls the function, checks its results (rank,
 * no negative extents, sizes that fit int64). Attributes are complete (op_attrs_complete). On failure the diagnosis
 * names node, operator, input and shapes; outputs are then unspecified. symbols NULL: numbers only, and the inputs'
 * dtypes are first checked against the table (a compiler does so with shapefn_check_call). */
reed_status shapefn_run(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                        const reed_shape_input *inputs, int32_t n_outputs, reed_shape_output *outputs,
                        struct reed_symbols *symbols, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* True if the attributes' values fit the operator's row, which shapefn_run checks in every call. Attributes are
 * complete. Of a call with such attributes (`values_checked` of op_call) shapefn_call does not check them again. */
bool shapefn_values_fit(const reed_op *op, const reed_attrs *attrs);
/* Runs the shape function of a call on numbers: shapefn_run with the call's operands, without symbols. */
reed_status shapefn_call(const op_call *call, reed_shape_output *outputs) REED_MUST_CHECK;

/* Dtype and extents of an output without symbols. */
static inline reed_desc shapefn_desc(const reed_shape_output *output) {
  reed_desc desc = {.dtype = output->dtype, .rank = output->rank};
  memcpy(desc.dims, output->dims, sizeof desc.dims);
  return desc;
}

/* Checks the number, dtypes and presence of a call's inputs and outputs, and its attributes, against the operator's row
 * (no shapes). */
reed_status shapefn_check_call(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                               const reed_dtype *inputs, int32_t n_outputs, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
