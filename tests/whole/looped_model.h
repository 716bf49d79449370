/* A model with a Loop whose body has an If: for tests of sessions. */
#ifndef TESTS_WHOLE_LOOPED_MODEL_H_
#define TESTS_WHOLE_LOOPED_MODEL_H_

#include "tests/whole/model.h"

/* `times` rounds over x (f32[n]), of which the first three take the one branch and later ones the other. */
static inline onnx_build *looped_model(void) {
  onnx_build *b = build_open(17), *body = build_subgraph(b), *yes = build_subgraph(body), *no = build_subgraph(body);
  build_input(body, "i", "i64[]");
  build_input(body, "go_in", "bool[]");
  build_input(body, "v", "f32[n]");
  build_node(body, "Identity", "go_in", "go");
  build_i64(body, "three", "", (int64_t[]){3});
  build_node(body, "Less", "i,three", "early");
  build_node(yes, "Neg", "v", "a1");
  build_node(yes, "Sub", "a1,v", "a2");
  build_node(yes, "Abs", "a2", "a3");
  build_output(yes, "a3", "f32[n]");
  build_node(no, "Abs", "v", "b1");
  build_node(no, "Neg", "b1", "b2");
  build_output(no, "b2", "f32[n]");
  build_node_t *choice = build_node(body, "If", "early", "c");
  build_graph_attr(b, choice, "then_branch", yes);
  build_graph_attr(b, choice, "else_branch", no);
  build_node(body, "Add", "c,v", "d");
  build_node(body, "Relu", "d", "w");
  build_output(body, "go", "bool[]");
  build_output(body, "w", "f32[n]");
  build_input(b, "x", "f32[n]");
  build_input(b, "times", "i64[]");
  build_graph_attr(b, build_node(b, "Loop", "times,,x", "last"), "body", body);
  build_output(b, "last", "f32[n]");
  return b;
}

#endif
