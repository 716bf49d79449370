/* Data movement, gathers, scatters, pads, generators and selections: against the plain reference, or against elements
 * written here. */
#include <math.h>
#include <stdio.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const reed_dtype widths[] = {REED_U8, REED_BF16, REED_F32, REED_I64}; /* movement knows sizes only */
#define EACH_WIDTH(dtype) \
  for (int w_ = 0; w_ < 4; w_++) \
    for (reed_dtype dtype = widths[w_], once_ = 1; once_; once_ = 0)

START_TEST(transpose_of_every_permutation_and_shape) {
  static const int64_t dims[][4] = {{2, 3, 4, 5},   {1, 3, 1, 5},   {0, 3, 4, 5},
                                    {33, 2, 35, 3}, {1, 64, 9, 33}, {3, 1, 130, 131}};
  int64_t perm[4];
  for (size_t shape = 0; shape < sizeof dims / sizeof *dims; shape++)
    for (int p = 0; p < 256; p++) {
      int seen = 0;
      for (int d = 0; d < 4; d++) seen |= 1 << (perm[d] = p >> 2 * d & 3);
      if (seen != 15) continue;
      reed_dtype dtype = widths[(p + (int)shape) % 4];
      kernel_case c;
      case_init(&c, OP_Transpose);
      case_input(&c, dtype, 4, dims[shape], 100);
      case_attr_ints(&c, "perm", perm, 4);
      case_parity(&c, 0, 0);
    }
}
END_TEST

START_TEST(transpose_without_perm_reverses) {
  for (int rank = 0; rank < 5; rank++) {
    kernel_case c;
    case_init(&c, OP_Transpose);
    case_input(&c, REED_F32, rank, (const int64_t[]){5, 2, 3, 4}, 9);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(concat_along_every_axis_with_empty_parts) {
  EACH_WIDTH(dtype)
  for (int axis = -3; axis < 3; axis++) {
    kernel_case c;
    case_init(&c, OP_Concat);
    for (int k = 0; k < 4; k++) {
      int64_t dims[3] = {3, 4, 5};
      dims[axis < 0 ? axis + 3 : axis] = (k * 2) % 5;
      case_input(&c, dtype, 3, dims, 50);
    }
    case_attr_int(&c, "axis", axis);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(split_by_sizes_and_evenly) {
  EACH_WIDTH(dtype)
  for (int axis = 0; axis < 2; axis++)
    for (int sizes = 0; sizes < 2; sizes++) {
      kernel_case c;
      case_init(&c, OP_Split);
      case_input(&c, dtype, DIMS(7, 7), 50);
      if (sizes) case_ints(&c, 3, 4, 0, 3);
      case_attr_int(&c, "axis", axis);
      if (!sizes) case_attr_int(&c, "num_outputs", 3);
      c.n_outputs = 3;
      case_parity(&c, 0, 0);
    }
}
END_TEST

START_TEST(slice_forward_backward_and_out_of_range) {
  static const int slices[][3] = {{0, 100, 1},  {1, 6, 2}, {-1, -100, -1}, {5, 0, -2}, {100, -100, -3},
                                  {-3, 100, 1}, {4, 4, 1}, {2, 3, 1},      {6, 2, -3}};
  EACH_WIDTH(dtype)
  for (size_t a = 0; a < sizeof slices / sizeof *slices; a++)
    for (size_t b = 0; b < sizeof slices / sizeof *slices; b++) {
      kernel_case c;
      case_init(&c, OP_Slice);
      case_input(&c, dtype, DIMS(7, 3, 9), 50);
      case_ints(&c, 2, slices[a][0], slices[b][0]);
      case_ints(&c, 2, slices[a][1], slices[b][1]);
      case_ints(&c, 2, 0, -1);
      case_ints(&c, 2, slices[a][2], slices[b][2]);
      case_parity(&c, 0, 0);
    }
}
END_TEST

START_TEST(expand_and_tile_repeat) {
  EACH_WIDTH(dtype) {
    kernel_case c;
    case_init(&c, OP_Expand);
    case_input(&c, dtype, DIMS(3, 1, 5), 50);
    case_ints(&c, 4, 2, 1, 4, 1);
    case_parity(&c, 0, 0);
    case_init(&c, OP_Expand);
    case_input(&c, dtype, DIMS(1), 50);
    case_ints(&c, 2, 0, 3);
    case_parity(&c, 0, 0);
    case_init(&c, OP_Expand);
    case_input(&c, dtype, DIMS(130, 1), 50);
    case_ints(&c, 2, 130, 1031);
    case_parity(&c, 0, 0);
    case_init(&c, OP_Tile);
    case_input(&c, dtype, DIMS(2, 3, 4), 50);
    case_ints(&c, 3, 3, 1, 2);
    case_parity(&c, 0, 0);
    case_init(&c, OP_Tile);
    case_input(&c, dtype, DIMS(2, 3), 50);
    case_ints(&c, 2, 3, 0);
    case_parity(&c, 0, 0);
  }
}
END_TEST

START_TEST(depth_and_space) {
  EACH_WIDTH(dtype)
  for (int mode = 0; mode < 3; mode++) {
    kernel_case c;
    case_init(&c, mode == 2 ? OP_SpaceToDepth : OP_DepthToSpace);
    if (mode == 2) case_input(&c, dtype, DIMS(2, 3, 4, 6), 50);
    else case_input(&c, dtype, DIMS(2, 12, 3, 5), 50);
    case_attr_int(&c, "blocksize", 2);
    if (mode < 2) case_attr_string(&c, "mode", mode ? "CRD" : "DCR");
    case_parity_orders(&c, 1u << 0, 0, 0);
  }
}
END_TEST

START_TEST(views_copy_when_they_must) {
  kernel_case c;
  case_init(&c, OP_Reshape);
  case_input(&c, REED_F32, DIMS(40, 1001), 50);
  case_ints(&c, 2, -1, 40);
  case_parity(&c, 0, 0);
  case_init(&c, OP_Flatten);
  case_input(&c, REED_U8, DIMS(0, 3), 50);
  case_parity(&c, 0, 0);
}
END_TEST

START_TEST(pad_in_every_mode_and_sign) {
  static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
  static const int pads[][4] = {{0, 0, 0, 0}, {1, 2, 3, 1}, {-1, 0, 0, -2}, {2, -1, -1, 4}, {9, 11, 8, 13}};
  EACH_WIDTH(dtype)
  for (int m = 0; m < 4; m++)
    for (size_t p = 0; p < sizeof pads / sizeof *pads; p++)
      for (int axes = 0; axes < 2; axes++) {
        kernel_case c;
        case_init(&c, OP_Pad);
        case_input(&c, dtype, DIMS(4, 5), 50);
        case_ints(&c, 4, pads[p][0], pads[p][1], pads[p][2], pads[p][3]);
        if (p % 2) case_scalar(&c, dtype, 7);
        else case_absent(&c);
        if (axes) case_ints(&c, 2, -1, 0);
        case_attr_string(&c, "mode", modes[m]);
        case_parity(&c, 0, 0);
      }
}
END_TEST

/* A negative pad crops first; the remaining elements are then repeated. */
START_TEST(pad_repeats_only_what_the_crop_leaves) {
  static const struct {
    const char *mode;
    int pads[2], n;
    double y[8];
  } rows[] = {
      {"wrap", {-1, 2}, 6, {1, 2, 3, 4, 1, 2}},
      {"wrap", {2, -1}, 6, {2, 3, 0, 1, 2, 3}},
      {"wrap", {-2, 3}, 6, {2, 3, 4, 2, 3, 4}},
      {"wrap", {-4, 3}, 4, {4, 4, 4, 4}},
      {"reflect", {-1, 2}, 6, {1, 2, 3, 4, 3, 2}},
      {"reflect", {2, -1}, 6, {2, 1, 0, 1, 2, 3}},
      {"reflect", {-3, 4}, 6, {3, 4, 3, 4, 3, 4}},
      {"reflect", {3, -4}, 4, {0, 0, 0, 0}},
      {"edge", {-1, 2}, 6, {1, 2, 3, 4, 4, 4}},
      {"edge", {3, -4}, 4, {0, 0, 0, 0}},
      {"constant", {-1, 2}, 6, {1, 2, 3, 4, 0, 0}},
      {"constant", {3, -4}, 4, {0, 0, 0, 0}},
      {"constant", {-6, 3}, 2, {0, 0}},
      {"wrap", {-1, -1}, 3, {1, 2, 3}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kernel_case c;
    case_init(&c, OP_Pad);
    value *x = case_input(&c, REED_F32, DIMS(5), 0);
    for (int k = 0; k < 5; k++) case_set(x, k, k);
    case_ints(&c, 2, rows[i].pads[0], rows[i].pads[1]);
    case_attr_string(&c, "mode", rows[i].mode);
    case_expect(&c, rows[i].y, rows[i].n);
  }
  /* two axes: 0..14 as 3 by 5, without its first row and its first column, then a row and two columns more */
  kernel_case c;
  case_init(&c, OP_Pad);
  value *x = case_input(&c, REED_I64, DIMS(3, 5), 0);
  for (int k = 0; k < 15; k++) case_set(x, k, k);
  case_ints(&c, 4, -1, -1, 1, 2);
  case_attr_string(&c, "mode", "wrap");
  case_expect(&c, (double[]){6, 7, 8, 9, 6, 7, 11, 12, 13, 14, 11, 12, 6, 7, 8, 9, 6, 7}, 18);
  static const char *const modes[] = {"wrap", "reflect", "edge"};
  for (int m = 0; m < 3; m++) {
    case_init(&c, OP_Pad);
    case_input(&c, REED_F32, DIMS(5), 3);
    case_ints(&c, 2, -5, 3);
    case_attr_string(&c, "mode", modes[m]);
    case_fails(&c, REED_ERROR_SHAPE, "cannot pad an extent of 5 by -5 and 3");
  }
}
END_TEST

START_TEST(pad_of_images_and_of_nothing) {
  kernel_case c;
  case_init(&c, OP_Pad);
  case_input(&c, REED_F32, DIMS(1, 3, 90, 133), 50);
  case_ints(&c, 8, 0, 0, 1, 1, 0, 0, 5, 27);
  case_parity(&c, 0, 0);
  case_init(&c, OP_Pad);
  case_input(&c, REED_F32, DIMS(0, 3), 50);
  case_ints(&c, 4, 2, 0, 0, 1);
  case_parity(&c, 0, 0);
  case_init(&c, OP_Pad);
  case_scalar(&c, REED_F32, 3);
  case_input(&c, REED_I64, DIMS(0), 0);
  case_parity(&c, 0, 0);
}
END_TEST

/* ---- indices ---- */

/* Fills an index input with values in -extent..extent-1. */
static void fill_indices(value *v, int64_t extent) {
  for (int64_t i = 0; i < desc_elements(&v->desc); i++)
    case_set(v, i, (double)((i * 7919 + 3) % (2 * extent) - extent));
}

START_TEST(gather_from_every_axis) {
  EACH_WIDTH(dtype)
  for (int axis = -3; axis < 3; axis++)
    for (int rank = 0; rank < 3; rank++) {
      kernel_case c;
      int64_t dims[3] = {5, 4, 6};
      case_init(&c, OP_Gather);
      case_input(&c, dtype, 3, dims, 50);
      fill_indices(case_input(&c, rank % 2 ? REED_I32 : REED_I64, rank, (const int64_t[]){3, 2}, 0),
                   dims[axis < 0 ? axis + 3 : axis]);
      case_attr_int(&c, "axis", axis);
      case_parity(&c, 0, 0);
    }
}
END_TEST

/* The kernel names outputs that are parts of the input. If an output is given the part's memory, the kernel leaves the
 * input's elements as they are. */
static void check_parts(kernel_case *c, int n_outputs, int n_parts) {
  double sum = 0, after = 0;
  int64_t n = desc_elements(&c->inputs[0].desc);
  c->n_outputs = n_outputs;
  c->parts = true;
  for (int64_t i = 0; i < n; i++) sum += (double)(i + 1) * case_get(&c->inputs[0], i);
  ck_assert_int_eq(case_run(c, "base"), REED_OK);
  for (int64_t i = 0; i < n; i++) after += (double)(i + 1) * case_get(&c->inputs[0], i);
  ck_assert_int_eq(c->n_parts, n_parts);
  ck_assert_double_eq(sum, after);
  case_close(c);
}

START_TEST(outputs_that_are_stretches_of_the_input_are_named) {
  kernel_case c;
  for (int inner = 0; inner < 2; inner++) { /* along axis 1, whose only outer extent is 1; along axis 2 */
    case_init(&c, OP_Split);
    case_input(&c, REED_F32, DIMS(1, 6, 4), 50);
    case_attr_int(&c, "axis", 1 + inner);
    case_attr_int(&c, "num_outputs", 2);
    check_parts(&c, 2, inner ? 0 : 2);
    case_init(&c, OP_Slice);
    case_input(&c, REED_F32, DIMS(1, 6, 4), 50);
    case_ints(&c, 1, 2);
    case_ints(&c, 1, 4);
    case_ints(&c, 1, 1 + inner);
    check_parts(&c, 1, inner ? 0 : 1);
    case_init(&c, OP_Gather);
    case_input(&c, REED_F32, DIMS(1, 6, 4), 50);
    case_scalar(&c, REED_I64, -2);
    case_attr_int(&c, "axis", 1 + inner);
    check_parts(&c, 1, inner ? 0 : 1);
  }
  case_init(&c, OP_Slice); /* backwards */
  case_input(&c, REED_F32, DIMS(6), 50);
  case_ints(&c, 1, 4);
  case_ints(&c, 1, 2);
  case_ints(&c, 1, 0);
  case_ints(&c, 1, -1);
  check_parts(&c, 1, 0);
  case_init(&c, OP_Gather); /* the index is known in the run only */
  c.hide_values = true;
  case_input(&c, REED_F32, DIMS(6, 4), 50);
  case_scalar(&c, REED_I64, 2);
  check_parts(&c, 1, 0);
}
END_TEST

START_TEST(gather_of_many_and_of_none) {
  kernel_case c;
  case_init(&c, OP_Gather);
  case_input(&c, REED_F32, DIMS(100, 37), 50);
  fill_indices(case_input(&c, REED_I64, DIMS(900), 0), 100);
  case_parity(&c, 0, 0);
  case_init(&c, OP_Gather);
  case_input(&c, REED_F32, DIMS(0, 37), 50);
  case_input(&c, REED_I64, DIMS(0), 0);
  case_parity(&c, 0, 0);
}
END_TEST

START_TEST(gather_elements_and_nd) {
  EACH_WIDTH(dtype) {
    kernel_case c;
    for (int axis = -2; axis < 2; axis++) {
      case_init(&c, OP_GatherElements);
      case_input(&c, dtype, DIMS(6, 5), 50);
      fill_indices(case_input(&c, REED_I64, DIMS(4, 5), 0), axis == 0 || axis == -2 ? 6 : 5);
      case_attr_int(&c, "axis", axis);
      case_parity(&c, 0, 0);
    }
    for (int axis = 0; axis < 3; axis++) {
      static const int64_t dims[] = {7, 9, 5};
      case_init(&c, OP_GatherElements);
      case_input(&c, dtype, 3, dims, 50);
      fill_indices(case_input(&c, axis % 2 ? REED_I64 : REED_I32, DIMS(axis ? 6 : 30, axis == 1 ? 400 : 8, 4), 0),
                   (int)dims[axis]);
      case_attr_int(&c, "axis", axis);
      case_parity(&c, 0, 0);
    }
    for (int batch = 0; batch < 2; batch++)
      for (int64_t n = 0; n < 3; n++) {
        case_init(&c, OP_GatherND);
        case_input(&c, dtype, DIMS(3, 3, 3), 50);
        fill_indices(case_input(&c, REED_I64, DIMS(3, 5, n), 0), 3);
        case_attr_int(&c, "batch_dims", batch);
        if (n == 0 && batch == 0) c.inputs[1].desc.dims[2] = 0;
        case_parity(&c, 0, 0);
      }
  }
}
END_TEST

START_TEST(indices_out_of_range_are_diagnosed) {
  static const op_id ops[] = {OP_Gather, OP_GatherElements, OP_GatherND, OP_ScatterElements, OP_ScatterND};
  for (int o = 0; o < 5; o++)
    for (int low = 0; low < 2; low++) {
      bool tuples = ops[o] == OP_GatherND || ops[o] == OP_ScatterND;
      kernel_case c;
      case_init(&c, ops[o]);
      case_input(&c, REED_F32, DIMS(5), 50);
      value *v = case_input(&c, REED_I64, tuples ? 2 : 1, (const int64_t[]){3, 1}, 0);
      case_set(v, 2, low ? -6 : 5);
      if (o >= 3) case_input(&c, REED_F32, DIMS(3), 50);
      case_fails(&c, REED_ERROR_VALUE,
                 low ? "index -6 (element 2) is outside -5..4" : "index 5 (element 2) is outside -5..4");
    }
}
END_TEST

START_TEST(scatter_with_every_reduction_and_dtype) {
  static const char *const reductions[] = {"none", "add", "mul", "max", "min"};
  for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++)
    for (int r = 0; r < 5; r++) {
      kernel_case c;
      double tolerance = case_tolerance(dtype);
      for (int axis = -2; axis < 2; axis++) {
        case_init(&c, OP_ScatterElements);
        case_input(&c, dtype, DIMS(6, 5), 4);
        fill_indices(case_input(&c, axis % 2 ? REED_I32 : REED_I64, DIMS(4, 3), 0), axis == 0 || axis == -2 ? 6 : 5);
        case_input(&c, dtype, DIMS(4, 3), 4);
        case_attr_int(&c, "axis", axis);
        case_attr_string(&c, "reduction", reductions[r]);
        case_parity(&c, tolerance, tolerance);
      }
      for (int64_t n = 1; n < 3; n++) {
        case_init(&c, OP_ScatterND);
        case_input(&c, dtype, DIMS(4, 4, 3), 4);
        fill_indices(case_input(&c, REED_I64, DIMS(2, n), 0), 4);
        case_input(&c, dtype, n == 1 ? 3 : 2, n == 1 ? (const int64_t[]){2, 4, 3} : (const int64_t[]){2, 3}, 4);
        case_attr_string(&c, "reduction", reductions[r]);
        case_parity(&c, tolerance, tolerance);
      }
    }
}
END_TEST

START_TEST(the_last_of_two_updates_stays) {
  kernel_case c;
  case_init(&c, OP_ScatterND);
  case_input(&c, REED_F32, DIMS(3), 0);
  value *v = case_input(&c, REED_I64, DIMS(3, 1), 0);
  for (int i = 0; i < 3; i++) case_set(v, i, i == 1 ? 2 : 1);
  v = case_input(&c, REED_F32, DIMS(3), 0);
  for (int i = 0; i < 3; i++) case_set(v, i, i + 10);
  case_expect(&c, (const double[]){0, 12, 11}, 3);
}
END_TEST

/* ---- generators, selections ---- */

START_TEST(shape_size_and_range) {
  kernel_case c;
  case_init(&c, OP_Shape);
  case_input(&c, REED_F32, DIMS(2, 0, 5), 0);
  case_expect(&c, (const double[]){2, 0, 5}, 3);
  case_init(&c, OP_Shape);
  case_input(&c, REED_F32, DIMS(2, 3, 5), 0);
  case_attr_int(&c, "start", -2);
  case_attr_int(&c, "end", 2);
  case_expect(&c, (const double[]){3}, 1);
  case_init(&c, OP_Size);
  case_input(&c, REED_F32, DIMS(2, 3, 5), 0);
  case_expect(&c, (const double[]){30}, 1);
  for (reed_dtype dtype = REED_F32; dtype <= REED_I64; dtype++) {
    case_init(&c, OP_Range);
    case_scalar(&c, dtype, 9);
    case_scalar(&c, dtype, 2);
    case_scalar(&c, dtype, -3);
    case_expect(&c, (const double[]){9, 6, 3}, 3);
  }
  case_init(&c, OP_Range);
  case_scalar(&c, REED_I64, 3);
  case_scalar(&c, REED_I64, 3);
  case_scalar(&c, REED_I64, 1);
  case_expect(&c, NULL, 0);
}
END_TEST

static void extreme_range(kernel_case *c, reed_dtype dtype, int64_t start, int64_t limit, int64_t delta) {
  const int64_t numbers[] = {start, limit, delta};
  case_init(c, OP_Range);
  for (int i = 0; i < 3; i++)
    memcpy(case_scalar(c, dtype, 0)->data, &numbers[i], reed_dtype_bytes(dtype)); /* little-endian */
}

/* Distances that do not fit in 64 bits with a sign. */
START_TEST(range_from_end_to_end_of_its_dtype) {
  kernel_case c;
  extreme_range(&c, REED_I64, INT64_MIN, INT64_MAX, (int64_t)1 << 62);
  case_expect(&c, (const double[]){-0x1p63, -0x1p62, 0, 0x1p62}, 4);
  extreme_range(&c, REED_I64, INT64_MAX, INT64_MIN, -((int64_t)1 << 62));
  case_expect(&c, (const double[]){0x1p63, 0x1p62, -1, -0x1p62}, 4); /* 2^63 - 1, 2^62 - 1, -1, -2^62 - 1 */
  extreme_range(&c, REED_I64, INT64_MAX, INT64_MIN, INT64_MIN);
  case_expect(&c, (const double[]){0x1p63, -1}, 2);
  extreme_range(&c, REED_I64, INT64_MIN, INT64_MAX, INT64_MIN);
  case_expect(&c, NULL, 0);
  extreme_range(&c, REED_I64, INT64_MIN, INT64_MIN + 1, INT64_MAX);
  case_expect(&c, (const double[]){-0x1p63}, 1);
  extreme_range(&c, REED_I32, INT32_MIN, INT32_MAX, 1 << 30);
  case_expect(&c, (const double[]){-0x1p31, -0x1p30, 0, 0x1p30}, 4);
  extreme_range(&c, REED_I64, INT64_MIN, INT64_MAX, 1);
  case_fails(&c, REED_ERROR_VALUE, "no count of steps from -9223372036854775808 to 9223372036854775807 by 1");
}
END_TEST

START_TEST(constants) {
  kernel_case c;
  const int16_t elements[] = {4, -5};
  case_init(&c, OP_ConstantOfShape);
  case_ints(&c, 2, 2, 1);
  case_expect(&c, (const double[]){0, 0}, 2);
  case_init(&c, OP_ConstantOfShape);
  case_ints(&c, 2, 2, 2);
  c.attrs[c.n_attrs++] =
      (reed_attr){.name = "value", .type = REED_ATTR_TENSOR, .n = 1, .desc = {REED_I16, 1, {1}}, .data = elements + 1};
  case_expect(&c, (const double[]){-5, -5, -5, -5}, 4);
  case_init(&c, OP_Constant);
  c.attrs[c.n_attrs++] =
      (reed_attr){.name = "value", .type = REED_ATTR_TENSOR, .n = 2, .desc = {REED_I16, 1, {2}}, .data = elements};
  case_expect(&c, (const double[]){4, -5}, 2);
}
END_TEST

START_TEST(dropout_is_the_identity_and_refuses_to_train) {
  kernel_case c;
  case_init(&c, OP_Dropout);
  case_set(case_input(&c, REED_F32, DIMS(3), 0), 1, 5);
  c.n_outputs = 2;
  case_expect(&c, (const double[]){0, 5, 0}, 3);
  case_init(&c, OP_Dropout);
  case_input(&c, REED_F32, DIMS(3), 0);
  case_scalar(&c, REED_F32, 0.25);
  case_scalar(&c, REED_BOOL, 1);
  case_fails(&c, REED_ERROR_UNSUPPORTED, "training with ratio 0.25");
}
END_TEST

START_TEST(nonzero_lists_coordinates_dense_for_their_number) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_BOOL; dtype++) {
    kernel_case c;
    case_init(&c, OP_NonZero);
    value *v = case_input(&c, dtype, DIMS(2, 3), 0);
    case_set(v, 1, 1);
    case_set(v, 5, 1);
    if (dtype <= REED_BF16) case_set(v, 0, -0.0);
    case_expect(&c, (const double[]){0, 1, 1, 2}, 4);
    case_init(&c, OP_NonZero);
    case_input(&c, dtype, DIMS(0, 3), 0);
    case_expect(&c, NULL, 0);
  }
}
END_TEST

START_TEST(compress_keeps_what_the_condition_says) {
  for (int flat = 0; flat < 2; flat++) {
    kernel_case c;
    case_init(&c, OP_Compress);
    value *v = case_input(&c, REED_F32, DIMS(2, 3), 0);
    for (int i = 0; i < 6; i++) case_set(v, i, i);
    value *condition = case_input(&c, REED_BOOL, DIMS(3), 0);
    case_set(condition, 0, 1);
    case_set(condition, 2, 1);
    if (!flat) case_attr_int(&c, "axis", -1);
    if (flat) case_expect(&c, (const double[]){0, 2}, 2);
    else case_expect(&c, (const double[]){0, 2, 3, 5}, 4);
  }
}
END_TEST

/* More elements than a block of a device counts, some stretches without any that is set. */
START_TEST(nonzero_and_compress_of_many) {
  enum { ROWS_OF = 3, N = 3100, MOST_SET = ROWS_OF * N };
  static double places[2 * MOST_SET], kept[MOST_SET];
  for (int every = 1; every <= 7; every += 3) {
    kernel_case c;
    int64_t n = 0;
    case_init(&c, OP_NonZero);
    value *v = case_input(&c, REED_I32, DIMS(ROWS_OF, N), 0);
    for (int64_t i = 0; i < MOST_SET; i++)
      if (i % every == 0 && !(i >= 2048 && i < 4200)) case_set(v, i, (double)(i + 1)), n++;
    for (int64_t i = 0, k = 0; i < MOST_SET; i++)
      if (case_get(v, i) != 0) places[k] = (double)(i / N), places[n + k++] = (double)(i % N);
    case_expect(&c, places, 2 * n);
    case_init(&c, OP_Compress);
    v = case_input(&c, REED_I64, DIMS(ROWS_OF, N), 1000);
    value *condition = case_input(&c, REED_BOOL, DIMS(N), 0);
    n = 0;
    for (int64_t i = 0; i < N; i++) case_set(condition, i, i % every == 0 && i != 2100);
    for (int64_t i = 0; i < MOST_SET; i++)
      if (case_get(condition, i % N) != 0) kept[n++] = case_get(v, i);
    case_attr_int(&c, "axis", 1);
    case_expect(&c, kept, n);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("movement");
  TCase *tc = tcase_create("movement");
  tcase_set_timeout(tc, 240);
  tcase_add_test(tc, transpose_of_every_permutation_and_shape);
  tcase_add_test(tc, transpose_without_perm_reverses);
  tcase_add_test(tc, concat_along_every_axis_with_empty_parts);
  tcase_add_test(tc, split_by_sizes_and_evenly);
  tcase_add_test(tc, slice_forward_backward_and_out_of_range);
  tcase_add_test(tc, expand_and_tile_repeat);
  tcase_add_test(tc, depth_and_space);
  tcase_add_test(tc, views_copy_when_they_must);
  tcase_add_test(tc, pad_in_every_mode_and_sign);
  tcase_add_test(tc, pad_repeats_only_what_the_crop_leaves);
  tcase_add_test(tc, pad_of_images_and_of_nothing);
  tcase_add_test(tc, gather_from_every_axis);
  tcase_add_test(tc, gather_of_many_and_of_none);
  tcase_add_test(tc, outputs_that_are_stretches_of_the_input_are_named);
  tcase_add_test(tc, gather_elements_and_nd);
  tcase_add_test(tc, indices_out_of_range_are_diagnosed);
  tcase_add_test(tc, scatter_with_every_reduction_and_dtype);
  tcase_add_test(tc, the_last_of_two_updates_stays);
  tcase_add_test(tc, shape_size_and_range);
  tcase_add_test(tc, range_from_end_to_end_of_its_dtype);
  tcase_add_test(tc, constants);
  tcase_add_test(tc, dropout_is_the_identity_and_refuses_to_train);
  tcase_add_test(tc, nonzero_lists_coordinates_dense_for_their_number);
  tcase_add_test(tc, compress_keeps_what_the_condition_says);
  tcase_add_test(tc, nonzero_and_compress_of_many);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
