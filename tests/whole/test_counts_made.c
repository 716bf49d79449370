/* Counts that follow from other counts: the first or the largest rows of a counted tensor, rows joined with others,
 * boxes that a second NonMaxSuppression selects among counted ones, rows of counted tensors at counted places, and
 * shapes read from counted tensors. The bits are those of the run that fetches every count, on the host, on sim and on
 * the emulated GPU.
 */
#include <check.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/counts.h"

static void slice(onnx_build *b, const char *from, int64_t start, int64_t end, int64_t step, const char *to) {
  char names[96], inputs[192];
  snprintf(names, sizeof names, "%s_start", to);
  build_i64(b, names, "1", &start);
  snprintf(names, sizeof names, "%s_end", to);
  build_i64(b, names, "1", &end);
  snprintf(names, sizeof names, "%s_axis", to);
  build_i64(b, names, "1", (int64_t[]){0});
  snprintf(names, sizeof names, "%s_step", to);
  build_i64(b, names, "1", &step);
  snprintf(inputs, sizeof inputs, "%s,%s_start,%s_end,%s_axis,%s_step", from, to, to, to, to);
  build_node(b, "Slice", inputs, to);
}

static void cut_parts(onnx_build *b, int64_t start, int64_t end, int64_t step) {
  slice(b, "parts", start, end, step, "cut");
  build_node(b, "Exp", "cut", "y");
}

static void add_first(onnx_build *b) { cut_parts(b, 0, 4, 1); }
static void add_none(onnx_build *b) { cut_parts(b, 0, 0, 1); }
static void add_all(onnx_build *b) { cut_parts(b, 0, INT64_MAX, 1); }
static void add_but_last(onnx_build *b) { cut_parts(b, 0, -1, 1); }
static void add_every_second(onnx_build *b) { cut_parts(b, 1, 7, 2); }

static void add_late_start(onnx_build *b) {
  slice(b, "parts", 5, 900, 1, "cut");
  slice(b, "cut", 1, 3, 1, "again");
  build_node(b, "Exp", "again", "y");
}

/* Columns of counted rows, computed with and joined. joined: rows [3 n, 4] of the n parts [3, 4]. */
static void columns_of(onnx_build *b, bool joined) {
  if (joined) join_rows(b, "parts", 4, "lines");
  const int64_t axis = joined ? 1 : 2;
  build_i64(b, "last_axis", "1", &axis);
  for (int64_t i = 0; i < 3; i++) {
    char inputs[32], place[8], column[8];
    snprintf(place, sizeof place, "i%d", (int)i);
    snprintf(column, sizeof column, "c%d", (int)i);
    snprintf(inputs, sizeof inputs, "%s,%s", joined ? "lines" : "parts", place);
    build_i64(b, place, "", &i);
    build_int(b, build_node(b, "Gather", inputs, column), "axis", axis);
  }
  build_node(b, "Sub", "c1,c0", "width");
  build_node(b, "Mul", "width,c2", "area");
  build_node(b, "Unsqueeze", "width,last_axis", "u0");
  build_node(b, "Unsqueeze", "area,last_axis", "u1");
  build_int(b, build_node(b, "Concat", "u0,u1", "y"), "axis", axis);
}

static void add_columns(onnx_build *b) { columns_of(b, false); }
static void add_columns_joined(onnx_build *b) { columns_of(b, true); }

/* Both operands have the same count, made by one Slice. */
static void add_used_twice(onnx_build *b) {
  slice(b, "parts", 0, 5, 1, "cut");
  build_node(b, "Exp", "cut", "left");
  build_node(b, "Mul", "cut,left", "y");
}

/* Two counts that are equal, because two cuts of one count are alike. */
static void add_two_cuts(onnx_build *b) {
  slice(b, "parts", 0, 5, 1, "cut");
  build_node(b, "Neg", "parts", "negative");
  slice(b, "negative", 0, 5, 1, "other");
  build_node(b, "Add", "cut,other", "y");
}

static void add_joined(onnx_build *b) {
  join_rows(b, "parts", 4, "flat");
  build_node(b, "Neg", "parts", "negative");
  join_rows(b, "negative", 4, "other");
  build_node(b, "Exp", "flat", "powers");
  build_node(b, "Sub", "powers,other", "y");
}

static void add_joined_and_cut(onnx_build *b) {
  join_rows(b, "parts", 2, "flat");
  slice(b, "flat", 1, 14, 3, "cut");
  build_node(b, "Exp", "cut", "y");
}

static void add_joined_twice(onnx_build *b) {
  join_rows(b, "parts", 4, "flat");
  join_rows(b, "flat", 0, "flatter");
  build_node(b, "Exp", "flatter", "y");
}

/* Of the joined rows those at counted places: two counts in one Gather. */
static void add_rows_of_rows(onnx_build *b) {
  join_rows(b, "parts", 4, "flat");
  slice(b, "ids", 0, 3, 1, "few");
  build_node(b, "Mul", "few,column", "firsts");
  build_node(b, "Gather", "flat,firsts", "taken");
  build_node(b, "Exp", "taken", "y");
}

static void add_zeros_like(onnx_build *b) {
  build_node(b, "Shape", "parts", "extents");
  build_node(b, "ConstantOfShape", "extents", "zeros");
  build_node(b, "Exp", "zeros", "ones");
  build_node(b, "Add", "ones,parts", "y");
}

static void add_expand(onnx_build *b) {
  build_f32(b, "labels", "3,1", (float[]){1, -2, 3});
  build_node(b, "Shape", "parts", "extents");
  build_node(b, "Expand", "labels,extents", "wide");
  build_node(b, "Mul", "wide,parts", "y");
}

/* [n,3,4] -> [n,12], the shape made of Shape. */
static void add_reshape_by_shape(onnx_build *b) {
  build_i64(b, "first", "1", (int64_t[]){0});
  build_i64(b, "rest", "1", (int64_t[]){-1});
  build_node(b, "Shape", "parts", "extents");
  build_node(b, "Gather", "extents,first", "n");
  build_int(b, build_node(b, "Concat", "n,rest", "lines"), "axis", 0);
  build_node(b, "Reshape", "parts,lines", "flat");
  build_node(b, "Exp", "flat", "y");
}

static void add_split(onnx_build *b) {
  build_i64(b, "sizes", "2", (int64_t[]){1, 3});
  build_int(b, build_node(b, "Split", "parts,sizes", "head,tail"), "axis", 2);
  build_int(b, build_node(b, "Softmax", "tail", "soft"), "axis", 2);
  build_node(b, "Mul", "head,soft", "y");
}

static void add_pad(onnx_build *b) {
  build_i64(b, "pads", "6", (int64_t[]){0, 1, 0, 0, 2, 1});
  build_node(b, "Pad", "parts,pads", "padded");
  build_node(b, "Exp", "padded", "y");
}

static void add_pad_rows(onnx_build *b) {
  build_i64(b, "pads", "6", (int64_t[]){1, 0, 0, 0, 0, 0});
  build_node(b, "Pad", "parts,pads", "y");
}

/* Places of elements of counted rows: the count stands first and between other axes. */
static void places(onnx_build *b, const char *of) {
  char inputs[64];
  snprintf(inputs, sizeof inputs, "%s,nothing", of);
  build_node(b, "Greater", inputs, "large");
  build_node(b, "NonZero", "large", "places_large");
  build_int(b, build_node(b, "Cast", "places_large", "y"), "to", 1);
}

static void add_places(onnx_build *b) { places(b, "parts"); }

static void add_places_turned(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  places(b, "turned");
}

/* Rows of two counts, then rows of none, joined; and used with the sum of the counts. */
static void add_rows_behind_rows(onnx_build *b) {
  static const float three[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  build_f32(b, "more", "1,3,4", three);
  slice(b, "parts", 0, 5, 1, "cut");
  build_int(b, build_node(b, "Concat", "more,parts,cut,more", "joined"), "axis", 0);
  build_node(b, "Exp", "joined", "y");
}

/* The same rows twice, and a list of all their places, which follows the sum. */
static void add_rows_twice(onnx_build *b) {
  build_int(b, build_node(b, "Concat", "parts,parts", "joined"), "axis", 0);
  places(b, "joined");
}

/* The first of the joined rows. */
static void add_rows_joined_and_cut(onnx_build *b) {
  build_node(b, "Exp", "parts", "powers");
  build_int(b, build_node(b, "Concat", "powers,parts", "joined"), "axis", -3);
  slice(b, "joined", 2, 9, 1, "y");
}

/* A part without a count between two counted ones. */
static void add_rows_around_rows(onnx_build *b) {
  static const float three[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  build_f32(b, "more", "1,3,4", three);
  slice(b, "parts", 1, 4, 1, "cut");
  build_int(b, build_node(b, "Concat", "parts,more,cut", "joined"), "axis", 0);
  build_node(b, "Exp", "joined", "y");
}

/* Rows of joined rows, at the places of joined places. */
static void add_rows_of_joined_rows(onnx_build *b) {
  build_node(b, "Neg", "parts", "negative");
  build_int(b, build_node(b, "Concat", "parts,negative", "joined"), "axis", 0);
  build_i64(b, "nobody", "", (int64_t[]){0});
  build_node(b, "Mul", "ids,nobody", "firsts");
  slice(b, "firsts", 0, 3, 1, "few");
  build_int(b, build_node(b, "Concat", "few,firsts", "chosen"), "axis", 0);
  build_node(b, "Gather", "joined,chosen", "taken");
  build_node(b, "Exp", "taken", "y");
}

/* ---- TopK of the least of a number and the count ---- */

/* `first` of the rows of `from`, as the exporter of PyTorch writes it: Shape, Gather, Unsqueeze, Concat, ReduceMin. */
static void least_exported(onnx_build *b, const char *from, int64_t first, const char *to) {
  build_i64(b, "row_axis", "", (int64_t[]){0});
  build_i64(b, "at_0", "1", (int64_t[]){0});
  build_i64(b, "at_end", "1", (int64_t[]){-1});
  build_i64(b, "limit", "1", &first);
  build_node(b, "Shape", from, "of_rows");
  build_node(b, "Gather", "of_rows,row_axis", "n_rows");
  build_node(b, "Unsqueeze", "n_rows,at_0", "n_listed");
  build_int(b, build_node(b, "Concat", "limit,n_listed", "both"), "axis", 0);
  build_int(b, build_node(b, "ReduceMin", "both", "least_one"), "keepdims", 0);
  build_node(b, "Reshape", "least_one,at_end", to);
}

/* The same by Min of two vectors of one element. */
static void least_plain(onnx_build *b, const char *from, int64_t first, const char *to) {
  build_i64(b, "limit", "1", &first);
  build_node_t *n = build_node(b, "Shape", from, "n_rows");
  build_int(b, n, "start", 0);
  build_int(b, n, "end", 1);
  build_node(b, "Min", "n_rows,limit", to);
}

/* The largest rows of each column, and their places. */
static void add_largest(onnx_build *b) {
  least_exported(b, "parts", 4, "k");
  build_int(b, build_node(b, "TopK", "parts,k", "largest,where"), "axis", 0);
  build_int(b, build_node(b, "Cast", "where", "numbers"), "to", 1);
  build_node(b, "Add", "largest,numbers", "y");
}

static void add_smallest(onnx_build *b) {
  least_plain(b, "parts", 6, "k");
  build_node_t *n = build_node(b, "TopK", "parts,k", "smallest,where");
  build_int(b, n, "axis", 0);
  build_int(b, n, "largest", 0);
  build_node(b, "Exp", "smallest", "y");
}

/* All rows, sorted: k is the count. Only the places are used. */
static void add_sorted(onnx_build *b) {
  build_node_t *n = build_node(b, "Shape", "parts", "k");
  build_int(b, n, "start", 0);
  build_int(b, n, "end", 1);
  build_int(b, build_node(b, "TopK", "parts,k", "sorted,where"), "axis", 0);
  build_int(b, build_node(b, "Cast", "where", "y"), "to", 1);
}

/* The best rows by a score, joined with those of another limit, and the best of these. */
static void add_best_of_best(onnx_build *b) {
  build_i64(b, "two", "1", (int64_t[]){2});
  build_int(b, build_node(b, "Gather", "parts,column", "firsts"), "axis", 2);
  build_int(b, build_node(b, "Gather", "firsts,column", "scores"), "axis", 1);
  least_plain(b, "scores", 5, "k");
  build_node(b, "TopK", "scores,k", "best,where");
  build_node(b, "Gather", "parts,where", "rows");
  build_node(b, "Min", "n_rows,two", "fewer");
  build_node(b, "TopK", "scores,fewer", "very_best,very_where");
  build_node(b, "Gather", "parts,very_where", "few_rows");
  build_int(b, build_node(b, "Concat", "rows,few_rows", "rows_all"), "axis", 0);
  build_node(b, "Exp", "rows_all", "y");
}

/* TopK of joined rows, whose k is the least of their number and a limit. */
static void add_largest_of_joined(onnx_build *b) {
  build_node(b, "Neg", "parts", "negative");
  build_int(b, build_node(b, "Concat", "parts,negative", "joined"), "axis", 0);
  least_plain(b, "joined", 7, "k");
  build_int(b, build_node(b, "TopK", "joined,k", "y,where"), "axis", 0);
}

/* The largest two of a later axis: the rows keep their count. */
static void add_largest_columns(onnx_build *b) {
  build_i64(b, "k", "1", (int64_t[]){2});
  build_node(b, "TopK", "parts,k", "largest,where");
  build_int(b, build_node(b, "Cast", "where", "numbers"), "to", 1);
  build_node(b, "Mul", "largest,numbers", "y");
}

/* The count stands behind an extent above 1. */
static void add_largest_turned(onnx_build *b) {
  least_plain(b, "parts", 4, "k");
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_int(b, build_node(b, "TopK", "turned,k", "y,where"), "axis", 1);
}

/* The first of min(n, 4) rows. */
static void add_first_counted(onnx_build *b) {
  build_i64(b, "from_0", "1", (int64_t[]){0});
  least_exported(b, "parts", 4, "k");
  build_node(b, "Slice", "parts,from_0,k,from_0", "cut");
  build_node(b, "Exp", "cut", "y");
}

static void add_slice_from_end(onnx_build *b) { slice(b, "parts", -3, 100, 1, "y"); }

/* ---- operators whose kernels leave beyond the count ---- */

static void add_trilu(onnx_build *b) { build_node(b, "Trilu", "parts", "y"); }

static void add_prelu(onnx_build *b) {
  build_f32(b, "slope", "3,1", (float[]){0.5f, -2, 3});
  build_node(b, "PRelu", "parts,slope", "y");
}

/* The places of the largest elements of each line, [n,3,1]. */
static void add_places_of_largest(onnx_build *b) { build_int(b, build_node(b, "ArgMax", "parts", "at"), "axis", 2); }

static void add_one_hot(onnx_build *b) {
  add_places_of_largest(b);
  build_i64(b, "depth", "", (int64_t[]){4});
  build_f32(b, "off_on", "2", (float[]){-1, 2});
  build_node(b, "OneHot", "at,depth,off_on", "y");
}

/* The depth stands before the counted axis. */
static void add_one_hot_first(onnx_build *b) {
  add_places_of_largest(b);
  build_i64(b, "depth", "", (int64_t[]){4});
  build_f32(b, "off_on", "2", (float[]){-1, 2});
  build_int(b, build_node(b, "OneHot", "at,depth,off_on", "y"), "axis", 0);
}

static void add_gather_elements(onnx_build *b) {
  add_places_of_largest(b);
  build_int(b, build_node(b, "GatherElements", "parts,at", "y"), "axis", -1);
}

/* Indices along the counted axis itself. */
static void add_gather_elements_of_table(onnx_build *b) {
  add_places_of_largest(b);
  build_int(b, build_node(b, "GatherElements", "table,at", "y"), "axis", 0);
}

static void add_lengths(onnx_build *b) {
  join_rows(b, "parts", 12, "lines");
  build_node_t *largest = build_node(b, "ArgMax", "lines", "long");
  build_int(b, largest, "axis", 1);
  build_int(b, largest, "keepdims", 0);
  build_i64(b, "three", "", (int64_t[]){3});
  build_node(b, "Min", "long,three", "lengths");
}

static void add_reverse(onnx_build *b) {
  add_lengths(b);
  build_node_t *reverse = build_node(b, "ReverseSequence", "parts,lengths", "y");
  build_int(b, reverse, "batch_axis", 0);
  build_int(b, reverse, "time_axis", 1);
}

/* The counted axis is that of the steps, and the batch has lengths of its own. */
static void add_reverse_steps(onnx_build *b) {
  build_i64(b, "lengths", "3", (int64_t[]){0, 0, 0});
  build_node(b, "ReverseSequence", "parts,lengths", "y");
}

static const struct {
  const char *name;
  void (*add)(onnx_build *b);
  int more; /* of expect_at_bound */
} cases[] = {
    {"the first rows", add_first, 2},
    {"no rows", add_none, -1},
    {"all rows", add_all, -1},
    {"all but the last row", add_but_last, 2},
    {"every second row", add_every_second, 2},
    {"rows from a later one on", add_late_start, 3},
    {"a cut used twice", add_used_twice, -1},
    {"two cuts", add_two_cuts, 4},
    {"rows joined with others", add_joined, -1},
    {"joined rows, cut", add_joined_and_cut, 3},
    {"rows joined twice", add_joined_twice, -1},
    {"columns", add_columns, -1},
    {"columns of joined rows", add_columns_joined, -1},
    {"rows of rows", add_rows_of_rows, -1},
    {"zeros of a tensor's extents", add_zeros_like, -1},
    {"Expand to a tensor's extents", add_expand, -1},
    {"Reshape by a shape", add_reshape_by_shape, 2},
    {"Split of later axes", add_split, 3},
    {"Pad of later axes", add_pad, 2},
    {"places in counted rows", add_places, 3},
    {"places in turned counted rows", add_places_turned, 4},
    {"rows behind rows", add_rows_behind_rows, 3},
    {"rows twice", add_rows_twice, 4},
    {"joined rows, the first", add_rows_joined_and_cut, 3},
    {"rows around rows", add_rows_around_rows, 3},
    {"rows of joined rows", add_rows_of_joined_rows, 7},
    {"the largest rows", add_largest, -1},
    {"the smallest rows", add_smallest, 2},
    {"sorted rows", add_sorted, 2},
    {"the largest of joined rows", add_largest_of_joined, 3},
    {"the best rows of two limits", add_best_of_best, 8},
    {"the largest of a later axis", add_largest_columns, -1},
    {"the first of the least number of rows", add_first_counted, 2},
    {"the largest behind another axis", add_largest_turned, 1},
    {"Trilu", add_trilu, 1},
    {"PRelu", add_prelu, 1},
    {"OneHot", add_one_hot, 2},
    {"OneHot before the rows", add_one_hot_first, 1},
    {"GatherElements", add_gather_elements, 2},
    {"GatherElements along the rows", add_gather_elements_of_table, 2},
    {"ReverseSequence", add_reverse, 4},
    {"ReverseSequence along the rows", add_reverse_steps, 0},
    {"Pad of the rows", add_pad_rows, 0},
    {"the last rows", add_slice_from_end, 0},
};

START_TEST(a_count_that_follows_from_another_stays_on_the_device) {
  expect_at_bound(cases[_i].name, cases[_i].add, cases[_i].more);
}
END_TEST

/* NonMaxSuppression -> its first rows -> boxes -> scores of each box for three classes, joined -> a second
 * NonMaxSuppression among the counted boxes -> its first rows -> boxes at counted places of counted rows. `sign` of the
 * second one's scores. */
static onnx_build *two_stages_open(float sign) {
  onnx_build *b = build_open(18);
  build_input(b, "boxes", "f32[1,n,4]");
  build_input(b, "scores", "f32[1,1,n]");
  build_input(b, "x", "f32[1,3,h,w]");
  build_i64(b, "most", "", (int64_t[]){50});
  build_f32(b, "iou", "", (float[]){0.3f});
  build_f32(b, "least", "", (float[]){0.2f});
  build_f32(b, "lowest", "", (float[]){-1e9f});
  build_i64(b, "two", "", (int64_t[]){2});
  build_i64(b, "axis0", "1", (int64_t[]){0});
  build_i64(b, "axis01", "2", (int64_t[]){0, 1});
  build_i64(b, "lines", "2", (int64_t[]){-1, 4});
  build_i64(b, "line", "1", (int64_t[]){-1});
  build_f32(b, "shifts", "3,4", (float[]){0, 0, 0, 0, 1, 1, 1, 1, 40, 0, 40, 0});
  build_f32(b, "weights", "4,3", (float[]){.1f, .2f, -.1f, .3f, -.2f, .1f, .2f, .1f, .3f, -.3f, .1f, .05f});
  build_f32(b, "sign", "", &sign);
  build_i64(b, "axis1", "1", (int64_t[]){1});
  build_node(b, "NonMaxSuppression", "boxes,scores,most,iou,least", "kept");
  build_int(b, build_node(b, "Gather", "kept,two", "index"), "axis", 1);
  slice(b, "index", 0, 12, 1, "proposals");
  build_node(b, "Squeeze", "boxes,axis0", "all");
  build_node(b, "Gather", "all,proposals", "regions");
  build_node(b, "MatMul", "regions,weights", "logits");
  build_node(b, "Mul", "logits,sign", "signed");
  build_node(b, "Unsqueeze", "regions,axis1", "tall");
  build_node(b, "Add", "tall,shifts", "moved");
  build_node(b, "Reshape", "moved,lines", "candidates");
  build_node(b, "Reshape", "signed,line", "marks");
  build_node(b, "Unsqueeze", "candidates,axis0", "all_candidates");
  build_node(b, "Unsqueeze", "marks,axis01", "all_marks");
  build_node(b, "NonMaxSuppression", "all_candidates,all_marks,most,iou,lowest", "chosen");
  build_int(b, build_node(b, "Gather", "chosen,two", "places"), "axis", 1);
  slice(b, "places", 0, 5, 1, "detections");
  build_node(b, "Gather", "candidates,detections", "found_boxes");
  build_node(b, "Gather", "marks,detections", "found_marks");
  build_node(b, "Neg", "found_boxes", "y");
  build_node(b, "Exp", "found_marks", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  return b;
}

START_TEST(two_stages_of_boxes_are_one_epoch) {
  onnx_build *b = two_stages_open(_i ? -1 : 1);
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  int64_t most = 0, least = INT64_MAX;
  static const int shares[] = {100, 50, 25, 10, 5, 0};
  for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
    reed_tensor *inputs[3];
    scene(40, shares[k], (uint32_t)k + 3, inputs);
    int64_t rows;
    run_all(runners, n_runners(), inputs, 3, &rows);
    if (rows > most) most = rows;
    if (rows < least) least = rows;
    for (int i = 0; i < 3; i++) reed_tensor_close(&inputs[i]);
    for (size_t r = BOUND_SIM; r < n_runners(); r++) {
      if (r == EXACT_CUDA) continue;
      ck_assert_int_eq(statistic(&runners[r], "misses"), 1);
      ck_assert_int_eq(statistic(&runners[r], "synchronisations"), 2);
    }
  }
  ck_assert_int_eq(most, 5);
  ck_assert_int_eq(least, 0);
  for (int64_t n = 0; n < 3; n++) {
    reed_tensor *inputs[3];
    scene(n, 100, 9, inputs);
    run_all(runners, n_runners(), inputs, 3, NULL);
    for (int i = 0; i < 3; i++) reed_tensor_close(&inputs[i]);
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* Rows of two counts behind another axis. Concat takes several counts, so these are not the reason. */
START_TEST(the_reason_of_a_join_is_not_that_the_counts_differ) {
  onnx_build *b = build_open(18);
  build_input(b, "mask", "f32[r,c]");
  build_f32(b, "half", "", (float[]){0.5f});
  build_node(b, "Sub", "mask,half", "lower");
  build_node(b, "Relu", "lower", "above");
  build_node(b, "NonZero", "mask", "some");
  build_node(b, "NonZero", "above", "fewer");
  build_int(b, build_node(b, "Concat", "some,fewer", "joined"), "axis", 1);
  build_output(b, "joined", "i64");
  runner r = runner_open(b, &(reed_compile_options){.counts = REED_COUNTS_DEVICE}, "sim", "joined");
  ck_assert_msg(strstr(r.report, "extents above 1 stand before the counted axis") != NULL, "%s", r.report);
  runner_close(&r);
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("counts_made");
  TCase *all = tcase_create("counts_made");
  tcase_set_timeout(all, 60);
  suite_add_tcase(suite, all);
  tcase_add_loop_test(all, a_count_that_follows_from_another_stays_on_the_device, 0, sizeof cases / sizeof *cases);
  tcase_add_loop_test(all, two_stages_of_boxes_are_one_epoch, 0, 2);
  tcase_add_test(all, the_reason_of_a_join_is_not_that_the_counts_differ);
  return suite_run(suite);
}
