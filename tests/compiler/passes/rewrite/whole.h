/* Gathers of a flattened matrix by i * columns + j, for the tests of the pass whole_index. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_WHOLE_H_
#define TESTS_COMPILER_PASSES_REWRITE_WHOLE_H_

#include <stdio.h>

#include "tests/compiler/onnx_build.h"

typedef struct whole_case {
  const char *what;
  bool flat;                           /* the matrix is flattened to one axis, not to a column */
  const char *row_axes, *columns_axes; /* of the Unsqueezes of the counts */
  int64_t first_column;
  const char *rows_of; /* the tensor whose rows are counted */
  bool reads_whole;
} whole_case;

static const whole_case whole_cases[] = {
    {"a mask of padding", false, "123", "012", 0, "x", true},
    {"of one axis", true, "123", "012", 0, "x", true},
    {"without axes between", true, "1", "0", 0, "x", true},
    {"columns outside", false, "012", "123", 0, "x", false},
    {"columns from the second one on", false, "123", "012", 1, "x", false},
    {"rows of another tensor", false, "123", "012", 0, "y", false},
};
enum { N_WHOLE_CASES = sizeof whole_cases / sizeof *whole_cases };

static inline void whole_count(onnx_build *b, const char *name, const char *of, int64_t axis, int64_t first,
                               const char *axes) {
  int64_t list[8], n = 0;
  char text[8], node[64], dims[4];
  for (const char *c = axes; *c; c++) list[n++] = *c - '0';
  snprintf(dims, sizeof dims, "%d", (int)n);
  snprintf(text, sizeof text, "%sa", name);
  build_i64(b, text, dims, list);
  snprintf(text, sizeof text, "%sf", name);
  build_i64(b, text, "", &first);
  snprintf(text, sizeof text, "%si", name);
  build_i64(b, text, "", &axis);
  snprintf(node, sizeof node, "%ss", name);
  build_node(b, "Shape", of, node);
  snprintf(node, sizeof node, "%ss,%si", name, name);
  snprintf(text, sizeof text, "%sn", name);
  build_node(b, "Gather", node, text);
  snprintf(node, sizeof node, "%sf,%sn,one", name, name);
  snprintf(text, sizeof text, "%sr", name);
  build_node(b, "Range", node, text);
  snprintf(node, sizeof node, "%sr,%sa", name, name);
  build_node(b, "Unsqueeze", node, name);
}

/* x[i, j] for the counts i and j, with the extents that the indices have; y has more rows. */
static inline onnx_build *whole_open(const whole_case *c) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,c]");
  build_input(b, "y", "f32[2,3]");
  build_i64(b, "one", "", &(int64_t){1});
  build_i64(b, "line", "1", &(int64_t){-1});
  whole_count(b, "i", c->rows_of, 0, 0, c->row_axes);
  whole_count(b, "j", "x", 1, c->first_column, c->columns_axes);
  if (c->flat) build_node(b, "Reshape", "x,line", "f");
  else build_int(b, build_node(b, "Flatten", "x", "f"), "axis", 2);
  build_node(b, "Mul", "i,jn", "m");
  build_node(b, "Add", "j,m", "p");
  build_node(b, "Gather", "f,p", "g");
  build_node(b, "Shape", "p", "s");
  build_node(b, "Reshape", "g,s", "r");
  build_node(b, "Exp", "r", "o");
  build_output(b, "o", "f32");
  return b;
}

#endif
