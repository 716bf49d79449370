/* Loops that append to a carried value, for the tests of the accumulate pass: the first APPENDING_TAKEN are rewritten,
 * the others are near misses. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_APPENDING_H_
#define TESTS_COMPILER_PASSES_REWRITE_APPENDING_H_

#include "tests/compiler/onnx_build.h"

typedef enum appending {
  APPENDING_TO_NOTHING,
  APPENDING_TO_SOME,  /* the carried value has rows before the loop */
  APPENDING_PAIRS,    /* two rows a turn */
  APPENDING_SYMBOLIC, /* a row has as many elements as the loop has turns */
  APPENDING_GROWING,  /* more rows in every turn */
  APPENDING_TAKEN,
  APPENDING_IN_FRONT = APPENDING_TAKEN,
  APPENDING_COLUMNS,
  APPENDING_AND_READING, /* a new row depends on the rows appended before */
  N_APPENDING
} appending;

static onnx_build *appending_loop(appending a) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", a == APPENDING_SYMBOLIC ? "f32[n,n]" : "f32[n,3]");
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "two", "1", (int64_t[]){2});
  build_i64(b, "row", "", (int64_t[]){0});
  build_node(b, "Shape", "x", "extents");
  build_node(b, "Gather", "extents,row", "turns");
  build_node(b, "Slice", "extents,one,two", "width");
  if (a == APPENDING_COLUMNS) build_int(b, build_node(b, "Concat", "one,zero", "none"), "axis", 0);
  else build_int(b, build_node(b, "Concat", "zero,width", "none"), "axis", 0);
  build_node(b, "ConstantOfShape", "none", "empty");
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "acc", "f32");
  build_node(body, "Identity", "c", "d");
  build_node(body, "Gather", "x,i", "line");
  build_node(body, "Unsqueeze", "line,zero", "single");
  if (a == APPENDING_PAIRS) {
    build_node(body, "Neg", "single", "turned");
    build_int(body, build_node(body, "Concat", "single,turned", "part"), "axis", 0);
  } else if (a == APPENDING_GROWING) {
    build_node(body, "Unsqueeze", "i,zero", "end");
    build_node(body, "Slice", "x,zero,end", "part");
  } else if (a == APPENDING_AND_READING) {
    build_int(body, build_node(body, "ReduceSum", "acc", "sum"), "keepdims", 0);
    build_node(body, "Sub", "single,sum", "part");
  } else {
    build_node(body, "Neg", "single", "part");
  }
  build_int(body, build_node(body, "Concat", a == APPENDING_IN_FRONT ? "part,acc" : "acc,part", "more"), "axis",
            a == APPENDING_COLUMNS);
  build_output(body, "d", "bool");
  build_output(body, "more", "f32");
  build_graph_attr(b, build_node(b, "Loop", a == APPENDING_TO_SOME ? "turns,,x" : "turns,,empty", "y"), "body", body);
  build_output(b, "y", "f32");
  return b;
}

#endif
