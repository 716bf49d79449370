/* The passes around NonMaxSuppression and rows kept by a mask: nms_limit, nms_guard, nms_classes, filter_chain,
 * nms_filter, class_candidates, counted_shapes. Each fires, and leaves near misses alone. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/candidates.h"
#include "tests/suite.h"

typedef struct limit_case {
  int64_t limit, start, end, axis, step, column; /* NonMaxSuppression's; the Slice's; the selection's column */
  const char *scores;
  bool seen, guarded; /* the selection's numbers are an output, too; the selection is in a branch of an If */
  int64_t expected;
} limit_case;

static const limit_case limits[] = {
    {INT64_MAX, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 7},
    {INT64_MAX, 0, 7, 0, 1, 2, "f32[1,1,n]", .guarded = true, .expected = 7},
    {9, 0, 7, -1, 1, 2, "f32[1,1,n]", .expected = 7}, /* the only axis, counted from the last */
    {9, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 7},
    {5, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 5},  /* the selection's limit is less than the Slice's end */
    {9, 1, 7, 0, 1, 2, "f32[1,1,n]", .expected = 9},  /* the Slice does not begin at the first row */
    {9, 0, -1, 0, 1, 2, "f32[1,1,n]", .expected = 9}, /* the Slice leaves out the last row */
    {9, 0, 7, 0, 2, 2, "f32[1,1,n]", .expected = 9},  /* the Slice takes every second row */
    {9, 0, 7, 0, 1, 2, "f32[1,2,n]", .expected = 9},  /* scores of two classes */
    {9, 0, 7, 0, 1, 2, "f32[b,1,n]", .expected = 9},  /* scores of several images */
    {9, 0, 7, 0, 1, 1, "f32[1,1,n]", .expected = 9},  /* takes class numbers, not numbers of boxes */
    {9, 0, 7, 0, 1, 2, "f32[1,1,n]", .seen = true, .expected = 9},
};

/* Makes the numbers of the selected boxes. Inputs are values of the graph b or of the graph around it. */
static void build_selection(onnx_build *b) {
  build_node(b, "NonMaxSuppression", "boxes,scores,limit,iou", "selected");
  build_int(b, build_node(b, "Gather", "selected,column", "taken"), "axis", 1);
  build_node(b, "Squeeze", "taken,one", "keep");
}

START_TEST(the_first_of_what_is_selected_limit_the_selection) {
  const limit_case *c = &limits[_i];
  onnx_build *b = build_open(13);
  build_input(b, "boxes", strchr(c->scores, 'b') ? "f32[b,n,4]" : "f32[1,n,4]");
  build_input(b, "scores", c->scores);
  build_input(b, "any", "bool[]");
  build_i64(b, "limit", "1", &c->limit);
  build_f32(b, "iou", "1", (float[]){0.5f});
  build_i64(b, "column", "1", &c->column);
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "none", "0", (int64_t[]){0});
  build_i64(b, "start", "1", &c->start);
  build_i64(b, "end", "1", &c->end);
  build_i64(b, "axis", "1", &c->axis);
  build_i64(b, "step", "1", &c->step);
  if (c->guarded) {
    onnx_build *empty = build_subgraph(b), *some = build_subgraph(b);
    build_node(empty, "Identity", "none", "nothing");
    build_output(empty, "nothing", "i64");
    build_selection(some);
    build_output(some, "keep", "i64");
    build_node_t *guard = build_node(b, "If", "any", "guarded");
    build_graph_attr(b, guard, "then_branch", empty);
    build_graph_attr(b, guard, "else_branch", some);
  } else {
    build_selection(b);
  }
  build_node(b, "Slice", c->guarded ? "guarded,start,end,axis,step" : "keep,start,end,axis,step", "y");
  build_output(b, "y", "i64");
  if (c->seen) build_output(b, "taken", "i64");
  front f;
  front_optimize(&f, &b);
  const ir_node *nms = front_node(&f, OP_NonMaxSuppression);
  ck_assert_int_eq(*(const int64_t *)nms->inputs[2]->data, c->expected);
  ck_assert_int_eq(front_changes(&f, "nms_limit"), c->expected != c->limit);
  front_fini(&f);
}
END_TEST

typedef enum guard {
  GUARD_AS_EXPORTED,
  GUARD_BY_SIZE,
  GUARD_OTHER_BOXES,  /* the condition asks about another tensor than that of the boxes */
  GUARD_OF_ONE,       /* the condition asks for one element, not for none */
  GUARD_TURNED,       /* the empty result is in the branch with boxes */
  GUARD_GIVES_ONE,    /* the branch without boxes gives a number */
  GUARD_LOOKS_AT_ONE, /* the branch needs a first box */
  GUARD_NEEDS_FIVE,   /* the branch needs five boxes */
  N_GUARDS
} guard;

static onnx_build *guarded_selection(guard g) {
  onnx_build *b = build_open(13), *empty = build_subgraph(b), *some = build_subgraph(b);
  build_input(b, "rows", "f32[n,4]");
  build_input(b, "others", "f32[m,4]");
  build_input(b, "weights", "f32[n]");
  build_i64(b, "limit", "1", (int64_t[]){10});
  build_f32(b, "iou", "1", (float[]){0.5f});
  build_f32(b, "shifts", "5,1", (float[]){0, 1, 2, 3, 4});
  build_i64(b, "column", "1", (int64_t[]){2});
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "compared", "", (int64_t[]){g == GUARD_OF_ONE});
  build_i64(b, "nothing", g == GUARD_GIVES_ONE ? "1" : "0", (int64_t[]){0});
  const char *asked = g == GUARD_OTHER_BOXES ? "others" : "rows";
  if (g == GUARD_BY_SIZE) {
    build_node(b, "Size", asked, "count");
  } else {
    build_node(b, "Shape", asked, "extents");
    build_int(b, build_node(b, "ReduceProd", "extents", "count"), "keepdims", 0);
  }
  build_node(b, "Equal", "count,compared", "is");
  build_int(b, build_node(b, "Cast", "is", "asks"), "to", 9);
  build_node(empty, "Identity", "nothing", "kept_none");
  build_output(empty, "kept_none", "i64");
  if (g == GUARD_LOOKS_AT_ONE) build_node(some, "Gather", "rows,zero", "shift");
  else build_int(some, build_node(some, "ReduceMax", "rows", "shift"), "keepdims", 0);
  build_node(some, "Add", g == GUARD_NEEDS_FIVE ? "rows,shifts" : "rows,shift", "moved");
  build_node(some, "Unsqueeze", "moved,zero", "boxes");
  build_node(some, "Unsqueeze", "weights,zero", "line");
  build_node(some, "Unsqueeze", "line,zero", "scores");
  build_selection(some);
  build_output(some, "keep", "i64");
  build_node_t *branch = build_node(b, "If", "asks", "y");
  build_graph_attr(b, branch, "then_branch", g == GUARD_TURNED ? some : empty);
  build_graph_attr(b, branch, "else_branch", g == GUARD_TURNED ? empty : some);
  build_output(b, "y", "i64");
  return b;
}

START_TEST(a_selection_needs_no_guard_against_having_no_boxes) {
  onnx_build *b = guarded_selection((guard)_i);
  front f;
  front_optimize(&f, &b);
  bool opens = _i <= GUARD_BY_SIZE;
  ck_assert_int_eq(front_count(&f, OP_If), !opens);
  ck_assert_int_eq(front_changes(&f, "nms_guard"), opens);
  ck_assert_int_eq(front_count(&f, OP_NonMaxSuppression), 1);
  front_fini(&f);
}
END_TEST

typedef enum classes {
  CLASSES_AS_EXPORTED,
  CLASSES_SLICED, /* the offsets pass through a Slice of everything, as some exporters write [:, None] */
  CLASSES_I32,
  CLASSES_CLIPPED,  /* coordinates are bounded by Clip */
  CLASSES_NEGATIVE, /* coordinates may be less than 0 */
  CLASSES_BY_HALF,  /* clipped at -0.5 */
  CLASSES_STEP,     /* offsets from the largest coordinate + 2, not + 1 */
  CLASSES_OTHERS,   /* offsets from the largest coordinate of another tensor */
  CLASSES_OF_AXIS,  /* offsets from the largest coordinate of each column */
  CLASSES_FLOAT,    /* classes are no integers */
  CLASSES_EACH,     /* an offset for each coordinate */
  CLASSES_CENTERS,  /* boxes are centres and sizes */
  N_CLASSES
} classes;

static onnx_build *moved_boxes(classes c) {
  onnx_build *b = build_open(13);
  build_input(b, "rows", "f32[n,4]");
  build_input(b, "others", "f32[n,4]");
  build_input(b, "weights", "f32[n]");
  build_input(b, "ids",
              c == CLASSES_FLOAT  ? "f32[n]"
              : c == CLASSES_EACH ? "i64[n,4]"
              : c == CLASSES_I32  ? "i32[n]"
                                  : "i64[n]");
  build_i64(b, "limit", "1", (int64_t[]){10});
  build_f32(b, "iou", "1", (float[]){0.5f});
  build_f32(b, "least", "", (float[]){c == CLASSES_BY_HALF ? -0.5f : 0});
  build_f32(b, "most", "", (float[]){500});
  build_f32(b, "gap", "", (float[]){c == CLASSES_STEP ? 2 : 1});
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "column", "1", (int64_t[]){2});
  build_i64(b, "end", "1", (int64_t[]){INT64_MAX});
  if (c == CLASSES_CLIPPED) build_node(b, "Clip", "rows,least,most", "boxes");
  else if (c == CLASSES_NEGATIVE) build_node(b, "Min", "rows,most", "boxes");
  else build_node(b, "Max", "rows,least", "above"), build_node(b, "Min", "above,most", "boxes");
  build_node_t *largest = build_node(b, "ReduceMax", c == CLASSES_OTHERS ? "others" : "boxes", "largest");
  if (c == CLASSES_OF_AXIS) build_ints(b, largest, "axes", "0");
  build_int(b, largest, "keepdims", c == CLASSES_OF_AXIS);
  build_node(b, "Add", "largest,gap", "step");
  build_int(b, build_node(b, "Cast", "ids", "classes"), "to", 1);
  if (c == CLASSES_OF_AXIS)
    build_node(b, "Unsqueeze", "classes,one", "column_of"), build_node(b, "Mul", "column_of,step", "by");
  else build_node(b, "Mul", "classes,step", "offsets");
  if (c == CLASSES_SLICED)
    build_node(b, "Slice", "offsets,zero,end,zero,one", "all"), build_node(b, "Unsqueeze", "all,one", "by");
  else if (c != CLASSES_OF_AXIS)
    build_node(b, c == CLASSES_EACH ? "Identity" : "Unsqueeze", c == CLASSES_EACH ? "offsets" : "offsets,one", "by");
  build_node(b, "Add", "boxes,by", "moved");
  build_node(b, "Unsqueeze", "moved,zero", "all_moved");
  build_node(b, "Unsqueeze", "weights,zero", "line");
  build_node(b, "Unsqueeze", "line,zero", "scores");
  build_node_t *nms = build_node(b, "NonMaxSuppression", "all_moved,scores,limit,iou", "selected");
  build_int(b, nms, "center_point_box", c == CLASSES_CENTERS);
  build_int(b, build_node(b, "Gather", "selected,column", "taken"), "axis", 1);
  build_node(b, "Squeeze", "taken,one", "keep");
  build_output(b, "keep", "i64");
  build_output(b, "boxes", "f32");
  return b;
}

START_TEST(boxes_moved_apart_by_class_become_classes) {
  onnx_build *b = moved_boxes((classes)_i);
  front f;
  front_optimize(&f, &b);
  const ir_node *nms = front_node(&f, OP_NonMaxSuppression);
  bool fires = _i <= CLASSES_CLIPPED;
  ck_assert_int_eq(front_changes(&f, "nms_classes"), fires);
  ck_assert_int_eq(nms->n_inputs, fires ? 6 : 4);
  ck_assert_int_eq(front_count(&f, OP_ReduceMax), !fires);
  if (fires) {
    ck_assert_ptr_null(nms->inputs[4]);
    ck_assert_str_eq(front_type(&f, nms->inputs[5]), "i64[1,n]");
    ck_assert_str_eq(front_type(&f, nms->inputs[0]), "f32[1,n,4]");
    ck_assert_ptr_eq(nms->inputs[0]->producer->inputs[0],
                     f.m->main->results[1]); /* the boxes before offsets were added */
  }
  front_fini(&f);
}
END_TEST

typedef enum filtered {
  FILTERED_AS_EXPORTED,
  FILTERED_SLICED,      /* only the first selected box */
  FILTERED_COUNTED,     /* the number of rows that the second filter keeps is read */
  FILTERED_UNBOUNDED,   /* the number of rows has no upper bound */
  FILTERED_BY_SUM,      /* the second mask depends on a row and on all kept rows before it */
  FILTERED_SEEN,        /* the second list of rows is an output */
  FILTERED_OTHERS,      /* the second list takes rows of another tensor, too */
  FILTERED_NUMBERS,     /* numbers of boxes, counted among the kept rows, are an output */
  FILTERED_OTHER_BOXES, /* the selection takes rows of another tensor */
  N_FILTERED
} filtered;

/* Takes the rows of `data` that `mask` keeps. All names end in k. */
static void build_filter(onnx_build *b, const char *mask, int k, const char *boxes, const char *scores) {
  char n[6][32], inputs[64];
#define NAME(slot, text) (snprintf(n[slot], sizeof n[slot], text "%d", k), n[slot])
#define INPUTS(...) (snprintf(inputs, sizeof inputs, __VA_ARGS__), inputs)
  build_node(b, "NonZero", mask, NAME(0, "found"));
  build_ints(b, build_node(b, "Transpose", n[0], NAME(1, "turned")), "perm", "1,0");
  build_node(b, "Squeeze", INPUTS("%s,one", n[1]), NAME(2, "kept"));
  build_node(b, "Gather", INPUTS("%s,%s", boxes, n[2]), NAME(3, "boxes"));
  build_node(b, "Gather", INPUTS("%s,%s", scores, n[2]), NAME(4, "scores"));
#undef NAME
#undef INPUTS
}

static onnx_build *filtered_selection(filtered c) {
  onnx_build *b = build_open(13);
  build_input(b, "rows", c == FILTERED_UNBOUNDED ? "f32[n,4]" : "f32[500,4]");
  build_input(b, "weights", c == FILTERED_UNBOUNDED ? "f32[n]" : "f32[500]");
  build_input(b, "others", "f32[m,4]");
  build_i64(b, "limit", "1", (int64_t[]){10});
  build_f32(b, "iou", "1", (float[]){0.5f});
  build_f32(b, "least", "", (float[]){0.05f});
  build_f32(b, "narrow", "", (float[]){0.01f});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "end", "1", (int64_t[]){5});
  build_i64(b, "column", "1", (int64_t[]){2});
  build_i64(b, "left", "", (int64_t[]){0});
  build_i64(b, "right", "", (int64_t[]){2});
  build_node(b, "Greater", "weights,least", "sure");
  build_filter(b, "sure", 1, "rows", "weights");
  build_int(b, build_node(b, "Gather", "boxes1,left", "x1"), "axis", 1);
  build_int(b, build_node(b, "Gather", "boxes1,right", "x2"), "axis", 1);
  build_node(b, "Sub", "x2,x1", "width");
  if (c == FILTERED_BY_SUM) build_node(b, "CumSum", "width,left", "sum");
  build_node(b, "GreaterOrEqual", c == FILTERED_BY_SUM ? "sum,narrow" : "width,narrow", "wide");
  build_filter(b, "wide", 2, "boxes1", "scores1");
  build_node(b, "Unsqueeze", "boxes2,zero", "all_boxes");
  build_node(b, "Unsqueeze", "scores2,zero", "line");
  build_node(b, "Unsqueeze", "line,zero", "all_scores");
  build_node(b, "NonMaxSuppression", "all_boxes,all_scores,limit,iou", "selected");
  build_int(b, build_node(b, "Gather", "selected,column", "taken"), "axis", 1);
  build_node(b, "Squeeze", "taken,one", c == FILTERED_SLICED ? "numbers" : "keep");
  if (c == FILTERED_SLICED) build_node(b, "Slice", "numbers,zero,end,zero,one", "keep");
  build_node(b, "Gather", "boxes2,keep", "y");
  build_node(b, "Gather", "scores2,keep", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  if (c == FILTERED_COUNTED) build_node(b, "Shape", "kept2", "count"), build_output(b, "count", "i64");
  if (c == FILTERED_SEEN) build_output(b, "kept2", "i64");
  if (c == FILTERED_OTHERS) build_node(b, "Gather", "others,kept2", "o"), build_output(b, "o", "f32");
  if (c == FILTERED_NUMBERS) build_output(b, "keep", "i64");
  if (c == FILTERED_OTHER_BOXES) build_node(b, "Gather", "others,keep", "o"), build_output(b, "o", "f32");
  return b;
}

START_TEST(filters_move_down_and_into_the_selection) {
  bool joined = _i <= FILTERED_COUNTED || _i >= FILTERED_NUMBERS, opened = _i <= FILTERED_COUNTED;
  onnx_build *b = filtered_selection((filtered)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "filter_chain"), joined);
  ck_assert_int_eq(front_changes(&f, "nms_filter"), opened);
  const ir_node *nms = front_node(&f, OP_NonMaxSuppression);
  ck_assert_int_eq(nms->n_inputs, opened ? 7 : 4);
  if (joined) ck_assert_int_eq(front_count(&f, OP_NonZero), _i == FILTERED_COUNTED || !opened);
  if (opened) {
    ck_assert_str_eq(front_type(&f, nms->inputs[6]), "bool[1,500]");
    ck_assert_ptr_eq(nms->inputs[0]->producer->inputs[0], f.m->main->params[0]);
    ck_assert_ptr_eq(f.m->main->results[0]->producer->inputs[0], f.m->main->params[0]); /* taken from all rows */
    ck_assert_ptr_eq(f.m->main->results[1]->producer->inputs[0], f.m->main->params[1]);
  }
  front_fini(&f);
}
END_TEST

typedef enum filling {
  FILLING_OF_KEPT,   /* a label for each kept row */
  FILLING_OF_MATRIX, /* three for each: the operator would read another tensor as large */
  FILLING_OF_INPUT,  /* the number of rows is no count */
  N_FILLINGS
} filling;

/* Counts are fetched: the labels take their number from the kept rows, without Shape and ConstantOfShape. */
START_TEST(labels_of_kept_rows_take_their_number_from_them) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_input(b, "table", "f32[n,3]");
  build_f32(b, "least", "", (float[]){0.5f});
  build_i64(b, "columns", "1", (int64_t[]){1});
  build_node(b, "Greater", "x,least", "mask");
  build_node(b, "NonZero", "mask", "places");
  build_node(b, "Squeeze", "places,none", "rows");
  build_i64(b, "none", "1", (int64_t[]){0});
  build_node(b, "Gather", _i == FILLING_OF_MATRIX ? "table,rows" : "x,rows", "kept");
  build_node(b, "Shape", _i == FILLING_OF_INPUT ? "x" : "kept", "extents");
  build_node(b, "ConstantOfShape", "extents", "labels");
  build_node(b, "Add", "labels,least", "y");
  build_output(b, "y", _i == FILLING_OF_MATRIX ? "f32[m,3]" : "f32[m]");
  build_output(b, "kept", _i == FILLING_OF_MATRIX ? "f32[m,3]" : "f32[m]");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "counted_shapes"), _i == FILLING_OF_KEPT);
  ck_assert_int_eq(front_count(&f, OP_Shape), _i != FILLING_OF_KEPT);
  ck_assert_int_eq(front_count(&f, OP_ConstantOfShape), _i != FILLING_OF_KEPT);
  front_fini(&f);
}
END_TEST

START_TEST(the_best_of_all_classes_are_one_selection) {
  onnx_build *b = candidates_open((candidates)_i);
  front f;
  front_optimize(&f, &b);
  const bool joined = _i < CANDIDATES_TAKEN;
  ck_assert_int_eq(front_changes(&f, "class_candidates"), joined);
  ck_assert_int_eq(front_count(&f, OP_NonMaxSuppression), joined);
  ck_assert_int_eq(front_count(&f, OP_NonZero), joined ? 0 : CANDIDATES_CLASSES);
  ck_assert_int_eq(front_count(&f, OP_TopK), joined ? 0 : CANDIDATES_CLASSES);
  if (joined) {
    const ir_node *nms = front_node(&f, OP_NonMaxSuppression);
    ck_assert_str_eq(front_type(&f, nms->inputs[1]), "f32[1,3,n]");
    if (_i == CANDIDATES_ANY_COLUMNS) ck_assert_int_eq(front_count(&f, OP_Slice), 0); /* it would take fewer classes */
    ck_assert_double_eq(front_element(nms->inputs[2], 0), CANDIDATES_LIMIT);
    ck_assert_double_eq(front_element(nms->inputs[4], 0), -1);
  }
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("selections");
  TCase *t = tcase_create("rewrites");
  tcase_add_loop_test(t, the_first_of_what_is_selected_limit_the_selection, 0, sizeof limits / sizeof *limits);
  tcase_add_loop_test(t, a_selection_needs_no_guard_against_having_no_boxes, 0, N_GUARDS);
  tcase_add_loop_test(t, boxes_moved_apart_by_class_become_classes, 0, N_CLASSES);
  tcase_add_loop_test(t, filters_move_down_and_into_the_selection, 0, N_FILTERED);
  tcase_add_loop_test(t, labels_of_kept_rows_take_their_number_from_them, 0, N_FILLINGS);
  tcase_add_loop_test(t, the_best_of_all_classes_are_one_selection, 0, N_CANDIDATES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
