/* Conv with taps along one axis only, of sequences, rows, columns and slices, against the reference at every CPU level
 * and in both orders of axes. Long lines take Winograd's form (conv_winograd.c). */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

#define TOLERANCE 5e-5

static const struct {
  const char *what;
  int32_t rank;
  int64_t x[5], w[5];
  int64_t group;
  int64_t strides[3], dilations[3], pads[6];
} rows[] = {
    {"lines", 3, {1, 64, 301}, {64, 64, 3}, 1, {1}, {1}, {1, 1}},
    {"lines, 11 taps, dilated, uneven pads", 3, {2, 32, 257}, {48, 32, 11}, 1, {1}, {3}, {9, 21}},
    {"lines, stride 2", 3, {1, 128, 401}, {128, 128, 3}, 1, {2}, {1}, {0, 1}},
    {"lines, dilation beyond the length", 3, {1, 32, 9}, {32, 32, 3}, 1, {1}, {11}, {11, 11}},
    {"lines, cropped", 3, {1, 48, 120}, {48, 48, 5}, 1, {1}, {1}, {-2, 3}},
    {"lines, 2 groups, 31 taps", 3, {1, 64, 200}, {96, 32, 31}, 2, {1}, {1}, {15, 15}},
    {"lines that are rows", 4, {1, 32, 17, 30}, {40, 32, 1, 7}, 1, {1, 1}, {1, 1}, {0, 3, 0, 3}},
    {"lines that are columns", 4, {2, 32, 30, 17}, {40, 32, 7, 1}, 1, {1, 1}, {2, 1}, {4, 0, 6, 0}},
    {"lines across slices", 5, {1, 32, 12, 6, 5}, {32, 32, 3, 1, 1}, 1, {1, 1, 1}, {1, 1, 1}, {1, 0, 0, 1, 0, 0}},
    {"lines of slices' columns", 5, {1, 32, 4, 12, 5}, {32, 32, 1, 5, 1}, 1, {1, 1, 1}, {1, 1, 1}, {0, 2, 0, 0, 2, 0}},
};

START_TEST(lines_equal_the_reference) {
  for (int form = 0; form < 4; form++) { /* bit 0: weights that are no constants; bit 1: with bias and residual */
    const int32_t axes = rows[_i].rank - 2;
    int64_t y[5] = {rows[_i].x[0], rows[_i].w[0]};
    for (int32_t i = 0; i < axes; i++)
      y[2 + i] = (rows[_i].x[2 + i] + rows[_i].pads[i] + rows[_i].pads[axes + i] -
                  (rows[_i].w[2 + i] - 1) * rows[_i].dilations[i] - 1) /
                     rows[_i].strides[i] +
                 1;
    kernel_case c;
    case_init(&c, OP_Conv);
    c.hide_values = form % 2;
    case_input(&c, REED_F32, rows[_i].rank, rows[_i].x, 1);
    case_input(&c, REED_F32, rows[_i].rank, rows[_i].w, 1);
    if (form > 1) case_input(&c, REED_F32, DIMS(rows[_i].w[0]), 1);
    if (form > 1) case_input(&c, REED_F32, rows[_i].rank, y, 1);
    case_attr_int(&c, "group", rows[_i].group);
    case_attr_ints(&c, "strides", rows[_i].strides, axes);
    case_attr_ints(&c, "dilations", rows[_i].dilations, axes);
    case_attr_ints(&c, "pads", rows[_i].pads, 2 * axes);
    case_attr_activation(&c, form == 1 ? "leaky_relu" : form == 2 ? "relu" : NULL);
    case_parity_orders(&c, 1u << 0 | 1u << 3, TOLERANCE, 4 * TOLERANCE);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("lines");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, lines_equal_the_reference, 0, ROWS(rows));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
