/* The If of exporters around Squeeze: of an axis that may have another extent than 1. */
#ifndef TESTS_COMPILER_PASSES_SQUEEZE_IF_ONE_H_
#define TESTS_COMPILER_PASSES_SQUEEZE_IF_ONE_H_

#include "tests/compiler/onnx_build.h"

/* If whose condition is whether the first extent of x is 1: squeeze or not */
static inline onnx_build *squeeze_if_one(const char *type) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", type);
  build_i64(b, "zero", "", (int64_t[]){0});
  build_i64(b, "one", "", (int64_t[]){1});
  build_i64(b, "axes", "1", (int64_t[]){0});
  build_node(b, "Shape", "x", "s");
  build_node(b, "Gather", "s,zero", "n");
  build_node(b, "Equal", "n,one", "c");
  build_node(then, "Squeeze", "x,axes", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Neg", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "y", "f32");
  return b;
}

#endif
