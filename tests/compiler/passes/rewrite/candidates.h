/* The best candidates of each class of a detector, for the tests of the pass class_candidates: as exporters write them,
 * and near misses. Scores are whole numbers, so that many are equal. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_CANDIDATES_H_
#define TESTS_COMPILER_PASSES_REWRITE_CANDIDATES_H_

#include <stdio.h>
#include <string.h>

#include "tests/compiler/onnx_build.h"

typedef enum candidates {
  CANDIDATES_AS_EXPORTED,
  CANDIDATES_BY_GATHER, /* rows are taken by Gather, not by GatherND */
  CANDIDATES_OF_ROWS,   /* the matrix has a row for each class */
  CANDIDATES_MIXED,     /* classes in another order, one of them counted from the last */
  CANDIDATES_EXPANDED,  /* labels by Expand */
  CANDIDATES_UNLABELLED,
  CANDIDATES_TAKEN,                          /* the cases before are taken */
  CANDIDATES_OTHER_LEAST = CANDIDATES_TAKEN, /* one class has another threshold, */
  CANDIDATES_OTHER_LIMIT,                    /* another limit, */
  CANDIDATES_OTHER_BOXES,                    /* or boxes of another tensor */
  CANDIDATES_OTHER_ROWS,                     /* the boxes of one class are taken where another's scores are high */
  CANDIDATES_OF_LEAST,                       /* the lowest scores are taken */
  CANDIDATES_AT_LEAST,                       /* scores that are equal to the threshold are taken too */
  CANDIDATES_NO_BOXES,                       /* three columns */
  CANDIDATES_SEEN,                           /* the numbers of one class are read */
  N_CANDIDATES
} candidates;

enum { CANDIDATES_CLASSES = 3, CANDIDATES_LIMIT = 5 };

static void candidates_take(onnx_build *b, candidates c, const char *data, const char *rows, const char *out) {
  char inputs[64];
  snprintf(inputs, sizeof inputs, "%s,%s", data, rows);
  build_node(b, c == CANDIDATES_BY_GATHER ? "Gather" : "GatherND", inputs, out);
}

/* Class k. All names end in k. */
static void candidates_class(onnx_build *b, candidates c, int k) {
  static const int64_t mixed[] = {3, -4, 2};
  char n[13][32], inputs[96];
#define NAME(slot, text) (snprintf(n[slot], sizeof n[slot], text "%d", k), n[slot])
#define INPUTS(...) (snprintf(inputs, sizeof inputs, __VA_ARGS__), inputs)
  const bool other = k == 1;
  build_i64(b, NAME(0, "class"), "", (int64_t[]){c == CANDIDATES_MIXED ? mixed[k] : k + 1});
  build_node_t *column = build_node(b, "Gather", INPUTS("scores,%s", n[0]), NAME(1, "column"));
  build_int(b, column, "axis", c != CANDIDATES_OF_ROWS);
  build_node(b, c == CANDIDATES_AT_LEAST ? "GreaterOrEqual" : "Greater",
             INPUTS("%s,%s", n[1], other && c == CANDIDATES_OTHER_LEAST ? "limit_as_least" : "least"), NAME(2, "over"));
  build_node(b, "NonZero", n[2], NAME(3, "found"));
  if (c == CANDIDATES_BY_GATHER) build_node(b, "Squeeze", INPUTS("%s,none", n[3]), NAME(4, "rows"));
  else build_ints(b, build_node(b, "Transpose", n[3], NAME(4, "rows")), "perm", "1,0");
  candidates_take(b, c, n[1], n[4], NAME(5, "high"));
  candidates_take(b, c, other && c == CANDIDATES_OTHER_BOXES ? "others" : "boxes",
                  other && c == CANDIDATES_OTHER_ROWS ? "rows0" : n[4], NAME(6, "kept"));
  build_node(b, "Shape", n[5], NAME(7, "count"));
  build_node(b, "Min", INPUTS("%s,%s", n[7], other && c == CANDIDATES_OTHER_LIMIT ? "one" : "limit"), NAME(8, "most"));
  snprintf(n[12], sizeof n[12], "best%d,at%d", k, k);
  build_node_t *best = build_node(b, "TopK", INPUTS("%s,%s", n[5], n[8]), n[12]);
  build_int(b, best, "largest", c != CANDIDATES_OF_LEAST);
  build_node(b, "Gather", INPUTS("%s,at%d", n[6], k), NAME(9, "taken"));
  build_node(b, "Shape", INPUTS("best%d", k), NAME(10, "extents"));
  if (c == CANDIDATES_EXPANDED) {
    build_node(b, "Expand", INPUTS("%s,%s", n[0], n[10]), NAME(11, "labels"));
  } else {
    build_node_t *fill = build_node(b, "ConstantOfShape", n[10], NAME(11, "labels"));
    build_tensor_attr(b, fill, "value", build_loose_tensor(b, REED_I64, "1", (int64_t[]){10 * k + 1}));
  }
#undef NAME
#undef INPUTS
}

static onnx_build *candidates_open(candidates c) {
  const bool wide = c != CANDIDATES_NO_BOXES;
  onnx_build *b = build_open(13);
  build_input(b, "x", c == CANDIDATES_OF_ROWS ? "f32[4,n]" : "f32[n,4]");
  build_input(b, "boxes", wide ? "f32[n,4]" : "f32[n,3]");
  build_input(b, "others", "f32[n,4]");
  build_f32(b, "least", "", (float[]){-1});
  build_f32(b, "limit_as_least", "", (float[]){0});
  build_i64(b, "limit", "1", (int64_t[]){CANDIDATES_LIMIT});
  build_i64(b, "none", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_node(b, "Round", "x", "scores");
  for (int k = 0; k < CANDIDATES_CLASSES; k++) candidates_class(b, c, k);
  build_int(b, build_node(b, "Concat", "taken0,taken1,taken2", "all_boxes"), "axis", 0);
  build_int(b, build_node(b, "Concat", "best0,best1,best2", "all_scores"), "axis", 0);
  build_int(b, build_node(b, "Concat", "labels0,labels1,labels2", "all_labels"), "axis", 0);
  build_int(b, build_node(b, "Cast", "all_labels", "labels"), "to", 1);
  build_node(b, "Unsqueeze", "all_scores,one", "s");
  build_node(b, "Unsqueeze", c == CANDIDATES_UNLABELLED ? "all_scores,one" : "labels,one", "l");
  build_int(b, build_node(b, "Concat", "all_boxes,s,l", "y"), "axis", 1);
  build_output(b, "y", wide ? "f32[m,6]" : "f32[m,5]");
  if (c == CANDIDATES_SEEN) build_output(b, "at1", "i64[a]");
  return b;
}

#endif
