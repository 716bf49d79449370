/* The rows of growth.def as a table (growth.h). */
#include "ops/growth.h"

#define AXIS INT32_MAX /* of an operator whose attribute names the axis */
#define JOINS false
#define OVERWRITES true

static const struct growth_row {
  op_id op;
  growth growth;
} rows[] = {
#define GROWTH(name, input, output, axis, change) {OP_##name, {input, output, axis, change}},
#include "ops/growth.def"
};

int32_t growth_axis(const growth *g, int32_t rank) {
  int32_t axis = g->axis < 0 ? g->axis + rank : g->axis;
  return axis < rank ? axis : -1;
}

bool growth_of(const reed_op *op, const reed_attrs *attrs, int32_t input, growth *out_growth) {
  op_id id = op_id_of(op);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].op != id || rows[i].growth.input != input) continue;
    *out_growth = rows[i].growth;
    if (out_growth->axis == AXIS) out_growth->axis = (int32_t)op_attr_int(attrs, "axis");
    return true;
  }
  return false;
}
