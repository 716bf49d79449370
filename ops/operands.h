/* The operands of a call as a text for messages. The values that a shape function reads: shapefuncs/dims.c. */
#ifndef OPS_OPERANDS_H_
#define OPS_OPERANDS_H_

#include "base/text.h"
#include "ops/op.h"

/* The declared name of an input, with its index if the declaration is variadic; "" for none. */
const char *operands_name(const reed_op *op, int32_t input, char out[96]);
/* Appends " (data f32[3,4], indices i64[2])": name, dtype and extents of the inputs that are present, at most 16 of
 * them. Appends nothing if no input is present. inputs: n_inputs of them; dtype REED_NONE: absent. */
void operands_append(text_buffer *text, const reed_op *op, int32_t n_inputs, const reed_desc *inputs);

#endif
