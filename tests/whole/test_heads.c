/* Heads of detectors at a counted batch: products, convolutions, pools, norms, softmax and movement of tensors whose
 * number of images or rows only the device knows. The bits are those of the run that fetches every count, on the host,
 * on sim and on the emulated GPU; operators whose conditions do not hold get the count. */
#include <check.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/counts.h"

static const float *numbers(int n) {
  static float made[144 * 70];
  ck_assert_int_le(n, (int)(sizeof made / sizeof *made));
  for (int i = 0; i < n; i++) made[i] = (float)((i * 37 + 11) % 23) * 0.125f - 1.25f;
  return made;
}

/* 16 images; `pictures` [n,4,6,6] are the counted ones. */
static onnx_build *base_open(void) { return counted_rows_open("images", "f32[16,4,6,6]", "pictures"); }

/* Runs the model with counts from 0 to the bound, several of them in turn on one session; `many`: also with more rows
 * than a tile of a product has. */
static void run_masks(runner *runners, bool many) {
  static const struct {
    int64_t extents[2];
    int share; /* of three elements */
  } masks[] = {{{3, 3}, 1}, {{3, 3}, 3}, {{3, 3}, 0}, {{3, 3}, 2}, {{1, 1}, 3}, {{16, 5}, 1}, {{16, 5}, 3}};
  const size_t n = sizeof masks / sizeof *masks - (many ? 0 : 2);
  reed_tensor *images = tensor_of(4, (int64_t[]){16, 4, 6, 6});
  for (int i = 0; i < 16 * 4 * 36; i++) ((float *)reed_tensor_data(images))[i] = (float)(i * 29 % 41) * 0.0625f - 1;
  for (size_t k = 0; k < n; k++) {
    reed_tensor *mask = tensor_of(2, masks[k].extents);
    for (int64_t i = 0; i < masks[k].extents[0] * masks[k].extents[1]; i++)
      ((float *)reed_tensor_data(mask))[i] = i % 3 < masks[k].share ? 1.0f : -1.0f;
    run_all(runners, n_runners(), (reed_tensor *[]){mask, images}, 2, NULL);
    reed_tensor_close(&mask);
  }
  reed_tensor_close(&images);
}

static void flat(onnx_build *b) { build_int(b, build_node(b, "Flatten", "pictures", "flat"), "axis", 1); }

static void add_conv(onnx_build *b) {
  build_f32(b, "w", "8,4,3,3", numbers(8 * 36));
  build_f32(b, "bias", "8", numbers(8));
  build_ints(b, build_node(b, "Conv", "pictures,w,bias", "made"), "pads", "1,1,1,1");
  build_node(b, "Relu", "made", "y");
}
static void add_conv_groups(onnx_build *b) {
  build_f32(b, "w", "4,1,3,3", numbers(36));
  build_int(b, build_node(b, "Conv", "pictures,w", "y"), "group", 4);
}
static void add_conv_residual(onnx_build *b) {
  build_f32(b, "w", "4,4,1,1", numbers(16));
  build_node(b, "Conv", "pictures,w", "made");
  build_node(b, "Add", "made,pictures", "sum");
  build_node(b, "Relu", "sum", "y");
}
static void add_conv_transpose(onnx_build *b) {
  build_f32(b, "w", "4,8,2,2", numbers(128));
  build_ints(b, build_node(b, "ConvTranspose", "pictures,w", "y"), "strides", "2,2");
}
static void add_conv_transpose_few(onnx_build *b) {
  build_f32(b, "w", "4,2,3,3", numbers(72));
  build_ints(b, build_node(b, "ConvTranspose", "pictures,w", "y"), "strides", "2,2");
}
static void add_mask_head(onnx_build *b) {
  build_f32(b, "w", "8,4,3,3", numbers(8 * 36));
  build_f32(b, "up", "8,8,2,2", numbers(256));
  build_f32(b, "last", "3,8,1,1", numbers(24));
  build_ints(b, build_node(b, "Conv", "pictures,w", "made"), "pads", "1,1,1,1");
  build_node(b, "Relu", "made", "first");
  build_ints(b, build_node(b, "ConvTranspose", "first,up", "wide"), "strides", "2,2");
  build_node(b, "Relu", "wide", "second");
  build_node(b, "Conv", "second,last", "maps");
  build_node(b, "Sigmoid", "maps", "y");
}
static void add_box_head(onnx_build *b) {
  build_f32(b, "w", "12,144", numbers(12 * 144));
  build_f32(b, "bias", "12", numbers(12));
  build_f32(b, "v", "12,5", numbers(60));
  build_i64(b, "from", "1", (int64_t[]){1});
  build_i64(b, "to", "1", (int64_t[]){5});
  flat(b);
  build_int(b, build_node(b, "Gemm", "flat,w,bias", "fc"), "transB", 1);
  build_node(b, "Relu", "fc", "rectified");
  build_node(b, "MatMul", "rectified,v", "scores");
  build_int(b, build_node(b, "Softmax", "scores", "shares"), "axis", 1);
  build_node(b, "Slice", "shares,from,to,from", "some");
  build_int(b, build_node(b, "Concat", "some,scores", "y"), "axis", -1);
}
static void add_gemm_rows(onnx_build *b) {
  build_f32(b, "w", "144,70", numbers(144 * 70)); /* more columns than a tile */
  flat(b);
  build_node(b, "Gemm", "flat,w", "y");
}
static void add_matmul_vector(onnx_build *b) {
  build_f32(b, "v", "6", numbers(6));
  build_node(b, "MatMul", "pictures,v", "y");
}
static void add_matmul_batch(onnx_build *b) {
  build_f32(b, "v", "6,3", numbers(18));
  build_node(b, "MatMul", "pictures,v", "y");
}
static void add_matmul_two(onnx_build *b) {
  build_ints(b, build_node(b, "Transpose", "pictures", "turned"), "perm", "0,1,3,2");
  build_node(b, "MatMul", "pictures,turned", "y");
}
static void add_matmul_right(onnx_build *b) {
  build_f32(b, "v", "1,1,5,6", numbers(30));
  build_node(b, "MatMul", "v,pictures", "y");
}
static void add_matmul_addend(onnx_build *b) {
  build_f32(b, "v", "36,5", numbers(180));
  build_i64(b, "shape", "3", (int64_t[]){0, 4, 36});
  build_f32(b, "bias", "5", numbers(5));
  build_node(b, "Reshape", "pictures,shape", "lines");
  build_node(b, "MatMul", "lines,v", "made");
  build_node(b, "Add", "made,bias", "y");
}
static void add_deform(onnx_build *b) {
  build_f32(b, "w", "6,4,2,2", numbers(96));
  build_f32(b, "bias", "6", numbers(6));
  build_f32(b, "to_offsets", "8,4,2,2", numbers(128));
  build_f32(b, "to_mask", "4,4,2,2", numbers(64));
  build_node(b, "Conv", "pictures,to_offsets", "offsets");
  build_node(b, "Conv", "pictures,to_mask", "weights");
  build_node(b, "Sigmoid", "weights", "mask_of_taps");
  build_node(b, "DeformConv", "pictures,w,offsets,bias,mask_of_taps", "y");
}
static void add_deform_plain(onnx_build *b) {
  build_f32(b, "w", "6,2,2,2", numbers(48));
  build_f32(b, "to_offsets", "16,4,2,2", numbers(256));
  build_node(b, "Conv", "pictures,to_offsets", "offsets");
  build_node_t *n = build_node(b, "DeformConv", "pictures,w,offsets", "y");
  build_int(b, n, "group", 2);
  build_int(b, n, "offset_group", 2);
}
/* Regions [n,5] of image 0 from the first elements of the pictures. */
static void add_regions(onnx_build *b) {
  build_i64(b, "from", "1", (int64_t[]){0});
  build_i64(b, "to", "1", (int64_t[]){5});
  build_i64(b, "axis", "1", (int64_t[]){1});
  build_f32(b, "scale", "5", (float[]){0, 2, 2, 4, 4});
  build_f32(b, "map", "1,4,6,6", numbers(144));
  flat(b);
  build_node(b, "Slice", "flat,from,to,axis", "some");
  build_node(b, "Mul", "some,scale", "scaled");
  build_node(b, "Abs", "scaled", "regions");
}
static void add_max_roi_pool(onnx_build *b) {
  add_regions(b);
  build_ints(b, build_node(b, "MaxRoiPool", "map,regions", "y"), "pooled_shape", "2,3");
}
/* An operator of torchvision on the regions. */
static build_node_t *pool_regions(onnx_build *b, const char *op, const char *outputs) {
  add_regions(b);
  build_node_t *n = build_node(b, op, "map,regions", outputs);
  n->domain = "torchvision";
  build_int(b, n, "pooled_height", 2);
  build_int(b, n, "pooled_width", 2);
  build_float(b, n, "spatial_scale", 0.75f);
  return n;
}
static void add_roi_pool(onnx_build *b) { pool_regions(b, "roi_pool", "y"); }
static void add_roi_pool_places(onnx_build *b) {
  pool_regions(b, "roi_pool", "largest,at");
  build_int(b, build_node(b, "Cast", "at", "numbers"), "to", 1);
  build_node(b, "Sub", "largest,numbers", "y");
}
static void add_roi_align(onnx_build *b) { build_int(b, pool_regions(b, "roi_align", "y"), "sampling_ratio", 2); }
static void add_ps_roi_align(onnx_build *b) { build_int(b, pool_regions(b, "ps_roi_align", "y"), "sampling_ratio", 2); }
static void add_ps_roi_pool(onnx_build *b) { pool_regions(b, "ps_roi_pool", "y"); }
static void add_deform_conv2d(onnx_build *b) {
  build_f32(b, "w", "6,4,2,2", numbers(96));
  build_f32(b, "to_offsets", "8,4,2,2", numbers(128));
  build_node(b, "Conv", "pictures,to_offsets", "offsets");
  build_node(b, "deform_conv2d", "pictures,w,offsets", "y")->domain = "torchvision";
}
static void add_max_pool(onnx_build *b) {
  build_ints(b, build_node(b, "MaxPool", "pictures", "y"), "kernel_shape", "2,2");
}
static void add_average_pool(onnx_build *b) {
  build_ints(b, build_node(b, "AveragePool", "pictures", "y"), "kernel_shape", "3,3");
}
static void add_global_pool(onnx_build *b) { build_node(b, "GlobalAveragePool", "pictures", "y"); }
static void add_softmax(onnx_build *b) { build_int(b, build_node(b, "Softmax", "pictures", "y"), "axis", 1); }
static void add_log_softmax(onnx_build *b) { build_int(b, build_node(b, "LogSoftmax", "pictures", "y"), "axis", -1); }
static void add_arg_max(onnx_build *b) {
  build_node_t *n = build_node(b, "ArgMax", "pictures", "y");
  build_int(b, n, "axis", 2);
  build_int(b, n, "keepdims", 0);
}
static void add_layer_norm(onnx_build *b) {
  build_f32(b, "scale", "6", numbers(6));
  build_node(b, "LayerNormalization", "pictures,scale", "y");
}
static void add_instance_norm(onnx_build *b) {
  build_f32(b, "scale", "4", numbers(4));
  build_f32(b, "bias", "4", numbers(4));
  build_node(b, "InstanceNormalization", "pictures,scale,bias", "y");
}
static void add_batch_norm(onnx_build *b) {
  build_f32(b, "scale", "4", numbers(4));
  build_f32(b, "variance", "4", (float[]){1, 2, 3, 4});
  build_node(b, "BatchNormalization", "pictures,scale,scale,scale,variance", "y");
}
static void add_depth_to_space(onnx_build *b) {
  build_int(b, build_node(b, "DepthToSpace", "pictures", "y"), "blocksize", 2);
}
static void add_resize(onnx_build *b) {
  build_f32(b, "scales", "4", (float[]){1, 1, 2, 2});
  build_string(b, build_node(b, "Resize", "pictures,,scales", "y"), "mode", "linear");
}
static void add_reduce(onnx_build *b) {
  build_i64(b, "axes", "2", (int64_t[]){-1, 2});
  build_node(b, "ReduceMean", "pictures,axes", "y");
}
static void add_slice_default(onnx_build *b) {
  build_i64(b, "starts", "4", (int64_t[]){0, 1, 2, 0});
  build_i64(b, "ends", "4", (int64_t[]){7, 3, 6, 5});
  build_node(b, "Slice", "pictures,starts,ends", "y"); /* also cuts the counted axis */
}
static void add_slice_backwards(onnx_build *b) {
  build_i64(b, "starts", "1", (int64_t[]){-1});
  build_i64(b, "ends", "1", (int64_t[]){INT64_MIN});
  build_i64(b, "axes", "1", (int64_t[]){0});
  build_node(b, "Slice", "pictures,starts,ends,axes,starts", "y"); /* step -1 */
}
static void add_softmax_rows(onnx_build *b) { build_int(b, build_node(b, "Softmax", "pictures", "y"), "axis", 0); }
static void add_gemm_turned(onnx_build *b) {
  build_f32(b, "w", "144,3", numbers(432));
  flat(b);
  build_ints(b, build_node(b, "Transpose", "flat", "turned"), "perm", "1,0");
  build_int(b, build_node(b, "Gemm", "turned,w", "y"), "transA", 1);
}
static void add_matmul_summed(onnx_build *b) {
  flat(b);
  build_ints(b, build_node(b, "Transpose", "flat", "turned"), "perm", "1,0");
  build_node(b, "MatMul", "turned,flat", "y");
}
static void add_concat_rows(onnx_build *b) {
  build_int(b, build_node(b, "Concat", "pictures,pictures", "y"), "axis", 0);
}
static void add_reduce_rows(onnx_build *b) {
  build_i64(b, "axes", "1", (int64_t[]){0});
  build_node(b, "ReduceSum", "pictures,axes", "y");
}
static void add_resize_rows(onnx_build *b) {
  build_i64(b, "sizes", "4", (int64_t[]){15, 4, 12, 12}); /* the bound of the first mask */
  build_string(b, build_node(b, "Resize", "pictures,,,sizes", "y"), "mode", "nearest");
}

/* more: operators at the bound besides those of base_open, on sim and on the emulated GPU. */
static const struct {
  const char *name;
  void (*add)(onnx_build *b);
  int more, more_on_cuda;
  const char *why; /* the reason for which the host fetches the count; NULL: an output of the model needs it */
} heads[] = {
    {"Conv", add_conv, 1, 1},
    {"Conv of groups", add_conv_groups, 1, 1},
    {"Conv with a residual", add_conv_residual, 1, 1},
    {"ConvTranspose", add_conv_transpose, 1, 1},
    {"ConvTranspose of few channels", add_conv_transpose_few, 1, 1},
    {"mask head", add_mask_head, 4, 4},
    {"box head", add_box_head, 6, 6},
    {"Gemm", add_gemm_rows, 2, 2},
    {"MatMul by a vector", add_matmul_vector, 1, 1},
    {"MatMul of a batch", add_matmul_batch, 1, 1},
    {"MatMul of two batches", add_matmul_two, 2, 2},
    {"MatMul of a batch from the right", add_matmul_right, 1, 1},
    {"MatMul and an addend", add_matmul_addend, 2, 2},
    {"DeformConv", add_deform, 5, 5},
    {"DeformConv of groups", add_deform_plain, 4, 4},
    {"MaxRoiPool", add_max_roi_pool, 3, 3},
    {"roi_pool", add_roi_pool, 3, 3},
    {"roi_pool with places", add_roi_pool_places, 4, 4},
    {"torchvision's roi_align", add_roi_align, 3, 3},
    {"ps_roi_align", add_ps_roi_align, 3, 3},
    {"ps_roi_pool", add_ps_roi_pool, 3, 3},
    {"deform_conv2d", add_deform_conv2d, 2, 2},
    {"MaxPool", add_max_pool, 1, 1},
    {"AveragePool", add_average_pool, 1, 1},
    {"GlobalAveragePool", add_global_pool, 1, 1},
    {"Softmax", add_softmax, 1, 1},
    {"LogSoftmax", add_log_softmax, 1, 1},
    {"ArgMax", add_arg_max, 1, 1},
    {"LayerNormalization", add_layer_norm, 1, 1},
    {"InstanceNormalization", add_instance_norm, 1, 1},
    {"BatchNormalization", add_batch_norm, 1, 1},
    {"DepthToSpace", add_depth_to_space, 1, 1},
    {"Resize", add_resize, 1, 1},
    {"ReduceMean", add_reduce, 1, 0},
    {"Slice of the rows", add_slice_default, 1, 1},
    {"Slice backwards", add_slice_backwards, 0, 0, "Slice 'y_node': it cuts the counted axis"},
    {"Softmax along the rows", add_softmax_rows, 0, 0, "Softmax 'y_node': the counted axis does not stand before"},
    {"Gemm of a turned matrix", add_gemm_turned, 2, 2, "Gemm 'y_node': only the rows of A"},
    {"MatMul that sums over the rows", add_matmul_summed, 2, 2, "MatMul 'y_node': the counted axis is summed over"},
    {"Concat of rows", add_concat_rows, 1, 1},
    {"ReduceSum of rows", add_reduce_rows, 0, 0, "ReduceSum 'y_node': it reduces the counted axis"},
};

START_TEST(a_head_runs_at_the_bound_with_the_same_bits) {
  onnx_build *b = base_open();
  heads[_i].add(b);
  build_output(b, "y", strcmp(heads[_i].name, "ArgMax") == 0 ? "i64" : "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_msg(figure(runners[BOUND_SIM].report, "at_bound") == COUNTED_ROWS_AT_BOUND + heads[_i].more,
                "%s: %d at the bound on sim", heads[_i].name, (int)figure(runners[BOUND_SIM].report, "at_bound"));
  if (cuda_is_present())
    ck_assert_msg(figure(runners[BOUND_CUDA].report, "at_bound") == COUNTED_ROWS_AT_BOUND + heads[_i].more_on_cuda,
                  "%s: %d at the bound on cuda", heads[_i].name, (int)figure(runners[BOUND_CUDA].report, "at_bound"));
  for (size_t k = BOUND_SIM; k < n_runners(); k++) {
    const char *why = heads[_i].why ? heads[_i].why : "an output of the model";
    if (k == EXACT_CUDA) why = "all counts are fetched";
    else if (k > BOUND_SIM && strncmp(heads[_i].name, "Reduce", 6) == 0)
      why = "the order in which the accelerator's kernel sums follows";
    ck_assert_msg(strstr(runners[k].report, why), "%s, runner %zu: not '%s' in %s", heads[_i].name, k, why,
                  strstr(runners[k].report, "\"epochs\""));
  }
  run_masks(runners, strcmp(heads[_i].name, "Gemm") == 0);
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* The plan of a run has the reason for each count that it fetched. */
START_TEST(the_plan_says_why_a_count_is_fetched) {
  onnx_build *b = base_open();
  add_softmax_rows(b);
  build_output(b, "y", "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  run_masks(runners, false);
  for (size_t k = 0; k < n_runners(); k++) {
    char *json;
    ck_assert_int_eq(reed_session_plan_json(runners[k].session, &json, NULL), REED_OK);
    const bool exact = k == EXACT_HOST || k == EXACT_SIM || k == EXACT_CUDA;
    const char *why = exact ? "all counts are fetched (compiled with --counts host)"
                            : "\"why\":\"Softmax 'y_node': the counted axis does not stand before the axis";
    ck_assert_msg(strstr(json, why), "runner %zu: not '%s' in %s", k, why, json);
    reed_text_free(json);
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* sizes of Resize in numbers equal the bound of one mask: these sizes are not the count, so the true batch is resized.
 */
START_TEST(a_size_in_numbers_does_not_follow_the_count) {
  onnx_build *b = base_open();
  add_resize_rows(b);
  build_output(b, "y", "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  ck_assert_int_eq(figure(runners[BOUND_SIM].report, "at_bound"), COUNTED_ROWS_AT_BOUND);
  reed_tensor *inputs[2] = {tensor_of(2, (int64_t[]){3, 5}), tensor_of(4, (int64_t[]){16, 4, 6, 6})};
  memset(reed_tensor_data(inputs[1]), 0, 16 * 4 * 36 * 4);
  for (int i = 0; i < 15; i++) ((float *)reed_tensor_data(inputs[0]))[i] = i % 2 ? 1.0f : -1.0f;
  int64_t rows;
  run_all(runners, n_runners(), inputs, 2, &rows);
  ck_assert_int_eq(rows, 15);
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* NonMaxSuppression -> Gather -> RoiAlign -> box head and mask head: one epoch, and the count is fetched once. */
START_TEST(boxes_and_both_heads_stay_on_the_device) {
  onnx_build *b = kept_regions_open(18, 4, 4);
  build_f32(b, "w", "6,3,3,3", numbers(162));
  build_f32(b, "fc", "96,5", numbers(480));
  build_f32(b, "up", "6,4,2,2", numbers(96));
  build_ints(b, build_node(b, "Conv", "parts,w", "made"), "pads", "1,1,1,1");
  build_node(b, "Relu", "made", "deep");
  build_int(b, build_node(b, "Flatten", "deep", "lines"), "axis", 1);
  build_node(b, "MatMul", "lines,fc", "logits");
  build_int(b, build_node(b, "Softmax", "logits", "classes"), "axis", 1);
  build_ints(b, build_node(b, "ConvTranspose", "deep,up", "maps"), "strides", "2,2");
  build_node(b, "Sigmoid", "maps", "masks");
  build_output(b, "classes", "f32");
  build_output(b, "masks", "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  int64_t before = -1;
  for (int share = 100; share >= 0; share -= 25) {
    reed_tensor *inputs[3];
    scene(40, share, 7, inputs);
    int64_t rows;
    run_all(runners, n_runners(), inputs, 3, &rows);
    ck_assert_int_ne(rows, before);
    before = rows;
    for (int i = 0; i < 3; i++) reed_tensor_close(&inputs[i]);
    for (size_t k = BOUND_SIM; k < n_runners(); k++) {
      if (k == EXACT_CUDA) continue;
      ck_assert_int_eq(statistic(&runners[k], "misses"), 1);
      ck_assert_int_eq(mentions(&runners[k], "\"extent\""), 1);
    }
  }
  runners_close(runners);
  build_close(&b);
}
END_TEST

/* A device whose list of counts names some operators: the others get the count, and a module that was compiled for a
 * device with more is refused with the operator's name. */
START_TEST(a_device_reads_the_counts_that_its_list_names) {
  onnx_build *b = base_open();
  add_box_head(b);
  build_output(b, "y", "f32");
  runner runners[4];
  static const char *const targets[] = {NULL, "sim?counts=Gather+Transpose", "sim?counts=Gather+Transpose+Flatten+Gemm",
                                        "sim?counts=Gather.f32"};
  static const int at_bound[] = {COUNTED_ROWS_AT_BOUND + 6, COUNTED_ROWS_AT_BOUND, COUNTED_ROWS_AT_BOUND + 2, 0};
  for (size_t k = 0; k < 4; k++) {
    runners[k] = runner_open(b, &(reed_compile_options){.counts = REED_COUNTS_DEVICE, .target = targets[k]},
                             targets[k] ? targets[k] : "sim", "counts");
    ck_assert_int_eq(figure(runners[k].report, "at_bound"), at_bound[k]);
  }
  reed_tensor *inputs[2] = {tensor_of(2, (int64_t[]){3, 5}), tensor_of(4, (int64_t[]){16, 4, 6, 6})};
  for (int i = 0; i < 16 * 4 * 36; i++) ((float *)reed_tensor_data(inputs[1]))[i] = (float)(i % 7);
  for (int i = 0; i < 15; i++) ((float *)reed_tensor_data(inputs[0]))[i] = i % 2 ? 1.0f : -1.0f;
  reed_tensor *first = NULL, *y;
  for (size_t k = 0; k < 4; k++) {
    ck_assert_int_eq(reed_session_run(runners[k].session, inputs, 2, &y, 1, NULL), REED_OK);
    if (first) ck_assert_mem_eq(reed_tensor_data(y), reed_tensor_data(first), (size_t)reed_tensor_bytes(first));
    if (first) reed_tensor_close(&y);
    else first = y;
  }
  reed_tensor_close(&first);
  reed_session *session;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status =
      reed_session_open(runners[0].program, &(reed_session_options){.device = targets[1]}, &session, NULL);
  ck_assert_int_eq(status, REED_OK);
  ck_assert_int_eq(reed_session_run(session, inputs, 2, &y, 1, d), REED_ERROR_UNSUPPORTED);
  ck_assert_msg(strstr(reed_diagnosis_message(d), "Gemm node 'fc_node'") &&
                    strstr(reed_diagnosis_message(d), "input 0"),
                "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  reed_session_close(&session);
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
  for (size_t k = 0; k < 4; k++) runner_close(&runners[k]);
  build_close(&b);
}
END_TEST

/* ---- custom operators ---- */

static reed_status shape_like_input(reed_shape_call *call) {
  call->outputs[0].rank = call->inputs[0].rank;
  memcpy(call->outputs[0].dims, call->inputs[0].dims, sizeof(reed_dim) * (size_t)call->inputs[0].rank);
  return REED_OK;
}

static reed_status run_triple(const void *state, const reed_kernel_buffers *buffers) {
  const int64_t n = (int64_t)(intptr_t)state;
  for (int64_t i = 0; i < n; i++) ((float *)buffers->outputs[0])[i] = 3 * ((const float *)buffers->inputs[0])[i];
  return REED_OK;
}

static int n_triples; /* preparations of the accelerator's own kernel, which must see exact extents */
static reed_status prepare_triple(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t n = 1;
  for (int32_t i = 0; i < call->inputs[0].rank; i++) n *= call->inputs[0].dims[i];
  *out_kernel = (reed_kernel){.run = run_triple, .state = (void *)(intptr_t)n};
  return REED_OK;
}
static reed_status prepare_own_triple(const reed_kernel_call *call, reed_kernel *out_kernel) {
  ck_assert(!call->input_rooms && !call->output_rooms);
  n_triples++;
  return prepare_triple(call, out_kernel);
}

static runner custom_open(onnx_build *b, const reed_registry *registry, bool at_bound, const char *target,
                          const char *device, reed_graphs graphs) {
  runner r = {0};
  size_t n_onnx, n;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes;
  reed_diagnosis *d;
  const reed_compile_options options = {
      .registry = registry, .counts = at_bound ? REED_COUNTS_DEVICE : REED_COUNTS_HOST, .target = target};
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_compile_bytes(onnx, n_onnx, &options, &bytes, &n, &r.report, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &r.program, d);
  if (status == REED_OK)
    status = reed_session_open(r.program, &(reed_session_options){.device = device, .graphs = graphs}, &r.session, d);
  ck_assert_msg(status == REED_OK, "%s: %s", device, reed_diagnosis_message(d));
  reed_text_free(bytes);
  reed_diagnosis_close(&d);
  return r;
}

/* A custom operator between operators at the bound, with a kernel of its own for sim and none for the emulated GPU: the
 * count is fetched for it, with the reason, and the bits are the host's, with graphs and without. */
START_TEST(a_custom_operator_gets_the_count) {
  static const reed_op_input in[] = {{.name = "X", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
  static const reed_op_output out[] = {{.name = "Y", .type_rule = REED_TYPE_LIKE}};
  static const reed_op_kernel own = {"sim", prepare_own_triple};
  static const reed_op op = {.domain = "com.acme",
                             .name = "Triple",
                             .inputs = in,
                             .n_inputs = 1,
                             .outputs = out,
                             .n_outputs = 1,
                             .shape = shape_like_input,
                             .cpu = prepare_triple,
                             .kernels = &own,
                             .n_kernels = 1};
  reed_registry *registry;
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &op, NULL), REED_OK);
  onnx_build *b = base_open();
  build_node(b, "Exp", "pictures", "powers");
  build_node(b, "Triple", "powers", "tripled")->domain = "com.acme";
  build_node(b, "Neg", "tripled", "y");
  build_output(b, "y", "f32");
  enum { HOST, SIM, SIM_GRAPHS, CUDA, ALL };
  runner runners[ALL];
  const int n = cuda_is_present() ? ALL : CUDA;
  n_triples = 0;
  for (int k = 0; k < n; k++)
    runners[k] = custom_open(b, registry, k != HOST, k < CUDA ? NULL : "cuda",
                             k == HOST  ? "host"
                             : k < CUDA ? "sim"
                                        : "cuda-emulated?values=1",
                             k == SIM_GRAPHS || k == CUDA ? REED_GRAPHS_ON : REED_GRAPHS_OFF);
  for (int k = SIM; k < n; k++) {
    ck_assert_int_eq(figure(runners[k].report, "at_bound"), COUNTED_ROWS_AT_BOUND + 1);
    ck_assert_msg(strstr(runners[k].report, "Triple 'tripled_node': it is a custom operator"), "runner %d: %s", k,
                  strstr(runners[k].report, "\"epochs\""));
  }
  reed_tensor *inputs[2] = {tensor_of(2, (int64_t[]){4, 4}), tensor_of(4, (int64_t[]){16, 4, 6, 6})};
  for (int i = 0; i < 16 * 4 * 36; i++) ((float *)reed_tensor_data(inputs[1]))[i] = (float)(i % 7) / 4;
  for (int round = 0; round < 12; round++) { /* graphs are captured in a key's second run, replayed from the third on */
    const int share = round / 4 == 2 ? 0 : 2 + round / 4;
    for (int i = 0; i < 16; i++) ((float *)reed_tensor_data(inputs[0]))[i] = i % 4 < share ? 1.0f : -1.0f;
    run_all(runners, (size_t)n, inputs, 2, NULL);
  }
  ck_assert_int_ge(n_triples, 2);
  ck_assert_int_gt(statistic(&runners[SIM_GRAPHS], "replayed"), 0);
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
  for (int k = 0; k < n; k++) runner_close(&runners[k]);
  build_close(&b);
  reed_registry_close(&registry);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heads");
  TCase *cases = tcase_create("heads");
  tcase_set_timeout(cases, 60);
  suite_add_tcase(suite, cases);
  tcase_add_loop_test(cases, a_head_runs_at_the_bound_with_the_same_bits, 0, sizeof heads / sizeof *heads);
  tcase_add_test(cases, the_plan_says_why_a_count_is_fetched);
  tcase_add_test(cases, a_size_in_numbers_does_not_follow_the_count);
  tcase_add_test(cases, boxes_and_both_heads_stay_on_the_device);
  tcase_add_test(cases, a_device_reads_the_counts_that_its_list_names);
  tcase_add_test(cases, a_custom_operator_gets_the_count);
  return suite_run(suite);
}
