/* Counted rows that are chosen (Compress, torchvision's nms, Slice), grouped (Unique), summed (CumSum), copied (Expand,
 * Tile) or turned (RotaryEmbedding) without their count on the host, rows with scattered updates, rows of an identity
 * and rows that pass a Dropout: the bits of the run that fetches every count, on the host, on sim and on the emulated
 * GPU.
 */
#include <check.h>
#include <stdio.h>

#include "reed/compiler.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/counts.h"

/* ---- chosen rows ---- */

/* keep [n]: the rows whose first element is above 0. */
static void choose(onnx_build *b) {
  join_rows(b, "parts", 12, "lines");
  build_int(b, build_node(b, "Gather", "lines,column", "first_of_row"), "axis", 1);
  build_node(b, "Greater", "first_of_row,nothing", "keep");
}

static void add_compress(onnx_build *b) {
  choose(b);
  build_int(b, build_node(b, "Compress", "parts,keep", "chosen"), "axis", 0);
  build_node(b, "Exp", "chosen", "y");
}

static void add_compress_vector(onnx_build *b) {
  choose(b);
  build_node(b, "Compress", "first_of_row,keep", "chosen");
  build_node(b, "Exp", "chosen", "y");
}

static void add_compress_turned(onnx_build *b) {
  choose(b);
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_int(b, build_node(b, "Compress", "turned,keep", "chosen"), "axis", -2);
  build_node(b, "Exp", "chosen", "y");
}

/* The condition is shorter than the table. */
static void add_compress_table(onnx_build *b) {
  choose(b);
  build_int(b, build_node(b, "Compress", "table,keep", "y"), "axis", 0);
}

/* The elements have no count, but as many as the condition at most. */
static void add_compress_all(onnx_build *b) {
  choose(b);
  build_i64(b, "line", "1", (int64_t[]){-1});
  build_node(b, "Reshape", "mask,line", "elements");
  build_node(b, "Compress", "elements,keep", "chosen");
  build_node(b, "Exp", "chosen", "y");
}

/* [n,1] to the shape of so many extents. */
static void expand(onnx_build *b, const char *rank, const int64_t *shape) {
  choose(b);
  build_i64(b, "axis1", "1", (int64_t[]){1});
  build_i64(b, "wide", rank, shape);
  build_node(b, "Unsqueeze", "first_of_row,axis1", "thin");
  build_node(b, "Expand", "thin,wide", "copies");
  build_node(b, "Exp", "copies", "y");
}

static void add_expand(onnx_build *b) { expand(b, "3", (int64_t[]){2, 1, 5}); }
static void add_expand_columns(onnx_build *b) { expand(b, "1", (int64_t[]){5}); }

static void tile(onnx_build *b, const int64_t *repeats) {
  build_i64(b, "repeats", "3", repeats);
  build_node(b, "Tile", "parts,repeats", "copies");
  build_node(b, "Exp", "copies", "y");
}

static void add_tile(onnx_build *b) { tile(b, (int64_t[]){1, 2, 3}); }
static void add_tile_rows(onnx_build *b) { tile(b, (int64_t[]){2, 1, 1}); }

static void add_tile_turned(onnx_build *b) {
  build_i64(b, "repeats", "3", (int64_t[]){2, 1, 2});
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_node(b, "Tile", "turned,repeats", "copies");
  build_node(b, "Exp", "copies", "y");
}

/* Boxes of the rows, those that torchvision's nms keeps, and their rows. */
static void keep_boxes(onnx_build *b, const char *inputs) {
  build_f32(b, "corners", "4,4", (float[]){4, 0, 4, 0, 0, 4, 0, 4, 0, 0, 2, 0, 0, 0, 0, 2});
  build_f32(b, "extent", "4", (float[]){0, 0, 4, 4});
  build_i64(b, "nobody", "", (int64_t[]){0});
  choose(b);
  build_int(b, build_node(b, "Gather", "parts,column", "firsts"), "axis", 1);
  build_node(b, "MatMul", "firsts,corners", "moved");
  build_node(b, "Add", "moved,extent", "boxes");
  build_node(b, "Mul", "ids,nobody", "alike");
  build_node_t *nms = build_node(b, "nms", inputs, "kept");
  nms->domain = "torchvision";
  build_float(b, nms, "iou_threshold", 0.25f);
  build_node(b, "Gather", "parts,kept", "rows");
  build_node(b, "Exp", "rows", "y");
}

static void add_nms(onnx_build *b) { keep_boxes(b, "boxes,first_of_row"); }
static void add_nms_of_kinds(onnx_build *b) { keep_boxes(b, "boxes,first_of_row,ids"); }
static void add_nms_of_one_kind(onnx_build *b) { keep_boxes(b, "boxes,first_of_row,alike"); }

/* ---- rows that are updated, made or passed on ---- */

/* Elements of the rows [n,12] at places that depend on them, several of which may be one. */
static void scatter(onnx_build *b, const char *reduction, const char *data) {
  char inputs[64];
  build_f32(b, "five", "", (float[]){5.5f});
  build_f32(b, "three", "", (float[]){3});
  join_rows(b, "parts", 12, "lines");
  build_node(b, "Mul", "lines,three", "large");
  build_node(b, "Add", "large,five", "moved");
  build_int(b, build_node(b, "Cast", "moved", "at"), "to", 7);
  build_node(b, "Exp", "lines", "updates");
  snprintf(inputs, sizeof inputs, "%s,at,updates", data);
  build_node_t *n = build_node(b, "ScatterElements", inputs, "y");
  build_int(b, n, "axis", 1);
  if (reduction) build_string(b, n, "reduction", reduction);
}

static void add_scatter(onnx_build *b) { scatter(b, NULL, "lines"); }
static void add_scatter_sums(onnx_build *b) { scatter(b, "add", "lines"); }

/* All updates go to the first row; the last one stays. */
static void add_scatter_rows(onnx_build *b) {
  build_f32(b, "zero", "", (float[]){0});
  join_rows(b, "parts", 12, "lines");
  build_node(b, "Mul", "lines,zero", "none");
  build_int(b, build_node(b, "Cast", "none", "at"), "to", 7);
  build_node(b, "Exp", "lines", "updates");
  build_int(b, build_node(b, "ScatterElements", "lines,at,updates", "y"), "axis", 0);
}

/* The data have rows of their own, which are as many as the updates only by chance. */
static void add_scatter_table(onnx_build *b) {
  build_i64(b, "row_of_12", "2", (int64_t[]){-1, 12});
  build_int(b, build_node(b, "Concat", "table,table,table", "more"), "axis", 0);
  build_node(b, "Reshape", "more,row_of_12", "all");
  scatter(b, NULL, "all");
}

static void add_eye(onnx_build *b) {
  join_rows(b, "parts", 12, "lines");
  build_int(b, build_node(b, "EyeLike", "lines", "diagonal"), "k", 2);
  build_node(b, "Mul", "lines,diagonal", "y");
}

static void add_eye_columns(onnx_build *b) {
  join_rows(b, "parts", 12, "lines");
  build_node(b, "Transpose", "lines", "turned");
  build_node(b, "EyeLike", "turned", "y");
}

/* Both outputs have the count, behind another axis. */
static void add_dropout(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_node(b, "Dropout", "turned", "passed,kept");
  build_node(b, "Where", "kept,passed,nothing", "y");
}

/* ---- RotaryEmbedding: a counted batch or a counted length, with and without position ids ---- */

static void rotary_tables(onnx_build *b) {
  float cos[16 * 2], sin[16 * 2];
  for (int i = 0; i < 32; i++) cos[i] = (float)(i % 5) * 0.25f - 0.5f, sin[i] = (float)(i % 7) * 0.125f;
  build_f32(b, "cos_table", "16,2", cos);
  build_f32(b, "sin_table", "16,2", sin);
  build_i64(b, "axis0", "1", (int64_t[]){0});
  build_i64(b, "axis1", "1", (int64_t[]){1});
  build_i64(b, "two", "1", (int64_t[]){2});
}

/* The first two columns of the rows of `from`, along the last axis. */
static void columns(onnx_build *b, const char *from, const char *axis, const char *to) {
  char inputs[96];
  snprintf(inputs, sizeof inputs, "%s,axis0,two,%s", from, axis);
  build_node(b, "Slice", inputs, to);
}

/* Heads of a counted batch [n,1,3,4]. */
static void add_rotary_ids(onnx_build *b) {
  rotary_tables(b);
  build_node_t *largest = build_node(b, "ArgMax", "parts", "places_of_rows");
  build_int(b, largest, "axis", 2);
  build_int(b, largest, "keepdims", 0);
  build_node(b, "Unsqueeze", "parts,axis1", "heads");
  build_node(b, "RotaryEmbedding", "heads,cos_table,sin_table,places_of_rows", "y");
}

/* [n,3,4] is two heads of two elements. */
static void add_rotary_rows(onnx_build *b) {
  rotary_tables(b);
  build_i64(b, "last", "1", (int64_t[]){2});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_node(b, "Slice", "parts,axis0,one,last", "cosines");
  build_node(b, "Slice", "parts,one,two,last", "sines");
  build_int(b, build_node(b, "RotaryEmbedding", "parts,cosines,sines", "y"), "num_heads", 2);
}

static void add_rotary_shared(onnx_build *b) {
  rotary_tables(b);
  build_f32(b, "cosines", "1,3,1", (float[]){0.5f, -0.25f, 1});
  build_f32(b, "sines", "1,3,1", (float[]){0.75f, 0.5f, -1});
  build_node_t *n = build_node(b, "RotaryEmbedding", "parts,cosines,sines", "y");
  build_int(b, n, "num_heads", 2);
  build_int(b, n, "interleaved", 1);
}

/* A counted length [1,n,12] of three heads. */
static void add_rotary_length(onnx_build *b) {
  rotary_tables(b);
  join_rows(b, "parts", 12, "lines");
  build_node(b, "Unsqueeze", "lines,axis0", "sequence");
  build_node(b, "Unsqueeze", "ids,axis0", "places_of_rows");
  build_int(b, build_node(b, "RotaryEmbedding", "sequence,cos_table,sin_table,places_of_rows", "y"), "num_heads", 3);
}

/* A counted length [1,3,n,4] behind the heads, with caches [1,n,2]. */
static void add_rotary_behind_heads(onnx_build *b) {
  rotary_tables(b);
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  join_rows(b, "parts", 12, "lines");
  columns(b, "lines", "axis1", "few");
  build_node(b, "Unsqueeze", "few,axis0", "cosines");
  build_node(b, "Neg", "cosines", "sines");
  build_node(b, "Unsqueeze", "turned,axis0", "heads");
  build_node(b, "RotaryEmbedding", "heads,cosines,sines", "y");
}

/* A counted length of three sequences [3,n,4], with places [3,n]. */
static void add_rotary_sequences(onnx_build *b) {
  rotary_tables(b);
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_node_t *largest = build_node(b, "ArgMax", "turned", "places_of_rows");
  build_int(b, largest, "axis", 2);
  build_int(b, largest, "keepdims", 0);
  build_int(b, build_node(b, "RotaryEmbedding", "turned,cos_table,sin_table,places_of_rows", "y"), "num_heads", 1);
}

/* A counted number of heads. */
static void add_rotary_heads(onnx_build *b) {
  rotary_tables(b);
  build_i64(b, "places_of_rows", "1,3", (int64_t[]){2, 0, 5});
  build_node(b, "Unsqueeze", "parts,axis0", "heads");
  build_node(b, "RotaryEmbedding", "heads,cos_table,sin_table,places_of_rows", "y");
}

/* ---- ScatterND: counted updates, counted data, both ---- */

/* The row numbers [n,1], and what they are taken to. */
static void places(onnx_build *b, const char *factor, const char *to) {
  char inputs[64];
  build_i64(b, "column_axis", "1", (int64_t[]){1});
  build_i64(b, "zero", "", (int64_t[]){0});
  build_i64(b, "unit", "", (int64_t[]){1});
  snprintf(inputs, sizeof inputs, "ids,%s", factor);
  build_node(b, "Mul", inputs, "rows_of_updates");
  build_node(b, "Unsqueeze", "rows_of_updates,column_axis", to);
}

/* The table has no count, and so y has none. */
static void scatter_into_table(onnx_build *b, const char *factor, const char *reduction) {
  places(b, factor, "at");
  build_node(b, "Exp", "parts", "updates");
  build_node_t *n = build_node(b, "ScatterND", "table,at,updates", "y");
  if (reduction) build_string(b, n, "reduction", reduction);
}

static void add_scatter_nd(onnx_build *b) { scatter_into_table(b, "unit", NULL); }
static void add_scatter_nd_last(onnx_build *b) { scatter_into_table(b, "zero", NULL); }
static void add_scatter_nd_sums(onnx_build *b) { scatter_into_table(b, "zero", "add"); }

/* The last of the counted rows, whose number the kernel takes from the count; no row: no fault. */
static void add_scatter_nd_data(onnx_build *b) {
  float row[12];
  for (int i = 0; i < 12; i++) row[i] = (float)i;
  build_i64(b, "last_row", "1,1", (int64_t[]){-1});
  build_f32(b, "row", "1,3,4", row);
  build_node(b, "ScatterND", "parts,last_row,row", "y");
}

/* Element [i, place] of each counted row i; the numbers of the rows are a CumSum. */
static void scatter_into_rows(onnx_build *b, const char *reduction) {
  join_rows(b, "parts", 12, "lines");
  places(b, "unit", "unused");
  build_node(b, "Equal", "ids,ids", "all");
  build_int(b, build_node(b, "Cast", "all", "ones"), "to", 7);
  build_int(b, build_node(b, "CumSum", "ones,zero", "numbers"), "exclusive", 1);
  build_int(b, build_node(b, "ArgMax", "lines", "largest"), "axis", 1);
  build_node(b, "Unsqueeze", "numbers,column_axis", "rows");
  build_int(b, build_node(b, "Concat", "rows,largest", "at"), "axis", 1);
  build_int(b, build_node(b, "Gather", "lines,zero", "updates"), "axis", 1);
  build_node_t *n = build_node(b, "ScatterND", "lines,at,updates", "y");
  if (reduction) build_string(b, n, "reduction", reduction);
}

static void add_scatter_nd_rows(onnx_build *b) { scatter_into_rows(b, NULL); }
static void add_scatter_nd_row_sums(onnx_build *b) { scatter_into_rows(b, "add"); }

/* The count is one of each slot's elements. */
static void add_scatter_nd_behind(onnx_build *b) {
  build_i64(b, "first_row", "1,1", (int64_t[]){0});
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_i64(b, "axis0", "1", (int64_t[]){0});
  build_node(b, "Unsqueeze", "parts,axis0", "group");
  build_ints(b, build_node(b, "Transpose", "group", "wide"), "perm", "2,0,1,3");
  build_i64(b, "flat", "3", (int64_t[]){3, -1, 4});
  build_node(b, "Reshape", "wide,flat", "updated");
  build_i64(b, "one_row", "1", (int64_t[]){1});
  build_node(b, "Slice", "updated,axis0,one_row,axis0", "update");
  build_node(b, "ScatterND", "turned,first_row,update", "y");
}

/* ---- CumSum along the count and beside it ---- */

static void sum_along(onnx_build *b, const char *from, int64_t axis, int64_t exclusive, int64_t reverse) {
  char inputs[64];
  build_i64(b, "along", "", (int64_t[]){axis});
  snprintf(inputs, sizeof inputs, "%s,along", from);
  build_node_t *n = build_node(b, "CumSum", inputs, "y");
  build_int(b, n, "exclusive", exclusive);
  build_int(b, n, "reverse", reverse);
}

static void add_cumsum(onnx_build *b) { sum_along(b, "parts", 0, 0, 1); }
static void add_cumsum_columns(onnx_build *b) { sum_along(b, "parts", -1, 1, 0); }

static void add_cumsum_turned(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  sum_along(b, "turned", -2, 0, 0);
}

/* The axis is known on the device only. */
static void add_cumsum_of_data(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  build_int(b, build_node(b, "ReduceMax", "table", "largest"), "keepdims", 0);
  build_int(b, build_node(b, "Cast", "largest", "along"), "to", 7);
  build_node(b, "CumSum", "turned,along", "y");
}

/* ---- Unique ---- */

/* Labels of the rows, of which several are alike; y: those of the groups, by row. */
static void group(onnx_build *b, int64_t sorted) {
  choose(b);
  build_node(b, "Sign", "first_of_row", "labels");
  build_int(b, build_node(b, "Unique", "labels", "groups,first_places,group_of_row,members"), "sorted", sorted);
  build_node(b, "Gather", "groups,group_of_row", "again");
  build_node(b, "Add", "again,first_of_row", "y");
  build_output(b, "members", "i64");
  build_output(b, "first_places", "i64");
}

static void add_unique(onnx_build *b) { group(b, 1); }
static void add_unique_by_place(onnx_build *b) { group(b, 0); }

static void unique_slices(onnx_build *b, const char *of, int64_t axis) {
  build_node(b, "Sign", of, "signs");
  build_int(b, build_node(b, "Unique", "signs", "y,first_places,group_of_row"), "axis", axis);
  build_output(b, "group_of_row", "i64");
}

static void add_unique_slices(onnx_build *b) { unique_slices(b, "parts", 0); }
static void add_unique_columns(onnx_build *b) { unique_slices(b, "parts", 2); }

static void add_unique_turned(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "parts", "turned"), "perm", "1,0,2");
  unique_slices(b, "turned", -2);
}

static void add_unique_elements(onnx_build *b) { build_node(b, "Unique", "parts", "y"); }

/* ---- Slice beside the count: from a place behind the first, and backwards ---- */

/* Counted rows behind another axis [3,n,4], from no Transpose. */
static void rows_behind(onnx_build *b) {
  build_i64(b, "three_tables", "3", (int64_t[]){3, 16, 4});
  build_node(b, "Reshape", "table,three_tables", "tables");
  build_int(b, build_node(b, "Gather", "tables,ids", "turned"), "axis", 1);
}

static void cut(onnx_build *b, int64_t start, int64_t end, int64_t step) {
  rows_behind(b);
  build_i64(b, "axis0", "1", (int64_t[]){0});
  build_i64(b, "start", "1", &start);
  build_i64(b, "end", "1", &end);
  build_i64(b, "step", "1", &step);
  build_node(b, "Slice", "turned,start,end,axis0,step", "y");
}

static void add_slice_before(onnx_build *b) { cut(b, 1, 3, 1); }
static void add_slice_backwards(onnx_build *b) { cut(b, -1, INT64_MIN, -1); }
static void add_slice_of_one(onnx_build *b) { cut(b, 2, 3, 1); }

/* A part along an axis behind the count, too, in whole vectors. */
static void add_slice_behind(onnx_build *b) {
  rows_behind(b);
  build_i64(b, "starts", "2", (int64_t[]){1, 3});
  build_i64(b, "ends", "2", (int64_t[]){3, INT64_MIN});
  build_i64(b, "axes", "2", (int64_t[]){0, 2});
  build_i64(b, "steps", "2", (int64_t[]){1, -1});
  build_node(b, "Slice", "turned,starts,ends,axes,steps", "y");
}

static const struct {
  const char *name;
  void (*add)(onnx_build *b);
  int more; /* of expect_at_bound */
} cases[] = {
    {"Compress", add_compress, 5},
    {"Compress of a vector", add_compress_vector, 5},
    {"Compress behind another axis", add_compress_turned, 6},
    {"Compress of as many elements", add_compress_all, 4},
    {"Compress of a longer table", add_compress_table, 3},
    {"Expand", add_expand, 5},
    {"Expand of the columns", add_expand_columns, 2},
    {"Tile", add_tile, 2},
    {"Tile of the rows", add_tile_rows, 0},
    {"Tile behind another axis", add_tile_turned, 3},
    {"torchvision's nms", add_nms, 7},
    {"torchvision's nms of kinds", add_nms_of_kinds, 7},
    {"torchvision's nms of one kind", add_nms_of_one_kind, 8},
    {"ScatterElements", add_scatter, 4},
    {"ScatterElements with sums", add_scatter_sums, 4},
    {"ScatterElements of a table", add_scatter_table, 3},
    {"ScatterElements into counted rows", add_scatter_rows, 3},
    {"EyeLike", add_eye, 3},
    {"EyeLike of counted columns", add_eye_columns, 2},
    {"Dropout with its mask", add_dropout, 3},
    {"RotaryEmbedding", add_rotary_ids, 3},
    {"RotaryEmbedding with rows of caches", add_rotary_rows, 3},
    {"RotaryEmbedding with shared caches", add_rotary_shared, 1},
    {"RotaryEmbedding along the rows", add_rotary_length, 4},
    {"RotaryEmbedding behind the heads", add_rotary_behind_heads, 7},
    {"RotaryEmbedding of sequences", add_rotary_sequences, 3},
    {"RotaryEmbedding of counted heads", add_rotary_heads, 1},
    {"ScatterND", add_scatter_nd, 3},
    {"ScatterND into one row", add_scatter_nd_last, 4},
    {"ScatterND with sums", add_scatter_nd_sums, 4},
    {"ScatterND into counted rows", add_scatter_nd_data, 1},
    {"ScatterND of counted elements", add_scatter_nd_rows, 8},
    {"ScatterND of counted elements with sums", add_scatter_nd_row_sums, 8},
    {"ScatterND of counted slots", add_scatter_nd_behind, 1},
    {"CumSum", add_cumsum, 1},
    {"CumSum of columns", add_cumsum_columns, 1},
    {"CumSum behind another axis", add_cumsum_turned, 2},
    {"CumSum along an axis of the data", add_cumsum_of_data, 2},
    {"Unique", add_unique, 3},
    {"Unique by place", add_unique_by_place, 3},
    {"Unique of slices", add_unique_slices, 1},
    {"Unique behind another axis", add_unique_turned, 2},
    {"Unique of columns", add_unique_columns, 1},
    {"Unique of elements", add_unique_elements, 0},
    {"Slice before the count", add_slice_before, 1},
    {"Slice before the count, backwards", add_slice_backwards, 1},
    {"Slice of one before the count", add_slice_of_one, 1},
    {"Slice before and behind the count", add_slice_behind, 1},
};

START_TEST(chosen_copied_and_turned_rows_stay_on_the_device) {
  expect_at_bound(cases[_i].name, cases[_i].add, cases[_i].more);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("counts_chosen");
  TCase *all = tcase_create("counts_chosen");
  tcase_set_timeout(all, 60);
  suite_add_tcase(suite, all);
  tcase_add_loop_test(all, chosen_copied_and_turned_rows_stay_on_the_device, 0, sizeof cases / sizeof *cases);
  return suite_run(suite);
}
