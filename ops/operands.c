/* Names and extents of a call's operands in messages (operands.h). */
#include "ops/operands.h"

#include <stdio.h>

#include "base/desc.h"

enum { MOST_INPUTS = 16 };

const char *operands_name(const reed_op *op, int32_t input, char out[96]) {
  const reed_op_input *declared = reed_op_input_at(op, input);
  if (!declared) return "";
  if (declared->variadic) snprintf(out, 96, "%s[%d]", declared->name, input - (op->n_inputs - 1));
  else snprintf(out, 96, "%s", declared->name);
  return out;
}

void operands_append(text_buffer *text, const reed_op *op, int32_t n_inputs, const reed_desc *inputs) {
  char name[96], desc[512];
  const char *between = " (";
  for (int32_t i = 0; i < n_inputs && i < MOST_INPUTS; i++) {
    if (inputs[i].dtype == REED_NONE) continue;
    text_append(text, "%s%s %s", between, operands_name(op, i, name), desc_text(&inputs[i], desc, sizeof desc));
    between = ", ";
  }
  if (between[0] == ',') text_append(text, n_inputs > MOST_INPUTS ? ", ...)" : ")");
}
