/* roi_levels: a pyramid of RoiAligns becomes one operator; near misses stay. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* Differences from the export; with each of them the graph is a near miss. */
typedef enum miss {
  NONE,
  HALF_A_PYRAMID, /* levels are 1 and 2 */
  A_LEVEL_TWICE,  /* both parts are of level 0 */
  OTHER_LEVELS,   /* the second part compares another tensor of levels */
  OTHER_ROWS,     /* gathered and scattered by different lists of rows */
  ADDED,          /* ScatterElements adds */
  ONTO_ONES,      /* results of regions without a level are 1 */
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

int main(void) {
  Suite *suite = suite_create("roi_levels");
  TCase *t = tcase_create("rewrites");
  tcase_add_test(t, a_pyramid_pool_becomes_one_roi_align);
  tcase_add_loop_test(t, what_only_resembles_a_pyramid_pool_stays, NONE + 1, N_MISSES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
