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
  CANDIDATES_LATE_BOXES,                     /* computed behind the last TopK */
  CANDIDATES_EARLY_LABELS,                   /* in front of the first one */
  CANDIDATES_ANY_COLUMNS,                    /* the matrix may lack a class */
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

/* The text with k in place of each '#', in one of eight buffers in turn. */
static const char *candidates_of(const char *text, int k) {
  static char buffers[8][64];
  static int turn;
  char *to = buffers[turn++ % 8];
  size_t n = 0;
  for (; *text; text++) to[n++] = *text == '#' ? (char)('0' + k) : *text;
  to[n] = 0;
  return to;
}
#define OF(text) candidates_of(text, k)

/* The rows of class k whose scores are above the threshold, their scores, and how many are wanted of them. */
static void candidates_rows(onnx_build *b, candidates c, int k) {
  static const int64_t mixed[] = {3, -4, 2};
  const bool other = k == 1;
  build_i64(b, OF("class#"), "", (int64_t[]){c == CANDIDATES_MIXED ? mixed[k] : k + 1});
  build_node_t *column = build_node(b, "Gather", OF("scores,class#"), OF("column#"));
  build_int(b, column, "axis", c != CANDIDATES_OF_ROWS);
  build_node(b, c == CANDIDATES_AT_LEAST ? "GreaterOrEqual" : "Greater",
             other && c == CANDIDATES_OTHER_LEAST ? OF("column#,limit_as_least") : OF("column#,least"), OF("over#"));
  build_node(b, "NonZero", OF("over#"), OF("found#"));
  if (c == CANDIDATES_BY_GATHER) build_node(b, "Squeeze", OF("found#,none"), OF("rows#"));
  else build_ints(b, build_node(b, "Transpose", OF("found#"), OF("rows#")), "perm", "1,0");
  candidates_take(b, c, OF("column#"), OF("rows#"), OF("high#"));
  build_node(b, "Shape", OF("high#"), OF("count#"));
  build_node(b, "Min", other && c == CANDIDATES_OTHER_LIMIT ? OF("count#,one") : OF("count#,limit"), OF("most#"));
}

static void candidates_best(onnx_build *b, candidates c, int k) {
  build_int(b, build_node(b, "TopK", OF("high#,most#"), OF("best#,at#")), "largest", c != CANDIDATES_OF_LEAST);
}

static void candidates_boxes(onnx_build *b, candidates c, int k) {
  const bool other = k == 1;
  const char *boxes = c == CANDIDATES_LATE_BOXES ? "late" : other && c == CANDIDATES_OTHER_BOXES ? "others" : "boxes";
  candidates_take(b, c, boxes, other && c == CANDIDATES_OTHER_ROWS ? "rows0" : OF("rows#"), OF("kept#"));
  build_node(b, "Gather", OF("kept#,at#"), OF("taken#"));
}

static void candidates_labels(onnx_build *b, candidates c, int k) {
  if (c == CANDIDATES_EARLY_LABELS) {
    build_node(b, "Expand", OF("class#,most#"), OF("labels#"));
    return;
  }
  build_node(b, "Shape", OF("best#"), OF("extents#"));
  if (c == CANDIDATES_EXPANDED) {
    build_node(b, "Expand", OF("class#,extents#"), OF("labels#"));
  } else {
    build_node_t *fill = build_node(b, "ConstantOfShape", OF("extents#"), OF("labels#"));
    build_tensor_attr(b, fill, "value", build_loose_tensor(b, REED_I64, "1", (int64_t[]){10 * k + 1}));
  }
}
#undef OF

static void candidates_join(onnx_build *b, const char *parts, const char *out) {
  build_int(b, build_node(b, "Concat", parts, out), "axis", 0);
}

static onnx_build *candidates_open(candidates c) {
  const bool wide = c != CANDIDATES_NO_BOXES;
  onnx_build *b = build_open(13);
  build_input(b, "x", c == CANDIDATES_OF_ROWS ? "f32[4,n]" : c == CANDIDATES_ANY_COLUMNS ? "f32[n,c]" : "f32[n,4]");
  build_input(b, "boxes", wide ? "f32[n,4]" : "f32[n,3]");
  build_input(b, "others", "f32[n,4]");
  build_f32(b, "least", "", (float[]){-1});
  build_f32(b, "limit_as_least", "", (float[]){0});
  build_i64(b, "limit", "1", (int64_t[]){CANDIDATES_LIMIT});
  build_i64(b, "none", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_node(b, "Round", "x", "scores");
  const bool early = c == CANDIDATES_EARLY_LABELS;
  for (int k = 0; k < CANDIDATES_CLASSES; k++) candidates_rows(b, c, k);
  for (int k = 0; k < CANDIDATES_CLASSES && early; k++) candidates_labels(b, c, k);
  if (early) candidates_join(b, "labels0,labels1,labels2", "all_labels");
  for (int k = 0; k < CANDIDATES_CLASSES; k++) candidates_best(b, c, k);
  if (c == CANDIDATES_LATE_BOXES) build_node(b, "Relu", "boxes", "late");
  for (int k = 0; k < CANDIDATES_CLASSES; k++) candidates_boxes(b, c, k);
  for (int k = 0; k < CANDIDATES_CLASSES && !early; k++) candidates_labels(b, c, k);
  candidates_join(b, "taken0,taken1,taken2", "all_boxes");
  candidates_join(b, "best0,best1,best2", "all_scores");
  if (!early) candidates_join(b, "labels0,labels1,labels2", "all_labels");
  build_int(b, build_node(b, "Cast", "all_labels", "labels"), "to", 1);
  build_node(b, "Unsqueeze", "all_scores,one", "s");
  build_node(b, "Unsqueeze", c == CANDIDATES_UNLABELLED ? "all_scores,one" : "labels,one", "l");
  build_int(b, build_node(b, "Concat", "all_boxes,s,l", "y"), "axis", 1);
  build_output(b, "y", wide ? "f32[m,6]" : "f32[m,5]");
  if (c == CANDIDATES_SEEN) build_output(b, "at1", "i64[a]");
  return b;
}

#endif
