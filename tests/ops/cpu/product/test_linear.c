/* Conv, ConvTranspose, MatMul and Gemm against their references: every form of windows, groups and matrices, and the
 * calls that fall back to the reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/packed.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/drawn.h"
#include "tests/suite.h"

typedef struct conv_row {
  const char *what;
  int32_t rank;
  int64_t x[5], w[5];
  int64_t group;
  int64_t strides[3], dilations[3], pads[6];
} conv_row;

static const conv_row convolutions[] = {
    {"one element", 3, {1, 1, 1}, {1, 1, 1}, 1, {1}, {1}, {0}},
    {"1-D", 3, {2, 3, 11}, {4, 3, 3}, 1, {2}, {1}, {1, 1}},
    {"2-D 3x3", 4, {1, 5, 9, 7}, {6, 5, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"16 channels", 4, {1, 16, 12, 13}, {32, 16, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"stride and uneven pads", 4, {1, 3, 10, 11}, {8, 3, 5, 4}, 1, {2, 3}, {1, 1}, {2, 0, 1, 3}},
    {"stride that ends early", 4, {1, 4, 8, 8}, {4, 4, 3, 3}, 1, {2, 2}, {1, 1}, {0}},
    {"dilated", 4, {1, 4, 13, 12}, {4, 4, 3, 3}, 1, {1, 1}, {2, 3}, {2, 3, 2, 3}},
    {"groups", 4, {1, 8, 6, 6}, {6, 4, 3, 3}, 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"depthwise", 4, {2, 9, 6, 7}, {9, 1, 3, 3}, 9, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"1x1", 4, {1, 17, 5, 6}, {19, 17, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"many boxes", 4, {37, 4, 7, 7}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"31 boxes", 4, {31, 3, 5, 5}, {4, 3, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"no boxes", 4, {0, 4, 7, 7}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"no channels", 4, {1, 0, 4, 4}, {3, 0, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"tiles and panels", 4, {2, 20, 5, 41}, {83, 20, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"blocks of tap rows", 4, {1, 300, 4, 15}, {40, 300, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"blocks of tap rows, dilated", 4, {1, 300, 3, 33}, {40, 300, 3, 3}, 1, {1, 1}, {1, 12}, {1, 12, 1, 12}},
    {"blocks of taps", 4, {1, 900, 3, 5}, {17, 900, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"blocks of channels", 4, {1, 1200, 3, 3}, {33, 1200, 1, 1}, 1, {2, 2}, {1, 1}, {0}},
    {"blocks of channels, many taps", 4, {1, 2400, 2, 3}, {16, 2400, 1, 2}, 1, {1, 1}, {1, 1}, {0, 0, 0, 1}},
    {"rows a page apart", 4, {1, 1024, 3, 14}, {64, 1024, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"rows a page apart, stride 2", 4, {1, 512, 3, 14}, {70, 512, 3, 3}, 1, {2, 2}, {2, 2}, {2, 2, 2, 2}},
    {"small chunks", 4, {1, 70, 13, 11}, {150, 70, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"taps far apart", 4, {1, 40, 2, 2}, {8, 40, 1, 2}, 1, {1, 1}, {1, 1 << 22}, {0, 0, 0, 1 << 22}},
    {"one pixel", 4, {2, 3, 1, 1}, {4, 3, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"windows in the pads", 4, {1, 3, 2, 2}, {4, 3, 2, 2}, 1, {1, 1}, {1, 1}, {3, 3, 4, 3}},
    {"3-D", 5, {1, 3, 5, 6, 4}, {4, 3, 3, 2, 3}, 1, {1, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 0, 1}},
    {"pads that crop", 4, {1, 16, 12, 13}, {32, 16, 3, 3}, 1, {1, 1}, {1, 1}, {-1, -2, 0, -1}},
    {"pads that crop and pads that widen", 4, {2, 5, 11, 30}, {8, 5, 3, 4}, 1, {2, 2}, {1, 1}, {-2, 1, 1, -3}},
    {"1x1, shifted", 4, {2, 17, 5, 6}, {19, 17, 1, 1}, 1, {1, 1}, {1, 1}, {-1, 1, 1, -1}},
    {"groups of 10 outputs", 4, {2, 12, 6, 9}, {40, 3, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"groups of 70 outputs, stride 2", 4, {1, 6, 7, 9}, {140, 3, 3, 2}, 2, {2, 2}, {1, 1}, {1, 0, 1, 1}},
    {"groups of 4 outputs", 4, {1, 16, 14, 14}, {16, 4, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"groups of 8, as many outputs", 4, {2, 24, 9, 21}, {24, 8, 3, 3}, 3, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"groups of 8, stride 2, dilated", 4, {1, 40, 13, 22}, {40, 8, 3, 2}, 5, {2, 2}, {1, 2}, {1, 1, 0, 2}},
    {"groups of 2, odd width", 4, {1, 22, 5, 11}, {22, 2, 5, 3}, 11, {1, 1}, {1, 1}, {2, 1, 2, 1}},
    {"groups of 4, few channels", 4, {1, 12, 6, 19}, {12, 4, 3, 3}, 3, {1, 2}, {2, 1}, {1, 1, 1, 1}},
    {"groups of 2, two of them", 4, {1, 4, 6, 9}, {4, 2, 3, 3}, 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"a column, 5 taps", 4, {2, 20, 33, 1}, {40, 20, 5, 1}, 1, {1, 1}, {1, 1}, {0}},
    {"a column, stride 2, dilated", 4, {1, 20, 33, 1}, {24, 20, 3, 1}, 1, {2, 3}, {2, 1}, {2, 0, 3, 0}},
    {"a column, depthwise", 4, {2, 24, 33, 1}, {24, 1, 5, 1}, 24, {1, 1}, {1, 1}, {2, 0, 2, 0}},
    {"a column in a cube", 5, {1, 10, 1, 33, 1}, {20, 10, 1, 4, 1}, 1, {1, 1, 1}, {1, 1, 1}, {0, 1, 0, 0, 2, 0}},
    {"a column, padded aside", 4, {1, 10, 13, 1}, {20, 10, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"1-D, groups of 4", 3, {2, 20, 45}, {20, 4, 5}, 5, {1}, {2}, {3, 4}},
    {"1x1, groups of 8", 4, {1, 32, 3, 14}, {32, 8, 1, 1}, 4, {1, 1}, {1, 1}, {0}},
    {"depthwise, two outputs each", 4, {2, 5, 9, 21}, {10, 1, 3, 3}, 5, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"depthwise, seven outputs each", 4, {1, 3, 9, 11}, {21, 1, 3, 3}, 3, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"3-D groups", 5, {2, 6, 4, 5, 6}, {40, 3, 2, 3, 3}, 2, {2, 1, 2}, {1, 2, 1}, {1, 1, 0, 1, 2, 1}},
    {"3-D 1x1x1", 5, {2, 6, 4, 5, 6}, {24, 6, 1, 1, 1}, 1, {1, 1, 1}, {1, 1, 1}, {0}},
    {"3-D, blocks of depth", 5, {1, 70, 3, 4, 5}, {20, 70, 3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
    {"1-D, long, few outputs", 3, {1, 2, 2500}, {3, 2, 7}, 1, {1}, {1}, {3, 3}},
    {"1-D, stride 3", 3, {2, 5, 200}, {9, 5, 4}, 1, {3}, {2}, {2, 5}},
    {"1-D depthwise", 3, {2, 33, 77}, {33, 1, 31}, 33, {1}, {1}, {15, 15}},
    {"depthwise 7x7, small maps", 4, {2, 72, 7, 7}, {72, 1, 7, 7}, 72, {1, 1}, {1, 1}, {3, 3, 3, 3}},
    {"depthwise, stride 3", 4, {2, 40, 13, 12}, {40, 1, 5, 4}, 40, {3, 3}, {1, 1}, {2, 1, 2, 2}},
    {"depthwise, stride 3, bands of rows", 4, {1, 16, 150, 37}, {16, 1, 5, 5}, 16, {3, 3}, {1, 1}, {2, 2, 2, 2}},
    {"depthwise, stride 3, cropped", 4, {1, 20, 14, 15}, {20, 1, 3, 3}, 20, {3, 3}, {1, 2}, {-2, -1, -1, 3}},
    {"depthwise, rows of Y without X", 4, {1, 20, 3, 15}, {20, 1, 2, 3}, 20, {2, 3}, {1, 1}, {6, 1, 7, 1}},
    {"groups of 4, stride 2, bands of rows", 4, {1, 72, 70, 40}, {72, 4, 3, 3}, 18, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {"groups of 16, stride 2, bands of rows", 4, {2, 32, 70, 41}, {32, 16, 3, 3}, 2, {2, 2}, {1, 1}, {1, 0, 1, 1}},
    {"groups of 32, dilated, 48 outputs", 4, {1, 64, 9, 31}, {96, 32, 3, 2}, 2, {1, 1}, {2, 3}, {2, 3, 2, 0}},
    {"groups of 16, cropped", 4, {1, 32, 12, 13}, {64, 16, 3, 3}, 2, {1, 1}, {1, 1}, {-1, -2, 0, -1}},
    {"groups of 16, rows of Y without X", 4, {1, 32, 3, 15}, {32, 16, 2, 3}, 2, {2, 3}, {1, 1}, {6, 5, 7, 9}},
    {"1-D, groups of 16", 3, {2, 32, 45}, {64, 16, 5}, 2, {1}, {2}, {3, 4}},
    {"groups, cropped and dilated", 4, {1, 8, 9, 9}, {6, 4, 3, 3}, 2, {1, 1}, {2, 1}, {-1, 1, 2, -4}},
    {"tap rows beyond the image", 4, {1, 16, 7, 9}, {20, 16, 3, 3}, 1, {1, 1}, {4, 5}, {4, 5, 4, 5}},
    {"tap rows beyond the image, blocks of taps", 4, {1, 300, 4, 8}, {40, 300, 4, 3}, 1, {1, 2}, {3, 1}, {6, 1, 5, 1}},
    {"3-D, taps beyond the image", 5, {1, 16, 3, 4, 6}, {20, 16, 3, 3, 3}, 1, {1, 1, 1}, {2, 3, 1}, {2, 3, 1, 2, 3, 1}},
    {"3-D, cropped", 5, {1, 3, 5, 6, 4}, {4, 3, 2, 2, 3}, 1, {1, 2, 1}, {1, 1, 1}, {-1, 0, 1, -2, -1, 1}},
};

static const char *const activations[] = {
    NULL,
#define ACTIVATION(kind, text, ...) text,
#include "ops/activation.def"
};

/* The most products of a case of another type than f32 on the host: every level computes a convolution of such a type
 * with the reference, so that a longer case would only compare the reference with itself again, for most of the test's
 * time; longer matrices of f64 are in test_general.c. Other devices have kernels of their own for these types. */
#define OTHER_TYPES_MOST (1 << 20)
static bool is_long(int64_t n_products) {
  if (n_products <= OTHER_TYPES_MOST || case_devices_only()) return false;
  for (const char *const *device = case_devices(); *device; device++)
    if (!strstr(*device, "sim") && !strstr(*device, "emulated")) return false;
  return true;
}

static void extents_of_conv(const conv_row *row, int64_t *out_y) {
  out_y[0] = row->x[0], out_y[1] = row->w[0];
  for (int32_t i = 0; i < row->rank - 2; i++)
    out_y[2 + i] =
        (row->x[2 + i] + row->pads[i] + row->pads[row->rank - 2 + i] - (row->w[2 + i] - 1) * row->dilations[i] - 1) /
            row->strides[i] +
        1;
}

static int64_t products_of_conv(const conv_row *row) {
  int64_t y[5], n = row->w[1];
  extents_of_conv(row, y);
  for (int32_t i = 0; i < row->rank; i++) n *= y[i] * (i < 2 ? 1 : row->w[i]);
  return n;
}

/* turn_x: with channels last X has them last too. */
static void check_conv(const conv_row *row, bool turn_x, reed_dtype dtype, bool bias, bool residual,
                       const char *activation, bool constant) {
  kernel_case c;
  case_init(&c, OP_Conv);
  c.hide_values = !constant;
  case_input(&c, dtype, row->rank, row->x, 1);
  case_input(&c, dtype, row->rank, row->w, 1);
  int64_t y[5];
  extents_of_conv(row, y);
  if (bias) case_input(&c, dtype, 1, &row->w[0], 1);
  else if (residual) case_absent(&c);
  if (residual) case_input(&c, dtype, row->rank, y, 1);
  int64_t axes = row->rank - 2, terms = row->w[1];
  case_attr_int(&c, "group", row->group);
  case_attr_ints(&c, "strides", row->strides, axes);
  case_attr_ints(&c, "dilations", row->dilations, axes);
  case_attr_ints(&c, "pads", row->pads, 2 * axes);
  case_attr_activation(&c, activation);
  c.wants_in_place = residual;
  for (int64_t i = 0; i < axes; i++) terms *= row->w[2 + i];
  /* of f32: a sum of many terms may be small, and Winograd's transforms round their sums (test_winograd.c) */
  double relative = dtype == REED_F32 ? 1e-4 : case_tolerance(dtype),
         absolute = dtype == REED_F32 ? fmax(1e-4, 4e-6 * sqrt((double)terms)) : 2 * case_tolerance(dtype);
  if (!turn_x) case_attr_int(&c, "channels_first_input", 1);
  case_parity_orders(&c, (turn_x ? 1u << 0 : 0) | 1u << 3, relative, absolute);
}

START_TEST(conv_equals_the_reference_in_every_form) {
  const conv_row *row = &convolutions[_i];
  check_conv(row, true, REED_F32, false, false, NULL, true);
  check_conv(row, true, REED_F32, true, false, "relu", true);
  check_conv(row, true, REED_F32, true, true, "relu", false);
  check_conv(row, true, REED_F32, false, true, NULL, true);
  check_conv(row, false, REED_F32, true, true, "relu", true);
  if (is_long(products_of_conv(row))) return;
  check_conv(row, true, REED_F64, true, true, "sigmoid", true);
  check_conv(row, true, REED_F16, true, false, NULL, true);
  check_conv(row, true, REED_BF16, true, false, NULL, true);
  check_conv(row, false, REED_F64, true, true, NULL, true);
}
END_TEST

START_TEST(conv_ends_with_any_activation) {
  check_conv(&convolutions[3], true, REED_F32, true, true, activations[_i], true);
  check_conv(&convolutions[2], true, REED_F64, true, true, activations[_i], true);
}
END_TEST

/* A pixel that is not a number stays none under any activation, whoever computes the convolution. */
START_TEST(conv_keeps_nan) {
  static const int64_t groups[] = {1, 2, 12};
  for (size_t g = 0; g < 3; g++)
    for (int constant = 0; constant < 2; constant++) {
      kernel_case c;
      case_init(&c, OP_Conv);
      c.hide_values = !constant;
      value *x = case_input(&c, REED_F32, DIMS(1, 12, 6, 7), 1);
      case_input(&c, REED_F32, DIMS(24, 12 / groups[g], 3, 3), 1);
      case_set(x, 5, NAN);
      case_set(x, 12 * 42 - 1, -NAN);
      case_attr_int(&c, "group", groups[g]);
      case_attr_ints(&c, "pads", (int64_t[]){1, 1, 1, 1}, 4);
      case_attr_activation(&c, activations[_i]);
      case_parity_orders(&c, 1u << 0, 1e-4, 1e-4);
    }
}
END_TEST

START_TEST(matmul_keeps_nan) {
  for (int constant = 0; constant < 2; constant++) {
    kernel_case c;
    case_init(&c, OP_MatMul);
    c.hide_values = !constant;
    value *a = case_input(&c, REED_F32, DIMS(9, 20), 1);
    case_input(&c, REED_F32, DIMS(20, 70), 1);
    case_set(a, 45, NAN);
    case_attr_activation(&c, activations[_i]);
    case_parity(&c, 1e-4, 1e-4);
  }
}
END_TEST

/* Files hold weights in this order. */
START_TEST(packed_by_hand) {
  float plain[18 * 2 * 2], packed[32 * 2 * 2], back[18 * 2 * 2];
  for (int i = 0; i < 18 * 4; i++) plain[i] = (float)i; /* output * 4 + channel * 2 + tap */
  reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1}};
  reed_attr completed[32];
  const reed_attrs given = {items, 1}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  packed_order order;
  ck_assert(packed_order_of(op_builtin(OP_Conv), &attrs, &(reed_desc){REED_F32, 4, {18, 2, 1, 2}}, &order));
  ck_assert_int_eq(packed_desc(&order).dims[0], 128);
  packed_pack(&order, plain, packed);
  for (int tap = 0; tap < 2; tap++)
    for (int channel = 0; channel < 2; channel++)
      for (int i = 0; i < 32; i++)
        ck_assert_float_eq(packed[(tap * 2 + channel) * 32 + i], i < 18 ? (float)(i * 4 + channel * 2 + tap) : 0);
  packed_unpack(&order, packed, back);
  ck_assert_mem_eq(plain, back, sizeof plain);
  /* 70 outputs: a panel of 64, one of 16 */
  static float wide[70], panels[80];
  for (int i = 0; i < 70; i++) wide[i] = (float)i;
  ck_assert(packed_order_of(op_builtin(OP_MatMul), &(reed_attrs){NULL, 0}, &(reed_desc){REED_F32, 2, {1, 70}}, &order));
  packed_pack(&order, wide, panels);
  for (int i = 0; i < 80; i++) ck_assert_float_eq(panels[i], i < 70 ? (float)i : 0);
}
END_TEST

/* Packs the weights part by part and as a whole; returns the bytes of the largest part. */
static size_t check_parts(op_id op, const reed_attr *given, int32_t n_given, const reed_desc *plain) {
  reed_attr completed[32];
  const reed_attrs attrs = op_attrs_complete(op_builtin(op), &(reed_attrs){given, n_given}, completed);
  packed_order order;
  ck_assert(packed_order_of(op_builtin(op), &attrs, plain, &order));
  const reed_desc packed = packed_desc(&order);
  size_t n_plain = (size_t)desc_bytes(plain), n = (size_t)desc_bytes(&packed), largest = 0;
  uint8_t *elements = malloc(n_plain), *whole = malloc(n), *parts = malloc(n), *back = malloc(n_plain);
  ck_assert(elements && whole && parts && back);
  for (size_t i = 0; i < n_plain; i++) elements[i] = (uint8_t)(i * 31 + i / 251);
  packed_pack(&order, elements, whole);
  for (size_t at = 0, part; at < n; at += part) {
    part = packed_pack_part(&order, elements, at, NULL);
    ck_assert(part > 0 && part <= n - at);
    ck_assert_uint_eq(packed_pack_part(&order, elements, at, parts + at), part);
    if (part > largest) largest = part;
  }
  ck_assert_mem_eq(whole, parts, n);
  packed_unpack(&order, whole, back);
  ck_assert_mem_eq(elements, back, n_plain);
  free(elements), free(whole), free(parts), free(back);
  return largest;
}

START_TEST(parts_make_the_same_packed_weights) {
  const reed_attr last = {.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                  first = {.name = "channels_first_input", .type = REED_ATTR_INT, .i = 1},
                  group = {.name = "group", .type = REED_ATTR_INT, .i = 70},
                  strides = {.name = "strides", .type = REED_ATTR_INTS, .ints = (int64_t[]){2, 3}, .n = 2},
                  transposed = {.name = "transB", .type = REED_ATTR_INT, .i = 1};
  for (int half = 0; half < 2; half++) {
    const reed_dtype dtype = half ? REED_F16 : REED_F32;
    const reed_desc image = {dtype, 4, {150, 37, 3, 5}}, row = {dtype, 3, {64, 20, 7}},
                    depth = {dtype, 4, {70, 1, 3, 3}}, turned = {dtype, 4, {37, 70, 2, 3}},
                    deep = {dtype, 2, {20001, 90}}, wide = {dtype, 2, {90, 20001}};
    check_parts(OP_Conv, &last, 1, &image);
    check_parts(OP_Conv, (reed_attr[]){first, last}, 2, &image);
    check_parts(OP_Conv, &last, 1, &row);
    check_parts(OP_Conv, (reed_attr[]){last, group}, 2, &depth);
    check_parts(OP_ConvTranspose, (reed_attr[]){last, strides}, 2, &turned);
    size_t a_part = check_parts(OP_MatMul, NULL, 0, &deep); /* a deep panel has several parts */
    ck_assert_uint_lt(a_part, (size_t)20001 * 64 * reed_dtype_bytes(dtype));
    check_parts(OP_MatMul, NULL, 0, &wide);
    check_parts(OP_Gemm, &transposed, 1, &deep);
    check_parts(OP_Gemm, &transposed, 1, &wide);
  }
}
END_TEST

START_TEST(conv_auto_pads) {
  static const char *const words[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  for (int64_t stride = 1; stride <= 2; stride++) {
    kernel_case c;
    case_init(&c, OP_Conv);
    case_input(&c, REED_F32, DIMS(1, 3, 9, 8), 1);
    case_input(&c, REED_F32, DIMS(2, 3, 4, 3), 1);
    case_attr_string(&c, "auto_pad", words[_i]);
    case_attr_ints(&c, "strides", (int64_t[]){stride, stride}, 2);
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

/* X 1x1x3x3 of 1..9, W 2x2 of ones: sums of neighbours. */
START_TEST(conv_sums_a_small_case_by_hand) {
  kernel_case c;
  case_init(&c, OP_Conv);
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 3, 3), 0);
  for (int i = 0; i < 9; i++) case_set(x, i, i + 1);
  value *w = case_input(&c, REED_F32, DIMS(1, 1, 2, 2), 0);
  for (int i = 0; i < 4; i++) case_set(w, i, 1);
  case_expect(&c, (double[]){12, 16, 24, 28}, 4);
}
END_TEST

/* Not in ONNX, but in models: a negative pad of a convolution crops X, one of a transposed convolution widens Y with
 * pixels that no tap reaches, which are the bias. onnxruntime 1.31 gives the same. */
START_TEST(negative_pads_of_convolutions_are_computed) {
  kernel_case c;
  case_init(&c, OP_Conv);
  value *x = case_input(&c, REED_F32, DIMS(1, 1, 3, 3), 0);
  for (int i = 0; i < 9; i++) case_set(x, i, i + 1);
  value *w = case_input(&c, REED_F32, DIMS(1, 1, 2, 2), 0);
  for (int i = 0; i < 4; i++) case_set(w, i, 1);
  case_attr_ints(&c, "pads", (int64_t[]){-1, 1, 0, -1}, 4);
  case_expect(&c, (double[]){11, 24}, 2);
  case_init(&c, OP_ConvTranspose);
  x = case_input(&c, REED_F32, DIMS(1, 1, 2), 0);
  for (int i = 0; i < 2; i++) case_set(x, i, i + 1);
  w = case_input(&c, REED_F32, DIMS(1, 1, 2), 0);
  for (int i = 0; i < 2; i++) case_set(w, i, 1);
  case_set(case_input(&c, REED_F32, DIMS(1), 0), 0, 10);
  case_attr_ints(&c, "pads", (int64_t[]){-1, -2}, 2);
  case_expect(&c, (double[]){10, 11, 13, 12, 10, 10}, 6);
  case_init(&c, OP_Conv);
  case_input(&c, REED_F32, DIMS(1, 1, 3, 3), 1);
  case_input(&c, REED_F32, DIMS(1, 1, 1, 1), 1);
  case_attr_ints(&c, "pads", (int64_t[]){-2, 0, -1, 0}, 4);
  case_fails(&c, REED_ERROR_SHAPE, "no window fits extent 3 of axis 2");
}
END_TEST

static const struct {
  int32_t rank;
  int64_t x[5], w[5], group, strides[3], dilations[3], pads[6], output_padding[3];
} transposed[] = {
    {3, {1, 1, 1}, {1, 1, 1}, 1, {1}, {1}, {0}, {0}},
    {3, {2, 3, 5}, {3, 4, 3}, 1, {2}, {1}, {1, 1}, {1}},
    {4, {1, 16, 7, 7}, {16, 8, 2, 2}, 1, {2, 2}, {1, 1}, {0}, {0}},
    {4, {3, 20, 9, 4}, {20, 33, 3, 2}, 1, {3, 2}, {1, 1}, {0}, {0}},
    {4, {35, 4, 3, 3}, {4, 4, 2, 2}, 1, {2, 2}, {1, 1}, {0}, {0}},
    {4, {1, 6, 5, 4}, {6, 2, 3, 3}, 2, {1, 2}, {1, 1}, {1, 0, 0, 1}, {0, 1}},
    {4, {1, 3, 5, 4}, {3, 2, 3, 3}, 1, {3, 2}, {2, 1}, {1, 1, 2, 1}, {2, 0}},
    {4, {0, 4, 3, 3}, {4, 4, 2, 2}, 1, {2, 2}, {1, 1}, {0}, {0}},
    {5, {1, 2, 3, 3, 2}, {2, 3, 2, 3, 2}, 1, {2, 1, 2}, {1, 1, 1}, {0, 1, 0, 0, 1, 0}, {0}},
    {4, {2, 6, 5, 4}, {6, 3, 3, 3}, 1, {2, 2}, {1, 1}, {-1, 0, 0, -2}, {0}},
    {4, {1, 6, 5, 4}, {6, 2, 3, 3}, 2, {1, 2}, {1, 1}, {-1, 2, 1, -1}, {0, 1}},
    {4, {1, 16, 7, 7}, {16, 8, 2, 2}, 1, {2, 2}, {1, 1}, {-1, -1, -1, 0}, {0}},
    {4, {2, 12, 9, 8}, {12, 10, 4, 4}, 1, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0}},
    {4, {1, 12, 5, 6}, {12, 20, 3, 4}, 2, {4, 3}, {1, 1}, {0, 1, 1, 0}, {1, 2}},
    {4, {1, 6, 5, 6}, {6, 9, 3, 3}, 1, {2, 2}, {2, 3}, {1, 2, 1, 2}, {0}},
    {3, {1, 20, 30}, {20, 16, 16}, 1, {8}, {1}, {4, 4}, {0}},
    {5, {1, 8, 3, 4, 3}, {8, 9, 3, 4, 2}, 1, {2, 2, 3}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, {0}},
};

START_TEST(conv_transpose_equals_the_reference) {
  for (reed_dtype dtype = REED_F32; dtype <= REED_F64; dtype++)
    for (int act = 0; act < 2; act++) {
      kernel_case c;
      case_init(&c, OP_ConvTranspose);
      int64_t axes = transposed[_i].rank - 2, channels = transposed[_i].w[1] * transposed[_i].group;
      case_input(&c, dtype, transposed[_i].rank, transposed[_i].x, 1);
      case_input(&c, dtype, transposed[_i].rank, transposed[_i].w, 1);
      case_input(&c, dtype, 1, &channels, 1);
      case_attr_int(&c, "group", transposed[_i].group);
      case_attr_ints(&c, "strides", transposed[_i].strides, axes);
      case_attr_ints(&c, "dilations", transposed[_i].dilations, axes);
      case_attr_ints(&c, "pads", transposed[_i].pads, 2 * axes);
      case_attr_ints(&c, "output_padding", transposed[_i].output_padding, axes);
      case_attr_activation(&c, act ? "leaky_relu" : NULL);
      case_parity_orders(&c, 1u << 0, 1e-5, 1e-5);
    }
}
END_TEST

START_TEST(conv_transpose_takes_output_shape) {
  static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER"};
  kernel_case c;
  case_init(&c, OP_ConvTranspose);
  case_input(&c, REED_F32, DIMS(1, 2, 4, 4), 1);
  case_input(&c, REED_F32, DIMS(2, 3, 3, 3), 1);
  case_attr_string(&c, "auto_pad", words[_i]);
  case_attr_ints(&c, "strides", (int64_t[]){2, 2}, 2);
  case_attr_ints(&c, "output_shape", (int64_t[]){8, 7}, 2);
  case_parity(&c, 1e-5, 1e-5);
}
END_TEST

/* ---- products ---- */

static const struct {
  int32_t rank_a, rank_b;
  int64_t a[4], b[4];
} products[] = {
    {1, 1, {3}, {3}},
    {1, 2, {3}, {3, 5}},
    {2, 1, {4, 3}, {3}},
    {2, 2, {1, 1}, {1, 1}},
    {2, 2, {5, 7}, {7, 3}},
    {2, 2, {1000, 33}, {33, 20}},
    {2, 2, {63, 130}, {130, 70}},
    {2, 2, {3, 1500}, {1500, 200}},
    {2, 2, {130, 530}, {530, 530}},
    {2, 2, {70, 1100}, {1100, 100}},
    {2, 2, {0, 7}, {7, 3}},
    {2, 2, {5, 0}, {0, 3}},
    {3, 2, {3, 5, 7}, {7, 4}},
    {3, 1, {3, 5, 7}, {7}},
    {1, 3, {7}, {3, 7, 4}},
    {3, 3, {3, 5, 7}, {3, 7, 4}},
    {3, 3, {3, 5, 7}, {1, 7, 4}},
    {3, 3, {1, 5, 7}, {3, 7, 4}},
    {4, 4, {2, 1, 5, 6}, {1, 3, 6, 4}},
    {4, 3, {2, 3, 5, 6}, {3, 6, 4}},
    {3, 3, {0, 5, 7}, {0, 7, 4}},
};

START_TEST(matmul_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_I32, REED_I64, REED_U8, REED_F16};
  const int64_t *a = products[_i].a, *b = products[_i].b;
  bool f32_alone = products[_i].rank_a == 2 && products[_i].rank_b == 2 && is_long(a[0] * b[0] * b[1]);
  for (size_t d = 0; d < (f32_alone ? 1 : sizeof dtypes / sizeof *dtypes); d++)
    for (int constant = 0; constant < 2; constant++) {
      kernel_case c;
      case_init(&c, OP_MatMul);
      c.hide_values = !constant;
      case_input(&c, dtypes[d], products[_i].rank_a, products[_i].a, dtypes[d] == REED_F16 ? 1 : 3);
      case_input(&c, dtypes[d], products[_i].rank_b, products[_i].b, dtypes[d] == REED_F16 ? 1 : 3);
      double tolerance = dtypes[d] == REED_F32 ? 1e-4 : case_tolerance(dtypes[d]);
      case_parity(&c, tolerance, tolerance * 10);
    }
}
END_TEST

/* Rows that make tiles of every height, by panels of every width: the first of 64 columns, the last of 16, 32 or 48. */
START_TEST(matmul_of_every_tile) {
  for (int64_t width = 16; width <= 64; width += 16) {
    kernel_case c;
    case_init(&c, OP_MatMul);
    int64_t rows = _i + 1, outputs = 64 + width - (_i % 3);
    case_input(&c, REED_F32, DIMS(rows, 37), 1);
    case_input(&c, REED_F32, DIMS(37, outputs), 1);
    case_input(&c, REED_F32, DIMS(outputs), 1);
    case_attr_activation(&c, _i % 2 ? "relu" : NULL);
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

START_TEST(matmul_adds_bias_and_activates) {
  for (size_t k = 0; k < sizeof activations / sizeof *activations; k++)
    for (int full = 0; full < 3; full++) {
      kernel_case c;
      case_init(&c, OP_MatMul);
      case_input(&c, REED_F32, DIMS(3, 5, 7), 1);
      case_input(&c, REED_F32, DIMS(7, 4), 1);
      if (full == 1) case_input(&c, REED_F32, DIMS(5, 1), 1);
      else if (full == 2) case_input(&c, REED_F32, DIMS(3, 5, 4), 1);
      else case_input(&c, REED_F32, DIMS(4), 1);
      case_attr_activation(&c, activations[k]);
      case_parity(&c, 1e-5, 1e-5);
    }
}
END_TEST

static const struct {
  bool trans_a, trans_b;
  int32_t rank_c; /* -1: none */
  int64_t c[2];
  double alpha, beta;
} gemms[] = {
    {false, false, -1, {0}, 1, 1}, {false, true, 1, {5}, 1, 1},         {true, false, 2, {1, 5}, 1, 1},
    {true, true, 2, {3, 5}, 1, 1}, {false, true, 2, {3, 1}, 1, 1},      {false, false, 0, {0}, 1, 1},
    {false, true, 1, {5}, 0.5, 2}, {true, true, 2, {3, 5}, -1.5, 0.25}, {false, true, 1, {1}, 1, 1},
    {false, true, 1, {5}, 2, 0},
};

START_TEST(gemm_equals_the_reference) {
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_I32, REED_BF16};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (int64_t k = 0; k <= 17; k += 17) {
      kernel_case c;
      case_init(&c, OP_Gemm);
      int64_t a[2] = {gemms[_i].trans_a ? k : 3, gemms[_i].trans_a ? 3 : k},
              b[2] = {gemms[_i].trans_b ? 5 : k, gemms[_i].trans_b ? k : 5};
      case_input(&c, dtypes[d], 2, a, 1);
      case_input(&c, dtypes[d], 2, b, 1);
      if (gemms[_i].rank_c >= 0) case_input(&c, dtypes[d], gemms[_i].rank_c, gemms[_i].c, 1);
      case_attr_int(&c, "transA", gemms[_i].trans_a);
      case_attr_int(&c, "transB", gemms[_i].trans_b);
      case_attr_float(&c, "alpha", gemms[_i].alpha);
      case_attr_float(&c, "beta", gemms[_i].beta);
      case_attr_activation(&c, _i % 2 ? "relu" : NULL);
      double tolerance = dtypes[d] == REED_F32 ? 1e-5 : case_tolerance(dtypes[d]);
      case_parity(&c, tolerance, tolerance * 10);
    }
}
END_TEST

/* ---- random calls ---- */

START_TEST(random_convolutions_equal_the_reference) {
  drawn_state = (uint64_t)_i * 977 + 5;
  int64_t axes = drawn(1, 3), groups = drawn(0, 2) ? 1 : drawn(2, 4);
  bool transposed_too = _i % 3 == 0;
  int64_t channels = drawn(1, 24), outputs = drawn(1, 40);
  int64_t x[5] = {drawn(1, 3), channels * groups}, w[5], strides[3], dilations[3], pads[6];
  w[0] = transposed_too ? channels * groups : outputs * groups;
  w[1] = transposed_too ? outputs : channels;
  for (int64_t i = 0; i < axes; i++) {
    w[2 + i] = drawn(1, 4);
    strides[i] = drawn(1, 3);
    dilations[i] = drawn(1, 2);
    int64_t reach = (w[2 + i] - 1) * dilations[i] + 1;
    pads[i] = drawn(0, transposed_too ? reach / 2 : reach);
    pads[axes + i] = drawn(0, transposed_too ? reach / 2 : reach);
    x[2 + i] = reach + drawn(0, axes == 1 ? 90 : axes == 2 ? 20 : 5);
  }
  kernel_case c;
  case_init(&c, transposed_too ? OP_ConvTranspose : OP_Conv);
  c.hide_values = _i % 2;
  int64_t biases = outputs * groups;
  case_input(&c, REED_F32, (int32_t)axes + 2, x, 1);
  case_input(&c, REED_F32, (int32_t)axes + 2, w, 1);
  case_input(&c, REED_F32, 1, &biases, 1);
  case_attr_int(&c, "group", groups);
  case_attr_ints(&c, "strides", strides, axes);
  case_attr_ints(&c, "dilations", dilations, axes);
  case_attr_ints(&c, "pads", pads, 2 * axes);
  case_attr_activation(&c, activations[drawn(0, ROWS(activations) - 1)]);
  case_parity_orders(&c, 1u << 0, 1e-4, 1e-4);
}
END_TEST

START_TEST(random_products_equal_the_reference) {
  drawn_state = (uint64_t)_i * 1409 + 3;
  static const int64_t most[] = {3, 9, 70, 200};
  int64_t m = drawn(1, most[_i % 4]), k = drawn(1, most[_i / 4 % 4] * 5), n = drawn(1, most[_i / 16 % 4] * 2),
          batch = drawn(1, 3);
  kernel_case c;
  case_init(&c, OP_MatMul);
  c.hide_values = true;
  case_input(&c, REED_F32, DIMS(batch, m, k), 1);
  case_input(&c, REED_F32, DIMS(batch, k, n), 1);
  int64_t full[3] = {batch, m, n};
  if (_i % 3 == 1) case_input(&c, REED_F32, 3, full, 1);
  if (_i % 3 == 2) case_input(&c, REED_F32, 1, &n, 1);
  case_parity(&c, 1e-4, 1e-4);
  kernel_case g;
  case_init(&g, OP_Gemm);
  g.hide_values = true;
  bool a_turned = _i % 2, b_turned = _i / 2 % 2;
  case_input(&g, REED_F32, DIMS(a_turned ? k : m, a_turned ? m : k), 1);
  case_input(&g, REED_F32, DIMS(b_turned ? n : k, b_turned ? k : n), 1);
  if (_i % 3) case_input(&g, REED_F32, _i % 3, full + 3 - _i % 3, 1);
  case_attr_int(&g, "transA", a_turned);
  case_attr_int(&g, "transB", b_turned);
  case_attr_float(&g, "alpha", _i % 5 ? 1 : -0.5);
  case_parity(&g, 1e-4, 1e-4);
}
END_TEST

START_TEST(integer_matmul_wraps_in_its_own_width) {
  kernel_case c;
  case_init(&c, OP_MatMul);
  value *a = case_input(&c, REED_U8, DIMS(1, 2), 0), *b = case_input(&c, REED_U8, DIMS(2, 1), 0);
  for (int i = 0; i < 2; i++) case_set(a, i, 200), case_set(b, i, 2);
  case_expect(&c, (double[]){800 % 256}, 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linear kernels");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, packed_by_hand);
  tcase_add_test(t, parts_make_the_same_packed_weights);
  tcase_add_loop_test(t, conv_equals_the_reference_in_every_form, 0, ROWS(convolutions));
  tcase_add_loop_test(t, conv_ends_with_any_activation, 0, ROWS(activations));
  tcase_add_loop_test(t, conv_keeps_nan, 0, ROWS(activations));
  tcase_add_loop_test(t, conv_auto_pads, 0, 3);
  tcase_add_test(t, conv_sums_a_small_case_by_hand);
  tcase_add_test(t, negative_pads_of_convolutions_are_computed);
  tcase_add_loop_test(t, conv_transpose_equals_the_reference, 0, ROWS(transposed));
  tcase_add_loop_test(t, conv_transpose_takes_output_shape, 0, 3);
  tcase_add_loop_test(t, matmul_equals_the_reference, 0, ROWS(products));
  tcase_add_loop_test(t, matmul_of_every_tile, 0, 9);
  tcase_add_loop_test(t, matmul_keeps_nan, 0, ROWS(activations));
  tcase_add_test(t, matmul_adds_bias_and_activates);
  tcase_add_loop_test(t, gemm_equals_the_reference, 0, ROWS(gemms));
  tcase_add_loop_test(t, random_convolutions_equal_the_reference, 0, 60);
  tcase_add_loop_test(t, random_products_equal_the_reference, 0, 64);
  tcase_add_test(t, integer_matmul_wraps_in_its_own_width);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
