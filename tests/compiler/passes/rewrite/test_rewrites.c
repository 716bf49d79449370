/* Rewrites of whole subgraphs: each fires on the real export (examples/shapes), and leaves near misses alone. */
#include "tests/compiler/passes/rewrite/appending.h"
#include "tests/compiler/passes/rewrite/choices.h"
#include "tests/compiler/passes/rewrite/columns.h"
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/heatmaps.h"

/* ---- roi_levels ---- */

/* The misses: what is not as the export has it. */
typedef enum miss {
  NONE,
  HALF_A_PYRAMID, /* levels are 1 and 2 */
  A_LEVEL_TWICE,  /* both parts are of level 0 */
  OTHER_LEVELS,   /* the second part looks at other levels */
  OTHER_ROWS,     /* gathered and scattered by different lists of rows */
  ADDED,          /* ScatterElements adds */
  ONTO_ONES,      /* regions without a level are 1 */
  OTHER_SAMPLING, /* the levels are sampled differently */
  OTHER_CORNERS,  /* columns in another order */
  SEEN,           /* the first part alone is an output */
  ALONG_CHANNELS, /* rows are scattered along another axis */
  N_MISSES
} miss;

/* Part k of a pyramid pool: scatters the regions of its level into `before`. All names end in k. */
static void build_level(onnx_build *b, int k, miss m, const char *before) {
  char n[8][32], inputs[96];
#define NAME(slot, text) (snprintf(n[slot], sizeof n[slot], text "%d", k), n[slot])
#define INPUTS(...) (snprintf(inputs, sizeof inputs, __VA_ARGS__), inputs)
  int64_t level = m == HALF_A_PYRAMID ? k + 1 : m == A_LEVEL_TWICE ? 0 : k;
  build_i64(b, NAME(0, "level"), "", &level);
  build_node(b, "Equal", INPUTS("%s,level%d", m == OTHER_LEVELS && k ? "levels2" : "levels", k), NAME(1, "is"));
  build_node(b, "NonZero", n[1], NAME(2, "found"));
  build_ints(b, build_node(b, "Transpose", n[2], NAME(3, "turned")), "perm", "1,0");
  build_node(b, "Squeeze", INPUTS("%s,one", n[3]), NAME(4, "rows"));
  build_node(b, "Gather", INPUTS("regions,%s", n[4]), NAME(5, "part"));
  build_int(b, build_node(b, "Gather", INPUTS("%s,first", n[5]), NAME(6, "image")), "axis", 1);
  build_node(b, "Squeeze", INPUTS("%s,one", n[6]), NAME(7, "flat"));
  build_int(b, build_node(b, "Cast", n[7], NAME(1, "batch")), "to", 7);
  build_int(b, build_node(b, "Gather", INPUTS("%s,%s", n[5], "corners"), NAME(6, "boxes")), "axis", 1);
  build_node_t *align = build_node(b, "RoiAlign", INPUTS("x%d,%s,batch%d", k, n[6], k), NAME(7, "aligned"));
  build_int(b, align, "output_height", 2);
  build_int(b, align, "output_width", 2);
  build_int(b, align, "sampling_ratio", m == OTHER_SAMPLING ? k + 1 : 2);
  build_float(b, align, "spatial_scale", k ? 0.25f : 0.5f);
  build_node(b, "Reshape", INPUTS("rows%d,column", m == OTHER_ROWS ? 0 : k), NAME(0, "index"));
  build_node(b, "Shape", n[7], NAME(1, "size"));
  build_node(b, "Expand", INPUTS("%s,%s", n[0], n[1]), NAME(2, "all"));
  build_node_t *scatter =
      build_node(b, "ScatterElements", INPUTS("%s,%s,%s", before, n[2], n[7]), NAME(3, "scattered"));
  build_int(b, scatter, "axis", m == ALONG_CHANNELS);
  if (m == ADDED) build_string(b, scatter, "reduction", "add");
#undef NAME
#undef INPUTS
}

static onnx_build *pyramid_pool(miss m) {
  onnx_build *b = build_open(16);
  build_input(b, "x0", "f32[1,3,h,w]");
  build_input(b, "x1", "f32[1,3,h1,w1]");
  build_input(b, "regions", "f32[n,5]");
  build_input(b, "levels", "i64[n]");
  build_input(b, "levels2", "i64[n]");
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "first", "1", (int64_t[]){0});
  build_i64(b, "corners", "4", m == OTHER_CORNERS ? (int64_t[]){2, 1, 4, 3} : (int64_t[]){1, 2, 3, 4});
  build_i64(b, "column", "4", (int64_t[]){-1, 1, 1, 1});
  build_i64(b, "pooled", "3", (int64_t[]){3, 2, 2});
  build_node(b, "Shape", "levels", "count");
  build_int(b, build_node(b, "Concat", "count,pooled", "shape"), "axis", 0);
  build_tensor_attr(b, build_node(b, "ConstantOfShape", "shape", "blank"), "value",
                    build_loose_tensor(b, REED_F32, "1", (float[]){m == ONTO_ONES}));
  build_level(b, 0, m, "blank");
  build_level(b, 1, m, "scattered0");
  build_output(b, "scattered1", "f32");
  if (m == SEEN) build_output(b, "scattered0", "f32");
  return b;
}

START_TEST(a_pyramid_pool_becomes_one_roi_align) {
  onnx_build *b = pyramid_pool(NONE);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 1);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign) + front_count(&f, OP_ScatterElements) + front_count(&f, OP_NonZero), 0);
  const ir_node *n = front_node(&f, OP_MultiLevelRoiAlign);
  ck_assert_str_eq(front_type(&f, n->outputs[0]), "f32[n,3,2,2]");
  ck_assert_int_eq(n->n_inputs, 5);
  ck_assert_str_eq(n->inputs[2]->name, "levels");
  ck_assert_str_eq(n->inputs[3]->name, "x0");
  ck_assert_str_eq(n->inputs[4]->name, "x1");
  reed_attrs attrs = ir_attrs(n);
  const reed_attr *scales = reed_attrs_find(&attrs, "spatial_scales");
  ck_assert_int_eq(scales->n, 2);
  ck_assert_double_eq(scales->floats[0], 0.5);
  ck_assert_double_eq(scales->floats[1], 0.25);
  ck_assert_int_eq(reed_attrs_int(&attrs, "sampling_ratio", -1), 2);
  ck_assert_int_eq(front_changes(&f, "roi_levels"), 3); /* one operator, two levels */
  front_fini(&f);
}
END_TEST

START_TEST(what_only_resembles_a_pyramid_pool_stays) {
  onnx_build *b = pyramid_pool((miss)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 0);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign), 2);
  ck_assert_int_eq(front_count(&f, OP_ScatterElements), 2);
  front_fini(&f);
}
END_TEST

/* ---- nms_limit ---- */

typedef struct limit_case {
  int64_t limit, start, end, axis, step,
      column; /* of NonMaxSuppression; of the Slice; what is taken of the selection */
  const char *scores;
  bool seen, guarded; /* the numbers are an output too; the whole is in a branch */
  int64_t expected;
} limit_case;

static const limit_case limits[] = {
    {INT64_MAX, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 7},
    {INT64_MAX, 0, 7, 0, 1, 2, "f32[1,1,n]", .guarded = true, .expected = 7},
    {9, 0, 7, -1, 1, 2, "f32[1,1,n]", .expected = 9}, /* the last axis, by a negative number: left alone */
    {9, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 7},
    {5, 0, 7, 0, 1, 2, "f32[1,1,n]", .expected = 5},  /* fewer as it is */
    {9, 1, 7, 0, 1, 2, "f32[1,1,n]", .expected = 9},  /* not from the first on */
    {9, 0, -1, 0, 1, 2, "f32[1,1,n]", .expected = 9}, /* all but the last */
    {9, 0, 7, 0, 2, 2, "f32[1,1,n]", .expected = 9},  /* every second */
    {9, 0, 7, 0, 1, 2, "f32[1,2,n]", .expected = 9},  /* classes */
    {9, 0, 7, 0, 1, 2, "f32[b,1,n]", .expected = 9},  /* images */
    {9, 0, 7, 0, 1, 1, "f32[1,1,n]", .expected = 9},  /* class numbers */
    {9, 0, 7, 0, 1, 2, "f32[1,1,n]", .seen = true, .expected = 9},
};

/* The selection's numbers, from values of the graph around or of this one. */
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

/* ---- nms_guard ---- */

typedef enum guard {
  GUARD_AS_EXPORTED,
  GUARD_BY_SIZE,
  GUARD_OTHER_BOXES,  /* asks about others than are selected from */
  GUARD_OF_ONE,       /* asks whether there is one element */
  GUARD_TURNED,       /* nothing is given where there are boxes */
  GUARD_GIVES_ONE,    /* a number is given where there are no boxes */
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

/* ---- nms_classes ---- */

typedef enum classes {
  CLASSES_AS_EXPORTED,
  CLASSES_SLICED, /* the offsets pass through a Slice of everything, as some exporters write [:, None] */
  CLASSES_I32,
  CLASSES_CLIPPED,  /* by Clip */
  CLASSES_NEGATIVE, /* coordinates may be less than 0 */
  CLASSES_BY_HALF,  /* clipped at -0.5 */
  CLASSES_STEP,     /* the largest coordinate + 2 */
  CLASSES_OTHERS,   /* the largest coordinate of other boxes */
  CLASSES_OF_AXIS,  /* the largest coordinate of each column */
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
    ck_assert_ptr_eq(nms->inputs[0]->producer->inputs[0], f.m->main->results[1]); /* the boxes as they were */
  }
  front_fini(&f);
}
END_TEST

/* ---- filter_chain, nms_filter ---- */

typedef enum filtered {
  FILTERED_AS_EXPORTED,
  FILTERED_SLICED,      /* the first of what is selected */
  FILTERED_COUNTED,     /* how many the second filter keeps is asked */
  FILTERED_UNBOUNDED,   /* of any number of rows */
  FILTERED_BY_SUM,      /* the second mask looks at a row and all kept ones before it */
  FILTERED_SEEN,        /* the second list of rows is an output */
  FILTERED_OTHERS,      /* the second list takes rows of something else too */
  FILTERED_NUMBERS,     /* numbers of boxes among the kept ones are an output */
  FILTERED_OTHER_BOXES, /* what is selected takes rows of something else */
  N_FILTERED
} filtered;

/* Takes rows of `data` by what is found in `mask`. All names end in k. */
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

/* ---- accumulate ---- */

START_TEST(a_loop_that_appends_gives_its_parts_as_a_scan_output) {
  bool taken = _i < APPENDING_TAKEN;
  onnx_build *b = appending_loop((appending)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "accumulate"), taken);
  const ir_node *n = front_node(&f, OP_Loop);
  ck_assert_int_eq(n->n_inputs, taken ? 2 : 3);
  ck_assert_int_eq(n->regions[0]->n_params, taken ? 2 : 3);
  ck_assert_int_eq(n->regions[0]->n_results, 2);
  static const char *const types[] = {"f32[n,3]", "f32[n*2,3]", "f32[n*2,3]", "f32[n,n]"};
  const ir_value *result = f.m->main->results[0];
  if (_i == APPENDING_GROWING)
    ck_assert(result->type.rank == 2 && symbol_is(result->type.dims[0]) && result->type.dims[1] == 3);
  else if (taken) ck_assert_str_eq(front_type(&f, result), types[_i]);
  front_fini(&f);
}
END_TEST

/* ---- keypoints ---- */

START_TEST(a_loop_that_reads_points_off_maps_becomes_one_operator) {
  bool taken = _i < HEATMAPS_TAKEN;
  onnx_build *b = heatmaps_loop((heatmaps)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "keypoints"), taken);
  ck_assert_int_eq(front_count(&f, OP_Keypoints), taken);
  ck_assert_int_eq(front_count(&f, OP_Loop), !taken);
  if (taken) {
    const ir_node *n = front_node(&f, OP_Keypoints);
    ck_assert_str_eq(front_type(&f, n->outputs[0]), "f32[n,3,3]");
    ck_assert_str_eq(front_type(&f, n->outputs[1]), "f32[n,3]");
    ck_assert_str_eq(n->inputs[1]->name, "left");
    ck_assert_str_eq(n->inputs[2]->name, "top");
    ck_assert_str_eq(n->inputs[5]->name, "columns");
    reed_attrs attrs = ir_attrs(n); /* the maps are read as the convolution stores them */
    ck_assert_int_eq(reed_attrs_int(&attrs, "channels_last", 0), 1);
    ck_assert_int_eq(front_count(&f, OP_Transpose), 0);
  }
  front_fini(&f);
}
END_TEST

/* ---- chosen_class ---- */

START_TEST(maps_of_all_classes_become_maps_of_the_chosen_ones) {
  bool taken = _i < CHOICE_TAKEN;
  onnx_build *b = choice_open((choice)_i);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "chosen_class"), taken);
  ck_assert_int_eq(front_count(&f, OP_Conv), taken ? 1 : 2);
  ck_assert_int_eq(front_count(&f, OP_MatMul), taken);
  if (taken) {
    ck_assert_int_eq(front_count(&f, OP_Transpose),
                     0); /* the features are read as the convolution before stores them */
    ck_assert_str_eq(front_type(&f, f.m->main->results[0]), _i == CHOICE_OF_PLANES ? "f32[n,6,8]" : "f32[n,48]");
  }
  front_fini(&f);
}
END_TEST

/* ---- the example model ---- */

static void read_example(front *f) {
  char path[1024];
  const char *folder = getenv("REED_EXAMPLES");
  ck_assert_ptr_nonnull(folder);
  snprintf(path, sizeof path, "%s/shapes.onnx", folder);
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  fseek(file, 0, SEEK_END);
  size_t n = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(n);
  ck_assert_int_eq(fread(bytes, 1, n, file), n);
  fclose(file);
  front_read_bytes(f, bytes, n, NULL);
  front_ok(f);
  f->bytes = bytes;
}

START_TEST(both_pools_of_the_example_become_one_roi_align_each) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 2);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign) + front_count(&f, OP_ScatterElements), 0);
  ck_assert_int_eq(front_changes(&f, "roi_levels"), 2 + 8);
  front_fini(&f);
}
END_TEST

static reed_status note_limit(void *context, ir_node *n) {
  int64_t **next = context;
  if (n->op == op_builtin(OP_NonMaxSuppression)) *(*next)++ = *(const int64_t *)n->inputs[2]->data;
  return REED_OK;
}

START_TEST(both_selections_of_the_example_lose_their_guards) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "nms_guard"), 2);
  ck_assert_ptr_eq(front_node(&f, OP_NonMaxSuppression)->graph, f.m->main);
  front_fini(&f);
}
END_TEST

START_TEST(both_selections_of_the_example_know_classes) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "nms_classes"), 2); /* levels of the pyramid, classes of things */
  ck_assert_ptr_nonnull(front_node(&f, OP_NonMaxSuppression)->inputs[5]);
  front_fini(&f);
}
END_TEST

START_TEST(the_example_finds_no_rows) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "filter_chain"), 2);
  ck_assert_int_eq(front_changes(&f, "nms_filter"), 2);
  ck_assert_int_eq(front_count(&f, OP_NonZero), 0);
  front_fini(&f);
}
END_TEST

START_TEST(both_selections_of_the_example_are_limited) {
  int64_t found[2], *next = found;
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_NonMaxSuppression), 2);
  ck_assert_int_eq(ir_walk(f.m->main, true, note_limit, &next), REED_OK);
  ck_assert_int_eq(found[0], 300);
  ck_assert_int_eq(found[1], 50);
  front_fini(&f);
}
END_TEST

/* ---- paste_masks: the example's loop, and what is damaged of it ---- */

/* Node k of an operator in the loop: an attribute, an operand or the operator is another. */
typedef struct damage {
  op_id op;
  int k;
  op_id becomes;
  const char *attr, *text; /* text NULL: number */
  int operand;             /* is the constant {number} */
  int64_t number;
} damage;

#define BECOMES(from, k, to) \
  { OP_##from, k, .becomes = OP_##to }
#define ATTR(from, k, name, x) \
  { OP_##from, k, OP_##from, .attr = name, .number = (x) }
#define OPERAND(from, k, i, x) \
  { OP_##from, k, OP_##from, .operand = (i), .number = (x) }
static const damage damages[] = {
    ATTR(Resize, 0, "antialias", 1),
    {OP_Resize, 0, OP_Resize, .attr = "mode", .text = "nearest"},
    BECOMES(ReduceMax, 0, ReduceMin),
    BECOMES(ReduceMax, 2, ReduceMin),
    BECOMES(ReduceMin, 1, ReduceMax),
    BECOMES(Sub, 0, Add),
    OPERAND(Add, 0, 1, 2),    /* the last pixel's next but one */
    OPERAND(Gather, 3, 1, 3), /* another corner */
    OPERAND(Slice, 2, 1, 1),  /* all but the first row */
    ATTR(Concat, 0, "axis", -1),
};

typedef struct hunt {
  const damage *d;
  int next;
} hunt;

static reed_status hurt(void *context, ir_node *n) {
  hunt *h = context;
  const damage *d = h->d;
  if (!n->graph->parent || n->graph->parent->op != op_builtin(OP_Loop) || n->op != op_builtin(d->op) ||
      h->next++ != d->k)
    return REED_OK;
  n->op = op_builtin(d->becomes);
  if (d->text) ir_set_attr_string(n, d->attr, d->text);
  else if (d->attr) ir_set_attr_int(n, d->attr, d->number);
  else if (d->becomes == d->op)
    n->inputs[d->operand] =
        ir_constant(n->graph->module, &(reed_desc){.dtype = REED_I64, .rank = d->op != OP_Gather, .dims = {1}},
                    &d->number, false, NULL);
  return REED_OK;
}

START_TEST(the_loop_of_the_example_that_pastes_masks_becomes_one_operator) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "paste_masks"), 1);
  ck_assert_int_eq(front_count(&f, OP_Loop), 0);
  const ir_node *paste = front_node(&f, OP_PasteMasks);
  reed_attrs attrs = ir_attrs(paste);
  ck_assert_str_eq(reed_attrs_string(&attrs, "coordinate_transformation_mode", ""), "half_pixel");
  ck_assert_int_eq(paste->n_inputs, 4);
  const ir_type *t = &paste->outputs[0]->type;
  ck_assert_int_eq(t->rank, 3);
  ck_assert(symbols_equal(f.m->symbols, t->dims[1],
                          f.m->main->params[0]->type.dims[1])); /* the picture's own height and width */
  ck_assert(symbols_equal(f.m->symbols, t->dims[2], f.m->main->params[0]->type.dims[2]));
  front_fini(&f);
}
END_TEST

START_TEST(a_loop_that_only_resembles_mask_pasting_stays) {
  front f;
  read_example(&f);
  f.run = (pass_run){.m = f.m};
  for (int i = 0; i < pass_count; i++)
    f.run.totals[i].disabled = !pass_table[i].required && strcmp(pass_table[i].name, "cse") != 0;
  ck_assert_int_eq(pass_run_all(&f.run), REED_OK);
  hunt h = {.d = &damages[_i]};
  ck_assert_int_eq(ir_walk(f.m->main, true, hurt, &h), REED_OK);
  ck_assert_int_gt(h.next, h.d->k);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "paste_masks"), 0);
  ck_assert_int_eq(front_count(&f, OP_PasteMasks), 0);
  front_fini(&f);
}
END_TEST

START_TEST(rewrites_can_be_left_out) {
  front f;
  read_example(&f);
  front_passes(&f, "roi_levels");
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign), 8);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 0);
  front_fini(&f);
}
END_TEST

START_TEST(columns_taken_one_by_one_become_rows) {
  const struct column_case *c = &column_cases[_i];
  front f;
  onnx_build *b = picture_open(&c->p);
  front_optimize(&f, &b);
  ck_assert_msg(front_changes(&f, "gathered_columns") == c->turned, "%s: %lld", c->p.what,
                (long long)front_changes(&f, "gathered_columns"));
  ck_assert_int_eq(front_count(&f, OP_Transpose), c->turned > 0);
  if (c->turned) {
    const ir_node *gather = front_node(&f, OP_Gather);
    reed_attrs attrs = ir_attrs(gather);
    ck_assert_ptr_eq(gather->inputs[0], front_node(&f, OP_Transpose)->outputs[0]);
    ck_assert_int_eq(reed_attrs_int(&attrs, "axis", -1), 0);
  }
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rewrites");
  TCase *t = tcase_create("rewrites");
  tcase_add_test(t, a_pyramid_pool_becomes_one_roi_align);
  tcase_add_loop_test(t, what_only_resembles_a_pyramid_pool_stays, NONE + 1, N_MISSES);
  tcase_add_test(t, both_pools_of_the_example_become_one_roi_align_each);
  tcase_add_loop_test(t, the_first_of_what_is_selected_limit_the_selection, 0, sizeof limits / sizeof *limits);
  tcase_add_loop_test(t, a_selection_needs_no_guard_against_having_no_boxes, 0, N_GUARDS);
  tcase_add_test(t, both_selections_of_the_example_lose_their_guards);
  tcase_add_loop_test(t, boxes_moved_apart_by_class_become_classes, 0, N_CLASSES);
  tcase_add_test(t, both_selections_of_the_example_know_classes);
  tcase_add_loop_test(t, a_loop_that_appends_gives_its_parts_as_a_scan_output, 0, N_APPENDING);
  tcase_add_loop_test(t, a_loop_that_reads_points_off_maps_becomes_one_operator, 0, N_HEATMAPS);
  tcase_add_loop_test(t, maps_of_all_classes_become_maps_of_the_chosen_ones, 0, N_CHOICES);
  tcase_add_loop_test(t, columns_taken_one_by_one_become_rows, 0, N_COLUMN_CASES);
  tcase_add_loop_test(t, filters_move_down_and_into_the_selection, 0, N_FILTERED);
  tcase_add_test(t, the_example_finds_no_rows);
  tcase_add_test(t, both_selections_of_the_example_are_limited);
  tcase_add_test(t, the_loop_of_the_example_that_pastes_masks_becomes_one_operator);
  tcase_add_loop_test(t, a_loop_that_only_resembles_mask_pasting_stays, 0, sizeof damages / sizeof *damages);
  tcase_add_test(t, rewrites_can_be_left_out);
  suite_add_tcase(suite, t);
  return front_run(suite);
}
